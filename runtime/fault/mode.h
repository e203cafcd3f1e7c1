/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * mode.h - how faults are delivered, and the descriptors that takes.
 *
 * Descriptors belong to the process, not to a pager: for each delivery a few
 * userfaultfds, among which regions are spread (each has a semaphore in the
 * kernel that every fill touches), and a pidfd of the process itself. The former
 * are opened early, since a program may give up its privileges or be put under a
 * seccomp filter later; handlers, threads and what can be done without appear
 * with the first region.
 */
#ifndef FL_FAULT_MODE_H
#define FL_FAULT_MODE_H

#include <sys/uio.h>

#include "base/base.h"
#include "base/conf.h"
#include "base/order.h"

struct uffd_caps;

enum delivery {
	DELIVER_SIGNAL,
	DELIVER_SERVICE,
	DELIVER_HYBRID,
	NR_DELIVERIES,
};

/*
 * delivery_open - choose and open.
 * @want: the option; @preload: whether auto means the preload's choice.
 * Returns an enum delivery, or -ENOTSUP where the system has none (or none of
 * that kind), -EMFILE.
 */
int delivery_open(enum conf_fault want, bool preload);

/* Installs the handler or starts the threads, the first time. 0 or -errno. */
int delivery_start(enum delivery d, unsigned int threads);

/* False when its threads have been lost: no region is made any more. */
bool delivery_works(enum delivery d);

/* What delivery_open does first: an enum delivery that is offered, or
 * -ENOTSUP. */
int delivery_choose(const struct uffd_caps *caps, enum conf_fault want,
		    bool preload);

/* The userfaultfd for one more region. */
_Atomic(int) *delivery_uffd(enum delivery d);

/* Can first writes be caught (writable regions)? After delivery_open. */
bool delivery_writes(void);

/* Do threads sleep in the kernel for a fill? */
static inline bool delivery_sleeps(enum delivery d)
{
	return d != DELIVER_SIGNAL;
}

/* Do system calls fail on an absent page? Relaxed: grows only. */
extern _Atomic(bool) delivery_blind;

/* A file without a byte: its mappings raise SIGBUS. -1: none could be had.
 * Opened before there may be no descriptors; fdtable.h. */
extern _Atomic(int) delivery_empty;

/* Drops the pages of the pieces from the page table, with one flush where the
 * kernel can. Async-signal-safe. */
void fault_zap(struct iovec *piece, unsigned int n);

/* In the child of a fork: the descriptors are the parent's. */
void delivery_fork_child(void);

const char *delivery_name(enum delivery d);

#endif
