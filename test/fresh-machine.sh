#!/usr/bin/env bash
# Show that the first command works on a fresh machine.
#
#   fresh-machine.sh MIRROR [GOAL...]
#
# Makes a minimal Debian with debootstrap from the package mirror MIRROR (a URL;
# the environment variable MIRROR does as well), installs only make and git in
# it, copies the tree and runs "make GOAL" (check): first as root, then, in
# another fresh machine, as an ordinary user who has sudo.  Each must end well,
# and leave no PostgreSQL cluster, no server and none of its own settings behind.
#
# Needs root and debootstrap.  From the environment: DEBIAN (the release,
# bookworm), FOLDER (where the machines live, /tmp/chroot-$DEBIAN; the untouched
# one is kept there for the next time), APT_CONF (a file with apt's settings,
# such as a proxy), WHO ("root user"), and SUITES, TESTS, WERROR for make check.
set -euo pipefail

MIRROR=${1:-${MIRROR:?usage: fresh-machine.sh MIRROR [GOAL...]}}
shift || true
GOALS=${*:-check}
DEBIAN=${DEBIAN:-bookworm}
FOLDER=${FOLDER:-/tmp/chroot-$DEBIAN}
WHO=${WHO:-root user}
# shellcheck source=test/lib/stage.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/stage.sh"

# Make the untouched machine.
make_machine() {
	if [[ ! -e $FOLDER/etc/debian_version ]]; then
		debootstrap --variant=minbase "$DEBIAN" "$FOLDER" "$MIRROR"
	fi
}

# Run the bash script on stdin in the machine $1, in a process and mount
# namespace that ends with it.
inside() {
	# shellcheck disable=SC2016
	unshare --mount --pid --fork --kill-child bash -c '
		set -euo pipefail
		mount --make-rprivate /
		mount -t proc proc "$1/proc"
		mount --rbind /dev "$1/dev"
		mount -t tmpfs -o mode=1777 tmpfs "$1/dev/shm"
		exec chroot "$1" env -i HOME=/root TERM=dumb LANG=C.UTF-8 \
			PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
			DEBIAN_FRONTEND=noninteractive bash -euo pipefail -s' inside "$1"
}

# Print the settings for make, quoted for a shell.
settings() {
	local name

	for name in SUITES TESTS WERROR CI TAP_JOBS; do
		if [[ -n ${!name:-} ]]; then
			printf '%s=%q ' "$name" "${!name}"
		fi
	done
}

# Run the goals in a new machine as $1: root or user.
try() {
	local machine=$FOLDER.$1 home=/root run="bash -c" extra=""

	rm -rf --one-file-system "$machine"
	cp -a "$FOLDER" "$machine"
	cp -L /etc/resolv.conf /etc/hosts "$machine/etc/"
	if [[ -n ${APT_CONF:-} ]]; then
		cp "$APT_CONF" "$machine/etc/apt/apt.conf.d/99fresh-machine"
	fi
	if [[ $1 == user ]]; then
		home=/home/developer
		run="runuser -u developer -- env HOME=$home bash -c"
		extra=sudo
	fi
	inside "$machine" <<SETUP
apt-get -qq update
apt-get -qq install --no-install-recommends make git $extra >/dev/null 2>&1
rm -rf /var/lib/apt/lists/*
if [ $1 = user ]; then
	useradd --create-home --shell /bin/bash developer
	echo 'developer ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/developer
fi
mkdir $home/actionledger
SETUP
	list_files | tar -C "$TREE" --null --no-recursion -T - -cf - |
		tar -C "$machine$home/actionledger" --no-same-owner -xf -
	inside "$machine" <<RUN
chmod 700 $home
if [ $1 = user ]; then chown -R developer: $home; fi
$run 'cd $home/actionledger && git -c init.defaultBranch=main init -q . && git add -A && $(settings)make $GOALS' </dev/null
for left in /var/lib/postgresql/*/* /etc/postgresql/*/* /etc/postgresql-common/createcluster.d/* /usr/sbin/policy-rc.d /tmp/actionledger.*; do
	if [ -e "\$left" ]; then echo "left behind: \$left"; exit 1; fi
done
if pgrep -a postgres; then echo "a server is left running"; exit 1; fi
RUN
	rm -rf --one-file-system "$machine"
	echo "fresh machine, $1: make $GOALS passed"
}

make_machine
for who in $WHO; do
	try "$who"
done
