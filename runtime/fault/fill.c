// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * fill.c - serving faults: claim, read, fill, publish.
 *
 * A fault finds its region in the map and its entry in the region's table. The
 * thread that turns the entry to BUSY reads the page, and as many after it as
 * the window says, into its filler's buffer; fills them in one
 * UFFDIO_COPY and publishes the entries. Others that come to a BUSY entry sleep
 * on a futex and look again. No lock is taken; the reading is done with nothing
 * held but the claims.
 *
 * WAITING. A waiter reads the bucket's count, then adds WAIT_FUTEX to the BUSY
 * entry by compare-and-swap, then sleeps while the count stands. The owner
 * exchanges the entry and, if it finds the mark, advances the count and wakes.
 * If the swap came first the owner sees the mark; if not, it fails and the
 * waiter looks again. tests/model/fault.pml has it. A service thread does not
 * sleep: it leaves WAIT_KERNEL, and the owner wakes the faulting thread in the
 * kernel.
 *
 * Progress: lock-free but for the one who waits for another's read.
 */
#include "fault/fault.h"

#include <string.h>
#include <sys/mman.h>

#include "fault/ahead.h"
#include "fault/dirty.h"
#include "fault/entry.h"
#include "fault/fdtable.h"
#include "fault/frames.h"
#include "fault/mode.h"
#include "fault/window.h"
#include "fault/uffd.h"
#include "base/ban.h"

/* ---------------------------------------------------------------------------
 * Waiting
 */

#define BUCKETS 64u

static struct {
	FL_ALIGNED_CL _Atomic(uint32_t) seq;
} bucket[BUCKETS];

static _Atomic(uint32_t) *bucket_of(const struct vma *v, size_t page)
{
	return &bucket[(page ^ v->id * 7) % BUCKETS].seq;
}

void fault_settle(struct vma *v, size_t page, pte_t to)
{
	pte_t old = ptep_xchg(&v->pte_lock, &v->pt[page], to);
	unsigned int who = pte_payload(old);

	fl_assert(pte_state(old) == PTE_BUSY);
	if (likely(!who))
		return;
	if (who & WAIT_FUTEX) {
		/* [MO:fault-wait] pairs with fault_wait: the entry is settled. */
		add_rel(bucket_of(v, page), 1u);
		sys_futex_wake(bucket_of(v, page), INT32_MAX);
	}
	if (who & WAIT_KERNEL)
		vma_wake(v, page, 1);
}

/* Leaves @mark on a BUSY entry; false if it is not BUSY any more. */
static bool mark_busy(struct vma *v, size_t page, unsigned int mark)
{
	struct pte_slot *slot = &v->pt[page];
	pte_t e = ptep_get(slot);

	while (pte_state(e) == PTE_BUSY) {
		unsigned int who = pte_payload(e);

		if ((who & mark) ||
		    ptep_cmpxchg(&v->pte_lock, slot, &e,
				 pte_mk_state(PTE_BUSY, who | mark)))
			return true;
	}
	return false;
}

void fault_wait(struct vma *v, size_t page)
{
	_Atomic(uint32_t) *seq = bucket_of(v, page);
	/* [MO:fault-wait] pairs with fault_settle. */
	uint32_t now = ld_acq(seq);

	stat_count(v->frames->stats, STAT_demand_waits, 1);
	if (mark_busy(v, page, WAIT_FUTEX))
		sys_futex_wait(seq, now, NULL);
}

/* ---------------------------------------------------------------------------
 * Filling
 */

static uint64_t page_off(const struct vma *v, size_t page)
{
	return v->off + ((uint64_t)page << FL_PAGE_SHIFT);
}

static bool claimable(pte_t e)
{
	return pte_none(e) || pte_state(e) == PTE_FILE;
}

static void hot_set(struct filler *f, uint32_t i, bool hot)
{
	uint64_t bit = (uint64_t)1 << i % 64;

	f->hot[i / 64] = hot ? f->hot[i / 64] | bit : f->hot[i / 64] & ~bit;
}

