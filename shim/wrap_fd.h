/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* wrap_fd.h - calls on descriptors that spare the pager's; they return -errno. */
#ifndef FL_SHIM_WRAP_FD_H
#define FL_SHIM_WRAP_FD_H

#include "shim.h"

static inline bool fd_is_ours(int fd)
{
	return fd >= 0 && fl_fd_next(fd) == fd;
}

long fd_close_range(unsigned int first, unsigned int last, unsigned int flags);
long fd_dup2(int from, int to);
long fd_dup3(int from, int to, int flags);

#endif
