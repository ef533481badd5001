-- A caller's search_path, operators, functions and types in it, and temporary
-- objects: nothing of them runs in the ledger's own statements, which run with
-- a superuser's rights.
\a
\t
CREATE ROLE regress_al_mallory;
CREATE SCHEMA mallory AUTHORIZATION regress_al_mallory;
CREATE TABLE mallory.log (who name DEFAULT current_user, what text);
GRANT INSERT, SELECT ON mallory.log TO PUBLIC;
SELECT actionledger.create_service('tj', 'https://api.example.invalid');
SELECT actionledger.create_tool('tj_pay', 'tj', 'POST /pay{?q}', identity => '{id}', options => '{"summary": "pay {id}"}',
    input => '{"properties": {"id": {"type": "string", "pattern": "^[a-z0-9]+$"}, "q": {"enum": ["a", "b"]}, "day": {"type": "string", "format": "date"}}}');
SELECT actionledger.grant_tool('tj_pay', 'regress_al_mallory');
-- The worst case: the attacker may also operate and define.
DO $$
DECLARE f regprocedure;
BEGIN
    FOR f IN SELECT oid::regprocedure FROM pg_proc WHERE pronamespace = 'actionledger'::regnamespace AND proname IN ('resolve', 'create_service', 'alter_service', 'drop_service',
        'create_tool', 'alter_tool', 'drop_tool', 'grant_tool', 'revoke_tool')
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO regress_al_mallory', f);
    END LOOP;
END $$;
GRANT TEMPORARY ON DATABASE :DBNAME TO regress_al_mallory;

SET SESSION AUTHORIZATION regress_al_mallory;
-- Every operator and function of pg_catalog that SQL of ours could mean, by name
-- and for the types of the ledger: each writes down who runs it.
DO $$
DECLARE o record; f record; n int := 0;
BEGIN
    FOR o IN SELECT DISTINCT oprname, oprleft::regtype::text AS l, oprright::regtype::text AS r, oprresult::regtype::text AS res FROM pg_operator
        WHERE oprnamespace = 'pg_catalog'::regnamespace AND oprkind = 'b' AND oprname IN ('=', '<>', '<', '>', '<=', '>=', '+', '-', '||', '%', '->', '->>', '?', '~', '@>')
          AND oprleft::regtype::text IN ('text', 'integer', 'bigint', 'smallint', 'jsonb', 'timestamp with time zone', 'oid', 'name', 'boolean', 'uuid', 'interval', 'anyenum', 'anyarray')
          AND oprright::regtype::text NOT LIKE 'any%' AND oprleft::regtype::text NOT LIKE 'any%'
    LOOP
        n := n + 1;
        EXECUTE format($f$CREATE FUNCTION mallory.op_%s(a %s, b %s) RETURNS %s LANGUAGE plpgsql AS $b$
            BEGIN SET LOCAL search_path = pg_catalog; INSERT INTO mallory.log (what) VALUES (%L); RETURN a OPERATOR(pg_catalog.%s) b; END $b$ $f$,
            n, o.l, o.r, o.res, o.l || ' ' || o.oprname || ' ' || o.r, o.oprname);
        EXECUTE format('CREATE OPERATOR mallory.%s (PROCEDURE = mallory.op_%s, LEFTARG = %s, RIGHTARG = %s)', o.oprname, n, o.l, o.r);
    END LOOP;
    FOR f IN SELECT p.proname, pg_get_function_identity_arguments(p.oid) AS args, p.prorettype::regtype::text AS res,
            CASE WHEN p.pronargs = 0 THEN '' WHEN p.pronargs = 1 THEN '$1' WHEN p.pronargs = 2 THEN '$1, $2' ELSE '$1, $2, $3' END AS call
        FROM pg_proc p WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind = 'f' AND NOT proretset AND pronargs <= 3 AND provariadic = 0
          AND proname IN ('now', 'clock_timestamp', 'nextval', 'currval', 'gen_random_uuid', 'length', 'lower', 'coalesce', 'has_function_privilege', 'date_trunc', 'encode', 'substr', 'int4', 'int8', 'sha256')
          AND pg_get_function_result(p.oid) NOT LIKE '%any%'
    LOOP
        EXECUTE format($f$CREATE FUNCTION mallory.%I(%s) RETURNS %s LANGUAGE plpgsql AS $b$
            BEGIN SET LOCAL search_path = pg_catalog; INSERT INTO mallory.log (what) VALUES (%L); RETURN pg_catalog.%I(%s); END $b$ $f$, f.proname, f.args, f.res, f.proname, f.proname, f.call);
        n := n + 1;
    END LOOP;
    RAISE NOTICE '%', CASE WHEN n > 100 THEN 'trojans are in place' ELSE n || ' trojans only' END;
END $$;
CREATE FUNCTION mallory.not_null(t anyelement) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN INSERT INTO mallory.log (what) VALUES ('domain'); RETURN true; END $$;
-- Types of the names that casts use, with a check that logs.
CREATE DOMAIN mallory.text AS pg_catalog.text CHECK (mallory.not_null(VALUE));
CREATE DOMAIN mallory.int4 AS pg_catalog.int4 CHECK (mallory.not_null(VALUE));
CREATE DOMAIN mallory.jsonb AS pg_catalog.jsonb CHECK (mallory.not_null(VALUE));
CREATE DOMAIN mallory.regclass AS pg_catalog.regclass CHECK (mallory.not_null(VALUE));
-- Relations of the ledger's names.
CREATE TEMP TABLE action (LIKE actionledger.actions);
CREATE TEMP TABLE due (action_id bigint);
CREATE TEMP TABLE tool (name pg_catalog.text);
CREATE TEMP VIEW ledger AS SELECT mallory.not_null(1) AS namespace;
CREATE FUNCTION pg_temp.now() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN INSERT INTO mallory.log (what) VALUES ('pg_temp.now'); RETURN pg_catalog.now(); END $$;
\c -
SET SESSION AUTHORIZATION regress_al_mallory;
CREATE TEMP TABLE action (action_id bigint);
CREATE TEMP TABLE tool (name pg_catalog.text);
CREATE FUNCTION pg_temp.now() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN INSERT INTO mallory.log (what) VALUES ('pg_temp.now'); RETURN pg_catalog.now(); END $$;

