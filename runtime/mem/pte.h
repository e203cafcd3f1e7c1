/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pte.h - one entry of the shadow page table: values, states, slots.
 *
 * A *value* (pte_t) is a plain word; a *slot* (struct pte_slot) is the atomic
 * word in a table, which only ptep_* functions touch. Present values have the
 * bit layout of the target's hardware, from arch/<isa>/pte_arch.h.
 *
 * States, and who moves an entry out of each:
 *   PTE_NONE     not mapped; the zero word on every codec, because tables come
 *                zeroed. Left by the mapper, which owns the extent.
 *   PTE_FILE     mapped, never filled. Left by whoever wins the claim.
 *   PTE_BUSY     claimed: only the winner of the claim writes it (pte_unlock,
 *                ptep_set_rel). Other threads wait or fail; the exchanging
 *                operations must not be used on an entry that may be BUSY.
 *   PTE_CACHED   frame valid, not in the user view. Left by a claim.
 *   PTE_POISON   the fill failed; the payload is the errno. Left by unmap.
 *   PTE_KERNEL   demoted: a real kernel mapping lies here. Left by unmap.
 *   PTE_PRESENT  frame in the user view; may also be young, dirty, writable.
 *
 * Encoding: a present entry has ARCH_PTE_PRESENT. The others have it clear and
 * keep the state (3 bits) and a payload (16 bits) in the frame-number field, so
 * that they set no bit which means something else: clearing the young or the
 * write bit of an entry that was unmapped meanwhile changes nothing. Where the
 * hardware's empty entry is not zero (s390x has an *invalid* bit), the shadow
 * word is the hardware's word XOR ARCH_PTE_EMPTY; pte_to_hw() gives the latter.
 * Words are kept in the byte order the ISA prescribes (ppc64's radix tree is
 * big-endian under little-endian programs too).
 *
 * Ordering: ptep_set_rel, ptep_set and pte_unlock release what was done to the
 * page before; ptep_get acquires it. The read-modify-write operations do both,
 * a failed ptep_cmpxchg acquires. ptep_test_and_clear_young promises no order.
 * No operation flushes a translation, except ptep_xchg_flush.
 *
 * Progress: all but pte_lock are lock-free (ptep_get, ptep_set_rel wait-free)
 * on codecs with compare-and-swap on a whole entry (ARCH_HAS_CMPXCHG). On
 * others every update takes the region's lock for a few instructions, plain
 * ones included; readers never do. s390x takes it for the exchanging
 * operations. Therefore: `region` is never NULL, all updaters of one slot pass
 * the same lock, and none of them holds it already.
 *
 * Reclaim: a slot lives as long as its table; see mem/pgtable.h.
 */
#ifndef FL_MEM_PTE_H
#define FL_MEM_PTE_H

#include "base/base.h"
#include "base/lock.h"
#include "base/order.h"
#include "base/sys.h"
#include "cpu_arch.h"

enum pte_state {
	PTE_NONE = 0,
	PTE_FILE,
	PTE_BUSY,
	PTE_CACHED,
	PTE_POISON,
	PTE_KERNEL,
	PTE_PRESENT,
};

/* Protection of a present entry, and the two software bits. */
#define PTE_R 1u
#define PTE_W 2u
#define PTE_SOFT0 1u
#define PTE_SOFT1 2u

/*
 * What pte_arch.h may use: the names of base/order.h, ARCH_PTE_TYPES, pte_mem,
 * PTE_CODE and the region's lock. It defines
 *  - facts: every ARCH_* name used below; no default exists;
 *  - capabilities: ARCH_HAS_CMPXCHG, 0 or 1, tested with a plain `if`;
 *  - operations, if it has something better than the ones below: an inline
 *    function and a macro of the same name.
 */
#define ARCH_PTE_LITTLE_ENDIAN 0
#define ARCH_PTE_BIG_ENDIAN 1
#define ARCH_PTE_HOST_ENDIAN (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)

