# What people have decided holds for what they decided upon, and for everybody: a
# forced send is void when something else is known, the refusal of one send is
# not that of another, and an old snapshot sees no way through a pause or an
# approval.  Counted at the provider.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;

my $node = start_server();
my $p = start_provider();

$node->safe_psql('postgres', qq{SELECT actionledger.create_service('pay', '$p->{url}', '{"allow_private": true, "breaker": {"failures": 1000}}')});

# A tool without a lookup, at a destination that does not honour keys.
sub tool
{
	my ($name, %o) = @_;
	return refund_tool($node, name => $name, mode => 'unkeyed', do => $o{do} // 'close', timeout => '300ms', options => qq("max_processing": "$o{processing}"));
}

sub sent_and_done
{
	my ($id) = @_;
	return [ scalar(received($p, $id)), effects($p, $id) ];
}

subtest 'a decision to send once more is for what was known then' => sub {
	tool('forced', processing => '0s');
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

subtest 'of two sends without a key, the refusal of one is not that of the other' => sub {
	tool('twice', do => 'close,slowexec:2500', processing => '3s');
	my @ids = map { perform($node, 'twice', "twice-$_") } qw(looked reported);
	for my $id (@ids)
	{
		settle($node, $id, 'needs_reconciliation', 'review');
		poll_sql($node, "SELECT clock_timestamp() > last_sent_at + interval '3400 ms' FROM actionledger.action WHERE action_id = $id", 'it may be forced');
	}
	$node->safe_psql('postgres', "SELECT actionledger.retry($_, 'a person wants it', force => true)") for @ids;
	poll_sql($node, "SELECT sends = 2 AND status = 'needs_reconciliation' FROM actionledger.action WHERE action_id = $_", 'it was sent again') for @ids;

	# Only the first can be seen, and that one has failed.
	$node->safe_psql('postgres', q{SELECT actionledger.alter_tool('twice', '{"lookup": {"request": "GET /refunds?key={_key}&do=show:failed", "match": "$.data[*] ? (@.key == $_key)", "every": "100ms",
	  "outcome": [{"status": 200, "if": "$.status == \"failed\"", "verdict": "rejected"}]}}')});
	$node->safe_psql('postgres', "SELECT actionledger.reconcile_now($ids[0])");
	like($node->safe_psql('postgres', qq{SELECT status, message FROM actionledger.report_outcome($ids[1], 'rejected', '{"event": "evt_1"}')}),
		qr/^needs_reconciliation\|kept as evidence: 2 sends/, 'a report of one decides nothing');
	my $row = settle($node, $ids[0], 'needs_reconciliation', 'review');
	is($row->{known}, 'several', 'in the end there are two');
	poll(sub { effects($p, $ids[1]) == 2 }, 'both are done');
	is($node->safe_psql('postgres', "SELECT count(*) FROM actionledger.action WHERE action_id IN ($ids[0], $ids[1]) AND status = 'failed'"), 0, 'none was called failed');
};

subtest 'what waits for approval and is reported under way is looked up, and not sent' => sub {
	$node->safe_psql('postgres', q{CREATE ROLE approver});
	refund_tool($node, name => 'waits', mode => 'unkeyed', timeout => '300ms', options => '"max_processing": "0s", "approval": {"by": "approver"},
	  "lookup": {"request": "GET /refunds?key={_key}", "match": "$.data[*] ? (@.key == $_key)", "every": "100ms", "absence": "authoritative"}');
	my $id = perform($node, 'waits', 'waits');
	$node->safe_psql('postgres', qq{SELECT actionledger.report_outcome($id, 'in_progress', '{"event": "evt_1"}')});
	poll(sub { scalar looked($p, $id) }, 'it is looked up');
	poll_sql($node, "SELECT lookups > 0 AND claimed_by IS NULL FROM actionledger.action WHERE action_id = $id", 'which is recorded');
	is_deeply(sent_and_done($id), [ 0, 0 ], 'nothing is sent');
	isnt(action_row($node, $id)->{next_step}, 'blocked', 'and nothing fails about it');
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
