/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The memory budget of demand regions: it holds whatever the threads do; what is
 * read is what is touched; and more data than memory makes misses grow as the
 * arithmetic says, without a cliff. Counters are asserted, never times.
 */
#include <sys/resource.h>

#include "support/region.h"

#define MAX_THREADS 16

struct worker {
	pthread_t thread;
	const unsigned char *r;
	size_t pages, size, bad, accesses;
	struct rng rng;
	unsigned int runs; /* of so many pages; 0: single ones */
};

static atomic_int stop;

static void *read_on(void *arg)
{
	struct worker *w = arg;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		size_t i = rng_below(&w->rng, (unsigned int)w->pages);

		for (size_t k = 0; k <= w->runs && i + k < w->pages; k++)
			w->bad += page_bad(w->r, i + k, FILE_ID, 0, w->size);
	}
	return NULL;
}

/* One word of a page each time. */
static void *read_some(void *arg)
{
	struct worker *w = arg;

	for (size_t n = 0; n < w->accesses; n++) {
		size_t i = rng_below(&w->rng, (unsigned int)w->pages);

		w->bad += words_wrong(w->r + i * PAGE, FILE_ID, i * PAGE, 8) !=
			  0;
	}
	return NULL;
}

static void threads_start(struct worker *w, unsigned int n,
			  const unsigned char *r, size_t size,
			  void *(*run)(void *), size_t accesses,
			  unsigned int runs)
{
	static unsigned int seed;

	atomic_store(&stop, 0);
	for (unsigned int i = 0; i < n; i++) {
		w[i] = (struct worker){ .r = r,
					.pages = size / PAGE,
					.size = size,
					.accesses = accesses,
					.runs = runs,
					.rng = { .s = ++seed } };
		cr_assert_eq(pthread_create(&w[i].thread, NULL, run, &w[i]), 0);
	}
}

static void threads_join(struct worker *w, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		pthread_join(w[i].thread, NULL);
		cr_expect_eq(w[i].bad, 0, "thread %u: %zu", i, w[i].bad);
	}
}

/* ---------------------------------------------------------------------------
 * The budget
 */

/* Bytes of the mapping that begins at @r, by the kernel's account. */
static size_t rss(const unsigned char *r, size_t size)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	unsigned long a, b, kib;
	char line[300];
	size_t sum = 0;
	bool in = false;

	cr_assert_not_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &a, &b) == 2)
			in = a >= (uintptr_t)r && b <= (uintptr_t)r + size;
		else if (in && sscanf(line, "Rss: %lu kB", &kib) == 1)
			sum += kib * KIB;
	}
	fclose(f);
	return sum;
}

static void budget_holds(const char *fault, const char *options, size_t mem,
			 size_t granule, unsigned int runs)
{
	static unsigned char vec[8192];
	struct fl_pager *p = pager_of(fault, "%s", options);
	size_t size = 16 * MIB, allowed, most = 0, held, there;
	int fd = words_file(size, FILE_ID);
	unsigned char *r = mapped(p, fd, 0, size);
	struct worker w[MAX_THREADS];

	allowed = mem + MAX_THREADS * granule;
	threads_start(w, MAX_THREADS, r, size, read_on, 0, runs);
	for (int i = 0; i < 100; i++) {
		nap_ms(10);
		held = count(p, "demand_bytes");
		cr_expect_leq(held, allowed, "%s: %zu of %zu counted", options,
			      held, mem);
		cr_assert_eq(fl_pager_mincore(p, r, size, vec), 0);
		there = zero_wrong(vec, size / PAGE) * PAGE;
		cr_expect_leq(there, allowed, "%s: %zu of %zu in core", options,
			      there, mem);
		most = held > most ? held : most;
		most = there > most ? there : most;
		if (i % 10)
			continue;
		there = rss(r, size);
		cr_expect_leq(there, allowed, "%s: %zu of %zu resident",
			      options, there, mem);
	}
	atomic_store(&stop, 1);
	threads_join(w, MAX_THREADS);
	/* Without threads at work it holds to the byte, but for the pages that
	 * were overdrawn and not paid back. */
	cr_expect_leq(count(p, "demand_bytes"), mem + MAX_THREADS * PAGE);
	cr_expect_leq(rss(r, size), mem + MAX_THREADS * PAGE);
	cr_expect_gt(rss(r, size), mem / 4);
	cr_assert_eq(fl_pager_munmap(p, r, size), 0);
	cr_expect_leq(count(p, "demand_bytes"), mem);
	cr_expect_eq(fl_pager_close(p), 0);
}

BOTH(demand_budget, small)
{
	budget_holds(fault, "mem=1M", MIB, 64 * KIB, 0);
}

BOTH(demand_budget, small_runs)
{
	budget_holds(fault, "mem=1M,granule=128K", MIB, 128 * KIB, 40);
}

BOTH(demand_budget, larger)
{
	budget_holds(fault, "mem=4M", 4 * MIB, 64 * KIB, 0);
}

BOTH(demand_budget, larger_runs)
{
	budget_holds(fault, "mem=4M", 4 * MIB, 64 * KIB, 100);
}

BOTH(demand_budget, tiny)
{
	budget_holds(fault, "mem=64K", 64 * KIB, 64 * KIB, 5);
}

