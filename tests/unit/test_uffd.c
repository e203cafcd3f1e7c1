/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The page operations of fault/uffd.h against the kernel. A test whose feature
 * the kernel lacks says so and is skipped. test_uffd_open.c has the probe and
 * the descriptors, test_uffd_abi.c the numbers.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/order.h"
#include "fault/uffd.h"

#define PAGE FL_PAGE_SIZE
#define PAGES 8
#define LEN (PAGES * PAGE)

static struct uffd_caps caps;

/* A descriptor with the features, or the test is skipped with the reason. */
static int open_with(uint64_t features)
{
	int fd;

	uffd_probe(&caps);
	if (caps.source == UFFD_NONE)
		cr_skip_test("no userfaultfd: %s, %s, %s",
			     strerror(-caps.err_dev),
			     strerror(-caps.err_syscall),
			     strerror(-caps.err_user));
	if (features & ~caps.features)
		cr_skip_test("features %llx are not offered",
			     (unsigned long long)(features & ~caps.features));
	fd = uffd_open(&caps, features, true);
	cr_assert_geq(fd, 0, "uffd_open: %s", strerror(-fd));
	return fd;
}

static void need_ioctl(unsigned int nr, const char *what)
{
	if (!(caps.ioctls & (uint64_t)1 << nr))
		cr_skip_test("no %s", what);
}

static char *map_anon(size_t len)
{
	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	cr_assert_neq(p, MAP_FAILED);
	return p;
}

static char *map_registered(int fd, size_t len, unsigned int mode)
{
	char *p = map_anon(len);
	int ret = uffd_register(fd, p, len, mode);

	cr_assert_eq(ret, 0, "register: %s", strerror(-ret));
	return p;
}

/* Page i of the pattern holds seed + i. */
static char *pattern(char seed)
{
	char *p = map_anon(LEN);

	for (size_t i = 0; i < PAGES; i++)
		memset(p + i * PAGE, seed + (int)i, PAGE);
	return p;
}

static bool page_is(const char *page, char c)
{
	for (size_t i = 0; i < PAGE; i++)
		if (page[i] != c)
			return false;
	return true;
}

static bool resident(char *page)
{
	unsigned char vec = 0;

	cr_assert_eq(mincore(page, PAGE, &vec), 0);
	return vec & 1;
}

/* The next fault that waits on fd: its address, or NULL after ten seconds. */
static char *next_fault(int fd, uint64_t *flags)
{
	struct pollfd p = { fd, POLLIN, 0 };
	struct uabi_msg msg;

	if (poll(&p, 1, 10000) != 1 ||
	    read(fd, &msg, sizeof(msg)) != sizeof(msg) ||
	    msg.event != UABI_EVENT_PAGEFAULT)
		return NULL;
	if (flags)
		*flags = msg.flags;
	return (char *)(uintptr_t)msg.address;
}

/* A thread that touches one byte and can be waited for with a deadline. */
struct toucher {
	pthread_t id;
	volatile char *at;
	bool write;
	char got;
};

static void *touch_main(void *arg)
{
	struct toucher *t = arg;

	if (t->write)
		*t->at = 'W';
	t->got = *t->at;
	return NULL;
}

static void touch_start(struct toucher *t, char *at, bool write)
{
	t->at = at;
	t->write = write;
	cr_assert_eq(pthread_create(&t->id, NULL, touch_main, t), 0);
}

static bool touch_ended(struct toucher *t, long ms)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += ms / 1000;
	until.tv_nsec += ms % 1000 * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	return pthread_timedjoin_np(t->id, NULL, &until) == 0;
}

/* A thread that sleeps in a fault on `at`. */
static void touch_asleep(struct toucher *t, int fd, char *at, bool write)
{
	char *page;

	touch_start(t, at, write);
	page = next_fault(fd, NULL);
	cr_assert_eq(page, at - (uintptr_t)at % PAGE);
}

