/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* cpu_arch.h - riscv64; see arch/generic/cpu_arch.h for the contract. */
#ifndef FL_ARCH_CPU_ARCH_H
#define FL_ARCH_CPU_ARCH_H

/* PAUSE of Zihintpause: a FENCE with an empty successor set, so a no-op where
 * the extension is missing; in hex for assemblers that do not know it. */
static inline void cpu_relax(void)
{
#if defined(__riscv)
	__asm__ volatile(".4byte 0x0100000f" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

#endif
