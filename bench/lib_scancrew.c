// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * lib_scancrew.c - the threads that scan.
 *
 * They live as long as the crew, so that all modes are measured in the same
 * threads with the same warm buffers. Between jobs they wait at a barrier.
 * Files are handed out a few at a time from a shared counter; the time of a
 * job runs from the first thread's start to the last one's end.
 *
 * Threads woken together may all be put on one CPU and stay there for longer
 * than a run lasts. So each moves to a CPU of its own when a job starts; from
 * then on it is the scheduler's.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "scan.h"

#define GRAB 8 /* files a thread takes at a time */

struct worker {
	struct scan_crew *crew;
	unsigned int index;
	pthread_t thread;
	struct scan_ctx ctx;
	struct b_counts counts;
	double start, end, cpu;
	uint64_t wrong;
};

struct scan_crew {
	unsigned int threads;
	pthread_barrier_t gate;
	const struct scan_job *job; /* NULL: go home */
	atomic_size_t next;         /* file to hand out, over all passes */
	atomic_uint ready;          /* threads in place for the job */
	cpu_set_t cpus;             /* that we may run on */
	struct worker worker[];
};

static double thread_cpu(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void check(struct worker *w, const struct scan_job *job,
		  struct scan_file *f)
{
	const char *what = NULL;

	if (w->ctx.dirty_tail)
		what = "bytes after the end of file are not zero";
	if (job->reference)
		f->sum = w->ctx.sum;
	else if (f->sum != w->ctx.sum)
		what = "bytes differ from what pread gave";
	if (what && w->wrong++ < 5)
		fprintf(stderr, "bench: %s: mode %s: %s\n", f->path,
			job->mode->name, what);
}

static void one_file(struct worker *w, const struct scan_job *job,
		     struct scan_file *f)
{
	struct stat st = { .st_size = (off_t)f->size };
	int fd = f->fd, err = 0;

	if (fd < 0) {
		fd = open(f->path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || fstat(fd, &st))
			b_die("%s: %s", f->path, strerror(errno));
	}
	w->ctx.sum = 0;
	w->ctx.dirty_tail = false;
	if (st.st_size > 0)
		err = job->mode->scan(&w->ctx, fd, (size_t)st.st_size);
	if (err < 0)
		b_die("%s: mode %s: %s", f->path, job->mode->name,
		      strerror(-err));
	if (job->touch == TOUCH_VERIFY)
		check(w, job, f);
	if (f->fd < 0)
		close(fd);
}

static void spread(struct worker *w)
{
	struct scan_crew *crew = w->crew;
	int n = CPU_COUNT(&crew->cpus), nth, cpu;
	cpu_set_t one;

	nth = n > 0 ? (int)w->index % n : 0;
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &crew->cpus) && nth-- == 0)
			break;
	if (n > 0 && cpu < CPU_SETSIZE) {
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		sched_setaffinity(0, sizeof(crew->cpus), &crew->cpus);
	}
	atomic_fetch_add(&crew->ready, 1);
	while (atomic_load(&crew->ready) < crew->threads)
		sched_yield();
}

static void do_job(struct worker *w, const struct scan_job *job)
{
	size_t n = job->set->n, total = n * job->passes, i, end;

	w->ctx.touch = job->touch;
	w->ctx.hits = 0;
	w->wrong = 0;
	spread(w);
	w->start = b_now();
	w->cpu = thread_cpu();
	if (job->count)
		b_counts_start(&w->counts);
	for (;;) {
		i = atomic_fetch_add(&w->crew->next, GRAB);
		if (i >= total)
			break;
		end = i + GRAB < total ? i + GRAB : total;
		for (; i < end; i++)
			one_file(w, job, &job->set->file[i % n]);
	}
	if (job->count)
		b_counts_stop(&w->counts);
	w->cpu = thread_cpu() - w->cpu;
	w->end = b_now();
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct scan_crew *crew = w->crew;

	for (;;) {
		pthread_barrier_wait(&crew->gate);
		if (!crew->job)
			break;
		do_job(w, crew->job);
		pthread_barrier_wait(&crew->gate);
	}
	free(w->ctx.buf);
	return NULL;
}

struct scan_crew *crew_start(unsigned int threads, struct fl_pager *pager)
{
	struct scan_crew *crew;
	unsigned int i;

	crew = calloc(1, sizeof(*crew) + threads * sizeof(crew->worker[0]));
	if (!crew)
		b_die("out of memory");
	crew->threads = threads;
	if (sched_getaffinity(0, sizeof(crew->cpus), &crew->cpus))
		CPU_ZERO(&crew->cpus);
	pthread_barrier_init(&crew->gate, NULL, threads + 1);
	for (i = 0; i < threads; i++) {
		struct worker *w = &crew->worker[i];
		int err;

		w->crew = crew;
		w->index = i;
		w->ctx.pager = pager;
		err = pthread_create(&w->thread, NULL, worker_main, w);
		if (err)
			b_die("pthread_create: %s", strerror(err));
	}
	return crew;
}

void crew_run(struct scan_crew *crew, const struct scan_job *job,
	      struct scan_result *r)
{
	double start = 0, end = 0;
	unsigned int i, e;

	crew->job = job;
	atomic_store(&crew->next, 0);
	atomic_store(&crew->ready, 0);
	pthread_barrier_wait(&crew->gate);
	pthread_barrier_wait(&crew->gate);

	memset(r, 0, sizeof(*r));
	for (i = 0; i < crew->threads; i++) {
		struct worker *w = &crew->worker[i];

		if (!i || w->start < start)
			start = w->start;
		if (w->end > end)
			end = w->end;
		r->cpu += w->cpu;
		r->hits += w->ctx.hits;
		r->wrong += w->wrong;
		if (!job->count)
			continue;
		for (e = 0; e < B_EVENTS; e++)
			r->n[e] += w->counts.n[e];
		r->faults += w->counts.faults;
	}
	r->wall = end - start;
}

void crew_end(struct scan_crew *crew)
{
	unsigned int i;

	crew->job = NULL;
	pthread_barrier_wait(&crew->gate);
	for (i = 0; i < crew->threads; i++)
		pthread_join(crew->worker[i].thread, NULL);
	pthread_barrier_destroy(&crew->gate);
	free(crew);
}
