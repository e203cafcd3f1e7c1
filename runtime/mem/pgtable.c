/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pgtable.c - the shadow page table: install, walk, clear, reap.
 *
 * SHAPE. `levels` tables of 1024 links above leaves of ptes, each table one
 * object of the slab. A link is a 32-bit word, {IDLE:1, slab index + 1:31}; 0
 * is no table. The root is there from pt_init() to pt_destroy().
 *
 * STATES of a link, and who moves it:
 *   0         -> t         link_claim(): a setter whose compare-and-swap loses
 *                          frees its table and takes the winner's
 *   t         -> t | IDLE  the reaper, having found table t empty
 *   t | IDLE  -> t         link_claim(): a setter, before it puts anything into
 *                          or below t
 *   t | IDLE  -> 0         the reaper, in a later pass, having found t empty
 *                          again
 * Walkers that put nothing into t ignore IDLE. States of an entry: mem/pte.h.
 *
 * WHY NOTHING IS LOST. No count of entries is kept, so setting and clearing
 * touch no word but the entries themselves. Let the reaper mark t, wait for a
 * grace period, find t empty and cut its link. A setter that read the link
 * before it was marked did so in a read section that the grace period waited
 * for: the scan sees all it stored. A setter that read the link afterwards had
 * to take the mark off first, and then the cut fails, as there is one reaper
 * and only he marks. So at the cut t is empty and stays so. What was said of
 * ptes in leaves holds for links in the tables above: an installer is a setter
 * of the table that holds the link. A table emptied lately is thus kept for one
 * interval between two pt_reap(), which spares the allocation to a program that
 * maps and unmaps one page over and over.
 *
 * ORDERING. A link is published with release (link_claim) and read with
 * acquire, so a walker finds the table zero or newer. Marks and cuts need no
 * order of their own: they touch one word, and grace periods order the rest.
 * Entries: mem/pte.h.
 *
 * RECLAIM. A table that was cut off goes back to the slab after a grace period,
 * all zero: walkers that still hold it read NONE.
 *
 * PROGRESS. pt_get, pt_count_range, pt_for_each: wait-free for each entry. The
 * others: lock-free, except where the codec has no compare-and-swap (pte.h).
 * pt_reap blocks for the grace period and holds no lock.
 */
#include "base/base.h"
#include "base/lock.h"
#include "base/order.h"
#include "base/rcu.h"
#include "mem/istack.h"
#include "mem/pgtable.h"
#include "mem/pte.h"
#include "mem/slab.h"

#include "base/ban.h"

#define LINK_IDLE 0x80000000u

_Static_assert(sizeof(struct pte_slot) * PT_LEAF_SIZE == SLAB_OBJ_SIZE,
	       "a leaf is one object");
_Static_assert(sizeof(_Atomic(uint32_t)) * PT_UPPER_SIZE == SLAB_OBJ_SIZE,
	       "a table of links is one object");

/* Table t, a slab index, as what it is. */
static inline _Atomic(uint32_t) *upper_links(const struct pgtable *pt,
					     uint32_t t)
{
	return (_Atomic(uint32_t) *)(void *)(pt->tables +
					     ((size_t)t << SLAB_OBJ_SHIFT));
}

static inline struct pte_slot *leaf_slots(const struct pgtable *pt, uint32_t t)
{
	return (struct pte_slot *)(void *)(pt->tables +
					   ((size_t)t << SLAB_OBJ_SHIFT));
}

/* The link in table t, `level` levels above the leaves (0: right above), that
 * leads to page idx. */
static inline _Atomic(uint32_t) *link_to(const struct pgtable *pt, uint32_t t,
					 unsigned int level, size_t idx)
{
	unsigned int shift = PT_LEAF_SHIFT + level * PT_UPPER_SHIFT;

	return upper_links(pt, t) + ((idx >> shift) & (PT_UPPER_SIZE - 1));
}

static inline uint32_t link_table(uint32_t link)
{
	return (link & ~LINK_IDLE) - 1;
}

/* How many of n pages from idx on lie in the leaf of idx. */
static inline size_t leaf_run(size_t idx, size_t n)
{
	size_t room = PT_LEAF_SIZE - (idx & (PT_LEAF_SIZE - 1));

	return n < room ? n : room;
}

