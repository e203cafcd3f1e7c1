// SPDX-License-Identifier: LGPL-2.1-or-later
/* test_extent.c - arenas and extents of both kinds on the target. */
#include "mem/extent.h"
#include "mem/fork.h"

#include <string.h>

#include "check.h"

#define SIZE ((size_t)128 << 20)
#define HIGH ((uint64_t)48 << 20)
#define THREADS 3
#define ROUNDS 200

static struct ext_pool pool;
static struct ext_budget budget;
static struct fork_ledger forks;
static struct stats stats;

static bool start(enum arena_kind kind)
{
	memset(&pool, 0, sizeof(pool));
	memset(&budget, 0, sizeof(budget));
	budget.high = HIGH;
	budget.low = HIGH;
	if (!CHECK(pool_init(&pool, kind, SIZE, CHUNK_SIZE) == 0))
		return false;
	pool.budget = &budget;
	pool.forks = &forks;
	pool.stats = &stats;
	return true;
}

static size_t bytes(const struct extent *e)
{
	return (size_t)ext_class_pages(e->cls) << FL_PAGE_SHIFT;
}

/* One word in each kilobyte, seen through the view that callers get. */
static void paint(struct extent *e, uint64_t mark)
{
	uint64_t *p = (uint64_t *)(void *)ext_fill(&pool, e);

	for (size_t i = 0; i < bytes(e) / 8; i += 128)
		p[i] = mark + i;
}

static bool painted(struct extent *e, uint64_t mark)
{
	const uint64_t *p = (const uint64_t *)(void *)ext_user(&pool, e);

	for (size_t i = 0; i < bytes(e) / 8; i += 128)
		if (p[i] != mark + i)
			return false;
	return true;
}

static struct extent *get(unsigned int cls)
{
	struct extent *e = extent_alloc(&pool, cls);

	if (!e)
		return NULL;
	/* One size larger rather than new frames. */
	CHECK(e->cls == cls || e->cls == cls + 1);
	CHECK(ld_rlx(&e->state) == EXT_LIVE);
	if (!CHECK(extent_need(&pool, e, ext_class_pages(cls)) == 0))
		exit(1);
	return e;
}

static void classes(void)
{
	static const struct {
		uint32_t pages;
		unsigned int cls;
	} row[] = {
		{ 1, 0 }, { 2, 1 },  { 3, 2 },  { 4, 2 },
		{ 5, 3 }, { 64, 6 }, { 65, 7 }, { 2048, 11 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		CHECK(ext_class(row[i].pages) == row[i].cls);
		CHECK(ext_class_pages(row[i].cls) >= row[i].pages);
	}
}

static void views(void)
{
	struct extent *e[12];

	for (unsigned int cls = 0; cls < 12; cls++) {
		e[cls] = get(cls);
		if (!CHECK(e[cls]))
			exit(1);
		CHECK(((uintptr_t)ext_user(&pool, e[cls]) &
		       (FL_PAGE_SIZE - 1)) == 0);
		paint(e[cls], (uint64_t)cls << 32);
	}
	for (unsigned int cls = 0; cls < 12; cls++) {
		uint32_t page = pool_page(&pool, ext_user(&pool, e[cls]));
		uint32_t last = page + ext_class_pages(cls) - 1;

		CHECK(painted(e[cls], (uint64_t)cls << 32));
		CHECK(pool_extent(&pool, page) == e[cls]);
		CHECK(pool_extent(&pool, last) == e[cls]);
		extent_free(&pool, e[cls]);
	}
}

/* The same few extents over and over: no fresh space is cut. */
static void recycles(void)
{
	uint32_t chunks = ld_rlx(&pool.next_chunk);
	uint64_t resident = ld_rlx(&budget.resident);

	for (unsigned int i = 0; i < 3000; i++) {
		struct extent *e = get(i % 8);

		if (!CHECK(e))
			exit(1);
		extent_free(&pool, e);
	}
	CHECK(ld_rlx(&pool.next_chunk) == chunks);
	CHECK(ld_rlx(&budget.resident) == resident);
}

static void last_put_frees(void)
{
	struct extent *e = get(3);

	st_rlx(&e->live, 8u);
	extent_put(&pool, e, 3);
	extent_put(&pool, e, 4);
	CHECK(ld_rlx(&e->state) == EXT_LIVE);
	extent_put(&pool, e, 1);
	CHECK(ld_rlx(&e->state) == EXT_FREE);
}

static void budget_holds(void)
{
	static struct extent *e[4096];
	size_t n = 0;

	while (n < ARRAY_SIZE(e) && (e[n] = get(8)))
		n++;
	CHECK(n >= 8 && n <= HIGH >> 20);
	CHECK(ld_rlx(&budget.resident) <= HIGH);
	while (n > 0)
		extent_free(&pool, e[--n]);
	CHECK(pool_trim(&pool, 1000) > 0);
	CHECK(ld_rlx(&budget.resident) < HIGH / 4);
	CHECK(get(8));
}

static void *user(void *arg)
{
	uint64_t id = (uintptr_t)arg + 1;
	unsigned long wrong = 0;

	for (unsigned int r = 0; r < ROUNDS; r++) {
		unsigned int cls = (r + (unsigned int)id) % 6;
		struct extent *a = get(cls), *b = get(cls);

		if (!CHECK(a && b && a != b))
			exit(1);
		paint(a, id << 48 | (uint64_t)r << 24);
		paint(b, id << 56 | (uint64_t)r << 24);
		wrong += !painted(a, id << 48 | (uint64_t)r << 24);
		extent_free(&pool, a);
		wrong += !painted(b, id << 56 | (uint64_t)r << 24);
		extent_free(&pool, b);
		if (id == 1 && r % 64 == 0)
			pool_trim(&pool, 100);
	}
	CHECK(wrong == 0);
	return NULL;
}

static void threads(void)
{
	uint64_t resident;

	check_threads(THREADS, user);
	resident = ld_rlx(&budget.resident);
	CHECK(resident <= (uint64_t)16 << 20);
}

int main(void)
{
	static const char *const name[] = { "file arena", "anonymous arena" };

	setvbuf(stdout, NULL, _IOLBF, 0);
	CHECK(fork_ledger_init(&forks) == 0);
	CHECK(stat_init(&stats) == 0);
	RUN(classes);
	for (int kind = 0; kind < NR_ARENAS; kind++) {
		unsigned long before = check_failed;

		if (!start((enum arena_kind)kind))
			continue;
		RUN(threads);
		RUN(views);
		RUN(recycles);
		RUN(last_put_frees);
		RUN(budget_holds);
		pool_destroy(&pool);
		if (check_failed != before)
			printf("with the %s\n", name[kind]);
	}
	stat_destroy(&stats);
	fork_ledger_destroy(&forks);
	return check_done("extent");
}
