/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pte_arch.h - riscv64, Sv39.
 *
 * RISC-V privileged architecture, "Sv39: Page-Based 39-bit Virtual-Memory
 * System", figure "Sv39 page table entry": V 0, R 1, W 2, X 3, U 4, G 5, A 6,
 * D 7, RSW 9:8 (for software), PPN 53:10, reserved 60:54, PBMT 62:61, N 63.
 * With V = 0 the other 63 bits are free for software. The frame number starts
 * at bit 10, not at the page shift.
 */
#ifndef FL_ARCH_PTE_ARCH_H
#define FL_ARCH_PTE_ARCH_H

#include <stdint.h>

ARCH_PTE_TYPES(64, ARCH_PTE_LITTLE_ENDIAN);

#define ARCH_PT_LEVELS 3
#define ARCH_PT_INDEX_BITS 9
#define ARCH_PT_VA_BITS 39

#define ARCH_HAS_CMPXCHG 1

#define ARCH_PTE_EMPTY ((pteval_t)0)
#define ARCH_PTE_PRESENT ((pteval_t)1 << 0)
#define ARCH_PTE_RW ((pteval_t)1 << 2)
#define ARCH_PTE_RO ((pteval_t)0)
#define ARCH_PTE_YOUNG ((pteval_t)1 << 6)
#define ARCH_PTE_DIRTY ((pteval_t)1 << 7)
/* RSW: all the software bits there are. */
#define ARCH_PTE_SOFT0 ((pteval_t)1 << 8)
#define ARCH_PTE_SOFT1 ((pteval_t)1 << 9)
/* R and U: without R, W is a reserved combination. */
#define ARCH_PTE_BASE ((pteval_t)1 << 1 | (pteval_t)1 << 4)
#define ARCH_PTE_PFN_SHIFT 10
#define ARCH_PTE_PFN_MASK ((pteval_t)0x003ffffffffffc00)

/*
 * One AMOAND. A is no part of the code of a not-present entry.
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
