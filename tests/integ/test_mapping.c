/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Mappings on a given pager and by the drop-ins: what mmap(2) and its family
 * answer, the pager answers; errno is touched by the drop-ins only.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faultline.h"

#define PAGE ((size_t)4096)
#define MIB ((size_t)1 << 20)
#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct fl_pager *opened(const char *options)
{
	struct fl_pager *p = NULL;

	cr_assert_eq(fl_pager_open(&p, options), 0);
	return p;
}

static int file_of(size_t len, int oflag)
{
	char name[] = "/tmp/fl-integ-XXXXXX";
	unsigned char *buf = malloc(len ? len : 1);
	int fd = mkstemp(name), ret;

	cr_assert_geq(fd, 0);
	for (size_t i = 0; i < len; i++)
		buf[i] = (unsigned char)(i * 7 + 1);
	cr_assert_eq(write(fd, buf, len), (ssize_t)len);
	free(buf);
	ret = open(name, oflag | O_CLOEXEC);
	unlink(name);
	close(fd);
	cr_assert_geq(ret, 0);
	return ret;
}

static bool holds(const unsigned char *p, size_t off, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != (unsigned char)((off + i) * 7 + 1))
			return false;
	return true;
}

static bool all(const unsigned char *p, int c, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != (unsigned char)c)
			return false;
	return true;
}

struct request {
	size_t len;
	int prot, flags, fd;
	off_t off;
};

static int fds[6];

static void make_fds(void)
{
	fds[0] = file_of(10000, O_RDONLY);
	fds[1] = file_of(10000, O_RDWR);
	fds[2] = file_of(10000, O_WRONLY);
	fds[3] = open("/", O_RDONLY);
	fds[4] = -1;
	fds[5] = open("/dev/null", O_RDONLY);
}

/* 0, or the errno of the kernel for the request. */
static int by_kernel(const struct request *r)
{
	void *p = mmap(NULL, r->len, r->prot, r->flags, r->fd, r->off);

	if (p == MAP_FAILED)
		return errno;
	munmap(p, r->len);
	return 0;
}

static void same_answer(struct fl_pager *p, const struct request *r)
{
	int want = by_kernel(r), got = 0;
	void *q;

	errno = 2999;
	q = fl_pager_mmap(p, NULL, r->len, r->prot, r->flags, r->fd, r->off);
	if (FL_IS_ERR(q))
		got = -FL_PTR_ERR(q);
	else
		cr_expect_eq(fl_pager_munmap(p, q, r->len), 0);
	cr_expect_eq(errno, 2999, "errno is the drop-ins' business");
	cr_expect_eq(got, want, "%zu bytes prot %d flags %#x fd %d off %ld: %d",
		     r->len, r->prot, (unsigned int)r->flags, r->fd,
		     (long)r->off, got);
	q = fl_mmap(NULL, r->len, r->prot, r->flags, r->fd, r->off);
	cr_expect_eq(q == MAP_FAILED ? errno : 0, want, "drop-in");
	cr_expect_eq(q == MAP_FAILED, want != 0);
	if (q == MAP_FAILED)
		return;
	errno = 2999;
	cr_expect_eq(fl_munmap(q, r->len), 0);
	cr_expect_eq(errno, 2999);
}

Test(mmap, answers_are_the_kernels)
{
	static const size_t lens[] = { 0,       1,       4096,
				       9999,    1 << 20, (size_t)1 << 48,
				       SIZE_MAX };
	static const off_t offs[] = { 0,     4096,  1,
				      16384, -4096, 0x7ffffffffffff000 };
	static const int prots[] = { PROT_NONE, PROT_READ, RW, PROT_EXEC | 1 };
	static const int flags[] = {
		0,          MAP_PRIVATE,
		MAP_SHARED, MAP_SHARED_VALIDATE | 0x40000000,
		ANON,       MAP_ANONYMOUS
	};
	struct fl_pager *p = opened(NULL);

	make_fds();
	for (size_t l = 0; l < COUNT(lens); l++)
		for (size_t o = 0; o < COUNT(offs); o++)
			for (size_t pr = 0; pr < COUNT(prots); pr++)
				for (size_t f = 0; f < COUNT(flags); f++)
					for (size_t d = 0; d < COUNT(fds);
					     d++) {
						struct request r = { lens[l],
								     prots[pr],
								     flags[f],
								     fds[d],
								     offs[o] };

						same_answer(p, &r);
					}
	cr_expect_eq(fl_pager_close(p), 0);
}

