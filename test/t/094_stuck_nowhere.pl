# Whatever state an action is in, it moves by itself or attention lists it, with a
# statement that runs.  The states are asked of the state machine, the reasons to
# block are read in the sources: a new one without a way to come about here fails.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;
use PostgreSQL::Test::Utils;

my $p = start_provider();
my $node = start_server();
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };
refund_service($node, $p);
refund_service($node, $p, name => 'plain', honoured => 0);
for my $type (qw(read_only idempotent non_idempotent irreversible))
{
	refund_tool($node, name => $type, type => $type, do => 'status:503', mode => $type eq 'read_only' ? 'read' : 'keyed', attempts => 2, window => '3s',
		options => '"max_processing": "1s"', timeout => '1s',
		$type eq 'read_only' ? (request => 'GET /read/refunds{?refund_id,amount}') : ());
	refund_tool($node, name => "${type}_looked_up", type => $type, do => 'status:503', mode => $type eq 'read_only' ? 'read' : 'keyed', attempts => 2, window => '3s',
		timeout => '1s', options => '"max_processing": "1s", "lookup": {"request": "GET /read/nothing", "match": "$.data[*]", "every": "1s", "attempts": 2, "window": "5s"}',
		$type eq 'read_only' ? (request => 'GET /read/refunds{?refund_id,amount}') : ());
}
pid_of_dispatcher($node);

# Every live state that the state machine can lead to, for each kind of tool; and
# two that it does not make: blocked, and waiting for approval.
my @states = split /\n/, $sql->(q{
	SELECT DISTINCT type, known, d.status, d.next_step FROM unnest(enum_range(NULL::actionledger.action_type)::text[]) type,
		unnest(enum_range(NULL::actionledger.known)::text[]) known, unnest('{not_honoured,open,passed}'::text[]) key_state,
		unnest('{open,used_up}'::text[]) budget, unnest('{none,open,used_up}'::text[]) lookup, unnest('{no,cancelled,expired}'::text[]) stop,
		actionledger._decide(type, known, key_state, budget, lookup, stop) d
	WHERE d.status NOT IN ('confirmed', 'failed')
	UNION SELECT type, known, status, step FROM unnest(enum_range(NULL::actionledger.action_type)::text[]) type,
		(VALUES ('nothing', 'prepared', 'blocked'), ('unknown', 'submitted', 'blocked'), ('nothing', 'prepared', 'approve')) AS v(known, status, step)
	ORDER BY 1, 2, 3, 4});
cmp_ok(scalar @states, '>', 30, 'there are states to try: ' . scalar @states);
my %combination = map { my (undef, undef, $status, $step) = split /\|/; ("$status/$step" => 1) } @states;
is_deeply([ sort keys %combination ], [ qw(needs_reconciliation/lookup needs_reconciliation/review prepared/approve prepared/blocked prepared/send
	submitted/blocked submitted/lookup submitted/resend submitted/wait) ], 'those of the table of the design');

my %made;
$sql->(q{SELECT actionledger.pause_all('set up', 'everything')});
for my $suffix ('', '_looked_up')
{
	my $n = 0;
	for my $state (@states)
	{
		my ($type, $known, $status, $step) = split /\|/, $state;
		$n++;
		my $id = perform($node, "$type$suffix", "S$n$suffix");
		my $sent = $known eq 'nothing' ? 0 : 1;
		$made{$id} = "$state$suffix";
		$sql->(qq{UPDATE actionledger.action SET status = '$status', next_step = '$step', known = '$known', sends = $sent, attempts = $sent,
			last_sent_at = CASE $sent WHEN 1 THEN now() END, window_ends_at = CASE $sent WHEN 1 THEN now() + interval '3 s' END,
			approve_by = CASE '$step' WHEN 'approve' THEN now() + interval '1 h' END, error_code = CASE '$step' WHEN 'blocked' THEN 'secret_missing' END
			WHERE action_id = $id;
			INSERT INTO actionledger.attempt (action_id, attempt, incarnation, started_at, deadline, finished_at, verdict, category, sent)
			SELECT $id, 1, 0, now(), now(), now(), 'unknown', 'connection_lost', true WHERE $sent = 1;
			UPDATE actionledger.due SET held_at = NULL, next_at = CASE WHEN '$step' IN ('review', 'blocked', 'approve') THEN 'infinity' ELSE now() END WHERE action_id = $id});
	}
}
$sql->(q{SELECT actionledger.resume_all('set up')});
my $left = q{SELECT action_id FROM actionledger.due EXCEPT SELECT action_id FROM actionledger.attention};
eval { poll(sub { $sql->($left) eq '' }, 'nothing is left that neither moves nor is listed', 120) };
is(join("\n", map { "$_: $made{$_}" } split /\n/, $sql->($left)), '', 'every one has ended, or is in attention: ' . scalar(keys %made) . ' actions');
is($sql->(q{SELECT count(*) FROM actionledger.attention WHERE kind IN ('stuck', 'unrecorded')}), 0, 'none because something is wrong');
cmp_ok($sql->(q{SELECT count(*) FROM actionledger.actions WHERE finished_at IS NOT NULL}), '>', 10, 'some have ended');

