// SPDX-License-Identifier: LGPL-2.1-or-later
/* lib_polsim.c - replay of a page trace through an eviction policy. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "policy.h"

enum where {
	OUT,
	SMALL,
	MAIN,
	SMALL_KEPT, /* in probation */
	MAIN_KEPT
};

struct page {
	uint8_t where, freq;
	uint8_t ghost; /* queue it was evicted from, or OUT */
	uint32_t gen;  /* evictions until then */
	uint32_t seq;  /* of its newest entry in a ring */
};

/* A FIFO. An entry whose page went elsewhere meanwhile is stale. */
struct ring {
	struct entry {
		uint32_t page, seq;
	} * e;
	size_t head, tail, mask;
};

struct sim {
	const struct pl_policy *p;
	const struct pl_trace *t;
	struct page *page;
	struct ring ring[MAIN_KEPT + 1];
	uint32_t memory, batch;
	uint32_t nr[3]; /* pages held: all, small, main */
	double small;   /* target, in pages */
	uint32_t gen;   /* evictions so far */
	struct pl_result r;
};

static void *get(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);

	if (!p)
		b_die("out of memory");
	return p;
}

static void ring_init(struct ring *r, size_t n)
{
	size_t cap = 1;

	while (cap < n)
		cap *= 2;
	r->e = get(cap, sizeof(*r->e));
	r->mask = cap - 1;
	r->head = r->tail = 0;
}

static size_t ring_len(const struct ring *r)
{
	return r->head - r->tail;
}

static void put(struct sim *s, uint32_t page, enum where w)
{
	struct ring *r = &s->ring[w];
	struct page *p = &s->page[page];

	if (ring_len(r) > r->mask)
		b_die("ring of %zu is full", r->mask + 1);
	p->where = (uint8_t)w;
	r->e[r->head++ & r->mask] = (struct entry){ page, ++p->seq };
}

/* The oldest entry of ring @w, with its page; false when it was stale. */
static bool take(struct sim *s, enum where w, uint32_t *page)
{
	struct ring *r = &s->ring[w];
	struct entry e = r->e[r->tail++ & r->mask];

	*page = e.page;
	return s->page[e.page].seq == e.seq && s->page[e.page].where == w;
}

static void evict(struct sim *s, uint32_t page, enum where queue)
{
	struct page *p = &s->page[page];

	p->where = OUT;
	p->freq = 0;
	s->nr[0]--;
	s->nr[queue]--;
	p->ghost = (uint8_t)queue;
	/* A batch has one generation. */
	p->gen = s->gen++ / s->batch;
}

static void move_up(struct sim *s, uint32_t page, enum where queue)
{
	s->nr[queue]--;
	s->nr[MAIN]++;
	put(s, page, MAIN);
}

/* Evict up to @want of the pages of @queue, where hits are seen. */
static uint32_t evict_bits(struct sim *s, enum where queue, uint32_t want)
{
	uint32_t page, n = 0;

	while (n < want && s->nr[queue] > 0) {
		take(s, queue, &page);
		if (!s->page[page].freq) {
			evict(s, page, queue);
			n++;
		} else if (s->p->small >= 1) {
			s->page[page].freq = 0;
			put(s, page, queue);
		} else {
			s->page[page].freq -= queue == MAIN;
			if (queue == SMALL)
				s->page[page].freq = 0;
			move_up(s, page, queue);
		}
	}
	return n;
}

/* The same by probation: unmap the oldest, evict who was kept for longest. */
static uint32_t evict_probe(struct sim *s, enum where queue, uint32_t want)
{
	enum where kept = queue == SMALL ? SMALL_KEPT : MAIN_KEPT;
	size_t room = (size_t)(s->p->probe * s->nr[queue]);
	uint32_t page, n = 0;

	while (n < want && s->nr[queue] > 0) {
		for (uint32_t i = 0; i < s->batch && ring_len(&s->ring[queue]);
		     i++) {
			if (!take(s, queue, &page))
				continue;
			put(s, page, kept);
			s->r.zap++;
		}
		while (n < want && ring_len(&s->ring[kept]) > 0 &&
		       (ring_len(&s->ring[kept]) > room ||
			!ring_len(&s->ring[queue]))) {
			if (!take(s, kept, &page))
				continue;
			evict(s, page, queue);
			n++;
		}
	}
	return n;
}

static uint32_t evict_plain(struct sim *s, enum where queue, uint32_t want)
{
	uint32_t page, n = 0;

	while (n < want && s->nr[queue] > 0) {
		if (!take(s, queue, &page))
			continue;
		evict(s, page, queue);
		s->r.zap++;
		n++;
	}
	return n;
}

static void reclaim(struct sim *s)
{
	uint32_t n = 0;

	while (n < s->batch && s->nr[0] > 0) {
		enum where q = MAIN;

		if (s->nr[SMALL] > s->small || !s->nr[MAIN])
			q = SMALL;
		if (s->p->bits)
			n += evict_bits(s, q, s->batch - n);
		else if (s->p->probe > 0)
			n += evict_probe(s, q, s->batch - n);
		else
			n += evict_plain(s, q, s->batch - n);
	}
}

static bool found_again(struct sim *s, struct page *p)
{
	double main_size = s->memory - s->small;
	double window = s->p->window, age;

	if (p->ghost == OUT)
		return false;
	if (p->ghost == MAIN)
		window = s->p->main_window;
	age = (double)(s->gen / s->batch - p->gen) * s->batch;
	if (age >= window * main_size)
		return false;
	if (s->p->adapt) {
		double step = p->ghost == SMALL ? 1 : -1;
		double lo = 0.05 * s->memory, hi = 0.95 * s->memory;

		s->small += step;
		if (s->small < lo)
			s->small = lo;
		if (s->small > hi)
			s->small = hi;
	}
	return true;
}

