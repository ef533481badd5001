# The gate: with synchronous replication nothing leaves before the standby has
# the mark, and a wait that was cut short closes the gate.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;
use Lifecycle;
use Time::HiRes qw(sleep time);

my $p = start_provider();
my $node = start_server(name => 'primary', init => { allows_streaming => 1 });
create_ledger($node, 'postgres', $p, exists => 1);
tool_in($node, 'postgres', tool => 'slow', do => 'late:3000', mode => 'unkeyed', timeout => '20s', path => 'slow');
create_ledger($node, 'postgres', $p, exists => 1, name => 'bare', honoured => 0, tool => 'unkeyed', mode => 'unkeyed', path => 'bare');

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;

# Change settings and wait until a running session of ours sees them.
sub set_on_primary
{
	my (%o) = @_;
	for my $name (sort keys %o)
	{
		$node->safe_psql('postgres', "ALTER SYSTEM SET $name = '$o{$name}'");
	}
	$node->reload;
	poll_sql($node, "SELECT current_setting('$_') = '$o{$_}'", "$_ is set") for keys %o;
	return;
}

# Wait until a backend waits for a standby; returns its process id.
sub waiting
{
	my ($type, $bound, $other_than) = @_;
	my $pid;
	my $ok = eval {
		poll(
			sub {
				$pid = $node->safe_psql('postgres',
					"SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND backend_type = '$type' LIMIT 1");
				return $pid ne '';
			},
			"a $type waits for the standby", $bound);
	};
	diag $@ unless $ok;
	return $ok ? $pid : 0;
}

# The standby streams and counts as synchronous, or is gone.
sub standby_up
{
	$standby->start;
	poll_sql($node, "SELECT count(*) = 1 FROM pg_stat_replication WHERE state = 'streaming'", 'the standby streams');
	return;
}

sub standby_down
{
	$standby->stop;
	poll_sql($node, 'SELECT count(*) = 0 FROM pg_stat_replication', 'the standby is gone');
	return;
}

poll_sql($node, "SELECT count(*) = 1 FROM pg_stat_replication WHERE state = 'streaming'", 'the standby streams');
set_on_primary(synchronous_standby_names => '*');
my $id = perform_in($node, 'postgres', 'OK-1');
ok(status_becomes($node, 'postgres', $id, 'confirmed'), 'standby up: sent');
is($standby->safe_psql('postgres', "SELECT sends FROM actionledger.action WHERE action_id = $id"), 1,
	'and when it is, the standby has the mark');

subtest 'a commit that waits' => sub {
	standby_down();
	my $session = start_session($node, 'postgres',
		q{SET synchronous_commit = local; SELECT action_id FROM actionledger.perform('unkeyed', '{"refund_id": "W-1", "amount": 1}')});
	my $backend = waiting('client backend', 30);
	ok($backend, 'standby down: the commit of perform waits, although the session has synchronous_commit = local');
	is(wires($p, qr/db=bare/), 0, 'nothing leaves');
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($backend)");
	ok(end_session($session), 'cancelled: it has committed here');
	like($session->{err}, qr/WARNING: .*canceling wait for synchronous replication/, 'with the server\'s warning');
	($id) = $session->{out} =~ /(\d+)/;

	my $dispatcher = waiting('actionledger dispatcher', 30);
	ok($dispatcher, 'the commit of the mark waits');
	is(wires($p, qr/db=bare/), 0, 'nothing leaves');
	is($node->safe_psql('postgres', "SELECT status FROM actionledger.action WHERE action_id = $id"), 'prepared', 'the mark is not to be seen yet');

	# Cut short.
	my $mark = log_mark($node);
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($dispatcher)");
	my $closed = eval {
		poll(sub { $node->safe_psql('postgres', "SELECT count(*) FROM actionledger.attempt WHERE action_id = $id AND category = 'gate_closed'
			AND verdict = 'not_sent'") || do { my $w = waiting('actionledger dispatcher', 2);
				$node->safe_psql('postgres', "SELECT pg_cancel_backend($w)") if $w; 0 } },
			'the attempt is recorded as not sent', 30);
	};
	ok($closed, 'a wait cut short: the attempt is not_sent, gate_closed');
	is(wires($p, qr/db=bare/), 0, 'nothing leaves');
	is($node->safe_psql('postgres', "SELECT bool_and(NOT sent) FROM actionledger.attempt WHERE action_id = $id AND finished_at IS NOT NULL"), 't', 'no byte was sent');
	is((dispatchers_in($node, 'postgres'))[0], $dispatcher, 'the dispatcher is the same');

	standby_up();
	ok(status_becomes($node, 'postgres', $id, 'confirmed', 60), 'standby back: confirmed');
	is(wires($p, qr/db=bare/), 1, 'sent once');
};

