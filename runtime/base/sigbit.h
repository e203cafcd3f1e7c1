/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * sigbit.h - how a thread blocks SIGBUS without blocking it.
 *
 * Where the faulting thread serves its own faults, a SIGBUS that is blocked in
 * the kernel's mask kills the process. So what the program calls "SIGBUS
 * blocked" is in the kernel's mask another bit, that of SIGSTKFLT, a signal
 * Linux never sends: the *stand-in*. The kernel then does for the stand-in all
 * it does for masks: a new thread inherits it, siglongjmp(3) and the return from
 * a handler restore it, and the SIGBUS handler finds it in the interrupted
 * context. Masks are translated where they enter and leave the kernel:
 * sig_inward() and sig_outward().
 *
 * SIGSTKFLT itself can then not be blocked, and is reported as blocked where half
 * of the signals of old are, as after sigfillset(3).
 */
#ifndef FL_BASE_SIGBIT_H
#define FL_BASE_SIGBIT_H

#include <signal.h>
#include <string.h>

#include "base/base.h"

#define SIG_STAND_IN SIGSTKFLT

static inline uint64_t sig_bit(int sig)
{
	return (uint64_t)1 << (sig - 1);
}

/* The kernel's mask of 64 bits is the beginning of libc's. */
static inline uint64_t sig_of_set(const void *set)
{
	uint64_t m;

	memcpy(&m, set, sizeof(m));
	return m;
}

static inline void sig_to_set(void *set, uint64_t m)
{
	memcpy(set, &m, sizeof(m));
}

/* From the program's mask to the kernel's. */
static inline uint64_t sig_inward(uint64_t m)
{
	bool bus = m & sig_bit(SIGBUS);

	m &= ~(sig_bit(SIGBUS) | sig_bit(SIG_STAND_IN));
	return bus ? m | sig_bit(SIG_STAND_IN) : m;
}

/* From the kernel's mask to the program's. A SIGBUS that is blocked indeed (see
 * fault/signal.c) counts as well. */
static inline uint64_t sig_outward(uint64_t m)
{
	bool bus = m & (sig_bit(SIG_STAND_IN) | sig_bit(SIGBUS));

	m &= ~(sig_bit(SIGBUS) | sig_bit(SIG_STAND_IN));
	if (__builtin_popcountll(m & 0x7fffffff) >= 16)
		m |= sig_bit(SIG_STAND_IN);
	return bus ? m | sig_bit(SIGBUS) : m;
}

#endif
