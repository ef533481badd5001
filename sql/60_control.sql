-- Stopping and resuming.

CREATE TYPE actionledger.paused_scope AS (
    scope              text,
    name               text,
    state              text,
    waiting            bigint,
    in_flight          bigint,
    keys_expire_first  timestamptz
);
COMMENT ON TYPE actionledger.paused_scope IS 'Answer of pause and resume: paused or running; how many actions wait for it, how many requests are on their way all the same, and when the first key of those that wait is forgotten by its destination';

CREATE FUNCTION actionledger.pause_service(name text, reason text, what text DEFAULT 'writes')
    RETURNS actionledger.paused_scope LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_pause_service';
COMMENT ON FUNCTION actionledger.pause_service(text, text, text) IS
    'Send nothing to a service from the commit on. what: writes, or everything (lookups and reads too). Requests that were marked before go out: in_flight counts them. Actions go on to be recorded; retry window and expires_at stand still. On a paused one it changes reason and what';

CREATE FUNCTION actionledger.pause_tool(name text, reason text, what text DEFAULT 'writes')
    RETURNS actionledger.paused_scope LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_pause_tool';
COMMENT ON FUNCTION actionledger.pause_tool(text, text, text) IS 'The same for one tool';

CREATE FUNCTION actionledger.pause_all(reason text, what text DEFAULT 'writes')
    RETURNS actionledger.paused_scope LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_pause_all';
COMMENT ON FUNCTION actionledger.pause_all(text, text) IS 'The same for every tool of this database, those included that are defined later';

CREATE FUNCTION actionledger.resume_service(name text, reason text)
    RETURNS actionledger.paused_scope LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_resume_service';
COMMENT ON FUNCTION actionledger.resume_service(text, text) IS
    'Lift the pause of a service: what it held goes out in the order in which it was due. Other pauses stay; state says which. LG011 when there is none';

CREATE FUNCTION actionledger.resume_tool(name text, reason text)
    RETURNS actionledger.paused_scope LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_resume_tool';
COMMENT ON FUNCTION actionledger.resume_tool(text, text) IS 'The same for one tool';

CREATE FUNCTION actionledger.resume_all(reason text)
    RETURNS actionledger.paused_scope LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_resume_all';
COMMENT ON FUNCTION actionledger.resume_all(text) IS 'Lift the pause of everything; pauses of single services and tools stay, and state names them';

REVOKE ALL ON FUNCTION
    actionledger.pause_service(text, text, text), actionledger.pause_tool(text, text, text), actionledger.pause_all(text, text),
    actionledger.resume_service(text, text), actionledger.resume_tool(text, text), actionledger.resume_all(text)
    FROM PUBLIC;

CREATE VIEW actionledger.pauses WITH (security_barrier) AS
    SELECT p.scope, p.name, CASE WHEN p.resumed_at IS NULL THEN 'paused' ELSE 'resumed' END AS state, p.what, p.reason, p.paused_by, p.paused_at,
           p.resumed_by, p.resumed_at, p.resume_reason
    FROM actionledger.pause p;
COMMENT ON VIEW actionledger.pauses IS 'What is paused, or was: who, when, why';
GRANT SELECT ON actionledger.pauses TO PUBLIC;

-- Sorting what needs a person.

CREATE FUNCTION actionledger.assign(action_id bigint, owner text)
    RETURNS actionledger.decided LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_assign';
COMMENT ON FUNCTION actionledger.assign(bigint, text) IS 'Say who sees to an action that is live: a role, which must exist; NULL for nobody. LG011 when it is settled already';

CREATE FUNCTION actionledger.acknowledge(action_id bigint, note text)
    RETURNS actionledger.decided LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_acknowledge';
COMMENT ON FUNCTION actionledger.acknowledge(bigint, text) IS 'Note that a conflict, a duplicate or a failure has been seen, and what is done about it. A conflict leaves attention. LG011 when there is nothing of that kind';

CREATE FUNCTION actionledger.redrive(tool text, since timestamptz, until timestamptz, note text, dry_run bool DEFAULT true,
        OUT action_id bigint, OUT verb text, OUT will text)
    RETURNS SETOF record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_redrive';
COMMENT ON FUNCTION actionledger.redrive(text, timestamptz, timestamptz, text, bool) IS
    'Retry or look up what is blocked, in review or waits for a lookup, and was recorded in [since, until): all that the state machine allows, nothing else. NULL is any tool, any time. A dry run, the default, shows the same actions and changes nothing';

REVOKE ALL ON FUNCTION actionledger.assign(bigint, text), actionledger.acknowledge(bigint, text),
    actionledger.redrive(text, timestamptz, timestamptz, text, bool) FROM PUBLIC;

-- A person who has but a name, a number or a reference.
CREATE FUNCTION actionledger.find(what text)
    RETURNS SETOF actionledger.actions LANGUAGE sql STABLE PARALLEL UNSAFE
BEGIN ATOMIC
    SELECT a.* FROM actionledger.actions a
    WHERE what <> '' AND (a.action_id::text = what OR a.identity = what OR a.idempotency_key = what OR a.external_ref = what OR
                          a.target = what OR a.run_id = what OR starts_with(lower(a.summary), lower(what)))
    ORDER BY a.action_id DESC LIMIT 100;
END;
COMMENT ON FUNCTION actionledger.find(text) IS
    'Actions that you may see with this number, identity, key, external_ref, target or run_id, or a summary that begins like this; the latest 100. It reads the whole history';
