// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * init.c - pagers: opening, closing, forking, trimming, asking.
 *
 * FORK. prepare raises the fork barrier (mem/fork.h), so that nothing which
 * lives now is recycled until the child has reported; then liburcu's own
 * preparation, which waits for nobody. The child is alone: it takes the shadow
 * page table as the truth, gives the file arena frames of its own with the
 * bytes of every live page, rebuilds the stacks of free extents, and reports.
 * The anonymous arena needs no copy: the kernel does it page by page. Where no
 * page of the file arena lives, all of this waits until the child first needs
 * the pager (pager_settle): most children exec before that.
 *
 * The three handlers are registered once and serve every pager. pthread_atfork
 * does not say whether the fork failed; errno does: prepare zeroes it, and
 * glibc's fork leaves it so unless the call failed.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>
#include <pthread.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "api/pager.h"
#include "base/file.h"
#include "base/log.h"
#include "base/rcu.h"
#include "base/sys.h"
#include "fault/mode.h"
#include "base/ban.h"

/* Address space of an arena: so many times the budget, since each size class
 * keeps the address space of its own peak. */
#define ARENA_TIMES 8
#define ARENA_LEAST (2 * CHUNK_SIZE)
#define ARENA_CHARGED (8 * CHUNK_SIZE)

static struct fork_ledger ledger;
static struct fl_pager *pagers[FL_MAX_PAGERS];
static bool ledger_ready;
static struct fl_lock pagers_lock = FL_LOCK_INIT(LOCK_PAGER);
/* Of the thread that forks; LOCK_FORK. */
static int saved_errno;

/* ---------------------------------------------------------------------------
 * fork
 */

static int copy_run(void *arg, size_t idx, size_t n, enum pte_state state)
{
	struct fl_pager *p = arg;
	struct ext_pool *pool = &p->pool[ARENA_FILE];
	size_t off = idx << FL_PAGE_SHIFT, len = n << FL_PAGE_SHIFT;

	if (state == PTE_BUSY) {
		/* Its owner does not exist here; the bytes do. */
		struct extent *e = pool_extent(pool, (uint32_t)idx);

		pt_move_range(&p->pt[ARENA_FILE], &e->pte_lock, idx, n,
			      PTE_BUSY, pte_mk_present(idx, PTE_R), 1);
	} else if (state != PTE_PRESENT) {
		return 0;
	}
	memcpy(pool->arena.fill + off, pool->arena.user + off, len);
	stat_add(&p->stats, STAT_fork_copied_bytes, len);
	return 0;
}

/*
 * The bytes that demoted pages go back to on MADV_DONTNEED stand in the fill
 * view only: they are taken aside while it gets its new frames.
 */
struct aside {
	struct fl_pager *p;
	char *buf; /* NULL: only count */
	size_t bytes;
	bool back;
};

static int aside_run(void *arg, size_t idx, size_t n, enum pte_state state)
{
	struct aside *a = arg;
	struct pgtable *pt = &a->p->pt[ARENA_FILE];
	char *at = a->p->pool[ARENA_FILE].arena.fill;

	for (; state == PTE_KERNEL && n > 0; idx++, n--) {
		char *page = at + (idx << FL_PAGE_SHIFT);

		if (pte_payload(pt_get(pt, idx)) != PAYLOAD_DEMOTED)
			continue;
		if (a->buf && a->back)
			memcpy(page, a->buf + a->bytes, FL_PAGE_SIZE);
		else if (a->buf)
			memcpy(a->buf + a->bytes, page, FL_PAGE_SIZE);
		a->bytes += FL_PAGE_SIZE;
	}
	return 0;
}

static void aside_walk(struct aside *a, size_t pages, bool back)
{
	a->bytes = 0;
	a->back = back;
	pt_for_each(&a->p->pt[ARENA_FILE], 0, pages, aside_run, a);
}

