# shellcheck shell=bash
#
# bootstrap.sh: see to what the tests need, through apt-get where it is missing.
#
# Sourced.  bootstrap() finds the PostgreSQL to work with and exports PG_CONFIG.
# PG_CONFIG (a path) or PG_VERSION (a major version) given from outside decide;
# else the newest installed version that has its headers is taken, and on a
# machine without one the distribution's default version is installed.
#
# Nothing that exists is touched: no cluster is created or started by the
# installation, and no installed package is upgraded for its own sake.  When
# nothing is missing, apt-get is not called and no privilege is needed.

APT_OPTIONS=(-y -q --no-install-recommends --no-upgrade -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0)
AS_ROOT=()

# Tell whether one of the usual include folders has the header $1.
has_header() {
	compgen -G "/usr/include/$1" >/dev/null ||
		compgen -G "/usr/include/*/$1" >/dev/null ||
		compgen -G "/usr/local/include/$1" >/dev/null
}

has_command() {
	command -v "$1" >/dev/null 2>&1
}

# Tell whether the pg_config $1 belongs to a supported server with headers and pgxs.
is_complete() {
	[[ -x $1 && $("$1" --version) =~ ^PostgreSQL\ ([0-9]+) && ${BASH_REMATCH[1]} -ge 15 &&
		-x $("$1" --bindir)/postgres && -f $("$1" --includedir-server)/postgres.h && -f $("$1" --pgxs) ]]
}

# Print the pg_config to use, or nothing.
find_pg_config() {
	local candidate

	if [[ -n ${PG_CONFIG:-} ]]; then
		candidate=$(command -v "$PG_CONFIG" || true)
		if [[ -z $candidate ]] || ! is_complete "$candidate"; then
			echo "bootstrap: PG_CONFIG=$PG_CONFIG is no PostgreSQL server with headers" >&2
			return 1
		fi
		echo "$candidate"
		return
	fi
	for candidate in $(printf '%s\n' "/usr/lib/postgresql/${PG_VERSION:-*}"/bin/pg_config | sort -rV); do
		if is_complete "$candidate"; then
			echo "$candidate"
			return
		fi
	done
	if [[ -z ${PG_VERSION:-} ]]; then
		candidate=$(command -v pg_config || true)
		if [[ -n $candidate ]] && is_complete "$candidate"; then
			echo "$candidate"
		fi
	fi
}

# Print the packages that are missing, apart from PostgreSQL itself.
missing_packages() {
	has_command gcc || echo gcc
	has_header stdio.h || echo libc6-dev
	has_command make || echo make
	has_header curl/curl.h || echo libcurl4-openssl-dev
	has_header openssl/ssl.h || echo libssl-dev
	has_command openssl || echo openssl
	has_command curl || echo curl
	[[ -s /etc/ssl/certs/ca-certificates.crt ]] || echo ca-certificates
	has_command ps || echo procps
	{ has_command perl && perl -MTest::More -e 1 2>/dev/null; } || echo perl
	{ has_command perl && perl -MIPC::Run -e 1 2>/dev/null; } || echo libipc-run-perl
	[[ -x /usr/bin/python3 ]] || echo python3
	/usr/bin/python3 -c 'import psycopg2' 2>/dev/null || echo python3-psycopg2
	if [[ $EUID -eq 0 ]]; then
		has_command setpriv || echo util-linux
		has_command useradd || echo passwd
	fi
}

# Set AS_ROOT to what makes a command run as root, or say that "$@" is missing.
become_root() {
	if [[ $EUID -eq 0 ]]; then
		AS_ROOT=(env)
	elif has_command sudo; then
		AS_ROOT=(sudo env)
	else
		echo "bootstrap: missing: $* (run this as root, or install them; there is no sudo)" >&2
		return 1
	fi
	if ! has_command apt-get; then
		echo "bootstrap: missing: $* (no apt-get here: install their equivalents)" >&2
		return 1
	fi
}

# Run "$@" and show what it says only when it fails.
quietly() {
	local log status=0

	log=$(mktemp)
	"$@" >"$log" 2>&1 || status=$?
	if [[ $status -ne 0 ]]; then
		cat "$log" >&2
	fi
	rm -f "$log"
	return "$status"
}

apt_update() {
	echo "bootstrap: reading the package lists"
	quietly "${AS_ROOT[@]}" DEBIAN_FRONTEND=noninteractive apt-get -q update </dev/null
}

# Run "apt-get install" for "$@" with measures that keep it from creating or
# starting a PostgreSQL cluster, and with their removal afterwards.
apt_install() {
	quietly "${AS_ROOT[@]}" DEBIAN_FRONTEND=noninteractive bash -s -- "${APT_OPTIONS[@]}" "$@" <<'ROOT'
set -euo pipefail
no_cluster=/etc/postgresql-common/createcluster.d/actionledger-no-main-cluster.conf
policy=/usr/sbin/policy-rc.d
own_policy=
undo() {
	rm -f "$no_cluster"
	rmdir --ignore-fail-on-non-empty -p "${no_cluster%/*}" 2>/dev/null || true
	if [ -n "$own_policy" ]; then rm -f "$policy"; fi
}
trap undo EXIT
mkdir -p "${no_cluster%/*}"
echo "create_main_cluster = false" >"$no_cluster"
if [ ! -e "$policy" ]; then
	own_policy=1
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
fi
apt-get install "$@" </dev/null
ROOT
}

# Install the packages "$@"; read the package lists anew only where they are
# empty, do not know a package, or turn out to be stale.
install_packages() {
	local updated=

	if ! apt-cache show "$@" >/dev/null 2>&1; then
		apt_update
		updated=1
	fi
	echo "bootstrap: installing $*"
	if ! apt_install "$@"; then
		[[ -z $updated ]] || return 1
		apt_update
		apt_install "$@"
	fi
}

# Print the major version that the distribution's package "postgresql" stands for.
default_version() {
	{ apt-cache depends postgresql 2>/dev/null || true; } | sed -n 's/.*Depends: postgresql-\([0-9][0-9]*\)$/\1/p' | head -n 1
}

# Install what is missing and export PG_CONFIG.
bootstrap() {
	local found version
	local -a packages

	found=$(find_pg_config)
	mapfile -t packages < <(missing_packages)
	if [[ -z $found ]]; then
		become_root "${packages[@]}" postgresql postgresql-server-dev
		version=${PG_VERSION:-$(default_version)}
		if [[ -z $version ]]; then
			apt_update
			version=$(default_version)
		fi
		packages+=("postgresql-$version" "postgresql-server-dev-$version")
	fi
	if [[ ${#packages[@]} -gt 0 ]]; then
		become_root "${packages[@]}"
		install_packages "${packages[@]}"
		hash -r
		found=$(find_pg_config)
	fi
	if [[ -z $found ]]; then
		echo "bootstrap: no PostgreSQL with headers found after the installation" >&2
		return 1
	fi
	export PG_CONFIG=$found
}
