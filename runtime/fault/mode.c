// SPDX-License-Identifier: LGPL-2.1-or-later
/* mode.c - see mode.h. */
#include "fault/mode.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/sys.h"
#include "fault/fdtable.h"
#include "fault/service.h"
#include "fault/signal.h"
#include "fault/uffd.h"
#include "base/ban.h"

/* Userfaultfds a signal mode spreads regions over; service threads read one. */
#define SHARDS 4u

#ifndef __NR_pidfd_open
#define __NR_pidfd_open 434
#endif
#ifndef __NR_process_madvise
#define __NR_process_madvise 440
#endif

#define FL_MADV_DONTNEED_LOCKED 24

_Atomic(bool) delivery_blind;
_Atomic(int) delivery_empty = -1;

static struct {
	bool probed;
	struct uffd_caps caps;
	/* How auto is understood, for what is said. Relaxed: no more. */
	_Atomic(bool) preload;
	struct {
		unsigned int shards; /* 0: not open */
		bool started;
		/* Regions made. Relaxed: spreads them, no more. */
		_Atomic(uint32_t) next;
		_Atomic(int) uffd[SHARDS];
	} d[NR_DELIVERIES];
	/* -1: none; relaxed, as fdtable.h says. */
	_Atomic(int) pidfd;
} mode = { .pidfd = -1 };

static struct fl_lock mode_lock = FL_LOCK_INIT(LOCK_MODE);

static const uint64_t features[NR_DELIVERIES] = {
	[DELIVER_SIGNAL] = UABI_F_SIGBUS,
	[DELIVER_SERVICE] = 0,
	[DELIVER_HYBRID] = UABI_F_SIGBUS | UABI_F_SIGBUS_USER,
};

const char *delivery_name(enum delivery d)
{
	static const char *const name[] = { "signal", "service", "hybrid" };

	return name[d];
}

/* What is asked for with a descriptor: write faults, too, where there are any. */
static uint64_t asked(enum delivery d)
{
	return features[d] | (mode.caps.features & UABI_F_WP);
}

bool delivery_writes(void)
{
	return mode.caps.features & UABI_F_WP;
}

static bool offered(const struct uffd_caps *caps, enum delivery d)
{
	if (caps->source == UFFD_NONE ||
	    (caps->features & features[d]) != features[d])
		return false;
	/* Messages of faults in the kernel are not for everybody. */
	return d == DELIVER_SIGNAL || caps->source != UFFD_USER_MODE;
}

int delivery_choose(const struct uffd_caps *caps, enum conf_fault want,
		    bool preload)
{
	int d = -ENOTSUP;

	switch (want) {
	case CONF_FAULT_SIGNAL:
		d = DELIVER_SIGNAL;
		break;
	case CONF_FAULT_SERVICE:
		d = DELIVER_SERVICE;
		break;
	case CONF_FAULT_HYBRID:
		d = DELIVER_HYBRID;
		break;
	case CONF_FAULT_AUTO:
		if (offered(caps, DELIVER_HYBRID))
			d = DELIVER_HYBRID;
		else if (preload && offered(caps, DELIVER_SERVICE))
			d = DELIVER_SERVICE;
		else
			d = DELIVER_SIGNAL;
		break;
	case CONF_FAULT_OFF:
		break;
	}
	return d >= 0 && offered(caps, (enum delivery)d) ? d : -ENOTSUP;
}

/* Why the choice is not a better one. */
static const char *why(enum delivery d)
{
	bool user = mode.caps.source == UFFD_USER_MODE;

	if (d == DELIVER_HYBRID)
		return "the best there is";
	if (d == DELIVER_SIGNAL && user)
		return "more needs privileges or "
		       "vm.unprivileged_userfaultfd=1";
	if (mode.caps.features & UABI_F_SIGBUS_USER)
		return "as asked for";
	if (d == DELIVER_SERVICE || !ld_rlx(&mode.preload))
		return "this kernel has no hybrid";
	return "as asked for";
}

static void say_started(enum delivery d)
{
	static const char *const source[] = {
		[UFFD_NONE] = "nowhere",
		[UFFD_DEV] = "/dev/userfaultfd",
		[UFFD_SYSCALL] = "userfaultfd(2)",
		[UFFD_USER_MODE] = "userfaultfd(2), user mode only",
	};

	fl_log_once(FL_LOG_INFO,
		    "demand regions: fault=%s, from %s; %s; writable: %s",
		    delivery_name(d), source[mode.caps.source], why(d),
		    delivery_writes() ? "yes" : "no");
}

static void say_refused(void)
{
	if (mode.caps.source == UFFD_NONE)
		fl_log_once(FL_LOG_INFO,
			    "no demand regions: no userfaultfd (error %d; see "
			    "'faultline doctor')",
			    -mode.caps.err_user);
	else
		fl_log_once(FL_LOG_INFO,
			    "no demand regions: the system does not offer what "
			    "option fault asks for");
}

static void open_pidfd(void)
{
	long fd;

	if (fd_get(&mode.pidfd) >= 0)
		return;
	fd = sys_call2(__NR_pidfd_open, sys_getpid(), 0);
	if (fd < 0)
		return;
	fd_reserve((int)fd, &mode.pidfd);
	sys_close((int)fd);
}

static void open_empty(void)
{
	long fd;

	if (fd_get(&delivery_empty) >= 0)
		return;
	fd = sys_call2(__NR_memfd_create, "faultline", 1 /* CLOEXEC */);
	if (fd < 0)
		return;
	fd_reserve((int)fd, &delivery_empty);
	sys_close((int)fd);
}

