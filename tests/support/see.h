/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * see.h - what a program can see of its mappings, in words that are the same
 * from run to run.
 *
 * The programs of tests/shim run with and without the preload and must print
 * the same, so nothing here prints an address, a descriptor or a time. Output
 * goes to a descriptor by write(2), one whole line a call: it survives fork,
 * _exit and programs that close their descriptors.
 */
#ifndef FL_TESTS_SUPPORT_SEE_H
#define FL_TESTS_SUPPORT_SEE_H

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEE __attribute__((unused)) static
#define PAGE ((size_t)4096)
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

SEE int see_fd = 1;

SEE __attribute__((format(printf, 1, 2))) void say(const char *fmt, ...)
{
	char line[1024];
	size_t done = 0;
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	if (len < 0)
		abort();
	if ((size_t)len > sizeof(line) - 2)
		len = (int)sizeof(line) - 2;
	line[len++] = '\n';
	while (done < (size_t)len) {
		ssize_t n = write(see_fd, line + done, (size_t)len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			_exit(98);
		done += (size_t)n;
	}
}

/* A failure of the test's own set-up: neither run may get here. */
SEE __attribute__((noreturn)) void give_up(const char *what)
{
	say("set-up failed: %s: %s", what, strerrorname_np(errno));
	_exit(99);
}

SEE const char *ename(int err)
{
	const char *name = strerrorname_np(err);

	return err == 0 ? "ok" : name ? name : "E?";
}

/* Calls that return -1 and errno, and calls that return MAP_FAILED. */
SEE const char *res_i(long r)
{
	return r == -1 ? ename(errno) : "ok";
}

SEE const char *res_p(const void *p)
{
	return p == MAP_FAILED ? ename(errno) : "ok";
}

#define SAY_I(call) say("%s: %s", #call, res_i((long)(call)))
#define SAY_P(call) say("%s: %s", #call, res_p(call))

/*
 * Contents: byte @off of file @id, any byte of which tells its neighbours and
 * its file apart.
 */
SEE unsigned char byte_of(unsigned int id, size_t off)
{
	uint64_t x = ((uint64_t)id << 40) ^ off;

	x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
	return (unsigned char)((x >> 56) | 1); /* never zero */
}

SEE uint64_t sum_of(const volatile void *p, size_t len)
{
	const volatile unsigned char *b = p;
	uint64_t h = 1469598103934665603u;

	for (size_t i = 0; i < len; i++)
		h = (h ^ b[i]) * 1099511628211u;
	return h;
}

/* The first offset where @p is not what file @id holds from @off, or -1. */
SEE long differs(const volatile void *p, unsigned int id, size_t off,
		 size_t len)
{
	const volatile unsigned char *b = p;

	for (size_t i = 0; i < len; i++)
		if (b[i] != byte_of(id, off + i))
			return (long)i;
	return -1;
}

/* The first offset where @p is not @c, or -1. */
SEE long not_all(const volatile void *p, int c, size_t len)
{
	const volatile unsigned char *b = p;

	for (size_t i = 0; i < len; i++)
		if (b[i] != (unsigned char)c)
			return (long)i;
	return -1;
}

SEE void fill_as(void *p, unsigned int id, size_t off, size_t len)
{
	unsigned char *b = p;

	for (size_t i = 0; i < len; i++)
		b[i] = byte_of(id, off + i);
}

SEE const char *temp_dir(void)
{
	const char *dir = getenv("TMPDIR");

	return dir && *dir ? dir : "/tmp";
}

/*
 * A file of @size bytes of file @id, already unlinked, opened @oflag
 * (O_RDONLY, O_WRONLY or O_RDWR).
 */
SEE int temp_file(unsigned int id, size_t size, int oflag)
{
	char name[512];
	unsigned char buf[65536];
	int fd, ret;

	snprintf(name, sizeof(name), "%s/fl-test-XXXXXX", temp_dir());
	fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0)
		give_up("mkostemp");
	for (size_t off = 0; off < size;) {
		size_t n = size - off < sizeof(buf) ? size - off : sizeof(buf);

		fill_as(buf, id, off, n);
		if (write(fd, buf, n) != (ssize_t)n)
			give_up("write");
		off += n;
	}
	fchmod(fd, 0644);
	ret = open(name, oflag | O_CLOEXEC);
	if (ret < 0)
		give_up("open");
	close(fd);
	unlink(name);
	return ret;
}

/*
 * One access, with its outcome: 0, or the signal, its code and the offset of
 * the faulting address from the one tried. For one thread at a time. A fault
 * outside a trial ends the program.
 */
