-- Recording an action: what is returned and what is frozen.
\a
\t
SELECT actionledger.create_service('pf', 'https://api.example.invalid/v1', '{"auth": {"bearer": "{secret:pf_key}"}, "headers": {"X-Version": "7"},
    "idempotency": {"window": "24h"}}');
CREATE ROLE regress_al_owner;
SELECT actionledger.create_tool('pf_refund', 'pf', 'POST /refunds/{payment}{?expand}', identity => 'refund:{refund_id}',
    input => '{"required": ["refund_id", "payment", "amount"], "properties": {"refund_id": {"type": "string"}, "payment": {"type": "string", "pattern": "^pi_"},
        "amount": {"type": "integer", "minimum": 1}, "expand": {"type": "string"}, "note": {"type": "string"}}}',
    options => '{"summary": "refund {amount} on {payment}", "target": "{payment}", "owner": "regress_al_owner", "headers": {"X-Ref": "{refund_id}"},
        "form": {"amount": "{amount}", "metadata": {"key": "{_key}", "identity": "{_identity}", "run": "{_run_id}"}, "note": "{note}"}}');

-- The row.
\t
\a
SELECT action_id > 0 AS action_id, identity, status, created, next_step
FROM actionledger.perform('pf_refund', '{"refund_id": "R-1", "payment": "pi_3/X", "amount": 425000, "expand": "a&b"}', run_id => 'run 7', step => 3);
\a
\t
SELECT test.says($$SELECT observation FROM actionledger.perform('pf_refund', '{"refund_id": "R-2", "payment": "pi_4", "amount": 1}')$$);

-- What is kept: the request as it will be sent, secrets by reference only.
\x
SELECT status, next_step, known, attempts, sends, idempotency_key, identity, requested_by = current_user AS requested_by_me, session_by, actor, method, url,
       headers, convert_from(body, 'UTF8') AS body, args, run_id, step, summary, target, owner, meta, expires_at, finished_at, error_code,
       encode(args_hash, 'hex') AS args_hash
FROM actionledger.action WHERE identity = 'refund:R-1';
\x
SELECT encode(sha256(convert_to(actionledger._canonical('{"refund_id": "R-1", "payment": "pi_3/X", "amount": 425000, "expand": "a&b"}'), 'UTF8')), 'hex') AS same_hash;
-- It is due now, and once.
SELECT d.next_at <= clock_timestamp() AS due, d.priority FROM actionledger.due d JOIN actionledger.action USING (action_id) WHERE identity = 'refund:R-1';

-- The key: UUIDv5 of (service, 0x1F, identity) in the ledger's namespace, which
-- the first test has set; computed elsewhere.
SELECT idempotency_key = '9d0f7d79-6822-54fe-bff6-f5a5d845ab9c' AS key_is_right FROM actionledger.action WHERE identity = 'refund:R-1';

-- Without a body template the arguments that are not in the URL are sent, canonically.
SELECT actionledger.create_tool('pf_args', 'pf', 'PUT /things/{id}', 'idempotent', input => '{"properties": {"id": {"type": "integer"}, "z": {}, "a": {}}}');
SELECT identity = 'pf_args:' || encode(sha256(convert_to('{"a":[1,{"b":null}],"id":5,"z":1.5}', 'UTF8')), 'hex') AS hash_identity
FROM actionledger.perform('pf_args', '{"z": 1.50, "id": 5, "a": [1, {"b": null}]}');
SELECT method, url, convert_from(body, 'UTF8') FROM actionledger.action JOIN actionledger.tool t USING (tool_id) WHERE t.name = 'pf_args';
-- A template keeps the type of a value that stands alone, and leaves out what is missing.
SELECT actionledger.create_tool('pf_json', 'pf', 'POST /json', input => '{"properties": {"n": {"type": "number"}, "s": {"type": "string"}, "o": {"type": "object"}}}',
    options => '{"json": {"n": "{n}", "text": "n={n} { other }", "s": "{s}", "list": ["{o}", "{s}"], "fixed": true}}');
SELECT created FROM actionledger.perform('pf_json', '{"n": 1e3, "o": {"x": [1]}}');
SELECT convert_from(body, 'UTF8') FROM actionledger.action JOIN actionledger.tool t USING (tool_id) WHERE t.name = 'pf_json';
-- A request without a body has none.
SELECT actionledger.create_tool('pf_del', 'pf', 'DELETE /things/{id}', 'idempotent', input => '{"required": ["id"], "properties": {"id": {"type": "string"}}}');
SELECT created FROM actionledger.perform('pf_del', '{"id": "a/b c?d"}');
SELECT url, body IS NULL AS no_body, headers FROM actionledger.action JOIN actionledger.tool t USING (tool_id) WHERE t.name = 'pf_del';

-- Options.
SELECT created FROM actionledger.perform('pf_refund', '{"refund_id": "R-3", "payment": "pi_5", "amount": 1}',
    options => '{"not_before": "2099-01-01T00:00:00Z", "expires_at": "2099-02-01T00:00:00Z", "actor": "agent 7", "meta": {"tokens": 120}}');
SELECT next_at = '2099-01-01T00:00:00Z' AS not_before, expires_at = '2099-02-01T00:00:00Z' AS expires_at, waiting_for FROM actionledger.pending WHERE identity = 'refund:R-3';
SELECT actor, meta FROM actionledger.action WHERE identity = 'refund:R-3';
SELECT actionledger.alter_tool('pf_refund', '{"expires_after": "2h"}');
SELECT created FROM actionledger.perform('pf_refund', '{"refund_id": "R-4", "payment": "pi_5", "amount": 1}');
SELECT expires_at - created_at FROM actionledger.action WHERE identity = 'refund:R-4';

