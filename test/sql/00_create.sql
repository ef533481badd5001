-- CREATE EXTENSION, and what it leaves in the database.  Runs before the
-- other files, which also use the helpers that are made at the end.

-- A schema that is there already may hold anything: nothing is put into it.
SELECT current_database() AS tested \gset
CREATE DATABASE regress_al_squatted;
\c regress_al_squatted
CREATE SCHEMA actionledger;
\set SHOW_CONTEXT never
CREATE EXTENSION actionledger;
\set SHOW_CONTEXT errors
SELECT count(*) AS extensions FROM pg_extension WHERE extname = 'actionledger';
\c :tested
DROP DATABASE regress_al_squatted;

CREATE EXTENSION actionledger;
SELECT extversion, extrelocatable, nspname AS schema
FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'actionledger';

-- Everything that belongs to the extension.  Types that only come with a
-- table or as an array are left out.
CREATE TEMP VIEW member AS
    SELECT d.classid, d.objid, i.type, i.schema, i.identity, obj_description(d.objid, d.classid::regclass::name) AS comment
    FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid,
         pg_identify_object(d.classid, d.objid, 0) i
    WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND e.extname = 'actionledger'
      AND NOT (d.classid = 'pg_type'::regclass AND EXISTS (
          SELECT FROM pg_type t WHERE t.oid = d.objid AND (t.typelem <> 0 OR EXISTS (
              SELECT FROM pg_class c WHERE c.oid = t.typrelid AND c.relkind <> 'c'))))
      AND i.type <> 'composite type'; -- its comment is on the type

-- All have a comment, and all are in the one schema (indexes and triggers come
-- with their tables).
SELECT type, identity FROM member WHERE comment IS NULL;
SELECT type, identity FROM member WHERE type <> 'schema' AND schema IS DISTINCT FROM 'actionledger';
-- Columns whose names do not say it have one too.
SELECT c.relation, c.attribute FROM (VALUES
    ('action', 'known'), ('action', 'claimed_by'), ('action', 'window_ends_at'), ('action', 'key_ends_at'), ('action', 'args_hash'),
    ('action', 'headers'), ('action', 'confirmed_by'), ('attempt', 'sent'), ('ledger', 'namespace'), ('ledger', 'system_id'),
    ('ledger', 'timeline'), ('ledger', 'control_inode')) AS c(relation, attribute)
WHERE NOT EXISTS (
    SELECT FROM pg_attribute a WHERE a.attrelid = ('actionledger.' || c.relation)::regclass AND a.attname = c.attribute
       AND col_description(a.attrelid, a.attnum) IS NOT NULL);

-- A dump carries every table and every sequence, whole.
SELECT c.relname FROM pg_class c
WHERE c.relnamespace = 'actionledger'::regnamespace AND c.relkind IN ('r', 'p', 'S')
  AND NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'actionledger' AND c.oid = ANY (extconfig));
SELECT unnest(extcondition) AS filter FROM pg_extension WHERE extname = 'actionledger' GROUP BY 1;

