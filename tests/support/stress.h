/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * stress.h - what the stress programs share: options, a random number
 * generator a thread, words that tell where they belong, and a watchdog.
 */
#ifndef FL_TESTS_SUPPORT_STRESS_H
#define FL_TESTS_SUPPORT_STRESS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STRESS __attribute__((unused)) static

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif
#ifndef UNDER_TSAN
#define UNDER_TSAN 0
#endif

struct rng {
	uint64_t s;
};

STRESS uint64_t rng_next(struct rng *r)
{
	uint64_t x = r->s += 0x9e3779b97f4a7c15u;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

STRESS unsigned int rng_below(struct rng *r, unsigned int n)
{
	return (unsigned int)((rng_next(r) >> 32) * n >> 32);
}

/* Word @index of the contents named @id; never zero. */
STRESS uint64_t word_of(uint64_t id, uint64_t index)
{
	uint64_t x = (id << 36) ^ index ^ 0x5851f42d4c957f2du;

	x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
	x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
	return (x ^ (x >> 32)) | 1;
}

/* Words from byte offset @off, a multiple of 8, over @len bytes. */
STRESS void words_fill(void *p, uint64_t id, size_t off, size_t len)
{
	unsigned char *b = p;

	for (size_t i = 0; i < len; i += 8) {
		uint64_t w = word_of(id, (off + i) / 8);

		memcpy(b + i, &w, len - i < 8 ? len - i : 8);
	}
}

/* Bytes of @p that are not as words_fill made them: 0, or the word's count. */
STRESS size_t words_wrong(const void *p, uint64_t id, size_t off, size_t len)
{
	const unsigned char *b = p;
	size_t wrong = 0;

	for (size_t i = 0; i < len; i += 8) {
		uint64_t w = word_of(id, (off + i) / 8);

		wrong += memcmp(b + i, &w, len - i < 8 ? len - i : 8) != 0;
	}
	return wrong;
}

STRESS size_t zero_wrong(const void *p, size_t len)
{
	const unsigned char *b = p;
	size_t wrong = 0;

	for (size_t i = 0; i < len; i++)
		wrong += b[i] != 0;
	return wrong;
}

STRESS double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

STRESS void nap_ms(long ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&ts, NULL);
}

/* Where each thread is in the kernel, for who reads of a hang. */
STRESS void where(void)
{
	if (system("cd /proc/$PPID/task && for t in *; do echo "
		   "\"$(cut -d' ' -f3 $t/stat) $(cat $t/wchan)\"; done | "
		   "sort | uniq -c >&2; cat /proc/loadavg >&2"))
		perror("where");
}

/* "--name=value" or "--name value" of the command line, or NULL. */
STRESS const char *arg_text(int argc, char **argv, const char *name)
{
	size_t n = strlen(name);

	for (int i = 1; i < argc; i++) {
		if (strncmp(argv[i], "--", 2) || strncmp(argv[i] + 2, name, n))
			continue;
		if (argv[i][2 + n] == '=')
			return argv[i] + 3 + n;
		if (!argv[i][2 + n] && i + 1 < argc)
			return argv[i + 1];
	}
	return NULL;
}

STRESS long arg_num(int argc, char **argv, const char *name, long def)
{
	const char *s = arg_text(argc, argv, name);

	return s ? strtol(s, NULL, 10) : def;
}

#endif
