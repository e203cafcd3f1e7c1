// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * test_conf.c - the message formatter, options as text, environment, profile
 * files and whose files are trusted, the memory budget.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/file.h"
#include "base/log.h"

static struct conf fresh(void)
{
	struct conf c;

	memset(&c, 0xa5, sizeof(c));
	conf_defaults(&c);
	return c;
}

static const char *get(const struct conf *c, const char *name)
{
	static char buf[64];

	cr_assert(conf_get(c, name, buf, sizeof(buf)) >= 0, "%s", name);
	return buf;
}

/* Standard error of what runs between begin and end. */
static char said[4096];
static int saved_err = -1;
static FILE *err_file;

static void listen_begin(void)
{
	fflush(stderr);
	saved_err = dup(2);
	err_file = tmpfile();
	cr_assert(err_file);
	dup2(fileno(err_file), 2);
}

static const char *listen_end(void)
{
	size_t n;

	dup2(saved_err, 2);
	close(saved_err);
	rewind(err_file);
	n = fread(said, 1, sizeof(said) - 1, err_file);
	said[n] = '\0';
	fclose(err_file);
	return said;
}

static unsigned int lines(const char *s)
{
	unsigned int n = 0;

	for (; *s; s++)
		n += *s == '\n';
	return n;
}

#define same_fmt(...)                                                \
	do {                                                         \
		char want[128], have[128];                           \
		int n = snprintf(want, sizeof(want), __VA_ARGS__);   \
		size_t m = log_fmt(have, sizeof(have), __VA_ARGS__); \
		cr_assert_str_eq(have, want);                        \
		cr_assert_eq(m, (size_t)n);                          \
	} while (0)

Test(log, formats_as_printf)
{
	same_fmt("plain %% %c%s|%5s|%-5s|", 'x', "yz", "ab", "cd");
	same_fmt("%d %d %d %i", 0, -1, 2147483647, (int)-2147483648LL);
	same_fmt("%u %x %08x %4u %04d %-6d|", 7u, 0xbeefu, 0xbeefu, 42u, -3, 5);
	same_fmt("%ld %lu %lx", -9223372036854775807L - 1, ~0ul, ~0ul);
	same_fmt("%lld %llu %llx %zu %zx", -1LL, ~0ull, ~0ull, (size_t)12,
		 (size_t)0xabc);
	same_fmt("%s and %d", "several", 3);
	same_fmt("%p", (void *)0x1234);
}

Test(log, truncates_and_terminates)
{
	char buf[8];
	char one = 'q';

	memset(buf, 'z', sizeof(buf));
	cr_assert_eq(log_fmt(buf, sizeof(buf), "%s", "0123456789"), 7);
	cr_assert_str_eq(buf, "0123456");
	cr_assert_eq(log_fmt(buf, 1, "abc"), 0);
	cr_assert_str_eq(buf, "");
	cr_assert_eq(log_fmt(&one, 0, "abc"), 0);
	cr_assert_eq(one, 'q');
}

static void say_twice(int n)
{
	for (int i = 0; i < 2; i++)
		fl_log_once(FL_LOG_WARN, "once %d", n);
}

Test(log, levels_and_once)
{
	listen_begin();
	log_set_level(FL_LOG_QUIET);
	fl_log(FL_LOG_WARN, "held back");
	log_set_level(FL_LOG_WARN);
	fl_log(FL_LOG_INFO, "held back");
	fl_log(FL_LOG_WARN, "line %d", 1);
	say_twice(2);
	say_twice(3);
	listen_end();
	cr_assert_eq(lines(said), 2, "%s", said);
	cr_assert(strstr(said, "]: line 1\n") && strstr(said, "]: once 2\n"));
	cr_assert_not(strstr(said, "held back"));
}

Test(conf, defaults)
{
	struct conf c = fresh();

	cr_assert_eq(c.mem, 0);
	cr_assert_eq(c.high, 90);
	cr_assert_eq(c.low, 10);
	cr_assert_eq(c.resident_max, 256 << 10);
	cr_assert_geq(c.anon_max, c.resident_max);
	cr_assert(c.learn && c.stat);
	cr_assert_not(c.hardened || c.summary || c.off);
	cr_assert_eq(c.shared, CONF_SHARED_KERNEL);
	cr_assert_eq(c.log, FL_LOG_WARN);
}

