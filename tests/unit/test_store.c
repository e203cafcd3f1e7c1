/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Stores: files on several file systems, zeros, a user's functions. */
#include <criterion/criterion.h>
#include <limits.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/base.h"
#include "io/store.h"
#include "support/files.h"

#define PAGE ((size_t)4096)
#define SIZE (300 * PAGE + 777)
#define SEED 21
#define MANY 64

static struct store st;
static struct io_ctx ctx;
static char *mem;

static void setup(void)
{
	mem = mmap(NULL, 2 * MANY * PAGE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(mem, MAP_FAILED);
	io_ctx_init(&ctx, IO_AUTO);
}

static void teardown(void)
{
	io_ctx_destroy(&ctx);
	files_end();
}

TestSuite(store, .init = setup, .fini = teardown);

/* Opens a store on @fs and closes the program's descriptor. */
static void open_on(enum files_fs fs, int direct)
{
	char path[128];
	const char *why = files_mount(fs, path, SIZE, SEED);
	int fd;

	if (why)
		cr_skip_test("%s: %s", files_fs_name[fs], why);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	cr_assert_eq(store_file_init(&st, fd, direct), 0);
	cr_assert_eq(close(fd), 0);
}

static long want(size_t len, uint64_t off)
{
	if (off >= SIZE)
		return 0;
	return (long)(len < SIZE - off ? len : SIZE - off);
}

static void one(size_t len, uint64_t off, size_t shift)
{
	memset(mem, 0xaa, 2 * MANY * PAGE);
	cr_assert_eq(store_read(&st, &ctx, mem + shift, len, off),
		     want(len, off), "%zu at %lu", len, off);
	cr_assert(file_is(mem + shift, (size_t)want(len, off), off, SEED));
	cr_assert_eq((unsigned char)mem[shift + len], 0xaa);
}

static void many(unsigned int n, unsigned int *seed)
{
	struct io_req req[MANY];

	for (unsigned int i = 0; i < n; i++)
		req[i] = (struct io_req){
			.buf = mem + i * 2 * PAGE,
			.len = (1 + (size_t)rand_r(seed) % 2) * PAGE,
			.off = (uint64_t)rand_r(seed) % (SIZE / PAGE + 4) *
			       PAGE,
		};
	store_read_many(&st, &ctx, req, n);
	for (unsigned int i = 0; i < n; i++) {
		struct io_req *q = &req[i];

		cr_assert_eq(q->res, want(q->len, q->off), "%ld of %zu at %lu",
			     q->res, q->len, q->off);
		cr_assert(file_is(q->buf, (size_t)q->res, q->off, SEED));
	}
}

static void everything(void)
{
	unsigned int seed = 4;

	for (uint64_t off = 0; off < SIZE + 4 * PAGE; off += 7 * PAGE) {
		one(PAGE, off, 0);
		one(16 * PAGE, off, 0);
	}
	one(PAGE, SIZE / PAGE * PAGE, 0);
	one(64 * PAGE, SIZE / PAGE * PAGE - PAGE, 0);
	one(100, 12345, 0); /* nothing aligned */
	one(PAGE, PAGE, 1);
	one(PAGE, PAGE + 512, 0);
	for (unsigned int n = 1; n <= MANY; n += 9)
		many(n, &seed);
	cr_assert_eq(store_size(&st), (int64_t)SIZE);
}

static void on_fs(enum files_fs fs)
{
	for (int direct = STORE_DIRECT_NO; direct <= STORE_DIRECT_AUTO;
	     direct++) {
		open_on(fs, direct);
		if (direct == STORE_DIRECT_NO)
			cr_assert_eq(ld_rlx(&st.direct_fd), -1);
		everything();
		store_destroy(&st);
		files_end();
	}
}

Test(store, disk)
{
	on_fs(FS_DISK);
}

Test(store, tmpfs)
{
	on_fs(FS_TMPFS);
}

Test(store, overlay)
{
	on_fs(FS_OVERLAY);
}

Test(store, squashfs)
{
	on_fs(FS_SQUASHFS);
}

/* squashfs refuses the open: nothing of O_DIRECT is left. */
Test(store, squashfs_is_buffered)
{
	open_on(FS_SQUASHFS, STORE_DIRECT_YES);
	cr_assert_eq(ld_rlx(&st.direct_fd), -1);
	cr_assert_not(ld_rlx(&st.direct));
	store_destroy(&st);
}

/* Puts what @path opens in the place of the descriptor with O_DIRECT. */
static void swap_direct(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC);

	cr_assert_geq(fd, 0);
	cr_assert_geq(dup2(fd, ld_rlx(&st.direct_fd)), 0);
	close(fd);
}

