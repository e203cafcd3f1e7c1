/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * dirty.h - pages of writable regions: which were written to, and getting them
 * out.
 *
 * Pages are filled write-protected (UFFDIO_COPY_MODE_WP). The first write faults;
 * the entry becomes PRESENT and DIRTY and the protection goes. To clean a page
 * its entry is claimed and the page protected again, so that nobody writes while
 * it is copied out; the copy is then written to the store with nothing held but
 * the claim. Readers are not disturbed, writers wait. A page whose write fails
 * stays present and dirty: nothing is lost, and the error is told to who asked.
 */
#ifndef FL_FAULT_DIRTY_H
#define FL_FAULT_DIRTY_H

#include "base/base.h"
#include "fault/filler.h"
#include "fault/vma.h"

/*
 * Writes the @n pages from @page, which the caller has claimed (BUSY) from dirty
 * entries and which fit into the filler's buffer, to the store. The entries stay
 * claimed, the pages protected. Outside of a copying section, within a read
 * section. 0, -errno of the store, or -ECANCELED: the region was taken away.
 */
long dirty_write(struct filler *f, struct vma *v, size_t page, size_t n);

/* The entries, claimed, of present pages that stay: clean, or still dirty; or
 * gone, if the region was taken away. Outside of a copying section. */
void dirty_restore(struct filler *f, struct vma *v, size_t page, size_t n,
		   bool dirty);

/* The entry, claimed, of a present page that a thread wants to write to: lifts
 * the protection and settles it as dirty. */
void dirty_allow(struct filler *f, struct vma *v, size_t page);

/* Writes every dirty page of the range; all are tried. 0 or the first error. */
long dirty_sync(char *addr, size_t len);

/* The same, but pages somebody is busy with are passed over. */
void dirty_salvage(char *addr, size_t len);

/* dirty_sync, then makes it durable. */
long dirty_flush(char *addr, size_t len);

#endif
