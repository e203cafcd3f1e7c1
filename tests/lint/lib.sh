# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=sh
#
# Sourced by the checks. Each check is called with the root of a tree, prints
# one line "file:line: what is wrong" for each finding, and exits 1 when there
# is one. selftest.sh shows each of them a tree with the fault.

root=${1:?usage: $0 ROOT}
cd "$root" || exit 2

# Files of the tree: what git tracks; all of them where there is no git.
files()
{
	if [ -e .git ]; then
		git ls-files --cached "$@" |
			while IFS= read -r f; do
				[ -f "$f" ] && printf '%s\n' "$f"
			done
	else
		for f; do
			find . -type f -path "./${f#./}"
		done | sed 's|^\./||'
	fi | sort -u
}

findings=$(mktemp) || exit 2
trap 'rm -f "$findings"' EXIT

# verdict NAME - prints the findings on standard input and ends the script.
verdict()
{
	cat >"$findings"
	if [ -s "$findings" ]; then
		cat "$findings"
		exit 1
	fi
	echo "$1: nothing found"
	exit 0
}
