/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Demand regions as a user of the library sees them: arguments, contents in
 * every order of access, unmapping, advice, and what turns parts of them into
 * mappings of the kernel's.
 */
#include "support/region.h"

#ifndef MADV_COLD
#define MADV_COLD 20
#define MADV_PAGEOUT 21
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

#define SIZE (3 * MIB + 1234) /* of most files here */

BOTH(demand_args, file)
{
	struct fl_pager *p = pager_of(fault, NULL);
	int fd = words_file(10 * PAGE, FILE_ID), pipes[2], wr, path;
	static const struct {
		off_t off;
		size_t len;
		int prot;
		unsigned int flags;
	} bad[] = {
		{ 0, 0, PROT_READ, 0 },
		{ 1, PAGE, PROT_READ, 0 },
		{ -4096, PAGE, PROT_READ, 0 },
		{ 0, PAGE, PROT_NONE, 0 },
		{ 0, PAGE, PROT_WRITE, 0 },
		{ 0, PAGE, PROT_READ | PROT_EXEC, 0 },
		{ 0, PAGE, PROT_READ, 4 },
		{ 0, PAGE, PROT_READ, ~0u },
		{ 0, SIZE_MAX, PROT_READ, 0 },
		{ 0, SIZE_MAX / 2, PROT_READ, 0 },
		{ INT64_MAX & ~4095ll, 2 * PAGE, PROT_READ, 0 },
	};

	for (size_t i = 0; i < COUNT(bad); i++) {
		void *r = fl_region_map_file(p, fd, bad[i].off, bad[i].len,
					     bad[i].prot, bad[i].flags);

		cr_expect(FL_IS_ERR(r) && FL_PTR_ERR(r) == -EINVAL, "%zu: %p",
			  i, r);
	}
	cr_assert_eq(pipe(pipes), 0);
	path = open("/tmp", O_PATH | O_CLOEXEC);
	wr = open("/dev/null", O_WRONLY | O_CLOEXEC);
	cr_expect_eq(FL_PTR_ERR(fl_region_map_file(p, -1, 0, 1, PROT_READ, 0)),
		     -EBADF);
	cr_expect_eq(
		FL_PTR_ERR(fl_region_map_file(p, 9999, 0, 1, PROT_READ, 0)),
		-EBADF);
	cr_expect_eq(
		FL_PTR_ERR(fl_region_map_file(p, path, 0, 1, PROT_READ, 0)),
		-EBADF);
	cr_expect_eq(FL_PTR_ERR(fl_region_map_file(p, wr, 0, 1, PROT_READ, 0)),
		     -EACCES);
	cr_expect_eq(
		FL_PTR_ERR(fl_region_map_file(p, pipes[0], 0, 1, PROT_READ, 0)),
		-ENODEV);
	cr_expect_eq(fl_pager_close(p), 0);
}

