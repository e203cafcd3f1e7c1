/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * stress_churn - threads that come and go lose no memory.
 *
 * A pool as servers have them: workers take jobs, idle ones are ended every
 * 100 ms and new ones started. A job maps files and anonymous memory, checks
 * them, and unmaps them, or leaves them in a mailbox for whichever worker
 * comes next. After a warm-up the arenas must not grow: neither extents cut
 * from fresh space (carves) nor resident memory.
 *
 * --threads N (8) --secs N (5) --life MS (100) --options TEXT (of the pager)
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "faultline.h"
#include "support/stress.h"

#define RW (PROT_READ | PROT_WRITE)
#define MAIL 16
#define NR_SIZES 8

static const size_t sizes[NR_SIZES] = { 100,   4096,  9000,   30000,
					65536, 70000, 150000, 262144 };

struct parcel {
	unsigned char *p;
	size_t len;
	uint64_t id;
};

static struct fl_pager *pager;
static int fds[NR_SIZES];
static _Atomic(struct parcel *) mail[MAIL];
static _Atomic uint64_t wrong, failed, jobs, next_id = 1000;
static atomic_int stop;
static long life_ms;

static void fail(const char *what, long err)
{
	if (atomic_fetch_add_explicit(&failed, 1, memory_order_relaxed) < 10)
		fprintf(stderr, "%s: %s\n", what, strerror((int)-err));
}

static void bad(size_t n)
{
	if (n)
		atomic_fetch_add_explicit(&wrong, n, memory_order_relaxed);
}

static void *checked(void *p, const char *what)
{
	if (!FL_IS_ERR(p))
		return p;
	fail(what, FL_PTR_ERR(p));
	return NULL;
}

static void unmap(void *p, size_t len)
{
	int ret = fl_pager_munmap(pager, p, len);

	if (ret)
		fail("munmap", ret);
}

