// SPDX-License-Identifier: LGPL-2.1-or-later
/* frames.c - see frames.h. */
#include "fault/frames.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "fault/ahead.h"
#include "fault/dirty.h"
#include "fault/entry.h"
#include "fault/mode.h"
#include "fault/vma.h"
#include "base/ban.h"

/* The share of the budget that pages have to come back from to stay, in
 * percent: the small queue. */
#define SMALL_PERCENT 10 /* bench-policy: 5 to 25 are within 2 % */

#define HANDFUL 32u

static struct istack_links links(const struct frames *fr)
{
	return (struct istack_links){ (char *)fr->batches +
					      offsetof(struct batch, link),
				      sizeof(struct batch) };
}

static void reset(struct frames *fr)
{
	st_rlx(&fr->charged, (uint64_t)0);
	st_rlx(&fr->made, 0u);
	st_rlx(&fr->clock, 0u);
	istack_init(&fr->spare);
	for (int q = 0; q < NR_QUEUES; q++) {
		istack_init(&fr->queue[q].in);
		istack_init(&fr->queue[q].out);
		st_rlx(&fr->queue[q].pages, (uint64_t)0);
	}
}

int frames_init(struct frames *fr, struct ext_budget *budget,
		struct stats *stats, uint64_t limit, uint64_t cap,
		uint32_t granule, enum io_engine engine)
{
	uint64_t nr;
	void *p;

	fr->budget = budget;
	fr->stats = stats;
	fr->limit = limit;
	fr->cap = cap;
	fr->engine = engine;
	/* A sixty-fourth of the memory at a time at most. */
	fr->batch = limit / 64 >= BATCH_MAX ? BATCH_MAX : 1;
	while (fr->batch < BATCH_MAX && fr->batch * 2 <= limit / 64)
		fr->batch *= 2;
	fr->handful = fr->batch < HANDFUL ? fr->batch : HANDFUL;
	fr->granule = granule;
	while (fr->granule > 16 && fr->granule > limit / 64)
		fr->granule /= 2;
	/* Twice what the pages fill, and two open ones for each filler. */
	nr = 2 * limit / fr->batch + 2 * FILLERS_MAX;
	if (nr > UINT32_MAX / 2)
		nr = UINT32_MAX / 2;
	p = sys_mmap(NULL, nr * sizeof(struct batch), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (is_err(p))
		return (int)ptr_err(p);
	fr->batches = p;
	fr->nr_batches = (uint32_t)nr;
	reset(fr);
	return 0;
}

void frames_fork_child(struct frames *fr)
{
	if (!fr->batches)
		return;
	sub_rlx(&fr->budget->resident, ld_rlx(&fr->charged) << FL_PAGE_SHIFT);
	stat_sub(fr->stats, STAT_demand_bytes,
		 stat_sum(fr->stats, STAT_demand_bytes));
	reset(fr);
}

/* ---------------------------------------------------------------------------
 * The budget
 */

static bool charge(struct frames *fr, uint32_t n)
{
	uint64_t bytes = (uint64_t)n << FL_PAGE_SHIFT;

	if (add_rlx(&fr->charged, n) + n > fr->limit)
		goto out;
	if (add_rlx(&fr->budget->resident, bytes) + bytes <= fr->cap) {
		stat_add(fr->stats, STAT_demand_bytes, bytes);
		return true;
	}
	sub_rlx(&fr->budget->resident, bytes);
out:
	sub_rlx(&fr->charged, n);
	return false;
}

void frames_uncharge(struct frames *fr, uint64_t n)
{
	if (n == 0)
		return;
	sub_rlx(&fr->charged, n);
	sub_rlx(&fr->budget->resident, n << FL_PAGE_SHIFT);
	stat_sub(fr->stats, STAT_demand_bytes, n << FL_PAGE_SHIFT);
}

/* ---------------------------------------------------------------------------
 * Batches and queues
 */

static struct batch *batch_get(struct frames *fr)
{
	uint32_t i;

	if (!istack_pop(&fr->spare, &i, links(fr))) {
		i = ld_rlx(&fr->made);
		do {
			if (i >= fr->nr_batches)
				return NULL;
		} while (!cas_rlx(&fr->made, &i, i + 1));
	}
	fr->batches[i].n = 0;
	return &fr->batches[i];
}

static void batch_put(struct frames *fr, struct batch *b)
{
	istack_push(&fr->spare, (uint32_t)(b - fr->batches), links(fr));
}

static void queue_push(struct frames *fr, struct queue *q, struct batch *b)
{
	add_rlx(&q->pages, b->n);
	istack_push(&q->in, (uint32_t)(b - fr->batches), links(fr));
}

/* The order of a chain reversed: index + 1 of the new first. *last: its end. */
static uint32_t reverse(struct frames *fr, uint32_t first, uint32_t *last)
{
	uint32_t out = 0;

	*last = first - 1;
	while (first) {
		uint32_t next = istack_next(links(fr), first - 1);

		istack_link(links(fr), first - 1, out - 1);
		out = first;
		first = next;
	}
	return out;
}

static struct batch *queue_pop(struct frames *fr, struct queue *q)
{
	uint32_t i, first, last;

	while (!istack_pop(&q->out, &i, links(fr))) {
		first = istack_take_all(&q->in);
		if (!first)
			return NULL;
		first = reverse(fr, first, &last);
		istack_push_chain(&q->out, first - 1, last, links(fr));
	}
	sub_rlx(&q->pages, fr->batches[i].n);
	return &fr->batches[i];
}

#define ENTRY_PAGE_BITS 44

static struct vma *entry_vma(uint64_t entry, size_t *page)
{
	struct vma *v = vma_by_id((uint32_t)(entry >> ENTRY_PAGE_BITS));

	*page = entry & (((uint64_t)1 << ENTRY_PAGE_BITS) - 1);
	return v && *page < v->pages ? v : NULL;
}

static bool note_only(struct filler *f, struct frames *fr, enum frames_queue q,
		      uint64_t entry);

static bool noted_state(pte_t e)
{
	return pte_present(e) || pte_state(e) == PTE_BUSY;
}

/* Entries that mean nothing any more pile up where regions come and go without
 * pressure. The oldest batch: what is still present stays noted. */
static void sweep(struct filler *f, struct frames *fr, enum frames_queue q)
{
	struct batch *b = queue_pop(fr, &fr->queue[q]);
	struct vma *v;
	size_t page;

	if (!b)
		return;
	for (uint32_t i = 0; i < b->n; i++) {
		v = entry_vma(b->page[i], &page);
		if (v && noted_state(ptep_get_rlx(&v->pt[page])))
			note_only(f, fr, q, b->page[i]);
	}
	batch_put(fr, b);
}

static void flush(struct filler *f, struct frames *fr, enum frames_queue q)
{
	struct batch *b = f->batch[q];

	if (!b)
		return;
	f->batch[q] = NULL;
	if (b->n == 0) {
		batch_put(fr, b);
		return;
	}
	queue_push(fr, &fr->queue[q], b);
}

/* Says whether a batch was full and has been queued. */
static bool note_only(struct filler *f, struct frames *fr, enum frames_queue q,
		      uint64_t entry)
{
	if (!f->batch[q])
		f->batch[q] = batch_get(fr);
	/* More batches than pages can fill: cannot be, but for races. The page
	 * then stays until its region goes. */
	if (unlikely(!f->batch[q]))
		return false;
	f->batch[q]->page[f->batch[q]->n++] = entry;
	if (f->batch[q]->n < fr->batch)
		return false;
	flush(f, fr, q);
	return true;
}

static void note(struct filler *f, struct frames *fr, enum frames_queue q,
		 uint64_t entry)
{
	uint64_t noted;

	if (likely(!note_only(f, fr, q, entry)))
		return;
	noted = ld_rlx(&fr->queue[QUEUE_SMALL].pages) +
		ld_rlx(&fr->queue[QUEUE_MAIN].pages);
	/* Two for one, so that they become fewer. */
	for (int k = 0;
	     k < 2 && noted > ld_rlx(&fr->charged) * 3 / 2 + 4 * fr->batch; k++)
		sweep(f, fr, q);
}

/* Did the page come back before half of the main queue was evicted? */
bool frames_young(struct frames *fr, pte_t old)
{
	uint32_t clock, ago;

	if (pte_state(old) != PTE_FILE)
		return false;
	clock = ld_rlx(&fr->clock);
	ago = (clock - pte_payload(old)) & PTE_PAYLOAD_MAX;
	return (uint64_t)ago * fr->batch * 2 <
	       fr->limit - fr->limit * SMALL_PERCENT / 100;
}

void frames_note(struct filler *f, uint32_t id, size_t page, bool young)
{
	note(f, ld_rlx(&f->frames), young ? QUEUE_MAIN : QUEUE_SMALL,
	     (uint64_t)id << ENTRY_PAGE_BITS | page);
}

/* ---------------------------------------------------------------------------
 * Eviction
 */

/* PRESENT -> BUSY. False if it is BUSY: the page may be one that is dropped and
 * read again, which is not noted once more. */
static bool claim(struct victims *z, struct vma *v, size_t page)
{
	struct pte_slot *slot = &v->pt[page];
	pte_t e = ptep_get_rlx(slot);
	struct iovec *last = z->pieces ? &z->piece[z->pieces - 1] : NULL;
	char *addr = vma_addr(v, page);
	uint32_t i;

	do {
		if (!pte_present(e))
			return pte_state(e) != PTE_BUSY;
	} while (!ptep_cmpxchg(&v->pte_lock, slot, &e,
			       pte_mk_state(PTE_BUSY, 0)));
	i = pte_dirty(e) ? BATCH_MAX - ++z->dirty : z->n++;
	z->at[i].v = v;
	z->at[i].page = page;
	if (pte_dirty(e))
		return true;
	if (last && (char *)last->iov_base + last->iov_len == addr)
		last->iov_len += FL_PAGE_SIZE;
	else
		z->piece[z->pieces++] = (struct iovec){ addr, FL_PAGE_SIZE };
	return true;
}

/* A run of pages that were dirty: written, then dropped; or kept, if that
 * failed. Returns how many were dropped. */
static uint32_t evict_dirty(struct filler *f, struct frames *fr, struct vma *v,
			    size_t page, uint32_t n, pte_t ghost)
{
	struct iovec piece = { vma_addr(v, page), (size_t)n << FL_PAGE_SHIFT };
	long err = dirty_write(f, v, page, n);
	const struct vseg *s;

	if (err == 0) {
		s = vma_find(filler_copying(f), (uintptr_t)piece.iov_base);
		if (s && s->v == v &&
		    s->end >= (uintptr_t)piece.iov_base + piece.iov_len)
			fault_zap(&piece, 1);
		else /* its pages go with it, or are filled again */
			n = 0;
		for (uint32_t i = 0; i < n; i++)
			fault_settle(v, page + i, ghost);
		filler_copied(f);
		if (n)
			return n;
		n = (uint32_t)(piece.iov_len >> FL_PAGE_SHIFT);
	}
	dirty_restore(f, v, page, n, true);
	for (uint32_t i = 0; i < n; i++)
		note(f, fr, QUEUE_MAIN,
		     (uint64_t)v->id << ENTRY_PAGE_BITS | (page + i));
	return 0;
}

static uint32_t evict_dirties(struct filler *f, struct frames *fr, pte_t ghost)
{
	struct victims *z = &f->victims;
	uint32_t n = 0, run;

	for (uint32_t i = 0; i < z->dirty; i += run) {
		uint32_t at = BATCH_MAX - 1 - i;
		struct vma *v = z->at[at].v;
		size_t page = z->at[at].page;

		for (run = 1; i + run < z->dirty && run < filler_room(f); run++)
			if (z->at[at - run].v != v ||
			    z->at[at - run].page != page + run)
				break;
		n += evict_dirty(f, fr, v, page, run, ghost);
	}
	return n;
}

/* Pages of the small queue leave a ghost. Those of the main queue do not: they
 * would displace each other in a loop over more than memory holds. */
static uint32_t evict_batch(struct filler *f, struct frames *fr,
			    enum frames_queue q, struct batch *b)
{
	struct victims *z = &f->victims;
	uint32_t n;
	size_t page;
	pte_t ghost;

	z->n = z->pieces = z->dirty = 0;
	filler_copying(f);
	for (uint32_t i = 0; i < b->n; i++) {
		struct vma *v = entry_vma(b->page[i], &page);

		if (v && v->frames == fr && !claim(z, v, page))
			note_only(f, fr, q, b->page[i]);
	}
	fault_zap(z->piece, z->pieces);
	n = add_rlx(&fr->clock, 1u) & PTE_PAYLOAD_MAX;
	ghost = q == QUEUE_SMALL ? pte_mk_state(PTE_FILE, n) : (pte_t){ 0 };
	for (uint32_t i = 0; i < z->n; i++)
		fault_settle(z->at[i].v, z->at[i].page, ghost);
	filler_copied(f);
	n = z->n;
	if (unlikely(z->dirty))
		n += evict_dirties(f, fr, ghost);
	stat_count(fr->stats, STAT_demand_evicted, n);
	return n;
}

/* The small queue above its share gives first. */
static struct batch *victim_batch(struct frames *fr, enum frames_queue *q)
{
	uint64_t small = ld_rlx(&fr->queue[QUEUE_SMALL].pages);
	struct batch *b;

	*q = small * 100 > fr->limit * SMALL_PERCENT ? QUEUE_SMALL : QUEUE_MAIN;
	b = queue_pop(fr, &fr->queue[*q]);
	if (b)
		return b;
	*q = *q == QUEUE_SMALL ? QUEUE_MAIN : QUEUE_SMALL;
	return queue_pop(fr, &fr->queue[*q]);
}

uint32_t frames_evict(struct filler *f, struct frames *fr, uint32_t want)
{
	unsigned int in_vain = 0;
	enum frames_queue q;
	struct batch *b;
	uint32_t n = 0, got;

	/* Pages that cannot be written, or are BUSY, come back. */
	while (n < want && in_vain < 64 && (b = victim_batch(fr, &q)) != NULL) {
		got = evict_batch(f, fr, q, b);
		in_vain = got ? 0 : in_vain + 1;
		n += got;
		batch_put(fr, b);
	}
	return n;
}

/* ---------------------------------------------------------------------------
 * Credit
 */

/* What a filler holds for a pager goes back. */
static void give_back(struct filler *f)
{
	struct frames *fr = ld_rlx(&f->frames);

	if (!fr)
		return;
	for (int q = 0; q < NR_QUEUES; q++)
		flush(f, fr, (enum frames_queue)q);
	if (f->paid)
		sys_madvise(f->buf, FILLER_BUF, MADV_DONTNEED);
	frames_uncharge(fr, f->credit + f->paid);
	f->credit = 0;
	f->paid = 0;
	st_rlx(&f->frames, (struct frames *)NULL);
}

void frames_lost(struct filler *f)
{
	give_back(f);
	/* [MO:copying] as filler_copied would have. */
	if (ld_rlx(&f->copying) & 1)
		st_rel(&f->copying, ld_rlx(&f->copying) + 1);
	/* [MO:epoch] as vma_exit would have. */
	st_rel(&f->epoch, (uint64_t)0);
}

/* The frames and batches of fillers nobody uses. */
static void collect(struct frames *fr)
{
	struct filler *idle = NULL, *f;
	unsigned int pos = 0;

	while ((f = filler_steal(&pos)) != NULL) {
		if (ld_rlx(&f->frames) == fr)
			give_back(f);
		f->next = idle;
		idle = f;
	}
	while ((f = idle) != NULL) {
		idle = f->next;
		filler_put(f);
	}
}

/* What was overdrawn is paid back from what is evicted. */
static uint32_t pay_back(struct frames *fr, uint32_t n)
{
	uint64_t charged = ld_rlx(&fr->charged);
	uint64_t debt = charged > fr->limit ? charged - fr->limit : 0;

	if (likely(debt == 0))
		return n;
	if (debt > n)
		debt = n;
	frames_uncharge(fr, debt);
	return n - (uint32_t)debt;
}

void frames_use(struct filler *f, struct frames *fr)
{
	if (likely(ld_rlx(&f->frames) == fr))
		return;
	give_back(f);
	st_rlx(&f->frames, fr);
	f->io.engine = fr->engine;
}

bool frames_pay(struct filler *f, struct frames *fr, uint32_t n)
{
	uint32_t got;

	if (charge(fr, n))
		return true;
	/* The credit there is may have been bought for a window. */
	got = pay_back(fr, frames_evict(f, fr, n));
	if (got < n && charge(fr, n - got))
		return true;
	f->credit += got < n ? got : got - n;
	return got >= n;
}

uint32_t frames_room(struct filler *f, struct frames *fr, uint32_t want)
{
	if (likely(want <= FILLER_FREE) || want <= f->paid)
		return want;
	if (frames_pay(f, fr, want - f->paid))
		f->paid = want;
	return f->paid > FILLER_FREE ? f->paid : FILLER_FREE;
}

uint32_t frames_buy(struct filler *f, struct frames *fr, uint32_t want)
{
	uint32_t need, n;

	frames_use(f, fr);
	if (likely(f->credit >= want))
		return want;
	need = want - f->credit;
	n = need > fr->handful ? need : fr->handful;
	if (charge(fr, n) || (n = need, charge(fr, n))) {
		f->credit += n;
		return want;
	}
	for (int tries = 0; tries < 4 && f->credit < want; tries++) {
		n = frames_evict(f, fr, want - f->credit);
		f->credit += pay_back(fr, n);
		if (n == 0 && tries == 1) {
			collect(fr);
			for (int q = 0; q < NR_QUEUES; q++)
				flush(f, fr, (enum frames_queue)q);
		}
		if (f->credit < want && charge(fr, want - f->credit))
			f->credit = want;
	}
	if (f->credit > 2 * fr->batch + want) {
		frames_uncharge(fr, f->credit - want - fr->batch);
		f->credit = want + fr->batch;
	}
	if (f->credit == 0) {
		stat_count(fr->stats, STAT_demand_overdrawn, 1);
		add_rlx(&fr->charged, 1u);
		add_rlx(&fr->budget->resident, FL_PAGE_SIZE);
		stat_add(fr->stats, STAT_demand_bytes, FL_PAGE_SIZE);
		f->credit = 1;
	}
	return f->credit < want ? f->credit : want;
}

void frames_destroy(struct frames *fr)
{
	/* No region is left; but fillers have credit, and one that is serving
	 * another pager may be about to give it back. */
	while (filler_uses(fr)) {
		collect(fr);
		sys_sched_yield();
	}
	ahead_release(fr);
	if (fr->batches)
		sys_munmap(fr->batches, fr->nr_batches * sizeof(struct batch));
	fr->batches = NULL;
}
