/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_early - mappings made before any constructor has run, in constructors,
 * in atexit handlers and in destructors; each kind outlives its stage.
 */
#include "support/see.h"

#define RW (PROT_READ | PROT_WRITE)
#define LEN 20000
#define STAGES 5

static unsigned char *anon[STAGES], *file[STAGES];
static int fds[STAGES];
static int errno_ok[STAGES];

static void map(unsigned int stage)
{
	fds[stage] = temp_file(stage, LEN, O_RDONLY);
	errno_mark();
	anon[stage] = mmap(NULL, LEN, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	file[stage] = mmap(NULL, LEN, PROT_READ, MAP_PRIVATE, fds[stage], 0);
	errno_ok[stage] = errno_kept();
	if (anon[stage] != MAP_FAILED)
		memset(anon[stage], (int)stage + 1, LEN);
}

static void check(const char *when, unsigned int stage)
{
	say("%s, of stage %u: file %ld anon %ld errno kept %d", when, stage,
	    differs(file[stage], stage, 0, LEN),
	    not_all(anon[stage], (int)stage + 1, LEN), errno_ok[stage]);
}

static void unmap(const char *when, unsigned int stage)
{
	check(when, stage);
	say("%s: unmap %s", when, res_i(munmap(file[stage], LEN)));
	say("%s: unmap %s", when, res_i(munmap(anon[stage], LEN)));
	close(fds[stage]);
}

/* Before the constructors of all libraries. */
static void preinit(int argc, char **argv, char **envp)
{
	(void)argc;
	(void)argv;
	(void)envp;
	map(0);
	map(1);
	unmap("preinit", 1);
}

__attribute__((section(".preinit_array"),
	       used)) static void (*const at_preinit)(int, char **,
						      char **) = preinit;

__attribute__((constructor(101))) static void first_constructor(void)
{
	check("first constructor", 0);
	map(2);
}

__attribute__((constructor)) static void constructor(void)
{
	unmap("constructor", 0);
	map(3);
}

__attribute__((destructor)) static void destructor(void)
{
	unmap("destructor", 3);
	map(1);
	unmap("destructor", 1);
}

__attribute__((destructor(101))) static void last_destructor(void)
{
	unmap("last destructor", 4);
	map(1);
	unmap("last destructor", 1);
}

static void at_exit(void)
{
	unmap("atexit", 2);
	map(4);
}

int main(void)
{
	check("main", 2);
	check("main", 3);
	if (atexit(at_exit))
		give_up("atexit");
	return 0;
}
