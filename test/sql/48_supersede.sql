-- A deliberate second one: named after the first, linked to it, and never while
-- the first may still happen.
\a
\t
SET client_min_messages = error;
CREATE ROLE regress_al_app;
CREATE ROLE regress_al_other;
SELECT actionledger.create_service('su', 'https://api.example.invalid', '{"idempotency": {"window": "24h"}}');
SELECT actionledger.create_tool('su_pay', 'su', 'POST /pay', identity => '{id}', input => '{"required": ["id"], "properties": {"id": {"type": "string"}, "amount": {"type": "integer"}}}',
    options => '{"summary": "pay {amount} for {id}", "approval": {"if": "$.amount > 1000"}}');
SELECT actionledger.grant_tool('su_pay', 'regress_al_app');
CREATE FUNCTION pg_temp.id(identity text) RETURNS bigint LANGUAGE sql SECURITY DEFINER AS $$ SELECT action_id FROM actionledger.action a JOIN actionledger.service s USING (service_id) WHERE s.name = 'su' AND a.identity = $1 $$;
CREATE FUNCTION pg_temp.at(identity text, status text, code text DEFAULT NULL) RETURNS void LANGUAGE sql AS $$
    UPDATE actionledger.action SET status = $2::actionledger.status, next_step = CASE WHEN $2 IN ('confirmed', 'failed') THEN 'none' WHEN $2 = 'submitted' THEN 'wait' ELSE 'review' END::actionledger.next_step, error_code = $3 WHERE action_id = pg_temp.id($1);
    DELETE FROM actionledger.due WHERE action_id = pg_temp.id($1) AND $2 IN ('confirmed', 'failed') $$;
CREATE FUNCTION pg_temp.again(identity text, amount int DEFAULT 5, note text DEFAULT 'asked for twice') RETURNS text LANGUAGE sql AS $$
    SELECT test.plain(format('%s %s: %s', status, next_step, message)) FROM actionledger.supersede(pg_temp.id(identity), jsonb_build_object('id', 'A', 'amount', amount), note) $$;
CREATE FUNCTION pg_temp.refused(identity text, args text DEFAULT '{"id": "A"}') RETURNS text LANGUAGE sql AS $$
    SELECT test.fails(format('SELECT actionledger.supersede(%L, %L, ''again'')', pg_temp.id(identity), args)) $$;
GRANT EXECUTE ON FUNCTION pg_temp.id, pg_temp.again, pg_temp.refused TO PUBLIC;
SET ROLE regress_al_app;
SELECT status FROM actionledger.perform('su_pay', '{"id": "A", "amount": 5}', run_id => 'run', step => 4);
-- Not while it may still happen.
SELECT pg_temp.refused('A');
RESET ROLE;
SELECT pg_temp.at('A', 'submitted');
SELECT pg_temp.refused('A');
SELECT pg_temp.at('A', 'needs_reconciliation');
SELECT pg_temp.refused('A');
SELECT pg_temp.at('A', 'confirmed');

-- A second one on purpose: the same tool, run and step, a name of its own.
SET ROLE regress_al_app;
SELECT pg_temp.again('A');
SELECT test.plain(observation) FROM actionledger.perform('su_pay', '{"id": "A", "amount": 5}');
-- Asked for again it is the same; other arguments are another request.
SELECT pg_temp.again('A');
SELECT pg_temp.again('A', note => 'another note');
SELECT pg_temp.refused('A', '{"id": "A", "amount": 6}');
RESET ROLE;
SELECT identity, run_id, step, requested_by, summary, idempotency_key = (SELECT idempotency_key FROM actionledger.action WHERE action_id = pg_temp.id('A')) AS same_key FROM actionledger.action WHERE action_id = pg_temp.id('A#2');
SELECT what, status, by_whom, test.plain(regexp_replace(detail, '(superseded_by|supersedes)": \d+', '\1": <id>')) FROM actionledger.timeline WHERE action_id IN (pg_temp.id('A'), pg_temp.id('A#2')) AND what LIKE 'supersede%' ORDER BY action_id, seq;
SELECT (evidence ->> 'superseded_by')::bigint = pg_temp.id('A#2') AS linked FROM actionledger.event WHERE action_id = pg_temp.id('A') AND what = 'superseded';
-- The line goes on from its end, under the name of its first.
SELECT pg_temp.refused('A#2');
SELECT pg_temp.at('A#2', 'failed', 'rejected');
SELECT pg_temp.again('A#2', 7);
-- One that has failed says what has taken its place, so that nobody takes it for the last word.
SELECT observation LIKE '%Action ' || pg_temp.id('A#3') || ' has taken its place%' AS named FROM actionledger.perform('su_pay', '{"id": "A", "amount": 5}', 'A#2');
SELECT actionledger.result(pg_temp.id('A#2')) #>> '{meta,observation}' LIKE '%result(' || pg_temp.id('A#3') || ')%' AS envelope_too;
SELECT identity FROM actionledger.action WHERE action_id = pg_temp.id('A#3');
-- A name that somebody has taken is passed over.
SELECT status FROM actionledger.perform('su_pay', '{"id": "A", "amount": 1}', 'A#4');
SELECT pg_temp.at('A#3', 'failed', 'cancelled');
SELECT pg_temp.again('A#3', 7);
SELECT pg_temp.id('A#5') IS NOT NULL AS fifth;
-- What is taken after all is not made the successor of another.
SELECT pg_temp.at('A#4', 'confirmed');
SELECT pg_temp.again('A#4', 7);
SELECT pg_temp.id('A#4#2') IS NOT NULL AS line_of_its_own;

