/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Where a userfaultfd comes from: the order of the sources, what each of them
 * answered, and the descriptors. Users, device nodes and filters are those of
 * child processes in mount namespaces of their own; the machine's stay as they
 * are.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "fault/uffd.h"

#define NODE "/dev/userfaultfd"
#define NOBODY 65534

/* What a child hands back, in shared memory. */
static struct told {
	struct uffd_caps caps;
	int fd, err;    /* of uffd_open; of the set-up */
	int first_free; /* the lowest free descriptor afterwards, if it moved */
	const char *step;
	long sys; /* result of a system call on a missing page, or -errno */
	int flags, fdflags;
	struct uffd_caps before;
} * told;

static void setup(void)
{
	told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(told, MAP_FAILED);
}

TestSuite(uffd_open, .init = setup, .timeout = 60);

/* In a child: the set-up could not be done. */
static void cannot(const char *step)
{
	told->err = errno;
	told->step = step;
	_exit(0);
}

static void in_child(void (*body)(const void *), const void *arg)
{
	int status;
	pid_t pid;

	memset(told, 0, sizeof(*told));
	pid = fork();
	cr_assert_geq(pid, 0);
	if (pid == 0) {
		body(arg);
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0, "the child ended with %x", (unsigned)status);
	if (told->step)
		cr_skip_test("%s: %s", told->step, strerror(told->err));
}

static int lowest_free(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

static void probe_here(void)
{
	int before = lowest_free();

	uffd_probe(&told->caps);
	told->first_free = lowest_free() - before;
}

static int sysctl_value(void)
{
	FILE *f = fopen("/proc/sys/vm/unprivileged_userfaultfd", "re");
	int v = -1;

	if (f) {
		if (fscanf(f, "%d", &v) != 1)
			v = -1;
		fclose(f);
	}
	return v;
}

/* The device's node with this mode, seen by this process only. */
static void private_node(mode_t mode)
{
	char dir[] = "/tmp/uffd.XXXXXX", path[64];
	struct stat st;

	if (stat(NODE, &st))
		cannot("no " NODE " (Linux 6.1)");
	if (unshare(CLONE_NEWNS) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		cannot("a mount namespace");
	if (!mkdtemp(dir))
		cannot("a folder");
	if (mount("none", dir, "tmpfs", 0, "mode=0755")) {
		rmdir(dir);
		cannot("a tmpfs");
	}
	snprintf(path, sizeof(path), "%s/node", dir);
	umask(0);
	if (mknod(path, S_IFCHR | mode, st.st_rdev) ||
	    mount(path, NODE, NULL, MS_BIND, NULL)) {
		umount2(dir, MNT_DETACH);
		rmdir(dir);
		cannot("a device node");
	}
	umount2(dir, MNT_DETACH);
	rmdir(dir);
}

static void become_nobody(void)
{
	if (setgid(NOBODY) || setuid(NOBODY))
		cannot("another user");
}

/* A system call that the filter answers with an error. */
struct rule {
	long nr;
	bool has_arg; /* ioctl: only this command; userfaultfd: only flag 1 */
	uint32_t arg;
	int err;
};

static void put(struct sock_filter *code, unsigned int *n, uint16_t op,
		uint32_t k, uint8_t jt, uint8_t jf)
{
	code[(*n)++] = (struct sock_filter){ op, jt, jf, k };
}

static void refuse(const struct rule *rules, size_t nr)
{
	struct sock_filter code[64];
	struct sock_fprog prog = { 0, code };
	unsigned int n = 0;

	for (size_t i = 0; i < nr; i++) {
		const struct rule *r = &rules[i];

		put(code, &n, BPF_LD | BPF_W | BPF_ABS,
		    offsetof(struct seccomp_data, nr), 0, 0);
		put(code, &n, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)r->nr, 0,
		    r->has_arg ? 3 : 1);
		if (r->has_arg) {
			put(code, &n, BPF_LD | BPF_W | BPF_ABS,
			    offsetof(struct seccomp_data, args[1]), 0, 0);
			put(code, &n, BPF_JMP | BPF_JEQ | BPF_K, r->arg, 0, 1);
		}
		put(code, &n, BPF_RET | BPF_K,
		    SECCOMP_RET_ERRNO | (uint32_t)r->err, 0, 0);
	}
	put(code, &n, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
	prog.len = (unsigned short)n;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog))
		cannot("a seccomp filter");
}

