/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * stress_demand - demand regions under everything at once.
 *
 * A few regions, each several times what memory may hold, are read by many
 * threads that check every word they see (it tells its file and offset). Each
 * region is divided into chunks with a lock each, so that parts of it are
 * unmapped, demoted and put to another use while the rest is being read:
 * whoever unmaps a chunk at once puts memory of its own there, which must stay
 * as it is. Regions as a whole are unmapped and mapped anew; files are cut and
 * grow back; reads fail, come short, are interrupted and delayed; threads
 * prefetch, advise, and fork, and the child checks what its thread could see.
 *
 * Four kinds of region: a file that stays as it is; one that is cut now and
 * then, where zeros and SIGBUS are right answers, too; a store of the program's
 * own, of which certain pages cannot be read; and a file that is written to
 * through the region, by which no write may be lost.
 *
 * One wrong byte, a signal that is not due, a call that fails, a budget
 * overdrawn by more than a page and a granule for each thread, or 10 s in which
 * a thread gets nowhere is a failure.
 *
 * --threads N (64) --secs N (5) --seed N --fork N (one in N steps; 0: none)
 * --fault signal|service (both, one after the other) --options TEXT (more)
 * --inject 0|1 (1) --cut 0|1 (1)
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "faultline.h"
#include "support/failing.h"
#include "support/stress.h"
#include "support/versions.h"

#define PAGE ((size_t)4096)
#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define NR_SLOTS 8
#define NR_CHUNKS 8
#define MAX_CHUNK 120 /* pages */
#define NR_FILES 6
#define NR_CUT 2 /* the last ones are cut */
#define GRANULE ((size_t)128 << 10)
#define HANG_S (UNDER_TSAN ? 30 : 10)
#define MAX_THREADS 256

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

enum kind {
	STABLE,
	CUT,
	STORE,
	WRITE, /* each slot has a file of its own */
	NR_KINDS
};

/* What stands in the place of a chunk. */
enum chunk_is {
	GONE,
	REGION,
	SQUATTER
};

struct chunk {
	pthread_rwlock_t lock;
	enum chunk_is is;
	uint64_t id; /* SQUATTER */
};

/* Changed with all chunks locked. */
struct slot {
	struct fl_pager *pager;
	unsigned char *p;
	size_t pages;
	enum kind kind;
	unsigned int file;
	size_t off;       /* bytes */
	uint64_t failing; /* rounds of failing reads when it was mapped */
	struct chunk chunk[NR_CHUNKS];
};

struct worker {
	pthread_t thread;
	unsigned int no;
	struct rng rng;
	_Atomic uint64_t steps;
	int child, memfd;
	uint64_t maps, cuts, squats, forks, demotions, signals, prefetches;
	uint64_t writes;
};

static struct slot slots[NR_SLOTS];
static struct fl_pager *pagers[2];
static const char *mode;
static int file_fd[NR_FILES], cut_fd[NR_FILES];
static size_t file_len[NR_FILES];
static int write_fd[NR_SLOTS];
static struct version version[NR_SLOTS][FILE_PAGES];
static long nr_threads;
static atomic_int stop;
static _Atomic uint64_t wrong, failed, next_id = 1000;
/* Odd while reads are made to fail. */
static _Atomic uint64_t failing;
static long fork_every;

static __thread sigjmp_buf on_bus_env;
static __thread volatile sig_atomic_t on_bus_armed;

#define COUNT_UP(v) atomic_fetch_add_explicit(&(v), 1, memory_order_relaxed)
#define GET(v) atomic_load_explicit(&(v), memory_order_relaxed)

static void fail(const char *what, long err)
{
	if (COUNT_UP(failed) < 10)
		fprintf(stderr, "%s: %s\n", what, strerror((int)-err));
}

static void on_bus(int sig, siginfo_t *info, void *context)
{
	char text[80];
	int n;

	(void)sig;
	(void)context;
	if (on_bus_armed) {
		on_bus_armed = 0;
		siglongjmp(on_bus_env, 1);
	}
	n = snprintf(text, sizeof(text), "SIGBUS at %p, code %d\n",
		     info->si_addr, info->si_code);
	if (n > 0 && write(2, text, (size_t)n) < 0)
		_exit(3);
	abort();
}