static bool hot_get(const struct filler *f, uint32_t i)
{
	return f->hot[i / 64] >> i % 64 & 1;
}

/* The pages behind the first, as far as nobody has them. */
static void claim_more(struct job *j, uint32_t most)
{
	struct vma *v = j->v;

	for (; j->n < most; j->n++) {
		struct pte_slot *slot = &v->pt[j->page + j->n];
		pte_t e = ptep_get_rlx(slot);

		if (!claimable(e) || !ptep_cmpxchg(&v->pte_lock, slot, &e,
						   pte_mk_state(PTE_BUSY, 0)))
			return;
		hot_set(j->f, j->n, frames_young(v->frames, e));
	}
}

/* Claims from page @from of the job on are given up. */
static void unclaim(struct job *j, uint32_t from)
{
	while (j->n > from)
		fault_settle(j->v, j->page + --j->n, (pte_t){ 0 });
	if (j->n == 0 && j->paid) {
		j->paid = false;
		frames_uncharge(j->v->frames, 1);
	}
}

static int copy(struct vma *v, size_t page, const char *buf, size_t n)
{
	unsigned int mode = (v->kernel_waiters ? 0 : UABI_DONTWAKE) |
			    (v->prot & PROT_WRITE ? UABI_MAP_WP : 0);
	int fd, ret;

	do {
		fd = fd_get(v->uffd);
		ret = uffd_copy(fd, vma_addr(v, page), buf, n << FL_PAGE_SHIFT,
				mode);
	} while (unlikely(!fd_still(v->uffd, fd)));
	return ret;
}

/* Within a copying section, which goes by @m: how many pages of the job are
 * still the region's? */
static uint32_t still_there(const struct job *j, const struct vmap *m)
{
	uintptr_t addr = (uintptr_t)vma_addr(j->v, j->page);
	const struct vseg *s;
	size_t n;

	if (likely(m == j->f->map))
		return j->n;
	s = vma_find(m, addr);
	if (!s || s->v != j->v || s->hold)
		return 0;
	n = (s->end - addr) >> FL_PAGE_SHIFT;
	return n < j->n ? (uint32_t)n : j->n;
}

static void publish(struct job *j, uint32_t n)
{
	struct filler *f = j->f;
	struct vma *v = j->v;
	uint32_t hot = 0;

	j->woken = true; /* by the copy */
	vma_use(v, j->page, n);
	for (uint32_t i = 0; i < n; i++)
		fault_settle(v, j->page + i,
			     pte_mk_present(j->page + i, PTE_R));
	for (uint32_t i = 0; i < n; i++) {
		bool young = hot_get(f, i);

		hot += young;
		/* One that was dropped and comes back still is noted. */
		if (likely(!j->paid || i > 0))
			frames_note(f, v->id, j->page + i, young);
	}
	fl_assert(f->credit >= n - j->paid);
	f->credit -= n - j->paid;
	stat_count(v->frames->stats, STAT_demand_filled, n);
	if (hot)
		stat_count(v->frames->stats, STAT_demand_refilled, hot);
}

/* A copy that failed, not for lack of a mapping: some of its pages may be there,
 * which no entry and no budget tells of. */
static void undo(const struct job *j, uint32_t n)
{
	struct iovec piece = { vma_addr(j->v, j->page),
			       (size_t)n << FL_PAGE_SHIFT };

	fault_zap(&piece, 1);
}

/* The first @n pages of the job from the buffer. 0 or -errno. */
static int fill(struct job *j, uint32_t n)
{
	struct filler *f = j->f;
	uint32_t there;
	int ret = 0;

	unclaim(j, n);
	there = still_there(j, filler_copying(f));
	if (there) {
		ret = copy(j->v, j->page, f->buf, there);
		/* The mapping was cut behind the pager's back. */
		if (ret == -ENOENT && there > 1) {
			there = 1;
			ret = copy(j->v, j->page, f->buf, 1);
		}
		if (ret == 0) {
			/* Not past the section: vma.c counts on it. */
			n = j->n;
			j->n = there;
			publish(j, there);
			j->page += there;
			j->n = n - there;
			j->paid = false;
		} else if (there > 1) {
			undo(j, there);
		}
	}
	filler_copied(f);
	unclaim(j, 0);
	return ret;
}

