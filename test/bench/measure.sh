#!/usr/bin/env bash
# measure.sh: what the ledger costs, as ratios to baselines taken in the same run.
#
#   BENCH_PAIRS=5     interleaved pairs per ratio; the median counts
#   BENCH_ACTIONS=20000
#   BENCH_ONLY="drain fresh tail perform latency wal"
#
# BENCH_ONLY=instructions counts, with valgrind (not installed by this), the
# instructions of a perform and of a plain insert: a number that does not depend
# on what else the machine does.
#
# Every drain is durable (fsync and synchronous_commit on).  A pair is: the raw
# libcurl loop, then the dispatcher, against the same provider on loopback.
set -euo pipefail
# shellcheck source=test/lib/server.sh
. test/lib/server.sh

PAIRS=${BENCH_PAIRS:-5}
ACTIONS=${BENCH_ACTIONS:-20000}
ONLY=${BENCH_ONLY:-drain fresh tail perform latency wal}
provider=

cleanup() {
	if [[ -n $provider ]]; then
		kill "$provider" 2>/dev/null || true
	fi
	stop_server || true
}
trap cleanup EXIT

q() { psql -XqAt -v ON_ERROR_STOP=1 "$@"; }

# The median of the numbers on stdin, two decimals.
median() { sort -g | awk '{ v[NR] = $1 } END { if (NR) printf "%.2f", (NR % 2) ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

# Wait until a query says t; at most $2 seconds (300).
until_true() {
	local end=$((SECONDS + ${2:-300}))
	until [[ $(q -c "$1") == t ]]; do
		if ((SECONDS > end)); then
			echo "gave up waiting for: $1" >&2
			exit 1
		fi
		sleep 0.05
	done
}

define() { # name, provider path, idempotency
	q <<-SQL >/dev/null
		SELECT actionledger.create_service('$1', '$URL', '{"allow_private": true, "idempotency": $3, "limits": {"in_flight": ${4:-200}}}');
		SELECT actionledger.create_tool('$1', '$1', 'POST $2', 'non_idempotent', 'bench:{n}',
		  '{"required": ["n"], "properties": {"n": {"type": "string"}, "amount": {"type": "integer"}, "currency": {"type": "string"}, "reason": {"type": "string"}, "note": {"type": "string"}}}',
		  '{"external_ref": "\$.id", "timeout": "60s", "approval": "never"}');
	SQL
}

# Prepare $2 actions of tool $1 that are all due in a moment, then print the rate of their drain.
drain() {
	local tag=$1.$RANDOM$RANDOM seconds
	q -c "SELECT count(*) FROM actionledger.perform_many('$1',
	        (SELECT array_agg(jsonb_build_object('n', '$tag.' || g, 'amount', g, 'currency', 'EUR', 'reason', 'requested_by_customer', 'note', repeat('x', 90)))
	           FROM generate_series(1, $2) g),
	        options => jsonb_build_object('not_before', clock_timestamp() + make_interval(secs => 1 + $2 / 10000.0)))" >/dev/null
	q -c 'CHECKPOINT'
	until_true "SELECT count(*) = 0 FROM actionledger.pending" 600
	until_true "SELECT count(*) = 0 FROM actionledger.in_flight" 600
	seconds=$(q -c "SELECT extract(epoch FROM max(finished_at) - min(last_sent_at)) FROM actionledger.action WHERE identity LIKE 'bench:$tag.%' AND status = 'confirmed' HAVING count(*) = $2")
	awk -v n="$2" -v s="${seconds:?not all were confirmed}" 'BEGIN { printf "%.0f\n", n / s }'
}

raw() { # path, requests, concurrency, option
	"$AL_BUILD/rawloop" ${4:+"$4"} "$URL$1" "$2" "$3" | sed -n 's/.* rate \([0-9]*\).*/\1/p'
}

# Interleaved pairs of raw loop and drain; prints both rates and the median ratio.
pairs() { # title, tool, path, option of the raw loop
	local i a b ratios='' as='' bs=''
	for ((i = 0; i < PAIRS; i++)); do
		a=$(raw "$3" "$ACTIONS" 64 "${4:-}")
		b=$(drain "$2" "$ACTIONS")
		ratios+=$(awk -v a="$a" -v b="$b" 'BEGIN { printf "%.3f\n", b / a }')$'\n'
		as+=$a$'\n' bs+=$b$'\n'
	done
	printf '%-46s %8.0f actions/s, raw loop %8.0f/s, ratio %s (median of %s pairs)\n' \
		"$1" "$(median <<<"${bs%$'\n'}")" "$(median <<<"${as%$'\n'}")" "$(median <<<"${ratios%$'\n'}")" "$PAIRS"
}

bench_drain() { pairs "drain of $ACTIONS, keep-alive:" keyed '/keyed/refunds?do=ok'; }
bench_fresh() { pairs "drain of $ACTIONS, fresh connections:" unkeyed '/unkeyed/refunds?do=ok' --fresh; }

