// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * wrap_limit.c - the calls by which a program limits its own memory.
 *
 * RLIMIT_AS counts the address space the arenas have reserved, which the
 * program knows nothing of. When it sets that limit (or RLIMIT_DATA), the pager
 * gives back what it has not used so far, so that the limit means to the
 * program what it would without us.
 */
#include <sys/resource.h>
#include <sys/types.h>

#include "shim.h"
#include "base/sys.h"

static int limit(pid_t pid, int what, const void *new, void *old)
{
	int saved = errno;
	bool outer;
	struct fl_pager *p = shim_go(&outer);
	long ret = sys_call4(__NR_prlimit64, pid, what, new, old);

	if (ret == 0 && new &&p && (what == RLIMIT_AS || what == RLIMIT_DATA) &&
	    (pid == 0 || pid == (pid_t)sys_getpid()))
		fl_shrink(p);
	shim_back(outer);
	return (int)shim_ret(ret, saved);
}

/* struct rlimit is struct rlimit64 on 64-bit targets, the kernel's too. */
_Static_assert(sizeof(struct rlimit) == sizeof(struct rlimit64),
	       "one wrapper serves both");

FL_API int setrlimit(__rlimit_resource_t what, const struct rlimit *new)
{
	return limit(0, (int)what, new, NULL);
}

FL_API int setrlimit64(__rlimit_resource_t what, const struct rlimit64 *new)
{
	return limit(0, (int)what, new, NULL);
}

FL_API int prlimit(pid_t pid, enum __rlimit_resource what,
		   const struct rlimit *new, struct rlimit *old)
{
	return limit(pid, (int)what, new, old);
}

FL_API int prlimit64(pid_t pid, enum __rlimit_resource what,
		     const struct rlimit64 *new, struct rlimit64 *old)
{
	return limit(pid, (int)what, new, old);
}
