/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * bench.h - what every benchmark here shares: a clock, order statistics, a
 * description of the machine, and counters of what the kernel did for us.
 *
 * A benchmark prints figures and judges none of them. It fails only where the
 * bytes are wrong or it cannot do its work.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define B_PAGE 4096u

/* Print a message and exit with 1. */
void b_die(const char *fmt, ...)
	__attribute__((format(printf, 1, 2), noreturn));

/* Seconds of CLOCK_MONOTONIC. */
double b_now(void);

/* Seconds of CPU (user, system) this process has used so far. */
void b_cpu(double *user, double *sys);

/* What is left of several measurements of one thing. */
struct b_stat {
	double med, min, max;
	double mad; /* median distance from the median */
};

struct b_stat b_stat_of(const double *v, unsigned int n);

/* "4K", "1M", "137" -> bytes; 0 for anything else. */
size_t b_parse_size(const char *s);

/* The reverse, where it comes out even; @buf of at least 24 bytes. */
const char *b_size_name(size_t n, char *buf);

/* A JSON string with the quotes. */
void b_json_str(FILE *f, const char *s);

/* The machine: kernel, CPUs, load, huge pages, governor, memory, file system. */
void b_machine_text(FILE *f, const char *dir);
void b_machine_json(FILE *f, const char *bench, const char *dir);

/* ------------------------------------------------------------------------
 * Counters. Kernel tracepoints through perf_event_open(2), for one thread at a
 * time, open only while they count: an open tracepoint slows what it watches.
 */
enum b_event {
	B_MMSYS, /* mmap munmap madvise mprotect mremap brk calls */
	B_LOCKW, /* mmap_lock taken for writing */
	B_FLUSH, /* TLB flushes on this CPU for an mm change */
	B_IPI,   /* TLB shootdowns sent to other CPUs */
	B_EVENTS
};

struct b_counts {
	int fd[B_EVENTS];
	uint64_t n[B_EVENTS];
	uint64_t faults; /* minor and major */
};

/*
 * The numbers of tracepoints "group/name"; -errno for those not to be had.
 * Where tracefs is not mounted and may be, a child mounts it for itself.
 */
void b_tracepoints(const char *const *names, int *id, int n);

/*
 * A counter of tracepoint @id with a filter (or NULL), off at first. @pid 0:
 * the calling thread. Otherwise process @pid and all it will start, from its
 * next exec on. Returns a descriptor to read 8 bytes from, or -errno.
 */
int b_tracepoint_open(int id, const char *filter, int pid);

/* Find out which events this kernel and user allow. Call once, at start. */
void b_events_probe(void);

/* NULL if event @e counts, else why not. */
const char *b_event_why(enum b_event e);

/*
 * Between these, starting and stopping is cheap, and everything that passes a
 * tracepoint pays a little: call them around a phase that only counts.
 */
void b_events_hold(void);
void b_events_release(void);

/* Start and stop counting the calling thread. */
void b_counts_start(struct b_counts *c);
void b_counts_stop(struct b_counts *c);

/*
 * Sum of the TLB row of /proc/interrupts: shootdowns received, by all CPUs for
 * all processes. -1 where there is no such row.
 */
long long b_tlb_row(void);

#endif
