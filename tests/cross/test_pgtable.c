// SPDX-License-Identifier: LGPL-2.1-or-later
/* test_pgtable.c - the shadow page table over the target's own entries. */
#include "mem/pgtable.h"

#include "check.h"

/* Frame numbers of every codec have 20 bits. */
#define NR_PAGES ((size_t)1 << 20)
#define THREADS 3
#define ROUNDS 1500

static struct slab slab;
static struct pgtable pt;
static struct fl_lock lock = FL_LOCK_INIT(LOCK_PTE);

static pte_t frame(size_t pfn)
{
	return pte_mk_present(pfn, PTE_R);
}

static bool holds(size_t idx, size_t pfn)
{
	pte_t e = pt_get(&pt, idx);

	return pte_state(e) == PTE_PRESENT && pte_pfn(e) == pfn &&
	       !pte_write(e);
}

static bool none(size_t idx)
{
	return pte_none(pt_get(&pt, idx));
}

/* Across the edges of leaves, and the first and the last page. */
static void ranges(void)
{
	static const struct {
		size_t idx, n;
	} row[] = {
		{ 0, 1 },
		{ 1, 3 },
		{ PT_LEAF_SIZE - 2, 4 },
		{ 5 * PT_LEAF_SIZE - 1, 2 * PT_LEAF_SIZE + 2 },
		{ NR_PAGES / 2 - 7, 30 },
		{ NR_PAGES - 1, 1 },
	};

	for (size_t r = 0; r < ARRAY_SIZE(row); r++) {
		size_t idx = row[r].idx, n = row[r].n, others = 9;

		CHECK(pt_set_range(&pt, idx, n, frame(idx), 1) == 0);
		for (size_t i = idx; i < idx + n; i++)
			CHECK(holds(i, i));
		CHECK(idx == 0 || none(idx - 1));
		CHECK(idx + n == NR_PAGES || none(idx + n));
		CHECK(pt_count_range(&pt, 0, NR_PAGES, PTE_PRESENT) == n);
		CHECK(pt_clear_range(&pt, &lock, idx, n, PTE_PRESENT,
				     &others) == n);
		CHECK(others == 0);
	}
	CHECK(pt_count_range(&pt, 0, NR_PAGES, PTE_NONE) == NR_PAGES);
}

static void moves(void)
{
	size_t idx = PT_LEAF_SIZE - 5, others;

	CHECK(pt_set_range(&pt, idx, 10, frame(idx), 1) == 0);
	CHECK(pt_move_range(&pt, &lock, idx + 3, 4, PTE_PRESENT,
			    pte_mk_state(PTE_KERNEL, 0), 0) == 4);
	CHECK(pt_move_range(&pt, &lock, idx, 10, PTE_FILE, frame(0), 0) == 0);
	for (size_t i = 0; i < 10; i++) {
		if (i < 3 || i > 6)
			CHECK(holds(idx + i, idx + i));
		else
			CHECK(pte_state(pt_get(&pt, idx + i)) == PTE_KERNEL);
	}
	CHECK(pt_clear_range(&pt, &lock, idx, 10, PTE_PRESENT, &others) == 6);
	CHECK(others == 4);
	CHECK(pt_move_range(&pt, &lock, idx, 10, PTE_KERNEL, frame(idx + 100),
			    1) == 4);
	CHECK(holds(idx + 6, idx + 106));
	CHECK(pt_clear_range(&pt, &lock, idx, 10, PTE_PRESENT, NULL) == 4);
}

static void payload_is_kept(void)
{
	CHECK(pt_set_range(&pt, 77, 2, pte_mk_state(PTE_POISON, EIO), 0) == 0);
	CHECK(pte_state(pt_get(&pt, 78)) == PTE_POISON);
	CHECK(pte_payload(pt_get(&pt, 78)) == EIO);
	CHECK(pt_clear_range(&pt, &lock, 77, 2, PTE_POISON, NULL) == 2);
}

struct seen {
	unsigned int runs;
	size_t pages;
	size_t first;
};

static int note(void *arg, size_t idx, size_t n, enum pte_state state)
{
	struct seen *s = arg;

	if (s->runs++ == 0)
		s->first = idx;
	s->pages += n;
	CHECK(state == (s->runs == 2 ? PTE_KERNEL : PTE_PRESENT));
	return 0;
}

