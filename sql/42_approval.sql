-- Approval: what waits for a person, and the person's verbs.

CREATE FUNCTION actionledger._request_hash(method text, url text, headers text, body bytea)
    RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN pg_catalog.encode(pg_catalog.sha256(
        pg_catalog.convert_to(method || E'\n' || url || E'\n' || headers || E'\n\n', 'UTF8') || coalesce(body, '')), 'hex');
COMMENT ON FUNCTION actionledger._request_hash(text, text, text, bytea) IS 'What an approval is bound to: SHA-256 of the frozen method, URL, header lines and body';

CREATE FUNCTION actionledger.speak_for_others()
    RETURNS bool LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN true;
COMMENT ON FUNCTION actionledger.speak_for_others() IS 'EXECUTE on it marks a pooled role, which speaks for persons or agents: the actor that it names counts as who asked, and its login does not';
REVOKE ALL ON FUNCTION actionledger.speak_for_others() FROM PUBLIC;

CREATE FUNCTION actionledger._may_approve(approver text, owner text)
    RETURNS bool LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'al_sql_may_approve';
COMMENT ON FUNCTION actionledger._may_approve(text, text) IS 'Whether the current role is one of those who approve an action';

CREATE FUNCTION actionledger.approve(action_id bigint, note text DEFAULT NULL, seen_hash text DEFAULT NULL)
    RETURNS actionledger.decided LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_approve';
COMMENT ON FUNCTION actionledger.approve(bigint, text, text) IS
    'Let an action that waits for approval be sent. For members of the role that its tool names, else the tool''s owner and operators, and never for who asked for it. '
    'seen_hash: the hash that the view approvals showed. LG013 when it is another, when the time for it is over, or when the action does not wait (any more)';

CREATE FUNCTION actionledger.approve_many(action_ids bigint[], note text DEFAULT NULL)
    RETURNS SETOF actionledger.decided LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_approve_many';
COMMENT ON FUNCTION actionledger.approve_many(bigint[], text) IS 'Approve several actions: all of them, or none and the error of the first that cannot be';

CREATE FUNCTION actionledger.reject(action_id bigint, note text)
    RETURNS actionledger.decided LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_reject';
COMMENT ON FUNCTION actionledger.reject(bigint, text) IS 'Refuse an action that waits for approval: failed (approval_rejected), nothing is sent. For those who may approve it; the note is shown to who asked';

CREATE FUNCTION actionledger.request_approval(tool text, args jsonb, reason text, identity text DEFAULT NULL)
    RETURNS jsonb LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_request_approval';
COMMENT ON FUNCTION actionledger.request_approval(text, jsonb, text, text) IS
    'Record an action that waits for approval, although its tool''s business check objects (or nothing asks for one): what a person may allow beyond the rules. Arguments and permission are validated as for perform. Returns the envelope, with a refusal in it rather than an error; LG004 without a reason';

CREATE VIEW actionledger.approvals WITH (security_barrier) AS
    SELECT a.action_id, date_trunc('second', now() - a.created_at) AS age, t.name AS tool, a.summary, a.target,
           a.approval_reason AS reason,
           coalesce(a.approver, a.owner || ' or an operator', 'an operator') AS by,
           a.approve_by AS expires_at, a.requested_by, a.actor, x.hash,
           CASE WHEN a.approve_by <= clock_timestamp() THEN 'nothing: the time for it is over'
                ELSE format('SELECT * FROM actionledger.approve(%s, ''why'', %L); -- or actionledger.reject(%s, ''why not'')', a.action_id, x.hash, a.action_id)
           END AS do
    FROM actionledger.due d JOIN actionledger.action a USING (action_id) JOIN actionledger.tool t USING (tool_id),
         LATERAL (SELECT actionledger._request_hash(a.method, a.url, a.headers, a.body) AS hash) x
    WHERE a.next_step = 'approve' AND (actionledger._may_approve(a.approver, a.owner) OR actionledger._may_see(a.requested_by, a.owner));
COMMENT ON VIEW actionledger.approvals IS 'Actions that wait for approval: why, by whom, until when, the hash of the frozen request, and the statement to paste';
GRANT SELECT ON actionledger.approvals TO PUBLIC;

CREATE FUNCTION actionledger.supersede(action_id bigint, args jsonb, note text)
    RETURNS actionledger.decided LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_supersede';
COMMENT ON FUNCTION actionledger.supersede(bigint, jsonb, text) IS
    'Record a deliberate second action in the place of one that is over (confirmed or failed): the same tool, identity#2 and so on, linked in both timelines, validated like perform. Asked for again it is the same second one. LG012 while the outcome of the first is open, or evidence contradicts it';