/* A file system that lets the open with O_DIRECT pass and not the read. A
 * namespace's file stands in for it: it cannot be read, EINVAL. */
Test(store, direct_ends_at_first_einval)
{
	static const enum io_engine engines[] = { IO_AUTO, IO_PREAD, IO_URING,
						  IO_AIO };
	unsigned int seed = 8;

	for (unsigned int i = 0; i < 2 * ARRAY_SIZE(engines); i++) {
		io_ctx_init(&ctx, engines[i / 2]);
		open_on(FS_DISK, STORE_DIRECT_YES);
		if (ld_rlx(&st.direct_fd) < 0)
			cr_skip_test("no O_DIRECT on this disk");
		cr_assert(ld_rlx(&st.direct));
		swap_direct("/proc/self/ns/mnt", O_RDONLY);
		if (i % 2)
			many(20, &seed);
		else
			one(PAGE, 0, 0);
		cr_assert_not(ld_rlx(&st.direct));
		everything();
		store_destroy(&st);
		files_end();
		io_ctx_destroy(&ctx);
	}
}

/* Any other error is the file's. */
Test(store, direct_errors_are_errors)
{
	struct io_req req[2] = {
		{ .buf = mem, .len = PAGE, .off = 0 },
		{ .buf = mem + PAGE, .len = PAGE, .off = PAGE },
	};

	open_on(FS_DISK, STORE_DIRECT_YES);
	if (ld_rlx(&st.direct_fd) < 0)
		cr_skip_test("no O_DIRECT on this disk");
	swap_direct("/tmp", O_RDONLY | O_DIRECTORY);
	cr_assert_eq(store_read(&st, &ctx, mem, PAGE, 0), -EISDIR);
	store_read_many(&st, &ctx, req, 2);
	cr_assert_eq(req[0].res, -EISDIR);
	cr_assert_eq(req[1].res, -EISDIR);
	cr_assert(ld_rlx(&st.direct));
	/* What is not aligned never went there. */
	one(PAGE, 512, 0);
	store_destroy(&st);
}

Test(store, injected)
{
	static const struct io_inject in[] = {
		{ .short_every = 2 },
		{ .eintr_every = 3, .short_every = 5 },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(in); i++)
		for (int direct = 0; direct < 2; direct++) {
			open_on(FS_DISK, direct);
			io_inject(&in[i]);
			everything();
			io_inject(NULL);
			store_destroy(&st);
			files_end();
		}
}

/* Descriptors. */

