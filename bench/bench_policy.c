/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * bench_policy.c [OPTION...] [TRACE...] - eviction policies on page traces.
 *
 *   --memory N      pages of memory for the made-up traces (16384)
 *   --shares L      memory for a TRACE, in % of the pages it has (10,25,50)
 *   --batch N       pages evicted at once (256), at most memory / 64
 *   --any-batch     lift that limit
 *   --try S,W,M,P   one more policy: share of the small queue, window, window
 *                   for what left the main queue, share in probation
 *   --fault US, --anon US, --shared US, --soft US, --zap US
 *                   price of a fault delivered (5); of filling a private page
 *                   (1.7), of filling and freeing a shared one (6); of a touch
 *                   in probation (6); of unmapping one page of a batch (0.23)
 *   --pack RAW OUT [MAX]   make a TRACE of what traces/record.c wrote
 *
 * Without TRACE the made-up traces are replayed. For each policy: misses in %
 * of all accesses; the same relative to FIFO; how much of the way from FIFO to
 * OPT it goes; touches in probation per 1000 accesses; and us per access where
 * reading a page takes 1 us (page cache), 10 us (compressed memory) and 100 us
 * (SSD). The last table is the mean over all runs, with costs relative to FIFO.
 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "policy.h"

#define Q PL_QUEUES

/* The bounds know what no pager in user space knows. */
static const struct pl_policy policies[] = {
#define ONE .kind = Q, .small = 1
#define TWO(s, w) .kind = Q, .small = (s), .window = (w)
#define PROBE(p) .probe = (p), .shared = true
	{ .name = "fifo", ONE },
	{ .name = "fifo, page by page", ONE, .single = true },
	{ .name = "random", .kind = PL_RANDOM },
	{ .name = "ghost s5 w1", TWO(.05, 1) },
	{ .name = "ghost s10 w.5", TWO(.1, .5) },
	{ .name = "ghost s10 w1", TWO(.1, 1) },
	{ .name = "ghost s10 w2", TWO(.1, 2) },
	{ .name = "ghost s10 w4", TWO(.1, 4) },
	{ .name = "ghost s25 w1", TWO(.25, 1) },
	{ .name = "ghost s25 w2", TWO(.25, 2) },
	{ .name = "ghost s50 w1", TWO(.5, 1) },
	{ .name = "ghost s50 w2", TWO(.5, 2) },
	{ .name = "ghost s10 w1 m.5", TWO(.1, 1), .main_window = .5 },
	{ .name = "ghost s10 w1 m1", TWO(.1, 1), .main_window = 1 },
	{ .name = "ghost s25 w1 m1", TWO(.25, 1), .main_window = 1 },
	{ .name = "ghost adaptive",
	  TWO(.25, 1),
	  .main_window = 1,
	  .adapt = true },
	{ .name = "clock, probe 10%", ONE, PROBE(.1) },
	{ .name = "clock, probe 25%", ONE, PROBE(.25) },
	{ .name = "clock, probe 50%", ONE, PROBE(.5) },
	{ .name = "s3 s10 w1, probe 10%", TWO(.1, 1), PROBE(.1) },
	{ .name = "s3 s10 w1, probe 25%", TWO(.1, 1), PROBE(.25) },
	{ .name = "s3 s25 w1, probe 25%", TWO(.25, 1), PROBE(.25) },
	{ .name = "bound: clock", ONE, .bits = true, .single = true },
	{ .name = "bound: s3-fifo", TWO(.1, 1), .bits = true, .single = true },
	{ .name = "bound: lru", .kind = PL_LRU },
	{ .name = "bound: opt", .kind = PL_OPT },
#undef ONE
#undef TWO
#undef PROBE
};

enum {
	NR = sizeof(policies) / sizeof(policies[0]),
	MAX_TRY = 16,
	MAX_SHARES = 8
};

static struct pl_policy all[NR + MAX_TRY];
static unsigned int nr_all = NR;
static double us_fault = 5, us_anon = 1.7, us_shared = 6, us_soft = 6,
	      us_zap = .23;
static const double io_us[] = { 1, 10, 100 };
static uint32_t memory = 16384, batch = 256;
static bool any_batch;
static double share[MAX_SHARES] = { 10, 25, 50 };
static unsigned int nr_shares = 3;
static double ratio_sum[NR + MAX_TRY], way_sum[NR + MAX_TRY];
static double cost_sum[NR + MAX_TRY][3];
static unsigned int nr_runs;

static double cost(const struct pl_policy *p, const struct pl_result *r,
		   double io)
{
	double fill = us_fault + io + (p->shared ? us_shared : us_anon);

	return (double)r->miss * fill + (double)r->soft * us_soft +
	       (double)r->zap * us_zap;
}

static void head(void)
{
	printf("%-22s %7s %7s %7s %7s %8s %8s %8s\n", "policy", "miss%",
	       "/fifo", "to opt", "soft", "io 1us", "10us", "100us");
}

