// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * advise.c - madvise, mincore, mprotect, msync, mlock, munlock.
 *
 * A range is taken piece by piece, in the order of addresses, each as the
 * kernel would treat it: what is outside the arenas is forwarded, resident
 * pieces are answered here or demoted and forwarded, and pages of an arena that
 * the program does not have count as unmapped.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "api/pager.h"
#include "base/sys.h"
#include "base/ban.h"

#ifndef MADV_COLD
#define MADV_COLD 20
#define MADV_PAGEOUT 21
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

#define FL_MADV_DONTNEED_LOCKED 24
#define FL_GRND_INSECURE 4

/* Demotes a piece; a race with another thread's unmap is settled by looking
 * again (1). 0 or -ENOMEM. */
static int demote(struct fl_pager *p, struct seg *s)
{
	int ret = region_demote(p, s);

	return ret == -EAGAIN ? 1 : ret;
}

/* ---------------------------------------------------------------------------
 * madvise
 */

static bool is_hint(int advice)
{
	return advice == MADV_NORMAL || advice == MADV_RANDOM ||
	       advice == MADV_SEQUENTIAL || advice == MADV_WILLNEED;
}

/*
 * Drops the private changes of a file piece: the bytes it was mapped with come
 * back. Of a demoted piece the protection is the program's affair;
 * /proc/self/mem writes whatever it is.
 */
static int file_dontneed(struct fl_pager *p, struct seg *s, int advice)
{
	const char *bytes = region_pristine(p, s);
	long fd, ret;

	if (s->kind == SEG_PRESENT) {
		if (s->e->flags & EXT_TWIN)
			memcpy(s->addr, bytes, s->len);
		return 0;
	}
	/* Refused where the pages are locked. */
	ret = sys_madvise(s->addr, s->len, advice);
	if (ret < 0)
		return (int)ret;
	fd = sys_openat(AT_FDCWD, "/proc/self/mem", O_RDWR | O_CLOEXEC, 0);
	if (fd < 0)
		return -EAGAIN;
	for (size_t done = 0; done < s->len; done += (size_t)ret) {
		ret = sys_pwrite((int)fd, bytes + done, s->len - done,
				 (int64_t)(uintptr_t)(s->addr + done));
		if (ret <= 0)
			break;
	}
	sys_close((int)fd);
	return ret > 0 ? 0 : -EAGAIN;
}

#define ADVISE_FORWARD 1

/* Advice on a piece of a file region, resident or demoted: 0, -errno, or
 * ADVISE_FORWARD. */
static int advise_file(struct fl_pager *p, struct seg *s, int advice)
{
	switch (advice) {
	case MADV_DONTNEED:
	case FL_MADV_DONTNEED_LOCKED:
		return file_dontneed(p, s, advice);
	case MADV_FREE:
	case MADV_WIPEONFORK:
		return -EINVAL;
	case MADV_REMOVE:
		return -EACCES;
	}
	return ADVISE_FORWARD;
}

/* Advice on a resident piece: 0, -errno, or ADVISE_FORWARD after demoting. */
static int advise_present(struct fl_pager *p, struct seg *s, int advice)
{
	bool anon = !(s->e->flags & EXT_FILE);

	(void)p;
	switch (advice) {
	case MADV_DONTNEED:
	case FL_MADV_DONTNEED_LOCKED:
	case MADV_FREE:
		return (int)sys_madvise(s->addr, s->len, advice);
	case MADV_COLD:
	case MADV_PAGEOUT:
		return anon ? (int)sys_madvise(s->addr, s->len, advice) : 0;
	case MADV_REMOVE:
		return -EINVAL;
	case MADV_POPULATE_READ:
		return 0;
	case MADV_POPULATE_WRITE:
		return s->e->prot & PROT_WRITE ? 0 : -EINVAL;
	case MADV_DOFORK:
	case MADV_DODUMP:
		return 0;
	}
	return ADVISE_FORWARD;
}

/* The whole range in one resident extent, a hint: the scanners' case. */
static bool hint_fast(struct fl_pager *p, void *addr, size_t len)
{
	for (int k = 0; k < NR_ARENAS; k++) {
		struct ext_pool *pool = &p->pool[k];
		uint32_t page, n = (uint32_t)(len >> FL_PAGE_SHIFT);
		struct extent *e;

		if (!arena_has(&pool->arena, addr))
			continue;
		page = pool_page(pool, addr);
		e = pool_extent(pool, page);
		return e && len <= arena_size(&pool->arena) &&
		       page - ext_index(pool, e) + n <=
			       ext_class_pages(e->cls) &&
		       pt_count_range(&p->pt[k], page, n, PTE_PRESENT) == n;
	}
	return false;
}

