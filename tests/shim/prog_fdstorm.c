/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_fdstorm - a program that closes and replaces descriptors wholesale, in
 * the ways programs do, while regions are mapped: their pages keep coming, and
 * each call answers as if the descriptors under them were not there.
 * [fl:modes] signal service
 */
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "support/demand.h"

#define SIZE ((size_t)1 << 20)
#define ID 13
#define TOP 1200

#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1u << 1)
#endif
#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1u << 2)
#endif

static unsigned char *region[8];
static char path[64];

/* Their descriptors are closed at once, as programs do. */
static void map_all(void)
{
	for (size_t i = 0; i < COUNT(region); i++) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);

		if (fd < 0)
			give_up("open");
		region[i] = map_demand(fd, SIZE);
		close(fd);
	}
}

/* Every page is right; the regions are gone afterwards. */
static void check(const char *what)
{
	unsigned int wrong = 0;

	for (size_t i = 0; i < COUNT(region); i++) {
		wrong += differs(region[i], ID, 0, SIZE) >= 0;
		munmap(region[i], SIZE);
	}
	say("%s: %u wrong", what, wrong);
	map_all();
}

/* Which of the first TOP descriptors the program has, asked by fcntl. */
static const char *open_now(void)
{
	static char buf[400];
	size_t n = 0;

	buf[0] = 0;
	for (int fd = 0; fd < TOP && n < sizeof(buf) - 8; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			n += (size_t)snprintf(buf + n, sizeof(buf) - n, "%d ",
					      fd);
	return buf;
}

static void in_child(const char *what, void (*fn)(void))
{
	pid_t pid = fork();

	if (pid == 0) {
		map_all();
		fn();
		check(what);
		_exit(0);
	}
	say("%s: %s", what, end_of(pid));
}

/* Keeps the standard ones and the output. */
static void close_each(void)
{
	unsigned int closed = 0, bad = 0;

	for (int fd = 3; fd < TOP; fd++)
		if (fd != see_fd && close(fd) == 0)
			closed++;
		else
			bad += fd != see_fd && errno != EBADF;
	say("closed %u, %u odd, open %s", closed, bad, open_now());
}

static void close_each_raw(void)
{
	unsigned int closed = 0;

	for (int fd = 3; fd < TOP; fd++)
		closed += fd != see_fd && syscall(SYS_close, fd) == 0;
	say("closed %u, open %s", closed, open_now());
}

static void close_in_range(void)
{
	SAY_I(close_range(3, ~0u, 0));
	say("open %s", open_now());
	SAY_I(close_range(5, 4, 0));
	SAY_I(close_range(3, ~0u, 0x4000));
	SAY_I(close_range(700, 2000, 0));
}

static void close_in_range_raw(void)
{
	SAY_I(syscall(SYS_close_range, 3, ~0u, 0));
	say("open %s", open_now());
}

static void close_from(void)
{
	closefrom(3);
	say("open %s", open_now());
}

static void close_on_exec(void)
{
	int fd = open("/dev/null", O_RDONLY);

	SAY_I(close_range(3, ~0u, CLOSE_RANGE_CLOEXEC));
	say("flags %d", fcntl(fd, F_GETFD));
}

static void *unsharer(void *arg)
{
	(void)arg;
	say("unshare: %s", res_i(close_range(3, ~0u, CLOSE_RANGE_UNSHARE)));
	say("  wrong %d", differs(region[0], ID, 0, SIZE) >= 0);
	return NULL;
}

static void unshare_them(void)
{
	int fd = open("/dev/null", O_RDONLY);
	pthread_t t;

	if (pthread_create(&t, NULL, unsharer, NULL))
		give_up("pthread_create");
	pthread_join(t, NULL);
	say("mine: %s", res_i(fcntl(fd, F_GETFD)));
}

/* Puts a file on every number, one after the other, and all at once. */
static void dup_over(void)
{
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	unsigned int wrong = 0;
	struct stat a, b;

	fstat(fd, &a);
	for (int to = fd + 1; to < TOP; to++) {
		wrong += dup2(fd, to) != to;
		wrong += fstat(to, &b) != 0 || a.st_rdev != b.st_rdev;
		wrong += fcntl(to, F_GETFD) != 0;
		if (to % 100 == 0)
			wrong += region[to / 100 % 8][to] != byte_of(ID, to);
		wrong += close(to) != 0;
	}
	for (int to = fd + 1; to < TOP; to++)
		wrong += dup3(fd, to, O_CLOEXEC) != to;
	for (int to = fd + 1; to < TOP; to++) {
		wrong += fstat(to, &b) != 0 || a.st_rdev != b.st_rdev;
		wrong += fcntl(to, F_GETFD) != FD_CLOEXEC;
	}
	say("dup: %u wrong", wrong);
	for (int to = fd + 1; to < TOP; to++)
		wrong += close(to) != 0;
	say("closed: %u wrong", wrong);
	SAY_I(dup2(900, 901));
	SAY_I(dup2(-1, 1000));
	SAY_I(dup2(fd, -1));
	SAY_I(dup3(fd, fd, 0));
	SAY_I(dup3(fd, 1000, 0x1234));
	SAY_I(dup2(fd, fd));
	say("open %s", open_now());
}

/* The same while other threads fault. */
static volatile int stop;
static unsigned long bad_bytes, rounds;

static void *toucher(void *arg)
{
	unsigned int k = (unsigned int)(uintptr_t)arg;

	for (unsigned int i = 0; !stop || i < 20; i++) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		unsigned char *p;

		/* The storm may have closed it, or put its own there. */
		p = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, fd, 0);
		if (fd >= 0)
			close(fd);
		if (p == MAP_FAILED)
			continue;
		for (size_t off = k * 512; off < SIZE; off += 3 * PAGE)
			if (p[off] != byte_of(ID, off))
				__atomic_add_fetch(&bad_bytes, 1,
						   __ATOMIC_RELAXED);
		munmap(p, SIZE);
		__atomic_add_fetch(&rounds, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void storm(void)
{
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	unsigned long wrong = 0;
	pthread_t t[3];

	for (size_t i = 0; i < COUNT(t); i++)
		if (pthread_create(&t[i], NULL, toucher, (void *)i))
			give_up("pthread_create");
	for (int turn = 0; turn < 12; turn++) {
		for (int to = 600; to < TOP; to++) {
			wrong += dup2(fd, to) != to;
			if (to % 3 == turn % 3)
				wrong += close(to) != 0;
		}
		wrong += close_range(600, ~0u, 0) != 0;
		for (int to = 600; to < TOP; to++)
			wrong += close(to) == 0 || errno != EBADF;
	}
	stop = 1;
	for (size_t i = 0; i < COUNT(t); i++)
		pthread_join(t[i], NULL);
	say("storm: %lu wrong, %lu bad bytes, %s", wrong, bad_bytes,
	    rounds ? "rounds" : "no rounds");
}

/* A child of vfork arranges its descriptors and becomes another program. */
static void spawner(void)
{
	char *none[] = { NULL };
	pid_t pid = vfork();

	if (pid == 0) {
		dup2(see_fd, 1);
		close_range(3, ~0u, 0);
		execle("/bin/sh", "sh", "-c",
		       "for f in /proc/self/fd/*; do "
		       "[ ${f##*/} -lt 3 ] || [ ! -e $f ] || n=x$n; done; "
		       "echo \"program: ${n:-nothing} left\"",
		       NULL, none);
		_exit(9);
	}
	say("spawned: %s", end_of(pid));
}

/* A file with a name, which outlives its descriptors. */
static void make_file(void)
{
	static unsigned char buf[SIZE];
	int fd;

	snprintf(path, sizeof(path), "%.40s/fl-storm-XXXXXX", temp_dir());
	fd = mkostemp(path, O_CLOEXEC);
	fill_as(buf, ID, 0, SIZE);
	if (fd < 0 || write(fd, buf, SIZE) != (ssize_t)SIZE)
		give_up("mkostemp");
	close(fd);
}

int main(void)
{
	struct rlimit lim = { 4096, 4096 };

	setrlimit(RLIMIT_NOFILE, &lim);
	make_file();
	map_all();
	in_child("close", close_each);
	in_child("raw close", close_each_raw);
	in_child("close_range", close_in_range);
	in_child("raw close_range", close_in_range_raw);
	in_child("closefrom", close_from);
	in_child("close on exec", close_on_exec);
	in_child("unshare", unshare_them);
	in_child("dup", dup_over);
	in_child("storm", storm);
	in_child("spawner", spawner);
	check("parent");
	unlink(path);
	return 0;
}