Test(map_file, bytes)
{
	static const size_t sizes[] = { 1,      4095,   4096,   4097,
					100000, 262144, 262145, 3000000 };
	struct fl_pager *p = opened(NULL);

	for (size_t i = 0; i < COUNT(sizes); i++) {
		size_t len = sizes[i], page = (len + PAGE - 1) & ~(PAGE - 1);
		int fd = file_of(len, O_RDONLY);
		unsigned char *q = fl_pager_map_file(p, fd, 0, len);

		cr_assert(!FL_IS_ERR(q), "%zu: %d", len, FL_PTR_ERR(q));
		close(fd);
		cr_expect(holds(q, 0, len));
		cr_expect(all(q + len, 0, page - len), "%zu: tail", len);
		cr_expect_eq((uintptr_t)q % PAGE, 0u);
		cr_expect_eq(fl_pager_munmap(p, q, len), 0);
	}
	cr_expect_eq(fl_pager_close(p), 0);
}

Test(map_file, parts_and_errors)
{
	struct fl_pager *p = opened(NULL);
	int fd = file_of(50000, O_RDONLY);
	unsigned char *q = fl_pager_map_file(p, fd, 8192, 20000);

	cr_assert(!FL_IS_ERR(q));
	cr_expect(holds(q, 8192, 20000));
	cr_expect_eq(fl_pager_munmap(p, q, 20000), 0);
	q = fl_pager_map_file(p, fd, 49152, 848);
	cr_assert(!FL_IS_ERR(q));
	cr_expect(holds(q, 49152, 848));
	cr_expect_eq(fl_pager_munmap(p, q, 848), 0);
	errno = 2999;
	cr_expect_eq(FL_PTR_ERR(fl_pager_map_file(p, fd, 0, 0)), -EINVAL);
	cr_expect_eq(FL_PTR_ERR(fl_pager_map_file(p, fd, 1, 100)), -EINVAL);
	cr_expect_eq(FL_PTR_ERR(fl_pager_map_file(p, fd, -4096, 100)), -EINVAL);
	cr_expect_eq(FL_PTR_ERR(fl_pager_map_file(p, -1, 0, 100)), -EBADF);
	cr_expect_eq(FL_PTR_ERR(fl_pager_map_file(p, file_of(100, O_WRONLY), 0,
						  100)),
		     -EACCES);
	cr_expect_eq(errno, 2999);
	cr_expect_eq(fl_pager_close(p), 0);
}

Test(map_file, is_read_only, .signal = SIGSEGV)
{
	unsigned char *q = fl_pager_map_file(opened(NULL),
					     file_of(5000, O_RDONLY), 0, 5000);

	cr_assert(!FL_IS_ERR(q));
	*(volatile unsigned char *)(q + 100) = 1;
}

Test(hardened, access_after_munmap, .signal = SIGSEGV)
{
	struct fl_pager *p = opened("hardened=1");
	unsigned char *q = fl_pager_mmap(p, NULL, 20000, RW, ANON, -1, 0);

	cr_assert_eq(fl_find(p, q), 1);
	q[5000] = 1;
	cr_assert_eq(fl_pager_munmap(p, q, 20000), 0);
	*(volatile unsigned char *)(q + 5000) = 2;
}

