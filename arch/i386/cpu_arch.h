/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* cpu_arch.h - i386; see arch/generic/cpu_arch.h for the contract. */
#ifndef FL_ARCH_CPU_ARCH_H
#define FL_ARCH_CPU_ARCH_H

/* REP NOP: PAUSE since the Pentium 4, a plain NOP before it. */
static inline void cpu_relax(void)
{
#if defined(__i386__) || defined(__x86_64__)
	__asm__ volatile("rep; nop" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

#endif
