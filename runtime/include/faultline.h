/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * faultline.h - a user-level pager for Linux: mmap without the process-wide
 * lock, without page faults and without TLB shootdowns.
 *
 * READ THIS FIRST
 *
 *  - A *resident* region is a snapshot of the file taken when it was mapped:
 *    later writes, truncation or replacement of the file do not show in it, and
 *    it never raises SIGBUS. Requests the pager does not take (see
 *    faultline(7), "What is taken") are handed to the kernel unchanged and
 *    behave as mmap(2).
 *  - After unmapping, an access is undefined: the page may already hold other
 *    bytes. The option hardened=1 makes it SIGSEGV, at a price.
 *  - Unmap a region with this library (or under the preload), never with a raw
 *    system call: the pager would not hear of it.
 *  - fork(): a child sees every live region unchanged, and can map and unmap.
 *    This works through pthread_atfork(3); a child made by a raw clone system
 *    call or _Fork(3) must exec or exit.
 *  - Descriptors: resident regions keep none open. Demand regions keep one or
 *    two of each file and the pager some userfaultfds, all close-on-exec and
 *    with high numbers.
 *
 * ERRORS. fl_pager_* functions return 0 or a positive value, or -errno;
 * functions that return a pointer return (void *)-errno, to be tested with
 * FL_IS_ERR(). They leave errno alone. The drop-ins (fl_mmap, fl_munmap, ...)
 * return and set errno as the calls they replace.
 *
 * THREADS. Every function may be called from any thread at any time, unless it
 * says otherwise. SIGNALS. The map, unmap, advise and query functions neither
 * allocate nor take libc locks, so they may be called from a signal handler
 * once the thread has made one call outside of one. A handler may leave them
 * by siglongjmp(3): what the interrupted call was about may then stay mapped or
 * be lost, and fl_trim() gives back less; nothing else is lost.
 */
#ifndef FAULTLINE_H
#define FAULTLINE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef FL_API
#define FL_API __attribute__((visibility("default")))
#endif

/* A pager: options, arenas, shadow page table, statistics. Opaque. */
struct fl_pager;

/* True for the error pointers of the functions below. */
#define FL_IS_ERR(p) ((uintptr_t)(p) >= (uintptr_t)-4095)

/* The -errno inside such a pointer. */
#define FL_PTR_ERR(p) ((int)(intptr_t)(p))

/* ------------------------------------------------------------------------
 * Pagers
 */

/*
 * fl_pager_open - make a pager.
 * @out: where the handle goes.
 * @options: "name=value,name=value" as in faultline(7), or NULL for the
 *	defaults. The environment is not read.
 *
 * Reserves address space (no memory) for the arenas.
 * Returns 0; -EINVAL for an option that is unknown, malformed or out of range;
 * -ENOMEM where the address space cannot be reserved (RLIMIT_AS); -ENOTSUP on
 * a host whose page size is not 4096; -EMFILE when 16 pagers are open.
 * Not for signal handlers.
 */
FL_API int fl_pager_open(struct fl_pager **out, const char *options);

/*
 * fl_pager_close - destroy a pager and give all its memory back.
 *
 * Returns 0; -EBUSY while regions are mapped, and always for the default pager;
 * -EINVAL for NULL. The caller sees to it that no
 * other thread uses the pager. Not for signal handlers.
 */
FL_API int fl_pager_close(struct fl_pager *pager);

/*
 * fl_pager_default - the pager behind the drop-ins; opened at first use with
 * the environment's FAULTLINE_* options. NULL where it cannot be had; the
 * drop-ins then call the kernel.
 */
FL_API struct fl_pager *fl_pager_default(void);

/*
 * fl_pager_preload - this pager serves a program that does not know of it: what
 * option values named auto mean becomes what the preload wants, and
 * descriptors are opened now, while the process may. Before the pager is used.
 * Returns 0, or -ENOTSUP, -EMFILE: there will be no demand regions.
 */
FL_API int fl_pager_preload(struct fl_pager *pager);

/* ------------------------------------------------------------------------
 * Mapping, on a given pager
 */

/*
 * fl_pager_mmap - as mmap(2), served by @pager where it can.
 * @addr, @length (bytes), @prot, @flags, @fd, @offset (bytes): as mmap(2).
 *
 * Returns the address, or (void *)-errno with the error mmap(2) returns for
 * the same request on this kernel.
 */
