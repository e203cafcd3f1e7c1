/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pte_arch.h - ia64: the layout only; nothing else of the project was built
 * there.
 *
 * Intel Itanium SDM vol. 2, "Translation Insertion Format" (figure 4-5; the
 * short VHPT format is the same): p 0, ma 4:2, a 5, d 6, pl 8:7, ar 11:9,
 * ppn 49:12, ed 52, ig 63:53 (for software). With p = 0 the other 63 bits are
 * for software. Access rights: 0 read, 2 read and write, at the privilege level
 * of pl and inside it.
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
/* ar = 2, with ar = 0 for read-only. */
#define ARCH_PTE_RW ((pteval_t)2 << 9)
#define ARCH_PTE_RO ((pteval_t)0)
#define ARCH_PTE_YOUNG ((pteval_t)1 << 5)
#define ARCH_PTE_DIRTY ((pteval_t)1 << 6)
#define ARCH_PTE_SOFT0 ((pteval_t)1 << 53)
#define ARCH_PTE_SOFT1 ((pteval_t)1 << 54)
/* Privilege level 3, write-back (ma = 0), exception deferral. */
#define ARCH_PTE_BASE ((pteval_t)3 << 7 | (pteval_t)1 << 52)
#define ARCH_PTE_PFN_SHIFT 12
#define ARCH_PTE_PFN_MASK ((pteval_t)0x0003fffffffff000)

#endif
