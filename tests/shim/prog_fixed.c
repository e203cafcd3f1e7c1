/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_fixed - MAP_FIXED, MAP_FIXED_NOREPLACE and hints, over live regions,
 * into the holes they leave, and in plain reservations.
 *
 * [fl:demand] service signal
 */
#include "support/see.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#define N 16
#define RW (PROT_READ | PROT_WRITE)
#define PANON (MAP_PRIVATE | MAP_ANONYMOUS)

static int fd, fd2;

static unsigned char *region(int anon)
{
	unsigned char *p;

	p = anon ? mmap(NULL, N * PAGE, RW, PANON, -1, 0) :
		   mmap(NULL, N * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		give_up("mmap");
	if (anon)
		fill_as(p, 1, 0, N * PAGE);
	return p;
}

/* Page by page: f of file 1 in place, g of file 2, z zero, ? else, . none. */
static void look(const char *what, const unsigned char *p)
{
	char s[N + 1];

	memcpy(s, layout(p, N), N + 1);
	for (size_t i = 0; i < N; i++) {
		const unsigned char *at = p + i * PAGE;

		if (s[i] != '#')
			continue;
		if (strcmp(try_read(at), "ok"))
			s[i] = '!';
		else if (differs(at, 1, i * PAGE, PAGE) < 0)
			s[i] = 'f';
		else if (differs(at, 2, i * PAGE, PAGE) < 0)
			s[i] = 'g';
		else
			s[i] = not_all(at, 0, PAGE) < 0 ? 'z' : '?';
	}
	say("  %s: %s", what, s);
}

static void put(const char *what, unsigned char *p, size_t first, size_t nr,
		int prot, int flags, int file)
{
	unsigned char *q;

	errno_mark();
	q = mmap(p + first * PAGE, nr * PAGE, prot, flags, file,
		 file < 0 ? 0 : (off_t)(first * PAGE));
	if (q == MAP_FAILED)
		say("  %s %zu+%zu: %s", what, first, nr, ename(errno));
	else
		say("  %s %zu+%zu: placed %d errno kept %d", what, first, nr,
		    q == p + first * PAGE, errno_kept());
	if (q != MAP_FAILED && q != p + first * PAGE)
		munmap(q, nr * PAGE);
	look("now", p);
}

static void over_live(int anon)
{
	unsigned char *p = region(anon);

	say("over a live %s region", anon ? "anonymous" : "file");
	put("anon", p, 2, 2, RW, PANON | MAP_FIXED, -1);
	memset(p + 2 * PAGE, 7, 2 * PAGE);
	put("anon again", p, 2, 1, RW, PANON | MAP_FIXED, -1);
	put("anon read-only", p, 4, 1, PROT_READ, PANON | MAP_FIXED, -1);
	say("  write %s", try_write(p + 4 * PAGE + 5, 1));
	put("file", p, 6, 2, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd2);
	put("shared file", p, 9, 2, PROT_READ, MAP_SHARED | MAP_FIXED, fd2);
	put("none", p, 12, 1, PROT_NONE, PANON | MAP_FIXED, -1);
	put("bad descriptor", p, 0, 2, PROT_READ, MAP_PRIVATE | MAP_FIXED, 999);
	put("no flags", p, 0, 2, PROT_READ, MAP_FIXED, fd2);
	SAY_P(mmap(p + 1, PAGE, RW, PANON | MAP_FIXED, -1, 0));
	SAY_P(mmap(p, 0, RW, PANON | MAP_FIXED, -1, 0));
	look("refused", p);
	put("noreplace live", p, 0, 1, RW, PANON | MAP_FIXED_NOREPLACE, -1);
	put("noreplace replaced", p, 6, 1, RW, PANON | MAP_FIXED_NOREPLACE, -1);
	put("all", p, 0, N, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd2);
	put("all", p, 0, N, RW, PANON | MAP_FIXED, -1);
	fill_as(p, 1, 0, N * PAGE);
	look("written", p);
	SAY_I(munmap(p, N * PAGE));
	look("end", p);
}

static void into_holes(int anon)
{
	unsigned char *p = region(anon), *q;

	say("into the hole of %s", anon ? "an anonymous region" : "a file");
	SAY_I(munmap(p + 4 * PAGE, 4 * PAGE));
	look("hole", p);
	put("anon", p, 4, 1, RW, PANON | MAP_FIXED, -1);
	put("noreplace", p, 5, 1, RW, PANON | MAP_FIXED_NOREPLACE, -1);
	put("noreplace half", p, 3, 2, RW, PANON | MAP_FIXED_NOREPLACE, -1);
	put("file", p, 6, 2, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd2);
	SAY_I(munmap(p, N * PAGE));
	look("end", p);

	/* Exactly where a whole region was a moment ago. */
	put("whole, fixed", p, 0, N, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd2);
	SAY_I(munmap(p, N * PAGE));
	p = region(anon);
	SAY_I(munmap(p, N * PAGE));
	put("whole, noreplace", p, 0, N, RW, PANON | MAP_FIXED_NOREPLACE, -1);
	/* What is placed stays out of the way of later regions. */
	memset(p, 0x77, N * PAGE);
	for (int i = 0; i < 50; i++) {
		q = region(i & 1);
		if (q < p + N * PAGE && p < q + N * PAGE)
			say("  a new region lies over a placed one");
		munmap(q, N * PAGE);
	}
	say("  kept %ld", not_all(p, 0x77, N * PAGE));
	SAY_I(munmap(p, N * PAGE));
}

/* Placing must not be undone by the recycling of the memory around it. */
static void then_recycle(int anon)
{
	unsigned char *p = region(anon), *q[40];
	int wrong = 0;

	put("in the middle", p, 8, 1, RW, PANON | MAP_FIXED, -1);
	memset(p + 8 * PAGE, 0x99, PAGE);
	munmap(p, 8 * PAGE);
	munmap(p + 9 * PAGE, 7 * PAGE);
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 40; i++)
			q[i] = region((i + round) & 1);
		for (int i = 0; i < 40; i++) {
			wrong += differs(q[i], 1, 0, N * PAGE) >= 0;
			munmap(q[i], N * PAGE);
		}
	}
	say("  island %ld, others wrong %d", not_all(p + 8 * PAGE, 0x99, PAGE),
	    wrong);
	SAY_I(munmap(p + 8 * PAGE, PAGE));
	look("end", p);
}

