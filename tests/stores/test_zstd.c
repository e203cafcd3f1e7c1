/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The zstd store: right bytes, or an error; whatever is in the file. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zstd.h>

#include "faultline-zstd.h"
#include "seekable.h"

#define PAGE ((size_t)4096)
#define FRAME (16 * PAGE)
#define SIZE (40 * FRAME + 777)

/* Counts what is allocated. */
static _Atomic(long) allocations;
#ifndef FL_SANITIZED
void *__libc_malloc(size_t n);

void *malloc(size_t n)
{
	atomic_fetch_add(&allocations, 1);
	return __libc_malloc(n);
}
#endif

static unsigned char *plain;
static unsigned char *got;

/* Compressible, and different everywhere. */
static void setup(void)
{
	plain = malloc(SIZE);
	got = mmap(NULL, SIZE + PAGE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(got, MAP_FAILED);
	for (size_t i = 0; i < SIZE; i++)
		plain[i] = (unsigned char)((i % 7 == 0) ?
						   (i * 2654435761u) >> 20 :
						   i >> 9);
}

static void teardown(void)
{
	free(plain);
}

TestSuite(zstd, .init = setup, .fini = teardown);

static int memfd(const void *data, size_t len)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	cr_assert_geq(fd, 0);
	cr_assert_eq(pwrite(fd, data, len, 0), (ssize_t)len);
	return fd;
}

/* The packed form of the first @len bytes. */
static int packed_fd(size_t len, size_t frame)
{
	int in = memfd(plain, len), out = memfd("", 0);

	cr_assert_eq(pack(in, out, frame, 1), 0);
	close(in);
	return out;
}

static unsigned char *slurp(int fd, size_t *len)
{
	off_t end = lseek(fd, 0, SEEK_END);
	unsigned char *p = malloc((size_t)end + 1);

	cr_assert_eq(pread(fd, p, (size_t)end, 0), (ssize_t)end);
	*len = (size_t)end;
	return p;
}

static struct fl_zstd *open_ok(int fd)
{
	struct fl_zstd *z;
	int ret = fl_zstd_open(&z, fd);

	cr_assert_eq(ret, 0, "open: %d", ret);
	return z;
}

static void read_ok(struct fl_zstd *z, size_t len, size_t off, size_t size)
{
	size_t want = off >= size ? 0 : len < size - off ? len : size - off;

	got[len] = 0xa5;
	errno = 42;
	cr_assert_eq(fl_zstd_ops.read(z, got, len, off), (ssize_t)want,
		     "%zu at %zu of %zu", len, off, size);
	cr_assert_eq(errno, 42);
	cr_assert_eq(memcmp(got, plain + off, want), 0, "%zu at %zu", len, off);
	cr_assert_eq(got[len], 0xa5);
}

Test(zstd, xxh64)
{
	unsigned char b[200];
	static const size_t lens[] = { 0, 1, 3, 4, 7, 8, 31, 32, 33, 63, 200 };
	ZSTD_CCtx *c = ZSTD_createCCtx();
	unsigned char out[400];

	cr_assert_eq(xxh64("", 0), UINT64_C(0xef46db3751d8e999));
	cr_assert_eq(xxh64("abc", 3), UINT64_C(0x44bc2cf5ad770999));
	/* zstd ends a frame with the low half of it. */
	ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
	for (size_t i = 0; i < sizeof(b); i++)
		b[i] = (unsigned char)(i * 151);
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		size_t n = ZSTD_compress2(c, out, sizeof(out), b, lens[i]);

		cr_assert_not(ZSTD_isError(n));
		cr_assert_eq(get32(out + n - 4), (uint32_t)xxh64(b, lens[i]),
			     "%zu bytes", lens[i]);
	}
	ZSTD_freeCCtx(c);
}