SELECT test.says($$SELECT observation FROM actionledger.perform('pf_refund', '{"refund_id": "R-12", "payment": "pi_4", "amount": 1}', options => '{"not_before": "2099-01-01T00:00:00Z"}')$$);

-- A repeat is loud, in words that say what the first one is.
\t
\a
SELECT identity, status, created, next_step FROM actionledger.perform('pf_refund', '{"amount": 1, "payment": "pi_4", "refund_id": "R-2"}');
\a
\t
SELECT test.says($$SELECT observation FROM actionledger.perform('pf_refund', '{"amount": 1, "payment": "pi_4", "refund_id": "R-2"}')$$);
SELECT count(*) FROM actionledger.action WHERE identity = 'refund:R-2';
-- When the first one was cancelled or failed, a warning says so.
SELECT c.message FROM actionledger.actions a, actionledger.cancel(a.action_id) c WHERE identity = 'refund:R-2';
UPDATE actionledger.action SET action_id = -30, created_at = '2026-01-01 00:00:00+00' WHERE identity = 'refund:R-2';
SELECT status, created, next_step FROM actionledger.perform('pf_refund', '{"amount": 1, "payment": "pi_4", "refund_id": "R-2"}') \gset
\echo :status :created :next_step
SET client_min_messages = error;
SELECT test.says($$SELECT observation FROM actionledger.perform('pf_refund', '{"amount": 1, "payment": "pi_4", "refund_id": "R-2"}')$$);
RESET client_min_messages;

-- In this transaction too.
BEGIN;
SELECT created FROM actionledger.perform('pf_refund', '{"refund_id": "R-5", "payment": "pi_5", "amount": 1}');
SELECT created FROM actionledger.perform('pf_refund', '{"refund_id": "R-5", "payment": "pi_5", "amount": 1}');
ROLLBACK;
SELECT count(*) FROM actionledger.action WHERE identity = 'refund:R-5';

-- What the caller rolls back was never there, and the transaction goes on.
BEGIN;
SAVEPOINT s;
SELECT created FROM actionledger.perform('pf_refund', '{"refund_id": "R-6", "payment": "pi_5", "amount": 1}');
ROLLBACK TO s;
SELECT count(*) FROM actionledger.action WHERE identity = 'refund:R-6';
SELECT created FROM actionledger.perform('pf_refund', '{"refund_id": "R-6", "payment": "pi_5", "amount": 2}');
SAVEPOINT t;
SELECT created FROM actionledger.perform('pf_refund', '{"refund_id": "R-7", "payment": "bad", "amount": 2}');
ROLLBACK TO t;
SELECT created FROM actionledger.perform('pf_refund', '{"refund_id": "R-7", "payment": "pi_6", "amount": 2}');
COMMIT;
SELECT identity, args ->> 'amount' FROM actionledger.action WHERE identity IN ('refund:R-6', 'refund:R-7') ORDER BY 1;

-- Prepared transactions: nothing is due before they are committed.
BEGIN;
SELECT created FROM actionledger.perform('pf_refund', '{"refund_id": "R-8", "payment": "pi_5", "amount": 1}');
PREPARE TRANSACTION 'regress_al';
SELECT count(*) FROM actionledger.actions WHERE identity = 'refund:R-8';
COMMIT PREPARED 'regress_al';
SELECT count(*) FROM actionledger.actions WHERE identity = 'refund:R-8';

-- A commit that carries an action is raised to be durable; the session's setting stays.
SET synchronous_commit = off;
BEGIN;
SELECT created FROM actionledger.perform('pf_refund', '{"refund_id": "R-9", "payment": "pi_5", "amount": 1}');
COMMIT;
SHOW synchronous_commit;
RESET synchronous_commit;

-- From PL/pgSQL and from a trigger, in the transaction of the row that asks.
CREATE TABLE pf_order (id text PRIMARY KEY, action_id bigint);
CREATE FUNCTION pf_ask() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    SELECT p.action_id INTO NEW.action_id FROM actionledger.perform('pf_refund',
        jsonb_build_object('refund_id', NEW.id, 'payment', 'pi_' || NEW.id, 'amount', 10)) p;
    RETURN NEW;
END $$;
CREATE TRIGGER pf_ask BEFORE INSERT ON pf_order FOR EACH ROW EXECUTE FUNCTION pf_ask();
INSERT INTO pf_order VALUES ('T-1'), ('T-2');
SELECT id, identity, summary FROM pf_order JOIN actionledger.actions USING (action_id) ORDER BY id;
DO $$
DECLARE p actionledger.performed;
BEGIN
    BEGIN
        INSERT INTO pf_order VALUES ('T-3');
        RAISE EXCEPTION 'changed my mind';
    EXCEPTION WHEN raise_exception THEN
        RAISE NOTICE '%', SQLERRM;
    END;
    p := actionledger.perform('pf_refund', '{"refund_id": "T-4", "payment": "pi_5", "amount": 1}');
    RAISE NOTICE '% % %', p.identity, p.status, p.created;
END $$;
SELECT identity FROM actionledger.actions WHERE identity LIKE 'refund:T-%' ORDER BY 1;
DROP TABLE pf_order;

-- A read-only transaction cannot record.
BEGIN READ ONLY;
SELECT created FROM actionledger.perform('pf_refund', '{"refund_id": "R-10", "payment": "pi_5", "amount": 1}');
ROLLBACK;

DROP ROLE regress_al_owner;