/* The piece changed under us: look again. */
#define ADVISE_AGAIN 2

static long advise_piece(struct fl_pager *p, struct seg *s, int advice)
{
	long ret;

	if (s->kind == SEG_NONE)
		return -ENOMEM;
	if (s->kind == SEG_PRESENT && is_hint(advice)) {
		stat_count(&p->stats, STAT_advised, 1);
		return 0;
	}
	if ((s->kind == SEG_PRESENT || s->demoted) && s->e->flags & EXT_FILE) {
		ret = advise_file(p, s, advice);
		if (ret != ADVISE_FORWARD)
			return ret;
	}
	if (s->kind == SEG_PRESENT) {
		ret = advise_present(p, s, advice);
		if (ret != ADVISE_FORWARD)
			return ret;
		ret = demote(p, s);
		if (ret)
			return ret < 0 ? ret : ADVISE_AGAIN;
	}
	if (s->kind == SEG_OUTSIDE && vma_near(s->addr, s->len))
		return demand_advise(p, s->addr, s->len, advice);
	return sys_madvise(s->addr, s->len, advice);
}

int fl_pager_madvise(struct fl_pager *p, void *addr, size_t len, int advice)
{
	char *pos = addr, *end = pos + page_align_up(len);
	int unmapped = 0;
	struct seg s;
	long ret;

	if (!range_valid(addr, page_align_up(len)) ||
	    likely(!pager_touches(p, addr, (size_t)(end - pos)) &&
		   !vma_near(addr, len)))
		return (int)sys_madvise(addr, len, advice);
	pager_settle(p);
	if (likely(is_hint(advice)) &&
	    likely(hint_fast(p, addr, (size_t)(end - pos)))) {
		stat_count(&p->stats, STAT_advised, 1);
		return 0;
	}
	/* Let the kernel refuse advice it does not know, before anything
	 * changes; a range of no bytes is valid for all others. */
	ret = sys_madvise(addr, 0, advice);
	if (ret < 0)
		return (int)ret;
	for (; pos < end; pos += s.len) {
		seg_get(p, pos, end, &s);
		ret = advise_piece(p, &s, advice);
		if (ret == ADVISE_AGAIN) {
			s.len = 0;
			continue;
		}
		/* As the kernel: unmapped parts are reported at the end. */
		if (ret == -ENOMEM)
			unmapped = -ENOMEM;
		else if (ret < 0)
			return (int)ret;
	}
	return unmapped;
}

/* ---------------------------------------------------------------------------
 * mincore, msync
 */

/* All of it is there. A bad vector is EFAULT: getrandom writes exactly so many
 * bytes, takes no lock of the address space and tells. */
static long answer_mincore(unsigned char *vec, uint32_t n)
{
	long ret = sys_call3(__NR_getrandom, vec, n, FL_GRND_INSECURE);

	if (ret == -EFAULT || (ret >= 0 && (uint32_t)ret < n))
		return -EFAULT;
	memset(vec, 1, n);
	return 0;
}

int fl_pager_mincore(struct fl_pager *p, void *addr, size_t len,
		     unsigned char *vec)
{
	char *pos = addr, *end = pos + page_align_up(len);
	struct seg s;
	long ret;

	if (!range_valid(addr, page_align_up(len)) ||
	    !pager_touches(p, addr, (size_t)(end - pos)))
		return (int)sys_mincore(addr, len, vec);
	pager_settle(p);
	for (; pos < end; pos += s.len) {
		seg_get(p, pos, end, &s);
		if (s.kind == SEG_NONE)
			return -ENOMEM;
		if (s.kind == SEG_PRESENT) {
			ret = answer_mincore(vec, s.n);
			stat_count(&p->stats, STAT_advised, 1);
		} else {
			ret = sys_mincore(s.addr, s.len, vec);
		}
		if (ret < 0)
			return (int)ret;
		vec += s.len >> FL_PAGE_SHIFT;
	}
	return 0;
}

