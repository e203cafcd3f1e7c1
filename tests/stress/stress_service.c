/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * stress_service - does everybody who sleeps in the kernel for a page wake?
 *
 * Many threads want the same few pages, of which half fit into memory, so that a
 * fault often comes to a page that is being filled, evicted, given up or has
 * just been: claims are lost in between. Reads of several pages at once fail
 * often, so that windows are claimed and given up. Threads touch, let system
 * calls touch, prefetch (and so fill in a thread that is no service thread) and
 * drop pages; parts of the file region become the kernel's and are mapped anew.
 * The watchdog of the service threads is put to sleep: it could help.
 *
 * A wrong byte, a failing call, or 10 s in which a thread gets nowhere is a
 * failure.
 *
 * --threads N (16) --secs N (3) --seed N --service N (threads, 2)
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "fault/service.h"
#include "faultline.h"
#include "support/stress.h"

#define PAGE ((size_t)4096)
#define PAGES 512u
#define LEN (PAGES * PAGE)
#define MAX_THREADS 64
#define HANG_S 10
#define STORE_ID 1
#define FILE_ID 2

static struct fl_pager *pager;
static char *of_store;
static _Atomic(char *) of_file;
static int file;
static pthread_rwlock_t file_lock = PTHREAD_RWLOCK_INITIALIZER;
static _Atomic(bool) stop;
static _Atomic(unsigned long) failures, windows, calls, demotions;

static pthread_barrier_t round_begins;
static size_t round_page;
static bool round_over;
static _Atomic(bool) out_of_time;
static _Atomic(unsigned long) rounds;

static struct worker {
	pthread_t thread;
	struct rng rng;
	int pipe[2];
	_Atomic(unsigned long) steps;
	unsigned long seen;
} workers[MAX_THREADS];

static void fail(const char *what, long n)
{
	atomic_fetch_add(&failures, 1);
	fprintf(stderr, "%s: %ld\n", what, n);
}

/* Two of three windows cannot be had in one piece. */
static ssize_t store_read(void *arg, void *buf, size_t len, uint64_t off)
{
	(void)arg;
	if (len > PAGE && atomic_fetch_add(&windows, 1) % 3) {
		usleep(100); /* others meet the claims */
		return -EIO;
	}
	words_fill(buf, STORE_ID, off, len);
	return (ssize_t)len;
}

static const struct fl_store_ops ops = { .size = sizeof(ops),
					 .read = store_read };

static void check(const void *p, uint64_t id, size_t page)
{
	size_t n = words_wrong(p, id, page * PAGE, PAGE);

	if (n)
		fail("wrong words", (long)n);
}

/* The kernel touches the page. */
static void call(struct worker *w, const char *p, uint64_t id, size_t page)
{
	char buf[PAGE];
	ssize_t n = write(w->pipe[1], p, PAGE);

	if (n != (ssize_t)PAGE)
		return fail("write", n < 0 ? errno : n);
	n = read(w->pipe[0], buf, PAGE);
	if (n != (ssize_t)PAGE)
		return fail("read", n);
	check(buf, id, page);
	atomic_fetch_add(&calls, 1);
}

static void use(struct worker *w, char *base, uint64_t id)
{
	/* The hot third twice as often as the rest. */
	unsigned int r = rng_below(&w->rng, PAGES * 2);
	size_t page = r < PAGES ? r : r % (PAGES / 3);
	char *p = base + page * PAGE;
	int ret;

	switch (rng_below(&w->rng, 16)) {
	case 0:
	case 1:
	case 2:
	case 3:
		return call(w, p, id, page);
	case 4:
	case 5:
		ret = fl_prefetch(pager, p, PAGE);
		if (ret)
			fail("prefetch", ret);
		return;
	case 6:
		ret = fl_pager_madvise(pager, p, PAGE, MADV_DONTNEED);
		if (ret)
			fail("dontneed", ret);
		return;
	case 7: /* windows */
		for (size_t i = page; i < page + 12 && i < PAGES; i++)
			check(base + i * PAGE, id, i);
		return;
	}
	check(p, id, page);
}

static char *map_file(void)
{
	char *p = fl_region_map_file(pager, file, 0, LEN, PROT_READ, 0);

	if (FL_IS_ERR(p)) {
		fail("map_file", FL_PTR_ERR(p));
		exit(1);
	}
	return p;
}

/* A part becomes the kernel's while others use it, then there is a new one. */
static void change_file(struct worker *w)
{
	unsigned int from = rng_below(&w->rng, PAGES - 32);
	char *p;
	int ret;

	pthread_rwlock_rdlock(&file_lock);
	p = atomic_load(&of_file);
	ret = fl_pager_mprotect(pager, p + from * PAGE, 32 * PAGE, PROT_READ);
	pthread_rwlock_unlock(&file_lock);
	if (ret)
		fail("mprotect", ret);
	atomic_fetch_add(&demotions, 1);
	if (rng_below(&w->rng, 8))
		return;
	pthread_rwlock_wrlock(&file_lock);
	ret = fl_pager_munmap(pager, atomic_load(&of_file), LEN);
	if (ret)
		fail("munmap", ret);
	atomic_store(&of_file, map_file());
	pthread_rwlock_unlock(&file_lock);
}

/*
 * Rounds: all come to the same page at once, or to those beside it, and nobody
 * comes later who might wake them by the way.
 */
