/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_others - calls less common than mprotect that change a mapping all the
 * same: pkey_mprotect, process_madvise, remap_file_pages.
 * What they did to a region must not show in the regions that come after it.
 *
 * [fl:demand] service
 */
#include <sys/syscall.h>
#include <sys/uio.h>

#include "support/see.h"

#define N 8
#define RW (PROT_READ | PROT_WRITE)
#define PANON (MAP_PRIVATE | MAP_ANONYMOUS)

static int fd;

static unsigned char *region(int anon)
{
	unsigned char *p =
		anon ? mmap(NULL, N * PAGE, RW, PANON, -1, 0) :
		       mmap(NULL, N * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);

	if (p == MAP_FAILED)
		give_up("mmap");
	if (anon)
		fill_as(p, 1, 0, N * PAGE);
	return p;
}

/* After @p is gone: fifty of each kind must be as new. */
static void afterwards(const char *what)
{
	unsigned long bad = 0;

	for (int round = 0; round < 3; round++) {
		unsigned char *q[100];

		for (int i = 0; i < 100; i++) {
			q[i] = region(i & 1);
			if (i & 1)
				memset(q[i], 0x55, N * PAGE);
		}
		for (int i = 0; i < 100; i++) {
			bad += i & 1 ? not_all(q[i], 0x55, N * PAGE) >= 0 :
				       differs(q[i], 1, 0, N * PAGE) >= 0;
			munmap(q[i], N * PAGE);
		}
	}
	say("  after %s: %lu bad", what, bad);
}

static void keys(int anon)
{
	unsigned char *p = region(anon);

	say("pkey_mprotect, anon %d", anon);
	SAY_I(pkey_mprotect(p + PAGE, PAGE, PROT_NONE, -1));
	say("  %s %s", try_read(p + PAGE), try_read(p));
	SAY_I(pkey_mprotect(p + 2 * PAGE, PAGE, RW, -1));
	say("  %s", try_write(p + 2 * PAGE, 0x11));
	say("  kept %ld %ld", differs(p, 1, 0, PAGE),
	    differs(p + 3 * PAGE, 1, 3 * PAGE, 5 * PAGE));
	SAY_I(munmap(p, N * PAGE));
	afterwards("pkey_mprotect");
}

static void by_pidfd(int anon)
{
	unsigned char *p = region(anon);
	struct iovec iov = { p + PAGE, 2 * PAGE };
	int self = (int)syscall(SYS_pidfd_open, getpid(), 0);

	say("process_madvise, anon %d", anon);
	say("  cold %s", process_madvise(self, &iov, 1, MADV_COLD, 0) < 0 ?
				 ename(errno) :
				 "ok");
	say("  dontneed %s",
	    process_madvise(self, &iov, 1, MADV_DONTNEED, 0) < 0 ?
		    ename(errno) :
		    "ok");
	say("  kept %ld %ld", differs(p, 1, 0, PAGE),
	    differs(p + 3 * PAGE, 1, 3 * PAGE, 5 * PAGE));
	say("  as dropped %d", not_all(p + PAGE, 0, 2 * PAGE) < 0);
	SAY_I(munmap(p, N * PAGE));
	close(self);
	afterwards("process_madvise");
}

static void file_pages(void)
{
	unsigned char *p = region(0), *q;

	say("remap_file_pages");
	SAY_I(remap_file_pages(p, PAGE, 0, 3, 0));
	say("  kept %ld", differs(p, 1, 0, N * PAGE));
	SAY_I(munmap(p, N * PAGE));
	q = mmap(NULL, N * PAGE, PROT_READ, MAP_SHARED, fd, 0);
	SAY_I(remap_file_pages(q, PAGE, 0, 3, 0));
	say("  moved %ld", differs(q, 1, 3 * PAGE, PAGE));
	SAY_I(munmap(q, N * PAGE));
	afterwards("remap_file_pages");
}

int main(void)
{
	see_faults();
	fd = temp_file(1, N * PAGE, O_RDONLY);
	for (int anon = 0; anon < 2; anon++) {
		keys(anon);
		by_pidfd(anon);
	}
	file_pages();
	return 0;
}
