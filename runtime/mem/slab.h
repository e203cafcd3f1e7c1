/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * slab.h - a cache of pre-zeroed page-sized objects: the tables of the shadow
 * page table and whatever else wants exactly one zero page.
 *
 * An object is all zero when it is handed out and must be all zero again when
 * it comes back, so that no allocation ever clears memory. slab_free() checks
 * it with FL_DEBUG >= 1.
 *
 * Objects are numbered: slab_obj() and slab_index() convert. The memory of an
 * object stays mapped until slab_destroy(), free or not.
 */
#ifndef FL_MEM_SLAB_H
#define FL_MEM_SLAB_H

#include "base/base.h"
#include "base/order.h"
#include "mem/istack.h"

#define SLAB_OBJ_SHIFT FL_PAGE_SHIFT
#define SLAB_OBJ_SIZE FL_PAGE_SIZE

enum {
	SLAB_CPUS = 64,  /* shards; a larger CPU number wraps */
	SLAB_MAG = 16,   /* objects in a full magazine */
	SLAB_CHUNK = 64, /* objects asked from the kernel at once */
};

struct slab_cpu {
	struct istack stack;
	/* Length of stack, as far as finished operations go; it only decides
	 * when to pass a magazine on. Relaxed. */
	_Atomic(int32_t) n;
} FL_ALIGNED_CL;

struct slab {
	char *base;                /* the reserved range */
	uint32_t nr_max;           /* objects in it */
	struct istack_links link;  /* chains inside magazines and shards */
	struct istack_links outer; /* chains of magazines and of chunks */

	/* Objects of the range given to some refill. Relaxed: the objects
	 * themselves are published through the stacks. */
	FL_ALIGNED_CL _Atomic(uint32_t) carved;
	struct istack depot;   /* first objects of full magazines */
	struct istack cold;    /* the same, without memory behind them */
	struct istack refused; /* first objects of chunks not backed */

	struct slab_cpu cpu[SLAB_CPUS];
};

/* Reserve the range. 0 or -ENOMEM. @name must outlive the slab. */
int slab_init(struct slab *s, const char *name);

/* The same with room for @max objects, or as many as the system allows. */
int slab_init_max(struct slab *s, const char *name, uint32_t max);

/* Give everything back. No object may be in use any more. */
void slab_destroy(struct slab *s);

/* One zero page, or NULL. Any thread, any time, signal handlers included. */
void *slab_alloc(struct slab *s);

/* @obj is all zero. As slab_alloc(). */
void slab_free(struct slab *s, void *obj);

/* Return the memory (not the addresses) of the magazines in the depot to the
 * kernel. Number of objects. Slow path. */
size_t slab_trim(struct slab *s);

/* In the child of a fork. Objects that other threads were just moving are lost
 * to the child: at most one shard's chain for each such thread. */
void slab_fork_child(struct slab *s);

/* Objects backed by the kernel, and of those the free ones; the latter is exact
 * only while nobody uses the slab. */
size_t slab_nr_backed(struct slab *s);
size_t slab_nr_free(struct slab *s);

static inline void *slab_obj(const struct slab *s, uint32_t i)
{
	return s->base + ((size_t)i << SLAB_OBJ_SHIFT);
}

static inline uint32_t slab_index(const struct slab *s, const void *obj)
{
	return (uint32_t)((size_t)((const char *)obj - s->base) >>
			  SLAB_OBJ_SHIFT);
}

#endif
