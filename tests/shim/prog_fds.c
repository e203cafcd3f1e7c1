/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_fds - programs that close, replace and run out of descriptors. Each
 * case runs in a child and answers by its exit status: the number of the step
 * that went wrong.
 *
 * [fl:demand] service signal
 */
#include <dirent.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "support/see.h"

#define RW (PROT_READ | PROT_WRITE)
#define LEN 30000

static int fd;
static unsigned char *f, *a;

static int map(void)
{
	f = mmap(NULL, LEN, PROT_READ, MAP_PRIVATE, fd, 0);
	a = mmap(NULL, LEN, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (f == MAP_FAILED || a == MAP_FAILED || not_all(a, 0, LEN) >= 0)
		return 1;
	fill_as(a, 2, 0, LEN);
	return 0;
}

static int check(void)
{
	return differs(f, 1, 0, LEN) >= 0 || differs(a, 2, 0, LEN) >= 0;
}

static int unmap(void)
{
	return munmap(f, LEN) || munmap(a, LEN);
}

/* Everything a program does with regions, descriptors being as they are. */
static int rounds(void)
{
	for (int i = 0; i < 20; i++) {
		pid_t pid;

		if (map())
			return 11;
		if (check())
			return 12;
		if (mprotect(f, PAGE, PROT_NONE) ||
		    mprotect(f, PAGE, PROT_READ))
			return 13;
		if (madvise(a, PAGE, MADV_DONTNEED) || not_all(a, 0, PAGE) >= 0)
			return 14;
		fill_as(a, 2, 0, PAGE);
		pid = fork();
		if (pid == 0)
			_exit(check() || unmap());
		if (strcmp(end_of(pid), "exit 0"))
			return 15;
		if (check() || unmap())
			return 16;
	}
	return 0;
}

static int is_open(int n)
{
	return fcntl(n, F_GETFD) != -1 || errno != EBADF;
}

static int all_by_close_range(void)
{
	if (map() || close_range(3, (unsigned int)fd - 1, 0) ||
	    close_range((unsigned int)fd + 1, ~0u, 0))
		return 1;
	if (check() || unmap())
		return 2;
	return rounds();
}

static int all_by_closefrom(void)
{
	if (dup2(fd, 3) != 3 || map())
		return 1;
	fd = 3;
	closefrom(4);
	if (check() || unmap())
		return 2;
	return rounds();
}

/* The loop of old daemons, standard streams included. */
static int all_by_loop(void)
{
	if (map())
		return 1;
	for (int i = 0; i < 70000; i++)
		if (i != fd)
			close(i);
	if (check() || unmap())
		return 2;
	return rounds();
}

static int all_by_raw_loop(void)
{
	if (map())
		return 1;
	for (int i = 0; i < 70000; i++)
		if (i != fd)
			syscall(SYS_close, i);
	if (check() || unmap())
		return 2;
	return rounds();
}

/* Only those that /proc/self/fd lists, as Python and Java do. */
static int all_by_listing(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;

	if (!dir || map())
		return 1;
	while ((e = readdir(dir))) {
		int n = atoi(e->d_name);

		if (n > 2 && n != fd && n != dirfd(dir))
			close(n);
	}
	closedir(dir);
	if (check() || unmap())
		return 2;
	return rounds();
}

static int storm(void)
{
	int null = open("/dev/null", O_RDONLY);

	if (map())
		return 1;
	for (int i = 0; i < 5000; i++)
		if (i != fd && i != null && dup2(null, i) != i)
			return 2;
	if (check() || unmap())
		return 3;
	for (int i = 0; i < 300; i++) {
		int n = fcntl(fd, F_DUPFD, 0);

		if (n < 0 || dup3(null, n, O_CLOEXEC) != n)
			return 4;
		if (map() || check() || unmap())
			return 5;
	}
	return rounds();
}

static int none_left(void)
{
	struct rlimit none = { 0, 0 };

	if (map() || setrlimit(RLIMIT_NOFILE, &none))
		return 1;
	if (check() || unmap())
		return 2;
	return rounds();
}

/* The lowest free numbers stay the same: programs count on it. */
static int numbers(void)
{
	int was = dup(0), now;

	close(was);
	if (map())
		return 1;
	now = dup(0);
	close(now);
	if (now != was)
		return 2;
	if (unmap())
		return 3;
	now = dup(0);
	close(now);
	if (now != was)
		return 4;
	return 0;
}

/* Nothing of the pager's may be visible as an open descriptor. */
static int count(void)
{
	int open_before = 0, open_after = 0;

	for (int i = 0; i < 1024; i++)
		open_before += is_open(i);
	for (int i = 0; i < 100; i++)
		if (map() || unmap())
			return 1;
	for (int i = 0; i < 1024; i++)
		open_after += is_open(i);
	return open_before == open_after ? 0 : 2;
}

/* The file's descriptor closed and its number reused before the unmap. */
static int reused(void)
{
	for (int i = 0; i < 50; i++) {
		int n = fcntl(fd, F_DUPFD, 0), other;
		unsigned char *p;

		p = mmap(NULL, LEN, PROT_READ, MAP_PRIVATE, n, 0);
		close(n);
		other = temp_file(7, LEN, O_RDONLY);
		if (dup2(other, n) != n)
			return 1;
		if (p == MAP_FAILED || differs(p, 1, 0, LEN) >= 0)
			return 2;
		if (mprotect(p, PAGE, RW) || differs(p, 1, 0, LEN) >= 0)
			return 3;
		if (madvise(p, LEN, MADV_DONTNEED) ||
		    differs(p, 1, 0, LEN) >= 0)
			return 4;
		if (munmap(p, LEN))
			return 5;
		close(n);
		if (n != other)
			close(other);
	}
	return 0;
}

static void try(const char *name, int (*what)(void))
{
	pid_t pid = fork();

	if (pid == 0) {
		alarm(60);
		_exit(what());
	}
	say("%s: %s", name, end_of(pid));
}

int main(void)
{
	int open_now = 0;

	fd = temp_file(1, LEN, O_RDONLY);
	for (int i = 0; i < 1024; i++)
		open_now += is_open(i);
	say("open: %d", open_now);
	try("close_range", all_by_close_range);
	try("closefrom", all_by_closefrom);
	try("close loop", all_by_loop);
	try("raw close loop", all_by_raw_loop);
	try("listing", all_by_listing);
	try("dup2 storm", storm);
	try("no descriptors", none_left);
	try("numbers", numbers);
	try("count", count);
	try("reused", reused);
	return 0;
}
