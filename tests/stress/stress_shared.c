/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * stress_shared - threads at work on different pages of the same regions.
 *
 * In a round the regions are mapped by one thread and worked on by all: page
 * i belongs to thread i modulo the number of threads, which writes, checks,
 * protects (so that the region turns into a kernel mapping piecemeal), locks,
 * drops, replaces and unmaps its own pages only. What one thread does to its
 * pages must not be seen in another's: a demotion that copied a neighbour's
 * page would lose a write made meanwhile. Now and then a thread forks, and
 * its child checks the pages of that thread.
 *
 * --threads N (4) --secs N (5) --seed N --fork N (one in N steps; 0: none)
 * --options TEXT (of the pager)
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "faultline.h"
#include "support/stress.h"

#define PAGE ((size_t)4096)
#define REGIONS 6
#define PAGES 48
#define STEPS 400
#define RW (PROT_READ | PROT_WRITE)
#define FILE_ID 7

enum page_is {
	GONE,
	FILE_BYTES,
	WORDS,
	ZERO
};

struct worker {
	pthread_t thread;
	unsigned int no;
	struct rng rng;
	_Atomic uint64_t steps;
};

static struct fl_pager *pager;
static unsigned char *region[REGIONS];
/* Each entry is touched by the page's owner only. */
static unsigned char is[REGIONS][PAGES];
static uint64_t tag[REGIONS][PAGES];
static unsigned int nr_threads;
static pthread_barrier_t barrier;
static atomic_int stop;
static int file, last_round;
static _Atomic uint64_t wrong, failed, rounds, forks;
static long fork_every;

static void fail(const char *what, long err, unsigned int r, unsigned int i)
{
	if (atomic_fetch_add_explicit(&failed, 1, memory_order_relaxed) < 10)
		fprintf(stderr, "%s: %s (region %u page %u)\n", what,
			strerror((int)-err), r, i);
}

static unsigned char *at(unsigned int r, unsigned int i)
{
	return region[r] + i * PAGE;
}

static size_t check(unsigned int r, unsigned int i, const char *when)
{
	size_t bad = 0;

	if (is[r][i] == WORDS)
		bad = words_wrong(at(r, i), tag[r][i], i * PAGE, PAGE);
	else if (is[r][i] == ZERO)
		bad = zero_wrong(at(r, i), PAGE);
	else if (is[r][i] == FILE_BYTES)
		bad = words_wrong(at(r, i), FILE_ID, i * PAGE, PAGE);
	if (bad) {
		fprintf(stderr, "%s: region %u page %u state %d: %zu wrong\n",
			when, r, i, is[r][i], bad);
		atomic_fetch_add_explicit(&wrong, bad, memory_order_relaxed);
	}
	return bad;
}

static void write_page(struct worker *w, unsigned int r, unsigned int i)
{
	tag[r][i] = 100 + (rng_next(&w->rng) >> 40);
	words_fill(at(r, i), tag[r][i], i * PAGE, PAGE);
	is[r][i] = WORDS;
}

static void protect(unsigned int r, unsigned int i, int prot)
{
	int ret = fl_pager_mprotect(pager, at(r, i), PAGE, prot);

	if (!ret && prot == PROT_READ)
		check(r, i, "read-only");
	if (!ret)
		ret = fl_pager_mprotect(pager, at(r, i), PAGE, RW);
	if (ret)
		fail("mprotect", ret, r, i);
}

static void drop(unsigned int r, unsigned int i)
{
	int ret = fl_pager_madvise(pager, at(r, i), PAGE, MADV_DONTNEED);

	if (ret)
		fail("madvise", ret, r, i);
	is[r][i] = r % 2 && is[r][i] != ZERO ? FILE_BYTES : ZERO;
}

