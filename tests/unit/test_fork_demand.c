/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Demand regions and fork: files are the kernel's in the child, other stores are
 * served there as in the parent, whatever the parent's threads are doing, in
 * each mode of delivery.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/order.h"
#include "fault/uffd.h"
#include "faultline.h"
#include "support/files.h"

#define PAGE ((size_t)4096)
#define PAGES ((size_t)512)
#define LEN (PAGES * PAGE)
#define SEED 5
#define BAD 100 /* a page of the store that cannot be read */

static const char *mode;
static struct fl_pager *pager;
static _Atomic(unsigned int) reads, releases;

static ssize_t store_read(void *arg, void *buf, size_t len, uint64_t off)
{
	(void)arg;
	add_rlx(&reads, 1u);
	if (off >= LEN)
		return 0;
	if (off <= BAD * PAGE && off + len > BAD * PAGE)
		return -EILSEQ;
	file_fill(buf, len, off, SEED);
	return (ssize_t)len;
}

static void store_release(void *arg)
{
	(void)arg;
	add_rlx(&releases, 1u);
}

static const struct fl_store_ops ops = { .size = sizeof(ops),
					 .read = store_read,
					 .release = store_release };

static void open_pager(const char *m)
{
	struct uffd_caps caps;
	char options[100];

	uffd_probe(&caps);
	if (caps.source == UFFD_NONE)
		cr_skip_test("no userfaultfd");
	if (!strcmp(m, "service") && caps.source == UFFD_USER_MODE)
		cr_skip_test("no userfaultfd for faults of the kernel");
	mode = m;
	/* Pages go and come all the time. */
	snprintf(options, sizeof(options), "fault=%s,mem=1M,granule=16K", m);
	cr_assert_eq(fl_pager_open(&pager, options), 0);
}

static char *map_store(void)
{
	char *p = fl_region_map(pager, &ops, NULL, 0, LEN, PROT_READ, 0);

	cr_assert(!FL_IS_ERR(p), "%d", FL_PTR_ERR(p));
	return p;
}

static char *map_file(void)
{
	char path[] = "/var/tmp/fl-fork-XXXXXX";
	int fd = mkstemp(path);
	char *p;

	cr_assert_geq(fd, 0);
	cr_assert_eq(file_make(path, LEN, SEED), 0);
	p = fl_region_map_file(pager, fd, 0, LEN, PROT_READ, 0);
	close(fd);
	unlink(path);
	cr_assert(!FL_IS_ERR(p), "%d", FL_PTR_ERR(p));
	return p;
}

