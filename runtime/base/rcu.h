/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * rcu.h - names for the one RCU flavour in use, liburcu's "bulletproof" one:
 * a thread registers itself at its first read section, which a preload needs
 * because it does not create the threads.
 *
 * Guarantees taken from liburcu (urcu/urcu-bp.h): rcu_sync() returns after
 * every read section that began before it has ended; all that the readers did
 * happens before its return, all that preceded it happens before any later
 * read section. Read sections nest, are wait-free after the first of a thread,
 * and may be entered from a signal handler. rcu_sync() blocks: it is called
 * with no lock held and outside of read sections, only on slow paths.
 * A handler that leaves a read section by a jump leaves it open for as long as
 * its thread lives: rcu_inside() tells, of this thread.
 * call_rcu() is not used: it would start a thread in somebody else's process.
 *
 * Targets Debian does not package liburcu for are built with
 * FL_WITHOUT_LIBURCU: a reader count and a wait for zero. Correct, not
 * scalable, and used by the cross-built tests only.
 */
#ifndef FL_BASE_RCU_H
#define FL_BASE_RCU_H

#include "base/base.h"
#include "base/order.h"

extern char rcu_tsan_tag;

#ifndef FL_WITHOUT_LIBURCU

/* The inline read sections; out of line under a sanitizer, which complains
 * about liburcu's own code (readers that are not as aligned as declared). */
#if !defined(_LGPL_SOURCE) && !defined(FL_SANITIZED)
#define _LGPL_SOURCE
#endif
#include <urcu/urcu-bp.h>

static inline void rcu_enter(void)
{
	urcu_bp_read_lock();
	tsan_acquire(&rcu_tsan_tag);
}

static inline void rcu_exit(void)
{
	tsan_release(&rcu_tsan_tag);
	urcu_bp_read_unlock();
}

static inline void rcu_sync(void)
{
	tsan_release(&rcu_tsan_tag);
	urcu_bp_synchronize_rcu();
	tsan_acquire(&rcu_tsan_tag);
}

/* Is this thread in a read section, or was it torn out of one? */
static inline bool rcu_inside(void)
{
	return urcu_bp_read_ongoing() != 0;
}

/* Around fork(): the child keeps only the forking thread's registration. */
static inline void rcu_fork_prepare(void)
{
	urcu_bp_before_fork();
}

static inline void rcu_fork_parent(void)
{
	urcu_bp_after_fork_parent();
}

static inline void rcu_fork_child(void)
{
	urcu_bp_after_fork_child();
}

#else /* FL_WITHOUT_LIBURCU */

extern _Atomic(unsigned long) rcu_readers;

static inline void rcu_enter(void)
{
	/* [MO:rcu-fallback] pairs with rcu_sync: a reader that is not counted
	 * yet sees every store made before the wait. */
	add_sc(&rcu_readers, 1ul);
}

static inline void rcu_exit(void)
{
	/* [MO:rcu-fallback] the reader's accesses end before rcu_sync returns. */
	sub_rel(&rcu_readers, 1ul);
}

void rcu_sync(void);

static inline bool rcu_inside(void)
{
	return false; /* not known */
}

static inline void rcu_fork_prepare(void)
{
}

static inline void rcu_fork_parent(void)
{
}

static inline void rcu_fork_child(void)
{
	st_rlx(&rcu_readers, 0ul);
}

#endif
#endif
