// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * probe_page.c - the doctor's probes of what demand paging needs: what each
 * source of a userfaultfd answers, and what follows from each thing that is
 * offered or not.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "cli/cli.h"
#include "base/conf.h"
#include "fault/uffd.h"

/* Newer than Debian 12's headers. */
#ifndef __NR_cachestat
#define __NR_cachestat 451
#endif
#ifndef IORING_SETUP_SINGLE_ISSUER
#define IORING_SETUP_SINGLE_ISSUER (1U << 12)
#endif
#ifndef IORING_SETUP_DEFER_TASKRUN
#define IORING_SETUP_DEFER_TASKRUN (1U << 13)
#endif

/* All three sources, also those that the pager does not get to. */
static const struct uffd_caps *caps(void)
{
	static struct uffd_caps c;
	static bool asked;

	if (asked)
		return &c;
	asked = true;
	uffd_probe(&c);
	for (enum uffd_source s = UFFD_SYSCALL; s <= UFFD_USER_MODE; s++) {
		int *err = s == UFFD_SYSCALL ? &c.err_syscall : &c.err_user;
		uint64_t features, ioctls;

		if (*err == UFFD_UNTRIED)
			*err = uffd_try(s, &features, &ioctls);
	}
	return &c;
}

/* "EPERM, Operation not permitted" */
static const char *error_text(int err)
{
	static char text[80];
	const char *name = strerrorname_np(err);

	snprintf(text, sizeof(text), "%s, %s", name ? name : "error",
		 strerror(err));
	return text;
}

static void probe_uffd(struct finding *f)
{
	static const char every[] =
		"every access is served, those of system calls too";

	switch (caps()->source) {
	case UFFD_DEV:
		finding(f, PROBE_OK, "full, by /dev/userfaultfd: %s", every);
		break;
	case UFFD_SYSCALL:
		finding(f, PROBE_OK, "full, by the system call: %s", every);
		break;
	case UFFD_USER_MODE:
		finding(f, PROBE_NOTE,
			"user mode only: the buffers of system calls are "
			"filled before the call");
		break;
	default:
		finding(f, PROBE_NOTE,
			"none: large files are left to the "
			"kernel");
	}
}

static void probe_dev(struct finding *f)
{
	int err = -caps()->err_dev;

	if (!err)
		finding(f, PROBE_OK, "gives a descriptor");
	else if (err == ENOENT)
		finding(f, PROBE_NOTE, "%s: there is no such node (Linux 6.1)",
			error_text(err));
	else if (err == EACCES)
		finding(f, PROBE_NOTE,
			"%s: who may open the node may page; its mode or an "
			"ACL says who",
			error_text(err));
	else
		finding(f, PROBE_NOTE, "%s", error_text(err));
}

static void probe_call(struct finding *f)
{
	int err = -caps()->err_syscall;
	char sysctl[16];

	if (!err) {
		finding(f, PROBE_OK, "gives a descriptor");
		return;
	}
	probe_line("/proc/sys/vm/unprivileged_userfaultfd", sysctl,
		   sizeof(sysctl));
	if (err == EPERM && sysctl[0] == '0')
		finding(f, PROBE_NOTE,
			"%s: needs CAP_SYS_PTRACE or "
			"vm.unprivileged_userfaultfd=1 (it is 0)",
			error_text(err));
	else
		finding(f, PROBE_NOTE, "%s: %s", error_text(err),
			err == ENOSYS ?
				"not in this kernel, or refused by a filter" :
				"refused, by a filter perhaps");
}

static void probe_user(struct finding *f)
{
	int err = -caps()->err_user;

	if (!err)
		finding(f, PROBE_OK, "gives a descriptor");
	else
		finding(f, PROBE_NOTE, "%s: %s", error_text(err),
			err == EINVAL ?
				"not in this kernel (Linux 5.11)" :
			err == ENOSYS ?
				"not in this kernel, or refused by a filter" :
				"refused, by a filter perhaps");
}

/* What follows from a feature being there, and from its absence. */
static void feature(struct finding *f, uint64_t bit, const char *yes,
		    const char *no)
{
	if (caps()->source == UFFD_NONE)
		finding(f, PROBE_NOTE, "unknown, there is no userfaultfd");
	else if (caps()->features & bit)
		finding(f, PROBE_OK, "%s", yes);
	else
		finding(f, PROBE_NOTE, "%s", no);
}

static void probe_sigbus(struct finding *f)
{
	feature(f, UABI_F_SIGBUS,
		"a thread can serve its own faults (fault=signal)",
		"no (Linux 4.14): faults are handed to service threads");
}

static void probe_sigbus_user(struct finding *f)
{
	feature(f, UABI_F_SIGBUS_USER,
		"threads serve their own faults, service threads those of "
		"system calls (fault=hybrid)",
		"no (companion patch): fault=hybrid is not to be had");
}

static void probe_minor(struct finding *f)
{
	feature(f, UABI_F_MINOR_SHMEM,
		"pages of memory files can be mapped without a copy",
		"no (Linux 5.14): every page filled is a copy");
}

static void probe_move(struct finding *f)
{
	feature(f, UABI_F_MOVE, "offered; pages are copied all the same",
		"no (Linux 6.8): pages are copied, as elsewhere");
}

static void probe_poison(struct finding *f)
{
	feature(f, UABI_F_POISON,
		"a page that cannot be read can be marked without a mapping "
		"of its own",
		"no (Linux 6.6): a page that cannot be read costs a mapping");
}

