// SPDX-License-Identifier: LGPL-2.1-or-later
/* dirty.c - see dirty.h. */
#include "fault/dirty.h"

#include <string.h>
#include <sys/mman.h>

#include "base/sys.h"
#include "fault/entry.h"
#include "fault/fdtable.h"
#include "fault/frames.h"
#include "fault/uffd.h"
#include "base/ban.h"

static int protect(struct vma *v, size_t page, size_t n, bool on)
{
	int fd, ret;

	do {
		fd = fd_get(v->uffd);
		ret = uffd_wp(fd, vma_addr(v, page), n << FL_PAGE_SHIFT, on);
	} while (unlikely(!fd_still(v->uffd, fd)));
	return ret;
}

/* In a copying section: are the pages the region's still? */
static bool ours(const struct vmap *m, const struct vma *v, size_t page,
		 size_t n)
{
	uintptr_t a = (uintptr_t)vma_addr(v, page);
	const struct vseg *s = vma_find(m, a);

	return s && s->v == v && s->end - a >= n << FL_PAGE_SHIFT;
}

/*
 * Program memory that is write-protected: the kernel has put every store to it
 * before, or lets it wait. ThreadSanitizer does not know of that.
 */
#if FL_TSAN
#define UNSEEN __attribute__((no_sanitize("thread"), noinline))
#else
#define UNSEEN
#endif
UNSEEN static void copy_out(void *to, const void *from, size_t len)
{
#if FL_TSAN
	const volatile uint64_t *src = from;
	volatile uint64_t *dst = to;

	for (size_t i = 0; i < len / sizeof(*src); i++)
		dst[i] = src[i];
#else
	memcpy(to, from, len);
#endif
}

long dirty_write(struct filler *f, struct vma *v, size_t page, size_t n)
{
	size_t len = n << FL_PAGE_SHIFT;
	uint64_t off = v->off + ((uint64_t)page << FL_PAGE_SHIFT);
	long ret = -ECANCELED;

	if (ours(filler_copying(f), v, page, n)) {
		ret = protect(v, page, n, true);
		if (ret == 0)
			copy_out(f->buf, vma_addr(v, page), len);
	}
	filler_copied(f);
	if (ret < 0)
		return ret;
	/* Not past the end of a file that ends within the last page. */
	if (v->store.kind == STORE_FILE && off + len > v->bytes_end)
		len = v->bytes_end > off ? (size_t)(v->bytes_end - off) : 0;
	if (len == 0)
		return 0;
	ret = store_write(&v->store, f->buf, len, off);
	if (ret < 0)
		return ret;
	stat_count(v->frames->stats, STAT_demand_written_bytes, len);
	return 0;
}

static pte_t dirty_entry(size_t page)
{
	return pte_mkdirty(pte_mk_present(page, PTE_R | PTE_W));
}

/* In a copying section: an entry claimed from a present page, whose region may
 * have been taken away meanwhile. */
static void restore(const struct vmap *m, struct vma *v, size_t page, pte_t to)
{
	if (likely(ours(m, v, page, 1))) {
		fault_settle(v, page, to);
		return;
	}
	fault_settle(v, page, (pte_t){ 0 });
	frames_uncharge(v->frames, 1);
}

void dirty_restore(struct filler *f, struct vma *v, size_t page, size_t n,
		   bool dirty)
{
	const struct vmap *m = filler_copying(f);

	for (size_t i = page; i < page + n; i++)
		restore(m, v, i,
			dirty ? dirty_entry(i) : pte_mk_present(i, PTE_R));
	filler_copied(f);
}

void dirty_allow(struct filler *f, struct vma *v, size_t page)
{
	const struct vmap *m = filler_copying(f);
	const struct vseg *s = vma_find(m, (uintptr_t)vma_addr(v, page));
	bool ok = s && s->v == v && !s->hold && protect(v, page, 1, false) == 0;

	restore(m, v, page,
		ok ? dirty_entry(page) : pte_mk_present(page, PTE_R));
	filler_copied(f);
}