-- Nobody but the owner reaches a table or a sequence, by a grant on it or on a column.
SELECT c.relname, x.grantee::regrole, x.privilege_type
FROM pg_class c, aclexplode(coalesce(c.relacl, acldefault(CASE c.relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", c.relowner))) x
WHERE c.relnamespace = 'actionledger'::regnamespace AND c.relkind IN ('r', 'p', 'S') AND x.grantee <> c.relowner;
SELECT attrelid::regclass, attname FROM pg_attribute
WHERE attacl IS NOT NULL AND attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'actionledger'::regnamespace);

-- What PUBLIC may do: look at views, call these functions, and no more.
SELECT c.relname, x.privilege_type
FROM pg_class c, aclexplode(c.relacl) x
WHERE c.relnamespace = 'actionledger'::regnamespace AND x.grantee = 0 ORDER BY 1, 2;
SELECT p.oid::regprocedure
FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) x
WHERE p.pronamespace = 'actionledger'::regnamespace AND x.grantee = 0 ORDER BY p.oid::regprocedure::text COLLATE "C";
SELECT n.nspname, x.privilege_type FROM pg_namespace n, aclexplode(n.nspacl) x
WHERE n.nspname = 'actionledger' AND x.grantee = 0;

-- Every view keeps cheap functions behind its predicate; workers has none.
SELECT c.relname FROM pg_class c
WHERE c.relnamespace = 'actionledger'::regnamespace AND c.relkind = 'v' AND c.relname <> 'workers'
  AND NOT coalesce('security_barrier=true' = ANY (c.reloptions), false);
-- A function that runs with its owner's rights pins its search_path.
SELECT p.oid::regprocedure FROM pg_proc p
WHERE p.pronamespace = 'actionledger'::regnamespace AND p.prosecdef
  AND NOT coalesce(p.proconfig @> ARRAY['search_path=pg_catalog, pg_temp'], false);

-- The ledger has one identity; inserting another, as a restored dump does,
-- puts it in the place of the first.
BEGIN;
INSERT INTO actionledger.ledger (namespace) VALUES ('00000000-0000-4000-8000-000000000001');
SELECT namespace FROM actionledger.ledger;
ROLLBACK;
SELECT count(*), count(*) FILTER (WHERE namespace <> '00000000-0000-4000-8000-000000000001') AS random FROM actionledger.ledger;

-- Wrong ways to have it.
CREATE EXTENSION actionledger;
ALTER EXTENSION actionledger SET SCHEMA public;

-- The server of these tests runs without fsync, and so nothing is ever sent: what
-- they see does not depend on when a dispatcher works.
SHOW fsync;
SELECT actionledger.create_service('first', 'https://api.example.invalid');
DO $$
BEGIN
    FOR i IN 1 .. 6000 LOOP
        EXIT WHEN EXISTS (SELECT FROM actionledger.workers WHERE worker = 'dispatcher 0' AND state = 'paused');
        PERFORM pg_sleep(0.01);
    END LOOP;
END $$;
SELECT worker, state, pid IS NOT NULL AS has_process, services, in_flight, restarts, detail, "do" FROM actionledger.workers ORDER BY worker DESC;
SELECT actionledger.drop_service('first');

-- For the other files: idempotency keys that can be written down.
UPDATE actionledger.ledger SET namespace = '6ba7b810-9dad-11d1-80b4-00c04fd430c8';

-- A text without what differs between runs.
CREATE SCHEMA test;
-- Tools of tests that are not about readiness (rd_*) wait for nobody's approval.
CREATE FUNCTION test.approve_nothing() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.name NOT LIKE 'rd\_%' THEN
        NEW.options := '{"approval": "never"}' || NEW.options;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER approve_nothing BEFORE INSERT OR UPDATE ON actionledger.tool FOR EACH ROW EXECUTE FUNCTION test.approve_nothing();
CREATE FUNCTION test.plain(t text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT regexp_replace(regexp_replace(regexp_replace(t,
        '\m([Aa]ction|wait\(|result\(|cancel\(|approve\(|reject\(|supersede\(|identity_)( ?)\d+', '\1\2<id>', 'g'),
        '\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\dZ?', '<time>', 'g'),
        '\m[0-9a-f]{64}\M', '<hash>', 'g')
$$;

-- What a statement raises, as text; nothing of the statement stays.  Every
-- error of the ledger says what is wrong and what to do, in full sentences.
CREATE FUNCTION test.fails(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    code text; message text; detail text; hint text;
BEGIN
    BEGIN
        EXECUTE statement;
        RAISE EXCEPTION USING errcode = 'ZZZZZ';
    EXCEPTION WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
            detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    END;
    IF code = 'ZZZZZ' THEN
        RETURN 'raised nothing';
    END IF;
    IF code LIKE 'LG%' AND (detail !~ '[.)]$' OR hint !~ '[.;)]$') THEN
        hint := hint || ' (BAD STYLE: detail and hint are full sentences)';
    END IF;
    RETURN test.plain(format(E'%s: %s\n  %s\n  %s', code, message, detail, hint));
END $$;

-- What a statement with one value returns, without what differs between runs.
CREATE FUNCTION test.says(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
BEGIN
    EXECUTE statement INTO answer;
    RETURN test.plain(answer);
END $$;

-- What a dispatcher writes, for states that are reached only by sending.  mark:
-- before the first byte leaves, by the dispatcher that lives (a dead one's attempts
-- would be judged as lost at some moment).  record: the outcome.
CREATE FUNCTION test.mark(id bigint, ago interval DEFAULT '0') RETURNS void LANGUAGE sql AS $$
    UPDATE actionledger.action SET status = 'submitted', next_step = 'wait', claimed_by = (SELECT max(incarnation) FROM actionledger.incarnation), attempts = attempts + 1, sends = sends + 1,
        last_sent_at = now() - ago, window_ends_at = coalesce(window_ends_at, now() - ago + '1 h'),
        created_at = least(created_at, now() - ago - interval '1 s')
    WHERE action_id = id;
    INSERT INTO actionledger.attempt (action_id, attempt, incarnation, started_at, deadline)
    SELECT action_id, attempts, 1000000, last_sent_at, last_sent_at + '30 s' FROM actionledger.action WHERE action_id = id
$$;
CREATE FUNCTION test.record(id bigint, verdict text, category text, http int, status text, next_step text, known text, next_at timestamptz,
        error_code text DEFAULT NULL, error_message text DEFAULT NULL, reference text DEFAULT NULL, confirmed_by text DEFAULT NULL) RETURNS void LANGUAGE sql AS $$
    UPDATE actionledger.attempt t SET finished_at = started_at + '2 s', verdict = record.verdict::actionledger.verdict, category = record.category,
        sent = record.verdict <> 'not_sent', truncated = false, http_status = http, external_ref = reference
    WHERE action_id = id AND finished_at IS NULL;
    UPDATE actionledger.action SET status = record.status::actionledger.status, next_step = record.next_step::actionledger.next_step,
        known = record.known::actionledger.known, claimed_by = NULL, error_code = record.error_code, error_message = record.error_message,
        external_ref = reference, confirmed_by = record.confirmed_by, finished_at = CASE WHEN record.status IN ('confirmed', 'failed') THEN now() END
    WHERE action_id = id;
    DELETE FROM actionledger.due WHERE action_id = id AND record.status IN ('confirmed', 'failed');
    UPDATE actionledger.due SET next_at = record.next_at WHERE action_id = id
$$;
GRANT USAGE ON SCHEMA test TO PUBLIC;