/* Pages that are there stay as they are, the others arrive. */
Test(uffd, copy_around_present_pages)
{
	int fd = open_with(0);
	char *dst = map_registered(fd, LEN, UABI_REGISTER_MISSING);
	char *old = pattern('A'), *new = pattern('a');

	cr_assert_eq(uffd_copy(fd, dst + 3 * PAGE, old + 3 * PAGE, PAGE, 0), 0);
	cr_assert_eq(uffd_copy(fd, dst + 7 * PAGE, old + 7 * PAGE, PAGE, 0), 0);
	errno = 4711;
	cr_assert_eq(uffd_copy(fd, dst, new, LEN, 0), 0);
	cr_assert_eq(errno, 4711);
	for (int i = 0; i < PAGES; i++)
		cr_assert(page_is(dst + (size_t)i * PAGE,
				  (char)((i == 3 || i == 7 ? 'A' : 'a') + i)),
			  "page %d", i);
	/* All of it present. */
	cr_assert_eq(uffd_copy(fd, dst, old, LEN, 0), 0);
	cr_assert(page_is(dst, 'a'));
	cr_assert_eq(uffd_copy(fd, dst, old, 0, 0), 0);
}

/* What was served before a failure stays served, and the failure is told. */
Test(uffd, copy_stops_at_an_unreadable_source)
{
	int fd = open_with(0);
	char *dst = map_registered(fd, LEN, UABI_REGISTER_MISSING);
	char *src = pattern('a');

	cr_assert_eq(munmap(src + 4 * PAGE, 4 * PAGE), 0);
	cr_assert_eq(uffd_copy(fd, dst, src, LEN, 0), -EFAULT);
	for (size_t i = 0; i < PAGES; i++)
		cr_assert_eq(resident(dst + i * PAGE), i < 4);
	cr_assert(page_is(dst + 3 * PAGE, 'd'));
}

/* A source of any alignment. */
Test(uffd, copy_from_an_odd_address)
{
	int fd = open_with(0);
	char *dst = map_registered(fd, LEN, UABI_REGISTER_MISSING);
	char *src = pattern('a');

	cr_assert_eq(uffd_copy(fd, dst, src + 1, 2 * PAGE, 0), 0);
	cr_assert_eq(dst[PAGE - 2], 'a');
	cr_assert_eq(dst[PAGE - 1], 'b');
	cr_assert_eq(uffd_copy(fd, dst + 1, src, PAGE, 0), -EINVAL);
}

/* Of many that sleep on a page that somebody else filled, none is left. */
Test(uffd, present_page_wakes_its_waiters, .timeout = 60)
{
	enum {
		THREADS = 4
	};
	int fd = open_with(0);
	char *dst = map_registered(fd, LEN, UABI_REGISTER_MISSING);
	char *src = pattern('a');
	struct toucher t[THREADS];

	for (int i = 0; i < THREADS; i++)
		touch_asleep(&t[i], fd, dst + 2 * PAGE + i, false);
	cr_assert_eq(uffd_copy(fd, dst + 2 * PAGE, src + 2 * PAGE, PAGE,
			       UABI_DONTWAKE),
		     0);
	cr_assert_not(touch_ended(&t[0], 50), "DONTWAKE woke");
	/* Present, and asked not to wake: still none. */
	cr_assert_eq(uffd_copy(fd, dst, src, LEN, UABI_DONTWAKE), 0);
	cr_assert_not(touch_ended(&t[0], 50), "DONTWAKE woke");
	cr_assert_eq(uffd_copy(fd, dst, src, LEN, 0), 0);
	for (int i = 0; i < THREADS; i++) {
		cr_assert(touch_ended(&t[i], 10000), "thread %d sleeps on", i);
		cr_assert_eq(t[i].got, 'c');
	}
}

Test(uffd, wake, .timeout = 60)
{
	int fd = open_with(0);
	char *dst = map_registered(fd, LEN, UABI_REGISTER_MISSING);
	char *src = pattern('a');
	struct toucher t;

	touch_asleep(&t, fd, dst + PAGE, true);
	cr_assert_eq(uffd_copy(fd, dst, src, LEN, UABI_DONTWAKE), 0);
	cr_assert_not(touch_ended(&t, 50));
	cr_assert_eq(uffd_wake(fd, dst + PAGE, PAGE), 0);
	cr_assert(touch_ended(&t, 10000));
	cr_assert_eq(t.got, 'W');
	cr_assert_eq(uffd_wake(fd, dst, 0), 0);
}

static char *hole;

