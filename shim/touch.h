/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * touch.h - is a buffer of a system call near a demand region? Two comparisons,
 * which is all that a call on another buffer pays.
 */
#ifndef FL_SHIM_TOUCH_H
#define FL_SHIM_TOUCH_H

#include "base/base.h"
#include "faultline.h"

/* Two words, low and high. Set before the program runs. */
extern const volatile uintptr_t *touch_range;

static inline bool touch_near(uintptr_t at, size_t n)
{
	return unlikely(at < touch_range[1] && at + n > touch_range[0]);
}

/* Takes any pointer; gcc takes a const pointer to what read() is to fill for a
 * use of it. */
#define near(buf, n) touch_near((uintptr_t)(buf), (n))

/* fl_touch() where it is worth a call. */
#define touch(buf, n, in) \
	(near((buf), (n)) && fl_touch((const void *)(buf), (n), (in)))

#endif
