// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * wrap_sig.c - the program's signal masks and its handler for SIGBUS.
 *
 * Where faulting threads serve their own faults (fl_sigbus_taken), the pager's
 * handler for SIGBUS stays the first and SIGBUS is never blocked: its place in
 * the kernel's masks is taken by another bit, see base/sigbit.h. The program
 * reads back what it set. Elsewhere all this is passed on unchanged.
 *
 * Not translated: the masks that setcontext(3) takes from a context the program
 * filled in by hand; sigpause(3) with SIGBUS; and what a program does by system
 * calls of its own. sigwait(3), signalfd(2) and sigpending(2) need nothing.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>

#include "next.h"
#include "shim.h"
#include "wrap_sig.h"
#include "base/sigbit.h"
#include "base/sys.h"

/* Programs that use them are served all the same. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

/* The signals libc keeps for itself. */
#define LIBC_SIGNALS (sig_bit(32) | sig_bit(33))

uint64_t sig_kernel_mask(void)
{
	uint64_t m = 0;

	sys_call4(__NR_rt_sigprocmask, SIG_BLOCK, NULL, &m, sizeof(m));
	return m;
}

uint64_t sig_program_mask(void)
{
	return sig_outward(sig_kernel_mask());
}

void sig_set_kernel_mask(uint64_t m)
{
	sys_call4(__NR_rt_sigprocmask, SIG_SETMASK, &m, NULL, sizeof(m));
}

/* What of @m the kernel gets, to be set, added or taken away. */
static uint64_t to_kernel(int how, uint64_t m)
{
	uint64_t bus = m & sig_bit(SIGBUS);

	if (how != SIG_UNBLOCK)
		return sig_inward(m);
	m &= ~sig_bit(SIG_STAND_IN);
	/* The stand-in, and SIGBUS itself if one has been sent. */
	return bus ? m | sig_bit(SIG_STAND_IN) : m;
}

static long set_mask(int how, const sigset_t *set, sigset_t *old)
{
	bool kept = fl_sigbus_taken();
	uint64_t k = set ? sig_of_set(set) : 0, was = 0;
	long ret;

	if (set && kept)
		k = to_kernel(how, k);
	k &= ~LIBC_SIGNALS;
	ret = sys_call4(__NR_rt_sigprocmask, how, set ? &k : NULL, &was,
			sizeof(k));
	if (ret < 0)
		return ret;
	if (old)
		sig_to_set(old, kept ? sig_outward(was) : was);
	return 0;
}

FL_API int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	return (int)-set_mask(how, set, old);
}

FL_API int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	return (int)shim_ret(set_mask(how, set, old), errno);
}

/* ---------------------------------------------------------------------------
 * Waiting under another mask
 */

static const sigset_t *inward(const sigset_t *set, sigset_t *copy)
{
	if (!set || !fl_sigbus_taken())
		return set;
	*copy = *set;
	sig_to_set(copy, sig_inward(sig_of_set(set)));
	return copy;
}

FL_API int sigsuspend(const sigset_t *set)
{
	sigset_t s;

	return next(sigsuspend)(inward(set, &s));
}

FL_API int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		 const sigset_t *set)
{
	sigset_t s;

	return next(ppoll)(fds, n, timeout, inward(set, &s));
}

int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		const sigset_t *set, size_t size);

FL_API int __ppoll_chk(struct pollfd *fds, nfds_t n,
		       const struct timespec *timeout, const sigset_t *set,
		       size_t size)
{
	sigset_t s;

	return next(__ppoll_chk)(fds, n, timeout, inward(set, &s), size);
}

FL_API int pselect(int n, fd_set *r, fd_set *w, fd_set *e,
		   const struct timespec *timeout, const sigset_t *set)
{
	sigset_t s;

	return next(pselect)(n, r, w, e, timeout, inward(set, &s));
}

FL_API int epoll_pwait(int fd, struct epoll_event *ev, int n, int timeout,
		       const sigset_t *set)
{
	sigset_t s;

	return next(epoll_pwait)(fd, ev, n, timeout, inward(set, &s));
}

FL_API int epoll_pwait2(int fd, struct epoll_event *ev, int n,
			const struct timespec *timeout, const sigset_t *set)
{
	sigset_t s;

	return next(epoll_pwait2)(fd, ev, n, timeout, inward(set, &s));
}

FL_API int pthread_attr_setsigmask_np(pthread_attr_t *attr, const sigset_t *set)
{
	sigset_t s;

	return next(pthread_attr_setsigmask_np)(attr, inward(set, &s));
}

FL_API int pthread_attr_getsigmask_np(const pthread_attr_t *attr, sigset_t *set)
{
	int ret = next(pthread_attr_getsigmask_np)(attr, set);

	if (ret == 0 && fl_sigbus_taken())
		sig_to_set(set, sig_outward(sig_of_set(set)));
	return ret;
}

/* ---------------------------------------------------------------------------
 * Handlers
 */