# Every reason to block, brought about.
my %reason = (
	secret_missing => sub {
		$sql->(qq{SELECT actionledger.create_service('sealed', '$p->{url}', '{"allow_private": true, "auth": {"bearer": "{secret:none}"}}')});
		refund_tool($node, name => 'sealed', service => 'sealed');
		return perform($node, 'sealed', 'x');
	},
	permission_revoked => sub {
		$sql->(q{CREATE ROLE temporary; SELECT actionledger.pause_tool('idempotent', 'x'); SELECT actionledger.grant_tool('idempotent', 'temporary')});
		my $id = $sql->(q{SET ROLE temporary; SELECT action_id FROM actionledger.perform('idempotent', '{"refund_id": "revoked", "amount": 1}')});
		$sql->(q{SELECT actionledger.revoke_tool('idempotent', 'temporary'); SELECT actionledger.resume_tool('idempotent', 'x')});
		return $id;
	},
	tool_dropped => sub {
		refund_tool($node, name => 'dropped');
		$sql->(q{SELECT actionledger.pause_tool('dropped', 'x')});
		my $id = perform($node, 'dropped', 'dropped');
		$sql->(q{SELECT actionledger.drop_tool('dropped', force => true)});
		return $id;
	},
	foreign_origin => sub {
		refund_service($node, $p, name => 'moving');
		refund_tool($node, name => 'moving', service => 'moving');
		$sql->(q{SELECT actionledger.pause_service('moving', 'x')});
		my $id = perform($node, 'moving', 'x');
		$sql->(q{SELECT actionledger.alter_service('moving', '{"base_url": "https://elsewhere.example.invalid"}'); SELECT actionledger.resume_service('moving', 'x')});
		return $id;
	},
	address_refused => sub {
		$sql->(qq{SELECT actionledger.create_service('shut', '$p->{url}')});
		refund_tool($node, name => 'shut', service => 'shut');
		return perform($node, 'shut', 'x');
	},
	bad_trust => sub {
		my $https = $p->{url} =~ s/^http:/https:/r;
		my $file = PostgreSQL::Test::Utils::tempdir() . '/ca.pem';
		append_to_file($file, "no certificate\n");
		$sql->(qq{SELECT actionledger.create_service('trust', '$https', '{"allow_private": true, "tls": {"ca_file": "$file"}}')});
		refund_tool($node, name => 'trust', service => 'trust');
		return perform($node, 'trust', 'x');
	},
	bad_request => sub {
		$sql->(q{SELECT actionledger.pause_tool('non_idempotent', 'x')});
		my $id = perform($node, 'non_idempotent', 'bad');
		$sql->(qq{UPDATE actionledger.action SET headers = headers || chr(10) || 'no name: x' WHERE action_id = $id; SELECT actionledger.resume_tool('non_idempotent', 'x')});
		return $id;
	},
	tool_unusable => sub {
		refund_tool($node, name => 'broken');
		$sql->(q{SELECT actionledger.pause_tool('broken', 'x')});
		my $id = perform($node, 'broken', 'broken');
		$sql->(q{UPDATE actionledger.tool SET options = '{"nonsense": 1}' WHERE name = 'broken'; SELECT actionledger.resume_tool('broken', 'x')});
		return $id;
	},
	claim_failed => sub {
		$sql->(q{CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;
			CREATE TRIGGER no BEFORE INSERT ON actionledger.attempt FOR EACH ROW EXECUTE FUNCTION no()});
		my $id = perform($node, 'idempotent', 'claim');
		settle($node, $id, 'prepared', 'blocked', 60);
		$sql->('DROP TRIGGER no ON actionledger.attempt');
		return $id;
	});
