// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * wrap_io.c - buffers of system calls in demand regions.
 *
 * Where faulting threads serve their own faults, the kernel finds of a demand
 * region only what is present; a page that is absent is EFAULT, or a short count
 * after what came before it. The buffer is made present first (fl_touch), which
 * costs a comparison where there are no such regions. That is better than to
 * try again after EFAULT: a datagram would be lost, a file's write come back
 * short, which hardly any program expects. As a page may be evicted before the
 * kernel gets to it, EFAULT is tried again all the same.
 *
 * Buffers larger than a window, which may be larger than the memory budget, go
 * in pieces where that is no different: all writes; reads of what has a position.
 * A read of a pipe ends with its first piece.
 *
 * Not covered: buffers of aio, io_uring, vmsplice and process_vm_readv, and
 * those that libc itself hands on (fputs and printf look at every byte first, so
 * their pages are there).
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "next.h"
#include "shim.h"
#include "touch.h"
#include "base/sys.h"

/* Macros where the compiler optimizes. */
#undef fread_unlocked
#undef fwrite_unlocked

#define WINDOW ((size_t)1 << 20)
#define TRIES 8

/* ---------------------------------------------------------------------------
 * One buffer, in pieces
 */

struct io {
	enum next_id id;
	bool in;
	int fd;
	char *buf;
	size_t n;
	off64_t off; /* read and written at a place */
	int flags;
};

static ssize_t piece(const struct io *io, size_t done, size_t n)
{
	char *buf = io->buf + done;

	switch (io->id) {
	case NEXT_read:
		return next(read)(io->fd, buf, n);
	case NEXT_write:
		return next(write)(io->fd, buf, n);
	case NEXT_pread64:
		return next(pread64)(io->fd, buf, n, io->off + (off64_t)done);
	case NEXT_pwrite64:
		return next(pwrite64)(io->fd, buf, n, io->off + (off64_t)done);
	default:
		return next(send)(io->fd, buf, n, io->flags);
	}
}

static bool absent(const char *at)
{
	unsigned char vec = 1;

	sys_mincore((void *)((uintptr_t)at & FL_PAGE_MASK), FL_PAGE_SIZE, &vec);
	return !(vec & 1);
}

static bool has_position(int fd)
{
	return sys_call3(__NR_lseek, fd, 0, SEEK_CUR) >= 0;
}

static ssize_t pieces(const struct io *io)
{
	size_t done = 0, n = WINDOW;
	int saved = errno, tries = TRIES;
	ssize_t got;

	while (true) {
		if (n > io->n - done)
			n = io->n - done;
		fl_touch(io->buf + done, n, io->in);
		got = piece(io, done, n);
		if (got < 0 && errno == EFAULT && --tries > 0)
			continue;
		if (got < 0 && done == 0)
			return got;
		if (got > 0)
			done += (size_t)got;
		if (got <= 0 || done == io->n)
			break;
		/* Short for a reason of its own? */
		if ((size_t)got < n && !absent(io->buf + done))
			break;
		if (io->in && !has_position(io->fd))
			break;
		tries = TRIES;
	}
	errno = saved;
	return (ssize_t)done;
}

/* A buffer near demand regions: at its beginning or end? */
FL_COLD static ssize_t far(enum next_id id, bool in, int fd, uintptr_t buf,
			   size_t n, off64_t off, int flags)
{
	struct io io = { id, in, fd, (char *)buf, n, off, flags };

	if (!fl_touch(io.buf, n < WINDOW ? n : WINDOW, in) &&
	    !fl_touch(io.buf + n - 1, 1, in))
		return piece(&io, 0, n);
	return pieces(&io);
}

FL_API ssize_t read(int fd, void *buf, size_t n)
{
	if (near(buf, n))
		return far(NEXT_read, true, fd, (uintptr_t)buf, n, 0, 0);
	return next(read)(fd, buf, n);
}

FL_API ssize_t write(int fd, const void *buf, size_t n)
{
	if (near(buf, n))
		return far(NEXT_write, false, fd, (uintptr_t)buf, n, 0, 0);
	return next(write)(fd, buf, n);
}

FL_API ssize_t pread(int fd, void *buf, size_t n, off_t off)
{
	if (near(buf, n))
		return far(NEXT_pread64, true, fd, (uintptr_t)buf, n, off, 0);
	return next(pread)(fd, buf, n, off);
}

