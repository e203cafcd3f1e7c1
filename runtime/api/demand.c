// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * demand.c - demand regions as a program sees them: making them, reading ahead,
 * advice, errors. What happens at a fault is fault/fill.c.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "api/pager.h"
#include "base/sys.h"
#include "fault/dirty.h"
#include "fault/fault.h"
#include "fault/fdtable.h"
#include "fault/mode.h"
#include "base/ban.h"

/* Newer than Debian 12's headers. */
#ifndef MADV_COLD
#define MADV_COLD 20
#define MADV_PAGEOUT 21
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

/* ---------------------------------------------------------------------------
 * Getting ready
 */

static enum io_engine engine_of(const struct conf *c)
{
	static const uint8_t engine[] = {
		[CONF_ENGINE_AUTO] = IO_AUTO,
		[CONF_ENGINE_PREAD] = IO_PREAD,
		[CONF_ENGINE_IO_URING] = IO_URING,
		[CONF_ENGINE_AIO] = IO_AIO,
	};

	return (enum io_engine)engine[c->engine];
}

/* Demand regions evict for themselves, so they may use all of the budget; those
 * of a program that does not know of it leave room for what the arenas keep. */
static uint64_t frames_bytes(const struct fl_pager *p)
{
	uint64_t bytes = p->budget.high;

	if (!p->demand.preload)
		return p->conf.mem;
	return bytes - (p->budget.low < bytes ? p->budget.low : bytes);
}

static int make_ready(struct fl_pager *p)
{
	struct demand *d = &p->demand;
	uint64_t bytes;
	int ret;

	io_fd_reserve = fd_reserve;
	io_fd_release = fd_release;
	ret = vmas_init();
	if (ret < 0)
		return ret;
	d->delivery = delivery_open((enum conf_fault)p->conf.fault, d->preload);
	if (d->delivery < 0)
		return d->delivery;
	bytes = frames_bytes(p);
	ret = frames_init(&d->frames, &p->budget, &p->stats,
			  bytes >> FL_PAGE_SHIFT, bytes,
			  (uint32_t)(p->conf.granule >> FL_PAGE_SHIFT),
			  engine_of(&p->conf));
	if (ret < 0)
		return ret;
	ret = delivery_start((enum delivery)d->delivery,
			     p->conf.service_threads);
	if (ret < 0)
		frames_destroy(&d->frames);
	return ret;
}

static int demand_ready(struct fl_pager *p)
{
	struct demand *d = &p->demand;
	uint64_t mask;
	int ret = 0;

	/* [MO:demand-ready] pairs with the store below. */
	if (likely(ld_acq(&d->ready)))
		return 0;
	mask = sys_block_signals();
	lock_take(&d->lock);
	if (!ld_rlx(&d->ready)) {
		ret = make_ready(p);
		st_rlx(&d->refused, ret == -ENOTSUP);
		/* [MO:demand-ready] all of it, to the load above. */
		if (ret == 0)
			st_rel(&d->ready, 1u);
	}
	lock_drop(&d->lock);
	sys_restore_signals(mask);
	return ret;
}

int fl_pager_preload(struct fl_pager *p)
{
	int d;

	p->demand.preload = true;
	if (p->conf.large == CONF_LARGE_KERNEL)
		return 0;
	if (p->conf.fault == CONF_FAULT_OFF) {
		st_rlx(&p->demand.refused, true);
		return 0;
	}
	d = delivery_open((enum conf_fault)p->conf.fault, true);
	st_rlx(&p->demand.refused, d == -ENOTSUP);
	return d < 0 ? d : 0;
}

/* Regions of stores that are no files are served on, in the way they were. */
static bool serve_on(struct fl_pager *p)
{
	struct demand *d = &p->demand;
	int to;

	if (!vma_fork_owns(&d->frames))
		return false;
	to = delivery_open((enum conf_fault)p->conf.fault, d->preload);
	if (to < 0 ||
	    delivery_start((enum delivery)to, p->conf.service_threads) < 0)
		return false;
	d->delivery = to;
	vma_fork_adopt(&d->frames, delivery_uffd((enum delivery)to),
		       delivery_sleeps((enum delivery)to));
	return true;
}

