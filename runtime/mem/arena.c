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

#define FL_PR_SET_VMA 0x53564d41
#define FL_PR_SET_VMA_ANON_NAME 0

static const int view_flags[NR_ARENAS] = {
	[ARENA_FILE] = MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE,
	[ARENA_ANON] = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
};

static int user_prot(const struct arena *a)
{
	return a->kind == ARENA_FILE ? PROT_READ : PROT_READ | PROT_WRITE;
}

/*
 * Not in core dumps: the dumper would give every page of a shared mapping a
 * frame, and write every hole of a private one. The anonymous arena comes back
 * into them chunk by chunk; the file arena stays out, as file mappings do by
 * default, and both its views alike, so that their pieces merge.
 */
static void *reserve(struct arena *a, void *at, size_t size)
{
	void *p = sys_mmap(at, size, PROT_NONE,
			   view_flags[a->kind] | (at ? MAP_FIXED : 0), -1, 0);

	if (!is_err(p))
		sys_madvise(p, size, MADV_DONTDUMP);
	return p;
}

/* The same frames as the fill view's at @off, at @at (NULL: anywhere). */
static void *view_dup(struct arena *a, size_t off, size_t len, void *at,
		      int prot)
{
	void *p = sys_mremap(a->fill + off, 0, len,
			     MREMAP_MAYMOVE | (at ? MREMAP_FIXED : 0), at);
	long ret;

	if (is_err(p))
		return p;
	ret = sys_mprotect(p, len, prot);
	return ret < 0 ? err_ptr(ret) : p;
}

static int init_file(struct arena *a, size_t size)
{
	void *fill = reserve(a, NULL, size), *user;

	if (is_err(fill))
		return (int)ptr_err(fill);
	a->fill = fill;
	user = view_dup(a, 0, size, NULL, PROT_NONE);
	if (is_err(user)) {
		sys_munmap(fill, size);
		return (int)ptr_err(user);
	}
	a->user = user;
	return 0;
}

static int init_anon(struct arena *a, size_t size)
{
	void *p = reserve(a, NULL, size);

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
		st_rlx(&a->size, size);
		ret = kind == ARENA_FILE ? init_file(a, size) :
					   init_anon(a, size);
		if (ret != -ENOMEM)
			return ret;
		size >>= 1;
	}
}

void arena_destroy(struct arena *a)
{
	arena_shrink(a, 0);
}

void arena_shrink(struct arena *a, size_t size)
{
	size_t old = arena_size(a);

	/* First the size: what is given back may be somebody else's at once. */
	st_rlx(&a->size, size);
	if (a->fill != a->user)
		sys_munmap(a->fill + size, old - size);
	sys_munmap(a->user + size, old - size);
}

int arena_open_chunk(struct arena *a, uint32_t chunk)
{
	size_t off = (size_t)chunk << CHUNK_SHIFT;
	long ret;

	ret = sys_mprotect(a->user + off, CHUNK_SIZE, user_prot(a));
	if (ret == 0 && a->kind == ARENA_FILE)
		ret = sys_mprotect(a->fill + off, CHUNK_SIZE,
				   PROT_READ | PROT_WRITE);
	else if (ret == 0)
		ret = sys_madvise(a->user + off, CHUNK_SIZE, MADV_DODUMP);
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

	if (a->kind == ARENA_ANON)
		p = sys_mmap(user, len, user_prot(a),
			     view_flags[a->kind] | MAP_FIXED, -1, 0);
	else
		p = view_dup(a, off, len, user, user_prot(a));
	return is_err(p) ? (int)ptr_err(p) : 0;
}

int arena_reserve(struct arena *a, size_t off, size_t len)
{
	char *user = a->user + off;
	void *p;

	if (a->kind == ARENA_ANON)
		p = reserve(a, user, len);
	else
		p = view_dup(a, off, len, user, PROT_NONE);
	return is_err(p) ? (int)ptr_err(p) : 0;
}

int arena_guard(struct arena *a, size_t off, size_t len)
{
	long ret = sys_madvise(a->user + off, len, FL_MADV_GUARD_INSTALL);

	if (ret == -EINVAL) {
		st_rlx(&a->split, 1u);
		ret = sys_mprotect(a->user + off, len, PROT_NONE);
	}
	return (int)ret;
}

int arena_unguard(struct arena *a, size_t off, size_t len)
{
	long ret = sys_madvise(a->user + off, len, FL_MADV_GUARD_REMOVE);

	/* Lifting a guard that is not there succeeds. */
	if (ret == -EINVAL || (ret == 0 && ld_rlx(&a->split)))
		ret = sys_mprotect(a->user + off, len, user_prot(a));
	return (int)ret;
}

int arena_fork_fill(struct arena *a, size_t opened)
{
	void *p = reserve(a, a->fill, arena_size(a));

	if (is_err(p))
		return (int)ptr_err(p);
	if (opened == 0)
		return 0;
	return (int)sys_mprotect(a->fill, opened, PROT_READ | PROT_WRITE);
}

int arena_fork_user(struct arena *a, size_t off, size_t len, bool opened)
{
	int prot = opened ? user_prot(a) : PROT_NONE;
	void *p = view_dup(a, off, len, a->user + off, prot);

	/* At RLIMIT_AS the kernel wants room for the new piece before it takes
	 * the old one down; nobody else is here to see it gone. */
	if (ptr_err(p) == -ENOMEM) {
		sys_munmap(a->user + off, len);
		p = view_dup(a, off, len, a->user + off, prot);
	}
	return is_err(p) ? (int)ptr_err(p) : 0;
}
