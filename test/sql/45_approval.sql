-- What waits for a person, who that is, and what the person may do.
\a
\t
SET client_min_messages = error;
CREATE ROLE regress_al_app;
CREATE ROLE regress_al_finance;
CREATE ROLE regress_al_owner;
CREATE ROLE regress_al_bob IN ROLE regress_al_finance;
CREATE ROLE regress_al_carol IN ROLE regress_al_owner;
CREATE ROLE regress_al_pool;
SELECT actionledger.create_service('ap', 'https://api.example.invalid', '{"idempotency": {"window": "24h"}}');
CREATE FUNCTION pg_temp.tool(name text, approval text, more text DEFAULT '{}') RETURNS text LANGUAGE sql AS $$
    SELECT actionledger.create_tool(name, 'ap', 'POST /pay', identity => name || ':{id}', input => '{"required": ["id"], "properties": {"id": {"type": "string"}, "amount": {}, "to": {"type": "string"}}}',
        options => more::jsonb || jsonb_build_object('summary', 'pay {amount} for {id}', 'owner', 'regress_al_owner') ||
        CASE WHEN approval IS NULL THEN '{}' ELSE jsonb_build_object('approval', approval::jsonb) END) $$;
CREATE FUNCTION pg_temp.wrong(approval text) RETURNS text LANGUAGE sql AS $$
    SELECT test.fails(format('SELECT pg_temp.tool(''ap_wrong'', %L)', approval)) $$;

-- The policy, and every way to get it wrong.
SELECT pg_temp.wrong(a) FROM unnest(ARRAY['"sometimes"', '7', '[]', '{"if": "$.["}', '{"if": ""}', '{"when": "$.amount"}', '{"by": "regress_al_nobody_at_all"}', '{"expires": 3}', '{"expires": "0s"}', '{"expires": "500d"}']) a;
SELECT pg_temp.tool('ap_never', '"never"');
SELECT pg_temp.tool('ap_always', '"always"');
SELECT pg_temp.tool('ap_limit', '{"if": "$.amount > 1000", "by": "regress_al_finance", "expires": "2h"}');
SELECT pg_temp.tool('ap_object', '{"by": "regress_al_finance"}');
SELECT actionledger.grant_tool(t, r) FROM unnest('{ap_never,ap_always,ap_limit,ap_object}'::text[]) t, unnest('{regress_al_app,regress_al_pool,regress_al_bob,regress_al_carol}'::text[]) r;

CREATE FUNCTION pg_temp.pay(tool text, id text, amount text DEFAULT '1', options text DEFAULT '{}') RETURNS text LANGUAGE sql AS $$
    SELECT test.plain(format('%s %s: %s', status, next_step, observation)) FROM actionledger.perform(tool, format('{"id": "%s", "amount": %s}', id, amount)::jsonb, options => options::jsonb) $$;
CREATE FUNCTION pg_temp.id(identity text) RETURNS bigint LANGUAGE sql SECURITY DEFINER AS $$ SELECT action_id FROM actionledger.action a WHERE a.identity = $1 $$;
CREATE FUNCTION pg_temp.state(identity text) RETURNS text LANGUAGE sql SECURITY DEFINER AS $$
    SELECT replace(test.plain(concat_ws(' ', status, next_step, 'code=' || error_code, 'message=' || error_message, 'by=' || approved_by, CASE WHEN approve_by IS NOT NULL AND status = 'prepared' THEN 'waits' END,
        'due=' || (SELECT CASE WHEN d.next_at = a.approve_by THEN 'at the end of the approval' WHEN d.next_at <= now() + '1 s' THEN 'now' WHEN d.next_at = a.not_before THEN 'at not_before' ELSE d.next_at::text END FROM actionledger.due d WHERE d.action_id = a.action_id))), session_user, '<me>')
    FROM actionledger.action a WHERE a.identity = $1 $$;
GRANT EXECUTE ON FUNCTION pg_temp.pay, pg_temp.id, pg_temp.state TO PUBLIC;

