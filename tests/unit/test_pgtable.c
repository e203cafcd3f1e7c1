/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The shadow page table against plain arithmetic, one thread. */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/lock.h"
#include "base/rcu.h"
#include "mem/pgtable.h"
#include "mem/pte.h"
#include "mem/slab.h"

#define NR_PAGES ((size_t)1 << 21)

static struct slab slab;
static struct pgtable pt;
static struct fl_lock region = FL_LOCK_INIT(LOCK_REGION);

static void setup(void)
{
	cr_assert_eq(slab_init(&slab, "test"), 0);
	cr_assert_eq(pt_init(&pt, NR_PAGES, &slab), 0);
}

/* Every test ends with an empty table: then nothing may be missing. */
static void teardown(void)
{
	cr_expect_eq(pt_count_range(&pt, 0, NR_PAGES, PTE_NONE), NR_PAGES);
	cr_expect_eq(slab_nr_backed(&slab) - slab_nr_free(&slab),
		     ld_rlx(&pt.nr_tables));
	pt_destroy(&pt);
	cr_expect_eq(slab_nr_free(&slab), slab_nr_backed(&slab));
	slab_destroy(&slab);
}

static pte_t frame(uint64_t pfn)
{
	return pte_mk_present(pfn, PTE_R);
}

static size_t clear(size_t idx, size_t n)
{
	size_t others;
	size_t cleared =
		pt_clear_range(&pt, &region, idx, n, PTE_PRESENT, &others);

	cr_expect_eq(others, 0);
	return cleared;
}

