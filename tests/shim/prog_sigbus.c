/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_sigbus - the program's own SIGBUS: handlers of every kind, faults past
 * the end of a truncated file, SIGBUS that is sent, ignored, blocked; and
 * signals of all kinds while pages are touched.
 * [fl:modes] signal service
 */
#include <pthread.h>
#include <sys/time.h>

#include "support/demand.h"

/* Old calls are calls, too. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#define SIZE ((size_t)2 << 20)
#define ID 11

static int fd;

static const char *mask_now(void)
{
	static char buf[80];
	sigset_t s;

	sigprocmask(SIG_BLOCK, NULL, &s);
	snprintf(buf, sizeof(buf), "BUS%c USR1%c STKFLT%c ALRM%c",
		 sigismember(&s, SIGBUS) ? '+' : '-',
		 sigismember(&s, SIGUSR1) ? '+' : '-',
		 sigismember(&s, SIGSTKFLT) ? '+' : '-',
		 sigismember(&s, SIGALRM) ? '+' : '-');
	return buf;
}

static const char *name_of(sighandler_t h)
{
	return h == SIG_DFL  ? "default" :
	       h == SIG_IGN  ? "ignored" :
	       h == SIG_ERR  ? "error" :
	       h == SIG_HOLD ? "held" :
			       "handler";
}

static void say_action(const char *what)
{
	struct sigaction a;

	if (sigaction(SIGBUS, NULL, &a))
		give_up("sigaction");
	say("%s: %s, flags %x, mask BUS%d USR1%d", what, name_of(a.sa_handler),
	    (unsigned int)a.sa_flags, sigismember(&a.sa_mask, SIGBUS),
	    sigismember(&a.sa_mask, SIGUSR1));
}

static void act(int sig, void (*fn)(int, siginfo_t *, void *), int flags)
{
	struct sigaction a = { .sa_sigaction = fn, .sa_flags = flags };

	sigaddset(&a.sa_mask, SIGUSR1);
	if (sigaction(sig, &a, NULL))
		give_up("sigaction");
}

/* ---------------------------------------------------------------------------
 * Faults past the end
 */

static sigjmp_buf out;
static unsigned char *map, *fresh;
static long trouble;
static volatile int depth;

/* A mapping whose second half has gone from the file. */
static void cut(void)
{
	int f = temp_file(ID, SIZE, O_RDWR);
	char name[64];
	int ro;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", f);
	ro = open(name, O_RDONLY | O_CLOEXEC);
	if (ro < 0)
		give_up("open");
	map = map_demand(ro, SIZE);
	if (ftruncate(f, SIZE / 2))
		give_up("ftruncate");
	close(f);
	close(ro);
}

static int on_alt(void)
{
	stack_t st;

	sigaltstack(NULL, &st);
	return st.ss_flags == SS_ONSTACK;
}

static void tell(int sig, siginfo_t *si, void *uc)
{
	(void)uc;
	say("  signal %d code %d at %+ld, %s, errno %s, %s", sig, si->si_code,
	    si->si_code > 0 ? (long)((unsigned char *)si->si_addr - map) : 0,
	    mask_now(), ename(errno), on_alt() ? "alternate stack" : "stack");
	/* A handler may touch a region, too. */
	say("  inside: %s",
	    differs(fresh, ID, 0, SIZE / 4) < 0 ? "right" : "WRONG");
}

static void tell_and_jump(int sig, siginfo_t *si, void *uc)
{
	tell(sig, si, uc);
	siglongjmp(out, 1);
}

static void plain_jump(int sig)
{
	say("  signal %d, %s", sig, mask_now());
	siglongjmp(out, 1);
}

/* Touches the byte after the end once. */
static void trip(void)
{
	errno = EDOM;
	if (!sigsetjmp(out, 1))
		trouble += map[SIZE / 2 + 12345];
	else
		say("  jumped out, %s", mask_now());
}

