/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * uffd.c - userfaultfd: probe, descriptors, page operations.
 *
 * PROGRESS. Every loop is bounded: a step of serve() advances by a page or
 * counts against UFFD_TRIES. No locks, no state.
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "base/base.h"
#include "base/sys.h"
#include "fault/uffd.h"
#include "base/ban.h"

/*
 * Steps in a row that may answer EAGAIN. The kernel says so while the address
 * space changes under an event reader (we have none; somebody else's fork of
 * our descriptor may) and when a page table goes away under the call.
 */
#define UFFD_TRIES 1000

/*
 * Descriptors go to 64 below the soft limit. A table of descriptors grows to
 * its highest one and is copied by every fork, so a limit of a million does not
 * mean a million.
 */
#define UFFD_FD_TOP 16384
#define UFFD_FD_ROOM 64

static long sys_ioctl(int fd, unsigned long cmd, void *arg)
{
	return sys_call3(__NR_ioctl, fd, cmd, arg);
}

static unsigned long fd_limit(void)
{
	struct {
		uint64_t cur, max;
	} lim = { 0, 0 };

	if (sys_call4(__NR_prlimit64, 0, 7 /* RLIMIT_NOFILE */, NULL, &lim) < 0)
		return 0;
	return lim.cur < UFFD_FD_TOP ? (unsigned long)lim.cur : UFFD_FD_TOP;
}

/* The highest number that works; the descriptor itself where none does. */
static int fd_raise(int fd)
{
	unsigned long top = fd_limit();
	unsigned long at = top > 2 * UFFD_FD_ROOM ? top - UFFD_FD_ROOM :
						    top / 2;

	for (; at > (unsigned long)fd; at /= 2) {
		long ret = sys_fcntl(fd, F_DUPFD_CLOEXEC, (long)at);

		if (ret < 0)
			continue;
		sys_close(fd);
		return (int)ret;
	}
	return fd;
}

static int raw_open(enum uffd_source source, int flags)
{
	long dev, ret;

	switch (source) {
	case UFFD_DEV:
		dev = sys_openat(AT_FDCWD, "/dev/userfaultfd",
				 O_RDWR | O_CLOEXEC, 0);
		if (dev < 0)
			return (int)dev;
		ret = sys_ioctl((int)dev, UABI_DEV_NEW, (void *)(long)flags);
		sys_close((int)dev);
		return (int)ret;
	case UFFD_SYSCALL:
		return (int)sys_call1(__NR_userfaultfd, flags);
	case UFFD_USER_MODE:
		return (int)sys_call1(__NR_userfaultfd,
				      flags | UABI_USER_MODE_ONLY);
	default:
		return -ENOSYS;
	}
}

static int handshake(int fd, struct uabi_api *api)
{
	long ret = sys_ioctl(fd, UABI_IO_API, api);

	return ret < 0 ? (int)ret : 0;
}

