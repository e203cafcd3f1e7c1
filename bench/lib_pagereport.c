// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * lib_pagereport.c - the tables and the JSON lines of bench_page.
 *
 * Ratios are taken within each repetition, where the methods ran next to each
 * other, and their median is shown. Of throughputs above 1 means faster than
 * the method compared with, "its CPU" the same by CPU time a touch; of latencies
 * it is the multiple of its time.
 */
#include <string.h>

#include "page.h"

struct base {
	const char *head, *json, *method; /* NULL: the kernel's best */
	bool same_granule, same_pin, cpu;
};

static const struct base random_bases[] = {
	{ "x mmap", "x_mmap", "mmap", false, false, false },
	{ "x random", "x_mmap_random", "mmap-random", false, false, false },
	{ "x its CPU", "x_mmap_random_cpu", "mmap-random", false, false, true },
	{ "x direct", "x_direct", "direct", false, false, false },
	{ "x sigbus", "x_sigbus", "sigbus", false, false, false },
	{ NULL, NULL, NULL, false, false, false },
};

static const struct base seq_bases[] = {
	{ "x mmap", "x_mmap", "mmap", false, false, false },
	{ "x pread", "x_pread", "pread", false, false, false },
	{ "x uring", "x_uring", "uring", false, false, false },
	{ "x best", "x_best", NULL, false, false, false },
	{ "x its CPU", "x_best_cpu", NULL, false, false, true },
	{ NULL, NULL, NULL, false, false, false },
};

static const struct base latency_bases[] = {
	{ "/ kernel", "x_kernel", "mmap-random", false, false, false },
	{ "/ sigbus", "x_sigbus", "sigbus", true, false, false },
	{ "/ handler", "x_handler", "handler", true, true, false },
	{ NULL, NULL, NULL, false, false, false },
};

static bool is_latency(const struct page_table *t)
{
	return !strcmp(t->work, "latency");
}

static const struct base *bases(const struct page_table *t)
{
	return is_latency(t)           ? latency_bases :
	       !strcmp(t->work, "seq") ? seq_bases :
					 random_bases;
}

/* Touches a second, MB a second or ns. */
static double value(const struct page_table *t, const struct page_result *r)
{
	if (is_latency(t))
		return r->p50;
	if (r->wall <= 0)
		return 0;
	return (double)r->ops / r->wall *
	       (strcmp(t->work, "seq") ? 1 : B_PAGE / 1e6);
}

/* CPU time of a touch, user and system, all threads. */
static double cpu_us(const struct page_result *r)
{
	return r->ops ? r->n.cpu * 1e6 / (double)r->ops : 0;
}

static struct b_stat stat_of(const struct page_table *t,
			     const struct page_line *l)
{
	double v[PAGE_MAX_REPS];
	unsigned int i;

	for (i = 0; i < l->n; i++)
		v[i] = value(t, &l->r[i]);
	return b_stat_of(v, l->n);
}

/* The best of the kernel's methods. */
static const struct page_line *best_line(const struct page_table *t)
{
	const struct page_line *best = NULL, *l;
	unsigned int i;

	for (i = 0; i < t->n_lines; i++) {
		l = &t->line[i];
		if (!l->n || l->method->flags & (PAGE_OURS | PAGE_GRANULE))
			continue;
		if (!best || stat_of(t, l).med > stat_of(t, best).med)
			best = l;
	}
	return best;
}

static const struct page_line *base_line(const struct page_table *t,
					 const struct page_line *l,
					 const struct base *b)
{
	unsigned int i;

	if (!b->method)
		return best_line(t);
	for (i = 0; i < t->n_lines; i++) {
		const struct page_line *o = &t->line[i];

		if (o->n == l->n && !strcmp(o->method->name, b->method) &&
		    (!b->same_granule || o->granule == l->granule) &&
		    (!b->same_pin || o->pin == l->pin))
			return o;
	}
	return NULL;
}

