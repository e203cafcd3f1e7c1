/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_random - threads do random things to regions of their own, and fork; a
 * model kept beside them says what each page must hold. What the kernel alone
 * makes of it proves the model. Then all again under options that take other
 * paths.
 *
 * [fl:demand] service signal
 */
#include <pthread.h>

#include "support/see.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define SLOTS 24
#define MAX_PAGES 40
#define FILE_PAGES 64
#define THREADS 6

struct page {
	int mapped, prot;
	int file; /* MADV_DONTNEED brings the file's page off back */
	int off;
	int val;   /* -1: the file's bytes, else all bytes are this */
	int plain; /* as mmap made it: one mapping with its neighbours */
	int moved; /* by mremap, maybe out of the pager's hands */
};

struct slot {
	unsigned char *p;
	int n;
	struct page pg[MAX_PAGES];
};

struct world {
	struct slot slot[SLOTS];
	uint64_t seed;
	int depth; /* forks above */
	int wrong;
};

static int fd;

static int rnd(struct world *w, int below)
{
	w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
	return (int)((w->seed >> 33) % (unsigned int)below);
}

static void bad(struct world *w, const char *what)
{
	if (w->wrong++ < 3)
		fprintf(stderr, "%s: %s\n", what, ename(errno));
}

static void check(struct world *w, const struct slot *s)
{
	for (int i = 0; s->p && i < s->n; i++) {
		const struct page *g = &s->pg[i];
		const unsigned char *at = s->p + (size_t)i * PAGE;

		if (!g->mapped || !g->prot)
			continue;
		if (g->val < 0 ?
			    differs(at, 1, (size_t)g->off * PAGE, PAGE) >= 0 :
			    not_all(at, g->val, PAGE) >= 0)
			bad(w, "bytes");
	}
}

static void check_all(struct world *w)
{
	for (int i = 0; i < SLOTS; i++)
		check(w, &w->slot[i]);
}

static int mapped(const struct slot *s, int f, int n)
{
	int all = 1;

	for (int i = f; i < f + n; i++)
		all &= s->pg[i].mapped;
	return all;
}

/* One mapping to the kernel? */
static int uniform(const struct slot *s, int f, int n)
{
	const struct page *a = &s->pg[f];

	for (int i = f; i < f + n; i++) {
		const struct page *b = &s->pg[i];

		if (!b->mapped || !b->plain || b->prot != a->prot ||
		    b->file != a->file || (a->file && b->off != a->off + i - f))
			return 0;
	}
	return 1;
}

static void unmapped(struct slot *s, int f, int n)
{
	int left = 0;

	for (int i = f; i < f + n; i++)
		s->pg[i].mapped = 0;
	for (int i = 0; i < s->n; i++)
		left |= s->pg[i].mapped;
	if (!left)
		s->p = NULL;
}

static void op_map(struct world *w, struct slot *s)
{
	int kind = rnd(w, 3), flags = rnd(w, 2) ? MAP_POPULATE : 0;
	int prot = kind == 0 ? PROT_READ : RW, off;
	size_t len;

	s->n = 1 + rnd(w, rnd(w, 4) ? 9 : MAX_PAGES);
	off = rnd(w, FILE_PAGES - s->n + 1);
	len = (size_t)s->n * PAGE - (size_t)rnd(w, 4000);
	s->p = kind == 2 ? mmap(NULL, len, prot, ANON | flags, -1, 0) :
			   mmap(NULL, len, prot, MAP_PRIVATE | flags, fd,
				(off_t)off * (off_t)PAGE);
	if (s->p == MAP_FAILED)
		give_up("mmap");
	for (int i = 0; i < s->n; i++)
		s->pg[i] = (struct page){ .mapped = 1,
					  .prot = prot,
					  .file = kind != 2,
					  .off = off + i,
					  .val = kind == 2 ? 0 : -1,
					  .plain = 1 };
}

static void op_write(struct world *w, struct slot *s, int f, int n)
{
	for (int i = f; i < f + n; i++)
		if (s->pg[i].mapped && s->pg[i].prot == RW) {
			s->pg[i].val = 1 + rnd(w, 255);
			memset(s->p + (size_t)i * PAGE, s->pg[i].val, PAGE);
		}
}

