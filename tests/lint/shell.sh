#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# shell.sh ROOT - shellcheck over every shell script.
. "$(dirname "$0")/lib.sh"

command -v shellcheck >/dev/null || {
	echo "SKIP: shellcheck is not installed"
	exit 77
}
files '*' | while IFS= read -r f; do
	case $(head -n 1 "$f" | tr -d '\0') in
	'#!/bin/sh'* | '#!/bin/bash'* | '#!/usr/bin/env bash'*)
		shellcheck -x -P SCRIPTDIR -e SC1091 -f gcc "$f"
		;;
	esac
done | verdict shell
