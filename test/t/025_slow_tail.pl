# A few slow answers, or a service that never answers, delay nobody else; and
# nobody is sent more than its limit at once.
use strict;
use warnings;
use List::Util qw(max min);
use Test::More;
use lib 'test/lib';
use Ledger;
use Time::HiRes qw(time);

use constant MANY => 2000;

my $node = start_server();
my $p = start_provider('--no-fsync');

# Perform a tool so many times in one statement.
sub perform_many
{
	my ($tool, $n) = @_;
	my $begun = time;
	is($node->safe_psql('postgres', qq{SELECT count(*) FROM actionledger.perform_many('$tool',
	  ARRAY(SELECT jsonb_build_object('refund_id', '$tool-' || i, 'amount', i) FROM generate_series(1, $n) i))}), $n, "$tool: $n performed");
	return $begun;
}

# How many actions of a tool have this status.
sub count_of
{
	my ($tool, $status) = @_;
	return $node->safe_psql('postgres', "SELECT count(*) FROM actionledger.actions WHERE tool = '$tool' AND status = '$status'");
}

# The truth about the actions of a tool: { action => { received, answered, closed => time } }.
sub times_of
{
	my ($tool) = @_;
	my %mine = map { $_ => {} } split /\n/, $node->safe_psql('postgres', "SELECT action_id FROM actionledger.actions WHERE tool = '$tool'");
	for my $t (truth($p))
	{
		next unless ($t->{action} // '') =~ m{/(\d+)$} && $mine{$1};
		$mine{$1}{ $t->{ev} } = $t->{t};
	}
	return \%mine;
}

# The most requests of some actions that were open at the provider at one time.
sub most_open
{
	my %mine = map { $_ => 1 } @_;
	my (%open, $most);

	$most = 0;
	for my $t (truth($p))
	{
		my $id = "$t->{conn} " . ($t->{req} // '');
		if ($t->{ev} eq 'received' && ($t->{action} // '') =~ m{/(\d+)$} && $mine{$1})
		{
			$open{$id} = 1;
			$most = max($most, scalar keys %open);
		}
		elsif ($t->{ev} eq 'answered')
		{
			delete $open{$id};
		}
		elsif ($t->{ev} eq 'closed')
		{
			delete $open{$_} for grep { /^$t->{conn} / } keys %open;
		}
	}
	return $most;
}

# ---------------------------------------------------------------------------
# One answer in a hundred takes 5 s
# ---------------------------------------------------------------------------
{
	my (%fast, $begun, $mixed, $slow_time, @slow, @quick, $took_all_fast, $took_quick);

	refund_service($node, $p, name => 'fast');
	refund_service($node, $p, name => 'tail');
	refund_tool($node, name => 'fast', service => 'fast', timeout => '30s');
	refund_tool($node, name => 'tail', service => 'tail', timeout => '30s', do => 'p:1:late:5000/ok');
	settle($node, perform($node, 'fast', 'warm'), 'confirmed', 'none');
	turns_pass($node, 1);

	$begun = perform_many('fast', MANY);
	poll(sub { count_of('fast', 'confirmed') == MANY + 1 }, 'all fast ones are confirmed', 120);
	$took_all_fast = max(map { $_->{answered} } values %{ times_of('fast') }) - $begun;

	$begun = perform_many('tail', MANY);
	poll(sub { count_of('tail', 'confirmed') == MANY }, 'all are confirmed', 180);
	$mixed = times_of('tail');
	@slow = grep { $mixed->{$_}{answered} - $mixed->{$_}{received} > 4.9 } keys %$mixed;
	@quick = grep { $mixed->{$_}{answered} - $mixed->{$_}{received} <= 4.9 } keys %$mixed;
	$took_quick = max(map { $mixed->{$_}{answered} } @quick) - $begun;
	$slow_time = max(map { $mixed->{$_}{answered} } @slow) - $begun;

	cmp_ok(scalar @slow, '>=', 5, 'some answers were slow');
	cmp_ok(scalar @slow, '<=', 60, 'about one in a hundred');
	is(effects($p), 2 * MANY + 1, 'every action is executed once');
	note(sprintf '%d without slow answers: %.2f s, %.0f per second', MANY, $took_all_fast, MANY / $took_all_fast);
	note(sprintf '%d beside %d slow ones:   %.2f s, %.0f per second; the slow ones until %.2f s',
		scalar @quick, scalar @slow, $took_quick, @quick / $took_quick, $slow_time);
	cmp_ok($took_quick, '<', 2 * $took_all_fast + 2, 'the other 99 % are done as if there were no slow ones');
	cmp_ok($slow_time, '<', 2 * $took_all_fast + 2 + 5.5, 'and the slow ones take their own time only, side by side');

	# The ledger knows it as soon: confirmed long before the slow ones are.
	my $recorded = $node->safe_psql('postgres', "SELECT extract(epoch FROM max(finished_at)) FROM actionledger.actions WHERE tool = 'tail' AND action_id IN (@{[ join ',', @quick ]})");
	cmp_ok($recorded - $begun, '<', 2 * $took_all_fast + 2.5, 'and confirmed in the ledger by then');
}

# ---------------------------------------------------------------------------
# A service that hangs completely
# ---------------------------------------------------------------------------
{
	my ($begun, $took, @hanging, @beside);

	refund_service($node, $p, name => 'hanging', honoured => 0, options => '"limits": {"in_flight": 20}');
	refund_service($node, $p, name => 'beside');
	refund_tool($node, name => 'hanging', service => 'hanging', mode => 'unkeyed', do => 'noexec_hang', timeout => '25s');
	refund_tool($node, name => 'beside', service => 'beside');
	perform_many('hanging', 300);
	poll_sql($node, "SELECT count(*) = 20 FROM actionledger.in_flight WHERE tool = 'hanging'", 'the hanging service has all that it may have');

	$begun = perform_many('beside', 500);
	poll(sub { count_of('beside', 'confirmed') == 500 }, 'all beside it are confirmed', 20);
	$took = time - $begun;
	note(sprintf '500 beside a hanging service: %.2f s', $took);
	is(count_of('hanging', 'submitted'), 20, 'meanwhile the hanging service still has its 20');
	is(count_of('hanging', 'prepared'), 280, 'and the others wait, prepared, with their clocks not started');
	is($node->safe_psql('postgres', "SELECT count(*) FROM actionledger.action a JOIN actionledger.tool t USING (tool_id) WHERE t.name = 'hanging' AND a.status = 'prepared' AND a.window_ends_at IS NOT NULL"),
		'0', 'no retry window has begun by waiting');

	@hanging = keys %{ times_of('hanging') };
	is(most_open(@hanging), 20, 'never more than 20 open there');
}

# ---------------------------------------------------------------------------
# The limit of a service
# ---------------------------------------------------------------------------
{
	for my $limit (1, 7)
	{
		my $name = "limit_$limit";
		my $n = 30 * $limit;

		refund_service($node, $p, name => $name, options => qq{"limits": {"in_flight": $limit}});
		refund_tool($node, name => $name, service => $name, do => 'late:20');
		refund_tool($node, name => "${name}_other", service => $name, do => 'p:30:late:60/ok', mode => 'unkeyed', type => 'irreversible');
		perform_many($name, $n);
		perform_many("${name}_other", $n);
		poll(sub { count_of($name, 'confirmed') + count_of("${name}_other", 'confirmed') == 2 * $n }, 'all are confirmed', 60);
		is(most_open(keys %{ times_of($name) }, keys %{ times_of("${name}_other") }), $limit,
			"in_flight $limit: as many at once as the service may have, over all of its tools, and never more");
	}

	# A limit that is lowered holds at once for what is sent from then on.
	refund_service($node, $p, name => 'lowered', options => '"limits": {"in_flight": 50}');
	refund_tool($node, name => 'lowered', service => 'lowered', do => 'late:20');
	perform_many('lowered', 200);
	$node->safe_psql('postgres', q{SELECT actionledger.alter_service('lowered', '{"limits": {"in_flight": 3}}')});
	turns_pass($node, 2);
	refund_tool($node, name => 'lowered_then', service => 'lowered', do => 'late:20');
	perform_many('lowered_then', 60);
	poll(sub { count_of('lowered_then', 'confirmed') + count_of('lowered', 'confirmed') == 260 }, 'all are confirmed', 60);
	cmp_ok(most_open(keys %{ times_of('lowered_then') }), '<=', 3, 'a lowered limit holds');
}

$node->stop;
done_testing();
