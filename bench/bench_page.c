// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * bench_page - pages of a large file by every method: mmap with its hints,
 * pread, io_uring, two minimal userfaultfd programs, and the library.
 *
 *   random   words of random pages, at several numbers of threads
 *   sweep    the same in a part of the file, from half to four times the memory
 *   cliff    the same for minutes, in windows of ten seconds
 *   seq      every cache line of the file, each thread its own range
 *   latency  the first touch of single pages that are in the page cache
 *
 * Every run is a process of its own, begins with the file out of the page cache
 * (latency: in it) and checks each word it reads against what that page must
 * hold. The methods run one after the other in each repetition, the order
 * turned by one each time. How much memory there is, is the business of the
 * control group this runs in (scripts/bench-page.sh makes one).
 *
 * Exit status: 0; 77 if --check had nothing to check; 1 if a word was wrong, a
 * run hung or, with --check, the library read more than 1.1 bytes for each byte
 * touched at random.
 */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "page.h"

#define MAX_LIST 32
#define SEQ_GRANULE ((size_t)2 << 20)
#define SEQ_BUFFERS ((size_t)16 << 20) /* of windows that are being read */
#define LATENCY_SPAN ((size_t)128 << 20)

static const char usage[] =
	"usage: bench-page [OPTION...]\n"
	"  --work=W,...      random,sweep,cliff,seq,latency, or none: make the\n"
	"                    file and end; random,latency,seq\n"
	"  --dir=DIR         where the file is made; ${TMPDIR:-/tmp}/faultline-bench\n"
	"  --size=BYTES      of the file (1G)\n"
	"  --budget=BYTES    memory of the methods that manage their own; the limit\n"
	"                    of the control group less --slack, or size/4\n"
	"  --slack=BYTES     for page tables, rings and the like (16M)\n"
	"  --threads=N,...   for random 1,2,4,8,16; for seq 1,4; else the first\n"
	"  --methods=M,...   all that fit. --methods=help describes them\n"
	"  --granules=N,...  for latency (4K,64K)\n"
	"  --runs=N          repetitions (5)\n"
	"  --secs=N          one random run (2)\n"
	"  --warm=N          before it counts (1)\n"
	"  --cliff=N         seconds of a cliff run (180)\n"
	"  --options=STR     options of the pager, \"name=value,...\"\n"
	"  --json=FILE       append JSON lines to FILE\n"
	"  --check           fail if the library reads too much\n"
	"  --quick           a little of everything: does it work?\n";

static struct {
	unsigned int threads[MAX_LIST], n_threads;
	size_t granule[MAX_LIST];
	unsigned int n_granules;
	const struct page_method *method[MAX_LIST];
	unsigned int n_methods;
	const char *work, *options;
	char dir[400];
	size_t size, budget, slack, limit;
	unsigned int runs;
	double secs, warm, cliff;
	bool check, checked, quick, progress, failed;
	FILE *json;
	struct page_file file;
} o;

static void progress(const char *what, unsigned int i, unsigned int n)
{
	if (o.progress)
		fprintf(stderr, "\r\033[K%s %u/%u", what, i, n);
	if (o.progress && i == n)
		fputs("\r\033[K", stderr);
}

/* ------------------------------------------------------------------------
 * Measuring
 */
static void one_run(struct page_line *l, struct page_job *job)
{
	struct page_result *r = &l->r[l->n];

	if (l->why[0])
		return;
	job->method = l->method;
	job->granule = l->granule;
	job->pin = l->pin;
	if (job->work != WORK_LATENCY)
		page_file_cool(&o.file);
	else
		page_file_warm(&o.file, job->span);
	page_run(job, r);
	if (r->err)
		snprintf(l->why, sizeof(l->why), "%s: %s", r->what,
			 strerror(-r->err));
	else
		l->n++;
}

/* What the library may read at random: more than this is over-reading. */
#define MOST_READ 1.1

