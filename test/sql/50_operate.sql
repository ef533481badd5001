-- What people decide, and what the ledger says about it.
\a
\t
SELECT actionledger.create_service('op', 'https://api.example.invalid');
SELECT actionledger.create_tool('op_pay', 'op', 'POST /pay', identity => '{id}', input => '{"required": ["id"], "properties": {"id": {"type": "string"}}}',
    options => '{"summary": "pay {id}", "timeout": "20s", "max_processing": "60s"}');
SELECT actionledger.create_tool('op_get', 'op', 'GET /pay{?id}', 'read_only', identity => '{id}', input => '{"required": ["id"], "properties": {"id": {"type": "string"}}}');
CREATE FUNCTION pg_temp.id(text) RETURNS bigint LANGUAGE sql AS $$ SELECT action_id FROM actionledger.action a JOIN actionledger.service s USING (service_id) WHERE s.name = 'op' AND a.identity = $1 $$;
CREATE FUNCTION pg_temp.state(text) RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(' ', status || '/' || next_step, error_code, '(' || error_message || ')', 'ref ' || external_ref, 'by ' || confirmed_by, CASE WHEN cancelled_at IS NOT NULL THEN 'cancel noted' END,
        CASE WHEN finished_at IS NOT NULL THEN 'finished' END, CASE WHEN EXISTS (SELECT FROM actionledger.due d WHERE d.action_id = a.action_id) THEN 'live' END)
    FROM actionledger.action a WHERE action_id = pg_temp.id($1) $$;
CREATE FUNCTION pg_temp.review(id text, ago interval) RETURNS void LANGUAGE sql AS $$
    SELECT test.mark(pg_temp.id(id), ago);
    SELECT test.record(pg_temp.id(id), 'unknown', 'timeout_after_send', NULL, 'needs_reconciliation', 'review', 'unknown', 'infinity', 'outcome_unknown', '1 send, outcome unknown; the last: no answer in 20 s') $$;
SELECT count(*) FROM actionledger.perform_many('op_pay', ARRAY(SELECT jsonb_build_object('id', id) FROM unnest('{early,late,flying,retried,unkeyed,r1,r2,r3,r4,r5,p1,p2}'::text[]) id));
SELECT created FROM actionledger.perform('op_get', '{"id": "read"}');

-- Cancelled before a send: it did not happen and will not.
SELECT status, next_step, message FROM actionledger.cancel(pg_temp.id('early'), 'ordered twice');
SELECT pg_temp.state('early');
SELECT count(*) FROM actionledger.pending WHERE identity = 'early';
SELECT status, next_step, message FROM actionledger.cancel(pg_temp.id('early'), 'again');
SELECT what, t.status, by_whom = current_user AS by_me, detail, seq FROM actionledger.timeline t WHERE action_id = pg_temp.id('early') ORDER BY seq;
-- After a send that is proven not to have left: the same.
SELECT test.mark(pg_temp.id('retried'));
SELECT test.record(pg_temp.id('retried'), 'not_sent', 'connect', NULL, 'prepared', 'send', 'not_sent', '2099-01-01', NULL, 'no connection; nothing was sent');
SELECT status, next_step, message FROM actionledger.cancel(pg_temp.id('retried'));
SELECT pg_temp.state('retried');
-- While it is being sent: noted, and the answer decides.
SELECT test.mark(pg_temp.id('flying'));
SELECT status, next_step, message FROM actionledger.cancel(pg_temp.id('flying'), 'too late?');
SELECT pg_temp.state('flying');
SELECT status, next_step, message FROM actionledger.cancel(pg_temp.id('flying'), 'really');
-- After an unknown outcome: it is not sent again, and stays open.
SELECT pg_temp.review('late', '10 min');
SELECT status, next_step, message FROM actionledger.cancel(pg_temp.id('late'));
SELECT pg_temp.state('late');
-- A read has no effect, so that cancelling ends it.
SELECT test.mark(pg_temp.id('read'));
SELECT test.record(pg_temp.id('read'), 'unknown', 'timeout_after_send', NULL, 'submitted', 'resend', 'unknown', '2099-01-01', 'outcome_unknown', 'no answer in 30 s');
SELECT status, next_step, message FROM actionledger.cancel(pg_temp.id('read'));
SELECT pg_temp.state('read');
SELECT test.fails($$SELECT actionledger.cancel(0)$$);
SELECT test.fails($$SELECT actionledger.cancel(NULL)$$);

