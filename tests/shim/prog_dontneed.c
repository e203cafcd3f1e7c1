/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_dontneed - MADV_DONTNEED on file regions brings the file's bytes back:
 * after protections have changed, and in a child of fork; not where something
 * else has been mapped since.
 *
 * [fl:demand] service signal
 */
#include "support/see.h"

#define N 8
#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)

static int fd;

static unsigned char *region(int prot)
{
	unsigned char *p = mmap(NULL, N * PAGE, prot, MAP_PRIVATE, fd, 0);

	if (p == MAP_FAILED)
		give_up("mmap");
	return p;
}

static void drop(const char *what, unsigned char *p)
{
	int r = madvise(p, N * PAGE, MADV_DONTNEED);

	say("  %s: %s, bytes %ld", what, res_i(r), differs(p, 1, 0, N * PAGE));
}

/* The parent's regions, and others that take the memory of those unmapped. */
static void in_child(int prot)
{
	unsigned char *whole = region(prot), *half = region(prot), *r[4];
	pid_t pid;

	say("prot %d", prot);
	SAY_I(mprotect(whole, N * PAGE, RW));
	SAY_I(mprotect(half + 2 * PAGE, 3 * PAGE, RW));
	memset(whole, 3, N * PAGE);
	memset(half + 2 * PAGE, 3, 3 * PAGE);
	for (int round = 0; round < 2; round++) {
		pid = fork();
		if (pid == 0) {
			for (size_t i = 0; i < COUNT(r); i++)
				r[i] = region(PROT_READ);
			memset(whole + PAGE, 4, PAGE);
			drop("child, whole", whole);
			if (round == 0)
				drop("child, half", half);
			for (size_t i = 0; i < COUNT(r); i++)
				drop("child, own", r[i]);
			_exit(0);
		}
		say("  child %s", end_of(pid));
		/* Then nothing but demoted pages lives. */
		if (round == 0)
			SAY_I(munmap(half, N * PAGE));
	}
	drop("parent", whole);
	SAY_I(munmap(whole, N * PAGE));
}

static void mapped_over(int prot)
{
	unsigned char *p = region(prot), *q;

	say("prot %d, mapped over", prot);
	SAY_I(mprotect(p, N * PAGE, RW));
	q = mmap(p + 4 * PAGE, 4 * PAGE, RW, ANON | MAP_FIXED, -1, 0);
	say("  %s there %d", res_p(q), q == p + 4 * PAGE);
	memset(q, 5, 4 * PAGE);
	SAY_I(madvise(q, PAGE, MADV_FREE));
	SAY_I(madvise(q + PAGE, 3 * PAGE, MADV_DONTNEED));
	say("  zero %ld, the rest %ld", not_all(q + PAGE, 0, 3 * PAGE),
	    differs(p, 1, 0, 4 * PAGE));
	SAY_I(munmap(p, N * PAGE));
}

int main(void)
{
	static const int prots[] = { PROT_READ, RW };

	fd = temp_file(1, N * PAGE, O_RDONLY);
	for (size_t i = 0; i < COUNT(prots); i++) {
		mapped_over(prots[i]);
		in_child(prots[i]);
	}
	return 0;
}
