// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * wrap_fd.c - the pager's descriptors do not exist for the program.
 *
 * They are high-numbered, and close-on-exec, so a program meets them only when
 * it handles descriptors wholesale. close and fcntl say EBADF; close_range and
 * closefrom leave them open; dup2 and dup3 get the number they want, from which
 * the pager's descriptor moves away first. /proc/self/fd lists them, and other
 * calls on such a number (fstat, read) find an open descriptor.
 *
 * A thread with descriptors of its own (unshare, a child of vfork) is refused a
 * dup2 onto one with EBUSY, since the pager could not move for it alone.
 */
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <unistd.h>

#include "next.h"
#include "shim.h"
#include "wrap_fd.h"
#include "base/sys.h"

/* Debian 12's headers are as old as these, other's may not be. */
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1u << 1)
#endif

static bool ours(int fd)
{
	return unlikely(fd_is_ours(fd));
}

static int bad_fd(void)
{
	errno = EBADF;
	return -1;
}

FL_API int close(int fd)
{
	return ours(fd) ? bad_fd() : next(close)(fd);
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
		mine = first > INT_MAX ? -1 : fl_fd_next((int)first);
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
	int mine = first > INT_MAX ? -1 : fl_fd_next((int)first);

	/* Close-on-exec they are already; other flags the kernel knows. */
	if (mine < 0 || (unsigned int)mine > last ||
	    flags & ~CLOSE_RANGE_UNSHARE)
		return kernel_close_range(first, last, flags);
	if (flags & CLOSE_RANGE_UNSHARE)
		ret = sys_call1(__NR_unshare, CLONE_FILES);
	return ret < 0 ? ret : close_around(first, last);
}

FL_API int close_range(unsigned int first, unsigned int last, int flags)
{
	return (int)shim_ret(fd_close_range(first, last, (unsigned int)flags),
			     errno);
}

FL_API void closefrom(int low)
{
	struct rlimit lim = { .rlim_cur = 1024 };
	int saved = errno;

	if (low < 0)
		low = 0;
	if (fd_close_range((unsigned int)low, UINT_MAX, 0) < 0) {
		if (fl_fd_next(low) < 0) {
			next(closefrom)(low);
			return;
		}
		/* A filter that refuses close_range. */
		sys_call4(__NR_prlimit64, 0, RLIMIT_NOFILE, NULL, &lim);
		for (int fd = low; (rlim_t)fd < lim.rlim_cur; fd++)
			if (!ours(fd))
				sys_close(fd);
	}
	errno = saved;
}

/* Makes way on @to, if @from is there to be put on it. 0 or -errno. */
static long make_way(int from, int to)
{
	if (ours(from))
		return -EBADF;
	if (from == to || !ours(to) || sys_fcntl(from, F_GETFD, 0) < 0)
		return 0;
	return fl_fd_evade(to);
}

long fd_dup2(int from, int to)
{
	long ret = make_way(from, to);

	if (ret < 0)
		return ret;
	if (from == to)
		return sys_fcntl(from, F_GETFD, 0) < 0 ? -EBADF : to;
	return sys_call3(__NR_dup3, from, to, 0);
}

long fd_dup3(int from, int to, int flags)
{
	long ret = flags & ~O_CLOEXEC ? 0 : make_way(from, to);

	return ret < 0 ? ret : sys_call3(__NR_dup3, from, to, flags);
}

FL_API int dup2(int from, int to)
{
	int saved = errno;

	return (int)shim_ret(fd_dup2(from, to), saved);
}

FL_API int dup3(int from, int to, int flags)
{
	int saved = errno;

	return (int)shim_ret(fd_dup3(from, to, flags), saved);
}

/* The argument, where there is one, is an int or a pointer: one register. */
#define FCNTL(name)                              \
	FL_API int name(int fd, int cmd, ...)    \
	{                                        \
		va_list ap;                      \
		void *arg;                       \
                                                 \
		if (ours(fd))                    \
			return bad_fd();         \
		va_start(ap, cmd);               \
		arg = va_arg(ap, void *);        \
		va_end(ap);                      \
		return next(name)(fd, cmd, arg); \
	}
FCNTL(fcntl)
FCNTL(fcntl64)
