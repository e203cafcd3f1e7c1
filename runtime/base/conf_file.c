// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * conf_file.c - profile files, and the whole order of loading.
 *
 * A profile file is lines of "name = value" under "[program ...]" headings;
 * "[*]" is every program; '#' starts a comment. A file or directory that
 * others than root and the user could have written is not read.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include "base/conf.h"
#include "base/file.h"
#include "base/sys.h"
#include "base/ban.h"

#ifndef FL_DATADIR
#define FL_DATADIR "/usr/share/faultline"
#endif
#define PROFILES_SHIPPED FL_DATADIR "/profiles.d"
#define PROFILES_SYSTEM "/etc/faultline/profiles.d"

#define FILE_MAX 8192
#define FILES_MAX 64
#define NAME_LEN 64

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static char *trim(char *s)
{
	char *end = s;

	while (is_space(*s))
		s++;
	for (char *p = s; *p; p++)
		if (!is_space(*p))
			end = p + 1;
	if (end >= s)
		*end = '\0';
	return s;
}

/* 0 when only root and this user can have written what @fd is. */
static long check_trust(int fd, uint32_t type)
{
	struct statx st;
	long err = sys_call5(__NR_statx, fd, "", AT_EMPTY_PATH,
			     STATX_BASIC_STATS, &st);

	if (err)
		return err;
	if ((st.stx_mode & S_IFMT) != type)
		return -EINVAL;
	if (st.stx_uid && st.stx_uid != (uint32_t)sys_call0(__NR_geteuid))
		return -EPERM;
	return st.stx_mode & 022 ? -EPERM : 0;
}

static const char *trust_strerror(long err)
{
	switch (err) {
	case -EPERM:
		return "others than root and you can write it";
	case -EINVAL:
	case -ELOOP:
		return "it is not a regular file";
	case -EFBIG:
		return "it is larger than 8 KiB";
	default:
		return "it cannot be read";
	}
}

/* Does one of the blank-separated words of @list name the program? */
static bool section_matches(const char *list, const char *const *names)
{
	while (*list) {
		size_t n = 0;

		while (is_space(*list))
			list++;
		while (list[n] && !is_space(list[n]))
			n++;
		if (n == 1 && *list == '*')
			return true;
		for (unsigned int i = 0; n && names[i]; i++)
			if (!__builtin_strncmp(names[i], list, n) &&
			    !names[i][n])
				return true;
		list += n;
	}
	return false;
}

/* Where a line stands, for its message. */
struct place {
	const char *file;
	unsigned int line;
};

static int apply_line(struct conf *c, char *line, const struct place *at)
{
	const char *why = "there is no '='";
	char *eq = line;
	int err;

	while (*eq && *eq != '=')
		eq++;
	if (*eq) {
		*eq = '\0';
		line = trim(line);
		err = conf_set(c, line, trim(eq + 1));
		if (!err)
			return 0;
		why = conf_strerror(err);
	}
	fl_log(FL_LOG_WARN, "%s:%u: '%s' is ignored: %s", at->file, at->line,
	       line, why);
	return 1;
}

static int parse_text(struct conf *c, const char *const *names, char *text,
		      const char *file)
{
	struct place at = { file, 0 };
	bool active = false;
	int bad = 0;

	while (*text) {
		char *line = text;
		char *end, *hash;

		while (*text && *text != '\n')
			text++;
		if (*text)
			*text++ = '\0';
		at.line++;
		for (hash = line; *hash && *hash != '#'; hash++)
			;
		*hash = '\0';
		line = trim(line);
		if (*line != '[') {
			if (*line && active)
				bad += apply_line(c, line, &at);
			continue;
		}
		for (end = line; *end && *end != ']'; end++)
			;
		active = *end && !end[1];
		if (!active) {
			fl_log(FL_LOG_WARN, "%s:%u: the heading is malformed",
			       file, at.line);
			bad++;
			continue;
		}
		*end = '\0';
		active = section_matches(line + 1, names);
	}
	return bad;
}

