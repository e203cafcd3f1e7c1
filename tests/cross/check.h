/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * check.h - the smallest test harness: plain main, so that it is built by cross
 * compilers and runs under emulation. CHECK() counts and reports; RUN() names a
 * group of checks; check_done() prints the sum and gives the exit status.
 */
#ifndef TESTS_CROSS_CHECK_H
#define TESTS_CROSS_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <pthread.h>

static unsigned long check_passed;
static unsigned long check_failed;

static inline bool check_one(bool ok, const char *file, int line,
			     const char *what)
{
	if (ok) {
		__atomic_fetch_add(&check_passed, 1, __ATOMIC_RELAXED);
		return true;
	}
	/* The first few tell enough. */
	if (__atomic_fetch_add(&check_failed, 1, __ATOMIC_RELAXED) < 10)
		printf("FAILED %s:%d: %s\n", file, line, what);
	return false;
}

#define CHECK(cond) check_one((cond), __FILE__, __LINE__, #cond)

#define RUN(fn)                                           \
	do {                                              \
		unsigned long run_before_ = check_failed; \
		fn();                                     \
		if (check_failed != run_before_)          \
			printf("in " #fn "\n");           \
	} while (0)

static inline int check_done(const char *name)
{
	printf("%s: %lu passed, %lu failed\n", name, check_passed,
	       check_failed);
	fflush(stdout);
	return check_failed || !check_passed;
}

/* Run fn in n threads, with 0 .. n-1 as argument, and wait for them. */
#define CHECK_MAX_THREADS 16

static inline void check_threads(unsigned int n, void *(*fn)(void *))
{
	pthread_t t[CHECK_MAX_THREADS];

	for (unsigned int i = 0; i < n; i++) {
		if (pthread_create(&t[i], NULL, fn, (void *)(uintptr_t)i)) {
			perror("pthread_create");
			exit(2);
		}
	}
	for (unsigned int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
}

#endif
