// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <string.h>

#include "io/store.h"
#include "io/engine.h"
#include "base/ban.h"

/* "/proc/thread-self/fd/@fd". The main thread, which is what /proc/self shows,
 * may be gone. */
static void proc_path(char path[64], int fd)
{
	static const char dir[] = "/proc/thread-self/fd/";
	char digits[12];
	unsigned int n = 0;
	char *p = path + sizeof(dir) - 1;

	memcpy(path, dir, sizeof(dir));
	do
		digits[n++] = (char)('0' + fd % 10);
	while ((fd /= 10) > 0);
	while (n > 0)
		*p++ = digits[--n];
	*p = '\0';
}

/* The same file, opened once more with @flags; or -errno. */
static int reopen(int fd, int flags)
{
	struct sys_stat a, b;
	char path[64];
	long r = sys_fstat(fd, &a);

	if (r < 0)
		return (int)r;
	/* Opening anything else may do something. */
	if (!S_ISREG(a.mode) && !S_ISBLK(a.mode))
		return -EINVAL;
	proc_path(path, fd);
	r = sys_openat(AT_FDCWD, path, flags | O_CLOEXEC | O_NOCTTY, 0);
	if (r < 0)
		return (int)r;
	if (sys_fstat((int)r, &b) < 0 || a.ino != b.ino || a.dev != b.dev) {
		sys_close((int)r);
		return -ENOENT;
	}
	return (int)r;
}

/* Record locks on the file, the process's own or another's. */
static bool has_locks(int fd)
{
	struct flock64 l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return sys_fcntl(fd, F_OFD_GETLK, (long)&l) == 0 && l.l_type != F_UNLCK;
}

int store_file_init(struct store *s, int fd, int direct_mode)
{
	long mode = sys_fcntl(fd, F_GETFL, 0);
	int r;

	store_zero_init(s);
	s->kind = STORE_FILE;
	if (mode < 0)
		return (int)mode;
	if (has_locks(fd))
		return -EBUSY;
	r = reopen(fd, (int)(mode & O_ACCMODE));
	if (r >= 0) {
		s->own = true;
		mode = io_fd_reserve(r, &s->fd);
		sys_close(r);
		/* Not among the program's own: it might run out of them. */
		if (mode < 0)
			return (int)mode;
		store_advise(s, POSIX_FADV_RANDOM);
	} else {
		r = io_fd_reserve(fd, &s->fd);
		if (r < 0)
			return r;
	}
	if (direct_mode == STORE_DIRECT_NO)
		return 0;
	r = reopen(fd, O_RDONLY | O_DIRECT);
	if (r >= 0) {
		if (io_fd_reserve(r, &s->direct_fd) >= 0)
			st_rlx(&s->direct, true);
		sys_close(r);
	}
	return 0;
}

void store_advise(struct store *s, int advice)
{
	if (s->own)
		sys_call4(__NR_fadvise64, ld_rlx(&s->fd), 0, 0, advice);
}

void store_ahead(struct store *s, uint64_t off, size_t len)
{
	int fd;

	if (s->kind != STORE_FILE)
		return;
	do {
		fd = ld_rlx(&s->fd);
		sys_call4(__NR_fadvise64, fd, off, len, POSIX_FADV_WILLNEED);
	} while (unlikely(!io_fd_still(&s->fd, fd)));
}

void store_zero_init(struct store *s)
{
	*s = (struct store){ .kind = STORE_ZERO };
	st_rlx(&s->fd, -1);
	st_rlx(&s->direct_fd, -1);
}

/* Does the user's table, which may be of an older header, have @member? */
#define HAS(ops, member)                                        \
	((ops)->size >= offsetof(struct fl_store_ops, member) + \
				sizeof((ops)->member) &&        \
	 (ops)->member)

int store_user_init(struct store *s, const struct fl_store_ops *ops, void *arg)
{
	store_zero_init(s);
	if (!ops || !HAS(ops, read))
		return -EINVAL;
	s->kind = STORE_USER;
	s->ops = ops;
	s->arg = arg;
	return 0;
}

