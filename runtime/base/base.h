/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * base.h - attributes, small arithmetic, error pointers.
 *
 * Every other header of the project may include this one; it includes nothing
 * of the project itself.
 */
#ifndef FL_BASE_BASE_H
#define FL_BASE_BASE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef FL_API
#define FL_API __attribute__((visibility("default")))
#endif
#define FL_COLD __attribute__((cold, noinline))
#define FL_TLS __thread __attribute__((tls_model("initial-exec")))

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define container_of(ptr, type, member) \
	((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* The destructive-interference size of every CPU we build for is at most
 * this; s390x has 256-byte lines but shares them rarely enough. */
#define FL_CACHELINE 64
#define FL_ALIGNED_CL __attribute__((aligned(FL_CACHELINE)))

/*
 * The page size of arenas. Hosts with larger base pages (ppc64le and aarch64
 * with 64 KiB) are refused at start by pager_open with -ENOTSUP.
 */
#define FL_PAGE_SHIFT 12
#define FL_PAGE_SIZE ((size_t)1 << FL_PAGE_SHIFT)
#define FL_PAGE_MASK (~(FL_PAGE_SIZE - 1))

static inline size_t page_align_up(size_t n)
{
	return (n + FL_PAGE_SIZE - 1) & FL_PAGE_MASK;
}

static inline bool page_aligned(uintptr_t n)
{
	return (n & (FL_PAGE_SIZE - 1)) == 0;
}

/*
 * Error pointers: the last 4095 addresses stand for -errno, as in the kernel.
 */
#define FL_MAX_ERRNO 4095

static inline void *err_ptr(long err)
{
	return (void *)(intptr_t)err;
}

static inline long ptr_err(const void *p)
{
	return (long)(intptr_t)p;
}

static inline bool is_err(const void *p)
{
	return (uintptr_t)p >= (uintptr_t)-FL_MAX_ERRNO;
}

/*
 * Debug levels (FL_DEBUG): 0 release; 1 assertions; 2 lock ranks and state
 * transitions; 3 walks over whole structures.
 */
#ifndef FL_DEBUG
#define FL_DEBUG 0
#endif

/* Reports and aborts; async-signal-safe, never allocates. Defined in log.c. */
FL_COLD __attribute__((noreturn)) void fl_bug(const char *file, int line,
					      const char *what);

#define BUG(what) fl_bug(__FILE__, __LINE__, what)

#if FL_DEBUG >= 1
#define fl_assert(cond)                                    \
	do {                                               \
		if (unlikely(!(cond)))                     \
			fl_bug(__FILE__, __LINE__, #cond); \
	} while (0)
#else
#define fl_assert(cond) ((void)sizeof(!(cond)))
#endif

#endif
