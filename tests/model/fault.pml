/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fault.pml - one page of a demand region: fills, an eviction, and the region's
 * end, by unmapping (the address is then used by another region) or demotion
 * (by a mapping of the kernel's). runtime/fault/: fill.c, frames.c, vma.c.
 *
 * Faulting threads access one address, several times. An evictor knows the page
 * by its region's id, as entries of batches do. A mapper takes the region away,
 * or two: one demotes, one unmaps. Each load, store and compare-and-swap of the
 * C code on what is shared is one step, and so is each change of the kernel's
 * mapping; memory is sequentially consistent, as in pgtable.pml. A store that a
 * later load must not overtake is shown needed by a fault that swaps the two.
 * Counts that only tell "the same as before" are one bit for each who asks.
 * Memory that is freed is never used for something else: the first touch of it
 * is the error.
 *
 * Checked: a page is copied or zapped by the owner of its entry only, and only
 * where the address is still that region's; nothing is copied over a page that
 * is present; what an access finds is its region's content; no map and no
 * region is touched after it was freed; nobody waits for ever.
 *
 * Waiting
 * BUG_PLAIN_CLAIM   the entry is claimed by a store
 * BUG_PLAIN_SETTLE  the claim is ended by a load and a store
 * BUG_LATE_SEQ      the bucket's count is read after the entry was marked
 * BUG_NO_SEQ        the waker leaves the count as it is
 * BUG_NO_WAKE       who gives a fill up does not wake
 * The address
 * BUG_NO_COPYING    fills are not marked as copying
 * BUG_EVICT_UNSEEN  evictions are not
 * BUG_LATE_COPYING  the map is looked at before the mark is set
 * BUG_NO_LOOK       the map is not looked at again after the I/O
 * BUG_EARLY_QUIESCE copiers are waited for before the map is published
 * BUG_NO_QUIESCE1   they are not waited for before entries are taken
 * BUG_NO_QUIESCE2   ... before the mapping goes
 * BUG_NO_TAKE       entries are not taken: the evictor still finds them
 * BUG_NO_HOLD       demotion leaves the region in the map
 * BUG_HOLD_IGNORED  a range on hold is taken by another mapper
 * Memory
 * BUG_NO_EPOCH      readers do not mark their time
 * BUG_LATE_EPOCH    the mark is set after the map was read
 * BUG_EARLY_COUNT   time goes on before the map is published
 * BUG_ID_COUNT      time does not go on after the id was forgotten
 * BUG_FREE_NOW      what is retired is freed without looking at the marks
 */
#ifndef FAULTERS
#define FAULTERS 2
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef EVICTIONS
#define EVICTIONS 1
#endif
#ifndef ERRORS
#define ERRORS 1
#endif
#ifndef MAPPERS
#define MAPPERS 1
#endif

#if EVICTIONS > 0
#define FILLERS (FAULTERS + 1)
#else
#define FILLERS FAULTERS
#endif

/* Entries. */
#define ZERO 0
#define FILE 1
#define BUSY 2
#define WAITED 3 /* BUSY, and somebody sleeps */
#define PRESENT 4
#define POISON 5
#define KERNEL 6

/* What the kernel has at the address: nothing, region 1 or 2, and: */
#define BY_FILE 3
#define BY_BUS 4

/* Maps: region 1; region 1 on hold; none; region 2. */
#define M_FIRST 0
#define M_HOLD 1
#define M_NONE 2
#define M_SECOND 3
#define REGION(m) ((m) == M_NONE -> 0 : ((m) == M_SECOND -> 2 : 1))

#define NOBODY 255

byte map = M_FIRST;
byte now = 1;			/* counts maps */
byte id = 1;			/* the region with the one id, or 0 */
byte entry[3];			/* by region */
byte owner[3] = NOBODY;		/* for the checks */
bool map_freed[4], freed[3];
byte map_retired[4], retired;	/* when, or 0 */
bool locked;
byte epoch[FILLERS];
bool copying[FILLERS];
bool watched[2 * FILLERS];	/* one of two mappers waits for its end */
byte kernel = 1;
bool present;
byte content;
bool counted[FAULTERS] = true;		/* the bucket's count is not what it was */
bool asleep[FAULTERS];
byte errors = ERRORS;

inline enter() {
#ifdef BUG_LATE_EPOCH
	t = now;
	m = map;
	epoch[me] = t;
#else
	t = now;
#ifndef BUG_NO_EPOCH
	epoch[me] = t;
#endif
	m = map;
#endif
	t = 0
}

inline leave() { atomic { epoch[me] = 0; m = 0; v = 0; e = 0; t = 0 } }

inline mark() { copying[me] = true }
inline unmark() {
	atomic {
		copying[me] = false;
		watched[me] = false;
		watched[FILLERS + me] = false
	}
}

/* The section of a fill begins, and the map is read anew. */
inline mark_and_look() {
#ifdef BUG_LATE_COPYING
	m = map;
	mark();
#else
#ifndef BUG_NO_COPYING
	mark();
#endif
#ifndef BUG_NO_LOOK
	m = map;
#endif
#endif
}

inline fill_done() {
#ifdef BUG_NO_COPYING
	skip
#else
	unmark()
#endif
}

inline wake() {
#ifndef BUG_NO_SEQ
	d_step {
		t = 0;
		do
		:: t < FAULTERS -> counted[t] = true; t++
		:: else -> break
		od
	};
#endif
	d_step {
		t = 0;
		do
		:: t < FAULTERS -> asleep[t] = false; t++
		:: else -> break
		od;
		t = 0
	}
}

/* fault_settle() */
inline settle(to) {
#ifdef BUG_PLAIN_SETTLE
	t = entry[v];
	atomic {
		assert(!freed[v] && owner[v] == me);
		entry[v] = to;
		owner[v] = NOBODY
	}
#else
	atomic {
		assert(!freed[v] && owner[v] == me);
		t = entry[v];
		entry[v] = to;
		owner[v] = NOBODY
	}
#endif
	if
	:: t == WAITED -> wake()
	:: else -> t = 0
	fi
}

/* On a BUSY entry. */
inline wait_for_owner() {
#ifdef BUG_LATE_SEQ
	atomic {
		assert(!freed[v]);
		e = entry[v];
		if
		:: e == BUSY -> entry[v] = WAITED; e = WAITED
		:: else -> skip
		fi
	};
	counted[me] = false;
#else
	counted[me] = false;
	atomic {
		assert(!freed[v]);
		e = entry[v];
		if
		:: e == BUSY -> entry[v] = WAITED; e = WAITED
		:: else -> skip
		fi
	};
#endif
	if
	:: e == WAITED ->
		/* futex(2) compares, and sleeps */
		atomic {
			if
			:: !counted[me] -> asleep[me] = true
			:: else -> skip
			fi
		};
		atomic { !asleep[me] -> counted[me] = true }
	:: else -> counted[me] = true
	fi
}

/* With the entry claimed; e is what it was. */
inline fill() {
	/* The I/O is here. */
	mark_and_look();
	atomic {
		assert(!map_freed[m]);
		t = (REGION(m) == v && m != M_HOLD)
	};
	if
	:: !t ->
#ifdef BUG_NO_WAKE
		atomic { entry[v] = e; owner[v] = NOBODY };
#else
		settle(e);
#endif
	:: t ->
		atomic {
			t = 0;
			assert(kernel == v && !present && owner[v] == me);
			present = true;
			content = v
		};
		settle(PRESENT)
	:: t && errors > 0 ->
		atomic {
			t = 0;
			errors--;
			assert(kernel == v && !present && owner[v] == me);
			kernel = BY_BUS
		};
		settle(POISON)
	fi;
	fill_done()
}

inline claim(from) {
#ifdef BUG_PLAIN_CLAIM
	atomic {
		assert(!freed[v]);
		entry[v] = BUSY;
		owner[v] = me;
		t = 1
	}
#else
	atomic {
		assert(!freed[v]);
		if
		:: entry[v] == from -> entry[v] = BUSY; owner[v] = me; t = 1
		:: else -> t = 0
		fi
	}
#endif
}

inline fault() {
	enter();
	atomic { assert(!map_freed[m]); v = REGION(m) };
	if
	:: v == 0 || m == M_HOLD -> skip /* the access is repeated */
	:: else ->
		atomic { assert(!freed[v]); e = entry[v] };
		if
		:: e == ZERO || e == FILE ->
			claim(e);
			if
			:: t -> t = 0; fill()
			:: else -> skip
			fi
		:: e == BUSY || e == WAITED -> wait_for_owner()
		:: else -> skip
		fi
	fi;
	leave()
}

proctype faulter(byte me)
{
	byte round, m, v, e, t;

	do
	:: round < ROUNDS ->
		if
		:: atomic {
			kernel == 0 || kernel > 2 || present ->
			assert(!present || kernel > 2 || content == kernel);
			round++
		}
		:: atomic { kernel > 0 && kernel <= 2 && !present -> skip };
			fault()
		fi
	:: else -> break
	od
}

proctype evictor(byte me)
{
	byte round, m, v, e, t;

	do
	:: round < EVICTIONS ->
		enter();
#ifndef BUG_EVICT_UNSEEN
		mark();
#endif
		v = id;
		if
		:: v != 0 ->
			claim(PRESENT);
			if
			:: t ->
				atomic {
					t = 0;
					assert(kernel == v && present);
					assert(owner[v] == me);
					present = false
				};
				settle(FILE)
			:: else -> skip
			fi
		:: else -> skip
		fi;
#ifndef BUG_EVICT_UNSEEN
		unmark();
#endif
		leave();
		round++
	:: else -> break
	od
}

/* Changes of the map are under a lock, which one mapper alone does not need. */
#if MAPPERS > 1
#define LOCK() atomic { !locked -> locked = true }
#define UNLOCK() locked = false
#else
#define LOCK() skip
#define UNLOCK() skip
#endif

inline publish(new) {
#ifdef BUG_EARLY_COUNT
	now++;
	map = new;
#else
	map = new;
	now++;
#endif
}

/* Takes the lock when region 1 is not on hold. */
inline lock_range() {
	LOCK();
#ifndef BUG_HOLD_IGNORED
	do
	:: map == M_HOLD ->
		UNLOCK();
		atomic { map != M_HOLD && !locked -> locked = true }
	:: else -> break
	od
#endif
}

#define WATCHED watched[me * FILLERS + i]

inline quiesce() {
	do
	:: i < FILLERS ->
		WATCHED = copying[i];
		atomic { !WATCHED -> i++ }
	:: else -> i = 0; break
	od
}

/* vma_reap(): filler_epoch(), and what may be freed is. */
inline reap() {
	LOCK();
	least = 255;
#ifndef BUG_FREE_NOW
	do
	:: i < FILLERS ->
		atomic {
			t = epoch[i];
			least = (t != 0 && t < least -> t : least);
			t = 0;
			i++
		}
	:: else -> break
	od;
	i = 0;
#endif
	d_step {
		i = 0;
		do
		:: i < 4 ->
			map_freed[i] = map_freed[i] ||
				map_retired[i] != 0 && map_retired[i] <= least;
			i++
		:: else -> break
		od;
		freed[1] = freed[1] || retired != 0 && retired <= least;
		i = 0;
		least = 0
	};
	UNLOCK()
}

/* forget(), and @old is retired. */
inline forget(old) {
	id = 0;
#ifndef BUG_ID_COUNT
	now++;
#endif
	atomic {
		retired = now;
		map_retired[old] = now
	}
}

/* empty() */
inline take_away() {
#ifndef BUG_EARLY_QUIESCE
#ifndef BUG_NO_QUIESCE1
	quiesce();
#endif
#endif
#ifndef BUG_NO_TAKE
	atomic {
		assert(!freed[1]);
		if
		:: entry[1] == PRESENT -> entry[1] = KERNEL
		:: else -> skip
		fi
	};
#endif
#ifndef BUG_NO_QUIESCE2
	quiesce()
#endif
}

/* vma_unmap(), then vma_create() and vma_publish(): address and id again. */
inline unmap() {
	lock_range();
	old = map;
	if
	:: old != M_NONE -> publish(M_NONE)
	:: else -> skip
	fi;
	UNLOCK();
	if
	:: old != M_NONE -> take_away()
	:: else -> skip
	fi;
	atomic { kernel = 0; present = false; content = 0 };
	if
	:: old != M_NONE ->
		LOCK();
		forget(old);
		UNLOCK();
		reap()
	:: else -> skip
	fi;
	kernel = 2;
	LOCK();
	id = 2;
	publish(M_SECOND);
	map_retired[M_NONE] = now;
	UNLOCK();
	reap()
}

/* vma_demote() */
inline demote() {
	lock_range();
	old = map;
#ifndef BUG_NO_HOLD
	if
	:: old == M_FIRST -> publish(M_HOLD)
	:: else -> skip
	fi;
#endif
	UNLOCK();
	if
	:: old == M_FIRST ->
		take_away();
		atomic {
			assert(kernel == 1 || kernel == BY_BUS);
			kernel = BY_FILE;
			present = false;
			content = 0
		};
		LOCK();
		publish(M_NONE);
		forget(M_HOLD);
		map_retired[M_FIRST] = now;
		UNLOCK();
		reap()
	:: else -> skip
	fi
}

proctype mapper(byte me; bool demotes)
{
	byte i, t, least, old;

#ifdef BUG_EARLY_QUIESCE
	quiesce();
#endif
	if
	:: demotes -> demote()
	:: else -> unmap()
	fi
}

init
{
	byte n;

	atomic {
		/* Never filled, or present, or evicted. */
		if
		:: true -> skip
		:: true -> entry[1] = PRESENT; present = true; content = 1
		:: true -> entry[1] = FILE
		fi;
		do
		:: n < FAULTERS -> run faulter(n); n++
		:: else -> break
		od;
#if EVICTIONS > 0
		run evictor(FAULTERS);
#endif
#if MAPPERS > 1
		run mapper(0, true);
		run mapper(1, false);
#elif MAPPERS > 0
		if
		:: run mapper(0, true)
		:: run mapper(0, false)
		fi;
#endif
		n = 0
	}
}
