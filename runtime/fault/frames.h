/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * frames.h - the memory budget of demand regions, and what goes when it is used
 * up.
 *
 * CREDIT. A filler buys frames from the budget in handfuls and spends them
 * without touching a shared line; frames that it evicts are its own again. What
 * was bought and not spent counts as used, so the pages present never exceed
 * the budget. When nothing is left and nothing can be evicted (all frames are
 * in other threads' hands), a filler overdraws by one page.
 *
 * QUEUES. A filler notes the pages it fills in an open batch. Full batches go
 * into one of two queues, and an eviction takes the oldest batch of one: 256
 * pages for two shared operations, and one process_madvise(2) with one TLB
 * flush for all of them. Private anonymous frames have no accessed bit a
 * program could read, so what is known of a page is whether it was wanted again
 * after it had gone: its entry keeps the clock, which counts batches, of its eviction. That is
 * S3-FIFO (Yang et al., SOSP '23) without hit bits: pages enter the small
 * queue, and one that comes back within half the length of the main queue
 * enters that (bench/policy.c, by measurement). The entry as ghost is mm/workingset.c's idea.
 *
 * A queue is two stacks (Okasaki): one takes what comes in, the other gives
 * what goes out, and whoever finds the second empty turns the first over. Two
 * evictors may get batches in slightly another order. Entries of regions that
 * have gone, or pages evicted by another way, are found by their state and
 * skipped; when batches with little left in them pile up, each push sweeps one.
 *
 * Ordering: batches pass through the stacks ([MO:istack]). Counters are relaxed.
 * Progress: lock-free. Reclaim: batches are type-stable.
 */
#ifndef FL_FAULT_FRAMES_H
#define FL_FAULT_FRAMES_H

#include "base/base.h"
#include "base/order.h"
#include "base/stat.h"
#include "fault/filler.h"
#include "mem/extent.h"
#include "mem/istack.h"
#include "mem/pte.h"

enum frames_queue {
	QUEUE_SMALL,
	QUEUE_MAIN,
	NR_QUEUES,
};

/* Pages that were filled: id of the region << 44 | page. */
struct batch {
	_Atomic(uint32_t) link;
	uint32_t n;
	uint64_t page[BATCH_MAX];
};

struct queue {
	FL_ALIGNED_CL struct istack in;
	struct istack out;
	/* Pages noted in queued batches. */
	_Atomic(uint64_t) pages;
};

struct frames {
	struct ext_budget *budget; /* the arenas', too */
	struct stats *stats;
	uint64_t limit;   /* pages */
	uint64_t cap;     /* bytes, of budget->resident */
	uint32_t batch;   /* pages a batch holds, <= BATCH_MAX */
	uint32_t handful; /* pages bought at a time */
	uint32_t granule; /* most pages of one fill */
	enum io_engine engine;
	struct batch *batches;
	uint32_t nr_batches;
	/* Pages bought. */
	FL_ALIGNED_CL _Atomic(uint64_t) charged;
	/* Batches evicted, what the ghosts' age is told by. */
	_Atomic(uint32_t) clock;
	struct istack spare;
	/* Batches that have been made. */
	_Atomic(uint32_t) made;
	struct queue queue[NR_QUEUES];
};

/* @limit: pages; @cap: bytes the arenas and they may hold together. 0 or
 * -ENOMEM. */
int frames_init(struct frames *fr, struct ext_budget *budget,
		struct stats *stats, uint64_t limit, uint64_t cap,
		uint32_t granule, enum io_engine engine);
void frames_destroy(struct frames *fr);

/* The filler works for this pager from now on. */
void frames_use(struct filler *f, struct frames *fr);

/* How many pages of its buffer the filler may use, of the @want it would like:
 * the budget covers buffers, too. */
uint32_t frames_room(struct filler *f, struct frames *fr, uint32_t want);

/* @n pages of the budget for something else than frames, if need be by
 * eviction. Given back by frames_uncharge. */
bool frames_pay(struct filler *f, struct frames *fr, uint32_t n);

/* The filler's credit becomes @want, or as near as it gets, at least 1.
 * Returns it. Within a read section of the map. */
uint32_t frames_buy(struct filler *f, struct frames *fr, uint32_t want);

/* @old is the entry of a page that is about to be filled: was it evicted so
 * lately that it belongs into the main queue? */
bool frames_young(struct frames *fr, pte_t old);

/* One page was filled; the filler's credit is spent by the caller. */
void frames_note(struct filler *f, uint32_t id, size_t page, bool young);

/* @n pages are gone without an eviction. */
void frames_uncharge(struct frames *fr, uint64_t n);

/* Evicts at least @want pages if it can. Returns how many. */
uint32_t frames_evict(struct filler *f, struct frames *fr, uint32_t want);

/* The thread of @f has ended in the middle of it: what it held goes back, its
 * marks end. The filler is not used again: the kernel may still read into it. */
void frames_lost(struct filler *f);

/* In the child of a fork, alone: nothing is present. */
void frames_fork_child(struct frames *fr);

#endif