Test(store, descriptors)
{
	int before = dup(0), fds[2];

	close(before);
	open_on(FS_DISK, STORE_DIRECT_YES);
	fds[0] = ld_rlx(&st.fd);
	fds[1] = ld_rlx(&st.direct_fd);
	for (int i = 0; i < 2; i++) {
		cr_assert_gt(fds[i], 100);
		cr_assert_eq(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
	}
	cr_assert_eq(dup(0), before);
	store_destroy(&st);
	cr_assert_eq(fcntl(fds[0], F_GETFD), -1);
	cr_assert_eq(fcntl(fds[1], F_GETFD), -1);
	cr_assert_eq(store_file_init(&st, -1, 0), -EBADF);
	cr_assert_eq(store_file_init(&st, 9999, 1), -EBADF);
}

/* flock(2) ends with the program's last descriptor, in spite of ours. */
Test(store, flock_is_not_shared)
{
	char path[128];
	int fd, other;

	cr_assert_null(files_mount(FS_DISK, path, SIZE, SEED));
	fd = open(path, O_RDONLY);
	other = open(path, O_RDONLY);
	cr_assert_eq(flock(fd, LOCK_EX), 0);
	cr_assert_eq(store_file_init(&st, fd, STORE_DIRECT_YES), 0);
	cr_assert_eq(flock(other, LOCK_EX | LOCK_NB), -1);
	close(fd);
	cr_assert_eq(flock(other, LOCK_EX | LOCK_NB), 0);
	everything();
	store_destroy(&st);
}

/* Closing our descriptor would drop the process's record locks. */
Test(store, record_locks)
{
	struct flock l = { .l_type = F_WRLCK, .l_start = 5, .l_len = 1 };
	char path[128];
	int fd;

	cr_assert_null(files_mount(FS_DISK, path, SIZE, SEED));
	fd = open(path, O_RDWR);
	cr_assert_eq(fcntl(fd, F_SETLK, &l), 0);
	cr_assert_eq(store_file_init(&st, fd, STORE_DIRECT_YES), -EBUSY);
	/* It still holds. */
	pid_t pid = fork();

	if (!pid)
		_exit(fcntl(fd, F_SETLK, &l) == -1);
	int status;

	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(WEXITSTATUS(status), 1);
	l.l_type = F_UNLCK;
	cr_assert_eq(fcntl(fd, F_SETLK, &l), 0);
	cr_assert_eq(store_file_init(&st, fd, STORE_DIRECT_YES), 0);
	everything();
	store_destroy(&st);
}

/* A file that cannot be opened again is read through a duplicate. The filter
 * is of this thread only. */
static void *without_openat(void *fd)
{
	cr_assert_eq(refuse_syscall(__NR_openat, EACCES), 0);
	cr_assert_eq(store_file_init(&st, *(int *)fd, STORE_DIRECT_YES), 0);
	return NULL;
}

Test(store, no_reopen)
{
	char path[128];
	pthread_t thread;
	int fd;

	cr_assert_null(files_mount(FS_DISK, path, SIZE, SEED));
	fd = open(path, O_RDONLY);
	cr_assert_eq(pthread_create(&thread, NULL, without_openat, &fd), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_assert_not(st.own);
	cr_assert_eq(ld_rlx(&st.direct_fd), -1);
	close(fd);
	store_advise(&st, POSIX_FADV_SEQUENTIAL);
	everything();
	store_destroy(&st);
}

Test(store, deleted_file)
{
	char path[128];
	int fd;

	cr_assert_null(files_mount(FS_DISK, path, SIZE, SEED));
	fd = open(path, O_RDONLY);
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(store_file_init(&st, fd, STORE_DIRECT_YES), 0);
	close(fd);
	everything();
	store_destroy(&st);
}

/*
 * The program puts files of its own on our numbers all the time; the layer
 * above moves ours away first, as here. Never back to a number: a read that
 * lasts so long would not notice.
 */
#define FROM 1000
static int moves;
static _Atomic(bool) stop;

static void *mover(void *arg)
{
	int foreign = open((char *)arg, O_RDONLY);
	_Atomic(int) *owner[] = { &st.fd, &st.direct_fd };

	for (int i = 0; i < moves && !ld_rlx(&stop); i++) {
		int fd = ld_rlx(owner[i & 1]);
		int to = fcntl(fd, F_DUPFD_CLOEXEC, FROM + i);

		st_sc(owner[i & 1], to);
		dup2(foreign, fd);
		sched_yield();
		close(fd);
	}
	close(foreign);
	return NULL;
}

Test(store, moving_descriptors)
{
	char path[128], other[160];
	struct rlimit lim;
	pthread_t thread;
	unsigned int seed = 13;
	int fd;

	getrlimit(RLIMIT_NOFILE, &lim);
	if (lim.rlim_max < 4 * FROM)
		cr_skip_test("RLIMIT_NOFILE is low");
	moves = lim.rlim_max < 100000 ? (int)lim.rlim_max : 100000;
	lim.rlim_cur = (rlim_t)moves;
	moves -= 2 * FROM;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &lim), 0);
	cr_assert_null(files_mount(FS_DISK, path, SIZE, SEED));
	snprintf(other, sizeof(other), "%s2", path);
	cr_assert_eq(file_make(other, SIZE, SEED + 1), 0);
	fd = open(path, O_RDONLY);
	cr_assert_eq(store_file_init(&st, fd, STORE_DIRECT_YES), 0);
	close(fd);
	cr_assert_eq(pthread_create(&thread, NULL, mover, other), 0);
	for (int i = 0; i < 300; i++) {
		one(PAGE, (uint64_t)(i % 300) * PAGE, 0);
		one(PAGE, (uint64_t)(i % 300) * PAGE, 1);
		many(8, &seed);
	}
	st_rlx(&stop, true);
	pthread_join(thread, NULL);
	store_destroy(&st);
}

