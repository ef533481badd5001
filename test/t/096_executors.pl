# Outside executors: one claimant at a time, a claim that is durable before anything
# is done, and whatever nobody reported is unknown.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;
use IPC::Run ();
use JSON::PP;
use Time::HiRes qw(time);

my $node = start_server();
my $p = start_provider();
refund_service($node, $p);
refund_service($node, $p, name => 'plain', honoured => 0);
$node->safe_psql('postgres', 'CREATE ROLE courier LOGIN; CREATE ROLE other LOGIN;
	GRANT EXECUTE ON FUNCTION actionledger.claim, actionledger.heartbeat, actionledger.report_outcome TO courier, other');

# An external tool whose owner is the executor's role.
sub external_tool
{
	my ($name, $service, $timeout, $processing) = @_;
	$node->safe_psql('postgres', qq{SELECT actionledger.create_tool('$name', '$service', 'refund by hand',
	  identity => '$name:{refund_id}',
	  input => '{"required": ["refund_id", "amount"], "properties": {"refund_id": {"type": "string"}, "amount": {"type": "integer"}}}',
	  options => '{"transport": "external", "owner": "courier", "timeout": "$timeout", "max_processing": "$processing",
	               "retry": {"attempts": 5, "base": "100ms", "cap": "200ms"}}')});
	return;
}
external_tool('hand', 'plain', '30s', '60s');
external_tool('keyed', 'pay', '30s', '60s');
external_tool('brief', 'plain', '1s', '1s');
external_tool('brief_keyed', 'pay', '1s', '1s');

# What a statement of the executor prints; its SQLSTATE when it fails.
sub as_executor
{
	my ($sql, $role) = @_;
	my ($out, $err) = ('', '');
	my $rc = $node->psql('postgres', $sql, stdout => \$out, stderr => \$err,
		extra_params => [ '-U', $role // 'courier', '-v', 'VERBOSITY=sqlstate' ]);
	return $rc == 0 ? $out : ($err =~ /ERROR:  (\w{5})/)[0];
}

# Claim actions; returns [action, token, attempt, key, resend] of each.
sub claim
{
	my ($tool, $more) = @_;
	return map { [ split /\|/ ] } split /\n/,
	  as_executor("SELECT action_id, token, attempt, idempotency_key, resend FROM actionledger.claim('$tool'" . ($more // '') . ')');
}

sub report
{
	my ($id, $verdict, $evidence) = @_;
	return as_executor("SELECT status || '/' || next_step FROM actionledger.report_outcome($id, '$verdict', '$evidence')");
}

subtest 'claimed, carried out, reported' => sub {
	my $id = perform($node, 'hand', 'one');
	is($node->safe_psql('postgres', "SELECT waiting_for FROM actionledger.pending WHERE action_id = $id"), 'executor', 'it waits for an executor');
	my $claims = as_executor("SELECT identity, args, attempt, resend, lease_ends_at > clock_timestamp() FROM actionledger.claim('hand', 5, '10s')");
	is($claims, 'hand:one|{"amount": 100, "refund_id": "one"}|1|f|t', 'the executor is given what it needs');
	is_deeply([ claim('hand') ], [], 'and nobody else is');
	my ($attempt) = attempts_of($node, $id);
	is("$attempt->{kind} $attempt->{executor}", 'external courier', 'the attempt is open');
	turns_pass($node, 2);
	my $token = $attempt->{incarnation};
	is(report($id, 'confirmed', qq({"token": $token, "external_ref": "fax-1", "result": [1]})), 'confirmed/none', 'confirmed');
	my $envelope = decode_json($node->safe_psql('postgres', "SELECT actionledger.result($id)"));
	is_deeply([ @{ $envelope->{data} }{qw(external_ref result attempts)}, $envelope->{meta}{confirmed_by} ], [ 'fax-1', [1], 1, 'executor' ], 'as its caller reads it');
	is(report($id, 'confirmed', qq({"token": $token, "external_ref": "fax-1", "result": [1]})), 'confirmed/none', 'a report that was not sure to have arrived can be repeated');
	is($node->safe_psql('postgres', "SELECT count(*) FROM actionledger.event WHERE action_id = $id"), 1, 'and counts once');
	is(scalar received($p, $id), 0, 'no dispatcher has sent it');
};

subtest 'what a report says decides what comes next' => sub {
	my %says = (
		'rejected {}' => 'failed/none',
		'rejected {"transient": true}' => 'prepared/send',
		'not_sent {}' => 'prepared/send',
		'in_progress {}' => 'submitted/wait',
		'unknown {}' => 'needs_reconciliation/review',
	);
	for my $case (sort keys %says)
	{
		my ($verdict, $evidence) = split / /, $case, 2;
		my $id = perform($node, 'hand', $case =~ s/\W+/-/gr);
		my ($claim) = claim('hand');
		is($claim->[0], $id, "$case: claimed");
		my $json = encode_json({ %{ decode_json($evidence) }, token => $claim->[1] + 0 });
		is(report($id, $verdict, $json), $says{$case}, "$case: $says{$case}");
		$node->safe_psql('postgres', "SELECT actionledger.cancel($id)");
	}
	my $id = perform($node, 'keyed', 'again');
	my ($first) = claim('keyed');
	is(report($id, 'unknown', qq({"token": $first->[1]})), 'submitted/resend', 'an unknown outcome with a key is tried again');
	my $second;
	poll(sub { ($second) = claim('keyed') }, 'it is due again');
	is_deeply([ @{$second}[ 0, 2, 3, 4 ] ], [ $id, 2, $first->[3], 't' ], 'as a second attempt with the same key, which the executor is told');
	cmp_ok($second->[1], '>', $first->[1], 'and a higher token');

	# The first executor is heard of again.
	is(as_executor("SELECT * FROM actionledger.heartbeat($id, $first->[1])"), 'LG017', 'its heartbeat is refused');
	is(report($id, 'not_sent', qq({"token": $first->[1]})), 'submitted/wait', 'what it says decides nothing');
	is(report($id, 'rejected', qq({"token": $first->[1], "conclusive": true})), 'submitted/wait', 'a refusal neither');
	is(report($id, 'confirmed', qq({"token": $first->[1], "external_ref": "r-1"})), 'confirmed/none', 'but that it happened is true, whoever has it now');
	is(report($id, 'confirmed', qq({"token": $second->[1], "external_ref": "r-1"})), 'confirmed/none', 'the second report changes nothing');
	is($node->safe_psql('postgres', "SELECT string_agg(what || ' ' || source, ', ' ORDER BY event_id) FROM actionledger.event WHERE action_id = $id"),
		'reported executor, reported executor, reported executor, reported executor, late_evidence executor', 'all of it is kept');
};

subtest 'many executors at once' => sub {
	$node->safe_psql('postgres', q{SELECT count(*) FROM actionledger.perform_many('hand',
		ARRAY(SELECT jsonb_build_object('refund_id', 'many-' || i, 'amount', i) FROM generate_series(1, 40) i))});
	my @out = ('') x 8;
	my @sessions = map {
		IPC::Run::start([ 'psql', '-XAtq', '-U', 'courier', '-d', $node->connstr('postgres'), ('-c', q{SELECT action_id FROM actionledger.claim('hand', 3)}) x 5 ], '>', \$out[$_])
	} 0 .. 7;
	$_->finish for @sessions;
	my @claimed = map { split /\n/ } @out;
	my %once = map { $_ => 1 } @claimed;
	is(scalar @claimed, 40, 'all are claimed');
	is(scalar keys %once, 40, 'each by one');
};

subtest 'what may be claimed' => sub {
	my $later = perform($node, 'hand', 'later', options => '{"not_before": "2099-01-01T00:00:00Z"}');
	my $expired = perform($node, 'hand', 'expired', options => '{"expires_at": "2099-01-01T00:00:00Z"}');
	$node->safe_psql('postgres', "UPDATE actionledger.action SET expires_at = '2001-01-01T00:00:00Z' WHERE action_id = $expired");
	is_deeply([ claim('hand', ', 10') ], [], 'nothing that is not due, nothing that has expired');
	is(action_row($node, $expired)->{error_code}, 'expired', 'an expired one has failed');
	$node->safe_psql('postgres', "CREATE ROLE agent; SELECT actionledger.grant_tool('hand', 'agent')");
	my $revoked = $node->safe_psql('postgres', q{SET ROLE agent; SELECT action_id FROM actionledger.perform('hand', '{"refund_id": "revoked", "amount": 1}')});
	$node->safe_psql('postgres', "SELECT actionledger.revoke_tool('hand', 'agent')");
	is_deeply([ claim('hand', ', 10') ], [], 'nothing whose requester may not perform it any more');
	is(action_row($node, $revoked)->{next_step}, 'blocked', 'which is blocked');
	$node->safe_psql('postgres', q{SELECT actionledger.alter_tool('hand', '{"approval": "always"}')});
	my $asks = perform($node, 'hand', 'asks');
	is_deeply([ claim('hand', ', 10') ], [], 'nothing that nobody has approved');
	$node->safe_psql('postgres', "UPDATE actionledger.action SET requested_by = 'courier' WHERE action_id = $asks; SELECT actionledger.approve($asks, 'seen')");
	my ($approved) = claim('hand');
	is($approved->[0], $asks, 'and what somebody has');
	report($asks, 'confirmed', qq({"token": $approved->[1]}));
	$node->safe_psql('postgres', q{SELECT actionledger.alter_tool('hand', '{"approval": null}')});
	my $paused = perform($node, 'hand', 'paused');
	$node->safe_psql('postgres', "SELECT actionledger.pause_tool('hand', 'the fax is broken')");
	is_deeply([ claim('hand', ', 10') ], [], 'nothing that is paused');
	is($node->safe_psql('postgres', "SELECT waiting_for FROM actionledger.pending WHERE action_id = $paused"), 'paused: the fax is broken', 'which says so');
	$node->safe_psql('postgres', "SELECT actionledger.resume_tool('hand', 'mended')");
	my ($resumed) = claim('hand');
	is($resumed->[0], $paused, 'and is claimed again afterwards');
	report($paused, 'confirmed', qq({"token": $resumed->[1]}));
	is(as_executor("SELECT * FROM actionledger.claim('hand')", 'other'), 'LG005', 'by nobody else than its owner');
	my $id = perform($node, 'hand', 'mine');
	my ($claim) = claim('hand');
	$node->safe_psql('postgres', 'GRANT courier TO other');
	is(as_executor("SELECT cancel_requested FROM actionledger.heartbeat($id, $claim->[1])", 'other'), 'f', 'a member goes on with it');
	$node->safe_psql('postgres', "SELECT actionledger.cancel($id)");
	is(as_executor("SELECT cancel_requested FROM actionledger.heartbeat($id, $claim->[1], '5s')"), 't', 'and learns of a cancel');
	is(report($id, 'not_sent', qq({"token": $claim->[1]})), 'failed/none', 'so that it can end it');
	is(as_executor("SELECT * FROM actionledger.heartbeat($id, $claim->[1])"), 'LG017', 'a claim that has ended cannot be extended');
};

subtest 'a lease that ends without a report' => sub {
	my $unkeyed = perform($node, 'brief', 'silent');
	my $keyed = perform($node, 'brief_keyed', 'silent');
	my $start = time;
	my ($claim) = claim('brief');
	my ($first) = claim('brief_keyed');
	as_executor("SELECT pg_sleep(0.5); SELECT * FROM actionledger.heartbeat($keyed, $first->[1])");
	my $row = settle($node, $unkeyed, 'needs_reconciliation', 'review');
	cmp_ok(time - $start, '>=', 2, 'is an unknown outcome, not before the lease and the max processing time are over');
	like($row->{error_message}, qr/its executor has not reported before its lease was over/, 'and says so');
	is((attempts_of($node, $unkeyed))[0]{category}, 'lease_expired', 'as does the attempt');
	is($row->{claimed_by}, undef, 'nobody has it');
	is_deeply([ claim('brief') ], [], 'and nobody gets it without a key');
	settle($node, $keyed, 'submitted', 'resend');
	cmp_ok(time - $start, '>=', 2.5, 'a heartbeat has made the lease longer');
	my $second;
	poll(sub { ($second) = claim('brief_keyed') }, 'with a key it is due again');
	is($second->[3], $first->[3], 'the same key');
	is(report($unkeyed, 'rejected', qq({"token": $claim->[1]})), 'needs_reconciliation/review', 'the late executor does not decide');
	is(report($unkeyed, 'confirmed', qq({"token": $claim->[1]})), 'confirmed/none', 'unless it did it');
};

subtest 'somebody else decides meanwhile' => sub {
	my $id = perform($node, 'hand', 'meanwhile');
	my ($claim) = claim('hand');
	is($node->safe_psql('postgres', "SELECT status FROM actionledger.report_outcome($id, 'confirmed', '{\"event\": 1}')"), 'confirmed', 'a callback confirms it');
	is((attempts_of($node, $id))[0]{finished_at}, undef, 'the attempt is open');
	is(as_executor("SELECT * FROM actionledger.heartbeat($id, $claim->[1])"), 'LG017', 'the executor learns that it has lost it');
	is(report($id, 'rejected', qq({"token": $claim->[1]})), 'confirmed/none', 'what it reports changes nothing');
	is((attempts_of($node, $id))[0]{verdict}, 'rejected', 'and closes its attempt');
	is($node->safe_psql('postgres', "SELECT says || ' says ' || source FROM actionledger.conflicts WHERE action_id = $id"), 'rejected says executor', 'the contradiction is shown');

	my $silent = perform($node, 'brief', 'meanwhile');
	claim('brief');
	$node->safe_psql('postgres', "SELECT actionledger.resolve($silent, 'confirmed', '{}', 'seen', 'submitted')");
	poll_sql($node, "SELECT deadline < now() FROM actionledger.attempt WHERE action_id = $silent", 'the lease is over');
	$node->safe_psql('postgres', 'SELECT sum(n) FROM actionledger.reconcile()');
	is((attempts_of($node, $silent))[0]{category}, 'lease_expired', 'an attempt that nobody reports is closed by a sweep');
};

subtest 'a claim survives a crash' => sub {
	my $id = perform($node, 'hand', 'crash');
	my ($claim) = split /\n/, as_executor(q{SET synchronous_commit = off; SELECT action_id, token FROM actionledger.claim('hand')});
	$node->stop('immediate');
	$node->start;
	my (undef, $token) = split /\|/, $claim;
	is(action_row($node, $id)->{claimed_by}, -$token, 'although its session had synchronous_commit off');
	turns_pass($node, 2);
	is(action_row($node, $id)->{status}, 'submitted', 'no dispatcher takes it for lost');
	is(report($id, 'confirmed', qq({"token": $token})), 'confirmed/none', 'and its executor reports');
};

subtest 'a claim that something else could take back' => sub {
	perform($node, 'hand', 'company');
	my ($out, $err) = ('', '');
	$node->psql('postgres', "CREATE TABLE t (); BEGIN; INSERT INTO t DEFAULT VALUES; SELECT count(*) FROM actionledger.claim('hand'); ROLLBACK", stdout => \$out, stderr => \$err);
	like($err, qr/WARNING:  claim\(\) in a transaction that has written something else/, 'is warned of');
	($out, $err) = ('', '');
	$node->psql('postgres', "BEGIN; SELECT count(*) FROM actionledger.claim('hand'); ROLLBACK", stdout => \$out, stderr => \$err);
	is($err, '', 'one in a transaction of its own is not');
	is(scalar claim('hand'), 1, 'a claim that is rolled back was none');
};

subtest 'the max processing time begins when an executor has stopped' => sub {
	$node->safe_psql('postgres', q{SELECT actionledger.create_tool('slow hand', 'plain', 'refund by hand', identity => 'slow:{refund_id}',
	  input => '{"required": ["refund_id", "amount"], "properties": {"refund_id": {"type": "string"}, "amount": {"type": "integer"}}}',
	  options => '{"transport": "external", "owner": "courier", "timeout": "30s", "max_processing": "2s",
	    "lookup": {"request": "GET /refunds?key={_key}", "match": "$.data[*] ? (@.key == $_key)", "absence": "authoritative", "every": "50ms", "attempts": 100}}')});
	my $id = perform($node, 'slow hand', 'slow');
	my ($claim) = claim('slow hand');
	poll_sql($node, "SELECT clock_timestamp() > last_sent_at + interval '3 s' FROM actionledger.action WHERE action_id = $id", 'it takes a while');
	$node->safe_psql('postgres', q{SELECT actionledger.alter_tool('slow hand', '{"timeout": "100ms"}')});
	my $before = $node->safe_psql('postgres', 'SELECT clock_timestamp()');
	is(report($id, 'unknown', qq({"token": $claim->[1], "detail": "no answer"})), 'needs_reconciliation/lookup', 'it does not know what became of it');
	is(settle($node, $id, 'failed', 'none')->{error_code}, 'absent', 'it is looked up, and absent');
	is($node->safe_psql('postgres', "SELECT min(started_at) >= timestamptz '$before' + interval '2 s' FROM actionledger.attempts WHERE action_id = $id AND kind = 'lookup'"),
		't', 'which counts only after the max processing time, whatever the timeout is by now');
};

subtest 'a tool that has another owner by now' => sub {
	my $id = perform($node, 'hand', 'moved');
	$node->safe_psql('postgres', q{CREATE ROLE other_courier; GRANT EXECUTE ON FUNCTION actionledger.claim, actionledger.heartbeat, actionledger.report_outcome TO other_courier;
	  SELECT actionledger.alter_tool('hand', '{"owner": "other_courier"}')});
	my $claims = $node->safe_psql('postgres', "SET ROLE other_courier; SELECT action_id, token FROM actionledger.claim('hand', 100)");
	my ($token) = $claims =~ /^$id\|(\d+)$/m;
	ok($token, 'its executor claims what was recorded before');
	is($node->safe_psql('postgres', "SET ROLE other_courier; SELECT lease_ends_at > now() FROM actionledger.heartbeat($id, $token)"), 't', 'keeps it');
	is($node->safe_psql('postgres', qq{SET ROLE other_courier; SELECT status FROM actionledger.report_outcome($id, 'confirmed', '{"token": $token}')}), 'confirmed', 'and reports');
	$node->safe_psql('postgres', q{SELECT actionledger.alter_tool('hand', '{"owner": "courier"}')});
};

$node->stop('fast');
done_testing();