/* In anonymous regions only: drop() then knows what comes back. */
static void replace(unsigned int r, unsigned int i)
{
	void *p;

	if (r % 2)
		return;
	p = fl_pager_mmap(pager, at(r, i), PAGE, RW,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (p != at(r, i))
		fail("MAP_FIXED", FL_IS_ERR(p) ? FL_PTR_ERR(p) : -EIO, r, i);
	is[r][i] = ZERO;
}

static void unmap(unsigned int r, unsigned int i)
{
	int ret = fl_pager_munmap(pager, at(r, i), PAGE);

	if (ret)
		fail("munmap", ret, r, i);
	is[r][i] = GONE;
}

static void lock(unsigned int r, unsigned int i)
{
	int ret = fl_pager_mlock(pager, at(r, i), PAGE, 0);

	if (!ret)
		ret = fl_pager_munlock(pager, at(r, i), PAGE);
	if (ret)
		fail("mlock", ret, r, i);
}

static void fork_one(const struct worker *w)
{
	pid_t pid = fork();
	int st;

	if (pid == 0) {
		size_t bad = 0;

		alarm(25);
		for (unsigned int r = 0; r < REGIONS; r++)
			for (unsigned int i = w->no; i < PAGES; i += nr_threads)
				bad += check(r, i, "child");
		_exit(bad != 0);
	}
	if (pid < 0) {
		fail("fork", -errno, 0, 0);
		return;
	}
	while (waitpid(pid, &st, 0) < 0)
		if (errno != EINTR)
			return;
	if (st)
		fail("child", -ECHILD, 0, (unsigned int)st);
	atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
}

static void step(struct worker *w)
{
	unsigned int r = rng_below(&w->rng, REGIONS);
	unsigned int own = (PAGES - w->no + nr_threads - 1) / nr_threads;
	unsigned int i = w->no + nr_threads * rng_below(&w->rng, own);

	if (fork_every && rng_below(&w->rng, (unsigned int)fork_every) == 0)
		fork_one(w);
	if (is[r][i] == GONE)
		return;
	check(r, i, "step");
	switch (rng_below(&w->rng, 64)) {
	case 0:
		protect(r, i, PROT_NONE);
		break;
	case 1:
		protect(r, i, PROT_READ);
		break;
	case 2:
		drop(r, i);
		break;
	case 3:
		replace(r, i);
		break;
	case 4:
	case 5:
		unmap(r, i);
		break;
	case 6:
		lock(r, i);
		break;
	default:
		write_page(w, r, i);
	}
	if (is[r][i] != GONE)
		check(r, i, "after");
}

static void map_all(void)
{
	for (unsigned int r = 0; r < REGIONS; r++) {
		void *p = fl_pager_mmap(pager, NULL, PAGES * PAGE, RW,
					r % 2 ? MAP_PRIVATE :
						MAP_PRIVATE | MAP_ANONYMOUS,
					r % 2 ? file : -1, 0);

		if (FL_IS_ERR(p)) {
			fail("mmap", FL_PTR_ERR(p), r, 0);
			abort();
		}
		region[r] = p;
		memset(is[r], r % 2 ? FILE_BYTES : ZERO, PAGES);
	}
	last_round = atomic_load_explicit(&stop, memory_order_relaxed);
	atomic_fetch_add_explicit(&rounds, 1, memory_order_relaxed);
}

static void *work(void *arg)
{
	struct worker *w = arg;

	for (;;) {
		if (w->no == 0)
			map_all();
		pthread_barrier_wait(&barrier);
		for (unsigned int k = 0; k < STEPS; k++) {
			step(w);
			atomic_fetch_add_explicit(&w->steps, 1,
						  memory_order_relaxed);
		}
		for (unsigned int r = 0; r < REGIONS; r++)
			for (unsigned int i = w->no; i < PAGES; i += nr_threads)
				if (is[r][i] != GONE) {
					check(r, i, "end of round");
					unmap(r, i);
				}
		if (last_round)
			return NULL;
		/* All pages are gone before new regions come. */
		pthread_barrier_wait(&barrier);
	}
}

static int make_file(void)
{
	const char *dir = getenv("TMPDIR");
	unsigned char *buf = malloc(PAGES * PAGE);
	char name[300];
	int fd;

	snprintf(name, sizeof(name), "%s/fl-stress-XXXXXX", dir ? dir : "/tmp");
	fd = mkstemp(name);
	words_fill(buf, FILE_ID, 0, PAGES * PAGE);
	if (fd < 0 || write(fd, buf, PAGES * PAGE) != (ssize_t)(PAGES * PAGE))
		return -1;
	file = open(name, O_RDONLY | O_CLOEXEC);
	close(fd);
	unlink(name);
	free(buf);
	return file;
}

/* Stops the work in time; aborts when nobody has moved for 30 s. */
static void watch(struct worker *w, long secs)
{
	double end = now_s() + (double)secs, moved = now_s();
	uint64_t seen = 0;

	while (now_s() < end &&
	       !atomic_load_explicit(&wrong, memory_order_relaxed)) {
		uint64_t sum = 0;

		nap_ms(100);
		for (unsigned int i = 0; i < nr_threads; i++)
			sum += atomic_load_explicit(&w[i].steps,
						    memory_order_relaxed);
		if (sum != seen)
			moved = now_s();
		seen = sum;
		if (now_s() - moved > 30) {
			fprintf(stderr, "stuck after %llu steps\n",
				(unsigned long long)sum);
			abort();
		}
	}
	atomic_store_explicit(&stop, 1, memory_order_relaxed);
}

int main(int argc, char **argv)
{
	long seed = arg_num(argc, argv, "seed", 1);
	struct worker *w;
	uint64_t live = 0;
	int ret;

	nr_threads = (unsigned int)arg_num(argc, argv, "threads", 4);
	if (nr_threads < 1 || nr_threads > PAGES)
		return 2;
	fork_every = UNDER_TSAN ? 0 : arg_num(argc, argv, "fork", 5000);
	w = calloc(nr_threads, sizeof(*w));
	ret = fl_pager_open(&pager, arg_text(argc, argv, "options"));
	if (ret || make_file() < 0) {
		fprintf(stderr, "set-up: %s\n", strerror(ret ? -ret : errno));
		return 1;
	}
	pthread_barrier_init(&barrier, NULL, nr_threads);
	for (unsigned int i = 0; i < nr_threads; i++) {
		w[i].no = i;
		w[i].rng.s = (uint64_t)seed * 1000003 + i;
		if (pthread_create(&w[i].thread, NULL, work, &w[i]))
			return 1;
	}
	watch(w, arg_num(argc, argv, "secs", 5));
	for (unsigned int i = 0; i < nr_threads; i++)
		pthread_join(w[i].thread, NULL);
	ret = fl_stat_read(pager, "live_regions", &live);
	if (ret || live)
		fail("live_regions", ret, (unsigned int)live, 0);
	ret = fl_pager_close(pager);
	if (ret)
		fail("fl_pager_close", ret, 0, 0);
	printf("%u threads: %llu rounds, %llu forks; %llu wrong words, %llu failures\n",
	       nr_threads, (unsigned long long)rounds,
	       (unsigned long long)forks, (unsigned long long)wrong,
	       (unsigned long long)failed);
	free(w);
	return wrong || failed;
}
