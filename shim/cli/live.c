// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * live.c - `faultline stat`: reads the page a running program publishes.
 *
 * The page is found by the program's own list of mappings, which also tells
 * that the program still has it; the file is opened below the program's root,
 * so containers work. What the file says is checked before it is used: it
 * belongs to whoever owns the program.
 */
#include <argp.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "base/file.h"
#include "base/stat.h"

struct sample {
	struct stat_header head;
	uint64_t v[STAT_NR];
};

struct args {
	uint32_t pid;
	double watch;
	bool json;
};

/* ".../faultline/PID" or ".../faultline-UID/PID"? */
static bool is_page_path(const char *path)
{
	const char *name = strrchr(path, '/');
	const char *dir;

	if (!name || !name[1] || name[1 + strspn(name + 1, "0123456789")])
		return false;
	for (dir = name; dir > path && dir[-1] != '/'; dir--)
		;
	if (strncmp(dir, "faultline", 9))
		return false;
	dir += 9;
	if (*dir == '-')
		dir += 1 + strspn(dir + 1, "0123456789");
	return dir == name;
}

/*
 * 1 and the path when @pid maps such a page; 0 when not, with @preloaded told;
 * or -errno.
 */
static int find_page(uint32_t pid, char *path, size_t size, bool *preloaded)
{
	char name[64], *line = NULL;
	size_t room = 0;
	int found = 0;
	FILE *f;

	snprintf(name, sizeof(name), "/proc/%u/maps", pid);
	f = fopen(name, "re");
	if (!f)
		return -errno;
	*preloaded = false;
	while (!found && getline(&line, &room, f) > 0) {
		char *p = strchr(line, '/');

		if (!p)
			continue;
		p[strcspn(p, "\n")] = '\0';
		if (strstr(p, "/libfaultline"))
			*preloaded = true;
		if (is_page_path(p) && strlen(p) < size) {
			strcpy(path, p);
			found = 1;
		}
	}
	found = ferror(f) ? -errno : found;
	free(line);
	fclose(f);
	return found;
}

static bool head_ok(const struct stat_header *h, uint64_t size)
{
	return h->magic == STAT_MAGIC && h->version == STAT_VERSION &&
	       h->nr_counters == STAT_NR &&
	       h->names_hash == stat_names_hash() &&
	       h->shard_stride == sizeof(struct stat_shard) && h->nr_shards &&
	       h->nr_shards <= STAT_SHARD_MAX &&
	       h->shard_offset >= sizeof(*h) && h->file_size == size &&
	       h->shard_offset <= size &&
	       (uint64_t)h->nr_shards * h->shard_stride <=
		       size - h->shard_offset &&
	       memchr(h->program, '\0', sizeof(h->program));
}

/* 0, -EPROTO for a page of another version, or -errno. */
static int read_page(const char *path, struct sample *s)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat_shard shard;
	struct stat st;
	int ret = -EPROTO;

	if (fd < 0)
		return -errno;
	memset(s, 0, sizeof(*s));
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) ||
	    pread(fd, &s->head, sizeof(s->head), 0) != sizeof(s->head) ||
	    !head_ok(&s->head, (uint64_t)st.st_size))
		goto out;
	for (uint32_t i = 0; i < s->head.nr_shards; i++) {
		off_t at = (off_t)(s->head.shard_offset +
				   (uint64_t)i * s->head.shard_stride);

		if (pread(fd, &shard, sizeof(shard), at) != sizeof(shard))
			goto out;
		for (int id = 0; id < STAT_NR; id++)
			s->v[id] += ld_rlx(&shard.v[id]);
	}
	for (int id = 0; id < STAT_NR; id++)
		if (stat_rows[id].gauge && (int64_t)s->v[id] < 0)
			s->v[id] = 0;
	ret = 0;
out:
	close(fd);
	return ret;
}

/* The counters of @pid. 0, or -errno after saying why unless @quiet. */
static int take_sample(uint32_t pid, struct sample *s, bool quiet)
{
	char page[PATH_MAX], path[PATH_MAX + 32];
	bool preloaded = false;
	int ret = find_page(pid, page, sizeof(page), &preloaded);
	const char *why = NULL;

	if (ret == 1) {
		snprintf(path, sizeof(path), "/proc/%u/root%s", pid, page);
		ret = read_page(path, s);
		/* In a container it knows itself by another number. */
		s->head.pid = pid;
		if (ret == -EPROTO)
			why = "its counters are of another version";
	} else if (ret == 0) {
		ret = -ENODATA;
		why = preloaded ? "it shows no counters: nothing has been "
				  "served yet, or stat=0" :
				  "it does not run under the pager";
	} else if (ret == -ENOENT || ret == -ESRCH) {
		why = "there is no such process";
	}
	if (ret && !quiet)
		fprintf(stderr, "faultline stat: %u: %s\n", pid,
			why ? why : strerror(-ret));
	return ret;
}

static void put_json_text(const char *s)
{
	putchar('"');
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c < 0x20 || c >= 0x7f)
			printf("\\u%04x", c);
		else
			putchar(c);
	}
	putchar('"');
}

static void print_json(const struct sample *s)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	printf("{\"pid\":%u,\"program\":", s->head.pid);
	put_json_text(s->head.program);
	printf(",\"time\":%lld.%03ld", (long long)now.tv_sec,
	       now.tv_nsec / 1000000);
	for (int id = 0; id < STAT_NR; id++)
		printf(",\"%s\":%llu", stat_rows[id].name,
		       (unsigned long long)s->v[id]);
	puts("}");
}