/* Not everyone may open a userfaultfd, and few kernels have the hybrid mode. */
static bool refused(const struct page_line *l)
{
	int err = l->r[0].err;

	return !l->n && (err == -ENOTSUP || err == -EPERM || err == -ENOSYS);
}

static void check(const struct page_table *t)
{
	unsigned int i;

	for (i = 0; i < t->n_lines; i++) {
		const struct page_line *l = &t->line[i];

		if (!(l->method->flags & PAGE_OURS) || refused(l))
			continue;
		if (!l->n) {
			fprintf(stderr, "bench: %s: %s\n", l->method->name,
				l->why);
			o.failed = true;
			continue;
		}
		o.checked = true;
		if (page_read_ratio(l) <= MOST_READ &&
		    page_fill_ratio(l) <= MOST_READ)
			continue;
		fprintf(stderr,
			"bench: %s, %u MiB, %s: read %.2f pages a touch, "
			"%.2f a fault\n",
			t->title, (unsigned int)(t->span >> 20),
			l->method->name, page_read_ratio(l),
			page_fill_ratio(l));
		o.failed = true;
	}
}

static void measure(struct page_table *t, struct page_job *job,
		    unsigned int runs)
{
	unsigned int rep, i;

	for (rep = 0; rep < runs; rep++)
		for (i = 0; i < t->n_lines; i++) {
			progress(t->title, rep * t->n_lines + i + 1,
				 runs * t->n_lines);
			one_run(&t->line[(i + rep) % t->n_lines], job);
		}
	page_file_cool(&o.file);
	page_report_text(stdout, t);
	if (o.json)
		page_report_json(o.json, t);
	if (o.check && job->work == WORK_RANDOM)
		check(t);
	free(t->line);
}

static void add_line(struct page_table *t, const struct page_method *m,
		     size_t granule, bool pin)
{
	struct page_line *l;

	t->line = realloc(t->line, (t->n_lines + 1) * sizeof(*l));
	if (!t->line)
		b_die("out of memory");
	l = &t->line[t->n_lines++];
	memset(l, 0, sizeof(*l));
	l->method = m;
	l->granule = granule;
	l->pin = pin;
}

static struct page_table new_table(const char *work, const char *title,
				   unsigned int threads)
{
	struct page_table t = { .title = title, .work = work };

	t.file = &o.file;
	t.threads = threads;
	t.span = o.file.bytes;
	t.budget = o.budget;
	t.limit = o.limit;
	return t;
}

static struct page_job new_job(enum page_work work, unsigned int threads)
{
	struct page_job j = { .file = &o.file, .work = work };

	j.threads = threads;
	j.span = o.file.bytes;
	j.budget = o.budget;
	j.options = o.options;
	j.warm = o.warm;
	j.secs = o.secs;
	j.windows = 1;
	return j;
}

static bool serves_alone(const struct page_method *m)
{
	return m == &page_handler || m == &page_fl_service;
}

/* ------------------------------------------------------------------------
 * The workloads
 */
static bool only_once(const struct page_method *m)
{
	return m == &page_mmap_seq || m == &page_uring_qd ||
	       (o.quick && !(m->flags & PAGE_OURS) && m != &page_mmap_random);
}

/* @all: those, too, that say little but at one size. */
static void random_lines(struct page_table *t, bool all)
{
	unsigned int i;

	for (i = 0; i < o.n_methods; i++)
		if (o.method[i]->random && (all || !only_once(o.method[i])))
			add_line(t, o.method[i], B_PAGE, false);
}

static void do_random(void)
{
	unsigned int i;

	for (i = 0; i < o.n_threads; i++) {
		struct page_table t =
			new_table("random", "random 4K reads", o.threads[i]);
		struct page_job j = new_job(WORK_RANDOM, o.threads[i]);

		random_lines(&t, true);
		measure(&t, &j, o.runs);
	}
}

