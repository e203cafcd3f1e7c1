// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * lib_pagerun.c - one run of bench_page, in a child process: what it leaves in
 * memory, in the process's counters and in signal handlers goes with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "page.h"

static pthread_barrier_t line;

/* ------------------------------------------------------------------------
 * Counts
 */
static void read_io(struct page_counts *n)
{
	FILE *f = fopen("/proc/self/io", "re");
	unsigned long long v;
	char key[32];

	while (f && fscanf(f, "%31s %llu", key, &v) == 2) {
		if (!strcmp(key, "syscr:"))
			n->reads = v;
		else if (!strcmp(key, "read_bytes:"))
			n->bytes = v;
	}
	if (f)
		fclose(f);
}

static void counts(struct page_run *r, struct page_counts *n)
{
	struct rusage ru;
	double user, sys;

	memset(n, 0, sizeof(*n));
	getrusage(RUSAGE_SELF, &ru);
	n->minor = (uint64_t)ru.ru_minflt;
	n->major = (uint64_t)ru.ru_majflt;
	n->switches = (uint64_t)(ru.ru_nvcsw + ru.ru_nivcsw);
	read_io(n);
	n->tlb = b_tlb_row();
	b_cpu(&user, &sys);
	n->cpu = user + sys;
	if (r->job.method->counts)
		r->job.method->counts(r, n);
}

static void counts_since(struct page_run *r, const struct page_counts *from,
			 struct page_counts *n)
{
	counts(r, n);
	n->minor -= from->minor;
	n->major -= from->major;
	n->switches -= from->switches;
	n->reads -= from->reads;
	n->bytes -= from->bytes;
	n->fills -= from->fills;
	n->fill_bytes -= from->fill_bytes;
	n->tlb -= from->tlb;
	n->cpu -= from->cpu;
}

/* Memory of this process that is no file's. */
static size_t own_memory(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	unsigned long size, all = 0, shared = 0;

	if (f && fscanf(f, "%lu %lu %lu", &size, &all, &shared) != 3)
		all = shared = 0;
	if (f)
		fclose(f);
	return (all - shared) * (size_t)B_PAGE;
}

/* ------------------------------------------------------------------------
 * The threads
 */
static void *work(void *arg)
{
	struct page_thread *t = arg;
	struct page_run *r = t->run;
	const struct page_method *m = r->job.method;
	int err = m->enter ? m->enter(t) : 0;

	if (err) {
		r->result->err = err;
		snprintf(r->result->what, sizeof(r->result->what), "thread");
	}
	pthread_barrier_wait(&line);
	if (!r->result->err) {
		if (r->job.work == WORK_SEQ)
			m->seq(t);
		else
			m->random(t);
	}
	if (!err && m->leave)
		m->leave(t);
	return NULL;
}

static uint64_t total(const struct page_thread *t, unsigned int n)
{
	uint64_t sum = 0;

	while (n--)
		sum += __atomic_load_n(&t[n].ops, __ATOMIC_RELAXED);
	return sum;
}

static void nap(double secs)
{
	struct timespec ts;

	ts.tv_sec = (time_t)secs;
	ts.tv_nsec = (long)((secs - (double)ts.tv_sec) * 1e9);
	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
}

static void watch(struct page_run *r, const struct page_thread *t,
		  unsigned int n)
{
	struct page_result *res = r->result;
	unsigned int i;
	double from, start, end;
	uint64_t ops, first;

	first = ops = total(t, n);
	from = start = b_now();
	for (i = 0; i < r->job.windows; i++) {
		end = start + r->job.secs * (i + 1) / r->job.windows;
		while (b_now() < end) {
			size_t m = own_memory();

			if (m > res->peak)
				res->peak = m;
			nap(end - b_now() < 0.1 ? end - b_now() + 1e-4 : 0.1);
		}
		end = b_now();
		res->window[i] = (double)(total(t, n) - ops) / (end - from);
		ops = total(t, n);
		from = end;
	}
	res->windows = r->job.windows;
	res->ops = ops - first;
	res->wall = from - start;
}