/* The regions are its parent's; so were the descriptors. */
void demand_fork_child(struct fl_pager *p)
{
	lock_init(&p->demand.lock, LOCK_DEMAND);
	st_rlx(&p->demand.refused, false);
	if (!ld_rlx(&p->demand.ready))
		return;
	frames_fork_child(&p->demand.frames);
	if (serve_on(p))
		return;
	frames_destroy(&p->demand.frames);
	st_rlx(&p->demand.ready, 0u);
}

bool demand_live(const struct fl_pager *p)
{
	uint64_t mask = sys_block_signals();
	struct filler *f;
	bool live = false;

	if (!ld_rlx(&p->demand.ready))
		goto out;
	f = filler_get();
	vma_enter(f);
	for (size_t i = 0; f->map && i < f->map->n; i++)
		live |= f->map->seg[i].v->frames == &p->demand.frames;
	vma_exit(f);
	filler_put(f);
out:
	sys_restore_signals(mask);
	return live;
}

void demand_destroy(struct fl_pager *p)
{
	vma_reap();
	if (ld_rlx(&p->demand.ready))
		frames_destroy(&p->demand.frames);
}

/* ---------------------------------------------------------------------------
 * Making regions
 */

/* Publishes a region whose store is ready. */
static void *publish(struct fl_pager *p, struct vma *v, unsigned int flags)
{
	int ret;

	if (flags & FL_REGION_RANDOM)
		st_rlx(&v->advice, (uint32_t)VMA_RANDOM);
	else if (flags & FL_REGION_SEQUENTIAL)
		st_rlx(&v->advice, (uint32_t)VMA_SEQUENTIAL);
	ret = vma_publish(v);
	if (ret < 0) {
		/* A user's store has not been used. */
		if (v->store.kind == STORE_FILE)
			store_destroy(&v->store);
		vma_discard(v);
		return err_ptr(ret);
	}
	stat_inc(&p->stats, STAT_demand_maps);
	return v->start;
}

static int begin(struct fl_pager *p, uint64_t off, size_t len, int prot,
		 struct vma **v)
{
	enum delivery d;
	int ret = demand_ready(p);

	if (ret < 0)
		return ret;
	if (prot & PROT_WRITE && !delivery_writes())
		return -ENOTSUP;
	d = (enum delivery)p->demand.delivery;
	if (!delivery_works(d))
		return -ENOTSUP;
	ret = vma_create(v, page_align_up(len) >> FL_PAGE_SHIFT, prot,
			 delivery_uffd(d));
	if (ret < 0)
		return ret == -EOPNOTSUPP ? -ENOTSUP : ret;
	(*v)->off = off;
	(*v)->frames = &p->demand.frames;
	(*v)->kernel_waiters = delivery_sleeps(d);
	return 0;
}

static int check(uint64_t off, size_t len, int prot, unsigned int flags)
{
	unsigned int known = FL_REGION_RANDOM | FL_REGION_SEQUENTIAL;

	if (len == 0 || len > USER_MAX || !page_aligned((uintptr_t)off) ||
	    off > INT64_MAX - len || flags & ~known ||
	    (prot != PROT_READ && prot != (PROT_READ | PROT_WRITE)))
		return -EINVAL;
	return 0;
}

static int check_file(int fd, int prot)
{
	long fl = sys_fcntl(fd, F_GETFL, 0);
	struct sys_stat st;

	if (fl < 0)
		return (int)fl;
	if (fl & O_PATH)
		return -EBADF;
	if ((fl & O_ACCMODE) == O_WRONLY ||
	    (prot & PROT_WRITE && (fl & O_ACCMODE) != O_RDWR))
		return -EACCES;
	if (sys_fstat(fd, &st) < 0 || !S_ISREG(st.mode))
		return -ENODEV;
	return 0;
}

static enum store_direct direct_of(const struct fl_pager *p)
{
	if (p->conf.direct == CONF_DIRECT_AUTO)
		return p->demand.preload ? STORE_DIRECT_NO : STORE_DIRECT_YES;
	return p->conf.direct == CONF_DIRECT_YES ? STORE_DIRECT_YES :
						   STORE_DIRECT_NO;
}

