// SPDX-License-Identifier: LGPL-2.1-or-later
/* lib_poltrace.c - page traces: made up, and read from a file. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "policy.h"

static uint64_t seed;

static uint64_t rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static uint32_t below(uint32_t n)
{
	return (uint32_t)((rnd() >> 32) * n >> 32);
}

static void *get(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);

	if (!p)
		b_die("out of memory");
	return p;
}

/* Ranks 0 .. n-1 with probability ~ 1 / (rank + 1)^a, pages in random order. */
struct zipf {
	double *sum;
	uint32_t *page, n;
};

static struct zipf zipf_make(uint32_t n, double a)
{
	struct zipf z = { get(n, sizeof(double)), get(n, sizeof(uint32_t)), n };
	double sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = below(i + 1);

		sum += pow(i + 1, -a);
		z.sum[i] = sum;
		z.page[i] = z.page[k];
		z.page[k] = i;
	}
	return z;
}

static uint32_t zipf_next(const struct zipf *z)
{
	double x =
		(double)(rnd() >> 11) / 9007199254740992.0 * z->sum[z->n - 1];
	uint32_t lo = 0, hi = z->n - 1;

	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;

		if (z->sum[mid] < x)
			lo = mid + 1;
		else
			hi = mid;
	}
	return z->page[lo];
}

static void zipf_free(struct zipf *z)
{
	free(z->sum);
	free(z->page);
}

static void add(struct pl_trace *t, uint32_t page)
{
	t->page[t->n++] = page;
	if (page >= t->nr_pages)
		t->nr_pages = page + 1;
}

static void uniform(struct pl_trace *t, size_t n, uint32_t pages)
{
	while (t->n < n)
		add(t, below(pages));
}

static void zipfian(struct pl_trace *t, size_t n, uint32_t pages, double a)
{
	struct zipf z = zipf_make(pages, a);

	while (t->n < n)
		add(t, zipf_next(&z));
	zipf_free(&z);
}

static void loop(struct pl_trace *t, size_t n, uint32_t pages)
{
	for (uint32_t i = 0; t->n < n; i = i + 1 < pages ? i + 1 : 0)
		add(t, i);
}

/* Bursts: lookups, then a stretch of a scan that sees no page twice. */
static void scan_mix(struct pl_trace *t, size_t n, uint32_t memory)
{
	struct zipf z = zipf_make(2 * memory, 1.0);
	uint32_t cold = 2 * memory;

	while (t->n < n) {
		for (uint32_t i = 0; i < memory / 4 && t->n < n; i++)
			add(t, zipf_next(&z));
		for (uint32_t i = 0; i < memory / 8 && t->n < n; i++)
			add(t, cold++);
	}
	zipf_free(&z);
}

/* Four threads in turn: lookups, a small loop, uniform, a scan. */
static void threads(struct pl_trace *t, size_t n, uint32_t memory)
{
	struct zipf z = zipf_make(memory, 1.0);
	uint32_t i = 0, half = memory / 2, cold = 4 * memory;

	while (t->n + 4 <= n) {
		add(t, zipf_next(&z));
		add(t, memory + i++ % half);
		add(t, 2 * memory + below(2 * memory));
		add(t, cold++);
	}
	zipf_free(&z);
}

/* Lookups whose favourites are others in each eighth of the trace. */
static void phases(struct pl_trace *t, size_t n, uint32_t memory)
{
	for (uint32_t k = 1; k <= 8; k++) {
		struct zipf z = zipf_make(4 * memory, 1.0);

		while (t->n < n * k / 8)
			add(t, zipf_next(&z));
		zipf_free(&z);
	}
}

/* Lookups in a B-tree: a root, inner pages, a leaf, a page of the table. */
static void btree(struct pl_trace *t, size_t n, uint32_t memory)
{
	uint32_t leaves = memory * 2, inner = leaves / 128 + 1;

	while (t->n + 4 <= n) {
		uint32_t leaf = below(leaves);

		add(t, 0);
		add(t, 1 + leaf / 128);
		add(t, 1 + inner + leaf);
		add(t, 1 + inner + leaves + below(memory * 2));
	}
}

static void count_distinct(struct pl_trace *t)
{
	bool *seen = get(t->nr_pages, sizeof(*seen));

	for (size_t i = 0; i < t->n; i++) {
		t->distinct += !seen[t->page[i]];
		seen[t->page[i]] = true;
	}
	free(seen);
}

