#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# cli.sh FAULTLINE HOLD - the launcher from outside: what it passes on, what it
# refuses and how it says so, profiles, live counters.
set -u
export LC_ALL=C
fl=${1:?usage: $0 FAULTLINE HOLD} hold=${2:?}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
chmod 755 "$tmp"
failed=0
for v in $(env | sed -n 's/^\(FAULTLINE_[A-Z_]*\)=.*/\1/p'); do unset "$v"; done
unset LD_PRELOAD
export XDG_CONFIG_HOME=$tmp/config XDG_RUNTIME_DIR=$tmp/run
mkdir -p "$tmp/config/faultline" "$tmp/run"
chmod 755 "$tmp/config" "$tmp/config/faultline"
chmod 700 "$tmp/run"

bad()
{
	echo "FAILED: $*"
	sed 's/^/  out: /' "$tmp/out"
	sed 's/^/  err: /' "$tmp/err"
	failed=1
}
# want STATUS COMMAND... - output in $tmp/out and $tmp/err
want()
{
	local status=$1 got
	shift
	"$@" >"$tmp/out" 2>"$tmp/err" </dev/null
	got=$?
	[ "$got" -eq "$status" ] || bad "$*: exit status $got, not $status"
}
says() { grep -q -- "$1" "$tmp/err" || bad "no '$1' on standard error"; }
quiet() { [ ! -s "$tmp/err" ] || bad "standard error is not empty"; }
lines()
{
	local n
	n=$(wc -l <"$tmp/err")
	[ "$n" -eq "$1" ] || bad "$n lines on standard error, not $1"
}

# Status, signals, arguments, descriptors.
want 0 "$fl" run -- true
quiet
want 7 "$fl" run sh -c 'exit 7'
want 143 "$fl" run -- sh -c 'kill -TERM $$'
# shellcheck disable=SC2016 # for the inner shell
want 0 "$fl" run --mem=64M -- sh -c 'printf "<%s>" "$@"' x 'a b' '' --mem=1
[ "$(cat "$tmp/out")" = '<a b><><--mem=1>' ] || bad "arguments changed"
# Demand regions need some, far from a program's own.
want 0 "$fl" run -- ls /proc/self/fd
awk '$1 < 512' "$tmp/out" >"$tmp/low"
want 0 "$fl" run --large=kernel -- ls /proc/self/fd
cmp -s "$tmp/low" "$tmp/out" || bad "a descriptor with a low number"
under=$(cat "$tmp/out")
want 0 ls /proc/self/fd
[ "$under" = "$(cat "$tmp/out")" ] || bad "a descriptor is left open"

# What cannot be run.
want 125 "$fl" run
says 'no program'
want 125 "$fl" run --mem=lots true
says '--mem=lots: the value is not of .*size'
want 125 "$fl" run --high=101 true
says '--high=101: the value is out of range (1 to 100)'
want 125 "$fl" run --resident-max=9M true
says 'out of range (0 to 8M)'
want 125 "$fl" run --shared=maybe true
says 'kernel|snapshot'
want 125 "$fl" run --nosuch=1 true
says 'nosuch'
want 125 "$fl"
want 125 "$fl" nosuch
says "no command 'nosuch'"
want 127 "$fl" run -- fl-no-such-program
says 'no such program'
want 127 "$fl" run -- "$tmp/none"
want 126 "$fl" run -- "$tmp"
cp "$hold" "$tmp/prog"
chmod 644 "$tmp/prog"
want 126 "$fl" run -- "$tmp/prog"
says 'ermission denied'
chmod 4755 "$tmp/prog"
want 126 "$fl" run -- "$tmp/prog"
says 'set-user-ID'
chmod 2755 "$tmp/prog"
want 126 "$fl" run -- "$tmp/prog"
says 'set-group-ID'
chmod 755 "$tmp/prog"
want 0 "$fl" run -- "$tmp/prog"
echo 'int main(void) { return 0; }' >"$tmp/s.c"
${CC:-cc} -static -o "$tmp/static" "$tmp/s.c" || bad "no static program made"
want 126 "$fl" run -- "$tmp/static"
says 'statically linked'
printf '#!%s\n' "$tmp/static" >"$tmp/script"
chmod 755 "$tmp/script"
want 126 "$fl" run -- "$tmp/script"
says 'statically linked'
printf '#!/usr/bin/env %s\n' "$tmp/static" >"$tmp/script"
want 126 "$fl" run -- "$tmp/script"
says 'statically linked'
printf '#!/bin/sh\nexit 9\n' >"$tmp/script"
want 9 "$fl" run -- "$tmp/script"
printf 'exit 8\n' >"$tmp/script"
want 8 "$fl" run -- "$tmp/script"
printf '#!%s\n' "$tmp/none" >"$tmp/script"
want 127 "$fl" run -- "$tmp/script"
says 'its interpreter is not there'
# e_machine and e_ident[EI_DATA] of another.
cp "$hold" "$tmp/foreign"
printf '\050\000' | dd of="$tmp/foreign" bs=1 seek=18 conv=notrunc 2>/dev/null
want 126 "$fl" run -- "$tmp/foreign"
says 'arm program; the preload is for'
printf '\002' | dd of="$tmp/foreign" bs=1 seek=5 conv=notrunc 2>/dev/null
want 126 "$fl" run -- "$tmp/foreign"
says 'other byte order'
head -c 40 "$hold" >"$tmp/foreign"
want 126 "$fl" run -- "$tmp/foreign"
says 'damaged'

