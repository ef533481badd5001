# reconcile() does for a scheduler what a dispatcher does by itself: nothing beside one
# that lives, everything that needs no network where none runs.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;
use IPC::Run ();
use PostgreSQL::Test::Utils;
use Time::HiRes qw(time);

my $node = start_server();
my $p = start_provider();
refund_service($node, $p);
refund_service($node, $p, name => 'plain', honoured => 0);
refund_tool($node, name => 'slow', do => 'late:2500', timeout => '20s');
refund_tool($node, name => 'hanging', service => 'plain', mode => 'unkeyed', do => 'hang', timeout => '60s');
refund_tool($node, name => 'hanging_keyed', do => 'hang,ok', timeout => '60s');
refund_tool($node, name => 'asks', service => 'plain', mode => 'unkeyed', options => '"approval": "always"');
refund_tool($node, name => 'later', service => 'plain', mode => 'unkeyed');
$node->safe_psql('postgres', q{SELECT actionledger.create_tool('hand', 'plain', 'by hand', identity => 'hand:{refund_id}',
	input => '{"properties": {"refund_id": {"type": "string"}, "amount": {"type": "integer"}}}',
	options => '{"transport": "external", "timeout": "1s", "max_processing": "1s"}')});

# What reconcile() has done, without what it has not.
sub reconcile
{
	return $node->safe_psql('postgres', "SELECT string_agg(what || ' ' || n, ', ' ORDER BY what) FROM actionledger.reconcile() WHERE n > 0");
}

subtest 'beside a dispatcher that is waiting for an answer' => sub {
	my $id = perform($node, 'slow', 'live');
	poll(sub { received($p, $id) > 0 }, 'the request is under way');
	my @taken;
	do { push @taken, reconcile() } while action_row($node, $id)->{status} eq 'submitted';
	is(join('', @taken), '', 'nothing is taken from it');
	is(action_row($node, $id)->{status}, 'confirmed', 'the answer decides');
	is(join(' ', map { $_->{verdict} } attempts_of($node, $id)), 'confirmed', 'of the only attempt');
	is(effects($p, $id), 1, 'one effect');
};

subtest 'many sweeps beside one that finishes' => sub {
	my @ids = map { perform($node, 'slow', "beside-$_") } 1 .. 5;
	my @loops = map {
		IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'),
			map { ('-c', 'SELECT sum(n) FROM actionledger.reconcile()') } 1 .. 100 ], '>', \my $out, '2>', \my $err)
	} 1 .. 3;
	ok($_->finish, 'a loop of sweeps raises nothing') for @loops;
	settle($node, $_, 'confirmed') for @ids;
	is(scalar(grep { effects($p, $_) == 1 && attempts_of($node, $_) == 1 } @ids), 5, 'each was sent once');
};

subtest 'where no dispatcher runs' => sub {
	my $unkeyed = perform($node, 'hanging', 'orphan');
	my $keyed = perform($node, 'hanging_keyed', 'orphan');
	my $expiring = perform($node, 'later', 'expiring', options => '{"not_before": "2099-01-01T00:00:00Z", "expires_at": "2099-01-02T00:00:00Z"}');
	my $waiting = perform($node, 'later', 'waiting', options => '{"not_before": "2099-01-01T00:00:00Z"}');
	my $asking = perform($node, 'asks', 'asking');
	my $leased = perform($node, 'hand', 'leased');
	poll(sub { received($p, $unkeyed) > 0 && received($p, $keyed) > 0 }, 'the requests are under way');
	$node->safe_psql('postgres', "SELECT action_id FROM actionledger.claim('hand')");
	$node->stop('immediate');

	# Not even the library is loaded at the start.
	$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
	$node->start;
	is($node->safe_psql('postgres', 'SELECT state FROM actionledger.workers'), 'missing', 'nobody is there');
	is($node->safe_psql('postgres', "SELECT count(*) FROM actionledger.in_flight WHERE action_id IN ($unkeyed, $keyed, $leased)"), 3, 'three are under way, as far as anybody knows');
	$node->safe_psql('postgres', "UPDATE actionledger.due SET next_at = now() - interval '1 s' WHERE action_id IN ($expiring, $waiting, $asking)");
	$node->safe_psql('postgres', "UPDATE actionledger.action SET approve_by = now() - interval '1 s' WHERE action_id = $asking");
	$node->safe_psql('postgres', "UPDATE actionledger.action SET expires_at = now() - interval '1 s' WHERE action_id = $expiring");

	# A scheduler of any kind: here, psql in a loop.
	my $folder = PostgreSQL::Test::Utils::tempdir();
	append_to_file("$folder/schedule.sql", "SELECT what, n FROM actionledger.reconcile() WHERE n > 0 \\watch 0.2\n");
	my $scheduler = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-f', "$folder/schedule.sql", '-o', "$folder/settled" ], '<', \undef);
	settle($node, $leased, 'needs_reconciliation', 'review');
	my %settled;
	poll(sub {
		%settled = ();
		my $out = slurp_file("$folder/settled");
		$settled{$1} += $2 while $out =~ /^([a-z ]+)\|(\d+)$/gm;
		return scalar keys %settled == 4;
	}, 'the scheduler has told what it did');
	$scheduler->kill_kill;
	is_deeply(\%settled, { 'orphaned attempts' => 2, 'expired actions' => 1, 'expired approvals' => 1, 'expired leases' => 1 }, 'it settles each once');
	is(action_row($node, $unkeyed)->{next_step}, 'review', 'an orphan without a key is for a person');
	is(action_row($node, $keyed)->{next_step}, 'resend', 'one with a key is for the next dispatcher');
	is(action_row($node, $expiring)->{error_code}, 'expired', 'what has expired has failed');
	is(action_row($node, $asking)->{error_code}, 'approval_expired', 'so has what nobody approved in time');
	is(action_row($node, $waiting)->{status}, 'prepared', 'what has not waits');
	is($node->safe_psql('postgres', "SELECT bool_and(by_whom = current_user) FROM actionledger.event WHERE action_id = $expiring"), 't', 'the event says who swept');
	is(reconcile(), '', 'and there is nothing left');

	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'actionledger'");
	$node->restart;
	settle($node, $keyed, 'confirmed');
	is(effects($p, $keyed), 1, 'the next dispatcher settles it, with one effect');
	turns_pass($node, 2);
	is(scalar received($p, $unkeyed), 1, 'and sends nothing else again');
};

$node->stop('fast');
done_testing();
