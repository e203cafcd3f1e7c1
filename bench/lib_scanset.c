// SPDX-License-Identifier: LGPL-2.1-or-later
/* lib_scanset.c - what bench_scan scans: trees, lists, files made to size. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scan.h"

static void *need(void *p)
{
	if (!p)
		b_die("out of memory");
	return p;
}

static void set_add(struct scan_set *s, const char *path, size_t size)
{
	struct scan_file *f;

	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 1024;
		s->file = need(realloc(s->file, s->cap * sizeof(*s->file)));
	}
	f = &s->file[s->n++];
	f->path = need(strdup(path));
	f->size = size;
	f->sum = 0;
	f->fd = -1;
	s->bytes += size;
	if (size > s->largest)
		s->largest = size;
}

static struct scan_set *walk_into;

static int walk_one(const char *path, const struct stat *st, int type,
		    struct FTW *w)
{
	(void)w;
	if (type == FTW_F && S_ISREG(st->st_mode) && !access(path, R_OK))
		set_add(walk_into, path, (size_t)st->st_size);
	return 0;
}

static int by_path(const void *a, const void *b)
{
	const struct scan_file *x = a, *y = b;

	return strcmp(x->path, y->path);
}

void set_add_path(struct scan_set *s, const char *path)
{
	walk_into = s;
	if (nftw(path, walk_one, 64, FTW_PHYS))
		b_die("%s: %s", path, strerror(errno));
	if (s->n)
		qsort(s->file, s->n, sizeof(*s->file), by_path);
}

void set_add_list(struct scan_set *s, const char *list)
{
	FILE *f = fopen(list, "re");
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;
	struct stat st;

	if (!f)
		b_die("%s: %s", list, strerror(errno));
	while ((n = getline(&line, &cap, f)) > 0) {
		if (line[n - 1] == '\n')
			line[n - 1] = '\0';
		if (!stat(line, &st) && S_ISREG(st.st_mode))
			set_add(s, line, (size_t)st.st_size);
	}
	free(line);
	fclose(f);
}

/*
 * Files made here. The directory is emptied at exit and on the usual signals;
 * the names are regular, so that a signal handler can go through them.
 */
static char made_dir[512];
static volatile sig_atomic_t made_n;

static void made_name(char *buf, unsigned int i)
{
	size_t n = strlen(made_dir), k;

	memcpy(buf, made_dir, n);
	buf[n++] = '/';
	for (k = 6; k-- > 0; i /= 10)
		buf[n + k] = (char)('0' + i % 10);
	buf[n + 6] = '\0';
}

void set_remove_files(void)
{
	char name[sizeof(made_dir) + 8];
	int i;

	if (!made_dir[0])
		return;
	for (i = 0; i < made_n; i++) {
		made_name(name, (unsigned int)i);
		unlink(name);
	}
	made_n = 0;
	rmdir(made_dir);
}

static void on_signal(int sig)
{
	set_remove_files();
	signal(sig, SIG_DFL);
	raise(sig);
}

static void made_dir_open(const char *dir)
{
	static const int sigs[] = { SIGINT, SIGTERM, SIGHUP };
	size_t i;

	if (mkdir(dir, 0777) && errno != EEXIST)
		b_die("%s: %s", dir, strerror(errno));
	if (!made_dir[0]) {
		for (i = 0; i < sizeof(sigs) / sizeof(sigs[0]); i++)
			signal(sigs[i], on_signal);
		atexit(set_remove_files);
	}
	if (snprintf(made_dir, sizeof(made_dir), "%s/scan-XXXXXX", dir) >=
	    (int)sizeof(made_dir))
		b_die("%s: name too long", dir);
	if (!mkdtemp(made_dir))
		b_die("%s: %s", made_dir, strerror(errno));
}

/* 7-bit noise: never the byte that the scan looks for, so memchr runs on. */
static void noise(unsigned char *p, size_t n, uint64_t *seed)
{
	uint64_t x = *seed, v;
	size_t i;

	for (i = 0; i + 8 <= n; i += 8) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		v = x & 0x7f7f7f7f7f7f7f7full;
		memcpy(p + i, &v, 8);
	}
	for (; i < n; i++)
		p[i] = (unsigned char)('a' + i % 26);
	*seed = x;
}

static void write_file(const char *path, const unsigned char *p, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	size_t done = 0;
	ssize_t k;

	if (fd < 0)
		b_die("%s: %s", path, strerror(errno));
	while (done < n) {
		k = write(fd, p + done, n - done);
		if (k < 0 && errno != EINTR)
			b_die("%s: %s", path, strerror(errno));
		if (k > 0)
			done += (size_t)k;
	}
	close(fd);
}

/* @most files of @each bytes, fewer (down to 4) to stay within @total. */
void set_make(struct scan_set *s, const char *dir, size_t each, uint64_t total,
	      size_t most)
{
	char name[sizeof(made_dir) + 8], size[24];
	uint64_t seed = 0x9e3779b97f4a7c15ull ^ each;
	unsigned char *p = need(malloc(each));
	size_t n = (size_t)(total / each), i;

	n = n > most ? most : n < 4 ? 4 : n;
	made_dir_open(dir);
	for (i = 0; i < n; i++) {
		made_name(name, (unsigned int)i);
		noise(p, each, &seed);
		made_n = (int)i + 1;
		write_file(name, p, each);
		set_add(s, name, each);
	}
	free(p);
	s->each = each;
	if (asprintf(&s->name, "%zu files of %s", n, b_size_name(each, size)) <
	    0)
		b_die("out of memory");
}

void set_hold(struct scan_set *s)
{
	size_t i;

	for (i = 0; i < s->n; i++) {
		s->file[i].fd = open(s->file[i].path, O_RDONLY | O_CLOEXEC);
		if (s->file[i].fd < 0)
			b_die("--held: %s: %s", s->file[i].path,
			      strerror(errno));
	}
	s->held = true;
}

void set_free(struct scan_set *s)
{
	size_t i;

	for (i = 0; i < s->n; i++) {
		if (s->file[i].fd >= 0)
			close(s->file[i].fd);
		free(s->file[i].path);
	}
	free(s->file);
	free(s->name);
	memset(s, 0, sizeof(*s));
}
