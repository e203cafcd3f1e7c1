#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# selftest.sh - each check passes a small sound tree, and fails, for the right
# reason, on the same tree with one fault put in.
set -u
lint=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0

spdx="SPDX-License-Identifier: LGPL-2.1-or-later"

put()
{
	mkdir -p "$(dirname "$tmp/tree/$1")"
	cat >"$tmp/tree/$1"
}

# A tree that every check passes.
sound()
{
	rm -rf "$tmp/tree"
	printf '/* %s */\n#include <stdint.h>\n' "$spdx" |
		put arch/generic/cpu_arch.h
	printf '/* %s */\n' "$spdx" | put runtime/base/ban.h
	printf '/* %s */\n' "$spdx" | put runtime/base/a.h
	printf '/* %s */\n' "$spdx" | put runtime/api/z.h
	put runtime/mem/m.c <<-END
	/* $spdx */
	#include "cpu_arch.h"
	#include "base/a.h"
	#include "base/ban.h"

	int m(int *p)
	{
	$(printf '\t')/* [MO:pair] pairs with itself. */
	$(printf '\t')st_rel(p, 1);
	$(printf '\t')return ld_acq(p);
	}
	END
	put runtime/include/faultline.h <<-END
	/* $spdx */
	int fl_a(int x);
	END
	put runtime/api/faultline.map <<-END
	/* $spdx */
	V_1 {
	global:
	$(printf '\t')fl_a;
	local:
	$(printf '\t')*;
	};
	END
	put shim/shim.map <<-END
	/* $spdx */
	{ global:
	$(printf '\t')mmap;
	local: *; };
	END
	put shim/s.c <<-END
	/* $spdx */
	#include "base/a.h"
	#include "faultline.h"
	int s;
	END
	printf '/* %s */\nCONF(mem, size, CONF_KIB(4), 0, 1, "x")\n' "$spdx" |
		put runtime/base/conf.def
	printf '/* %s */\nSTAT(maps, "x")\n' "$spdx" |
		put runtime/base/stat.def
	# shellcheck disable=SC2016
	printf '<!-- %s -->\n\n| `pair` | `m` | `n` | x |\n' "$spdx" | put docs/ordering.md
	# shellcheck disable=SC2016
	printf '<!-- %s -->\n\n| `mem` | 4K | x |\n`m()` `runtime/mem/m.c`\n' \
		"$spdx" | put docs/config.md
	put docs/man/faultline.7 <<-END
	.\\" $spdx
	.Dd January 1, 2026
	.Dt FAULTLINE 7
	.Os
	.Sh NAME
	.Nm faultline
	.Nd pager
	.Sh DESCRIPTION
	Text.
	.Sh OPTIONS
	.Bl -tag -width Ds
	.It Cm mem
	Text.
	Default 4K.
	.El
	.Sh COUNTERS
	.Bl -tag -width Ds
	.It Va maps
	Text.
	.El
	END
	put docs/man/fl_a.3 <<-END
	.\\" $spdx
	.Dd January 1, 2026
	.Dt FL_A 3
	.Os
	.Sh NAME
	.Nm fl_a
	.Nd a
	.Sh DESCRIPTION
	Text.
	END
	# shellcheck disable=SC2016
	printf '#!/bin/sh\n# %s\necho "$1"\n' "$spdx" | put scripts/x.sh
	cp "$lint/../../.clang-format" "$tmp/tree/"
	echo fl_a | put tests/lint/abi/0.1
	echo 'int fl_a(int x); int fl_a(int x) { return x; }' >"$tmp/l.c"
	echo 'int mmap(int x); int mmap(int x) { return x; }' >"$tmp/p.c"
	[ -f "$tmp/l.so" ] || {
		cc -shared -fno-builtin -o "$tmp/l.so" "$tmp/l.c" &&
			cc -shared -fno-builtin -o "$tmp/p.so" "$tmp/p.c"
	} || exit 1
}

run()
{
	"$lint/$1.sh" "$tmp/tree" "$tmp/l.so" "$tmp/p.so" >"$tmp/out" 2>&1
}

result()
{
	if [ "$1" = ok ]; then
		passed=$((passed + 1))
		return
	fi
	failed=$((failed + 1))
	echo "FAILED: $2"
	sed 's/^/  /' "$tmp/out"
}

# faulty CHECK EXPECTED-TEXT - the tree has a fault now.
faulty()
{
	run "$1"
	local rc=$?

	if [ $rc -eq 77 ]; then
		cat "$tmp/out"
	elif [ $rc -eq 1 ] && grep -qF -- "$2" "$tmp/out"; then
		result ok
	else
		result bad "$1 should say '$2', exit 1; exit status $rc"
	fi
	sound
}

sound
for c in layers order spdx size format shell words options docs symbols man; do
	run $c
	rc=$?
	if [ $rc -eq 0 ] || [ $rc -eq 77 ]; then
		result ok
	else
		result bad "$c on a sound tree: exit status $rc"
	fi
done

t=$tmp/tree
edit() { sed -i "$2" "$t/$1"; }

