// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * stat.c - counter memory, the published page, its directory.
 *
 * States of stats.state: PUB_NONE -> PUB_TRIED, by the one thread whose
 * compare-and-swap wins; back to PUB_NONE only in the child of a fork, which
 * has one thread. `now` moves from `own` to the published shards once, and
 * back in unpublish; both mappings stay until stat_destroy, so a late adder
 * always finds memory under its pointer.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/stat.h"
#include "base/ban.h"

enum stat_pub {
	PUB_NONE,
	PUB_TRIED,
};

const struct stat_row stat_rows[STAT_NR] = {
#define STAT(name, kind, help) { #name, help, #kind[0] == 'g' },
#include "base/stat.def"
#undef STAT
};

static unsigned int count_cpus(void)
{
	char buf[64];
	uint64_t last = 63;
	const char *p = buf;

	if (file_read(AT_FDCWD, "/sys/devices/system/cpu/possible", buf,
		      sizeof(buf)) <= 0)
		return 64;
	/* "0-3" or "0,2-5": the last number counts. */
	while (*p) {
		const char *end;
		uint64_t v = text_u64(p, &end);

		if (end != p)
			last = v;
		p = end == p ? p + 1 : end;
	}
	return last < STAT_SHARD_MAX ? (unsigned int)last + 1 : STAT_SHARD_MAX;
}

static size_t shards_size(const struct stats *s)
{
	return page_align_up(((size_t)s->mask + 1) * sizeof(struct stat_shard));
}