bench_tail() {
	local tag=tail.$RANDOM
	q -c "SELECT count(*) FROM actionledger.perform_many('tail',
	        (SELECT array_agg(jsonb_build_object('n', '$tag.' || g)) FROM generate_series(1, $ACTIONS) g),
	        options => jsonb_build_object('not_before', clock_timestamp() + make_interval(secs => 1 + $ACTIONS / 10000.0)))" >/dev/null
	until_true "SELECT count(*) = 0 FROM actionledger.pending" 600
	until_true "SELECT count(*) = 0 FROM actionledger.in_flight" 600
	q -F ' ' -c "
	  WITH a AS (SELECT a.last_sent_at, a.finished_at, a.finished_at - a.last_sent_at > interval '4 s' AS slow
	               FROM actionledger.action a WHERE a.identity LIKE 'bench:$tag.%' AND a.status = 'confirmed')
	  SELECT format('1 in 100 answers takes 5 s:                    %s fast ones at %s/s, %s slow ones',
	    count(*) FILTER (WHERE NOT slow),
	    round(count(*) FILTER (WHERE NOT slow) / extract(epoch FROM max(finished_at) FILTER (WHERE NOT slow) - min(last_sent_at))),
	    count(*) FILTER (WHERE slow)) FROM a"
	printf '%-46s %s/s\n' 'the same number without slow answers:' "$(drain tailfree "$ACTIONS")"
}

bench_perform() {
	local i plain one ratios='' script=$WORK/tmp/perform.sql base=$WORK/tmp/plain.sql
	q -c "CREATE TABLE IF NOT EXISTS plain (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, k text UNIQUE, args jsonb)" >/dev/null
	{
		echo BEGIN\;
		for ((i = 0; i < 100; i++)); do
			echo "\\set n random(1, 1000000000000)"
			echo "SELECT * FROM actionledger.perform('keyed', jsonb_build_object('n', 'p' || :n, 'amount', 4200, 'currency', 'EUR', 'reason', 'r', 'note', 'n'), options => '{\"not_before\": \"2100-01-01\"}');"
		done
		echo COMMIT\;
	} >"$script"
	sed -e 's/^SELECT .*/INSERT INTO plain (k, args) VALUES ('"'p'"' || :n, jsonb_build_object('"'n', 'p'"' || :n, '"'amount', 4200, 'currency', 'EUR', 'reason', 'r', 'note', 'n'"')) ON CONFLICT DO NOTHING;/' "$script" >"$base"
	for ((i = 0; i < PAIRS; i++)); do
		plain=$(pgbench -n -f "$base" -c 1 -T 3 2>/dev/null | sed -n 's/^tps = \([0-9.]*\).*/\1/p')
		one=$(pgbench -n -f "$script" -c 1 -T 3 2>/dev/null | sed -n 's/^tps = \([0-9.]*\).*/\1/p')
		ratios+=$(awk -v a="$plain" -v b="$one" 'BEGIN { printf "%.3f\n", a / b }')$'\n'
	done
	printf '%-46s %s times a plain insert with a unique key (pgbench, 100 a transaction)\n' 'perform:' "$(median <<<"${ratios%$'\n'}")"
	printf '%-46s %.0f actions/s\n' 'perform_many of 1,000:' "$(q -c "
	  DO \$\$ DECLARE t timestamptz := clock_timestamp(); BEGIN
	    FOR i IN 1..10 LOOP
	      PERFORM count(*) FROM actionledger.perform_many('keyed', (SELECT array_agg(jsonb_build_object('n', 'm' || i || '.' || g || t, 'amount', g, 'currency', 'EUR', 'reason', 'r', 'note', 'n')) FROM generate_series(1, 1000) g), options => '{\"not_before\": \"2100-01-01\"}');
	    END LOOP;
	    PERFORM set_config('bench.rate', (10000 / extract(epoch FROM clock_timestamp() - t))::text, false);
	  END \$\$; SELECT current_setting('bench.rate')")"
	q -c "SELECT count(actionledger.cancel(action_id)) FROM actionledger.pending" >/dev/null
}

bench_latency() {
	q -c "CREATE TABLE IF NOT EXISTS commits (n int)" >/dev/null
	for ((i = 0; i < 500; i++)); do
		echo "SELECT action_id FROM actionledger.perform('latency', '{\"n\": \"l$RANDOM.$i\"}');"
		echo "SELECT pg_sleep(0.004);"
	done | q >/dev/null
	until_true "SELECT count(*) = 0 FROM actionledger.in_flight"
	local commit
	commit=$(printf 'INSERT INTO commits VALUES (1);\n' >"$WORK/tmp/commit.sql"; pgbench -n -f "$WORK/tmp/commit.sql" -c 1 -T 3 2>/dev/null | sed -n 's/^latency average = \([0-9.]*\) ms.*/\1/p')
	q -F ' ' -c "
	  WITH l AS (SELECT 1000 * extract(epoch FROM at.started_at - a.created_at) + at.total_us / 1000.0 AS ms
	               FROM actionledger.action a JOIN actionledger.attempt at USING (action_id) WHERE a.identity LIKE 'bench:l%')
	  SELECT format('perform to answer, idle (%s samples):         median %s ms, p99 %s ms; a plain insert commit takes %s ms',
	    count(*), round(percentile_cont(0.5) WITHIN GROUP (ORDER BY ms)::numeric, 2),
	    round(percentile_cont(0.99) WITHIN GROUP (ORDER BY ms)::numeric, 2), '$commit') FROM l"
}

