/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * failing.h - for stress programs: a store of which certain pages cannot be
 * read, and reads of files that fail, come short, are interrupted or slow.
 */
#ifndef FL_TESTS_SUPPORT_FAILING_H
#define FL_TESTS_SUPPORT_FAILING_H

#include <errno.h>
#include <stdatomic.h>

#include "faultline.h"
#include "io/io.h"
#include "support/stress.h"

#define FILE_PAGES 2048 /* the store's, too */
#define STORE_ID 77
#define BAD_PAGE(n) ((n) % 97 == 13)

STRESS ssize_t store_read_words(void *store, void *buf, size_t len,
				uint64_t off)
{
	size_t size = FILE_PAGES * (size_t)4096;

	(void)store;
	if (off >= size)
		return 0;
	if (len > size - off)
		len = size - off;
	for (size_t i = 0; i < len; i += 4096)
		if (BAD_PAGE((off + i) / 4096))
			return -EREMOTEIO;
	words_fill(buf, STORE_ID, off, len);
	return (ssize_t)len;
}

static const struct fl_store_ops store_ops = {
	.size = sizeof(store_ops),
	.read = store_read_words,
};

/* A while of good reads and one of bad ones. *@failing is odd while a read may
 * fail, and is counted on each time. */
STRESS void inject_some(struct rng *rng, _Atomic uint64_t *failing)
{
	static const struct io_inject how[] = {
		{ .short_every = 3, .eintr_every = 5 },
		{ .delay_us = 2000 },
		{ .eio_every = 50, .short_every = 7 },
		{ .eio_every = 5, .delay_us = 300 },
	};
	unsigned int k = rng_below(rng, 4);

	nap_ms(50);
	if (how[k].eio_every)
		atomic_fetch_add(failing, 1);
	io_inject(&how[k]);
	nap_ms(50 + rng_below(rng, 50));
	io_inject(NULL);
	if (!how[k].eio_every)
		return;
	nap_ms(50); /* who has read its orders */
	atomic_fetch_add(failing, 1);
}

#endif
