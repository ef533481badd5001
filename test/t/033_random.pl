# Random actions at a provider of every kind of behaviour, while dispatchers and
# servers die at random moments; then the provider's truth is held against the ledger.
#
# SEED=n repeats the choices of a run, RANDOM_SECONDS=n makes it longer (60).
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Audit;
use Fault;
use IO::Socket::INET;
use Ledger;
use List::Util qw(shuffle);
use Time::HiRes qw(time);

my $seconds = $ENV{RANDOM_SECONDS} // 60;
my $seed = $ENV{SEED} // int(time * 1000) % 1_000_000_000;
srand($seed);
note "SEED=$seed RANDOM_SECONDS=$seconds";

my $PER_SECOND = 6;         # actions
my $TO_SETTLE = 15;         # of the seconds
my $LATEST = 2;             # seconds after which the provider executes nothing that it has
my $FIRES_WITHIN = 30;

my $p = start_provider();
my $node = start_server(fault => 1, conf => "actionledger.drain_timeout = '500ms'\nrecovery_init_sync_method = syncfs");
my $audit = Audit->new($node, $p);

# A port where nobody listens.
my $closed = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1) or die $!;
my $nobody = { url => 'http://127.0.0.1:' . $closed->sockport };
close $closed;

refund_service($node, $p, name => 'keyed', options => '"limits": {"in_flight": 6}');
refund_service($node, $p, name => 'unkeyed', honoured => 0, options => '"limits": {"in_flight": 6}');
refund_service($node, $nobody, name => 'dead', honoured => 0);
$node->safe_psql('postgres', qq{SELECT actionledger.create_service('seen', '$p->{url}', '{"allow_private": true, "limits": {"in_flight": 6}, "breaker": {"failures": 1000}}')});

# What the provider does.  Only what tells the truth: no success without an effect,
# no refusal with one.
my @answers = qw(ok late:100 late:1500 slowbody:200 slowbody:1500 truncated noframing interim_ok:103 nul gzip endless deep
  badutf8 hugenum big:300000);
my @silences = qw(hang noexec_hang close close_before reset reset_before cuthead interim:102 slowexec:300 slowexec:1500
  statusline:garbage);
my @refusals = qw(status:500 status:503 status:429 status:404 status:422 execstatus:500 execstatus:503 redirect:/elsewhere
  accepted);

# What a lookup is answered: it shows effects late, and often nothing of use.
my @looks = qw(ok late:300 hang close reset status:500 status:404 status:401 status:429 truncated noframing nul deep okfalse endless);
my @keyed_only = qw(processing:500 processing:1500);

# A plan in which half of the operations are answered, and each other behaviour of
# the list has an equal share of the rest.
sub any_of
{
	my @items = shuffle(@_);
	my $plan = pop @items;
	my $n = 1;
	for my $item (@items)
	{
		$plan = sprintf 'p:%d:%s/%s', int(100 / ++$n), $item, $plan;
	}
	return "p:50:ok/$plan";
}

my %tools = (
	keyed => { service => 'keyed', do => [ @answers, @silences, @refusals, @keyed_only ], attempts => 8 },
	unkeyed => { service => 'unkeyed', mode => 'unkeyed', do => [ @answers, @silences, @refusals ] },
	final => { service => 'keyed', mode => 'unkeyed', type => 'irreversible', do => [ @answers, @silences, @refusals ] },
	idempotent => { service => 'unkeyed', mode => 'unkeyed', type => 'idempotent', do => [ @answers, @silences, @refusals ] },
	reading => { service => 'unkeyed', mode => 'read', type => 'read_only', do => [ qw(ok late:100 late:1500 close noexec_hang status:500 status:404) ] },
	looked_up => { service => 'seen', mode => 'unkeyed', do => [ @answers, @silences, @refusals ], lookup => 1 },
	looked_up_once => { service => 'seen', mode => 'unkeyed', type => 'irreversible', do => [ @answers, @silences, @refusals ], lookup => 0 },
	refused => { service => 'dead', mode => 'unkeyed', do => ['ok'], attempts => 2 });