/* In a child: what is wrong is the exit status. */
#define MUST(x)                                                             \
	do {                                                                \
		if (!(x)) {                                                 \
			dprintf(2, "child of line %d: %s\n", __LINE__, #x); \
			_exit(1);                                           \
		}                                                           \
	} while (0)

static bool right(const char *p, size_t page)
{
	return file_is(p + page * PAGE, PAGE, page * PAGE, SEED);
}

/* The pages [from, to), without the bad one. */
static bool all_right(const char *p, size_t from, size_t to)
{
	for (; from < to; from++)
		if (from != BAD && !right(p, from))
			return false;
	return true;
}

/* Through the kernel; of service mode and kernel mappings. */
static bool written_right(const char *p, size_t page)
{
	char buf[PAGE];
	int fds[2];
	bool ok;

	if (pipe(fds))
		return false;
	ok = write(fds[1], p + page * PAGE, PAGE) == (ssize_t)PAGE &&
	     read(fds[0], buf, PAGE) == (ssize_t)PAGE &&
	     file_is(buf, PAGE, page * PAGE, SEED);
	close(fds[0]);
	close(fds[1]);
	return ok;
}

static void wait_for(pid_t pid)
{
	int status = -1;

	for (int tries = 0; tries < 1000; tries++) {
		if (waitpid(pid, &status, WNOHANG) == pid) {
			cr_assert_eq(status, 0, "status %#x", status);
			return;
		}
		usleep(10000);
	}
	kill(pid, SIGKILL);
	cr_assert_fail("the child hangs");
}

#define IN_CHILD(...)                   \
	do {                            \
		pid_t pid_ = fork();    \
                                        \
		cr_assert_geq(pid_, 0); \
		if (pid_ == 0) {        \
			alarm(10);      \
			__VA_ARGS__;    \
			_exit(0);       \
		}                       \
		wait_for(pid_);         \
	} while (0)

static sigjmp_buf out;

static void on_signal(int sig)
{
	siglongjmp(out, sig);
}

/* The signal that an access raises, 0 for none. */
static int signal_of(const char *p)
{
	struct sigaction sa = { .sa_handler = on_signal,
				.sa_flags = SA_NODEFER };
	int sig;

	fl_sigaction(SIGBUS, &sa, NULL);
	fl_sigaction(SIGSEGV, &sa, NULL);
	sig = sigsetjmp(out, 1);
	if (sig == 0)
		(void)*(const volatile char *)p;
	return sig;
}

static void file_child(char *p, int depth)
{
	char *q;

	MUST(all_right(p, 0, 60));
	MUST(written_right(p, 70));
	if (depth > 0) {
		pid_t pid = fork();
		int status = 1;

		if (pid == 0) {
			file_child(p, depth - 1);
			_exit(0);
		}
		MUST(waitpid(pid, &status, 0) == pid && status == 0);
	}
	MUST(fl_pager_munmap(pager, p + 8 * PAGE, 8 * PAGE) == 0);
	MUST(all_right(p, 0, 8) && all_right(p, 16, 60));
	MUST(signal_of(p + 9 * PAGE) == SIGSEGV);
	q = fl_pager_mremap(pager, p + 16 * PAGE, 16 * PAGE, 16 * PAGE,
			    MREMAP_MAYMOVE, NULL);
	MUST(!FL_IS_ERR(q) && right(q - 16 * PAGE, 20));
	MUST(fl_pager_munmap(pager, p, LEN) == 0);
}

static void files_are_the_kernels(const char *m)
{
	char *p;

	open_pager(m);
	p = map_file();
	cr_assert(all_right(p, 0, 30));
	IN_CHILD(file_child(p, 2));
	/* Not touched by it. */
	cr_assert(all_right(p, 0, PAGES));
	cr_assert_eq(fl_pager_munmap(pager, p, LEN), 0);
	IN_CHILD(MUST(signal_of(p) == SIGSEGV));
	cr_assert_eq(fl_pager_close(pager), 0);
}

Test(fork, files_signal)
{
	files_are_the_kernels("signal");
}

Test(fork, files_service)
{
	files_are_the_kernels("service");
}

static void store_child(char *p, char *file, int depth)
{
	char *q;

	MUST(all_right(p, 0, PAGES));
	MUST(all_right(p, 0, 16));
	if (!strcmp(mode, "service")) {
		MUST(written_right(p, 300));
		MUST(write(1, p + BAD * PAGE, 1) == -1 && errno == EFAULT);
	} else {
		MUST(fl_prefetch(pager, p + 300 * PAGE, PAGE) == 0);
		MUST(written_right(p, 300));
	}
	MUST(signal_of(p + BAD * PAGE) == SIGBUS);
	MUST(fl_region_error(pager, p + BAD * PAGE) == EILSEQ);
	MUST(signal_of(p + 13 * PAGE) == 0);
	if (depth > 0) {
		pid_t pid = fork();
		int status = 1;

		if (pid == 0) {
			alarm(10);
			store_child(p, file, depth - 1);
			_exit(0);
		}
		MUST(waitpid(pid, &status, 0) == pid && status == 0);
	}
	MUST(all_right(file, 0, PAGES));
	/* A region of its own beside it. */
	q = fl_region_map(pager, &ops, NULL, 0, LEN, PROT_READ, 0);
	MUST(!FL_IS_ERR(q) && all_right(q, 0, PAGES));
	MUST(fl_pager_munmap(pager, q, LEN) == 0);
	MUST(fl_pager_munmap(pager, p + 8 * PAGE, 8 * PAGE) == 0);
	MUST(signal_of(p + 9 * PAGE) == SIGSEGV);
	MUST(all_right(p, 16, PAGES));
	MUST(fl_pager_munmap(pager, p, LEN) == 0);
	MUST(fl_pager_munmap(pager, file, LEN) == 0);
	MUST(fl_pager_close(pager) == 0);
}

static void stores_go_on(const char *m)
{
	char *p, *file;

	open_pager(m);
	p = map_store();
	file = map_file();
	cr_assert(all_right(p, 0, 64));
	cr_assert_eq(signal_of(p + BAD * PAGE), SIGBUS);
	IN_CHILD(store_child(p, file, 2));
	/* With a hole in it. */
	cr_assert_eq(fl_pager_munmap(pager, p + 200 * PAGE, 8 * PAGE), 0);
	IN_CHILD({
		MUST(all_right(p, 0, 200));
		MUST(signal_of(p + 203 * PAGE) == SIGSEGV);
		MUST(all_right(p, 208, PAGES));
		MUST(fl_pager_munmap(pager, p, LEN) == 0);
		MUST(ld_rlx(&releases) == 1);
	});
	cr_assert(all_right(p, 0, 200) && all_right(p, 208, PAGES));
	cr_assert_eq(fl_pager_munmap(pager, p, LEN), 0);
	cr_assert_eq(ld_rlx(&releases), 1);
	cr_assert_eq(fl_pager_munmap(pager, file, LEN), 0);
	cr_assert_eq(fl_pager_close(pager), 0);
}

Test(fork, stores_signal)
{
	stores_go_on("signal");
}

Test(fork, stores_service)
{
	stores_go_on("service");
}

/* The child may not have a userfaultfd: an error, no zeros. */
static void refuse_uffd(void)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, UABI_DEV_NEW, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(f) / sizeof(f[0]), f };

	cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0),
		     0);
}