void store_destroy(struct store *s)
{
	if (ld_rlx(&s->fd) >= 0)
		io_fd_release(&s->fd);
	if (ld_rlx(&s->direct_fd) >= 0)
		io_fd_release(&s->direct_fd);
	if (s->kind == STORE_USER && HAS(s->ops, release)) {
		int saved = errno;

		s->ops->release(s->arg);
		errno = saved;
	}
	store_zero_init(s);
}

/* Reading. */

static bool may_direct(struct store *s, const void *buf, size_t len,
		       uint64_t off)
{
	if (!ld_rlx(&s->direct))
		return false;
	return (((uintptr_t)buf | len | off) & (STORE_ALIGN - 1)) == 0;
}

/* Is it O_DIRECT that does not work here? */
static bool no_direct(struct store *s, long err)
{
	if (err != -EINVAL && err != -EOPNOTSUPP)
		return false;
	st_rlx(&s->direct, false);
	return true;
}

static long read_via(_Atomic(int) *fd, struct io_ctx *ctx, void *buf,
		     size_t len, uint64_t off)
{
	for (;;) {
		int now = ld_rlx(fd);
		long r = io_read(ctx, now, buf, len, off);

		if (likely(io_fd_still(fd, now)))
			return r;
	}
}

/* What is left of a piece of which @got bytes were read by O_DIRECT. */
static long read_rest(struct store *s, struct io_ctx *ctx, void *buf,
		      size_t len, uint64_t off, long got)
{
	size_t have = (size_t)got;
	long r;

	if (have == len)
		return got;
	r = read_via(&s->fd, ctx, (char *)buf + have, len - have, off + have);
	return r < 0 ? r : got + r;
}

static long read_file(struct store *s, struct io_ctx *ctx, void *buf,
		      size_t len, uint64_t off)
{
	long got = 0;

	if (may_direct(s, buf, len, off)) {
		got = read_via(&s->direct_fd, ctx, buf, len, off);
		if (got < 0) {
			if (!no_direct(s, got))
				return got;
			got = 0;
		}
	}
	return read_rest(s, ctx, buf, len, off, got);
}

static long read_user(struct store *s, void *buf, size_t len, uint64_t off)
{
	unsigned int retries = 0;
	int saved = errno;
	long r;

	do
		r = s->ops->read(s->arg, buf, len, off);
	while (r == -EINTR && retries++ < IO_RETRIES);
	errno = saved;
	/* Not to be believed. */
	if (r < -FL_MAX_ERRNO || (r > 0 && (size_t)r > len))
		return -EIO;
	return r;
}

long store_read(struct store *s, struct io_ctx *ctx, void *buf, size_t len,
		uint64_t off)
{
	switch (s->kind) {
	case STORE_FILE:
		return read_file(s, ctx, buf, len, off);
	case STORE_USER:
		return read_user(s, buf, len, off);
	case STORE_ZERO:
		break;
	}
	memset(buf, 0, len);
	return (long)len;
}

void store_read_many(struct store *s, struct io_ctx *ctx, struct io_req *req,
		     unsigned int n)
{
	int fd = ld_rlx(&s->fd), direct = ld_rlx(&s->direct_fd);
	bool moved;

	if (s->kind != STORE_FILE || n == 1) {
		for (unsigned int i = 0; i < n; i++)
			req[i].res = store_read(s, ctx, req[i].buf, req[i].len,
						req[i].off);
		return;
	}
	for (unsigned int i = 0; i < n; i++) {
		struct io_req *q = &req[i];

		q->direct = may_direct(s, q->buf, q->len, q->off);
		q->fd = q->direct ? direct : fd;
	}
	io_read_many(ctx, req, n);
	moved = !io_fd_still(&s->fd, fd) || !io_fd_still(&s->direct_fd, direct);
	for (unsigned int i = 0; i < n; i++) {
		struct io_req *q = &req[i];

		if (unlikely(moved) ||
		    (q->direct && q->res < 0 && no_direct(s, q->res)))
			q->res = read_file(s, ctx, q->buf, q->len, q->off);
		else if (q->direct && q->res >= 0)
			q->res = read_rest(s, ctx, q->buf, q->len, q->off,
					   q->res);
	}
}

