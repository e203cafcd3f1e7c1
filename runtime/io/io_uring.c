// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The io_uring engine, on the raw system calls: a library for three of them
 * would be loaded into every program that is started under the preload.
 *
 * A ring is a pair of arrays shared with the kernel. Only the thread inside of
 * uring_read_many() writes the tail of submissions and the head of completions;
 * the kernel the other two. All requests are submitted and waited for by one
 * io_uring_enter() where they fit; when uring_read_many() returns, both queues
 * are empty and nothing is in flight.
 *
 * Flags. A ring made with SINGLE_ISSUER answers EEXIST to any thread but the
 * first, and DEFER_TASKRUN needs SINGLE_ISSUER: both are for pinned contexts
 * (io_ctx_pin()) only. The others pass from thread to thread, for which
 * COOP_TASKRUN is the most there is: completions are run when the waiting
 * thread enters the kernel anyway, no CPU is interrupted for them. Where one
 * thread starts a read and another waits for it (uring_start()), not even that:
 * completions are always run by the thread that started, and as long as that
 * one computes the other would wait for its next timer tick (measured: 3 to 16
 * ms instead of 0.5 to 2.6, on a busy machine).
 *
 * Fork: the ring's memory is not inherited (MADV_DONTFORK), its descriptor is
 * and gets closed in the child.
 */
#include <limits.h>
#include <linux/io_uring.h>
#include <sys/mman.h>

#include "io/engine.h"
#include "base/ban.h"

#ifndef IORING_SETUP_COOP_TASKRUN
#define IORING_SETUP_COOP_TASKRUN (1U << 8)
#endif
#ifndef IORING_SETUP_SINGLE_ISSUER
#define IORING_SETUP_SINGLE_ISSUER (1U << 12)
#endif
#ifndef IORING_SETUP_DEFER_TASKRUN
#define IORING_SETUP_DEFER_TASKRUN (1U << 13)
#endif

/* One mapping for both queues, and IORING_OP_READ (5.6). */
#define FEATURES (IORING_FEAT_SINGLE_MMAP | IORING_FEAT_CUR_PERSONALITY)

/* How long to wait for what is in flight when the kernel lets nobody wait. */
#define DRAIN_YIELDS_MAX 2000000

/* The state of one uring_read_many(). */
struct run {
	struct io_ring *ring;
	struct io_req *req;
	unsigned int n, next; /* requests; the first not queued yet */
	uint32_t tail;        /* of the submission queue */
	uint32_t queued;      /* written there, not taken by the kernel */
	uint32_t inflight;
};

static void *ring_map(int fd, size_t len, int64_t off)
{
	void *p = sys_mmap(NULL, len, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_POPULATE, fd, off);

	if (!is_err(p))
		sys_madvise(p, len, MADV_DONTFORK);
	return p;
}

static int ring_fill(struct io_ring *r, int fd, const struct io_uring_params *p)
{
	size_t sq = p->sq_off.array + p->sq_entries * sizeof(uint32_t);
	size_t cq =
		p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe);
	uint32_t *array;
	char *map;

	r->map_len = sq > cq ? sq : cq;
	r->sqes_len = p->sq_entries * sizeof(struct io_uring_sqe);
	map = ring_map(fd, r->map_len, IORING_OFF_SQ_RING);
	if (is_err(map))
		return (int)ptr_err(map);
	r->sqes = ring_map(fd, r->sqes_len, IORING_OFF_SQES);
	if (is_err(r->sqes)) {
		sys_munmap(map, r->map_len);
		return (int)ptr_err(r->sqes);
	}
	r->map = map;
	r->sq_head = (void *)(map + p->sq_off.head);
	r->sq_tail = (void *)(map + p->sq_off.tail);
	r->cq_head = (void *)(map + p->cq_off.head);
	r->cq_tail = (void *)(map + p->cq_off.tail);
	r->cqes = (void *)(map + p->cq_off.cqes);
	r->sq_mask = p->sq_entries - 1;
	r->cq_mask = p->cq_entries - 1;
	/* Slot i of the queue is always entry i. */
	array = (void *)(map + p->sq_off.array);
	for (uint32_t i = 0; i < p->sq_entries; i++)
		array[i] = i;
	return 0;
}

