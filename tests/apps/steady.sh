#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# steady.sh [--build=DIR] [--files=N] [--strace] [NAME...] - what one more small
# file costs yara, ag and rg with and without the preload: system calls that map
# and unmap, mmap_lock taken for writing, page faults, TLB flushes and
# shootdowns.
#
# Each program scans N files (1000) and then the same N under 3 N names; the
# difference divided by 2 N is the cost of a file: what starting costs, and
# warming up, cancels out. The files are copies of one directory's small ones.
# With --strace the calls are counted by strace -c instead of by tracepoint.
# Figures are printed, not judged. Exit status 77: none of them is installed.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"

files=1000 by=tracepoints names=()
for arg; do
	case $arg in
	--build=*) BUILD=$(cd "${arg#*=}" && pwd) || exit 1 ;;
	--files=*) files=${arg#*=} ;;
	--strace) by=strace ;;
	-*)
		sed -n '4,16s/^# \{0,1\}//p' "$0"
		exit 2
		;;
	*) names+=("$arg") ;;
	esac
done
[ "${#names[@]}" -gt 0 ] || names=(yara ag rg)
setup
SCAN_ROOT=$CORPUS_ROOT "$top/scripts/corpus.sh" || exit 1

# $tmp/1 and $tmp/3: the same work once and three times
mkdir "$tmp/1" "$tmp/3"
find "$CORPUS_ROOT/corpus/small" -type f | sort | head -n "$files" |
	while IFS= read -r f; do
		cp "$f" "$tmp/1/"
	done
for i in a b c; do
	cp -r "$tmp/1" "$tmp/3/$i"
done
n=$(find "$tmp/1" -type f | wc -l)
echo 'rule elf { condition: uint32(0) == 0x464c457f }' >"$tmp/one.yar"

command_of() # NAME DIR
{
	case $1 in
	yara) cmd=(yara -r -p 8 "$tmp/one.yar" "$2") ;;
	ag) cmd=(ag --workers 8 -u -l lorem_zzz "$2") ;;
	rg) cmd=(rg -j 8 --mmap -uuu -a -c lorem_zzz "$2") ;;
	*) die "$1: yara, ag or rg" ;;
	esac
}

# under_strace FILE - as counted(), with the calls from strace -c
under_strace()
{
	local pre=()
	[ "$MODE" = kernel ] || pre=(-E "LD_PRELOAD=$PRELOAD")
	strace -f -qq -c -o "$tmp/strace" "${pre[@]}" \
		-e trace=mmap,munmap,madvise,mprotect,mremap,brk "${cmd[@]}"
	awk '$NF ~ /^(mmap|munmap|madvise|mprotect|mremap|brk)$/ {
		printf "%s=%d ", $NF, $4 }
		END { print "" }' "$tmp/strace" >"$M"
}

# run NAME MODE SIZE - leaves the figures in $tmp/NAME.MODE.SIZE
run()
{
	MODE=$2 M=$tmp/$1.$2.$3
	command_of "$1" "$tmp/$3"
	: >"$M"
	progress "$1: $2, $3 x $n files"
	if [ $by = strace ]; then
		under_strace
	else
		counted "${cmd[@]}"
	fi >"$tmp/out" 2>"$tmp/err"
	[ $? -le 1 ] || {
		cat "$tmp/err" >&2
		die "$1 failed ($2)"
	}
	progress
}

what=(mmap munmap madvise mprotect)
[ $by = strace ] || what+=(lock_writes minor tlb_flushes tlb_ipis)
printf '%-6s %-8s' program mode
printf ' %11s' "${what[@]}"
printf '   (each a file; by %s)\n' "$by"
ran=0
for name in "${names[@]}"; do
	command -v "$name" >/dev/null || {
		echo "$name: skipped, not installed"
		continue
	}
	ran=$((ran + 1))
	for mode in kernel preload; do
		# the first is for the page cache
		run "$name" $mode 3
		run "$name" $mode 1
		run "$name" $mode 3
		printf '%-6s %-8s' "$name" $mode
		for w in "${what[@]}"; do
			a=$(sum "$w" "$tmp/$name.$mode.1")
			b=$(sum "$w" "$tmp/$name.$mode.3")
			if [ "$a" = n/a ] || [ "$b" = n/a ]; then
				printf ' %11s' n/a
				continue
			fi
			awk -v a="$a" -v b="$b" -v n="$n" \
				'BEGIN { printf " %11.4f", (b - a) / (2 * n) }'
		done
		echo
	done
done
[ $ran -gt 0 ] || exit 77