FL_API ssize_t pread64(int fd, void *buf, size_t n, off64_t off)
{
	if (near(buf, n))
		return far(NEXT_pread64, true, fd, (uintptr_t)buf, n, off, 0);
	return next(pread64)(fd, buf, n, off);
}

FL_API ssize_t pwrite(int fd, const void *buf, size_t n, off_t off)
{
	if (near(buf, n))
		return far(NEXT_pwrite64, false, fd, (uintptr_t)buf, n, off, 0);
	return next(pwrite)(fd, buf, n, off);
}

FL_API ssize_t pwrite64(int fd, const void *buf, size_t n, off64_t off)
{
	if (near(buf, n))
		return far(NEXT_pwrite64, false, fd, (uintptr_t)buf, n, off, 0);
	return next(pwrite64)(fd, buf, n, off);
}

FL_API ssize_t send(int fd, const void *buf, size_t n, int flags)
{
	if (near(buf, n))
		return far(NEXT_send, false, fd, (uintptr_t)buf, n, 0, flags);
	return next(send)(fd, buf, n, flags);
}

/* ---------------------------------------------------------------------------
 * One call: messages and vectors
 */

static bool touch_vec(const struct iovec *v, size_t n, bool in)
{
	bool care = false;

	for (size_t i = 0; i < n; i++)
		care |= touch(v[i].iov_base, v[i].iov_len, in);
	return care;
}

static bool touch_msg(const struct msghdr *m, bool in)
{
	return touch_vec(m->msg_iov, m->msg_iovlen, in);
}

static bool touch_msgs(const struct mmsghdr *m, unsigned int n, bool in)
{
	bool care = false;

	for (unsigned int i = 0; i < n; i++)
		care |= touch_msg(&m[i].msg_hdr, in);
	return care;
}

/* @touch says whether to care; the call is repeated while it finds pages gone. */
#define REPEAT(ret, touch, call)                                          \
	do {                                                              \
		int tries_ = TRIES;                                       \
		bool care_;                                               \
                                                                          \
		do {                                                      \
			care_ = (touch);                                  \
			ret = (call);                                     \
		} while (unlikely(care_) && ret < 0 && errno == EFAULT && \
			 --tries_ > 0);                                   \
	} while (0)

#define VEC(name, in, params, args)                               \
	FL_API ssize_t name params                                \
	{                                                         \
		ssize_t ret;                                      \
                                                                  \
		REPEAT(ret, n > 0 && touch_vec(v, (size_t)n, in), \
		       next(name) args);                          \
		return ret;                                       \
	}
VEC(readv, true, (int fd, const struct iovec *v, int n), (fd, v, n))
VEC(writev, false, (int fd, const struct iovec *v, int n), (fd, v, n))
VEC(preadv, true, (int fd, const struct iovec *v, int n, off_t o),
    (fd, v, n, o))
VEC(pwritev, false, (int fd, const struct iovec *v, int n, off_t o),
    (fd, v, n, o))
VEC(preadv64, true, (int fd, const struct iovec *v, int n, off64_t o),
    (fd, v, n, o))
VEC(pwritev64, false, (int fd, const struct iovec *v, int n, off64_t o),
    (fd, v, n, o))
VEC(preadv2, true, (int fd, const struct iovec *v, int n, off_t o, int f),
    (fd, v, n, o, f))
VEC(pwritev2, false, (int fd, const struct iovec *v, int n, off_t o, int f),
    (fd, v, n, o, f))
VEC(preadv64v2, true, (int fd, const struct iovec *v, int n, off64_t o, int f),
    (fd, v, n, o, f))
VEC(pwritev64v2, false,
    (int fd, const struct iovec *v, int n, off64_t o, int f), (fd, v, n, o, f))

#define CALL(type, name, touch, params, args)        \
	FL_API type name params                      \
	{                                            \
		type ret;                            \
                                                     \
		REPEAT(ret, touch, next(name) args); \
		return ret;                          \
	}
CALL(ssize_t, sendto, touch(buf, n, 0),
     (int fd, const void *buf, size_t n, int flags, const struct sockaddr *to,
      socklen_t len),
     (fd, buf, n, flags, to, len))
CALL(ssize_t, sendmsg, touch_msg(m, false),
     (int fd, const struct msghdr *m, int flags), (fd, m, flags))