Test(zstd, round_trips)
{
	static const size_t sizes[] = { 0,         1,     4095,      4096,
					FRAME - 1, FRAME, FRAME + 1, SIZE };
	static const size_t frames[] = { 4096, FRAME, 1 << 20 };

	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
		for (size_t f = 0; f < 3; f++) {
			size_t size = sizes[s], len;
			int fd = packed_fd(size, frames[f]);
			struct fl_zstd *z = open_ok(fd);
			unsigned char *raw = slurp(fd, &len);

			/* Any decompressor reads it. */
			cr_assert_eq(ZSTD_decompress(got, SIZE, raw, len),
				     size);
			cr_assert_eq(memcmp(got, plain, size), 0);
			free(raw);
			close(fd); /* the store has its own */
			cr_assert_eq(fl_zstd_size(z), size);
			cr_assert_eq(fl_zstd_ops.length(z), (int64_t)size);
			read_ok(z, SIZE, 0, size);
			for (size_t off = 0; off <= size; off += 13 * PAGE) {
				read_ok(z, PAGE, off, size);
				read_ok(z, 3 * FRAME, off, size);
			}
			if (size)
				read_ok(z, 100, size - 1, size);
			cr_assert_eq(fl_zstd_ops.read(z, got, PAGE, UINT64_MAX),
				     0);
			fl_zstd_close(z);
		}
}

Test(zstd, reading_allocates_nothing)
{
	int fd = packed_fd(SIZE, FRAME);
	struct fl_zstd *z = open_ok(fd);
	long before = atomic_load(&allocations);

#ifndef FL_SANITIZED
	cr_assert_gt(before, 0);
#endif
	for (size_t off = 0; off < SIZE; off += FRAME / 2)
		read_ok(z, FRAME, off, SIZE);
	cr_assert_eq(atomic_load(&allocations), before);
	fl_zstd_close(z);
}

/* Tables, made by hand. */

struct entry {
	uint32_t packed, plain, checksum;
};

/* A file of @frames followed by the table. */
static int with_table(const void *frames, size_t len, const struct entry *e,
		      uint32_t n, uint32_t says_n, uint32_t says_size,
		      unsigned int flags, uint32_t skip_magic, uint32_t magic)
{
	uint32_t size = flags & FLAG_CHECKSUM ? 12 : 8;
	unsigned char t[4096], *p = t;
	int fd = memfd(frames, len);

	put32(p, skip_magic);
	put32(p + 4, says_size ? says_size : n * size + FOOTER_SIZE);
	for (p += 8; n--; p += size, e++) {
		put32(p, e->packed);
		put32(p + 4, e->plain);
		if (size == 12)
			put32(p + 8, e->checksum);
	}
	put32(p, says_n);
	p[4] = (unsigned char)flags;
	put32(p + 5, magic);
	p += 9;
	cr_assert_eq(pwrite(fd, t, (size_t)(p - t), (off_t)len),
		     (ssize_t)(p - t));
	return fd;
}

static int table_of(const void *frames, size_t len, const struct entry *e,
		    uint32_t n, unsigned int flags)
{
	return with_table(frames, len, e, n, n, 0, flags, SKIPPABLE_MAGIC,
			  SEEKABLE_MAGIC);
}

static void refused(int fd, int err)
{
	struct fl_zstd *z = (void *)1;

	cr_assert_eq(fl_zstd_open(&z, fd), err);
	cr_assert_null(z);
	close(fd);
}

/* Frames of @n bytes each of plain text; returns where they end. */
static size_t make_frames(unsigned char *out, size_t room, unsigned int nr,
			  size_t n, struct entry *e)
{
	size_t at = 0;

	for (unsigned int i = 0; i < nr; i++) {
		size_t c =
			ZSTD_compress(out + at, room - at, plain + i * n, n, 1);

		cr_assert_not(ZSTD_isError(c));
		e[i] = (struct entry){ (uint32_t)c, (uint32_t)n,
				       (uint32_t)xxh64(plain + i * n, n) };
		at += c;
	}
	return at;
}