-- Policy and permission are those of a new one.
SELECT pg_temp.at('A#5', 'confirmed');
SELECT pg_temp.again('A#5', 5000);
SELECT by FROM actionledger.approvals WHERE action_id = pg_temp.id('A#6');
SET ROLE regress_al_other;
SELECT pg_temp.refused('A');
RESET ROLE;
SELECT actionledger.revoke_tool('su_pay', 'regress_al_app');
SET ROLE regress_al_app;
SELECT pg_temp.refused('A');
RESET ROLE;
-- Arguments, note, action.
SELECT pg_temp.refused('A', NULL);
SELECT pg_temp.refused('A', '{"id": 7}');
SELECT pg_temp.refused('nobody');
SELECT test.fails('SELECT actionledger.supersede(0, ''{}'', ''x'')');
SELECT test.fails(format('SELECT actionledger.supersede(%s, ''{}'', NULL)', pg_temp.id('A')));
SELECT test.fails(format('SELECT actionledger.supersede(%s, ''{}'', '''')', pg_temp.id('A')));
-- Evidence of the contrary has to be cleared up first.
SELECT status FROM actionledger.perform('su_pay', '{"id": "B", "amount": 5}');
SELECT pg_temp.at('B', 'failed', 'resolved_failed');
INSERT INTO actionledger.event (action_id, what, status, by_whom) VALUES (pg_temp.id('B'), 'conflict', 'failed', 'dispatcher 1');
SELECT pg_temp.refused('B');
INSERT INTO actionledger.event (action_id, what, status, by_whom) VALUES (pg_temp.id('B'), 'acknowledged', 'failed', 'somebody');
SELECT pg_temp.again('B');
-- Rolled back, it was not.
BEGIN;
SELECT pg_temp.at('B#2', 'failed', 'rejected');
SELECT pg_temp.again('B#2');
ROLLBACK;
SELECT pg_temp.id('B#3') IS NULL AS none, NOT EXISTS (SELECT FROM actionledger.event WHERE action_id = pg_temp.id('B#2') AND what = 'superseded') AS unlinked;
-- A long name has no room for a place in its line.
SELECT status FROM actionledger.perform('su_pay', '{"id": "L"}', repeat('x', 199));
SELECT pg_temp.at(repeat('x', 199), 'failed', 'rejected');
SELECT pg_temp.refused(repeat('x', 199));
-- Where the identity is the key, it takes a sign that the destination takes.
SELECT actionledger.create_service('su_' || n, 'https://api.example.invalid', jsonb_build_object('idempotency', jsonb_build_object('form', 'identity', 'alphabet', a))) FROM (VALUES ('colon', 'A-Za-z0-9:-'), ('dash', 'A-Za-z0-9_-'), ('bare', 'A-Za-z0-9')) s(n, a);
SELECT actionledger.create_tool('su_' || n, 'su_' || n, 'POST /pay', identity => '{id}', input => '{"properties": {"id": {"type": "string"}}}', options => '{"approval": "never"}') FROM unnest('{colon,dash,bare}'::text[]) n;
SELECT status FROM unnest('{colon,dash,bare}'::text[]) n, LATERAL actionledger.perform('su_' || n, '{"id": "K"}');
UPDATE actionledger.action a SET status = 'failed', next_step = 'none' FROM actionledger.tool t WHERE t.tool_id = a.tool_id AND t.name IN ('su_colon', 'su_dash', 'su_bare');
DELETE FROM actionledger.due d USING actionledger.action a WHERE a.action_id = d.action_id AND a.status = 'failed';
SELECT regexp_replace(s.message, 'action \d+', 'action N') FROM actionledger.actions a, actionledger.supersede(a.action_id, '{"id": "K"}', 'again') s WHERE a.tool IN ('su_colon', 'su_dash') ORDER BY a.tool;
SELECT test.fails(format('SELECT actionledger.supersede(%s, ''{"id": "K"}'', ''again'')', action_id)) FROM actionledger.actions WHERE tool = 'su_bare';
-- A service that moves to another host says what stays behind; another spelling of the same is none.
SET client_min_messages = warning;
SELECT actionledger.alter_service('su_dash', '{"base_url": "https://elsewhere.example.invalid"}');
SELECT actionledger.alter_service('su_dash', '{"base_url": "https://API.example.invalid:443/v2"}');
SET client_min_messages = error;
-- The tool is gone.
SELECT actionledger.drop_tool('su_pay', true);
SELECT left(pg_temp.refused('B'), 33);
DROP ROLE regress_al_app, regress_al_other;