subtest 'what expires while the commit of its mark waits is not sent' => sub {
	standby_down();
	my $before = wires($p, qr/db=bare/);
	my $session = start_session($node, 'postgres', q{SELECT action_id FROM actionledger.perform('unkeyed', '{"refund_id": "E-1", "amount": 1}',
		options => jsonb_build_object('expires_at', now() + interval '6 s'))});
	my $backend = waiting('client backend', 30);
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($backend)");
	end_session($session);
	($id) = $session->{out} =~ /(\d+)/;
	my $marked = waiting('actionledger dispatcher', 30);
	poll_sql($node, "SELECT clock_timestamp() > expires_at FROM actionledger.action WHERE action_id = $id", 'it expires');
	standby_up();
	ok(status_becomes($node, 'postgres', $id, 'failed', 60), 'standby back: it has failed');
	is(row_in($node, 'postgres', $id)->{error_code}, 'expired', 'as expired');
	is(wires($p, qr/db=bare/), $before, 'nothing has left') if $marked;
};

subtest 'a number of standbys is asked for' => sub {
	set_on_primary('actionledger.min_sync_standbys' => 1);
	my $ok = perform_in($node, 'postgres', 'M-0', 'unkeyed');
	ok(status_becomes($node, 'postgres', $ok, 'confirmed'), 'standby up: sent');
	my $before = wires($p, qr/db=bare/);

	# Emptied while a mark waits: the server lets it go without a warning.
	standby_down();
	my $session = start_session($node, 'postgres', q{SELECT action_id FROM actionledger.perform('unkeyed', '{"refund_id": "M-1", "amount": 1}')});
	my $backend = waiting('client backend', 30);
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($backend)");
	end_session($session);
	($id) = $session->{out} =~ /(\d+)/;
	sleep 1;
	$node->safe_psql('postgres', "ALTER SYSTEM SET synchronous_standby_names = ''");
	$node->reload;
	my $second = perform_in($node, 'postgres', 'M-2', 'unkeyed');
	my $row = wait_state($node, 'postgres', 'paused', 15);
	is($row->{state}, 'paused', 'names emptied, no standby: paused');
	like($row->{detail} // '', qr/min_sync_standbys/, 'with the reason');
	like($row->{do} // '', qr/standby|min_sync_standbys/, 'and what to do');
	sleep 6;	# more than all the pauses of a retry budget
	is(wires($p, qr/db=bare/), $before, 'nothing leaves');
	for ($id, $second)
	{
		my $row = row_in($node, 'postgres', $_);
		is($row->{status}, 'prepared', 'it waits');
		cmp_ok($row->{sends}, '<=', 1, 'and its attempts are not used up by waiting');
	}
	standby_up();
	ok(status_becomes($node, 'postgres', $_, 'confirmed', 60), 'standby back: confirmed') for $id, $second;
	is(wires($p, qr/db=bare/), $before + 2, 'each sent once');
	is(wait_state($node, 'postgres', 'running', 15)->{state}, 'running', 'running again');
	set_on_primary('actionledger.min_sync_standbys' => 0, synchronous_standby_names => '*');
};

subtest 'names emptied while a mark waits' => sub {
	# Nothing is paused before: the mark is committed with a standby that is not there any more.
	my $before = wires($p, qr/db=bare/);
	standby_down();
	my $session = start_session($node, 'postgres', q{SELECT action_id FROM actionledger.perform('unkeyed', '{"refund_id": "N-1", "amount": 1}')});
	my $backend = waiting('client backend', 30);
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($backend)");
	end_session($session);
	($id) = $session->{out} =~ /(\d+)/;
	my $dispatcher = waiting('actionledger dispatcher', 30);
	ok($dispatcher, 'the commit of the mark waits');
	$node->safe_psql('postgres', "ALTER SYSTEM SET actionledger.min_sync_standbys = 1");
	$node->safe_psql('postgres', "ALTER SYSTEM SET synchronous_standby_names = ''");
	$node->reload;
	poll_sql($node, "SELECT count(*) = 0 FROM pg_stat_activity WHERE wait_event = 'SyncRep'", 'nobody waits');
	my $row = wait_state($node, 'postgres', 'paused', 15);
	is($row->{state}, 'paused', 'paused');
	sleep 1;
	is(wires($p, qr/db=bare/), $before, 'nothing leaves');
	standby_up();
	ok(status_becomes($node, 'postgres', $id, 'confirmed', 60), 'standby back: confirmed');
	is(wires($p, qr/db=bare/), $before + 1, 'sent once');
	set_on_primary('actionledger.min_sync_standbys' => 0, synchronous_standby_names => '*');
};

subtest 'cancelled outside a wait' => sub {
	my $slow = perform_in($node, 'postgres', 'C-1', 'slow');
	poll(sub { received($p, $slow) }, 'a call is in flight');
	my ($pid) = dispatchers_in($node, 'postgres');
	for (1 .. 5)
	{
		$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
		sleep 0.1;
	}
	ok(status_becomes($node, 'postgres', $slow, 'confirmed', 20), 'pg_cancel_backend disturbs no call in flight');
	is((dispatchers_in($node, 'postgres'))[0], $pid, 'the dispatcher is the same');
	is(scalar(received($p, $slow)), 1, 'sent once');
};

subtest 'fast shutdown while a mark waits' => sub {
	my $before = wires($p, qr/db=bare/);
	standby_down();
	my $session = start_session($node, 'postgres', q{SELECT action_id FROM actionledger.perform('unkeyed', '{"refund_id": "F-1", "amount": 1}')});
	my $backend = waiting('client backend', 30);
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($backend)");
	end_session($session);
	($id) = $session->{out} =~ /(\d+)/;
	ok(waiting('actionledger dispatcher', 30), 'the commit of the mark waits');
	my $t = time;
	$node->stop('fast');
	cmp_ok(time - $t, '<', 15, 'the server stops');
	is(wires($p, qr/db=bare/), $before, 'nothing has left');
	$node->start;
	$standby->start;
	ok(status_becomes($node, 'postgres', $id, 'confirmed', 60), 'started again: confirmed, without a person');
	is(wires($p, qr/db=bare/), $before + 1, 'sent once');
	is($node->safe_psql('postgres', "SELECT string_agg(verdict || ' ' || category, ', ' ORDER BY attempt) FROM actionledger.attempt WHERE action_id = $id"),
		'not_sent gate_closed, confirmed confirmed', 'the attempt before the shutdown was proven unsent')
	  or diag $node->safe_psql('postgres', "SELECT attempt, verdict, category FROM actionledger.attempt WHERE action_id = $id");
};

subtest 'fast shutdown while an outcome waits' => sub {
	my $slow = perform_in($node, 'postgres', 'O-1', 'slow');
	poll(sub { received($p, $slow) }, 'a call is in flight');
	standby_down();
	ok(waiting('actionledger dispatcher', 30), 'the commit of its outcome waits');
	my $t = time;
	$node->stop('fast');
	cmp_ok(time - $t, '<', 15, 'the server stops');
	$node->start;
	$standby->start;
	my $row;
	poll(sub { $row = row_in($node, 'postgres', $slow); $row->{next_step} ne 'wait' }, 'it is settled');
	is($row->{status}, 'confirmed', 'the outcome was recorded here');
	is(scalar(received($p, $slow)), 1, 'sent once');
};

is($node->safe_psql('postgres', "SELECT count(*) FROM actionledger.action WHERE status <> 'confirmed' AND error_code IS DISTINCT FROM 'expired'"), 0, 'all the others are confirmed in the end');
$standby->stop;
$node->stop;
done_testing();