/* ---------------------------------------------------------------------------
 * Looking at pages
 */

/* May the page be refused? */
static bool may_fail(const struct slot *s, size_t page)
{
	if (s->kind == STORE)
		return BAD_PAGE(s->off / PAGE + page);
	return s->kind == CUT || GET(failing) != s->failing || s->failing & 1;
}

/* Of the file of a slot's writable region. */
static uint64_t write_id(const struct slot *s)
{
	return (uint64_t)(s - slots) + 100;
}

static size_t page_wrong(const struct slot *s, size_t page)
{
	const unsigned char *at = s->p + page * PAGE;
	size_t off = s->off + page * PAGE, have = PAGE, bad = 0;
	uint64_t id = s->kind == STORE ? STORE_ID : s->file;
	size_t end = s->kind == STORE ? FILE_PAGES * PAGE : file_len[s->file];

	if (s->kind == WRITE)
		return version_wrong((const void *)at, write_id(s), off,
				     &version[s - slots][off / PAGE]);
	if (off >= end)
		have = 0;
	else if (end - off < PAGE)
		have = end - off;
	if (s->kind != CUT)
		return words_wrong(at, id, off, have) +
		       zero_wrong(at + have, PAGE - have);
	/* Each byte is as it was or zero. */
	for (size_t i = 0; i < PAGE; i += 8) {
		uint64_t want = word_of(id, (off + i) / 8), is;
		const unsigned char *a = (void *)&is, *b = (void *)&want;

		memcpy(&is, at + i, 8);
		for (size_t k = 0; is != want && k < 8; k++)
			bad += a[k] && (a[k] != b[k] || i + k >= have);
	}
	return bad;
}

/* Reads a page of a chunk that is held. */
static void look(struct worker *w, const struct slot *s, size_t page,
		 const char *when)
{
	size_t bad;

	if (sigsetjmp(on_bus_env, 1)) {
		w->signals++;
		if (!may_fail(s, page)) {
			fprintf(stderr,
				"%s: SIGBUS at page %zu, kind %d, error %d\n",
				when, page, (int)s->kind,
				fl_region_error(s->pager, s->p + page * PAGE));
			COUNT_UP(failed);
		}
		return;
	}
	on_bus_armed = 1;
	bad = page_wrong(s, page);
	on_bus_armed = 0;
	if (!bad)
		return;
	if (atomic_fetch_add_explicit(&wrong, bad, memory_order_relaxed) < 10)
		fprintf(stderr,
			"%s: page %zu of %zu holds %zu wrong words; kind %d file %u + %zu, first is %#llx\n",
			when, page, s->pages, bad, (int)s->kind, s->file,
			s->off,
			*(unsigned long long *)(void *)(s->p + page * PAGE));
}

static size_t chunk_pages(const struct slot *s)
{
	return s->pages / NR_CHUNKS;
}

static unsigned char *chunk_addr(const struct slot *s, unsigned int c)
{
	return s->p + c * chunk_pages(s) * PAGE;
}

static size_t chunk_len(const struct slot *s)
{
	return chunk_pages(s) * PAGE;
}

/* ---------------------------------------------------------------------------
 * Steps with a chunk that is held for reading
 */

static void read_random(struct worker *w, struct slot *s, unsigned int c)
{
	size_t n = chunk_pages(s), first = c * n;

	for (unsigned int i = 1 + rng_below(&w->rng, 8); i > 0; i--)
		look(w, s, first + rng_below(&w->rng, (unsigned int)n),
		     "random");
}

static void read_run(struct worker *w, struct slot *s, unsigned int c)
{
	size_t n = chunk_pages(s), first = c * n;
	size_t from = rng_below(&w->rng, (unsigned int)n);
	size_t len = 1 + rng_below(&w->rng, 48);

	for (size_t i = from; i < n && i < from + len; i++)
		look(w, s, first + i, "sequential");
}

/* The pages of a range of a chunk; any of them may fail? */
static bool some_range(struct worker *w, struct slot *s, unsigned int c,
		       unsigned char **at, size_t *len)
{
	size_t n = chunk_pages(s);
	size_t from = rng_below(&w->rng, (unsigned int)n);
	size_t most = n - from < 64 ? n - from : 64;
	size_t pages = 1 + rng_below(&w->rng, (unsigned int)most);
	bool any = false;

	*at = chunk_addr(s, c) + from * PAGE;
	*len = pages * PAGE;
	for (size_t i = 0; i < pages; i++)
		any |= may_fail(s, c * n + from + i);
	return any;
}

