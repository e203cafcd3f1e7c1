/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_signals - mapping from signal handlers, on an alternate stack, in the
 * middle of the same calls in the interrupted code; calls interrupted without
 * SA_RESTART; and the program's own fault handlers doing their work.
 */
#include <sys/time.h>

#include "support/see.h"

#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)

static int fd;
static volatile unsigned long handled, wrong;

/* One round trip; 0 when all is right. Async-signal-safe by mmap's habit. */
static int round_trip(unsigned int i)
{
	size_t len = 1 + (i * 7919u) % 60000;
	unsigned char *p, *q;
	int bad = 0;

	p = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
	q = mmap(NULL, len, RW, ANON, -1, 0);
	if (p == MAP_FAILED || q == MAP_FAILED)
		return 1;
	bad += not_all(q, 0, len) >= 0;
	q[0] = q[len - 1] = (unsigned char)i | 1;
	bad += differs(p, 1, 0, len) >= 0;
	bad += munmap(p, len) != 0;
	bad += q[0] != ((unsigned char)i | 1) || q[len - 1] != q[0];
	bad += munmap(q, len) != 0;
	return bad;
}

static void on_timer(int sig)
{
	int saved = errno;

	(void)sig;
	wrong += round_trip((unsigned int)handled) != 0;
	handled++;
	errno = saved;
}

static void handler_on(int sig, void (*fn)(int), int flags)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = fn;
	sa.sa_flags = flags;
	if (sigaction(sig, &sa, NULL))
		give_up("sigaction");
}

static void timer(suseconds_t us)
{
	struct itimerval it = { { 0, us }, { 0, us } };

	if (setitimer(ITIMER_REAL, &it, NULL))
		give_up("setitimer");
}

/* Interrupts and interrupted make the same calls. */
static void storm(const char *name, int flags)
{
	unsigned long bad = 0;
	int errno_bad = 0;

	handled = wrong = 0;
	handler_on(SIGALRM, on_timer, flags);
	timer(500);
	for (unsigned int i = 0; i < 3000 || handled < 200; i++) {
		errno_mark();
		bad += round_trip(i) != 0;
		errno_bad += !errno_kept();
	}
	timer(0);
	say("%s: %lu wrong, %lu wrong in the handler, errno lost %d", name, bad,
	    wrong, errno_bad);
}

static void alternate_stack(void)
{
	stack_t st = { .ss_size = (size_t)MINSIGSTKSZ + 8192 };

	st.ss_sp = malloc(st.ss_size);
	if (!st.ss_sp || sigaltstack(&st, NULL))
		give_up("sigaltstack");
	storm("small alternate stack", SA_ONSTACK);
	st.ss_flags = SS_DISABLE;
	sigaltstack(&st, NULL);
	free(st.ss_sp);
}

static volatile int hits;
static unsigned char *guarded;

/* The lazy commit of language runtimes: the handler opens the page. */
static void open_page(int sig, siginfo_t *si, void *uc)
{
	uintptr_t at = (uintptr_t)si->si_addr & ~(PAGE - 1);

	(void)sig;
	(void)uc;
	if (at < (uintptr_t)guarded || at >= (uintptr_t)guarded + 16 * PAGE)
		_exit(96);
	hits++;
	if (mprotect((void *)at, PAGE, RW))
		_exit(95);
}

static void write_barrier(int anon)
{
	struct sigaction sa;
	long bad;

	guarded = anon ? mmap(NULL, 16 * PAGE, RW, ANON, -1, 0) :
			 mmap(NULL, 16 * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	if (anon) {
		fill_as(guarded, 1, 0, 16 * PAGE);
		SAY_I(mprotect(guarded, 16 * PAGE, PROT_READ));
	}
	memset(&sa, 0, sizeof(sa));
	sa.sa_sigaction = open_page;
	sa.sa_flags = SA_SIGINFO;
	sigaction(SIGSEGV, &sa, NULL);
	hits = 0;
	for (size_t i = 0; i < 16; i += 3)
		guarded[i * PAGE + 100] = 0xfe;
	bad = 0;
	for (size_t i = 0; i < 16; i++)
		bad += guarded[i * PAGE + 100] !=
		       (i % 3 ? byte_of(1, i * PAGE + 100) : 0xfe);
	say("barrier, anon %d: %d hits, %ld bad, unmap %d", anon, hits, bad,
	    munmap(guarded, 16 * PAGE));
	signal(SIGSEGV, SIG_DFL);
}

/* What kills a program without the pager must kill it with one. */
static void deaths(void)
{
	static const char *const how[] = { "write to a read-only file map",
					   "write to null", "past the end" };

	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			unsigned char *p;

			p = mmap(NULL, 3 * PAGE, PROT_READ,
				 i == 2 ? MAP_SHARED : MAP_PRIVATE,
				 i == 2 ? temp_file(1, 100, O_RDONLY) : fd, 0);
			if (i == 0)
				p[5] = 1;
			else if (i == 1)
				*(volatile char *)(uintptr_t)(i - 1) = 1;
			else
				(void)*(volatile char *)(p + 2 * PAGE);
			_exit(0);
		}
		say("%s: %s", how[i], end_of(pid));
	}
}

#define SPARE 300
static unsigned char *spare[SPARE];
static volatile sig_atomic_t next_spare;

static void unmap_spare(int sig)
{
	int err = errno, i = next_spare;

	(void)sig;
	if (i < SPARE) {
		next_spare = i + 1;
		munmap(spare[i], 2 * PAGE);
	}
	errno = err;
}

/* Handlers that unmap while a child maps for the first time. */
static void young_child(void)
{
	static unsigned char *many[15000];
	int file = temp_file(1, 4 * PAGE, O_RDONLY), failed = 0;

	for (size_t i = 0; i < COUNT(many); i++)
		many[i] = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	signal(SIGUSR1, unmap_spare);
	for (int n = 0; n < 40; n++) {
		pid_t pid;

		next_spare = 0;
		for (int i = 0; i < SPARE; i++)
			spare[i] = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		pid = fork();
		if (pid == 0) {
			alarm(10);
			for (int i = 0; i < 20; i++) {
				unsigned char *q = mmap(NULL, 4 * PAGE,
							PROT_READ, MAP_PRIVATE,
							file, 0);

				if (differs(q, 1, 0, 4 * PAGE) >= 0)
					_exit(1);
			}
			_exit(0);
		}
		for (int i = 0; i < SPARE; i++) {
			kill(pid, SIGUSR1);
			for (volatile int k = 0; k < n * 37; k++)
				;
		}
		failed += strcmp(end_of(pid), "exit 0") != 0;
		for (int i = 0; i < SPARE; i++)
			munmap(spare[i], 2 * PAGE);
	}
	for (size_t i = 0; i < COUNT(many); i++)
		munmap(many[i], 2 * PAGE);
	signal(SIGUSR1, SIG_DFL);
	close(file);
	say("young children: %d wrong", failed);
}

int main(void)
{
	fd = temp_file(1, 70000, O_RDONLY);
	storm("restarting", SA_RESTART);
	storm("not restarting", 0);
	storm("nested", SA_NODEFER);
	alternate_stack();
	write_barrier(0);
	write_barrier(1);
	deaths();
	young_child();
	return 0;
}