/* ---------------------------------------------------------------------------
 * What cannot be read
 */

/* The page of a store that is no file: SIGBUS from now on. */
static enum fault_verdict poison(struct job *j, int err)
{
	bool there;

	j->err = err;
	unclaim(j, 1);
	there = still_there(j, filler_copying(j->f)) > 0;
	if (there && vma_bus_page(j->v, j->page) == 0)
		fault_settle(j->v, j->page,
			     pte_mk_state(PTE_POISON, (unsigned int)err));
	else
		fault_settle(j->v, j->page, (pte_t){ 0 });
	filler_copied(j->f);
	j->n = 0;
	unclaim(j, 0); /* what it cost */
	vma_wake(j->v, j->page, 1);
	stat_count(j->v->frames->stats, STAT_demand_failed, 1);
	return j->service || !there ? FAULT_DONE : FAULT_BUS;
}

/* A file: the kernel's own answer, from its own mapping. */
static enum fault_verdict hand_over(struct job *j, size_t end, int err)
{
	char *addr = vma_addr(j->v, j->page);

	stat_count(j->v->frames->stats, STAT_demand_failed, 1);
	unclaim(j, 1);
	/* The claim is kept meanwhile: the page is not tried again. Who waits
	 * for it finds the mapping. */
	if (vma_demote(addr, (end - j->page) << FL_PAGE_SHIFT) < 0)
		return poison(j, err);
	j->err = err;
	unclaim(j, 0);
	stat_count(j->v->frames->stats, STAT_demand_demoted, 1);
	return FAULT_DONE;
}

/* Nothing could be read for the first page: @got as store_read() says. */
static enum fault_verdict failed(struct job *j, long got)
{
	int err = got < 0 ? (int)-got : EFAULT;

	if (got == 0 && j->v->eof_zero) {
		memset(j->f->buf, 0, FL_PAGE_SIZE);
		unclaim(j, 1);
		fill(j, 1);
		return FAULT_DONE;
	}
	if (j->v->store.kind != STORE_FILE || j->v->prot & PROT_WRITE ||
	    (got < 0 && !j->v->mmapped))
		return poison(j, got < 0 ? err : ENODATA);
	/* Past the end of the file nothing is left of a mapping; and where
	 * reading is refused, it is for the next pages, too. */
	return hand_over(j, got == -EIO ? j->page + 1 : j->end, err);
}

/* ---------------------------------------------------------------------------
 * The fault
 */

static enum fault_verdict out_of_memory(struct job *j)
{
	struct frames *fr = j->v->frames;

	/* The control group's limit, or the machine's. */
	frames_uncharge(fr, frames_evict(j->f, fr, fr->batch));
	return FAULT_DONE;
}

/* A window of a sequential reader: perhaps it has been read already. In any
 * case the next ones are on their way while this one is dealt with. */
static bool read_ahead(struct job *j, long *got)
{
	uint32_t n;
	bool have;

	ahead_start(j->f, j->v, j->page, j->v->frames->granule, j->end);
	have = ahead_take(j->f, j->v, j->page, &n, got);
	if (!have)
		return false;
	if (n < j->n)
		unclaim(j, n);
	if (*got > (long)((size_t)j->n << FL_PAGE_SHIFT))
		*got = (long)((size_t)j->n << FL_PAGE_SHIFT);
	return true;
}

/* The first page of the job is claimed, and so are n-1 more. */
static enum fault_verdict serve_claimed(struct job *j)
{
	struct vma *v = j->v;
	uint64_t off = page_off(v, j->page);
	size_t len = (size_t)j->n << FL_PAGE_SHIFT;
	size_t full;
	long got;
	int ret;

