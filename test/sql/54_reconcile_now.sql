-- reconcile_now: find out at once; and what it refuses.
\a
\t
SELECT actionledger.create_service('rn', 'https://api.example.invalid', '{"idempotency": {"window": "24h"}}');
SELECT actionledger.create_service('rn_nokey', 'https://api.example.invalid', '{"idempotency": "none"}');
SELECT actionledger.create_tool(tool, service, 'POST /pay', type, identity => '{id}', input => '{"required": ["id"], "properties": {"id": {"type": "string"}}}', options => options)
FROM (VALUES ('rn_pay', 'rn_nokey', 'non_idempotent', '{"timeout": "20s", "max_processing": "60s", "lookup": {"request": "GET /pay/{_key}", "match": "$", "attempts": 3}}'::jsonb),
    ('rn_keyed', 'rn', 'non_idempotent', '{}'), ('rn_none', 'rn_nokey', 'irreversible', '{}')) AS t(tool, service, type, options);
CREATE FUNCTION pg_temp.id(text) RETURNS bigint LANGUAGE sql AS $$ SELECT action_id FROM actionledger.action a JOIN actionledger.service s USING (service_id) WHERE s.name LIKE 'rn%' AND a.identity = $1 $$;
CREATE FUNCTION pg_temp.unknown(id text, ago interval, step text DEFAULT 'review', looked int DEFAULT 0, known text DEFAULT 'unknown') RETURNS void LANGUAGE sql AS $$
    SELECT test.mark(pg_temp.id(id), ago);
    SELECT test.record(pg_temp.id(id), 'unknown', 'timeout_after_send', NULL, 'needs_reconciliation', step, known, 'infinity', 'outcome_unknown', '1 send, outcome unknown; the last: no answer in 20 s');
    UPDATE actionledger.action SET lookups = looked, attempts = attempts + looked, lookup_ends_at = CASE WHEN looked > 0 THEN now() + '1 h' END WHERE action_id = pg_temp.id(id) $$;
CREATE FUNCTION pg_temp.now(id text) RETURNS text LANGUAGE sql AS $$ SELECT test.says(format('SELECT concat_ws('' | '', status, next_step, message) FROM actionledger.reconcile_now(%s)', pg_temp.id(id))) $$;
CREATE FUNCTION pg_temp.refused(id text) RETURNS text LANGUAGE sql AS $$ SELECT test.fails(format('SELECT actionledger.reconcile_now(%s)', pg_temp.id(id))) $$;
SELECT count(*) FROM actionledger.perform_many('rn_pay', ARRAY(SELECT jsonb_build_object('id', id) FROM unnest('{fresh,early,late,used,several,flying,done}'::text[]) id));
SELECT count(*) FROM actionledger.perform_many('rn_keyed', ARRAY['{"id": "keyed"}'::jsonb]);
SELECT count(*) FROM actionledger.perform_many('rn_none', ARRAY['{"id": "none"}'::jsonb]);

-- Before the max processing time is over an absence would prove nothing, and the answer says so; later it does not.
SELECT pg_temp.unknown('early', '30 s', 'lookup');
SELECT pg_temp.now('early');
SELECT pg_temp.unknown('late', '10 min');
SELECT pg_temp.now('late');
SELECT d.next_at <= now() AS due, a.error_message = format('1 send, outcome unknown; %s asked to find out now', current_user) AS says_who FROM actionledger.due d JOIN actionledger.action a USING (action_id) WHERE action_id = pg_temp.id('late');
SELECT what, by_whom = current_user AS by_me, status FROM actionledger.event WHERE action_id = pg_temp.id('late');
-- Lookups that are used up begin anew.
SELECT pg_temp.unknown('used', '10 min', looked => 3);
SELECT pg_temp.now('used');
SELECT lookups, lookups_before, lookup_ends_at IS NULL AS window_begins_anew FROM actionledger.action WHERE action_id = pg_temp.id('used');
-- What may be sent again is.
SELECT test.mark(pg_temp.id('keyed'), '10 s');
SELECT test.record(pg_temp.id('keyed'), 'unknown', 'timeout_after_send', NULL, 'submitted', 'resend', 'unknown', '2099-01-01', 'outcome_unknown', 'no answer in 30 s');
UPDATE actionledger.action SET key_ends_at = now() + '1 h' WHERE action_id = pg_temp.id('keyed');
SELECT pg_temp.now('keyed');

-- Nothing to find out: nothing was sent, it is under way, it was found more than once, nobody can be asked, it is decided.
SELECT pg_temp.refused('fresh');
SELECT test.mark(pg_temp.id('flying'));
SELECT pg_temp.refused('flying');
SELECT pg_temp.unknown('several', '10 min', looked => 1, known => 'several');
SELECT pg_temp.refused('several');
SELECT pg_temp.unknown('none', '10 min');
SELECT pg_temp.refused('none');
SELECT pg_temp.unknown('done', '10 min');
SELECT status FROM actionledger.resolve(pg_temp.id('done'), 'confirmed', NULL, 'seen');
SELECT pg_temp.refused('done');
SELECT test.fails('SELECT actionledger.reconcile_now(NULL)');
SELECT test.fails('SELECT actionledger.reconcile_now(-1)');

-- For operators: those who may execute it, and resolve.
CREATE ROLE regress_al_looker;
SELECT pg_temp.id('late') AS late \gset
SET ROLE regress_al_looker;
SELECT actionledger.reconcile_now(:late);
RESET ROLE;
GRANT EXECUTE ON FUNCTION actionledger.reconcile_now(bigint) TO regress_al_looker;
SET ROLE regress_al_looker;
SELECT test.fails('SELECT actionledger.reconcile_now(' || :late || ')');
RESET ROLE;
GRANT EXECUTE ON FUNCTION actionledger.resolve(bigint, text, jsonb, text, text, bool) TO regress_al_looker;
SET ROLE regress_al_looker;
SELECT status, next_step FROM actionledger.reconcile_now(:late);
RESET ROLE;
SELECT by_whom FROM actionledger.event WHERE action_id = :late ORDER BY event_id DESC LIMIT 1;
DROP OWNED BY regress_al_looker;
DROP ROLE regress_al_looker;
