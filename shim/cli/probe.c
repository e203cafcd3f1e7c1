// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * probe.c - the doctor's probes, those of demand paging excepted. Each tries the thing itself rather than
 * trusting a version number, undoes what it did, and says the reason of a
 * refusal where the system has one to read.
 */
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef FL_HAVE_RSEQ
#include <sys/rseq.h>
#endif

#include "cli/cli.h"
#include "base/conf.h"
#include "base/file.h"
#include "base/stat.h"

/* Newer than Debian 12's headers. */
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

const char *probe_line(const char *path, char *buf, size_t size)
{
	if (file_read(AT_FDCWD, path, buf, size) < 0)
		buf[0] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
	return buf;
}

static void human(char *buf, size_t size, uint64_t v)
{
	static const char units[] = "KMGTPE";
	double d = (double)v;
	int u = -1;

	for (; d >= 1024 && u < 5; u++)
		d /= 1024;
	if (u < 0)
		snprintf(buf, size, "%llu bytes", (unsigned long long)v);
	else
		snprintf(buf, size, "%.1f %ciB", d, units[u]);
}

const struct conf *settings(void)
{
	extern char **environ;
	static struct conf c;
	static bool loaded;

	if (!loaded)
		conf_load(&c, environ);
	loaded = true;
	return &c;
}

static void probe_page_size(struct finding *f)
{
	long size = sysconf(_SC_PAGESIZE);

	if (size == 4096)
		finding(f, PROBE_OK, "4096 bytes");
	else
		finding(f, PROBE_BAD, "%ld bytes; the pager needs 4096", size);
}

static void probe_libc(struct finding *f)
{
	finding(f, PROBE_OK, "glibc %s", gnu_get_libc_version());
}

static void probe_preload(struct finding *f)
{
	char path[PATH_MAX];

	if (find_preload(path, sizeof(path)))
		finding(f, PROBE_OK, "%.150s", path);
	else
		finding(f, PROBE_BAD, "%.130s is missing", path);
}

/* The environment of a program that is to tell how the preload came up. */
static void trial_env(const char *lib)
{
	setenv("LD_PRELOAD", lib, 1);
	setenv("FAULTLINE_SUMMARY", "1", 1);
	setenv("FAULTLINE_LOG", "warn", 1);
	setenv("FAULTLINE_STAT", "0", 1);
}

/* What `faultline --version` says on standard error under the preload. */
static bool trial(const char *lib, char *said, size_t size)
{
	int end[2], status = -1;
	size_t have = 0;
	ssize_t n;
	pid_t pid;

	if (pipe2(end, O_CLOEXEC))
		return false;
	pid = fork();
	if (pid == 0) {
		trial_env(lib);
		dup2(end[1], STDERR_FILENO);
		close(STDOUT_FILENO);
		open("/dev/null", O_WRONLY);
		execl("/proc/self/exe", "faultline", "--version", (char *)NULL);
		_exit(EXIT_LAUNCHER);
	}
	close(end[1]);
	while (pid > 0 && have < size - 1 &&
	       (n = read(end[0], said + have, size - 1 - have)) > 0)
		have += (size_t)n;
	said[have] = '\0';
	close(end[0]);
	return pid > 0 && waitpid(pid, &status, 0) == pid && !status;
}

/* The pager itself, in a small program, under the limits in force. */
static void probe_trial(struct finding *f)
{
	char path[PATH_MAX], said[4096] = "", *why;
	int err;

	if (settings()->off) {
		finding(f, PROBE_BAD, "the option off is set");
		return;
	}
	if (!find_preload(path, sizeof(path))) {
		finding(f, PROBE_BAD, "there is no preload library to try");
		return;
	}
	if (trial(path, said, sizeof(said)) && strstr(said, " served ")) {
		finding(f, PROBE_OK, "a small program ran under the pager");
		return;
	}
	why = strstr(said, "cannot start (error ");
	if (why && sscanf(why, "cannot start (error %d", &err) == 1) {
		finding(f, PROBE_BAD, "the pager cannot start: %s",
			strerror(err));
		return;
	}
	said[strcspn(said, "\n")] = '\0';
	finding(f, PROBE_BAD, "the pager did not start%s%.110s",
		said[0] ? ": " : "", said);
}

