/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Demand regions of a process that has limited itself: locked memory, few
 * descriptors, little address space. What cannot be had is said when a region is
 * made; what has been made works.
 */
#include <sys/resource.h>

#include "support/region.h"

#define SIZE (4 * MIB + 77)

static void limit(int what, rlim_t to)
{
	struct rlimit lim;

	cr_assert_eq(getrlimit((__rlimit_resource_t)what, &lim), 0);
	lim.rlim_cur = to;
	cr_assert_eq(setrlimit((__rlimit_resource_t)what, &lim), 0);
}

/* New mappings would be filled with zeros at once. */
BOTH(demand_limits, mcl_future)
{
	struct fl_pager *p = pager_of(fault, "mem=1M");
	int fd = words_file(SIZE, FILE_ID);
	unsigned char *r = mapped(p, fd, 0, SIZE), *q;

	if (mlockall(MCL_FUTURE))
		cr_skip_test("memory cannot be locked");
	q = fl_region_map_file(p, fd, 0, SIZE, PROT_READ, 0);
	if (FL_IS_ERR(q)) {
		cr_expect_eq(FL_PTR_ERR(q), -ENOTSUP, "%d", FL_PTR_ERR(q));
	} else {
		cr_expect_eq(range_bad(q, SIZE, FILE_ID, 0, SIZE), 0);
		cr_assert_eq(fl_pager_munmap(p, q, SIZE), 0);
	}
	cr_expect_eq(range_bad(r, SIZE, FILE_ID, 0, SIZE), 0);
	munlockall();
	q = mapped(p, fd, 0, SIZE);
	cr_expect_eq(range_bad(q, SIZE, FILE_ID, 0, SIZE), 0);
	cr_assert_eq(fl_pager_munmap(p, q, SIZE), 0);
	cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

/* What is mapped is locked: the budget still holds. */
BOTH(demand_limits, mcl_current)
{
	struct fl_pager *p = pager_of(fault, "mem=1M");
	int fd = words_file(SIZE, FILE_ID);
	unsigned char *r = mapped(p, fd, 0, SIZE);
	static unsigned char vec[SIZE / PAGE + 1];

	cr_expect_eq(page_bad(r, 7, FILE_ID, 0, SIZE), 0);
	if (mlockall(MCL_CURRENT | MCL_ONFAULT))
		cr_skip_test("memory cannot be locked");
	for (int k = 0; k < 3; k++)
		cr_expect_eq(range_bad(r, SIZE, FILE_ID, 0, SIZE), 0);
	cr_assert_eq(fl_pager_mincore(p, r, SIZE, vec), 0);
	cr_expect_leq(zero_wrong(vec, sizeof(vec)) * PAGE, MIB + 4 * PAGE);
	cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

/* Fewer and fewer descriptors: either a region that works or an errno. */
BOTH(demand_limits, nofile)
{
	int fd = words_file(SIZE, FILE_ID), made = 0, refused = 0;

	pager_of(fault, NULL); /* or skip */
	for (rlim_t n = 64; n >= 4; n -= 2) {
		struct fl_pager *p = pager_of(fault, "mem=1M");
		unsigned char *r;

		limit(RLIMIT_NOFILE, n);
		r = fl_region_map_file(p, fd, 0, SIZE, PROT_READ, 0);
		if (FL_IS_ERR(r)) {
			cr_expect_eq(FL_PTR_ERR(r), -EMFILE, "%d of %d",
				     FL_PTR_ERR(r), (int)n);
			refused++;
		} else {
			cr_expect_eq(range_bad(r, SIZE, FILE_ID, 0, SIZE), 0,
				     "%d", (int)n);
			cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
			made++;
		}
		limit(RLIMIT_NOFILE, 1024);
		cr_assert_eq(fl_pager_close(p), 0);
	}
	cr_expect_gt(made, 0);
	cr_expect_gt(refused, 0);
}

/* None left after the region was made: it lives, its bad pages are SIGBUS. */
BOTH(demand_limits, nofile_later)
{
	struct fl_pager *p = pager_of(fault, "mem=1M");
	struct words_store s = {
		.id = 5, .size = SIZE, .err = EIO, .bad = 1, .every = 100
	};
	int fd = words_file(SIZE, FILE_ID);
	unsigned char *r = mapped(p, fd, 0, SIZE);
	unsigned char *q =
		fl_region_map(p, &words_ops, &s, 0, SIZE, PROT_READ, 0);

	cr_assert_not(FL_IS_ERR(q));
	catch_faults();
	limit(RLIMIT_NOFILE, 0);
	cr_expect_eq(range_bad(r, SIZE, FILE_ID, 0, SIZE), 0);
	cr_expect_eq(touch(q + PAGE).sig, SIGBUS);
	cr_expect_eq(touch(q + PAGE).sig, SIGBUS, "at every access");
	cr_expect_eq(fl_region_error(p, q + PAGE), EIO);
	cr_expect_eq(page_bad(q, 2, 5, 0, SIZE), 0);
	cr_expect_eq(fl_pager_mprotect(p, r, 10 * PAGE, RW), 0);
	cr_expect_eq(range_bad(r, SIZE, FILE_ID, 0, SIZE), 0);
	cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	cr_assert_eq(fl_pager_munmap(p, q, SIZE), 0);
	limit(RLIMIT_NOFILE, 1024);
	cr_expect_eq(fl_pager_close(p), 0);
}

static size_t vm_size(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	unsigned long pages = 0;

	cr_assert_not_null(f);
	cr_assert_eq(fscanf(f, "%lu", &pages), 1);
	fclose(f);
	return pages * PAGE;
}

/* No address space when the first page is touched. */
BOTH(demand_limits, as_later)
{
	struct fl_pager *p = pager_of(fault, "mem=1M");
	int fd = words_file(SIZE, FILE_ID);
	unsigned char *r = mapped(p, fd, 0, SIZE), *q;

	limit(RLIMIT_AS, vm_size());
	cr_expect_eq(range_bad(r, SIZE, FILE_ID, 0, SIZE), 0);
	q = fl_region_map_file(p, fd, 0, SIZE, PROT_READ, 0);
	cr_expect(FL_IS_ERR(q) && FL_PTR_ERR(q) == -ENOMEM, "%p", q);
	cr_expect_eq(range_bad(r, SIZE, FILE_ID, 0, SIZE), 0);
	limit(RLIMIT_AS, RLIM_INFINITY);
	cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

/* A little more each time: a region that works, or -ENOMEM. */
BOTH(demand_limits, as_scarce)
{
	int fd = words_file(SIZE, FILE_ID), made = 0, refused = 0;
	struct fl_pager *p = pager_of(fault, "mem=1M");

	for (size_t more = 0; more < 32 * MIB; more += 512 * KIB) {
		unsigned char *r;

		limit(RLIMIT_AS, vm_size() + more);
		r = fl_region_map_file(p, fd, 0, SIZE, PROT_READ, 0);
		if (FL_IS_ERR(r)) {
			cr_expect_eq(FL_PTR_ERR(r), -ENOMEM, "%d",
				     FL_PTR_ERR(r));
			refused++;
		} else {
			cr_expect_eq(range_bad(r, SIZE, FILE_ID, 0, SIZE), 0);
			cr_assert_eq(fl_pager_munmap(p, r, SIZE), 0);
			made++;
		}
		limit(RLIMIT_AS, RLIM_INFINITY);
	}
	cr_expect_gt(made, 0);
	cr_expect_gt(refused, 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

/* A region far larger than memory and file costs nothing. */
BOTH(demand_limits, huge)
{
	struct fl_pager *p = pager_of(fault, "mem=1M");
	struct words_store s = { .id = 5, .size = SIZE_MAX };
	size_t len = (size_t)1 << 42, at;
	unsigned char *r =
		fl_region_map(p, &words_ops, &s, 0, len, PROT_READ, 0);
	struct rng rng = { .s = 1 };

	if (FL_IS_ERR(r) && FL_PTR_ERR(r) == -ENOMEM)
		cr_skip_test("no address space");
	cr_assert_not(FL_IS_ERR(r));
	for (int i = 0; i < 500; i++) {
		at = rng_next(&rng) % (len / PAGE);
		cr_assert_eq(words_wrong(r + at * PAGE, 5, at * PAGE, PAGE), 0);
	}
	cr_assert_eq(fl_pager_munmap(p, r + len / 4, len / 2), 0);
	cr_expect_eq(words_wrong(r, 5, 0, PAGE), 0);
	cr_expect_eq(words_wrong(r + len - PAGE, 5, len - PAGE, PAGE), 0);
	cr_assert_eq(fl_pager_munmap(p, r, len), 0);
	cr_expect_leq(count(p, "demand_bytes"), MIB);
	cr_expect_eq(fl_pager_close(p), 0);
}