/*
 * For the time asked, and until memory has been filled once over; a slow device
 * or a busy machine may not get there in WARM_MOST times that.
 */
#define WARM_MOST 8

static void warm_up(struct page_run *r, const struct page_thread *t,
		    unsigned int n, const struct page_counts *from)
{
	double start = b_now();
	struct page_counts now;
	uint64_t bytes;

	nap(r->job.warm);
	while (b_now() - start < WARM_MOST * r->job.warm) {
		counts_since(r, from, &now);
		bytes = now.bytes > now.fill_bytes ? now.bytes : now.fill_bytes;
		if (bytes > r->job.budget + r->job.budget / 8 ||
		    total(t, n) > 8 * r->pages)
			break;
		nap(0.05);
	}
}

static struct page_thread *make_threads(struct page_run *r, unsigned int n)
{
	struct page_thread *t;
	uint64_t each = r->pages / n;
	unsigned int i;

	if (posix_memalign((void **)&t, 256, n * sizeof(*t)))
		b_die("out of memory");
	memset(t, 0, n * sizeof(*t));
	for (i = 0; i < n; i++) {
		t[i].run = r;
		t[i].index = i;
		t[i].rng = 0x9e3779b97f4a7c15u * (i + 1) ^
			   (uint64_t)(b_now() * 1e9);
		t[i].first = i * each;
		t[i].end = i + 1 == n ? r->pages : (i + 1) * each;
		t[i].room = r->job.work == WORK_RANDOM ? PAGE_ROOM : PAGE_BUF;
		if (posix_memalign((void **)&t[i].buf, B_PAGE, t[i].room))
			b_die("out of memory");
		memset(t[i].buf, 1, t[i].room);
	}
	return t;
}

static void run_threads(struct page_run *r)
{
	unsigned int i,
		n = r->job.method->flags & PAGE_ONE_THREAD ? 1 : r->job.threads;
	struct page_thread *t = make_threads(r, n);
	pthread_t id[PAGE_MAX_THREADS];
	struct page_counts from, first;
	double start;

	pthread_barrier_init(&line, NULL, n + 1);
	for (i = 0; i < n; i++)
		if (pthread_create(&id[i], NULL, work, &t[i]))
			b_die("cannot start a thread");
	counts(r, &first);
	from = first;
	pthread_barrier_wait(&line);
	start = b_now();
	if (r->job.work == WORK_RANDOM && !r->result->err) {
		warm_up(r, t, n, &from);
		counts(r, &from);
		watch(r, t, n);
		counts_since(r, &from, &r->result->n);
		counts_since(r, &first, &r->result->all);
	}
	__atomic_store_n(&r->stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < n; i++) {
		pthread_join(id[i], NULL);
		r->result->wrong += t[i].wrong;
	}
	if (r->job.work == WORK_SEQ) {
		r->result->wall = b_now() - start;
		r->result->ops = total(t, n);
		counts_since(r, &from, &r->result->n);
		r->result->peak = own_memory();
	}
}

/* ------------------------------------------------------------------------
 * Latency of first touches: one page of each 64 KiB, or of each granule if that
 * is more, so that what the kernel maps around a fault spares no other touch.
 */
static int cmp_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static inline uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint32_t *shuffled(struct page_thread *t, uint32_t n)
{
	uint32_t *v = malloc(n * sizeof(*v)), i, k, x;
	unsigned int word;

	if (!v)
		b_die("out of memory");
	for (i = 0; i < n; i++)
		v[i] = i;
	for (i = n; i > 1; i--) {
		page_pick(t, &word);
		k = (uint32_t)((t->rng >> 32) * i >> 32);
		x = v[i - 1];
		v[i - 1] = v[k];
		v[k] = x;
	}
	return v;
}

