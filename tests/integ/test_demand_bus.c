/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Pages of demand regions that cannot be had: files that became shorter, stores
 * that fail. Each is the program's SIGBUS, at that page and no other.
 */
#include "support/region.h"

#define SIZE (2 * MIB)
#define N (SIZE / PAGE)

BOTH(demand_cut, past_the_end)
{
	struct fl_pager *p = pager_of(fault, "mem=64M");
	int fd = words_file(SIZE, FILE_ID);
	unsigned char *r = mapped(p, fd, 0, SIZE);
	size_t cut = 100 * PAGE + 123;

	catch_faults();
	/* Some of both sides were there before. */
	cr_expect_eq(page_bad(r, 20, FILE_ID, 0, SIZE), 0);
	cr_assert_eq(ftruncate(fd, (off_t)cut), 0);
	for (size_t i = 101; i < N; i += 13)
		cr_expect(bus_at(r + i * PAGE + i % 4096), "page %zu", i);
	cr_expect(bus_at(r + SIZE - 1));
	/* The last page that is left: zeros behind the end. */
	cr_expect_eq(page_bad(r, 100, FILE_ID, 0, cut), 0);
	for (size_t i = 0; i < 100; i++)
		cr_assert_eq(page_bad(r, i, FILE_ID, 0, SIZE), 0, "%zu", i);
	/* Nothing has failed but the program's access. */
	cr_expect_eq(fl_region_error(p, r + 5 * PAGE), 0);
	cr_expect_eq(fl_prefetch(p, r, 100 * PAGE), 0);
	cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

BOTH(demand_cut, to_nothing)
{
	struct fl_pager *p = pager_of(fault, NULL);
	int fd = words_file(SIZE, FILE_ID);
	unsigned char *r = mapped(p, fd, 0, SIZE);

	catch_faults();
	cr_assert_eq(ftruncate(fd, 0), 0);
	cr_expect(bus_at(r));
	cr_expect(bus_at(r));
	cr_expect(bus_at(r + 77 * PAGE));
	cr_expect_neq(fl_prefetch(p, r, SIZE), 1);
	cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

BOTH(demand_cut, prefetched)
{
	struct fl_pager *p = pager_of(fault, "mem=64M");
	int fd = words_file(SIZE, FILE_ID);
	unsigned char *r = mapped(p, fd, 0, SIZE), vec[N];

	cr_assert_eq(ftruncate(fd, 64 * PAGE), 0);
	cr_expect_eq(fl_prefetch(p, r, SIZE), -EFAULT, "as read(2) into it");
	cr_assert_eq(fl_pager_mincore(p, r, 64 * PAGE, vec), 0);
	cr_expect_eq(zero_wrong(vec, 64), 64, "what is there was read");
	cr_expect_eq(fl_prefetch(p, r, 64 * PAGE), 0);
	cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

/* An end that grows back shows the file as it is then. */
BOTH(demand_cut, grown_again)
{
	struct fl_pager *p = pager_of(fault, NULL);
	int fd = words_file(SIZE, FILE_ID);
	unsigned char *r = mapped(p, fd, 0, SIZE);
	static char buf[SIZE];

	catch_faults();
	cr_assert_eq(ftruncate(fd, 10 * PAGE), 0);
	cr_expect(bus_at(r + 10 * PAGE));
	words_fill(buf, FILE_ID, 10 * PAGE, SIZE - 10 * PAGE);
	cr_assert_eq(pwrite(fd, buf, SIZE - 10 * PAGE, 10 * PAGE),
		     (ssize_t)(SIZE - 10 * PAGE));
	cr_expect_eq(range_bad(r, SIZE, FILE_ID, 0, SIZE), 0);
	cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

/* A region over the end of the file; the file grows before it is read. */
BOTH(demand_cut, mapped_past_the_end)
{
	struct fl_pager *p = pager_of(fault, NULL);
	int fd = words_file(10 * PAGE + 5, FILE_ID);
	unsigned char *r = mapped(p, fd, 0, 20 * PAGE);
	static char buf[20 * PAGE];

	catch_faults();
	cr_expect_eq(page_bad(r, 0, FILE_ID, 0, 10 * PAGE + 5), 0);
	words_fill(buf, FILE_ID, 0, sizeof(buf));
	cr_assert_eq(pwrite(fd, buf, sizeof(buf), 0), (ssize_t)sizeof(buf));
	for (size_t i = 19; i > 10; i--)
		cr_expect_eq(page_bad(r, i, FILE_ID, 0, 20 * PAGE), 0, "%zu",
			     i);
	cr_assert_eq(fl_pager_munmap(p, r, 20 * PAGE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

BOTH(demand_cut, zeros)
{
	struct fl_pager *p = pager_of(fault, "mem=1M,eof=zero");
	int fd = words_file(SIZE, FILE_ID);
	unsigned char *r = mapped(p, fd, 0, SIZE);
	size_t cut = 100 * PAGE + 123;

	catch_faults();
	cr_assert_eq(ftruncate(fd, (off_t)cut), 0);
	for (int k = 0; k < 2; k++) {
		for (size_t i = 0; i < N; i++)
			cr_assert_eq(touch(r + i * PAGE).sig, 0, "%zu", i);
		cr_expect_eq(range_bad(r, SIZE, FILE_ID, 0, cut), 0);
	}
	cr_expect_eq(fl_prefetch(p, r, SIZE), 0);
	cr_expect_eq(fl_find(p, r + SIZE - 1), 3);
	cr_expect_eq(count(p, "demand_demoted"), 0);
	cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

/* Cut while others read; what is left is always right. */
struct reader {
	pthread_t thread;
	const unsigned char *r;
	size_t bad, signals;
	struct rng rng;
	struct fl_pager *p;
};

static atomic_int stop;
static atomic_size_t least;

static void *read_on(void *arg)
{
	struct reader *w = arg;

	while (!atomic_load(&stop)) {
		size_t i = rng_below(&w->rng, N);
		struct touched t = touch(w->r + i * PAGE + 8);
		size_t end = atomic_load(&least); /* or less, at the time */

		if (t.sig)
			w->signals++;
		if (t.sig && (i + 1) * PAGE <= end)
			w->bad++;
	}
	return NULL;
}

BOTH(demand_cut, while_read)
{
	struct fl_pager *p = pager_of(fault, "mem=1M");
	int fd = words_file(SIZE, FILE_ID);
	unsigned char *r = mapped(p, fd, 0, SIZE);
	struct reader w[4];

	catch_faults();
	atomic_store(&least, SIZE);
	for (unsigned int i = 0; i < 4; i++) {
		w[i] = (struct reader){ .r = r, .p = p, .rng = { .s = i } };
		cr_assert_eq(pthread_create(&w[i].thread, NULL, read_on, &w[i]),
			     0);
	}
	for (size_t end = SIZE; end > SIZE / 4; end -= 16 * PAGE + 77) {
		atomic_store(&least, end);
		cr_assert_eq(ftruncate(fd, (off_t)end), 0);
		nap_ms(5);
	}
	atomic_store(&stop, 1);
	for (unsigned int i = 0; i < 4; i++) {
		pthread_join(w[i].thread, NULL);
		cr_expect_eq(w[i].bad, 0, "%zu", w[i].bad);
		cr_expect_gt(w[i].signals, 0);
	}
	for (size_t i = 0; i < SIZE / 4 / PAGE; i++)
		cr_assert_eq(page_bad(r, i, FILE_ID, 0, SIZE), 0);
	cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

/* ---------------------------------------------------------------------------
 * Stores
 */

static unsigned char *stored(struct fl_pager *p, struct words_store *s,
			     size_t off, size_t len)
{
	unsigned char *r =
		fl_region_map(p, &words_ops, s, off, len, PROT_READ, 0);

	cr_assert_not(FL_IS_ERR(r), "%d", FL_PTR_ERR(r));
	return r;
}

BOTH(demand_store, bad_pages)
{
	struct fl_pager *p = pager_of(fault, "mem=1M");
	struct words_store s = {
		.id = 5, .size = SIZE, .err = EREMOTEIO, .bad = 3, .every = 11
	};
	unsigned char *r = stored(p, &s, 0, SIZE);

	catch_faults();
	for (int k = 0; k < 3; k++)
		for (size_t i = 0; i < N; i++) {
			size_t at = k == 1 ? N - 1 - i : i;

			if (at % 11 != 3) {
				cr_assert_eq(page_bad(r, at, 5, 0, SIZE), 0);
				cr_assert_eq(fl_region_error(p, r + at * PAGE),
					     0);
				continue;
			}
			cr_assert(bus_at(r + at * PAGE + at), "%zu", at);
			cr_assert_eq(fl_region_error(p, r + at * PAGE + 9),
				     EREMOTEIO, "%d",
				     fl_region_error(p, r + at * PAGE));
		}
	cr_expect_eq(fl_region_error(p, &s), -EFAULT);
	cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	cr_expect_eq(fl_region_error(p, r), -EFAULT);
	/* A region made anew asks again. */
	s.every = 0;
	r = stored(p, &s, 0, SIZE);
	cr_expect_eq(range_bad(r, SIZE, 5, 0, SIZE), 0);
	cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
	cr_expect_eq(s.released, 2, "%d", s.released);
}

BOTH(demand_store, prefetch)
{
	struct fl_pager *p = pager_of(fault, "mem=64M");
	struct words_store s = {
		.id = 5, .size = SIZE, .err = ENOLINK, .bad = 50, .every = 100
	};
	unsigned char *r = stored(p, &s, 0, SIZE), vec[50];
	uint64_t reads;

	cr_expect_eq(fl_prefetch(p, r, SIZE), -ENOLINK);
	cr_expect_eq(fl_region_error(p, r + 50 * PAGE), ENOLINK);
	cr_assert_eq(fl_pager_mincore(p, r, 50 * PAGE, vec), 0);
	cr_expect_eq(zero_wrong(vec, 50), 50, "up to the bad page");
	cr_expect_eq(fl_prefetch(p, r, 50 * PAGE), 0);
	cr_expect_eq(fl_prefetch(p, r + 51 * PAGE, 90 * PAGE), 0);
	reads = s.reads;
	cr_expect_eq(fl_prefetch(p, r + 51 * PAGE + 100, 89 * PAGE), 0);
	cr_expect_eq(fl_prefetch(p, r, 0), 0);
	cr_expect_eq(fl_prefetch(p, &s, sizeof(s)), 0, "no region at all");
	cr_expect_eq(s.reads, reads, "nothing is read twice");
	cr_expect_eq(fl_prefetch(p, (void *)-4096, 4096), -EINVAL);
	cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

/* Past the end of a store there is nothing. */
BOTH(demand_store, end)
{
	struct fl_pager *p = pager_of(fault, NULL);
	struct words_store s = { .id = 6, .size = 10 * PAGE + 9 };
	unsigned char *r = stored(p, &s, 2 * PAGE, 20 * PAGE);

	catch_faults();
	cr_expect_eq(range_bad(r, 9 * PAGE, 6, 2 * PAGE, s.size), 0);
	for (size_t i = 9; i < 20; i++) {
		cr_expect(bus_at(r + i * PAGE), "%zu", i);
		cr_expect_gt(fl_region_error(p, r + i * PAGE), 0);
	}
	cr_assert_eq(fl_pager_munmap(p, r, 20 * PAGE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

/* What a store may not say. */
static ssize_t lies(void *store, void *buf, size_t len, uint64_t off)
{
	ssize_t *ret = store;

	(void)off;
	memset(buf, 1, len);
	return *ret;
}

BOTH(demand_store, nonsense)
{
	static const struct fl_store_ops ops = { .size = sizeof(ops),
						 .read = lies };
	static const ssize_t says[] = { PAGE * 1000, -5000,
					(ssize_t)(SIZE_MAX / 2 + 1) };
	struct fl_pager *p = pager_of(fault, NULL);

	catch_faults();
	for (size_t i = 0; i < COUNT(says); i++) {
		ssize_t ret = says[i];
		unsigned char *r =
			fl_region_map(p, &ops, &ret, 0, PAGE, PROT_READ, 0);

		cr_assert_not(FL_IS_ERR(r));
		cr_expect(bus_at(r));
		cr_expect_eq(fl_region_error(p, r), EIO);
		cr_assert_eq(fl_pager_munmap(p, r, PAGE), 0);
	}
	cr_expect_eq(fl_pager_close(p), 0);
}

/* errno is the program's. */
static ssize_t sets_errno(void *store, void *buf, size_t len, uint64_t off)
{
	(void)store;
	(void)off;
	errno = ENOTNAM;
	memset(buf, 7, len);
	return (ssize_t)len;
}

BOTH(demand_store, errno_kept)
{
	static const struct fl_store_ops ops = { .size = sizeof(ops),
						 .read = sets_errno };
	struct fl_pager *p = pager_of(fault, NULL);
	volatile unsigned char *r =
		fl_region_map(p, &ops, NULL, 0, 100 * PAGE, PROT_READ, 0);

	for (size_t i = 0; i < 100; i += 9) {
		errno = EXFULL;
		cr_assert_eq(r[i * PAGE], 7);
		cr_assert_eq(errno, EXFULL);
	}
	cr_assert_eq(fl_pager_munmap(p, (void *)r, 100 * PAGE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

/* Two regions of one store. */
BOTH(demand_store, shared)
{
	struct fl_pager *p = pager_of(fault, "mem=1M");
	struct words_store s = { .id = 8, .size = SIZE };
	unsigned char *a = stored(p, &s, 0, SIZE);
	unsigned char *b = stored(p, &s, MIB, MIB);

	cr_expect_eq(range_bad(a, SIZE, 8, 0, SIZE), 0);
	cr_expect_eq(range_bad(b, MIB, 8, MIB, SIZE), 0);
	cr_assert_eq(fl_pager_munmap(p, a, SIZE), 0);
	cr_expect_eq(range_bad(b, MIB, 8, MIB, SIZE), 0);
	cr_assert_eq(fl_pager_munmap(p, b, MIB), 0);
	cr_expect_eq(fl_pager_close(p), 0);
	cr_expect_gt(s.released, 0);
}
