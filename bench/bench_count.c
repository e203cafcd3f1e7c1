// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * bench_count - run a command and count what it and its children cost in the
 * kernel's memory management: calls by name, mmap_lock taken for writing, page
 * faults, TLB flushes and shootdowns, by tracepoint; and its times.
 *
 * The line of results goes to --out=FILE, appended: "name=value ..."; a count
 * that cannot be had on this machine reads "name=n/a". The exit status is the
 * command's, 128 + its signal, or 127.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#ifdef SYS_mmap
#define NR_MMAP SYS_mmap
#else
#define NR_MMAP SYS_mmap2
#endif

enum kind {
	SYSCALL,
	POINT
};

static const struct {
	const char *name;
	enum kind kind;
	long nr;
	const char *point, *filter;
} wanted[] = {
	{ "mmap", SYSCALL, NR_MMAP, NULL, NULL },
	{ "munmap", SYSCALL, SYS_munmap, NULL, NULL },
	{ "madvise", SYSCALL, SYS_madvise, NULL, NULL },
	{ "mprotect", SYSCALL, SYS_mprotect, NULL, NULL },
	{ "mremap", SYSCALL, SYS_mremap, NULL, NULL },
	{ "brk", SYSCALL, SYS_brk, NULL, NULL },
	{ "lock_writes", POINT, 0, "mmap_lock/mmap_lock_acquire_returned",
	  "write==1&&success==1" },
	{ "tlb_flushes", POINT, 0, "tlb/tlb_flush", "reason==2||reason==3" },
	{ "tlb_ipis", POINT, 0, "tlb/tlb_flush", "reason==4" },
};

#define N_WANTED ((int)(sizeof(wanted) / sizeof(wanted[0])))

static int fds[N_WANTED];

static void open_all(const int *id, pid_t pid)
{
	char filter[32];
	int i;

	for (i = 0; i < N_WANTED; i++) {
		snprintf(filter, sizeof(filter), "id==%ld", wanted[i].nr);
		fds[i] = id[i] <= 0 ?
				 -1 :
				 b_tracepoint_open(id[i],
						   wanted[i].kind == SYSCALL ?
							   filter :
							   wanted[i].filter,
						   pid);
	}
}

static void report(FILE *f, double wall, const struct rusage *ru)
{
	uint64_t n;
	int i;

	for (i = 0; i < N_WANTED; i++) {
		if (fds[i] >= 0 && read(fds[i], &n, 8) == 8)
			fprintf(f, "%s=%llu ", wanted[i].name,
				(unsigned long long)n);
		else
			fprintf(f, "%s=n/a ", wanted[i].name);
	}
	fprintf(f, "minor=%ld major=%ld wall=%.4f", ru->ru_minflt,
		ru->ru_majflt, wall);
	fprintf(f, " user=%ld.%06ld sys=%ld.%06ld\n", ru->ru_utime.tv_sec,
		(long)ru->ru_utime.tv_usec, ru->ru_stime.tv_sec,
		(long)ru->ru_stime.tv_usec);
}

/* Start the command stopped at a pipe, so that counting begins at its exec. */
static pid_t start(char **argv, const char *preload, int *go)
{
	char byte;
	int p[2];
	pid_t pid;

	if (pipe2(p, O_CLOEXEC))
		b_die("pipe: %s", strerror(errno));
	pid = fork();
	if (pid < 0)
		b_die("fork: %s", strerror(errno));
	if (!pid) {
		close(p[1]);
		if (preload)
			setenv("LD_PRELOAD", preload, 1);
		if (read(p[0], &byte, 1) != 1)
			_exit(127);
		execvp(argv[0], argv);
		fprintf(stderr, "bench: %s: %s\n", argv[0], strerror(errno));
		_exit(127);
	}
	close(p[0]);
	*go = p[1];
	return pid;
}

static void get_ids(int *id)
{
	const char *names[N_WANTED];
	int i;

	for (i = 0; i < N_WANTED; i++)
		names[i] = wanted[i].kind == SYSCALL ?
				   "raw_syscalls/sys_enter" :
				   wanted[i].point;
	b_tracepoints(names, id, N_WANTED);
}

int main(int argc, char **argv)
{
	static const struct option opts[] = {
		{ "out", 1, NULL, 'o' },
		{ "preload", 1, NULL, 'p' },
		{ "times", 0, NULL, 't' },
		{ NULL, 0, NULL, 0 },
	};
	const char *out = NULL, *preload = NULL;
	int id[N_WANTED] = { 0 }, opt, go, status;
	bool count = true;
	struct rusage ru;
	double t;
	pid_t pid;
	FILE *f = stderr;

	while ((opt = getopt_long(argc, argv, "+", opts, NULL)) != -1) {
		if (opt == 'o')
			out = optarg;
		else if (opt == 'p')
			preload = optarg;
		else if (opt == 't')
			count = false;
		else
			optind = argc;
	}
	if (optind >= argc)
		b_die("usage: bench-count [--out=FILE] [--preload=LIBRARY] "
		      "[--times] COMMAND...");
	if (count)
		get_ids(id);
	pid = start(argv + optind, preload, &go);
	open_all(id, pid);
	t = b_now();
	if (write(go, "", 1) != 1)
		b_die("write: %s", strerror(errno));
	while (wait4(pid, &status, 0, &ru) < 0)
		if (errno != EINTR)
			b_die("wait4: %s", strerror(errno));
	t = b_now() - t;
	if (out)
		f = fopen(out, "ae");
	if (!f)
		b_die("%s: %s", out, strerror(errno));
	report(f, t, &ru);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) :
				     WEXITSTATUS(status);
}
