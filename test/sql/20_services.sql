-- Defining destinations, and every way to get it wrong.
\a
\t

SELECT actionledger.create_service('svc_plain', 'https://api.example.invalid');
SELECT actionledger.create_service('svc_full', 'HTTPS://API.Example.Invalid:443/v1/', '{
    "auth": {"bearer": "{secret:key}"}, "headers": {"Stripe-Version": "2024-06-20"},
    "idempotency": {"header": "Idempotency-Key", "form": "identity", "prefix": "al-", "min_length": 10, "max_length": 64,
        "alphabet": "A-Za-z0-9:_-", "window": "24h", "margin": "10m", "replay_header": "Idempotent-Replayed", "replays_errors": true},
    "limits": {"in_flight": 20}, "tls": {"ca_file": "/etc/ssl/ca.pem", "client_cert": "/etc/ssl/c.pem", "client_key": "/etc/ssl/k.pem"},
    "allow_private": true}');
SELECT actionledger.create_service('svc_basic', 'http://10.0.0.1:8080', '{"auth": {"basic": ["user", "{secret:pw}"]}, "idempotency": "none"}');
SELECT actionledger.create_service('svc_header', 'https://[2001:db8::1]/x', '{"auth": {"header": {"X-Api-Key": "{secret:k}"}}, "idempotency": {"body": "idempotency_key"}}');
SELECT actionledger.create_service('svc_query', 'https://example.invalid', '{"idempotency": {"query": "key", "window": "45d"}}');
SELECT name, base_url, options, created_by = current_user AS mine FROM actionledger.services WHERE name LIKE 'svc\_%' ORDER BY name;

-- The first service lets the launcher find the database.
SELECT count(*) AS enabled FROM pg_db_role_setting JOIN pg_database d ON d.oid = setdatabase
WHERE datname = current_database() AND setrole = 0 AND 'actionledger.enabled=on' = ANY (setconfig);

CREATE FUNCTION pg_temp.wrong(options text, base_url text DEFAULT 'https://example.invalid', name text DEFAULT 'svc_wrong') RETURNS text
    LANGUAGE sql AS $$ SELECT test.fails(format('SELECT actionledger.create_service(%L, %L, %L)', name, base_url, options)) $$;

-- The base URL.
SELECT pg_temp.wrong('{}', u) FROM unnest(ARRAY['api.example.invalid', 'ftp://example.com', 'https://', 'https://user:pw@example.com', 'https://example.invalid?x=1',
    'https://example.invalid#a', 'https://exa mple.com', 'https://exämple.com', 'https://example.invalid:0', 'https://example.invalid:99999', 'https://example.invalid:8x',
    'https://[::g]', 'https://a..b', 'https://example.invalid/{x}', 'https://example.invalid/../x', 'https://example.invalid/a\b',
    'https://example.invalid/' || repeat('x', 2048)]) u;

-- Names.
SELECT pg_temp.wrong('{}', name => n) FROM unnest(ARRAY['', repeat('x', 64), E'a\tb']) n;

-- Options: unknown ones get the nearest name, those to come are refused and not ignored.
SELECT pg_temp.wrong(o) FROM unnest(ARRAY['[]', '1', 'null', '{"idempotncy": {}}', '{"zzz": 1}', '{"breaker": {"failures": 0}}', '{"breaker": {"cooldown": 60}}', '{"breaker": {"cool": "1s"}}', '{"limits": {"rate_per_second": 0}}', '{"limits": {"rate_per_second": "5"}}', '{"proxy": "x"}', '{"signing": {}}',
    '{"limits": {"in_flight": 0}}', '{"limits": {"in_flight": 1.5}}', '{"limits": {"in_flite": 1}}', '{"limits": {"queued": 0}}', '{"limits": []}', '{"allow_private": "yes"}']) o;

-- Credentials and headers.
SELECT pg_temp.wrong(o) FROM unnest(ARRAY['{"auth": "x"}', '{"auth": {}}', '{"auth": {"bearer": "{secret:a}", "basic": ["b", "{secret:c}"]}}', '{"auth": {"bearer": ""}}',
    '{"auth": {"bearer": "{secret:bad name}"}}', '{"auth": {"bearer": "{token}"}}', '{"auth": {"basic": ["only"]}}', '{"auth": {"basic": ["a:b", "{secret:c}"]}}', '{"auth": {"header": {}}}',
    '{"auth": {"bearer": "sk_live_1"}}', '{"auth": {"basic": ["sk_live_1", ""]}}', '{"auth": {"header": {"X-Any": "sk_live_1"}}}', '{"headers": {"authorization": "Bearer sk_live_1"}}',
    '{"headers": {"X-Api-Key": "sk_live_1"}}', '{"headers": {"X-Vault-Token": "sk_live_1"}}', '{"headers": {"Cookie": "session=1"}}',
    '{"headers": {"X-A": "a\r\nX-B: b"}}', '{"headers": {"X A": "a"}}', '{"headers": {"Host": "a"}}', '{"headers": {"Actionledger-Action": "a"}}', '{"headers": {"X-A": "é"}}',
    '{"headers": {"X-A": ""}}', '{"headers": {"X-A": 1}}', '{"headers": {"X-A": " a"}}', '{"headers": {"X-A": "1", "x-a": "2"}}', '{"headers": ["X-A: a"]}',
    '{"headers": {"idempotency-key": "fixed"}}', '{"headers": {"X-A": "{arg}"}}']) o;

