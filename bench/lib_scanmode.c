// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * lib_scanmode.c - the ways of getting at a file's bytes.
 *
 * Every mode makes the whole file available before it is looked at, as its
 * user would not know how much of it will be needed; only clam reads by
 * windows, as ClamAV does. The caller has opened and fstat()ed the file and
 * closes it afterwards: what differs between modes is the mapping alone.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "scan.h"

#define NEEDLE 0xc1 /* in no UTF-8 text */
#define WINDOW ((size_t)128 << 10)

static size_t page_up(size_t n)
{
	return (n + B_PAGE - 1) & ~(size_t)(B_PAGE - 1);
}

/* A hash that does not depend on where a file is cut into windows. */
static uint64_t mix(uint64_t h, uint64_t w)
{
	h = (h ^ w) * 0x9fb21c651e98df25ull;
	return h ^ (h >> 29);
}

static void verify(struct scan_ctx *c, const unsigned char *p, size_t n)
{
	uint64_t h = c->sum, w;
	size_t i;

	for (i = 0; i + 8 <= n; i += 8) {
		memcpy(&w, p + i, 8);
		h = mix(h, w);
	}
	for (; i < n; i++)
		h = mix(h, p[i] | 0x100u);
	c->sum = h;
}

static void touch(struct scan_ctx *c, const unsigned char *p, size_t n)
{
	const unsigned char *end;

	if (c->touch == TOUCH_VERIFY) {
		verify(c, p, n);
		return;
	}
	if (c->touch == TOUCH_ONE && n > B_PAGE)
		n = B_PAGE;
	for (end = p + n; p < end; p++) {
		p = memchr(p, NEEDLE, (size_t)(end - p));
		if (!p)
			break;
		c->hits++;
	}
}

/* What mmap promises about the rest of the last page. */
static void check_tail(struct scan_ctx *c, const unsigned char *p, size_t len)
{
	size_t i;

	if (c->touch != TOUCH_VERIFY)
		return;
	for (i = len; i < page_up(len); i++)
		if (p[i])
			c->dirty_tail = true;
}

/* Read exactly @n bytes; a file that has shrunk is an error. */
static int read_all(int fd, void *buf, size_t n, size_t off)
{
	size_t done = 0;
	ssize_t k;

	while (done < n) {
		k = pread(fd, (char *)buf + done, n - done,
			  (off_t)(off + done));
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return k ? -errno : -EIO;
		done += (size_t)k;
	}
	return 0;
}

static int scan_kernel(struct scan_ctx *c, int fd, size_t len, int flags)
{
	void *p = mmap(NULL, len, PROT_READ, MAP_PRIVATE | flags, fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	touch(c, p, len);
	check_tail(c, p, len);
	return munmap(p, len) ? -errno : 0;
}

static int scan_mmap(struct scan_ctx *c, int fd, size_t len)
{
	return scan_kernel(c, fd, len, 0);
}

static int scan_populate(struct scan_ctx *c, int fd, size_t len)
{
	return scan_kernel(c, fd, len, MAP_POPULATE);
}

static int scan_pread(struct scan_ctx *c, int fd, size_t len)
{
	int err;

	if (len > c->cap) {
		free(c->buf);
		c->cap = page_up(len);
		c->buf = aligned_alloc(B_PAGE, c->cap);
		if (!c->buf)
			b_die("out of memory");
	}
	err = read_all(fd, c->buf, len, 0);
	if (!err)
		touch(c, c->buf, len);
	return err;
}

static int scan_malloc(struct scan_ctx *c, int fd, size_t len)
{
	unsigned char *p = malloc(len);
	int err;

	if (!p)
		return -ENOMEM;
	err = read_all(fd, p, len, 0);
	if (!err)
		touch(c, p, len);
	free(p);
	return err;
}

static int scan_faultline(struct scan_ctx *c, int fd, size_t len)
{
	void *p = fl_pager_mmap(c->pager, NULL, len, PROT_READ, MAP_PRIVATE, fd,
				0);

	if (FL_IS_ERR(p))
		return FL_PTR_ERR(p);
	touch(c, p, len);
	check_tail(c, p, len);
	return fl_pager_munmap(c->pager, p, len);
}

static int scan_map_file(struct scan_ctx *c, int fd, size_t len)
{
	void *p = fl_pager_map_file(c->pager, fd, 0, len);

	if (FL_IS_ERR(p))
		return FL_PTR_ERR(p);
	touch(c, p, len);
	check_tail(c, p, len);
	return fl_pager_munmap(c->pager, p, len);
}

/*
 * ClamAV's fmap: by windows, a byte of each page is read first ("ping"), which
 * gives the page a frame, then the window is read into it.
 */
static int clam_windows(struct scan_ctx *c, int fd, unsigned char *p,
			size_t len)
{
	size_t want = c->touch == TOUCH_ONE && len > B_PAGE ? B_PAGE : len;
	size_t off, n, i;
	unsigned char any = 0;
	int err;

	for (off = 0; off < want; off += WINDOW) {
		n = want - off < WINDOW ? want - off : WINDOW;
		for (i = 0; i < n; i += B_PAGE)
			any |= ((volatile unsigned char *)p)[off + i];
		if (any)
			c->dirty_tail = true;
		err = read_all(fd, p + off, n, off);
		if (err)
			return err;
		touch(c, p + off, n);
	}
	check_tail(c, p, len);
	return 0;
}

static int scan_clam(struct scan_ctx *c, int fd, size_t len)
{
	void *p = mmap(NULL, page_up(len), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int err;

	if (p == MAP_FAILED)
		return -errno;
	err = clam_windows(c, fd, p, len);
	return munmap(p, page_up(len)) ? -errno : err;
}

static int scan_clam_faultline(struct scan_ctx *c, int fd, size_t len)
{
	void *p = fl_pager_mmap(c->pager, NULL, page_up(len),
				PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int err, ret;

	if (FL_IS_ERR(p))
		return FL_PTR_ERR(p);
	err = clam_windows(c, fd, p, len);
	ret = fl_pager_munmap(c->pager, p, page_up(len));
	return ret < 0 ? ret : err;
}

const struct scan_mode scan_modes[] = {
	{ "mmap", "the kernel's mmap, scan, munmap", "mmap", false, scan_mmap },
	{ "populate", "the same with MAP_POPULATE", "mmap", false,
	  scan_populate },
	{ "pread", "pread into one page-aligned buffer a thread, reused",
	  "mmap", false, scan_pread },
	{ "malloc", "malloc, pread, free", "mmap", false, scan_malloc },
	{ "faultline", "fl_pager_mmap, as a preloaded program gets it", "mmap",
	  true, scan_faultline },
	{ "map_file", "fl_pager_map_file, for a program that links it", "mmap",
	  true, scan_map_file },
	{ "clam", "ClamAV: anonymous mmap, touch pages, pread, munmap", "clam",
	  false, scan_clam },
	{ "clam-fl", "the same through fl_pager_mmap", "clam", true,
	  scan_clam_faultline },
};

const unsigned int scan_n_modes = sizeof(scan_modes) / sizeof(scan_modes[0]);

int scan_mode_find(const char *name)
{
	unsigned int i;

	for (i = 0; i < scan_n_modes; i++)
		if (!strcmp(scan_modes[i].name, name))
			return (int)i;
	return -1;
}
