/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * shim.h - what the wrappers share: the pager or none, the recursion guard,
 * and the one translation from -errno.
 */
#ifndef FL_SHIM_SHIM_H
#define FL_SHIM_SHIM_H

#include "base/base.h"
#include "base/order.h"
#include "faultline.h"

/* NULL before the constructor has run, and for good when standing aside. */
extern _Atomic(struct fl_pager *) shim_pager;

/*
 * Set while this thread is inside the pager: what its dependencies map then
 * (liburcu, when it registers the thread, under a lock of its own) goes to the
 * kernel. Any call may be a thread's first. Calls on addresses reach the pager
 * all the same: they may come from a handler, for regions that are the
 * pager's; what liburcu unmaps is not, and the pager passes it on. A handler
 * that jumps out of a call leaves the guard set; that thread's later mappings
 * are then the kernel's, nothing worse.
 */
extern FL_TLS bool shim_inside;

static inline struct fl_pager *shim_get(void)
{
	/* [MO:shim-pager] pairs with shim_init: the pager is complete. */
	return ld_acq(&shim_pager);
}

/* The pager for a call that maps; NULL within another call. */
static inline struct fl_pager *shim_enter(void)
{
	struct fl_pager *p = shim_get();

	if (unlikely(!p || shim_inside))
		return NULL;
	shim_inside = true;
	return p;
}

static inline void shim_leave(void)
{
	shim_inside = false;
}

/* The pager for a call on an address; *outer is for shim_back. */
static inline struct fl_pager *shim_go(bool *outer)
{
	*outer = shim_inside;
	shim_inside = true;
	return shim_get();
}

static inline void shim_back(bool outer)
{
	shim_inside = outer;
}

/*
 * shim_ret - from -errno to -1 and errno. @saved is errno at entry: liburcu's
 * registration of a thread may have changed it, and success must not.
 */
static inline long shim_ret(long ret, int saved)
{
	if (unlikely(ret < 0 && ret >= -FL_MAX_ERRNO)) {
		errno = (int)-ret;
		return -1;
	}
	errno = saved;
	return ret;
}

/* MAP_FAILED is (void *)-1, so the same serves pointers. */
static inline void *shim_ret_ptr(void *ret, int saved)
{
	return (void *)(intptr_t)shim_ret(ptr_err(ret), saved);
}

#endif
