#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# check.sh FOLDER [EXAMPLE] - runs the examples that lie in FOLDER, or one of
# them, on files made for it; each says itself whether it found what it should.
# Exit status 77: there are no demand regions here.
#
# With FL_ZSTD_PACK, or faultline-zstd-pack(1) in the path, own-store also reads
# a compressed file. It must then have been built with WITH_ZSTD.
set -u
bin=$(cd "${1:?folder}" && pwd) || exit 2
one=${2:-}
pack=${FL_ZSTD_PACK-$(command -v faultline-zstd-pack)}
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
status=0

# run WHAT ARGS... - an example; the worst exit status is the script's.
run()
{
	[ -z "$one" ] || [ "$one" = "$1" ] || return
	echo "$*" | sed "s|$tmp/||g"
	name=$1
	shift
	"$bin/$name" "$@"
	rc=$?
	[ $rc -eq 0 ] && return
	echo "exit status $rc"
	if [ $rc -ne 77 ] || [ $status -eq 0 ]; then
		status=$rc
	fi
}

# Many small files, some empty ones, some larger than the pager's memory, with
# ends within a page.
tree()
{
	mkdir -p "$tmp/tree/deep/er"
	for i in 1 2 3 4 5 6 7 8 9; do
		seq $((i * 1000)) >"$tmp/tree/small$i"
		seq $((i * i * 20)) >"$tmp/tree/deep/er/tiny$i"
		: >"$tmp/tree/deep/empty$i"
	done
	seq 2000000 >"$tmp/tree/deep/large"
	seq -f '%0.f lines' 1500000 >"$tmp/tree/larger"
	seq 50000 >"$tmp/tree/just"
}

if [ -z "$one" ] || [ "$one" = scan-tree ]; then
	tree
	run scan-tree -c -t 1 "$tmp/tree"
	for fault in signal service; do
		run scan-tree -c -t 8 \
			-o "mem=8M,resident_max=256K,fault=$fault" "$tmp/tree"
	done
fi
run out-of-core-array "$tmp/numbers" 64
run out-of-core-array "$tmp/numbers" 16 mem=1M,fault=service
run out-of-core-array "$tmp/numbers" 16 mem=2M,direct=no,granule=64K
if [ -n "$pack" ]; then
	seq 1000000 >"$tmp/plain"
	"$pack" -s 64K "$tmp/plain" "$tmp/packed" || exit 2
	run own-store mem=4M "$tmp/packed" "$tmp/plain"
	run own-store mem=1M,fault=service "$tmp/packed" "$tmp/plain"
else
	run own-store
	run own-store mem=1M,fault=service
fi
exit $status
