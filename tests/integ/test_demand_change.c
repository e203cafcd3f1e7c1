/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Advice on demand regions and near them, and what makes parts of them mappings
 * of the kernel's: their bytes stay, also for threads that read meanwhile.
 */
#include <sys/wait.h>

#include "support/region.h"

#ifndef MADV_COLD
#define MADV_COLD 20
#define MADV_PAGEOUT 21
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

#define SIZE (2 * MIB + 1234)
#define READERS 4

struct reader {
	pthread_t thread;
	const unsigned char *r;
	size_t bad;
	struct rng rng;
};

static atomic_int readers_stop;

static void *read_on(void *arg)
{
	struct reader *w = arg;

	while (!atomic_load_explicit(&readers_stop, memory_order_relaxed))
		w->bad += page_bad(w->r, rng_below(&w->rng, pages_of(SIZE)),
				   FILE_ID, 0, SIZE);
	return NULL;
}

static void readers_start(struct reader *w, const unsigned char *r)
{
	for (unsigned int i = 0; i < READERS; i++) {
		w[i] = (struct reader){ .r = r, .rng = { .s = i } };
		cr_assert_eq(pthread_create(&w[i].thread, NULL, read_on, &w[i]),
			     0);
	}
}

static void readers_end(struct reader *w)
{
	atomic_store(&readers_stop, 1);
	for (unsigned int i = 0; i < READERS; i++) {
		pthread_join(w[i].thread, NULL);
		cr_expect_eq(w[i].bad, 0, "reader %u: %zu", i, w[i].bad);
	}
}

/* ---------------------------------------------------------------------------
 * Advice
 */

