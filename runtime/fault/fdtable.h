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
 * only whether a number is ours, and a program that closes a number in the
 * instant in which we take it could not have had it open.
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
 * fd_evade - the program is about to put a file on @fd: go elsewhere.
 * Returns 0 when @fd is free for it (or was not ours), or -errno: -EBUSY for a
 * descriptor without an owner and for a thread or a vfork child with a
 * descriptor table of its own, where the others could not follow.
 */
int fd_evade(int fd);

/* In the child of a fork: nobody else holds the lock any more. */
void fd_fork_child(void);

static inline int fd_get(_Atomic(int) *owner)
{
	return ld_rlx(owner);
}

/* After the use of @fd: was it still *@owner's? */
static inline bool fd_still(_Atomic(int) *owner, int fd)
{
	/* [MO:fd-owner] pairs with fd_evade: who has met the program's file on
	 * the number sees that it has moved. */
	return ld_sc(owner) == fd;
}

#endif
