/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fault.h - serving a fault of a demand region, as the signal handler, the
 * service threads and the wrappers of system calls see it.
 *
 * All functions here are async-signal-safe and take no lock, except where said.
 */
#ifndef FL_FAULT_FAULT_H
#define FL_FAULT_FAULT_H

#include "base/base.h"
#include "base/order.h"

struct filler;

enum fault_verdict {
	FAULT_NOT_OURS, /* no demand region there */
	FAULT_DONE,     /* repeat the access */
	FAULT_BUS,      /* the page cannot be had: the program's SIGBUS */
};

/* Serves the fault at @addr in the calling thread. */
enum fault_verdict fault_serve(const void *addr);

/*
 * The same for a thread that sleeps in the kernel, in a service thread. *@mine
 * is the filler meanwhile. After FAULT_DONE the sleeper has been woken, or will
 * be by who fills the page; otherwise the caller has to wake it.
 */
enum fault_verdict fault_service(const void *addr, bool write,
				 _Atomic(struct filler *) *mine);

/* Whoever sleeps for a page looks again: some were taken from who filled them. */
void fault_wake_all(void);

/*
 * Makes present what of [addr, addr+len) lies in demand regions, for a system
 * call that is about to use it; @write: also writable, where the region is. 0,
 * or -errno of the first page that cannot be had. Costs a comparison where there are no demand regions.
 */
long fault_touch(const void *addr, size_t len, bool write);

#endif
