// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * map.c - mapping and unmapping.
 *
 * Mapping a file: policy says yes -> an extent from the CPU's stack -> one
 * pread into the fill view -> tail of the last page zeroed -> entries of the
 * shadow page table published. Unmapping: the entries are cleared by
 * compare-and-swap; whoever clears the last page of a region frees its extent.
 * No lock, no system call but the ones named.
 *
 * Ordering: the entries are published with release after the bytes are there
 * ([MO:pte-publish]); a region's address reaches other threads only through
 * the program's own synchronisation, which therefore orders the bytes too.
 *
 * Progress: lock-free, as long as extents are recycled; see mem/extent.c for
 * what happens when fresh ones are cut.
 */
#include <string.h>
#include <sys/mman.h>

#include "api/pager.h"
#include "base/sys.h"
#include "base/ban.h"

void *kernel_map(struct fl_pager *p, void *addr, size_t len, int prot,
		 int flags, int fd, int64_t off)
{
	stat_inc(&p->stats, STAT_maps_kernel);
	return sys_mmap(addr, len, prot, flags, fd, off);
}

static struct extent *alloc(struct fl_pager *p, enum arena_kind kind,
			    uint32_t pages)
{
	struct ext_pool *pool = &p->pool[kind];
	unsigned int cls = ext_class(pages);
	struct extent *e = extent_alloc(pool, cls);

	if (unlikely(!e) && pager_trim(p, true))
		e = extent_alloc(pool, cls);
	if (unlikely(!e))
		stat_inc(&p->stats, STAT_over_budget);
	return e;
}

/* The region is filled: publish it. NULL: no memory for a table; @e is freed. */
static char *publish(struct fl_pager *p, enum arena_kind kind, struct extent *e,
		     uint32_t pages, int prot)
{
	struct ext_pool *pool = &p->pool[kind];
	uint32_t page = ext_index(pool, e);
	pte_t pte =
		pte_mk_present(page, prot & PROT_WRITE ? PTE_R | PTE_W : PTE_R);

	e->npages = (uint16_t)pages;
	e->prot = (uint8_t)prot;
	st_rlx(&e->live, pages);
	if (unlikely(pt_set_range(&p->pt[kind], page, pages, pte, 1) < 0)) {
		st_rlx(&e->live, 0u);
		extent_free(pool, e);
		return NULL;
	}
	stat_count(&p->stats, STAT_map_bytes, (uint64_t)pages << FL_PAGE_SHIFT);
	if (unlikely(p->publish) && !stat_published(&p->stats))
		stat_publish(&p->stats);
	return ext_user(pool, e);
}

/* hardened=1: lifts the guard off the pages of a new region. */
static bool unguard(struct ext_pool *pool, struct extent *e, uint32_t pages)
{
	if (likely(!pool->hardened))
		return true;
	return arena_unguard(&pool->arena, ext_off(pool, e),
			     (size_t)pages << FL_PAGE_SHIFT) == 0;
}

/*
 * Reads the region's pages into its extent. @size: the file's, or 0 if the
 * caller vouches for @len bytes. True when all bytes that mmap would show are
 * there. The tail of the last page is zeroed as far as it is not zero already.
 */
static bool fill(struct extent *e, int fd, char *buf, size_t len,
		 size_t rounded, int64_t off, uint64_t size)
{
	size_t old = e->fill_end, end = rounded;
	long n = sys_pread(fd, buf, rounded, off);

	e->fill_end = 0;
	if (unlikely(n <= 0))
		return false;
	if ((size_t)n < rounded) {
		/* Short: only if it ends where the file does. */
		if (size ? (uint64_t)off + (uint64_t)n != size :
			   (size_t)n < len)
			return false;
		if (rounded - (size_t)n >= FL_PAGE_SIZE)
			return false;
		if (page_align_up(old) == rounded)
			end = old; /* the same last page as last time */
		if ((size_t)n < end)
			memset(buf + n, 0, end - (size_t)n);
	}
	e->fill_end = (uint32_t)n;
	return true;
}

