// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * main.c - the command line's first word.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static const char usage[] =
	"Usage: faultline run [--OPTION=VALUE...] [--] PROGRAM [ARGUMENT...]\n"
	"       faultline doctor\n"
	"       faultline stat [--watch=SECONDS] [--json] [PID]\n"
	"       faultline --help | --version\n"
	"\n"
	"  run     run PROGRAM with its mappings served by the pager\n"
	"  doctor  tell what this kernel, user and limits allow, and why not\n"
	"  stat    show the counters of running programs\n"
	"\n"
	"'faultline COMMAND --help' tells more; see also faultline(1).\n";

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(int argc, char **argv);
	} commands[] = {
		{ "run", cmd_run },
		{ "doctor", cmd_doctor },
		{ "stat", cmd_stat },
	};
	const char *word = argc > 1 ? argv[1] : NULL;

	if (!word) {
		fputs(usage, stderr);
		return EXIT_LAUNCHER;
	}
	if (!strcmp(word, "--help") || !strcmp(word, "-h") ||
	    !strcmp(word, "help")) {
		fputs(usage, stdout);
		return 0;
	}
	if (!strcmp(word, "--version") || !strcmp(word, "-V")) {
		puts("faultline " FL_VERSION_STRING);
		return 0;
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(word, commands[i].name))
			return commands[i].run(argc - 1, argv + 1);
	fprintf(stderr, "faultline: there is no command '%s'\n%s", word, usage);
	return EXIT_LAUNCHER;
}
