/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_threads - mapping from thread-specific-data destructors, small stacks,
 * cancelled and detached threads; regions handed from thread to thread.
 *
 * [fl:demand] service signal
 */
#include <limits.h>
#include <pthread.h>
#include <sched.h>

#include "support/see.h"

#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define LEN 30000

static int fd;
static pthread_key_t key;
static unsigned long wrong, destroyed, done;

static void bad(int n)
{
	if (n)
		__atomic_add_fetch(&wrong, (unsigned long)n, __ATOMIC_RELAXED);
}

static unsigned char *map_file(void)
{
	unsigned char *p = mmap(NULL, LEN, PROT_READ, MAP_PRIVATE, fd, 0);

	bad(p == MAP_FAILED || differs(p, 1, 0, LEN) >= 0);
	return p;
}

static unsigned char *map_anon(int c)
{
	unsigned char *p = mmap(NULL, LEN, RW, ANON, -1, 0);

	bad(p == MAP_FAILED || not_all(p, 0, LEN) >= 0);
	memset(p, c, LEN);
	return p;
}

/* Runs three times over: the value is set again from within. */
static void at_thread_exit(void *val)
{
	unsigned char *p = val, *q;

	bad(not_all(p, 3, LEN) >= 0);
	bad(munmap(p, LEN) != 0);
	q = map_file();
	bad(munmap(q, LEN) != 0);
	if (__atomic_add_fetch(&destroyed, 1, __ATOMIC_RELAXED) % 3)
		pthread_setspecific(key, map_anon(3));
}

static void *with_key(void *arg)
{
	(void)arg;
	pthread_setspecific(key, map_anon(3));
	return NULL;
}

static void keys(void)
{
	for (int i = 0; i < 200; i++) {
		pthread_t t;

		if (pthread_create(&t, NULL, with_key, NULL))
			give_up("pthread_create");
		pthread_join(t, NULL);
	}
	say("destructors: %lu ran, %lu wrong", destroyed, wrong);
}

static void *small(void *arg)
{
	for (int i = 0; i < 50; i++) {
		unsigned char *p = map_file(), *q = map_anon(i + 1);

		bad(mprotect(p, PAGE, PROT_NONE) != 0);
		bad(munmap(p, LEN) != 0);
		bad(not_all(q, i + 1, LEN) >= 0);
		bad(munmap(q, LEN) != 0);
	}
	__atomic_add_fetch(&done, 1, __ATOMIC_RELAXED);
	return arg;
}

static void small_stacks(void)
{
	pthread_attr_t attr;
	pthread_t t[8];

	pthread_attr_init(&attr);
	if (pthread_attr_setstacksize(&attr, (size_t)PTHREAD_STACK_MIN))
		give_up("pthread_attr_setstacksize");
	for (int i = 0; i < 8; i++)
		if (pthread_create(&t[i], &attr, small, NULL))
			give_up("pthread_create");
	for (int i = 0; i < 8; i++)
		pthread_join(t[i], NULL);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	done = 0;
	for (int i = 0; i < 8; i++)
		if (pthread_create(&t[i], &attr, small, NULL))
			give_up("pthread_create");
	while (__atomic_load_n(&done, __ATOMIC_RELAXED) < 8)
		sched_yield();
	pthread_attr_destroy(&attr);
	say("small stacks: %lu wrong", wrong);
}

/*
 * Many threads at once whose first call is not a mapping: what the runtime
 * registers then must not map through the runtime.
 */
#define NR_FIRST 160
static unsigned char *given[NR_FIRST];
static pthread_barrier_t all_there;

static void *first_call(void *arg)
{
	uintptr_t i = (uintptr_t)arg;

	if (i % 4 == 0)
		bad(munmap(given[i], LEN) != 0);
	else if (i % 4 == 1)
		bad(madvise(given[i], LEN, MADV_SEQUENTIAL) != 0);
	else if (i % 4 == 2)
		bad(mprotect(given[i], PAGE, PROT_NONE) != 0);
	else
		bad(mremap(given[i], LEN, PAGE, 0) != given[i]);
	pthread_barrier_wait(&all_there);
	bad(munmap(given[i], LEN) != 0);
	return NULL;
}

