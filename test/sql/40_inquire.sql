-- What has become of an action: the envelope in every state.
\a
\t
SELECT actionledger.create_service('iq', 'https://api.example.invalid', '{"idempotency": {"window": "24h"}}');
CREATE ROLE regress_al_desk;
SELECT actionledger.create_tool('iq_pay', 'iq', 'POST /pay', identity => '{id}', input => '{"required": ["id"], "properties": {"id": {"type": "string"}}}', options => '{"summary": "pay {id}", "owner": "regress_al_desk"}');
SELECT count(*) FROM actionledger.perform_many('iq_pay', ARRAY(SELECT jsonb_build_object('id', id) FROM unnest('{prepared,retrying,blocked,sending,resending,waiting,confirmed,replayed,rejected,exhausted,review,cancelled,expired,resolved_confirmed,resolved_failed,cancel_noted,found,reported,looking,absent,no_answer,not_approved}'::text[]) id));

-- Every state, set up as its way through the ledger would leave it.
CREATE FUNCTION pg_temp.id(text) RETURNS bigint LANGUAGE sql AS $$ SELECT action_id FROM actionledger.action a JOIN actionledger.service s USING (service_id) WHERE s.name = 'iq' AND a.identity = $1 $$;
CREATE FUNCTION pg_temp.set_up(id text, VARIADIC text[]) RETURNS void LANGUAGE sql AS $$
    SELECT test.mark(pg_temp.id(id));
    SELECT test.record(pg_temp.id(id), $2[1], $2[2], $2[3]::int, $2[4], $2[5], $2[6], $2[7]::timestamptz, $2[8], $2[9], $2[10], $2[11]) $$;
SELECT pg_temp.set_up('retrying', 'not_sent', 'connect', NULL, 'prepared', 'send', 'not_sent', '2099-01-01', NULL, 'no connection; nothing was sent');
SELECT pg_temp.set_up('blocked', 'not_sent', 'bad_trust', NULL, 'prepared', 'blocked', 'not_sent', 'infinity', 'bad_trust', 'CA file or client certificate is unusable; mend the service');
SELECT test.mark(pg_temp.id('sending'));
SELECT pg_temp.set_up('resending', 'unknown', 'timeout_after_send', NULL, 'submitted', 'resend', 'unknown', '2099-01-01', 'outcome_unknown', 'no answer in 30 s');
SELECT pg_temp.set_up('waiting', 'in_progress', 'accepted', '202', 'submitted', 'wait', 'in_progress', '2099-01-01', 'outcome_unknown', 'accepted (HTTP 202), not done yet');
SELECT pg_temp.set_up('confirmed', 'confirmed', 'confirmed', '200', 'confirmed', 'none', 'confirmed', NULL, NULL, NULL, 'py_1', 'response');
SELECT pg_temp.set_up('replayed', 'confirmed', 'replayed', '200', 'confirmed', 'none', 'confirmed', NULL, NULL, NULL, 'py_2', 'replay');
SELECT pg_temp.set_up('found', 'unknown', 'timeout_after_send', NULL, 'confirmed', 'none', 'confirmed', NULL, NULL, NULL, 'py_3', 'lookup');
SELECT pg_temp.set_up('reported', 'unknown', 'timeout_after_send', NULL, 'confirmed', 'none', 'confirmed', NULL, NULL, NULL, 'py_4', 'callback');
SELECT pg_temp.set_up('looking', 'unknown', 'timeout_after_send', NULL, 'needs_reconciliation', 'lookup', 'unknown', '2099-01-01', 'outcome_unknown', '1 send, outcome unknown; the last: no answer in 30 s');
SELECT pg_temp.set_up('absent', 'unknown', 'timeout_after_send', NULL, 'failed', 'none', 'rejected', NULL, 'absent', '1 send, 1 lookup; the last: it is not there');
SELECT pg_temp.set_up('no_answer', 'unknown', 'timeout_after_send', NULL, 'failed', 'none', 'unknown', NULL, 'no_answer', 'no answer obtained after 4 sends; the last: no answer in 30 s');
SELECT test.record(pg_temp.id('not_approved'), NULL, NULL, NULL, 'failed', 'none', 'nothing', NULL, 'approval_expired', 'nobody approved it in time; nothing was done');
SELECT pg_temp.set_up('rejected', 'rejected', 'rejected', '402', 'failed', 'none', 'rejected', NULL, 'rejected', 'refused with HTTP 402');
SELECT pg_temp.set_up('exhausted', 'not_sent', 'connect', NULL, 'failed', 'none', 'not_sent', NULL, 'retries_exhausted', 'after 4 sends, every one undelivered or refused; the last: no connection; nothing was sent');
SELECT pg_temp.set_up('review', 'unknown', 'timeout_after_send', NULL, 'needs_reconciliation', 'review', 'unknown', 'infinity', 'outcome_unknown', '1 send, outcome unknown; the last: no answer in 30 s');
SELECT c.status FROM actionledger.cancel(pg_temp.id('cancelled'), 'changed my mind') c;
SELECT test.record(pg_temp.id('expired'), NULL, NULL, NULL, 'failed', 'none', 'nothing', NULL, 'expired', 'expired before anything was done');
SELECT r.status FROM actionledger.resolve(pg_temp.id('resolved_confirmed'), 'confirmed', '{"external_ref": "py_9", "seen": "dashboard"}', 'seen in the dashboard', 'prepared') r;
SELECT r.status FROM actionledger.resolve(pg_temp.id('resolved_failed'), 'failed', NULL, 'the shop has closed', 'prepared') r;
SELECT pg_temp.set_up('cancel_noted', 'unknown', 'timeout_after_send', NULL, 'submitted', 'resend', 'unknown', '2099-01-01', 'outcome_unknown', 'no answer in 30 s');
SELECT r.status, next_step, message FROM actionledger.cancel(pg_temp.id('cancel_noted')) r;

