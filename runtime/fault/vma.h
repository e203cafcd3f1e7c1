/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * vma.h - demand regions and the map from addresses to them.
 *
 * A region is a struct vma: one private anonymous mapping registered with a
 * userfaultfd, a store, and a shadow page table. The table is linear: slot i is
 * page i of the region. It lies in memory of its own that costs nothing until
 * it is touched (the "linear page table in virtual memory" of the VAX), so a
 * region of terabytes is mapped at once and a look-up is one load.
 *
 * ENTRIES of a region, and who moves them (mem/pte.h):
 *   zero     never filled, what design notes call FILE: tables come zeroed.
 *            -> BUSY by whoever wins the compare-and-swap.
 *   FILE     filled once and evicted; the payload is the clock of its queue at
 *            that time. -> BUSY as above.
 *   BUSY     being filled or evicted; the owner alone ends it. The payload says
 *            who waits (WAIT_*); waiters add to it by compare-and-swap.
 *   PRESENT  in the kernel's page table; of a writable region also DIRTY
 *            (dirty.h). -> BUSY by who evicts or cleans it, or lets it be
 *            written; -> KERNEL by who unmaps it.
 *   POISON   its read failed, the payload is the errno; the page is a mapping
 *            of an empty object, where the kernel raises SIGBUS.
 *   KERNEL   no longer the pager's: unmapped, or replaced by a mapping of the
 *            kernel's.
 *
 * THE MAP is a sorted array of segments, replaced as a whole whenever a region
 * is mapped, unmapped, cut or demoted, under a lock; readers take none. A
 * segment of a region that is being replaced is on HOLD: faults there wait,
 * for the few microseconds of an mmap(2).
 *
 * RECLAIM. Old maps, and regions none of whose segments is left, are freed when
 * no filler's epoch reaches back to them (filler.h). Their memory and
 * descriptors may therefore live a little longer than the region, never its
 * addresses.
 */
#ifndef FL_FAULT_VMA_H
#define FL_FAULT_VMA_H

#include "base/base.h"
#include "base/lock.h"
#include "base/order.h"
#include "base/sys.h"
#include "fault/filler.h"
#include "io/store.h"
#include "mem/pte.h"

#define VMA_IDS 65536u

/* Payload of BUSY. */
#define WAIT_FUTEX 1u  /* threads sleep on the bucket of the page */
#define WAIT_KERNEL 2u /* threads sleep in the kernel's fault handler */

enum vma_advice {
	VMA_NORMAL,
	VMA_RANDOM,
	VMA_SEQUENTIAL,
};

/* Where a sequential reader will be next, and what it was given; n 0: none. */
struct stream {
	_Atomic(uint64_t) page;
	_Atomic(uint32_t) n;
};

#define STREAMS 8u

/* Something that waits for the fillers of its time to end. */
struct retired {
	struct retired *next;
	uint64_t epoch;
	void (*end)(struct retired *r);
};

struct vma {
	struct retired retired;
	/* Constant while published. */
	char *start;
	size_t pages;
	uint64_t off; /* byte of the store at @start */
	int prot;
	uint32_t id;
	uint64_t serial; /* of no other region, ever */
	struct frames *frames;
	_Atomic(int) *uffd; /* moves when the program wants the number */
	struct store store;
	uint64_t bytes_end;  /* of a writable file when it was mapped */
	bool eof_zero;       /* zeros past the end of the file */
	bool mmapped;        /* the program believes it to be a mapping */
	bool kernel_waiters; /* threads may sleep in the kernel's handler */
	size_t bytes;        /* of this struct and the table behind it */
	/* The program has dropped pages: PRESENT may not be. Relaxed: set by
	 * the thread that then drops them. */
	_Atomic(bool) dropped;
	/* Sequential readers are the kernel's. Relaxed: cleared when it does
	 * not take them. */
	_Atomic(bool) yields;
	/* enum vma_advice. Relaxed: a hint. */
	_Atomic(uint32_t) advice;
	/* Sequential readers. Relaxed, see window.h. */
	struct stream stream[STREAMS];
	_Atomic(uint32_t) next_stream;
	/* A bit for each VMA_GROUP entries of which one was PRESENT once.
	 * Relaxed: set before the entry is, which releases it. */
	_Atomic(uint64_t) *used;
	_Atomic(uint64_t) used_few[4]; /* enough for 512 MiB */
	/* Segments in the newest map, and those that are being taken out of
	 * it; the map's lock. */
	size_t segs;
	struct fl_lock pte_lock; /* LOCK_PTE, codecs without cmpxchg */
	/* The table. */
	FL_ALIGNED_CL struct pte_slot pt[];
};

