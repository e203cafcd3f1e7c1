// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * out-of-core-array.c - sorts a file of 64-bit numbers in place, with an
 * ordinary quicksort over an ordinary array, in less memory than the array
 * takes: the array is a writable demand region, and the pager reads and writes
 * the file as the sort comes along.
 *
 *	cc -O2 out-of-core-array.c -o out-of-core-array \
 *		$(pkg-config --cflags --libs faultline)
 *	./out-of-core-array numbers.bin [MiB [options]]
 *
 * Makes the file, 64 MiB if nothing else is said, sorts it with a budget of
 * 8 MiB, and reads it by read(2) to see that it is sorted and has the numbers it
 * had. Exit status 1 if not; 77: no writable demand regions on this system.
 */
#include <err.h>
#include <errno.h>
#include <faultline.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define OPTIONS "mem=8M"
#define CHUNK 8192u

/* What stays the same however the numbers are arranged. */
struct content {
	uint64_t n, sum, mixed;
};

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

static void add(struct content *c, uint64_t x)
{
	c->n++;
	c->sum += x;
	c->mixed += mix(x);
}

/* ---------------------------------------------------------------------------
 * The file, by read(2) and write(2)
 */

static struct content make(int fd, uint64_t n)
{
	struct content c = { 0 };
	uint64_t buf[CHUNK];

	while (c.n < n) {
		size_t k = n - c.n < CHUNK ? (size_t)(n - c.n) : CHUNK;

		for (size_t i = 0; i < k; i++) {
			buf[i] = mix(c.n + 1);
			add(&c, buf[i]);
		}
		if (write(fd, buf, k * sizeof(*buf)) !=
		    (ssize_t)(k * sizeof(*buf)))
			err(2, "write");
	}
	return c;
}

static int verify(int fd, const struct content *want)
{
	struct content c = { 0 };
	uint64_t buf[CHUNK], last = 0;
	ssize_t len;

	if (lseek(fd, 0, SEEK_SET))
		err(2, "lseek");
	while ((len = read(fd, buf, sizeof(buf))) > 0) {
		for (size_t i = 0; i < (size_t)len / sizeof(*buf); i++) {
			if (buf[i] < last) {
				printf("number %" PRIu64 " is smaller than the "
				       "one before it\n",
				       c.n);
				return 1;
			}
			last = buf[i];
			add(&c, last);
		}
	}
	if (len < 0)
		err(2, "read");
	if (memcmp(&c, want, sizeof(c))) {
		printf("there are other numbers than before\n");
		return 1;
	}
	return 0;
}

/* ---------------------------------------------------------------------------
 * The array
 */

/* Nothing here knows that @a is not in memory. Each pass goes through the array
 * from both ends; parts that fit into the budget stay there. */
static void sort(uint64_t *a, int64_t lo, int64_t hi)
{
	while (lo < hi) {
		uint64_t pivot = a[lo + (hi - lo) / 2], x;
		int64_t i = lo, j = hi;

		while (i <= j) {
			while (a[i] < pivot)
				i++;
			while (a[j] > pivot)
				j--;
			if (i > j)
				break;
			x = a[i];
			a[i++] = a[j];
			a[j--] = x;
		}
		/* The smaller part first: the stack stays small. */
		if (j - lo < hi - i) {
			sort(a, lo, j);
			lo = i;
		} else {
			sort(a, i, hi);
			hi = j;
		}
	}
}

static void *map(struct fl_pager *p, int fd, size_t len)
{
	void *a = fl_region_map_file(p, fd, 0, len, PROT_READ | PROT_WRITE, 0);

	if (!FL_IS_ERR(a))
		return a;
	if (FL_PTR_ERR(a) == -ENOTSUP) {
		fputs("no writable demand regions here: 'faultline doctor' "
		      "tells more\n",
		      stderr);
		exit(77);
	}
	errx(2, "fl_region_map_file: %s", strerror(-FL_PTR_ERR(a)));
}

static uint64_t counter(struct fl_pager *p, const char *name)
{
	uint64_t v = 0;

	fl_stat_read(p, name, &v);
	return v >> 10;
}

int main(int argc, char **argv)
{
	uint64_t mib = argc > 2 ? strtoull(argv[2], NULL, 10) : 64;
	uint64_t n = (mib << 20) / sizeof(uint64_t);
	const char *options = argc > 3 ? argv[3] : OPTIONS;
	size_t len = (size_t)n * sizeof(uint64_t);
	struct fl_pager *pager;
	struct content want;
	uint64_t *a;
	int fd, ret;

	if (argc < 2 || argc > 4 || mib < 1 || mib > 1 << 20)
		errx(2, "usage: out-of-core-array file [MiB [options]]");
	fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0)
		err(2, "%s", argv[1]);
	want = make(fd, n);
	ret = fl_pager_open(&pager, options);
	if (ret)
		errx(2, "fl_pager_open: %s", strerror(-ret));
	a = map(pager, fd, len);

	sort(a, 0, (int64_t)n - 1);

	/* Pages that have not had to go yet are written now; with MS_SYNC they
	 * are on the disk when this returns. */
	ret = fl_pager_msync(pager, a, len, MS_ASYNC);
	if (ret)
		errx(2, "fl_pager_msync: %s", strerror(-ret));
	ret = verify(fd, &want);
	printf("%" PRIu64 " numbers in %" PRIu64 " KiB, %" PRIu64
	       " KiB of them in memory now; %" PRIu64 " KiB read, %" PRIu64
	       " KiB written\n",
	       n, (uint64_t)len >> 10, counter(pager, "demand_bytes"),
	       counter(pager, "demand_read_bytes"),
	       counter(pager, "demand_written_bytes"));
	/* Would write, too, and tell if it cannot. */
	if (fl_pager_munmap(pager, a, len) || fl_pager_close(pager) ||
	    close(fd))
		errx(2, "cannot end");
	return ret;
}
