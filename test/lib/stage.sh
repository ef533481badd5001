# shellcheck shell=bash
#
# stage.sh: a private copy of the tree, in which an ordinary user runs a script.
#
# Sourced.  stage SCRIPT [ARGUMENT...] copies the tree (what git tracks or would
# track) to a private folder below /tmp and runs SCRIPT there: as the user
# actionledger-test when we are root (PostgreSQL refuses to run as root), else as
# ourselves.  SCRIPT finds WORK (the folder), PG_CONFIG and the settings of
# pass_on() in its environment, and the copy as its current folder.
#
# The folder is removed at the end, unless SCRIPT failed or KEEP=1.

TREE=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
TEST_USER=actionledger-test
# shellcheck source=test/lib/common.sh
. "$TREE/test/lib/common.sh"
# shellcheck source=test/lib/bootstrap.sh
. "$TREE/test/lib/bootstrap.sh"

# List the files to copy, each ended by a NUL.
list_files() {
	local -a git_files=(git -c "safe.directory=*" -C "$TREE" ls-files -co -z --exclude-standard)
	local file

	if command -v git >/dev/null && [[ -e $TREE/.git ]] && "${git_files[@]}" >/dev/null 2>&1; then
		"${git_files[@]}" | while IFS= read -r -d '' file; do
			if [[ -e $TREE/$file || -L $TREE/$file ]]; then
				printf '%s\0' "$file"
			fi
		done
	else
		(cd "$TREE" && find . \( -name .git -o -path ./build \) -prune -o \
			\( -type f -o -type l \) ! -name '*.o' ! -name '*.so' ! -name '*.bc' -print0)
	fi
}

# Print what goes into the environment of the script as NAME=value, each ended by a NUL.
pass_on() {
	local name

	for name in $(compgen -e); do
		case $name in
			SUITES | TESTS | WERROR | CI | KEEP | JOBS | TAP_JOBS | SEED | RANDOM_SECONDS | SUITE | TERM | AL_* | DEMO_* | BENCH_* | PG_TEST_*)
				printf '%s=%s\0' "$name" "${!name}"
				;;
		esac
	done
}

# Remove the folder, unless the status $1 or KEEP says otherwise.
unstage() {
	kill_leftovers "$WORK"
	if [[ ${KEEP:-0} == 1 || $1 -ne 0 ]]; then
		if [[ ! -e $WORK/told ]]; then
			echo "kept: $WORK" >&2
		fi
	else
		rm -rf "$WORK"
	fi
}

# Give the folder $1 to the user that scripts run as, and make the array "switch" of
# the caller what a command begins with to run as that user.
give_to_ordinary_user() {
	switch=()
	if [[ $EUID -eq 0 ]]; then
		if ! id -u "$TEST_USER" >/dev/null 2>&1; then
			useradd --system --no-create-home --home-dir /nonexistent --shell /bin/bash "$TEST_USER"
		fi
		chown -R "$TEST_USER:" "$1"
		switch=(setpriv --reuid "$TEST_USER" --regid "$(id -g "$TEST_USER")" --clear-groups --no-new-privs)
	fi
}

stage() {
	local -a switch environment
	local status=0

	bootstrap
	WORK=$(mktemp -d /tmp/actionledger.XXXXXX)
	trap 'unstage 1' EXIT
	trap 'trap - EXIT; unstage 0; exit 130' INT TERM HUP
	mkdir -p "$WORK/tree" "$WORK/home" "$WORK/tmp"
	list_files | tar -C "$TREE" --null --no-recursion -T - -cf - | tar -C "$WORK/tree" --no-same-owner -xf -
	if [[ -n ${SUITE:-} ]]; then
		cp -rL "$SUITE" "$WORK/suite"
		SUITE=$WORK/suite
		export SUITE
	fi

	give_to_ordinary_user "$WORK"
	mapfile -d '' -t environment < <(pass_on)
	cd "$WORK/tree" || return
	"${switch[@]}" env -i "${environment[@]}" WORK="$WORK" PG_CONFIG="$PG_CONFIG" HOME="$WORK/home" \
		USER="$(if [[ $EUID -eq 0 ]]; then echo "$TEST_USER"; else id -un; fi)" \
		TMPDIR="$WORK/tmp" LANG=C.UTF-8 PATH="$PATH" bash "$@" || status=$?
	cd "$TREE" || return

	trap - EXIT INT TERM HUP
	unstage "$status"
	return "$status"
}
