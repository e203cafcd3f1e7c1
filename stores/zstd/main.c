// SPDX-License-Identifier: LGPL-2.1-or-later
/* faultline-zstd-pack - compress into zstd's seekable format. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "faultline-zstd.h"
#include "seekable.h"

static int usage(FILE *to)
{
	fprintf(to,
		"usage: faultline-zstd-pack [-l LEVEL] [-s SIZE] IN OUT\n"
		"  -l LEVEL  1 (fast) to %d (small); 3\n"
		"  -s SIZE   plain bytes of a frame, K or M may follow; 256K\n"
		"IN and OUT may be -. OUT must not exist.\n",
		ZSTD_maxCLevel());
	return to == stdout ? 0 : 2;
}

/* A size within bounds, or 0. */
static size_t size_of(const char *s)
{
	char *end;
	unsigned long n = strtoul(s, &end, 10);
	unsigned int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : 0;

	if (end == s || end[shift != 0] || *s == '-' ||
	    n > FL_ZSTD_FRAME_MAX >> shift)
		return 0;
	n <<= shift;
	return n >= 4096 ? n : 0;
}

static int fail(const char *what, int err)
{
	fprintf(stderr, "faultline-zstd-pack: %s: %s\n", what, strerror(err));
	return 1;
}

static int run(const char *from, const char *to, size_t size, int level)
{
	int in = STDIN_FILENO, out = STDOUT_FILENO, ret;

	if (strcmp(from, "-") != 0)
		in = open(from, O_RDONLY | O_CLOEXEC);
	if (in < 0)
		return fail(from, errno);
	if (strcmp(to, "-") != 0)
		out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (out < 0)
		return fail(to, errno);
	ret = pack(in, out, size, level);
	if (close(out) && !ret)
		ret = -errno;
	if (!ret)
		return 0;
	if (strcmp(to, "-") != 0)
		unlink(to);
	return fail(to, -ret);
}

int main(int argc, char **argv)
{
	size_t size = 256u << 10;
	int level = 3, opt;
	char *end;

	if (argc == 2 && strcmp(argv[1], "--help") == 0)
		return usage(stdout);
	while ((opt = getopt(argc, argv, "l:s:")) != -1) {
		switch (opt) {
		case 'l':
			level = (int)strtol(optarg, &end, 10);
			if (*end || level < 1 || level > ZSTD_maxCLevel())
				return usage(stderr);
			break;
		case 's':
			size = size_of(optarg);
			if (!size)
				return usage(stderr);
			break;
		default:
			return usage(stderr);
		}
	}
	if (argc - optind != 2)
		return usage(stderr);
	return run(argv[optind], argv[optind + 1], size, level);
}
