-- What operators call.  EXECUTE on resolve makes an operator, who sees every action.

CREATE TYPE actionledger.decided AS (
    action_id  bigint,
    status     text,
    next_step  text,
    message    text
);
COMMENT ON TYPE actionledger.decided IS 'Answer of an operator''s verb: the state now, and the truth in words';

CREATE FUNCTION actionledger.resolve(action_id bigint, outcome text, evidence jsonb, note text,
        expected_status text DEFAULT 'needs_reconciliation', force bool DEFAULT false)
    RETURNS actionledger.decided LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_resolve';
COMMENT ON FUNCTION actionledger.resolve(bigint, text, jsonb, text, text, bool) IS
    'Decide an open action by evidence: outcome confirmed or failed, with a note. LG011 when the status is no longer the expected one; LG012 for failed before the max processing time since the last send is over, unless forced';
REVOKE ALL ON FUNCTION actionledger.resolve(bigint, text, jsonb, text, text, bool) FROM PUBLIC;

CREATE FUNCTION actionledger.retry(action_id bigint, note text, force bool DEFAULT false)
    RETURNS actionledger.decided LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_retry';
COMMENT ON FUNCTION actionledger.retry(bigint, text, bool) IS
    'Let an action go on at once: a blocked one after what blocked it was mended, or one that waits for its next try. Identity and key stay the same. LG012 when the state machine does not allow a send; a note is needed. force: a person decides to send once more what may have happened, with the same key and bytes, once nothing sent before can be in progress any more; kept as event override';
REVOKE ALL ON FUNCTION actionledger.retry(bigint, text, bool) FROM PUBLIC;

CREATE FUNCTION actionledger.cancel(action_id bigint, note text DEFAULT NULL)
    RETURNS actionledger.decided LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_cancel';
COMMENT ON FUNCTION actionledger.cancel(bigint, text) IS
    'Ask that an action not happen. Before any send: failed (cancelled). After one: the request is noted, nothing is sent again, and the outcome stays open until evidence decides. For who asked for it, the tool''s owner, and operators';

CREATE FUNCTION actionledger.reconcile_now(action_id bigint)
    RETURNS actionledger.decided LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_reconcile_now';
COMMENT ON FUNCTION actionledger.reconcile_now(bigint) IS
    'Look an action with an unknown outcome up at once (or send it again, where that is its next step), instead of when it is due; lookups that are used up begin anew. LG012 when there is nothing to find out by itself';
REVOKE ALL ON FUNCTION actionledger.reconcile_now(bigint) FROM PUBLIC;

CREATE FUNCTION actionledger._duration(value text, fallback interval)
    RETURNS interval LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'al_sql_duration';
COMMENT ON FUNCTION actionledger._duration(text, interval) IS 'A duration option as an interval';

CREATE FUNCTION actionledger._breaker(service_id int, OUT state text, OUT failures int, OUT since timestamptz, OUT next_probe_at timestamptz)
    RETURNS record LANGUAGE c VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'al_sql_breaker';
COMMENT ON FUNCTION actionledger._breaker(int) IS 'The circuit breaker of a service of this database, as its dispatcher last showed it';

CREATE FUNCTION actionledger.explain(action_id bigint)
    RETURNS SETOF text LANGUAGE c STABLE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_explain';
COMMENT ON FUNCTION actionledger.explain(bigint) IS 'The whole story of an action, a line for each event in UTC, then what is known, what is not, and the statements that are allowed now. LG014 when there is none that you may see';

CREATE FUNCTION actionledger._known(action_id bigint)
    RETURNS text LANGUAGE c STABLE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_sql_known';
COMMENT ON FUNCTION actionledger._known(bigint) IS 'What is known of an action, in words; NULL when the caller may not see it';

CREATE FUNCTION actionledger._allowed(action_id bigint)
    RETURNS text[] LANGUAGE c STABLE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_sql_allowed';
