/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pager.h - the pager inside: what the files of api/ share.
 *
 * Who does what: init.c opens, closes and forks pagers; map.c maps and unmaps;
 * policy.c, cold.c and learn.c decide what is taken; region.c changes regions in place (demotion,
 * claims, restores); advise.c and remap.c are the other calls; default.c and
 * dropin.c the default pager and the errno-setting entries.
 */
#ifndef FL_API_PAGER_H
#define FL_API_PAGER_H

#include "faultline.h"

#include "base/base.h"
#include "base/conf.h"
#include "base/stat.h"
#include "fault/frames.h"
#include "fault/vma.h"
#include "mem/extent.h"
#include "mem/fork.h"
#include "mem/pgtable.h"
#include "mem/slab.h"
#include "cpu_arch.h"

#define FL_MAX_PAGERS 16

/* Verdicts on file systems. */
struct policy {
	/* st_dev << 2 | 2 | ordinary; 0 empty. Relaxed: each word is complete
	 * by itself. */
	_Atomic(uint64_t) fs[16];
};

/* A kernel mapping under observation. */
struct sample {
	_Atomic(uintptr_t) addr; /* 0 free; odd while it is being set up */
	uint32_t ns;             /* its mmap took */
	uint32_t pages;
	enum arena_kind kind;
	uint32_t tid; /* who made it, and its faults until then */
	uint64_t faults;
};

/* What learn.c knows, for each size class. Relaxed: estimates. */
struct learn {
	_Atomic(uint32_t) seen[NR_ARENAS][EXT_NR_CLASSES];
	_Atomic(uint32_t) touched[EXT_NR_CLASSES];     /* anonymous, 1/256 */
	_Atomic(uint32_t) cost_here[EXT_NR_CLASSES];   /* files, ns */
	_Atomic(uint32_t) cost_kernel[EXT_NR_CLASSES]; /* files, ns */
	_Atomic(uint32_t) samples;                     /* in use */
	struct sample sample[64];
};

/* What demand regions need, made with the first one. */
struct demand {
	_Atomic(uint32_t) ready;
	struct fl_lock lock; /* LOCK_DEMAND: making it */
	struct frames frames;
	/* The system has no userfaultfd for us. Relaxed: saves asking. */
	_Atomic(bool) refused;
	int delivery; /* enum delivery, or -errno */
	bool preload; /* the program does not know of it */
};

struct fl_pager {
	struct ext_pool pool[NR_ARENAS];
	struct pgtable pt[NR_ARENAS];
	struct conf conf;
	/* 0 in a child of fork until it has taken the pager over
	 * (MADV_WIPEONFORK): it shares frames with its parent and must not
	 * fill any. See pager_settle. */
	_Atomic(uint32_t) *cookie;
	struct stats stats;
	struct ext_budget budget;
	struct policy policy;
	struct learn learn;
	struct slab slab;
	struct demand demand;
	/* Milliseconds; relaxed: paces, no more. */
	_Atomic(uint64_t) last_hard_trim;
	bool permanent; /* the default pager: never closed */
	bool publish;   /* offer the counters when the first region is served */
	bool usable;    /* false in a child that could not take its copy */
	bool adopt;     /* a child that has yet to take over; adopt_lock */
	struct fl_lock adopt_lock; /* LOCK_ADOPT */
};

/* init.c */
int pager_init(struct fl_pager *p);
void pager_destroy(struct fl_pager *p);

/* Registers with the fork handlers. Returns 0 or -EMFILE. */
int pager_enlist(struct fl_pager *p);
void pager_delist(struct fl_pager *p);

/* Idle memory goes back when there is too much of it; @hard: all of it. */
uint64_t pager_trim(struct fl_pager *p, bool hard);

/* May this process fill frames? */
static inline bool pager_mine(const struct fl_pager *p)
{
	/* [MO:cookie] pairs with pager_adopt: the pager is rebuilt. */
	return likely(ld_acq(p->cookie) != 0) && likely(p->usable);
}

/*
 * A child of fork takes the pager over when it first needs it: most children
 * exec and never do. Every entry that changes a region or the stacks comes by
 * here first. (A child no handler has seen never takes over.)
 */
FL_COLD void pager_adopt(struct fl_pager *p);

static inline void pager_settle(struct fl_pager *p)
{
	/* [MO:cookie] pairs with pager_adopt: the pager is rebuilt. */
	if (unlikely(ld_acq(p->cookie) == 0))
		pager_adopt(p);
}

/* policy.c */
struct file_id {
	uint64_t ino;
	uint64_t size;
	uint32_t dev;
};

enum take {
	TAKE_NOT,
	TAKE_FILE, /* read-only file region */
	TAKE_COPY, /* writable private file region */
	TAKE_ANON,
	TAKE_DEMAND, /* demand region, if it is to be one; map.c */
};

/* What the arguments alone decide. */
enum take policy_args(const struct fl_pager *p, const void *addr, size_t len,
		      int prot, int flags, int64_t off);
/* Is the descriptor one of a file we take? Fills @id. */
bool policy_file(struct fl_pager *p, int fd, size_t len, int64_t off,
		 struct file_id *id);

