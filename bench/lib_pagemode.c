// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * lib_pagemode.c - the kernel's own ways to the pages of a file: mmap with its
 * hints, and pread with and without the page cache.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "page.h"

static const struct page_method *const methods[] = {
	&page_mmap,      &page_mmap_random, &page_mmap_seq, &page_pread,
	&page_direct,    &page_uring,       &page_uring_qd, &page_sigbus,
	&page_handler,   &page_fl_signal,   &page_fl_hint,  &page_fl_service,
	&page_fl_hybrid,
};

#define N_METHODS (sizeof(methods) / sizeof(methods[0]))

const struct page_method *page_method_at(unsigned int i)
{
	return i < N_METHODS ? methods[i] : NULL;
}

const struct page_method *page_method_find(const char *name)
{
	unsigned int i;

	for (i = 0; i < N_METHODS; i++)
		if (!strcmp(methods[i]->name, name))
			return methods[i];
	return NULL;
}

int page_open(const struct page_run *r, int flags)
{
	int fd = open(r->job.file->path, O_RDONLY | O_CLOEXEC | flags);

	return fd < 0 ? -errno : fd;
}

/* ------------------------------------------------------------------------
 * Mapped
 */
void page_map_random(struct page_thread *t)
{
	const unsigned char *base = t->run->base;
	unsigned int word;
	uint64_t page;

	while (!page_stopped(t)) {
		page = page_pick(t, &word);
		page_judge(t, page, word,
			   *(const volatile uint64_t *)(base + page * B_PAGE +
							word * 8));
	}
}

void page_map_seq(struct page_thread *t)
{
	const unsigned char *base = t->run->base;
	uint64_t page;

	for (page = t->first; page < t->end; page++) {
		if (!page_right(base + page * B_PAGE, t->run->id, page))
			t->wrong++;
		t->ops++;
	}
}

static int map_start(struct page_run *r, int advice)
{
	void *p = mmap(NULL, r->job.span, PROT_READ, MAP_SHARED, r->fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	if (advice != MADV_NORMAL && madvise(p, r->job.span, advice))
		return -errno;
	r->base = p;
	return 0;
}

static int mmap_start(struct page_run *r)
{
	return map_start(r, MADV_NORMAL);
}

static int mmap_random_start(struct page_run *r)
{
	return map_start(r, MADV_RANDOM);
}

static int mmap_seq_start(struct page_run *r)
{
	return map_start(r, MADV_SEQUENTIAL);
}

static void map_stop(struct page_run *r)
{
	munmap(r->base, r->job.span);
}

const struct page_method page_mmap = {
	.name = "mmap",
	.what = "mmap(2) without a hint",
	.flags = PAGE_MAPPED,
	.start = mmap_start,
	.stop = map_stop,
	.random = page_map_random,
	.seq = page_map_seq,
};

const struct page_method page_mmap_random = {
	.name = "mmap-random",
	.what = "mmap(2) with MADV_RANDOM",
	.flags = PAGE_MAPPED,
	.start = mmap_random_start,
	.stop = map_stop,
	.random = page_map_random,
	.seq = page_map_seq,
};

const struct page_method page_mmap_seq = {
	.name = "mmap-seq",
	.what = "mmap(2) with MADV_SEQUENTIAL",
	.flags = PAGE_MAPPED,
	.start = mmap_seq_start,
	.stop = map_stop,
	.random = page_map_random,
	.seq = page_map_seq,
};

/* ------------------------------------------------------------------------
 * pread
 */
#define BUFFERED_CHUNK (128u << 10)

static int pread_start(struct page_run *r)
{
	posix_fadvise(r->fd, 0, 0,
		      r->job.work == WORK_SEQ ? POSIX_FADV_SEQUENTIAL :
						POSIX_FADV_RANDOM);
	return 0;
}

static int direct_start(struct page_run *r)
{
	int fd = page_open(r, O_DIRECT);

	if (fd < 0)
		return fd;
	close(r->fd);
	r->fd = fd;
	return 0;
}

static void pread_random(struct page_thread *t)
{
	unsigned int word;
	uint64_t page, got;

	while (!page_stopped(t)) {
		page = page_pick(t, &word);
		if (pread(t->run->fd, t->buf, B_PAGE, (off_t)(page * B_PAGE)) !=
		    B_PAGE)
			b_die("pread: %s", strerror(errno));
		memcpy(&got, t->buf + word * 8, 8);
		page_judge(t, page, word, got);
	}
}

static void read_seq(struct page_thread *t, size_t chunk)
{
	uint64_t page = t->first, k;
	ssize_t n;

	while (page < t->end) {
		k = t->end - page;
		if (k > chunk / B_PAGE)
			k = chunk / B_PAGE;
		n = pread(t->run->fd, t->buf, k * B_PAGE,
			  (off_t)(page * B_PAGE));
		if (n < (ssize_t)B_PAGE)
			b_die("pread: %s", strerror(errno));
		for (k = 0; k < (uint64_t)n / B_PAGE; k++, page++)
			if (!page_right(t->buf + k * B_PAGE, t->run->id, page))
				t->wrong++;
		t->ops += k;
	}
}

static void pread_seq(struct page_thread *t)
{
	read_seq(t, BUFFERED_CHUNK);
}

static void direct_seq(struct page_thread *t)
{
	read_seq(t, PAGE_BUF);
}

const struct page_method page_pread = {
	.name = "pread",
	.what = "pread(2) through the page cache, with the fadvise that fits",
	.start = pread_start,
	.random = pread_random,
	.seq = pread_seq,
};

const struct page_method page_direct = {
	.name = "direct",
	.what = "pread(2) with O_DIRECT; 1 MiB at a time when sequential",
	.start = direct_start,
	.random = pread_random,
	.seq = direct_seq,
};