static void replay(const struct pl_trace *t, uint32_t mem)
{
	uint32_t b = any_batch || batch <= mem / 64 ? batch : mem / 64;
	struct pl_result r[NR + MAX_TRY] = { 0 };
	double n = (double)t->n, fifo, opt;

	b = b ? b : 1;
	if (mem < 2 || b > mem)
		b_die("%s: memory of %u is too small", t->name, mem);
	for (unsigned int i = 0; i < nr_all; i++)
		r[i] = pl_replay(&all[i], t, mem, b);
	fifo = (double)r[0].miss;
	opt = (double)r[NR - 1].miss;
	for (unsigned int i = 0; i < nr_all; i++)
		if (r[i].miss < r[NR - 1].miss || r[i].miss < t->distinct ||
		    r[i].miss > t->n)
			b_die("%s: %llu misses cannot be", all[i].name,
			      (unsigned long long)r[i].miss);
	printf("%s: %zu accesses, %u pages, memory of %u, batches of %u\n",
	       t->name, t->n, t->nr_pages, mem, b);
	head();
	for (unsigned int i = 0; i < nr_all; i++) {
		double m = (double)r[i].miss;
		double way = fifo > opt ? (fifo - m) / (fifo - opt) : 0;

		printf("%-22s %7.2f %7.3f %7.2f %7.2f", all[i].name,
		       100 * m / n, m / fifo, way,
		       1000 * (double)r[i].soft / n);
		ratio_sum[i] += m / fifo;
		way_sum[i] += way;
		for (int k = 0; k < 3; k++) {
			double c = cost(&all[i], &r[i], io_us[k]);

			printf(" %8.3f", c / n);
			cost_sum[i][k] += c / cost(&all[0], &r[0], io_us[k]);
		}
		putchar('\n');
	}
	putchar('\n');
	nr_runs++;
}

static void summary(void)
{
	printf("mean of %u runs\n", nr_runs);
	head();
	for (unsigned int i = 0; i < nr_all; i++) {
		printf("%-22s %7s %7.3f %7.2f %7s", all[i].name, "",
		       ratio_sum[i] / nr_runs, way_sum[i] / nr_runs, "");
		for (int k = 0; k < 3; k++)
			printf(" %8.3f", cost_sum[i][k] / nr_runs);
		putchar('\n');
	}
}

/* Numbers with commas between them. */
static unsigned int numbers(const char *s, double *v, unsigned int max)
{
	unsigned int n = 0;
	char *end;

	for (; n < max; s = end + 1) {
		v[n++] = strtod(s, &end);
		if (end == s || (*end && *end != ','))
			b_die("%s: not a list of numbers", s);
		if (!*end)
			return n;
	}
	b_die("more than %u numbers", max);
}

static void try(const char *s)
{
	struct pl_policy *p = &all[nr_all];
	double v[4] = { 1, 0, 0, 0 };

	if (nr_all == NR + MAX_TRY)
		b_die("more than %d times --try", MAX_TRY);
	numbers(s, v, 4);
	*p = (struct pl_policy){ .name = s, .kind = Q };
	p->small = v[0];
	p->window = v[1];
	p->main_window = v[2];
	p->probe = v[3];
	p->shared = v[3] > 0;
	nr_all++;
}

/* The option at @arg, with its value; false where it is none. */
static bool option(const char *arg, const char *value)
{
	static const struct {
		const char *name;
		double *us;
	} price[] = { { "--fault", &us_fault },
		      { "--anon", &us_anon },
		      { "--shared", &us_shared },
		      { "--soft", &us_soft },
		      { "--zap", &us_zap } };
	double v;

	for (size_t i = 0; i < sizeof(price) / sizeof(price[0]); i++)
		if (!strcmp(arg, price[i].name)) {
			numbers(value, price[i].us, 1);
			return true;
		}
	if (!strcmp(arg, "--shares")) {
		nr_shares = numbers(value, share, MAX_SHARES);
	} else if (!strcmp(arg, "--try")) {
		try(value);
	} else if (!strcmp(arg, "--memory") || !strcmp(arg, "--batch")) {
		numbers(value, &v, 1);
		if (v < 1 || v > 1 << 24)
			b_die("%s: from 1 to 2^24", arg);
		*(arg[2] == 'm' ? &memory : &batch) = (uint32_t)v;
	} else {
		return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	struct pl_trace t;
	int i = 1;

	memcpy(all, policies, sizeof(policies));
	if (argc >= 4 && !strcmp(argv[1], "--pack")) {
		pl_pack(argv[2], argv[3],
			argc > 4 ? strtoul(argv[4], NULL, 10) : UINT32_MAX);
		return 0;
	}
	for (; i < argc && argv[i][0] == '-'; i++) {
		if (!strcmp(argv[i], "--any-batch"))
			any_batch = true;
		else if (i + 1 < argc && option(argv[i], argv[i + 1]))
			i++;
		else
			b_die("unknown option %s, or its value is missing",
			      argv[i]);
	}
	for (unsigned int k = 0; i == argc && pl_make(k, memory, &t); k++) {
		replay(&t, memory);
		pl_free(&t);
	}
	for (; i < argc; i++) {
		pl_load(argv[i], &t);
		for (unsigned int k = 0; k < nr_shares; k++)
			replay(&t, (uint32_t)(t.nr_pages * share[k] / 100));
		pl_free(&t);
	}
	summary();
	return 0;
}
