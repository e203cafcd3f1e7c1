/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_spawn - programs started from a process with live regions: vfork,
 * posix_spawn, system, popen, fork and exec, daemon(3); regions stay whole.
 *
 * [fl:demand] service signal
 */
#include <pthread.h>
#include <spawn.h>

#include "support/see.h"

#define RW (PROT_READ | PROT_WRITE)
#define LEN 50000

extern char **environ;

static int fd;
static unsigned char *f, *a;

static void map(void)
{
	f = mmap(NULL, LEN, PROT_READ, MAP_PRIVATE, fd, 0);
	a = mmap(NULL, LEN, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (f == MAP_FAILED || a == MAP_FAILED)
		give_up("mmap");
	fill_as(a, 2, 0, LEN);
}

static void check(const char *what)
{
	say("%s: file %ld anon %ld", what, differs(f, 1, 0, LEN),
	    differs(a, 2, 0, LEN));
	say("%s: unmap %d %d", what, munmap(f, LEN), munmap(a, LEN));
}

static void spawned(void)
{
	char *const argv[] = { "sh", "-c", "exit 7", NULL };
	pid_t pid;
	int ret;

	map();
	ret = posix_spawnp(&pid, "sh", NULL, NULL, argv, environ);
	say("posix_spawnp %d: %s", ret, end_of(pid));
	check("posix_spawnp");
	map();
	ret = posix_spawn(&pid, "/no/such/program", NULL, NULL, argv, environ);
	say("posix_spawn of nothing: %s", ename(ret));
	check("posix_spawn");
}

static void vforked(void)
{
	/* The child returns here twice, as far as the compiler knows. */
	for (volatile int i = 0; i < 20; i++) {
		pid_t pid;

		map();
		pid = vfork();
		if (pid == 0) {
			execl("/bin/sh", "sh", "-c", "exit 5", (char *)NULL);
			_exit(99);
		}
		say("vfork: %s", end_of(pid));
		check("vfork");
	}
}

static void piped(void)
{
	char line[64] = "";
	FILE *in;

	map();
	say("system: %d", WEXITSTATUS(system("exit 9")));
	check("system");
	map();
	in = popen("echo from a shell", "r");
	if (!in || !fgets(line, sizeof(line), in))
		give_up("popen");
	line[strcspn(line, "\n")] = 0;
	say("popen: %s", line);
	say("popen: %d", pclose(in));
	check("popen");
	map();
	in = popen("wc -c", "w");
	if (!in || fwrite(a, 1, 1000, in) != 1000 || fflush(in))
		give_up("popen");
	say("popen w: %d", pclose(in));
	check("popen w");
}

static void *exec_thread(void *arg)
{
	pid_t pid = fork();

	(void)arg;
	if (pid == 0) {
		munmap(f, LEN);
		execl("/bin/sh", "sh", "-c", "exit 6", (char *)NULL);
		_exit(99);
	}
	say("fork and exec in a thread: %s", end_of(pid));
	return NULL;
}

/*
 * As a server does it: map, daemonise, go on with what was mapped. The
 * daemon's parent leaves by _exit inside daemon(3).
 */
static void daemonised(int noclose)
{
	char text[1024];
	size_t len = 0;
	int out[2];
	ssize_t n;
	pid_t pid;

	if (pipe(out))
		give_up("pipe");
	map();
	pid = fork();
	if (pid == 0) {
		if (daemon(1, noclose))
			_exit(1);
		see_fd = out[1];
		check("  in the daemon");
		map();
		check("  mapped by the daemon");
		say("  system in the daemon: %d",
		    WEXITSTATUS(system("exit 4")));
		_exit(0);
	}
	close(out[1]);
	say("daemon(1, %d): %s", noclose, end_of(pid));
	check("  its parent's parent");
	while ((n = read(out[0], text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = 0;
	say("%s", text);
	close(out[0]);
}

int main(void)
{
	pthread_t t;

	fd = temp_file(1, LEN, O_RDONLY);
	spawned();
	vforked();
	piped();
	map();
	if (pthread_create(&t, NULL, exec_thread, NULL))
		give_up("pthread_create");
	pthread_join(t, NULL);
	check("fork and exec in a thread");
	daemonised(1);
	daemonised(0);
	return 0;
}
