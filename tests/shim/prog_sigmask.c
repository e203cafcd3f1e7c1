/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_sigmask - pages are touched with every signal blocked, by every call that
 * blocks them, in threads and handlers; masks read back as they were set, are
 * inherited by threads and programs, and come back from jumps.
 * [fl:modes] signal service
 */
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <ucontext.h>

#include "support/demand.h"

/* Old calls are calls, too. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#define SIZE ((size_t)1 << 20)
#define ID 12

extern char **environ;
static int fd;
static const char *self;

static const char *words(const sigset_t *s)
{
	static char buf[4][200];
	static unsigned int next;
	char *b = buf[next++ % 4];
	size_t n = 0;

	b[0] = 0;
	for (int sig = 1; sig <= 64; sig++)
		if (sigismember(s, sig) == 1)
			n += (size_t)snprintf(b + n, 200 - n, "%d,", sig);
	return b;
}

static const char *mask_now(void)
{
	sigset_t s;

	sigemptyset(&s);
	pthread_sigmask(SIG_BLOCK, NULL, &s);
	return words(&s);
}

/* A new region, all of it touched. */
static const char *touched(void)
{
	unsigned char *p = map_demand(fd, SIZE);
	long at = differs(p, ID, 0, SIZE);

	munmap(p, SIZE);
	return at < 0 ? "right" : "WRONG";
}

static sigset_t set_of(int a, int b)
{
	sigset_t s;

	sigemptyset(&s);
	if (a)
		sigaddset(&s, a);
	if (b)
		sigaddset(&s, b);
	return s;
}

static void clear(void)
{
	sigset_t s = set_of(0, 0);

	sigprocmask(SIG_SETMASK, &s, NULL);
}

static void masks(void)
{
	sigset_t all, old, bus = set_of(SIGBUS, 0), term = set_of(SIGTERM, 0),
			   two = set_of(SIGBUS, SIGTERM);

	sigfillset(&all);
	say("all: %s", res_i(sigprocmask(SIG_BLOCK, &all, &old)));
	say("was %s", words(&old));
	say("now %s", mask_now());
	say("%s", touched());
	say("less bus: %s", res_i(sigprocmask(SIG_UNBLOCK, &bus, &old)));
	say("was %s", words(&old));
	say("now %s", mask_now());
	say("%s", touched());
	clear();
	say("two: %d", pthread_sigmask(SIG_BLOCK, &two, &old));
	say("now %s", mask_now());
	say("%s", touched());
	say("take: %d", pthread_sigmask(SIG_UNBLOCK, &term, &old));
	say("was %s now %s", words(&old), mask_now());
	say("%s", touched());
	say("bad: %d", pthread_sigmask(77, &bus, NULL));
	SAY_I(sigprocmask(77, &bus, NULL));
	say("sighold: %s", res_i(sighold(SIGBUS)));
	say("now %s", mask_now());
	say("%s", touched());
	say("sigrelse: %s", res_i(sigrelse(SIGBUS)));
	say("now %s", mask_now());
	clear();
	say("sigblock: %x", (unsigned int)sigblock(1 << (SIGBUS - 1)));
	say("sigblock: %x", (unsigned int)sigblock(0));
	say("%s", touched());
	say("sigsetmask: %x", (unsigned int)sigsetmask(~0));
	say("sigblock: %x", (unsigned int)sigblock(0));
	say("%s", touched());
	clear();
}

/* ---------------------------------------------------------------------------
 * Jumps and contexts
 */

static sigjmp_buf out;

static void jumps(void)
{
	sigset_t all, bus = set_of(SIGBUS, 0);
	ucontext_t uc;
	volatile int rounds = 0;

	sigfillset(&all);
	if (!sigsetjmp(out, 1)) {
		sigprocmask(SIG_SETMASK, &all, NULL);
		siglongjmp(out, 1);
	}
	say("back from all: %s", mask_now());
	sigprocmask(SIG_SETMASK, &all, NULL);
	if (!sigsetjmp(out, 1)) {
		clear();
		siglongjmp(out, 1);
	}
	say("back to all: %s", mask_now());
	say("%s", touched());
	clear();
	sigprocmask(SIG_BLOCK, &bus, NULL);
	getcontext(&uc);
	if (rounds++ == 0) {
		clear();
		setcontext(&uc);
	}
	say("back to bus: %s", mask_now());
	say("%s", touched());
	clear();
}

/* ---------------------------------------------------------------------------
 * Handlers
 */

static void on_signal(int sig)
{
	int saved = errno;

	say("  signal %d, %s, %s", sig, mask_now(), touched());
	errno = saved;
}

static void handle(int sig, const sigset_t *mask)
{
	struct sigaction a = { .sa_handler = on_signal, .sa_mask = *mask }, b;

	if (sigaction(sig, &a, NULL) || sigaction(sig, NULL, &b))
		give_up("sigaction");
	say("handler %d: %s", sig, words(&b.sa_mask));
}

