// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * test_stat.c - counters: sums, threads, the published page, fork, and whose
 * directories are trusted.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/stat.h"

static struct stats st;
static char dir[64];

static void begin(void)
{
	char var[96];
	char *env[] = { var, NULL };

	strcpy(dir, "/tmp/fl-stat-XXXXXX");
	cr_assert(mkdtemp(dir));
	cr_assert_eq(stat_init(&st), 0);
	snprintf(var, sizeof(var), "XDG_RUNTIME_DIR=%s", dir);
	stat_set_env(&st, env);
}

static void end(void)
{
	char cmd[96];

	stat_destroy(&st);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	cr_assert_eq(system(cmd), 0);
}

TestSuite(stat, .init = begin, .fini = end);

Test(stat, names)
{
	for (int i = 0; i < STAT_NR; i++) {
		cr_assert_eq(stat_find(stat_rows[i].name), i);
		cr_assert(strlen(stat_rows[i].help) > 0);
	}
	cr_assert_eq(stat_find("nosuch"), -ENOENT);
	cr_assert(stat_rows[STAT_resident_bytes].gauge);
	cr_assert_not(stat_rows[STAT_maps_file].gauge);
	cr_assert_neq(stat_names_hash(), 0);
}

Test(stat, shards_do_not_share_lines)
{
	cr_assert_eq(sizeof(struct stat_shard) % FL_CACHELINE, 0);
	cr_assert_eq((uintptr_t)ld_rlx(&st.now) % FL_CACHELINE, 0);
	cr_assert_eq(sizeof(struct stat_header) <= FL_PAGE_SIZE, 1);
}

Test(stat, gauges)
{
	stat_add(&st, STAT_live_regions, 5);
	stat_sub(&st, STAT_live_regions, 2);
	cr_assert_eq(stat_sum(&st, STAT_live_regions), 3);
	stat_sub(&st, STAT_live_regions, 4);
	cr_assert_eq(stat_sum(&st, STAT_live_regions), 0);
	stat_add(&st, STAT_live_regions, 2);
	cr_assert_eq(stat_sum(&st, STAT_live_regions), 1);
}

#define ROUNDS 200000

static void *count(void *arg)
{
	(void)arg;
	for (int i = 0; i < ROUNDS; i++) {
		stat_inc(&st, STAT_maps_file);
		stat_add(&st, STAT_resident_bytes, 4096);
		stat_sub(&st, STAT_resident_bytes, 4096);
	}
	return NULL;
}

/* Nothing is lost when the counters move while threads count. */
Test(stat, publish_under_load)
{
	pthread_t t[4];

	for (int i = 0; i < 4; i++)
		cr_assert_eq(pthread_create(&t[i], NULL, count, NULL), 0);
	cr_assert_eq(stat_publish(&st), 0);
	cr_assert_eq(stat_publish(&st), -EALREADY);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	cr_assert_eq(stat_sum(&st, STAT_maps_file), 4 * ROUNDS);
	cr_assert_eq(stat_sum(&st, STAT_resident_bytes), 0);
}

static void file_path(char *path, size_t size)
{
	snprintf(path, size, "%s/faultline/%d", dir, (int)getpid());
}

Test(stat, published_file)
{
	struct stat_header h;
	struct stat_shard shard;
	struct stat info;
	char path[160];
	uint64_t sum = 0;
	int fd;

	stat_add(&st, STAT_maps_anon, 3);
	cr_assert_not(stat_published(&st));
	cr_assert_eq(stat_publish(&st), 0);
	cr_assert(stat_published(&st));
	stat_add(&st, STAT_maps_anon, 4);
	file_path(path, sizeof(path));
	cr_assert_str_eq(st.path, path);
	fd = open(path, O_RDONLY);
	cr_assert_geq(fd, 0);
	cr_assert_eq(fstat(fd, &info), 0);
	cr_assert_eq(info.st_mode & 07777, 0600);
	cr_assert_eq(read(fd, &h, sizeof(h)), sizeof(h));
	cr_assert_eq(h.magic, STAT_MAGIC);
	cr_assert_eq(h.version, STAT_VERSION);
	cr_assert_eq(h.file_size, (uint64_t)info.st_size);
	cr_assert_eq(h.pid, (uint32_t)getpid());
	cr_assert_eq(h.names_hash, stat_names_hash());
	cr_assert_neq(h.start_time, 0);
	cr_assert_eq(h.start_time, stat_proc_start((uint32_t)getpid()));
	cr_assert_str_eq(h.program, "test_stat");
	for (uint32_t i = 0; i < h.nr_shards; i++) {
		off_t at = (off_t)(h.shard_offset + i * h.shard_stride);

		cr_assert_eq(pread(fd, &shard, sizeof(shard), at),
			     sizeof(shard));
		sum += ld_rlx(&shard.v[STAT_maps_anon]);
	}
	close(fd);
	cr_assert_eq(sum, 7);
	stat_unpublish(&st);
	cr_assert_eq(access(path, F_OK), -1);
	stat_add(&st, STAT_maps_anon, 1);
	cr_assert_eq(stat_sum(&st, STAT_maps_anon), 8);
}

