// SPDX-License-Identifier: LGPL-2.1-or-later
/* test_slab.c - the slab of zero pages on the target's byte order, word size
 * and memory model. */
#include "mem/slab.h"

#include <string.h>

#include "check.h"

#define WORDS (SLAB_OBJ_SIZE / sizeof(uint64_t))
#define MANY (SLAB_CHUNK * 3 + 5)
#define THREADS 3
#define ROUNDS 300
#define BATCH 40

static struct slab slab;
static uint64_t *objs[MANY];

static bool zero(const uint64_t *p)
{
	for (size_t i = 0; i < WORDS; i++)
		if (p[i] != 0)
			return false;
	return true;
}

static bool marked(const uint64_t *p, uint64_t mark)
{
	for (size_t i = 0; i < WORDS; i++)
		if (p[i] != mark + i)
			return false;
	return true;
}

static void mark(uint64_t *p, uint64_t m)
{
	for (size_t i = 0; i < WORDS; i++)
		p[i] = m + i;
}

static void all_back(void)
{
	CHECK(slab_nr_free(&slab) == slab_nr_backed(&slab));
}

static void zero_distinct_aligned(void)
{
	for (size_t i = 0; i < MANY; i++) {
		objs[i] = slab_alloc(&slab);
		if (!CHECK(objs[i]))
			exit(1);
		CHECK(((uintptr_t)objs[i] & (SLAB_OBJ_SIZE - 1)) == 0);
		CHECK(slab_obj(&slab, slab_index(&slab, objs[i])) == objs[i]);
		CHECK(zero(objs[i]));
		mark(objs[i], (uint64_t)i << 32);
	}
	CHECK(slab_nr_backed(&slab) - slab_nr_free(&slab) == MANY);
	for (size_t i = 0; i < MANY; i++) {
		CHECK(marked(objs[i], (uint64_t)i << 32));
		memset(objs[i], 0, SLAB_OBJ_SIZE);
		slab_free(&slab, objs[i]);
	}
	all_back();
}

static void recycles(void)
{
	size_t backed = slab_nr_backed(&slab);

	for (unsigned int i = 0; i < 10 * MANY; i++) {
		uint64_t *p = slab_alloc(&slab);

		CHECK(p && zero(p));
		p[i % WORDS] = i;
		p[i % WORDS] = 0;
		slab_free(&slab, p);
	}
	CHECK(slab_nr_backed(&slab) == backed);
	all_back();
}

static void *user(void *arg)
{
	uint64_t id = (uintptr_t)arg + 1;
	uint64_t *mine[BATCH];
	unsigned long wrong = 0;

	for (unsigned int r = 0; r < ROUNDS; r++) {
		unsigned int n = 1 + (r * 7 + (unsigned int)id) % BATCH;

		for (unsigned int i = 0; i < n; i++) {
			mine[i] = slab_alloc(&slab);
			if (!CHECK(mine[i]))
				exit(1);
			wrong += !zero(mine[i]);
			mark(mine[i], id << 40 | (uint64_t)r << 20);
		}
		for (unsigned int i = 0; i < n; i++) {
			wrong += !marked(mine[i], id << 40 | (uint64_t)r << 20);
			memset(mine[i], 0, SLAB_OBJ_SIZE);
			slab_free(&slab, mine[i]);
		}
		if (id == 1 && r % 50 == 0)
			slab_trim(&slab);
	}
	CHECK(wrong == 0);
	return NULL;
}

static void threads(void)
{
	check_threads(THREADS, user);
	all_back();
}

static void trim_keeps_zero(void)
{
	CHECK(slab_trim(&slab) > 0);
	CHECK(slab_trim(&slab) == 0);
	zero_distinct_aligned();
}

int main(void)
{
	CHECK(slab_init(&slab, "test") == 0);
	RUN(zero_distinct_aligned);
	RUN(recycles);
	RUN(trim_keeps_zero);
	RUN(threads);
	slab_destroy(&slab);
	return check_done("slab");
}
