#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# run.sh SOURCE_DIR WORK_DIR [large] - search the models exhaustively with spin.
#
# Each model is searched in a few sizes, which must hold, and with each fault
# put in, which must be found: a model that cannot fail shows nothing. "large"
# adds sizes that take minutes and gigabytes.
set -u

src=${1:?usage: $0 SOURCE_DIR WORK_DIR}/tests/model
work=${2:?usage: $0 SOURCE_DIR WORK_DIR}
cc=${CC:-cc}
failed=0

for tool in spin "$cc"; do
	command -v "$tool" >/dev/null || {
		echo "SKIP: $tool is not installed"
		exit 77
	}
done
mkdir -p "$work" && cd "$work" || exit 1

# search MODEL SIZE... - the verdict in $verdict, figures in $figures.
search()
{
	model=$1
	shift
	verdict=broken figures=
	rm -f pan pan.* ./*.trail
	spin -a "$@" "$src/$model.pml" >spin.log 2>&1 || {
		cat spin.log
		return
	}
	$cc -O2 -w -DSAFETY -DCOLLAPSE -o pan pan.c || return
	nice ./pan -m100000 >pan.log 2>&1
	figures=$(awk '/states, stored/ { s = $1 }
		/actual memory usage/ { m = $1 }
		match($0, /depth reached [0-9]+/) {
			d = substr($0, RSTART + 14, RLENGTH - 14)
		}
		END { printf "%s states, depth %s, %s MB", s, d, m }' pan.log)
	if grep -q '^pan:.*\(assertion violated\|invalid end state\)' pan.log
	then
		verdict=refuted
	elif grep -q 'errors: 0' pan.log &&
		! grep -qi 'not completed\|too small\|out of memory' pan.log
	then
		verdict=holds
	fi
}

# expect VERDICT MODEL SIZE...
expect()
{
	want=$1
	shift
	search "$@"
	if [ "$verdict" = "$want" ]; then
		echo "ok      $verdict: $* ($figures)"
	else
		echo "FAILED  $verdict, not $want: $*"
		grep -i 'assert\|error\|not completed' pan.log
		failed=1
	fi
}

for size in \
	'-DSETTERS=1 -DROUNDS=2 -DWALKERS=1 -DPASSES=4' \
	'-DSETTERS=2 -DROUNDS=2 -DWALKERS=0 -DPASSES=3' \
	'-DSETTERS=2 -DROUNDS=1 -DWALKERS=1 -DPASSES=3' \
	'-DSETTERS=3 -DROUNDS=1 -DWALKERS=0 -DPASSES=2'
do
	# shellcheck disable=SC2086
	expect holds pgtable $size
done
for bug in NO_RESCUE NO_SYNC SAME_PASS PLAIN_CUT KEEP_LOSER; do
	expect refuted pgtable -DSETTERS=2 -DROUNDS=1 -DWALKERS=0 \
		-DPASSES=3 -DBUG_$bug
done

expect holds istack -DTAKERS=2 -DROUNDS=2
for bug in NO_TAG XCHG; do
	expect refuted istack -DTAKERS=2 -DROUNDS=2 -DBUG_$bug
done
# One page of a demand region. With each fault, the smallest size that finds it.
wait='-DFAULTERS=2 -DEVICTIONS=1 -DROUNDS=1 -DMAPPERS=0'
fill='-DFAULTERS=2 -DEVICTIONS=0 -DROUNDS=1 -DMAPPERS=1'
evict='-DFAULTERS=1 -DEVICTIONS=1 -DROUNDS=1 -DMAPPERS=1'
both='-DFAULTERS=1 -DEVICTIONS=0 -DROUNDS=1 -DMAPPERS=2'
faults()
{
	size=$1
	shift
	for bug; do
		# shellcheck disable=SC2086
		expect refuted fault $size -DBUG_$bug
	done
}
for size in "$wait" "$fill" "$evict" "$both" \
	'-DFAULTERS=2 -DEVICTIONS=2 -DROUNDS=2 -DMAPPERS=0'
do
	# shellcheck disable=SC2086
	expect holds fault $size
done
faults "$wait" PLAIN_CLAIM PLAIN_SETTLE LATE_SEQ NO_SEQ
faults "$fill" NO_WAKE NO_HOLD
faults "$both" NO_COPYING LATE_COPYING NO_LOOK HOLD_IGNORED NO_EPOCH \
	LATE_EPOCH EARLY_COUNT FREE_NOW
faults "$evict" EVICT_UNSEEN EARLY_QUIESCE NO_QUIESCE1 NO_QUIESCE2 NO_TAKE \
	ID_COUNT

if [ "${3-}" = large ]; then
	for size in \
		'-DFAULTERS=1 -DEVICTIONS=1 -DROUNDS=1 -DMAPPERS=2' \
		'-DFAULTERS=2 -DEVICTIONS=0 -DROUNDS=1 -DMAPPERS=2' \
		'-DFAULTERS=1 -DEVICTIONS=2 -DROUNDS=2 -DMAPPERS=1' \
		'-DFAULTERS=2 -DEVICTIONS=0 -DROUNDS=2 -DMAPPERS=1' \
		'-DFAULTERS=3 -DEVICTIONS=2 -DROUNDS=1 -DMAPPERS=0' \
		'-DFAULTERS=2 -DEVICTIONS=1 -DROUNDS=1 -DMAPPERS=1 -DERRORS=0'
	do
		# shellcheck disable=SC2086
		expect holds fault $size
	done
fi
exit $failed
