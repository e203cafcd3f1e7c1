#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# bench.sh BUILD [BENCH-SCAN-OPTION...] - the whole table of bench-scan, over
# files of every size, with 1 and 2 threads. The table, the JSON lines and the
# picture stay in BUILD/results.
set -u -o pipefail
export LC_ALL=C
top=$(cd "$(dirname "$0")/.." && pwd)
build=$(realpath -m "${1:-$top/build/release}")
[ -x "$build/bench/bench-scan" ] || {
	echo "$0: $build holds no build; 'make' makes one" >&2
	exit 1
}
[ $# -eq 0 ] || shift
out=$build/results
mkdir -p "$out"
"$build/bench/bench-scan" --all-sizes --json="$out/scan.json" "$@" |
	tee "$out/scan.txt" || exit 1
if command -v gnuplot >/dev/null; then
	"$top/bench/plot.sh" "$out/scan.json" "$out/scan" >/dev/null || exit 1
fi
echo "results: $out"
