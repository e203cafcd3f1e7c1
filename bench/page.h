/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * page.h - the parts of bench_page: the file whose pages tell who they are,
 * the methods of getting at them, one run in a process of its own, the report.
 */
#ifndef PAGE_H
#define PAGE_H

#include "bench.h"

#define PAGE_MAX_REPS 31
#define PAGE_MAX_THREADS 64
#define PAGE_MAX_WINDOWS 64
#define PAGE_WORDS (B_PAGE / 8)
#define PAGE_LINES (B_PAGE / 64)
#define PAGE_BLOCK 65536u /* what the kernel maps around one fault at most */

/* ------------------------------------------------------------------------
 * The file: lib_pagefile.c
 */
struct page_file {
	char path[448];
	size_t bytes;
	uint64_t id;
	char dev[32]; /* name of the block device below, or "?" */
};

/*
 * The words of a page: 0 its number, 1 the file's id, 2 the sum of word 5 of
 * lines 1 to 63. Of the others half are noise and half come from a vocabulary
 * of 64 words, 128 bytes of each in turn, so that a compressing device has
 * work to do.
 */
uint64_t page_word(uint64_t id, uint64_t page, unsigned int word);

/* Is this page the right one, by its head and a word of every cache line? */
static inline bool page_right(const void *at, uint64_t id, uint64_t page)
{
	const volatile uint64_t *w = at;
	uint64_t sum = 0;
	unsigned int i;

	for (i = 1; i < PAGE_LINES; i++)
		sum += w[i * 8 + 5];
	return w[0] == page && w[1] == id && w[2] == sum;
}

/* Make the file, or take the one that is there if it is the right one. */
void page_file_make(struct page_file *f, const char *dir, size_t bytes);
/* Take it out of the page cache, or all into it. */
void page_file_cool(const struct page_file *f);
void page_file_warm(const struct page_file *f, size_t bytes);

/* ------------------------------------------------------------------------
 * Runs: lib_pagerun.c
 */
enum page_work {
	WORK_RANDOM,
	WORK_SEQ,
	WORK_LATENCY
};

struct page_method;

/* What one run is asked to do. */
struct page_job {
	const struct page_file *file;
	const struct page_method *method;
	enum page_work work;
	unsigned int threads;
	size_t span;         /* bytes of the file that are used */
	size_t budget;       /* memory for methods that have their own */
	size_t granule;      /* bytes of one fill */
	const char *options; /* more for the pager */
	double warm, secs;   /* WORK_RANDOM */
	unsigned int windows;
	bool pin; /* all threads on one CPU */
};

/* What the kernel did meanwhile, all threads of the process together. */
struct page_counts {
	uint64_t minor, major, switches, reads, bytes, fills, fill_bytes;
	long long tlb;
	double cpu;
};

struct page_result {
	int err;       /* -errno: the method cannot be had */
	char what[96]; /* and why */
	bool done;
	uint64_t wrong, ops;
	double wall;
	unsigned int windows;
	double window[PAGE_MAX_WINDOWS]; /* touches a second */
	double p50, p99, mean;           /* WORK_LATENCY: ns */
	size_t peak;                     /* bytes of own memory, sampled */
	struct page_counts n;            /* while it was measured */
	struct page_counts all;          /* from the first touch on */
};

/* The state of a run; a method adds what it needs behind .own. */
struct page_run {
	struct page_job job;
	uint64_t id, pages;
	int fd;              /* buffered; .start() may replace it */
	unsigned char *base; /* of a mapping */
	void *own;
	bool stop;
	struct page_result *result;
};

struct page_thread {
	struct page_run *run;
	unsigned int index;
	uint64_t rng, ops, wrong;
	uint64_t first, end; /* WORK_SEQ: pages of this thread */
	unsigned char *buf;  /* page-aligned, .room bytes */
	size_t room;
	void *own;
} __attribute__((aligned(256)));

#define PAGE_BUF (1u << 20) /* WORK_SEQ, WORK_LATENCY */
#define PAGE_ROOM (PAGE_MAX_THREADS * B_PAGE)

static inline bool page_stopped(const struct page_thread *t)
{
	return __atomic_load_n(&t->run->stop, __ATOMIC_RELAXED);
}

/* A page of the span and a word of it. */
static inline uint64_t page_pick(struct page_thread *t, unsigned int *word)
{
	uint64_t r = t->rng;

	r ^= r << 13;
	r ^= r >> 7;
	r ^= r << 17;
	t->rng = r;
	*word = 3 + (unsigned int)(r & 0xffff) % (PAGE_WORDS - 3);
	return ((r >> 32) * t->run->pages) >> 32;
}

static inline void page_judge(struct page_thread *t, uint64_t page,
			      unsigned int word, uint64_t got)
{
	if (got != page_word(t->run->id, page, word))
		t->wrong++;
	__atomic_store_n(&t->ops, t->ops + 1, __ATOMIC_RELAXED);
}

/* The memory limit of the control group this runs in, 0 for none. */
size_t page_memory_limit(void);

/* Run @job in a child process; dies if a byte was wrong or the child hung. */
void page_run(const struct page_job *job, struct page_result *r);

/* ------------------------------------------------------------------------
 * Methods: lib_pagemode.c, lib_pageuring.c, lib_pageuffd.c, lib_pagefl.c
 */
struct page_method {
	const char *name, *what;
	unsigned int flags;
	int (*start)(struct page_run *r);
	void (*stop)(struct page_run *r);
	int (*enter)(struct page_thread *t); /* before the clock starts */
	void (*leave)(struct page_thread *t);
	void (*random)(struct page_thread *t); /* until page_stopped() */
	void (*seq)(struct page_thread *t);    /* .first to .end */
	void (*counts)(struct page_run *r, struct page_counts *n);
};

#define PAGE_OURS 1u       /* the library's */
#define PAGE_ONE_THREAD 2u /* one thread, queue depth = threads */
#define PAGE_MAPPED 4u     /* memory is touched: has a fault latency */
#define PAGE_GRANULE 8u    /* obeys .granule */

extern const struct page_method page_mmap, page_mmap_random, page_mmap_seq,
	page_pread, page_direct, page_uring, page_uring_qd, page_sigbus,
	page_handler, page_fl_signal, page_fl_hint, page_fl_service,
	page_fl_hybrid;

const struct page_method *page_method_find(const char *name);
const struct page_method *page_method_at(unsigned int i); /* or NULL */

/* Loops over .base, for every mapped method. */
void page_map_random(struct page_thread *t);
void page_map_seq(struct page_thread *t);

int page_open(const struct page_run *r, int flags); /* fd or -errno */

/* ------------------------------------------------------------------------
 * Report: lib_pagereport.c
 */
struct page_line {
	const struct page_method *method;
	size_t granule;
	bool pin;
	unsigned int n;
	struct page_result r[PAGE_MAX_REPS];
	char why[128]; /* not empty: could not be had */
};

struct page_table {
	const char *title;
	const char *work; /* "random", "sweep", "cliff", "seq", "latency" */
	const struct page_file *file;
	unsigned int threads, n_lines;
	size_t span, budget, limit;
	double factor; /* sweep: span over budget */
	struct page_line *line;
};

void page_report_text(FILE *f, const struct page_table *t);
void page_report_json(FILE *f, const struct page_table *t);
/* Bytes read for each byte touched, median. */
double page_read_ratio(const struct page_line *l);
/* Pages filled for each fault from the first touch on, the most of all runs. */
double page_fill_ratio(const struct page_line *l);

#endif