static void reservation(void)
{
	unsigned char *p =
		mmap(NULL, N * PAGE, PROT_NONE, PANON | MAP_NORESERVE, -1, 0);

	say("in a reservation");
	put("anon", p, 0, 4, RW, PANON | MAP_FIXED, -1);
	put("file", p, 4, 4, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd2);
	put("file", p, 8, 4, PROT_READ, MAP_SHARED | MAP_FIXED, fd);
	SAY_I(munmap(p + 5 * PAGE, 4 * PAGE));
	put("noreplace hole", p, 5, 4, RW, PANON | MAP_FIXED_NOREPLACE, -1);
	SAY_I(munmap(p + 5 * PAGE, 4 * PAGE));
	put("hint hole", p, 5, 4, RW, PANON, -1);
	put("hint taken", p, 0, 2, RW, PANON, -1);
	put("hint taken, file", p, 0, 2, PROT_READ, MAP_PRIVATE, fd);
	SAY_I(munmap(p, N * PAGE));
	look("end", p);
}

static void odd_places(void)
{
	char *low = (char *)(size_t)3, *top = (char *)((size_t)1 << 47);
	char *wild = (char *)(SIZE_MAX - 4095);
	void *q;

	SAY_P(mmap(low, PAGE, RW, PANON | MAP_FIXED, -1, 0));
	SAY_P(mmap(top, PAGE, RW, PANON | MAP_FIXED, -1, 0));
	SAY_P(mmap(wild, PAGE, RW, PANON | MAP_FIXED, -1, 0));
	SAY_P(mmap(wild, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0));
	q = mmap(low, PAGE, RW, PANON, -1, 0);
	say("hint 3: %s", res_p(q));
	munmap(q, PAGE);
	q = mmap(wild, PAGE, RW, PANON, -1, 0);
	say("hint top: %s", res_p(q));
	munmap(q, PAGE);
}

int main(void)
{
	see_faults();
	fd = temp_file(1, N * PAGE, O_RDONLY);
	fd2 = temp_file(2, N * PAGE, O_RDONLY);
	for (int anon = 0; anon < 2; anon++) {
		over_live(anon);
		into_holes(anon);
		then_recycle(anon);
	}
	reservation();
	odd_places();
	return 0;
}
