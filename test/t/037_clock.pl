# The time of day is set by a day, forward and back, while sends, retries,
# unknown outcomes, probes and sessions wait.  Nothing is sent early, nothing
# ends early, nothing waits for the day; the provider counts by a clock of its own.
use strict;
use warnings;
use Clock;
use IPC::Run ();
use Ledger;
use List::Util qw(max);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $DAY = 86400;
my $node = start_server_with_clock(conf => "actionledger.poll_interval = '100ms'");
my $p = start_provider();
refund_service($node, $p);
refund_service($node, $p, name => 'frail', options => '"breaker": {"failures": 1, "cooldown": "3s"}');
refund_service($node, $p, name => 'other', honoured => 0);
# A key that the provider is relied on to remember for 5 s.
$node->safe_psql('postgres',
	qq{SELECT actionledger.create_service('brief', '$p->{url}', '{"allow_private": true, "breaker": {"failures": 1000},
	  "idempotency": {"window": "6s", "margin": "1s"}}')});
refund_tool($node, name => 'busy', do => 'status:429,ok', base => '4s', cap => '4s');
refund_tool($node, name => 'held', do => 'status:429,ok', base => '6s', cap => '6s');
refund_tool($node, name => 'lost', do => 'close,ok', base => '4s', cap => '4s');
refund_tool($node, name => 'slow', do => 'late:2000', timeout => '20s');
refund_tool($node, name => 'hung', do => 'hang,ok', timeout => '3s', base => '500ms', cap => '500ms');
refund_tool($node, name => 'plain', do => 'ok');
refund_tool($node, name => 'dated', do => 'status:429,ok', base => '4s', cap => '4s', options => '"expires_after": "1h"');
refund_tool($node, name => 'window', do => 'status:429', base => '1s', cap => '1s', attempts => 50, window => '5s');
refund_tool($node, name => 'keyed', service => 'brief', do => 'close', base => '800ms', cap => '800ms', attempts => 50);
refund_tool($node, name => 'mute', service => 'other', mode => 'unkeyed', do => 'close', options => '"max_processing": "10m"');
# A lookup, not before the max processing time is over: 1 s + 3 s after the send.
$node->safe_psql('postgres', qq{SELECT actionledger.create_service('finder', '$p->{url}', '{"allow_private": true, "breaker": {"failures": 1000}}')});
refund_tool($node, name => 'looked', service => 'finder', mode => 'unkeyed', do => 'close', timeout => '1s',
	options => q("max_processing": "3s", "lookup": {"request": "GET /refunds?key={_key}&do=ok", "match": "$.data[*] ? (@.key == $_key)", "every": "1s"}));
refund_tool($node, name => 'probe', service => 'frail', do => 'status:500,ok', base => '100ms', cap => '100ms');

my $now = 0;
my $n = 0;
my $jumped;		# when, by the real clock

# Set the clock, and wait until the dispatcher has followed it.
sub jump
{
	my ($by) = @_;
	my $before = $node->safe_psql('postgres', 'SELECT clock_offset FROM actionledger.ledger');
	$now += $by;
	$jumped = time;
	set_clock($now);
	my $want = $by * 1000000;
	poll_sql($node, "SELECT abs(clock_offset - $before - $want) < 2000000 FROM actionledger.ledger", "the ledger follows the clock by $by s");
	return;
}

# Seconds between the first two requests of an action, by the provider's clock.
sub gap
{
	my ($id) = @_;
	my @t = map { $_->{t} } received($p, $id);
	return @t >= 2 ? $t[1] - $t[0] : -1;
}

sub wait_received
{
	my ($id, $count) = @_;
	poll(sub { received($p, $id) >= $count }, "action $id is received $count times", 60);
	return;
}

# How long after its first attempt an action was last sent, by its attempts, whose
# times of day have the clock's setting between them.
sub span
{
	my ($id, $by) = @_;
	my @at = split /\|/, $node->safe_psql('postgres',
		"SELECT string_agg(extract(epoch FROM started_at)::text, '|' ORDER BY attempt) FROM actionledger.attempt WHERE action_id = $id");
	my $span = $at[-1] - $at[0];
	return abs($span - $by) < abs($span) ? $span - $by : $span;
}

# Whether an action was sent again after the clock was set, or could not be because
# a slow machine took the whole of its window before.
sub went_on
{
	my ($id, $window) = @_;
	my @t = map { $_->{t} } received($p, $id);
	diag("the clock was set too late to tell") if $jumped - $t[0] > $window - 2;
	return $t[-1] > $jumped || $jumped - $t[0] > $window - 2;
}

# A session whose statements are given one after another.
sub open_session
{
	my $s = { in => '', out => '' };
	$s->{handle} = IPC::Run::start([ $node->installed_command('psql'), '-XAtq', '-d', $node->connstr('postgres') ],
		'<', \$s->{in}, '>', \$s->{out}, '2>&1', IPC::Run::timeout(120));
	return $s;
}

sub say_in
{
	my ($s, $sql) = @_;
	my $mark = 'said-' . ++$n;
	$s->{in} .= "$sql\nSELECT '$mark';\n";
	poll(sub { $s->{handle}->pump_nb; $s->{out} =~ /\Q$mark\E/ }, "a session has run $sql", 60);
	return;
}

for my $by ($DAY, -$DAY)
{
	my $way = $by > 0 ? 'forward' : 'back';
	my %id = map { $_ => perform($node, $_, "$way-$_") } qw(busy lost slow dated window keyed mute probe looked);
	wait_received($id{$_}, 1) for keys %id;
	settle($node, $id{mute}, 'needs_reconciliation', 'review');
	# All have had their first end, but for the one that is answered late.
	poll_sql($node,
		"SELECT count(*) = 0 FROM actionledger.action WHERE claimed_by IS NOT NULL AND action_id <> $id{slow}", 'the first answers are recorded');

	my $later = $node->safe_psql('postgres', "SELECT now() + interval '12 hours'");
	my $absolute = perform($node, 'plain', "$way-absolute", options => qq({"not_before": "$later"}));
	my $holder = open_session();
	my $held = perform($node, 'held', "$way-held");
	wait_received($held, 1);
	poll_sql($node, "SELECT next_step = 'send' AND claimed_by IS NULL FROM actionledger.action WHERE action_id = $held", 'it waits');
	say_in($holder, "BEGIN; SELECT 1 FROM actionledger.action WHERE action_id = $held FOR UPDATE;");
	my $open = open_session();
	say_in($open, qq{BEGIN; SELECT 'id=' || action_id FROM actionledger.perform('plain', '{"refund_id": "$way-open", "amount": 1}');});
	my ($uncommitted) = $open->{out} =~ /id=(\d+)/;
	my $waiter = open_session();
	say_in($waiter, "SELECT 1;");
	$waiter->{in} .= "SELECT 'waited ' || (actionledger.wait($id{mute}, '3s') ->> 'ok');\n";
	$waiter->{handle}->pump_nb;

	my $hung = perform($node, 'hung', "$way-hung");
	wait_received($hung, 1);

	jump($by);
	my $fresh = perform($node, 'plain', "$way-fresh");
	settle($node, $fresh, 'confirmed');
	pass("$way: a new action goes at once");
	is($node->safe_psql('postgres', 'SELECT array_agg(action_id) FROM actionledger.clock_debt'), "{$held}",
		"$way: only the action that a session has locked keeps its times for now");
	say_in($holder, 'ROLLBACK;');
	say_in($open, 'COMMIT;');
	settle($node, $uncommitted, 'confirmed');
	pass("$way: what was recorded before and committed after goes at once");

	like($node->safe_psql('postgres', "SELECT 'x' || status || next_step FROM actionledger.action WHERE action_id = $absolute"),
		$by > 0 ? qr/^xconfirmed|^xsubmitted|^xprepared/ : qr/^xpreparedsend$/, "$way: a time that the caller named is a time of day");
	if ($by > 0)
	{
		settle($node, $absolute, 'confirmed');
	}
	else
	{
		is(scalar received($p, $absolute), 0, "$way: and is not here yet");
	}
	my ($ret, undef, $err) = $node->psql('postgres',
		"SELECT actionledger.resolve($id{mute}, 'failed', '{}', 'not seen')", extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	like($err, qr/LG012/, "$way: the max processing time of a lost request is not over");

	settle($node, $id{slow}, 'confirmed', undef, 60);
	pass("$way: an answer under way is waited for");
	settle($node, $hung, 'confirmed', undef, 60);
	is(scalar received($p, $hung), 2, "$way: one that never came is judged by windows that are still open");
	for my $what (qw(busy lost dated))
	{
		settle($node, $id{$what}, 'confirmed', undef, 60);
		cmp_ok(gap($id{$what}), '>=', 2, "$way: $what: sent again after its delay, not earlier, not a day later");
		is(scalar received($p, $id{$what}), 2, "$way: $what: twice");
	}
	settle($node, $held, 'confirmed', undef, 60);
	cmp_ok(gap($held), '>=', 3, "$way: a locked action: the same");
	is(effects($p, $id{lost}), 1, "$way: and has one effect");
	settle($node, $id{probe}, 'confirmed', undef, 60);
	cmp_ok(gap($id{probe}), '>=', 3, "$way: the breaker's probe goes after its cooldown");

	settle($node, $id{looked}, 'confirmed', undef, 60);
	cmp_ok(span($id{looked}, $by), '>=', 4, "$way: nobody looks before the max processing time is over");
	my $row = settle($node, $id{window}, 'failed', undef, 60);
	is($row->{error_code}, 'retries_exhausted', "$way: a retry window ends");
	cmp_ok(span($id{window}, $by), '<', 5, "$way: nothing is sent after it");
	ok(went_on($id{window}, 5), "$way: and not early");
	settle($node, $id{keyed}, 'needs_reconciliation', 'review', 60);
	cmp_ok(span($id{keyed}, $by), '<', 5, "$way: no send after the key's window less its margin");
	ok(went_on($id{keyed}, 5), "$way: and the key is relied on until then");
	poll(sub { $waiter->{handle}->pump_nb; $waiter->{out} =~ /waited false/ }, "$way: wait() ends", 60);
	pass("$way: a wait ends in its time");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM actionledger.clock_debt'), 0, "$way: no times are left to be moved");
	$_->{in} .= "\\q\n", $_->{handle}->finish for $holder, $open, $waiter;
}

# The server is down while the clock is set.
for my $by ($DAY, -$DAY)
{
	my $way = $by > 0 ? 'forward' : 'back';
	my $busy = perform($node, 'busy', "down-$way");
	wait_received($busy, 1);
	poll_sql($node, "SELECT next_step = 'send' AND claimed_by IS NULL FROM actionledger.action WHERE action_id = $busy", 'it waits');
	$node->stop;
	set_clock($now += $by);
	with_clock(sub { $node->start });
	settle($node, $busy, 'confirmed', undef, 60);
	cmp_ok(gap($busy), '>=', 2, "set $way while the server was down: sent again after its delay, not earlier, not a day later");
}

# A dispatcher that dies just after the clock was set back is started again.
my $pid = pid_of_dispatcher($node);
set_clock($now -= $DAY);
kill 'TERM', $pid;
isnt(pid_of_dispatcher($node, $pid), $pid, 'a dispatcher is started again after the clock was set back');
settle($node, perform($node, 'plain', 'after'), 'confirmed', undef, 60);
pass('and sends');

my $by_action = truth_by_action($p);
is(max(map { scalar keys %{ $_->{keys} } } values %$by_action), 1, 'one key for each action');
is(max(map { scalar keys %{ $_->{bodies} } } values %$by_action), 1, 'one body for each action');
is(max(map { $_->{executed} // 0 } values %$by_action), 1, 'and never more than one effect');
done_testing();
