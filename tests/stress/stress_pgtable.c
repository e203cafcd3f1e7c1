/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * stress_pgtable.c [--secs N] [--threads N]
 *
 * Everything about the shadow page table at once. Roles:
 *   mappers   (--threads) each owns every so many blocks of 64 pages, so that
 *             all of them meet in each leaf. Sets a run of its own, checks it,
 *             moves it away and back, clears it in pieces, checks the counts.
 *   walkers   (1) read entries of everybody, singly, by count and by run.
 *   reapers   (2) reap without pause.
 *   borrower  (1) takes pages of the same slab, fills them with what looks like
 *             entries of another page, and gives them back zeroed.
 * A present entry holds its own page index and a generation; the generation is
 * written to the page's word before the entry is set. So an entry in the wrong
 * place, a table that was freed too early, one that was cut off with entries in
 * it, and a set that does not publish what was written before are all seen.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/base.h"
#include "base/lock.h"
#include "base/order.h"
#include "base/rcu.h"
#include "mem/pgtable.h"
#include "mem/slab.h"

enum {
	BLOCK = 64,
	LEAVES = 8,
	WALKERS = 1,
	REAPERS = 2,
	MAX_THREADS = 64
};

/* Two stretches of leaves, far apart: below different upper tables. */
#define STRETCH ((size_t)LEAVES * PT_LEAF_SIZE)
#define FAR (PT_LEAF_SIZE * PT_UPPER_SIZE)
#define NR_PAGES (FAR + STRETCH)
#define NR_BLOCKS (2 * STRETCH / BLOCK)

#define GEN_BITS 16
#define GEN_MASK ((1u << GEN_BITS) - 1)

static struct slab slab;
static struct pgtable pt;
static struct fl_lock region = FL_LOCK_INIT(LOCK_REGION);
static _Atomic(uint32_t) word[2 * STRETCH]; /* the "page": its generation */
static _Atomic(uint32_t) stop;
static _Atomic(size_t) reaped, rounds, seen;
static unsigned int nr_mappers = 2;

#define CHECK(cond)                                                        \
	do {                                                               \
		if (!(cond)) {                                             \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, \
				#cond);                                    \
			_Exit(1);                                          \
		}                                                          \
	} while (0)

static uint64_t rnd(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *state = x;
}

static size_t page_of(size_t i)
{
	return i < STRETCH ? i : FAR + i - STRETCH;
}

static pte_t entry_of(size_t page, uint32_t gen)
{
	uint64_t pfn = (uint64_t)page << GEN_BITS | (gen & GEN_MASK);

	return pte_mk_present(pfn, PTE_R);
}

/* What a walker found at the i-th page: its own index, and a generation that
 * the page has reached. */
static void check_entry(size_t i, pte_t e)
{
	uint32_t gen, now;

	if (pte_state(e) != PTE_PRESENT) {
		CHECK(pte_none(e) || pte_state(e) == PTE_KERNEL);
		return;
	}
	CHECK(pte_pfn(e) >> GEN_BITS == page_of(i));
	gen = (uint32_t)pte_pfn(e) & GEN_MASK;
	now = ld_rlx(&word[i]) & GEN_MASK;
	CHECK(((now - gen) & GEN_MASK) < GEN_MASK / 2);
	add_rlx(&seen, (size_t)1);
}

static void map_block(uint64_t *seed, size_t block, uint32_t gen)
{
	const uint64_t step = (uint64_t)1 << GEN_BITS;
	size_t first = rnd(seed) % BLOCK;
	size_t n = 1 + rnd(seed) % (BLOCK - first);
	size_t base = block * BLOCK + first;
	size_t page = page_of(base), others, cut;

	for (size_t i = 0; i < n; i++)
		st_rlx(&word[base + i], gen);
	CHECK(pt_set_range(&pt, page, n, entry_of(page, gen), step) == 0);
	for (size_t i = 0; i < n; i++)
		CHECK(pt_get(&pt, page + i).v == entry_of(page + i, gen).v);
	if (rnd(seed) % 4 == 0)
		sched_yield();
	CHECK(pt_count_range(&pt, page, n, PTE_PRESENT) == n);

	if (rnd(seed) % 2) {
		pte_t away = pte_mk_state(PTE_KERNEL, 0);

		CHECK(pt_move_range(&pt, &region, page, n, PTE_PRESENT, away,
				    0) == n);
		CHECK(pt_clear_range(&pt, &region, page, n, PTE_PRESENT,
				     &others) == 0 &&
		      others == n);
		CHECK(pt_move_range(&pt, &region, page, n, PTE_KERNEL,
				    entry_of(page, gen), step) == n);
	}
	cut = rnd(seed) % (n + 1);
	CHECK(pt_clear_range(&pt, &region, page, cut, PTE_PRESENT, &others) ==
	      cut);
	CHECK(others == 0);
	CHECK(pt_clear_range(&pt, &region, page, n, PTE_PRESENT, &others) ==
	      n - cut);
	CHECK(others == 0);
	CHECK(pte_none(pt_get(&pt, page + n - 1)));
}

static size_t my_block(uint64_t *seed, size_t me)
{
	return rnd(seed) % (NR_BLOCKS / nr_mappers) * nr_mappers + me;
}

