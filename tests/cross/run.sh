#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# run.sh SOURCE_DIR WORK_DIR - the entry codecs and the memory layer on every
# architecture.
#
# 1. test_pte.c for each codec of arch/, built by the host's compiler. A codec
#    that updates entries under the lock of the region is also built without
#    that lock: it must then lose updates.
# 2. test_pte.c, test_slab.c, test_pgtable.c and test_extent.c with Debian's
#    cross compilers, each with the target's own codec, run by qemu-user; the
#    last three natively too.
#
# What the emulator cannot do is stood in for by emulated.h.
#
# One line for each program; a missing compiler or emulator is a failure.
set -u
src=${1:?usage: run.sh SOURCE_DIR WORK_DIR}
work=${2:?usage: run.sh SOURCE_DIR WORK_DIR}
mkdir -p "$work" || exit 2
cd "$src" || exit 2

limit=180
failed=0
flags=(-std=gnu11 -O2 -g -D_GNU_SOURCE -DFL_DEBUG=2 -DFL_WITHOUT_LIBURCU
	-DFL_VERSION_STRING='"cross"' -Wall -Wextra -Wundef -Wshadow
	-Wstrict-prototypes -Wmissing-prototypes -Wvla -Wno-psabi -Werror
	-fno-strict-aliasing -Iruntime -Iruntime/include)

# say WHAT RESULT - one line of the report.
say()
{
	printf '%-34s %s\n' "$1" "$2"
}

# fail WHAT WHY [LOG]
fail()
{
	say "$1" "FAILED: $2"
	[ -n "${3:-}" ] && sed 's/^/    /' "$3" | tail -n 20
	failed=$((failed + 1))
}

# objects CC ISA DIR [HEADER] - the lower layers, once for each target; HEADER
# goes before arena.c.
objects()
{
	local cc=$1 isa=$2 dir=$3 header=${4:-} c
	local -a also
	mkdir -p "$dir"
	for c in runtime/base/*.c runtime/mem/*.c; do
		also=()
		if [ -n "$header" ] && [ "$c" = runtime/mem/arena.c ]; then
			also=(-include "$header")
		fi
		"$cc" "${flags[@]}" -Iarch/"$isa" -Iarch/generic "${also[@]}" \
			-c "$c" -o "$dir/$(basename "$c" .c).o" || return 1
	done
}

# program CC ISA DIR TEST OUT [FLAG...] - links against the objects of DIR.
program()
{
	local cc=$1 isa=$2 dir=$3 test=$4 out=$5
	shift 5
	"$cc" "${flags[@]}" -DCODEC_"$isa" -Iarch/"$isa" -Iarch/generic "$@" \
		tests/cross/test_"$test".c "$dir"/*.o -o "$out" -pthread
}

# run NAME COMMAND... - a program that must succeed.
run()
{
	local name=$1 log=$work/run.log rc
	shift
	timeout $limit "$@" >"$log" 2>&1
	rc=$?
	if [ $rc = 0 ]; then
		say "$name" "$(tail -n 1 "$log")"
	elif [ $rc = 124 ]; then
		fail "$name" "no end after $limit s" "$log"
	else
		fail "$name" "status $rc" "$log"
	fi
}

# run_loser NAME PROGRAM - must find lost updates; three tries.
run_loser()
{
	local name=$1 log=$work/run.log
	for _ in 1 2 3; do
		timeout $limit "$2" >"$log" 2>&1
		if [ $? = 1 ] && grep -q 'plain updates lost' "$log"; then
			say "$name" "loses updates, as it must"
			return
		fi
	done
	fail "$name" "lost no update without the lock" "$log"
}

# codec ISA [FLAG] - one codec, on the host.
codec()
{
	local isa=$1 name=host/$1${2:+/no-cmpxchg}
	if program gcc "$isa" "$work/host" pte "$work/pte" ${2:+"$2"} \
		>"$work/cc.log" 2>&1; then
		run "$name/pte" "$work/pte"
	else
		fail "$name/pte" "does not compile" "$work/cc.log"
	fi
	case $isa$* in
	s390x* | *CMPXCHG=0) ;;
	*) return ;;
	esac
	if program gcc "$isa" "$work/host" pte "$work/pte" ${2:+"$2"} \
		-DNO_REGION_LOCK -Wno-unused-function >"$work/cc.log" 2>&1; then
		run_loser "$name/pte without lock" "$work/pte"
	else
		fail "$name/pte without lock" "does not compile" "$work/cc.log"
	fi
}

# target TRIPLET QEMU ISA - one cross compiler; programs run emulated.
target()
{
	local cc=$1-gcc qemu=qemu-$2-static isa=$3 dir=$work/$3 t
	if ! command -v "$cc" >/dev/null; then
		fail "$isa" "no $cc"
		return
	fi
	if ! command -v "$qemu" >/dev/null; then
		fail "$isa" "no $qemu"
		return
	fi
	if ! objects "$cc" "$isa" "$dir" tests/cross/emulated.h \
		>"$work/cc.log" 2>&1; then
		fail "$isa" "does not compile" "$work/cc.log"
		return
	fi
	for t in pte slab pgtable extent; do
		if program "$cc" "$isa" "$dir" $t "$dir/$t" -static \
			>"$work/cc.log" 2>&1; then
			run "$isa/$t" "$qemu" "$dir/$t"
		else
			fail "$isa/$t" "does not compile" "$work/cc.log"
		fi
	done
}

if objects gcc x86_64 "$work/host" >"$work/cc.log" 2>&1; then
	for isa in x86_64 i386 i386_pae aarch64 riscv64 ppc64 s390x ia64 \
		generic; do
		codec $isa
	done
	codec i386 -DARCH_HAS_CMPXCHG=0
	codec i386_pae -DARCH_HAS_CMPXCHG=0
	for t in slab pgtable extent; do
		if program gcc x86_64 "$work/host" $t "$work/$t" \
			>"$work/cc.log" 2>&1; then
			run "host/$t" "$work/$t"
		else
			fail "host/$t" "does not compile" "$work/cc.log"
		fi
	done
else
	fail host "does not compile" "$work/cc.log"
fi

target aarch64-linux-gnu aarch64 aarch64
target s390x-linux-gnu s390x s390x
target powerpc64le-linux-gnu ppc64le ppc64
target riscv64-linux-gnu riscv64 riscv64
target i686-linux-gnu i386 i386
target i686-linux-gnu i386 i386_pae

if [ $failed != 0 ]; then
	echo "$failed failed"
	exit 1
fi
echo "all passed"
