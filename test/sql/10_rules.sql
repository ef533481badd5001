-- The deciding code, tried from SQL: a readable part of the design's tables.
-- The unit tests enumerate all of them.
\pset null -

-- What one attempt proves.  prereqs counts how often a request was about to
-- leave: without one it is proven that nothing was sent, whatever the ending.
SELECT c.ending, c.prereqs, c.head, c.status, r.verdict, r.category, r.transient AS again, r.configuration AS mend
FROM (VALUES
    (1, 'resolve', 0, false, 0), (2, 'connect', 0, false, 0), (3, 'timeout', 0, false, 0), (4, 'tls', 0, false, 0),
    (5, 'address_refused', 0, false, 0), (6, 'bad_trust', 0, false, 0), (7, 'gate_closed', 1, false, 0),
    (8, 'connect', 1, false, 0), (9, 'timeout', 1, false, 0), (10, 'send', 1, false, 0), (11, 'receive', 1, false, 0),
    (12, 'ok', 1, false, 200), (13, 'resend_blocked', 2, false, 0), (14, 'ok', 2, true, 200), (15, 'worker_lost', 0, false, 0)
) AS c(n, ending, prereqs, head, status), actionledger._classify(c.ending, c.prereqs, c.head, c.status) r
ORDER BY n;

-- What an answer says, by its status.
SELECT s.status, r.verdict, r.category, r.transient AS again
FROM (VALUES (200), (202), (204), (206), (301), (307), (400), (402), (404), (406), (408), (409), (412), (421), (422), (423),
             (425), (429), (499), (500), (501), (502), (503), (504), (505), (511), (520), (100), (0), (1000)) AS s(status),
     actionledger._classify('ok', 1, true, s.status) r;

-- Where the context decides: a body that was cut, an upload that was, a key
-- that is honoured, an earlier attempt that is open, a replay of an answer.
SELECT c.what, (r).verdict, (r).category, (r).conclusive, (r).ends_resending
FROM (
    SELECT 1, '200, cut off', actionledger._classify('partial', 1, true, 200, false) UNION ALL
    SELECT 2, '400, cut off', actionledger._classify('partial', 1, true, 400, false) UNION ALL
    SELECT 3, '408, request was cut off', actionledger._classify('ok', 1, true, 408, true, false) UNION ALL
    SELECT 4, '409, key honoured', actionledger._classify('ok', 1, true, 409, key_honoured => true) UNION ALL
    SELECT 5, '409, an earlier one open', actionledger._classify('ok', 1, true, 409, earlier_open => true) UNION ALL
    SELECT 6, '412, an earlier one open', actionledger._classify('ok', 1, true, 412, earlier_open => true) UNION ALL
    SELECT 7, '200, replayed', actionledger._classify('ok', 1, true, 200, replayed => true) UNION ALL
    SELECT 8, '402, replayed', actionledger._classify('ok', 1, true, 402, replayed => true) UNION ALL
    SELECT 9, '500, replayed', actionledger._classify('ok', 1, true, 500, replayed => true)
) AS c(n, what, r) ORDER BY n;

-- What may happen next: the columns of the design's table.
CREATE FUNCTION pg_temp.decide(action_type text, known text, key_state text, budget text DEFAULT 'open', lookup text DEFAULT 'none', stop text DEFAULT 'no')
    RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(' ', status || '/' || next_step, due, error_code)
    FROM actionledger._decide(action_type, known, key_state, budget, lookup, stop) $$;
CREATE VIEW pg_temp.situation AS
    SELECT * FROM (VALUES (1, 'read_only', 'not_honoured'), (2, 'idempotent', 'not_honoured'), (3, 'non_idempotent', 'open'),
        (4, 'non_idempotent', 'passed'), (5, 'non_idempotent', 'not_honoured'), (6, 'irreversible', 'open')) AS t(n, action_type, key_state);

-- Whatever the type: nothing open.
SELECT known, decision, count(*) FROM pg_temp.situation,
    unnest('{nothing,not_sent,rejected_transient,rejected,confirmed}'::text[]) WITH ORDINALITY AS k(known, m),
    pg_temp.decide(action_type, known, key_state) AS decision GROUP BY m, known, decision ORDER BY m;
SELECT known, decision, count(*) AS used_up FROM pg_temp.situation,
    unnest('{not_sent,rejected_transient}'::text[]) WITH ORDINALITY AS k(known, m),
    pg_temp.decide(action_type, known, key_state, 'used_up') AS decision GROUP BY m, known, decision ORDER BY m;

-- By type and key: an outcome is open.
\x
SELECT action_type, key_state,
    pg_temp.decide(action_type, 'unknown', key_state) AS "unknown",
    pg_temp.decide(action_type, 'unknown', key_state, lookup => 'open') AS "unknown, lookup",
    pg_temp.decide(action_type, 'in_progress', key_state) AS "in progress",
    pg_temp.decide(action_type, 'in_progress', key_state, lookup => 'open') AS "in progress, lookup",
    pg_temp.decide(action_type, 'unknown', key_state, 'used_up') AS "unknown, used up",
    pg_temp.decide(action_type, 'unknown', key_state, 'used_up', 'open') AS "unknown, used up, lookup",
    pg_temp.decide(action_type, 'unknown', key_state, stop => 'cancelled') AS "unknown, cancelled",
    pg_temp.decide(action_type, 'nothing', key_state, stop => 'expired') AS "nothing sent, expired"
