# Tools and services that are changed while actions of them are being recorded, or
# held: no action is left without its definition, and no name is used twice.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;
use Lifecycle;

my $node = start_server();
my $p = start_provider();

sub service
{
	my ($name) = @_;
	$node->safe_psql('postgres', qq{SELECT actionledger.create_service('$name', '$p->{url}', '{"allow_private": true, "idempotency": "none"}')});
	return;
}

# The SQLSTATE of a statement that fails, what it prints when it does not.
sub outcome
{
	my ($sql) = @_;
	my ($out, $err) = ('', '');
	my $rc = $node->psql('postgres', $sql, stdout => \$out, stderr => \$err, extra_params => [ '-v', 'VERBOSITY=sqlstate' ]);
	return $rc == 0 ? $out : ($err =~ /ERROR:  (\w{5})/)[0];
}

# Record an action in a transaction that is prepared, and so stays open without a session.
sub record_open
{
	my ($tool, $name) = @_;
	return $node->safe_psql('postgres', qq{BEGIN; SELECT action_id FROM actionledger.perform('$tool', '{"refund_id": "$name", "amount": 1}'); PREPARE TRANSACTION '$name'});
}

# What a session has said when it has ended.
sub said
{
	my ($session) = @_;
	end_session($session);
	return $session->{out} . $session->{err};
}

# Wait until a session waits for a lock.
sub wait_for_lock
{
	my ($query) = @_;
	poll_sql($node, "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%$query%' AND pid <> pg_backend_pid()", 'it waits');
	return;
}

my $waits = q{SET actionledger.identity_wait = '60s';};
my $hasty = q{SET actionledger.identity_wait = '100ms';};

subtest 'a tool is not dropped from under an action that is being recorded' => sub {
	service('leaving');
	refund_tool($node, name => 'leaving', service => 'leaving', mode => 'unkeyed');
	my $id = record_open('leaving', 'leaving-1');
	is(outcome("$hasty SELECT actionledger.drop_tool('leaving')"), 'LG016', 'it waits, but not for ever');
	is(outcome("$hasty SELECT actionledger.drop_tool('leaving', true)"), 'LG016', 'nor with force');
	is(outcome(q{SELECT actionledger.drop_service('leaving')}), 'LG016', 'and its service stays');
	my $session = start_session($node, 'postgres', "$waits SELECT actionledger.drop_tool('leaving')");
	wait_for_lock('drop_tool');
	my $other = start_session($node, 'postgres', qq{$waits SELECT status FROM actionledger.perform('leaving', '{"refund_id": "leaving-2", "amount": 1}')});
	wait_for_lock('leaving-2');
	$node->safe_psql('postgres', q{COMMIT PREPARED 'leaving-1'});
	like(said($session), qr/has 1 live action|has \d+ live actions/, 'then it sees the action, and refuses');
	like(said($other), qr/^prepared/, 'who came after it goes on');
	settle($node, $id, 'confirmed', 'none');

	# One that is dropped meanwhile is unknown to who waited.
	poll_sql($node, q{SELECT count(*) = 0 FROM actionledger.due}, 'all is at rest');
	$node->safe_psql('postgres', q{BEGIN; SELECT actionledger.drop_tool('leaving'); PREPARE TRANSACTION 'drop'});
	is(outcome(qq{$hasty SELECT * FROM actionledger.perform('leaving', '{"refund_id": "leaving-3", "amount": 1}')}), 'LG019', 'nothing is recorded of a tool that is being dropped');
	$other = start_session($node, 'postgres', qq{$waits SELECT * FROM actionledger.perform('leaving', '{"refund_id": "leaving-3", "amount": 1}')});
	wait_for_lock('leaving-3');
	$node->safe_psql('postgres', q{COMMIT PREPARED 'drop'});
	like(said($other), qr/there is no tool "leaving"/, 'and then it is unknown');
	is(outcome(q{SELECT actionledger.drop_service('leaving')}), 'LG016', 'a service with history stays');
	is($node->safe_psql('postgres', q{SELECT count(*) FROM actionledger.action a WHERE NOT EXISTS (SELECT FROM actionledger.actions v WHERE v.action_id = a.action_id)}), 0, 'every action is shown');

	# Not even an old snapshot makes it forget.
	service('empty');
	refund_tool($node, name => 'empty', service => 'empty', mode => 'unkeyed');
	my $keeper = $node->background_psql('postgres');
	$keeper->query_safe('SELECT pg_advisory_lock(42)');
	$session = start_session($node, 'postgres', q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1; SELECT pg_advisory_lock(42), pg_advisory_unlock(42); SELECT actionledger.drop_tool('empty', true); SELECT actionledger.drop_service('empty'); COMMIT});
	wait_for_lock('pg_advisory_lock');
	$id = perform($node, 'empty', 'empty-1');
	settle($node, $id, 'confirmed', 'none');
	$keeper->quit;
	like(said($session), qr/service "empty" is in use/, 'a service whose history is younger than the snapshot stays');
};

