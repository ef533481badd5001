-- Many actions at once.
\a
\t
SELECT actionledger.create_service('mn', 'https://api.example.invalid');
SELECT actionledger.create_tool('mn_pay', 'mn', 'POST /pay', identity => 'pay:{id}', input => '{"required": ["id"], "properties": {"id": {"type": "string"}, "amount": {"type": "integer"}}}');
CREATE FUNCTION pg_temp.many(args text, identities text[] DEFAULT NULL, options jsonb DEFAULT '{}') RETURNS SETOF text LANGUAGE sql AS $$
    SELECT concat_ws(' ', item, identity, status, created, test.plain(error ->> 'code' || ': ' || (error ->> 'message') || ' - ' || (error ->> 'detail') || ' - ' || (error ->> 'hint')))
    FROM actionledger.perform_many('mn_pay', ARRAY(SELECT jsonb_array_elements(args::jsonb)), identities, options) $$;

-- In the order of the input, whatever the order of the identities.
SELECT pg_temp.many('[{"id": "C"}, {"id": "A"}, {"id": "B"}]');
SELECT identity FROM actionledger.actions WHERE tool = 'mn_pay' ORDER BY action_id; -- recorded in theirs
-- A repeat among them, and of one that was there.
SELECT pg_temp.many('[{"id": "D"}, {"id": "A"}, {"id": "D"}]');
SELECT pg_temp.many('[]');
SELECT pg_temp.many('[{"id": "E"}, {"id": "F"}]', '{one,NULL}');
SELECT count(*) FROM actionledger.actions WHERE tool = 'mn_pay';

-- By default the first error is raised, says which item it is about, and leaves none of the others.
SELECT count(*) FROM actionledger.perform_many('mn_pay', '{"{\"id\": \"G\"}","{\"id\": 7}"}');
SELECT test.fails($$SELECT actionledger.perform_many('mn_pay', '{"{\"id\": \"G\"}","{\"id\": \"A\", \"amount\": 1}"}')$$);
SELECT test.fails($$SELECT actionledger.perform_many('mn_pay', ARRAY['{"id": "G"}', NULL]::jsonb[])$$);
SELECT test.fails($$SELECT actionledger.perform_many('mn_pay', ARRAY['{"id": "G"}']::jsonb[], '{a,b}')$$);
SELECT test.fails($$SELECT actionledger.perform_many('mn_none', '{}')$$);
SELECT test.fails($$SELECT actionledger.perform_many(NULL, '{}')$$);
SELECT test.fails($$SELECT actionledger.perform_many('mn_pay', NULL)$$);
SELECT test.fails($$SELECT actionledger.perform_many('mn_pay', '{}', options => '{"on_error": "ignore"}')$$);
SELECT test.fails($$SELECT actionledger.perform_many('mn_pay', '{}', options => '{"onerror": "skip"}')$$);
SELECT count(*) FROM actionledger.actions WHERE identity = 'pay:G';

-- With skip the others are recorded, and each error is in its row.
SELECT pg_temp.many('[{"id": "H"}, {"id": 7}, {"idd": "x"}, null, {"id": "A", "amount": 1}, {"id": ""}, {"id": "I", "amount": 1}, {"id": "I", "amount": 2}]', options => '{"on_error": "skip"}');
SELECT pg_temp.many('[{"id": "J"}]', ARRAY[E'x\ty'], '{"on_error": "skip"}');
SELECT identity FROM actionledger.actions WHERE tool = 'mn_pay' AND identity ~ '[G-J]$' ORDER BY identity;
BEGIN;
SELECT pg_temp.many('[{"id": "K"}, {"id": 7}]', options => '{"on_error": "skip", "actor": "agent", "meta": [1], "not_before": "2099-01-01T00:00:00Z"}');
SELECT identity, actor, meta, next_at = '2099-01-01T00:00:00Z' FROM actionledger.action JOIN actionledger.due USING (action_id) WHERE identity = 'pay:K';
ROLLBACK;
SELECT current_user = session_user AS still_me;

-- A repeat of one that failed is told, and the rows say which.
SELECT c.status FROM actionledger.actions a, actionledger.cancel(a.action_id) c WHERE identity = 'pay:H';
SELECT pg_temp.many('[{"id": "H"}, {"id": "L"}]');

-- A batch of some size.
SELECT count(*), count(*) FILTER (WHERE created), min(item), max(item)
FROM actionledger.perform_many('mn_pay', ARRAY(SELECT jsonb_build_object('id', 'bulk' || i) FROM generate_series(1, 2000) i));
SELECT count(DISTINCT idempotency_key) FROM actionledger.actions WHERE identity LIKE 'pay:bulk%';
