#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# order.sh ROOT - every non-relaxed atomic stands at most six lines below a tag
# [MO:name]; every tag has at least two such sites, or one read-modify-write
# whose row names one function as both writer and reader; tags and the rows of
# docs/ordering.md are the same set.
. "$(dirname "$0")/lib.sh"

list=$(files 'arch/*.h' 'runtime/*.c' 'runtime/*.h' 'shim/*.c' 'shim/*.h' |
	grep -v '^runtime/base/order\.h$')
if [ -z "$list" ] || [ ! -f docs/ordering.md ]; then
	echo "no sources or no docs/ordering.md"
	exit 1
fi
# shellcheck disable=SC2086 # one word a file
awk '
function sites(s,   n) {
	n = gsub(op, "", s)
	return n
}
# The line without comments and strings; in_comment spans lines.
function code(s,   out, i) {
	out = ""
	while (s != "") {
		if (in_comment) {
			i = index(s, "*/")
			if (!i)
				return out
			in_comment = 0
			s = substr(s, i + 2)
			continue
		}
		i = index(s, "/*")
		if (!i)
			return out s
		out = out substr(s, 1, i - 1)
		s = substr(s, i + 2)
		in_comment = 1
	}
	return out
}
BEGIN {
	op = "(ld_(acq|sc)|st_(rel|sc)" \
		"|(xchg|cas|add|sub|or|and)_(acq_rel_acq|acq_rel|acq|rel|sc)" \
		"|fence_[a-z]+)[ \t]*\\(" \
		"|__ATOMIC_(ACQUIRE|RELEASE|ACQ_REL|SEQ_CST)" \
		"|memory_order_(acquire|release|acq_rel|seq_cst)" \
		"|__sync_[a-z_]+[ \t]*\\("
}
FILENAME == "docs/ordering.md" {
	if ($0 ~ /^\| *`[a-z0-9-]+` *\|/) {
		t = $0
		sub(/^\| *`/, "", t); sub(/`.*/, "", t)
		row[t] = FNR
		split($0, col, "|")
		sub(/^ *`/, "", col[3]); sub(/`.*/, "", col[3])
		sub(/^ *`/, "", col[4]); sub(/`.*/, "", col[4])
		self[t] = (col[3] == col[4])
	}
	next
}
FNR == 1 { in_comment = 0; tag_nr = -100; tags = "" }
{
	rest = $0
	while (match(rest, /\[MO:[a-z0-9-]+\]/)) {
		t = substr(rest, RSTART + 4, RLENGTH - 5)
		rest = substr(rest, RSTART + RLENGTH)
		if (tag_nr != FNR)
			tags = ""
		tag_nr = FNR
		tags = tags " " t
		if (!(t in first))
			first[t] = FILENAME ":" FNR
	}
	n = sites(code($0))
	if (!n)
		next
	if (FNR - tag_nr > 6) {
		printf "%s:%d: ordered atomic without a tag above it\n", \
			FILENAME, FNR
		next
	}
	m = split(tags, each, " ")
	for (i = 1; i <= m; i++) {
		count[each[i]] += n
		if ($0 ~ /(xchg|cas|add|sub|or|and)_(acq_rel|sc)/)
			rmw[each[i]] = 1
	}
}
END {
	for (t in first) {
		if (count[t] < 2 && !(self[t] && rmw[t]))
			printf "%s: tag %s has %d site(s), a pair has two\n", \
				first[t], t, count[t]
		if (!(t in row))
			printf "%s: tag %s is not in docs/ordering.md\n", \
				first[t], t
	}
	for (t in row)
		if (!(t in first))
			printf "docs/ordering.md:%d: tag %s is nowhere\n", \
				row[t], t
}
' docs/ordering.md $list | sort | verdict order
