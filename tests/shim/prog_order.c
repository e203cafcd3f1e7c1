/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_order - with jemalloc and tcmalloc, before and after the pager in
 * LD_PRELOAD, and the pager opened and closed by dlopen in a program that was
 * not started under it. Run without the pager, the allocators stand alone.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>

#include "support/see.h"

#define RW (PROT_READ | PROT_WRITE)
#define LEN 50000

static int fd;

static unsigned long mix(unsigned long seed)
{
	static const size_t step[] = { 24, 1000, 5000, 70000, 200000, 700000 };
	unsigned char *m[40] = { NULL };
	size_t len[40] = { 0 };
	unsigned long wrong = 0;

	for (unsigned int i = 0; i < 400; i++) {
		unsigned int k = (unsigned int)((i * 7 + seed) % 40);
		unsigned char *p;

		if (m[k])
			wrong += not_all(m[k], (int)k, len[k]) >= 0;
		len[k] = step[(i + seed) % COUNT(step)] + i;
		m[k] = realloc(m[k], len[k]);
		if (!m[k])
			return 100000;
		memset(m[k], (int)k, len[k]);
		if (i % 5 == 0) {
			free(m[k]);
			m[k] = NULL;
		}
		p = mmap(NULL, LEN, i % 2 ? PROT_READ : RW,
			 i % 2 ? MAP_PRIVATE : MAP_PRIVATE | MAP_ANONYMOUS,
			 i % 2 ? fd : -1, 0);
		wrong += p == MAP_FAILED;
		wrong += i % 2 ? differs(p, 1, 0, LEN) >= 0 :
				 not_all(p, 0, LEN) >= 0;
		if (i % 2 == 0)
			memset(p, 0xff, LEN);
		wrong += munmap(p, LEN) != 0;
	}
	for (unsigned int k = 0; k < 40; k++)
		free(m[k]);
	return wrong;
}

static void *thread(void *arg)
{
	return (void *)mix((unsigned long)(uintptr_t)arg);
}

/* What every program of this kind does, whatever is preloaded. */
static int work(int f)
{
	unsigned long wrong;
	pthread_t t[3];
	pid_t pid;

	fd = f;
	for (uintptr_t i = 0; i < 3; i++)
		if (pthread_create(&t[i], NULL, thread, (void *)i))
			return 90;
	pid = fork();
	if (pid == 0)
		_exit(mix(7) ? 1 : 0);
	wrong = mix(3);
	if (strcmp(end_of(pid), "exit 0"))
		return 91;
	for (int i = 0; i < 3; i++) {
		void *ret;

		pthread_join(t[i], &ret);
		wrong += (unsigned long)(uintptr_t)ret;
	}
	malloc_trim(0);
	return wrong ? 1 : 0;
}

/* dlopen, use what then is mmap, dlclose; three times over. */
static int opened(int f, const char *path)
{
	fd = f;
	for (int i = 0; i < 3; i++) {
		void *h = dlopen(path, RTLD_NOW | (i ? RTLD_GLOBAL : 0));

		if (!h)
			return 92;
		if (mix(5))
			return 93;
		if (dlclose(h))
			return 94;
		if (mix(6))
			return 95;
	}
	return work(f);
}

static void start(const char *name, const char *preload, const char *mode,
		  const char *arg)
{
	pid_t pid = fork();

	if (pid == 0) {
		char num[16];

		alarm(100);
		snprintf(num, sizeof(num), "%d", fd);
		if (preload && *preload)
			setenv("LD_PRELOAD", preload, 1);
		else
			unsetenv("LD_PRELOAD");
		execl("/proc/self/exe", "prog_order", num, mode, arg,
		      (char *)NULL);
		_exit(96);
	}
	say("%s: %s", name, end_of(pid));
}

static void allocator(const char *name, const char *lib)
{
	const char *ours = preload_path();
	char both[2100];
	void *h = dlopen(lib, RTLD_NOW | RTLD_LOCAL);

	/* It may be there and refuse to be loaded late, for want of TLS. */
	if (!h && strstr(dlerror(), "cannot open")) {
		say("%s is not installed", lib);
		exit(77);
	}
	snprintf(both, sizeof(both), "%s%s%s", lib, ours ? ":" : "",
		 ours ? ours : "");
	start(name, both, "work", NULL);
	snprintf(both, sizeof(both), "%s%s%s", ours ? ours : "",
		 ours ? ":" : "", lib);
	start(name, both, "work", NULL);
}

int main(int argc, char **argv)
{
	const char *ours = preload_path();

	if (argc > 2)
		return strcmp(argv[2], "open") ? work(atoi(argv[1])) :
						 opened(atoi(argv[1]), argv[3]);
	fd = temp_file(1, LEN, O_RDONLY);
	fcntl(fd, F_SETFD, 0);
	start("libc's own", ours, "work", NULL);
	start("dlopen", NULL, ours ? "open" : "work", ours);
	allocator("jemalloc", "libjemalloc.so.2");
	allocator("tcmalloc", "libtcmalloc_minimal.so.4");
	return 0;
}