static struct b_stat ratio(const struct page_table *t,
			   const struct page_line *l, const struct base *b)
{
	const struct page_line *o = base_line(t, l, b);
	double v[PAGE_MAX_REPS], with;
	unsigned int i;

	for (i = 0; o && i < l->n; i++) {
		with = value(t, &o->r[i]);
		v[i] = with > 0 ? value(t, &l->r[i]) / with : 0;
		with = cpu_us(&l->r[i]);
		if (b->cpu)
			v[i] = with > 0 ? cpu_us(&o->r[i]) / with : 0;
	}
	return b_stat_of(v, o ? l->n : 0);
}

/* Median over the runs of a count, for each touch. */
static double each(const struct page_line *l, size_t member)
{
	double v[PAGE_MAX_REPS];
	unsigned int i;
	uint64_t n;

	for (i = 0; i < l->n; i++) {
		memcpy(&n, (const char *)&l->r[i].n + member, sizeof(n));
		v[i] = l->r[i].ops ? (double)n / (double)l->r[i].ops : 0;
	}
	return b_stat_of(v, l->n).med;
}

#define EACH(l, member) each(l, offsetof(struct page_counts, member))

double page_read_ratio(const struct page_line *l)
{
	double io = EACH(l, bytes) / B_PAGE,
	       fill = EACH(l, fill_bytes) / B_PAGE;

	return io > fill ? io : fill;
}

double page_fill_ratio(const struct page_line *l)
{
	double most = 0, v;
	unsigned int i;

	for (i = 0; i < l->n; i++) {
		const struct page_counts *n = &l->r[i].all;

		v = n->fills ?
			    (double)n->fill_bytes / B_PAGE / (double)n->fills :
			    0;
		if (v > most)
			most = v;
	}
	return most;
}

static double cpu_med(const struct page_line *l)
{
	double v[PAGE_MAX_REPS];
	unsigned int i;

	for (i = 0; i < l->n; i++)
		v[i] = cpu_us(&l->r[i]);
	return b_stat_of(v, l->n).med;
}

static double p99(const struct page_line *l)
{
	double v[PAGE_MAX_REPS];
	unsigned int i;

	for (i = 0; i < l->n; i++)
		v[i] = l->r[i].p99;
	return b_stat_of(v, l->n).med;
}

static size_t peak(const struct page_line *l)
{
	size_t most = 0;
	unsigned int i;

	for (i = 0; i < l->n; i++)
		if (l->r[i].peak > most)
			most = l->r[i].peak;
	return most;
}

static void name_line(const struct page_line *l, char *buf, size_t size)
{
	char g[24] = "";

	if (l->granule && l->method->flags & PAGE_GRANULE)
		b_size_name(l->granule, g);
	snprintf(buf, size, "%s%s%s%s", l->method->name, *g ? " " : "", g,
		 l->pin ? " 1cpu" : "");
}

static void text_line(FILE *f, const struct page_table *t,
		      const struct page_line *l)
{
	const struct base *b;
	struct b_stat s, x;
	char name[64], range[40];

	name_line(l, name, sizeof(name));
	if (!l->n) {
		fprintf(f, "  %-20s not to be had: %s\n", name, l->why);
		return;
	}
	s = stat_of(t, l);
	snprintf(range, sizeof(range), "%.0f..%.0f", s.min, s.max);
	fprintf(f, "  %-20s %9.0f %17s", name, s.med, range);
	if (is_latency(t))
		fprintf(f, " %8.0f", p99(l));
	for (b = bases(t); b->head; b++) {
		x = ratio(t, l, b);
		if (x.med > 0)
			fprintf(f, " %9.2f", x.med);
		else
			fprintf(f, " %9s", "-");
	}
	fprintf(f, " %7.2f %6.2f %6.2f %6.2f %7.3f %7.2f %7.2f %6zu\n",
		page_read_ratio(l), EACH(l, minor), EACH(l, major),
		EACH(l, reads), EACH(l, switches), EACH(l, tlb), cpu_med(l),
		peak(l) >> 20);
}