/* Puts a page where one was unmapped, so that the access can end. */
static void on_segv(int sig)
{
	void *p = mmap(hole, PAGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	if (p == MAP_FAILED)
		_exit(sig);
	*(volatile char *)p = 'S';
}

/* A fill that comes too late is told, and who waits meets the kernel. */
Test(uffd, unmapped_is_enoent_and_wakes, .timeout = 60)
{
	struct sigaction sa = { .sa_handler = on_segv };
	int fd = open_with(0);
	char *dst = map_registered(fd, LEN, UABI_REGISTER_MISSING);
	char *src = pattern('a');
	struct toucher t;

	hole = dst + PAGE;
	sigaction(SIGSEGV, &sa, NULL);
	touch_asleep(&t, fd, hole, false);
	cr_assert_eq(munmap(dst, LEN), 0);
	cr_assert_eq(uffd_copy(fd, dst, src, LEN, UABI_DONTWAKE), -ENOENT);
	cr_assert_not(touch_ended(&t, 50), "woken in spite of DONTWAKE");
	cr_assert_eq(uffd_copy(fd, dst, src, LEN, 0), -ENOENT);
	cr_assert(touch_ended(&t, 10000), "sleeps on an unmapped page");
	cr_assert_eq(t.got, 'S');
	cr_assert_eq(uffd_zeropage(fd, dst, PAGE), -ENOENT);
}

/* A mapping of somebody else's took the place. */
Test(uffd, mapped_over_is_enoent)
{
	int fd = open_with(0);
	char *dst = map_registered(fd, LEN, UABI_REGISTER_MISSING);
	char *src = pattern('a');

	cr_assert_eq(mmap(dst + PAGE, PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
		     dst + PAGE);
	cr_assert_eq(uffd_copy(fd, dst, src, LEN, 0), -ENOENT);
	cr_assert_eq(uffd_copy(fd, dst + PAGE, src, PAGE, 0), -ENOENT);
	cr_assert_eq(dst[PAGE], 0);
	cr_assert_eq(uffd_copy(fd, dst, src, PAGE, 0), 0);
	cr_assert_eq(uffd_copy(fd, dst + 2 * PAGE, src, 6 * PAGE, 0), 0);
	cr_assert(page_is(dst + 2 * PAGE, 'a'));
}

/* A descriptor whose madvise() sleeps until its event is read: what we never
 * ask for, and the way to make the kernel say EAGAIN for as long as we like. */
static int open_with_events(void)
{
	struct uabi_api api = { UABI_API, UABI_F_EVENT_REMOVE, 0 };
	int fd = (int)syscall(__NR_userfaultfd,
			      O_CLOEXEC | O_NONBLOCK | UABI_USER_MODE_ONLY);

	if (fd < 0)
		cr_skip_test("userfaultfd(2): %s", strerror(errno));
	if (ioctl(fd, UABI_IO_API, &api))
		cr_skip_test("no remove events: %s", strerror(errno));
	return fd;
}

#define EVENT_REMOVE 0x15

static void *dontneed_main(void *arg)
{
	madvise(arg, LEN, MADV_DONTNEED);
	return NULL;
}

Test(uffd, eagain_is_bounded, .timeout = 60)
{
	int fd = open_with_events();
	char *dst = map_registered(fd, LEN, UABI_REGISTER_MISSING);
	char *src = pattern('a');
	struct pollfd p = { fd, POLLIN, 0 };
	struct timespec t0, t1;
	struct uabi_msg msg;
	pthread_t id;

	cr_assert_eq(pthread_create(&id, NULL, dontneed_main, dst), 0);
	cr_assert_eq(poll(&p, 1, 10000), 1);
	clock_gettime(CLOCK_MONOTONIC, &t0);
	cr_assert_eq(uffd_copy(fd, dst, src, LEN, 0), -EAGAIN);
	clock_gettime(CLOCK_MONOTONIC, &t1);
	cr_assert_lt(t1.tv_sec - t0.tv_sec, 10);
	cr_assert_eq(uffd_zeropage(fd, dst, PAGE), -EAGAIN);
	cr_assert_eq(read(fd, &msg, sizeof(msg)), sizeof(msg));
	cr_assert_eq(msg.event, EVENT_REMOVE);
	cr_assert_eq(pthread_join(id, NULL), 0);
	cr_assert_eq(uffd_copy(fd, dst, src, LEN, 0), 0);
	cr_assert(page_is(dst + 7 * PAGE, 'h'));
}

/*
 * A supervisor that answers the first COPYs of this thread with EAGAIN and
 * lets the kernel do the rest.
 */
struct supervisor {
	int fd;
	int refuse;
	_Atomic(int) seen;
};

static void *supervise(void *arg)
{
	struct supervisor *s = arg;

	for (;;) {
		struct seccomp_notif req;
		struct seccomp_notif_resp resp;

		memset(&req, 0, sizeof(req));
		if (ioctl(s->fd, SECCOMP_IOCTL_NOTIF_RECV, &req))
			return NULL;
		memset(&resp, 0, sizeof(resp));
		resp.id = req.id;
		if (add_rlx(&s->seen, 1) < s->refuse)
			resp.error = -EAGAIN;
		else
			resp.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
		ioctl(s->fd, SECCOMP_IOCTL_NOTIF_SEND, &resp);
	}
}

static int supervised_ioctl(unsigned long cmd)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_ioctl, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)cmd, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { ARRAY_SIZE(code), code };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return (int)syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER,
			    SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog);
}