-- They work: with this path, SQL of the caller's own runs into them.
SET search_path = mallory, pg_temp, public, pg_catalog;
SELECT 1 = 1, now() IS NOT NULL, 'x'::text || 'y';
SET search_path = pg_catalog;
SELECT what, who FROM mallory.log GROUP BY what, who ORDER BY what, who;
RESET SESSION AUTHORIZATION;
TRUNCATE mallory.log;
SET SESSION AUTHORIZATION regress_al_mallory;

-- The ledger's do not, in a session that has planned nothing before.
SET search_path = mallory, pg_temp, public, pg_catalog;
SELECT created FROM actionledger.perform('tj_pay', '{"id": "one", "q": "a", "day": "2026-01-31"}');
SELECT created FROM actionledger.perform('tj_pay', '{"id": "one", "q": "a", "day": "2026-01-31"}');
SELECT created FROM actionledger.perform_many('tj_pay', ARRAY['{"id": "two"}', '{"id": "three"}']::pg_catalog.jsonb[], options => '{"on_error": "skip"}');
\set VERBOSITY terse
SELECT actionledger.perform('tj_pay', '{"id": "ONE"}');
SELECT actionledger.perform('tj_pay', '{"id": "one", "q": "b"}');
SELECT actionledger.perform('tj_nope', '{}');
\set VERBOSITY default
SELECT ok FROM pg_catalog.jsonb_to_record(actionledger.result_by_identity('tj', 'one')) AS r(ok pg_catalog.bool);
SELECT action_id AS one FROM actionledger.actions WHERE identity OPERATOR(pg_catalog.=) 'one' AND tool OPERATOR(pg_catalog.=) 'tj_pay' \gset
SELECT action_id AS two FROM actionledger.actions WHERE identity OPERATOR(pg_catalog.=) 'two' AND tool OPERATOR(pg_catalog.=) 'tj_pay' \gset
SELECT data FROM pg_catalog.jsonb_to_record(actionledger.wait(:one, '0')) AS r(ok pg_catalog.bool, data pg_catalog.jsonb) \gset
SELECT status FROM actionledger.cancel(:one, 'why');
SELECT status FROM actionledger.resolve(:two, 'failed', '{"external_ref": "x"}', 'note', 'prepared');
SELECT actionledger.create_service('tj_mine', 'https://api.example.invalid', '{"idempotency": {"form": "identity", "alphabet": "a-z0-9"}}');
SELECT actionledger.create_tool('tj_mine', 'tj_mine', 'POST /x', identity => '{id}', input => '{"properties": {"id": {"type": "string", "pattern": "^a"}}}', options => '{"external_ref": "$.id"}');
SELECT actionledger.alter_tool('tj_mine', '{"timeout": "3s"}');
SELECT actionledger.alter_service('tj_mine', '{"headers": {"A": "b"}}');
SELECT actionledger.grant_tool('tj_mine', 'regress_al_mallory');
SELECT created FROM actionledger.perform('tj_mine', '{"id": "abc"}');
SELECT actionledger.revoke_tool('tj_mine', 'regress_al_mallory');
SELECT actionledger.drop_tool('tj_mine', true);
SELECT actionledger.drop_service('tj_mine');
-- Views were bound when they were created.
SELECT FROM actionledger.actions, actionledger.pending, actionledger.in_flight, actionledger.needs_reconciliation, actionledger.review_queue, actionledger.attempts,
    actionledger.timeline, actionledger.tools, actionledger.services, actionledger.workers LIMIT 0;
SELECT FROM actionledger.timeline WHERE action_id OPERATOR(pg_catalog.=) :one;
SHOW search_path;
-- Nor in one whose plans were made with another path.
SET search_path = public;
SELECT created FROM actionledger.perform('tj_pay', '{"id": "four"}');
SET search_path = mallory, pg_temp, public, pg_catalog;
SELECT created FROM actionledger.perform('tj_pay', '{"id": "five"}');
SELECT created FROM actionledger.perform('tj_pay', '{"id": "five"}');
-- Nor with no path at all.
SET search_path = '';
SELECT created FROM actionledger.perform('tj_pay', '{"id": "six"}');
SELECT c.s FROM actionledger.actions, actionledger.cancel(action_id) c(id, s, n, m) WHERE identity = 'six' AND tool = 'tj_pay';
RESET SESSION AUTHORIZATION;
SET search_path = pg_catalog;
SELECT who, what, count(*) FROM mallory.log GROUP BY who, what ORDER BY who, what;
SELECT count(*) AS ran_for_us FROM mallory.log;

SET client_min_messages = warning;
REVOKE ALL ON DATABASE :DBNAME FROM regress_al_mallory;
DROP SCHEMA mallory CASCADE;
DROP OWNED BY regress_al_mallory CASCADE;
DROP ROLE regress_al_mallory;