/* Writing. */

Test(store, write_and_flush)
{
	char path[128];
	int fd;

	cr_assert_null(files_mount(FS_DISK, path, SIZE, SEED));
	fd = open(path, O_RDWR);
	cr_assert_eq(store_file_init(&st, fd, STORE_DIRECT_YES), 0);
	memset(mem, 'w', 3 * PAGE);
	cr_assert_eq(store_write(&st, mem, 3 * PAGE, 5 * PAGE + 3),
		     (long)(3 * PAGE));
	cr_assert_eq(store_flush(&st), 0);
	cr_assert_eq(pread(fd, mem + 4 * PAGE, 3 * PAGE, 5 * PAGE + 3),
		     (ssize_t)(3 * PAGE));
	cr_assert_eq(memcmp(mem, mem + 4 * PAGE, 3 * PAGE), 0);
	/* Past the page cache it is the same. */
	cr_assert_eq(store_read(&st, &ctx, mem + 8 * PAGE, 4 * PAGE, 5 * PAGE),
		     (long)(4 * PAGE));
	cr_assert_eq(memcmp(mem, mem + 8 * PAGE + 3, 3 * PAGE), 0);
	store_destroy(&st);
	close(fd);
	fd = open(path, O_RDONLY);
	cr_assert_eq(store_file_init(&st, fd, 0), 0);
	cr_assert_eq(store_write(&st, mem, PAGE, 0), -EBADF);
	store_destroy(&st);
}

Test(store, zero)
{
	struct io_req req[3];

	store_zero_init(&st);
	memset(mem, 1, 4 * PAGE);
	cr_assert_eq(store_read(&st, &ctx, mem, 2 * PAGE, UINT64_MAX - 5),
		     (long)(2 * PAGE));
	cr_assert_eq(mem[0] | mem[2 * PAGE - 1], 0);
	cr_assert_eq(mem[2 * PAGE], 1);
	for (int i = 0; i < 3; i++)
		req[i] = (struct io_req){ .buf = mem + (size_t)i * PAGE,
					  .len = PAGE };
	store_read_many(&st, &ctx, req, 3);
	cr_assert_eq(req[2].res, (long)PAGE);
	cr_assert_eq(mem[3 * PAGE - 1], 0);
	cr_assert_eq(store_size(&st), INT64_MAX);
	cr_assert_eq(store_write(&st, mem, 7, 0), 7);
	cr_assert_eq(store_flush(&st), 0);
	store_destroy(&st);
}

/* A user's functions. */

struct user {
	ssize_t answer;
	int calls, eintr, released;
};

