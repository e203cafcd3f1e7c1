// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * policy.c - what is taken and what goes to the kernel.
 *
 * The rules for arguments and files are those of faultline(7), "What is
 * taken". On top of them stands one estimate: reading a file whole, or zeroing
 * an anonymous region whole, beats the kernel's faults as long as the program
 * touches most of it; a reader that looks at one page of a large file must not
 * pay for all. Small regions are always cheaper read whole. For larger ones
 * the pager learns: now and then it hands a mapping to the kernel and, when it
 * is unmapped, looks how many of its pages the program has touched. A running
 * mean for each kind and size class decides.
 *
 * Ordering: all words here are estimates, relaxed.
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
	if (len > p->conf.resident_max || off < 0 ||
	    (uint64_t)off >> (32 + FL_PAGE_SHIFT) != 0)
		return TAKE_NOT;
	f &= ~MAP_NORESERVE;
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

static bool fs_ask(struct fl_pager *p, int fd, uint32_t dev,
		   _Atomic(uint64_t) *slot)
{
	/* struct statfs begins with the type, a long on every 64-bit target. */
	long buf[32];
	bool ok;

	(void)p;
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
	return fs_ask(p, fd, dev, slot);
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

/* ---------------------------------------------------------------------------
 * Learning
 */

/* Regions up to this size are cheaper whole even if one page is touched. */
static const uint32_t always_pages[NR_ARENAS] = {
	[ARENA_FILE] = 24,
	[ARENA_ANON] = 16,
};

/* From this share of touched pages on, in 1/256, whole is cheaper. */
static const uint32_t threshold[NR_ARENAS] = {
	[ARENA_FILE] = 154, /* 60 % */
	[ARENA_ANON] = 64,  /* 25 % */
};

/*
 * The first mappings of a class are observed, and one in SAMPLE_EVERY of the
 * later ones: observing costs little. Not so for anonymous regions while they
 * are served here: a large one in the kernel's hands costs many faults, and
 * policy_probe sees what the resident ones are used for.
 */
#define SAMPLE_FIRST 2u
#define SAMPLE_EVERY 64u

static bool sample_due(enum arena_kind kind, uint32_t seen, bool eager)
{
	if (seen < SAMPLE_FIRST)
		return true;
	return seen % SAMPLE_EVERY == 0 && !(kind == ARENA_ANON && eager);
}

bool policy_eager(struct fl_pager *p, enum arena_kind kind, uint32_t pages,
		  bool *sample)
{
	unsigned int cls = ext_class(pages);
	uint32_t seen;
	bool eager;

	if (likely(pages <= always_pages[kind]) || !p->conf.learn)
		return true;
	seen = add_rlx(&p->policy.seen[kind][cls], 1u);
	eager = ld_rlx(&p->policy.touched[kind][cls]) >= threshold[kind];
	if (sample_due(kind, seen, eager)) {
		*sample = true;
		return false;
	}
	return eager;
}

void policy_sample_begin(struct fl_pager *p, enum arena_kind kind, void *addr)
{
	uintptr_t word = (uintptr_t)addr | (uintptr_t)kind, old;

	for (size_t i = 0; i < ARRAY_SIZE(p->policy.sample); i++) {
		old = 0;
		if (ld_rlx(&p->policy.sample[i]) == 0 &&
		    cas_rlx(&p->policy.sample[i], &old, word)) {
			add_rlx(&p->policy.samples, 1u);
			return;
		}
	}
}

/* How many pages of a range has the program touched, in 1/256 of all? -1 where
 * the kernel does not tell. Of private anonymous memory mincore(2) says it. */
static int touched_anon(char *addr, size_t pages)
{
	unsigned char vec[512];
	size_t done, n, count = 0;

	for (done = 0; done < pages; done += n) {
		n = pages - done;
		if (n > sizeof(vec))
			n = sizeof(vec);
		if (sys_mincore(addr + (done << FL_PAGE_SHIFT),
				n << FL_PAGE_SHIFT, vec) < 0)
			return -1;
		for (size_t i = 0; i < n; i++)
			count += vec[i] & 1;
	}
	return (int)(count * 256 / done);
}

/* Of a file's it tells what is in the page cache; what this process has mapped
 * is in its pagemap, which a program that has changed its user may not open. */
static int touched_file(const char *addr, size_t pages)
{
	uint64_t buf[64];
	size_t done = 0, n, count = 0;
	long fd = sys_openat(AT_FDCWD, "/proc/self/pagemap",
			     O_RDONLY | O_CLOEXEC, 0);
	long ret;

	if (fd < 0)
		return -1;
	while (done < pages) {
		n = pages - done;
		if (n > ARRAY_SIZE(buf))
			n = ARRAY_SIZE(buf);
		ret = sys_pread(
			(int)fd, buf, n * sizeof(buf[0]),
			(int64_t)(((uintptr_t)addr >> FL_PAGE_SHIFT) + done) *
				8);
		if (ret <= 0)
			break;
		n = (size_t)ret / sizeof(buf[0]);
		for (size_t i = 0; i < n; i++)
			if (buf[i] >> 62) /* present or swapped */
				count++;
		done += n;
	}
	sys_close((int)fd);
	return done ? (int)(count * 256 / done) : -1;
}

/* Takes a share into the mean, with weight 1/@weight. */
static void learn_share(struct fl_pager *p, enum arena_kind kind,
			unsigned int cls, uint32_t share, uint32_t weight)
{
	_Atomic(uint32_t) *mean = &p->policy.touched[kind][cls];
	uint32_t old = ld_rlx(mean), new;

	/* Rounded towards the share, so that it gets there. */
	new = share > old ? old + (share - old + weight - 1) / weight :
			    old - (old - share + weight - 1) / weight;
	st_rlx(mean, new);
}

static void learn(struct fl_pager *p, enum arena_kind kind, void *addr,
		  size_t len)
{
	uint32_t pages = (uint32_t)(page_align_up(len) >> FL_PAGE_SHIFT);
	unsigned int cls;
	int share;

	if (len > (size_t)EXT_MAX_PAGES << FL_PAGE_SHIFT)
		return;
	share = kind == ARENA_ANON ? touched_anon(addr, pages) :
				     touched_file(addr, pages);
	if (share < 0)
		share = 256; /* not told: as without learning */
	stat_inc(&p->stats, STAT_learn_samples);
	cls = ext_class(pages);
	learn_share(p, kind, cls, (uint32_t)share,
		    ld_rlx(&p->policy.seen[kind][cls]) <= SAMPLE_FIRST ? 1 : 2);
}

/* Pages looked at in a resident region. */
#define PROBES 8u

void policy_probe(struct fl_pager *p, const char *addr, uint32_t pages)
{
	uint32_t used = 0;

	if (likely(pages <= always_pages[ARENA_ANON]) || !p->conf.learn)
		return;
	for (uint32_t i = 0; i < PROBES; i++) {
		size_t page = (size_t)pages * i / PROBES;
		const uint64_t *w =
			(const void *)(addr + (page << FL_PAGE_SHIFT));

		for (unsigned int k = 0; k < 8; k++)
			if (w[k]) {
				used++;
				break;
			}
	}
	learn_share(p, ARENA_ANON, ext_class(pages), used * 256 / PROBES, 8);
}

void policy_unmap(struct fl_pager *p, void *addr, size_t len)
{
	uintptr_t a = (uintptr_t)addr, word, at;

	if (likely(ld_rlx(&p->policy.samples) == 0))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(p->policy.sample); i++) {
		word = ld_rlx(&p->policy.sample[i]);
		at = word & FL_PAGE_MASK;
		if (word == 0 || at - a >= len ||
		    !cas_rlx(&p->policy.sample[i], &word, (uintptr_t)0))
			continue;
		sub_rlx(&p->policy.samples, 1u);
		if (at == a)
			learn(p, (enum arena_kind)(word & ~FL_PAGE_MASK), addr,
			      len);
	}
}