Test(pgtable, levels_cover_the_arena)
{
	static const struct {
		size_t pages;
		unsigned int levels;
	} row[] = {
		{ 1, 1 },
		{ PT_LEAF_SIZE * PT_UPPER_SIZE, 1 },
		{ PT_LEAF_SIZE * PT_UPPER_SIZE + 1, 2 },
#if __SIZEOF_POINTER__ == 8
		{ (PT_LEAF_SIZE * PT_UPPER_SIZE) * PT_UPPER_SIZE, 2 },
		{ (PT_LEAF_SIZE * PT_UPPER_SIZE) * PT_UPPER_SIZE + 1, 3 },
#endif
	};

	cr_assert_eq(slab_init(&slab, "test"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		size_t last = row[i].pages - 1;

		cr_assert_eq(pt_init(&pt, row[i].pages, &slab), 0);
		cr_expect_eq(pt.levels, row[i].levels);
		cr_expect(pte_none(pt_get(&pt, 0)));
		cr_expect(pte_none(pt_get(&pt, last)));
		cr_assert_eq(pt_set_range(&pt, last, 1, frame(5), 0), 0);
		cr_expect_eq(pte_pfn(pt_get(&pt, last)), 5);
		cr_expect_eq(clear(last, 1), 1);
		pt_destroy(&pt);
		cr_expect_eq(slab_nr_free(&slab), slab_nr_backed(&slab));
	}
	slab_destroy(&slab);
}

Test(pgtable, set_get_clear, .init = setup, .fini = teardown)
{
	static const size_t start[] = { 0,
					1,
					PT_LEAF_SIZE - 1,
					PT_LEAF_SIZE,
					PT_LEAF_SIZE * PT_UPPER_SIZE - 3,
					NR_PAGES - 4096 };
	static const size_t len[] = { 1, 2, 3, 64, 511, 513, 2048, 4096 };

	for (size_t s = 0; s < ARRAY_SIZE(start); s++) {
		for (size_t l = 0; l < ARRAY_SIZE(len); l++) {
			size_t idx = start[s], n = len[l];

			cr_assert_eq(pt_set_range(&pt, idx, n, frame(idx), 1),
				     0);
			for (size_t i = 0; i < n; i++) {
				pte_t e = pt_get(&pt, idx + i);

				cr_assert_eq(e.v, frame(idx + i).v);
			}
			if (idx > 0)
				cr_assert(pte_none(pt_get(&pt, idx - 1)));
			if (idx + n < NR_PAGES)
				cr_assert(pte_none(pt_get(&pt, idx + n)));
			cr_assert_eq(clear(idx, n), n);
			cr_assert_eq(clear(idx, n), 0);
		}
	}
}

Test(pgtable, step_zero_repeats_the_entry, .init = setup, .fini = teardown)
{
	pte_t file = pte_mk_state(PTE_FILE, 7);

	cr_assert_eq(pt_set_range(&pt, 100, 1000, file, 0), 0);
	cr_assert_eq(pt_count_range(&pt, 0, 4096, PTE_FILE), 1000);
	cr_assert_eq(pte_payload(pt_get(&pt, 1099)), 7);
	cr_assert_eq(pt_clear_range(&pt, &region, 0, 4096, PTE_FILE, NULL),
		     1000);
}

/* Partial unmaps: head, middle, tail, overlapping, over holes. */
Test(pgtable, clear_counts_each_page_once, .init = setup, .fini = teardown)
{
	cr_assert_eq(pt_set_range(&pt, 1000, 100, frame(1), 1), 0);
	cr_expect_eq(clear(990, 20), 10);
	cr_expect_eq(clear(1050, 10), 10);
	cr_expect_eq(clear(1040, 30), 20);
	cr_expect_eq(clear(1090, 5000), 10);
	cr_expect_eq(pt_count_range(&pt, 1000, 100, PTE_PRESENT), 50);
	cr_expect_eq(clear(0, 8192), 50);
	cr_expect_eq(clear(0, 8192), 0);
}

Test(pgtable, clear_leaves_other_states_alone, .init = setup, .fini = teardown)
{
	size_t others = 99;

	cr_assert_eq(pt_set_range(&pt, 510, 10, frame(1), 1), 0);
	cr_assert_eq(pt_move_range(&pt, &region, 511, 4, PTE_PRESENT,
				   pte_mk_state(PTE_KERNEL, 0), 0),
		     4);
	cr_expect_eq(
		pt_clear_range(&pt, &region, 500, 30, PTE_PRESENT, &others), 6);
	cr_expect_eq(others, 4);
	cr_expect_eq(pt_count_range(&pt, 500, 30, PTE_KERNEL), 4);
	cr_expect_eq(pt_count_range(&pt, 500, 30, PTE_NONE), 26);
	cr_expect_eq(pt_clear_range(&pt, &region, 500, 30, PTE_KERNEL, &others),
		     4);
	cr_expect_eq(others, 0);
}

/* Demotion and restore; young and dirty bits do not hide the state. */
Test(pgtable, move_there_and_back, .init = setup, .fini = teardown)
{
	pte_t e = pte_mkyoung(pte_mkdirty(frame(300)));

	cr_assert_eq(pt_set_range(&pt, 300, 1500, e, 1), 0);
	cr_assert_eq(pt_move_range(&pt, &region, 0, 4096, PTE_PRESENT,
				   pte_mk_state(PTE_BUSY, 0), 0),
		     1500);
	cr_assert_eq(pt_move_range(&pt, &region, 0, 4096, PTE_PRESENT,
				   pte_mk_state(PTE_KERNEL, 0), 0),
		     0);
	cr_assert_eq(pt_move_range(&pt, &region, 300, 1500, PTE_BUSY,
				   frame(300), 1),
		     1500);
	for (size_t i = 300; i < 1800; i++)
		cr_assert_eq(pt_get(&pt, i).v, frame(i).v);
	cr_assert_eq(clear(300, 1500), 1500);
}

struct run {
	size_t idx, n;
	enum pte_state state;
};

struct runs {
	struct run run[8];
	size_t n, stop_at;
};

static int note_run(void *arg, size_t idx, size_t n, enum pte_state state)
{
	struct runs *r = arg;

	cr_assert_lt(r->n, ARRAY_SIZE(r->run));
	r->run[r->n++] = (struct run){ idx, n, state };
	return r->n == r->stop_at ? -EINTR : 0;
}

Test(pgtable, for_each_gives_maximal_runs, .init = setup, .fini = teardown)
{
	static const struct run want[] = {
		{ 3, 1, PTE_PRESENT },
		{ 500, 600, PTE_PRESENT },
		{ 1100, 5, PTE_FILE },
		{ NR_PAGES - 1, 1, PTE_PRESENT },
	};
	struct runs r = { .n = 0 };

	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		pte_t e = want[i].state == PTE_FILE ?
				  pte_mk_state(PTE_FILE, 0) :
				  frame(9);

		cr_assert_eq(pt_set_range(&pt, want[i].idx, want[i].n, e, 0),
			     0);
	}
	cr_assert_eq(pt_for_each(&pt, 0, NR_PAGES, note_run, &r), 0);
	cr_assert_eq(r.n, ARRAY_SIZE(want));
	for (size_t i = 0; i < r.n; i++) {
		cr_expect_eq(r.run[i].idx, want[i].idx);
		cr_expect_eq(r.run[i].n, want[i].n);
		cr_expect_eq(r.run[i].state, want[i].state);
	}
	/* A window cuts runs; a value ends the walk. */
	r = (struct runs){ .stop_at = 1 };
	cr_assert_eq(pt_for_each(&pt, 600, 100, note_run, &r), -EINTR);
	cr_expect_eq(r.run[0].idx, 600);
	cr_expect_eq(r.run[0].n, 100);

	clear(0, 1100);
	clear(NR_PAGES - 1, 1);
	pt_clear_range(&pt, &region, 0, NR_PAGES, PTE_FILE, NULL);
}

