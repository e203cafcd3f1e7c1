/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Service mode when things go wrong: threads that end, are killed or do not come
 * back, in the middle of a store's function or of the pager's own work. Every
 * access must end, with the right bytes or a signal. And how delivery is chosen.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/order.h"
#include "fault/mode.h"
#include "fault/service.h"
#include "fault/uffd.h"
#include "faultline.h"
#include "support/files.h"

#define PAGE ((size_t)4096)
#define PAGES ((size_t)64)
#define LEN (PAGES * PAGE)
#define SEED 77

/* What the store does when it is asked for page `bad`. */
enum trick {
	TRICK_NONE,
	TRICK_EXIT,    /* ends its thread */
	TRICK_HANG,    /* does not come back */
	TRICK_SECCOMP, /* the thread may not fill any more */
	TRICK_LATER,   /* the thread may not wait for the next fault */
};

static struct {
	_Atomic(int) trick;
	_Atomic(size_t) bad; /* page */
	_Atomic(unsigned int) reads, times;
} store;

/* SECCOMP_RET_KILL_THREAD for one system call, in this thread. */
static void forbid(int nr)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_THREAD),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { 4, f };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0))
		_exit(99);
}

static ssize_t store_read(void *arg, void *buf, size_t len, uint64_t off)
{
	size_t bad = ld_rlx(&store.bad);

	(void)arg;
	add_rlx(&store.reads, 1u);
	file_fill(buf, len, off, SEED);
	if (off > bad * PAGE || off + len <= bad * PAGE ||
	    ld_rlx(&store.trick) == TRICK_NONE)
		return (ssize_t)len;
	add_rlx(&store.times, 1u);
	switch (ld_rlx(&store.trick)) {
	case TRICK_EXIT:
		syscall(SYS_exit, 0);
		break;
	case TRICK_HANG:
		for (;;)
			pause();
	case TRICK_SECCOMP:
		st_rlx(&store.trick, TRICK_NONE);
		forbid(SYS_ioctl);
		break;
	case TRICK_LATER:
		st_rlx(&store.trick, TRICK_NONE);
		forbid(SYS_epoll_pwait);
		break;
	}
	return (ssize_t)len;
}

static const struct fl_store_ops ops = { .size = sizeof(ops),
					 .read = store_read };

static struct fl_pager *pager;

static void open_pager(const char *options)
{
	struct uffd_caps caps;
	char all[200];

	uffd_probe(&caps);
	if (caps.source == UFFD_NONE || caps.source == UFFD_USER_MODE)
		cr_skip_test("no userfaultfd for faults of the kernel");
	service_patience = (struct service_patience){ 50, 10, 20 };
	snprintf(all, sizeof(all), "fault=service,granule=4096,%s", options);
	cr_assert_eq(fl_pager_open(&pager, all), 0);
}

static const char *map_store(void)
{
	const char *p = fl_region_map(pager, &ops, NULL, 0, LEN, PROT_READ,
				      FL_REGION_RANDOM);

	cr_assert(!FL_IS_ERR(p), "%d", FL_PTR_ERR(p));
	return p;
}

/* The file is gone when the test ends. */
static int make_file(void)
{
	char path[] = "/var/tmp/fl-service-XXXXXX";
	int fd = mkstemp(path);

	cr_assert_geq(fd, 0);
	close(fd);
	cr_assert_eq(file_make(path, LEN, SEED), 0);
	fd = open(path, O_RDWR);
	unlink(path);
	cr_assert_geq(fd, 0);
	return fd;
}

static const char *map_file(int fd)
{
	const char *p = fl_region_map_file(pager, fd, 0, LEN, PROT_READ,
					   FL_REGION_RANDOM);

	cr_assert(!FL_IS_ERR(p), "%d", FL_PTR_ERR(p));
	return p;
}

static __thread sigjmp_buf out;

static void on_signal(int sig)
{
	siglongjmp(out, sig);
}

static void catch_signals(void)
{
	struct sigaction sa = { .sa_handler = on_signal,
				.sa_flags = SA_NODEFER };

	sigaction(SIGBUS, &sa, NULL);
	sigaction(SIGSEGV, &sa, NULL);
}

