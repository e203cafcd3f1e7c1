// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * lib_scanreport.c - the table and the JSON lines of bench_scan.
 *
 * Ratios are taken within each repetition, where the modes ran next to each
 * other, and the median of them is shown: a load that comes and goes then
 * weighs on both sides. Above 1 means faster than the mode compared with.
 */
#include <string.h>

#include "scan.h"

static const char *const event_name[B_EVENTS] = {
	[B_MMSYS] = "mm_calls",
	[B_LOCKW] = "lock_writes",
	[B_FLUSH] = "tlb_flushes",
	[B_IPI] = "tlb_ipis",
};

static const char *touch_name(enum scan_touch t)
{
	return t == TOUCH_ONE ? "one" : "all";
}

static const struct scan_line *line_of(const struct scan_table *t,
				       const char *name)
{
	unsigned int i;

	for (i = 0; i < t->n_lines; i++)
		if (!strcmp(t->line[i].mode->name, name))
			return &t->line[i];
	return NULL;
}

/* How many times faster @l is than mode @name; all zero if that did not run. */
static struct b_stat ratio(const struct scan_table *t,
			   const struct scan_line *l, const char *name,
			   bool cpu)
{
	const struct scan_line *base = line_of(t, name);
	double v[SCAN_MAX_REPS];
	unsigned int r;

	if (!base)
		return (struct b_stat){ 0, 0, 0, 0 };
	for (r = 0; r < t->reps; r++)
		v[r] = cpu ? base->cpu[r] / l->cpu[r] :
			     base->wall[r] / l->wall[r];
	return b_stat_of(v, t->reps);
}

static void cell(FILE *f, int width, int digits, double v, bool have)
{
	if (have)
		fprintf(f, " %*.*f", width, digits, v);
	else
		fprintf(f, " %*s", width, "-");
}

/* Of the mappings asked of the pager, those it did not hand to the kernel. */
static double served_percent(const struct scan_line *l)
{
	uint64_t all = l->served + l->handed;

	return all ? 100.0 * (double)l->served / (double)all : 0;
}

static void text_line(FILE *f, const struct scan_table *t,
		      const struct scan_line *l)
{
	struct b_stat w = b_stat_of(l->wall, t->reps);
	struct b_stat c = b_stat_of(l->cpu, t->reps);
	struct b_stat k = ratio(t, l, l->mode->base, false);
	struct b_stat p = ratio(t, l, "pread", false);
	struct b_stat kc = ratio(t, l, l->mode->base, true);
	char range[32];
	int e;

	snprintf(range, sizeof(range), "%.2f..%.2f", w.min, w.max);
	fprintf(f, "  %-10s %9.2f %18s %9.2f", l->mode->name, w.med, range,
		c.med);
	cell(f, 8, 2, k.med, k.med > 0);
	cell(f, 7, 2, kc.med, kc.med > 0);
	cell(f, 7, 2, p.med, p.med > 0);
	cell(f, 7, 0, served_percent(l), l->mode->ours);
	cell(f, 8, 2, l->faults, l->counted);
	for (e = 0; e < B_EVENTS; e++)
		cell(f, 7, 2, l->n[e],
		     l->counted && !b_event_why((enum b_event)e));
	fputc('\n', f);
}

void report_text(FILE *f, const struct scan_table *t)
{
	const struct scan_set *s = t->set;
	unsigned int i;

	fprintf(f, "\n%s: %zu files%s, %.1f MiB, %s, %u thread%s, %u runs\n",
		s->name, s->n, s->held ? " held open" : "",
		(double)s->bytes / 1048576,
		t->touch == TOUCH_ONE ? "first page touched" :
					"every byte touched",
		t->threads, t->threads == 1 ? "" : "s", t->reps);
	fprintf(f, "  %-10s %9s %18s %9s %8s %7s %7s %7s %8s %7s %7s %7s %7s\n",
		"mode", "us/file", "min..max", "CPU us", "x kernel", "x CPU",
		"x pread", "served%", "faults", "mm call", "lock w", "flush",
		"IPI");
	for (i = 0; i < t->n_lines; i++)
		text_line(f, t, &t->line[i]);
	fflush(f);
}

