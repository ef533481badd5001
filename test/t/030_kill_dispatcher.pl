# SIGKILL of the dispatcher at five moments, 20 times each: the cluster recovers,
# sending goes on by itself, nothing unrepeatable is sent twice, every status is true.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Fault;
use Ledger;
use Rounds;

my $rounds = Rounds->new;
my $node = $rounds->{node};
my $started = $node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()');

# The process is gone at once, and the postmaster restarts all others.
sub died
{
	my ($self, $pid) = @_;
	wait_gone($pid, 10);
	return;
}

$rounds->rounds_of($_, 'kill', 20, \&died) for @Rounds::moments;
$rounds->finish;
done_testing();