struct see_fault {
	int sig;
	int code;
	long off;
};

SEE sigjmp_buf see_jump;
SEE volatile struct see_fault see_last;
SEE volatile uintptr_t see_at;
SEE volatile sig_atomic_t see_armed;

SEE void see_handler(int sig, siginfo_t *si, void *uc)
{
	(void)uc;
	if (!see_armed) {
		say("signal %d outside a trial", sig);
		_exit(97);
	}
	see_armed = 0;
	see_last.sig = sig;
	see_last.code = si->si_code;
	see_last.off = (long)((uintptr_t)si->si_addr - see_at);
	siglongjmp(see_jump, 1);
}

SEE void see_faults(void)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_sigaction = see_handler;
	sa.sa_flags = SA_SIGINFO;
	sigemptyset(&sa.sa_mask);
	if (sigaction(SIGSEGV, &sa, NULL) || sigaction(SIGBUS, &sa, NULL))
		give_up("sigaction");
}

SEE const char *fault_name(void)
{
	static char bufs[4][64]; /* as many to a line */
	static unsigned int next;
	char *buf = bufs[next++ % 4];
	const char *sig = see_last.sig == SIGSEGV ? "SIGSEGV" : "SIGBUS";
	const char *code = "?";

	if (!see_last.sig)
		return "ok";
	if (see_last.sig == SIGSEGV && see_last.code == SEGV_MAPERR)
		code = "MAPERR";
	else if (see_last.sig == SIGSEGV && see_last.code == SEGV_ACCERR)
		code = "ACCERR";
	else if (see_last.sig == SIGBUS && see_last.code == BUS_ADRERR)
		code = "ADRERR";
	snprintf(buf, sizeof(bufs[0]), "%s/%s%+ld", sig, code, see_last.off);
	return buf;
}

/* Tries to read the byte at @p; see_faults() must have been called. */
SEE const char *try_read(const volatile void *p)
{
	see_last.sig = 0;
	see_at = (uintptr_t)p;
	see_armed = 1;
	if (!sigsetjmp(see_jump, 1))
		(void)*(const volatile unsigned char *)p;
	see_armed = 0;
	return fault_name();
}

/* Tries to write @c to @p. */
SEE const char *try_write(volatile void *p, unsigned char c)
{
	see_last.sig = 0;
	see_at = (uintptr_t)p;
	see_armed = 1;
	if (!sigsetjmp(see_jump, 1))
		*(volatile unsigned char *)p = c;
	see_armed = 0;
	return fault_name();
}

/*
 * Which of @pages pages from @p are mapped, as a string of '#' and '.'.
 * Asks mincore(2): a pager's own pages must answer as the kernel's do.
 */
SEE const char *layout(const void *p, size_t pages)
{
	static char buf[257];
	unsigned char vec;

	if (pages > sizeof(buf) - 1)
		pages = sizeof(buf) - 1;
	for (size_t i = 0; i < pages; i++) {
		char *at = (char *)(uintptr_t)p + i * PAGE;

		buf[i] = mincore(at, PAGE, &vec) == 0 ? '#' :
			 errno == ENOMEM              ? '.' :
							'!';
	}
	buf[pages] = 0;
	return buf;
}

/* The exit of child @pid in words. */
SEE const char *end_of(pid_t pid)
{
	static __thread char buf[32]; /* threads fork, too */
	int st;

	while (waitpid(pid, &st, 0) < 0)
		if (errno != EINTR)
			return "lost";
	if (WIFEXITED(st))
		snprintf(buf, sizeof(buf), "exit %d", WEXITSTATUS(st));
	else
		snprintf(buf, sizeof(buf), "signal %d", WTERMSIG(st));
	return buf;
}

/*
 * The path of the pager's preload library when this process runs under it,
 * else NULL. For tests that put it in an order of their own, and for those
 * whose question the kernel alone cannot answer.
 */
SEE const char *preload_path(void)
{
	static char path[1024];
	const char *s = getenv("LD_PRELOAD");

	while (s && *s) {
		size_t n = strcspn(s, ": ");

		if (n < sizeof(path)) {
			memcpy(path, s, n);
			path[n] = 0;
			if (strstr(path, "faultline"))
				return path;
		}
		s += n;
		s += strspn(s, ": ");
	}
	return NULL;
}

/* True while no call has changed errno since errno_mark(). */
#define ERRNO_MARK 2999
SEE void errno_mark(void)
{
	errno = ERRNO_MARK;
}

SEE int errno_kept(void)
{
	return errno == ERRNO_MARK;
}

#endif
