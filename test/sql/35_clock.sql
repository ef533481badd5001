-- When the clock is set, times of live actions move with it, or are times of day that somebody asked for.
-- A new column belongs into one of the two: see pay_debts in src/rebase.c, and bring_up_to_date in src/turn.c.
\a
\t
SELECT c.relname, string_agg(a.attname, ' ' ORDER BY a.attname COLLATE "C")
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
WHERE c.relnamespace = 'actionledger'::regnamespace AND c.relname IN ('action', 'due', 'pause') AND a.atttypid = 'timestamptz'::regtype AND NOT a.attisdropped
  -- what is history, and what was asked for
  AND a.attname NOT IN ('created_at', 'cancelled_at', 'finished_at', 'expires_at', 'not_before')
GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM actionledger.clock_debt;