struct vseg {
	uintptr_t start, end;
	struct vma *v;
	bool hold;
};

struct vmap {
	struct retired retired;
	size_t bytes;
	size_t n;
	struct vseg seg[];
};

struct vmas {
	_Atomic(struct vmap *) map; /* NULL: no regions */
	/* Counts maps; from 1. */
	_Atomic(uint64_t) epoch;
	/* No region is outside. Relaxed: a region's address reaches another
	 * thread only through the program, after they were set. */
	_Atomic(uintptr_t) low, high;
	struct fl_lock lock; /* LOCK_VMA: all below, and changes of the map */
	struct retired *dead;
	_Atomic(struct vma *) *ids; /* VMA_IDS */
	uint32_t next_id;
	uint64_t serial;
};

extern struct vmas vmas;

/* Might any of it lie in a region? */
static inline bool vma_near(const void *addr, size_t len)
{
	uintptr_t a = (uintptr_t)addr;

	return unlikely(a < ld_rlx(&vmas.high) && len > 0 &&
			a + len > ld_rlx(&vmas.low));
}

/* Read sections of the map, not nested. */
static inline void vma_enter(struct filler *f)
{
	/* [MO:vma-map] the count is read before the map, and was written
	 * after it: what this holds is not older than the count says. */
	uint64_t now = ld_acq(&vmas.epoch);

	/* [MO:epoch] pairs with filler_epoch: this is seen there, or the map
	 * published before that is seen here. */
	xchg_sc(&f->epoch, now);
	/* [MO:vma-map] the segments, from vmap_publish. */
	f->map = ld_sc(&vmas.map);
}

static inline void vma_exit(struct filler *f)
{
	f->map = NULL;
	/* [MO:epoch] what was read is done with, for filler_epoch. */
	st_rel(&f->epoch, (uint64_t)0);
}

/*
 * Sections that change the kernel's page table, inside of read sections. Returns
 * the newest map, by which the section goes: f->map, by which the caller has
 * looked, may be older.
 */
static inline const struct vmap *filler_copying(struct filler *f)
{
	/* [MO:copying] pairs with filler_quiesce. Odd now. */
	xchg_sc(&f->copying, ld_rlx(&f->copying) + 1);
	/* [MO:vma-map] as in vma_enter; after the mark, as copying says. */
	return ld_sc(&vmas.map);
}

static inline void filler_copied(struct filler *f)
{
	/* [MO:copying] the entries tell what was done, to filler_quiesce. */
	st_rel(&f->copying, ld_rlx(&f->copying) + 1);
}

/* The segment with @addr, or NULL. */
const struct vseg *vma_find(const struct vmap *m, uintptr_t addr);
/* The first segment that ends above @addr, or NULL. */
const struct vseg *vma_next(const struct vmap *m, uintptr_t addr);

static inline size_t vma_page(const struct vma *v, const void *addr)
{
	return (size_t)((const char *)addr - v->start) >> FL_PAGE_SHIFT;
}

#define VMA_GROUP 512u

/* Before these entries become PRESENT. */
static inline void vma_use(struct vma *v, size_t page, size_t n)
{
	for (size_t g = page / VMA_GROUP; g <= (page + n - 1) / VMA_GROUP;
	     g++) {
		uint64_t bit = (uint64_t)1 << g % 64;

		if (unlikely(!(ld_rlx(&v->used[g / 64]) & bit)))
			or_rlx(&v->used[g / 64], bit);
	}
}

