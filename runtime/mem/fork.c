// SPDX-License-Identifier: LGPL-2.1-or-later
/* fork.c - see fork.h. */
#include "mem/fork.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/sys.h"
#include "base/ban.h"

enum slot_state {
	SLOT_FREE,
	SLOT_FORKED,
	SLOT_TAKING,
	SLOT_DONE,
};

struct fork_slots {
	struct {
		_Atomic(uint32_t) state;
		_Atomic(int32_t) pid;
	} slot[FORK_SLOTS];
};

static struct fork_slots *slots_map(void *at)
{
	return sys_mmap(at, page_align_up(sizeof(struct fork_slots)),
			PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1,
			0);
}

int fork_ledger_init(struct fork_ledger *f)
{
	struct fork_slots *s = slots_map(NULL);

	if (is_err(s))
		return (int)ptr_err(s);
	st_rlx(&f->barrier, 0u);
	st_rlx(&f->epoch, 1u);
	f->lost = 0;
	f->slots = s;
	f->mine = -1;
	f->doubt = 0;
	lock_init(&f->lock, LOCK_FORK);
	return 0;
}

void fork_ledger_destroy(struct fork_ledger *f)
{
	sys_munmap(f->slots, sizeof(*f->slots));
}

void fork_prepare(struct fork_ledger *f)
{
	uint32_t epoch;

	lock_take(&f->lock);
	epoch = ld_rlx(&f->epoch);
	f->mine = -1;
	for (int i = 0; i < FORK_SLOTS; i++) {
		if (ld_rlx(&f->slots->slot[i].state) != SLOT_FREE)
			continue;
		st_rlx(&f->slots->slot[i].state, (uint32_t)SLOT_FORKED);
		f->slot_epoch[i] = epoch;
		f->mine = i;
		break;
	}
	if (f->mine < 0)
		f->lost = epoch + 1;
	/* [MO:fork-barrier] store-load with fork_must_wait: raised before the
	 * fork takes its picture of the page table. */
	st_sc(&f->barrier, epoch + 1);
}

void fork_parent(struct fork_ledger *f, bool failed)
{
	if (failed && f->mine >= 0)
		f->doubt |= (uint64_t)1 << f->mine;
	st_rlx(&f->epoch, ld_rlx(&f->epoch) + 1);
	f->mine = -1;
	lock_drop(&f->lock);
}

void fork_child_begin(struct fork_ledger *f)
{
	int32_t pid = (int32_t)sys_getpid();

	if (f->mine < 0)
		return;
	/* In a PID namespace of its own the child's number tells the parent
	 * nothing: 0, which is not asked after. */
	if (sys_call0(__NR_getppid) == 0)
		pid = 0;
	st_rlx(&f->slots->slot[f->mine].pid, pid);
	/* [MO:fork-slot] the pid, to slot_pending in the parent. */
	st_rel(&f->slots->slot[f->mine].state, (uint32_t)SLOT_TAKING);
}

void fork_child_end(struct fork_ledger *f, bool copied)
{
	if (f->mine >= 0 && copied)
		/* [MO:fork-slot] the end of all reads of shared frames, to
		 * slot_pending in the parent. */
		st_rel(&f->slots->slot[f->mine].state, (uint32_t)SLOT_DONE);
	/* A page of its own, in the place of the one shared with the parent:
	 * needs no room, so it does not fail for lack of it. */
	if (is_err(slots_map(f->slots)))
		BUG("no page for the fork ledger");
	f->mine = -1;
	f->doubt = 0;
	f->lost = 0;
	st_rlx(&f->barrier, 0u);
	lock_drop(&f->lock);
}

/* Is there still a process @pid that may be copying? Zombies are not. */
static bool alive(int32_t pid)
{
	siginfo_t info;

	if (pid == 0)
		return true;
	if (sys_call2(__NR_kill, pid, 0) == -ESRCH)
		return false;
	info.si_pid = 0;
	if (sys_call5(__NR_waitid, P_PID, pid, &info,
		      WEXITED | WNOHANG | WNOWAIT, NULL) == 0)
		return info.si_pid == 0;
	return true;
}

/* Surely no children: as long as there are some, one may be stopped before its
 * first instruction. */
static bool childless(void)
{
	siginfo_t info;

	return sys_call5(__NR_waitid, P_ALL, 0, &info,
			 WEXITED | WNOHANG | WNOWAIT | __WALL, NULL) == -ECHILD;
}

static bool slot_pending(struct fork_ledger *f, int i)
{
	/* [MO:fork-slot] pairs with fork_child_begin and fork_child_end. */
	uint32_t state = ld_acq(&f->slots->slot[i].state);

	if (state == SLOT_FREE)
		return false;
	if (state == SLOT_FORKED &&
	    !(f->doubt & (uint64_t)1 << i && childless()))
		return true;
	if (state == SLOT_TAKING && alive(ld_rlx(&f->slots->slot[i].pid)))
		return true;
	f->doubt &= ~((uint64_t)1 << i);
	st_rlx(&f->slots->slot[i].state, (uint32_t)SLOT_FREE);
	return false;
}

bool fork_poll(struct fork_ledger *f)
{
	uint32_t barrier, old;

	if (!lock_try(&f->lock))
		return false;
	barrier = f->lost;
	for (int i = 0; i < FORK_SLOTS; i++)
		if (slot_pending(f, i) && f->slot_epoch[i] + 1 > barrier)
			barrier = f->slot_epoch[i] + 1;
	old = ld_rlx(&f->barrier);
	if (barrier < old)
		/* [MO:fork-barrier] lowered under the lock that fork_prepare
		 * holds, so never below what it raised. */
		st_sc(&f->barrier, barrier);
	lock_drop(&f->lock);
	return barrier < old;
}