/* File regions live in shared memory that is mapped twice: read-only for the
 * program, writable for the pager. */
static void probe_views(struct finding *f)
{
	char *one = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char *two;

	if (one == MAP_FAILED) {
		finding(f, PROBE_BAD, "no shared memory: %s", strerror(errno));
		return;
	}
	two = mremap(one, 0, 4096, MREMAP_MAYMOVE);
	if (two == MAP_FAILED) {
		finding(f, PROBE_BAD,
			"shared memory cannot be mapped twice: %s",
			strerror(errno));
	} else {
		*(volatile char *)one = 'x';
		if (*(volatile char *)two == 'x')
			finding(f, PROBE_OK,
				"shared memory can be mapped "
				"twice");
		else
			finding(f, PROBE_BAD,
				"two mappings of shared memory "
				"differ");
		munmap(two, 4096);
	}
	munmap(one, 4096);
}

static void probe_space(struct finding *f)
{
	size_t size = (size_t)1 << (sizeof(long) == 8 ? 40 : 28);
	struct rlimit lim;
	char text[32];
	void *p = MAP_FAILED;

	for (; size >= (size_t)16 << 20; size >>= 1) {
		p = mmap(NULL, size, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (p != MAP_FAILED)
			break;
	}
	if (p == MAP_FAILED) {
		finding(f, PROBE_BAD, "not even 16 MiB can be reserved: %s",
			strerror(errno));
		return;
	}
	munmap(p, size);
	human(text, sizeof(text), size);
	getrlimit(RLIMIT_AS, &lim);
	if (lim.rlim_cur == RLIM_INFINITY)
		finding(f, PROBE_OK, "unlimited; %s can be reserved", text);
	else
		finding(f, PROBE_NOTE,
			"RLIMIT_AS (ulimit -v) is set; %s can be reserved",
			text);
}

static void probe_overcommit(struct finding *f)
{
	char buf[32];

	probe_line("/proc/sys/vm/overcommit_memory", buf, sizeof(buf));
	if (!strcmp(buf, "2"))
		finding(f, PROBE_NOTE,
			"strict: reserved frames count against "
			"the commit limit");
	else
		finding(f, PROBE_OK, "%s",
			!strcmp(buf, "1") ? "always" : "heuristic");
}

static void probe_budget(struct finding *f)
{
	const struct conf *c = settings();
	char budget[32], ram[32];

	human(budget, sizeof(budget), conf_budget(c));
	human(ram, sizeof(ram),
	      (uint64_t)sysconf(_SC_PHYS_PAGES) *
		      (uint64_t)sysconf(_SC_PAGESIZE));
	finding(f, PROBE_OK, "%s (%s); the machine has %s", budget,
		c->mem ? "option mem" :
			 "a quarter of RAM or of the cgroup's limit",
		ram);
}

static void probe_rseq(struct finding *f)
{
#ifdef FL_HAVE_RSEQ
	if (__rseq_size) {
		finding(f, PROBE_OK, "the CPU's number costs no system call");
		return;
	}
#endif
	finding(f, PROBE_NOTE,
		"not registered by libc: getcpu(2) is called "
		"for each mapping");
}

static void probe_membarrier(struct finding *f)
{
	long cmds = syscall(__NR_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);

	if (cmds < 0)
		finding(f, PROBE_NOTE, "%s: read sections use a full barrier",
			strerror(errno));
	else if (cmds & MEMBARRIER_CMD_PRIVATE_EXPEDITED)
		finding(f, PROBE_OK, "private expedited");
	else
		finding(f, PROBE_NOTE, "no private expedited command");
}

static int try_guard(int flags, int fd)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, flags, fd, 0);
	int err = 0;

	if (p == MAP_FAILED)
		return errno;
	if (madvise(p, 4096, MADV_GUARD_INSTALL))
		err = errno;
	munmap(p, 4096);
	return err;
}

