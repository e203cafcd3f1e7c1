// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * own-store.c - regions whose bytes come from functions of one's own.
 *
 *	cc -O2 own-store.c -o own-store $(pkg-config --cflags --libs faultline)
 *	./own-store [options]
 * or, to look at a file in zstd's seekable format (faultline-zstd-pack(1)) too,
 *	cc -O2 -DWITH_ZSTD own-store.c -o own-store \
 *		$(pkg-config --cflags --libs faultline faultline-zstd)
 *	./own-store options packed-file plain-file
 *
 * Three stores, each looked at in places:
 *  - a table of 2^37 numbers, a terabyte, that are computed when they are
 *    looked at;
 *  - the same, some pages of which cannot be had: SIGBUS, and how a program goes
 *    on; fl_prefetch() and fl_region_error() tell without one;
 *  - a compressed file, compared with the plain one.
 * Exit status 1 if a byte is wrong or an error is not told; 77: no demand
 * regions on this system.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <faultline.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef WITH_ZSTD
#include <faultline-zstd.h>
#endif

#define OPTIONS "mem=4M"
#define PAGE 4096u
#define LOOKS 20000u

static int bad;

static void check(int ok, const char *what)
{
	if (!ok) {
		printf("WRONG: %s\n", what);
		bad = 1;
	}
}

static uint64_t number(uint64_t i)
{
	i = (i ^ i >> 30) * 0xbf58476d1ce4e5b9;
	i = (i ^ i >> 27) * 0x94d049bb133111eb;
	return i ^ i >> 31;
}

/* ---------------------------------------------------------------------------
 * The store. Its functions run in the thread that touches a page, in a signal
 * handler (fault=signal), or in threads of the pager: no malloc, no stdio, no
 * locks that the program may hold. What they need is in the structure.
 */

struct table {
	uint64_t bad_every; /* each so manieth page cannot be had; 0: none */
	int released;
};

static ssize_t table_read(void *store, void *buf, size_t len, uint64_t off)
{
	const struct table *t = store;
	uint64_t *out = buf;

	for (size_t i = 0; i < len / sizeof(*out); i++) {
		uint64_t page = (off + i * sizeof(*out)) / PAGE;

		/* A read may be of many pages: those before a bad one count,
		 * so that it fails alone. */
		if (t->bad_every && page % t->bad_every == t->bad_every - 1)
			return i ? (ssize_t)(i * sizeof(*out)) : -EIO;
		out[i] = number(off / sizeof(*out) + i);
	}
	return (ssize_t)len;
}

static void table_release(void *store)
{
	((struct table *)store)->released = 1;
}

static const struct fl_store_ops table_ops = {
	.size = sizeof(table_ops),
	.read = table_read,
	.release = table_release,
};

static void *map(struct fl_pager *p, struct table *t, size_t len,
		 unsigned int flags)
{
	void *a = fl_region_map(p, &table_ops, t, 0, len, PROT_READ, flags);

	if (!FL_IS_ERR(a))
		return a;
	if (FL_PTR_ERR(a) == -ENOTSUP) {
		fputs("no userfaultfd for this process: 'faultline doctor' "
		      "tells more\n",
		      stderr);
		exit(77);
	}
	errx(2, "fl_region_map: %s", strerror(-FL_PTR_ERR(a)));
}

/* ---------------------------------------------------------------------------
 * A terabyte
 */

static void look_around(struct fl_pager *p)
{
	size_t len = (size_t)1 << 40, n = len / sizeof(uint64_t);
	struct table t = { 0 };
	const uint64_t *a = map(p, &t, len, FL_REGION_RANDOM);
	uint64_t held = 0;

	for (uint64_t k = 0; k < LOOKS; k++) {
		size_t i = (size_t)(number(~k) % n);

		if (a[i] != number(i)) {
			check(0, "a number of the table");
			break;
		}
	}
	check(a[0] == number(0) && a[n - 1] == number(n - 1), "the ends");
	fl_stat_read(p, "demand_bytes", &held);
	printf("a terabyte in %" PRIu64 " KiB\n", held >> 10);
	check(fl_pager_munmap(p, (void *)a, len) == 0, "munmap");
}

/* ---------------------------------------------------------------------------
 * Pages that cannot be had
 */

