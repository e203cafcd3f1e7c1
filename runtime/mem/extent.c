// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * extent.c - see extent.h.
 *
 * STATES of an extent, and who moves it:
 *   VIRGIN -> FREE or LIVE        carve: the thread that cut it
 *   FREE -> LIVE                  whoever has popped it from its stack: take,
 *                                 or unstack for extent_claim
 *   LIVE -> FREE                  extent_put by whoever unmaps the last page,
 *                                 or extent_free by its owner; then pushed
 * A FREE extent is on exactly one stack (a CPU's, the cold ones, or the
 * quarantine), or on its way between two in the hands of one thread.
 *
 * ORDERING. A push publishes the extent's fields and the use of its pages to
 * the pop that takes it (istack.h). The pages of a region are unmapped by any
 * threads; each lowers `live` with sub_sc, and the one that reaches zero sees
 * all the others' accesses. sub_sc rather than acq_rel because the load of the
 * fork barrier after it must not pass it (fork.h).
 *
 * PROGRESS. Allocation from a stack and freeing are lock-free. Cutting a batch
 * is lock-free; opening a chunk (once in 8 MiB) takes LOCK_CARVE for two
 * mprotect calls. Trimming never makes anybody wait.
 *
 * SIGNALS. Where several extents are in one thread's hands, or fresh space is,
 * its signals are blocked: a handler that leaves by a jump costs the program the
 * one extent it interrupted the use of.
 *
 * RECLAIM. Descriptors are type-stable: they live as long as the pool.
 */
#include "mem/extent.h"

#include <sched.h>
#include <sys/mman.h>

#include "base/sys.h"
#include "mem/fork.h"
#include "base/ban.h"

/* Fresh space is cut and populated in batches of this many bytes. */
#define CARVE_BYTES ((size_t)128 << 10)

static struct istack_links links(struct ext_pool *p)
{
	struct istack_links l = {
		.base = (char *)p->ext + offsetof(struct extent, next),
		.stride = sizeof(struct extent),
	};
	return l;
}

static struct ext_shard *shard_here(struct ext_pool *p)
{
	return &p->shards[sys_cpu_id() & p->shard_mask];
}

static size_t class_bytes(unsigned int cls)
{
	return (size_t)ext_class_pages(cls) << FL_PAGE_SHIFT;
}

/* ---------------------------------------------------------------------------
 * Set-up
 */

static uint32_t nr_shards(void)
{
	unsigned long mask[1024 / (8 * sizeof(long))] = { 0 };
	long bytes;
	uint32_t n = 1, cpus = 0;

	bytes = sys_call3(__NR_sched_getaffinity, 0, sizeof(mask), mask);
	for (long i = 0; i < bytes / (long)sizeof(long); i++)
		for (unsigned long m = mask[i]; m; m >>= 1) {
			uint32_t bit = (uint32_t)(i * 8 * (long)sizeof(long));

			/* Highest CPU number + 1, not the count. */
			cpus = bit + 8 * sizeof(long) -
			       (uint32_t)__builtin_clzl(mask[i]);
			break;
		}
	while (n < cpus && n < EXT_MAX_SHARDS)
		n <<= 1;
	return n;
}

