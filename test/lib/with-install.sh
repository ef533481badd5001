#!/usr/bin/env bash
# Build, install privately, and run a script with both: with-install.sh SCRIPT [ARGUMENT...]
set -euo pipefail
# shellcheck source=test/lib/install.sh
. test/lib/install.sh

if [[ ! -f $1 ]]; then
	echo "$1 does not exist" >&2
	exit 1
fi
for step in build_all install_private; do
	if ! "$step" >"$WORK/$step.log" 2>&1; then
		tail -n 80 "$WORK/$step.log" >&2
		exit 1
	fi
done
exec bash "$@"
