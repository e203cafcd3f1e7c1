/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_limits - users and resource limits: set-uid after the start, an
 * ordinary user throughout, limits lowered by the program and lowered before
 * it starts. Each case is a child whose exit status names the failing step.
 *
 * [fl:demand] service
 */
#include <grp.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "support/see.h"

#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define MIB ((size_t)1 << 20)
#define LEN 30000
#define NOBODY 65534

static int fd;

/* Maps of the common kinds; 0 when all are right. */
static int rounds(void)
{
	for (int i = 0; i < 50; i++) {
		unsigned char *f, *s, *a;
		pid_t pid;

		f = mmap(NULL, LEN, PROT_READ, MAP_PRIVATE, fd, 0);
		s = mmap(NULL, LEN, PROT_READ, MAP_SHARED, fd, 0);
		a = mmap(NULL, LEN, RW, ANON, -1, 0);
		if (f == MAP_FAILED || s == MAP_FAILED || a == MAP_FAILED)
			return 11;
		if (differs(f, 1, 0, LEN) >= 0 || differs(s, 1, 0, LEN) >= 0)
			return 12;
		if (not_all(a, 0, LEN) >= 0)
			return 13;
		memset(a, 5, LEN);
		pid = i % 10 ? -1 : fork();
		if (pid == 0)
			_exit(differs(f, 1, 0, LEN) >= 0 ||
			      not_all(a, 5, LEN) >= 0 || munmap(f, LEN));
		if (pid > 0 && strcmp(end_of(pid), "exit 0"))
			return 14;
		if (munmap(f, LEN) || munmap(s, LEN) || munmap(a, LEN))
			return 15;
	}
	return 0;
}

static int become_nobody(void)
{
	if (getuid())
		return 0;
	return setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY);
}

static int root_then_nobody(void)
{
	unsigned char *a = mmap(NULL, LEN, RW, ANON, -1, 0);
	int ret = rounds();

	if (ret)
		return ret;
	memset(a, 3, LEN);
	if (become_nobody())
		return 1;
	if (not_all(a, 3, LEN) >= 0 || munmap(a, LEN))
		return 2;
	return rounds();
}

static int effective_user(void)
{
	int ret;

	if (getuid())
		return rounds();
	for (int i = 0; i < 3; i++) {
		if (seteuid(NOBODY))
			return 1;
		ret = rounds();
		if (ret)
			return ret;
		if (seteuid(0))
			return 2;
		ret = rounds();
		if (ret)
			return ret;
	}
	return 0;
}

static int lower(int what, rlim_t to)
{
	struct rlimit l = { to, to };

	return setrlimit((__rlimit_resource_t)what, &l);
}

/* A gigabyte of address space is plenty for this program. */
static int less_space(void)
{
	unsigned char *p;
	int ret;

	if (lower(RLIMIT_AS, 1024 * MIB))
		return 1;
	ret = rounds();
	if (ret)
		return ret;
	p = malloc(64 * MIB);
	if (!p)
		return 2;
	memset(p, 1, 64 * MIB);
	free(p);
	p = mmap(NULL, 100 * MIB, RW, ANON, -1, 0);
	if (p == MAP_FAILED)
		return 3;
	p[100 * MIB - 1] = 1;
	if (munmap(p, 100 * MIB))
		return 4;
	/* And more than that is not to be had. */
	p = mmap(NULL, 1025 * MIB, RW, ANON, -1, 0);
	if (p != MAP_FAILED || errno != ENOMEM)
		return 5;
	return rounds();
}

static int less_data(void)
{
	if (lower(RLIMIT_DATA, 64 * MIB))
		return 1;
	return rounds();
}

static int less_lock(void)
{
	unsigned char *p;
	int ret;

	if (become_nobody() || lower(RLIMIT_MEMLOCK, 64 * 1024))
		return 1;
	ret = rounds();
	if (ret)
		return ret;
	p = mmap(NULL, 256 * 1024, RW, ANON, -1, 0);
	if (p == MAP_FAILED)
		return 2;
	memset(p, 4, 256 * 1024);
	if (!mlock(p, 256 * 1024) || errno != ENOMEM)
		return 3;
	if (mlock(p, 16 * 1024))
		return 4;
	if (not_all(p, 4, 256 * 1024) >= 0 || munmap(p, 256 * 1024))
		return 5;
	/* Locked memory that is unmapped is locked no more. */
	for (int i = 0; i < 20; i++) {
		p = mmap(NULL, 32 * 1024, RW, ANON, -1, 0);
		if (p == MAP_FAILED || mlock(p, 32 * 1024))
			return 6;
		if (munmap(p, 32 * 1024))
			return 7;
	}
	return rounds();
}

static int less_files(void)
{
	if (lower(RLIMIT_NOFILE, (rlim_t)fd + 1))
		return 1;
	return rounds();
}

static int no_growth(void)
{
	if (lower(RLIMIT_FSIZE, 0) || lower(RLIMIT_CORE, 0))
		return 1;
	return rounds();
}

static int undumpable(void)
{
	if (prctl(PR_SET_DUMPABLE, 0))
		return 1;
	return rounds();
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

/* Starts this program anew, limited or another user from the first moment. */
static void again(const char *name, int (*before)(void))
{
	pid_t pid = fork();

	if (pid == 0) {
		char num[16];

		alarm(60);
		if (before())
			_exit(90);
		snprintf(num, sizeof(num), "%d", fd);
		execl("/proc/self/exe", "prog_limits", num, (char *)NULL);
		_exit(91);
	}
	say("%s: %s", name, end_of(pid));
}

static int small_space(void)
{
	return lower(RLIMIT_AS, 256 * MIB);
}

static int tiny_space(void)
{
	return lower(RLIMIT_AS, 24 * MIB);
}

static int small_data(void)
{
	return lower(RLIMIT_DATA, 32 * MIB);
}

static int few_files(void)
{
	return lower(RLIMIT_NOFILE, (rlim_t)fd + 2);
}

static int small_files(void)
{
	return lower(RLIMIT_FSIZE, 0);
}

static int small_lock(void)
{
	return lower(RLIMIT_MEMLOCK, 0) || become_nobody();
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		fd = atoi(argv[1]);
		return rounds();
	}
	fd = temp_file(1, LEN, O_RDONLY);
	fcntl(fd, F_SETFD, 0);
	try("root, then nobody", root_then_nobody);
	try("effective user", effective_user);
	try("address space lowered", less_space);
	try("data lowered", less_data);
	try("locked memory lowered", less_lock);
	try("files lowered", less_files);
	try("file size lowered", no_growth);
	try("not dumpable", undumpable);
	again("nobody from the start", become_nobody);
	again("256 MiB of address space", small_space);
	again("24 MiB of address space", tiny_space);
	again("32 MiB of data", small_data);
	again("few files", few_files);
	again("no file growth", small_files);
	again("nobody, no locked memory", small_lock);
	return 0;
}