/* Types for entries of `bits` bits; pte_mem() converts between a value and the
 * word in memory, either way. */
#define ARCH_PTE_TYPES(bits, endian)                  \
	typedef uint##bits##_t pteval_t;              \
	typedef struct {                              \
		pteval_t v;                           \
	} pte_t;                                      \
	struct pte_slot {                             \
		_Atomic(pteval_t) v;                  \
	};                                            \
	static inline pteval_t pte_mem(pteval_t v)    \
	{                                             \
		if ((endian) == ARCH_PTE_HOST_ENDIAN) \
			return v;                     \
		return __builtin_bswap##bits(v);      \
	}                                             \
	struct pte_slot

#define PTE_STATE_BITS 3
#define PTE_PAYLOAD_BITS 16
#define PTE_STATE_MASK ((1u << PTE_STATE_BITS) - 1)
#define PTE_PAYLOAD_MAX ((1u << PTE_PAYLOAD_BITS) - 1)
#define PTE_CODE(state, payload)                                       \
	((pteval_t)((unsigned int)(state) | (unsigned int)(payload)    \
						    << PTE_STATE_BITS) \
	 << ARCH_PTE_PFN_SHIFT)

/* Overridable by a test only, which shows what happens without them. */
#ifndef arch_region_lock
static inline void arch_region_lock(struct fl_lock *region)
{
	lock_take(region);
}

static inline void arch_region_unlock(struct fl_lock *region)
{
	lock_drop(region);
}
#endif

#include "pte_arch.h"

#define ARCH_PTE_SOFT_MASK (ARCH_PTE_SOFT0 | ARCH_PTE_SOFT1)

_Static_assert(ARCH_PTE_PRESENT != 0 &&
		       (ARCH_PTE_PRESENT & (ARCH_PTE_PRESENT - 1)) == 0,
	       "one bit tells present entries");
_Static_assert((ARCH_PTE_EMPTY & ~ARCH_PTE_PRESENT) == 0,
	       "the empty entry differs from zero in the present bit only");
_Static_assert((ARCH_PTE_RW | ARCH_PTE_RO) != 0 && ARCH_PTE_YOUNG != 0 &&
		       ARCH_PTE_DIRTY != 0 && ARCH_PTE_SOFT0 != 0 &&
		       ARCH_PTE_SOFT1 != 0,
	       "no bit is missing");
_Static_assert((ARCH_PTE_PRESENT | ARCH_PTE_RW | ARCH_PTE_RO | ARCH_PTE_YOUNG |
		ARCH_PTE_DIRTY | ARCH_PTE_SOFT0 | ARCH_PTE_SOFT1 |
		ARCH_PTE_BASE | ARCH_PTE_PFN_MASK) ==
		       (ARCH_PTE_PRESENT + ARCH_PTE_RW + ARCH_PTE_RO +
			ARCH_PTE_YOUNG + ARCH_PTE_DIRTY + ARCH_PTE_SOFT0 +
			ARCH_PTE_SOFT1 + ARCH_PTE_BASE + ARCH_PTE_PFN_MASK),
	       "masks are disjoint");
_Static_assert(((ARCH_PTE_PFN_MASK >> ARCH_PTE_PFN_SHIFT) &
		((ARCH_PTE_PFN_MASK >> ARCH_PTE_PFN_SHIFT) + 1)) == 0 &&
		       (ARCH_PTE_PFN_MASK >> ARCH_PTE_PFN_SHIFT)
				       << ARCH_PTE_PFN_SHIFT ==
			       ARCH_PTE_PFN_MASK,
	       "the frame number is one run of bits");
_Static_assert(
	(PTE_CODE(PTE_STATE_MASK, PTE_PAYLOAD_MAX) & ~ARCH_PTE_PFN_MASK) == 0 &&
		PTE_CODE(PTE_STATE_MASK, PTE_PAYLOAD_MAX) >>
				ARCH_PTE_PFN_SHIFT ==
			(PTE_STATE_MASK | PTE_PAYLOAD_MAX << PTE_STATE_BITS),
	"state and payload fit the frame-number field");
