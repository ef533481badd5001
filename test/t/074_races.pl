# Races of claims, ends of calls, lookups and sweeps: isolation specs on servers
# that keep what they commit, which the server of the isolation suite does not.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;
use File::Basename qw(basename dirname);
use IPC::Run ();
use PostgreSQL::Test::Utils;

my $node = start_server();
my $p = start_provider();
my $tester = dirname($ENV{PG_ISOLATION_REGRESS}) . '/isolationtester';

# Run the specs of a folder, and compare what they print.
sub run_specs
{
	my ($folder) = @_;

	for my $spec (sort glob "test/specs/$folder/*.spec")
	{
		my $name = basename($spec, '.spec');
		my ($out, $err) = ('', '');
		my $connection = $node->connstr('postgres') . " options='-c client_min_messages=error'";

		ok(IPC::Run::run([ $tester, $connection ], '<', $spec, '>', \$out, '2>', \$err, IPC::Run::timeout(300)), "$folder/$name runs")
		  or diag $err;
		# To be copied to test/expected/$folder once it has been read.
		append_to_file("$ENV{TESTLOGDIR}/$name.out", $out);
		is($out, slurp_file("test/expected/$folder/$name.out"), "$folder/$name: every permutation ends as expected");
	}
	return;
}

# With a dispatcher and a provider.  await() looks until a condition holds, for at most a minute.
$node->safe_psql('postgres', qq{SELECT actionledger.create_service('pay', '$p->{url}', '{"allow_private": true, "breaker": {"failures": 1000}}')});
$node->safe_psql('postgres', q{SELECT actionledger.create_tool('iso_late', 'pay', 'POST /unkeyed/refunds?do=close', identity => '{id}',
	input => '{"properties": {"id": {"type": "string"}}}', options => '{"approval": "never", "timeout": "20s", "max_processing": "0s", "external_ref": "$.id",
	  "lookup": {"request": "GET /refunds?key={_key}&do=late:1500", "match": "$.data[*] ? (@.key == $_key)"}}')});
$node->safe_psql('postgres', q{
	CREATE FUNCTION await(condition text) RETURNS bool LANGUAGE plpgsql VOLATILE AS $$
	DECLARE holds bool;
	BEGIN
		FOR i IN 1 .. 6000 LOOP
			EXECUTE 'SELECT ' || condition INTO holds;
			EXIT WHEN holds;
			PERFORM pg_sleep(0.01);
		END LOOP;
		RETURN holds;
	END $$});
run_specs('sending');

# Without one: it has made this place the ledger's, and goes.
$node->safe_psql('postgres', q{SELECT actionledger.create_service('iso', 'https://api.example.invalid', '{"idempotency": "none"}');
	SELECT actionledger.create_tool('iso_fax', 'iso', 'fax', identity => '{id}', input => '{"properties": {"id": {"type": "string"}}}',
	  options => '{"transport": "external", "approval": "never", "timeout": "1h", "max_processing": "0s"}')});
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->restart;
run_specs('durable');

$node->stop;
done_testing();
