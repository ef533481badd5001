-- What a tool lacks, and what becomes of its actions then.
\a
\t
SET client_min_messages = error;
CREATE ROLE regress_al_owner;
CREATE ROLE regress_al_app;
CREATE ROLE regress_al_admin;
CREATE ROLE regress_al_gone;
GRANT EXECUTE ON FUNCTION actionledger.create_tool TO regress_al_admin;
SELECT actionledger.create_service('rd_keys', 'https://api.example.invalid', '{"idempotency": {"window": "24h"}}');
SELECT actionledger.create_service('rd_none', 'https://api.example.invalid', '{"idempotency": "none"}');
SELECT actionledger.create_service('rd_mute', 'https://api.example.invalid');
CREATE FUNCTION pg_temp.tool(name text, service text, options text DEFAULT '{}', type text DEFAULT 'non_idempotent', identity text DEFAULT 'ready:{id}') RETURNS text LANGUAGE sql AS $$
    SELECT format('%s: %s', name, actionledger.create_tool(name, service, 'POST /pay', type, identity, '{"properties": {"id": {"type": "string"}}}', options::jsonb, replace => true)) $$;
\set lookup '"lookup": {"request": "GET /pay{?id}", "match": "$.data[*] ? (@.key == $_key)"}'
\set owner '"owner": "regress_al_owner"'

-- Each item, missing and there.
SELECT pg_temp.tool('rd_bare', 'rd_mute', identity => NULL);
SELECT pg_temp.tool('rd_constant', 'rd_mute', identity => 'pay');
SELECT pg_temp.tool('rd_named', 'rd_mute');
SELECT pg_temp.tool('rd_run', 'rd_mute', '{"per_run": true}', identity => NULL);
SELECT pg_temp.tool('rd_keyed', 'rd_keys');
SELECT pg_temp.tool('rd_declared_none', 'rd_none');
SELECT pg_temp.tool('rd_own_keys', 'rd_mute', '{"idempotency": {"header": "X-Key"}}');
SELECT pg_temp.tool('rd_owned', 'rd_keys', '{' || :'owner' || '}');
SELECT pg_temp.tool('rd_looks', 'rd_keys', '{' || :'lookup' || '}');
SELECT pg_temp.tool('rd_whole', 'rd_keys', '{' || :'owner' || ', ' || :'lookup' || '}');
SELECT pg_temp.tool('rd_whole_none', 'rd_none', '{' || :'owner' || ', ' || :'lookup' || '}', 'irreversible');
SELECT pg_temp.tool('rd_gone', 'rd_keys', '{"owner": "regress_al_gone", ' || :'lookup' || '}');
SELECT pg_temp.tool('rd_read', 'rd_mute', type => 'read_only', identity => NULL);
SELECT pg_temp.tool('rd_set', 'rd_mute', type => 'idempotent');
SELECT pg_temp.tool('rd_wire', 'rd_mute', type => 'irreversible');
-- An explicit policy decides, whatever is missing.
SELECT pg_temp.tool('rd_never', 'rd_mute', '{"approval": "never"}');
SELECT pg_temp.tool('rd_always', 'rd_keys', '{"approval": "always", ' || :'owner' || ', ' || :'lookup' || '}');
SELECT pg_temp.tool('rd_if', 'rd_keys', '{"approval": {"if": "$.id == \"big\""}}');
SELECT tool, action_type, ready, identity, idempotency, timeouts, lookup, retries, owner, approval FROM actionledger.readiness WHERE tool LIKE 'rd\_%' ORDER BY tool;
SELECT tool, "do" FROM actionledger.readiness WHERE tool IN ('rd_bare', 'rd_named', 'rd_constant', 'rd_keyed', 'rd_owned', 'rd_whole') ORDER BY tool;

-- What waits, and why.
SELECT count(*) FROM actionledger.readiness t, LATERAL actionledger.perform(t.tool, '{"id": "1"}', 'rd:' || t.tool, 'run') p WHERE t.tool LIKE 'rd\_%';
SELECT split_part(a.identity, ':', 2) AS tool, a.next_step, a.approval_reason FROM actionledger.action a WHERE a.identity LIKE 'rd:%' ORDER BY 1;

-- Mending it helps what comes after, and not what waits.
SELECT actionledger.alter_tool('rd_owned', ('{' || :'lookup' || '}')::jsonb);
SELECT status, next_step FROM actionledger.perform('rd_owned', '{"id": "2"}');
SELECT next_step FROM actionledger.action WHERE identity = 'rd:rd_owned';
-- An owner that is dropped is none.
SELECT status, next_step FROM actionledger.perform('rd_gone', '{"id": "3"}');
DROP ROLE regress_al_gone;
SELECT status, next_step FROM actionledger.perform('rd_gone', '{"id": "4"}');
SELECT ready, owner, approval FROM actionledger.readiness WHERE tool = 'rd_gone';
-- A service that takes its declaration back says which tools it leaves unready.
SELECT actionledger.alter_service('rd_none', '{"breaker": {"failures": 7}}');
SELECT actionledger.alter_service('rd_none', '{"idempotency": null}');
SELECT actionledger.create_service('rd_none', 'https://api.example.invalid', '{"idempotency": "none"}', replace => true);

-- Who sees it: who may perform the tool or looks after it.
SELECT actionledger.grant_tool('rd_whole', 'regress_al_app');
SET ROLE regress_al_app;
SELECT tool, ready FROM actionledger.readiness WHERE tool LIKE 'rd\_%' ORDER BY 1;
SELECT tool_id AS nothing FROM (SELECT 1 AS tool_id) x, actionledger._readiness(x.tool_id) r WHERE r.ready IS NOT NULL;
SET ROLE regress_al_owner;
SELECT tool, ready FROM actionledger.readiness WHERE tool LIKE 'rd\_%' ORDER BY 1;
SET ROLE regress_al_admin;
SELECT count(*) > 15 AS all_of_them FROM actionledger.readiness WHERE tool LIKE 'rd\_%';
RESET ROLE;
SELECT count(*) FROM actionledger._readiness(0) r WHERE r.ready IS NOT NULL;

SELECT count(actionledger.drop_tool(tool, true)) > 15 AS dropped FROM actionledger.tools WHERE tool LIKE 'rd\_%';
DROP OWNED BY regress_al_owner, regress_al_app, regress_al_admin;
DROP ROLE regress_al_owner, regress_al_app, regress_al_admin;
