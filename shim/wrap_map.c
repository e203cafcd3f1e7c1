// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * wrap_map.c - the interposed calls.
 *
 * Each goes to the pager, or by raw system call to the kernel while there is
 * none, and comes back through shim_ret(). None allocates, looks symbols up or
 * uses stdio. base/ban.h is absent here because the banned names are what is
 * defined.
 */
#include <pthread.h>
#include <stdarg.h>
#include <sys/mman.h>

#include "shim.h"
#include "base/sys.h"

static void *do_mmap(void *addr, size_t len, int prot, int flags, int fd,
		     int64_t off)
{
	struct fl_pager *p = shim_enter();
	int saved = errno;
	void *ret;

	if (unlikely(!p))
		return shim_ret_ptr(sys_mmap(addr, len, prot, flags, fd, off),
				    saved);
	ret = fl_pager_mmap(p, addr, len, prot, flags, fd, (off_t)off);
	shim_leave();
	return shim_ret_ptr(ret, saved);
}

FL_API void *mmap(void *addr, size_t len, int prot, int flags, int fd,
		  off_t off)
{
	return do_mmap(addr, len, prot, flags, fd, off);
}

FL_API void *mmap64(void *addr, size_t len, int prot, int flags, int fd,
		    off64_t off)
{
	return do_mmap(addr, len, prot, flags, fd, off);
}

FL_API int munmap(void *addr, size_t len)
{
	int saved = errno;
	bool outer;
	struct fl_pager *p = shim_go(&outer);
	long ret = p ? fl_pager_munmap(p, addr, len) : sys_munmap(addr, len);

	shim_back(outer);
	return (int)shim_ret(ret, saved);
}

FL_API void *mremap(void *addr, size_t old_len, size_t new_len, int flags, ...)
{
	int saved = errno;
	bool outer;
	struct fl_pager *p = shim_go(&outer);
	void *new_addr = NULL;
	void *ret;

	if (flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)) {
		va_list ap;

		va_start(ap, flags);
		new_addr = va_arg(ap, void *);
		va_end(ap);
	}
	ret = p ? fl_pager_mremap(p, addr, old_len, new_len, flags, new_addr) :
		  sys_mremap(addr, old_len, new_len, flags, new_addr);
	shim_back(outer);
	return shim_ret_ptr(ret, saved);
}

static long do_madvise(void *addr, size_t len, int advice)
{
	bool outer;
	struct fl_pager *p = shim_go(&outer);
	long ret = p ? fl_pager_madvise(p, addr, len, advice) :
		       sys_madvise(addr, len, advice);

	shim_back(outer);
	return ret;
}

FL_API int madvise(void *addr, size_t len, int advice)
{
	int saved = errno;

	return (int)shim_ret(do_madvise(addr, len, advice), saved);
}

/* Returns the error number and leaves errno alone. */
FL_API int posix_madvise(void *addr, size_t len, int advice)
{
	int saved = errno;
	long ret;

	/* POSIX's DONTNEED must not throw data away as Linux's does; glibc
	 * makes it no operation. */
	if (advice == POSIX_MADV_DONTNEED)
		return 0;
	ret = do_madvise(addr, len, advice);
	errno = saved;
	return (int)-ret;
}

FL_API int mincore(void *addr, size_t len, unsigned char *vec)
{
	int saved = errno;
	bool outer;
	struct fl_pager *p = shim_go(&outer);
	long ret = p ? fl_pager_mincore(p, addr, len, vec) :
		       sys_mincore(addr, len, vec);

	shim_back(outer);
	return (int)shim_ret(ret, saved);
}

FL_API int mprotect(void *addr, size_t len, int prot)
{
	int saved = errno;
	bool outer;
	struct fl_pager *p = shim_go(&outer);
	long ret = p ? fl_pager_mprotect(p, addr, len, prot) :
		       sys_mprotect(addr, len, prot);

	shim_back(outer);
	return (int)shim_ret(ret, saved);
}

/*
 * The pager knows no keys: its pages in the range become the kernel's first.
 * Locking them does that, also where it then fails for RLIMIT_MEMLOCK; a
 * resident page was not locked before, so unlocking leaves what was.
 */
static long give_up_run(struct fl_pager *p, char *at, const char *end)
{
	size_t n = 0;

	while (at + n < end && fl_find(p, at + n) == 1)
		n += FL_PAGE_SIZE;
	fl_pager_mlock(p, at, n, MLOCK_ONFAULT);
	sys_munlock(at, n);
	return fl_find(p, at) == 1 ? -ENOMEM : 0;
}

FL_API int pkey_mprotect(void *addr, size_t len, int prot, int pkey)
{
	char *end = (char *)addr + page_align_up(len);
	int saved = errno;
	struct fl_pager *p;
	long err = 0;
	bool outer;

	if (pkey == -1)
		return mprotect(addr, len, prot);
	p = shim_go(&outer);
	if (p && page_aligned((uintptr_t)addr))
		for (char *at = addr; !err && at < end; at += FL_PAGE_SIZE)
			if (fl_find(p, at) == 1)
				err = give_up_run(p, at, end);
	if (!err)
		err = sys_call4(__NR_pkey_mprotect, addr, len, prot, pkey);
	shim_back(outer);
	return (int)shim_ret(err, saved);
}

/* A cancellation point, as POSIX has it. */
FL_API int msync(void *addr, size_t len, int flags)
{
	int saved = errno;
	struct fl_pager *p;
	bool outer;
	long ret;

	pthread_testcancel();
	p = shim_go(&outer);
	ret = p ? fl_pager_msync(p, addr, len, flags) :
		  sys_msync(addr, len, flags);
	shim_back(outer);
	return (int)shim_ret(ret, saved);
}

FL_API int mlock(const void *addr, size_t len)
{
	int saved = errno;
	bool outer;
	struct fl_pager *p = shim_go(&outer);
	long ret = p ? fl_pager_mlock(p, addr, len, 0) : sys_mlock(addr, len);

	shim_back(outer);
	return (int)shim_ret(ret, saved);
}

FL_API int mlock2(const void *addr, size_t len, unsigned int flags)
{
	int saved = errno;
	bool outer;
	struct fl_pager *p = shim_go(&outer);
	long ret = p ? fl_pager_mlock(p, addr, len, flags) :
		       sys_call3(__NR_mlock2, addr, len, flags);

	shim_back(outer);
	return (int)shim_ret(ret, saved);
}

FL_API int munlock(const void *addr, size_t len)
{
	int saved = errno;
	bool outer;
	struct fl_pager *p = shim_go(&outer);
	long ret = p ? fl_pager_munlock(p, addr, len) : sys_munlock(addr, len);

	shim_back(outer);
	return (int)shim_ret(ret, saved);
}
