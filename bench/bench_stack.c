/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * bench_stack.c [--ops N] [--runs N] - a pop and a push of one shared LIFO.
 *
 *   lfs-mutex    liburcu's cds_lfs_push and cds_lfs_pop_blocking: pops exclude
 *                each other by a mutex, because a popped node is pushed again at
 *                once, without a grace period
 *   lfs-trylock  the same stack, pops under a test-and-set word; who does not
 *                get it tries again
 *   istack       the tagged-index stack of mem/istack.h
 *
 * One and two threads, the contenders alternating; median ns of one thread for
 * one pop and push, the spread, and the ratio to istack. At the end each stack
 * must hold what it held at first.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define _LGPL_SOURCE
#include <urcu/lfstack.h>

#include "bench.h"
#include "mem/istack.h"

enum {
	NODES = 64,
	KINDS = 3,
	MAX_RUNS = 31,
	MAX_THREADS = 2
};

struct obj {
	struct cds_lfs_node node;
} __attribute__((aligned(64)));

static const char *const kind_name[KINDS] = { "lfs-mutex", "lfs-trylock",
					      "istack" };
static struct obj obj[NODES];
static struct cds_lfs_stack lfs;
static struct {
	atomic_uint word;
} __attribute__((aligned(64))) gate;
static struct {
	struct istack s;
} __attribute__((aligned(64))) ist;
static _Atomic(uint32_t) link_of[NODES];
static const struct istack_links links = { (char *)link_of, sizeof(uint32_t) };

static unsigned long ops = 1000000;
static pthread_barrier_t line;

static struct cds_lfs_node *pop_trylock(void)
{
	struct cds_lfs_node *n;

	while (atomic_exchange_explicit(&gate.word, 1, memory_order_acquire))
		while (atomic_load_explicit(&gate.word, memory_order_relaxed))
			caa_cpu_relax();
	n = __cds_lfs_pop(&lfs);
	atomic_store_explicit(&gate.word, 0, memory_order_release);
	return n;
}

static void turn(unsigned int kind)
{
	struct cds_lfs_node *n;
	uint32_t i;

	for (unsigned long k = 0; k < ops; k++) {
		if (kind == 2) {
			if (!istack_pop(&ist.s, &i, links))
				b_die("istack: empty");
			istack_push(&ist.s, i, links);
			continue;
		}
		n = kind == 0 ? cds_lfs_pop_blocking(&lfs) : pop_trylock();
		if (!n)
			b_die("%s: empty", kind_name[kind]);
		cds_lfs_push(&lfs, n);
	}
}

struct job {
	pthread_t thread;
	unsigned int kind;
	double ns;
};

static void *work(void *arg)
{
	struct job *job = arg;
	double t;

	pthread_barrier_wait(&line);
	t = b_now();
	turn(job->kind);
	job->ns = (b_now() - t) * 1e9 / (double)ops;
	return NULL;
}

static double run(unsigned int kind, unsigned int threads)
{
	struct job job[MAX_THREADS];
	double sum = 0;

	pthread_barrier_init(&line, NULL, threads);
	for (unsigned int i = 0; i < threads; i++) {
		job[i].kind = kind;
		if (pthread_create(&job[i].thread, NULL, work, &job[i]))
			b_die("cannot start a thread");
	}
	for (unsigned int i = 0; i < threads; i++) {
		pthread_join(job[i].thread, NULL);
		sum += job[i].ns;
	}
	pthread_barrier_destroy(&line);
	return sum / threads;
}

static void check_contents(void)
{
	unsigned int n = 0, m = 0;
	uint32_t i;

	while (__cds_lfs_pop(&lfs))
		n++;
	while (istack_pop(&ist.s, &i, links))
		m++;
	if (n != NODES || m != NODES)
		b_die("nodes lost: %u and %u of %u left", n, m, NODES);
}

int main(int argc, char **argv)
{
	double ns[KINDS][MAX_RUNS];
	unsigned int runs = 5;

	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--ops"))
			ops = strtoul(argv[i + 1], NULL, 10);
		else if (!strcmp(argv[i], "--runs"))
			runs = (unsigned int)strtoul(argv[i + 1], NULL, 10);
	}
	if (ops == 0 || runs == 0 || runs > MAX_RUNS)
		b_die("--ops and --runs: at least 1; at most %d runs",
		      MAX_RUNS);

	cds_lfs_init(&lfs);
	for (uint32_t i = 0; i < NODES; i++) {
		cds_lfs_push(&lfs, &obj[i].node);
		istack_push(&ist.s, i, links);
	}
	printf("%-12s %8s %10s %10s %10s %8s\n", "stack", "threads", "ns med",
	       "min", "max", "ratio");
	for (unsigned int threads = 1; threads <= MAX_THREADS; threads++) {
		struct b_stat st[KINDS];

		for (unsigned int r = 0; r < runs; r++)
			for (unsigned int k = 0; k < KINDS; k++)
				ns[k][r] = run(k, threads);
		for (unsigned int k = 0; k < KINDS; k++)
			st[k] = b_stat_of(ns[k], runs);
		for (unsigned int k = 0; k < KINDS; k++)
			printf("%-12s %8u %10.1f %10.1f %10.1f %8.2f\n",
			       kind_name[k], threads, st[k].med, st[k].min,
			       st[k].max, st[k].med / st[KINDS - 1].med);
	}
	check_contents();
	return 0;
}