static void *table_map(size_t bytes, int prot)
{
	void *p = sys_mmap(NULL, page_align_up(bytes), prot,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (!is_err(p))
		sys_madvise(p, page_align_up(bytes), MADV_DONTDUMP);
	return p;
}

static void table_unmap(void *p, size_t bytes)
{
	if (p && !is_err(p))
		sys_munmap(p, page_align_up(bytes));
}

static void stacks_reset(struct ext_pool *p)
{
	for (uint32_t s = 0; s <= p->shard_mask; s++)
		for (int c = 0; c < EXT_NR_CLASSES; c++)
			istack_init(&p->shards[s].hot[c]);
	for (int c = 0; c < EXT_NR_CLASSES; c++)
		istack_init(&p->cold[c]);
	istack_init(&p->quarantine);
	lock_init(&p->trim_lock, LOCK_TRIM);
	lock_init(&p->carve_lock, LOCK_CARVE);
}

int pool_init(struct ext_pool *p, enum arena_kind kind, size_t size, size_t min)
{
	int ret = arena_init(&p->arena, kind, size, min);

	if (ret < 0)
		return ret;
	st_rlx(&p->nr_chunks, (uint32_t)(arena_size(&p->arena) >> CHUNK_SHIFT));
	p->nr_classes = ld_rlx(&p->nr_chunks);
	p->shard_mask = nr_shards() - 1;
	p->ext_bytes = arena_pages(&p->arena) * sizeof(*p->ext);
	p->ext = table_map(p->ext_bytes, PROT_NONE);
	p->shards = table_map((p->shard_mask + 1) * sizeof(*p->shards),
			      PROT_READ | PROT_WRITE);
	p->chunk_class = table_map(p->nr_classes, PROT_READ | PROT_WRITE);
	if (is_err(p->ext) || is_err(p->shards) || is_err(p->chunk_class)) {
		pool_destroy(p);
		return -ENOMEM;
	}
	st_rlx(&p->next_chunk, 0u);
	for (int c = 0; c < EXT_NR_CLASSES; c++)
		st_rlx(&p->fresh[c], (uint64_t)0);
	stacks_reset(p);
	return 0;
}

void pool_destroy(struct ext_pool *p)
{
	table_unmap(p->ext, p->ext_bytes);
	table_unmap(p->shards, (p->shard_mask + 1) * sizeof(*p->shards));
	table_unmap((void *)p->chunk_class, p->nr_classes);
	arena_destroy(&p->arena);
}

size_t pool_shrink(struct ext_pool *p)
{
	uint32_t keep;
	size_t bytes;

	lock_take(&p->carve_lock);
	keep = ld_rlx(&p->next_chunk);
	for (uint32_t c = keep; c < ld_rlx(&p->nr_chunks); c++)
		if (ld_rlx(&p->chunk_class[c]) != 0)
			keep = c + 1; /* the program has mapped over it */
	bytes = (size_t)(ld_rlx(&p->nr_chunks) - keep) * CHUNK_SIZE;
	st_rlx(&p->nr_chunks, keep);
	if (bytes) {
		size_t used = (size_t)keep * CHUNK_PAGES * sizeof(*p->ext);

		arena_shrink(&p->arena, (size_t)keep * CHUNK_SIZE);
		sys_munmap((char *)p->ext + used,
			   page_align_up(p->ext_bytes) - used);
		p->ext_bytes = used;
	}
	lock_drop(&p->carve_lock);
	return bytes;
}

/* ---------------------------------------------------------------------------
 * Budget
 */

static bool budget_take(struct ext_pool *p, uint64_t bytes)
{
	uint64_t before = add_rlx(&p->budget->resident, bytes);

	if (before + bytes <= p->budget->high) {
		stat_add(p->stats, STAT_resident_bytes, bytes);
		return true;
	}
	sub_rlx(&p->budget->resident, bytes);
	return false;
}

/* Frames that are there already. */
static void budget_count(struct ext_pool *p, uint64_t bytes)
{
	add_rlx(&p->budget->resident, bytes);
	stat_add(p->stats, STAT_resident_bytes, bytes);
}

static void budget_give(struct ext_pool *p, uint64_t bytes)
{
	sub_rlx(&p->budget->resident, bytes);
	stat_sub(p->stats, STAT_resident_bytes, bytes);
}

/* ---------------------------------------------------------------------------
 * Fresh space
 */

/* Hands chunk @c out, to a class or to the program. */
static bool chunk_take(struct ext_pool *p, uint32_t c, uint8_t mark)
{
	uint8_t old = 0;

	/* [MO:chunk-class] pairs with pool_chunk_class. */
	return cas_acq_rel(&p->chunk_class[c], &old, mark);
}

bool pool_claim_chunk(struct ext_pool *p, uint32_t chunk)
{
	if (!chunk_take(p, chunk, CHUNK_FOREIGN))
		return false;
	add_rlx(&p->foreign, 1u);
	return true;
}

/* Chunks @c ... @c+n-1 for an extent that needs several: all or none. */
static bool chunks_take(struct ext_pool *p, uint32_t c, uint32_t n,
			uint8_t mark)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (!chunk_take(p, c + i, mark))
			break;
	if (i == n)
		return true;
	while (i-- > 0)
		/* [MO:chunk-class] pairs with pool_chunk_class; no page of
		 * these was given out. */
		st_rel(&p->chunk_class[c + i], (uint8_t)0);
	return false;
}

