# A consequential tool that is not ready sends nothing without a person; once it
# is ready its actions go out, and a deliberate second one is a second effect.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;

my $p = start_provider();
my $node = start_server(gate => 1);
$node->safe_psql('postgres', 'CREATE ROLE app; CREATE ROLE owner;');
refund_service($node, $p);
is(refund_tool($node), 'every action will wait for approval: no lookup, no owner', 'create_tool says what is missing');
$node->safe_psql('postgres', "SELECT actionledger.grant_tool('refund', 'app')");
my $waits = $node->safe_psql('postgres', q{SET ROLE app; SELECT action_id FROM actionledger.perform('refund', '{"refund_id": "one", "amount": 1}')});
my $harmless = $node->safe_psql('postgres', qq{SELECT actionledger.create_tool('look', 'pay', 'GET /keyed/refunds/none?do=ok', 'read_only');
	SELECT action_id FROM actionledger.perform('look', '{}')}) =~ s/.*\n//sr;
settle($node, $harmless, 'confirmed');
turns_pass($node, 2);
is(action_row($node, $waits)->{next_step}, 'approve', 'an action waits');
is(scalar(received($p, $waits)), 0, 'and nothing of it has left, while harmless ones go');
like($node->safe_psql('postgres', 'SELECT waiting_for FROM actionledger.pending'), qr/^approval by an operator$/, 'pending says for whom');

is($node->safe_psql('postgres', q{SELECT actionledger.alter_tool('refund', '{"owner": "owner", "lookup": {"request": "GET /keyed/refunds{?refund_id}", "match": "$.data[*] ? (@.key == $_key)"}}')}), 'ready', 'it is made ready');
my $goes = $node->safe_psql('postgres', q{SET ROLE app; SELECT action_id FROM actionledger.perform('refund', '{"refund_id": "two", "amount": 2}')});
settle($node, $goes, 'confirmed');
is(effects($p, $goes), 1, 'what is recorded now goes out by itself');
turns_pass($node, 2);
is(scalar(received($p, $waits)), 0, 'what waited still waits');
is($node->safe_psql('postgres', "SELECT status FROM actionledger.approve($waits, 'looked at')"), 'prepared', 'an operator approves it');
settle($node, $waits, 'confirmed');
is(effects($p, $waits), 1, 'and then it goes');

# A second one on purpose: asked for three times, once.
my %second;
for (1 .. 3)
{
	$second{ $node->safe_psql('postgres', qq{SET ROLE app; SELECT action_id FROM actionledger.supersede($goes, '{"refund_id": "two", "amount": 2}', 'their ticket 7')}) }++;
}
is(scalar(keys %second), 1, 'asking again for the second one is asking once');
my ($second) = keys %second;
settle($node, $second, 'confirmed');
is(effects($p, $goes), 1, 'the first has had its effect once');
is(effects($p, $second), 1, 'and the second one, too');
my ($first_key, $second_key) = map { (received($p, $_))[0]{key} } $goes, $second;
isnt($first_key, $second_key, 'under a key of its own');
$node->stop;
done_testing();
