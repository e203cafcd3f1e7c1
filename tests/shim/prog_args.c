/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_args - what mmap says to every odd argument, as a table.
 *
 * One line for each (descriptor, flags, protection), one letter for each
 * (length, offset): '.' mapped and right, '!' mapped with wrong bytes, '~'
 * errno changed on success, 'u' munmap failed, else the error.
 *
 * [fl:demand] service
 */
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "support/see.h"

#ifndef MAP_32BIT
#define MAP_32BIT 0
#endif
#define FILE_SIZE 10000

struct named {
	const char *name;
	int val;
};

static struct named fds[32];
static unsigned int nr_fds;

static const struct named all_flags[] = {
	{ "0", 0 },
	{ "SHARED", MAP_SHARED },
	{ "PRIVATE", MAP_PRIVATE },
	{ "VALIDATE", MAP_SHARED_VALIDATE },
	{ "type 4", 4 },
	{ "type 8", 8 },
	{ "type 15", 15 },
	{ "ANON", MAP_ANONYMOUS },
	{ "PRIVATE|ANON", MAP_PRIVATE | MAP_ANONYMOUS },
	{ "SHARED|ANON", MAP_SHARED | MAP_ANONYMOUS },
	{ "VALIDATE|ANON", MAP_SHARED_VALIDATE | MAP_ANONYMOUS },
	{ "PRIVATE|NORESERVE", MAP_PRIVATE | MAP_NORESERVE },
	{ "PRIVATE|ANON|NORESERVE",
	  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE },
	{ "PRIVATE|STACK", MAP_PRIVATE | MAP_STACK },
	{ "PRIVATE|ANON|STACK", MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK },
	{ "PRIVATE|DENYWRITE|EXECUTABLE",
	  MAP_PRIVATE | MAP_DENYWRITE | MAP_EXECUTABLE },
	{ "PRIVATE|POPULATE", MAP_PRIVATE | MAP_POPULATE },
	{ "PRIVATE|POPULATE|NONBLOCK",
	  MAP_PRIVATE | MAP_POPULATE | MAP_NONBLOCK },
	{ "PRIVATE|ANON|POPULATE", MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE },
	{ "PRIVATE|LOCKED", MAP_PRIVATE | MAP_LOCKED },
	{ "PRIVATE|GROWSDOWN", MAP_PRIVATE | MAP_GROWSDOWN },
	{ "PRIVATE|32BIT", MAP_PRIVATE | MAP_32BIT },
	{ "PRIVATE|ANON|32BIT", MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT },
	{ "PRIVATE|HUGETLB", MAP_PRIVATE | MAP_HUGETLB },
	{ "VALIDATE|SYNC", MAP_SHARED_VALIDATE | MAP_SYNC },
	{ "VALIDATE|unknown", MAP_SHARED_VALIDATE | 0x40000000 },
	{ "SHARED|unknown", MAP_SHARED | 0x40000000 },
	{ "PRIVATE|unknown", MAP_PRIVATE | 0x40000000 },
	{ "PRIVATE|UNINITIALIZED", MAP_PRIVATE | 0x4000000 },
};

static const struct named prots[] = {
	{ "---", PROT_NONE },
	{ "r--", PROT_READ },
	{ "-w-", PROT_WRITE },
	{ "rw-", PROT_READ | PROT_WRITE },
	{ "--x", PROT_EXEC },
	{ "r-x", PROT_READ | PROT_EXEC },
	{ "rwx", PROT_READ | PROT_WRITE | PROT_EXEC },
	{ "r+sem", PROT_READ | 8 },
	{ "r+growsdown", PROT_READ | 0x01000000 },
	{ "r+high", PROT_READ | 0x40000000 },
};

static const size_t lens[] = {
	0,
	1,
	4095,
	4096,
	4097,
	FILE_SIZE,
	12288,
	65536,
	(size_t)1 << 48,
	SIZE_MAX - 4095,
	SIZE_MAX,
};

static const off_t offs[] = {
	0, 4096, 8192, 1, 4095, 12288, 1 << 20, 0x7ffffffffffff000, -4096,
};

static char letter(int err)
{
	switch (err) {
	case EINVAL:
		return 'i';
	case EACCES:
		return 'a';
	case EBADF:
		return 'b';
	case ENODEV:
		return 'd';
	case ENOMEM:
		return 'm';
	case EOVERFLOW:
		return 'o';
	case EPERM:
		return 'p';
	case EOPNOTSUPP:
		return 's';
	case EIO:
		return 'e';
	case EAGAIN:
		return 'g';
	default:
		return '?';
	}
}