FL_API void *fl_pager_mmap(struct fl_pager *pager, void *addr, size_t length,
			   int prot, int flags, int fd, off_t offset);

/*
 * fl_pager_map_file - map a file's bytes read-only, without asking the kernel
 * what the descriptor is.
 * @fd: an open descriptor of a regular file; the caller vouches for it.
 * @offset: first byte, a multiple of 4096.
 * @length: bytes, > 0; the file has at least that many from @offset.
 *
 * What fl_pager_mmap(NULL, length, PROT_READ, MAP_PRIVATE, fd, offset) does,
 * less the two system calls it spends on telling regular files from others:
 * one pread(2) is all. Larger requests than the pager takes go to mmap(2).
 *
 * Returns the address or (void *)-errno: -EINVAL for a bad offset or length,
 * otherwise what mmap(2) returns.
 */
FL_API void *fl_pager_map_file(struct fl_pager *pager, int fd, off_t offset,
			       size_t length);

/*
 * fl_pager_munmap - as munmap(2): any range, over several regions, parts of
 * them, kernel mappings and nothing at all.
 *
 * Returns 0 or -errno: -EINVAL for an unaligned @addr or zero @length.
 */
FL_API int fl_pager_munmap(struct fl_pager *pager, void *addr, size_t length);

/*
 * fl_pager_madvise - as madvise(2). SEQUENTIAL, RANDOM, NORMAL and WILLNEED on
 * resident regions cost no system call.
 */
FL_API int fl_pager_madvise(struct fl_pager *pager, void *addr, size_t length,
			    int advice);

/* fl_pager_mincore - as mincore(2). */
FL_API int fl_pager_mincore(struct fl_pager *pager, void *addr, size_t length,
			    unsigned char *vec);

/*
 * fl_pager_mprotect, _msync, _mlock, _munlock, _mremap - as the system calls.
 * What changes a region in a way the pager does not do itself first replaces
 * it in place by a kernel mapping with the same bytes, then calls the kernel.
 * -ENOMEM where that cannot be done: the region is then as before.
 *
 * mremap: a file region can grow only while @old's file is still open under
 * the descriptor it was mapped with; otherwise -ENOMEM.
 */
FL_API int fl_pager_mprotect(struct fl_pager *pager, void *addr, size_t length,
			     int prot);
FL_API int fl_pager_msync(struct fl_pager *pager, void *addr, size_t length,
			  int flags);
FL_API int fl_pager_mlock(struct fl_pager *pager, const void *addr,
			  size_t length, unsigned int flags);
FL_API int fl_pager_munlock(struct fl_pager *pager, const void *addr,
			    size_t length);
FL_API void *fl_pager_mremap(struct fl_pager *pager, void *addr,
			     size_t old_length, size_t new_length, int flags,
			     void *new_addr);

/* ------------------------------------------------------------------------
 * Demand regions: pages are read when they are first touched, and dropped again
 * when the pager's memory budget (option mem) is used up. A region may be far
 * larger than memory.
 *
 * Who serves a fault is the option fault. In signal mode (the library's
 * default) the thread itself does, in a SIGBUS handler that stays the first
 * one; a program with its own SIGBUS handler installs it by fl_sigaction(). The
 * kernel does not raise a signal for its own accesses: a system call that is
 * handed a buffer in a region whose pages are absent fails with EFAULT, so call
 * fl_prefetch() on the buffer first (the preload does). In service mode threads
 * of the pager serve faults, and system calls work, too.
 *
 * FORK. A child sees its regions of files as kernel mappings of the same files,
 * those of other stores are served in the child as in the parent. Writable
 * regions do not exist in the child.
 */

/*
 * Where the bytes of a region come from. The functions are called by any thread
 * that touches the region, several at once, in signal mode inside of a signal
 * handler: they must be async-signal-safe then, and must not touch a demand
 * region themselves in any mode. In service mode a read that takes longer than
 * 30 seconds, or ends its thread, is given up: its pages raise SIGBUS.
 */
