// SPDX-License-Identifier: LGPL-2.1-or-later
/* lib_pagefile.c - the file of self-describing pages that bench_page reads. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "page.h"

static uint64_t mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9u;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static uint64_t plain_word(uint64_t id, uint64_t page, unsigned int word)
{
	uint64_t r = mix(id + page * 0x9e3779b97f4a7c15u + word);

	return word & 16 ? mix(r & 63) & 0x7f7f7f7f7f7f7f7fu : r;
}

uint64_t page_word(uint64_t id, uint64_t page, unsigned int word)
{
	uint64_t sum = 0;
	unsigned int i;

	if (word > 2)
		return plain_word(id, page, word);
	if (word < 2)
		return word ? id : page;
	for (i = 1; i < PAGE_LINES; i++)
		sum += plain_word(id, page, i * 8 + 5);
	return sum;
}

static void name_device(struct page_file *f)
{
	char link[64], to[256];
	struct stat st;
	ssize_t n;

	strcpy(f->dev, "?");
	if (stat(f->path, &st))
		return;
	snprintf(link, sizeof(link), "/sys/dev/block/%u:%u", major(st.st_dev),
		 minor(st.st_dev));
	n = readlink(link, to, sizeof(to) - 1);
	if (n <= 0)
		return;
	to[n] = '\0';
	snprintf(f->dev, sizeof(f->dev), "%.31s", strrchr(to, '/') + 1);
}

static bool already(const struct page_file *f)
{
	unsigned char page[B_PAGE];
	uint64_t at[3] = { 0, f->bytes / B_PAGE / 2, f->bytes / B_PAGE - 1 };
	struct stat st;
	bool ok = true;
	int fd = open(f->path, O_RDONLY | O_CLOEXEC), i;

	if (fd < 0)
		return false;
	if (fstat(fd, &st) || (size_t)st.st_size != f->bytes)
		ok = false;
	for (i = 0; ok && i < 3; i++)
		ok = pread(fd, page, B_PAGE, (off_t)(at[i] * B_PAGE)) ==
			     B_PAGE &&
		     page_right(page, f->id, at[i]);
	close(fd);
	return ok;
}

static void write_all(int fd, const char *path, const unsigned char *buf,
		      size_t len)
{
	ssize_t n;

	for (; len; buf += n, len -= (size_t)n) {
		n = write(fd, buf, len);
		if (n < 0)
			b_die("%s: %s", path, strerror(errno));
	}
}

void page_file_make(struct page_file *f, const char *dir, size_t bytes)
{
	size_t chunk = 256 * B_PAGE, i, w;
	uint64_t *buf, page = 0;
	int fd;

	f->bytes = bytes;
	f->id = mix(bytes) | 1;
	snprintf(f->path, sizeof(f->path), "%s/pages-%zuM", dir, bytes >> 20);
	if (!already(f)) {
		fd = open(f->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC,
			  0666);
		buf = malloc(chunk);
		if (fd < 0 || !buf)
			b_die("%s: %s", f->path, strerror(errno));
		for (; page < bytes / B_PAGE; page += chunk / B_PAGE) {
			for (i = 0; i < chunk / B_PAGE; i++)
				for (w = 0; w < PAGE_WORDS; w++)
					buf[i * PAGE_WORDS + w] =
						page_word(f->id, page + i,
							  (unsigned int)w);
			i = bytes - page * B_PAGE;
			write_all(fd, f->path, (unsigned char *)buf,
				  i < chunk ? i : chunk);
		}
		if (fsync(fd) || close(fd))
			b_die("%s: %s", f->path, strerror(errno));
		free(buf);
	}
	name_device(f);
}

void page_file_cool(const struct page_file *f)
{
	int fd = open(f->path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		b_die("%s: %s", f->path, strerror(errno));
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
}

/*
 * A page at a time and without read-ahead: large folios would be mapped by one
 * fault.
 */
void page_file_warm(const struct page_file *f, size_t bytes)
{
	unsigned char buf[B_PAGE];
	int fd = open(f->path, O_RDONLY | O_CLOEXEC);
	size_t at;

	if (fd < 0)
		b_die("%s: %s", f->path, strerror(errno));
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	for (at = 0; at < bytes; at += sizeof(buf))
		if (pread(fd, buf, sizeof(buf), (off_t)at) <= 0)
			b_die("%s: %s", f->path, strerror(errno));
	close(fd);
}

/* ------------------------------------------------------------------------
 * The memory limit: control groups, version 1 or 2, where they are mounted.
 */
static size_t read_limit(const char *path)
{
	FILE *f = fopen(path, "re");
	unsigned long long v = 0;

	if (f && fscanf(f, "%llu", &v) != 1)
		v = 0; /* "max" */
	if (f)
		fclose(f);
	return v >= (1ull << 60) ? 0 : (size_t)v;
}

size_t page_memory_limit(void)
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	char line[512], path[700], *at;
	size_t limit = 0, n;

	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		at = strchr(line, ':');
		if (!at)
			continue;
		if (!strncmp(at, ":memory:", 8))
			snprintf(path, sizeof(path),
				 "/sys/fs/cgroup/memory%s/"
				 "memory.limit_in_bytes",
				 at + 8);
		else if (!strncmp(at, "::", 2))
			snprintf(path, sizeof(path),
				 "/sys/fs/cgroup%s/memory.max", at + 2);
		else
			continue;
		n = read_limit(path);
		if (n && (!limit || n < limit))
			limit = n;
	}
	if (f)
		fclose(f);
	return limit;
}
