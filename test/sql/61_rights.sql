-- Who may do what.
\a
\t
CREATE ROLE regress_al_caller;
CREATE ROLE regress_al_member IN ROLE regress_al_caller;
CREATE ROLE regress_al_noinherit NOINHERIT IN ROLE regress_al_caller;
CREATE ROLE regress_al_owner;
CREATE ROLE regress_al_operator;
CREATE ROLE regress_al_admin;
CREATE ROLE regress_al_nobody;
GRANT EXECUTE ON FUNCTION actionledger.resolve(bigint, text, jsonb, text, text, bool) TO regress_al_operator;
DO $$
DECLARE f regprocedure;
BEGIN
    FOR f IN SELECT oid::regprocedure FROM pg_proc WHERE pronamespace = 'actionledger'::regnamespace
        AND proname IN ('create_service', 'alter_service', 'drop_service', 'create_tool', 'alter_tool', 'drop_tool', 'grant_tool', 'revoke_tool')
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO regress_al_admin', f);
    END LOOP;
END $$;

-- Without a grant: what is for applications, and no more.
SELECT r, string_agg(p.proname, ' ' ORDER BY p.proname) FROM unnest('{regress_al_nobody,regress_al_operator,regress_al_admin}'::text[]) WITH ORDINALITY u(r, n), pg_proc p
WHERE p.pronamespace = 'actionledger'::regnamespace AND p.proname NOT LIKE '\_%' AND has_function_privilege(r, p.oid, 'EXECUTE') GROUP BY n, r ORDER BY n;
SET ROLE regress_al_nobody;
SELECT actionledger.create_service('rt_evil', 'https://evil.example.invalid');
SELECT actionledger.grant_tool('rt_pay', 'regress_al_nobody');
SELECT actionledger.resolve(1, 'confirmed', NULL, 'x');
SELECT actionledger.resume_dispatch('copy', 'x');
SELECT actionledger._decide('read_only', 'unknown');
SET ROLE regress_al_operator;
SELECT actionledger.alter_service('rt', '{"base_url": "https://evil.example.invalid"}');
SET ROLE regress_al_admin;
SELECT actionledger.resolve(1, 'confirmed', NULL, 'x');

-- An administrator defines; the definition is owned by nobody but the ledger.
SELECT actionledger.create_service('rt', 'https://api.example.invalid');
SELECT actionledger.create_tool('rt_pay', 'rt', 'POST /pay', identity => '{id}', input => '{"properties": {"id": {"type": "string"}}}', options => '{"owner": "regress_al_owner"}');
SELECT actionledger.alter_tool('rt_pay', '{"summary": "pay {id}"}');
SELECT created_by FROM actionledger.tools WHERE tool = 'rt_pay';

-- Performing: who is granted it, members that inherit, the owner, who created it.
RESET ROLE;
CREATE FUNCTION test.tries(id text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT 'created ' || p.created FROM actionledger.perform('rt_pay', jsonb_build_object('id', id)) p);
EXCEPTION WHEN SQLSTATE 'LG005' THEN
    RETURN 'LG005 ' || current_user;
END $$;
SET ROLE regress_al_caller;
SELECT test.tries('1');
SET ROLE regress_al_admin;
SELECT actionledger.grant_tool('rt_pay', 'regress_al_caller');
SET ROLE regress_al_caller;
SELECT test.tries('2'); -- in the same session, at once
SET ROLE regress_al_member;
SELECT test.tries('3');
SET ROLE regress_al_noinherit;
SELECT test.tries('4');
SET ROLE regress_al_owner;
SELECT test.tries('5');
SET ROLE regress_al_admin;
SELECT test.tries('6');
SET ROLE regress_al_operator;
SELECT test.tries('7');
SET ROLE regress_al_nobody;
SELECT test.tries('8');
SELECT test.fails($$SELECT actionledger.perform_many('rt_pay', '{"{}"}')$$);
RESET ROLE;
SELECT count(*) FROM actionledger.actions WHERE tool = 'rt_pay';
-- Membership and grants may change while a session has the tool cached.
GRANT regress_al_caller TO regress_al_nobody;
SET ROLE regress_al_nobody;
SELECT test.tries('9');
RESET ROLE;
REVOKE regress_al_caller FROM regress_al_nobody;
SET ROLE regress_al_nobody;
SELECT test.tries('10');
SET ROLE regress_al_admin;
SELECT actionledger.revoke_tool('rt_pay', 'regress_al_caller');
SET ROLE regress_al_member;
SELECT test.tries('11');
RESET ROLE;
BEGIN;
SELECT actionledger.grant_tool('rt_pay', 'regress_al_caller');
ROLLBACK;
SET ROLE regress_al_caller;
SELECT test.tries('12'); -- a grant that was rolled back

-- Cancelling: who asked, members, the tool's owner, operators.
RESET ROLE;
SELECT actionledger.grant_tool('rt_pay', 'regress_al_caller');
SET ROLE regress_al_caller;
SELECT identity FROM unnest('{c1,c2,c3,c4,c5}'::text[]) i, actionledger.perform('rt_pay', jsonb_build_object('id', i));
RESET ROLE;
SELECT array_agg(action_id ORDER BY identity) AS c FROM actionledger.actions WHERE identity ~ '^c[1-5]$' AND tool = 'rt_pay' \gset
SET ROLE regress_al_nobody;
SELECT test.fails(format('SELECT actionledger.cancel(%s)', (:'c'::bigint[])[1]));
SET ROLE regress_al_admin;
SELECT test.fails(format('SELECT actionledger.cancel(%s)', (:'c'::bigint[])[1]));
SET ROLE regress_al_caller;
SELECT status FROM actionledger.cancel((:'c'::bigint[])[1]);
SET ROLE regress_al_member;
SELECT status FROM actionledger.cancel((:'c'::bigint[])[2]);
SET ROLE regress_al_owner;
SELECT status FROM actionledger.cancel((:'c'::bigint[])[3]);
SET ROLE regress_al_operator;
SELECT status FROM actionledger.cancel((:'c'::bigint[])[4]);
SELECT status FROM actionledger.resolve((:'c'::bigint[])[5], 'failed', NULL, 'closed', 'prepared');
RESET ROLE;
SELECT identity, what, by_whom FROM actionledger.timeline JOIN actionledger.actions a USING (action_id) WHERE action_id = ANY (:'c'::bigint[]) AND seq = 2 ORDER BY identity;

-- The settings that protect the server are not the caller's.
SET ROLE regress_al_caller;
SET actionledger.identity_wait = '1s';
SET actionledger.max_request_size = '100MB';
SET actionledger.enabled = on;
SET actionledger.poll_interval = '10ms';
-- The words differ between the versions of PostgreSQL.
\set VERBOSITY sqlstate
SHOW actionledger.secret_directory;
\set VERBOSITY default
SET actionledger.no_such_setting = 1;
RESET ROLE;
DROP FUNCTION test.tries(text);
DROP OWNED BY regress_al_operator, regress_al_admin;
DROP ROLE regress_al_caller, regress_al_member, regress_al_noinherit, regress_al_owner, regress_al_operator, regress_al_admin, regress_al_nobody;
