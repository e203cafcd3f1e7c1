/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* fault/uffd_abi.h and the system's header agree in what both know. */
#include <criterion/criterion.h>
#include <linux/userfaultfd.h>
#include <stddef.h>

#include "fault/uffd_abi.h"

#define SAME(ours, theirs) \
	cr_assert_eq((uint64_t)(ours), (uint64_t)(theirs), #ours)
#define SAME_AT(s1, f1, s2, f2) \
	SAME(offsetof(struct s1, f1), offsetof(struct s2, f2))

Test(uffd_abi, numbers_of_the_system_header)
{
	SAME(UABI_API, UFFD_API);
	SAME(UABI_USER_MODE_ONLY, UFFD_USER_MODE_ONLY);
	SAME(UABI_DEV_NEW, USERFAULTFD_IOC_NEW);
	SAME(UABI_IO_API, UFFDIO_API);
	SAME(UABI_IO_REGISTER, UFFDIO_REGISTER);
	SAME(UABI_IO_UNREGISTER, UFFDIO_UNREGISTER);
	SAME(UABI_IO_WAKE, UFFDIO_WAKE);
	SAME(UABI_IO_COPY, UFFDIO_COPY);
	SAME(UABI_IO_ZEROPAGE, UFFDIO_ZEROPAGE);
	SAME(UABI_IO_WRITEPROTECT, UFFDIO_WRITEPROTECT);
	SAME(UABI_IO_CONTINUE, UFFDIO_CONTINUE);
#ifdef UFFDIO_POISON
	SAME(UABI_IO_POISON, UFFDIO_POISON);
	SAME(UABI_DONTWAKE, UFFDIO_POISON_MODE_DONTWAKE);
#endif
#ifdef UFFDIO_MOVE
	SAME(UABI_IO_MOVE, UFFDIO_MOVE);
	SAME(UABI_DONTWAKE, UFFDIO_MOVE_MODE_DONTWAKE);
	SAME(UABI_MOVE_SRC_HOLES, UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES);
#endif
	SAME(UABI_REGISTER_MISSING, UFFDIO_REGISTER_MODE_MISSING);
	SAME(UABI_REGISTER_WP, UFFDIO_REGISTER_MODE_WP);
	SAME(UABI_REGISTER_MINOR, UFFDIO_REGISTER_MODE_MINOR);
	SAME(UABI_DONTWAKE, UFFDIO_COPY_MODE_DONTWAKE);
	SAME(UABI_DONTWAKE, UFFDIO_ZEROPAGE_MODE_DONTWAKE);
	SAME(UABI_DONTWAKE, UFFDIO_CONTINUE_MODE_DONTWAKE);
	SAME(UABI_MAP_WP, UFFDIO_COPY_MODE_WP);
#ifdef UFFDIO_CONTINUE_MODE_WP
	SAME(UABI_MAP_WP, UFFDIO_CONTINUE_MODE_WP);
#endif
	SAME(UABI_WP_PROTECT, UFFDIO_WRITEPROTECT_MODE_WP);
	SAME(UABI_WP_DONTWAKE, UFFDIO_WRITEPROTECT_MODE_DONTWAKE);
	SAME(UABI_EVENT_PAGEFAULT, UFFD_EVENT_PAGEFAULT);
	SAME(UABI_FAULT_WRITE, UFFD_PAGEFAULT_FLAG_WRITE);
	SAME(UABI_FAULT_WP, UFFD_PAGEFAULT_FLAG_WP);
	SAME(UABI_FAULT_MINOR, UFFD_PAGEFAULT_FLAG_MINOR);
}

Test(uffd_abi, features_of_the_system_header)
{
	SAME(UABI_F_WP, UFFD_FEATURE_PAGEFAULT_FLAG_WP);
	SAME(UABI_F_EVENT_FORK, UFFD_FEATURE_EVENT_FORK);
	SAME(UABI_F_EVENT_REMAP, UFFD_FEATURE_EVENT_REMAP);
	SAME(UABI_F_EVENT_REMOVE, UFFD_FEATURE_EVENT_REMOVE);
	SAME(UABI_F_EVENT_UNMAP, UFFD_FEATURE_EVENT_UNMAP);
	SAME(UABI_F_MISSING_HUGETLBFS, UFFD_FEATURE_MISSING_HUGETLBFS);
	SAME(UABI_F_MISSING_SHMEM, UFFD_FEATURE_MISSING_SHMEM);
	SAME(UABI_F_SIGBUS, UFFD_FEATURE_SIGBUS);
	SAME(UABI_F_THREAD_ID, UFFD_FEATURE_THREAD_ID);
	SAME(UABI_F_MINOR_HUGETLBFS, UFFD_FEATURE_MINOR_HUGETLBFS);
	SAME(UABI_F_MINOR_SHMEM, UFFD_FEATURE_MINOR_SHMEM);
	SAME(UABI_F_EXACT_ADDRESS, UFFD_FEATURE_EXACT_ADDRESS);
	SAME(UABI_F_WP_HUGETLBFS_SHMEM, UFFD_FEATURE_WP_HUGETLBFS_SHMEM);
#ifdef UFFD_FEATURE_WP_UNPOPULATED
	SAME(UABI_F_WP_UNPOPULATED, UFFD_FEATURE_WP_UNPOPULATED);
#endif
#ifdef UFFD_FEATURE_POISON
	SAME(UABI_F_POISON, UFFD_FEATURE_POISON);
#endif
#ifdef UFFD_FEATURE_WP_ASYNC
	SAME(UABI_F_WP_ASYNC, UFFD_FEATURE_WP_ASYNC);
#endif
#ifdef UFFD_FEATURE_MOVE
	SAME(UABI_F_MOVE, UFFD_FEATURE_MOVE);
#endif
}

Test(uffd_abi, structures_of_the_system_header)
{
	SAME(sizeof(struct uabi_api), sizeof(struct uffdio_api));
	SAME_AT(uabi_api, features, uffdio_api, features);
	SAME(sizeof(struct uabi_range), sizeof(struct uffdio_range));
	SAME(sizeof(struct uabi_register), sizeof(struct uffdio_register));
	SAME_AT(uabi_register, mode, uffdio_register, mode);
	SAME_AT(uabi_register, ioctls, uffdio_register, ioctls);
	SAME(sizeof(struct uabi_copy), sizeof(struct uffdio_copy));
	SAME_AT(uabi_copy, src, uffdio_copy, src);
	SAME_AT(uabi_copy, len, uffdio_copy, len);
	SAME_AT(uabi_copy, mode, uffdio_copy, mode);
	SAME_AT(uabi_copy, done, uffdio_copy, copy);
	SAME(sizeof(struct uabi_fill), sizeof(struct uffdio_zeropage));
	SAME_AT(uabi_fill, done, uffdio_zeropage, zeropage);
	SAME(sizeof(struct uabi_fill), sizeof(struct uffdio_continue));
	SAME_AT(uabi_fill, done, uffdio_continue, mapped);
#ifdef UFFDIO_POISON
	SAME(sizeof(struct uabi_fill), sizeof(struct uffdio_poison));
	SAME_AT(uabi_fill, done, uffdio_poison, updated);
#endif
#ifdef UFFDIO_MOVE
	SAME(sizeof(struct uabi_copy), sizeof(struct uffdio_move));
	SAME_AT(uabi_copy, done, uffdio_move, move);
#endif
	SAME(sizeof(struct uabi_msg), sizeof(struct uffd_msg));
	SAME_AT(uabi_msg, flags, uffd_msg, arg.pagefault.flags);
	SAME_AT(uabi_msg, address, uffd_msg, arg.pagefault.address);
	SAME_AT(uabi_msg, ptid, uffd_msg, arg.pagefault.feat.ptid);
}
