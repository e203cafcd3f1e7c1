// SPDX-License-Identifier: LGPL-2.1-or-later
/* service.c - see service.h. */
#include "fault/service.h"

#include <fcntl.h>
#include <poll.h>
#include <linux/kcmp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/file.h"
#include "base/log.h"
#include "base/sys.h"
#include "fault/fault.h"
#include "fault/fdtable.h"
#include "fault/frames.h"
#include "fault/uffd.h"
#include "fault/vma.h"

/* For the watchdog's last act alone, see first_gone. */
static void (*const libc_exit)(int) = exit;

#include "base/ban.h"

#define PR_SET_NAME 15
#define STACK_SIZE ((size_t)256 << 10)
#define MESSAGES 8u
#define POOLS 2u /* service and hybrid */

/* The watchdog's nap while nothing is served, after which it looks all the
 * same: a filter may have killed threads before they could say anything. */
#define PARKED_S 5

struct service_patience service_patience = {
	.check_ms = 500,
	.file_checks = 10,
	.user_checks = 60,
};

struct worker {
	/* Odd: serving. */
	FL_ALIGNED_CL _Atomic(uint32_t) turn;
	/* 0: on its way. */
	_Atomic(uint32_t) tid;
	/* What is served; relaxed: the watchdog looks at them in a turn that
	 * has not ended for long. */
	_Atomic(uintptr_t) addr;
	_Atomic(struct filler *) filler;
	/* Another has its place. Relaxed: it ends some time. */
	_Atomic(bool) replaced;
	_Atomic(int) epfd;
	/* NULL: the slot is free. Relaxed: others look at it to see who is idle,
	 * which is a hint. */
	_Atomic(struct pool *) pool;
	/* It cannot go on. */
	_Atomic(bool) broken;
	/* The watchdog's: the turn at the last check, and checks since. */
	uint32_t seen, same;
};

struct pool {
	_Atomic(int) *uffd;
	_Atomic(bool) fallen;
	/* The watchdog's. */
	uint32_t gone;
	uint32_t unread;
};

static struct worker worker[SERVICE_THREADS];
/* Slots ever used; grows only. */
static _Atomic(uint32_t) nr_workers;
static struct pool pool[POOLS];

static struct {
	/* 1: nobody looks, who begins a turn says so. */
	_Atomic(uint32_t) parked;
	bool runs;
} watch;

/* ---------------------------------------------------------------------------
 * Serving
 */

static bool others_idle(const struct worker *w)
{
	uint32_t n = ld_rlx(&nr_workers);

	for (uint32_t i = 0; i < n; i++)
		if (&worker[i] != w &&
		    ld_rlx(&worker[i].pool) == ld_rlx(&w->pool) &&
		    ld_rlx(&worker[i].tid) && !(ld_rlx(&worker[i].turn) & 1))
			return true;
	return false;
}

static void serve_message(struct worker *w, const struct uabi_msg *m)
{
	void *addr = (void *)(uintptr_t)(m->address & FL_PAGE_MASK);
	_Atomic(int) *uffd = ld_rlx(&w->pool)->uffd;
	bool write = m->flags & (UABI_FAULT_WRITE | UABI_FAULT_WP);
	int fd;

	if (m->event != UABI_EVENT_PAGEFAULT)
		return;
	st_rlx(&w->addr, (uintptr_t)addr);
	if (fault_service(addr, write, &w->filler) == FAULT_DONE)
		return;
	/* The kernel's own answer awaits it. */
	do {
		fd = fd_get(uffd);
		uffd_wake(fd, addr, FL_PAGE_SIZE);
	} while (unlikely(!fd_still(uffd, fd)));
}

/* What there is to serve. A read that brings less than was asked for has left
 * nothing. False if the descriptor is not what it was. */
static bool serve_all(struct worker *w)
{
	struct uabi_msg m[MESSAGES];
	size_t n, want;
	long got;
	int fd;

	do {
		want = others_idle(w) ? 2 : MESSAGES;
		fd = fd_get(ld_rlx(&w->pool)->uffd);
		got = sys_read(fd, m, want * sizeof(m[0]));
		if (unlikely(!fd_still(ld_rlx(&w->pool)->uffd, fd))) {
			n = want; /* again */
			continue;
		}
		if (got < 0)
			return got == -EAGAIN || got == -EINTR;
		n = (size_t)got / sizeof(m[0]);
		for (size_t i = 0; i < n; i++) {
			/* A turn for each. Relaxed: odd as before. */
			if (i > 0)
				add_rlx(&w->turn, 2u);
			serve_message(w, &m[i]);
		}
	} while (n == want);
	return true;
}

