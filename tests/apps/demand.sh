#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# demand.sh [--build=DIR] [--quick] [--list] [PROGRAM...] - scanners whose large
# files are demand regions: standard output, standard error and exit status must
# be the same as without the preload, in every way of delivering faults, as a
# user without privileges, and where userfaultfd and io_uring are refused.
#
# --quick takes a smaller corpus, fewer programs and fewer ways. Exit status: 0,
# 1 when an output differed or no demand region was made where there must be
# some, 77 when no program could be run.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"

# NAME     who           options of the pager, and "cold" to drop the files from
#                        the page cache first
ways=(
	"service some        LARGE=demand FAULT=service"
	"signal some         LARGE=demand FAULT=signal"
	"auto some           LARGE=demand"
	"all-service some    LARGE=demand FAULT=service RESIDENT_MAX=0"
	"all-signal some     LARGE=demand FAULT=signal RESIDENT_MAX=0"
	"one-thread some     LARGE=demand FAULT=service SERVICE_THREADS=1"
	"pages some          LARGE=demand FAULT=service GRANULE=4K RESIDENT_MAX=0"
	"small-mem some      LARGE=demand FAULT=signal RESIDENT_MAX=0 MEM=16M"
	"uring some          LARGE=demand ENGINE=io_uring DIRECT=yes"
	"aio some            LARGE=demand ENGINE=aio DIRECT=yes"
	"pread some          LARGE=demand ENGINE=pread DIRECT=yes"
	"cold any            cold LARGE=auto"
	"nobody any          LARGE=demand RESIDENT_MAX=0"
	"nobody-signal any   LARGE=demand FAULT=signal RESIDENT_MAX=0"
	"nobody-service none LARGE=demand FAULT=service RESIDENT_MAX=0"
	"EPERM none          LARGE=demand RESIDENT_MAX=0"
	"ENOSYS none         LARGE=demand RESIDENT_MAX=0"
)
PROGRAMS=(yara1 yara302 ag rg clamscan)
declare -A need=([yara1]=yara [yara302]=yara [ag]=ag [rg]=rg
	[clamscan]=clamscan)
quick_ways=" service signal all-service all-signal nobody EPERM "

row_yara1() { t yara -r -p 8 "$tmp/one.yar" "$L" | sort; }
row_yara302() { t yara -s -r -p 8 "$D/rules.yar" "$L" | sort; }
word='include|static|window|license'
row_ag() { t ag --workers 8 -u -c "$word" "$L" | sort; }
row_rg() { t rg -j 8 --mmap -uuu -a -c "$word" "$L" | sort; }
row_clamscan()
{
	t clamscan -d "$D/clam" -r --no-summary --max-filesize=200M \
		--max-scansize=400M "$L" | sort
}

quick=0 names=()
for arg; do
	case $arg in
	--build=*) BUILD=$(cd "${arg#*=}" && pwd) || exit 1 ;;
	--quick) quick=1 ;;
	--list)
		printf '%s\n' "${PROGRAMS[@]}"
		exit 0
		;;
	-*)
		sed -n '4,12s/^# \{0,1\}//p' "$0"
		exit 2
		;;
	*) names+=("$arg") ;;
	esac
done
if [ "${#names[@]}" -eq 0 ]; then
	names=("${PROGRAMS[@]}")
	[ $quick -eq 0 ] || names=(yara302 ag rg)
fi
for name in "${names[@]}"; do
	declare -F "row_$name" >/dev/null || die "$name: no such program (--list)"
done
setup
REFUSE=$BUILD/tests/refuse
[ -x "$REFUSE" ] || die "$REFUSE is not there; build first"
# Somebody else has to reach them.
cp "${FL_TEST_PRELOAD:-$BUILD/shim/libfaultline-preload.so}" "$REFUSE" "$tmp/" &&
	cp -r "$BUILD/shim/profiles.d" "$tmp/" && chmod -R go+rX "$tmp" || exit 1
PRELOAD=$tmp/libfaultline-preload.so
export FAULTLINE_PROFILE_DIR=$tmp/profiles.d
REFUSE=$tmp/refuse

if [ $quick -eq 1 ]; then
	CORPUS_ROOT=$CORPUS_ROOT-quick
	export N_SMALL=800 N_MED=30 N_BIG=2
fi
progress "corpus"
SCAN_ROOT=$CORPUS_ROOT "$top/scripts/corpus.sh" || exit 1
progress
D=$CORPUS_ROOT/db
L=$tmp/large
mkdir "$L"
# One file system, and paths that are the same for everybody.
cp -r "$CORPUS_ROOT/corpus/big" "$CORPUS_ROOT/corpus/edge" "$L/"
chmod -R a+rX "$L"
echo 'rule elf { condition: uint32(0) == 0x464c457f }' >"$tmp/one.yar"
chmod a+r "$tmp/one.yar"

