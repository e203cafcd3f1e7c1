#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# plot-page.sh JSON OUT - draws bench-page's JSON lines with gnuplot: OUT.svg and
# OUT.png. A panel for each workload on each device that JSON has: random reads
# over threads (and against MADV_RANDOM), throughput over the working set and
# over time, bars for whole files and for the latency of a fault.
set -euo pipefail
export LC_ALL=C

if [ $# -ne 2 ]; then
	sed -n '4,7s/^# //p' "$0" >&2
	exit 2
fi
command -v gnuplot >/dev/null || {
	echo "plot-page.sh: gnuplot is not installed" >&2
	exit 1
}
json=$1 out=$2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# One row a measured line: work dev threads factor method value min max x_random
# p99, and for runs over time a row a window: "window" dev seconds value method.
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
function granule(   g) {
	g = field("granule")
	if (field("work") != "latency" || g + 0 == 0)
		return ""
	return "-" g / 1024 "K" (field("pin") == "1" ? "-1cpu" : "")
}
index($0, "\"method\":") && !index($0, "\"why\":") {
	v = field("work") == "latency" ? "ns" : "rate"
	m = field("method") granule()
	print field("work"), field("dev"), field("threads"), field("factor"),
		m, field(v), field(v "_min"), field(v "_max"),
		field("x_mmap_random"), field("p99")
	if (!match($0, /"windows":\[[^]]*/))
		next
	n = split(substr($0, RSTART + 11, RLENGTH - 11), w, ",")
	for (i = 1; i <= n; i++)
		print "window", field("dev"), i * field("window_s"), w[i], m
}' "$json" >"$tmp/rows"
if [ ! -s "$tmp/rows" ]; then
	echo "plot-page.sh: $json has no measured line" >&2
	exit 1
fi

# lines WORK DEV X Y NAME - gnuplot's arguments for one curve a method; X, Y and
# NAME are columns of the rows
lines()
{
	local m sep=
	while IFS= read -r m; do
		awk -v work="$1" -v dev="$2" -v x="$3" -v y="$4" -v name="$5" \
			-v m="$m" '$1 == work && $2 == dev && $name == m &&
			$y != "-" { print $x, $y }' "$tmp/rows" | sort -n \
			>"$tmp/$1-$2-$4-$m"
		[ -s "$tmp/$1-$2-$4-$m" ] || continue
		printf '%s"%s" using 1:2 with linespoints lw 2 title "%s"' \
			"$sep" "$tmp/$1-$2-$4-$m" "$m"
		sep=', '
	done < <(awk -v work="$1" -v dev="$2" -v name="$5" '$1 == work &&
		$2 == dev && !seen[$name]++ { print $name }' "$tmp/rows")
}

panels=()
# curves WORK DEV X Y NAME SETTINGS
curves()
{
	local l
	l=$(lines "${@:1:5}")
	[ -z "$l" ] || panels+=("$6
plot $l")
}

# bars WORK DEV THREADS SETTINGS
bars()
{
	local data=$tmp/bars-$1-$2-$3
	awk -v work="$1" -v dev="$2" -v t="$3" '$1 == work && $2 == dev &&
		$3 == t { print $5, $6, $7, $8 }' "$tmp/rows" >"$data"
	[ -s "$data" ] || return 0
	panels+=("unset logscale; set format '%g'; unset xlabel; set yrange [0:*]
set xtics rotate by -40 noenhanced
$4
plot '$data' using 0:2:3:4:(0.6):xtic(1) with boxerrorbars notitle
set xtics norotate; set yrange [*:*]; set xtics autofreq")
}

while IFS= read -r dev; do
	axis="unset logscale; set xlabel 'threads'; set logscale x 2"
	curves random "$dev" 3 6 5 "$axis; set logscale y; set format y '%.0s%c'
set ylabel 'touches a second'; set title 'random 4K, $dev' noenhanced"
	curves random "$dev" 3 9 5 "$axis; set yrange [0:3]; set format y '%g'
set ylabel 'speed, MADV_RANDOM = 1' noenhanced
set title 'random 4K against MADV_RANDOM, $dev' noenhanced"
	curves sweep "$dev" 4 6 5 "unset logscale; set yrange [*:*]
set logscale y; set format y '%.0s%c'; set xlabel 'working set over memory'
set ylabel 'touches a second'; set title 'working set, $dev' noenhanced"
	curves window "$dev" 3 4 5 "unset logscale; set yrange [0:*]
set format y '%.0s%c'; set xlabel 'seconds'; set ylabel 'touches a second'
set title 'random 4K over time, $dev' noenhanced"
	for threads in 1 4; do
		bars seq "$dev" $threads "set ylabel 'MB a second'
set title 'whole file, cold, $threads threads, $dev' noenhanced"
	done
	bars latency "$dev" 1 "set logscale y; set yrange [100:*]
set ylabel 'ns, median'; set title 'first touch, in the page cache' noenhanced"
done < <(awk '$1 != "window" && !seen[$2]++ { print $2 }' "$tmp/rows")
[ "${#panels[@]}" -gt 1 ] && cols=2 || cols=1
rows=$(((${#panels[@]} + cols - 1) / cols))

for kind in svg png; do
	case $kind in
	svg) term="svg size $((720 * cols)),$((420 * rows)) background 'white'" ;;
	png) term="png size $((720 * cols)),$((420 * rows))" ;;
	esac
	{
		printf 'set terminal %s\nset output "%s.%s"\n' \
			"$term" "$out" "$kind"
		echo 'set grid; set style fill solid 0.7'
		echo 'set key outside right noenhanced'
		printf 'set multiplot layout %s,%s\n' "$rows" "$cols"
		printf '%s\n' "${panels[@]}"
		echo 'unset multiplot'
	} >"$tmp/script"
	gnuplot "$tmp/script"
done
echo "$out.svg $out.png"