/* Idle memory goes back under hardened=1 too. */
Test(hardened, idle_memory_goes_back)
{
	struct fl_pager *p = opened("hardened=1,mem=64M,low=10,learn=0");
	void *q[400];
	uint64_t bytes;

	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < COUNT(q); i++) {
			q[i] = fl_pager_mmap(p, NULL, 64 << 10, RW, ANON, -1,
					     0);
			cr_assert_not(FL_IS_ERR(q[i]));
		}
		for (size_t i = 0; i < COUNT(q); i++)
			cr_assert_eq(fl_pager_munmap(p, q[i], 64 << 10), 0);
	}
	/* Each CPU looks at every so many unmaps of its own. */
	for (int i = 0; i < 4096; i++) {
		q[0] = fl_pager_mmap(p, NULL, 1, RW, ANON, -1, 0);
		cr_assert_eq(fl_pager_munmap(p, q[0], 1), 0);
	}
	fl_stat_read(p, "resident_bytes", &bytes);
	cr_expect_leq(bytes, 20 * MIB, "%llu", (unsigned long long)bytes);
	cr_expect_eq(fl_pager_close(p), 0);
}

/* madvise(2) forbidden: no frames are to be had, so fresh space is not cut
 * again and again. */
Test(mmap, without_madvise)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_madvise, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { COUNT(code), code };
	struct fl_pager *p = opened("mem=64M");
	int fd = file_of(20000, O_RDONLY);
	uint64_t carves;

	cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog), 0);
	for (int i = 0; i < 1000; i++) {
		unsigned char *q = fl_pager_map_file(p, fd, 0, 20000);

		cr_assert_not(FL_IS_ERR(q));
		cr_assert(holds(q, 0, 20000));
		cr_assert_eq(fl_pager_munmap(p, q, 20000), 0);
	}
	fl_stat_read(p, "carves", &carves);
	cr_expect_leq(carves, 100, "%llu", (unsigned long long)carves);
	cr_expect_eq(fl_pager_close(p), 0);
}

Test(find, kinds)
{
	struct fl_pager *p = opened(NULL), *other = opened(NULL);
	int fd = file_of(50000, O_RDONLY), here = 0;
	unsigned char *a = fl_pager_mmap(p, NULL, 5 * PAGE, RW, ANON, -1, 0);
	unsigned char *f = fl_pager_map_file(p, fd, 0, 50000);
	unsigned char *k =
		fl_pager_mmap(p, NULL, 50000, PROT_READ, MAP_SHARED, fd, 0);

	cr_expect_eq(fl_find(p, a), 1);
	cr_expect_eq(fl_find(p, a + 5 * PAGE - 1), 1);
	cr_expect_eq(fl_find(p, f + 49999), 1);
	cr_expect_eq(fl_find(p, k), 0);
	cr_expect_eq(fl_find(p, &here), 0);
	cr_expect_eq(fl_find(p, NULL), 0);
	cr_expect_eq(fl_find(p, (void *)UINTPTR_MAX), 0);
	cr_expect_eq(fl_find(other, a), 0);
	cr_expect_eq(fl_pager_mprotect(p, a + PAGE, PAGE, PROT_READ), 0);
	cr_expect_eq(fl_find(p, a + PAGE), 2);
	cr_expect_eq(fl_pager_munmap(p, a + 3 * PAGE, PAGE), 0);
	cr_expect_eq(fl_find(p, a + 3 * PAGE), 0);
	cr_expect_neq(fl_find(p, a + 4 * PAGE), 0);
	cr_expect_eq(fl_pager_munmap(p, a, 5 * PAGE), 0);
	cr_expect_eq(fl_find(p, a + PAGE), 0);
	cr_expect_eq(fl_pager_munmap(p, f, 50000), 0);
	cr_expect_eq(fl_pager_munmap(p, k, 50000), 0);
	cr_expect_eq(fl_pager_close(p), 0);
	cr_expect_eq(fl_pager_close(other), 0);
}