static void probe_wp_async(struct finding *f)
{
	feature(f, UABI_F_WP_ASYNC,
		"written pages can be told without a fault for each",
		"no (Linux 6.7): a page's first write costs a fault where "
		"writes are tracked");
}

static int try_cachestat(int fd)
{
	uint64_t range[2] = { 0, 0 }, result[5];
	int err = 0;

	if (fd < 0 || syscall(__NR_cachestat, fd, range, result, 0))
		err = errno;
	if (fd >= 0)
		close(fd);
	return err;
}

/* Of a file of one's own, and of one that may be somebody else's. */
static void probe_cachestat(struct finding *f)
{
	int own = try_cachestat(memfd_create("faultline-doctor", MFD_CLOEXEC));
	int err = try_cachestat(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));

	if (own)
		finding(f, PROBE_NOTE,
			"%s%s: cached files are told by mincore(2), in more "
			"calls",
			error_text(own), own == ENOSYS ? " (Linux 6.5)" : "");
	else if (err)
		finding(f, PROBE_NOTE,
			"%s: not for files that this user neither owns nor may "
			"write",
			error_text(err));
	else
		finding(f, PROBE_OK,
			"one call tells a cached file from a cold one");
}

/* Two pages with one between them that stays. */
static int zap_two(char *p)
{
	struct iovec v[2] = { { p, 4096 }, { p + 8192, 4096 } };
	int fd, err = 0;

	memset(p, 1, 3 * 4096);
	fd = (int)syscall(__NR_pidfd_open, getpid(), 0);
	if (fd < 0)
		return errno;
	if (syscall(__NR_process_madvise, fd, v, 2, MADV_DONTNEED, 0) != 8192)
		err = errno ? errno : EINVAL;
	close(fd);
	if (!err && (p[0] || !p[4096] || p[8192]))
		err = EIO;
	return err;
}

static void probe_zap(struct finding *f)
{
	char *p = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int err;

	if (p == MAP_FAILED) {
		finding(f, PROBE_NOTE, "not tried: %s", error_text(errno));
		return;
	}
	err = zap_two(p);
	munmap(p, 3 * 4096);
	if (!err)
		finding(f, PROBE_OK,
			"many pages are evicted by one process_madvise(2)");
	else
		finding(f, PROBE_NOTE,
			"%s%s: a madvise(2) for each run of evicted pages",
			error_text(err), err == EINVAL ? " (Linux 6.13)" : "");
}

static int ring(unsigned int flags)
{
	struct io_uring_params params;
	int fd;

	memset(&params, 0, sizeof(params));
	params.flags = flags;
	fd = (int)syscall(__NR_io_uring_setup, 4, &params);
	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

static void probe_uring(struct finding *f)
{
	char off[16];
	int err = ring(IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);

	if (!err) {
		finding(f, PROBE_OK, "many reads go out with one call");
		return;
	}
	err = ring(0);
	if (!err) {
		finding(f, PROBE_OK,
			"many reads go out with one call (without "
			"deferred completions, Linux 6.1)");
		return;
	}
	probe_line("/proc/sys/kernel/io_uring_disabled", off, sizeof(off));
	finding(f, PROBE_NOTE, "%s%s%s: files are read by pread(2) or aio",
		error_text(err),
		off[0] > '0' ? ", kernel.io_uring_disabled=" : "",
		off[0] > '0' ? off : "");
}

/* What comes of all that under the options in force. */
static void probe_paging(struct finding *f)
{
	const struct conf *c = settings();
	uint64_t feat = caps()->features;
	bool full = caps()->source != UFFD_USER_MODE;
	bool hybrid = full && feat & UABI_F_SIGBUS && feat & UABI_F_SIGBUS_USER;

	if (c->off || c->fault == CONF_FAULT_OFF ||
	    c->large == CONF_LARGE_KERNEL)
		finding(f, PROBE_NOTE,
			"off, by option: large files are left "
			"to the kernel");
	else if (caps()->source == UFFD_NONE)
		finding(f, PROBE_NOTE, "off: there is no userfaultfd");
	else if (c->fault == CONF_FAULT_HYBRID && !hybrid)
		finding(f, PROBE_NOTE,
			"fault=hybrid is not offered, fault=auto is taken");
	else if (hybrid &&
		 (c->fault == CONF_FAULT_AUTO || c->fault == CONF_FAULT_HYBRID))
		finding(f, PROBE_OK,
			"hybrid: a thread serves itself, service "
			"threads serve system calls");
	else if (c->fault == CONF_FAULT_SIGNAL || !full)
		finding(f, feat & UABI_F_SIGBUS ? PROBE_OK : PROBE_NOTE,
			feat & UABI_F_SIGBUS ?
				"signal: a thread serves its own faults" :
				"off: the kernel has no signal faults");
	else
		finding(f, PROBE_OK,
			"service: threads of the pager serve "
			"faults");
}

const struct probe page_probes[] = {
	{ "userfaultfd", probe_uffd },    { "/dev/userfaultfd", probe_dev },
	{ "userfaultfd(2)", probe_call }, { "user mode only", probe_user },
	{ "SIGBUS", probe_sigbus },       { "SIGBUS_USER", probe_sigbus_user },
	{ "MINOR_SHMEM", probe_minor },   { "MOVE", probe_move },
	{ "POISON", probe_poison },       { "WP_ASYNC", probe_wp_async },
	{ "cachestat", probe_cachestat }, { "process_madvise", probe_zap },
	{ "io_uring", probe_uring },      { "demand paging", probe_paging },
};

const size_t nr_page_probes = sizeof(page_probes) / sizeof(page_probes[0]);
