#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# pack.sh PACKER - what it makes zstd(1) decompresses; what it is not given
# properly it refuses, and leaves no file behind.
set -u
pack=$1
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
bad=0

fail()
{
	echo "FAILED: $*"
	bad=1
}
command -v zstd >/dev/null || {
	echo "SKIP: zstd is not installed"
	exit 77
}
head -c 1000000 "$(readlink -f /proc/self/exe)" >"$tmp/in"
: >"$tmp/empty"
for args in "" "-s 4096" "-s 64K -l 19" "-s 2M -l 1"; do
	for f in in empty; do
		rm -f "$tmp/out"
		# shellcheck disable=SC2086 # words
		"$pack" $args "$tmp/$f" "$tmp/out" || fail "$args $f: exit $?"
		zstd -q -t "$tmp/out" || fail "$args $f: zstd -t"
		zstd -q -dc <"$tmp/out" | cmp - "$tmp/$f" ||
			fail "$args $f: other bytes"
		# shellcheck disable=SC2086 # words
		"$pack" $args - - <"$tmp/$f" | cmp - "$tmp/out" ||
			fail "$args $f: the pipe differs"
	done
done
"$pack" "$tmp/in" "$tmp/out" 2>/dev/null && fail "it overwrites"
[ "$("$pack" --help | wc -l)" -gt 3 ] || fail "--help"
"$pack" --help | head -n 1 | grep -q '^usage:' || fail "--help"
rm -f "$tmp/out"
for args in "" "-s 100" "-s 1G" "-s 65M" "-s -4096" "-s x" "-s 64KK" "-l 0" \
	"-l 99" "-l 3x" "-x"; do
	# shellcheck disable=SC2086 # words
	"$pack" $args "$tmp/in" ${args:+"$tmp/out"} 2>"$tmp/err"
	[ $? -eq 2 ] || fail "'$args': no usage error"
	grep -q '^usage:' "$tmp/err" || fail "'$args': no usage"
	[ ! -e "$tmp/out" ] || fail "'$args': leaves a file"
done
"$pack" "$tmp/none" "$tmp/out" 2>/dev/null && fail "no input, no error"
"$pack" "$tmp" "$tmp/out" 2>/dev/null && fail "a directory, no error"
[ ! -e "$tmp/out" ] || fail "an error leaves a file"
"$pack" "$tmp/in" /dev/full 2>/dev/null && fail "/dev/full, no error"
"$pack" "$tmp/in" - >/dev/full 2>/dev/null && fail "a full pipe, no error"
exit $bad
