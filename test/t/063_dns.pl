# A name server that hangs, and one that fails: nobody else waits for it.
#
# getaddrinfo() blocks for seconds (resolver.so) while a second service is healthy:
# from when its actions are committed, and when they arrive, one sees whether the
# dispatcher's loop stood still.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;
use Lifecycle;
use Names;
use Time::HiRes qw(sleep time);

my $HANG_MS = 5000;
my $ALLOWED_MS = 100;	# what the loop may stand still for
my $DRAIN_S = 2;
my $n = 0;

my $node = start_server_with_names(conf => "actionledger.drain_timeout = '${DRAIN_S}s'\nmax_wal_size = '4GB'\ncheckpoint_timeout = '30min'");
my $p = start_provider();

# What names stand for; all the others of these tests are at fault from the start.
my %fault = (stuck => "hang:$HANG_MS 127.0.0.1", impatient => "hang:$HANG_MS 127.0.0.1", dead => 'hang:30000 127.0.0.1', load => 'hang:30 fail', ended => 'hang:30000 127.0.0.1');

sub mend
{
	delete @fault{@_};
	return set_names('healthy.test 127.0.0.1', (map { "*.$_.test $fault{$_}" } sort keys %fault), '*.test 127.0.0.1');
}

# A service at a name of its own, with a tool of the same name.
sub named_service
{
	my ($host, %o) = @_;
	refund_service($node, { url => "http://$host:$p->{port}" }, name => $host, options => '"breaker": {"failures": 1000, "cooldown": "100ms"}');
	refund_tool($node, name => $host, service => $host, attempts => 100, base => '100ms', cap => '200ms', %o);
	return $host;
}

# Perform a tool so many times, in one statement; returns the actions.
sub perform_many
{
	my ($tool, $times) = @_;
	$n++;
	return split /\n/, $node->safe_psql('postgres',
		"SELECT action_id FROM actionledger.perform_many('$tool', ARRAY(SELECT jsonb_build_object('refund_id', '$tool-$n-' || i, 'amount', i) FROM generate_series(1, $times) i))");
}

# How many lookups have begun and not ended.
sub hanging
{
	my ($match) = @_;
	return scalar(lookups($match)) - scalar(answers($match));
}

