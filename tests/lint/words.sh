#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# words.sh ROOT - nothing that belongs to one machine or to unfinished work:
# private paths, package hosts, notes to self.
. "$(dirname "$0")/lib.sh"

# Each pattern has a bracket so that it does not match itself.
files '*' | grep -Ev '(^|/)(LICENSE|COPYING)$' | xargs -r grep -nHIE \
	-e '(^|[^a-z])/wor[k]/' -e '/tmp/f[l]/' -e '/hom[e]/[a-z]+/' \
	-e '[a-z]\.debia[n]\.org/debian' -e 'npmj[s]\.' \
	-e '(^|[^A-Za-z])(TOD[O]|FIXM[E]|XX[X])([^A-Za-z]|$)' -e '[T]O BE REMOVED' |
	sed 's/^\([^:]*:[0-9]*\):/\1: word: /' | verdict words