Test(zstd, other_writers)
{
	unsigned char f[3 * PAGE + 500];
	struct entry e[4], with[5];
	size_t len = make_frames(f, sizeof(f), 3, PAGE, e);
	struct fl_zstd *z;

	/* Without checksums, unused bits set. */
	z = open_ok(table_of(f, len, e, 3, 3));
	read_ok(z, 3 * PAGE, 0, 3 * PAGE);
	fl_zstd_close(z);
	/* A skippable frame, an empty frame, and bytes before the table that
	 * no entry tells of. */
	memmove(f + e[0].packed + 20, f + e[0].packed, len - e[0].packed);
	put32(f + e[0].packed, SKIPPABLE_MAGIC + 1);
	put32(f + e[0].packed + 4, 12);
	with[0] = e[0];
	with[1] = (struct entry){ 20, 0, 0 };
	with[2] = e[1];
	with[3] = (struct entry){ 0, 0, 0 };
	with[4] = e[2];
	z = open_ok(table_of(f, len + 24, with, 5, FLAG_CHECKSUM));
	read_ok(z, 3 * PAGE, 0, 3 * PAGE);
	read_ok(z, PAGE, PAGE, 3 * PAGE);
	fl_zstd_close(z);
}

Test(zstd, hostile_tables)
{
	unsigned char f[3 * PAGE + 500];
	struct entry e[4], bad[4];
	size_t len = make_frames(f, sizeof(f), 3, PAGE, e);
	int pipes[2];

	/* The good one. */
	fl_zstd_close(open_ok(table_of(f, len, e, 3, FLAG_CHECKSUM)));
	refused(with_table(f, len, e, 3, 2, 0, 0, SKIPPABLE_MAGIC,
			   SEEKABLE_MAGIC),
		-EINVAL);
	refused(with_table(f, len, e, 3, 4, 0, 0, SKIPPABLE_MAGIC,
			   SEEKABLE_MAGIC),
		-EINVAL);
	refused(with_table(f, len, e, 3, UINT32_MAX, 0, 0, SKIPPABLE_MAGIC,
			   SEEKABLE_MAGIC),
		-EINVAL);
	refused(with_table(f, len, e, 3, FRAMES_MAX, 0, 0, SKIPPABLE_MAGIC,
			   SEEKABLE_MAGIC),
		-EINVAL);
	refused(with_table(f, len, e, 3, 3, 1, 0, SKIPPABLE_MAGIC,
			   SEEKABLE_MAGIC),
		-EINVAL);
	refused(with_table(f, len, e, 3, 3, UINT32_MAX, 0, SKIPPABLE_MAGIC,
			   SEEKABLE_MAGIC),
		-EINVAL);
	refused(with_table(f, len, e, 3, 3, 0, 0, SKIPPABLE_MAGIC + 1,
			   SEEKABLE_MAGIC),
		-EINVAL);
	refused(with_table(f, len, e, 3, 3, 0, 0, SKIPPABLE_MAGIC,
			   SEEKABLE_MAGIC + 1),
		-EINVAL);
	for (unsigned int flag = 4; flag < 0x80; flag <<= 1)
		refused(table_of(f, len, e, 3, flag), -EINVAL);
	/* Entries. */
	for (int i = 0; i < 3; i++) {
		static const struct {
			struct entry e;
			int err;
		} odd[] = {
			{ { UINT32_MAX, PAGE, 0 }, -EINVAL },
			{ { 0, PAGE, 0 }, -EINVAL },
			{ { 100, UINT32_MAX, 0 }, -EFBIG },
			{ { 100, FL_ZSTD_FRAME_MAX + 1, 0 }, -EFBIG },
			{ { 1000, 1, 0 }, -EINVAL },
		};

		for (size_t k = 0; k < sizeof(odd) / sizeof(odd[0]); k++) {
			memcpy(bad, e, sizeof(bad));
			bad[i] = odd[k].e;
			refused(table_of(f, len, bad, 3, 0), odd[k].err);
		}
		memcpy(bad, e, sizeof(bad));
		bad[i].packed += (uint32_t)len;
		refused(table_of(f, len, bad, 3, 0), -EINVAL);
	}
	/* Not even a table. */
	refused(memfd("", 0), -EINVAL);
	refused(memfd(f, 16), -EINVAL);
	refused(memfd(f, 17), -EINVAL);
	refused(memfd(f, len), -EINVAL);
	cr_assert_eq(pipe(pipes), 0);
	refused(pipes[0], -ESPIPE);
	refused(-1, -EBADF);
	refused(open("/tmp", O_RDONLY), -ESPIPE);
	refused(open("/dev/null", O_WRONLY), -ESPIPE);
}

