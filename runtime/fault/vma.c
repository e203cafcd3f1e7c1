// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * vma.c - see vma.h.
 *
 * TAKING A RANGE AWAY (unmapping, demotion):
 *   1. a map without it, or with it on HOLD, is published;
 *   2. filler_quiesce(): whoever was copying has ended, and whoever copies from
 *      now on looks at the new map: nothing more is filled there;
 *   3. PRESENT -> KERNEL, counted: nobody can begin to evict these any more;
 *   4. filler_quiesce(): evictions that had begun have ended;
 *   5. the kernel's mapping goes, or is replaced.
 * Fills that are in the middle of their I/O meet the new map afterwards and
 * give their pages up.
 *
 * The lock is held while a map is made and published, not in steps 2 to 5.
 */
#include "fault/vma.h"

#include <string.h>
#include <sys/mman.h>

#include "fault/ahead.h"
#include "fault/dirty.h"
#include "base/far.h"
#include "fault/fdtable.h"
#include "fault/frames.h"
#include "fault/mode.h"
#include "fault/uffd.h"
#include "base/ban.h"

struct vmas vmas = {
	.epoch = 1,
	.low = UINTPTR_MAX,
	.lock = FL_LOCK_INIT(LOCK_VMA),
};

/* ---------------------------------------------------------------------------
 * Looking
 */

