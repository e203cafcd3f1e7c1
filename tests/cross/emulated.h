/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * emulated.h - put before mem/arena.c by run.sh where qemu-user runs it.
 *
 * qemu-user refuses mremap(2) with an old size of zero, by which a file arena
 * gets its second view. Here shared anonymous memory is a memfd whose
 * descriptor is remembered, and the second view another mapping of it.
 */
#ifndef TESTS_CROSS_EMULATED_H
#define TESTS_CROSS_EMULATED_H

#include <sys/mman.h>
#include <unistd.h>

#include "base/sys.h"

static struct {
	char *base;
	size_t size;
	int fd;
} emulated_view[4];

static inline void *emulated_mmap(void *addr, size_t len, int prot, int flags,
				  int fd, int64_t off)
{
	const int both = MAP_SHARED | MAP_ANONYMOUS;
	char *p;

	if ((flags & both) != both)
		return sys_mmap(addr, len, prot, flags, fd, off);
	fd = memfd_create("arena", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)len) < 0)
		return err_ptr(-errno);
	p = sys_mmap(addr, len, prot, flags & ~MAP_ANONYMOUS, fd, 0);
	for (size_t i = 0; i < ARRAY_SIZE(emulated_view) && !is_err(p); i++) {
		if (emulated_view[i].base && emulated_view[i].base != p)
			continue;
		emulated_view[i].base = p;
		emulated_view[i].size = len;
		emulated_view[i].fd = fd;
		return p;
	}
	close(fd);
	return err_ptr(-ENOMEM);
}

static inline void *emulated_mremap(void *old, size_t old_len, size_t new_len,
				    int flags, void *at)
{
	if (old_len != 0)
		return sys_mremap(old, old_len, new_len, flags, at);
	for (size_t i = 0; i < ARRAY_SIZE(emulated_view); i++) {
		size_t off = (size_t)((char *)old - emulated_view[i].base);

		if (!emulated_view[i].base || off >= emulated_view[i].size)
			continue;
		return sys_mmap(at, new_len, PROT_NONE,
				MAP_SHARED | MAP_NORESERVE |
					(flags & MREMAP_FIXED ? MAP_FIXED : 0),
				emulated_view[i].fd, (int64_t)off);
	}
	return err_ptr(-EFAULT);
}

#define sys_mmap emulated_mmap
#define sys_mremap emulated_mremap

#endif