# LD_PRELOAD: first, once, with what the user had.
want 0 env LD_PRELOAD=/lib/libfl-none.so "$fl" run -- "$fl" run -- env
pre=$(sed -n 's/^LD_PRELOAD=//p' "$tmp/out")
case $pre in
*/libfaultline-preload.so:/lib/libfl-none.so) ;;
*) bad "LD_PRELOAD is '$pre'" ;;
esac
[ "$(grep -o libfaultline-preload <<<"$pre" | wc -l)" -eq 1 ] ||
	bad "preloaded twice"

# Options: flags, environment, profile files, in that order.
want 0 "$fl" run --summary -- "$hold" 5
says '5 file and 0 anonymous mappings served'
want 0 "$fl" run --summary -- cat /dev/null # closes its standard error
says 'mappings served'
want 0 "$fl" run --resident-max=0 --summary -- "$hold" 5
says ': 0 file and 0 anonymous .*, 5 left to the kernel'
want 0 "$fl" run --resident-max=0 --large=demand --log=info -- "$hold" 5
says 'demand regions: ' # which delivery, or why there are none
lines 1
want 0 "$fl" run --large=demand --log=info -- "$hold" 5
quiet
want 0 "$fl" run --off --summary -- "$hold" 5
quiet
want 0 env FAULTLINE_NOSUCH=1 FAULTLINE_LOW=x "$fl" run -- "$hold" 5
says 'FAULTLINE_NOSUCH=1 is ignored'
says 'FAULTLINE_LOW=x is ignored'
lines 2
want 0 env FAULTLINE_NOSUCH=1 FAULTLINE_LOG=quiet "$fl" run -- "$hold" 5
quiet
conf=$tmp/config/faultline/test.conf
printf '[%s]\nsummary = 1\n[other]\nlow = no\n' "${hold##*/}" >"$conf"
chmod 644 "$conf"
want 0 "$fl" run -- "$hold" 5
says 'mappings served'
lines 1
want 0 "$fl" run --summary=0 -- "$hold" 5
quiet
want 0 env FAULTLINE_SUMMARY=0 "$fl" run -- "$hold" 5
quiet
want 0 "$fl" run --profile=none -- "$hold" 5
quiet
want 0 "$fl" run --profile=other -- "$hold" 5
says 'test.conf:4: .low. is ignored'
chmod 666 "$conf"
want 0 "$fl" run -- "$hold" 5
says 'test.conf is ignored: others than root and you'
lines 1
rm "$conf"

