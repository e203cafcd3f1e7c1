#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# options.sh ROOT - the options of base/conf.def, the rows of docs/config.md
# and the entries of faultline.7 are the same, and so are the counters of
# base/stat.def and those of faultline.7.
#
# conf.def: CONF(name, ...). stat.def: STAT(name, ...).
# config.md: | `name` | ...  faultline.7: ".It Cm name" below ".Sh OPTIONS" and
# ".It Va name" below ".Sh COUNTERS".
. "$(dirname "$0")/lib.sh"

def()
{
	sed -n "s/^[ \t]*$1([ \t]*\\([a-z0-9_]*\\).*/\\1/p" "$2" | sort
}
man()
{
	awk -v sh="$1" -v mac="$2" '
	/^\.Sh / { on = ($0 == ".Sh " sh) }
	on && $1 == ".It" && $2 == mac { print $3 }' docs/man/faultline.7 | sort
}
same()
{
	t1=$(mktemp)
	t2=$(mktemp)
	printf '%s\n' "$2" >"$t1"
	printf '%s\n' "$4" >"$t2"
	comm -23 "$t1" "$t2" | sed -n "s|..*|$3: & of $1 is missing|p"
	comm -13 "$t1" "$t2" | sed -n "s|..*|$3: & is not in $1|p"
	rm -f "$t1" "$t2"
}
for f in runtime/base/conf.def runtime/base/stat.def docs/config.md \
	docs/man/faultline.7; do
	[ -f "$f" ] || { echo "$f: missing"; exit 1; }
done
conf=$(def CONF runtime/base/conf.def)
stat=$(def STAT runtime/base/stat.def)
if [ -z "$conf" ] || [ -z "$stat" ]; then
	echo "empty tables"
	exit 1
fi
{
	# shellcheck disable=SC2016 # the backquotes are markdown's
	same runtime/base/conf.def "$conf" docs/config.md \
		"$(sed -n 's/^| *`\([a-z0-9_]*\)` *|.*/\1/p' docs/config.md |
			sort)"
	same runtime/base/conf.def "$conf" docs/man/faultline.7 \
		"$(man OPTIONS Cm)"
	same runtime/base/stat.def "$stat" docs/man/faultline.7 \
		"$(man COUNTERS Va)"
} | verdict options
