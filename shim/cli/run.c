// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * run.c - `faultline run`: sets the environment of the preload and becomes the
 * program, so exit status and signals are the program's own.
 */
#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "base/conf.h"

#define KEY_PROFILE 1
#define KEY_FIRST_ROW 0x1000

struct run {
	char **program; /* PROGRAM ARGUMENT..., NULL-terminated */
};

/* Where this executable is, without its name. */
static bool own_dir(char *dir, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", dir, size - 1);
	char *slash;

	if (n <= 0)
		return false;
	dir[n] = '\0';
	slash = strrchr(dir, '/');
	if (!slash)
		return false;
	*slash = '\0';
	return true;
}

bool find_preload(char *path, size_t size)
{
	static const char *const places[] = {
		"",
		"/../" FL_LIBDIR,
	};
	char dir[PATH_MAX];

	for (size_t i = 0; own_dir(dir, sizeof(dir)) && i < 2; i++) {
		char try[2 * PATH_MAX];

		snprintf(try, sizeof(try), "%s%s/libfaultline-preload.so", dir,
			 places[i]);
		if (!access(try, R_OK) && realpath(try, dir) &&
		    strlen(dir) < size) {
			strcpy(path, dir);
			return true;
		}
	}
	snprintf(path, size, "%s", FL_PRELOAD_PATH);
	return !access(path, R_OK);
}

bool find_profiles(char *path, size_t size)
{
	static const char *const places[] = {
		"/profiles.d",
		"/../share/faultline/profiles.d",
	};
	char dir[PATH_MAX];

	if (!access(FL_DATADIR "/profiles.d", R_OK))
		return false;
	for (size_t i = 0; own_dir(dir, sizeof(dir)) && i < 2; i++) {
		char try[2 * PATH_MAX];

		snprintf(try, sizeof(try), "%s%s", dir, places[i]);
		if (!access(try, R_OK) && realpath(try, dir) &&
		    strlen(dir) < size) {
			strcpy(path, dir);
			return true;
		}
	}
	return false;
}

/* FAULTLINE_ and the option's name in capitals. */
static void set_option(const char *name, const char *value)
{
	char var[64] = "FAULTLINE_";
	size_t n = strlen(var);

	for (; *name && n + 1 < sizeof(var); name++)
		var[n++] = *name == '-' ? '_' :
			   *name >= 'a' && *name <= 'z' ?
					  (char)(*name - 'a' + 'A') :
					  *name;
	var[n] = '\0';
	setenv(var, value, 1);
}

static void check_option(struct argp_state *state, const struct conf_row *row,
			 const char *value)
{
	struct conf c;
	int err;

	conf_defaults(&c);
	err = conf_set(&c, row->name, value);
	if (err) {
		fprintf(stderr, "faultline run: --%s=%s: %s", row->name, value,
			conf_strerror(err));
		fprintf(stderr, err == -EINVAL ? " (%s)\n" : "\n", row->type);
		exit(EXIT_LAUNCHER);
	}
	(void)state;
	set_option(row->name, value);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct run *r = state->input;

	if (key >= KEY_FIRST_ROW && key < KEY_FIRST_ROW + (int)CONF_NR) {
		check_option(state, &conf_rows[key - KEY_FIRST_ROW],
			     arg ? arg : "1");
		return 0;
	}
	switch (key) {
	case KEY_PROFILE:
		setenv("FAULTLINE_PROFILE", arg, 1);
		return 0;
	case ARGP_KEY_ARG:
		/* From here on everything is the program's. */
		r->program = &state->argv[state->next - 1];
		state->next = state->argc;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "there is no program to run");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* The table's rows as flags; names with '_' may be spelled with '-' too. */
static void make_options(struct argp_option *opt, char (*dashed)[32])
{
	for (int i = 0; i < (int)CONF_NR; i++) {
		const struct conf_row *row = &conf_rows[i];
		char *p = dashed[i];

		*opt++ = (struct argp_option){
			.name = row->name,
			.key = KEY_FIRST_ROW + i,
			.arg = row->type,
			.flags = strcmp(row->type, "bool") ?
					 0 :
					 OPTION_ARG_OPTIONAL,
			.doc = row->help,
		};
		if (!strchr(row->name, '_'))
			continue;
		snprintf(p, sizeof(dashed[i]), "%s", row->name);
		for (; *p; p++)
			if (*p == '_')
				*p = '-';
		*opt++ = (struct argp_option){
			.name = dashed[i],
			.flags = OPTION_ALIAS | OPTION_HIDDEN,
		};
	}
	*opt++ = (struct argp_option){
		.name = "profile",
		.key = KEY_PROFILE,
		.arg = "name",
		.doc = "use the profile of that name instead of the program's;"
		       " none: no profile",
	};
	*opt = (struct argp_option){ 0 };
}

/* Ours first, then what the user had; once, when run within run. */
static int set_preload(const char *lib)
{
	const char *old = getenv("LD_PRELOAD");
	size_t n = strlen(lib);
	const char *at;
	char *both;

	if (strpbrk(lib, ": \t")) {
		fprintf(stderr,
			"faultline run: LD_PRELOAD cannot hold the "
			"blank or colon in '%s'\n",
			lib);
		return EXIT_LAUNCHER;
	}
	at = old ? strstr(old, lib) : NULL;
	if (at && (at == old || at[-1] == ':' || at[-1] == ' ') &&
	    (!at[n] || at[n] == ':' || at[n] == ' '))
		return 0;
	if (asprintf(&both, "%s%s%s", lib, old && *old ? ":" : "",
		     old ? old : "") < 0 ||
	    setenv("LD_PRELOAD", both, 1)) {
		perror("faultline run");
		return EXIT_LAUNCHER;
	}
	free(both);
	return 0;
}

static int become(struct run *r, const char *path)
{
	char lib[PATH_MAX], profiles[PATH_MAX];
	int ret;

	if (!find_preload(lib, sizeof(lib))) {
		fprintf(stderr, "faultline run: the library %s is missing\n",
			lib);
		return EXIT_LAUNCHER;
	}
	ret = set_preload(lib);
	if (ret)
		return ret;
	if (!getenv("FAULTLINE_PROFILE_DIR") &&
	    find_profiles(profiles, sizeof(profiles)))
		setenv("FAULTLINE_PROFILE_DIR", profiles, 1);
	execv(path, r->program);
	/* A file without '#!' that the shell would run. */
	if (errno == ENOEXEC)
		execvp(r->program[0], r->program);
	fprintf(stderr, "faultline run: %s: %s\n", path, strerror(errno));
	return errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

int cmd_run(int argc, char **argv)
{
	static char dashed[CONF_NR][32];
	static char name[] = "faultline run";
	struct argp_option options[2 * CONF_NR + 2];
	struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "PROGRAM [ARGUMENT...]",
		.doc = "Run PROGRAM with its mappings served by the pager."
		       "\vExit status: the program's; 125 when the launcher "
		       "itself fails, 126 when the program cannot be run or "
		       "the preload could do nothing for it, 127 when it is "
		       "not found.",
	};
	struct run r = { NULL };
	char path[PATH_MAX];
	int ret;

	make_options(options, dashed);
	argv[0] = name;
	argp_err_exit_status = EXIT_LAUNCHER;
	if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &r))
		return EXIT_LAUNCHER;
	ret = target_check(r.program[0], path, sizeof(path));
	return ret ? ret : become(&r, path);
}
