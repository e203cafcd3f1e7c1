/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * uffd_abi.h - the kernel's userfaultfd interface, in our own words.
 *
 * Headers of a stable distribution are years behind the kernels it runs on, so
 * nothing here comes from <linux/userfaultfd.h>; both may be included together,
 * the names differ. tests/unit/test_uffd.c compares what both know. What a
 * kernel does not offer is found by probing, never by its version.
 */
#ifndef FL_FAULT_UFFD_ABI_H
#define FL_FAULT_UFFD_ABI_H

#include <linux/ioctl.h>
#include <stdint.h>

#define UABI_API ((uint64_t)0xaa)

/* userfaultfd(2), and the argument of UABI_DEV_NEW: with O_CLOEXEC and
 * O_NONBLOCK. */
#define UABI_USER_MODE_ONLY 1

/* Of /dev/userfaultfd. */
#define UABI_DEV_NEW _IO(0xaa, 0x00)

/* Features, by the kernel that first had them. */
#define UABI_F_WP ((uint64_t)1 << 0)         /* 5.7 */
#define UABI_F_EVENT_FORK ((uint64_t)1 << 1) /* 4.11 */
#define UABI_F_EVENT_REMAP ((uint64_t)1 << 2)
#define UABI_F_EVENT_REMOVE ((uint64_t)1 << 3)
#define UABI_F_MISSING_HUGETLBFS ((uint64_t)1 << 4)
#define UABI_F_MISSING_SHMEM ((uint64_t)1 << 5)
#define UABI_F_EVENT_UNMAP ((uint64_t)1 << 6)
#define UABI_F_SIGBUS ((uint64_t)1 << 7) /* 4.14 */
#define UABI_F_THREAD_ID ((uint64_t)1 << 8)
#define UABI_F_MINOR_HUGETLBFS ((uint64_t)1 << 9)     /* 5.13 */
#define UABI_F_MINOR_SHMEM ((uint64_t)1 << 10)        /* 5.14 */
#define UABI_F_EXACT_ADDRESS ((uint64_t)1 << 11)      /* 5.18 */
#define UABI_F_WP_HUGETLBFS_SHMEM ((uint64_t)1 << 12) /* 5.19 */
#define UABI_F_WP_UNPOPULATED ((uint64_t)1 << 13)     /* 6.4 */
#define UABI_F_POISON ((uint64_t)1 << 14)             /* 6.6 */
#define UABI_F_WP_ASYNC ((uint64_t)1 << 15)           /* 6.7 */
#define UABI_F_MOVE ((uint64_t)1 << 16)               /* 6.8 */
/*
 * Of the companion patch: SIGBUS to a thread that faults in user mode, a
 * message for a fault inside a system call. Asked for together with SIGBUS.
 */
#define UABI_F_SIGBUS_USER ((uint64_t)1 << 24)

/* A fork, mremap, madvise or munmap of the program would sleep until somebody
 * reads the event: never asked for. */
#define UABI_F_EVENTS                                                   \
	(UABI_F_EVENT_FORK | UABI_F_EVENT_REMAP | UABI_F_EVENT_REMOVE | \
	 UABI_F_EVENT_UNMAP)

/* The bits of the `ioctls` words. */
enum {
	UABI_NR_REGISTER = 0x00,
	UABI_NR_UNREGISTER = 0x01,
	UABI_NR_WAKE = 0x02,
	UABI_NR_COPY = 0x03,
	UABI_NR_ZEROPAGE = 0x04,
	UABI_NR_MOVE = 0x05,
	UABI_NR_WRITEPROTECT = 0x06,
	UABI_NR_CONTINUE = 0x07,
	UABI_NR_POISON = 0x08,
	UABI_NR_API = 0x3f,
};

struct uabi_api {
	uint64_t api;
	uint64_t features;
	uint64_t ioctls;
};

struct uabi_range {
	uint64_t start;
	uint64_t len;
};

#define UABI_REGISTER_MISSING ((uint64_t)1 << 0)
#define UABI_REGISTER_WP ((uint64_t)1 << 1)
#define UABI_REGISTER_MINOR ((uint64_t)1 << 2)

struct uabi_register {
	struct uabi_range range;
	uint64_t mode;
	uint64_t ioctls;
};

/* The same bit in copy, zeropage, move, continue and poison. */
#define UABI_DONTWAKE ((uint64_t)1 << 0)
/* In copy and continue (6.7): the page arrives write-protected. */
#define UABI_MAP_WP ((uint64_t)1 << 1)
/* In move. */
#define UABI_MOVE_SRC_HOLES ((uint64_t)1 << 1)

/* COPY and MOVE. */
struct uabi_copy {
	uint64_t dst;
	uint64_t src;
	uint64_t len;
	uint64_t mode;
	int64_t done; /* bytes, or -errno; not written by some failures */
};

/* ZEROPAGE, CONTINUE and POISON. */
struct uabi_fill {
	struct uabi_range range;
	uint64_t mode;
	int64_t done; /* as above */
};

#define UABI_WP_PROTECT ((uint64_t)1 << 0)
#define UABI_WP_DONTWAKE ((uint64_t)1 << 1)

struct uabi_writeprotect {
	struct uabi_range range;
	uint64_t mode;
};

#define UABI_IO_API _IOWR(0xaa, UABI_NR_API, struct uabi_api)
#define UABI_IO_REGISTER _IOWR(0xaa, UABI_NR_REGISTER, struct uabi_register)
#define UABI_IO_UNREGISTER _IOR(0xaa, UABI_NR_UNREGISTER, struct uabi_range)
#define UABI_IO_WAKE _IOR(0xaa, UABI_NR_WAKE, struct uabi_range)
#define UABI_IO_COPY _IOWR(0xaa, UABI_NR_COPY, struct uabi_copy)
#define UABI_IO_ZEROPAGE _IOWR(0xaa, UABI_NR_ZEROPAGE, struct uabi_fill)
#define UABI_IO_MOVE _IOWR(0xaa, UABI_NR_MOVE, struct uabi_copy)
#define UABI_IO_WRITEPROTECT \
	_IOWR(0xaa, UABI_NR_WRITEPROTECT, struct uabi_writeprotect)
#define UABI_IO_CONTINUE _IOWR(0xaa, UABI_NR_CONTINUE, struct uabi_fill)
#define UABI_IO_POISON _IOWR(0xaa, UABI_NR_POISON, struct uabi_fill)

/* What read(2) of a descriptor without SIGBUS answers; only faults are asked
 * for, so only their fields are named. */
#define UABI_EVENT_PAGEFAULT 0x12

#define UABI_FAULT_WRITE ((uint64_t)1 << 0)
#define UABI_FAULT_WP ((uint64_t)1 << 1)
#define UABI_FAULT_MINOR ((uint64_t)1 << 2)

struct uabi_msg {
	uint8_t event;
	uint8_t reserved1;
	uint16_t reserved2;
	uint32_t reserved3;
	uint64_t flags;
	uint64_t address;
	uint32_t ptid; /* with THREAD_ID */
	uint32_t reserved4;
};

_Static_assert(sizeof(struct uabi_api) == 24, "uffdio_api");
_Static_assert(sizeof(struct uabi_register) == 32, "uffdio_register");
_Static_assert(sizeof(struct uabi_copy) == 40, "uffdio_copy");
_Static_assert(sizeof(struct uabi_fill) == 32, "uffdio_zeropage");
_Static_assert(sizeof(struct uabi_writeprotect) == 24, "uffdio_writeprotect");
_Static_assert(sizeof(struct uabi_msg) == 32, "uffd_msg");

#endif
