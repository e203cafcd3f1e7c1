/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * lock.h - the futex mutex, and the lock order as code.
 *
 * `enum lock_rank` IS the lock order, low to high: a thread that holds a lock
 * takes only locks of higher rank. FL_DEBUG >= 2 checks it on every acquire
 * and aborts with both names. No lock is held across I/O or across a wait for
 * another thread other than for a lock of higher rank.
 *
 * Signals: a thread that holds a lock has them blocked (signals_off). A handler
 * may map and unmap itself, and would wait for a lock its own thread holds; or
 * leave by siglongjmp, and the lock would never be dropped.
 *
 * Progress: blocking. Used on slow paths only (demotion, trimming, fork,
 * carving); the mapping and unmapping paths take none.
 */
#ifndef FL_BASE_LOCK_H
#define FL_BASE_LOCK_H

#include "base/base.h"
#include "base/order.h"

enum lock_rank {
	LOCK_NONE,
	LOCK_FORK,   /* one fork at a time; held from prepare to parent/child */
	LOCK_ADOPT,  /* a child of fork rebuilds a pager */
	LOCK_PAGER,  /* list of open pagers; open and close */
	LOCK_TRIM,   /* one trimmer at a time per pager */
	LOCK_DEMAND, /* a pager gets ready for demand regions */
	LOCK_MODE,   /* fault delivery is set up */
	LOCK_VMA,    /* the map of demand regions is changed */
	LOCK_REGION, /* demotion, claims and restores of one extent */
	LOCK_PTE,    /* the entries of one extent, on codecs without cmpxchg */
	LOCK_CARVE,  /* one chunk of a pool is opened at a time */
	LOCK_SLAB,   /* refill of a slab from the kernel */
	LOCK_SIGNAL, /* the program's action for SIGBUS */
	LOCK_FDS,    /* the descriptors the pager keeps open */
	LOCK_LOG,    /* leaf: the once-per-message table */
	LOCK_NR_RANKS,
};

/* 0 free, 1 held, 2 held and somebody sleeps (Drepper, "Futexes are tricky",
 * mutex 3). */
struct fl_lock {
	_Atomic(uint32_t) word;
	uint32_t rank;
};

#define FL_LOCK_INIT(r)                \
	{                              \
		.word = 0, .rank = (r) \
	}

static inline void lock_init(struct fl_lock *l, enum lock_rank rank)
{
	st_rlx(&l->word, 0u);
	l->rank = rank;
}

void lock_take(struct fl_lock *l);
bool lock_try(struct fl_lock *l);
void lock_drop(struct fl_lock *l);

/* In the child of a fork: a lock that another thread of the parent may have
 * held. One that the forking thread holds is dropped by lock_drop. */
void lock_reset(struct fl_lock *l);

/*
 * No handler of the program runs in this thread between the two, as with a lock
 * held: for steps without a lock that must be done to the end. They nest.
 */
void signals_off(void);
void signals_on(void);

bool lock_held(const struct fl_lock *l);

#endif
