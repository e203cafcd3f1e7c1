// SPDX-License-Identifier: LGPL-2.1-or-later
/* fdtable.c - see fdtable.h. */
#include "fault/fdtable.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/lock.h"
#include "base/sys.h"
#include "base/ban.h"

/* CLOSE_RANGE_UNSHARE, which not all headers have. */
#define FD_UNSHARE 2u

#define OWNERLESS ((uintptr_t)1)

/* Numbers are sought upwards from here, so that the kernel's table, which a
 * fork copies, stays as small as that of a program with a few files. */
#define FD_CEILING 1024

_Atomic(int) fd_lowest = INT_MAX, fd_highest = -1, fd_floor = INT_MAX;
_Atomic(_Atomic(uintptr_t) *) fd_slots;

static struct fl_lock fds_lock = FL_LOCK_INIT(LOCK_FDS);
static int nr_fds; /* LOCK_FDS */

/*
 * Whose table the numbers are in: the process id, in a page that a child of
 * fork finds zeroed and a child of vfork does not. LOCK_FDS.
 */
static int32_t *table_pid;

static void *zeroed(size_t len)
{
	return sys_mmap(NULL, len, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/* Under the lock: the table, made when first needed; NULL without memory. */
static _Atomic(uintptr_t) *table_get(void)
{
	_Atomic(uintptr_t) *slots = ld_rlx(&fd_slots);

	if (likely(slots))
		return slots;
	if (!table_pid) {
		void *page = zeroed(FL_PAGE_SIZE);

		if (is_err(page))
			return NULL;
		sys_madvise(page, FL_PAGE_SIZE, MADV_WIPEONFORK);
		table_pid = page;
		*table_pid = (int32_t)sys_getpid();
	}
	slots = zeroed(FD_TABLE_SIZE * sizeof(*slots));
	if (is_err(slots))
		return NULL;
	/* [MO:fd-table] to fd_reserved and fd_next. */
	st_rel(&fd_slots, slots);
	return slots;
}

int fd_next(int fd)
{
	/* [MO:fd-table] pairs with table_get: the table is mapped. */
	_Atomic(uintptr_t) *slots = ld_acq(&fd_slots);
	int from = ld_rlx(&fd_lowest), to = ld_rlx(&fd_highest);

	if (fd > from)
		from = fd;
	if (slots)
		for (; from <= to; from++)
			if (ld_rlx(&slots[from]))
				return from;
	return -1;
}

static void enter(_Atomic(uintptr_t) *slots, int fd, _Atomic(int) *owner)
{
	st_rlx(&slots[fd], owner ? (uintptr_t)owner : OWNERLESS);
	if (fd < ld_rlx(&fd_lowest))
		st_rlx(&fd_lowest, fd);
	if (fd > ld_rlx(&fd_highest))
		st_rlx(&fd_highest, fd);
	nr_fds++;
}

static void leave(_Atomic(uintptr_t) *slots, int fd)
{
	int lo = ld_rlx(&fd_lowest), hi = ld_rlx(&fd_highest);

	st_rlx(&slots[fd], (uintptr_t)0);
	nr_fds--;
	while (lo <= hi && !ld_rlx(&slots[lo]))
		lo++;
	while (hi >= lo && !ld_rlx(&slots[hi]))
		hi--;
	st_rlx(&fd_lowest, nr_fds ? lo : INT_MAX);
	st_rlx(&fd_highest, nr_fds ? hi : -1);
}

static int fd_limit(void)
{
	struct rlimit64 r = { .rlim_cur = FD_CEILING };

	sys_call4(__NR_prlimit64, 0, RLIMIT_NOFILE, NULL, &r);
	return r.rlim_cur < FD_TABLE_SIZE ? (int)r.rlim_cur : FD_TABLE_SIZE;
}

static void lower_floor(int fd)
{
	if (fd < ld_rlx(&fd_floor))
		st_rlx(&fd_floor, fd);
}

static long dup_from(int fd, int lowest)
{
	long to;

	lower_floor(lowest);
	to = sys_fcntl(fd, F_DUPFD_CLOEXEC, lowest);
	if (to >= FD_TABLE_SIZE) {
		sys_close((int)to);
		return -EMFILE;
	}
	return to;
}

/*
 * A high number; if @above > 0 one above that while there are such, so that a
 * number that was moved away from is not come back to before long: who has used
 * it meanwhile tells by the number that it has moved (fd_still).
 */
static long dup_high(int fd, int above)
{
	int limit = fd_limit(), top = limit;
	long to = -EMFILE;

	if (nr_fds >= limit / 2)
		return -EMFILE;
	if (above > 0 && above < limit - 1 && above < 4 * FD_CEILING)
		to = dup_from(fd, above + 1);
	if (top > FD_CEILING)
		top = FD_CEILING;
	for (int eighths = 7; eighths > 0 && to == -EMFILE; eighths--)
		to = dup_from(fd, top * eighths / 8);
	return to;
}

/* Another thread may have closed @to before it was in the table, and put a file
 * of its own there. */
static bool same_file(int fd, int to)
{
	struct sys_stat a, b;

	return sys_fcntl(to, F_GETFD, 0) == FD_CLOEXEC &&
	       sys_fstat(fd, &a) == 0 && sys_fstat(to, &b) == 0 &&
	       a.ino == b.ino && a.dev == b.dev;
}

/* Under the lock. */
static int reserve(int fd, _Atomic(int) *owner, int above)
{
	_Atomic(uintptr_t) *slots = table_get();

	if (!slots)
		return -ENOMEM;
	for (int tries = 8; tries; tries--) {
		long to = dup_high(fd, above);

		if (to < 0)
			return (int)to;
		enter(slots, (int)to, owner);
		if (same_file(fd, (int)to))
			return (int)to;
		leave(slots, (int)to);
	}
	return -EAGAIN;
}

int fd_reserve(int fd, _Atomic(int) *owner)
{
	uint64_t mask = sys_block_signals();
	int to;

	lock_take(&fds_lock);
	to = reserve(fd, owner, 0);
	if (to >= 0 && owner)
		st_rlx(owner, to);
	lock_drop(&fds_lock);
	sys_restore_signals(mask);
	return to;
}

int fd_adopt(int fd, _Atomic(int) *owner)
{
	uint64_t mask = sys_block_signals();
	_Atomic(uintptr_t) *slots;
	long ret = -ENOMEM;

	lock_take(&fds_lock);
	slots = table_get();
	if (slots)
		ret = (unsigned int)fd < FD_TABLE_SIZE ?
			      sys_fcntl(fd, F_SETFD, FD_CLOEXEC) :
			      -EBADF;
	if (ret == 0) {
		lower_floor(fd);
		enter(slots, fd, owner);
		if (owner)
			st_rlx(owner, fd);
	}
	lock_drop(&fds_lock);
	sys_restore_signals(mask);
	return (int)ret;
}

/* Closes *@owner, or @fd where there is no owner. */
static void release(_Atomic(int) *owner, int fd)
{
	uint64_t mask = sys_block_signals();
	_Atomic(uintptr_t) *slots;

	lock_take(&fds_lock);
	slots = ld_rlx(&fd_slots);
	if (owner)
		fd = xchg_rlx(owner, -1);
	if (slots && (unsigned int)fd < FD_TABLE_SIZE && ld_rlx(&slots[fd])) {
		/* First the file, then the number: a program that gets it by
		 * open in between keeps it open a moment longer than it thinks
		 * if it closes it at once; the other way round we might close
		 * the program's file. */
		sys_close(fd);
		leave(slots, fd);
	}
	lock_drop(&fds_lock);
	sys_restore_signals(mask);
}

void fd_release(_Atomic(int) *owner)
{
	release(owner, -1);
}

void fd_release_nr(int fd)
{
	release(NULL, fd);
}

/* Does the caller share its descriptors with the rest of the process? */
static bool table_ours(void)
{
	int pid = (int)sys_getpid();
	long same;

	if (*table_pid == 0)
		*table_pid = pid;
	same = sys_call5(__NR_kcmp, *table_pid, sys_gettid(), KCMP_FILES, 0, 0);
	return same == 0 || (same < 0 && *table_pid == pid);
}

/* Under the lock. */
static int evade(_Atomic(uintptr_t) *slots, int fd)
{
	uintptr_t o = ld_rlx(&slots[fd]);
	_Atomic(int) *owner = (_Atomic(int) *)o;
	int to;

	if (!o)
		return 0;
	if (o == OWNERLESS || !table_ours())
		return -EBUSY;
	to = reserve(fd, owner, fd);
	if (to < 0)
		return to;
	/* [MO:fd-owner] before the program's file is on the number; pairs with
	 * fd_still. */
	st_sc(owner, to);
	leave(slots, fd);
	return 0;
}

/* ---------------------------------------------------------------------------
 * What the program does to descriptors that are not there for it
 */

/*
 * Keeps numbers from becoming ours between the look at the table and what the
 * program does. Not in a child whose descriptors are its own (vfork, a fork that
 * ran no handlers), where the lock may belong to a thread that is not there; nor
 * for long: a close may wait for a network.
 */
static bool hold(void)
{
	if (!table_pid || *table_pid != (int32_t)sys_getpid())
		return false;
	for (int tries = 2000; tries; tries--) {
		if (lock_try(&fds_lock))
			return true;
		sys_sched_yield();
	}
	return false;
}

static void unhold(bool held)
{
	if (held)
		lock_drop(&fds_lock);
}

long fd_close(int fd)
{
	bool held = hold();
	long ret = fd_reserved(fd) ? -EBADF : sys_close(fd);

	unhold(held);
	return ret;
}

static long kernel_close_range(unsigned int first, unsigned int last,
			       unsigned int flags)
{
	return sys_call3(__NR_close_range, first, last, flags);
}

/* [first, last] without what is ours in it. */
static long close_around(unsigned int first, unsigned int last)
{
	long ret = 0;
	int mine;

	while (ret == 0 && first <= last) {
		mine = first > INT_MAX ? -1 : fd_next((int)first);
		if (mine < 0 || (unsigned int)mine > last)
			return kernel_close_range(first, last, 0);
		if ((unsigned int)mine > first)
			ret = kernel_close_range(first, (unsigned int)mine - 1,
						 0);
		first = (unsigned int)mine + 1;
	}
	return ret;
}

long fd_close_range(unsigned int first, unsigned int last, unsigned int flags)
{
	long ret = 0;
	bool held;

	/* Close-on-exec they are already; other flags the kernel knows. */
	if (first > last || last < (unsigned int)ld_rlx(&fd_floor) ||
	    flags & ~FD_UNSHARE)
		return kernel_close_range(first, last, flags);
	held = hold();
	if (flags & FD_UNSHARE)
		ret = sys_call1(__NR_unshare, CLONE_FILES);
	if (ret == 0)
		ret = close_around(first, last);
	unhold(held);
	return ret;
}

/* Under the lock, if anybody else could take it. */
static long dup_over(int from, int to, int flags, bool held)
{
	long ret = 0;

	if (fd_reserved(from))
		return -EBADF;
	if (fd_reserved(to) && from != to && sys_fcntl(from, F_GETFD, 0) >= 0)
		ret = held ? evade(ld_rlx(&fd_slots), to) : -EBUSY;
	return ret < 0 ? ret : sys_call3(__NR_dup3, from, to, flags);
}

long fd_dup(int from, int to, int flags)
{
	bool held;
	long ret;

	if (from == to && flags < 0) /* dup2 */
		return fd_reserved(from) || sys_fcntl(from, F_GETFD, 0) < 0 ?
			       -EBADF :
			       to;
	if (flags < 0)
		flags = 0;
	held = to >= ld_rlx(&fd_floor) && !(flags & ~O_CLOEXEC) && hold();
	ret = dup_over(from, to, flags, held);
	unhold(held);
	return ret;
}

void fd_fork_child(void)
{
	lock_reset(&fds_lock);
	if (table_pid)
		*table_pid = (int32_t)sys_getpid();
}
