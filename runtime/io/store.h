/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * store.h - where the bytes of a demand region come from: a file, nothing
 * (zeros), or a user's functions (struct fl_store_ops).
 *
 * A store of a file reads through a description of its own (the file opened
 * once more by way of /proc), so that neither the kernel's read-ahead nor a
 * flock(2) of the program's is shared with it; where that cannot be had through
 * a duplicate of the descriptor. Where wanted and possible there is another
 * one with O_DIRECT for what is aligned; a file system that turns out not to do
 * it (EINVAL at the open or at the first read) is read through the page cache
 * from then on, silently.
 *
 * Closing any descriptor of a file drops the record locks (fcntl F_SETLK) that
 * the process has on it. A file with such locks is therefore refused; locks
 * taken later are lost when the store is destroyed.
 *
 * Both numbers change when the program takes them (io_fd_reserve in io.h): the
 * owner of the number stores the new one here *before* the program gets the
 * old one. A read therefore looks at the number again afterwards, and is done
 * again if it has changed.
 *
 * Any number of threads may read and write a store at once, each with an io_ctx
 * of its own. What stands before the store is destroyed is the caller's to end.
 * All but a user's functions is async-signal-safe.
 */
#ifndef FL_IO_STORE_H
#define FL_IO_STORE_H

#include "faultline.h"
#include "io/io.h"

enum store_kind {
	STORE_FILE,
	STORE_ZERO,
	STORE_USER,
};

/* What reads through O_DIRECT have their buffer, length and offset aligned to. */
#define STORE_ALIGN 4096

struct store {
	enum store_kind kind;
	_Atomic(int) fd;
	_Atomic(int) direct_fd; /* -1: none */
	/* Cleared at the first EINVAL. Relaxed: a hint. */
	_Atomic(bool) direct;
	bool own; /* fd is no duplicate of the program's */
	const struct fl_store_ops *ops;
	void *arg;
};

enum store_direct {
	STORE_DIRECT_NO,
	STORE_DIRECT_YES,
	STORE_DIRECT_AUTO, /* the caller has decided for it: as YES */
};

/*
 * store_file_init - the store of @fd, which stays the caller's.
 * @direct_mode: enum store_direct.
 * Returns 0, -EBADF, -EMFILE, or -EBUSY for a file with record locks.
 */
int store_file_init(struct store *s, int fd, int direct_mode);

/*
 * store_advise - tell the kernel how the file will be read: POSIX_FADV_RANDOM,
 * which a store begins with (a read reads what it is asked for), NORMAL or
 * SEQUENTIAL (the kernel reads ahead, too).
 */
void store_advise(struct store *s, int advice);

/*
 * store_ahead - have the kernel begin to read a piece of a file that is read
 * through the page cache into it; nothing for other stores.
 */
void store_ahead(struct store *s, uint64_t off, size_t len);

/* store_zero_init - zeros without end; what is written is gone. */
void store_zero_init(struct store *s);

/* store_user_init - 0, or -EINVAL for ops without size or read. */
int store_user_init(struct store *s, const struct fl_store_ops *ops, void *arg);

/* store_destroy - closes what is open, or calls release. */
void store_destroy(struct store *s);

/*
 * store_read - @len bytes at @off. Returns the number of bytes, less than @len
 * only at the end of the store, or -errno.
 */
long store_read(struct store *s, struct io_ctx *ctx, void *buf, size_t len,
		uint64_t off);

/*
 * store_read_many - each of @n requests, at once where the engine can. Of a
 * request buf, len and off are the caller's; fd is set here; res is what
 * store_read() returns.
 */
void store_read_many(struct store *s, struct io_ctx *ctx, struct io_req *req,
		     unsigned int n);

/*
 * store_start - begin to read past the page cache; see io_start(). False where
 * that cannot be done, and for what is read through the page cache, where the
 * kernel reads ahead itself.
 * store_finish - as store_read().
 */
bool store_start(struct store *s, struct io_ctx *ctx, struct io_req *req);
long store_finish(struct store *s, struct io_ctx *ctx, struct io_req *req);

/* store_write - all of @len, or -errno (-EROFS where the store has no write). */
long store_write(struct store *s, const void *buf, size_t len, uint64_t off);

/* store_writable - can it be written at all? A file: the caller has looked. */
bool store_writable(const struct store *s);

/* store_flush - make it durable. 0 or -errno. */
int store_flush(struct store *s);

/* store_size - bytes, INT64_MAX where there is no end, or -errno. */
int64_t store_size(struct store *s);

#endif