/* cold.c: is most of that range of the file not in the page cache? */
bool policy_cold(int fd, uint64_t off, size_t len);

/* learn.c */

/* How a mapping is watched, from learn_eager to learn_here or learn_kernel. */
struct watch {
	enum {
		WATCH_NOT,
		WATCH_HERE,
		WATCH_KERNEL,
	} how;
	enum arena_kind kind;
	uint32_t pages;
	uint64_t start; /* ns */
};

/* Is reading or zeroing @pages whole cheaper than faults? May ask for the
 * mapping to be watched: @w, zeroed by the caller. */
bool learn_eager(struct fl_pager *p, enum arena_kind kind, uint32_t pages,
		 struct watch *w);
/* A WATCH_HERE mapping was made. */
void learn_here(struct fl_pager *p, const struct watch *w);
/* A WATCH_KERNEL mapping is about to be made; was made at @addr. */
void learn_start(struct watch *w);
void learn_kernel(struct fl_pager *p, const struct watch *w, void *addr);
/* munmap outside of the arenas. 0 or -errno. */
long learn_unmap(struct fl_pager *p, char *addr, size_t len);
/* A resident anonymous region of the caller's is gone: how much of it did the
 * program use? */
void learn_probe(struct fl_pager *p, const char *addr, uint32_t pages);

/* region.c */
enum seg_kind {
	SEG_OUTSIDE, /* no arena */
	SEG_NONE,    /* arena, but nothing of the program's */
	SEG_PRESENT, /* part of a resident region */
	SEG_KERNEL,  /* the program's kernel mapping inside of an arena */
};

/* A piece of an address range of one kind, within one extent. */
struct seg {
	char *addr;
	size_t len;
	enum seg_kind kind;
	enum arena_kind arena;
	struct extent *e; /* NULL: outside, or a chunk that is not ours */
	bool demoted;     /* SEG_KERNEL that was part of a region */
	uint32_t page;
	uint32_t n;
};

/* Payload of KERNEL entries: the bytes are a region's own. */
#define PAYLOAD_DEMOTED 1u

/* The piece that starts at @addr, not past @end. */
void seg_get(struct fl_pager *p, char *addr, char *end, struct seg *s);

/* No address of a program is higher. Ranges that reach beyond go to the kernel
 * as they are, which refuses them whole. */
#ifndef ARCH_USER_BITS
#define ARCH_USER_BITS (sizeof(size_t) == 8 ? 48 : 32)
#endif
#define USER_MAX (SIZE_MAX >> (8 * sizeof(size_t) - ARCH_USER_BITS))

/* Aligned, not empty, and within what a program can have? @len is rounded. */
static inline bool range_valid(const void *addr, size_t len)
{
	uintptr_t a = (uintptr_t)addr;

	return page_aligned(a) && len != 0 && a <= USER_MAX &&
	       len <= USER_MAX - a;
}

/* Does any of the range lie in an arena? */
bool pager_touches(const struct fl_pager *p, const void *addr, size_t len);

/* SEG_PRESENT -> a kernel mapping with the same bytes. 0 or -ENOMEM. */
int region_demote(struct fl_pager *p, struct seg *s);
/* The bytes a file region was mapped with, of a piece that is SEG_PRESENT or
 * demoted; they stay until the whole region is unmapped. */
const char *region_pristine(struct fl_pager *p, const struct seg *s);
/* Unmaps a piece of an arena, whatever it is. */
int region_unmap(struct fl_pager *p, struct seg *s);
/* mmap(MAP_FIXED) over a range that touches an arena. */
void *region_map_over(struct fl_pager *p, void *addr, size_t len, int prot,
		      int flags, int fd, int64_t off);
/* Prepares a range that the kernel will map something over by itself. */
int region_claim(struct fl_pager *p, char *addr, size_t len);
/* The claim's mapping was not made after all. */
void region_unclaim(struct fl_pager *p, char *addr, size_t len);

/* demand.c */

/* A demand region for a mapping the program asked mmap(2) for. NULL: no. */
void *demand_map(struct fl_pager *p, int fd, int64_t off, size_t len, int prot);
/* Could there be one? Cheap. */
static inline bool demand_possible(const struct fl_pager *p)
{
	return !ld_rlx(&p->demand.refused);
}
/* madvise on a range that may touch demand regions. */
long demand_advise(struct fl_pager *p, char *addr, size_t len, int advice);
/* msync: written pages of the range go to their stores. */
long demand_sync(char *addr, size_t len, int flags);
/* Before the kernel changes a range in a way the pager does not do itself:
 * what is a demand region there becomes a mapping of its file. 0 or -ENOMEM. */
int demand_hand_over(struct fl_pager *p, const void *addr, size_t len);
void demand_fork_child(struct fl_pager *p);
void demand_destroy(struct fl_pager *p);
/* Are there regions? */
bool demand_live(const struct fl_pager *p);

/* map.c */
void *kernel_map(struct fl_pager *p, void *addr, size_t len, int prot,
		 int flags, int fd, int64_t off);
struct extent *map_anon_extent(struct fl_pager *p, uint32_t pages);
int pager_unmap(struct fl_pager *p, void *addr, size_t len);

#endif
