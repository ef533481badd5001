# Rounds.pm: rounds of "perform a handful of actions of every kind, have
# something die at a named moment, see everything settled", for the tests of kills.
package Rounds;

use strict;
use warnings;
use Audit;
use Fault;
use Ledger qw(start_server start_provider refund_service refund_tool pid_of_dispatcher try_sql poll_sql);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

# What a round performs: kind => how many.  The limits in flight make several
# turns of each round, so that every moment comes more than once.
my %batch = (keyed => 6, unkeyed => 4, final => 1, idempotent => 2, reading => 1);

# A moment comes at least so many times in a round: per request, or per turn
# (six keyed actions, two at a time).
our %at_least = (
	claim => 3, mark_written => 3, mark_committed => 3, connected => 14, first_byte => 14, response_complete => 14,
	attempt_written => 3, outcome_before_commit => 3);
our @moments = qw(mark_committed connected first_byte response_complete outcome_before_commit);

sub new
{
	my ($class, %o) = @_;
	my $provider = start_provider();
	my $node = start_server(fault => 1, name => 'fault', conf => "recovery_init_sync_method = syncfs\n" . ($o{conf} // ''));
	refund_service($node, $provider, name => 'keyed', options => '"limits": {"in_flight": 2}');
	refund_service($node, $provider, name => 'unkeyed', honoured => 0, options => '"limits": {"in_flight": 3}');
	my %common = (timeout => '5s', attempts => 6, base => '20ms');
	refund_tool($node, %common, name => 'keyed', service => 'keyed', do => 'p:70:ok/late:20');
	refund_tool($node, %common, name => 'final', service => 'keyed', type => 'irreversible', mode => 'unkeyed');
	refund_tool($node, %common, name => 'unkeyed', service => 'unkeyed', mode => 'unkeyed', do => 'p:70:ok/late:20');
	refund_tool($node, %common, name => 'idempotent', service => 'unkeyed', type => 'idempotent', mode => 'unkeyed');
	refund_tool($node, %common, name => 'reading', service => 'unkeyed', type => 'read_only', mode => 'read');
	pid_of_dispatcher($node);
	return bless {
		node => $node, provider => $provider, audit => Audit->new($node, $provider), n => 0,
		rounds => {}, lost => {}, slowest => 0
	}, $class;
}

# Perform the actions of a round in one transaction.  The server may die before
# psql hears of its commit.
sub perform
{
	my ($self) = @_;
	my $run = 'r' . ++$self->{n};
	my $calls = join ' UNION ALL ', map {
		qq{SELECT i, actionledger.perform('$_', jsonb_build_object('refund_id', '$run-$_-' || i, 'amount', i), run_id => '$run')
		   FROM generate_series(1, $batch{$_}) i}
	} sort keys %batch;
	try_sql($self->{node}, "SELECT count(*) FROM ($calls) x");
	return $run;
}

# One round: arm, perform, let it die, call $died, wait until all is settled, and
# audit.  Returns what went wrong, as a list.  After an error the same dispatcher goes on.
sub round
{
	my ($self, $moment, $mode, $nth, $died) = @_;
	my $node = $self->{node};
	my $start = time;
	my $entry = entry($moment, $mode, $nth);
	my $log = -s $node->logfile;
	my $before = $node->safe_psql('postgres', 'SELECT max(incarnation) FROM actionledger.incarnation');
	arm($node, $entry);
	my $run = $self->perform;
	my $pid = wait_fired($node, $entry, 20) or return "$entry did not fire";
	$self->{rounds}{$moment}++;
	my @wrong = $died->($self, $pid);

	my $n = 0;
	$n += $_ for values %batch;
	poll_sql($node, "SELECT count(*) = $n AND bool_and(" . Audit::settled_sql() . ") FROM actionledger.action WHERE run_id = '$run'",
		"round $run ($entry) is settled", 60);
	my ($found, $ledger) = $self->{audit}->check(where => "a.run_id = '$run'");
	push @wrong, @$found;
	push @wrong, map { outcome($self->{audit}{truth}, $_) } values %$ledger;
	my $lost = Audit::lost($ledger);
	push @wrong, 'no attempt was lost: nothing was under way' if !$lost && $mode eq 'kill';
	push @wrong, "$lost attempts were lost" if $lost && $mode eq 'error';
	push @wrong, 'no error was raised'
	  if $mode eq 'error' && slurp_file($node->logfile, $log) !~ /ERROR:  fault at $moment/;
	$self->{lost}{$moment} += $lost;
	my $after = $node->safe_psql('postgres', 'SELECT max(incarnation) FROM actionledger.incarnation');
	push @wrong, "incarnation $after follows $before" unless $mode eq 'error' ? $after == $before : $after > $before;
	push @wrong, "fired in @{[ join ', ', fired($node, $entry) ]}" if fired($node, $entry) != 1;
	$self->{slowest} = time - $start if time - $start > $self->{slowest};
	return map { "$entry, $run: $_" } @wrong;
}

# How an action of a provider that answers must have ended.
sub outcome
{
	my ($truth, $a) = @_;
	my $executed = Audit::total($truth->{ $a->{action_id} }{executed});
	my $lost = grep { $_->{category} eq 'worker_lost' } @{ $a->{tries} };
	my $again = $a->{tool} =~ /^(keyed|idempotent|reading)$/;
	my $status = $again || !$lost ? 'confirmed' : 'needs_reconciliation';
	my $name = "action $a->{action_id} ($a->{tool}, " . @{ $a->{tries} } . " attempts, $lost lost)";

	return "$name is $a->{status}" if $a->{status} ne $status;
	return "$name has been executed $executed times" if $a->{tool} eq 'keyed' && $executed != 1;
	return "$name has been attempted again" if !$again && @{ $a->{tries} } != 1;
	return "$name has ended otherwise" if @{ $a->{tries} } != $lost + ($status eq 'confirmed' ? 1 : 0);
	return ();
}

# All rounds of a moment, as assertions.
sub rounds_of
{
	my ($self, $moment, $mode, $count, $died) = @_;
	my $start = time;
	my @wrong;
	for my $i (0 .. $count - 1)
	{
		push @wrong, $self->round($moment, $mode, 1 + $i % $at_least{$moment}, $died);
		last if @wrong > 20;
	}
	is($self->{rounds}{$moment} // 0, $count, "$moment: $mode fired in every round");
	is_deeply(\@wrong, [], "$moment: after each, the ledger tells the truth and sending goes on");
	cmp_ok($self->{lost}{$moment} // 0, '>', 0, "$moment: work was under way when it died") unless $mode eq 'error';
	note sprintf '%s: %d rounds in %.0f s, %d attempts lost, slowest round %.1f s', $moment, $count, time - $start,
	  $self->{lost}{$moment} // 0, $self->{slowest};
	return;
}

# What holds over all rounds in the end.
sub finish
{
	my ($self) = @_;
	my ($wrong, $ledger) = $self->{audit}->check;
	is_deeply($wrong, [], 'in the end every status of every round is still true');
	note join "\n", 'status x truth:', $self->{audit}->table($ledger);
	$self->{node}->stop;
	return;
}

1;