Test(stat, replaces_its_stale_file)
{
	char path[160];
	int fd;

	snprintf(path, sizeof(path), "%s/faultline", dir);
	cr_assert_eq(mkdir(path, 0700), 0);
	file_path(path, sizeof(path));
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	cr_assert_eq(write(fd, "old", 3), 3);
	close(fd);
	cr_assert_eq(stat_publish(&st), 0);
	cr_assert_str_eq(st.path, path);
}

/* A dead process's file goes when another is made; a live one's stays. */
Test(stat, prunes)
{
	char dead[160], live[160];
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	snprintf(dead, sizeof(dead), "%s/faultline", dir);
	cr_assert_eq(mkdir(dead, 0700), 0);
	snprintf(dead, sizeof(dead), "%s/faultline/%d", dir, (int)pid);
	snprintf(live, sizeof(live), "%s/faultline/%d", dir, (int)getppid());
	close(open(dead, O_CREAT | O_WRONLY, 0600));
	close(open(live, O_CREAT | O_WRONLY, 0600));
	cr_assert_eq(access(dead, F_OK), 0);
	cr_assert_eq(stat_publish(&st), 0);
	cr_assert_eq(access(dead, F_OK), -1);
	cr_assert_eq(access(live, F_OK), 0);
}

Test(stat, no_descriptor_stays_open)
{
	int before = dup(0), after;

	close(before);
	cr_assert_eq(stat_publish(&st), 0);
	after = dup(0);
	close(after);
	cr_assert_eq(before, after);
}

/* A directory others may enter, a link, or a file in its place: not used. */
Test(stat, untrusted_directory)
{
	char path[160], used[160];
	int fd;

	snprintf(path, sizeof(path), "%s/faultline", dir);
	cr_assert_eq(mkdir(path, 0700), 0);
	cr_assert_eq(chmod(path, 0750), 0);
	fd = stat_dir(dir, false, used, sizeof(used));
	cr_assert_neq(strcmp(used, path), 0);
	close(fd);
	cr_assert_eq(rmdir(path), 0);
	cr_assert_eq(symlink("/tmp", path), 0);
	fd = stat_dir(dir, true, used, sizeof(used));
	cr_assert_neq(strcmp(used, path), 0);
	close(fd);
	cr_assert_eq(unlink(path), 0);
	fd = stat_dir(dir, true, used, sizeof(used));
	cr_assert_geq(fd, 0);
	cr_assert_str_eq(used, path);
	close(fd);
}

/* RLIMIT_FSIZE would be a signal, not only an error. */
Test(stat, file_size_limit)
{
	struct rlimit old, lim;

	cr_assert_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
	lim = old;
	lim.rlim_cur = 1024;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &lim), 0);
	stat_add(&st, STAT_trims, 2);
	cr_expect_eq(stat_publish(&st), -EFBIG);
	setrlimit(RLIMIT_FSIZE, &old);
	cr_assert_eq(stat_sum(&st, STAT_trims), 2);
	cr_assert_eq(stat_publish(&st), -EALREADY);
}

static int child_checks(const char *parent_path)
{
	char path[160];

	stat_fork_child(&st);
	if (stat_sum(&st, STAT_maps_file) != 0)
		return 1;
	if (stat_sum(&st, STAT_live_regions) != 9)
		return 2;
	stat_add(&st, STAT_maps_file, 100);
	stat_unpublish(&st);
	if (access(parent_path, F_OK))
		return 3;
	if (stat_publish(&st))
		return 4;
	file_path(path, sizeof(path));
	if (strcmp(path, st.path) || !strcmp(path, parent_path))
		return 5;
	if (stat_sum(&st, STAT_maps_file) != 100)
		return 6;
	stat_destroy(&st);
	return access(path, F_OK) ? 0 : 7;
}

Test(stat, fork_child)
{
	char path[160];
	int status;
	pid_t pid;

	stat_add(&st, STAT_live_regions, 4);
	stat_add(&st, STAT_maps_file, 50);
	cr_assert_eq(stat_publish(&st), 0);
	stat_add(&st, STAT_live_regions, 5);
	file_path(path, sizeof(path));
	pid = fork();
	if (!pid)
		_exit(child_checks(path));
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status));
	cr_assert_eq(WEXITSTATUS(status), 0, "child: check %d",
		     WEXITSTATUS(status));
	cr_assert_eq(stat_sum(&st, STAT_maps_file), 50);
	cr_assert_eq(access(path, F_OK), 0);
}