/* Skips where this process gets no full descriptor from the source itself. */
static void need_source(enum uffd_source source, const char *what)
{
	uint64_t features, ioctls;
	int err = uffd_try(source, &features, &ioctls);

	if (err)
		cr_skip_test("%s: %s", what, strerror(-err));
}

static void try_each(const void *arg)
{
	(void)arg;
	probe_here();
}

Test(uffd_open, probe_stops_at_the_first)
{
	in_child(try_each, NULL);
	cr_assert_eq(told->first_free, 0, "a descriptor stayed open");
	if (told->caps.source == UFFD_NONE)
		cr_skip_test("none here");
	if (told->caps.source == UFFD_DEV) {
		cr_assert_eq(told->caps.err_dev, 0);
		cr_assert_eq(told->caps.err_syscall, UFFD_UNTRIED);
	} else {
		cr_assert_lt(told->caps.err_dev, 0);
	}
	if (told->caps.source == UFFD_SYSCALL)
		cr_assert_eq(told->caps.err_user, UFFD_UNTRIED);
	cr_assert(told->caps.ioctls & 1 << UABI_NR_REGISTER);
	cr_assert(told->caps.ioctls & 1 << UABI_NR_COPY);
	cr_assert(told->caps.ioctls & 1 << UABI_NR_WAKE);
}

/* A byte of a missing page, read by the kernel. */
static long kernel_reads_missing(int fd)
{
	char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int end[2], status;
	pid_t pid;
	long ret;

	if (p == MAP_FAILED || pipe(end) ||
	    uffd_register(fd, p, 4096, UABI_REGISTER_MISSING))
		return -EIO;
	/* Asleep for ever in full mode: somebody ends it. */
	told->sys = 1;
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		usleep(200000);
		if (told->sys == 1)
			kill(getppid(), SIGKILL);
		_exit(0);
	}
	ret = write(end[1], p, 1) < 0 ? -errno : 0;
	told->sys = ret;
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return ret;
}

static void as_nobody(const void *arg)
{
	private_node(*(const mode_t *)arg);
	become_nobody();
	probe_here();
	if (told->caps.source != UFFD_USER_MODE)
		return;
	told->fd = uffd_open(&told->caps, 0, true);
	kernel_reads_missing(told->fd);
}

Test(uffd_open, nobody_and_a_closed_node)
{
	mode_t mode = 0600;
	int allowed;

	in_child(as_nobody, &mode);
	allowed = sysctl_value();
	cr_assert_eq(told->caps.err_dev, -EACCES);
	if (allowed == 1) {
		cr_assert_eq(told->caps.source, UFFD_SYSCALL);
		return;
	}
	cr_assert_eq(told->caps.source, UFFD_USER_MODE);
	cr_assert_eq(told->caps.err_syscall, -EPERM);
	cr_assert_eq(told->caps.err_user, 0);
	cr_assert_eq(told->first_free, 0);
	cr_assert_geq(told->fd, 0);
	cr_assert_eq(told->sys, -EFAULT, "user mode only, and yet: %ld",
		     told->sys);
}

Test(uffd_open, nobody_and_an_open_node)
{
	mode_t mode = 0666;

	in_child(as_nobody, &mode);
	cr_assert_eq(told->caps.source, UFFD_DEV);
	cr_assert_eq(told->caps.err_dev, 0);
}