CALL(int, sendmmsg, touch_msgs(m, n, false),
     (int fd, struct mmsghdr *m, unsigned int n, int flags), (fd, m, n, flags))
CALL(ssize_t, recv, touch(buf, n, 1), (int fd, void *buf, size_t n, int flags),
     (fd, buf, n, flags))
CALL(ssize_t, recvfrom, touch(buf, n, 1),
     (int fd, void *buf, size_t n, int flags, struct sockaddr *from,
      socklen_t *len),
     (fd, buf, n, flags, from, len))
CALL(ssize_t, recvmsg, touch_msg(m, true),
     (int fd, struct msghdr *m, int flags), (fd, m, flags))
CALL(int, recvmmsg, touch_msgs(m, n, true),
     (int fd, struct mmsghdr *m, unsigned int n, int flags, struct timespec *t),
     (fd, m, n, flags, t))

/* Those of _FORTIFY_SOURCE. */
ssize_t __read_chk(int fd, void *buf, size_t n, size_t room);
ssize_t __pread_chk(int fd, void *buf, size_t n, off_t off, size_t room);
ssize_t __pread64_chk(int fd, void *buf, size_t n, off64_t off, size_t room);
ssize_t __recv_chk(int fd, void *buf, size_t n, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t room, int flags,
		       struct sockaddr *from, socklen_t *len);

#define CHECKED(name, params, args) \
	CALL(ssize_t, name, touch(buf, n, 1), params, args)
CHECKED(__read_chk, (int fd, void *buf, size_t n, size_t room),
	(fd, buf, n, room))
CHECKED(__pread_chk, (int fd, void *buf, size_t n, off_t off, size_t room),
	(fd, buf, n, off, room))
CHECKED(__pread64_chk, (int fd, void *buf, size_t n, off64_t off, size_t room),
	(fd, buf, n, off, room))
CHECKED(__recv_chk, (int fd, void *buf, size_t n, size_t room, int flags),
	(fd, buf, n, room, flags))
CHECKED(__recvfrom_chk,
	(int fd, void *buf, size_t n, size_t room, int flags,
	 struct sockaddr *from, socklen_t *len),
	(fd, buf, n, room, flags, from, len))

/* ---------------------------------------------------------------------------
 * Streams, which hand large buffers to the kernel as they are
 */

typedef size_t (*move_fn)(const void *buf, size_t size, size_t n, FILE *f);

/* @n things of @size bytes, a window at a time. */
static size_t stream(move_fn move, const char *buf, size_t size, size_t n,
		     FILE *f, bool in)
{
	size_t per = WINDOW / size, done = 0, now, got;

	if (per == 0)
		per = 1;
	flockfile(f);
	do {
		now = n - done < per ? n - done : per;
		fl_touch(buf + done * size, now * size, in);
		got = move(buf + done * size, size, now, f);
		done += got;
	} while (got == now && done < n);
	funlockfile(f);
	return done;
}

#define FREAD(name)                                                        \
	FL_API size_t name(void *buf, size_t size, size_t n, FILE *f)      \
	{                                                                  \
		if (likely(!size || !near(buf, size * n)))                 \
			return next(name)(buf, size, n, f);                \
		return stream((move_fn)next(name), buf, size, n, f, true); \
	}
FREAD(fread)
FREAD(fread_unlocked)

#define FWRITE(name)                                                        \
	FL_API size_t name(const void *buf, size_t size, size_t n, FILE *f) \
	{                                                                   \
		if (likely(!size || !near(buf, size * n)))                  \
			return next(name)(buf, size, n, f);                 \
		return stream(next(name), buf, size, n, f, false);          \
	}
FWRITE(fwrite)
FWRITE(fwrite_unlocked)

size_t __fread_chk(void *buf, size_t room, size_t size, size_t n, FILE *f);
size_t __fread_unlocked_chk(void *buf, size_t room, size_t size, size_t n,
			    FILE *f);

#define FREAD_CHK(name, plain)                                                \
	FL_API size_t name(void *buf, size_t room, size_t size, size_t n,     \
			   FILE *f)                                           \
	{                                                                     \
		if (likely(!size || n > room / size || !near(buf, size * n))) \
			return next(name)(buf, room, size, n, f);             \
		return plain(buf, size, n, f);                                \
	}
FREAD_CHK(__fread_chk, fread)
FREAD_CHK(__fread_unlocked_chk, fread_unlocked)
