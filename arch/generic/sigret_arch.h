/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * sigret_arch.h - how a signal handler is given to the kernel.
 *
 * ARCH_HAS_SA_RESTORER: does the kernel's struct sigaction have the member?
 * arch_sigreturn: what a handler returns to; NULL where the kernel brings its
 * own. ARCH_SA_RESTORER: the flag that says that the member counts, or 0.
 */
#ifndef FL_ARCH_SIGRET_ARCH_H
#define FL_ARCH_SIGRET_ARCH_H

#define ARCH_HAS_SA_RESTORER 0
#define ARCH_SA_RESTORER 0
#define arch_sigreturn 0

#endif