/* 0 or -errno; @a->bytes is 0 where there is nothing to put back. */
static int aside_take(struct aside *a, size_t pages)
{
	char *buf;

	aside_walk(a, pages, false);
	if (a->bytes == 0)
		return 0;
	buf = sys_mmap(NULL, a->bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (is_err(buf))
		return (int)ptr_err(buf);
	a->buf = buf;
	aside_walk(a, pages, false);
	return 0;
}

static void aside_back(struct aside *a, size_t pages)
{
	if (!a->buf)
		return;
	aside_walk(a, pages, true);
	sys_munmap(a->buf, a->bytes);
}

struct view_walk {
	struct fl_pager *p;
	size_t from; /* page up to which the user view is done */
	bool opened;
	int err;
};

static void view_upto(struct view_walk *w, size_t to)
{
	struct ext_pool *pool = &w->p->pool[ARENA_FILE];
	size_t off = w->from << FL_PAGE_SHIFT;

	if (to > w->from && w->err == 0) {
		size_t len = (to - w->from) << FL_PAGE_SHIFT;

		w->err = arena_fork_user(&pool->arena, off, len, w->opened);
		if (w->err == 0 && w->opened && pool->hardened)
			w->err = arena_guard(&pool->arena, off, len);
	}
	w->from = to;
}

/* hardened=1: the new view is guarded but for what lives. */
static int lift_run(void *arg, size_t idx, size_t n, enum pte_state state)
{
	struct fl_pager *p = arg;

	if (state != PTE_PRESENT)
		return 0;
	return arena_unguard(&p->pool[ARENA_FILE].arena, idx << FL_PAGE_SHIFT,
			     n << FL_PAGE_SHIFT);
}

/* The program's own kernel mappings stay. */
static int view_run(void *arg, size_t idx, size_t n, enum pte_state state)
{
	struct view_walk *w = arg;

	if (state != PTE_KERNEL)
		return 0;
	view_upto(w, idx);
	w->from = idx + n;
	return w->err;
}

/* Pages from ... to-1 of the user view, around chunks that are the program's. */
static int view_turn(struct fl_pager *p, size_t from, size_t to, bool opened)
{
	struct ext_pool *pool = &p->pool[ARENA_FILE];
	struct view_walk w = { p, from, opened, 0 };

	if (!opened && ld_rlx(&pool->foreign) == 0)
		from = to; /* nothing to look for */
	for (size_t c = from / CHUNK_PAGES; c < to / CHUNK_PAGES; c++) {
		if (ld_rlx(&pool->chunk_class[c]) != CHUNK_FOREIGN) {
			if (opened)
				pt_for_each(&p->pt[ARENA_FILE], c * CHUNK_PAGES,
					    CHUNK_PAGES, view_run, &w);
			continue;
		}
		view_upto(&w, c * CHUNK_PAGES);
		w.from = (c + 1) * CHUNK_PAGES;
	}
	view_upto(&w, to);
	return w.err;
}

static int copy_file_arena(struct fl_pager *p)
{
	struct ext_pool *pool = &p->pool[ARENA_FILE];
	size_t pages = (size_t)ld_rlx(&pool->next_chunk) * CHUNK_PAGES;
	struct aside aside = { .p = p };
	int ret;

	if (arena_size(&pool->arena) == 0) /* shrunk before it was used */
		return 0;
	ret = aside_take(&aside, pages);
	if (ret < 0)
		return ret;
	ret = arena_fork_fill(&pool->arena, pages << FL_PAGE_SHIFT);
	if (ret < 0) {
		if (aside.buf)
			sys_munmap(aside.buf, aside.bytes);
		return ret;
	}
	aside_back(&aside, pages);
	pt_for_each(&p->pt[ARENA_FILE], 0, pages, copy_run, p);
	ret = view_turn(p, 0, pages, true);
	if (ret == 0 && pool->hardened)
		ret = pt_for_each(&p->pt[ARENA_FILE], 0, pages, lift_run, p);
	if (ret == 0)
		ret = view_turn(p, pages, arena_pages(&pool->arena), false);
	return ret;
}

static uint32_t live_pages(void *ctx, struct ext_pool *pool, struct extent *e)
{
	struct fl_pager *p = ctx;
	uint32_t state = ld_rlx(&e->state), page = ext_index(pool, e), n;

	if (state == EXT_FREE || state == EXT_VIRGIN)
		return 0;
	n = ext_class_pages((unsigned int)pool_chunk_class(pool, page));
	return n - (uint32_t)pt_count_range(&p->pt[pool->arena.kind], page, n,
					    PTE_NONE);
}

/* Demotions other threads of the parent were in the middle of. */
static int settle_run(void *arg, size_t idx, size_t n, enum pte_state state)
{
	struct fl_pager *p = arg;
	struct extent *e = pool_extent(&p->pool[ARENA_ANON], (uint32_t)idx);

	if (state == PTE_BUSY)
		pt_move_range(&p->pt[ARENA_ANON], &e->pte_lock, idx, n,
			      PTE_BUSY,
			      pte_mk_state(PTE_KERNEL, PAYLOAD_DEMOTED), 0);
	return 0;
}

/* Rebuilds the pager in the child. */
static bool take_over(struct fl_pager *p)
{
	uint32_t anon = ld_rlx(&p->pool[ARENA_ANON].next_chunk);
	int ret;

	/* Counted anew below. */
	stat_sub(&p->stats, STAT_live_regions,
		 stat_sum(&p->stats, STAT_live_regions));
	stat_sub(&p->stats, STAT_live_bytes,
		 stat_sum(&p->stats, STAT_live_bytes));
	stat_sub(&p->stats, STAT_resident_bytes,
		 stat_sum(&p->stats, STAT_resident_bytes));
	st_rlx(&p->budget.resident, (uint64_t)0);
	slab_fork_child(&p->slab);
	for (int k = 0; k < NR_ARENAS; k++) {
		pt_fork_child(&p->pt[k]);
		lock_reset(&p->pool[k].trim_lock);
		lock_reset(&p->pool[k].carve_lock);
	}
	ret = copy_file_arena(p);
	if (ret < 0) {
		fl_log_once(FL_LOG_WARN,
			    "a child of fork cannot have frames of "
			    "its own (error %d): it maps with the kernel",
			    -ret);
		p->usable = false;
		p->adopt = false;
		return false;
	}
	pt_for_each(&p->pt[ARENA_ANON], 0, (size_t)anon * CHUNK_PAGES,
		    settle_run, p);
	pool_fork_child(&p->pool[ARENA_FILE], live_pages, p, true);
	pool_fork_child(&p->pool[ARENA_ANON], live_pages, p, false);
	p->adopt = false;
	/* [MO:cookie] the pager, to pager_mine and pager_settle. */
	st_rel(p->cookie, 1u);
	return true;
}

void pager_adopt(struct fl_pager *p)
{
	lock_take(&p->adopt_lock);
	if (p->adopt)
		take_over(p);
	lock_drop(&p->adopt_lock);
}

static int is_live(void *arg, size_t idx, size_t n, enum pte_state state)
{
	struct aside a = { .p = arg };

	aside_run(&a, idx, n, state);
	return state == PTE_PRESENT || state == PTE_BUSY || a.bytes > 0;
}

/* At once if there are pages to copy, else when the child first maps. */
static bool fork_child_pager(struct fl_pager *p)
{
	size_t chunks = ld_rlx(&p->pool[ARENA_FILE].next_chunk);

	stat_fork_child(&p->stats);
	lock_init(&p->adopt_lock, LOCK_ADOPT);
	p->adopt = p->usable;
	/* At once, too, where a region is served that is paid from the budget,
	 * which take_over counts anew. */
	if (!p->usable || (!ld_rlx(&p->demand.ready) &&
			   !pt_for_each(&p->pt[ARENA_FILE], 0,
					chunks * CHUNK_PAGES, is_live, p)))
		return true;
	return take_over(p);
}

static void atfork_prepare(void)
{
	int err = errno;

	fork_prepare(&ledger);
	vma_fork_prepare();
	rcu_fork_prepare();
	saved_errno = err;
	errno = 0;
}

static void atfork_parent(void)
{
	bool failed = errno != 0;
	int err = failed ? errno : saved_errno;

	rcu_fork_parent();
	vma_fork_parent();
	fork_parent(&ledger, failed);
	errno = err;
}

static void atfork_child(void)
{
	int err = saved_errno;
	bool copied = true;

	rcu_fork_child();
	fork_child_begin(&ledger);
	lock_reset(&pagers_lock);
	vma_fork_child();
	delivery_fork_child();
	for (int i = 0; i < FL_MAX_PAGERS; i++)
		if (pagers[i])
			demand_fork_child(pagers[i]);
	vma_fork_end();
	for (int i = 0; i < FL_MAX_PAGERS; i++)
		if (pagers[i])
			copied &= fork_child_pager(pagers[i]);
	fork_child_end(&ledger, copied);
	errno = err;
}

/* ---------------------------------------------------------------------------
 * Bringing up and down
 */

static int ledger_get(void)
{
	int ret = 0;

	lock_take(&pagers_lock);
	if (!ledger_ready) {
		ret = fork_ledger_init(&ledger);
		if (ret == 0 && pthread_atfork(atfork_prepare, atfork_parent,
					       atfork_child) != 0) {
			fork_ledger_destroy(&ledger);
			ret = -ENOMEM;
		}
		ledger_ready = ret == 0;
	}
	lock_drop(&pagers_lock);
	return ret;
}

static int cookie_make(struct fl_pager *p)
{
	_Atomic(uint32_t) *c = sys_mmap(NULL, FL_PAGE_SIZE,
					PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (is_err((void *)c))
		return (int)ptr_err((void *)c);
	st_rlx(c, 1u);
	lock_init(&p->adopt_lock, LOCK_ADOPT);
	sys_madvise((void *)c, FL_PAGE_SIZE, MADV_WIPEONFORK);
	p->cookie = c;
	return 0;
}

/* With vm.overcommit_memory=2 a shared reservation is charged in full. */
static bool charged_in_full(void)
{
	char buf[8];

	return file_read(AT_FDCWD, "/proc/sys/vm/overcommit_memory", buf,
			 sizeof(buf)) > 0 &&
	       buf[0] == '2';
}

/* How much address space an arena may take: of a limited process a sixteenth,
 * there being three views and their tables. */
static size_t arena_bytes(uint64_t budget)
{
	struct rlimit lim = { RLIM_INFINITY, RLIM_INFINITY };
	uint64_t size = budget * ARENA_TIMES;

	if (charged_in_full())
		return ARENA_CHARGED;

	if (size > (uint64_t)1 << 42)
		size = (uint64_t)1 << 42;
	if (size < 64 * CHUNK_SIZE)
		size = 64 * CHUNK_SIZE;
	sys_call4(__NR_prlimit64, 0, RLIMIT_AS, NULL, &lim);
	if (lim.rlim_cur != RLIM_INFINITY && size > lim.rlim_cur / 16)
		size = lim.rlim_cur / 16;
	return (size_t)size;
}

/* As many tables as both arenas can ever fill, and the ones above them. */
static uint32_t max_tables(size_t arena)
{
	size_t leaves = (arena >> (FL_PAGE_SHIFT + PT_LEAF_SHIFT)) + 1;

	return (uint32_t)(NR_ARENAS * (leaves + leaves / PT_UPPER_SIZE + 4));
}

static int pool_make(struct fl_pager *p, enum arena_kind kind, size_t size)
{
	struct ext_pool *pool = &p->pool[kind];
	int ret = pool_init(pool, kind, size, size);

	if (ret < 0)
		return ret;
	pool->hardened = p->conf.hardened;
	pool->budget = &p->budget;
	pool->stats = &p->stats;
	pool->forks = &ledger;
	ret = pt_init(&p->pt[kind], arena_pages(&pool->arena), &p->slab);
	if (ret < 0)
		pool_destroy(pool);
	return ret;
}

static void pool_unmake(struct fl_pager *p, enum arena_kind kind)
{
	pt_destroy(&p->pt[kind]);
	pool_destroy(&p->pool[kind]);
}

static int arenas_try(struct fl_pager *p, size_t size)
{
	int ret = slab_init_max(&p->slab, "faultline tables", max_tables(size));

	if (ret < 0)
		return ret;
	ret = pool_make(p, ARENA_FILE, size);
	if (ret < 0)
		goto out_slab;
	ret = pool_make(p, ARENA_ANON, size);
	if (ret < 0)
		goto out_file;
	return 0;
out_file:
	pool_unmake(p, ARENA_FILE);
out_slab:
	slab_destroy(&p->slab);
	return ret;
}

/* Both arenas of one size: half as much until all fits (RLIMIT_AS). */
static int arenas_make(struct fl_pager *p, size_t size)
{
	int ret = -ENOMEM;

	for (; ret == -ENOMEM && size >= ARENA_LEAST; size /= 2)
		ret = arenas_try(p, size & ~(CHUNK_SIZE - 1));
	return ret;
}

int pager_init(struct fl_pager *p)
{
	uint64_t budget = conf_budget(&p->conf);
	int ret;

	if (getauxval(AT_PAGESZ) != FL_PAGE_SIZE)
		return -ENOTSUP;
	p->conf.mem = budget; /* what fl_conf_get tells */
	p->budget.high = budget / 100 * p->conf.high;
	p->budget.low = budget / 100 * p->conf.low;
	ret = ledger_get();
	if (ret < 0)
		return ret;
	ret = cookie_make(p);
	if (ret < 0)
		return ret;
	ret = stat_init(&p->stats);
	if (ret < 0)
		goto out_cookie;
	ret = arenas_make(p, arena_bytes(budget));
	if (ret < 0)
		goto out_stat;
	lock_init(&p->demand.lock, LOCK_DEMAND);
	p->usable = true;
	/* Registers this thread with liburcu, and so makes it get the memory
	 * for the first readers while there still is some. */
	rcu_enter();
	rcu_exit();
	return 0;
out_stat:
	stat_destroy(&p->stats);
out_cookie:
	sys_munmap((void *)p->cookie, FL_PAGE_SIZE);
	return ret;
}

void pager_destroy(struct fl_pager *p)
{
	demand_destroy(p);
	pool_unmake(p, ARENA_ANON);
	pool_unmake(p, ARENA_FILE);
	slab_destroy(&p->slab);
	stat_destroy(&p->stats);
	sys_munmap((void *)p->cookie, FL_PAGE_SIZE);
}

int pager_enlist(struct fl_pager *p)
{
	int ret = -EMFILE;

	lock_take(&pagers_lock);
	for (int i = 0; i < FL_MAX_PAGERS; i++)
		if (!pagers[i]) {
			pagers[i] = p;
			ret = 0;
			break;
		}
	lock_drop(&pagers_lock);
	return ret;
}

void pager_delist(struct fl_pager *p)
{
	lock_take(&pagers_lock);
	for (int i = 0; i < FL_MAX_PAGERS; i++)
		if (pagers[i] == p)
			pagers[i] = NULL;
	lock_drop(&pagers_lock);
}

static void option_refused(const char *name, const char *value, int err)
{
	fl_log(FL_LOG_WARN, "option %s=%s: %s", name, value,
	       conf_strerror(err));
}

int fl_pager_open(struct fl_pager **out, const char *options)
{
	struct fl_pager *p = sys_mmap(NULL, page_align_up(sizeof(*p)),
				      PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int ret;

	if (is_err(p))
		return (int)ptr_err(p);
	conf_defaults(&p->conf);
	ret = conf_parse_list(&p->conf, options, option_refused) < 0 ?
		      -EINVAL :
		      pager_init(p);
	if (ret < 0)
		goto out_free;
	p->publish = false;
	ret = pager_enlist(p);
	if (ret < 0) {
		pager_destroy(p);
		goto out_free;
	}
	*out = p;
	return 0;
out_free:
	sys_munmap(p, page_align_up(sizeof(*p)));
	return ret;
}

int fl_pager_close(struct fl_pager *p)
{
	if (!p)
		return -EINVAL;
	if (p->permanent || stat_sum(&p->stats, STAT_live_regions) != 0 ||
	    demand_live(p))
		return -EBUSY;
	pager_delist(p);
	pager_destroy(p);
	sys_munmap(p, page_align_up(sizeof(*p)));
	return 0;
}

/* ---------------------------------------------------------------------------
 * Giving memory back
 */

/* Emptying everything because the budget is reached is worth it at most once in
 * this time; in between, mappings go to the kernel. */
#define HARD_TRIM_MS 100

static bool hard_trim_due(struct fl_pager *p)
{
	struct timespec now;
	uint64_t ms, last = ld_rlx(&p->last_hard_trim);

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
	return ms - last >= HARD_TRIM_MS &&
	       cas_rlx(&p->last_hard_trim, &last, ms);
}

static uint64_t trim_pools(struct fl_pager *p, uint32_t permille)
{
	uint64_t bytes = 0;

	for (int k = 0; k < NR_ARENAS; k++) {
		pool_release_quarantine(&p->pool[k]);
		bytes += pool_trim(&p->pool[k], permille);
	}
	return bytes;
}

uint64_t pager_trim(struct fl_pager *p, bool hard)
{
	uint64_t held, live, idle, low = p->budget.low;

	if (!pager_mine(p) || (hard && !hard_trim_due(p)))
		return 0;
	held = ld_rlx(&p->budget.resident);
	live = stat_sum(&p->stats, STAT_live_bytes);
	idle = held > live ? held - live : 0;
	if (hard)
		return trim_pools(p, 1000);
	/* A quarter above the mark before anything is done, so that it is done
	 * in bulk. */
	if (idle <= low + low / 4)
		return 0;
	return trim_pools(p, (uint32_t)((idle - low) * 1000 / idle));
}

long fl_shrink(struct fl_pager *p)
{
	size_t bytes = 0;

	pager_settle(p);
	for (int k = 0; k < NR_ARENAS; k++)
		bytes += pool_shrink(&p->pool[k]);
	return (long)bytes;
}

long fl_trim(struct fl_pager *p)
{
	uint64_t bytes;

	pager_settle(p);
	if (!pager_mine(p))
		return 0;
	bytes = trim_pools(p, 1000);
	for (int k = 0; k < NR_ARENAS; k++)
		while (pt_reap(&p->pt[k]) > 0)
			;
	slab_trim(&p->slab);
	return (long)bytes;
}

/* ---------------------------------------------------------------------------
 * Asking
 */

int fl_find(struct fl_pager *p, const void *addr)
{
	if (fl_region_error(p, addr) != -EFAULT)
		return 3;
	for (int k = 0; k < NR_ARENAS; k++) {
		struct ext_pool *pool = &p->pool[k];
		uint32_t page;
		enum pte_state state;

		if (!arena_has(&pool->arena, addr))
			continue;
		page = pool_page(pool, addr);
		state = pte_state(pt_get(&p->pt[k], page));
		if (state == PTE_KERNEL)
			return 2;
		return state != PTE_NONE;
	}
	return 0;
}

int fl_conf_get(struct fl_pager *p, const char *name, char *buf, size_t size)
{
	return conf_get(&p->conf, name, buf, size);
}

int fl_stat_read(struct fl_pager *p, const char *name, uint64_t *value)
{
	int id = stat_find(name);

	if (id < 0)
		return -ENOENT;
	*value = stat_sum(&p->stats, (enum stat_id)id);
	return 0;
}

const char *fl_stat_name(unsigned int index)
{
	return index < STAT_NR ? stat_rows[index].name : NULL;
}

const char *fl_version(void)
{
	return FL_VERSION_STRING;
}
