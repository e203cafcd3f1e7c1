/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pte_expect.h - whole page-table entries as the hardware has them, written
 * down from the architecture manuals, independently of arch/.
 *
 * For frame 0x12345, user, never executed, old and clean:
 *   EXPECT_RO, EXPECT_RW   read-only, and read and write
 * and the bits which one operation changes in it:
 *   EXPECT_YOUNG, _DIRTY, _SOFT0, _SOFT1
 *   EXPECT_EMPTY           the hardware's empty entry
 *   EXPECT_INVALID(w)      whether the hardware takes w for not present
 *   EXPECT_BITS, EXPECT_BIG  size, and whether it is big-endian in memory
 *   EXPECT_MAX_PFN         the largest frame number
 */
#ifndef TESTS_CROSS_PTE_EXPECT_H
#define TESTS_CROSS_PTE_EXPECT_H

#if defined(CODEC_x86_64)
/* Intel SDM vol. 3A, table 4-20: P 0x1, R/W 0x2, U/S 0x4, A 0x20, D 0x40,
 * ignored 0xe00, address from bit 12 to 51, XD bit 63. */
#define EXPECT_BITS 64
#define EXPECT_BIG 0
#define EXPECT_RO 0x8000000012345005
#define EXPECT_RW 0x8000000012345007
#define EXPECT_YOUNG 0x20
#define EXPECT_DIRTY 0x40
#define EXPECT_SOFT0 0x200
#define EXPECT_SOFT1 0x400
#define EXPECT_EMPTY 0
#define EXPECT_INVALID(w) (((w)&0x1) == 0)
#define EXPECT_MAX_PFN 0xffffffffff

#elif defined(CODEC_i386)
/* Intel SDM vol. 3A, table 4-6: as above in 32 bits, address 31:12, no XD. */
#define EXPECT_BITS 32
#define EXPECT_BIG 0
#define EXPECT_RO 0x12345005
#define EXPECT_RW 0x12345007
#define EXPECT_YOUNG 0x20
#define EXPECT_DIRTY 0x40
#define EXPECT_SOFT0 0x200
#define EXPECT_SOFT1 0x400
#define EXPECT_EMPTY 0
#define EXPECT_INVALID(w) (((w)&0x1) == 0)
#define EXPECT_MAX_PFN 0xfffff

#elif defined(CODEC_i386_pae)
/* Intel SDM vol. 3A, table 4-11. */
#define EXPECT_BITS 64
#define EXPECT_BIG 0
#define EXPECT_RO 0x8000000012345005
#define EXPECT_RW 0x8000000012345007
#define EXPECT_YOUNG 0x20
#define EXPECT_DIRTY 0x40
#define EXPECT_SOFT0 0x200
#define EXPECT_SOFT1 0x400
#define EXPECT_EMPTY 0
#define EXPECT_INVALID(w) (((w)&0x1) == 0)
#define EXPECT_MAX_PFN 0xffffffffff

#elif defined(CODEC_aarch64)
/* Arm ARM, VMSAv8-64 stage 1 Page descriptor, 4 KiB granule: type 0x3, AP[1]
 * 0x40, AP[2] 0x80 (read-only), SH inner 0x300, AF 0x400, nG 0x800, PXN bit 53,
 * UXN bit 54, software 58:55. */
#define EXPECT_BITS 64
#define EXPECT_BIG (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
#define EXPECT_RO 0x0060000012345bc3
#define EXPECT_RW 0x0060000012345b43
#define EXPECT_YOUNG 0x400
#define EXPECT_DIRTY 0x0080000000000000
#define EXPECT_SOFT0 0x0100000000000000
#define EXPECT_SOFT1 0x0200000000000000
#define EXPECT_EMPTY 0
#define EXPECT_INVALID(w) (((w)&0x1) == 0)
#define EXPECT_MAX_PFN 0xfffffffff

#elif defined(CODEC_riscv64)
/* RISC-V privileged architecture, Sv39 page table entry: V 0x1, R 0x2, W 0x4,
 * U 0x10, A 0x40, D 0x80, RSW 0x300, PPN from bit 10 to 53:
 * 0x12345 << 10 = 0x48d1400. */
