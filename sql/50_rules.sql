-- The deciding code, reachable from SQL: to try a rule out, and for the tests.

CREATE FUNCTION actionledger._classify(ending text, prereqs int, head_complete bool, http_status int, framing_complete bool DEFAULT true,
        upload_complete bool DEFAULT true, replayed bool DEFAULT false, key_honoured bool DEFAULT false, earlier_open bool DEFAULT false,
        OUT verdict text, OUT category text, OUT transient bool, OUT configuration bool, OUT conclusive bool, OUT ends_resending bool)
    RETURNS record LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'al_sql_classify';
COMMENT ON FUNCTION actionledger._classify(text, int, bool, int, bool, bool, bool, bool, bool) IS 'What an attempt that ended like this proves';

CREATE FUNCTION actionledger._decide(action_type text, known text, key_state text DEFAULT 'not_honoured', budget text DEFAULT 'open',
        lookup text DEFAULT 'none', stop text DEFAULT 'no', resend bool DEFAULT false,
        OUT status text, OUT next_step text, OUT due text, OUT error_code text)
    RETURNS record LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'al_sql_decide';
COMMENT ON FUNCTION actionledger._decide(text, text, text, text, text, text, bool) IS 'The state machine: what may happen next. key_state: not_honoured, open, passed; budget: open, used_up; lookup: none, open, used_up; stop: no, cancelled, expired; resend: the tool allows one send more after a proved absence, and it has not been used';

CREATE FUNCTION actionledger._fold(action_type text, known text, verdict text, transient bool DEFAULT false,
        conclusive bool DEFAULT false, ends_resending bool DEFAULT false)
    RETURNS text LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'al_sql_fold';
COMMENT ON FUNCTION actionledger._fold(text, text, text, bool, bool, bool) IS 'What all attempts prove together, after one more';

CREATE FUNCTION actionledger._fold_lookup(action_type text, known text, finding text, authoritative bool DEFAULT false,
        processed bool DEFAULT false, never_sent bool DEFAULT false)
    RETURNS text LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'al_sql_fold_lookup';
COMMENT ON FUNCTION actionledger._fold_lookup(text, text, text, bool, bool, bool) IS 'What is known after a lookup. finding: nothing_sure, confirmed, rejected, rejected_transient, in_progress, none, several; processed: it began after the max processing time since the last send was over; never_sent: nothing was sent from here';

CREATE FUNCTION actionledger._backoff(failures int, base interval, cap interval, unit float8)
    RETURNS interval LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'al_sql_backoff';
COMMENT ON FUNCTION actionledger._backoff(int, interval, interval, float8) IS 'The delay after so many failures; unit in [0, 1) is the jitter';

CREATE FUNCTION actionledger._retry_after(value text, at timestamptz)
    RETURNS int LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'al_sql_retry_after';
COMMENT ON FUNCTION actionledger._retry_after(text, timestamptz) IS 'Seconds that a Retry-After value asks for (RFC 9110 section 10.2.3); NULL when it is none';

CREATE FUNCTION actionledger._canonical(value jsonb)
    RETURNS text LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'al_sql_canonical';
COMMENT ON FUNCTION actionledger._canonical(jsonb) IS 'Canonical JSON (RFC 8785), exact for numbers that a double cannot hold';

CREATE FUNCTION actionledger._schema_check(schema jsonb)
    RETURNS text LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'al_sql_schema_check';
COMMENT ON FUNCTION actionledger._schema_check(jsonb) IS 'Accept or refuse a JSON Schema as create_tool would';

CREATE FUNCTION actionledger._schema_validate(schema jsonb, value jsonb)
    RETURNS jsonb LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'al_sql_schema_validate';
COMMENT ON FUNCTION actionledger._schema_validate(jsonb, jsonb) IS 'Findings of a value against a JSON Schema';

REVOKE ALL ON FUNCTION actionledger._classify(text, int, bool, int, bool, bool, bool, bool, bool), actionledger._decide(text, text, text, text, text, text, bool), actionledger._fold_lookup(text, text, text, bool, bool, bool),
    actionledger._fold(text, text, text, bool, bool, bool), actionledger._backoff(int, interval, interval, float8), actionledger._retry_after(text, timestamptz), actionledger._canonical(jsonb),
    actionledger._schema_check(jsonb), actionledger._schema_validate(jsonb, jsonb)
    FROM PUBLIC;
