-- Whether tools are ready: what keeps an unknown outcome from staying unknown.

CREATE FUNCTION actionledger._readiness(tool_id int, OUT ready bool, OUT identity text, OUT idempotency text, OUT timeouts text,
        OUT lookup text, OUT retries text, OUT owner text, OUT approval text, OUT "do" text)
    RETURNS record LANGUAGE c STABLE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_sql_readiness';
COMMENT ON FUNCTION actionledger._readiness(int) IS 'The checklist of a tool, nulls for who neither may perform it nor looks after it';

CREATE VIEW actionledger.readiness WITH (security_barrier) AS
    SELECT t.name AS tool, t.action_type, r.ready, r.identity, r.idempotency, r.timeouts, r.lookup, r.retries, r.owner, r.approval, r.do
    FROM actionledger.tool t, actionledger._readiness(t.tool_id) r
    WHERE t.dropped_at IS NULL AND r.ready IS NOT NULL;
COMMENT ON VIEW actionledger.readiness IS 'What each tool has of identity, declared idempotency, timeouts, lookup, bounded retries and owner; empty: missing. Without an approval policy, every action of a consequential tool that is not ready waits for approval';
GRANT SELECT ON actionledger.readiness TO PUBLIC;
