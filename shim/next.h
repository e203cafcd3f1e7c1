/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * next.h - the functions behind the wrappers.
 *
 * Wrappers of cancellation points, and of what other preloads and sanitizers
 * wrap, too, call the next definition instead of the kernel. It is found by
 * dlsym, which takes ld.so's lock, so never on a mapping or fault path; the
 * pointers do not change, relaxed.
 */
#ifndef FL_SHIM_NEXT_H
#define FL_SHIM_NEXT_H

#include "base/base.h"
#include "base/order.h"

enum next_id {
#define NEXT(name, early) NEXT_##name,
#include "next.def"
#undef NEXT
	NEXT_NR,
};

extern _Atomic(void *) next_fn[NEXT_NR];

/* Looks it up. What there is none of sets errno to ENOSYS and returns -1. */
void *next_find(enum next_id id);

static inline void *next_get(enum next_id id)
{
	void *f = ld_rlx(&next_fn[id]);

	return likely(f) ? f : next_find(id);
}

/* As a function of the same type. */
#define next(name) ((__typeof__(&name))next_get(NEXT_##name))

#endif
