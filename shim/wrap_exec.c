// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * wrap_exec.c - a new program gets the signal mask, and SIGBUS ignored, as this
 * one believes to have them (wrap_sig.c).
 *
 * Nothing here allocates: a child of vfork may call it. Programs started by
 * system(3) and popen(3), which libc starts without asking anybody, have SIGBUS
 * unblocked, and so have those of posix_spawn an ignored SIGBUS at its default.
 */
#include <alloca.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <unistd.h>

#include "next.h"
#include "shim.h"
#include "wrap_sig.h"
#include "base/sigbit.h"
#include "base/sys.h"

struct handover {
	bool masked, ignored;
	uint64_t mask;
	struct sigaction act;
};

static void hand_over(struct handover *h)
{
	h->masked = h->ignored = false;
	if (likely(!fl_sigbus_taken()))
		return;
	fl_sigaction(SIGBUS, NULL, &h->act);
	h->ignored = h->act.sa_handler == SIG_IGN;
	if (h->ignored)
		next(sigaction)(SIGBUS, &h->act, NULL);
	h->mask = sig_kernel_mask();
	h->masked = h->mask & sig_bit(SIG_STAND_IN);
	if (h->masked)
		sig_set_kernel_mask(sig_program_mask());
}

/* It failed. */
static int take_back(struct handover *h)
{
	int saved = errno;

	if (h->masked)
		sig_set_kernel_mask(h->mask);
	if (h->ignored)
		fl_sigaction(SIGBUS, &h->act, NULL);
	errno = saved;
	return -1;
}

FL_API int execve(const char *path, char *const argv[], char *const envp[])
{
	struct handover h;

	hand_over(&h);
	next(execve)(path, argv, envp);
	return take_back(&h);
}

FL_API int execv(const char *path, char *const argv[])
{
	return execve(path, argv, environ);
}

FL_API int execvpe(const char *file, char *const argv[], char *const envp[])
{
	struct handover h;

	hand_over(&h);
	next(execvpe)(file, argv, envp);
	return take_back(&h);
}

FL_API int execvp(const char *file, char *const argv[])
{
	return execvpe(file, argv, environ);
}

FL_API int fexecve(int fd, char *const argv[], char *const envp[])
{
	struct handover h;

	hand_over(&h);
	next(fexecve)(fd, argv, envp);
	return take_back(&h);
}

FL_API int execveat(int dir, const char *path, char *const argv[],
		    char *const envp[], int flags)
{
	struct handover h;

	hand_over(&h);
	next(execveat)(dir, path, argv, envp, flags);
	return take_back(&h);
}

/* The arguments from @first up to and with the NULL. */
static size_t count_args(const char *first, va_list ap)
{
	size_t n = 1;

	if (first)
		while (n++, va_arg(ap, char *))
			;
	return n;
}

static void copy_args(char **argv, const char *first, va_list ap, size_t n)
{
	argv[0] = (char *)(uintptr_t)first;
	for (size_t i = 1; i < n; i++)
		argv[i] = va_arg(ap, char *);
}

/* On the stack, as libc does. */
#define GATHER(argv, first)                           \
	do {                                          \
		va_list ap_;                          \
		size_t n_;                            \
                                                      \
		va_start(ap_, first);                 \
		n_ = count_args(first, ap_);          \
		va_end(ap_);                          \
		(argv) = alloca(n_ * sizeof(char *)); \
		va_start(ap_, first);                 \
		copy_args((argv), first, ap_, n_);    \
		va_end(ap_);                          \
	} while (0)

FL_API int execl(const char *path, const char *arg, ...)
{
	char **argv;

	GATHER(argv, arg);
	return execve(path, argv, environ);
}

FL_API int execlp(const char *file, const char *arg, ...)
{
	char **argv;

	GATHER(argv, arg);
	return execvpe(file, argv, environ);
}

FL_API int execle(const char *path, const char *arg, ...)
{
	char **argv;
	char *const *envp;
	va_list ap;

	GATHER(argv, arg);
	va_start(ap, arg);
	count_args(arg, ap);
	envp = va_arg(ap, char *const *);
	va_end(ap);
	return execve(path, argv, envp);
}

/* The mask that the child inherits where @attr does not say one. */
static const posix_spawnattr_t *with_mask(const posix_spawnattr_t *attr,
					  posix_spawnattr_t *copy)
{
	short flags = 0;
	sigset_t set;

	if (likely(!fl_sigbus_taken()) ||
	    !(sig_kernel_mask() & sig_bit(SIG_STAND_IN)))
		return attr;
	if (attr)
		posix_spawnattr_getflags(attr, &flags);
	if (flags & POSIX_SPAWN_SETSIGMASK)
		return attr;
	if (attr)
		*copy = *attr;
	else
		posix_spawnattr_init(copy);
	sigemptyset(&set);
	sig_to_set(&set, sig_program_mask());
	posix_spawnattr_setsigmask(copy, &set);
	posix_spawnattr_setflags(copy, (short)(flags | POSIX_SPAWN_SETSIGMASK));
	return copy;
}

FL_API int posix_spawn(pid_t *pid, const char *path,
		       const posix_spawn_file_actions_t *actions,
		       const posix_spawnattr_t *attr, char *const argv[],
		       char *const envp[])
{
	posix_spawnattr_t a;

	return next(posix_spawn)(pid, path, actions, with_mask(attr, &a), argv,
				 envp);
}

FL_API int posix_spawnp(pid_t *pid, const char *file,
			const posix_spawn_file_actions_t *actions,
			const posix_spawnattr_t *attr, char *const argv[],
			char *const envp[])
{
	posix_spawnattr_t a;

	return next(posix_spawnp)(pid, file, actions, with_mask(attr, &a), argv,
				  envp);
}
