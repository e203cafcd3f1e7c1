// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Contexts, the choice of an engine and what is done when the kernel refuses
 * one.
 */
#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>

#include "io/engine.h"
#include "base/ban.h"

/*
 * Bit 1 << engine: the kernel has refused it. Relaxed: a hint; whoever does not
 * see it yet asks the kernel once more.
 */
static _Atomic(uint32_t) refused;

void io_refuse(enum io_engine engine)
{
	or_rlx(&refused, 1u << engine);
}

bool io_engine_refused(enum io_engine engine)
{
	return ld_rlx(&refused) & 1u << engine;
}

void io_engine_allow(void)
{
	st_rlx(&refused, 0);
}

const char *io_engine_name(enum io_engine engine)
{
	static const char *const name[] = {
		[IO_AUTO] = "auto",
		[IO_PREAD] = "pread",
		[IO_URING] = "io_uring",
		[IO_AIO] = "aio",
	};

	return name[engine];
}

/* Descriptors. */

/* The top quarter of the first thousand, where few programs get to, and the
 * kernel's table of descriptors stays small. */
static int dup_high(int fd, _Atomic(int) *owner)
{
	struct rlimit64 lim = { 1024, 1024 };
	long from, r;

	sys_call4(__NR_prlimit64, 0, RLIMIT_NOFILE, NULL, &lim);
	from = lim.rlim_cur < 1024 ? (long)lim.rlim_cur : 1024;
	r = sys_fcntl(fd, F_DUPFD_CLOEXEC, from - from / 4);
	if (r >= 0)
		st_rlx(owner, (int)r);
	return (int)r;
}

static void close_owned(_Atomic(int) *owner)
{
	int fd = xchg_rlx(owner, -1);

	if (fd >= 0)
		sys_close(fd);
}

int (*io_fd_reserve)(int fd, _Atomic(int) *owner) = dup_high;
void (*io_fd_release)(_Atomic(int) *owner) = close_owned;

int io_keep_fd(int fd, _Atomic(int) *owner)
{
	int r = io_fd_reserve(fd, owner);

	if (r < 0) {
		st_rlx(owner, fd);
		return fd;
	}
	sys_close(fd);
	return r;
}

/* Contexts. */

void io_ctx_init(struct io_ctx *ctx, enum io_engine engine)
{
	*ctx = (struct io_ctx){ .engine = engine };
	st_rlx(&ctx->ring.fd, -1);
}

void io_ctx_pin(struct io_ctx *ctx)
{
	ctx->pinned = true;
}

void io_ctx_destroy(struct io_ctx *ctx)
{
	uring_destroy(&ctx->ring);
	aio_destroy(ctx);
}

void io_ctx_fork_child(struct io_ctx *ctx)
{
	uring_fork_child(&ctx->ring);
	/* The parent's aio context does not exist here. */
	ctx->aio = 0;
}

/* Reading. */

bool io_advance(struct io_req *req, long res)
{
	size_t len = io_rest(req);

	res = io_outcome(res, len, req->off + req->got);
	switch (res) {
	case 0:
		req->res = (long)req->got;
		return true;
	case -EINVAL:
		if (req->got) {
			req->res = (long)req->got;
			return true;
		}
		/* fall through */
	case -EINTR:
	case -EAGAIN:
	case -EOPNOTSUPP:
	case -ENOSYS:
	case -EPERM:
	case -ENOMEM:
	case -ECANCELED:
		/* May be the engine's trouble and not the file's: let pread
		 * have the last word. */
		return true;
	}
	if (res < 0) {
		req->res = res;
		return true;
	}
	req->got += (size_t)res;
	if (req->got < req->len)
		return false;
	req->res = (long)req->got;
	return true;
}

void io_read_many(struct io_ctx *ctx, struct io_req *req, unsigned int n)
{
	enum io_engine e = ctx->engine;
	bool past = e == IO_AUTO && n > 1; /* all go past the page cache */

	for (unsigned int i = 0; i < n; i++) {
		req[i].res = IO_PENDING;
		req[i].got = 0;
		past = past && req[i].direct;
	}
	if ((e == IO_URING || past) && !io_engine_refused(IO_URING))
		uring_read_many(ctx, req, n);
	past = past && io_engine_refused(IO_URING);
	if ((e == IO_AIO || past) && n > 1 && !io_engine_refused(IO_AIO))
		aio_read_many(ctx, req, n);
	pread_many(req, n);
}

long io_read(struct io_ctx *ctx, int fd, void *buf, size_t len, uint64_t off)
{
	struct io_req req = {
		.fd = fd, .buf = buf, .len = len, .off = off, .got = 0
	};

	if (unlikely(ctx->engine == IO_URING))
		io_read_many(ctx, &req, 1);
	else
		pread_finish(&req);
	return req.res;
}

bool io_start(struct io_ctx *ctx, struct io_req *req)
{
	req->res = IO_PENDING;
	req->got = 0;
	return !io_engine_refused(IO_URING) && uring_start(ctx, req);
}

long io_finish(struct io_ctx *ctx, struct io_req *req)
{
	uring_finish(ctx, req);
	if (unlikely(!req->buf))
		return -EIO;
	if (unlikely(req->res == IO_PENDING))
		pread_finish(req);
	return req->res;
}
