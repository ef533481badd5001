-- What perform refuses: each error says what is wrong and what to do, and
-- leaves nothing behind.
\a
\t
SELECT actionledger.create_service('rf', 'https://api.example.invalid');
SELECT actionledger.create_tool('rf_pay', 'rf', 'POST /pay/{to}', identity => 'pay:{id}', options => '{"headers": {"X-Memo": "{memo}"}, "json": {"text": "for {memo}", "amount": "{amount}"}}', input => '{
    "required": ["id", "amount", "to"], "properties": {"id": {"type": "string", "minLength": 2}, "amount": {"type": "integer", "minimum": 1, "maximum": 1000},
    "to": {"type": "string"}, "currency": {"enum": ["EUR", "USD"]}, "memo": {}, "date": {"type": "string", "format": "date"},
    "lines": {"type": "array", "items": {"type": "object", "required": ["sku"], "properties": {"sku": {"type": "string"}, "n": {"type": "integer"}}}}}}');
CREATE FUNCTION pg_temp.refused(args text, tool text DEFAULT 'rf_pay') RETURNS text LANGUAGE sql AS $$
    SELECT test.fails(format('SELECT actionledger.perform(%L, %L)', tool, args)) $$;

-- LG001.
SELECT pg_temp.refused('{}', 'rf_pya');
SELECT pg_temp.refused('{}', repeat('x', 200));
SELECT pg_temp.refused('{}', '');
-- LG002.
SELECT pg_temp.refused('{"id": "R1"}');
SELECT pg_temp.refused('{"id": "R1", "amount": "many", "zzz": 1}'); -- what is missing first
SELECT pg_temp.refused(NULL);
SELECT pg_temp.refused('{}', NULL);
-- LG003, with the nearest name.
SELECT pg_temp.refused('{"id": "R1", "amount": "many", "to": "x", "curency": "EUR", "zzz": 1}');
-- LG004, each with what to send instead where that is known.
SELECT pg_temp.refused(a) FROM unnest(ARRAY['[]', '7', 'null', '{"id": "R1", "amount": "425", "to": "x"}', '{"id": "R1", "amount": 0, "to": "x"}', '{"id": "R1", "amount": 1.5, "to": "x"}',
    '{"id": "R", "amount": 1001, "to": null}', '{"id": 17, "amount": 1, "to": "x"}', '{"id": "R1", "amount": 1, "to": "x", "currency": "eur"}', '{"id": "R1", "amount": 1, "to": "x", "currency": "GBP"}',
    '{"id": "R1", "amount": 1, "to": "x", "date": "2026-02-30"}', '{"id": "R1", "amount": 1, "to": "x", "lines": [{"sku": "a"}, {"n": "2"}]}',
    '{"id": "R1", "amount": 1, "to": "x", "lines": {"sku": "a"}}']) a;
-- Arguments that would lead the request elsewhere, or out of its header.
SELECT pg_temp.refused(a) FROM unnest(ARRAY['{"id": "R1", "amount": 1, "to": ""}', '{"id": "R1", "amount": 1, "to": ".."}', '{"id": "R1", "amount": 1, "to": "x", "memo": "a\r\nX-Evil: b"}',
    '{"id": "R1", "amount": 1, "to": "a\r\nb"}', '{"id": "R1", "amount": 1, "to": "a\nb"}', '{"id": "R1", "amount": 1, "to": "x", "memo": "{secret:pay_key}"}', '{"id": "R1", "amount": 1, "to": "x", "memo": {"a": 1}}']) a;
SELECT pg_temp.refused(jsonb_build_object('id', 'R1', 'amount', 1, 'to', 'x', 'memo', repeat('x', 10000))::text);
-- LG005.
CREATE ROLE regress_al_nobody;

SET ROLE regress_al_nobody;
SELECT pg_temp.refused('{"id": "R1", "amount": 1, "to": "x"}');
SELECT pg_temp.refused('{"id": "R1"}'); -- what the arguments lack comes first: it is cheaper, and no secret
RESET ROLE;
-- LG007 and LG008: see 31_identity.
-- LG009.
SET actionledger.max_request_size = '1kB';
SELECT pg_temp.refused(jsonb_build_object('id', 'R1', 'amount', 1, 'to', 'x', 'memo', repeat('x', 1100))::text);
SELECT actionledger.create_tool('rf_many', 'rf', 'POST /pay', input => '{"properties": {"m": {}}}', options => '{"json": {"a": "{m}", "b": "{m}", "c": "{m}"}}');
SELECT pg_temp.refused(jsonb_build_object('m', repeat('x', 400))::text, 'rf_many');
SELECT actionledger.create_tool('rf_form', 'rf', 'POST /pay', input => '{"properties": {"m": {}}}', options => '{"form": {"a": "{m}"}}');
SELECT pg_temp.refused(jsonb_build_object('m', repeat('ü', 200))::text, 'rf_form');
SELECT actionledger.create_tool('rf_url', 'rf', 'POST /pay{?m}', input => '{"properties": {"m": {}}}');
RESET actionledger.max_request_size;
SELECT pg_temp.refused(jsonb_build_object('m', repeat('x', 20000))::text, 'rf_url');

