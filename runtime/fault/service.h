/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * service.h - threads that serve the faults of threads that sleep in the kernel,
 * and one that watches them.
 *
 * WAKING. Each thread waits in an epoll instance of its own in which the
 * userfaultfd is registered EPOLLEXCLUSIVE: a message wakes one thread, always
 * the first that is idle, hence the one whose caches are warm; another one
 * wakes only if the first is busy. A thread reads one message while there are
 * idle ones, who would have the next, and several at a time otherwise.
 *
 * TURNS. Each thread counts: odd while it serves, even while it waits. The
 * watchdog looks at the counts and at the threads themselves:
 *   gone     a store's function has ended the thread, or a seccomp filter has.
 *            What it had claimed is taken out of the map (vma_abandon), and
 *            another thread takes its place.
 *   stuck    the same turn for longer than service_patience says. The same; the
 *            thread may come back some time, and finds the map changed.
 *   fallen   too many have gone, or one in the middle of changing the page
 *            table, or messages stay unread though threads are idle: all
 *            regions of the userfaultfd are abandoned and none is made again.
 * Abandoned pages of a file are a mapping of the kernel's, others raise SIGBUS;
 * whoever sleeps on them is woken. So no thread waits for ever.
 *
 * The watchdog sleeps while nothing is served ([MO:service-turn]): there are no
 * idle wake-ups to speak of.
 */
#ifndef FL_FAULT_SERVICE_H
#define FL_FAULT_SERVICE_H

#include "base/base.h"
#include "base/order.h"

struct filler;

/* Threads of all pools together, those that have replaced others, too. */
#define SERVICE_THREADS 160u

/* Of one pool, before it is given up. */
#define SERVICE_REPLACED_MAX 16u

/* How long a turn may last, in checks. Set by tests, before the first start. */
extern struct service_patience {
	uint32_t check_ms;
	uint32_t file_checks;
	uint32_t user_checks;
} service_patience;

/* Starts @threads threads that read the non-blocking @uffd, and the watchdog.
 * 0 or -errno. Signals are blocked. Not for handlers. */
int service_start(_Atomic(int) *uffd, unsigned int threads);

/* Has the pool of @uffd fallen? */
bool service_fallen(const _Atomic(int) *uffd);

/* In the child of a fork: there are none. */
void service_fork_child(void);

#endif