static void run_latency(struct page_run *r)
{
	struct page_thread *t = make_threads(r, 1);
	size_t step = r->job.granule > PAGE_BLOCK ? r->job.granule : PAGE_BLOCK;
	uint32_t n = (uint32_t)(r->job.span / step), i;
	uint32_t *order = shuffled(t, n), *ns = calloc(n, sizeof(*ns));
	struct page_counts from;
	unsigned int word;
	uint64_t a, b, page, got;
	int err = r->job.method->enter ? r->job.method->enter(t) : 0;

	if (err || !ns) {
		r->result->err = err ? err : -ENOMEM;
		return;
	}
	counts(r, &from);
	for (i = 0; i < n; i++) {
		page_pick(t, &word);
		page = order[i] * (step / B_PAGE) +
		       t->rng % (PAGE_BLOCK / B_PAGE);
		a = now_ns();
		got = *(const volatile uint64_t *)(r->base + page * B_PAGE +
						   word * 8);
		b = now_ns();
		ns[i] = (uint32_t)(b - a);
		r->result->wall += (double)(b - a) * 1e-9;
		page_judge(t, page, word, got);
	}
	counts_since(r, &from, &r->result->n);
	qsort(ns, n, sizeof(*ns), cmp_u32);
	r->result->ops = n;
	r->result->wrong = t->wrong;
	r->result->p50 = ns[n / 2];
	r->result->p99 = ns[n - 1 - n / 100];
	r->result->mean = r->result->wall * 1e9 / n;
	r->result->peak = own_memory();
}

/* ------------------------------------------------------------------------
 * The child
 */
static void child(const struct page_job *job, struct page_result *res)
{
	struct page_run r;
	cpu_set_t one;
	int err;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	memset(&r, 0, sizeof(r));
	r.job = *job;
	r.id = job->file->id;
	r.pages = job->span / B_PAGE;
	r.result = res;
	if (job->pin) {
		CPU_ZERO(&one);
		CPU_SET(sched_getcpu(), &one);
		sched_setaffinity(0, sizeof(one), &one);
	}
	r.fd = page_open(&r, 0);
	err = r.fd < 0 ? r.fd : job->method->start(&r);
	if (err) {
		res->err = err;
		snprintf(res->what, sizeof(res->what), "start");
		_exit(0);
	}
	if (job->work == WORK_LATENCY)
		run_latency(&r);
	else
		run_threads(&r);
	if (job->method->stop)
		job->method->stop(&r);
	res->done = true;
	_exit(0);
}

static void reap(pid_t pid, const struct page_job *job, double limit)
{
	double end = b_now() + limit;
	int status = 0;
	pid_t got;

	while (!(got = waitpid(pid, &status, WNOHANG)) && b_now() < end)
		nap(0.01);
	if (!got) {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		b_die("%s hung: killed after %.0f s", job->method->name, limit);
	}
	if (WIFSIGNALED(status))
		b_die("%s, %u threads: %s", job->method->name, job->threads,
		      strsignal(WTERMSIG(status)));
	if (WEXITSTATUS(status))
		b_die("%s, %u threads: exit status %d", job->method->name,
		      job->threads, WEXITSTATUS(status));
}

void page_run(const struct page_job *job, struct page_result *r)
{
	struct page_result *shared = mmap(NULL, sizeof(*shared),
					  PROT_READ | PROT_WRITE,
					  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid;

	if (shared == MAP_FAILED)
		b_die("mmap: %s", strerror(errno));
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		b_die("fork: %s", strerror(errno));
	if (!pid)
		child(job, shared);
	reap(pid, job,
	     job->work == WORK_RANDOM ? job->warm + job->secs + 60 : 900);
	*r = *shared;
	munmap(shared, sizeof(*shared));
	if (!r->done && !r->err)
		b_die("%s: ended early", job->method->name);
	if (r->wrong)
		b_die("%s, %u threads: %llu touches found a wrong word",
		      job->method->name, job->threads,
		      (unsigned long long)r->wrong);
}
