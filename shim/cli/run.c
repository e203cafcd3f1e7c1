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

/* A number as the table writes values of @row: 8388608 is 8M. */
static const char *as_value(const struct conf_row *row, uint64_t v, char *buf,
			    size_t size)
{
	struct conf c;

	conf_defaults(&c);
	snprintf(buf, size, "%llu", (unsigned long long)v);
	if (!conf_set(&c, row->name, buf))
		conf_get(&c, row->name, buf, size);
	return buf;
}

/* What @row would have taken. */
static void say_taken(unsigned int i, int err)
{
	static const struct {
		uint64_t min, max;
	} ranges[CONF_NR] = {
#define CONF(name, type, def, min, max, help) { (min), (max) },
#include "base/conf.def"
#undef CONF
	};
	const struct conf_row *row = &conf_rows[i];
	char least[32], most[32];

	if (err == -ERANGE)
		fprintf(stderr, " (%s to %s)\n",
			as_value(row, ranges[i].min, least, sizeof(least)),
			as_value(row, ranges[i].max, most, sizeof(most)));
	else if (!strcmp(row->type, "size"))
		fputs(" (a size: 4096, 256K, 2G)\n", stderr);
	else if (!strcmp(row->type, "bool"))
		fputs(" (0 or 1)\n", stderr);
	else
		fprintf(stderr, " (%s)\n", row->type);
}

static void check_option(unsigned int i, const char *value)
{
	const char *name = conf_rows[i].name;
	struct conf c;
	int err;

	conf_defaults(&c);
	err = conf_set(&c, name, value);
	if (err) {
		fprintf(stderr, "faultline run: --%s=%s: %s", name, value,
			conf_strerror(err));
		say_taken(i, err);
		exit(EXIT_LAUNCHER);
	}
	set_option(name, value);
}

/* The help of an option ends with its default. */
static char *with_default(int key, const char *text, void *input)
{
	const int i = key - KEY_FIRST_ROW;
	char value[32], *both;
	struct conf c;

	(void)input;
	if (i < 0 || i >= (int)CONF_NR || !text)
		return (char *)text;
	conf_defaults(&c);
	conf_get(&c, conf_rows[i].name, value, sizeof(value));
	if (asprintf(&both, "%s [%s]", text, value) < 0)
		return (char *)text;
	return both;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct run *r = state->input;

	if (key >= KEY_FIRST_ROW && key < KEY_FIRST_ROW + (int)CONF_NR) {
		check_option((unsigned int)(key - KEY_FIRST_ROW),
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
	/* It was there a moment ago: the kernel means what is to run it. */
	fprintf(stderr, "faultline run: %s: %s\n", path,
		errno == ENOENT ? "its interpreter is not there" :
				  strerror(errno));
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
		.doc = "Run PROGRAM with its mappings served by the pager. "
		       "Defaults are in brackets; faultline(7) tells more."
		       "\vExit status: the program's; 125 when the launcher "
		       "itself fails, 126 when the program cannot be run or "
		       "the preload could do nothing for it, 127 when it is "
		       "not found.",
		.help_filter = with_default,
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
