/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pte_arch.h - i386 with PAE paging: 64-bit entries on a 32-bit CPU.
 *
 * Intel SDM vol. 3A, chapter "Paging", table "Format of a PAE Page-Table Entry
 * that Maps a 4-KByte Page" (table 4-11): P 0, R/W 1, U/S 2, PWT 3, PCD 4, A 5,
 * D 6, PAT 7, G 8, ignored 11:9, address M-1:12 (M at most 52), XD 63. With
 * P = 0 the other 63 bits are ignored. The top level has 4 entries.
 *
 * An update needs a compare-and-swap of twice the word size, CMPXCHG8B, which
 * the Pentium brought. Built for less, or with -DARCH_HAS_CMPXCHG=0, every
 * update takes the lock of the region, see mem/pte.h; loads and stores of an
 * entry are still atomic.
 */
#ifndef FL_ARCH_PTE_ARCH_H
#define FL_ARCH_PTE_ARCH_H

#include <stdint.h>

ARCH_PTE_TYPES(64, ARCH_PTE_LITTLE_ENDIAN);

#define ARCH_PT_LEVELS 3
#define ARCH_PT_INDEX_BITS 9
#define ARCH_PT_VA_BITS 32

#ifndef ARCH_HAS_CMPXCHG
#ifdef __GCC_HAVE_SYNC_COMPARE_AND_SWAP_8
#define ARCH_HAS_CMPXCHG 1
#else
#define ARCH_HAS_CMPXCHG 0
#endif
#endif

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

#endif