-- Which actions wait.
SET ROLE regress_al_app;
SELECT pg_temp.pay('ap_never', '1', '99999');
SELECT pg_temp.pay('ap_always', '1');
SELECT pg_temp.pay('ap_limit', '1', '1000');
SELECT pg_temp.pay('ap_limit', '2', '1000.01');
SELECT pg_temp.pay('ap_object', '1');
-- What cannot be compared is for a person; what is not there is not over a limit.
SELECT pg_temp.pay('ap_limit', '3', '"lots"');
SELECT pg_temp.pay('ap_limit', '4', '[1, 2000]');
SELECT pg_temp.pay('ap_limit', '5', 'null');
-- A repeat says that it still waits.
SELECT pg_temp.pay('ap_limit', '2', '1000.01');
RESET ROLE;
SELECT a.identity, a.waiting_for, a.next_at = x.approve_by AS due_at_its_end, extract(epoch FROM x.approve_by - x.created_at)::int AS seconds
FROM actionledger.pending a JOIN actionledger.action x USING (action_id) WHERE a.next_step = 'approve' ORDER BY 1;
SELECT tool, summary, reason, by, requested_by, length(hash), test.plain("do") FROM actionledger.approvals WHERE tool LIKE 'ap\_%' ORDER BY action_id;
SELECT actionledger.result(pg_temp.id('ap_limit:2')) -> 'error', actionledger.result(pg_temp.id('ap_limit:2')) -> 'meta' ->> 'advice';
-- wait does not wait for a person.
SELECT actionledger.wait(pg_temp.id('ap_limit:2'), '60 s') -> 'data' ->> 'next_step';

-- The hash is that of the frozen request, which anybody can compute anew.
SELECT count(*), bool_and(v.hash = encode(sha256(convert_to(a.method || E'\n' || a.url || E'\n' || a.headers || E'\n\n', 'UTF8') || a.body), 'hex')) AS same
FROM actionledger.approvals v JOIN actionledger.action a USING (action_id);
SELECT actionledger._request_hash('POST', 'https://x/', 'A: b', NULL) = encode(sha256(E'POST\nhttps://x/\nA: b\n\n'), 'hex') AS without_body;

