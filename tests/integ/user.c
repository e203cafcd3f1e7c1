/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * user.c - a program that knows nothing but faultline.h: maps the file it is
 * given by the drop-ins and by a pager of its own, and compares with read(2).
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "faultline.h"

static int failures;

static void check(int ok, const char *what)
{
	if (!ok) {
		printf("FAILED: %s\n", what);
		failures++;
	}
}

static void by_drop_in(int fd, const char *want, size_t size)
{
	void *p = fl_mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);

	check(p != MAP_FAILED && !memcmp(p, want, size), "fl_mmap");
	check(fl_find(fl_pager_default(), p) == 1, "served, not passed on");
	check(!fl_munmap(p, size), "fl_munmap");
}

static void by_pager(int fd, const char *want, size_t size)
{
	struct fl_pager *pager;
	uint64_t maps = 0;
	char text[32];
	void *p;

	check(fl_pager_open(&pager, "no_such_option=1") < 0, "unknown option");
	if (fl_pager_open(&pager, "resident_max=1M")) {
		check(0, "fl_pager_open");
		return;
	}
	check(fl_conf_get(pager, "resident_max", text, sizeof(text)) > 0 &&
		      !strcmp(text, "1M"),
	      "fl_conf_get");
	p = fl_pager_map_file(pager, fd, 0, size);
	check(!FL_IS_ERR(p) && !memcmp(p, want, size), "fl_pager_map_file");
	check(fl_pager_close(pager) < 0, "close with a live region");
	check(!fl_pager_munmap(pager, p, size), "fl_pager_munmap");
	check(!fl_stat_read(pager, "maps_file", &maps) && maps == 1,
	      "fl_stat_read");
	check(!fl_pager_close(pager), "fl_pager_close");
}

int main(int argc, char **argv)
{
	int fd = argc > 1 ? open(argv[1], O_RDONLY) : -1;
	struct stat st;
	char *want;

	if (fd < 0 || fstat(fd, &st))
		return 2;
	want = malloc((size_t)st.st_size);
	if (!want || read(fd, want, (size_t)st.st_size) != st.st_size)
		return 2;
	by_drop_in(fd, want, (size_t)st.st_size);
	by_pager(fd, want, (size_t)st.st_size);
	free(want);
	return failures != 0;
}