static void prefetch(struct worker *w, struct slot *s, unsigned int c)
{
	unsigned char *at;
	size_t len;
	bool any = some_range(w, s, c, &at, &len);
	int ret = fl_prefetch(s->pager, at, len);

	if (ret && !any && !(s->kind != STORE && may_fail(s, 0)))
		fail("prefetch", ret);
	w->prefetches++;
}

/* A page that is the thread's to write to. */
static void write_some(struct worker *w, struct slot *s, unsigned int c)
{
	size_t n = chunk_pages(s), base = s->off / PAGE + c * n;
	size_t skip = (w->no + (size_t)nr_threads - base % (size_t)nr_threads) %
		      (size_t)nr_threads;
	size_t page = c * n + skip;

	if (skip >= n)
		return;
	if (sigsetjmp(on_bus_env, 1)) {
		w->signals++;
		if (!may_fail(s, page)) {
			fprintf(stderr, "SIGBUS at a write to page %zu\n",
				page);
			COUNT_UP(failed);
		}
		return;
	}
	on_bus_armed = 1;
	version_write((void *)(s->p + page * PAGE), write_id(s),
		      (base + skip) * PAGE, &version[s - slots][base + skip]);
	on_bus_armed = 0;
	w->writes++;
}

static void sync_some(struct worker *w, struct slot *s, unsigned int c)
{
	unsigned char *at;
	size_t len;
	int ret;

	some_range(w, s, c, &at, &len);
	ret = fl_pager_msync(s->pager, at, len,
			     rng_below(&w->rng, 20) ? MS_ASYNC : MS_SYNC);
	if (ret)
		fail("msync", ret);
}

static void advise(struct worker *w, struct slot *s, unsigned int c)
{
	static const int advice[] = { MADV_NORMAL,     MADV_RANDOM,
				      MADV_SEQUENTIAL, MADV_WILLNEED,
				      MADV_DONTNEED,   MADV_POPULATE_READ };
	unsigned int k = rng_below(&w->rng, 6);
	unsigned char *at, vec[64];
	size_t len;
	bool any = some_range(w, s, c, &at, &len);
	int ret = fl_pager_madvise(s->pager, at, len, advice[k]);

	/* What has been demoted is the kernel's, which may refuse. */
	if (ret && !any && !may_fail(s, 0))
		fail("madvise", ret);
	ret = fl_pager_mincore(s->pager, at, len, vec);
	if (ret)
		fail("mincore", ret);
}

/* A system call reads the pages. */
static void give_kernel(struct worker *w, struct slot *s, unsigned int c)
{
	unsigned char *at;
	size_t len;
	bool any = some_range(w, s, c, &at, &len);
	ssize_t ret;

	if (s->kind == CUT || any || (UNDER_TSAN && s->kind == WRITE))
		return;
	if (fl_prefetch(s->pager, at, len))
		return;
	ret = pwrite(w->memfd, at, len, 0);
	/* In signal mode what was evicted since is not fetched. */
	if (ret != (ssize_t)len &&
	    (strcmp(mode, "service") == 0 && !may_fail(s, 0)))
		fail("pwrite", ret < 0 ? -errno : -EIO);
}

/* Becomes a mapping of the kernel's while others read it. */
static void demote_shared(struct worker *w, struct slot *s, unsigned int c)
{
	unsigned char *at;
	size_t len;
	int ret;

	some_range(w, s, c, &at, &len);
	ret = fl_pager_mprotect(s->pager, at, len, RW);
	if (s->kind == STORE) {
		if (ret != -ENOMEM)
			fail("mprotect of a store", ret ? ret : -EEXIST);
		return;
	}
	if (ret)
		fail("mprotect", ret);
	w->demotions++;
	read_run(w, s, c);
}

