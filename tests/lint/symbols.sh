#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# symbols.sh ROOT LIBFAULTLINE PRELOAD - what each library exports is what its
# map says; every name of libfaultline is declared in faultline.h and stands in
# the NAME section of a section 3 page; no name of it has gone since the list
# kept in tests/lint/abi/.
lib=${2:?library} preload=${3:?preload}
. "$(dirname "$0")/lib.sh"

exported()
{
	nm -D --defined-only "$1" | awk '$2 != "A" { print $3 }' |
		sed 's/@.*//' | sort -u
}
mapped()
{
	tr -s ' \t\n;{}' '\n' <"$1" | awk '
	$0 == "local:" { on = 0 } $0 == "global:" { on = 1 }
	on && /^[A-Za-z_0-9]+$/' | sort -u
}
# differ WHAT-A A WHAT-B B
differ()
{
	t1=$(mktemp)
	t2=$(mktemp)
	printf '%s\n' "$2" >"$t1"
	printf '%s\n' "$4" >"$t2"
	comm -23 "$t1" "$t2" | sed -n "s|..*|$1: & is not in $3|p"
	rm -f "$t1" "$t2"
}
exp=$(exported "$lib") || exit 2
map=$(mapped runtime/api/faultline.map)
[ -n "$map" ] || { echo "runtime/api/faultline.map: no names"; exit 1; }
{
	differ "$lib" "$exp" runtime/api/faultline.map "$map"
	differ runtime/api/faultline.map "$map" "$lib" "$exp"
	differ "$lib" "$exp" faultline.h "$(grep -oE 'fl_[a-z0-9_]+\(' \
		runtime/include/faultline.h | tr -d '(' | sort -u)"
	differ "$lib" "$exp" docs/man/\*.3 "$(awk '
		FNR == 1 { on = 0 } /^\.Sh / { on = /NAME/ }
		on && $1 == ".Nm" { print $2 }' docs/man/*.3 | sort -u)"
	for abi in tests/lint/abi/*; do
		[ -f "$abi" ] || continue
		differ "$abi" "$(sort -u "$abi")" "$lib" "$exp"
	done
	if [ -f "$preload" ]; then
		exp=$(exported "$preload")
		map=$(mapped shim/shim.map)
		differ "$preload" "$exp" shim/shim.map "$map"
		differ shim/shim.map "$map" "$preload" "$exp"
	fi
} | verdict symbols
