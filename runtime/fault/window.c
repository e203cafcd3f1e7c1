// SPDX-License-Identifier: LGPL-2.1-or-later
/* window.c - see window.h. */
#include "fault/window.h"

#include "fault/frames.h"
#include "base/ban.h"

/* A region's first page, which is where most sequential readers begin. */
#define WINDOW_FIRST 4u
/* From here on the region knows the stream. */
#define WINDOW_SHARED 8u
/* Pages that were present already may lie between an end and the next fault. */
#define WINDOW_SKIP 16u

static bool continues(const struct job *j, uint64_t end)
{
	uint64_t page = j->page;

	if (likely(page != end && page - end > WINDOW_SKIP))
		return false;
	for (; end < page; end++)
		if (!pte_present(ptep_get_rlx(&j->v->pt[end])))
			return false;
	return true;
}

static bool in_filler(struct job *j)
{
	for (unsigned int i = 0; i < ENDS; i++) {
		struct end *e = &j->f->ends[i];

		if (e->serial == j->v->serial && continues(j, e->page)) {
			j->end_of = e;
			j->window = e->n;
			return true;
		}
	}
	return false;
}

static bool in_region(struct job *j)
{
	for (unsigned int i = 0; i < STREAMS; i++) {
		struct stream *s = &j->v->stream[i];
		uint32_t n = ld_rlx(&s->n);

		if (n && continues(j, ld_rlx(&s->page))) {
			j->stream_of = s;
			j->window = n;
			return true;
		}
	}
	return false;
}

static void grow(struct job *j, uint32_t most)
{
	j->window = j->window * 2 < most ? j->window * 2 : most;
	/* Service threads take turns, each with a filler of its own. */
	if (!j->end_of || (j->window < WINDOW_SHARED && !j->service))
		return;
	j->end_of->serial = 0;
	j->end_of = NULL;
	j->stream_of = &j->v->stream[add_rlx(&j->v->next_stream, 1u) % STREAMS];
	st_rlx(&j->stream_of->n, 0u);
}

size_t window(struct job *j)
{
	uint32_t most = j->v->frames->granule;
	uint32_t advice = ld_rlx(&j->v->advice);

	if (j->want)
		return j->want < most ? j->want : most;
	if (advice == VMA_RANDOM)
		return 1;
	if (advice == VMA_SEQUENTIAL)
		return j->window = most;
	if (in_filler(j) || in_region(j)) {
		grow(j, most);
		return j->window;
	}
	j->window = j->page == 0 ? WINDOW_FIRST : 1;
	if (j->window > most)
		j->window = most;
	j->end_of = &j->f->ends[j->f->next_end++ % ENDS];
	j->end_of->serial = 0;
	return j->window;
}

void window_filled(struct job *j)
{
	if (j->end_of)
		*j->end_of = (struct end){ j->v->serial, j->page, j->window };
	if (j->stream_of) {
		st_rlx(&j->stream_of->page, (uint64_t)j->page);
		st_rlx(&j->stream_of->n, j->window);
	}
}
