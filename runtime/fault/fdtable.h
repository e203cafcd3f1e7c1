/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fdtable.h - the descriptors the pager keeps open in somebody else's process.
 *
 * A program closes what it did not open (close_range, loops up to the limit)
 * and puts files on numbers of its choice (dup2). A descriptor of ours is
 * therefore high-numbered, close-on-exec and in this table; the preload's
 * wrappers ask the table and go around it, or move the descriptor away.
 *
 * Because a descriptor can move, its number is kept in one `_Atomic(int)`, the
 * owner, and nowhere else. Who uses the number does this:
 *
 *	do {
 *		fd = fd_get(&x->fd);
 *		ret = sys_pread(fd, ...);
 *	} while (unlikely(!fd_still(&x->fd, fd)));
 *
 * since between the load and the call the program may have put a file of its
 * own on the old number. Reads into a buffer that nobody sees yet may be
 * repeated; a userfaultfd's ioctl fails with ENOTTY on any other file.
 *
 * States of a slot: 0 free; OWNERLESS or the owner's address. Written under
 * LOCK_FDS with signals blocked; read without a lock, relaxed: what is asked is
 * only whether a number is ours. Who closes numbers without having them open, as
 * programs do, has to ask under the lock (fd_close).
 *
 * Progress: fd_reserved and fd_next are wait-free and async-signal-safe; the
 * others block for a few system calls of another thread and are
 * async-signal-safe, too. The table is never freed.
 */
#ifndef FL_FAULT_FDTABLE_H
#define FL_FAULT_FDTABLE_H

#include "base/base.h"
#include "base/order.h"

/* Higher numbers are not looked for; the table is address space, not memory. */
#define FD_TABLE_SIZE (1 << 20)

/* The lowest and the highest number that is ours; INT_MAX and -1 for none. */
extern _Atomic(int) fd_lowest, fd_highest;

/* No number below has been sought for us; falls only, before one is taken. */
extern _Atomic(int) fd_floor;

extern _Atomic(_Atomic(uintptr_t) *) fd_slots;

/* Is @fd one of ours? A comparison for the numbers programs use. */
static inline bool fd_reserved(int fd)
{
	_Atomic(uintptr_t) *slots;

	if (likely(fd < ld_rlx(&fd_lowest) || fd > ld_rlx(&fd_highest)))
		return false;
	/* [MO:fd-table] pairs with table_get: the table is mapped. */
	slots = ld_acq(&fd_slots);
	return slots && ld_rlx(&slots[fd]);
}

/* The lowest number >= @fd that is ours, or -1. */
int fd_next(int fd);

/*
 * fd_reserve - duplicate @fd to a high number, close-on-exec, into *@owner.
 * @fd stays open. Returns the number, or -errno: -EMFILE also where the pager
 * would have more than half of what RLIMIT_NOFILE allows.
 */
int fd_reserve(int fd, _Atomic(int) *owner);

/*
 * fd_adopt - the same for a descriptor that is high-numbered already: it is
 * made close-on-exec and entered; *@owner becomes @fd. @owner NULL: it cannot
 * be moved. 0 or -errno.
 */
int fd_adopt(int fd, _Atomic(int) *owner);

/* fd_release - close the descriptor of *@owner, which becomes -1. */
void fd_release(_Atomic(int) *owner);

/* The same by number, for descriptors without an owner. */
void fd_release_nr(int fd);

/*
 * close(2), close_range(2) and dup3(2) for the program, to which ours are not
 * there: what it wants closed is spared, what it wants to have moves away. No
 * number becomes ours between the look and the call. @flags -1 in fd_dup: dup2.
 * Return as the calls, or -errno: -EBUSY for a descriptor that cannot move,
 * having no owner, or that the others could not follow: in a thread or a child
 * of vfork with a descriptor table of its own. No cancellation points.
 */
long fd_close(int fd);
long fd_close_range(unsigned int first, unsigned int last, unsigned int flags);
long fd_dup(int from, int to, int flags);

/* In the child of a fork: nobody else holds the lock any more. */
void fd_fork_child(void);

static inline int fd_get(_Atomic(int) *owner)
{
	return ld_rlx(owner);
}

/* After the use of @fd: was it still *@owner's? */
static inline bool fd_still(_Atomic(int) *owner, int fd)
{
	/* [MO:fd-owner] pairs with evade: who has met the program's file on
	 * the number sees that it has moved. */
	return ld_sc(owner) == fd;
}

#endif
