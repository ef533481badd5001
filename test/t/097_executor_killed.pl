# The executor of the documents (doc/executor.py) works for a real provider, and is
# killed after the effect and before its report.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;
use IPC::Run ();
use PostgreSQL::Test::Utils;

my $node = start_server();
my $p = start_provider();
refund_service($node, $p);
refund_service($node, $p, name => 'plain', honoured => 0);
$node->safe_psql('postgres', 'CREATE ROLE worker LOGIN; GRANT EXECUTE ON FUNCTION actionledger.claim, actionledger.heartbeat, actionledger.report_outcome TO worker');
for my $tool (map { [ "keyed_$_", 'pay' ], [ "plain_$_", 'plain' ] } qw(good slow bad gone))
{
	$node->safe_psql('postgres', qq{SELECT actionledger.create_tool('$tool->[0]', '$tool->[1]', 'refund at the provider',
	  identity => '$tool->[0]:{refund_id}',
	  input => '{"required": ["refund_id", "amount"], "properties": {"refund_id": {"type": "string"}, "amount": {"type": "integer"}}}',
	  options => '{"transport": "external", "owner": "worker", "timeout": "2s", "max_processing": "1s", "retry": {"attempts": 4, "base": "100ms", "cap": "200ms"}}')});
}

my @workers;

sub start_worker
{
	my ($tool, $url) = @_;
	my $worker = IPC::Run::start([ '/usr/bin/python3', 'doc/executor.py', $node->connstr('postgres') . ' user=worker', $tool, $url ], '<', \undef, '>', \my $out, '2>&1');
	push @workers, $worker;
	return { handle => $worker, out => \$out };
}
END { $_->kill_kill for grep { eval { $_->pumpable } } @workers; }

sub url { my ($mode, $do) = @_; return "$p->{url}/$mode/refunds?do=$do" }

subtest 'it works' => sub {
	my $worker = start_worker('keyed_good', url('keyed', 'ok'));
	my $id = perform($node, 'keyed_good', 'a');
	my $row = settle($node, $id, 'confirmed');
	like($row->{external_ref}, qr/^re_/, 'confirmed, with the reference that the provider gave');
	is(effects($p, $id), 1, 'one effect');
	$worker->{handle}->kill_kill;

	$worker = start_worker('plain_bad', url('unkeyed', 'status:402'));
	$id = perform($node, 'plain_bad', 'a');
	settle($node, $id, 'failed');
	is(effects($p, $id), 0, 'refused, no effect');
	$worker->{handle}->kill_kill;

	$worker = start_worker('plain_gone', 'http://127.0.0.1:1/');
	$id = perform($node, 'plain_gone', 'a');
	poll_sql($node, "SELECT sends >= 2 AND known = 'not_sent' FROM actionledger.action WHERE action_id = $id", 'it is tried again when nothing was sent');
	$worker->{handle}->kill_kill;
};

# Starts a worker on a provider that answers late, and kills it once there is an effect.
sub kill_after_effect
{
	my ($tool, $mode) = @_;
	my $worker = start_worker($tool, url($mode, 'late:30000,ok'));
	my $id = perform($node, $tool, 'killed');
	poll(sub { effects($p, $id) > 0 }, 'the provider has done it');
	$worker->{handle}->kill_kill;
	is(action_row($node, $id)->{status}, 'submitted', 'the ledger does not know');
	return $id;
}

subtest 'killed after the effect, without a key' => sub {
	my $id = kill_after_effect('plain_slow', 'unkeyed');
	my $worker = start_worker('plain_slow', url('unkeyed', 'ok'));
	settle($node, $id, 'needs_reconciliation', 'review');
	turns_pass($node, 3);
	is(scalar received($p, $id), 1, 'nobody does it again');
	is(effects($p, $id), 1, 'one effect');
	$worker->{handle}->kill_kill;
};

subtest 'killed after the effect, with a key' => sub {
	my $id = kill_after_effect('keyed_slow', 'keyed');
	my $worker = start_worker('keyed_slow', url('keyed', 'late:30000,ok'));
	settle($node, $id, 'confirmed');
	my @received = received($p, $id);
	is(scalar @received, 2, 'another one does it again');
	is($received[1]{key}, $received[0]{key}, 'with the same key');
	is(effects($p, $id), 1, 'one effect');
	$worker->{handle}->kill_kill;
};

subtest 'what the document shows of it' => sub {
	my $text = slurp_file('doc/executors.md');
	my $shown = 'nothing';
	while ($text =~ /^```(\w*)\n(.*?)^```$/gms) { $shown = $2 if $1 eq '' }
	ok(index(slurp_file('doc/executor.py'), $shown) >= 0, 'is in the program');
};

$node->stop('fast');
done_testing();