static void json_stat(FILE *f, const char *name, struct b_stat s)
{
	fprintf(f, ",\"%s\":%.4f,\"%s_min\":%.4f,\"%s_max\":%.4f", name, s.med,
		name, s.min, name, s.max);
}

static void json_line(FILE *f, const struct scan_table *t,
		      const struct scan_line *l)
{
	const struct scan_set *s = t->set;
	struct b_stat w = b_stat_of(l->wall, t->reps), k, p;
	int e;

	fputs("{\"bench\":\"scan\",\"set\":", f);
	b_json_str(f, s->name);
	fprintf(f, ",\"size\":%zu,\"files\":%zu,\"bytes\":%llu", s->each, s->n,
		(unsigned long long)s->bytes);
	fprintf(f, ",\"touch\":\"%s\",\"threads\":%u,\"mode\":\"%s\"",
		touch_name(t->touch), t->threads, l->mode->name);
	fprintf(f, ",\"held\":%s", s->held ? "true" : "false");
	fprintf(f, ",\"runs\":%u,\"passes\":%u", t->reps, l->passes);
	if (l->mode->ours)
		fprintf(f, ",\"served\":%.4f", served_percent(l) / 100);
	json_stat(f, "us", w);
	fprintf(f, ",\"us_mad\":%.4f", w.mad);
	json_stat(f, "cpu_us", b_stat_of(l->cpu, t->reps));
	k = ratio(t, l, l->mode->base, false);
	p = ratio(t, l, "pread", false);
	if (k.med > 0) {
		json_stat(f, "x_kernel", k);
		json_stat(f, "x_kernel_cpu", ratio(t, l, l->mode->base, true));
	}
	if (p.med > 0)
		json_stat(f, "x_pread", p);
	if (l->counted) {
		fprintf(f, ",\"faults\":%.4f", l->faults);
		for (e = 0; e < B_EVENTS; e++)
			if (!b_event_why((enum b_event)e))
				fprintf(f, ",\"%s\":%.4f", event_name[e],
					l->n[e]);
		if (l->tlb_row >= 0)
			fprintf(f, ",\"tlb_row\":%.4f", l->tlb_row);
	}
	fputs("}\n", f);
}

void report_json(FILE *f, const struct scan_table *t)
{
	unsigned int i;

	for (i = 0; i < t->n_lines; i++)
		json_line(f, t, &t->line[i]);
	fflush(f);
}

#define WORST 16

static struct {
	const struct scan_mode *mode;
	double wall, cpu;
	char at_wall[96], at_cpu[96];
} worst[WORST];

void report_worst_note(const struct scan_table *t)
{
	unsigned int i, k;
	char at[96];

	for (i = 0; i < t->n_lines; i++) {
		const struct scan_line *l = &t->line[i];
		struct b_stat w = ratio(t, l, l->mode->base, false);
		struct b_stat c = ratio(t, l, l->mode->base, true);

		if (!l->mode->ours || w.med <= 0)
			continue;
		for (k = 0; k < WORST - 1 && worst[k].mode; k++)
			if (worst[k].mode == l->mode)
				break;
		snprintf(at, sizeof(at), "%.48s, %s, %u thr.", t->set->name,
			 touch_name(t->touch), t->threads);
		if (!worst[k].mode || w.med < worst[k].wall) {
			worst[k].wall = w.med;
			memcpy(worst[k].at_wall, at, sizeof(at));
		}
		if (!worst[k].mode || c.med < worst[k].cpu) {
			worst[k].cpu = c.med;
			memcpy(worst[k].at_cpu, at, sizeof(at));
		}
		worst[k].mode = l->mode;
	}
}

void report_worst_text(FILE *f)
{
	unsigned int k;

	if (!worst[0].mode)
		return;
	fputs("\nlowest against the kernel, over all tables above:\n", f);
	for (k = 0; k < WORST && worst[k].mode; k++)
		fprintf(f, "  %-10s %5.2f x wall (%s), %5.2f x CPU (%s)\n",
			worst[k].mode->name, worst[k].wall, worst[k].at_wall,
			worst[k].cpu, worst[k].at_cpu);
}
