// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * guard.c - what a preload needs to keep a program's hands off the runtime: the
 * SIGBUS handler, descriptors, buffers of system calls.
 */
#include <signal.h>

#include "base/order.h"
#include "fault/fault.h"
#include "fault/fdtable.h"
#include "fault/mode.h"
#include "fault/signal.h"
#include "fault/vma.h"
#include "faultline.h"
#include "base/ban.h"

int fl_sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	int ret = signal_action(sig, act, old);

	if (ret < 0) {
		errno = -ret;
		return -1;
	}
	return 0;
}

int fl_sigbus_taken(void)
{
	return ld_rlx(&signal_installed);
}

int fl_touch(const void *addr, size_t len, int write)
{
	if (likely(!ld_rlx(&delivery_blind) || !vma_near(addr, len)))
		return 0;
	/* What cannot be had the kernel reports. */
	fault_touch(addr, len, write != 0);
	return 1;
}

/* A single load and store each, as an atomic's relaxed ones. */
_Static_assert(offsetof(struct vmas, high) ==
		       offsetof(struct vmas, low) + sizeof(uintptr_t),
	       "two words");

const volatile uintptr_t *fl_touch_range(void)
{
	return (const volatile uintptr_t *)&vmas.low;
}

int fl_fd_next(int fd)
{
	return fd_next(fd);
}

int fl_fd_floor(void)
{
	return ld_rlx(&fd_floor);
}

int fl_fd_close(int fd)
{
	return (int)fd_close(fd);
}

int fl_fd_close_range(unsigned int first, unsigned int last, unsigned int flags)
{
	return (int)fd_close_range(first, last, flags);
}

int fl_fd_dup(int from, int to, int flags)
{
	return (int)fd_dup(from, to, flags);
}
