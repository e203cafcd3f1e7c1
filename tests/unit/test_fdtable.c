/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Descriptors that a program cannot have, and that move when it wants them. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault/fdtable.h"

static int file_with(char c)
{
	char name[] = "/tmp/fl-fds-XXXXXX";
	int fd = mkstemp(name);

	cr_assert_geq(fd, 0);
	unlink(name);
	cr_assert_eq(write(fd, &c, 1), 1);
	return fd;
}

static char first(int fd)
{
	char c = 0;

	return pread(fd, &c, 1, 0) == 1 ? c : '?';
}

Test(fdtable, reserves)
{
	_Atomic(int) a = -1, b = -1;
	int fd = file_with('a');

	cr_expect_not(fd_reserved(fd));
	cr_expect_eq(fd_next(0), -1);
	cr_assert_geq(fd_reserve(fd, &a), 0);
	cr_assert_geq(fd_reserve(fd, &b), 0);
	cr_expect_gt(fd_get(&a), 100);
	cr_expect_eq(fcntl(fd_get(&a), F_GETFD), FD_CLOEXEC);
	cr_expect(fd_reserved(fd_get(&a)) && fd_reserved(fd_get(&b)));
	cr_expect_not(fd_reserved(fd));
	cr_expect_not(fd_reserved(-1));
	cr_expect_not(fd_reserved(FD_TABLE_SIZE + 5));
	cr_expect_eq(fd_next(0), fd_get(&a));
	cr_expect_eq(fd_next(fd_get(&a) + 1), fd_get(&b));
	cr_expect_eq(fd_next(fd_get(&b) + 1), -1);
	fd_release(&a);
	cr_expect_eq(fd_get(&a), -1);
	cr_expect_eq(fd_next(0), fd_get(&b));
	fd_release(&b);
	fd_release(&b);
	cr_expect_eq(fd_next(0), -1);
	cr_expect_eq(first(fd), 'a');
}

Test(fdtable, moves)
{
	_Atomic(int) a = -1;
	int fd = file_with('a'), other = file_with('b'), at, bare;

	at = fd_reserve(fd, &a);
	cr_assert_eq(fd_dup(other, at, -1), at);
	cr_expect_neq(fd_get(&a), at);
	cr_expect_not(fd_still(&a, at));
	cr_expect_not(fd_reserved(at));
	cr_expect_eq(first(at), 'b');
	cr_expect_eq(first(fd_get(&a)), 'a');
	cr_expect_eq(fd_dup(other, at, O_CLOEXEC), at, "nothing in the way");
	cr_expect_eq(fd_dup(fd_get(&a), 200, -1), -EBADF, "it is not there");
	cr_expect_eq(fd_close(fd_get(&a)), -EBADF);
	cr_expect_eq(fd_dup(-1, fd_get(&a), -1), -EBADF);
	cr_expect_eq(fd_close_range(300, ~0u, 0), 0);
	cr_expect_eq(fcntl(at, F_GETFD), -1);
	cr_expect_eq(first(fd_get(&a)), 'a');
	/* One that nobody could tell. */
	bare = fcntl(fd, F_DUPFD, 500);
	cr_assert_eq(fd_adopt(bare, NULL), 0);
	cr_expect_eq(fcntl(bare, F_GETFD), FD_CLOEXEC);
	cr_expect_eq(fd_dup(other, bare, -1), -EBUSY);
	fd_release_nr(bare);
	cr_expect_eq(fcntl(bare, F_GETFD), -1);
	cr_expect_eq(fd_adopt(bare, &a), -EBADF);
	fd_release(&a);
}

Test(fdtable, limits)
{
	struct rlimit lim = { 64, 64 };
	static _Atomic(int) owner[64];
	int fd = file_with('a'), n = 0;

	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &lim), 0);
	while (n < 64 && fd_reserve(fd, &owner[n]) >= 0)
		n++;
	cr_expect_eq(n, 32, "half of them");
	cr_expect_eq(fd_reserve(fd, &owner[n]), -EMFILE);
	cr_expect_lt(dup(fd), 20);
	while (n-- > 0)
		fd_release(&owner[n]);
	cr_expect_eq(fd_next(0), -1);
}

/* A reader of a descriptor that moves all the time never takes the program's
 * file for it. */
static _Atomic(int) moving = -1;
static _Atomic(bool) stop;
static _Atomic(uint64_t) wrong, reads;

static void *reader(void *arg)
{
	char c;
	int fd;

	(void)arg;
	while (!ld_rlx(&stop)) {
		do {
			fd = fd_get(&moving);
			sched_yield(); /* it moves meanwhile */
			c = first(fd);
		} while (!fd_still(&moving, fd));
		add_rlx(&reads, 1u);
		if (c != 'a')
			add_rlx(&wrong, 1u);
	}
	return NULL;
}

Test(fdtable, moves_under_readers)
{
	int fd = file_with('a'), other = file_with('b'), at;
	pthread_t t[2];

	cr_assert_geq(fd_reserve(fd, &moving), 0);
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, reader, NULL);
	for (int i = 0; i < 2000 || ld_rlx(&reads) < 1000; i++) {
		at = fd_get(&moving);
		cr_assert_eq(fd_dup(other, at, -1), at);
		close(at);
	}
	st_rlx(&stop, true);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	cr_expect_eq(ld_rlx(&wrong), 0);
	fd_release(&moving);
}

/* Who has descriptors of his own does not move the others'. */
static _Atomic(int) kept = -1;

static void *loner(void *arg)
{
	int *ret = arg;

	*ret = unshare(CLONE_FILES) ? 77 : (int)fd_dup(0, fd_get(&kept), -1);
	return NULL;
}

Test(fdtable, shares)
{
	int fd = file_with('a'), ret = 0, st, at;
	pthread_t t;
	pid_t pid;

	at = fd_reserve(fd, &kept);
	cr_assert_geq(at, 0);
	pthread_create(&t, NULL, loner, &ret);
	pthread_join(t, NULL);
	cr_expect_eq(ret, -EBUSY);
	pid = vfork();
	if (pid == 0)
		_exit(fd_dup(0, at, -1) == -EBUSY ? 0 : 1);
	waitpid(pid, &st, 0);
	cr_expect_eq(st, 0, "a child of vfork");
	cr_expect_eq(fd_get(&kept), at);
	pid = fork();
	if (pid == 0) {
		fd_fork_child();
		_exit(fd_dup(0, at, -1) == at && fd_get(&kept) != at &&
				      first(fd_get(&kept)) == 'a' ?
			      0 :
			      1);
	}
	waitpid(pid, &st, 0);
	cr_expect_eq(st, 0, "a child of fork");
	cr_expect_eq(fd_dup(0, at, -1), at);
	cr_expect_neq(fd_get(&kept), at);
	fd_release(&kept);
}
