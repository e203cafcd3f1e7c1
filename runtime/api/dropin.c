// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * dropin.c - the calls that return and set errno as the ones they replace; the
 * only file of the library that touches errno.
 */
#include <errno.h>
#include <sys/mman.h>

#include "api/pager.h"
#include "base/sys.h"
#include "base/ban.h"

static int ret_int(long ret)
{
	if (likely(ret >= 0))
		return (int)ret;
	errno = (int)-ret;
	return -1;
}

void *fl_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	struct fl_pager *p = fl_pager_default();
	void *ret;

	ret = p ? fl_pager_mmap(p, addr, len, prot, flags, fd, off) :
		  sys_mmap(addr, len, prot, flags, fd, off);
	if (likely(!is_err(ret)))
		return ret;
	errno = (int)-ptr_err(ret);
	return MAP_FAILED;
}

int fl_munmap(void *addr, size_t len)
{
	struct fl_pager *p = fl_pager_default();

	return ret_int(p ? fl_pager_munmap(p, addr, len) :
			   sys_munmap(addr, len));
}

int fl_madvise(void *addr, size_t len, int advice)
{
	struct fl_pager *p = fl_pager_default();

	return ret_int(p ? fl_pager_madvise(p, addr, len, advice) :
			   sys_madvise(addr, len, advice));
}

int fl_mincore(void *addr, size_t len, unsigned char *vec)
{
	struct fl_pager *p = fl_pager_default();

	return ret_int(p ? fl_pager_mincore(p, addr, len, vec) :
			   sys_mincore(addr, len, vec));
}
