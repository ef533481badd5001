-- Business checks: whose rights they run with, what they may say, and what a
-- person may allow all the same.
\a
\t
SET client_min_messages = error;
CREATE ROLE regress_al_app;
CREATE ROLE regress_al_shop;
CREATE ROLE regress_al_admin;
CREATE ROLE regress_al_boss;
CREATE SCHEMA regress_al_checks AUTHORIZATION regress_al_shop;
GRANT USAGE ON SCHEMA regress_al_checks TO PUBLIC;
CREATE TABLE regress_al_checks.seen (at int GENERATED ALWAYS AS IDENTITY, args jsonb, context jsonb, who text);
CREATE TABLE regress_al_checks.orders (id text PRIMARY KEY, owner text, total int);
INSERT INTO regress_al_checks.orders VALUES ('A1', 'regress_al_app', 100), ('A2', 'somebody', 100);
GRANT INSERT, SELECT ON regress_al_checks.seen TO PUBLIC;
GRANT SELECT ON regress_al_checks.orders TO regress_al_app;
CREATE FUNCTION regress_al_checks.refund(args jsonb, context jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE o record;
BEGIN
    INSERT INTO regress_al_checks.seen (args, context, who) VALUES (args, context, current_user || ' of ' || session_user);
    SELECT * INTO o FROM regress_al_checks.orders WHERE id = args ->> 'id';
    IF o.owner <> context ->> 'requester' THEN
        RETURN jsonb_build_object('code', 'not_owner', 'message', format('order %s is not yours', o.id));
    END IF;
    IF (args ->> 'amount')::int > o.total THEN
        RETURN jsonb_build_object('code', 'over_limit', 'message', format('the order was %s', o.total));
    END IF;
    RETURN NULL;
END $$;
CREATE FUNCTION regress_al_checks.text_only(args text, context jsonb) RETURNS jsonb LANGUAGE sql AS 'SELECT NULL::jsonb';
CREATE FUNCTION regress_al_checks.returns_text(args jsonb, context jsonb) RETURNS text LANGUAGE sql AS 'SELECT NULL::text';
CREATE FUNCTION regress_al_checks.returns_set(args jsonb, context jsonb) RETURNS SETOF jsonb LANGUAGE sql AS 'SELECT NULL::jsonb';
CREATE FUNCTION regress_al_checks.concat3(s jsonb, a jsonb, b jsonb) RETURNS jsonb LANGUAGE sql AS 'SELECT a';
CREATE AGGREGATE regress_al_checks.agg (jsonb, jsonb) (sfunc = regress_al_checks.concat3, stype = jsonb);
SELECT actionledger.create_service('ck', 'https://api.example.invalid', '{"idempotency": {"window": "24h"}}');
CREATE FUNCTION pg_temp.tool(name text, check_function text, approval text DEFAULT '"never"') RETURNS text LANGUAGE sql AS $$
    SELECT actionledger.create_tool(name, 'ck', 'POST /pay', identity => name || ':{id}:{n}', input => '{"required": ["id", "amount", "n"], "properties": {"id": {"type": "string"}, "amount": {"type": "integer"}, "n": {"type": "integer"}}}',
        options => jsonb_build_object('summary', 'refund {amount} of {id}', 'check_function', check_function, 'approval', approval::jsonb), replace => true) $$;

-- What may be named: a function with its schema, taking and returning what it should.
SELECT test.fails(format('SELECT pg_temp.tool(''ck_wrong'', %L)', f)) FROM unnest(ARRAY['', 'refund', 'a.b.c', 'regress_al_checks.', '"', 'regress_al_checks.nope', 'regress_al_nowhere.refund', 'pg_temp.tool', 'regress_al_checks.text_only',
    'regress_al_checks.returns_text', 'regress_al_checks.returns_set', 'regress_al_checks.agg']) f;
SELECT pg_temp.tool('ck_refund', 'regress_al_checks.refund');
SELECT actionledger.grant_tool('ck_refund', r) FROM unnest('{regress_al_app,regress_al_boss}'::text[]) r;
CREATE FUNCTION pg_temp.refused(args text, tool text DEFAULT 'ck_refund') RETURNS text LANGUAGE sql AS $$
    SELECT test.fails(format('SELECT actionledger.perform(%L, %L, run_id => ''run-1'', step => 3, options => ''{"actor": "agent 7"}'')', tool, args)) $$;
GRANT EXECUTE ON FUNCTION pg_temp.refused TO PUBLIC;

-- It runs as who proposes, and is told who that is.
SET ROLE regress_al_app;
SELECT status, next_step FROM actionledger.perform('ck_refund', '{"id": "A1", "amount": 100, "n": 1}', run_id => 'run-1', step => 3, options => '{"actor": "agent 7"}');
SELECT who = 'regress_al_app of ' || session_user AS as_caller, args, context - 'session_user' AS context, context ->> 'session_user' = session_user AS login FROM regress_al_checks.seen;
SELECT pg_temp.refused('{"id": "A1", "amount": 101, "n": 2}');
SELECT pg_temp.refused('{"id": "A2", "amount": 1, "n": 2}');
-- A role without the right to look into the check's tables cannot be checked, and so cannot perform.
SET ROLE regress_al_boss;
SELECT pg_temp.refused('{"id": "A1", "amount": 1, "n": 3}');
SET ROLE regress_al_app;
-- It comes after arguments and permission, and before anything is recorded.
SELECT pg_temp.refused('{"id": "A1", "n": 3}');
SELECT pg_temp.refused('{"id": "A1", "amount": "lots", "n": 3}');
RESET ROLE;
SELECT count(*) AS asked, max(at) FROM regress_al_checks.seen; -- what was refused took its rows with it
SELECT count(*) FROM actionledger.action JOIN actionledger.tool t USING (tool_id) WHERE t.name LIKE 'ck\_%';
-- What is recorded already is answered without asking the check anew.
UPDATE regress_al_checks.orders SET total = 0 WHERE id = 'A1';
SET ROLE regress_al_app;
SELECT status, created FROM actionledger.perform('ck_refund', '{"id": "A1", "amount": 100, "n": 1}');
RESET ROLE;
SELECT count(*) FROM regress_al_checks.seen;
SELECT test.fails($$SELECT actionledger.perform('ck_refund', '{"id": "A1", "amount": 99, "n": 1}')$$);
UPDATE regress_al_checks.orders SET total = 100 WHERE id = 'A1';
-- The same for many, of which each check sees what was recorded before it.
CREATE FUNCTION regress_al_checks.three(args jsonb, context jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT count(*) FROM actionledger.actions WHERE tool = 'ck_three') >= 3 THEN
        RETURN '{"code": "over_limit", "message": "three a day"}';
    END IF;
    RETURN 'null';
END $$;
SELECT pg_temp.tool('ck_three', 'regress_al_checks.three');
SELECT actionledger.grant_tool('ck_three', 'regress_al_app');
SET ROLE regress_al_app;
SELECT item, status, created, error ->> 'code' AS code, error ->> 'message' AS message FROM actionledger.perform_many('ck_three', ARRAY(SELECT jsonb_build_object('id', 'A1', 'amount', 1, 'n', i) FROM generate_series(1, 5) i), options => '{"on_error": "skip"}');
SELECT test.fails($$SELECT count(*) FROM actionledger.perform_many('ck_three', ARRAY['{"id": "A1", "amount": 1, "n": 9}']::jsonb[])$$);
-- An agent gets it as an envelope.
SELECT x - 'meta', x -> 'meta' ->> 'advice', x -> 'meta' ->> 'observation' FROM actionledger.try_perform('ck_refund', '{"id": "A1", "amount": 101, "n": 2}') x;
RESET ROLE;

-- What a check may not say.
CREATE FUNCTION regress_al_checks.says(args jsonb, context jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    IF args ->> 'id' = 'raise' THEN
        RAISE EXCEPTION 'the order is locked' USING errcode = '55P03', hint = 'Later.';
    END IF;
    RETURN (args ->> 'id')::jsonb;
END $$;
SELECT pg_temp.tool('ck_says', 'regress_al_checks.says');
SELECT answer, left(pg_temp.refused(jsonb_build_object('id', answer, 'amount', 1, 'n', 1)::text, 'ck_says'), 80) FROM unnest(ARRAY['true', '7', '"over_limit"', '[]', '{}', '{"code": "a"}', '{"code": "a", "message": 7}', '{"code": "", "message": "b"}', '{"code": "A b", "message": "b"}', '{"code": "a", "message": ""}',
    '{"code": "a", "message": "b", "approval": true}']) answer;
SELECT pg_temp.refused('{"id": "7", "amount": 1, "n": 1}', 'ck_says');
SELECT pg_temp.refused('{"id": "raise", "amount": 1, "n": 1}', 'ck_says');
SELECT length(pg_temp.refused(jsonb_build_object('id', jsonb_build_object('code', 'long', 'message', repeat('ä', 2000))::text, 'amount', 1, 'n', 1)::text, 'ck_says')) < 800 AS cut;
-- One that is gone, or is not what it was, lets nothing through.
DROP FUNCTION regress_al_checks.says;
SELECT pg_temp.refused('{"id": "null", "amount": 1, "n": 1}', 'ck_says');
CREATE FUNCTION regress_al_checks.says(args jsonb, context jsonb) RETURNS text LANGUAGE sql AS 'SELECT NULL::text';
SELECT pg_temp.refused('{"id": "null", "amount": 1, "n": 1}', 'ck_says');
REVOKE EXECUTE ON FUNCTION regress_al_checks.refund FROM PUBLIC;
SET ROLE regress_al_app;
SELECT pg_temp.refused('{"id": "A1", "amount": 1, "n": 4}');
RESET ROLE;
GRANT EXECUTE ON FUNCTION regress_al_checks.refund TO PUBLIC;
-- A name without its schema would be looked for in the caller's path.
SELECT test.fails($$SELECT actionledger.alter_tool('ck_refund', '{"check_function": "refund"}')$$);

-- A superuser lends no rights to a function that others can write.
CREATE FUNCTION regress_al_checks.evil(args jsonb, context jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO regress_al_checks.seen (args, who) VALUES (args, current_user);
    PERFORM set_config('search_path', 'regress_al_checks', false);
    BEGIN
        CREATE ROLE regress_al_evil SUPERUSER;
    EXCEPTION WHEN insufficient_privilege THEN
        INSERT INTO regress_al_checks.seen (args, who) VALUES ('"no role"', current_user);
    END;
    BEGIN
        RESET ROLE;
    EXCEPTION WHEN insufficient_privilege THEN
        INSERT INTO regress_al_checks.seen (args, who) VALUES ('"no reset"', current_user);
    END;
    BEGIN
        SET SESSION AUTHORIZATION DEFAULT;
    EXCEPTION WHEN insufficient_privilege THEN
        INSERT INTO regress_al_checks.seen (args, who) VALUES ('"no default"', current_user);
    END;
    RETURN NULL;
END $$;
ALTER FUNCTION regress_al_checks.evil OWNER TO regress_al_shop;
TRUNCATE regress_al_checks.seen;
SELECT pg_temp.tool('ck_evil', 'regress_al_checks.evil');
SHOW search_path;
SELECT status FROM actionledger.perform('ck_evil', '{"id": "x", "amount": 1, "n": 1}');
SELECT args, who FROM regress_al_checks.seen ORDER BY at;
SHOW search_path;
SELECT current_user = session_user AS still_me, count(*) AS evil FROM pg_roles WHERE rolname = 'regress_al_evil';
-- A definer's rights are the definer's, as ever.
ALTER FUNCTION regress_al_checks.evil SECURITY DEFINER;
TRUNCATE regress_al_checks.seen;
SELECT actionledger.grant_tool('ck_evil', 'regress_al_app');
SET ROLE regress_al_app;
SELECT status FROM actionledger.perform('ck_evil', '{"id": "x", "amount": 1, "n": 2}');
RESET ROLE;
SELECT DISTINCT who FROM regress_al_checks.seen;
-- One that proposes itself, and one that alters its tool under itself.
CREATE FUNCTION regress_al_checks.busy(args jsonb, context jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    PERFORM actionledger.perform('ck_three', args);
    PERFORM actionledger.alter_tool('ck_busy', '{"summary": "altered"}');
    RETURN NULL;
END $$;
SELECT pg_temp.tool('ck_busy', 'regress_al_checks.busy');
UPDATE regress_al_checks.orders SET total = 1000;
SELECT test.fails($$SELECT actionledger.perform('ck_busy', '{"id": "x", "amount": 1, "n": 77}')$$);
CREATE OR REPLACE FUNCTION regress_al_checks.three(args jsonb, context jsonb) RETURNS jsonb LANGUAGE sql AS 'SELECT NULL::jsonb';
SELECT status, identity FROM actionledger.perform('ck_busy', '{"id": "x", "amount": 1, "n": 77}');
SELECT identity, summary FROM actionledger.actions WHERE identity IN ('ck_three:x:77', 'ck_busy:x:77') ORDER BY 1;

-- What the check refuses, a person may allow.
SELECT pg_temp.tool('ck_refund', 'regress_al_checks.refund', '{"if": "$.amount > 100000", "by": "regress_al_boss"}');
UPDATE regress_al_checks.orders SET total = 100;
SET ROLE regress_al_app;
SELECT x ->> 'ok', x -> 'data' ->> 'status', x -> 'data' ->> 'next_step', x -> 'data' ->> 'created', x -> 'error' ->> 'code', test.plain(x -> 'meta' ->> 'observation')
FROM actionledger.request_approval('ck_refund', '{"id": "A1", "amount": 300, "n": 5}', 'a good customer') x;
-- Again: the same action, which still waits.
SELECT x -> 'data' ->> 'next_step', x -> 'data' ->> 'created' FROM actionledger.request_approval('ck_refund', '{"id": "A1", "amount": 300, "n": 5}', 'a very good one') x;
SELECT status, next_step, created FROM actionledger.perform('ck_refund', '{"id": "A1", "amount": 300, "n": 5}');
-- Also for what the check does not refuse, and for a tool without one.
SELECT x -> 'data' ->> 'next_step' FROM actionledger.request_approval('ck_refund', '{"id": "A1", "amount": 1, "n": 6}', 'to be sure', 'mine') x;
-- Arguments and permission stay what they are, and so does a check that fails.
SELECT x -> 'error' ->> 'code', x -> 'meta' -> 'findings' -> 0 ->> 'at' FROM actionledger.request_approval('ck_refund', '{"id": "A1", "amount": "300", "n": 6}', 'please') x;
SELECT x -> 'error' ->> 'code' FROM actionledger.request_approval('ck_says', '{"id": "null", "amount": 1, "n": 1}', 'please') x;
SELECT x -> 'error' ->> 'code' FROM actionledger.request_approval(NULL, '{}', 'please') x;
SELECT x -> 'error' ->> 'code' FROM actionledger.request_approval('ck_refund', NULL, 'please') x;
SELECT test.fails(format($$SELECT actionledger.request_approval('ck_refund', '{}', %L)$$, r)) FROM unnest(ARRAY[NULL, '', repeat('x', 1001)]) r;
RESET ROLE;
SELECT x -> 'error' ->> 'code' FROM actionledger.request_approval('ck_says', '{"id": "null", "amount": 1, "n": 1}', 'please') x;
SELECT identity, reason, by FROM actionledger.approvals JOIN actionledger.action USING (action_id) WHERE tool = 'ck_refund' ORDER BY action_id;
SELECT action_id AS asked FROM actionledger.action WHERE identity = 'ck_refund:A1:5' \gset
SET ROLE regress_al_boss;
SELECT status, next_step FROM actionledger.approve(:asked, 'they are');
RESET ROLE;

-- per_run: the hash that names an action takes in its run.
SELECT test.fails($$SELECT actionledger.create_tool('ck_run', 'ck', 'POST /x', identity => 'x:{id}', input => '{"properties": {"id": {}}}', options => '{"per_run": true}')$$);
SELECT actionledger.create_tool('ck_run', 'ck', 'POST /x', input => '{"properties": {"id": {}}}', options => '{"per_run": true, "approval": "never"}');
SELECT actionledger.create_tool('ck_run_named', 'ck', 'POST /x', identity => 'x:{id}:{_run_id}', input => '{"properties": {"id": {}}}', options => '{"per_run": true, "approval": "never"}');
SELECT test.fails($$SELECT actionledger.perform('ck_run', '{"id": 1}')$$);
SELECT test.fails($$SELECT actionledger.perform('ck_run', '{"id": 1}', run_id => '')$$);
SELECT test.fails($$SELECT actionledger.perform('ck_run_named', '{"id": 1}')$$);
SELECT run, identity = 'ck_run:' || encode(sha256(convert_to('{"id":1}' || E'\x1f' || run, 'UTF8')), 'hex') AS of_both, created FROM unnest('{one,two,one}'::text[]) WITH ORDINALITY r(run, n), LATERAL actionledger.perform('ck_run', '{"id": 1}', run_id => run) ORDER BY n;
SELECT identity, created FROM unnest('{one,two,one}'::text[]) WITH ORDINALITY r(run, n), LATERAL actionledger.perform('ck_run_named', '{"id": 1}', run_id => run) ORDER BY n;
SELECT identity, created FROM actionledger.perform('ck_run', '{"id": 1}', identity => 'named by hand');

DROP SCHEMA regress_al_checks CASCADE;
DROP OWNED BY regress_al_app, regress_al_shop, regress_al_admin, regress_al_boss;
DROP ROLE regress_al_app, regress_al_shop, regress_al_admin, regress_al_boss;