-- Who sees it, and who may approve.
SELECT pg_temp.id('ap_limit:2') AS limit2, pg_temp.id('ap_always:1') AS always1, pg_temp.id('ap_object:1') AS object1, pg_temp.id('ap_never:1') AS never1, pg_temp.id('ap_limit:3') AS limit3, pg_temp.id('ap_limit:4') AS limit4 \gset
SET ROLE regress_al_bob;
SELECT identity IS NULL, tool, summary FROM actionledger.approvals LEFT JOIN actionledger.actions USING (action_id, tool, summary) WHERE tool LIKE 'ap\_%' ORDER BY action_id;
SELECT test.fails(format('SELECT actionledger.approve(%s)', :always1));
SELECT test.fails(format('SELECT actionledger.reject(%s, ''no'')', :always1));
SET ROLE regress_al_carol;
SELECT test.fails(format('SELECT actionledger.approve(%s)', :limit2));
SET ROLE regress_al_app;
SELECT count(*) FROM actionledger.approvals WHERE tool LIKE 'ap\_%';
SELECT test.fails(format('SELECT actionledger.approve(%s)', :limit2));
SELECT test.fails(format('SELECT actionledger.reject(%s, ''no'')', :limit2));
RESET ROLE;
SELECT test.fails('SELECT actionledger.approve(0)');
SELECT test.fails('SELECT actionledger.approve(NULL)');
SELECT test.fails('SELECT actionledger.approve_many(NULL)');
SELECT test.fails('SELECT actionledger.approve_many(ARRAY[NULL]::bigint[])');
SELECT test.fails('SELECT actionledger.reject(NULL, ''no'')');
SELECT test.fails(format('SELECT actionledger.reject(%s, NULL)', :limit2));
SELECT test.fails(format('SELECT actionledger.reject(%s, '''')', :limit2));
SELECT test.fails(format('SELECT actionledger.approve(%s)', :never1));

-- Bound to what was seen, and used once.
SET ROLE regress_al_bob;
SELECT test.fails(format('SELECT actionledger.approve(%s, ''ok'', ''beef'')', :limit2));
SELECT hash AS seen FROM actionledger.approvals WHERE action_id = :limit2 \gset
SELECT status, next_step, message FROM actionledger.approve(:limit2, 'checked with the shop', :'seen');
SELECT test.fails(format('SELECT actionledger.approve(%s)', :limit2));
SELECT test.fails(format('SELECT actionledger.reject(%s, ''late'')', :limit2));
RESET ROLE;
SELECT pg_temp.state('ap_limit:2');
SELECT what, status, by_whom, replace(test.plain(detail), session_user, '<me>') FROM actionledger.timeline WHERE action_id = :limit2 AND what <> 'prepared';
SELECT approved_by FROM actionledger.actions WHERE action_id = :limit2;
-- Nothing goes around it: not a retry, not a look at what is due.
SELECT test.fails(format('SELECT actionledger.retry(%s, ''now'')', :limit3));
-- An altered tool changes nothing of what waits: the frozen request is approved, and goes.
SELECT actionledger.alter_tool('ap_limit', '{"approval": "never", "json": {"other": "{id}"}}');
SET ROLE regress_al_bob;
SELECT status, next_step FROM actionledger.approve(:limit3);
RESET ROLE;
SELECT pg_temp.state('ap_limit:3'), convert_from(body, 'UTF8') FROM actionledger.action WHERE action_id = :limit3;

-- A person says no.
SET ROLE regress_al_bob;
SELECT status, next_step, message FROM actionledger.reject(:limit4, 'two amounts');
RESET ROLE;
SELECT pg_temp.state('ap_limit:4');
SELECT actionledger.result(:limit4) -> 'error', actionledger.result(:limit4) -> 'meta' ->> 'advice', test.plain(actionledger.result(:limit4) -> 'meta' ->> 'observation');
-- Cancelled, or decided, like any other.
SET ROLE regress_al_app;
SELECT status, message FROM actionledger.cancel(:always1, 'not needed');
RESET ROLE;
SELECT pg_temp.state('ap_always:1');
SELECT test.fails(format('SELECT actionledger.approve(%s)', :always1));
SELECT status FROM actionledger.resolve(:object1, 'failed', NULL, 'paid in cash', 'prepared');
SELECT pg_temp.state('ap_object:1');

-- Too late.
SELECT pg_temp.pay('ap_object', 'late') LIKE 'prepared approve%';
UPDATE actionledger.action SET approve_by = now() - interval '1 s' WHERE identity = 'ap_object:late';
SET ROLE regress_al_bob;
SELECT test.fails(format('SELECT actionledger.approve(%s)', pg_temp.id('ap_object:late')));
SELECT "do" FROM actionledger.approvals WHERE action_id = pg_temp.id('ap_object:late');
SELECT status FROM actionledger.reject(pg_temp.id('ap_object:late'), 'no');
RESET ROLE;

-- not_before holds after the approval; expires_at comes before the end of it.
SELECT pg_temp.pay('ap_object', 'later', '1', '{"not_before": "2099-01-01 00:00Z"}');
SELECT pg_temp.pay('ap_object', 'soon', '1', jsonb_build_object('expires_at', clock_timestamp() + interval '1 h')::text) LIKE 'prepared approve%';
SELECT pg_temp.state('ap_object:later');
SET ROLE regress_al_bob;
SELECT status, next_step, test.plain(message) FROM actionledger.approve(pg_temp.id('ap_object:later'));
RESET ROLE;
SELECT pg_temp.state('ap_object:later');
SELECT approve_by = expires_at AS ends_with_it FROM actionledger.action WHERE identity = 'ap_object:soon';
-- A clock that is set moves the former and not the latter.
UPDATE actionledger.action SET expires_at = now() - interval '1 s' WHERE identity = 'ap_object:soon';
SET ROLE regress_al_bob;
SELECT test.fails(format('SELECT actionledger.approve(%s)', pg_temp.id('ap_object:soon')));
RESET ROLE;
SELECT pg_temp.state('ap_object:soon');

-- Several at once: all, or none.
SELECT count(*) FROM generate_series(1, 4) i, LATERAL pg_temp.pay('ap_object', 'many' || i);
SET ROLE regress_al_bob;
SELECT test.fails(format('SELECT actionledger.approve_many(%L)', ARRAY[pg_temp.id('ap_object:many1'), pg_temp.id('ap_limit:4')]));
SELECT pg_temp.state('ap_object:many1');
SELECT a.identity, m.status, m.next_step FROM actionledger.approve_many(ARRAY[pg_temp.id('ap_object:many3'), pg_temp.id('ap_object:many1'), pg_temp.id('ap_object:many2'), pg_temp.id('ap_object:many1')], 'all fine') WITH ORDINALITY m, LATERAL (SELECT format('many%s', m.action_id - pg_temp.id('ap_object:many1') + 1) AS identity) a ORDER BY m.ordinality;
SELECT count(*) FROM actionledger.approve_many('{}');
RESET ROLE;
SELECT pg_temp.state(format('ap_object:many%s', i)) FROM generate_series(1, 4) i;
SELECT count(*) FROM actionledger.event WHERE what = 'approved' AND action_id = pg_temp.id('ap_object:many1');

-- Not by who asked: the role, the login behind it, and the actor of a pooled role.
GRANT regress_al_finance, regress_al_bob, regress_al_app TO regress_al_pool;
GRANT regress_al_app TO regress_al_bob;
SELECT actionledger.grant_tool('ap_object', 'regress_al_finance');
SET SESSION AUTHORIZATION regress_al_bob;
SELECT pg_temp.pay('ap_object', 'own') LIKE 'prepared approve%';
SET ROLE regress_al_app;
SELECT pg_temp.pay('ap_object', 'disguised') LIKE 'prepared approve%';
SET SESSION AUTHORIZATION regress_al_pool;
SET ROLE regress_al_app;
SELECT pg_temp.pay('ap_object', 'pooled', '1', '{"actor": "regress_al_bob"}') LIKE 'prepared approve%';
RESET SESSION AUTHORIZATION;
SELECT requested_by, session_by, actor FROM actionledger.action WHERE identity IN ('ap_object:own', 'ap_object:disguised', 'ap_object:pooled') ORDER BY action_id;
SET SESSION AUTHORIZATION regress_al_bob;
SELECT test.fails(format('SELECT actionledger.approve(%s)', pg_temp.id('ap_object:own')));
SELECT test.fails(format('SELECT actionledger.approve(%s)', pg_temp.id('ap_object:disguised')));
SET ROLE regress_al_finance;
SELECT test.fails(format('SELECT actionledger.approve(%s)', pg_temp.id('ap_object:own')));
SELECT test.fails(format('SELECT actionledger.approve(%s)', pg_temp.id('ap_object:disguised')));
-- The pool's login is the same for both: that forbids it while the pool does not speak for others ...
SET SESSION AUTHORIZATION regress_al_pool;
SET ROLE regress_al_finance;
SELECT test.fails(format('SELECT actionledger.approve(%s)', pg_temp.id('ap_object:pooled')));
RESET SESSION AUTHORIZATION;
GRANT EXECUTE ON FUNCTION actionledger.speak_for_others() TO regress_al_pool;
-- ... and when it does, the actor counts, whichever way he comes.
SET SESSION AUTHORIZATION regress_al_bob;
SELECT test.fails(format('SELECT actionledger.approve(%s)', pg_temp.id('ap_object:pooled')));
SET SESSION AUTHORIZATION regress_al_pool;
SET ROLE regress_al_bob;
SELECT test.fails(format('SELECT actionledger.approve(%s)', pg_temp.id('ap_object:pooled')));
SET ROLE regress_al_finance;
SELECT status, next_step FROM actionledger.approve(pg_temp.id('ap_object:pooled'));
RESET SESSION AUTHORIZATION;
SELECT what, by_whom, test.plain(detail) FROM actionledger.timeline WHERE action_id = pg_temp.id('ap_object:pooled') AND what = 'approved';

-- An approver that is gone: nobody but a superuser, who did not ask.
SELECT replace(test.fails(format('SELECT actionledger.approve(%s)', pg_temp.id('ap_object:many4'))), session_user, '<me>');
DROP OWNED BY regress_al_finance, regress_al_pool;
DROP ROLE regress_al_finance;
SET ROLE regress_al_carol;
SELECT test.fails(format('SELECT actionledger.approve(%s)', pg_temp.id('ap_object:own')));
RESET ROLE;
SELECT status, next_step FROM actionledger.approve(pg_temp.id('ap_object:own'));
-- A tool dropped by force takes what waits with it: blocked, and no longer to be approved.
SELECT actionledger.drop_tool('ap_object', true);
SELECT pg_temp.state('ap_object:disguised');
SELECT test.fails(format('SELECT actionledger.approve(%s)', pg_temp.id('ap_object:disguised')));
SELECT test.fails(format('SELECT actionledger.retry(%s, ''go'')', pg_temp.id('ap_object:disguised')));
SELECT status FROM actionledger.cancel(pg_temp.id('ap_object:disguised'));

DROP OWNED BY regress_al_app, regress_al_owner, regress_al_bob, regress_al_carol;
DROP ROLE regress_al_app, regress_al_owner, regress_al_bob, regress_al_carol, regress_al_pool;
