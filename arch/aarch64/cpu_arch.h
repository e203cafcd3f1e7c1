/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* cpu_arch.h - aarch64; see arch/generic/cpu_arch.h for the contract. */
#ifndef FL_ARCH_CPU_ARCH_H
#define FL_ARCH_CPU_ARCH_H

/* YIELD: Arm ARM, hint instructions. */
static inline void cpu_relax(void)
{
#if defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

#endif
