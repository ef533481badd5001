# A key counts only where the frozen request carries it: what a service declares
# later does not make an earlier request safe to send again.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;

my $p = start_provider();
my $node = start_server();

# perform while the service declares %before, then let it declare %after, then send
my $n = 0;

sub change
{
	my ($before, $after, $mode) = @_;
	$n++;
	$node->safe_psql('postgres', qq{SELECT actionledger.create_service('s$n', '$p->{url}', '{"allow_private": true, "idempotency": $before}')});
	refund_tool($node, name => "t$n", service => "s$n", mode => $mode, do => 'close,ok');
	my $id = $node->safe_psql('postgres', qq{
		SELECT action_id FROM actionledger.perform('t$n', '{"refund_id": "R", "amount": 1}',
		  options => jsonb_build_object('not_before', clock_timestamp() + interval '700 ms'));
		SELECT actionledger.alter_service('s$n', '{"idempotency": null}');
		SELECT actionledger.alter_service('s$n', '{"idempotency": $after}');}) =~ s/\n.*//sr;
	poll_sql($node, "SELECT count(*) = 1 FROM actionledger.action WHERE action_id = $id AND sends > 0 AND claimed_by IS NULL
		AND next_step IN ('none', 'review')", "action $id settles");
	return action_row($node, $id);
}

my $row = change('"none"', '{"header": "Idempotency-Key"}', 'unkeyed');
is("$row->{status} $row->{next_step}", 'needs_reconciliation review', 'keys declared after the request was frozen: not sent again');
is($row->{sends}, 1, 'one send');
is(effects($p, $row->{action_id}), 1, 'one effect');

$row = change('{"header": "Idempotency-Key"}', '{"header": "X-Other-Key"}', 'unkeyed');
is("$row->{status} $row->{next_step}", 'needs_reconciliation review', 'key moved elsewhere since: not sent again');
is(effects($p, $row->{action_id}), 1, 'one effect');

$row = change('{"header": "Idempotency-Key"}', '"none"', 'unkeyed');
is("$row->{status} $row->{next_step}", 'needs_reconciliation review', 'keys no longer honoured: not sent again');
is(effects($p, $row->{action_id}), 1, 'one effect');

$row = change('{"header": "Idempotency-Key"}', '{"header": "idempotency-key", "window": "2h"}', 'keyed');
is($row->{status}, 'confirmed', 'the same place in other letters: sent again with the same key');
is(effects($p, $row->{action_id}), 1, 'one effect');

# The destination forgets keys earlier than was thought, which is noticed while an outcome is unknown.
$node->safe_psql('postgres', qq{SELECT actionledger.create_service('short', '$p->{url}', '{"allow_private": true, "idempotency": {"window": "24h"}}')});
refund_tool($node, name => 'short', service => 'short', mode => 'keyed', do => 'close,ok', base => '5s', cap => '5s');
my $id = perform($node, 'short', 'S');
settle($node, $id, 'submitted', 'resend');
$node->safe_psql('postgres', q{SELECT actionledger.alter_service('short', '{"idempotency": {"window": "1s", "margin": "0s"}}')});
$row = settle($node, $id, 'needs_reconciliation', 'review');
is($row->{sends}, 1, 'a window that is corrected counts for what was sent before: not sent again');
is(effects($p, $id), 1, 'one effect');

$node->stop;
done_testing();