/* Slot of page idx, or NULL where there is no table. In a read section. */
static inline struct pte_slot *walk_rcu(struct pgtable *pt, size_t idx)
{
	uint32_t t = pt->root;

	fl_assert(idx < pt->nr_pages);
	for (unsigned int level = pt->levels; level-- > 0;) {
		/* [MO:pt-link] the table is as link_claim published it. */
		uint32_t link = ld_acq(link_to(pt, t, level, idx));

		if (link == 0)
			return NULL;
		t = link_table(link);
	}
	return leaf_slots(pt, t) + (idx & (PT_LEAF_SIZE - 1));
}

/*
 * Make a link that was read as @old usable to a setter: install a table, or
 * take the mark off. Returns the link without mark, or 0 for want of memory.
 */
static FL_COLD uint32_t link_claim(struct pgtable *pt, _Atomic(uint32_t) *link,
				   uint32_t old)
{
	for (;;) {
		uint32_t new = old & ~LINK_IDLE;
		void *table = NULL;

		if (new != 0 && new == old)
			return new;
		if (new == 0) {
			table = slab_alloc(pt->slab);
			if (!table)
				return 0;
			new = slab_index(pt->slab, table) + 1;
		}
		/* [MO:pt-link] publishes the zero table to walk_rcu and
		 * walk_set_rcu; a loser sees the winner's. */
		if (cas_acq_rel_acq(link, &old, new)) {
			if (table)
				add_rlx(&pt->nr_tables, 1u);
			return new;
		}
		if (table)
			slab_free(pt->slab, table);
	}
}

/* Slot of page idx for a setter, or NULL for want of memory. The table stays
 * for as long as the read section lasts, and is not cut off before its next
 * pass finds it empty. */
static inline struct pte_slot *walk_set_rcu(struct pgtable *pt, size_t idx)
{
	uint32_t t = pt->root;

	fl_assert(idx < pt->nr_pages);
	for (unsigned int level = pt->levels; level-- > 0;) {
		_Atomic(uint32_t) *at = link_to(pt, t, level, idx);
		/* [MO:pt-link] the table is as link_claim published it. */
		uint32_t link = ld_acq(at);

		if (unlikely(link == 0 || (link & LINK_IDLE))) {
			link = link_claim(pt, at, link);
			if (link == 0)
				return NULL;
		}
		t = link - 1;
	}
	return leaf_slots(pt, t) + (idx & (PT_LEAF_SIZE - 1));
}

static inline pte_t pte_advance(pte_t e, uint64_t frames)
{
	return (pte_t){ e.v + ((pteval_t)frames << ARCH_PTE_PFN_SHIFT) };
}

pte_t pt_get(struct pgtable *pt, size_t idx)
{
	pte_t e = { 0 };
	struct pte_slot *slot;

	rcu_enter();
	slot = walk_rcu(pt, idx);
	if (slot)
		e = ptep_get(slot);
	rcu_exit();
	return e;
}

/* Take back the first n pages of a range that could not be set as a whole. */
static FL_COLD void unset_rcu(struct pgtable *pt, size_t idx, size_t n)
{
	while (n > 0) {
		size_t run = leaf_run(idx, n);
		struct pte_slot *slot = walk_rcu(pt, idx);

		for (size_t i = 0; i < run; i++)
			ptep_set_rel(slot + i, (pte_t){ 0 });
		idx += run;
		n -= run;
	}
}

int pt_set_range(struct pgtable *pt, size_t idx, size_t n, pte_t first,
		 uint64_t pfn_step)
{
	size_t done = 0;
	int ret = 0;

	rcu_enter();
	while (done < n) {
		size_t run = leaf_run(idx + done, n - done);
		struct pte_slot *slot = walk_set_rcu(pt, idx + done);

		if (unlikely(!slot)) {
			unset_rcu(pt, idx, done);
			ret = -ENOMEM;
			break;
		}
		for (size_t i = 0; i < run; i++) {
			fl_assert(pte_none(ptep_get_rlx(slot + i)));
			ptep_set_rel(slot + i, first);
			first = pte_advance(first, pfn_step);
		}
		done += run;
	}
	rcu_exit();
	return ret;
}

size_t pt_clear_range(struct pgtable *pt, struct fl_lock *region, size_t idx,
		      size_t n, enum pte_state from, size_t *others)
{
	size_t cleared = 0, left_alone = 0;

	rcu_enter();
	while (n > 0) {
		size_t run = leaf_run(idx, n);
		struct pte_slot *slot = walk_rcu(pt, idx);

		for (size_t i = 0; slot && i < run; i++) {
			pte_t e = ptep_get_rlx(slot + i);
			bool mine = false;

			while (pte_state(e) == from && !mine)
				mine = ptep_cmpxchg(region, slot + i, &e,
						    (pte_t){ 0 });
			if (mine)
				cleared++;
			else if (!pte_none(e))
				left_alone++;
		}
		idx += run;
		n -= run;
	}
	rcu_exit();
	if (others)
		*others = left_alone;
	return cleared;
}

