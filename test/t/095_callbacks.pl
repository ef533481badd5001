# Evidence from outside meets what the dispatcher is doing: a callback before the
# answer, an answer after a decision.  What the ledger says is what the provider did.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;
use IPC::Run ();
use JSON::PP;

my $node = start_server();
my $p = start_provider();
refund_service($node, $p);
refund_service($node, $p, name => 'plain', honoured => 0);
refund_tool($node, name => "held_$_", do => "held:$_", timeout => '60s') for 1 .. 3;
refund_tool($node, name => 'silent', service => 'plain', mode => 'unkeyed', do => 'noexec_hang', timeout => '5s');
refund_tool($node, name => 'dropped', service => 'plain', mode => 'unkeyed', do => 'close');
refund_tool($node, name => 'later402', do => 'hang,status:402', timeout => '5s', attempts => 3);

# A report; returns "status/next_step".
sub report
{
	my ($id, $verdict, $evidence) = @_;
	return $node->safe_psql('postgres', "SELECT status || '/' || next_step FROM actionledger.report_outcome($id, '$verdict', '$evidence')");
}

# Perform a tool, and wait until its request has reached the provider.
sub under_way
{
	my ($tool, $name) = @_;
	my $id = perform($node, $tool, $name);
	poll(sub { scalar received($p, $id) }, "$name has been received");
	return $id;
}

# Wait until an action's attempts are all closed.
sub closed
{
	my ($id) = @_;
	poll_sql($node, "SELECT bool_and(finished_at IS NOT NULL) FROM actionledger.attempt WHERE action_id = $id", "the attempts of $id are closed");
	return attempts_of($node, $id);
}

# The events that hold evidence about an action, and its lines in the view of conflicts.
sub evidence_of
{
	my ($id) = @_;
	return $node->safe_psql('postgres', "SELECT string_agg(what || ' ' || verdict || ' by ' || source, ', ' ORDER BY event_id) FROM actionledger.event WHERE action_id = $id AND verdict IS NOT NULL");
}

sub conflicts_of
{
	my ($id) = @_;
	return $node->safe_psql('postgres', "SELECT string_agg(status || ' but ' || says || ' says ' || source, ', ' ORDER BY at) FROM actionledger.conflicts WHERE action_id = $id");
}

subtest 'a callback comes before the answer' => sub {
	my $id = under_way('held_1', 'before');
	is(report($id, 'confirmed', '{"external_ref": "cb_1", "event": "evt_1"}'), 'confirmed/none', 'it is confirmed at once');
	release($p, 1);
	my ($attempt) = closed($id);
	is($attempt->{http_status}, 200, 'the answer is recorded too');
	my $row = action_row($node, $id);
	is("$row->{status} $row->{external_ref} $row->{confirmed_by}", 'confirmed cb_1 callback', 'and changes nothing');
	is(evidence_of($id), 'reported confirmed by callback, late_evidence confirmed by answer', 'it is kept as late evidence');
	is(conflicts_of($id), '', 'which is no conflict');
	is(effects($p, $id), 1, 'one effect');
};

subtest 'a refusal is reported, and then the answer says that it happened' => sub {
	my $id = under_way('held_2', 'contrary');
	is(report($id, 'rejected', '{"event": "evt_2"}'), 'submitted/wait', 'it waits for the answer');
	release($p, 2);
	settle($node, $id, 'confirmed');
	is(conflicts_of($id), 'confirmed but confirmed says answer', 'what was said before is shown to contradict it');
	is(effects($p, $id), 1, 'one effect, as the ledger says');
};

subtest 'a refusal is reported, and no answer comes' => sub {
	my $id = under_way('silent', 'refused');
	report($id, 'rejected', '{"event": "evt_3"}');
	my $row = settle($node, $id, 'failed');
	is("$row->{error_code}: $row->{error_message}", 'rejected: reported as refused while it was being sent', 'it failed by what was reported');
	is(effects($p, $id), 0, 'and did not happen');
};

subtest 'a person decides, and then the answer comes' => sub {
	my $failed = under_way('held_3', 'resolved');
	$node->safe_psql('postgres', "SELECT actionledger.resolve($failed, 'failed', '{}', 'they say no', 'submitted', true)");
	release($p, 3);
	closed($failed);
	is(action_row($node, $failed)->{status}, 'failed', 'what was decided stands');
	is(conflicts_of($failed), 'failed but confirmed says answer', 'and the contrary answer is shown');

	my $confirmed = under_way('later402', 'resolved2');
	$node->safe_psql('postgres', "SELECT actionledger.resolve($confirmed, 'confirmed', '{}', 'seen', 'submitted')");
	closed($confirmed);
	is(conflicts_of($confirmed), '', 'an answer that proves nothing contradicts nothing');
	is(evidence_of($confirmed), 'late_evidence unknown by answer', 'and is kept');
};

subtest 'an unknown outcome is settled by a callback' => sub {
	my $id = perform($node, 'dropped', 'lost');
	settle($node, $id, 'needs_reconciliation', 'review');
	is($node->safe_psql('postgres', "SELECT status FROM actionledger.report_outcome_by_identity('plain', 'refund:lost', 'confirmed', '{\"external_ref\": \"re_9\"}')"),
		'confirmed', 'by the name that the provider has for it');
	my $envelope = decode_json($node->safe_psql('postgres', "SELECT actionledger.result($id)"));
	is_deeply([ @{$envelope}{qw(ok error)}, $envelope->{meta}{confirmed_by}, $envelope->{data}{external_ref} ],
		[ JSON::PP::true, undef, 'callback', 're_9' ], 'the caller reads it');
	is(effects($p, $id), 1, 'one effect');
};

subtest 'the same callback many times at once' => sub {
	my $id = perform($node, 'dropped', 'many');
	settle($node, $id, 'needs_reconciliation', 'review');
	my @sessions = map {
		IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c',
			qq{SELECT status FROM actionledger.report_outcome($id, 'confirmed', '{"external_ref": "re_m", "event": "evt_m"}')} ], '>', \my $out)
	} 1 .. 10;
	ok($_->finish, 'one of them is taken') for @sessions;
	is(evidence_of($id), 'reported confirmed by callback', 'it is kept once');
};

subtest 'what was reported survives a crash' => sub {
	my $id = perform($node, 'dropped', 'crash');
	settle($node, $id, 'needs_reconciliation', 'review');
	$node->safe_psql('postgres', "SET synchronous_commit = off; SELECT actionledger.report_outcome($id, 'confirmed', '{\"event\": \"evt_c\"}')");
	$node->stop('immediate');
	$node->start;
	is(action_row($node, $id)->{status}, 'confirmed', 'although the session had synchronous_commit off');
};

$node->stop('fast');
done_testing();
