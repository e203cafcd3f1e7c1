# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash disable=SC2034,SC2154
#
# rows.sh - the programs of the matrix. For each:
#   need_NAME   the commands it takes
#   prep_NAME   what has to be made first, once (optional)
#   row_NAME    runs the measured command through t and prints what has to be
#               the same with and without the preload; returns its status, or
#               99 where the result is wrong in itself
# $C is the corpus, $D the signatures, $W the row's own directory.

ROWS=(yara1 yara302 ag rg rg_plain b3sum ugrep ugrep_plain clamscan clamd
	clamd_fdpass mold lld clang git sqlite lmdb fio python3 node java file
	tar)
QUICK=(yara1 yara302 ag rg b3sum ugrep clamscan mold lld clang git sqlite lmdb
	fio python3 node java)

need_yara1=yara
row_yara1() { t yara -r -p 8 "$W/one.yar" "$C/small" | sort; }
prep_yara1()
{
	echo 'rule elf { condition: uint32(0) == 0x464c457f }' >"$W/one.yar"
}
need_yara302=yara
row_yara302()
{
	t yara -s -r -p 8 "$D/rules.yar" "$C/small" | sort
	t yara -r -p 8 "$D/rules.yar" "$C/edge" | sort
	t yara -r -p 2 "$D/rules.yar" "$C/hit" | sort
}

word='include|static|window|license'
need_ag=ag
row_ag() { t ag --workers 8 -u -c "$word" "$C/small" "$C/med" "$C/edge" | sort; }
need_rg=rg
row_rg()
{
	t rg -j 8 --mmap -uuu -a -c "$word" "$C/small" "$C/med" "$C/edge" | sort
}
need_rg_plain=rg
row_rg_plain() { t rg -j 8 -uuu -c "$word" "$C/small" "$C/med" | sort; }
need_b3sum=b3sum
row_b3sum()
{
	find "$C/small" "$C/med" "$C/big" "$C/edge" -type f | sort >"$W/list"
	mapfile -t list <"$W/list"
	t b3sum "${list[@]}"
}
need_ugrep=ugrep
row_ugrep()
{
	t ugrep -r -J 8 --mmap -c -E "$word" "$C/small" "$C/med" "$C/edge" |
		sort
}
need_ugrep_plain=ugrep
row_ugrep_plain() { t ugrep -r -J 8 -c -E "$word" "$C/small" | sort; }

# hits_all FILE - 99 unless FILE names every file of hit
hits_all()
{
	local n
	n=$(grep -c "^$C/hit/.* FOUND$" "$1")
	echo "hit: $n found"
	[ "$n" -eq "$(find "$C/hit" -type f | wc -l)" ] || return 99
}
need_clamscan=clamscan
row_clamscan()
{
	local part=(hit)
	[ "$quick" -eq 1 ] || part+=(sub made edge)
	t clamscan -d "$D/clam" -r --no-summary --max-filesize=200M \
		--max-scansize=400M "${part[@]/#/$C/}" | sort >"$W/found"
	cat "$W/found"
	hits_all "$W/found"
}
clamd_row()
{
	local d=$W/$MODE ret=0
	rm -rf "$d"
	clamd_conf "$d" "$CORPUS_ROOT" yes 8
	clamd_start "$d" || return 99
	clamdscan -c "$d/clamd.conf" "$@" -i --no-summary "$C/hit" "$C/sub" \
		"$C/made" | sort >"$W/found"
	clamdscan -c "$d/clamd.conf" "$@" -i --no-summary "$C/hit" |
		sort >>"$W/found"
	clamd_stop || ret=99
	cat "$W/found"
	sort -u "$W/found" >"$W/once"
	hits_all "$W/once" || ret=99
	return $ret
}
need_clamd="clamd clamdscan"
row_clamd() { clamd_row -m; }
need_clamd_fdpass="clamd clamdscan"
row_clamd_fdpass() { clamd_row -m --fdpass; }

