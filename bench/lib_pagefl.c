// SPDX-License-Identifier: LGPL-2.1-or-later
/* lib_pagefl.c - demand regions of the library, by mode of delivery. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "faultline.h"
#include "page.h"

static int fl_start(struct page_run *r, const char *fault, unsigned int flags)
{
	const struct page_job *j = &r->job;
	struct fl_pager *pager;
	char opt[512];
	void *p;
	int err, n;

	n = snprintf(opt, sizeof(opt), "mem=%zu,fault=%s,direct=%s%s%s",
		     j->budget, fault, j->work == WORK_LATENCY ? "no" : "yes",
		     j->options ? "," : "", j->options ? j->options : "");
	/* elsewhere it is the library's business */
	if (j->work == WORK_LATENCY && n > 0 && (size_t)n < sizeof(opt))
		snprintf(opt + n, sizeof(opt) - (size_t)n, ",granule=%zu",
			 j->granule);
	err = fl_pager_open(&pager, opt);
	if (err < 0)
		return err;
	r->own = pager;
	p = fl_region_map_file(pager, r->fd, 0, j->span, PROT_READ, flags);
	if (FL_IS_ERR(p))
		return FL_PTR_ERR(p);
	r->base = p;
	return 0;
}

static int signal_start(struct page_run *r)
{
	return fl_start(r, "signal", 0);
}

static int hint_start(struct page_run *r)
{
	return fl_start(r, "signal",
			r->job.work == WORK_SEQ ? FL_REGION_SEQUENTIAL :
						  FL_REGION_RANDOM);
}

static int service_start(struct page_run *r)
{
	return fl_start(r, "service", 0);
}

static int hybrid_start(struct page_run *r)
{
	return fl_start(r, "hybrid", 0);
}

static void fl_stop(struct page_run *r)
{
	int err = fl_pager_munmap(r->own, r->base, r->job.span);

	if (!err)
		err = fl_pager_close(r->own);
	if (err)
		b_die("munmap or close: %s", strerror(-err));
}

static void fl_counts(struct page_run *r, struct page_counts *n)
{
	fl_stat_read(r->own, "demand_faults", &n->fills);
	fl_stat_read(r->own, "demand_read_bytes", &n->fill_bytes);
}

#define FL_METHOD(ident, label, text, begin)                     \
	const struct page_method ident = {                       \
		.name = label,                                   \
		.what = text,                                    \
		.flags = PAGE_OURS | PAGE_MAPPED | PAGE_GRANULE, \
		.start = begin,                                  \
		.stop = fl_stop,                                 \
		.random = page_map_random,                       \
		.seq = page_map_seq,                             \
		.counts = fl_counts,                             \
	}

FL_METHOD(page_fl_signal, "fl-signal", "the library, fault=signal",
	  signal_start);
FL_METHOD(page_fl_hint, "fl-hint",
	  "the library, fault=signal, told that access is random or sequential",
	  hint_start);
FL_METHOD(page_fl_service, "fl-service", "the library, fault=service",
	  service_start);
FL_METHOD(page_fl_hybrid, "fl-hybrid", "the library, fault=hybrid",
	  hybrid_start);
