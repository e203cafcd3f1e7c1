// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * remap.c - mremap.
 *
 * A resident region shrinks by unmapping its tail, grows in place while its
 * extent has room, and moves by copying: to another anonymous region, to
 * anonymous memory the kernel maps, or, when a file region has to show more of
 * its file, to a real mapping of the file while the program still has it open.
 * Pages of an arena that already are kernel mappings are moved by the kernel;
 * MREMAP_DONTUNMAP keeps the hole in the arena closed meanwhile.
 */
#include <string.h>
#include <sys/mman.h>

#include "api/pager.h"
#include "base/sys.h"
#include "base/ban.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

struct remap {
	char *addr;
	size_t old_len; /* page multiples */
	size_t new_len;
	int flags;
	char *new_addr;
};

static void *kernel_remap(const struct remap *r)
{
	return sys_mremap(r->addr, r->old_len, r->new_len, r->flags,
			  r->new_addr);
}

/* What the kernel checks before it looks at mappings. */
static int remap_check(const struct remap *r)
{
	if (r->flags & ~(MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP))
		return -EINVAL;
	if (r->flags & MREMAP_FIXED && !(r->flags & MREMAP_MAYMOVE))
		return -EINVAL;
	if (r->flags & MREMAP_DONTUNMAP &&
	    (!(r->flags & MREMAP_MAYMOVE) || r->old_len != r->new_len))
		return -EINVAL;
	if (!page_aligned((uintptr_t)r->addr) || r->new_len == 0 ||
	    r->new_len > USER_MAX)
		return -EINVAL;
	if (r->flags & MREMAP_FIXED && (!page_aligned((uintptr_t)r->new_addr) ||
					(r->addr < r->new_addr + r->new_len &&
					 r->new_addr < r->addr + r->old_len)))
		return -EINVAL;
	return 0;
}

/* Publishes the room that an anonymous region grows into, unless the program
 * has mapped something there. */
static bool take_room(struct fl_pager *p, struct seg *s, uint32_t more)
{
	struct pgtable *pt = &p->pt[s->arena];
	uint32_t first = s->page + s->n;
	bool ok;

	lock_take(&s->e->lock);
	ok = pt_count_range(pt, first, more, PTE_NONE) == more;
	if (ok) {
		add_rlx(&s->e->live, more);
		ok = pt_set_range(pt, first, more,
				  pte_mk_present(first, PTE_R | PTE_W), 1) == 0;
		if (!ok)
			sub_rlx(&s->e->live, more);
	}
	lock_drop(&s->e->lock);
	return ok;
}

/* Grows an anonymous region in the room behind it. */
static bool grow_in_place(struct fl_pager *p, struct seg *s,
			  const struct remap *r)
{
	struct ext_pool *pool = &p->pool[s->arena];
	uint32_t end = s->page + s->n - ext_index(pool, s->e);
	size_t more = (r->new_len - r->old_len) >> FL_PAGE_SHIFT;
	size_t done = (size_t)end << FL_PAGE_SHIFT;
	uint32_t used, total;

	if (s->e->flags & EXT_FILE || pool->hardened || end != s->e->npages ||
	    end + more > ext_class_pages(s->e->cls))
		return false;
	if (!take_room(p, s, (uint32_t)more))
		return false;
	/* Ours from here on; nobody else knows of it yet. */
	total = end + (uint32_t)more;
	if (extent_need(pool, s->e, total) < 0) {
		pager_unmap(p, s->addr + r->old_len, r->new_len - r->old_len);
		return false;
	}
	used = s->e->dirty < total ? s->e->dirty : total;
	if (used > end)
		memset(ext_user(pool, s->e) + done, 0,
		       (size_t)(used - end) << FL_PAGE_SHIFT);
	if (s->e->dirty < total)
		s->e->dirty = (uint16_t)total;
	s->e->npages = (uint16_t)total;
	return true;
}