static void *copy_supervised(void *arg)
{
	struct supervisor *s = arg;
	static char *dst, *src;
	pthread_t id;
	long ret;
	int fd;

	fd = uffd_open(&caps, 0, true);
	dst = map_registered(fd, LEN, UABI_REGISTER_MISSING);
	src = pattern('a');
	/* In the middle: three calls, two runs of pages and one refusal. */
	if (uffd_copy(fd, dst + 3 * PAGE, src + 3 * PAGE, PAGE, 0))
		return (void *)(long)-EIO;
	s->fd = supervised_ioctl(UABI_IO_COPY);
	if (s->fd < 0)
		return (void *)(long)-errno;
	/* The clone inherits the filter, but calls no COPY. */
	if (pthread_create(&id, NULL, supervise, s))
		return (void *)(long)-ENOMEM;
	ret = uffd_copy(fd, dst, src, LEN, 0);
	if (ret == 0 && !page_is(dst + 7 * PAGE, 'h'))
		ret = -EIO;
	return (void *)ret;
}

/* EAGAIN is lived through, up to the bound and no further. */
Test(uffd, eagain_is_retried, .timeout = 60)
{
	struct supervisor some = { .fd = -1, .refuse = 20 };
	struct supervisor all = { .fd = -1, .refuse = 1 << 30 };
	pthread_t id;
	void *ret;

	close(open_with(0));
	cr_assert_eq(pthread_create(&id, NULL, copy_supervised, &some), 0);
	cr_assert_eq(pthread_join(id, &ret), 0);
	if (some.fd < 0)
		cr_skip_test("seccomp listeners: %s",
			     strerror(-(int)(long)ret));
	cr_assert_eq((long)ret, 0, "%s", strerror(-(int)(long)ret));
	cr_assert_eq(ld_rlx(&some.seen), 20 + 3);

	cr_assert_eq(pthread_create(&id, NULL, copy_supervised, &all), 0);
	cr_assert_eq(pthread_join(id, &ret), 0);
	cr_assert_eq((long)ret, -EAGAIN);
	cr_assert_geq(ld_rlx(&all.seen), 100);
	cr_assert_leq(ld_rlx(&all.seen), 10000);
}

static struct {
	int fd;
	char *src;
	char *volatile addr;
	volatile int code, count, ret;
	sigjmp_buf out;
	bool jump;
} bus;

static void on_bus(int sig, siginfo_t *info, void *uc)
{
	uintptr_t at = (uintptr_t)info->si_addr;

	(void)sig;
	(void)uc;
	bus.addr = info->si_addr;
	bus.code = info->si_code;
	bus.count++;
	if (bus.jump)
		siglongjmp(bus.out, 1);
	bus.ret = uffd_copy(bus.fd, (char *)(at & FL_PAGE_MASK), bus.src, PAGE,
			    0);
}

static void catch_bus(int fd, char *src, bool jump)
{
	struct sigaction sa = { .sa_sigaction = on_bus,
				.sa_flags = SA_SIGINFO | SA_NODEFER };

	bus.fd = fd;
	bus.src = src;
	bus.jump = jump;
	sigaction(SIGBUS, &sa, NULL);
}

