/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * istack.h - lock-free LIFO of small integers: an index names an object of a
 * type-stable array, a tag beside it defeats ABA.
 *
 * STATE. head = {tag:32, index+1:32}; a low half of 0 is the empty stack. The
 * link of index i is a 32-bit word that the caller supplies (next index + 1);
 * it must stay mapped for as long as the stack exists, because a pop that is
 * about to fail may still read the link of an index somebody else has taken.
 * Between its pop and its push an index belongs to one thread, which alone
 * writes its link; while pushed nobody writes it.
 *
 * ABA. A pop reads head {t, A}, then link(A) = B, then swaps head for {t, B}.
 * That is wrong only if head is {t, A} again although link(A) changed. link(A)
 * changes only while A is off the stack, and A comes back only by a push; a
 * push makes the tag t+1. So the swap fails, unless 2^32 pushes (of any index,
 * on this one stack) fell between the load and the swap of one pop and ended
 * exactly on A: more than a minute of pushes by every CPU at full speed during
 * which the thread does not run, and then one chance in 2^32. Pops and
 * istack_take_all() keep the tag: neither puts an index back. A plain exchange
 * with 0 would forget the tag and is therefore not used.
 *
 * ORDERING. A push releases the link and whatever the caller wrote to the
 * object; a pop or take-all acquires it. Every change of head is a
 * read-modify-write, so an acquire load synchronises with the push of each
 * index that is on the stack, not only with the last one.
 *
 * PROGRESS. Lock-free, each operation: a failed swap means that another one
 * succeeded. istack_empty() is wait-free. All are async-signal-safe and hold
 * nothing across fork().
 *
 * RECLAIM. None: the links are type-stable.
 */
#ifndef FL_MEM_ISTACK_H
#define FL_MEM_ISTACK_H

#include "base/base.h"
#include "base/order.h"

struct istack {
	_Atomic(uint64_t) head;
};

/* The link of index i is the _Atomic(uint32_t) at base + i * stride. */
struct istack_links {
	char *base;
	size_t stride;
};

#define ISTACK_INIT       \
	{                 \
		.head = 0 \
	}

/* The largest index that fits. */
#define ISTACK_MAX_INDEX 0xfffffffeu

static inline void istack_init(struct istack *s)
{
	st_rlx(&s->head, (uint64_t)0);
}

static inline _Atomic(uint32_t) *istack_slot(struct istack_links l, uint32_t i)
{
	return (_Atomic(uint32_t) *)(void *)(l.base + (size_t)i * l.stride);
}

/*
 * Chains, before they are pushed and after they are taken: istack_link() makes
 * @next follow @i (UINT32_MAX: nothing follows); istack_next() returns the
 * index + 1 of what follows, or 0. Only for indices the caller owns.
 */
static inline void istack_link(struct istack_links l, uint32_t i, uint32_t next)
{
	st_rlx(istack_slot(l, i), next + 1u);
}

static inline uint32_t istack_next(struct istack_links l, uint32_t i)
{
	return ld_rlx(istack_slot(l, i));
}

static inline bool istack_empty(struct istack *s)
{
	return (uint32_t)ld_rlx(&s->head) == 0;
}

/* Push the chain first -> ... -> last, linked by istack_link(). */
static inline void istack_push_chain(struct istack *s, uint32_t first,
				     uint32_t last, struct istack_links l)
{
	_Atomic(uint32_t) *link = istack_slot(l, last);
	uint64_t old = ld_rlx(&s->head);
	uint64_t new;

	do {
		st_rlx(link, (uint32_t)old);
		new = ((old >> 32) + 1) << 32 | (first + 1u);
		/* [MO:istack] publishes the links and the objects to
		 * istack_pop and istack_take_all. */
	} while (unlikely(!cas_rel(&s->head, &old, new)));
}

static inline void istack_push(struct istack *s, uint32_t i,
			       struct istack_links l)
{
	istack_push_chain(s, i, i, l);
}

/* True and *i, or false when the stack is empty. */
static inline bool istack_pop(struct istack *s, uint32_t *i,
			      struct istack_links l)
{
	uint64_t old, new;

	do {
		/* [MO:istack] sees the link and the object as they were when
		 * istack_push_chain published them; the swap needs no order
		 * of its own, as it takes exactly the value loaded here. */
		old = ld_acq(&s->head);
		if ((uint32_t)old == 0)
			return false;
		*i = (uint32_t)old - 1u;
		new = (old & 0xffffffff00000000u) | ld_rlx(istack_slot(l, *i));
	} while (unlikely(!cas_rlx(&s->head, &old, new)));
	return true;
}

/* Empty the stack; returns the first index + 1, the rest by istack_next(), or
 * 0 when there was nothing. */
static inline uint32_t istack_take_all(struct istack *s)
{
	uint64_t old = ld_rlx(&s->head);

	do {
		if ((uint32_t)old == 0)
			return 0;
		/* [MO:istack] sees every link and object of the chain as
		 * istack_push_chain published them. */
	} while (unlikely(!cas_acq(&s->head, &old, old & 0xffffffff00000000u)));
	return (uint32_t)old;
}

#endif
