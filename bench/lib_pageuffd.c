// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * lib_pageuffd.c - the shortest programs that serve faults themselves, to
 * compare the library with: anonymous memory, one read with O_DIRECT and one
 * UFFDIO_COPY a fault, a ring of what is resident, the oldest 256 dropped by
 * one process_madvise where the budget is reached.
 *
 *   sigbus    in the SIGBUS handler of the thread that faults
 *   handler   in one thread that polls the userfaultfd
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "page.h"

#define BATCH 256u

struct mini {
	int uffd, pidfd, wake;
	size_t granule;
	uint64_t budget; /* granules */
	uint64_t mask;
	uint32_t *ring; /* granule + 1; 0: not filled in yet */
	uint64_t head __attribute__((aligned(128)));
	uint64_t tail __attribute__((aligned(128)));
	pthread_mutex_t lock; /* of who drops */
	pthread_t server;
	unsigned char *server_buf;
	uint64_t fills;
};

static struct page_run *the_run; /* for the signal handler */
static __thread unsigned char *bounce;

static void drop_batch(struct page_run *r, struct mini *m)
{
	struct iovec v[BATCH];
	unsigned int i;
	uint32_t g;

	for (i = 0; i < BATCH; i++) {
		uint32_t *slot = &m->ring[(m->tail + i) & m->mask];

		while (!(g = __atomic_exchange_n(slot, 0, __ATOMIC_ACQUIRE)))
			;
		v[i].iov_base = r->base + (size_t)(g - 1) * m->granule;
		v[i].iov_len = m->granule;
	}
	if (syscall(SYS_process_madvise, m->pidfd, v, BATCH, MADV_DONTNEED, 0) <
	    0)
		for (i = 0; i < BATCH; i++)
			madvise(v[i].iov_base, v[i].iov_len, MADV_DONTNEED);
	__atomic_store_n(&m->tail, m->tail + BATCH, __ATOMIC_RELAXED);
}

static void resident(struct page_run *r, struct mini *m, uint64_t g)
{
	uint64_t at = __atomic_fetch_add(&m->head, 1, __ATOMIC_RELAXED);
	uint64_t n = at - __atomic_load_n(&m->tail, __ATOMIC_RELAXED);

	__atomic_store_n(&m->ring[at & m->mask], (uint32_t)g + 1,
			 __ATOMIC_RELEASE);
	if (n + BATCH < m->budget)
		return;
	if (n >= m->budget)
		pthread_mutex_lock(&m->lock);
	else if (pthread_mutex_trylock(&m->lock))
		return;
	if (m->head - m->tail + BATCH >= m->budget)
		drop_batch(r, m);
	pthread_mutex_unlock(&m->lock);
}

static void serve(struct page_run *r, uintptr_t addr, unsigned char *buf)
{
	struct mini *m = r->own;
	uint64_t g = (addr - (uintptr_t)r->base) / m->granule;
	struct uffdio_copy c = {
		.dst = (uintptr_t)r->base + g * m->granule,
		.src = (uintptr_t)buf,
		.len = m->granule,
	};

	if (pread(r->fd, buf, m->granule, (off_t)(g * m->granule)) !=
	    (ssize_t)m->granule)
		_exit(3);
	while (ioctl(m->uffd, UFFDIO_COPY, &c)) {
		struct uffdio_range w = { c.dst, c.len };

		if (errno == EAGAIN && c.copy <= 0)
			continue;
		if (errno != EEXIST && errno != EAGAIN)
			_exit(4);
		ioctl(m->uffd, UFFDIO_WAKE, &w); /* somebody was quicker */
		return;
	}
	resident(r, m, g);
}

static void on_sigbus(int sig, siginfo_t *info, void *context)
{
	uintptr_t at = (uintptr_t)info->si_addr;
	int err = errno;

	(void)context;
	if (at - (uintptr_t)the_run->base >= the_run->job.span || !bounce) {
		signal(sig, SIG_DFL);
		return;
	}
	serve(the_run, at, bounce);
	errno = err;
}

static int uffd_new(uint64_t features)
{
	struct uffdio_api api = { .api = UFFD_API, .features = features };
	int dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC), fd = -1;

	if (dev >= 0) {
		fd = ioctl(dev, _IO(0xaa, 0), O_CLOEXEC | O_NONBLOCK);
		close(dev);
	}
	if (fd < 0)
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 && features & UFFD_FEATURE_SIGBUS)
		fd = (int)syscall(SYS_userfaultfd,
				  O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	if (fd < 0)
		return -errno;
	if (ioctl(fd, UFFDIO_API, &api)) {
		int err = errno;

		close(fd);
		return -err;
	}
	return fd;
}