static int ring_setup(uint32_t flags, struct io_uring_params *p)
{
	*p = (struct io_uring_params){ .flags = flags };
	return (int)sys_call2(__NR_io_uring_setup, IO_DEPTH, p);
}

/* Who uses a ring; the head of this file. */
enum users {
	ONE,    /* always the same thread */
	TURNS,  /* one after the other, each waits for what it started */
	RELAYS, /* one starts, another waits */
};

/* 0 or -errno. */
static int ring_make(struct io_ring *r, enum users users)
{
	static const uint32_t flags[] = {
		[ONE] = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
		[TURNS] = IORING_SETUP_COOP_TASKRUN,
		[RELAYS] = 0,
	};
	struct io_uring_params p;
	int fd = ring_setup(flags[users], &p), err;

	if (fd == -EINVAL && users == ONE) {
		users = TURNS;
		fd = ring_setup(flags[users], &p);
	}
	if (fd == -EINVAL)
		fd = ring_setup(0, &p);
	if (fd < 0)
		return fd;
	err = (p.features & FEATURES) == FEATURES ? ring_fill(r, fd, &p) :
						    -EOPNOTSUPP;
	if (err) {
		sys_close(fd);
		return err;
	}
	r->bound = users == ONE;
	io_keep_fd(fd, &r->fd);
	return 0;
}

static void ring_forget(struct io_ring *r)
{
	if (ld_rlx(&r->fd) >= 0)
		io_fd_release(&r->fd);
	*r = (struct io_ring){ .map = NULL };
	st_rlx(&r->fd, -1);
}

void uring_destroy(struct io_ring *r)
{
	if (r->map) {
		sys_munmap(r->sqes, r->sqes_len);
		sys_munmap(r->map, r->map_len);
	}
	ring_forget(r);
}

void uring_fork_child(struct io_ring *r)
{
	ring_forget(r);
}

/* Takes @i into the submission queue, which has room. */
static void push(struct run *u, unsigned int i)
{
	struct io_req *q = &u->req[i];
	struct io_uring_sqe *e = &u->ring->sqes[u->tail & u->ring->sq_mask];

	*e = (struct io_uring_sqe){
		.opcode = IORING_OP_READ,
		.fd = q->fd,
		.off = q->off + q->got,
		.addr = (uint64_t)(uintptr_t)q->buf + q->got,
		.len = (uint32_t)io_rest(q),
		.user_data = i,
	};
	u->tail++;
	u->queued++;
	/* [MO:uring-ring] pairs with the kernel, which reads the entry. */
	st_rel(u->ring->sq_tail, u->tail);
}

static void fill(struct run *u)
{
	for (; u->next < u->n && u->queued + u->inflight < IO_DEPTH; u->next++)
		if (u->req[u->next].res == IO_PENDING)
			push(u, u->next);
}

/* Accounts all completions there are; queues what is to be asked for again. */
static void reap(struct run *u)
{
	struct io_ring *r = u->ring;
	uint32_t head = ld_rlx(r->cq_head);
	/* [MO:uring-ring] pairs with the kernel, which wrote the entries. */
	uint32_t tail = ld_acq(r->cq_tail);

	while (head != tail) {
		const struct io_uring_cqe *c = &r->cqes[head++ & r->cq_mask];
		unsigned int i = (unsigned int)c->user_data;

		u->inflight--;
		if (!io_advance(&u->req[i], c->res))
			push(u, i);
	}
	/* [MO:uring-ring] pairs with the kernel, which reuses the entries. */
	st_rel(r->cq_head, head);
}

/*
 * Submits @submit of what is queued and waits. 0 or -errno. The ring's number
 * may change under our hands.
 */
static long enter(struct run *u, uint32_t submit)
{
	uint32_t all = submit + u->inflight, wait = all;

	/* More to come: begin again when a part is there. */
	if (submit < u->queued)
		wait = 1;
	else if (u->next < u->n)
		wait = (all + 3) / 4;
	for (;;) {
		int fd = ld_rlx(&u->ring->fd);
		long r = sys_call6(__NR_io_uring_enter, fd, submit, wait,
				   IORING_ENTER_GETEVENTS, 0, 0);

		if (r >= 0) {
			u->queued -= (uint32_t)r;
			u->inflight += (uint32_t)r;
			return 0;
		}
		if (io_fd_still(&u->ring->fd, fd))
			return r;
	}
}

