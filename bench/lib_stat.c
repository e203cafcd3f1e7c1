// SPDX-License-Identifier: LGPL-2.1-or-later
/* lib_stat.c - clock, order statistics, sizes and JSON strings. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "bench.h"

void b_die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fflush(stdout);
	fputs("bench: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

double b_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void b_cpu(double *user, double *sys)
{
	struct rusage ru;

	getrusage(RUSAGE_SELF, &ru);
	*user = (double)ru.ru_utime.tv_sec + (double)ru.ru_utime.tv_usec * 1e-6;
	*sys = (double)ru.ru_stime.tv_sec + (double)ru.ru_stime.tv_usec * 1e-6;
}

static int cmp_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double middle(const double *v, unsigned int n)
{
	return n & 1 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

struct b_stat b_stat_of(const double *v, unsigned int n)
{
	struct b_stat s = { 0, 0, 0, 0 };
	double *w;
	unsigned int i;

	if (!n)
		return s;
	w = malloc(n * sizeof(*w));
	if (!w)
		b_die("out of memory");
	memcpy(w, v, n * sizeof(*w));
	qsort(w, n, sizeof(*w), cmp_double);
	s.med = middle(w, n);
	s.min = w[0];
	s.max = w[n - 1];
	for (i = 0; i < n; i++)
		w[i] = w[i] > s.med ? w[i] - s.med : s.med - w[i];
	qsort(w, n, sizeof(*w), cmp_double);
	s.mad = middle(w, n);
	free(w);
	return s;
}

size_t b_parse_size(const char *s)
{
	char *end;
	unsigned long long n;

	if (*s < '0' || *s > '9')
		return 0;
	n = strtoull(s, &end, 10);
	switch (*end) {
	case 'g':
	case 'G':
		n <<= 10;
		/* fall through */
	case 'm':
	case 'M':
		n <<= 10;
		/* fall through */
	case 'k':
	case 'K':
		n <<= 10;
		end++;
		break;
	default:
		break;
	}
	return *end ? 0 : (size_t)n;
}

const char *b_size_name(size_t n, char *buf)
{
	if (n && n % (1u << 20) == 0)
		snprintf(buf, 24, "%zuM", n >> 20);
	else if (n && n % 1024 == 0)
		snprintf(buf, 24, "%zuK", n >> 10);
	else
		snprintf(buf, 24, "%zu", n);
	return buf;
}

void b_json_str(FILE *f, const char *s)
{
	fputc('"', f);
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			fprintf(f, "\\%c", *s);
		else if ((unsigned char)*s < 0x20)
			fprintf(f, "\\u%04x", (unsigned char)*s);
		else
			fputc(*s, f);
	}
	fputc('"', f);
}
