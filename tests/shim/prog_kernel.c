/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_kernel - regions as arguments of system calls: the kernel reads from
 * them and writes to them as it does with its own, and refuses what it must.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "support/see.h"

#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define LEN 70000

static int fd;

static unsigned char *map(int prot, int anon)
{
	unsigned char *p;

	p = anon ? mmap(NULL, LEN, prot, ANON, -1, 0) :
		   mmap(NULL, LEN, prot, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		give_up("mmap");
	return p;
}

#define SAY_N(call)                                                       \
	do {                                                              \
		long n_ = (long)(call);                                   \
		say("%s: %ld %s", #call, n_, n_ < 0 ? ename(errno) : ""); \
	} while (0)

static void reading(void)
{
	unsigned char *a = map(RW, 1), *w = map(RW, 0), *r = map(PROT_READ, 0);
	struct iovec iov[3] = { { a, 100 }, { w, 5000 }, { a + 5000, 60000 } };

	SAY_N(pread(fd, a, LEN, 0));
	say("  %ld", differs(a, 1, 0, LEN));
	memset(w, 0, LEN);
	SAY_N(pread(fd, w + 1, 5000, 1));
	say("  %ld", differs(w + 1, 1, 1, 5000));
	SAY_N(pread(fd, r, LEN, 0));
	SAY_N(preadv(fd, iov, 3, 0));
	say("  %ld %ld", differs(w, 1, 100, 5000),
	    differs(a + 5000, 1, 5100, 60000));
	SAY_N(getrandom(a, LEN, 0));
	SAY_N(getrandom(r, 10, 0));
	say("  read-only kept %ld", differs(r, 1, 0, LEN));
	munmap(a, LEN);
	munmap(w, LEN);
	munmap(r, LEN);
}

static void writing(void)
{
	unsigned char *a = map(RW, 1), *r = map(PROT_READ, 0), buf[4096];
	int out = temp_file(2, 0, O_RDWR), pair[2];
	struct iovec iov = { r, LEN };

	fill_as(a, 2, 0, LEN);
	SAY_N(write(out, r, LEN));
	SAY_N(write(out, a, LEN));
	munmap(r, LEN);
	munmap(a, LEN);
	r = mmap(NULL, 2 * LEN, PROT_READ, MAP_PRIVATE, out, 0);
	say("  %ld %ld", differs(r, 1, 0, LEN), differs(r + LEN, 2, 0, LEN));
	munmap(r, 2 * LEN);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		give_up("socketpair");
	r = map(PROT_READ, 0);
	iov.iov_base = r;
	SAY_N(send(pair[0], r + 100, 4096, 0));
	SAY_N(recv(pair[1], buf, 4096, MSG_WAITALL));
	say("  %ld", differs(buf, 1, 100, 4096));
	SAY_N(send(pair[0], r, 4096, 0));
	SAY_N(recv(pair[1], r, 4096, 0));
	munmap(r, LEN);
	if (pipe(pair))
		give_up("pipe");
	/* Spliced pages are copied or held: unmapping comes after reading. */
	r = map(PROT_READ, 0);
	iov.iov_base = r;
	iov.iov_len = 4096;
	SAY_N(vmsplice(pair[1], &iov, 1, 0));
	SAY_N(read(pair[0], buf, 4096));
	say("  %ld", differs(buf, 1, 0, 4096));
	munmap(r, LEN);
	close(out);
}

static void others_memory(void)
{
	unsigned char *a = map(RW, 1), *r = map(PROT_READ, 0), buf[8192];
	struct iovec here = { buf, 8192 }, there = { r + 4000, 8192 };

	fill_as(a, 2, 0, LEN);
	SAY_N(process_vm_readv(getpid(), &here, 1, &there, 1, 0));
	say("  %ld", differs(buf, 1, 4000, 8192));
	there.iov_base = a + 4000;
	memset(buf, 0x21, sizeof(buf));
	SAY_N(process_vm_writev(getpid(), &here, 1, &there, 1, 0));
	say("  %ld %ld %ld", differs(a, 2, 0, 4000),
	    not_all(a + 4000, 0x21, 8192), differs(a + 12192, 2, 12192, 100));
	there.iov_base = r;
	SAY_N(process_vm_writev(getpid(), &here, 1, &there, 1, 0));
	say("  %ld", differs(r, 1, 0, LEN));
	munmap(a, LEN);
	munmap(r, LEN);
}

static void *waker(void *arg)
{
	uint32_t *word = arg;

	__atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
	return NULL;
}

static void futexes(void)
{
	uint32_t *word = (uint32_t *)(void *)(map(RW, 1) + 4096);
	pthread_mutex_t *m = (pthread_mutex_t *)(word + 100);
	pthread_t t;
	long ret = 0;

	if (pthread_create(&t, NULL, waker, word))
		give_up("pthread_create");
	while (!__atomic_load_n(word, __ATOMIC_SEQ_CST))
		ret = syscall(SYS_futex, word, FUTEX_WAIT, 0, NULL, NULL, 0);
	pthread_join(t, NULL);
	(void)ret;
	say("futex: %u", *word);
	pthread_mutex_init(m, NULL);
	SAY_N(pthread_mutex_lock(m));
	SAY_N(pthread_mutex_trylock(m));
	SAY_N(pthread_mutex_unlock(m));
	munmap((unsigned char *)word - 4096, LEN);
}

/* Direct I/O pins the pages it writes to. */
static void direct(void)
{
	char path[64];
	unsigned char *a = map(RW, 1);
	int d;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	d = open(path, O_RDONLY | O_DIRECT);
	if (d < 0) {
		say("direct: %s", ename(errno));
		return;
	}
	SAY_N(pread(d, a, 65536, 0));
	say("  %ld", differs(a, 1, 0, 65536));
	munmap(a, LEN);
	close(d);
}

int main(void)
{
	fd = temp_file(1, LEN, O_RDONLY);
	reading();
	writing();
	others_memory();
	futexes();
	direct();
	return 0;
}
