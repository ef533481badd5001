# What was decided and what was marked survives a crash, whatever the session's
# synchronous_commit.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;

use constant ROUNDS => 10;

# ---------------------------------------------------------------------------
# Decisions: cancel and perform with synchronous_commit = off, then a crash
# ---------------------------------------------------------------------------
{
	my $node = start_server(conf => "wal_writer_delay = '10s'\nautovacuum = off");
	my $p = start_provider();
	my (@cancelled, @performed);

	refund_service($node, $p);
	refund_tool($node);
	$node->safe_psql('postgres', 'CREATE TABLE control (name text)');

	# A control that is not protected shows that the crash takes away what nobody
	# has flushed: the row after the decision is lost in most rounds.
	for my $round (1 .. ROUNDS)
	{
		pid_of_dispatcher($node);
		my $out = $node->safe_psql('postgres', <<"SQL");
SET synchronous_commit = off;
SELECT action_id FROM actionledger.perform('refund', '{"refund_id": "cancelled-$round", "amount": 1}',
  options => jsonb_build_object('not_before', clock_timestamp() + interval '4 s')) \\gset
SELECT status FROM actionledger.cancel(:action_id, 'a customer changed their mind');
INSERT INTO control VALUES ('cancelled-$round');
SELECT :action_id;
SQL
		$node->stop('immediate');
		$node->start;
		like($out, qr/\Afailed\n(\d+)\z/, "round $round: cancelled before the crash");
		push @cancelled, $out =~ /(\d+)$/;

		pid_of_dispatcher($node);
		$out = $node->safe_psql('postgres', <<"SQL");
SET synchronous_commit = off;
SELECT action_id FROM actionledger.perform('refund', '{"refund_id": "performed-$round", "amount": 1}',
  options => jsonb_build_object('not_before', clock_timestamp() + interval '2 s'));
INSERT INTO control VALUES ('performed-$round');
SQL
		$node->stop('immediate');
		$node->start;
		push @performed, $out;
	}
	for my $decision (qw(cancelled performed))
	{
		my $lost = ROUNDS - $node->safe_psql('postgres', "SELECT count(*) FROM control WHERE name LIKE '$decision-%'");
		cmp_ok($lost, '>=', 1, "$decision: the crash took away what was not flushed ($lost of " . ROUNDS . ' times)');
	}

	for my $id (@cancelled)
	{
		my $row = action_row($node, $id);
		is($row && "$row->{status} $row->{error_code}", 'failed cancelled', "action $id: its cancel has survived");
		is($node->safe_psql('postgres', "SELECT count(*) FROM actionledger.event WHERE action_id = $id AND what = 'cancelled'"), '1',
			"action $id: and who decided it");
	}
	for my $id (@performed)
	{
		my $row = settle($node, $id, 'confirmed', 'none');
		is(effects($p, $id), 1, "action $id: performed before the crash, executed once");
	}

	# Past the time of all of them, one that was performed later is sent, and no
	# cancelled one.
	my $last = $node->safe_psql('postgres', 'SELECT clock_timestamp()');
	poll_sql($node, "SELECT clock_timestamp() > timestamptz '$last' + interval '4 s'", 'the time of the last cancelled one is over');
	settle($node, perform($node, 'refund', 'sentinel'), 'confirmed', 'none');
	turns_pass($node, 3);
	is(scalar(map { received($p, $_) } @cancelled), 0, 'nothing was sent for a cancelled action');
	is(effects($p), ROUNDS + 1, 'exactly the others were executed');
	$node->stop;
}

# A rolled back cancel decides nothing, and a committed one in a transaction that
# has turned it off itself is protected too.
{
	my $node = start_server(name => 'local', conf => "synchronous_commit = off\nwal_writer_delay = '10s'\nautovacuum = off");
	my $p = start_provider();
	my ($kept, $stopped);

	refund_service($node, $p);
	refund_tool($node);
	$kept = perform($node, 'refund', 'kept', options => '{"not_before": "2100-01-01T00:00:00Z"}');
	$stopped = perform($node, 'refund', 'stopped', options => '{"not_before": "2100-01-01T00:00:00Z"}');
	$node->safe_psql('postgres', "SET synchronous_commit = on; CREATE ROLE app; SELECT actionledger.grant_tool('refund', 'app')");
	$node->safe_psql('postgres', "BEGIN; SELECT actionledger.cancel($kept, 'no'); ROLLBACK");
	$node->safe_psql('postgres', "BEGIN; SAVEPOINT a; SELECT actionledger.cancel($stopped, 'yes'); RELEASE a; SET LOCAL synchronous_commit = off; COMMIT");
	$node->safe_psql('postgres', "SELECT actionledger.revoke_tool('refund', 'app')");
	$node->stop('immediate');
	$node->start;
	is(action_row($node, $kept)->{status}, 'prepared', 'a cancel that is rolled back decides nothing');
	is(action_row($node, $stopped)->{status}, 'failed', 'a cancel survives where its transaction turned synchronous_commit off');
	is($node->safe_psql('postgres', "SELECT count(*) FROM actionledger.tool_grant WHERE role = 'app'"), 0, 'a grant that was taken back stays so');
	is($node->safe_psql('postgres', 'SHOW synchronous_commit'), 'off', 'the setting of others is as it was');
	$node->stop;
}

