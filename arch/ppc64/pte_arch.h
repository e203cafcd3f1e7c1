/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pte_arch.h - ppc64, radix translation.
 *
 * Power ISA v3.0B, book III, "Radix Tree Translation", figure "Radix Tree Page
 * Table Entry", bits numbered from the left: V 0, L (leaf) 1, SW 2, RPN up to
 * 51, SW 52:54, R 55, C 56, ATT 58:59, EAA 60:63 (privileged, read, read/write,
 * execute). Numbered from the right: V 63, L 62, RPN from 12, SW 11:9, R 8,
 * C 7, EAA 3:0. With V = 0 the other 63 bits are free for software. Of the frame
 * number bits 8:51 are used, which no version gives another meaning.
 *
 * The tree is big-endian under little-endian programs as well. The hardware has
 * 13 index bits at the top and 9 below; the shadow table has 9 everywhere.
 */
#ifndef FL_ARCH_PTE_ARCH_H
#define FL_ARCH_PTE_ARCH_H

#include <stdint.h>

ARCH_PTE_TYPES(64, ARCH_PTE_BIG_ENDIAN);

#define ARCH_PT_LEVELS 4
#define ARCH_PT_INDEX_BITS 9
#define ARCH_PT_VA_BITS 48

#define ARCH_HAS_CMPXCHG 1

#define ARCH_PTE_EMPTY ((pteval_t)0)
#define ARCH_PTE_PRESENT ((pteval_t)1 << 63)
#define ARCH_PTE_RW ((pteval_t)1 << 1)
#define ARCH_PTE_RO ((pteval_t)0)
#define ARCH_PTE_YOUNG ((pteval_t)1 << 8)
#define ARCH_PTE_DIRTY ((pteval_t)1 << 7)
#define ARCH_PTE_SOFT0 ((pteval_t)1 << 11)
#define ARCH_PTE_SOFT1 ((pteval_t)1 << 10)
/* Leaf, readable, not privileged. */
#define ARCH_PTE_BASE ((pteval_t)1 << 62 | (pteval_t)1 << 2)
#define ARCH_PTE_PFN_SHIFT 12
#define ARCH_PTE_PFN_MASK ((pteval_t)0x00fffffffffff000)

/*
 * A reservation pair without a comparison. R is no part of the code of a
 * not-present entry, and the mask is turned as the entry is.
 */
#define ptep_test_and_clear_young ptep_test_and_clear_young
static inline bool ptep_test_and_clear_young(struct fl_lock *region,
					     struct pte_slot *slot)
{
	const pteval_t young = pte_mem(ARCH_PTE_YOUNG);

	(void)region;
	if (!(ld_rlx(&slot->v) & young))
		return false;
	/* Relaxed: the bit is a hint and publishes nothing. */
	return (and_rlx(&slot->v, ~young) & young) != 0;
}

#endif