size_t pt_move_range(struct pgtable *pt, struct fl_lock *region, size_t idx,
		     size_t n, enum pte_state from, pte_t to, uint64_t pfn_step)
{
	size_t moved = 0;

	/* Only pt_set_range() may fill an entry: it minds LINK_IDLE. */
	fl_assert(from != PTE_NONE && !pte_none(to));
	rcu_enter();
	while (n > 0) {
		size_t run = leaf_run(idx, n);
		struct pte_slot *slot = walk_rcu(pt, idx);

		for (size_t i = 0; slot && i < run; i++) {
			pte_t new = pte_advance(to, i * pfn_step);
			pte_t e = ptep_get_rlx(slot + i);

			while (pte_state(e) == from) {
				if (!ptep_cmpxchg(region, slot + i, &e, new))
					continue;
				moved++;
				break;
			}
		}
		to = pte_advance(to, run * pfn_step);
		idx += run;
		n -= run;
	}
	rcu_exit();
	return moved;
}

size_t pt_count_range(struct pgtable *pt, size_t idx, size_t n,
		      enum pte_state state)
{
	size_t found = 0;

	rcu_enter();
	while (n > 0) {
		size_t run = leaf_run(idx, n);
		struct pte_slot *slot = walk_rcu(pt, idx);

		for (size_t i = 0; slot && i < run; i++)
			found += pte_state(ptep_get_rlx(slot + i)) == state;
		if (!slot && state == PTE_NONE)
			found += run;
		idx += run;
		n -= run;
	}
	rcu_exit();
	return found;
}

/* The length of the run of one state that begins at idx, of n pages at most.
 * In a read section. */
static size_t state_run_rcu(struct pgtable *pt, size_t idx, size_t n,
			    enum pte_state *state)
{
	size_t len = 0;

	while (len < n) {
		size_t run = leaf_run(idx + len, n - len);
		struct pte_slot *slot = walk_rcu(pt, idx + len);

		for (size_t i = 0; i < run; i++) {
			/* Acquire, as the caller goes on to read the page. */
			enum pte_state s =
				slot ? pte_state(ptep_get(slot + i)) : PTE_NONE;

			if (len + i == 0)
				*state = s;
			else if (s != *state)
				return len + i;
			if (!slot)
				break;
		}
		len += run;
	}
	return len;
}

int pt_for_each(struct pgtable *pt, size_t idx, size_t n,
		int (*fn)(void *arg, size_t idx, size_t n,
			  enum pte_state state),
		void *arg)
{
	while (n > 0) {
		enum pte_state state = PTE_NONE;
		size_t run;

		rcu_enter();
		run = state_run_rcu(pt, idx, n, &state);
		rcu_exit();
		if (state != PTE_NONE) {
			int ret = fn(arg, idx, run, state);

			if (ret != 0)
				return ret;
		}
		idx += run;
		n -= run;
	}
	return 0;
}

static bool leaf_empty(struct pgtable *pt, uint32_t t)
{
	struct pte_slot *slot = leaf_slots(pt, t);

	for (size_t i = 0; i < PT_LEAF_SIZE; i++) {
		if (!pte_none(ptep_get_rlx(slot + i)))
			return false;
	}
	return true;
}

/*
 * Cut off the table behind *at, which was marked before the last grace period
 * and is empty. It is chained as dead before the cut and the link is noted, so
 * that a child forked in between can tell whether the cut was made.
 */
static bool reap_cut(struct pgtable *pt, _Atomic(uint32_t) *at, uint32_t link)
{
	uint32_t t = link_table(link);
	uint32_t dead = ld_rlx(&pt->dead);
	bool done;

	istack_link(pt->slab->outer, t, dead - 1);
	st_rlx(&pt->cutting, at);
	st_rlx(&pt->dead, t + 1);
	/* [MO:pt-cut] the notes above are made before the cut and taken off
	 * after it, for pt_fork_child. */
	done = cas_acq_rel(at, &link, 0u);
	if (!done)
		st_rlx(&pt->dead, dead);
	st_rlx(&pt->cutting, NULL);
	if (done)
		sub_rlx(&pt->nr_tables, 1u);
	return done;
}

