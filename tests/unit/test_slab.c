/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The slab and the stack below it, one thread at a time or a few. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "mem/istack.h"
#include "mem/slab.h"

static struct slab slab;

static void setup(void)
{
	cr_assert_eq(slab_init(&slab, "test"), 0);
}

static void teardown(void)
{
	slab_destroy(&slab);
}

static bool all_zero(const void *p)
{
	static const char zero[SLAB_OBJ_SIZE];

	return memcmp(p, zero, sizeof(zero)) == 0;
}

Test(istack, lifo_and_chains)
{
	_Atomic(uint32_t) link[8];
	struct istack_links l = { (char *)link, sizeof(link[0]) };
	struct istack s = ISTACK_INIT;
	uint32_t i = 99;

	cr_assert(istack_empty(&s));
	cr_assert_not(istack_pop(&s, &i, l));
	cr_assert_eq(istack_take_all(&s), 0);
	istack_push(&s, 0, l);
	istack_push(&s, 7, l);
	istack_link(l, 3, 5);
	istack_push_chain(&s, 3, 5, l);
	cr_assert_not(istack_empty(&s));
	for (unsigned int k = 0; k < 4; k++) {
		static const uint32_t want[] = { 3, 5, 7, 0 };

		cr_assert(istack_pop(&s, &i, l));
		cr_assert_eq(i, want[k]);
	}
	cr_assert_not(istack_pop(&s, &i, l));

	istack_push(&s, 1, l);
	istack_push(&s, 2, l);
	cr_assert_eq(istack_take_all(&s), 2 + 1);
	cr_assert_eq(istack_next(l, 2), 1 + 1);
	cr_assert_eq(istack_next(l, 1), 0);
	cr_assert(istack_empty(&s));
}

/* The ABA case, step by step: the head returns to the same index with another
 * link behind it, and the value a slow pop would compare with has changed. */
Test(istack, tag_tells_returned_index)
{
	_Atomic(uint32_t) link[3];
	struct istack_links l = { (char *)link, sizeof(link[0]) };
	struct istack s = ISTACK_INIT;
	uint64_t seen;
	uint32_t i;

	istack_push(&s, 1, l);
	istack_push(&s, 0, l);
	seen = ld_rlx(&s.head);
	cr_assert(istack_pop(&s, &i, l) && i == 0);
	cr_assert(istack_pop(&s, &i, l) && i == 1);
	istack_push(&s, 0, l);
	cr_assert_eq((uint32_t)ld_rlx(&s.head), (uint32_t)seen);
	cr_assert_neq(ld_rlx(&s.head), seen);

	/* Taking everything does not restart the tags. */
	seen = ld_rlx(&s.head);
	istack_take_all(&s);
	istack_push(&s, 0, l);
	cr_assert_neq(ld_rlx(&s.head), seen);
}

Test(slab, objects_are_distinct_and_zero, .init = setup, .fini = teardown)
{
	enum {
		N = 1000
	};
	static void *obj[N];

	for (size_t i = 0; i < N; i++) {
		obj[i] = slab_alloc(&slab);
		cr_assert_not_null(obj[i]);
		cr_assert(page_aligned((uintptr_t)obj[i]));
		cr_assert(all_zero(obj[i]));
		cr_assert_eq(slab_obj(&slab, slab_index(&slab, obj[i])),
			     obj[i]);
		memset(obj[i], 0xa5, SLAB_OBJ_SIZE);
	}
	for (size_t i = 0; i < N; i++)
		cr_assert_eq(*(unsigned char *)obj[i], 0xa5);
	for (size_t i = 0; i < N; i++) {
		memset(obj[i], 0, SLAB_OBJ_SIZE);
		slab_free(&slab, obj[i]);
	}
	cr_assert_eq(slab_nr_free(&slab), slab_nr_backed(&slab));
}

Test(slab, freed_objects_come_back_first, .init = setup, .fini = teardown)
{
	void *a = slab_alloc(&slab);
	size_t backed = slab_nr_backed(&slab);

	cr_assert_eq(backed, SLAB_CHUNK);
	for (unsigned int i = 0; i < 10000; i++) {
		slab_free(&slab, a);
		a = slab_alloc(&slab);
		cr_assert(all_zero(a));
	}
	cr_assert_eq(slab_nr_backed(&slab), backed);
	cr_assert_eq(slab_nr_free(&slab), backed - 1);
	slab_free(&slab, a);
}