BOTH(demand_args, store)
{
	struct fl_pager *p = pager_of(fault, NULL);
	struct words_store s = { .id = 1, .size = 4 * PAGE };
	struct fl_store_ops none = { .size = sizeof(none) };
	struct fl_store_ops tiny = { .size = sizeof(size_t),
				     .read = words_read };
	void *r;

	cr_expect_eq(FL_PTR_ERR(fl_region_map(p, NULL, &s, 0, 1, PROT_READ, 0)),
		     -EINVAL);
	cr_expect_eq(
		FL_PTR_ERR(fl_region_map(p, &none, &s, 0, 1, PROT_READ, 0)),
		-EINVAL);
	cr_expect_eq(
		FL_PTR_ERR(fl_region_map(p, &tiny, &s, 0, 1, PROT_READ, 0)),
		-EINVAL);
	cr_expect_eq(FL_PTR_ERR(fl_region_map(p, &words_ops, &s, 8, PAGE,
					      PROT_READ, 0)),
		     -EINVAL);
	cr_expect_eq(FL_PTR_ERR(fl_region_map(p, &words_ops, &s, 0, 0,
					      PROT_READ, 0)),
		     -EINVAL);
	cr_expect_eq(
		FL_PTR_ERR(fl_region_map(p, &words_ops, &s, 0, PAGE, RW, 0)),
		-EACCES, "the store cannot be written");
	cr_expect_eq(s.released, 0);
	r = fl_region_map(p, &words_ops, &s, PAGE, 3 * PAGE, PROT_READ, 0);
	cr_assert_not(FL_IS_ERR(r));
	cr_expect_eq(range_bad(r, 3 * PAGE, 1, PAGE, s.size), 0);
	cr_expect_eq(fl_pager_munmap(p, r, 3 * PAGE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
	cr_expect_eq(s.released, 1, "%d", s.released);
}

/* ---------------------------------------------------------------------------
 * Contents
 */

enum order {
	FORWARD,
	BACKWARD,
	STRIDE,
	RANDOM,
	NR_ORDERS
};

static size_t nth(enum order o, size_t i, size_t n, struct rng *rng)
{
	switch (o) {
	case BACKWARD:
		return n - 1 - i;
	case STRIDE:
		return i * 17 % n;
	case RANDOM:
		return rng_below(rng, (unsigned int)n);
	default:
		return i;
	}
}

static void contents(struct fl_pager *p, int fd, size_t size)
{
	struct rng rng = { .s = size };

	for (int o = 0; o < NR_ORDERS; o++)
		for (size_t off = 0; off < size;
		     off += pages_of(size) / 3 * PAGE + PAGE) {
			size_t len = size - off, n = pages_of(len);
			unsigned char *r = mapped(p, fd, off, len);
			size_t bad = 0;

			for (size_t i = 0; i < n; i++)
				bad += page_bad(r, nth(o, i, n, &rng), FILE_ID,
						off, size);
			cr_expect_eq(bad, 0, "order %d, %zu + %zu: %zu", o, off,
				     len, bad);
			bad = range_bad(r, len, FILE_ID, off, size);
			cr_expect_eq(bad, 0, "order %d, again: %zu", o, bad);
			cr_assert_eq(fl_pager_munmap(p, r, len), 0);
		}
}

BOTH(demand_read, orders)
{
	static const char *const options[] = {
		"mem=64M",
		"mem=1M",
		"mem=1M,granule=4K",
		"mem=64M,granule=64K,direct=no",
		"mem=64M,engine=pread",
		"mem=64M,engine=io_uring",
		"mem=2M,engine=aio,direct=yes",
		"mem=64K",
	};
	int fd = words_file(SIZE, FILE_ID);

	for (size_t i = 0; i < COUNT(options); i++) {
		struct fl_pager *p = pager_of(fault, "%s", options[i]);

		contents(p, fd, SIZE);
		cr_expect_eq(fl_pager_close(p), 0, "%s", options[i]);
	}
}

BOTH(demand_read, odd_ends)
{
	static const size_t sizes[] = { 1,    7,    4095, 4096,  4097,
					8191, 8192, 8193, 20001, 65537 };
	struct fl_pager *p = pager_of(fault, NULL);

	for (size_t i = 0; i < COUNT(sizes); i++) {
		int fd = words_file(sizes[i], FILE_ID);
		unsigned char *r = mapped(p, fd, 0, sizes[i]);
		size_t last = pages_of(sizes[i]) - 1;

		/* The last page first: its tail is zeros. */
		cr_expect_eq(page_bad(r, last, FILE_ID, 0, sizes[i]), 0);
		close(fd);
		cr_expect_eq(range_bad(r, sizes[i], FILE_ID, 0, sizes[i]), 0,
			     "%zu", sizes[i]);
		cr_assert_eq(fl_pager_munmap(p, r, sizes[i]), 0);
	}
	cr_expect_eq(fl_pager_close(p), 0);
}

BOTH(demand_read, hints)
{
	static const unsigned int flags[] = { FL_REGION_RANDOM,
					      FL_REGION_SEQUENTIAL,
					      FL_REGION_RANDOM |
						      FL_REGION_SEQUENTIAL };
	struct fl_pager *p = pager_of(fault, "mem=1M");
	int fd = words_file(SIZE, FILE_ID);

	for (size_t i = 0; i < COUNT(flags); i++) {
		unsigned char *r =
			fl_region_map_file(p, fd, 0, SIZE, PROT_READ, flags[i]);

		cr_assert_not(FL_IS_ERR(r));
		cr_expect_eq(range_bad(r, SIZE, FILE_ID, 0, SIZE), 0);
		cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	}
	cr_expect_eq(fl_pager_close(p), 0);
}

/* Files of holes, too. */
BOTH(demand_read, zeros)
{
	struct fl_pager *p = pager_of(fault, NULL);
	char name[] = "/tmp/fl-integ-XXXXXX";
	int fd = mkstemp(name);
	unsigned char *r;

	unlink(name);
	cr_assert_eq(ftruncate(fd, 4 * (off_t)MIB + 5), 0);
	r = mapped(p, fd, 0, 4 * MIB + 5);
	cr_expect_eq(zero_wrong(r, 4 * MIB + PAGE), 0);
	cr_assert_eq(fl_pager_munmap(p, r, 4 * MIB + 5), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

struct reader {
	pthread_t thread;
	const unsigned char *r;
	size_t pages, size, bad;
	struct rng rng;
	atomic_int *stop;
};

static void *read_on(void *arg)
{
	struct reader *w = arg;

	while (!atomic_load_explicit(w->stop, memory_order_relaxed))
		w->bad += page_bad(w->r,
				   rng_below(&w->rng, (unsigned int)w->pages),
				   FILE_ID, 0, w->size);
	return NULL;
}

static atomic_int readers_stop;

static void readers_start(struct reader *w, unsigned int n,
			  const unsigned char *r, size_t size)
{
	atomic_store(&readers_stop, 0);
	for (unsigned int i = 0; i < n; i++) {
		w[i] = (struct reader){ .r = r,
					.pages = pages_of(size),
					.size = size,
					.rng = { .s = i },
					.stop = &readers_stop };
		cr_assert_eq(pthread_create(&w[i].thread, NULL, read_on, &w[i]),
			     0);
	}
}

static void readers_end(struct reader *w, unsigned int n)
{
	atomic_store(&readers_stop, 1);
	for (unsigned int i = 0; i < n; i++) {
		pthread_join(w[i].thread, NULL);
		cr_expect_eq(w[i].bad, 0, "reader %u: %zu", i, w[i].bad);
	}
}

/* Threads that all begin with the same page. */
BOTH(demand_read, same_pages)
{
	struct fl_pager *p = pager_of(fault, "mem=1M");
	int fd = words_file(SIZE, FILE_ID);

	for (unsigned int k = 0; k < 20; k++) {
		unsigned char *r = mapped(p, fd, 0, SIZE);
		struct reader w[8];

		readers_start(w, 8, r, SIZE);
		nap_ms(5);
		readers_end(w, 8);
		cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	}
	cr_expect_eq(fl_pager_close(p), 0);
}

/* In service mode a system call waits for absent pages; in signal mode it is
 * given them by fl_prefetch(). */
BOTH(demand_read, system_calls)
{
	struct fl_pager *p = pager_of(fault, "mem=64M");
	int fd = words_file(SIZE, FILE_ID), out = memfd_create("out", 0);
	unsigned char *r = mapped(p, fd, 0, SIZE), *q;

	if (strcmp(fault, "signal") == 0) {
		cr_expect_eq(write(out, r, SIZE), -1);
		cr_expect_eq(errno, EFAULT);
		cr_assert_eq(fl_prefetch(p, r, SIZE), 0);
	}
	cr_assert_eq(pwrite(out, r, SIZE, 0), (ssize_t)SIZE);
	q = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, out, 0);
	cr_expect_eq(range_bad(q, SIZE, FILE_ID, 0, SIZE), 0);
	cr_expect_eq(fl_pager_munmap(p, r, SIZE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

/* ---------------------------------------------------------------------------
 * Unmapping
 */

BOTH(demand_unmap, parts)
{
	struct fl_pager *p = pager_of(fault, "mem=2M");
	int fd = words_file(SIZE, FILE_ID);
	size_t n = pages_of(SIZE);
	unsigned char *r = mapped(p, fd, 0, SIZE);

	catch_faults();
	cr_expect_eq(page_bad(r, 20, FILE_ID, 0, SIZE), 0);
	/* The middle, half of it touched. */
	cr_assert_eq(fl_pager_munmap(p, r + 10 * PAGE, 20 * PAGE), 0);
	cr_expect_eq(touch(r + 10 * PAGE).sig, SIGSEGV);
	cr_expect_eq(touch(r + 20 * PAGE).sig, SIGSEGV);
	cr_expect_eq(touch(r + 29 * PAGE).sig, SIGSEGV);
	cr_expect_eq(fl_find(p, r + 10 * PAGE), 0);
	cr_expect_eq(page_bad(r, 9, FILE_ID, 0, SIZE), 0);
	cr_expect_eq(page_bad(r, 30, FILE_ID, 0, SIZE), 0);
	/* The beginning and the end. */
	cr_assert_eq(fl_pager_munmap(p, r, 3 * PAGE), 0);
	cr_assert_eq(fl_pager_munmap(p, r + (n - 3) * PAGE, 3 * PAGE), 0);
	cr_expect_eq(touch(r).sig, SIGSEGV);
	cr_expect_eq(touch(r + (n - 1) * PAGE).sig, SIGSEGV);
	for (size_t i = 3; i < n - 3; i++)
		if (i < 10 || i >= 30)
			cr_assert_eq(page_bad(r, i, FILE_ID, 0, SIZE), 0);
	/* All, with holes in it, twice. */
	cr_expect_eq(fl_pager_close(p), -EBUSY);
	cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	cr_expect_eq(touch(r + 5 * PAGE).sig, SIGSEGV);
	cr_expect_eq(fl_pager_munmap(p, r + 1, PAGE), -EINVAL);
	cr_expect_eq(fl_pager_munmap(p, r, 0), -EINVAL);
	cr_expect_eq(fl_pager_close(p), 0);
}

/* A range over regions, memory of the program's and holes. */
BOTH(demand_unmap, over_several)
{
	struct fl_pager *p = pager_of(fault, NULL);
	int fd = words_file(8 * PAGE, FILE_ID);
	unsigned char *room = mmap(NULL, 64 * PAGE, PROT_NONE, ANON, -1, 0);
	unsigned char *r[3];

	catch_faults();
	munmap(room, 64 * PAGE);
	for (int i = 0; i < 3; i++)
		r[i] = mapped(p, fd, 0, 8 * PAGE);
	/* The kernel places them next to each other, downwards. */
	if (r[2] + 8 * PAGE != r[1] || r[1] + 8 * PAGE != r[0])
		cr_skip_test("the regions are not next to each other");
	cr_expect_eq(page_bad(r[0], 7, FILE_ID, 0, 8 * PAGE), 0);
	cr_expect_eq(page_bad(r[1], 3, FILE_ID, 0, 8 * PAGE), 0);
	cr_assert_eq(fl_pager_munmap(p, r[2] + 4 * PAGE, 16 * PAGE), 0);
	for (int i = 0; i < 4; i++) {
		cr_expect_eq(page_bad(r[2], (size_t)i, FILE_ID, 0, 8 * PAGE),
			     0);
		cr_expect_eq(touch(r[0] + (size_t)i * PAGE).sig, SIGSEGV);
		cr_expect_eq(
			page_bad(r[0], 4 + (size_t)i, FILE_ID, 0, 8 * PAGE), 0);
	}
	cr_expect_eq(touch(r[1]).sig, SIGSEGV);
	cr_assert_eq(fl_pager_munmap(p, r[2], 24 * PAGE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

/* Addresses are used again at once, by another file and by other memory. */
BOTH(demand_unmap, again_at_once)
{
	struct fl_pager *p = pager_of(fault, "mem=1M");
	int fd[2] = { words_file(SIZE, 1), words_file(SIZE, 2) };
	unsigned int same = 0;
	void *before = NULL;

	for (unsigned int i = 0; i < 300; i++) {
		size_t len = MIB / 2;
		unsigned char *r = mapped(p, fd[i % 2], 0, len), *q;

		same += r == before;
		before = r;
		for (size_t k = i % 5; k < len / PAGE; k += 5)
			cr_assert_eq(page_bad(r, k, 1 + i % 2, 0, SIZE), 0);
		cr_assert_eq(fl_pager_munmap(p, r, len), 0);
		q = mmap(r, len, RW, ANON | MAP_FIXED, -1, 0);
		cr_assert_eq(q, r);
		cr_assert_eq(zero_wrong(q, len), 0);
		munmap(q, len);
	}
	cr_expect_gt(same, 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

static unsigned int lines_of(const char *path)
{
	FILE *f = fopen(path, "re");
	unsigned int n = 0;
	int c;

	cr_assert_not_null(f);
	while ((c = getc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	return n;
}

static unsigned int nr_fds(void)
{
	unsigned int n = 0;

	for (int fd = 0; fd < 2048; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

BOTH(demand_unmap, cycles)
{
	int fd = words_file(SIZE, FILE_ID);
	unsigned int maps = 0, fds = 0;

	for (unsigned int i = 0; i < 220; i++) {
		struct fl_pager *p = pager_of(fault, "mem=1M");
		unsigned char *r = mapped(p, fd, 0, SIZE);
		unsigned char *q = mapped(p, fd, MIB, MIB);

		for (size_t k = 0; k < MIB / PAGE; k += 1 + i % 30)
			cr_assert_eq(page_bad(r, k, FILE_ID, 0, SIZE), 0);
		cr_assert_eq(page_bad(q, 3, FILE_ID, MIB, SIZE), 0);
		cr_assert_eq(fl_pager_close(p), -EBUSY);
		cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
		cr_assert_eq(fl_pager_close(p), -EBUSY);
		cr_assert_eq(fl_pager_munmap(p, q, MIB), 0);
		cr_assert_eq(fl_pager_close(p), 0);
		if (i == 20) {
			maps = lines_of("/proc/self/maps");
			fds = nr_fds();
		}
	}
	/* A service thread's buffer and ring may come later, too. */
	cr_expect_leq(lines_of("/proc/self/maps"), maps + 8, "%u, was %u",
		      lines_of("/proc/self/maps"), maps);
	/* The last region's may be closed a little later. */
	cr_expect_leq(nr_fds(), fds + 4, "%u, was %u", nr_fds(), fds);
}

/* Many regions at once. */
BOTH(demand_unmap, many)
{
	struct fl_pager *p = pager_of(fault, "mem=1M,direct=no");
	int fd = words_file(64 * PAGE, FILE_ID);
	unsigned char *r[200];

	for (size_t i = 0; i < COUNT(r); i++)
		r[i] = mapped(p, fd, i % 60 * PAGE, 4 * PAGE);
	for (size_t k = 0; k < 2; k++)
		for (size_t i = 0; i < COUNT(r); i++)
			cr_assert_eq(range_bad(r[i], 4 * PAGE, FILE_ID,
					       i % 60 * PAGE, 64 * PAGE),
				     0);
	for (size_t i = 0; i < COUNT(r); i++)
		cr_assert_eq(fl_pager_munmap(p, r[i * 77 % COUNT(r)], 4 * PAGE),
			     0);
	cr_expect_eq(fl_pager_close(p), 0);
}

/* Two pagers serve one file; each has a budget of its own. */
BOTH(demand_unmap, two_pagers)
{
	struct fl_pager *a = pager_of(fault, "mem=1M");
	struct fl_pager *b = pager_of(fault, "mem=2M,granule=16K");
	int fd = words_file(SIZE, FILE_ID);
	unsigned char *r = mapped(a, fd, 0, SIZE);
	unsigned char *q = mapped(b, fd, MIB, MIB);

	for (size_t k = 0; k < MIB / PAGE; k++) {
		cr_assert_eq(page_bad(r, k, FILE_ID, 0, SIZE), 0);
		cr_assert_eq(page_bad(q, k, FILE_ID, MIB, SIZE), 0);
	}
	cr_expect_leq(count(a, "demand_bytes"), MIB);
	cr_expect_leq(count(b, "demand_bytes"), 2 * MIB);
	cr_expect_eq(fl_pager_close(a), -EBUSY);
	cr_assert_eq(fl_pager_munmap(a, r, SIZE), 0);
	cr_expect_eq(fl_pager_close(a), 0);
	cr_expect_eq(range_bad(q, MIB, FILE_ID, MIB, SIZE), 0);
	cr_assert_eq(fl_pager_munmap(b, q, MIB), 0);
	cr_expect_eq(fl_pager_close(b), 0);
}
