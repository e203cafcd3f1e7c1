/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_protect - mprotect on whole regions and on parts: what may be touched,
 * what signal says so and where, and that no byte changes on the way.
 *
 * [fl:demand] service signal
 */
#include "support/see.h"

#define N 10
#define RW (PROT_READ | PROT_WRITE)

static int fd;

static unsigned char *region(int kind)
{
	unsigned char *p;

	if (kind == 0)
		p = mmap(NULL, N * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	else if (kind == 1)
		p = mmap(NULL, N * PAGE, RW, MAP_PRIVATE, fd, 0);
	else
		p = mmap(NULL, N * PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0);
	if (p == MAP_FAILED)
		give_up("mmap");
	if (kind == 2)
		fill_as(p, 1, 0, N * PAGE);
	return p;
}

/* A letter a page: n not readable, r read only, w writable; R W: bytes off. */
static void look(const char *what, unsigned char *p)
{
	char s[N + 1];

	for (size_t i = 0; i < N; i++) {
		unsigned char *at = p + i * PAGE + 77;
		int wrong;

		s[i] = 'n';
		if (strcmp(try_read(at), "ok")) {
			if (strcmp(fault_name(), "SIGSEGV/ACCERR+0"))
				s[i] = '!';
			continue;
		}
		wrong = differs(p + i * PAGE, 1, i * PAGE, PAGE) >= 0;
		s[i] = wrong ? 'R' : 'r';
		if (!strcmp(try_write(at, byte_of(1, i * PAGE + 77)), "ok"))
			s[i] = wrong ? 'W' : 'w';
		else if (strcmp(fault_name(), "SIGSEGV/ACCERR+0"))
			s[i] = '!';
	}
	s[N] = 0;
	say("  %s: %s", what, s);
}

static void step(unsigned char *p, size_t first, size_t nr, int prot)
{
	char what[64];
	int ret;

	errno_mark();
	ret = mprotect(p + first * PAGE, nr * PAGE, prot);
	snprintf(what, sizeof(what), "%zu+%zu to %d %s%s", first, nr, prot,
		 res_i(ret), ret || errno_kept() ? "" : " errno changed");
	look(what, p);
}

static void parts(int kind)
{
	unsigned char *p = region(kind);

	say("kind %d, parts", kind);
	look("new", p);
	step(p, 2, 3, PROT_NONE);
	step(p, 3, 1, PROT_READ);
	step(p, 4, 2, RW);
	step(p, 0, 1, RW);
	step(p, 9, 1, PROT_READ);
	step(p, 0, N, PROT_NONE);
	step(p, 5, 5, PROT_READ);
	step(p, 0, N, RW);
	step(p, 0, N, PROT_READ);
	SAY_I(munmap(p + 3 * PAGE, 2 * PAGE));
	say("  left %s", layout(p, N));
	SAY_I(mprotect(p, N * PAGE, RW));
	say("  head %s tail %s", try_write(p, p[0]),
	    try_write(p + 6 * PAGE, byte_of(1, 6 * PAGE)));
	SAY_I(munmap(p, N * PAGE));
	say("  left %s", layout(p, N));
}

static void same_and_odd(int kind)
{
	unsigned char *p = region(kind);

	say("kind %d, same and odd", kind);
	step(p, 0, N, kind ? RW : PROT_READ);
	step(p, 0, 0, PROT_NONE);
	SAY_I(mprotect(p + 1, PAGE, PROT_READ));
	SAY_I(mprotect(p, PAGE, 0x40));
	SAY_I(mprotect(p, PAGE, PROT_READ | PROT_GROWSDOWN | PROT_GROWSUP));
	SAY_I(mprotect(p, PAGE, PROT_READ | PROT_GROWSDOWN));
	SAY_I(mprotect(p, PAGE, PROT_READ | PROT_GROWSUP));
	SAY_I(mprotect(p, SIZE_MAX, PROT_READ));
	SAY_I(mprotect(p, SIZE_MAX - 4095, PROT_READ));
	look("after errors", p);
	SAY_I(mprotect(p, 1, PROT_READ));
	look("one byte", p);
	SAY_I(mprotect(p + PAGE, PAGE + 1, PROT_READ));
	look("a page and a byte", p);
	SAY_I(munmap(p, N * PAGE));
	SAY_I(mprotect(p, PAGE, PROT_READ));
}

/* mov $42,%eax; ret and its equal. */
static size_t put_code(unsigned char *p)
{
#if defined(__x86_64__) || defined(__i386__)
	static const unsigned char code[] = { 0xb8, 42, 0, 0, 0, 0xc3 };
#elif defined(__aarch64__)
	static const unsigned int code[] = { 0x52800540, 0xd65f03c0 };
#else
	static const unsigned char code[] = { 0 };
#endif
	memcpy(p, code, sizeof(code));
	__builtin___clear_cache((char *)p, (char *)p + sizeof(code));
	return sizeof(code);
}

static void run_code(const char *what, void *p)
{
	volatile int got = -1;

#if defined(__x86_64__) || defined(__i386__) || defined(__aarch64__)
	int (*f)(void);

	memcpy(&f, &p, sizeof(f));
	see_last.sig = 0;
	see_at = (uintptr_t)p;
	see_armed = 1;
	if (!sigsetjmp(see_jump, 1))
		got = f();
	see_armed = 0;
	say("  %s: %d %s", what, got, fault_name());
#else
	(void)p;
	say("  %s: %d", what, got);
#endif
}

static void execute(void)
{
	unsigned char *p = region(2), *q;
	char name[512];
	int f;

	say("execute");
	put_code(p + PAGE);
	run_code("rw", p + PAGE);
	SAY_I(mprotect(p + PAGE, PAGE, PROT_READ | PROT_EXEC));
	run_code("rx", p + PAGE);
	say("  write %s", try_write(p + PAGE, 1));
	SAY_I(mprotect(p, N * PAGE, RW | PROT_EXEC));
	run_code("rwx", p + PAGE);
	SAY_I(mprotect(p, N * PAGE, RW));
	run_code("rw again", p + PAGE);
	SAY_I(munmap(p, N * PAGE));

	snprintf(name, sizeof(name), "%s/fl-code-XXXXXX", temp_dir());
	f = mkstemp(name);
	p = calloc(1, 4 * PAGE);
	if (f < 0 || !p)
		give_up("mkstemp");
	put_code(p + 2 * PAGE);
	if (write(f, p, 4 * PAGE) != (ssize_t)(4 * PAGE))
		give_up("write");
	free(p);
	close(f);
	f = open(name, O_RDONLY);
	unlink(name);
	q = mmap(NULL, 4 * PAGE, PROT_READ, MAP_PRIVATE, f, 0);
	SAY_P(q);
	run_code("file r", q + 2 * PAGE);
	SAY_I(mprotect(q + 2 * PAGE, PAGE, PROT_READ | PROT_EXEC));
	run_code("file rx", q + 2 * PAGE);
	SAY_I(munmap(q, 4 * PAGE));
	q = mmap(NULL, 4 * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, f, 0);
	run_code("mapped rx", q + 2 * PAGE);
	SAY_I(munmap(q, 4 * PAGE));
	close(f);
}

/* Private writes survive protection changes; the file never sees them. */
static void private_kept(void)
{
	unsigned char *p = region(0), was[4];

	say("private writes");
	SAY_I(mprotect(p, N * PAGE, RW));
	memset(p + 2 * PAGE, 0x42, PAGE);
	SAY_I(mprotect(p + 2 * PAGE, PAGE, PROT_NONE));
	SAY_I(mprotect(p + 2 * PAGE, PAGE, PROT_READ));
	say("  kept %ld, rest %ld %ld", not_all(p + 2 * PAGE, 0x42, PAGE),
	    differs(p, 1, 0, 2 * PAGE),
	    differs(p + 3 * PAGE, 1, 3 * PAGE, (N - 3) * PAGE));
	if (pread(fd, was, 4, 2 * PAGE) != 4)
		give_up("pread");
	say("  file kept %d", was[0] == byte_of(1, 2 * PAGE));
	SAY_I(munmap(p, N * PAGE));
}

/* Many regions, protected and unmapped in turn: none may leak into another. */
static void often(void)
{
	unsigned long wrong = 0;

	for (int i = 0; i < 500; i++) {
		unsigned char *p = region(i % 3), *q = region((i + 1) % 3);

		wrong += mprotect(p + 3 * PAGE, 2 * PAGE, PROT_NONE) != 0;
		wrong += differs(q, 1, 0, N * PAGE) >= 0;
		wrong += differs(p, 1, 0, 3 * PAGE) >= 0;
		wrong += strcmp(try_read(p + 3 * PAGE), "SIGSEGV/ACCERR+0") !=
			 0;
		munmap(p, N * PAGE);
		wrong += differs(q, 1, 0, N * PAGE) >= 0;
		munmap(q, N * PAGE);
	}
	say("often: %lu wrong", wrong);
}

int main(void)
{
	see_faults();
	fd = temp_file(1, N * PAGE, O_RDONLY);
	for (int kind = 0; kind < 3; kind++) {
		parts(kind);
		same_and_odd(kind);
	}
	execute();
	private_kept();
	often();
	return 0;
}
