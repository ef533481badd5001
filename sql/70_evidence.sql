-- Evidence from outside: callbacks, findings, outside executors.

CREATE FUNCTION actionledger.report_outcome(action_id bigint, verdict text, evidence jsonb)
    RETURNS actionledger.decided LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_report_outcome';
COMMENT ON FUNCTION actionledger.report_outcome(bigint, text, jsonb) IS
    'Add evidence to an action: a provider''s callback, a person''s finding, an executor''s result (with its token in the evidence). verdict: confirmed, rejected (it did not happen and will not), in_progress, unknown, not_sent (executors only). '
    'What says the contrary of an action at rest changes nothing and is shown in conflicts; the same evidence twice is one. LG014 unknown or not visible, LG017 a token that this action never had, LG012 not_sent without a claim';

CREATE FUNCTION actionledger.report_outcome_by_identity(service text, identity text, verdict text, evidence jsonb)
    RETURNS actionledger.decided LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_report_outcome_by_identity';
COMMENT ON FUNCTION actionledger.report_outcome_by_identity(text, text, text, jsonb) IS 'The same for the action with this identity at a service';

-- Whoever takes callbacks is given EXECUTE by the administrator.
REVOKE ALL ON FUNCTION actionledger.report_outcome(bigint, text, jsonb),
    actionledger.report_outcome_by_identity(text, text, text, jsonb) FROM PUBLIC;

CREATE VIEW actionledger.conflicts WITH (security_barrier) AS
    SELECT e.action_id, date_trunc('second', now() - e.at) AS age, t.name AS tool, a.summary, a.status, e.verdict AS says, e.source,
           coalesce(e.evidence, jsonb_build_object('detail', e.note)) AS evidence, e.at,
           (SELECT k.by_whom FROM actionledger.event k
             WHERE k.action_id = e.action_id AND k.what = 'acknowledged' AND k.event_id > e.event_id
             ORDER BY k.event_id LIMIT 1) AS acknowledged_by
    FROM actionledger.event e JOIN actionledger.action a USING (action_id) JOIN actionledger.tool t USING (tool_id)
    WHERE e.what = 'conflict' AND actionledger._may_see(a.requested_by, a.owner);
COMMENT ON VIEW actionledger.conflicts IS 'Evidence that says the contrary of what had been decided: kept, never applied to an action at rest';
GRANT SELECT ON actionledger.conflicts TO PUBLIC;
