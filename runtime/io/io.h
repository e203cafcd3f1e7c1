/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * io.h - reading files: one piece at a time, or many at once.
 *
 * Engines. pread reads in the calling thread; many pieces that the page cache
 * does not have are in flight at once there, too, as the kernel is first asked
 * for each one without waiting. io_uring and aio (io_submit) put up to IO_DEPTH
 * pieces in flight, past the page cache as well. A program or an administrator
 * may refuse them at any time (a seccomp filter, kernel.io_uring_disabled,
 * RLIMIT_MEMLOCK, fs.aio-max-nr): whatever was not read is then read by the
 * next engine, and the refusal is remembered for the process. No request is
 * lost.
 *
 *	IO_AUTO   pread; but for many pieces past the page cache (O_DIRECT)
 *	          io_uring, else aio, else pread
 *	IO_PREAD  pread only
 *	IO_URING  io_uring, else pread
 *	IO_AIO    aio for many pieces past the page cache, else pread
 *
 * Measured on a disk (4 KiB, 32 pieces; us for one): absent from the page
 * cache, pread one after the other 74, io_uring 20, pread as above 13; in it,
 * pread 1.2, io_uring 1.3; O_DIRECT: pread 100, io_uring 16 to 24, aio 20.
 *
 * A context (struct io_ctx) has a ring of its own, made when it is first needed.
 * It is used by one thread at a time, not always the same one. Nothing of it
 * is in flight when a function returns, so it may pass from thread to thread.
 *
 * All functions are async-signal-safe, allocate nothing, take no lock and leave
 * errno alone. Progress: as the kernel's calls.
 */
#ifndef FL_IO_IO_H
#define FL_IO_IO_H

#include "base/base.h"
#include "base/order.h"

enum io_engine {
	IO_AUTO,
	IO_PREAD,
	IO_URING,
	IO_AIO,
};

#define IO_DEPTH 32

struct io_uring_sqe;
struct io_uring_cqe;

/* An io_uring; io_uring.c. Zero but for fd where there is none. */
struct io_ring {
	/* -1: none. Atomic because the fault layer renumbers it when the
	 * program wants the number (io_fd_reserve). */
	_Atomic(int) fd;
	bool bound; /* made with SINGLE_ISSUER: one thread only */
	uint32_t sq_mask;
	uint32_t cq_mask;
	/* In memory shared with the kernel. */
	_Atomic(uint32_t) *sq_head; /* the kernel's */
	_Atomic(uint32_t) *sq_tail;
	_Atomic(uint32_t) *cq_head;
	_Atomic(uint32_t) *cq_tail; /* the kernel's */
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
	void *map;
	size_t map_len;
	size_t sqes_len;
};

struct io_ctx {
	enum io_engine engine;
	bool pinned;       /* io_ctx_pin() */
	unsigned long aio; /* an aio context, 0: none */
	struct io_ring ring;
};

/* One piece. @res is set by io_read_many(), as io_read() returns it. */
struct io_req {
	int fd;
	void *buf;
	size_t len;
	uint64_t off;
	long res;
	bool direct; /* @fd has O_DIRECT: a hint for the choice */
	size_t got;  /* private */
};

/* io_ctx_init - no ring is made yet. */
void io_ctx_init(struct io_ctx *ctx, enum io_engine engine);

/*
 * io_ctx_pin - from now on only one thread, and always the same, will use @ctx:
 * its ring may then be bound to that thread, which is cheaper.
 */
void io_ctx_pin(struct io_ctx *ctx);

/* io_ctx_destroy - give the ring back; @ctx is as after io_ctx_init(). */
void io_ctx_destroy(struct io_ctx *ctx);

/*
 * io_ctx_fork_child - in a child of fork: the ring is the parent's; forget it.
 * @ctx is as after io_ctx_init(). Only for a context that no thread was using
 * when the process forked.
 */
void io_ctx_fork_child(struct io_ctx *ctx);

/*
 * io_read - read @len bytes at @off of @fd.
 *
 * Returns @len; less at the end of the file, or where a descriptor with
 * O_DIRECT cannot go on because what has come so far is no multiple of its
 * block (which is at the end of the file, too, if at all); or -errno, also
 * when a part was read.
 */
long io_read(struct io_ctx *ctx, int fd, void *buf, size_t len, uint64_t off);

/* io_read_many - the same for each of @n requests, in any order. */
void io_read_many(struct io_ctx *ctx, struct io_req *req, unsigned int n);

/*
 * io_start - begin to read and return: the one exception to what is said above.
 * @ctx serves nothing else, and @req and its buffer stay, until io_finish().
 * Returns false where no engine can; nothing has happened then.
 */
bool io_start(struct io_ctx *ctx, struct io_req *req);

/* io_finish - wait for it; the result as of io_read(). */
long io_finish(struct io_ctx *ctx, struct io_req *req);

/*
 * io_engine_refused - has the kernel said no to @engine in this process?
 * io_engine_allow - forget that; a child of fork may, and tests.
 */
bool io_engine_refused(enum io_engine engine);
void io_engine_allow(void);

/* "auto", "pread", "io_uring", "aio". */
const char *io_engine_name(enum io_engine engine);

/*
 * Descriptors that stay open beside the program's own. What is called for each
 * one, set by the layer that keeps the program's hands off them before any
 * thread runs; as they stand they dup to a high number, and close.
 *
 * io_fd_reserve: a duplicate of @fd with close-on-exec under a number the
 * program is unlikely to use, and stored in *@owner, which is updated when it
 * has to move; @fd stays open. The number or -errno.
 * io_fd_release: closes it and stores -1.
 */
extern int (*io_fd_reserve)(int fd, _Atomic(int) *owner);
extern void (*io_fd_release)(_Atomic(int) *owner);

/*
 * io_keep_fd - @fd, which the caller just opened, under a reserved number, or
 * the number it has where none can be had. Returns the number.
 */
int io_keep_fd(int fd, _Atomic(int) *owner);

/*
 * The failing engine of the tests: what each raw read of any engine yields is
 * spoilt on the way up. NULL switches it off.
 */
struct io_inject {
	unsigned int eio_every;   /* each n-th read: EIO. 0: none */
	unsigned int short_every; /* each n-th read: half of it */
	unsigned int eintr_every; /* each n-th read: EINTR */
	unsigned int delay_us;    /* each read takes so much longer */
	uint64_t bad_off;         /* reads that touch these bytes: EIO */
	uint64_t bad_len;
};

void io_inject(const struct io_inject *in);

#endif