/* What decompresses, but not to what the table says. */
Test(zstd, lying_entries)
{
	unsigned char f[8 * PAGE];
	struct entry e[4], lie[4];
	size_t len = make_frames(f, sizeof(f), 3, PAGE, e);
	struct fl_zstd *z;

	for (int kind = 0; kind < 5; kind++) {
		memcpy(lie, e, sizeof(lie));
		if (kind == 0)
			lie[1].plain--;
		else if (kind == 1)
			lie[1].plain++;
		else if (kind == 2)
			lie[1].checksum++;
		else if (kind == 3) /* two frames in one */
			lie[1].packed += lie[2].packed, lie[2].packed = 0,
							lie[2].plain = 0;
		else
			lie[1].packed--, lie[2].packed++;
		z = open_ok(table_of(f, len, lie, 3, FLAG_CHECKSUM));
		read_ok(z, PAGE, 0, PAGE + 1);
		for (int i = 0; i < 2; i++)
			cr_assert_eq(fl_zstd_ops.read(z, got, 10, PAGE), -EIO,
				     "%d", kind);
		cr_assert_eq(fl_zstd_ops.read(z, got, PAGE, PAGE), -EIO);
		cr_assert_eq(fl_zstd_ops.read(z, got, 2 * PAGE, 0), -EIO);
		read_ok(z, 10, 5, PAGE);
		fl_zstd_close(z);
	}
	/* More than the frame: decompressors take it, and may allocate. */
	put32(f + len, SKIPPABLE_MAGIC);
	put32(f + len + 4, 12);
	memcpy(lie, e, sizeof(lie));
	lie[2].packed += 20;
	z = open_ok(table_of(f, len + 20, lie, 3, FLAG_CHECKSUM));
	cr_assert_eq(fl_zstd_ops.read(z, got, PAGE, 2 * PAGE), -EIO);
	fl_zstd_close(z);
	/* A skippable frame that claims plain bytes. */
	put32(f, SKIPPABLE_MAGIC);
	put32(f + 4, e[0].packed - 8);
	z = open_ok(table_of(f, len, e, 3, 0));
	cr_assert_eq(fl_zstd_ops.read(z, got, PAGE, 0), -EIO);
	fl_zstd_close(z);
}

/* With checksums there are no wrong bytes. Every byte of two frames. */
Test(zstd, flipped_bytes)
{
	unsigned char f[4 * PAGE], keep;
	struct entry e[2];
	size_t len = make_frames(f, sizeof(f), 2, PAGE, e), caught = 0;
	struct fl_zstd *z;
	int fd = table_of(f, len, e, 2, FLAG_CHECKSUM);

	z = open_ok(fd);
	for (size_t i = 0; i < len; i++) {
		ssize_t r;
		size_t bad = i < e[0].packed ? 0 : 1;

		keep = f[i] ^ 0x10;
		cr_assert_eq(pwrite(fd, &keep, 1, (off_t)i), 1);
		/* Whole frames are not kept, so each time it is read. */
		r = fl_zstd_ops.read(z, got, PAGE, bad * PAGE);
		if (r == -EIO)
			caught++;
		else
			cr_assert(r == (ssize_t)PAGE &&
				  !memcmp(got, plain + bad * PAGE, PAGE));
		read_ok(z, PAGE, (1 - bad) * PAGE, 2 * PAGE);
		cr_assert_eq(pwrite(fd, &f[i], 1, (off_t)i), 1);
	}
	cr_assert_gt(caught, len * 9 / 10);
	read_ok(z, 2 * PAGE, 0, 2 * PAGE);
	fl_zstd_close(z);
}

