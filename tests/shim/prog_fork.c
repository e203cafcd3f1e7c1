/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_fork - a child sees every live region as it was, whatever the parent
 * does from the moment fork returns, and can map, unmap and fork in turn;
 * neither side sees the other's writes.
 *
 * [fl:demand] service signal
 */
#include <sched.h>

#include "support/see.h"

#define LIVE 60
#define RW (PROT_READ | PROT_WRITE)

struct live {
	unsigned char *p;
	size_t len;
	unsigned int id;
	int anon;
};

static struct live live[LIVE];
static int files[4];
static const size_t file_size[4] = { 3000, 20000, 70000, 250000 };

static void map_one(struct live *l, unsigned int i, unsigned int id)
{
	l->anon = i % 3 == 2;
	l->id = l->anon ? id : i % 4;
	l->len = l->anon ? 1000 + (size_t)i * 3000 : file_size[i % 4];
	if (l->anon)
		l->p = mmap(NULL, l->len, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);
	else
		l->p = mmap(NULL, l->len, i % 3 ? PROT_READ : RW, MAP_PRIVATE,
			    files[i % 4], 0);
	if (l->p == MAP_FAILED)
		give_up("mmap");
	if (l->anon)
		fill_as(l->p, l->id, 0, l->len);
}

static void map_all(unsigned int id)
{
	for (unsigned int i = 0; i < LIVE; i++)
		map_one(&live[i], i, id + i);
}

static int check_all(void)
{
	int wrong = 0;

	for (int i = 0; i < LIVE; i++)
		wrong += differs(live[i].p, live[i].id, 0, live[i].len) >= 0;
	return wrong;
}

static int unmap_all(void)
{
	int wrong = 0;

	for (int i = 0; i < LIVE; i++)
		wrong += munmap(live[i].p, live[i].len) != 0;
	return wrong;
}

/* Overwrites what it may, unmaps, and maps other bytes over the same memory. */
static void devastate(void)
{
	for (int i = 0; i < LIVE; i++)
		if (live[i].anon || i % 3 == 0)
			memset(live[i].p, 0xff, live[i].len);
	unmap_all();
	for (int round = 0; round < 20; round++) {
		unsigned char *q[20];

		for (int i = 0; i < 20; i++) {
			q[i] = mmap(NULL, 70000, RW,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			memset(q[i], 0x11, 70000);
		}
		for (int i = 0; i < 20; i++)
			munmap(q[i], 70000);
	}
}

/* The parent devastates at once; the child waits for it, then looks. */
static void parent_first(void)
{
	int go[2];
	pid_t pid;
	char c;

	for (unsigned int round = 0; round < 8; round++) {
		map_all(round);
		if (pipe(go))
			give_up("pipe");
		pid = fork();
		if (pid == 0) {
			int wrong;

			close(go[1]);
			wrong = read(go[0], &c, 1) != 1;
			wrong += check_all();
			wrong += unmap_all();
			map_all(round + 100);
			wrong += check_all();
			wrong += unmap_all();
			say("parent first, child: %d wrong", wrong);
			_exit(3);
		}
		devastate();
		if (write(go[1], "x", 1) != 1)
			give_up("write");
		say("parent first: %s", end_of(pid));
		close(go[0]);
		close(go[1]);
	}
}

/* The child devastates; the parent keeps its bytes. */
static void child_first(void)
{
	for (unsigned int round = 0; round < 8; round++) {
		pid_t pid;

		map_all(round);
		pid = fork();
		if (pid == 0) {
			devastate();
			_exit(0);
		}
		say("child first: %s", end_of(pid));
		say("  parent %d wrong", check_all());
		say("  unmap %d", unmap_all());
	}
}

/* Both at once, again and again, with children that outlive one another. */
static void crowd(void)
{
	pid_t kids[12];
	int bad = 0;

	for (unsigned int i = 0; i < 12; i++) {
		map_all(i);
		kids[i] = fork();
		if (kids[i] == 0) {
			int wrong = 0;

			for (int k = 0; k < 5; k++) {
				wrong += check_all();
				sched_yield();
			}
			wrong += unmap_all();
			_exit(wrong ? 1 : 0);
		}
		if (i % 2)
			devastate();
		else
			unmap_all();
	}
	for (int i = 0; i < 12; i++)
		bad += strcmp(end_of(kids[i]), "exit 0") != 0;
	say("crowd: %d bad", bad);
}

static void deep(unsigned int level)
{
	pid_t pid;

	map_all(level);
	if (level == 5) {
		say("level %u: %d wrong", level, check_all());
		say("level %u: unmap %d", level, unmap_all());
		return;
	}
	pid = fork();
	if (pid == 0) {
		int wrong = check_all();

		devastate();
		say("level %u child: %d wrong", level, wrong);
		deep(level + 1);
		_exit((int)level);
	}
	devastate();
	say("level %u: %s", level, end_of(pid));
}

/* The parent is gone before the child looks. */
static void orphan(void)
{
	int out[2], alive[2];
	char line[80] = "";
	pid_t pid;

	if (pipe(out) || pipe(alive))
		give_up("pipe");
	pid = fork();
	if (pid == 0) {
		map_all(9);
		if (fork() == 0) {
			char c;
			int wrong;

			close(alive[1]);
			close(out[0]);
			/* End of file: the parent has exited. */
			wrong = read(alive[0], &c, 1) != 0;
			wrong += check_all();
			wrong += unmap_all();
			map_all(10);
			wrong += check_all();
			snprintf(line, sizeof(line), "orphan: %d wrong", wrong);
			if (write(out[1], line, strlen(line)) < 0)
				_exit(1);
			_exit(0);
		}
		devastate();
		_exit(0);
	}
	close(alive[1]);
	close(alive[0]);
	close(out[1]);
	say("orphan's parent: %s", end_of(pid));
	if (read(out[0], line, sizeof(line) - 1) < 0)
		give_up("read");
	say("%s", line);
	close(out[0]);
}

/* A region cut, dropped and protected before the fork. */
static void altered(void)
{
	unsigned char *p, *q;
	pid_t pid;

	p = mmap(NULL, 10 * PAGE, PROT_READ, MAP_PRIVATE, files[3], 0);
	q = mmap(NULL, 10 * PAGE, RW, MAP_PRIVATE, files[3], 0);
	munmap(p + 3 * PAGE, 2 * PAGE);
	memset(q, 0x33, 2 * PAGE);
	mprotect(q + 4 * PAGE, PAGE, PROT_NONE);
	pid = fork();
	if (pid == 0) {
		say("altered: %s %ld %ld", layout(p, 10),
		    differs(p, 3, 0, 3 * PAGE),
		    differs(p + 5 * PAGE, 3, 5 * PAGE, 5 * PAGE));
		say("  %ld %ld %s", not_all(q, 0x33, 2 * PAGE),
		    differs(q + 2 * PAGE, 3, 2 * PAGE, 2 * PAGE),
		    try_read(q + 4 * PAGE));
		say("  %s %s", try_write(p, 1), try_write(q, 1));
		say("  %d %d", munmap(p, 10 * PAGE), munmap(q, 10 * PAGE));
		_exit(0);
	}
	munmap(p, 10 * PAGE);
	munmap(q, 10 * PAGE);
	say("altered: %s", end_of(pid));
}

int main(void)
{
	see_faults();
	for (unsigned int i = 0; i < 4; i++)
		files[i] = temp_file(i, file_size[i], O_RDONLY);
	parent_first();
	child_first();
	crowd();
	deep(0);
	orphan();
	altered();
	return 0;
}
