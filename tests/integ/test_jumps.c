/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Handlers that leave by siglongjmp, out of the library's calls, as programs
 * with alarm(2) time-outs do. What the interrupted call was about may be lost;
 * no lock stays held, no signal blocked, nobody waits for ever.
 *
 * Out of fork: tests/shim/prog_jumps. glibc does not bear it in a process that
 * ever had threads, as those of Criterion have.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faultline.h"

#define PAGE ((size_t)4096)
#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define ROUNDS 40
#define JUMPS 100
#define FILE_LEN ((size_t)200000)

static int fd;

static void make_file(void)
{
	static char buf[FILE_LEN];
	char name[] = "/tmp/fl-integ-XXXXXX";
	int rw = mkstemp(name);

	memset(buf, 'x', sizeof(buf));
	cr_assert_geq(rw, 0);
	cr_assert_eq(write(rw, buf, sizeof(buf)), (ssize_t)sizeof(buf));
	fd = open(name, O_RDONLY | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	unlink(name);
	close(rw);
}

/* The default pager, so that opening it is interrupted, too. Returns the number
 * of wrong answers. */
static int both_kinds(unsigned int i)
{
	size_t len = 1 + i * 7919u % (FILE_LEN - 1);
	size_t rounded = (len + PAGE - 1) & ~(PAGE - 1);
	char *f = fl_mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
	char *a = fl_mmap(NULL, len, RW, ANON, -1, 0), *b;
	struct fl_pager *p = fl_pager_default();
	int bad = 0;

	if (f == MAP_FAILED || a == MAP_FAILED)
		return 1;
	bad += f[0] != 'x' || f[len - 1] != 'x' || a[0] || a[len - 1];
	a[0] = a[len - 1] = 1;
	if (i % 3 == 0) { /* becomes the kernel's */
		bad += fl_pager_mprotect(p, f, PAGE, PROT_NONE) != 0;
		bad += fl_pager_mprotect(p, f, PAGE, PROT_READ) != 0;
		bad += f[0] != 'x';
	}
	if (i % 5 == 0) {
		b = fl_mmap(f, PAGE, RW, ANON | MAP_FIXED, -1, 0);
		bad += b != f || b[0];
	}
	bad += fl_munmap(f, rounded) != 0;
	bad += a[0] != 1;
	bad += fl_munmap(a, rounded) != 0;
	return bad;
}

static sigjmp_buf out;
static volatile sig_atomic_t may_jump;

static void jumper(int sig)
{
	(void)sig;
	if (may_jump) {
		may_jump = 0;
		siglongjmp(out, 1);
	}
}

static void timer(suseconds_t us)
{
	struct itimerval it = { { 0, us }, { 0, us } };

	cr_assert_eq(setitimer(ITIMER_REAL, &it, NULL), 0);
}

/* One child that maps, without more ado. Returns its exit status. */
static int child_maps(void)
{
	pid_t pid = fork();
	int st = -1;

	if (pid == 0) {
		alarm(20);
		_exit(both_kinds(7) + both_kinds(15));
	}
	while (waitpid(pid, &st, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(st) ? WEXITSTATUS(st) : 100 + WTERMSIG(st);
}

/* In a process of its own: a pager that still has all to do. Returns the number
 * of things wrong. */
static int round_of_jumps(unsigned int round)
{
	struct sigaction sa = { .sa_handler = jumper };
	static volatile unsigned int i;
	struct fl_pager *p;
	sigset_t blocked;
	int bad = 0;

	sigaction(SIGALRM, &sa, NULL);
	timer(50 + (suseconds_t)round * 20);
	for (i = 0; i < JUMPS; i++) {
		if (sigsetjmp(out, 1))
			continue;
		may_jump = 1;
		for (unsigned int k = i; k < i + 500 && may_jump; k++) {
			(void)both_kinds(k);
			if (k % 16 == 0)
				fl_trim(fl_pager_default());
		}
		may_jump = 0;
	}
	timer(0);
	/* Whatever hangs from here on dies by this. */
	signal(SIGALRM, SIG_DFL);
	alarm(20);
	sigprocmask(SIG_BLOCK, NULL, &blocked);
	for (int s = 1; s < 32; s++)
		bad += sigismember(&blocked, s) == 1;
	for (unsigned int k = 0; k < 300; k++)
		bad += both_kinds(k) != 0;
	p = fl_pager_default();
	bad += fl_trim(p) < 0;
	bad += child_maps();
	bad += fl_shrink(p) < 0;
	return bad < 100 ? bad : 100;
}

Test(jumps, leave_nothing_held)
{
	make_file();
	for (unsigned int round = 0; round < ROUNDS; round++) {
		pid_t pid = fork();
		int st = -1;

		cr_assert_geq(pid, 0);
		if (pid == 0)
			_exit(round_of_jumps(round));
		cr_assert_eq(waitpid(pid, &st, 0), pid);
		cr_assert(WIFEXITED(st) && WEXITSTATUS(st) == 0,
			  "round %u: status %#x", round, (unsigned int)st);
	}
}
