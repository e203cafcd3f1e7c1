/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * slab.c - pre-zeroed page-sized objects.
 *
 * STATES of an object, and who moves it:
 *   unbacked  -> shard, depot   refill(): backs a chunk and spreads it
 *   shard[c]  -> in use         slab_alloc() on CPU c; on another CPU when that
 *                               one and the depot are empty (stealing)
 *   depot     -> shard, in use  slab_alloc() on an empty shard: one magazine
 *   depot     -> cold           slab_trim(), one magazine at a time
 *   cold      -> shard, in use  slab_alloc() that found nothing else
 *   in use    -> shard[c]       slab_free() on CPU c
 *   shard[c]  -> depot          slab_free(): all but the SLAB_MAG most recently
 *                               freed, once 2 * SLAB_MAG are there
 * A chunk the kernel would not back waits in `refused` for the next refill.
 * The CPU number is a hint: a shard belongs to nobody, each is a lock-free
 * stack that any thread may push to and pop from.
 *
 * ORDERING. Only the stacks order anything (istack.h): a push publishes the
 * object, zeros included, to the one that pops it.
 *
 * PROGRESS. Lock-free; refill() makes one system call. Nothing is kept per
 * thread, so a thread that dies leaves nothing behind.
 *
 * RECLAIM. Objects are type-stable: they stay mapped until slab_destroy(), and
 * so do their links, which live outside of them. Reading the link of an object
 * that has just been taken is therefore harmless, and slab_trim() may drop the
 * memory of free objects, which reads as zeros afterwards, as it did before.
 */
#include <linux/prctl.h>
#include <sys/mman.h>

#include "base/base.h"
#include "base/order.h"
#include "base/sys.h"
#include "mem/istack.h"
#include "mem/slab.h"

#include "base/ban.h"

/* Address space only; one page of leaf table covers 2 MiB of arena. */
#if __SIZEOF_POINTER__ == 8
#define SLAB_MAX_OBJS (1u << 18)
#else
#define SLAB_MAX_OBJS (1u << 14)
#endif
#define SLAB_MIN_OBJS (1u << 10)

/* The two links of one object. */
struct slab_link {
	_Atomic(uint32_t) inner;
	_Atomic(uint32_t) outer;
};

#define NO_OBJ UINT32_MAX

int slab_init(struct slab *s, const char *name)
{
	return slab_init_max(s, name, SLAB_MAX_OBJS);
}

int slab_init_max(struct slab *s, const char *name, uint32_t max)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	uint32_t nr = (max + SLAB_CHUNK - 1) / SLAB_CHUNK * SLAB_CHUNK;
	char *base, *links;

	if (nr > SLAB_MAX_OBJS)
		nr = SLAB_MAX_OBJS;
	for (;; nr = nr / 2 / SLAB_CHUNK * SLAB_CHUNK) {
		if (nr < SLAB_MIN_OBJS)
			nr = SLAB_MIN_OBJS;
		base = sys_mmap(NULL, (size_t)nr << SLAB_OBJ_SHIFT, PROT_NONE,
				flags, -1, 0);
		if (!is_err(base))
			break;
		if (nr == SLAB_MIN_OBJS)
			return -ENOMEM;
	}
	links = sys_mmap(NULL, nr * sizeof(struct slab_link),
			 PROT_READ | PROT_WRITE, flags, -1, 0);
	if (is_err(links)) {
		sys_munmap(base, (size_t)nr << SLAB_OBJ_SHIFT);
		return -ENOMEM;
	}

	/* Mostly reserved, and no program's: not in its core dumps. */
	sys_madvise(base, (size_t)nr << SLAB_OBJ_SHIFT, MADV_DONTDUMP);
	/* A name in /proc/PID/maps, where the kernel knows about it. */
	sys_call5(__NR_prctl, PR_SET_VMA, PR_SET_VMA_ANON_NAME, base,
		  (size_t)nr << SLAB_OBJ_SHIFT, name);

	s->base = base;
	s->nr_max = nr;
	s->link = (struct istack_links){
		.base = links + offsetof(struct slab_link, inner),
		.stride = sizeof(struct slab_link),
	};
	s->outer = (struct istack_links){
		.base = links + offsetof(struct slab_link, outer),
		.stride = sizeof(struct slab_link),
	};
	st_rlx(&s->carved, 0u);
	istack_init(&s->depot);
	istack_init(&s->cold);
	istack_init(&s->refused);
	for (unsigned int c = 0; c < SLAB_CPUS; c++) {
		istack_init(&s->cpu[c].stack);
		st_rlx(&s->cpu[c].n, 0);
	}
	return 0;
}

