#!/usr/bin/env bash
#
# scenario.sh: one incident, three ways, counted in the provider's own truth log.
#
# The provider executes each refund at once and answers the first two requests
# only after the client has given up; the third is answered in time.  Run by
# "make demo" on a private server, with a provider of its own for each way.
set -euo pipefail
# shellcheck source=test/lib/server.sh
. test/lib/server.sh

LATE='late:2500,late:2500,ok'
declare -A PORT PROVIDER

# End the providers and the server, whatever has happened.
clean_up() {
	local name

	trap - EXIT INT TERM
	for name in "${!PROVIDER[@]}"; do
		kill "${PROVIDER[$name]}" 2>/dev/null || true
	done
	if [[ -f $WORK/server/postmaster.pid ]]; then
		stop_server
	fi
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# Start the provider $1 with a truth log of its own.
start_provider() {
	local tries=0

	build/provider --truth "$WORK/truth.$1" --port-file "$WORK/port.$1" --quiet &
	PROVIDER[$1]=$!
	until [[ -s $WORK/port.$1 ]]; do
		if ((tries++ > 200)); then
			echo "the provider does not listen" >&2
			exit 1
		fi
		sleep 0.05
	done
	PORT[$1]=$(<"$WORK/port.$1")
}

# Count the refunds that the provider $1 has "received" or "executed" ($2), by its truth log.
count() {
	grep "\"ev\":\"$2\"" "$WORK/truth.$1" | grep -c '"method":"POST"' || true
}

heading() {
	printf '\n== %s\n' "$1"
}

# Show a statement and its result as psql does.
show() {
	printf '\nshop=> %s\n' "$1"
	psql -X -q -P footer=off -P pager=off -c "$1"
}

# Run a statement without a word.
quietly() {
	psql -X -q -A -t -v ON_ERROR_STOP=1 -c "$1" >/dev/null
}

# Wait until the query $1 answers "t".
await() {
	local tries=0

	until [[ $(psql -X -q -A -t -c "$1") == t ]]; do
		if ((tries++ > 600)); then
			echo "gave up waiting for: $1" >&2
			exit 1
		fi
		sleep 0.05
	done
}

# Define the service $1, which declares $2 about keys, and its tool.
define() {
	quietly "SELECT actionledger.create_service('$1', 'http://127.0.0.1:${PORT[$1]}/$1', '{\"allow_private\": true, \"idempotency\": $2}')"
	quietly "SELECT actionledger.create_tool('refund_$1', '$1', 'POST /refunds?do=$LATE', identity => 'refund:{order}',
		input => '{\"required\": [\"order\", \"amount\"], \"properties\": {\"order\": {\"type\": \"string\"}, \"amount\": {\"type\": \"integer\"}}}',
		options => '{\"summary\": \"refund {amount} for {order}\", \"external_ref\": \"\$.id\", \"timeout\": \"1s\", \"owner\": \"support\", \"approval\": \"never\",
			\"retry\": {\"base\": \"1s\"}}')"
}

# A client as it is often written: a timeout, and three tries.
naive() {
	local try

	heading 'A client with "retry 3 times" and no ledger'
	for try in 1 2 3; do
		printf 'try %s: ' "$try"
		if curl -sS --max-time 1 -d '{"order": "ORD-4471", "amount": 425000}' \
			"http://127.0.0.1:${PORT[naive]}/unkeyed/refunds?do=$LATE" 2>&1; then
			printf '\nIt believes that it has refunded once.\n'
			break
		fi
	done
	printf 'The provider has received %s requests and executed %s refunds.\n' "$(count naive received)" "$(count naive executed)"
}

keyed() {
	heading 'actionledger, a provider that honours idempotency keys'
	psql -X -q -P footer=off -P pager=off -e <<'SQL'
BEGIN;
UPDATE orders SET state = 'refunding' WHERE id = 'ORD-4471';
SELECT action_id, status, created FROM actionledger.perform('refund_keyed', '{"order": "ORD-4471", "amount": 425000}');
SELECT action_id, tool, summary, next_step, waiting_for FROM actionledger.pending;
COMMIT;
SQL
	await "SELECT status = 'submitted' AND next_step = 'resend' FROM actionledger.actions WHERE tool = 'refund_keyed'"
	echo
	echo 'A second later. Nobody knows what has happened; sending again is safe, because the key is the same:'
	show "SELECT action_id, summary, next_step, timeout FROM actionledger.in_flight;"
	show "SELECT actionledger.wait(1, '20s') #>> '{meta,observation}' AS observation;"
	show "SELECT attempt, sent, http_status, verdict, category, external_ref FROM actionledger.attempts WHERE action_id = 1 ORDER BY attempt;"
	printf 'The provider has received %s requests and executed %s refund.\n' "$(count keyed received)" "$(count keyed executed)"
}

unkeyed() {
	heading 'actionledger, a provider without keys and without a lookup'
	show "SELECT action_id, status, created FROM actionledger.perform('refund_unkeyed', '{\"order\": \"ORD-4471\", \"amount\": 425000}');"
	await "SELECT count(*) = 1 FROM actionledger.review_queue"
	echo 'A second later. Sending again could refund twice, so a person decides:'
	show "SELECT action_id, owner, summary, known, allowed FROM actionledger.review_queue;"
	echo 'The person asks the provider, not the ledger:'
	printf '$ curl https://provider/refunds\n'
	curl -sS "http://127.0.0.1:${PORT[unkeyed]}/refunds" 2>&1 | tee "$WORK/list"
	printf '\n'
	show "SELECT status, message FROM actionledger.resolve(2, 'confirmed', '{\"external_ref\": \"$(sed -n 's/.*"id":"\([^"]*\)".*/\1/p' "$WORK/list")\"}', 'found in the provider''s list of refunds');"
	show "SELECT to_char(at, 'HH24:MI:SS') AS at, what, status, by_whom, detail FROM actionledger.timeline WHERE action_id = 2 ORDER BY seq;"
	printf 'The provider has received %s request and executed %s refund.\n' "$(count unkeyed received)" "$(count unkeyed executed)"
}

start_provider naive
start_provider keyed
start_provider unkeyed
start_server </dev/null
createdb shop
export PGDATABASE=shop
quietly "CREATE EXTENSION actionledger; CREATE ROLE support; CREATE TABLE orders (id text PRIMARY KEY, state text);
	INSERT INTO orders VALUES ('ORD-4471', 'paid')"
define keyed '{"header": "Idempotency-Key", "window": "24h", "replay_header": "Idempotent-Replayed"}'
define unkeyed '"none"'

echo 'Order ORD-4471 is to be refunded: 425000 paise. The provider executes a refund at once,'
echo 'but the first two answers come after 2.5 seconds. Every client gives up after one.'
naive
keyed
unkeyed
heading 'What the provider has really done'
executed="naive $(count naive executed), keyed $(count keyed executed), unkeyed $(count unkeyed executed)"
clean_up
echo "refunds executed at the provider: $executed"
[[ $executed == 'naive 3, keyed 1, unkeyed 1' ]]
