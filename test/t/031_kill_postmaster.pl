# SIGKILL of the postmaster at five moments, 20 times each: the orphaned
# dispatcher leaves, nothing more is sent until a new server runs, and then as
# after any crash.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Fault;
use Ledger;
use Rounds;

my $ORPHAN_LIMIT = 2;    # seconds; about one is promised

my $rounds = Rounds->new;
my $node = $rounds->{node};
my ($longest, @late) = (0);

# The orphan leaves before anything is started, and takes nothing up again.
sub died
{
	my ($self, $pid) = @_;
	my $took = wait_gone($pid, 30);
	$longest = $took if $took > $longest;
	restart_after_kill($node);
	my @wrong;
	push @wrong, sprintf 'the orphan took %.1f s to leave', $took if $took > $ORPHAN_LIMIT;
	return @wrong;
}

$rounds->rounds_of($_, 'kill_postmaster', 20, \&died) for @Rounds::moments;
note sprintf 'an orphan left after %.2f s at most', $longest;
$rounds->finish;
done_testing();
