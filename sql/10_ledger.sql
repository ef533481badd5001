-- The ledger: what was intended, what was tried, what was decided.
--
-- Base tables are granted to nobody; they are reached through the functions
-- and the views, which check who asks.

CREATE SCHEMA actionledger;
COMMENT ON SCHEMA actionledger IS 'Ledger of consequential outside actions: recorded with application state, sent after commit, judged by evidence';
GRANT USAGE ON SCHEMA actionledger TO PUBLIC;

CREATE TYPE actionledger.action_type AS ENUM ('read_only', 'idempotent', 'non_idempotent', 'irreversible');
COMMENT ON TYPE actionledger.action_type IS 'Effect of a tool on the world; decides what may follow an unknown outcome';

CREATE TYPE actionledger.status AS ENUM ('prepared', 'submitted', 'confirmed', 'failed', 'needs_reconciliation');
COMMENT ON TYPE actionledger.status IS 'What is known of an action: exactly these five';

CREATE TYPE actionledger.next_step AS ENUM ('approve', 'send', 'wait', 'resend', 'lookup', 'apply', 'review', 'blocked', 'none');
COMMENT ON TYPE actionledger.next_step IS 'What may safely happen next to an action';

CREATE TYPE actionledger.verdict AS ENUM ('not_sent', 'rejected', 'confirmed', 'in_progress', 'unknown');
COMMENT ON TYPE actionledger.verdict IS 'What one attempt proves';

CREATE TYPE actionledger.known AS ENUM ('nothing', 'not_sent', 'rejected_transient', 'rejected', 'confirmed', 'in_progress', 'unknown', 'unknown_ended',
    'absent', 'several');
COMMENT ON TYPE actionledger.known IS 'What all attempts of an action prove together';

-- One row: who this ledger is and which cluster may send from it.
CREATE TABLE actionledger.ledger (
    singleton      bool PRIMARY KEY DEFAULT true CHECK (singleton),
    namespace      uuid NOT NULL DEFAULT gen_random_uuid(),
    system_id      text,
    database_id    oid,
    timeline       int,
    control_inode  bigint,
    created_at     timestamptz NOT NULL DEFAULT now(),
    clock_offset   bigint,
    clock_boot     text,
    clock_ahead_until timestamptz
);
COMMENT ON TABLE actionledger.ledger IS 'Who this ledger is (namespace of its idempotency keys, made at CREATE EXTENSION, kept by a dump) and which cluster may send from it';
COMMENT ON COLUMN actionledger.ledger.namespace IS 'UUID namespace of the idempotency keys (UUIDv5, RFC 9562)';
COMMENT ON COLUMN actionledger.ledger.system_id IS 'Database system identifier of the cluster that may send; NULL: taken by the first dispatcher';
COMMENT ON COLUMN actionledger.ledger.timeline IS 'Timeline of that cluster: it changes at promotion and at point-in-time recovery';
COMMENT ON COLUMN actionledger.ledger.control_inode IS 'Inode of global/pg_control there: a file copy of the cluster has another';

COMMENT ON COLUMN actionledger.ledger.clock_offset IS 'Microseconds from the time since boot to the time of day, by which the times of live actions are stored';
COMMENT ON COLUMN actionledger.ledger.clock_boot IS 'Boot of the machine in which that holds; after another boot nobody knows what has become of the clock';
COMMENT ON COLUMN actionledger.ledger.clock_ahead_until IS 'The clock was set back: what was recorded before may bear times up to this one';

-- A restored dump brings its own row, which takes the place of the one that
-- CREATE EXTENSION has just made.
CREATE FUNCTION actionledger._ledger_replace() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'al_ledger_replace';
COMMENT ON FUNCTION actionledger._ledger_replace() IS 'Lets the ledger row of a restored dump replace the new one';
REVOKE ALL ON FUNCTION actionledger._ledger_replace() FROM PUBLIC;
CREATE TRIGGER ledger_replace BEFORE INSERT ON actionledger.ledger
    FOR EACH ROW EXECUTE FUNCTION actionledger._ledger_replace();
