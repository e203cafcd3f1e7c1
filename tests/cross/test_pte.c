// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * test_pte.c - conformance of an entry codec: built once for each folder of
 * arch/, with -DCODEC_<folder>.
 *
 * With -DNO_REGION_LOCK the lock of the region is left out: the two tests of
 * lost updates must then fail on the codecs that need it, and run.sh checks
 * that they do.
 */
#ifdef NO_REGION_LOCK
struct fl_lock;
#define arch_region_lock(region) ((void)(region))
#define arch_region_unlock(region) ((void)(region))
#endif

#include "mem/pte.h"

#include <sched.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "pte_expect.h"

#define STR2(x) #x
#define STR(x) STR2(x)

static struct fl_lock region = FL_LOCK_INIT(LOCK_PTE);

static const enum pte_state np_states[] = {
	PTE_FILE, PTE_BUSY, PTE_CACHED, PTE_POISON, PTE_KERNEL,
};

static const unsigned int payloads[] = { 0, 1, 5, 4095, PTE_PAYLOAD_MAX };

static bool same(pte_t a, pte_t b)
{
	return a.v == b.v;
}

/* Bit positions. */

static void words(void)
{
	pte_t r = pte_mk_present(0x12345, PTE_R);
	pte_t w = pte_mk_present(0x12345, PTE_R | PTE_W);

	CHECK(sizeof(pteval_t) * 8 == EXPECT_BITS);
	CHECK(pte_to_hw(r) == (pteval_t)EXPECT_RO);
	CHECK(pte_to_hw(w) == (pteval_t)EXPECT_RW);
	CHECK(pte_to_hw(pte_mkyoung(r)) ==
	      (pteval_t)(EXPECT_RO | EXPECT_YOUNG));
	CHECK(pte_to_hw(pte_mkdirty(r)) ==
	      (pteval_t)(EXPECT_RO | EXPECT_DIRTY));
	CHECK(pte_to_hw(pte_mksoft(r, PTE_SOFT0)) ==
	      (pteval_t)(EXPECT_RO | EXPECT_SOFT0));
	CHECK(pte_to_hw(pte_mksoft(r, PTE_SOFT1)) ==
	      (pteval_t)(EXPECT_RO | EXPECT_SOFT1));
	CHECK(pte_to_hw((pte_t){ 0 }) == (pteval_t)EXPECT_EMPTY);
	CHECK(same(pte_from_hw((pteval_t)EXPECT_EMPTY), (pte_t){ 0 }));
	CHECK(same(pte_from_hw((pteval_t)EXPECT_RW), w));
	CHECK(ARCH_PTE_PFN_MASK >> ARCH_PTE_PFN_SHIFT == EXPECT_MAX_PFN);
	CHECK(pte_pfn(pte_mk_present(EXPECT_MAX_PFN, PTE_R)) == EXPECT_MAX_PFN);
	CHECK(pte_pfn(pte_mk_present(0, PTE_R)) == 0);
	CHECK(!EXPECT_INVALID(pte_to_hw(pte_mk_present(0, PTE_R))));
}

static void bytes_in_memory(void)
{
	struct pte_slot slot;
	unsigned char b[sizeof(pteval_t)];

	ptep_set_rel(&slot, pte_mk_present(0x12345, PTE_R));
	memcpy(b, &slot, sizeof(b));
	for (size_t i = 0; i < sizeof(b); i++) {
		size_t shift = 8 * (EXPECT_BIG ? sizeof(b) - 1 - i : i);
		pteval_t word = (pteval_t)EXPECT_RO ^ (pteval_t)EXPECT_EMPTY;

		CHECK(b[i] == (unsigned char)(word >> shift));
	}
}

/* Values. */

static pte_t make(uint64_t pfn, unsigned int bits)
{
	pte_t e = pte_mk_present(pfn, bits & 1 ? PTE_R | PTE_W : PTE_R);

	if (bits & 2)
		e = pte_mkyoung(e);
	if (bits & 4)
		e = pte_mkdirty(e);
	return pte_mksoft(e, bits >> 3);
}

static bool looks(pte_t e, uint64_t pfn, unsigned int bits)
{
	return pte_state(e) == PTE_PRESENT && pte_present(e) && !pte_none(e) &&
	       pte_pfn(e) == pfn && pte_write(e) == (bits & 1) &&
	       pte_young(e) == ((bits >> 1) & 1) &&
	       pte_dirty(e) == ((bits >> 2) & 1) && pte_soft(e) == bits >> 3;
}

