// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The store: benches at which frames are decompressed.
 *
 * A bench has a decompression context, a buffer for packed and one for plain
 * bytes, and keeps the last frame. States:
 *
 *	FREE -> BUSY   whoever takes it, by compare-and-swap (acquire)
 *	BUSY -> FREE   the same thread (release)
 *
 * A reader takes the free bench that has its frame, else the one that was used
 * longest ago, and waits (yielding) while none is free. So the benches are a
 * cache that all threads share. What is read from outside of BUSY (frame, used)
 * is a hint.
 *
 * Progress: lock-free among readers as long as a bench is free. A thread that
 * is interrupted while it has a bench keeps it; with more such threads than
 * benches the others wait for one of them.
 *
 * Fork: a child inherits benches that are BUSY for threads it does not have. A
 * page that is zero in a child (MADV_WIPEONFORK) tells it, and its first reader
 * frees all.
 *
 * Everything that allocates is done at the open; reading calls the kernel
 * directly, and of libzstd only what works in the memory it is given.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <zstd.h>

#include "faultline-zstd.h"
#include "seekable.h"

#define BENCHES_MIN 4
#define BENCHES_MAX 64
#define NO_FRAME UINT32_MAX

enum {
	FREE,
	BUSY
};

/* Of the page that a child finds zero. */
enum {
	WIPED,
	ALIVE,
	REVIVING
};

struct bench {
	_Atomic(uint32_t) state;
	_Atomic(uint32_t) frame; /* whose plain bytes are here, or NO_FRAME */
	_Atomic(uint64_t) used;  /* the clock when it was */
	ZSTD_DCtx *ctx;
	unsigned char *packed;
	unsigned char *plain;
} __attribute__((aligned(64)));

struct fl_zstd {
	struct table table;
	int fd;
	unsigned int nr;
	bool mapped; /* a region closes it: fl_zstd_map() */
	size_t packed_len, plain_len;
	_Atomic(uint32_t) *alive;
	_Atomic(uint64_t) clock;
	struct bench bench[BENCHES_MAX];
};

/* Making. */