/* 0 and the right bytes, or the signal. */
static int touch(const char *p, size_t page)
{
	int sig = sigsetjmp(out, 1);

	if (sig == 0)
		cr_assert(file_is(p + page * PAGE, PAGE, page * PAGE, SEED),
			  "wrong bytes in page %zu", page);
	return sig;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

struct toucher {
	pthread_t thread;
	const char *p;
	size_t page;
	int sig;
};

static void *touch_one(void *arg)
{
	struct toucher *t = arg;

	t->sig = touch(t->p, t->page);
	return NULL;
}

static void touch_begin(struct toucher *t, const char *p, size_t page)
{
	t->p = p;
	t->page = page;
	cr_assert_eq(pthread_create(&t->thread, NULL, touch_one, t), 0);
}

static int touch_end(struct toucher *t)
{
	struct timespec limit;

	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += 10;
	cr_assert_eq(pthread_timedjoin_np(t->thread, NULL, &limit), 0,
		     "page %zu hangs", t->page);
	return t->sig;
}

static void play(enum trick trick, size_t bad)
{
	st_rlx(&store.bad, bad);
	st_rlx(&store.trick, (int)trick);
}

/* All other pages are served. */
static void rest_is_fine(const char *p, size_t but)
{
	for (size_t i = 0; i < PAGES; i++)
		if (i != but)
			cr_assert_eq(touch(p, i), 0, "page %zu", i);
}

/* The state of the first thread with that name; '?' if there is none. */
static char state_of(const char *want)
{
	char path[64], line[256], *name;

	for (int tid = getpid(); tid < getpid() + 100; tid++) {
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
		f = fopen(path, "r");
		name = f ? fgets(line, sizeof(line), f) : NULL;
		if (f)
			fclose(f);
		name = name ? strstr(name, want) : NULL;
		if (name)
			return name[strlen(want) + 2];
	}
	return '?';
}

/* It goes back to sleep when all is done. */
static void watchdog_rests(void)
{
	int asleep = 0;

	usleep(300000);
	for (int i = 0; i < 20; i++) {
		asleep += state_of("fl-watchdog") == 'S';
		usleep(10000);
	}
	cr_assert_geq(asleep, 15, "the watchdog spins: asleep %d of 20",
		      asleep);
}

Test(service, a_store_may_end_its_thread)
{
	struct toucher a, b, c;
	const char *p;
	char buf[8];
	int fds[2];

	open_pager("service_threads=1");
	catch_signals();
	p = map_store();
	play(TRICK_EXIT, 7);
	touch_begin(&a, p, 7);
	touch_begin(&b, p, 7);
	touch_begin(&c, p, 9);
	cr_assert_eq(touch_end(&a), SIGBUS);
	cr_assert_eq(touch_end(&b), SIGBUS);
	cr_assert_eq(touch_end(&c), 0);
	cr_assert_eq(ld_rlx(&store.times), 1);
	rest_is_fine(p, 7);
	watchdog_rests();
	/* A system call on it gets the kernel's error. */
	cr_assert_eq(pipe(fds), 0);
	cr_assert_eq(write(fds[1], p + 7 * PAGE, 8), -1);
	cr_assert_eq(errno, EFAULT);
	cr_assert_eq(write(fds[1], p + 8 * PAGE, 8), 8);
	cr_assert_eq(read(fds[0], buf, 8), 8);
	cr_assert(file_is(buf, 8, 8 * PAGE, SEED));
	cr_assert_eq(fl_pager_munmap(pager, (void *)(uintptr_t)p, LEN), 0);
	cr_assert_eq(fl_pager_close(pager), 0);
}

Test(service, a_store_may_never_come_back)
{
	struct toucher a, c;
	double t = now();
	const char *p;

	open_pager("service_threads=1");
	catch_signals();
	p = map_store();
	play(TRICK_HANG, 7);
	touch_begin(&a, p, 7);
	touch_begin(&c, p, 9);
	cr_assert_eq(touch_end(&a), SIGBUS);
	cr_assert_geq(now() - t, 0.5, "it was given too little time");
	cr_assert_eq(touch_end(&c), 0);
	rest_is_fine(p, 7);
}

/* One after the other, until the pool gives up; nothing hangs after that. */
Test(service, a_pool_falls)
{
	struct toucher a;
	const char *p, *q;
	int fd;

	open_pager("service_threads=2");
	catch_signals();
	p = map_store();
	fd = make_file();
	q = map_file(fd);
	cr_assert_eq(touch(q, 3), 0);
	for (size_t i = 0; i < PAGES; i++) {
		play(TRICK_EXIT, i);
		touch_begin(&a, p, i);
		cr_assert_eq(touch_end(&a), SIGBUS, "page %zu", i);
	}
	/* Two may go between two checks. */
	cr_assert_geq(ld_rlx(&store.times), SERVICE_REPLACED_MAX + 1);
	cr_assert_leq(ld_rlx(&store.times), SERVICE_REPLACED_MAX + 2);
	play(TRICK_NONE, 0);
	rest_is_fine(q, PAGES);
	cr_assert_eq(
		FL_PTR_ERR(fl_region_map_file(pager, fd, 0, LEN, PROT_READ, 0)),
		-ENOTSUP);
	cr_assert_eq(fl_pager_munmap(pager, (void *)(uintptr_t)p, LEN), 0);
	cr_assert_eq(fl_pager_munmap(pager, (void *)(uintptr_t)q, LEN), 0);
	cr_assert_eq(fl_pager_close(pager), 0);
}

/* Killed with the copy under way: who unmaps would wait for it for ever. */
Test(service, a_filter_may_kill_halfway)
{
	struct toucher a, b;
	const char *p, *q;
	int fd;

	open_pager("service_threads=1");
	catch_signals();
	p = map_store();
	fd = make_file();
	q = map_file(fd);
	play(TRICK_SECCOMP, 5);
	touch_begin(&a, p, 5);
	touch_begin(&b, q, 5);
	cr_assert_eq(touch_end(&a), SIGBUS);
	cr_assert_eq(touch_end(&b), 0);
	rest_is_fine(q, PAGES);
	cr_assert_eq(fl_pager_munmap(pager, (void *)(uintptr_t)p, LEN), 0);
	cr_assert_eq(fl_pager_munmap(pager, (void *)(uintptr_t)q, LEN), 0);
	cr_assert_eq(fl_pager_close(pager), 0);
}

/* Killed where it would wait for the next message: nobody reads that. */
Test(service, a_filter_may_kill_the_idle)
{
	struct toucher a;
	const char *p;

	open_pager("service_threads=1");
	catch_signals();
	p = map_store();
	play(TRICK_LATER, 5);
	cr_assert_eq(touch(p, 5), 0);
	for (size_t i = 10; i < 20; i++) {
		touch_begin(&a, p, i);
		cr_assert_eq(touch_end(&a), 0);
	}
}

/*
 * A write of a file from a region of the same file: the kernel has the file's
 * lock and waits for the page, the service thread reads the page past the page
 * cache and waits for the lock.
 */
Test(service, a_file_is_written_from_itself)
{
	double t = now();
	const char *p;
	int fd;

	open_pager("service_threads=2,direct=yes");
	fd = make_file();
	p = map_file(fd);
	cr_assert_eq(pwrite(fd, p + 20 * PAGE, PAGE, 20 * PAGE), PAGE);
	cr_assert_leq(now() - t, 10);
	rest_is_fine(p, PAGES);
}

static void *set_ids(void *arg)
{
	/* libc has every thread do the same, and waits for them. */
	return arg + setgid(getgid());
}

Test(service, ids_can_be_changed)
{
	struct timespec limit;
	pthread_t thread;
	void *ret = &thread;
	const char *p;

	open_pager("service_threads=3");
	p = map_store();
	cr_assert_eq(touch(p, 1), 0);
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += 5;
	cr_assert_eq(pthread_create(&thread, NULL, set_ids, NULL), 0);
	cr_assert_eq(pthread_timedjoin_np(thread, &ret, &limit), 0,
		     "a service thread does not hear of it");
	cr_assert_null(ret);
	cr_assert_eq(touch(p, 2), 0);
}

static const char *last_region;

static void *last_thread(void *arg)
{
	usleep(200000);
	if (touch(last_region, 3))
		_exit(1);
	return arg;
}

static void at_exit(void)
{
	/* Served still. */
	if (touch(last_region, 4) == 0)
		_exit(17);
}

/* No thread of the program is left; libc would call exit(0). */
Test(service, a_program_may_end_without_exit)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		pthread_t t;

		open_pager("service_threads=2");
		last_region = map_store();
		atexit(at_exit);
		pthread_create(&t, NULL, last_thread, NULL);
		pthread_exit(NULL);
	}
	for (int tries = 0; tries < 900; tries++) {
		if (waitpid(pid, &status, WNOHANG) == pid) {
			cr_assert(WIFEXITED(status) &&
					  WEXITSTATUS(status) == 17,
				  "status %#x", status);
			return;
		}
		usleep(10000);
	}
	kill(pid, SIGKILL);
	cr_assert_fail("it does not end");
}

