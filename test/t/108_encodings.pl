# Databases and clients of any encoding: the extension can be created, what it says
# can be read, and an answer that the encoding cannot hold proves nothing.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;
use Lifecycle;

my $node = start_server();
my $p = start_provider();

# What a statement prints to a client of an encoding; its SQLSTATE when it fails.
sub as_client
{
	my ($db, $encoding, $sql) = @_;
	my ($out, $err) = ('', '');
	my $rc = $node->psql($db, "SET client_encoding = '$encoding'; $sql", stdout => \$out, stderr => \$err, extra_params => [ '-v', 'VERBOSITY=sqlstate' ]);
	return $rc == 0 ? $out : ($err =~ /ERROR:  (\w{5})/)[0];
}

for my $encoding (qw(UTF8 LATIN1 EUC_JP SQL_ASCII))
{
	subtest "a database in $encoding" => sub {
		my $db = 'in_' . lc $encoding;
		my @others = grep { $_ ne $encoding } $encoding eq 'SQL_ASCII' ? () : $encoding eq 'UTF8' ? qw(LATIN1 EUC_JP) : 'UTF8';

		$node->safe_psql('postgres', "CREATE DATABASE $db ENCODING '$encoding' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
		create_ledger($node, $db, $p, exists => 1, honoured => 0, mode => 'unkeyed', do => 'hang', timeout => '300ms');
		tool_in($node, $db, tool => 'fine', mode => 'unkeyed');
		my $open = perform_in($node, $db, 'open');
		my $done = perform_in($node, $db, 'done', 'fine');
		ok(status_becomes($node, $db, $done, 'confirmed'), 'an action is sent');
		poll_in($node, $db, "SELECT next_step = 'review' FROM actionledger.action WHERE action_id = $open", 'one is to be reviewed');
		for my $client ($encoding, @others)
		{
			like(as_client($db, $client, 'SELECT "do" FROM actionledger.review_queue'), qr/^SELECT \* FROM actionledger.resolve\($open, 'confirmed'/, "$client: what a person must decide");
			like(as_client($db, $client, "SELECT * FROM actionledger.explain($open)"), qr/Allowed now/, "$client: the story of an action");
			like(as_client($db, $client, 'SELECT "do" FROM actionledger.readiness LIMIT 1'), qr/alter_tool/, "$client: what a tool lacks");
			like(as_client($db, $client, q{SELECT observation FROM actionledger.perform('fine', '{"refund_id": "done", "amount": 100}')}), qr/supersede\($done, /, "$client: that it was asked for before");
			is(as_client($db, $client, "SELECT actionledger.resolve($open, 'failed', '{}', 'how you know')"), '22023', "$client: a refusal");
		}
		is(effects($p, $done) >= 1, 1, 'the provider has done it');
	};
}

subtest 'an answer that the database cannot hold' => sub {
	my $db = 'in_latin1';

	# The reference is a character that LATIN1 does not have, written as itself and escaped.
	for my $reference ('%25E2%2582%25AC', '%255Cu20ac')
	{
		my $tool = "euro " . length $reference;
		tool_in($node, $db, tool => $tool, mode => 'unkeyed', do => "execstatus:200;body:%257B%2522id%2522%253A%2522$reference%2522%257D", timeout => '1s');
		my $id = perform_in($node, $db, 'euro', $tool);
		poll_in($node, $db, "SELECT status <> 'prepared' AND claimed_by IS NULL FROM actionledger.action WHERE action_id = $id", 'it has ended');
		isnt(row_in($node, $db, $id)->{status}, 'failed', 'it is not failed: it was done');
		is(scalar(grep { $_->{ev} eq 'received' && $_->{path} =~ /\Q$reference\E/ } truth($p)), 1, 'and is not sent again');
	}
};

$node->stop;
done_testing();
