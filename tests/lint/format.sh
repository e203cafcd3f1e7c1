#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# format.sh ROOT - C sources are as clang-format 14 leaves them.
. "$(dirname "$0")/lib.sh"

cf=clang-format-14
command -v $cf >/dev/null || cf=clang-format
command -v $cf >/dev/null || {
	echo "SKIP: clang-format is not installed"
	exit 77
}
files '*.c' '*.h' | xargs -r $cf --dry-run 2>&1 |
	sed -n 's/^\([^:]*:[0-9]*\):[0-9]*: warning: .*/\1: format/p' |
	uniq | verdict format
