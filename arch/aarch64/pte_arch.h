/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pte_arch.h - aarch64, 4 KiB granule.
 *
 * Arm ARM (DDI 0487), "VMSAv8-64 descriptor formats", stage 1 Page descriptor
 * at level 3: bits 1:0 = 0b11, AttrIndx 4:2, NS 5, AP[2:1] 7:6 (AP[1]: EL0 may
 * access; AP[2]: read-only), SH 9:8, AF 10, nG 11, output address 47:12,
 * DBM 51, Contiguous 52, PXN 53, UXN 54, software 58:55. With bit 0 = 0 the
 * other 63 bits are ignored.
 *
 * Dirty is a software bit: the hardware mechanism (DBM) is optional and says
 * dirty by clearing AP[2].
 */
#ifndef FL_ARCH_PTE_ARCH_H
#define FL_ARCH_PTE_ARCH_H

#include <stdint.h>

/* Tables have the byte order of SCTLR_ELx.EE, which is that of the program. */
ARCH_PTE_TYPES(64, ARCH_PTE_HOST_ENDIAN);

#define ARCH_PT_LEVELS 4
#define ARCH_PT_INDEX_BITS 9
#define ARCH_PT_VA_BITS 48

#define ARCH_HAS_CMPXCHG 1

#define ARCH_PTE_EMPTY ((pteval_t)0)
#define ARCH_PTE_PRESENT ((pteval_t)1 << 0)
#define ARCH_PTE_RW ((pteval_t)0)
#define ARCH_PTE_RO ((pteval_t)1 << 7)
#define ARCH_PTE_YOUNG ((pteval_t)1 << 10)
#define ARCH_PTE_DIRTY ((pteval_t)1 << 55)
#define ARCH_PTE_SOFT0 ((pteval_t)1 << 56)
#define ARCH_PTE_SOFT1 ((pteval_t)1 << 57)
/* Page descriptor, EL0, inner shareable, not global, never executed. */
#define ARCH_PTE_BASE                                             \
	((pteval_t)1 << 1 | (pteval_t)1 << 6 | (pteval_t)3 << 8 | \
	 (pteval_t)1 << 11 | (pteval_t)3 << 53)
#define ARCH_PTE_PFN_SHIFT 12
#define ARCH_PTE_PFN_MASK ((pteval_t)0x0000fffffffff000)

/*
 * One LDCLR (LSE), or an exclusive pair without a comparison. AF is no part of
 * the code of a not-present entry.
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
