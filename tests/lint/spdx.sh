#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# spdx.sh ROOT - every file names its licence in its first three lines, but for
# licence texts, JSON, git's own files, and recorded data.
. "$(dirname "$0")/lib.sh"

files '*' | grep -Ev '(^|/)(LICENSE|COPYING)$|\.json$|(^|/)\.git[a-z]+$' |
	grep -Ev '\.(expected|bin|png)$|^tests/lint/abi/' |
	while IFS= read -r f; do
		head -n 3 "$f" | grep -q 'SPDX-License-Identifier: ' ||
			echo "$f:1: no SPDX line"
	done | verdict spdx