INSERT INTO actionledger.ledger DEFAULT VALUES;

CREATE SEQUENCE actionledger.service_seq AS int;
COMMENT ON SEQUENCE actionledger.service_seq IS 'Numbers services';
CREATE TABLE actionledger.service (
    service_id  int PRIMARY KEY DEFAULT nextval('actionledger.service_seq'),
    name        text NOT NULL UNIQUE,
    base_url    text NOT NULL,
    options     jsonb NOT NULL DEFAULT '{}',
    created_by  text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    altered_at  timestamptz
);
COMMENT ON TABLE actionledger.service IS 'Destinations: base URL, credentials by reference, limits, what they declare about idempotency keys';

CREATE SEQUENCE actionledger.tool_seq AS int;
COMMENT ON SEQUENCE actionledger.tool_seq IS 'Numbers tools';
CREATE TABLE actionledger.tool (
    tool_id      int PRIMARY KEY DEFAULT nextval('actionledger.tool_seq'),
    name         text NOT NULL,
    service_id   int NOT NULL REFERENCES actionledger.service,
    request      text NOT NULL,
    action_type  actionledger.action_type NOT NULL,
    identity     text,
    input        jsonb NOT NULL DEFAULT '{}',
    options      jsonb NOT NULL DEFAULT '{}',
    created_by   text NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    altered_at   timestamptz,
    dropped_at   timestamptz
);
COMMENT ON TABLE actionledger.tool IS 'Action types at a service; a dropped one stays for the history of its actions';
CREATE UNIQUE INDEX tool_name ON actionledger.tool (name) WHERE dropped_at IS NULL;
CREATE INDEX tool_service ON actionledger.tool (service_id);

CREATE TABLE actionledger.tool_grant (
    tool_id     int NOT NULL REFERENCES actionledger.tool ON DELETE CASCADE,
    role        text NOT NULL,
    granted_by  text NOT NULL,
    granted_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tool_id, role)
);
COMMENT ON TABLE actionledger.tool_grant IS 'Which roles (and their members) may perform which tool';

