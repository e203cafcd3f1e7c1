// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * policy.c - what is taken and what goes to the kernel: the rules for arguments
 * and files, which are those of faultline(7), "What is taken". Whether a region
 * that could be taken is worth it is learn.c's affair.
 *
 * Ordering: the words here are complete by themselves, relaxed.
 */
#include <fcntl.h>
#include <linux/stat.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "api/pager.h"
#include "base/sys.h"
#include "base/ban.h"

/* ---------------------------------------------------------------------------
 * Arguments
 */

/* Flags of mmap that do not change what we do. */
#define FLAGS_IGNORED                                                   \
	(MAP_POPULATE | MAP_NONBLOCK | MAP_DENYWRITE | MAP_EXECUTABLE | \
	 MAP_FILE)

/* Files too large to be read whole. What has to be there at once, or may be
 * written, is the kernel's. */
static enum take large_args(const struct fl_pager *p, size_t len, int prot,
			    int flags, int64_t off)
{
	bool shared = (flags & MAP_TYPE) == MAP_SHARED;

	if (p->conf.large == CONF_LARGE_KERNEL || flags & MAP_POPULATE ||
	    prot != PROT_READ || off < 0 || len > USER_MAX)
		return TAKE_NOT;
	if (shared && p->conf.shared != CONF_SHARED_SNAPSHOT)
		return TAKE_NOT;
	return demand_possible(p) ? TAKE_DEMAND : TAKE_NOT;
}

enum take policy_args(const struct fl_pager *p, const void *addr, size_t len,
		      int prot, int flags, int64_t off)
{
	int f = flags & ~FLAGS_IGNORED;

	if (addr != NULL || len == 0 || !page_aligned((uintptr_t)off))
		return TAKE_NOT;
	if (f == (MAP_PRIVATE | MAP_ANONYMOUS))
		return prot == (PROT_READ | PROT_WRITE) &&
				       len <= p->conf.anon_max ?
			       TAKE_ANON :
			       TAKE_NOT;
	f &= ~MAP_NORESERVE;
	if (f != MAP_PRIVATE && f != MAP_SHARED)
		return TAKE_NOT;
	if (len > p->conf.resident_max)
		return large_args(p, len, prot, flags, off);
	if (off < 0 || (uint64_t)off >> (32 + FL_PAGE_SHIFT) != 0)
		return TAKE_NOT;
	if (f == MAP_PRIVATE) {
		if (prot == PROT_READ)
			return TAKE_FILE;
		return prot == (PROT_READ | PROT_WRITE) ? TAKE_COPY : TAKE_NOT;
	}
	if (f == MAP_SHARED && prot == PROT_READ &&
	    p->conf.shared == CONF_SHARED_SNAPSHOT)
		return TAKE_FILE;
	return TAKE_NOT;
}

/* ---------------------------------------------------------------------------
 * Files
 */

/* File systems whose files are not plain bytes (linux/magic.h, and the ones it
 * lacks). */
static bool fs_ordinary(uint32_t magic)
{
	switch (magic) {
	case 0x00009fa0: /* proc */
	case 0x62656572: /* sysfs */
	case 0x64626720: /* debugfs */
	case 0x74726163: /* tracefs */
	case 0x73636673: /* securityfs */
	case 0x62656570: /* configfs */
	case 0x0027e0eb: /* cgroup */
	case 0x63677270: /* cgroup2 */
	case 0xde5e81e4: /* efivarfs */
	case 0xcafe4a11: /* bpf */
	case 0x958458f6: /* hugetlbfs */
	case 0x00001cd1: /* devpts */
	case 0x6165676c: /* pstore */
	case 0xf97cff8c: /* selinux */
	case 0x19800202: /* mqueue */
	case 0x42494e4d: /* binfmt_misc */
	case 0x6c6f6f70: /* binderfs */
		return false;
	}
	return true;
}

static bool fs_ask(int fd, uint32_t dev, _Atomic(uint64_t) *slot)
{
	/* struct statfs begins with the type, a long on every 64-bit target. */
	long buf[32];
	bool ok;

	if (sys_call2(__NR_fstatfs, fd, buf) < 0)
		return false;
	ok = fs_ordinary((uint32_t)buf[0]);
	st_rlx(slot, ((uint64_t)dev << 2) | (ok ? 3 : 2));
	return ok;
}

static bool fs_taken(struct fl_pager *p, int fd, uint32_t dev)
{
	_Atomic(uint64_t) *slot;
	uint64_t word;

	slot = &p->policy.fs[(dev ^ dev >> 20) % ARRAY_SIZE(p->policy.fs)];
	word = ld_rlx(slot);
	if (likely(word >> 2 == dev && word & 2))
		return word & 1;
	return fs_ask(fd, dev, slot);
}

bool policy_file(struct fl_pager *p, int fd, size_t len, int64_t off,
		 struct file_id *id)
{
	long fl = sys_fcntl(fd, F_GETFL, 0);
	struct sys_stat st;

	if (fl < 0 || (fl & O_ACCMODE) != O_RDONLY || fl & (O_PATH | O_DIRECT))
		return false;
	if (sys_fstat(fd, &st) < 0 || !S_ISREG(st.mode))
		return false;
	if ((uint64_t)off >= st.size ||
	    (uint64_t)off + page_align_up(len) > page_align_up(st.size))
		return false;
	id->size = st.size;
	id->ino = st.ino;
	id->dev = st.dev;
	return fs_taken(p, fd, st.dev);
}