static void never_zeros(const char *m)
{
	char *p, *file;

	open_pager(m);
	p = map_store();
	file = map_file();
	cr_assert(all_right(p, 0, 8));
	refuse_uffd();
	IN_CHILD({
		void *q;

		MUST(signal_of(p) == SIGSEGV);
		MUST(signal_of(p + 300 * PAGE) == SIGSEGV);
		MUST(all_right(file, 0, PAGES));
		/* Nothing else may come there. */
		q = mmap(p, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0);
		MUST(q != (void *)p);
		MUST(fl_pager_munmap(pager, p, LEN) == 0);
		MUST(FL_PTR_ERR(fl_region_map(pager, &ops, NULL, 0, LEN,
					      PROT_READ, 0)) == -ENOTSUP);
	});
	cr_assert(all_right(p, 0, PAGES));
}

Test(fork, never_zeros_signal)
{
	never_zeros("signal");
}

Test(fork, never_zeros_service)
{
	never_zeros("service");
}

/* ---------------------------------------------------------------------------
 * While others fault
 */

static struct {
	char *p, *file;
	_Atomic(bool) stop;
	_Atomic(unsigned int) wrong, seen, running;
} busy;

static void *busy_main(void *arg)
{
	uint64_t x = (uintptr_t)arg + 1;

	add_rlx(&busy.running, 1u);
	while (!ld_rlx(&busy.stop)) {
		char *p = x & 1 ? busy.p : busy.file;
		size_t page;

		x = x * 6364136223846793005u + 1442695040888963407u;
		page = (x >> 33) % PAGES;
		if (page == BAD)
			continue;
		if (!right(p, page))
			add_rlx(&busy.wrong, 1u);
		add_rlx(&busy.seen, 1u);
	}
	return NULL;
}