bool pl_make(unsigned int i, uint32_t memory, struct pl_trace *t)
{
	static const char *const name[] = {
		"uniform-1.25x", "uniform-4x", "zipf0.8-4x",   "zipf1.0-4x",
		"zipf1.2-4x",    "loop-1.1x",  "loop-2x",      "scan+zipf",
		"4-threads",     "phases",     "btree-lookups"
	};
	size_t n = (size_t)memory * 64;

	if (i >= sizeof(name) / sizeof(name[0]))
		return false;
	memset(t, 0, sizeof(*t));
	snprintf(t->name, sizeof(t->name), "%s", name[i]);
	t->page = get(n, sizeof(*t->page));
	seed = 0x9e3779b97f4a7c15u + i;
	switch (i) {
	case 0:
		uniform(t, n, memory / 4 * 5);
		break;
	case 1:
		uniform(t, n, memory * 4);
		break;
	case 2:
		zipfian(t, n, memory * 4, 0.8);
		break;
	case 3:
		zipfian(t, n, memory * 4, 1.0);
		break;
	case 4:
		zipfian(t, n, memory * 4, 1.2);
		break;
	case 5:
		loop(t, n, memory / 10 * 11);
		break;
	case 6:
		loop(t, n, memory * 2);
		break;
	case 7:
		scan_mix(t, n, memory);
		break;
	case 8:
		threads(t, n, memory);
		break;
	case 9:
		phases(t, n, memory);
		break;
	default:
		btree(t, n, memory);
		break;
	}
	count_distinct(t);
	return true;
}

static const char magic[] = "FLPT1\n";

static void number_out(FILE *f, uint64_t v)
{
	for (; v > 0x7f; v >>= 7)
		fputc((int)(v & 0x7f) | 0x80, f);
	fputc((int)v, f);
}

static bool number_in(FILE *f, uint64_t *v)
{
	int c, shift = 0;

	*v = 0;
	do {
		c = fgetc(f);
		if (c == EOF || shift > 56)
			return false;
		*v |= (uint64_t)(c & 0x7f) << shift;
		shift += 7;
	} while (c & 0x80);
	return true;
}

static FILE *must_open(const char *path, const char *mode)
{
	FILE *f = fopen(path, mode);

	if (!f)
		b_die("%s: cannot open it", path);
	return f;
}

void pl_load(const char *path, struct pl_trace *t)
{
	const char *base = strrchr(path, '/');
	FILE *f = must_open(path, "rb");
	size_t room = 1 << 16;
	char head[sizeof(magic)] = "";
	uint64_t v, more = 0;
	int64_t page = 0;

	memset(t, 0, sizeof(*t));
	base = base ? base + 1 : path;
	snprintf(t->name, sizeof(t->name), "%.*s", (int)strcspn(base, "."),
		 base);
	if (fread(head, 1, sizeof(magic) - 1, f) != sizeof(magic) - 1 ||
	    strcmp(head, magic) != 0)
		b_die("%s: not a page trace", path);
	t->page = get(room, sizeof(*t->page));
	while (more > 0 || number_in(f, &v)) {
		if (more > 0)
			more--;
		else if (v == 0 && !number_in(f, &more))
			b_die("%s: cut short", path);
		else
			page += (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
		if (page < 0 || page >= UINT32_MAX)
			b_die("%s: no page %lld", path, (long long)page);
		if (t->n == room) {
			room *= 2;
			t->page = realloc(t->page, room * sizeof(*t->page));
			if (!t->page)
				b_die("out of memory");
		}
		add(t, (uint32_t)page++);
		/* The pages of the run go without a number. */
		v = 0;
	}
	if (ferror(f))
		b_die("%s: cannot read it", path);
	fclose(f);
	count_distinct(t);
}

static int cmp_page(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

void pl_pack(const char *raw, const char *path, size_t max)
{
	FILE *f = must_open(raw, "rb");
	uint32_t n = 0, nr = 0, *page, *sorted;
	int64_t expected = 0;

	if (fread(&n, sizeof(n), 1, f) != 1 || n == 0)
		b_die("%s: nothing recorded", raw);
	if (n > max)
		n = (uint32_t)max;
	page = get(n, sizeof(*page));
	sorted = get(n, sizeof(*sorted));
	if (fread(page, sizeof(*page), n, f) != n)
		b_die("%s: cut short", raw);
	fclose(f);
	memcpy(sorted, page, n * sizeof(*page));
	qsort(sorted, n, sizeof(*sorted), cmp_page);
	for (uint32_t i = 0; i < n; i++)
		if (i == 0 || sorted[i] != sorted[nr - 1])
			sorted[nr++] = sorted[i];
	for (uint32_t i = 0; i < n; i++) {
		uint32_t *at = bsearch(&page[i], sorted, nr, sizeof(*sorted),
				       cmp_page);

		page[i] = (uint32_t)(at - sorted);
	}
	f = must_open(path, "wb");
	fputs(magic, f);
	for (uint32_t i = 0, k; i < n; i += k) {
		int64_t d = (int64_t)page[i] - expected;

		for (k = 1; i + k < n && page[i + k] == page[i] + k; k++)
			;
		if (d != 0) {
			number_out(f, (uint64_t)d << 1 ^ (uint64_t)(d >> 63));
			k = 1;
		} else {
			number_out(f, 0);
			number_out(f, k - 1);
		}
		expected = (int64_t)page[i + k - 1] + 1;
	}
	if (fclose(f))
		b_die("%s: cannot write it", path);
	free(page);
	free(sorted);
}

void pl_free(struct pl_trace *t)
{
	free(t->page);
	t->page = NULL;
}
