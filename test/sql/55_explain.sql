-- The story of an action in each of its states, for each kind of tool: only what is true, and what helps.
\a
\t
SELECT actionledger.create_service('xpk', 'https://api.example.invalid', '{"idempotency": {"window": "24h"}}');
SELECT actionledger.create_service('xpn', 'https://api.example.invalid', '{"idempotency": "none"}');
CREATE FUNCTION pg_temp.tool(name text, service text, type text, request text, options jsonb DEFAULT '{}') RETURNS text LANGUAGE sql AS $$
    SELECT actionledger.create_tool(name, service, request, type, identity => name || ':{id}', input => '{"properties": {"id": {"type": "string"}}}',
        options => '{"timeout": "20s", "max_processing": "60s"}' || options) $$;
SELECT pg_temp.tool('xp_pay', 'xpk', 'non_idempotent', 'POST /pay', '{"lookup": {"request": "GET /pay?key={_key}", "match": "$.data[*]"}}');
SELECT pg_temp.tool('xp_book', 'xpn', 'non_idempotent', 'POST /book');
SELECT pg_temp.tool('xp_note', 'xpn', 'non_idempotent', 'POST /note', '{"json": {"id": "{id}", "ours": "{_key}"}}');
SELECT pg_temp.tool('xp_set', 'xpn', 'idempotent', 'PUT /set/{id}');
SELECT pg_temp.tool('xp_read', 'xpn', 'read_only', 'GET /read/{id}');
SELECT pg_temp.tool('xp_fax', 'xpk', 'non_idempotent', 'fax it', '{"transport": "external"}');
SELECT pg_temp.tool('xp_asks', 'xpn', 'non_idempotent', 'POST /asks', '{"approval": "always", "owner": "pg_monitor"}');
CREATE FUNCTION pg_temp.ask(tool text, id text) RETURNS bigint LANGUAGE sql AS $$ SELECT action_id FROM actionledger.perform(tool, jsonb_build_object('id', id)) $$;
CREATE FUNCTION pg_temp.id(text) RETURNS bigint LANGUAGE sql AS $$ SELECT action_id FROM actionledger.action WHERE identity = $1 $$;
CREATE FUNCTION pg_temp.tell(id text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT regexp_replace(regexp_replace(test.plain(replace(line, current_user, '<me>')), '([a-z_]+\()\d+', '\1<id>', 'g'), '[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f-]{21}', '<key>', 'g')
    FROM actionledger.explain(pg_temp.id(id)) line $$;
-- What a caller is told of it.
CREATE FUNCTION pg_temp.told(id text) RETURNS text LANGUAGE sql AS $$ SELECT test.plain(actionledger.result(pg_temp.id(id)) #>> '{meta,observation}') $$;
-- An executor's claim, which needs a server that syncs.
CREATE FUNCTION pg_temp.hand_out(id text) RETURNS void LANGUAGE sql AS $$
    SELECT test.mark(pg_temp.id(id));
    UPDATE actionledger.action SET claimed_by = -7 WHERE action_id = pg_temp.id(id);
    UPDATE actionledger.attempt SET kind = 'external', executor = 'courier', incarnation = 7 WHERE action_id = pg_temp.id(id) AND finished_at IS NULL $$;
CREATE FUNCTION pg_temp.come(id text, status text, step text, known text, at timestamptz DEFAULT 'infinity', code text DEFAULT 'outcome_unknown', message text DEFAULT 'x') RETURNS void LANGUAGE sql AS $$
    SELECT test.record(pg_temp.id(id), 'unknown', 'timeout_after_send', NULL, status, step, known, at, code, message) $$;

-- Recorded, and nothing done yet: which key there will be, and what is waited for.
SELECT pg_temp.ask(tool, 'new') > 0 FROM unnest('{xp_pay,xp_book,xp_note,xp_fax,xp_asks}'::text[]) tool;
SELECT pg_temp.tell(tool || ':new') FROM unnest('{xp_pay,xp_book,xp_note,xp_fax,xp_asks}'::text[]) WITH ORDINALITY x(tool, n) ORDER BY n;
SELECT pg_temp.told(tool || ':new') FROM unnest('{xp_pay,xp_fax,xp_asks}'::text[]) WITH ORDINALITY x(tool, n) ORDER BY n;
SELECT action_id > 0 FROM actionledger.perform('xp_pay', '{"id": "later"}', options => '{"not_before": "2099-01-01T00:00:00Z"}');
SELECT pg_temp.tell('xp_pay:later');
SELECT actionledger.alter_service('xpk', '{"idempotency": {"header": "X-Other"}}') = 'x' AS altered;
SELECT line FROM pg_temp.tell('xp_pay:new') WITH ORDINALITY t(line, n) WHERE n = 1;
SELECT actionledger.alter_service('xpk', '{"idempotency": {"header": "Idempotency-Key"}}') = 'x' AS altered;

-- Under way: at the destination, or with an executor.
SELECT pg_temp.ask(tool, 'flying') > 0 FROM unnest('{xp_book,xp_fax}'::text[]) tool;
SELECT test.mark(pg_temp.id('xp_book:flying')); SELECT pg_temp.hand_out('xp_fax:flying');
SELECT pg_temp.tell(tool || ':flying') FROM unnest('{xp_book,xp_fax}'::text[]) tool;
SELECT pg_temp.told(tool || ':flying') FROM unnest('{xp_book,xp_fax}'::text[]) tool;

-- Unknown, and what the ledger does: sends again, with a key or without one; hands out again; looks it up; waits to be told.
SELECT pg_temp.ask(tool, 'again') > 0 FROM unnest('{xp_pay,xp_set,xp_read,xp_fax}'::text[]) tool;
SELECT test.mark(pg_temp.id(tool || ':again')) FROM unnest('{xp_pay,xp_set,xp_read}'::text[]) tool; SELECT pg_temp.hand_out('xp_fax:again');
SELECT pg_temp.come(tool || ':again', 'submitted', 'resend', 'unknown', now() + interval '1 h', message => 'no answer in 20 s') FROM unnest('{xp_pay,xp_set,xp_read}'::text[]) tool;
SELECT pg_temp.come('xp_fax:again', 'submitted', 'resend', 'unknown', now() - interval '1 h', message => 'its executor has not reported before its lease was over');
UPDATE actionledger.action SET key_ends_at = now() + interval '1 day' WHERE identity IN ('xp_pay:again', 'xp_fax:again');
SELECT pg_temp.tell(tool || ':again') FROM unnest('{xp_pay,xp_set,xp_fax}'::text[]) WITH ORDINALITY x(tool, n) ORDER BY n;
SELECT pg_temp.told(tool || ':again') FROM unnest('{xp_pay,xp_set,xp_read,xp_fax}'::text[]) WITH ORDINALITY x(tool, n) ORDER BY n;
SELECT message FROM actionledger.reconcile_now(pg_temp.id('xp_set:again'));
SELECT message FROM actionledger.reconcile_now(pg_temp.id('xp_fax:again'));
SELECT pg_temp.ask('xp_pay', id) > 0 FROM unnest('{looked,waits}'::text[]) id;
SELECT test.mark(pg_temp.id('xp_pay:' || id)) FROM unnest('{looked,waits}'::text[]) id;
SELECT pg_temp.come('xp_pay:looked', 'needs_reconciliation', 'lookup', 'unknown_ended', now() + interval '1 h', message => '1 send, outcome unknown; the last: no answer in 20 s');
SELECT pg_temp.come('xp_pay:waits', 'submitted', 'wait', 'in_progress', now() + interval '1 h', message => 'accepted (HTTP 202), not done yet');
SELECT pg_temp.tell('xp_pay:looked');
SELECT pg_temp.tell('xp_pay:waits');

-- With a person: a claim is no send.
SELECT pg_temp.ask(tool, 'review') > 0 FROM unnest('{xp_book,xp_fax}'::text[]) tool;
SELECT test.mark(pg_temp.id('xp_book:review'), '1 h'); SELECT pg_temp.hand_out('xp_fax:review');
SELECT pg_temp.come('xp_book:review', 'needs_reconciliation', 'review', 'unknown', message => '1 send, outcome unknown; the last: no answer in 20 s');
SELECT pg_temp.come('xp_fax:review', 'needs_reconciliation', 'review', 'unknown', message => '1 claim, outcome unknown; the last: its executor has not reported before its lease was over');
SELECT pg_temp.tell(tool || ':review') FROM unnest('{xp_book,xp_fax}'::text[]) tool;
SELECT test.plain(known) FROM actionledger.review_queue WHERE tool IN ('xp_book', 'xp_fax') ORDER BY action_id;
SELECT message FROM actionledger.cancel(pg_temp.id('xp_fax:review'));
SELECT error_message FROM actionledger.action WHERE action_id = pg_temp.id('xp_fax:review');

-- Over: what somebody has acknowledged is not asked for again, and what has taken its place is named.
SELECT pg_temp.ask('xp_book', id) > 0 FROM unnest('{done,disputed,refused,called_off}'::text[]) id;
SELECT test.mark(pg_temp.id('xp_book:' || id)) FROM unnest('{done,disputed,refused}'::text[]) id;
SELECT test.record(pg_temp.id('xp_book:done'), 'confirmed', 'confirmed', 200, 'confirmed', 'none', 'confirmed', NULL, reference => 'B-1');
SELECT test.record(pg_temp.id('xp_book:refused'), 'rejected', 'rejected', 404, 'failed', 'none', 'rejected', NULL, 'rejected', 'refused with HTTP 404');
SELECT status FROM actionledger.resolve(pg_temp.id('xp_book:disputed'), 'failed', NULL, 'not there', 'submitted', true);
SELECT status FROM actionledger.report_outcome(pg_temp.id('xp_book:disputed'), 'confirmed', '{"external_ref": "B-7"}');
SELECT line FROM pg_temp.tell('xp_book:disputed') WITH ORDINALITY t(line, n) WHERE line ~ '^(Known|Not|Allowed|  )' ORDER BY n;
SELECT status FROM actionledger.acknowledge(pg_temp.id('xp_book:disputed'), 'refunded by hand');
SELECT line FROM pg_temp.tell('xp_book:disputed') WITH ORDINALITY t(line, n) WHERE line ~ '^(Known|Not|Allowed|  )' ORDER BY n;
SELECT status FROM actionledger.cancel(pg_temp.id('xp_book:called_off'), 'not wanted');
SELECT pg_temp.tell('xp_book:' || id) FROM unnest('{done,refused,called_off}'::text[]) id;
SELECT status FROM actionledger.supersede(pg_temp.id('xp_book:refused'), '{"id": "refused"}', 'it is there now');
SELECT line FROM pg_temp.tell('xp_book:refused') WITH ORDINALITY t(line, n) WHERE line ~ '^(Known|Not|Allowed|  )' ORDER BY n;
SELECT message FROM actionledger.cancel(pg_temp.id('xp_fax:new'));
SELECT test.plain(message) FROM actionledger.supersede(pg_temp.id('xp_fax:new'), '{"id": "new"}', 'wanted after all');
SELECT test.mark(pg_temp.id('xp_read:again'));
SELECT pg_temp.come('xp_read:again', 'failed', 'none', 'unknown', code => 'no_answer', message => 'no answer obtained after 2 sends');
UPDATE actionledger.action SET status = 'failed', next_step = 'none', error_code = 'inherited', error_message = 'inherited by a copy of the database; never sent from here' WHERE action_id = pg_temp.id('xp_pay:waits');
SELECT line FROM unnest('{xp_read:again,xp_pay:waits}'::text[]) id, pg_temp.tell(id) WITH ORDINALITY t(line, n) WHERE line ~ '^(Known|Not|Allowed|  )' ORDER BY id, n;
