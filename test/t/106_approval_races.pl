# Two who approve, one who rejects, one who cancels and the dispatcher, all at
# the same actions at the same time: at most one effect each, and none after a
# cancel or a reject that was told "failed".
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use IPC::Run ();
use Ledger;

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

# One who decides about some of the actions in an order of their own, in a session of their own.
sub decider
{
	my ($call, $role, @mine) = @_;
	my $script = "SET ROLE $role;\n" . join '', map { sprintf "SELECT '$_', status FROM actionledger.$call;\n", $_ } @mine;
	my $d = { out => '', err => '' };
	$d->{run} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') ], '<', \$script, '>', \$d->{out}, '2>', \$d->{err});
	return $d;
}

# The last fifth is left to the end of its time.
my @decided = @ids[ 0 .. $N * 4 / 5 - 1 ];
my %d = (
	first => decider('approve(%d)', 'approver', @decided),
	second => decider('approve(%d)', 'other', reverse @decided),
	cancel => decider('cancel(%d)', 'app', grep { $_ % 2 } @decided),
	reject => decider("reject(%d, 'no')", 'approver', reverse grep { $_ % 3 == 0 } @decided));
$_->{run}->finish for values %d;
my (%told, %approvals);
for my $who (sort keys %d)
{
	like($d{$who}{err}, qr/\A(ERROR: .* does not wait for approval\n(DETAIL|HINT|LINE): .*\n(HINT: .*\n)?|\n)*\z/, "$who was told nothing but the truth");
	for my $line (split /\n/, $d{$who}{out})
	{
		my ($id, $status) = split /\|/, $line;
		$told{$id} = $who if $status eq 'failed' && $who =~ /cancel|reject/ && !($told{$id});
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
