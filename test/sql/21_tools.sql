-- Defining tools, and every way to get it wrong.
\a
\t
SELECT actionledger.create_service('tl', 'https://api.example.invalid/base', '{"idempotency": {"window": "24h"}}');
SELECT actionledger.create_service('tl_nokey', 'https://api.example.invalid', '{"idempotency": "none"}');
SELECT actionledger.create_service('tl_body', 'https://api.example.invalid', '{"idempotency": {"body": "key"}}');
SELECT actionledger.create_service('tl_query', 'https://api.example.invalid', '{"idempotency": {"query": "key"}}');
CREATE ROLE regress_al_payments;

-- What the answer says about an outcome that stays unknown.
SELECT actionledger.create_tool('tl_ping', 'tl', 'POST /ping');
SELECT actionledger.create_tool('tl_nokey_ping', 'tl_nokey', 'POST /ping');
SELECT actionledger.create_tool('tl_nokey_set', 'tl_nokey', 'PUT /state', 'idempotent');
SELECT actionledger.create_tool('tl_nokey_get', 'tl_nokey', 'GET /state', 'read_only');
SELECT actionledger.create_tool('tl_wire', 'tl', 'POST /wire', 'irreversible');
SELECT actionledger.create_tool('tl_own_key', 'tl_nokey', 'POST /ping', options => '{"idempotency": {"header": "X-Key"}}');

-- With everything.
SELECT actionledger.create_tool('tl_refund', 'tl', 'POST /refunds/{id}{?expand}', 'non_idempotent',
    identity => 'refund:{id}:{_run_id}',
    input => '{"required": ["id", "amount"], "properties": {"id": {"type": "string"}, "amount": {"type": "integer", "minimum": 1},
        "expand": {"type": "string"}, "card": {"type": "object", "properties": {"number": {"type": "string"}}}}}',
    options => '{"summary": "refund {amount} on {id}", "target": "{id}", "owner": "regress_al_payments", "timeout": "20s", "connect_timeout": "2s",
        "form": {"amount": "{amount}", "meta": {"key": "{_key}", "who": ["{_identity}", "{_action_id}"]}}, "headers": {"X-Trace": "{id}"},
        "external_ref": "$.id", "result": "$.status", "max_processing": "60s", "retry": {"attempts": 3, "base": "2s", "cap": "20s", "window": "2h"},
        "outcome": [{"status": 200, "if": "$.status == \"failed\"", "verdict": "rejected", "conclusive": true}, {"status": "4xx", "header": "X-State: queued", "verdict": "in_progress", "category": "queued"},
            {"status": "500-503", "verdict": "rejected", "transient": true}],
        "expires_after": "1d", "sensitive": ["/card/number"]}');
SELECT tool, service, request, action_type, identity, owner, granted_to FROM actionledger.tools WHERE tool LIKE 'tl\_%' ORDER BY tool;

CREATE FUNCTION pg_temp.wrong(options text DEFAULT '{}', request text DEFAULT 'POST /x', identity text DEFAULT NULL,
        input text DEFAULT '{"properties": {"a": {"type": "string"}, "secret": {"type": "string"}}}', type text DEFAULT 'non_idempotent', service text DEFAULT 'tl', name text DEFAULT 'tl_wrong')
    RETURNS text LANGUAGE sql AS $$
    SELECT test.fails(format('SELECT actionledger.create_tool(%L, %L, %L, %L, %L, %L, %L)', name, service, request, type, identity, input, options)) $$;

-- Request, type, service, name.
SELECT pg_temp.wrong(request => r) FROM unnest(ARRAY['', 'POST', '/x', 'post /x', 'TRACE /x', 'POST x', 'POST  /x', 'POST /a b', 'POST https://evil.example.com/', 'POST /x#y', 'POST /x/../y',
    'POST /x/{nope}', 'POST /x/{_nope}', 'POST /x/{#a}', 'POST /x/{a*}', 'POST /x/{a', 'POST /x/{a b}', 'POST /' || repeat('x', 5000)]) r;
SELECT pg_temp.wrong(type => 'reversible');
SELECT pg_temp.wrong(service => 'tl_none');
SELECT pg_temp.wrong(name => n) FROM unnest(ARRAY['', repeat('x', 64), E'a\nb']) n;
SELECT pg_temp.wrong(name => NULL);
SELECT pg_temp.wrong(request => NULL);
SELECT pg_temp.wrong(options => NULL);

-- A request without a body loses no argument.
SELECT pg_temp.wrong(request => 'GET /x', type => 'read_only');
SELECT pg_temp.wrong('{"json": {}}', 'GET /x{?a,secret}', type => 'read_only');