static void op_protect(struct world *w, struct slot *s, int f, int n)
{
	static const int prots[] = { PROT_NONE, PROT_READ, RW };
	int prot = prots[rnd(w, 3)];

	if (!mapped(s, f, n))
		return;
	if (mprotect(s->p + (size_t)f * PAGE, (size_t)n * PAGE, prot))
		bad(w, "mprotect");
	for (int i = f; i < f + n; i++) {
		s->pg[i].prot = prot;
		s->pg[i].plain = 0;
	}
}

static void op_advise(struct world *w, struct slot *s, int f, int n)
{
	static const int advice[] = { MADV_DONTNEED, MADV_DONTNEED,
				      MADV_SEQUENTIAL, MADV_WILLNEED,
				      MADV_NOHUGEPAGE };
	int what = advice[rnd(w, COUNT(advice))];

	for (int i = f; i < f + n; i++)
		if (!s->pg[i].mapped || (s->pg[i].file && s->pg[i].moved))
			return;
	if (madvise(s->p + (size_t)f * PAGE, (size_t)n * PAGE, what) &&
	    what == MADV_DONTNEED)
		bad(w, "madvise");
	for (int i = f; i < f + n; i++)
		if (what == MADV_DONTNEED)
			s->pg[i].val = s->pg[i].file ? -1 : 0;
		else
			s->pg[i].plain = 0;
}

static void op_fixed(struct world *w, struct slot *s, int f, int n)
{
	unsigned char *at = s->p + (size_t)f * PAGE, *q;
	int prot = rnd(w, 2) ? RW : PROT_READ, file = rnd(w, 3) == 0;
	int off = rnd(w, FILE_PAGES - n + 1), flags = MAP_FIXED, holes = 0;

	for (int i = f; i < f + n; i++)
		holes += !s->pg[i].mapped;
	if (holes == n)
		flags = MAP_FIXED_NOREPLACE; /* may be somebody's by now */
	else if (holes)
		return;
	q = file ? mmap(at, (size_t)n * PAGE, prot, MAP_PRIVATE | flags, fd,
			(off_t)off * (off_t)PAGE) :
		   mmap(at, (size_t)n * PAGE, prot, ANON | flags, -1, 0);
	if (q != at && holes && errno == EEXIST)
		return;
	if (q != at)
		bad(w, "mmap over");
	for (int i = f; i < f + n; i++)
		s->pg[i] = (struct page){ .mapped = 1,
					  .prot = prot,
					  .file = file,
					  .off = off + i - f,
					  .val = file ? -1 : 0,
					  .moved = 1 };
}

/* To a place of the kernel's choice, shrinking or growing. */
static void op_move(struct world *w, struct slot *s, int f, int n)
{
	int to_n = 1 + rnd(w, MAX_PAGES);
	struct page first = s->pg[f];
	struct slot *t = w->slot;

	while (t < w->slot + SLOTS && t->p)
		t++;
	if (t == w->slot + SLOTS || !uniform(s, f, n))
		return;
	if (first.file && to_n > n && first.off + to_n > FILE_PAGES)
		to_n = n;
	t->p = mremap(s->p + (size_t)f * PAGE, (size_t)n * PAGE,
		      (size_t)to_n * PAGE, MREMAP_MAYMOVE);
	if (t->p == MAP_FAILED) {
		bad(w, "mremap");
		t->p = NULL;
		return;
	}
	t->n = to_n;
	for (int i = 0; i < to_n; i++) {
		t->pg[i] = i < n ? s->pg[f + i] : first;
		if (i >= n) {
			t->pg[i].off = first.off + i;
			t->pg[i].val = first.file ? -1 : 0;
		}
		t->pg[i].plain = 0;
		t->pg[i].moved = 1;
	}
	unmapped(s, f, n);
}