static void flicker(uint64_t *seed, size_t me)
{
	for (unsigned int k = 0; k < 300; k++) {
		size_t page = page_of(my_block(seed, me) * BLOCK);
		pte_t e = pte_mk_state(PTE_KERNEL, k);
		size_t others;

		CHECK(pt_set_range(&pt, page, 1, e, 0) == 0);
		CHECK(pt_clear_range(&pt, &region, page, 1, PTE_KERNEL,
				     &others) == 1);
		CHECK(others == 0);
	}
}

static void *mapper(void *arg)
{
	size_t me = (size_t)(uintptr_t)arg;
	uint64_t seed = 0x9e3779b97f4a7c15u * (me + 1);

	for (uint32_t gen = 1; !ld_rlx(&stop); gen++) {
		map_block(&seed, my_block(&seed, me), gen);
		flicker(&seed, me);
		add_rlx(&rounds, (size_t)1);
		/* Leave the tables alone now and then, or none is ever empty
		 * for as long as two passes of the reaper. */
		if (rnd(&seed) % 4 == 0) {
			struct timespec ts = { 0, 200000 };

			nanosleep(&ts, NULL);
		}
	}
	return NULL;
}

static int run_seen(void *arg, size_t idx, size_t n, enum pte_state state)
{
	size_t *end = arg;

	CHECK(idx >= *end && n > 0);
	CHECK(state == PTE_PRESENT || state == PTE_KERNEL);
	*end = idx + n;
	return 0;
}

static void *walker(void *arg)
{
	uint64_t seed = 0xd1342543de82ef95u * ((uintptr_t)arg + 1);

	while (!ld_rlx(&stop)) {
		size_t end = 0;

		for (unsigned int k = 0; k < 1000; k++) {
			size_t i = rnd(&seed) % (2 * STRETCH);

			check_entry(i, pt_get(&pt, page_of(i)));
		}
		CHECK(pt_count_range(&pt, 0, STRETCH, PTE_POISON) == 0);
		CHECK(pt_for_each(&pt, FAR, STRETCH, run_seen, &end) == 0);
	}
	return NULL;
}

static void *reaper(void *arg)
{
	while (!ld_rlx(&stop)) {
		add_rlx(&reaped, pt_reap(&pt));
		sched_yield();
	}
	return arg;
}

static void *borrower(void *arg)
{
	enum {
		N = 48
	};
	struct timespec ts = { 0, 300000 };
	uint64_t wrong = entry_of(NR_PAGES + 1, 1).v;
	uint64_t *obj[N];

	while (!ld_rlx(&stop)) {
		for (unsigned int k = 0; k < N; k++) {
			obj[k] = slab_alloc(&slab);
			CHECK(obj[k]);
			for (size_t i = 0; i < SLAB_OBJ_SIZE / 8; i++) {
				CHECK(obj[k][i] == 0);
				obj[k][i] = wrong;
			}
		}
		nanosleep(&ts, NULL);
		for (unsigned int k = 0; k < N; k++) {
			memset(obj[k], 0, SLAB_OBJ_SIZE);
			slab_free(&slab, obj[k]);
		}
	}
	return arg;
}

static unsigned int run(unsigned int secs)
{
	pthread_t t[MAX_THREADS + WALKERS + REAPERS + 1];
	struct timespec ts = { secs, 0 };
	unsigned int n = 0;

	for (uintptr_t i = 0; i < nr_mappers; i++)
		CHECK(!pthread_create(&t[n++], NULL, mapper, (void *)i));
	for (uintptr_t i = 0; i < WALKERS; i++)
		CHECK(!pthread_create(&t[n++], NULL, walker, (void *)i));
	for (unsigned int i = 0; i < REAPERS; i++)
		CHECK(!pthread_create(&t[n++], NULL, reaper, NULL));
	CHECK(!pthread_create(&t[n++], NULL, borrower, NULL));
	nanosleep(&ts, NULL);
	st_rlx(&stop, 1u);
	for (unsigned int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	return n;
}

int main(int argc, char **argv)
{
	unsigned int secs = 5, threads;

	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--secs"))
			secs = (unsigned int)atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--threads"))
			nr_mappers = (unsigned int)atoi(argv[i + 1]);
	}
	CHECK(nr_mappers >= 1 && nr_mappers <= MAX_THREADS);
	CHECK(slab_init(&slab, "stress") == 0);
	CHECK(pt_init(&pt, NR_PAGES, &slab) == 0 && pt.levels == 2);
	threads = run(secs);

	CHECK(pt_count_range(&pt, 0, NR_PAGES, PTE_NONE) == NR_PAGES);
	for (unsigned int i = 0; i <= pt.levels; i++)
		pt_reap(&pt);
	CHECK(ld_rlx(&pt.nr_tables) == 1);
	CHECK(slab_nr_backed(&slab) - slab_nr_free(&slab) == 1);
	/* A run in which nothing happened proves nothing. */
	CHECK(ld_rlx(&reaped) > 0 && ld_rlx(&rounds) > 0 && ld_rlx(&seen) > 0);
	printf("%u threads, %u s: %zu runs mapped, %zu entries walked, "
	       "%zu tables reaped\n",
	       threads, secs, ld_rlx(&rounds), ld_rlx(&seen), ld_rlx(&reaped));
	pt_destroy(&pt);
	slab_destroy(&slab);
	return 0;
}
