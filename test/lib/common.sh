# shellcheck shell=bash
#
# common.sh: what the outside and the inside of the private copy share.

# Kill the processes whose program lies in the folder $1: servers that a test
# left behind.
kill_leftovers() {
	local program pid

	for program in /proc/[0-9]*/exe; do
		if [[ $(readlink "$program" 2>/dev/null || true) == "$1"/* ]]; then
			pid=${program#/proc/}
			kill -KILL "${pid%/exe}" 2>/dev/null || true
		fi
	done
}
