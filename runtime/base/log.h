/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * log.h - messages without stdio.
 *
 * A message is formatted on the stack and leaves in one write(2) to
 * descriptor 2, so it is async-signal-safe, allocates nothing and is not torn
 * by other threads. Below the level in force it costs one relaxed load.
 */
#ifndef FL_BASE_LOG_H
#define FL_BASE_LOG_H

#include <stdarg.h>

#include "base/base.h"
#include "base/order.h"

enum log_level {
	FL_LOG_QUIET, /* nothing but BUG() */
	FL_LOG_WARN,  /* what the user should know: ignored options, refusals */
	FL_LOG_INFO,  /* what the pager does at start and at exit */
};

/* Relaxed: a message more or less around a change of level is no matter. */
extern _Atomic(uint32_t) log_level_now;

static inline void log_set_level(enum log_level level)
{
	st_rlx(&log_level_now, (uint32_t)level);
}

/*
 * log_fmt - format into @buf, always terminated.
 *
 * Knows %s %c %d %i %u %x %p %% with the lengths l, ll, z, a field width, and
 * '0' and '-'. A NULL string prints as "(null)".
 * Returns the length written, which is less than @size.
 */
size_t log_fmt(char *buf, size_t size, const char *fmt, ...)
	__attribute__((__format__(__printf__, 3, 4)));
size_t log_vfmt(char *buf, size_t size, const char *fmt, va_list ap);

/* One line, "faultline[PID]: ..." plus a newline, when @level is in force. */
FL_COLD void fl_log(enum log_level level, const char *fmt, ...)
	__attribute__((__format__(__printf__, 2, 3)));

/* The same, at most once in the life of the process for each place. */
#define fl_log_once(level, ...)                               \
	do {                                                  \
		static _Atomic(uint32_t) said_;               \
		if (!ld_rlx(&said_) && !xchg_rlx(&said_, 1u)) \
			fl_log((level), __VA_ARGS__);         \
	} while (0)

#endif
