-- limits.queued: a full queue refuses what is new, and nothing else.
\a
\t
SELECT actionledger.create_service('qu', 'https://api.example.invalid', '{"limits": {"queued": 3}}');
SELECT actionledger.create_service('qu_free', 'https://api.example.invalid');
SELECT actionledger.create_tool('qu_pay', 'qu', 'POST /pay', identity => 'pay:{id}', input => '{"required": ["id"], "properties": {"id": {"type": "string"}}}');
SELECT actionledger.create_tool('qu_other', 'qu', 'POST /other', identity => 'other:{id}', input => '{"required": ["id"], "properties": {"id": {"type": "string"}}}');
SELECT actionledger.create_tool('qu_away', 'qu_free', 'POST /pay', identity => 'pay:{id}', input => '{"required": ["id"], "properties": {"id": {"type": "string"}}}');
SELECT created FROM actionledger.perform('qu_pay', '{"id": "a"}');
SELECT created FROM actionledger.perform('qu_other', '{"id": "b"}', options => '{"priority": 1}');
SELECT created FROM actionledger.perform('qu_pay', '{"id": "c"}', options => '{"priority": -1, "not_before": "2099-01-01T00:00:00Z"}');
SELECT test.fails($$SELECT actionledger.perform('qu_pay', '{"id": "d"}')$$);
SELECT test.fails($$SELECT actionledger.perform('qu_other', '{"id": "d"}')$$);
-- What is there is told, another service goes on.
SELECT created, status FROM actionledger.perform('qu_pay', '{"id": "a"}');
SELECT test.fails($$SELECT actionledger.perform('qu_pay', '{"id": "a"}', identity => 'other:b')$$);
SELECT created FROM actionledger.perform('qu_away', '{"id": "a"}');
-- One place is free: of three at once, one is recorded.
SELECT status FROM actionledger.cancel((SELECT action_id FROM actionledger.actions WHERE identity = 'pay:a' AND tool = 'qu_pay'));
SELECT item, identity, status, created, error ->> 'code' AS error
FROM actionledger.perform_many('qu_pay', ARRAY['{"id": "f"}', '{"id": "e"}', '{"id": "g"}', '{"id": "c"}']::jsonb[], options => '{"on_error": "skip"}');
SELECT test.fails($$SELECT * FROM actionledger.perform_many('qu_pay', ARRAY['{"id": "h"}']::jsonb[])$$);
-- What waits for a person takes no place.
UPDATE actionledger.due SET next_at = 'infinity' WHERE action_id = (SELECT action_id FROM actionledger.actions WHERE identity = 'other:b');
UPDATE actionledger.action SET next_step = 'blocked' WHERE identity = 'other:b';
SELECT created FROM actionledger.perform('qu_pay', '{"id": "i"}');
SELECT test.fails($$SELECT actionledger.perform('qu_pay', '{"id": "j"}')$$);
-- A limit that is raised holds at once, and none is none.
SELECT actionledger.alter_service('qu', '{"limits": {"queued": 4}}');
SELECT created FROM actionledger.perform('qu_pay', '{"id": "j"}');
SELECT test.fails($$SELECT actionledger.perform('qu_pay', '{"id": "k"}')$$);
SELECT actionledger.alter_service('qu', '{"limits": {"queued": null}}');
SELECT created FROM actionledger.perform('qu_pay', '{"id": "k"}');
SELECT tool, count(*) FROM actionledger.actions WHERE tool LIKE 'qu\_%' GROUP BY 1 ORDER BY 1;
