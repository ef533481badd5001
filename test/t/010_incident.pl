# The incident: the provider executes, and answers after the client's timeout.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;

my $p = start_provider();
my $node = start_server();

refund_service($node, $p, name => 'keyed');
refund_service($node, $p, name => 'unkeyed', honoured => 0);
refund_tool($node, name => 'keyed_refund', service => 'keyed', do => 'late:2500,late:2500,ok', timeout => '1s');
refund_tool($node, name => 'unkeyed_refund', service => 'unkeyed', mode => 'unkeyed', do => 'late:2500,late:2500,ok', timeout => '1s');

my $keyed = $node->safe_psql('postgres',
	q{SELECT action_id FROM actionledger.perform('keyed_refund', '{"refund_id": "ORD-4471", "amount": 425000}')});
my $unkeyed = $node->safe_psql('postgres',
	q{SELECT action_id FROM actionledger.perform('unkeyed_refund', '{"refund_id": "ORD-4471", "amount": 425000}')});

poll_sql($node, "SELECT (actionledger.wait($keyed, '20s') ->> 'ok')::bool", 'the keyed refund is confirmed');
poll_sql($node, "SELECT count(*) = 1 FROM actionledger.review_queue WHERE action_id = $unkeyed", 'the unkeyed one is in the review queue');

my $row = action_row($node, $keyed);
is($row->{status}, 'confirmed', 'keyed: confirmed');
like($row->{external_ref}, qr/^re_\d+$/, 'keyed: with the refund\'s id');
is($row->{confirmed_by}, 'replay', 'keyed: by the provider\'s replay of the first answer');
is($row->{sends}, 3, 'keyed: three sends');
is(effects($p, $keyed), 1, 'keyed: one refund executed');
my $t = truth_by_action($p);
is_deeply([ keys %{ $t->{$keyed}{keys} } ], [ $row->{idempotency_key} ], 'keyed: the same key on every send');
is(scalar keys %{ $t->{$keyed}{bodies} }, 1, 'keyed: the same bytes on every send');

$row = action_row($node, $unkeyed);
is($row->{status}, 'needs_reconciliation', 'unkeyed: needs reconciliation');
is($row->{next_step}, 'review', 'unkeyed: a person decides');
is($t->{$unkeyed}{received}, 1, 'unkeyed: sent once');
is(effects($p, $unkeyed), 1, 'unkeyed: one refund executed');

$node->stop;
done_testing();
