-- Pausing and resuming: answers, guards, and what the ledger says meanwhile.
\a
\t
SELECT actionledger.create_service('pz', 'https://api.example.invalid', '{"idempotency": {"window": "24h"}}');
SELECT actionledger.create_tool('pz_pay', 'pz', 'POST /pay', identity => '{id}', input => '{"properties": {"id": {"type": "string"}}}', options => '{"summary": "pay {id}"}');
SELECT actionledger.create_tool('pz_get', 'pz', 'GET /pay', 'read_only', identity => 'get {id}', input => '{"properties": {"id": {"type": "string"}}}', options => '{"summary": "look at {id}"}');
CREATE FUNCTION pg_temp.id(text) RETURNS bigint LANGUAGE sql AS $$ SELECT action_id FROM actionledger.action a JOIN actionledger.service s USING (service_id) WHERE s.name = 'pz' AND a.identity = $1 $$;
SELECT count(*) FROM actionledger.perform_many('pz_pay', ARRAY(SELECT jsonb_build_object('id', id) FROM unnest('{new,flying,again,review,done}'::text[]) id));
SELECT created FROM actionledger.perform('pz_get', '{"id": "read"}');
SELECT test.mark(pg_temp.id(id)) FROM unnest('{flying,again,review,done}'::text[]) id;
SELECT test.record(pg_temp.id('again'), 'unknown', 'timeout_after_send', NULL, 'submitted', 'resend', 'unknown', now(), 'outcome_unknown', 'no answer in 30 s');
UPDATE actionledger.action SET key_ends_at = '2099-01-01 12:00Z' WHERE action_id = pg_temp.id('again');
SELECT test.record(pg_temp.id('review'), 'unknown', 'timeout_after_send', NULL, 'needs_reconciliation', 'review', 'unknown', 'infinity', 'outcome_unknown', 'no answer in 30 s');
SELECT test.record(pg_temp.id('done'), 'confirmed', 'confirmed', 200, 'confirmed', 'none', 'confirmed', NULL);

-- What waits, what is on its way, and which key is forgotten first.
SELECT * FROM actionledger.pause_service('pz', 'storm');
SELECT summary, waiting_for ~ '^dispatcher' AS nobody_sends, waiting_for LIKE 'paused%' AS paused FROM actionledger.pending WHERE identity IN ('new', 'get read') AND tool LIKE 'pz%' ORDER BY 1;
SELECT r #>> '{error,code}', r #>> '{meta,advice}', test.plain(replace(r #>> '{meta,observation}', current_user, '<me>')) FROM actionledger.result(pg_temp.id('new')) r;
SELECT r #>> '{error,code}', test.plain(replace(r #>> '{meta,observation}', current_user, '<me>')) FROM actionledger.result(pg_temp.id('again')) r;
SELECT r #>> '{error,code}', r #>> '{meta,advice}' FROM actionledger.result(pg_temp.id('flying')) r;
SELECT test.plain(replace(observation, current_user, '<me>')) FROM actionledger.perform('pz_pay', '{"id": "meanwhile"}');
SELECT replace(test.fails($$SELECT actionledger.perform('pz_pay', '{"id": "refuse"}', options => '{"if_unavailable": "refuse"}')$$), current_user, '<me>');
-- A pause on top of it, and a change of the first.
SELECT * FROM actionledger.pause_tool('pz_pay', 'its own');
SELECT scope, name, state, waiting >= 4 AS more FROM actionledger.pause_all('night', 'everything');
SELECT * FROM actionledger.pause_service('pz', 'storm, still', 'everything');
SELECT scope, name, state FROM actionledger.resume_all('morning');
SELECT * FROM actionledger.resume_service('pz', 'over');
SELECT * FROM actionledger.pause_service('pz', 'again');
SELECT * FROM actionledger.resume_tool('pz_pay', 'over');
SELECT * FROM actionledger.resume_service('pz', 'over');
SELECT scope, name, state, what, reason, paused_by = current_user AS by_me, resumed_by = current_user AS by_me, resumed_at >= paused_at AS ended, resume_reason FROM actionledger.pauses ORDER BY paused_at;

-- Refused.
SELECT test.fails($$SELECT actionledger.pause_service('nowhere', 'x')$$);
SELECT test.fails($$SELECT actionledger.pause_tool('nothing', 'x')$$);
SELECT test.fails($$SELECT actionledger.resume_tool('nothing', 'x')$$);
SELECT test.fails($$SELECT actionledger.resume_service('pz', 'x')$$);
SELECT test.fails($$SELECT actionledger.resume_all('x')$$);
SELECT test.fails($$SELECT actionledger.pause_service('pz', '')$$);
SELECT test.fails($$SELECT actionledger.pause_service('pz', NULL)$$);
SELECT test.fails($$SELECT actionledger.pause_service(NULL, 'x')$$);
SELECT test.fails($$SELECT actionledger.pause_service('pz', 'x', 'reads')$$);
SELECT count(*) AS open FROM actionledger.pauses WHERE state = 'paused';

-- Of a pause that is rolled back nothing is left; of what is dropped the pause can be lifted.
BEGIN;
SELECT state FROM actionledger.pause_all('no');
ROLLBACK;
SELECT count(*) AS open FROM actionledger.pauses WHERE state = 'paused';
SELECT actionledger.create_tool('pz_gone', 'pz', 'POST /gone');
SELECT state FROM actionledger.pause_tool('pz_gone', 'broken');
SELECT actionledger.drop_tool('pz_gone');
SELECT * FROM actionledger.resume_tool('pz_gone', 'it is gone');
SELECT count(*) AS open FROM actionledger.pauses WHERE state = 'paused';

-- A pause of writes leaves lookups alone; one of everything keeps them, and the envelope says so.
SELECT created FROM actionledger.perform('pz_pay', '{"id": "looking"}');
SELECT test.mark(pg_temp.id('looking'));
SELECT test.record(pg_temp.id('looking'), 'unknown', 'timeout_after_send', NULL, 'needs_reconciliation', 'lookup', 'unknown', '2099-01-01 12:00Z', 'outcome_unknown', 'no answer in 30 s');
SELECT state FROM actionledger.pause_service('pz', 'storm');
SELECT r #>> '{error,code}', test.plain(replace(r #>> '{meta,observation}', current_user, '<me>')) FROM actionledger.result(pg_temp.id('looking')) r;
SELECT state FROM actionledger.pause_service('pz', 'storm', 'everything');
SELECT r #>> '{error,code}', test.plain(replace(r #>> '{meta,observation}', current_user, '<me>')) FROM actionledger.result(pg_temp.id('looking')) r;
SELECT state FROM actionledger.resume_service('pz', 'over');
