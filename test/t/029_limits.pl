# What a service's limits, breaker and priorities do, counted at the provider.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use IO::Socket::INET;
use Ledger;

my $p = start_provider();
my $node = start_server();

# When each action was first received, in seconds.
sub first_received
{
	my %at;
	for my $t (truth($p))
	{
		next unless $t->{ev} eq 'received' && ($t->{action} // '') =~ m{/(\d+)$};
		$at{$1} //= $t->{t};
	}
	return \%at;
}

sub many
{
	my ($tool, $n, $options) = @_;
	return split /\n/, $node->safe_psql('postgres', qq{SELECT action_id FROM actionledger.perform_many('$tool',
		(SELECT array_agg(jsonb_build_object('refund_id', '$tool' || g, 'amount', g)) FROM generate_series(1, $n) g)
		@{[ $options ? ", options => $options" : '' ]})});
}

# --- a rate of 20 a second: a bucket of 20 at once, then one every 50 ms
refund_service($node, $p, name => 'slow', options => '"limits": {"rate_per_second": 20}');
refund_tool($node, name => 'slow', service => 'slow');
my @ids = many('slow', 60);
poll_sql($node, "SELECT count(*) = 60 FROM actionledger.actions WHERE tool = 'slow' AND status = 'confirmed'", '60 actions are confirmed');
my $at = first_received();
my @times = sort { $a <=> $b } map { $at->{$_} } @ids;
cmp_ok($times[59] - $times[0], '>', 1.8, '60 requests at 20 a second with a burst of 20 take about two seconds');
my $most = 0;
for my $i (0 .. $#times)
{
	my $n = grep { $_ >= $times[$i] && $_ < $times[$i] + 1 } @times;
	$most = $n if $n > $most;
}
cmp_ok($most, '<=', 42, "never more than burst and rate in a second (saw $most)");
is(effects($p), 60, 'each executed once');

# --- a dead service opens its breaker; another one is not touched by it
my $dead_port = do { my $s = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1', Proto => 'tcp'); my $n = $s->sockport; close $s; $n };
refund_service($node, { %$p, url => "http://127.0.0.1:$dead_port" }, name => 'dead', options => '"breaker": {"failures": 3, "cooldown": "1s"}, "limits": {"in_flight": 2}');
refund_tool($node, name => 'dead', service => 'dead', attempts => 100, options => '"expires_after": "1d"');
refund_service($node, $p, name => 'well');
refund_tool($node, name => 'well', service => 'well');
many('dead', 20);
poll_sql($node, "SELECT state = 'open' AND failures >= 3 FROM actionledger.breakers WHERE service = 'dead'", 'the breaker opens');
like($node->safe_psql('postgres', "SELECT waiting_for FROM actionledger.pending WHERE tool = 'dead' LIMIT 1"), qr/^breaker until /, 'pending says so');
my ($out, $err) = ('', '');
$node->psql('postgres', q{SELECT actionledger.perform('dead', '{"refund_id": "x", "amount": 1}', options => '{"if_unavailable": "refuse"}')}, stdout => \$out, stderr => \$err);
like($err, qr/is unavailable/, 'perform with if_unavailable refuse raises while it is open');
my $queued = $node->safe_psql('postgres', q{SELECT observation FROM actionledger.perform('dead', '{"refund_id": "y", "amount": 1}')});
like($queued, qr/queued and not sent: its service failed \d+ times in a row; the next probe goes at/, 'perform says that it is queued, and until when');
is($node->safe_psql('postgres', q{SELECT actionledger.result_by_identity('dead', 'refund:y') -> 'error' ->> 'code'}), 'service_unavailable', 'so does the envelope');
many('well', 20);
poll_sql($node, "SELECT count(*) = 20 FROM actionledger.actions WHERE tool = 'well' AND status = 'confirmed'", 'another service goes on');
my $tried = $node->safe_psql('postgres', "SELECT count(*) FROM actionledger.attempts a JOIN actionledger.actions USING (action_id) WHERE tool = 'dead'");
poll_sql($node, "SELECT count(*) >= $tried + 3 FROM actionledger.attempts a JOIN actionledger.actions USING (action_id) WHERE tool = 'dead'", 'probes go after the cooldown');
my $gaps = $node->safe_psql('postgres', q{
	SELECT bool_and(gap > 0.9) FROM (
	  SELECT extract(epoch FROM started_at - lag(started_at) OVER (ORDER BY started_at)) AS gap, row_number() OVER (ORDER BY started_at) AS n
	    FROM actionledger.attempts a JOIN actionledger.actions USING (action_id) WHERE tool = 'dead') x WHERE n > 5});
is($gaps, 't', 'while open, one probe per cooldown and no more');
is($node->safe_psql('postgres', "SELECT count(*) FROM actionledger.actions WHERE tool = 'dead' AND status = 'failed'"), 0, 'nothing has failed merely by waiting');

# --- what the breaker holds says so and until when; what an executor does is not held by it
refund_service($node, $p, name => 'sick', options => '"breaker": {"failures": 1, "cooldown": "10m"}');
refund_tool($node, name => 'sick', service => 'sick', do => 'status:503');
$node->safe_psql('postgres', q{
	SELECT actionledger.create_tool('by_hand', 'sick', 'carry it', identity => 'hand:{id}', input => '{"properties": {"id": {"type": "string"}}}',
	  options => '{"transport": "external", "approval": "never"}')});
my $unanswered = perform($node, 'sick', 'z');
poll_sql($node, "SELECT b.state = 'open' AND a.next_step = 'resend' FROM actionledger.breakers b, actionledger.actions a WHERE b.service = 'sick' AND a.action_id = $unanswered", 'an unknown outcome opens its breaker');
my $waits = perform($node, 'sick', 'behind');
my $envelope = q{SELECT concat_ws('|', r #>> '{error,code}', (r #>> '{meta,retry_after_s}')::int BETWEEN 120 AND 600, r #>> '{meta,observation}') FROM actionledger.result(%d) r};
like($node->safe_psql('postgres', sprintf $envelope, $unanswered),
	qr/^outcome_unknown\|t\|.* The ledger sends the same request with the same key again when its service has recovered: it failed \d+ times in a row; the next probe goes at \S+Z\.$/, 'an open outcome: sent again not before the probe');
like($node->safe_psql('postgres', sprintf $envelope, $waits), qr/^service_unavailable\|t\|/, 'what waits behind it: neither');
my $hand = $node->safe_psql('postgres', q{SELECT action_id || '|' || observation FROM actionledger.perform('by_hand', '{"id": "1"}', options => '{"if_unavailable": "refuse"}')});
like($hand, qr/an executor may claim it after your commit/, 'an executor does not ask the breaker');
($hand) = $hand =~ /^(\d+)/;
like($node->safe_psql('postgres', sprintf $envelope, $hand), qr/^pending\|/, 'the envelope says neither that it does');
is($node->safe_psql('postgres', "SELECT waiting_for FROM actionledger.pending WHERE action_id = $hand"), 'executor', 'nor does pending');

# --- a service that comes back: the probe closes the breaker, and all is sent once
my $back = start_provider();
refund_service($node, $back, name => 'back', options => '"breaker": {"failures": 3, "cooldown": "500ms"}, "limits": {"in_flight": 1}');
refund_tool($node, name => 'back', service => 'back', do => 'status:503,ok', attempts => 20, base => '50ms', options => '"expires_after": "2s"');
my @back = many('back', 12);
poll_sql($node, "SELECT state <> 'closed' FROM actionledger.breakers WHERE service = 'back'", 'its breaker opens');
poll_sql($node, "SELECT count(*) = 12 FROM actionledger.actions WHERE tool = 'back' AND status = 'confirmed'", 'all are confirmed after it has recovered', 60);
is(effects($back), 12, 'each executed once');
is($node->safe_psql('postgres', "SELECT state FROM actionledger.breakers WHERE service = 'back'"), 'closed', 'the breaker is closed again');

# --- 4xx do not open it
refund_service($node, $p, name => 'strict', options => '"breaker": {"failures": 2, "cooldown": "10s"}');
refund_tool($node, name => 'strict', service => 'strict', do => 'status:402');
many('strict', 10);
poll_sql($node, "SELECT count(*) = 10 FROM actionledger.actions WHERE tool = 'strict' AND status = 'failed'", 'ten refusals');
is($node->safe_psql('postgres', "SELECT state FROM actionledger.breakers WHERE service = 'strict'"), 'closed', 'refusals leave the breaker closed');

# --- priorities
refund_service($node, $p, name => 'prio', options => '"limits": {"in_flight": 1}');
refund_tool($node, name => 'prio', service => 'prio', do => 'late:20');
my %ids = (0 => [], 1 => [], -1 => []);
my $sql = "BEGIN;\n";
for my $i (1 .. 10)
{
	for my $priority (-1, 0, 1)
	{
		$sql .= qq{SELECT action_id, $priority FROM actionledger.perform('prio', '{"refund_id": "p$priority.$i", "amount": 1}', options => '{"priority": $priority}');\n};
	}
}
for (split /\n/, $node->safe_psql('postgres', $sql . "COMMIT;\n"))
{
	push @{ $ids{$2} }, $1 if /^(\d+)\|(-?\d)$/;
}
poll_sql($node, "SELECT count(*) = 30 FROM actionledger.actions WHERE tool = 'prio' AND status = 'confirmed'", 'all priorities are done');
$at = first_received();
my ($high, $normal, $low) = map { my @t = sort { $a <=> $b } map { $at->{$_} } @{ $ids{$_} }; \@t } (1, 0, -1);
cmp_ok($high->[9], '<', $normal->[0], 'priority 1 before 0');
cmp_ok($normal->[9], '<', $low->[0], 'priority 0 before -1');

# --- a missing secret blocks; set_secret and retry let it go on
$node->safe_psql('postgres', qq{SELECT actionledger.create_service('locked', '$p->{url}', '{"allow_private": true, "auth": {"bearer": "{secret:canary_name}"}}')});
refund_tool($node, name => 'locked', service => 'locked');
my $id = $node->safe_psql('postgres', q{SELECT action_id FROM actionledger.perform('locked', '{"refund_id": "s", "amount": 1}')});
poll_sql($node, "SELECT next_step = 'blocked' FROM actionledger.actions WHERE action_id = $id", 'blocked for want of the secret');
$node->safe_psql('postgres', q{SELECT actionledger.set_secret('canary_name', 'canary-4711')});
is($node->safe_psql('postgres', "SELECT status, next_step FROM actionledger.retry($id, 'the secret is there now')"), 'prepared|send', 'retry lets it go on');
poll_sql($node, "SELECT status = 'confirmed' FROM actionledger.actions WHERE action_id = $id", 'and it is sent');
my ($seen) = grep { ($_->{action} // '') =~ m{/$id$} && $_->{ev} eq 'received' } truth($p);
is($seen->{auth}, 'Bearer canary-4711', 'with the secret');
$node->safe_psql('postgres', q{SELECT actionledger.set_secret('canary_name', 'canary-4712')});
my $id2 = $node->safe_psql('postgres', q{SELECT action_id FROM actionledger.perform('locked', '{"refund_id": "s2", "amount": 1}')});
poll_sql($node, "SELECT status = 'confirmed' FROM actionledger.actions WHERE action_id = $id2", 'a second one is sent');
($seen) = grep { ($_->{action} // '') =~ m{/$id2$} && $_->{ev} eq 'received' } truth($p);
is($seen->{auth}, 'Bearer canary-4712', 'rotated without a restart');
my $dump = qx{pg_dump -h @{[ $node->host ]} -p @{[ $node->port ]} postgres};
unlike($dump, qr/canary-471/, 'no secret in a dump');
for my $bad (q{'no name', 'canary-4713'}, q{'', 'canary-4713'}, q{'name', E'canary-4713\nx'}, q{'name', repeat('canary-4713', 1000)}, q{'name', ''}, q{'name', E'\n'})
{
	my ($out, $err) = ('', '');
	$node->psql('postgres', "SELECT actionledger.set_secret($bad)", stdout => \$out, stderr => \$err);
	like($err, qr/ERROR:  invalid (name of a|value of) secret/, "set_secret refuses $bad");
	unlike($err, qr/canary/, 'and does not tell it');
}

$node->stop;
done_testing();
