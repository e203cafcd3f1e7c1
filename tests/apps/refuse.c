// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * refuse ERRNO COMMAND... - runs a command under a seccomp filter that refuses
 * userfaultfd, by the system call and by the device, and io_uring, with EPERM
 * or ENOSYS; as sandboxes do.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NR_IO_URING_SETUP 425 /* to 427, everywhere */
#define UFFD_DEV_NEW 0xaa00

#define LOAD(what) \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, what))
#define UNLESS(value, skip) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (skip))

int main(int argc, char **argv)
{
	unsigned int err = argc > 1 && !strcmp(argv[1], "ENOSYS") ? ENOSYS :
								    EPERM;
	struct sock_filter f[] = {
		LOAD(nr),
		UNLESS(__NR_userfaultfd, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | err),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, NR_IO_URING_SETUP, 0, 2),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, NR_IO_URING_SETUP + 2, 1,
			 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | err),
		UNLESS(__NR_ioctl, 3),
		LOAD(args[1]),
		UNLESS(UFFD_DEV_NEW, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | err),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(f) / sizeof(f[0]), f };

	if (argc < 3 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog)) {
		perror("refuse");
		return 125;
	}
	execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 127;
}
