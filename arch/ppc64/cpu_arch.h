/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* cpu_arch.h - ppc64; see arch/generic/cpu_arch.h for the contract. */
#ifndef FL_ARCH_CPU_ARCH_H
#define FL_ARCH_CPU_ARCH_H

/* The "yield" form of OR: Power ISA book II, shared resource hints. */
static inline void cpu_relax(void)
{
#if defined(__powerpc64__)
	__asm__ volatile("or 27,27,27" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

#endif