/* Their descriptors: before the chunks have a class, since a child of fork
 * looks at those of every chunk that has one. */
static bool descriptors_open(struct ext_pool *p, uint32_t c, uint32_t n)
{
	const size_t each = CHUNK_PAGES * sizeof(*p->ext);

	return sys_mprotect((char *)p->ext + c * each, n * each,
			    PROT_READ | PROT_WRITE) == 0;
}

static bool chunks_open(struct ext_pool *p, uint32_t c, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (arena_open_chunk(&p->arena, c + i) < 0)
			return false;
	return true;
}

static uint32_t class_chunks(unsigned int cls)
{
	uint32_t pages = ext_class_pages(cls);

	return pages > CHUNK_PAGES ? pages / (uint32_t)CHUNK_PAGES : 1;
}

/* Opens a chunk for @cls unless somebody else just did. False: none left. */
static bool fresh_chunk(struct ext_pool *p, unsigned int cls)
{
	uint32_t n = class_chunks(cls), c;
	uint64_t run;
	bool ok = false;

	lock_take(&p->carve_lock);
	run = ld_rlx(&p->fresh[cls]);
	if ((uint32_t)(run >> 32) != (uint32_t)run) {
		ok = true;
		goto out;
	}
	/* An extent of several chunks is aligned to its size. */
	while ((c = (ld_rlx(&p->next_chunk) + n - 1) & ~(n - 1)) + n <=
	       ld_rlx(&p->nr_chunks)) {
		st_rlx(&p->next_chunk, c + n);
		if (!descriptors_open(p, c, n))
			break;
		if (!chunks_take(p, c, n, (uint8_t)(cls + 1)))
			continue;
		if (!chunks_open(p, c, n))
			break;
		run = (uint64_t)c * CHUNK_PAGES << 32 |
		      (uint64_t)(c + n) * CHUNK_PAGES;
		/* [MO:fresh] pairs with fresh_take: the chunk is open. */
		st_rel(&p->fresh[cls], run);
		ok = true;
		break;
	}
out:
	lock_drop(&p->carve_lock);
	return ok;
}

/* Takes up to @want pages of fresh space; returns the first, *got how many. */
static bool fresh_take(struct ext_pool *p, unsigned int cls, uint32_t want,
		       uint32_t *first, uint32_t *got)
{
	/* [MO:fresh] pairs with fresh_chunk. */
	uint64_t run = ld_acq(&p->fresh[cls]), new;
	uint32_t next, end;

	for (;;) {
		next = (uint32_t)(run >> 32);
		end = (uint32_t)run;
		if (next == end) {
			if (!fresh_chunk(p, cls))
				return false;
			/* [MO:fresh] pairs with fresh_chunk. */
			run = ld_acq(&p->fresh[cls]);
			continue;
		}
		*got = end - next < want ? end - next : want;
		new = (uint64_t)(next + *got) << 32 | end;
		/* [MO:fresh] a success after a failure has to see the chunk
		 * that fresh_chunk opened meanwhile. */
		if (cas_acq(&p->fresh[cls], &run, new))
			break;
	}
	*first = next;
	return true;
}

static void ext_make(struct ext_pool *p, uint32_t page, unsigned int cls,
		     uint8_t flags)
{
	struct extent *e = &p->ext[page];

	e->cls = (uint8_t)cls;
	e->flags = flags;
	e->dirty = 0;
	e->fill_end = 0;
	e->epoch = 0;
	st_rlx(&e->live, 0u);
	lock_init(&e->lock, LOCK_REGION);
	lock_init(&e->pte_lock, LOCK_PTE);
	st_rlx(&e->state, (uint32_t)EXT_FREE);
}