/* Where a region goes: fresh anonymous memory of the new length. */
static char *target_anon(struct fl_pager *p, const struct remap *r)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS;

	if (r->flags & MREMAP_FIXED)
		flags |= MAP_FIXED;
	return fl_pager_mmap(p, r->flags & MREMAP_FIXED ? r->new_addr : NULL,
			     r->new_len, PROT_READ | PROT_WRITE, flags, -1, 0);
}

/* A real mapping of the region's file, if its descriptor still is that file. */
static char *target_file(struct fl_pager *p, const struct seg *s,
			 const struct remap *r)
{
	struct ext_pool *pool = &p->pool[s->arena];
	uint32_t first = s->page - ext_index(pool, s->e);
	int64_t off = ((int64_t)s->e->pgoff + first) << FL_PAGE_SHIFT;
	int flags = s->e->flags & EXT_SHARED ? MAP_SHARED : MAP_PRIVATE;
	struct sys_stat st;

	if (s->e->ino == 0 || sys_fstat(s->e->fd, &st) < 0 ||
	    st.ino != s->e->ino || st.dev != s->e->dev)
		return err_ptr(-ENOMEM);
	if (r->flags & MREMAP_FIXED) {
		flags |= MAP_FIXED;
		if (pager_touches(p, r->new_addr, r->new_len))
			return region_map_over(p, r->new_addr, r->new_len,
					       s->e->prot, flags, s->e->fd,
					       off);
	}
	return kernel_map(p, r->flags & MREMAP_FIXED ? r->new_addr : NULL,
			  r->new_len, s->e->prot, flags, s->e->fd, off);
}

/* Moves a resident region. */
static void *move_present(struct fl_pager *p, struct seg *s,
			  const struct remap *r)
{
	bool grows = r->new_len > r->old_len, file = s->e->flags & EXT_FILE;
	size_t bytes = grows ? r->old_len : r->new_len;
	char *to;

	to = file && grows ? target_file(p, s, r) : target_anon(p, r);
	if (is_err(to))
		return to;
	if (!file || !grows) {
		memcpy(to, s->addr, bytes);
		if (s->e->prot != (PROT_READ | PROT_WRITE))
			fl_pager_mprotect(p, to, r->new_len, s->e->prot);
	} else if (s->e->prot & PROT_WRITE) {
		memcpy(to, s->addr, bytes);
	}
	if (!(r->flags & MREMAP_DONTUNMAP))
		pager_unmap(p, s->addr, r->old_len);
	else if (!file)
		memset(s->addr, 0, r->old_len);
	return to;
}

/*
 * The range is more than one piece: parts of an anonymous region were demoted
 * and may be one mapping to the kernel again. Demotes the rest.
 */
static int remap_join(struct fl_pager *p, struct seg *s, const struct remap *r)
{
	char *pos = r->addr, *end = pos + r->old_len;
	struct seg piece = *s;
	int ret;

	while (pos < end) {
		seg_get(p, pos, end, &piece);
		if (piece.kind == SEG_OUTSIDE || piece.arena != ARENA_ANON ||
		    piece.e != s->e)
			return -EFAULT;
		if (piece.kind == SEG_PRESENT) {
			ret = region_demote(p, &piece);
			if (ret == -EAGAIN)
				continue;
			if (ret < 0)
				return ret;
		} else if (!piece.demoted) {
			return -EFAULT;
		}
		pos += piece.len;
	}
	seg_get(p, r->addr, end, s);
	return s->len < r->old_len ? -EFAULT : 0;
}

static void *remap_present(struct fl_pager *p, struct seg *s,
			   const struct remap *r)
{
	if (!(r->flags & (MREMAP_FIXED | MREMAP_DONTUNMAP))) {
		if (r->new_len <= r->old_len) {
			if (r->new_len < r->old_len)
				pager_unmap(p, s->addr + r->new_len,
					    r->old_len - r->new_len);
			return s->addr;
		}
		if (s->arena == ARENA_ANON && grow_in_place(p, s, r))
			return s->addr;
	}
	if (!(r->flags & MREMAP_MAYMOVE))
		return err_ptr(-ENOMEM);
	return move_present(p, s, r);
}