/* The thread that faults gets the signal and serves itself. */
Test(uffd, sigbus_delivery, .timeout = 60)
{
	int fd = open_with(UABI_F_SIGBUS);
	char *dst = map_registered(fd, LEN, UABI_REGISTER_MISSING);
	struct pollfd p = { fd, POLLIN, 0 };
	int end[2];

	catch_bus(fd, pattern('a'), false);
	cr_assert_eq(*(volatile char *)(dst + PAGE + 5), 'a');
	cr_assert_eq(bus.count, 1);
	cr_assert_eq(bus.ret, 0);
	cr_assert_eq(bus.code, BUS_ADRERR);
	cr_assert_eq((uintptr_t)bus.addr & FL_PAGE_MASK,
		     (uintptr_t)(dst + PAGE));
	*(volatile char *)(dst + 3 * PAGE) = 'w';
	cr_assert_eq(bus.count, 2);
	cr_assert_eq(dst[3 * PAGE + 1], 'a');
	cr_assert_eq(poll(&p, 1, 0), 0, "a message besides the signal");

	/* In a system call: no signal, EFAULT, and the page stays absent. */
	cr_assert_eq(pipe(end), 0);
	cr_assert_eq(write(end[1], dst + 5 * PAGE, 1), -1);
	cr_assert_eq(errno, EFAULT);
	cr_assert_eq(bus.count, 2);
	cr_assert_not(resident(dst + 5 * PAGE));
}

static int end_of_pipe;

static void *read_main(void *arg)
{
	return (void *)(long)read(end_of_pipe, arg, 1);
}

/* With the companion patch the fault of a system call becomes a message, and
 * the call sleeps until it is served. */
Test(uffd, sigbus_user_delivery, .timeout = 60)
{
	int fd = open_with(UABI_F_SIGBUS | UABI_F_SIGBUS_USER);
	char *dst, *src = pattern('a');
	pthread_t id;
	int end[2];
	void *got;

	if (caps.source == UFFD_USER_MODE)
		cr_skip_test("a user-mode descriptor has no such faults");
	dst = map_registered(fd, LEN, UABI_REGISTER_MISSING);
	catch_bus(fd, src, false);
	cr_assert_eq(*(volatile char *)dst, 'a');
	cr_assert_eq(bus.count, 1);
	cr_assert_eq(pipe(end), 0);
	cr_assert_eq(write(end[1], "k", 1), 1);
	end_of_pipe = end[0];
	cr_assert_eq(pthread_create(&id, NULL, read_main, dst + PAGE), 0);
	cr_assert_eq(next_fault(fd, NULL), dst + PAGE);
	cr_assert_eq(uffd_copy(fd, dst + PAGE, src, PAGE, 0), 0);
	cr_assert_eq(pthread_join(id, &got), 0);
	cr_assert_eq((long)got, 1);
	cr_assert_eq(dst[PAGE], 'k');
	cr_assert_eq(bus.count, 1);
}

/* Past a poisoned page lies SIGBUS, whoever touches it. */
Test(uffd, poison, .timeout = 60)
{
	int fd = open_with(UABI_F_POISON);
	char *dst = map_registered(fd, LEN, UABI_REGISTER_MISSING);
	char *src = pattern('a');
	int end[2];

	need_ioctl(UABI_NR_POISON, "UFFDIO_POISON");
	cr_assert_eq(uffd_copy(fd, dst + PAGE, src + PAGE, PAGE, 0), 0);
	cr_assert_eq(uffd_poison(fd, dst, 3 * PAGE), 0);
	cr_assert(page_is(dst + PAGE, 'b'), "a present page was poisoned");
	catch_bus(fd, src, true);
	if (!sigsetjmp(bus.out, 1)) {
		(void)*(volatile char *)(dst + 2 * PAGE);
		cr_assert_fail("a poisoned page was read");
	}
	cr_assert_eq((uintptr_t)bus.addr & FL_PAGE_MASK,
		     (uintptr_t)(dst + 2 * PAGE));
	/* The former with memory-failure handling built in. */
	cr_assert(bus.code == BUS_MCEERR_AR || bus.code == BUS_ADRERR);
	cr_assert_eq(pipe(end), 0);
	cr_assert_eq(write(end[1], dst, 1), -1);
	cr_assert_eq(errno, EFAULT);
	/* Once more is no error; the first content ends it. */
	cr_assert_eq(uffd_poison(fd, dst, PAGE), 0);
	if (!sigsetjmp(bus.out, 1)) {
		(void)*(volatile char *)dst;
		cr_assert_fail("a poisoned page was read");
	}
	cr_assert_eq(uffd_copy(fd, dst, src, PAGE, 0), 0);
	cr_assert(page_is(dst, 'a'));
	cr_assert_eq(madvise(dst + 2 * PAGE, PAGE, MADV_DONTNEED), 0);
	cr_assert_eq(uffd_zeropage(fd, dst + 2 * PAGE, PAGE), 0);
	cr_assert(page_is(dst + 2 * PAGE, 0));
}