static ssize_t user_read(void *store, void *buf, size_t len, uint64_t off)
{
	struct user *u = store;

	u->calls++;
	errno = 77;
	if (u->eintr-- > 0)
		return -EINTR;
	if (u->answer)
		return u->answer;
	file_fill(buf, len, off, SEED);
	return (ssize_t)len;
}

static ssize_t user_write(void *store, const void *buf, size_t len,
			  uint64_t off)
{
	struct user *u = store;

	(void)buf;
	(void)off;
	errno = 78;
	return u->answer ? u->answer : (ssize_t)len;
}

static int user_flush(void *store)
{
	return (int)((struct user *)store)->answer;
}

static int64_t user_length(void *store)
{
	return ((struct user *)store)->answer;
}

static void user_release(void *store)
{
	((struct user *)store)->released++;
}

static struct fl_store_ops user_ops = {
	.size = sizeof(user_ops),
	.read = user_read,
	.write = user_write,
	.flush = user_flush,
	.length = user_length,
	.release = user_release,
};

Test(store, user)
{
	static const struct {
		ssize_t says;
		long means;
	} odd[] = {
		{ -ENXIO, -ENXIO },   { -1, -1 },
		{ -4095, -4095 },     { -4096, -EIO },
		{ -SSIZE_MAX, -EIO }, { PAGE + 1, -EIO },
		{ SSIZE_MAX, -EIO },  { PAGE - 1, PAGE - 1 },
	};
	struct user u = { .answer = 0 };

	cr_assert_eq(store_user_init(&st, &user_ops, &u), 0);
	errno = 5;
	cr_assert_eq(store_read(&st, &ctx, mem, 3 * PAGE, 99 * PAGE),
		     (long)(3 * PAGE));
	cr_assert(file_is(mem, 3 * PAGE, 99 * PAGE, SEED));
	u.eintr = 3;
	u.calls = 0;
	cr_assert_eq(store_read(&st, &ctx, mem, PAGE, 0), (long)PAGE);
	cr_assert_eq(u.calls, 4);
	for (unsigned int i = 0; i < ARRAY_SIZE(odd); i++) {
		u.answer = odd[i].says;
		cr_assert_eq(store_read(&st, &ctx, mem, PAGE, 0), odd[i].means,
			     "%zd", u.answer);
	}
	u.answer = -ENOSPC;
	cr_assert_eq(store_write(&st, mem, PAGE, 0), -ENOSPC);
	cr_assert_eq(store_flush(&st), -ENOSPC);
	cr_assert_eq(store_size(&st), -ENOSPC);
	u.answer = 100;
	cr_assert_eq(store_write(&st, mem, PAGE, 0), -EIO);
	cr_assert_eq(store_size(&st), 100);
	u.answer = 0;
	cr_assert_eq(store_write(&st, mem, PAGE, 0), (long)PAGE);
	cr_assert_eq(errno, 5);
	cr_assert_eq(u.released, 0);
	store_destroy(&st);
	cr_assert_eq(u.released, 1);
}

/* A program built with an older header has a shorter table. */
Test(store, user_of_an_older_header)
{
	struct fl_store_ops ops = user_ops;
	struct user u = { .answer = 0 };

	ops.size = offsetof(struct fl_store_ops, write);
	cr_assert_eq(store_user_init(&st, &ops, &u), 0);
	cr_assert_eq(store_read(&st, &ctx, mem, PAGE, 0), (long)PAGE);
	cr_assert_eq(store_write(&st, mem, PAGE, 0), -EROFS);
	cr_assert_eq(store_flush(&st), 0);
	cr_assert_eq(store_size(&st), INT64_MAX);
	store_destroy(&st);
	cr_assert_eq(u.released, 0);
	ops.size = offsetof(struct fl_store_ops, read);
	cr_assert_eq(store_user_init(&st, &ops, &u), -EINVAL);
	ops = (struct fl_store_ops){ .size = sizeof(ops) };
	cr_assert_eq(store_user_init(&st, &ops, &u), -EINVAL);
	cr_assert_eq(store_user_init(&st, NULL, &u), -EINVAL);
}
