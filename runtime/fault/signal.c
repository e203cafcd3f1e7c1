// SPDX-License-Identifier: LGPL-2.1-or-later
/* signal.c - see signal.h. */
#include "fault/signal.h"

#include <signal.h>

#include "base/base.h"
#include "fault/fault.h"
#include "base/ban.h"

static struct sigaction before;

static void on_sigbus(int sig, siginfo_t *info, void *context)
{
	int saved = errno;

	if (fault_serve(info->si_addr) != FAULT_DONE) {
		if (before.sa_flags & SA_SIGINFO)
			before.sa_sigaction(sig, info, context);
		else
			sigaction(sig, &before, NULL);
	}
	errno = saved;
}

int signal_install(void)
{
	struct sigaction sa = { .sa_sigaction = on_sigbus,
				.sa_flags = SA_SIGINFO | SA_ONSTACK };

	sigfillset(&sa.sa_mask);
	return sigaction(SIGBUS, &sa, &before) ? -errno : 0;
}