/* Anything may be in the file. */
Test(zstd, mutations)
{
	unsigned int seed = 1, opened = 0;
	int base = packed_fd(5 * PAGE, PAGE);
	size_t len;
	unsigned char *raw = slurp(base, &len), *m = malloc(len + 64);

	for (int round = 0; round < 4000; round++) {
		unsigned int n = 1 + (unsigned int)rand_r(&seed) % 4;
		size_t size = len;
		struct fl_zstd *z;
		int fd;

		memcpy(m, raw, len);
		while (n--) {
			/* The table, which is at the end, twice as often. */
			size_t at = (size_t)rand_r(&seed) %
				    (rand_r(&seed) % 3 ? 77 : len);
			unsigned char *p = m + len - 1 - at;

			switch (rand_r(&seed) % 4) {
			case 0:
				*p ^= (unsigned char)(1 << rand_r(&seed) % 8);
				break;
			case 1:
				*p = (unsigned char)rand_r(&seed);
				break;
			case 2:
				*p = 0xff;
				break;
			default:
				*p = 0;
			}
		}
		if (rand_r(&seed) % 10 == 0)
			size = (size_t)rand_r(&seed) % len;
		fd = memfd(m, size);
		if (fl_zstd_open(&z, fd) == 0) {
			ssize_t r;

			opened++;
			for (size_t off = 0; off < 6 * PAGE; off += 3000)
				r = fl_zstd_ops.read(z, got, PAGE, off);
			r = fl_zstd_ops.read(z, got, SIZE, 0);
			cr_assert(r >= -4095 && r <= (ssize_t)SIZE);
			fl_zstd_close(z);
		}
		close(fd);
	}
	cr_assert_gt(opened, 100);
	cr_assert_lt(opened, 3900);
	free(raw);
	free(m);
}

Test(zstd, shorter_than_at_the_open)
{
	int fd = packed_fd(SIZE, FRAME);
	struct fl_zstd *z = open_ok(fd);

	read_ok(z, PAGE, 0, SIZE);
	cr_assert_eq(ftruncate(fd, 100), 0);
	cr_assert_eq(fl_zstd_ops.read(z, got, PAGE, SIZE - PAGE), -EIO);
	read_ok(z, PAGE, PAGE, SIZE); /* is kept */
	fl_zstd_close(z);
}

/* Threads and forks. */

static _Atomic(bool) stop;
static struct fl_zstd *shared;

static void *reader(void *arg)
{
	unsigned int seed = (unsigned int)(uintptr_t)arg;
	unsigned char *buf = malloc(4 * FRAME);
	unsigned long reads = 0;

	while (!atomic_load(&stop)) {
		size_t off = (size_t)rand_r(&seed) % SIZE;
		size_t len = 1 + (size_t)rand_r(&seed) % (3 * FRAME);
		ssize_t r = fl_zstd_ops.read(shared, buf, len, off);

		if (len > SIZE - off)
			len = SIZE - off;
		if (r != (ssize_t)len || memcmp(buf, plain + off, len) != 0)
			abort();
		reads++;
	}
	free(buf);
	return (void *)reads;
}

#define THREADS 12

Test(zstd, threads_and_forks)
{
	pthread_t t[THREADS];
	int fd = packed_fd(SIZE, FRAME);

	shared = open_ok(fd);
	for (uintptr_t i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&t[i], NULL, reader,
					    (void *)(i + 1)),
			     0);
	/* More benches are left busy in the children than there are. */
	for (int i = 0; i < 60; i++) {
		pid_t pid = fork();
		int status;

		if (!pid) {
			alarm(20);
			for (size_t off = 0; off < SIZE; off += FRAME) {
				size_t n = SIZE - off < FRAME ? SIZE - off :
								FRAME;

				if (fl_zstd_ops.read(shared, got, n - 1, off) !=
					    (ssize_t)n - 1 ||
				    memcmp(got, plain + off, n - 1) != 0)
					_exit(1);
			}
			_exit(0);
		}
		cr_assert_eq(waitpid(pid, &status, 0), pid);
		cr_assert_eq(status, 0, "child: %x", status);
	}
	atomic_store(&stop, true);
	for (int i = 0; i < THREADS; i++) {
		void *reads;

		cr_assert_eq(pthread_join(t[i], &reads), 0);
		cr_assert_gt((unsigned long)reads, 0);
	}
	fl_zstd_close(shared);
}

/* As a demand region. */

static sigjmp_buf out;

static void on_bus(int sig)
{
	siglongjmp(out, sig);
}

static struct fl_pager *pager_or_skip(int fd, void **p, size_t *len)
{
	struct fl_pager *pager;

