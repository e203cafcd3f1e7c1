/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * scan.h - the parts of bench_scan: file sets, modes, the crew of threads,
 * and the report.
 */
#ifndef SCAN_H
#define SCAN_H

#include "bench.h"
#include "faultline.h"

#define SCAN_MAX_REPS 99
#define SCAN_MAX_THREADS 256

/* ------------------------------------------------------------------------
 * Sets: lib_scanset.c
 */
struct scan_file {
	char *path;
	size_t size;
	uint64_t sum; /* of the bytes, from the reference mode */
	int fd;       /* held open for the whole bench, or -1 */
};

struct scan_set {
	char *name;
	struct scan_file *file;
	size_t n, cap;
	size_t each; /* bytes of every file; 0 for a mixed set */
	uint64_t bytes;
	size_t largest;
	bool held; /* every file is held open */
};

void set_add_path(struct scan_set *s, const char *path);
void set_add_list(struct scan_set *s, const char *list);
void set_make(struct scan_set *s, const char *dir, size_t each, uint64_t total,
	      size_t most);
void set_hold(struct scan_set *s); /* opens every file, once */
void set_remove_files(void);       /* those of set_make() */
void set_free(struct scan_set *s);

/* ------------------------------------------------------------------------
 * Modes: lib_scanmode.c
 */
enum scan_touch {
	TOUCH_ALL,
	TOUCH_ONE,
	TOUCH_VERIFY
};

/* What one thread has. Everything here is the thread's own. */
struct scan_ctx {
	struct fl_pager *pager;
	enum scan_touch touch;
	unsigned char *buf; /* reused, page-aligned, grown to the largest */
	size_t cap;
	uint64_t hits;   /* so that no read is optimised away */
	uint64_t sum;    /* of the current file, TOUCH_VERIFY only */
	bool dirty_tail; /* bytes after the end of file were not zero */
};

struct scan_mode {
	const char *name;
	const char *what;
	const char *base; /* the mode of the kernel's to compare with */
	bool ours;        /* needs a pager */
	/* map or read @len bytes of @fd, touch them, give back; 0 or -errno */
	int (*scan)(struct scan_ctx *c, int fd, size_t len);
};

extern const struct scan_mode scan_modes[];
extern const unsigned int scan_n_modes;

int scan_mode_find(const char *name); /* index or -1 */

/* ------------------------------------------------------------------------
 * The crew: lib_scancrew.c
 */
struct scan_job {
	struct scan_set *set;
	const struct scan_mode *mode;
	enum scan_touch touch;
	unsigned int passes;
	bool count;     /* with the counters on */
	bool reference; /* TOUCH_VERIFY: keep the sums */
};

struct scan_result {
	double wall, cpu; /* seconds */
	uint64_t hits, wrong;
	uint64_t n[B_EVENTS], faults; /* if .count */
};

struct scan_crew;

struct scan_crew *crew_start(unsigned int threads, struct fl_pager *pager);
void crew_run(struct scan_crew *crew, const struct scan_job *job,
	      struct scan_result *r);
void crew_end(struct scan_crew *crew);

/* ------------------------------------------------------------------------
 * Report: lib_scanreport.c
 */
struct scan_line {
	const struct scan_mode *mode;
	unsigned int passes;
	double wall[SCAN_MAX_REPS]; /* microseconds a file */
	double cpu[SCAN_MAX_REPS];
	uint64_t served, handed; /* mappings: by the pager, by the kernel */
	bool counted;
	double n[B_EVENTS], faults; /* a file */
	double tlb_row;             /* a file; < 0: not to be had */
};

struct scan_table {
	const struct scan_set *set;
	enum scan_touch touch;
	unsigned int threads, reps, n_lines;
	struct scan_line *line;
};

void report_text(FILE *f, const struct scan_table *t);
void report_json(FILE *f, const struct scan_table *t);
/* Remember the worst of our lines over all tables, and print them. */
void report_worst_note(const struct scan_table *t);
void report_worst_text(FILE *f);

#endif
