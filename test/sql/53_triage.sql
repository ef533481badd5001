-- Sorting what needs a person: assign, acknowledge, redrive, retry by decision, find, explain.
\a
\t
SELECT actionledger.create_service('tr', 'https://api.example.invalid', '{"idempotency": "none"}');
SELECT actionledger.create_service('trk', 'https://api.example.invalid', '{"idempotency": {"window": "24h"}}');
CREATE ROLE regress_al_shift;
SELECT actionledger.create_tool('tr_book', 'tr', 'POST /book', identity => 'book:{id}', input => '{"properties": {"id": {"type": "string"}}}',
    options => '{"summary": "book {id}", "target": "t-{id}", "timeout": "20s", "max_processing": "60s"}');
SELECT actionledger.create_tool('tr_pay', 'trk', 'POST /pay', identity => 'pay:{id}', input => '{"properties": {"id": {"type": "string"}}}', options => '{"summary": "pay {id}", "retry": {"attempts": 2}}');
CREATE FUNCTION pg_temp.id(text) RETURNS bigint LANGUAGE sql AS $$ SELECT action_id FROM actionledger.action WHERE identity = $1 $$;
CREATE FUNCTION pg_temp.state(text) RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(' ', status || '/' || next_step, known, error_code, CASE WHEN overridden THEN 'overridden' END, 'to ' || assigned_to) FROM actionledger.action WHERE action_id = pg_temp.id($1) $$;
CREATE FUNCTION pg_temp.review(id text, ago interval DEFAULT '10 min') RETURNS void LANGUAGE sql AS $$
    SELECT test.mark(pg_temp.id(id), ago);
    SELECT test.record(pg_temp.id(id), 'unknown', 'timeout_after_send', NULL, 'needs_reconciliation', 'review', 'unknown', 'infinity', 'outcome_unknown', '1 send, outcome unknown; the last: no answer in 20 s') $$;
CREATE FUNCTION pg_temp.block(id text) RETURNS void LANGUAGE sql AS $$
    UPDATE actionledger.action SET next_step = 'blocked', error_code = 'secret_missing', error_message = 'secret "k" is missing' WHERE action_id = pg_temp.id(id);
    UPDATE actionledger.due SET next_at = 'infinity' WHERE action_id = pg_temp.id(id) $$;