_Static_assert(PTE_CODE(PTE_NONE, 0) == 0, "none is the zero word");
_Static_assert(PTE_PAYLOAD_MAX >= FL_MAX_ERRNO, "an errno is a payload");
_Static_assert(sizeof(struct pte_slot) == sizeof(pteval_t) &&
		       sizeof(struct pte_slot) << ARCH_PT_INDEX_BITS ==
			       FL_PAGE_SIZE,
	       "a table is one page");
_Static_assert(FL_PAGE_SHIFT + ARCH_PT_LEVELS * ARCH_PT_INDEX_BITS >=
			       ARCH_PT_VA_BITS &&
		       FL_PAGE_SHIFT + (ARCH_PT_LEVELS - 1) *
					       ARCH_PT_INDEX_BITS <
			       ARCH_PT_VA_BITS,
	       "the levels cover the address, none is superfluous");
_Static_assert(ARCH_HAS_CMPXCHG == 0 || ARCH_HAS_CMPXCHG == 1,
	       "a capability is 0 or 1");

/* Values. */

static inline bool pte_present(pte_t e)
{
	return (e.v & ARCH_PTE_PRESENT) != 0;
}

static inline enum pte_state pte_state(pte_t e)
{
	if (pte_present(e))
		return PTE_PRESENT;
	return (enum pte_state)((e.v >> ARCH_PTE_PFN_SHIFT) & PTE_STATE_MASK);
}

static inline bool pte_none(pte_t e)
{
	return e.v == 0;
}

/* Of an entry that is not present: what pte_mk_state() was given. */
static inline unsigned int pte_payload(pte_t e)
{
	return (unsigned int)(e.v >> (ARCH_PTE_PFN_SHIFT + PTE_STATE_BITS)) &
	       PTE_PAYLOAD_MAX;
}

static inline pte_t pte_mk_state(enum pte_state state, unsigned int payload)
{
	fl_assert(state < PTE_PRESENT && payload <= PTE_PAYLOAD_MAX);
	fl_assert(state != PTE_NONE || payload == 0);
	return (pte_t){ PTE_CODE(state, payload) };
}

static inline bool pte_write(pte_t e)
{
	return pte_present(e) &&
	       (e.v & (ARCH_PTE_RW | ARCH_PTE_RO)) == ARCH_PTE_RW;
}

static inline pte_t pte_mkwrite(pte_t e)
{
	return (pte_t){ (e.v & ~ARCH_PTE_RO) | ARCH_PTE_RW };
}

static inline pte_t pte_wrprotect(pte_t e)
{
	return (pte_t){ (e.v & ~ARCH_PTE_RW) | ARCH_PTE_RO };
}

/* A present entry, old and clean. `prot` is PTE_R, or PTE_R | PTE_W. */
static inline pte_t pte_mk_present(uint64_t pfn, unsigned int prot)
{
	pte_t e = { ((pteval_t)pfn << ARCH_PTE_PFN_SHIFT) | ARCH_PTE_PRESENT |
		    ARCH_PTE_BASE };

	fl_assert((prot & PTE_R) && !(prot & ~(PTE_R | PTE_W)));
	fl_assert(pfn <= ARCH_PTE_PFN_MASK >> ARCH_PTE_PFN_SHIFT);
	return prot & PTE_W ? pte_mkwrite(e) : pte_wrprotect(e);
}

static inline uint64_t pte_pfn(pte_t e)
{
	return (e.v & ARCH_PTE_PFN_MASK) >> ARCH_PTE_PFN_SHIFT;
}

static inline bool pte_young(pte_t e)
{
	return (e.v & ARCH_PTE_YOUNG) != 0;
}

static inline pte_t pte_mkyoung(pte_t e)
{
	return (pte_t){ e.v | ARCH_PTE_YOUNG };
}