-- Secrets are no part of a dump: a copy of the ledger does not get them.
CREATE TABLE actionledger.secret (
    name    text PRIMARY KEY CHECK (name ~ '^[A-Za-z0-9_.-]+$'),
    value   text NOT NULL CHECK (value <> ''),
    set_by  text NOT NULL,
    set_at  timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE actionledger.secret IS 'Secrets that services refer to as {secret:name} and that are no files of actionledger.secret_directory; written by set_secret, read by the dispatcher only, left out of dumps';

CREATE SEQUENCE actionledger.action_seq;
COMMENT ON SEQUENCE actionledger.action_seq IS 'Numbers actions';

-- Half of each page is left free: the mark and the outcome are heap-only
-- updates, so no indexed column may ever change.  What is frozen stands before
-- what changes, so that WAL holds only the latter.  There are no CHECK constraints
-- here and in due: their expressions would be read and run anew by every statement
-- (40 % of the instructions of a perform); prepare.c lets nothing empty in.
CREATE TABLE actionledger.action (
    action_id        bigint PRIMARY KEY DEFAULT nextval('actionledger.action_seq'),
    tool_id          int NOT NULL,
    service_id       int NOT NULL,
    instance         bigint NOT NULL,
    created_at       timestamptz NOT NULL,
    expires_at       timestamptz,
    not_before       timestamptz,
    step             int,
    run_id           text,
    identity         text NOT NULL,
    idempotency_key  text NOT NULL,
    key_place        text,
    expiry_moves     bool NOT NULL DEFAULT false,
    requested_by     text NOT NULL,
    session_by       text,
    actor            text,
    owner            text,
    approver         text,
    approval_reason  text,
    summary          text,
    target           text,
    method           text NOT NULL,
    url              text NOT NULL,
    headers          text NOT NULL,
    args_hash        bytea NOT NULL,
    meta             jsonb,
    args             jsonb NOT NULL,
    body             bytea,
    claimed_by       bigint,
    last_sent_at     timestamptz,
    window_ends_at   timestamptz,
    key_ends_at      timestamptz,
    lookup_ends_at   timestamptz,
    doubted_at       timestamptz,
    cancelled_at     timestamptz,
    approve_by       timestamptz,
    finished_at      timestamptz,
    status           actionledger.status NOT NULL,
    next_step        actionledger.next_step NOT NULL,
    known            actionledger.known NOT NULL DEFAULT 'nothing',
    attempts         smallint NOT NULL DEFAULT 0,
    sends            smallint NOT NULL DEFAULT 0,
    lookups          smallint NOT NULL DEFAULT 0,
    lookups_before   smallint NOT NULL DEFAULT 0,
    absences         smallint NOT NULL DEFAULT 0,
    overridden       bool NOT NULL DEFAULT false,
    external_ref     text,
    confirmed_by     text,
    error_code       text,
    error_message    text,
    approved_by      text,
    assigned_to      text,
    result           jsonb
) WITH (fillfactor = 44);
COMMENT ON TABLE actionledger.action IS 'One row per intended operation: the frozen request, what is known of it and what may happen next';
COMMENT ON COLUMN actionledger.action.instance IS 'Digest of the cluster and database where it was prepared, or that has taken it over: nobody else sends it';
COMMENT ON COLUMN actionledger.action.claimed_by IS 'Incarnation of the dispatcher that has an attempt open; its lock, not the clock, tells whether it lives. Negative: the token of the outside executor that has it, until it reports or its lease and the max processing time are over';
COMMENT ON COLUMN actionledger.action.known IS 'Fold of all attempts';
COMMENT ON COLUMN actionledger.action.window_ends_at IS 'End of the retry window; starts at the first mark';
COMMENT ON COLUMN actionledger.action.key_place IS 'Where the frozen request carries its key, when the destination had declared to honour it there; NULL: an unknown outcome is not settled by sending again';
COMMENT ON COLUMN actionledger.action.key_ends_at IS 'Until when the destination is relied on to remember the key (window less margin); NULL while nothing was delivered or no key is honoured';
COMMENT ON COLUMN actionledger.action.expiry_moves IS 'expires_at was reckoned from the tool''s expires_after: it moves when the clock is set, while a time that the caller has given stays';
COMMENT ON COLUMN actionledger.action.lookup_ends_at IS 'When the last lookup is made; starts at the first one';
COMMENT ON COLUMN actionledger.action.doubted_at IS 'Since when nobody waits for an answer to what was sent, as far as its outcome is open: the max processing time is counted from then, or from timeout after last_sent_at where that is later. After a takeover: when the other place may have stopped waiting';
COMMENT ON COLUMN actionledger.action.lookups_before IS 'How many of the lookups belong to a budget that is closed: before a send that followed a proved absence, or before reconcile_now';
COMMENT ON COLUMN actionledger.action.absences IS 'How often a lookup has proved that it had not happened: only the first time may a send follow';
COMMENT ON COLUMN actionledger.action.overridden IS 'A person has decided that it is sent once more although it may have happened; used up by the next send';
COMMENT ON COLUMN actionledger.action.args_hash IS 'SHA-256 of the canonical arguments (RFC 8785)';
COMMENT ON COLUMN actionledger.action.headers IS 'Frozen header lines, secrets by reference';
COMMENT ON COLUMN actionledger.action.confirmed_by IS 'What confirmed it: response, replay, lookup, callback, executor or person';
COMMENT ON COLUMN actionledger.action.approve_by IS 'Until when somebody may approve; NULL: nobody needs to, or somebody has. While it is set nothing is sent, whatever else the row says';
COMMENT ON COLUMN actionledger.action.approver IS 'Role whose members may approve; NULL: the owner, or an operator';
COMMENT ON COLUMN actionledger.action.approval_reason IS 'Why somebody has to approve; NULL: nobody has to';
COMMENT ON COLUMN actionledger.action.not_before IS 'Not sent before, as the caller asked';
CREATE UNIQUE INDEX action_identity ON actionledger.action (service_id, identity);
CREATE INDEX action_run ON actionledger.action (run_id, step) WHERE run_id IS NOT NULL;

-- Live actions, and when to look at them: the only indexed scheduling columns.
-- Its size follows what is open, not the history.
CREATE TABLE actionledger.due (
    action_id   bigint PRIMARY KEY,
    service_id  int NOT NULL,
    next_at     timestamptz NOT NULL,
    priority    smallint NOT NULL DEFAULT 0,
    held_at     timestamptz,
    external    bool NOT NULL DEFAULT false
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
COMMENT ON TABLE actionledger.due IS 'One row per live action: when it is due; infinity for what waits for a person';
COMMENT ON COLUMN actionledger.due.priority IS '1: before the others of its service, 0, -1: after them';
COMMENT ON COLUMN actionledger.due.held_at IS 'When it was due, for what a pause holds; next_at is infinity meanwhile';
COMMENT ON COLUMN actionledger.due.external IS 'An outside executor carries it out: no dispatcher claims it';
CREATE INDEX due_held ON actionledger.due (action_id) WHERE held_at IS NOT NULL;
CREATE INDEX due_schedule ON actionledger.due (service_id, priority, next_at, action_id) WHERE NOT external;
CREATE INDEX due_external ON actionledger.due (service_id, priority, next_at, action_id) WHERE external;
CREATE INDEX due_external_sweep ON actionledger.due (action_id) WHERE external;

-- Empty but for a moment after the clock was set: by how much times are still to be moved.
CREATE TABLE actionledger.clock_debt (
    action_id  bigint PRIMARY KEY,
    shift      interval NOT NULL
);
COMMENT ON TABLE actionledger.clock_debt IS 'Live actions whose times could not be moved yet when the clock was set, because a session had locked them: nothing is decided by those times before';

CREATE TABLE actionledger.attempt (
    action_id         bigint NOT NULL,
    attempt           smallint NOT NULL,
    kind              text NOT NULL DEFAULT 'send',
    sent              bool,
    truncated         bool,
    verdict           actionledger.verdict,
    http_status       smallint,
    curl_code         smallint,
    retry_after_s     int,
    incarnation       bigint NOT NULL,
    started_at        timestamptz NOT NULL,
    deadline          timestamptz NOT NULL,
    finished_at       timestamptz,
    category          text,
    detail            text,
    external_ref      text,
    executor          text,
    resolved_us       int,
    connected_us      int,
    tls_us            int,
    first_byte_us     int,
    total_us          int,
    response_headers  text,
    body              bytea,
    PRIMARY KEY (action_id, attempt)
) WITH (fillfactor = 25);
COMMENT ON TABLE actionledger.attempt IS 'One row per send or lookup: written before the first byte leaves, closed once';
COMMENT ON COLUMN actionledger.attempt.total_us IS 'Microseconds from the start of the transfer to its end; like the four before, NULL when not reached';
COMMENT ON COLUMN actionledger.attempt.executor IS 'Role that has claimed it, for an attempt of an outside executor; incarnation is then its token';
COMMENT ON COLUMN actionledger.attempt.sent IS 'False only when it is proven that no request byte left';

CREATE SEQUENCE actionledger.event_seq;
COMMENT ON SEQUENCE actionledger.event_seq IS 'Numbers events';
CREATE TABLE actionledger.event (
    event_id   bigint PRIMARY KEY DEFAULT nextval('actionledger.event_seq'),
    action_id  bigint NOT NULL,
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    what       text NOT NULL,
    status     actionledger.status,
    by_whom    text NOT NULL,
    note       text,
    verdict    actionledger.verdict,
    source     text,
    evidence   jsonb
);
COMMENT ON TABLE actionledger.event IS 'Decisions and findings that are no attempt: cancelled, resolved, blocked, reported, conflict; only appended';
COMMENT ON COLUMN actionledger.event.verdict IS 'What evidence says; NULL for what is no evidence';
COMMENT ON COLUMN actionledger.event.source IS 'Where evidence comes from: answer or lookup (of an attempt that ended after the action had been decided), callback, executor';
CREATE INDEX event_action ON actionledger.event (action_id);
CREATE INDEX event_left_open ON actionledger.event (action_id) WHERE what = 'left_open';
CREATE INDEX event_conflict ON actionledger.event (action_id) WHERE what = 'conflict';

CREATE SEQUENCE actionledger.incarnation_seq;
COMMENT ON SEQUENCE actionledger.incarnation_seq IS 'Numbers incarnations of dispatchers: never used twice';
CREATE TABLE actionledger.incarnation (
    incarnation  bigint PRIMARY KEY,
    worker       text NOT NULL,
    pid          int NOT NULL,
    started_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at     timestamptz
);
COMMENT ON TABLE actionledger.incarnation IS 'Every start of a dispatcher; alive while it holds its session lock';

-- What the dispatcher hands to its set-based statements.
CREATE TYPE actionledger._mark AS (
    action_id       bigint,
    attempt         int,
    deadline        timestamptz,
    window_ends_at  timestamptz,
    key_ends_at     timestamptz,
    expires_at      timestamptz,
    lookup          bool,
    lookup_ends_at  timestamptz
);
COMMENT ON TYPE actionledger._mark IS 'An attempt that is about to be made';
CREATE TYPE actionledger._closing AS (
    action_id      bigint,
    attempt        int,
    finished_at    timestamptz,
    verdict        actionledger.verdict,
    category       text,
    sent           bool,
    truncated      bool,
    http_status    int,
    curl_code      int,
    retry_after_s  int,
    detail         text,
    external_ref   text,
    headers        text,
    body           bytea,
    resolved_us    int,
    connected_us   int,
    tls_us         int,
    first_byte_us  int,
    total_us       int
);
COMMENT ON TYPE actionledger._closing IS 'What closes an attempt';
CREATE TYPE actionledger._move AS (
    n              int,
    action_id      bigint,
    status         actionledger.status,
    step           actionledger.next_step,
    known          actionledger.known,
    clear_key      bool,
    external_ref   text,
    result         jsonb,
    confirmed_by   text,
    error_code     text,
    error_message  text,
    forgiven       int,
    known_before   actionledger.known,
    unlooked       int,
    absent         bool,
    doubted_at     timestamptz
);
COMMENT ON TYPE actionledger._move IS 'Where an action goes';

-- A dump carries the ledger; nothing here is left out.
SELECT pg_catalog.pg_extension_config_dump('actionledger.ledger', '');
SELECT pg_catalog.pg_extension_config_dump('actionledger.service', '');
SELECT pg_catalog.pg_extension_config_dump('actionledger.service_seq', '');
SELECT pg_catalog.pg_extension_config_dump('actionledger.tool', '');
SELECT pg_catalog.pg_extension_config_dump('actionledger.tool_seq', '');
SELECT pg_catalog.pg_extension_config_dump('actionledger.tool_grant', '');
SELECT pg_catalog.pg_extension_config_dump('actionledger.action', '');
SELECT pg_catalog.pg_extension_config_dump('actionledger.action_seq', '');
SELECT pg_catalog.pg_extension_config_dump('actionledger.due', '');
SELECT pg_catalog.pg_extension_config_dump('actionledger.clock_debt', '');
SELECT pg_catalog.pg_extension_config_dump('actionledger.attempt', '');
SELECT pg_catalog.pg_extension_config_dump('actionledger.event', '');
SELECT pg_catalog.pg_extension_config_dump('actionledger.event_seq', '');
SELECT pg_catalog.pg_extension_config_dump('actionledger.incarnation', '');
SELECT pg_catalog.pg_extension_config_dump('actionledger.incarnation_seq', '');
