/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pte_arch.h - x86_64, 4-level paging.
 *
 * Intel SDM vol. 3A, chapter "Paging", table "Format of a Page-Table Entry that
 * Maps a 4-KByte Page" of 4-level and 5-level paging (table 4-20; 4-19 in
 * editions before 5-level paging): P 0, R/W 1, U/S 2, PWT 3, PCD 4, A 5, D 6,
 * PAT 7, G 8, ignored 11:9, address 51:12, ignored 58:52, protection key 62:59,
 * XD 63. With P = 0 the other 63 bits are ignored (same chapter, figure on
 * entries that are not present).
 */
#ifndef FL_ARCH_PTE_ARCH_H
#define FL_ARCH_PTE_ARCH_H

#include <stdint.h>

ARCH_PTE_TYPES(64, ARCH_PTE_LITTLE_ENDIAN);

#define ARCH_PT_LEVELS 4
#define ARCH_PT_INDEX_BITS 9
#define ARCH_PT_VA_BITS 48

#define ARCH_HAS_CMPXCHG 1

#define ARCH_PTE_EMPTY ((pteval_t)0)
#define ARCH_PTE_PRESENT ((pteval_t)1 << 0)
#define ARCH_PTE_RW ((pteval_t)1 << 1)
#define ARCH_PTE_RO ((pteval_t)0)
#define ARCH_PTE_YOUNG ((pteval_t)1 << 5)
#define ARCH_PTE_DIRTY ((pteval_t)1 << 6)
#define ARCH_PTE_SOFT0 ((pteval_t)1 << 9)
#define ARCH_PTE_SOFT1 ((pteval_t)1 << 10)
/* U/S = user, XD = never executed. */
#define ARCH_PTE_BASE ((pteval_t)1 << 2 | (pteval_t)1 << 63)
#define ARCH_PTE_PFN_SHIFT 12
#define ARCH_PTE_PFN_MASK ((pteval_t)0x000ffffffffff000)

/*
 * One LOCK AND instead of a compare-and-swap loop. A is no part of the code of
 * a not-present entry, so that losing the race with an unmap changes nothing.
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
