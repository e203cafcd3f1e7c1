#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Builds every configuration and runs its tests:
#
#   dev          gcc, FL_DEBUG=2       lint, unit, integ, shim, stress, cross,
#                                      model, bench
#   dev-clang    clang, FL_DEBUG=2     unit, integ, shim
#   release      gcc -O2, FL_DEBUG=0   unit, integ, shim, apps
#   asan         gcc, ASan + UBSan     unit, shim
#   tsan         gcc, TSan             stress
#
# The last line is "N passed, N failed, N skipped"; the exit status is 0 when
# nothing failed, each configuration built, and each ran a test.
set -u
cd "$(dirname "$0")/.." || exit 1
passed=0 failed=0 skipped=0
logs=build/logs
mkdir -p "$logs"

# tally NAME LOG - adds one ctest log's results to the sums.
tally()
{
	local out n_fail n_all n_skip

	out=$(sed -n 's/^[0-9]*% tests passed, \([0-9]*\) tests failed out of \([0-9]*\)$/\1 \2/p' "$2")
	read -r n_fail n_all <<<"$out"
	if [ -z "${n_all:-}" ]; then
		echo "$1: no tests were run"
		failed=$((failed + 1))
		return
	fi
	n_skip=$(grep -c '\*\*\*Skipped' "$2")
	failed=$((failed + n_fail))
	skipped=$((skipped + n_skip))
	passed=$((passed + n_all - n_fail - n_skip))
}

# config PRESET [CTEST ARGS...]
config()
{
	local preset=$1 start=$SECONDS

	shift
	echo "== $preset"
	if ! { cmake --preset "$preset" && cmake --build "build/$preset"; } \
		>"$logs/$preset.build" 2>&1; then
		tail -n 40 "$logs/$preset.build"
		echo "$preset: does not build"
		failed=$((failed + 1))
		return
	fi
	ctest --preset "$preset" "$@" 2>&1 | tee "$logs/$preset.test" |
		grep --line-buffered -v '^ *Start '
	tally "$preset" "$logs/$preset.test"
	echo "== $preset: $((SECONDS - start)) s"
}

config dev -LE '^apps$'
config dev-clang -L '^(unit|integ|shim)$'
config release -L '^(unit|integ|shim|apps)$'
config asan -L '^(unit|shim)$'
config tsan -L '^stress$'

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