/* Where epoll is refused. */
static void wait_poll(struct worker *w)
{
	struct timespec second = { .tv_sec = 1 };
	struct pollfd p = { .fd = fd_get(ld_rlx(&w->pool)->uffd),
			    .events = POLLIN };

	if (sys_call5(__NR_ppoll, &p, 1, &second, NULL, 8) < 0)
		sys_call2(__NR_nanosleep, &second, NULL);
}

static void wait_message(struct worker *w)
{
	struct epoll_event ev;
	int fd = fd_get(&w->epfd);
	long n;

	if (fd >= 0) {
		n = sys_call6(__NR_epoll_pwait, fd, SYS_A(&ev), 1, -1, 0, 8);
		if (n >= 0 || n == -EINTR || !fd_still(&w->epfd, fd))
			return;
	}
	wait_poll(w);
}

static void begin_turn(struct worker *w)
{
	/* [MO:service-turn] pairs with park: the watchdog sees the turn, or
	 * this sees that it sleeps. */
	add_sc(&w->turn, 1u);
	/* [MO:service-turn] as above. */
	if (unlikely(ld_sc(&watch.parked)) && xchg_rlx(&watch.parked, 0u))
		sys_futex_wake(&watch.parked, 1);
}

static void end_turn(struct worker *w)
{
	/* [MO:service-turn] what was served, to the watchdog. */
	add_rel(&w->turn, 1u);
}

static void thread_begin(const char *name)
{
	/* What libc sends to all threads when the program changes its user
	 * (SIGSETXID): it waits for each of them. */
	uint64_t setxid = (uint64_t)1 << (33 - 1);

	sys_call4(__NR_rt_sigprocmask, SIG_UNBLOCK, &setxid, NULL,
		  sizeof(setxid));
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	sys_call2(__NR_prctl, PR_SET_NAME, name);
}

static void *service_main(void *arg)
{
	struct worker *w = arg;

	thread_begin("fl-service");
	/* [MO:service-turn] the thread is there, for the watchdog. */
	st_rel(&w->tid, (uint32_t)sys_gettid());
	while (!ld_rlx(&w->replaced)) {
		wait_message(w);
		begin_turn(w);
		if (!serve_all(w))
			break;
		end_turn(w);
	}
	st_rlx(&w->broken, !ld_rlx(&w->replaced));
	return NULL;
}

/* ---------------------------------------------------------------------------
 * Threads
 */

/* With every signal blocked, those that a fault raises as well: what is sent to
 * the process is for the program's threads. */
static int spawn(void *(*fn)(void *), void *arg)
{
	uint64_t all = ~(uint64_t)0, old = 0;
	pthread_attr_t attr;
	pthread_t t;
	int err;

	sys_call4(__NR_rt_sigprocmask, SIG_SETMASK, &all, &old, sizeof(all));
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	err = pthread_create(&t, &attr, fn, arg);
	if (err == EINVAL) { /* the program's thread-local data are larger */
		pthread_attr_destroy(&attr);
		pthread_attr_init(&attr);
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
		err = pthread_create(&t, &attr, fn, arg);
	}
	pthread_attr_destroy(&attr);
	sys_restore_signals(old);
	return -err;
}

/* -1 where there is none: the thread then polls. */
static void open_epoll(struct worker *w)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET |
					    EPOLLEXCLUSIVE };
	long fd = sys_call1(__NR_epoll_create1, EPOLL_CLOEXEC);

	st_rlx(&w->epfd, -1);
	if (fd < 0)
		return;
	if (sys_call4(__NR_epoll_ctl, fd, EPOLL_CTL_ADD,
		      fd_get(ld_rlx(&w->pool)->uffd), &ev) == 0)
		fd_reserve((int)fd, &w->epfd);
	sys_close((int)fd);
}

static struct worker *slot_free(void)
{
	uint32_t n = ld_rlx(&nr_workers);

	for (uint32_t i = 0; i < n; i++)
		if (!ld_rlx(&worker[i].pool))
			return &worker[i];
	if (n == SERVICE_THREADS)
		return NULL;
	st_rlx(&nr_workers, n + 1);
	return &worker[n];
}

/* The starter's, before there is a watchdog, then the watchdog's. */
static int add_worker(struct pool *p)
{
	struct worker *w = slot_free();
	int ret;

	if (!w)
		return -EAGAIN;
	st_rlx(&w->pool, p);
	w->seen = w->same = 0;
	st_rlx(&w->turn, 0u);
	st_rlx(&w->tid, 0u);
	st_rlx(&w->filler, (struct filler *)NULL);
	st_rlx(&w->replaced, false);
	st_rlx(&w->broken, false);
	open_epoll(w);
	ret = spawn(service_main, w);
	if (ret < 0) {
		fd_release(&w->epfd);
		st_rlx(&w->pool, (struct pool *)NULL);
	}
	return ret;
}

