// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The hash XXH64, with seed 0: four lanes of 8 bytes each over blocks of 32,
 * then the rest in pieces of 8, 4 and 1.
 */
#include <string.h>

#include "seekable.h"

#define P1 UINT64_C(0x9e3779b185ebca87)
#define P2 UINT64_C(0xc2b2ae3d27d4eb4f)
#define P3 UINT64_C(0x165667b19e3779f9)
#define P4 UINT64_C(0x85ebca77c2b2ae63)
#define P5 UINT64_C(0x27d4eb2f165667c5)

static uint64_t rotl(uint64_t x, int n)
{
	return x << n | x >> (64 - n);
}

static uint64_t get64(const unsigned char *p)
{
	return get32(p) | (uint64_t)get32(p + 4) << 32;
}

static uint64_t lane(uint64_t acc, uint64_t in)
{
	return rotl(acc + in * P2, 31) * P1;
}

static uint64_t merge(uint64_t h, uint64_t acc)
{
	return (h ^ lane(0, acc)) * P1 + P4;
}

uint64_t xxh64(const void *data, size_t len)
{
	const unsigned char *p = data, *end = p + len;
	uint64_t h = P5;

	if (len >= 32) {
		uint64_t v[4] = { P1 + P2, P2, 0, -P1 };

		for (; end - p >= 32; p += 32)
			for (int i = 0; i < 4; i++)
				v[i] = lane(v[i], get64(p + 8 * i));
		h = rotl(v[0], 1) + rotl(v[1], 7) + rotl(v[2], 12) +
		    rotl(v[3], 18);
		for (int i = 0; i < 4; i++)
			h = merge(h, v[i]);
	}
	h += len;
	for (; end - p >= 8; p += 8)
		h = rotl(h ^ lane(0, get64(p)), 27) * P1 + P4;
	if (end - p >= 4) {
		h = rotl(h ^ get32(p) * P1, 23) * P2 + P3;
		p += 4;
	}
	for (; p < end; p++)
		h = rotl(h ^ *p * P5, 11) * P1;
	h = (h ^ h >> 33) * P2;
	h = (h ^ h >> 29) * P3;
	return h ^ h >> 32;
}
