// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * cold.c - is a file in the page cache?
 *
 * Three ways to ask, none of which is there everywhere:
 *   cachestat(2)  Linux 6.5; refused (EPERM, newer kernels) for a file that the
 *                 process neither owns nor may write.
 *   preadv2(2)    with RWF_NOWAIT, of one byte: EAGAIN where it is not. The
 *                 kernel may begin to read what was asked for, so a few bytes
 *                 are, far from the beginning, where it would read ahead.
 *   mincore(2)    of a mapping made for it; says of others' files that all of
 *                 it is there.
 * A long range is looked at in pieces.
 */
#include <sys/mman.h>
#include <sys/uio.h>

#include "api/pager.h"
#include "base/sys.h"
#include "base/ban.h"

/* Newer than Debian 12's headers; one number for all but two families. */
#ifndef __NR_cachestat
#if defined(__alpha__)
#define __NR_cachestat 561
#elif !defined(__mips__)
#define __NR_cachestat 451
#endif
#endif

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8
#endif

#define WINDOWS 16u
#define WINDOW ((size_t)1 << 20)
#define MINCORE_WINDOW ((size_t)16 << FL_PAGE_SHIFT)

#define SAMPLES 4u

/* What cachestat(2) is asked and says. */
struct cache_range {
	uint64_t off, len;
};

struct cache_stat {
	uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

/* Pages of a piece that are cached, or -errno. */
static long cached_by_stat(int fd, uint64_t off, size_t len)
{
#ifdef __NR_cachestat
	struct cache_range r = { off, len };
	struct cache_stat s;
	long ret = sys_call4(__NR_cachestat, fd, &r, &s, 0);

	return ret < 0 ? ret : (long)s.cached;
#else
	return -ENOSYS;
#endif
}

static long cached_by_mincore(int fd, uint64_t off, size_t len)
{
	unsigned char vec[WINDOWS * MINCORE_WINDOW / FL_PAGE_SIZE];
	long n = 0, ret;
	void *at;

	at = sys_mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, (int64_t)off);
	if (is_err(at))
		return ptr_err(at);
	ret = sys_mincore(at, len, vec);
	for (size_t i = 0; ret == 0 && i < len >> FL_PAGE_SHIFT; i++)
		n += vec[i] & 1;
	sys_munmap(at, len);
	return ret < 0 ? ret : n;
}

/* The cached share of a range, in 1/256, or -errno. */
static long share(int fd, uint64_t off, size_t len, size_t window,
		  long (*cached)(int fd, uint64_t off, size_t len))
{
	size_t n = len <= WINDOWS * window ? 1 : WINDOWS, asked = 0, found = 0;
	size_t piece = n == 1 ? len : window;
	long ret;

	for (size_t i = 0; i < n; i++) {
		ret = cached(fd, off + (len / n * i & FL_PAGE_MASK), piece);
		if (ret < 0)
			return ret;
		asked += piece >> FL_PAGE_SHIFT;
		found += (size_t)ret;
	}
	return (long)(found * 256 / asked);
}

static long share_by_reading(int fd, uint64_t off, size_t len)
{
	long found = 0, ret;
	struct iovec v;
	uint64_t at;
	char byte;

	for (size_t i = 0; i < SAMPLES; i++) {
		at = off + len / SAMPLES * i + len / SAMPLES / 2;
		v = (struct iovec){ &byte, 1 };
		ret = sys_call6(__NR_preadv2, fd, SYS_A(&v), 1, SYS_A(at),
				__SIZEOF_POINTER__ == 4 ? SYS_A(at >> 32) : 0,
				RWF_NOWAIT);
		if (ret < 0 && ret != -EAGAIN)
			return ret;
		found += ret >= 0;
	}
	return found * 256 / SAMPLES;
}

bool policy_cold(int fd, uint64_t off, size_t len)
{
	size_t whole = page_align_up(len);
	long ret = share(fd, off, whole, WINDOW, cached_by_stat);

	if (ret < 0)
		ret = share_by_reading(fd, off, len);
	if (ret < 0)
		ret = share(fd, off, whole, MINCORE_WINDOW, cached_by_mincore);
	return ret >= 0 && ret < 128;
}
