# What every send carries beside the frozen request: the action, the number of the
# attempt, and a trace; a Retry-After that is a date; and a key that stands in the path.
use strict;
use warnings;
use POSIX qw(strftime);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use lib 'test/lib';
use Ledger;

my $folder = PostgreSQL::Test::Utils::tempdir();

# Keeps the head of each request with the time at which it came.  The first of an
# action is closed without an answer, the second is told a date five seconds later
# (in whole seconds, as dates are), the third is done.
my $server = start_raw_server(sub {
	my ($socket) = @_;
	my $head = '';

	while ($head !~ /\r\n\r\n/) { sysread($socket, $head, 65536, length $head) or return }
	my ($name) = $head =~ m{^POST /(\w+) HTTP};
	my $n = () = glob("$folder/$name.*");
	my $status = $n == 1 ? "429 Slow down\r\nRetry-After: " . strftime('%a, %d %b %Y %H:%M:%S GMT', gmtime(time + 5)) : '200 OK';
	append_to_file("$folder/$name." . ($n + 1), sprintf("X-Came: %.6f\r\n", time) . $head);
	print $socket "HTTP/1.1 $status\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}" if $n > 0;
	$socket->flush;
});

# A field of each request of an action, in their order; undef where it is not exactly once.
sub field
{
	my ($name, $field) = @_;
	return map {
		my @values = slurp_file($_) =~ /^\Q$field\E: (.*?)\r$/gm;
		@values == 1 ? $values[0] : undef
	} sort glob("$folder/$name.*");
}

my $node = start_server();
refund_service($node, $server);
refund_tool($node, request => 'POST /{refund_id}', base => '50ms', cap => '60s', timeout => '10s');
my %id = map { $_ => perform($node, 'refund', $_) } qw(one two);
settle($node, $id{$_}, 'confirmed', 'none', 60) for qw(one two);

my $ledger = (field('one', 'Actionledger-Action'))[0] =~ s{/\d+$}{}r;
like($ledger, qr/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, 'a ledger has a UUID');
my %trace;
for my $name (qw(one two))
{
	is_deeply([ field($name, 'Actionledger-Action') ], [ ("$ledger/$id{$name}") x 3 ], "$name: every send names the ledger and the action");
	is_deeply([ field($name, 'Actionledger-Attempt') ], [ 1, 2, 3 ], "$name: and the number of the attempt");
	is_deeply([ map { $_->{attempt} } attempts_of($node, $id{$name}) ], [ 1, 2, 3 ], "$name: which is that of the ledger");
	my @parents = field($name, 'traceparent');
	is(scalar(grep { /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-01$/ } @parents), 3, "$name: a traceparent as W3C has it") or diag("@parents");
	my (%traces, %spans);
	for my $parent (@parents) { my (undef, $t, $s) = split /-/, $parent; $traces{$t}++; $spans{$s}++ }
	is(scalar keys %traces, 1, "$name: one trace");
	is(scalar keys %spans, 3, "$name: a span for each attempt");
	$trace{ (keys %traces)[0] }++;

	# All else is frozen.
	my %rest = map { my $head = slurp_file($_); $head =~ s/^(?:X-Came|Actionledger-Attempt|traceparent): .*?\r\n//gm; ($head => 1) } glob("$folder/$name.*");
	is(scalar keys %rest, 1, "$name: all else is the same, to the byte") or diag(join "\n", keys %rest);

	my @came = field($name, 'X-Came');
	cmp_ok($came[2] - $came[1], '>=', 4, "$name: a date in Retry-After is waited for");
	cmp_ok($node->safe_psql('postgres', "SELECT retry_after FROM actionledger.attempts WHERE action_id = $id{$name} AND attempt = 2") =~ s/^00:00:0//r, '>', 3, "$name: and on record");
}
is(scalar keys %trace, 2, 'two actions are two traces');

# A destination that takes the key as the name of what is made.
my $p = start_provider();
refund_service($node, $p, name => 'named');
refund_tool($node, name => 'put', service => 'named', request => 'PUT /keyed/refunds/{_key}?key_path&do=close,ok', base => '50ms', timeout => '10s');
my $put = perform($node, 'put', 'put');
my $row = settle($node, $put, 'confirmed', 'none');
is_deeply([ map { $_->{path} =~ m{^/keyed/refunds/([^?]+)\?} } received($p, $put) ], [ ($row->{idempotency_key}) x 2 ], 'a key in the path: the same in both sends');
is_deeply([ map { $_->{key} } received($p, $put) ], [ ($row->{idempotency_key}) x 2 ], 'and there the destination has read it');
is("$row->{confirmed_by} " . effects($p, $put), 'replay 1', 'which answers the second with the first, and has done it once');

$node->stop;
done_testing();
