// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * wrap_rare.c - calls that hardly any program makes on a mapping of ours, and
 * that would hurt it if one did.
 *
 * remap_file_pages would rearrange the pages of an arena, which the kernel
 * sees as one shared mapping; to the program they are private, where it fails.
 * shmat with SHM_REMAP puts a segment over whatever is there; the pages have to
 * become the program's first, and shmdt has to put the arena back.
 */
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>

#include "shim.h"
#include "base/sys.h"

FL_API int remap_file_pages(void *addr, size_t len, int prot, size_t pgoff,
			    int flags)
{
	int saved = errno;
	bool outer;
	struct fl_pager *p = shim_go(&outer);
	long ret = -EINVAL;

	if (!p || fl_find(p, addr) != 1)
		ret = sys_call5(__NR_remap_file_pages, addr, len, prot, pgoff,
				flags);
	shim_back(outer);
	return (int)shim_ret(ret, saved);
}

/* Segments attached over pages of an arena: address, or 0. Relaxed: a program
 * that attaches and detaches one segment from two threads orders that itself. */
static struct {
	_Atomic(uintptr_t) addr;
	size_t len;
} attached[32];

static bool note(void *addr, size_t len)
{
	uintptr_t old;

	for (size_t i = 0; i < ARRAY_SIZE(attached); i++) {
		old = 0;
		if (cas_rlx(&attached[i].addr, &old, (uintptr_t)addr)) {
			attached[i].len = len;
			return true;
		}
	}
	return false;
}

/* The length noted for @addr, which is forgotten; or 0. */
static size_t forget(const void *addr)
{
	uintptr_t a = (uintptr_t)addr;
	size_t len;

	for (size_t i = 0; a && i < ARRAY_SIZE(attached); i++)
		if (ld_rlx(&attached[i].addr) == a) {
			len = attached[i].len;
			st_rlx(&attached[i].addr, (uintptr_t)0);
			return len;
		}
	return 0;
}

static void *attach_over(struct fl_pager *p, int id, void *addr, int flags)
{
	struct shmid_ds ds;
	void *at;
	long ret = sys_call3(__NR_shmctl, id, IPC_STAT, &ds);

	if (ret < 0)
		return err_ptr(ret);
	/* Would it attach at all? A refusal must change nothing. */
	at = (void *)sys_call3(__NR_shmat, id, NULL, flags & ~SHM_REMAP);
	if (is_err(at))
		return at;
	sys_call1(__NR_shmdt, at);
	if (flags & SHM_RND)
		addr = (void *)((uintptr_t)addr & FL_PAGE_MASK);
	at = fl_pager_mmap(
		p, addr, ds.shm_segsz, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
	if (is_err(at))
		return at;
	if (fl_find(p, at) == 2 && !note(at, ds.shm_segsz))
		return err_ptr(-ENOMEM);
	at = (void *)sys_call3(__NR_shmat, id, addr, flags);
	if (is_err(at))
		forget(addr);
	return at;
}

FL_API void *shmat(int id, const void *addr, int flags)
{
	void *at = (void *)(uintptr_t)addr;
	int saved = errno;
	bool outer;
	struct fl_pager *p = shim_go(&outer);

	if (likely(!p || !addr || !(flags & SHM_REMAP)))
		at = (void *)sys_call3(__NR_shmat, id, addr, flags);
	else
		at = attach_over(p, id, at, flags);
	shim_back(outer);
	return shim_ret_ptr(at, saved);
}

FL_API int shmdt(const void *addr)
{
	size_t len = forget(addr);
	int saved = errno;
	bool outer;
	struct fl_pager *p = shim_go(&outer);
	long ret;

	/* The arena's view in its place takes the segment down in one step. */
	ret = len ? fl_pager_munmap(p, (void *)(uintptr_t)addr, len) :
		    sys_call1(__NR_shmdt, addr);
	shim_back(outer);
	return (int)shim_ret(ret, saved);
}