-- What it promises about idempotency keys.
SELECT pg_temp.wrong(format('{"idempotency": %s}', o)) FROM unnest(ARRAY['"yes"', 'true', '{"header": "K", "body": "k"}', '{"form": "random"}', '{"form": "uuid", "prefix": "a"}',
    '{"max_length": 20}', '{"alphabet": "A-Z"}', '{"alphabet": "[a]"}', '{"alphabet": "z-a"}', '{"min_length": 9, "max_length": 8, "form": "identity"}',
    '{"form": "identity", "prefix": "abcd", "max_length": 4}', '{"form": "identity", "prefix": "a b"}', '{"window": 24}', '{"window": "24 h"}', '{"window": "1y"}', '{"window": "0s"}',
    '{"window": "1h", "margin": "1h"}', '{"none": false}', '{"none": true, "window": "1h"}', '{"header": "Bad Name"}', '{"header": "Host"}', '{"query": "ü"}']) o;

-- TLS.
SELECT pg_temp.wrong('{"tls": {"ca_file": "/ca.pem"}}', 'http://example.com');
SELECT pg_temp.wrong(format('{"tls": %s}', o)) FROM unnest(ARRAY['{"ca_file": "ca.pem"}', '{"client_key": "/k.pem"}', '{"verify": false}', '{"ca_file": "/a\nb"}']) o;

-- Nothing of all that was kept.
SELECT count(*) FROM actionledger.services WHERE name IN ('svc_wrong', '') OR length(name) > 20;

-- A name stands for one service.
SELECT test.fails($$SELECT actionledger.create_service('svc_plain', 'https://other.example.invalid')$$);
SELECT actionledger.create_service('svc_plain', 'https://other.example.invalid', replace => true);
SELECT base_url FROM actionledger.services WHERE name = 'svc_plain';

-- A change is a merge patch: null removes, what is not named stays; the result
-- is checked as a whole, and kept only when it is right.
SELECT actionledger.alter_service('svc_full', '{"headers": {"Stripe-Version": null, "X-New": "1"}, "limits": null, "base_url": "https://api2.example.invalid"}');
SELECT base_url, options FROM actionledger.services WHERE name = 'svc_full';
SELECT test.fails($$SELECT actionledger.alter_service('svc_full', '{"idempotency": {"window": null, "margin": "4h"}}')$$);
SELECT test.fails($$SELECT actionledger.alter_service('svc_full', '{"base_url": 7}')$$);
SELECT test.fails($$SELECT actionledger.alter_service('svc_full', '{"base_url": null}')$$);
SELECT test.fails($$SELECT actionledger.alter_service('svc_full', '[]')$$);
SELECT test.fails($$SELECT actionledger.alter_service('svc_full', '"x"')$$);
SELECT test.fails($$SELECT actionledger.alter_service('svc_fool', '{}')$$);
SELECT base_url, options -> 'idempotency' ->> 'window' AS window FROM actionledger.services WHERE name = 'svc_full';

-- Dropping.
SELECT test.fails($$SELECT actionledger.drop_service('svc_fool')$$);
SELECT actionledger.drop_service('svc_query');
SELECT count(*) FROM actionledger.services WHERE name = 'svc_query';

-- A null is refused wherever something would be changed, and changes nothing.
SELECT test.fails($$SELECT actionledger.create_service('svc_null', NULL)$$);
SELECT test.fails($$SELECT actionledger.create_service('svc_null', 'https://api.example.invalid', NULL)$$);
SELECT test.fails($$SELECT actionledger.create_service('svc_null', 'https://api.example.invalid', replace => NULL)$$);
SELECT test.fails($$SELECT actionledger.alter_service('svc_full', NULL)$$);
SELECT test.fails($$SELECT actionledger.drop_service(NULL)$$);
SELECT test.fails($$SELECT actionledger.alter_tool(NULL, '{}')$$);
SELECT test.fails($$SELECT actionledger.drop_tool('x', NULL)$$);
SELECT test.fails($$SELECT actionledger.grant_tool('x', NULL)$$);
SELECT test.fails($$SELECT actionledger.revoke_tool(NULL, 'x')$$);
SELECT test.fails($$SELECT count(*) FROM actionledger.import_mcp_tools(NULL, 'svc_full')$$);
SELECT test.fails($$SELECT actionledger.resume_dispatch(NULL, 'x')$$);
SELECT test.fails($$SELECT actionledger.resume_dispatch('copy', NULL)$$);
SELECT count(*) FROM actionledger.services WHERE name = 'svc_null';
