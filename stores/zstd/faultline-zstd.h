/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * faultline-zstd.h - a store for demand regions: the plain bytes of a file that
 * is compressed in zstd's seekable format.
 *
 * The format is that of zstd's contrib/seekable_format: ordinary zstd frames,
 * each of which can be decompressed by itself, and a table of their sizes in a
 * skippable frame at the end. zstd(1) decompresses such a file as any other;
 * faultline-zstd-pack(1) and other programs make them.
 *
 *	struct fl_pager *pager;
 *	size_t len;
 *	const char *p;
 *
 *	fl_pager_open(&pager, NULL);
 *	p = fl_zstd_map(pager, fd, &len, 0);
 *	if (FL_IS_ERR(p))
 *		...
 *	... p[0] to p[len - 1] ...
 *	fl_pager_munmap(pager, (void *)p, len);
 *
 * A touch of an absent page decompresses the frames the page lies in. As many
 * decompressed frames as the process may use CPUs, four at least, are kept, so
 * reading on in a frame costs a copy. Choose the size of frames by that: 64 KiB
 * to 1 MiB.
 *
 * A frame that does not decompress to what the table says (its length and, if
 * the table has them, its checksum) is EIO: SIGBUS on the page, and
 * fl_region_error() tells. Files are not trusted: a table that is malformed or
 * does not fit the file is refused at the open.
 *
 * Reading is async-signal-safe and allocates nothing; any number of threads may
 * do it. It needs some 4 KiB of stack. The functions below may be called by any
 * thread, but not in a signal handler.
 */
#ifndef FAULTLINE_ZSTD_H
#define FAULTLINE_ZSTD_H

#include <faultline.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The largest frame, in plain bytes, that is taken. */
#define FL_ZSTD_FRAME_MAX (64u << 20)

/* An open file. Opaque. */
struct fl_zstd;

/*
 * fl_zstd_open - read the table of a file in the seekable format.
 * @fd: open for reading; a duplicate of it is kept.
 *
 * Returns 0, or -errno: -EINVAL for a file that is not in the format or whose
 * table cannot be right; -EFBIG for a frame of more than FL_ZSTD_FRAME_MAX plain
 * bytes; -ESPIPE; -ENOMEM; -EMFILE; what pread(2) returns.
 */
FL_API int fl_zstd_open(struct fl_zstd **out, int fd);

/* fl_zstd_close - the regions that use @z are unmapped already. */
FL_API void fl_zstd_close(struct fl_zstd *z);

/* fl_zstd_size - the number of plain bytes. */
FL_API uint64_t fl_zstd_size(const struct fl_zstd *z);

/*
 * fl_zstd_ops - for fl_region_map(pager, &fl_zstd_ops, z, off, len, ...). It
 * has no release: close @z yourself. Can be used without a pager, too:
 * fl_zstd_ops.read(z, buf, len, off).
 */
FL_API extern const struct fl_store_ops fl_zstd_ops;

/*
 * fl_zstd_map - open, and map all of it; closed when the region is unmapped.
 * @len: where the number of plain bytes goes.
 * @flags: FL_REGION_*.
 * Returns the address or (void *)-errno, as fl_zstd_open() and fl_region_map();
 * -EINVAL for a file without a byte.
 */
FL_API void *fl_zstd_map(struct fl_pager *pager, int fd, size_t *len,
			 unsigned int flags);

#ifdef __cplusplus
}
#endif
#endif