struct fl_store_ops {
	size_t size; /* sizeof(struct fl_store_ops) */
	/*
	 * Fill @buf with the @len bytes from byte @off of the store. @len is a
	 * multiple of 4096, and so is @off if the region's offset is.
	 * Returns the number of bytes, less than @len only at the end of the
	 * store (0: @off is past it), or -errno.
	 */
	ssize_t (*read)(void *store, void *buf, size_t len, uint64_t off);
	/* Optional: the same, outwards. All of @len, or -errno. */
	ssize_t (*write)(void *store, const void *buf, size_t len,
			 uint64_t off);
	/* Optional: make what was written durable. 0 or -errno. */
	int (*flush)(void *store);
	/* Optional: bytes in the store, or -errno. */
	int64_t (*length)(void *store);
	/* Optional: a region of @store is gone; once for each region that was
	 * made. Any thread may call it, a little later than the unmapping. */
	void (*release)(void *store);
};

/*
 * fl_store_zero - the functions of a store of zeros without end, read-only;
 * what they are given does not matter. For ranges that hold nothing.
 */
FL_API const struct fl_store_ops *fl_store_zero(void);

/* Flags of fl_region_map() and fl_region_map_file(). */
#define FL_REGION_RANDOM 0x1u     /* as MADV_RANDOM from the start */
#define FL_REGION_SEQUENTIAL 0x2u /* as MADV_SEQUENTIAL from the start */

/*
 * fl_region_map_file - map a file as a demand region.
 * @fd: a regular file, open for reading; the pager keeps a duplicate.
 * @off: first byte, a multiple of 4096.
 * @len: bytes, > 0; the file has at least that many from @off, up to a page.
 * @prot: PROT_READ, or PROT_READ | PROT_WRITE with @fd open for both.
 * @flags: FL_REGION_*.
 *
 * Unlike a resident region it is no snapshot: a page shows the file as it is
 * when the page is read. An access past the end of a file that has become
 * shorter raises SIGBUS, or finds zeros with eof=zero.
 *
 * What is written to a writable region goes to the file when its page is
 * dropped for others, by fl_pager_msync(), and at the latest when it is
 * unmapped; not when the process ends without that. A failed write is returned
 * by fl_pager_msync() and fl_pager_munmap(); the pages then stay as they are,
 * and nothing is unmapped. A child of fork does not have the region.
 *
 * Returns the address or (void *)-errno: -EINVAL for the arguments; -EBADF,
 * -EACCES, -ENODEV as mmap(2); -EBUSY where the process holds record locks on
 * the file, which the pager's descriptor would take away; -ENOTSUP where the system has no userfaultfd
 * (mmap(2) is then the way); -ENOMEM, -EMFILE. Not for signal handlers.
 */
FL_API void *fl_region_map_file(struct fl_pager *pager, int fd, off_t off,
				size_t len, int prot, unsigned int flags);

/*
 * fl_region_map - map any store as a demand region.
 * @ops, @store: the functions, which must stay, and what they are given.
 * @off: byte of the store where the region starts, a multiple of 4096.
 * @len: bytes, > 0.
 * @prot, @flags: as above.
 *
 * A page whose read fails raises SIGBUS at every access; fl_region_error()
 * tells the errno. The other pages keep being served.
 * Returns as fl_region_map_file().
 */
FL_API void *fl_region_map(struct fl_pager *pager,
			   const struct fl_store_ops *ops, void *store,
			   uint64_t off, size_t len, int prot,
			   unsigned int flags);

/*
 * fl_prefetch - read what of a range lies in demand regions and is absent, and
 * return when it is there.
 *
 * At most the memory budget can be there at once. Returns 0, or -errno of the
 * first page that could not be read. May be called in a signal handler where
 * the stores' functions may.
 */
FL_API int fl_prefetch(struct fl_pager *pager, const void *addr, size_t length);

/*
 * fl_region_error - why does the page at @addr raise SIGBUS?
 * Returns the errno of the failed read (> 0), 0 for a page that has not failed,
 * or -EFAULT for an address that is in no demand region.
 */
FL_API int fl_region_error(struct fl_pager *pager, const void *addr);

/*
 * fl_sigaction - as sigaction(2), but the pager's SIGBUS handler, if it is
 * installed, stays before the one given here, which gets the faults that are
 * not the pager's. Sets errno.
 */
struct sigaction;
FL_API int fl_sigaction(int sig, const struct sigaction *act,
			struct sigaction *old);

