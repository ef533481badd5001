-- Pauses: what people have told the dispatchers to leave alone.  They are kept
-- as history, because clocks stood still while they held.

CREATE SEQUENCE actionledger.pause_seq;
COMMENT ON SEQUENCE actionledger.pause_seq IS 'Numbers pauses';
CREATE TABLE actionledger.pause (
    pause_id       bigint PRIMARY KEY DEFAULT nextval('actionledger.pause_seq'),
    scope          text NOT NULL CHECK (scope IN ('all', 'service', 'tool')),
    scope_id       int NOT NULL,
    name           text,
    what           text NOT NULL CHECK (what IN ('writes', 'everything')),
    reason         text NOT NULL,
    paused_by      text NOT NULL,
    paused_at      timestamptz NOT NULL,
    resumed_by     text,
    resumed_at     timestamptz,
    resume_reason  text,
    CHECK (resumed_at >= paused_at)
);
COMMENT ON TABLE actionledger.pause IS 'What was paused, by whom, why, from when to when; open while resumed_at is NULL';
COMMENT ON COLUMN actionledger.pause.scope_id IS 'Number of the service or tool; 0 for all';
COMMENT ON COLUMN actionledger.pause.what IS 'writes: sends of all tools but the read_only ones; everything: lookups and reads too';
CREATE UNIQUE INDEX pause_open ON actionledger.pause (scope, scope_id) WHERE resumed_at IS NULL;

-- The rule of what a pause holds, for dispatchers, sessions and views alike.
CREATE VIEW actionledger._paused WITH (security_barrier) AS
    SELECT DISTINCT ON (t.tool_id) t.tool_id, t.service_id, p.pause_id, p.scope, p.name, p.reason, p.paused_by, p.paused_at,
           bool_or(p.what = 'everything' OR t.action_type <> 'read_only') OVER one AS sends,
           bool_or(p.what = 'everything') OVER one AS lookups
    FROM actionledger.pause p JOIN actionledger.tool t
      ON p.scope = 'all' OR (p.scope = 'service' AND p.scope_id = t.service_id) OR (p.scope = 'tool' AND p.scope_id = t.tool_id)
    WHERE p.resumed_at IS NULL
    WINDOW one AS (PARTITION BY t.tool_id)
    ORDER BY t.tool_id, p.what = 'everything' DESC, p.paused_at;
COMMENT ON VIEW actionledger._paused IS 'Tools that a pause covers: whether it holds their sends, their lookups, and who has paused what why';

SELECT pg_catalog.pg_extension_config_dump('actionledger.pause', '');
SELECT pg_catalog.pg_extension_config_dump('actionledger.pause_seq', '');
