/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_dump - a core dump holds what the program has, not what the pager has
 * reserved: the kernel reads every page of a shared mapping when it dumps it,
 * and writes every hole of a private one when the dump goes to a pipe.
 */
#include "support/see.h"

#define RW (PROT_READ | PROT_WRITE)

/* MiB of address space a dump would walk. */
static unsigned long dumped(void)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	unsigned long size = 0, sum = 0;
	char line[512];

	if (!f)
		give_up("/proc/self/smaps");
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, "Size:", 5))
			size = strtoul(line + 5, NULL, 10);
		else if (!strncmp(line, "VmFlags:", 8) && !strstr(line, " dd"))
			sum += size;
	}
	fclose(f);
	return sum >> 10;
}

/* Is the memory at @p in a mapping that a dump holds? */
static int in_dump(const void *p)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	unsigned long from = 0, to = 0, at = (unsigned long)(uintptr_t)p;
	char line[512];
	int ret = -1;

	if (!f)
		give_up("/proc/self/smaps");
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			continue;
		if (!strncmp(line, "VmFlags:", 8) && at >= from && at < to)
			ret = !strstr(line, " dd");
	}
	fclose(f);
	return ret;
}

static void check(const char *when)
{
	unsigned long mib = dumped();

	if (mib < 128)
		say("%s: a dump is small", when);
	else
		say("%s: a dump covers %lu MiB", when, mib);
}

int main(void)
{
	int fd = temp_file(1, 100000, O_RDONLY);
	unsigned char *p, *a;
	pid_t pid;

	check("at the start");
	p = mmap(NULL, 100000, PROT_READ, MAP_PRIVATE, fd, 0);
	a = mmap(NULL, 100000, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED || a == MAP_FAILED)
		give_up("mmap");
	memset(a, 1, 100000);
	check("mapped");
	say("anonymous memory is in a dump: %d", in_dump(a));
	pid = fork();
	if (pid == 0) {
		check("child");
		munmap(p, 100000);
		check("child, unmapped");
		_exit(0);
	}
	say("%s", end_of(pid));
	munmap(p, 100000);
	munmap(a, 100000);
	check("unmapped");
	return 0;
}
