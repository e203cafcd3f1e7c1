// SPDX-License-Identifier: LGPL-2.1-or-later
/* lib_machine.c - the state of the machine that figures were taken on. */
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "bench.h"

struct machine {
	struct utsname uts;
	long cpus;
	char cpu[96], load[48], thp[64], governor[32], fs[24];
	long total_mib, avail_mib;
};

/* First line of @path without the newline; "none" if there is none. */
static void first_line(const char *path, char *buf, size_t size)
{
	FILE *f = fopen(path, "re");

	if (!f || !fgets(buf, (int)size, f))
		snprintf(buf, size, "none");
	buf[strcspn(buf, "\n")] = '\0';
	if (f)
		fclose(f);
}

/* The value behind the first "@key...:" line of @path. */
static void keyed(const char *path, const char *key, char *buf, size_t size)
{
	FILE *f = fopen(path, "re");
	char line[512], *v;

	snprintf(buf, size, "unknown");
	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, key, strlen(key)))
			continue;
		v = strchr(line, ':');
		if (!v)
			continue;
		v += 1 + strspn(v + 1, " \t");
		v[strcspn(v, "\n")] = '\0';
		snprintf(buf, size, "%.*s", (int)size - 1, v);
		break;
	}
	if (f)
		fclose(f);
}

static void fs_name(const char *dir, char *buf, size_t size)
{
	static const struct {
		unsigned long magic;
		const char *name;
	} known[] = {
		{ 0xef53, "ext4" },        { 0x01021994, "tmpfs" },
		{ 0x58465342, "xfs" },     { 0x9123683e, "btrfs" },
		{ 0x794c7630, "overlay" }, { 0x6969, "nfs" },
		{ 0xf2f52010, "f2fs" },    { 0x2fc12fc1, "zfs" },
	};
	struct statfs s;
	size_t i;

	snprintf(buf, size, "unknown");
	if (statfs(dir, &s))
		return;
	snprintf(buf, size, "0x%lx", (unsigned long)s.f_type);
	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].magic == ((unsigned long)s.f_type & 0xffffffffu))
			snprintf(buf, size, "%s", known[i].name);
}

static void machine_get(struct machine *m, const char *dir)
{
	char v[64];

	uname(&m->uts);
	m->cpus = sysconf(_SC_NPROCESSORS_ONLN);
	keyed("/proc/cpuinfo", "model name", m->cpu, sizeof(m->cpu));
	first_line("/proc/loadavg", m->load, sizeof(m->load));
	first_line("/sys/kernel/mm/transparent_hugepage/enabled", m->thp,
		   sizeof(m->thp));
	first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
		   m->governor, sizeof(m->governor));
	keyed("/proc/meminfo", "MemTotal", v, sizeof(v));
	m->total_mib = atol(v) / 1024;
	keyed("/proc/meminfo", "MemAvailable", v, sizeof(v));
	m->avail_mib = atol(v) / 1024;
	fs_name(dir, m->fs, sizeof(m->fs));
}

void b_machine_text(FILE *f, const char *dir)
{
	struct machine m;

	machine_get(&m, dir);
	fprintf(f, "machine: %s %s %s, %ld CPUs (%s)\n", m.uts.sysname,
		m.uts.release, m.uts.machine, m.cpus, m.cpu);
	fprintf(f, "  load %s; THP %s; governor %s\n", m.load, m.thp,
		m.governor);
	fprintf(f, "  memory %ld MiB, available %ld MiB; files on %s\n",
		m.total_mib, m.avail_mib, m.fs);
}

void b_machine_json(FILE *f, const char *bench, const char *dir)
{
	struct machine m;

	machine_get(&m, dir);
	fprintf(f, "{\"bench\":\"%s\",\"machine\":{\"kernel\":", bench);
	b_json_str(f, m.uts.release);
	fprintf(f, ",\"isa\":\"%s\",\"cpus\":%ld,\"cpu\":", m.uts.machine,
		m.cpus);
	b_json_str(f, m.cpu);
	fprintf(f, ",\"load\":\"%s\",\"thp\":\"%s\",\"governor\":\"%s\"",
		m.load, m.thp, m.governor);
	fprintf(f, ",\"mem_mib\":%ld,\"avail_mib\":%ld,\"fs\":\"%s\"}}\n",
		m.total_mib, m.avail_mib, m.fs);
}