static void do_sweep(void)
{
	static const double factor[] = { 0.5, 0.75, 1, 1.25, 1.5, 2, 3, 4 };
	unsigned int i, n = sizeof(factor) / sizeof(factor[0]);

	for (i = 0; i < n; i += o.quick ? 2 : 1) {
		struct page_table t =
			new_table("sweep", "working set", o.threads[0]);
		struct page_job j = new_job(WORK_RANDOM, o.threads[0]);

		t.factor = factor[i];
		t.span = (size_t)((double)o.budget * factor[i]) & ~0xffffful;
		if (t.span > o.file.bytes)
			t.span = o.file.bytes;
		j.span = t.span;
		random_lines(&t, false);
		measure(&t, &j, o.runs);
	}
}

static void do_cliff(void)
{
	struct page_table t =
		new_table("cliff", "random over time", o.threads[0]);
	struct page_job j = new_job(WORK_RANDOM, o.threads[0]);

	j.secs = o.cliff;
	j.windows = (unsigned int)(o.cliff / 10);
	if (j.windows < 1)
		j.windows = 1;
	if (j.windows > PAGE_MAX_WINDOWS)
		j.windows = PAGE_MAX_WINDOWS;
	random_lines(&t, false);
	measure(&t, &j, 1);
}

static void do_seq(void)
{
	static const unsigned int usual[] = { 1, 4 };
	const unsigned int *threads = o.n_threads > 2 ? usual : o.threads;
	unsigned int n = o.n_threads > 2 ? 2 : o.n_threads, i, k;

	for (i = 0; i < n; i++) {
		struct page_table t =
			new_table("seq", "whole file, cold", threads[i]);
		struct page_job j = new_job(WORK_SEQ, threads[i]);

		if (o.limit && j.budget > 2 * SEQ_BUFFERS)
			t.budget = j.budget -= SEQ_BUFFERS;

		for (k = 0; k < o.n_methods; k++)
			if (o.method[k]->seq && o.method[k] != &page_handler &&
			    o.method[k] != &page_sigbus)
				add_line(&t, o.method[k], SEQ_GRANULE, false);
		measure(&t, &j, o.runs);
	}
}

static void do_latency(void)
{
	struct page_table t =
		new_table("latency", "first touch, in the page cache", 1);
	struct page_job j = new_job(WORK_LATENCY, 1);
	unsigned int i, k;

	if (t.span > LATENCY_SPAN)
		t.span = LATENCY_SPAN;
	j.span = t.span;
	j.budget = t.budget = LATENCY_SPAN * 2;
	for (i = 0; i < o.n_methods; i++) {
		const struct page_method *m = o.method[i];

		if (m == &page_mmap_random)
			add_line(&t, m, 0, false);
		if (!(m->flags & PAGE_MAPPED) || !(m->flags & PAGE_GRANULE) ||
		    m == &page_fl_hint)
			continue;
		for (k = 0; k < o.n_granules; k++) {
			add_line(&t, m, o.granule[k], false);
			if (serves_alone(m))
				add_line(&t, m, o.granule[k], true);
		}
	}
	page_file_cool(&o.file);
	if (t.n_lines)
		measure(&t, &j, o.runs);
}

static void do_none(void)
{
}

static const struct {
	const char *name;
	void (*go)(void);
} works[] = {
	{ "none", do_none },   { "random", do_random },   { "sweep", do_sweep },
	{ "cliff", do_cliff }, { "latency", do_latency }, { "seq", do_seq },
};

#define N_WORKS (sizeof(works) / sizeof(works[0]))

static void do_works(const char *list)
{
	char *s = strdup(list), *tok, *save;
	unsigned int i;

	if (!s)
		b_die("out of memory");
	for (tok = strtok_r(s, ",", &save); tok;
	     tok = strtok_r(NULL, ",", &save)) {
		for (i = 0; i < N_WORKS && strcmp(works[i].name, tok); i++)
			;
		if (i == N_WORKS)
			b_die("--work=%s: see --help", tok);
		works[i].go();
	}
	free(s);
}