/* The kernel moves a mapping of its own to a place in an arena. */
static void *remap_into(struct fl_pager *p, const struct remap *r)
{
	void *ret;

	if (region_claim(p, r->new_addr, r->new_len) < 0)
		return err_ptr(-ENOMEM);
	ret = kernel_remap(r);
	if (is_err(ret))
		region_unclaim(p, r->new_addr, r->new_len);
	return ret;
}

/*
 * A kernel mapping inside of an arena moves out: first to its new place at its
 * old length, leaving the old range mapped (empty), then it changes length.
 */
static void *remap_kernel(struct fl_pager *p, struct seg *s,
			  const struct remap *r)
{
	int flags = MREMAP_MAYMOVE | MREMAP_DONTUNMAP;
	char *at;

	if (r->flags & MREMAP_DONTUNMAP)
		return r->flags & MREMAP_FIXED && pager_touches(p, r->new_addr,
								r->new_len) ?
			       remap_into(p, r) :
			       kernel_remap(r);
	if (r->new_len <= r->old_len && !(r->flags & MREMAP_FIXED)) {
		if (r->new_len < r->old_len)
			pager_unmap(p, s->addr + r->new_len,
				    r->old_len - r->new_len);
		return s->addr;
	}
	if (!(r->flags & MREMAP_MAYMOVE))
		return err_ptr(-ENOMEM);
	if (r->flags & MREMAP_FIXED) {
		/* Clears the target, as MREMAP_FIXED does. */
		at = fl_pager_mmap(p, r->new_addr, r->new_len, PROT_NONE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED |
					   MAP_NORESERVE,
				   -1, 0);
		if (is_err(at))
			return at;
		flags |= MREMAP_FIXED;
	}
	at = sys_mremap(r->addr, r->old_len, r->old_len, flags, r->new_addr);
	if (is_err(at))
		return at;
	if (r->new_len != r->old_len) {
		char *grown;

		if (r->flags & MREMAP_FIXED && r->new_len > r->old_len)
			sys_munmap(at + r->old_len, r->new_len - r->old_len);
		grown = sys_mremap(at, r->old_len, r->new_len,
				   r->flags & MREMAP_FIXED ? 0 : MREMAP_MAYMOVE,
				   NULL);
		if (!is_err(grown))
			at = grown;
		else if (r->new_len > r->old_len)
			return grown;
	}
	pager_unmap(p, r->addr, r->old_len);
	return at;
}

void *fl_pager_mremap(struct fl_pager *p, void *addr, size_t old_len,
		      size_t new_len, int flags, void *new_addr)
{
	struct remap r = { addr, page_align_up(old_len), page_align_up(new_len),
			   flags, new_addr };
	size_t span = r.old_len ? r.old_len : FL_PAGE_SIZE;
	struct seg s;
	int ret;

	pager_settle(p);
	if ((range_valid(addr, span) && demand_hand_over(p, addr, span) < 0) ||
	    (flags & MREMAP_FIXED && range_valid(new_addr, r.new_len) &&
	     demand_hand_over(p, new_addr, r.new_len) < 0))
		return err_ptr(-ENOMEM);
	if (!range_valid(addr, span) || !pager_touches(p, addr, span)) {
		if (flags & MREMAP_FIXED &&
		    pager_touches(p, new_addr, r.new_len) &&
		    remap_check(&r) == 0)
			return remap_into(p, &r);
		return sys_mremap(addr, old_len, new_len, flags, new_addr);
	}
	ret = remap_check(&r);
	if (ret < 0)
		return err_ptr(ret);
	seg_get(p, r.addr, r.addr + span, &s);
	if (s.kind == SEG_OUTSIDE || s.kind == SEG_NONE)
		return err_ptr(-EFAULT);
	/* An old length of zero duplicates a shared mapping; ours are private
	 * copies, for which the kernel says EINVAL. */
	if (r.old_len == 0)
		return err_ptr(-EINVAL);
	if (s.len < r.old_len) {
		ret = remap_join(p, &s, &r);
		if (ret < 0)
			return err_ptr(ret);
	}
	return s.kind == SEG_KERNEL ? remap_kernel(p, &s, &r) :
				      remap_present(p, &s, &r);
}
