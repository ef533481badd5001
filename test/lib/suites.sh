#!/usr/bin/env bash
# Run the suites, count every test, and print "N passed, N failed" last.
#
# SUITES chooses among static, unit, regress, isolation and tap; TESTS chooses
# tests by patterns relative to test/, as in TESTS="t/010*.pl sql/20*.sql".
set -euo pipefail
# shellcheck source=test/lib/common.sh
. test/lib/common.sh
# shellcheck source=test/lib/install.sh
. test/lib/install.sh

SUITES=${SUITES:-static unit regress isolation tap}
LOGS=$WORK/logs
TOP=$PWD
passed=0
failed=0
skipped=0
finished=

# Bounds in seconds.
UNIT_LIMIT=300
REGRESS_LIMIT=1200
TAP_FILE_LIMIT=$((900 + ${RANDOM_SECONDS:-0}))
TAP_LIMIT=$((4200 + ${RANDOM_SECONDS:-0}))

# Whatever happens, the last line is the count.
finish() {
	local status=$?

	if [[ -z $finished ]]; then
		echo "the suites ended early with status $status"
		failed=$((failed + 1))
	fi
	if [[ $failed -gt 0 || ${KEEP:-0} == 1 ]]; then
		echo "kept: $WORK"
		touch "$WORK/told"
	fi
	echo "$passed passed, $failed failed"
	[[ $failed -eq 0 && $passed -gt 0 ]] || exit 1
	exit 0
}
trap finish EXIT

