/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * stress_slab.c [--secs N] [--threads N]
 *
 * Roles: users (--threads) take a random number of objects, check that they are
 * zero, put their mark on them, check the marks, zero and return them, some by
 * way of another thread; a user lives for a hundred rounds, then a new thread
 * takes its place. A trimmer gives memory back all the while. An object handed
 * out twice, or not zero, or lost, is seen.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/base.h"
#include "base/order.h"
#include "mem/slab.h"

enum {
	BATCH = 100,
	ROUNDS = 100,
	MAX_THREADS = 64
};

#define WORDS (SLAB_OBJ_SIZE / sizeof(uint64_t))

static struct slab slab;
static _Atomic(uint32_t) stop;
static _Atomic(uint64_t) ids, taken, trimmed;
/* One object on its way to whoever comes by. */
static _Atomic(void *) parcel;

#define CHECK(cond)                                                        \
	do {                                                               \
		if (!(cond)) {                                             \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, \
				#cond);                                    \
			_Exit(1);                                          \
		}                                                          \
	} while (0)

static void take(uint64_t **obj, uint64_t mark)
{
	uint64_t *p = slab_alloc(&slab);

	CHECK(p);
	for (size_t i = 0; i < WORDS; i++)
		CHECK(p[i] == 0);
	for (size_t i = 0; i < WORDS; i += 37)
		p[i] = mark;
	*obj = p;
}

static void give_back(uint64_t *p, uint64_t mark)
{
	void *other;

	for (size_t i = 0; i < WORDS; i += 37) {
		CHECK(p[i] == mark);
		p[i] = 0;
	}
	if (mark % 8 != 0) {
		slab_free(&slab, p);
		return;
	}
	other = xchg_acq_rel(&parcel, (void *)p);
	if (other)
		slab_free(&slab, other);
}

static void *user(void *arg)
{
	uint64_t *obj[BATCH];
	unsigned int seed = (unsigned int)(uintptr_t)arg;

	for (unsigned int r = 0; r < ROUNDS && !ld_rlx(&stop); r++) {
		uint64_t mark = 1 + add_rlx(&ids, (uint64_t)1);
		unsigned int n = 1 + (unsigned int)rand_r(&seed) % BATCH;

		for (unsigned int i = 0; i < n; i++)
			take(&obj[i], mark);
		if (rand_r(&seed) % 4 == 0)
			sched_yield();
		for (unsigned int i = 0; i < n; i++)
			give_back(obj[i], mark);
		add_rlx(&taken, (uint64_t)n);
	}
	return NULL;
}

/* Starts users one after another; each takes its place among --threads. */
static void *place(void *arg)
{
	uintptr_t k = (uintptr_t)arg;

	while (!ld_rlx(&stop)) {
		pthread_t t;

		CHECK(!pthread_create(&t, NULL, user, (void *)(k += 1000)));
		pthread_join(t, NULL);
	}
	return NULL;
}

static void *trimmer(void *arg)
{
	while (!ld_rlx(&stop)) {
		struct timespec ts = { 0, 1000000 };

		add_rlx(&trimmed, (uint64_t)slab_trim(&slab));
		nanosleep(&ts, NULL);
	}
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t t[MAX_THREADS + 1];
	unsigned int secs = 5, threads = 4;
	struct timespec ts = { 0, 0 };
	void *last;

	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--secs"))
			secs = (unsigned int)atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--threads"))
			threads = (unsigned int)atoi(argv[i + 1]);
	}
	CHECK(threads >= 1 && threads <= MAX_THREADS);
	CHECK(slab_init(&slab, "stress") == 0);
	for (uintptr_t i = 0; i < threads; i++)
		CHECK(!pthread_create(&t[i], NULL, place, (void *)i));
	CHECK(!pthread_create(&t[threads], NULL, trimmer, NULL));
	ts.tv_sec = secs;
	nanosleep(&ts, NULL);
	st_rlx(&stop, 1u);
	for (unsigned int i = 0; i <= threads; i++)
		pthread_join(t[i], NULL);

	last = xchg_acq_rel(&parcel, NULL);
	if (last)
		slab_free(&slab, last);
	CHECK(ld_rlx(&taken) > 0);
	CHECK(slab_nr_free(&slab) == slab_nr_backed(&slab));
	/* Whatever is in flight between threads, memory does not grow without
	 * bound: all that users can hold at once, and as much again. */
	CHECK(slab_nr_backed(&slab) <=
	      2 * threads * BATCH + SLAB_CPUS * 2 * SLAB_MAG + SLAB_CHUNK);
	printf("%u threads, %u s: %llu objects taken, %llu trimmed, %zu backed\n",
	       threads, secs, (unsigned long long)ld_rlx(&taken),
	       (unsigned long long)ld_rlx(&trimmed), slab_nr_backed(&slab));
	slab_destroy(&slab);
	return 0;
}