static int child(struct worker *w, struct slot *s, unsigned int c)
{
	struct slot mine = { .pager = s->pager, .pages = 200 };

	atomic_store_explicit(&failed, 0, memory_order_relaxed);
	atomic_store_explicit(&wrong, 0, memory_order_relaxed);
	alarm(60);
	if (s->kind == STABLE || s->kind == CUT)
		for (size_t i = 0; i < chunk_pages(s); i += 7)
			look(w, s, c * chunk_pages(s) + i, "in a child");
	mine.file = rng_below(&w->rng, NR_FILES - NR_CUT);
	mine.failing = GET(failing);
	mine.p = fl_region_map_file(mine.pager, file_fd[mine.file], 0,
				    mine.pages * PAGE, PROT_READ, 0);
	if (FL_IS_ERR(mine.p)) {
		fail("map in a child", FL_PTR_ERR(mine.p));
	} else {
		for (size_t i = 0; i < mine.pages; i += 3)
			look(w, &mine, i, "a child's own");
		if (fl_pager_munmap(mine.pager, mine.p, mine.pages * PAGE))
			fail("munmap in a child", -EIO);
	}
	return GET(failed) || GET(wrong);
}

static void fork_one(struct worker *w, struct slot *s, unsigned int c)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(child(w, s, c));
	if (pid < 0)
		fail("fork", -errno);
	else
		w->child = pid;
	read_random(w, s, c);
}

/* With nothing held: a child may take its time, up to its alarm. */
static void wait_child(struct worker *w)
{
	pid_t ret;
	int st = 0;

	while ((ret = waitpid(w->child, &st, WNOHANG)) == 0) {
		nap_ms(5);
		COUNT_UP(w->steps);
	}
	if (ret != w->child || !WIFEXITED(st) || WEXITSTATUS(st)) {
		fprintf(stderr, "child: status %#x\n", (unsigned int)st);
		COUNT_UP(failed);
	}
	w->child = 0;
	w->forks++;
}

static void step_shared(struct worker *w, struct slot *s, unsigned int c)
{
	unsigned int k = rng_below(&w->rng, 1000);

	if (fork_every && rng_below(&w->rng, (unsigned int)fork_every) == 0)
		fork_one(w, s, c);
	else if (s->kind == WRITE && k % 3 == 0)
		write_some(w, s, c);
	else if (s->kind == WRITE && k % 41 == 0)
		sync_some(w, s, c);
	else if (k < 600)
		read_random(w, s, c);
	else if (k < 850)
		read_run(w, s, c);
	else if (k < 900)
		prefetch(w, s, c);
	else if (k < 950)
		advise(w, s, c);
	else if (k < 995)
		give_kernel(w, s, c);
	else
		demote_shared(w, s, c);
}

/* ---------------------------------------------------------------------------
 * Steps with a chunk that is held for writing
 */

static void leave(struct slot *s, struct chunk *k, unsigned int c)
{
	unsigned char *at = chunk_addr(s, c);
	size_t len = chunk_len(s), bad;
	int ret = 0;

	if (k->is == REGION)
		ret = fl_pager_munmap(s->pager, at, len);
	if (k->is == SQUATTER) {
		bad = words_wrong(at, k->id, 0, len);
		if (bad) {
			fprintf(stderr, "%zu wrong words where a region was\n",
				bad);
			atomic_fetch_add_explicit(&wrong, bad,
						  memory_order_relaxed);
		}
		ret = munmap(at, len) ? -errno : 0;
	}
	if (ret)
		fail("munmap of a chunk", ret);
	k->is = GONE;
}

/* Somebody else's memory where the chunk was. */
static void squat(struct worker *w, struct slot *s, struct chunk *k,
		  unsigned int c)
{
	unsigned char *at = chunk_addr(s, c);
	void *p = mmap(at, chunk_len(s), RW, ANON | MAP_FIXED_NOREPLACE, -1, 0);

	if (p == MAP_FAILED)
		return; /* another thread's mapping has come here */
	if (p != at) {
		munmap(p, chunk_len(s));
		return;
	}
	k->id = COUNT_UP(next_id);
	k->is = SQUATTER;
	words_fill(at, k->id, 0, chunk_len(s));
	w->squats++;
}

