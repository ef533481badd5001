-- Services and tools.  EXECUTE on these functions makes an administrator.

CREATE FUNCTION actionledger.create_service(name text, base_url text, options jsonb DEFAULT '{}', replace bool DEFAULT false)
    RETURNS text LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_create_service';
COMMENT ON FUNCTION actionledger.create_service(text, text, jsonb, bool) IS 'Define a destination. Returns "ready" or what is missing. LG015 names the wrong option by JSON Pointer';

CREATE FUNCTION actionledger.alter_service(name text, options jsonb)
    RETURNS text LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_alter_service';
COMMENT ON FUNCTION actionledger.alter_service(text, jsonb) IS 'Change options by JSON merge patch (RFC 7396): null removes. Requests already prepared stay as they are; base_url may be among the options';

CREATE FUNCTION actionledger.drop_service(name text, force bool DEFAULT false)
    RETURNS text LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_drop_service';
COMMENT ON FUNCTION actionledger.drop_service(text, bool) IS 'Remove a destination that no tool uses any more. LG016 while tools or history use it';

CREATE FUNCTION actionledger.create_tool(name text, service text, request text, action_type text DEFAULT 'non_idempotent',
        identity text DEFAULT NULL, input jsonb DEFAULT '{}', options jsonb DEFAULT '{}', replace bool DEFAULT false)
    RETURNS text LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_create_tool';
COMMENT ON FUNCTION actionledger.create_tool(text, text, text, text, text, jsonb, jsonb, bool) IS 'Define an action type at a service: request "METHOD /path", JSON Schema of its arguments, identity template, options. LG015 names what is wrong by JSON Pointer';

CREATE FUNCTION actionledger.alter_tool(name text, options jsonb)
    RETURNS text LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_alter_tool';
COMMENT ON FUNCTION actionledger.alter_tool(text, jsonb) IS 'Change options by JSON merge patch (RFC 7396). Requests already prepared are sent as they were frozen';

CREATE FUNCTION actionledger.drop_tool(name text, force bool DEFAULT false)
    RETURNS text LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_drop_tool';
COMMENT ON FUNCTION actionledger.drop_tool(text, bool) IS 'Retire a tool. LG016 while it has live actions; with force they are blocked, never sent, and an operator decides';

CREATE FUNCTION actionledger.grant_tool(tool text, role text)
    RETURNS text LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_grant_tool';
COMMENT ON FUNCTION actionledger.grant_tool(text, text) IS 'Let a role and its members perform a tool';

CREATE FUNCTION actionledger.revoke_tool(tool text, role text)
    RETURNS text LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_revoke_tool';
COMMENT ON FUNCTION actionledger.revoke_tool(text, text) IS 'Take the permission back; actions of that role that are not yet sent are blocked at send';

-- Who may see an action: its requester and members of that role, the tool's
-- owner, operators.
CREATE FUNCTION actionledger._may_see(requested_by text, owner text)
    RETURNS bool LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'al_sql_may_see';
COMMENT ON FUNCTION actionledger._may_see(text, text) IS 'Visibility of an action for the current role';

-- A tool is seen by who may perform it; its options, and services, by who looks
-- after them, since a header may hold more than a reference to a secret.
CREATE VIEW actionledger.tools WITH (security_barrier) AS
    SELECT t.name AS tool, s.name AS service, t.request, t.action_type, t.identity, t.input,
           CASE WHEN x.looks_after THEN t.options END AS options,
           t.options ->> 'owner' AS owner,
           ARRAY(SELECT g.role FROM actionledger.tool_grant g WHERE g.tool_id = t.tool_id ORDER BY g.role) AS granted_to,
           t.created_by, t.created_at, t.altered_at
    FROM actionledger.tool t JOIN actionledger.service s USING (service_id),
         LATERAL (SELECT actionledger._may_see(t.created_by, t.options ->> 'owner') OR
                         has_function_privilege('actionledger.create_tool(text,text,text,text,text,jsonb,jsonb,bool)', 'EXECUTE') AS looks_after) x
    WHERE t.dropped_at IS NULL
      AND (x.looks_after OR EXISTS (SELECT FROM actionledger.tool_grant g WHERE g.tool_id = t.tool_id AND actionledger._may_see(g.role, NULL)));
COMMENT ON VIEW actionledger.tools IS 'Action types that you may perform or look after; options only for who looks after them';

CREATE FUNCTION actionledger.set_secret(name text, value text)
    RETURNS text LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_set_secret';
COMMENT ON FUNCTION actionledger.set_secret(text, text) IS
    'Set the secret that services refer to as {secret:name}; NULL removes it. It can be written, never read. A file of that name in actionledger.secret_directory comes first. Mind that a literal in a statement reaches the server log and pg_stat_statements: prefer files, or pass it as a parameter';

CREATE VIEW actionledger.services WITH (security_barrier) AS
    SELECT s.name, s.base_url, s.options, s.created_by, s.created_at, s.altered_at
    FROM actionledger.service s
    WHERE actionledger._may_see(s.created_by, NULL) OR has_function_privilege('actionledger.create_service(text,text,jsonb,bool)', 'EXECUTE');
COMMENT ON VIEW actionledger.services IS 'Destinations as defined, for administrators and operators';

GRANT SELECT ON actionledger.tools, actionledger.services TO PUBLIC;

-- An administrator is whoever may execute the functions that define.
REVOKE ALL ON FUNCTION
    actionledger.create_service(text, text, jsonb, bool), actionledger.alter_service(text, jsonb), actionledger.drop_service(text, bool),
    actionledger.create_tool(text, text, text, text, text, jsonb, jsonb, bool), actionledger.alter_tool(text, jsonb), actionledger.drop_tool(text, bool),
    actionledger.grant_tool(text, text), actionledger.revoke_tool(text, text), actionledger.set_secret(text, text)
    FROM PUBLIC;
