# A lookup against evidence that comes while it is under way: the first to be
# recorded decides, and what contradicts it is kept.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;

my $node = start_server();
my $p = start_provider();
$node->safe_psql('postgres', qq{SELECT actionledger.create_service('pay', '$p->{url}', '{"allow_private": true, "breaker": {"failures": 1000}}')});

# The lookup is answered after two seconds, with what the last item says.
sub tool
{
	my ($name, %o) = @_;
	return refund_tool($node, name => $name, mode => 'unkeyed', do => $o{do} // 'close', timeout => '10s',
		options => '"max_processing": "0s", ' . qq("lookup": {"request": "GET /refunds?key={_key}&do=$o{look}", "match": "\$.data[*] ? (@.key == \$_key)", "absence": "authoritative"}));
}

# An action that is being looked up at this moment.
sub looked_at
{
	my ($tool) = @_;
	my $id = perform($node, $tool, $tool =~ tr/ /-/r);

	settle($node, $id, 'needs_reconciliation', 'lookup');
	$node->safe_psql('postgres', "SELECT actionledger.reconcile_now($id)");
	poll(sub { scalar looked($p, $id) }, 'the lookup is under way');
	is(action_row($node, $id)->{status}, 'needs_reconciliation', "$tool: while it is looked up the action is what it was");
	return $id;
}

# Wait until the lookup is recorded; its verdict.
sub recorded
{
	my ($id) = @_;
	poll_sql($node, "SELECT bool_and(finished_at IS NOT NULL) FROM actionledger.attempt WHERE action_id = $id AND kind = 'lookup'", 'the lookup is recorded');
	return $node->safe_psql('postgres', "SELECT verdict || ' ' || category FROM actionledger.attempt WHERE action_id = $id AND kind = 'lookup' ORDER BY attempt LIMIT 1");
}

tool('callback first', look => 'late:2000');
tool('person first', look => 'late:2000');
tool('cancel', look => 'late:2000');

subtest 'a callback confirms what is being looked up, and the lookup agrees' => sub {
	my $id = looked_at('callback first');

	$node->safe_psql('postgres', qq{SELECT actionledger.report_outcome($id, 'confirmed', '{"external_ref": "re_callback"}')});
	is(action_row($node, $id)->{status}, 'confirmed', 'the callback decides at once');
	is(recorded($id), 'confirmed found', 'the lookup is recorded all the same');
	my $row = action_row($node, $id);
	is_deeply([ @$row{qw(status confirmed_by external_ref)} ], [ 'confirmed', 'callback', 're_callback' ], 'and changes nothing');
	is($node->safe_psql('postgres', "SELECT count(*) FROM actionledger.event WHERE action_id = $id AND what IN ('conflict', 'duplicates_found')"), '0', 'it contradicts nothing');
};

subtest 'a person says that it failed, and the lookup finds it: a conflict' => sub {
	my $id = looked_at('person first');

	$node->safe_psql('postgres', qq{SELECT actionledger.resolve($id, 'failed', '{}', 'the bank says so', force => true)});
	is(recorded($id), 'confirmed found', 'the lookup finds it');
	is(action_row($node, $id)->{status}, 'failed', 'what was decided does not change by itself');
	poll_sql($node, "SELECT count(*) = 1 FROM actionledger.event WHERE action_id = $id AND what = 'conflict'", 'the contradiction is kept');
	is($node->safe_psql('postgres', "SELECT count(*) FROM actionledger.conflicts WHERE action_id = $id"), '1', 'and shown');
	is_deeply([ scalar(received($p, $id)), effects($p, $id) ], [ 1, 1 ], 'sent once, done once');
};

subtest 'a cancel while it is looked up: the lookup decides' => sub {
	my $id = looked_at('cancel');

	like($node->safe_psql('postgres', "SELECT message FROM actionledger.cancel($id, 'no longer wanted')"), qr/already sent/, 'the cancel is noted');
	my $row = settle($node, $id, 'confirmed', 'none');
	is($row->{confirmed_by}, 'lookup', 'it had happened');
};

$node->stop;
done_testing();