static void touch(struct sim *s, uint32_t page)
{
	struct page *p = &s->page[page];
	enum where to;

	switch (p->where) {
	case SMALL:
	case MAIN:
		if (p->freq < 3)
			p->freq++;
		return;
	case SMALL_KEPT:
		s->r.soft++;
		if (s->p->small >= 1)
			put(s, page, SMALL);
		else
			move_up(s, page, SMALL);
		return;
	case MAIN_KEPT:
		s->r.soft++;
		put(s, page, MAIN);
		return;
	default:
		break;
	}
	s->r.miss++;
	if (s->nr[0] >= s->memory)
		reclaim(s);
	to = found_again(s, p) ? MAIN : SMALL;
	s->nr[0]++;
	s->nr[to]++;
	put(s, page, to);
}

static void replay_queues(struct sim *s)
{
	s->page = get(s->t->nr_pages, sizeof(*s->page));
	s->small = s->p->small * s->memory;
	for (int w = SMALL; w <= MAIN_KEPT; w++)
		ring_init(&s->ring[w], 4 * ((size_t)s->memory + s->batch));
	for (size_t i = 0; i < s->t->n; i++)
		touch(s, s->t->page[i]);
	for (int w = SMALL; w <= MAIN_KEPT; w++)
		free(s->ring[w].e);
	free(s->page);
}

static void replay_random(struct sim *s)
{
	uint32_t *held = get(s->memory, sizeof(*held)), n = 0;
	bool *in = get(s->t->nr_pages, sizeof(*in));
	uint64_t x = 88172645463325252u;

	for (size_t i = 0; i < s->t->n; i++) {
		uint32_t page = s->t->page[i];

		if (in[page])
			continue;
		s->r.miss++;
		for (uint32_t b = 0;
		     n + s->batch > s->memory && n > 0 && b < s->batch; b++) {
			uint32_t k;

			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			k = (uint32_t)((x >> 32) % n);
			in[held[k]] = false;
			held[k] = held[--n];
			s->r.zap++;
		}
		in[page] = true;
		held[n++] = page;
	}
	free(in);
	free(held);
}

static void replay_lru(struct sim *s)
{
	/* A ring around the element after the last page. */
	uint32_t end = s->t->nr_pages, n = 0;
	struct {
		uint32_t prev, next;
	} *l = get((size_t)end + 1, sizeof(*l));
	bool *in = get(end, sizeof(*in));

	l[end].prev = l[end].next = end;
	for (size_t i = 0; i < s->t->n; i++) {
		uint32_t page = s->t->page[i], old;

		if (in[page]) {
			l[l[page].prev].next = l[page].next;
			l[l[page].next].prev = l[page].prev;
		} else {
			s->r.miss++;
			if (n == s->memory) {
				old = l[end].prev;
				l[end].prev = l[old].prev;
				l[l[old].prev].next = end;
				in[old] = false;
				s->r.zap++;
				n--;
			}
			in[page] = true;
			n++;
		}
		l[page].prev = end;
		l[page].next = l[end].next;
		l[l[end].next].prev = page;
		l[end].next = page;
	}
	free(in);
	free(l);
}

/* A max-heap of (next use, page); a page's older entries are stale. */
struct heap {
	struct use {
		size_t next;
		uint32_t page;
	} * u;
	size_t n;
};

static void heap_push(struct heap *h, size_t next, uint32_t page)
{
	size_t i = h->n++;

	while (i > 0 && h->u[(i - 1) / 2].next < next) {
		h->u[i] = h->u[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	h->u[i] = (struct use){ next, page };
}

static struct use heap_pop(struct heap *h)
{
	struct use top = h->u[0], last = h->u[--h->n];
	size_t i = 0, c;

	while ((c = 2 * i + 1) < h->n) {
		if (c + 1 < h->n && h->u[c + 1].next > h->u[c].next)
			c++;
		if (h->u[c].next <= last.next)
			break;
		h->u[i] = h->u[c];
		i = c;
	}
	h->u[i] = last;
	return top;
}

static void replay_opt(struct sim *s)
{
	size_t n = s->t->n, *next = get(n, sizeof(*next));
	size_t *due = get(s->t->nr_pages, sizeof(*due));
	bool *in = get(s->t->nr_pages, sizeof(*in));
	struct heap h = { get(n, sizeof(*h.u)), 0 };
	uint32_t held = 0;

	for (uint32_t i = 0; i < s->t->nr_pages; i++)
		due[i] = SIZE_MAX;
	for (size_t i = n; i-- > 0;) {
		next[i] = due[s->t->page[i]];
		due[s->t->page[i]] = i;
	}
	for (size_t i = 0; i < n; i++) {
		uint32_t page = s->t->page[i];

		if (!in[page]) {
			s->r.miss++;
			while (held == s->memory) {
				struct use u = heap_pop(&h);

				if (!in[u.page] || due[u.page] != u.next)
					continue;
				in[u.page] = false;
				s->r.zap++;
				held--;
			}
			in[page] = true;
			held++;
		}
		due[page] = next[i];
		heap_push(&h, next[i], page);
	}
	free(h.u);
	free(in);
	free(due);
	free(next);
}

struct pl_result pl_replay(const struct pl_policy *p, const struct pl_trace *t,
			   uint32_t memory, uint32_t batch)
{
	struct sim s = { .p = p, .t = t, .memory = memory };

	s.batch = p->single ? 1 : batch;
	switch (p->kind) {
	case PL_QUEUES:
		replay_queues(&s);
		break;
	case PL_RANDOM:
		replay_random(&s);
		break;
	case PL_LRU:
		replay_lru(&s);
		break;
	case PL_OPT:
		replay_opt(&s);
		break;
	}
	return s.r;
}
