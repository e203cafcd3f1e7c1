/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_content - file bytes through mappings of all sizes, offsets and
 * protections: what is in the file, zero after it, writes kept private,
 * writes to read-only pages refused at the right address.
 *
 * [fl:demand] service signal
 */
#include "support/see.h"

static const size_t sizes[] = {
	1,      511,    4095,   4096,   4097,    8191,    8192,
	8193,   12288,  65535,  65536,  65537,   131071,  131072,
	131073, 262143, 262144, 262145, 1048575, 1048576, 1048577,
};

static size_t up(size_t n)
{
	return (n + PAGE - 1) & ~(PAGE - 1);
}

/* Whole mapping of @len bytes from @off of a file of @size: bytes and tail. */
static void check_bytes(const char *what, const unsigned char *p, size_t size,
			size_t off, size_t len)
{
	size_t page = up(len), have = size - off < page ? size - off : page;

	say("%s size %zu off %zu len %zu: bytes %ld tail %ld sum %016llx", what,
	    size, off, len, differs(p, (unsigned int)size, off, have),
	    not_all(p + have, 0, page - have),
	    (unsigned long long)sum_of(p, page));
}

static void read_only(int fd, size_t size, size_t off, size_t len, int flags)
{
	unsigned char *p;

	errno_mark();
	p = mmap(NULL, len, PROT_READ, flags, fd, (off_t)off);
	if (p == MAP_FAILED || !errno_kept()) {
		say("ro size %zu off %zu len %zu: %s", size, off, len,
		    res_p(p));
		return;
	}
	check_bytes("ro", p, size, off, len);
	say("  write first: %s", try_write(p, 1));
	say("  write last: %s", try_write(p + len - 1, 1));
	say("  write page end: %s", try_write(p + up(len) - 1, 1));
	check_bytes("  again", p, size, off, len);
	errno_mark();
	say("  munmap %d errno kept %d", munmap(p, len), errno_kept());
}

static void private_writes(int fd, size_t size, size_t off, size_t len)
{
	size_t page = up(len);
	unsigned char back[64];
	unsigned char *p;

	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd,
		 (off_t)off);
	if (p == MAP_FAILED) {
		say("rw size %zu off %zu len %zu: %s", size, off, len,
		    res_p(p));
		return;
	}
	check_bytes("rw", p, size, off, len);
	memset(p, 0xa5, page);
	say("  written %ld", not_all(p, 0xa5, page));
	if (pread(fd, back, sizeof(back), (off_t)off) > 0)
		say("  file first byte kept %d",
		    back[0] == byte_of((unsigned int)size, off));
	SAY_I(madvise(p, len, MADV_DONTNEED));
	check_bytes("  dropped", p, size, off, len);
	memset(p, 0x5a, page);
	SAY_I(munmap(p, len));
}

/* A write-only private mapping can be read on most machines; write it. */
static void write_only(int fd, size_t size)
{
	unsigned char *p = mmap(NULL, size, PROT_WRITE, MAP_PRIVATE, fd, 0);

	SAY_P(p);
	if (p == MAP_FAILED)
		return;
	say("  write: %s", try_write(p + size - 1, 7));
	SAY_I(munmap(p, size));
}

/* Dirty recycled memory must not shine through the tail of a later file. */
static void no_leaks(void)
{
	long dirty = 0;

	for (int round = 0; round < 300; round++) {
		size_t size = sizes[(size_t)round % 13];
		int fd = temp_file((unsigned int)size, size, O_RDONLY);
		unsigned char *a, *b;

		a = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd,
			 0);
		b = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (a == MAP_FAILED || b == MAP_FAILED)
			give_up("mmap");
		dirty += differs(a, (unsigned int)size, 0, size) >= 0;
		dirty += differs(b, (unsigned int)size, 0, size) >= 0;
		dirty += not_all(a + size, 0, up(size) - size) >= 0;
		dirty += not_all(b + size, 0, up(size) - size) >= 0;
		memset(a, 0xee, up(size));
		munmap(a, size);
		a = mmap(NULL, size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		dirty += not_all(a, 0, up(size)) >= 0;
		memset(a, 0xdd, up(size));
		dirty += differs(b, (unsigned int)size, 0, size) >= 0;
		munmap(b, size);
		munmap(a, size);
		close(fd);
	}
	say("recycled file and anonymous memory: %ld dirty", dirty);
}

/* The same file through a descriptor closed at once, and through many. */
static void closed_fd(void)
{
	unsigned char *p[16];
	long bad = 0;

	for (unsigned int i = 0; i < 16; i++) {
		int fd = temp_file(i, 5000 + i, O_RDONLY);

		p[i] = mmap(NULL, 5000 + i, PROT_READ, MAP_PRIVATE, fd, 0);
		close(fd);
	}
	for (unsigned int i = 0; i < 16; i++) {
		bad += p[i] == MAP_FAILED || differs(p[i], i, 0, 5000 + i) >= 0;
		bad += munmap(p[i], 5000 + i) != 0;
	}
	say("closed descriptors: %ld bad", bad);
}

/* The file position is nobody's business but the program's. */
static void position(void)
{
	int fd = temp_file(3, 20000, O_RDONLY);
	void *p;

	lseek(fd, 12345, SEEK_SET);
	p = mmap(NULL, 20000, PROT_READ, MAP_PRIVATE, fd, 0);
	say("position %ld differs %ld", (long)lseek(fd, 0, SEEK_CUR),
	    differs(p, 3, 0, 20000));
	munmap(p, 20000);
	close(fd);
}

int main(void)
{
	static const size_t parts[][2] = {
		{ 0, 1 },    { 0, 100 },     { 0, 4096 },    { 0, 4097 },
		{ 4096, 1 }, { 4096, 4096 }, { 8192, 5000 }, { 61440, 4095 },
	};

	see_faults();
	for (size_t i = 0; i < COUNT(sizes); i++) {
		size_t size = sizes[i];
		int fd = temp_file((unsigned int)size, size, O_RDONLY);

		read_only(fd, size, 0, size, MAP_PRIVATE);
		read_only(fd, size, 0, size, MAP_SHARED);
		private_writes(fd, size, 0, size);
		for (size_t j = 0; j < COUNT(parts); j++) {
			size_t off = parts[j][0], len = parts[j][1];

			if (off >= size || off + len > up(size))
				continue;
			read_only(fd, size, off, len, MAP_PRIVATE);
			private_writes(fd, size, off, len);
		}
		write_only(fd, size);
		close(fd);
	}
	no_leaks();
	closed_fd();
	position();
	return 0;
}