	if (!j->ahead || !read_ahead(j, &got))
		got = store_read(&v->store, &j->f->io, j->f->buf, len, off);
	if (unlikely(got <= 0)) {
		if (j->n > 1) { /* perhaps only a later page is bad */
			unclaim(j, 1);
			got = store_read(&v->store, &j->f->io, j->f->buf,
					 FL_PAGE_SIZE, off);
		}
		if (got <= 0)
			return failed(j, got);
	}
	full = page_align_up((size_t)got);
	if (unlikely(full > (size_t)got))
		memset(j->f->buf + got, 0, full - (size_t)got);
	stat_count(v->frames->stats, STAT_demand_read_bytes, (uint64_t)got);
	ret = fill(j, (uint32_t)(full >> FL_PAGE_SHIFT));
	if (ret == 0)
		window_filled(j);
	if (unlikely(ret == -ENOMEM))
		return out_of_memory(j);
	return unlikely(ret == -ENOENT || ret == -ESRCH) ? FAULT_NOT_OURS :
							   FAULT_DONE;
}

/* ---------------------------------------------------------------------------
 * Strides: pages at equal distances, also backwards. What a filler saw last is
 * what its CPU saw last, so a stride is noticed where threads keep to their
 * CPUs; nothing is lost where they do not.
 */

#define STRIDE_AFTER 3u /* equal steps */
#define STRIDE_FAR 1024 /* pages; beyond it is chance */

/* How many pages after this one are likely to come. */
static uint32_t stride_more(struct filler *f, const struct job *j)
{
	struct stride *s = &f->stride;
	int64_t step = (int64_t)(j->page - s->page);
	bool same = s->serial == j->v->serial && s->step == step;
	uint32_t n;

	if (!same || step == 0 || step > STRIDE_FAR || step < -STRIDE_FAR)
		s->seen = 0;
	else if (s->seen < 32)
		s->seen++;
	s->serial = j->v->serial;
	s->step = step;
	s->page = j->page;
	if (s->seen < STRIDE_AFTER)
		return 0;
	n = 1u << (s->seen - STRIDE_AFTER + 1 < 5 ? s->seen - STRIDE_AFTER + 1 :
						    5);
	return n < STRIDE_MOST ? n : STRIDE_MOST - 1;
}

/* Claims the pages at the stride's distance that nobody has; requests for them
 * and for the first. Returns how many. */
static uint32_t stride_claim(struct job *j, uint32_t most)
{
	struct filler *f = j->f;
	int64_t step = f->stride.step, page = (int64_t)j->page;
	uint32_t n;

	for (n = 0; n <= most; n++, page += step) {
		struct pte_slot *slot = &j->v->pt[page];
		pte_t e = { 0 };

		if (n > 0) {
			if (page < (int64_t)j->begin || page >= (int64_t)j->end)
				break;
			e = ptep_get_rlx(slot);
			if (!claimable(e) ||
			    !ptep_cmpxchg(&j->v->pte_lock, slot, &e,
					  pte_mk_state(PTE_BUSY, 0)))
				break;
			hot_set(f, n, frames_young(j->v->frames, e));
		}
		f->req[n] = (struct io_req){
			.buf = f->buf + ((size_t)n << FL_PAGE_SHIFT),
			.len = FL_PAGE_SIZE,
			.off = page_off(j->v, (size_t)page),
		};
	}
	return n;
}

/* One page of the stride from its buffer. @here: it is the region's still. */
static bool stride_fill(struct job *j, uint32_t i, size_t page, bool here)
{
	struct io_req *q = &j->f->req[i];
	bool ok = here && q->res == (long)FL_PAGE_SIZE &&
		  copy(j->v, page, q->buf, 1) == 0;

	if (ok)
		vma_use(j->v, page, 1);
	fault_settle(j->v, page,
		     ok ? pte_mk_present(page, PTE_R) : (pte_t){ 0 });
	if (ok) {
		frames_note(j->f, j->v->id, page, hot_get(j->f, i));
		j->f->credit--;
	}
	return ok;
}

