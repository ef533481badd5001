-- Replacing, altering and dropping what actions depend on: what was prepared
-- stays as it was frozen, or is blocked; it is never sent otherwise.
\a
\t
SELECT actionledger.create_service('ch', 'https://api.example.invalid', '{"headers": {"X-Version": "1"}}');
SELECT actionledger.create_tool('ch_pay', 'ch', 'POST /pay/{id}', identity => 'pay:{id}',
    input => '{"required": ["id"], "properties": {"id": {"type": "string"}, "amount": {"type": "integer"}}}', options => '{"summary": "pay {id}"}');
SELECT identity, created FROM actionledger.perform('ch_pay', '{"id": "A", "amount": 1}');
CREATE VIEW pg_temp.frozen AS
    SELECT identity, status, next_step, method, url, replace(headers, E'\n', ' | ') AS headers, convert_from(body, 'UTF8') AS body, summary,
           idempotency_key, error_code
    FROM actionledger.action WHERE identity IN ('pay:A', 'pay:B', 'pay:C', 'move:1') ORDER BY identity;
SELECT * FROM pg_temp.frozen;

-- Altered: the action that is there keeps its request, the next one has the new.
SELECT actionledger.alter_service('ch', '{"headers": {"X-Version": "2"}, "idempotency": {"header": "X-Request-Id"}}');
SELECT actionledger.alter_tool('ch_pay', '{"summary": "pay out {id}", "json": {"amount": "{amount}", "new": true}}');
SELECT identity, created FROM actionledger.perform('ch_pay', '{"id": "B", "amount": 1}');
SELECT * FROM pg_temp.frozen;

-- The same request is the tool and the arguments, never rendered bytes: after
-- all this a repeat is still one, and numbers that are equal are the same.
SELECT identity, created FROM actionledger.perform('ch_pay', '{"amount": 1.0, "id": "A"}');

-- A merge patch removes by null, is checked as a whole, and leaves what it does not name.
SELECT actionledger.alter_tool('ch_pay', '{"json": null, "timeout": "5s"}');
SELECT options FROM actionledger.tools WHERE tool = 'ch_pay';
SELECT test.fails($$SELECT actionledger.alter_tool('ch_pay', '{"connect_timeout": "6s"}')$$);
SELECT test.fails($$SELECT actionledger.alter_tool('ch_pay', '[1]')$$);
SELECT test.fails($$SELECT actionledger.alter_tool('ch_none', '{}')$$);
SELECT options FROM actionledger.tools WHERE tool = 'ch_pay';

-- A service that changes is checked against its tools.
SELECT actionledger.create_tool('ch_key', 'ch', 'POST /k', input => '{"properties": {"k": {"type": "string"}}}');
SELECT test.fails($$SELECT actionledger.alter_service('ch', '{"idempotency": {"header": null, "body": "k"}}')$$);
SELECT test.fails($$SELECT actionledger.create_service('ch', 'https://api.example.invalid', '{"idempotency": {"body": "k"}}', true)$$);
SELECT options FROM actionledger.services WHERE name = 'ch';

-- Replaced: the same; but what was prepared for a POST is no PUT, and not to be judged as one.
SELECT test.fails($$SELECT actionledger.create_tool('ch_pay', 'ch', 'PUT /pay/{id}', input => '{"properties": {"id": {"type": "string"}}}')$$);
SELECT test.fails($$SELECT actionledger.create_tool('ch_pay', 'ch', 'PUT /pay/{id}', 'idempotent', 'pay:{id}', '{"required": ["id"], "properties": {"id": {"type": "string"}, "amount": {"type": "integer"}}}', replace => true)$$);
SELECT actionledger.create_tool('ch_pay', 'ch', 'PUT /pay/{id}', 'non_idempotent', 'pay:{id}', '{"required": ["id"], "properties": {"id": {"type": "string"}, "amount": {"type": "integer"}}}', replace => true);
SELECT identity, created FROM actionledger.perform('ch_pay', '{"id": "A", "amount": 1}');
SELECT identity, created FROM actionledger.perform('ch_pay', '{"id": "C", "amount": 1}');
SELECT * FROM pg_temp.frozen;

-- A tool with live actions is not dropped.
SELECT test.fails($$SELECT actionledger.drop_tool('ch_pay')$$);
SELECT test.fails($$SELECT actionledger.drop_service('ch')$$);
SELECT test.fails($$SELECT actionledger.drop_service('ch', true)$$);
SELECT test.fails($$SELECT actionledger.drop_tool('ch_none')$$);