/*
 * What a preload asks. All may be called from signal handlers and leave errno
 * alone.
 *
 * fl_sigbus_taken - 1 once the pager's SIGBUS handler is installed: SIGBUS must
 * then be kept out of signal masks (SIGSTKFLT takes its place, see
 * fl_sigaction(3)).
 *
 * fl_touch - make present what of [@addr, @addr + @length) lies in demand
 * regions of which a system call finds only what is present. @write: it is
 * going to write there.
 * Returns 0 if there is nothing of the kind, which is quick to say; else 1,
 * whether or not every page could be had: the system call will tell.
 *
 * fl_touch_range - two words that stay where they are: no demand region lies
 * below the first or at or above the second, so that a wrapper need not call
 * fl_touch() for a buffer elsewhere.
 *
 * fl_fd_next - the lowest descriptor >= @fd that is the pager's, or -1.
 *
 * fl_fd_floor - no descriptor below this number is the pager's.
 *
 * fl_fd_close, fl_fd_close_range, fl_fd_dup - close(2), close_range(2) and
 * dup3(2) (with @flags -1 dup2(2)) which leave the pager's descriptors alone:
 * they are not there, in a range they are passed over, and one on whose number
 * the program puts a file moves elsewhere first.
 * Return as the calls, or -errno; -EMFILE or -EBUSY where one cannot move: the
 * latter in a child of vfork or a thread that does not share its descriptors.
 */
FL_API int fl_sigbus_taken(void);
FL_API int fl_touch(const void *addr, size_t length, int write);
FL_API const volatile uintptr_t *fl_touch_range(void);
FL_API int fl_fd_next(int fd);
FL_API int fl_fd_floor(void);
FL_API int fl_fd_close(int fd);
FL_API int fl_fd_close_range(unsigned int first, unsigned int last,
			     unsigned int flags);
FL_API int fl_fd_dup(int from, int to, int flags);

/*
 * fl_find - is there a page of @pager's at @addr?
 * Returns 1 for a page of a resident region, 2 for a page that has been replaced
 * by a kernel mapping, 3 for a page of a demand region, 0 for anything else.
 */
FL_API int fl_find(struct fl_pager *pager, const void *addr);

/* ------------------------------------------------------------------------
 * Drop-ins: the same on the default pager, returning and setting errno exactly
 * as the calls they are named after.
 */
FL_API void *fl_mmap(void *addr, size_t length, int prot, int flags, int fd,
		     off_t offset);
FL_API int fl_munmap(void *addr, size_t length);
FL_API int fl_madvise(void *addr, size_t length, int advice);
FL_API int fl_mincore(void *addr, size_t length, unsigned char *vec);

/* ------------------------------------------------------------------------
 * Options and statistics, by name
 */

/*
 * fl_conf_get - the value in force of option @name, as text.
 * @buf, @size: where it goes; always terminated.
 * Returns the text's length, -ENOENT for an unknown name, -ENOSPC.
 */
FL_API int fl_conf_get(struct fl_pager *pager, const char *name, char *buf,
		       size_t size);

/*
 * fl_stat_read - the value of counter @name; faultline(7) lists them.
 * Returns 0 or -ENOENT. The value is a sum over CPUs, not a snapshot.
 */
FL_API int fl_stat_read(struct fl_pager *pager, const char *name,
			uint64_t *value);

/*
 * fl_stat_name - the name of the @index-th counter, NULL past the last.
 */
FL_API const char *fl_stat_name(unsigned int index);

/*
 * fl_trim - give idle memory of @pager back to the system now.
 * Returns the bytes given back, or -errno. Waits for other threads' calls under
 * way; for ever, if a handler has left one in another thread by siglongjmp(3).
 * Not for signal handlers.
 */
FL_API long fl_trim(struct fl_pager *pager);

/*
 * fl_shrink - give the pager's unused address space back to the process, for a
 * program that limits itself (RLIMIT_AS, RLIMIT_DATA). The pager cannot grow any
 * more: what finds no room in what it has used so far goes to the kernel. The
 * preload does it when the program lowers one of these limits.
 * Returns bytes. Not for signal handlers.
 */
FL_API long fl_shrink(struct fl_pager *p);

/* fl_version - "MAJOR.MINOR.PATCH". */
FL_API const char *fl_version(void);

#ifdef __cplusplus
}
#endif
#endif