int stat_init(struct stats *s)
{
	unsigned int cpus = count_cpus();
	unsigned int shards = 1;
	void *p;

	__builtin_memset(s, 0, sizeof(*s));
	while (shards < cpus)
		shards <<= 1;
	s->mask = shards - 1;
	p = sys_mmap(NULL, shards_size(s), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (is_err(p))
		return (int)ptr_err(p);
	s->own = p;
	st_rlx(&s->now, s->own);
	return 0;
}

void stat_set_env(struct stats *s, char *const *envp)
{
	const char *dir = env_find(envp, "XDG_RUNTIME_DIR");
	size_t n = 0;

	s->runtime_dir[0] = '\0';
	if (!dir || dir[0] != '/')
		return;
	while (dir[n])
		n++;
	if (n < sizeof(s->runtime_dir))
		__builtin_memcpy(s->runtime_dir, dir, n + 1);
}

static uint64_t sum_shards(struct stat_shard *sh, unsigned int mask,
			   enum stat_id id)
{
	uint64_t v = 0;

	for (unsigned int i = 0; i <= mask; i++)
		v += ld_rlx(&sh[i].v[id]);
	return v;
}

uint64_t stat_sum(const struct stats *s, enum stat_id id)
{
	/* [MO:stat-now] pairs with stat_publish: the shards are mapped. */
	struct stat_shard *sh = ld_acq(&s->now);
	uint64_t v = sum_shards(s->own, s->mask, id);

	if (sh != s->own)
		v += sum_shards(sh, s->mask, id);
	if (stat_rows[id].gauge && (int64_t)v < 0)
		return 0;
	return v;
}

int stat_find(const char *name)
{
	for (int i = 0; i < STAT_NR; i++)
		if (text_eq(stat_rows[i].name, name))
			return i;
	return -ENOENT;
}

/* FNV-1a over the names, each with its terminator. */
uint64_t stat_names_hash(void)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (unsigned int i = 0; i < STAT_NR; i++) {
		const char *p = stat_rows[i].name;

		do {
			h = (h ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
		} while (*p++);
	}
	return h;
}

uint64_t stat_proc_start(uint32_t pid)
{
	char path[40], buf[1024];
	const char *p, *end;
	long n;

	log_fmt(path, sizeof(path), "/proc/%u/stat", pid);
	n = file_read(AT_FDCWD, path, buf, sizeof(buf));
	if (n <= 0)
		return 0;
	/* The name may hold anything; the fields follow the last ')'. */
	for (p = buf + n; p > buf && *p != ')'; p--)
		;
	for (unsigned int field = 2; field < 22 && *p; p++)
		if (*p == ' ')
			field++;
	return text_u64(p, &end);
}

/* A directory of ours that nobody else may enter, or -errno. */
static long open_dir(const char *path, bool make)
{
	struct statx st;
	long fd, err;

	if (make)
		sys_call3(__NR_mkdirat, AT_FDCWD, path, 0700);
	fd = sys_openat(AT_FDCWD, path,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
	if (fd < 0)
		return fd;
	err = sys_call5(__NR_statx, fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS,
			&st);
	if (!err && (st.stx_uid != (uint32_t)sys_call0(__NR_geteuid) ||
		     (st.stx_mode & 077)))
		err = -EPERM;
	if (err) {
		sys_close((int)fd);
		return err;
	}
	return fd;
}

static bool owned_by_us(const char *path)
{
	struct statx st;

	return !sys_call5(__NR_statx, AT_FDCWD, path, AT_SYMLINK_NOFOLLOW,
			  STATX_BASIC_STATS, &st) &&
	       S_ISDIR(st.stx_mode) &&
	       st.stx_uid == (uint32_t)sys_call0(__NR_geteuid);
}

int stat_dir(const char *runtime_dir, bool make, char *path, size_t size)
{
	unsigned int uid = (unsigned int)sys_call0(__NR_geteuid);
	long fd = -ENOENT, ret;

	for (unsigned int i = 0; i < 5 && fd < 0; i++) {
		path[0] = '\0';
		if (i == 0 && runtime_dir && owned_by_us(runtime_dir))
			log_fmt(path, size, "%s/faultline", runtime_dir);
		if (i == 1) {
			log_fmt(path, size, "/run/user/%u", uid);
			if (owned_by_us(path))
				log_fmt(path, size, "/run/user/%u/faultline",
					uid);
			else
				path[0] = '\0';
		}
		if (i == 2 && uid == 0)
			log_fmt(path, size, "/run/faultline");
		if (i == 3)
			log_fmt(path, size, "/dev/shm/faultline-%u", uid);
		if (i == 4)
			log_fmt(path, size, "/tmp/faultline-%u", uid);
		if (!path[0])
			continue;
		ret = open_dir(path, make);
		if (ret >= 0 || fd != -EPERM)
			fd = ret;
	}
	return (int)fd;
}

/*
 * Files of processes that left without running destructors. Each new file
 * takes some old ones away, so they do not pile up.
 */
static void prune_some(int dir)
{
	char buf[1024] __attribute__((aligned(8)));
	long n = sys_call3(__NR_getdents64, dir, buf, sizeof(buf));

	for (long at = 0; at < n;) {
		const struct dirent64 *d = (const void *)(buf + at);
		const char *end;
		uint64_t pid = text_u64(d->d_name, &end);

		if (pid && !*end && pid <= INT32_MAX &&
		    sys_call2(__NR_kill, pid, 0) == -ESRCH)
			sys_call3(__NR_unlinkat, dir, d->d_name, 0);
		at += d->d_reclen;
	}
}

static long create_file(int dir, const char *name)
{
	int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	long fd = sys_openat(dir, name, flags, 0600);

	if (fd == -EEXIST) {
		/* Left by the program this process ran before exec, or by a
		 * dead process whose number we have. */
		sys_call3(__NR_unlinkat, dir, name, 0);
		fd = sys_openat(dir, name, flags, 0600);
	}
	return fd;
}

static void fill_header(struct stat_header *h, const struct stats *s,
			size_t size)
{
	uint32_t pid = (uint32_t)sys_getpid();
	size_t n = 0;

	*h = (struct stat_header){
		.magic = STAT_MAGIC,
		.version = STAT_VERSION,
		.nr_counters = STAT_NR,
		.file_size = size,
		.shard_offset = FL_PAGE_SIZE,
		.shard_stride = sizeof(struct stat_shard),
		.nr_shards = s->mask + 1,
		.names_hash = stat_names_hash(),
		.start_time = stat_proc_start(pid),
		.pid = pid,
	};
	if (file_read(AT_FDCWD, "/proc/self/comm", h->program,
		      sizeof(h->program)) < 0)
		h->program[0] = '\0';
	while (h->program[n] && h->program[n] != '\n')
		n++;
	h->program[n] = '\0';
}

/* Growing a file over RLIMIT_FSIZE is not only an error but a signal. */
static bool may_grow_to(size_t size)
{
	struct rlimit64 lim;

	return sys_call4(__NR_prlimit64, 0, RLIMIT_FSIZE, NULL, &lim) == 0 &&
	       lim.rlim_cur >= size;
}

/* Returns the mapping of a new published file, or an error pointer. */
static void *make_page(struct stats *s, int dir, const char *name)
{
	size_t size = FL_PAGE_SIZE + shards_size(s);
	struct stat_header h;
	void *p;
	long fd, err;

	if (!may_grow_to(size))
		return err_ptr(-EFBIG);
	fd = create_file(dir, name);
	if (fd < 0)
		return err_ptr(fd);
	/* Blocks now, or a full file system is SIGBUS later. */
	err = sys_call4(__NR_fallocate, fd, 0, 0, size);
	if (!err) {
		/* One write: a reader finds no header or the whole of it. */
		fill_header(&h, s, size);
		err = sys_write((int)fd, &h, sizeof(h));
		if (err >= 0)
			err = err == sizeof(h) ? 0 : -EIO;
	}
	p = err ? err_ptr(err) :
		  sys_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED,
			   (int)fd, 0);
	sys_close((int)fd);
	if (is_err(p))
		sys_call3(__NR_unlinkat, dir, name, 0);
	return p;
}

static struct stat_shard *pub_shards(const struct stats *s)
{
	return (void *)((char *)s->pub + FL_PAGE_SIZE);
}

/* What was counted so far moves over, by exchange: nothing counts twice. */
static void move_counts(struct stat_shard *from, struct stat_shard *to,
			unsigned int mask)
{
	for (unsigned int i = 0; i <= mask; i++)
		for (unsigned int id = 0; id < STAT_NR; id++)
			add_rlx(&to[i].v[id], xchg_rlx(&from[i].v[id], 0u));
}

static int publish(struct stats *s)
{
	uint32_t none = PUB_NONE;
	char path[sizeof(s->path)], name[16];
	void *p;
	int dir;

	if (!cas_rlx(&s->state, &none, (uint32_t)PUB_TRIED))
		return -EALREADY;
	dir = stat_dir(s->runtime_dir[0] ? s->runtime_dir : NULL, true, path,
		       sizeof(path) - sizeof(name));
	if (dir < 0)
		return dir;
	prune_some(dir);
	log_fmt(name, sizeof(name), "%u", (unsigned int)sys_getpid());
	p = make_page(s, dir, name);
	sys_close(dir);
	if (is_err(p))
		return (int)ptr_err(p);
	log_fmt(s->path, sizeof(s->path), "%s/%s", path, name);
	s->pub = p;
	/* [MO:stat-now] the mapping and `pub`, for stat_add and stat_sum. */
	st_rel(&s->now, pub_shards(s));
	move_counts(s->own, pub_shards(s), s->mask);
	return 0;
}

int stat_publish(struct stats *s)
{
	int ret;

	if (ld_rlx(&s->state) != PUB_NONE)
		return -EALREADY;
	/* A handler that jumped out would leave a descriptor open. */
	signals_off();
	ret = publish(s);
	signals_on();
	return ret;
}

void stat_unpublish(struct stats *s)
{
	/* A child that has not published, or a copy made by a raw clone, must
	 * not remove its parent's file. */
	if (!s->pub || !s->path[0] || s->pub->pid != (uint32_t)sys_getpid())
		return;
	sys_call3(__NR_unlinkat, AT_FDCWD, s->path, 0);
	s->path[0] = '\0';
}

void stat_fork_child(struct stats *s)
{
	uint64_t gauges[STAT_NR];

	for (unsigned int id = 0; id < STAT_NR; id++)
		gauges[id] = stat_rows[id].gauge ? stat_sum(s, id) : 0;
	st_rlx(&s->now, s->own);
	if (s->pub)
		sys_munmap(s->pub, FL_PAGE_SIZE + shards_size(s));
	s->pub = NULL;
	s->path[0] = '\0';
	for (unsigned int i = 0; i <= s->mask; i++)
		for (unsigned int id = 0; id < STAT_NR; id++)
			st_rlx(&s->own[i].v[id], i ? 0 : gauges[id]);
	st_rlx(&s->state, (uint32_t)PUB_NONE);
}

void stat_destroy(struct stats *s)
{
	stat_unpublish(s);
	if (s->pub)
		sys_munmap(s->pub, FL_PAGE_SIZE + shards_size(s));
	sys_munmap(s->own, shards_size(s));
	s->pub = NULL;
	s->own = NULL;
}