/* Onto other pages of ours, which go. */
static void op_move_over(struct world *w, struct slot *s, int f, int n)
{
	struct slot *t = &w->slot[rnd(w, SLOTS)];
	int flags = MREMAP_MAYMOVE | MREMAP_FIXED, keep, tf, tn;
	unsigned char *to;

	if (t == s || !t->p || !uniform(s, f, n))
		return;
	tf = rnd(w, t->n);
	tn = 1 + rnd(w, t->n - tf);
	if (tn > n)
		tn = n;
	if (!mapped(t, tf, tn))
		return;
	keep = !s->pg[f].file && rnd(w, 2);
	if (keep) {
		n = tn;
		flags |= MREMAP_DONTUNMAP;
	}
	to = t->p + (size_t)tf * PAGE;
	if (mremap(s->p + (size_t)f * PAGE, (size_t)n * PAGE, (size_t)tn * PAGE,
		   flags, to) != to)
		bad(w, "mremap over");
	for (int i = 0; i < tn; i++) {
		t->pg[tf + i] = s->pg[f + i];
		t->pg[tf + i].plain = 0;
		t->pg[tf + i].moved = 1;
	}
	for (int i = f; keep && i < f + n; i++)
		s->pg[i].val = 0;
	if (!keep)
		unmapped(s, f, n);
}

static void step(struct world *w)
{
	struct slot *s = &w->slot[rnd(w, SLOTS)];
	int f, n;

	if (!s->p) {
		op_map(w, s);
		return;
	}
	f = rnd(w, 4) ? rnd(w, s->n) : 0;
	n = rnd(w, 4) ? 1 + rnd(w, s->n - f) : s->n - f;
	switch (rnd(w, 9)) {
	case 0:
	case 1:
		if (!mapped(s, f, n))
			return;
		if (munmap(s->p + (size_t)f * PAGE, (size_t)n * PAGE))
			bad(w, "munmap");
		unmapped(s, f, n);
		break;
	case 2:
	case 3:
		op_write(w, s, f, n);
		break;
	case 4:
		op_protect(w, s, f, n);
		break;
	case 5:
		op_advise(w, s, f, n);
		break;
	case 6:
		op_fixed(w, s, f, n);
		break;
	case 7:
		op_move(w, s, f, n);
		break;
	default:
		op_move_over(w, s, f, n);
	}
	check(w, s);
}

static void steps(struct world *w, int count)
{
	for (int i = 0; i < count; i++) {
		pid_t pid;

		step(w);
		if (rnd(w, 50) == 0)
			check_all(w);
		if (w->depth >= 3 || rnd(w, 300))
			continue;
		check_all(w);
		pid = fork();
		if (pid == 0) {
			w->depth++;
			w->seed ^= 0x5555;
			steps(w, rnd(w, 200));
			check_all(w);
			_exit(w->wrong != 0);
		}
		steps(w, rnd(w, 100));
		if (strcmp(end_of(pid), "exit 0"))
			bad(w, "child");
	}
}

static void *in_thread(void *arg)
{
	struct world *w = arg;

	steps(w, 2000);
	check_all(w);
	return NULL;
}

static void round_of(int threads, uint64_t seed)
{
	static struct world w[THREADS];
	pthread_t t[THREADS];
	int wrong = 0;

	memset(w, 0, sizeof(w));
	for (int i = 0; i < threads; i++) {
		w[i].seed = seed * 1000 + (uint64_t)i;
		if (pthread_create(&t[i], NULL, in_thread, &w[i]))
			give_up("pthread_create");
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(t[i], NULL);
		wrong += w[i].wrong;
	}
	say("%d threads, round %d: %d wrong", threads, (int)seed, wrong);
}

static const char *const options[] = { "", "FAULTLINE_HARDENED=1",
				       "FAULTLINE_MEM=8M",
				       "FAULTLINE_LEARN=0" };

int main(int argc, char **argv)
{
	int set = argc > 1 ? atoi(argv[1]) : 0;
	char next[16];

	fd = temp_file(1, FILE_PAGES * PAGE, O_RDONLY);
	say("with '%s'", options[set]);
	round_of(1, 1);
	round_of(THREADS, 2);
	if (++set == COUNT(options))
		return 0;
	for (int i = 1; i < (int)COUNT(options); i++) {
		char name[32];

		memcpy(name, options[i], strlen(options[i]) + 1);
		*strchr(name, '=') = 0;
		unsetenv(name);
	}
	putenv((char *)(uintptr_t)options[set]);
	snprintf(next, sizeof(next), "%d", set);
	execl("/proc/self/exe", argv[0], next, (char *)NULL);
	give_up("execl");
}