/* Every combination of flags; each operation changes its own and no other. */
static void flags(void)
{
	static const uint64_t pfns[] = { 0, 1, 0x2aaaa, 0xfffff,
					 EXPECT_MAX_PFN };

	for (size_t i = 0; i < ARRAY_SIZE(pfns); i++) {
		for (unsigned int b = 0; b < 32; b++) {
			uint64_t p = pfns[i];
			pte_t e = make(p, b);

			CHECK(looks(e, p, b));
			CHECK(looks(pte_mkwrite(e), p, b | 1));
			CHECK(looks(pte_wrprotect(e), p, b & ~1u));
			CHECK(looks(pte_mkyoung(e), p, b | 2));
			CHECK(looks(pte_mkold(e), p, b & ~2u));
			CHECK(looks(pte_mkdirty(e), p, b | 4));
			CHECK(looks(pte_mkclean(e), p, b & ~4u));
			CHECK(looks(pte_mksoft(e, 0), p, b & 7));
			CHECK(looks(pte_mksoft(e, 3), p, b | 24));
			CHECK(same(pte_from_hw(pte_to_hw(e)), e));
			CHECK(!EXPECT_INVALID(pte_to_hw(e)));
		}
	}
}

static void states(void)
{
	struct pte_slot zero;

	memset(&zero, 0, sizeof(zero));
	CHECK(pte_state(ptep_get(&zero)) == PTE_NONE);
	CHECK(pte_none(ptep_get(&zero)));
	CHECK(pte_mk_state(PTE_NONE, 0).v == 0);
	for (size_t i = 0; i < ARRAY_SIZE(np_states); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(payloads); j++) {
			pte_t e = pte_mk_state(np_states[i], payloads[j]);

			CHECK(pte_state(e) == np_states[i]);
			CHECK(pte_payload(e) == payloads[j]);
			CHECK(!pte_present(e) && !pte_none(e));
			CHECK(!pte_write(e) && !pte_young(e) && !pte_dirty(e));
			CHECK(EXPECT_INVALID(pte_to_hw(e)));
		}
	}
}

/* Slots, one thread. */

static void exchange(void)
{
	struct pte_slot s;
	pte_t a = make(0x111, 0), b = make(0x222, 31), old;

	ptep_set(&region, &s, a);
	CHECK(same(ptep_get(&s), a) && same(ptep_get_rlx(&s), a));
	old = b;
	CHECK(!ptep_cmpxchg(&region, &s, &old, b));
	CHECK(same(old, a) && same(ptep_get(&s), a));
	CHECK(ptep_cmpxchg(&region, &s, &old, b));
	CHECK(same(old, a) && same(ptep_get(&s), b));
	CHECK(same(ptep_xchg(&region, &s, a), b));
	CHECK(same(ptep_get_and_clear(&region, &s), a));
	CHECK(pte_none(ptep_get(&s)));
	CHECK(!lock_held(&region));
}

static struct pte_slot *flush_slot;
static unsigned int flush_calls;
static pte_t flush_saw;

static void on_flush(void *arg)
{
	CHECK(arg == &flush_calls);
	flush_calls++;
	flush_saw = ptep_get(flush_slot);
}

static void exchange_and_flush(void)
{
	struct pte_slot s;
	pte_t a = make(0x111, 7), b = make(0x222, 0);
	pte_t file = pte_mk_state(PTE_FILE, 0);

	flush_slot = &s;
	flush_calls = 0;
	ptep_set_rel(&s, a);
	CHECK(same(ptep_xchg_flush(&region, &s, b, on_flush, &flush_calls), a));
	CHECK(flush_calls == 1);
	CHECK(!same(flush_saw, a));
	CHECK(same(ptep_get(&s), b));
	CHECK(same(ptep_xchg_flush(&region, &s, file, NULL, NULL), b));
	CHECK(same(ptep_xchg_flush(&region, &s, a, on_flush, &flush_calls),
		   file));
	CHECK(flush_calls == 1);
	CHECK(same(ptep_get(&s), a));
	CHECK(!lock_held(&region));
}