/* A region of the thread's own, for a moment; of @pages, or of any size. */
static void own(struct worker *w, size_t pages)
{
	struct slot s = { .pager = pagers[rng_below(&w->rng, 2)] };
	size_t len;
	int ret;

	s.failing = GET(failing);
	s.file = rng_below(&w->rng, NR_FILES - NR_CUT);
	s.off = rng_below(&w->rng, FILE_PAGES - MAX_CHUNK) * PAGE;
	len = 1 + rng_below(&w->rng, 40 * (unsigned int)PAGE);
	if (pages) {
		len = pages * PAGE;
	} else if (rng_below(&w->rng, 2)) { /* to the end */
		s.off = file_len[s.file] / PAGE * PAGE - 8 * PAGE;
		len = file_len[s.file] - s.off;
	}
	s.pages = (len + PAGE - 1) / PAGE;
	s.p = fl_region_map_file(s.pager, file_fd[s.file], (off_t)s.off, len,
				 PROT_READ, 0);
	if (FL_IS_ERR(s.p)) {
		fail("map of an own region", FL_PTR_ERR(s.p));
		return;
	}
	for (size_t i = 0; i < s.pages; i++)
		look(w, &s, rng_below(&w->rng, 2) ? i : s.pages - 1 - i, "own");
	ret = fl_pager_munmap(s.pager, s.p, len);
	if (ret)
		fail("munmap of an own region", ret);
	w->maps++;
}

static void step_alone(struct worker *w, struct slot *s, struct chunk *k,
		       unsigned int c)
{
	if (k->is == REGION && s->kind != STORE && rng_below(&w->rng, 4) == 0) {
		int ret = fl_pager_mprotect(s->pager, chunk_addr(s, c),
					    chunk_len(s), PROT_NONE);

		if (!ret)
			ret = fl_pager_mprotect(
				s->pager, chunk_addr(s, c), chunk_len(s),
				s->kind == WRITE ? RW : PROT_READ);
		if (ret)
			fail("mprotect of a chunk", ret);
		w->demotions++;
		return;
	}
	w->cuts += k->is == REGION;
	leave(s, k, c);
	if (rng_below(&w->rng, 2))
		squat(w, s, k, c);
	else /* the kernel likes to put it there */
		own(w, chunk_pages(s));
}

/* ---------------------------------------------------------------------------
 * Regions as a whole
 */

static void slot_map(struct worker *w, struct slot *s)
{
	unsigned int flags = rng_below(&w->rng, 4);

	s->pager = pagers[rng_below(&w->rng, 2)];
	s->kind = (enum kind)rng_below(&w->rng, NR_KINDS);
	s->file = s->kind == CUT ? NR_FILES - 1 - rng_below(&w->rng, NR_CUT) :
				   rng_below(&w->rng, NR_FILES - NR_CUT);
	s->off = rng_below(&w->rng, FILE_PAGES / 2) * PAGE;
	s->pages = NR_CHUNKS * (rng_below(&w->rng, 2) ?
					32 :
					8 + rng_below(&w->rng, MAX_CHUNK - 8));
	if (flags == 3)
		flags = 0;
	s->failing = GET(failing);
	if (s->kind == STORE)
		s->p = fl_region_map(s->pager, &store_ops, NULL, s->off,
				     s->pages * PAGE, PROT_READ, flags);
	else if (s->kind == WRITE)
		s->p = fl_region_map_file(s->pager, write_fd[s - slots],
					  (off_t)s->off, s->pages * PAGE, RW,
					  flags);
	else
		s->p = fl_region_map_file(s->pager, file_fd[s->file],
					  (off_t)s->off, s->pages * PAGE,
					  PROT_READ, flags);
	if (FL_IS_ERR(s->p))
		fail("map", FL_PTR_ERR(s->p));
	for (unsigned int c = 0; c < NR_CHUNKS; c++)
		s->chunk[c].is = FL_IS_ERR(s->p) ? GONE : REGION;
	w->maps++;
}

static void slot_unmap(struct slot *s)
{
	bool whole = true;

	for (unsigned int c = 0; c < NR_CHUNKS; c++) {
		whole &= s->chunk[c].is == REGION;
		if (s->chunk[c].is == SQUATTER)
			leave(s, &s->chunk[c], c);
	}
	if (whole) {
		int ret = fl_pager_munmap(s->pager, s->p, s->pages * PAGE);

		if (ret)
			fail("munmap", ret);
	}
	for (unsigned int c = 0; c < NR_CHUNKS; c++) {
		if (!whole)
			leave(s, &s->chunk[c], c);
		s->chunk[c].is = GONE;
	}
}

