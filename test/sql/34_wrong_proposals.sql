-- What a model may propose wrongly, and what it is told: each through perform,
-- which raises, and through try_perform, which answers.  Nothing is recorded.
\a
\t
SELECT actionledger.create_service('wp', 'https://api.example.invalid');
SELECT actionledger.create_tool('wp_refund', 'wp', 'POST /refunds/{payment_intent}', identity => 'refund:{refund_id}', input => '{
    "required": ["refund_id", "payment_intent", "amount"],
    "properties": {
        "refund_id": {"type": "string", "minLength": 2, "maxLength": 40},
        "payment_intent": {"type": "string", "pattern": "^pi_[A-Za-z0-9]+$"},
        "amount": {"type": "integer", "minimum": 1, "maximum": 1000000},
        "currency": {"enum": ["EUR", "USD", "GBP"]},
        "reason": {"enum": ["duplicate", "fraudulent", "requested_by_customer"]},
        "percent": {"type": "number", "exclusiveMinimum": 0, "maximum": 100, "multipleOf": 0.01},
        "notify": {"type": "boolean"},
        "due_on": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "email": {"type": "string", "format": "email"},
        "order": {"type": "string", "format": "uuid"},
        "page": {"type": "string", "format": "uri"},
        "tags": {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 3, "uniqueItems": true},
        "lines": {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["sku", "n"], "additionalProperties": false,
            "properties": {"sku": {"type": "string"}, "n": {"type": "integer", "minimum": 1}}}},
        "customer": {"type": "object", "additionalProperties": false, "properties": {"name": {"type": "string"}, "vip": {"type": "boolean"}}},
        "card": {"type": "object", "properties": {"number": {"type": "string", "pattern": "^[0-9]{16}$"}}}},
    "allOf": [{"if": {"required": ["reason"], "properties": {"reason": {"const": "fraudulent"}}}, "then": {"required": ["order"]}}]}',
    options => '{"summary": "refund {amount} on {payment_intent}", "sensitive": ["/card/number"]}');
SELECT actionledger.create_tool('wp_note', 'wp', 'POST /notes/{to}', identity => 'note:{id}', input => '{"required": ["id"], "properties": {"id": {}, "to": {"type": "string"}, "text": {}}}',
    options => '{"headers": {"X-Note": "{text}"}}');
SELECT actionledger.create_tool('wp_payout', 'wp', 'POST /payouts', input => '{"properties": {"amount": {"type": "integer"}}}');
CREATE FUNCTION test.wp_check(args jsonb, context jsonb) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN (args ->> 'amount')::numeric > 500 THEN jsonb_build_object('code', 'over_limit', 'message', format('%s is more than 500', args ->> 'amount'))
                WHEN args ->> 'customer' IS DISTINCT FROM 'ada' THEN '{"code": "not_owner", "message": "the payment is not of this customer"}' END $$;
SELECT actionledger.create_tool('wp_checked', 'wp', 'POST /checked', identity => 'checked:{id}', input => '{"required": ["id", "amount"], "properties": {"id": {"type": "string"}, "amount": {"type": "integer"}, "customer": {"type": "string"}}}',
    options => '{"check_function": "test.wp_check"}') IS NOT NULL;
CREATE ROLE regress_al_agent;
CREATE ROLE regress_al_stranger;
SELECT actionledger.grant_tool(t, 'regress_al_agent') FROM unnest('{wp_refund,wp_note,wp_checked}'::text[]) t;
-- Somebody has used two identities: the agent, and somebody else.
SET ROLE regress_al_agent;
SELECT created FROM actionledger.perform('wp_refund', '{"refund_id": "TAKEN", "payment_intent": "pi_1", "amount": 5}');
RESET ROLE;
SELECT created FROM actionledger.perform('wp_note', '{"id": "theirs", "to": "x", "text": "x"}');

