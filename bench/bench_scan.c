// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * bench_scan - open, map or read, scan, give back, close: every file of a tree
 * or list, or files made to size, in each mode of lib_scanmode.c in turn.
 *
 * For each set, touch pattern and number of threads:
 *  - a first pass in each mode compares the bytes with what pread gives;
 *  - then, with a new pager, which has learnt nothing yet, a pass tells how
 *    many passes make a run of --ms milliseconds, and one run is not counted;
 *  - the runs: all modes one after the other in each repetition, the order
 *    turned by one each time, so that slow changes of the machine meet all;
 *  - one more pass in each mode counts, with the tracepoints on.
 *
 * Exit status: 0, or 1 if a byte was wrong or something could not be done.
 */
#include <errno.h>
#include <getopt.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scan.h"

#define MAX_LIST 32

static const char usage[] =
	"usage: bench-scan [OPTION...] [TREE|FILE...]\n"
	"  --list=FILE      scan the files named in FILE, one a line\n"
	"  --size=N,...     scan files of N bytes made for it (1K,4K,1M ...)\n"
	"  --all-sizes      --size=1K,4K,16K,64K,128K,256K,512K,1M,4M,8M,25M\n"
	"                   (this is the default without TREE, --list or --size)\n"
	"  --dir=DIR        where to make them; ${TMPDIR:-/tmp}/faultline-bench\n"
	"  --total=BYTES    make about this much of each size (64M)\n"
	"  --most=N         make at most N files of each size (1000)\n"
	"  --threads=N,...  numbers of threads; 1 and the number of CPUs\n"
	"  --touch=all,one  every byte, or the first page only; both\n"
	"  --modes=M,...    modes to run; all. --modes=help describes them\n"
	"  --runs=N         repetitions (7)\n"
	"  --ms=N           least time of one run in milliseconds (100)\n"
	"  --options=STR    options of the pager, \"name=value,...\"\n"
	"  --json=FILE      write JSON lines to FILE\n"
	"  --held           open every file once, beforehand: times mapping, reading\n"
	"                   and giving back alone\n"
	"  --no-counts      leave out the counting pass\n"
	"  --quick          3 runs of 10 ms, little data: does it work?\n";

static struct {
	unsigned int threads[MAX_LIST], n_threads;
	size_t size[MAX_LIST];
	unsigned int n_sizes;
	enum scan_touch touch[2];
	unsigned int n_touch;
	const struct scan_mode *mode[MAX_LIST];
	unsigned int n_modes;
	unsigned int runs, ms;
	bool counts, quick, held;
	const char *list, *options;
	char dir[400];
	size_t total, most;
	FILE *json;
	struct fl_pager *pager;
	bool progress;
	uint64_t wrong;
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
static void run(struct scan_crew *crew, struct scan_job *job,
		const struct scan_mode *m, unsigned int passes,
		struct scan_result *r)
{
	job->mode = m;
	job->passes = passes;
	crew_run(crew, job, r);
	o.wrong += r->wrong;
}

/* The reference is pread, whether or not it is among the modes asked for. */
static void verify(struct scan_crew *crew, struct scan_set *set)
{
	struct scan_job job = { .set = set, .touch = TOUCH_VERIFY };
	struct scan_result r;
	unsigned int i;

	job.reference = true;
	run(crew, &job, &scan_modes[scan_mode_find("pread")], 1, &r);
	job.reference = false;
	for (i = 0; i < o.n_modes; i++) {
		progress("comparing bytes: mode", i + 1, o.n_modes);
		run(crew, &job, o.mode[i], 1, &r);
	}
}

static void calibrate(struct scan_crew *crew, struct scan_job *job,
		      struct scan_line *l)
{
	struct scan_result r;
	double want = o.ms * 1.2e-3, passes;

	run(crew, job, l->mode, 1, &r);
	if (r.wall < want / 4) /* too short to go by */
		run(crew, job, l->mode, 1, &r);
	passes = r.wall > 0 ? want / r.wall : 1;
	l->passes = passes < 1   ? 1 :
		    passes > 1e5 ? 100000 :
				   (unsigned int)passes + 1;
}

static uint64_t pager_count(const char *name)
{
	uint64_t v = 0;

	if (o.pager)
		fl_stat_read(o.pager, name, &v);
	return v;
}

static uint64_t served_now(void)
{
	return pager_count("maps_file") + pager_count("maps_anon");
}

/* All modes once; @rep < 0: to warm up, kept nowhere. */
static void round_of(struct scan_crew *crew, struct scan_job *job,
		     struct scan_table *t, int rep)
{
	unsigned int i, turn = rep < 0 ? 0 : (unsigned int)rep;