COMMENT ON FUNCTION actionledger._allowed(bigint) IS 'Verbs that the state machine allows now; NULL when the caller may not see the action';

CREATE FUNCTION actionledger._trouble(service_id int)
    RETURNS text LANGUAGE c VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'al_sql_trouble';
COMMENT ON FUNCTION actionledger._trouble(int) IS 'Why nobody sends to a service of this database; NULL when somebody does, or is about to';

CREATE VIEW actionledger.breakers WITH (security_barrier) AS
    SELECT s.name AS service, b.state, b.failures, b.since, b.next_probe_at,
           (SELECT count(*) FROM actionledger.due d WHERE d.service_id = s.service_id AND (d.next_at < 'infinity' OR d.held_at IS NOT NULL)) AS waiting
    FROM actionledger.service s, actionledger._breaker(s.service_id) b;
COMMENT ON VIEW actionledger.breakers IS 'Circuit breakers: closed, open (nothing is sent before next_probe_at), half_open (one probe decides); failures in a row, and how many actions wait';

CREATE VIEW actionledger.actions WITH (security_barrier) AS
    SELECT a.action_id, date_trunc('second', now() - a.created_at) AS age, t.name AS tool, a.status, a.next_step, a.summary,
           a.external_ref, a.identity, a.idempotency_key, a.target, a.error_code, a.run_id, a.step,
           a.requested_by, a.actor, a.approved_by, a.attempts, a.created_at, a.finished_at
    FROM actionledger.action a JOIN actionledger.tool t USING (tool_id)
    WHERE actionledger._may_see(a.requested_by, a.owner);
COMMENT ON VIEW actionledger.actions IS 'Every action that you may see, live or finished';

CREATE VIEW actionledger.pending WITH (security_barrier) AS
    SELECT a.action_id, date_trunc('second', now() - a.created_at) AS age, t.name AS tool, a.summary, a.next_step,
           CASE a.next_step
               WHEN 'blocked' THEN coalesce(a.error_message, a.error_code, 'a person')
               WHEN 'approve' THEN 'approval by ' || coalesce(a.approver, a.owner || ' or an operator', 'an operator')
               ELSE CASE
                   WHEN p.sends THEN 'paused: ' || p.reason
                   WHEN d.external AND coalesce(d.held_at, d.next_at) <= clock_timestamp() THEN 'executor'
                   WHEN x.trouble IS NOT NULL AND coalesce(d.held_at, d.next_at) <= clock_timestamp() THEN 'dispatcher: ' || x.trouble
                   WHEN b.next_probe_at IS NOT NULL AND NOT d.external THEN 'breaker until ' || to_char(b.next_probe_at, 'HH24:MI:SS')
                   WHEN coalesce(d.held_at, d.next_at) <= clock_timestamp() THEN 'dispatcher'
                   WHEN a.attempts = 0 THEN 'not before ' || to_char(d.next_at, 'YYYY-MM-DD HH24:MI:SS')
                   ELSE 'retry at ' || to_char(d.next_at, 'HH24:MI:SS') || coalesce(': ' || a.error_message, '')
               END
           END AS waiting_for,
           d.next_at, a.attempts, d.priority, a.expires_at, a.identity, a.requested_by
    FROM actionledger.due d JOIN actionledger.action a USING (action_id) JOIN actionledger.tool t USING (tool_id)
         LEFT JOIN actionledger._paused p ON p.tool_id = a.tool_id,
         LATERAL (SELECT actionledger._trouble(a.service_id) AS trouble) x,
         actionledger._breaker(a.service_id) b
    WHERE a.status = 'prepared' AND actionledger._may_see(a.requested_by, a.owner);
COMMENT ON VIEW actionledger.pending IS 'Prepared actions: nothing sent, or every send proven undelivered or refused; and what each waits for';

