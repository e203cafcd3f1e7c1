// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * lock.c - see lock.h.
 *
 * Ordering: everything before lock_drop happens before everything after the
 * next lock_take of the same lock.
 */
#include "base/lock.h"

#include <linux/futex.h>

#include "base/sys.h"
#include "base/ban.h"

/* Signals of this thread: how often they were switched off, and its mask before
 * the first time. A handler finds 0, and leaves 0 also where it jumps. */
static FL_TLS uint32_t off_depth;
static FL_TLS uint64_t off_mask;

void signals_off(void)
{
	if (off_depth == 0)
		off_mask = sys_block_signals();
	off_depth++;
}

void signals_on(void)
{
	fl_assert(off_depth > 0);
	if (--off_depth == 0)
		sys_restore_signals(off_mask);
}

#if FL_DEBUG >= 2
/* Ranks this thread holds, as a bit mask. */
static FL_TLS uint32_t held_mask;

static void rank_enter(const struct fl_lock *l)
{
	fl_assert(l->rank > LOCK_NONE && l->rank < LOCK_NR_RANKS);
	if (held_mask >> l->rank)
		BUG("lock order: a lock of equal or higher rank is held");
	held_mask |= 1u << l->rank;
}

static void rank_leave(const struct fl_lock *l)
{
	fl_assert(held_mask & (1u << l->rank));
	held_mask &= ~(1u << l->rank);
}
#else
static void rank_enter(const struct fl_lock *l)
{
	(void)l;
}

static void rank_leave(const struct fl_lock *l)
{
	(void)l;
}
#endif

bool lock_try(struct fl_lock *l)
{
	uint32_t old = 0;

	if (ld_rlx(&l->word) != 0)
		return false;
	signals_off();
	/* [MO:lock] acquire; pairs with the release in lock_drop. */
	if (!cas_acq(&l->word, &old, 1u)) {
		signals_on();
		return false;
	}
	rank_enter(l);
	return true;
}

void lock_take(struct fl_lock *l)
{
	uint32_t old = 0;

	signals_off();
	rank_enter(l);
	/* [MO:lock] acquire; pairs with the release in lock_drop. */
	if (likely(cas_acq(&l->word, &old, 1u)))
		return;
	/* [MO:lock] acquire; the waiter's path. */
	while (xchg_acq(&l->word, 2u) != 0)
		sys_futex_wait(&l->word, 2, NULL);
}

void lock_drop(struct fl_lock *l)
{
	rank_leave(l);
	/* [MO:lock] release; pairs with the acquires in lock_take, lock_try. */
	if (xchg_rel(&l->word, 0u) == 2)
		sys_futex_wake(&l->word, 1);
	signals_on();
}

void lock_reset(struct fl_lock *l)
{
	st_rlx(&l->word, 0u);
}

bool lock_held(const struct fl_lock *l)
{
	return ld_rlx(&l->word) != 0;
}
