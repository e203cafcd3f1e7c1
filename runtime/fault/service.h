/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * service.h - threads that serve the faults of threads that sleep in the kernel.
 */
#ifndef FL_FAULT_SERVICE_H
#define FL_FAULT_SERVICE_H

#include "base/base.h"
#include "base/order.h"

/* Starts @threads threads that read @uffd. 0 or -errno. Not for handlers. */
int service_start(_Atomic(int) *uffd, unsigned int threads);

/* In the child of a fork: there are none. */
void service_fork_child(void);

#endif