static void test_and_clear(void)
{
	for (unsigned int b = 0; b < 32; b++) {
		struct pte_slot s;

		ptep_set_rel(&s, make(0x333, b));
		CHECK(ptep_test_and_clear_young(&region, &s) == !!(b & 2));
		CHECK(looks(ptep_get(&s), 0x333, b & ~2u));
		ptep_set_rel(&s, make(0x333, b));
		CHECK(ptep_set_wrprotect(&region, &s) == !!(b & 1));
		CHECK(looks(ptep_get(&s), 0x333, b & ~1u));
		ptep_set_rel(&s, make(0x333, b));
		CHECK(ptep_mkdirty(&region, &s) == !(b & 4));
		CHECK(looks(ptep_get(&s), 0x333, b | 4));
	}
}

/* What finds an entry unmapped meanwhile leaves it as it is. */
static void test_and_clear_absent(void)
{
	for (size_t i = 0; i <= ARRAY_SIZE(np_states); i++) {
		pte_t e = { 0 };
		struct pte_slot s;

		if (i < ARRAY_SIZE(np_states))
			e = pte_mk_state(np_states[i], PTE_PAYLOAD_MAX);
		ptep_set_rel(&s, e);
		CHECK(!ptep_test_and_clear_young(&region, &s));
		CHECK(!ptep_set_wrprotect(&region, &s));
		CHECK(!ptep_mkdirty(&region, &s));
		CHECK(same(ptep_get(&s), e));
	}
}

static void entry_lock(void)
{
	struct pte_slot s;
	pte_t a = make(0x444, 5), old;

	ptep_set_rel(&s, a);
	CHECK(pte_trylock(&region, &s, &old) && same(old, a));
	CHECK(pte_state(ptep_get(&s)) == PTE_BUSY);
	CHECK(!pte_trylock(&region, &s, &old));
	CHECK(pte_state(old) == PTE_BUSY);
	pte_unlock(&region, &s, pte_mkclean(a));
	CHECK(same(ptep_get(&s), pte_mkclean(a)));
	CHECK(same(pte_lock(&region, &s), pte_mkclean(a)));
	pte_unlock(&region, &s, a);
	CHECK(same(ptep_get(&s), a) && !lock_held(&region));
}

/* Slots, several threads. */

#ifndef NO_REGION_LOCK
#ifdef CODEC_s390x
#define STORES_LOCK true
#else
#define STORES_LOCK (!ARCH_HAS_CMPXCHG)
#endif

static struct pte_slot held_slot;
static _Atomic(unsigned int) op_state; /* 1 started, 2 finished */

static void op_set(void)
{
	ptep_set(&region, &held_slot, make(1, 0));
}

static void op_xchg(void)
{
	ptep_xchg(&region, &held_slot, make(1, 0));
}

static void op_xchg_flush(void)
{
	ptep_xchg_flush(&region, &held_slot, make(1, 0), NULL, NULL);
}

static void op_clear(void)
{
	ptep_get_and_clear(&region, &held_slot);
}

static void op_cmpxchg(void)
{
	pte_t e = ptep_get(&held_slot);

	ptep_cmpxchg(&region, &held_slot, &e, make(1, 0));
}

static void op_young(void)
{
	ptep_test_and_clear_young(&region, &held_slot);
}

static void op_wrprotect(void)
{
	ptep_set_wrprotect(&region, &held_slot);
}

static void op_dirty(void)
{
	ptep_mkdirty(&region, &held_slot);
}

static void op_lock(void)
{
	pte_lock(&region, &held_slot);
}

static const struct {
	void (*fn)(void);
	bool locks;
} ops[] = {
	{ op_set, STORES_LOCK },
	{ op_xchg, STORES_LOCK },
	{ op_xchg_flush, STORES_LOCK },
	{ op_clear, STORES_LOCK },
	{ op_cmpxchg, !ARCH_HAS_CMPXCHG },
	{ op_young, !ARCH_HAS_CMPXCHG },
	{ op_wrprotect, !ARCH_HAS_CMPXCHG },
	{ op_dirty, !ARCH_HAS_CMPXCHG },
	{ op_lock, !ARCH_HAS_CMPXCHG },
};

static void *op_thread(void *arg)
{
	atomic_store(&op_state, 1);
	ops[(uintptr_t)arg].fn();
	atomic_store(&op_state, 2);
	return NULL;
}

static void sleep_ms(long ms)
{
	struct timespec ts = { .tv_nsec = ms * 1000000 };

	nanosleep(&ts, NULL);
}

/* While somebody holds the region's lock, exactly the operations that are said
 * to take it wait; and they leave the entry alone meanwhile. */