static inline pte_t pte_mkold(pte_t e)
{
	return (pte_t){ e.v & ~ARCH_PTE_YOUNG };
}

static inline bool pte_dirty(pte_t e)
{
	return (e.v & ARCH_PTE_DIRTY) != 0;
}

static inline pte_t pte_mkdirty(pte_t e)
{
	return (pte_t){ e.v | ARCH_PTE_DIRTY };
}

static inline pte_t pte_mkclean(pte_t e)
{
	return (pte_t){ e.v & ~ARCH_PTE_DIRTY };
}

/* The software bits of a present entry, as PTE_SOFT0 | PTE_SOFT1. */
static inline unsigned int pte_soft(pte_t e)
{
	return (e.v & ARCH_PTE_SOFT0 ? PTE_SOFT0 : 0) |
	       (e.v & ARCH_PTE_SOFT1 ? PTE_SOFT1 : 0);
}

static inline pte_t pte_mksoft(pte_t e, unsigned int bits)
{
	pteval_t v = e.v & ~ARCH_PTE_SOFT_MASK;

	if (bits & PTE_SOFT0)
		v |= ARCH_PTE_SOFT0;
	if (bits & PTE_SOFT1)
		v |= ARCH_PTE_SOFT1;
	return (pte_t){ v };
}

/* The word the hardware would hold for this entry, and back. */
static inline pteval_t pte_to_hw(pte_t e)
{
	return e.v ^ ARCH_PTE_EMPTY;
}

static inline pte_t pte_from_hw(pteval_t hw)
{
	return (pte_t){ hw ^ ARCH_PTE_EMPTY };
}

/* Slots. */

static inline pte_t ptep_get(struct pte_slot *slot)
{
	/* [MO:pte-publish] pairs with ptep_set_rel, ptep_set: the page is as
	 * its filler left it. */
	return (pte_t){ pte_mem(ld_acq(&slot->v)) };
}

static inline pte_t ptep_get_rlx(struct pte_slot *slot)
{
	return (pte_t){ pte_mem(ld_rlx(&slot->v)) };
}

/*
 * Store by the only possible updater: the owner of a BUSY entry, or of the
 * whole extent. It takes no lock on any codec; see ptep_set.
 */
static inline void ptep_set_rel(struct pte_slot *slot, pte_t e)
{
	/* [MO:pte-publish] pairs with ptep_get: publishes the page. */
	st_rel(&slot->v, pte_mem(e.v));
}

/*
 * Store against concurrent read-modify-writes by others. Where those are a load
 * and a store under the region's lock, this takes it too, or they would undo
 * it.
 */
#ifndef ptep_set
static inline void ptep_set(struct fl_lock *region, struct pte_slot *slot,
			    pte_t e)
{
	if (!ARCH_HAS_CMPXCHG)
		arch_region_lock(region);
	ptep_set_rel(slot, e);
	if (!ARCH_HAS_CMPXCHG)
		arch_region_unlock(region);
}
#endif

/* True if *slot was *old and is now `e`; otherwise *old is what was found. */
#ifndef ptep_cmpxchg
static inline bool ptep_cmpxchg(struct fl_lock *region, struct pte_slot *slot,
				pte_t *old, pte_t e)
{
	pteval_t want = pte_mem(old->v);
	pteval_t found = want;
	bool done;

	if (ARCH_HAS_CMPXCHG) {
		/* [MO:pte-claim] pairs with the claims and clears of others,
		 * and with the loads and stores of [MO:pte-publish]. */
		done = cas_acq_rel_acq(&slot->v, &found, pte_mem(e.v));
	} else {
		arch_region_lock(region);
		found = pte_mem(ptep_get(slot).v);
		done = found == want;
		if (done)
			ptep_set_rel(slot, e);
		arch_region_unlock(region);
	}
	old->v = pte_mem(found);
	return done;
}
#endif

