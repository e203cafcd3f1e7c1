// SPDX-License-Identifier: LGPL-2.1-or-later
/* ahead.c - see ahead.h. */
#include "fault/ahead.h"

#include <sys/mman.h>

#include "base/far.h"
#include "base/sys.h"
#include "fault/frames.h"
#include "base/ban.h"

#define SLOTS 16u

enum {
	SLOT_FREE,
	SLOT_SETUP,
	SLOT_FLYING,
	SLOT_TAKEN,
	SLOT_STATES,
};

static struct slot {
	/* count * SLOT_STATES + state */
	FL_ALIGNED_CL _Atomic(uint32_t) word;
	/* Written in SETUP; relaxed: a reader's swap tells whether they held. */
	_Atomic(uint64_t) serial; /* of the region */
	_Atomic(uint64_t) page;
	char *buf;
	/* Whose budget has @paid pages of it. Relaxed: read by ahead_release. */
	_Atomic(struct frames *) payer;
	uint32_t paid;
	uint32_t n;
	bool made;
	struct io_ctx io;
	struct io_req req;
} slots[SLOTS];

/* The slot that gives way next. Relaxed: any will do. */
static _Atomic(uint32_t) hand;

static bool move(struct slot *s, uint32_t word, uint32_t to)
{
	/* [MO:ahead] pairs with set: the fields of the slot. */
	return cas_acq_rel(&s->word, &word, word - word % SLOT_STATES + to);
}

static void set(struct slot *s, uint32_t to, uint32_t count)
{
	uint32_t word = ld_rlx(&s->word);

	/* [MO:ahead] pairs with move and find: the fields of the slot. */
	st_rel(&s->word, word - word % SLOT_STATES + count * SLOT_STATES + to);
}

/* As many as take a sixteenth of the memory, but enough for one stream. */
static uint32_t usable(const struct vma *v)
{
	uint64_t n = v->frames->limit / 16 / v->frames->granule;

	if (n < AHEAD_DEPTH + 1)
		return AHEAD_DEPTH + 1;
	return n < SLOTS ? (uint32_t)n : SLOTS;
}

/* The slot in flight for a window, and its word. */
static struct slot *find(uint64_t serial, size_t page, uint32_t *word)
{
	for (uint32_t i = 0; i < SLOTS; i++) {
		struct slot *s = &slots[i];

		/* [MO:ahead] pairs with set. */
		*word = ld_acq(&s->word);
		if (*word % SLOT_STATES == SLOT_FLYING &&
		    ld_rlx(&s->serial) == serial && ld_rlx(&s->page) == page)
			return s;
	}
	return NULL;
}

/* The read of a slot in flight is waited for and thrown away. */
static void reap(struct slot *s)
{
	io_finish(&s->io, &s->req);
	s->buf = s->req.buf;
}

/* The buffer's memory goes. */
static void unpay(struct slot *s)
{
	struct frames *fr = ld_rlx(&s->payer);

	if (fr && s->paid) {
		sys_madvise(s->buf, FILLER_BUF, MADV_DONTNEED);
		frames_uncharge(fr, s->paid);
	}
	s->paid = 0;
	st_rlx(&s->payer, (struct frames *)NULL);
}

static bool pay(struct filler *f, struct slot *s, struct frames *fr, uint32_t n)
{
	if (ld_rlx(&s->payer) != fr)
		unpay(s);
	st_rlx(&s->payer, fr);
	if (n > s->paid) {
		if (!frames_pay(f, fr, n - s->paid))
			return false;
		s->paid = n;
	}
	return true;
}

/* A slot in state SETUP, or NULL. */
static struct slot *grab(uint32_t nr)
{
	for (uint32_t i = 0; i < 2 * nr; i++) {
		/* First a free one, then any. */
		struct slot *s = &slots[i < nr ? i : add_rlx(&hand, 1u) % nr];
		uint32_t word = ld_rlx(&s->word);

		if (word % SLOT_STATES == SLOT_FREE &&
		    move(s, word, SLOT_SETUP))
			return s;
		if (i >= nr && word % SLOT_STATES == SLOT_FLYING &&
		    move(s, word, SLOT_SETUP)) {
			reap(s);
			return s;
		}
	}
	return NULL;
}

static bool slot_make(struct slot *s)
{
	char *buf;

	if (!s->made)
		io_ctx_init(&s->io, IO_AUTO);
	s->made = true;
	if (s->buf)
		return true;
	buf = far_map(FILLER_BUF);
	if (is_err(buf))
		return false;
	sys_madvise(buf, FILLER_BUF, MADV_DONTDUMP);
	s->buf = buf;
	return true;
}

