#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# clamd-rescan.sh [--build=DIR] [--runs=N] [--warm=N] [--threads=1,2,4,8]
#
# The second and later scans of a tree by clamd with its cache on, as it comes:
# it then maps and hashes every file and does little else. Two daemons, one with
# the preload, answer in turn: 5 runs each, after one (--warm) that fills the
# cache. Faults and times are the daemon's, from /proc/PID/stat; the wall time
# is the client's. Output must be the same, and all of "hit" must be found, else
# the exit status is 1. 77: clamd is not installed.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"

runs=5 warm=1 threads=1,2,4,8
for arg; do
	case $arg in
	--build=*) BUILD=$(cd "${arg#*=}" && pwd) || exit 1 ;;
	--runs=*) runs=${arg#*=} ;;
	--warm=*) warm=${arg#*=} ;;
	--threads=*) threads=${arg#*=} ;;
	*)
		sed -n '4,11s/^# \{0,1\}//p' "$0"
		exit 2
		;;
	esac
done
for c in clamd clamdscan; do
	command -v $c >/dev/null || {
		echo "SKIP: $c is not installed"
		exit 77
	}
done
setup
SCAN_ROOT=$CORPUS_ROOT "$top/scripts/corpus.sh" || exit 1
C=$CORPUS_ROOT/corpus
hz=$(getconf CLK_TCK)

# stat_of PID - minor faults, user and system seconds
stat_of()
{
	sed 's/.*) //' "/proc/$1/stat" |
		awk -v hz="$hz" '{ print $8, $12 / hz, $13 / hz }'
}

# scan MODE - one scan of sub; sets faults, user, sys, wall
scan()
{
	local a b t0 t1
	a=$(stat_of "${pid[$1]}")
	t0=$EPOCHREALTIME
	clamdscan -c "$tmp/$1/clamd.conf" "${multi[@]}" -i --no-summary \
		"$C/sub" >"$tmp/out.raw"
	t1=$EPOCHREALTIME
	b=$(stat_of "${pid[$1]}")
	sort "$tmp/out.raw" >"$tmp/out.$1"
	read -r faults user sys wall < <(echo "$a $b $t0 $t1" | awk \
		'{ print $4 - $1, $5 - $2, $6 - $3, $8 - $7 }')
}

declare -A pid job
failed=0
printf '%-8s %7s %19s %17s %17s %17s\n' threads runs "minor faults" \
	"user s" "system s" "wall s"
for th in ${threads//,/ }; do
	# MULTISCAN is refused by a daemon of one thread.
	multi=(-m)
	[ "$th" -gt 1 ] || multi=()
	for MODE in kernel preload; do
		clamd_conf "$tmp/$MODE" "$CORPUS_ROOT" no "$th"
		clamd_start "$tmp/$MODE" || exit 1
		pid[$MODE]=$clamd_pid job[$MODE]=$clamd_job
		progress "$th threads: $MODE, first scan"
		clamdscan -c "$tmp/$MODE/clamd.conf" "${multi[@]}" -i \
			--no-summary "$C/hit" | sort >"$tmp/hit.$MODE"
		if [ "$(grep -c ' FOUND$' "$tmp/hit.$MODE")" -ne \
			"$(find "$C/hit" -type f | wc -l)" ]; then
			echo "$MODE: not all of hit was found"
			failed=1
		fi
		for ((r = 0; r < warm; r++)); do
			scan $MODE
		done
	done
	unset v
	declare -A v=()
	for ((r = 1; r <= runs; r++)); do
		order=(kernel preload)
		[ $((r % 2)) -eq 1 ] || order=(preload kernel)
		for mode in "${order[@]}"; do
			progress "$th threads: $mode, run $r of $runs"
			scan "$mode"
			v[$mode.faults]+=" $faults"
			v[$mode.user]+=" $user"
			v[$mode.sys]+=" $sys"
			v[$mode.wall]+=" $wall"
		done
		if ! cmp -s "$tmp/out.kernel" "$tmp/out.preload"; then
			failed=1
			diff "$tmp/out.kernel" "$tmp/out.preload" | head -n 8
		fi
	done
	cmp "$tmp/hit.kernel" "$tmp/hit.preload" || failed=1
	progress
	printf '%-8s %7s' "$th" "$runs"
	for w in faults user sys wall; do
		f=%7.3f
		[ $w != faults ] || f=%8.0f
		# shellcheck disable=SC2059,SC2086
		printf " $f > $f" "$(median ${v[kernel.$w]})" \
			"$(median ${v[preload.$w]})"
	done
	echo
	for mode in kernel preload; do
		kill "${pid[$mode]}"
		wait "${job[$mode]}" || {
			echo "$mode: clamd ended with status $?"
			failed=1
		}
	done
	CLAMD_PIDS=()
	rm -rf "$tmp/kernel" "$tmp/preload"
done
exit $failed
