# Where a lookup comes in: what leads to one, and what does not.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;

my $node = start_server();
my $p = start_provider();
my $patient = '"breaker": {"failures": 1000}';
refund_service($node, $p, name => 'keyed', options => $patient);
$node->safe_psql('postgres', qq{SELECT actionledger.create_service('unkeyed', '$p->{url}', '{"allow_private": true, $patient}')});

# A tool with a lookup of its effect by the key; everything that is not said is quick.
sub tool
{
	my ($name, %o) = @_;
	my $look = $o{look} // 'ok';
	return refund_tool($node, timeout => '400ms', %o, name => $name,
		options => join ', ', '"max_processing": "' . ($o{processing} // '500ms') . '"',
		qq("lookup": {"request": "GET /refunds?key={_key}&do=$look@{[ $o{query} // '' ]}", "match": "\$.data[*] ? (@.key == \$_key)",
		  "every": "@{[ $o{every} // '100ms' ]}", "attempts": @{[ $o{looks} // 5 ]}@{[ $o{lookup} ? ", $o{lookup}" : '' ]}}), $o{options} // ());
}

my @unkeyed = (service => 'unkeyed', mode => 'unkeyed');
my @keyed = (service => 'keyed', mode => 'keyed');
my $states = '"outcome": [{"status": 200, "if": "$.status == \"pending\"", "verdict": "in_progress", "category": "pending"}]';

# What closes a kept connection is told by libcurl's second try, which is stopped.
sub story
{
	my ($id) = @_;
	return [ map { s/resend_blocked/connection_lost/r } map { substr($_->{kind}, 0, 4) . ' ' . ($_->{verdict} // 'open') . ' ' . ($_->{category} // '') } attempts_of($node, $id) ];
}

sub sent_and_done
{
	my ($id) = @_;
	return [ scalar(received($p, $id)), effects($p, $id) ];
}

# Every action is performed first, so that they run at the same time; each comes to confirmed by a lookup.
my %id;
my %story;

# An honoured key: sent again first, within its budget; then looked up.
tool('budget', @keyed, do => 'hang,hang', attempts => 2);
$story{budget} = [ ('send unknown timeout_after_send') x 2, 'look confirmed found' ];

# The key's window has passed: never sent again.
$node->safe_psql('postgres', qq{SELECT actionledger.create_service('brief', '$p->{url}', '{"allow_private": true, $patient, "idempotency": {"window": "1s", "margin": "900ms"}}')});
tool('window', service => 'brief', mode => 'keyed', do => 'hang', attempts => 50);
$story{window} = [ 'send unknown timeout_after_send', 'look confirmed found' ];

# A refusal for good after an unknown outcome ends re-sending, and decides nothing.
tool('refused', @keyed, do => 'hang,status:402', attempts => 5);
$story{refused} = [ 'send unknown timeout_after_send', 'send rejected rejected', 'look confirmed found' ];

# A stored error would be replayed for ever.
tool('replayed', @keyed, do => 'loststatus:500,ok', attempts => 20);
$story{replayed} = [ 'send unknown connection_lost', 'send unknown replayed_error', 'look confirmed found' ];

# Accepted, with and without a key: asked for until it is done, nothing is sent again.
tool('accepted', @keyed, do => 'accepted', look => 'show:pending,show:pending,ok', options => $states);
$story{accepted} = [ 'send in_progress accepted', ('look in_progress pending') x 2, 'look confirmed found' ];
tool('accepted unkeyed', @unkeyed, type => 'irreversible', do => 'accepted', look => 'show:pending,ok', options => $states);
$story{'accepted unkeyed'} = [ 'send in_progress accepted', 'look in_progress pending', 'look confirmed found' ];

# 409 while the first one is being processed: looked up, not sent again.
tool('in use', @keyed, do => 'processing:1500', base => '100ms', every => '300ms', looks => 20);

# An irreversible action, and one whose unknown outcome a cancel has met.
tool('irreversible', @keyed, type => 'irreversible', do => 'hang');
$story{irreversible} = [ 'send unknown timeout_after_send', 'look confirmed found' ];
tool('expired', @unkeyed, do => 'hang', options => '"expires_after": "1s"');
$story{expired} = [ 'send unknown timeout_after_send', 'look confirmed found' ];

# Enough of what is not there yet, then another one is: a window with few lookups.
tool('last look', @unkeyed, do => 'hang', query => '&hide_ms=2500', looks => 50, every => '1d', lookup => '"window": "3s"');

subtest 'what leads to a lookup' => sub {
	$id{$_} = perform($node, $_, $_ =~ tr/ /-/r) for sort keys %story;
	for my $name (sort keys %story)
	{
		my $row = settle($node, $id{$name}, 'confirmed', 'none');
		my $sends = grep { /^send/ } @{ $story{$name} };

		is_deeply(story($id{$name}), $story{$name}, "$name: @{ $story{$name} }") or diag("@{ story($id{$name}) }");
		is_deeply(sent_and_done($id{$name}), [ $sends, 1 ], "$name: done once");
		is($row->{confirmed_by}, 'lookup', "$name: confirmed by the lookup");
		is($node->safe_psql('postgres', "SELECT count(DISTINCT status) FROM actionledger.event WHERE action_id = $id{$name} AND status IN ('failed')"), '0', "$name: was never called failed");
	}
};

subtest 'a destination that is at it is asked, not told again' => sub {
	my $id = perform($node, 'in use', 'in-use');
	settle($node, $id, 'confirmed', 'none');
	my @story = @{ story($id) };

	is(shift @story, 'send unknown timeout_after_send', 'no answer');
	is(shift @story, 'send in_progress key_in_use', 'the key is in use');
	is(pop @story, 'look confirmed found', 'then found');
	is(scalar(grep { $_ ne 'look unknown not_found' } @story), 0, 'and looked for in between') or diag("@story");
	is_deeply(sent_and_done($id), [ 2, 1 ], 'two sends, one effect');
};

subtest 'an action in progress is submitted, one with an unknown outcome needs reconciliation' => sub {
	my $pending = '"outcome": [{"status": 200, "if": "$.status == \"pending\"", "verdict": "in_progress"}]';

	tool('for ever', @unkeyed, do => 'accepted', look => 'show:pending', looks => 4, every => '300ms', options => $pending);
	my $id = perform($node, 'for ever', 'for-ever');
	settle($node, $id, 'submitted', 'lookup');
	poll(sub { scalar looked($p, $id) }, 'it is looked up');
	is($node->safe_psql('postgres', "SELECT count(*) FROM actionledger.in_flight WHERE action_id = $id"), '1', 'while it is in progress it is in flight');
	my $row = settle($node, $id, 'needs_reconciliation', 'review');
	is_deeply([ $row->{known}, $row->{lookups}, @{ sent_and_done($id) } ], [ 'in_progress', 4, 1, 1 ], 'when the lookups are used up a person is asked');

	# With an honoured key the next thing is the same request, within its budget.
	tool('asked again', @keyed, do => 'accepted,ok', look => 'show:pending', looks => 2, options => $pending);
	$id = perform($node, 'asked again', 'asked-again');
	$row = settle($node, $id, 'needs_reconciliation', 'review');
	my @story = @{ story($id) };
	is_deeply([ @story[0 .. 3] ], [ 'send in_progress accepted', ('look in_progress outcome_rule') x 2, 'send in_progress accepted' ], 'lookups used up: sent again with its key');
	is(effects($p, $id), 1, 'which the provider replays');
};

subtest 'a cancel leaves an unknown outcome to the lookup' => sub {
	tool('cancelled', @keyed, do => 'hang,ok', timeout => '1s', attempts => 5);
	my $id = perform($node, 'cancelled', 'cancelled');
	poll(sub { scalar received($p, $id) }, 'it is under way');
	$node->safe_psql('postgres', "SELECT actionledger.cancel($id, 'no longer wanted')");
	my $row = settle($node, $id, 'confirmed', 'none');
	is_deeply(story($id), [ 'send unknown timeout_after_send', 'look confirmed found' ], 'it is not sent again, though its key would allow it');
	is_deeply(sent_and_done($id), [ 1, 1 ], 'it had happened, and that is what is said');
};

subtest 'the last lookup is made when the window ends' => sub {
	my $id = perform($node, 'last look', 'last-look');
	my $row = settle($node, $id, 'confirmed', 'none');
	is_deeply(story($id), [ 'send unknown timeout_after_send', 'look unknown not_found', 'look confirmed found' ], 'one at once, one at the end');
	is($node->safe_psql('postgres', "SELECT bool_or(started_at >= lookup_ends_at) FROM actionledger.attempt JOIN actionledger.action USING (action_id) WHERE action_id = $id AND kind = 'lookup'"),
		't', 'which begins when the window is over');

	# And what it does not find waits for a person.
	tool('last look in vain', @unkeyed, do => 'hang', query => '&hide_ms=600000', looks => 50, every => '1d', lookup => '"window": "1s"');
	$id = perform($node, 'last look in vain', 'last-look-in-vain');
	$row = settle($node, $id, 'needs_reconciliation', 'review');
	is($row->{lookups}, 2, 'none after that');
	is($node->safe_psql('postgres', "SELECT next_step, message FROM actionledger.reconcile_now($id)"), 'lookup|it is looked up at once', 'unless somebody asks');
	poll(sub { action_row($node, $id)->{lookups} > 2 }, 'it is looked up again');
	is($node->safe_psql('postgres', "SELECT by_whom = current_user FROM actionledger.event WHERE action_id = $id AND what = 'reconcile_now'"), 't', 'and who asked is kept');
};

subtest 'without a lookup nothing changes' => sub {
	refund_tool($node, @unkeyed, name => 'none', do => 'hang', timeout => '300ms');
	my $id = perform($node, 'none', 'none');
	my $row = settle($node, $id, 'needs_reconciliation', 'review');
	is($row->{lookups}, 0, 'no lookup');
	my ($out, $err) = ('', '');
	$node->psql('postgres', "SELECT actionledger.reconcile_now($id)", stdout => \$out, stderr => \$err, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	like($err, qr/LG012.*cannot be reconciled now.*DETAIL:  Its tool has no lookup, and it may not be sent again\./s, 'and none on demand');

	# A lookup that is added later is used for what is open already.
	$node->safe_psql('postgres', q{SELECT actionledger.alter_tool('none', '{"lookup": {"request": "GET /refunds?key={_key}", "match": "$.data[*] ? (@.key == $_key)"}}')});
	is($node->safe_psql('postgres', "SELECT next_step FROM actionledger.reconcile_now($id)"), 'lookup', 'one that is defined later is used on demand');
	is(settle($node, $id, 'confirmed', 'none')->{confirmed_by}, 'lookup', 'and settles it');
};

$node->stop;
done_testing();
