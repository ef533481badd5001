# A session that holds an action's row and does not end delays that action's
# outcome, and nothing else.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Fault;
use Ledger;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(time);

my $p = start_provider();
my $node = start_server(conf => "actionledger.drain_timeout = '500ms'");
refund_service($node, $p);
refund_tool($node, name => 'slow', do => 'late:3000', timeout => '10s');
refund_tool($node, name => 'quick');

# Hold the row of an action that is under way; returns it and the session.
sub hold
{
	my ($refund_id) = @_;
	my $id = perform($node, 'slow', $refund_id);
	poll(sub { received($p, $id) }, 'the request has arrived');
	my $session = $node->background_psql('postgres');
	$session->query_safe("BEGIN; SELECT FROM actionledger.action WHERE action_id = $id FOR UPDATE;");
	poll(sub { grep { $_->{ev} eq 'answered' && $_->{action} =~ m{/$id$} } truth($p) }, 'the answer has left');
	return ($id, $session);
}

my ($held, $session) = hold('held');
my $pid = pid_of_dispatcher($node);
my $transactions = sub { $node->safe_psql('postgres', q{SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'}) };
my $before = $transactions->();
my $start = time;
for my $i (1 .. 20)
{
	my $id = perform($node, 'quick', "quick-$i");
	settle($node, $id, 'confirmed', undef, 10);
}
my $took = time - $start;
is(action_row($node, $held)->{status}, 'submitted', 'the held action is submitted still');
cmp_ok($took, '<', 60, 'others go on meanwhile');

# Without a pause between tries there would be thousands of transactions a second.
my $tries = $transactions->() - $before;
cmp_ok($tries, '<', 20 * 20 + 60 * $took, "tries are spaced ($tries transactions in $took s)");
$session->query_safe('COMMIT;');
settle($node, $held, 'confirmed', undef, 5);
is((attempts_of($node, $held))[0]{category}, 'confirmed', 'the answer was kept, and is recorded when the row is free');
is(effects($p, $held), 1, 'and nothing was sent again');
$session->quit;

# A stop waits for a moment, then leaves the outcome to the next incarnation.
($held, $session) = hold('stopped');
$start = time;
$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
wait_gone($pid, 30);
cmp_ok(time - $start, '<', 0.5 + 3, 'a dispatcher that is told to stop leaves');
$session->query_safe('COMMIT;');
$session->quit;
settle($node, $held, 'confirmed', undef, 20);
my @attempts = attempts_of($node, $held);
is_deeply([ map { $_->{category} } @attempts ], [ 'worker_lost', 'replayed' ], 'what it could not record is unknown, and sent again with its key');
is(effects($p, $held), 1, 'and executed once');
$node->stop;
done_testing();
