/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * arena.h - reserved address ranges and their frames.
 *
 * A *file arena* is one shared anonymous object mapped twice: the fill view
 * (read-write, only the runtime touches it) and the user view (read-only, what
 * callers get). The same offset is the same frame in both. The second view is
 * made by mremap(2) with an old size of zero, which duplicates a shared
 * mapping; so there never is a descriptor, and neither a full descriptor table
 * nor RLIMIT_FSIZE is in the way, also not in a child of fork. An *anonymous
 * arena* is private anonymous memory with one read-write view.
 *
 * Address space is reserved PROT_NONE and opened chunk by chunk, so that what
 * has not been handed out costs nothing under mlockall(2) and strict
 * overcommit. The kernel sees a constant number of VMAs: chunks are opened in
 * order and merge. (Chunks opened by racing threads merge a moment later.)
 *
 * Frames: populated on first use of a piece, kept when it is recycled, given
 * back by arena_release.
 *
 * Threads: arena_init, arena_destroy and arena_fork_child want the arena for
 * themselves; the rest may run in any thread on disjoint pieces.
 */
#ifndef FL_MEM_ARENA_H
#define FL_MEM_ARENA_H

#include "base/base.h"
#include "base/order.h"

/* The unit in which address space is opened and given to a size class. */
#define CHUNK_SHIFT 23
#define CHUNK_SIZE ((size_t)1 << CHUNK_SHIFT)
#define CHUNK_PAGES (CHUNK_SIZE >> FL_PAGE_SHIFT)

enum arena_kind {
	ARENA_FILE,
	ARENA_ANON,
	NR_ARENAS,
};

struct arena {
	enum arena_kind kind;
	/* Bytes, a multiple of CHUNK_SIZE. Relaxed: shrinks once, at the end,
	 * where no extent ever was. */
	_Atomic(size_t) size;
	char *user; /* user view */
	char *fill; /* fill view; the user view itself in an anonymous arena */
	/* Pieces may be guarded by their protection. Relaxed: set before such a
	 * piece is handed on. */
	_Atomic(uint32_t) split;
};

/*
 * Reserves about @size bytes of address space; halves it until the system
 * agrees, down to @min. Returns 0 or -errno.
 */
int arena_init(struct arena *a, enum arena_kind kind, size_t size, size_t min);
void arena_destroy(struct arena *a);

/* Gives address space from @size on back; none of it was ever opened. */
void arena_shrink(struct arena *a, size_t size);

/* Makes chunk @chunk accessible. Returns 0 or -errno. */
int arena_open_chunk(struct arena *a, uint32_t chunk);

/* Gives the piece frames and maps them in every view, without a fault later.
 * @user: the user view too (not under hardened=1, where it is guarded).
 * Returns 0 or -errno. */
int arena_populate(struct arena *a, size_t off, size_t len, bool user);

/* Gives the frames of a piece back; it reads as zeros afterwards. */
int arena_release(struct arena *a, size_t off, size_t len);

/*
 * The user view of a piece has been replaced by something else: puts the view
 * back in one step. Returns 0 or -errno; then the piece is PROT_NONE or still
 * the foreign mapping, and must not be used again.
 */
int arena_restore(struct arena *a, size_t off, size_t len);

/* Back to PROT_NONE, for a chunk that was never opened. */
int arena_reserve(struct arena *a, size_t off, size_t len);

/*
 * hardened=1: makes a piece of the user view raise SIGSEGV, or lifts that.
 * Guard markers (MADV_GUARD_INSTALL, Linux 6.13 anonymous, 6.15 files) do not
 * split VMAs; where they are missing or refused (of locked memory), mprotect
 * does it and does split.
 */
int arena_guard(struct arena *a, size_t off, size_t len);
int arena_unguard(struct arena *a, size_t off, size_t len);

/*
 * In the child of a fork, alone: the file arena's frames are shared with the
 * parent. arena_fork_fill gives the fill view new ones, empty; the caller
 * copies what lives from the user view, which still shows the old ones; then
 * arena_fork_user turns pieces of the user view over. @opened: bytes from the
 * start that are accessible. None needs address space beyond what is mapped.
 */
int arena_fork_fill(struct arena *a, size_t opened);
int arena_fork_user(struct arena *a, size_t off, size_t len, bool opened);

static inline size_t arena_size(const struct arena *a)
{
	return ld_rlx(&a->size);
}

static inline bool arena_has(const struct arena *a, const void *addr)
{
	return (uintptr_t)addr - (uintptr_t)a->user < arena_size(a);
}

static inline size_t arena_pages(const struct arena *a)
{
	return arena_size(a) >> FL_PAGE_SHIFT;
}

#endif
