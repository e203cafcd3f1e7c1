/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_advise - madvise, posix_madvise, mincore, msync, mlock and munlock on
 * file and anonymous regions: results, and what they leave in memory.
 *
 * [fl:demand] service signal
 */
#include "support/see.h"

#define N 8
#define RW (PROT_READ | PROT_WRITE)

static int fd;
static const char *const kinds[] = { "file", "private", "anon", "shared" };

static const struct {
	const char *name;
	int val;
} advices[] = {
	{ "NORMAL", 0 },
	{ "RANDOM", 1 },
	{ "SEQUENTIAL", 2 },
	{ "WILLNEED", 3 },
	{ "DONTNEED", 4 },
	{ "5", 5 },
	{ "FREE", 8 },
	{ "REMOVE", 9 },
	{ "DONTFORK", 10 },
	{ "DOFORK", 11 },
	{ "MERGEABLE", 12 },
	{ "UNMERGEABLE", 13 },
	{ "HUGEPAGE", 14 },
	{ "NOHUGEPAGE", 15 },
	{ "DONTDUMP", 16 },
	{ "DODUMP", 17 },
	{ "WIPEONFORK", 18 },
	{ "KEEPONFORK", 19 },
	{ "COLD", 20 },
	{ "PAGEOUT", 21 },
	{ "POPULATE_READ", 22 },
	{ "POPULATE_WRITE", 23 },
	{ "DONTNEED_LOCKED", 24 },
	{ "GUARD_INSTALL", 102 },
	{ "GUARD_REMOVE", 103 },
	{ "26", 26 },
	{ "99", 99 },
	{ "-1", -1 },
};

static unsigned char *region(int kind)
{
	unsigned char *p;

	if (kind == 0 || kind == 3)
		p = mmap(NULL, N * PAGE, PROT_READ,
			 kind ? MAP_SHARED : MAP_PRIVATE, fd, 0);
	else if (kind == 1)
		p = mmap(NULL, N * PAGE, RW, MAP_PRIVATE, fd, 0);
	else
		p = mmap(NULL, N * PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0);
	if (p == MAP_FAILED)
		give_up("mmap");
	if (kind == 1)
		memset(p, 0xab, N * PAGE);
	else if (kind == 2)
		fill_as(p, 1, 0, N * PAGE);
	return p;
}

/* f file 1 in place, w as written, z zero, o old or zero, ! faults. */
static void look(const char *what, const unsigned char *p, int lazy)
{
	char s[N + 1];

	memcpy(s, layout(p, N), N + 1);
	for (size_t i = 0; i < N; i++) {
		const unsigned char *at = p + i * PAGE;

		if (s[i] != '#')
			continue;
		if (strcmp(try_read(at), "ok"))
			s[i] = '!';
		else if (differs(at, 1, i * PAGE, PAGE) < 0)
			s[i] = 'f';
		else if (not_all(at, 0xab, PAGE) < 0)
			s[i] = 'w';
		else if (not_all(at, 0, PAGE) < 0)
			s[i] = 'z';
		else
			s[i] = '?';
		if (lazy && s[i] != '?' && s[i] != '!')
			s[i] = 'o';
	}
	say("  %s: %s", what, s);
}

static void advise(int kind)
{
	for (size_t i = 0; i < COUNT(advices); i++) {
		unsigned char *p = region(kind);
		int val = advices[i].val, ret, kept;

		errno_mark();
		ret = madvise(p + 2 * PAGE, 3 * PAGE, val);
		kept = errno_kept();
		say("%s %s: %s errno kept %d", kinds[kind], advices[i].name,
		    res_i(ret), ret ? 0 : kept);
		look("middle", p, val == 8);
		SAY_I(madvise(p, N * PAGE, val));
		look("whole", p, val == 8);
		SAY_I(madvise(p + 1, PAGE, val));
		SAY_I(madvise(p, 0, val));
		SAY_I(madvise(p, SIZE_MAX - 4095, val));
		SAY_I(munmap(p + 3 * PAGE, 2 * PAGE));
		SAY_I(madvise(p, N * PAGE, val));
		look("with a hole", p, val == 8);
		SAY_I(munmap(p, N * PAGE));
		SAY_I(madvise(p, PAGE, val));
	}
}

static void zapped_is_usable(int kind)
{
	unsigned char *p = region(kind);

	say("%s, dropped and written", kinds[kind]);
	SAY_I(madvise(p + PAGE, 3 * PAGE, MADV_DONTNEED));
	say("  write %s %s", try_write(p + PAGE, 0xab),
	    try_write(p + 4 * PAGE - 1, 0xab));
	look("after", p, 0);
	SAY_I(posix_madvise(p, N * PAGE, POSIX_MADV_DONTNEED));
	look("posix", p, 0);
	say("  posix %d %d %d %d", posix_madvise(p, PAGE, POSIX_MADV_RANDOM),
	    posix_madvise(p, PAGE, POSIX_MADV_WILLNEED),
	    posix_madvise(p + 1, PAGE, POSIX_MADV_RANDOM),
	    posix_madvise(p, PAGE, 77));
	SAY_I(munmap(p, N * PAGE));
	say("  posix gone %d", posix_madvise(p, PAGE, POSIX_MADV_RANDOM));
}

