# An action that waits for approval is not sent, whatever happens; an approved
# one is sent once; one that nobody approves in time fails.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;
use PostgreSQL::Test::Utils;

my $p = start_provider();
my $node = start_server(fault => 1);
$node->safe_psql('postgres', 'CREATE ROLE app LOGIN; CREATE ROLE finance; CREATE ROLE bob LOGIN IN ROLE finance;');
refund_service($node, $p);
refund_tool($node, name => 'gated', options => '"approval": {"if": "$.amount > 1000", "by": "finance"}');
refund_tool($node, name => 'brief', options => '"approval": {"expires": "1s"}');
refund_tool($node, name => 'slow', do => 'late:1500', timeout => '10s', options => '"approval": "always"');
$node->safe_psql('postgres', "SELECT actionledger.grant_tool(t, 'app') FROM unnest('{gated,brief,slow}'::text[]) t");

# Perform as the application.
sub ask
{
	my ($tool, $id, $amount, $options) = @_;
	$amount //= 9000;
	$options //= '{}';
	return $node->safe_psql('postgres',
		qq{SET ROLE app; SELECT action_id FROM actionledger.perform('$tool', '{"refund_id": "$id", "amount": $amount}', options => '$options')});
}

# Approve as bob; returns status, next step and message.
sub approve
{
	my ($id) = @_;
	return $node->safe_psql('postgres', "SET ROLE bob; SELECT status, next_step FROM actionledger.approve($id, 'seen')");
}

# It waits through turns, a restart of the dispatcher, a crash of the server, a look at all that is due.
my $small = ask('gated', 'small', 1000);
my $large = ask('gated', 'large', 1001);
settle($node, $small, 'confirmed');
turns_pass($node, 2);
my $pid = pid_of_dispatcher($node);
kill 'KILL', $pid;
$pid = pid_of_dispatcher($node, $pid);
poll_sql($node, "SELECT count(*) = 1 FROM actionledger.approvals", 'the server is back');
$node->stop('immediate');
$node->start;
turns_pass($node, 2);
my $row = action_row($node, $large);
is("$row->{status} $row->{next_step} $row->{sends}", 'prepared approve 0', 'it waits still');
is(scalar(received($p, $large)), 0, 'nothing of it has left');

# A due row that says "now" is not enough, nor one that claims it is to be sent.
$node->safe_psql('postgres', "UPDATE actionledger.due SET next_at = now() - interval '1 h' WHERE action_id = $large");
turns_pass($node, 2);
$node->safe_psql('postgres', "UPDATE actionledger.action SET next_step = 'send' WHERE action_id = $large; UPDATE actionledger.due SET next_at = now() - interval '1 h' WHERE action_id = $large");
settle($node, $large, 'prepared', 'approve');
is(scalar(received($p, $large)), 0, 'the dispatcher puts it back to wait, and sends nothing');
is(approve($large), 'prepared|send', 'it is approved');
settle($node, $large, 'confirmed');
is(effects($p, $large), 1, 'and executed once');
is(action_row($node, $large)->{approved_by}, 'bob', 'and says by whom');

# An approval is as durable as a mark, whatever the session says; one that was rolled back is none.
my $kept = ask('gated', 'kept', 2000, '{"not_before": "2099-01-01 00:00Z"}');
my $undone = ask('gated', 'undone', 2000);
$node->safe_psql('postgres', "SET ROLE bob; BEGIN; SELECT actionledger.approve($undone); ROLLBACK; SET synchronous_commit = off; SELECT actionledger.approve($kept)");
$node->stop('immediate');
$node->start;
$row = action_row($node, $kept);
is("$row->{next_step} $row->{approved_by}", 'send bob', 'an approval outlives a crash at once');
is(action_row($node, $undone)->{next_step}, 'approve', 'one that was rolled back does not');
turns_pass($node, 2);
is(scalar(received($p, $undone)), 0, 'and sends nothing');

# Not sent before the time that was asked for, approved or not.
my $later = ask('gated', 'later', 2000, '{"not_before": "2099-01-01 00:00Z"}');
is(approve($later), 'prepared|send', 'one for later is approved');
turns_pass($node, 2);
is(scalar(received($p, $later)), 0, 'and stays until its time');

# Nobody approves in time.
my $late = ask('brief', 'late');
$row = settle($node, $late, 'failed');
is($row->{error_code}, 'approval_expired', 'what nobody approves in time fails');
is(scalar(received($p, $late)), 0, 'and is never sent');
my ($code, $out, $err) = $node->psql('postgres', "SET ROLE bob; SELECT actionledger.approve($late)", extra_params => [ '-v', 'VERBOSITY=verbose' ]);
like($err, qr/LG014|LG013/, 'and cannot be approved any more');
like($node->safe_psql('postgres', "SELECT actionledger.result($late) ->> 'error'"), qr/approval_expired/, 'the envelope says so');
is($node->safe_psql('postgres', "SELECT what, status, by_whom LIKE 'dispatcher %' FROM actionledger.timeline WHERE action_id = $late AND what <> 'prepared'"),
	'approval_expired|failed|t', 'and the timeline');
my $sooner = ask('gated', 'sooner', 2000, $node->safe_psql('postgres', "SELECT jsonb_build_object('expires_at', clock_timestamp() + interval '1 s')"));
is(settle($node, $sooner, 'failed')->{error_code}, 'expired', 'expires_at comes before the end of the approval');

# A permission that is taken back after the approval blocks it, visibly.
my $revoked = ask('gated', 'revoked', 2000, '{"not_before": "2099-01-01 00:00Z"}');
approve($revoked);
$node->safe_psql('postgres', "SELECT actionledger.revoke_tool('gated', 'app'); UPDATE actionledger.due SET next_at = now() WHERE action_id = $revoked");
$row = settle($node, $revoked, 'prepared', 'blocked');
is($row->{error_code}, 'permission_revoked', 'a permission is checked again at the send');
like($node->safe_psql('postgres', "SELECT waiting_for FROM actionledger.pending WHERE action_id = $revoked"), qr/role app may no longer perform gated/, 'and pending says why it waits');
is(scalar(received($p, $revoked)), 0, 'nothing of it has left');

$node->stop;
done_testing();
