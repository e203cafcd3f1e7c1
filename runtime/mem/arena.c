// SPDX-License-Identifier: LGPL-2.1-or-later
/* arena.c - see arena.h. */
#include "mem/arena.h"

#include <sys/mman.h>

#include "base/sys.h"
#include "base/ban.h"

/* Newer than Debian 12's headers. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#define FL_MADV_GUARD_INSTALL 102
#define FL_MADV_GUARD_REMOVE 103

#define FL_MFD_NOEXEC_SEAL 0x0008U
#define FL_PR_SET_VMA 0x53564d41
#define FL_PR_SET_VMA_ANON_NAME 0

static const int view_flags[NR_ARENAS] = {
	[ARENA_FILE] = MAP_SHARED | MAP_NORESERVE,
	[ARENA_ANON] = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
};

static int user_prot(const struct arena *a)
{
	return a->kind == ARENA_FILE ? PROT_READ : PROT_READ | PROT_WRITE;
}

static long frames_create(size_t size)
{
	long fd, ret;

	fd = sys_memfd_create("faultline", MFD_CLOEXEC | FL_MFD_NOEXEC_SEAL);
	if (fd == -EINVAL)
		fd = sys_memfd_create("faultline", MFD_CLOEXEC);
	if (fd < 0)
		return fd;
	ret = sys_ftruncate((int)fd, (int64_t)size);
	if (ret < 0) {
		sys_close((int)fd);
		return ret;
	}
	return fd;
}

static void *reserve(struct arena *a, void *at, size_t size, int fd,
		     int64_t off)
{
	return sys_mmap(at, size, PROT_NONE,
			view_flags[a->kind] | (at ? MAP_FIXED : 0), fd, off);
}

static int init_file(struct arena *a, size_t size)
{
	long fd = frames_create(size);
	void *fill, *user;

	if (fd < 0)
		return (int)fd;
	fill = reserve(a, NULL, size, (int)fd, 0);
	user = is_err(fill) ? fill : reserve(a, NULL, size, (int)fd, 0);
	sys_close((int)fd);
	if (is_err(user)) {
		if (!is_err(fill))
			sys_munmap(fill, size);
		return (int)ptr_err(user);
	}
	sys_madvise(fill, size, MADV_DONTDUMP);
	a->fill = fill;
	a->user = user;
	return 0;
}

static int init_anon(struct arena *a, size_t size)
{
	void *p = reserve(a, NULL, size, -1, 0);

	if (is_err(p))
		return (int)ptr_err(p);
	a->fill = p;
	a->user = p;
	/* A name in /proc/PID/maps; kernels without it refuse, harmlessly. */
	sys_call5(__NR_prctl, FL_PR_SET_VMA, FL_PR_SET_VMA_ANON_NAME, p, size,
		  "faultline");
	return 0;
}

int arena_init(struct arena *a, enum arena_kind kind, size_t size, size_t min)
{
	int ret;

	a->kind = kind;
	for (;;) {
		size &= ~(CHUNK_SIZE - 1);
		if (size < min || size < CHUNK_SIZE)
			return -ENOMEM;
		a->size = size;
		ret = kind == ARENA_FILE ? init_file(a, size) :
					   init_anon(a, size);
		if (ret == 0 || ret == -EPERM || ret == -ENOSYS ||
		    ret == -EMFILE || ret == -ENFILE)
			return ret;
		size >>= 1;
	}
}

void arena_destroy(struct arena *a)
{
	if (a->fill != a->user)
		sys_munmap(a->fill, a->size);
	sys_munmap(a->user, a->size);
	a->size = 0;
}

int arena_open_chunk(struct arena *a, uint32_t chunk)
{
	size_t off = (size_t)chunk << CHUNK_SHIFT;
	long ret;

	ret = sys_mprotect(a->user + off, CHUNK_SIZE, user_prot(a));
	if (ret == 0 && a->fill != a->user)
		ret = sys_mprotect(a->fill + off, CHUNK_SIZE,
				   PROT_READ | PROT_WRITE);
	return (int)ret;
}

/* Kernels before 5.14 lack MADV_POPULATE: the frames then come by faults. */
static long populate(void *p, size_t len, int advice)
{
	long ret;

	do
		ret = sys_madvise(p, len, advice);
	while (ret == -EINTR || ret == -EAGAIN);
	return ret == -EINVAL ? 0 : ret;
}

