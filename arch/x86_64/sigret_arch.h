/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * sigret_arch.h - x86_64; see arch/generic/sigret_arch.h for the contract.
 *
 * Unwinders know a signal frame by these very bytes, gdb also by the name. The
 * byte before belongs to no function: an unwinder looks there first.
 */
#ifndef FL_ARCH_SIGRET_ARCH_H
#define FL_ARCH_SIGRET_ARCH_H

#define ARCH_HAS_SA_RESTORER 1

#if defined(__x86_64__)
#define ARCH_SA_RESTORER 0x04000000

__asm__(".pushsection .text, \"ax\", @progbits\n"
	"	.p2align 4\n"
	"	nop\n"
	"	.type __restore_rt, @function\n"
	"__restore_rt:\n"
	"	movq $15, %rax\n"
	"	syscall\n"
	"	.size __restore_rt, . - __restore_rt\n"
	"	.popsection\n");
extern void arch_restore_rt(void) __asm__("__restore_rt")
	__attribute__((visibility("hidden")));
#define arch_sigreturn arch_restore_rt
#else
#define ARCH_SA_RESTORER 0
#define arch_sigreturn 0
#endif

#endif