static void *map_file(struct fl_pager *p, int fd, uint64_t off, size_t len,
		      int prot, unsigned int flags, bool mmapped)
{
	struct vma *v;
	int ret = begin(p, off, len, prot, &v);

	if (ret < 0)
		return err_ptr(ret);
	ret = store_file_init(&v->store, fd, (int)direct_of(p));
	if (ret < 0) {
		vma_discard(v);
		return err_ptr(ret);
	}
	if (prot & PROT_WRITE)
		v->bytes_end = (uint64_t)store_size(&v->store);
	v->eof_zero = p->conf.eof == CONF_EOF_ZERO;
	v->mmapped = mmapped;
	/* Through the page cache, the kernel reads ahead of a sequential
	 * reader while this thread fills; nobody else does. */
	if (mmapped)
		store_advise(&v->store, POSIX_FADV_NORMAL);
	st_rlx(&v->yields,
	       mmapped && p->conf.large == CONF_LARGE_AUTO && !v->eof_zero);
	return publish(p, v, flags);
}

void *demand_map(struct fl_pager *p, int fd, int64_t off, size_t len, int prot)
{
	void *ret = map_file(p, fd, (uint64_t)off, len, prot, 0, true);

	return is_err(ret) ? NULL : ret;
}

void *fl_region_map_file(struct fl_pager *p, int fd, off_t off, size_t len,
			 int prot, unsigned int flags)
{
	int ret = off < 0 ? -EINVAL : check((uint64_t)off, len, prot, flags);

	if (ret == 0)
		ret = check_file(fd, prot);
	if (ret < 0)
		return err_ptr(ret);
	pager_settle(p);
	return map_file(p, fd, (uint64_t)off, len, prot, flags, false);
}

static ssize_t read_zeros(void *store, void *buf, size_t len, uint64_t off)
{
	(void)store;
	(void)off;
	memset(buf, 0, len);
	return (ssize_t)len;
}

const struct fl_store_ops *fl_store_zero(void)
{
	static const struct fl_store_ops ops = {
		.size = sizeof(ops),
		.read = read_zeros,
	};

	return &ops;
}

void *fl_region_map(struct fl_pager *p, const struct fl_store_ops *ops,
		    void *store, uint64_t off, size_t len, int prot,
		    unsigned int flags)
{
	int ret = ops ? check(off, len, prot, flags) : -EINVAL;
	struct vma *v;

	if (ret < 0)
		return err_ptr(ret);
	pager_settle(p);
	ret = begin(p, off, len, prot, &v);
	if (ret < 0)
		return err_ptr(ret);
	ret = store_user_init(&v->store, ops, store);
	if (ret == 0 && prot & PROT_WRITE && !store_writable(&v->store))
		ret = -EACCES;
	if (ret < 0) {
		vma_discard(v);
		return err_ptr(ret);
	}
	return publish(p, v, flags);
}

/* ---------------------------------------------------------------------------
 * The rest
 */

int fl_prefetch(struct fl_pager *p, const void *addr, size_t len)
{
	(void)p;
	if (len > USER_MAX || (uintptr_t)addr > USER_MAX - len)
		return -EINVAL;
	return (int)fault_touch(addr, len, false);
}

int fl_region_error(struct fl_pager *p, const void *addr)
{
	const struct vseg *s;
	struct filler *f;
	uint64_t mask;
	int ret = -EFAULT;
	pte_t e;

	(void)p;
	if (!vma_near(addr, 1))
		return -EFAULT;
	mask = sys_block_signals();
	f = filler_get();
	vma_enter(f);
	s = vma_find(f->map, (uintptr_t)addr);
	if (s) {
		e = ptep_get(&s->v->pt[vma_page(s->v, addr)]);
		ret = pte_state(e) == PTE_POISON ? (int)pte_payload(e) : 0;
	}
	vma_exit(f);
	filler_put(f);
	sys_restore_signals(mask);
	return ret;
}

int demand_hand_over(struct fl_pager *p, const void *addr, size_t len)
{
	int ret;

	if (likely(!vma_near(addr, len)))
		return 0;
	ret = vma_demote((char *)(uintptr_t)addr, page_align_up(len));
	if (ret == 0)
		stat_inc(&p->stats, STAT_demand_demoted);
	return ret < 0 ? -ENOMEM : 0;
}

