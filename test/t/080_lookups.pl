# Lookups: each way in which one can end, with what the provider really did.
#
# Every action here is sent once to a destination that does not honour keys, and
# its answer is lost; the ledger finds out by itself.  What the lookup is answered
# is said by its own "do=" (test/provider/README.md).
use strict;
use warnings;
use HTTP::Tiny;
use JSON::PP;
use Test::More;
use lib 'test/lib';
use Ledger;

my $node = start_server();
my $p = start_provider();

# The key is sent and not relied on: it is how a lookup finds the effect.
$node->safe_psql('postgres', qq{SELECT actionledger.create_service('pay', '$p->{url}', '{"allow_private": true, "breaker": {"failures": 1000}}')});

my $match = q($.data[*] ? (@.key == $_key));
my $failed = q("outcome": [{"status": 200, "if": "$.status == \"failed\"", "verdict": "rejected", "category": "refund_failed"}, {"status": 200, "if": "$.status == \"pending\"", "verdict": "in_progress", "category": "pending"}]);

# A tool whose sends behave as do says and whose lookups as look does; lookup => more members of the option.
sub tool
{
	my ($name, %o) = @_;
	my $look = $o{look} // 'ok';
	my $request = $o{request} // "GET /refunds?key={_key}&do=$look" . ($o{query} // '');
	my $lookup = qq("lookup": {"request": "$request", "match": "@{[ $o{match} // $match ]}", "every": "100ms", "attempts": @{[ $o{attempts} // 8 ]})
	  . ($o{lookup} ? ", $o{lookup}" : '') . '}';
	return refund_tool($node, name => $name, mode => 'unkeyed', type => $o{type} // 'non_idempotent', do => $o{do} // 'hang', timeout => $o{timeout} // '400ms',
		options => join ', ', '"max_processing": "' . ($o{processing} // '0s') . '"', '"result": "$.amount"', $lookup, $o{options} // ());
}

# "kind verdict category" of an action's attempts.
sub story
{
	my ($id) = @_;
	return [ map { "$_->{kind} " . ($_->{verdict} // 'open') . ' ' . ($_->{category} // '') } attempts_of($node, $id) ];
}

sub envelope
{
	my ($id) = @_;
	return decode_json($node->safe_psql('postgres', "SELECT actionledger.result($id)"));
}

# Sends and effects at the provider.
sub sent_and_done
{
	my ($id) = @_;
	return [ scalar(received($p, $id)), effects($p, $id) ];
}

# An action that ends in review: nothing sure was found, and nothing was sent again.
sub ends_in_review
{
	my ($id, $category, $name) = @_;
	my $row = settle($node, $id, 'needs_reconciliation', 'review');
	my @attempts = @{ story($id) };

	is(shift @attempts, 'send unknown timeout_after_send', "$name: the send is unknown");
	is_deeply([ sort keys %{ { map { $_ => 1 } @attempts } } ], ["lookup $category"], "$name: every lookup proves nothing") or diag("@attempts");
	is($row->{lookups}, scalar @attempts, "$name: the lookups are counted");
	is_deeply(sent_and_done($id), [ 1, 1 ], "$name: sent once, done once");
	is($row->{known}, 'unknown', "$name: it is as unknown as before");
	like($row->{error_message}, qr/1 send, \d+ lookups?, outcome unknown/, "$name: and says so: $row->{error_message}");
	is($node->safe_psql('postgres', "SELECT count(*) FROM actionledger.review_queue WHERE action_id = $id"), '1', "$name: a person is asked");
	return $row;
}

subtest 'one object: confirmed by what was found, whatever the sends said' => sub {
	tool('found', processing => '1s');
	my $id = perform($node, 'found', 'found-1', amount => 700);
	my $row = settle($node, $id, 'needs_reconciliation', 'lookup');
	is($row->{error_code}, 'outcome_unknown', 'until then its outcome is unknown');
	like(envelope($id)->{meta}{observation}, qr/may have happened.*looks it up at the provider at/, 'and the caller is told what happens');
	$row = settle($node, $id, 'confirmed', 'none');
	is_deeply(story($id), [ 'send unknown timeout_after_send', 'lookup confirmed found' ], 'one lookup confirms it');
	is_deeply([ @$row{qw(confirmed_by result lookups sends attempts known)} ], [ 'lookup', 700, 1, 1, 2, 'confirmed' ], 'with the result of the object');
	like($row->{external_ref}, qr/^re_\d+$/, 'and its reference');
	is_deeply(sent_and_done($id), [ 1, 1 ], 'sent once, done once');
	is(scalar(looked($p, $id)), 1, 'looked up once');
	is((looked($p, $id))[0]{key}, $row->{idempotency_key}, 'by its key, in the URL');
	is($node->safe_psql('postgres', "SELECT l.started_at >= s.started_at + interval '1400 ms' FROM actionledger.attempts l JOIN actionledger.attempts s USING (action_id) WHERE action_id = $id AND l.kind = 'lookup' AND s.kind = 'send'"),
		't', 'after timeout and max processing time');
	my $answer = envelope($id);
	ok($answer->{ok} && $answer->{meta}{confirmed_by} eq 'lookup', 'the envelope says by what');
	like($answer->{meta}{observation}, qr/succeeded, reference re_\d+\. No answer told so; a lookup found it at the provider\./, 'in words');
};

subtest 'one object that says it has failed: rejected, not confirmed' => sub {
	tool('failed', look => 'show:failed', options => $failed);
	my $id = perform($node, 'failed', 'failed-1');
	my $row = settle($node, $id, 'failed', 'none');
	is_deeply(story($id), [ 'send unknown timeout_after_send', 'lookup rejected refund_failed' ], 'by the tool\'s own rules');
	is_deeply([ @$row{qw(error_code known)} ], [ 'rejected', 'rejected' ], 'it did not happen');
	like(envelope($id)->{meta}{observation}, qr/did not happen: 1 send, 1 lookup; the last: it is there, and says that it has failed \(refund_failed\)/, 'in words');

	# Rules of the lookup come instead of those of the tool.
	tool('failed2', look => 'show:gone', options => $failed, lookup => q("outcome": [{"if": "$.status == \"gone\"", "verdict": "rejected", "category": "gone"}]));
	$id = perform($node, 'failed2', 'failed-2');
	settle($node, $id, 'failed', 'none');
	is(story($id)->[1], 'lookup rejected gone', 'or by rules for lookups');
};

subtest 'one object that is not done yet is asked for again' => sub {
	tool('pending', look => 'show:pending,show:pending,ok', options => $failed);
	my $id = perform($node, 'pending', 'pending-1');
	settle($node, $id, 'confirmed', 'none');
	is_deeply(story($id), [ 'send unknown timeout_after_send', ('lookup in_progress pending') x 2, 'lookup confirmed found' ], 'until it is done');
	is_deeply(sent_and_done($id), [ 1, 1 ], 'sent once, done once');
};

$node->stop;
done_testing();
