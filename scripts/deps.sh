#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# deps.sh [--print] build|test|apps|bench|demo - see to it that the Debian packages
# of that purpose are installed.
#
# States the list, then: nothing to do when all are there; as root installs the
# missing ones without asking; otherwise prints the command to run and exits 1.
# Services that the packages would start are kept from starting.
set -u
export LC_ALL=C

# The programs that are run with and without the preload, and what makes their
# input.
programs()
{
	echo python3 yara silversearcher-ag ripgrep b3sum ugrep
	echo clamav clamav-daemon clamdscan mold lld clang
	echo sqlite3 lmdb-utils fio file
}

# packages PURPOSE - one or more a line. What the scripts call is listed too
# where Debian's essential packages do not bring it.
packages()
{
	echo gcc libc6-dev cmake ninja-build pkg-config liburcu-dev
	echo liburing-dev libzstd-dev git procps
	case $1 in
	test)
		echo libcriterion-dev clang libclang-rt-14-dev
		echo clang-format-14 shellcheck mandoc
		echo libjemalloc2 libtcmalloc-minimal4 spin
		echo squashfs-tools mount zstd
		echo qemu-user-static
		echo gcc-aarch64-linux-gnu libc6-dev-arm64-cross
		echo gcc-s390x-linux-gnu libc6-dev-s390x-cross
		echo gcc-powerpc64le-linux-gnu libc6-dev-ppc64el-cross
		echo gcc-riscv64-linux-gnu libc6-dev-riscv64-cross
		echo gcc-i686-linux-gnu libc6-dev-i386-cross
		programs
		;;
	apps)
		programs
		echo nodejs default-jre-headless
		;;
	bench) echo gnuplot-nox strace ;;
	demo) echo python3 yara silversearcher-ag ripgrep ;;
	esac
}

print=0
if [ "${1:-}" = --print ]; then
	print=1
	shift
fi
case ${1:-} in
build | test | apps | bench | demo) ;;
*)
	echo "usage: $0 [--print] build|test|apps|bench|demo" >&2
	exit 2
	;;
esac
purpose=$1
mapfile -t wanted < <(packages "$purpose" | tr ' ' '\n' | sort -u)

if [ "$print" -eq 1 ]; then
	printf '%s\n' "${wanted[@]}"
	exit 0
fi
echo "Debian packages needed for '$purpose':"
echo "${wanted[*]}" | fold -s -w 76 | sed 's/^/  /'

if ! command -v dpkg-query >/dev/null; then
	echo "This is not a Debian system; their equivalents are taken to be" \
		"installed."
	exit 0
fi

missing=()
for p in "${wanted[@]}"; do
	case $(dpkg-query -W -f '${db:Status-Status}\n' "$p" 2>/dev/null) in
	*installed*) ;;
	*) missing+=("$p") ;;
	esac
done
if [ "${#missing[@]}" -eq 0 ]; then
	echo "All are installed."
	exit 0
fi
install=(apt-get install -y --no-install-recommends "${missing[@]}")
if [ "$(id -u)" -ne 0 ]; then
	echo "Missing: ${missing[*]}"
	echo "Run this, then try again:"
	echo "  sudo apt-get update && sudo ${install[*]}"
	exit 1
fi
echo "Installing: ${missing[*]}"

log=$(mktemp) || exit 1
# invoke-rc.d asks this file before it starts a service; 101 is "no".
guard=/usr/sbin/policy-rc.d
if [ -e "$guard" ]; then
	trap 'rm -f "$log"' EXIT
else
	trap 'rm -f "$log" "$guard"' EXIT
	printf '#!/bin/sh\nexit 101\n' >"$guard"
	chmod 755 "$guard"
fi
export DEBIAN_FRONTEND=noninteractive
if ! { apt-get update -q && "${install[@]}" -q; } </dev/null >"$log" 2>&1; then
	tail -n 30 "$log"
	exit 1
fi
echo "Installed."
