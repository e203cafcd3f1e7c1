// SPDX-License-Identifier: LGPL-2.1-or-later
/* The failing engine of the tests; io.h. */
#include "io/engine.h"
#include "base/ban.h"

_Atomic(bool) io_inject_on;

/* Relaxed: set while nothing reads; the count only has to be one each. */
static _Atomic(uint32_t) count, eio_every, short_every, eintr_every, delay_us;
static _Atomic(uint64_t) bad_off, bad_len;

void io_inject(const struct io_inject *in)
{
	static const struct io_inject none;

	st_rlx(&io_inject_on, false);
	if (!in)
		in = &none;
	st_rlx(&count, 0);
	st_rlx(&eio_every, in->eio_every);
	st_rlx(&short_every, in->short_every);
	st_rlx(&eintr_every, in->eintr_every);
	st_rlx(&delay_us, in->delay_us);
	st_rlx(&bad_off, in->bad_off);
	st_rlx(&bad_len, in->bad_len);
	st_rlx(&io_inject_on, in != &none);
}

static bool turn(uint32_t nr, _Atomic(uint32_t) *every)
{
	uint32_t n = ld_rlx(every);

	return n && nr % n == 0;
}

long io_spoil(long res, size_t len, uint64_t off)
{
	uint32_t nr = add_rlx(&count, 1) + 1, us = ld_rlx(&delay_us);
	uint64_t bad = ld_rlx(&bad_off), bad_n = ld_rlx(&bad_len);

	if (us) {
		struct timespec t = { .tv_sec = us / 1000000,
				      .tv_nsec = us % 1000000 * 1000 };

		sys_call4(__NR_clock_nanosleep, CLOCK_MONOTONIC, 0, &t, NULL);
	}
	if (turn(nr, &eintr_every))
		return -EINTR;
	if (turn(nr, &eio_every) ||
	    (bad_n && off < bad + bad_n && bad < off + len))
		return -EIO;
	if (res > 1 && turn(nr, &short_every))
		return res / 2;
	return res;
}
