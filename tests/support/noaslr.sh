#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Runs a program without address randomisation where that is allowed.
if setarch -R true 2>/dev/null; then
	exec setarch -R "$@"
fi
exec "$@"