/* ------------------------------------------------------------------------
 * Options
 */
static void parse_threads(char *s)
{
	char *tok, *end, *save;
	long n;

	o.n_threads = 0;
	for (tok = strtok_r(s, ",", &save); tok && o.n_threads < MAX_LIST;
	     tok = strtok_r(NULL, ",", &save)) {
		n = strtol(tok, &end, 10);
		if (*end || n < 1 || n > PAGE_MAX_THREADS)
			b_die("--threads=%s: 1 to %d", tok, PAGE_MAX_THREADS);
		o.threads[o.n_threads++] = (unsigned int)n;
	}
}

static size_t parse_bytes(const char *name, const char *s)
{
	size_t n = b_parse_size(s);

	if (!n)
		b_die("--%s=%s: not a size", name, s);
	return n;
}

static void parse_granules(char *s)
{
	char *tok, *save;

	o.n_granules = 0;
	for (tok = strtok_r(s, ",", &save); tok && o.n_granules < MAX_LIST;
	     tok = strtok_r(NULL, ",", &save)) {
		size_t n = parse_bytes("granules", tok);

		if (n % B_PAGE || n > PAGE_BUF || n & (n - 1))
			b_die("--granules=%s: a power of two, 4K to 1M", tok);
		o.granule[o.n_granules++] = n;
	}
}

static void parse_methods(char *s)
{
	const struct page_method *m;
	unsigned int i;
	char *tok, *save;

	if (!strcmp(s, "help")) {
		for (i = 0; (m = page_method_at(i)); i++)
			printf("%-12s %s\n", m->name, m->what);
		exit(0);
	}
	o.n_methods = 0;
	for (tok = strtok_r(s, ",", &save); tok && o.n_methods < MAX_LIST;
	     tok = strtok_r(NULL, ",", &save)) {
		m = page_method_find(tok);
		if (!m)
			b_die("--methods=%s: see --methods=help", tok);
		o.method[o.n_methods++] = m;
	}
}

static double parse_secs(const char *name, const char *s)
{
	char *end;
	double v = strtod(s, &end);

	if (*end || v < 0.01 || v > 3600)
		b_die("--%s=%s: 0.01 to 3600 seconds", name, s);
	return v;
}

static void quick(void)
{
	static char threads[] = "1,4";

	o.work = "random,sweep,seq,latency";
	o.size = 32u << 20;
	o.runs = 2;
	o.secs = 0.15;
	o.warm = 0.05;
	o.check = o.quick = true;
	parse_threads(threads);
}

static void open_json(const char *path)
{
	o.json = fopen(path, "ae");
	if (!o.json)
		b_die("%s: %s", path, strerror(errno));
}

enum {
	O_WORK = 1,
	O_DIR,
	O_SIZE,
	O_BUDGET,
	O_SLACK,
	O_THREADS,
	O_METHODS,
	O_GRANULES,
	O_RUNS,
	O_SECS,
	O_WARM,
	O_CLIFF,
	O_OPTIONS,
	O_JSON,
	O_CHECK,
	O_QUICK,
	O_HELP
};

static const struct option longopts[] = {
	{ "work", 1, NULL, O_WORK },       { "dir", 1, NULL, O_DIR },
	{ "size", 1, NULL, O_SIZE },       { "budget", 1, NULL, O_BUDGET },
	{ "slack", 1, NULL, O_SLACK },     { "threads", 1, NULL, O_THREADS },
	{ "methods", 1, NULL, O_METHODS }, { "granules", 1, NULL, O_GRANULES },
	{ "runs", 1, NULL, O_RUNS },       { "secs", 1, NULL, O_SECS },
	{ "warm", 1, NULL, O_WARM },       { "cliff", 1, NULL, O_CLIFF },
	{ "options", 1, NULL, O_OPTIONS }, { "json", 1, NULL, O_JSON },
	{ "check", 0, NULL, O_CHECK },     { "quick", 0, NULL, O_QUICK },
	{ "help", 0, NULL, O_HELP },       { NULL, 0, NULL, 0 },
};

