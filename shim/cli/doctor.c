// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * doctor.c - `faultline doctor`: the report; probe.c and probe_page.c have the
 * probes.
 */
#include <argp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/utsname.h>

#include "cli/cli.h"

void finding(struct finding *f, enum verdict verdict, const char *fmt, ...)
{
	va_list ap;

	f->verdict = verdict;
	va_start(ap, fmt);
	vsnprintf(f->what, sizeof(f->what), fmt, ap);
	va_end(ap);
}

static unsigned int count[3];

static void report(const struct probe *list, size_t nr)
{
	static const char *const words[] = { "ok", "note", "BAD" };

	for (size_t i = 0; i < nr; i++) {
		struct finding f = { PROBE_OK, "" };

		list[i].run(&f);
		count[f.verdict]++;
		printf("%-5s %-18s %s\n", words[f.verdict], list[i].name,
		       f.what);
	}
}

int cmd_doctor(int argc, char **argv)
{
	static const struct argp argp = {
		.doc = "Tell what this kernel, this user and the limits in "
		       "force allow, and why not.\vExit status: 0 when programs "
		       "can be run under the pager, 1 when it would stand "
		       "aside.",
	};
	static char name[] = "faultline doctor";
	struct utsname uts;

	argv[0] = name;
	argp_err_exit_status = EXIT_LAUNCHER;
	if (argp_parse(&argp, argc, argv, 0, NULL, NULL))
		return EXIT_LAUNCHER;
	uname(&uts);
	printf("faultline " FL_VERSION_STRING " on %s %s %s\n", uts.sysname,
	       uts.release, uts.machine);
	report(probes, nr_probes);
	printf("\nDemand paging of large files:\n");
	report(page_probes, nr_page_probes);
	if (count[PROBE_BAD])
		printf("\nPrograms would run, but without the pager: see the "
		       "lines marked BAD.\n");
	else
		printf("\nPrograms can be run under the pager.\n");
	return count[PROBE_BAD] ? 1 : 0;
}