#ifndef ptep_xchg
static inline pte_t ptep_xchg(struct fl_lock *region, struct pte_slot *slot,
			      pte_t e)
{
	pte_t old;

	if (ARCH_HAS_CMPXCHG) {
		/* [MO:pte-claim] as in ptep_cmpxchg. */
		old.v = pte_mem(xchg_acq_rel(&slot->v, pte_mem(e.v)));
	} else {
		arch_region_lock(region);
		old = ptep_get(slot);
		ptep_set_rel(slot, e);
		arch_region_unlock(region);
	}
	return old;
}
#endif

/*
 * Exchange, then have `flush` (unless NULL) remove the old translation from
 * the user view if there was one. An override may call it between taking the
 * old entry and storing the new one, with the region's lock held.
 */
#ifndef ptep_xchg_flush
static inline pte_t ptep_xchg_flush(struct fl_lock *region,
				    struct pte_slot *slot, pte_t e,
				    void (*flush)(void *arg), void *arg)
{
	pte_t old = ptep_xchg(region, slot, e);

	if (pte_present(old) && flush)
		flush(arg);
	return old;
}
#endif

#ifndef ptep_get_and_clear
static inline pte_t ptep_get_and_clear(struct fl_lock *region,
				       struct pte_slot *slot)
{
	return ptep_xchg(region, slot, (pte_t){ 0 });
}
#endif

#ifndef ptep_test_and_clear_young
static inline bool ptep_test_and_clear_young(struct fl_lock *region,
					     struct pte_slot *slot)
{
	pte_t e = ptep_get_rlx(slot);

	while (pte_present(e) && pte_young(e)) {
		if (ptep_cmpxchg(region, slot, &e, pte_mkold(e)))
			return true;
	}
	return false;
}
#endif

/* True if the entry was present and writable, and now is not writable. */
#ifndef ptep_set_wrprotect
static inline bool ptep_set_wrprotect(struct fl_lock *region,
				      struct pte_slot *slot)
{
	pte_t e = ptep_get_rlx(slot);

	while (pte_present(e) && pte_write(e)) {
		if (ptep_cmpxchg(region, slot, &e, pte_wrprotect(e)))
			return true;
	}
	return false;
}
#endif

/* True if the entry was present and clean, and now is dirty. */
#ifndef ptep_mkdirty
static inline bool ptep_mkdirty(struct fl_lock *region, struct pte_slot *slot)
{
	pte_t e = ptep_get_rlx(slot);

	while (pte_present(e) && !pte_dirty(e)) {
		if (ptep_cmpxchg(region, slot, &e, pte_mkdirty(e)))
			return true;
	}
	return false;
}
#endif

/*
 * The lock of one entry is its BUSY state. pte_trylock claims the entry if it
 * is not BUSY and still is as it was read; *old is what was found. The owner
 * ends the claim with pte_unlock and the entry's new value, or the old one.
 */
#ifndef pte_trylock
static inline bool pte_trylock(struct fl_lock *region, struct pte_slot *slot,
			       pte_t *old)
{
	*old = ptep_get(slot);
	if (pte_state(*old) == PTE_BUSY)
		return false;
	return ptep_cmpxchg(region, slot, old, pte_mk_state(PTE_BUSY, 0));
}
#endif

/* Blocking: spins, then yields, until the entry is ours. The old value. */
#ifndef pte_lock
static inline pte_t pte_lock(struct fl_lock *region, struct pte_slot *slot)
{
	unsigned int turns = 0;
	pte_t old;

	while (!pte_trylock(region, slot, &old)) {
		if (++turns % 64)
			cpu_relax();
		else
			sys_sched_yield();
	}
	return old;
}
#endif

#ifndef pte_unlock
static inline void pte_unlock(struct fl_lock *region, struct pte_slot *slot,
			      pte_t e)
{
	fl_assert(pte_state(ptep_get_rlx(slot)) == PTE_BUSY);
	ptep_set(region, slot, e);
}
#endif

#endif
