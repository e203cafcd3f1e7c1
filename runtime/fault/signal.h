/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* signal.h - the pager's SIGBUS handler. */
#ifndef FL_FAULT_SIGNAL_H
#define FL_FAULT_SIGNAL_H

/* Installs it, the first time. 0 or -errno. */
int signal_install(void);

#endif
