// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * signal.c - see signal.h.
 *
 * The program's action is the newest of a ring of actions: a writer, under
 * LOCK_SIGNAL, fills the next slot and publishes its number; a handler copies a
 * slot and takes it if that cannot have been filled anew meanwhile. Reading is
 * lock-free, and a child of fork finds a complete action whatever its parent's
 * threads were doing.
 *
 * A SIGBUS that somebody sends while the thread has it blocked as the program
 * sees it: the thread then blocks it in earnest and sends it to itself (or the
 * process) again, so that it is pending for sigwait(3), signalfd(2) and
 * sigpending(2) as ever. Until the program unblocks it, a fault in this thread
 * would be deadly; nobody sends SIGBUS to a program that blocks it.
 */
#include "fault/signal.h"

#include <signal.h>
#include <ucontext.h>

#include "base/lock.h"
#include "base/sigbit.h"
#include "base/sys.h"
#include "fault/fault.h"
#include "sigret_arch.h"
#include "base/ban.h"

/* The kernel's struct sigaction. */
struct kaction {
	uintptr_t handler;
	unsigned long flags;
#if ARCH_HAS_SA_RESTORER
	void (*restorer)(void);
#endif
	uint64_t mask;
};

/* What the kernel keeps of sa_flags. */
#define FLAGS_KEPT                                                            \
	((unsigned long)(unsigned int)(SA_NOCLDSTOP | SA_NOCLDWAIT |          \
				       SA_SIGINFO | SA_ONSTACK | SA_RESTART | \
				       SA_NODEFER | SA_RESETHAND) |           \
	 0x800ul /* SA_EXPOSE_TAGBITS */ | ARCH_SA_RESTORER)

#define ACTIONS 64u /* a power of two */

static struct {
	_Atomic(uintptr_t) handler;
	_Atomic(unsigned long) flags;
	_Atomic(uint64_t) mask; /* as the program gave it */
} ring[ACTIONS];
static _Atomic(uint32_t) newest;

_Atomic(bool) signal_installed;
static struct fl_lock action_lock = FL_LOCK_INIT(LOCK_SIGNAL);

static long kernel_action(int sig, const struct kaction *act,
			  struct kaction *old)
{
	return sys_call4(__NR_rt_sigaction, sig, act, old, sizeof(old->mask));
}

static long set_mask(int how, uint64_t set, uint64_t *old)
{
	return sys_call4(__NR_rt_sigprocmask, how, &set, old, sizeof(set));
}

/* ---------------------------------------------------------------------------
 * The program's action
 */

static void action_get(struct kaction *a)
{
	uint32_t n, now;

	do {
		/* [MO:sigbus-action] pairs with action_put: the slot, and
		 * before the number is looked at again, whose it was. */
		n = ld_acq(&newest);
		a->handler = ld_acq(&ring[n % ACTIONS].handler);
		a->flags = ld_acq(&ring[n % ACTIONS].flags);
		a->mask = ld_acq(&ring[n % ACTIONS].mask);
		now = ld_rlx(&newest);
	} while (unlikely(now - n >= ACTIONS - 1));
}

/* Under the lock. */
static void action_put(const struct kaction *a)
{
	uint32_t n = ld_rlx(&newest) + 1;

	/* [MO:sigbus-action] pairs with action_get: who finds one of these in
	 * an old slot sees the number before; then the slot as a whole. */
	st_rel(&ring[n % ACTIONS].handler, a->handler);
	st_rel(&ring[n % ACTIONS].flags, a->flags);
	st_rel(&ring[n % ACTIONS].mask, a->mask);
	st_rel(&newest, n);
}

/* ---------------------------------------------------------------------------
 * The handler
 */

static bool is_function(uintptr_t handler)
{
	return handler != (uintptr_t)SIG_DFL && handler != (uintptr_t)SIG_IGN;
}

/* Pending again, for this thread or the process, as it was sent. */
static void send_again(siginfo_t *info, bool process)
{
	long pid = sys_getpid();

	set_mask(SIG_BLOCK, sig_bit(SIGBUS), NULL);
	if (process)
		sys_call3(__NR_rt_sigqueueinfo, pid, SIGBUS, info);
	else
		sys_call4(__NR_rt_tgsigqueueinfo, pid, sys_gettid(), SIGBUS,
			  info);
}

/*
 * The default action. A fault is repeated, so that the core shows it; what was
 * sent is sent again and delivered when we return.
 */
static void die(siginfo_t *info, bool fault, uint64_t *mask)
{
	struct kaction dfl = { .handler = (uintptr_t)SIG_DFL };

	kernel_action(SIGBUS, &dfl, NULL);
	if (!fault)
		send_again(info, false);
	*mask &= ~sig_bit(SIGBUS);
}

/* The action that the kernel would take now; SA_RESETHAND takes it away. */
static void action_take(struct kaction *a)
{
	struct kaction dfl;

	action_get(a);
	if (likely(!(a->flags & (unsigned int)SA_RESETHAND)) ||
	    !is_function(a->handler))
		return;
	lock_take(&action_lock);
	action_get(a);
	if (a->flags & (unsigned int)SA_RESETHAND && is_function(a->handler)) {
		dfl = *a;
		dfl.handler = (uintptr_t)SIG_DFL;
		action_put(&dfl);
	}
	lock_drop(&action_lock);
}