static void parse_runs(const char *arg)
{
	int n = atoi(arg);

	if (n < 1 || n > PAGE_MAX_REPS)
		b_die("--runs=%s: 1 to %d", arg, PAGE_MAX_REPS);
	o.runs = (unsigned int)n;
}

static void one_option(int opt, char *arg)
{
	switch (opt) {
	case O_WORK:
		o.work = arg;
		break;
	case O_DIR:
		snprintf(o.dir, sizeof(o.dir), "%s", arg);
		break;
	case O_SIZE:
		o.size = parse_bytes("size", arg) & ~0xfffffful;
		break;
	case O_BUDGET:
		o.budget = parse_bytes("budget", arg);
		break;
	case O_SLACK:
		o.slack = parse_bytes("slack", arg);
		break;
	case O_THREADS:
		parse_threads(arg);
		break;
	case O_METHODS:
		parse_methods(arg);
		break;
	case O_GRANULES:
		parse_granules(arg);
		break;
	case O_RUNS:
		parse_runs(arg);
		break;
	case O_SECS:
		o.secs = parse_secs("secs", arg);
		break;
	case O_WARM:
		o.warm = parse_secs("warm", arg);
		break;
	case O_CLIFF:
		o.cliff = parse_secs("cliff", arg);
		break;
	case O_OPTIONS:
		o.options = arg;
		break;
	case O_JSON:
		open_json(arg);
		break;
	case O_CHECK:
		o.check = true;
		break;
	case O_QUICK:
		break; /* came first */
	case O_HELP:
		fputs(usage, stdout);
		exit(0);
	default:
		fputs(usage, stderr);
		exit(1);
	}
}

static void defaults(void)
{
	const char *tmp = getenv("TMPDIR");
	static char threads[] = "1,2,4,8,16", granules[] = "4K,64K";

	snprintf(o.dir, sizeof(o.dir), "%s/faultline-bench",
		 tmp && *tmp ? tmp : "/tmp");
	parse_threads(threads);
	parse_granules(granules);
	while ((o.method[o.n_methods] = page_method_at(o.n_methods)))
		o.n_methods++;
	o.work = "random,latency,seq";
	o.size = (size_t)1 << 30;
	o.slack = 16u << 20;
	o.runs = 5;
	o.secs = 2;
	o.warm = 1;
	o.cliff = 180;
	o.progress = isatty(2);
}

static void set_budget(void)
{
	o.limit = page_memory_limit();
	if (o.budget)
		return;
	if (!o.limit) {
		o.budget = o.size / 4;
		return;
	}
	if (o.limit <= o.slack)
		b_die("a memory limit of %zu leaves nothing after --slack",
		      o.limit);
	o.budget = o.limit - o.slack;
}

int main(int argc, char **argv)
{
	int opt;

	defaults();
	for (opt = 1; opt < argc; opt++)
		if (!strcmp(argv[opt], "--quick"))
			quick();
	while ((opt = getopt_long(argc, argv, "", longopts, NULL)) != -1)
		one_option(opt, optarg);
	if (optind < argc)
		b_die("%s: no arguments, please", argv[optind]);
	if (mkdir(o.dir, 0777) && errno != EEXIST)
		b_die("%s: %s", o.dir, strerror(errno));
	set_budget();
	b_machine_text(stdout, o.dir);
	if (o.json)
		b_machine_json(o.json, "page", o.dir);
	page_file_make(&o.file, o.dir, o.size);
	do_works(o.work);
	if (o.json && fclose(o.json))
		b_die("--json: %s", strerror(errno));
	if (o.check && !o.checked && !o.failed) {
		puts("SKIP: no method of the library could be checked");
		return 77;
	}
	return o.failed;
}
