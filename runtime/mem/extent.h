/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * extent.h - runs of pages in power-of-two size classes, recycled.
 *
 * A *pool* manages one arena. Chunks of 8 MiB are dedicated to a size class
 * when first needed, extents are cut from them in batches, and freed extents
 * return to a lock-free LIFO of the CPU the thread runs on: the pages come back
 * hot. Nothing is kept per thread. The contract of every function is at the
 * head of extent.c.
 */
#ifndef FL_MEM_EXTENT_H
#define FL_MEM_EXTENT_H

#include "base/base.h"
#include "base/lock.h"
#include "base/order.h"
#include "base/stat.h"
#include "base/sys.h"
#include "mem/arena.h"
#include "mem/istack.h"

/* Classes of 4 KiB ... 64 MiB; those above 8 MiB take several chunks. */
#define EXT_MAX_SHIFT 26
#define EXT_MAX_PAGES (1u << (EXT_MAX_SHIFT - FL_PAGE_SHIFT))
#define EXT_NR_CLASSES (EXT_MAX_SHIFT - FL_PAGE_SHIFT + 1)
/* Larger classes get frames as far as they are used, not as a whole. */
#define EXT_WHOLE_PAGES 64u
#define EXT_MAX_SHARDS 64

/* States of an extent; see the head of extent.c for who moves them. */
enum ext_state {
	EXT_VIRGIN,
	EXT_FREE,
	EXT_LIVE,
};

enum ext_flags {
	EXT_COLD = 1,   /* has no frames */
	EXT_FILE = 2,   /* holds a file's bytes */
	EXT_SHARED = 4, /* mapped MAP_SHARED: may never become writable */
	EXT_TWIN = 8,   /* the pages after the region's hold a pristine copy */
};

/* One for each page of the arena; the extent's is that of its first page. */
struct extent {
	_Atomic(uint32_t) next;  /* link of the stack it is on */
	_Atomic(uint32_t) state; /* enum ext_state */
	_Atomic(uint32_t) live;  /* pages not yet unmapped; 0: nobody's, or its
				  * allocator's */
	uint16_t npages;         /* pages of the region when it was mapped */
	uint16_t dirty;          /* pages from here on are zero (anonymous) and
				  * may be without a frame */
	uint32_t fill_end;       /* from here the page is zero; 0: not known */
	uint32_t epoch;          /* of the fork ledger, when allocated */
	uint8_t cls;
	uint8_t flags;
	uint8_t prot;
	uint8_t spare;
	int32_t fd;          /* the region's descriptor number when mapped */
	struct fl_lock lock; /* LOCK_REGION: demotion, claims, restores */
	struct fl_lock pte_lock; /* LOCK_PTE: codecs without compare-and-swap */
	uint64_t ino;            /* 0: the file's identity is not known */
	uint32_t dev;
	uint32_t pgoff; /* file offset of the first page, in pages */
} FL_ALIGNED_CL;

struct ext_shard {
	struct istack hot[EXT_NR_CLASSES];
	_Atomic(uint64_t) ticks; /* relaxed: paces pool_tick's caller */
} FL_ALIGNED_CL;

/* Memory of all pools of a pager. */
struct ext_budget {
	uint64_t high; /* bytes that frames may take */
	uint64_t low;  /* bytes that may be idle */
	/* Frames held, bytes. Relaxed: changes on slow paths only, each change
	 * before the frames are taken and after they are given back. */
	_Atomic(uint64_t) resident;
};

struct fork_ledger;

struct ext_pool {
	struct arena arena;
	struct extent *ext; /* opened along with the chunks */
	size_t ext_bytes;
	uint32_t nr_classes;       /* length of chunk_class */
	_Atomic(uint32_t) foreign; /* relaxed: chunks the program has claimed */
	struct ext_shard *shards;
	uint32_t shard_mask;
	_Atomic(uint32_t) nr_chunks; /* relaxed: falls once, in pool_shrink */
	bool hardened;
	struct ext_budget *budget;
	struct fork_ledger *forks;
	struct stats *stats;
	/* Class + 1 of each chunk, 0 not handed out, CHUNK_FOREIGN claimed. */
	_Atomic(uint8_t) *chunk_class;
	_Atomic(uint32_t) next_chunk FL_ALIGNED_CL;
	/* Fresh space of each class: {next page:32, end page:32}. */
	_Atomic(uint64_t) fresh[EXT_NR_CLASSES];
	struct istack cold[EXT_NR_CLASSES];
	struct istack quarantine;
	struct fl_lock trim_lock;  /* LOCK_TRIM */
	struct fl_lock carve_lock; /* LOCK_CARVE */
};

#define CHUNK_FOREIGN 0xff

int pool_init(struct ext_pool *p, enum arena_kind kind, size_t size,
	      size_t min);
