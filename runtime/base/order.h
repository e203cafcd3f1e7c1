/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * order.h - the only includer of <stdatomic.h>.
 *
 * Every atomic operation carries its memory order in its name; there is no
 * operation with an implied order. The rules:
 *
 *  - A non-relaxed operation stands within six lines of a tag "[MO:name]" that
 *    says what it publishes or consumes and names the function at the other
 *    end. Both ends carry the same tag, and docs/ordering.md has one row for
 *    each. tests/lint/order.awk checks all three.
 *  - Relaxed counters are explained once, at the field.
 *  - Stand-alone fences are not used: ThreadSanitizer does not model them. Where
 *    store-then-load order is needed, an atomic read-modify-write with
 *    sequential consistency (xchg_sc, add_sc, ld_sc) is used on both sides.
 */
#ifndef FL_BASE_ORDER_H
#define FL_BASE_ORDER_H

#include <stdatomic.h>
#include <stdbool.h>

#define ld_rlx(p) atomic_load_explicit((p), memory_order_relaxed)
#define ld_acq(p) atomic_load_explicit((p), memory_order_acquire)
#define ld_sc(p) atomic_load_explicit((p), memory_order_seq_cst)

#define st_rlx(p, v) atomic_store_explicit((p), (v), memory_order_relaxed)
#define st_rel(p, v) atomic_store_explicit((p), (v), memory_order_release)
#define st_sc(p, v) atomic_store_explicit((p), (v), memory_order_seq_cst)

#define xchg_rlx(p, v) atomic_exchange_explicit((p), (v), memory_order_relaxed)
#define xchg_acq(p, v) atomic_exchange_explicit((p), (v), memory_order_acquire)
#define xchg_rel(p, v) atomic_exchange_explicit((p), (v), memory_order_release)
#define xchg_acq_rel(p, v) \
	atomic_exchange_explicit((p), (v), memory_order_acq_rel)
#define xchg_sc(p, v) atomic_exchange_explicit((p), (v), memory_order_seq_cst)

/* Compare-and-swap: *old is replaced by what was found when it fails, and the
 * failure order is relaxed unless the name says otherwise. */
#define cas_rlx(p, old, v)                       \
	atomic_compare_exchange_strong_explicit( \
		(p), (old), (v), memory_order_relaxed, memory_order_relaxed)
#define cas_acq(p, old, v)                       \
	atomic_compare_exchange_strong_explicit( \
		(p), (old), (v), memory_order_acquire, memory_order_relaxed)
#define cas_rel(p, old, v)                       \
	atomic_compare_exchange_strong_explicit( \
		(p), (old), (v), memory_order_release, memory_order_relaxed)
#define cas_acq_rel(p, old, v)                   \
	atomic_compare_exchange_strong_explicit( \
		(p), (old), (v), memory_order_acq_rel, memory_order_relaxed)
/* Success acq_rel, failure acquire: the loser reads what the winner wrote. */
#define cas_acq_rel_acq(p, old, v)               \
	atomic_compare_exchange_strong_explicit( \
		(p), (old), (v), memory_order_acq_rel, memory_order_acquire)
#define cas_sc(p, old, v)                        \
	atomic_compare_exchange_strong_explicit( \
		(p), (old), (v), memory_order_seq_cst, memory_order_seq_cst)

#define add_rlx(p, v) atomic_fetch_add_explicit((p), (v), memory_order_relaxed)
#define add_acq(p, v) atomic_fetch_add_explicit((p), (v), memory_order_acquire)
#define add_rel(p, v) atomic_fetch_add_explicit((p), (v), memory_order_release)
#define add_acq_rel(p, v) \
	atomic_fetch_add_explicit((p), (v), memory_order_acq_rel)
#define add_sc(p, v) atomic_fetch_add_explicit((p), (v), memory_order_seq_cst)
#define sub_rlx(p, v) atomic_fetch_sub_explicit((p), (v), memory_order_relaxed)
#define sub_rel(p, v) atomic_fetch_sub_explicit((p), (v), memory_order_release)
#define sub_acq_rel(p, v) \
	atomic_fetch_sub_explicit((p), (v), memory_order_acq_rel)
#define sub_sc(p, v) atomic_fetch_sub_explicit((p), (v), memory_order_seq_cst)
#define or_rlx(p, v) atomic_fetch_or_explicit((p), (v), memory_order_relaxed)
#define or_acq_rel(p, v) \
	atomic_fetch_or_explicit((p), (v), memory_order_acq_rel)
#define and_rlx(p, v) atomic_fetch_and_explicit((p), (v), memory_order_relaxed)

/*
 * Happens-before edges that ThreadSanitizer cannot see because an
 * uninstrumented library (liburcu, the kernel) provides them.
 */
#if defined(__SANITIZE_THREAD__)
#define FL_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FL_TSAN 1
#endif
#endif
#ifndef FL_TSAN
#define FL_TSAN 0
#endif

#if FL_TSAN
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
#define tsan_acquire(p) __tsan_acquire((void *)(p))
#define tsan_release(p) __tsan_release((void *)(p))
#else
#define tsan_acquire(p) ((void)0)
#define tsan_release(p) ((void)0)
#endif

#endif