Test(uffd, zeropage, .timeout = 60)
{
	int fd = open_with(0);
	char *dst = map_registered(fd, LEN, UABI_REGISTER_MISSING);
	char *src = pattern('a');
	struct toucher t;

	cr_assert_eq(uffd_copy(fd, dst + 4 * PAGE, src, PAGE, 0), 0);
	touch_asleep(&t, fd, dst + PAGE + 9, true);
	cr_assert_eq(uffd_zeropage(fd, dst, LEN), 0);
	cr_assert(touch_ended(&t, 10000));
	cr_assert_eq(dst[PAGE + 9], 'W');
	dst[PAGE + 9] = 0;
	for (size_t i = 0; i < PAGES; i++)
		cr_assert(page_is(dst + i * PAGE, i == 4 ? 'a' : 0));
}

/* Read-only memory is filled all the same. */
Test(uffd, copy_to_read_only_memory)
{
	int fd = open_with(0);
	char *dst =
		mmap(NULL, LEN, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *src = pattern('a');

	cr_assert_neq(dst, MAP_FAILED);
	cr_assert_eq(uffd_register(fd, dst, LEN, UABI_REGISTER_MISSING), 0);
	cr_assert_eq(uffd_copy(fd, dst, src, LEN, 0), 0);
	cr_assert(page_is(dst + 7 * PAGE, 'h'));
}

Test(uffd, write_protect, .timeout = 60)
{
	int fd = open_with(UABI_F_WP);
	char *dst, *src = pattern('a');
	struct toucher t;
	uint64_t flags;

	need_ioctl(UABI_NR_WRITEPROTECT, "UFFDIO_WRITEPROTECT");
	dst = map_registered(fd, LEN, UABI_REGISTER_MISSING | UABI_REGISTER_WP);
	cr_assert_eq(uffd_copy(fd, dst, src, LEN, UABI_MAP_WP), 0);
	cr_assert(page_is(dst, 'a'));
	touch_start(&t, dst + PAGE, true);
	cr_assert_eq(next_fault(fd, &flags), dst + PAGE);
	cr_assert_eq(flags & UABI_FAULT_WP, UABI_FAULT_WP);
	cr_assert_not(touch_ended(&t, 50));
	cr_assert_eq(uffd_wp(fd, dst + PAGE, PAGE, false), 0);
	cr_assert(touch_ended(&t, 10000));
	cr_assert_eq(t.got, 'W');

	cr_assert_eq(uffd_wp(fd, dst + PAGE, PAGE, true), 0);
	touch_start(&t, dst + PAGE + 1, true);
	cr_assert_eq(next_fault(fd, &flags), dst + PAGE);
	cr_assert_eq(uffd_wp(fd, dst, LEN, false), 0);
	cr_assert(touch_ended(&t, 10000));
	dst[7 * PAGE] = 'x';
	cr_assert_eq(munmap(dst, LEN), 0);
	cr_assert_eq(uffd_wp(fd, dst, LEN, true), -ENOENT);
	cr_assert_eq(uffd_wp(fd, dst, 0, true), 0);
}

/* Two mappings of one memory file: what is written by the one is shown in the
 * other by CONTINUE. */
Test(uffd, continue_shared, .timeout = 60)
{
	int fd = open_with(UABI_F_MISSING_SHMEM | UABI_F_MINOR_SHMEM);
	int mem = memfd_create("test", MFD_CLOEXEC);
	char *fill, *user;
	struct toucher t;

	cr_assert_eq(ftruncate(mem, LEN), 0);
	fill = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, mem, 0);
	user = mmap(NULL, LEN, PROT_READ, MAP_SHARED, mem, 0);
	cr_assert_neq(fill, MAP_FAILED);
	cr_assert_neq(user, MAP_FAILED);
	cr_assert_eq(uffd_register(fd, user, LEN,
				   UABI_REGISTER_MISSING | UABI_REGISTER_MINOR),
		     0);
	memset(fill, 'm', 6 * PAGE);
	cr_assert_eq(uffd_continue(fd, user + 2 * PAGE, PAGE, 0), 0);
	touch_asleep(&t, fd, user + PAGE, false);
	/* Page 2 is mapped already, page 6 is a hole. */
	cr_assert_eq(uffd_continue(fd, user, 6 * PAGE, 0), 0);
	cr_assert(touch_ended(&t, 10000));
	cr_assert_eq(t.got, 'm');
	for (size_t i = 0; i < 6; i++)
		cr_assert(page_is(user + i * PAGE, 'm'));
	cr_assert_eq(uffd_continue(fd, user, LEN, 0), -EFAULT);
	/* A page that is mapped already, and a sleeper on it. */
	memset(fill + 6 * PAGE, 'n', PAGE);
	touch_asleep(&t, fd, user + 6 * PAGE, false);
	cr_assert_eq(uffd_continue(fd, user + 6 * PAGE, PAGE, UABI_DONTWAKE),
		     0);
	cr_assert_not(touch_ended(&t, 50));
	cr_assert_eq(uffd_continue(fd, user + 6 * PAGE, PAGE, 0), 0);
	cr_assert(touch_ended(&t, 10000));
	cr_assert_eq(t.got, 'n');
}