/* Ends a run early: takes back what the kernel has not seen, and waits for the
 * rest without its help. False if that did not come. */
static bool drain(struct run *u)
{
	/* Again shorter than asked for: stays IO_PENDING. */
	for (unsigned int i = 0; u->inflight; i++) {
		uint32_t queued = u->queued;

		reap(u);
		u->tail -= u->queued - queued;
		u->queued = queued;
		if (!u->inflight)
			break;
		if (u->ring->bound && i == DRAIN_YIELDS_MAX)
			return false;
		sys_sched_yield();
	}
	u->tail -= u->queued;
	u->queued = 0;
	/* [MO:uring-ring] as in push. */
	st_rel(u->ring->sq_tail, u->tail);
	return true;
}

/* Is @err of io_uring_enter passing? */
static bool passing(long err)
{
	return err == -EINTR || err == -EAGAIN || err == -EBUSY;
}

/* 0: all has been dealt with. */
static long run(struct run *u)
{
	unsigned int tries = 0;

	for (;;) {
		long err;

		fill(u);
		if (!u->queued && !u->inflight)
			return 0;
		/* Short of something: first what is in flight. */
		err = enter(u, tries && u->inflight ? 0 : u->queued);
		if (likely(!err)) {
			tries = 0;
		} else if (!passing(err) || tries++ == IO_RETRIES) {
			return err;
		} else if (!u->inflight) {
			sys_sched_yield();
		}
		reap(u);
	}
}

/* Makes the ring if there is none. */
static bool ring_get(struct io_ctx *ctx, enum users users)
{
	int err;

	if (ctx->ring.map)
		return true;
	err = ring_make(&ctx->ring, users);
	/* A shortage of descriptors passes. */
	if (err && err != -EMFILE && err != -ENFILE)
		io_refuse(IO_URING);
	return !err;
}

void uring_read_many(struct io_ctx *ctx, struct io_req *req, unsigned int n)
{
	enum users users = ctx->pinned ? ONE : TURNS;
	struct run u;
	long err;

	do {
		if (!ring_get(ctx, users))
			return;
		u = (struct run){ .ring = &ctx->ring, .req = req, .n = n };
		u.tail = ld_rlx(u.ring->sq_tail);
		err = run(&u);
		if (likely(!err))
			return;
		if (!drain(&u)) {
			/* Not unmapped: the kernel may still write there. */
			ring_forget(&ctx->ring);
			io_refuse(IO_URING);
			return;
		}
		/* Not a ring: the number has become the program's. */
		if (err == -EOPNOTSUPP)
			st_rlx(&ctx->ring.fd, -1);
		uring_destroy(&ctx->ring);
		users = TURNS;
		/* EEXIST: the thread that the ring is bound to is another. */
	} while (err == -EEXIST);
	if (!passing(err))
		io_refuse(IO_URING);
}

/* One request on its own, from uring_start() to uring_finish(). */

static struct run single(struct io_ctx *ctx, struct io_req *req)
{
	struct run u = { .ring = &ctx->ring, .req = req, .n = 1, .next = 1 };

	u.tail = ld_rlx(u.ring->sq_tail);
	return u;
}

bool uring_start(struct io_ctx *ctx, struct io_req *req)
{
	struct run u;
	long r;
	int fd;

	if (!ring_get(ctx, RELAYS))
		return false;
	u = single(ctx, req);
	push(&u, 0);
	do {
		fd = ld_rlx(&ctx->ring.fd);
		r = sys_call6(__NR_io_uring_enter, fd, 1, 0, 0, 0, 0);
	} while (unlikely(r < 0 && !io_fd_still(&ctx->ring.fd, fd)));
	if (likely(r == 1))
		return true;
	drain(&u);
	if (!passing(r))
		io_refuse(IO_URING);
	return false;
}

void uring_finish(struct io_ctx *ctx, struct io_req *req)
{
	struct run u = single(ctx, req);

	u.inflight = 1;
	reap(&u);
	if (u.inflight + u.queued == 0 || run(&u) == 0 || drain(&u))
		return;
	/* It may still come: neither ring nor buffer can be used again. */
	ring_forget(&ctx->ring);
	io_refuse(IO_URING);
	req->buf = NULL;
}
