// SPDX-License-Identifier: LGPL-2.1-or-later
/* filler.c - see filler.h. */
#include "fault/filler.h"

#include <string.h>
#include <sys/mman.h>

#include "base/far.h"
#include "base/sys.h"
#include "cpu_arch.h"
#include "mem/istack.h"
#include "base/ban.h"

#define STACKS 64u /* a power of two; CPUs share when there are more */

static struct {
	struct filler *all; /* FILLERS_MAX */
	/* Fillers that have been made. */
	_Atomic(uint32_t) made;
	struct {
		FL_ALIGNED_CL struct istack s;
	} stack[STACKS];
} fillers;

static struct istack_links links(void)
{
	return (struct istack_links){ (char *)fillers.all +
					      offsetof(struct filler, link),
				      sizeof(struct filler) };
}

static struct filler *make(void);

int filler_init(void)
{
	struct filler *f;
	void *p;

	if (fillers.all)
		return 0;
	p = far_map(FILLERS_MAX * sizeof(struct filler));
	if (is_err(p))
		return (int)ptr_err(p);
	fillers.all = p;
	/* One there must be, even if memory cannot be had later. */
	f = make();
	if (!f) {
		fillers.all = NULL;
		sys_munmap(p, FILLERS_MAX * sizeof(struct filler));
		return -ENOMEM;
	}
	filler_put(f);
	return 0;
}

static struct filler *make(void)
{
	uint32_t n = ld_rlx(&fillers.made);
	struct filler *f;
	char *buf;

	if (n >= FILLERS_MAX)
		return NULL;
	buf = far_map(FILLER_BUF);
	if (is_err(buf))
		return NULL;
	/* A huge page for a filler that reads single pages would be waste. */
	sys_madvise(buf, FILLER_BUF, MADV_NOHUGEPAGE);
	sys_madvise(buf, FILLER_BUF, MADV_DONTDUMP);
	do {
		if (n >= FILLERS_MAX) {
			sys_munmap(buf, FILLER_BUF);
			return NULL;
		}
		/* [MO:copying] pairs with filler_quiesce: it is looked at, or
		 * it sees the new map. */
	} while (!cas_sc(&fillers.made, &n, n + 1));
	f = &fillers.all[n];
	f->buf = buf;
	io_ctx_init(&f->io, IO_AUTO);
	return f;
}

static struct filler *pop(unsigned int from)
{
	uint32_t i;

	for (unsigned int k = 0; k < STACKS; k++) {
		struct istack *s = &fillers.stack[(from + k) % STACKS].s;

		if (!istack_empty(s) && istack_pop(s, &i, links()))
			return &fillers.all[i];
	}
	return NULL;
}

struct filler *filler_get(void)
{
	unsigned int cpu = sys_cpu_id();
	struct filler *f;
	uint32_t i;

	if (likely(istack_pop(&fillers.stack[cpu % STACKS].s, &i, links())))
		return &fillers.all[i];
	while ((f = pop(cpu)) == NULL && (f = make()) == NULL)
		sys_sched_yield();
	return f;
}

void filler_put(struct filler *f)
{
	istack_push(&fillers.stack[sys_cpu_id() % STACKS].s,
		    (uint32_t)(f - fillers.all), links());
}

struct filler *filler_steal(unsigned int *pos)
{
	uint32_t i;

	for (; *pos < STACKS; ++*pos)
		if (istack_pop(&fillers.stack[*pos].s, &i, links()))
			return &fillers.all[i];
	return NULL;
}

bool filler_uses(const struct frames *fr)
{
	uint32_t n = ld_rlx(&fillers.made);

	for (uint32_t i = 0; i < n; i++)
		if (ld_rlx(&fillers.all[i].frames) == fr)
			return true;
	return false;
}

void filler_quiesce(void)
{
	/* [MO:copying] pairs with make; after the map was published. */
	uint32_t n = ld_sc(&fillers.made);

	for (uint32_t i = 0; i < n; i++) {
		struct filler *f = &fillers.all[i];
		unsigned int turns = 0;
		uint32_t seen;

		/* [MO:copying] pairs with filler_copying in vma.h: either the
		 * filler sees the new map, or this sees it copying. Odd: in a
		 * section; each section has a number of its own. */
		seen = ld_sc(&f->copying);
		if (!(seen & 1))
			continue;
		/* [MO:copying] acquires what the section did to the entries. */
		while (ld_acq(&f->copying) == seen) {
			if (++turns % 32)
				cpu_relax();
			else
				sys_sched_yield();
		}
	}
}

uint64_t filler_epoch(void)
{
	/* [MO:epoch] pairs with make, as in filler_quiesce. */
	uint32_t n = ld_sc(&fillers.made);
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 0; i < n; i++) {
		/* [MO:epoch] pairs with vma_enter: a filler not seen here sees
		 * the map that was published before. */
		uint64_t e = ld_sc(&fillers.all[i].epoch);

		if (e && e < least)
			least = e;
	}
	return least;
}

void filler_fork_child(void)
{
	uint32_t n = ld_rlx(&fillers.made);

	for (unsigned int k = 0; k < STACKS; k++)
		istack_init(&fillers.stack[k].s);
	for (uint32_t i = 0; i < n; i++) {
		struct filler *f = &fillers.all[i];

		st_rlx(&f->epoch, (uint64_t)0);
		st_rlx(&f->copying, 0u);
		f->map = NULL;
		st_rlx(&f->frames, (struct frames *)NULL);
		f->credit = 0;
		f->paid = 0;
		memset(f->batch, 0, sizeof(f->batch));
		io_ctx_fork_child(&f->io);
		istack_push(&fillers.stack[i % STACKS].s, i, links());
	}
}