FROM pg_temp.situation ORDER BY n;
\x

-- After a lookup: what it proves, and what follows.  One send more only where
-- the tool allows it, and never of an irreversible action.
SELECT f.finding, f.authoritative AS declared, f.processed, actionledger._fold_lookup('non_idempotent', 'unknown', f.finding, f.authoritative, f.processed) AS known,
       actionledger._fold_lookup('non_idempotent', 'unknown_ended', f.finding, f.authoritative, f.processed) AS "after an end",
       actionledger._fold_lookup('non_idempotent', 'unknown', f.finding, f.authoritative, f.processed, never_sent => true) AS "never sent"
FROM (VALUES (1, 'nothing_sure', true, true), (2, 'confirmed', false, false), (3, 'rejected', false, false), (4, 'rejected_transient', false, false), (5, 'in_progress', false, false),
    (6, 'several', false, false), (7, 'none', false, false), (8, 'none', true, false), (9, 'none', false, true), (10, 'none', true, true)) AS f(n, finding, authoritative, processed) ORDER BY n;
SELECT known, action_type, resend, concat_ws(' ', d.status || '/' || d.next_step, d.due, d.error_code) AS decision
FROM unnest('{absent,several}'::text[]) known, unnest('{idempotent,non_idempotent,irreversible}'::text[]) action_type, unnest('{f,t}'::bool[]) resend,
     actionledger._decide(action_type, known, lookup => 'open', resend => resend) d ORDER BY 1, 2, 3;

-- Two rules that hold in every situation: an action without proof of its end is
-- never final, except a read, which has no effect; and what may not be sent
-- again is not.
SELECT count(*) AS situations,
       count(*) FILTER (WHERE d.status IN ('confirmed', 'failed') AND known IN ('in_progress', 'unknown', 'unknown_ended', 'several')
                          AND action_type <> 'read_only') AS ended_without_proof,
       count(*) FILTER (WHERE d.next_step IN ('send', 'resend') AND known IN ('unknown', 'unknown_ended', 'several')
                          AND (action_type = 'irreversible' OR action_type = 'non_idempotent' AND key_state <> 'open')) AS sent_without_cover,
       count(*) FILTER (WHERE d.next_step IN ('send', 'resend') AND stop <> 'no') AS sent_after_stop
FROM unnest(enum_range(NULL::actionledger.action_type)::text[]) action_type,
     unnest(enum_range(NULL::actionledger.known)::text[]) known,
     unnest('{not_honoured,open,passed}'::text[]) key_state, unnest('{open,used_up}'::text[]) budget,
     unnest('{none,open,used_up}'::text[]) lookup, unnest('{no,cancelled,expired}'::text[]) stop,
     actionledger._decide(action_type, known, key_state, budget, lookup, stop) d;

-- The delay doubles up to its cap; the jitter spreads it from half to one and a half.
SELECT n, actionledger._backoff(n, '1 s', '30 s', 0) AS least, actionledger._backoff(n, '1 s', '30 s', 0.5) AS middle,
       actionledger._backoff(n, '1 s', '30 s', 0.999) < actionledger._backoff(n, '1 s', '30 s', 0) * 3 AS below_most
FROM unnest('{0,1,2,3,5,6,100,2147483647}'::int[]) n;

-- Retry-After: seconds or a date, else nothing.
SELECT v, actionledger._retry_after(v, '2026-01-01 00:00:00+00') AS seconds
FROM unnest(ARRAY['120', '0', ' 7 ', 'Thu, 01 Jan 2026 00:01:30 GMT', 'Thursday, 01-Jan-26 00:01:30 GMT', 'Thu Jan  1 00:01:30 2026',
    'Wed, 31 Dec 2025 23:59:00 GMT', '-1', '1.5', '99999999999999999999', 'soon', '', 'Thu, 32 Jan 2026 00:00:00 GMT']) v;

-- Canonical JSON (RFC 8785): sorted by UTF-16 code units, numbers as ECMAScript
-- writes them, nothing escaped without need; and exact where a double is not.
SELECT actionledger._canonical(j) FROM (VALUES
    ('{"b": 1, "a": [true, null, "x"], "aa": {}}'::jsonb), ('[1.0, 1.50, 1e21, 1e-7, 0.000001, 100000000000000000000, -0.0]'),
    ('[9007199254740993, 0.1, 12345678901234567890.123456789]'),
    ('"\u20ac$\u000f\nA''B\"\\\\\"/"'), ('{"\ufb33": 1, "\ud83d\ude02": 2, "\u00f6": 3, "1": 4}'), ('[]'), ('"x"'), ('null')) AS v(j);
SELECT actionledger._canonical('{"a": 1.0, "b": 2}') = actionledger._canonical('{"b": 2.00, "a": 1}') AS same;

-- Words that are none.
\a
\t
SELECT test.fails($$SELECT actionledger._classify('exploded', 1, true, 200)$$);
SELECT test.fails($$SELECT actionledger._decide('reversible', 'unknown')$$);
SELECT test.fails($$SELECT actionledger._decide('read_only', 'unknown', lookup => 'maybe')$$);
SELECT test.fails($$SELECT actionledger._fold_lookup('read_only', 'unknown', 'maybe')$$);
SELECT test.fails($$SELECT actionledger._backoff(1, '0 s', '1 s', 0.5)$$);
