/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_faulty - mapping where other system calls fail: a seccomp filter makes
 * one call (or several) return an error, or claim to have read nothing. mmap
 * itself needs none of them, so the program must not notice.
 *
 * [fl:demand] signal
 */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "support/see.h"

#ifndef __NR_cachestat
#define __NR_cachestat 451
#endif
#define RW (PROT_READ | PROT_WRITE)
#define MAX_CALLS 24
#define END (-1)

static const size_t sizes[] = { 1, 4096, 5000, 65536, 200000, 1000000 };
static int files[COUNT(sizes)];

/* Returns what @err says (0: the call does nothing and returns 0). */
static int filter(const int *calls, int err)
{
	struct sock_filter f[MAX_CALLS + 3];
	struct sock_fprog prog = { .filter = f };
	unsigned short n = 0;

	f[n++] = (struct sock_filter)BPF_STMT(
		BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (int i = 0; calls[i] != END; i++) {
		f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
						      (unsigned int)calls[i], 0,
						      1);
		f[n++] = (struct sock_filter)BPF_STMT(
			BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned int)err);
	}
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
					      SECCOMP_RET_ALLOW);
	prog.len = n;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

/* Every size, private, shared and anonymous; 0 when right. */
static int rounds(void)
{
	for (size_t i = 0; i < COUNT(sizes); i++) {
		unsigned char *p, *w, *s, *a;
		size_t len = sizes[i];

		p = mmap(NULL, len, PROT_READ, MAP_PRIVATE, files[i], 0);
		w = mmap(NULL, len, RW, MAP_PRIVATE, files[i], 0);
		s = mmap(NULL, len, PROT_READ, MAP_SHARED, files[i], 0);
		a = mmap(NULL, len, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED || w == MAP_FAILED || s == MAP_FAILED ||
		    a == MAP_FAILED)
			return 10 + (int)i;
		if (differs(p, (unsigned int)i, 0, len) >= 0 ||
		    differs(w, (unsigned int)i, 0, len) >= 0 ||
		    differs(s, (unsigned int)i, 0, len) >= 0 ||
		    not_all(a, 0, len) >= 0)
			return 20 + (int)i;
		memset(w, 0xfe, len);
		memset(a, 0xfe, len);
		if (mprotect(p, len, PROT_READ | PROT_EXEC) ||
		    madvise(w, len, MADV_DONTNEED) || mprotect(a, 1, PROT_READ))
			return 30 + (int)i;
		if (differs(p, (unsigned int)i, 0, len) >= 0 ||
		    differs(w, (unsigned int)i, 0, len) >= 0 ||
		    not_all(a, 0xfe, len) >= 0)
			return 40 + (int)i;
		if (munmap(p, len) || munmap(w, len) || munmap(s, len) ||
		    munmap(a, len))
			return 50 + (int)i;
	}
	return 0;
}

static const struct set {
	const char *name;
	int calls[MAX_CALLS / 2];
} sets[] = {
	{ "reads",
	  { __NR_read, __NR_pread64, __NR_readv, __NR_preadv, __NR_preadv2,
	    __NR_io_uring_setup, __NR_io_uring_enter, END } },
	{ "pread64", { __NR_pread64, END } },
	{ "stat", { __NR_fstat, __NR_newfstatat, __NR_statx, END } },
	{ "statfs", { __NR_fstatfs, __NR_statfs, END } },
	{ "fcntl", { __NR_fcntl, END } },
	{ "cachestat", { __NR_cachestat, __NR_mincore, END } },
	{ "madvise", { __NR_process_madvise, END } },
	{ "cpus",
	  { __NR_getcpu, __NR_sched_getaffinity, __NR_membarrier, __NR_rseq,
	    END } },
	{ "memfd",
	  { __NR_memfd_create, __NR_userfaultfd, __NR_ftruncate, __NR_fallocate,
	    END } },
	{ "ids",
	  { __NR_getpid, __NR_gettid, __NR_prctl, __NR_clock_gettime, END } },
	{ "opens", { __NR_open, __NR_openat, __NR_openat2, END } },
};

static const int errs[] = { EIO, EINTR, EAGAIN, ENOSYS, EPERM, ENOMEM, 0 };

int main(int argc, char **argv)
{
	if (argc > 1) {
		for (size_t i = 0; i < COUNT(sizes); i++)
			files[i] = atoi(argv[1]) + (int)i;
		return rounds();
	}
	for (size_t i = 0; i < COUNT(sizes); i++) {
		int fd = temp_file((unsigned int)i, sizes[i], O_RDONLY);

		files[i] = 500 + (int)i;
		if (dup2(fd, files[i]) != files[i])
			give_up("dup2");
		close(fd);
	}
	for (size_t i = 0; i < COUNT(sets); i++)
		for (size_t e = 0; e < COUNT(errs); e++) {
			pid_t pid;

			/* Only of reads is "nothing" an honest answer. */
			if (errs[e] == 0 && i > 1)
				continue;
			pid = fork();
			if (pid == 0) {
				alarm(30);
				if (filter(sets[i].calls, errs[e]))
					_exit(99);
				_exit(rounds());
			}
			say("%s: %s: %s", sets[i].name, ename(errs[e]),
			    end_of(pid));
		}
	/* The same from the start of the program, where it can start so. */
	for (size_t i = 4; i < COUNT(sets) - 1; i++)
		for (size_t e = 3; e < 5; e++) {
			pid_t pid = fork();

			if (pid == 0) {
				alarm(30);
				if (filter(sets[i].calls, errs[e]))
					_exit(99);
				execl("/proc/self/exe", "prog_faulty", "500",
				      (char *)NULL);
				_exit(98);
			}
			say("from the start, %s: %s: %s", sets[i].name,
			    ename(errs[e]), end_of(pid));
		}
	return 0;
}
