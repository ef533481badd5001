# Connections: whose are used again, what a dying one does, and what does not
# leak from one service to another.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;

my $node = start_server();
my $p = start_provider();
my $n = 0;

refund_service($node, $p, name => 'keyed');
refund_service($node, $p, name => 'unkeyed', honoured => 0);

# Perform a tool so many times, one after the other, and return the numbers.
sub perform_in_turn
{
	my ($tool, $times) = @_;
	my @ids;

	for (1 .. $times)
	{
		$n++;
		push @ids, perform($node, $tool, "$tool-$n", amount => $n);
		settle($node, $ids[-1], 'confirmed', 'none', 60);
	}
	return @ids;
}

# The received lines of some actions.
sub requests
{
	my %wanted = map { $_ => 1 } @_;
	return grep { $_->{ev} eq 'received' && ($_->{action} // '') =~ m{/(\d+)$} && $wanted{$1} } truth($p);
}

sub distinct
{
	my %seen = map { $_ => 1 } @_;
	return scalar keys %seen;
}

# ---------------------------------------------------------------------------
# Which connections are used again
# ---------------------------------------------------------------------------
my %reused = (
	keyed => [ 1, 'a key that is honoured', type => 'non_idempotent', service => 'keyed', mode => 'keyed' ],
	idempotent => [ 1, 'idempotent', type => 'idempotent', service => 'unkeyed', mode => 'unkeyed' ],
	read_only => [ 1, 'read_only', type => 'read_only', service => 'unkeyed', mode => 'read' ],
	unkeyed => [ 0, 'non_idempotent without a key', type => 'non_idempotent', service => 'unkeyed', mode => 'unkeyed' ],
	irreversible => [ 0, 'irreversible', type => 'irreversible', service => 'keyed', mode => 'keyed' ],
	no_key_here => [ 0, 'a tool that declares no key at a service that honours them', type => 'non_idempotent', service => 'keyed',
		mode => 'unkeyed', options => '"idempotency": "none"' ]);

for my $tool (sort keys %reused)
{
	my ($again, $words, %options) = @{ $reused{$tool} };
	my (@requests, @ids);

	refund_tool($node, name => $tool, %options);
	@ids = perform_in_turn($tool, 8);
	@requests = requests(@ids);
	is(scalar @requests, 8, "$words: each sent once");
	if ($again)
	{
		cmp_ok(distinct(map { $_->{conn} } @requests), '<', 8, "$words: connections are used again");
	}
	else
	{
		is(distinct(map { $_->{conn} } @requests), 8, "$words: a connection for each");
		is_deeply([ grep { $_->{req} != 1 } @requests ], [], "$words: of which it is the first request");
	}
}

# Many at once, with other tools' idle connections to the same host lying about.
{
	my @ids;

	$node->safe_psql('postgres', q{SELECT count(*) FROM (VALUES ('unkeyed'), ('keyed'), ('irreversible')) t(tool),
	  LATERAL actionledger.perform_many(tool, ARRAY(SELECT jsonb_build_object('refund_id', tool || '-crowd-' || i, 'amount', i) FROM generate_series(1, 60) i))});
	poll_sql($node, "SELECT count(*) = 180 FROM actionledger.actions WHERE identity LIKE '%-crowd-%' AND status = 'confirmed'", 'the crowd is confirmed', 60);
	@ids = split /\n/, $node->safe_psql('postgres', "SELECT action_id FROM actionledger.actions WHERE identity LIKE '%-crowd-%' AND tool <> 'keyed'");
	is_deeply([ grep { $_->{req} != 1 } requests(@ids) ], [], 'a crowd: what cannot be re-sent is the first request of its connection');
	my %later = map { $_->{conn} => 1 } grep { $_->{ev} eq 'received' && $_->{req} > 1 } truth($p);
	is_deeply([ grep { $later{ $_->{conn} } } requests(@ids) ], [], 'a crowd: and the last one');
}

# ---------------------------------------------------------------------------
# The server reads the second request of a connection, executes it, and closes
# ---------------------------------------------------------------------------
{
	refund_tool($node, name => 'unkeyed_dies', service => 'unkeyed', mode => 'unkeyed', do => 'readclose2');
	my @ids = perform_in_turn('unkeyed_dies', 10);
	my @requests = requests(@ids);

	is(scalar @requests, 10, 'dying connections, without a key: each sent once');
	is(distinct(map { $_->{conn} } @requests), 10, 'dying connections, without a key: on connections of their own');
	is(scalar(grep { effects($p, $_) != 1 } @ids), 0, 'dying connections, without a key: executed once');

	refund_tool($node, name => 'keyed_dies', service => 'keyed', do => 'readclose2', attempts => 3);
	@ids = perform_in_turn('keyed_dies', 10);
	my @again = grep { scalar(requests($_)) > 1 } @ids;
	my @late = grep { $_->{attempt} > 1 && $_->{req} > 1 } requests(@ids);
	my $ledger = $node->safe_psql('postgres', "SELECT count(*) FROM actionledger.timeline t JOIN actionledger.actions a USING (action_id) WHERE a.tool = 'keyed_dies' AND t.what = 'resend_blocked'");

	cmp_ok(scalar @again, '>=', 1, 'dying connections, with a key: some met one');
	cmp_ok($ledger, '>=', 1, "dying connections, with a key: libcurl's own re-send was stopped and noted ($ledger times)");
	is(scalar(grep { effects($p, $_) != 1 } @ids), 0, 'dying connections, with a key: executed once');
	is_deeply(\@late, [], 'dying connections, with a key: a re-send has a connection of its own');
	is(scalar(grep { distinct(map { $_->{key} } requests($_)) != 1 } @ids), 0, 'dying connections, with a key: re-sent with the same key only');
	is(scalar(grep { $_->{confirmed_by} ne 'replay' } map { action_row($node, $_) } @again), 0, 'dying connections, with a key: confirmed by the replay');

	# The same for what may be repeated without a key, and for requests without a body.
	refund_tool($node, name => 'idempotent_dies', type => 'idempotent', service => 'unkeyed', request => 'PUT /unkeyed/limits/{refund_id}?do=readclose2', attempts => 3);
	refund_tool($node, name => 'bodyless_dies', service => 'keyed', request => 'DELETE /keyed/holds/{refund_id}/{amount}?do=readclose2', attempts => 3);
	refund_tool($node, name => 'read_dies', type => 'read_only', service => 'unkeyed', request => 'GET /read/refunds/{refund_id}/{amount}?do=readclose2', attempts => 3);
	perform_in_turn($_, 6) for qw(idempotent_dies bodyless_dies read_dies);
	is($node->safe_psql('postgres', "SELECT count(DISTINCT a.tool) FROM actionledger.attempts t JOIN actionledger.actions a USING (action_id) WHERE a.tool LIKE '%\\_dies' AND t.category = 'resend_blocked'"),
		'4', 'dying connections: every tool whose connections are used again met one');
}

# ---------------------------------------------------------------------------
# Two services at the same host and port
# ---------------------------------------------------------------------------
{
	my %services = (
		first => '"auth": {"bearer": "{secret:first_token}"}, "headers": {"X-Tenant": "first-tenant", "X-Only-First": "yes"}',
		second => '"auth": {"header": {"X-Api-Key": "{secret:second_key}"}}, "headers": {"X-Tenant": "second-tenant"}',
		third => '"auth": {"basic": ["third", "{secret:third_word}"]}',
		bare => '"headers": {"X-Nothing": "at all"}');
	my %auth = (first => 'Bearer first-token', second => undef, third => 'Basic dGhpcmQ6d29yZA==', bare => undef);
	my %header = (
		'X-Tenant' => { first => 'first-tenant', second => 'second-tenant' },
		'X-Only-First' => { first => 'yes' },
		'X-Api-Key' => { second => 'second-key' },
		'X-Nothing' => { bare => 'at all' });
	my (%of, %requests);

	$node->safe_psql('postgres', "SELECT actionledger.set_secret(n, v) FROM (VALUES ('first_token', 'first-token'), ('second_key', 'second-key'), ('third_word', 'word')) s(n, v)");
	# The provider tells the header that a request names in key_header.
	for my $service (sort keys %services)
	{
		refund_service($node, $p, name => $service, options => $services{$service});
		for my $header (sort keys %header)
		{
			refund_tool($node, name => "$service $header", service => $service, type => 'idempotent', request => "POST /unkeyed/refunds?key_header=$header");
		}
	}
	for my $round (1 .. 3)
	{
		for my $header (sort keys %header)
		{
			for my $service (sort keys %services)
			{
				$of{$_} = [ $service, $header ] for perform_in_turn("$service $header", 1);
			}
		}
	}
	for my $r (requests(keys %of))
	{
		my ($id) = $r->{action} =~ m{/(\d+)$};
		my ($service, $header) = @{ $of{$id} };
		push @{ $requests{$service}{$header} }, [ $r->{auth}, $r->{key} ];
	}
	for my $service (sort keys %services)
	{
		for my $header (sort keys %header)
		{
			is_deeply($requests{$service}{$header}, [ ([ $auth{$service}, $header{$header}{$service} ]) x 3 ],
				"service $service: Authorization and $header are its own or not there");
		}
	}
	my %on;
	for my $r (requests(keys %of))
	{
		my ($id) = $r->{action} =~ m{/(\d+)$};
		$on{ $r->{conn} }{ $of{$id}[0] } = 1;
	}
	cmp_ok(scalar(grep { keys %$_ > 1 } values %on), '>=', 1, 'and they did share connections');
}

# ---------------------------------------------------------------------------
# All in all: no attempt arrived twice
# ---------------------------------------------------------------------------
{
	my %arrived;

	$arrived{"$_->{action} $_->{attempt}"}++ for grep { $_->{ev} eq 'received' } truth($p);
	is_deeply([ grep { $arrived{$_} > 1 } keys %arrived ], [], 'no attempt arrived twice: there was no hidden re-send');
	cmp_ok(scalar keys %arrived, '>', 300, 'of many');
}

$node->stop;
done_testing();
