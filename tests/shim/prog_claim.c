/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_claim - MAP_FIXED where a region was a moment ago: the address is asked
 * for, given up and mapped by force; in all states what was there can be in.
 */
#include <pthread.h>

#include "support/see.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define KIB ((size_t)1024)

static int fd1, fd2;

static unsigned char *map(size_t len, int prot, int flags, int fd)
{
	unsigned char *p = mmap(NULL, len, prot, flags, fd, 0);

	if (p == MAP_FAILED)
		give_up("mmap");
	return p;
}

/* Again and again: what is given back must be had again. */
static void over_and_over(void)
{
	const size_t len = 1024 * KIB;
	int wrong = 0, elsewhere = 0;

	for (int i = 0; i < 500; i++) {
		unsigned char *p = map(len, RW, ANON, -1), *q;

		wrong += not_all(p, 0, len) >= 0;
		memset(p, 1, len);
		munmap(p, len);
		q = mmap(p, len, PROT_READ, ANON | MAP_FIXED, -1, 0);
		elsewhere += q != p;
		wrong += q == p && not_all(q, 0, len) >= 0;
		munmap(p, len);
	}
	say("over and over: %d wrong, %d elsewhere", wrong, elsewhere);
}

/* Behind a region, where nothing has been mapped yet; or where something has
 * been, to the kernel. */
static void never_used(size_t len, size_t behind)
{
	unsigned char *p = map(len, RW, ANON, -1), *q, *r[64];
	int wrong = 0, there;

	q = mmap(p + behind, PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0);
	there = q == p + behind;
	say("%zu KiB behind: mapped or in use %d", behind / KIB,
	    there || (q == MAP_FAILED && errno == EEXIST));
	if (there)
		memset(q, 9, PAGE);
	for (size_t i = 0; i < COUNT(r); i++) {
		r[i] = map(len, RW, ANON, -1);
		wrong += not_all(r[i], 0, len) >= 0;
		memset(r[i], 1, len);
	}
	wrong += there && not_all(q, 9, PAGE) >= 0;
	for (size_t i = 0; i < COUNT(r); i++)
		munmap(r[i], len);
	munmap(p, len);
	wrong += there && not_all(q, 9, PAGE) >= 0;
	wrong += there && munmap(q, PAGE) != 0;
	say("  %d wrong", wrong);
}

#define NR 400
#define LEN (256 * KIB)

/* What lived at a fork, mapped over while the child still has to copy it. */
static void at_fork(void)
{
	static unsigned char *p[NR], *q[NR];
	int wrong = 0, elsewhere = 0;
	pid_t pid;

	for (int i = 0; i < NR; i++)
		p[i] = map(LEN, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd1);
	pid = fork();
	if (pid == 0) {
		for (int i = 0; i < NR; i++)
			wrong += differs(p[i], 1, 0, LEN) >= 0;
		_exit(wrong != 0);
	}
	for (int i = 0; i < NR; i++) {
		munmap(p[i], LEN);
		elsewhere += mmap(p[i], LEN, RW, ANON | MAP_FIXED, -1, 0) !=
			     p[i];
		memset(p[i], 7, PAGE);
	}
	say("at a fork: child %s", end_of(pid));
	for (int i = 0; i < NR; i++) {
		q[i] = map(LEN, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd2);
		wrong += differs(q[i], 2, 0, LEN) >= 0;
	}
	for (int i = 0; i < NR; i++) {
		wrong += not_all(p[i], 7, PAGE) >= 0;
		munmap(p[i], LEN);
		munmap(q[i], LEN);
	}
	say("  %d wrong, %d elsewhere", wrong, elsewhere);
}

static int stop;

/* Keeps the pager giving idle memory back, which takes free regions along. */
static void *churn(void *arg)
{
	static unsigned char *p[1000];

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		for (size_t i = 0; i < COUNT(p); i++)
			p[i] = map(64 * KIB, RW, ANON, -1);
		for (size_t i = 0; i < COUNT(p); i++)
			munmap(p[i], 64 * KIB);
	}
	return arg;
}

/* The rest of a region that another thread takes down meanwhile; and free
 * regions that are being trimmed. Only the addresses stay ours. */
static void *half(void *arg)
{
	munmap(arg, 4 * PAGE);
	return NULL;
}

static void by_two_threads(void)
{
	int wrong = 0;
	pthread_t other;

	if (pthread_create(&other, NULL, churn, NULL))
		give_up("pthread_create");
	for (int i = 0; i < 500; i++) {
		unsigned char *p = map(8 * PAGE, PROT_READ, MAP_PRIVATE, fd1);
		unsigned char *q, *r;
		pthread_t t;

		munmap(p + 4 * PAGE, 4 * PAGE);
		if (pthread_create(&t, NULL, half, p))
			give_up("pthread_create");
		q = mmap(p + 4 * PAGE, 4 * PAGE, RW, ANON | MAP_FIXED, -1, 0);
		pthread_join(t, NULL);
		wrong += q != p + 4 * PAGE;
		memset(p + 4 * PAGE, 5, 4 * PAGE);
		r = map(8 * PAGE, PROT_READ, MAP_PRIVATE, fd2);
		wrong += differs(r, 2, 0, 8 * PAGE) >= 0;
		wrong += not_all(p + 4 * PAGE, 5, 4 * PAGE) >= 0;
		munmap(r, 8 * PAGE);
		munmap(p + 4 * PAGE, 4 * PAGE);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(other, NULL);
	say("by two threads: %d wrong", wrong);
}

int main(void)
{
	fd1 = temp_file(1, LEN, O_RDONLY);
	fd2 = temp_file(2, LEN, O_RDONLY);
	over_and_over();
	never_used(16 * KIB, 1024 * KIB);
	never_used(16 * KIB, 1024 * KIB + PAGE);
	never_used(4 * KIB, 2048 * KIB);
	never_used(60 * KIB, 5 * 1024 * KIB);
	at_fork();
	by_two_threads();
	return 0;
}