	for (i = 0; i < t->n_lines; i++) {
		struct scan_line *l = &t->line[(i + turn) % t->n_lines];
		double files = (double)job->set->n * l->passes;
		struct scan_result r;

		progress("run", (unsigned int)(rep + 1) * t->n_lines + i + 1,
			 (o.runs + 1) * t->n_lines);
		l->served -= served_now();
		l->handed -= pager_count("maps_kernel");
		run(crew, job, l->mode, l->passes, &r);
		l->served += served_now();
		l->handed += pager_count("maps_kernel");
		if (rep < 0)
			continue;
		l->wall[rep] = r.wall * 1e6 / files;
		l->cpu[rep] = r.cpu * 1e6 / files;
	}
}

static void count(struct scan_crew *crew, struct scan_job *job,
		  struct scan_line *l)
{
	struct scan_result r;
	long long tlb;
	int e;

	/* once to be warm again after the mode before, then the pass that
	 * counts */
	run(crew, job, l->mode, 1, &r);
	job->count = true;
	tlb = b_tlb_row();
	run(crew, job, l->mode, 1, &r);
	job->count = false;
	l->counted = true;
	l->faults = (double)r.faults / (double)job->set->n;
	for (e = 0; e < B_EVENTS; e++)
		l->n[e] = (double)r.n[e] / (double)job->set->n;
	l->tlb_row = tlb < 0 ?
			     -1 :
			     (double)(b_tlb_row() - tlb) / (double)job->set->n;
}

static void do_table(struct scan_crew *crew, struct scan_set *set,
		     enum scan_touch touch, unsigned int threads)
{
	struct scan_job job = { .set = set, .touch = touch };
	struct scan_line *line = calloc(o.n_modes, sizeof(*line));
	struct scan_table t = { set, touch, threads, o.runs, o.n_modes, line };
	unsigned int i;
	int rep;

	if (!line)
		b_die("out of memory");
	for (i = 0; i < o.n_modes; i++) {
		line[i].mode = o.mode[i];
		calibrate(crew, &job, &line[i]);
	}
	for (rep = -1; rep < (int)o.runs; rep++)
		round_of(crew, &job, &t, rep);
	if (o.counts)
		b_events_hold();
	for (i = 0; o.counts && i < o.n_modes; i++)
		count(crew, &job, &line[i]);
	if (o.counts)
		b_events_release();
	report_text(stdout, &t);
	if (o.json)
		report_json(o.json, &t);
	report_worst_note(&t);
	free(line);
}

static void open_pager(void)
{
	unsigned int i;
	int err;

	for (i = 0; i < o.n_modes; i++)
		if (o.mode[i]->ours)
			break;
	if (i == o.n_modes)
		return;
	err = fl_pager_open(&o.pager, o.options);
	if (err < 0)
		b_die("fl_pager_open: %s (--modes leaves modes out)",
		      strerror(-err));
}

static void close_pager(void)
{
	int err = o.pager ? fl_pager_close(o.pager) : 0;

	if (err < 0)
		b_die("fl_pager_close: %s", strerror(-err));
	o.pager = NULL;
}

static void do_set(struct scan_set *set)
{
	unsigned int i, k;

	if (!set->n)
		b_die("%s: no readable file", set->name);
	if (o.held)
		set_hold(set);
	for (i = 0; i < o.n_threads; i++) {
		struct scan_crew *crew;

		open_pager();
		crew = crew_start(o.threads[i], o.pager);
		verify(crew, set);
		crew_end(crew);
		close_pager();
		for (k = 0; k < o.n_touch && !o.wrong; k++) {
			open_pager();
			crew = crew_start(o.threads[i], o.pager);
			do_table(crew, set, o.touch[k], o.threads[i]);
			crew_end(crew);
			close_pager();
		}
		malloc_trim(0);
	}
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
		if (*end || n < 1 || n > SCAN_MAX_THREADS)
			b_die("--threads=%s: 1 to %d", tok, SCAN_MAX_THREADS);
		o.threads[o.n_threads++] = (unsigned int)n;
	}
}

