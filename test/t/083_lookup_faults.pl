# A lookup that is lost with its dispatcher is made again: it is no send, and
# nothing is known by it.  Lookups keep to what holds of sends: breaker, pause,
# limits.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Audit;
use Fault;
use Ledger;

my $node = start_server(fault => 1);
my $p = start_provider();
$node->safe_psql('postgres', qq{SELECT actionledger.create_service('pay', '$p->{url}', '{"allow_private": true, "breaker": {"failures": 1000}}')});
my $audit = Audit->new($node, $p);

sub tool
{
	my ($name, %o) = @_;
	my $look = $o{look} // 'ok';
	return refund_tool($node, name => $name, service => $o{service} // 'pay', mode => 'unkeyed', do => $o{do} // 'close', timeout => $o{timeout} // '10s',
		options => '"max_processing": "0s"' . qq(, "lookup": {"request": "GET /refunds?key={_key}&do=$look", "match": "\$.data[*] ? (@.key == \$_key)",
		  "every": "@{[ $o{every} // '200ms' ]}", "absence": "authoritative", "resend": true}));
}

# Wait until an action is confirmed, through restarts of the server; gives its row.
sub confirmed
{
	my ($id) = @_;
	poll_sql($node, "SELECT status = 'confirmed' FROM actionledger.action WHERE action_id = $id", "action $id is confirmed", 60);
	return settle($node, $id, 'confirmed', 'none');
}

sub story
{
	my ($id) = @_;
	return [ map { "$_->{kind} " . ($_->{verdict} // 'open') . ' ' . ($_->{category} // '') } attempts_of($node, $id) ];
}

# The wait from the send to its lookup: timeout and max processing time.
tool('crash', look => 'late:1000,ok', timeout => '1500ms');

for my $point (qw(lookup_sent lookup_answered mark_committed attempt_written))
{
	subtest "the dispatcher dies at $point" => sub {
		my $id = perform($node, 'crash', "crash-$point");

		settle($node, $id, 'needs_reconciliation', 'lookup');
		my $entry = entry($point, 'kill');
		arm($node, $entry);
		ok(wait_fired($node, $entry, 40), 'it died');
		my $row = confirmed($id);
		my @story = @{ story($id) };

		is(shift @story, 'send unknown connection_lost', 'the send is as it was');
		is(pop @story, 'lookup confirmed found', 'the lookup was made again');
		is(scalar(grep { $_ ne 'lookup unknown worker_lost' } @story), 0, 'what was lost is known as lost') or diag("@story");
		cmp_ok(scalar @story, '>=', 1, 'and is on record') unless $point eq 'attempt_written' && @story == 0;
		is_deeply([ scalar(received($p, $id)), effects($p, $id) ], [ 1, 1 ], 'sent once, done once');
		is($row->{lookups}, scalar(@story) + 1, 'every lookup is counted');
	};
}

subtest 'an error in the turn that records a lookup loses nothing' => sub {
	my $id = perform($node, 'crash', 'error');

	settle($node, $id, 'needs_reconciliation', 'lookup');
	my $entry = entry('attempt_written', 'error');
	arm($node, $entry);
	ok(wait_fired($node, $entry, 40), 'it failed once');
	confirmed($id);
	is_deeply([ scalar(received($p, $id)), effects($p, $id) ], [ 1, 1 ], 'sent once, done once');
	cmp_ok(scalar(looked($p, $id)), '>=', 1, 'looked up');
};

subtest 'the server stops while it looks' => sub {
	tool('stop', look => 'late:3000,ok', timeout => '5s');
	my $id = perform($node, 'stop', 'stop');
	$node->safe_psql('postgres', "SELECT actionledger.wait($id, '1s')");
	poll(sub { scalar received($p, $id) }, 'it was sent');
	poll(sub { defined try_sql($node, "SELECT actionledger.reconcile_now($id)") }, 'it can be looked up');
	poll(sub { scalar looked($p, $id) }, 'it is being looked up');
	$node->stop('immediate');
	slow_wait_for_start($node);
	confirmed($id);
	is_deeply(story($id), [ 'send unknown connection_lost', 'lookup unknown worker_lost', 'lookup confirmed found' ], 'the lookup is made again');
};

subtest 'an open breaker holds lookups as it holds sends' => sub {
	my $q = start_provider();

	$node->safe_psql('postgres', qq{SELECT actionledger.create_service('weak', '$q->{url}', '{"allow_private": true, "breaker": {"failures": 2, "cooldown": "2s"}}')});
	tool('weak', service => 'weak', do => 'status:503', look => 'status:503,status:503,ok', timeout => '500ms', every => '100ms');
	tool('weak ok', service => 'weak', do => 'execstatus:500', timeout => '500ms', every => '100ms');
	my $first = perform($node, 'weak', 'weak-1');
	my $second = perform($node, 'weak ok', 'weak-2');
	settle($node, $_, 'needs_reconciliation', 'lookup') for $first, $second;
	poll_sql($node, q{SELECT state <> 'closed' FROM actionledger.breakers WHERE service = 'weak'}, 'the breaker opens');
	my $row = confirmed($second);
	is($row->{confirmed_by}, 'lookup', 'a lookup is the probe that closes it again');
	is(effects($q, $second), 1, 'done once');
	# Nothing was asked while it was open: the requests come in groups two seconds apart.
	my @times = map { $_->{t} } grep { $_->{ev} eq 'received' } truth($q);
	my @gaps = grep { $_ >= 1.9 } map { $times[$_] - $times[ $_ - 1 ] } 1 .. $#times;
	cmp_ok(scalar @gaps, '>=', 1, 'nothing was asked while it was open');
};

subtest 'a pause of everything holds lookups, a pause of writes does not' => sub {
	tool('paused', timeout => '500ms');
	my $id = perform($node, 'paused', 'paused-1');
	settle($node, $id, 'needs_reconciliation', 'lookup');
	$node->safe_psql('postgres', q{SELECT actionledger.pause_service('pay', 'maintenance', 'writes')});
	settle($node, $id, 'confirmed', 'none');
	$node->safe_psql('postgres', q{SELECT actionledger.resume_service('pay', 'done')});
	# Its first lookup says nothing, and the next would be tomorrow's, unless somebody asks.
	tool('paused everything', look => 'status:404,ok', every => '1d', timeout => '500ms');
	$id = perform($node, 'paused everything', 'paused-2');
	poll_sql($node, "SELECT lookups = 1 AND claimed_by IS NULL FROM actionledger.action WHERE action_id = $id", 'it was looked up once');
	$node->safe_psql('postgres', q{SELECT actionledger.pause_service('pay', 'maintenance', 'everything')});
	$node->safe_psql('postgres', "SELECT actionledger.reconcile_now($id)");
	poll_sql($node, "SELECT held_at <= clock_timestamp() FROM actionledger.due WHERE action_id = $id", 'another one is due, and held');
	turns_pass($node, 4);
	is(scalar(looked($p, $id)), 1, 'paused: it is not looked up');
	is(action_row($node, $id)->{lookups}, 1, 'nor is it counted');
	$node->safe_psql('postgres', q{SELECT actionledger.resume_service('pay', 'done')});
	settle($node, $id, 'confirmed', 'none');
	is_deeply([ scalar(received($p, $id)), effects($p, $id) ], [ 1, 1 ], 'sent once, done once');
};

my ($wrong) = $audit->check(where => "status IN ('confirmed', 'failed') AND a.tool_id NOT IN (SELECT tool_id FROM actionledger.tool WHERE name LIKE 'weak%')");
is_deeply($wrong, [], 'ledger and truth agree in the end');

$node->stop;
done_testing();
