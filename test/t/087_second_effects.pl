# What would make a second effect: an absence that is believed too early, from
# another question's answer, from a question without its subject, or about what an
# error told.  Counted at the provider.
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
	my $lookup = qq(, "lookup": {"request": "$request", "match": "@{[ $o{match} // '$.data[*] ? (@.key == $_key)' ]}", "every": "100ms", @{[ $o{absence} // '"absence": "authoritative", "resend": true' ]}});
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

	# Nor does one that is lowered after the ledger has given up.
	tool('lowered later', do => 'slowexec:5000', timeout => '3s', processing => '3s');
	$id = perform($node, 'lowered later', 'lowered-later');
	settle($node, $id, 'needs_reconciliation', 'lookup');
	$node->safe_psql('postgres', q{SELECT actionledger.alter_tool('lowered later', '{"timeout": "100ms"}')});
	like($node->safe_psql('postgres', "SELECT message FROM actionledger.reconcile_now($id)"), qr/would prove nothing before/, 'it may still be executed');
	settle($node, $id, 'confirmed', 'none');
	is_deeply(sent_and_done($id), [ 1, 1 ], 'a timeout that is lowered afterwards makes no second effect');

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

subtest 'an answer that is any object at all confirms nothing' => sub {
	# An error with a status of 200, about what was never done.
	tool('whatever', do => 'close_before', timeout => '300ms', processing => '0s', request => 'GET /refunds/{_key}?do=okfalse,okfalse', match => '$', absence => '"attempts": 2');
	my $id = perform($node, 'whatever', 'whatever');
	my $row = settle($node, $id, 'needs_reconciliation', 'review');
	is_deeply([ map { $_->{category} } (attempts_of($node, $id))[ 1, 2 ] ], [ ('no_reference') x 2 ], 'it lacks the reference that such an object has');
	is_deeply(sent_and_done($id), [ 1, 0 ], 'and nothing had been done');
};

subtest 'what is not there where it was not sent proves nothing' => sub {
	my %changed = ('base path' => qq({"base_url": "$p->{url}/v2"}), 'header' => '{"headers": {"X-Account": "b"}}', 'header less' => '{"headers": null}', 'header more' => '{"headers": {"X-Account": "a", "X-Version": "2"}}');
	for my $what (sort keys %changed)
	{
		$node->safe_psql('postgres', qq{SELECT actionledger.create_service('$what', '$p->{url}', '{"allow_private": true, "breaker": {"failures": 1000}, "headers": {"X-Account": "a"}}')});
		# Who asks is answered that there is none: by another path, for want of a list, or because it is another's.
		my $request = $what eq 'base path' ? 'GET /refunds/{_key}' : 'GET /refunds?key={_key}&hide_ms=100000';
		my $absence = $what eq 'base path' ? '{"status": 404}' : '"authoritative"';
		my $match = $what eq 'base path' ? '$' : '$.data[*] ? (@.key == $_key)';
		refund_tool($node, name => $what, service => $what, mode => 'unkeyed', do => 'hang', timeout => '300ms', options =>
			qq("max_processing": "1500ms", "lookup": {"request": "$request", "match": "$match", "absence": $absence, "resend": true, "every": "50ms", "attempts": 2}));
		my $id = perform($node, $what, $what =~ tr/ /-/r);
		settle($node, $id, 'needs_reconciliation', 'lookup');
		$node->safe_psql('postgres', "SELECT actionledger.alter_service('$what', '$changed{$what}')");
		my $row = settle($node, $id, 'needs_reconciliation', 'review');
		is_deeply([ map { $_->{category} } (attempts_of($node, $id))[ 1, 2 ] ], [ ('asked_elsewhere') x 2 ], "$what: proves nothing, twice");
		like($row->{error_message}, qr/it is not there, which proves nothing/, 'and a person is told why');
		is_deeply([ scalar(grep { $_->{method} eq 'POST' } received($p, $id)), effects($p, $id) ], [ 1, 1 ], 'sent once, done once');
	}
};

subtest 'a type that is declared later is none of what was sent' => sub {
	refund_tool($node, name => 'bolder', mode => 'unkeyed', do => 'hang', timeout => '500ms');
	my $id = perform($node, 'bolder', 'bolder');
	poll(sub { scalar received($p, $id) }, 'it is under way');
	for my $type ([ 'GET /read/refunds{?refund_id,amount}', 'read_only' ], [ 'POST /unkeyed/refunds?do=hang', 'idempotent' ])
	{
		my ($out, $err) = ('', '');
		$node->psql('postgres', qq{SELECT actionledger.create_tool('bolder', 'pay', '$type->[0]', '$type->[1]', identity => 'refund:{refund_id}', replace => true,
		  input => '{"required": ["refund_id", "amount"], "properties": {"refund_id": {"type": "string"}, "amount": {"type": "integer"}}}')}, stdout => \$out, stderr => \$err);
		like($err, qr/action_type of tool "bolder" cannot become less cautious now/, "$type->[1] is refused while it is");
	}
	settle($node, $id, 'needs_reconciliation', 'review');
	is_deeply(sent_and_done($id), [ 1, 1 ], 'sent once, done once');
};

$node->stop;
done_testing();