edit runtime/mem/m.c 's|base/a.h|api/z.h|'
faulty layers "mem/ includes api/z.h, which is to its right"
edit runtime/mem/m.c 's|"base/a.h"|"a.h"|'
faulty layers "include without its folder: a.h"
edit runtime/mem/m.c '/ban.h/d'
faulty layers 'last include is not "base/ban.h"'
edit runtime/mem/m.c 's|"base/a.h"|<stdatomic.h>|'
faulty layers "<stdatomic.h> outside base/order.h"
edit runtime/mem/m.c 's|"base/a.h"|<urcu/urcu-bp.h>|'
faulty layers "liburcu outside base/rcu.h"
edit arch/generic/cpu_arch.h 's|stdint|stdio|'
faulty layers "arch/ includes stdio.h"
edit shim/s.c 's|base/a.h|mem/m.h|'
faulty layers "shim/ includes mem/m.h"
edit shim/s.c 's|base/a.h|fault/uffd.h|'
faulty layers "shim/ includes fault/uffd.h"
echo '#ifdef __aarch64__' >>"$t/runtime/base/a.h"
faulty layers "ISA macro outside arch/"

edit runtime/mem/m.c 's|\[MO:pair\]||'
faulty order "ordered atomic without a tag above it"
edit runtime/mem/m.c 's|return ld_acq(p)|return 0|'
faulty order "tag pair has 1 site(s), a pair has two"
# shellcheck disable=SC2016
edit docs/ordering.md 's/`n`/`m`/'
edit runtime/mem/m.c 's|return ld_acq(p)|return 0|'
faulty order "tag pair has 1 site(s), a pair has two"
edit docs/ordering.md '/pair/d'
faulty order "tag pair is not in docs/ordering.md"
# shellcheck disable=SC2016
echo '| `gone` | x |' >>"$t/docs/ordering.md"
faulty order "tag gone is nowhere"
edit runtime/mem/m.c 's|return ld_acq(p)|return ld_rlx(p)|'
faulty order "tag pair has 1 site(s)"

edit runtime/base/a.h 1d
faulty spdx "runtime/base/a.h:1: no SPDX line"

yes '/* */' | head -n 1001 >>"$t/runtime/base/a.h"
faulty size "runtime/base/a.h:1000: 1002 lines"
{
	printf 'int f(int x)\n{\n'
	yes '	x++;' | head -n 61
	echo '}'
} >>"$t/runtime/base/a.h"
faulty size "function of 61 lines"

edit shim/s.c 's|int s;|int   s;|'
faulty format "shim/s.c:4: format"

# shellcheck disable=SC2016
edit scripts/x.sh 's|"\$1"|$1|'
faulty shell "SC2086"

printf '# %s%s\n' TO DO >>"$t/scripts/x.sh"
faulty words "scripts/x.sh:4: word"
printf '# /wor%s/main\n' k >>"$t/scripts/x.sh"
faulty words "scripts/x.sh:4: word"

# shellcheck disable=SC2016
edit docs/config.md 's|`mem`|`men`|'
faulty options "docs/config.md: mem of runtime/base/conf.def is missing"
edit docs/man/faultline.7 's|Cm mem|Cm men|'
faulty options "docs/man/faultline.7: men is not in runtime/base/conf.def"
edit docs/config.md 's|4K|5K|'
faulty options "docs/config.md: mem 5K is not in runtime/base/conf.def"
edit docs/man/faultline.7 's|4K|5K|'
faulty options "faultline.7: mem 4K of runtime/base/conf.def is missing"
edit runtime/base/stat.def 's|maps|mapz|'
faulty options "docs/man/faultline.7: mapz of runtime/base/stat.def is missing"

edit docs/config.md 's|m()|n()|'
faulty docs "docs/config.md:4: no function n"
edit docs/config.md 's|mem/m.c|mem/n.c|'
faulty docs "docs/config.md:4: no file runtime/mem/n.c"

edit runtime/api/faultline.map 's|fl_a|fl_b|'
faulty symbols "fl_a is not in runtime/api/faultline.map"
edit runtime/api/faultline.map 's|fl_a;|fl_a; |;s|local|	fl_c;\nlocal|'
faulty symbols "runtime/api/faultline.map: fl_c is not in"
edit runtime/include/faultline.h 's|fl_a|fl_b|'
faulty symbols "fl_a is not in faultline.h"
edit docs/man/fl_a.3 's|Nm fl_a|Nm fl_b|'
faulty symbols "fl_a is not in docs/man/*.3"
echo fl_old >>"$t/tests/lint/abi/0.1"
faulty symbols "tests/lint/abi/0.1: fl_old is not in"
edit shim/shim.map 's|mmap|mmap64|'
faulty symbols "mmap is not in shim/shim.map"

edit docs/man/fl_a.3 's|^\.Nd a|.Xyz a|'
faulty man "docs/man/fl_a.3:7"
echo '.so man3/fl_none.3' >"$t/docs/man/fl_b.3"
faulty man "docs/man/fl_b.3:1: no page fl_none.3"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