/* Frames for a piece that has none; hardened pieces start guarded, pieces of
 * the large classes get theirs in extent_need. */
static int frames_take(struct ext_pool *p, uint32_t page, unsigned int cls,
		       size_t bytes)
{
	size_t off = (size_t)page << FL_PAGE_SHIFT;
	int ret;

	if (ext_class_pages(cls) > EXT_WHOLE_PAGES)
		return p->hardened ? arena_guard(&p->arena, off, bytes) : 0;
	if (p->hardened) {
		ret = p->arena.kind == ARENA_FILE ?
			      arena_populate(&p->arena, off, bytes, false) :
			      0;
		return ret < 0 ? ret : arena_guard(&p->arena, off, bytes);
	}
	return arena_populate(&p->arena, off, bytes, true);
}

/* Cuts a batch: the first extent is the caller's, the others are pushed. With
 * signals off. */
static struct extent *cut_batch(struct ext_pool *p, unsigned int cls)
{
	uint32_t pages = ext_class_pages(cls), first, got, n;
	size_t size = class_bytes(cls);
	uint32_t batch = size < CARVE_BYTES ? (uint32_t)(CARVE_BYTES / size) :
					      1;
	struct istack *hot;
	uint8_t flags = 0;

	if (!budget_take(p, batch * size)) {
		batch = 1;
		if (!budget_take(p, size))
			return NULL;
	}
	if (!fresh_take(p, cls, batch * pages, &first, &got)) {
		budget_give(p, batch * size);
		return NULL;
	}
	n = got / pages;
	budget_give(p, (batch - n) * size);
	if (frames_take(p, first, cls, n * size) < 0) {
		budget_give(p, n * size);
		flags = EXT_COLD;
	}
	for (uint32_t i = 0; i < n; i++)
		ext_make(p, first + i * pages, cls, flags);
	stat_add(p->stats, STAT_carves, n);
	hot = flags ? &p->cold[cls] : &shard_here(p)->hot[cls];
	for (uint32_t i = flags ? 0 : 1; i < n; i++)
		istack_push(hot, first + i * pages, links(p));
	if (flags)
		return NULL;
	st_rlx(&p->ext[first].state, (uint32_t)EXT_LIVE);
	return &p->ext[first];
}

static struct extent *carve(struct ext_pool *p, unsigned int cls)
{
	struct extent *e;

	signals_off();
	e = cut_batch(p, cls);
	signals_on();
	return e;
}

void pool_cut(struct ext_pool *p, uint32_t page)
{
	unsigned int cls = (unsigned int)pool_chunk_class(p, page);
	/* [MO:fresh] pairs with fresh_chunk. */
	uint64_t run = ld_acq(&p->fresh[cls]);
	uint32_t next, end;

	signals_off();
	do {
		next = (uint32_t)(run >> 32);
		end = (uint32_t)run;
		if (page < next || page >= end)
			goto out;
		/* [MO:fresh] pairs with fresh_chunk. */
	} while (!cas_acq(&p->fresh[cls], &run, (uint64_t)end << 32 | end));
	for (; next < end; next += ext_class_pages(cls)) {
		ext_make(p, next, cls, EXT_COLD);
		istack_push(&p->cold[cls], next, links(p));
	}
out:
	signals_on();
}

/* ---------------------------------------------------------------------------
 * Recycling
 */

static struct extent *take(struct ext_pool *p, struct istack *s)
{
	uint32_t i;

	if (!istack_pop(s, &i, links(p)))
		return NULL;
	st_rlx(&p->ext[i].state, (uint32_t)EXT_LIVE);
	return &p->ext[i];
}

static struct extent *steal(struct ext_pool *p, unsigned int cls)
{
	uint32_t here = sys_cpu_id();
	struct istack *s;
	struct extent *e;