/* ---------------------------------------------------------------------------
 * The watchdog
 */

static bool alive(const struct worker *w)
{
	uint32_t tid = ld_rlx(&w->tid);

	return tid == 0 || /* on its way */
	       sys_call3(__NR_tgkill, sys_getpid(), tid, 0) != -ESRCH;
}

bool service_fallen(const _Atomic(int) *uffd)
{
	for (unsigned int i = 0; i < POOLS; i++)
		if (pool[i].uffd == uffd)
			return ld_rlx(&pool[i].fallen);
	return false;
}

static void fall(struct pool *p, const char *why)
{
	if (!ld_rlx(&p->fallen))
		fl_log(FL_LOG_WARN,
		       "%s: demand regions are the kernel's from now on", why);
	st_rlx(&p->fallen, true);
	vma_abandon_all(p->uffd);
	fault_wake_all();
}

/*
 * What the thread had claimed is nobody's from now on. @files: only if that is a
 * file's. The region is named by the filler, which is looked at while the turn
 * lasts; the map decides whether it is still the one that is meant.
 */
static bool abandon(struct worker *w, bool files, const char *why)
{
	char *addr = (char *)ld_rlx(&w->addr);
	struct filler *f = ld_rlx(&w->filler);
	struct vma *v = f ? ld_rlx(&f->serving) : NULL;
	int64_t step = f ? f->stride.step * (int64_t)FL_PAGE_SIZE : 0;

	/* A window of at most a granule, or pages at a stride. */
	if (!v || !vma_abandon(addr, v, files, FILLER_BUF >> FL_PAGE_SHIFT))
		return false;
	for (unsigned int i = 1; step && i < STRIDE_MOST; i++)
		vma_abandon(addr + step * i, v, files, 1);
	fl_log_once(FL_LOG_WARN, "%s, at %p", why, (void *)addr);
	fault_wake_all();
	return true;
}

/* Messages it has read and not come to: who waits faults again. */
static void wake_sleepers(const struct pool *p)
{
	uintptr_t lo = ld_rlx(&vmas.low), hi = ld_rlx(&vmas.high);
	int fd;

	if (lo >= hi)
		return;
	do {
		fd = fd_get(p->uffd);
		uffd_wake(fd, (void *)lo, hi - lo);
	} while (unlikely(!fd_still(p->uffd, fd)));
}

static void replace(struct worker *w)
{
	struct pool *p = ld_rlx(&w->pool);

	st_rlx(&w->replaced, true);
	if (!ld_rlx(&p->fallen) &&
	    (++p->gone > SERVICE_REPLACED_MAX || add_worker(p) < 0))
		fall(p, "too many service threads were lost");
	wake_sleepers(p);
}

/* The thread has ended. */
static void bury(struct worker *w)
{
	struct filler *f = ld_rlx(&w->filler);
	bool halfway = f && ld_rlx(&f->copying) & 1;

	if (f && !halfway && !ld_rlx(&w->replaced))
		abandon(w, false, "a service thread ended");
	if (f)
		frames_lost(f);
	if (halfway)
		fall(ld_rlx(&w->pool), "a service thread ended halfway");
	if (ld_rlx(&w->broken))
		fall(ld_rlx(&w->pool), "the userfaultfd is gone");
	if (!ld_rlx(&w->replaced))
		replace(w);
	fd_release(&w->epfd);
	st_rlx(&w->turn, 0u);
	st_rlx(&w->pool, (struct pool *)NULL);
}

static void stuck(struct worker *w)
{
	bool long_enough = w->same >= service_patience.user_checks;

	if (ld_rlx(&w->replaced) || w->same < service_patience.file_checks)
		return;
	if (abandon(w, !long_enough, "a service thread is stuck") ||
	    long_enough)
		replace(w);
}

/* Says whether something is going on. */
static bool check(struct worker *w)
{
	/* [MO:service-turn] pairs with end_turn. */
	uint32_t turn = ld_acq(&w->turn);
	bool moved = turn != w->seen;

	if (!alive(w)) {
		bury(w);
		return true;
	}
	w->seen = turn;
	w->same = moved ? 0 : w->same + 1;
	if (turn & 1)
		stuck(w);
	return moved || turn & 1;
}

static bool unread(const struct pool *p)
{
	struct timespec zero = { 0 };
	struct pollfd fd = { .fd = fd_get(p->uffd), .events = POLLIN };

	return sys_call5(__NR_ppoll, &fd, 1, &zero, NULL, 8) == 1 &&
	       fd.revents & POLLIN;
}