static void slot_renew(struct worker *w, struct slot *s)
{
	for (unsigned int c = 0; c < NR_CHUNKS; c++)
		pthread_rwlock_wrlock(&s->chunk[c].lock);
	slot_unmap(s);
	slot_map(w, s);
	for (unsigned int c = 0; c < NR_CHUNKS; c++)
		pthread_rwlock_unlock(&s->chunk[c].lock);
}

static void step(struct worker *w)
{
	struct slot *s = &slots[rng_below(&w->rng, NR_SLOTS)];
	unsigned int c = rng_below(&w->rng, NR_CHUNKS);
	struct chunk *k = &s->chunk[c];
	unsigned int what = rng_below(&w->rng, 1000);

	if (what < 3) {
		slot_renew(w, s);
		return;
	}
	if (what < 30) {
		own(w, rng_below(&w->rng, 2) ? 32 : 0);
		return;
	}
	if (what < 45) {
		pthread_rwlock_wrlock(&k->lock);
		step_alone(w, s, k, c);
		pthread_rwlock_unlock(&k->lock);
		return;
	}
	pthread_rwlock_rdlock(&k->lock);
	if (k->is == REGION)
		step_shared(w, s, c);
	pthread_rwlock_unlock(&k->lock);
	if (w->child)
		wait_child(w);
}

static void *work(void *arg)
{
	struct worker *w = arg;

	while (!GET(stop)) {
		step(w);
		COUNT_UP(w->steps);
	}
	return NULL;
}

/* ---------------------------------------------------------------------------
 * Files that are cut, reads that fail
 */

static void put(unsigned int f, size_t from, size_t to)
{
	static char buf[64 << 10];

	while (from < to) {
		size_t n = to - from < sizeof(buf) ? to - from : sizeof(buf);

		words_fill(buf, f, from, n);
		if (pwrite(cut_fd[f], buf, n, (off_t)from) != (ssize_t)n)
			fail("write to a file", -errno);
		from += n;
	}
}

static void *cutter(void *arg)
{
	struct rng rng = { .s = (uint64_t)(uintptr_t)arg };

	while (!GET(stop)) {
		unsigned int f = NR_FILES - 1 - rng_below(&rng, NR_CUT);
		size_t to = rng_below(&rng, FILE_PAGES) * PAGE;

		if (rng_below(&rng, 2))
			to += rng_below(&rng, PAGE / 8) * 8;
		if (ftruncate(cut_fd[f], (off_t)to))
			fail("ftruncate", -errno);
		nap_ms(rng_below(&rng, 10));
		put(f, to, file_len[f]);
		nap_ms(rng_below(&rng, 30));
	}
	return NULL;
}

static void *injector(void *arg)
{
	struct rng rng = { .s = (uint64_t)(uintptr_t)arg };

	while (!GET(stop))
		inject_some(&rng, &failing);
	return NULL;
}

static int make_files(void)
{
	const char *dir = getenv("TMPDIR");

	for (unsigned int i = 0; i < NR_FILES; i++) {
		char name[300];

		file_len[i] = FILE_PAGES * PAGE;
		if (i < NR_FILES - NR_CUT)
			file_len[i] += i * 1234 + i % 2;
		snprintf(name, sizeof(name), "%s/fl-stress-XXXXXX",
			 dir ? dir : "/tmp");
		cut_fd[i] = mkstemp(name);
		if (cut_fd[i] < 0)
			return -1;
		put(i, 0, file_len[i]);
		fsync(cut_fd[i]);
		file_fd[i] = open(name, O_RDONLY | O_CLOEXEC);
		unlink(name);
		if (file_fd[i] < 0)
			return -1;
	}
	return 0;
}