	for (uint32_t i = 1; i <= p->shard_mask; i++) {
		s = &p->shards[(here + i) & p->shard_mask].hot[cls];
		if (istack_empty(s))
			continue;
		e = take(p, s);
		if (e) {
			stat_add(p->stats, STAT_steals, 1);
			return e;
		}
	}
	return NULL;
}

/* An extent whose frames were given back, with frames again. */
static struct extent *warm(struct ext_pool *p, unsigned int cls)
{
	size_t size = class_bytes(cls);
	struct extent *e;

	if (istack_empty(&p->cold[cls]) || !budget_take(p, size))
		return NULL;
	e = take(p, &p->cold[cls]);
	if (!e) {
		budget_give(p, size);
		return NULL;
	}
	if (frames_take(p, ext_index(p, e), cls, size) < 0) {
		budget_give(p, size);
		st_rlx(&e->state, (uint32_t)EXT_FREE);
		istack_push(&p->cold[cls], ext_index(p, e), links(p));
		return NULL;
	}
	e->flags = 0;
	e->dirty = 0;
	return e;
}

_Static_assert(sizeof(struct extent) == FL_CACHELINE,
	       "a descriptor is one cache line");

int extent_need(struct ext_pool *p, struct extent *e, uint32_t npages)
{
	uint32_t have = e->dirty;
	int ret;

	if (npages <= have || ext_class_pages(e->cls) <= EXT_WHOLE_PAGES ||
	    p->hardened)
		return 0;
	ret = arena_populate(&p->arena,
			     ext_off(p, e) + ((size_t)have << FL_PAGE_SHIFT),
			     (size_t)(npages - have) << FL_PAGE_SHIFT, true);
	if (ret == 0 && p->arena.kind == ARENA_FILE)
		e->dirty = (uint16_t)npages;
	return ret;
}

struct extent *extent_alloc(struct ext_pool *p, unsigned int cls)
{
	struct extent *e = take(p, &shard_here(p)->hot[cls]);

	if (unlikely(!e)) {
		if (!istack_empty(&p->quarantine))
			pool_release_quarantine(p);
		e = steal(p, cls);
		/* One size larger, with its frames, rather than new frames. */
		if (!e && cls + 1 < EXT_NR_CLASSES) {
			e = take(p, &shard_here(p)->hot[cls + 1]);
			if (!e)
				e = steal(p, cls + 1);
		}
		if (!e)
			e = warm(p, cls);
		/* Where there are extents without frames, and none to be had
		 * for them, fresh space would go the same way. */
		if (!e && istack_empty(&p->cold[cls]))
			e = carve(p, cls);
		if (!e)
			return NULL;
	}
	e->epoch = fork_epoch(p->forks);
	stat_inc(p->stats, STAT_live_regions);
	stat_count(p->stats, STAT_live_bytes, class_bytes(e->cls));
	return e;
}

static void push_free(struct ext_pool *p, struct extent *e)
{
	st_rlx(&e->state, (uint32_t)EXT_FREE);
	if (unlikely(e->flags & EXT_COLD)) {
		istack_push(&p->cold[e->cls], ext_index(p, e), links(p));
		return;
	}
	e->flags = 0;
	istack_push(&shard_here(p)->hot[e->cls], ext_index(p, e), links(p));
}

void extent_free(struct ext_pool *p, struct extent *e)
{
	stat_sub(p->stats, STAT_live_regions, 1);
	stat_count(p->stats, STAT_live_bytes,
		   0 - (uint64_t)class_bytes(e->cls));
	if (fork_must_wait(p->forks, e->epoch) && p->arena.kind == ARENA_FILE) {
		st_rlx(&e->state, (uint32_t)EXT_FREE);
		istack_push(&p->quarantine, ext_index(p, e), links(p));
		pool_release_quarantine(p);
		return;
	}
	push_free(p, e);
}

void extent_put(struct ext_pool *p, struct extent *e, uint32_t n)
{
	/* [MO:ext-live] the last one sees what every other unmapper did, and
	 * extent_claim sees that it is gone; store-load with fork_prepare, see
	 * fork_must_wait. */
	if (sub_sc(&e->live, n) == n)
		extent_free(p, e);
}