static void first_calls(void)
{
	pthread_t t[NR_FIRST];
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	if (pthread_attr_setstacksize(&attr, 256 << 10))
		give_up("pthread_attr_setstacksize");
	pthread_barrier_init(&all_there, NULL, NR_FIRST);
	for (uintptr_t i = 0; i < NR_FIRST; i++) {
		given[i] = map_anon(1);
		if (pthread_create(&t[i], &attr, first_call, (void *)i))
			give_up("pthread_create");
	}
	for (int i = 0; i < NR_FIRST; i++)
		pthread_join(t[i], NULL);
	pthread_barrier_destroy(&all_there);
	pthread_attr_destroy(&attr);
	say("first calls: %lu wrong", wrong);
}

static void *endless(void *arg)
{
	pthread_setcanceltype((int)(uintptr_t)arg, NULL);
	for (;;) {
		unsigned char *p = map_file();

		bad(munmap(p, LEN) != 0);
		pthread_testcancel();
	}
	return NULL;
}

/* mmap and munmap are no cancellation points, whatever they do inside. */
static void cancelled(void)
{
	int other = 0;

	for (int i = 0; i < 50; i++) {
		pthread_t t;
		void *ret;

		if (pthread_create(&t, NULL, endless,
				   (void *)(uintptr_t)PTHREAD_CANCEL_DEFERRED))
			give_up("pthread_create");
		for (int k = 0; k < i; k++)
			sched_yield();
		pthread_cancel(t);
		pthread_join(t, &ret);
		other += ret != PTHREAD_CANCELED;
	}
	say("cancelled: %d not, %lu wrong", other, wrong);
}

static void *pending(void *arg)
{
	unsigned char *p, *q;

	/* A cancellation is pending all the while. */
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	pthread_cancel(pthread_self());
	p = map_file();
	q = map_anon(9);
	bad(munmap(p, LEN) != 0);
	bad(madvise(q, LEN, MADV_DONTNEED) != 0);
	bad(mprotect(q, LEN, PROT_READ) != 0);
	bad(munmap(q, LEN) != 0);
	*(int *)arg = 1;
	pthread_testcancel();
	return NULL;
}

static void no_cancellation_points(void)
{
	int reached = 0;
	pthread_t t;
	void *ret;

	if (pthread_create(&t, NULL, pending, &reached))
		give_up("pthread_create");
	pthread_join(t, &ret);
	say("pending cancellation: reached the end %d, then cancelled %d",
	    reached, ret == PTHREAD_CANCELED);
}

static void *unmapper(void *arg)
{
	unsigned char **p = arg;

	for (int i = 0; i < 100; i++) {
		bad(differs(p[i], 1, 0, LEN) >= 0);
		bad(munmap(p[i], LEN) != 0);
		p[i] = map_anon(4);
	}
	return NULL;
}

static void handed_over(void)
{
	static unsigned char *p[4][100];
	pthread_t t[4];

	for (int k = 0; k < 4; k++)
		for (int i = 0; i < 100; i++)
			p[k][i] = map_file();
	for (int k = 0; k < 4; k++)
		if (pthread_create(&t[k], NULL, unmapper, p[k]))
			give_up("pthread_create");
	for (int k = 0; k < 4; k++)
		pthread_join(t[k], NULL);
	for (int k = 0; k < 4; k++)
		for (int i = 0; i < 100; i++) {
			bad(not_all(p[k][i], 4, LEN) >= 0);
			bad(munmap(p[k][i], LEN) != 0);
		}
	say("handed over: %lu wrong", wrong);
}

int main(void)
{
	fd = temp_file(1, LEN, O_RDONLY);
	if (pthread_key_create(&key, at_thread_exit))
		give_up("pthread_key_create");
	keys();
	small_stacks();
	first_calls();
	cancelled();
	no_cancellation_points();
	handed_over();
	return 0;
}
