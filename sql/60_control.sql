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