FL_API int sigaction(int sig, const struct sigaction *act,
		     struct sigaction *old)
{
	struct sigaction a;
	int ret;

	if (!fl_sigbus_taken())
		return next(sigaction)(sig, act, old);
	if (sig == SIGBUS)
		return fl_sigaction(sig, act, old);
	if (act) {
		a = *act;
		inward(&act->sa_mask, &a.sa_mask);
		act = &a;
	}
	ret = next(sigaction)(sig, act, old);
	if (ret == 0 && old)
		sig_to_set(&old->sa_mask,
			   sig_outward(sig_of_set(&old->sa_mask)));
	return ret;
}

static bool is_bus(int sig)
{
	return sig == SIGBUS && fl_sigbus_taken();
}

/* siginterrupt(SIGBUS, 1) was called. Relaxed: no more than libc does. */
static _Atomic(bool) interrupts;

static sighandler_t set_handler(sighandler_t handler, int flags, bool defer)
{
	struct sigaction a = { .sa_handler = handler, .sa_flags = flags }, old;

	if (handler == SIG_ERR) {
		errno = EINVAL;
		return SIG_ERR;
	}
	if (defer)
		sigaddset(&a.sa_mask, SIGBUS);
	return fl_sigaction(SIGBUS, &a, &old) ? SIG_ERR : old.sa_handler;
}

FL_API sighandler_t signal(int sig, sighandler_t handler)
{
	return is_bus(sig) ?
		       set_handler(handler,
				   ld_rlx(&interrupts) ? 0 : SA_RESTART, true) :
		       next(signal)(sig, handler);
}

/* The same under other names; signal.h has them only on demand. */
sighandler_t bsd_signal(int sig, sighandler_t handler);
sighandler_t __sysv_signal(int sig, sighandler_t handler);

FL_API sighandler_t bsd_signal(int sig, sighandler_t handler)
{
	return signal(sig, handler);
}

FL_API sighandler_t ssignal(int sig, sighandler_t handler)
{
	return signal(sig, handler);
}

FL_API sighandler_t sysv_signal(int sig, sighandler_t handler)
{
	return is_bus(sig) ? set_handler(handler,
					 (int)(SA_RESETHAND | SA_NODEFER |
					       SA_INTERRUPT),
					 false) :
			     next(sysv_signal)(sig, handler);
}

FL_API sighandler_t __sysv_signal(int sig, sighandler_t handler)
{
	return sysv_signal(sig, handler);
}

FL_API int siginterrupt(int sig, int on)
{
	struct sigaction a;

	if (!is_bus(sig))
		return next(siginterrupt)(sig, on);
	st_rlx(&interrupts, on != 0);
	fl_sigaction(sig, NULL, &a);
	a.sa_flags &= ~SA_RESTART;
	if (!on)
		a.sa_flags |= SA_RESTART;
	return fl_sigaction(sig, &a, NULL);
}

/* ---------------------------------------------------------------------------
 * The calls of System V and BSD
 */

static sigset_t only(int sig)
{
	sigset_t s;

	sigemptyset(&s);
	sigaddset(&s, sig);
	return s;
}

FL_API sighandler_t sigset(int sig, sighandler_t disp)
{
	sigset_t s, old;
	struct sigaction a;
	sighandler_t was;

	if (!is_bus(sig))
		return next(sigset)(sig, disp);
	s = only(sig);
	if (disp == SIG_HOLD) {
		set_mask(SIG_BLOCK, &s, &old);
		fl_sigaction(sig, NULL, &a);
		was = a.sa_handler;
	} else {
		was = set_handler(disp, 0, false);
		if (was == SIG_ERR)
			return was;
		set_mask(SIG_UNBLOCK, &s, &old);
	}
	return sigismember(&old, sig) ? SIG_HOLD : was;
}

FL_API int sighold(int sig)
{
	sigset_t s;

	if (!is_bus(sig))
		return next(sighold)(sig);
	s = only(sig);
	return sigprocmask(SIG_BLOCK, &s, NULL);
}

FL_API int sigrelse(int sig)
{
	sigset_t s;

	if (!is_bus(sig))
		return next(sigrelse)(sig);
	s = only(sig);
	return sigprocmask(SIG_UNBLOCK, &s, NULL);
}

FL_API int sigignore(int sig)
{
	if (!is_bus(sig))
		return next(sigignore)(sig);
	return set_handler(SIG_IGN, 0, false) == SIG_ERR ? -1 : 0;
}

static int bsd_mask(int how, int mask)
{
	sigset_t s, old;

	sigemptyset(&s);
	sig_to_set(&s, (uint32_t)mask);
	set_mask(how, &s, &old);
	return (int)sig_of_set(&old);
}

FL_API int sigblock(int mask)
{
	return bsd_mask(SIG_BLOCK, mask);
}

FL_API int sigsetmask(int mask)
{
	return bsd_mask(SIG_SETMASK, mask);
}

FL_API int siggetmask(void)
{
	return bsd_mask(SIG_BLOCK, 0);
}
