/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pgtable.pml - install, use, walk and reap of runtime/mem/pgtable.c.
 *
 * One path: the root's link leads to an upper table, its link to a leaf, and
 * each setter has one entry in the leaf. Every load, store and compare-and-swap
 * of the C code on a link or an entry is one step here; steps on locals are
 * merged with the step before. Memory is sequentially consistent: the model
 * shows the protocol, ThreadSanitizer and the tags in the source the orders.
 *
 * A read section begins in the step of its first load and ends in that of its
 * last access: a section that is open for longer only keeps sync() waiting. It
 * has a number that alternates, so that sync() can tell the
 * section it must wait for from the next one. sync() returns at the earliest
 * moment the contract of base/rcu.h allows.
 *
 * Checked: a table handed out is zero; a table that is read or written is in
 * use, as the kind of table the reader takes it for; what a setter has set stays
 * until it clears it; a table goes back empty; in the end none is missing.
 *
 * BUG_NO_RESCUE   setters ignore IDLE
 * BUG_NO_SYNC     free without a grace period
 * BUG_SAME_PASS   a table may be cut in the pass that found it empty first
 * BUG_PLAIN_CUT   the cut is a store, not a compare-and-swap
 * BUG_KEEP_LOSER  a table that lost the race to be installed is not freed
 */
#ifndef SETTERS
#define SETTERS 2
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef WALKERS
#define WALKERS 1
#endif
#ifndef PASSES
#define PASSES 3
#endif

#define TABLES (4 + SETTERS)
#define READERS (SETTERS + WALKERS)
#define IDLE 16
#define TABLE(link) ((link) & 15)

#define K_NONE 0
#define K_UPPER 1
#define K_LEAF 2

byte root;			 /* link in the root, which is always there */
byte word[TABLES * SETTERS];	 /* contents; word 0 of an upper: its link */
bool used[TABLES];		 /* not in the slab */
byte kind[TABLES];		 /* what it was linked as; for the checks */
byte section[READERS];		 /* 0 outside, else 1 or 2 */
bool parity[READERS];
byte finished;

#define W(t, i) word[((t) - 1) * SETTERS + (i)]
#define IS(t, k) (used[(t) - 1] && kind[(t) - 1] == (k))
#define IN_USE(t, k) assert(IS(t, k))

inline enter(me) { d_step {
	section[me] = (parity[me] -> 2 : 1);
	parity[me] = !parity[me]
} }

inline leave(me) { section[me] = 0 }

/* The lowest free table; which one it is makes no difference. */
inline alloc(t) { d_step {
	t = 1;
	do
	:: used[t - 1] -> t++; assert(t <= TABLES)
	:: else -> break
	od;
	used[t - 1] = true;
	kind[t - 1] = K_NONE;
	i = 0;
	do
	:: i < SETTERS -> assert(W(t, i) == 0); i++
	:: else -> break
	od;
	i = 0
} }

inline give_back(t) { d_step {
	assert(used[t - 1]);
	i = 0;
	do
	:: i < SETTERS -> assert(W(t, i) == 0); i++
	:: else -> break
	od;
	i = 0;
	used[t - 1] = false;
	kind[t - 1] = K_NONE
} }

/* link_claim(), l being what was read from LINK; afterwards it is the link
 * without mark. CHECK: the table that holds LINK may be touched. */
#ifdef BUG_NO_RESCUE
#define MUST_CLAIM(l) ((l) == 0)
#else
#define MUST_CLAIM(l) ((l) == 0 || ((l) & IDLE))
#endif

inline claim(LINK, k, CHECK) {
	do
	:: !MUST_CLAIM(l) -> l = TABLE(l); break
	:: l != 0 && MUST_CLAIM(l) ->
		atomic {
			assert(CHECK);
			if
			:: LINK == l -> LINK = TABLE(l)
			:: else -> skip
			fi;
			l = LINK
		}
	:: l == 0 ->
		alloc(new);
		atomic {
			assert(CHECK);
			if
			:: LINK == 0 ->
				kind[new - 1] = k;
				LINK = new;
				new = 0
			:: else -> skip
			fi;
			l = LINK
		};
		if
		:: new != 0 ->
#ifndef BUG_KEEP_LOSER
			give_back(new);
#endif
			new = 0
		:: else -> skip
		fi
	od
}

/* walk_rcu(): leaf is 0 where there is none. */
inline walk(me) {
	atomic { enter(me); upper = TABLE(root) };
	if
	:: upper != 0 ->
		atomic {
			IN_USE(upper, K_UPPER);
			leaf = TABLE(W(upper, 0))
		}
	:: else -> skip
	fi
}

