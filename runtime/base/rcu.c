// SPDX-License-Identifier: LGPL-2.1-or-later
/* rcu.c - see rcu.h. */
#include "base/rcu.h"
#include "base/sys.h"
#include "base/ban.h"

char rcu_tsan_tag;

#ifdef FL_WITHOUT_LIBURCU

_Atomic(unsigned long) rcu_readers;

void rcu_sync(void)
{
	/* [MO:rcu-fallback] pairs with rcu_enter and rcu_exit. */
	while (ld_sc(&rcu_readers) != 0)
		sys_sched_yield();
}

#endif
