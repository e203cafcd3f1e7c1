/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fork.h - the ledger of children that have not taken their copy yet.
 *
 * The frames of a file arena are shared with a child of fork(). The child
 * copies what lives into frames of its own at once; until it has, the parent
 * must not recycle a frame that lived at the fork.
 *
 * Epochs: an extent carries the epoch in which it was allocated; the epoch
 * moves on in the parent after each fork, so "allocated at or before epoch k"
 * covers everything the child of epoch k can see. `barrier` is one more than
 * the highest epoch with a child that has not reported (0: none); an extent of
 * a lower epoch goes to quarantine when it is freed, not to a free stack.
 *
 * Slots: one word for each child in a page shared with it.
 *   FREE -> FORKED     parent, before fork
 *   FORKED -> TAKING   child, at once, with its pid
 *   TAKING -> DONE     child, when it has its copy
 *   FORKED -> FREE     parent, fork_poll, when fork seems to have failed and
 *                      this process has no children
 *   DONE -> FREE       parent, fork_poll
 *   TAKING -> FREE     parent, fork_poll, when the child has died
 * That a fork failed is told by errno, which handlers of others may have
 * changed: such a slot is in doubt, and its child, if there is one, may yet
 * come to it.
 * A child that dies between the fork and its first instruction of ours stays
 * FORKED: what lived then stays in quarantine. When all slots are taken, what
 * lives is given up for good (`lost`).
 *
 * Progress: fork_barrier is wait-free; fork_poll never waits (it does nothing
 * while somebody forks).
 */
#ifndef FL_MEM_FORK_H
#define FL_MEM_FORK_H

#include "base/base.h"
#include "base/lock.h"
#include "base/order.h"

#define FORK_SLOTS 64

struct fork_slots;

struct fork_ledger {
	/* Read at every free; changes at forks only. */
	_Atomic(uint32_t) barrier;
	_Atomic(uint32_t) epoch;
	uint32_t lost;            /* epochs below are given up; LOCK_FORK */
	struct fork_slots *slots; /* shared with the children */
	int mine;                 /* slot of the fork in progress, -1 none */
	uint32_t slot_epoch[FORK_SLOTS];
	uint64_t doubt;      /* slots of forks that seem to have failed */
	struct fl_lock lock; /* LOCK_FORK */
};

int fork_ledger_init(struct fork_ledger *f);
void fork_ledger_destroy(struct fork_ledger *f);

/* The three handlers of pthread_atfork. prepare takes the lock, the other two
 * drop it, in the child, too; so from the first to the last the thread has its
 * signals blocked: no handler maps in between, or leaves by a jump. @failed:
 * there may be no child. */
void fork_prepare(struct fork_ledger *f);
void fork_parent(struct fork_ledger *f, bool failed);
/* The child's first act, and its last. @copied: it has frames of its own;
 * otherwise the parent waits until the child is gone. */
void fork_child_begin(struct fork_ledger *f);
void fork_child_end(struct fork_ledger *f, bool copied);

/* Looks which children have reported; lowers the barrier. Returns true if it
 * went down. */
bool fork_poll(struct fork_ledger *f);

static inline uint32_t fork_epoch(struct fork_ledger *f)
{
	/* Relaxed: too old a value only quarantines without need. */
	return ld_rlx(&f->epoch);
}

/* Must an extent allocated in @epoch wait? Called after its page-table entries
 * are gone and its count was taken to zero with sub_sc. */
static inline bool fork_must_wait(struct fork_ledger *f, uint32_t epoch)
{
	/* [MO:fork-barrier] store-load with fork_prepare: either this load sees
	 * the raised barrier, or the child sees the entries gone. */
	return unlikely(epoch < ld_sc(&f->barrier));
}

#endif