/* Stops at a hole of the source and at a page of the destination, and the
 * next call says which. */
Test(uffd, move, .timeout = 60)
{
	int fd = open_with(UABI_F_MOVE);
	char *dst = map_registered(fd, LEN, UABI_REGISTER_MISSING);
	char *src = pattern('a'), *old = pattern('A');

	need_ioctl(UABI_NR_MOVE, "UFFDIO_MOVE");
	madvise(src, LEN, MADV_NOHUGEPAGE);
	cr_assert_eq(madvise(src + 2 * PAGE, PAGE, MADV_DONTNEED), 0);
	cr_assert_eq(uffd_copy(fd, dst + 5 * PAGE, old + 5 * PAGE, PAGE, 0), 0);
	cr_assert_eq(uffd_move(fd, dst, src, LEN), 2 * (long)PAGE);
	cr_assert_eq(uffd_move(fd, dst + 2 * PAGE, src + 2 * PAGE, 6 * PAGE),
		     -ENOENT);
	cr_assert_eq(uffd_move(fd, dst + 3 * PAGE, src + 3 * PAGE, 5 * PAGE),
		     2 * (long)PAGE);
	cr_assert_eq(uffd_move(fd, dst + 5 * PAGE, src + 5 * PAGE, 3 * PAGE),
		     -EEXIST);
	cr_assert_eq(uffd_move(fd, dst + 6 * PAGE, src + 6 * PAGE, 2 * PAGE),
		     2 * (long)PAGE);
	cr_assert(page_is(dst, 'a'));
	cr_assert_not(resident(dst + 2 * PAGE));
	cr_assert(page_is(dst + 4 * PAGE, 'e'));
	cr_assert(page_is(dst + 5 * PAGE, 'F'));
	cr_assert(page_is(dst + 7 * PAGE, 'h'));
	cr_assert(page_is(src + 7 * PAGE, 0), "moved and still there");
	cr_assert_eq(uffd_move(fd, dst, src, 0), 0);
}

Test(uffd, register_and_unregister)
{
	int fd = open_with(0), other;
	char *p = map_registered(fd, LEN, UABI_REGISTER_MISSING);

	other = uffd_open(&caps, 0, true);
	cr_assert_geq(other, 0);
	cr_assert_eq(uffd_register(other, p, LEN, UABI_REGISTER_MISSING),
		     -EBUSY);
	cr_assert_eq(uffd_unregister(fd, p, LEN), 0);
	cr_assert_eq(*(volatile char *)p, 0);
	cr_assert_eq(uffd_register(other, p, LEN, UABI_REGISTER_MISSING), 0);
	cr_assert_eq(uffd_register(fd, p + 1, LEN, UABI_REGISTER_MISSING),
		     -EINVAL);
	cr_assert_eq(uffd_register(-1, p, LEN, UABI_REGISTER_MISSING), -EBADF);
}