/* A prefetch of more than fits. */
BOTH(demand_budget, prefetch)
{
	struct fl_pager *p = pager_of(fault, "mem=4M");
	size_t size = 16 * MIB;
	int fd = words_file(size, FILE_ID);
	unsigned char *r = mapped(p, fd, 0, size);

	cr_expect_eq(fl_prefetch(p, r, size), 0);
	cr_expect_leq(count(p, "demand_bytes"), 4 * MIB + PAGE);
	cr_expect_leq(rss(r, size), 4 * MIB + PAGE);
	cr_expect_gt(rss(r, size), 2 * MIB);
	cr_expect_eq(range_bad(r, size, FILE_ID, 0, size), 0);
	cr_assert_eq(fl_pager_munmap(p, r, size), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

/* Regions that come and go leave nothing charged, and nothing noted. */
BOTH(demand_budget, comes_back)
{
	struct fl_pager *p = pager_of(fault, "mem=4M,direct=no");
	size_t size = 2 * MIB;
	int fd = words_file(size, FILE_ID);

	for (unsigned int i = 0; i < 200; i++) {
		unsigned char *r = mapped(p, fd, 0, size);

		for (size_t k = 0; k < size / PAGE; k += 1 + i % 7)
			cr_assert_eq(page_bad(r, k, FILE_ID, 0, size), 0);
		cr_assert_eq(fl_pager_munmap(p, r, size), 0);
	}
	cr_expect_leq(count(p, "demand_bytes"), MIB, "%llu",
		      (unsigned long long)count(p, "demand_bytes"));
	cr_expect_eq(count(p, "demand_overdrawn"), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

/* ---------------------------------------------------------------------------
 * What is read is what is touched
 */

static void random_ratio(const char *fault, double times)
{
	struct fl_pager *p = pager_of(fault, "mem=8M");
	size_t size = (size_t)(times * 8) * MIB;
	int fd = words_file(size, FILE_ID);
	unsigned char *r = mapped(p, fd, 0, size);
	struct worker w[2];
	uint64_t faults, bytes, filled;

	threads_start(w, 2, r, size, read_some, 12000, 0);
	threads_join(w, 2);
	faults = count(p, "demand_faults");
	bytes = count(p, "demand_read_bytes");
	filled = count(p, "demand_filled");
	cr_expect_leq((double)bytes, 1.1 * (double)(faults * PAGE),
		      "%.2f x: %.3f bytes read for one touched", times,
		      (double)bytes / (double)(faults * PAGE));
	cr_expect_eq(bytes, filled * PAGE);
	if (times <= 0.5)
		cr_expect_leq(bytes, size);
	cr_assert_eq(fl_pager_munmap(p, r, size), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

BOTH(demand_ratio, half)
{
	random_ratio(fault, 0.5);
}

BOTH(demand_ratio, whole)
{
	random_ratio(fault, 1);
}

BOTH(demand_ratio, some_more)
{
	random_ratio(fault, 1.25);
}

BOTH(demand_ratio, half_more)
{
	random_ratio(fault, 1.5);
}

BOTH(demand_ratio, twice)
{
	random_ratio(fault, 2);
}

BOTH(demand_ratio, four_times)
{
	random_ratio(fault, 4);
}

/* With the hint exactly that. */
BOTH(demand_ratio, hinted)
{
	struct fl_pager *p = pager_of(fault, "mem=8M");
	size_t size = 10 * MIB;
	int fd = words_file(size, FILE_ID);
	unsigned char *r =
		fl_region_map_file(p, fd, 0, size, PROT_READ, FL_REGION_RANDOM);
	struct worker w[1];

	threads_start(w, 1, r, size, read_some, 12000, 0);
	threads_join(w, 1);
	cr_expect_eq(count(p, "demand_read_bytes"),
		     count(p, "demand_faults") * PAGE);
	cr_assert_eq(fl_pager_munmap(p, r, size), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

/* ---------------------------------------------------------------------------
 * More data than memory
 */

/* Pages filled for one access, once memory is full. */
static double misses(const char *fault, int fd, double times,
		     unsigned int threads)
{
	struct fl_pager *p = pager_of(fault, "mem=8M");
	size_t size = (size_t)(times * 8) * MIB, n = 12000 / threads;
	unsigned char *r =
		fl_region_map_file(p, fd, 0, size, PROT_READ, FL_REGION_RANDOM);
	struct worker w[MAX_THREADS];
	uint64_t before;
	double ret;

	cr_assert_not(FL_IS_ERR(r));
	threads_start(w, threads, r, size, read_some, n, 0);
	threads_join(w, threads);
	before = count(p, "demand_filled");
	threads_start(w, threads, r, size, read_some, n, 0);
	threads_join(w, threads);
	ret = (double)(count(p, "demand_filled") - before) /
	      (double)(n * threads);
	cr_assert_eq(fl_pager_munmap(p, r, size), 0);
	cr_expect_eq(fl_pager_close(p), 0);
	return ret;
}

/*
 * Every page is as likely as any other, so the misses are the share that cannot
 * be in memory, whatever is evicted. Each thread has up to a batch of frames, a
 * sixty-fourth of memory, in its hands.
 */
BOTH(demand_thrash, uniform)
{
	static const double times[] = { 0.5, 1, 1.25, 1.5, 2, 3, 4 };
	static const unsigned int threads[] = { 1, 4, 16 };
	int fd = words_file(32 * MIB, FILE_ID);

	for (size_t t = 0; t < COUNT(threads); t++) {
		double last = 0, memory = 1 - threads[t] / 64.0;

		for (size_t i = 0; i < COUNT(times); i++) {
			double m = misses(fault, fd, times[i], threads[t]);
			double most = 1 - memory / times[i];

			most = most > 0 ? most * 1.1 + 0.02 : 0.02;
			cr_expect_leq(m, most, "%g x, %u threads: %.3f > %.3f",
				      times[i], threads[t], m, most);
			cr_expect_geq(m + 0.03, last,
				      "%g x, %u threads: %.3f after %.3f",
				      times[i], threads[t], m, last);
			last = m;
		}
	}
}
