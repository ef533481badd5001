# The agent of doc/agent.py: it reads its tools, proposes, is refused and
# corrects, waits through lost answers, and says no more than is known.  Each
# operation has one effect at the provider, however the agent got there.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;
use IPC::Run ();
use JSON::PP;
use PostgreSQL::Test::Utils;

my $provider = start_provider();
my $node = start_server(name => 'agent');
$node->safe_psql('postgres', 'CREATE ROLE agent LOGIN');
refund_service($node, $provider);
refund_service($node, $provider, name => 'plain', honoured => 0);
# The answer comes after the timeout; the same request again gets the first one's.
refund_tool($node, name => 'refund', do => 'ok');
refund_tool($node, name => 'slow_refund', do => 'hang,ok', timeout => '1s');
refund_tool($node, name => 'courier', service => 'plain', mode => 'unkeyed', do => 'close', options => '"owner": "agent"');
refund_tool($node, name => 'declined', do => 'status:402');
refund_tool($node, name => 'secret_refund');
$node->safe_psql('postgres', "SELECT actionledger.grant_tool(t, 'agent') FROM unnest('{refund,slow_refund,courier,declined}'::text[]) t");

# Runs the agent with tasks; gives its lines.
sub agent
{
	my ($run, @tasks) = @_;
	my ($out, $err) = ('', '');
	my $in = encode_json(\@tasks);
	IPC::Run::run([ '/usr/bin/python3', 'doc/agent.py', $node->connstr('postgres') . ' user=agent', $run ],
		'<', \$in, '>', \$out, '2>', \$err, IPC::Run::timeout(240)) or die "agent.py: $err";
	return map { decode_json($_) } split /\n/, $out;
}

# How often the provider has executed an operation.
sub executed
{
	my ($identity) = @_;
	my $id = $node->safe_psql('postgres', "SELECT action_id FROM actionledger.action WHERE identity = '$identity'");
	return $id eq '' ? 0 : effects($provider, $id);
}

my ($misspelt, $slow, $lost, $declined, $wrong_tool, $forbidden, $hopeless) = agent('run-1',
	[ { tool => 'refund', args => { refund_id => 'A1', amuont => '4250' } } ],
	[ { tool => 'slow_refund', args => { refund_id => 'A2', amount => 70 } } ],
	[ { tool => 'courier', args => { refund_id => 'A3', amount => 1 } } ],
	[ { tool => 'declined', args => { refund_id => 'A4', amount => 1 } } ],
	[ { tool => 'refnud', args => { refund_id => 'A5', amount => 5, currency => 'EUR' } } ],
	[ { tool => 'secret_refund', args => { refund_id => 'A6', amount => 1 } } ],
	[ { tool => 'refund', args => { refund_id => 'A7', amount => 'a lot' } } ]);

is_deeply($misspelt->{tools}, [qw(courier declined refund slow_refund)], 'it is told its own tools, and no others');
is_deeply($misspelt->{codes}, [qw(missing_arguments ok)], 'a misspelt argument of the wrong type is corrected in one step');
is($misspelt->{last}{data}{external_ref} ne '', 1, 'and the refund succeeds');
is(executed('refund:A1'), 1, 'once');
like($misspelt->{said}, qr/^Done\. .*refund 4250 for A1.*reference/, 'it says so, with the amount and the reference');

is_deeply($slow->{codes}, ['ok'], 'an answer that was lost is waited for, not proposed again');
is($slow->{last}{meta}{confirmed_by}, 'replay', 'the provider says later what the first answer was');
is(executed('refund:A2'), 1, 'one effect of two sends');

is_deeply($lost->{codes}, ['needs_review'], 'without a key nobody knows');
like($lost->{said}, qr/^A person has to look at it\. .*may have happened.*being checked by agent/, 'it says that it is being checked, and neither success nor failure');
is(executed('refund:A3'), 1, 'it did happen, once');

is_deeply($declined->{codes}, ['rejected'], 'a refusal by the provider ends it');
is(executed('refund:A4'), 0, 'without an effect');

is_deeply($wrong_tool->{codes}, [qw(unknown_tool unknown_arguments)], 'a tool of nearly that name is found, an argument without a likeness is not guessed');
is_deeply($forbidden->{codes}, ['forbidden'], 'a tool that it may not perform is escalated');
is_deeply($hopeless->{codes}, ['invalid_arguments'], 'what cannot be corrected is not tried again');
is($node->safe_psql('postgres', q{SELECT count(*) FROM actionledger.action WHERE identity IN ('refund:A5', 'refund:A6', 'refund:A7')}), 0, 'nothing is recorded of these');

# The agent is interrupted and does it all again.
my ($again, $again_lost, $conflict) = agent('run-2',
	[ { tool => 'refund', args => { refund_id => 'A1', amount => 4250 } } ],
	[ { tool => 'courier', args => { refund_id => 'A3', amount => 1 } } ],
	[ { tool => 'refund', args => { refund_id => 'A1', amount => 4251 } } ]);
is($again->{last}{data}{created}, JSON::PP::false, 'what was done is not done again');
like($again->{said}, qr/^Done\. This was asked for before, at/, 'and said to be done');
is_deeply($again_lost->{codes}, ['needs_review'], 'what nobody knows is still what nobody knows');
is_deeply($conflict->{codes}, ['identity_conflict'], 'another amount under the same number is no correction');
is_deeply([ map { executed("refund:A$_") } 1 .. 4 ], [ 1, 1, 1, 0 ], 'and nothing has happened twice');

is($node->safe_psql('postgres', q{SELECT string_agg(code, ' ' ORDER BY refusal_id) FROM actionledger.refusals WHERE run_id = 'run-1'}),
	'missing_arguments unknown_tool unknown_arguments forbidden invalid_arguments', 'the refusals of the run are there');
is($node->safe_psql('postgres', q{SELECT refused FROM actionledger.signals WHERE tool = 'refund' AND period = '1h'}), 4, 'and counted');

# What the document shows of the script is the script.
my ($document, $script) = (slurp_file('doc/agents.md'), slurp_file('doc/agent.py'));
my @shown = $document =~ /^```\n(def .*?)^```$/gms;
cmp_ok(scalar @shown, '>', 0, 'the document shows the loop');
ok(index($script, $_) >= 0, 'as it is: ' . (split /\n/)[0]) for @shown;
$node->stop('fast');
done_testing();
