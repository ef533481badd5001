-- Evidence from outside: callbacks, findings, outside executors.

CREATE FUNCTION actionledger.report_outcome(action_id bigint, verdict text, evidence jsonb)
    RETURNS actionledger.decided LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_report_outcome';
COMMENT ON FUNCTION actionledger.report_outcome(bigint, text, jsonb) IS
    'Add evidence to an action: a provider''s callback, a person''s finding, an executor''s result (with its token in the evidence). verdict: confirmed, rejected (it did not happen and will not), in_progress, unknown, not_sent (executors only). '
    'What says the contrary of an action at rest changes nothing and is shown in conflicts; the same evidence twice is one. LG014 unknown or not visible, LG017 a token that this action never had, LG012 not_sent without a claim';

CREATE FUNCTION actionledger.report_outcome_by_identity(service text, identity text, verdict text, evidence jsonb)
    RETURNS actionledger.decided LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_report_outcome_by_identity';
COMMENT ON FUNCTION actionledger.report_outcome_by_identity(text, text, text, jsonb) IS 'The same for the action with this identity at a service';

CREATE TYPE actionledger.claimed AS (
    action_id        bigint,
    token            bigint,
    identity         text,
    idempotency_key  text,
    args             jsonb,
    attempt          int,
    lease_ends_at    timestamptz,
    resend           bool
);
COMMENT ON TYPE actionledger.claimed IS 'An action that an outside executor has claimed. resend: an earlier attempt may have happened, so the same key must go with it';

CREATE FUNCTION actionledger.claim(tool text, max int DEFAULT 1, lease interval DEFAULT NULL)
    RETURNS SETOF actionledger.claimed LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_claim';
COMMENT ON FUNCTION actionledger.claim(text, int, interval) IS
    'Take due actions of a tool with transport external, at most max, for as long as the lease (default and most: the tool''s timeout). COMMIT before acting: only then is the claim durable and somebody else kept from it. '
    'Then report_outcome with {"token": ...}; a lease that ends without a report is an unknown outcome. For members of the tool''s owner and operators. LG005, LG012 for a tool that the ledger sends itself, LG019 where nothing may be sent from';

CREATE FUNCTION actionledger.heartbeat(action_id bigint, token bigint, lease interval DEFAULT NULL,
        OUT lease_ends_at timestamptz, OUT cancel_requested bool)
    RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_heartbeat';
COMMENT ON FUNCTION actionledger.heartbeat(bigint, bigint, interval) IS
    'Extend the lease of a claim from now on. LG017 when the claim has ended: stop. cancel_requested: somebody asks that it not happen; report not_sent if it has not';

CREATE FUNCTION actionledger.reconcile(OUT what text, OUT n bigint)
    RETURNS SETOF record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_reconcile';
COMMENT ON FUNCTION actionledger.reconcile() IS
    'Settle what needs no network, as a dispatcher does by itself: attempts whose dispatcher has died, leases that are over, expired actions and approvals. For any scheduler, where no dispatcher runs; safe beside one';

REVOKE ALL ON FUNCTION actionledger.claim(text, int, interval), actionledger.heartbeat(bigint, bigint, interval),
    actionledger.reconcile() FROM PUBLIC;

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
