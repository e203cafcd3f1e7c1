#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# record.sh BENCH-POLICY OUT-DIR [ACCESSES] - record the page traces kept here:
# what programs read of the files they map (record.c), the first 40,000 page
# accesses of each.
#
#   sqlite   a 20 MiB database, mmap_size set: skewed lookups by row and by
#            index, ranges, one scan of a table
#   git      log -p --stat over a pack of 1500 commits on 400 files
#   lld      a link of all of libcrypto.a, several threads
#   lmdb     lookups in a 20 MiB tree: one in five uniform, the rest skewed
#
# Random numbers differ from run to run; the traces do not depend on them much.
set -eu -o pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
policy=$(realpath "${1:?usage: $0 BENCH-POLICY OUT-DIR [ACCESSES]}")
mkdir -p "${2:?usage: $0 BENCH-POLICY OUT-DIR [ACCESSES]}"
out=$(realpath "$2")
max=${3:-40000}
cc=${CC:-cc}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
$cc -O2 -shared -fPIC -o record.so "$here/record.c" -ldl

# record NAME PROGRAM COMMAND... - PROGRAM: the name of the process to watch.
record()
{
	local name=$1 program=$2
	shift 2
	rm -f raw
	LD_PRELOAD=$tmp/record.so PL_PROGRAM=$program PL_RAW=$tmp/raw \
		"$@" >log 2>&1 || {
		echo "$name failed:" >&2
		tail -n 3 log >&2
		exit 1
	}
	"$policy" --pack raw "$out/$name.trace.bin" "$max"
}

sqlite3 t.db >log <<END
PRAGMA page_size=4096; PRAGMA journal_mode=off; PRAGMA synchronous=off;
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, grp INTEGER, body TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<40000)
	INSERT INTO item SELECT i, hex(randomblob(8)), (i*7919)%500,
	hex(randomblob(100+(i*31)%150)) FROM n;
CREATE INDEX item_name ON item(name);
CREATE INDEX item_grp ON item(grp);
CREATE TABLE sale(id INTEGER PRIMARY KEY, item INTEGER, day INTEGER, n INTEGER);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<150000)
	INSERT INTO sale SELECT i, 1+abs(random())%40000, i/500, i%9 FROM n;
CREATE INDEX sale_item ON sale(item);
END
cat >lookups.sql <<END
PRAGMA mmap_size=1073741824; PRAGMA cache_size=10; PRAGMA temp_store=memory;
CREATE TEMP TABLE pick AS WITH RECURSIVE n(i) AS
	(SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<4000)
	SELECT 1+(abs(random())%200)*(abs(random())%200) AS id FROM n;
SELECT sum(length(body)) FROM pick CROSS JOIN item ON item.id=pick.id
	WHERE pick.rowid<2000;
SELECT count(*), sum(n) FROM pick CROSS JOIN sale ON sale.item=pick.id
	WHERE pick.rowid<1500;
SELECT day, sum(n) FROM sale WHERE id BETWEEN 70000 AND 80000 GROUP BY day;
SELECT sum(length(body)) FROM item;
SELECT grp, count(*) FROM item WHERE grp BETWEEN 40 AND 44 GROUP BY grp;
SELECT sum(length(body)) FROM pick CROSS JOIN item ON item.id=pick.id;
SELECT count(*), sum(n) FROM pick CROSS JOIN sale ON sale.item=pick.id
	WHERE pick.rowid>3500;
END
record sqlite sqlite3 sqlite3 t.db '.read lookups.sql'

git init -q g
cat >history.py <<'END'
import random
import sys

random.seed(3)
w = sys.stdout.buffer
letters = 'abcdefghij klmnopqrst'


def line():
    return ''.join(random.choices(letters, k=60))


files = {'d%d/e%d/f%d.c' % (i % 12, i % 5, i):
         [line() for _ in range(random.randint(20, 150))] for i in range(400)}
names = list(files)
for c in range(1500):
    w.write(b'commit refs/heads/main\ncommitter A <a@b> %d +0000\n'
            b'data 1\nx\n' % (1600000000 + c * 600))
    for n in names if c == 0 else random.sample(names[:60], 2) + \
            random.sample(names, 1):
        for _ in range(6 if c else 0):
            files[n][random.randrange(len(files[n]))] = line()
        d = '\n'.join(files[n]).encode()
        w.write(b'M 100644 inline %s\ndata %d\n%s\n' % (n.encode(), len(d), d))
END
python3 history.py | git -C g fast-import --quiet
git -C g repack -adq --depth=20
record git git git -C g log -p --stat main

archive=$($cc -print-file-name=libcrypto.a)
echo 'int main(void) { return 0; }' >m.c
$cc -c m.c
record lld ld.lld "$cc" -fuse-ld=lld -o m m.o -Wl,--whole-archive "$archive" \
	-Wl,--no-whole-archive -ldl -lpthread

cat >walk.c <<'END'
#include <lmdb.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	unsigned int n = 60000, load = argc > 2, r;
	char key[32], val[300];
	MDB_env *e;
	MDB_txn *t;
	MDB_dbi d;
	MDB_val k = { 8, key }, v = { 0, val };

	memset(val, 'x', sizeof(val));
	mdb_env_create(&e);
	mdb_env_set_mapsize(e, 1ul << 28);
	if (mdb_env_open(e, argv[1], MDB_NOSUBDIR | (load ? 0 : MDB_RDONLY),
			 0644) ||
	    mdb_txn_begin(e, NULL, load ? 0 : MDB_RDONLY, &t) ||
	    mdb_dbi_open(t, NULL, 0, &d))
		return 1;
	srand48(1);
	for (unsigned int i = 0; i < n; i++) {
		r = load ? i : drand48() < .2 ? n * drand48() :
						pow(n, drand48());
		snprintf(key, sizeof(key), "%08x", r % n * 2654435761u);
		v.mv_size = 100 + i % 200;
		if (load ? mdb_put(t, d, &k, &v, 0) :
			   i < n / 3 && mdb_get(t, d, &k, &v))
			return 1;
	}
	return load ? mdb_txn_commit(t) : 0;
}
END
$cc -O2 -o walk walk.c -llmdb -lm
./walk l.db load
record lmdb walk ./walk l.db
ls -l "$out"/*.trace.bin
