/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * istack.pml - the stack of runtime/mem/istack.h.
 *
 * Each load, store and compare-and-swap on the head or a link is one step.
 * Takers pop two indices and push them back, the first one first, which is what
 * ABA takes; the grabber takes everything, and pushes it back as a chain.
 * Memory is sequentially consistent, as in pgtable.pml. The tag does not wrap.
 *
 * Checked: an index has one owner at a time; none is lost, none is on the stack
 * twice.
 *
 * BUG_NO_TAG   a push leaves the tag as it is
 * BUG_XCHG     take-all swaps in a plain 0 and so forgets the tag
 */
#ifndef TAKERS
#define TAKERS 2
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif

#define NODES 3

byte top;		/* index + 1 */
byte tag;		/* in one word with top */
byte link[NODES];	/* index + 1 */
bool owned[NODES];
byte finished;

#ifdef BUG_NO_TAG
#define NEXT_TAG(t) (t)
#else
#define NEXT_TAG(t) ((t) + 1)
#endif

/* Push the chain first -> ... -> last; both are index + 1. The owner lets go of
 * it in the step that publishes it. */
inline push_chain(first, last) {
	atomic { t = top; g = tag };
	done = false;
	do
	:: !done ->
		link[last - 1] = t;
		atomic {
			if
			:: top == t && tag == g ->
				top = first;
				tag = NEXT_TAG(g);
				n = first;
				do
				:: true ->
					assert(owned[n - 1]);
					owned[n - 1] = false;
					if
					:: n == last -> break
					:: else -> n = link[n - 1]
					fi
				od;
				done = true
			:: else -> t = top; g = tag
			fi;
			n = 0
		}
	:: else -> break
	od;
	atomic { t = 0; g = 0; done = false }
}

/* x is the index + 1 that was popped, or 0. */
inline pop(x) {
	done = false;
	do
	:: !done ->
		atomic { x = top; g = tag };
		if
		:: x == 0 -> done = true
		:: else ->
			n = link[x - 1];
			atomic {
				if
				:: top == x && tag == g ->
					top = n;
					assert(!owned[x - 1]);
					owned[x - 1] = true;
					done = true
				:: else -> skip
				fi
			}
		fi
	:: else -> break
	od;
	atomic { n = 0; g = 0; done = false }
}

proctype taker()
{
	byte a, b, t, g, n, round;
	bool done;

	do
	:: round < ROUNDS ->
		pop(a);
		pop(b);
		if
		:: a != 0 -> push_chain(a, a)
		:: else -> skip
		fi;
		if
		:: b != 0 -> push_chain(b, b)
		:: else -> skip
		fi;
		atomic { a = 0; b = 0; round++ }
	:: else -> break
	od;
	finished++
}

proctype grabber()
{
	byte a, b, t, g, n;
	bool done;

	atomic {
		a = top;
		top = 0;
#ifdef BUG_XCHG
		tag = 0;
#endif
		n = a;
		do
		:: n != 0 ->
			assert(!owned[n - 1]);
			owned[n - 1] = true;
			n = link[n - 1]
		:: else -> break
		od
	};
	if
	:: a != 0 ->
		b = a;
		do
		:: link[b - 1] != 0 -> b = link[b - 1]
		:: else -> break
		od;
		push_chain(a, b)
	:: else -> skip
	fi;
	finished++
}

init
{
	byte n, seen;

	atomic {
		/* 1 -> 2 -> 3; the tag as three pushes left it. */
		link[0] = 2;
		link[1] = 3;
		top = 1;
		tag = NODES;
		n = 0;
		do
		:: n < TAKERS -> run taker(); n++
		:: else -> break
		od;
		run grabber()
	};
	atomic {
		finished == TAKERS + 1;
		n = top;
		do
		:: n != 0 ->
			assert(!owned[n - 1]);
			owned[n - 1] = true;
			seen++;
			n = link[n - 1]
		:: else -> break
		od;
		assert(seen == NODES)
	}
}
