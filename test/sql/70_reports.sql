-- Evidence from outside: callbacks and findings.
\a
\t
CREATE ROLE regress_al_hook;
CREATE ROLE regress_al_stranger;
SELECT actionledger.create_service('ev', 'https://api.example.invalid', '{"idempotency": {"header": "Idempotency-Key", "window": "24h"}}');
SELECT actionledger.create_service('ev_unkeyed', 'https://api.example.invalid', '{"idempotency": "none"}');
SELECT actionledger.create_tool('ev_pay', 'ev', 'POST /pay', identity => '{id}', input => '{"required": ["id"], "properties": {"id": {"type": "string"}}}', options => '{"summary": "pay {id}"}');
SELECT actionledger.create_tool('ev_book', 'ev_unkeyed', 'POST /book', identity => '{id}', input => '{"required": ["id"], "properties": {"id": {"type": "string"}}}', options => '{"summary": "book {id}"}');
SELECT count(*) FROM actionledger.perform_many('ev_pay', ARRAY(SELECT jsonb_build_object('id', id) FROM unnest('{open,refused,later,flying,flying2,never,never2,done,dead,rest,noted,step}'::text[]) id));
SELECT count(*) FROM actionledger.perform_many('ev_book', ARRAY(SELECT jsonb_build_object('id', id) FROM unnest('{u_open,u_refused,u_progress,u_never,u_window,u_looked}'::text[]) id));
CREATE FUNCTION pg_temp.id(text) RETURNS bigint LANGUAGE sql AS $$ SELECT action_id FROM actionledger.action a JOIN actionledger.service s USING (service_id) WHERE s.name LIKE 'ev%' AND a.identity = $1 $$;
CREATE FUNCTION pg_temp.state(text) RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(' ', status || '/' || next_step, 'known ' || known, error_code, '(' || error_message || ')', 'ref ' || external_ref, 'result ' || result::text, 'by ' || confirmed_by,
        CASE WHEN finished_at IS NOT NULL THEN 'finished' END, CASE WHEN claimed_by IS NOT NULL THEN 'claimed' END,
        CASE WHEN EXISTS (SELECT FROM actionledger.due d WHERE d.action_id = a.action_id) THEN 'live' END)
    FROM actionledger.action a WHERE action_id = pg_temp.id($1) $$;
CREATE FUNCTION pg_temp.unsure(id text) RETURNS void LANGUAGE sql AS $$
    SELECT test.mark(pg_temp.id(id), '10 min');
    SELECT test.record(pg_temp.id(id), 'unknown', 'timeout_after_send', NULL, 'needs_reconciliation', 'review', 'unknown', 'infinity', 'outcome_unknown', '1 send, outcome unknown; the last: no answer in 30 s') $$;
CREATE FUNCTION pg_temp.report(id text, verdict text, evidence jsonb) RETURNS text LANGUAGE sql AS $$
    SELECT test.plain(concat_ws(' | ', status || '/' || next_step, message)) FROM actionledger.report_outcome(pg_temp.id(id), verdict, evidence) $$;

-- An unknown outcome is settled by what the provider says of the operation.
SELECT pg_temp.unsure(id) FROM unnest('{open,refused,u_open,u_refused,u_progress,noted}'::text[]) id;
SELECT pg_temp.report('open', 'confirmed', '{"external_ref": "re_1", "result": {"fee": 3}, "event": "evt_1"}');
SELECT pg_temp.state('open');
SELECT pg_temp.report('refused', 'rejected', '{"event": "evt_2", "reason": "insufficient funds"}');
SELECT replace(pg_temp.state('refused'), current_user, '<me>');
SELECT pg_temp.report('u_open', 'confirmed', '{"external_ref": 17}');
SELECT pg_temp.state('u_open');
SELECT pg_temp.report('u_refused', 'rejected', '{"event": "evt_3"}');
SELECT replace(pg_temp.state('u_refused'), current_user, '<me>');
-- What proves nothing changes nothing, and is kept.
SELECT pg_temp.report('noted', 'unknown', '{"seen": "nothing in the dashboard"}');
SELECT pg_temp.report('noted', 'rejected', '{"reason": "busy", "transient": true}');
SELECT pg_temp.state('noted');
SELECT e.what, e.verdict, e.source, e.evidence, e.status FROM actionledger.event e WHERE action_id = pg_temp.id('noted') ORDER BY event_id;
-- It is at it: with a key the same request may follow, without one the ledger waits.
SELECT pg_temp.report('u_progress', 'in_progress', '{"event": "evt_4"}');
SELECT replace(pg_temp.state('u_progress'), current_user, '<me>');
SELECT next_at = window_ends_at AS until_the_window_ends FROM actionledger.in_flight WHERE action_id = pg_temp.id('u_progress');
SELECT pg_temp.report('u_progress', 'confirmed', '{"event": "evt_5"}');
SELECT pg_temp.state('u_progress');
-- Nothing is prolonged beyond the window.
SELECT pg_temp.unsure('u_window');
UPDATE actionledger.action SET window_ends_at = now() - interval '1 s' WHERE action_id = pg_temp.id('u_window');
SELECT pg_temp.report('u_window', 'in_progress', '{"event": "evt_6"}');

