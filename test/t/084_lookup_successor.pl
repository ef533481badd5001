# A restored backup that takes over: what it has not sent may have been sent by the
# other one since.  Where a lookup can tell, it is asked before anything is sent.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;

my $p = start_provider();
my $node = start_server(name => 'original', init => { allows_streaming => 1 });
my $lookup = '"max_processing": "1s", "lookup": {"request": "GET /refunds?key={_key}", "match": "$.data[*] ? (@.key == $_key)", "every": "100ms", "attempts": 4';

$node->safe_psql('postgres', 'CREATE ROLE finance');
# At the first service the original sends before it is lost, at the second it does not.
for my $service (qw(sent unsent))
{
	$node->safe_psql('postgres', qq{SELECT actionledger.create_service('$service', '$p->{url}', '{"allow_private": true, "breaker": {"failures": 1000}}')});
	my @tool = (service => $service, mode => 'unkeyed', timeout => '500ms');
	refund_tool($node, @tool, name => "$service looked up", options => "$lookup, \"absence\": \"authoritative\"}");
	refund_tool($node, @tool, name => "$service once", type => 'irreversible', options => "$lookup, \"absence\": \"authoritative\"}");
	refund_tool($node, @tool, name => "$service unsure", options => "$lookup}");
	refund_tool($node, @tool, name => "$service idempotent", type => 'idempotent', options => "$lookup}");
	refund_tool($node, @tool, name => "$service no lookup");
	refund_tool($node, @tool, name => "$service approved", options => "$lookup, \"absence\": \"authoritative\"}, \"approval\": {\"by\": \"finance\"}");
	$node->safe_psql('postgres', "SELECT actionledger.pause_service('$service', 'maintenance')");
}
my %id;
for my $service (qw(sent unsent))
{
	$id{"$service $_"} = perform($node, "$service $_", "$service-$_" =~ tr/ /-/r) for 'looked up', 'once', 'unsure', 'idempotent', 'no lookup', 'approved';
	$id{"$service later"} = perform($node, "$service looked up", "$service-later", options => '{"not_before": "2099-01-01 00:00Z"}');
}
# Blocked where it was recorded, and mended there after the backup.
$node->safe_psql('postgres', qq{SELECT actionledger.create_service('mended', '$p->{url}', '{"allow_private": true, "breaker": {"failures": 1000}, "auth": {"bearer": "{secret:key}"}}')});
refund_tool($node, service => 'mended', mode => 'unkeyed', timeout => '500ms', name => 'mended', options => "$lookup, \"absence\": \"authoritative\"}");
$id{'sent blocked'} = perform($node, 'mended', 'mended');
settle($node, $id{'sent blocked'}, 'prepared', 'blocked');
$node->backup('before');
$node->safe_psql('postgres', q{SELECT actionledger.set_secret('key', 'sk')});
$node->safe_psql('postgres', "SELECT actionledger.retry($id{'sent blocked'}, 'the secret is there')");
$node->safe_psql('postgres', "SET ROLE finance; SELECT actionledger.approve($id{'sent approved'}, 'seen')");
$node->safe_psql('postgres', q{SELECT actionledger.resume_service('sent', 'done')});
settle($node, $id{"sent $_"}, 'confirmed', 'none') for 'looked up', 'once', 'unsure', 'idempotent', 'no lookup', 'approved', 'blocked';
$node->stop('immediate');
is(effects($p), 7, 'the original has sent seven after the backup, and is lost');

my $copy = PostgreSQL::Test::Cluster->new('copy');
$copy->init_from_backup($node, 'before');
$copy->start;
like($copy->safe_psql('postgres', "SELECT * FROM actionledger.explain($id{'sent blocked'})"), qr/^Not known: whether it was sent from where it was recorded/m, 'it does not know what the original has done since');
poll_sql($copy, q{SELECT bool_or(state = 'fenced') FROM actionledger.workers}, 'the copy is fenced');
$copy->safe_psql('postgres', q{SELECT actionledger.set_secret('key', 'sk')});
like($copy->safe_psql('postgres', q{SELECT actionledger.resume_dispatch('successor', 'the original is lost')}), qr/looked up first where their tools have a lookup/, 'it takes over');
is($copy->safe_psql('postgres', "SELECT status, next_step, sends FROM actionledger.action WHERE action_id = $id{'sent looked up'}") =~ /^(needs_reconciliation\|lookup|confirmed\|none)\|0$/ ? 1 : 0, 1,
	'what was not sent from here is an unknown outcome');