static void handlers(void)
{
	sigset_t all, none = set_of(0, 0), bus = set_of(SIGBUS, SIGHUP),
		      usr = set_of(SIGUSR1, 0);
	struct timespec soon = { 5, 0 };
	struct epoll_event ev;
	fd_set fds;
	int ep = epoll_create1(EPOLL_CLOEXEC);

	sigfillset(&all);
	handle(SIGUSR1, &all);
	raise(SIGUSR1);
	handle(SIGUSR1, &bus);
	raise(SIGUSR1);
	handle(SIGUSR1, &none);
	raise(SIGUSR1);
	say("after: %s", mask_now());
	/* Calls that wait under a mask of their own. */
	sigdelset(&all, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr, NULL);
	raise(SIGUSR1);
	SAY_I(sigsuspend(&all));
	raise(SIGUSR1);
	SAY_I(ppoll(NULL, 0, &soon, &all));
	raise(SIGUSR1);
	FD_ZERO(&fds);
	SAY_I(pselect(0, &fds, NULL, NULL, &soon, &all));
	raise(SIGUSR1);
	SAY_I(epoll_pwait(ep, &ev, 1, 5000, &all));
	raise(SIGUSR1);
	SAY_I(epoll_pwait2(ep, &ev, 1, &soon, &all));
	say("after: %s", mask_now());
	close(ep);
	clear();
}

/* ---------------------------------------------------------------------------
 * Threads and programs
 */

static void *thread(void *arg)
{
	(void)arg;
	say("  thread: %s, %s", mask_now(), touched());
	return NULL;
}

static void run_thread(const pthread_attr_t *attr)
{
	pthread_t t;

	if (pthread_create(&t, attr, thread, NULL))
		give_up("pthread_create");
	pthread_join(t, NULL);
}

static void threads(void)
{
	sigset_t all, bus = set_of(SIGBUS, 0), got;
	pthread_attr_t attr;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	run_thread(NULL);
	clear();
	sigprocmask(SIG_SETMASK, &bus, NULL);
	run_thread(NULL);
	clear();
	run_thread(NULL);
	pthread_attr_init(&attr);
	pthread_attr_setsigmask_np(&attr, &all);
	sigemptyset(&got);
	pthread_attr_getsigmask_np(&attr, &got);
	say("attribute: %d", sigismember(&got, SIGBUS));
	run_thread(&attr);
	pthread_attr_destroy(&attr);
}

/* What a new program finds. */
static int told(void)
{
	struct sigaction a;

	sigaction(SIGBUS, NULL, &a);
	say("  program: %s, SIGBUS %s", mask_now(),
	    a.sa_handler == SIG_IGN ? "ignored" : "default");
	return 0;
}

static void program(const char *what, int how)
{
	char *argv[] = { (char *)(uintptr_t)self, (char *)(uintptr_t) "told",
			 NULL };
	pid_t pid;

	if (how == 4) {
		if (posix_spawn(&pid, self, NULL, NULL, argv, environ))
			give_up("posix_spawn");
		say("%s: %s", what, end_of(pid));
		return;
	}
	pid = how == 5 ? vfork() : fork();
	if (pid == 0) {
		switch (how) {
		case 0:
			execl(self, self, "told", NULL);
			break;
		case 1:
			execle(self, self, "told", NULL, environ);
			break;
		case 2:
			execvp(self, argv);
			break;
		case 3:
			fexecve(open(self, O_RDONLY | O_CLOEXEC), argv,
				environ);
			break;
		default:
			execve(self, argv, environ);
		}
		_exit(44);
	}
	say("%s: %s", what, end_of(pid));
}

static void programs(void)
{
	sigset_t all, bus = set_of(SIGBUS, 0);

	sigfillset(&all);
	sigdelset(&all, SIGTERM);
	program("nothing blocked", 0);
	sigprocmask(SIG_SETMASK, &bus, NULL);
	program("execl", 0);
	program("execle", 1);
	program("execvp", 2);
	program("fexecve", 3);
	program("posix_spawn", 4);
	program("vfork", 5);
	sigprocmask(SIG_SETMASK, &all, NULL);
	program("all but one", 0);
	clear();
	signal(SIGBUS, SIG_IGN);
	program("ignored", 0);
	program("ignored, vfork", 5);
	/* One that fails leaves all as it was. */
	sigprocmask(SIG_SETMASK, &bus, NULL);
	SAY_I(execl("/nonexistent", "x", NULL));
	say("%s, %s", mask_now(), touched());
	signal(SIGBUS, SIG_DFL);
	clear();
}

static void descriptors(void)
{
	sigset_t bus = set_of(SIGBUS, SIGTERM);
	struct signalfd_siginfo si;
	int sfd = signalfd(-1, &bus, SFD_CLOEXEC | SFD_NONBLOCK), sig;

	sigprocmask(SIG_BLOCK, &bus, NULL);
	raise(SIGBUS);
	say("signalfd: %s", res_i(read(sfd, &si, sizeof(si))));
	say("signal %u", si.ssi_signo);
	kill(getpid(), SIGBUS);
	say("sigwait: %d", sigwait(&bus, &sig));
	say("signal %d", sig);
	close(sfd);
	clear();
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return told();
	self = "/proc/self/exe";
	fd = temp_file(ID, SIZE, O_RDONLY);
	masks();
	jumps();
	handlers();
	threads();
	programs();
	descriptors();
	(void)argv;
	return 0;
}
