#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# size.sh ROOT - no file over 1000 lines (licence texts and recorded data
# aside), no function of the product over 60.
. "$(dirname "$0")/lib.sh"

{
	files '*' | grep -Ev '(^|/)(LICENSE|COPYING)$|\.bin$' |
		while IFS= read -r f; do
			n=$(wc -l <"$f")
			[ "$n" -le 1000 ] || echo "$f:1000: $n lines"
		done
	files 'arch/*.h' 'runtime/*.c' 'runtime/*.h' 'shim/*.c' 'shim/*.h' |
		xargs -r awk '
		/^[{]/ { start = FNR }
		/^}/ && start {
			if (FNR - start - 1 > 60)
				printf "%s:%d: function of %d lines\n", \
					FILENAME, start, FNR - start - 1
			start = 0
		}'
} | verdict size