static void *map_file(struct fl_pager *p, int fd, size_t len, int64_t off,
		      int flags, const struct file_id *id)
{
	struct ext_pool *pool = &p->pool[ARENA_FILE];
	size_t rounded = page_align_up(len);
	uint32_t pages = (uint32_t)(rounded >> FL_PAGE_SHIFT);
	struct extent *e = alloc(p, ARENA_FILE, pages);
	char *addr;

	if (unlikely(!e))
		return NULL;
	if (unlikely(extent_need(pool, e, pages) < 0))
		goto out_free;
	if (unlikely(!fill(e, fd, ext_fill(pool, e), len, rounded, off,
			   id->size))) {
		stat_inc(&p->stats, STAT_short_reads);
		goto out_free;
	}
	if (!unguard(pool, e, pages))
		goto out_free;
	e->flags =
		(uint8_t)(EXT_FILE |
			  ((flags & MAP_TYPE) == MAP_PRIVATE ? 0 : EXT_SHARED));
	e->fd = fd;
	e->dev = id->dev;
	e->ino = id->ino;
	e->pgoff = (uint32_t)(off >> FL_PAGE_SHIFT);
	addr = publish(p, ARENA_FILE, e, pages, PROT_READ);
	if (likely(addr))
		stat_count(&p->stats, STAT_maps_file, 1);
	return addr;
out_free:
	extent_free(pool, e);
	return NULL;
}

/*
 * A private writable file region lies in the anonymous arena. A second copy of
 * the bytes behind it is what MADV_DONTNEED goes back to.
 */
static void *map_copy(struct fl_pager *p, int fd, size_t len, int64_t off,
		      int prot, const struct file_id *id)
{
	struct ext_pool *pool = &p->pool[ARENA_ANON];
	size_t rounded = page_align_up(len);
	uint32_t pages = (uint32_t)(rounded >> FL_PAGE_SHIFT);
	struct extent *e;
	char *addr;

	if (2 * pages > EXT_MAX_PAGES)
		return NULL;
	e = alloc(p, ARENA_ANON, 2 * pages);
	if (unlikely(!e))
		return NULL;
	if (!unguard(pool, e, 2 * pages) || extent_need(pool, e, 2 * pages) < 0)
		goto out_free;
	if (e->dirty < 2 * pages)
		e->dirty = (uint16_t)(2 * pages);
	addr = ext_user(pool, e);
	e->fill_end = 0; /* the last owner could write */
	if (unlikely(!fill(e, fd, addr, len, rounded, off, id->size))) {
		stat_inc(&p->stats, STAT_short_reads);
		goto out_free;
	}
	memcpy(addr + rounded, addr, rounded);
	e->flags = EXT_FILE | EXT_TWIN;
	e->fd = fd;
	e->dev = id->dev;
	e->ino = id->ino;
	e->pgoff = (uint32_t)(off >> FL_PAGE_SHIFT);
	addr = publish(p, ARENA_ANON, e, pages, prot);
	if (likely(addr))
		stat_count(&p->stats, STAT_maps_file, 1);
	return addr;
out_free:
	extent_free(pool, e);
	return NULL;
}

/* An anonymous extent of @pages zero pages; not published. */
struct extent *map_anon_extent(struct fl_pager *p, uint32_t pages)
{
	struct ext_pool *pool = &p->pool[ARENA_ANON];
	struct extent *e = alloc(p, ARENA_ANON, pages);
	uint32_t used;

	if (unlikely(!e))
		return NULL;
	if (!unguard(pool, e, pages) ||
	    unlikely(extent_need(pool, e, pages) < 0)) {
		extent_free(pool, e);
		return NULL;
	}
	used = e->dirty < pages ? e->dirty : pages;
	memset(ext_user(pool, e), 0, (size_t)used << FL_PAGE_SHIFT);
	if (e->dirty < pages)
		e->dirty = (uint16_t)pages;
	e->flags = 0;
	e->fd = -1;
	e->ino = 0;
	return e;
}