/* Two pagers share no memory, and each takes its own down. */
/* Address asked for, given up, mapped by force, given up: nothing is lost. */
Test(fixed, over_a_free_region_leaks_nothing)
{
	struct fl_pager *p = opened("mem=64M,learn=0");
	uint64_t before, after;

	for (int i = 0; i < 1000; i++) {
		unsigned char *q = fl_pager_mmap(p, NULL, MIB, RW, ANON, -1, 0);

		cr_assert_not(FL_IS_ERR(q));
		cr_assert_eq(fl_pager_munmap(p, q, MIB), 0);
		if (i == 10)
			fl_stat_read(p, "resident_bytes", &before);
		cr_assert_eq(fl_pager_mmap(p, q, MIB, PROT_READ,
					   ANON | MAP_FIXED, -1, 0),
			     q);
		cr_assert_eq(fl_pager_munmap(p, q, MIB), 0);
	}
	fl_stat_read(p, "resident_bytes", &after);
	cr_expect_leq(after, before);
	fl_stat_read(p, "live_bytes", &after);
	cr_expect_eq(after, 0, "%llu", (unsigned long long)after);
	fl_stat_read(p, "maps_anon", &after);
	cr_expect_geq(after, 900, "the others went to the kernel: %llu",
		      (unsigned long long)after);
	cr_expect_eq(fl_pager_close(p), 0);
}

Test(pagers, two)
{
	struct fl_pager *p = opened(NULL), *q = opened("hardened=1");
	unsigned char *a[100], *b[100];

	for (int i = 0; i < 100; i++) {
		size_t len = (size_t)(i + 1) * 1000;

		a[i] = fl_pager_mmap(p, NULL, len, RW, ANON, -1, 0);
		b[i] = fl_pager_mmap(q, NULL, len, RW, ANON, -1, 0);
		cr_assert(!FL_IS_ERR(a[i]) && !FL_IS_ERR(b[i]));
		memset(a[i], i, len);
		memset(b[i], i + 100, len);
	}
	for (int i = 0; i < 100; i++)
		cr_assert_eq(fl_pager_munmap(p, a[i], (size_t)(i + 1) * 1000),
			     0);
	cr_expect_eq(fl_pager_close(p), 0);
	for (int i = 0; i < 100; i++) {
		size_t len = (size_t)(i + 1) * 1000;

		cr_expect(all(b[i], i + 100, len));
		cr_assert_eq(fl_pager_munmap(q, b[i], len), 0);
	}
	cr_expect_eq(fl_pager_close(q), 0);
}

Test(calls, errors_are_returned)
{
	struct fl_pager *p = opened(NULL);
	unsigned char *a = fl_pager_mmap(p, NULL, 8 * PAGE, RW, ANON, -1, 0);
	unsigned char vec[8];
	void *q;

	errno = 2999;
	cr_expect_eq(fl_pager_munmap(p, a + 1, PAGE), -EINVAL);
	cr_expect_eq(fl_pager_munmap(p, a, 0), -EINVAL);
	cr_expect_eq(fl_pager_madvise(p, a + 1, PAGE, MADV_RANDOM), -EINVAL);
	cr_expect_eq(fl_pager_madvise(p, a, PAGE, 9999), -EINVAL);
	cr_expect_eq(fl_pager_mincore(p, a + 1, PAGE, vec), -EINVAL);
	cr_expect_eq(fl_pager_mprotect(p, a + 1, PAGE, PROT_READ), -EINVAL);
	cr_expect_eq(fl_pager_msync(p, a, PAGE, MS_SYNC | MS_ASYNC), -EINVAL);
	cr_expect_eq(fl_pager_mlock(p, a, PAGE, 0x40), -EINVAL);
	q = fl_pager_mremap(p, a + 1, PAGE, PAGE, 0, NULL);
	cr_expect_eq(FL_PTR_ERR(q), -EINVAL);
	cr_expect_eq(fl_pager_mincore(p, a, 8 * PAGE, vec), 0);
	cr_expect_eq(fl_pager_munmap(p, a + 2 * PAGE, PAGE), 0);
	cr_expect_eq(fl_pager_mincore(p, a, 8 * PAGE, vec), -ENOMEM);
	cr_expect_eq(fl_pager_madvise(p, a, 8 * PAGE, MADV_RANDOM), -ENOMEM);
	cr_expect_eq(fl_pager_mprotect(p, a, 8 * PAGE, PROT_READ), -ENOMEM);
	cr_expect_eq(fl_pager_mlock(p, a + 2 * PAGE, PAGE, 0), -ENOMEM);
	cr_expect_eq(fl_pager_munlock(p, a + 2 * PAGE, PAGE), -ENOMEM);
	cr_expect_eq(fl_pager_msync(p, a + 2 * PAGE, PAGE, MS_ASYNC), -ENOMEM);
	cr_expect_eq(fl_pager_munmap(p, a, 8 * PAGE), 0);
	cr_expect_eq(errno, 2999);
	cr_expect_eq(fl_pager_close(p), 0);
}

