-- The identity of an action: explicit, from the template, or a hash; unique at
-- its service; and the key that follows from it.
\a
\t
SELECT actionledger.create_service('id', 'https://api.example.invalid');
SELECT actionledger.create_service('id2', 'https://api.example.invalid');
SELECT actionledger.create_tool('id_templ', 'id', 'POST /a', identity => 'a:{x}:{n}:{b}', input => '{"properties": {"x": {"type": "string"}, "n": {"type": "number"}, "b": {"type": "boolean"}, "o": {}}}');
SELECT actionledger.create_tool('id_run', 'id', 'POST /a', identity => 'run:{_run_id}:{x}', input => '{"properties": {"x": {}}}');
SELECT actionledger.create_tool('id_hash', 'id', 'POST /b', input => '{"properties": {"x": {}, "y": {}}}');
SELECT actionledger.create_tool('id_other', 'id2', 'POST /b', input => '{"properties": {"x": {}}}');

-- Explicit before template before hash.
SELECT identity FROM actionledger.perform('id_templ', '{"x": "q", "n": 1.50, "b": true}');
SELECT identity FROM actionledger.perform('id_templ', '{"x": "q", "n": 1.50, "b": true}', identity => 'mine');
SELECT identity FROM actionledger.perform('id_run', '{"x": 7}', run_id => 'r1');
SELECT test.plain(identity) FROM actionledger.perform('id_hash', '{"y": 1, "x": 2}');
SELECT identity FROM actionledger.perform('id_hash', '{"x": 1}', 'Ünïcode – ok');

-- A hash is of the arguments' meaning: order and spelling do not count.
SELECT created FROM actionledger.perform('id_hash', '{"x": 2.0, "y": 1e0}');
SELECT created FROM actionledger.perform('id_hash', '{"x": 2.1, "y": 1}');

-- It is SHA-256 of the arguments as RFC 8785 has them, after the name of the tool.
SELECT identity = 'id_hash:' || encode(sha256(convert_to('{"x":-0.5,"y":[1e+30,"é\u000f\n€",{"A":true,"a":null}]}', 'UTF8')), 'hex') AS canonical
FROM actionledger.perform('id_hash', '{"y": [1000000000000000000000000000000, "\u00e9\u000F\u000a\u20ac", {"a": null, "A": true}], "x": -0.50}');

-- Unique at a service, over its tools; free at another service, with another key.
SELECT test.fails($$SELECT actionledger.perform('id_hash', '{"x": 1}', 'mine')$$);
SELECT created FROM actionledger.perform('id_other', '{"x": 1}', 'mine');
SELECT count(DISTINCT idempotency_key) FROM actionledger.actions WHERE identity = 'mine';
-- Other arguments under the same identity are an error, here as in a later transaction.
SELECT test.fails($$SELECT actionledger.perform('id_templ', '{"x": "q", "n": 2, "b": true}', identity => 'mine')$$);
SELECT test.fails($$SELECT actionledger.perform('id_templ', '{"x": "q", "n": 1.5, "b": true, "o": null}')$$);

-- An identity that would stand for many operations, or cannot be shown, is none.
SELECT test.fails(format('SELECT actionledger.perform(%L, %L)', 'id_templ', a)) FROM unnest(ARRAY['{"x": "q", "n": 1}', '{"x": "", "n": 1, "b": true}', '{"x": "a\nb", "n": 1, "b": false}']) a;
SELECT test.fails(format('SELECT actionledger.perform(%L, %L)', 'id_templ', jsonb_build_object('x', repeat('x', 200), 'n', 1, 'b', true)));
SELECT test.fails($$SELECT actionledger.perform('id_run', '{"x": 7}')$$);
SELECT test.fails($$SELECT actionledger.perform('id_run', '{"x": {"y": 7}}', run_id => 'r1')$$);
SELECT test.fails(format('SELECT actionledger.perform(%L, %L, %L)', 'id_hash', '{"x": 9}', i)) FROM unnest(ARRAY['', E'a\tb', repeat('x', 201), repeat('ü', 101)]) i;

-- Keys of a declared form: the identity itself, where the service allows for it.
SELECT actionledger.create_service('id_form', 'https://api.example.invalid', '{"idempotency": {"header": "X-Key", "form": "identity", "prefix": "al-", "min_length": 8, "max_length": 20, "alphabet": "A-Za-z0-9:-"}}');
SELECT actionledger.create_tool('id_form', 'id_form', 'POST /c', input => '{"properties": {"x": {}}}');
SELECT created FROM actionledger.perform('id_form', '{}', 'refund:R-1');
SELECT idempotency_key, headers FROM actionledger.action JOIN actionledger.tool t USING (tool_id) WHERE t.name = 'id_form';
SELECT test.fails(format('SELECT actionledger.perform(%L, %L, %L)', 'id_form', '{"x": 9}', i)) FROM unnest(ARRAY['R-1', 'refund:R-1234567890', 'refund R1', 'refund_R1']) i;
-- In the body, in the query.
SELECT actionledger.create_service('id_body', 'https://api.example.invalid', '{"idempotency": {"body": "request_id"}}');
SELECT actionledger.create_tool('id_body', 'id_body', 'POST /c', input => '{"properties": {"x": {}}}');
SELECT actionledger.create_tool('id_form_body', 'id_body', 'POST /c', input => '{"properties": {"x": {}}}', options => '{"form": {"x": "{x}"}}');
SELECT actionledger.create_service('id_query', 'https://api.example.invalid', '{"idempotency": {"query": "request id"}}');
SELECT actionledger.create_tool('id_query', 'id_query', 'POST /c{?x}', input => '{"properties": {"x": {}}}');
SELECT actionledger.create_service('id_none', 'https://api.example.invalid', '{"idempotency": "none"}');
SELECT actionledger.create_tool('id_none', 'id_none', 'POST /c{?x}', input => '{"properties": {"x": {}}}');
SELECT identity FROM unnest('{id_body,id_form_body,id_query,id_none}'::text[]) t, actionledger.perform(t, '{"x": 1}', 'k1:' || t);
SELECT identity, replace(url, idempotency_key, '<key>') AS url, replace(replace(headers, idempotency_key, '<key>'), E'\n', ' | ') AS headers,
       replace(convert_from(body, 'UTF8'), idempotency_key, '<key>') AS body
FROM actionledger.action WHERE identity LIKE 'k1:%' ORDER BY identity;