static void run_rounds(struct worker *w)
{
	size_t page;
	char *p;

	while (!atomic_load(&stop)) {
		if (pthread_barrier_wait(&round_begins)) {
			round_page = rng_below(&w->rng, PAGES - 16);
			round_over = atomic_load(&out_of_time);
			p = of_store + round_page * PAGE;
			if (rng_below(&w->rng, 2))
				fl_pager_madvise(pager, p, 16 * PAGE,
						 MADV_DONTNEED);
		}
		pthread_barrier_wait(&round_begins);
		if (round_over)
			return;
		page = round_page + rng_below(&w->rng, 12) % 8;
		p = of_store + page * PAGE;
		switch (rng_below(&w->rng, 8)) {
		case 0:
			fl_prefetch(pager, p, 8 * PAGE);
			break;
		case 1:
			fl_pager_madvise(pager, p, PAGE, MADV_DONTNEED);
			break;
		case 2:
		case 3:
			call(w, p, STORE_ID, page);
			break;
		default:
			for (size_t i = page; i < page + 8; i++)
				check(of_store + i * PAGE, STORE_ID, i);
		}
		atomic_fetch_add(&w->steps, 1);
		atomic_fetch_add(&rounds, 1);
	}
}

static void *run(void *arg)
{
	struct worker *w = arg;

	run_rounds(w);
	while (!atomic_load(&stop)) {
		if (rng_below(&w->rng, 2)) {
			use(w, of_store, STORE_ID);
		} else if (rng_below(&w->rng, 500) == 0) {
			change_file(w);
		} else {
			pthread_rwlock_rdlock(&file_lock);
			use(w, atomic_load(&of_file), FILE_ID);
			pthread_rwlock_unlock(&file_lock);
		}
		atomic_fetch_add(&w->steps, 1);
	}
	return NULL;
}

static void make_file(void)
{
	char path[] = "/var/tmp/fl-stress-XXXXXX";
	static char page[PAGE];

	file = mkstemp(path);
	if (file < 0)
		exit(1);
	unlink(path);
	for (size_t i = 0; i < PAGES; i++) {
		words_fill(page, FILE_ID, i * PAGE, PAGE);
		if (write(file, page, PAGE) != (ssize_t)PAGE)
			exit(1);
	}
}

/* False if a thread has got nowhere. */
static bool watch(int threads, int secs)
{
	double end = now_s() + secs, since = now_s();

	while (now_s() < end) {
		bool moved = true;

		nap_ms(100);
		if (now_s() > end - secs / 3.0)
			atomic_store(&out_of_time, true);
		if (now_s() - since < HANG_S)
			continue;
		since = now_s();
		for (int i = 0; i < threads; i++) {
			unsigned long n = atomic_load(&workers[i].steps);

			moved &= n != workers[i].seen;
			workers[i].seen = n;
		}
		if (!moved)
			return false;
	}
	return true;
}

static bool join(int threads)
{
	struct timespec limit;

	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += HANG_S;
	for (int i = 0; i < threads; i++)
		if (pthread_timedjoin_np(workers[i].thread, NULL, &limit))
			return false;
	return true;
}

int main(int argc, char **argv)
{
	int threads = (int)arg_num(argc, argv, "threads", 16);
	int secs = (int)arg_num(argc, argv, "secs", 3);
	long seed = arg_num(argc, argv, "seed", time(NULL));
	unsigned long steps = 0;
	char options[100];
	int ret;

	if (threads > MAX_THREADS)
		threads = MAX_THREADS;
	service_patience.file_checks = service_patience.user_checks =
		UINT32_MAX;
	snprintf(options, sizeof(options),
		 "fault=service,mem=1M,granule=64K,service_threads=%ld",
		 arg_num(argc, argv, "service", 2));
	ret = fl_pager_open(&pager, options);
	if (ret)
		return fprintf(stderr, "open: %d\n", ret), 1;
	of_store = fl_region_map(pager, &ops, NULL, 0, LEN, PROT_READ, 0);
	if (FL_PTR_ERR(of_store) == -ENOTSUP) {
		printf("SKIP: no userfaultfd for faults of the kernel\n");
		return 77;
	}
	make_file();
	atomic_store(&of_file, map_file());
	pthread_barrier_init(&round_begins, NULL, (unsigned int)threads);
	for (int i = 0; i < threads; i++) {
		workers[i].rng.s = (uint64_t)seed + (uint64_t)i * 7919;
		if (pipe(workers[i].pipe) ||
		    pthread_create(&workers[i].thread, NULL, run, &workers[i]))
			return 1;
	}
	if (!watch(threads, secs))
		fail("a thread hangs, seed", seed);
	atomic_store(&stop, true);
	if (!join(threads)) {
		fail("a thread hangs, seed", seed);
		_exit(1);
	}
	for (int i = 0; i < threads; i++)
		steps += atomic_load(&workers[i].steps);
	printf("%d threads: %lu steps, %lu in rounds, %lu system calls, %lu windows, "
	       "%lu demotions; %lu failures\n",
	       threads, steps, atomic_load(&rounds), atomic_load(&calls),
	       atomic_load(&windows), atomic_load(&demotions),
	       atomic_load(&failures));
	return atomic_load(&failures) != 0;
}