for my $name (sort keys %tools)
{
	my %t = %{ $tools{$name} };
	my $do = join ',', any_of(@{ $t{do} }), any_of(@{ $t{do} }), 'ok';
	refund_tool($node, attempts => 5, %t, name => $name, timeout => '800ms', base => '30ms', do => "$do&seed=$seed",
		options => join(', ', '"max_processing": "' . (defined $t{lookup} ? 4 : 2) . 's"',
		  defined $t{lookup} ? sprintf('"lookup": {"request": "GET /refunds?key={_key}&hide_ms=1000&seed=%d&do=%s", "match": "$.data[*] ? (@.key == $_key)", "more": "$.has_more",
		    "every": "100ms", "attempts": 12, "window": "8s", "absence": "authoritative"%s}', $seed, join(',', any_of(@looks), any_of(@looks), 'ok'), $t{lookup} ? ', "resend": true' : '') : ()),
		window => '10s');
}

# Perform some actions, each in a transaction of its own kind.  What is acknowledged must be there later.
my (%acknowledged, %abandoned);
my $performed = 0;
my @names = ((qw(keyed unkeyed looked_up)) x 3, 'looked_up_once', qw(final idempotent reading refused));

sub perform_some
{
	for my $transaction (1 .. 1 + int rand 3)
	{
		my @ids;
		my $calls = '';
		for (1 .. 1 + int rand 4)
		{
			my $tool = $names[ rand @names ];
			my $id = sprintf 'x%d-%s', ++$performed, $tool;
			$calls .= "SELECT actionledger.perform('$tool', '{\"refund_id\": \"$id\", \"amount\": $performed}');\n";
			push @ids, $id;
		}
		my $how = rand;
		my $end = $how < 0.1 ? 'ROLLBACK' : $how < 0.2 ? "PREPARE TRANSACTION 'p$performed'" : 'COMMIT';
		my $done = defined try_sql($node, "BEGIN; $calls $end;");
		$acknowledged{$_} = $end for $done && $end ne 'ROLLBACK' ? @ids : ();
		$abandoned{$_} = $end for $end eq 'ROLLBACK' ? @ids : ();
	}
	return;
}

# What may happen: name => [weight, code].  A fault is armed, actions are performed until it has fired.
my @points = qw(claim mark_written mark_committed gate_passed connected first_byte response_complete attempt_written
  outcome_before_commit lookup_sent lookup_answered);
my @errors = qw(claim mark_written connected response_complete attempt_written outcome_before_commit);
my (%planned, %fired);

sub fault
{
	my ($mode, @at) = @_;
	my $point = $at[ rand @at ];
	my $entry = entry($point, $mode, 1 + int rand 4);
	my $name = "$mode at $point";
	$planned{$name}++;
	arm($node, $entry);
	my $end = time + $FIRES_WITHIN;
	perform_some() while time < $end && !wait_fired($node, $entry, 0.3);
	my ($pid) = fired($node, $entry);
	$fired{$name}++ if defined $pid;
	return $pid;
}

my %events = (
	kill => [ 6, sub { my $pid = fault('kill', @points); wait_gone($pid, 10) if defined $pid; } ],
	abort => [ 2, sub { my $pid = fault('abort', @points); wait_gone($pid, 10) if defined $pid; } ],
	kill_postmaster => [
		4,
		sub {
			my $pid = fault('kill_postmaster', @points) or return;
			wait_gone($pid, 10);
			restart_after_kill($node);
		} ],
	immediate => [    # at a moment at which the dispatcher stands still
		3,
		sub {
			fault('hang', @points);
			$node->stop('immediate');
			$node->start;
		} ],
	error => [ 4, sub { fault('error', @errors) } ],
	immediate_at_any_time => [ 1, sub { perform_some(); $node->stop('immediate'); $node->start; } ],
	fast => [ 1, sub { perform_some(); $node->stop('fast'); $node->start; } ],
	terminate => [ 1, sub { perform_some(); signal_dispatcher('pg_terminate_backend') } ],
	cancel => [ 1, sub { perform_some(), signal_dispatcher('pg_cancel_backend') for 1 .. 5 } ]);

sub signal_dispatcher
{
	my ($function) = @_;
	$node->safe_psql('postgres', "SELECT $function(pid) FROM actionledger.workers WHERE worker LIKE 'dispatcher%' AND pid IS NOT NULL");
	return;
}

my @hat = map { ($_) x $events{$_}[0] } sort keys %events;
my %happened;
my $start = time;
while (time - $start < $seconds - $TO_SETTLE || $performed < 50)
{
	perform_some() while $performed < (time - $start) * $PER_SECOND && time - $start < $seconds - $TO_SETTLE;
	my $event = $hat[ rand @hat ];
	$events{$event}[1]->();
	$happened{$event}++;
	poll_sql($node, 'SELECT true', "the server answers after $event", 60);
}

# The end: what is prepared is decided, what is under way is waited for.
my @prepared = split /\n/, $node->safe_psql('postgres', 'SELECT gid FROM pg_prepared_xacts ORDER BY 1');
$node->safe_psql('postgres', join ' ', map { (rand() < 0.7 ? 'COMMIT' : 'ROLLBACK') . " PREPARED '$_';" } @prepared) if @prepared;
ok(eval { poll_sql($node, 'SELECT bool_and(' . Audit::settled_sql() . ') FROM actionledger.action', 'everything is settled', 90) },
	"seed $seed: everything ends in a status that stays")
  or diag($@, unsettled());
$audit->truth;
poll(sub { $audit->truth; time > $audit->last_received + $LATEST }, 'the provider has executed what it executes late', 60);

my ($wrong, $ledger) = $audit->check;
is_deeply($wrong, [], "seed $seed: what the ledger says is what the provider did");
is_deeply([ grep { ($fired{$_} // 0) != $planned{$_} } sort keys %planned ], [], "seed $seed: every planned fault fired");

my %there = map { $_ => 1 } split /\n/, $node->safe_psql('postgres', q{SELECT args ->> 'refund_id' FROM actionledger.action});
is_deeply([ grep { $acknowledged{$_} eq 'COMMIT' && !$there{$_} } sort keys %acknowledged ],
	[], "seed $seed: what was committed is there");
is_deeply([ grep { $there{$_} } sort keys %abandoned ], [], "seed $seed: what was rolled back is not");

note sprintf '%d actions asked for, %d recorded, in %.0f s', $performed, scalar keys %$ledger, time - $start;
note join "\n", 'what happened:', map { sprintf '%-22s %4d', $_, $happened{$_} } sort keys %happened;
note join "\n", 'faults (planned, fired):', map { sprintf '%-40s %4d %4d', $_, $planned{$_}, $fired{$_} // 0 } sort keys %planned;
note join "\n", 'status x truth:', $audit->table($ledger);
$node->stop;
done_testing();

# What is not settled, for a person who reads why.
sub unsettled
{
	return $node->safe_psql('postgres',
		'SELECT action_id, tool_id, status, next_step, known, attempts, claimed_by, error_message FROM actionledger.action WHERE NOT '
		  . Audit::settled_sql());
}
