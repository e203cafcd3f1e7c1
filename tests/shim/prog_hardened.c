/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_hardened - with hardened=1 an access after munmap is SIGSEGV, as under
 * the kernel alone, however much memory is recycled meanwhile. The program
 * starts itself with the option set.
 */
#include <pthread.h>

#include "support/see.h"

#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)

static int fd;

static unsigned char *map(int anon, size_t len)
{
	unsigned char *p;

	p = anon ? mmap(NULL, len, RW, ANON, -1, 0) :
		   mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		give_up("mmap");
	return p;
}

static const char *gone(const unsigned char *p)
{
	const char *s = try_read(p);

	return strncmp(s, "SIGSEGV", 7) ? s : "SIGSEGV";
}

static void sizes(int anon)
{
	static const size_t len[] = { 1, 4096, 4097, 20000, 65536, 200000 };

	for (size_t i = 0; i < COUNT(len); i++) {
		unsigned char *p = map(anon, len[i]);

		say("anon %d size %zu: live %s %s", anon, len[i], try_read(p),
		    try_read(p + len[i] - 1));
		SAY_I(munmap(p, len[i]));
		say("  gone %s %s", gone(p), gone(p + len[i] - 1));
	}
}

static void parts(int anon)
{
	unsigned char *p = map(anon, 10 * PAGE);

	SAY_I(munmap(p + 2 * PAGE, 3 * PAGE));
	say("  hole %s %s, around %s %s", gone(p + 2 * PAGE),
	    gone(p + 5 * PAGE - 1), try_read(p + 2 * PAGE - 1),
	    try_read(p + 5 * PAGE));
	SAY_I(munmap(p, PAGE));
	SAY_I(munmap(p + 9 * PAGE, PAGE));
	say("  ends %s %s, middle %s %s", gone(p), gone(p + 9 * PAGE),
	    try_read(p + PAGE), try_read(p + 8 * PAGE));
	SAY_I(munmap(p, 10 * PAGE));
	say("  all %s %s", gone(p + PAGE), gone(p + 8 * PAGE));
}

/* A thousand dangling pointers: each is a fault at once after its munmap. */
static void recycled(int anon)
{
	unsigned long alive = 0, dirty = 0;

	for (unsigned int i = 0; i < 1000; i++) {
		size_t len = 1 + (i * 7919u) % 60000;
		unsigned char *p = map(anon, len);

		if (anon) {
			dirty += not_all(p, 0, len) >= 0;
			memset(p, 0x66, len);
		} else {
			dirty += differs(p, 1, 0, len) >= 0;
		}
		munmap(p, len);
		alive += strcmp(gone(p), "SIGSEGV") != 0;
		alive += strcmp(gone(p + len - 1), "SIGSEGV") != 0;
	}
	say("anon %d: %lu dangling accesses went through, %lu dirty", anon,
	    alive, dirty);
}

static void child_too(void)
{
	unsigned char *p = map(1, 20000), *q = map(0, 20000);
	pid_t pid;

	memset(p, 1, 20000);
	pid = fork();
	if (pid == 0) {
		say("child: %ld %ld", not_all(p, 1, 20000),
		    differs(q, 1, 0, 20000));
		munmap(p, 20000);
		munmap(q, 20000);
		say("child: %s %s", gone(p), gone(q));
		_exit(0);
	}
	munmap(p, 20000);
	munmap(q, 20000);
	say("%s", end_of(pid));
	say("parent: %s %s", gone(p), gone(q));
}

#define BIG ((size_t)200000)

/* As gone(), also where the kernel has put region @r. */
static const char *gone_but(const unsigned char *p, const unsigned char *r)
{
	return p + PAGE > r && p < r + BIG + PAGE ? "SIGSEGV" : gone(p);
}

/* What was given back before a fork stays out of the child's reach. */
static void child_of_holes(int with_live)
{
	unsigned char *p = map(0, 20000), *q = map(0, 10 * PAGE), *r;
	pid_t pid;

	munmap(p, 20000);
	munmap(q + 4 * PAGE, PAGE);
	if (!with_live)
		munmap(q, 10 * PAGE);
	pid = fork();
	if (pid == 0) {
		r = map(0, BIG);
		say("child: %s, hole %s, own %ld", gone_but(p, r),
		    gone_but(q + 4 * PAGE, r), differs(r, 1, 0, BIG));
		if (with_live)
			say("  around %ld %ld", differs(q, 1, 0, 4 * PAGE),
			    differs(q + 5 * PAGE, 1, 5 * PAGE, 5 * PAGE));
		munmap(r, BIG);
		say("  %s %s", gone(p), gone(r));
		_exit(0);
	}
	say("%s", end_of(pid));
	munmap(q, 10 * PAGE);
}

static int stop;

static void *coming_and_going(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		unsigned char *p = map(0, BIG), *q = map(1, 20000);

		munmap(p + 4 * PAGE, 9 * PAGE);
		munmap(p, 4 * PAGE);
		munmap(q, 20000);
		munmap(p + 13 * PAGE, BIG - 13 * PAGE);
	}
	return arg;
}

/* Forks while other threads unmap: the child copies what lives, no more. */
static void child_meanwhile(void)
{
	unsigned char *p = map(0, BIG);
	int wrong = 0;
	pthread_t t[3];

	for (size_t i = 0; i < COUNT(t); i++)
		if (pthread_create(&t[i], NULL, coming_and_going, NULL))
			give_up("pthread_create");
	for (int i = 0; i < 100; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(differs(p, 1, 0, BIG) >= 0);
		wrong += strcmp(end_of(pid), "exit 0") != 0;
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (size_t i = 0; i < COUNT(t); i++)
		pthread_join(t[i], NULL);
	munmap(p, BIG);
	say("children of busy parents: %d wrong", wrong);
}

/* Where memory is locked the kernel refuses guards. */
static void locked(void)
{
	if (mlockall(MCL_CURRENT) && mlockall(MCL_FUTURE))
		give_up("mlockall");
	for (int anon = 0; anon < 2; anon++) {
		sizes(anon);
		parts(anon);
		recycled(anon);
	}
	child_too();
	munlockall();
	for (int anon = 0; anon < 2; anon++)
		recycled(anon);
}

int main(int argc, char **argv)
{
	(void)argv;
	if (argc == 1) {
		setenv("FAULTLINE_HARDENED", "1", 1);
		execl("/proc/self/exe", "prog_hardened", "again", (char *)NULL);
		give_up("execl");
	}
	see_faults();
	fd = temp_file(1, 200000, O_RDONLY);
	for (int anon = 0; anon < 2; anon++) {
		sizes(anon);
		parts(anon);
		recycled(anon);
	}
	child_too();
	child_of_holes(0);
	child_of_holes(1);
	child_meanwhile();
	locked();
	return 0;
}