Test(calls, demotion_keeps_bytes)
{
	struct fl_pager *p = opened(NULL);
	int fd = file_of(50000, O_RDONLY);
	unsigned char *f = fl_pager_map_file(p, fd, 0, 50000), *g;
	unsigned char *a = fl_pager_mmap(p, NULL, 50000, RW, ANON, -1, 0);

	memset(a, 6, 50000);
	cr_expect_eq(fl_pager_mlock(p, f, 3 * PAGE, 0), 0);
	cr_expect_eq(fl_pager_munlock(p, f, 3 * PAGE), 0);
	cr_expect_eq(fl_pager_mprotect(p, f + 4 * PAGE, PAGE, RW), 0);
	f[4 * PAGE] = 0xee;
	cr_expect(holds(f, 0, 4 * PAGE));
	cr_expect(holds(f + 4 * PAGE + 1, 4 * PAGE + 1, 50000 - 4 * PAGE - 1));
	g = fl_pager_mremap(p, a, 50000, 80000, MREMAP_MAYMOVE, NULL);
	cr_assert(!FL_IS_ERR(g), "%d", FL_PTR_ERR(g));
	cr_expect(all(g, 6, 50000));
	cr_expect(all(g + 13 * PAGE, 0, 80000 - 13 * PAGE));
	cr_expect_eq(fl_pager_munmap(p, g, 80000), 0);
	cr_expect_eq(fl_pager_munmap(p, f, 50000), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

Test(options, limits_of_what_is_taken)
{
	struct fl_pager *p = opened("resident_max=8K,anon_max=16K");
	int fd = file_of(50000, O_RDONLY);
	unsigned char *q;

	q = fl_pager_mmap(p, NULL, 8192, PROT_READ, MAP_PRIVATE, fd, 0);
	cr_expect_eq(fl_find(p, q), 1);
	fl_pager_munmap(p, q, 8192);
	q = fl_pager_mmap(p, NULL, 8193, PROT_READ, MAP_PRIVATE, fd, 0);
	cr_expect_eq(fl_find(p, q), 0);
	cr_expect(holds(q, 0, 8193));
	fl_pager_munmap(p, q, 8193);
	q = fl_pager_mmap(p, NULL, 16384, RW, ANON, -1, 0);
	cr_expect_eq(fl_find(p, q), 1);
	fl_pager_munmap(p, q, 16384);
	q = fl_pager_mmap(p, NULL, 16385, RW, ANON, -1, 0);
	cr_expect_eq(fl_find(p, q), 0);
	fl_pager_munmap(p, q, 16385);
	q = fl_pager_mmap(p, NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	cr_expect_eq(fl_find(p, q), 0, "shared=kernel");
	fl_pager_munmap(p, q, 4096);
	cr_expect_eq(fl_pager_close(p), 0);
	p = opened("shared=snapshot");
	q = fl_pager_mmap(p, NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	cr_expect_eq(fl_find(p, q), 1, "shared=snapshot");
	cr_expect(holds(q, 0, 4096));
	fl_pager_munmap(p, q, 4096);
	cr_expect_eq(fl_pager_close(p), 0);
}

/* A snapshot outlives what happens to its file. */
Test(snapshot, truncated_file)
{
	struct fl_pager *p = opened(NULL);
	int rw = file_of(50000, O_RDWR), ro;
	char path[64];
	unsigned char *q;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", rw);
	ro = open(path, O_RDONLY);
	cr_assert_geq(ro, 0);
	q = fl_pager_mmap(p, NULL, 50000, PROT_READ, MAP_PRIVATE, ro, 0);
	cr_assert_eq(fl_find(p, q), 1);
	cr_assert_eq(ftruncate(rw, 0), 0);
	cr_expect(holds(q, 0, 50000));
	cr_expect_eq(fl_pager_munmap(p, q, 50000), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

Test(drop_ins, default_pager)
{
	struct fl_pager *p;
	unsigned char *q, vec[4];

	setenv("FAULTLINE_HIGH", "55", 1);
	q = fl_mmap(NULL, 4 * PAGE, RW, ANON, -1, 0);
	cr_assert_neq(q, MAP_FAILED);
	p = fl_pager_default();
	cr_assert_not_null(p);
	cr_expect_eq(fl_pager_default(), p);
	cr_expect_eq(fl_find(p, q), 1);
	cr_assert_gt(fl_conf_get(p, "high", (char *)vec, sizeof(vec)), 0);
	cr_expect_str_eq((char *)vec, "55");
	cr_expect_eq(fl_madvise(q, 4 * PAGE, MADV_SEQUENTIAL), 0);
	cr_expect_eq(fl_mincore(q, 4 * PAGE, vec), 0);
	errno = 0;
	cr_expect_eq(fl_madvise(q + 1, PAGE, MADV_RANDOM), -1);
	cr_expect_eq(errno, EINVAL);
	errno = 0;
	cr_expect_eq(fl_munmap(q + 1, PAGE), -1);
	cr_expect_eq(errno, EINVAL);
	cr_expect_eq(fl_munmap(q, 4 * PAGE), 0);
	errno = 0;
	cr_expect_eq(fl_mincore(q, 4 * PAGE, vec), -1);
	cr_expect_eq(errno, ENOMEM);
}

/* A child uses and closes pagers of its own and of its parent. */
Test(fork, pagers)
{
	struct fl_pager *p = opened(NULL), *q;
	unsigned char *a = fl_pager_mmap(p, NULL, 50000, RW, ANON, -1, 0), *b;
	int st;
	pid_t pid;

	memset(a, 4, 50000);
	pid = fork();
	if (pid == 0) {
		if (!all(a, 4, 50000) || fl_pager_close(p) != -EBUSY)
			_exit(1);
		b = fl_pager_mmap(p, NULL, 50000, RW, ANON, -1, 0);
		if (FL_IS_ERR(b) || !all(b, 0, 50000))
			_exit(2);
		if (fl_pager_munmap(p, a, 50000) ||
		    fl_pager_munmap(p, b, 50000) || fl_pager_close(p))
			_exit(3);
		if (fl_pager_open(&q, NULL) || fl_pager_close(q))
			_exit(4);
		_exit(0);
	}
	cr_expect_eq(waitpid(pid, &st, 0), pid);
	cr_expect_eq(st, 0, "status %#x", (unsigned int)st);
	cr_expect(all(a, 4, 50000));
	cr_expect_eq(fl_pager_munmap(p, a, 50000), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

Test(version, is_three_numbers)
{
	unsigned int a, b, c;
	char rest;

	cr_expect_eq(sscanf(fl_version(), "%u.%u.%u%c", &a, &b, &c, &rest), 3);
}
