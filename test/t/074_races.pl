# Races of claims, ends of calls and sweeps: isolation specs on a server that keeps
# what it commits, which the server of the isolation suite does not.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;
use File::Basename qw(basename dirname);
use IPC::Run ();
use PostgreSQL::Test::Utils;

my $node = start_server();
# A service brings a dispatcher, which makes this place the ledger's; then it goes.
$node->safe_psql('postgres', q{SELECT actionledger.create_service('iso', 'https://api.example.invalid', '{"idempotency": "none"}');
	SELECT actionledger.create_tool('iso_fax', 'iso', 'fax', identity => '{id}', input => '{"properties": {"id": {"type": "string"}}}',
	  options => '{"transport": "external", "approval": "never", "timeout": "1h", "max_processing": "0s"}')});
poll_sql($node, 'SELECT system_id IS NOT NULL FROM actionledger.ledger', 'a dispatcher has been here');
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->restart;

my $tester = dirname($ENV{PG_ISOLATION_REGRESS}) . '/isolationtester';
for my $spec (sort glob 'test/specs/durable/*.spec')
{
	my $name = basename($spec, '.spec');
	my ($out, $err) = ('', '');
	my $connection = $node->connstr('postgres') . " options='-c client_min_messages=error'";

	ok(IPC::Run::run([ $tester, $connection ], '<', $spec, '>', \$out, '2>', \$err, IPC::Run::timeout(120)), "$name runs")
	  or diag $err;
	# To be copied to test/expected/durable once it has been read.
	append_to_file("$ENV{TESTLOGDIR}/$name.out", $out);
	is($out, slurp_file("test/expected/durable/$name.out"), "$name: every permutation ends as expected");
}
$node->stop;
done_testing();
