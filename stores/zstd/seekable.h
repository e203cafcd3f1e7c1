/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * seekable.h - the seekable format, inside of the library and the packer.
 *
 * All numbers are little-endian.
 *
 *	frame...                          zstd or skippable frames
 *	u32 SKIPPABLE_MAGIC, u32 size     the table: a skippable frame
 *	n times: u32 packed, u32 plain, [u32 checksum]
 *	u32 n, u8 flags, u32 SEEKABLE_MAGIC
 *
 * checksum, where FLAG_CHECKSUM is set: the low half of XXH64 of the plain
 * bytes.
 */
#ifndef FL_ZSTD_SEEKABLE_H
#define FL_ZSTD_SEEKABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SKIPPABLE_MAGIC 0x184d2a5eu
#define SEEKABLE_MAGIC 0x8f92eab1u
#define FRAME_MAGIC 0xfd2fb528u
#define FLAG_CHECKSUM 0x80u
#define FLAGS_RESERVED 0x7cu
#define FRAMES_MAX 0x8000000u
#define HEADER_SIZE 8u
#define FOOTER_SIZE 9u

static inline uint32_t get32(const unsigned char *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
	       (uint32_t)p[3] << 24;
}

static inline void put32(unsigned char *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (unsigned char)(v >> 8 * i);
}

/* A frame with plain bytes in it. */
struct frame {
	uint64_t plain_off;
	uint64_t packed_off;
	uint32_t plain;
	uint32_t packed;
	uint32_t checksum;
};

struct table {
	struct frame *frame;
	uint32_t nr;
	bool checksums;
	uint64_t plain;      /* bytes in all */
	uint32_t plain_max;  /* of one frame */
	uint32_t packed_max; /* of one frame */
};

/* table_read - 0 or -errno; see fl_zstd_open(). */
int table_read(struct table *t, int fd);
void table_free(struct table *t);

/* The frame that byte @off < @t->plain lies in. */
uint32_t table_find(const struct table *t, uint64_t off);

/* xxh64 - with seed 0. */
uint64_t xxh64(const void *data, size_t len);

/*
 * pack - read @in to its end and write it to @out in frames of @frame plain
 * bytes. 0 or -errno.
 */
int pack(int in, int out, size_t frame, int level);

#endif