static void *anon(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static size_t page_up(size_t n)
{
	return (n + 4095) & ~(size_t)4095;
}

static int bench_init(struct fl_zstd *z, struct bench *b)
{
	atomic_store_explicit(&b->frame, NO_FRAME, memory_order_relaxed);
	b->ctx = ZSTD_createDCtx();
	b->packed = anon(z->packed_len);
	b->plain = anon(z->plain_len);
	return b->ctx && b->packed && b->plain ? 0 : -ENOMEM;
}

static int benches_init(struct fl_zstd *z)
{
	cpu_set_t cpus;
	int n = sched_getaffinity(0, sizeof(cpus), &cpus) ? 1 :
							    CPU_COUNT(&cpus);
	int ret = 0;

	z->packed_len = page_up((size_t)z->table.packed_max + 1);
	z->plain_len = page_up((size_t)z->table.plain_max + 1);
	z->alive = anon(4096);
	if (!z->alive)
		return -ENOMEM;
	madvise((void *)z->alive, 4096, MADV_WIPEONFORK);
	atomic_store_explicit(z->alive, ALIVE, memory_order_relaxed);
	if (n < BENCHES_MIN)
		n = BENCHES_MIN;
	if (n > BENCHES_MAX)
		n = BENCHES_MAX;
	z->nr = (unsigned int)n;
	for (unsigned int i = 0; !ret && i < z->nr; i++)
		ret = bench_init(z, &z->bench[i]);
	return ret;
}

int fl_zstd_open(struct fl_zstd **out, int fd)
{
	struct fl_zstd *z;
	int ret;

	*out = NULL;
	if (posix_memalign((void **)&z, 64, sizeof(*z)))
		return -ENOMEM;
	memset(z, 0, sizeof(*z));
	z->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (z->fd < 0)
		ret = -errno;
	else
		ret = table_read(&z->table, z->fd);
	if (!ret)
		ret = benches_init(z);
	if (ret) {
		fl_zstd_close(z);
		return ret;
	}
	*out = z;
	return 0;
}

void fl_zstd_close(struct fl_zstd *z)
{
	if (!z)
		return;
	for (unsigned int i = 0; i < z->nr; i++) {
		struct bench *b = &z->bench[i];

		ZSTD_freeDCtx(b->ctx);
		if (b->packed)
			munmap(b->packed, z->packed_len);
		if (b->plain)
			munmap(b->plain, z->plain_len);
	}
	if (z->alive)
		munmap((void *)z->alive, 4096);
	if (z->fd >= 0)
		close(z->fd);
	table_free(&z->table);
	free(z);
}

uint64_t fl_zstd_size(const struct fl_zstd *z)
{
	return z->table.plain;
}

/* Reading. */

static void pause_a_little(void)
{
	syscall(SYS_sched_yield);
}

/* In a child of fork: frees what threads it does not have were using. */
static void revive(struct fl_zstd *z)
{
	uint32_t old = WIPED;

	/* Acquire and release: between the reviver and the other readers. */
	if (!atomic_compare_exchange_strong_explicit(z->alive, &old, REVIVING,
						     memory_order_acquire,
						     memory_order_acquire)) {
		while (atomic_load_explicit(z->alive, memory_order_acquire) !=
		       ALIVE)
			pause_a_little();
		return;
	}
	for (unsigned int i = 0; i < z->nr; i++) {
		struct bench *b = &z->bench[i];

		if (atomic_load_explicit(&b->state, memory_order_relaxed) ==
		    FREE)
			continue;
		atomic_store_explicit(&b->frame, NO_FRAME,
				      memory_order_relaxed);
		atomic_store_explicit(&b->state, FREE, memory_order_relaxed);
	}
	atomic_store_explicit(z->alive, ALIVE, memory_order_release);
}

static bool take(struct bench *b)
{
	uint32_t old = FREE;

	return atomic_compare_exchange_strong_explicit(&b->state, &old, BUSY,
						       memory_order_acquire,
						       memory_order_relaxed);
}

static uint32_t frame_of(struct bench *b)
{
	return atomic_load_explicit(&b->frame, memory_order_relaxed);
}

static struct bench *take_with(struct fl_zstd *z, uint32_t frame)
{
	for (unsigned int i = 0; i < z->nr; i++) {
		struct bench *b = &z->bench[i];

		if (frame_of(b) != frame || !take(b))
			continue;
		if (frame_of(b) == frame)
			return b;
		atomic_store_explicit(&b->state, FREE, memory_order_release);
	}
	return NULL;
}

static struct bench *take_oldest(struct fl_zstd *z)
{
	uint64_t oldest = UINT64_MAX;
	struct bench *best = NULL;

	for (unsigned int i = 0; i < z->nr; i++) {
		struct bench *b = &z->bench[i];
		uint64_t used =
			atomic_load_explicit(&b->used, memory_order_relaxed);

		if (used >= oldest ||
		    atomic_load_explicit(&b->state, memory_order_relaxed))
			continue;
		oldest = used;
		best = b;
	}
	return best && take(best) ? best : NULL;
}

static struct bench *bench_get(struct fl_zstd *z, uint32_t frame)
{
	if (atomic_load_explicit(z->alive, memory_order_acquire) != ALIVE)
		revive(z);
	for (;;) {
		struct bench *b = take_with(z, frame);

		if (!b)
			b = take_oldest(z);
		if (b) {
			uint64_t now = atomic_fetch_add_explicit(
				&z->clock, 1, memory_order_relaxed);

			atomic_store_explicit(&b->used, now + 1,
					      memory_order_relaxed);
			return b;
		}
		pause_a_little();
	}
}

static void bench_put(struct bench *b)
{
	atomic_store_explicit(&b->state, FREE, memory_order_release);
}

/* pread(2) that nobody interposes and nobody cancels. 0 or -errno; a file that
 * has become shorter is -EIO. */
static int read_packed(int fd, unsigned char *buf, size_t len, uint64_t off)
{
	size_t got = 0;

	while (got < len) {
		long r = syscall(SYS_pread64, fd, buf + got, len - got,
				 (off_t)(off + got));

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			return -EIO;
		got += (size_t)r;
	}
	return 0;
}

/*
 * Decompresses frame @f to @dst. Only a single frame of the current format gets
 * to the decompressor: what else it accepts (skippable and older frames, several
 * of them) may allocate. 0 or -errno.
 */
static int unpack(struct fl_zstd *z, struct bench *b, const struct frame *f,
		  unsigned char *dst)
{
	int ret = read_packed(z->fd, b->packed, f->packed, f->packed_off);

	if (ret)
		return ret;
	if (f->packed < 4 || get32(b->packed) != FRAME_MAGIC ||
	    ZSTD_findFrameCompressedSize(b->packed, f->packed) != f->packed)
		return -EIO;
	if (ZSTD_decompressDCtx(b->ctx, dst, f->plain, b->packed, f->packed) !=
	    f->plain)
		return -EIO;
	if (z->table.checksums && (uint32_t)xxh64(dst, f->plain) != f->checksum)
		return -EIO;
	return 0;
}

/* Bytes [@skip, @skip + @len) of frame @i. */
static int read_frame(struct fl_zstd *z, uint32_t i, unsigned char *dst,
		      uint32_t skip, size_t len)
{
	const struct frame *f = &z->table.frame[i];
	struct bench *b = bench_get(z, i);
	int ret = 0;

	if (frame_of(b) != i) {
		/* All of it is wanted: no copy, and the bench keeps what it
		 * has. */
		if (len == f->plain) {
			ret = unpack(z, b, f, dst);
			goto out;
		}
		atomic_store_explicit(&b->frame, NO_FRAME,
				      memory_order_relaxed);
		ret = unpack(z, b, f, b->plain);
		if (ret)
			goto out;
		atomic_store_explicit(&b->frame, i, memory_order_relaxed);
	}
	memcpy(dst, b->plain + skip, len);
out:
	bench_put(b);
	return ret;
}

static ssize_t store_read(void *store, void *buf, size_t len, uint64_t off)
{
	struct fl_zstd *z = store;
	unsigned char *dst = buf;
	int saved = errno;
	size_t done = 0;
	uint32_t i;

	if (off >= z->table.plain)
		return 0;
	if (len > z->table.plain - off)
		len = (size_t)(z->table.plain - off);
	for (i = table_find(&z->table, off); done < len; i++) {
		const struct frame *f = &z->table.frame[i];
		uint32_t skip = (uint32_t)(off + done - f->plain_off);
		size_t n = f->plain - skip;
		int ret;

		if (n > len - done)
			n = len - done;
		ret = read_frame(z, i, dst + done, skip, n);
		if (ret) {
			errno = saved;
			return ret;
		}
		done += n;
	}
	errno = saved;
	return (ssize_t)done;
}

static int64_t store_length(void *store)
{
	return (int64_t)fl_zstd_size(store);
}

const struct fl_store_ops fl_zstd_ops = {
	.size = sizeof(fl_zstd_ops),
	.read = store_read,
	.length = store_length,
};

/* Mapping. */

static void store_release(void *store)
{
	struct fl_zstd *z = store;

	if (z->mapped)
		fl_zstd_close(z);
}

void *fl_zstd_map(struct fl_pager *pager, int fd, size_t *len,
		  unsigned int flags)
{
	static const struct fl_store_ops ops = {
		.size = sizeof(ops),
		.read = store_read,
		.length = store_length,
		.release = store_release,
	};
	struct fl_zstd *z;
	void *p;
	int ret = fl_zstd_open(&z, fd);

	if (ret)
		return (void *)(intptr_t)ret;
	if (z->table.plain == 0 || z->table.plain > PTRDIFF_MAX) {
		fl_zstd_close(z);
		return (void *)(intptr_t)-EINVAL;
	}
	*len = (size_t)z->table.plain;
	p = fl_region_map(pager, &ops, z, 0, *len, PROT_READ, flags);
	if (FL_IS_ERR(p))
		fl_zstd_close(z);
	else
		z->mapped = true;
	return p;
}
