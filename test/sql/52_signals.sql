-- How tools do: each number of the view from rows that are known.
\a
\t
SET client_min_messages = error;
SELECT actionledger.create_service('sg', 'https://api.example.invalid', '{"idempotency": {"window": "24h", "replay_header": "Idempotent-Replayed"}}');
SELECT actionledger.create_tool('sg_pay', 'sg', 'POST /pay', identity => 'sg:{id}', input => '{"required": ["id"], "properties": {"id": {"type": "string"}}}', options => '{"timeout": "8s"}');
SELECT actionledger.create_tool('sg_quiet', 'sg', 'POST /quiet');
CREATE ROLE regress_al_sg_owner;
CREATE ROLE regress_al_sg_caller;
SELECT actionledger.alter_tool('sg_pay', '{"owner": "regress_al_sg_owner"}');
SELECT actionledger.grant_tool('sg_pay', 'regress_al_sg_caller');
SELECT actionledger.grant_tool('sg_quiet', 'regress_al_sg_caller');
CREATE FUNCTION pg_temp.made(n int, ago interval) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE id bigint := (SELECT p.action_id FROM actionledger.perform('sg_pay', jsonb_build_object('id', n::text)) p);
BEGIN
    UPDATE actionledger.action SET created_at = now() - ago WHERE action_id = id;
    RETURN id;
END $$;
CREATE FUNCTION pg_temp.sent(id bigint, no int, ago interval, verdict text, category text, ms int, kind text DEFAULT 'send') RETURNS void LANGUAGE sql AS $$
    INSERT INTO actionledger.attempt (action_id, attempt, kind, incarnation, started_at, deadline, finished_at, verdict, category, sent, total_us)
    VALUES (id, no, kind, 1, now() - ago, now(), now(), verdict::actionledger.verdict, category, verdict <> 'not_sent', ms * 1000) $$;
CREATE FUNCTION pg_temp.ended(id bigint, s text, by text DEFAULT NULL) RETURNS void LANGUAGE sql AS $$
    UPDATE actionledger.action SET status = s::actionledger.status, confirmed_by = by WHERE action_id = id;
    DELETE FROM actionledger.due WHERE action_id = id AND s IN ('confirmed', 'failed') $$;

-- In the last minute: confirmed at once; confirmed by a replay after a lost answer; refused after it could not be delivered.
SELECT pg_temp.sent(i, 1, '1 min', 'confirmed', 'ok', 100), pg_temp.ended(i, 'confirmed', 'response') FROM pg_temp.made(1, '1 min') i;
SELECT pg_temp.sent(i, 1, '1 min', 'unknown', 'timeout_after_send', 8000), pg_temp.sent(i, 2, '30 s', 'confirmed', 'replayed', 200), pg_temp.ended(i, 'confirmed', 'replay') FROM pg_temp.made(2, '1 min') i;
SELECT pg_temp.sent(i, 1, '1 min', 'not_sent', 'connect', 5), pg_temp.sent(i, 2, '30 s', 'rejected', 'http_402', 300), pg_temp.ended(i, 'failed') FROM pg_temp.made(3, '1 min') i;
-- The refusal is one that the provider has stored, and marks as such; the first answer says that it is none.
UPDATE actionledger.attempt x SET http_status = v.status, response_headers = 'Content-Type: application/json' || E'\n' || v.line || E'\n'
    FROM (VALUES ('sg:1', 1, 200, 'Idempotent-Replayed: false'), ('sg:3', 2, 402, 'idempotent-replayed: true')) v(identity, attempt, status, line), actionledger.action a
    WHERE a.identity = v.identity AND x.action_id = a.action_id AND x.attempt = v.attempt;
-- Half an hour ago: unknown, looked up in vain and found twice; a person decided.
SELECT pg_temp.sent(i, 1, '30 min', 'unknown', 'timeout_after_send', 8000), pg_temp.sent(i, 2, '29 min', 'unknown', 'several', 50, 'lookup'), pg_temp.ended(i, 'needs_reconciliation') FROM pg_temp.made(4, '30 min') i;
INSERT INTO actionledger.event (action_id, at, what, by_whom) SELECT action_id, now() - interval '20 min', what, 'regress_al_sg_owner'
    FROM actionledger.action, unnest('{approved,assigned,resolved,left_open}'::text[]) what WHERE identity = 'sg:4';
INSERT INTO actionledger.event (action_id, what, by_whom) SELECT action_id, 'resend_blocked', 'dispatcher 1' FROM actionledger.action WHERE identity = 'sg:4';
-- Yesterday evening: confirmed. Two days ago, still open.
SELECT pg_temp.sent(i, 1, '20 h', 'confirmed', 'ok', 400), pg_temp.ended(i, 'confirmed', 'response') FROM pg_temp.made(5, '20 h') i;
SELECT pg_temp.made(6, '49 h') IS NOT NULL;
-- Refused, in a transaction that was aborted, by an answer, and as an item.
SELECT test.fails($$SELECT actionledger.perform('sg_pay', '{}')$$);
SELECT actionledger.try_perform('sg_pay', '{"id": 7}') #>> '{error,code}';
SELECT error ->> 'code' FROM actionledger.perform_many('sg_pay', '{"{}"}', options => '{"on_error": "skip"}');

SELECT period, actions, success_rate, unknown_rate, retry_rate, refused, p50_ms, p95_ms, p99_ms, timeout_ms, p95_of_timeout, open, oldest_open BETWEEN '49 h' AND '50 h' AS oldest, dup_prevented, dup_found, manual, errors
FROM actionledger.signals WHERE tool = 'sg_pay' ORDER BY array_position('{5m,1h,24h}', period);
SELECT * FROM actionledger.signals WHERE tool = 'sg_quiet' ORDER BY array_position('{5m,1h,24h}', period);
-- A name that no tool has is counted in one bucket, whatever the name.
SELECT refused AS before FROM actionledger.signals WHERE tool = '(no such tool)' AND period = '5m' \gset
SELECT count(actionledger.try_perform('sg_made_up_' || i, '{}')) FROM generate_series(1, 100) i;
SELECT refused - :before FROM actionledger.signals WHERE tool = '(no such tool)' AND period = '5m';
SELECT count(*) FROM actionledger._refused() r LEFT JOIN actionledger.tool t USING (tool_id) WHERE t.tool_id IS NULL AND r.tool_id <> 0;
-- Who sees it.
SET ROLE regress_al_sg_owner;
SELECT DISTINCT tool FROM actionledger.signals;
SET ROLE regress_al_sg_caller;
SELECT count(*) FROM actionledger.signals;
RESET ROLE;
-- The last day is found through the order of the rows.
BEGIN;
INSERT INTO actionledger.attempt (action_id, attempt, incarnation, started_at, deadline) SELECT 1000000 + i, 1, 1, now() - interval '60 days' + i * interval '1 min', now() FROM generate_series(1, 20000) i;
ANALYZE actionledger.attempt;
CREATE FUNCTION pg_temp.plan(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS off) ' || statement LOOP
        IF line ~ ' on attempt_started' THEN RETURN NEXT trim(line); END IF;
    END LOOP;
END $$;
SELECT pg_temp.plan('SELECT count(*) FROM actionledger.attempt x WHERE x.started_at > now() - interval ''24 hours''');
ROLLBACK;
DROP OWNED BY regress_al_sg_owner, regress_al_sg_caller;
SELECT actionledger.alter_tool('sg_pay', '{"owner": null}');
DROP ROLE regress_al_sg_owner, regress_al_sg_caller;
