#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# plot.sh JSON OUT [THREADS] - draws bench-scan's JSON lines with gnuplot:
# OUT.svg and OUT.png. For files made to size: time per file, and speed against
# the kernel, over the file's size; for trees: bars of time per file.
# THREADS: the number of threads to show; the largest in JSON otherwise.
set -euo pipefail
export LC_ALL=C

if [ $# -lt 2 ]; then
	sed -n '4,7s/^# //p' "$0" >&2
	exit 2
fi
command -v gnuplot >/dev/null || {
	echo "plot.sh: gnuplot is not installed" >&2
	exit 1
}
json=$1 out=$2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# One row a measured line: size touch threads mode us us_min us_max x_kernel set
awk '
function field(name,    at, v) {
	at = index($0, "\"" name "\":")
	if (!at)
		return "-"
	v = substr($0, at + length(name) + 3)
	if (v ~ /^"/) {
		v = substr(v, 2)
		return substr(v, 1, index(v, "\"") - 1)
	}
	sub(/[,}].*/, "", v)
	return v
}
index($0, "\"mode\":") {
	print field("size"), field("touch"), field("threads"), field("mode"),
		field("us"), field("us_min"), field("us_max"),
		field("x_kernel"), "\"" field("set") "\""
}' "$json" >"$tmp/all"
threads=${3:-$(awk '{ print $3 }' "$tmp/all" | sort -n | tail -n 1)}
awk -v t="$threads" '$3 == t' "$tmp/all" >"$tmp/rows"
if [ ! -s "$tmp/rows" ]; then
	echo "plot.sh: $json has no line with $threads threads" >&2
	exit 1
fi
mapfile -t modes < <(awk '!seen[$4]++ { print $4 }' "$tmp/rows")

# lines COLUMN TOUCH - gnuplot's arguments for one curve a mode, and their data
lines()
{
	local m sep=
	for m in "${modes[@]}"; do
		awk -v m="$m" -v touch="$2" \
			'$1 > 0 && $2 == touch && $4 == m && $8 != "-"' \
			"$tmp/rows" | sort -n >"$tmp/$2-$m"
		[ -s "$tmp/$2-$m" ] || continue
		printf '%s"%s" using 1:%s with linespoints lw 2 title "%s"' \
			"$sep" "$tmp/$2-$m" "$1" "$m"
		sep=', '
	done
}

panels=()
head='set grid; set key outside right noenhanced; set style fill solid 0.7'
for touch in all one; do
	how="every byte"
	[ $touch = all ] || how="first page"
	sized=$(lines 5 $touch)
	[ -n "$sized" ] || continue
	axis="set logscale x 2; set format x '%.0b%B'; set xlabel 'file size'"
	panels+=("$axis; set logscale y; set format y '%g'
set ylabel 'microseconds a file'; set title '$how, $threads threads'
plot $sized")
	panels+=("$axis; unset logscale y; set yrange [0:*]
set ylabel 'speed, kernel = 1'; set title 'against the kernel, $how'
plot $(lines 8 $touch), 1 with lines lc 'black' dt 2 notitle
set yrange [*:*]")
done
n=0
while IFS= read -r set; do
	for touch in all one; do
		n=$((n + 1))
		awk -v s="$set" -v touch="$touch" '$1 == 0 && $2 == touch &&
			index($0, "\"" s "\"")' "$tmp/rows" >"$tmp/bars$n"
		[ -s "$tmp/bars$n" ] || continue
		panels+=("unset logscale; set format x '%g'; unset xlabel
set yrange [0:*]; set ylabel 'microseconds a file'
set title '${set##*/} ($touch), $threads threads' noenhanced
set xtics rotate by -30 noenhanced
plot '$tmp/bars$n' using 0:5:6:7:(0.6):xtic(4) with boxerrorbars notitle
set xtics norotate; set yrange [*:*]; set xtics autofreq")
	done
done < <(awk -F'"' '/^0 / && !seen[$2]++ { print $2 }' "$tmp/rows")
rows=$(((${#panels[@]} + 1) / 2))
[ "${#panels[@]}" -gt 1 ] && cols=2 || cols=1

for kind in svg png; do
	case $kind in
	svg) term="svg size $((640 * cols)),$((400 * rows)) background 'white'" ;;
	png) term="png size $((640 * cols)),$((400 * rows))" ;;
	esac
	{
		printf 'set terminal %s\nset output "%s.%s"\n' \
			"$term" "$out" "$kind"
		printf '%s\nset multiplot layout %s,%s\n' "$head" "$rows" "$cols"
		printf '%s\n' "${panels[@]}"
		echo 'unset multiplot'
	} >"$tmp/script"
	gnuplot "$tmp/script"
done
echo "$out.svg $out.png"
