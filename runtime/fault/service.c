// SPDX-License-Identifier: LGPL-2.1-or-later
/* service.c - see service.h. */
#include "fault/service.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/sys.h"
#include "fault/fault.h"
#include "fault/fdtable.h"
#include "fault/uffd.h"
#include "base/ban.h"

#define PR_SET_NAME 15

static void serve_message(_Atomic(int) *uffd, const struct uabi_msg *m)
{
	void *addr = (void *)(uintptr_t)(m->address & FL_PAGE_MASK);
	int fd;

	if (m->event != UABI_EVENT_PAGEFAULT)
		return;
	if (fault_service(addr) == FAULT_DONE)
		return;
	/* The kernel's own answer awaits it. */
	do {
		fd = fd_get(uffd);
		uffd_wake(fd, addr, FL_PAGE_SIZE);
	} while (unlikely(!fd_still(uffd, fd)));
}

static void *service_main(void *arg)
{
	_Atomic(int) *uffd = arg;
	struct uabi_msg m;
	long n;
	int fd;

	sys_call2(__NR_prctl, PR_SET_NAME, "fl-service");
	for (;;) {
		fd = fd_get(uffd);
		n = sys_read(fd, &m, sizeof(m));
		if (n == (long)sizeof(m))
			serve_message(uffd, &m);
		else if (n != -EINTR && n != -EAGAIN && fd_still(uffd, fd))
			break;
	}
	return NULL;
}

int service_start(_Atomic(int) *uffd, unsigned int threads)
{
	pthread_attr_t attr;
	pthread_t t;
	int err = 0;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 128 << 10);
	for (unsigned int i = 0; i < threads && err == 0; i++)
		err = pthread_create(&t, &attr, service_main, (void *)uffd);
	pthread_attr_destroy(&attr);
	return -err;
}

void service_fork_child(void)
{
}