bench_wal() {
	local before after enqueued
	q -c 'CHECKPOINT'
	before=$(q -c 'SELECT pg_current_wal_lsn()')
	q -c "SELECT count(*) FROM actionledger.perform_many('keyed', (SELECT array_agg(jsonb_build_object('n', 'wal$RANDOM' || g, 'note', repeat('x', 150))) FROM generate_series(1, $ACTIONS) g),
	  options => jsonb_build_object('not_before', clock_timestamp() + make_interval(secs => 1 + $ACTIONS / 10000.0)))" >/dev/null
	enqueued=$(q -c 'SELECT pg_current_wal_lsn()')
	until_true "SELECT count(*) = 0 FROM actionledger.pending" 600
	until_true "SELECT count(*) = 0 FROM actionledger.in_flight" 600
	after=$(q -c 'SELECT pg_current_wal_lsn()')
	q -c "SELECT format('WAL per action, full-page images included:     %s B (%s to prepare, %s to send and record)',
	  round(('$after'::pg_lsn - '$before') / $ACTIONS), round(('$enqueued'::pg_lsn - '$before') / $ACTIONS), round(('$after'::pg_lsn - '$enqueued') / $ACTIONS))"
}

# Print how many instructions the server spends on executing $1 statements that
# the function $2 prints, in one transaction.
count_instructions() {
	local log=$WORK/tmp/callgrind.log
	{
		echo 'BEGIN;'
		"$2" "$1"
		echo 'ROLLBACK;'
	} | valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect=PortalRun \
		"$AL_PG_BIN/postgres" --single -D "$WORK/server" postgres >"$WORK/tmp/single.log" 2>"$log"
	sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$log"
}

performs() {
	local i
	for ((i = 0; i < $1; i++)); do
		echo "SELECT action_id FROM actionledger.perform('keyed', '{\"n\": \"i$i\", \"amount\": 4200, \"currency\": \"EUR\", \"reason\": \"r\", \"note\": \"n\"}');"
	done
}

inserts() {
	local i
	for ((i = 0; i < $1; i++)); do
		echo "INSERT INTO plain (k, args) VALUES ('i$i', '{\"n\": \"i$i\", \"amount\": 4200, \"currency\": \"EUR\", \"reason\": \"r\", \"note\": \"n\"}') ON CONFLICT DO NOTHING;"
	done
}

bench_instructions() {
	local few=100 many=400 one plain
	if ! command -v valgrind >/dev/null; then
		echo 'instructions: valgrind is not here (apt-get install valgrind)'
		return
	fi
	q -c "CREATE TABLE IF NOT EXISTS plain (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, k text UNIQUE, args jsonb)" >/dev/null
	stop_server
	one=$((($(count_instructions $many performs) - $(count_instructions $few performs)) / (many - few)))
	plain=$((($(count_instructions $many inserts) - $(count_instructions $few inserts)) / (many - few)))
	"$AL_PG_BIN/pg_ctl" -D "$WORK/server" -l "$WORK/server.log" -w start >/dev/null
	printf '%-46s %d instructions, a plain insert with a unique key %d: %s times as many\n' 'perform, executed (callgrind):' \
		"$one" "$plain" "$(awk -v a="$one" -v b="$plain" 'BEGIN { printf "%.1f", a / b }')"
}

start_server <<-CONF
	fsync = on
	synchronous_commit = on
	shared_buffers = 512MB
	max_wal_size = 8GB
	checkpoint_timeout = 30min
CONF
"$AL_BUILD/provider" --truth /dev/null --no-fsync --port-file "$WORK/tmp/port" >"$WORK/provider.log" 2>&1 &
provider=$!
for ((i = 0; i < 200; i++)); do
	[[ -s $WORK/tmp/port ]] && break
	sleep 0.05
done
URL=http://127.0.0.1:$(cat "$WORK/tmp/port")
q -c 'CREATE EXTENSION actionledger' >/dev/null
define keyed '/keyed/refunds?do=ok' '{"window": "24h"}'
define unkeyed '/unkeyed/refunds?do=ok' '"none"'
define tail '/keyed/refunds?do=p:1:late:5000/ok' '{"window": "24h"}' 1000
define tailfree '/keyed/refunds?do=ok' '{"window": "24h"}' 1000
define latency '/keyed/refunds?do=ok' '{"window": "24h"}'
q -c "VACUUM ANALYZE" >/dev/null

echo "PostgreSQL $(q -c 'SHOW server_version'), $(nproc) cores, fsync and synchronous_commit on"
for bench in $ONLY; do
	"bench_$bench"
done