proctype setter(byte me)
{
	byte l, new, upper, leaf, i, round;

	do
	:: round < ROUNDS ->
		/* pt_set_range */
		atomic { enter(me); l = root };
		claim(root, K_UPPER, true);
		atomic {
			IN_USE(l, K_UPPER);
			upper = l;
			l = W(upper, 0)
		};
		claim(W(upper, 0), K_LEAF, IS(upper, K_UPPER));
		atomic {
			IN_USE(l, K_LEAF);
			assert(W(l, me) == 0);
			W(l, me) = 1;
			l = 0;
			upper = 0;
			leave(me)
		};

		/* pt_clear_range, which must find the entry */
		walk(me);
		atomic {
			assert(leaf != 0);
			IN_USE(leaf, K_LEAF);
			assert(W(leaf, me) == 1);
			W(leaf, me) = 0;
			leave(me);
			round++;
			leaf = 0;
			upper = 0
		}
	:: else -> break
	od;
	finished++
}

proctype walker(byte me)
{
	byte upper, leaf, k;

	/* pt_count_range: several loads in one section */
	walk(me);
	do
	:: leaf != 0 && k < SETTERS ->
		atomic {
			IN_USE(leaf, K_LEAF);
			assert(W(leaf, k) <= 1);
			k++
		}
	:: else -> break
	od;
	atomic { leave(me); finished++ }
}

inline sync() {
	d_step {
		r = 0;
		do
		:: r < READERS -> was[r] = section[r]; r++
		:: else -> break
		od;
		r = 0
	};
	do
	:: r < READERS ->
		atomic {
			(was[r] == 0 || section[r] != was[r]);
			was[r] = 0;
			r++
		}
	:: else -> r = 0; break
	od
}

#ifdef BUG_SAME_PASS
#define RIPE(l) true
#else
#define RIPE(l) ((l) & IDLE)
#endif

/* What reap_table() does to a link whose table it found empty. gone: cut. */
inline mark_or_cut(LINK, l) {
	if
	:: !RIPE(l) ->
		atomic {
			if
			:: LINK == l -> LINK = l | IDLE
			:: else -> skip
			fi;
			marked = true
		}
	:: else ->
		atomic {
			if
#ifdef BUG_PLAIN_CUT
			:: true ->
#else
			:: LINK == l ->
#endif
				LINK = 0;
				dead[nr_dead] = TABLE(l);
				nr_dead++;
				gone = true
			:: else -> skip
			fi
		}
	fi
}

proctype reaper()
{
	byte l, m, i, k, r, nr_dead, pass;
	byte dead[2];
	byte was[READERS];
	bool clean, gone, marked;

	do
	:: pass < PASSES ->
		l = root;
		if
		:: l != 0 ->
			atomic {
				IN_USE(TABLE(l), K_UPPER);
				m = W(TABLE(l), 0);
				clean = true
			};
			do
			:: m != 0 && clean && k < SETTERS ->
				atomic {
					IN_USE(TABLE(m), K_LEAF);
					clean = (W(TABLE(m), k) == 0);
					k++
				}
			:: else -> break
			od;
			gone = (m == 0);
			if
			:: m != 0 && clean -> mark_or_cut(W(TABLE(l), 0), m)
			:: else -> skip
			fi;
			/* The upper table is empty if its link was, or is. */
			if
			:: gone -> gone = false; mark_or_cut(root, l)
			:: else -> skip
			fi
		:: else -> skip
		fi;
#ifndef BUG_NO_SYNC
		if
		:: marked || nr_dead > 0 -> sync()
		:: else -> skip
		fi;
#endif
		do
		:: nr_dead > 0 ->
			nr_dead--;
			give_back(dead[nr_dead]);
			dead[nr_dead] = 0
		:: else -> break
		od;
		atomic {
			marked = false; gone = false; clean = false;
			l = 0; m = 0; k = 0; pass++
		}
	:: else -> break
	od;
	finished++
}

init
{
	byte n, t;

	atomic {
		/* Empty tables that nobody has looked at for a while, or none. */
		if
		:: true ->
			root = 1;
			used[0] = true;
			kind[0] = K_UPPER;
			W(1, 0) = 2;
			used[1] = true;
			kind[1] = K_LEAF
		:: true -> skip
		fi;
		n = 0;
		do
		:: n < SETTERS -> run setter(n); n++
		:: n >= SETTERS && n < READERS -> run walker(n); n++
		:: n == READERS -> break
		od;
		run reaper()
	};
	/* Nothing is missing: what is in use is linked, and empty of entries. */
	atomic {
		finished == READERS + 1;
		n = 0;
		t = 0;
		do
		:: t < TABLES -> n = n + (used[t] -> 1 : 0); t++
		:: else -> break
		od;
		if
		:: TABLE(root) == 0 -> assert(n == 0)
		:: TABLE(root) != 0 && TABLE(W(TABLE(root), 0)) == 0 ->
			assert(n == 1)
		:: else ->
			assert(n == 2);
			t = 0;
			do
			:: t < SETTERS ->
				assert(W(TABLE(W(TABLE(root), 0)), t) == 0);
				t++
			:: else -> break
			od
		fi
	}
}