void pool_destroy(struct ext_pool *p);

/* The class that holds @npages pages (1 ... EXT_MAX_PAGES). */
static inline unsigned int ext_class(uint32_t npages)
{
	return npages <= 1 ? 0 : 32 - (unsigned int)__builtin_clz(npages - 1);
}

static inline uint32_t ext_class_pages(unsigned int cls)
{
	return 1u << cls;
}

static inline uint32_t ext_index(const struct ext_pool *p,
				 const struct extent *e)
{
	return (uint32_t)(e - p->ext);
}

static inline size_t ext_off(const struct ext_pool *p, const struct extent *e)
{
	return (size_t)ext_index(p, e) << FL_PAGE_SHIFT;
}

static inline char *ext_user(const struct ext_pool *p, const struct extent *e)
{
	return p->arena.user + ext_off(p, e);
}

static inline char *ext_fill(const struct ext_pool *p, const struct extent *e)
{
	return p->arena.fill + ext_off(p, e);
}

static inline uint32_t pool_page(const struct ext_pool *p, const void *addr)
{
	return (uint32_t)(((uintptr_t)addr - (uintptr_t)p->arena.user) >>
			  FL_PAGE_SHIFT);
}

/* The chunk's class, -1 where it is not handed out or not ours. */
static inline int pool_chunk_class(struct ext_pool *p, uint32_t page)
{
	/* [MO:chunk-class] pairs with chunk_take: a page the program was given
	 * implies its chunk's class. */
	int c = ld_acq(&p->chunk_class[page >> (CHUNK_SHIFT - FL_PAGE_SHIFT)]);

	return c == 0 || c == CHUNK_FOREIGN ? -1 : c - 1;
}

/* The extent that page @page lies in; NULL in a chunk not handed out. */
static inline struct extent *pool_extent(struct ext_pool *p, uint32_t page)
{
	int cls = pool_chunk_class(p, page);

	if (unlikely(cls < 0))
		return NULL;
	return &p->ext[page & ~(ext_class_pages((unsigned int)cls) - 1)];
}

/* Counts the calls made on this CPU, more or less. */
static inline uint64_t pool_tick(struct ext_pool *p)
{
	struct ext_shard *s = &p->shards[sys_cpu_id() & p->shard_mask];

	stat_local_add(&s->ticks, 1);
	return ld_rlx(&s->ticks);
}

/*
 * extent_need - frames for the first @npages pages of an extent the caller
 * owns. Small classes have them already. 0 or -errno.
 */
int extent_need(struct ext_pool *p, struct extent *e, uint32_t npages);

/*
 * extent_alloc - an extent of class @cls with frames, state LIVE, owned by the
 * caller. NULL when the budget or the arena is exhausted.
 */
struct extent *extent_alloc(struct ext_pool *p, unsigned int cls);

/* extent_free - the owner gives it back; nothing of it may be mapped. */
void extent_free(struct ext_pool *p, struct extent *e);

/*
 * extent_claim - the program maps something over @npages pages of @e that no
 * region has: they are in use until extent_put. The region lock is held. False:
 * the extent is just being handed out or put back, try again.
 */
bool extent_claim(struct ext_pool *p, struct extent *e, uint32_t npages);

/*
 * pool_cut - @page lies in a chunk with a class, in an extent that never was
 * cut: it is cut now, and the rest of the chunk, without frames. (Unless
 * another thread is about to.)
 */
void pool_cut(struct ext_pool *p, uint32_t page);

/* extent_put - @n pages of @e are unmapped; the last frees the extent. */
void extent_put(struct ext_pool *p, struct extent *e, uint32_t n);

/* pool_claim_chunk - a chunk never handed out is the program's from now on. */
bool pool_claim_chunk(struct ext_pool *p, uint32_t chunk);

/*
 * pool_shrink - give address space that was never used back, for good: the
 * program has set itself a limit. Returns bytes.
 */
size_t pool_shrink(struct ext_pool *p);

/*
 * pool_trim - give the frames of @permille in a thousand of the idle extents
 * back, the ones idle longest of each class and CPU. Returns bytes given back;
 * 0 too when somebody else is trimming.
 */
uint64_t pool_trim(struct ext_pool *p, uint32_t permille);

/*
 * pool_fork_child - rebuild in the child of a fork. @live_pages tells how many
 * pages of an extent the page table holds; @cold: free extents have no frames.
 */
void pool_fork_child(struct ext_pool *p,
		     uint32_t (*live_pages)(void *ctx, struct ext_pool *p,
					    struct extent *e),
		     void *ctx, bool cold);

/* pool_release_quarantine - recheck what waits for children of fork. */
void pool_release_quarantine(struct ext_pool *p);

#endif