my $sources = join '', map { slurp_file($_) } glob('src/*.c'), 'src/rules/classify.c';
my %code = map { $_ => 1 } $sources =~ /\b(?:block|al_ledger_block)\((?:draft|suspect->failed_id)[^;"]*"(\w+)"/g,
  $sources =~ /next_step = 'blocked', error_code = '(\w+)'/g, $sources =~ /category = "(\w+)";\s+outcome\.configuration = true/g;
is_deeply([ sort keys %reason ], [ sort keys %code ], 'the reasons that the sources know');
for my $code (sort keys %reason)
{
	my $id = $reason{$code}->();
	my $row = settle($node, $id, 'prepared', 'blocked', 60);
	is($row->{error_code}, $code, "$code: it is blocked");
	my ($kind, $why, $do) = split /\|/, $sql->("SELECT kind, reason, \"do\" FROM actionledger.attention WHERE action_id = $id");
	is($kind, 'blocked', "$code: attention lists it");
	isnt($why // '', '', "$code: and says why");
	my ($rc, undef, $err) = $node->psql('postgres', "BEGIN; $do ROLLBACK;", on_error_stop => 1);
	is($rc, 0, "$code: what it says to do can be done") or diag("$do: $err");
}

# What is no action: each is listed, and its statement runs.
$sql->(q{SELECT actionledger.pause_service('moving', 'storm'); SELECT actionledger.pause_tool('moving', 'storm'); SELECT actionledger.pause_all('storm')});
$sql->(q{CREATE ROLE desk; SELECT actionledger.alter_tool('moving', '{"owner": "desk"}'); DROP ROLE desk});
$sql->(q{SELECT actionledger.resume_all('x')});
my $conflict = perform($node, 'idempotent', 'conflict');
refund_service($node, $p, name => 'tripping', options => '"breaker": {"failures": 1, "cooldown": "10m"}');
refund_tool($node, name => 'tripping', service => 'tripping', do => 'status:503');
perform($node, 'tripping', 'x');
poll_sql($node, q{SELECT state = 'open' FROM actionledger.breakers WHERE service = 'tripping'}, 'the breaker is open');
poll_sql($node, "SELECT sends > 0 AND claimed_by IS NULL FROM actionledger.action WHERE action_id = $conflict", 'it was sent');
$sql->("SELECT actionledger.resolve($conflict, 'failed', '{}', 'x', expected_status => NULL, force => true)") if action_row($node, $conflict)->{status} !~ /confirmed|failed/;
$sql->("SELECT actionledger.report_outcome($conflict, 'confirmed', '{\"seen\": true}')");
$sql->(q{UPDATE actionledger.action SET instance = 1 WHERE action_id = (SELECT min(action_id) FROM actionledger.due)});
$sql->(q{ALTER SYSTEM SET actionledger.min_sync_standbys = 1; SELECT pg_reload_conf()});
poll_sql($node, q{SELECT count(*) > 0 FROM actionledger.attention WHERE kind = 'worker'}, 'the dispatcher refuses');
for my $kind (qw(pause owner breaker conflict elsewhere worker))
{
	my @rows = split /\n/, $sql->("SELECT subject || '|' || \"do\" FROM actionledger.attention WHERE kind = '$kind'");
	cmp_ok(scalar @rows, '>', 0, "$kind: attention lists it");
	for my $row (@rows)
	{
		my ($subject, $do) = split /\|/, $row, 2;
		next if $do =~ /ALTER SYSTEM/;
		my ($rc, undef, $err) = $node->psql('postgres', "BEGIN; $do\n; ROLLBACK;", on_error_stop => 1);
		ok($rc == 0 || $err =~ /role "role" does not exist|owner|unknown way to resume: "copy or successor"/, "$kind, $subject: what it says to do can be done") or diag("$do: $err");
	}
}
is($sql->(q{SELECT string_agg(DISTINCT subject, ', ' ORDER BY subject) FROM actionledger.attention WHERE kind = 'pause'}), 'service moving, tool dropped, tool moving', 'each pause by its name');
is($sql->(qq{SELECT count(*) FROM actionledger.attention WHERE kind = 'conflict' AND action_id = $conflict}), 1, 'a conflict by its action');
$sql->("SELECT actionledger.acknowledge($conflict, 'seen')");
is($sql->(qq{SELECT count(*) FROM actionledger.attention WHERE action_id = $conflict}), 0, 'until it is acknowledged');
is($sql->(q{SELECT bool_and(a = b) FROM (SELECT array_position('{page,ticket,info}', severity) a, lag(array_position('{page,ticket,info}', severity), 0) OVER () b FROM actionledger.attention) x}), 't', 'the worst comes first');
$node->stop;
done_testing();
