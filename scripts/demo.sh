#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# demo.sh BUILD - shows what the preload does to real programs, then where that
# comes from:
#
#   1. makes a corpus of this system's own files;
#   2. scans it with yara (and ag and rg where they are installed) on the
#      kernel's mmap and on Faultline's, in turn, compares the outputs byte for
#      byte and shows the medians of five runs side by side;
#   3. measures every way of getting at a file's bytes with bench-scan.
#
# The results stay in BUILD/demo. Exit status 1 if an output differed.
set -u -o pipefail
export LC_ALL=C
unset LD_PRELOAD
top=$(cd "$(dirname "$0")/.." && pwd)
build=$(realpath -m "${1:-$top/build/release}")
out=$build/demo
count=$build/bench/bench-count
faultline=$build/shim/faultline
runs=5
export SCAN_ROOT=${SCAN_ROOT:-${TMPDIR:-/tmp}/faultline-corpus-demo}
export N_SMALL=${N_SMALL:-3000} N_MED=${N_MED:-60} N_BIG=${N_BIG:-2}
corpus=$SCAN_ROOT/corpus
mkdir -p "$out"

for f in "$count" "$faultline" "$build/bench/bench-scan"; do
	[ -x "$f" ] || {
		echo "demo.sh: $f is not there; build first" >&2
		exit 1
	}
done

echo "== The corpus: this system's own files, under $SCAN_ROOT"
"$top/scripts/corpus.sh" --stats || exit 1
echo 'rule elf { condition: uint32(0) == 0x464c457f }' >"$out/one.yar"

# once WAY N COMMAND... - a run; times to $out/WAY.times, output to $out/WAY.out
once()
{
	local way=$1 n=$2
	shift 2
	[ ! -t 2 ] || printf '\r\033[K%s: %s, run %s of %s' "$1" "$way" "$n" \
		"$runs" >&2
	[ "$way" = kernel ] || set -- "$faultline" run -- "$@"
	"$count" --times --out="$out/$way.times" "$@" >"$out/raw" 2>&1
	sort "$out/raw" >"$out/$way.out"
	[ ! -t 2 ] || printf '\r\033[K' >&2
}

# med WAY NAME - the median of NAME=value over the runs
med()
{
	tr ' ' '\n' <"$out/$1.times" | sed -n "s/^$2=//p" | sort -g |
		awk '{ v[NR] = $1 }
		END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}

bad=0
# compare TITLE COMMAND...
compare()
{
	local title=$1 n way order differ=0 w what=(wall user sys minor) k=() f=()
	shift
	"$@" >/dev/null 2>&1 # into the page cache
	rm -f "$out"/*.times
	for ((n = 1; n <= runs; n++)); do
		order=(kernel faultline)
		[ $((n % 2)) -eq 1 ] || order=(faultline kernel)
		for way in "${order[@]}"; do
			once "$way" "$n" "$@"
		done
		cmp -s "$out/kernel.out" "$out/faultline.out" || {
			differ=1
			break
		}
	done
	for w in "${what[@]}"; do
		k+=("$(med kernel "$w")")
		f+=("$(med faultline "$w")")
	done
	echo
	echo "$title"
	echo "  \$ ${*//$SCAN_ROOT/\$C}"
	printf '  %-12s %10s %10s %10s %14s\n' "" "wall s" "user s" \
		"system s" "minor faults"
	printf '  %-12s %10.3f %10.3f %10.3f %14.0f\n' "kernel mmap" "${k[@]}"
	printf '  %-12s %10.3f %10.3f %10.3f %14.0f\n' Faultline "${f[@]}"
	printf '  %-12s' change
	for n in 0 1 2 3; do
		w=9
		[ $n -lt 3 ] || w=13
		awk -v a="${k[$n]}" -v b="${f[$n]}" -v format=" %+$w.0f%%" \
			'BEGIN { printf format, 100 * (b - a) / (a > 0 ? a : 1) }'
	done
	echo
	if [ $differ -eq 0 ]; then
		echo "  output: identical in every run," \
			"$(wc -l <"$out/kernel.out") lines"
	else
		bad=1
		echo "  output: DIFFERENT"
		diff "$out/kernel.out" "$out/faultline.out" | head -n 10
	fi
}

echo
echo "== Real programs, unchanged, before and after (medians of $runs" \
	"alternated runs)"
if command -v yara >/dev/null; then
	compare "yara, one rule, 8 threads" \
		yara -r -p 8 "$out/one.yar" "$corpus/small"
	compare "yara, 302 rules, 8 threads" \
		yara -r -p 8 "$SCAN_ROOT/db/rules.yar" "$corpus/small"
else
	echo "yara is not installed"
fi
if command -v ag >/dev/null; then
	compare "ag, 8 workers" ag --workers 8 -u -c window "$corpus/small"
fi
if command -v rg >/dev/null; then
	compare "ripgrep --mmap, 8 threads" \
		rg -j 8 --mmap -uuu -a -c window "$corpus/small"
fi

echo
echo "== Every way of getting at a file's bytes (bench-scan)"
echo "x kernel: how many times faster than the kernel's mmap (for clam-fl: than"
echo "clam, ClamAV's way of using it); x CPU: the same for CPU time; x pread:"
echo "against reading into one reused buffer. Counts are for one file."
cpus=$(getconf _NPROCESSORS_ONLN)
"$build/bench/bench-scan" --threads=$((cpus > 2 ? 2 : cpus)) --runs=$runs \
	--ms=60 --size=4K,64K,256K,1M,8M --json="$out/scan.json" \
	"$corpus/small" | tee "$out/scan.txt" || bad=1

echo
echo "== Results"
echo "table:   $out/scan.txt"
echo "figures: $out/scan.json"
echo "corpus:  $SCAN_ROOT, kept for the next time"
if command -v gnuplot >/dev/null &&
	"$top/bench/plot.sh" "$out/scan.json" "$out/scan" >/dev/null; then
	echo "picture: $out/scan.svg, $out/scan.png"
fi
rm -f "$out/raw" "$out"/*.out "$out"/*.times
[ $bad -eq 0 ] || echo "A step failed or an output differed; see above."
exit $bad
