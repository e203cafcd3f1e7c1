/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * demand.h - mappings that are demand regions under the preload with
 * FAULTLINE_LARGE=demand, for the programs of tests/shim.
 */
#ifndef FL_TESTS_SUPPORT_DEMAND_H
#define FL_TESTS_SUPPORT_DEMAND_H

#include <dlfcn.h>

#include "support/see.h"

/* Is it served as asked for? Always so without the preload. */
SEE void must_be_demand(const void *p)
{
	struct fl_pager *(*pager)(void);
	int (*find)(struct fl_pager *, const void *);
	const char *large = getenv("FAULTLINE_LARGE");

	pager = (struct fl_pager * (*)(void))
		dlsym(RTLD_DEFAULT, "fl_pager_default");
	find = (int (*)(struct fl_pager *, const void *))dlsym(RTLD_DEFAULT,
							       "fl_find");
	if (pager && find && large && !strcmp(large, "demand") &&
	    find(pager(), p) != 3)
		say("not a demand region, so nothing is tested");
}

/* A fresh mapping of the first @size bytes, none of which is present. */
SEE unsigned char *map_demand(int fd, size_t size)
{
	unsigned char *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);

	if (p == MAP_FAILED)
		give_up("mmap");
	must_be_demand(p);
	return p;
}

#endif