/* As many of the wanted descriptors as there are. 0 or -errno. */
static int open_shards(enum delivery d)
{
	unsigned int want = d == DELIVER_SIGNAL ? SHARDS : 1, n = 0;
	int fd = -EMFILE;

	for (; n < want; n++) {
		/* Several threads read one; who comes too late waits again. */
		fd = uffd_open(&mode.caps, asked(d), d != DELIVER_SIGNAL);
		if (fd < 0 || fd_adopt(fd, &mode.d[d].uffd[n]) < 0)
			break;
	}
	mode.d[d].shards = n;
	if (n)
		return 0;
	/* Else it was offered once, and is refused now. */
	return fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM ? fd : -ENOTSUP;
}

/* Finds out what there is. The descriptor that tells is most often the one that
 * is wanted. */
static void probe(enum conf_fault want, bool preload)
{
	int fd = uffd_probe_open(&mode.caps, UABI_F_WP, true);
	int d;

	mode.probed = true;
	if (fd == -EINVAL)
		uffd_probe(&mode.caps);
	if (fd < 0)
		return;
	d = delivery_choose(&mode.caps, want, preload);
	if (d == DELIVER_SERVICE && asked(DELIVER_SERVICE) == UABI_F_WP &&
	    fd_adopt(fd, &mode.d[d].uffd[0]) == 0)
		mode.d[d].shards = 1;
	else
		sys_close(fd);
}

/* A program that allows itself few descriptors needs them for its files. */
#define PRELOAD_NOFILE 64u

static bool few_descriptors(void)
{
	struct rlimit lim = { RLIM_INFINITY, RLIM_INFINITY };

	sys_call4(__NR_prlimit64, 0, RLIMIT_NOFILE, NULL, &lim);
	return lim.rlim_cur < PRELOAD_NOFILE;
}

int delivery_open(enum conf_fault want, bool preload)
{
	uint64_t mask;
	int d, ret;

	if (preload && few_descriptors())
		return -EMFILE;
	mask = sys_block_signals();
	lock_take(&mode_lock);
	if (!mode.probed)
		probe(want, preload);
	st_rlx(&mode.preload, preload);
	ret = d = delivery_choose(&mode.caps, want, preload);
	if (d >= 0 && !mode.d[d].shards)
		ret = open_shards((enum delivery)d);
	lock_drop(&mode_lock);
	sys_restore_signals(mask);
	if (ret == -ENOTSUP && want != CONF_FAULT_OFF)
		say_refused();
	if (ret < 0)
		return ret;
	/* Before the program sets masks and handlers, which the preload sees
	 * from now on. */
	if (preload && d != DELIVER_SERVICE) {
		ret = signal_install();
		signal_unblock();
	}
	return ret < 0 ? ret : d;
}

int delivery_start(enum delivery d, unsigned int threads)
{
	uint64_t mask = sys_block_signals();
	int ret = 0;

	lock_take(&mode_lock);
	open_pidfd();
	open_empty();
	if (!mode.d[d].started) {
		if (d != DELIVER_SERVICE)
			ret = signal_install();
		if (ret == 0 && d != DELIVER_SIGNAL)
			ret = service_start(&mode.d[d].uffd[0], threads);
		if (ret == 0 && d == DELIVER_SIGNAL)
			st_rlx(&delivery_blind, true);
		mode.d[d].started = ret == 0;
	}
	lock_drop(&mode_lock);
	sys_restore_signals(mask);
	if (ret == 0)
		say_started(d);
	return ret;
}

bool delivery_works(enum delivery d)
{
	return !delivery_sleeps(d) || !service_fallen(&mode.d[d].uffd[0]);
}

_Atomic(int) *delivery_uffd(enum delivery d)
{
	uint32_t n = add_rlx(&mode.d[d].next, 1u);

	return &mode.d[d].uffd[n % mode.d[d].shards];
}

/* One piece after the other. */
static void zap_singly(struct iovec *piece, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		/* The program may have locked all it has. */
		if (sys_madvise(piece[i].iov_base, piece[i].iov_len,
				MADV_DONTNEED) == -EINVAL)
			sys_madvise(piece[i].iov_base, piece[i].iov_len,
				    FL_MADV_DONTNEED_LOCKED);
}

void fault_zap(struct iovec *piece, unsigned int n)
{
	long done;
	int fd;

	while (n > 1) {
		size_t len;

		fd = fd_get(&mode.pidfd);
		done = fd < 0 ? -EBADF :
				sys_call5(__NR_process_madvise, fd, piece, n,
					  MADV_DONTNEED, 0);
		if (unlikely(!fd_still(&mode.pidfd, fd)))
			continue;
		if (done <= 0)
			break;
		/* It may stop between pieces. */
		while (n > 0 && (len = piece->iov_len) <= (size_t)done) {
			done -= (long)len;
			piece++;
			n--;
		}
	}
	zap_singly(piece, n);
}

void delivery_fork_child(void)
{
	fd_fork_child();
	signal_fork_child();
	lock_reset(&mode_lock);
	for (int d = 0; d < NR_DELIVERIES; d++) {
		for (unsigned int i = 0; i < mode.d[d].shards; i++)
			fd_release(&mode.d[d].uffd[i]);
		mode.d[d].shards = 0;
		/* Handlers are inherited, threads are not. */
		mode.d[d].started = d == DELIVER_SIGNAL && mode.d[d].started;
	}
	if (fd_get(&mode.pidfd) >= 0)
		fd_release(&mode.pidfd);
	service_fork_child();
}