/* Frees of one thread reach the next ones, which is what the depot is for. */
static void *take_many(void *arg)
{
	void **obj = arg;

	for (unsigned int i = 0; i < 256; i++)
		obj[i] = slab_alloc(&slab);
	for (unsigned int i = 0; i < 256; i++)
		slab_free(&slab, obj[i]);
	return NULL;
}

Test(slab, dead_threads_leave_nothing_behind, .init = setup, .fini = teardown)
{
	static void *obj[256];
	size_t backed = 0;

	for (unsigned int i = 0; i < 100; i++) {
		pthread_t t;

		cr_assert_eq(pthread_create(&t, NULL, take_many, obj), 0);
		pthread_join(t, NULL);
		if (i == 0)
			backed = slab_nr_backed(&slab);
	}
	cr_assert_eq(slab_nr_backed(&slab), backed);
	cr_assert_eq(slab_nr_free(&slab), backed);
}

Test(slab, range_runs_out, .init = setup, .fini = teardown)
{
	static uint32_t last_of[64];
	uint32_t n = 0;
	void *p;

	/* Untouched, so it costs address space only. */
	while ((p = slab_alloc(&slab)) != NULL) {
		last_of[n % 64] = slab_index(&slab, p);
		n++;
	}
	cr_assert_eq(n, slab.nr_max);
	cr_assert_null(slab_alloc(&slab));
	slab_free(&slab, slab_obj(&slab, last_of[5]));
	cr_assert_eq(slab_alloc(&slab), slab_obj(&slab, last_of[5]));
	cr_assert_null(slab_alloc(&slab));
}

/* The kernel refuses a chunk; once it gives again, the same chunk is used. */
Test(slab, refused_chunk_is_kept)
{
	/* 0 would not do: the kernel reads that as "no limit" for some. */
	struct rlimit old, none = { FL_PAGE_SIZE, 0 };
	void *p;

	cr_assert_eq(slab_init(&slab, "test"), 0);
	cr_assert_eq(getrlimit(RLIMIT_DATA, &old), 0);
	none.rlim_max = old.rlim_max;
	cr_assert_eq(setrlimit(RLIMIT_DATA, &none), 0);
	for (unsigned int i = 0; i < 3; i++)
		cr_expect_null(slab_alloc(&slab));
	cr_assert_eq(setrlimit(RLIMIT_DATA, &old), 0);
	cr_assert_eq(slab_nr_backed(&slab), 0);
	p = slab_alloc(&slab);
	cr_assert_not_null(p);
	cr_assert_lt(slab_index(&slab, p), SLAB_CHUNK);
	cr_assert_eq(slab_nr_backed(&slab), SLAB_CHUNK);
	slab_free(&slab, p);
	slab_destroy(&slab);
}

Test(slab, trim_keeps_objects_usable, .init = setup, .fini = teardown)
{
	static void *obj[200];

	for (unsigned int i = 0; i < 200; i++) {
		obj[i] = slab_alloc(&slab);
		*(char *)obj[i] = 1;
	}
	for (unsigned int i = 0; i < 200; i++) {
		*(char *)obj[i] = 0;
		slab_free(&slab, obj[i]);
	}
	cr_assert_geq(slab_trim(&slab), 200 - 4 * SLAB_MAG);
	cr_assert_eq(slab_nr_free(&slab), slab_nr_backed(&slab));
	for (unsigned int i = 0; i < 200; i++) {
		obj[i] = slab_alloc(&slab);
		cr_assert(all_zero(obj[i]));
	}
	for (unsigned int i = 0; i < 200; i++)
		slab_free(&slab, obj[i]);
}

Test(slab, child_of_a_fork, .init = setup, .fini = teardown)
{
	void *kept = slab_alloc(&slab);
	int status;
	pid_t pid;

	memset(kept, 7, SLAB_OBJ_SIZE);
	pid = fork();
	cr_assert_geq(pid, 0);
	if (pid == 0) {
		void *p;

		slab_fork_child(&slab);
		for (unsigned int i = 0; i < 200; i++) {
			p = slab_alloc(&slab);
			if (!p || p == kept || !all_zero(p))
				_exit(1);
			*(char *)p = 1;
		}
		_exit(*(char *)kept == 7 ? 0 : 2);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
	memset(kept, 0, SLAB_OBJ_SIZE);
	slab_free(&slab, kept);
	cr_assert_eq(slab_nr_free(&slab), slab_nr_backed(&slab));
}

#if FL_DEBUG >= 1
Test(slab, dirty_free_is_caught, .init = setup, .signal = SIGABRT)
{
	char *p = slab_alloc(&slab);

	p[SLAB_OBJ_SIZE - 1] = 1;
	slab_free(&slab, p);
}
#endif
