/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_mremap - regions shrunk, grown, moved, moved onto others, and moved
 * away with their place kept. Growth in place depends on the neighbours, so
 * only its outcome for the bytes is printed.
 *
 * [fl:demand] service signal
 */
#include "support/see.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#define N 8
#define FILE_PAGES 32
#define RW (PROT_READ | PROT_WRITE)

static int fd;
static const char *const kinds[] = { "file", "private", "anon" };

static unsigned char *region(int kind)
{
	unsigned char *p;

	if (kind == 0)
		p = mmap(NULL, N * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	else if (kind == 1)
		p = mmap(NULL, N * PAGE, RW, MAP_PRIVATE, fd, 0);
	else
		p = mmap(NULL, N * PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0);
	if (p == MAP_FAILED)
		give_up("mmap");
	if (kind == 2)
		fill_as(p, 1, 0, N * PAGE);
	return p;
}

static unsigned char *reserve(size_t pages)
{
	unsigned char *p = mmap(NULL, pages * PAGE, PROT_NONE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
				0);

	if (p == MAP_FAILED)
		give_up("reserve");
	return p;
}

/* Pages by content: f file 1 in place, z zero, . unmapped, ? else. */
static void look(const char *what, const unsigned char *p, size_t pages)
{
	char s[64];

	memcpy(s, layout(p, pages), pages + 1);
	for (size_t i = 0; i < pages; i++) {
		const unsigned char *at = p + i * PAGE;

		if (s[i] != '#')
			continue;
		if (strcmp(try_read(at), "ok"))
			s[i] = '!';
		else if (differs(at, 1, i * PAGE, PAGE) < 0)
			s[i] = 'f';
		else
			s[i] = not_all(at, 0, PAGE) < 0 ? 'z' : '?';
	}
	say("  %s: %s", what, s);
}

static void shrink(int kind)
{
	unsigned char *p = region(kind), *q;

	say("%s, shrink", kinds[kind]);
	errno_mark();
	q = mremap(p, N * PAGE, 5 * PAGE, 0);
	say("  %s in place %d errno kept %d", res_p(q), q == p, errno_kept());
	look("5", p, N);
	q = mremap(p, 5 * PAGE, 5 * PAGE, 0);
	say("  same size: %s in place %d", res_p(q), q == p);
	q = mremap(p, 5 * PAGE, 1, MREMAP_MAYMOVE);
	say("  to a byte: %s in place %d", res_p(q), q == p);
	look("1", p, N);
	SAY_I(munmap(p, N * PAGE));
}

static void grow(int kind)
{
	unsigned char *p = region(kind), *q, *r;

	say("%s, grow", kinds[kind]);
	q = mremap(p, N * PAGE, 20 * PAGE, MREMAP_MAYMOVE);
	say("  %s", res_p(q));
	if (q == MAP_FAILED) {
		look("kept", p, N);
		munmap(p, N * PAGE);
		return;
	}
	look("grown", q, 20);
	if (q != p)
		look("old place", p, N);
	say("  write %s", try_write(q + 19 * PAGE, 1));
	SAY_I(munmap(q, 20 * PAGE));
	look("gone", q, 20);

	/* Growth in place only: either outcome, but the bytes stay. */
	p = region(kind);
	q = mremap(p, N * PAGE, 10 * PAGE, 0);
	r = q == MAP_FAILED ? p : q;
	say("  in place or not at all %d, bytes %ld", q == p || errno == ENOMEM,
	    differs(r, 1, 0, N * PAGE));
	SAY_I(munmap(p, (q == p ? 10 : N) * PAGE));
}

static void part(int kind)
{
	unsigned char *p = region(kind), *q, *where = reserve(4);

	say("%s, a part", kinds[kind]);
	q = mremap(p + 2 * PAGE, 3 * PAGE, 3 * PAGE,
		   MREMAP_MAYMOVE | MREMAP_FIXED, where);
	say("  moved: %s there %d", res_p(q), q == where);
	look("rest", p, N);
	say("  part %ld", differs(where, 1, 2 * PAGE, 3 * PAGE));
	SAY_I(munmap(p, N * PAGE));
	say("  part %ld", differs(where, 1, 2 * PAGE, 3 * PAGE));
	SAY_I(munmap(where, 4 * PAGE));

	p = region(kind);
	q = mremap(p + 4 * PAGE, 4 * PAGE, 2 * PAGE, MREMAP_MAYMOVE);
	say("  tail shrunk: %s in place %d", res_p(q), q == p + 4 * PAGE);
	look("left", p, N);
	SAY_I(munmap(p, N * PAGE));
}

static void move(int kind)
{
	unsigned char *p = region(kind), *q, *where = reserve(N + 2);
	unsigned char *other = region(2 - kind);

	say("%s, move", kinds[kind]);
	errno_mark();
	q = mremap(p, N * PAGE, N * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
		   where + PAGE);
	say("  %s there %d errno kept %d", res_p(q), q == where + PAGE,
	    errno_kept());
	look("new place", where + PAGE, N);
	look("old place", p, N);
	/* Onto a live region of the other kind, shrinking. */
	q = mremap(where + PAGE, N * PAGE, 4 * PAGE,
		   MREMAP_MAYMOVE | MREMAP_FIXED, other + 2 * PAGE);
	say("  onto another: %s there %d", res_p(q), q == other + 2 * PAGE);
	say("  bytes %ld, head %ld, tail %ld",
	    differs(other + 2 * PAGE, 1, 0, 4 * PAGE),
	    differs(other, 1, 0, 2 * PAGE),
	    differs(other + 6 * PAGE, 1, 6 * PAGE, 2 * PAGE));
	look("left behind", where, N + 2);
	SAY_I(munmap(other, N * PAGE));
	SAY_I(munmap(where, (N + 2) * PAGE));
}

static void keep_place(int kind)
{
	unsigned char *p = region(kind), *q;

	say("%s, place kept", kinds[kind]);
	q = mremap(p, N * PAGE, N * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP);
	say("  %s", res_p(q));
	if (q == MAP_FAILED) {
		munmap(p, N * PAGE);
		return;
	}
	look("new place", q, N);
	look("old place", p, N);
	say("  write old %s", try_write(p + 3 * PAGE, 7));
	look("new place", q, N);
	SAY_I(munmap(p, N * PAGE));
	look("new place", q, N);
	SAY_I(munmap(q, N * PAGE));
	look("gone", q, N);
}

/* Growth where the program has put something behind the region. */
static void neighbour(void)
{
	unsigned char *p = region(2), *q, *r;

	say("a neighbour");
	SAY_I(munmap(p + 5 * PAGE, (N - 5) * PAGE));
	r = mmap(p + 5 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
	say("  %s", res_p(r));
	q = mremap(p, 5 * PAGE, 20 * PAGE, MREMAP_MAYMOVE);
	say("  %s, bytes %ld, neighbour's %ld", res_p(q),
	    differs(q, 1, 0, 5 * PAGE), differs(r, 1, 0, PAGE));
	SAY_I(munmap(q, 20 * PAGE));
	say("  neighbour's %ld", differs(r, 1, 0, PAGE));
	SAY_I(munmap(r, PAGE));

	/* Five pages of a region of five, the room behind them taken. */
	p = mmap(NULL, 5 * PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	r = mmap(p + 5 * PAGE, PAGE, PROT_READ,
		 MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd, 0);
	fill_as(p, 1, 0, 5 * PAGE);
	q = mremap(p, 5 * PAGE, 8 * PAGE, MREMAP_MAYMOVE);
	say("  %s, bytes %ld, neighbour's %d", res_p(q),
	    differs(q, 1, 0, 5 * PAGE),
	    r == MAP_FAILED || differs(r, 1, 0, PAGE) < 0);
	SAY_I(munmap(q, 8 * PAGE));
	if (r != MAP_FAILED)
		munmap(r, PAGE);
}

/* A region in pieces for a while, and one mapping again. */
static void rejoined(void)
{
	unsigned char *p = region(2), *q;

	say("rejoined");
	SAY_I(mprotect(p + 2 * PAGE, PAGE, PROT_READ));
	SAY_P(mremap(p, N * PAGE, 3 * N * PAGE, MREMAP_MAYMOVE));
	SAY_I(mprotect(p + 2 * PAGE, PAGE, RW));
	q = mremap(p, N * PAGE, 3 * N * PAGE, MREMAP_MAYMOVE);
	say("  %s", res_p(q));
	if (q == MAP_FAILED)
		q = p;
	look("grown", q, 3 * N);
	SAY_I(munmap(q, 3 * N * PAGE));
}

/* A kernel mapping whose place is kept, onto a live region of any kind. */
static void keep_place_onto(int kind)
{
	unsigned char *p = region(2), *to = region(kind), *q, *r[4];
	int wrong = 0;

	say("%s, under a mapping whose place is kept", kinds[kind]);
	SAY_I(mprotect(p, N * PAGE, PROT_READ));
	q = mremap(p, N * PAGE, N * PAGE,
		   MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to);
	say("  %s there %d bytes %ld", res_p(q), q == to,
	    differs(to, 1, 0, N * PAGE));
	look("old place", p, N);
	SAY_I(munmap(to, N * PAGE));
	look("gone", to, N);
	for (size_t i = 0; i < COUNT(r); i++) {
		r[i] = region(kind);
		wrong += differs(r[i], 1, 0, N * PAGE) >= 0;
	}
	for (size_t i = 0; i < COUNT(r); i++)
		munmap(r[i], N * PAGE);
	say("  next regions: %d wrong", wrong);
	SAY_I(munmap(p, N * PAGE));
}

static void errors(int kind)
{
	unsigned char *p = region(kind), *where = reserve(N);

	say("%s, errors", kinds[kind]);
	SAY_P(mremap(p + 1, PAGE, PAGE, MREMAP_MAYMOVE));
	SAY_P(mremap(p, N * PAGE, 0, MREMAP_MAYMOVE));
	SAY_P(mremap(p, 0, PAGE, MREMAP_MAYMOVE));
	SAY_P(mremap(p, N * PAGE, N * PAGE, 0x80));
	SAY_P(mremap(p, N * PAGE, N * PAGE, MREMAP_FIXED, where));
	SAY_P(mremap(p, N * PAGE, N * PAGE, MREMAP_DONTUNMAP));
	SAY_P(mremap(p, N * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP));
	SAY_P(mremap(p, N * PAGE, N * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
		     where + 1));
	SAY_P(mremap(p, N * PAGE, N * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
		     p + PAGE));
	SAY_P(mremap(p, N * PAGE, N * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, p));
	SAY_P(mremap(p, N * PAGE, (size_t)1 << 47, MREMAP_MAYMOVE));
	SAY_P(mremap(p, N * PAGE, SIZE_MAX - 4095, MREMAP_MAYMOVE));
	SAY_P(mremap(p, (size_t)1 << 40, ((size_t)1 << 40) + PAGE,
		     MREMAP_MAYMOVE));
	look("kept", p, N);
	SAY_I(munmap(where, N * PAGE));
	SAY_I(munmap(p, N * PAGE));
	SAY_P(mremap(p, N * PAGE, 2 * N * PAGE, MREMAP_MAYMOVE));
}

int main(void)
{
	see_faults();
	fd = temp_file(1, FILE_PAGES * PAGE, O_RDONLY);
	for (int kind = 0; kind < 3; kind++) {
		shrink(kind);
		grow(kind);
		part(kind);
		move(kind);
		keep_place(kind);
		errors(kind);
		keep_place_onto(kind);
	}
	neighbour();
	rejoined();
	return 0;
}
