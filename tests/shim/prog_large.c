/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_large - offsets beyond 4 GiB, sparse files, large mappings of all
 * kinds, and places: tmpfs, a root directory without anything in it.
 *
 * [fl:demand] service signal
 */
#include <sys/vfs.h>

#include "support/see.h"

#define RW (PROT_READ | PROT_WRITE)
#define PANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

static void far_offsets(void)
{
	static const off_t at[] = { 0,
				    (off_t)GIB,
				    (off_t)(4 * GIB) - 4096,
				    (off_t)(4 * GIB),
				    (off_t)(5 * GIB),
				    (off_t)(64 * GIB) };
	int rw = temp_file(1, 0, O_RDWR), fd;
	unsigned char buf[8192];
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", rw);
	fd = open(path, O_RDONLY);
	if (fd < 0 || ftruncate(rw, (off_t)(64 * GIB) + 5000))
		give_up("ftruncate");
	for (unsigned int i = 0; i < COUNT(at); i++) {
		fill_as(buf, i, 0, 5000);
		if (pwrite(rw, buf, 5000, at[i]) != 5000)
			give_up("pwrite");
	}
	for (unsigned int i = 0; i < COUNT(at); i++) {
		unsigned char *p, *q;

		p = mmap(NULL, 5000, PROT_READ, MAP_PRIVATE, fd, at[i]);
		q = mmap(NULL, 5000, RW, MAP_PRIVATE, fd, at[i]);
		say("offset %u: %s %s %ld %ld", i, res_p(p), res_p(q),
		    differs(p, i, 0, i == 2 ? 4096 : 5000),
		    differs(q, i, 0, i == 2 ? 4096 : 5000));
		munmap(p, 5000);
		munmap(q, 5000);
	}
	close(fd);
	close(rw);
}

/* Sparse maps are zero, whether read whole or not. */
static void sizes(void)
{
	static const size_t len[] = { 300000,   MIB,       4 * MIB + 1,
				      16 * MIB, 100 * MIB, 3 * GIB };

	for (size_t i = 0; i < COUNT(len); i++) {
		int rw = temp_file(1, 0, O_RDWR), fd;
		unsigned char *p, *a;
		char path[64];

		snprintf(path, sizeof(path), "/proc/self/fd/%d", rw);
		fd = open(path, O_RDONLY);
		if (ftruncate(rw, (off_t)len[i]) ||
		    pwrite(rw, "end", 3, (off_t)len[i] - 3) != 3)
			give_up("sparse file");
		p = mmap(NULL, len[i], PROT_READ, MAP_PRIVATE, fd, 0);
		a = mmap(NULL, len[i], RW, PANON | MAP_NORESERVE, -1, 0);
		say("%zu: %s %s", len[i], res_p(p), res_p(a));
		say("  %d %d %.3s", p[0], p[len[i] / 2], p + len[i] - 3);
		a[len[i] - 1] = 1;
		say("  %d %d", a[0], a[len[i] / 2]);
		SAY_I(munmap(a, len[i]));
		/* In halves and odd pieces. */
		SAY_I(munmap(p, len[i] / 2 & ~(PAGE - 1)));
		say("  %.3s", p + len[i] - 3);
		SAY_I(munmap(p, len[i]));
		close(fd);
		close(rw);
	}
}

static int rounds(int fd)
{
	for (int i = 0; i < 100; i++) {
		unsigned char *f, *a;

		f = mmap(NULL, 30000, PROT_READ, MAP_PRIVATE, fd, 0);
		a = mmap(NULL, 30000, RW, PANON, -1, 0);
		if (f == MAP_FAILED || a == MAP_FAILED ||
		    differs(f, 1, 0, 30000) >= 0 || not_all(a, 0, 30000) >= 0)
			return 1;
		memset(a, 1, 30000);
		if (munmap(f, 30000) || munmap(a, 30000))
			return 2;
	}
	return 0;
}

static void tmpfs(void)
{
	const char *was = getenv("TMPDIR");
	char old[512];
	int fd;

	snprintf(old, sizeof(old), "%s", was ? was : "");
	setenv("TMPDIR", "/dev/shm", 1);
	fd = temp_file(1, 30000, O_RDONLY);
	say("tmpfs: %d", rounds(fd));
	close(fd);
	if (was)
		setenv("TMPDIR", old, 1);
	else
		unsetenv("TMPDIR");
}

/* As a server does once it is up. Only root may; others just go on. */
static void empty_root(void)
{
	char dir[512];
	int fd = temp_file(1, 30000, O_RDONLY);
	pid_t pid;

	snprintf(dir, sizeof(dir), "%s/fl-root-XXXXXX", temp_dir());
	if (!mkdtemp(dir))
		give_up("mkdtemp");
	pid = fork();
	if (pid == 0) {
		pid_t kid;
		int ret;

		if (chroot(dir) == 0 && chdir("/"))
			_exit(9);
		ret = rounds(fd);
		kid = fork();
		if (kid == 0)
			_exit(rounds(fd));
		_exit(ret ? ret : strcmp(end_of(kid), "exit 0") ? 7 : 0);
	}
	say("empty root: %s", end_of(pid));
	rmdir(dir);
	close(fd);
}

int main(void)
{
	far_offsets();
	sizes();
	tmpfs();
	empty_root();
	return 0;
}