const struct vseg *vma_next(const struct vmap *m, uintptr_t addr)
{
	size_t lo = 0, hi = m ? m->n : 0;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (m->seg[mid].end <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return m && lo < m->n ? &m->seg[lo] : NULL;
}

const struct vseg *vma_find(const struct vmap *m, uintptr_t addr)
{
	const struct vseg *s = vma_next(m, addr);

	return s && s->start <= addr ? s : NULL;
}

void vma_dropped(const char *addr, size_t len)
{
	uint64_t mask = sys_block_signals();
	uintptr_t end = (uintptr_t)addr + len;
	struct filler *f = filler_get();
	const struct vseg *s;

	vma_enter(f);
	s = vma_next(f->map, (uintptr_t)addr);
	for (; s && s < f->map->seg + f->map->n && s->start < end; s++)
		st_rlx(&s->v->dropped, true);
	vma_exit(f);
	filler_put(f);
	sys_restore_signals(mask);
}

bool vma_writable(const char *addr, size_t len)
{
	uint64_t mask = sys_block_signals();
	uintptr_t end = (uintptr_t)addr + len;
	struct filler *f = filler_get();
	const struct vseg *s;
	bool ret = false;

	vma_enter(f);
	s = vma_next(f->map, (uintptr_t)addr);
	for (; s && s < f->map->seg + f->map->n && s->start < end; s++)
		ret |= (s->v->prot & PROT_WRITE) != 0;
	vma_exit(f);
	filler_put(f);
	sys_restore_signals(mask);
	return ret;
}

/* ---------------------------------------------------------------------------
 * Maps
 */

static int init_locked(void)
{
	void *p;
	int ret;

	if (vmas.ids)
		return 0;
	ret = filler_init();
	if (ret < 0)
		return ret;
	p = far_map(VMA_IDS * sizeof(*vmas.ids));
	if (is_err(p))
		return (int)ptr_err(p);
	vmas.ids = p;
	return 0;
}

int vmas_init(void)
{
	int ret;

	lock_take(&vmas.lock);
	ret = init_locked();
	lock_drop(&vmas.lock);
	return ret;
}

static void vmap_free(struct retired *r)
{
	struct vmap *m = container_of(r, struct vmap, retired);

	sys_munmap(m, m->bytes);
}

static size_t used_bytes(size_t pages)
{
	return page_align_up((pages / VMA_GROUP / 64 + 1) *
			     sizeof(_Atomic(uint64_t)));
}

static int used_make(struct vma *v, size_t pages)
{
	void *p = v->used_few;

	if (pages > VMA_GROUP * 64 * (sizeof(v->used_few) / sizeof(uint64_t)))
		p = far_map(used_bytes(pages));
	if (is_err(p))
		return (int)ptr_err(p);
	v->used = p;
	return 0;
}

/* The memory of @v, but not that of the region. */
static void vma_unmake(struct vma *v)
{
	if (v->used && v->used != v->used_few)
		sys_munmap((void *)v->used, used_bytes(v->pages));
	sys_munmap(v, v->bytes);
}

static void vma_free(struct retired *r)
{
	struct vma *v = container_of(r, struct vma, retired);

	ahead_forget(v);
	store_destroy(&v->store);
	vma_unmake(v);
}

static struct vmap *vmap_alloc(size_t n)
{
	size_t bytes =
		page_align_up(sizeof(struct vmap) + n * sizeof(struct vseg));
	struct vmap *m = far_map(bytes);

	if (is_err(m))
		return NULL;
	m->bytes = bytes;
	m->retired.end = vmap_free;
	return m;
}

static bool vmap_fits(const struct vmap *m, size_t n)
{
	return n <= (m->bytes - sizeof(*m)) / sizeof(m->seg[0]);
}

/* What becomes of a range in a new map. */
enum edit {
	EDIT_REMOVE,
	EDIT_HOLD,
	EDIT_RELEASE,
};

static void put(struct vmap *m, uintptr_t start, uintptr_t end, struct vma *v,
		bool hold)
{
	if (start < end)
		m->seg[m->n++] = (struct vseg){ start, end, v, hold };
}

/* Pieces an edit can add. */
#define EDIT_MORE 3

/* A copy of @old with [start, end) edited, and @add put in; in *@spare if there
 * is one that fits, which is then NULL. */
static struct vmap *vmap_copy(const struct vmap *old, uintptr_t start,
			      uintptr_t end, enum edit how,
			      const struct vseg *add, struct vmap **spare)
{
	size_t n = old ? old->n : 0;
	struct vmap *m;

	if (spare && *spare && vmap_fits(*spare, n + EDIT_MORE)) {
		m = *spare;
		*spare = NULL;
	} else {
		m = vmap_alloc(n + EDIT_MORE);
	}
	if (!m)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		const struct vseg *s = &old->seg[i];
		uintptr_t a = s->start > start ? s->start : start;
		uintptr_t b = s->end < end ? s->end : end;

		if (add && s->start > add->start) {
			m->seg[m->n++] = *add;
			add = NULL;
		}
		if (a >= b) {
			m->seg[m->n++] = *s;
			continue;
		}
		put(m, s->start, a, s->v, s->hold);
		if (how != EDIT_REMOVE)
			put(m, a, b, s->v, how == EDIT_HOLD);
		put(m, b, s->end, s->v, s->hold);
	}
	if (add)
		m->seg[m->n++] = *add;
	return m;
}

/* Under the lock. The old map is the caller's to retire. */
static struct vmap *vmap_publish(struct vmap *m)
{
	struct vmap *old = ld_rlx(&vmas.map);

	/* [MO:vma-map] the segments, to vma_enter and filler_copying; before
	 * the marks are read in filler_quiesce. */
	st_sc(&vmas.map, m);
	/* [MO:vma-map] pairs with vma_enter: after the map. */
	st_sc(&vmas.epoch, ld_rlx(&vmas.epoch) + 1);
	return old;
}

/* Under the lock: to be freed when nobody looks at it any more. */
void vma_retire(struct retired *r)
{
	r->epoch = ld_rlx(&vmas.epoch);
	r->next = vmas.dead;
	vmas.dead = r;
}