static void region_lock_is_taken(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		pte_t before = make(7, 3);
		pthread_t t;

		ptep_set_rel(&held_slot, before);
		atomic_store(&op_state, 0);
		lock_take(&region);
		if (pthread_create(&t, NULL, op_thread, (void *)i))
			exit(2);
		while (atomic_load(&op_state) == 0)
			sched_yield();
		if (ops[i].locks) {
			sleep_ms(5);
			CHECK(atomic_load(&op_state) == 1);
			CHECK(same(ptep_get(&held_slot), before));
		}
		for (int ms = 0; !ops[i].locks && ms < 10000; ms++) {
			if (atomic_load(&op_state) == 2)
				break;
			sleep_ms(1);
		}
		CHECK((atomic_load(&op_state) == 2) == !ops[i].locks);
		lock_drop(&region);
		pthread_join(t, NULL);
		CHECK(atomic_load(&op_state) == 2);
		CHECK(!same(ptep_get(&held_slot), before));
	}
}
#endif

#define ROUNDS 20000u

static struct pte_slot shared;
static unsigned long guarded;

static void *lock_thread(void *arg)
{
	(void)arg;
	for (unsigned int i = 0; i < ROUNDS; i++) {
		pte_t e = pte_lock(&region, &shared);

		guarded++;
		pte_unlock(&region, &shared, e);
	}
	return NULL;
}

static void entry_lock_excludes(void)
{
	guarded = 0;
	ptep_set_rel(&shared, make(1, 0));
	check_threads(3, lock_thread);
	CHECK(guarded == 3ul * ROUNDS);
	CHECK(looks(ptep_get(&shared), 1, 0));
}

static _Atomic(uint64_t) put_sum, got_sum;

/* Each thread puts its own numbers in, and adds up what it takes out. */
static void *token_thread(void *arg)
{
	unsigned int id = (unsigned int)(uintptr_t)arg;
	uint64_t put = 0, got = 0;

	for (unsigned int i = 1; i <= ROUNDS; i++) {
		uint64_t n = (uint64_t)id * ROUNDS + i;
		pte_t e;

		if (i % 3)
			e = ptep_xchg(&region, &shared, make(n, 0));
		else
			e = ptep_xchg_flush(&region, &shared, make(n, 0), NULL,
					    NULL);
		put += n;
		if (pte_present(e))
			got += pte_pfn(e);
		if (i % 7 == 0) {
			e = ptep_get_and_clear(&region, &shared);
			if (pte_present(e))
				got += pte_pfn(e);
		}
	}
	atomic_fetch_add(&put_sum, put);
	atomic_fetch_add(&got_sum, got);
	return NULL;
}

static void exchange_loses_nothing(void)
{
	pte_t last;

	atomic_store(&put_sum, 0);
	atomic_store(&got_sum, 0);
	ptep_set_rel(&shared, (pte_t){ 0 });
	check_threads(3, token_thread);
	last = ptep_get(&shared);
	if (pte_present(last))
		atomic_fetch_add(&got_sum, pte_pfn(last));
	CHECK(atomic_load(&put_sum) == atomic_load(&got_sum));
}

static char page[4096];

/* 0 writes a page and publishes it, 1 reads it and hands the entry back. */
static void *publish_thread(void *arg)
{
	bool writer = (uintptr_t)arg == 0;
	unsigned long wrong = 0;

	for (unsigned int i = 1; i <= ROUNDS / 4; i++) {
		enum pte_state want = writer ? PTE_NONE : PTE_PRESENT;
		unsigned int turns = 0;

		while (pte_state(ptep_get(&shared)) != want) {
			if (++turns % 64 == 0)
				sched_yield();
			cpu_relax();
		}
		if (writer) {
			memset(page, (int)(i & 127), sizeof(page));
			ptep_set_rel(&shared, make(i, 0));
			continue;
		}
		for (size_t j = 0; j < sizeof(page); j += 61)
			wrong += page[j] != (char)(i & 127);
		wrong += pte_pfn(ptep_get(&shared)) != i;
		memset(page, -1, sizeof(page));
		ptep_set_rel(&shared, (pte_t){ 0 });
	}
	CHECK(wrong == 0);
	return NULL;
}

static void publishes(void)
{
	ptep_set_rel(&shared, (pte_t){ 0 });
	check_threads(2, publish_thread);
}

/*
 * Lost updates. Thread 0 changes flags, or exchanges, without an end; thread 1
 * stores the numbers 1, 2, ... by ptep_set() and looks after each.
 */

#define TAG 0x80000u

static _Atomic(bool) stop;
static _Atomic(unsigned long) lost;
static _Atomic(unsigned long) turns_done;
static _Atomic(uint64_t) last_taken;

