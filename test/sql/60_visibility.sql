-- Who sees what: a requester its own actions, members of its role too, a tool's
-- owner its tool's, operators all, others none.
\a
\t
CREATE ROLE regress_al_caller_a;
CREATE ROLE regress_al_caller_b;
CREATE ROLE regress_al_member IN ROLE regress_al_caller_a;
CREATE ROLE regress_al_noinherit NOINHERIT IN ROLE regress_al_caller_a;
CREATE ROLE regress_al_owner;
CREATE ROLE regress_al_operator;
CREATE ROLE regress_al_admin;
CREATE ROLE regress_al_nobody;
GRANT EXECUTE ON FUNCTION actionledger.resolve(bigint, text, jsonb, text, text, bool) TO regress_al_operator;
GRANT EXECUTE ON FUNCTION actionledger.create_service(text, text, jsonb, bool),
    actionledger.create_tool(text, text, text, text, text, jsonb, jsonb, bool), actionledger.grant_tool(text, text) TO regress_al_admin;

SET ROLE regress_al_admin;
SELECT actionledger.create_service('vs', 'https://api.example.invalid', '{"headers": {"X-Literal": "not-for-everyone"}}');
SELECT actionledger.create_tool('vs_owned', 'vs', 'POST /o', identity => '{id}', input => '{"properties": {"id": {"type": "string"}}}', options => '{"summary": "owned {id}", "owner": "regress_al_owner"}');
SELECT actionledger.create_tool('vs_plain', 'vs', 'POST /p', identity => '{id}', input => '{"properties": {"id": {"type": "string"}}}', options => '{"summary": "plain {id}"}');
SELECT actionledger.grant_tool(t, r) FROM unnest('{vs_owned,vs_plain}'::text[]) t, unnest('{regress_al_caller_a,regress_al_caller_b}'::text[]) r;
SET ROLE regress_al_caller_a;
SELECT identity FROM unnest('{a-prepared,a-flying,a-review,a-done}'::text[]) i, actionledger.perform('vs_owned', jsonb_build_object('id', i));
SELECT identity FROM actionledger.perform('vs_plain', '{"id": "a-plain"}');
SET ROLE regress_al_caller_b;
SELECT identity FROM unnest('{b-prepared,b-flying,b-review,b-done}'::text[]) i, actionledger.perform('vs_plain', jsonb_build_object('id', i));
SELECT identity FROM actionledger.perform('vs_owned', '{"id": "b-owned"}');
RESET ROLE;
CREATE FUNCTION pg_temp.id(text) RETURNS bigint LANGUAGE sql AS $$ SELECT action_id FROM actionledger.action a JOIN actionledger.service s USING (service_id) WHERE s.name = 'vs' AND a.identity = $1 $$;
SELECT count(test.mark(pg_temp.id(c || s), '10 min')) FROM unnest('{a,b}'::text[]) c, unnest('{-flying,-review,-done}'::text[]) s;
SELECT count(test.record(pg_temp.id(c || '-review'), 'unknown', 'connection_lost', NULL, 'needs_reconciliation', 'review', 'unknown', 'infinity', 'outcome_unknown', '1 send')) FROM unnest('{a,b}'::text[]) c;
SELECT count(test.record(pg_temp.id(c || '-done'), 'confirmed', 'confirmed', 200, 'confirmed', 'none', 'confirmed', NULL)) FROM unnest('{a,b}'::text[]) c;
SELECT pg_temp.id('a-review') AS a_review, pg_temp.id('b-review') AS b_review, pg_temp.id('a-prepared') AS a_prepared, pg_temp.id('b-prepared') AS b_prepared \gset
-- The other tests' actions belong to a superuser; the operator sees them as well, so only these are asked for.
CREATE TABLE test.vs_action AS SELECT a.action_id, a.identity FROM actionledger.action a JOIN actionledger.service s USING (service_id) WHERE s.name = 'vs';
GRANT SELECT ON test.vs_action TO PUBLIC;
CREATE FUNCTION test.seen() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT 'actions: ' || coalesce(string_agg(identity, ' ' ORDER BY identity), '-') FROM actionledger.actions WHERE action_id IN (SELECT action_id FROM test.vs_action) UNION ALL
    SELECT 'pending: ' || coalesce(string_agg(identity, ' ' ORDER BY identity), '-') FROM actionledger.pending WHERE action_id IN (SELECT action_id FROM test.vs_action) UNION ALL
    SELECT 'in_flight: ' || coalesce(string_agg(identity, ' ' ORDER BY identity), '-') FROM actionledger.in_flight WHERE action_id IN (SELECT action_id FROM test.vs_action) UNION ALL
    SELECT 'needs_reconciliation: ' || coalesce(string_agg(identity, ' ' ORDER BY identity), '-') FROM actionledger.needs_reconciliation WHERE action_id IN (SELECT action_id FROM test.vs_action) UNION ALL
    SELECT 'review_queue: ' || coalesce(string_agg(identity, ' ' ORDER BY identity), '-') FROM actionledger.review_queue JOIN test.vs_action USING (action_id) UNION ALL
    SELECT 'attempts: ' || coalesce(string_agg(identity, ' ' ORDER BY identity), '-') FROM actionledger.attempts JOIN test.vs_action USING (action_id) UNION ALL
    SELECT 'timeline: ' || coalesce(string_agg(DISTINCT identity, ' ' ORDER BY identity), '-') FROM actionledger.timeline JOIN test.vs_action USING (action_id) UNION ALL
    SELECT 'tools: ' || coalesce(string_agg(tool || CASE WHEN options IS NULL THEN '' ELSE '+options' END, ' ' ORDER BY tool), '-') FROM actionledger.tools WHERE service = 'vs' UNION ALL
    SELECT 'services: ' || coalesce(string_agg(name, ' '), '-') FROM actionledger.services WHERE name = 'vs' UNION ALL
    SELECT 'workers: ' || (count(*) > 0)::text FROM actionledger.workers
