#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# install.sh BUILD_DIR CMAKE PREFIX LIBDIR CC - installs into an empty folder;
# everything is there, no dead manual link; a program that knows only what
# pkg-config says builds and runs, dynamically and against the archive; so do the
# examples, from where they are installed.
set -u
build=$1 cmake=$2 prefix=$3 libdir=$4 cc=$5
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
bad=0

fail()
{
	echo "FAILED: $*"
	bad=1
}

DESTDIR=$tmp/d "$cmake" --install "$build" >"$tmp/log" || {
	cat "$tmp/log"
	exit 1
}
top=$tmp/d$prefix
for f in bin/faultline "$libdir/libfaultline.so" "$libdir/libfaultline.so.0" \
	"$libdir/libfaultline-preload.so" "$libdir/libfaultline.a" \
	"$libdir/pkgconfig/faultline.pc" include/faultline.h \
	share/faultline/faultline.map share/faultline/profiles.d/rg.conf \
	share/faultline/profiles.d/b3sum.conf share/man/man1/faultline.1 \
	share/man/man3/faultline.3 share/man/man7/faultline.7; do
	[ -e "$top/$f" ] || fail "$f is not installed"
done
if [ -e "$build/stores/zstd/libfaultline-zstd.so" ]; then
	for f in bin/faultline-zstd-pack include/faultline-zstd.h \
		"$libdir/libfaultline-zstd.so.0" \
		"$libdir/pkgconfig/faultline-zstd.pc"; do
		[ -e "$top/$f" ] || fail "$f is not installed"
	done
fi
for f in "$top"/share/man/man*/*; do
	so=$(sed -n 's/^\.so //p' "$f")
	[ -z "$so" ] || [ -e "$top/share/man/$so" ] || fail "$f: no $so"
done
soname=$(readelf -d "$top/$libdir/libfaultline.so" |
	sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
[ "$soname" = libfaultline.so.0 ] || fail "SONAME is $soname"
# shellcheck disable=SC2016 # the loader's $ORIGIN
readelf -d "$top/$libdir/libfaultline-preload.so" |
	grep -q 'RUNPATH.*\[\$ORIGIN\]' ||
	fail "the preload does not look for the library beside itself"

export PKG_CONFIG_PATH=$top/$libdir/pkgconfig PKG_CONFIG_SYSROOT_DIR=$tmp/d
read -ra flags < <(pkg-config --cflags --libs faultline)
if "$cc" -std=c99 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -pedantic -Werror \
	-o "$tmp/user" "$here/user.c" "${flags[@]}"; then
	LD_LIBRARY_PATH=$top/$libdir "$tmp/user" "$here/user.c" ||
		fail "the dynamic program exits with $?"
else
	fail "no program with: ${flags[*]}"
fi
read -ra flags < <(pkg-config --cflags faultline)
if "$cc" -std=c99 -D_POSIX_C_SOURCE=200809L -o "$tmp/user.a" "$here/user.c" \
	"${flags[@]}" "$top/$libdir/libfaultline.a" -lurcu-bp -lurcu-common \
	-pthread; then
	"$tmp/user.a" "$here/user.c" ||
		fail "the program with the archive exits with $?"
else
	fail "no program with the archive"
fi
if nm -g --defined-only "$top/$libdir/libfaultline.a" |
	awk 'NF == 3 && $3 !~ /^fl_/ { print; found = 1 } END { exit !found }'; then
	fail "the archive shows these internal names"
fi

# The examples, as a reader builds them.
cp -r "$top/share/doc/faultline/examples" "$tmp/examples" ||
	fail "no examples"
if make -s -C "$tmp/examples" CC="$cc" CFLAGS="-O2 -Wall -Wextra -Werror"; then
	for one in scan-tree own-store; do
		LD_LIBRARY_PATH=$top/$libdir PATH=$top/bin:$PATH \
			"$tmp/examples/check.sh" "$tmp/examples" $one
		rc=$?
		[ $rc -eq 0 ] || [ $rc -eq 77 ] ||
			fail "the example $one exits with $rc"
	done
else
	fail "the examples do not build"
fi

# What was installed preloads from where it is.
if [ -z "$(command -v cmp)" ]; then
	fail "no cmp"
fi
LD_PRELOAD=$top/$libdir/libfaultline-preload.so cmp "$here/user.c" \
	"$here/user.c" >"$tmp/out" 2>&1 || fail "cmp under the preload"
[ ! -s "$tmp/out" ] || fail "cmp under the preload says: $(cat "$tmp/out")"
exit $bad