static void handlers(void)
{
	static const int flags[] = { SA_SIGINFO, SA_SIGINFO | SA_NODEFER,
				     SA_SIGINFO | SA_ONSTACK,
				     SA_SIGINFO | SA_RESTART,
				     (int)(SA_SIGINFO | SA_RESETHAND) };
	static char stack[65536];
	stack_t st = { .ss_sp = stack, .ss_size = sizeof(stack) };

	if (sigaltstack(&st, NULL))
		give_up("sigaltstack");
	for (size_t i = 0; i < COUNT(flags); i++) {
		say("flags %x", (unsigned int)flags[i]);
		fresh = map_demand(fd, SIZE);
		act(SIGBUS, tell_and_jump, flags[i]);
		say_action("set");
		trip();
		say_action("after");
		munmap(fresh, SIZE);
	}
	say("signal: %s", name_of(signal(SIGBUS, plain_jump)));
	say_action("set");
	trip();
	say("sigset: %s", name_of(sigset(SIGBUS, plain_jump)));
	say_action("set");
	trip();
	say("hold: %s", name_of(sigset(SIGBUS, SIG_HOLD)));
	say("%s", mask_now());
	say("again: %s", name_of(sigset(SIGBUS, SIG_HOLD)));
	say("relse: %s", res_i(sigrelse(SIGBUS)));
	say("%s", mask_now());
	say("sysv_signal: %s", name_of(sysv_signal(SIGBUS, plain_jump)));
	say_action("set");
	trip();
	say_action("after");
	say("siginterrupt: %s", res_i(siginterrupt(SIGBUS, 0)));
	say_action("set");
	say("ignore: %s", res_i(sigignore(SIGBUS)));
	say_action("set");
	say("signal: %s", name_of(signal(SIGBUS, SIG_ERR)));
	signal(SIGBUS, SIG_DFL);
}

/* As scanners do for each block of a file. */
static void many(void)
{
	unsigned char *p = map_demand(fd, SIZE);
	unsigned long wrong = 0, caught = 0;
	struct sigaction a = { .sa_sigaction = see_handler,
			       .sa_flags = SA_SIGINFO | SA_ONSTACK };
	struct sigaction old_bus, old_segv;

	for (size_t i = 0; i < 400; i++) {
		size_t off = (i * 2654435761u) % SIZE;

		sigaction(SIGBUS, &a, &old_bus);
		sigaction(SIGSEGV, &a, &old_segv);
		wrong += p[off] != byte_of(ID, off);
		caught += strncmp(try_read(map + off), "SIGBUS", 6) == 0;
		wrong += strncmp(try_read(map + off), "SIGBUS", 6) == 0 ?
				 off < SIZE / 2 :
				 map[off] != byte_of(ID, off);
		sigaction(SIGBUS, &old_bus, NULL);
		sigaction(SIGSEGV, &old_segv, NULL);
	}
	say("many: %lu caught, %lu wrong", caught, wrong);
	say_action("restored");
	munmap(p, SIZE);
}

/* ---------------------------------------------------------------------------
 * Ends
 */

static void child(const char *what, void (*fn)(void))
{
	pid_t pid = fork();

	if (pid == 0) {
		/* Children have kernel mappings; these want regions. */
		cut();
		fresh = map_demand(fd, SIZE);
		fn();
		_exit(0);
	}
	say("%s: %s", what, end_of(pid));
}

static void touch_end(void)
{
	trouble += map[SIZE - 1];
}

static void default_end(void)
{
	touch_end();
}

static void ignored_end(void)
{
	signal(SIGBUS, SIG_IGN);
	touch_end();
}

static void block(int sig)
{
	sigset_t s;

	sigemptyset(&s);
	sigaddset(&s, sig);
	sigprocmask(SIG_BLOCK, &s, NULL);
}

static void blocked_end(void)
{
	act(SIGBUS, tell, SA_SIGINFO);
	block(SIGBUS);
	/* What the pager serves is served. */
	say("  blocked: %s",
	    differs(fresh, ID, 0, SIZE) < 0 ? "right" : "WRONG");
	touch_end();
}

static void again(int sig, siginfo_t *si, void *uc)
{
	(void)sig;
	(void)si;
	(void)uc;
	if (depth++ > 3)
		_exit(33);
	touch_end();
}

static void inside_end(void)
{
	act(SIGBUS, again, SA_SIGINFO);
	touch_end();
}

static void inside_nodefer_end(void)
{
	act(SIGBUS, again, SA_SIGINFO | SA_NODEFER);
	touch_end();
}

