#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# check-clean.sh [test|demo|install]... - in a new, minimal Debian 12, with
# nothing added but make and git, run the make targets (test by default) on a
# clone of what is committed here. As root; needs debootstrap and some 4 GiB
# in $TMPDIR. The packages come from the mirror that apt uses here.
#
# The system lives in a mount and process namespace of its own: whatever way
# this ends, no mount and no process of it is left.
set -u
export LC_ALL=C
suite=bookworm

inside()
{
	local dir=$1 target

	shift
	mount -t proc proc "$dir/proc" &&
		mount --rbind /sys "$dir/sys" &&
		mount --rbind /dev "$dir/dev" || return 1
	chroot "$dir" apt-get update -q &&
		chroot "$dir" apt-get install -y -q --no-install-recommends \
			make git || return 1
	for target; do
		echo "== make $target in a clean $suite"
		SECONDS=0
		chroot "$dir" make -C /root/faultline "$target" </dev/null ||
			return 1
		echo "== make $target: done in $SECONDS s"
	done
}

if [ "${1:-}" = --inside ]; then
	shift
	inside "$@"
	exit
fi

[ $# -gt 0 ] || set -- test
if [ "$(id -u)" -ne 0 ]; then
	echo "$0: only root can do this" >&2
	exit 1
fi
for tool in debootstrap unshare git; do
	command -v $tool >/dev/null || {
		echo "$0: $tool is needed: apt-get install $tool" >&2
		exit 1
	}
done
src=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck disable=SC2016 # apt's own variables
mirror=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' |
	awk -v s=$suite '$1 == s && $2 == "main" { print $3; exit }')
if [ -z "$mirror" ]; then
	echo "$0: apt knows no mirror of $suite; run apt-get update" >&2
	exit 1
fi

dir=$(mktemp -d "${TMPDIR:-/tmp}/faultline-clean.XXXXXX") || exit 1
chmod 755 "$dir"
trap 'rm -rf --one-file-system "$dir"' EXIT
trap 'exit 130' INT TERM
include=()
case $mirror in
https:*) include=(--include=ca-certificates) ;;
esac
echo "== debootstrap $suite"
debootstrap --variant=minbase "${include[@]}" $suite "$dir" "$mirror" \
	>"$dir.log" 2>&1 || {
	tail -n 20 "$dir.log"
	rm -f "$dir.log"
	exit 1
}
rm -f "$dir.log"
apt-config dump Acquire::http Acquire::https \
	>"$dir/etc/apt/apt.conf.d/90host" 2>/dev/null
cp /etc/resolv.conf /etc/hosts "$dir/etc/"
git clone -q "file://$src" "$dir/root/faultline" || exit 1

env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C \
	TERM="${TERM:-dumb}" ${http_proxy:+http_proxy="$http_proxy"} \
	${https_proxy:+https_proxy="$https_proxy"} \
	unshare --mount --propagation private --pid --fork --kill-child \
	"$0" --inside "$dir" "$@"