/*
 * The first page is claimed; it is read together with what the stride says will
 * follow. What does not come out as a whole page is left to a fault of its own.
 */
static enum fault_verdict serve_stride(struct job *j, uint32_t more)
{
	struct filler *f = j->f;
	struct vma *v = j->v;
	uint32_t n = stride_claim(j, more), full = 0;
	const struct vmap *m;
	size_t page = j->page;

	store_read_many(&v->store, &f->io, f->req, n);
	m = filler_copying(f);
	for (uint32_t i = 0; i < n; i++) {
		j->page = page + (size_t)(f->stride.step * i);
		j->n = 1;
		if (stride_fill(j, i, j->page, still_there(j, m) > 0)) {
			j->woken |= i == 0;
			full++;
		}
	}
	filler_copied(f);
	j->n = 0;
	f->stride.page = j->page;
	stat_count(v->frames->stats, STAT_demand_filled, full);
	stat_count(v->frames->stats, STAT_demand_read_bytes,
		   (uint64_t)n << FL_PAGE_SHIFT);
	return FAULT_DONE;
}

/*
 * A sequential reader of a region that stands in for a mapping (v->yields). The
 * kernel does as well, without the copies: it gets the next piece, which is
 * larger the longer the stream has gone on. What others read at random elsewhere
 * stays.
 */
#define YIELD_AFTER 64u /* pages of window; half as many were read so far */
#define YIELD_PIECE 16u /* windows */

static enum fault_verdict yield(struct job *j, pte_t e)
{
	struct vma *v = j->v;
	size_t n = (size_t)j->window * YIELD_PIECE;

	if (n > j->end - j->page)
		n = j->end - j->page;
	j->again = !ptep_cmpxchg(&v->pte_lock, &v->pt[j->page], &e,
				 pte_mk_state(PTE_BUSY, 0));
	if (j->again)
		return FAULT_DONE;
	if (vma_demote(vma_addr(v, j->page), n << FL_PAGE_SHIFT) < 0) {
		st_rlx(&v->yields, false);
		j->again = true;
		fault_settle(v, j->page, (pte_t){ 0 });
		return FAULT_DONE;
	}
	/* Not for a thread that still goes by the old map. */
	fault_settle(v, j->page, pte_mk_state(PTE_KERNEL, 0));
	stat_count(v->frames->stats, STAT_demand_demoted, 1);
	j->page += n;
	window_filled(j);
	return FAULT_DONE;
}

static bool to_yield(const struct job *j)
{
	return unlikely(ld_rlx(&j->v->yields)) && !j->want &&
	       j->window >= YIELD_AFTER;
}

static enum fault_verdict serve_absent(struct job *j, pte_t e)
{
	struct filler *f = j->f;
	struct vma *v = j->v;
	uint32_t n, more = 0;
	size_t want;

	frames_use(f, v->frames);
	want = window(j);
	if (to_yield(j))
		return yield(j, e);
	want = frames_room(f, v->frames, (uint32_t)want);
	if (want == 1 && !j->want && ld_rlx(&v->advice) == VMA_NORMAL)
		more = stride_more(f, j);
	j->ahead = !j->want && want == v->frames->granule && want > 1;
	if (want > j->end - j->page)
		want = j->end - j->page;
	n = frames_buy(f, v->frames, (uint32_t)want + more);
	j->again = !ptep_cmpxchg(&v->pte_lock, &v->pt[j->page], &e,
				 pte_mk_state(PTE_BUSY, 0));
	if (j->again)
		return FAULT_DONE;
	hot_set(f, 0, frames_young(v->frames, e));
	j->n = 1;
	if (more && n > 1)
		return serve_stride(j, n - 1);
	claim_more(j, n < want ? n : (uint32_t)want);
	return serve_claimed(j);
}

