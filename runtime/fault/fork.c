// SPDX-License-Identifier: LGPL-2.1-or-later
/* fork.c - what becomes of demand regions in a child; see vma.h. */
#include <string.h>
#include <sys/mman.h>

#include "fault/ahead.h"
#include "fault/fdtable.h"
#include "fault/frames.h"
#include "fault/vma.h"
#include "base/ban.h"

/* Of the thread that forks; the lock. A handler that unmaps would wait for its
 * own thread. */
static uint64_t fork_mask;

/* In the child: what of the map from before is to be served again. */
static struct vmap *inherited;

void vma_fork_prepare(void)
{
	uint64_t mask = sys_block_signals();

	lock_take(&vmas.lock);
	fork_mask = mask;
}

void vma_fork_parent(void)
{
	uint64_t mask = fork_mask;

	lock_drop(&vmas.lock);
	sys_restore_signals(mask);
}

/* Nothing to be seen, and no other mapping shall come there. */
static void map_none(const struct vseg *s)
{
	sys_mmap((void *)s->start, s->end - s->start, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
		 0);
}

/* Is it to be served again? Of writable regions the child could not see what its
 * parent has not written yet. */
static bool goes_on(const struct vma *v)
{
	return v->store.kind != STORE_FILE && !(v->prot & PROT_WRITE);
}

void vma_fork_child(void)
{
	struct vmap *m = ld_rlx(&vmas.map);
	uint64_t mask = fork_mask;
	size_t kept = 0;

	fd_fork_child(); /* files are closed below */
	filler_fork_child();
	ahead_fork_child();
	for (size_t i = 0; m && i < m->n; i++) {
		struct vseg *s = &m->seg[i];
		struct vma *v = s->v;

		/* Where a file cannot be mapped an access is a SIGSEGV, never a
		 * wrong byte. */
		if (v->store.kind != STORE_FILE || v->prot & PROT_WRITE ||
		    vma_map_file(s, s->start, s->end) < 0)
			map_none(s);
		st_rlx(&vmas.ids[v->id], (struct vma *)NULL);
		if (goes_on(v)) {
			v->uffd = NULL;
			v->segs = 0;
			m->seg[kept++] = *s;
		} else if (--v->segs == 0) {
			vma_retire(&v->retired);
		}
	}
	if (kept) {
		m->n = kept;
		inherited = m;
	} else if (m) {
		vma_retire(&m->retired);
	}
	st_rlx(&vmas.map, (struct vmap *)NULL);
	st_rlx(&vmas.low, UINTPTR_MAX);
	st_rlx(&vmas.high, (uintptr_t)0);
	lock_drop(&vmas.lock);
	vma_reap();
	sys_restore_signals(mask);
}

bool vma_fork_owns(const struct frames *fr)
{
	const struct vmap *m = inherited;

	for (size_t i = 0; m && i < m->n; i++)
		if (m->seg[i].v->frames == fr)
			return true;
	return false;
}

/* What is present by the table is so in the parent only. */
static void forget_pages(struct vma *v)
{
	FL_ALIGNED_CL char head[sizeof(struct vma)];

	memcpy(head, v, sizeof(head));
	sys_madvise(v, v->bytes, MADV_DONTNEED);
	memcpy(v, head, sizeof(head));
	lock_reset(&v->pte_lock);
	v->segs = 0;
}

/* In the place of the PROT_NONE. */
static int remap(const struct vseg *s)
{
	size_t len = s->end - s->start;
	void *at = sys_mmap(
		(void *)s->start, len, s->v->prot,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);

	return is_err(at) ? (int)ptr_err(at) :
			    vma_register(at, len, s->v->prot, s->v->uffd);
}

void vma_fork_adopt(const struct frames *fr, _Atomic(int) *uffd, bool sleeps)
{
	uint64_t mask = sys_block_signals();
	struct vmap *m = inherited;

	lock_take(&vmas.lock);
	for (size_t i = 0; m && i < m->n; i++) {
		struct vseg *s = &m->seg[i];
		struct vma *v = s->v;

		if (v->frames != fr)
			continue;
		if (!v->uffd)
			forget_pages(v);
		v->uffd = uffd;
		v->kernel_waiters = sleeps;
		s->hold = false;
		if (remap(s) < 0 || vma_insert(s, v->segs == 0) < 0)
			map_none(s);
	}
	lock_drop(&vmas.lock);
	sys_restore_signals(mask);
}

void vma_fork_end(void)
{
	uint64_t mask = sys_block_signals();
	struct vmap *m = inherited;

	lock_take(&vmas.lock);
	inherited = NULL;
	for (size_t i = 0; m && i < m->n; i++) {
		struct vma *v = m->seg[i].v;

		/* Nobody could serve any of it. Once for each region. */
		if (v->segs == 0 && v->serial != 0) {
			v->serial = 0;
			vma_retire(&v->retired);
		}
	}
	if (m)
		vma_retire(&m->retired);
	lock_drop(&vmas.lock);
	sys_restore_signals(mask);
	vma_reap();
}