-- One line of facts and one of words for each.
SELECT identity, e ->> 'ok' AS ok, e #>> '{data,status}' AS status, e #>> '{data,next_step}' AS next_step, e #>> '{error,code}' AS code, e #>> '{error,message}' AS message,
       e #>> '{meta,advice}' AS advice, e #>> '{data,external_ref}' AS reference, e #>> '{meta,confirmed_by}' AS confirmed_by, e #>> '{data,attempts}' AS attempts,
       (e #>> '{meta,retry_after_s}')::bigint > 0 AS timed,
       E'\n    ' || replace(test.plain(e #>> '{meta,observation}'), current_user, '<me>') AS observation
FROM actionledger.actions, actionledger.result(action_id) e WHERE tool = 'iq_pay' ORDER BY identity;

-- Asked for again, each says that it is the same, what has become of it, and what to do for another; a WARNING where that did not happen.
SET client_min_messages = error;
SELECT a.identity, p.created, E'\n    ' || replace(test.plain(p.observation), current_user, '<me>') AS observation
FROM actionledger.actions a, actionledger.perform('iq_pay', jsonb_build_object('id', a.identity)) p WHERE a.tool = 'iq_pay' ORDER BY a.identity;
RESET client_min_messages;
-- What it is about is named where the summary does not; what was cut is told.
SELECT count(actionledger.create_tool('iq_move', 'iq', 'POST /move', identity => 'move:{id}', input => '{"required": ["id"], "properties": {"id": {"type": "string"}, "to": {"type": "string"}}}',
    options => '{"target": "account {to}"}'));
SELECT test.plain(observation) FROM actionledger.perform('iq_move', '{"id": "1", "to": "DE-7"}');
SELECT count(actionledger.alter_tool('iq_move', '{"summary": "move {id} to account {to}"}'));
SELECT test.plain(observation) FROM actionledger.perform('iq_move', '{"id": "2", "to": "DE-7"}');
BEGIN;
UPDATE actionledger.attempt SET truncated = true WHERE action_id = pg_temp.id('confirmed');
SELECT e #> '{meta,left_out}', E'\n    ' || test.plain(e #>> '{meta,observation}') FROM actionledger.result_by_identity('iq', 'confirmed') e;
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT e #> '{meta,left_out}', E'\n    ' || test.plain(e #>> '{meta,observation}') FROM actionledger.result_by_identity('iq', 'review') e;
COMMIT;
-- Several at once: in the order of the question, each as often as it is asked for.
SELECT e #>> '{data,identity}' FROM actionledger.wait_many(ARRAY[pg_temp.id('review'), pg_temp.id('confirmed'), pg_temp.id('review')]) e;
SELECT e #>> '{data,identity}', e #>> '{meta,advice}' FROM actionledger.wait_many(ARRAY[pg_temp.id('prepared'), pg_temp.id('confirmed')], '50 ms') e;
SELECT count(*) FROM actionledger.wait_many('{}');
SELECT test.fails($$SELECT actionledger.wait_many('{0}')$$);
SELECT test.fails($$SELECT actionledger.wait_many(ARRAY[NULL]::bigint[])$$);
SELECT test.fails($$SELECT actionledger.wait_many(ARRAY(SELECT generate_series(1, 1001)))$$);

-- All keys are always there; ok only for confirmed; error exactly when not ok;
-- nothing advises to repeat a write.
SELECT count(*) AS envelopes,
       count(*) FILTER (WHERE ARRAY(SELECT jsonb_object_keys(e) ORDER BY 1) = '{data,error,meta,ok}') AS keys,
       count(*) FILTER (WHERE ARRAY(SELECT jsonb_object_keys(e -> 'data') ORDER BY 1) =
           '{action_id,attempts,created,external_ref,idempotency_key,identity,next_step,result,status,tool}') AS keys_of_data,
       count(*) FILTER (WHERE ARRAY(SELECT jsonb_object_keys(e -> 'meta') ORDER BY 1) = '{advice,as_of,confirmed_by,findings,left_out,observation,retry_after_s}') AS keys_of_meta,
       count(*) FILTER (WHERE (e ->> 'ok')::bool = (status = 'confirmed')) AS ok_when_confirmed,
       count(*) FILTER (WHERE (e -> 'error' = 'null') = (e ->> 'ok')::bool) AS error_when_not_ok,
       count(*) FILTER (WHERE e #>> '{meta,advice}' IN ('done', 'wait', 'correct', 'approve', 'verify', 'escalate', 'stop')) AS advice_known,
       count(*) FILTER (WHERE status = 'confirmed' AND e -> 'error' <> 'null' OR status IN ('submitted', 'needs_reconciliation') AND e #>> '{meta,observation}' !~ 'Do not repeat it') AS misleading
FROM actionledger.actions, actionledger.result(action_id) e WHERE tool = 'iq_pay';

-- One in full, by its identity.
SELECT jsonb_pretty(actionledger.result_by_identity('iq', 'confirmed') #- '{data,action_id}' #- '{meta,as_of}' #- '{meta,observation}');
-- A result that the provider returned comes along, whatever its type.
BEGIN;
UPDATE actionledger.action SET result = v.r FROM (VALUES ('{"a": [1]}'::jsonb)) v(r) WHERE action_id = pg_temp.id('confirmed');
SELECT actionledger.result_by_identity('iq', 'confirmed') #> '{data,result}';
UPDATE actionledger.action SET result = '"x"' WHERE action_id = pg_temp.id('confirmed');
SELECT actionledger.result_by_identity('iq', 'confirmed') #> '{data,result}';
ROLLBACK;

-- Nothing to see.
SELECT test.fails($$SELECT actionledger.result(0)$$);
SELECT test.fails($$SELECT actionledger.result(9223372036854775807)$$);
SELECT test.fails($$SELECT actionledger.result_by_identity('iq', 'nope')$$);
SELECT test.fails($$SELECT actionledger.result_by_identity('nope', 'confirmed')$$);
SELECT test.fails($$SELECT actionledger.wait(0, '0')$$);
SELECT actionledger.result(NULL) IS NULL AS no_question_no_answer;

-- Waiting: at once for what nobody need wait for, to the end of the time for the rest.
SELECT identity, e #>> '{data,status}' AS status, clock_timestamp() - now() < '5 s' AS at_once
FROM actionledger.actions, actionledger.wait(action_id, '60 s') e WHERE identity IN ('confirmed', 'rejected', 'review', 'blocked', 'cancelled') AND tool = 'iq_pay' ORDER BY 1;
SELECT actionledger.wait(pg_temp.id('prepared'), '0 s') #>> '{data,status}';
SELECT actionledger.wait(pg_temp.id('prepared'), '-1 s') #>> '{data,status}';
SELECT e #>> '{data,status}' AS status, clock_timestamp() - statement_timestamp() BETWEEN '50 ms' AND '5 s' AS waited FROM actionledger.wait(pg_temp.id('resending'), '50 ms') e;
-- In the transaction that performed it, it would wait for ever.
BEGIN;
SELECT test.fails(format('SELECT actionledger.wait(%s)', action_id)) FROM actionledger.perform('iq_pay', '{"id": "own"}');
SAVEPOINT s;
SELECT test.fails(format('SELECT actionledger.wait(%s)', action_id)) FROM actionledger.perform('iq_pay', '{"id": "own in a savepoint"}');
RELEASE s;
SELECT test.fails(format('SELECT actionledger.wait(%s)', pg_temp.id('own in a savepoint')));
-- Looking is another matter.
SELECT actionledger.result_by_identity('iq', 'own') #>> '{data,status}';
-- So would a snapshot that stays.
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT test.fails(format('SELECT actionledger.wait(%s)', pg_temp.id('prepared')));
SELECT actionledger.wait(pg_temp.id('confirmed')) #>> '{data,status}'; -- nothing to wait for
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY;
SELECT test.fails(format('SELECT actionledger.wait(%s)', pg_temp.id('resending')));
COMMIT;
-- A look is possible where nothing can be written.
BEGIN READ ONLY;
SELECT actionledger.result_by_identity('iq', 'confirmed') #>> '{data,status}', actionledger.wait(pg_temp.id('prepared'), '0') #>> '{data,status}';
COMMIT;
DROP ROLE regress_al_desk;
