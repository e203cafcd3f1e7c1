// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * hold.c - for cli.sh: maps its own file some times, says "ready", and keeps
 * one mapping until standard input ends.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 10;
	char c;

	for (int i = 0; i < rounds; i++) {
		int fd = open(argv[0], O_RDONLY);
		char *p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);

		close(fd);
		if (p == MAP_FAILED || p[1] != 'E')
			return 1;
		if (i + 1 < rounds && munmap(p, 4096))
			return 1;
	}
	puts("ready");
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
	return 0;
}
