/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * file.h - reading small files (/proc, /sys, options) by raw system calls.
 */
#ifndef FL_BASE_FILE_H
#define FL_BASE_FILE_H

#include "base/base.h"

/*
 * file_read - the first @size - 1 bytes of a file, always terminated.
 * @dirfd: what a relative @path is relative to, or AT_FDCWD.
 * Returns the number of bytes or -errno.
 */
long file_read(int dirfd, const char *path, char *buf, size_t size);

/* file_read_fd - the same from an open descriptor's position. */
long file_read_fd(int fd, char *buf, size_t size);

/* The few string functions needed; none calls libc. */
static inline bool text_eq(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

/* If @s begins with @prefix, what follows it; else NULL. */
static inline const char *text_after(const char *s, const char *prefix)
{
	while (*prefix)
		if (*s++ != *prefix++)
			return NULL;
	return s;
}

/* Decimal digits at @s; *@end is the first character after them. */
uint64_t text_u64(const char *s, const char **end);

/* The variable's value in @envp, or NULL. */
const char *env_find(char *const *envp, const char *name);

#endif
