// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * region.c - regions changed in place: pieces, demotion, claims, restores.
 *
 * DEMOTION turns pages of a resident region into a kernel mapping with the same
 * bytes at the same address, so that the kernel can do to them what the pager
 * does not do itself. In the anonymous arena the pages already are private
 * anonymous memory: only the entries change. In the file arena a private copy
 * is made aside and moved over the pages in one mremap; a reader in another
 * thread finds the old bytes or the same bytes, never a gap.
 *
 * A CLAIM makes pages of an arena the program's for a mapping the kernel puts
 * there (MAP_FIXED, MREMAP_FIXED).
 *
 * Both leave the entries in state KERNEL; unmapping such pages puts the arena's
 * view back. While pages change, their entries are BUSY.
 *
 * LOCKS. LOCK_REGION of the extent from PRESENT -> BUSY to BUSY -> KERNEL, and
 * while KERNEL pages are unmapped. A thread that finds BUSY takes the lock once
 * to wait. PRESENT pages are unmapped without it, by compare-and-swap; so the
 * two never both win a page. The copying under the lock is from memory to
 * memory; no I/O.
 */
#include <string.h>
#include <sys/mman.h>

#include "api/pager.h"
#include "base/sys.h"
#include "base/ban.h"

/* ---------------------------------------------------------------------------
 * Pieces of a range
 */

bool pager_touches(const struct fl_pager *p, const void *addr, size_t len)
{
	uintptr_t a = (uintptr_t)addr, end = a + len;

	for (int k = 0; k < NR_ARENAS; k++) {
		const struct arena *ar = &p->pool[k].arena;
		uintptr_t base = (uintptr_t)ar->user;

		if (a < base + arena_size(ar) && end > base)
			return true;
	}
	return false;
}

static void wait_busy(struct extent *e)
{
	lock_take(&e->lock);
	lock_drop(&e->lock);
}

static enum seg_kind kind_of(enum pte_state state)
{
	if (state == PTE_NONE)
		return SEG_NONE;
	return state == PTE_KERNEL ? SEG_KERNEL : SEG_PRESENT;
}

static bool chunk_foreign(struct ext_pool *pool, uint32_t page)
{
	return ld_rlx(&pool->chunk_class[page / CHUNK_PAGES]) == CHUNK_FOREIGN;
}

/* A piece of a chunk that no class has. */
static void seg_chunk(struct ext_pool *pool, struct seg *s, char *end)
{
	uint32_t left = (uint32_t)CHUNK_PAGES - s->page % (uint32_t)CHUNK_PAGES;
	size_t len = (size_t)(end - s->addr);

	s->n = left;
	if (len >> FL_PAGE_SHIFT < left)
		s->n = (uint32_t)(len >> FL_PAGE_SHIFT);
	s->kind = chunk_foreign(pool, s->page) ? SEG_KERNEL : SEG_NONE;
}

static void seg_extent(struct fl_pager *p, struct ext_pool *pool, struct seg *s,
		       char *end)
{
	struct pgtable *pt = &p->pt[s->arena];
	size_t len = (size_t)(end - s->addr) >> FL_PAGE_SHIFT;
	/* Of the chunk: the extent may not have been cut yet. */
	int cls = pool_chunk_class(pool, s->page);
	uint32_t max = ext_class_pages((unsigned int)cls) -
		       (s->page - ext_index(pool, s->e));
	enum pte_state state;
	pte_t first, next;

	if (len < max)
		max = (uint32_t)len;
	while (first = pt_get(pt, s->page), state = pte_state(first),
	       state == PTE_BUSY)
		wait_busy(s->e);
	s->kind = kind_of(state);
	s->demoted = state == PTE_KERNEL &&
		     pte_payload(first) == PAYLOAD_DEMOTED;
	s->n = max;
	if (state != PTE_KERNEL &&
	    pt_count_range(pt, s->page, max, state) == max)
		return;
	for (s->n = 1; s->n < max; s->n++) {
		next = pt_get(pt, s->page + s->n);
		if (pte_state(next) != state ||
		    (state == PTE_KERNEL &&
		     pte_payload(next) != pte_payload(first)))
			break;
	}
}

