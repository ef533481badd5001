-- How tools do: for graphs, alerts, and the agent's owner.

CREATE FUNCTION actionledger._refused(OUT tool_id int, OUT code text, OUT refused bigint, OUT since timestamptz)
    RETURNS SETOF record LANGUAGE c VOLATILE PARALLEL SAFE AS 'MODULE_PATHNAME', 'al_sql_refused';
COMMENT ON FUNCTION actionledger._refused() IS 'Proposals refused in this database since the server''s start, by tool (0: there was none of that name; NULL: what found no room in the table, of all databases) and code';

-- Rows come in the order of time, so the blocks of the last day are few, and an
-- index of them costs next to nothing.
CREATE INDEX action_created ON actionledger.action USING brin (created_at) WITH (pages_per_range = 32, autosummarize = on);
CREATE INDEX attempt_started ON actionledger.attempt USING brin (started_at) WITH (pages_per_range = 32, autosummarize = on);
CREATE INDEX event_at ON actionledger.event USING brin (at) WITH (pages_per_range = 32, autosummarize = on);

CREATE VIEW actionledger.signals WITH (security_barrier) AS
    WITH period (period, length) AS (VALUES ('5m', interval '5 minutes'), ('1h', interval '1 hour'), ('24h', interval '24 hours')),
    created AS (
        SELECT p.period, a.tool_id, count(*) AS actions, count(*) FILTER (WHERE a.status = 'confirmed') AS confirmed,
               count(*) FILTER (WHERE a.status IN ('confirmed', 'failed', 'needs_reconciliation')) AS settled
        FROM actionledger.action a JOIN period p ON a.created_at > now() - p.length
        WHERE a.created_at > now() - interval '24 hours'
        GROUP BY p.period, a.tool_id),
    tried AS (
        SELECT p.period, a.tool_id,
               count(*) FILTER (WHERE x.kind <> 'lookup') AS sends,
               count(*) FILTER (WHERE x.kind <> 'lookup' AND x.finished_at IS NOT NULL) AS closed,
               count(*) FILTER (WHERE x.kind <> 'lookup' AND x.verdict = 'unknown') AS unknown,
               count(*) FILTER (WHERE x.kind <> 'lookup' AND EXISTS (SELECT FROM actionledger.attempt e
                                  WHERE e.action_id = x.action_id AND e.attempt < x.attempt AND e.kind <> 'lookup')) AS again,
               percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY x.total_us / 1000.0)
                   FILTER (WHERE x.kind <> 'lookup' AND x.sent) AS ms,
               count(*) FILTER (WHERE (x.verdict = 'confirmed' AND a.confirmed_by = 'replay') OR
                                      (x.kind = 'send' AND x.http_status / 100 IN (2, 4) AND r.replayed)) AS dup_prevented,
               count(*) FILTER (WHERE x.kind = 'lookup' AND x.category = 'several') AS dup_found
        FROM actionledger.attempt x JOIN actionledger.action a USING (action_id) JOIN period p ON x.started_at > now() - p.length
             JOIN actionledger.tool t ON t.tool_id = a.tool_id JOIN actionledger.service s ON s.service_id = a.service_id
             CROSS JOIN LATERAL (SELECT E'\n' || lower((CASE WHEN t.options ? 'idempotency' THEN t.options ELSE s.options END) #>> '{idempotency,replay_header}') AS mark) m
             CROSS JOIN LATERAL (SELECT strpos(E'\n' || lower(x.response_headers), m.mark || ': ') > 0 AND
                                        strpos(E'\n' || lower(x.response_headers), m.mark || E': false\n') = 0 AS replayed) r
        WHERE x.started_at > now() - interval '24 hours'
        GROUP BY p.period, a.tool_id),
    ended AS (
        SELECT w.period, w.tool_id, jsonb_object_agg(w.category, w.n) AS errors
        FROM (SELECT p.period, a.tool_id, x.category, count(*) AS n
              FROM actionledger.attempt x JOIN actionledger.action a USING (action_id) JOIN period p ON x.started_at > now() - p.length
              WHERE x.started_at > now() - interval '24 hours' AND x.verdict <> 'confirmed' AND x.category IS NOT NULL
              GROUP BY p.period, a.tool_id, x.category) w
        GROUP BY w.period, w.tool_id),
    decided AS (
        SELECT p.period, a.tool_id, count(*) AS manual
        FROM actionledger.event e JOIN actionledger.action a USING (action_id) JOIN period p ON e.at > now() - p.length
        WHERE e.at > now() - interval '24 hours' AND e.what IN ('resolved', 'override')
        GROUP BY p.period, a.tool_id),
    live AS (
        SELECT a.tool_id, count(*) AS open, date_trunc('second', now() - min(a.created_at)) AS oldest_open
        FROM actionledger.due d JOIN actionledger.action a USING (action_id)
        GROUP BY a.tool_id),
    refused AS (
        SELECT r.tool_id, sum(r.refused)::bigint AS refused FROM actionledger._refused() r GROUP BY r.tool_id)
    SELECT t.name AS tool, p.period, coalesce(c.actions, 0) AS actions,
           round(c.confirmed::numeric / nullif(c.settled, 0), 4) AS success_rate,
           round(s.unknown::numeric / nullif(s.closed, 0), 4) AS unknown_rate,
           round(s.again::numeric / nullif(s.sends, 0), 4) AS retry_rate,
           coalesce(r.refused, 0) AS refused,
           round(s.ms[1]::numeric, 1) AS p50_ms, round(s.ms[2]::numeric, 1) AS p95_ms, round(s.ms[3]::numeric, 1) AS p99_ms,
           round(extract(epoch FROM o.timeout) * 1000)::bigint AS timeout_ms,
           round(s.ms[2]::numeric / (extract(epoch FROM o.timeout) * 1000), 4) AS p95_of_timeout,
           coalesce(l.open, 0) AS open, l.oldest_open,
           coalesce(s.dup_prevented, 0) AS dup_prevented, coalesce(s.dup_found, 0) AS dup_found, coalesce(m.manual, 0) AS manual,
           coalesce(e.errors, '{}') AS errors
    FROM actionledger.tool t CROSS JOIN period p
         CROSS JOIN LATERAL (SELECT actionledger._duration(t.options ->> 'timeout', '30 s') AS timeout) o
         LEFT JOIN created c ON c.period = p.period AND c.tool_id = t.tool_id
         LEFT JOIN tried s ON s.period = p.period AND s.tool_id = t.tool_id
         LEFT JOIN ended e ON e.period = p.period AND e.tool_id = t.tool_id
         LEFT JOIN decided m ON m.period = p.period AND m.tool_id = t.tool_id
         LEFT JOIN live l ON l.tool_id = t.tool_id
         LEFT JOIN refused r ON r.tool_id = t.tool_id
    WHERE t.dropped_at IS NULL AND actionledger._may_see(t.created_by, t.options ->> 'owner')
    UNION ALL
    SELECT CASE WHEN r.tool_id IS NULL THEN '(others)' ELSE '(no such tool)' END, p.period, 0, NULL, NULL, NULL, r.refused,
           NULL, NULL, NULL, NULL, NULL, 0, NULL, 0, 0, 0, '{}'
    FROM refused r CROSS JOIN period p
    WHERE coalesce(r.tool_id, 0) = 0 AND actionledger._may_see(NULL, NULL);
COMMENT ON VIEW actionledger.signals IS 'How each tool does, over the last 5 minutes, hour and day, for its owner, its creator and operators; refused is counted since the start of the server, whatever the period';
GRANT SELECT ON actionledger.signals TO PUBLIC;