int arena_populate(struct arena *a, size_t off, size_t len, bool user)
{
	long ret = populate(a->fill + off, len, MADV_POPULATE_WRITE);

	if (ret == 0 && user && a->fill != a->user)
		ret = populate(a->user + off, len, MADV_POPULATE_READ);
	return (int)ret;
}

int arena_release(struct arena *a, size_t off, size_t len)
{
	return (int)sys_madvise(a->fill + off, len,
				a->kind == ARENA_FILE ? MADV_REMOVE :
							MADV_DONTNEED);
}

int arena_restore(struct arena *a, size_t off, size_t len)
{
	char *user = a->user + off;
	void *p;
	long ret;

	if (a->kind == ARENA_ANON) {
		p = sys_mmap(user, len, user_prot(a),
			     view_flags[a->kind] | MAP_FIXED, -1, 0);
		return is_err(p) ? (int)ptr_err(p) : 0;
	}
	/*
	 * The descriptor is closed; but mremap with an old size of zero
	 * duplicates a shared mapping, here the fill view's. It arrives
	 * writable and left out of core dumps: undo both, or it would not
	 * merge with its neighbours.
	 */
	p = sys_mremap(a->fill + off, 0, len, MREMAP_MAYMOVE | MREMAP_FIXED,
		       user);
	if (is_err(p))
		return (int)ptr_err(p);
	ret = sys_madvise(user, len, MADV_DODUMP);
	if (ret == 0)
		ret = sys_mprotect(user, len, user_prot(a));
	return (int)ret;
}

int arena_reserve(struct arena *a, size_t off, size_t len)
{
	void *p;

	if (a->kind == ARENA_ANON) {
		p = reserve(a, a->user + off, len, -1, 0);
		return is_err(p) ? (int)ptr_err(p) : 0;
	}
	p = sys_mremap(a->fill + off, 0, len, MREMAP_MAYMOVE | MREMAP_FIXED,
		       a->user + off);
	if (is_err(p))
		return (int)ptr_err(p);
	return (int)sys_madvise(a->user + off, len, MADV_DODUMP);
}

int arena_guard(struct arena *a, size_t off, size_t len)
{
	long ret = sys_madvise(a->user + off, len, FL_MADV_GUARD_INSTALL);

	if (ret == -EINVAL)
		ret = sys_mprotect(a->user + off, len, PROT_NONE);
	return (int)ret;
}

int arena_unguard(struct arena *a, size_t off, size_t len)
{
	long ret = sys_madvise(a->user + off, len, FL_MADV_GUARD_REMOVE);

	if (ret == -EINVAL)
		ret = sys_mprotect(a->user + off, len, user_prot(a));
	return (int)ret;
}

int arena_fork_begin(struct arena *a, struct arena_fork *f)
{
	long fd = frames_create(a->size);
	void *p;

	if (fd < 0)
		return (int)fd;
	p = sys_mmap(NULL, a->size, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_NORESERVE, (int)fd, 0);
	if (is_err(p)) {
		sys_close((int)fd);
		return (int)ptr_err(p);
	}
	f->fd = (int)fd;
	f->copy = p;
	return 0;
}

int arena_fork_fill_view(struct arena *a, struct arena_fork *f, size_t opened)
{
	void *p = reserve(a, a->fill, a->size, f->fd, 0);
	long ret;

	if (is_err(p))
		return (int)ptr_err(p);
	sys_madvise(a->fill, a->size, MADV_DONTDUMP);
	ret = opened ? sys_mprotect(a->fill, opened, PROT_READ | PROT_WRITE) : 0;
	return (int)ret;
}

int arena_fork_user_view(struct arena *a, struct arena_fork *f, size_t off,
			 size_t len, bool opened)
{
	void *p;

	p = sys_mmap(a->user + off, len, opened ? user_prot(a) : PROT_NONE,
		     view_flags[a->kind] | MAP_FIXED, f->fd, (int64_t)off);
	return is_err(p) ? (int)ptr_err(p) : 0;
}

void arena_fork_end(struct arena *a, struct arena_fork *f)
{
	sys_munmap(f->copy, a->size);
	sys_close(f->fd);
}
