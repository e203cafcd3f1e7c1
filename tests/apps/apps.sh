#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# apps.sh [--build=DIR] [--quick] [--runs=N] [--list] [NAME...] - real programs
# with and without the preload: standard output, standard error and exit status
# must be the same in every run. Beside that it prints wall and CPU time and
# minor faults, as medians of N alternated runs (3; 1 with --quick).
#
# --quick takes a smaller corpus and leaves the slowest programs out. A program
# that is not installed is named as skipped. Exit status: 0, 1 when an output
# differed or was wrong, 77 when no program could be run.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
. "$here/rows.sh"

quick=0 runs=0 names=()
for arg; do
	case $arg in
	--build=*) BUILD=$(cd "${arg#*=}" && pwd) || exit 1 ;;
	--quick) quick=1 ;;
	--runs=*) runs=${arg#*=} ;;
	--list)
		printf '%s\n' "${ROWS[@]}"
		exit 0
		;;
	-*)
		sed -n '4,12s/^# \{0,1\}//p' "$0"
		exit 2
		;;
	*) names+=("$arg") ;;
	esac
done
if [ "${#names[@]}" -eq 0 ]; then
	names=("${ROWS[@]}")
	[ $quick -eq 0 ] || names=("${QUICK[@]}")
fi
[ "$runs" -gt 0 ] || runs=$((quick ? 1 : 3))
for name in "${names[@]}"; do
	declare -F "row_$name" >/dev/null || die "$name: no such row (--list)"
done
setup

if [ $quick -eq 1 ]; then
	CORPUS_ROOT=$CORPUS_ROOT-quick
	export N_SMALL=800 N_MED=30 N_BIG=2
fi
progress "corpus"
SCAN_ROOT=$CORPUS_ROOT "$top/scripts/corpus.sh" || exit 1
progress
C=$CORPUS_ROOT/corpus
# shellcheck disable=SC2034 # rows.sh
D=$CORPUS_ROOT/db

# missing COMMAND... - the first that is not installed
missing()
{
	local c
	for c; do
		command -v "$c" >/dev/null || {
			echo "$c"
			return
		}
	done
}

# once NAME MODE N - one run; its output and times are left under $tmp
once()
{
	local o=$tmp/$1.$2.$3
	MODE=$2 M=$o.m
	progress "$1: $2, run $3 of $runs"
	: >"$M"
	cd "$W" || exit 1 # some programs leave files where they are started
	"row_$1" >"$o.out" 2>"$o.err.raw"
	echo $? >"$o.status"
	cd "$here" || exit 1
	sort "$o.err.raw" >"$o.err"
	rm "$o.err.raw"
	progress
}

# differs NAME MODE N - what is not as in the first run without the preload
differs()
{
	local ref=$tmp/$1.kernel.1 o=$tmp/$1.$2.$3 part
	if [ "$(cat "$o.status")" -eq 99 ]; then
		echo "wrong result"
		return
	fi
	if [ "$(cat "$ref.status")" -ne 0 ] || [ ! -s "$ref.out" ]; then
		echo "fails or says nothing, without the preload too"
		cat "$ref.err" "$ref.out" | head -n 8 | cut -c 1-200 >"$tmp/why"
		return
	fi
	for part in status out err; do
		cmp -s "$ref.$part" "$o.$part" && continue
		case $2 in
		kernel) echo "unstable without the preload: $part" ;;
		*) echo "$part differs" ;;
		esac
		diff "$ref.$part" "$o.$part" | head -n 8 | cut -c 1-200 >"$tmp/why"
		return
	done
}

# col NAME MODE WHAT... - the median over the runs of a sum of figures
col()
{
	local v=() n what s
	for ((n = 1; n <= runs; n++)); do
		s=0
		for what in "${@:3}"; do
			s=$(awk -v a="$s" -v b="$(sum "$what" \
				"$tmp/$1.$2.$n.m")" 'BEGIN { print a + b }')
		done
		v+=("$s")
	done
	median "${v[@]}"
}

failed=0 passed=0 skipped=0
printf '%-12s %-10s %17s %17s %17s %19s\n' program output \
	"wall s" "CPU s" "system s" "minor faults"
for name in "${names[@]}"; do
	need=need_$name
	# shellcheck disable=SC2086
	gone=$(missing ${!need})
	if [ -n "$gone" ]; then
		echo "$name: skipped, $gone is not installed"
		skipped=$((skipped + 1))
		continue
	fi
	W=$tmp/$name.d
	mkdir "$W"
	MODE=kernel M=/dev/null
	if declare -F "prep_$name" >/dev/null &&
		! "prep_$name" >"$tmp/prep" 2>&1; then
		cat "$tmp/prep"
		echo "$name: could not be prepared"
		failed=$((failed + 1))
		continue
	fi
	verdict=
	rm -f "$tmp/why"
	for ((n = 1; n <= runs; n++)); do
		order=(kernel preload)
		[ $((n % 2)) -eq 1 ] || order=(preload kernel)
		for mode in "${order[@]}"; do
			once "$name" "$mode" "$n"
			[ -n "$verdict" ] || verdict=$(differs "$name" "$mode" "$n")
		done
	done
	if [ -z "$verdict" ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
	fi
	printf '%-12s %-10s' "$name" "${verdict:+DIFFERENT}${verdict:-same}" |
		sed 's/DIFFERENT.*/DIFFERENT /'
	for what in wall "user sys" sys; do
		# shellcheck disable=SC2086
		printf ' %7.3f > %7.3f' "$(col "$name" kernel $what)" \
			"$(col "$name" preload $what)"
	done
	printf ' %8.0f > %8.0f\n' "$(col "$name" kernel minor)" \
		"$(col "$name" preload minor)"
	[ -z "$verdict" ] || echo "  $verdict"
	[ ! -s "$tmp/why" ] || sed 's/^/  /' "$tmp/why"
	rm -rf "$W" "${tmp:?}/$name".*
done
echo "$passed same, $failed different, $skipped skipped"
[ $failed -eq 0 ] || exit 1
[ $passed -gt 0 ] || exit 77
