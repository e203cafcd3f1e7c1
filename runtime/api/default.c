// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * default.c - the pager behind the drop-ins and the preload: opened at first
 * use with the options of profiles and environment; summed up at exit.
 *
 * States of `state`: DEF_UNOPENED -> DEF_OPENING by the thread whose
 * compare-and-swap wins, then DEF_OPEN or DEF_ABSENT for good. Others wait on
 * the word; the opening thread itself, called back by what it calls, and the
 * child of a fork that happened meanwhile get none instead of waiting for ever.
 * The opener has its signals blocked: a handler that jumped out would leave
 * everybody waiting.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/order.h"
#include "base/sys.h"
#include "api/pager.h"
#include "base/ban.h"

enum {
	DEF_UNOPENED,
	DEF_OPENING,
	DEF_OPEN,
	DEF_ABSENT,
};

static struct fl_pager pager;
static _Atomic(uint32_t) state;
/* Thread and process that opens; relaxed: compared with one's own only. */
static _Atomic(uint32_t) opener_tid;
static _Atomic(uint32_t) opener_pid;

/*
 * summary=1 only: where the summary goes. Many programs close descriptor 2
 * before destructors run, so a duplicate is kept out of their way; what it
 * refers to is compared at exit, should the program have closed it and be using
 * its number for a file.
 */
static struct {
	int fd;
	uint64_t ino;
	uint32_t dev[4];
} summary = { .fd = -1 };

static bool identify(int fd, uint64_t *ino, uint32_t dev[4])
{
	struct statx st;

	if (sys_call5(__NR_statx, fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS,
		      &st))
		return false;
	*ino = st.stx_ino;
	dev[0] = st.stx_dev_major;
	dev[1] = st.stx_dev_minor;
	dev[2] = st.stx_rdev_major;
	dev[3] = st.stx_rdev_minor;
	return true;
}

/* Far above the numbers a program expects for its own files; none where
 * RLIMIT_NOFILE leaves no such room. */
static void keep_stderr(void)
{
	long fd = sys_fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 512);

	if (fd < 0)
		fd = sys_fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 64);
	if (identify(STDERR_FILENO, &summary.ino, summary.dev))
		summary.fd = (int)fd;
}

/* Does @fd still refer to what standard error was at start? */
static bool is_kept(int fd)
{
	uint32_t dev[4];
	uint64_t ino;

	return summary.ino && identify(fd, &ino, dev) && ino == summary.ino &&
	       !__builtin_memcmp(dev, summary.dev, sizeof(dev));
}

static bool open_default(void)
{
	int err;

	conf_load(&pager.conf, environ);
	if (pager.conf.off)
		return false;
	err = pager_init(&pager);
	if (!err) {
		stat_set_env(&pager.stats, environ);
		pager.publish = pager.conf.stat;
		pager.permanent = true;
		if (pager.conf.summary)
			keep_stderr();
		err = pager_enlist(&pager);
		if (err)
			pager_destroy(&pager);
	}
	if (err)
		fl_log(FL_LOG_WARN,
		       "stands aside: the pager cannot start "
		       "(error %d; see 'faultline doctor')",
		       -err);
	return !err;
}

static void wait_open(void)
{
	while (ld_rlx(&state) == DEF_OPENING &&
	       ld_rlx(&opener_pid) == (uint32_t)sys_getpid() &&
	       ld_rlx(&opener_tid) != (uint32_t)sys_gettid()) {
		struct timespec tick = { .tv_nsec = 10 * 1000 * 1000 };

		/* Bounded, as a fork may come between the test and the wait. */
		sys_futex_wait(&state, DEF_OPENING, &tick);
	}
}

FL_COLD static struct fl_pager *first_use(void)
{
	uint32_t old = DEF_UNOPENED;
	bool ok;

	signals_off();
	if (cas_rlx(&state, &old, (uint32_t)DEF_OPENING)) {
		/* The thread first: whoever finds our process number must not
		 * wait for itself. */
		st_rlx(&opener_tid, (uint32_t)sys_gettid());
		st_rlx(&opener_pid, (uint32_t)sys_getpid());
		ok = open_default();
		/* [MO:default-pager] the pager, for fl_pager_default. */
		st_rel(&state, ok ? (uint32_t)DEF_OPEN : (uint32_t)DEF_ABSENT);
		sys_futex_wake(&state, INT32_MAX);
	}
	signals_on();
	if (old == DEF_OPENING)
		wait_open();
	/* [MO:default-pager] pairs with the store above. */
	return ld_acq(&state) == DEF_OPEN ? &pager : NULL;
}

struct fl_pager *fl_pager_default(void)
{
	/* [MO:default-pager] pairs with first_use: the pager is complete. */
	uint32_t now = ld_acq(&state);

	if (likely(now == DEF_OPEN))
		return &pager;
	return now == DEF_ABSENT ? NULL : first_use();
}

static void say_size(char *buf, size_t size, uint64_t v)
{
	static const char units[] = "KMGTP";
	uint64_t whole = v, rest = 0;
	int u = -1;

	while (whole >= 1024 && u < 4) {
		rest = whole & 1023;
		whole >>= 10;
		u++;
	}
	if (u < 0)
		log_fmt(buf, size, "%llu bytes", (unsigned long long)v);
	else
		log_fmt(buf, size, "%llu.%llu %ciB", (unsigned long long)whole,
			(unsigned long long)(rest * 10 / 1024), units[u]);
}

static unsigned long long sum(enum stat_id id)
{
	return stat_sum(&pager.stats, id);
}

static void say_summary(void)
{
	char mapped[32], resident[32], line[384];
	size_t n;

	say_size(mapped, sizeof(mapped), sum(STAT_map_bytes));
	say_size(resident, sizeof(resident), sum(STAT_resident_bytes));
	n = log_fmt(line, sizeof(line),
		    "faultline[%ld]: %llu file and %llu anonymous mappings "
		    "served (%s), %llu left to the kernel, %llu demoted; "
		    "%s resident at exit",
		    sys_getpid(), sum(STAT_maps_file), sum(STAT_maps_anon),
		    mapped, sum(STAT_maps_kernel), sum(STAT_demotions),
		    resident);
	if (sum(STAT_demand_maps))
		n += log_fmt(line + n, sizeof(line) - n,
			     "; %llu demand regions, %llu faults, %llu pages",
			     sum(STAT_demand_maps), sum(STAT_demand_faults),
			     sum(STAT_demand_filled));
	n += log_fmt(line + n, sizeof(line) - n, "\n");
	if (summary.fd >= 0 && is_kept(summary.fd))
		sys_write(summary.fd, line, n);
	else if (is_kept(STDERR_FILENO))
		sys_write(STDERR_FILENO, line, n);
}

__attribute__((destructor)) static void default_fini(void)
{
	/* [MO:default-pager] pairs with first_use: the pager is complete. */
	if (ld_acq(&state) != DEF_OPEN)
		return;
	stat_unpublish(&pager.stats);
	if (pager.conf.summary)
		say_summary();
}