/*
 * A page that is there by the entry: filled by another thread since the fault;
 * or a write to a page that is write-protected; or the program dropped it by a
 * system call of its own.
 */
static enum fault_verdict serve_present(struct job *j, pte_t e)
{
	char *addr = vma_addr(j->v, j->page);
	unsigned char vec = 0;

	bool there = sys_mincore(addr, FL_PAGE_SIZE, &vec) < 0 || vec & 1;

	if (there && (!(j->v->prot & PROT_WRITE) || j->read))
		return FAULT_DONE;
	j->again = !ptep_cmpxchg(&j->v->pte_lock, &j->v->pt[j->page], &e,
				 pte_mk_state(PTE_BUSY, 0));
	if (j->again)
		return FAULT_DONE;
	if (there) {
		dirty_allow(j->f, j->v, j->page);
		return FAULT_DONE;
	}
	hot_set(j->f, 0, false);
	frames_buy(j->f, j->v->frames, 1);
	j->n = 1;
	j->paid = true;
	return serve_claimed(j);
}

/* One look at the entry. */
static enum fault_verdict serve_entry(struct job *j)
{
	pte_t e = ptep_get(&j->v->pt[j->page]);

	switch (pte_state(e)) {
	case PTE_NONE:
	case PTE_FILE:
		return serve_absent(j, e);
	case PTE_PRESENT:
		return serve_present(j, e);
	case PTE_BUSY:
		if (!j->service)
			fault_wait(j->v, j->page);
		else
			j->woken = mark_busy(j->v, j->page, WAIT_KERNEL);
		return FAULT_DONE;
	case PTE_POISON:
		j->err = (int)pte_payload(e);
		return FAULT_BUS;
	case PTE_KERNEL:
	case PTE_CACHED:
		break;
	}
	return FAULT_NOT_OURS;
}

/*
 * A fault to its end. Whoever sleeps in the kernel for the page must be woken,
 * whatever has become of it: by the copy; by the owner of the claim, who was
 * left a mark; or here.
 */
static enum fault_verdict serve_page(struct job *j)
{
	size_t page = j->page;
	enum fault_verdict ret;

	do {
		j->again = false;
		ret = serve_entry(j);
	} while (unlikely(j->again));
	if (unlikely(!j->woken))
		vma_wake(j->v, page, 1);
	return ret;
}

/* Looks up @addr. False if it is in no region. */
static bool look_up(struct job *j, const void *addr)
{
	const struct vseg *s;
	unsigned int tries = 0;

	for (;;) {
		vma_enter(j->f);
		s = vma_find(j->f->map, (uintptr_t)addr);
		if (!s || !s->hold)
			break;
		vma_exit(j->f);
		if (++tries < 100) {
			sys_sched_yield();
		} else {
			struct timespec ms = { .tv_nsec = 1000 * 1000 };

			sys_call2(__NR_nanosleep, &ms, NULL);
		}
	}
	if (!s)
		return false;
	j->v = s->v;
	st_rlx(&j->f->serving, s->v);
	j->page = vma_page(s->v, addr);
	j->begin = vma_page(s->v, (char *)s->start);
	j->end = vma_page(s->v, (char *)s->end);
	j->n = 0;
	j->paid = false;
	j->ahead = false;
	j->woken = false;
	j->err = 0;
	return true;
}

/*
 * A fault where there is no region: another thread may have handed it to the
 * kernel between this access and the look at the map. The first time the access
 * is repeated; if it comes back to the same map, it is the program's.
 */
static enum fault_verdict lost(const void *addr)
{
	static FL_TLS uintptr_t last_addr;
	static FL_TLS uint64_t last_epoch;
	/* [MO:vma-map] pairs with vmap_publish. */
	uint64_t now = ld_acq(&vmas.epoch);

	if (last_addr == (uintptr_t)addr && last_epoch == now) {
		last_addr = 0;
		return FAULT_NOT_OURS;
	}
	last_addr = (uintptr_t)addr;
	last_epoch = now;
	return FAULT_DONE;
}

