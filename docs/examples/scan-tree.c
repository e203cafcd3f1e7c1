// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * scan-tree.c - threads scan every file of a tree: small ones as resident
 * regions (one read into memory that is warm already, no page fault), large ones
 * as demand regions, of which no more is in memory than the pager's budget.
 *
 *	cc -O2 -pthread scan-tree.c -o scan-tree \
 *		$(pkg-config --cflags --libs faultline)
 *	./scan-tree -c -t 8 /usr/share
 *
 * Prints files, bytes, newlines and a checksum. With -c everything is read once
 * more by read(2), and the exit status is 1 if that finds something else. 2:
 * some file could not be read; 77: no demand regions on this system.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <faultline.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Files up to here are read whole: the pager's option resident_max. */
#define SMALL ((size_t)256 << 10)
#define OPTIONS "mem=64M,resident_max=256K"

/* Sums, so the order in which files are scanned does not matter. */
struct found {
	uint64_t files, large, bytes, lines, sum;
};

static struct fl_pager *pager;
static char **paths;
static size_t nr_paths;
static atomic_size_t next_path;
static atomic_int failures;

/* ---------------------------------------------------------------------------
 * What is done with the bytes
 */

#define FNV_START 0xcbf29ce484222325u

static uint64_t scan(const unsigned char *p, size_t n, uint64_t hash,
		     struct found *f)
{
	for (size_t i = 0; i < n; i++) {
		hash = (hash ^ p[i]) * 0x100000001b3;
		f->lines += p[i] == '\n';
	}
	f->bytes += n;
	return hash;
}

/* ---------------------------------------------------------------------------
 * With the pager
 */

static void *map(int fd, size_t size)
{
	void *p;

	if (size <= SMALL)
		return fl_pager_map_file(pager, fd, 0, size);
	p = fl_region_map_file(pager, fd, 0, size, PROT_READ,
			       FL_REGION_SEQUENTIAL);
	if (FL_IS_ERR(p) && FL_PTR_ERR(p) == -ENOTSUP) {
		fputs("no userfaultfd for this process: 'faultline doctor' "
		      "tells more\n",
		      stderr);
		exit(77);
	}
	return p;
}

static int scan_mapped(int fd, size_t size, struct found *f)
{
	unsigned char *p = map(fd, size);

	if (FL_IS_ERR(p))
		return FL_PTR_ERR(p);
	/* The descriptor is not needed any more from here on. */
	f->sum += scan(p, size, FNV_START, f);
	f->large += size > SMALL;
	return fl_pager_munmap(pager, p, size);
}

/* ---------------------------------------------------------------------------
 * Without
 */

static int scan_read(int fd, size_t size, struct found *f)
{
	uint64_t hash = FNV_START;
	unsigned char buf[65536];

	while (size) {
		ssize_t n =
			read(fd, buf, size < sizeof(buf) ? size : sizeof(buf));

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		hash = scan(buf, (size_t)n, hash, f);
		size -= (size_t)n;
	}
	f->sum += hash;
	return 0;
}

/* ---------------------------------------------------------------------------
 * The tree
 */

static int collect(const char *path, const struct stat *st, int type,
		   struct FTW *ftw)
{
	(void)ftw;
	if (type != FTW_F || !S_ISREG(st->st_mode) || st->st_size == 0)
		return 0;
	if ((nr_paths & (nr_paths - 1)) == 0) {
		paths = realloc(paths,
				(nr_paths ? 2 * nr_paths : 1) * sizeof(*paths));
		if (!paths)
			err(2, NULL);
	}
	paths[nr_paths] = strdup(path);
	if (!paths[nr_paths++])
		err(2, NULL);
	return 0;
}

static void do_file(const char *path, struct found *f,
		    int (*how)(int fd, size_t size, struct found *f))
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), ret;
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		ret = -errno;
	else
		ret = how(fd, (size_t)st.st_size, f);
	if (fd >= 0)
		close(fd);
	if (ret) {
		fprintf(stderr, "%s: %s\n", path, strerror(-ret));
		failures++;
	}
	f->files++;
}

struct worker {
	pthread_t thread;
	struct found found;
};

static void *work(void *arg)
{
	struct worker *w = arg;
	size_t i;

	while ((i = next_path++) < nr_paths)
		do_file(paths[i], &w->found, scan_mapped);
	return NULL;
}

static struct found scan_all(unsigned int threads)
{
	struct worker *w = calloc(threads, sizeof(*w));
	struct found all = { 0 };

	if (!w)
		err(2, NULL);
	for (unsigned int i = 0; i < threads; i++)
		if (pthread_create(&w[i].thread, NULL, work, &w[i]))
			errx(2, "no thread");
	for (unsigned int i = 0; i < threads; i++) {
		pthread_join(w[i].thread, NULL);
		all.files += w[i].found.files;
		all.large += w[i].found.large;
		all.bytes += w[i].found.bytes;
		all.lines += w[i].found.lines;
		all.sum += w[i].found.sum;
	}
	free(w);
	return all;
}

static int compare(const struct found *got)
{
	struct found want = { 0 };

	for (size_t i = 0; i < nr_paths; i++)
		do_file(paths[i], &want, scan_read);
	if (want.files == got->files && want.bytes == got->bytes &&
	    want.lines == got->lines && want.sum == got->sum)
		return 0;
	printf("read(2) finds %" PRIu64 " bytes, %" PRIu64
	       " lines, sum %016" PRIx64 "\n",
	       want.bytes, want.lines, want.sum);
	return 1;
}

int main(int argc, char **argv)
{
	const char *options = OPTIONS;
	unsigned int threads = 4;
	int c, check = 0, ret;
	uint64_t faults = 0;
	struct found got;

	while ((c = getopt(argc, argv, "ct:o:")) != -1) {
		if (c == 'c')
			check = 1;
		else if (c == 'o')
			options = optarg;
		else if (c == 't' && atoi(optarg) > 0 && atoi(optarg) <= 1024)
			threads = (unsigned int)atoi(optarg);
		else
			errx(2, "usage: scan-tree [-c] [-t threads] "
				"[-o options] folder");
	}
	if (optind + 1 != argc || nftw(argv[optind], collect, 64, FTW_PHYS))
		err(2, "%s", optind < argc ? argv[optind] : "no folder");
	ret = fl_pager_open(&pager, options);
	if (ret)
		errx(2, "fl_pager_open: %s", strerror(-ret));
	got = scan_all(threads);
	fl_stat_read(pager, "demand_faults", &faults);
	printf("%" PRIu64 " files, %" PRIu64 " of them large, %" PRIu64
	       " bytes, %" PRIu64 " lines, sum %016" PRIx64 ", %" PRIu64
	       " faults\n",
	       got.files, got.large, got.bytes, got.lines, got.sum, faults);
	ret = check ? compare(&got) : 0;
	fl_pager_close(pager);
	return ret ? ret : failures ? 2 : 0;
}