Test(conf, every_row_reads_back)
{
	struct conf c = fresh(), d;
	char buf[64];

	for (unsigned int i = 0; i < CONF_NR; i++) {
		d = fresh();
		cr_assert(conf_get(&c, conf_rows[i].name, buf, sizeof(buf)) >
			  0);
		cr_assert_eq(conf_set(&d, conf_rows[i].name, buf), 0, "%s=%s",
			     conf_rows[i].name, buf);
		cr_assert_str_eq(get(&d, conf_rows[i].name), buf);
		cr_assert(strlen(conf_rows[i].help) > 0);
	}
}

struct set_case {
	const char *name, *value;
	int err;
	const char *after; /* as conf_get has it, when err is 0 */
};

static const struct set_case set_cases[] = {
	{ "mem", "0", 0, "0" },
	{ "mem", "123", 0, "123" },
	{ "mem", "4k", 0, "4K" },
	{ "mem", "3M", 0, "3M" },
	{ "mem", "2048K", 0, "2M" },
	{ "mem", "5g", 0, "5G" },
	{ "mem", "64T", 0, "64T" },
	{ "mem", "65T", -ERANGE, NULL },
	{ "mem", "18446744073709551616", -ERANGE, NULL },
	{ "mem", "99999999999999999999K", -ERANGE, NULL },
	{ "mem", "17179869184G", -ERANGE, NULL },
	{ "mem", "", -EINVAL, NULL },
	{ "mem", "K", -EINVAL, NULL },
	{ "mem", "-1", -EINVAL, NULL },
	{ "mem", " 1", -EINVAL, NULL },
	{ "mem", "1 ", -EINVAL, NULL },
	{ "mem", "1KB", -EINVAL, NULL },
	{ "mem", "1.5M", -EINVAL, NULL },
	{ "mem", "0x10", -EINVAL, NULL },
	{ "resident_max", "0", 0, "0" },
	{ "resident_max", "8M", 0, "8M" },
	{ "resident_max", "8388609", -ERANGE, NULL },
	{ "anon_max", "1T", -ERANGE, NULL },
	{ "high", "1", 0, "1" },
	{ "high", "100%", 0, "100" },
	{ "high", "0", -ERANGE, NULL },
	{ "high", "101", -ERANGE, NULL },
	{ "high", "50K", -EINVAL, NULL },
	{ "low", "0", 0, "0" },
	{ "low", "4294967306", -ERANGE, NULL },
	{ "learn", "0", 0, "0" },
	{ "learn", "no", 0, "0" },
	{ "learn", "OFF", 0, "0" },
	{ "learn", "false", 0, "0" },
	{ "hardened", "1", 0, "1" },
	{ "hardened", "Yes", 0, "1" },
	{ "hardened", "on", 0, "1" },
	{ "hardened", "true", 0, "1" },
	{ "hardened", "2", -EINVAL, NULL },
	{ "hardened", "", -EINVAL, NULL },
	{ "shared", "snapshot", 0, "snapshot" },
	{ "shared", "kernel", 0, "kernel" },
	{ "shared", "1", -EINVAL, NULL },
	{ "shared", "snap", -EINVAL, NULL },
	{ "log", "info", 0, "info" },
	{ "log", "loud", -EINVAL, NULL },
	{ "nosuch", "1", -ENOENT, NULL },
	{ "", "1", -ENOENT, NULL },
	{ "MEM", "1", -ENOENT, NULL },
	{ "me", "1", -ENOENT, NULL },
};

Test(conf, set_and_bounds)
{
	for (size_t i = 0; i < ARRAY_SIZE(set_cases); i++) {
		const struct set_case *t = &set_cases[i];
		struct conf c = fresh(), before = c;

		cr_assert_eq(conf_set(&c, t->name, t->value), t->err, "%s=%s",
			     t->name, t->value);
		if (t->err)
			cr_assert_eq(memcmp(&c, &before, sizeof(c)), 0,
				     "%s=%s changed something", t->name,
				     t->value);
		else
			cr_assert_str_eq(get(&c, t->name), t->after);
	}
}

