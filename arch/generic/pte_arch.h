/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pte_arch.h - the neutral entry, for targets without a codec of their own.
 *
 * One word of the target's size, in the target's byte order:
 *   bit 0 present, 1 writable, 2 young, 3 dirty, 4-5 software, 12.. frame.
 * A 32-bit target gets 32-bit entries, so that it never needs a double-width
 * compare-and-swap.
 *
 * This file is read by mem/pte.h only, which explains the names.
 */
#ifndef FL_ARCH_PTE_ARCH_H
#define FL_ARCH_PTE_ARCH_H

#include <stdint.h>

#if UINTPTR_MAX > 0xffffffffu
ARCH_PTE_TYPES(64, ARCH_PTE_HOST_ENDIAN);
#define ARCH_PT_LEVELS 4
#define ARCH_PT_INDEX_BITS 9
#define ARCH_PT_VA_BITS 48
#else
ARCH_PTE_TYPES(32, ARCH_PTE_HOST_ENDIAN);
#define ARCH_PT_LEVELS 2
#define ARCH_PT_INDEX_BITS 10
#define ARCH_PT_VA_BITS 32
#endif

#ifndef ARCH_HAS_CMPXCHG
#define ARCH_HAS_CMPXCHG 1
#endif

#define ARCH_PTE_EMPTY ((pteval_t)0)
#define ARCH_PTE_PRESENT ((pteval_t)1 << 0)
#define ARCH_PTE_RW ((pteval_t)1 << 1)
#define ARCH_PTE_RO ((pteval_t)0)
#define ARCH_PTE_YOUNG ((pteval_t)1 << 2)
#define ARCH_PTE_DIRTY ((pteval_t)1 << 3)
#define ARCH_PTE_SOFT0 ((pteval_t)1 << 4)
#define ARCH_PTE_SOFT1 ((pteval_t)1 << 5)
#define ARCH_PTE_BASE ((pteval_t)0)
#define ARCH_PTE_PFN_SHIFT 12
#define ARCH_PTE_PFN_MASK (~(pteval_t)0xfff)

#endif