static sigjmp_buf recover;
static volatile sig_atomic_t reading;
static void *volatile where;

/* Only what the pager cannot serve arrives here. */
static void on_bus(int sig, siginfo_t *si, void *context)
{
	(void)context;
	where = si->si_addr;
	if (reading)
		siglongjmp(recover, 1);
	signal(sig, SIG_DFL); /* somebody else's: the default at the retry */
}

static int try_read(const uint64_t *p, uint64_t *value)
{
	if (sigsetjmp(recover, 1))
		return 0;
	reading = 1;
	*value = *(const volatile uint64_t *)p;
	reading = 0;
	return 1;
}

static void meet_errors(struct fl_pager *p)
{
	size_t pages = 1000, len = pages * PAGE, per = PAGE / sizeof(uint64_t);
	struct sigaction sa = { .sa_sigaction = on_bus,
				.sa_flags = SA_SIGINFO };
	struct table t = { .bad_every = 97 };
	const uint64_t *a = map(p, &t, len, 0), *at;
	unsigned int errors = 0;
	uint64_t v;

	/* Not sigaction(2): the pager's handler has to stay the first. */
	if (fl_sigaction(SIGBUS, &sa, NULL))
		err(2, "fl_sigaction");
	for (size_t i = 0; i < pages; i++) {
		at = a + i * per + i % per;
		if (i % 97 == 96) {
			errors++;
			check(!try_read(at, &v) && where == at, "no SIGBUS");
			check(fl_region_error(p, at) == EIO, "the error");
		} else {
			check(try_read(at, &v) &&
				      v == number(i * per + i % per),
			      "a page beside a bad one");
			check(fl_region_error(p, at) == 0, "no error");
		}
	}
	check(errors == 10, "ten bad pages");
	check(fl_prefetch(p, a, 50 * PAGE) == 0, "prefetch");
	check(fl_prefetch(p, a, len) == -EIO, "prefetch over a bad page");
	check(fl_region_error(p, &v) == -EFAULT, "not in a region");
	check(fl_pager_munmap(p, (void *)a, len) == 0, "munmap");
	printf("%u bad pages, all others served\n", errors);
}

/* ---------------------------------------------------------------------------
 * A store that comes with the library
 */

static void look_into_zstd(struct fl_pager *p, const char *packed,
			   const char *plain)
{
#ifdef WITH_ZSTD
	int fd = open(packed, O_RDONLY | O_CLOEXEC);
	int want_fd = open(plain, O_RDONLY | O_CLOEXEC);
	char want[PAGE];
	struct stat st;
	const char *a;
	size_t len;

	if (fd < 0 || want_fd < 0 || fstat(want_fd, &st))
		err(2, "%s, %s", packed, plain);
	a = fl_zstd_map(p, fd, &len, 0);
	if (FL_IS_ERR(a))
		errx(2, "%s: %s", packed, strerror(-FL_PTR_ERR(a)));
	check(len == (size_t)st.st_size, "the plain length");
	/* Backwards, so that it is not just read through. */
	for (size_t pos = len; !bad && pos > 0;) {
		size_t n = pos % PAGE ? pos % PAGE : PAGE;

		pos -= n;
		check(pread(want_fd, want, n, (off_t)pos) == (ssize_t)n &&
			      !memcmp(a + pos, want, n),
		      "a page of the compressed file");
	}
	check(fl_pager_munmap(p, (void *)a, len) == 0, "munmap");
	close(fd);
	close(want_fd);
	printf("%zu bytes of a compressed file\n", len);
#else
	(void)p;
	errx(2, "%s, %s: built without WITH_ZSTD", packed, plain);
#endif
}

int main(int argc, char **argv)
{
	struct fl_pager *pager;
	int ret;

	if (argc != 1 && argc != 2 && argc != 4)
		errx(2, "usage: own-store [options [packed-file plain-file]]");
	ret = fl_pager_open(&pager, argc > 1 ? argv[1] : OPTIONS);
	if (ret)
		errx(2, "fl_pager_open: %s", strerror(-ret));
	look_around(pager);
	meet_errors(pager);
	if (argc == 4)
		look_into_zstd(pager, argv[2], argv[3]);
	ret = fl_pager_close(pager);
	check(ret == 0, "close");
	return bad;
}