BOTH(demand_advise, each)
{
	static const struct {
		int advice;
		int want;
	} rows[] = {
		{ MADV_NORMAL, 0 },       { MADV_RANDOM, 0 },
		{ MADV_SEQUENTIAL, 0 },   { MADV_WILLNEED, 0 },
		{ MADV_DONTNEED, 0 },     { MADV_COLD, 0 },
		{ MADV_PAGEOUT, 0 },      { MADV_POPULATE_READ, 0 },
		{ MADV_DOFORK, 0 },       { MADV_DONTDUMP, 0 },
		{ MADV_DODUMP, 0 },       { MADV_FREE, -EINVAL },
		{ MADV_REMOVE, -EACCES }, { 12345, -EINVAL },
	};
	struct fl_pager *p = pager_of(fault, "mem=1M");
	int fd = words_file(SIZE, FILE_ID);
	unsigned char *r = mapped(p, fd, 0, SIZE);

	for (size_t i = 0; i < COUNT(rows); i++) {
		int ret = fl_pager_madvise(p, r + 5 * PAGE, 100 * PAGE,
					   rows[i].advice);

		cr_expect_eq(ret, rows[i].want, "advice %d: %d", rows[i].advice,
			     ret);
		cr_expect_eq(range_bad(r, SIZE, FILE_ID, 0, SIZE), 0,
			     "after advice %d", rows[i].advice);
		cr_expect_eq(fl_find(p, r + 5 * PAGE), 3, "advice %d",
			     rows[i].advice);
	}
	cr_expect_eq(fl_pager_madvise(p, r + 1, PAGE, MADV_RANDOM), -EINVAL);
	cr_expect_eq(count(p, "demand_demoted"), 0);
	/* A child would have it. */
	cr_expect_eq(fl_pager_madvise(p, r, 2 * PAGE, MADV_DONTFORK), 0);
	cr_expect_eq(fl_find(p, r), 0);
	cr_expect_eq(fl_find(p, r + 2 * PAGE), 3);
	cr_expect_eq(range_bad(r, SIZE, FILE_ID, 0, SIZE), 0);
	cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

/* WILLNEED and POPULATE_READ bring pages, DONTNEED takes them. */
BOTH(demand_advise, presence)
{
	struct fl_pager *p = pager_of(fault, "mem=64M");
	int fd = words_file(SIZE, FILE_ID);
	unsigned char *r = mapped(p, fd, 0, SIZE), vec[32];

	cr_assert_eq(fl_pager_mincore(p, r, 32 * PAGE, vec), 0);
	cr_expect_eq(zero_wrong(vec, 32), 0, "nothing is there at first");
	cr_assert_eq(fl_pager_madvise(p, r, 32 * PAGE, MADV_WILLNEED), 0);
	cr_assert_eq(fl_pager_mincore(p, r, 32 * PAGE, vec), 0);
	cr_expect_eq(zero_wrong(vec, 32), 32);
	cr_assert_eq(fl_pager_madvise(p, r + 8 * PAGE, 8 * PAGE, MADV_DONTNEED),
		     0);
	cr_assert_eq(fl_pager_mincore(p, r, 32 * PAGE, vec), 0);
	cr_expect_eq(zero_wrong(vec, 32), 24);
	cr_expect_eq(zero_wrong(vec + 8, 8), 0);
	cr_expect_eq(page_bad(r, 8, FILE_ID, 0, SIZE), 0);
	cr_assert_eq(fl_pager_madvise(p, r, 16 * PAGE, MADV_POPULATE_READ), 0);
	cr_assert_eq(fl_pager_mincore(p, r, 32 * PAGE, vec), 0);
	cr_expect_eq(zero_wrong(vec, 32), 32);
	cr_expect_eq(fl_pager_msync(p, r, SIZE, MS_SYNC), 0);
	cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

/* Pages dropped and read again, over and over, do not pile up anywhere. */
BOTH(demand_advise, dontneed_again)
{
	struct fl_pager *p = pager_of(fault, "mem=4M,direct=no");
	int fd = words_file(SIZE, FILE_ID);
	unsigned char *r = mapped(p, fd, 0, SIZE);

	for (unsigned int i = 0; i < 3000; i++) {
		cr_assert_eq(fl_pager_madvise(p, r, 32 * PAGE, MADV_DONTNEED),
			     0);
		cr_assert_eq(page_bad(r, i % 32, FILE_ID, 0, SIZE), 0);
		for (size_t k = 0; k < 32; k++)
			cr_assert_eq(touch(r + k * PAGE).sig, 0);
	}
	cr_expect_leq(count(p, "demand_bytes"), MIB);
	cr_expect_eq(range_bad(r, SIZE, FILE_ID, 0, SIZE), 0);
	cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

/* Memory of the program's between two regions is the kernel's affair. */
BOTH(demand_advise, between_regions)
{
	struct fl_pager *p = pager_of(fault, NULL);
	int fd = words_file(SIZE, FILE_ID), st;
	unsigned char *r[3], *a, *b, *m;
	pid_t pid;

	/* In the place of the one in the middle. */
	for (int i = 0; i < 3; i++)
		r[i] = mapped(p, fd, 0, SIZE);
	a = r[0] > r[1] ? r[0] : r[1];
	b = r[0] > r[1] ? r[1] : r[0];
	m = r[2] > a ? a : r[2] < b ? b : r[2];
	a = a > r[2] ? a : r[2];
	b = b < r[2] ? b : r[2];
	cr_assert(b < m && m < a);
	cr_assert_eq(fl_pager_munmap(p, m, SIZE), 0);
	cr_assert_eq(mmap(m, 16 * PAGE, RW, ANON | MAP_FIXED, -1, 0), m);
	memset(m, 1, 16 * PAGE);
	cr_expect_eq(fl_pager_madvise(p, m, PAGE, MADV_FREE), 0);
	cr_expect_eq(fl_pager_madvise(p, m, 4 * PAGE, MADV_DONTNEED), 0);
	cr_expect_eq(zero_wrong(m, 4 * PAGE), 0);
	cr_expect_eq(fl_pager_madvise(p, m + 4 * PAGE, PAGE, MADV_WIPEONFORK),
		     0);
	cr_expect_eq(fl_pager_madvise(p, m + 8 * PAGE, PAGE, MADV_DONTFORK), 0);
	cr_expect_eq(fl_pager_madvise(p, m + 12 * PAGE, PAGE, MADV_REMOVE),
		     -EINVAL);
	pid = fork();
	if (pid == 0) {
		unsigned char vec;

		_exit(m[4 * PAGE] != 0 || m[5 * PAGE] != 1 ||
		      mincore(m + 8 * PAGE, PAGE, &vec) == 0 ||
		      errno != ENOMEM);
	}
	cr_assert_eq(waitpid(pid, &st, 0), pid);
	cr_expect_eq(st, 0, "%#x", (unsigned int)st);
	/* Over both regions; there is a hole. */
	cr_expect_eq(fl_pager_madvise(p, b, (size_t)(a - b) + SIZE,
				      MADV_SEQUENTIAL),
		     -ENOMEM);
	cr_expect_eq(fl_pager_madvise(p, b, (size_t)(m - b) + 3 * PAGE,
				      MADV_SEQUENTIAL),
		     0);
	cr_expect_eq(fl_pager_mprotect(p, m, PAGE, PROT_READ), 0);
	cr_expect_eq(fl_pager_munmap(p, m, 16 * PAGE), 0);
	cr_expect_eq(fl_find(p, a), 3);
	cr_expect_eq(fl_find(p, b), 3);
	cr_assert_eq(fl_pager_munmap(p, a, SIZE), 0);
	cr_assert_eq(fl_pager_munmap(p, b, SIZE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

/* ---------------------------------------------------------------------------
 * Becoming the kernel's
 */

enum way {
	PROTECT,
	LOCK,
	HUGE,
	SAME, /* mprotect to what it is */
	NR_WAYS
};

static int change(struct fl_pager *p, unsigned char *at, size_t len, int way)
{
	switch (way) {
	case PROTECT:
		return fl_pager_mprotect(p, at, len, RW);
	case LOCK:
		return fl_pager_mlock(p, at, len, 0);
	case HUGE:
		fl_pager_madvise(p, at, len, MADV_HUGEPAGE);
		return 0;
	default:
		return fl_pager_mprotect(p, at, len, PROT_READ);
	}
}

BOTH(demand_change, while_read)
{
	struct fl_pager *p = pager_of(fault, "mem=1M");
	int fd = words_file(SIZE, FILE_ID);
	unsigned char *r = mapped(p, fd, 0, SIZE);
	struct rng rng = { .s = 5 };
	struct reader w[READERS];

	close(fd);
	readers_start(w, r);
	for (unsigned int i = 0; i < 200; i++) {
		size_t at = rng_below(&rng, pages_of(SIZE) - 12);
		int way = (int)rng_below(&rng, NR_WAYS);

		if (way == LOCK && i % 8)
			way = SAME;
		cr_assert_eq(change(p, r + at * PAGE,
				    (1 + rng_below(&rng, 12)) * PAGE, way),
			     0, "way %d", way);
		if (way == PROTECT)
			cr_assert_eq(fl_find(p, r + at * PAGE), 0);
	}
	readers_end(w);
	cr_expect_gt(count(p, "demand_demoted"), 0);
	cr_expect_eq(range_bad(r, SIZE, FILE_ID, 0, SIZE), 0);
	cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

/* A page of it that is written to is the program's own. */
BOTH(demand_change, written)
{
	struct fl_pager *p = pager_of(fault, NULL);
	int fd = words_file(SIZE, FILE_ID);
	unsigned char *r = mapped(p, fd, 0, SIZE);

	catch_faults();
	cr_expect_eq(page_bad(r, 3, FILE_ID, 0, SIZE), 0);
	cr_assert_eq(fl_pager_mprotect(p, r + 2 * PAGE, 2 * PAGE, RW), 0);
	memset(r + 2 * PAGE, 0x55, PAGE);
	cr_expect_eq(page_bad(r, 3, FILE_ID, 0, SIZE), 0);
	cr_expect_eq(touch(r + 2 * PAGE).byte, 0x55);
	cr_assert_eq(fl_pager_mprotect(p, r + 3 * PAGE, PAGE, PROT_NONE), 0);
	cr_expect_eq(touch(r + 3 * PAGE).sig, SIGSEGV);
	cr_expect_eq(page_bad(r, 1, FILE_ID, 0, SIZE), 0);
	cr_expect_eq(page_bad(r, 4, FILE_ID, 0, SIZE), 0);
	cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

BOTH(demand_change, mremap_parts)
{
	struct fl_pager *p = pager_of(fault, "mem=2M");
	int fd = words_file(SIZE, FILE_ID);
	size_t n = pages_of(SIZE);
	unsigned char *r = mapped(p, fd, 0, SIZE), *q, *room;

	catch_faults();
	cr_expect_eq(page_bad(r, 12, FILE_ID, 0, SIZE), 0);
	q = fl_pager_mremap(p, r + 10 * PAGE, 4 * PAGE, 8 * PAGE,
			    MREMAP_MAYMOVE, NULL);
	cr_assert_not(FL_IS_ERR(q), "%d", FL_PTR_ERR(q));
	cr_expect_eq(range_bad(q, 8 * PAGE, FILE_ID, 10 * PAGE, SIZE), 0);
	cr_expect_eq(touch(r + 10 * PAGE).sig, SIGSEGV);
	/* Onto a part of it. */
	room = mmap(NULL, 2 * PAGE, RW, ANON, -1, 0);
	memset(room, 0x66, 2 * PAGE);
	room = fl_pager_mremap(p, room, 2 * PAGE, 2 * PAGE,
			       MREMAP_MAYMOVE | MREMAP_FIXED, r + 20 * PAGE);
	cr_assert_eq(room, r + 20 * PAGE, "%d", FL_PTR_ERR(room));
	cr_expect_eq(touch(r + 21 * PAGE).byte, 0x66);
	for (size_t i = 0; i < n; i++)
		if ((i < 10 || i >= 14) && i != 20 && i != 21)
			cr_assert_eq(page_bad(r, i, FILE_ID, 0, SIZE), 0);
	cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	cr_assert_eq(fl_pager_munmap(p, q, 8 * PAGE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

BOTH(demand_change, map_fixed)
{
	struct fl_pager *p = pager_of(fault, "mem=1M");
	int fd = words_file(SIZE, FILE_ID), other = words_file(SIZE, 9);
	size_t n = pages_of(SIZE);
	unsigned char *r = mapped(p, fd, 0, SIZE);

	cr_expect_eq(range_bad(r, SIZE, FILE_ID, 0, SIZE), 0);
	/* What mmap refuses changes nothing. */
	cr_expect_eq(FL_PTR_ERR(fl_pager_mmap(p, r + 100, PAGE, PROT_READ,
					      ANON | MAP_FIXED, -1, 0)),
		     -EINVAL);
	cr_expect_eq(FL_PTR_ERR(fl_pager_mmap(p, r + PAGE, 0, PROT_READ,
					      ANON | MAP_FIXED, -1, 0)),
		     -EINVAL);
	cr_expect_eq(FL_PTR_ERR(fl_pager_mmap(p, r + PAGE, SIZE_MAX, PROT_READ,
					      ANON | MAP_FIXED, -1, 0)),
		     -ENOMEM);
	cr_expect_eq(FL_PTR_ERR(fl_pager_mmap(p, r + PAGE, PAGE, PROT_READ,
					      MAP_PRIVATE | MAP_FIXED, 9999,
					      0)),
		     -EBADF);
	cr_expect_eq(FL_PTR_ERR(fl_pager_mmap(
			     p, r + PAGE, PAGE, PROT_READ,
			     ANON | MAP_FIXED | MAP_FIXED_NOREPLACE, -1, 0)),
		     -EEXIST);
	cr_expect_eq(range_bad(r, SIZE, FILE_ID, 0, SIZE), 0);
	cr_expect_eq(fl_find(p, r), 3);
	cr_assert_eq(fl_pager_mmap(p, r + 8 * PAGE, 4 * PAGE, RW,
				   ANON | MAP_FIXED, -1, 0),
		     r + 8 * PAGE);
	cr_expect_eq(zero_wrong(r + 8 * PAGE, 4 * PAGE), 0);
	memset(r + 8 * PAGE, 0x77, 4 * PAGE);
	cr_assert_eq(fl_pager_mmap(p, r + 32 * PAGE, 3 * PAGE, PROT_READ,
				   MAP_SHARED | MAP_FIXED, other, 0),
		     r + 32 * PAGE);
	cr_expect_eq(range_bad(r + 32 * PAGE, 3 * PAGE, 9, 0, SIZE), 0);
	for (size_t k = 0; k < 3; k++)
		for (size_t i = 0; i < n; i++)
			if ((i < 8 || i >= 12) && (i < 32 || i >= 35))
				cr_assert_eq(page_bad(r, i, FILE_ID, 0, SIZE),
					     0, "%zu", i);
	for (size_t i = 0; i < 4 * PAGE; i++)
		cr_assert_eq(r[8 * PAGE + i], 0x77);
	cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

/* A store's region cannot become the kernel's: it stays what it is. */
BOTH(demand_change, store_stays)
{
	struct fl_pager *p = pager_of(fault, NULL);
	struct words_store s = { .id = 3, .size = SIZE };
	unsigned char *r =
		fl_region_map(p, &words_ops, &s, 0, SIZE, PROT_READ, 0);

	cr_assert_not(FL_IS_ERR(r));
	cr_expect_eq(page_bad(r, 5, 3, 0, SIZE), 0);
	cr_expect_eq(fl_pager_mprotect(p, r, 10 * PAGE, RW), -ENOMEM);
	cr_expect_eq(fl_pager_mlock(p, r, 10 * PAGE, 0), -ENOMEM);
	cr_expect_eq(FL_PTR_ERR(fl_pager_mremap(p, r, PAGE, 2 * PAGE,
						MREMAP_MAYMOVE, NULL)),
		     -ENOMEM);
	cr_expect_eq(fl_find(p, r), 3);
	cr_expect_eq(range_bad(r, SIZE, 3, 0, SIZE), 0);
	cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
	cr_expect_eq(s.released, 1);
}

/* The child has the file; its own regions work, too. */
BOTH(demand_change, forked)
{
	struct fl_pager *p = pager_of(fault, "mem=1M");
	int fd = words_file(SIZE, FILE_ID), st;
	unsigned char *r = mapped(p, fd, 0, SIZE);
	struct reader w[READERS];

	readers_start(w, r);
	for (int i = 0; i < 10; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			unsigned char *q;

			alarm(20);
			if (range_bad(r, SIZE, FILE_ID, 0, SIZE))
				_exit(1);
			q = fl_region_map_file(p, fd, 0, SIZE, PROT_READ, 0);
			if (FL_IS_ERR(q))
				_exit(2);
			if (range_bad(q, SIZE, FILE_ID, 0, SIZE))
				_exit(3);
			if (fl_pager_munmap(p, q, SIZE) ||
			    fl_pager_munmap(p, r, SIZE))
				_exit(4);
			_exit(fl_pager_close(p) ? 5 : 0);
		}
		cr_assert_eq(waitpid(pid, &st, 0), pid);
		cr_expect_eq(st, 0, "child: %#x", (unsigned int)st);
	}
	readers_end(w);
	cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}
