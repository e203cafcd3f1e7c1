// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The aio engine: io_submit(2) and io_getevents(2), for descriptors with
 * O_DIRECT where io_uring is refused. Each request is submitted once; what is
 * missing then is pread's to read.
 *
 * Requests through the page cache are pread's, too: io_submit() reads them one
 * after the other, and holds each back until the next timer tick when it was
 * given more than two (measured on Linux 6.18: 4 ms for a page that is not in
 * the cache).
 *
 * Fork: the context stays the parent's. The kernel's ring of it, a few pages,
 * stays mapped in the child.
 */
#include <limits.h>
#include <linux/aio_abi.h>

#include "io/engine.h"
#include "base/ban.h"

/* So few because they are on the stack, perhaps that of a signal handler. */
#define CHUNK 8

/* What the kernel shows of a context at its address. */
struct aio_ring {
	uint32_t id;
	uint32_t nr;
	_Atomic(uint32_t) head;
	_Atomic(uint32_t) tail;
};

struct run {
	struct io_ctx *ctx;
	struct io_req *req;
	unsigned int n, next;
	unsigned int inflight;
};

void aio_destroy(struct io_ctx *ctx)
{
	if (ctx->aio)
		sys_call1(__NR_io_destroy, ctx->aio);
	ctx->aio = 0;
}

/* Prepares up to @max requests. Returns how many. */
static unsigned int prepare(struct run *a, struct iocb *cb, struct iocb **list,
			    unsigned int max)
{
	unsigned int k = 0;

	for (; k < max && a->next < a->n; a->next++) {
		struct io_req *q = &a->req[a->next];

		if (q->res != IO_PENDING || !q->direct)
			continue;
		cb[k] = (struct iocb){
			.aio_data = a->next,
			.aio_lio_opcode = IOCB_CMD_PREAD,
			.aio_fildes = (uint32_t)q->fd,
			.aio_buf = (uint64_t)(uintptr_t)q->buf + q->got,
			.aio_nbytes = io_rest(q),
			.aio_offset = (int64_t)(q->off + q->got),
		};
		list[k] = &cb[k];
		k++;
	}
	return k;
}

/*
 * Submits the next few. A request the kernel does not take is left to pread;
 * so is the rest of the chunk when it takes none for lack of something. Returns
 * 0, or -errno when it refuses the call.
 */
static long submit(struct run *a)
{
	unsigned int room = IO_DEPTH - a->inflight;
	struct iocb cb[CHUNK], *list[CHUNK];
	unsigned int k = prepare(a, cb, list, room < CHUNK ? room : CHUNK);

	for (unsigned int i = 0; i < k;) {
		long r =
			sys_call3(__NR_io_submit, a->ctx->aio, k - i, &list[i]);

		if (r > 0) {
			a->inflight += (unsigned int)r;
			i += (unsigned int)r;
		} else if (r == -EPERM || r == -ENOSYS || r == -EACCES) {
			return r;
		} else if (r == -EAGAIN) {
			return 0;
		} else {
			i++;
		}
	}
	return 0;
}

/* Waits for one at least. 0 or -errno. */
static long reap(struct run *a)
{
	struct io_event ev[CHUNK];
	unsigned int min = a->inflight < CHUNK ? a->inflight : CHUNK;
	long r =
		sys_call5(__NR_io_getevents, a->ctx->aio, min, CHUNK, ev, NULL);

	if (r < 0)
		return r == -EINTR ? 0 : r;
	for (long i = 0; i < r; i++)
		io_advance(&a->req[ev[i].data], (long)ev[i].res);
	a->inflight -= (unsigned int)r;
	return 0;
}

/* Nothing may be in flight when the kernel no longer lets us wait for it: it
 * waits in io_destroy, or shows what has come in memory. */
static void drain(struct run *a)
{
	struct aio_ring *ring = (void *)a->ctx->aio;

	if (sys_call1(__NR_io_destroy, a->ctx->aio) == 0)
		return;
	/* [MO:aio-ring] pairs with the kernel, which moves the tail when the
	 * bytes of a request are there. */
	while ((ld_acq(&ring->tail) + ring->nr - ld_acq(&ring->head)) %
		       ring->nr <
	       a->inflight)
		sys_sched_yield();
}

static bool aio_get(struct io_ctx *ctx)
{
	long err;

	if (ctx->aio)
		return true;
	err = sys_call2(__NR_io_setup, IO_DEPTH, &ctx->aio);
	/* EAGAIN: fs.aio-max-nr, which others use up, too. */
	if (err && err != -EAGAIN)
		io_refuse(IO_AIO);
	return !err;
}

void aio_read_many(struct io_ctx *ctx, struct io_req *req, unsigned int n)
{
	struct run a = { .ctx = ctx, .req = req, .n = n };
	long err = 0;

	if (!aio_get(ctx))
		return;
	while (!err && (a.next < n || a.inflight)) {
		if (a.next < n && a.inflight < IO_DEPTH)
			err = submit(&a);
		if (!err && a.inflight &&
		    (a.next == n || a.inflight == IO_DEPTH))
			err = reap(&a);
	}
	if (!err)
		return;
	if (a.inflight)
		drain(&a);
	else
		aio_destroy(ctx);
	ctx->aio = 0;
	io_refuse(IO_AIO);
}
