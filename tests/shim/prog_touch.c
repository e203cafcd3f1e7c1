/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prog_touch - system calls that are handed pages of a mapping nobody has
 * touched: buffers of every call that writes, names of files, words of futexes.
 * [fl:modes] signal service
 */
#include <dirent.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "support/demand.h"

#define SIZE ((size_t)6 << 20)
#define ID 7
#define AT ((size_t)123456)
#define LEN ((size_t)20000)

static int fd, out;
static char *volatile bad = (char *)8;
static unsigned char back[SIZE];

/* What went to the file @out is LEN bytes of the file from AT. */
static void check_out(const char *what, long ret, size_t from, size_t len)
{
	long n = pread(out, back, sizeof(back), 0);

	say("%s: %ld, %ld bytes, %s", what, ret, n,
	    n == (long)len && differs(back, ID, from, len) < 0 ? "right" :
								 "WRONG");
	if (ftruncate(out, 0) || lseek(out, 0, SEEK_SET))
		give_up("ftruncate");
}

#define WRITES(call)                                     \
	do {                                             \
		p = map_demand(fd, SIZE);                \
		check_out(#call, (long)(call), AT, LEN); \
		munmap(p, SIZE);                         \
	} while (0)

static struct iovec two[2];

static const struct iovec *vec(unsigned char *p)
{
	two[0] = (struct iovec){ p + AT, 5000 };
	two[1] = (struct iovec){ p + AT + 5000, LEN - 5000 };
	return two;
}

static void files(void)
{
	unsigned char *p;

	WRITES(write(out, p + AT, LEN));
	WRITES(pwrite(out, p + AT, LEN, 0));
	WRITES(pwrite64(out, p + AT, LEN, 0));
	WRITES(writev(out, vec(p), 2));
	WRITES(pwritev(out, vec(p), 2, 0));
	WRITES(pwritev64(out, vec(p), 2, 0));
	WRITES(pwritev2(out, vec(p), 2, 0, 0));
	WRITES(pwritev64v2(out, vec(p), 2, 0, 0));
	WRITES(syscall(SYS_write, out, p + AT, LEN));
	WRITES(syscall(SYS_pwrite64, out, p + AT, LEN, (off_t)0));
	WRITES(syscall(SYS_writev, out, vec(p), 2));
	p = map_demand(fd, SIZE);
	check_out("the whole file", write(out, p, SIZE), 0, SIZE);
	munmap(p, SIZE);
	/* Pages before, of the file, and after. */
	p = map_demand(fd, SIZE);
	check_out("all but an end", write(out, p + 100, SIZE - 100), 100,
		  SIZE - 100);
	munmap(p, SIZE);
}

#undef WRITES

static void *drain(void *arg)
{
	size_t n = 0;
	ssize_t got;

	while ((got = read(*(int *)arg, back + n, sizeof(back) - n)) > 0)
		n += (size_t)got;
	return (void *)n;
}

/* A pipe takes little at a time. */
static void pipes(void)
{
	unsigned char *p = map_demand(fd, SIZE);
	int end[2];
	pthread_t t;
	void *n;
	ssize_t got;

	if (pipe2(end, O_CLOEXEC) || pthread_create(&t, NULL, drain, &end[0]))
		give_up("pipe2");
	got = write(end[1], p + 1, SIZE - 1);
	close(end[1]);
	pthread_join(t, &n);
	say("pipe: %zd, %zu, %s", got, (size_t)(uintptr_t)n,
	    differs(back, ID, 1, SIZE - 1) < 0 ? "right" : "WRONG");
	close(end[0]);
	munmap(p, SIZE);
	/* One that does not block takes what fits. */
	p = map_demand(fd, SIZE);
	if (pipe2(end, O_CLOEXEC | O_NONBLOCK))
		give_up("pipe2");
	got = write(end[1], p, SIZE);
	say("pipe that does not block: %zd", got);
	say("again: %s", res_i(write(end[1], p, SIZE)));
	close(end[0]);
	close(end[1]);
	munmap(p, SIZE);
}

static int sock[2];

static void check_msg(const char *what, long ret)
{
	ssize_t n = recv(sock[1], back, sizeof(back), MSG_DONTWAIT);

	say("%s: %ld, %zd, %s", what, ret, n,
	    n == (ssize_t)LEN && differs(back, ID, AT, LEN) < 0 ? "right" :
								  "WRONG");
}

#define SENDS(call)                                      \
	do {                                             \
		unsigned char *p = map_demand(fd, SIZE); \
		long r = (long)(call);                   \
                                                         \
		check_msg(#call, r);                     \
		munmap(p, SIZE);                         \
	} while (0)

static struct mmsghdr message;

static struct mmsghdr *msg(unsigned char *p)
{
	memset(&message, 0, sizeof(message));
	message.msg_hdr.msg_iov = (struct iovec *)(uintptr_t)vec(p);
	message.msg_hdr.msg_iovlen = 2;
	return &message;
}

static void datagrams(void)
{
	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, sock))
		give_up("socketpair");
	SENDS(send(sock[0], p + AT, LEN, 0));
	SENDS(sendto(sock[0], p + AT, LEN, 0, NULL, 0));
	SENDS(sendmsg(sock[0], &msg(p)->msg_hdr, 0));
	SENDS(sendmmsg(sock[0], msg(p), 1, 0));
	SENDS(write(sock[0], p + AT, LEN));
	SENDS(writev(sock[0], vec(p), 2));
	SENDS(syscall(SYS_sendto, sock[0], p + AT, LEN, 0, NULL, 0));
	close(sock[0]);
	close(sock[1]);
}

