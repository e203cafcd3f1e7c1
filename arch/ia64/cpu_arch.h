/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* cpu_arch.h - ia64; see arch/generic/cpu_arch.h for the contract. */
#ifndef FL_ARCH_CPU_ARCH_H
#define FL_ARCH_CPU_ARCH_H

/* HINT @pause: Itanium SDM vol. 3. */
static inline void cpu_relax(void)
{
#if defined(__ia64__)
	__asm__ volatile("hint @pause" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

#endif