	cr_assert_eq(fl_pager_open(&pager, "mem=4M"), 0);
	*p = fl_zstd_map(pager, fd, len, 0);
	if (FL_PTR_ERR(*p) == -ENOTSUP)
		cr_skip_test("no userfaultfd");
	cr_assert_not(FL_IS_ERR(*p), "map: %d", FL_PTR_ERR(*p));
	return pager;
}

static int open_files(void)
{
	int n = 0;

	for (int fd = 0; fd < 1100; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

Test(zstd, mapped)
{
	int fd = packed_fd(SIZE, FRAME), files;
	struct fl_pager *pager;
	size_t len = 0;
	void *p;

	pager = pager_or_skip(fd, &p, &len);
	cr_assert_eq(len, SIZE);
	cr_assert_eq(memcmp(p, plain, SIZE), 0);
	for (size_t i = SIZE; i % PAGE; i++)
		cr_assert_eq(((char *)p)[i], 0);
	files = open_files();
	cr_assert_eq(fl_pager_munmap(pager, p, len), 0);
	cr_assert_eq(open_files(), files - 1);
	/* Again, in pieces: closed with the last one. */
	p = fl_zstd_map(pager, fd, &len, FL_REGION_RANDOM);
	cr_assert_not(FL_IS_ERR(p));
	cr_assert_eq(fl_pager_munmap(pager, p, FRAME), 0);
	cr_assert_eq(memcmp((char *)p + FRAME, plain + FRAME, FRAME), 0);
	cr_assert_eq(fl_pager_munmap(pager, (char *)p + FRAME, len - FRAME), 0);
	cr_assert_eq(open_files(), files - 1);
	cr_assert_eq(fl_pager_close(pager), 0);
}

Test(zstd, mapped_corrupt)
{
	unsigned char f[8 * PAGE];
	struct entry e[4];
	size_t at = make_frames(f, sizeof(f), 4, PAGE, e), len;
	struct fl_pager *pager;
	volatile int survived = 0, jumps = 0;
	struct sigaction sa = { .sa_handler = on_bus };
	void *p;

	f[e[0].packed + e[1].packed / 2] ^= 0x55;
	pager = pager_or_skip(table_of(f, at, e, 4, FLAG_CHECKSUM), &p, &len);
	cr_assert_eq(fl_sigaction(SIGBUS, &sa, NULL), 0);
	cr_assert_eq(fl_prefetch(pager, (char *)p + PAGE, PAGE), -EIO);
	if (!sigsetjmp(out, 1))
		survived = 1 + ((volatile char *)p)[PAGE + 5];
	else
		jumps = jumps + 1;
	cr_assert_eq(survived, 0);
	cr_assert_eq(jumps, 1);
	cr_assert_eq(fl_region_error(pager, (char *)p + PAGE), EIO);
	/* The others are served. */
	cr_assert_eq(memcmp(p, plain, PAGE), 0);
	cr_assert_eq(memcmp((char *)p + 2 * PAGE, plain + 2 * PAGE, 2 * PAGE),
		     0);
	cr_assert_eq(fl_region_error(pager, p), 0);
	cr_assert_eq(fl_pager_munmap(pager, p, len), 0);
	cr_assert_eq(fl_pager_close(pager), 0);
}

Test(zstd, map_errors)
{
	struct fl_pager *pager;
	int files, bad = memfd("x", 1), none = packed_fd(0, PAGE);
	size_t len;

	cr_assert_eq(fl_pager_open(&pager, NULL), 0);
	files = open_files();
	cr_assert_eq(FL_PTR_ERR(fl_zstd_map(pager, bad, &len, 0)), -EINVAL);
	cr_assert_eq(FL_PTR_ERR(fl_zstd_map(pager, none, &len, 0)), -EINVAL);
	cr_assert_eq(FL_PTR_ERR(fl_zstd_map(pager, packed_fd(PAGE, PAGE), &len,
					    0x8000)),
		     -EINVAL);
	/* packed_fd's. */
	cr_assert_eq(open_files(), files + 1);
	cr_assert_eq(fl_pager_close(pager), 0);
}
