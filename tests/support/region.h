/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * region.h - for the tests of demand regions: pagers of either delivery, files
 * and stores whose every word tells where it belongs, and accesses that may end
 * in a signal. Criterion programs.
 */
#ifndef FL_TESTS_SUPPORT_REGION_H
#define FL_TESTS_SUPPORT_REGION_H

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "faultline.h"
#include "support/stress.h"

#define DEMAND __attribute__((unused)) static

#define PAGE ((size_t)4096)
#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define FILE_ID 7

/* The same test in both deliveries; @fault is the option's value. */
#define BOTH(suite, name)                    \
	static void name(const char *fault); \
	Test(suite, name##_signal)           \
	{                                    \
		name("signal");              \
	}                                    \
	Test(suite, name##_service)          \
	{                                    \
		name("service");             \
	}                                    \
	static void name(const char *fault)

/* A pager; the test is skipped where there can be no demand regions. */
DEMAND __attribute__((format(printf, 2, 3))) struct fl_pager *
pager_of(const char *fault, const char *more, ...)
{
	static bool said;
	struct fl_pager *p = NULL;
	char text[300], extra[200] = "";
	va_list ap;
	void *r;
	int ret;

	if (more) {
		va_start(ap, more);
		vsnprintf(extra, sizeof(extra), more, ap);
		va_end(ap);
	}
	snprintf(text, sizeof(text), "fault=%s%s%s", fault, more ? "," : "",
		 extra);
	ret = fl_pager_open(&p, text);
	cr_assert_eq(ret, 0, "%s: %d", text, ret);
	if (said)
		return p;
	said = true;
	r = fl_region_map_file(p, open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
			       0, 1, PROT_READ, 0);
	if (FL_IS_ERR(r) && FL_PTR_ERR(r) == -ENOTSUP)
		cr_skip_test("fault=%s: no userfaultfd of that kind", fault);
	cr_assert_not(FL_IS_ERR(r), "probe: %d", FL_PTR_ERR(r));
	cr_assert_eq(fl_pager_munmap(p, r, 1), 0);
	return p;
}

DEMAND uint64_t count(struct fl_pager *p, const char *name)
{
	uint64_t v = 0;

	cr_assert_eq(fl_stat_read(p, name, &v), 0, "%s", name);
	return v;
}

/* A file of @len bytes of words, unlinked, open for both. */
DEMAND int words_file(size_t len, uint64_t id)
{
	static char buf[1 << 20];
	char name[] = "/tmp/fl-integ-XXXXXX";
	int fd = mkstemp(name);

	cr_assert_geq(fd, 0);
	unlink(name);
	for (size_t at = 0; at < len; at += sizeof(buf)) {
		size_t n = len - at < sizeof(buf) ? len - at : sizeof(buf);

		words_fill(buf, id, at, n);
		cr_assert_eq(write(fd, buf, n), (ssize_t)n);
	}
	fsync(fd);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	return fd;
}

DEMAND unsigned char *mapped(struct fl_pager *p, int fd, size_t off, size_t len)
{
	unsigned char *r =
		fl_region_map_file(p, fd, (off_t)off, len, PROT_READ, 0);

	cr_assert_not(FL_IS_ERR(r), "map %zu + %zu: %d", off, len,
		      FL_PTR_ERR(r));
	cr_assert_eq(fl_find(p, r), 3);
	return r;
}

/* Page @i of a region at byte @off of a file of @size bytes: wrong words. */
DEMAND size_t page_bad(const unsigned char *r, size_t i, uint64_t id,
		       size_t off, size_t size)
{
	size_t at = off + i * PAGE, have;

	have = at >= size ? 0 : size - at < PAGE ? size - at : PAGE;
	return words_wrong(r + i * PAGE, id, at, have) +
	       zero_wrong(r + i * PAGE + have, PAGE - have);
}

DEMAND size_t pages_of(size_t len)
{
	return (len + PAGE - 1) / PAGE;
}

/* All pages, in order. */
DEMAND size_t range_bad(const unsigned char *r, size_t len, uint64_t id,
			size_t off, size_t size)
{
	size_t bad = 0;

	for (size_t i = 0; i < pages_of(len); i++)
		bad += page_bad(r, i, id, off, size);
	return bad;
}

/* What became of an access. */
struct touched {
	int sig; /* 0: none */
	int code;
	void *addr;
	unsigned char byte;
};

static __thread sigjmp_buf touch_env;
static __thread volatile struct touched touch_is;

DEMAND void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)context;
	touch_is.sig = sig;
	touch_is.code = info->si_code;
	touch_is.addr = info->si_addr;
	siglongjmp(touch_env, 1);
}

/* Once, for touch(). */
DEMAND void catch_faults(void)
{
	struct sigaction sa = { .sa_sigaction = on_fault,
				.sa_flags = SA_SIGINFO };

	cr_assert_eq(fl_sigaction(SIGBUS, &sa, NULL), 0);
	cr_assert_eq(fl_sigaction(SIGSEGV, &sa, NULL), 0);
}

DEMAND struct touched touch(const void *addr)
{
	struct touched ret;

	touch_is.sig = touch_is.code = 0;
	touch_is.addr = NULL;
	touch_is.byte = 0;
	if (sigsetjmp(touch_env, 1) == 0)
		touch_is.byte = *(const volatile unsigned char *)addr;
	ret.sig = touch_is.sig;
	ret.code = touch_is.code;
	ret.addr = touch_is.addr;
	ret.byte = touch_is.byte;
	return ret;
}

DEMAND bool bus_at(const void *addr)
{
	struct touched t = touch(addr);

	return t.sig == SIGBUS && t.code == BUS_ADRERR && t.addr == addr;
}

/* ---------------------------------------------------------------------------
 * A store of the test's own
 */

struct words_store {
	uint64_t id;
	size_t size;
	int err;                 /* of bad pages, > 0 */
	size_t bad, every;       /* pages n with n % every == bad; 0: none */
	_Atomic(uint64_t) reads; /* calls */
	_Atomic(uint64_t) bytes;
	_Atomic(int) released;
};

DEMAND ssize_t words_read(void *store, void *buf, size_t len, uint64_t off)
{
	struct words_store *s = store;

	atomic_fetch_add_explicit(&s->reads, 1, memory_order_relaxed);
	if (off >= s->size)
		return 0;
	if (len > s->size - off)
		len = s->size - off;
	for (size_t i = 0; s->every && i < len; i += PAGE)
		if ((off + i) / PAGE % s->every == s->bad)
			return -s->err;
	words_fill(buf, s->id, off, len);
	atomic_fetch_add_explicit(&s->bytes, len, memory_order_relaxed);
	return (ssize_t)len;
}

DEMAND void words_release(void *store)
{
	struct words_store *s = store;

	atomic_fetch_add_explicit(&s->released, 1, memory_order_relaxed);
}

static const struct fl_store_ops words_ops = {
	.size = sizeof(words_ops),
	.read = words_read,
	.release = words_release,
};

#endif