/* Is the mapping what descriptor @fd holds? Only ours hold file 1. */
static int right(const unsigned char *p, const struct named *fd, int flags,
		 size_t len, off_t off)
{
	size_t have, page;

	if ((flags & MAP_ANONYMOUS) || !strcmp(fd->name, "/dev/zero"))
		return not_all(p, 0, len) < 0;
	if (strncmp(fd->name, "file", 4) || off >= FILE_SIZE)
		return 1;
	have = (size_t)(FILE_SIZE - off);
	page = (len + PAGE - 1) & ~(PAGE - 1);
	if (have > page)
		have = page; /* the file goes on to the page's end */
	if (p[0] != byte_of(1, (size_t)off) ||
	    p[have - 1] != byte_of(1, (size_t)off + have - 1))
		return 0;
	return not_all(p + have, 0, -have & (PAGE - 1)) < 0;
}

static char one(const struct named *fd, int flags, int prot, size_t len,
		off_t off)
{
	unsigned char *p;
	char c = '.';

	errno_mark();
	p = mmap(NULL, len, prot, flags, fd->val, off);
	if (p == MAP_FAILED)
		return letter(errno);
	if (!errno_kept())
		return '~';
	if ((prot & PROT_READ) && !right(p, fd, flags, len, off))
		c = '!';
	errno_mark();
	if (munmap(p, len))
		return 'u';
	return errno_kept() ? c : '~';
}

static void add_fd(const char *name, int fd)
{
	fds[nr_fds].name = name;
	fds[nr_fds++].val = fd;
}

static void make_fds(void)
{
	int pair[2], fd;

	add_fd("file r", temp_file(1, FILE_SIZE, O_RDONLY));
	add_fd("file rw", temp_file(1, FILE_SIZE, O_RDWR));
	add_fd("file w", temp_file(1, FILE_SIZE, O_WRONLY));
	add_fd("file path", temp_file(1, FILE_SIZE, O_PATH));
	add_fd("empty", temp_file(1, 0, O_RDONLY));
	add_fd("minus one", -1);
	add_fd("minus 100", -100);
	add_fd("huge number", 1 << 30);
	fd = temp_file(1, FILE_SIZE, O_RDONLY);
	close(fd);
	add_fd("closed", fd);
	add_fd("directory", open("/", O_RDONLY));
	if (pipe(pair))
		give_up("pipe");
	add_fd("pipe r", pair[0]);
	add_fd("pipe w", pair[1]);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		give_up("socketpair");
	add_fd("socket", pair[0]);
	add_fd("eventfd", eventfd(0, 0));
	add_fd("epoll", epoll_create1(0));
	add_fd("/proc/self/status", open("/proc/self/status", O_RDONLY));
	add_fd("/proc/self/mem", open("/proc/self/mem", O_RDONLY));
	add_fd("/proc/version", open("/proc/version", O_RDONLY));
	add_fd("/sys",
	       open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY));
	add_fd("/dev/zero", open("/dev/zero", O_RDONLY));
	add_fd("/dev/null", open("/dev/null", O_RDONLY));
	fd = memfd_create("args", 0);
	if (fd < 0 || ftruncate(fd, FILE_SIZE))
		give_up("memfd");
	add_fd("memfd", fd);
	fd = temp_file(2, 0, O_RDWR);
	if (ftruncate(fd, FILE_SIZE))
		give_up("ftruncate");
	add_fd("sparse rw", fd);
}

int main(void)
{
	char row[COUNT(lens) * (COUNT(offs) + 1) + 1];

	make_fds();
	for (unsigned int d = 0; d < nr_fds; d++)
		for (unsigned int f = 0; f < COUNT(all_flags); f++)
			for (unsigned int p = 0; p < COUNT(prots); p++) {
				char *c = row;

				for (unsigned int l = 0; l < COUNT(lens); l++) {
					for (unsigned int o = 0;
					     o < COUNT(offs); o++)
						*c++ = one(&fds[d],
							   all_flags[f].val,
							   prots[p].val,
							   lens[l], offs[o]);
					*c++ = ' ';
				}
				*--c = 0;
				say("%s %s %s: %s", fds[d].name,
				    all_flags[f].name, prots[p].name, row);
			}
	return 0;
}