-- The identity: it names one operation, and is shown.
SELECT pg_temp.wrong(identity => i, options => '{"sensitive": ["/secret"]}') FROM unnest(ARRAY['', 'x:{nope}', 'x:{_key}', 'x:{_action_id}', 'x:{secret}', 'x:{a', 'x:{ a }', 'x:{secret:key}']) i;

-- The input schema: an unsupported keyword is refused, not ignored.
SELECT pg_temp.wrong(input => i) FROM unnest(ARRAY['[]', 'true', '{"type": "array"}', '{"properties": {"_a": {}}}', '{"properties": {"a": {"type": "strin"}}}', '{"properties": {"a": {"patternn": "x"}}}',
    '{"properties": {"a": {"nullable": true}}}', '{"properties": {"a": {"unevaluatedItems": false}}}', '{"properties": {"a": {"pattern": "("}}}', '{"properties": {"a": {"format": "ipv4"}}}',
    '{"properties": {"a": {"minimum": "1"}}}', '{"properties": {"a": {"$ref": "https://example.com/s"}}}', '{"properties": {"a": {"$ref": "#/$defs/no"}}}',
    '{"$defs": {"a": {"$ref": "#/$defs/a"}}, "properties": {"a": {"$ref": "#/$defs/a"}}}', '{"required": ["b"], "properties": {"a": {}}}', '{"required": "a", "properties": {"a": {}}}', '{"properties": []}']) i;

-- Options.
SELECT pg_temp.wrong(o) FROM unnest(ARRAY['[]', '{"time_out": "1s"}', '{"outcome": {}}', '{"outcome": [{"status": 200}]}', '{"outcome": [{"verdict": "not_sent"}]}', '{"outcome": [{"verdict": "unknown", "conclusive": true}]}',
    '{"outcome": [{"verdict": "confirmed", "transient": true}]}', '{"outcome": [{"status": "4x", "verdict": "unknown"}]}', '{"outcome": [{"status": "500-400", "verdict": "unknown"}]}', '{"outcome": [{"status": 99, "verdict": "unknown"}]}',
    '{"outcome": [{"header": "a b", "verdict": "unknown"}]}', '{"outcome": [{"if": "$..x ?", "verdict": "unknown"}]}', '{"outcome": [{"verdict": "unknown", "category": "Bad One"}]}', '{"outcome": [{"verdict": "unknown", "when": 1}]}', '{"handlers": {}}',
    '{"timeout": 20}', '{"timeout": "20"}', '{"timeout": "20 s"}', '{"timeout": "0s"}', '{"timeout": "2h"}', '{"timeout": "99999999999999999999s"}', '{"timeout": "1s", "connect_timeout": "2s"}',
    '{"max_processing": "-1s"}', '{"retry": {"attempts": 0}}', '{"retry": {"attempts": 101}}', '{"retry": {"attempts": "3"}}', '{"retry": {"base": "10s", "cap": "5s"}}', '{"retry": {"tries": 3}}', '{"retry": 3}',
    '{"expires_after": "10ms"}', '{"owner": "regress_al_nobody_at_all"}', '{"owner": 7}', '{"summary": "{nope}"}', '{"summary": "{_key}"}', '{"summary": ""}', '{"target": "{secret}", "sensitive": ["/secret"]}',
    '{"sensitive": "/a"}', '{"sensitive": ["a"]}', '{"sensitive": ["/nope"]}', '{"sensitive": ["/a~2"]}', '{"external_ref": "$.["}', '{"external_ref": ""}', '{"result": 1}',
    '{"json": {"x": "{nope}"}}', '{"json": {"{a}": 1}}', '{"json": {"x": "{secret:key}"}}', '{"json": null}', '{"json": {}, "form": {}}', '{"form": []}', '{"form": {"x": [{"y": "{nope}"}]}}',
    '{"headers": {"X-A": "{nope}"}}', '{"headers": {"X-A": "a\nb"}}', '{"headers": {"Content-Length": "1"}}', '{"headers": {"Idempotency-Key": "mine"}}', '{"idempotency": {"body": "a"}}', '{"idempotency": {"headers": "X"}}']) o;

-- Lookups: what cannot prove what it says is refused.
SELECT actionledger.create_tool('tl_lookup', 'tl', 'POST /refunds', input => '{"properties": {"a": {"type": "string"}}}', options => '{"external_ref": "$.id",
    "lookup": {"request": "GET /refunds?limit=100{&a}", "match": "strict $.data[*] ? (@.metadata.key == $_key && @.a == $a)", "more": "$.has_more", "every": "5s", "attempts": 6, "window": "2d",
        "absence": "authoritative", "resend": true, "outcome": [{"if": "$.status == \"failed\"", "verdict": "rejected"}]}}');
