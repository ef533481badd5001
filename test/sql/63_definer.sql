-- In whose name: the role that runs, and beside it the one that logged in.
\a
\t
CREATE ROLE regress_al_service;
CREATE ROLE regress_al_login IN ROLE regress_al_service;
CREATE ROLE regress_al_stranger;
GRANT CREATE ON SCHEMA test TO regress_al_service;
SELECT actionledger.create_service('df', 'https://api.example.invalid');
SELECT actionledger.create_tool('df_pay', 'df', 'POST /pay', identity => '{id}', input => '{"properties": {"id": {"type": "string"}}}');
SELECT actionledger.grant_tool('df_pay', 'regress_al_service');
CREATE FUNCTION pg_temp.names(text) RETURNS text LANGUAGE sql AS $$
    SELECT 'requested by ' || requested_by || coalesce(', session of ' || replace(session_by, (SELECT rolname FROM pg_roles WHERE oid = 10), '<superuser>'), '')
    FROM actionledger.action a JOIN actionledger.service s USING (service_id) WHERE s.name = 'df' AND identity = $1 $$;

-- Itself; after SET ROLE; as a member that acts under its own name.
SET SESSION AUTHORIZATION regress_al_service;
SELECT created FROM actionledger.perform('df_pay', '{"id": "itself"}');
SET SESSION AUTHORIZATION regress_al_login;
SELECT created FROM actionledger.perform('df_pay', '{"id": "member"}');
SET ROLE regress_al_service;
SELECT created FROM actionledger.perform('df_pay', '{"id": "set role"}');
RESET ROLE;
RESET SESSION AUTHORIZATION;
SET ROLE regress_al_service;
SELECT created FROM actionledger.perform('df_pay', '{"id": "from superuser"}');
RESET ROLE;
SELECT id, pg_temp.names(id) FROM unnest('{itself,member,set role,from superuser}'::text[]) id;

-- Inside a SECURITY DEFINER function it is the function's owner, whoever calls;
-- which is how an application lends one use of a tool without the tool.
SET ROLE regress_al_service;
CREATE FUNCTION test.df_lend(id text) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE p actionledger.performed;
BEGIN
    p := actionledger.perform('df_pay', jsonb_build_object('id', id));
    RETURN p.status || ' as ' || current_user;
END $$;
CREATE FUNCTION test.df_broken() RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM actionledger.perform('df_pay', '{"id": 7}');
    RETURN 'not reached';
EXCEPTION WHEN SQLSTATE 'LG004' THEN
    RETURN 'after an error as ' || current_user;
END $$;
CREATE FUNCTION test.df_look(id text) RETURNS text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT actionledger.result_by_identity('df', id) #>> '{data,status}' $$;
RESET ROLE;
SET SESSION AUTHORIZATION regress_al_stranger;
SELECT test.fails($$SELECT actionledger.perform('df_pay', '{"id": "stranger"}')$$);
SELECT test.df_lend('lent'), current_user;
SELECT test.df_broken(), current_user;
SELECT count(*) FROM actionledger.actions WHERE identity = 'lent'; -- not the stranger's own
SELECT test.fails($$SELECT actionledger.result_by_identity('df', 'lent')$$);
SELECT test.df_look('lent');
-- In a SECURITY INVOKER function it is still the caller.
RESET SESSION AUTHORIZATION;
SET ROLE regress_al_service;
CREATE FUNCTION test.df_invoker(id text) RETURNS bool LANGUAGE sql AS $$ SELECT created FROM actionledger.perform('df_pay', jsonb_build_object('id', id)) $$;
RESET ROLE;
SET SESSION AUTHORIZATION regress_al_stranger;
SELECT test.fails($$SELECT test.df_invoker('invoked')$$);
SET SESSION AUTHORIZATION regress_al_login;
SELECT test.df_invoker('invoked');
RESET SESSION AUTHORIZATION;
SELECT id, pg_temp.names(id) FROM unnest('{lent,invoked}'::text[]) id;

-- An error in the middle leaves everybody who they were.
SET ROLE regress_al_service;
DO $$
BEGIN
    FOR i IN 1 .. 3 LOOP
        BEGIN
            PERFORM actionledger.perform('df_pay', CASE i WHEN 1 THEN '{"id": 7}' WHEN 2 THEN '{"id": ""}' ELSE '{"nope": 1}' END::jsonb);
        EXCEPTION WHEN OTHERS THEN
            RAISE NOTICE '% as %', SQLSTATE, current_user;
        END;
    END LOOP;
    PERFORM actionledger.perform_many('df_pay', '{"{\"id\": 7}"}', options => '{"on_error": "skip"}');
    RAISE NOTICE 'at the end as %', current_user;
END $$;
SELECT nextval('actionledger.action_seq');
RESET ROLE;
DROP FUNCTION test.df_lend(text), test.df_broken(), test.df_look(text), test.df_invoker(text);
DROP OWNED BY regress_al_service;
DROP ROLE regress_al_service, regress_al_login, regress_al_stranger;
