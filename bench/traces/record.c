// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * record.c - a preload that records which pages of mapped files a program
 * reads, in order.
 *
 *   LD_PRELOAD=record.so PL_PROGRAM=git PL_RAW=out.raw git log -p
 *
 * Read-only mappings of files are mapped without access; the eight pages last
 * faulted on are open, all others fault again. So what is recorded is all that
 * a pager with more than eight pages could tell from the sequence of accesses.
 * A page has one number per file, however often the file is mapped.
 *
 * The program named by PL_PROGRAM and its forks write 32-bit page numbers to
 * PL_RAW; the first word is how many there are. Buffers in such a mapping given
 * to system calls get EFAULT: good enough for the programs in record.sh.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	PAGE = 4096,
	OPEN = 8,
	MAX_MAPS = 8192,
	MAX_FILES = 4096,
	MIN_LEN = 2 * PAGE,
	LOG_WORDS = 16 << 20
};

struct map {
	uintptr_t start, end;
	uint32_t page; /* number of its first page */
};

struct file {
	dev_t dev;
	ino_t ino;
	uint32_t page;
};

static struct map map[MAX_MAPS];
static unsigned int nr_maps;
static struct file file[MAX_FILES];
static unsigned int nr_files;
static uint32_t next_page;
static uintptr_t window[OPEN];
static unsigned int window_at;
static atomic_uint *raw;
static atomic_flag busy = ATOMIC_FLAG_INIT;
static struct sigaction old_segv;

static void lock(sigset_t *old)
{
	sigset_t all;

	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigprocmask(SIG_BLOCK, &all, old);
	while (atomic_flag_test_and_set(&busy))
		;
}

static void unlock(const sigset_t *old)
{
	atomic_flag_clear(&busy);
	sigprocmask(SIG_SETMASK, old, NULL);
}

static struct map *find(uintptr_t addr)
{
	for (unsigned int i = nr_maps; i-- > 0;)
		if (addr >= map[i].start && addr < map[i].end)
			return &map[i];
	return NULL;
}

static void note(uint32_t page)
{
	unsigned int n = atomic_fetch_add(raw, 1) + 1;

	if (n < LOG_WORDS)
		atomic_store(&raw[n], page);
}

static void on_segv(int sig, siginfo_t *si, void *uc)
{
	uintptr_t addr = (uintptr_t)si->si_addr & ~(uintptr_t)(PAGE - 1);
	int saved = errno;
	struct map *m;
	sigset_t old;
	bool mine;

	(void)uc;
	lock(&old);
	m = find(addr);
	mine = m;
	for (unsigned int i = 0; m && i < OPEN; i++)
		if (window[i] == addr)
			m = NULL; /* another thread opened it meanwhile */
	if (m) {
		note(m->page + (uint32_t)((addr - m->start) / PAGE));
		if (window[window_at])
			mprotect((void *)window[window_at], PAGE, PROT_NONE);
		mprotect((void *)addr, PAGE, PROT_READ);
		window[window_at] = addr;
		window_at = (window_at + 1) % OPEN;
	}
	unlock(&old);
	errno = saved;
	if (!mine)
		sigaction(sig, &old_segv, NULL);
}

static uint32_t number_of(const struct stat *st)
{
	for (unsigned int i = 0; i < nr_files; i++)
		if (file[i].dev == st->st_dev && file[i].ino == st->st_ino)
			return file[i].page;
	if (nr_files == MAX_FILES)
		abort();
	file[nr_files] = (struct file){ st->st_dev, st->st_ino, next_page };
	next_page += (uint32_t)(st->st_size / PAGE) + 1;
	return file[nr_files++].page;
}

static void forget(uintptr_t start, uintptr_t end)
{
	for (unsigned int i = 0; i < OPEN; i++)
		if (window[i] >= start && window[i] < end)
			window[i] = 0;
	for (unsigned int i = 0; i < nr_maps;) {
		if (map[i].start >= start && map[i].end <= end)
			map[i] = map[--nr_maps];
		else
			i++;
	}
}

void *mmap(void *hint, size_t len, int prot, int flags, int fd, off_t off)
{
	bool want = raw && prot == PROT_READ && !(flags & MAP_ANONYMOUS) &&
		    !(flags & MAP_FIXED) && len >= MIN_LEN;
	struct stat st;
	sigset_t old;
	void *p;

	if (want && (fstat(fd, &st) || !S_ISREG(st.st_mode)))
		want = false;
	p = (void *)syscall(SYS_mmap, hint, len, want ? PROT_NONE : prot, flags,
			    fd, off);
	if (!want || p == MAP_FAILED)
		return p;
	lock(&old);
	if (nr_maps == MAX_MAPS)
		abort();
	len = (len + PAGE - 1) & ~(size_t)(PAGE - 1);
	map[nr_maps++] =
		(struct map){ (uintptr_t)p, (uintptr_t)p + len,
			      number_of(&st) + (uint32_t)(off / PAGE) };
	unlock(&old);
	return p;
}

void *mmap64(void *, size_t, int, int, int, off_t)
	__attribute__((alias("mmap")));

int munmap(void *p, size_t len)
{
	sigset_t old;

	lock(&old);
	forget((uintptr_t)p, (uintptr_t)p + len);
	unlock(&old);
	return (int)syscall(SYS_munmap, p, len);
}

/* The program may look for overflows of its stack; it looks in vain. */
int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	int (*next)(int, const struct sigaction *, struct sigaction *);

	if (sig == SIGSEGV && raw && act != &old_segv) {
		if (old)
			*old = old_segv;
		if (act)
			old_segv = *act;
		return 0;
	}
	*(void **)&next = dlsym(RTLD_NEXT, "sigaction");
	return next(sig, act, old);
}

__attribute__((constructor)) static void start(void)
{
	const char *out = getenv("PL_RAW"), *prog = getenv("PL_PROGRAM");
	struct sigaction sa = { .sa_sigaction = on_segv,
				.sa_flags = SA_SIGINFO | SA_NODEFER };
	size_t len = (size_t)LOG_WORDS * sizeof(*raw);
	int fd;

	if (!out || !prog || strcmp(program_invocation_short_name, prog))
		return;
	fd = open(out, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)len) ||
	    sigaction(SIGSEGV, &sa, &old_segv))
		abort();
	raw = (void *)syscall(SYS_mmap, NULL, len, PROT_READ | PROT_WRITE,
			      MAP_SHARED, fd, 0);
	if (raw == MAP_FAILED)
		abort();
	close(fd);
}