void page_report_text(FILE *f, const struct page_table *t)
{
	const struct base *b;
	unsigned int i;
	char a[24], c[24], d[24];

	fprintf(f, "\n%s: %u thread%s, %s of %s", t->title, t->threads,
		t->threads == 1 ? "" : "s", b_size_name(t->span, a),
		t->file->dev);
	fprintf(f, ", budget %s, memory limit %s, %u runs\n",
		b_size_name(t->budget, c),
		t->limit ? b_size_name(t->limit, d) : "none", t->line[0].n);
	fprintf(f, "  %-20s %9s %17s", "method",
		is_latency(t)          ? "p50 ns" :
		strcmp(t->work, "seq") ? "touches/s" :
					 "MB/s",
		"min..max");
	if (is_latency(t))
		fprintf(f, " %8s", "p99 ns");
	for (b = bases(t); b->head; b++)
		fprintf(f, " %9s", b->head);
	fprintf(f, " %7s %6s %6s %6s %7s %7s %7s %6s\n", "read", "minor",
		"major", "reads", "switch", "TLB", "CPU us", "MiB");
	for (i = 0; i < t->n_lines; i++)
		text_line(f, t, &t->line[i]);
	fflush(f);
}

static void json_stat(FILE *f, const char *name, struct b_stat s)
{
	fprintf(f, ",\"%s\":%.4f,\"%s_min\":%.4f,\"%s_max\":%.4f", name, s.med,
		name, s.min, name, s.max);
}

/* The windows of the first run: throughput over time. */
static void json_windows(FILE *f, const struct page_result *r)
{
	unsigned int i;

	fprintf(f, ",\"window_s\":%.2f,\"windows\":[", r->wall / r->windows);
	for (i = 0; i < r->windows; i++)
		fprintf(f, "%s%.0f", i ? "," : "", r->window[i]);
	fputc(']', f);
}

static void json_line(FILE *f, const struct page_table *t,
		      const struct page_line *l)
{
	const struct base *b;
	struct b_stat x;

	fprintf(f, "{\"bench\":\"page\",\"work\":\"%s\",\"dev\":\"%s\"",
		t->work, t->file->dev);
	fprintf(f, ",\"threads\":%u,\"span\":%zu,\"budget\":%zu", t->threads,
		t->span, t->budget);
	fprintf(f, ",\"limit\":%zu,\"factor\":%.3f,\"method\":\"%s\"", t->limit,
		t->factor, l->method->name);
	fprintf(f, ",\"granule\":%zu,\"pin\":%d,\"runs\":%u",
		l->method->flags & PAGE_GRANULE ? l->granule : 0, l->pin, l->n);
	if (!l->n) {
		fputs(",\"why\":", f);
		b_json_str(f, l->why);
		fputs("}\n", f);
		return;
	}
	json_stat(f, is_latency(t) ? "ns" : "rate", stat_of(t, l));
	if (is_latency(t))
		fprintf(f, ",\"p99\":%.0f", p99(l));
	for (b = bases(t); b->head; b++) {
		x = ratio(t, l, b);
		if (x.med > 0)
			json_stat(f, b->json, x);
	}
	fprintf(f, ",\"read\":%.4f,\"minor\":%.4f,\"major\":%.4f",
		page_read_ratio(l), EACH(l, minor), EACH(l, major));
	fprintf(f, ",\"reads\":%.4f,\"switches\":%.4f,\"tlb\":%.4f",
		EACH(l, reads), EACH(l, switches), EACH(l, tlb));
	fprintf(f, ",\"cpu_us\":%.4f,\"peak\":%zu", cpu_med(l), peak(l));
	if (l->r[0].all.fills)
		fprintf(f, ",\"filled\":%.4f", page_fill_ratio(l));
	if (l->r[0].windows > 1)
		json_windows(f, &l->r[0]);
	fputs("}\n", f);
}

void page_report_json(FILE *f, const struct page_table *t)
{
	unsigned int i;

	for (i = 0; i < t->n_lines; i++)
		json_line(f, t, &t->line[i]);
	fflush(f);
}
