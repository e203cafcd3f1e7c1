// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * target.c - will the dynamic linker load the preload into this program?
 *
 * It will not for a static executable, for one that runs with other rights
 * than the caller's, or for another architecture or libc. Scripts are followed
 * to their interpreter, and through env(1) to what env runs.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cli/cli.h"

/* The kernel follows this many interpreters. */
#define MAX_INTERPRETERS 5
#define HEAD_SIZE 4096

__attribute__((format(printf, 2, 3))) static int refuse(const char *path,
							const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "faultline run: %s ", path);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return EXIT_CANNOT_RUN;
}

/* Is @path a file that execve would take? 0, or the errno. */
static int executable(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		return errno;
	if (S_ISDIR(st.st_mode))
		return EISDIR;
	return access(path, X_OK) ? errno : 0;
}

/* As execvp: the first that can be run, else the first that is there. */
static int look_up(const char *file, char *path, size_t size)
{
	const char *list = getenv("PATH");
	int err = ENOENT;

	if (strchr(file, '/')) {
		snprintf(path, size, "%s", file);
		return executable(path);
	}
	if (!list)
		list = "/bin:/usr/bin";
	while (*file) {
		size_t n = strcspn(list, ":");
		char try[2 * PATH_MAX];
		int ret;

		snprintf(try, sizeof(try), "%.*s%s%s", (int)n, list,
			 n ? "/" : "", file);
		ret = executable(try);
		if (!ret ||
		    (ret != ENOENT && ret != ENOTDIR && err == ENOENT)) {
			snprintf(path, size, "%s", try);
			err = ret;
		}
		if (!ret || !list[n])
			break;
		list += n + 1;
	}
	return err;
}

static const char *machine_name(unsigned int machine)
{
	switch (machine) {
	case EM_X86_64:
		return "x86-64";
	case EM_386:
		return "i386";
	case EM_AARCH64:
		return "aarch64";
	case EM_ARM:
		return "arm";
	case EM_RISCV:
		return "riscv";
	case EM_PPC64:
		return "ppc64";
	case EM_S390:
		return "s390";
	default:
		return "unknown";
	}
}

/* Our own header, to compare with. */
static bool own_header(ElfW(Ehdr) * h)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	bool ok = fd >= 0 && read(fd, h, sizeof(*h)) == sizeof(*h);

	if (fd >= 0)
		close(fd);
	return ok;
}

/* The interpreter's name from the program headers; "" when there is none. */
static bool read_interp(int fd, const ElfW(Ehdr) * h, char *interp, size_t size)
{
	interp[0] = '\0';
	for (unsigned int i = 0; i < h->e_phnum; i++) {
		off_t at = (off_t)(h->e_phoff + (size_t)i * h->e_phentsize);
		ElfW(Phdr) ph;
		ssize_t n;

		if (pread(fd, &ph, sizeof(ph), at) != sizeof(ph))
			return false;
		if (ph.p_type != PT_INTERP)
			continue;
		if (ph.p_filesz >= size)
			return false;
		n = pread(fd, interp, ph.p_filesz, (off_t)ph.p_offset);
		interp[n > 0 ? n : 0] = '\0';
		return n > 0;
	}
	return true;
}

/* ld.so as the program: it has no interpreter, and does load the preload. */
static bool is_loader(const char *path)
{
	const char *base = strrchr(path, '/');

	base = base ? base + 1 : path;
	return !strncmp(base, "ld-linux", 8) || !strncmp(base, "ld.so", 5) ||
	       !strncmp(base, "ld64.so", 7);
}

static int check_elf(int fd, const char *path)
{
	ElfW(Ehdr) own, h;
	char interp[PATH_MAX];
	bool narrow;

	if (!own_header(&own) || pread(fd, &h, sizeof(h), 0) < EI_NIDENT + 4)
		return refuse(path, "has a damaged ELF header");
	if (h.e_ident[EI_DATA] != own.e_ident[EI_DATA])
		return refuse(path, "is for a machine of the other byte order");
	if (h.e_machine != own.e_machine ||
	    h.e_ident[EI_CLASS] != own.e_ident[EI_CLASS]) {
		narrow = h.e_ident[EI_CLASS] == ELFCLASS32;
		return refuse(path,
			      "is a %d-bit %s program; the preload is for "
			      "%d-bit %s",
			      narrow ? 32 : 64, machine_name(h.e_machine),
			      (int)sizeof(long) * 8,
			      machine_name(own.e_machine));
	}
	if (!read_interp(fd, &h, interp, sizeof(interp)))
		return refuse(path, "has damaged ELF program headers");
	if (!interp[0] && !is_loader(path))
		return refuse(path, "is statically linked: there is no dynamic "
				    "linker that would load the preload");
	if (strstr(interp, "/ld-musl"))
		return refuse(path, "uses musl libc; the preload needs glibc");
	return 0;
}

static int check_rights(int fd, const char *path)
{
	struct stat st;

	if (fstat(fd, &st))
		return 0;
	if (st.st_mode & S_ISUID)
		return refuse(path, "is set-user-ID: the dynamic linker "
				    "ignores preloads in it");
	if ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP))
		return refuse(path, "is set-group-ID: the dynamic linker "
				    "ignores preloads in it");
	if (fgetxattr(fd, "security.capability", NULL, 0) > 0)
		return refuse(path, "has file capabilities: the dynamic linker "
				    "ignores preloads in it");
	return 0;
}

/* The interpreter of "#!INTERPRETER [ARG]"; for env, what it would run. */
static void script_target(char *line, char *next, size_t size)
{
	char *save, *word, *base;

	line[strcspn(line, "\n")] = '\0';
	word = strtok_r(line, " \t", &save);
	snprintf(next, size, "%s", word ? word : "");
	base = strrchr(next, '/');
	if (!base || strcmp(base, "/env"))
		return;
	while ((word = strtok_r(NULL, " \t", &save)))
		if (word[0] != '-' && !strchr(word, '='))
			break;
	if (word)
		snprintf(next, size, "%s", word);
}

/* 1: a script, @next is what runs it. Else as target_check. */
static int check_file(const char *path, char *next, size_t size)
{
	char head[HEAD_SIZE];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n;
	int ret = 0;

	/* What may be run but not read is the kernel's to judge. */
	if (fd < 0)
		return 0;
	n = read(fd, head, sizeof(head) - 1);
	head[n > 0 ? n : 0] = '\0';
	if (n >= 4 && !memcmp(head, ELFMAG, SELFMAG)) {
		ret = check_rights(fd, path);
		if (!ret)
			ret = check_elf(fd, path);
	} else if (n >= 2 && head[0] == '#' && head[1] == '!') {
		script_target(head + 2, next, size);
		ret = 1;
	}
	close(fd);
	return ret;
}

int target_check(const char *file, char *path, size_t size)
{
	char now[PATH_MAX], next[PATH_MAX];
	int err = look_up(file, path, size);
	int ret = 1;

	if (err == ENOENT || err == ENOTDIR) {
		fprintf(stderr, "faultline run: %s: there is no such program\n",
			file);
		return EXIT_NOT_FOUND;
	}
	if (err) {
		fprintf(stderr, "faultline run: %s: %s\n", path, strerror(err));
		return EXIT_CANNOT_RUN;
	}
	snprintf(now, sizeof(now), "%s", path);
	for (int i = 0; ret == 1 && i <= MAX_INTERPRETERS; i++) {
		ret = check_file(now, next, sizeof(next));
		/* An interpreter that is not there: execve will say so. */
		if (ret == 1 && look_up(next, now, sizeof(now)))
			ret = 0;
	}
	return ret == 1 ? 0 : ret;
}