void slab_destroy(struct slab *s)
{
	sys_munmap(s->base, (size_t)s->nr_max << SLAB_OBJ_SHIFT);
	sys_munmap(s->link.base, s->nr_max * sizeof(struct slab_link));
	s->base = NULL;
	s->nr_max = 0;
}

static struct slab_cpu *shard(struct slab *s)
{
	return &s->cpu[sys_cpu_id() % SLAB_CPUS];
}

/* Put a chain of the caller's, ending in a link of 0, on a shard. */
static void shard_put_chain(struct slab *s, struct slab_cpu *c, uint32_t first)
{
	uint32_t last = first, next;
	int32_t n = 1;

	while ((next = istack_next(s->link, last)) != 0) {
		last = next - 1;
		n++;
	}
	istack_push_chain(&c->stack, first, last, s->link);
	add_rlx(&c->n, n);
}

/* Keep the first of a chain; the others go to the shard. */
static uint32_t split_first(struct slab *s, struct slab_cpu *c, uint32_t first)
{
	uint32_t next = istack_next(s->link, first);

	if (next != 0)
		shard_put_chain(s, c, next - 1);
	return first;
}

/* Cut a chain of the caller's into magazines and put them into the depot.
 * Returns the number of objects. */
static int32_t depot_put_chain(struct slab *s, uint32_t first)
{
	int32_t n = 0;

	while (first != NO_OBJ) {
		uint32_t last = first, next = istack_next(s->link, last);

		n++;
		for (unsigned int i = 1; i < SLAB_MAG && next != 0; i++, n++) {
			last = next - 1;
			next = istack_next(s->link, last);
		}
		istack_link(s->link, last, NO_OBJ);
		istack_push(&s->depot, first, s->outer);
		first = next - 1; /* NO_OBJ when next is 0 */
	}
	return n;
}

/* The next chunk of the range, or one that was refused before. */
static bool chunk_claim(struct slab *s, uint32_t *first)
{
	uint32_t c;

	if (istack_pop(&s->refused, first, s->outer))
		return true;
	c = ld_rlx(&s->carved);
	do {
		if (s->nr_max - c < SLAB_CHUNK)
			return false;
	} while (!cas_rlx(&s->carved, &c, c + SLAB_CHUNK));
	*first = c;
	return true;
}

/* Back one chunk: an object for the caller, a magazine for the shard, the rest
 * for the depot. NO_OBJ when neither addresses nor memory are left. */
static uint32_t refill(struct slab *s, struct slab_cpu *c)
{
	uint32_t first, i;

	if (!chunk_claim(s, &first))
		return NO_OBJ;
	if (sys_mprotect(slab_obj(s, first), SLAB_CHUNK * SLAB_OBJ_SIZE,
			 PROT_READ | PROT_WRITE) < 0) {
		istack_push(&s->refused, first, s->outer);
		return NO_OBJ;
	}
	for (i = 0; i < SLAB_CHUNK - 1; i++)
		istack_link(s->link, first + i, first + i + 1);
	istack_link(s->link, first + i, NO_OBJ);

	depot_put_chain(s, first + SLAB_MAG);
	istack_link(s->link, first + SLAB_MAG - 1, NO_OBJ);
	return split_first(s, c, first);
}

static bool shard_pop(struct slab *s, struct slab_cpu *c, uint32_t *i)
{
	if (!istack_pop(&c->stack, i, s->link))
		return false;
	sub_rlx(&c->n, 1);
	return true;
}

