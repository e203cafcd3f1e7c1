// SPDX-License-Identifier: LGPL-2.1-or-later
/* The engine that is always there. */
#include <limits.h>

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
