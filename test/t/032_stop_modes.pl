# Stops, cancellations and errors with calls under way: what is known is recorded,
# what is not known is said to be unknown, and nothing is sent twice.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Audit;
use Fault;
use Ledger;
use Rounds;
use Time::HiRes qw(sleep time);

my $DRAIN = 1;     # seconds
my $SLACK = 3;

my $p = start_provider();
my $node = start_server(conf => "actionledger.drain_timeout = '${DRAIN}s'");
my $audit = Audit->new($node, $p);

# Accepts connections, and never shakes hands: a request to it over TLS is never sent.
my $mute = start_raw_server(sub { my ($socket) = @_; 1 while sysread $socket, my $bytes, 4096; });
$mute->{url} =~ s/^http:/https:/;

refund_service($node, $p, name => 'keyed');
refund_service($node, $p, name => 'unkeyed', honoured => 0);
refund_service($node, $mute, name => 'mute', honoured => 0);
my %long = (timeout => '60s', base => '20ms');
refund_tool($node, %long, name => 'keyed', service => 'keyed', do => 'hang,ok');
refund_tool($node, %long, name => 'unkeyed', service => 'unkeyed', mode => 'unkeyed', do => 'hang');
refund_tool($node, %long, name => 'slow', service => 'unkeyed', mode => 'unkeyed', do => 'late:500');
refund_tool($node, name => 'mute', service => 'mute', mode => 'unkeyed', timeout => '4s', attempts => 2, base => '20ms');

# Put one action of each tool under way; returns { tool => action }.
my $series = 0;

sub put_under_way
{
	my $before = () = grep { $_->{ev} eq 'received' } truth($p);
	my $name = 's' . ++$series;
	my %id = map { $_ => perform($node, $_, "$name-$_") } qw(keyed unkeyed mute slow);
	poll(sub { $before + 3 == grep { $_->{ev} eq 'received' } truth($p) }, 'three requests have arrived');
	poll_sql($node, "SELECT status = 'submitted' AND claimed_by IS NOT NULL FROM actionledger.action WHERE action_id = $id{mute}",
		'the fourth is under way');
	return \%id;
}

# Assert how the first attempt of an action ended.
sub first_attempt_is
{
	my ($id, $verdict, $category, $name) = @_;
	my ($first) = attempts_of($node, $id);
	is_deeply([ @$first{qw(verdict category)} ], [ $verdict, $category ], $name);
	return;
}

# Wait until everything is settled, and audit all of it.
sub all_is_true
{
	my ($name) = @_;
	poll_sql($node, 'SELECT bool_and(' . Audit::settled_sql() . ') FROM actionledger.action', "all is settled: $name", 60);
	my ($wrong) = $audit->check;
	is_deeply($wrong, [], "$name: every status is true");
	return;
}

# Fast stop.
my $id = put_under_way();
my $start = time;
$node->stop('fast');
my $took = time - $start;
cmp_ok($took, '<', $DRAIN + $SLACK, 'fast stop: is not held up by an endpoint that hangs');
cmp_ok($took, '>=', $DRAIN - 0.1, 'fast stop: waits for answers as long as it may');
$node->start;
first_attempt_is($id->{slow}, 'confirmed', 'confirmed', 'fast stop: an answer within the limit is recorded');
first_attempt_is($id->{keyed}, 'unknown', 'aborted_after_send', 'fast stop: what was sent and not answered is unknown');
first_attempt_is($id->{unkeyed}, 'unknown', 'aborted_after_send', 'fast stop: the same without a key');
first_attempt_is($id->{mute}, 'not_sent', 'aborted_before_send', 'fast stop: what had no connection yet is not_sent');
settle($node, $id->{keyed}, 'confirmed');
settle($node, $id->{unkeyed}, 'needs_reconciliation', 'review');
settle($node, $id->{mute}, 'failed');
is(action_row($node, $id->{mute})->{error_code}, 'retries_exhausted', 'fast stop: what was not_sent is tried again');
all_is_true('fast stop');

# Immediate stop.
$id = put_under_way();
$start = time;
$node->stop('immediate');
cmp_ok(time - $start, '<', $SLACK, 'immediate stop: is immediate');
$node->start;
settle($node, $id->{keyed}, 'confirmed');
settle($node, $id->{$_}, 'needs_reconciliation', 'review') for qw(unkeyed slow mute);
first_attempt_is($id->{$_}, 'unknown', 'worker_lost', "immediate stop: the attempt of $_ is lost") for sort keys %$id;
is(effects($p, $id->{unkeyed}), 1, 'immediate stop: nothing is sent again without a key');
all_is_true('immediate stop');

