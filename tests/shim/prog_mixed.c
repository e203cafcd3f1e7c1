/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_mixed - one call over a range that is part region, part kernel mapping,
 * part hole: mprotect, madvise, msync, mlock, mincore, mremap and munmap apply
 * to what is there and say what the kernel says.
 */
#include "support/see.h"

#define N 12
#define RW (PROT_READ | PROT_WRITE)
#define PANON (MAP_PRIVATE | MAP_ANONYMOUS)

static int fd, fd2;

/* Pages 0-3 region, 4-5 kernel file, 6-7 region, 8 kernel anon, 9-11 region */
static unsigned char *mixture(int kind)
{
	unsigned char *p;

	if (kind == 0)
		p = mmap(NULL, N * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	else if (kind == 1)
		p = mmap(NULL, N * PAGE, RW, MAP_PRIVATE, fd, 0);
	else
		p = mmap(NULL, N * PAGE, RW, PANON, -1, 0);
	if (p == MAP_FAILED)
		give_up("mmap");
	if (kind == 2)
		fill_as(p, 1, 0, N * PAGE);
	if (mmap(p + 4 * PAGE, 2 * PAGE, RW, MAP_SHARED | MAP_FIXED, fd2,
		 4 * PAGE) != p + 4 * PAGE)
		give_up("MAP_FIXED");
	if (mmap(p + 8 * PAGE, PAGE, RW, PANON | MAP_FIXED, -1, 0) !=
	    p + 8 * PAGE)
		give_up("MAP_FIXED");
	memset(p + 8 * PAGE, 0xab, PAGE);
	return p;
}

/* A letter a page: f, g of file 1 and 2, a as written, z zero, ! no access;
 * capitals where it can be written. */
static void look(const char *what, unsigned char *p)
{
	char s[N + 1];

	memcpy(s, layout(p, N), N + 1);
	for (size_t i = 0; i < N; i++) {
		unsigned char *at = p + i * PAGE;

		if (s[i] != '#')
			continue;
		if (strcmp(try_read(at), "ok"))
			s[i] = '!';
		else if (differs(at, 1, i * PAGE, PAGE) < 0)
			s[i] = 'f';
		else if (differs(at, 2, i * PAGE, PAGE) < 0)
			s[i] = 'g';
		else if (not_all(at, 0xab, PAGE) < 0)
			s[i] = 'a';
		else
			s[i] = not_all(at, 0, PAGE) < 0 ? 'z' : '?';
		if (s[i] != '!' && !strcmp(try_write(at, at[0]), "ok"))
			s[i] = (char)(s[i] - 32);
	}
	say("  %s: %s", what, s);
}

static void calls(int kind, unsigned char *p, size_t n)
{
	unsigned char vec[N + 1];

	(void)kind;
	look("before", p);
	SAY_I(mprotect(p, n, PROT_READ));
	look("read-only", p);
	SAY_I(mprotect(p, n, PROT_NONE));
	look("none", p);
	SAY_I(mprotect(p + 3 * PAGE, n - 6 * PAGE, RW));
	look("middle", p);
	SAY_I(mprotect(p, n, RW));
	look("all", p);
	SAY_I(madvise(p, n, MADV_SEQUENTIAL));
	SAY_I(madvise(p, n, MADV_WILLNEED));
	SAY_I(madvise(p, n, MADV_POPULATE_READ));
	SAY_I(madvise(p, n, 77));
	SAY_I(mincore(p, n, vec));
	SAY_I(msync(p, n, MS_SYNC));
	SAY_I(mlock(p, n));
	SAY_I(munlock(p, n));
	look("advised", p);
	SAY_I(madvise(p, n, MADV_DONTNEED));
	look("dropped", p);
}

static void spans(int kind)
{
	unsigned char *p = mixture(kind);

	say("kind %d, whole", kind);
	calls(kind, p, N * PAGE);
	SAY_I(munmap(p, N * PAGE));
	look("gone", p);

	say("kind %d, with a hole", kind);
	p = mixture(kind);
	SAY_I(munmap(p + 6 * PAGE, PAGE));
	calls(kind, p, N * PAGE);
	SAY_I(munmap(p, N * PAGE));
	look("gone", p);

	say("kind %d, from within", kind);
	p = mixture(kind);
	SAY_I(munmap(p + PAGE, 4 * PAGE));
	look("cut", p);
	SAY_I(munmap(p + 7 * PAGE, 3 * PAGE));
	look("cut", p);
	SAY_I(munmap(p, N * PAGE));
	look("gone", p);
}

/* A mapping that ends or begins in the middle of a region. */
static void overlap(int kind)
{
	unsigned char *r = mmap(NULL, 3 * N * PAGE, PROT_NONE,
				PANON | MAP_NORESERVE, -1, 0);
	unsigned char *p = mixture(kind), *q;

	say("kind %d, moved", kind);
	q = mremap(p + 2 * PAGE, 2 * PAGE, 2 * PAGE,
		   MREMAP_MAYMOVE | MREMAP_FIXED, r + PAGE);
	say("  region part moved out: %s", res_p(q));
	look("left", p);
	q = mremap(p + 4 * PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
		   r + 4 * PAGE);
	say("  kernel part moved out: %s", res_p(q));
	look("left", p);
	q = mremap(r + PAGE, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
		   p + 2 * PAGE);
	say("  moved back in: %s", res_p(q));
	look("back", p);
	q = mremap(r + 4 * PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
		   p + 10 * PAGE);
	say("  onto another part: %s", res_p(q));
	say("  %ld", differs(p + 10 * PAGE, 2, 4 * PAGE, PAGE));
	look("all", p);
	SAY_I(munmap(p, N * PAGE));
	SAY_I(munmap(r, 3 * N * PAGE));
}

/* All of it over again while other regions come and go. */
static void often(int kind)
{
	unsigned long wrong = 0;

	for (int i = 0; i < 200; i++) {
		unsigned char *p = mixture(kind), *q = mixture(2 - kind);

		wrong += munmap(p, (size_t)(1 + i % N) * PAGE) != 0;
		wrong += mprotect(q, N * PAGE, PROT_READ) != 0;
		wrong += differs(q, 1, 0, 4 * PAGE) >= 0;
		wrong += differs(q + 9 * PAGE, 1, 9 * PAGE, 3 * PAGE) >= 0;
		wrong += munmap(q, N * PAGE) != 0;
		if (i % N < 9)
			wrong += differs(p + 9 * PAGE, 1, 9 * PAGE, 3 * PAGE) >=
				 0;
		wrong += munmap(p, N * PAGE) != 0;
	}
	say("kind %d, often: %lu wrong", kind, wrong);
}

int main(void)
{
	see_faults();
	fd = temp_file(1, N * PAGE, O_RDONLY);
	fd2 = temp_file(2, N * PAGE, O_RDWR);
	for (int kind = 0; kind < 3; kind++) {
		spans(kind);
		overlap(kind);
		often(kind);
	}
	return 0;
}
