/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * cpu_arch.h - what spinning code tells the CPU. An ISA folder with nothing
 * better has no file of this name and gets this one by include path.
 *
 * ARCH_USER_BITS may be defined where user addresses are narrower than the
 * 48 bits (of a 64-bit target) or the whole word that are assumed.
 *
 * The bodies are guarded by the compiler's target because the conformance test
 * compiles every codec on the host.
 */
#ifndef FL_ARCH_CPU_ARCH_H
#define FL_ARCH_CPU_ARCH_H

/* One turn of a spin loop: no more than a compiler barrier here. */
static inline void cpu_relax(void)
{
	__asm__ volatile("" ::: "memory");
}

#endif
