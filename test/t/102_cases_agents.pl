# Reports of real trouble, section F: agents and humans.
#
# Each subtest is one report: given, when, then.  Requests, keys and effects are
# counted where the request arrives.
use strict;
use warnings;
use JSON::PP;
use Test::More;
use lib 'test/lib';
use Ledger;

my $node = start_server();
my $p = start_provider();

refund_service($node, $p, name => 'keyed');
refund_service($node, $p, name => 'unkeyed', honoured => 0);
refund_service($node, $p, name => 'narrow', options => '"limits": {"in_flight": 10}');

my @keyed = (service => 'keyed', mode => 'keyed');
my @unkeyed = (service => 'unkeyed', mode => 'unkeyed');

# How many requests were there at once, at most, among those of some actions.
sub most_at_once
{
	my (@ids) = @_;
	my %wanted = map { $_ => 1 } @ids;
	my (%open, %of);
	my $most = 0;
	for my $t (sort { $a->{seq} <=> $b->{seq} } truth($p))
	{
		my $request = "$t->{conn}/$t->{req}";
		my ($id) = ($t->{action} // '') =~ m{/(\d+)$};
		if ($t->{ev} eq 'received' && defined $id && $wanted{$id}) { $open{$request} = 1 }
		elsif ($t->{ev} eq 'answered') { delete $open{$request} }
		$most = keys %open if keys %open > $most;
	}
	return $most;
}

subtest 'case 53: a repeat is one booking, two genuine bookings are two' => sub {
	# The same body but for the reference, which is not sent: two guests ask for the same table.
	refund_tool($node, @keyed, name => 'case53', options => '"json": {"table": 4, "amount": "{amount}"}');
	my $first = perform($node, 'case53', 'guest-1');
	my $second = perform($node, 'case53', 'guest-2');
	# An interrupted conversation asks again for the first.
	is($node->safe_psql('postgres', q{SELECT action_id, created FROM actionledger.perform('case53', '{"refund_id": "guest-1", "amount": 100}')}), "$first|f",
		'the repeat is the first booking');
	settle($node, $_, 'confirmed') for $first, $second;
	my @requests = map { [ received($p, $_) ] } $first, $second;
	is_deeply([ map { scalar @$_ } @requests ], [ 1, 1 ], 'two requests for three calls');
	isnt($requests[0][0]{key}, $requests[1][0]{key}, 'under two keys');
	is($requests[0][0]{body_sha256}, $requests[1][0]{body_sha256}, 'with the same body');
	is_deeply([ map { effects($p, $_) } $first, $second ], [ 1, 1 ], 'and two effects');
	is($node->safe_psql('postgres', q{SELECT count(*) FROM actionledger.actions WHERE tool = 'case53'}), 2, 'two rows');
};

subtest 'case 55: a cancel says what it can still do' => sub {
	# Before anything was sent.
	refund_tool($node, @keyed, name => 'case55');
	my $prepared = perform($node, 'case55', 'case55-prepared', options => '{"not_before": "2099-01-01 00:00Z"}');
	like($node->safe_psql('postgres', "SELECT status, message FROM actionledger.cancel($prepared, 'changed my mind')"), qr/^failed\|cancelled; nothing was done/, 'prepared: it is cancelled');
	is(action_row($node, $prepared)->{error_code}, 'cancelled', 'prepared: with that code');
	is($node->safe_psql('postgres', "SELECT e #>> '{error,code}', e #>> '{meta,advice}' FROM actionledger.result($prepared) e"), 'cancelled|stop', 'prepared: and the agent is told to stop');

	# Under way: a request is noted, and evidence decides.
	refund_tool($node, @keyed, name => 'case55 ok', do => 'late:2000', timeout => '20s');
	my $answered = perform($node, 'case55 ok', 'case55-answered');
	poll(sub { received($p, $answered) }, 'the request is there');
	like($node->safe_psql('postgres', "SELECT status, message FROM actionledger.cancel($answered)"), qr/^submitted\|already sent; request noted/, 'submitted: the request is noted, and nothing is claimed');
	settle($node, $answered, 'confirmed');
	is(effects($p, $answered), 1, 'submitted: a 200 confirms it, in spite of the cancel');
	like($node->safe_psql('postgres', "SELECT actionledger.result($answered) #>> '{meta,observation}'"), qr/succeeded/, 'submitted: and the agent is told that it happened');

	refund_tool($node, @unkeyed, name => 'case55 lost', do => 'hang', timeout => '2s');
	my $lost = perform($node, 'case55 lost', 'case55-lost');
	poll(sub { received($p, $lost) }, 'the request is there');
	$node->safe_psql('postgres', "SELECT actionledger.cancel($lost)");
	settle($node, $lost, 'needs_reconciliation');
	is(scalar(received($p, $lost)), 1, 'no answer: one request, and none after the cancel');
	like($node->safe_psql('postgres', "SELECT actionledger.result($lost) #>> '{meta,observation}'"), qr/may have happened/, 'no answer: and nothing is claimed');

	# With a key that would have been sent again.
	refund_tool($node, @keyed, name => 'case55 key', do => 'hang,ok', timeout => '2s');
	my $keyed = perform($node, 'case55 key', 'case55-key');
	poll(sub { received($p, $keyed) }, 'the request is there');
	$node->safe_psql('postgres', "SELECT actionledger.cancel($keyed)");
	settle($node, $keyed, 'needs_reconciliation');
	turns_pass($node, 3);
	is(scalar(received($p, $keyed)), 1, 'no answer, with a key: not sent again after the cancel either');
	is(scalar(received($p, $prepared)), 0, 'prepared: nothing was ever sent');
};

subtest 'case 56: those that are told to wait do not all come back at once' => sub {
	refund_tool($node, service => 'narrow', name => 'case56', do => 'status:429;Retry-After:2,ok', timeout => '20s', cap => '60s');
	my @ids = split /\n/, $node->safe_psql('postgres',
		q{SELECT action_id FROM actionledger.perform_many('case56', ARRAY(SELECT jsonb_build_object('refund_id', 'case56-' || i, 'amount', i) FROM generate_series(1, 50) i))});
	settle($node, $_, 'confirmed', undef, 120) for @ids;
	my (@waits, %times);
	for my $id (@ids)
	{
		my ($first, $second) = attempts_of($node, $id);
		my ($refused) = grep { $_->{ev} eq 'answered' && $_->{status} == 429 && ($_->{action} // '') =~ m{/$id$} } truth($p);
		my ($again) = grep { $_->{n} > 1 } received($p, $id);
		push @waits, $again->{t} - $refused->{t};
	}
	my ($least, $most) = (sort { $a <=> $b } @waits)[ 0, -1 ];
	note sprintf '50 actions, told to wait 2 s: came back after %.3f to %.3f s', $least, $most;
	cmp_ok($least, '>=', 2, 'none comes back before the time that it was told');
	cmp_ok($most - $least, '>', 0.1, 'and their times are spread');
	cmp_ok(most_at_once(@ids), '<=', 10, 'no more than the service takes at once');
	is(scalar(grep { effects($p, $_) == 1 } @ids), 50, 'fifty effects');
	is(scalar(grep { scalar(received($p, $_)) == 2 } @ids), 50, 'of a hundred requests');
};

subtest 'case 57: every copy of a delivery carries the same id, and they stop' => sub {
	refund_tool($node, @keyed, name => 'case57', do => 'close,status:503,close,ok', attempts => 6, base => '50ms', cap => '100ms');
	my $id = perform($node, 'case57', 'case57');
	settle($node, $id, 'confirmed');
	turns_pass($node, 3);
	my @copies = received($p, $id);
	is(scalar @copies, 4, 'four copies: it stops with the one that is confirmed');
	is(scalar(keys %{ { map { $_->{key} => 1 } @copies } }), 1, 'all with one key');
	is_deeply([ map { $_->{attempt} } @copies ], [ 1 .. 4 ], 'told apart by the number of the attempt');
	is(scalar(keys %{ { map { $_->{action} => 1 } @copies } }), 1, 'and belonging to one action');
	is(effects($p, $id), 1, 'one effect');

	refund_tool($node, @keyed, name => 'case57 never', do => 'close', attempts => 3, base => '50ms', cap => '100ms');
	$id = perform($node, 'case57 never', 'case57-never');
	settle($node, $id, 'needs_reconciliation');
	turns_pass($node, 3);
	is(scalar(received($p, $id)), 3, 'no more copies than tries, when nothing is ever confirmed');
};

$node->stop('fast');
done_testing();