$$;

SET ROLE regress_al_caller_a;
SELECT test.seen();
SET ROLE regress_al_caller_b;
SELECT test.seen();
SET ROLE regress_al_member;
SELECT test.seen();
SET ROLE regress_al_noinherit;
SELECT test.seen();
SET ROLE regress_al_owner;
SELECT test.seen();
SET ROLE regress_al_operator;
SELECT test.seen();
SET ROLE regress_al_admin; -- defines, and sees no actions for it
SELECT test.seen();
SET ROLE regress_al_nobody;
SELECT test.seen();
RESET ROLE;

-- The functions see what the views show, and tell others no more than that there is nothing.
SET ROLE regress_al_caller_a;
SELECT actionledger.result(:a_review) #>> '{data,identity}', actionledger.result_by_identity('vs', 'a-review') #>> '{data,status}', actionledger.wait(:a_review, '0') #>> '{data,status}';
SELECT test.fails(format(c, :b_review)) FROM unnest(ARRAY['SELECT actionledger.result(%s)', 'SELECT actionledger.wait(%s)', 'SELECT actionledger.cancel(%s)',
    $$SELECT actionledger.result_by_identity('vs', 'b-review')$$]) c;
SELECT test.fails($$SELECT actionledger.perform('vs_plain', '{"id": "b-prepared"}')$$); -- the same request as theirs
SELECT test.fails($$SELECT actionledger.perform('vs_plain', '{"id": "x"}', identity => 'b-review')$$);
SET ROLE regress_al_owner;
SELECT actionledger.result(:a_review) #>> '{data,identity}';
SELECT test.fails(format('SELECT actionledger.result(%s)', :b_review));
SET ROLE regress_al_operator;
SELECT actionledger.result(:a_review) #>> '{data,identity}', actionledger.result(:b_review) #>> '{data,identity}';
SET ROLE regress_al_nobody;
SELECT test.fails(format('SELECT actionledger.result(%s)', :a_review));