# Live counters.
mkfifo "$tmp/in" "$tmp/ready"
start()
{
	"$fl" run "$@" -- "$hold" 25 <"$tmp/in" >"$tmp/ready" &
	pid=$!
	exec 8>"$tmp/in" 9<"$tmp/ready"
	read -r _ <&9
}
stop()
{
	exec 8>&- 9<&-
	wait "$pid" 2>/dev/null
}
start
page=$tmp/run/faultline/$pid
[ "$(stat -c %a "$page")" = 600 ] || bad "the page's mode"
[ "$(stat -c %a "${page%/*}")" = 700 ] || bad "the directory's mode"
want 0 "$fl" stat "$pid"
grep -qE '^  maps_file +25 ' "$tmp/out" || bad "no 25 maps_file"
grep -qE '^  live_regions +1 ' "$tmp/out" || bad "no live region"
want 0 "$fl" stat --json "$pid"
grep -q "^{\"pid\":$pid,.*\"maps_file\":25,.*}\$" "$tmp/out" || bad "JSON"
want 0 "$fl" stat
grep -qE "^ *$pid +${hold##*/} +25 " "$tmp/out" || bad "not in the list"
want 0 env XDG_RUNTIME_DIR="$tmp/none" "$fl" stat
grep -qE "^ *$pid +${hold##*/} +25 " "$tmp/out" ||
	bad "not in the list, its page being elsewhere"
# Without 8 and 9, or it would keep the program from ending.
"$fl" stat --watch=0.05 "$pid" >"$tmp/out" 2>"$tmp/err" 8>&- 9<&- &
watcher=$!
for _ in $(seq 100); do
	[ "$(grep -c maps_file "$tmp/out")" -ge 2 ] && break
	sleep 0.05
done
stop
wait "$watcher" || bad "--watch failed when the program ended"
[ "$(grep -c maps_file "$tmp/out")" -ge 2 ] || bad "--watch showed it once"
[ ! -e "$page" ] || bad "the page is left after exit"
want 1 "$fl" stat "$pid"
says 'no such process'
start
page=$tmp/run/faultline/$pid
kill -KILL "$pid"
stop
[ -e "$page" ] || bad "no page left by a killed program"
want 0 "$fl" stat
[ ! -e "$page" ] || bad "the page of a dead program is not pruned"
start --stat=0
[ ! -e "$tmp/run/faultline/$pid" ] || bad "a page in spite of stat=0"
want 1 "$fl" stat "$pid"
says 'shows no counters'
stop
want 1 "$fl" stat $$
says 'does not run under the pager'
for arg in abc 0 -1 12x 99999999999; do
	want 125 "$fl" stat -- "$arg"
	says "'$arg' is not a process number"
done
want 125 "$fl" stat --watch=often 1
says 'watch=often'
want 125 "$fl" stat --watch=1
says 'needs a process number'

# Limits: the program runs as before.
want 0 sh -c 'ulimit -f 4; exec "$@"' x "$fl" run --summary -- "$hold" 5
says '5 file and'
want 0 sh -c 'ulimit -n 5; exec "$@"' x "$fl" run --summary -- "$hold" 5
says '5 file and'
want 0 sh -c 'ulimit -v 1000000; exec "$@"' x "$fl" run --summary -- "$hold" 5
says '5 file and'
want 0 sh -c 'ulimit -v 20000; exec "$@"' x "$fl" run -- "$hold" 5

# The rest.
want 0 "$fl" --version
grep -qE '^faultline [0-9]+\.[0-9]+\.[0-9]+$' "$tmp/out" || bad "version"
want 0 "$fl" --help
grep -q 'faultline doctor' "$tmp/out" || bad "help"
want 0 "$fl" run --help
for opt in mem high low resident_max anon_max shared summary profile; do
	grep -q -- "--$opt" "$tmp/out" || bad "help lacks --$opt"
done
want 0 "$fl" doctor
for what in 'page size' 'two views' 'memory budget' rseq membarrier seccomp \
	'huge pages' 'guard pages' overcommit 'trial run' userfaultfd \
	/dev/userfaultfd 'userfaultfd\(2\)' 'user mode only' SIGBUS \
	SIGBUS_USER MINOR_SHMEM MOVE POISON WP_ASYNC cachestat \
	process_madvise io_uring 'demand paging'; do
	grep -qE "^(ok|note) +$what " "$tmp/out" || bad "doctor lacks $what"
done
want 1 sh -c 'ulimit -v 60000; exec "$@"' x "$fl" doctor
grep -q '^BAD  *trial run  *the pager cannot start' "$tmp/out" ||
	bad "doctor misses a low limit"
want 1 env FAULTLINE_OFF=1 "$fl" doctor
grep -q '^BAD .*off is set' "$tmp/out" || bad "doctor misses the option off"

[ "$failed" -eq 0 ] && echo "all as wanted"
exit "$failed"
