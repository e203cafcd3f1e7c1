/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Pagers as a user of the library sees them: opening and closing, options,
 * counters, the memory budget, and mappings whose answers are mmap's own.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "faultline.h"

#define PAGE ((size_t)4096)
#define MIB ((size_t)1 << 20)
#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct fl_pager *opened(const char *options)
{
	struct fl_pager *p = NULL;
	int ret = fl_pager_open(&p, options);

	cr_assert_eq(ret, 0, "open \"%s\": %d", options ? options : "", ret);
	cr_assert_not_null(p);
	return p;
}

static uint64_t count(struct fl_pager *p, const char *name)
{
	uint64_t v = 0;

	cr_assert_eq(fl_stat_read(p, name, &v), 0, "%s", name);
	return v;
}

/* A file of @len bytes, byte i being i * 7 + seed, unlinked, read-only. */
static int file_of(size_t len, unsigned int seed)
{
	char name[] = "/tmp/fl-integ-XXXXXX";
	unsigned char *buf = malloc(len ? len : 1);
	int fd = mkstemp(name), ro;

	cr_assert_geq(fd, 0);
	for (size_t i = 0; i < len; i++)
		buf[i] = (unsigned char)(i * 7 + seed);
	cr_assert_eq(write(fd, buf, len), (ssize_t)len);
	free(buf);
	ro = open(name, O_RDONLY | O_CLOEXEC);
	unlink(name);
	close(fd);
	cr_assert_geq(ro, 0);
	return ro;
}

static bool holds(const unsigned char *p, size_t off, size_t len,
		  unsigned int seed)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != (unsigned char)((off + i) * 7 + seed))
			return false;
	return true;
}

static bool all(const unsigned char *p, int c, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != (unsigned char)c)
			return false;
	return true;
}

Test(open, bad_options)
{
	static const char *const bad[] = {
		"no_such_option=1",
		"mem",
		"mem=",
		"mem=x",
		"mem=8Q",
		"mem=-1",
		"high=0",
		"high=101",
		"high=ninety",
		"low=101",
		"learn=3",
		"hardened=2",
		"hardened=maybe",
		"shared=yes",
		"=1",
		"mem=8M,high=0",
		"resident_max=1G",
		"anon_max=1T",
		"mem=99999999999999999999",
	};

	for (size_t i = 0; i < COUNT(bad); i++) {
		struct fl_pager *p = NULL;

		cr_expect_eq(fl_pager_open(&p, bad[i]), -EINVAL, "\"%s\"",
			     bad[i]);
	}
}

Test(open, good_options)
{
	static const char *const good[] = {
		NULL,
		"",
		"mem=64M",
		"mem=1G,high=80",
		"hardened=1",
		"hardened=no",
		"shared=snapshot,mem=32M",
		"resident_max=0,anon_max=0",
		"low=0,high=100",
	};

	for (size_t i = 0; i < COUNT(good); i++)
		cr_expect_eq(fl_pager_close(opened(good[i])), 0);
}

Test(open, environment_is_not_read)
{
	struct fl_pager *p;
	char buf[32];

	setenv("FAULTLINE_HIGH", "37", 1);
	p = opened(NULL);
	cr_assert_gt(fl_conf_get(p, "high", buf, sizeof(buf)), 0);
	cr_expect_str_neq(buf, "37");
	cr_expect_eq(fl_pager_close(p), 0);
}

Test(open, sixteen)
{
	struct fl_pager *p[16], *more = NULL;

	for (int i = 0; i < 16; i++)
		p[i] = opened("mem=64M");
	cr_expect_eq(fl_pager_open(&more, "mem=64M"), -EMFILE);
	cr_expect_eq(fl_pager_close(p[7]), 0);
	p[7] = opened("mem=64M");
	for (int i = 0; i < 16; i++)
		cr_expect_eq(fl_pager_close(p[i]), 0);
	for (int i = 0; i < 200; i++)
		cr_expect_eq(fl_pager_close(opened("mem=64M")), 0);
}