static int mini_start(struct page_run *r, uint64_t features)
{
	struct mini *m = calloc(1, sizeof(*m));
	struct uffdio_register reg;
	uint64_t cap = 1024;
	int fd;

	if (!m)
		return -ENOMEM;
	m->granule = r->job.granule;
	m->budget = r->job.budget / m->granule;
	if (m->budget < 2 * BATCH)
		m->budget = 2 * BATCH;
	while (cap < 2 * m->budget)
		cap *= 2;
	m->mask = cap - 1;
	m->ring = calloc(cap, sizeof(*m->ring));
	pthread_mutex_init(&m->lock, NULL);
	m->pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	m->uffd = uffd_new(features);
	if (m->uffd < 0)
		return m->uffd;
	r->base = mmap(NULL, r->job.span, PROT_READ,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	reg.range.start = (uintptr_t)r->base;
	reg.range.len = r->job.span;
	reg.mode = UFFDIO_REGISTER_MODE_MISSING;
	if (!m->ring || r->base == MAP_FAILED ||
	    ioctl(m->uffd, UFFDIO_REGISTER, &reg))
		return -errno;
	if (r->job.work != WORK_LATENCY) {
		fd = page_open(r, O_DIRECT);
		if (fd < 0)
			return fd;
		close(r->fd);
		r->fd = fd;
	}
	r->own = m;
	the_run = r;
	return 0;
}

static int sigbus_start(struct page_run *r)
{
	struct sigaction sa;
	int err = mini_start(r, UFFD_FEATURE_SIGBUS);

	if (err)
		return err;
	memset(&sa, 0, sizeof(sa));
	sa.sa_sigaction = on_sigbus;
	sa.sa_flags = SA_SIGINFO | SA_NODEFER;
	return sigaction(SIGBUS, &sa, NULL) ? -errno : 0;
}

static int sigbus_enter(struct page_thread *t)
{
	bounce = t->buf;
	return 0;
}

static void mini_counts(struct page_run *r, struct page_counts *n)
{
	struct mini *m = r->own;

	n->fills = __atomic_load_n(&m->head, __ATOMIC_RELAXED);
	n->fill_bytes = n->fills * m->granule;
}

static void *serve_all(void *arg)
{
	struct page_run *r = arg;
	struct mini *m = r->own;
	struct pollfd p[2] = {
		{ .fd = m->uffd, .events = POLLIN },
		{ .fd = m->wake, .events = POLLIN },
	};
	struct uffd_msg msg;

	for (;;) {
		if (poll(p, 2, -1) < 0 || p[1].revents)
			return NULL;
		while (read(m->uffd, &msg, sizeof(msg)) == sizeof(msg))
			serve(r, (uintptr_t)msg.arg.pagefault.address,
			      m->server_buf);
	}
}

static int handler_start(struct page_run *r)
{
	struct mini *m;
	int err = mini_start(r, 0);

	if (err)
		return err;
	m = r->own;
	m->wake = eventfd(0, EFD_CLOEXEC);
	if (posix_memalign((void **)&m->server_buf, B_PAGE, PAGE_BUF))
		return -ENOMEM;
	memset(m->server_buf, 1, PAGE_BUF);
	return -pthread_create(&m->server, NULL, serve_all, r);
}

static void handler_stop(struct page_run *r)
{
	struct mini *m = r->own;

	eventfd_write(m->wake, 1);
	pthread_join(m->server, NULL);
}

const struct page_method page_sigbus = {
	.name = "sigbus",
	.what = "minimal: SIGBUS, pread O_DIRECT, one UFFDIO_COPY, FIFO of "
		"batches of 256",
	.flags = PAGE_MAPPED | PAGE_GRANULE,
	.start = sigbus_start,
	.enter = sigbus_enter,
	.random = page_map_random,
	.seq = page_map_seq,
	.counts = mini_counts,
};

const struct page_method page_handler = {
	.name = "handler",
	.what = "minimal: the same in one thread that polls the userfaultfd",
	.flags = PAGE_MAPPED | PAGE_GRANULE,
	.start = handler_start,
	.stop = handler_stop,
	.random = page_map_random,
	.seq = page_map_seq,
	.counts = mini_counts,
};