# Which of the actions are not confirmed by exactly one effect.
sub odd_ones
{
	my (@ids) = @_;
	my $t = truth_by_action($p);
	my %confirmed = map { $_ => 1 } split /\n/, $node->safe_psql('postgres', "SELECT action_id FROM actionledger.action WHERE status = 'confirmed'");
	return grep { !$confirmed{$_} || ($t->{$_}{executed} // 0) != 1 || ($t->{$_}{received} // 0) != 1 } @ids;
}

sub wait_for
{
	my (@ids) = @_;
	return eval { poll_sql($node, "SELECT count(*) = @{[ scalar @ids ]} FROM actionledger.action WHERE status = 'confirmed' AND action_id IN (@{[ join ', ', @ids ]})", 'all are confirmed', 90) } // diag $@;
}

mend();
refund_service($node, { url => "http://healthy.test:$p->{port}" }, name => 'healthy');
refund_tool($node, name => 'healthy', service => 'healthy');

# Performs healthy actions one after another, every few milliseconds, and keeps when each was committed.
$node->safe_psql('postgres', q{
CREATE TABLE pulse (round int, action_id bigint, committed_at timestamptz);
CREATE PROCEDURE beat(round int, seconds int) LANGUAGE plpgsql AS $$
DECLARE
  action bigint;
  until timestamptz := clock_timestamp() + seconds * interval '1 second';
BEGIN
  FOR i IN 1 .. 1000000 LOOP
    action := (SELECT action_id FROM actionledger.perform('healthy', jsonb_build_object('refund_id', format('beat-%s-%s', round, i), 'amount', i)));
    COMMIT;
    INSERT INTO pulse VALUES (round, action, clock_timestamp());
    EXIT WHEN clock_timestamp() > until;
    PERFORM pg_sleep(0.004);
  END LOOP;
END $$});

# The milliseconds from commit to arrival of a round's actions, in their order, and when they were committed.
sub beats
{
	my ($round) = @_;
	my %arrived = map { ($_->{action} // '') =~ m{/(\d+)$} ? ($1 => $_->{t}) : () } grep { $_->{ev} eq 'received' } truth($p);
	return map { my ($id, $at) = split /\|/; [ $at, (($arrived{$id} // 9e9) - $at) * 1000 ] }
	  split /\n/, $node->safe_psql('postgres', "SELECT action_id, extract(epoch FROM committed_at) FROM pulse WHERE round = $round ORDER BY committed_at");
}

sub percentile
{
	my ($share, @values) = @_;
	return (sort { $a <=> $b } @values)[ int($share * $#values) ];
}

# ---------------------------------------------------------------------------
# The loop goes on while lookups hang, are given up, and end
# ---------------------------------------------------------------------------
# The machine of the test has stalls of its own; those of a lookup would be in every round.
{
	my (@worst, @all);
	my $pid = pid_of_dispatcher($node);
	my $calm = start_session($node, 'postgres', "CALL beat(0, 2)");

	end_session($calm) or diag(session_output($calm));
	eval { poll(sub { !grep { $_->[1] > 1e9 } beats(0) }, 'all have arrived', 20) };
	note(sprintf 'figures: calm: %d actions, commit to arrival: median %.1f ms, p99 %.1f ms, most %.1f ms', scalar(beats(0)), map { percentile($_, map { $_->[1] } beats(0)) } 0.5, 0.99, 1);

	# Where others keep the machine busy, a stall as it has without lookups proves nothing.
	my $allowed = (sort { $b <=> $a } $ALLOWED_MS, map { $_->[1] } beats(0))[0];

	for my $round (1 .. 5)
	{
		my $stuck = named_service("s$round.stuck.test", timeout => '20s', options => '"connect_timeout": "15s"');
		my $impatient = named_service("i$round.impatient.test", timeout => '700ms');
		my $session = start_session($node, 'postgres', "CALL beat($round, 8)");
		poll_sql($node, "SELECT count(*) > 0 FROM pulse WHERE round = $round", 'it beats');
		my @ids = (perform_many($stuck, 10), perform_many($impatient, 10));
		poll(sub { hanging("s$round.*") == 10 && hanging("i$round.*") >= 10 }, 'lookups hang', 20);

		# What resolver threads inherit: no signal of ours is theirs.
		if ($round == 1)
		{
			my (@odd, @threads);
			for my $status (glob "/proc/$pid/task/*/status")
			{
				my ($thread) = $status =~ m{task/(\d+)/};
				next if $thread == $pid;
				open my $file, '<', $status or next;
				my ($blocked) = map { /^SigBlk:\s*([0-9a-f]+)/ ? hex $1 : () } <$file>;
				next unless defined $blocked;
				push @threads, $thread;
				push @odd, map { "$thread: signal $_" } grep { !($blocked & (1 << ($_ - 1))) } 1, 2, 3, 10, 12, 14, 15;	# HUP, INT, QUIT, USR1, USR2, ALRM, TERM
			}
			cmp_ok(scalar @threads, '>=', 20, 'every lookup has a thread: ' . scalar @threads);
			is_deeply(\@odd, [], 'in which all signals are blocked');
		}
		my ($from) = map { $_->[0] } lookups("s$round.*");
		end_session($session) or diag(session_output($session));
		poll(sub { hanging("s$round.*") == 0 }, 'the lookups have ended', 30);
		my ($to) = map { $_->[0] } answers("s$round.*");
		eval { poll(sub { !grep { $_->[1] > 1e9 } beats($round) }, 'all have arrived', 20) };
		my @beats = beats($round);
		my @within = grep { $_->[0] >= $from && $_->[0] <= $to } @beats;

		push @worst, percentile(1, map { $_->[1] } @beats);
		push @all, @ids, split /\n/, $node->safe_psql('postgres', "SELECT action_id FROM pulse WHERE round = $round");
		note(sprintf 'figures: round %d: lookups hung for %.1f s, %d given up; %d actions meanwhile, commit to arrival: median %.1f ms, p99 %.1f ms, most %.1f ms',
			$round, $to - $from, scalar(lookups("i$round.*")) - 10, scalar(@within), percentile(0.5, map { $_->[1] } @beats), percentile(0.99, map { $_->[1] } @beats), $worst[-1]);
		cmp_ok($to - $from, '>=', $HANG_MS / 1000 - 0.1, "round $round: lookups did hang");
		cmp_ok(scalar @within, '>=', 50, "round $round: " . scalar(@within) . ' healthy actions were committed meanwhile');
		cmp_ok($worst[-1], '<', $HANG_MS / 5, "round $round: no stall is anywhere near what a lookup takes");
		last if $worst[-1] <= $allowed;
	}
	my $least = percentile(0, @worst);
	note(sprintf 'figures: maximum stall while names did not resolve: %.1f ms (every round: %s); allowed: %d ms', $least, join(', ', map { sprintf '%.1f', $_ } @worst), $allowed);
	cmp_ok($least, '<=', $allowed, sprintf 'the loop never stands still over %d ms: the maximum stall is %.1f ms (of every round: %s)', $allowed, $least, join ', ', map { sprintf '%.1f', $_ } @worst);

	# A lookup that was given up is none that was lost.
	is($node->safe_psql('postgres', "SELECT string_agg(DISTINCT t.verdict || ' ' || t.category, ', ') FROM actionledger.attempts t JOIN actionledger.actions a USING (action_id) WHERE a.tool LIKE '%impatient.test'"),
		'not_sent timeout_before_send', 'a lookup that takes too long is a send that never was');
	mend('impatient', 'stuck');
	wait_for(@all);
	is_deeply([ odd_ones(@all) ], [], scalar(@all) . ' actions: when names resolve again, each is executed once');
	is(pid_of_dispatcher($node), $pid, 'by the same dispatcher');
}

# ---------------------------------------------------------------------------
# SIGHUP and SIGTERM while names fail to resolve
# ---------------------------------------------------------------------------
{
	my @services = map { named_service("l$_.load.test") } 1 .. 10;
	my @ids = map { perform_many($_, 4) } @services;
	my $pid = pid_of_dispatcher($node);
	my ($sent, $end) = (0);

	poll(sub { scalar(lookups('l\d+\.load\.test')) >= 60 }, 'names are looked up again and again', 30);
	my $before = scalar lookups('l\d+\.load\.test');
	my $session = start_session($node, 'postgres', "CALL beat(100, 3)");
	for ($end = time + 3; time < $end; sleep 0.001)
	{
		kill 'HUP', $sent++ % 3 ? $pid : $node->{_pid};
	}
	my $during = scalar(lookups('l\d+\.load\.test')) - $before;
	end_session($session) or diag(session_output($session));
	cmp_ok($sent, '>=', 300, "SIGHUP: $sent of them in 3 seconds");
	cmp_ok($during, '>=', 30, "SIGHUP: and $during lookups");
	mend('load');
	push @ids, split /\n/, $node->safe_psql('postgres', 'SELECT action_id FROM pulse WHERE round = 100');
	wait_for(@ids);
	is_deeply([ odd_ones(@ids) ], [], 'SIGHUP: nothing of ' . scalar(@ids) . ' actions is lost, and nothing is done twice');
	is(pid_of_dispatcher($node), $pid, 'SIGHUP: the dispatcher is the same');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM actionledger.attempt WHERE verdict IS NULL'), '0', 'SIGHUP: no attempt is left open');
}
{
	my @ids = map { perform_many($_, 4) } map { named_service("e$_.ended.test", timeout => '60s', options => '"connect_timeout": "60s"') } 1 .. 5;
	my $pid = pid_of_dispatcher($node);
	my $start;

	poll(sub { hanging('e\d+\.ended\.test') == 20 }, 'lookups hang', 30);
	$start = time;
	kill 'TERM', $pid;
	poll(sub { !kill 0, $pid }, 'the dispatcher has ended', 30);
	cmp_ok(time - $start, '<', $DRAIN_S + 3, sprintf 'SIGTERM: a dispatcher with hanging lookups ends in %.1f s', time - $start);
	mend('ended');
	isnt(pid_of_dispatcher($node, $pid), $pid, 'SIGTERM: there is another one');
	wait_for(@ids);
	is_deeply([ odd_ones(@ids) ], [], 'SIGTERM: each action is executed once');
	is_deeply([ grep { $_ ne 'not_sent/aborted_before_send' } map { my ($first) = attempts_of($node, $_); "$first->{verdict}/$first->{category}" } @ids ], [],
		'SIGTERM: what was being looked up is known not to have been sent');
}

# ---------------------------------------------------------------------------
# Stopping the server
# ---------------------------------------------------------------------------
{
	my @ids = perform_many(named_service('stop.dead.test', timeout => '60s', options => '"connect_timeout": "60s"'), 10);
	my ($start, $took);

	poll(sub { hanging('stop\.dead\.test') == 10 }, 'lookups hang', 30);
	$start = time;
	$node->stop('fast');
	$took = time - $start;
	cmp_ok($took, '<', $DRAIN_S + 3, sprintf 'pg_ctl stop -m fast with hanging lookups takes %.1f s', $took);
	mend('dead');
	with_names(sub { $node->start });
	wait_for(@ids);
	is_deeply([ odd_ones(@ids) ], [], 'after the next start each action is executed once');
	is_deeply([ grep { $_ ne 'not_sent/aborted_before_send' } map { my ($first) = attempts_of($node, $_); "$first->{verdict}/$first->{category}" } @ids ], [],
		'what was being looked up is known not to have been sent');
}
is(scalar(log_since($node, 0, qr/PANIC|was terminated by signal|exited with exit code [^01]/)), 0, 'no process crashed');

$node->stop;
done_testing();
