/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sigret_arch.h - aarch64; see arch/generic/sigret_arch.h for the contract. The
 * kernel brings its own in the vdso. */
#ifndef FL_ARCH_SIGRET_ARCH_H
#define FL_ARCH_SIGRET_ARCH_H

#define ARCH_HAS_SA_RESTORER 1
#define ARCH_SA_RESTORER 0
#define arch_sigreturn 0

#endif
