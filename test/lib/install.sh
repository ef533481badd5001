# shellcheck shell=bash
#
# install.sh: build, and install into private copies of the PostgreSQL installation.
#
# Sourced, in the copy that stage.sh made.  A PostgreSQL server finds its
# libraries and shared files relative to its own program, so that a copy of the
# installed folders below $WORK/pg is an installation of its own: the system's is
# only read, and no privilege is needed.  $WORK/pg_fault is the same with the
# fault build of the library.

: "${WORK:?run through test/lib/stage.sh}" "${PG_CONFIG:?run through test/lib/stage.sh}"

PG_BINDIR=$("$PG_CONFIG" --bindir)
PG_PKGLIBDIR=$("$PG_CONFIG" --pkglibdir)
PG_SHAREDIR=$("$PG_CONFIG" --sharedir)
PGXS_FOLDER=$(dirname "$(dirname "$("$PG_CONFIG" --pgxs)")")
export PG_REGRESS=$PGXS_FOLDER/test/regress/pg_regress
export PG_ISOLATION_REGRESS=$PGXS_FOLDER/test/isolation/pg_isolation_regress
export PERL5LIB=$PGXS_FOLDER/test/perl:$PWD/test/lib:$PWD/test/t
export AL_PG_BIN=$WORK/pg$PG_BINDIR
export AL_PG_FAULT_BIN=$WORK/pg_fault$PG_BINDIR
export AL_BUILD=$PWD/build
JOBS=${JOBS:-$(nproc)}

# Run make in the copy, apart from the make that may have started us.
run_make() {
	env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make --no-print-directory -j "$JOBS" \
		PG_CONFIG="$PG_CONFIG" WERROR="${WERROR:-0}" "$@"
}

# Build everything that there are sources for.
build_all() {
	local -a targets=(all fault unit fuzz-server)

	if compgen -G 'test/provider/*.c' >/dev/null; then
		targets+=(provider)
	fi
	if [[ -f test/lib/resolver.c ]]; then
		targets+=(resolver)
	fi
	if [[ -f test/lib/clock.c ]]; then
		targets+=(clock)
	fi
	if [[ -f test/bench/rawloop.c ]]; then
		targets+=(rawloop)
	fi
	run_make "${targets[@]}"
}

# Make the two private installations.
install_private() {
	local folder

	for folder in "$PG_BINDIR" "$PG_PKGLIBDIR" "$PG_SHAREDIR"; do
		mkdir -p "$WORK/pg$folder"
		cp -RL --preserve=mode "$folder/." "$WORK/pg$folder"
	done
	rm -rf "$WORK/pg$PG_PKGLIBDIR/bitcode"
	chmod -R u+w "$WORK/pg"
	run_make install DESTDIR="$WORK/pg" with_llvm=no
	cp -Rl "$WORK/pg" "$WORK/pg_fault"
	rm -f "$WORK/pg_fault$PG_PKGLIBDIR/actionledger.so"
	cp build/fault/actionledger.so "$WORK/pg_fault$PG_PKGLIBDIR/"
	export PATH=$AL_PG_BIN:$PATH
}
