/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * window.h - how much is read for a fault.
 *
 * One page, unless the fault is at the end of what was read for an earlier one:
 * then the access is sequential, and the window doubles, up to the granule.
 * Those ends are remembered in the filler, that is for each CPU, without a
 * shared line; only a stream that has gone on for a while is entered into the
 * region, where it is found when its thread gets another filler. So any number
 * of threads may scan a region at their own places, and random access meets an
 * end by chance only. That pages before a fault are present says nothing: of a
 * region that is mostly present they always are.
 *
 * The words of a stream are relaxed and each complete by itself: two threads that
 * change one at once make a window too large or too small, no more.
 */
#ifndef FL_FAULT_WINDOW_H
#define FL_FAULT_WINDOW_H

#include "base/base.h"
#include "fault/filler.h"
#include "fault/vma.h"

/* One service of a fault or a piece of a prefetch. */
struct job {
	struct filler *f;
	struct vma *v;
	size_t page;
	size_t begin; /* of the segment, in pages, and its end */
	size_t end;
	size_t want;              /* pages; 0: as the window says */
	bool service;             /* the faulting thread sleeps in the kernel */
	bool paid;                /* the first page is in the budget already */
	bool ahead;               /* sequential, at full speed */
	bool read;                /* surely not a write */
	struct end *end_of;       /* the stream it continues, or NULL */
	struct stream *stream_of; /* the same, if the region knows it */
	uint32_t window;          /* pages the stream asks for */
	bool again;               /* the entry has changed meanwhile */
	bool woken;               /* the sleeper was woken, or will be */
	uint32_t n;               /* pages claimed */
	int err;                  /* why not: an errno > 0 */
};

/* Pages to read for the fault, at least 1. Remembers it as an end. */
size_t window(struct job *j);

/* The job's page is now the first that was not filled. */
void window_filled(struct job *j);

#endif