-- Decided by a person: a note that others can read, a state that is the expected one.
SELECT pg_temp.review(id, '10 min') FROM unnest('{r1,r2,r3,r4}'::text[]) id;
CREATE FUNCTION pg_temp.refused(id text, call text) RETURNS text LANGUAGE sql AS $$ SELECT test.fails(format('SELECT actionledger.resolve(%s, %s)', pg_temp.id(id), call)) $$;
SELECT pg_temp.refused('r1', $$'maybe', '{}', 'note'$$);
SELECT pg_temp.refused('r1', $$NULL, '{}', 'note'$$);
SELECT pg_temp.refused('r1', $$'confirmed', '{}', NULL$$);
SELECT pg_temp.refused('r1', $$'confirmed', '{}', ''$$);
SELECT pg_temp.refused('r1', $$'confirmed', '{}', 'note', 'submitted'$$);
SELECT pg_temp.refused('p1', $$'confirmed', '{}', 'note'$$);
SELECT test.fails($$SELECT actionledger.resolve(0, 'confirmed', '{}', 'note')$$);
SELECT test.fails($$SELECT actionledger.resolve(NULL, 'confirmed', '{}', 'note')$$);
SELECT pg_temp.state('r1');

SELECT status, next_step, message = 'decided: confirmed, by ' || current_user AS says_who FROM actionledger.resolve(pg_temp.id('r1'), 'confirmed', '{"external_ref": "py_1", "seen": "dashboard"}', 'seen in the dashboard');
SELECT pg_temp.state('r1');
SELECT status, next_step FROM actionledger.resolve(pg_temp.id('r2'), 'failed', '{"ticket": 7}', 'the provider says no');
SELECT replace(pg_temp.state('r2'), current_user, '<me>');
SELECT status, next_step FROM actionledger.resolve(pg_temp.id('r3'), 'confirmed', '{"external_ref": 5}', 'a number is a reference too', expected_status => NULL);
SELECT pg_temp.state('r3');
SELECT status, next_step FROM actionledger.resolve(pg_temp.id('r4'), 'confirmed', '["external_ref"]', 'a list is none');
SELECT pg_temp.state('r4');
-- What is decided does not change.
SELECT pg_temp.refused('r1', $$'failed', '{}', 'note'$$);
SELECT pg_temp.refused('r1', $$'failed', '{}', 'note', 'confirmed', true$$);
SELECT pg_temp.refused('early', $$'confirmed', '{}', 'note', 'failed'$$);
SELECT status, message FROM actionledger.cancel(pg_temp.id('r1'));
SELECT pg_temp.state('r1');

-- Not failed while the provider may still be at it, unless the evidence is forced.
SELECT pg_temp.review('r5', '30 s');
SELECT pg_temp.refused('r5', $$'failed', '{}', 'not in the list'$$);
SELECT status FROM actionledger.resolve(pg_temp.id('r5'), 'failed', '{}', 'they have stopped it', force => true);
-- A prepared action, and one in flight, can be decided by who says that it knows the state.
SELECT status FROM actionledger.resolve(pg_temp.id('p1'), 'failed', NULL, 'the shop has closed', 'prepared');
SELECT test.mark(pg_temp.id('p2'), '10 min');
SELECT status FROM actionledger.resolve(pg_temp.id('p2'), 'confirmed', '{"external_ref": "py_2"}', 'seen', 'submitted');
SELECT pg_temp.state('p2');
SELECT count(*) FROM actionledger.in_flight WHERE identity IN ('p1', 'p2');

-- The story of one of them.
SELECT what, t.status, replace(by_whom, current_user, '<me>') AS by_whom, detail FROM actionledger.timeline t WHERE action_id = pg_temp.id('r1') ORDER BY seq;
SELECT what, count(*) FROM actionledger.event JOIN actionledger.action USING (action_id) JOIN actionledger.tool USING (tool_id) WHERE name LIKE 'op\_%' GROUP BY 1 ORDER BY 1;
-- A decision that is rolled back was none.
BEGIN;
SELECT status FROM actionledger.resolve(pg_temp.id('late'), 'confirmed', NULL, 'seen');
ROLLBACK;
SELECT pg_temp.state('late');
SELECT count(*) FROM actionledger.timeline WHERE action_id = pg_temp.id('late') AND what = 'resolved';
-- Who decides in the name of a role is named by it.
CREATE ROLE regress_al_operator;
GRANT EXECUTE ON FUNCTION actionledger.resolve(bigint, text, jsonb, text, text, bool) TO regress_al_operator;
SELECT pg_temp.id('late') AS late \gset
SET ROLE regress_al_operator;
SELECT status, message FROM actionledger.resolve(:late, 'confirmed', NULL, 'seen');
RESET ROLE;
SELECT by_whom FROM actionledger.timeline WHERE action_id = :late AND what = 'resolved';
DROP OWNED BY regress_al_operator;
DROP ROLE regress_al_operator;
