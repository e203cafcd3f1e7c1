// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * lib_pageuring.c - io_uring with O_DIRECT, a registered file and registered
 * buffers: a ring in each thread with one random read in flight, or one thread
 * with as many in flight as the other methods have threads.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "page.h"

#define SEQ_DEPTH 4u
#define SEQ_CHUNK (PAGE_BUF / SEQ_DEPTH)

struct uring {
	struct io_uring ring;
	unsigned int depth;
	struct {
		uint64_t page, len;
		unsigned int word;
	} slot[PAGE_MAX_THREADS];
};

static int ring_open(struct io_uring *ring)
{
	static const unsigned int flags[] = {
		IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
		IORING_SETUP_COOP_TASKRUN,
		0,
	};
	unsigned int i;
	int err = 0;

	for (i = 0; i < 3; i++) {
		err = io_uring_queue_init(PAGE_MAX_THREADS, ring, flags[i]);
		if (err != -EINVAL)
			break;
	}
	return err;
}

/* The thread that will use it makes it. */
static int uring_enter(struct page_thread *t)
{
	struct iovec v = { t->buf, t->room };
	struct uring *u = calloc(1, sizeof(*u));
	int err;

	if (!u)
		return -ENOMEM;
	err = ring_open(&u->ring);
	if (err < 0) {
		free(u);
		return err;
	}
	err = io_uring_register_files(&u->ring, &t->run->fd, 1);
	if (err >= 0)
		err = io_uring_register_buffers(&u->ring, &v, 1);
	u->depth = t->run->job.work == WORK_SEQ ? SEQ_DEPTH :
		   t->run->job.method->flags & PAGE_ONE_THREAD ?
						  t->run->job.threads :
						  1;
	t->own = u;
	return err < 0 ? err : 0;
}

static void uring_leave(struct page_thread *t)
{
	struct uring *u = t->own;

	io_uring_queue_exit(&u->ring);
	free(u);
}

static int uring_start(struct page_run *r)
{
	struct io_uring ring;
	int fd, err = ring_open(&ring);

	if (err < 0)
		return err;
	io_uring_queue_exit(&ring);
	fd = page_open(r, O_DIRECT);
	if (fd < 0)
		return fd;
	close(r->fd);
	r->fd = fd;
	return 0;
}

static void ask(struct page_thread *t, unsigned int slot, size_t room,
		uint64_t page, uint64_t len)
{
	struct uring *u = t->own;
	struct io_uring_sqe *e = io_uring_get_sqe(&u->ring);

	if (!e)
		b_die("io_uring: no entry");
	io_uring_prep_read_fixed(e, 0, t->buf + slot * room, (unsigned int)len,
				 page * B_PAGE, 0);
	e->flags |= IOSQE_FIXED_FILE;
	e->user_data = slot;
	u->slot[slot].page = page;
	u->slot[slot].len = len;
}

static unsigned int answer(struct page_thread *t)
{
	struct uring *u = t->own;
	struct io_uring_cqe *c;
	unsigned int slot;
	int err;

	do
		err = io_uring_submit_and_wait(&u->ring, 1);
	while (err == -EINTR);
	if (err >= 0)
		err = io_uring_peek_cqe(&u->ring, &c);
	if (err < 0)
		b_die("io_uring: %s", strerror(-err));
	slot = (unsigned int)c->user_data;
	if (c->res != (int)u->slot[slot].len)
		b_die("io_uring read: %d", c->res);
	io_uring_cqe_seen(&u->ring, c);
	return slot;
}

static void uring_random(struct page_thread *t)
{
	struct uring *u = t->own;
	unsigned int i;
	uint64_t got;

	for (i = 0; i < u->depth; i++)
		ask(t, i, B_PAGE, page_pick(t, &u->slot[i].word), B_PAGE);
	while (!page_stopped(t)) {
		i = answer(t);
		memcpy(&got, t->buf + i * B_PAGE + u->slot[i].word * 8, 8);
		page_judge(t, u->slot[i].page, u->slot[i].word, got);
		ask(t, i, B_PAGE, page_pick(t, &u->slot[i].word), B_PAGE);
	}
}

static void check_chunk(struct page_thread *t, unsigned int slot)
{
	struct uring *u = t->own;
	uint64_t k;

	for (k = 0; k < u->slot[slot].len / B_PAGE; k++)
		if (!page_right(t->buf + slot * SEQ_CHUNK + k * B_PAGE,
				t->run->id, u->slot[slot].page + k))
			t->wrong++;
	t->ops += k;
}

static void uring_seq(struct page_thread *t)
{
	uint64_t next = t->first, k;
	unsigned int busy = 0, slot = 0;
	bool first = true;

	for (;;) {
		if (!first) {
			slot = answer(t);
			busy--;
			check_chunk(t, slot);
		}
		for (; next < t->end && busy < SEQ_DEPTH; busy++) {
			k = t->end - next;
			if (k > SEQ_CHUNK / B_PAGE)
				k = SEQ_CHUNK / B_PAGE;
			ask(t, first ? busy : slot, SEQ_CHUNK, next,
			    k * B_PAGE);
			next += k;
		}
		first = false;
		if (!busy)
			break;
	}
}

const struct page_method page_uring = {
	.name = "uring",
	.what = "io_uring, O_DIRECT, a ring a thread: 1 random read in flight, "
		"4 of 256 KiB when sequential",
	.start = uring_start,
	.enter = uring_enter,
	.leave = uring_leave,
	.random = uring_random,
	.seq = uring_seq,
};

const struct page_method page_uring_qd = {
	.name = "uring-qd",
	.what = "io_uring, O_DIRECT, one thread with --threads reads in flight",
	.flags = PAGE_ONE_THREAD,
	.start = uring_start,
	.enter = uring_enter,
	.leave = uring_leave,
	.random = uring_random,
};