static void runs(void)
{
	size_t idx = 3 * PT_LEAF_SIZE - 10;
	struct seen s = { 0 };

	pt_set_range(&pt, idx, 30, frame(1), 1);
	pt_move_range(&pt, &lock, idx + 5, 10, PTE_PRESENT,
		      pte_mk_state(PTE_KERNEL, 0), 0);
	CHECK(pt_for_each(&pt, 0, NR_PAGES, note, &s) == 0);
	CHECK(s.runs == 3 && s.pages == 30 && s.first == idx);
	pt_clear_range(&pt, &lock, idx, 30, PTE_PRESENT, NULL);
	pt_clear_range(&pt, &lock, idx, 30, PTE_KERNEL, NULL);
}

static void reaps(void)
{
	CHECK(pt_set_range(&pt, 9 * PT_LEAF_SIZE, 1, frame(5), 0) == 0);
	for (unsigned int i = 0; i < pt.levels + 2; i++)
		pt_reap(&pt);
	CHECK(holds(9 * PT_LEAF_SIZE, 5));
	CHECK(pt_clear_range(&pt, &lock, 9 * PT_LEAF_SIZE, 1, PTE_PRESENT,
			     NULL) == 1);
	for (unsigned int i = 0; i < pt.levels + 2; i++)
		pt_reap(&pt);
	CHECK(ld_rlx(&pt.nr_tables) == 1);
	CHECK(slab_nr_backed(&slab) - slab_nr_free(&slab) == 1);
}

/* Threads share leaves, not pages; thread 0 also frees empty tables. */
static void *user(void *arg)
{
	size_t id = (uintptr_t)arg;
	unsigned long wrong = 0;

	for (unsigned int r = 0; r < ROUNDS; r++) {
		size_t leaf = (r * 13) % 64 * PT_LEAF_SIZE;
		size_t idx = leaf + PT_LEAF_SIZE - 20 + id * 8;
		size_t n = 1 + r % 8;

		wrong += pt_set_range(&pt, idx, n, frame(idx), 1) != 0;
		for (size_t i = idx; i < idx + n; i++)
			wrong += !holds(i, i);
		wrong += pt_clear_range(&pt, &lock, idx, n, PTE_PRESENT,
					NULL) != n;
		wrong += !none(idx);
		if (id == 0 && r % 16 == 0)
			pt_reap(&pt);
	}
	CHECK(wrong == 0);
	return NULL;
}

static void threads(void)
{
	check_threads(THREADS, user);
	CHECK(pt_count_range(&pt, 0, NR_PAGES, PTE_NONE) == NR_PAGES);
	reaps();
}

/* Several threads clear one range: each entry is counted once. */
static _Atomic(size_t) cleared;
static pthread_barrier_t barrier;

static void *clearer(void *arg)
{
	(void)arg;
	for (int r = 0; r < 50; r++) {
		if (pthread_barrier_wait(&barrier) ==
		    PTHREAD_BARRIER_SERIAL_THREAD)
			pt_set_range(&pt, 1000, 200, frame(1000), 1);
		pthread_barrier_wait(&barrier);
		atomic_fetch_add(&cleared, pt_clear_range(&pt, &lock, 1000, 200,
							  PTE_PRESENT, NULL));
	}
	return NULL;
}

static void cleared_once(void)
{
	pthread_barrier_init(&barrier, NULL, THREADS);
	check_threads(THREADS, clearer);
	CHECK(atomic_load(&cleared) == 50 * 200);
	pthread_barrier_destroy(&barrier);
}

int main(void)
{
	CHECK(slab_init(&slab, "test") == 0);
	CHECK(pt_init(&pt, NR_PAGES, &slab) == 0);
	RUN(ranges);
	RUN(moves);
	RUN(payload_is_kept);
	RUN(runs);
	RUN(reaps);
	RUN(threads);
	RUN(cleared_once);
	pt_destroy(&pt);
	CHECK(slab_nr_free(&slab) == slab_nr_backed(&slab));
	slab_destroy(&slab);
	return check_done("pgtable");
}