#define EXPECT_BITS 64
#define EXPECT_BIG 0
#define EXPECT_RO 0x48d1413
#define EXPECT_RW 0x48d1417
#define EXPECT_YOUNG 0x40
#define EXPECT_DIRTY 0x80
#define EXPECT_SOFT0 0x100
#define EXPECT_SOFT1 0x200
#define EXPECT_EMPTY 0
#define EXPECT_INVALID(w) (((w)&0x1) == 0)
#define EXPECT_MAX_PFN 0xfffffffffff

#elif defined(CODEC_ppc64)
/* Power ISA v3.0B book III, radix tree page table entry: V bit 0 (from the
 * left), L bit 1, R bit 55 = 0x100, C bit 56 = 0x80, SW bits 52:54 = 0xe00,
 * EAA read bit 61 = 0x4, read/write bit 62 = 0x2. */
#define EXPECT_BITS 64
#define EXPECT_BIG 1
#define EXPECT_RO 0xc000000012345004
#define EXPECT_RW 0xc000000012345006
#define EXPECT_YOUNG 0x100
#define EXPECT_DIRTY 0x80
#define EXPECT_SOFT0 0x800
#define EXPECT_SOFT1 0x400
#define EXPECT_EMPTY 0
#define EXPECT_INVALID(w) (((w)&0x8000000000000000) == 0)
#define EXPECT_MAX_PFN 0xfffffffffff

#elif defined(CODEC_s390x)
/* z/Architecture Principles of Operation, page-table entry: I bit 53 (from the
 * left) = 0x400, P bit 54 = 0x200, IEP bit 55 = 0x100, bit 52 zero, software
 * bits 56:63. */
#define EXPECT_BITS 64
#define EXPECT_BIG 1
#define EXPECT_RO 0x12345300
#define EXPECT_RW 0x12345100
#define EXPECT_YOUNG 0x4
#define EXPECT_DIRTY 0x8
#define EXPECT_SOFT0 0x40
#define EXPECT_SOFT1 0x80
#define EXPECT_EMPTY 0x400
#define EXPECT_INVALID(w) (((w)&0x400) != 0)
#define EXPECT_MAX_PFN 0xfffffffffffff

#elif defined(CODEC_ia64)
/* Intel Itanium SDM vol. 2, translation insertion format: p 0x1, ma 0x1c
 * (0 write-back), a 0x20, d 0x40, pl 0x180 (3 user), ar 0xe00 (0 read, 2 read
 * and write = 0x400), ppn to bit 49, ed bit 52, ig from bit 53. */
#define EXPECT_BITS 64
#define EXPECT_BIG 0
#define EXPECT_RO 0x0010000012345181
#define EXPECT_RW 0x0010000012345581
#define EXPECT_YOUNG 0x20
#define EXPECT_DIRTY 0x40
#define EXPECT_SOFT0 0x0020000000000000
#define EXPECT_SOFT1 0x0040000000000000
#define EXPECT_EMPTY 0
#define EXPECT_INVALID(w) (((w)&0x1) == 0)
#define EXPECT_MAX_PFN 0x3fffffffff

#elif defined(CODEC_generic)
/* arch/generic/pte_arch.h is its own manual. */
#define EXPECT_BITS (__SIZEOF_POINTER__ * 8)
#define EXPECT_BIG (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
#define EXPECT_RO 0x12345001
#define EXPECT_RW 0x12345003
#define EXPECT_YOUNG 0x4
#define EXPECT_DIRTY 0x8
#define EXPECT_SOFT0 0x10
#define EXPECT_SOFT1 0x20
#define EXPECT_EMPTY 0
#define EXPECT_INVALID(w) (((w)&0x1) == 0)
#define EXPECT_MAX_PFN (~(uint64_t)0 >> (64 - EXPECT_BITS + 12))

#else
#error "build with -DCODEC_<folder of arch/>"
#endif

#endif