static void empty_dev(const void *arg)
{
	(void)arg;
	if (unshare(CLONE_NEWNS) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/dev", "tmpfs", 0, "mode=0755"))
		cannot("an empty /dev");
	probe_here();
	told->fd = uffd_open(&told->caps, 0, false);
}

Test(uffd_open, without_a_node)
{
	need_source(UFFD_SYSCALL, "userfaultfd(2)");
	in_child(empty_dev, NULL);
	cr_assert_eq(told->caps.err_dev, -ENOENT);
	cr_assert_eq(told->caps.err_syscall, 0);
	cr_assert_eq(told->caps.source, UFFD_SYSCALL);
	cr_assert_geq(told->fd, 0);
}

struct filter {
	const struct rule *rules;
	size_t nr;
};

static void filtered(const void *arg)
{
	const struct filter *f = arg;

	refuse(f->rules, f->nr);
	probe_here();
	told->fd = uffd_open(&told->caps, 0, true);
}

static void under(const struct rule *rules, size_t nr)
{
	struct filter f = { rules, nr };

	in_child(filtered, &f);
	cr_assert_eq(told->first_free, 0, "a descriptor stayed open");
}

/* Docker's filter says EPERM, others ENOSYS; the node serves all the same. */
Test(uffd_open, system_call_refused)
{
	static const int errs[] = { EPERM, ENOSYS };

	need_source(UFFD_DEV, NODE);
	for (size_t i = 0; i < ARRAY_SIZE(errs); i++) {
		struct rule r = { __NR_userfaultfd, false, 0, errs[i] };

		under(&r, 1);
		cr_assert_eq(told->caps.source, UFFD_DEV);
		cr_assert_geq(told->fd, 0);
	}
}

/* Both refused: nothing, and each answer is kept. */
Test(uffd_open, all_refused)
{
	static const int errs[][2] = { { EPERM, EPERM },
				       { ENOENT, ENOSYS },
				       { EACCES, EPERM } };

	for (size_t i = 0; i < ARRAY_SIZE(errs); i++) {
		struct rule r[] = {
			{ __NR_openat, false, 0, errs[i][0] },
			{ __NR_userfaultfd, false, 0, errs[i][1] },
		};

		under(r, 2);
		cr_assert_eq(told->caps.source, UFFD_NONE);
		cr_assert_eq(told->caps.err_dev, -errs[i][0]);
		cr_assert_eq(told->caps.err_syscall, -errs[i][1]);
		cr_assert_eq(told->caps.err_user, -errs[i][1]);
		cr_assert_eq(told->caps.features, 0);
		cr_assert_eq(told->fd, -ENOSYS);
	}
}

Test(uffd_open, node_refused)
{
	static const int errs[] = { EPERM, ENOENT };

	need_source(UFFD_SYSCALL, "userfaultfd(2)");
	for (size_t i = 0; i < ARRAY_SIZE(errs); i++) {
		struct rule r = { __NR_openat, false, 0, errs[i] };

		under(&r, 1);
		cr_assert_eq(told->caps.source, UFFD_SYSCALL);
		cr_assert_eq(told->caps.err_dev, -errs[i]);
		cr_assert_geq(told->fd, 0);
	}
}

/* The node opens, but gives no descriptor, or one that agrees to nothing. */
Test(uffd_open, ioctl_refused)
{
	struct rule new = { __NR_ioctl, true, UABI_DEV_NEW, EPERM };
	struct rule api = { __NR_ioctl, true, (uint32_t)UABI_IO_API, EPERM };

	need_source(UFFD_DEV, NODE);
	need_source(UFFD_SYSCALL, "userfaultfd(2)");
	under(&new, 1);
	cr_assert_eq(told->caps.source, UFFD_SYSCALL);
	cr_assert_eq(told->caps.err_dev, -EPERM);
	under(&api, 1);
	cr_assert_eq(told->caps.source, UFFD_NONE);
	cr_assert_eq(told->caps.err_dev, -EPERM);
	cr_assert_eq(told->caps.err_syscall, -EPERM);
	cr_assert_eq(told->caps.err_user, -EPERM);
}

static void dropped(const void *arg)
{
	private_node(0600);
	uffd_probe(&told->before);
	told->fd = uffd_open(&told->before, 0, true);
	(void)arg;
	become_nobody();
	/* The one that is open keeps working. */
	if (told->fd >= 0) {
		char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		told->sys =
			uffd_register(told->fd, p, 4096, UABI_REGISTER_MISSING);
		if (!told->sys)
			told->sys = uffd_zeropage(told->fd, p, 4096);
	}
	told->fd = uffd_open(&told->before, 0, true);
}

/* After setuid a new one is refused, not replaced by a weaker one. */
Test(uffd_open, privileges_dropped_since)
{
	need_source(UFFD_DEV, NODE);
	in_child(dropped, NULL);
	cr_assert_eq(told->before.source, UFFD_DEV);
	cr_assert_eq(told->sys, 0);
	if (sysctl_value() == 1)
		cr_assert_geq(told->fd, 0);
	else
		cr_assert_eq(told->fd, -EACCES);
}

static void dropped_filtered(const void *arg)
{
	struct rule r = { __NR_openat, false, 0, EPERM };

	(void)arg;
	uffd_probe(&told->before);
	refuse(&r, 1);
	told->fd = uffd_open(&told->before, 0, true);
}

/* The other source of equal reach stands in. */
Test(uffd_open, node_gone_since)
{
	need_source(UFFD_DEV, NODE);
	need_source(UFFD_SYSCALL, "userfaultfd(2)");
	in_child(dropped_filtered, NULL);
	cr_assert_eq(told->before.source, UFFD_DEV);
	cr_assert_geq(told->fd, 0, "%s", strerror(-told->fd));
}

static void probe_or_skip(struct uffd_caps *caps)
{
	uffd_probe(caps);
	if (caps->source == UFFD_NONE)
		cr_skip_test("none here: %s", strerror(-caps->err_user));
}

/* Each feature by itself, and none that is not there. */
Test(uffd_open, features)
{
	struct uffd_caps caps, lying;
	int fd, before;

	probe_or_skip(&caps);
	for (unsigned int bit = 0; bit < 64; bit++) {
		uint64_t f = (uint64_t)1 << bit;

		fd = uffd_open(&caps, f, true);
		if (!(f & caps.features) || f & UABI_F_EVENTS) {
			cr_assert_eq(fd, -EINVAL, "feature %u: %d", bit, fd);
		} else if (fd >= 0) {
			close(fd);
		} else {
			/* One that goes with another one only. */
			cr_assert_eq(f, UABI_F_SIGBUS_USER);
			cr_assert_eq(fd, -EINVAL);
		}
	}
	/* What the probe says and the kernel does not have: an answer, and the
	 * next set of features opens. */
	lying = caps;
	lying.features |= (uint64_t)1 << 60;
	before = lowest_free();
	cr_assert_eq(uffd_open(&lying, (uint64_t)1 << 60, true), -EINVAL);
	cr_assert_eq(lowest_free(), before);
	fd = uffd_open(&lying, caps.features & UABI_F_SIGBUS, true);
	cr_assert_geq(fd, 0);
}

Test(uffd_open, numbered_high_and_closed_by_exec)
{
	static const rlim_t limits[] = { 1 << 10, 1 << 20, 256, 100, 40, 16 };
	struct uffd_caps caps;
	struct rlimit lim;

	probe_or_skip(&caps);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &lim), 0);
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		int fd, low = lowest_free();

		lim.rlim_cur = limits[i] < lim.rlim_max ? limits[i] :
							  lim.rlim_max;
		cr_assert_eq(setrlimit(RLIMIT_NOFILE, &lim), 0);
		errno = 4711;
		fd = uffd_open(&caps, 0, i & 1);
		cr_assert_eq(errno, 4711);
		cr_assert_geq(fd, 0, "limit %d: %s", (int)limits[i],
			      strerror(-fd));
		if (lim.rlim_cur > 200)
			cr_assert_geq(fd, lim.rlim_cur < 16384 ?
						  (int)lim.rlim_cur - 64 :
						  16384 - 64);
		cr_assert_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
		cr_assert_eq(!!(fcntl(fd, F_GETFL) & O_NONBLOCK), i & 1);
		/* With a tiny limit the low one may be the one. */
		if (lim.rlim_cur >= 100)
			cr_assert_eq(lowest_free(), low,
				     "the low one stayed open");
		close(fd);
	}
}

/* Occupied numbers are walked around, down to the one that is left. */
Test(uffd_open, few_descriptors_left)
{
	struct uffd_caps caps;
	struct rlimit lim;
	int fd, n = 0;

	probe_or_skip(&caps);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &lim), 0);
	lim.rlim_cur = 200;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &lim), 0);
	for (fd = 100; fd < 200; fd++)
		n += dup2(0, fd) == fd;
	cr_assert_eq(n, 100);
	fd = uffd_open(&caps, 0, true);
	cr_assert_geq(fd, 17);
	cr_assert_lt(fd, 100);
	close(fd);
	/* Two are needed in passing by the node, one in the end. */
	while ((fd = dup(0)) >= 0)
		n = fd;
	cr_assert_eq(errno, EMFILE);
	cr_assert_eq(uffd_open(&caps, 0, true), -EMFILE);
	close(n);
	close(n - 1);
	fd = uffd_open(&caps, 0, true);
	cr_assert_geq(fd, 0, "%s", strerror(-fd));
	cr_assert_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
}
