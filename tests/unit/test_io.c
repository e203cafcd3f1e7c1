/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The engines: the same bytes as pread(2), whatever the kernel refuses. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/base.h"
#include "base/sys.h"
#include "io/io.h"
#include "support/files.h"

#define SIZE (1 << 20)
#define ODD (SIZE + 12345) /* ends inside of a block */
#define SEED 7
#define MANY 100

static const enum io_engine engines[] = { IO_AUTO, IO_PREAD, IO_URING, IO_AIO };

static struct io_req req[MANY];
static char *mem;
static pid_t home;

/* Criterion's assertions do not work in a child: it says so and ends. */
#define must(cond, ...)                                                   \
	do {                                                              \
		bool must_ok = (cond);                                    \
		if (!must_ok && getpid() != home) {                       \
			fprintf(stderr, "line %d, child: %s\n", __LINE__, \
				#cond);                                   \
			_exit(1);                                         \
		}                                                         \
		cr_assert(must_ok, #cond " " __VA_ARGS__);                \
	} while (0)

static void setup(void)
{
	home = getpid();
	mem = mmap(NULL, (size_t)MANY << 16, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(mem, MAP_FAILED);
}

static void teardown(void)
{
	files_end();
}

TestSuite(io, .init = setup, .fini = teardown);

/* A file on the disk. */
static int disk(size_t size, int flags)
{
	char path[128];
	int fd;

	cr_assert_null(files_mount(FS_DISK, path, size, SEED));
	fd = open(path, O_RDONLY | O_CLOEXEC | flags);
	cr_assert_geq(fd, 0);
	return fd;
}

/* Random pieces, some at and past the end; blocks of @align. */
static void pieces(unsigned int n, int fd, size_t size, size_t align,
		   bool direct, unsigned int *seed)
{
	for (unsigned int i = 0; i < n; i++) {
		size_t len = 1 + (size_t)rand_r(seed) % 65536;
		uint64_t off = (uint64_t)rand_r(seed) % (size + 65536);

		len = (len + align - 1) / align * align;
		off = off / align * align;
		req[i] = (struct io_req){
			.fd = fd,
			.buf = mem + ((size_t)i << 16),
			.len = len,
			.off = off,
			.direct = direct,
		};
		memset(req[i].buf, 0xee, 65536);
	}
}

static long want(size_t size, const struct io_req *q)
{
	if (q->off >= size)
		return 0;
	return (long)(q->len < size - q->off ? q->len : size - q->off);
}

static void check(unsigned int n, size_t size, const char *what)
{
	for (unsigned int i = 0; i < n; i++) {
		struct io_req *q = &req[i];

		must(q->res == want(size, q), "%s: %u of %u: %ld of %zu at %lu",
		     what, i, n, q->res, q->len, q->off);
		must(file_is(q->buf, (size_t)q->res, q->off, SEED),
		     "%s: wrong bytes at %lu", what, q->off);
	}
}

static void read_all(enum io_engine e, int fd, size_t size, size_t align,
		     bool direct)
{
	static const unsigned int counts[] = { 1, 2, 7, IO_DEPTH, MANY };
	unsigned int seed = 1;
	struct io_ctx ctx;

	io_ctx_init(&ctx, e);
	for (unsigned int c = 0; c < ARRAY_SIZE(counts); c++) {
		pieces(counts[c], fd, size, align, direct, &seed);
		io_read_many(&ctx, req, counts[c]);
		check(counts[c], size, io_engine_name(e));
		for (unsigned int i = 0; i < counts[c]; i++)
			req[i].res = io_read(&ctx, fd, req[i].buf, req[i].len,
					     req[i].off);
		check(counts[c], size, io_engine_name(e));
	}
	io_ctx_destroy(&ctx);
	cr_assert_eq(ld_rlx(&ctx.ring.fd), -1);
	cr_assert_eq(ctx.aio, 0);
}

static void on_fs(enum files_fs fs)
{
	char path[128];
	const char *why = files_mount(fs, path, ODD, SEED);
	int fd;

	if (why)
		cr_skip_test("%s: %s", files_fs_name[fs], why);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	for (unsigned int i = 0; i < ARRAY_SIZE(engines); i++) {
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		read_all(engines[i], fd, ODD, 1, false);
	}
	close(fd);
}

Test(io, disk)
{
	on_fs(FS_DISK);
}

Test(io, tmpfs)
{
	on_fs(FS_TMPFS);
}

Test(io, overlay)
{
	on_fs(FS_OVERLAY);
}

Test(io, squashfs)
{
	on_fs(FS_SQUASHFS);
}

Test(io, direct)
{
	int fd = disk(ODD, O_DIRECT);

	for (unsigned int i = 0; i < ARRAY_SIZE(engines); i++)
		read_all(engines[i], fd, ODD, 4096, true);
	close(fd);
}

/* The queues are used, not only fallen back from. */
Test(io, engines_are_there)
{
	int fd = disk(SIZE, O_DIRECT);
	unsigned int seed = 1;
	struct io_ctx ctx;

	for (unsigned int i = 0; i < ARRAY_SIZE(engines); i++) {
		enum io_engine e = engines[i];

		io_ctx_init(&ctx, e);
		pieces(8, fd, SIZE, 4096, true, &seed);
		io_read_many(&ctx, req, 8);
		check(8, SIZE, "");
		if (!io_engine_refused(IO_URING))
			cr_assert_eq(ld_rlx(&ctx.ring.fd) >= 0,
				     e == IO_AUTO || e == IO_URING);
		if (!io_engine_refused(IO_AIO))
			cr_assert_eq(ctx.aio != 0, e == IO_AIO);
		io_ctx_destroy(&ctx);
	}
	close(fd);
}

Test(io, ring_descriptor)
{
	int fd = disk(SIZE, 0), ring;
	unsigned int seed = 1;
	struct io_ctx ctx;

	io_ctx_init(&ctx, IO_URING);
	cr_assert_eq(ld_rlx(&ctx.ring.fd), -1);
	pieces(2, fd, SIZE, 1, false, &seed);
	io_read_many(&ctx, req, 2);
	ring = ld_rlx(&ctx.ring.fd);
	if (ring < 0)
		cr_skip_test("no io_uring here");
	cr_assert_gt(ring, 100);
	cr_assert_eq(fcntl(ring, F_GETFD), FD_CLOEXEC);
	/* The lowest number is still the program's. */
	cr_assert_eq(dup(fd), fd + 1);
	io_ctx_destroy(&ctx);
	cr_assert_eq(fcntl(ring, F_GETFD), -1);
}

/* What pread(2) says to nonsense, every engine says. */
Test(io, errors)
{
	char dir[] = "/tmp";
	int fds[] = { -1, 9999, open(dir, O_RDONLY),
		      open("/dev/null", O_WRONLY) };
	unsigned int seed = 1;

	for (unsigned int i = 0; i < ARRAY_SIZE(engines); i++) {
		struct io_ctx ctx;

		io_ctx_init(&ctx, engines[i]);
		for (unsigned int k = 0; k < ARRAY_SIZE(fds); k++) {
			pieces(4, fds[k], SIZE, 4096, k & 1, &seed);
			io_read_many(&ctx, req, 4);
			for (unsigned int j = 0; j < 4; j++) {
				cr_assert_eq(pread(fds[k], mem, 1, 0), -1);
				cr_assert_eq(req[j].res, -errno, "%s %u: %ld",
					     io_engine_name(engines[i]), k,
					     req[j].res);
			}
		}
		pieces(2, disk(100, 0), 100, 1, false, &seed);
		req[0].off = UINT64_MAX - 4096;
		req[1].off = 0;
		io_read_many(&ctx, req, 2);
		cr_assert_eq(req[0].res, -EINVAL);
		cr_assert_eq(req[1].res, want(100, &req[1]));
		io_ctx_destroy(&ctx);
		files_end();
	}
}

static void injected(const struct io_inject *in, int fd, bool direct)
{
	io_inject(in);
	for (unsigned int i = 0; i < ARRAY_SIZE(engines); i++)
		read_all(engines[i], fd, ODD, direct ? 4096 : 1, false);
	io_inject(NULL);
}

Test(io, spoilt_but_whole)
{
	static const struct io_inject in[] = {
		{ .short_every = 1 },
		{ .short_every = 3, .eintr_every = 2 },
		{ .eintr_every = 5, .delay_us = 20 },
	};
	int fd = disk(ODD, 0);

	for (unsigned int i = 0; i < ARRAY_SIZE(in); i++)
		injected(&in[i], fd, false);
	close(fd);
}

/* With O_DIRECT a read that came short inside of a block cannot go on; the
 * store reads the rest another way. What is there is right. */
Test(io, direct_cut)
{
	static const struct io_inject in = { .short_every = 2 };
	int fd = disk(SIZE, O_DIRECT);
	unsigned int seed = 3;

	io_inject(&in);
	for (unsigned int e = 0; e < ARRAY_SIZE(engines); e++) {
		struct io_ctx ctx;

		io_ctx_init(&ctx, engines[e]);
		pieces(MANY, fd, SIZE, 4096, true, &seed);
		io_read_many(&ctx, req, MANY);
		for (unsigned int i = 0; i < MANY; i++) {
			struct io_req *q = &req[i];

			cr_assert_geq(q->res, q->off < SIZE ? 1 : 0);
			cr_assert_leq(q->res, want(SIZE, q));
			cr_assert(
				file_is(q->buf, (size_t)q->res, q->off, SEED));
		}
		io_ctx_destroy(&ctx);
	}
	io_inject(NULL);
}

Test(io, bad_blocks)
{
	static const struct io_inject in = { .bad_off = 300000,
					     .bad_len = 5000 };
	int fd = disk(ODD, 0);
	unsigned int seed = 5, bad = 0;

	io_inject(&in);
	for (unsigned int e = 0; e < ARRAY_SIZE(engines); e++) {
		struct io_ctx ctx;

		io_ctx_init(&ctx, engines[e]);
		pieces(MANY, fd, ODD, 1, false, &seed);
		io_read_many(&ctx, req, MANY);
		for (unsigned int i = 0; i < MANY; i++) {
			struct io_req *q = &req[i];

			if (q->off < 305000 && 300000 < q->off + q->len) {
				cr_assert_eq(q->res, -EIO);
				bad++;
			} else {
				cr_assert_eq(q->res, want(ODD, q));
				cr_assert(file_is(q->buf, (size_t)q->res,
						  q->off, SEED));
			}
		}
		io_ctx_destroy(&ctx);
	}
	io_inject(NULL);
	cr_assert_gt(bad, 0);
}

Test(io, every_nth_fails)
{
	static const struct io_inject in = { .eio_every = 4 };
	int fd = disk(SIZE, 0);
	struct io_ctx ctx;

	io_inject(&in);
	io_ctx_init(&ctx, IO_PREAD);
	for (int i = 1; i <= 40; i++)
		cr_assert_eq(io_read(&ctx, fd, mem, 4096, 0),
			     i % 4 ? 4096 : -EIO);
	io_inject(NULL);
	cr_assert_eq(io_read(&ctx, fd, mem, 4096, 0), 4096);
}

/* Refusals. */

struct refusal {
	long nr;
	int err;
	enum io_engine engine;
	bool late; /* after the ring has been made */
};

static const struct refusal refusals[] = {
	{ __NR_io_uring_setup, EPERM, IO_URING, false },
	{ __NR_io_uring_setup, ENOSYS, IO_URING, false },
	{ __NR_io_uring_setup, ENOMEM, IO_URING, false },
	{ __NR_io_uring_setup, EINVAL, IO_URING, false },
	{ __NR_io_uring_enter, EPERM, IO_URING, true },
	{ __NR_io_uring_enter, ENOSYS, IO_URING, true },
	{ __NR_io_setup, EPERM, IO_AIO, false },
	{ __NR_io_setup, ENOSYS, IO_AIO, false },
	{ __NR_io_submit, EPERM, IO_AIO, true },
	{ __NR_io_getevents, ENOSYS, IO_AIO, true },
};

static void refused(const struct refusal *r, int fd)
{
	enum io_engine other = r->engine == IO_URING ? IO_AIO : IO_URING;
	unsigned int seed = 11;
	struct io_ctx ctx;

	io_ctx_init(&ctx, r->engine);
	if (r->late) {
		pieces(8, fd, SIZE, 4096, true, &seed);
		io_read_many(&ctx, req, 8);
		check(8, SIZE, "before");
		/* Where the system does not have it anyway. */
		if (io_engine_refused(r->engine))
			return;
	}
	must(!refuse_syscall(r->nr, r->err));
	for (int i = 0; i < 3; i++) {
		pieces(MANY, fd, SIZE, 4096, true, &seed);
		io_read_many(&ctx, req, MANY);
		check(MANY, SIZE, "refused");
		must(io_engine_refused(r->engine));
	}
	must(ld_rlx(&ctx.ring.fd) == -1);
	must(!ctx.aio);
	must(!io_engine_refused(other));
	io_ctx_destroy(&ctx);
	/* The automatic choice takes what is left. */
	io_ctx_init(&ctx, IO_AUTO);
	pieces(MANY, fd, SIZE, 4096, true, &seed);
	io_read_many(&ctx, req, MANY);
	check(MANY, SIZE, "auto");
	if (r->engine == IO_URING && !io_engine_refused(IO_AIO))
		must(ctx.aio);
	io_ctx_destroy(&ctx);
}

Test(io, refusals)
{
	int fd = disk(SIZE, O_DIRECT);

	for (unsigned int i = 0; i < ARRAY_SIZE(refusals); i++) {
		pid_t pid = fork();
		int status;

		cr_assert_geq(pid, 0);
		if (!pid) {
			refused(&refusals[i], fd);
			_exit(0);
		}
		cr_assert_eq(waitpid(pid, &status, 0), pid);
		cr_assert_eq(status, 0, "refusal %u: status %x", i, status);
	}
}

Test(io, both_refused)
{
	int fd = disk(SIZE, O_DIRECT);

	cr_assert_eq(refuse_syscall(__NR_io_uring_setup, ENOSYS), 0);
	cr_assert_eq(refuse_syscall(__NR_io_setup, EPERM), 0);
	cr_assert_eq(refuse_syscall(__NR_preadv2, ENOSYS), 0);
	for (unsigned int i = 0; i < ARRAY_SIZE(engines); i++)
		read_all(engines[i], fd, SIZE, 4096, true);
	cr_assert(io_engine_refused(IO_URING));
	cr_assert(io_engine_refused(IO_AIO));
}

/* A shortage of descriptors is no refusal. */
Test(io, no_descriptors)
{
	int fd = disk(SIZE, 0);
	struct rlimit old, lim;
	unsigned int seed = 1;
	struct io_ctx ctx;

	getrlimit(RLIMIT_NOFILE, &old);
	lim = old;
	lim.rlim_cur = (rlim_t)fd + 1;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &lim), 0);
	io_ctx_init(&ctx, IO_URING);
	pieces(4, fd, SIZE, 1, false, &seed);
	io_read_many(&ctx, req, 4);
	check(4, SIZE, "without");
	cr_assert_eq(ld_rlx(&ctx.ring.fd), -1);
	setrlimit(RLIMIT_NOFILE, &old);
	pieces(4, fd, SIZE, 1, false, &seed);
	io_read_many(&ctx, req, 4);
	check(4, SIZE, "with");
	cr_assert_eq(ld_rlx(&ctx.ring.fd) >= 0, !io_engine_refused(IO_URING));
	io_ctx_destroy(&ctx);
}

/* Threads and forks. */

struct turn {
	struct io_ctx *ctx;
	int fd;
};

static void *take_turn(void *arg)
{
	struct turn *t = arg;
	unsigned int seed = 9;

	pieces(IO_DEPTH, t->fd, SIZE, 4096, true, &seed);
	io_read_many(t->ctx, req, IO_DEPTH);
	check(IO_DEPTH, SIZE, "turn");
	return NULL;
}

/* A context goes from thread to thread; so does one that was promised not to. */
static void turns(enum io_engine e, bool pin)
{
	int fd = disk(SIZE, O_DIRECT);
	struct io_ctx ctx;
	struct turn t = { &ctx, fd };

	io_ctx_init(&ctx, e);
	if (pin)
		io_ctx_pin(&ctx);
	take_turn(&t);
	for (int i = 0; i < 8; i++) {
		pthread_t thread;

		cr_assert_eq(pthread_create(&thread, NULL, take_turn, &t), 0);
		cr_assert_eq(pthread_join(thread, NULL), 0);
	}
	cr_assert_not(io_engine_refused(e));
	io_ctx_destroy(&ctx);
	files_end();
}

Test(io, turns)
{
	turns(IO_AIO, false);
	turns(IO_URING, false);
	turns(IO_URING, true);
}

Test(io, fork_child)
{
	int fd = disk(SIZE, O_DIRECT);
	enum io_engine e[] = { IO_URING, IO_AIO };

	for (unsigned int i = 0; i < ARRAY_SIZE(e); i++) {
		unsigned int seed = 2;
		struct io_ctx ctx;
		struct turn t = { &ctx, fd };
		int status, ring;
		pid_t pid;

		io_ctx_init(&ctx, e[i]);
		take_turn(&t);
		ring = ld_rlx(&ctx.ring.fd);
		pid = fork();
		cr_assert_geq(pid, 0);
		if (!pid) {
			io_ctx_fork_child(&ctx);
			must(fcntl(ring, F_GETFD) == -1);
			must(!ctx.aio);
			take_turn(&t);
			io_ctx_destroy(&ctx);
			_exit(0);
		}
		cr_assert_eq(waitpid(pid, &status, 0), pid);
		cr_assert_eq(status, 0);
		pieces(MANY, fd, SIZE, 4096, true, &seed);
		io_read_many(&ctx, req, MANY);
		check(MANY, SIZE, "parent");
		cr_assert_eq(ld_rlx(&ctx.ring.fd), ring);
		io_ctx_destroy(&ctx);
	}
}

/* Started by one thread, finished by another. */

static bool started;

static void *start(void *arg)
{
	struct turn *t = arg;

	started = io_start(t->ctx, &req[0]);
	return NULL;
}

static void relay(int fd, bool direct, bool by_another, unsigned int *seed)
{
	struct io_ctx ctx;
	struct turn t = { &ctx, fd };
	pthread_t thread;

	io_ctx_init(&ctx, IO_AUTO);
	for (int i = 0; i < 50; i++) {
		pieces(1, fd, ODD, direct ? 4096 : 1, direct, seed);
		if (by_another) {
			/* The kernel may cancel what an exited thread began:
			 * it is read all the same. */
			cr_assert_eq(pthread_create(&thread, NULL, start, &t),
				     0);
			cr_assert_eq(pthread_join(thread, NULL), 0);
		} else {
			start(&t);
		}
		if (!started)
			cr_skip_test("no io_uring here");
		req[0].res = io_finish(&ctx, &req[0]);
		check(1, ODD, "relay");
	}
	io_ctx_destroy(&ctx);
}

Test(io, relays)
{
	int fd = disk(ODD, O_DIRECT);
	unsigned int seed = 17;

	relay(fd, true, false, &seed);
	relay(fd, true, true, &seed);
	files_end();
	fd = disk(ODD, 0);
	relay(fd, false, false, &seed);
	relay(fd, false, true, &seed);
}

/* Spoilt in flight: the rest is read when it is finished. */
Test(io, relays_spoilt)
{
	static const struct io_inject in[] = {
		{ .short_every = 1 },
		{ .eintr_every = 2 },
	};
	int fd = disk(ODD, 0);
	unsigned int seed = 19;

	for (unsigned int i = 0; i < ARRAY_SIZE(in); i++) {
		io_inject(&in[i]);
		relay(fd, false, true, &seed);
		io_inject(NULL);
	}
}

static void late_refusal(int fd, long err)
{
	unsigned int seed = 23;
	struct io_ctx ctx;

	io_ctx_init(&ctx, IO_AUTO);
	pieces(1, fd, SIZE, 4096, true, &seed);
	if (!io_start(&ctx, &req[0]))
		return;
	must(!refuse_syscall(__NR_io_uring_enter, (int)err));
	req[0].res = io_finish(&ctx, &req[0]);
	check(1, SIZE, "finished");
	must(!io_start(&ctx, &req[0]));
	must(io_engine_refused(IO_URING));
	must(!io_start(&ctx, &req[0]));
	io_ctx_destroy(&ctx);
}

Test(io, relays_refused)
{
	static const int err[] = { EPERM, ENOSYS };
	int fd = disk(SIZE, O_DIRECT), status;

	for (unsigned int i = 0; i < ARRAY_SIZE(err); i++) {
		pid_t pid = fork();

		if (!pid) {
			late_refusal(fd, err[i]);
			_exit(0);
		}
		cr_assert_eq(waitpid(pid, &status, 0), pid);
		cr_assert_eq(status, 0);
	}
}
