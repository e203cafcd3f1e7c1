# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash disable=SC2034
#
# lib.sh - what the scripts of this folder share: where things are, running a
# command with and without the preload, medians.
set -u -o pipefail
export LC_ALL=C
unset LD_PRELOAD
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
BUILD=${FL_BUILD:-$top/build/release}
CORPUS_ROOT=${SCAN_ROOT:-${TMPDIR:-/tmp}/faultline-corpus}
MODE=kernel # or preload
M=/dev/null # where times and counts of t() go

die()
{
	echo "$0: $*" >&2
	exit 1
}

# setup - after the options are known: finds what was built, makes $tmp.
setup()
{
	BUILD=$(cd "$BUILD" 2>/dev/null && pwd) || die "build first"
	PRELOAD=${FL_TEST_PRELOAD:-$BUILD/shim/libfaultline-preload.so}
	COUNT=$BUILD/bench/bench-count
	[ -e "$PRELOAD" ] || die "$PRELOAD is not there; build first"
	[ -x "$COUNT" ] || die "$COUNT is not there; build first"
	# as `faultline run` from a build tree
	export FAULTLINE_PROFILE_DIR=$BUILD/shim/profiles.d
	# a sanitizer's library has to come first
	BUILD=$(cd "$BUILD" 2>/dev/null && pwd) || die "build first"
	PRELOAD=${FL_TEST_PRELOAD_FIRST:+$FL_TEST_PRELOAD_FIRST:}$PRELOAD
	tmp=$(mktemp -d) || exit 1
	chmod 755 "$tmp"
	trap 'cleanup' EXIT
	trap 'exit 130' INT TERM
}

CLAMD_PIDS=()
cleanup()
{
	clamd_stop_all
	rm -rf "$tmp"
}

# t COMMAND... - the measured program, in the way that $MODE says.
t()
{
	local pre=()
	[ "$MODE" = kernel ] || pre=(--preload="$PRELOAD")
	"$COUNT" --times --out="$M" "${pre[@]}" "$@"
}

# counted COMMAND... - the same with counts.
counted()
{
	local pre=()
	[ "$MODE" = kernel ] || pre=(--preload="$PRELOAD")
	"$COUNT" --out="$M" "${pre[@]}" "$@"
}

# sum NAME FILE - the sum of NAME=value over the lines of FILE
sum()
{
	awk -v n="$1" '{
		for (i = 1; i <= NF; i++)
			if (index($i, n "=") == 1) {
				v = substr($i, length(n) + 2)
				if (v == "n/a")
					bad = 1
				s += v
			}
	}
	END { print bad ? "n/a" : s + 0 }' "$2"
}

# median NUMBER...
median()
{
	printf '%s\n' "$@" | sort -g | awk '{ v[NR] = $1 }
		END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}

progress()
{
	[ ! -t 2 ] || printf '\r\033[K%s' "$*" >&2
}

# clamd_conf DIR CORPUS CACHE THREADS - a daemon's own directory
clamd_conf()
{
	mkdir -p "$1/tmp"
	cat >"$1/clamd.conf" <<-CONF
	LocalSocket $1/sock
	LocalSocketMode 666
	PidFile $1/pid
	LogFile $1/log
	DatabaseDirectory $2/db/clam
	TemporaryDirectory $1/tmp
	MaxThreads $4
	MaxQueue 200
	IdleTimeout 5
	SelfCheck 86400
	MaxScanSize 400M
	MaxFileSize 200M
	StreamMaxLength 200M
	DisableCache $3
	ConcurrentDatabaseReload no
	CONF
	if [ "$(id -u)" -eq 0 ] && id clamav >/dev/null 2>&1; then
		echo "User clamav" >>"$1/clamd.conf"
		chown -R clamav "$1"
	fi
}

# clamd_start DIR - a daemon in $MODE; its process id goes to $clamd_pid.
clamd_start()
{
	local i
	t clamd -F -c "$1/clamd.conf" >"$1/out" 2>&1 &
	clamd_job=$!
	for ((i = 0; i < 600; i++)); do
		if [ -S "$1/sock" ] && [ -s "$1/pid" ]; then
			clamd_pid=$(cat "$1/pid")
			CLAMD_PIDS+=("$clamd_pid")
			return 0
		fi
		kill -0 "$clamd_job" 2>/dev/null || break
		sleep 0.1
	done
	cat "$1/out" >&2
	echo "clamd did not start" >&2
	return 1
}

# clamd_stop - the one started last
clamd_stop()
{
	kill "$clamd_pid" 2>/dev/null
	wait "$clamd_job"
	unset 'CLAMD_PIDS[-1]'
}

clamd_stop_all()
{
	local p
	for p in "${CLAMD_PIDS[@]}"; do
		kill "$p" 2>/dev/null
	done
	CLAMD_PIDS=()
	wait
}
