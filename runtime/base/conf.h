/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * conf.h - options: defaults, text form, where they are read from.
 *
 * Precedence, low to high: defaults, system profiles, the user's profiles,
 * the environment. The launcher's flags arrive as environment. What is unknown
 * or out of range is reported once and ignored; the rest stands.
 *
 * Nothing here allocates, uses stdio or changes errno; the caller serializes
 * writers. Nothing is read in secure-execution mode.
 */
#ifndef FL_BASE_CONF_H
#define FL_BASE_CONF_H

#include "base/base.h"
#include "base/log.h"

#define CONF_KIB(n) ((uint64_t)(n) << 10)
#define CONF_MIB(n) ((uint64_t)(n) << 20)
#define CONF_TIB(n) ((uint64_t)(n) << 40)

enum conf_shared {
	CONF_SHARED_KERNEL,
	CONF_SHARED_SNAPSHOT,
};

enum conf_fault {
	CONF_FAULT_AUTO,
	CONF_FAULT_SIGNAL,
	CONF_FAULT_SERVICE,
	CONF_FAULT_HYBRID,
	CONF_FAULT_OFF,
};

enum conf_engine {
	CONF_ENGINE_AUTO,
	CONF_ENGINE_PREAD,
	CONF_ENGINE_IO_URING,
	CONF_ENGINE_AIO,
};

enum conf_direct {
	CONF_DIRECT_NO,
	CONF_DIRECT_YES,
	CONF_DIRECT_AUTO,
};

enum conf_large {
	CONF_LARGE_AUTO,
	CONF_LARGE_KERNEL,
	CONF_LARGE_DEMAND,
};

enum conf_eof {
	CONF_EOF_BUS,
	CONF_EOF_ZERO,
};

/* The C type of each option type. */
#define CONF_C_size uint64_t
#define CONF_C_percent uint32_t
#define CONF_C_bool bool
#define CONF_C_count uint32_t
#define CONF_C_shared uint32_t /* enum conf_shared, and so on */
#define CONF_C_log uint32_t    /* enum log_level */
#define CONF_C_fault uint32_t
#define CONF_C_engine uint32_t
#define CONF_C_direct uint32_t
#define CONF_C_large uint32_t
#define CONF_C_eof uint32_t

struct conf {
#define CONF(name, type, def, min, max, help) CONF_C_##type name;
#include "base/conf.def"
#undef CONF
};

enum conf_id {
#define CONF(name, type, def, min, max, help) CONF_ID_##name,
#include "base/conf.def"
#undef CONF
	CONF_NR,
};

/* What help texts and the launcher need of a row. */
struct conf_row {
	const char *name;
	const char *type; /* "size", "percent", "count", "bool" or the
			   * words, a|b */
	const char *help;
};

extern const struct conf_row conf_rows[CONF_NR];

void conf_defaults(struct conf *c);

/*
 * conf_set - set option @name from text.
 * Returns 0; -ENOENT unknown name; -EINVAL not of the option's type; -ERANGE.
 * @c is unchanged on error.
 */
int conf_set(struct conf *c, const char *name, const char *value);

/* conf_get - as text. Returns its length; -ENOENT; -ENOSPC (@buf is ""). */
int conf_get(const struct conf *c, const char *name, char *buf, size_t size);

/*
 * conf_parse_list - "name=value,name=value"; NULL and "" are empty lists.
 * @err: told of each item that was not taken; may be NULL.
 * A bool may stand without "=1". Every good item is taken.
 * Returns 0 or the first item's error.
 */
int conf_parse_list(struct conf *c, const char *list,
		    void (*err)(const char *name, const char *value, int err));

/* A sentence for an error of conf_set. */
const char *conf_strerror(int err);

/*
 * conf_load_env - FAULTLINE_<NAME> of @envp.
 * Returns the number of variables that were reported and ignored.
 */
int conf_load_env(struct conf *c, char *const *envp);

/*
 * conf_load_profiles - profile files that match the program.
 * @names: the names the program goes by (executable, argv[0]), NULL-terminated.
 * @envp: HOME, XDG_CONFIG_HOME, FAULTLINE_PROFILE_DIR.
 * Returns the number of lines and files that were reported and ignored.
 */
int conf_load_profiles(struct conf *c, const char *const *names,
		       char *const *envp);

/*
 * conf_load_file - one profile file below @dirfd (or AT_FDCWD), which must be
 * a regular file of root or the user that nobody else may write.
 * Returns as conf_load_profiles, or -errno when it cannot be opened.
 */
int conf_load_file(struct conf *c, const char *const *names, int dirfd,
		   const char *path);

/*
 * conf_load - all of the above in order, for the running program, and the
 * message level with it. Defaults only in secure-execution mode.
 */
void conf_load(struct conf *c, char *const *envp);

/*
 * conf_budget - the memory budget in bytes: mem, or a quarter of RAM or of the
 * tightest cgroup limit above us. Reads /proc and /sys when mem is 0.
 */
uint64_t conf_budget(const struct conf *c);

#endif