-- Options.
SELECT test.fails(format('SELECT actionledger.perform(%L, %L, options => %L)', 'rf_pay', '{"id": "R1", "amount": 1, "to": "x"}', o))
FROM unnest(ARRAY['[]', '{"priority": 2}', '{"priority": "high"}', '{"if_unavailable": "maybe"}', '{"not_befor": "2099-01-01"}', '{"on_error": "skip"}', '{"not_before": 5}', '{"not_before": "soon"}', '{"not_before": "2099-13-01"}',
    '{"not_before": "infinity"}', '{"expires_at": ""}', '{"actor": 7}', '{"actor": ""}']) o;
-- What could never be sent is not recorded; what stands for it already is given back, whatever the time.
SELECT test.fails(format('SELECT actionledger.%s(%L, %s, options => %L)', f.name, 'rf_pay', f.args, o))
FROM (VALUES ('perform', $$'{"id": "R1", "amount": 1, "to": "x"}'$$), ('perform_many', $$ARRAY['{"id": "R1", "amount": 1, "to": "x"}']::jsonb[]$$)) f(name, args),
    unnest(ARRAY['{"expires_at": "2001-01-01T00:00:00Z"}', '{"not_before": "2099-01-02T00:00:00Z", "expires_at": "2099-01-02T00:00:00Z"}']) o;
SELECT item, action_id, error ->> 'code' AS code, error ->> 'message' AS message, error ->> 'detail' AS detail, error ->> 'hint' AS hint
FROM actionledger.perform_many('rf_pay', ARRAY['{"id": "R1", "amount": 1, "to": "x"}']::jsonb[], options => '{"expires_at": "2001-01-01T00:00:00Z", "on_error": "skip"}');
BEGIN;
SELECT e #> '{error}' AS error, e #>> '{meta,advice}' AS advice, e #> '{meta,findings}' AS findings, e #>> '{meta,observation}' AS observation
FROM actionledger.try_perform('rf_pay', '{"id": "R1", "amount": 1, "to": "x"}', options => '{"expires_at": "2001-01-01T00:00:00Z"}') e;
ROLLBACK;
BEGIN;
SELECT created FROM actionledger.perform('rf_pay', '{"id": "R1", "amount": 1, "to": "x"}', options => '{"expires_at": "2099-01-01T00:00:00Z"}');
SELECT created FROM actionledger.perform('rf_pay', '{"id": "R1", "amount": 1, "to": "x"}', options => '{"expires_at": "2001-01-01T00:00:00Z"}');
SELECT created, error FROM actionledger.perform_many('rf_pay', ARRAY['{"id": "R1", "amount": 1, "to": "x"}']::jsonb[], options => '{"expires_at": "2001-01-01T00:00:00Z"}');
SELECT e #>> '{data,created}' AS created, e #>> '{error,code}' AS code FROM actionledger.try_perform('rf_pay', '{"id": "R1", "amount": 1, "to": "x"}', options => '{"expires_at": "2001-01-01T00:00:00Z"}') e;
SELECT test.fails($$SELECT actionledger.perform('rf_pay', '{"id": "R1", "amount": 2, "to": "x"}', options => '{"expires_at": "2001-01-01T00:00:00Z"}')$$);
ROLLBACK;
-- Left out, and null, they are none.
BEGIN;
SELECT created FROM actionledger.perform('rf_pay', '{"id": "R1", "amount": 1, "to": "x"}', options => NULL);
ROLLBACK;

SELECT count(*) FROM actionledger.action JOIN actionledger.tool t USING (tool_id) WHERE t.name LIKE 'rf\_%';
-- An error leaves a transaction that a savepoint can save.
BEGIN;
SAVEPOINT s;
SELECT actionledger.perform('rf_pay', '{}');
ROLLBACK TO s;
SELECT created FROM actionledger.perform('rf_pay', '{"id": "R1", "amount": 1, "to": "x"}');
SELECT current_user = session_user AS still_me, current_setting('search_path') AS search_path;
COMMIT;
DROP OWNED BY regress_al_nobody;
DROP ROLE regress_al_nobody;
