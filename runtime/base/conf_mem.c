// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * conf_mem.c - the memory budget: what "auto" means on this machine and in
 * this cgroup.
 */
#include <fcntl.h>
#include <linux/sysinfo.h>

#include "base/conf.h"
#include "base/file.h"
#include "base/sys.h"
#include "base/ban.h"

#define CG_PATH_MAX 512

static uint64_t ram_size(void)
{
	struct sysinfo si = { 0 };

	if (sys_call1(__NR_sysinfo, &si))
		return 0;
	return (uint64_t)si.totalram * (si.mem_unit ? si.mem_unit : 1);
}

/* A limit file holds a number or "max"; what cannot be read limits nothing. */
static uint64_t read_limit(const char *root, const char *path, size_t len,
			   const char *file)
{
	char name[CG_PATH_MAX + 64], buf[32];
	const char *end;
	uint64_t v;
	size_t n;

	n = log_fmt(name, sizeof(name), "%s", root);
	__builtin_memcpy(name + n, path, len);
	log_fmt(name + n + len, sizeof(name) - n - len, "/%s", file);
	if (file_read(AT_FDCWD, name, buf, sizeof(buf)) <= 0)
		return UINT64_MAX;
	v = text_u64(buf, &end);
	return end == buf ? UINT64_MAX : v;
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * The tightest limit from the cgroup up to the root of what is mounted. In a
 * container the path may name directories outside of it; those are skipped and
 * the mount's own root, which is the container's group, still counts.
 */
static uint64_t walk_up(const char *path, size_t len, bool v2)
{
	uint64_t limit = UINT64_MAX;

	if (len > CG_PATH_MAX)
		return limit;
	for (;;) {
		while (len && path[len - 1] == '/')
			len--;
		if (v2) {
			limit = lesser(limit, read_limit("/sys/fs/cgroup", path,
							 len, "memory.max"));
			limit = lesser(limit, read_limit("/sys/fs/cgroup", path,
							 len, "memory.high"));
		} else {
			limit = lesser(limit,
				       read_limit("/sys/fs/cgroup/memory", path,
						  len,
						  "memory.limit_in_bytes"));
		}
		if (!len)
			return limit;
		while (len && path[len - 1] != '/')
			len--;
	}
}

/* Does a line's controller list, up to ':', hold "memory"? */
static bool has_memory(const char *s)
{
	while (*s && *s != ':') {
		const char *rest = text_after(s, "memory");

		if (rest && (*rest == ',' || *rest == ':'))
			return true;
		while (*s && *s != ':' && *s != ',')
			s++;
		if (*s == ',')
			s++;
	}
	return false;
}

static uint64_t cgroup_limit(void)
{
	char buf[2048];
	uint64_t limit = UINT64_MAX;
	char *line = buf;

	/* Lines are "hierarchy:controllers:path"; version 2 is "0::path". */
	if (file_read(AT_FDCWD, "/proc/self/cgroup", buf, sizeof(buf)) <= 0)
		return limit;
	while (*line) {
		const char *ctl = line;
		const char *path;
		size_t len = 0;
		bool v2 = text_after(line, "0::") != NULL;

		while (*ctl && *ctl != ':' && *ctl != '\n')
			ctl++;
		path = *ctl == ':' ? ctl + 1 : ctl;
		while (*path && *path != ':' && *path != '\n')
			path++;
		path = *path == ':' ? path + 1 : path;
		while (path[len] && path[len] != '\n')
			len++;
		if (v2 || (*ctl == ':' && has_memory(ctl + 1)))
			limit = lesser(limit, walk_up(path, len, v2));
		line += path + len - line;
		if (*line == '\n')
			line++;
	}
	return limit;
}

uint64_t conf_budget(const struct conf *c)
{
	uint64_t all;

	if (c->mem)
		return c->mem;
	all = lesser(ram_size(), cgroup_limit());
	return (all / 4) & FL_PAGE_MASK;
}
