-- What will not move by itself, and the statement that moves it.

CREATE FUNCTION actionledger._instance()
    RETURNS bigint LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_sql_instance';
COMMENT ON FUNCTION actionledger._instance() IS 'Digest of this cluster and database, as actions carry it';

CREATE VIEW actionledger.attention WITH (security_barrier) AS
WITH live AS (
    SELECT a.*, d.next_at, d.held_at, d.external, coalesce(a.summary, t.name || ' ' || a.identity) AS subject, t.name AS tool_name
    FROM actionledger.due d JOIN actionledger.action a USING (action_id) JOIN actionledger.tool t USING (tool_id)
    WHERE actionledger._may_see(a.requested_by, a.owner) OR (a.next_step = 'approve' AND actionledger._may_approve(a.approver, a.owner))
), x AS (
    SELECT 'page' AS severity, 'review' AS kind, l.action_id, l.subject, l.created_at AS since,
           coalesce(l.error_message, 'outcome unknown') || coalesce('; assigned to ' || l.assigned_to, '') AS reason,
           format('SELECT * FROM actionledger.explain(%s);', l.action_id) AS do
    FROM live l WHERE l.next_step = 'review'
    UNION ALL
    SELECT CASE WHEN l.status = 'prepared' THEN 'ticket' ELSE 'page' END, 'blocked', l.action_id, l.subject, l.created_at,
           CASE WHEN l.status = 'prepared' THEN '' ELSE 'outcome unknown, and ' END || coalesce(l.error_message, l.error_code, 'a person has to mend something'),
           CASE WHEN l.error_code = 'permission_revoked'
                THEN format('SELECT actionledger.grant_tool(%L, %L); SELECT * FROM actionledger.retry(%s, ''granted again'');', l.tool_name, l.requested_by, l.action_id)
                WHEN l.error_code IN ('tool_dropped', 'tool_unusable', 'foreign_origin', 'bad_request') THEN format('SELECT * FROM actionledger.cancel(%s, ''why'');', l.action_id)
                ELSE format('SELECT * FROM actionledger.retry(%s, ''what was mended'');', l.action_id) END
    FROM live l WHERE l.next_step = 'blocked'
    UNION ALL
    SELECT 'ticket', 'approval', l.action_id, l.subject, l.created_at,
           concat_ws('; ', l.approval_reason, 'waits for ' || coalesce(l.approver, l.owner || ' or an operator', 'an operator')),
           format('SELECT * FROM actionledger.approve(%s, ''why'', %L); -- or actionledger.reject(%s, ''why not'')',
                  l.action_id, actionledger._request_hash(l.method, l.url, l.headers, l.body), l.action_id)
    FROM live l WHERE l.next_step = 'approve'
    UNION ALL
    -- An answer that came, or should have, and is not recorded.
    SELECT 'page', 'unrecorded', l.action_id, l.subject, at.deadline,
           format('attempt %s had to be over at %s, and how it ended is not recorded; see the server log', at.attempt, to_char(at.deadline AT TIME ZONE 'UTC', 'HH24:MI:SS"Z"')),
           format('SELECT * FROM actionledger.explain(%s);', l.action_id)
    FROM live l JOIN actionledger.attempt at ON at.action_id = l.action_id AND at.attempt = l.attempts
    WHERE l.claimed_by > 0 AND at.finished_at IS NULL AND at.deadline < clock_timestamp() - interval '1 minute'
    UNION ALL
    -- What the dispatcher has put away because it could not even block it.
    SELECT 'page', 'stuck', l.action_id, l.subject, l.created_at, 'it cannot be claimed or blocked; see the server log',
           format('SELECT * FROM actionledger.retry(%s, ''what was mended'');', l.action_id)
    FROM live l WHERE l.next_at = 'infinity' AND l.held_at IS NULL AND l.claimed_by IS NULL AND l.next_step NOT IN ('review', 'blocked', 'approve')
    UNION ALL
    SELECT 'page', 'conflict', c.action_id, coalesce(c.summary, c.tool), c.at,
           format('it is %s, and evidence from %s says %s', c.status, coalesce(c.source, 'an answer'), c.says),
           format('SELECT * FROM actionledger.explain(%s); -- then actionledger.acknowledge(%s, ''what was found'')', c.action_id, c.action_id)
    FROM actionledger.conflicts c WHERE c.acknowledged_by IS NULL
    UNION ALL
    SELECT 'page', 'elsewhere', NULL, count(*) || ' actions', min(l.created_at), 'they were prepared in another database, and nobody sends them from here',
           'SELECT actionledger.resume_dispatch(''copy or successor'', ''why''); -- copy: the other one goes on; successor: it never sends again'
    FROM live l WHERE l.instance <> actionledger._instance() HAVING count(*) > 0
    UNION ALL
    SELECT 'ticket', 'pause', NULL, concat_ws(' ', CASE p.scope WHEN 'all' THEN 'everything' ELSE p.scope END, p.name), p.paused_at,
           format('paused by %s: %s', p.paused_by, p.reason),
           CASE p.scope WHEN 'all' THEN 'SELECT * FROM actionledger.resume_all(''why'');'
                ELSE format('SELECT * FROM actionledger.resume_%s(%L, ''why'');', p.scope, p.name) END
    FROM actionledger.pause p WHERE p.resumed_at IS NULL
    UNION ALL
    SELECT 'ticket', 'breaker', NULL, 'service ' || b.service, b.since,
           format('it failed %s times in a row; %s actions wait; the next probe goes at %s', b.failures, b.waiting, to_char(b.next_probe_at AT TIME ZONE 'UTC', 'HH24:MI:SS"Z"')),
           format('SELECT * FROM actionledger.breakers WHERE service = %L;', b.service)
    FROM actionledger.breakers b WHERE b.state <> 'closed'
    UNION ALL
    SELECT 'page', 'worker', NULL, w.worker, w.since, concat_ws(': ', w.state, w.detail),
           coalesce(w.do, 'SELECT * FROM actionledger.workers;')
    FROM actionledger.workers w
    WHERE w.state NOT IN ('running', 'starting') AND EXISTS (SELECT FROM actionledger.service) AND NOT pg_is_in_recovery()
    UNION ALL
    SELECT 'ticket', 'owner', NULL, 'tool ' || t.name, t.created_at, format('its owner, role "%s", does not exist', t.options ->> 'owner'),
           format('SELECT actionledger.alter_tool(%L, ''{"owner": "role"}'');', t.name)
    FROM actionledger.tool t
    WHERE t.dropped_at IS NULL AND t.options ? 'owner' AND to_regrole(quote_ident(t.options ->> 'owner')) IS NULL
      AND actionledger._may_see(t.created_by, NULL)
    UNION ALL
    -- Due, free to be sent, and not sent: more than there is room for, or nobody at work.
    SELECT 'info', 'backlog', NULL, 'service ' || s.name, min(l.next_at),
           format('%s been due for more than ten minutes%s%s', CASE count(*) WHEN 1 THEN '1 action has' ELSE count(*) || ' actions have' END,
                  '; outside executors have not claimed ' || nullif(count(*) FILTER (WHERE l.external), 0),
                  '; ' || CASE WHEN count(*) FILTER (WHERE NOT l.external) > 0 THEN actionledger._trouble(s.service_id) END),
           format('SELECT * FROM actionledger.pending WHERE tool IN (SELECT tool FROM actionledger.tools WHERE service = %L) ORDER BY next_at LIMIT 20;', s.name)
    FROM live l JOIN actionledger.service s USING (service_id)
    WHERE l.next_at < clock_timestamp() - interval '10 minutes' AND l.claimed_by IS NULL AND l.next_step IN ('send', 'resend', 'lookup')
    GROUP BY s.service_id, s.name
)
SELECT x.severity, x.kind, x.action_id, x.subject, date_trunc('second', now() - x.since) AS age, x.reason, x.do
FROM x ORDER BY array_position('{page,ticket,info}', x.severity), x.since, x.action_id;
COMMENT ON VIEW actionledger.attention IS 'What will not move by itself, the worst and oldest first: why, and the statement that moves it. The one to start with';
GRANT SELECT ON actionledger.attention TO PUBLIC;
