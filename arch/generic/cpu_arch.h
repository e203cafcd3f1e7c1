/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * cpu_arch.h - what spinning code tells the CPU. An ISA folder with nothing
 * better has no file of this name and gets this one by include path.
 *
 * cpu_local_add64 may be defined (an inline and a macro of the same name): it
 * adds to a counter of the CPU the thread runs on. Where one instruction can do
 * that, it need not be atomic towards other CPUs: an addition is lost only if
 * the thread moves to another CPU just before it and the old CPU adds to the
 * same counter in the same instant. Without it the addition is atomic.
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
