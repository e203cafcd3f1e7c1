#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# man.sh ROOT - mandoc finds no error or warning in the manual pages, and each
# page a link page names exists.
. "$(dirname "$0")/lib.sh"

command -v mandoc >/dev/null || {
	echo "SKIP: mandoc is not installed"
	exit 77
}
files 'docs/man/*' | while IFS= read -r f; do
	so=$(sed -n 's/^\.so man[1-8]\///p' "$f")
	if [ -n "$so" ]; then
		[ -f "docs/man/$so" ] || echo "$f:1: no page $so"
		continue
	fi
	mandoc -T lint -W warning "$f" | sed 's/^mandoc: //'
done | verdict man
