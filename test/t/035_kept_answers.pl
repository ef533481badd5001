# The kept inputs of the fuzz target that runs in a server process (test/fuzz/server):
# answers of any bytes, read by the jsonpath of rules and lookups.  A claim that does
# not hold ends the process.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;

my @files = sort glob 'test/fuzz/corpus/evidence/*';
cmp_ok(scalar @files, '>=', 50, 'inputs are kept');

my $node = start_server(extension => 0, conf => "shared_preload_libraries = ''");
$node->safe_psql('postgres', "CREATE FUNCTION fuzz_replay(bytea) RETURNS void LANGUAGE c STRICT AS '$ENV{AL_BUILD}/fuzz/server/evidence.so'");
for my $file (@files)
{
	my $hex = unpack 'H*', PostgreSQL::Test::Utils::slurp_file($file);
	my ($out, $err) = ('', '');
	my $rc = $node->psql('postgres', "SELECT fuzz_replay('\\x$hex'); SELECT 'lives'", stdout => \$out, stderr => \$err, timeout => 60);
	ok($rc == 0 && $out =~ /^lives$/m, $file) or diag($err);
}
unlike(PostgreSQL::Test::Utils::slurp_file($node->logfile), qr/does not hold|terminated by signal/, 'every claim holds');

done_testing();
