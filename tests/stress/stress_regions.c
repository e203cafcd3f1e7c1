/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * stress_regions - regions of all kinds under everything at once.
 *
 * Worker threads each own a set of regions: file bytes (every 8-byte word
 * tells its file and offset), private writable file bytes, anonymous memory.
 * They map, check every word, unmap parts, check the rest, overwrite, drop,
 * change protection (which turns regions into kernel mappings), place
 * mappings over parts, and fork: the child checks what its thread had, while
 * the parent goes on at once. The main thread is the watchdog.
 *
 * One wrong byte, one failed call or 30 s without progress is a failure.
 *
 * --threads N (8) --secs N (5) --seed N --fork N (one in N steps; 0: none)
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
#define SLOTS 24
#define MAX_PAGES 400
#define NR_FILES 24
#define RW (PROT_READ | PROT_WRITE)

/* What a page of a region holds. */
enum page_is {
	GONE,
	FILE_BYTES,
	WORDS,
	ZERO
};

enum kind {
	FILE_RO,
	FILE_RW,
	ANON,
	NR_KINDS
};

struct region {
	unsigned char *p;
	size_t len; /* bytes asked for */
	size_t pages;
	enum kind kind;
	unsigned int file;
	size_t off;
	uint64_t id; /* of WORDS pages */
	unsigned char is[MAX_PAGES];
};

struct worker {
	pthread_t thread;
	unsigned int no;
	struct rng rng;
	struct region *slot[SLOTS];
	_Atomic uint64_t steps;
	uint64_t maps, forks, parts, demotions;
};

static struct fl_pager *pager;
static int file_fd[NR_FILES];
static size_t file_len[NR_FILES];
static atomic_int stop;
static _Atomic uint64_t wrong, failed, next_id = 1000;
static long fork_every;

static void fail(const char *what, long err, const struct region *r)
{
	if (atomic_fetch_add_explicit(&failed, 1, memory_order_relaxed) < 10)
		fprintf(stderr, "%s: %s (kind %d, %zu bytes, file %u + %zu)\n",
			what, strerror((int)-err), r ? (int)r->kind : -1,
			r ? r->len : 0, r ? r->file : 0, r ? r->off : 0);
}

static size_t page_wrong(const struct region *r, size_t i)
{
	const unsigned char *at = r->p + i * PAGE;
	size_t off = i * PAGE, end, have;

	switch ((enum page_is)r->is[i]) {
	case WORDS:
		return words_wrong(at, r->id, off, PAGE);
	case ZERO:
		return zero_wrong(at, PAGE);
	case FILE_BYTES:
		end = file_len[r->file];
		off += r->off;
		have = off >= end ? 0 : end - off < PAGE ? end - off : PAGE;
		return words_wrong(at, r->file, off, have) +
		       zero_wrong(at + have, PAGE - have);
	default:
		return 0;
	}
}

static size_t check(const struct region *r, const char *when)
{
	size_t bad = 0;

	for (size_t i = 0; i < r->pages; i++) {
		size_t n = page_wrong(r, i);

		if (n && !bad)
			fprintf(stderr,
				"%s: page %zu of %zu holds %zu wrong words; kind %d state %d file %u + %zu\n",
				when, i, r->pages, n, (int)r->kind, r->is[i],
				r->file, r->off);
		bad += n;
	}
	if (bad)
		atomic_fetch_add_explicit(&wrong, bad, memory_order_relaxed);
	return bad;
}

/* A run of pages that exist, of random place and length; 0 when none. */
static size_t run_of(struct worker *w, const struct region *r, size_t *first)
{
	size_t from = rng_below(&w->rng, (unsigned int)r->pages), n = 0;
	size_t most = 1 + rng_below(&w->rng, (unsigned int)r->pages);

	while (from < r->pages && r->is[from] == GONE)
		from++;
	while (from + n < r->pages && n < most && r->is[from + n] != GONE)
		n++;
	*first = from;
	return n;
}

static void set_pages(struct region *r, size_t first, size_t n, enum page_is is)
{
	memset(r->is + first, (int)is, n);
}

static struct region *map(struct worker *w)
{
	struct region *r = calloc(1, sizeof(*r));
	size_t whole;