static void seg_outside(const struct fl_pager *p, struct seg *s, char *end)
{
	for (int k = 0; k < NR_ARENAS; k++) {
		char *base = p->pool[k].arena.user;

		if (base > s->addr && base < end)
			end = base;
	}
	s->kind = SEG_OUTSIDE;
	s->len = (size_t)(end - s->addr);
}

void seg_get(struct fl_pager *p, char *addr, char *end, struct seg *s)
{
	s->addr = addr;
	s->e = NULL;
	s->demoted = false;
	for (int k = 0; k < NR_ARENAS; k++) {
		struct ext_pool *pool = &p->pool[k];

		if (!arena_has(&pool->arena, addr))
			continue;
		if (end > pool->arena.user + arena_size(&pool->arena))
			end = pool->arena.user + arena_size(&pool->arena);
		s->arena = (enum arena_kind)k;
		s->page = pool_page(pool, addr);
		s->e = pool_extent(pool, s->page);
		if (s->e)
			seg_extent(p, pool, s, end);
		else
			seg_chunk(pool, s, end);
		s->len = (size_t)s->n << FL_PAGE_SHIFT;
		return;
	}
	seg_outside(p, s, end);
}

/* ---------------------------------------------------------------------------
 * Entries
 */

static struct ext_pool *seg_pool(struct fl_pager *p, const struct seg *s)
{
	return &p->pool[s->arena];
}

static size_t seg_move(struct fl_pager *p, struct seg *s, enum pte_state from,
		       enum pte_state to, unsigned int payload)
{
	return pt_move_range(&p->pt[s->arena], &s->e->pte_lock, s->page, s->n,
			     from, pte_mk_state(to, payload), 0);
}

const char *region_pristine(struct fl_pager *p, const struct seg *s)
{
	if (s->e->flags & EXT_TWIN)
		return s->addr + ((size_t)s->e->npages << FL_PAGE_SHIFT);
	return seg_pool(p, s)->arena.fill + ((size_t)s->page << FL_PAGE_SHIFT);
}

static void seg_present_again(struct fl_pager *p, struct seg *s)
{
	unsigned int prot = s->e->prot & PROT_WRITE ? PTE_R | PTE_W : PTE_R;

	pt_move_range(&p->pt[s->arena], &s->e->pte_lock, s->page, s->n,
		      PTE_BUSY, pte_mk_present(s->page, prot), 1);
}

/* ---------------------------------------------------------------------------
 * Demotion
 */

