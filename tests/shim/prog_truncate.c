/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_truncate - files cut, grown, replaced and rewritten while they are
 * being mapped. Whether a page cut off later can still be read is the pager's
 * choice; a page that can be read holds the file's bytes or, past its end,
 * zeroes, and nothing that was in that memory before.
 *
 * [fl:demand] service signal
 */
#include <sys/prctl.h>

#include "support/see.h"

#define LEN 100000
#define RW (PROT_READ | PROT_WRITE)

static char name[512];
static volatile int *stop;

/* Memory of earlier users, to be told from zeroes and from the file. */
static void poison(void)
{
	unsigned char *p[8];

	for (int i = 0; i < 8; i++) {
		p[i] = mmap(NULL, LEN, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		memset(p[i], 0x44, LEN);
	}
	for (int i = 0; i < 8; i++)
		munmap(p[i], LEN);
}

static void cutter(void)
{
	unsigned char buf[LEN];
	int fd = open(name, O_RDWR);

	fill_as(buf, 1, 0, LEN);
	while (!*stop) {
		if (ftruncate(fd, 0) || ftruncate(fd, 30000) ||
		    ftruncate(fd, LEN))
			_exit(1);
		if (pwrite(fd, buf, LEN, 0) != LEN)
			_exit(2);
	}
	_exit(0);
}

static volatile unsigned long page_wrong;

__attribute__((noinline)) static void read_page(const volatile unsigned char *p,
						size_t page)
{
	for (size_t i = page; i < page + PAGE; i++) {
		unsigned char c = p[i];

		if (c && (i >= LEN || c != byte_of(1, i)))
			page_wrong++;
	}
}

/* Wrong bytes of a page, up to where it faults, if it does. */
static unsigned long check_page(const volatile unsigned char *p, size_t page)
{
	page_wrong = 0;
	see_armed = 1;
	if (!sigsetjmp(see_jump, 1))
		read_page(p, page);
	see_armed = 0;
	return page_wrong;
}

static unsigned long check(const unsigned char *p)
{
	unsigned long wrong = 0;

	for (size_t page = 0; page < LEN; page += PAGE)
		wrong += check_page(p, page);
	return wrong;
}

static void race(int prot, int flags)
{
	unsigned long wrong = 0, failed = 0;
	pid_t pid;

	*stop = 0;
	pid = fork();
	if (pid == 0) {
		/* Not for ever, should the parent die. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		cutter();
	}
	for (int i = 0; i < 600; i++) {
		int fd = open(name, O_RDONLY);
		unsigned char *p;

		if (i % 10 == 0)
			poison();
		p = mmap(NULL, LEN, prot, flags, fd, 0);
		failed += p == MAP_FAILED;
		if (p != MAP_FAILED) {
			wrong += check(p);
			munmap(p, LEN);
		}
		close(fd);
	}
	*stop = 1;
	say("race, prot %d flags %d: %lu wrong bytes, %lu failed, cutter %s",
	    prot, flags, wrong, failed, end_of(pid));
}

/* Without a race: the file is what it is at the moment of the map. */
static void in_turn(void)
{
	static const size_t sizes[] = { 10000, 3, 0, 4096, 5000, 99999, 4097 };
	int fd = open(name, O_RDWR), ro = open(name, O_RDONLY);
	unsigned char buf[100000];

	fill_as(buf, 1, 0, sizeof(buf));
	for (size_t i = 0; i < COUNT(sizes); i++) {
		size_t n = sizes[i];
		unsigned char *p;

		if (ftruncate(fd, 0) || pwrite(fd, buf, n, 0) != (ssize_t)n)
			give_up("write");
		p = mmap(NULL, 12288, PROT_READ, MAP_PRIVATE, ro, 0);
		say("size %zu: %s first %s, second %s, third %s", n, res_p(p),
		    try_read(p), try_read(p + PAGE), try_read(p + 2 * PAGE));
		if (n)
			say("  bytes %ld",
			    differs(p, 1, 0, n < PAGE ? n : PAGE));
		munmap(p, 12288);
	}
	/* Written through another descriptor just before: never stale. */
	for (unsigned int i = 0; i < 200; i++) {
		unsigned char *p, c = (unsigned char)i;

		if (pwrite(fd, &c, 1, 2000) != 1)
			give_up("pwrite");
		p = mmap(NULL, 4097, PROT_READ, MAP_PRIVATE, ro, 0);
		if (p[2000] != c)
			say("stale at %u", i);
		munmap(p, 4097);
	}
	close(fd);
	close(ro);
}

/* A shared mapping shows writes made after it, both ways round. */
static void coherent(void)
{
	int rw = temp_file(1, 20000, O_RDWR), i;
	unsigned char *p, *w, c;
	char path[64];
	int ro;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", rw);
	ro = open(path, O_RDONLY);
	p = mmap(NULL, 20000, PROT_READ, MAP_SHARED, ro, 0);
	w = mmap(NULL, 20000, RW, MAP_SHARED, rw, 0);
	for (i = 0; i < 100; i++) {
		c = (unsigned char)i;
		if (pwrite(rw, &c, 1, 150 * i) != 1)
			give_up("pwrite");
		if (p[150 * i] != c)
			say("shared map stale at %d", i);
		w[150 * i + 1] = c;
		if (p[150 * i + 1] != c || pread(ro, &c, 1, 150 * i + 1) != 1 ||
		    c != (unsigned char)i)
			say("shared write lost at %d", i);
	}
	say("coherent: %s %s %d", res_p(p), res_p(w), i);
	munmap(p, 20000);
	munmap(w, 20000);
	close(ro);
	close(rw);
}

int main(void)
{
	unsigned char buf[LEN];
	int fd;

	see_faults();
	stop = mmap(NULL, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	snprintf(name, sizeof(name), "%s/fl-cut-XXXXXX", temp_dir());
	fd = mkstemp(name);
	fill_as(buf, 1, 0, LEN);
	if (fd < 0 || write(fd, buf, LEN) != LEN)
		give_up("mkstemp");
	race(PROT_READ, MAP_PRIVATE);
	race(RW, MAP_PRIVATE);
	race(PROT_READ, MAP_SHARED);
	in_turn();
	coherent();
	unlink(name);
	return 0;
}
