/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Writable demand regions: what is written reaches the file, whatever becomes of
 * the region, and is not lost where it cannot be written.
 */
#include <sys/wait.h>

#include "support/region.h"
#include "support/versions.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

#define SIZE (8 * MIB)
#define N (SIZE / PAGE)

static unsigned char *writable(struct fl_pager *p, int fd, size_t off,
			       size_t len)
{
	unsigned char *r = fl_region_map_file(p, fd, (off_t)off, len, RW, 0);

	cr_assert_not(FL_IS_ERR(r), "%d", FL_PTR_ERR(r));
	return r;
}

/* Wrong words of the file itself. */
static size_t file_bad(int fd, uint64_t id, size_t off, size_t len)
{
	static char buf[1 << 16];
	size_t bad = 0;

	for (size_t at = off; at < off + len; at += sizeof(buf)) {
		size_t n = off + len - at < sizeof(buf) ? off + len - at :
							  sizeof(buf);

		if (pread(fd, buf, n, (off_t)at) != (ssize_t)n)
			return SIZE_MAX;
		bad += words_wrong(buf, id, at, n);
	}
	return bad;
}

BOTH(demand_write, more_than_memory)
{
	struct fl_pager *p = pager_of(fault, "mem=1M");
	int fd = words_file(SIZE, 1);
	unsigned char *r = writable(p, fd, 0, SIZE);

	for (size_t i = 0; i < N; i++)
		words_fill(r + i * PAGE, 2, i * PAGE, PAGE);
	cr_expect_leq(count(p, "demand_bytes"), MIB + 4 * PAGE);
	cr_expect_eq(range_bad(r, SIZE, 2, 0, SIZE), 0);
	cr_assert_eq(fl_pager_msync(p, r, SIZE, MS_SYNC), 0);
	cr_expect_eq(file_bad(fd, 2, 0, SIZE), 0);
	/* Half of it again, in no order. */
	for (size_t i = 0; i < N; i++)
		if (i * 77 % N < N / 2)
			words_fill(r + i * 77 % N * PAGE, 3, i * 77 % N * PAGE,
				   PAGE);
	cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	cr_expect_eq(file_bad(fd, 3, 0, SIZE / 2), 0);
	cr_expect_eq(file_bad(fd, 2, SIZE / 2, SIZE / 2), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

/* A page is written only where it was written to. */
BOTH(demand_write, only_dirty_pages)
{
	struct fl_pager *p = pager_of(fault, "mem=16M");
	int fd = words_file(SIZE, 1);
	unsigned char *r = writable(p, fd, 0, SIZE);
	volatile unsigned char *v = r;

	cr_expect_eq(range_bad(r, SIZE, 1, 0, SIZE), 0);
	v[5 * PAGE + 3] ^= 1;
	v[6 * PAGE] ^= 1;
	v[6 * PAGE] ^= 1;
	cr_assert_eq(fl_pager_msync(p, r, SIZE, MS_ASYNC), 0);
	cr_expect_eq(count(p, "demand_written_bytes"), 2 * PAGE);
	cr_assert_eq(fl_pager_msync(p, r, SIZE, MS_SYNC), 0);
	cr_expect_eq(count(p, "demand_written_bytes"), 2 * PAGE);
	v[5 * PAGE + 3] ^= 1;
	cr_assert_eq(fl_pager_msync(p, r, PAGE, MS_SYNC), 0);
	cr_expect_eq(count(p, "demand_written_bytes"), 2 * PAGE,
		     "another page's sync");
	cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	cr_expect_eq(count(p, "demand_written_bytes"), 3 * PAGE);
	cr_expect_eq(file_bad(fd, 1, 0, SIZE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

struct writer {
	pthread_t thread;
	unsigned char *r;
	unsigned int no, threads;
	size_t bad;
	struct rng rng;
	struct version *version;
	struct fl_pager *p;
};

static atomic_int stop;

/* Reads all, writes its own. */
static void *write_on(void *arg)
{
	struct writer *w = arg;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		size_t i = rng_below(&w->rng, N);
		unsigned char *at = w->r + i * PAGE;

		if (i % w->threads == w->no && rng_below(&w->rng, 4))
			version_write((void *)at, 9, i * PAGE, &w->version[i]);
		else
			w->bad += version_wrong((void *)at, 9, i * PAGE,
						&w->version[i]);
		if (rng_below(&w->rng, 200) == 0)
			w->bad += fl_pager_msync(w->p, at, PAGE, MS_ASYNC) != 0;
		if (rng_below(&w->rng, 200) == 0)
			/* The kernel does not drop what is locked. */
			fl_pager_madvise(w->p, at, PAGE, MADV_DONTNEED);
	}
	return NULL;
}

static void threads_write(const char *fault, bool change)
{
	static struct version version[N];
	struct fl_pager *p = pager_of(fault, "mem=1M");
	int fd = words_file(SIZE, 1);
	unsigned char *r = writable(p, fd, 0, SIZE);
	struct rng rng = { .s = 3 };
	struct writer w[8];
	_Atomic uint64_t page[512];
	size_t bad = 0;

	memset(version, 0, sizeof(version));
	for (size_t i = 0; i < N; i++)
		version_put((void *)(r + i * PAGE), 9, i * PAGE, 0);
	atomic_store(&stop, 0);
	for (unsigned int i = 0; i < 8; i++) {
		w[i] = (struct writer){ .r = r,
					.no = i,
					.threads = 8,
					.rng = { .s = i },
					.version = version,
					.p = p };
		cr_assert_eq(
			pthread_create(&w[i].thread, NULL, write_on, &w[i]), 0);
	}
	for (int i = 0; i < 100; i++) {
		size_t at = rng_below(&rng, N - 8);

		nap_ms(10);
		/* Pieces become the kernel's meanwhile. */
		if (change)
			cr_assert_eq(fl_pager_mlock(p, r + at * PAGE,
						    (1 + at % 8) * PAGE, 0),
				     0);
	}
	atomic_store(&stop, 1);
	for (unsigned int i = 0; i < 8; i++) {
		pthread_join(w[i].thread, NULL);
		cr_expect_eq(w[i].bad, 0, "%zu", w[i].bad);
	}
	cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	for (size_t i = 0; i < N; i++) {
		cr_assert_eq(pread(fd, (void *)page, PAGE, (off_t)(i * PAGE)),
			     (ssize_t)PAGE);
		bad += version_wrong(page, 9, i * PAGE, &version[i]);
	}
	cr_expect_eq(bad, 0, "in the file: %zu", bad);
	cr_expect_eq(fl_pager_close(p), 0);
}

BOTH(demand_write, threads)
{
	threads_write(fault, false);
}

BOTH(demand_write, threads_and_changes)
{
	threads_write(fault, true);
}

/* The file does not grow; what is written behind its end is nowhere. */
BOTH(demand_write, ragged_end)
{
	struct fl_pager *p = pager_of(fault, NULL);
	size_t len = 3 * PAGE + 100;
	int fd = words_file(len, 1);
	unsigned char *r = writable(p, fd, 0, len);
	struct stat st;

	for (size_t i = 0; i < 4; i++)
		words_fill(r + i * PAGE, 2, i * PAGE, PAGE);
	cr_assert_eq(fl_pager_msync(p, r, len, MS_SYNC), 0);
	cr_assert_eq(fstat(fd, &st), 0);
	cr_expect_eq(st.st_size, (off_t)len);
	cr_expect_eq(file_bad(fd, 2, 0, len), 0);
	cr_assert_eq(fl_pager_munmap(p, r, len), 0);
	cr_assert_eq(fstat(fd, &st), 0);
	cr_expect_eq(st.st_size, (off_t)len);
	cr_expect_eq(fl_pager_close(p), 0);
}

BOTH(demand_write, parts_go)
{
	struct fl_pager *p = pager_of(fault, "mem=2M");
	int fd = words_file(SIZE, 1);
	unsigned char *r = writable(p, fd, 0, SIZE);

	for (size_t i = 0; i < 300; i++)
		words_fill(r + i * PAGE, 2, i * PAGE, PAGE);
	cr_assert_eq(fl_pager_munmap(p, r + 10 * PAGE, 20 * PAGE), 0);
	cr_expect_eq(file_bad(fd, 2, 10 * PAGE, 20 * PAGE), 0);
	/* What is mapped over goes, too, and is written. */
	cr_assert_eq(fl_pager_mmap(p, r + 100 * PAGE, 10 * PAGE, RW,
				   ANON | MAP_FIXED, -1, 0),
		     r + 100 * PAGE);
	cr_expect_eq(zero_wrong(r + 100 * PAGE, 10 * PAGE), 0);
	memset(r + 100 * PAGE, 1, 10 * PAGE);
	/* A protected part shows what was written. */
	cr_assert_eq(fl_pager_mprotect(p, r + 200 * PAGE, 5 * PAGE, PROT_READ),
		     0);
	for (size_t i = 0; i < 300; i++)
		if ((i < 10 || i >= 30) && (i < 100 || i >= 110))
			cr_assert_eq(page_bad(r, i, 2, 0, SIZE), 0, "%zu", i);
	cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	cr_expect_eq(file_bad(fd, 2, 0, 300 * PAGE), 0);
	cr_expect_eq(file_bad(fd, 1, 300 * PAGE, SIZE - 300 * PAGE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

BOTH(demand_write, rights)
{
	struct fl_pager *p = pager_of(fault, NULL);
	int fd = words_file(SIZE, 1), ro;
	char path[64];
	unsigned char *r;
	int st;
	pid_t pid;

	catch_faults();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ro = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert_geq(ro, 0);
	cr_expect_eq(FL_PTR_ERR(fl_region_map_file(p, ro, 0, PAGE, RW, 0)),
		     -EACCES);
	/* A region that is only read cannot be written to. */
	r = mapped(p, fd, 0, SIZE);
	touch_is.sig = 0;
	if (sigsetjmp(touch_env, 1) == 0)
		*(volatile unsigned char *)r = 1;
	cr_expect_eq(touch_is.sig, SIGSEGV);
	cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	r = writable(p, fd, 0, SIZE);
	r[0] = 1;
	pid = fork();
	if (pid == 0)
		_exit(touch(r).sig == SIGSEGV ? 0 : 1);
	cr_assert_eq(waitpid(pid, &st, 0), pid);
	cr_expect_eq(st, 0, "a child does not have it: %#x", (unsigned int)st);
	cr_expect_eq(r[0], 1);
	cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

/* ---------------------------------------------------------------------------
 * A store that takes what is written, or does not
 */

struct taker {
	struct words_store words;
	unsigned char *bytes;
	size_t size;
	atomic_int err; /* of writes, > 0 */
	atomic_int flushes;
};

static ssize_t taker_read(void *store, void *buf, size_t len, uint64_t off)
{
	struct taker *t = store;

	if (off >= t->size)
		return 0;
	if (len > t->size - off)
		len = t->size - off;
	memcpy(buf, t->bytes + off, len);
	return (ssize_t)len;
}

static ssize_t taker_write(void *store, const void *buf, size_t len,
			   uint64_t off)
{
	struct taker *t = store;
	int err = atomic_load(&t->err);

	if (err || off + len > t->size)
		return err ? -err : -EINVAL;
	memcpy(t->bytes + off, buf, len);
	return (ssize_t)len;
}

static int taker_flush(void *store)
{
	struct taker *t = store;

	atomic_fetch_add(&t->flushes, 1);
	return -atomic_load(&t->err);
}

static const struct fl_store_ops taker_ops = {
	.size = sizeof(taker_ops),
	.read = taker_read,
	.write = taker_write,
	.flush = taker_flush,
};

BOTH(demand_write, store)
{
	struct fl_pager *p = pager_of(fault, "mem=1M");
	struct taker t = { .size = 4 * MIB };
	unsigned char *r;

	t.bytes = calloc(1, t.size);
	r = fl_region_map(p, &taker_ops, &t, 0, t.size, RW, 0);
	cr_assert_not(FL_IS_ERR(r));
	for (size_t i = 0; i < t.size / PAGE; i++)
		words_fill(r + i * PAGE, 4, i * PAGE, PAGE);
	cr_assert_eq(fl_pager_msync(p, r, t.size, MS_SYNC), 0);
	cr_expect_eq(t.flushes, 1);
	cr_expect_eq(words_wrong(t.bytes, 4, 0, t.size), 0);
	cr_assert_eq(fl_pager_munmap(p, r, t.size), 0);
	cr_expect_eq(fl_pager_close(p), 0);
	free(t.bytes);
}

/* Nothing is lost; all of it is told. */
BOTH(demand_write, store_fails)
{
	struct fl_pager *p = pager_of(fault, "mem=1M");
	struct taker t = { .size = 4 * MIB };
	unsigned char *r;

	t.bytes = calloc(1, t.size);
	r = fl_region_map(p, &taker_ops, &t, 0, t.size, RW, 0);
	cr_assert_not(FL_IS_ERR(r));
	atomic_store(&t.err, ENOSPC);
	/* More than memory holds, so evictions fail, too. */
	for (size_t i = 0; i < 300; i++)
		words_fill(r + i * PAGE, 4, i * PAGE, PAGE);
	for (size_t i = 0; i < 300; i++)
		cr_assert_eq(page_bad(r, i, 4, 0, t.size), 0, "%zu", i);
	cr_expect_eq(fl_pager_msync(p, r, t.size, MS_SYNC), -ENOSPC);
	cr_expect_eq(fl_pager_munmap(p, r, t.size), -ENOSPC);
	cr_expect_eq(fl_pager_munmap(p, r + 5 * PAGE, PAGE), -ENOSPC);
	cr_expect_eq(fl_find(p, r + 5 * PAGE), 3);
	cr_expect_eq(fl_pager_close(p), -EBUSY);
	/* A part that nothing was written to goes. */
	cr_expect_eq(fl_pager_munmap(p, r + 500 * PAGE, 100 * PAGE), 0);
	for (size_t i = 0; i < 300; i++)
		cr_assert_eq(page_bad(r, i, 4, 0, t.size), 0, "%zu", i);
	atomic_store(&t.err, 0);
	cr_assert_eq(fl_pager_munmap(p, r, t.size), 0);
	cr_expect_eq(words_wrong(t.bytes, 4, 0, 300 * PAGE), 0);
	cr_expect_eq(zero_wrong(t.bytes + 300 * PAGE, t.size - 300 * PAGE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
	free(t.bytes);
}
