// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * lib_counts.c - counts of mm system calls, mmap_lock writes, TLB flushes and
 * page faults of one thread, from the kernel's tracepoints.
 *
 * The numbers of the tracepoints stand in tracefs. Where it is not mounted and
 * we may mount it, a child process does so in a mount namespace of its own,
 * reads the numbers and ends: nothing is left behind.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define TRACEFS "/sys/kernel/tracing"

static const struct {
	const char *name;
	const char *filter; /* NULL: made by mm_filter() */
} events[B_EVENTS] = {
	[B_MMSYS] = { "raw_syscalls/sys_enter", NULL },
	[B_LOCKW] = { "mmap_lock/mmap_lock_acquire_returned",
		      "write==1&&success==1" },
	/* enum tlb_flush_reason: 2, 3 on this CPU; 4 sent to others */
	[B_FLUSH] = { "tlb/tlb_flush", "reason==2||reason==3" },
	[B_IPI] = { "tlb/tlb_flush", "reason==4" },
};

static int ids[B_EVENTS];
static char why[B_EVENTS][80];

static const char *mm_filter(char *buf, size_t size)
{
	static const long nr[] = {
#ifdef SYS_mmap
		SYS_mmap,
#endif
#ifdef SYS_mmap2
		SYS_mmap2,
#endif
		SYS_munmap, SYS_madvise, SYS_mprotect, SYS_mremap, SYS_brk,
	};
	size_t i, n = 0;

	for (i = 0; i < sizeof(nr) / sizeof(nr[0]); i++)
		n += (size_t)snprintf(buf + n, size - n, "%sid==%ld",
				      i ? "||" : "", nr[i]);
	return buf;
}

static int id_of(const char *name)
{
	char path[160];
	FILE *f;
	int id = 0;

	snprintf(path, sizeof(path), TRACEFS "/events/%s/id", name);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	if (fscanf(f, "%d", &id) != 1)
		id = -EIO;
	fclose(f);
	return id;
}

static void read_ids(const char *const *names, int *id, int n)
{
	int i;

	for (i = 0; i < n; i++)
		id[i] = id_of(names[i]);
}

/* In the child: a private tracefs, then the numbers through the pipe. */
static void child_read_ids(const char *const *names, int *id, int n, int fd)
{
	size_t bytes = (size_t)n * sizeof(*id);
	int i, e = 0;

	if (unshare(CLONE_NEWNS) ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("tracefs", TRACEFS, "tracefs", 0, NULL))
		e = errno;
	read_ids(names, id, n);
	for (i = 0; i < n; i++)
		if (id[i] < 0 && e)
			id[i] = -e;
	_exit(write(fd, id, bytes) != (ssize_t)bytes);
}

void b_tracepoints(const char *const *names, int *id, int n)
{
	size_t bytes = (size_t)n * sizeof(*id);
	int p[2], i;
	pid_t pid;

	read_ids(names, id, n);
	for (i = 0; i < n; i++)
		if (id[i] > 0)
			return; /* tracefs is there */
	if (pipe2(p, O_CLOEXEC))
		return;
	fflush(NULL);
	pid = fork();
	if (!pid)
		child_read_ids(names, id, n, p[1]);
	close(p[1]);
	if (pid < 0 || read(p[0], id, bytes) != (ssize_t)bytes)
		for (i = 0; i < n; i++)
			id[i] = -EIO;
	close(p[0]);
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

int b_tracepoint_open(int id, const char *filter, int pid)
{
	struct perf_event_attr a;
	int fd, err;

	memset(&a, 0, sizeof(a));
	a.size = sizeof(a);
	a.type = PERF_TYPE_TRACEPOINT;
	a.config = (uint64_t)id;
	a.disabled = 1;
	a.inherit = pid != 0;
	a.enable_on_exec = pid != 0;
	fd = (int)syscall(SYS_perf_event_open, &a, pid, -1, -1,
			  PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (filter && ioctl(fd, PERF_EVENT_IOC_SET_FILTER, filter)) {
		err = errno;
		close(fd);
		return -err;
	}
	return fd;
}

static int event_open(enum b_event e)
{
	char buf[256];
	const char *filter = events[e].filter;

	if (!filter)
		filter = mm_filter(buf, sizeof(buf));
	return b_tracepoint_open(ids[e], filter, 0);
}

void b_events_probe(void)
{
	const char *names[B_EVENTS];
	int i, fd;

	for (i = 0; i < B_EVENTS; i++)
		names[i] = events[i].name;
	b_tracepoints(names, ids, B_EVENTS);
	for (i = 0; i < B_EVENTS; i++) {
		if (ids[i] <= 0) {
			snprintf(why[i], sizeof(why[i]), "%.40s: %.30s",
				 "no tracepoint", strerror(-ids[i]));
			continue;
		}
		fd = event_open((enum b_event)i);
		if (fd < 0)
			snprintf(why[i], sizeof(why[i]), "%.40s: %.30s",
				 "perf_event_open", strerror(-fd));
		else
			close(fd);
	}
}

const char *b_event_why(enum b_event e)
{
	return why[e][0] ? why[e] : NULL;
}

/*
 * The last close of a tracepoint's event waits for an RCU grace period and
 * more; one that stays open, disabled, spares the others that.
 */
static int held[B_EVENTS];

void b_events_hold(void)
{
	int i;

	for (i = 0; i < B_EVENTS; i++)
		held[i] = why[i][0] ? -1 : event_open((enum b_event)i);
}

void b_events_release(void)
{
	int i;

	for (i = 0; i < B_EVENTS; i++)
		if (held[i] >= 0)
			close(held[i]);
}

static uint64_t thread_faults(void)
{
	struct rusage ru;

	getrusage(RUSAGE_THREAD, &ru);
	return (uint64_t)ru.ru_minflt + (uint64_t)ru.ru_majflt;
}

void b_counts_start(struct b_counts *c)
{
	int i;

	memset(c, 0, sizeof(*c));
	for (i = 0; i < B_EVENTS; i++)
		c->fd[i] = why[i][0] ? -1 : event_open((enum b_event)i);
	c->faults = thread_faults();
	for (i = 0; i < B_EVENTS; i++)
		if (c->fd[i] >= 0)
			ioctl(c->fd[i], PERF_EVENT_IOC_ENABLE, 0);
}

void b_counts_stop(struct b_counts *c)
{
	int i;

	for (i = 0; i < B_EVENTS; i++)
		if (c->fd[i] >= 0)
			ioctl(c->fd[i], PERF_EVENT_IOC_DISABLE, 0);
	c->faults = thread_faults() - c->faults;
	for (i = 0; i < B_EVENTS; i++) {
		if (c->fd[i] < 0)
			continue;
		if (read(c->fd[i], &c->n[i], sizeof(c->n[i])) !=
		    (ssize_t)sizeof(c->n[i]))
			c->n[i] = 0;
		close(c->fd[i]);
		c->fd[i] = -1;
	}
}

long long b_tlb_row(void)
{
	FILE *f = fopen("/proc/interrupts", "re");
	char *line = NULL, *p, *end;
	long long sum = -1;
	size_t cap = 0;

	while (f && getline(&line, &cap, f) > 0) {
		p = line + strspn(line, " ");
		if (strncmp(p, "TLB:", 4))
			continue;
		sum = 0;
		for (p += 4;; p = end) {
			long long v = strtoll(p, &end, 10);

			if (end == p)
				break;
			sum += v;
		}
	}
	free(line);
	if (f)
		fclose(f);
	return sum;
}