Test(conf, get_errors)
{
	struct conf c = fresh();
	char buf[8] = "zzz";

	cr_assert_eq(conf_get(&c, "nosuch", buf, sizeof(buf)), -ENOENT);
	cr_assert_str_eq(buf, "");
	cr_assert_eq(conf_get(&c, "shared", buf, 6), -ENOSPC);
	cr_assert_str_eq(buf, "");
	cr_assert_eq(conf_get(&c, "shared", buf, 7), 6);
	cr_assert_str_eq(buf, "kernel");
	cr_assert_eq(conf_get(&c, "shared", NULL, 0), -ENOSPC);
}

static char list_log[512];

static void list_err(const char *name, const char *value, int err)
{
	char item[160];

	snprintf(item, sizeof(item), "[%s|%s|%d]", name, value, err);
	strcat(list_log, item);
}

Test(conf, lists)
{
	struct conf c = fresh();
	char longish[128];

	cr_assert_eq(conf_parse_list(&c, NULL, list_err), 0);
	cr_assert_eq(conf_parse_list(&c, "", list_err), 0);
	cr_assert_eq(conf_parse_list(&c, ",,", list_err), 0);
	cr_assert_eq(conf_parse_list(&c, "mem=1M,hardened,low=5,", list_err),
		     0);
	cr_assert_str_eq(list_log, "");
	cr_assert_eq(c.mem, 1 << 20);
	cr_assert(c.hardened);
	cr_assert_eq(c.low, 5);
	/* The good ones are taken, the first error returned, all told. */
	cr_assert_eq(conf_parse_list(&c, "high=0,mem=2M,x=1,mem", list_err),
		     -ERANGE);
	cr_assert_eq(c.mem, 2 << 20);
	cr_assert_str_eq(list_log, "[high|0|-34][x|1|-2][mem|yes|-22]");
	memset(longish, 'a', sizeof(longish) - 1);
	longish[sizeof(longish) - 1] = '\0';
	cr_assert_eq(conf_parse_list(&c, longish, NULL), -EINVAL);
}

Test(conf, environment)
{
	char *env[] = { "PATH=/bin",
			"FAULTLINE_MEM=7M",
			"FAULTLINE_HARDENED=1",
			"FAULTLINE_PROFILE=x",
			"FAULTLINE_PROFILE_DIR=/x",
			"FAULTLINE_",
			"XFAULTLINE_LOW=1",
			NULL };
	char *bad[] = { "FAULTLINE_NOSUCH=1", "FAULTLINE_MEM=lots",
			"FAULTLINE_HIGH=101", "FAULTLINE_low=3",
			"FAULTLINE_LOW=20",   NULL };
	struct conf c = fresh();

	listen_begin();
	cr_expect_eq(conf_load_env(&c, env), 0);
	listen_end();
	cr_assert_str_eq(said, "");
	cr_assert_eq(c.mem, 7 << 20);
	cr_assert(c.hardened);

	listen_begin();
	cr_expect_eq(conf_load_env(&c, bad), 4);
	listen_end();
	cr_assert_eq(lines(said), 4, "%s", said);
	cr_assert(strstr(said, "FAULTLINE_NOSUCH=1 is ignored"));
	cr_assert(strstr(said, "FAULTLINE_low=3 is ignored"));
	cr_assert_eq(c.mem, 7 << 20);
	cr_assert_eq(c.high, 90);
	cr_assert_eq(c.low, 20);
}

static char dir[64];

static void make_dir(void)
{
	strcpy(dir, "/tmp/fl-conf-XXXXXX");
	cr_assert(mkdtemp(dir));
}

static void remove_dir(void)
{
	char cmd[96];

	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	cr_assert_eq(system(cmd), 0);
}

static void write_file(const char *name, const char *text, mode_t mode)
{
	char path[160];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	cr_assert(f);
	fputs(text, f);
	fclose(f);
	cr_assert_eq(chmod(path, mode), 0);
}

static const char *const rg_names[] = { "rg", "ripgrep", NULL };