Test(pgtable, reap_frees_on_the_second_look, .init = setup, .fini = teardown)
{
	uint32_t before = ld_rlx(&pt.nr_tables);

	cr_assert_eq(before, 1);
	cr_assert_eq(pt_set_range(&pt, 0, 8192, frame(0), 1), 0);
	cr_expect_eq(ld_rlx(&pt.nr_tables), 1 + 1 + 8192 / PT_LEAF_SIZE);
	cr_expect_eq(pt_reap(&pt), 0);
	clear(0, 8192 - 1);
	cr_expect_eq(pt_reap(&pt), 0);
	cr_expect_eq(pt_reap(&pt), 8192 / PT_LEAF_SIZE - 1);
	cr_expect_eq(pt_reap(&pt), 0);
	cr_expect_eq(pte_pfn(pt_get(&pt, 8191)), 8191);
	clear(8191, 1);
	/* The leaf, then the table above it; the root stays. */
	cr_expect_eq(pt_reap(&pt), 0);
	cr_expect_eq(pt_reap(&pt), 1);
	cr_expect_eq(pt_reap(&pt), 1);
	cr_expect_eq(pt_reap(&pt), 0);
	cr_expect_eq(ld_rlx(&pt.nr_tables), 1);
}

Test(pgtable, use_saves_a_table_from_the_reaper, .init = setup,
     .fini = teardown)
{
	for (unsigned int i = 0; i < 50; i++) {
		cr_assert_eq(pt_set_range(&pt, 77, 1, frame(i), 0), 0);
		cr_assert_eq(clear(77, 1), 1);
		cr_assert_eq(pt_reap(&pt), 0);
	}
	/* A marked table that is in use again is not cut, and comes back. */
	cr_assert_eq(pt_set_range(&pt, 77, 1, frame(4), 0), 0);
	cr_assert_eq(pt_reap(&pt), 0);
	cr_assert_eq(pte_pfn(pt_get(&pt, 77)), 4);
	cr_assert_eq(clear(77, 1), 1);
}

