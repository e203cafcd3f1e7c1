/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pgtable.h - the shadow page table of one arena: a radix tree from page index
 * to pte. It is the truth about every page; the kernel's table follows it.
 *
 * WHO MAY CALL WHAT. Everything but pt_init, pt_destroy, pt_reap and
 * pt_fork_child may run on any thread at any time, also inside a read section
 * (base/rcu.h) and in a signal handler. The caller of pt_set_range() owns the
 * pages it sets: their entries are NONE and nobody else sets them meanwhile.
 * Everything else about an entry is settled by compare-and-swap: of several
 * callers that clear or move one entry, exactly one counts it.
 *
 * Tables appear when a page in them is first set and stay until pt_reap() has
 * found them empty twice.
 */
#ifndef FL_MEM_PGTABLE_H
#define FL_MEM_PGTABLE_H

#include "base/base.h"
#include "base/lock.h"
#include "base/order.h"
#include "mem/pte.h"
#include "mem/slab.h"

/* A table is one object of the slab. Leaves hold ptes; the tables above hold
 * 32-bit links (pgtable.c), so they are wider. */
#define PT_LEAF_SHIFT ARCH_PT_INDEX_BITS
#define PT_LEAF_SIZE ((size_t)1 << PT_LEAF_SHIFT)
#define PT_UPPER_SHIFT 10
#define PT_UPPER_SIZE ((size_t)1 << PT_UPPER_SHIFT)

struct pgtable {
	char *tables; /* slab->base */
	struct slab *slab;
	size_t nr_pages;
	uint32_t root;       /* slab index of the top table */
	unsigned int levels; /* tables above the leaves, at least 1 */

	/* 1 while pt_reap() runs: there is one reaper at a time. */
	FL_ALIGNED_CL _Atomic(uint32_t) reaping;
	/* The reaper's, atomic only for the child of a fork to find them whole:
	 * tables that wait for the grace period, as slab index + 1, chained by
	 * the slab's outer links; and the link it is cutting. Relaxed. */
	_Atomic(uint32_t) dead;
	_Atomic(_Atomic(uint32_t) *) cutting;
	/* Tables linked now, the root included. Relaxed: a figure. */
	_Atomic(uint32_t) nr_tables;
};

/* 0 or -ENOMEM. @slab may be shared by several tables. */
int pt_init(struct pgtable *pt, size_t nr_pages, struct slab *slab);

/* Every entry is NONE; nobody uses the table any more. */
void pt_destroy(struct pgtable *pt);

/* The entry of page @idx; NONE where there is no table. */
pte_t pt_get(struct pgtable *pt, size_t idx);

/*
 * Set pages idx .. idx+n-1 to first, first + pfn_step frames, ... The entries
 * are NONE. What the caller wrote before is visible to whoever sees an entry by
 * pt_get(). 0, or -ENOMEM with nothing set.
 */
int pt_set_range(struct pgtable *pt, size_t idx, size_t n, pte_t first,
		 uint64_t pfn_step);

/*
 * Clear to NONE each entry that is in state @from. Returns how many this call
 * cleared; *others (may be NULL) how many were found in some other state that
 * is not NONE, and left alone.
 */
size_t pt_clear_range(struct pgtable *pt, struct fl_lock *region, size_t idx,
		      size_t n, enum pte_state from, size_t *others);

/*
 * Change each entry that is in state @from (not NONE) to @to (not NONE), whose
 * frame number grows by pfn_step a page: 0 for a not-present @to, 1 for a run
 * of frames that becomes present again. Returns how many this call changed.
 */
size_t pt_move_range(struct pgtable *pt, struct fl_lock *region, size_t idx,
		     size_t n, enum pte_state from, pte_t to,
		     uint64_t pfn_step);

/* How many entries are in @state; NONE counts where there is no table, too. */
size_t pt_count_range(struct pgtable *pt, size_t idx, size_t n,
		      enum pte_state state);

/*
 * Call fn(arg, idx, n, state) for each maximal run of entries in one state
 * other than NONE, in order, outside of any read section: fn may block. A
 * value other than 0 ends the walk and is returned. Entries that change while
 * the walk runs are reported as they were at some moment of it.
 */
int pt_for_each(struct pgtable *pt, size_t idx, size_t n,
		int (*fn)(void *arg, size_t idx, size_t n,
			  enum pte_state state),
		void *arg);

/*
 * Free the tables that were empty at the last pt_reap() and have not been used
 * since, note those that are empty now, and wait for one grace period. Number
 * of tables freed; 0 also when another reaper is at work. Blocks: no lock held,
 * not inside a read section. To collapse an empty tree takes one call more than
 * it has levels.
 */
size_t pt_reap(struct pgtable *pt);

/*
 * In the child of a fork, where no other thread exists. A reaper that was at
 * work in the parent is undone: what it had unlinked is freed here.
 */
void pt_fork_child(struct pgtable *pt);

#endif
