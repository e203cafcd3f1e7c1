// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * log.c - the formatter, the log line and BUG().
 */
#include <signal.h>

#include "base/log.h"
#include "base/sys.h"
#include "base/ban.h"

#define LOG_LINE_MAX 512
#define LOG_RETRIES 16

_Atomic(uint32_t) log_level_now = FL_LOG_WARN;

struct fmt_out {
	char *buf;
	size_t size;
	size_t len;
};

/* One conversion, as parsed. */
struct fmt_spec {
	unsigned int width;
	bool left;
	bool zero;
	unsigned int length; /* 0 int, 1 long or size_t, 2 long long */
};

static void put_char(struct fmt_out *o, char c)
{
	if (o->len + 1 < o->size)
		o->buf[o->len++] = c;
}

static void put_text(struct fmt_out *o, const struct fmt_spec *sp,
		     const char *s, size_t n)
{
	size_t pad = sp->width > n ? sp->width - n : 0;

	for (size_t i = 0; !sp->left && i < pad; i++)
		put_char(o, ' ');
	for (size_t i = 0; i < n; i++)
		put_char(o, s[i]);
	for (size_t i = 0; sp->left && i < pad; i++)
		put_char(o, ' ');
}

static void put_num(struct fmt_out *o, const struct fmt_spec *sp,
		    unsigned long long v, unsigned int base, bool neg)
{
	char tmp[24];
	char *p = tmp + sizeof(tmp);
	char *end = p;

	do {
		*--p = "0123456789abcdef"[v % base];
		v /= base;
	} while (v);
	if (sp->zero && !sp->left)
		while (p > tmp + 1 && (size_t)(end - p) + neg < sp->width)
			*--p = '0';
	if (neg)
		*--p = '-';
	put_text(o, sp, p, (size_t)(end - p));
}

static unsigned long long arg_unsigned(va_list *ap, unsigned int length)
{
	switch (length) {
	case 0:
		return va_arg(*ap, unsigned int);
	case 1:
		return va_arg(*ap, unsigned long);
	default:
		return va_arg(*ap, unsigned long long);
	}
}

static long long arg_signed(va_list *ap, unsigned int length)
{
	switch (length) {
	case 0:
		return va_arg(*ap, int);
	case 1:
		return va_arg(*ap, long);
	default:
		return va_arg(*ap, long long);
	}
}

static size_t text_len(const char *s)
{
	size_t n = 0;

	while (s[n])
		n++;
	return n;
}

static void put_conv(struct fmt_out *o, const struct fmt_spec *sp, char conv,
		     va_list *ap)
{
	const char *s;
	long long d;
	char c;

	switch (conv) {
	case 's':
		s = va_arg(*ap, const char *);
		if (!s)
			s = "(null)";
		put_text(o, sp, s, text_len(s));
		break;
	case 'c':
		c = (char)va_arg(*ap, int);
		put_text(o, sp, &c, 1);
		break;
	case 'd':
	case 'i':
		d = arg_signed(ap, sp->length);
		put_num(o, sp,
			d < 0 ? 0ULL - (unsigned long long)d :
				(unsigned long long)d,
			10, d < 0);
		break;
	case 'u':
		put_num(o, sp, arg_unsigned(ap, sp->length), 10, false);
		break;
	case 'x':
		put_num(o, sp, arg_unsigned(ap, sp->length), 16, false);
		break;
	case 'p':
		put_char(o, '0');
		put_char(o, 'x');
		put_num(o, sp, (uintptr_t)va_arg(*ap, void *), 16, false);
		break;
	default:
		put_char(o, '%');
		if (conv != '%')
			put_char(o, conv);
	}
}

static const char *parse_spec(const char *f, struct fmt_spec *sp)
{
	*sp = (struct fmt_spec){ 0 };
	for (; *f == '0' || *f == '-'; f++) {
		if (*f == '0')
			sp->zero = true;
		else
			sp->left = true;
	}
	for (; *f >= '0' && *f <= '9'; f++)
		sp->width = sp->width * 10 + (unsigned int)(*f - '0');
	for (; *f == 'l' || *f == 'z'; f++)
		sp->length++;
	return f;
}

static void fmt_run(struct fmt_out *o, const char *fmt, va_list *ap)
{
	for (const char *f = fmt; *f; f++) {
		struct fmt_spec sp;

		if (*f != '%') {
			put_char(o, *f);
			continue;
		}
		f = parse_spec(f + 1, &sp);
		if (!*f)
			break;
		put_conv(o, &sp, *f, ap);
	}
	if (o->size)
		o->buf[o->len] = '\0';
}

size_t log_vfmt(char *buf, size_t size, const char *fmt, va_list ap)
{
	struct fmt_out o = { .buf = buf, .size = size };
	va_list copy;

	va_copy(copy, ap);
	fmt_run(&o, fmt, &copy);
	va_end(copy);
	return o.len;
}

size_t log_fmt(char *buf, size_t size, const char *fmt, ...)
{
	va_list ap;
	size_t n;

	va_start(ap, fmt);
	n = log_vfmt(buf, size, fmt, ap);
	va_end(ap);
	return n;
}

static void emit(const char *line, size_t n)
{
	unsigned int retries = 0;

	while (n) {
		long w = sys_write(STDERR_FILENO, line, n);

		/* Bounded: a seccomp filter may answer so every time. */
		if (w == -EINTR && retries++ < LOG_RETRIES)
			continue;
		if (w <= 0)
			return;
		line += w;
		n -= (size_t)w;
	}
}

void fl_log(enum log_level level, const char *fmt, ...)
{
	char line[LOG_LINE_MAX];
	va_list ap;
	size_t n;

	if ((uint32_t)level > ld_rlx(&log_level_now))
		return;
	n = log_fmt(line, sizeof(line), "faultline[%ld]: ", sys_getpid());
	va_start(ap, fmt);
	n += log_vfmt(line + n, sizeof(line) - 1 - n, fmt, ap);
	va_end(ap);
	line[n++] = '\n';
	emit(line, n);
}

void fl_bug(const char *file, int line, const char *what)
{
	char text[LOG_LINE_MAX];
	size_t n = log_fmt(text, sizeof(text),
			   "faultline[%ld]: BUG at %s:%d: %s\n", sys_getpid(),
			   file, line, what);

	emit(text, n);
	sys_call3(__NR_tgkill, sys_getpid(), sys_gettid(), SIGABRT);
	/* SIGABRT is blocked, ignored or handled by the program. */
	__builtin_trap();
}
