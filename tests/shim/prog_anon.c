/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_anon - anonymous memory is zero to the end of its last page however
 * often the same memory has been dirtied and unmapped, in any order of sizes,
 * and keeps what is written to it.
 */
#include "support/see.h"

#define LIVE 48
#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)

static size_t up(size_t n)
{
	return (n + PAGE - 1) & ~(PAGE - 1);
}

static uint64_t seed = 12345;

static unsigned int rnd(unsigned int n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned int)(seed >> 33) % n;
}

static size_t any_size(void)
{
	switch (rnd(8)) {
	case 0:
		return 1 + rnd(4096);
	case 1:
		return (size_t)4096 << rnd(9);
	case 2:
		return ((size_t)4096 << rnd(9)) + 1;
	case 3:
		return ((size_t)8192 << rnd(8)) - 1;
	default:
		return 1 + rnd(300000);
	}
}

static void churn(void)
{
	unsigned char *p[LIVE] = { NULL };
	size_t len[LIVE] = { 0 };
	unsigned long dirty = 0, lost = 0;

	for (int i = 0; i < 6000; i++) {
		unsigned int k = rnd(LIVE);

		if (p[k]) {
			lost += not_all(p[k], (int)(k + 1), up(len[k])) >= 0;
			munmap(p[k], len[k]);
		}
		len[k] = any_size();
		p[k] = mmap(NULL, len[k], RW, ANON, -1, 0);
		if (p[k] == MAP_FAILED)
			give_up("mmap");
		dirty += not_all(p[k], 0, up(len[k])) >= 0;
		memset(p[k], (int)(k + 1), up(len[k]));
	}
	for (unsigned int k = 0; k < LIVE; k++)
		if (p[k])
			munmap(p[k], len[k]);
	say("churn: %lu dirty, %lu lost", dirty, lost);
}

static void big(void)
{
	static const size_t sizes[] = {
		1u << 20,          (1u << 20) + 1, 2u << 20,       4u << 20,
		(4u << 20) + 4096, 8u << 20,       (8u << 20) + 1, 16u << 20,
	};

	for (int round = 0; round < 3; round++)
		for (size_t i = 0; i < COUNT(sizes); i++) {
			unsigned char *p;

			p = mmap(NULL, sizes[i], RW, ANON, -1, 0);
			say("%zu zero %ld", sizes[i],
			    not_all(p, 0, up(sizes[i])));
			memset(p, 0xcc, up(sizes[i]));
			SAY_I(munmap(p, sizes[i]));
		}
}

static void other_kinds(void)
{
	unsigned char *p;

	for (int round = 0; round < 3; round++) {
		p = mmap(NULL, 10000, PROT_READ, ANON, -1, 0);
		say("read-only zero %ld write %s", not_all(p, 0, 12288),
		    try_write(p + 5000, 1));
		SAY_I(mprotect(p, 10000, RW));
		memset(p, 9, 12288);
		SAY_I(munmap(p, 10000));
		p = mmap(NULL, 10000, PROT_NONE, ANON, -1, 0);
		say("none read %s", try_read(p + 4096));
		SAY_I(mprotect(p + 4096, 4096, RW));
		say("middle %s %s", try_read(p + 4096), try_write(p + 8191, 3));
		say("edges %s %s", try_read(p + 4095), try_read(p + 8192));
		SAY_I(munmap(p, 10000));
		p = mmap(NULL, 10000, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		say("shared zero %ld", not_all(p, 0, 12288));
		memset(p, 8, 12288);
		SAY_I(munmap(p, 10000));
		p = mmap(NULL, 10000, RW, ANON | MAP_NORESERVE, -1, 0);
		say("noreserve zero %ld", not_all(p, 0, 12288));
		memset(p, 8, 12288);
		SAY_I(munmap(p, 10000));
		p = mmap(NULL, 10000, RW, ANON | MAP_POPULATE, -1, 0);
		say("populate zero %ld", not_all(p, 0, 12288));
		memset(p, 8, 12288);
		SAY_I(munmap(p, 10000));
		p = mmap(NULL, 10000, RW, ANON | MAP_STACK, -1, 0);
		say("stack zero %ld", not_all(p, 0, 12288));
		memset(p, 8, 12288);
		SAY_I(munmap(p, 10000));
	}
}

/* The dirtying left behind by the program's own heap and by read(2). */
static void read_into(void)
{
	int fd = temp_file(5, 300000, O_RDONLY);
	unsigned long dirty = 0, wrong = 0;

	for (int i = 0; i < 200; i++) {
		size_t len = 1 + rnd(299999);
		unsigned char *p = mmap(NULL, len, RW, ANON, -1, 0);
		ssize_t n;

		dirty += p[0] || p[len / 2] || p[len - 1];
		n = pread(fd, p, len, 0);
		wrong += n != (ssize_t)len || differs(p, 5, 0, len) >= 0;
		wrong += not_all(p + len, 0, up(len) - len) >= 0;
		munmap(p, len);
	}
	say("read into: %lu dirty, %lu wrong", dirty, wrong);
	close(fd);
}

int main(void)
{
	see_faults();
	churn();
	big();
	other_kinds();
	read_into();
	return 0;
}
