// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * shim.c - start of the preload, and when it stands aside.
 *
 * ld.so runs shim_init() after the constructors of libfaultline and of the
 * program's other libraries. What those map, and what is mapped under
 * set-user-ID, under a sanitizer or with the option off=1, goes to the kernel
 * by raw system calls.
 */
#include <sys/auxv.h>

#include "shim.h"
#include "base/ban.h"

_Atomic(struct fl_pager *) shim_pager;
FL_TLS bool shim_inside;

/*
 * A sanitizer's runtime keeps shadow memory for what it sees mapped and counts
 * on the kernel's behaviour for the rest.
 */
#ifndef FL_SANITIZED
extern void __asan_init(void) __attribute__((weak));
extern void __hwasan_init(void) __attribute__((weak));
extern void __lsan_init(void) __attribute__((weak));
extern void __msan_init(void) __attribute__((weak));
extern void __tsan_init(void) __attribute__((weak));

static bool sanitized(void)
{
	return __asan_init || __hwasan_init || __lsan_init || __msan_init ||
	       __tsan_init;
}
#else
static bool sanitized(void)
{
	return false;
}
#endif

__attribute__((constructor)) static void shim_init(void)
{
	int saved = errno;
	struct fl_pager *p;

	if (!getauxval(AT_SECURE) && !sanitized()) {
		p = fl_pager_default();
		/* What demand regions take is opened while it can be; where it
		 * cannot, the kernel serves. */
		if (p)
			fl_pager_preload(p);
		/* [MO:shim-pager] the pager, for shim_get in threads that
		 * other constructors have started. */
		st_rel(&shim_pager, p);
	}
	errno = saved;
}
