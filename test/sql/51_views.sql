-- The views: their columns, and that every live action is in exactly one.
\a
\t
-- Names and order are the interface.
SELECT c.relname || ': ' || string_agg(a.attname, ', ' ORDER BY a.attnum)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
WHERE c.relnamespace = 'actionledger'::regnamespace AND c.relkind = 'v' GROUP BY c.relname ORDER BY c.relname;

SELECT actionledger.create_service('vw', 'https://api.example.invalid', '{"idempotency": {"window": "24h"}}');
CREATE ROLE regress_al_desk;
SELECT actionledger.create_tool('vw_pay', 'vw', 'POST /pay', identity => '{id}', input => '{"required": ["id"], "properties": {"id": {"type": "string"}}}',
    options => '{"summary": "pay {id}", "timeout": "20s", "owner": "regress_al_desk"}');
CREATE FUNCTION pg_temp.id(text) RETURNS bigint LANGUAGE sql AS $$ SELECT action_id FROM actionledger.action a JOIN actionledger.service s USING (service_id) WHERE s.name = 'vw' AND a.identity = $1 $$;
SELECT count(*) FROM actionledger.perform_many('vw_pay', ARRAY(SELECT jsonb_build_object('id', id) FROM unnest('{due,retry,blocked,sending,resend,waiting,lookup,review,review2,confirmed,failed}'::text[]) id));
SELECT created FROM actionledger.perform('vw_pay', '{"id": "later"}', options => '{"not_before": "2099-01-01T00:00:00Z"}');
SELECT test.mark(action_id, '10 min') FROM actionledger.actions WHERE tool = 'vw_pay' AND identity NOT IN ('due', 'later');
SELECT test.record(pg_temp.id('retry'), 'not_sent', 'connect', NULL, 'prepared', 'send', 'not_sent', '2099-01-01 12:00', NULL, 'no connection; nothing was sent');
SELECT test.record(pg_temp.id('blocked'), 'not_sent', 'bad_trust', NULL, 'prepared', 'blocked', 'not_sent', 'infinity', 'bad_trust', 'CA file or client certificate is unusable; mend the service');
SELECT test.record(pg_temp.id('resend'), 'unknown', 'timeout_after_send', NULL, 'submitted', 'resend', 'unknown', '2099-01-01 12:00', 'outcome_unknown', 'no answer in 20 s');
SELECT test.record(pg_temp.id('waiting'), 'in_progress', 'accepted', 202, 'submitted', 'wait', 'in_progress', '2099-01-01 12:00', 'outcome_unknown', 'accepted (HTTP 202), not done yet');
SELECT test.record(pg_temp.id('lookup'), 'unknown', 'connection_lost', NULL, 'needs_reconciliation', 'lookup', 'unknown', '2099-01-01 12:00', 'outcome_unknown', '1 send, outcome unknown');
SELECT test.record(pg_temp.id('review'), 'unknown', 'connection_lost', NULL, 'needs_reconciliation', 'review', 'unknown', 'infinity', 'outcome_unknown', '1 send, outcome unknown', 'py_2');
SELECT test.record(pg_temp.id('review2'), 'unknown', 'status_ambiguous', 500, 'submitted', 'resend', 'unknown', now(), 'outcome_unknown', 'HTTP 500, which proves nothing', 'py_1');
SELECT test.mark(pg_temp.id('review2'), '5 min');
SELECT test.record(pg_temp.id('review2'), 'unknown', 'worker_lost', NULL, 'needs_reconciliation', 'review', 'unknown_ended', 'infinity', 'outcome_unknown', '2 sends, outcome unknown');
SELECT test.record(pg_temp.id('confirmed'), 'confirmed', 'confirmed', 200, 'confirmed', 'none', 'confirmed', NULL, NULL, NULL, 'py_3', 'response');
SELECT test.record(pg_temp.id('failed'), 'rejected', 'rejected', 402, 'failed', 'none', 'rejected', NULL, 'rejected', 'refused with HTTP 402');

