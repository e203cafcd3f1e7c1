// SPDX-License-Identifier: LGPL-2.1-or-later
/* Writes the format. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <zstd.h>

#include "seekable.h"

struct packer {
	int in, out;
	int level;
	size_t frame;
	ZSTD_CCtx *ctx;
	unsigned char *plain, *packed;
	size_t packed_room;
	unsigned char *table; /* header, entries, room for the footer */
	uint32_t nr, room;
};

static int write_all(int fd, const void *buf, size_t len)
{
	const char *p = buf;

	while (len) {
		ssize_t r = write(fd, p, len);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		p += r;
		len -= (size_t)r;
	}
	return 0;
}

/* A whole frame, less at the end only. Bytes or -errno. */
static ssize_t read_plain(struct packer *p)
{
	size_t got = 0;

	while (got < p->frame) {
		ssize_t r = read(p->in, p->plain + got, p->frame - got);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			break;
		got += (size_t)r;
	}
	return (ssize_t)got;
}

static int note(struct packer *p, size_t packed, size_t plain)
{
	unsigned char *e;

	if (p->nr == FRAMES_MAX)
		return -EFBIG;
	if (p->nr == p->room) {
		uint32_t n = p->room ? p->room * 2 : 1024;
		void *t = realloc(p->table,
				  HEADER_SIZE + (size_t)n * 12 + FOOTER_SIZE);

		if (!t)
			return -ENOMEM;
		p->table = t;
		p->room = n;
	}
	e = p->table + HEADER_SIZE + (size_t)p->nr++ * 12;
	put32(e, (uint32_t)packed);
	put32(e + 4, (uint32_t)plain);
	put32(e + 8, (uint32_t)xxh64(p->plain, plain));
	return 0;
}

static int frames(struct packer *p)
{
	for (;;) {
		ssize_t n = read_plain(p);
		size_t packed;
		int ret;

		if (n <= 0)
			return (int)n;
		packed = ZSTD_compressCCtx(p->ctx, p->packed, p->packed_room,
					   p->plain, (size_t)n, p->level);
		if (ZSTD_isError(packed))
			return -EIO;
		ret = write_all(p->out, p->packed, packed);
		if (!ret)
			ret = note(p, packed, (size_t)n);
		if (ret)
			return ret;
	}
}

static int end(struct packer *p)
{
	unsigned char empty[HEADER_SIZE + FOOTER_SIZE];
	unsigned char *t = p->table ? p->table : empty;
	size_t entries = (size_t)p->nr * 12;
	unsigned char *footer = t + HEADER_SIZE + entries;

	put32(t, SKIPPABLE_MAGIC);
	put32(t + 4, (uint32_t)(entries + FOOTER_SIZE));
	put32(footer, p->nr);
	footer[4] = FLAG_CHECKSUM;
	put32(footer + 5, SEEKABLE_MAGIC);
	return write_all(p->out, t, HEADER_SIZE + entries + FOOTER_SIZE);
}

int pack(int in, int out, size_t frame, int level)
{
	struct packer p = {
		.in = in, .out = out, .level = level, .frame = frame
	};
	int ret = -ENOMEM;

	p.packed_room = ZSTD_compressBound(frame);
	p.ctx = ZSTD_createCCtx();
	p.plain = malloc(frame);
	p.packed = malloc(p.packed_room);
	if (p.ctx && p.plain && p.packed) {
		ret = frames(&p);
		if (!ret)
			ret = end(&p);
	}
	ZSTD_freeCCtx(p.ctx);
	free(p.plain);
	free(p.packed);
	free(p.table);
	return ret;
}