/* A private anonymous copy of [from, from+len), protected as the region is. */
static void *copy_aside(const char *from, size_t len, int prot)
{
	void *tmp = sys_mmap(NULL, len, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (is_err(tmp))
		return tmp;
	memcpy(tmp, from, len);
	if (prot != (PROT_READ | PROT_WRITE))
		sys_mprotect(tmp, len, prot);
	return tmp;
}

static int demote_file(struct fl_pager *p, struct seg *s)
{
	struct ext_pool *pool = seg_pool(p, s);
	size_t off = (size_t)s->page << FL_PAGE_SHIFT;
	void *tmp, *at;

	tmp = copy_aside(pool->arena.fill + off, s->len, s->e->prot);
	if (is_err(tmp))
		return (int)ptr_err(tmp);
	at = sys_mremap(tmp, s->len, s->len, MREMAP_MAYMOVE | MREMAP_FIXED,
			s->addr);
	if (!is_err(at))
		return 0;
	sys_munmap(tmp, s->len);
	return (int)ptr_err(at);
}

int region_demote(struct fl_pager *p, struct seg *s)
{
	int ret = 0;

	lock_take(&s->e->lock);
	if (seg_move(p, s, PTE_PRESENT, PTE_BUSY, 0) != s->n) {
		/* Another thread is unmapping or demoting pages of it: those
		 * are no longer ours to change. */
		seg_present_again(p, s);
		lock_drop(&s->e->lock);
		return -EAGAIN;
	}
	if (s->arena == ARENA_FILE)
		ret = demote_file(p, s);
	if (ret < 0)
		seg_present_again(p, s);
	else
		seg_move(p, s, PTE_BUSY, PTE_KERNEL, PAYLOAD_DEMOTED);
	lock_drop(&s->e->lock);
	if (ret < 0)
		return -ENOMEM;
	stat_inc(&p->stats, STAT_demotions);
	return 0;
}

/* ---------------------------------------------------------------------------
 * Unmapping
 */

/* Puts the arena back where the program had a kernel mapping. */
static int restore(struct fl_pager *p, struct seg *s)
{
	struct ext_pool *pool = seg_pool(p, s);
	size_t off = (size_t)s->page << FL_PAGE_SHIFT;
	int ret = arena_restore(&pool->arena, off, s->len);

	if (ret == 0 && pool->hardened)
		ret = arena_guard(&pool->arena, off, s->len);
	return ret;
}

static int unmap_kernel(struct fl_pager *p, struct seg *s)
{
	size_t n;
	int ret;

	if (!s->e) /* a whole chunk is the program's: reserve it again */
		return arena_reserve(&seg_pool(p, s)->arena,
				     (size_t)s->page << FL_PAGE_SHIFT, s->len);
	lock_take(&s->e->lock);
	ret = restore(p, s);
	n = ret < 0 ? 0 :
		      pt_clear_range(&p->pt[s->arena], &s->e->pte_lock, s->page,
				     s->n, PTE_KERNEL, NULL);
	lock_drop(&s->e->lock);
	if (n)
		extent_put(seg_pool(p, s), s->e, (uint32_t)n);
	return ret;
}

/* PRESENT -> NONE. Returns the number of pages. */
static long clear_present(struct fl_pager *p, struct seg *s)
{
	return (long)pt_clear_range(&p->pt[s->arena], &s->e->pte_lock, s->page,
				    s->n, PTE_PRESENT, NULL);
}

/*
 * The same under hardened=1, or -ENOMEM. The entries go first: a child of fork reads what
 * they say is there. The lock keeps claims off until the guard is up.
 */
static long clear_guarded(struct fl_pager *p, struct seg *s)
{
	struct ext_pool *pool = seg_pool(p, s);
	unsigned int prot = s->e->prot & PROT_WRITE ? PTE_R | PTE_W : PTE_R;
	long n;

	lock_take(&s->e->lock);
	n = clear_present(p, s);
	if (n == s->n &&
	    arena_guard(&pool->arena, (size_t)s->page << FL_PAGE_SHIFT,
			s->len) < 0 &&
	    pt_set_range(&p->pt[s->arena], s->page, s->n,
			 pte_mk_present(s->page, prot), 1) == 0)
		n = -ENOMEM;
	lock_drop(&s->e->lock);
	return n;
}

int region_unmap(struct fl_pager *p, struct seg *s)
{
	struct ext_pool *pool = seg_pool(p, s);
	long n;

	if (s->kind == SEG_KERNEL)
		return unmap_kernel(p, s);
	n = pool->hardened ? clear_guarded(p, s) : clear_present(p, s);
	if (n <= 0)
		return (int)n;
	if (n == s->e->npages) {
		stat_inc(&p->stats, STAT_unmaps);
	} else {
		stat_inc(&p->stats, STAT_unmaps_partial);
	}
	extent_put(pool, s->e, (uint32_t)n);
	return 0;
}

/* ---------------------------------------------------------------------------
 * Claims
 */

/* One piece: whatever it is becomes KERNEL. Under the extent's lock; the
 * mapping itself is made by the caller. */
static int claim_piece(struct fl_pager *p, struct seg *s)
{
	struct ext_pool *pool = seg_pool(p, s);
	uint32_t c = s->page / (uint32_t)CHUNK_PAGES;
	int ret = 0;

	if (!s->e)
		return s->kind == SEG_KERNEL || pool_claim_chunk(pool, c) ?
			       0 :
			       -EAGAIN;
	if (ld_rlx(&s->e->state) == EXT_VIRGIN) {
		pool_cut(pool, s->page);
		return -EAGAIN;
	}
	lock_take(&s->e->lock);
	if (s->kind == SEG_PRESENT || s->demoted) {
		if (seg_move(p, s, s->demoted ? PTE_KERNEL : PTE_PRESENT,
			     PTE_KERNEL, 0) != s->n)
			ret = -EAGAIN;
	} else if (s->kind == SEG_NONE) {
		if (!extent_claim(pool, s->e, s->n)) {
			ret = -EAGAIN;
		} else {
			/* The mapping covers some of the pristine copy. */
			if (s->page + s->n - ext_index(pool, s->e) >
			    s->e->npages)
				s->e->flags &= (uint8_t)~EXT_TWIN;
			ret = pt_set_range(&p->pt[s->arena], s->page, s->n,
					   pte_mk_state(PTE_KERNEL, 0), 0);
		}
	}
	lock_drop(&s->e->lock);
	if (ret == -ENOMEM)
		extent_put(pool, s->e, s->n);
	return ret;
}

/* An extent was being handed out or cut, a page unmapped: look again. One that
 * is being trimmed may take a while. */
#define CLAIM_TRIES 1000
#define CLAIM_YIELDS 100

static void claim_wait(int tries)
{
	struct timespec tick = { .tv_nsec = 1000 * 1000 };

	if (tries < CLAIM_YIELDS)
		sys_sched_yield();
	else
		sys_call2(__NR_nanosleep, &tick, NULL);
}

int region_claim(struct fl_pager *p, char *addr, size_t len)
{
	char *end = addr + page_align_up(len);
	int tries = 0, ret;
	struct seg s;

	while (addr < end) {
		seg_get(p, addr, end, &s);
		ret = s.kind == SEG_OUTSIDE ? 0 : claim_piece(p, &s);
		if (ret == -EAGAIN && ++tries < CLAIM_TRIES) {
			claim_wait(tries);
			continue;
		}
		if (ret < 0)
			return -ENOMEM;
		addr += s.len;
	}
	return 0;
}

void region_unclaim(struct fl_pager *p, char *addr, size_t len)
{
	char *end = addr + page_align_up(len);
	struct seg s;

	for (; addr < end; addr += s.len) {
		seg_get(p, addr, end, &s);
		if (s.kind == SEG_KERNEL)
			region_unmap(p, &s);
	}
}

/* ---------------------------------------------------------------------------
 * MAP_FIXED
 */

/* Fresh anonymous memory over part of a live anonymous region: zeros in place,
 * no call (ClamAV's ageing). */
static bool zero_in_place(struct fl_pager *p, char *addr, size_t len, int prot,
			  int flags)
{
	size_t rounded = page_align_up(len);
	struct seg s;

	if ((flags & ~(MAP_POPULATE | MAP_NORESERVE)) !=
		    (MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED) ||
	    prot != (PROT_READ | PROT_WRITE))
		return false;
	seg_get(p, addr, addr + rounded, &s);
	if (s.kind != SEG_PRESENT || s.arena != ARENA_ANON ||
	    s.len != rounded || s.e->flags & EXT_FILE ||
	    s.e->prot != (PROT_READ | PROT_WRITE))
		return false;
	memset(addr, 0, rounded);
	stat_inc(&p->stats, STAT_zeroed_in_place);
	return true;
}

/* MAP_FIXED_NOREPLACE: the program's pages in the range are in the way, ours
 * that are free are not. */
static bool occupied(struct fl_pager *p, char *addr, size_t len)
{
	char *end = addr + page_align_up(len);
	struct seg s;

	for (; addr < end; addr += s.len) {
		seg_get(p, addr, end, &s);
		if (s.kind != SEG_NONE)
			return true;
	}
	return false;
}

void *region_map_over(struct fl_pager *p, void *addr, size_t len, int prot,
		      int flags, int fd, int64_t off)
{
	void *ret;

	if (!range_valid(addr, page_align_up(len)))
		return kernel_map(p, addr, len, prot, flags, fd, off);
	if (flags & MAP_FIXED_NOREPLACE) {
		if (occupied(p, addr, len))
			return kernel_map(p, addr, len, prot, flags, fd, off);
		flags = (flags & ~MAP_FIXED_NOREPLACE) | MAP_FIXED;
	} else if (zero_in_place(p, addr, len, prot, flags)) {
		return addr;
	}
	/* Would the kernel take it at all? Ask with the same arguments at an
	 * address of its choice, so that a refusal changes nothing. */
	ret = sys_mmap(NULL, len, prot,
		       flags & ~(MAP_FIXED | MAP_POPULATE | MAP_LOCKED), fd,
		       off);
	if (is_err(ret))
		return ret;
	sys_munmap(ret, len);
	if (region_claim(p, addr, len) < 0)
		return err_ptr(-ENOMEM);
	return kernel_map(p, addr, len, prot, flags, fd, off);
}
