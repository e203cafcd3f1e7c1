/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* cpu_arch.h - x86_64; see arch/generic/cpu_arch.h for the contract. */
#ifndef FL_ARCH_CPU_ARCH_H
#define FL_ARCH_CPU_ARCH_H

#include <stdint.h>

/* User addresses are below 2^47, unless a program asks for more with a hint
 * (five-level paging), which the arenas never do. */
#define ARCH_USER_BITS 47

/* One instruction without a lock prefix: a third of the time of an atomic
 * addition. ThreadSanitizer does not see it, which is as well. */
#if defined(__x86_64__)
static inline void cpu_local_add64(void *counter, uint64_t n)
{
	__asm__ volatile("addq %1, %0"
			 : "+m"(*(uint64_t *)counter)
			 : "re"(n)
			 : "cc");
}
#define cpu_local_add64 cpu_local_add64
#endif

/* PAUSE: Intel SDM vol. 2B. */
static inline void cpu_relax(void)
{
#if defined(__x86_64__)
	__asm__ volatile("pause" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

#endif