static int load_one(struct conf *c, const char *name)
{
	char path[160];
	int ret;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	listen_begin();
	ret = conf_load_file(c, rg_names, AT_FDCWD, path);
	listen_end();
	return ret;
}

Test(profile, sections, .init = make_dir, .fini = remove_dir)
{
	struct conf c = fresh();

	write_file("a.conf",
		   "# comment\n"
		   "mem = 1M\n" /* no section: nobody's */
		   "[other]\nlow=1\nnosuch=1\n"
		   "[rg]\r\n  shared =\tsnapshot # why\r\n"
		   "[yara ripgrep]\nhigh=80\n"
		   "[rgx]\nhigh=70\n[r]\nhigh=60\n"
		   "[*]\nanon_max=1M",
		   0644);
	cr_assert_eq(load_one(&c, "a.conf"), 0, "%s", said);
	cr_assert_str_eq(said, "");
	cr_assert_eq(c.mem, 0);
	cr_assert_eq(c.low, 10);
	cr_assert_eq(c.shared, CONF_SHARED_SNAPSHOT);
	cr_assert_eq(c.high, 80);
	cr_assert_eq(c.anon_max, 1 << 20);
}

Test(profile, bad_lines, .init = make_dir, .fini = remove_dir)
{
	struct conf c = fresh();

	write_file("a.conf",
		   "[rg]\nnosuch=1\nmem=many\njust words\n=1\nlow=3\n"
		   "[rg\nlow=4\n[rg] x\nlow=5\n",
		   0600);
	cr_assert_eq(load_one(&c, "a.conf"), 6, "%s", said);
	cr_assert_eq(lines(said), 6, "%s", said);
	cr_assert(strstr(said, "a.conf:3: 'mem' is ignored: "));
	cr_assert(strstr(said, "a.conf:4: 'just words' is ignored: there is"));
	cr_assert(strstr(said, "a.conf:7: the heading is malformed"));
	cr_assert_eq(c.low, 3);
}

Test(profile, trust, .init = make_dir, .fini = remove_dir)
{
	struct conf c = fresh();
	static const char text[] = "[rg]\nlow=3\n";
	char big[9000], path[160];

	cr_assert_eq(load_one(&c, "none.conf"), -ENOENT);
	cr_assert_str_eq(said, "");
	write_file("g.conf", text, 0664);
	cr_assert_eq(load_one(&c, "g.conf"), -EPERM);
	cr_assert_eq(lines(said), 1);
	write_file("o.conf", text, 0646);
	cr_assert_eq(load_one(&c, "o.conf"), -EPERM);
	write_file("ok.conf", text, 0600);
	snprintf(path, sizeof(path), "%s/link.conf", dir);
	cr_assert_eq(symlink("ok.conf", path), 0);
	cr_assert_eq(load_one(&c, "link.conf"), -ELOOP);
	snprintf(path, sizeof(path), "%s/fifo.conf", dir);
	cr_assert_eq(mkfifo(path, 0600), 0);
	cr_assert_eq(load_one(&c, "fifo.conf"), -EINVAL);
	snprintf(path, sizeof(path), "%s/dir.conf", dir);
	cr_assert_eq(mkdir(path, 0700), 0);
	cr_assert_eq(load_one(&c, "dir.conf"), -EINVAL);
	memset(big, '\n', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	write_file("big.conf", big, 0600);
	cr_assert_eq(load_one(&c, "big.conf"), -EFBIG);
	if (geteuid() == 0) {
		snprintf(path, sizeof(path), "%s/ok.conf", dir);
		cr_assert_eq(chown(path, 12345, 0), 0);
		cr_assert_eq(load_one(&c, "ok.conf"), -EPERM);
		cr_assert_eq(chown(path, 0, 0), 0);
	}
	cr_assert_eq(c.low, 10);
	cr_assert_eq(load_one(&c, "ok.conf"), 0);
	cr_assert_eq(c.low, 3);
}

static int load_dirs(struct conf *c)
{
	char shipped[128], home[128];
	char *env[] = { shipped, home, NULL };
	int ret;

	snprintf(shipped, sizeof(shipped), "FAULTLINE_PROFILE_DIR=%s/sys", dir);
	snprintf(home, sizeof(home), "HOME=%s", dir);
	listen_begin();
	ret = conf_load_profiles(c, rg_names, env);
	listen_end();
	return ret;
}

static void sub_dir(const char *name)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	cr_assert_eq(mkdir(path, 0755), 0);
}