static void streams(void)
{
	FILE *f = fdopen(dup(out), "w");
	unsigned char *p = map_demand(fd, SIZE);
	size_t n;

	if (!f)
		give_up("fdopen");
	n = fwrite(p + 5, 1, 3000000, f);
	fflush(f);
	check_out("fwrite", (long)n, 5, 3000000);
	munmap(p, SIZE);
	p = map_demand(fd, SIZE);
	n = fwrite_unlocked(p, 1000, 100, f);
	fflush(f);
	check_out("fwrite_unlocked", (long)n, 0, 100000);
	munmap(p, SIZE);
	p = map_demand(fd, SIZE);
	n = fwrite(p, SIZE, 1, f);
	fflush(f);
	check_out("fwrite of one large thing", (long)n, 0, SIZE);
	munmap(p, SIZE);
	say("fclose: %d", fclose(f));
}

/* Reading into what is read-only is refused, and nothing is lost by it. */
static void refused(void)
{
	unsigned char *p = map_demand(fd, SIZE);
	char c[8] = "1234567";
	int end[2];

	if (pipe2(end, O_CLOEXEC) || write(end[1], c, 8) != 8)
		give_up("pipe2");
	SAY_I(read(end[0], p + AT, 8));
	SAY_I(pread(fd, p + AT, 8, 0));
	SAY_I(syscall(SYS_read, end[0], p + AT, 8));
	memset(c, 0, sizeof(c));
	say("still there: %zd %s", read(end[0], c, 8), c);
	SAY_I(write(end[1], bad, 8));
	SAY_I(write(-1, p, 8));
	say("unchanged: %s", differs(p, ID, 0, SIZE) < 0 ? "yes" : "NO");
	close(end[0]);
	close(end[1]);
	munmap(p, SIZE);
}

/* ---------------------------------------------------------------------------
 * Names
 */

#define NAMES ((size_t)1 << 20)
#define NAME_AT ((size_t)40 * PAGE - 5) /* over a page's end */

#define NAMED(call)                                                          \
	do {                                                                 \
		const char *nm = (char *)map_demand(names, NAMES) + NAME_AT; \
                                                                             \
		say("%s: %s", #call, res_i((long)(call)));                   \
		munmap((void *)(uintptr_t)(nm - NAME_AT), NAMES);            \
	} while (0)

static void file_names(void)
{
	int names = temp_file(8, NAMES, O_RDWR);
	struct stat st;
	char dir[] = "/tmp/fl-names-XXXXXX", name[64];
	int ro;

	if (!mkdtemp(dir))
		give_up("mkdtemp");
	snprintf(name, sizeof(name), "%s/file", dir);
	if (pwrite(names, name, strlen(name) + 1, NAME_AT) < 0)
		give_up("pwrite");
	ro = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	close(ro);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", names);
	ro = open(name, O_RDONLY | O_CLOEXEC);
	if (ro < 0)
		give_up("open");
	close(names);
	names = ro;
	NAMED(access(nm, F_OK));
	NAMED(close(open(nm, O_CREAT | O_WRONLY | O_EXCL, 0600)));
	NAMED(close(openat(AT_FDCWD, nm, O_RDONLY)));
	NAMED(close((int)syscall(SYS_openat, AT_FDCWD, nm, O_RDONLY)));
	NAMED(stat(nm, &st));
	say("mode %o", (unsigned int)(st.st_mode & 07777));
	NAMED(lstat(nm, &st));
	NAMED(fstatat(AT_FDCWD, nm, &st, 0));
	NAMED(faccessat(AT_FDCWD, nm, R_OK, 0));
	NAMED(readlink(nm, name, sizeof(name)));
	NAMED(unlink(nm));
	NAMED(mkdir(nm, 0700));
	NAMED(chdir(nm));
	if (chdir("/"))
		give_up("chdir");
	NAMED(rmdir(nm));
	NAMED(open(nm, O_RDONLY));
	SAY_I(open(bad, O_RDONLY));
	SAY_I(stat(bad, &st));
	close(names);
	rmdir(dir);
}

/* ---------------------------------------------------------------------------
 * The rest
 */

static void futexes(void)
{
	unsigned char *p = map_demand(fd, SIZE);
	uint32_t word;

	memcpy(&word,
	       (unsigned char[]){ byte_of(ID, AT), byte_of(ID, AT + 1),
				  byte_of(ID, AT + 2), byte_of(ID, AT + 3) },
	       4);
	SAY_I(syscall(SYS_futex, p + AT, FUTEX_WAIT_PRIVATE, word + 1, NULL));
	munmap(p, SIZE);
}

static void *blocked(void *arg)
{
	char c;

	return (void *)(read(*(int *)arg, &c, 1) + 1);
}

/* Wrapped, they are cancellation points still. */
static void cancelled(void)
{
	int end[2];
	pthread_t t;
	void *ret;

	if (pipe2(end, O_CLOEXEC) || pthread_create(&t, NULL, blocked, &end[0]))
		give_up("pthread_create");
	usleep(20000);
	pthread_cancel(t);
	pthread_join(t, &ret);
	say("cancelled: %s", ret == PTHREAD_CANCELED ? "yes" : "no");
	close(end[0]);
	close(end[1]);
}

int main(void)
{
	fd = temp_file(ID, SIZE, O_RDONLY);
	out = temp_file(0, 0, O_RDWR);
	files();
	pipes();
	datagrams();
	streams();
	refused();
	file_names();
	futexes();
	cancelled();
	return 0;
}