static bool named(const char *want, unsigned int n)
{
	DIR *tasks = opendir("/proc/self/task");
	char path[300], name[32];
	unsigned int found = 0;
	struct dirent *d;

	while ((d = readdir(tasks)) != NULL) {
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm",
			 d->d_name);
		f = fopen(path, "r");
		if (!f)
			continue;
		if (fgets(name, sizeof(name), f) &&
		    !strncmp(name, want, strlen(want)))
			found++;
		fclose(f);
	}
	closedir(tasks);
	return found == n;
}

/* They come up one by one. */
static bool names(const char *want, unsigned int n)
{
	for (int tries = 0; tries < 500; tries++) {
		if (named(want, n))
			return true;
		usleep(10000);
	}
	return false;
}

Test(service, threads_have_names)
{
	const char *p;

	open_pager("service_threads=3");
	cr_assert(names("fl-service", 0), "threads before there is a region");
	p = map_store();
	cr_assert_eq(touch(p, 1), 0);
	cr_assert(names("fl-service\n", 3));
	cr_assert(names("fl-watchdog\n", 1));
}

/* ---------------------------------------------------------------------------
 * The choice
 */

#define F_SIG UABI_F_SIGBUS
#define F_HYB (UABI_F_SIGBUS | UABI_F_SIGBUS_USER)