CREATE VIEW actionledger.in_flight WITH (security_barrier) AS
    SELECT a.action_id, date_trunc('second', now() - a.created_at) AS age, t.name AS tool, a.summary, a.next_step,
           CASE WHEN a.claimed_by IS NOT NULL THEN a.attempts END AS open_attempt,
           a.last_sent_at, d.next_at,
           actionledger._duration(t.options ->> 'timeout', '30 s') AS timeout,
           a.window_ends_at, a.key_ends_at, a.identity
    FROM actionledger.due d JOIN actionledger.action a USING (action_id) JOIN actionledger.tool t USING (tool_id)
    WHERE a.status = 'submitted' AND actionledger._may_see(a.requested_by, a.owner);
COMMENT ON VIEW actionledger.in_flight IS 'Submitted actions: being sent now, or sent with an outcome that the system is still settling';

CREATE VIEW actionledger.needs_reconciliation WITH (security_barrier) AS
    SELECT a.action_id, date_trunc('second', now() - a.created_at) AS age, t.name AS tool, a.summary, a.next_step,
           a.error_message AS reason, a.sends, a.lookups, a.last_sent_at, d.next_at, a.window_ends_at, a.owner, a.identity
    FROM actionledger.due d JOIN actionledger.action a USING (action_id) JOIN actionledger.tool t USING (tool_id)
    WHERE a.status = 'needs_reconciliation' AND actionledger._may_see(a.requested_by, a.owner);
COMMENT ON VIEW actionledger.needs_reconciliation IS 'Actions that may or may not have happened: only lookups may run, or a person decides';

CREATE VIEW actionledger.review_queue WITH (security_barrier) AS
    SELECT a.action_id, date_trunc('second', now() - a.created_at) AS age, a.owner, a.assigned_to, t.name AS tool, a.summary,
           a.error_message AS reason,
           actionledger._known(a.action_id) AS known,
           ARRAY(SELECT at.external_ref FROM actionledger.attempt at WHERE at.action_id = a.action_id AND at.external_ref IS NOT NULL
                 UNION SELECT r.ref FROM actionledger.event e, jsonb_array_elements_text(e.evidence -> 'refs') AS r(ref)
                        WHERE e.action_id = a.action_id AND e.what = 'duplicates_found' ORDER BY 1) AS refs,
           actionledger._allowed(a.action_id) AS allowed,
           format('SELECT * FROM actionledger.resolve(%s, ''confirmed'', ''{"external_ref": "..."}'', ''how you know''); '
                  '-- or ''failed'', when you have evidence that it did not and will not happen', a.action_id) AS do
    FROM actionledger.due d JOIN actionledger.action a USING (action_id) JOIN actionledger.tool t USING (tool_id)
    WHERE a.status = 'needs_reconciliation' AND a.next_step = 'review' AND actionledger._may_see(a.requested_by, a.owner);
COMMENT ON VIEW actionledger.review_queue IS 'What a person must decide: what is known, what may be done, and the statement to paste';

CREATE VIEW actionledger.attempts WITH (security_barrier) AS
    SELECT at.action_id, at.attempt, at.kind, at.started_at, at.finished_at - at.started_at AS took, at.sent, at.http_status,
           at.verdict, at.category, at.detail, make_interval(secs => at.retry_after_s) AS retry_after, at.external_ref,
           at.incarnation, at.truncated,
           jsonb_strip_nulls(jsonb_build_object('resolved_us', at.resolved_us, 'connected_us', at.connected_us, 'tls_us', at.tls_us,
                                                'first_byte_us', at.first_byte_us, 'total_us', at.total_us)) AS timing,
           (SELECT jsonb_object_agg(lower(split_part(line, ': ', 1)), substr(line, strpos(line, ': ') + 2))
              FROM regexp_split_to_table(at.response_headers, E'\n') AS line WHERE line <> '') AS response_headers,
           encode(substr(at.body, 1, 1000), 'escape') AS body_excerpt,
           at.deadline
    FROM actionledger.attempt at JOIN actionledger.action a USING (action_id)
    WHERE actionledger._may_see(a.requested_by, a.owner);