	r->kind = (enum kind)rng_below(&w->rng, NR_KINDS);
	r->id = atomic_fetch_add_explicit(&next_id, 1, memory_order_relaxed);
	r->file = rng_below(&w->rng, NR_FILES);
	whole = (file_len[r->file] + PAGE - 1) / PAGE;
	if (r->kind == ANON) {
		unsigned int n = rng_below(&w->rng, 8) ? 40 : MAX_PAGES;

		r->len = 1 + rng_below(&w->rng, (unsigned int)(n * PAGE));
		r->p = fl_pager_mmap(pager, NULL, r->len, RW,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	} else {
		if (rng_below(&w->rng, 4) == 0)
			r->off = rng_below(&w->rng, (unsigned int)whole) * PAGE;
		r->len = file_len[r->file] - r->off;
		if (rng_below(&w->rng, 4) == 0)
			r->len = 1 + rng_below(&w->rng, (unsigned int)r->len);
		if (r->kind == FILE_RO && rng_below(&w->rng, 2))
			r->p = fl_pager_map_file(pager, file_fd[r->file],
						 (off_t)r->off, r->len);
		else
			r->p = fl_pager_mmap(
				pager, NULL, r->len,
				r->kind == FILE_RW ? RW : PROT_READ,
				MAP_PRIVATE, file_fd[r->file], (off_t)r->off);
	}
	if (FL_IS_ERR(r->p)) {
		fail("map", FL_PTR_ERR(r->p), r);
		free(r);
		return NULL;
	}
	r->pages = (r->len + PAGE - 1) / PAGE;
	set_pages(r, 0, r->pages, r->kind == ANON ? ZERO : FILE_BYTES);
	w->maps++;
	check(r, "just mapped");
	return r;
}

/* Page runs only: a hole of a kernel mapping may be somebody else's by now. */
static void unmap(struct region *r)
{
	size_t i = 0;

	while (i < r->pages) {
		size_t n = 0;
		int ret;

		while (i + n < r->pages && r->is[i + n] != GONE)
			n++;
		ret = n ? fl_pager_munmap(pager, r->p + i * PAGE, n * PAGE) : 0;
		if (ret)
			fail("munmap", ret, r);
		i += n + 1;
	}
	free(r);
}

static void cut(struct worker *w, struct region *r)
{
	size_t first, n = run_of(w, r, &first);
	int ret;

	if (!n)
		return;
	ret = fl_pager_munmap(pager, r->p + first * PAGE, n * PAGE);
	if (ret)
		fail("munmap of a part", ret, r);
	set_pages(r, first, n, GONE);
	w->parts++;
	check(r, "after a cut");
}

static void overwrite(struct worker *w, struct region *r)
{
	size_t first, n = run_of(w, r, &first);

	if (r->kind == FILE_RO)
		return;
	for (size_t i = first; i < first + n; i++) {
		if (r->is[i] == GONE)
			continue;
		words_fill(r->p + i * PAGE, r->id, i * PAGE, PAGE);
		r->is[i] = WORDS;
	}
}

/* Back to file bytes, or to zeroes. */
static void drop(struct worker *w, struct region *r)
{
	size_t first, n = run_of(w, r, &first);
	int ret;

	if (!n)
		return;
	ret = fl_pager_madvise(pager, r->p + first * PAGE, n * PAGE,
			       MADV_DONTNEED);
	if (ret)
		fail("madvise", ret, r);
	for (size_t i = first; i < first + n; i++)
		r->is[i] = r->kind == ANON || r->is[i] == ZERO ? ZERO :
								 FILE_BYTES;
	check(r, "after a drop");
}

static void protect(struct worker *w, struct region *r)
{
	size_t first, n = run_of(w, r, &first);
	int back = r->kind == FILE_RO ? PROT_READ : RW, ret;

	if (!n)
		return;
	ret = fl_pager_mprotect(pager, r->p + first * PAGE, n * PAGE,
				PROT_NONE);
	if (!ret)
		ret = fl_pager_mprotect(pager, r->p + first * PAGE, n * PAGE,
					back);
	if (ret)
		fail("mprotect", ret, r);
	w->demotions++;
	check(r, "after mprotect");
}

/*
 * Zeroes placed over a part. Only in anonymous regions: drop() could not tell
 * which pages of a file region go back to file bytes.
 */
static void place(struct worker *w, struct region *r)
{
	size_t first, n = run_of(w, r, &first);
	void *p;

	if (!n || r->kind != ANON)
		return;
	p = fl_pager_mmap(pager, r->p + first * PAGE, n * PAGE, RW,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (p != r->p + first * PAGE) {
		fail("MAP_FIXED", FL_IS_ERR(p) ? FL_PTR_ERR(p) : -EIO, r);
		return;
	}
	set_pages(r, first, n, ZERO);
	check(r, "after MAP_FIXED");
}

static void advise(struct worker *w, struct region *r)
{
	static const int advice[] = { MADV_SEQUENTIAL, MADV_RANDOM, MADV_NORMAL,
				      MADV_WILLNEED };
	unsigned char vec[MAX_PAGES];
	size_t first, n = run_of(w, r, &first);
	int ret;

	if (!n)
		return;
	ret = fl_pager_madvise(pager, r->p + first * PAGE, n * PAGE,
			       advice[rng_below(&w->rng, 4)]);
	if (!ret)
		ret = fl_pager_mincore(pager, r->p + first * PAGE, n * PAGE,
				       vec);
	if (ret)
		fail("madvise or mincore", ret, r);
}

static int child(struct worker *w)
{
	size_t bad = 0;

	atomic_store_explicit(&failed, 0, memory_order_relaxed);
	atomic_store_explicit(&wrong, 0, memory_order_relaxed);
	alarm(25);
	for (unsigned int i = 0; i < SLOTS; i++)
		if (w->slot[i])
			bad += check(w->slot[i], "in a child");
	for (unsigned int i = 0; i < 8; i++) {
		struct region *r = map(w);

		if (r && rng_below(&w->rng, 2))
			cut(w, r);
		if (r)
			unmap(r);
	}
	for (unsigned int i = 0; i < SLOTS; i += 2)
		if (w->slot[i])
			unmap(w->slot[i]);
	for (unsigned int i = 1; i < SLOTS; i += 2)
		if (w->slot[i])
			bad += check(w->slot[i], "in a child, later");
	return bad || atomic_load_explicit(&failed, memory_order_relaxed) ||
	       atomic_load_explicit(&wrong, memory_order_relaxed);
}

static void fork_one(struct worker *w)
{
	pid_t pid = fork();
	int st;

	if (pid == 0)
		_exit(child(w));
	if (pid < 0) {
		fail("fork", -errno, NULL);
		return;
	}
	/* At once: what the child still has must not change under it. */
	for (unsigned int i = 0; i < SLOTS; i++)
		if (w->slot[i]) {
			overwrite(w, w->slot[i]);
			unmap(w->slot[i]);
			w->slot[i] = map(w);
		}
	while (waitpid(pid, &st, 0) < 0)
		if (errno != EINTR)
			return;
	if (!WIFEXITED(st) || WEXITSTATUS(st)) {
		fprintf(stderr, "child: status %#x\n", (unsigned int)st);
		atomic_fetch_add_explicit(&failed, 1, memory_order_relaxed);
	}
	w->forks++;
}

static void step(struct worker *w)
{
	unsigned int k = rng_below(&w->rng, SLOTS);
	struct region *r = w->slot[k];

	if (fork_every && rng_below(&w->rng, (unsigned int)fork_every) == 0) {
		fork_one(w);
		return;
	}
	if (!r) {
		w->slot[k] = map(w);
		return;
	}
	switch (rng_below(&w->rng, 40)) {
	case 0:
	case 1:
	case 2:
	case 3:
		cut(w, r);
		break;
	case 4:
	case 5:
	case 6:
	case 7:
		overwrite(w, r);
		break;
	case 8:
		drop(w, r);
		break;
	case 9:
		protect(w, r);
		break;
	case 10:
	case 11:
		place(w, r);
		break;
	case 12:
		advise(w, r);
		break;
	default:
		check(r, "before munmap");
		unmap(r);
		w->slot[k] = NULL;
	}
}

static void *work(void *arg)
{
	struct worker *w = arg;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		step(w);
		atomic_fetch_add_explicit(&w->steps, 1, memory_order_relaxed);
	}
	for (unsigned int i = 0; i < SLOTS; i++)
		if (w->slot[i]) {
			check(w->slot[i], "at the end");
			unmap(w->slot[i]);
		}
	return NULL;
}

static int make_files(void)
{
	static const size_t len[] = { 1,      100,    4095,   4096,
				      4097,   9000,   20000,  65535,
				      65536,  65537,  100000, 262143,
				      262144, 262145, 700000, 1500000 };
	char *buf = malloc(2000000);

	for (unsigned int i = 0; i < NR_FILES; i++) {
		const char *dir = getenv("TMPDIR");
		char name[300];
		int fd;

		file_len[i] = len[i % (sizeof(len) / sizeof(len[0]))];
		snprintf(name, sizeof(name), "%s/fl-stress-XXXXXX",
			 dir ? dir : "/tmp");
		fd = mkstemp(name);
		words_fill(buf, i, 0, file_len[i]);
		if (fd < 0 ||
		    write(fd, buf, file_len[i]) != (ssize_t)file_len[i])
			return -1;
		file_fd[i] = open(name, O_RDONLY | O_CLOEXEC);
		close(fd);
		unlink(name);
		if (file_fd[i] < 0)
			return -1;
	}
	free(buf);
	return 0;
}

static void watch(struct worker *w, long threads, long secs)
{
	uint64_t *seen = calloc((size_t)threads, sizeof(*seen));
	double *when = calloc((size_t)threads, sizeof(*when));
	double end = now_s() + (double)secs;

	for (long i = 0; i < threads; i++)
		when[i] = now_s();
	while (now_s() < end &&
	       !atomic_load_explicit(&wrong, memory_order_relaxed)) {
		nap_ms(100);
		for (long i = 0; i < threads; i++) {
			uint64_t s = atomic_load_explicit(&w[i].steps,
							  memory_order_relaxed);

			if (s != seen[i]) {
				seen[i] = s;
				when[i] = now_s();
			} else if (now_s() - when[i] > 30) {
				fprintf(stderr,
					"thread %ld stuck after %llu steps\n",
					i, (unsigned long long)s);
				abort();
			}
		}
	}
	atomic_store_explicit(&stop, 1, memory_order_relaxed);
	free(seen);
	free(when);
}

/* Nothing may be left when all is unmapped. */
static void finish(void)
{
	uint64_t live = 0;
	int ret = fl_stat_read(pager, "live_regions", &live);

	if (ret || live) {
		fprintf(stderr, "live_regions: %d, %llu\n", ret,
			(unsigned long long)live);
		atomic_fetch_add_explicit(&failed, 1, memory_order_relaxed);
	}
	ret = fl_pager_close(pager);
	if (ret)
		fail("fl_pager_close", ret, NULL);
}

int main(int argc, char **argv)
{
	long threads = arg_num(argc, argv, "threads", 8);
	long secs = arg_num(argc, argv, "secs", 5);
	long seed = arg_num(argc, argv, "seed", 1);
	uint64_t maps = 0, forks = 0, parts = 0, demotions = 0, steps = 0;
	struct worker *w = calloc((size_t)threads, sizeof(*w));
	int ret;

	fork_every = UNDER_TSAN ? 0 : arg_num(argc, argv, "fork", 2000);
	ret = fl_pager_open(&pager, arg_text(argc, argv, "options"));
	if (ret || make_files()) {
		fprintf(stderr, "set-up: %s\n", strerror(ret ? -ret : errno));
		return 1;
	}
	for (long i = 0; i < threads; i++) {
		w[i].no = (unsigned int)i;
		w[i].rng.s = (uint64_t)seed * 1000003 + (uint64_t)i;
		if (pthread_create(&w[i].thread, NULL, work, &w[i]))
			return 1;
	}
	watch(w, threads, secs);
	for (long i = 0; i < threads; i++) {
		pthread_join(w[i].thread, NULL);
		steps += w[i].steps;
		maps += w[i].maps;
		forks += w[i].forks;
		parts += w[i].parts;
		demotions += w[i].demotions;
	}
	finish();
	printf("%ld threads, %ld s, seed %ld: %llu steps, %llu maps, %llu partial unmaps, %llu demotions, %llu forks; %llu wrong words, %llu failures\n",
	       threads, secs, seed, (unsigned long long)steps,
	       (unsigned long long)maps, (unsigned long long)parts,
	       (unsigned long long)demotions, (unsigned long long)forks,
	       (unsigned long long)wrong, (unsigned long long)failed);
	free(w);
	return wrong || failed;
}