/* Takes extent @want out of a stack, the others go back. */
static bool unstack_from(struct ext_pool *p, struct istack *s, uint32_t want)
{
	uint32_t i = istack_take_all(s), next;
	bool found = false;

	for (; i; i = next) {
		next = istack_next(links(p), i - 1);
		if (i - 1 == want)
			found = true;
		else
			istack_push(s, i - 1, links(p));
	}
	return found;
}

static bool unstack(struct ext_pool *p, struct extent *e)
{
	uint32_t want = ext_index(p, e);

	for (uint32_t s = 0; s <= p->shard_mask; s++)
		if (unstack_from(p, &p->shards[s].hot[e->cls], want))
			return true;
	return unstack_from(p, &p->cold[e->cls], want) ||
	       unstack_from(p, &p->quarantine, want);
}

bool extent_claim(struct ext_pool *p, struct extent *e, uint32_t npages)
{
	uint32_t live = ld_rlx(&e->live);

	while (live != 0)
		/* [MO:ext-live] pairs with extent_put: not once it was freed. */
		if (cas_acq_rel(&e->live, &live, live + npages))
			return true;
	if (!unstack(p, e))
		return false;
	st_rlx(&e->state, (uint32_t)EXT_LIVE);
	st_rlx(&e->live, npages);
	e->npages = 0;
	stat_inc(p->stats, STAT_live_regions);
	stat_count(p->stats, STAT_live_bytes, class_bytes(e->cls));
	return true;
}

void pool_release_quarantine(struct ext_pool *p)
{
	uint32_t i, next;

	signals_off();
	fork_poll(p->forks);
	i = istack_take_all(&p->quarantine);
	for (; i; i = next) {
		struct extent *e = &p->ext[i - 1];

		next = istack_next(links(p), i - 1);
		if (fork_must_wait(p->forks, e->epoch))
			istack_push(&p->quarantine, i - 1, links(p));
		else
			push_free(p, e);
	}
	signals_on();
}

/* ---------------------------------------------------------------------------
 * Giving memory back
 */

static void sift(uint32_t *v, uint32_t root, uint32_t n)
{
	uint32_t child, tmp;

	while ((child = 2 * root + 1) < n) {
		if (child + 1 < n && v[child] < v[child + 1])
			child++;
		if (v[root] >= v[child])
			return;
		tmp = v[root];
		v[root] = v[child];
		v[child] = tmp;
		root = child;
	}
}

/* Heap sort: qsort(3) may allocate. */
static void sort_u32(uint32_t *v, uint32_t n)
{
	uint32_t tmp;

	for (uint32_t i = n / 2; i-- > 0;)
		sift(v, i, n);
	for (uint32_t end = n; end-- > 1;) {
		tmp = v[0];
		v[0] = v[end];
		v[end] = tmp;
		sift(v, 0, end);
	}
}

/* Gives the frames of @n extents back, adjacent ones in one call. */
static void release_run(struct ext_pool *p, unsigned int cls, uint32_t *v,
			uint32_t n)
{
	uint32_t pages = ext_class_pages(cls), run;

	sort_u32(v, n);
	for (uint32_t i = 0; i < n; i += run) {
		for (run = 1; i + run < n; run++)
			if (v[i + run] != v[i] + run * pages)
				break;
		if (arena_release(&p->arena, (size_t)v[i] << FL_PAGE_SHIFT,
				  run * class_bytes(cls)) == 0) {
			for (uint32_t k = i; k < i + run; k++) {
				p->ext[v[k]].flags |= EXT_COLD;
				p->ext[v[k]].dirty = 0;
			}
			budget_give(p, run * class_bytes(cls));
		}
		for (uint32_t k = i; k < i + run; k++)
			push_free(p, &p->ext[v[k]]);
	}
}