static FL_COLD uint32_t alloc_slow(struct slab *s, struct slab_cpu *c)
{
	uint32_t i;

	if (istack_pop(&s->depot, &i, s->outer))
		return split_first(s, c, i);
	for (unsigned int k = 0; k < SLAB_CPUS; k++) {
		if (shard_pop(s, &s->cpu[k], &i))
			return i;
	}
	if (istack_pop(&s->cold, &i, s->outer))
		return split_first(s, c, i);
	return refill(s, c);
}

void *slab_alloc(struct slab *s)
{
	struct slab_cpu *c = shard(s);
	uint32_t i;

	if (unlikely(!shard_pop(s, c, &i))) {
		i = alloc_slow(s, c);
		if (i == NO_OBJ)
			return NULL;
	}
	return slab_obj(s, i);
}

/* The shard is twice full: keep the hottest magazine, pass on the others. */
static FL_COLD void shard_spill(struct slab *s, struct slab_cpu *c)
{
	uint32_t next = istack_take_all(&c->stack);
	uint32_t first, last;

	if (next == 0)
		return;
	first = last = next - 1;
	next = istack_next(s->link, last);
	for (unsigned int i = 1; i < SLAB_MAG && next != 0; i++) {
		last = next - 1;
		next = istack_next(s->link, last);
	}
	istack_push_chain(&c->stack, first, last, s->link);
	if (next != 0)
		sub_rlx(&c->n, depot_put_chain(s, next - 1));
}

#if FL_DEBUG >= 1
static void check_zero(const void *obj)
{
	const uint64_t *p = obj;

	for (size_t i = 0; i < SLAB_OBJ_SIZE / sizeof(*p); i++) {
		if (p[i] != 0)
			BUG("slab: a freed object is not zero");
	}
}
#endif

void slab_free(struct slab *s, void *obj)
{
	struct slab_cpu *c = shard(s);
	uint32_t i = slab_index(s, obj);

	fl_assert(i < s->nr_max && slab_obj(s, i) == obj);
#if FL_DEBUG >= 1
	check_zero(obj);
#endif
	istack_push(&c->stack, i, s->link);
	if (unlikely(add_rlx(&c->n, 1) + 1 >= 2 * SLAB_MAG))
		shard_spill(s, c);
}

size_t slab_trim(struct slab *s)
{
	uint32_t mag, i;
	size_t n = 0;

	while (istack_pop(&s->depot, &mag, s->outer)) {
		for (i = mag + 1; i != 0; i = istack_next(s->link, i - 1)) {
			sys_madvise(slab_obj(s, i - 1), SLAB_OBJ_SIZE,
				    MADV_DONTNEED);
			n++;
		}
		istack_push(&s->cold, mag, s->outer);
	}
	return n;
}

static size_t chain_len(struct istack_links l, uint32_t next)
{
	size_t n = 0;

	for (; next != 0; next = istack_next(l, next - 1))
		n++;
	return n;
}

/* Index + 1 of the top of a stack nobody uses meanwhile. */
static uint32_t top(struct istack *st)
{
	return (uint32_t)ld_rlx(&st->head);
}

void slab_fork_child(struct slab *s)
{
	for (unsigned int c = 0; c < SLAB_CPUS; c++) {
		size_t n = chain_len(s->link, top(&s->cpu[c].stack));

		st_rlx(&s->cpu[c].n, (int32_t)n);
	}
}

size_t slab_nr_backed(struct slab *s)
{
	return ld_rlx(&s->carved) -
	       SLAB_CHUNK * chain_len(s->outer, top(&s->refused));
}

static size_t mags_len(struct slab *s, struct istack *st)
{
	size_t n = 0;
	uint32_t mag = top(st);

	for (; mag != 0; mag = istack_next(s->outer, mag - 1))
		n += chain_len(s->link, mag);
	return n;
}

size_t slab_nr_free(struct slab *s)
{
	size_t n = mags_len(s, &s->depot) + mags_len(s, &s->cold);

	for (unsigned int c = 0; c < SLAB_CPUS; c++)
		n += chain_len(s->link, top(&s->cpu[c].stack));
	return n;
}