/* Control bytes of a program's name must not reach a terminal. */
static const char *clean_name(struct sample *s)
{
	for (char *p = s->head.program; *p; p++)
		if (!isprint((unsigned char)*p))
			*p = '?';
	return s->head.program;
}

static void print_text(struct sample *s, const struct sample *old, double secs)
{
	printf("%u %s\n", s->head.pid, clean_name(s));
	for (int id = 0; id < STAT_NR; id++) {
		printf("  %-20s %16llu", stat_rows[id].name,
		       (unsigned long long)s->v[id]);
		if (old)
			printf(" %+14.1f/s",
			       (double)(int64_t)(s->v[id] - old->v[id]) / secs);
		printf("  %s\n", stat_rows[id].help);
	}
}

static int show_one(const struct args *a)
{
	struct sample old, s;
	struct timespec nap = {
		.tv_sec = (time_t)a->watch,
		.tv_nsec = (long)((a->watch - (double)(time_t)a->watch) * 1e9),
	};
	bool again = false;

	for (;;) {
		int err = take_sample(a->pid, &s, again);

		/* The program has ended, which ends the watching. */
		if (err)
			return again ? 0 : 1;
		if (a->json)
			print_json(&s);
		else
			print_text(&s, again ? &old : NULL, a->watch);
		if (fflush(stdout))
			return 1;
		if (a->watch <= 0)
			return 0;
		old = s;
		again = true;
		nanosleep(&nap, NULL);
	}
}

/* A file whose process has gone, or has become another: removed. */
static void prune(int dir, const char *path, const struct sample *s,
		  uint32_t pid)
{
	const char *name = strrchr(path, '/') + 1;

	if (s->head.pid != pid || !s->head.start_time ||
	    stat_proc_start(pid) != s->head.start_time)
		unlinkat(dir, name, 0);
}

/* The number that a file's name is, or 0. */
static uint32_t pid_of(const char *name)
{
	if (name[strspn(name, "0123456789")] || strlen(name) > 10)
		return 0;
	return (uint32_t)strtoul(name, NULL, 10);
}

static void print_row(struct sample *s)
{
	printf("%8u  %-16s %12llu %12llu %12llu %12llu %16llu\n", s->head.pid,
	       clean_name(s), (unsigned long long)s->v[STAT_maps_file],
	       (unsigned long long)s->v[STAT_maps_anon],
	       (unsigned long long)s->v[STAT_demand_maps],
	       (unsigned long long)s->v[STAT_maps_kernel],
	       (unsigned long long)(s->v[STAT_resident_bytes] +
				    s->v[STAT_demand_bytes]));
}

/* What dead programs of this user have left is removed. */
static void prune_all(void)
{
	char dir[128], path[512];
	int fd = stat_dir(getenv("XDG_RUNTIME_DIR"), false, dir, sizeof(dir));
	DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *d;

	while (list && (d = readdir(list))) {
		uint32_t pid = pid_of(d->d_name);
		struct sample s;

		if (!pid)
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, d->d_name);
		if (read_page(path, &s) != -ENOENT)
			prune(fd, path, &s, pid);
	}
	if (list)
		closedir(list);
}

/* Every program that this user may look into: for root, those of all users,
 * and those that have changed theirs. */
static int show_all(const struct args *a)
{
	struct dirent *d;
	DIR *list;

	prune_all();
	list = opendir("/proc");
	if (!list) {
		fprintf(stderr, "faultline stat: /proc: %s\n", strerror(errno));
		return 1;
	}
	if (!a->json)
		printf("%8s  %-16s %12s %12s %12s %12s %16s\n", "PID",
		       "PROGRAM", "FILE-MAPS", "ANON-MAPS", "DEMAND-MAPS",
		       "KERNEL-MAPS", "RESIDENT");
	while ((d = readdir(list))) {
		uint32_t pid = pid_of(d->d_name);
		struct sample s;

		if (!pid || take_sample(pid, &s, true))
			continue;
		if (a->json)
			print_json(&s);
		else
			print_row(&s);
	}
	closedir(list);
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct args *a = state->input;
	unsigned long pid;
	char *end;

	switch (key) {
	case 'j':
		a->json = true;
		return 0;
	case 'w':
		a->watch = strtod(arg, &end);
		if (end == arg || *end || !(a->watch >= 0.01) ||
		    a->watch > 86400)
			argp_error(state,
				   "--watch=%s: not a number of seconds "
				   "from 0.01 to 86400",
				   arg);
		return 0;
	case ARGP_KEY_ARG:
		errno = 0;
		pid = strtoul(arg, &end, 10);
		if (!isdigit((unsigned char)*arg) || *end || errno || !pid ||
		    pid > INT32_MAX || a->pid)
			argp_error(state, "'%s' is not a process number", arg);
		a->pid = (uint32_t)pid;
		return 0;
	case ARGP_KEY_END:
		if (a->watch > 0 && !a->pid)
			argp_error(state, "--watch needs a process number");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int cmd_stat(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "watch", 'w', "SECONDS", 0,
		  "again and again, with rates, until the program ends", 0 },
		{ "json", 'j', NULL, 0, "one JSON object a line", 0 },
		{ 0 },
	};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "[PID]",
		.doc = "Show the counters of a running program, or a line for "
		       "each of yours; root sees those of all users.",
	};
	static char name[] = "faultline stat";
	struct args a = { 0 };

	argv[0] = name;
	argp_err_exit_status = EXIT_LAUNCHER;
	if (argp_parse(&argp, argc, argv, 0, NULL, &a))
		return EXIT_LAUNCHER;
	return a.pid ? show_one(&a) : show_all(&a);
}
