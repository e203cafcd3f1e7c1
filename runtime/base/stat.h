/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * stat.h - counters, one shard per CPU, and the page that shows them live.
 *
 * The counters are relaxed: each is exact by itself once its writers are done
 * (but for stat_count), no two are consistent with each other. A gauge may go below zero in one
 * shard; the sum over shards is right.
 *
 * They begin in private memory. stat_publish() makes a file under the user's
 * runtime directory and turns the writers over to its shared mapping; an
 * addition that was already under way goes to the private memory, which
 * stat_sum() counts too. So nothing is lost, and the live page may lack at most
 * one addition for each thread that was counting at that instant.
 *
 * Progress: stat_add is wait-free. stat_publish, stat_unpublish and
 * stat_fork_child are slow paths; one thread at a time publishes, the others
 * return at once.
 */
#ifndef FL_BASE_STAT_H
#define FL_BASE_STAT_H

#include "base/base.h"
#include "base/order.h"
#include "base/sys.h"
#include "cpu_arch.h"

enum stat_id {
#define STAT(name, kind, help) STAT_##name,
#include "base/stat.def"
#undef STAT
	STAT_NR,
};

struct stat_row {
	const char *name;
	const char *help;
	bool gauge;
};

extern const struct stat_row stat_rows[STAT_NR];

#define STAT_SHARD_MAX 256
#define STAT_MAGIC UINT64_C(0x31656e696c746c66) /* "fltline1" */
#define STAT_VERSION 1

/* A CPU's counters. Padded so that two CPUs never share a line. */
struct stat_shard {
	/* Relaxed: see the head of this file. */
	_Atomic(uint64_t) v[STAT_NR];
} FL_ALIGNED_CL;

/* The first page of a published file; the shards follow it. */
struct stat_header {
	uint64_t magic;
	uint32_t version;
	uint32_t nr_counters;
	uint64_t file_size;
	uint64_t shard_offset;
	uint32_t shard_stride;
	uint32_t nr_shards;
	uint64_t names_hash;
	uint64_t start_time; /* of the process, clock ticks after boot */
	uint32_t pid;
	uint32_t reserved;
	char program[64];
};

struct stats {
	_Atomic(struct stat_shard *) now;
	struct stat_shard *own; /* private memory, there from init to destroy */
	struct stat_header *pub; /* the shared mapping, or NULL */
	unsigned int mask;       /* shards - 1 */
	_Atomic(uint32_t) state; /* enum stat_pub, in stat.c */
	char runtime_dir[96];    /* $XDG_RUNTIME_DIR at start, or "" */
	char path[160];          /* of the published file, or "" */
};

/* stat_init - all zero, in one mapping. Returns 0 or -errno. */
int stat_init(struct stats *s);

/*
 * stat_set_env - remember XDG_RUNTIME_DIR for stat_publish, which may run while
 * another thread changes the environment. At start, before any thread.
 */
void stat_set_env(struct stats *s, char *const *envp);

/* stat_destroy - unpublish and unmap; nobody may count any more. */
void stat_destroy(struct stats *s);

static inline void stat_add(struct stats *s, enum stat_id id, uint64_t n)
{
	/* [MO:stat-now] pairs with stat_publish: the shards are mapped. */
	struct stat_shard *sh = ld_acq(&s->now);

	add_rlx(&sh[sys_cpu_id() & s->mask].v[id], n);
}

/* To a counter of the CPU the thread runs on (arch/generic/cpu_arch.h). */
static inline void stat_local_add(_Atomic(uint64_t) *counter, uint64_t n)
{
#ifdef cpu_local_add64
	cpu_local_add64((void *)counter, n);
#else
	add_rlx(counter, n);
#endif
}

/*
 * stat_count - for the mapping paths: cheaper, and may miss an addition when the
 * thread changes its CPU in that instant (arch/generic/cpu_arch.h). Not for
 * what something depends on.
 */
static inline void stat_count(struct stats *s, enum stat_id id, uint64_t n)
{
	/* [MO:stat-now] pairs with stat_publish: the shards are mapped. */
	struct stat_shard *sh = ld_acq(&s->now);

	stat_local_add(&sh[sys_cpu_id() & s->mask].v[id], n);
}

static inline void stat_sub(struct stats *s, enum stat_id id, uint64_t n)
{
	stat_add(s, id, 0 - n);
}

static inline void stat_inc(struct stats *s, enum stat_id id)
{
	stat_add(s, id, 1);
}

/* stat_sum - over all shards. A gauge caught mid-way below zero reads 0. */
uint64_t stat_sum(const struct stats *s, enum stat_id id);

/* stat_find - the counter of that name, or -ENOENT. */
int stat_find(const char *name);

/* stat_names_hash - tells pages of versions with other counters. */
uint64_t stat_names_hash(void);

/*
 * stat_publish - offer the counters to `faultline stat`. Cheap when it was
 * done or tried before.
 * Returns 0, -EALREADY, or the -errno of the first step that failed; counting
 * goes on in private memory then, and it is not tried again.
 */
int stat_publish(struct stats *s);

/* stat_published - has stat_publish been called (for the caller's fast path)? */
static inline bool stat_published(const struct stats *s)
{
	return ld_rlx(&s->state) != 0;
}

/* stat_unpublish - at exit: remove the file. Counting goes on unseen. */
void stat_unpublish(struct stats *s);

/*
 * stat_fork_child - in the child, before it counts: leave the parent's page.
 * Counts begin at zero, gauges go on from the parent's values.
 */
void stat_fork_child(struct stats *s);

/*
 * stat_dir - the directory of published files for this user, as an open
 * descriptor, its name in @path.
 * @runtime_dir: $XDG_RUNTIME_DIR or NULL; taken only if this user owns it.
 * @make: create it where it does not exist.
 * Of the user's runtime directory, /run (root only), /dev/shm and /tmp, the
 * first that has, or can be given, a directory of mode 0700 of this user.
 * Returns a descriptor or -errno; -EPERM where none can be trusted.
 */
int stat_dir(const char *runtime_dir, bool make, char *path, size_t size);

/* stat_proc_start - start time of @pid, or 0 where there is none. */
uint64_t stat_proc_start(uint32_t pid);

#endif