Test(profile, order_of_directories, .init = make_dir, .fini = remove_dir)
{
	struct conf c = fresh();
	char path[160];

	sub_dir("sys");
	sub_dir(".config");
	sub_dir(".config/faultline");
	write_file("sys/20.conf", "[rg]\nlow=20\nhigh=70\n", 0644);
	write_file("sys/10.conf", "[rg]\nlow=11\nhigh=71\nmem=1M\n", 0644);
	write_file("sys/30.txt", "[rg]\nlow=30\n", 0644);
	write_file("sys/.40.conf", "[rg]\nlow=40\n", 0644);
	write_file(".config/faultline/a.conf", "[rg]\nhigh=60\n", 0644);
	cr_assert_eq(load_dirs(&c), 0, "%s", said);
	cr_assert_eq(c.mem, 1 << 20);
	cr_assert_eq(c.low, 20);
	cr_assert_eq(c.high, 60);

	c = fresh();
	snprintf(path, sizeof(path), "%s/sys", dir);
	cr_assert_eq(chmod(path, 0777), 0);
	cr_assert_eq(load_dirs(&c), 1);
	cr_assert(strstr(said, "sys are ignored"));
	cr_assert_eq(c.low, 10);
	cr_assert_eq(c.high, 60);
}

Test(conf, whole_order, .init = make_dir, .fini = remove_dir)
{
	char shipped[128], home[128];
	char *env[] = { shipped,
			home,
			"FAULTLINE_LOW=7",
			"FAULTLINE_PROFILE=rg",
			"FAULTLINE_LOG=info",
			NULL };
	struct conf c;

	sub_dir("sys");
	write_file("sys/a.conf", "[rg]\nlow=20\nhigh=70\nlog=quiet\n", 0644);
	snprintf(shipped, sizeof(shipped), "FAULTLINE_PROFILE_DIR=%s/sys", dir);
	snprintf(home, sizeof(home), "HOME=%s", dir);
	conf_load(&c, env);
	cr_assert_eq(c.low, 7);
	cr_assert_eq(c.high, 70);
	cr_assert_eq(ld_rlx(&log_level_now), FL_LOG_INFO);
	env[3] = "FAULTLINE_PROFILE=none";
	conf_load(&c, env);
	cr_assert_eq(c.high, 90);
	/* Without a name from outside, the program's own: test_conf. */
	write_file("sys/b.conf", "[test_conf]\nhigh=66\n", 0644);
	env[3] = "A=b";
	conf_load(&c, env);
	cr_assert_eq(c.high, 66);
}

Test(conf, budget)
{
	struct conf c = fresh();
	uint64_t ram = (uint64_t)sysconf(_SC_PHYS_PAGES) *
		       (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t budget = conf_budget(&c);

	cr_assert_gt(budget, 0);
	cr_assert_leq(budget, ram / 4);
	cr_assert(page_aligned(budget));
	cr_assert_eq(conf_set(&c, "mem", "3M"), 0);
	cr_assert_eq(conf_budget(&c), 3 << 20);
}

Test(file, numbers_and_environment)
{
	char *env[] = { "AB=1", "A=2", "C", NULL };
	const char *end;

	cr_assert_eq(text_u64("0012x", &end), 12);
	cr_assert_str_eq(end, "x");
	cr_assert_eq(text_u64("18446744073709551615", &end), UINT64_MAX);
	cr_assert_eq(text_u64("18446744073709551616", &end), UINT64_MAX);
	cr_assert_str_eq(env_find(env, "A"), "2");
	cr_assert_str_eq(env_find(env, "AB"), "1");
	cr_assert_null(env_find(env, "C"));
	cr_assert_null(env_find(env, "B"));
	cr_assert_null(env_find(NULL, "B"));
}