# t COMMAND... - the program, in the way of $way and $options
t()
{
	local wrap=()
	case $way in
	nobody*) wrap=(setpriv --reuid=65534 --regid=65534 --clear-groups
		--no-new-privs) ;;
	EPERM | ENOSYS) wrap=("$REFUSE" "$way") ;;
	esac
	[ "$way" = kernel ] || wrap+=(env "${options[@]}"
		FAULTLINE_SUMMARY=1 "LD_PRELOAD=$PRELOAD")
	command "${wrap[@]}" "$@"
}

# Drops the files from the page cache, as far as they are clean.
cool()
{
	sync -f "$L"
	find "$L" -type f -size +0 -exec dd if={} iflag=nocache count=0 \
		status=none \;
}

# once NAME - one run; leaves $tmp/NAME.WAY.{out,err,status,fl}
once()
{
	local o=$tmp/$1.$way
	progress "$1: $way"
	"row_$1" >"$o.out" 2>"$o.raw"
	echo $? >"$o.status"
	grep '^faultline\[' "$o.raw" >"$o.fl"
	grep -v '^faultline\[' "$o.raw" | sort >"$o.err"
	progress
}

# regions FILE - demand regions made, by the summaries in FILE
regions()
{
	sed -n 's/.*; \([0-9]*\) demand regions.*/\1/p' "$1" |
		awk '{ n += $1 } END { print n + 0 }'
}

# skips WAY - why it cannot be tried here, if so
skips()
{
	case $1 in
	nobody*)
		[ "$(id -u)" -eq 0 ] || echo "not root"
		command -v setpriv >/dev/null || echo "no setpriv"
		;;
	esac
	[ -n "$uffd" ] || case $1 in
	EPERM | ENOSYS | cold) ;;
	*) echo "no userfaultfd" ;;
	esac
}

# Is there a userfaultfd for us that serves the kernel's faults?
uffd=1
"$BUILD/shim/faultline" doctor >"$tmp/doctor" 2>&1
grep -q '^ok *userfaultfd *full' "$tmp/doctor" || uffd=

failed=0 passed=0 skipped=0
for name in "${names[@]}"; do
	if ! type -P "${need[$name]}" >/dev/null; then
		echo "$name: skipped, ${need[$name]} is not installed"
		skipped=$((skipped + 1))
		continue
	fi
	way=kernel options=()
	once "$name"
	ref=$tmp/$name.kernel
	if [ "$(cat "$ref.status")" -gt 1 ] || [ ! -s "$ref.out" ]; then
		echo "$name: fails or says nothing, without the preload too"
		head -n 5 "$ref.err"
		failed=$((failed + 1))
		continue
	fi
	for line in "${ways[@]}"; do
		read -r way must rest <<<"$line"
		# clamscan takes long, and reads large files itself.
		[ $quick -eq 0 ] && [ "$name" != clamscan ] ||
			[[ $quick_ways == *" $way "* ]] || continue
		why=$(skips "$way")
		if [ -n "$why" ]; then
			echo "$name $way: skipped, ${why//$'\n'/, }"
			skipped=$((skipped + 1))
			continue
		fi
		options=()
		for o in $rest; do
			if [ "$o" = cold ]; then
				cool
			else
				options+=("FAULTLINE_$o")
			fi
		done
		once "$name"
		o=$tmp/$name.$way
		n=$(regions "$o.fl")
		bad=
		for part in status out err; do
			cmp -s "$ref.$part" "$o.$part" || bad+=" $part differs;"
		done
		case $must in
		some) [ "$n" -gt 0 ] || [ "$name" = clamscan ] ||
			bad+=" no demand region was made;" ;;
		none) [ "$n" -eq 0 ] || bad+=" $n demand regions;" ;;
		esac
		[ -s "$o.fl" ] || bad+=" no pager;"
		printf '%-9s %-15s %6d regions  %s\n' "$name" "$way" "$n" \
			"${bad:-same}"
		if [ -z "$bad" ]; then
			passed=$((passed + 1))
		else
			failed=$((failed + 1))
			for part in status out err; do
				diff "$ref.$part" "$o.$part" | head -n 4 |
					cut -c 1-160 | sed 's/^/  /'
			done
		fi
	done
done
echo "$passed same, $failed different, $skipped skipped"
[ $failed -eq 0 ] || exit 1
[ $passed -gt 0 ] || exit 77
