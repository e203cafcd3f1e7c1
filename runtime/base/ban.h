/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ban.h - identifiers no runtime source may use; the last include of every .c
 * under runtime/ and of the shim's mapping paths.
 *
 * These calls are interposable, allocate, or take libc locks. On a mapping or
 * fault path they recurse into ourselves or deadlock. Use base/sys.h.
 */
#ifndef FL_BASE_BAN_H
#define FL_BASE_BAN_H

#pragma GCC poison malloc calloc realloc free strdup
#pragma GCC poison mmap mmap64 munmap mremap madvise mprotect mincore msync
#pragma GCC poison pread pread64 open openat
#pragma GCC poison printf fprintf sprintf snprintf vsnprintf puts perror
#pragma GCC poison exit abort getenv dlsym
#pragma GCC poison pthread_mutex_lock pthread_mutex_unlock

#endif
