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

/* What the checks need of an ELF file. */
struct elf {
	int fd;
	ElfW(Ehdr) h;
	char interp[PATH_MAX]; /* "" when there is none */
	ElfW(Phdr) dynamic;    /* p_filesz is 0 when there is none */
};

static bool read_phdr(const struct elf *e, unsigned int i, ElfW(Phdr) * ph)
{
	off_t at = (off_t)(e->h.e_phoff + (size_t)i * e->h.e_phentsize);

	return pread(e->fd, ph, sizeof(*ph), at) == sizeof(*ph);
}

static bool read_phdrs(struct elf *e)
{
	ElfW(Phdr) ph;
	ssize_t n;

	e->interp[0] = '\0';
	memset(&e->dynamic, 0, sizeof(e->dynamic));
	for (unsigned int i = 0; i < e->h.e_phnum; i++) {
		if (!read_phdr(e, i, &ph))
			return false;
		if (ph.p_type == PT_DYNAMIC)
			e->dynamic = ph;
		if (ph.p_type != PT_INTERP)
			continue;
		if (ph.p_filesz >= sizeof(e->interp))
			return false;
		n = pread(e->fd, e->interp, ph.p_filesz, (off_t)ph.p_offset);
		if (n <= 0)
			return false;
		e->interp[n] = '\0';
	}
	return true;
}

/* Where a virtual address of the file is in it, or 0. */
static off_t file_offset(const struct elf *e, ElfW(Addr) addr)
{
	ElfW(Phdr) ph;

	for (unsigned int i = 0; i < e->h.e_phnum && read_phdr(e, i, &ph); i++)
		if (ph.p_type == PT_LOAD && addr >= ph.p_vaddr &&
		    addr - ph.p_vaddr < ph.p_filesz)
			return (off_t)(addr - ph.p_vaddr + ph.p_offset);
	return 0;
}

static bool read_dyn(const struct elf *e, size_t i, ElfW(Dyn) * d)
{
	off_t at = (off_t)(e->dynamic.p_offset + i * sizeof(*d));

	return (i + 1) * sizeof(*d) <= e->dynamic.p_filesz &&
	       pread(e->fd, d, sizeof(*d), at) == sizeof(*d) &&
	       d->d_tag != DT_NULL;
}

/* Is a library whose name begins with @prefix linked to? */
static bool needs(const struct elf *e, const char *prefix)
{
	char name[64];
	off_t names = 0;
	ElfW(Dyn) d;

	for (size_t i = 0; read_dyn(e, i, &d); i++)
		if (d.d_tag == DT_STRTAB)
			names = file_offset(e, d.d_un.d_ptr);
	for (size_t i = 0; names && read_dyn(e, i, &d); i++) {
		ssize_t n;

		if (d.d_tag != DT_NEEDED)
			continue;
		n = pread(e->fd, name, sizeof(name) - 1,
			  names + (off_t)d.d_un.d_val);
		name[n > 0 ? n : 0] = '\0';
		if (!strncmp(name, prefix, strlen(prefix)))
			return true;
	}
	return false;
}

/* ld.so as the program: it has no interpreter, and does load the preload. */
static bool is_loader(const char *path)
{
	const char *base = strrchr(path, '/');

	base = base ? base + 1 : path;
	return !strncmp(base, "ld-linux", 8) || !strncmp(base, "ld.so", 5) ||
	       !strncmp(base, "ld64.so", 7);
}

static int check_machine(const struct elf *e, const char *path)
{
	ElfW(Ehdr) own;
	bool narrow = e->h.e_ident[EI_CLASS] == ELFCLASS32;

	if (!own_header(&own))
		return 0;
	if (e->h.e_ident[EI_DATA] != own.e_ident[EI_DATA])
		return refuse(path, "is for a machine of the other byte order");
	if (e->h.e_machine != own.e_machine ||
	    e->h.e_ident[EI_CLASS] != own.e_ident[EI_CLASS])
		return refuse(path,
			      "is a %d-bit %s program; the preload is for "
			      "%d-bit %s",
			      narrow ? 32 : 64, machine_name(e->h.e_machine),
			      (int)sizeof(long) * 8,
			      machine_name(own.e_machine));
	return 0;
}

static int check_elf(int fd, const char *path)
{
	struct elf e = { .fd = fd };
	int ret;

	if (pread(fd, &e.h, sizeof(e.h), 0) != sizeof(e.h))
		return refuse(path, "has a damaged ELF header");
	ret = check_machine(&e, path);
	if (ret)
		return ret;
	if (!read_phdrs(&e))
		return refuse(path, "has damaged ELF program headers");
	if (!e.interp[0] && !is_loader(path))
		return refuse(path, "is statically linked: there is no dynamic "
				    "linker that would load the preload");
	if (strstr(e.interp, "/ld-musl"))
		return refuse(path, "uses musl libc; the preload needs glibc");
	if (needs(&e, "libasan.so") || needs(&e, "libclang_rt.asan"))
		return refuse(path, "is built with AddressSanitizer, whose "
				    "runtime bears no preload before it");
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
