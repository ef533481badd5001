-- Outside executors: what their tools may say, and what is refused before anything is claimed.
\a
\t
SELECT actionledger.create_service('ex', 'https://courier.example.invalid', '{"idempotency": {"body": "key", "window": "24h"}}');
CREATE FUNCTION pg_temp.tool(request text, options jsonb) RETURNS text LANGUAGE sql AS $$
    SELECT actionledger.create_tool('ex_fax', 'ex', request, identity => '{id}', replace => true,
        input => '{"required": ["id"], "properties": {"id": {"type": "string"}, "key": {"type": "string"}}}', options => options || '{"transport": "external"}') $$;
CREATE FUNCTION pg_temp.refused(request text, options jsonb) RETURNS text LANGUAGE sql AS $$ SELECT test.fails(format('SELECT pg_temp.tool(%L, %L)', request, options)) $$;
SELECT pg_temp.refused('fax it', '{"json": {"id": "{id}"}}');
SELECT pg_temp.refused('fax it', '{"form": {"id": "{id}"}}');
SELECT pg_temp.refused('fax it', '{"headers": {"X-Id": "{id}"}}');
SELECT pg_temp.refused('fax it', '{"connect_timeout": "1s"}');
SELECT pg_temp.refused('', '{}');
SELECT pg_temp.refused(E'fax\nit', '{}');
SELECT test.fails($$SELECT actionledger.create_tool('ex_no', 'ex', 'POST /x', options => '{"transport": "pigeon"}')$$);
-- The key has its place at the destination, which the executor sees to.
SELECT pg_temp.tool('fax it to {nobody}', '{"timeout": "10s", "owner": "pg_monitor", "summary": "fax {id}"}');
SELECT request, options FROM actionledger.tools WHERE tool = 'ex_fax';
SELECT action_id AS id FROM actionledger.perform('ex_fax', '{"id": "1", "key": "x"}') \gset
SELECT method, url, headers = '' AS no_headers, body IS NULL AS no_body, key_place FROM actionledger.action WHERE action_id = :id;
SELECT waiting_for, next_step FROM actionledger.pending WHERE action_id = :id;
-- A repeat speaks of claims too, also one that would be refused if it were the first.
SELECT actionledger.create_tool('ex_hand', 'ex', 'carry it', identity => 'hand {id}', input => '{"properties": {"id": {"type": "string"}, "key": {"type": "string"}}}', options => '{"transport": "external", "approval": "never", "summary": "carry {id}"}');
SELECT created FROM actionledger.perform('ex_hand', '{"id": "1", "key": "x"}');
SELECT created, test.plain(observation) FROM actionledger.perform('ex_hand', '{"id": "1", "key": "x"}', options => '{"expires_at": "2001-01-01T00:00:00Z"}');
-- While there are live ones, the transport stays.
SELECT test.fails($$SELECT actionledger.create_tool('ex_fax', 'ex', 'POST /fax', replace => true)$$);
-- Nothing is claimed that may not be.
SELECT test.fails($$SELECT * FROM actionledger.claim('zzzzzzzz')$$);
SELECT actionledger.create_tool('ex_http', 'ex', 'POST /fax', input => '{"properties": {"id": {"type": "string"}}}');
SELECT test.fails($$SELECT * FROM actionledger.claim('ex_http')$$);
SELECT test.fails($$SELECT * FROM actionledger.claim('ex_fax', 0)$$);
SELECT test.fails($$SELECT * FROM actionledger.claim('ex_fax', 1001)$$);
SELECT test.fails($$SELECT * FROM actionledger.claim('ex_fax', 1, '11s')$$);
SELECT test.fails($$SELECT * FROM actionledger.claim('ex_fax', 1, '0s')$$);
-- This server runs without fsync, so that a claim would not survive a crash.
SELECT test.fails($$SELECT * FROM actionledger.claim('ex_fax')$$);
SELECT test.fails(format('SELECT * FROM actionledger.heartbeat(%s, 7)', :id)) LIKE 'LG017: the claim of action <id> with token 7 has ended%Nobody has claimed this action with it.%' AS refused;
SELECT test.fails($$SELECT * FROM actionledger.heartbeat(0, 7)$$);
SELECT test.fails($$SELECT * FROM actionledger.heartbeat(NULL, NULL)$$);
CREATE ROLE regress_al_executor;
SET ROLE regress_al_executor;
SELECT * FROM actionledger.claim('ex_fax');
SELECT * FROM actionledger.heartbeat(1, 1);
SELECT * FROM actionledger.reconcile();
RESET ROLE;
GRANT EXECUTE ON FUNCTION actionledger.claim TO regress_al_executor;
SET ROLE regress_al_executor;
SELECT test.fails($$SELECT * FROM actionledger.claim('ex_fax')$$);
RESET ROLE;
DROP OWNED BY regress_al_executor;
DROP ROLE regress_al_executor;
-- What is there for a scheduler; nothing of it here.
SELECT what FROM actionledger.reconcile();
SELECT status FROM actionledger.cancel(:id);
SELECT pg_temp.tool('fax it', '{}');