static void start(struct filler *f, struct vma *v, size_t page, uint32_t n)
{
	struct slot *s = grab(usable(v));

	if (!s)
		return;
	st_rlx(&s->serial, v->serial);
	st_rlx(&s->page, (uint64_t)page);
	s->n = n;
	s->req = (struct io_req){
		.len = (size_t)n << FL_PAGE_SHIFT,
		.off = v->off + ((uint64_t)page << FL_PAGE_SHIFT),
	};
	if (slot_make(s) && pay(f, s, v->frames, n)) {
		s->req.buf = s->buf;
		if (store_start(&v->store, &s->io, &s->req)) {
			set(s, SLOT_FLYING, 1);
			return;
		}
	}
	set(s, SLOT_FREE, 1);
}

static bool absent(struct vma *v, size_t page, size_t n)
{
	return !pte_present(ptep_get_rlx(&v->pt[page])) &&
	       !pte_present(ptep_get_rlx(&v->pt[page + n / 2])) &&
	       !pte_present(ptep_get_rlx(&v->pt[page + n - 1]));
}

void ahead_start(struct filler *f, struct vma *v, size_t page, size_t n,
		 size_t end)
{
	bool direct = ld_rlx(&v->store.direct);
	size_t step = n;
	uint32_t word;

	/* Where nothing can be begun and collected later; nor a file whose
	 * pages may be written to, and go, between the read and the fill. */
	if (v->store.kind != STORE_FILE || v->prot & PROT_WRITE ||
	    (direct && io_engine_refused(IO_URING)))
		return;
	for (unsigned int k = 1; k <= AHEAD_DEPTH; k++) {
		size_t at = page + k * step;

		if (at >= end)
			return;
		if (end - at < n)
			n = end - at;
		if (!absent(v, at, n))
			continue;
		if (!direct)
			store_ahead(&v->store,
				    v->off + ((uint64_t)at << FL_PAGE_SHIFT),
				    n << FL_PAGE_SHIFT);
		else if (!find(v->serial, at, &word))
			start(f, v, at, (uint32_t)n);
	}
}

bool ahead_take(struct filler *f, struct vma *v, size_t page, uint32_t *n,
		long *got)
{
	uint32_t word;
	struct slot *s = find(v->serial, page, &word);
	char *buf;

	if (!s || !move(s, word, SLOT_TAKEN))
		return false;
	*n = s->n;
	*got = store_finish(&v->store, &s->io, &s->req);
	buf = s->req.buf;
	s->buf = NULL;
	if (likely(buf)) {
		uint32_t paid = s->paid;

		s->buf = f->buf;
		s->paid = f->paid;
		f->buf = buf;
		f->paid = paid;
	}
	set(s, SLOT_FREE, 0);
	return buf != NULL;
}

void ahead_forget(struct vma *v)
{
	for (uint32_t i = 0; i < SLOTS; i++) {
		struct slot *s = &slots[i];
		/* [MO:ahead] pairs with set. */
		uint32_t word = ld_acq(&s->word);

		if (word % SLOT_STATES != SLOT_FLYING ||
		    ld_rlx(&s->serial) != v->serial ||
		    !move(s, word, SLOT_TAKEN))
			continue;
		reap(s);
		unpay(s);
		set(s, SLOT_FREE, 0);
	}
}

void ahead_release(struct frames *fr)
{
	for (uint32_t i = 0; i < SLOTS; i++) {
		struct slot *s = &slots[i];
		uint32_t word;

		while (ld_rlx(&s->payer) == fr) {
			/* [MO:ahead] pairs with set. */
			word = ld_acq(&s->word);
			if (word % SLOT_STATES != SLOT_FREE &&
			    word % SLOT_STATES != SLOT_FLYING) {
				sys_sched_yield();
				continue;
			}
			if (!move(s, word, SLOT_TAKEN))
				continue;
			if (word % SLOT_STATES == SLOT_FLYING)
				reap(s);
			unpay(s);
			set(s, SLOT_FREE, 0);
		}
	}
}

void ahead_fork_child(void)
{
	for (uint32_t i = 0; i < SLOTS; i++) {
		struct slot *s = &slots[i];

		if (s->made)
			io_ctx_fork_child(&s->io);
		s->paid = 0;
		st_rlx(&s->payer, (struct frames *)NULL);
		/* In the midst of ahead_take it may be a filler's, too. */
		if (ld_rlx(&s->word) % SLOT_STATES == SLOT_TAKEN)
			s->buf = NULL;
		set(s, SLOT_FREE, 1);
	}
}
