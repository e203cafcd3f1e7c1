// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>

#include "base/file.h"
#include "base/sys.h"
#include "base/ban.h"

#define FILE_RETRIES 16

long file_read_fd(int fd, char *buf, size_t size)
{
	unsigned int retries = 0;
	size_t n = 0;
	long r;

	while (n + 1 < size) {
		r = sys_read(fd, buf + n, size - 1 - n);
		/* Bounded: a seccomp filter may answer so every time. */
		if (r == -EINTR && retries++ < FILE_RETRIES)
			continue;
		if (r < 0)
			return r;
		if (r == 0)
			break;
		n += (size_t)r;
	}
	buf[n] = '\0';
	return (long)n;
}

long file_read(int dirfd, const char *path, char *buf, size_t size)
{
	long fd = sys_openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY, 0);
	long r;

	if (fd < 0)
		return fd;
	r = file_read_fd((int)fd, buf, size);
	sys_close((int)fd);
	return r;
}

uint64_t text_u64(const char *s, const char **end)
{
	uint64_t v = 0;

	while (*s >= '0' && *s <= '9') {
		uint64_t d = (uint64_t)(*s - '0');

		if (v > (UINT64_MAX - d) / 10)
			v = UINT64_MAX;
		else
			v = v * 10 + d;
		s++;
	}
	*end = s;
	return v;
}

const char *env_find(char *const *envp, const char *name)
{
	for (; envp && *envp; envp++) {
		const char *rest = text_after(*envp, name);

		if (rest && *rest == '=')
			return rest + 1;
	}
	return NULL;
}
