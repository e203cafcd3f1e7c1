// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * wrap_syscall.c - syscall(2), by which programs make calls libc has no function
 * for, or had none when they were written.
 *
 * What the preload wraps under its name it wraps here as well, but for mappings
 * at no given place, which are the kernel's. Nothing here goes through another
 * public name: allocators that wrap mmap themselves make their calls by this
 * one. None of these is a cancellation point. Like libc's, it does not survive a
 * vfork; it takes what stands where arguments would, however many there are.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shim.h"
#include "touch.h"
#include "base/sys.h"

/* A call that uses @n bytes at @buf, tried again where they were taken away. */
static long with(long nr, const long *a, long buf, size_t n, bool in)
{
	const void *p = (const void *)buf;
	int tries = 8;
	bool care;
	long ret;

	do {
		care = touch(p, n, in);
		ret = sys_call6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
	} while (unlikely(care) && ret == -EFAULT && --tries > 0);
	return ret;
}

static long with_vec(long nr, const long *a, bool in)
{
	const struct iovec *v = (const struct iovec *)a[1];

	for (long i = 0; i < a[2] && i < UIO_MAXIOV; i++)
		(void)touch(v[i].iov_base, v[i].iov_len, in);
	return sys_call6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static long buffers(long nr, const long *a)
{
	switch (nr) {
	case __NR_read:
	case __NR_pread64:
	case __NR_recvfrom:
		return with(nr, a, a[1], (size_t)a[2], true);
	case __NR_write:
	case __NR_pwrite64:
	case __NR_sendto:
		return with(nr, a, a[1], (size_t)a[2], false);
	case __NR_getrandom:
		return with(nr, a, a[0], (size_t)a[1], true);
	case __NR_futex:
		return with(nr, a, a[0], sizeof(uint32_t), false);
	case __NR_readv:
	case __NR_preadv:
	case __NR_preadv2:
		return with_vec(nr, a, true);
	case __NR_writev:
	case __NR_pwritev:
	case __NR_pwritev2:
		return with_vec(nr, a, false);
	case __NR_openat:
		return with(nr, a, a[1], PATH_MAX, false);
	default:
		return sys_call6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
	}
}

#define P(i) ((void *)a[i])
#define N(i) ((size_t)a[i])
#define I(i) ((int)a[i])

/* Calls on addresses, which may be the pager's. */
static long on_memory(struct fl_pager *p, long nr, const long *a)
{
	switch (nr) {
	case __NR_mmap:
		return (long)fl_pager_mmap(p, P(0), N(1), I(2), I(3), I(4),
					   a[5]);
	case __NR_munmap:
		return fl_pager_munmap(p, P(0), N(1));
	case __NR_mremap:
		return (long)fl_pager_mremap(p, P(0), N(1), N(2), I(3), P(4));
	case __NR_mprotect:
		return fl_pager_mprotect(p, P(0), N(1), I(2));
	case __NR_madvise:
		return fl_pager_madvise(p, P(0), N(1), I(2));
	case __NR_mincore:
		return fl_pager_mincore(p, P(0), N(1), P(2));
	case __NR_msync:
		return fl_pager_msync(p, P(0), N(1), I(2));
	case __NR_mlock:
		return fl_pager_mlock(p, P(0), N(1), 0);
	case __NR_mlock2:
		return fl_pager_mlock(p, P(0), N(1), (unsigned int)a[2]);
	default:
		return fl_pager_munlock(p, P(0), N(1));
	}
}

static bool is_memory(long nr, const long *a)
{
	switch (nr) {
	case __NR_mmap:
		return I(3) & MAP_FIXED;
	case __NR_munmap:
	case __NR_mremap:
	case __NR_mprotect:
	case __NR_madvise:
	case __NR_mincore:
	case __NR_msync:
	case __NR_mlock:
	case __NR_mlock2:
	case __NR_munlock:
		return true;
	default:
		return false;
	}
}

static long on_fds(long nr, const long *a)
{
	switch (nr) {
	case __NR_close:
		return fl_fd_close(I(0));
	case __NR_close_range:
		return fl_fd_close_range((unsigned int)a[0], (unsigned int)a[1],
					 (unsigned int)a[2]);
#ifdef __NR_dup2
	case __NR_dup2:
		return fl_fd_dup(I(0), I(1), -1);
#endif
	case __NR_dup3:
		return fl_fd_dup(I(0), I(1), I(2) & INT_MAX);
	default:
		return buffers(nr, a);
	}
}

FL_API long syscall(long nr, ...)
{
	int saved = errno;
	struct fl_pager *p;
	bool outer;
	va_list ap;
	long a[6], ret;

	va_start(ap, nr);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (!is_memory(nr, a))
		return shim_ret(on_fds(nr, a), saved);
	p = shim_go(&outer);
	ret = p ? on_memory(p, nr, a) :
		  sys_call6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
	shim_back(outer);
	return shim_ret(ret, saved);
}