is($copy->safe_psql('postgres', "SELECT status, next_step FROM actionledger.action WHERE action_id = $id{'sent later'}"), 'prepared|send', 'what was not due yet cannot have been sent');

subtest 'found at the provider: confirmed, without a second send' => sub {
	for my $tool ('looked up', 'once', 'unsure', 'approved', 'blocked')
	{
		my $row = settle($copy, $id{"sent $tool"}, 'confirmed', 'none');
		is_deeply([ @$row{qw(confirmed_by sends)} ], [ 'lookup', 0 ], "$tool: by the lookup");
		is_deeply([ scalar(received($p, $id{"sent $tool"})), effects($p, $id{"sent $tool"}) ], [ 1, 1 ], "$tool: sent once, by the original");
	}
};

$copy->safe_psql('postgres', "SELECT actionledger.resume_service('$_', 'the copy goes on')") for qw(sent unsent);
subtest 'proved absent: sent for the first time' => sub {
	for my $tool ('looked up', 'once')
	{
		my $unsent = $id{"unsent $tool"};
		my $row = settle($copy, $unsent, 'confirmed', 'none');
		is_deeply([ @$row{qw(confirmed_by sends absences)} ], [ 'response', 1, 0 ], "$tool: sent from here");
		is_deeply([ scalar(received($p, $id{"unsent $tool"})), effects($p, $id{"unsent $tool"}) ], [ 1, 1 ], "$tool: once");
		is($copy->safe_psql('postgres', "SELECT min(started_at) FILTER (WHERE kind = 'send') >= a.doubted_at + interval '1 s' FROM actionledger.attempt JOIN actionledger.action a USING (action_id)
		  WHERE action_id = $unsent GROUP BY a.doubted_at"), 't', "$tool: after all that the original may have sent would have been done");
	}
};

subtest 'where the lookup cannot prove the absence a person decides' => sub {
	my $row = settle($copy, $id{'unsent unsure'}, 'needs_reconciliation', 'review');
	is_deeply([ @$row{qw(sends lookups)} ], [ 0, 4 ], 'looked up, and not sent');
	is(effects($p, $id{'unsent unsure'}), 0, 'nothing was done');
};

subtest 'what waits for an approval here may have got one there' => sub {
	my $row = settle($copy, $id{'unsent approved'}, 'prepared', 'approve');
	is_deeply([ $row->{sends}, effects($p, $id{'unsent approved'}) ], [ 0, 0 ], 'looked up, and not found: it waits as before');
	cmp_ok($row->{lookups}, '>=', 1, 'after it was looked up');
	like($copy->safe_psql('postgres', "SELECT * FROM actionledger.explain($id{'unsent approved'})"), qr/^Not known: nothing: it has not happened so far\.$/m, 'by which that is known');
	$copy->safe_psql('postgres', "SET ROLE finance; SELECT actionledger.approve($id{'unsent approved'}, 'seen')");
	settle($copy, $id{'unsent approved'}, 'confirmed', 'none');
	is_deeply([ scalar(received($p, $id{'unsent approved'})), effects($p, $id{'unsent approved'}) ], [ 1, 1 ], 'and is sent once it is approved');
};

subtest 'what may be repeated is, and what cannot be looked up is sent' => sub {
	settle($copy, $id{"$_ idempotent"}, 'confirmed', 'none') for qw(sent unsent);
	settle($copy, $id{'unsent no lookup'}, 'confirmed', 'none');
	is(effects($p, $id{'unsent no lookup'}), 1, 'once, where the original had not');
};

$copy->stop;
done_testing();
