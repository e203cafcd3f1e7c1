#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# layers.sh ROOT - arch <- base <- mem <- io <- fault <- api: a file includes
# its own folder and folders to the left, spelled with their folder.
#
#  - arch/ includes <stdint.h> and other arch headers only
#  - headers without a folder are arch/'s
#  - <stdatomic.h> stands in base/order.h only, liburcu in base/rcu.h only
#  - the last include of a runtime .c file is "base/ban.h"
#  - shim/ includes faultline.h, base/ and itself; the launcher also the
#    userfaultfd probe, fault/uffd.h
#  - no ISA macro outside arch/ and base/sys.h
. "$(dirname "$0")/lib.sh"

list=$(files 'arch/*.h' 'runtime/*.c' 'runtime/*.h' 'shim/*.c' 'shim/*.h')
[ -n "$list" ] || { echo "no sources found"; exit 1; }
# shellcheck disable=SC2086 # one word a file
awk '
function bad(what) { printf "%s:%d: %s\n", FILENAME, FNR, what }
function end_file() {
	if (cur ~ /^runtime\/.*\.c$/ && last != "base/ban.h")
		printf "%s:%d: last include is not \"base/ban.h\"\n", cur, last_nr
}
BEGIN {
	split("base mem io fault api", n, " ")
	for (i in n)
		rank[n[i]] = i
	isa = "__(x86_64|i386|aarch64|arm|powerpc64|powerpc|s390x|s390|ia64)__" \
		"|__riscv|__ILP32__|__amd64__|__ppc64__"
}
FNR == 1 {
	if (NR > 1)
		end_file()
	cur = FILENAME; last = ""; last_nr = 1
	split(cur, part, "/")
	top = part[1]
	layer = part[2]
}
/^[ \t]*#[ \t]*include(_next)?[ \t]*[<"]/ {
	sys = ($0 ~ /</)
	inc = $0
	sub(/^[^<"]*[<"]/, "", inc)
	sub(/[>"].*/, "", inc)
	if (inc !~ /\.def$/) {
		last = inc; last_nr = FNR
	}
	folder = inc
	if (!sub(/\/.*/, "", folder))
		folder = ""
	if (inc == "stdatomic.h" && cur != "runtime/base/order.h")
		bad("<stdatomic.h> outside base/order.h")
	if (inc ~ /^urcu/ && cur != "runtime/base/rcu.h")
		bad("liburcu outside base/rcu.h")
	if (top == "arch") {
		if (sys ? inc != "stdint.h" : folder != "" && !(folder in isdir))
			bad("arch/ includes " inc)
		next
	}
	if (sys)
		next
	if (top == "shim") {
		if (folder == "base" || inc == "faultline.h")
			next
		if (folder == "" || folder == "cli" || folder == "shim")
			next
		if (cur ~ /^shim\/cli\// && inc == "fault/uffd.h")
			next
		bad("shim/ includes " inc)
		next
	}
	if (inc == "faultline.h")
		next
	if (folder == "") {
		if (inc !~ /_arch\.h$/)
			bad("include without its folder: " inc)
		next
	}
	if (!(folder in rank)) {
		bad("no such layer: " inc)
		next
	}
	if (layer in rank && rank[folder] > rank[layer])
		bad(layer "/ includes " inc ", which is to its right")
}
top != "arch" && cur != "runtime/base/sys.h" &&
/^[ \t]*#[ \t]*(if|ifdef|ifndef|elif)/ && $0 ~ isa {
	bad("ISA macro outside arch/")
}
END { end_file() }
' $list | verdict layers