CREATE FUNCTION pg_temp.refused(id text, verb text) RETURNS text LANGUAGE sql AS $$ SELECT test.fails(format('SELECT actionledger.' || verb, pg_temp.id(id))) $$;
CREATE FUNCTION pg_temp.tell(id text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT regexp_replace(test.plain(replace(line, current_user, '<me>')), '([a-z_]+\()\d+', '\1<id>', 'g') FROM actionledger.explain(pg_temp.id(id)) line $$;
SELECT count(*) FROM actionledger.perform_many('tr_book', ARRAY(SELECT jsonb_build_object('id', id) FROM unnest('{early,force,gone,late,cancelled,blocked,blockedopen,waits,conflict}'::text[]) id));
SELECT count(*) FROM actionledger.perform_many('tr_pay', ARRAY(SELECT jsonb_build_object('id', id) FROM unnest('{usedup,blocked,flying}'::text[]) id));

-- Assigned to a role that exists.
SELECT pg_temp.review('book:' || id) FROM unnest('{force,late,cancelled}'::text[]) id;
SELECT status, next_step, message FROM actionledger.assign(pg_temp.id('book:force'), 'regress_al_shift');
SELECT pg_temp.state('book:force');
SELECT assigned_to FROM actionledger.review_queue WHERE action_id = pg_temp.id('book:force');
SELECT message = 'assigned to ' || current_user AS said FROM actionledger.assign(pg_temp.id('book:force'), current_user);
SELECT message FROM actionledger.assign(pg_temp.id('book:force'), NULL);
SELECT pg_temp.state('book:force');
SELECT pg_temp.refused('book:force', $$assign(%s, 'regress_al_nobody')$$);
SELECT test.fails($$SELECT actionledger.assign(0, 'regress_al_shift')$$);
SELECT string_agg(what || ' ' || note, ', ' ORDER BY event_id) FROM actionledger.event WHERE action_id = pg_temp.id('book:force') AND by_whom <> note;

-- Sent once more by decision: with a note, when nothing can be in progress any more.
SELECT pg_temp.review('book:early', '10 s');
SELECT pg_temp.refused('book:force', $$retry(%s, NULL)$$);
SELECT pg_temp.refused('book:force', $$retry(%s, '', true)$$);
SELECT pg_temp.refused('book:force', $$retry(%s, 'again')$$);
SELECT pg_temp.refused('book:early', $$retry(%s, 'again', force => true)$$);
SELECT status FROM actionledger.cancel(pg_temp.id('book:cancelled'));
SELECT pg_temp.refused('book:cancelled', $$retry(%s, 'again', force => true)$$);
UPDATE actionledger.action SET expires_at = now() - interval '1 min' WHERE action_id = pg_temp.id('book:late');
SELECT pg_temp.refused('book:late', $$retry(%s, 'again', force => true)$$);
SELECT allowed FROM actionledger.review_queue WHERE action_id IN (pg_temp.id('book:force'), pg_temp.id('book:early')) ORDER BY action_id;
SELECT status, next_step, message FROM actionledger.retry(pg_temp.id('book:force'), 'they have lost it', force => true);
SELECT pg_temp.state('book:force');
SELECT what, t.status, detail FROM actionledger.timeline t WHERE action_id = pg_temp.id('book:force') ORDER BY seq DESC LIMIT 1;
-- A decision can be taken back as long as it has not been sent.
SELECT status, next_step FROM actionledger.cancel(pg_temp.id('book:force'), 'they have found it');
SELECT pg_temp.state('book:force');
SELECT pg_temp.refused('book:force', $$retry(%s, 'again', force => true)$$);
-- One that is open and blocked can be decided about, too.
SELECT pg_temp.review('book:blockedopen');
UPDATE actionledger.action SET status = 'submitted' WHERE action_id = pg_temp.id('book:blockedopen');
SELECT pg_temp.block('book:blockedopen');
SELECT pg_temp.refused('book:blockedopen', $$retry(%s, 'there now')$$);
-- Under way, or at rest: not.
SELECT test.mark(pg_temp.id('pay:flying'));
SELECT pg_temp.refused('pay:flying', $$retry(%s, 'again', force => true)$$);
SELECT pg_temp.refused('pay:flying', $$resolve(%s, 'confirmed', '{}', 'note')$$);
SELECT pg_temp.refused('book:waits', $$resolve(%s, 'confirmed', '{}', 'note')$$);

-- Redrive: the dry run shows what the real one does.
SELECT pg_temp.block('book:blocked'), pg_temp.block('pay:blocked');
SELECT test.mark(pg_temp.id('pay:usedup'), '10 min'); SELECT test.record(pg_temp.id('pay:usedup'), 'unknown', 'timeout_after_send', NULL, 'submitted', 'resend', 'unknown', now());
SELECT pg_temp.review('pay:usedup');
UPDATE actionledger.action SET key_place = 'header Idempotency-Key', key_ends_at = '2099-01-01' WHERE action_id = pg_temp.id('pay:usedup');
CREATE TEMP VIEW dry AS SELECT a.identity, r.verb, r.will FROM actionledger.redrive(NULL, NULL, NULL, 'mended') r JOIN actionledger.action a USING (action_id) WHERE a.identity ~ '^(book|pay):';
SELECT * FROM dry ORDER BY 1;
SELECT actionledger.alter_tool('tr_pay', '{"retry": {"attempts": 5}}');
CREATE TEMP TABLE seen AS SELECT * FROM dry;
SELECT * FROM seen ORDER BY 1;
SELECT count(*) FROM actionledger.redrive('tr_pay', now() + '1 min', NULL, 'mended');
SELECT count(*) FROM actionledger.redrive('tr_pay', NULL, now() - interval '1 day', 'mended');
BEGIN;
CREATE TEMP TABLE done AS SELECT a.identity, r.verb, r.will FROM actionledger.redrive(NULL, NULL, NULL, 'mended', dry_run => false) r JOIN actionledger.action a USING (action_id) WHERE a.identity ~ '^(book|pay):';
SELECT count(*) AS differ FROM ((TABLE seen EXCEPT TABLE done) UNION ALL (TABLE done EXCEPT TABLE seen)) x;
SELECT identity, pg_temp.state(identity), (SELECT what || ' ' || note FROM actionledger.event e WHERE e.action_id = pg_temp.id(identity) ORDER BY event_id DESC LIMIT 1) FROM done ORDER BY 1;
SELECT count(*) AS left_over FROM dry;
ROLLBACK;
SELECT test.fails($$SELECT actionledger.redrive('tr_none', NULL, NULL, 'mended')$$);
SELECT test.fails($$SELECT actionledger.redrive('tr_pay', NULL, NULL, NULL)$$);

-- What contradicts a decision stays until somebody says that it was seen.
SELECT pg_temp.review('book:conflict');
SELECT status FROM actionledger.resolve(pg_temp.id('book:conflict'), 'failed', NULL, 'not there');
SELECT status FROM actionledger.report_outcome(pg_temp.id('book:conflict'), 'confirmed', '{"external_ref": "B-7"}');
SELECT says, acknowledged_by FROM actionledger.conflicts WHERE action_id = pg_temp.id('book:conflict');
SELECT pg_temp.refused('book:conflict', $$acknowledge(%s, NULL)$$);
SELECT * FROM pg_temp.tell('book:conflict');
SELECT status, next_step, replace(message, current_user, '<me>') FROM actionledger.acknowledge(pg_temp.id('book:conflict'), 'refunded by hand');
SELECT acknowledged_by = current_user AS by_me FROM actionledger.conflicts WHERE action_id = pg_temp.id('book:conflict');
SELECT pg_temp.refused('book:waits', $$acknowledge(%s, 'seen')$$);

-- Found by whatever name there is.
SELECT identity FROM actionledger.find('book:gone');
SELECT identity FROM actionledger.find(pg_temp.id('book:gone')::text);
SELECT identity FROM actionledger.find('t-gone');
SELECT f.identity FROM actionledger.action a, actionledger.find(a.idempotency_key) f WHERE a.action_id = pg_temp.id('pay:flying');
SELECT identity FROM actionledger.find('B-7');
SELECT count(*) FROM actionledger.find('Book ');
SELECT count(*) FROM actionledger.find('');
SET ROLE regress_al_shift;
SELECT count(*) FROM actionledger.find('book:gone');
SELECT actionledger._known(1) IS NULL AND actionledger._allowed(1) IS NULL AS nothing_told;
SELECT test.fails($$SELECT actionledger.explain(1)$$);
RESET ROLE;

-- The stories, and statements to paste.
SELECT * FROM pg_temp.tell('book:gone');
SELECT * FROM pg_temp.tell('book:early');
SELECT * FROM pg_temp.tell('book:force');
SELECT * FROM pg_temp.tell('pay:usedup');
SELECT * FROM pg_temp.tell('pay:flying');
SELECT * FROM pg_temp.tell('book:blocked');
DROP OWNED BY regress_al_shift;
DROP ROLE regress_al_shift;
