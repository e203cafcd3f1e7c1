// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * far.c - see far.h.
 *
 * Ordering: none is needed of a word that only hands out addresses, which are
 * hints; where two threads get the same, the kernel tells them apart.
 */
#include "base/far.h"

#include <sys/mman.h>

#include "base/order.h"
#include "base/sys.h"
#include "base/ban.h"

static _Atomic(uintptr_t) next;

void *far_map(size_t len)
{
	uintptr_t at = ld_rlx(&next), here = (uintptr_t)&len;

	len = page_align_up(len);
	if (FL_TSAN)
		at = 0; /* it has places of its own for memory */
	else if (at == 0 || at < here / 4 * 3 || at > here - here / 8)
		/* The stack is as random as mappings are. */
		st_rlx(&next, (at = (here - here / 4) & FL_PAGE_MASK) + len);
	else
		at = add_rlx(&next, (uintptr_t)len);
	return sys_mmap((void *)at, len, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}
