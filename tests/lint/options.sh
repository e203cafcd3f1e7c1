#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# options.sh ROOT - the options of base/conf.def, the rows of docs/config.md
# and the entries of faultline.7 are the same, numeric defaults included, and
# so are the counters of base/stat.def and those of faultline.7.
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
# "name default" of each option with a number for a default, as users write it.
defaults()
{
	tr '\n' ' ' <runtime/base/conf.def | sed 's/CONF(/\n&/g' |
		sed 's/CONF_KIB(\([0-9]*\))/\1K/g;s/CONF_MIB(\([0-9]*\))/\1M/g' |
		sed -n 's/^CONF(\([a-z0-9_]*\),[^,]*, *\([0-9]*[KM]*\),.*/\1 \2/p' |
		sort
}
defaults_md()
{
	# shellcheck disable=SC2016 # the backquotes are markdown's
	sed -n 's/^| *`\([a-z0-9_]*\)` *| *\([0-9]*[KM]*\) *|.*/\1 \2/p' \
		docs/config.md | sort
}
# "Default 1." or "The default, 1, ..." in the option's entry.
defaults_man()
{
	awk '
	function out() {
		if (match(text, /[Dd]efault,? [0-9]+[KM]?/)) {
			d = substr(text, RSTART, RLENGTH)
			sub(/.* /, "", d)
			print name, d
		}
	}
	/^\.Sh / { if (on) out(); on = 0; in_opt = ($0 == ".Sh OPTIONS") }
	in_opt && $1 == ".It" { if (on) out(); on = 1; name = $3; text = "" }
	in_opt && /^\.(Ss|El)/ { if (on) out(); on = 0 }
	on { text = text " " $0 }' docs/man/faultline.7 | sort
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
	same runtime/base/conf.def "$(defaults)" docs/config.md \
		"$(defaults_md)"
	same runtime/base/conf.def "$(defaults)" docs/man/faultline.7 \
		"$(defaults_man)"
	same runtime/base/stat.def "$stat" docs/man/faultline.7 \
		"$(man COUNTERS Va)"
} | verdict options
