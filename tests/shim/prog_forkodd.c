/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_forkodd - forks under odd circumstances: handlers of pthread_atfork that
 * change errno, and children with a PID namespace of their own. The child has
 * its regions to itself all the same.
 *
 * [fl:demand] signal
 */
#include <pthread.h>
#include <sched.h>

#include "support/see.h"

#define NR 300
#define LEN (64 * PAGE)

static int fd1, fd2;
static unsigned char *live[NR];
static int meddle;

static void before(void)
{
	if (meddle == 1)
		errno = EAGAIN;
}

static void after(void)
{
	if (meddle == 2)
		errno = ENOMEM;
}

/* Handlers run nearest to the fork if they were there first: before the ones
 * of any library's constructor. */
static void registered_first(int argc, char **argv, char **env)
{
	(void)argc;
	(void)argv;
	(void)env;
	pthread_atfork(before, after, NULL);
}

__attribute__((section(".preinit_array"),
	       used)) static void (*const first)(int, char **,
						 char **) = registered_first;

static void map_all(int fd)
{
	for (int i = 0; i < NR; i++) {
		live[i] = mmap(NULL, LEN, PROT_READ, MAP_PRIVATE | MAP_POPULATE,
			       fd, 0);
		if (live[i] == MAP_FAILED)
			give_up("mmap");
	}
}

static void unmap_all(void)
{
	for (int i = 0; i < NR; i++)
		munmap(live[i], LEN);
}

static int wrong_in(unsigned int id)
{
	int wrong = 0;

	for (int i = 0; i < NR; i++)
		wrong += differs(live[i], id, 0, LEN) >= 0;
	return wrong;
}

/* The parent uses the memory anew at once. */
static const char *forked(void)
{
	const char *end;
	pid_t pid;

	map_all(fd1);
	pid = fork();
	if (pid < 0)
		give_up("fork");
	if (pid == 0)
		_exit(wrong_in(1) ? 1 : 0);
	for (int round = 0; round < 2; round++) {
		unmap_all();
		map_all(fd2);
	}
	end = end_of(pid);
	if (wrong_in(2))
		end = "parent wrong";
	unmap_all();
	return end;
}

/* The number in its namespace of a child that ends at once. */
static int next_number(void)
{
	pid_t pid = fork();
	int st;

	if (pid == 0)
		_exit(getpid() & 0x7f);
	if (pid < 0 || waitpid(pid, &st, 0) != pid)
		give_up("fork");
	return WEXITSTATUS(st);
}

/* Children whose numbers are nobody's where the parent looks. */
static void in_namespace(void)
{
	pid_t init;
	int tries = 0, nr;

	if (unshare(CLONE_NEWPID) && unshare(CLONE_NEWUSER | CLONE_NEWPID)) {
		say("no namespace: not allowed here");
		return;
	}
	init = fork();
	if (init == 0)
		for (;;)
			pause();
	do
		nr = next_number();
	while (++tries < 100 &&
	       !(kill(nr + 1, 0) && errno == ESRCH && nr < 126));
	say("namespace: child %s", forked());
	kill(init, SIGKILL);
	waitpid(init, NULL, 0);
}

int main(void)
{
	fd1 = temp_file(1, LEN, O_RDONLY);
	fd2 = temp_file(2, LEN, O_RDONLY);
	for (meddle = 0; meddle < 3; meddle++)
		say("handlers %d: child %s", meddle, forked());
	meddle = 0;
	in_namespace();
	return 0;
}