static void *map_anon(struct fl_pager *p, size_t len, int prot)
{
	uint32_t pages = (uint32_t)(page_align_up(len) >> FL_PAGE_SHIFT);
	struct extent *e = map_anon_extent(p, pages);
	char *addr;

	if (unlikely(!e))
		return NULL;
	addr = publish(p, ARENA_ANON, e, pages, prot);
	if (likely(addr))
		stat_count(&p->stats, STAT_maps_anon, 1);
	return addr;
}

/*
 * A large file. A warm one is the kernel's, which maps what is there at once;
 * and so is one that the kernel reads whole, or nearly so, after a few faults,
 * wherever they are.
 */
#define DEMAND_MIN ((size_t)32 << 20)

static void *map_large(struct fl_pager *p, size_t len, int prot, int fd,
		       int64_t off)
{
	struct file_id id;

	if (!policy_file(p, fd, len, off, &id))
		return NULL;
	if (p->conf.large == CONF_LARGE_AUTO &&
	    (!p->demand.preload || len < DEMAND_MIN ||
	     !policy_cold(fd, (uint64_t)off, len)))
		return NULL;
	return demand_map(p, fd, off, len, prot);
}

/* The request in user space; NULL where the kernel has to serve it. */
static void *map_here(struct fl_pager *p, enum take how, size_t len, int prot,
		      int flags, int fd, int64_t off, struct watch *w)
{
	uint32_t pages = (uint32_t)(page_align_up(len) >> FL_PAGE_SHIFT);
	enum arena_kind kind = how == TAKE_ANON ? ARENA_ANON : ARENA_FILE;
	struct file_id id;

	if (unlikely(how == TAKE_DEMAND))
		return map_large(p, len, prot, fd, off);
	if (!(flags & MAP_POPULATE) && !learn_eager(p, kind, pages, w))
		return NULL;
	if (how == TAKE_ANON)
		return map_anon(p, len, prot);
	if (!policy_file(p, fd, len, off, &id))
		return NULL;
	if (how == TAKE_COPY)
		return map_copy(p, fd, len, off, prot, &id);
	return map_file(p, fd, len, off, flags, &id);
}

static void *map_watched(struct fl_pager *p, struct watch *w, size_t len,
			 int prot, int flags, int fd, int64_t off)
{
	void *ret;

	learn_start(w);
	ret = kernel_map(p, NULL, len, prot, flags, fd, off);
	if (!is_err(ret))
		learn_kernel(p, w, ret);
	return ret;
}

void *fl_pager_mmap(struct fl_pager *p, void *addr, size_t len, int prot,
		    int flags, int fd, off_t off)
{
	enum take how = policy_args(p, addr, len, prot, flags, off);
	struct watch w = { .how = WATCH_NOT };
	void *ret;

	pager_settle(p);
	if (likely(how != TAKE_NOT) && pager_mine(p)) {
		ret = map_here(p, how, len, prot, flags, fd, off, &w);
		if (likely(ret)) {
			if (unlikely(w.how == WATCH_HERE))
				learn_here(p, &w);
			return ret;
		}
	}
	if (unlikely(flags & MAP_FIXED) && !(flags & MAP_FIXED_NOREPLACE) &&
	    range_valid(addr, page_align_up(len)) &&
	    demand_hand_over(p, addr, len) < 0)
		return err_ptr(-ENOMEM);
	if (unlikely(flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) &&
	    pager_touches(p, addr, len))
		return region_map_over(p, addr, len, prot, flags, fd, off);
	if (unlikely(w.how == WATCH_KERNEL))
		return map_watched(p, &w, len, prot, flags, fd, off);
	return kernel_map(p, addr, len, prot, flags, fd, off);
}