/* With no table left to be had, nothing is set, and nothing is lost. */
Test(pgtable, no_memory_sets_nothing, .init = setup, .fini = teardown)
{
	const size_t idx = 10 * PT_LEAF_SIZE - 5;
	void *rest = NULL, *p;

	cr_assert_eq(pt_set_range(&pt, idx, 1, frame(1), 0), 0);
	cr_assert_eq(clear(idx, 1), 1);
	while ((p = slab_alloc(&slab)) != NULL) {
		*(void **)p = rest;
		rest = p;
	}
	cr_expect_eq(pt_set_range(&pt, idx, 10, frame(1), 1), -ENOMEM);
	cr_expect_eq(pt_count_range(&pt, 0, NR_PAGES, PTE_NONE), NR_PAGES);
	cr_expect_eq(pt_set_range(&pt, idx, 5, frame(1), 1), 0);
	cr_expect_eq(clear(idx, 10), 5);
	while ((p = rest) != NULL) {
		rest = *(void **)p;
		*(void **)p = NULL;
		slab_free(&slab, p);
	}
	cr_expect_eq(pt_set_range(&pt, idx, 10, frame(1), 1), 0);
	cr_expect_eq(clear(idx, 10), 10);
}

/* What a forked child finds when the parent's reaper was between its steps. */
Test(pgtable, child_undoes_a_reaper, .init = setup, .fini = teardown)
{
	_Atomic(uint32_t) *root = (_Atomic(uint32_t) *)slab_obj(&slab, pt.root);
	_Atomic(uint32_t) *mid;
	uint32_t leaf, saved;

	cr_assert_eq(pt_set_range(&pt, 0, 1, frame(3), 0), 0);
	mid = (_Atomic(uint32_t) *)slab_obj(&slab, ld_rlx(&root[0]) - 1);
	leaf = saved = ld_rlx(&mid[0]);

	/* Before the cut: the table is noted, but still linked. */
	st_rlx(&pt.reaping, 1u);
	st_rlx(&pt.cutting, &mid[0]);
	st_rlx(&pt.dead, leaf);
	istack_link(slab.outer, leaf - 1, UINT32_MAX);
	pt_fork_child(&pt);
	cr_assert_eq(ld_rlx(&mid[0]), saved);
	cr_assert_eq(pte_pfn(pt_get(&pt, 0)), 3);
	cr_assert_eq(clear(0, 1), 1);

	/* After the cut: the table is freed. */
	st_rlx(&pt.reaping, 1u);
	st_rlx(&pt.cutting, &mid[0]);
	st_rlx(&pt.dead, leaf);
	st_rlx(&mid[0], 0u);
	sub_rlx(&pt.nr_tables, 1u);
	pt_fork_child(&pt);
	cr_assert(pte_none(pt_get(&pt, 0)));
	cr_assert_eq(ld_rlx(&pt.dead), 0);
	cr_assert_eq(pt_set_range(&pt, 0, 1, frame(3), 0), 0);
	cr_assert_eq(clear(0, 1), 1);
	cr_assert_eq(pt_reap(&pt) + pt_reap(&pt), 1);
}

Test(pgtable, real_fork, .init = setup, .fini = teardown)
{
	int status;
	pid_t pid;

	cr_assert_eq(pt_set_range(&pt, 0, 2000, frame(0), 1), 0);
	rcu_fork_prepare();
	pid = fork();
	if (pid == 0) {
		rcu_fork_child();
		slab_fork_child(&slab);
		pt_fork_child(&pt);
		if (pt_set_range(&pt, 5000, 2000, frame(9), 0) != 0 ||
		    pte_pfn(pt_get(&pt, 1999)) != 1999 ||
		    clear(0, 2000) != 2000 || clear(5000, 2000) != 2000)
			_exit(1);
		pt_reap(&pt);
		_exit(pt_reap(&pt) > 0 ? 0 : 2);
	}
	rcu_fork_parent();
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
	cr_assert_eq(pte_pfn(pt_get(&pt, 1999)), 1999);
	cr_assert(pte_none(pt_get(&pt, 5000)));
	cr_assert_eq(clear(0, 2000), 2000);
}
