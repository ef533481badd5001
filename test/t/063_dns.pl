# A name server that hangs, and one that fails: nobody else waits for it.
#
# getaddrinfo() blocks for five seconds (resolver.so).  A second service is
# healthy, and what it receives, and when, shows whether the dispatcher's loop
# stood still.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;
use Lifecycle;
use Names;
use Time::HiRes qw(sleep time);

my $HANG_MS = 5000;
my $ALLOWED_MS = 100;	# what nobody may stand still for
my $DRAIN_S = 2;
my $n = 0;

my $node = start_server_with_names(conf => "actionledger.drain_timeout = '${DRAIN_S}s'\nmax_wal_size = '4GB'\ncheckpoint_timeout = '30min'");
my $p = start_provider();

set_names('healthy.test 127.0.0.1');
refund_service($node, $p, name => 'healthy');
refund_tool($node, name => 'healthy', service => 'healthy');

# A service at a name of its own, with a tool of the same name.
sub named_service
{
	my ($host, %o) = @_;
	refund_service($node, { url => "http://$host:$p->{port}" }, name => $host, %o);
	refund_tool($node, name => $host, service => $host, %o);
	return $host;
}

sub perform_many
{
	my ($tool, $times) = @_;
	return split /\n/, $node->safe_psql('postgres', "SELECT action_id FROM actionledger.perform_many('$tool', ARRAY(SELECT jsonb_build_object('refund_id', '$tool-@{[ ++$n ]}-' || i, 'amount', i) FROM generate_series(1, $times) i))");
}

# Lookups of a name that have begun and not ended.
sub hanging
{
	my ($match) = @_;
	return scalar(lookups($match)) - scalar(answers($match));
}

# Perform healthy actions one after another, every few milliseconds, until the
# code says that it is enough; returns the times from commit to arrival, in
# milliseconds, by action.  The commit is the end of the statement in a session
# that is open all the time.
sub pulse
{
	my ($enough) = @_;
	my $script = PostgreSQL::Test::Utils::tempdir() . '/pulse.sql';
	my (%committed, %latency);
	my $first = $n;

	append_to_file($script, "\\set n random(1, 2000000000)\nSELECT action_id FROM actionledger.perform('healthy', jsonb_build_object('refund_id', 'p-' || :client_id || '-' || :n || '-' || clock_timestamp()::text, 'amount', 1));\n\\sleep 4 ms\n");
	my $handle = IPC::Run::start([ $node->installed_command('pgbench'), '-n', '-c', '1', '-T', '300', '-M', 'prepared', '-f', $script, '-l', '--log-prefix', "$script.log", $node->connstr('postgres') ],
		'<', \undef, '>', "$script.out", '2>&1');
	eval { poll($enough, 'enough', 60); 1 } or diag $@;
	$handle->signal('TERM');
	eval { $handle->finish };
	return;
}
1;