/*
 * One pass over table t and what hangs below it. Needs no read section: only
 * the reaper himself unlinks tables. True if t is empty now; *marked tells that
 * some table was marked.
 */
static bool reap_table(struct pgtable *pt, uint32_t t, unsigned int level,
		       bool *marked)
{
	bool empty = true;

	for (size_t i = 0; i < PT_UPPER_SIZE; i++) {
		_Atomic(uint32_t) *at = upper_links(pt, t) + i;
		/* [MO:pt-link] the table is as link_claim published it. */
		uint32_t link = ld_acq(at);
		uint32_t below = link_table(link);

		if (link == 0)
			continue;
		if (level == 0 ? leaf_empty(pt, below) :
				 reap_table(pt, below, level - 1, marked)) {
			if (!(link & LINK_IDLE)) {
				cas_rlx(at, &link, link | LINK_IDLE);
				*marked = true;
			} else if (reap_cut(pt, at, link)) {
				continue;
			}
		}
		empty = false;
	}
	return empty;
}

static size_t free_dead(struct pgtable *pt)
{
	uint32_t dead;
	size_t n = 0;

	while ((dead = ld_rlx(&pt->dead)) != 0) {
		st_rlx(&pt->dead, istack_next(pt->slab->outer, dead - 1));
		slab_free(pt->slab, slab_obj(pt->slab, dead - 1));
		n++;
	}
	return n;
}

static size_t reap(struct pgtable *pt)
{
	bool marked = false;
	size_t n;

	/* [MO:pt-reaper] the dead list is as the last reaper left it. */
	if (xchg_acq(&pt->reaping, 1u) != 0)
		return 0;
	reap_table(pt, pt->root, pt->levels - 1, &marked);
	/* Ends the use of what was cut off, and makes the marks ripe. */
	if (marked || ld_rlx(&pt->dead) != 0)
		rcu_sync();
	n = free_dead(pt);
	/* [MO:pt-reaper] hands the dead list to the next reaper. */
	st_rel(&pt->reaping, 0u);
	return n;
}

size_t pt_reap(struct pgtable *pt)
{
	size_t n;

	if (rcu_inside()) /* it would wait for itself */
		return 0;
	signals_off();
	n = reap(pt);
	signals_on();
	return n;
}

void pt_fork_child(struct pgtable *pt)
{
	_Atomic(uint32_t) *at = ld_rlx(&pt->cutting);
	uint32_t dead = ld_rlx(&pt->dead);

	/* [MO:pt-cut] the cut is seen only together with reap_cut's notes. */
	if (at && dead != 0 && (ld_acq(at) & ~LINK_IDLE) == dead)
		st_rlx(&pt->dead, istack_next(pt->slab->outer, dead - 1));
	st_rlx(&pt->cutting, NULL);
	free_dead(pt);
	st_rlx(&pt->reaping, 0u);
}

int pt_init(struct pgtable *pt, size_t nr_pages, struct slab *slab)
{
	void *root = slab_alloc(slab);

	if (!root)
		return -ENOMEM;
	pt->slab = slab;
	pt->tables = slab->base;
	pt->nr_pages = nr_pages;
	pt->root = slab_index(slab, root);
	pt->levels = 1;
	while ((uint64_t)nr_pages > (uint64_t)PT_LEAF_SIZE
					    << (pt->levels * PT_UPPER_SHIFT))
		pt->levels++;
	st_rlx(&pt->reaping, 0u);
	st_rlx(&pt->dead, 0u);
	st_rlx(&pt->cutting, NULL);
	st_rlx(&pt->nr_tables, 1u);
	return 0;
}

static void destroy_table(struct pgtable *pt, uint32_t t, unsigned int level)
{
	_Atomic(uint32_t) *at = upper_links(pt, t);

	for (size_t i = 0; i < PT_UPPER_SIZE; i++) {
		uint32_t link = ld_rlx(at + i);

		if (link == 0)
			continue;
		st_rlx(at + i, 0u);
		if (level > 0)
			destroy_table(pt, link_table(link), level - 1);
		else
			slab_free(pt->slab,
				  slab_obj(pt->slab, link_table(link)));
	}
	slab_free(pt->slab, slab_obj(pt->slab, t));
}

void pt_destroy(struct pgtable *pt)
{
	destroy_table(pt, pt->root, pt->levels - 1);
	pt->root = 0;
	pt->levels = 0;
}
