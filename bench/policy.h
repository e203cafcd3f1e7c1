/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * policy.h - page traces and the replay of one through an eviction policy.
 *
 * What a pager in user space knows is less than what a kernel knows: a page
 * that is mapped is touched unseen. It sees the miss of a page it evicted (the
 * ghost, pl_policy.window), and the touch of a page it unmapped but kept
 * (probation, pl_policy.probe).
 */
#ifndef POLICY_H
#define POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pl_trace {
	char name[40];
	uint32_t *page; /* in the order of the accesses */
	size_t n;
	uint32_t nr_pages; /* numbers are below this, and most occur */
	uint32_t distinct; /* of the numbers that do */
};

enum pl_kind {
	PL_QUEUES, /* one or two FIFO queues; see below */
	PL_RANDOM,
	PL_LRU, /* a bound: knows each access */
	PL_OPT  /* a bound: knows the future */
};

/*
 * PL_QUEUES: a page enters the small queue, a page found again enters the main
 * queue. Evicted is the oldest of the small queue when that is over its share,
 * else the oldest of the main queue. With small == 1 there is one queue.
 */
struct pl_policy {
	const char *name;
	enum pl_kind kind;
	double small;       /* share of the small queue */
	double window;      /* a ghost is found again up to this many times the
			  * main queue's size later; 0: no ghosts */
	double main_window; /* the same for ghosts of the main queue */
	bool adapt;         /* ghosts move the share */
	double probe;       /* share of a queue that is unmapped but kept */
	bool bits;   /* a bound: sees each hit, as S3-FIFO and CLOCK do */
	bool single; /* evicts page by page, not in batches */
	bool shared; /* priced as shared frames */
};

struct pl_result {
	uint64_t miss; /* fills */
	uint64_t soft; /* touches in probation: faults without I/O */
	uint64_t zap;  /* pages unmapped */
};

struct pl_result pl_replay(const struct pl_policy *p, const struct pl_trace *t,
			   uint32_t memory, uint32_t batch);

/*
 * Trace number @i of those made up here, for a memory of @memory pages; false
 * past the last.
 */
bool pl_make(unsigned int i, uint32_t memory, struct pl_trace *t);

/*
 * A recorded trace, as traces/record.sh leaves them: "FLPT1\n", then numbers of
 * 7 bits a byte, low bits first, the top bit set when more follow. A number is
 * 2 * (page - expected), or minus twice that minus 1 where it is negative;
 * expected is the page after the one before, 0 at first. 0 is followed by how
 * many more pages come in order.
 */
void pl_load(const char *path, struct pl_trace *t);

/* Make such a file of what traces/record.c wrote; at most @max accesses. */
void pl_pack(const char *raw, const char *path, size_t max);
void pl_free(struct pl_trace *t);

#endif
