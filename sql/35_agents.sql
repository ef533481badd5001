-- What agents call, and what is known of how they do.

CREATE SEQUENCE actionledger.refusal_seq;
COMMENT ON SEQUENCE actionledger.refusal_seq IS 'Numbers refused proposals';
CREATE TABLE actionledger.refusal (
    refusal_id    bigint PRIMARY KEY DEFAULT nextval('actionledger.refusal_seq'),
    at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    tool          text,
    code          text NOT NULL,
    message       text NOT NULL,
    findings      jsonb NOT NULL DEFAULT '[]',
    identity      text,
    run_id        text,
    step          int,
    requested_by  text NOT NULL,
    session_by    text,
    actor         text
);
COMMENT ON TABLE actionledger.refusal IS 'Proposals that try_perform refused, without their arguments; only appended, kept for actionledger.refusal_retention';
COMMENT ON COLUMN actionledger.refusal.tool IS 'Name as proposed, cut short; there need not be such a tool';
CREATE INDEX refusal_at ON actionledger.refusal (at);
CREATE INDEX refusal_run ON actionledger.refusal (run_id, step) WHERE run_id IS NOT NULL;
SELECT pg_catalog.pg_extension_config_dump('actionledger.refusal', '');
SELECT pg_catalog.pg_extension_config_dump('actionledger.refusal_seq', '');

CREATE FUNCTION actionledger.try_perform(tool text, args jsonb, identity text DEFAULT NULL, run_id text DEFAULT NULL,
        step int DEFAULT NULL, options jsonb DEFAULT '{}')
    RETURNS jsonb LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_try_perform';
COMMENT ON FUNCTION actionledger.try_perform(text, jsonb, text, text, int, jsonb) IS
    'perform for callers that cannot handle an error: the envelope, whatever was proposed. A refusal has its code in error and what to send instead in meta.findings, and is recorded with run_id and step';

CREATE FUNCTION actionledger.wait_many(action_ids bigint[], timeout interval DEFAULT '10s')
    RETURNS SETOF jsonb LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_wait_many';
COMMENT ON FUNCTION actionledger.wait_many(bigint[], interval) IS
    'Wait until none of up to 1000 actions changes by itself any more, at most 60 s, and return their envelopes in the order of the input. LG010 as for wait; LG014 when one is not there';

CREATE VIEW actionledger.refusals WITH (security_barrier) AS
    SELECT r.refusal_id, r.at, r.tool, r.code, r.message, r.findings, r.identity, r.run_id, r.step, r.requested_by, r.actor
    FROM actionledger.refusal r
    WHERE actionledger._may_see(r.requested_by, NULL);
COMMENT ON VIEW actionledger.refusals IS 'Proposals of yours that try_perform refused, and why; all of them for operators';
GRANT SELECT ON actionledger.refusals TO PUBLIC;

CREATE FUNCTION actionledger.tool_specs(format text)
    RETURNS jsonb LANGUAGE c STABLE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_tool_specs';
COMMENT ON FUNCTION actionledger.tool_specs(text) IS
    'The tools that the current role may perform, as function specifications: openai, anthropic (arrays of tools) or mcp (a result of tools/list). LG015 for a name that the format cannot have';

CREATE TYPE actionledger.imported_tool AS (
    tool      text,
    imported  bool,
    message   text
);
COMMENT ON TYPE actionledger.imported_tool IS 'Answer of import_mcp_tools for one tool: imported, or why not';

CREATE FUNCTION actionledger.import_mcp_tools(tools jsonb, service text, options jsonb DEFAULT '{}')
    RETURNS SETOF actionledger.imported_tool LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_import_mcp_tools';
COMMENT ON FUNCTION actionledger.import_mcp_tools(jsonb, text, jsonb) IS
    'Define the tools of a Model Context Protocol server, from its answer to tools/list, at a service. Its hints are not believed: each is non_idempotent and every action waits for approval. '
    'options: request (POST /mcp), options (of every tool), replace, all_or_nothing';
REVOKE ALL ON FUNCTION actionledger.import_mcp_tools(jsonb, text, jsonb) FROM PUBLIC;