# SIGTERM to the dispatcher alone.
my $pid = pid_of_dispatcher($node);
my $incarnation = $node->safe_psql('postgres', 'SELECT max(incarnation) FROM actionledger.incarnation');
$id = put_under_way();
$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
my $waited = wait_gone($pid, 30);
cmp_ok($waited, '<', $DRAIN + $SLACK, 'pg_terminate_backend: the dispatcher leaves after its drain');
my $successor = pid_of_dispatcher($node, $pid);
isnt($successor, $pid, 'pg_terminate_backend: another one is started');
is($node->safe_psql('postgres', "SELECT ended_at IS NOT NULL FROM actionledger.incarnation WHERE incarnation = $incarnation"),
	't', 'pg_terminate_backend: the end was orderly');
first_attempt_is($id->{slow}, 'confirmed', 'confirmed', 'pg_terminate_backend: an answer within the limit is recorded');
first_attempt_is($id->{keyed}, 'unknown', 'aborted_after_send', 'pg_terminate_backend: what was sent and not answered is unknown');
first_attempt_is($id->{unkeyed}, 'unknown', 'aborted_after_send', 'pg_terminate_backend: the same without a key');
first_attempt_is($id->{mute}, 'not_sent', 'aborted_before_send', 'pg_terminate_backend: what had no connection yet is not_sent');
settle($node, $id->{keyed}, 'confirmed');
settle($node, $id->{mute}, 'failed');
all_is_true('pg_terminate_backend');
$node->stop;

# pg_cancel_backend under load.
my $rounds = Rounds->new;
$node = $rounds->{node};
$pid = pid_of_dispatcher($node);
$rounds->perform, $node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)") for 1 .. 20;
poll_sql($node, 'SELECT count(*) = 20 * 14 AND bool_and(' . Audit::settled_sql() . ') FROM actionledger.action', 'all is settled', 60);
my ($wrong, $ledger) = $rounds->{audit}->check;
is_deeply($wrong, [], 'pg_cancel_backend: every status is true');
is_deeply([ map { Rounds::outcome($rounds->{audit}{truth}, $_) } values %$ledger ], [], 'pg_cancel_backend: each is confirmed with one send');
is(Audit::lost($ledger), 0, 'pg_cancel_backend: no attempt is lost');
is(pid_of_dispatcher($node), $pid, 'pg_cancel_backend: the dispatcher goes on');

# One that surely hits a transaction: it waits for a lock.
my $log = -s $node->logfile;
my $holder = $node->background_psql('postgres');
$holder->query_safe('BEGIN; LOCK TABLE actionledger.attempt IN ACCESS EXCLUSIVE MODE;');
my $run = $rounds->perform;
poll_sql($node, "SELECT count(*) > 0 FROM pg_locks WHERE pid = $pid AND NOT granted", 'the dispatcher waits for the lock');
$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
poll(sub { slurp_log($log) =~ /canceling statement due to user request/ }, 'the turn is cancelled');
$holder->query_safe('COMMIT;');
$holder->quit;
poll_sql($node, 'SELECT count(*) = 14 AND bool_and(' . Audit::settled_sql() . ") FROM actionledger.action WHERE run_id = '$run'",
	'all is settled', 60);
($wrong, $ledger) = $rounds->{audit}->check(where => "a.run_id = '$run'");
is_deeply([ @$wrong, map { Rounds::outcome($rounds->{audit}{truth}, $_) } values %$ledger ],
	[], 'pg_cancel_backend in a turn: each is confirmed with one send');
is(pid_of_dispatcher($node), $pid, 'pg_cancel_backend in a turn: the dispatcher goes on');

# Errors in the transaction of a turn.
$rounds->rounds_of($_, 'error', 4, sub { return () }) for qw(claim mark_written attempt_written outcome_before_commit);
is(pid_of_dispatcher($node), $pid, 'after all errors it is the same dispatcher');
$rounds->finish;
done_testing();

# What the server has written to its log since it had that size.
sub slurp_log
{
	my ($from) = @_;
	return PostgreSQL::Test::Utils::slurp_file($node->logfile, $from);
}
