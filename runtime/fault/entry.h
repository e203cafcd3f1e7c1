/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* entry.h - the end of a claim on an entry, and waiting for it. */
#ifndef FL_FAULT_ENTRY_H
#define FL_FAULT_ENTRY_H

#include "fault/vma.h"

/* BUSY -> @to by the owner; whoever waits is woken. */
void fault_settle(struct vma *v, size_t page, pte_t to);

/* Sleeps while the entry is BUSY; it may still be afterwards. */
void fault_wait(struct vma *v, size_t page);

#endif
