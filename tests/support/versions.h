/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * versions.h - pages that are written to while others read them. Each word
 * tells its place and which write it is of; a page has one writer at a time. A
 * reader knows between which writes a word must lie: not before the last that
 * had ended when it began to read, not after the last that had begun when it
 * ended. So a write that is lost is seen, whoever lost it.
 */
#ifndef FL_TESTS_SUPPORT_VERSIONS_H
#define FL_TESTS_SUPPORT_VERSIONS_H

#include <stdatomic.h>

#include "support/stress.h"

#define VERSION_BITS 0xffffu

struct version {
	_Atomic uint32_t begun, ended;
};

STRESS uint64_t version_word(uint64_t id, uint64_t index, uint32_t version)
{
	return (word_of(id, index) & ~(uint64_t)VERSION_BITS) |
	       (version & VERSION_BITS);
}

/* The page at byte @off, as the @version-th write leaves it. */
STRESS void version_put(_Atomic uint64_t *at, uint64_t id, size_t off,
			uint32_t version)
{
	for (size_t i = 0; i < 512; i++)
		atomic_store_explicit(&at[i],
				      version_word(id, off / 8 + i, version),
				      memory_order_relaxed);
}

/* By the page's writer. May be left by a signal: the write has then begun. */
STRESS void version_write(_Atomic uint64_t *at, uint64_t id, size_t off,
			  struct version *v)
{
	uint32_t next =
		atomic_load_explicit(&v->begun, memory_order_relaxed) + 1;

	atomic_store_explicit(&v->begun, next, memory_order_seq_cst);
	version_put(at, id, off, next);
	atomic_store_explicit(&v->ended, next, memory_order_seq_cst);
}

/* Words of the page that cannot be. */
STRESS size_t version_wrong(const _Atomic uint64_t *at, uint64_t id, size_t off,
			    const struct version *v)
{
	uint32_t low = atomic_load_explicit(&v->ended, memory_order_seq_cst);
	uint64_t is[512];
	uint32_t high;
	size_t bad = 0;

	for (size_t i = 0; i < 512; i++)
		is[i] = atomic_load_explicit(&at[i], memory_order_relaxed);
	high = atomic_load_explicit(&v->begun, memory_order_seq_cst);
	for (size_t i = 0; i < 512; i++) {
		uint32_t n = (uint32_t)(is[i] - low) & VERSION_BITS;

		bad += n > high - low ||
		       is[i] != version_word(id, off / 8 + i, low + n);
	}
	return bad;
}

#endif