/* Takes what lies in a mailbox and leaves something else there. */
static void exchange(unsigned int box, size_t len)
{
	struct parcel *mine = malloc(sizeof(*mine)), *old;

	mine->id = atomic_fetch_add_explicit(&next_id, 1, memory_order_relaxed);
	mine->len = len;
	mine->p = checked(fl_pager_mmap(pager, NULL, len, RW,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
			  "mmap");
	if (!mine->p) {
		free(mine);
		return;
	}
	bad(zero_wrong(mine->p, len));
	words_fill(mine->p, mine->id, 0, len);
	old = atomic_exchange_explicit(&mail[box], mine, memory_order_acq_rel);
	if (!old)
		return;
	bad(words_wrong(old->p, old->id, 0, old->len));
	unmap(old->p, old->len);
	free(old);
}

static void job(unsigned int n)
{
	unsigned char *f[3] = { NULL };

	for (unsigned int i = 0; i < 3; i++) {
		unsigned int k = (n + i * 3) % NR_SIZES;

		f[i] = checked(fl_pager_mmap(pager, NULL, sizes[k], PROT_READ,
					     MAP_PRIVATE, fds[k], 0),
			       "mmap of a file");
		if (f[i])
			bad(words_wrong(f[i], k, 0, sizes[k]));
	}
	exchange(n % MAIL, sizes[n % NR_SIZES]);
	for (unsigned int i = 0; i < 3; i++) {
		unsigned int k = (n + i * 3) % NR_SIZES;

		if (!f[i])
			continue;
		bad(words_wrong(f[i], k, 0, sizes[k]));
		unmap(f[i], sizes[k]);
	}
	atomic_fetch_add_explicit(&jobs, 1, memory_order_relaxed);
}

static void *worker(void *arg)
{
	double end = now_s() + (double)life_ms / 1000;
	unsigned int n = (unsigned int)(uintptr_t)arg;

	while (now_s() < end &&
	       !atomic_load_explicit(&stop, memory_order_relaxed))
		job(n++);
	return NULL;
}

static uint64_t counter(const char *name)
{
	uint64_t v = 0;
	int ret = fl_stat_read(pager, name, &v);

	if (ret)
		fail(name, ret);
	return v;
}

static int make_files(void)
{
	const char *dir = getenv("TMPDIR");
	char *buf = malloc(300000);

	for (unsigned int i = 0; i < NR_SIZES; i++) {
		char name[300];
		int fd;

		snprintf(name, sizeof(name), "%s/fl-churn-XXXXXX",
			 dir ? dir : "/tmp");
		fd = mkstemp(name);
		words_fill(buf, i, 0, sizes[i]);
		if (fd < 0 || write(fd, buf, sizes[i]) != (ssize_t)sizes[i])
			return -1;
		fds[i] = open(name, O_RDONLY | O_CLOEXEC);
		close(fd);
		unlink(name);
		if (fds[i] < 0)
			return -1;
	}
	free(buf);
	return 0;
}

static void empty_mail(void)
{
	for (unsigned int i = 0; i < MAIL; i++) {
		struct parcel *old = atomic_exchange_explicit(
			&mail[i], NULL, memory_order_acq_rel);

		if (!old)
			continue;
		bad(words_wrong(old->p, old->id, 0, old->len));
		unmap(old->p, old->len);
		free(old);
	}
}

struct sample {
	uint64_t carves, resident;
};

static struct sample sample(const char *when, unsigned long threads)
{
	struct sample s = { counter("carves"), counter("resident_bytes") };

	printf("%s: %lu threads so far, %llu jobs, %llu carves, %llu KiB resident\n",
	       when, threads, (unsigned long long)jobs,
	       (unsigned long long)s.carves,
	       (unsigned long long)(s.resident >> 10));
	fflush(stdout);
	return s;
}

/* Waits for the thread, or says that it hangs. */
static void join(pthread_t t)
{
	struct timespec ts;
	int ret;

	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_sec += 30 + life_ms / 1000;
	ret = pthread_timedjoin_np(t, NULL, &ts);
	if (ret) {
		fprintf(stderr, "a worker hangs: %s\n", strerror(ret));
		abort();
	}
}

static void pool(long threads, long secs)
{
	pthread_t *t = calloc((size_t)threads, sizeof(*t));
	double begin = now_s(), warm = (double)secs * 0.4;
	double next = begin + 60;
	unsigned long made = 0;
	struct sample first = { 0, 0 }, last;
	int warmed = 0;

	for (long i = 0; i < threads; i++)
		if (pthread_create(&t[i], NULL, worker, (void *)made++))
			abort();
	for (long i = 0; now_s() < begin + (double)secs; i++) {
		join(t[i % threads]);
		if (pthread_create(&t[i % threads], NULL, worker,
				   (void *)made++))
			abort();
		if (!warmed && now_s() > begin + (warm < 30 ? warm : 30)) {
			first = sample("warm", made);
			warmed = 1;
		} else if (now_s() > next) {
			sample("going on", made);
			next += 60;
		}
	}
	atomic_store_explicit(&stop, 1, memory_order_relaxed);
	for (long i = 0; i < threads; i++)
		join(t[i]);
	last = sample("end", made);
	/* Room for a coincidence of peaks, not for a loss with each thread. */
	if (last.carves > first.carves + first.carves / 20 + 16)
		fail("carves grew", 0);
	if (last.resident > first.resident + first.resident / 10 + (1 << 20))
		fail("resident_bytes grew", 0);
	if (!warmed || first.carves == 0)
		fail("nothing was carved: nothing was tested", 0);
	free(t);
}

int main(int argc, char **argv)
{
	int ret;

	life_ms = arg_num(argc, argv, "life", 100);
	ret = fl_pager_open(&pager, arg_text(argc, argv, "options"));
	if (ret || make_files()) {
		fprintf(stderr, "set-up: %s\n", strerror(ret ? -ret : errno));
		return 1;
	}
	pool(arg_num(argc, argv, "threads", 8), arg_num(argc, argv, "secs", 5));
	empty_mail();
	if (counter("live_regions"))
		fail("regions left", 0);
	ret = fl_pager_close(pager);
	if (ret)
		fail("fl_pager_close", ret);
	printf("%llu wrong words, %llu failures\n", (unsigned long long)wrong,
	       (unsigned long long)failed);
	return wrong || failed;
}