-- The same evidence twice is one; the order of its members and the spelling of its numbers do not matter.
SELECT pg_temp.report('later', 'in_progress', '{"event": "evt_7", "n": 1.0}');
SELECT pg_temp.report('later', 'in_progress', '{"n": 1, "event": "evt_7"}');
SELECT pg_temp.report('open', 'confirmed', '{"event": "evt_1", "external_ref": "re_1", "result": {"fee": 3}}');
SELECT count(*) FROM actionledger.event WHERE action_id IN (pg_temp.id('later'), pg_temp.id('open'));

-- While a request is under way: a confirmation decides, a refusal counts at its end, the rest waits for it.
SELECT test.mark(pg_temp.id(id)) FROM unnest('{flying,flying2,u_never}'::text[]) id;
SELECT pg_temp.report('flying', 'in_progress', '{"event": "evt_8"}');
SELECT pg_temp.state('flying');
SELECT pg_temp.report('flying', 'confirmed', '{"event": "evt_9"}');
SELECT pg_temp.state('flying');
SELECT pg_temp.report('flying2', 'rejected', '{"event": "evt_10"}');
SELECT pg_temp.state('flying2');

-- A lookup under way holds up nothing: it can only be late.
SELECT pg_temp.unsure('u_looked');
UPDATE actionledger.action SET next_step = 'lookup', claimed_by = 1000000 WHERE action_id = pg_temp.id('u_looked');
SELECT pg_temp.report('u_looked', 'in_progress', '{"event": "evt_20"}');
SELECT pg_temp.report('u_looked', 'rejected', '{"event": "evt_21"}');

-- Something that was never sent: it is as they say, and somebody should look.
SELECT pg_temp.report('never', 'confirmed', '{"event": "evt_11", "external_ref": "re_11"}');
SELECT pg_temp.state('never');
SELECT pg_temp.report('never2', 'in_progress', '{"event": "evt_12"}');
SELECT replace(pg_temp.state('never2'), current_user, '<me>');
SELECT window_ends_at IS NOT NULL AS bounded FROM actionledger.in_flight WHERE action_id = pg_temp.id('never2');

-- At rest nothing changes; the contrary is a conflict, which stays until somebody says that it was seen.
SELECT test.mark(pg_temp.id(id), '10 min') FROM unnest('{done,dead,rest}'::text[]) id;
SELECT test.record(pg_temp.id('done'), 'confirmed', 'confirmed', 200, 'confirmed', 'none', 'confirmed', 'infinity', NULL, NULL, 're_2', 'response');
SELECT test.record(pg_temp.id('dead'), 'rejected', 'rejected', 402, 'failed', 'none', 'rejected', 'infinity', 'rejected', 'refused with HTTP 402');
SELECT test.record(pg_temp.id('rest'), 'confirmed', 'confirmed', 200, 'confirmed', 'none', 'confirmed', 'infinity', NULL, NULL, 're_3', 'response');
SELECT pg_temp.report('done', 'rejected', '{"event": "evt_13", "reason": "reversed"}');
SELECT pg_temp.report('done', 'rejected', '{"event": "evt_13", "reason": "reversed"}');
SELECT pg_temp.report('dead', 'confirmed', '{"event": "evt_14", "external_ref": "re_14"}');
SELECT pg_temp.report('dead', 'in_progress', '{"event": "evt_15"}');
SELECT pg_temp.report('dead', 'unknown', '{"event": "evt_16"}');
SELECT pg_temp.report('rest', 'confirmed', '{"event": "evt_17", "external_ref": "re_3"}');
SELECT pg_temp.state(id) FROM unnest('{done,dead,rest}'::text[]) id;
SELECT tool, summary, status, says, source, evidence, acknowledged_by FROM actionledger.conflicts WHERE action_id IN (SELECT pg_temp.id(id) FROM unnest('{done,dead,rest,never,never2}'::text[]) id) ORDER BY at;
INSERT INTO actionledger.event (action_id, what, by_whom, note) VALUES (pg_temp.id('done'), 'acknowledged', 'support', 'reversed by us, see ticket 7');
SELECT summary, acknowledged_by FROM actionledger.conflicts WHERE action_id = pg_temp.id('done');