# Tell whether TESTS lets the test $1 (a path below test/) run.
wanted() {
	local pattern
	local -a patterns

	if [[ -z ${TESTS:-} ]]; then
		return 0
	fi
	# Not expanded here: sql/ is also the folder of the install script's pieces.
	read -r -d '' -a patterns <<<"$TESTS" || true
	for pattern in "${patterns[@]}"; do
		# shellcheck disable=SC2053
		if [[ $1 == ${pattern#test/} ]]; then
			return 0
		fi
	done
	return 1
}

# Print the end of the file $1, if it has anything to say.
show() {
	if [[ -s $1 ]]; then
		echo "--- ${1#"$WORK"/}"
		tail -n 80 "$1"
		echo "---"
	fi
}

# Print "passed failed skipped" for the TAP in the file $1 of a program that
# ended with status $2.  A missing or unmet plan, or a bad end, is a failure.
count_tap() {
	awk -v status="$2" '
		/^ok( |$)/ {
			if (toupper($0) ~ /[^\\]# *SKIP/) skipped++; else passed++
			seen++
		}
		/^not ok( |$)/ {
			if (toupper($0) ~ /[^\\]# *TODO/) skipped++; else failed++
			seen++
		}
		/^1\.\.[0-9]+/ { plan = substr($1, 4); planned = 1 }
		/^Bail out!/ { bailed = 1 }
		END {
			if (!failed && (!planned || plan + 0 != seen + 0 || bailed || status + 0 != 0))
				failed = 1
			print passed + 0, failed + 0, skipped + 0
		}' "$1"
}

# Add the counts "passed failed skipped" to the suite at hand.
add() {
	suite_passed=$((suite_passed + $1))
	suite_failed=$((suite_failed + $2))
	suite_skipped=$((suite_skipped + $3))
}

# Run the command "$3"... that prints TAP within $2 seconds, under the name $1.
run_tap() {
	local log=$LOGS/$1.log limit=$2 status=0
	local -a counts

	shift 2
	timeout -k 30 "$limit" "$@" >"$log" 2>&1 </dev/null || status=$?
	if [[ $status -eq 124 || $status -eq 137 ]]; then
		echo "# ended after $limit seconds" >>"$log"
	fi
	read -r -a counts < <(count_tap "$log" "$status")
	add "${counts[@]}"
	if [[ ${counts[1]} -gt 0 ]]; then
		show "$log"
	fi
}

suite_static() {
	if wanted static/layers; then
		run_tap layers 300 bash test/static layers
	fi
	if wanted static/release; then
		run_tap release 300 bash test/static release actionledger.so build/fault/actionledger.so
	fi
}

suite_unit() {
	local source name

	for source in test/unit/test_*.c; do
		name=$(basename "$source" .c)
		if [[ -f $source ]] && { wanted "unit/$name.c" || wanted "unit/$name"; }; then
			run_tap "$name" "$UNIT_LIMIT" "build/unit/$name"
		fi
	done
	if wanted fuzz/corpus; then
		run_tap fuzz_corpus "$UNIT_LIMIT" build/unit/test_fuzz_corpus
	fi
}

# Count the results of pg_regress in the file $1, in the format of 15 and in
# that of 16 and later; without any, that is a failure.
count_regress() {
	awk '
		/^[^=].* \.\.\. +ok / || /^ok [0-9]+ / { passed++ }
		/^[^=].* \.\.\. +(FAILED|failed)/ || /^not ok [0-9]+ / { failed++ }
		END { print passed + 0, failed + 0, 0 }' "$1"
}

# Run pg_regress or its sister $2 under the name $1 with the options and tests "$4"...;
# $3 is where it leaves regression.diffs.
run_regress() {
	local log=$LOGS/$1.log program=$2 output=$3 status=0
	local -a counts

	shift 3
	timeout -k 30 "$REGRESS_LIMIT" "$program" --bindir="$AL_PG_BIN" --temp-config="$TOP/test/regress.conf" \
		--encoding=UTF8 --no-locale "$@" >"$log" 2>&1 </dev/null || status=$?
	read -r -a counts < <(count_regress "$log")
	if [[ $((counts[0] + counts[1])) -eq 0 ]]; then
		counts[1]=1
		show "$output/log/initdb.log"
		show "$output/log/postmaster.log"
	elif [[ ${counts[1]} -eq 0 && $status -ne 0 ]]; then
		counts[1]=1
	fi
	add "${counts[@]}"
	if [[ ${counts[1]} -gt 0 ]]; then
		show "$log"
		show "$output/regression.diffs"
		if grep -q -e PANIC -e 'was terminated by signal' "$output/log/postmaster.log" 2>/dev/null; then
			show "$output/log/postmaster.log"
		fi
	fi
}

# The expected outputs lie in expected/; the tests named 00_* prepare the others.
# pg_regress of 15 prefers what lies in sql/ and expected/ of its output folder,
# which therefore is not the top folder with the pieces of the install script.
suite_regress() {
	local file name
	local -a prepare=() tests=()

	for file in test/sql/*.sql; do
		name=$(basename "$file" .sql)
		if [[ $name == 00_* ]]; then
			prepare+=("$name")
		elif [[ -f $file ]] && wanted "sql/$name.sql"; then
			tests+=("$name")
		fi
	done
	if [[ ${#tests[@]} -eq 0 && -n ${TESTS:-} ]] || [[ ${#tests[@]} -eq 0 && ${#prepare[@]} -eq 0 ]]; then
		return 0
	fi
	run_make build/regress/expected >/dev/null
	run_regress regress "$PG_REGRESS" "$TOP/build/regress" --inputdir=test --outputdir=build/regress \
		--temp-instance="$WORK/regress" \
		--dbname=actionledger_regress "${prepare[@]}" "${tests[@]}"
}

# The expected outputs lie in test/expected/, for which 16 and later have an option.
suite_isolation() {
	local file name
	local -a tests=() options=(--inputdir=test --outputdir=output_iso)

	for file in test/specs/*.spec; do
		name=$(basename "$file" .spec)
		if [[ -f $file ]] && wanted "specs/$name.spec"; then
			tests+=("$name")
		fi
	done
	if [[ ${#tests[@]} -eq 0 ]]; then
		return 0
	fi
	if "$PG_ISOLATION_REGRESS" --help | grep -q -e --expecteddir; then
		options+=(--expecteddir=test)
	fi
	mkdir -p output_iso
	# That nobody sends (fsync is off) is warned of once the dispatcher knows it: at any moment.
	PGOPTIONS='-c client_min_messages=error' run_regress isolation "$PG_ISOLATION_REGRESS" "$TOP/output_iso" "${options[@]}" --temp-instance="$WORK/isolation" \
		--load-extension=actionledger --dbname=actionledger_isolation "${tests[@]}"
}

# Run the TAP file $1 within $2 seconds, and leave its counts in a file.
run_perl() {
	local name folder log figures status=0 start=$SECONDS
	local -a counts

	name=$(basename "$1" .pl)
	folder=$WORK/tap/$name
	log=$LOGS/$name.log
	mkdir -p "$folder/tmp_check/log"
	TESTDIR=$folder TESTDATADIR=$folder/tmp_check TESTLOGDIR=$folder/tmp_check/log \
		PG_TEST_PORT_DIR=$WORK/ports timeout -k 30 "$2" perl "$1" >"$log" 2>&1 </dev/null || status=$?
	if [[ $status -eq 124 || $status -eq 137 ]]; then
		echo "# ended after $2 seconds" >>"$log"
	fi
	read -r -a counts < <(count_tap "$log" "$status")
	echo "${counts[*]}" >"$folder/counts"
	figures=$(sed -n 's/^ *# figures: /    /p' "$log")
	echo "  ${1#test/}: ${counts[0]} passed, ${counts[1]} failed ($((SECONDS - start)) s)${figures:+$'\n'$figures}"
}

suite_tap() {
	local file folder name limit deadline=$((SECONDS + TAP_LIMIT))
	local -a files=() counts

	for file in test/t/*.pl; do
		if [[ -f $file ]] && wanted "${file#test/}"; then
			files+=("$file")
		fi
	done
	mkdir -p "$WORK/ports"
	for file in "${files[@]}"; do
		while [[ $(jobs -rp | wc -l) -ge ${TAP_JOBS:-2} ]]; do
			wait -n || true
		done
		limit=$((deadline - SECONDS))
		if [[ $limit -gt $TAP_FILE_LIMIT ]]; then
			limit=$TAP_FILE_LIMIT
		fi
		if [[ $limit -gt 0 ]]; then
			run_perl "$file" "$limit" &
		fi
	done
	wait
	for file in "${files[@]}"; do
		name=$(basename "$file" .pl)
		folder=$WORK/tap/$name
		counts=(0 1 0)
		if [[ -s $folder/counts ]]; then
			read -r -a counts <"$folder/counts"
		else
			echo "  ${file#test/}: did not run to its end within the time of the suite"
		fi
		add "${counts[@]}"
		if [[ ${counts[1]} -gt 0 ]]; then
			grep -E '^not ok' "$LOGS/$name.log" 2>/dev/null || true
			show "$LOGS/$name.log"
			show "$folder/tmp_check/log/regress_log_$name"
		fi
	done
}

# Build and install; without that there is nothing to test.
prepare() {
	local step start=$SECONDS

	for step in build_all install_private; do
		if ! "$step" >"$LOGS/$step.log" 2>&1; then
			show "$LOGS/$step.log"
			failed=1
			finished=1
			exit 1
		fi
	done
	echo "PostgreSQL $("$PG_CONFIG" --version | sed 's/^PostgreSQL //'), built in $((SECONDS - start)) s"
}

main() {
	local suite start

	mkdir -p "$LOGS"
	prepare
	for suite in $SUITES; do
		if ! declare -F "suite_$suite" >/dev/null; then
			echo "there is no suite $suite"
			failed=$((failed + 1))
			continue
		fi
		suite_passed=0
		suite_failed=0
		suite_skipped=0
		start=$SECONDS
		"suite_$suite"
		kill_leftovers "$WORK/pg"
		kill_leftovers "$WORK/pg_fault"
		kill_leftovers "$WORK/tree/build"
		echo "$suite: $suite_passed passed, $suite_failed failed, $suite_skipped skipped ($((SECONDS - start)) s)"
		passed=$((passed + suite_passed))
		failed=$((failed + suite_failed))
		skipped=$((skipped + suite_skipped))
	done
	finished=1
}

main
