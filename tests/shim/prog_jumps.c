/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_jumps - siglongjmp out of a signal handler that interrupted a mapping
 * call, or a fork, as programs with alarm(2) time-outs do. What the interrupted call had
 * mapped is lost to the program; everything after it works.
 *
 * [fl:demand] service signal
 */
#include <sys/time.h>

#include "support/see.h"

#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)

static int fd;

/* One round trip; 0 when all is right. Async-signal-safe by mmap's habit. */
static int round_trip(unsigned int i)
{
	size_t len = 1 + (i * 7919u) % 60000;
	unsigned char *p, *q;
	int bad = 0;

	p = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
	q = mmap(NULL, len, RW, ANON, -1, 0);
	if (p == MAP_FAILED || q == MAP_FAILED)
		return 1;
	bad += not_all(q, 0, len) >= 0;
	q[0] = q[len - 1] = (unsigned char)i | 1;
	bad += differs(p, 1, 0, len) >= 0;
	bad += munmap(p, len) != 0;
	bad += q[0] != ((unsigned char)i | 1) || q[len - 1] != q[0];
	bad += munmap(q, len) != 0;
	return bad;
}

static void handler_on(int sig, void (*fn)(int), int flags)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = fn;
	sa.sa_flags = flags;
	if (sigaction(sig, &sa, NULL))
		give_up("sigaction");
}

static void timer(suseconds_t us)
{
	struct itimerval it = { { 0, us }, { 0, us } };

	if (setitimer(ITIMER_REAL, &it, NULL))
		give_up("setitimer");
}

/* Out of the handler by a jump, leaving a mapping call where it was. */
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

static void jumps(void)
{
	static volatile unsigned int i, jumped;
	static unsigned long bad;

	handler_on(SIGALRM, jumper, 0);
	timer(300);
	for (i = 0; i < 300; i++) {
		if (sigsetjmp(out, 1)) {
			jumped++;
			continue;
		}
		may_jump = 1;
		for (int k = 0; k < 500 && may_jump; k++) {
			(void)round_trip((unsigned int)k);
			if (k % 32 == 0 && fork() == 0)
				_exit(0);
		}
		may_jump = 0;
	}
	timer(0);
	while (waitpid(-1, NULL, 0) > 0)
		;
	for (unsigned int k = 0; k < 2000; k++)
		bad += round_trip(k) != 0;
	say("jumps out of handlers: some %d, afterwards %lu wrong", jumped > 0,
	    bad);
}

int main(void)
{
	pid_t pid;

	fd = temp_file(1, 70000, O_RDONLY);
	jumps();
	pid = fork();
	if (pid == 0) {
		int bad = 0;

		alarm(30);
		for (unsigned int k = 0; k < 500; k++)
			bad += round_trip(k);
		_exit(bad ? 1 : 0);
	}
	say("a child: %s", end_of(pid));
	return 0;
}