-- By service and identity, as a provider names it.
SELECT status, next_step, message FROM actionledger.report_outcome_by_identity('ev', 'step', 'rejected', '{"event": "evt_18"}');
SELECT what, t.status, replace(by_whom, current_user, '<me>') AS by_whom, detail FROM actionledger.timeline t WHERE action_id = pg_temp.id('step') ORDER BY seq;

-- Wrong reports.
CREATE FUNCTION pg_temp.refused(call text) RETURNS text LANGUAGE sql AS $$ SELECT test.fails(format('SELECT actionledger.report_outcome(%s)', call)) $$;
SELECT pg_temp.refused($$0, 'confirmed', '{"event": "evt_0"}'$$);
SELECT pg_temp.refused($$NULL, 'confirmed', '{"event": "evt_0"}'$$);
SELECT pg_temp.refused(pg_temp.id('later') || $$, 'happened', '{"event": "evt_0"}'$$);
SELECT pg_temp.refused(pg_temp.id('later') || $$, 'confirmed', '{}'$$);
SELECT pg_temp.refused(pg_temp.id('later') || $$, 'confirmed', '[1]'$$);
SELECT pg_temp.refused(pg_temp.id('later') || $$, 'confirmed', NULL$$);
SELECT pg_temp.refused(pg_temp.id('later') || $$, 'not_sent', '{"seen": "not in the list"}'$$);
SELECT pg_temp.refused(pg_temp.id('later') || $$, 'confirmed', '{"token": "abc"}'$$);
SELECT replace(pg_temp.refused(pg_temp.id('later') || $$, 'confirmed', '{"token": 9}'$$), pg_temp.id('later')::text, '<id>');
SELECT test.fails($$SELECT actionledger.report_outcome_by_identity('ev', 'nobody', 'confirmed', '{"event": 1}')$$);
SELECT test.fails($$SELECT actionledger.report_outcome_by_identity(NULL, 'later', 'confirmed', '{"event": 1}')$$);

-- Who may: whom the administrator lets, for what they may see.
SELECT pg_temp.id('later') AS later \gset
SELECT test.fails(format('SET LOCAL ROLE regress_al_stranger; SELECT actionledger.report_outcome(%s, ''confirmed'', ''{"x": 1}'')', :later));
GRANT EXECUTE ON FUNCTION actionledger.report_outcome(bigint, text, jsonb) TO regress_al_stranger, regress_al_hook;
SELECT test.fails(format('SET LOCAL ROLE regress_al_stranger; SELECT actionledger.report_outcome(%s, ''confirmed'', ''{"x": 1}'')', :later));
GRANT regress_al_hook TO regress_al_stranger;
UPDATE actionledger.action SET requested_by = 'regress_al_hook' WHERE action_id = :later;
SET ROLE regress_al_stranger;
SELECT status FROM actionledger.report_outcome(:later, 'confirmed', '{"x": 1}');
SELECT count(*) FROM actionledger.conflicts;
RESET ROLE;
SELECT by_whom FROM actionledger.event WHERE action_id = :later AND verdict = 'confirmed';
-- A report that is rolled back was none.
BEGIN;
SELECT status FROM actionledger.report_outcome(pg_temp.id('u_window'), 'confirmed', '{"event": "evt_19"}');
ROLLBACK;
SELECT replace(pg_temp.state('u_window'), current_user, '<me>');
DROP OWNED BY regress_al_hook, regress_al_stranger;
DROP ROLE regress_al_hook, regress_al_stranger;