SELECT actionledger.create_tool('tl_lookup_path', 'tl', 'POST /refunds', options => '{"lookup": {"request": "GET /refunds/{_key}{?_identity,_action_id,_run_id,_external_ref}", "match": "$",
    "absence": {"status": 404, "if": "$.error.code == \"not_found\""}}}');
SELECT actionledger.create_tool('tl_lookup_there', 'tl', 'POST /refunds', 'irreversible', options => '{"lookup": {"request": "GET {_location}", "match": "$ ? (@.id == $_identity || @.text == \"$x /* \")"}}');
SELECT pg_temp.wrong(format('{"lookup": %s}', o)) FROM unnest(ARRAY['{}', '[]', '7', '{"match": "$"}', '{"request": "GET /x"}', '{"request": "POST /x", "match": "$"}', '{"request": "HEAD /x", "match": "$"}', '{"request": "GET x", "match": "$"}',
    '{"request": "GET /x/{nope}", "match": "$"}', '{"request": "GET /x/{_location}", "match": "$"}', '{"request": "GET /x/../y", "match": "$"}', '{"request": "GET /x", "match": "$.["}', '{"request": "GET /x", "match": "$ ? (@.k == $nope)"}',
    '{"request": "GET /x", "match": "$ ? (@.k == $_nope)"}', '{"request": "GET /x", "match": "$ ? (@.k == $\"a\")"}', '{"request": "GET /x", "match": "$", "more": "$ ? (@.k == $nope)"}',
    '{"request": "GET /x", "match": "$", "absence": "authoritative"}', '{"request": "GET /x", "match": "$ ? (@.data[*].k == $_key)", "absence": "authoritative"}', '{"request": "GET /x", "match": "($.data[*] ? (@.k == $_key))", "absence": "authoritative"}',
    '{"request": "GET /x", "match": "$", "absence": "never"}', '{"request": "GET /x", "match": "$", "absence": true}', '{"request": "GET /x", "match": "$", "absence": {}}', '{"request": "GET /x", "match": "$", "absence": {"status": "4xx"}}',
    '{"request": "GET /x", "match": "$", "absence": {"status": 429}}', '{"request": "GET /x", "match": "$", "absence": {"status": 404, "verdict": "rejected"}}', '{"request": "GET /x", "match": "$", "resend": true}',
    '{"request": "GET /x", "match": "$", "every": 5}', '{"request": "GET /x", "match": "$", "attempts": 0}', '{"request": "GET /x", "match": "$", "window": "31d"}', '{"request": "GET /x", "match": "$", "outcome": [{"verdict": "not_sent"}]}',
    '{"request": "GET /x", "match": "$", "pages": 3}']) o;
SELECT pg_temp.wrong('{"lookup": {"request": "GET /x", "match": "$.d[*]", "absence": "authoritative", "resend": true}}', type => 'irreversible');

-- What only a tool and its service together show.
SELECT pg_temp.wrong(service => 'tl_body', request => 'DELETE /x{?a,secret}');
SELECT pg_temp.wrong('{"json": ["{a}"]}', service => 'tl_body');
SELECT pg_temp.wrong(service => 'tl_body', input => '{"properties": {"key": {"type": "string"}}}');
SELECT pg_temp.wrong(service => 'tl_query', request => 'POST /x{?key}', input => '{"properties": {"key": {"type": "string"}}}');

-- Nothing of all that was kept.
SELECT count(*) FROM actionledger.tool WHERE name = 'tl_wrong' OR name = '' OR length(name) > 30;

-- Grants.
SELECT actionledger.grant_tool('tl_ping', 'regress_al_payments');
SELECT actionledger.grant_tool('tl_ping', 'regress_al_payments');
SELECT granted_to FROM actionledger.tools WHERE tool = 'tl_ping';
SELECT actionledger.revoke_tool('tl_ping', 'regress_al_payments');
SELECT actionledger.revoke_tool('tl_ping', 'regress_al_payments');
SELECT test.fails($$SELECT actionledger.grant_tool('tl_pong', 'regress_al_payments')$$);
SELECT test.fails($$SELECT actionledger.revoke_tool('tl_pong', 'regress_al_payments')$$);
SELECT test.fails($$SELECT actionledger.grant_tool('tl_ping', 'regress_al_nobody_at_all')$$);

SELECT actionledger.drop_tool(tool) FROM actionledger.tools WHERE tool LIKE 'tl\_%';
SELECT actionledger.drop_service(name) FROM actionledger.services WHERE name LIKE 'tl%';
DROP ROLE regress_al_payments;
