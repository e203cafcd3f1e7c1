/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_forkmt - forks while other threads map, check and unmap: the child
 * finds its own regions whole, and the pager usable whatever the other threads
 * were in the middle of.
 */
#include <pthread.h>
#include <sched.h>

#include "support/see.h"

#define WORKERS 4
#define FORKS 150
#define RW (PROT_READ | PROT_WRITE)

static volatile int stop, running;
static unsigned long wrong;
static int fd;

static void round_trip(unsigned int i)
{
	size_t len = 1 + (i * 7919u) % 100000;
	unsigned char *p, *q;
	int bad = 0;

	p = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
	q = mmap(NULL, len, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bad += p == MAP_FAILED || q == MAP_FAILED;
	if (!bad) {
		bad += not_all(q, 0, len) >= 0;
		bad += differs(p, 1, 0, len) >= 0;
		memset(q, (int)i | 1, len);
		bad += munmap(p, len) != 0;
		bad += not_all(q, (int)(i | 1) & 255, len) >= 0;
		bad += munmap(q, len) != 0;
	}
	if (bad)
		__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
}

static void *worker(void *arg)
{
	__atomic_add_fetch(&running, 1, __ATOMIC_RELEASE);
	for (unsigned int i = (unsigned int)(uintptr_t)arg; !stop; i++)
		round_trip(i);
	return NULL;
}

/*
 * AddressSanitizer's allocator takes locks of its own while a thread starts, and
 * does not hand them over at fork: a child forked just then waits for them in its
 * first pthread_create. Where it is in the process, and only there, the forks
 * begin when the threads run, which after that do not allocate.
 */
extern void __asan_init(void) __attribute__((weak));

static void wait_running(void)
{
	while (__asan_init &&
	       __atomic_load_n(&running, __ATOMIC_ACQUIRE) < WORKERS)
		sched_yield();
}

static void *own_thread(void *arg)
{
	(void)arg;
	for (unsigned int i = 0; i < 5; i++)
		round_trip(i * 1000);
	return NULL;
}

/* In the child: own regions, new ones, threads of its own, another fork. */
static int child(unsigned char *f, unsigned char *a, size_t len)
{
	pthread_t t;
	pid_t pid;

	wrong = 0;
	if (differs(f, 1, 0, len) >= 0 || differs(a, 2, 0, len) >= 0)
		return 1;
	for (unsigned int i = 0; i < 10; i++)
		round_trip(i * 37);
	if (pthread_create(&t, NULL, own_thread, NULL))
		return 2;
	pid = fork();
	if (pid == 0) {
		round_trip(99);
		_exit(wrong || differs(a, 2, 0, len) >= 0);
	}
	if (munmap(f, len) || munmap(a, len))
		return 3;
	pthread_join(t, NULL);
	if (strcmp(end_of(pid), "exit 0"))
		return 4;
	return wrong ? 5 : 0;
}

int main(void)
{
	pthread_t t[WORKERS];
	int bad = 0;

	fd = temp_file(1, 100000, O_RDONLY);
	for (uintptr_t i = 0; i < WORKERS; i++)
		if (pthread_create(&t[i], NULL, worker, (void *)(i << 20)))
			give_up("pthread_create");
	wait_running();
	for (unsigned int i = 0; i < FORKS; i++) {
		size_t len = 1 + (i * 4001u) % 60000;
		unsigned char *f, *a;
		pid_t pid;

		f = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
		a = mmap(NULL, len, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		fill_as(a, 2, 0, len);
		pid = fork();
		if (pid == 0) {
			alarm(30);
			_exit(child(f, a, len));
		}
		memset(a, 0, len);
		munmap(f, len);
		munmap(a, len);
		if (strcmp(end_of(pid), "exit 0"))
			bad++;
	}
	stop = 1;
	for (int i = 0; i < WORKERS; i++)
		pthread_join(t[i], NULL);
	say("forks with a bad child: %d", bad);
	say("wrong rounds in the threads: %lu", wrong);
	return 0;
}
