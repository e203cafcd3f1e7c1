/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ahead.h - reading ahead of sequential access, past the page cache.
 *
 * While a program works through one window of a region, the next ones are read
 * into buffers of their own; the fault on the first page of a window finds the
 * bytes there and has only to fill. That page is the tripwire: it is left
 * absent, so the pager learns that the window has been reached. There are no
 * threads: the kernel reads (io_uring), and whoever faults collects. What is
 * read through the page cache the kernel is asked to begin with.
 *
 * STATES of a slot: FREE -> SETUP by compare-and-swap -> FLYING -> TAKEN by
 * compare-and-swap -> FREE. The word has a count beside the state, which each
 * setup advances, so that a swap fails if the slot was used again meanwhile.
 * SETUP and TAKEN belong to one thread. A slot in flight that nobody came for
 * is taken over when another is needed; all of a region are, when it goes.
 *
 * A buffer belongs to the budget of the pager it was last used for, and is given
 * up with the region.
 *
 * Ordering: [MO:ahead] releases a slot's fields with FLYING and acquires them
 * before the swap. Progress: lock-free but for the wait for one's own read.
 * Reclaim: slots are type-stable.
 */
#ifndef FL_FAULT_AHEAD_H
#define FL_FAULT_AHEAD_H

#include "base/base.h"
#include "fault/filler.h"
#include "fault/vma.h"

/* Windows in flight beyond the one that is filled. */
#define AHEAD_DEPTH 2u

/* Starts what follows the @n pages from @page, up to page @end, in windows of
 * the same size. */
void ahead_start(struct filler *f, struct vma *v, size_t page, size_t n,
		 size_t end);

/*
 * If the window that begins at @page is under way: waits, and the filler's
 * buffer is the one with its bytes. True then: *@got is as of store_read(),
 * *@n the pages asked for.
 */
bool ahead_take(struct filler *f, struct vma *v, size_t page, uint32_t *n,
		long *got);

/* The region goes: none of its reads remains. */
void ahead_forget(struct vma *v);

/* The buffers that this pager's budget pays for go. No region of it is left. */
void ahead_release(struct frames *fr);

/* In the child of a fork, alone. */
void ahead_fork_child(void);

#endif
