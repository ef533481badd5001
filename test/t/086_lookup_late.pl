# A lookup against evidence that comes while it is under way: the first to be
# recorded decides, and what contradicts it is kept.
use strict;
use warnings;
use HTTP::Tiny;
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

subtest 'reported to be under way, though it was not sent from here: no absence proves the contrary' => sub {
	$node->safe_psql('postgres', qq{SELECT actionledger.create_service('held', '$p->{url}', '{"allow_private": true}')});
	refund_tool($node, name => 'reported', service => 'held', mode => 'unkeyed', timeout => '500ms', options => '"max_processing": "0s",
	  "lookup": {"request": "GET /refunds?key={_key}", "match": "$.data[*] ? (@.key == $_key)", "absence": "authoritative", "resend": true, "every": "50ms", "attempts": 3}');
	$node->safe_psql('postgres', q{SELECT actionledger.pause_service('held', 'maintenance')});
	my $id = perform($node, 'reported', 'reported-1');
	$node->safe_psql('postgres', qq{SELECT actionledger.report_outcome($id, 'in_progress', '{"event": "e1"}')});
	my $row = settle($node, $id, 'needs_reconciliation', 'review');
	is_deeply([ @$row{qw(sends lookups known)} ], [ 0, 3, 'in_progress' ], 'it was looked for, and a person decides');
	$node->safe_psql('postgres', q{SELECT actionledger.resume_service('held', 'done')});
	turns_pass($node, 3);
	is_deeply([ scalar(received($p, $id)), effects($p, $id) ], [ 0, 0 ], 'nothing is sent for it');
};

subtest 'what an outside executor has left open is looked up by the ledger' => sub {
	$node->safe_psql('postgres', q{SELECT actionledger.create_tool('by_hand', 'pay', 'refund it', 'irreversible', identity => '{id}', input => '{"required": ["id"], "properties": {"id": {"type": "string"}}}',
	  options => ('{"transport": "external", "owner": "' || current_user || '", "timeout": "1s", "max_processing": "1s", "external_ref": "$.id",
	    "lookup": {"request": "GET /refunds?key={_key}", "match": "$.data[*] ? (@.key == $_key)", "absence": "authoritative", "every": "100ms"}}')::jsonb)});
	my %id = map { $_ => $node->safe_psql('postgres', qq{SELECT action_id FROM actionledger.perform('by_hand', '{"id": "$_"}')}) } qw(done undone);
	my %claimed = map { my ($id, $key) = split /\|/; ($id => $key) } split /\n/, $node->safe_psql('postgres', q{SELECT action_id, idempotency_key FROM actionledger.claim('by_hand', 2)});

	is(scalar keys %claimed, 2, 'an executor claims two');
	HTTP::Tiny->new->post("$p->{url}/unkeyed/refunds", { content => '{"amount": 5}', headers => { 'Idempotency-Key' => $claimed{ $id{done} } } });
	my $row = settle($node, $id{done}, 'confirmed', 'none');
	is($row->{confirmed_by}, 'lookup', 'it is never heard of again: what it did is found');
	$row = settle($node, $id{undone}, 'failed', 'none');
	is($row->{error_code}, 'absent', 'and what it did not do is proved absent');
	is($node->safe_psql('postgres', "SELECT bool_and(l.started_at >= x.started_at + interval '2 s') FROM actionledger.attempt l JOIN actionledger.attempt x USING (action_id) WHERE action_id = $id{undone} AND l.category = 'absent' AND x.kind = 'external'"),
		't', 'after lease and max processing time');
};

subtest 'an executor that was given up reports success while it is looked up' => sub {
	$node->safe_psql('postgres', q{SELECT actionledger.create_tool('late_hand', 'pay', 'refund it', 'irreversible', identity => '{id}', input => '{"required": ["id"], "properties": {"id": {"type": "string"}}}',
	  options => ('{"transport": "external", "owner": "' || current_user || '", "timeout": "10s", "max_processing": "0s", "external_ref": "$.id",
	    "lookup": {"request": "GET /refunds?key={_key}&do=late:2000", "match": "$.data[*] ? (@.key == $_key)", "absence": "authoritative", "every": "100ms"}}')::jsonb)});
	my $id = $node->safe_psql('postgres', q{SELECT action_id FROM actionledger.perform('late_hand', '{"id": "late"}')});
	my (undef, $token, $key) = split /\|/, $node->safe_psql('postgres', q{SELECT action_id, token, idempotency_key FROM actionledger.claim('late_hand', 1, '1s')});
	HTTP::Tiny->new->post("$p->{url}/unkeyed/refunds", { content => '{"amount": 5}', headers => { 'Idempotency-Key' => $key } });
	poll(sub { scalar(grep { $_->{ev} eq 'received' && $_->{op} eq "lookup:$key" } truth($p)) }, 'its lease is over, and it is looked up', 60);
	is($node->safe_psql('postgres', qq{SELECT status FROM actionledger.report_outcome($id, 'confirmed', '{"token": $token, "external_ref": "by hand"}')}), 'confirmed', 'the late report confirms it');
	is(recorded($id), 'confirmed found', 'the lookup is recorded, and agrees');
	my $row = action_row($node, $id);
	is_deeply([ @$row{qw(status external_ref)} ], [ 'confirmed', 'by hand' ], 'the first to be recorded stays');
	is($node->safe_psql('postgres', "SELECT count(*) FROM actionledger.conflicts WHERE action_id = $id"), '0', 'there is no conflict');
	is(scalar(grep { $_->{ev} eq 'executed' && $_->{op} eq $key } truth($p)), 1, 'one effect');
};

$node->stop;
done_testing();