/* Threads that wait, and that have waited at the last check, too. */
static bool idle(const struct pool *p)
{
	for (uint32_t i = 0; i < ld_rlx(&nr_workers); i++)
		if (ld_rlx(&worker[i].pool) == p && worker[i].same &&
		    !(worker[i].seen & 1))
			return true;
	return false;
}

static bool check_pool(struct pool *p)
{
	bool left;

	if (!p->uffd)
		return false;
	if (ld_rlx(&p->fallen)) { /* one more may have been on its way */
		vma_abandon_all(p->uffd);
		return false;
	}
	left = unread(p);
	p->unread = left && idle(p) ? p->unread + 1 : 0;
	if (p->unread >= service_patience.file_checks)
		fall(p, "service threads do not answer");
	return left;
}

/* Nothing has happened since the last check. False if something has now. */
static bool park(void)
{
	struct timespec t = { .tv_sec = PARKED_S };
	uint32_t busy = 0;

	/* [MO:service-turn] pairs with begin_turn. */
	xchg_sc(&watch.parked, 1u);
	for (uint32_t i = 0; i < ld_rlx(&nr_workers); i++)
		/* [MO:service-turn] as above. */
		busy |= ld_sc(&worker[i].turn) & 1;
	if (!busy)
		sys_futex_wait(&watch.parked, 1, &t);
	st_rlx(&watch.parked, 0u);
	return !busy;
}

/* Has the thread ended that began the program? *@threads: how many there are,
 * that one included. */
static bool first_ended(uint32_t *threads)
{
	char buf[512];
	const char *at = NULL;
	long n;

	/* Who has ended has no memory any more. Asked without a descriptor: it
	 * would have the lowest number, which the program may count on. */
	if (sys_call5(__NR_kcmp, sys_getpid(), sys_gettid(), KCMP_VM, 0, 0) ==
	    0)
		return false;
	n = file_read(AT_FDCWD, "/proc/self/stat", buf, sizeof(buf));
	for (long i = 0; i < n; i++)
		if (buf[i] == ')') /* the name may have some, too */
			at = &buf[i];
	if (!at || at + 2 >= buf + n || at[2] != 'Z')
		return false;
	/* The state is the third field, threads are the twentieth. */
	for (int field = 2; field < 20 && *at; at++)
		field += *at == ' ';
	*threads = (uint32_t)text_u64(at, &at);
	return true;
}

/*
 * A program's threads may all end without one calling exit(3); libc then does,
 * in the last one. It counts ours, too, so the watchdog is the last one.
 */
static bool first_gone(void)
{
	uint32_t threads, ours = 1;

	if (!first_ended(&threads))
		return false;
	for (uint32_t i = 0; i < ld_rlx(&nr_workers); i++)
		ours += ld_rlx(&worker[i].pool) != NULL;
	if (threads == ours + 1)
		libc_exit(0);
	return true;
}

static void *watch_main(void *arg)
{
	struct timespec nap = {
		.tv_sec = service_patience.check_ms / 1000,
		.tv_nsec = service_patience.check_ms % 1000 * 1000000l,
	};

	thread_begin("fl-watchdog");
	for (;;) {
		bool busy = false;

		for (uint32_t i = 0; i < ld_rlx(&nr_workers); i++)
			if (ld_rlx(&worker[i].pool))
				busy |= check(&worker[i]);
		for (unsigned int i = 0; i < POOLS; i++)
			busy |= check_pool(&pool[i]);
		if (first_gone() || busy || !park())
			sys_call2(__NR_nanosleep, &nap, NULL);
	}
	return arg;
}

/* ---------------------------------------------------------------------------
 * Starting
 */

int service_start(_Atomic(int) *uffd, unsigned int threads)
{
	struct pool *p = pool[0].uffd ? &pool[1] : &pool[0];
	unsigned int n = 0;
	int ret = 0;

	p->uffd = uffd;
	while (n < threads && (ret = add_worker(p)) == 0)
		n++;
	if (n == 0) {
		p->uffd = NULL;
		return ret;
	}
	if (watch.runs)
		return 0;
	ret = spawn(watch_main, NULL);
	watch.runs = ret == 0;
	if (ret < 0)
		fl_log_once(FL_LOG_WARN, "no watchdog: error %d", -ret);
	return 0;
}

void service_fork_child(void)
{
	for (uint32_t i = 0; i < ld_rlx(&nr_workers); i++) {
		if (ld_rlx(&worker[i].pool))
			fd_release(&worker[i].epfd);
		st_rlx(&worker[i].pool, (struct pool *)NULL);
	}
	st_rlx(&nr_workers, 0u);
	memset(pool, 0, sizeof(pool));
	st_rlx(&watch.parked, 0u);
	watch.runs = false;
}