static inline char *vma_addr(const struct vma *v, size_t page)
{
	return v->start + (page << FL_PAGE_SHIFT);
}

/* The region with this id now, or NULL. */
static inline struct vma *vma_by_id(uint32_t id)
{
	/* [MO:vma-map] pairs with vma_publish and vma_forget, as the map. */
	return ld_sc(&vmas.ids[id]);
}

/* Makes the tables. 0 or -ENOMEM. */
int vmas_init(void);

/*
 * vma_create - a region, not published: the mapping is made and registered.
 * The caller then sets up the store and calls vma_publish.
 * 0 or -errno.
 */
int vma_create(struct vma **out, size_t pages, int prot, _Atomic(int) *uffd);
/* What vma_create made and nobody has seen. The store is the caller's. */
void vma_discard(struct vma *v);
/* 0, or -ENOMEM, -EMFILE. */
int vma_publish(struct vma *v);

/* munmap(2) of a range with regions in it: taken away from them first. */
int vma_unmap(char *addr, size_t len);

/*
 * Replaces [addr, addr+len) of regions of files by mappings of the files, which
 * are the kernel's from then on. 0; -ENOMEM; -EOPNOTSUPP for another store
 * (nothing is changed then).
 */
int vma_demote(char *addr, size_t len);

/*
 * Takes from the region @v the page at @addr, which somebody has claimed who
 * will not come back: of a file all of the segment, which the kernel then maps;
 * of another store the claimed pages from it on, up to @n, that raise SIGBUS.
 * @files: only the former.
 * Says whether there was something to take: not, if the page is no longer @v's,
 * or not claimed. @v is a name, it may be gone.
 */
bool vma_abandon(char *addr, const struct vma *v, bool files, size_t n);
/* The same for all regions of a userfaultfd, whole. */
void vma_abandon_all(const _Atomic(int) *uffd);

/* Every access to the page raises SIGBUS from now on. The caller owns the entry
 * and is copying. 0 or -errno. */
int vma_bus_page(struct vma *v, size_t page);

/* Calls @fn for the pieces of the table from @page to @end that were ever used;
 * the others are passed over without being touched. */
void vma_each_used(struct vma *v, size_t page, size_t end,
		   void (*fn)(struct vma *v, size_t page, size_t end,
			      void *arg),
		   void *arg);

/* Is any of the range part of a writable region? */
bool vma_writable(const char *addr, size_t len);

/* The program is about to drop pages of the range. */
void vma_dropped(const char *addr, size_t len);

/* Wakes the threads that sleep in the kernel on these pages. */
void vma_wake(struct vma *v, size_t page, size_t n);

/*
 * fork, in fork.c. The parent holds the lock from prepare to parent. The child
 * has nothing in the place of its regions (MADV_DONTFORK). vma_fork_child maps
 * files there, which are the kernel's from then on. Regions of other stores are
 * served again after vma_fork_adopt, once their pager is ready; the userfaultfds
 * from before must have been closed. vma_fork_end: no more come.
 */
void vma_fork_prepare(void);
void vma_fork_parent(void);
void vma_fork_child(void);
bool vma_fork_owns(const struct frames *fr);
void vma_fork_adopt(const struct frames *fr, _Atomic(int) *uffd, bool sleeps);
void vma_fork_end(void);

/* For fork.c. Under the lock: one more segment; @first: of a region that is not
 * in the map. 0 or -ENOMEM, -EMFILE. */
int vma_insert(const struct vseg *s, bool first);
/* Under the lock: to be freed when nobody looks at it any more. */
void vma_retire(struct retired *r);
/* A mapping that is to be paged. 0 or -errno. */
int vma_register(void *at, size_t len, int prot, _Atomic(int) *uffd);
/* The kernel's mapping of what [a, b) of the segment shows. 0 or -errno. */
long vma_map_file(const struct vseg *s, uintptr_t a, uintptr_t b);

/* Frees what can be freed. */
void vma_reap(void);

#endif
