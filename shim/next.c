// SPDX-License-Identifier: LGPL-2.1-or-later
/* next.c - see next.h. */
#include <dlfcn.h>

#include "next.h"
#include "touch.h"

_Atomic(void *) next_fn[NEXT_NR];

static const volatile uintptr_t nowhere[2] = { UINTPTR_MAX, 0 };
const volatile uintptr_t *touch_range = nowhere;

static const struct {
	const char *name;
	bool early;
} names[NEXT_NR] = {
#define NEXT(n, e) { #n, e },
#include "next.def"
#undef NEXT
};

static long missing(void)
{
	errno = ENOSYS;
	return -1;
}

void *next_find(enum next_id id)
{
	int saved = errno;
	void *f = dlsym(RTLD_NEXT, names[id].name);

	if (!f)
		f = (void *)missing;
	st_rlx(&next_fn[id], f);
	errno = saved;
	return f;
}

__attribute__((constructor)) static void next_init(void)
{
	touch_range = fl_touch_range();
	for (int i = 0; i < NEXT_NR; i++)
		if (names[i].early)
			next_find((enum next_id)i);
}