/* What the kernel says it can do to private anonymous memory. */
static uint64_t range_ioctls(int fd)
{
	struct uabi_register reg = { { 0, FL_PAGE_SIZE }, 0, 0 };
	void *page = sys_mmap(NULL, FL_PAGE_SIZE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (is_err(page))
		return 0;
	reg.range.start = (uintptr_t)page;
	reg.mode = UABI_REGISTER_MISSING | UABI_REGISTER_WP;
	if (sys_ioctl(fd, UABI_IO_REGISTER, &reg) < 0) {
		reg.mode = UABI_REGISTER_MISSING;
		if (sys_ioctl(fd, UABI_IO_REGISTER, &reg) < 0)
			reg.ioctls = 0;
	}
	sys_munmap(page, FL_PAGE_SIZE);
	return reg.ioctls;
}

int uffd_try(enum uffd_source source, uint64_t *features, uint64_t *ioctls)
{
	struct uabi_api api = { UABI_API, 0, 0 };
	int fd = raw_open(source, O_CLOEXEC | O_NONBLOCK);
	int ret;

	if (fd < 0)
		return fd;
	ret = handshake(fd, &api);
	if (ret == 0) {
		*features = api.features;
		*ioctls = api.ioctls | range_ioctls(fd);
	}
	sys_close(fd);
	return ret;
}

static void caps_reset(struct uffd_caps *caps)
{
	*caps = (struct uffd_caps){
		.source = UFFD_NONE,
		.err_dev = UFFD_UNTRIED,
		.err_syscall = UFFD_UNTRIED,
		.err_user = UFFD_UNTRIED,
	};
}

static void caps_note(struct uffd_caps *caps, enum uffd_source source, int err)
{
	if (source == UFFD_DEV)
		caps->err_dev = err;
	else if (source == UFFD_SYSCALL)
		caps->err_syscall = err;
	else
		caps->err_user = err;
	if (err == 0)
		caps->source = source;
}

void uffd_probe(struct uffd_caps *caps)
{
	enum uffd_source source;

	caps_reset(caps);
	for (source = UFFD_DEV; source <= UFFD_USER_MODE; source++) {
		int err = uffd_try(source, &caps->features, &caps->ioctls);

		caps_note(caps, source, err);
		if (err == 0)
			return;
	}
}

int uffd_probe_open(struct uffd_caps *caps, uint64_t features, bool nonblock)
{
	int flags = O_CLOEXEC | (nonblock ? O_NONBLOCK : 0), fd = -ENOSYS, ret;
	enum uffd_source source;

	caps_reset(caps);
	for (source = UFFD_DEV; source <= UFFD_USER_MODE; source++) {
		struct uabi_api api = { UABI_API, features, 0 };

		fd = raw_open(source, flags);
		ret = fd < 0 ? fd : handshake(fd, &api);
		if (ret < 0 && fd >= 0) {
			sys_close(fd);
			return -EINVAL;
		}
		caps_note(caps, source, ret);
		if (ret == 0) {
			caps->features = api.features;
			return fd_raise(fd);
		}
	}
	return fd;
}

static int open_from(enum uffd_source source, uint64_t features, int flags)
{
	struct uabi_api api = { UABI_API, features, 0 };
	int fd = raw_open(source, flags);
	int ret;

	if (fd < 0)
		return fd;
	ret = handshake(fd, &api);
	/* A kernel that ignores what it does not know must not pass. */
	if (ret == 0 && (api.features & features) != features)
		ret = -EINVAL;
	if (ret < 0) {
		sys_close(fd);
		return ret;
	}
	return fd_raise(fd);
}

int uffd_open(const struct uffd_caps *caps, uint64_t features, bool nonblock)
{
	int flags = O_CLOEXEC | (nonblock ? O_NONBLOCK : 0);
	int ret, other;

	if (caps->source == UFFD_NONE)
		return -ENOSYS;
	if (features & (UABI_F_EVENTS | ~caps->features))
		return -EINVAL;
	ret = open_from(caps->source, features, flags);
	if (ret >= 0 || caps->source == UFFD_USER_MODE)
		return ret;
	/* Out of descriptors or memory is no reason to look elsewhere. */
	if (ret == -EMFILE || ret == -ENFILE || ret == -ENOMEM)
		return ret;
	other = open_from(caps->source == UFFD_DEV ? UFFD_SYSCALL : UFFD_DEV,
			  features, flags);
	return other >= 0 ? other : ret;
}

int uffd_register(int fd, void *addr, size_t len, unsigned int mode)
{
	struct uabi_register reg = { { (uintptr_t)addr, len }, mode, 0 };

	return (int)sys_ioctl(fd, UABI_IO_REGISTER, &reg);
}

int uffd_unregister(int fd, void *addr, size_t len)
{
	struct uabi_range range = { (uintptr_t)addr, len };

	return (int)sys_ioctl(fd, UABI_IO_UNREGISTER, &range);
}

int uffd_wake(int fd, void *dst, size_t len)
{
	struct uabi_range range = { (uintptr_t)dst, len };

	return len ? (int)sys_ioctl(fd, UABI_IO_WAKE, &range) : 0;
}

/* One page operation over a range. */
struct job {
	int fd;
	unsigned long cmd;
	char *dst;
	const char *src; /* COPY and MOVE */
	size_t len;
	uint64_t mode;
};

/* One call for what is left from `at` on; *done is the bytes served by it. */
static long step(const struct job *j, size_t at, int64_t *done)
{
	long ret;

	if (j->src) {
		struct uabi_copy c = { (uintptr_t)(j->dst + at),
				       (uintptr_t)(j->src + at), j->len - at,
				       j->mode, 0 };

		ret = sys_ioctl(j->fd, j->cmd, &c);
		*done = c.done;
	} else {
		struct uabi_fill f = {
			{ (uintptr_t)(j->dst + at), j->len - at }, j->mode, 0
		};

		ret = sys_ioctl(j->fd, j->cmd, &f);
		*done = f.done;
	}
	return ret;
}

static int serve(const struct job *j)
{
	unsigned int tries = 0;
	bool skipped = false;
	size_t at = 0;
	long ret = 0;

	while (at < j->len) {
		int64_t done;

		ret = step(j, at, &done);
		if (ret >= 0) {
			at = j->len;
		} else if (done > 0) {
			at += (size_t)done;
			tries = 0;
		} else if (ret == -EEXIST) {
			at += FL_PAGE_SIZE;
			skipped = true;
			tries = 0;
		} else if (ret != -EAGAIN || ++tries >= UFFD_TRIES) {
			break;
		} else {
			sys_sched_yield();
		}
	}
	if (at >= j->len)
		ret = 0;
	/* The kernel wakes for the pages it fills and for no others. */
	if (!(j->mode & UABI_DONTWAKE) && (skipped || ret == -ENOENT))
		uffd_wake(j->fd, j->dst, ret == -ENOENT ? j->len : at);
	return (int)ret;
}

int uffd_copy(int fd, void *dst, const void *src, size_t len, unsigned int mode)
{
	struct job j = { fd, UABI_IO_COPY, dst, src, len, mode };

	return serve(&j);
}

int uffd_zeropage(int fd, void *dst, size_t len)
{
	struct job j = { fd, UABI_IO_ZEROPAGE, dst, NULL, len, 0 };

	return serve(&j);
}

int uffd_continue(int fd, void *dst, size_t len, unsigned int mode)
{
	struct job j = { fd, UABI_IO_CONTINUE, dst, NULL, len, mode };

	return serve(&j);
}

int uffd_poison(int fd, void *dst, size_t len)
{
	struct job j = { fd, UABI_IO_POISON, dst, NULL, len, 0 };

	return serve(&j);
}

int uffd_wp(int fd, void *dst, size_t len, bool protect)
{
	struct uabi_writeprotect wp = { { (uintptr_t)dst, len },
					protect ? UABI_WP_PROTECT : 0 };
	unsigned int tries = 0;
	long ret;

	if (!len)
		return 0;
	while ((ret = sys_ioctl(fd, UABI_IO_WRITEPROTECT, &wp)) == -EAGAIN &&
	       ++tries < UFFD_TRIES)
		sys_sched_yield();
	if (ret == -ENOENT && !protect)
		uffd_wake(fd, dst, len);
	return (int)ret;
}

long uffd_move(int fd, void *dst, void *src, size_t len)
{
	struct job j = { fd, UABI_IO_MOVE, dst, src, len, 0 };
	unsigned int tries = 0;
	size_t at = 0;
	int64_t done;
	long ret = 0;

	while (at < len) {
		ret = step(&j, at, &done);
		if (ret >= 0)
			return (long)len;
		if (done > 0) {
			at += (size_t)done;
			tries = 0;
		} else if (ret != -EAGAIN || ++tries >= UFFD_TRIES) {
			break;
		} else {
			sys_sched_yield();
		}
	}
	return at ? (long)at : ret;
}
