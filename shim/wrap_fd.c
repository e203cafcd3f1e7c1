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
#include <pthread.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <unistd.h>

#include "next.h"
#include "shim.h"
#include "base/sys.h"

static bool ours(int fd)
{
	return unlikely(fd >= fl_fd_floor() && fl_fd_next(fd) == fd);
}

static int bad_fd(void)
{
	errno = EBADF;
	return -1;
}

/* Above the floor it is no cancellation point, so that it is not cancelled with
 * the pager's table held. */
FL_API int close(int fd)
{
	int saved = errno;

	if (likely(fd < fl_fd_floor()))
		return next(close)(fd);
	pthread_testcancel();
	return (int)shim_ret(fl_fd_close(fd), saved);
}

FL_API int close_range(unsigned int first, unsigned int last, int flags)
{
	int saved = errno;

	return (int)shim_ret(
		fl_fd_close_range(first, last, (unsigned int)flags), saved);
}

FL_API void closefrom(int low)
{
	struct rlimit lim = { .rlim_cur = 1024 };
	int saved = errno;

	if (low < 0)
		low = 0;
	if (fl_fd_close_range((unsigned int)low, UINT_MAX, 0) < 0) {
		/* A filter that refuses close_range. */
		sys_call4(__NR_prlimit64, 0, RLIMIT_NOFILE, NULL, &lim);
		for (int fd = low; (rlim_t)fd < lim.rlim_cur; fd++)
			fl_fd_close(fd);
	}
	errno = saved;
}

FL_API int dup2(int from, int to)
{
	int saved = errno;

	return (int)shim_ret(fl_fd_dup(from, to, -1), saved);
}

FL_API int dup3(int from, int to, int flags)
{
	int saved = errno;

	/* -1 would be dup2's; the sign is no flag. */
	return (int)shim_ret(fl_fd_dup(from, to, flags & INT_MAX), saved);
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