static int make_written(void)
{
	_Atomic uint64_t *buf = aligned_alloc(PAGE, PAGE);

	for (unsigned int i = 0; i < NR_SLOTS; i++) {
		FILE *f = tmpfile();

		write_fd[i] = f ? fcntl(fileno(f), F_DUPFD_CLOEXEC, 0) : -1;
		if (write_fd[i] < 0)
			return -1;
		fclose(f);
		for (size_t at = 0; at < FILE_PAGES * PAGE; at += PAGE) {
			version_put(buf, write_id(&slots[i]), at, 0);
			if (pwrite(write_fd[i], (void *)buf, PAGE, (off_t)at) !=
			    (ssize_t)PAGE)
				return -1;
		}
	}
	free((void *)buf);
	return 0;
}

/* What was written is in the files, whatever is still mapped or was. */
static void check_written(void)
{
	_Atomic uint64_t *buf = aligned_alloc(PAGE, PAGE);

	for (unsigned int i = 0; i < NR_SLOTS; i++)
		for (size_t n = 0; n < FILE_PAGES; n++) {
			size_t bad = 512;

			if (pread(write_fd[i], (void *)buf, PAGE,
				  (off_t)(n * PAGE)) == (ssize_t)PAGE)
				bad = version_wrong(buf, write_id(&slots[i]),
						    n * PAGE, &version[i][n]);
			if (!bad)
				continue;
			fprintf(stderr,
				"file of slot %u, page %zu: %zu wrong words\n",
				i, n, bad);
			COUNT_UP(wrong);
		}
	free((void *)buf);
}

/* ---------------------------------------------------------------------------
 * A run
 */

/* Pages beyond the budget, at worst. */
static void check_budget(uint64_t most[2], long threads)
{
	for (int i = 0; i < 2; i++) {
		char text[32];
		uint64_t held = 0, mem;
		int ret = fl_stat_read(pagers[i], "demand_bytes", &held);

		ret |= fl_conf_get(pagers[i], "mem", text, sizeof(text)) < 0;
		mem = strtoull(text, NULL, 10) << 20;
		if (ret || (int64_t)held < 0)
			fail("demand_bytes", -EIO);
		if (held > most[i])
			most[i] = held;
		if (held > mem + (uint64_t)(threads + 4) * GRANULE) {
			fprintf(stderr, "%llu bytes where %llu are allowed\n",
				(unsigned long long)held,
				(unsigned long long)mem);
			COUNT_UP(failed);
		}
	}
}

static void watch(struct worker *w, long threads, double secs, uint64_t most[2])
{
	static uint64_t seen[MAX_THREADS];
	static double when[MAX_THREADS];
	double end = now_s() + secs;

	for (long i = 0; i < threads; i++)
		when[i] = now_s();
	while (now_s() < end && !GET(wrong) && GET(failed) < 100) {
		nap_ms(10);
		check_budget(most, threads);
		for (long i = 0; i < threads; i++) {
			uint64_t s = GET(w[i].steps);

			if (s != seen[i]) {
				seen[i] = s;
				when[i] = now_s();
			} else if (now_s() - when[i] > HANG_S) {
				fprintf(stderr,
					"thread %ld stuck after %llu steps\n",
					i, (unsigned long long)s);
				where();
				abort();
			}
		}
	}
	atomic_store_explicit(&stop, 1, memory_order_relaxed);
}

static int open_pagers(const char *more)
{
	static const char *const mem[2] = { "2M", "8M" };

	for (int i = 0; i < 2; i++) {
		char text[300];
		int ret;

		snprintf(text, sizeof(text), "mem=%s,fault=%s,granule=%zu%s%s",
			 mem[i], mode, GRANULE, more ? "," : "",
			 more ? more : "");
		ret = fl_pager_open(&pagers[i], text);
		if (ret) {
			fprintf(stderr, "%s: %s\n", text, strerror(-ret));
			return -1;
		}
	}
	return 0;
}