int conf_load_file(struct conf *c, const char *const *names, int dirfd,
		   const char *path)
{
	char text[FILE_MAX + 2];
	/* O_NONBLOCK: a FIFO must not stop the program. */
	long fd = sys_openat(
		dirfd, path,
		O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
	long err = fd;

	if (fd == -ENOENT)
		return -ENOENT;
	if (fd >= 0) {
		err = check_trust((int)fd, S_IFREG);
		if (!err)
			err = file_read_fd((int)fd, text, sizeof(text));
		if (err > FILE_MAX)
			err = -EFBIG;
		sys_close((int)fd);
	}
	if (err < 0) {
		fl_log(FL_LOG_WARN, "profile %s is ignored: %s", path,
		       trust_strerror(err));
		return (int)err;
	}
	return parse_text(c, names, text, path);
}

struct names_list {
	unsigned int n;
	char name[FILES_MAX][NAME_LEN];
};

/* Insert sorted, so that files apply in the same order everywhere. */
static void add_name(struct names_list *l, const char *name)
{
	size_t len = __builtin_strlen(name);
	unsigned int i = l->n;

	if (name[0] == '.' || len >= NAME_LEN || len < 6 ||
	    !text_eq(name + len - 5, ".conf") || l->n == FILES_MAX)
		return;
	while (i && __builtin_strcmp(l->name[i - 1], name) > 0) {
		__builtin_memcpy(l->name[i], l->name[i - 1], NAME_LEN);
		i--;
	}
	__builtin_memcpy(l->name[i], name, len + 1);
	l->n++;
}

static void list_dir(int fd, struct names_list *l)
{
	char buf[2048] __attribute__((aligned(8)));
	long n;

	while ((n = sys_call3(__NR_getdents64, fd, buf, sizeof(buf))) > 0) {
		for (long at = 0; at < n;) {
			const struct dirent64 *d = (const void *)(buf + at);

			add_name(l, d->d_name);
			at += d->d_reclen;
		}
	}
}

static int load_dir(struct conf *c, const char *const *names, const char *dir)
{
	struct names_list list = { .n = 0 };
	long fd = sys_openat(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC,
			     0);
	long err;
	int bad = 0;

	if (fd < 0)
		return 0;
	err = check_trust((int)fd, S_IFDIR);
	if (err) {
		fl_log(FL_LOG_WARN, "profiles of %s are ignored: %s", dir,
		       trust_strerror(err));
		bad++;
	} else {
		list_dir((int)fd, &list);
	}
	for (unsigned int i = 0; i < list.n; i++) {
		int ret = conf_load_file(c, names, (int)fd, list.name[i]);

		bad += ret < 0 ? 1 : ret;
	}
	sys_close((int)fd);
	return bad;
}

int conf_load_profiles(struct conf *c, const char *const *names,
		       char *const *envp)
{
	const char *shipped = env_find(envp, "FAULTLINE_PROFILE_DIR");
	const char *config = env_find(envp, "XDG_CONFIG_HOME");
	const char *home = env_find(envp, "HOME");
	char path[512];
	int bad;

	bad = load_dir(c, names, shipped ? shipped : PROFILES_SHIPPED);
	bad += load_dir(c, names, PROFILES_SYSTEM);
	path[0] = '\0';
	if (config && config[0] == '/')
		log_fmt(path, sizeof(path), "%s/faultline", config);
	else if (home && home[0] == '/')
		log_fmt(path, sizeof(path), "%s/.config/faultline", home);
	if (path[0])
		bad += load_dir(c, names, path);
	return bad;
}

static const char *base_name(const char *path)
{
	const char *base = path;

	for (; *path; path++)
		if (*path == '/')
			base = path + 1;
	return base;
}

/* The environment's message level holds for the messages of loading, too. */
static void early_level(char *const *envp)
{
	const char *text = env_find(envp, "FAULTLINE_LOG");
	struct conf probe;

	conf_defaults(&probe);
	if (text)
		conf_set(&probe, "log", text);
	log_set_level((enum log_level)probe.log);
}

void conf_load(struct conf *c, char *const *envp)
{
	const char *profile = env_find(envp, "FAULTLINE_PROFILE");
	const char *names[3] = { profile, NULL, NULL };
	char exe[512];
	long n;

	conf_defaults(c);
	if (getauxval(AT_SECURE)) {
		log_set_level((enum log_level)c->log);
		return;
	}
	early_level(envp);
	if (!profile) {
		n = sys_call4(__NR_readlinkat, AT_FDCWD, "/proc/self/exe", exe,
			      sizeof(exe) - 1);
		exe[n > 0 ? n : 0] = '\0';
		names[0] = base_name(exe);
		names[1] = program_invocation_short_name;
	}
	if (!profile || !text_eq(profile, "none"))
		conf_load_profiles(c, names, envp);
	conf_load_env(c, envp);
	log_set_level((enum log_level)c->log);
}
