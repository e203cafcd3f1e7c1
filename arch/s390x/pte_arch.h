/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pte_arch.h - s390x.
 *
 * z/Architecture Principles of Operation, "Dynamic Address Translation", figure
 * of the page-table entry, bits numbered from the left: page-frame real address
 * 0:51, 52 zero, invalid (I) 53, protection (P) 54, instruction-execution
 * protection (IEP) 55, 56:63 for the program. Numbered from the right: address
 * from 12, I = 0x400, P = 0x200, IEP = 0x100, software 0xff. With I = 1 the
 * other bits are not looked at.
 *
 * An empty entry of the hardware has I = 1 and is not zero. The shadow word has
 * that one bit inverted (ARCH_PTE_EMPTY): set means valid, and zero is empty.
 * Reference and change are kept in storage keys, not in the entry, so young and
 * dirty are software bits.
 *
 * The hardware has page tables of 256 entries and upper tables of 2048; the
 * shadow table has 512 everywhere.
 */
#ifndef FL_ARCH_PTE_ARCH_H
#define FL_ARCH_PTE_ARCH_H

#include <stdint.h>

ARCH_PTE_TYPES(64, ARCH_PTE_BIG_ENDIAN);

#define ARCH_PT_LEVELS 4
#define ARCH_PT_INDEX_BITS 9
#define ARCH_PT_VA_BITS 48

#define ARCH_HAS_CMPXCHG 1

#define ARCH_PTE_EMPTY ((pteval_t)0x400)
#define ARCH_PTE_PRESENT ((pteval_t)0x400)
#define ARCH_PTE_RW ((pteval_t)0)
#define ARCH_PTE_RO ((pteval_t)0x200)
#define ARCH_PTE_YOUNG ((pteval_t)0x004)
#define ARCH_PTE_DIRTY ((pteval_t)0x008)
#define ARCH_PTE_SOFT0 ((pteval_t)0x040)
#define ARCH_PTE_SOFT1 ((pteval_t)0x080)
/* IEP = never executed. */
#define ARCH_PTE_BASE ((pteval_t)0x100)
#define ARCH_PTE_PFN_SHIFT 12
#define ARCH_PTE_PFN_MASK (~(pteval_t)0xfff)

/*
 * Invalidation (IPTE) comes before the change, not after: it finds the
 * translation to purge by the entry, which has to be the one in use. Between
 * the two steps the entry is BUSY. Claims and other compare-and-swaps fail on
 * that and need no lock; operations that store whatever they find (ptep_set,
 * ptep_xchg and ptep_get_and_clear, which is made of it) would be undone by the
 * second step, so that they take the lock of the region as well.
 */
#define ptep_set ptep_set
static inline void ptep_set(struct fl_lock *region, struct pte_slot *slot,
			    pte_t e)
{
	arch_region_lock(region);
	/* [MO:pte-publish] pairs with ptep_get: publishes the page. */
	st_rel(&slot->v, pte_mem(e.v));
	arch_region_unlock(region);
}

#define ptep_xchg ptep_xchg
static inline pte_t ptep_xchg(struct fl_lock *region, struct pte_slot *slot,
			      pte_t e)
{
	pte_t old;

	arch_region_lock(region);
	/* [MO:pte-claim] pairs with the claims and clears of others. */
	old.v = pte_mem(xchg_acq_rel(&slot->v, pte_mem(e.v)));
	arch_region_unlock(region);
	return old;
}

#define ptep_xchg_flush ptep_xchg_flush
static inline pte_t ptep_xchg_flush(struct fl_lock *region,
				    struct pte_slot *slot, pte_t e,
				    void (*flush)(void *arg), void *arg)
{
	pte_t old;

	arch_region_lock(region);
	/* [MO:pte-claim] pairs with the claims and clears of others. */
	old.v = pte_mem(xchg_acq_rel(&slot->v, pte_mem(PTE_CODE(PTE_BUSY, 0))));
	if ((old.v & ARCH_PTE_PRESENT) && flush)
		flush(arg);
	/* [MO:pte-publish] pairs with ptep_get. */
	st_rel(&slot->v, pte_mem(e.v));
	arch_region_unlock(region);
	return old;
}

#endif