/* AddressSanitizer's allocator does not hand the locks it takes while a thread
 * starts over at fork: a child forked just then waits for them when it starts a
 * thread of its own. There, and only there, the forks begin when all run. */
extern void __asan_init(void) __attribute__((weak));

static void wait_running(unsigned int n)
{
	while (__asan_init && ld_rlx(&busy.running) < n)
		sched_yield();
}

static void while_others_fault(const char *m)
{
	pthread_t t[8];

	open_pager(m);
	busy.p = map_store();
	busy.file = map_file();
	for (uintptr_t i = 0; i < 8; i++)
		cr_assert_eq(pthread_create(&t[i], NULL, busy_main, (void *)i),
			     0);
	wait_running(8);
	for (unsigned int i = 0; i < 20; i++)
		IN_CHILD({
			MUST(all_right(busy.p, i, i + 150));
			MUST(all_right(busy.file, i, i + 150));
		});
	st_rlx(&busy.stop, true);
	for (int i = 0; i < 8; i++)
		pthread_join(t[i], NULL);
	cr_assert_eq(ld_rlx(&busy.wrong), 0);
	cr_assert_gt(ld_rlx(&busy.seen), 100);
}

Test(fork, while_others_fault_signal)
{
	while_others_fault("signal");
}

Test(fork, while_others_fault_service)
{
	while_others_fault("service");
}

/* ---------------------------------------------------------------------------
 * In a handler, and other ways to a child
 */

static _Atomic(unsigned int) forks, bad_forks;

static void fork_in_handler(int sig)
{
	int err = errno, status = -1;
	pid_t pid = fork();

	(void)sig;
	if (pid == 0) {
		MUST(all_right(busy.p, 0, 20));
		MUST(all_right(busy.file, 0, 20));
		_exit(0);
	}
	if (pid > 0) {
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		add_rlx(&forks, 1u);
	}
	if (pid > 0 && status)
		add_rlx(&bad_forks, 1u);
	errno = err;
}

static void in_a_handler(const char *m)
{
	struct itimerval every = { { 0, 10000 }, { 0, 10000 } };
	struct itimerval never = { { 0, 0 }, { 0, 0 } };
	size_t n = 0;

	open_pager(m);
	busy.p = map_store();
	busy.file = map_file();
	signal(SIGALRM, fork_in_handler);
	setitimer(ITIMER_REAL, &every, NULL);
	for (; ld_rlx(&forks) < 20; n++) {
		size_t page = n * 37 % PAGES;

		cr_assert(page == BAD ||
			  right(n & 1 ? busy.p : busy.file, page));
	}
	setitimer(ITIMER_REAL, &never, NULL);
	cr_assert_eq(ld_rlx(&bad_forks), 0);
}

Test(fork, in_a_handler_signal)
{
	in_a_handler("signal");
}

Test(fork, in_a_handler_service)
{
	in_a_handler("service");
}

static void other_ways(const char *m)
{
	char *args[] = { (char *)"true", NULL };
	char *p;
	pid_t pid;

	open_pager(m);
	p = map_store();
	for (size_t i = 0; i < 5; i++) {
		pid = vfork();
		if (pid == 0) {
			/* The same memory: served, absent pages, too. */
			execv(right(p, 10 + i) ? "/bin/true" : "/bin/false",
			      args);
			_exit(9);
		}
		cr_assert_gt(pid, 0);
		wait_for(pid);
		cr_assert_eq(posix_spawn(&pid, "/bin/true", NULL, NULL, args,
					 NULL),
			     0);
		wait_for(pid);
		cr_assert_eq(system("true"), 0);
		cr_assert(all_right(p, i * 10, i * 10 + 20));
	}
}

Test(fork, other_ways_signal)
{
	other_ways("signal");
}

Test(fork, other_ways_service)
{
	other_ways("service");
}
