// SPDX-License-Identifier: LGPL-2.1-or-later
/* The engine that is always there. */
#include <limits.h>
#include <sys/uio.h>

#include "io/engine.h"
#include "base/ban.h"

/*
 * EINVAL after a part: an O_DIRECT descriptor whose file ends in mid-block, or
 * gave less than asked for. What there is counts.
 */
void pread_finish(struct io_req *req)
{
	unsigned int retries = 0;

	while (req->got < req->len) {
		size_t len = io_rest(req);
		uint64_t off = req->off + req->got;
		long r = sys_pread(req->fd, (char *)req->buf + req->got, len,
				   (int64_t)off);

		r = io_outcome(r, len, off);
		if (r > 0) {
			req->got += (size_t)r;
			retries = 0;
			continue;
		}
		if (r == 0 || (r == -EINVAL && req->got))
			break;
		if ((r != -EINTR && r != -EAGAIN) || retries++ == IO_RETRIES) {
			req->res = r;
			return;
		}
		if (r == -EAGAIN)
			sys_sched_yield();
	}
	req->res = (long)req->got;
}

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 0x8
#endif

/*
 * What the page cache has is read, and reading of the rest has begun: the
 * kernel starts the I/O for a page it may not wait for. False where the file
 * system does not know of that.
 */
static bool nowait(struct io_req *req)
{
	size_t len = io_rest(req);
	uint64_t off = req->off;
	struct iovec v = { req->buf, len };
	long r = sys_call6(__NR_preadv2, req->fd, (long)&v, 1, (long)off,
			   (long)(sizeof(long) == 4 ? off >> 32 : 0),
			   RWF_NOWAIT);

	if (r < 0)
		return r == -EAGAIN;
	r = io_outcome(r, len, off);
	if (r < 0) {
		if (r != -EINTR)
			req->res = r;
		return true;
	}
	req->got = (size_t)r;
	if (r == 0 || req->got == req->len)
		req->res = r;
	return true;
}

void pread_many(struct io_req *req, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (req[i].res == IO_PENDING && !req[i].got && !nowait(&req[i]))
			break;
	for (unsigned int i = 0; i < n; i++)
		if (req[i].res == IO_PENDING)
			pread_finish(&req[i]);
}