static void probe_guard(struct finding *f)
{
	int fd = memfd_create("faultline-doctor", MFD_CLOEXEC);
	int anon = try_guard(MAP_PRIVATE | MAP_ANONYMOUS, -1);
	int file = EBADF;

	if (fd >= 0 && !ftruncate(fd, 4096))
		file = try_guard(MAP_SHARED, fd);
	if (fd >= 0)
		close(fd);
	if (!anon && !file)
		finding(f, PROBE_OK,
			"for anonymous memory and for files: "
			"hardened=1 splits no mapping");
	else
		finding(f, PROBE_NOTE,
			"%s: hardened=1 uses mprotect(2) and splits mappings",
			anon ? "none (Linux 6.13)" :
			       "not for files (Linux 6.15)");
}

static void probe_seccomp(struct finding *f)
{
	char buf[4096], *p;

	if (file_read(AT_FDCWD, "/proc/self/status", buf, sizeof(buf)) < 0)
		buf[0] = '\0';
	p = strstr(buf, "\nSeccomp:");
	if (p && atoi(p + 9) == 0)
		finding(f, PROBE_OK, "no filter");
	else if (p)
		finding(f, PROBE_NOTE,
			"a filter is in force: refusals may be its");
	else
		finding(f, PROBE_NOTE, "/proc/self/status cannot be read");
}

/* The word in brackets. */
static const char *chosen(const char *path, char *buf, size_t size)
{
	char *open_at, *close_at;

	probe_line(path, buf, size);
	open_at = strchr(buf, '[');
	close_at = strchr(buf, ']');
	if (!open_at || !close_at)
		return "unknown";
	*close_at = '\0';
	return open_at + 1;
}

static void probe_thp(struct finding *f)
{
	char a[96], b[96];

	finding(f, PROBE_OK, "anonymous: %s; memory files: %s",
		chosen("/sys/kernel/mm/transparent_hugepage/enabled", a,
		       sizeof(a)),
		chosen("/sys/kernel/mm/transparent_hugepage/shmem_enabled", b,
		       sizeof(b)));
}

static void probe_stat_dir(struct finding *f)
{
	char path[128];
	int fd = stat_dir(getenv("XDG_RUNTIME_DIR"), true, path, sizeof(path));
	struct rlimit lim;

	getrlimit(RLIMIT_FSIZE, &lim);
	if (fd >= 0)
		close(fd);
	if (fd >= 0 && lim.rlim_cur < 8192) {
		finding(f, PROBE_NOTE, "none: RLIMIT_FSIZE (ulimit -f) is %llu",
			(unsigned long long)lim.rlim_cur);
	} else if (fd >= 0) {
		finding(f, PROBE_OK, "in %s", path);
	} else {
		finding(f, PROBE_NOTE, "no directory for them: %s",
			strerror(-fd));
	}
}

const struct probe probes[] = {
	{ "page size", probe_page_size },
	{ "libc", probe_libc },
	{ "preload library", probe_preload },
	{ "two views", probe_views },
	{ "address space", probe_space },
	{ "overcommit", probe_overcommit },
	{ "memory budget", probe_budget },
	{ "rseq", probe_rseq },
	{ "membarrier", probe_membarrier },
	{ "guard pages", probe_guard },
	{ "live counters", probe_stat_dir },
	{ "huge pages", probe_thp },
	{ "seccomp", probe_seccomp },
	{ "trial run", probe_trial },
};

const size_t nr_probes = sizeof(probes) / sizeof(probes[0]);