static void returns_once(int sig, siginfo_t *si, void *uc)
{
	(void)sig;
	(void)si;
	(void)uc;
	mmap(map + SIZE - PAGE, PAGE, PROT_READ,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	errno = ERANGE;
}

static void repaired(void)
{
	act(SIGBUS, returns_once, SA_SIGINFO);
	errno = 0;
	trouble += map[SIZE - 1];
	say("  repaired: %ld, errno %s", trouble, ename(errno));
}

static void sent_default(void)
{
	kill(getpid(), SIGBUS);
}

static void sent_raise(void)
{
	raise(SIGBUS);
}

static void sent_ignored(void)
{
	signal(SIGBUS, SIG_IGN);
	say("  kill: %s", res_i(kill(getpid(), SIGBUS)));
}

static void sent_caught(void)
{
	map = fresh;
	act(SIGBUS, tell, SA_SIGINFO);
	errno = 0;
	say("  kill: %s", res_i(kill(getpid(), SIGBUS)));
	say("  raise: %d", raise(SIGBUS));
	say("  %s", mask_now());
}

static void sent_blocked(void)
{
	struct timespec none = { 0, 0 };
	siginfo_t si;
	sigset_t s;
	int sig;

	act(SIGBUS, tell, SA_SIGINFO);
	block(SIGBUS);
	kill(getpid(), SIGBUS);
	sigpending(&s);
	say("  pending %d, %s", sigismember(&s, SIGBUS), mask_now());
	sigemptyset(&s);
	sigaddset(&s, SIGBUS);
	sig = sigtimedwait(&s, &si, &none);
	say("  waited for: %d code %d from here %d", sig, si.si_code,
	    si.si_pid == getpid());
	raise(SIGBUS);
	sigpending(&s);
	say("  pending %d", sigismember(&s, SIGBUS));
	sigemptyset(&s);
	sigaddset(&s, SIGBUS);
	errno = 0;
	sigprocmask(SIG_UNBLOCK, &s, NULL);
	sigpending(&s);
	say("  pending %d, %s", sigismember(&s, SIGBUS), mask_now());
	say("  %s",
	    differs(fresh, ID, SIZE / 2, SIZE / 4) < 0 ? "right" : "WRONG");
}

static void ends(void)
{
	child("default", default_end);
	child("ignored", ignored_end);
	child("blocked", blocked_end);
	child("fault inside", inside_end);
	child("fault inside, SA_NODEFER", inside_nodefer_end);
	child("repaired", repaired);
	child("sent, default", sent_default);
	child("raised, default", sent_raise);
	child("sent, ignored", sent_ignored);
	child("sent, caught", sent_caught);
	child("sent, blocked", sent_blocked);
}

/* ---------------------------------------------------------------------------
 * Other signals while pages come
 */

static volatile unsigned long ticks, wrong;
static volatile sig_atomic_t jumping;
static unsigned char *volatile ticked;

static void on_tick(int sig)
{
	int saved = errno;
	size_t off = (ticks * 40961) % SIZE;

	(void)sig;
	ticks++;
	wrong += ticked[off] != byte_of(ID, off);
	errno = saved;
	if (jumping)
		siglongjmp(out, 1);
}

static void ticking(int jump)
{
	struct itimerval it = { { 0, 500 }, { 0, 500 } };
	struct sigaction a = { .sa_handler = on_tick };
	unsigned long bad = 0;
	unsigned char *old;

	jumping = 0;
	ticks = wrong = 0;
	ticked = map_demand(fd, SIZE);
	sigfillset(&a.sa_mask);
	sigaction(SIGALRM, &a, NULL);
	setitimer(ITIMER_REAL, &it, NULL);
	for (volatile int i = 0; i < 30; i++) {
		unsigned char *volatile p = map_demand(fd, SIZE);

		errno = EDOM;
		if (!sigsetjmp(out, 1)) {
			jumping = jump;
			bad += differs(p, ID, 0, SIZE) >= 0;
			jumping = 0;
			bad += errno != EDOM;
		} else {
			jumping = 0;
			bad += differs(p, ID, 0, SIZE) >= 0;
		}
		munmap(p, SIZE);
		old = ticked;
		ticked = map_demand(fd, SIZE);
		munmap(old, SIZE);
	}
	memset(&it, 0, sizeof(it));
	setitimer(ITIMER_REAL, &it, NULL);
	say("ticks: %s, %lu, %lu", ticks ? "some" : "none", wrong, bad);
	munmap(ticked, SIZE);
}

int main(void)
{
	fd = temp_file(ID, SIZE, O_RDONLY);
	cut();
	say_action("start");
	handlers();
	many();
	ends();
	ticking(0);
	ticking(1);
	return trouble == 77;
}