Test(open, close_is_refused_while_regions_live)
{
	struct fl_pager *p = opened(NULL);
	int fd = file_of(5000, 1);
	unsigned char *a, *f;

	a = fl_pager_mmap(p, NULL, 10 * PAGE, RW, ANON, -1, 0);
	f = fl_pager_map_file(p, fd, 0, 5000);
	cr_assert(!FL_IS_ERR(a) && !FL_IS_ERR(f));
	cr_expect_eq(fl_pager_close(p), -EBUSY);
	cr_expect(holds(f, 0, 5000, 1));
	cr_expect_eq(fl_pager_munmap(p, f, 5000), 0);
	cr_expect_eq(fl_pager_close(p), -EBUSY);
	cr_expect_eq(fl_pager_munmap(p, a, 9 * PAGE), 0);
	cr_expect_eq(fl_pager_close(p), -EBUSY, "one page is left");
	a[9 * PAGE] = 1;
	cr_expect_eq(fl_pager_munmap(p, a + 9 * PAGE, PAGE), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

Test(conf, get)
{
	static const char *const names[] = { "mem",         "high",
					     "low",         "hardened",
					     "shared",      "anon_max",
					     "resident_max" };
	struct fl_pager *p = opened("mem=48M,high=77,hardened=1"), *q;
	char buf[64], again[64], option[160];
	int n;

	for (size_t i = 0; i < COUNT(names); i++) {
		n = fl_conf_get(p, names[i], buf, sizeof(buf));
		cr_assert_eq(n, (int)strlen(buf), "%s", names[i]);
		/* What it says can be said to another pager. */
		snprintf(option, sizeof(option), "%s=%s", names[i], buf);
		q = opened(option);
		fl_conf_get(q, names[i], again, sizeof(again));
		cr_expect_str_eq(buf, again, "%s", names[i]);
		fl_pager_close(q);
	}
	fl_conf_get(p, "high", buf, sizeof(buf));
	cr_expect_str_eq(buf, "77");
	cr_expect_eq(fl_conf_get(p, "none", buf, sizeof(buf)), -ENOENT);
	memset(buf, 'x', sizeof(buf));
	cr_expect_eq(fl_conf_get(p, "mem", buf, 2), -ENOSPC);
	cr_expect_lt(strnlen(buf, sizeof(buf)), 2u);
	cr_expect_eq(buf[2], 'x');
	cr_expect_eq(fl_pager_close(p), 0);
}

Test(stat, names_and_values)
{
	struct fl_pager *p = opened(NULL);
	unsigned int n = 0;
	uint64_t v;

	while (fl_stat_name(n)) {
		cr_expect_eq(fl_stat_read(p, fl_stat_name(n), &v), 0, "%s",
			     fl_stat_name(n));
		n++;
	}
	cr_expect_gt(n, 10u);
	cr_expect_null(fl_stat_name(n));
	cr_expect_null(fl_stat_name(~0u));
	cr_expect_eq(fl_stat_read(p, "no_such_counter", &v), -ENOENT);
	cr_expect_eq(fl_stat_read(p, "", &v), -ENOENT);
	fl_pager_close(p);
}

Test(stat, count_what_happens)
{
	struct fl_pager *p = opened(NULL), *q = opened(NULL);
	int fd = file_of(5000, 1);
	unsigned char *a[20], *f[20], *c;

	for (int i = 0; i < 20; i++) {
		a[i] = fl_pager_mmap(p, NULL, 10 * PAGE, RW, ANON, -1, 0);
		f[i] = fl_pager_map_file(p, fd, 0, 5000);
		cr_assert(!FL_IS_ERR(a[i]) && !FL_IS_ERR(f[i]));
	}
	cr_expect_eq(count(p, "maps_anon"), 20u);
	cr_expect_eq(count(p, "maps_file"), 20u);
	cr_expect_eq(count(p, "live_regions"), 40u);
	cr_expect_geq(count(p, "resident_bytes"), 20 * 12 * PAGE);
	c = fl_pager_mmap(p, NULL, 64 * MIB, RW, ANON, -1, 0);
	cr_expect_eq(count(p, "maps_kernel"), 1u);
	cr_expect_eq(fl_pager_munmap(p, c, 64 * MIB), 0);
	cr_expect_eq(fl_pager_munmap(p, a[0] + PAGE, PAGE), 0);
	cr_expect_eq(count(p, "unmaps_partial"), 1u);
	cr_expect_eq(fl_pager_mprotect(p, a[1], PAGE, PROT_NONE), 0);
	cr_expect_geq(count(p, "demotions"), 1u);
	for (int i = 0; i < 20; i++) {
		cr_expect_eq(fl_pager_munmap(p, a[i], 10 * PAGE), 0);
		cr_expect_eq(fl_pager_munmap(p, f[i], 5000), 0);
	}
	cr_expect_eq(count(p, "live_regions"), 0u);
	cr_expect_eq(count(q, "maps_anon"), 0u, "another pager's");
	cr_expect_eq(fl_pager_close(p), 0);
	cr_expect_eq(fl_pager_close(q), 0);
}

static size_t rss(void)
{
	unsigned long size = 0, res = 0, shared;
	FILE *f = fopen("/proc/self/statm", "r");

	cr_assert_eq(fscanf(f, "%lu %lu %lu", &size, &res, &shared), 3);
	fclose(f);
	return res * PAGE;
}

/* Beyond the budget everything still works, from the kernel. */
Test(memory, budget)
{
	struct fl_pager *p = opened("mem=8M,learn=0");
	unsigned char *a[64], *f[64];
	int fd = file_of(200000, 3);

	for (int i = 0; i < 64; i++) {
		a[i] = fl_pager_mmap(p, NULL, MIB, RW, ANON, -1, 0);
		f[i] = fl_pager_mmap(p, NULL, 200000, PROT_READ, MAP_PRIVATE,
				     fd, 0);
		cr_assert(!FL_IS_ERR(a[i]) && !FL_IS_ERR(f[i]));
		cr_assert(all(a[i], 0, MIB));
		memset(a[i], i + 1, MIB);
		cr_assert_leq(count(p, "resident_bytes"), 8 * MIB);
	}
	cr_expect_gt(count(p, "over_budget"), 100u);
	cr_expect_gt(count(p, "maps_kernel"), 100u);
	cr_expect_gt(count(p, "maps_anon"), 0u);
	for (int i = 0; i < 64; i++) {
		cr_expect(all(a[i], i + 1, MIB));
		cr_expect(holds(f[i], 0, 200000, 3));
		cr_expect_eq(fl_pager_munmap(p, a[i], MIB), 0);
		cr_expect_eq(fl_pager_munmap(p, f[i], 200000), 0);
	}
	/* And once there is room again, the pager serves again. */
	a[0] = fl_pager_mmap(p, NULL, MIB, RW, ANON, -1, 0);
	cr_expect_eq(fl_find(p, a[0]), 1);
	cr_expect_eq(fl_pager_munmap(p, a[0], MIB), 0);
	cr_expect_eq(fl_pager_close(p), 0);
}

/* Memory idle in one size must not starve another for ever. */
Test(memory, budget_moves_between_sizes)
{
	struct fl_pager *p = opened("mem=16M,learn=0");
	unsigned char *a[512];
	size_t served = 0;

	for (int i = 0; i < 512; i++) {
		a[i] = fl_pager_mmap(p, NULL, 4 * PAGE, RW, ANON, -1, 0);
		memset(a[i], 1, 4 * PAGE);
	}
	for (int i = 0; i < 512; i++)
		fl_pager_munmap(p, a[i], 4 * PAGE);
	for (int i = 0; i < 200; i++) {
		a[0] = fl_pager_mmap(p, NULL, 4 * MIB, RW, ANON, -1, 0);
		cr_assert(!FL_IS_ERR(a[0]));
		served += fl_find(p, a[0]) == 1;
		cr_assert(all(a[0], 0, 4 * MIB));
		cr_assert_eq(fl_pager_munmap(p, a[0], 4 * MIB), 0);
	}
	cr_expect_gt(served, 150u, "%zu of 200", served);
	cr_expect_eq(fl_pager_close(p), 0);
}

Test(memory, trim)
{
	struct fl_pager *p = opened("mem=256M,low=100,learn=0");
	unsigned char *a[64];
	size_t before, between;
	long given;

	before = rss();
	for (int i = 0; i < 64; i++) {
		a[i] = fl_pager_mmap(p, NULL, MIB, RW, ANON, -1, 0);
		memset(a[i], 1, MIB);
	}
	for (int i = 0; i < 64; i++)
		fl_pager_munmap(p, a[i], MIB);
	between = rss();
	cr_expect_gt(between, before + 48 * MIB, "nothing was kept");
	given = fl_trim(p);
	cr_expect_geq(given, (long)(48 * MIB), "%ld", given);
	cr_expect_lt(rss(), before + 8 * MIB);
	cr_expect_leq(count(p, "resident_bytes"), 8 * MIB);
	/* Trimmed memory comes back clean. */
	for (int i = 0; i < 64; i++) {
		a[i] = fl_pager_mmap(p, NULL, MIB, RW, ANON, -1, 0);
		cr_assert(all(a[i], 0, MIB));
	}
	cr_expect_eq(fl_trim(p), 0, "live memory is not idle");
	for (int i = 0; i < 64; i++)
		fl_pager_munmap(p, a[i], MIB);
	cr_expect_eq(fl_pager_close(p), 0);
	cr_expect_lt(rss(), before + 8 * MIB, "close gives all back");
}