# ---------------------------------------------------------------------------
# The mark is durable before the first byte
# ---------------------------------------------------------------------------
{
	my $node = start_server(name => 'fault', fault => 1, conf => "synchronous_commit = off\nwal_writer_delay = '10s'\nautovacuum = off");
	my $p = start_provider();
	my %id;

	refund_service($node, $p, name => 'keyed');
	refund_service($node, $p, name => 'unkeyed', honoured => 0);
	refund_tool($node, name => 'keyed', service => 'keyed');
	refund_tool($node, name => 'unkeyed', service => 'unkeyed', mode => 'unkeyed');
	pid_of_dispatcher($node);

	# It stops with the mark written and not committed.
	arm($node, 'mark_written:hang');
	$id{before} = perform($node, 'unkeyed', 'before');
	poll_sql($node, "SELECT count(*) >= 1 FROM pg_locks l WHERE l.locktype = 'relation' AND l.relation = 'actionledger.attempt'::regclass AND l.mode = 'RowExclusiveLock'",
		'the dispatcher has written its mark');
	is(action_row($node, $id{before})->{status}, 'prepared', 'mark not committed: others see it prepared');
	is(scalar(grep { $_->{ev} eq 'received' } truth($p)), 0, 'mark not committed: nothing has been received');
	crash($node);
	settle($node, $id{before}, 'confirmed', 'none');
	is(scalar(attempts_of($node, $id{before})), 1, 'mark not committed: after the crash it is the first attempt');
	is(effects($p, $id{before}), 1, 'mark not committed: executed once');

	# It stops with the mark committed, before the request is given to the wire.
	arm($node, 'mark_committed:hang');
	my ($keyed, $unkeyed) = split /\n/, $node->safe_psql('postgres', <<'SQL');
SELECT action_id FROM (VALUES ('keyed'), ('unkeyed')) t(tool), LATERAL actionledger.perform(tool, '{"refund_id": "marked", "amount": 1}');
SQL
	poll_sql($node, "SELECT count(*) = 2 FROM actionledger.action WHERE action_id IN ($keyed, $unkeyed) AND status = 'submitted'",
		'both are marked for another session to see');
	is($node->safe_psql('postgres', "SELECT count(*) FROM actionledger.attempt WHERE action_id IN ($keyed, $unkeyed) AND finished_at IS NULL"), '2',
		'mark committed: their attempts are open');
	is(scalar(received($p, $_)), 0, "mark committed: nothing has been received for action $_") for $keyed, $unkeyed;
	crash($node);

	my $row = settle($node, $unkeyed, 'needs_reconciliation', 'review');
	is_deeply([ map { "$_->{verdict} $_->{category}" } attempts_of($node, $unkeyed) ], ['unknown worker_lost'],
		'unkeyed: the mark has survived the crash, and the outcome is unknown');
	is(scalar(received($p, $unkeyed)), 0, 'unkeyed: it is not sent again');
	$row = settle($node, $keyed, 'confirmed', 'none');
	is_deeply([ map { "$_->{verdict} $_->{category}" } attempts_of($node, $keyed) ], [ 'unknown worker_lost', 'confirmed confirmed' ],
		'keyed: the mark has survived the crash, and it is sent again');
	is_deeply([ map { $_->{key} } received($p, $keyed) ], [ $row->{idempotency_key} ], 'keyed: with its key');
	is(effects($p, $keyed), 1, 'keyed: executed once');
	$node->stop;
}

# Arm the fault points of a running server.
sub arm
{
	my ($node, $plan) = @_;
	$node->safe_psql('postgres', "ALTER SYSTEM SET actionledger.fault = '$plan'");
	$node->reload;
	poll_sql($node, "SELECT current_setting('actionledger.fault') = '$plan'", "the plan is $plan");
	return;
}

# Stop at once, disarm, and start.
sub crash
{
	my ($node) = @_;
	$node->stop('immediate');
	PostgreSQL::Test::Utils::append_to_file($node->data_dir . '/postgresql.auto.conf', "actionledger.fault = ''\n");
	slow_wait_for_start($node);
	return;
}

done_testing();
