/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* wrap_sig.h - this thread's signal mask for the kernel and for the program. */
#ifndef FL_SHIM_WRAP_SIG_H
#define FL_SHIM_WRAP_SIG_H

#include "base/base.h"

uint64_t sig_kernel_mask(void);
void sig_set_kernel_mask(uint64_t m);
uint64_t sig_program_mask(void);

#endif