static void parse_sizes(const char *list)
{
	char *s = strdup(list), *tok, *save;
	size_t n;

	if (!s)
		b_die("out of memory");
	for (tok = strtok_r(s, ",", &save); tok && o.n_sizes < MAX_LIST;
	     tok = strtok_r(NULL, ",", &save)) {
		n = b_parse_size(tok);
		if (!n || n > ((size_t)1 << 30))
			b_die("--size=%s: 1 to 1G bytes", tok);
		o.size[o.n_sizes++] = n;
	}
	free(s);
}

static void parse_touch(char *s)
{
	char *tok, *save;

	o.n_touch = 0;
	for (tok = strtok_r(s, ",", &save); tok && o.n_touch < 2;
	     tok = strtok_r(NULL, ",", &save)) {
		if (strcmp(tok, "all") && strcmp(tok, "one"))
			b_die("--touch=%s: all or one", tok);
		o.touch[o.n_touch++] = tok[0] == 'o' ? TOUCH_ONE : TOUCH_ALL;
	}
}

static void parse_modes(char *s)
{
	char *tok, *save;
	unsigned int i;
	int m;

	if (!strcmp(s, "help")) {
		for (i = 0; i < scan_n_modes; i++)
			printf("%-10s %s\n", scan_modes[i].name,
			       scan_modes[i].what);
		exit(0);
	}
	o.n_modes = 0;
	for (tok = strtok_r(s, ",", &save); tok && o.n_modes < MAX_LIST;
	     tok = strtok_r(NULL, ",", &save)) {
		m = scan_mode_find(tok);
		if (m < 0)
			b_die("--modes=%s: see --modes=help", tok);
		o.mode[o.n_modes++] = &scan_modes[m];
	}
}

static unsigned int parse_uint(const char *name, const char *s,
			       unsigned int max)
{
	char *end;
	unsigned long n = strtoul(s, &end, 10);

	if (*end || !n || n > max)
		b_die("--%s=%s: 1 to %u", name, s, max);
	return (unsigned int)n;
}

static size_t parse_bytes(const char *name, const char *s)
{
	size_t n = b_parse_size(s);

	if (!n)
		b_die("--%s=%s: not a size", name, s);
	return n;
}

enum {
	O_LIST = 1,
	O_SIZE,
	O_ALL,
	O_DIR,
	O_TOTAL,
	O_MOST,
	O_THREADS,
	O_TOUCH,
	O_MODES,
	O_RUNS,
	O_MS,
	O_OPTIONS,
	O_JSON,
	O_HELD,
	O_NOCOUNTS,
	O_QUICK,
	O_HELP
};

static const struct option longopts[] = {
	{ "list", 1, NULL, O_LIST },
	{ "size", 1, NULL, O_SIZE },
	{ "all-sizes", 0, NULL, O_ALL },
	{ "dir", 1, NULL, O_DIR },
	{ "total", 1, NULL, O_TOTAL },
	{ "most", 1, NULL, O_MOST },
	{ "threads", 1, NULL, O_THREADS },
	{ "touch", 1, NULL, O_TOUCH },
	{ "modes", 1, NULL, O_MODES },
	{ "runs", 1, NULL, O_RUNS },
	{ "ms", 1, NULL, O_MS },
	{ "options", 1, NULL, O_OPTIONS },
	{ "json", 1, NULL, O_JSON },
	{ "held", 0, NULL, O_HELD },
	{ "no-counts", 0, NULL, O_NOCOUNTS },
	{ "quick", 0, NULL, O_QUICK },
	{ "help", 0, NULL, O_HELP },
	{ NULL, 0, NULL, 0 },
};

static const char every_size[] = "1K,4K,16K,64K,128K,256K,512K,1M,4M,8M,25M";

static void quick(void)
{
	o.runs = 3;
	o.ms = 10;
	o.total = 2 << 20;
	o.most = 64;
	o.quick = true;
}