/* Trims one stack; returns bytes. */
static uint64_t trim_stack(struct ext_pool *p, struct istack *s,
			   unsigned int cls, uint32_t permille)
{
	uint32_t n = 0, keep, cap, *v;
	uint64_t before = ld_rlx(&p->budget->resident), after;
	struct extent *e;

	/* The size is a guess: others push and pop meanwhile. */
	cap = ld_rlx(&p->next_chunk) * (uint32_t)CHUNK_PAGES >> cls;
	v = table_map(cap * sizeof(*v), PROT_READ | PROT_WRITE);
	if (is_err(v))
		return 0;
	while (n < cap && (e = take(p, s)) != NULL)
		v[n++] = ext_index(p, e);
	keep = n - (uint32_t)((uint64_t)n * permille / 1000);
	if (n > keep)
		release_run(p, cls, v + keep, n - keep);
	while (keep-- > 0) {
		st_rlx(&p->ext[v[keep]].state, (uint32_t)EXT_FREE);
		istack_push(s, v[keep], links(p));
	}
	table_unmap(v, cap * sizeof(*v));
	after = ld_rlx(&p->budget->resident);
	return before > after ? before - after : 0;
}

uint64_t pool_trim(struct ext_pool *p, uint32_t permille)
{
	uint64_t bytes = 0;

	if (!lock_try(&p->trim_lock))
		return 0;
	for (uint32_t s = 0; s <= p->shard_mask; s++)
		for (unsigned int c = 0; c < EXT_NR_CLASSES; c++)
			if (!istack_empty(&p->shards[s].hot[c]))
				bytes += trim_stack(p, &p->shards[s].hot[c], c,
						    permille);
	lock_drop(&p->trim_lock);
	if (bytes) {
		stat_add(p->stats, STAT_trims, 1);
		stat_add(p->stats, STAT_trimmed_bytes, bytes);
	}
	return bytes;
}

/* ---------------------------------------------------------------------------
 * fork
 */

/* One extent in the child: from the page table, not from its own state, which
 * another thread of the parent may have been changing. */
static void fork_child_extent(struct ext_pool *p, uint32_t page,
			      unsigned int cls, uint32_t live, bool cold)
{
	struct extent *e = &p->ext[page];

	if (ld_rlx(&e->state) == EXT_VIRGIN)
		ext_make(p, page, cls, EXT_COLD);
	lock_init(&e->lock, LOCK_REGION);
	lock_init(&e->pte_lock, LOCK_PTE);
	st_rlx(&e->live, live);
	if (live) {
		stat_inc(p->stats, STAT_live_regions);
		stat_count(p->stats, STAT_live_bytes, class_bytes(cls));
		st_rlx(&e->state, (uint32_t)EXT_LIVE);
		e->flags &= (uint8_t)~EXT_COLD;
		budget_count(p, class_bytes(cls));
		return;
	}
	if (cold)
		e->flags = EXT_COLD;
	if (!(e->flags & EXT_COLD))
		budget_count(p, class_bytes(cls));
	else
		e->dirty = 0;
	push_free(p, e);
}

void pool_fork_child(struct ext_pool *p,
		     uint32_t (*live_pages)(void *ctx, struct ext_pool *p,
					    struct extent *e),
		     void *ctx, bool cold)
{
	uint32_t chunks = ld_rlx(&p->next_chunk), pages, first, end;

	stacks_reset(p);
	for (uint32_t c = 0; c < chunks; c++) {
		uint8_t mark = ld_rlx(&p->chunk_class[c]);
		unsigned int cls = mark - 1u;
		uint64_t run;

		if (mark == 0 || mark == CHUNK_FOREIGN ||
		    c % class_chunks(cls) != 0)
			continue;
		run = ld_rlx(&p->fresh[cls]);
		first = c * (uint32_t)CHUNK_PAGES;
		end = first + class_chunks(cls) * (uint32_t)CHUNK_PAGES;
		if ((uint32_t)run == end)
			end = (uint32_t)(run >> 32);
		else if (ld_rlx(&p->ext[first].state) == EXT_VIRGIN)
			continue; /* was being opened: lost to the child */
		pages = ext_class_pages(cls);
		for (uint32_t i = first; i < end; i += pages)
			fork_child_extent(p, i, cls,
					  live_pages(ctx, p, &p->ext[i]), cold);
	}
}
