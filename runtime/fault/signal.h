/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * signal.h - the pager's SIGBUS handler, and the program's behind it.
 *
 * From signal_install() on the kernel's handler for SIGBUS is the pager's; what
 * the program installs by signal_action() is kept here. A fault of a demand
 * region is served, without the program's noticing: all signals but those a
 * thread raises itself are blocked meanwhile, and errno is kept. Everything else
 * goes to the program's action with the kernel's rules: SA_SIGINFO, SA_NODEFER,
 * SA_RESETHAND, sa_mask, SA_RESTART and SA_ONSTACK (these two by installing ours
 * with the same), the default action with the core at the faulting instruction,
 * and death where a fault is ignored or blocked. Nothing of the pager's is held
 * while the program's handler runs, so it may leave by siglongjmp(3).
 *
 * SIGBUS is not blocked for the kernel while the program's handler runs, nor
 * where the preload is told to block it: see base/sigbit.h. So a handler may
 * touch demand regions.
 */
#ifndef FL_FAULT_SIGNAL_H
#define FL_FAULT_SIGNAL_H

#include "base/base.h"
#include "base/order.h"

struct sigaction;

/* Installs the handler, the first time. 0 or -errno. */
int signal_install(void);

/* The calling thread has SIGBUS blocked no longer but by the stand-in. */
void signal_unblock(void);

/* As sigaction(2), with the pager's SIGBUS handler staying. 0 or -errno.
 * Async-signal-safe. */
int signal_action(int sig, const struct sigaction *act, struct sigaction *old);

/* Is the handler installed? Relaxed: grows only, and what it decides is right
 * either way for a call that comes at the same time. */
extern _Atomic(bool) signal_installed;

/* In the child of a fork. */
void signal_fork_child(void);

#endif
