/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * engine.h - what io.c and the engines know of each other.
 *
 * uring_read_many() and aio_read_many() read what they can. A request whose
 * @res is still IO_PENDING afterwards was not read, and nothing is in flight
 * for it; @got says how much of it there is.
 */
#ifndef FL_IO_ENGINE_H
#define FL_IO_ENGINE_H

#include "io/io.h"
#include "base/sys.h"

#define IO_PENDING LONG_MIN

/* How often in a row EINTR and EAGAIN are not an answer. */
#define IO_RETRIES 1000

/* The kernel moves at most 2 GiB less a page in one call. */
#define IO_PIECE_MAX ((size_t)1 << 30)

void uring_read_many(struct io_ctx *ctx, struct io_req *req, unsigned int n);
/* In flight from the one to the other; false: it is not. */
bool uring_start(struct io_ctx *ctx, struct io_req *req);
void uring_finish(struct io_ctx *ctx, struct io_req *req);
void uring_destroy(struct io_ring *r);
void uring_fork_child(struct io_ring *r);

void aio_read_many(struct io_ctx *ctx, struct io_req *req, unsigned int n);
void aio_destroy(struct io_ctx *ctx);

/* The rest of @req by pread; sets @res. */
void pread_finish(struct io_req *req);

/* The same for all pending ones of @n, in flight at once through the page
 * cache. */
void pread_many(struct io_req *req, unsigned int n);

/* After the use of @fd: was it still *@owner's? */
static inline bool io_fd_still(_Atomic(int) *owner, int fd)
{
	/* [MO:fd-owner] pairs with the layer that moves the descriptor: who
	 * has met the program's file on the number sees that it has moved. */
	return ld_sc(owner) == fd;
}

/*
 * io_advance - account @res, which the kernel returned for the rest of @req.
 * Returns true when the request is finished, or has to go to another engine
 * (@res of it is then IO_PENDING); false when the rest is to be asked for again.
 */
bool io_advance(struct io_req *req, long res);

/* io_refuse - remember that the kernel refuses @engine. */
void io_refuse(enum io_engine engine);

/*
 * io_outcome - @res of a raw read of @len bytes at @off, spoilt if the tests
 * want it.
 */
extern _Atomic(bool) io_inject_on;
long io_spoil(long res, size_t len, uint64_t off);

static inline long io_outcome(long res, size_t len, uint64_t off)
{
	/* Relaxed: the tests switch it while nothing reads. */
	if (likely(!ld_rlx(&io_inject_on)))
		return res;
	return io_spoil(res, len, off);
}

static inline size_t io_rest(const struct io_req *req)
{
	size_t rest = req->len - req->got;

	return rest < IO_PIECE_MAX ? rest : IO_PIECE_MAX;
}

#endif
