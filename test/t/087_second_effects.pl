# What would make a second effect, or hide the first: an absence that is
# believed too early, from another question's answer or from a question without
# its subject, and a person's decision that is carried out after what it was
# decided upon has changed.  Counted at the provider.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;

my $node = start_server();
my $p = start_provider();

$node->safe_psql('postgres', qq{SELECT actionledger.create_service('pay', '$p->{url}', '{"allow_private": true, "breaker": {"failures": 1000}}')});

# A tool that may be sent once more after a proved absence.
sub tool
{
	my ($name, %o) = @_;
	my $request = $o{request} // 'GET /refunds?key={_key}';
	my $lookup = exists $o{lookup} ? $o{lookup}
	  : qq(, "lookup": {"request": "$request", "match": "\$.data[*] ? (@.key == \$_key)", "every": "100ms", @{[ $o{absence} // '"absence": "authoritative", "resend": true' ]}});
	return refund_tool($node, name => $name, mode => 'unkeyed', do => $o{do} // 'close', timeout => $o{timeout},
		options => qq("max_processing": "$o{processing}"$lookup));
}

# Free text in a plan, decoded twice on its way.
sub encoded
{
	my ($text) = @_;
	return $text =~ s/([^A-Za-z0-9_.-])/sprintf '%%25%02X', ord $1/ger;
}

sub sent_and_done
{
	my ($id) = @_;
	return [ scalar(received($p, $id)), effects($p, $id) ];
}

subtest 'the max processing time begins when nobody waits any more' => sub {
	# Executed three seconds after it has come: one after the ledger has given up.
	tool('lowered', do => 'slowexec:3000', timeout => '2s', processing => '2s');
	my $id = perform($node, 'lowered', 'lowered');
	poll(sub { scalar received($p, $id) }, 'it is under way');
	$node->safe_psql('postgres', q{SELECT actionledger.alter_tool('lowered', '{"timeout": "100ms"}')});
	my $row = settle($node, $id, 'confirmed', 'none');
	is_deeply(sent_and_done($id), [ 1, 1 ], 'a timeout that is lowered meanwhile makes no second effect');
	is($row->{confirmed_by}, 'lookup', 'it was found');

	# A dispatcher that is suspended, and then killed, has waited until then.
	tool('killed', do => 'hang', timeout => '500ms', processing => '8s');
	$id = perform($node, 'killed', 'killed');
	poll(sub { scalar received($p, $id) }, 'it is under way');
	my $pid = pid_of_dispatcher($node);
	kill 'STOP', $pid;
	poll_sql($node, "SELECT clock_timestamp() > last_sent_at + interval '9 s' FROM actionledger.action WHERE action_id = $id", 'time passes');
	my $open = action_row($node, $id)->{status} eq 'submitted';
	my $killed = $node->safe_psql('postgres', 'SELECT clock_timestamp()');
	kill 'KILL', $pid;
	poll_sql($node, "SELECT status = 'confirmed' FROM actionledger.action WHERE action_id = $id", 'it is confirmed', 90);
	is_deeply(sent_and_done($id), [ 1, 1 ], 'sent once, done once');
  SKIP: {
		skip 'it was recorded before', 1 unless $open;
		is($node->safe_psql('postgres', "SELECT min(started_at) >= timestamptz '$killed' + interval '8 s' FROM actionledger.attempts WHERE action_id = $id AND kind = 'lookup'"),
			't', 'nothing is looked up before the max processing time after its death');
	}
};

subtest 'an answer is not read by a definition that did not ask' => sub {
	# It asks for something else, which somebody notices while an answer is on its way.
	tool('mended', timeout => '2s', processing => '0s', request => 'GET /refunds?key=other&do=late:1500', absence => '"attempts": 20');
	my $id = perform($node, 'mended', 'mended');
	poll(sub { scalar looked($p, $id) }, 'it is being looked up');
	$node->safe_psql('postgres', q{SELECT actionledger.alter_tool('mended', '{"lookup": {"request": "GET /refunds?key={_key}", "absence": "authoritative", "resend": true}}')});
	my $row = settle($node, $id, 'confirmed', 'none');
	is($row->{confirmed_by}, 'lookup', 'it was found by the definition that is right');
	is_deeply(sent_and_done($id), [ 1, 1 ], 'sent once, done once');
	is((attempts_of($node, $id))[1]{category}, 'definition_changed', 'and the other answer proves nothing');
};

subtest 'a lookup without what it asks for is not made' => sub {
	for my $name (qw(_run_id _external_ref))
	{
		# An empty key lists everything there, and the first page has something else.
		for my $request ("GET /refunds?limit=1&key={$name}", "GET /refunds?limit=1{&$name}")
		{
			(my $tool = "ask $request") =~ tr/a-zA-Z0-9_ //cd;
			tool($tool, timeout => '300ms', processing => '0s', request => $request);
			my $id = perform($node, $tool, "$tool");
			my $row = settle($node, $id, 'needs_reconciliation', 'review');
			is_deeply(sent_and_done($id), [ 1, 1 ], "$request: sent once, done once");
			like($row->{error_message}, qr/cannot be looked up/, 'a person is asked, and told why');
			is(scalar(looked($p, $id)), 0, 'nothing is asked');
		}
	}
};

subtest 'what an answer that proves nothing tells is not asked after' => sub {
	# The number of an error, and where to read about it: there is no such refund.
	my %said = (
		'number' => [ 'execstatus:500;body:' . encoded('{"id": "err_9"}'), 'GET /refunds/{_external_ref}' ],
		'place' => [ 'execstatus:302;Location:' . encoded('/refunds/none'), 'GET {_location}' ]);
	for my $name (sort keys %said)
	{
		refund_tool($node, name => $name, mode => 'unkeyed', do => $said{$name}[0], timeout => '300ms', options =>
			qq("max_processing": "0s", "lookup": {"request": "$said{$name}[1]", "match": "\$ ? (@.object == \\"refund\\")", "every": "100ms", "absence": {"status": 404}, "resend": true}));
		my $id = perform($node, $name, $name);
		my $row = settle($node, $id, 'needs_reconciliation', 'review');
		is_deeply(sent_and_done($id), [ 1, 1 ], "$name: sent once, done once");
		is(scalar(looked($p, $id)), 0, 'nothing is asked');
	}

	# Where a reply accepts it, its number and its place are the action's.
	refund_tool($node, name => 'accepted', mode => 'unkeyed', do => 'accepted', timeout => '300ms', options =>
		q("max_processing": "0s", "lookup": {"request": "GET {_location}", "match": "$.data[*]", "every": "100ms"}));
	my $id = perform($node, 'accepted', 'accepted');
	is(settle($node, $id, 'confirmed', 'none')->{confirmed_by}, 'lookup', 'one that was accepted is found where the answer said');
};

subtest 'a decision to send once more is for what was known then' => sub {
	tool('forced', timeout => '300ms', processing => '0s', lookup => '');
	my @ids = map { perform($node, 'forced', "forced-$_") } qw(reported inherited kept);
	settle($node, $_, 'needs_reconciliation', 'review') for @ids;
	poll_sql($node, "SELECT bool_and(clock_timestamp() > last_sent_at + interval '500 ms') FROM actionledger.action WHERE action_id = ANY ('{$ids[0],$ids[1],$ids[2]}')", 'it may be forced');
	$node->safe_psql('postgres', q{SELECT actionledger.pause_tool('forced', 'maintenance')});
	is($node->safe_psql('postgres', "SELECT next_step FROM actionledger.retry($_, 'the provider has lost it', force => true)"), 'resend', 'decided') for @ids;

	# The provider says that it is at it.
	$node->safe_psql('postgres', qq{SELECT actionledger.report_outcome($ids[0], 'in_progress', '{"event": "evt_1"}')});
	# Another place may have carried the decision out.
	$node->safe_psql('postgres', "UPDATE actionledger.action SET instance = instance + 1 WHERE action_id = $ids[1]");
	$node->safe_psql('postgres', q{SELECT actionledger.resume_dispatch('successor', 'moved')});
	$node->safe_psql('postgres', q{SELECT actionledger.resume_tool('forced', 'over')});
	poll(sub { received($p, $ids[2]) == 2 }, 'a decision that still holds is carried out');
	settle($node, $ids[1], 'needs_reconciliation', 'review');
	turns_pass($node, 6);
	is_deeply(sent_and_done($ids[0]), [ 1, 1 ], 'what the provider is at is not sent again');
	is_deeply(sent_and_done($ids[1]), [ 1, 1 ], 'nor what was inherited');
};

subtest 'an old snapshot does not see through a pause or an approval' => sub {
	my $psql = 'psql -XAtq -d "' . $node->connstr('postgres') . '" -c';
	$node->safe_psql('postgres', q{SELECT actionledger.create_tool('hand', 'pay', 'by hand', identity => '{id}', input => '{"properties": {"id": {"type": "string"}}}',
		options => '{"transport": "external"}'), actionledger.create_tool('ask', 'pay', 'POST /unkeyed/refunds', identity => 'ask:{id}',
		input => '{"properties": {"id": {"type": "string"}}}')});
	my $hand = $node->safe_psql('postgres', q{SELECT action_id FROM actionledger.perform('hand', '{"id": "1"}')});
	my $out = $node->safe_psql('postgres', qq{
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM actionledger.pauses WHERE name = 'hand';
\\! $psql "SELECT state FROM actionledger.pause_tool('hand', 'stop'); SELECT left(actionledger.alter_tool('ask', '{\\"approval\\": \\"always\\"}'), 5)"
SELECT 'claimed', count(*) FROM actionledger.claim('hand');
SELECT 'first', next_step FROM actionledger.perform('ask', '{"id": "1"}');
COMMIT;
SELECT 'second', next_step FROM actionledger.perform('ask', '{"id": "2"}')});
	is($out, "0\npaused\nready\nclaimed|0\nfirst|approve\nsecond|approve", 'nothing is claimed that is paused, nothing is sent that has to be approved');
	is(action_row($node, $hand)->{claimed_by}, undef, 'nobody has it');
	turns_pass($node, 3);
	is(scalar(grep { $_->{ev} eq 'executed' && $_->{path} eq '/unkeyed/refunds' } truth($p)), 0, 'nothing was done');
};

$node->stop;
done_testing();