subtest 'no action is left to a transport that its tool has no more' => sub {
	refund_tool($node, name => 'turning', service => 'leaving', mode => 'unkeyed');
	record_open('turning', 'turning-1');
	my $external = q{SELECT actionledger.create_tool('turning', 'leaving', 'by hand', identity => 'refund:{refund_id}', replace => true,
	  input => '{"required": ["refund_id", "amount"], "properties": {"refund_id": {"type": "string"}, "amount": {"type": "integer"}}}', options => '{"transport": "external"}')};
	is(outcome("$hasty $external"), 'LG016', 'while one is being recorded');
	like(outcome(q{SELECT actionledger.alter_tool('turning', '{"timeout": "3s"}')}), qr/ready/, 'what does not matter to it can be altered');
	$node->safe_psql('postgres', q{ROLLBACK PREPARED 'turning-1'});
	like(outcome($external), qr/ready|approval/, 'none was');
};

subtest 'a tool with actions stays at its service' => sub {
	service('first');
	service('second');
	my $move = q{SELECT actionledger.create_tool('moving', 'second', 'POST /unkeyed/refunds', identity => 'refund:{refund_id}', replace => true,
	  input => '{"required": ["refund_id", "amount"], "properties": {"refund_id": {"type": "string"}, "amount": {"type": "integer"}}}')};
	refund_tool($node, name => 'moving', service => 'first', mode => 'unkeyed');
	record_open('moving', 'moving-1');
	is(outcome("$hasty $move"), 'LG016', 'while one is being recorded');
	$node->safe_psql('postgres', q{COMMIT PREPARED 'moving-1'});
	my $id = $node->safe_psql('postgres', q{SELECT action_id FROM actionledger.action WHERE identity = 'refund:moving-1'});
	settle($node, $id, 'confirmed', 'none');
	is(outcome($move), 'LG016', 'and for good');
	is($node->safe_psql('postgres', q{SELECT action_id || ' ' || created FROM actionledger.perform('moving', '{"refund_id": "moving-1", "amount": 1}')}), "$id false", 'asked for again it is the same action');
	is(effects($p, $id), 1, 'done once');
	refund_tool($node, name => 'moving on', service => 'first', mode => 'unkeyed');
	like(outcome($move =~ s/'moving'/'moving on'/r), qr/ready/, 'one without actions can go');
};

subtest 'what a pause holds of a tool that is dropped stays out of the way' => sub {
	refund_tool($node, name => 'held', service => 'first', mode => 'unkeyed');
	$node->safe_psql('postgres', q{SELECT actionledger.pause_service('first', 'maintenance')});
	my $id = perform($node, 'held', 'held-1');
	poll_sql($node, "SELECT held_at IS NOT NULL FROM actionledger.due WHERE action_id = $id", 'it is held');
	$node->safe_psql('postgres', q{SELECT actionledger.drop_tool('held', true)});
	$node->safe_psql('postgres', q{SELECT actionledger.resume_service('first', 'done')});
	turns_pass($node, 3);
	is($node->safe_psql('postgres', "SELECT next_at, held_at IS NULL FROM actionledger.due WHERE action_id = $id"), 'infinity|t', 'it waits for a person');
	is($node->safe_psql('postgres', q{SELECT waiting FROM actionledger.breakers WHERE service = 'first'}), 0, 'and for nothing else');
	is(scalar(received($p, $id)), 0, 'nothing was sent');
};

$node->stop;
done_testing();