int fl_pager_msync(struct fl_pager *p, void *addr, size_t len, int flags)
{
	char *pos = addr, *end = pos + page_align_up(len);
	int unmapped = 0;
	struct seg s;
	long ret = 0;

	if (range_valid(addr, page_align_up(len)) && vma_near(addr, len)) {
		ret = demand_sync(addr, page_align_up(len), flags);
		if (ret < 0)
			return (int)ret;
	}
	if (!range_valid(addr, page_align_up(len)) ||
	    !pager_touches(p, addr, (size_t)(end - pos)))
		return (int)sys_msync(addr, len, flags);
	pager_settle(p);
	ret = sys_msync(addr, 0, flags); /* the flags alone */
	if (ret < 0)
		return (int)ret;
	for (; pos < end; pos += s.len) {
		seg_get(p, pos, end, &s);
		if (s.kind == SEG_NONE) {
			unmapped = -ENOMEM;
			continue;
		}
		/* Private and snapshot pages have nothing to write back. */
		if (s.kind == SEG_PRESENT)
			continue;
		ret = sys_msync(s.addr, s.len, flags);
		if (ret == -ENOMEM)
			unmapped = -ENOMEM;
		else if (ret < 0)
			return (int)ret;
	}
	return unmapped;
}

/* ---------------------------------------------------------------------------
 * mprotect, mlock, munlock: demote and forward
 */

struct change {
	long (*call)(struct seg *s, unsigned int arg);
	unsigned int arg;
	bool protect;
};

static long do_mprotect(struct seg *s, unsigned int prot)
{
	return sys_mprotect(s->addr, s->len, (int)prot);
}

static long do_mlock(struct seg *s, unsigned int flags)
{
	return flags ? sys_call3(__NR_mlock2, s->addr, s->len, flags) :
		       sys_mlock(s->addr, s->len);
}

static long do_munlock(struct seg *s, unsigned int arg)
{
	(void)arg;
	return sys_munlock(s->addr, s->len);
}

/* 0: nothing to do for a resident piece; 1: demote and forward; -errno. */
static int change_present(const struct seg *s, const struct change *c)
{
	if (!c->protect)
		return c->call == do_munlock ? 0 : 1;
	if (c->arg == s->e->prot)
		return 0;
	if (c->arg & PROT_WRITE && s->e->flags & EXT_SHARED)
		return -EACCES; /* the descriptor was read-only */
	return 1;
}

/* 1: the piece changed under us, look again. */
static long change_piece(struct fl_pager *p, struct seg *s,
			 const struct change *c)
{
	long ret;

	if (s->kind == SEG_NONE)
		return -ENOMEM;
	if (s->kind == SEG_PRESENT) {
		ret = change_present(s, c);
		if (ret <= 0)
			return ret;
		ret = demote(p, s);
		if (ret)
			return ret;
	}
	return c->call(s, c->arg);
}

static int change_range(struct fl_pager *p, void *addr, size_t len,
			const struct change *c)
{
	char *pos = addr, *end = pos + len;
	struct seg s;
	long ret;

	pager_settle(p);
	while (pos < end) {
		seg_get(p, pos, end, &s);
		ret = change_piece(p, &s, c);
		if (ret < 0)
			return (int)ret;
		if (ret == 0)
			pos += s.len;
	}
	return 0;
}

int fl_pager_mprotect(struct fl_pager *p, void *addr, size_t len, int prot)
{
	struct change c = { do_mprotect, (unsigned int)prot, true };
	size_t rounded = page_align_up(len);

	if (prot != PROT_READ && range_valid(addr, rounded) &&
	    demand_hand_over(p, addr, rounded) < 0)
		return -ENOMEM;
	if (!range_valid(addr, rounded) ||
	    prot & ~(PROT_READ | PROT_WRITE | PROT_EXEC) ||
	    !pager_touches(p, addr, rounded))
		return (int)sys_mprotect(addr, len, prot);
	return change_range(p, addr, rounded, &c);
}

/* mlock rounds the address down, unlike the others. */
static int lock_range(struct fl_pager *p, const void *addr, size_t len,
		      const struct change *c)
{
	uintptr_t a = (uintptr_t)addr & FL_PAGE_MASK;
	size_t rounded = page_align_up(len + ((uintptr_t)addr - a));
	struct seg all = { .addr = (char *)(uintptr_t)addr, .len = len };

	if (c->call != do_munlock && range_valid((void *)a, rounded) &&
	    demand_hand_over(p, (void *)a, rounded) < 0)
		return -ENOMEM;
	if (!range_valid((void *)a, rounded) ||
	    !pager_touches(p, (void *)a, rounded))
		return (int)c->call(&all, c->arg);
	return change_range(p, (void *)a, rounded, c);
}

int fl_pager_mlock(struct fl_pager *p, const void *addr, size_t len,
		   unsigned int flags)
{
	struct change c = { do_mlock, flags, false };

	return lock_range(p, addr, len, &c);
}

int fl_pager_munlock(struct fl_pager *p, const void *addr, size_t len)
{
	struct change c = { do_munlock, 0, false };

	return lock_range(p, addr, len, &c);
}
