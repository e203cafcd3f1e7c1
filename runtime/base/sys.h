/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * sys.h - raw system calls that return -errno and leave errno alone, immune to
 * interposition.
 *
 * x86_64, aarch64 and riscv64 enter the kernel inline; other targets (which
 * only build the arch, slab, page-table and extent tests) go through
 * syscall(2) with errno saved. The numbers are the host headers'; calls newer
 * than Debian 12's headers have theirs defined here.
 *
 * All are async-signal-safe. None is a cancellation point.
 */
#ifndef FL_BASE_SYS_H
#define FL_BASE_SYS_H

#include <linux/futex.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/order.h"

#if defined(__x86_64__) && !defined(__ILP32__)

static inline long sys_call6(long n, long a, long b, long c, long d, long e,
			     long f)
{
	long ret;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8),
			   "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

#elif defined(__aarch64__)

static inline long sys_call6(long n, long a, long b, long c, long d, long e,
			     long f)
{
	register long x8 __asm__("x8") = n;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory", "cc");
	return x0;
}

#elif defined(__riscv) && __riscv_xlen == 64

static inline long sys_call6(long n, long a, long b, long c, long d, long e,
			     long f)
{
	register long a7 __asm__("a7") = n;
	register long a0 __asm__("a0") = a;
	register long a1 __asm__("a1") = b;
	register long a2 __asm__("a2") = c;
	register long a3 __asm__("a3") = d;
	register long a4 __asm__("a4") = e;
	register long a5 __asm__("a5") = f;

	__asm__ volatile("ecall"
			 : "+r"(a0)
			 : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5)
			 : "memory");
	return a0;
}

#else

static inline long sys_call6(long n, long a, long b, long c, long d, long e,
			     long f)
{
	int saved = errno;
	long ret = syscall(n, a, b, c, d, e, f);

	if (ret == -1)
		ret = -errno;
	errno = saved;
	return ret;
}

#endif

#define SYS_A(x) ((long)(x))
#define sys_call0(n) sys_call6((n), 0, 0, 0, 0, 0, 0)
#define sys_call1(n, a) sys_call6((n), SYS_A(a), 0, 0, 0, 0, 0)
#define sys_call2(n, a, b) sys_call6((n), SYS_A(a), SYS_A(b), 0, 0, 0, 0)
#define sys_call3(n, a, b, c) \
	sys_call6((n), SYS_A(a), SYS_A(b), SYS_A(c), 0, 0, 0)
#define sys_call4(n, a, b, c, d) \
	sys_call6((n), SYS_A(a), SYS_A(b), SYS_A(c), SYS_A(d), 0, 0)
#define sys_call5(n, a, b, c, d, e) \
	sys_call6((n), SYS_A(a), SYS_A(b), SYS_A(c), SYS_A(d), SYS_A(e), 0)

/*
 * Memory. The kernel orders one thread's use of an address before the use of
 * whoever maps it next; ThreadSanitizer has to be told, raw calls being raw.
 */
#if FL_TSAN
__attribute__((weak)) char sys_tsan_tag;
#endif

static inline void *sys_mmap_raw(void *addr, size_t len, int prot, int flags,
				 int fd, int64_t off)
{
#if defined(__NR_mmap2) && __SIZEOF_POINTER__ == 4
	/* mmap2 counts in 4 KiB units; a misaligned offset is EINVAL. */
	if (off & 4095)
		return err_ptr(-EINVAL);
	return (void *)sys_call6(__NR_mmap2, SYS_A(addr), SYS_A(len), prot,
				 flags, fd, (long)(off >> 12));
#elif defined(__s390x__)
	/* s390x's mmap takes a pointer to its six arguments. */
	unsigned long a[6] = { (unsigned long)addr, len,
			       (unsigned long)prot, (unsigned long)flags,
			       (unsigned long)fd,   (unsigned long)off };
	return (void *)sys_call1(__NR_mmap, a);
#else
	return (void *)sys_call6(__NR_mmap, SYS_A(addr), SYS_A(len), prot,
				 flags, fd, SYS_A(off));
#endif
}

static inline void *sys_mmap(void *addr, size_t len, int prot, int flags,
			     int fd, int64_t off)
{
	void *ret = sys_mmap_raw(addr, len, prot, flags, fd, off);

	tsan_acquire(&sys_tsan_tag);
	return ret;
}

static inline long sys_munmap(void *addr, size_t len)
{
	tsan_release(&sys_tsan_tag);
	return sys_call2(__NR_munmap, addr, len);
}

static inline void *sys_mremap(void *addr, size_t old_len, size_t new_len,
			       int flags, void *new_addr)
{
	void *ret;

	tsan_release(&sys_tsan_tag);
	ret = (void *)sys_call5(__NR_mremap, addr, old_len, new_len, flags,
				new_addr);
	tsan_acquire(&sys_tsan_tag);
	return ret;
}

static inline long sys_mprotect(void *addr, size_t len, int prot)
{
	return sys_call3(__NR_mprotect, addr, len, prot);
}

static inline long sys_madvise(void *addr, size_t len, int advice)
{
	return sys_call3(__NR_madvise, addr, len, advice);
}

static inline long sys_mincore(void *addr, size_t len, unsigned char *vec)
{
	return sys_call3(__NR_mincore, addr, len, vec);
}

static inline long sys_msync(void *addr, size_t len, int flags)
{
	return sys_call3(__NR_msync, addr, len, flags);
}

static inline long sys_mlock(const void *addr, size_t len)
{
	return sys_call2(__NR_mlock, addr, len);
}

