/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * cli.h - what the files of the launcher share.
 *
 * main.c picks the command; run.c is `run` and target.c its look at the
 * program; doctor.c, probe.c and probe_page.c are `doctor`; live.c is `stat`.
 */
#ifndef FL_CLI_H
#define FL_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As env(1): the launcher failed, the program cannot be run, there is none. */
#define EXIT_LAUNCHER 125
#define EXIT_CANNOT_RUN 126
#define EXIT_NOT_FOUND 127

int cmd_run(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_stat(int argc, char **argv);

/* The preload library: beside the launcher, below its prefix, or where it was
 * to be installed. Returns false (and the last place tried) when absent. */
bool find_preload(char *path, size_t size);

/* The shipped profiles of a build tree or a moved installation, for
 * FAULTLINE_PROFILE_DIR; false where the built-in place will do. */
bool find_profiles(char *path, size_t size);

/*
 * target_check - can the preload work in this program?
 * @file: as given by the user; looked up in PATH when without a slash.
 * @path: where it was found.
 * Returns 0 or the exit status after having said why on standard error.
 */
int target_check(const char *file, char *path, size_t size);

/* probe.c, probe_page.c: one line of the doctor's report each. */
enum verdict {
	PROBE_OK,   /* works */
	PROBE_NOTE, /* works less well, or matters for what is to come */
	PROBE_BAD,  /* the preload would stand aside */
};

struct finding {
	enum verdict verdict;
	char what[160];
};

struct probe {
	const char *name;
	void (*run)(struct finding *f);
};

extern const struct probe probes[];
extern const size_t nr_probes;
extern const struct probe page_probes[]; /* what demand paging needs */
extern const size_t nr_page_probes;

struct conf;

/* The options in force for this program; what is wrong is reported once. */
const struct conf *settings(void);

/* The first line of a file under /proc or /sys, or "". */
const char *probe_line(const char *path, char *buf, size_t size);

void finding(struct finding *f, enum verdict verdict, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