/* A hint for all segments of the range. */
static void advise_all(char *addr, size_t len, enum vma_advice advice)
{
	uint64_t mask = sys_block_signals();
	struct filler *f = filler_get();
	const struct vseg *s;

	vma_enter(f);
	s = vma_next(f->map, (uintptr_t)addr);
	for (; s && s < f->map->seg + f->map->n &&
	       s->start < (uintptr_t)addr + len;
	     s++)
		st_rlx(&s->v->advice, (uint32_t)advice);
	vma_exit(f);
	filler_put(f);
	sys_restore_signals(mask);
}

/* WILLNEED is answered when it is there; as much as a fill may be large, since
 * the program does not wait for more from madvise(2) either. */
static void will_need(struct fl_pager *p, const char *addr, size_t len)
{
	size_t most = (size_t)p->demand.frames.granule << FL_PAGE_SHIFT;

	fault_touch(addr, len < most ? len : most, false);
}

/* Of a mapping of a file nothing that was written is lost. */
static long drop(char *addr, size_t len)
{
	long ret = dirty_sync(addr, len);

	/* A write since then is the program's race, as with the kernel's
	 * mappings it is not: so writable pages stay. */
	if (ret < 0 || vma_writable(addr, len))
		return ret;
	vma_dropped(addr, len);
	return sys_madvise(addr, len, MADV_DONTNEED);
}

long demand_sync(char *addr, size_t len, int flags)
{
	return flags & MS_SYNC ? dirty_flush(addr, len) : dirty_sync(addr, len);
}

/* How much of [addr, addr + len) is in regions, or how much is not, up to where
 * that changes. */
static size_t piece(char *addr, size_t len, bool *region)
{
	uintptr_t pos = (uintptr_t)addr, end = pos + len;
	uint64_t mask = sys_block_signals();
	struct filler *f = filler_get();
	const struct vseg *s;

	vma_enter(f);
	s = vma_next(f->map, pos);
	*region = s && s->start <= pos;
	if (s && !*region && s->start < end)
		end = s->start;
	for (; *region && pos < end; s++) {
		if (s == f->map->seg + f->map->n || s->start > pos)
			end = pos;
		else
			pos = s->end;
	}
	vma_exit(f);
	filler_put(f);
	sys_restore_signals(mask);
	return end - (uintptr_t)addr;
}

static long advise_regions(struct fl_pager *p, char *addr, size_t len,
			   int advice)
{
	switch (advice) {
	case MADV_NORMAL:
		advise_all(addr, len, VMA_NORMAL);
		return 0;
	case MADV_RANDOM:
		advise_all(addr, len, VMA_RANDOM);
		return 0;
	case MADV_SEQUENTIAL:
		advise_all(addr, len, VMA_SEQUENTIAL);
		return 0;
	case MADV_WILLNEED:
		will_need(p, addr, len);
		return 0;
	case MADV_POPULATE_READ:
		return fault_touch(addr, len, false);
	case MADV_DONTNEED:
		return drop(addr, len);
	case MADV_COLD:
	case MADV_PAGEOUT:
	case MADV_DOFORK:
	case MADV_DONTDUMP:
	case MADV_DODUMP:
		return 0;
	case MADV_FREE:
	case MADV_WIPEONFORK:
		return -EINVAL;
	case MADV_REMOVE:
		return -EACCES;
	}
	if (demand_hand_over(p, addr, len) < 0)
		/* Of what is no file the child has nothing anyway. */
		return advice == MADV_DONTFORK ? 0 : -ENOMEM;
	return sys_madvise(addr, len, advice);
}

long demand_advise(struct fl_pager *p, char *addr, size_t len, int advice)
{
	long ret = 0, unmapped = 0;
	bool region;
	size_t n;

	for (; len && (ret >= 0 || ret == -ENOMEM); addr += n, len -= n) {
		n = piece(addr, len, &region);
		ret = region ? advise_regions(p, addr, n, advice) :
			       sys_madvise(addr, n, advice);
		/* As the kernel: told at the end. */
		if (ret == -ENOMEM)
			unmapped = ret;
	}
	return ret < 0 ? ret : unmapped;
}