static inline long sys_munlock(const void *addr, size_t len)
{
	return sys_call2(__NR_munlock, addr, len);
}

/* Files. */
static inline long sys_openat(int dir, const char *path, int flags, int mode)
{
	return sys_call4(__NR_openat, dir, path, flags, mode);
}

static inline long sys_close(int fd)
{
	return sys_call1(__NR_close, fd);
}

static inline long sys_read(int fd, void *buf, size_t n)
{
	return sys_call3(__NR_read, fd, buf, n);
}

static inline long sys_write(int fd, const void *buf, size_t n)
{
	return sys_call3(__NR_write, fd, buf, n);
}

static inline long sys_pread(int fd, void *buf, size_t n, int64_t off)
{
#if __SIZEOF_POINTER__ == 4
	return sys_call5(__NR_pread64, fd, buf, n, (long)(off & 0xffffffff),
			 (long)(off >> 32));
#else
	return sys_call4(__NR_pread64, fd, buf, n, off);
#endif
}

static inline long sys_pwrite(int fd, const void *buf, size_t n, int64_t off)
{
#if __SIZEOF_POINTER__ == 4
	return sys_call5(__NR_pwrite64, fd, buf, n, (long)(off & 0xffffffff),
			 (long)(off >> 32));
#else
	return sys_call4(__NR_pwrite64, fd, buf, n, off);
#endif
}

static inline long sys_fcntl(int fd, int cmd, long arg)
{
#if __SIZEOF_POINTER__ == 4
	return sys_call3(__NR_fcntl64, fd, cmd, arg);
#else
	return sys_call3(__NR_fcntl, fd, cmd, arg);
#endif
}

/* What is asked of a file. */
struct sys_stat {
	uint64_t ino;
	uint64_t size;
	uint32_t dev; /* as the kernel encodes it */
	uint32_t mode;
};

static inline long sys_fstat(int fd, struct sys_stat *out)
{
#if __SIZEOF_POINTER__ == 4
	struct statx st;
	long ret = sys_call5(__NR_statx, fd, "", 0x1000 /* AT_EMPTY_PATH */,
			     STATX_BASIC_STATS, &st);

	if (ret < 0)
		return ret;
	out->ino = st.stx_ino;
	out->size = st.stx_size;
	out->dev = st.stx_dev_major << 20 | st.stx_dev_minor;
	out->mode = st.stx_mode;
#else
	/* glibc's struct stat is the kernel's on 64-bit targets. */
	struct stat st;
	long ret = sys_call2(__NR_fstat, fd, &st);

	if (ret < 0)
		return ret;
	out->ino = st.st_ino;
	out->size = (uint64_t)st.st_size;
	out->dev = (uint32_t)st.st_dev;
	out->mode = st.st_mode;
#endif
	return 0;
}

/* Threads and time. */
static inline long sys_futex_wait(_Atomic(uint32_t) *word, uint32_t val,
				  const struct timespec *timeout)
{
	return sys_call4(__NR_futex, word, FUTEX_WAIT_PRIVATE, val, timeout);
}

static inline long sys_futex_wake(_Atomic(uint32_t) *word, int n)
{
	return sys_call3(__NR_futex, word, FUTEX_WAKE_PRIVATE, n);
}

/*
 * All signals but those a thread raises by what it does, of which the kernel
 * makes a blocked one deadly; in the kernel's mask of 64 bits. Returns the mask
 * before.
 */
static inline uint64_t sys_block_signals(void)
{
	static const unsigned char own[] = { SIGSEGV, SIGBUS,  SIGFPE,
					     SIGILL,  SIGTRAP, SIGSYS };
	uint64_t all = ~(uint64_t)0, old = 0;

	for (size_t i = 0; i < sizeof(own); i++)
		all &= ~((uint64_t)1 << (own[i] - 1));
	sys_call4(__NR_rt_sigprocmask, SIG_BLOCK, &all, &old, sizeof(all));
	return old;
}

static inline void sys_restore_signals(uint64_t old)
{
	sys_call4(__NR_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof(old));
}

static inline long sys_sched_yield(void)
{
	return sys_call0(__NR_sched_yield);
}

static inline long sys_getpid(void)
{
	return sys_call0(__NR_getpid);
}

static inline long sys_gettid(void)
{
	return sys_call0(__NR_gettid);
}

static inline long sys_getcpu(unsigned int *cpu)
{
	return sys_call3(__NR_getcpu, cpu, NULL, NULL);
}

/*
 * The CPU this thread runs on, as a hint: rseq's cpu_id, which glibc >= 2.35
 * registers for each thread and the kernel keeps up to date; getcpu(2) where
 * it is not registered or the libc is older.
 */
#ifdef FL_HAVE_RSEQ
#include <sys/rseq.h>
static inline const char *sys_thread_pointer(void)
{
#ifdef __x86_64__
	const char *tp;

	__asm__("movq %%fs:0, %0" : "=r"(tp));
	return tp;
#else
	return __builtin_thread_pointer();
#endif
}

static inline unsigned int sys_cpu_id(void)
{
	if (likely(__rseq_size != 0)) {
		const struct rseq *rs =
			(const void *)(sys_thread_pointer() + __rseq_offset);
		int32_t cpu = *(const volatile int32_t *)&rs->cpu_id;

		if (likely(cpu >= 0))
			return (unsigned int)cpu;
	}
	unsigned int cpu = 0;

	sys_getcpu(&cpu);
	return cpu;
}
#else
static inline unsigned int sys_cpu_id(void)
{
	unsigned int cpu = 0;

	sys_getcpu(&cpu);
	return cpu;
}
#endif

#endif