static const struct choice {
	enum uffd_source source;
	uint64_t features;
	enum conf_fault want;
	bool preload;
	int is;
} choices[] = {
	{ UFFD_DEV, F_SIG, CONF_FAULT_AUTO, false, DELIVER_SIGNAL },
	{ UFFD_DEV, F_SIG, CONF_FAULT_AUTO, true, DELIVER_SERVICE },
	{ UFFD_SYSCALL, F_SIG, CONF_FAULT_AUTO, true, DELIVER_SERVICE },
	{ UFFD_DEV, F_HYB, CONF_FAULT_AUTO, true, DELIVER_HYBRID },
	{ UFFD_SYSCALL, F_HYB, CONF_FAULT_AUTO, false, DELIVER_HYBRID },
	/* The kernel tells nobody of its own faults. */
	{ UFFD_USER_MODE, F_HYB, CONF_FAULT_AUTO, true, DELIVER_SIGNAL },
	{ UFFD_USER_MODE, F_SIG, CONF_FAULT_AUTO, true, DELIVER_SIGNAL },
	{ UFFD_USER_MODE, F_SIG, CONF_FAULT_SERVICE, true, -ENOTSUP },
	{ UFFD_USER_MODE, F_HYB, CONF_FAULT_HYBRID, true, -ENOTSUP },
	{ UFFD_USER_MODE, F_SIG, CONF_FAULT_SIGNAL, true, DELIVER_SIGNAL },
	/* What is asked for and not there is not replaced. */
	{ UFFD_DEV, F_SIG, CONF_FAULT_HYBRID, true, -ENOTSUP },
	{ UFFD_DEV, 0, CONF_FAULT_SIGNAL, false, -ENOTSUP },
	{ UFFD_DEV, F_HYB, CONF_FAULT_HYBRID, false, DELIVER_HYBRID },
	{ UFFD_DEV, F_HYB, CONF_FAULT_SERVICE, false, DELIVER_SERVICE },
	{ UFFD_DEV, F_HYB, CONF_FAULT_SIGNAL, true, DELIVER_SIGNAL },
	/* The bit means nothing without the other. */
	{ UFFD_DEV, UABI_F_SIGBUS_USER, CONF_FAULT_AUTO, true,
	  DELIVER_SERVICE },
	/* Before 4.14. */
	{ UFFD_SYSCALL, 0, CONF_FAULT_AUTO, true, DELIVER_SERVICE },
	{ UFFD_SYSCALL, 0, CONF_FAULT_AUTO, false, -ENOTSUP },
	{ UFFD_NONE, F_HYB, CONF_FAULT_AUTO, true, -ENOTSUP },
	{ UFFD_NONE, 0, CONF_FAULT_SERVICE, true, -ENOTSUP },
	{ UFFD_DEV, F_HYB, CONF_FAULT_OFF, true, -ENOTSUP },
};

Test(service, choice_of_delivery)
{
	for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
		const struct choice *c = &choices[i];
		struct uffd_caps caps = { .source = c->source,
					  .features = c->features };

		cr_expect_eq(delivery_choose(&caps, c->want, c->preload), c->is,
			     "row %zu: %d", i,
			     delivery_choose(&caps, c->want, c->preload));
	}
}