-- By force it is, and what was not sent yet is blocked: nobody sends it, and it shows.
SELECT actionledger.drop_tool('ch_pay', force => true);
SELECT identity, status, next_step, error_code FROM pg_temp.frozen;
SELECT identity, next_step, waiting_for, next_at FROM actionledger.pending WHERE identity LIKE 'pay:%' ORDER BY identity;
SELECT what, timeline.status, by_whom = current_user AS by_me, detail FROM actionledger.timeline JOIN actionledger.actions USING (action_id)
WHERE identity = 'pay:A' ORDER BY seq;
SELECT actionledger.result_by_identity('ch', 'pay:A') #- '{data,action_id}' #- '{meta,as_of}' #- '{meta,observation}';
SELECT test.says($$SELECT actionledger.result_by_identity('ch', 'pay:A') -> 'meta' ->> 'observation'$$);
SELECT test.fails($$SELECT actionledger.perform('ch_pay', '{"id": "D"}')$$);

-- A new tool of the same name is another one; the identities of the old stay taken.
SELECT actionledger.create_tool('ch_pay', 'ch', 'POST /v2/pay/{id}', identity => 'pay:{id}', input => '{"required": ["id"], "properties": {"id": {"type": "string"}, "amount": {"type": "integer"}}}');
SELECT test.fails($$SELECT actionledger.perform('ch_pay', '{"id": "A", "amount": 1}')$$);

-- What is blocked can be cancelled, or decided.
SELECT c.status, c.next_step, replace(message, current_user, '<me>') AS message FROM actionledger.actions a, actionledger.cancel(a.action_id, 'no longer wanted') c WHERE identity = 'pay:A';
SELECT c.status, c.next_step, replace(message, current_user, '<me>') AS message FROM actionledger.actions a, actionledger.resolve(a.action_id, 'failed', NULL, 'never sent', 'prepared') c WHERE identity = 'pay:B';
SELECT c.status, c.next_step, replace(message, current_user, '<me>') AS message FROM actionledger.actions a, actionledger.resolve(a.action_id, 'confirmed', '{"external_ref": "P-1"}', 'paid by hand', 'prepared') c WHERE identity = 'pay:C';
SELECT identity, status, next_step, error_code FROM pg_temp.frozen;

-- A service stays while actions refer to it, also when the tool has moved on:
-- with it would go the memory of what was performed, and live actions would be
-- sent by nobody.  A tool that has actions moves on by a new one of its name only.
SELECT actionledger.create_service('ch_old', 'https://old.example.invalid');
SELECT actionledger.create_tool('ch_move', 'ch_old', 'POST /x', identity => 'move:{id}', input => '{"properties": {"id": {"type": "string"}}}');
SELECT identity, created FROM actionledger.perform('ch_move', '{"id": "1"}');
SELECT test.fails($$SELECT actionledger.create_tool('ch_move', 'ch', 'POST /x', replace => true)$$);
SELECT actionledger.drop_tool('ch_move', force => true);
SELECT actionledger.create_tool('ch_move', 'ch', 'POST /x', identity => 'move:{id}', input => '{"properties": {"id": {"type": "string"}}}');
SELECT test.fails($$SELECT actionledger.drop_service('ch_old')$$);
SELECT identity, status, next_step, url FROM pg_temp.frozen WHERE identity = 'move:1';

-- A service whose tools were never performed goes, when they have gone.
SELECT actionledger.create_service('ch_new', 'https://new.example.invalid');
SELECT actionledger.create_tool('ch_never', 'ch_new', 'POST /x');
SELECT test.fails($$SELECT actionledger.drop_service('ch_new')$$);
SELECT actionledger.drop_tool('ch_never');
SELECT actionledger.drop_service('ch_new');

-- A definition that is rolled back leaves nothing behind, in this session either.
BEGIN;
SELECT actionledger.create_tool('ch_brief', 'ch', 'POST /x');
SELECT created FROM actionledger.perform('ch_brief', '{}');
ROLLBACK;
SELECT test.fails($$SELECT actionledger.perform('ch_brief', '{}')$$);
BEGIN;
SAVEPOINT s;
SELECT actionledger.alter_tool('ch_move', '{"summary": "rolled back"}');
ROLLBACK TO s;
SELECT created FROM actionledger.perform('ch_move', '{"id": "2"}');
SELECT summary FROM actionledger.actions WHERE identity = 'move:2';
ROLLBACK;