# objects - C sources in $W, and objects of them
sources()
{
	python3 - "$W" <<-'PY'
	import random, sys
	rnd = random.Random(7)
	for i in range(24):
	    with open("%s/u%02d.c" % (sys.argv[1], i), "w") as f:
	        f.write("#include <stdio.h>\n#include <string.h>\n")
	        for k in range(40):
	            f.write("static const char s%d[] = \"%s\";\n" % (
	                k, "%0512x" % rnd.getrandbits(2048)))
	            f.write("unsigned int f%d_%d(unsigned int x)\n{\n\treturn "
	                    "x * %du + (unsigned int)strlen(s%d);\n}\n" % (
	                        i, k, rnd.getrandbits(31), k))
	main = "#include <stdio.h>\n"
	body = ""
	for i in range(24):
	    main += "unsigned int f%d_7(unsigned int);\n" % i
	    body += "\tx = f%d_7(x);\n" % i
	with open(sys.argv[1] + "/main.c", "w") as f:
	    f.write(main + "int main(void)\n{\n\tunsigned int x = 1;\n\n" + body
	            + "\tprintf(\"%u\\n\", x);\n\treturn 0;\n}\n")
	PY
}
objects()
{
	sources && (cd "$W" && gcc -g -O1 -c ./*.c)
}
link_row() # LINKER OPTION...
{
	local ld=-fuse-ld=$1
	shift
	(
		cd "$W" && rm -f prog prog2
		t gcc "$ld" "$@" -static -o prog ./*.o || exit
		t gcc "$ld" "$@" -o prog2 ./*.o || exit
		sha256sum prog prog2
		./prog
		./prog2
	)
}
need_mold="mold gcc python3"
prep_mold() { objects; }
row_mold() { link_row mold -Wl,--no-fork; }
need_lld="ld.lld gcc python3"
prep_lld() { objects; }
row_lld() { link_row lld; }

clang=$(command -v clang clang-14 clang-16 | head -n 1)
need_clang="${clang:-clang} python3"
prep_clang()
{
	local n
	sources
	# Sources that end at the end of a page: the compiler counts on a zero
	# byte behind the last one.
	for n in 4095 4096 4097 20479 20480 20481; do
		{
			echo "int e$n(void) { return $n; }"
			head -c "$n" /dev/zero | tr '\0' ' '
		} | head -c $((n - 1)) >"$W/edge$n.c"
		echo >>"$W/edge$n.c"
	done
}
row_clang()
{
	(
		cd "$W" && rm -f ./*.o
		for f in *.c; do
			t "$clang" -O1 -g -c "$f" || exit
		done
		sha256sum ./*.o
	)
}

need_git=git
prep_git()
{
	cp -r "$C/small" "$W/repo"
	(
		cd "$W/repo" || exit
		git init -q
		git config user.name test
		git config user.email test@example.org
		git add .
		git commit -q -m one
		find . -name '*0_*' ! -path './.git/*' -type f -exec \
			sh -c 'for f; do echo more >>"$f"; done' sh {} +
		git commit -q -a -m two
		git repack -q -a -d
	)
}
row_git()
{
	(
		cd "$W/repo" || exit
		t git fsck --full --strict --no-progress
		t git log --stat --format=%s
		t git grep -c include HEAD~1
		t git diff --numstat HEAD~1
		t git archive HEAD | sha256sum
	)
}

need_sqlite=sqlite3
prep_sqlite()
{
	sqlite3 "$W/base.db" "
	create table t(id integer primary key, k text, v blob);
	with recursive n(i) as (select 1 union all select i + 1 from n
		where i < 20000)
	insert into t select i, hex(i * 7919), zeroblob(300) from n;
	create index k on t(k);"
}
row_sqlite()
{
	cp "$W/base.db" "$W/run.db"
	t sqlite3 "$W/run.db" "
	pragma mmap_size = 268435456;
	select count(*), sum(length(v)), min(k), max(k) from t;
	update t set v = cast(k as blob) where id % 3 = 0;
	select count(*) from t where length(v) < 300;
	delete from t where id % 7 = 0;
	vacuum;
	insert into t(k, v) select k, k || k from t where id % 5 = 0;
	pragma integrity_check;
	select sum(length(k) + length(v)) from t;"
	sqlite3 "$W/run.db" .dump | sha256sum
}

need_lmdb="mdb_load mdb_dump mdb_stat mdb_copy"
prep_lmdb()
{
	{
		printf 'VERSION=3\nformat=print\ntype=btree\nmapsize=1073741824\n'
		printf 'maxreaders=126\ndb_pagesize=4096\nHEADER=END\n'
		awk 'BEGIN { for (i = 0; i < 20000; i++)
			printf " key%06d\n value %d %0*d\n", i, i * 31, i % 300,
				i }'
		echo DATA=END
	} >"$W/in"
}
row_lmdb()
{
	rm -rf "$W/db" "$W/copy"
	mkdir "$W/db" "$W/copy"
	t mdb_load -f "$W/in" "$W/db"
	t mdb_stat -e "$W/db"
	t mdb_dump "$W/db" | sha256sum
	t mdb_copy -c "$W/db" "$W/copy"
	mdb_dump "$W/copy" | sha256sum
}

need_fio=fio
row_fio()
{
	local rw how
	for rw in write randwrite randrw; do
		for how in "--size=32M --bs=4k" "--size=8M --bs=16k --thread"; do
			rm -rf "$W/f"
			mkdir "$W/f"
			# shellcheck disable=SC2086
			t fio --name=v --ioengine=mmap --rw=$rw $how \
				--numjobs=2 --verify=crc32c --verify_fatal=1 \
				--directory="$W/f" --minimal | cut -d ';' -f 1-5
		done
	done
}

need_python3=python3
row_python3()
{
	t python3 - "$C/small" <<-'PY'
	import hashlib, json, mmap, multiprocessing, os, sys

	def digest(path):
	    size = os.path.getsize(path)
	    if not size:
	        return path, 0, ""
	    with open(path, "rb") as f:
	        with mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ,
	                       flags=mmap.MAP_PRIVATE) as m:
	            return path, size, hashlib.sha256(m).hexdigest()

	paths = sorted(os.path.join(d, n) for d, _, names in os.walk(sys.argv[1])
	               for n in names)
	here = [digest(p) for p in paths]
	with multiprocessing.get_context("fork").Pool(4) as pool:
	    there = pool.map(digest, paths, chunksize=16)
	assert here == there
	anon = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
	assert anon[:] == bytes(1 << 20)
	anon[4095:4098] = b"abc"
	anon.resize(2 << 20)
	assert anon[4094:4099] == b"\0abc\0" and not any(anon[1 << 20:])
	print(json.dumps(here))
	PY
}

need_node=node
row_node()
{
	t node -e '
	const fs = require("fs"), path = require("path");
	const crypto = require("crypto");
	function walk(d) {
		return fs.readdirSync(d, { withFileTypes: true }).flatMap((e) =>
			e.isDirectory() ? walk(path.join(d, e.name)) :
				[path.join(d, e.name)]);
	}
	const all = walk(process.argv[1]).sort().map((p) => [p,
		crypto.createHash("sha256").update(fs.readFileSync(p))
			.digest("hex")]);
	console.log(JSON.stringify(all));
	console.log(new Array(1e6).fill(1).map((x, i) => x * i % 7)
		.reduce((a, b) => a + b));' "$C/small"
}

need_java=java
row_java() { t java -version 2>&1 | grep -v '^Picked up'; }

need_file="file"
row_file() { t file "$C"/sub/* "$C"/edge/* "$C"/made/*; }

need_tar="tar gzip"
row_tar() { t tar -C "$C" -czf - small | gzip -dc | sha256sum; }
