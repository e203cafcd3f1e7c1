/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_shmat - a System V segment attached over a part of a region, which
 * stays that until it is detached, and is a hole from then on.
 *
 * [fl:demand] signal
 */
#include <sys/ipc.h>
#include <sys/shm.h>

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

static void segment(int anon)
{
	int id = shmget(IPC_PRIVATE, 2 * PAGE, IPC_CREAT | 0600);
	unsigned char *p = region(anon), *q;

	say("shmat, anon %d", anon);
	if (id < 0) {
		say("  shmget %s", ename(errno));
		munmap(p, N * PAGE);
		return;
	}
	SAY_P(shmat(id, p + 2 * PAGE, 0));
	q = shmat(id, p + 2 * PAGE, SHM_REMAP);
	say("  remap: %s there %d", res_p(q), q == p + 2 * PAGE);
	if (q != MAP_FAILED) {
		memset(q, 0x77, 2 * PAGE);
		say("  kept %ld %ld", differs(p, 1, 0, 2 * PAGE),
		    differs(p + 4 * PAGE, 1, 4 * PAGE, 4 * PAGE));
		SAY_I(shmdt(q));
		say("  %s", layout(p, N));
	}
	SAY_I(munmap(p, N * PAGE));
	shmctl(id, IPC_RMID, NULL);
	afterwards("shmat");
}

int main(void)
{
	see_faults();
	fd = temp_file(1, N * PAGE, O_RDONLY);
	segment(0);
	segment(1);
	return 0;
}