static void open_json(const char *path)
{
	o.json = fopen(path, "we");
	if (!o.json)
		b_die("%s: %s", path, strerror(errno));
}

static void one_option(int opt, char *arg)
{
	switch (opt) {
	case O_LIST:
		o.list = arg;
		break;
	case O_SIZE:
		parse_sizes(arg);
		break;
	case O_ALL:
		parse_sizes(every_size);
		break;
	case O_DIR:
		snprintf(o.dir, sizeof(o.dir), "%s", arg);
		break;
	case O_TOTAL:
		o.total = parse_bytes("total", arg);
		break;
	case O_MOST:
		o.most = parse_bytes("most", arg);
		break;
	case O_THREADS:
		parse_threads(arg);
		break;
	case O_TOUCH:
		parse_touch(arg);
		break;
	case O_MODES:
		parse_modes(arg);
		break;
	case O_RUNS:
		o.runs = parse_uint("runs", arg, SCAN_MAX_REPS);
		break;
	case O_MS:
		o.ms = parse_uint("ms", arg, 60000);
		break;
	case O_OPTIONS:
		o.options = arg;
		break;
	case O_JSON:
		open_json(arg);
		break;
	case O_HELD:
		o.held = true;
		break;
	case O_NOCOUNTS:
		o.counts = false;
		break;
	case O_QUICK:
		quick();
		break;
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
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned int i;

	snprintf(o.dir, sizeof(o.dir), "%s/faultline-bench",
		 tmp && *tmp ? tmp : "/tmp");
	o.threads[0] = 1;
	o.threads[1] = cpus > SCAN_MAX_THREADS ? SCAN_MAX_THREADS :
						 (unsigned int)cpus;
	o.n_threads = cpus > 1 ? 2 : 1;
	o.touch[0] = TOUCH_ALL;
	o.touch[1] = TOUCH_ONE;
	o.n_touch = 2;
	for (i = 0; i < scan_n_modes; i++)
		o.mode[o.n_modes++] = &scan_modes[i];
	o.runs = 7;
	o.ms = 100;
	o.counts = true;
	o.total = 64u << 20;
	o.most = 1000;
	o.progress = isatty(2);
}

static void head(void)
{
	int e;
	static const char *const name[B_EVENTS] = { "mm calls", "lock writes",
						    "TLB flushes", "TLB IPIs" };

	b_machine_text(stdout, o.dir);
	if (o.json)
		b_machine_json(o.json, "scan", o.dir);
	if (!o.counts)
		return;
	b_events_probe();
	for (e = 0; e < B_EVENTS; e++)
		if (b_event_why((enum b_event)e))
			printf("  %s: not counted (%s)\n", name[e],
			       b_event_why((enum b_event)e));
}

static void given_set(int argc, char **argv)
{
	struct scan_set set = { 0 };
	int i;

	if (o.list)
		set_add_list(&set, o.list);
	for (i = 0; i < argc; i++)
		set_add_path(&set, argv[i]);
	set.name = strdup(o.list ? o.list : argv[0]);
	if (!set.name)
		b_die("out of memory");
	do_set(&set);
	set_free(&set);
}

int main(int argc, char **argv)
{
	struct scan_set set = { 0 };
	unsigned int i;
	int opt;

	defaults();
	while ((opt = getopt_long(argc, argv, "", longopts, NULL)) != -1)
		one_option(opt, optarg);
	argc -= optind;
	argv += optind;
	if (!argc && !o.list && !o.n_sizes)
		parse_sizes(o.quick ? "1K,64K,300K" : every_size);
	if (mkdir(o.dir, 0777) && errno != EEXIST)
		b_die("%s: %s", o.dir, strerror(errno));
	head();
	if (argc || o.list)
		given_set(argc, argv);
	for (i = 0; i < o.n_sizes && !o.wrong; i++) {
		set_make(&set, o.dir, o.size[i], o.total, o.most);
		do_set(&set);
		set_free(&set);
		set_remove_files();
	}
	report_worst_text(stdout);
	if (o.wrong)
		fprintf(stderr, "bench: %llu files differed\n",
			(unsigned long long)o.wrong);
	if (o.json && fclose(o.json))
		b_die("--json: %s", strerror(errno));
	return o.wrong != 0;
}