\t
\a
SELECT tool, summary, next_step, waiting_for, attempts, priority FROM actionledger.pending WHERE tool = 'vw_pay' ORDER BY identity;
SELECT summary, next_step, open_attempt, last_sent_at < now() AS sent, timeout, window_ends_at > now() AS in_window, key_ends_at, identity FROM actionledger.in_flight WHERE tool = 'vw_pay' ORDER BY identity;
SELECT summary, next_step, reason, sends, lookups, owner, identity FROM actionledger.needs_reconciliation WHERE tool = 'vw_pay' ORDER BY identity;
\x
SELECT owner, assigned_to, tool, summary, reason, test.plain(known) AS known, refs, allowed, regexp_replace("do", '\d+', '<id>') AS "do" FROM actionledger.review_queue WHERE tool = 'vw_pay' ORDER BY summary;
SELECT attempt, kind, took, sent, http_status, verdict, category, detail, retry_after, external_ref, truncated, timing, response_headers, body_excerpt
FROM actionledger.attempts WHERE action_id = pg_temp.id('review2') ORDER BY attempt;
\x

-- The statement of the review queue can be pasted, and decides nothing before its gaps are filled.
SELECT "do" AS statement FROM actionledger.review_queue WHERE action_id = pg_temp.id('review') \gset
SELECT test.fails(:'statement');
SELECT test.fails(replace(:'statement', 'how you know', 'seen there'));
SELECT test.fails(replace(:'statement', '{"external_ref": "..."}', '{}'));
SELECT status, next_step FROM actionledger.actions WHERE action_id = pg_temp.id('review');
BEGIN;
SELECT status, next_step FROM (SELECT * FROM actionledger.resolve(pg_temp.id('review'), 'confirmed', '{"external_ref": "po_9"}', 'seen there')) x;
ROLLBACK;
SELECT :'statement' = format('SELECT * FROM actionledger.resolve(%s, ''confirmed'', ''{"external_ref": "..."}'', ''how you know''); -- or ''failed'', when you have evidence that it did not and will not happen', pg_temp.id('review')) AS as_tried;

-- The answer that a provider gave, bytes as they came, and never in full.
BEGIN;
UPDATE actionledger.attempt SET body = '\x00ff0a5c78' || convert_to(repeat('y', 3000), 'UTF8'), response_headers = E'Content-Type: text/plain\nRetry-After: 5\n', retry_after_s = 5,
    connected_us = 200, total_us = 500 WHERE action_id = pg_temp.id('review2') AND attempt = 1;
SELECT left(body_excerpt, 20) AS excerpt, length(body_excerpt) < 1100 AS cut, response_headers, retry_after, timing FROM actionledger.attempts WHERE action_id = pg_temp.id('review2') AND attempt = 1;
ROLLBACK;

-- Every live action, of this test and of all others, is in exactly one of three;
-- what is finished in none; the review queue is part of the third.
SELECT count(*) > 0 AS some_live,
       count(*) FILTER (WHERE (d.action_id IN (SELECT action_id FROM actionledger.pending))::int + (d.action_id IN (SELECT action_id FROM actionledger.in_flight))::int
                            + (d.action_id IN (SELECT action_id FROM actionledger.needs_reconciliation))::int <> 1) AS not_in_one
FROM actionledger.due d;
SELECT count(*) AS live_without_due_row FROM actionledger.action a WHERE status NOT IN ('confirmed', 'failed') AND NOT EXISTS (SELECT FROM actionledger.due d WHERE d.action_id = a.action_id);
SELECT count(*) AS finished_and_live FROM actionledger.actions a WHERE status IN ('confirmed', 'failed')
    AND action_id IN (SELECT action_id FROM actionledger.pending UNION ALL SELECT action_id FROM actionledger.in_flight UNION ALL SELECT action_id FROM actionledger.needs_reconciliation);
SELECT count(*) AS outside FROM (SELECT action_id FROM actionledger.review_queue EXCEPT SELECT action_id FROM actionledger.needs_reconciliation) x;

-- The timeline counts from one, without gaps, in the order of time.
SELECT what, t.status, detail, seq FROM actionledger.timeline t WHERE action_id = pg_temp.id('review2') ORDER BY seq;
SELECT count(*) FROM (SELECT action_id FROM actionledger.timeline GROUP BY 1 HAVING max(seq) <> count(*) OR min(seq) <> 1) x;

-- Views only show.
UPDATE actionledger.actions SET status = 'confirmed';
DELETE FROM actionledger.timeline;
DROP ROLE regress_al_desk;