COMMENT ON VIEW actionledger.attempts IS 'Every send and every lookup: when, how it ended, what that proves. sent is false only with proof; an open attempt has no verdict yet';

CREATE VIEW actionledger.timeline WITH (security_barrier) AS
    SELECT x.action_id, x.at, x.what, x.status, x.by_whom, x.detail,
           row_number() OVER (PARTITION BY x.action_id ORDER BY x.at, x.kind, x.n) AS seq
    FROM (
        SELECT a.action_id, a.created_at AS at, 'prepared' AS what, 'prepared'::actionledger.status AS status,
               a.requested_by AS by_whom, a.summary AS detail, 0 AS kind, 0::bigint AS n, a.requested_by, a.owner
        FROM actionledger.action a
        UNION ALL
        SELECT a.action_id, at.started_at, at.kind, CASE WHEN at.kind <> 'lookup' THEN 'submitted'::actionledger.status END, coalesce(at.executor, 'dispatcher ' || at.incarnation),
               format('attempt %s', at.attempt), 1, at.attempt, a.requested_by, a.owner
        FROM actionledger.attempt at JOIN actionledger.action a USING (action_id)
        UNION ALL
        SELECT a.action_id, at.finished_at, at.verdict::text, NULL, coalesce(at.executor, 'dispatcher ' || at.incarnation),
               format('attempt %s: %s%s%s', at.attempt, at.category, coalesce(', HTTP ' || at.http_status, ''),
                      coalesce(', ' || nullif(at.detail, ''), '')), 2, at.attempt, a.requested_by, a.owner
        FROM actionledger.attempt at JOIN actionledger.action a USING (action_id) WHERE at.finished_at IS NOT NULL
        UNION ALL
        SELECT e.action_id, e.at, e.what, e.status, e.by_whom,
               concat_ws(' ', e.note, e.evidence::text), 3, e.event_id, a.requested_by, a.owner
        FROM actionledger.event e JOIN actionledger.action a USING (action_id)
    ) x
    WHERE actionledger._may_see(x.requested_by, x.owner);
COMMENT ON VIEW actionledger.timeline IS 'The story of an action: prepared, every attempt and its end, every decision';

CREATE FUNCTION actionledger._workers(OUT worker text, OUT state text, OUT pid int, OUT since timestamptz, OUT services text[],
        OUT in_flight int, OUT last_turn timestamptz, OUT restarts int, OUT detail text, OUT "do" text)
    RETURNS SETOF record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_sql_workers';
COMMENT ON FUNCTION actionledger._workers() IS 'The launcher and the dispatchers of this database, from shared memory';

CREATE VIEW actionledger.workers AS
    SELECT w.worker, w.state, w.pid, w.since, w.services, w.in_flight, w.last_turn, w.restarts, w.detail, w.do
    FROM actionledger._workers() w;
COMMENT ON VIEW actionledger.workers IS 'Who sends for this database, and what is wrong when nobody does';

GRANT SELECT ON actionledger.breakers, actionledger.actions, actionledger.pending, actionledger.in_flight, actionledger.needs_reconciliation,
    actionledger.review_queue, actionledger.attempts, actionledger.timeline, actionledger.workers TO PUBLIC;

CREATE FUNCTION actionledger.resume_dispatch(mode text, reason text)
    RETURNS text LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'al_resume_dispatch';
COMMENT ON FUNCTION actionledger.resume_dispatch(text, text) IS
    'Let a copy of the database (standby promoted, restored backup, clone) send. successor: it takes over, the other one never sends again; copy: everything inherited is abandoned here, failed with code inherited';
REVOKE ALL ON FUNCTION actionledger.resume_dispatch(text, text) FROM PUBLIC;
