#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# corpus.sh [--stats] - makes the files that scanners are tried on, and their
# signatures, under $SCAN_ROOT (${TMPDIR:-/tmp}/faultline-corpus):
#
#   corpus/small med big   copies of the system's own files by size
#   corpus/made            archives, images and documents made of those
#   corpus/edge            sizes around pages and huge pages, a sparse file
#   corpus/hit             what must be found: EICAR, plain and in archives, and
#                          clamav-testfiles where that package is installed
#   corpus/sub             a cut through all of these
#   db/clam  db/*.yar      signatures of a fixed seed; clamd.conf beside them
#
# The choice is by hash of each path: machines with the same packages get the
# same corpus. What is complete is left alone; remove $SCAN_ROOT to start over.
# N_SMALL=6000 N_MED=300 N_BIG=8 set the number of files, CLAMD_THREADS=8 what
# clamd.conf says. With --stats a line about each part is printed.
set -euo pipefail
export LC_ALL=C
SCAN_ROOT=${SCAN_ROOT:-${TMPDIR:-/tmp}/faultline-corpus}
export SCAN_ROOT N_SMALL="${N_SMALL:-6000}" N_MED="${N_MED:-300}"
export N_BIG="${N_BIG:-8}" CLAMD_THREADS="${CLAMD_THREADS:-8}"
here=$(cd "$(dirname "$0")" && pwd)
case ${1:-} in
'' | --stats) ;;
*)
	echo "usage: $0 [--stats]" >&2
	exit 2
	;;
esac

command -v python3 >/dev/null || {
	echo "corpus.sh: python3 is not installed" >&2
	exit 1
}
mkdir -p "$SCAN_ROOT"
python3 "$here/corpus.py"

if id clamav >/dev/null 2>&1 && [ "$(id -u)" -eq 0 ]; then
	chown clamav "$SCAN_ROOT/run" "$SCAN_ROOT/tmp"
fi
chmod -R a+rX "$SCAN_ROOT"

if [ "${1:-}" = --stats ]; then
	for part in small med big made edge hit sub; do
		find "$SCAN_ROOT/corpus/$part" -type f -printf '%s\n' | sort -n |
			awk -v part="$part" '
			{ v[NR] = $1; sum += $1 }
			END {
				printf "%-6s %5d files %8.1f MiB", part, NR,
					sum / 1048576
				printf "  median %d  90 %% %d  largest %d\n",
					v[int(NR / 2) + 1],
					v[int(NR * 0.9) + 1], v[NR]
			}'
	done
fi
