// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * wrap_path.c - file names in demand regions, as in a mapped list of files.
 *
 * A call that fails with EFAULT has done nothing, so it is made again once the
 * name is there. That costs calls that work nothing.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "next.h"
#include "shim.h"

/* The name is in a demand region, and all of it is there now. */
FL_COLD static bool fetched(const char *path)
{
	const char *page, *end;
	size_t n = 0;

	if (errno != EFAULT || !fl_touch(path, 1, 0))
		return false;
	while (n < PATH_MAX) {
		page = (const char *)((uintptr_t)(path + n) & FL_PAGE_MASK);
		end = page + FL_PAGE_SIZE;
		if (memchr(path + n, 0, (size_t)(end - (path + n))))
			break;
		n = (size_t)(end - path);
		if (!fl_touch(end, 1, 0))
			break;
	}
	return true;
}

/* Two names: both are fetched. */
static bool fetched_any(const char *a, const char *b)
{
	int err = errno;
	bool any = fetched(a);

	errno = err;
	return fetched(b) || any;
}

#define AGAIN(ret, fail, fetch, call)                   \
	do {                                            \
		ret = call;                             \
		if (unlikely(ret == (fail)) && (fetch)) \
			ret = call;                     \
	} while (0)

#define NAMED(type, name, fail, fetch, params, args)      \
	FL_API type name params                           \
	{                                                 \
		type ret;                                 \
                                                          \
		AGAIN(ret, fail, fetch, next(name) args); \
		return ret;                               \
	}

static bool has_mode(int flags)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
}

#define OPEN(name, params, flags, args)                         \
	FL_API int name params                                  \
	{                                                       \
		mode_t mode = 0;                                \
		int ret;                                        \
                                                                \
		if (has_mode(flags)) {                          \
			va_list ap;                             \
                                                                \
			va_start(ap, flags);                    \
			mode = va_arg(ap, mode_t);              \
			va_end(ap);                             \
		}                                               \
		AGAIN(ret, -1, fetched(path), next(name) args); \
		return ret;                                     \
	}
OPEN(open, (const char *path, int flags, ...), flags, (path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), flags, (path, flags, mode))
OPEN(openat, (int dir, const char *path, int flags, ...), flags,
     (dir, path, flags, mode))
OPEN(openat64, (int dir, const char *path, int flags, ...), flags,
     (dir, path, flags, mode))

/* Those of _FORTIFY_SOURCE. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dir, const char *path, int flags);
int __openat64_2(int dir, const char *path, int flags);
NAMED(int, __open_2, -1, fetched(path), (const char *path, int flags),
      (path, flags))
NAMED(int, __open64_2, -1, fetched(path), (const char *path, int flags),
      (path, flags))
NAMED(int, __openat_2, -1, fetched(path),
      (int dir, const char *path, int flags), (dir, path, flags))
NAMED(int, __openat64_2, -1, fetched(path),
      (int dir, const char *path, int flags), (dir, path, flags))

NAMED(FILE *, fopen, NULL, fetched(path), (const char *path, const char *mode),
      (path, mode))
NAMED(FILE *, fopen64, NULL, fetched(path),
      (const char *path, const char *mode), (path, mode))
NAMED(DIR *, opendir, NULL, fetched(path), (const char *path), (path))
NAMED(int, stat, -1, fetched(path), (const char *path, struct stat *st),
      (path, st))
NAMED(int, stat64, -1, fetched(path), (const char *path, struct stat64 *st),
      (path, st))
NAMED(int, lstat, -1, fetched(path), (const char *path, struct stat *st),
      (path, st))
NAMED(int, lstat64, -1, fetched(path), (const char *path, struct stat64 *st),
      (path, st))
NAMED(int, fstatat, -1, fetched(path),
      (int dir, const char *path, struct stat *st, int flags),
      (dir, path, st, flags))
NAMED(int, fstatat64, -1, fetched(path),
      (int dir, const char *path, struct stat64 *st, int flags),
      (dir, path, st, flags))
NAMED(int, statx, -1, fetched(path),
      (int dir, const char *path, int flags, unsigned int mask,
       struct statx *st),
      (dir, path, flags, mask, st))
NAMED(int, access, -1, fetched(path), (const char *path, int mode),
      (path, mode))
NAMED(int, faccessat, -1, fetched(path),
      (int dir, const char *path, int mode, int flags),
      (dir, path, mode, flags))
NAMED(ssize_t, readlink, -1, fetched(path),
      (const char *path, char *buf, size_t n), (path, buf, n))
NAMED(ssize_t, readlinkat, -1, fetched(path),
      (int dir, const char *path, char *buf, size_t n), (dir, path, buf, n))
NAMED(int, unlink, -1, fetched(path), (const char *path), (path))
NAMED(int, unlinkat, -1, fetched(path), (int dir, const char *path, int flags),
      (dir, path, flags))
NAMED(int, mkdir, -1, fetched(path), (const char *path, mode_t mode),
      (path, mode))
NAMED(int, mkdirat, -1, fetched(path), (int dir, const char *path, mode_t mode),
      (dir, path, mode))
NAMED(int, rmdir, -1, fetched(path), (const char *path), (path))
NAMED(int, chdir, -1, fetched(path), (const char *path), (path))
NAMED(int, rename, -1, fetched_any(a, b), (const char *a, const char *b),
      (a, b))
NAMED(int, renameat, -1, fetched_any(a, b),
      (int ad, const char *a, int bd, const char *b), (ad, a, bd, b))