bool store_start(struct store *s, struct io_ctx *ctx, struct io_req *req)
{
	if (s->kind != STORE_FILE ||
	    !may_direct(s, req->buf, req->len, req->off))
		return false;
	req->fd = ld_rlx(&s->direct_fd);
	req->direct = true;
	if (!io_start(ctx, req))
		return false;
	/* Begun on a number that was no longer ours? */
	req->direct = io_fd_still(&s->direct_fd, req->fd);
	return true;
}

long store_finish(struct store *s, struct io_ctx *ctx, struct io_req *req)
{
	long got = io_finish(ctx, req);

	if (unlikely(!req->buf))
		return got;
	if (unlikely(!req->direct || (got < 0 && no_direct(s, got))))
		return read_file(s, ctx, req->buf, req->len, req->off);
	return got < 0 ? got :
			 read_rest(s, ctx, req->buf, req->len, req->off, got);
}

/* Writing. */

static long write_file(struct store *s, const void *buf, size_t len,
		       uint64_t off)
{
	unsigned int retries = 0;
	size_t done = 0;

	while (done < len) {
		int fd = ld_rlx(&s->fd);
		long r = sys_pwrite(fd, (const char *)buf + done, len - done,
				    (int64_t)(off + done));

		if (!io_fd_still(&s->fd, fd))
			continue;
		if (r > 0) {
			done += (size_t)r;
			retries = 0;
			continue;
		}
		if (r == 0)
			return -ENOSPC;
		if ((r != -EINTR && r != -EAGAIN) || retries++ == IO_RETRIES)
			return r;
	}
	return (long)len;
}

long store_write(struct store *s, const void *buf, size_t len, uint64_t off)
{
	int saved = errno;
	long r;

	if (s->kind == STORE_FILE)
		return write_file(s, buf, len, off);
	if (s->kind == STORE_ZERO)
		return (long)len;
	if (!HAS(s->ops, write))
		return -EROFS;
	r = s->ops->write(s->arg, buf, len, off);
	errno = saved;
	/* All or nothing, says the contract. */
	if (r < -FL_MAX_ERRNO || (r >= 0 && (size_t)r != len))
		return -EIO;
	return r;
}

bool store_writable(const struct store *s)
{
	return s->kind != STORE_USER || HAS(s->ops, write);
}

int store_flush(struct store *s)
{
	int saved = errno;
	int r;

	if (s->kind == STORE_FILE)
		return (int)sys_call1(__NR_fdatasync, ld_rlx(&s->fd));
	if (s->kind == STORE_ZERO || !HAS(s->ops, flush))
		return 0;
	r = s->ops->flush(s->arg);
	errno = saved;
	return r;
}

static int64_t file_size(int fd)
{
	struct sys_stat st;
	uint64_t bytes = 0;
	long r = sys_fstat(fd, &st);

	if (r < 0)
		return r;
	if (!S_ISBLK(st.mode))
		return (int64_t)st.size;
	r = sys_call3(__NR_ioctl, fd, BLKGETSIZE64, &bytes);
	return r < 0 ? r : (int64_t)bytes;
}

int64_t store_size(struct store *s)
{
	int saved = errno;
	int64_t r;

	if (s->kind == STORE_FILE)
		return file_size(ld_rlx(&s->fd));
	if (s->kind == STORE_ZERO || !HAS(s->ops, length))
		return INT64_MAX;
	r = s->ops->length(s->arg);
	errno = saved;
	return r < -FL_MAX_ERRNO ? -EIO : r;
}
