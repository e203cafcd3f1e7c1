/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_unmap - parts of regions unmapped in every way munmap(2) allows; what
 * is left keeps its bytes, what is gone is gone (asked of mincore: touching it
 * is undefined under a pager).
 *
 * [fl:demand] service signal
 */
#include "support/see.h"

#define N 12
#define RW (PROT_READ | PROT_WRITE)

enum kind {
	FILE_RO,
	FILE_RW,
	FILE_SHARED,
	ANON,
	NR_KINDS
};

static const char *const kind_name[] = { "file", "private", "shared", "anon" };
static int fd;

/* N pages holding file 1, of the kind asked. */
static unsigned char *make(enum kind kind)
{
	unsigned char *p;

	switch (kind) {
	case FILE_RO:
		p = mmap(NULL, N * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
		break;
	case FILE_RW:
		p = mmap(NULL, N * PAGE, RW, MAP_PRIVATE, fd, 0);
		break;
	case FILE_SHARED:
		p = mmap(NULL, N * PAGE, PROT_READ, MAP_SHARED, fd, 0);
		break;
	default:
		p = mmap(NULL, N * PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0);
		if (p != MAP_FAILED)
			fill_as(p, 1, 0, N * PAGE);
	}
	if (p == MAP_FAILED)
		give_up("mmap");
	return p;
}

/* The layout, and whether every mapped page still holds its bytes. */
static void look(const char *what, const unsigned char *p)
{
	char map[N + 1];
	int wrong = 0;

	memcpy(map, layout(p, N), N + 1);
	for (size_t i = 0; i < N; i++)
		if (map[i] == '#')
			wrong += differs(p + i * PAGE, 1, i * PAGE, PAGE) >= 0;
	say("  %s: %s wrong %d", what, map, wrong);
}

static void cut(unsigned char *p, size_t first, size_t nr)
{
	int ret;

	errno_mark();
	ret = munmap(p + first * PAGE, nr * PAGE);
	say("  munmap %zu+%zu: %s errno kept %d", first, nr, res_i(ret),
	    errno_kept());
}

static void parts(enum kind kind)
{
	static const struct {
		const char *name;
		unsigned char cuts[6][2];
	} plans[] = {
		{ "whole", { { 0, N } } },
		{ "head", { { 0, 3 }, { 3, 1 }, { 0, N } } },
		{ "tail", { { 8, 4 }, { 7, 1 }, { 0, 7 } } },
		{ "middle", { { 4, 4 }, { 2, 8 }, { 0, N } } },
		{ "single pages", { { 0, 1 }, { 11, 1 }, { 5, 1 }, { 7, 1 } } },
		{ "overlaps", { { 2, 3 }, { 3, 3 }, { 1, 2 }, { 5, 7 } } },
		{ "same twice", { { 2, 3 }, { 2, 3 }, { 0, N }, { 0, N } } },
		{ "to the last page",
		  { { 0, 5 }, { 6, 6 }, { 5, 1 }, { 5, 1 } } },
	};

	for (size_t i = 0; i < COUNT(plans); i++) {
		unsigned char *p = make(kind);

		say("%s, %s", kind_name[kind], plans[i].name);
		look("new", p);
		for (size_t j = 0; j < 6 && plans[i].cuts[j][1]; j++) {
			cut(p, plans[i].cuts[j][0], plans[i].cuts[j][1]);
			look("left", p);
		}
		munmap(p, N * PAGE);
		look("end", p);
	}
}

/* Odd lengths round up to whole pages; odd addresses are refused. */
static void edges(enum kind kind)
{
	unsigned char *p = make(kind);

	say("%s, edges", kind_name[kind]);
	SAY_I(munmap(p + 1, PAGE));
	SAY_I(munmap(p + 4095, PAGE));
	SAY_I(munmap(p, 0));
	SAY_I(munmap(p, SIZE_MAX));
	SAY_I(munmap(p, SIZE_MAX - 4095));
	look("refused", p);
	SAY_I(munmap(p, 1));
	look("one byte", p);
	SAY_I(munmap(p + 2 * PAGE, PAGE + 1));
	look("page and a byte", p);
	SAY_I(munmap(p, N * PAGE - 1));
	look("all but a byte", p);
}

/* A region with kernel mappings dropped into it, unmapped in one go. */
static void mixture(enum kind kind)
{
	unsigned char *p = make(kind), *q;
	int fd2 = temp_file(1, N * PAGE, O_RDWR);

	say("%s, mixture", kind_name[kind]);
	q = mmap(p + 2 * PAGE, 2 * PAGE, RW, MAP_SHARED | MAP_FIXED, fd2,
		 2 * PAGE);
	say("  placed %d", q == p + 2 * PAGE);
	q = mmap(p + 6 * PAGE, PAGE, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	say("  placed %d", q == p + 6 * PAGE);
	say("  layout %s, guard %s", layout(p, N), try_read(p + 6 * PAGE));
	munmap(p + 6 * PAGE, PAGE);
	look("guard gone", p);
	cut(p, 1, 2);
	look("across", p);
	cut(p, 3, 8);
	look("across", p);
	cut(p, 0, N);
	look("all", p);
	close(fd2);
}

/*
 * Many regions; wherever two lie end to end, a single munmap takes half of
 * each. The kernel and a pager lay them out differently: only the outcome of
 * each cut is counted.
 */
static void neighbours(enum kind kind)
{
	enum {
		M = 64
	};
	unsigned char *p[M];
	int wrong = 0;

	for (int i = 0; i < M; i++)
		p[i] = make(kind);
	for (int i = 0; i < M; i++)
		for (int j = 0; j < M; j++) {
			if (!p[i] || p[j] != p[i] + N * PAGE)
				continue;
			wrong += munmap(p[i] + 7 * PAGE, 10 * PAGE) != 0;
			wrong += strcmp(layout(p[i], N), "#######.....") != 0;
			wrong += strcmp(layout(p[j], N), ".....#######") != 0;
			wrong += differs(p[i], 1, 0, 7 * PAGE) >= 0;
			wrong += differs(p[j] + 5 * PAGE, 1, 5 * PAGE,
					 7 * PAGE) >= 0;
			wrong += munmap(p[i], 24 * PAGE) != 0;
			p[i] = p[j] = NULL;
		}
	for (int i = 0; i < M; i++)
		if (p[i]) {
			wrong += differs(p[i], 1, 0, N * PAGE) >= 0;
			wrong += munmap(p[i], N * PAGE) != 0;
		}
	say("%s, neighbours: %d wrong", kind_name[kind], wrong);
}

/* Never-mapped space: success, and nothing else is hurt. */
static void nothing_there(void)
{
	unsigned char *r = mmap(NULL, 64 * PAGE, PROT_NONE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	SAY_I(munmap(r, 64 * PAGE));
	SAY_I(munmap(r, 64 * PAGE));
	SAY_I(munmap(r + 5 * PAGE, PAGE));
	SAY_I(munmap((void *)PAGE, PAGE));
	SAY_I(munmap((void *)((size_t)1 << 46), PAGE));
	SAY_I(munmap((void *)((size_t)1 << 62), PAGE));
	SAY_I(munmap((void *)(SIZE_MAX - 4095), PAGE));
}

int main(void)
{
	see_faults();
	fd = temp_file(1, N * PAGE, O_RDONLY);
	for (int k = 0; k < NR_KINDS; k++) {
		parts((enum kind)k);
		edges((enum kind)k);
		mixture((enum kind)k);
		neighbours((enum kind)k);
	}
	nothing_there();
	return 0;
}
