// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * learn.c - is it cheaper to read a file whole, or to zero an anonymous region
 * whole, than to let the kernel fault it in?
 *
 * Small regions are always cheaper whole. For larger ones it depends on what
 * the program does with them (a reader that looks at one page of 200 KiB must
 * not pay for all) and on how much it costs to map and unmap just now (many
 * threads queue for the kernel's lock). So the pager watches: now and then it
 * serves a mapping the other way and compares.
 *
 * Files. Of a mapping watched in the kernel's hands: the time of its mmap and
 * its munmap, plus what the faults in between cost (the thread's own count of
 * faults tells how many). Of one watched here: the time to map it. The smaller estimate, for each size class, decides.
 *
 * Anonymous memory. One watched in the kernel's hands costs many faults where
 * it is used, so that is done at first and where the kernel serves anyway; what
 * regions served here are used for shows in a few words of a few of their pages
 * when they are unmapped.
 *
 * Ordering: estimates, all relaxed. Two threads that update one at a time may
 * lose one of the two updates.
 */
#include <sys/resource.h>
#include <time.h>

#include "api/pager.h"
#include "base/sys.h"
#include "base/ban.h"

/* Regions up to this size are cheaper whole even if one page is touched, with
 * one thread (72 KiB; 64 KiB). */
static const uint32_t always_pages[NR_ARENAS] = {
	[ARENA_FILE] = 18,
	[ARENA_ANON] = 16,
};

/* Anonymous: from this share of touched pages on, in 1/256, whole is cheaper. */
#define ANON_ENOUGH 64u

/* The first mappings of a class are watched both ways, then a few more, then two
 * in each so many. */
#define WATCH_FIRST 8u
#define WATCH_EVERY 128u
/* An anonymous mapping that the kernel serves anyway costs a few mincore more:
 * one in so many of the first, then as above. */
#define ANON_FIRST 2u
#define ANON_WATCH 8u

/*
 * What a page fault that maps a 64 KiB window of a cached file costs, and what
 * reading a page that is not in the CPU's caches costs more than one that was
 * just copied (less once the CPU prefetches); nanoseconds, measured on one
 * machine: bench-scan, 96K to 512K, all against first page. They weigh what
 * cannot be timed from here; a factor of two moves the break-even by a few
 * pages.
 */
#define FAULT_NS 1700u
#define FAULT_WINDOW 16u
#define COLD_PAGE_NS 300u
#define COLD_PAGES 17u
#define MORE_PAGE_NS 130u

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---------------------------------------------------------------------------
 * Deciding
 */

static bool watch_due(uint32_t seen)
{
	return seen < WATCH_FIRST || seen % (WATCH_EVERY / 2) == 0 ||
	       (seen < WATCH_EVERY && (seen & (seen - 1)) == 0);
}

static bool file_eager(struct fl_pager *p, unsigned int cls, struct watch *w)
{
	uint32_t seen = add_rlx(&p->learn.seen[ARENA_FILE][cls], 1u);
	uint32_t here = ld_rlx(&p->learn.cost_here[cls]);
	uint32_t kernel = ld_rlx(&p->learn.cost_kernel[cls]);
	/* Not known yet, as while the first mappings still exist: whole. */
	bool eager = here <= kernel || kernel == 0;

	if (likely(!watch_due(seen)))
		return eager;
	/* At first in turn; then the other way, and the way it goes anyway. */
	if (seen < WATCH_FIRST)
		eager = seen & 1;
	else if (seen % WATCH_EVERY != WATCH_EVERY / 2)
		eager = !eager;
	w->how = eager ? WATCH_HERE : WATCH_KERNEL;
	w->start = now_ns();
	return eager;
}

static bool anon_eager(struct fl_pager *p, unsigned int cls, struct watch *w)
{
	uint32_t seen = add_rlx(&p->learn.seen[ARENA_ANON][cls], 1u);
	bool eager = ld_rlx(&p->learn.touched[cls]) >= ANON_ENOUGH;
	uint32_t every = seen < WATCH_EVERY ? ANON_WATCH : WATCH_EVERY;

	if (seen < ANON_FIRST || (!eager && seen % every == 0)) {
		w->how = WATCH_KERNEL;
		return false;
	}
	return eager;
}

bool learn_eager(struct fl_pager *p, enum arena_kind kind, uint32_t pages,
		 struct watch *w)
{
	unsigned int cls = ext_class(pages);

	if (likely(pages <= always_pages[kind]) || !p->conf.learn)
		return true;
	w->kind = kind;
	w->pages = pages;
	return kind == ARENA_FILE ? file_eager(p, cls, w) :
				    anon_eager(p, cls, w);
}

/* ---------------------------------------------------------------------------
 * Watching
 */

/*
 * Takes a time into an estimate that falls fast and rises slowly: a time that is
 * long because the thread waited for a CPU says nothing about the cost, one that
 * is short does; and a lock that many queue for makes every sample long.
 */
static void take_cost(_Atomic(uint32_t) *mean, uint64_t ns)
{
	uint64_t old = ld_rlx(mean), new;

	if (old == 0)
		new = ns | 1u;
	else if (ns <= old)
		new = (old + 3 * ns) / 4;
	else
		new = old + (ns - old < 2 * old ? ns - old : 2 * old) / 8;
	st_rlx(mean, new < UINT32_MAX / 4 ? (uint32_t) new : UINT32_MAX / 4);
}

/* This thread's page faults so far. */
static uint64_t faults_now(void)
{
	struct rusage ru;

	if (sys_call2(__NR_getrusage, RUSAGE_THREAD, &ru) < 0)
		return 0;
	return (uint64_t)ru.ru_minflt + (uint64_t)ru.ru_majflt;
}

void learn_here(struct fl_pager *p, const struct watch *w)
{
	take_cost(&p->learn.cost_here[ext_class(w->pages)],
		  now_ns() - w->start);
}

void learn_start(struct watch *w)
{
	w->start = now_ns();
}

void learn_kernel(struct fl_pager *p, const struct watch *w, void *addr)
{
	uint64_t ns = now_ns() - w->start;
	uintptr_t old;

	for (size_t i = 0; i < ARRAY_SIZE(p->learn.sample); i++) {
		struct sample *s = &p->learn.sample[i];

		old = 0;
		if (ld_rlx(&s->addr) != 0 ||
		    /* [MO:sample] after learn_unmap's reads of the fields */
		    !cas_acq(&s->addr, &old, (uintptr_t)addr | 1u))
			continue;
		s->ns = ns > UINT32_MAX ? UINT32_MAX : (uint32_t)ns;
		s->pages = w->pages;
		s->kind = w->kind;
		s->tid = (uint32_t)sys_gettid();
		s->faults = faults_now();
		/* [MO:sample] the fields, to learn_unmap. */
		st_rel(&s->addr, (uintptr_t)addr);
		add_rlx(&p->learn.samples, 1u);
		return;
	}
}

/* How many pages of a range has the program touched? -1 where the kernel does
 * not tell. Of private anonymous memory mincore(2) says it; of a large one a few
 * windows are asked about. */
#define WINDOWS 4u
#define WINDOW_PAGES 64u

static int touched_anon(char *addr, size_t pages)
{
	unsigned char vec[WINDOWS * WINDOW_PAGES];
	bool whole = pages <= sizeof(vec);
	size_t step = whole ? pages : pages / WINDOWS, count = 0, seen = 0;

	for (size_t at = 0; at < pages && seen < sizeof(vec); at += step) {
		size_t n = whole ? pages : WINDOW_PAGES;

		if (sys_mincore(addr + (at << FL_PAGE_SHIFT),
				n << FL_PAGE_SHIFT, vec) < 0)
			return -1;
		for (size_t i = 0; i < n; i++)
			count += vec[i] & 1;
		seen += n;
	}
	return (int)(count * pages / seen);
}

/* Takes a share into the mean, with weight 1/@weight, rounded towards the
 * share, so that it gets there. */
static void take_share(struct fl_pager *p, unsigned int cls, uint32_t share,
		       uint32_t weight)
{
	uint32_t old = ld_rlx(&p->learn.touched[cls]), new;

	new = share > old ? old + (share - old + weight - 1) / weight :
			    old - (old - share + weight - 1) / weight;
	st_rlx(&p->learn.touched[cls], new);
}

static void end_anon(struct fl_pager *p, const struct sample *s, char *addr)
{
	unsigned int cls = ext_class(s->pages);
	int n = touched_anon(addr, s->pages);
	uint32_t share = n < 0 ? 256 : (uint32_t)n * 256 / s->pages;
	bool first = ld_rlx(&p->learn.seen[ARENA_ANON][cls]) <= ANON_FIRST;

	take_share(p, cls, share, first ? 1 : 2);
}

/*
 * Faults, and the reading of what was not in the caches. A fault brings a window
 * of pages, of which the program may want one; so all but the last window are
 * taken as read.
 */
static uint64_t touch_ns(uint32_t faults)
{
	uint32_t read = faults ? (faults - 1) * FAULT_WINDOW + 1 : 0;
	uint32_t cold = read < COLD_PAGES ? read : COLD_PAGES;

	return (uint64_t)faults * FAULT_NS + (uint64_t)cold * COLD_PAGE_NS +
	       (uint64_t)(read - cold) * MORE_PAGE_NS;
}

/* The faults of a mapping that ends: this thread's since it made it, if it was
 * this thread; else as if all of it had been touched. */
static uint32_t faults_of(const struct sample *s)
{
	uint32_t most = (s->pages + FAULT_WINDOW - 1) / FAULT_WINDOW;
	uint64_t n = faults_now() - s->faults;

	if (s->tid != (uint32_t)sys_gettid() || n > most)
		return most;
	return (uint32_t)n;
}

/* The end of a watched mapping, which is unmapped here. */
static long end_sample(struct fl_pager *p, const struct sample *s, char *addr,
		       size_t len)
{
	uint64_t start;
	uint32_t n;
	long ret;

	stat_inc(&p->stats, STAT_learn_samples);
	if (s->kind == ARENA_ANON) {
		end_anon(p, s, addr);
		return sys_munmap(addr, len);
	}
	n = faults_of(s);
	start = now_ns();
	ret = sys_munmap(addr, len);
	take_cost(&p->learn.cost_kernel[ext_class(s->pages)],
		  s->ns + (now_ns() - start) + touch_ns(n));
	return ret;
}

long learn_unmap(struct fl_pager *p, char *addr, size_t len)
{
	uintptr_t a = (uintptr_t)addr, at;

	if (likely(ld_rlx(&p->learn.samples) == 0))
		return sys_munmap(addr, len);
	for (size_t i = 0; i < ARRAY_SIZE(p->learn.sample); i++) {
		struct sample *s = &p->learn.sample[i], copy;

		at = ld_rlx(&s->addr);
		if (at == 0 || at & 1u || at - a >= len)
			continue;
		/* [MO:sample] pairs with learn_kernel: odd keeps the slot ours
		 * while its fields are read. */
		if (!cas_acq(&s->addr, &at, at | 1u))
			continue;
		copy.ns = s->ns;
		copy.pages = s->pages;
		copy.kind = s->kind;
		copy.tid = s->tid;
		copy.faults = s->faults;
		/* [MO:sample] free again, for learn_kernel to fill. */
		st_rel(&s->addr, (uintptr_t)0);
		sub_rlx(&p->learn.samples, 1u);
		if (at == a && len >> FL_PAGE_SHIFT == copy.pages)
			return end_sample(p, &copy, addr, len);
	}
	return sys_munmap(addr, len);
}

/* Pages looked at in a resident region. */
#define PROBES 8u

void learn_probe(struct fl_pager *p, const char *addr, uint32_t pages)
{
	uint32_t used = 0;

	if (likely(pages <= always_pages[ARENA_ANON]) || !p->conf.learn)
		return;
	for (uint32_t i = 0; i < PROBES; i++) {
		size_t page = (size_t)pages * i / PROBES;
		const uint64_t *w =
			(const void *)(addr + (page << FL_PAGE_SHIFT));

		for (unsigned int k = 0; k < 8; k++)
			if (w[k]) {
				used++;
				break;
			}
	}
	take_share(p, ext_class(pages), used * 256 / PROBES, 8);
}
