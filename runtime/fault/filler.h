/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * filler.h - what a thread needs while it serves a fault: a bounce buffer, an
 * I/O context, frames it may fill, and the marks by which others know what it
 * is doing.
 *
 * A filler belongs to a thread from filler_get() to filler_put() and to a CPU's
 * stack in between; nothing is kept per thread, because threads come and go
 * (clamd's idle ones die) and there may be thousands. The stacks are LIFO, so a
 * thread mostly gets the buffer that is in its cache.
 *
 * MARKS, and who waits for them:
 *   epoch    0, or the generation of the vma map when the filler began to look
 *            at it. What was unpublished later is not freed before it ends
 *            (epoch-based reclamation; K. Fraser, "Practical lock-freedom",
 *            2004, section 5.2.3). It may span I/O: nobody waits for it, things
 *            are just freed later.
 *   copying  set while the filler changes the kernel's page table: from before
 *            it checks that the map still says what it said, until the shadow
 *            entries tell the result. filler_quiesce() waits for it; it never
 *            spans I/O. So once a range is unpublished and filler_quiesce() has
 *            returned, no page is filled or zapped there any more, and the
 *            address may be used for something else.
 * All signals are blocked while copying is set, or a handler that unmaps would
 * wait for itself.
 *
 * Ordering: store-then-load on both sides ([MO:copying], [MO:epoch]), hence
 * sequential consistency: the filler marks and then reads the map, the other
 * side publishes the map and then reads the marks.
 *
 * Progress: filler_get and filler_put are lock-free while a filler is free or
 * fewer than FILLERS_MAX exist. filler_quiesce blocks.
 *
 * Reclaim: fillers are type-stable and never freed.
 */
#ifndef FL_FAULT_FILLER_H
#define FL_FAULT_FILLER_H

#include <sys/uio.h>

#include "base/base.h"
#include "base/order.h"
#include "io/io.h"

#define FILLERS_MAX 1024u

/* The bounce buffer: address space; memory as far as it was used. What is used
 * beyond the first few pages is bought from the budget (frames_room). */
#define FILLER_FREE 16u
#define FILLER_BUF ((size_t)2 << 20)

/* Pages that are evicted together. */
#define BATCH_MAX 256u

struct frames;
struct batch;
struct vma;
struct vmap;

/* An eviction: the pages, and the same as pieces of address space. Not on the
 * stack, which may be a signal's small one. */
struct victims {
	uint32_t n, pieces;
	uint32_t dirty; /* pages at the end of @at that have to be written */
	struct {
		struct vma *v;
		size_t page;
	} at[BATCH_MAX];
	struct iovec piece[BATCH_MAX];
};

/* The last faults that asked for one page. */
struct stride {
	uint64_t serial; /* of the region */
	size_t page;
	int64_t step;
	uint32_t seen; /* equal steps in a row */
};

/* The end of what was read for a fault, window.h. serial 0: none. */
struct end {
	uint64_t serial;
	size_t page;
	uint32_t n;
};

#define ENDS 8u

/* Pages read together for a stride. */
#define STRIDE_MOST 32u

struct filler {
	FL_ALIGNED_CL _Atomic(uint64_t) epoch;
	_Atomic(uint32_t) copying;
	_Atomic(uint32_t) link; /* mem/istack.h */
	/* The owner's. */
	FL_ALIGNED_CL struct vmap *map;
	/* The region being served. Relaxed: read by the watchdog, which takes
	 * it for a name only. */
	_Atomic(struct vma *) serving;
	char *buf;
	uint32_t paid; /* pages of @buf that are in the budget */
	/* Whose credit and batches it holds. */
	_Atomic(struct frames *) frames;
	uint32_t credit;        /* pages it may fill */
	struct batch *batch[2]; /* by enum frames_queue */
	struct filler *next;    /* of those somebody has stolen */
	struct io_ctx io;
	/* Of the window being filled: pages that had been there before. */
	uint64_t hot[FILLER_BUF >> FL_PAGE_SHIFT >> 6];
	struct stride stride;
	struct end ends[ENDS];
	uint32_t next_end;
	struct io_req req[STRIDE_MOST];
	struct victims victims;
};

/* Pages of the buffer that may be used. */
static inline uint32_t filler_room(const struct filler *f)
{
	return f->paid > FILLER_FREE ? f->paid : FILLER_FREE;
}

/* Makes the table, once. 0 or -ENOMEM. */
int filler_init(void);

struct filler *filler_get(void);
void filler_put(struct filler *f);

/* One of the fillers that nobody uses, or NULL. */
struct filler *filler_steal(unsigned int *pos);

/* Does any filler hold credit or batches of @fr? */
bool filler_uses(const struct frames *fr);

/* Waits until no filler is copying that began before the call. */
void filler_quiesce(void);

/* The lowest epoch of all fillers that have one, or UINT64_MAX. */
uint64_t filler_epoch(void);

/* In the child of a fork, alone: all are free; rings are forgotten. */
void filler_fork_child(void);

#endif
