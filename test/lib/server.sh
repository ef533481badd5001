# shellcheck shell=bash
#
# server.sh: a private server for scripts that are no TAP tests.
#
# Sourced, where install.sh has been at work.  start_server makes a cluster below
# $WORK that only its socket folder reaches, preloads the library, and exports
# PGHOST, PGUSER and PGDATABASE; settings, one a line, come on stdin.
# stop_server ends it.

start_server() {
	export PGHOST=$WORK/tmp PGUSER=postgres PGDATABASE=postgres
	"$AL_PG_BIN/initdb" -D "$WORK/server" -U postgres -A trust -N --encoding=UTF8 --no-locale >"$WORK/initdb.log"
	{
		echo "listen_addresses = ''"
		echo "unix_socket_directories = '$PGHOST'"
		echo "shared_preload_libraries = 'actionledger'"
		cat
	} >>"$WORK/server/postgresql.conf"
	"$AL_PG_BIN/pg_ctl" -D "$WORK/server" -l "$WORK/server.log" -w start >/dev/null ||
		{ tail -n 40 "$WORK/server.log" >&2; return 1; }
}

stop_server() {
	"$AL_PG_BIN/pg_ctl" -D "$WORK/server" -m fast -w stop >/dev/null
}
