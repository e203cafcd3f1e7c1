/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_cut - files that become shorter, and longer again, under a mapping of
 * which no page was touched before: the kernel's SIGBUS past the end, by a
 * handler and without one, in one thread and in many, EFAULT in system calls,
 * and never a wait without end. With "zero" for an argument, for eof=zero:
 * zeros instead.
 * [fl:modes] signal service
 */
#include <pthread.h>
#include <stdbool.h>

#include "support/demand.h"

#define SIZE ((size_t)4 << 20)
#define ID 5
#define THREADS 8

static int fd, rw;

static void cut(size_t size)
{
	if (ftruncate(rw, (off_t)size))
		give_up("ftruncate");
}

static void refill(void)
{
	static unsigned char buf[SIZE];

	fill_as(buf, ID, 0, SIZE);
	if (pwrite(rw, buf, SIZE, 0) != (ssize_t)SIZE)
		give_up("pwrite");
}

static const size_t sizes[] = {
	SIZE - 1,
	SIZE - PAGE,
	SIZE - PAGE + 1,
	SIZE / 2,
	SIZE / 2 + 100,
	2 * PAGE + 7,
	PAGE,
	1,
	0,
};

/* From the front, from the back, and one page past the end first. */
static void by_handler(void)
{
	for (size_t i = 0; i < COUNT(sizes); i++) {
		size_t n = sizes[i], past = (n + PAGE - 1) & ~(PAGE - 1);
		unsigned char *p = map_demand(fd, SIZE);

		cut(n);
		if (past < SIZE)
			say("%zu: past the end %s, far past %s", n,
			    try_read(p + past), try_read(p + SIZE - 1));
		else
			say("%zu: last byte %s", n, try_read(p + SIZE - 1));
		say("  the rest %ld, its tail %ld", differs(p, ID, 0, n),
		    not_all(p + n, 0, past - n));
		if (past < SIZE)
			say("  past the end again %s", try_read(p + past));
		refill();
		/* A page that was read keeps what it had. */
		if (past < SIZE)
			say("  longer again %s %ld", try_read(p + SIZE - 1),
			    differs(p + past, ID, past, SIZE - past));
		munmap(p, SIZE);
	}
}

static void without_handler(void)
{
	unsigned char *p = map_demand(fd, SIZE);
	pid_t pid;

	cut(SIZE / 2);
	pid = fork(); /* a child's mappings are the kernel's */
	if (pid == 0) {
		signal(SIGBUS, SIG_DFL);
		_exit(p[SIZE - 1]);
	}
	say("inherited, no handler: %s", end_of(pid));
	pid = fork();
	if (pid == 0) {
		signal(SIGBUS, SIG_DFL);
		refill();
		p = map_demand(fd, SIZE);
		cut(SIZE / 2);
		_exit(p[SIZE - 1]);
	}
	say("no handler: %s", end_of(pid));
	refill();
	munmap(p, SIZE);
}

static void in_calls(void)
{
	unsigned char *p = map_demand(fd, SIZE);
	int pipes[2];
	ssize_t n;

	if (pipe(pipes))
		give_up("pipe");
	cut(SIZE / 2 + 10);
	n = write(pipes[1], p + SIZE / 2 + PAGE, 100);
	say("write from past the end: %s", res_i(n));
	n = write(pipes[1], p + SIZE / 2, 100);
	say("write from the tail: %zd", n);
	n = write(pipes[1], p + SIZE / 2 + PAGE - 50, 100);
	say("write across the end: %zd", n);
	refill();
	n = write(pipes[1], p + SIZE - 100, 100);
	say("longer again: %zd", n);
	close(pipes[0]);
	close(pipes[1]);
	munmap(p, SIZE);
}

static unsigned char *shared;
static __thread sigjmp_buf jump;
static __thread volatile sig_atomic_t armed;

static void on_bus(int sig)
{
	if (!armed)
		_exit(96);
	armed = 0;
	siglongjmp(jump, sig);
}

/* Is the byte neither the file's nor zero? */
__attribute__((noinline)) static bool wrong_at(size_t at)
{
	unsigned char c;

	if (sigsetjmp(jump, 1))
		return false;
	armed = 1;
	c = *(const volatile unsigned char *)(shared + at);
	armed = 0;
	return c && c != byte_of(ID, at);
}

static void *reader(void *arg)
{
	uintptr_t wrong = 0, at = (uintptr_t)arg * 7919;

	for (int i = 0; i < 400; i++) {
		at = (at * 1103515245 + 12345) % SIZE;
		wrong += wrong_at(at);
	}
	return (void *)wrong;
}

static void in_threads(void)
{
	struct sigaction old, sa = { .sa_handler = on_bus };
	pthread_t t[THREADS];
	uintptr_t wrong = 0;
	void *ret;

	sigaction(SIGBUS, &sa, &old);
	for (int round = 0; round < 5; round++) {
		shared = map_demand(fd, SIZE);
		for (uintptr_t i = 0; i < THREADS; i++)
			if (pthread_create(&t[i], NULL, reader, (void *)i))
				give_up("pthread_create");
		for (int i = 0; i < 4; i++) {
			cut(SIZE / 3 * (size_t)(i % 3));
			refill();
		}
		for (int i = 0; i < THREADS; i++) {
			pthread_join(t[i], &ret);
			wrong += (uintptr_t)ret;
		}
		munmap(shared, SIZE);
	}
	sigaction(SIGBUS, &old, NULL);
	say("threads: %lu wrong", (unsigned long)wrong);
}

/* Only under the pager, with eof=zero. */
static int zeros(void)
{
	for (size_t i = 0; i < COUNT(sizes); i++) {
		size_t n = sizes[i];
		unsigned char *p = map_demand(fd, SIZE);

		cut(n);
		if (not_all(p + n, 0, SIZE - n) >= 0)
			return 1;
		if (differs(p, ID, 0, n) >= 0)
			return 2;
		if (write(see_fd, p + n, 0) != 0)
			return 3;
		refill();
		munmap(p, SIZE);
	}
	say("zeros past the end");
	return 0;
}

int main(int argc, char **argv)
{
	char path[64];

	rw = temp_file(ID, SIZE, O_RDWR);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", rw);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		give_up("open");
	alarm(60);
	if (argc > 1 && !strcmp(argv[1], "zero"))
		return zeros();
	see_faults();
	by_handler();
	without_handler();
	in_calls();
	in_threads();
	return 0;
}
