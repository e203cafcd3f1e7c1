/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * far.h - memory of the pager's own that is mapped while a program runs.
 *
 * A program may unmap a range of which it has unmapped a part before; the
 * kernel has nothing against holes. Left to itself the kernel would put what
 * the pager maps in between into just that hole. So it is asked for addresses
 * that no program gets to by mapping less than an eighth of the address space.
 */
#ifndef FL_BASE_FAR_H
#define FL_BASE_FAR_H

#include "base/base.h"

/* Zero pages, not reserved, or an error pointer. Async-signal-safe. */
void *far_map(size_t len);

#endif
