#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# run.sh PROGRAM [ARGS...] - run it without and with the preload and compare
# standard output and exit status.
#
# FL_TEST_PRELOAD        libfaultline-preload.so
# FL_TEST_PRELOAD_FIRST  a library to put before it (a sanitizer's), or empty
set -u
: "${FL_TEST_PRELOAD:?}"
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

"$@" >"$tmp/out.kernel" 2>"$tmp/err.kernel"
rc_kernel=$?
LD_PRELOAD="${FL_TEST_PRELOAD_FIRST:+$FL_TEST_PRELOAD_FIRST:}$FL_TEST_PRELOAD" \
	"$@" >"$tmp/out.preload" 2>"$tmp/err.preload"
rc_preload=$?

if [ "$rc_kernel" -eq 77 ]; then
	echo "SKIP: $(cat "$tmp/out.kernel" "$tmp/err.kernel")"
	exit 77
fi
ok=0
if [ "$rc_kernel" -ne 0 ]; then
	echo "without the preload: exit status $rc_kernel, expected 0"
	cat "$tmp/err.kernel"
	ok=1
fi
if [ "$rc_kernel" -ne "$rc_preload" ]; then
	echo "exit status: $rc_kernel without, $rc_preload with the preload"
	ok=1
fi
if ! diff -u "$tmp/out.kernel" "$tmp/out.preload"; then
	echo "output differs (- without, + with the preload)"
	ok=1
fi
if [ ! -s "$tmp/out.kernel" ]; then
	echo "the program printed nothing, so nothing was compared"
	ok=1
fi
[ "$ok" -eq 0 ] || cat "$tmp/err.preload"
exit "$ok"