/* Calls the program's handler under the mask it asked for. */
static void call(const struct kaction *a, siginfo_t *info, ucontext_t *uc,
		 uint64_t mask)
{
	mask |= sig_inward(a->mask);
	if (!(a->flags & SA_NODEFER))
		mask |= sig_bit(SIG_STAND_IN);
	set_mask(SIG_SETMASK, mask, NULL);
	if (a->flags & SA_SIGINFO)
		((void (*)(int, siginfo_t *, void *))a->handler)(SIGBUS, info,
								 uc);
	else
		((void (*)(int))a->handler)(SIGBUS);
}

static void pass_on(siginfo_t *info, ucontext_t *uc)
{
	bool fault = info->si_code > 0 && info->si_code != BUS_MCEERR_AO;
	uint64_t mask = sig_of_set(&uc->uc_sigmask);
	bool blocked = mask & sig_bit(SIG_STAND_IN);
	struct kaction a;

	if (blocked && !fault) {
		send_again(info, info->si_code == SI_USER);
		mask |= sig_bit(SIGBUS);
		goto out;
	}
	if (blocked)
		a.handler = (uintptr_t)SIG_DFL;
	else
		action_take(&a);
	if (is_function(a.handler)) {
		call(&a, info, uc, mask);
		/* The handler may have changed the mask to return to. */
		mask = sig_of_set(&uc->uc_sigmask);
		if (mask & sig_bit(SIGBUS))
			mask = sig_inward(mask);
	} else if (fault || a.handler == (uintptr_t)SIG_DFL) {
		die(info, fault, &mask);
	}
out:
	sig_to_set(&uc->uc_sigmask, mask);
}

static void on_sigbus(int sig, siginfo_t *info, void *context)
{
	int saved = errno;

	(void)sig;
	if (likely(info->si_code == BUS_ADRERR)) {
		enum fault_verdict v = fault_serve(info->si_addr);

		errno = saved;
		if (likely(v == FAULT_DONE))
			return;
	}
	pass_on(info, context);
}

/* ---------------------------------------------------------------------------
 * Installing
 */

/* Ours, with what of the program's flags is the kernel's business. */
static long install(const struct kaction *program)
{
	struct kaction ours = {
		.handler = (uintptr_t)on_sigbus,
		.flags = SA_SIGINFO | SA_NODEFER | ARCH_SA_RESTORER,
	};

	ours.mask = ~(sig_bit(SIGBUS) | sig_bit(SIGSEGV) | sig_bit(SIGFPE) |
		      sig_bit(SIGILL) | sig_bit(SIGTRAP) | sig_bit(SIGSYS));
#if ARCH_HAS_SA_RESTORER
	ours.restorer = arch_sigreturn;
#endif
	if (is_function(program->handler))
		ours.flags |= program->flags & (SA_ONSTACK | SA_RESTART);
	else
		ours.flags |= SA_ONSTACK | SA_RESTART;
	return kernel_action(SIGBUS, &ours, NULL);
}

int signal_install(void)
{
	struct kaction program;
	long ret = 0;

	lock_take(&action_lock);
	if (!ld_rlx(&signal_installed)) {
		ret = kernel_action(SIGBUS, NULL, &program);
		if (ret == 0) {
			action_put(&program);
			ret = install(&program);
		}
		if (ret == 0)
			st_rlx(&signal_installed, true);
	}
	lock_drop(&action_lock);
	return (int)ret;
}

void signal_unblock(void)
{
	uint64_t mask = 0;

	set_mask(SIG_BLOCK, 0, &mask);
	if (mask & sig_bit(SIGBUS))
		set_mask(SIG_SETMASK, sig_inward(mask), NULL);
}

static long bus_action(const struct kaction *act, struct kaction *old)
{
	struct kaction was;
	long ret = 0;

	action_get(&was);
	if (act) {
		lock_take(&action_lock);
		action_get(&was);
		ret = install(act);
		if (ret == 0)
			action_put(act);
		lock_drop(&action_lock);
	}
	*old = was;
	return ret;
}

int signal_action(int sig, const struct sigaction *act, struct sigaction *old)
{
	bool kept = ld_rlx(&signal_installed);
	struct kaction new, was = { 0 };
	long ret;

	/* Those libc keeps for itself. */
	if (sig == 32 || sig == 33)
		return -EINVAL;
	if (act) {
		new.handler = (uintptr_t)act->sa_handler;
		new.flags = (unsigned int)act->sa_flags | ARCH_SA_RESTORER;
		new.mask = sig_of_set(&act->sa_mask);
#if ARCH_HAS_SA_RESTORER
		new.restorer = arch_sigreturn;
#endif
	}
	if (kept && sig == SIGBUS) {
		if (act) {
			new.flags &= FLAGS_KEPT;
			new.mask &= ~(sig_bit(SIGKILL) | sig_bit(SIGSTOP));
		}
		ret = bus_action(act ? &new : NULL, &was);
	} else {
		if (act && kept)
			new.mask = sig_inward(new.mask);
		ret = kernel_action(sig, act ? &new : NULL, &was);
		if (kept)
			was.mask = sig_outward(was.mask);
	}
	if (ret == 0 && old) {
		old->sa_handler = (void (*)(int))was.handler;
		old->sa_flags = (int)was.flags;
		sig_to_set(&old->sa_mask, was.mask);
		old->sa_restorer = NULL;
	}
	return (int)ret;
}

void signal_fork_child(void)
{
	lock_reset(&action_lock);
}
