# What is stopped on our side before anything leaves is no try: it waits for its
# owner, however few tries there are, and goes on when it is mended.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;

my $p = start_provider();
my $node = start_server();

$node->safe_psql('postgres', qq{SELECT actionledger.create_service('shut', '$p->{url}', '{"idempotency": {"window": "24h"}}')});
refund_tool($node, service => 'shut', attempts => 1);
my $id = $node->safe_psql('postgres', q{SELECT action_id FROM actionledger.perform('refund', '{"refund_id": "R", "amount": 1}')});
my $blocked = "SELECT next_step = 'blocked' AND error_code = 'address_refused' FROM actionledger.actions WHERE action_id = $id";
for my $round (1 .. 3)
{
	poll_sql($node, $blocked, "round $round: the refused address blocks the action");
	my $row = action_row($node, $id);
	is("$row->{status} $row->{sends} $row->{attempts}", "prepared 0 $round", "round $round: no try is used up, and every attempt is on record");
	$node->safe_psql('postgres', "SELECT actionledger.retry($id, 'again')") if $round < 3;
	poll_sql($node, "SELECT attempts = $round + 1 FROM actionledger.actions WHERE action_id = $id", "round $round: it is tried again") if $round < 3;
}
like($node->safe_psql('postgres', "SELECT waiting_for FROM actionledger.pending WHERE action_id = $id"), qr/allow_private, then retry/, 'pending says what mends it');
is(effects($p), 0, 'nothing was executed');

$node->safe_psql('postgres', q{SELECT actionledger.alter_service('shut', '{"allow_private": true}')});
$node->safe_psql('postgres', "SELECT actionledger.retry($id, 'mended')");
poll_sql($node, "SELECT status = 'confirmed' FROM actionledger.actions WHERE action_id = $id", 'mended, it is confirmed');
is(effects($p, $id), 1, 'and executed once');

$node->stop;
done_testing();