void vma_reap(void)
{
	uint64_t old = sys_block_signals(), least;
	struct retired **link = &vmas.dead, *r, *done = NULL;

	lock_take(&vmas.lock);
	least = filler_epoch();
	while ((r = *link) != NULL) {
		if (r->epoch > least) {
			link = &r->next;
			continue;
		}
		*link = r->next;
		r->next = done;
		done = r;
	}
	lock_drop(&vmas.lock);
	while ((r = done) != NULL) {
		done = r->next;
		r->end(r);
	}
	sys_restore_signals(old);
}

/* ---------------------------------------------------------------------------
 * Making regions
 */

/* Under mlockall(MCL_FUTURE) the kernel fills new mappings with zeros, which
 * would never fault. */
static bool filled_at_once(void *addr)
{
	unsigned char vec = 0;

	return sys_mincore(addr, FL_PAGE_SIZE, &vec) < 0 || vec & 1;
}

int vma_register(void *at, size_t len, int prot, _Atomic(int) *uffd)
{
	unsigned int how = UABI_REGISTER_MISSING |
			   (prot & PROT_WRITE ? UABI_REGISTER_WP : 0);
	int fd, ret;

	do {
		fd = fd_get(uffd);
		ret = uffd_register(fd, at, len, how);
	} while (unlikely(!fd_still(uffd, fd)));
	if (ret < 0)
		return ret;
	if (filled_at_once(at))
		return -EOPNOTSUPP;
	/* Pages go one by one: a huge page would stay in memory as a whole. */
	sys_madvise(at, len, MADV_NOHUGEPAGE);
	sys_madvise(at, len, MADV_DONTFORK);
	sys_madvise(at, len, MADV_DONTDUMP);
	return 0;
}