static void report(const struct worker *w, long threads, const uint64_t most[2])
{
	struct worker all = { 0 };
	uint64_t steps = 0;
	const char *name;

	for (long i = 0; i < threads; i++) {
		steps += w[i].steps;
		all.maps += w[i].maps;
		all.cuts += w[i].cuts;
		all.squats += w[i].squats;
		all.forks += w[i].forks;
		all.demotions += w[i].demotions;
		all.signals += w[i].signals;
		all.prefetches += w[i].prefetches;
		all.writes += w[i].writes;
	}
	printf("%s: %ld threads: %llu steps, %llu maps, %llu partial unmaps, %llu squatters, %llu demotions, %llu prefetches, %llu writes, %llu forks, %llu SIGBUS; at most %llu and %llu bytes held; %llu wrong words, %llu failures\n",
	       mode, threads, (unsigned long long)steps,
	       (unsigned long long)all.maps, (unsigned long long)all.cuts,
	       (unsigned long long)all.squats,
	       (unsigned long long)all.demotions,
	       (unsigned long long)all.prefetches,
	       (unsigned long long)all.writes, (unsigned long long)all.forks,
	       (unsigned long long)all.signals, (unsigned long long)most[0],
	       (unsigned long long)most[1], (unsigned long long)GET(wrong),
	       (unsigned long long)GET(failed));
	for (unsigned int i = 0; (name = fl_stat_name(i)) != NULL; i++) {
		uint64_t a = 0, b = 0;

		if (strncmp(name, "demand_", 7))
			continue;
		fl_stat_read(pagers[0], name, &a);
		fl_stat_read(pagers[1], name, &b);
		printf("  %s %llu %llu\n", name, (unsigned long long)a,
		       (unsigned long long)b);
	}
}

static void start(pthread_t *t, void *(*run)(void *), void *arg)
{
	if (pthread_create(t, NULL, run, arg)) {
		perror("pthread_create");
		exit(1);
	}
}

static int run(int argc, char **argv, double secs)
{
	static struct worker w[MAX_THREADS];
	long threads = arg_num(argc, argv, "threads", 64);
	long seed = arg_num(argc, argv, "seed", 1);
	long cut = arg_num(argc, argv, "cut", 1);
	long inject = arg_num(argc, argv, "inject", 1);
	uint64_t most[2] = { 0, 0 };
	pthread_t c, j;

	memset(w, 0, sizeof(w));
	atomic_store_explicit(&stop, 0, memory_order_relaxed);
	if (threads > MAX_THREADS ||
	    open_pagers(arg_text(argc, argv, "options")))
		return 1;
	nr_threads = threads;
	w[0].rng.s = (uint64_t)seed;
	for (unsigned int i = 0; i < NR_SLOTS; i++)
		slot_map(&w[0], &slots[i]);
	for (long i = 0; i < threads; i++) {
		w[i].no = (unsigned int)i;
		w[i].rng.s = (uint64_t)seed * 1000003 + (uint64_t)i;
		w[i].memfd = memfd_create("stress", MFD_CLOEXEC);
		start(&w[i].thread, work, &w[i]);
	}
	if (cut)
		start(&c, cutter, (void *)seed);
	if (inject)
		start(&j, injector, (void *)seed);
	watch(w, threads, secs, most);
	alarm(3 * HANG_S);
	for (long i = 0; i < threads; i++) {
		pthread_join(w[i].thread, NULL);
		close(w[i].memfd);
	}
	if (cut)
		pthread_join(c, NULL);
	if (inject)
		pthread_join(j, NULL);
	report(w, threads, most);
	for (unsigned int i = 0; i < NR_SLOTS; i++)
		slot_unmap(&slots[i]);
	check_written();
	for (int i = 0; i < 2; i++) {
		int ret = fl_pager_close(pagers[i]);

		if (ret)
			fail("fl_pager_close", ret);
	}
	alarm(0);
	return GET(wrong) || GET(failed);
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_sigaction = on_bus,
				.sa_flags = SA_SIGINFO };
	long secs = arg_num(argc, argv, "secs", 5);
	pthread_rwlockattr_t attr;

	mode = arg_text(argc, argv, "fault");
	fork_every = UNDER_TSAN ? 0 : arg_num(argc, argv, "fork", 20000);
	sigaction(SIGBUS, &sa, NULL);
	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(
		&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	for (unsigned int i = 0; i < NR_SLOTS; i++)
		for (unsigned int c = 0; c < NR_CHUNKS; c++)
			pthread_rwlock_init(&slots[i].chunk[c].lock, &attr);
	if (make_files() || make_written()) {
		perror("set-up");
		return 1;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (mode)
		return run(argc, argv, (double)secs);
	mode = "signal";
	if (run(argc, argv, (double)secs / 2))
		return 1;
	mode = "service";
	return run(argc, argv, (double)secs / 2);
}