/* On busy CPUs a turn may last a time slice, hence a limit in seconds. Without
 * the lock: until something is lost. */
static bool more(unsigned int i, time_t since)
{
#ifdef NO_REGION_LOCK
	return i < TAG && !atomic_load(&lost) && time(NULL) - since < 10;
#else
	return i <= ROUNDS && (i <= 16 || time(NULL) - since < 2);
#endif
}

/* Also keeps one of two threads from starving the other on one CPU. */
static void some_time(void *arg)
{
	static unsigned int n;

	(void)arg;
	if (++n % 16 == 0)
		sched_yield();
	for (int i = 0; i < 50; i++)
		cpu_relax();
}

/*
 * Until thread 0 has gone through a turn that began after our last store: our
 * increment makes that store visible to it at the end of the turn under way.
 */
static void wait_turn(void)
{
	unsigned long t = atomic_fetch_add(&turns_done, 1) + 1;
	unsigned int spins = 0;

	while (atomic_load(&turns_done) < t + 2) {
		if (++spins % 64 == 0)
			sched_yield();
	}
}

/* This one writes in each turn; the others have nothing to do after a few. */
static void turn_soft_bit(void)
{
	pte_t e = ptep_get(&shared);

	ptep_cmpxchg(&region, &shared, &e, pte_mksoft(e, pte_soft(e) ^ 1));
}

static void *flags_thread(void *arg)
{
	time_t since = time(NULL);

	if ((uintptr_t)arg == 0) {
		while (!atomic_load(&stop)) {
			ptep_mkdirty(&region, &shared);
			ptep_test_and_clear_young(&region, &shared);
			ptep_set_wrprotect(&region, &shared);
			turn_soft_bit();
			atomic_fetch_add(&turns_done, 1);
		}
		return NULL;
	}
	for (unsigned int i = 1; more(i, since); i++) {
		for (unsigned int j = i % 16; j; j--)
			cpu_relax();
		ptep_set(&region, &shared, make(i, 3));
		wait_turn();
		if (!looks(pte_mksoft(ptep_get(&shared), 0), i, 4))
			atomic_fetch_add(&lost, 1);
	}
	atomic_store(&stop, true);
	return NULL;
}

static void *flush_thread(void *arg)
{
	time_t since = time(NULL);

	if ((uintptr_t)arg == 0) {
		for (unsigned int n = 0; !atomic_load(&stop); n++) {
			pte_t old = ptep_xchg_flush(&region, &shared,
						    make(TAG | (n % TAG), 0),
						    some_time, NULL);

			if (pte_present(old) && pte_pfn(old) < TAG)
				atomic_store(&last_taken, pte_pfn(old));
			atomic_fetch_add(&turns_done, 1);
		}
		return NULL;
	}
	for (unsigned int i = 1; more(i, since); i++) {
		ptep_set(&region, &shared, make(i, 0));
		wait_turn();
		if (atomic_load(&last_taken) != i)
			atomic_fetch_add(&lost, 1);
	}
	atomic_store(&stop, true);
	return NULL;
}

static unsigned long count_lost(void *(*fn)(void *))
{
	atomic_store(&stop, false);
	atomic_store(&lost, 0);
	atomic_store(&turns_done, 0);
	atomic_store(&last_taken, 0);
	ptep_set_rel(&shared, make(TAG, 0));
	check_threads(2, fn);
	return atomic_load(&lost);
}

static void plain_update_is_kept(void)
{
	unsigned long n = count_lost(flags_thread);

	if (n)
		printf("%lu plain updates lost to flag changes\n", n);
	CHECK(n == 0);
}

static void plain_update_is_kept_by_xchg_flush(void)
{
	unsigned long n = count_lost(flush_thread);

	if (n)
		printf("%lu plain updates lost to ptep_xchg_flush\n", n);
	CHECK(n == 0);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
#ifndef NO_REGION_LOCK
	RUN(words);
	RUN(bytes_in_memory);
	RUN(flags);
	RUN(states);
	RUN(exchange);
	RUN(exchange_and_flush);
	RUN(test_and_clear);
	RUN(test_and_clear_absent);
	RUN(entry_lock);
	RUN(region_lock_is_taken);
	RUN(entry_lock_excludes);
	RUN(exchange_loses_nothing);
	RUN(publishes);
#endif
	RUN(plain_update_is_kept);
	RUN(plain_update_is_kept_by_xchg_flush);
	return check_done("pte");
}
