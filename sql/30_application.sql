-- What applications call.

CREATE TYPE actionledger.performed AS (
    action_id    bigint,
    identity     text,
    status       text,
    created      bool,
    next_step    text,
    observation  text
);
COMMENT ON TYPE actionledger.performed IS 'Answer of perform: which action stands for the request, whether this call created it, and what to do next in plain words';

CREATE FUNCTION actionledger.perform(tool text, args jsonb, identity text DEFAULT NULL, run_id text DEFAULT NULL,
        step int DEFAULT NULL, options jsonb DEFAULT '{}')
    RETURNS actionledger.performed
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_perform';
COMMENT ON FUNCTION actionledger.perform(text, jsonb, text, text, int, jsonb) IS
    'Record an intended action in this transaction; it is sent after commit. The same identity with the same arguments returns the first action with created = false; with other arguments LG007. '
    'options: priority (1, 0, -1), not_before, expires_at, if_unavailable (queue, refuse), actor, meta. Errors: LG001 unknown tool, LG002 missing, LG003 unknown, LG004 invalid arguments, LG005 forbidden, LG008 invalid identity, LG009 too large, LG019 identity held by another transaction for too long';

CREATE TYPE actionledger.performed_item AS (
    item       int,
    action_id  bigint,
    identity   text,
    status     text,
    created    bool,
    error      jsonb
);
COMMENT ON TYPE actionledger.performed_item IS 'Answer of perform_many for one item, in input order';

CREATE FUNCTION actionledger.perform_many(tool text, args jsonb[], identities text[] DEFAULT NULL, options jsonb DEFAULT '{}')
    RETURNS SETOF actionledger.performed_item
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_perform_many';
COMMENT ON FUNCTION actionledger.perform_many(text, jsonb[], text[], jsonb) IS
    'Record many actions of one tool at once, inserted in the order of their identities. options.on_error: raise (default) or skip, which reports the error of an item in its row';

CREATE FUNCTION actionledger.result(action_id bigint)
    RETURNS jsonb LANGUAGE c STABLE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_result';
COMMENT ON FUNCTION actionledger.result(bigint) IS 'The envelope of an action: {ok, data, error, meta}; ok only when confirmed. LG014 when there is none that you may see';

CREATE FUNCTION actionledger.result_by_identity(service text, identity text)
    RETURNS jsonb LANGUAGE c STABLE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_result_by_identity';
COMMENT ON FUNCTION actionledger.result_by_identity(text, text) IS 'The envelope of the action with this identity at a service. LG014 when there is none that you may see';

CREATE FUNCTION actionledger.wait(action_id bigint, timeout interval DEFAULT '10s')
    RETURNS jsonb LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_wait';
COMMENT ON FUNCTION actionledger.wait(bigint, interval) IS 'Wait until an action needs nobody to wait any longer (confirmed, failed, needs_reconciliation, or waiting for a person), at most 60 s, and return its envelope. LG010 in the transaction that performed it';