int vma_create(struct vma **out, size_t pages, int prot, _Atomic(int) *uffd)
{
	size_t bytes, len = pages << FL_PAGE_SHIFT;
	struct vma *v;
	void *at;
	int ret;

	if (pages > SIZE_MAX / 2 / FL_PAGE_SIZE)
		return -ENOMEM;
	bytes = page_align_up(sizeof(*v) + pages * sizeof(v->pt[0]));
	at = sys_mmap(NULL, len, prot,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (is_err(at))
		return (int)ptr_err(at);
	v = far_map(bytes);
	ret = is_err(v) ? (int)ptr_err(v) : 0;
	if (ret < 0)
		goto out_mapping;
	/* Every fault reads the table; that of a large region would miss the
	 * TLB each time. */
	if (bytes >= FL_PAGE_SIZE << 9)
		sys_madvise(v, bytes, MADV_HUGEPAGE);
	v->pages = pages;
	v->bytes = bytes;
	ret = used_make(v, pages);
	if (ret == 0)
		ret = vma_register(at, len, prot, uffd);
	if (ret < 0)
		goto out_vma;
	v->start = at;
	v->prot = prot;
	v->uffd = uffd;
	v->retired.end = vma_free;
	lock_init(&v->pte_lock, LOCK_PTE);
	*out = v;
	return 0;
out_vma:
	vma_unmake(v);
out_mapping:
	sys_munmap(at, len);
	return ret;
}

void vma_discard(struct vma *v)
{
	sys_munmap(v->start, v->pages << FL_PAGE_SHIFT);
	vma_unmake(v);
}

/* Under the lock. */
static int id_take(struct vma *v)
{
	for (uint32_t k = 0; k < VMA_IDS; k++) {
		uint32_t id = (vmas.next_id + k) % VMA_IDS;

		if (ld_rlx(&vmas.ids[id]))
			continue;
		vmas.next_id = id + 1;
		v->id = id;
		v->serial = ++vmas.serial;
		/* [MO:vma-map] the region, to vma_by_id. */
		st_sc(&vmas.ids[id], v);
		return 0;
	}
	return -EMFILE;
}

int vma_insert(const struct vseg *s, bool first)
{
	struct vmap *m =
		vmap_copy(ld_rlx(&vmas.map), 0, 0, EDIT_REMOVE, s, NULL);
	struct vmap *old;
	int ret;

	if (!m)
		return -ENOMEM;
	ret = first ? id_take(s->v) : 0;
	if (ret < 0) {
		vmap_free(&m->retired);
		return ret;
	}
	s->v->segs++;
	if (s->start < ld_rlx(&vmas.low))
		st_rlx(&vmas.low, s->start);
	if (s->end > ld_rlx(&vmas.high))
		st_rlx(&vmas.high, s->end);
	old = vmap_publish(m);
	if (old)
		vma_retire(&old->retired);
	return 0;
}

int vma_publish(struct vma *v)
{
	uintptr_t start = (uintptr_t)v->start;
	struct vseg s = { start, start + (v->pages << FL_PAGE_SHIFT), v,
			  false };
	uint64_t mask = sys_block_signals();
	int ret;

	lock_take(&vmas.lock);
	ret = vma_insert(&s, true);
	lock_drop(&vmas.lock);
	sys_restore_signals(mask);
	vma_reap();
	return ret;
}

/* ---------------------------------------------------------------------------
 * Taking ranges away
 */

void vma_wake(struct vma *v, size_t page, size_t n)
{
	int fd;

	if (!v->kernel_waiters)
		return;
	do {
		fd = fd_get(v->uffd);
		uffd_wake(fd, vma_addr(v, page), n << FL_PAGE_SHIFT);
	} while (unlikely(!fd_still(v->uffd, fd)));
}

void vma_each_used(struct vma *v, size_t page, size_t end,
		   void (*fn)(struct vma *v, size_t page, size_t end,
			      void *arg),
		   void *arg)
{
	while (page < end) {
		size_t g = page / VMA_GROUP, stop;
		uint64_t word = ld_rlx(&v->used[g / 64]);

		if (!word) /* none of 64 groups */
			g |= 63;
		stop = (g + 1) * VMA_GROUP < end ? (g + 1) * VMA_GROUP : end;
		if (word >> g % 64 & 1)
			fn(v, page, stop, arg);
		page = stop;
	}
}

/* PRESENT -> KERNEL; *arg, an uint64_t, counts them. */
static void take_present(struct vma *v, size_t page, size_t end, void *arg)
{
	uint64_t *n = arg;

	for (; page < end; page++) {
		struct pte_slot *slot = &v->pt[page];
		pte_t e = ptep_get_rlx(slot);

		while (pte_present(e))
			if (ptep_cmpxchg(&v->pte_lock, slot, &e,
					 pte_mk_state(PTE_KERNEL, 0))) {
				++*n;
				break;
			}
	}
}

/* Each piece of a region in a range of a map. */
#define for_each_piece(s, m, lo, hi)                 \
	for (const struct vseg *s = vma_next(m, lo); \
	     s && s < (m)->seg + (m)->n && s->start < (hi); s++)

static uintptr_t piece_start(const struct vseg *s, uintptr_t lo)
{
	return s->start > lo ? s->start : lo;
}

static uintptr_t piece_end(const struct vseg *s, uintptr_t hi)
{
	return s->end < hi ? s->end : hi;
}

/* Steps 2 to 4. @m: the map from before. */
static void empty(const struct vmap *m, uintptr_t lo, uintptr_t hi)
{
	filler_quiesce();
	for_each_piece(s, m, lo, hi)
	{
		struct vma *v = s->v;
		size_t a = vma_page(v, (char *)piece_start(s, lo));
		size_t b = vma_page(v, (char *)piece_end(s, hi));

		uint64_t n = 0;

		vma_each_used(v, a, b, take_present, &n);
		frames_uncharge(v->frames, n);
	}
	filler_quiesce();
}

/* Under the lock: the pieces are out of the map; their regions may be, too. */
static void forget(const struct vmap *m, uintptr_t lo, uintptr_t hi)
{
	for_each_piece(s, m, lo, hi)
	{
		struct vma *v = s->v;

		if (--v->segs)
			continue;
		/* [MO:vma-map] pairs with vma_by_id: evictors do not find it
		 * any more; those that have are in a read section, which began
		 * before the count that comes next. */
		st_sc(&vmas.ids[v->id], (struct vma *)NULL);
		st_sc(&vmas.epoch, ld_rlx(&vmas.epoch) + 1);
		vma_retire(&v->retired);
	}
}

/* Publishes an edited map. *old: the one from before, not retired; NULL if the
 * range touches no region. 0 or -ENOMEM. */
static int edit(uintptr_t lo, uintptr_t hi, enum edit how, struct vmap **old,
		struct vmap **spare)
{
	struct vmap *cur = ld_rlx(&vmas.map), *m;
	const struct vseg *s = vma_next(cur, lo);

	*old = NULL;
	if (!s || s->start >= hi)
		return 0;
	m = vmap_copy(cur, lo, hi, how, NULL, spare);
	if (!m)
		return -ENOMEM;
	/* What is cut off is a segment more, on hold or not. */
	for_each_piece(t, cur, lo, hi)
		t->v->segs += (t->start < lo) + (t->end > hi);
	*old = vmap_publish(m);
	return 0;
}

/*
 * The lock, with none of the range on hold. Whoever has it on hold is about to
 * put a mapping there, and would put it over what the program maps once the
 * range is free.
 */
static void lock_range(uintptr_t lo, uintptr_t hi)
{
	bool busy = true;

	while (busy) {
		const struct vmap *m;

		lock_take(&vmas.lock);
		m = ld_rlx(&vmas.map);
		busy = false;
		for_each_piece(s, m, lo, hi) busy |= s->hold;
		if (busy) {
			lock_drop(&vmas.lock);
			sys_sched_yield();
		}
	}
}

static void finish(struct vmap *old, uintptr_t lo, uintptr_t hi)
{
	lock_take(&vmas.lock);
	forget(old, lo, hi);
	vma_retire(&old->retired);
	lock_drop(&vmas.lock);
}

int vma_unmap(char *addr, size_t len)
{
	uintptr_t lo = (uintptr_t)addr, hi = lo + len;
	uint64_t mask = sys_block_signals();
	struct vmap *old = NULL;
	long ret = dirty_sync(addr, len);

	if (ret < 0)
		goto out; /* nothing is lost */
	lock_range(lo, hi);
	ret = edit(lo, hi, EDIT_REMOVE, &old, NULL);
	lock_drop(&vmas.lock);
	if (old)
		empty(old, lo, hi);
	if (ret == 0)
		ret = sys_munmap(addr, len);
	if (old) {
		for_each_piece(s, old, lo, hi)
		{
			uintptr_t a = piece_start(s, lo), b = piece_end(s, hi);

			vma_wake(s->v, vma_page(s->v, (char *)a),
				 (b - a) >> FL_PAGE_SHIFT);
		}
		finish(old, lo, hi);
	}
out:
	sys_restore_signals(mask);
	if (old)
		vma_reap();
	return (int)ret;
}

/* ---------------------------------------------------------------------------
 * Demotion
 */

long vma_map_file(const struct vseg *s, uintptr_t a, uintptr_t b)
{
	struct vma *v = s->v;
	uint64_t off = v->off + (a - (uintptr_t)v->start);
	int how = v->prot & PROT_WRITE ? MAP_SHARED : MAP_PRIVATE, fd;
	void *at;

	do {
		fd = fd_get(&v->store.fd);
		at = sys_mmap((void *)a, b - a, v->prot, how | MAP_FIXED, fd,
			      (int64_t)off);
	} while (unlikely(!fd_still(&v->store.fd, fd)));
	return is_err(at) ? ptr_err(at) : 0;
}

static bool only_files(uintptr_t lo, uintptr_t hi)
{
	const struct vmap *m = ld_rlx(&vmas.map);

	for_each_piece(s, m, lo,
		       hi) if (s->v->store.kind != STORE_FILE) return false;
	return true;
}

/* The kernel refused: what was present is read again. */
static void revive(const struct vmap *m, uintptr_t lo, uintptr_t hi)
{
	for_each_piece(s, m, lo, hi)
	{
		struct vma *v = s->v;
		uintptr_t a = piece_start(s, lo), b = piece_end(s, hi);

		sys_madvise((void *)a, b - a, MADV_DONTNEED);
		for (; a < b; a += FL_PAGE_SIZE) {
			struct pte_slot *slot = &v->pt[vma_page(v, (char *)a)];

			if (pte_state(ptep_get_rlx(slot)) == PTE_KERNEL)
				ptep_set(&v->pte_lock, slot, (pte_t){ 0 });
		}
	}
}

/* Pages that raise SIGBUS; where that cannot be had, SIGSEGV. */
static int map_bus(uintptr_t a, uintptr_t b, int prot)
{
	void *at;
	int fd;

	do {
		fd = fd_get(&delivery_empty);
		if (fd < 0)
			return (int)sys_mprotect((void *)a, b - a, PROT_NONE);
		at = sys_mmap((void *)a, b - a, prot, MAP_PRIVATE | MAP_FIXED,
			      fd, 0);
	} while (unlikely(!fd_still(&delivery_empty, fd)));
	return is_err(at) ? (int)ptr_err(at) : 0;
}

/* With the range on hold. 0 or -errno; then no piece was replaced. */
static long replace(const struct vmap *m, uintptr_t lo, uintptr_t hi)
{
	long ret = 0;

	for_each_piece(s, m, lo, hi)
	{
		uintptr_t a = piece_start(s, lo), b = piece_end(s, hi);

		ret = s->v->store.kind == STORE_FILE ?
			      vma_map_file(s, a, b) :
			      map_bus(a, b, s->v->prot);
		if (ret < 0)
			break;
		vma_wake(s->v, vma_page(s->v, (char *)a),
			 (b - a) >> FL_PAGE_SHIFT);
		lo = b;
	}
	return ret;
}

/* Puts the range on hold, under the lock. *held: the map from before; *spare:
 * memory for the one that ends it, which must not fail. */
static int hold(uintptr_t lo, uintptr_t hi, struct vmap **held,
		struct vmap **spare)
{
	const struct vmap *cur = ld_rlx(&vmas.map);
	int ret;

	*spare = vmap_alloc((cur ? cur->n : 0) + 64);
	ret = *spare ? edit(lo, hi, EDIT_HOLD, held, NULL) : -ENOMEM;
	return ret;
}

static void unhold(uintptr_t lo, uintptr_t hi, struct vmap *held, bool keep,
		   struct vmap **spare)
{
	enum edit how = keep ? EDIT_RELEASE : EDIT_REMOVE;
	struct vmap *old;

	lock_take(&vmas.lock);
	while (edit(lo, hi, how, &old, spare) < 0)
		sys_sched_yield(); /* many were mapped meanwhile */
	if (old) {
		if (!keep)
			forget(old, lo, hi);
		vma_retire(&old->retired);
	}
	vma_retire(&held->retired);
	lock_drop(&vmas.lock);
}

/* What hold() has begun. @sync: dirty pages are written first, or nothing is
 * done. */
static int swap_held(uintptr_t lo, uintptr_t hi, bool sync, struct vmap *held,
		     struct vmap *spare)
{
	long ret = 0;

	if (held) {
		/* On hold nothing that is clean becomes dirty any more, once
		 * those have ended that have not seen it. */
		if (sync) {
			filler_quiesce();
			ret = dirty_sync((char *)lo, hi - lo);
		}
		if (ret == 0) {
			empty(held, lo, hi);
			ret = replace(held, lo, hi);
			if (ret < 0)
				revive(held, lo, hi);
		}
		unhold(lo, hi, held, ret < 0, &spare);
	}
	if (spare)
		vmap_free(&spare->retired);
	return (int)ret;
}

int vma_demote(char *addr, size_t len)
{
	uintptr_t lo = (uintptr_t)addr, hi = lo + len;
	uint64_t mask = sys_block_signals();
	struct vmap *held = NULL, *spare = NULL;
	int ret;

	lock_range(lo, hi);
	ret = only_files(lo, hi) ? hold(lo, hi, &held, &spare) : -EOPNOTSUPP;
	lock_drop(&vmas.lock);
	if (ret == 0)
		ret = swap_held(lo, hi, true, held, spare);
	sys_restore_signals(mask);
	vma_reap();
	return ret;
}

/* Only a mapping of the kernel's that can be had without writing first. */
static bool plain_file(const struct vma *v)
{
	return v->store.kind == STORE_FILE && !(v->prot & PROT_WRITE);
}

static bool claimed(const struct vseg *s, uintptr_t addr)
{
	size_t page = vma_page(s->v, (char *)addr);

	return pte_state(ptep_get(&s->v->pt[page])) == PTE_BUSY;
}

/* What of the segment goes with the page at *lo. */
static void abandoned(const struct vseg *s, uintptr_t *lo, uintptr_t *hi,
		      size_t n)
{
	*hi = *lo;
	while (*hi < s->end && n-- > 0 && claimed(s, *hi))
		*hi += FL_PAGE_SIZE;
	if (*hi > *lo && plain_file(s->v)) {
		*lo = s->start;
		*hi = s->end;
	}
}

bool vma_abandon(char *addr, const struct vma *v, bool files, size_t n)
{
	uint64_t mask = sys_block_signals();
	struct vmap *held = NULL, *spare = NULL;
	uintptr_t lo = (uintptr_t)addr, hi = 0;
	const struct vseg *s;
	int ret = -ESRCH;

	lock_take(&vmas.lock);
	s = vma_find(ld_rlx(&vmas.map), lo);
	if (s && s->v == v && !s->hold && (!files || plain_file(v))) {
		abandoned(s, &lo, &hi, n);
		ret = lo < hi ? hold(lo, hi, &held, &spare) : -ESRCH;
	}
	lock_drop(&vmas.lock);
	if (ret == 0)
		ret = swap_held(lo, hi, false, held, spare);
	sys_restore_signals(mask);
	vma_reap();
	return ret == 0;
}

/* The next segment of regions of @uffd above *@lo. */
static bool abandon_next(const _Atomic(int) *uffd, uintptr_t *lo)
{
	struct vmap *held = NULL, *spare = NULL;
	const struct vmap *m;
	uintptr_t hi = 0;
	int ret = -ESRCH;

	lock_take(&vmas.lock);
	m = ld_rlx(&vmas.map);
	for_each_piece(s, m, *lo, UINTPTR_MAX)
	{
		if (s->v->uffd != uffd || s->hold)
			continue;
		*lo = s->start;
		hi = s->end;
		ret = hold(*lo, hi, &held, &spare);
		break;
	}
	lock_drop(&vmas.lock);
	if (ret == 0)
		swap_held(*lo, hi, false, held, spare);
	*lo = hi;
	return hi != 0;
}

void vma_abandon_all(const _Atomic(int) *uffd)
{
	uintptr_t low = ld_rlx(&vmas.low), high = ld_rlx(&vmas.high), pos = 0;
	uint64_t mask;

	if (low < high)
		dirty_salvage((char *)low, high - low);
	mask = sys_block_signals();
	while (abandon_next(uffd, &pos))
		;
	sys_restore_signals(mask);
	vma_reap();
}

int vma_bus_page(struct vma *v, size_t page)
{
	uintptr_t a = (uintptr_t)vma_addr(v, page);

	return map_bus(a, a + FL_PAGE_SIZE, v->prot);
}
