// SPDX-License-Identifier: LGPL-2.1-or-later
/* Reads the table of a file that may be anything. */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "faultline-zstd.h"
#include "seekable.h"

/* All of it, or -EINVAL at the end of the file. */
static int read_at(int fd, void *buf, size_t len, uint64_t off)
{
	size_t got = 0;

	while (got < len) {
		ssize_t r = pread(fd, (char *)buf + got, len - got,
				  (off_t)(off + got));

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			return -EINVAL;
		got += (size_t)r;
	}
	return 0;
}

/* Where the entries are. */
struct where {
	int fd;
	uint64_t entries; /* offset of the first */
	uint64_t frames;  /* end of the frames, where the table begins */
	uint32_t nr;
	uint32_t size; /* of an entry */
};

static int locate(struct where *w, struct table *t)
{
	unsigned char b[FOOTER_SIZE];
	struct stat st;
	uint64_t bytes, size;
	int ret;

	if (fstat(w->fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ESPIPE;
	size = (uint64_t)st.st_size;
	if (size < HEADER_SIZE + FOOTER_SIZE)
		return -EINVAL;
	ret = read_at(w->fd, b, FOOTER_SIZE, size - FOOTER_SIZE);
	if (ret)
		return ret;
	w->nr = get32(b);
	if (get32(b + 5) != SEEKABLE_MAGIC || b[4] & FLAGS_RESERVED ||
	    w->nr > FRAMES_MAX)
		return -EINVAL;
	t->checksums = b[4] & FLAG_CHECKSUM;
	w->size = t->checksums ? 12 : 8;
	bytes = (uint64_t)w->nr * w->size + FOOTER_SIZE;
	if (bytes + HEADER_SIZE > size)
		return -EINVAL;
	w->frames = size - bytes - HEADER_SIZE;
	w->entries = w->frames + HEADER_SIZE;
	ret = read_at(w->fd, b, HEADER_SIZE, w->frames);
	if (ret)
		return ret;
	if (get32(b) != SKIPPABLE_MAGIC || get32(b + 4) != bytes)
		return -EINVAL;
	return 0;
}

/*
 * Accounts one entry; a frame without plain bytes is only passed over. The
 * array grows with what has been found, not with what the file claims.
 */
static int add(struct table *t, const struct where *w, const unsigned char *e,
	       uint64_t *packed_off, uint32_t *room)
{
	uint32_t packed = get32(e), plain = get32(e + 4);
	uint64_t off = *packed_off;

	if (packed > w->frames - off)
		return -EINVAL;
	*packed_off += packed;
	if (plain == 0)
		return 0;
	if (plain > FL_ZSTD_FRAME_MAX)
		return -EFBIG;
	if (packed == 0 || packed > ZSTD_compressBound(plain) + 64)
		return -EINVAL;
	if (t->nr == *room) {
		uint32_t n = *room ? *room * 2 : 64;
		void *p = realloc(t->frame, n * sizeof(*t->frame));

		if (!p)
			return -ENOMEM;
		t->frame = p;
		*room = n;
	}
	t->frame[t->nr++] = (struct frame){
		.plain_off = t->plain,
		.packed_off = off,
		.plain = plain,
		.packed = packed,
		.checksum = t->checksums ? get32(e + 8) : 0,
	};
	t->plain += plain;
	if (plain > t->plain_max)
		t->plain_max = plain;
	if (packed > t->packed_max)
		t->packed_max = packed;
	return 0;
}

int table_read(struct table *t, int fd)
{
	struct where w = { .fd = fd };
	unsigned char buf[12 * 1024];
	uint64_t packed_off = 0;
	uint32_t room = 0, done = 0;
	int ret;

	*t = (struct table){ .frame = NULL };
	ret = locate(&w, t);
	while (!ret && done < w.nr) {
		uint32_t n = w.nr - done < 1024 ? w.nr - done : 1024;

		ret = read_at(fd, buf, (size_t)n * w.size,
			      w.entries + (uint64_t)done * w.size);
		for (uint32_t i = 0; !ret && i < n; i++)
			ret = add(t, &w, buf + (size_t)i * w.size, &packed_off,
				  &room);
		done += n;
	}
	if (ret)
		table_free(t);
	return ret;
}

void table_free(struct table *t)
{
	free(t->frame);
	t->frame = NULL;
}

uint32_t table_find(const struct table *t, uint64_t off)
{
	uint32_t lo = 0, hi = t->nr;

	/* frame[lo].plain_off <= off < frame[hi].plain_off */
	while (hi - lo > 1) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (t->frame[mid].plain_off <= off)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}