-- A plan that was cached for one role serves another with its own eyes.
SET ROLE regress_al_caller_a;
PREPARE mine AS SELECT identity FROM actionledger.pending WHERE action_id IN (SELECT action_id FROM test.vs_action) ORDER BY 1;
SET plan_cache_mode = force_generic_plan;
EXECUTE mine;
SET ROLE regress_al_caller_b;
EXECUTE mine;
SET ROLE regress_al_nobody;
EXECUTE mine;
RESET ROLE;
CREATE FUNCTION test.vs_count() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT count(*) FROM actionledger.actions WHERE action_id IN (SELECT action_id FROM test.vs_action)); END $$;
SET ROLE regress_al_caller_a;
SELECT test.vs_count();
SET ROLE regress_al_nobody;
SELECT test.vs_count();
SET ROLE regress_al_operator;
SELECT test.vs_count();
RESET ROLE;
RESET plan_cache_mode;
DEALLOCATE mine;

-- A cheap function in the WHERE clause is not shown the rows of others.
GRANT CREATE ON SCHEMA test TO regress_al_nobody;
SET ROLE regress_al_nobody;
CREATE FUNCTION test.leak(what text) RETURNS bool LANGUAGE plpgsql COST 0.0000001 AS $$ BEGIN RAISE NOTICE 'leaked: %', what; RETURN true; END $$;
CREATE OPERATOR test.!!! (PROCEDURE = test.leak, RIGHTARG = text);
SELECT count(*) FROM actionledger.actions WHERE test.leak(identity);
SELECT count(*) FROM actionledger.pending WHERE test.leak(summary);
SELECT count(*) FROM actionledger.in_flight WHERE OPERATOR(test.!!!) identity;
SELECT count(*) FROM actionledger.needs_reconciliation WHERE test.leak(reason);
SELECT count(*) FROM actionledger.review_queue WHERE test.leak(known);
SELECT count(*) FROM actionledger.attempts WHERE test.leak(category);
SELECT count(*) FROM actionledger.timeline WHERE test.leak(what);
SELECT count(*) FROM actionledger.tools WHERE test.leak(tool);
SELECT count(*) FROM actionledger.services WHERE test.leak(name);
SELECT count(*) FROM actionledger.timeline t JOIN actionledger.actions a USING (action_id) WHERE test.leak(t.detail) OR test.leak(a.idempotency_key);
SELECT count(*) FROM actionledger.actions WHERE 1 / (length(identity) - length(identity)) > 0;
-- The same leak with something to see, so that the test could fail.
SET ROLE regress_al_caller_b;
SELECT count(*) FROM actionledger.needs_reconciliation WHERE test.leak(identity);
RESET ROLE;

-- Nor the base tables, whoever asks.
CREATE FUNCTION test.denied(relation text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'SELECT * FROM ' || relation || ' LIMIT 1';
    RETURN 'readable: ' || relation;
EXCEPTION WHEN insufficient_privilege THEN
    RETURN NULL;
END $$;
SET ROLE regress_al_operator;
SELECT count(*) AS relations, count(test.denied(c.oid::regclass::text)) AS readable FROM pg_class c WHERE relnamespace = 'actionledger'::regnamespace AND relkind IN ('r', 'S');
SET ROLE regress_al_admin;
SELECT count(test.denied(c.oid::regclass::text)) AS readable FROM pg_class c WHERE relnamespace = 'actionledger'::regnamespace AND relkind IN ('r', 'S');
SELECT nextval('actionledger.action_seq');
INSERT INTO actionledger.event (action_id, what, by_whom) VALUES (1, 'resolved', 'me');
RESET ROLE;

-- What was asked for by a role that is gone is seen by operators and the owner.
SET client_min_messages = warning;
DROP FUNCTION test.vs_count(), test.denied(text);
DROP OPERATOR test.!!! (NONE, text);
DROP FUNCTION test.leak(text);
RESET client_min_messages;
DROP OWNED BY regress_al_operator, regress_al_admin, regress_al_nobody;
DROP ROLE regress_al_caller_a, regress_al_member, regress_al_noinherit, regress_al_nobody, regress_al_admin;
SELECT requested_by FROM actionledger.actions WHERE action_id = :a_review;
SET ROLE regress_al_owner;
SELECT test.seen() LIMIT 1;
RESET ROLE;
SET ROLE regress_al_caller_b;
SELECT test.seen() LIMIT 1;
RESET ROLE;
DROP FUNCTION test.seen();
DROP TABLE test.vs_action;
DROP ROLE regress_al_caller_b, regress_al_owner, regress_al_operator;
