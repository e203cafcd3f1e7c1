/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * uffd.h - userfaultfd: where one comes from, and its ioctls with the answers
 * that need care dealt with.
 *
 * All functions are async-signal-safe, hold no state and leave errno alone.
 * Addresses and lengths are multiples of the page size.
 *
 * The page operations serve the whole range and return 0, or stop and return
 * -errno; what lies before the stop is served. A page that is already there is
 * not an error: its waiters are woken and it is left as it is. -EAGAIN comes
 * only after a bounded number of tries with the CPU yielded in between. -ENOENT
 * means that no registered mapping holds the whole range (it was unmapped, or
 * split at a boundary); waiters of the range are woken so that they meet the
 * kernel's own answer. -ESRCH means that the process of the descriptor is gone.
 */
#ifndef FL_FAULT_UFFD_H
#define FL_FAULT_UFFD_H

#include "base/base.h"
#include "fault/uffd_abi.h"

enum uffd_source {
	UFFD_NONE,
	UFFD_DEV,       /* /dev/userfaultfd: the node's permissions decide */
	UFFD_SYSCALL,   /* userfaultfd(2): CAP_SYS_PTRACE or the sysctl */
	UFFD_USER_MODE, /* anybody; faults inside system calls get EFAULT */
};

/* In err_*: an earlier source served, this one was not tried. */
#define UFFD_UNTRIED 1

struct uffd_caps {
	enum uffd_source source;
	uint64_t features; /* UABI_F_*, what the kernel offers */
	uint64_t ioctls;   /* 1 << UABI_NR_*, private anonymous memory */
	int err_dev, err_syscall, err_user; /* 0, -errno, UFFD_UNTRIED */
};

/* Asks one source. 0 or -errno; no descriptor stays open. */
int uffd_try(enum uffd_source source, uint64_t *features, uint64_t *ioctls);

/* Asks the sources in the order of the enum, up to the first that serves. */
void uffd_probe(struct uffd_caps *caps);

/*
 * uffd_probe_open - the same for who wants one anyway: does not ask about
 * ranges (caps->ioctls), and returns the descriptor that answered, as
 * uffd_open() would with @features. -EINVAL: these are not offered, and nothing
 * is known yet; else -errno of the last source.
 */
int uffd_probe_open(struct uffd_caps *caps, uint64_t features, bool nonblock);

/*
 * A descriptor with these features agreed: close-on-exec, numbered high, out of
 * the way of what programs close and dup2 over. Where the probed source has
 * gone since (privileges dropped) the other one of equal reach is tried; what
 * serves user mode only is never given unasked. -EINVAL: a feature that is not
 * offered, or an event (UABI_F_EVENTS), which is never asked for.
 */
int uffd_open(const struct uffd_caps *caps, uint64_t features, bool nonblock);

/* mode: UABI_REGISTER_*. */
int uffd_register(int fd, void *addr, size_t len, unsigned int mode);
int uffd_unregister(int fd, void *addr, size_t len);

/* mode: UABI_DONTWAKE, UABI_MAP_WP. src may have any alignment. */
int uffd_copy(int fd, void *dst, const void *src, size_t len,
	      unsigned int mode);
int uffd_zeropage(int fd, void *dst, size_t len);
int uffd_continue(int fd, void *dst, size_t len, unsigned int mode);

/* An access to a page without content raises SIGBUS from now on, and a system
 * call on it EFAULT, until something fills it (COPY does). */
int uffd_poison(int fd, void *dst, size_t len);

int uffd_wake(int fd, void *dst, size_t len);
int uffd_wp(int fd, void *dst, size_t len, bool protect);

/*
 * Moves pages; bytes moved, or -errno when none were. Less than len: the page
 * at which it stopped was busy, shared, absent at src or present at dst; the
 * next call says which.
 */
long uffd_move(int fd, void *dst, void *src, size_t len);

#endif
