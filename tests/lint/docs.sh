#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# docs.sh ROOT - in README.md, CONTRIBUTING.md and docs/*.md each `name()` is
# a function of the sources and each `folder/file.ext` is there.
. "$(dirname "$0")/lib.sh"

list=$(files '*.c' '*.h')
# shellcheck disable=SC2016 # the backquotes are markdown's
files '*.md' | xargs -r grep -noE '`[a-z_0-9]+\(\)`|`[a-z.][a-z./_0-9-]*/[a-zA-Z._0-9-]+\.[a-z]+`' |
	while IFS=: read -r file line what; do
		what=$(printf '%s' "$what" | tr -d '`')
		case $what in
		*'()')
			name=${what%??}
			# shellcheck disable=SC2086 # one word a file
			grep -qE "(^|[^A-Za-z0-9_])$name\\(" $list ||
				echo "$file:$line: no function $name"
			;;
		*)
			[ -e "$what" ] || [ -e "runtime/$what" ] ||
				echo "$file:$line: no file $what"
			;;
		esac
	done | verdict docs
