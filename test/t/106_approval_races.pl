# Two who approve, one who rejects, one who cancels and the dispatcher, all at
# the same actions at the same time: at most one effect each, and none after a
# cancel or a reject that was told "failed".
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use IPC::Run ();
use Ledger;
use PostgreSQL::Test::Utils;

my $N = 80;
my $p = start_provider();
my $node = start_server();
$node->safe_psql('postgres', 'CREATE ROLE app; CREATE ROLE approver LOGIN; CREATE ROLE other LOGIN; GRANT approver TO other;');
refund_service($node, $p);
refund_tool($node, name => 'gated', do => 'late:30', timeout => '10s', options => '"approval": {"by": "approver"}');
refund_tool($node, name => 'brief', options => '"approval": {"by": "approver", "expires": "2s"}');
$node->safe_psql('postgres', "SELECT actionledger.grant_tool(t, 'app') FROM unnest('{gated,brief}'::text[]) t");
$node->safe_psql('postgres', "SET ROLE app; SELECT count(*) FROM generate_series(1, $N) i, LATERAL actionledger.perform(CASE WHEN i > $N * 0.8 THEN 'brief' ELSE 'gated' END, jsonb_build_object('refund_id', 'r' || i, 'amount', 9))");
my @ids = split /\n/, $node->safe_psql('postgres', 'SELECT action_id FROM actionledger.action ORDER BY 1');
is(scalar @ids, $N, 'all are recorded');

# One who decides about some of the actions in an order of their own, in a session
# of their own, as soon as the barrier is lifted.
my $barrier = $node->background_psql('postgres');
$barrier->query_safe('SELECT pg_advisory_lock(77)');
sub decider
{
	my ($call, $role, @mine) = @_;
	my $script = "SELECT pg_advisory_lock_shared(77);\nSET ROLE $role;\n" . join '', map { sprintf "SELECT '$_', status FROM actionledger.$call;\n", $_ } @mine;
	my $d = { out => '', err => '' };
	my $file = PostgreSQL::Test::Utils::tempdir() . '/script';
	append_to_file($file, $script);
	$d->{run} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-f', $file ], '<', \undef, '>', \$d->{out}, '2>', \$d->{err});
	return $d;
}

# A few are only refused; the last fifth is left to the end of its time.
my @decided = @ids[ 0 .. $N * 4 / 5 - 1 ];
my @fought = grep { $_ % 16 > 1 } @decided;
my %d = (
	first => decider('approve(%d)', 'approver', @fought),
	second => decider('approve(%d)', 'other', reverse @fought),
	cancel => decider('cancel(%d)', 'app', reverse grep { $_ % 2 } @decided),
	reject => decider("reject(%d, 'no')", 'approver', grep { $_ % 4 == 0 } @decided));
poll_sql($node, 'SELECT count(*) = 4 FROM pg_locks WHERE objid = 77 AND NOT granted', 'all stand at the barrier');
$barrier->query_safe('SELECT pg_advisory_unlock(77)');
$_->{run}->finish for values %d;
$barrier->quit;
my (%told, %approvals);
for my $who (sort keys %d)
{
	like($d{$who}{err}, qr/\A(?:.*ERROR: .* does not wait for approval\nDETAIL: .*\nHINT: .*\n)*\z/, "$who was told nothing but the truth");
	for my $line (split /\n/, $d{$who}{out})
	{
		my ($id, $status) = $line =~ /^(\d+)\|(\w+)$/ or next;
		$told{$id} = $who if $status eq 'failed';
		$approvals{$id}++ if $who =~ /first|second/;
	}
}
is(scalar(grep { $_ > 1 } values %approvals), 0, 'no approval was used twice');
poll_sql($node, 'SELECT count(*) = 0 FROM actionledger.due', 'all have come to an end', 60);

my (%count, @wrong);
for my $id (@ids)
{
	my $row = action_row($node, $id);
	my $effects = effects($p, $id);
	my $code = $row->{error_code} // '';
	$count{ $row->{status} . ($code ? " $code" : '') }++;
	push @wrong, "$id: $effects effects" if $effects > 1;
	push @wrong, "$id: confirmed with $effects effects" if $row->{status} eq 'confirmed' && $effects != 1;
	push @wrong, "$id: failed ($code), and received" if $row->{status} eq 'failed' && received($p, $id);
	push @wrong, "$id: confirmed without an approval" if $row->{status} eq 'confirmed' && !$approvals{$id};
	push @wrong, "$id: told failed by $told{$id}, and is $row->{status}" if $told{$id} && $row->{status} ne 'failed';
}
is_deeply(\@wrong, [], 'what people were told is what happened at the provider');
diag join ', ', map { "$count{$_} $_" } sort keys %count;
is($count{'failed approval_expired'}, $N / 5, 'what nobody decided ended in time');
cmp_ok($count{confirmed} // 0, '>', 0, 'some were sent');
cmp_ok(($count{'failed cancelled'} // 0) + ($count{'failed approval_rejected'} // 0), '>', 0, 'some were not');
$node->stop;
done_testing();
