#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# bench-page.sh [-p PARTS] [BUILD] [BENCH-PAGE-OPTION...] - bench-page on a zram
# device with ext4, in a control group whose memory limit is a quarter of the
# file, then on the disk. The tables, the JSON lines and the pictures stay in
# BUILD/results.
#
# PARTS: words of this list, comma-separated; all by default
#   fast     random reads at 1 to 16 threads on zram         (root)
#   sweep    working sets of half to four times the memory   (root)
#   cliff    three minutes of random reads                   (root)
#   fastseq  the whole file in order, on zram                (root)
#   latency  single faults in a warm page cache
#   disk     random reads (root), and 4 GiB in order, on the disk
#
# Environment: LIMIT (256M), FILE_SIZE (four times the limit), ZRAM_SIZE (4G),
# DISK_DIR (BUILD/results/files). The device and the group are this script's own
# and are gone when it ends, however it ends.
set -u -o pipefail
export LC_ALL=C
top=$(cd "$(dirname "$0")/.." && pwd)
parts=fast,sweep,cliff,fastseq,latency,disk
if [ "${1:-}" = -p ]; then
	parts=${2:?}
	shift 2
fi
build=$(realpath -m "${1:-$top/build/release}")
[ $# -eq 0 ] || shift
bench=$build/bench/bench-page
out=$build/results
limit=${LIMIT:-256M}
zram_size=${ZRAM_SIZE:-4G}
disk_dir=${DISK_DIR:-$out/files}
over_time=mmap,mmap-random,sigbus,fl-signal,fl-service
device='' mount='' group=''

say()
{
	echo "bench-page.sh: $*" >&2
}

bytes()
{
	numfmt --from=iec "$1"
}

# A run that was interrupted leaves children for a moment.
clean_up()
{
	local try
	trap - EXIT INT TERM HUP
	if [ -n "$group" ]; then
		echo $$ >"$(dirname "$group")/cgroup.procs"
		for try in 1 2 3 4 5 6 7 8 9 10; do
			rmdir "$group" 2>/dev/null && break
			[ "$try" -eq 10 ] || sleep 0.2
		done
		[ ! -d "$group" ] || say "$group is still there"
	fi
	if [ -n "$mount" ]; then
		umount "$mount" || umount -l "$mount"
		rmdir "$mount"
	fi
	if [ -n "$device" ]; then
		for try in 1 2 3 4 5 6 7 8 9 10; do
			echo "$device" 2>/dev/null \
				>/sys/class/zram-control/hot_remove && break
			sleep 0.2
		done
		[ ! -e "/sys/block/zram$device" ] ||
			say "/dev/zram$device is still there"
	fi
}

# Why the parts on zram cannot run here; nothing if they can.
missing()
{
	local tool
	[ "$(id -u)" -eq 0 ] || echo "this user is not root"
	[ -e /sys/class/zram-control/hot_add ] ||
		echo "no zram (modprobe zram)"
	[ -n "$(group_parent)" ] ||
		echo "no memory control group to make one below"
	for tool in mkfs.ext4 mount numfmt; do
		command -v $tool >/dev/null || echo "no $tool"
	done
}

# The folder of this shell's memory control group, version 1 or 2.
group_parent()
{
	local path
	path=$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)
	if [ -n "$path" ] && [ -d "/sys/fs/cgroup/memory$path" ]; then
		echo "/sys/fs/cgroup/memory${path%/}"
	elif grep -qw memory /sys/fs/cgroup/cgroup.subtree_control 2>/dev/null; then
		echo /sys/fs/cgroup
	fi
}

make_group()
{
	group=$(group_parent)/faultline-bench-$$
	mkdir "$group" || { group=''; return 1; }
	if [ -e "$group/memory.max" ]; then
		bytes "$limit" >"$group/memory.max" &&
			echo 0 >"$group/memory.swap.max"
	else
		bytes "$limit" >"$group/memory.limit_in_bytes"
	fi
}

make_device()
{
	device=$(cat /sys/class/zram-control/hot_add) || return 1
	bytes "$zram_size" >"/sys/block/zram$device/disksize" || return 1
	mkfs.ext4 -q -E nodiscard -m 0 "/dev/zram$device" || return 1
	mount=$(mktemp -d) || return 1
	mount -o noatime "/dev/zram$device" "$mount" || {
		rmdir "$mount"
		mount=''
		return 1
	}
	# Writing the file is not to be charged to the group.
	"$bench" --work=none --dir="$mount" --size="$file_size" >/dev/null
}

# limited DIR OPTION... - bench-page in the group; what it prints is kept
limited()
{
	(
		echo "$BASHPID" >"$group/cgroup.procs" &&
			exec "$bench" --dir="$1" --size="$file_size" \
				--json="$out/page.json" "${@:2}"
	) | tee -a "$out/page.txt"
}

unlimited()
{
	"$bench" --dir="$disk_dir" --json="$out/page.json" "$@" |
		tee -a "$out/page.txt"
}

has()
{
	[[ ,$parts, == *,$1,* ]]
}

[ -x "$bench" ] || {
	say "$build holds no build; 'make' makes one"
	exit 1
}
mkdir -p "$out" || exit 1
file_size=${FILE_SIZE:-$((4 * $(bytes "$limit") >> 20))M}
: >"$out/page.json"
: >"$out/page.txt"

if [[ $parts =~ fast|sweep|cliff || $(id -u) -eq 0 ]]; then
	why=$(missing | paste -sd ';')
	if [ -n "$why" ]; then
		say "the parts on zram are left out: $why"
		[[ $parts =~ latency|disk ]] || exit 77
	else
		trap clean_up EXIT
		trap 'exit 130' INT
		trap 'exit 143' TERM HUP
		make_group || {
			say "cannot make a memory control group"
			exit 1
		}
	fi
fi
if [[ $parts =~ fast|sweep|cliff && -n $group ]]; then
	make_device || {
		say "cannot make a zram device with ext4"
		exit 1
	}
	awk '{ printf "zram: %.0f MiB of data in %.0f MiB\n",
		$1 / 1048576, $2 / 1048576 }' "/sys/block/zram$device/mm_stat" |
		tee -a "$out/page.txt"
	! has fast || limited "$mount" --work=random "$@" || exit 1
	! has sweep || limited "$mount" --work=sweep --threads=4 "$@" || exit 1
	! has cliff || limited "$mount" --work=cliff --threads=4 \
		--methods=$over_time "$@" || exit 1
	! has fastseq || limited "$mount" --work=seq "$@" || exit 1
fi
if has latency || has disk; then
	mkdir -p "$disk_dir" || exit 1
	! has latency ||
		unlimited --work=latency --size=128M "$@" || exit 1
	if has disk && [ -n "$group" ]; then
		unlimited --work=none --size="$file_size" >/dev/null || exit 1
		limited "$disk_dir" --work=random "$@" || exit 1
	fi
	! has disk ||
		unlimited --work=seq --size=4G --budget=1G "$@" || exit 1
	rm -f "$disk_dir"/pages-*M
	rmdir "$disk_dir" 2>/dev/null
fi
if command -v gnuplot >/dev/null; then
	"$top/bench/plot-page.sh" "$out/page.json" "$out/page" >/dev/null ||
		exit 1
fi
echo "results: $out"