CREATE TEMP TABLE proposal (n int GENERATED ALWAYS AS IDENTITY, what text, code text, tool text, args jsonb, identity text, options jsonb DEFAULT '{}', who text DEFAULT 'regress_al_agent');
CREATE FUNCTION pg_temp.good(changes jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT '{"refund_id": "R1", "payment_intent": "pi_1", "amount": 100}'::jsonb || changes $$;
INSERT INTO proposal (what, code, tool, args) VALUES
    ('tool misspelt', 'unknown_tool', 'wp_refnud', pg_temp.good('{}')),
    ('tool in other case', 'unknown_tool', 'WP_Refund', pg_temp.good('{}')),
    ('tool of another family', 'unknown_tool', 'send_email', '{}'),
    ('tool that the role may not perform, misspelt', 'unknown_tool', 'wp_payuot', '{}'),
    ('tool with an injection', 'unknown_tool', 'wp_refund''; DROP TABLE actionledger.action; --', '{}'),
    ('tool with a control character', 'unknown_tool', E'wp_refund\n', '{}'),
    ('tool empty', 'unknown_tool', '', '{}'),
    ('tool null', 'missing_arguments', NULL, '{}'),
    ('tool too long', 'unknown_tool', repeat('wp_refund', 1000), '{}'),
    ('arguments null', 'missing_arguments', 'wp_refund', NULL),
    ('arguments a JSON null', 'invalid_arguments', 'wp_refund', 'null'),
    ('arguments an array', 'invalid_arguments', 'wp_refund', '["R1", "pi_1", 100]'),
    ('arguments a string with JSON in it', 'invalid_arguments', 'wp_refund', to_jsonb(pg_temp.good('{}')::text)),
    ('nothing at all', 'missing_arguments', 'wp_refund', '{}'),
    ('one missing', 'missing_arguments', 'wp_refund', pg_temp.good('{}') - 'amount'),
    ('misspelt and so missing', 'missing_arguments', 'wp_refund', pg_temp.good('{}') - 'amount' || '{"amuont": 100}'),
    ('misspelt and so missing, and of the wrong type', 'missing_arguments', 'wp_refund', pg_temp.good('{}') - 'amount' || '{"ammount": "100"}'),
    ('two misspelt', 'missing_arguments', 'wp_refund', '{"refund_id": "R1", "payment_intnt": "pi_1", "amout": 7}'),
    ('camel case', 'missing_arguments', 'wp_refund', '{"refundId": "R1", "paymentIntent": "pi_1", "amount": 7}'),
    ('wrapped in an object', 'missing_arguments', 'wp_refund', jsonb_build_object('arguments', pg_temp.good('{}'))),
    ('one extra', 'unknown_arguments', 'wp_refund', pg_temp.good('{"force": true}')),
    ('an optional one misspelt', 'unknown_arguments', 'wp_refund', pg_temp.good('{"curency": "EUR"}')),
    ('an internal name', 'unknown_arguments', 'wp_refund', pg_temp.good('{"_key": "mine"}')),
    ('prototype pollution', 'unknown_arguments', 'wp_refund', pg_temp.good('{"__proto__": {"admin": true}}')),
    ('an empty name', 'unknown_arguments', 'wp_refund', pg_temp.good('{"": 1}')),
    ('a very long name', 'unknown_arguments', 'wp_refund', pg_temp.good(jsonb_build_object(repeat('x', 100000), 1))),
    ('thirty extra', 'unknown_arguments', 'wp_refund', pg_temp.good((SELECT jsonb_object_agg('x' || i, i) FROM generate_series(1, 30) i))),
    ('a required one null', 'invalid_arguments', 'wp_refund', pg_temp.good('{"amount": null}')),
    ('an optional one null', 'invalid_arguments', 'wp_refund', pg_temp.good('{"currency": null}')),
    ('a number as a string', 'invalid_arguments', 'wp_refund', pg_temp.good('{"amount": "100"}')),
    ('a number as a string with a unit', 'invalid_arguments', 'wp_refund', pg_temp.good('{"amount": "100 EUR"}')),
    ('a number as a string with separators', 'invalid_arguments', 'wp_refund', pg_temp.good('{"amount": "1,000"}')),
    ('a string as a number', 'invalid_arguments', 'wp_refund', pg_temp.good('{"refund_id": 4711}')),
    ('a fraction for an integer', 'invalid_arguments', 'wp_refund', pg_temp.good('{"amount": 99.99}')),
    ('zero', 'invalid_arguments', 'wp_refund', pg_temp.good('{"amount": 0}')),
    ('negative', 'invalid_arguments', 'wp_refund', pg_temp.good('{"amount": -100}')),
    ('more than the most', 'invalid_arguments', 'wp_refund', pg_temp.good('{"amount": 1000001}')),
    ('beyond 64 bits', 'invalid_arguments', 'wp_refund', pg_temp.good('{"amount": 18446744073709551617}')),
    ('beyond a double', 'invalid_arguments', 'wp_refund', pg_temp.good('{"amount": 1e400}')),
    ('a fraction that a double would lose', 'invalid_arguments', 'wp_refund', pg_temp.good('{"amount": 100.00000000000000000001}')),
    ('an amount as an object', 'invalid_arguments', 'wp_refund', pg_temp.good('{"amount": {"value": 100, "currency": "EUR"}}')),
    ('an amount as an array', 'invalid_arguments', 'wp_refund', pg_temp.good('{"amount": [100]}')),
    ('true for a number', 'invalid_arguments', 'wp_refund', pg_temp.good('{"amount": true}')),
    ('a boolean as a string', 'invalid_arguments', 'wp_refund', pg_temp.good('{"notify": "true"}')),
    ('a boolean as a number', 'invalid_arguments', 'wp_refund', pg_temp.good('{"notify": 1}')),
    ('too short', 'invalid_arguments', 'wp_refund', pg_temp.good('{"refund_id": "R"}')),
    ('too long', 'invalid_arguments', 'wp_refund', pg_temp.good(jsonb_build_object('refund_id', repeat('R', 41)))),
    ('against the pattern', 'invalid_arguments', 'wp_refund', pg_temp.good('{"payment_intent": "ch_1"}')),
    ('a pattern that a line end would pass', 'invalid_arguments', 'wp_refund', pg_temp.good('{"payment_intent": "pi_1\n"}')),
    ('a path that leads elsewhere', 'invalid_arguments', 'wp_refund', pg_temp.good('{"payment_intent": "pi_1/../../admin"}')),
    ('SQL in an argument', 'invalid_arguments', 'wp_refund', pg_temp.good('{"payment_intent": "pi_1''; DELETE FROM orders; --"}')),
    ('a template in an argument', 'invalid_arguments', 'wp_refund', pg_temp.good('{"payment_intent": "{secret:pay_key}"}')),
    ('an enum in other case', 'invalid_arguments', 'wp_refund', pg_temp.good('{"currency": "eur"}')),
    ('an enum nearly', 'invalid_arguments', 'wp_refund', pg_temp.good('{"reason": "requested_by_costumer"}')),
    ('an enum made up', 'invalid_arguments', 'wp_refund', pg_temp.good('{"reason": "because"}')),
    ('no multiple', 'invalid_arguments', 'wp_refund', pg_temp.good('{"percent": 12.345}')),
    ('at the excluded end', 'invalid_arguments', 'wp_refund', pg_temp.good('{"percent": 0}')),
    ('a day that is none', 'invalid_arguments', 'wp_refund', pg_temp.good('{"due_on": "2026-02-30"}')),
    ('a day as people write it', 'invalid_arguments', 'wp_refund', pg_temp.good('{"due_on": "30.11.2026"}')),
    ('a time without zone', 'invalid_arguments', 'wp_refund', pg_temp.good('{"at": "2026-11-30T08:00:00"}')),
    ('no e-mail address', 'invalid_arguments', 'wp_refund', pg_temp.good('{"email": "the customer"}')),
    ('no UUID', 'invalid_arguments', 'wp_refund', pg_temp.good('{"order": "ORD-4471"}')),
    ('no URI', 'invalid_arguments', 'wp_refund', pg_temp.good('{"page": "my page"}')),
    ('a list as one value', 'invalid_arguments', 'wp_refund', pg_temp.good('{"tags": "late"}')),
    ('the same twice in a set', 'invalid_arguments', 'wp_refund', pg_temp.good('{"tags": ["late", "late"]}')),
    ('too many', 'invalid_arguments', 'wp_refund', pg_temp.good('{"tags": ["a", "b", "c", "d"]}')),
    ('a wrong type in a list', 'invalid_arguments', 'wp_refund', pg_temp.good('{"tags": ["late", 7]}')),
    ('an empty list', 'invalid_arguments', 'wp_refund', pg_temp.good('{"lines": []}')),
    ('nested, missing', 'invalid_arguments', 'wp_refund', pg_temp.good('{"lines": [{"sku": "a", "n": 1}, {"sku": "b"}]}')),
    ('nested, extra', 'invalid_arguments', 'wp_refund', pg_temp.good('{"lines": [{"sku": "a", "n": 1, "price": 1}]}')),
    ('nested, misspelt', 'invalid_arguments', 'wp_refund', pg_temp.good('{"customer": {"nmae": "Ada"}}')),
    ('nested, of the wrong type', 'invalid_arguments', 'wp_refund', pg_temp.good('{"lines": [{"sku": "a", "n": "2"}]}')),
    ('five things at once', 'invalid_arguments', 'wp_refund', '{"refund_id": 1, "payment_intent": "x", "amount": "5", "currency": "eur", "notify": "no"}'),
    ('something that another argument asks for', 'missing_arguments', 'wp_refund', pg_temp.good('{"reason": "fraudulent"}')),
    ('something sensitive', 'invalid_arguments', 'wp_refund', pg_temp.good('{"card": {"number": "4111 1111 1111 1111"}}')),
    ('something sensitive under another name', 'unknown_arguments', 'wp_refund', pg_temp.good('{"crad": {"number": "4111111111111111"}}')),
    ('something around what is sensitive', 'invalid_arguments', 'wp_refund', pg_temp.good('{"card": "4111111111111111"}')),
    ('nested 200 deep', 'invalid_arguments', 'wp_refund', pg_temp.good('{}') || jsonb_build_object('customer', (repeat('[', 200) || repeat(']', 200))::jsonb)),
    ('a header of two lines', 'invalid_arguments', 'wp_note', '{"id": "1", "to": "x", "text": "a\r\nX-Evil: b"}'),
    ('a step up in the path', 'invalid_arguments', 'wp_note', '{"id": "1", "to": "..", "text": "a"}'),
    ('nothing in the path', 'invalid_arguments', 'wp_note', '{"id": "1", "to": "", "text": "a"}'),
    ('an object in a header', 'invalid_arguments', 'wp_note', '{"id": "1", "to": "x", "text": {"a": 1}}'),
    ('an identity of an empty string', 'invalid_identity', 'wp_note', '{"id": "", "to": "x", "text": "a"}'),
    ('an identity of an object', 'invalid_identity', 'wp_note', '{"id": {"a": 1}, "to": "x", "text": "a"}'),
    ('an identity with a control character', 'invalid_identity', 'wp_note', '{"id": "a\tb", "to": "x", "text": "a"}'),
    ('an identity that is too long', 'invalid_identity', 'wp_note', jsonb_build_object('id', repeat('x', 300), 'to', 'x', 'text', 'a')),
    ('a taken identity with other arguments', 'identity_conflict', 'wp_refund', pg_temp.good('{"refund_id": "TAKEN", "amount": 6}')),
    ('an identity that another has', 'identity_conflict', 'wp_note', '{"id": "theirs", "to": "x", "text": "x"}'),
    ('a tool that the role may not perform', 'forbidden', 'wp_payout', '{"amount": 5}'),
    ('wrong arguments for a tool that the role may not perform', 'invalid_arguments', 'wp_payout', '{"amount": "5"}'),
    ('over the limit', 'check_refused', 'wp_checked', '{"id": "1", "amount": 501, "customer": "ada"}'),
    ('somebody else''s', 'check_refused', 'wp_checked', '{"id": "2", "amount": 5, "customer": "bob"}'),
    ('over the limit, and of the wrong type', 'invalid_arguments', 'wp_checked', '{"id": "3", "amount": "501"}'),
    ('more than fits', 'request_too_large', 'wp_note', jsonb_build_object('id', 'big', 'to', 'x', 'text', repeat('x', 200000)));
INSERT INTO proposal (what, code, tool, args, identity) VALUES
    ('an explicit identity, empty', 'invalid_identity', 'wp_refund', pg_temp.good('{}'), ''),
    ('an explicit identity of two lines', 'invalid_identity', 'wp_refund', pg_temp.good('{}'), E'a\nb'),
    ('an explicit identity, too long', 'invalid_identity', 'wp_refund', pg_temp.good('{}'), repeat('i', 201)),
    ('an explicit identity of another tool''s action', 'identity_conflict', 'wp_note', '{"id": "1", "to": "x", "text": "a"}', 'refund:TAKEN');
INSERT INTO proposal (what, code, tool, args, options) VALUES
    ('options an array', 'invalid_arguments', 'wp_refund', pg_temp.good('{}'), '[]'),
    ('an option misspelt', 'invalid_arguments', 'wp_refund', pg_temp.good('{}'), '{"priorty": 1}'),
    ('an option made up', 'invalid_arguments', 'wp_refund', pg_temp.good('{}'), '{"dry_run": true}'),
    ('a priority too high', 'invalid_arguments', 'wp_refund', pg_temp.good('{}'), '{"priority": 1e30}'),
    ('a time in words', 'invalid_arguments', 'wp_refund', pg_temp.good('{}'), '{"not_before": "next tuesday-ish"}'),
    ('a time in words that PostgreSQL knows', 'invalid_arguments', 'wp_refund', pg_temp.good('{}'), '{"not_before": "tomorrow"}'),
    ('a time without a zone', 'invalid_arguments', 'wp_refund', pg_temp.good('{}'), '{"not_before": "2099-12-01 10:00"}'),
    ('an option of perform_many', 'invalid_arguments', 'wp_refund', pg_temp.good('{}'), '{"on_error": "skip"}'),
    ('options and arguments', 'invalid_arguments', 'wp_refund', pg_temp.good('{"amount": "7"}'), '{"priority": "high"}');
INSERT INTO proposal (what, code, tool, args, who) VALUES
    ('nobody''s tool', 'forbidden', 'wp_refund', pg_temp.good('{}'), 'regress_al_stranger'),
    ('a tool misspelt by who may not perform it', 'unknown_tool', 'wp_refnud', pg_temp.good('{}'), 'regress_al_stranger');

-- perform raises: the SQLSTATE of the code.
SET actionledger.max_request_size = '100kB';
CREATE TEMP TABLE kind (code text, state text);
INSERT INTO kind VALUES ('unknown_tool', 'LG001'), ('missing_arguments', 'LG002'), ('unknown_arguments', 'LG003'), ('invalid_arguments', 'LG004'), ('forbidden', 'LG005'),
    ('check_refused', 'LG006'), ('identity_conflict', 'LG007'), ('invalid_identity', 'LG008'), ('request_too_large', 'LG009');
CREATE FUNCTION pg_temp.state_of(p proposal) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('role', p.who, true);
    PERFORM actionledger.perform(p.tool, p.args, p.identity, 'run-1', p.n, p.options);
    RETURN 'recorded';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE;
END $$;
SELECT p.what, k.state AS expected, s.state FROM proposal p JOIN kind k USING (code), LATERAL (SELECT pg_temp.state_of(p) AS state) s WHERE s.state <> k.state;
SELECT count(*) >= 60 AS enough, count(*) = count(DISTINCT what) AS different, count(*) FILTER (WHERE k.code IS NULL) AS without FROM proposal LEFT JOIN kind k USING (code);

-- try_perform answers, and raises nothing.
CREATE TEMP TABLE answer (n int, envelope jsonb);
CREATE FUNCTION pg_temp.answer_of(p proposal) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE envelope jsonb;
BEGIN
    PERFORM set_config('role', p.who, true);
    envelope := actionledger.try_perform(p.tool, p.args, p.identity, 'run-1', p.n, p.options);
    PERFORM set_config('role', 'none', true);
    RETURN envelope;
END $$;
INSERT INTO answer SELECT p.n, pg_temp.answer_of(p) FROM proposal p ORDER BY p.n;
SELECT p.what, p.code AS expected, envelope -> 'error' FROM proposal p JOIN answer USING (n) WHERE envelope #>> '{error,code}' IS DISTINCT FROM p.code;
-- All keys are always there, nothing is ok, and no advice says to retry.
SELECT count(*) = (SELECT count(*) FROM proposal) AS all_of_them,
    bool_and(envelope ->> 'ok' = 'false' AND envelope -> 'data' = 'null' AND (SELECT array_agg(k ORDER BY k) FROM jsonb_object_keys(envelope) k) = '{data,error,meta,ok}'
        AND (SELECT array_agg(k ORDER BY k) FROM jsonb_object_keys(envelope -> 'meta') k) = '{advice,as_of,confirmed_by,findings,left_out,observation,retry_after_s}'
        AND envelope #>> '{meta,observation}' LIKE '%othing was recorded%') AS well_formed,
    string_agg(DISTINCT envelope #>> '{meta,advice}', ' ') AS advice
FROM answer;
-- What each is told.
SELECT format('%s (%s, %s)%s', p.what, envelope #>> '{error,code}', envelope #>> '{meta,advice}',
    coalesce((SELECT string_agg(format(E'\n    %s: got %s, want %s%s', left(f ->> 'at', 60), coalesce(f ->> 'got', 'nothing'), f ->> 'want', coalesce(' -> ' || (f ->> 'suggest'), '')), '' ORDER BY o)
        FROM jsonb_array_elements(envelope #> '{meta,findings}') WITH ORDINALITY AS j(f, o) WHERE o <= 6), E'\n    ' || left(test.plain(envelope #>> '{meta,observation}'), 400)))
    || CASE WHEN envelope #> '{meta,left_out}' <> '[]' THEN E'\n    left out: ' || (envelope #>> '{meta,left_out}') ELSE '' END
FROM answer JOIN proposal p USING (n) ORDER BY p.n;

-- No action was recorded by any of them, and nothing sensitive by anybody.
SELECT count(*) FROM actionledger.actions WHERE tool LIKE 'wp\_%';
SELECT count(*) FROM actionledger.due d JOIN actionledger.action USING (action_id) JOIN actionledger.tool t USING (tool_id) WHERE t.name LIKE 'wp\_%';
SELECT count(*) FROM actionledger.refusal r WHERE (to_jsonb(r) - 'at')::text LIKE '%4111%';
SELECT count(*) FROM answer WHERE envelope::text LIKE '%4111%';
-- The refusals are, with the run and the step, for who proposed them.
SELECT count(*) = (SELECT count(*) FROM proposal) AS all_of_them, count(DISTINCT (run_id, step)) = count(*) AS steps, count(DISTINCT code) AS codes, max(length(tool)) AS longest_name FROM actionledger.refusals;
SET ROLE regress_al_stranger;
SELECT tool, code, message, findings, run_id, requested_by FROM actionledger.refusals ORDER BY refusal_id;
SELECT * FROM actionledger.refusal;
RESET ROLE;
RESET actionledger.max_request_size;

-- One whole answer, and the same proposal corrected as it says.
SELECT jsonb_pretty(envelope #- '{meta,as_of}') FROM answer JOIN proposal USING (n) WHERE what = 'a number as a string';
CREATE FUNCTION pg_temp.correct(args jsonb, envelope jsonb) RETURNS jsonb LANGUAGE sql AS $$
    SELECT args || jsonb_object_agg(substr(f ->> 'at', 2), (f ->> 'suggest')::jsonb) FROM jsonb_array_elements(envelope #> '{meta,findings}') f $$;
BEGIN;
SELECT p.what, t.e ->> 'ok' AS ok, t.e #>> '{data,status}' AS status, t.e #>> '{data,created}' AS created, t.e #>> '{error,code}' AS code, test.plain(t.e #>> '{meta,observation}')
FROM proposal p JOIN answer USING (n), LATERAL (SELECT actionledger.try_perform(p.tool, pg_temp.correct(p.args - '{amuont,ammount,amout,payment_intnt}'::text[], envelope) ||
    CASE WHEN what = 'a string as a number' THEN '{}' ELSE jsonb_build_object('refund_id', 'C' || n) END) AS e) t
WHERE p.what IN ('a number as a string', 'misspelt and so missing', 'misspelt and so missing, and of the wrong type', 'two misspelt', 'an enum nearly', 'a string as a number') ORDER BY p.n;
ROLLBACK;

-- What is no refusal passes through, and the transaction is as it was.
\set VERBOSITY terse
BEGIN;
SET LOCAL statement_timeout = '1ms';
SELECT actionledger.try_perform('wp_refund', pg_temp.good(jsonb_build_object('refund_id', 'T' || i))) IS NULL FROM generate_series(1, 10000) i;
ROLLBACK;
BEGIN READ ONLY;
SELECT actionledger.try_perform('wp_refund', '{}');
ROLLBACK;
-- A refusal and an action in one transaction go together.
BEGIN;
SELECT actionledger.try_perform('wp_refund', pg_temp.good('{"refund_id": "GONE"}')) ->> 'ok', actionledger.try_perform('wp_refund', '{}') ->> 'ok';
ROLLBACK;
SELECT (SELECT count(*) FROM actionledger.actions WHERE identity = 'refund:GONE'), (SELECT count(*) FROM actionledger.refusals WHERE run_id IS NULL);

-- Refusals that are old enough go with the next one.
UPDATE actionledger.refusal SET at = now() - interval '31 days' WHERE refusal_id % 5 = 0;
SELECT actionledger.try_perform('wp_refund', '{}') #>> '{error,code}';
SELECT count(*) FROM actionledger.refusal WHERE at < now() - interval '30 days';
SELECT actionledger.try_perform('wp_refund', '{}') #>> '{error,code}';
SELECT count(*) FROM actionledger.refusal WHERE at < now() - interval '30 days';
DROP OWNED BY regress_al_agent, regress_al_stranger;
DROP ROLE regress_al_agent, regress_al_stranger;