static enum fault_verdict serve(struct job *j, const void *addr)
{
	enum fault_verdict ret = FAULT_NOT_OURS;

	if (look_up(j, addr)) {
		stat_count(j->v->frames->stats, STAT_demand_faults, 1);
		ret = serve_page(j);
	}
	vma_exit(j->f);
	return ret;
}

enum fault_verdict fault_serve(const void *addr)
{
	struct job j = { .service = false };
	enum fault_verdict ret;

	if (!vma_near(addr, 1))
		return FAULT_NOT_OURS;
	j.f = filler_get();
	ret = serve(&j, addr);
	filler_put(j.f);
	return ret == FAULT_NOT_OURS ? lost(addr) : ret;
}

enum fault_verdict fault_service(const void *addr, bool write,
				 _Atomic(struct filler *) *mine)
{
	struct job j = { .service = true, .read = !write };
	enum fault_verdict ret;

	if (!vma_near(addr, 1))
		return FAULT_NOT_OURS;
	j.f = filler_get();
	st_rlx(mine, j.f);
	ret = serve(&j, addr);
	st_rlx(mine, (struct filler *)NULL);
	filler_put(j.f);
	return ret;
}

void fault_wake_all(void)
{
	for (unsigned int i = 0; i < BUCKETS; i++) {
		/* [MO:fault-wait] pairs with fault_wait: the map has changed. */
		add_rel(&bucket[i].seq, 1u);
		sys_futex_wake(&bucket[i].seq, INT32_MAX);
	}
}

/* Is page @page there? @write: for writing, too. */
static bool touched(struct vma *v, size_t page, bool write)
{
	pte_t e = ptep_get_rlx(&v->pt[page]);
	unsigned char vec = 1;

	if (!pte_present(e) || (write && !pte_dirty(e)))
		return false;
	if (unlikely(ld_rlx(&v->dropped)))
		sys_mincore(vma_addr(v, page), FL_PAGE_SIZE, &vec);
	return vec & 1;
}

/* 0: look again; 1: it is not the pager's any more; -errno. */
static long touch_entry(struct job *j)
{
	enum fault_verdict ret = serve_entry(j);

	if (j->err)
		return -j->err;
	return ret == FAULT_BUS ? -EIO : ret == FAULT_NOT_OURS;
}

/* One page of a prefetch and what follows it, up to @want pages. Returns the
 * pages passed, or -errno. */
static long touch_one(struct filler *f, const char *addr, size_t want,
		      bool write)
{
	struct job j = { .f = f, .want = want, .read = !write };
	const struct vseg *s;
	size_t n = 0;
	long ret = 0;

	if (!look_up(&j, addr)) {
		s = vma_next(f->map, (uintptr_t)addr);
		n = s ? (s->start - (uintptr_t)addr) >> FL_PAGE_SHIFT : want;
		ret = (long)(n < want ? n : want);
	} else {
		write = write && j.v->prot & PROT_WRITE;
		while (n < want && j.page + n < j.end &&
		       touched(j.v, j.page + n, write))
			n++;
		if (n == 0)
			ret = touch_entry(&j);
		else
			ret = (long)n;
	}
	vma_exit(f);
	return ret;
}

long fault_touch(const void *addr, size_t len, bool write)
{
	const char *pos = (const char *)((uintptr_t)addr & FL_PAGE_MASK);
	size_t left;
	struct filler *f;
	uint64_t mask;
	long ret = 0;

	if (likely(!vma_near(addr, len)))
		return 0;
	left = page_align_up((size_t)((const char *)addr - pos) + len) >>
	       FL_PAGE_SHIFT;
	mask = sys_block_signals();
	f = filler_get();
	while (left > 0) {
		ret = touch_one(f, pos, left, write);
		if (ret < 0)
			break;
		pos += (size_t)ret << FL_PAGE_SHIFT;
		left -= (size_t)ret;
	}
	filler_put(f);
	sys_restore_signals(mask);
	return ret < 0 ? ret : 0;
}