/* What a child finds after the advices on fork. */
static void forked(int kind)
{
	unsigned char *p = region(kind), *q = region(kind);
	pid_t pid;

	say("%s, fork advices", kinds[kind]);
	SAY_I(madvise(p + PAGE, 2 * PAGE, MADV_DONTFORK));
	say("  wipe %s", res_i(madvise(q + 2 * PAGE, PAGE, MADV_WIPEONFORK)));
	pid = fork();
	if (pid == 0) {
		look("child, kept out", p, 0);
		look("child, wiped", q, 0);
		_exit(0);
	}
	say("  %s", end_of(pid));
	look("parent", p, 0);
	look("parent", q, 0);
	SAY_I(madvise(p, N * PAGE, MADV_DOFORK));
	pid = fork();
	if (pid == 0) {
		look("child, let in", p, 0);
		_exit(0);
	}
	say("  %s", end_of(pid));
	SAY_I(munmap(p, N * PAGE));
	SAY_I(munmap(q, N * PAGE));
}

static void core(int kind)
{
	unsigned char *p = region(kind), vec[2 * N];
	unsigned char *ro = mmap(NULL, PAGE, PROT_READ,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
				 -1, 0);
	int in = 0;

	say("%s, mincore", kinds[kind]);
	sum_of(p, N * PAGE);
	memset(vec, 0xee, sizeof(vec));
	errno_mark();
	SAY_I(mincore(p, N * PAGE, vec));
	for (int i = 0; i < N; i++)
		in += vec[i] & 1;
	say("  in %d, beyond %02x", in, vec[N]);
	memset(vec, 0xee, sizeof(vec));
	SAY_I(mincore(p + 3 * PAGE, PAGE + 1, vec));
	say("  %d %d beyond %02x", vec[0] & 1, vec[1] & 1, vec[2]);
	memset(vec, 0xee, sizeof(vec));
	SAY_I(mincore(p, 0, vec));
	say("  untouched %02x", vec[0]);
	SAY_I(mincore(p + 1, PAGE, vec));
	SAY_I(mincore(p, PAGE, NULL));
	SAY_I(mincore(p, PAGE, ro));
	SAY_I(mincore(p, PAGE, (void *)(SIZE_MAX - 4095)));
	SAY_I(mincore(p, SIZE_MAX - 4095, vec));
	SAY_I(mincore(p, (size_t)1 << 48, vec));
	SAY_I(munmap(p + 2 * PAGE, PAGE));
	SAY_I(mincore(p, N * PAGE, vec));
	SAY_I(mincore(p, 2 * PAGE, vec));
	SAY_I(mincore(p + 2 * PAGE, PAGE, vec));
	SAY_I(munmap(p, N * PAGE));
	SAY_I(mincore(p, PAGE, vec));
	SAY_I(munmap(ro, PAGE));
}

static void sync_and_lock(int kind)
{
	unsigned char *p = region(kind);

	say("%s, msync and mlock", kinds[kind]);
	SAY_I(msync(p, N * PAGE, MS_SYNC));
	SAY_I(msync(p, N * PAGE, MS_ASYNC));
	SAY_I(msync(p, N * PAGE, MS_INVALIDATE));
	SAY_I(msync(p, N * PAGE, MS_ASYNC | MS_INVALIDATE));
	SAY_I(msync(p, N * PAGE, MS_SYNC | MS_ASYNC));
	SAY_I(msync(p, N * PAGE, 0x80));
	SAY_I(msync(p, N * PAGE, 0));
	SAY_I(msync(p + 1, PAGE, MS_SYNC));
	SAY_I(msync(p, 0, MS_SYNC));
	SAY_I(msync(p, SIZE_MAX - 4095, MS_SYNC));
	look("synced", p, 0);
	SAY_I(mlock(p, 2 * PAGE));
	SAY_I(mlock(p + 3 * PAGE + 9, 10));
	SAY_I(mlock2(p + 5 * PAGE, PAGE, MLOCK_ONFAULT));
	SAY_I(mlock2(p, PAGE, 0x40));
	SAY_I(madvise(p, PAGE, MADV_DONTNEED));
	SAY_I(madvise(p + 4 * PAGE, PAGE, MADV_DONTNEED));
	SAY_I(msync(p, N * PAGE, MS_INVALIDATE));
	look("locked", p, 0);
	SAY_I(munlock(p, PAGE));
	SAY_I(munlock(p + 7 * PAGE, PAGE));
	SAY_I(munlock(p, 0));
	SAY_I(mlock(p, SIZE_MAX - 8191));
	SAY_I(munmap(p + 6 * PAGE, PAGE));
	SAY_I(mlock(p, N * PAGE));
	SAY_I(msync(p, N * PAGE, MS_SYNC));
	SAY_I(munlock(p, N * PAGE));
	look("unlocked", p, 0);
	SAY_I(munmap(p, N * PAGE));
	SAY_I(mlock(p, PAGE));
	SAY_I(munlock(p, PAGE));
	SAY_I(msync(p, PAGE, MS_SYNC));
}

static void lock_all(void)
{
	unsigned char *p = region(2), *q = region(0);

	SAY_I(mlockall(0));
	SAY_I(mlockall(0x80));
	SAY_I(mlockall(MCL_CURRENT | MCL_ONFAULT));
	SAY_I(munlockall());
	look("anon", p, 0);
	look("file", q, 0);
	SAY_I(munmap(p, N * PAGE));
	SAY_I(munmap(q, N * PAGE));
}

int main(void)
{
	see_faults();
	fd = temp_file(1, N * PAGE, O_RDONLY);
	for (int kind = 0; kind < 4; kind++) {
		advise(kind);
		zapped_is_usable(kind);
		forked(kind);
		core(kind);
		sync_and_lock(kind);
	}
	lock_all();
	return 0;
}