/* PRESENT and dirty -> BUSY. */
static bool claim(struct vma *v, size_t page)
{
	struct pte_slot *slot = &v->pt[page];
	pte_t e = ptep_get(slot);

	return pte_present(e) && pte_dirty(e) &&
	       ptep_cmpxchg(&v->pte_lock, slot, &e, pte_mk_state(PTE_BUSY, 0));
}

/* Is the page being written, or still to be? */
static bool must_wait(struct vma *v, size_t page)
{
	pte_t e = ptep_get(&v->pt[page]);

	return pte_state(e) == PTE_BUSY || (pte_present(e) && pte_dirty(e));
}

/* A run of dirty pages from @page on, not past @end. Returns the page after it;
 * *err is set if there was an error and none before. */
static size_t clean_run(struct filler *f, struct vma *v, size_t page,
			size_t end, long *err)
{
	size_t most = filler_room(f), n = 0;
	long ret;

	while (n < most && page + n < end && claim(v, page + n))
		n++;
	if (n == 0) /* or has an evictor been faster? */
		return must_wait(v, page) ? page : page + 1;
	ret = dirty_write(f, v, page, n);
	dirty_restore(f, v, page, n, ret < 0);
	if (ret < 0 && ret != -ECANCELED && *err == 0)
		*err = ret;
	return page + n;
}

struct sync {
	struct filler *f;
	long err;
	bool hurry; /* wait for nobody */
};

static void sync_pages(struct vma *v, size_t page, size_t end, void *arg)
{
	struct sync *s = arg;

	while (page < end) {
		/* BUSY: being filled, which makes it clean, or written. */
		while (!s->hurry &&
		       pte_state(ptep_get(&v->pt[page])) == PTE_BUSY)
			fault_wait(v, page);
		page = clean_run(s->f, v, page, end, &s->err);
	}
}

static long sync_range(char *addr, size_t len, bool hurry)
{
	uintptr_t pos = (uintptr_t)addr, end = pos + len;
	struct sync sync = { .hurry = hurry };
	const struct vseg *s;
	uint64_t mask;

	if (!vma_near(addr, len))
		return 0;
	mask = sys_block_signals();
	sync.f = filler_get();
	vma_enter(sync.f);
	while (pos < end && (s = vma_next(sync.f->map, pos)) != NULL &&
	       s->start < end) {
		uintptr_t a = s->start > pos ? s->start : pos;
		uintptr_t b = s->end < end ? s->end : end;

		if (s->v->prot & PROT_WRITE)
			vma_each_used(s->v, vma_page(s->v, (char *)a),
				      vma_page(s->v, (char *)b), sync_pages,
				      &sync);
		pos = b;
	}
	vma_exit(sync.f);
	filler_put(sync.f);
	sys_restore_signals(mask);
	return sync.err;
}

long dirty_sync(char *addr, size_t len)
{
	return sync_range(addr, len, false);
}

void dirty_salvage(char *addr, size_t len)
{
	sync_range(addr, len, true);
}

long dirty_flush(char *addr, size_t len)
{
	uintptr_t pos = (uintptr_t)addr, end = pos + len;
	long ret = dirty_sync(addr, len), err;
	const struct vseg *s;
	struct filler *f;
	uint64_t mask;

	if (!vma_near(addr, len))
		return ret;
	mask = sys_block_signals();
	f = filler_get();
	vma_enter(f);
	while ((s = vma_next(f->map, pos)) != NULL && s->start < end) {
		err = s->v->prot & PROT_WRITE ? store_flush(&s->v->store) : 0;
		if (err < 0 && ret == 0)
			ret = err;
		pos = s->end;
	}
	vma_exit(f);
	filler_put(f);
	sys_restore_signals(mask);
	return ret;
}