void *fl_pager_map_file(struct fl_pager *p, int fd, off_t off, size_t len)
{
	uint32_t pages = (uint32_t)(page_align_up(len) >> FL_PAGE_SHIFT);
	struct watch w = { .how = WATCH_NOT };
	struct file_id id = { 0 };
	void *ret;

	if (len == 0 || off < 0 || !page_aligned((uintptr_t)off))
		return err_ptr(-EINVAL);
	pager_settle(p);
	if (likely(len <= p->conf.resident_max) && pager_mine(p) &&
	    learn_eager(p, ARENA_FILE, pages, &w) &&
	    likely((uint64_t)off >> (32 + FL_PAGE_SHIFT) == 0)) {
		ret = map_file(p, fd, len, off, MAP_PRIVATE, &id);
		if (likely(ret)) {
			if (unlikely(w.how == WATCH_HERE))
				learn_here(p, &w);
			return ret;
		}
	}
	if (unlikely(w.how == WATCH_KERNEL))
		return map_watched(p, &w, len, PROT_READ, MAP_PRIVATE, fd, off);
	return kernel_map(p, NULL, len, PROT_READ, MAP_PRIVATE, fd, off);
}

/* A range within the pages of one extent; true when that settled it. */
static bool unmap_fast(struct fl_pager *p, enum arena_kind kind, void *addr,
		       size_t len)
{
	struct ext_pool *pool = &p->pool[kind];
	uint32_t n = (uint32_t)(len >> FL_PAGE_SHIFT);
	uint32_t page = pool_page(pool, addr);
	struct extent *e = pool_extent(pool, page);
	size_t cleared, others = 0;
	uint32_t off;

	if (unlikely(!e) || unlikely(pool->hardened))
		return false;
	off = page - ext_index(pool, e);
	if (unlikely(off + n > ext_class_pages(e->cls)))
		return false;
	cleared = pt_clear_range(&p->pt[kind], &e->pte_lock, page, n,
				 PTE_PRESENT, &others);
	if (likely(cleared == e->npages) || cleared == 0) {
		if (likely(cleared)) {
			if (kind == ARENA_ANON && !(e->flags & EXT_FILE))
				learn_probe(p, ext_user(pool, e), e->npages);
			stat_count(&p->stats, STAT_unmaps, 1);
		}
	} else {
		stat_inc(&p->stats, STAT_unmaps_partial);
	}
	if (likely(cleared))
		extent_put(pool, e, (uint32_t)cleared);
	return others == 0;
}

int pager_unmap(struct fl_pager *p, void *addr, size_t len)
{
	char *pos = addr, *end = pos + len;
	struct seg s;
	long ret = 0;

	for (; pos < end; pos += s.len) {
		seg_get(p, pos, end, &s);
		if (s.kind == SEG_NONE)
			continue;
		if (s.kind == SEG_OUTSIDE && vma_near(s.addr, s.len)) {
			ret = vma_unmap(s.addr, s.len);
		} else if (s.kind == SEG_OUTSIDE) {
			ret = learn_unmap(p, s.addr, s.len);
		} else {
			ret = region_unmap(p, &s);
		}
		if (ret < 0)
			return (int)ret;
	}
	return 0;
}

/* Idle memory is looked at every so many unmaps of a CPU's. */
#define TRIM_EVERY 256

int fl_pager_munmap(struct fl_pager *p, void *addr, size_t len)
{
	size_t rounded = page_align_up(len);

	if (unlikely(!range_valid(addr, rounded)))
		return (int)sys_munmap(addr, len);
	pager_settle(p);
	for (int k = 0; k < NR_ARENAS; k++) {
		const struct arena *a = &p->pool[k].arena;
		int ret = 0;

		if (!arena_has(a, addr))
			continue;
		if (unlikely(rounded > arena_size(a)) ||
		    !unmap_fast(p, (enum arena_kind)k, addr, rounded))
			ret = pager_unmap(p, addr, rounded);
		if (unlikely(pool_tick(&p->pool[k]) % TRIM_EVERY == 0))
			pager_trim(p, false);
		return ret;
	}
	if (likely(!pager_touches(p, addr, rounded) &&
		   !vma_near(addr, rounded)))
		return (int)learn_unmap(p, addr, rounded);
	return pager_unmap(p, addr, rounded);
}
