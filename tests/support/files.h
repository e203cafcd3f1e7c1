/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * files.h - files whose every 8 bytes tell where they belong, on the file
 * systems that tests of reading need, and system calls that are refused.
 */
#ifndef FL_TESTS_SUPPORT_FILES_H
#define FL_TESTS_SUPPORT_FILES_H

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILES __attribute__((unused)) static

FILES uint64_t file_word(uint64_t off, uint64_t seed)
{
	return (off / 8 + seed) * UINT64_C(0x9e3779b97f4a7c15);
}

/* The bytes of [off, off + len) of the file made with @seed. */
FILES void file_fill(void *buf, size_t len, uint64_t off, uint64_t seed)
{
	unsigned char *p = buf;

	for (size_t i = 0; i < len; i++) {
		uint64_t w = file_word(off + i, seed);

		memcpy(&p[i], (char *)&w + (off + i) % 8, 1);
	}
}

/* Is @buf that? */
FILES int file_is(const void *buf, size_t len, uint64_t off, uint64_t seed)
{
	const unsigned char *p = buf;

	for (size_t i = 0; i < len; i++) {
		uint64_t w = file_word(off + i, seed);

		if (p[i] != ((unsigned char *)&w)[(off + i) % 8])
			return 0;
	}
	return 1;
}

/* Makes @path with @size bytes. 0 or -1. */
FILES int file_make(const char *path, size_t size, uint64_t seed)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	char buf[4096];

	if (fd < 0)
		return -1;
	for (size_t at = 0; at < size; at += sizeof(buf)) {
		size_t n = size - at < sizeof(buf) ? size - at : sizeof(buf);

		file_fill(buf, n, at, seed);
		if (write(fd, buf, n) != (ssize_t)n) {
			close(fd);
			return -1;
		}
	}
	fsync(fd);
	return close(fd);
}

enum files_fs {
	FS_DISK,
	FS_TMPFS,
	FS_OVERLAY,
	FS_SQUASHFS,
	FS_NR
};

FILES const char *const files_fs_name[FS_NR] = { "disk", "tmpfs", "overlay",
						 "squashfs" };

/* Runs @cmd with the shell, silently. 0: it succeeded. */
FILES int files_run(const char *cmd)
{
	char line[1024];

	snprintf(line, sizeof(line), "{ %s; } >/dev/null 2>&1", cmd);
	return system(line);
}

/* Mounts that only this process sees and that go with it. */
FILES int files_own_mounts(void)
{
	static int done;

	if (done)
		return 0;
	if (unshare(CLONE_NEWNS) ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return -1;
	done = 1;
	return 0;
}

/*
 * A file "f" of @size bytes on a file system of kind @fs; its path goes to
 * @path. NULL, or why there can be none here. The test is in a process of its
 * own; files_end() removes what stays behind.
 */
FILES char files_dir[64];

FILES const char *files_mount(enum files_fs fs, char path[128], size_t size,
			      uint64_t seed)
{
	char cmd[512];

	snprintf(files_dir, sizeof(files_dir), "%s/fl-files-XXXXXX",
		 fs == FS_TMPFS ? "/dev/shm" : "/tmp");
	if (!mkdtemp(files_dir))
		return "no directory";
	snprintf(path, 128, "%s/f", files_dir);
	if (fs == FS_DISK || fs == FS_TMPFS)
		return file_make(path, size, seed) ? "no file" : NULL;
	if (files_own_mounts())
		return "mounting is not allowed";
	snprintf(cmd, sizeof(cmd), "cd %s && mkdir low up work mnt", files_dir);
	if (files_run(cmd))
		return "no directories";
	snprintf(path, 128, "%s/low/f", files_dir);
	if (file_make(path, size, seed))
		return "no file";
	snprintf(path, 128, "%s/mnt/f", files_dir);
	if (fs == FS_OVERLAY)
		snprintf(cmd, sizeof(cmd),
			 "cd %s && mount -t overlay overlay "
			 "-olowerdir=low,upperdir=up,workdir=work mnt",
			 files_dir);
	else
		snprintf(cmd, sizeof(cmd),
			 "cd %s && mksquashfs low img -quiet -no-progress && "
			 "mount -t squashfs -o loop,ro img mnt",
			 files_dir);
	if (files_run(cmd))
		return fs == FS_OVERLAY ? "no overlay can be mounted" :
					  "no squashfs can be made and mounted";
	return NULL;
}

FILES void files_end(void)
{
	char cmd[256];

	if (!files_dir[0])
		return;
	snprintf(cmd, sizeof(cmd), "umount %s/mnt; rm -rf %s", files_dir,
		 files_dir);
	files_run(cmd);
	files_dir[0] = '\0';
}

/* From here on system call @nr of this thread fails with @err. 0 or -1. */
FILES int refuse_syscall(long nr, int err)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)err),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(code) / sizeof(code[0]), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

#endif
