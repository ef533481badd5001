# TLS as it is: whom a service trusts, what a bad certificate proves (that nothing
# was sent), client certificates, old versions, and sessions that are resumed.
use strict;
use warnings;
no warnings 'qw';
use IO::Socket::INET;
use Test::More;
use lib 'test/lib';
use Ledger;
use PostgreSQL::Test::Utils;

my $dir = PostgreSQL::Test::Utils::tempdir();
my $node = start_server();
my $n = 0;

# Run openssl; dies with what it said.
sub openssl
{
	my (@args) = @_;
	my $said = '';
	IPC::Run::run([ 'openssl', @args ], '<', \undef, '>&', \$said) or die "openssl @args: $said";
	return $said;
}

# Make a CA; certificates of it are made by issue().
sub make_ca
{
	my ($name) = @_;
	openssl(qw(req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -addext basicConstraints=critical,CA:TRUE -subj), "/CN=Test $name",
		'-keyout', "$dir/$name.key", '-out', "$dir/$name.pem");
	return;
}

# Make a certificate and its key.
#   ca => name; names => subjectAltName; use => serverAuth | clientAuth; days => of its validity, negative: over
sub issue
{
	my ($name, %o) = @_;
	append_to_file("$dir/$name.ext", "subjectAltName=$o{names}\nextendedKeyUsage=@{[ $o{use} // 'serverAuth' ]}\nbasicConstraints=CA:FALSE\n");
	openssl(qw(req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj), "/CN=$name", '-keyout', "$dir/$name.key", '-out', "$dir/$name.csr");
	openssl(qw(x509 -req -days), $o{days} // 30, '-in', "$dir/$name.csr", '-CA', "$dir/$o{ca}.pem", '-CAkey', "$dir/$o{ca}.key", '-CAcreateserial', '-extfile', "$dir/$name.ext", '-out', "$dir/$name.pem");
	return;
}

# Start a provider with a certificate.
sub start_tls
{
	my ($name, @more) = @_;
	return start_provider('--tls', "$dir/$name.pem", "$dir/$name.key", @more);
}

# A service at a URL with a tool of the same name; returns the name.
#   tls => JSON of the option; keyed => 1; what refund_tool() takes
sub destination
{
	my ($url, %o) = @_;
	my $name = 'tls-' . ++$n;
	my $keys = $o{keyed} ? '{"window": "24h", "replay_header": "Idempotent-Replayed"}' : '"none"';
	my $tls = defined $o{tls} ? ", \"tls\": $o{tls}" : '';
	$node->safe_psql('postgres', "SELECT actionledger.create_service('$name', '$url', '{\"allow_private\": true, \"idempotency\": $keys, \"breaker\": {\"failures\": 1000}$tls}')");
	refund_tool($node, name => $name, service => $name, mode => $o{keyed} ? 'keyed' : 'unkeyed', attempts => 3, timeout => '10s', %o);
	return $name;
}

sub trust { return qq({"ca_file": "$dir/$_[0].pem"}); }

# Perform so many actions of a destination in turn, and wait until each is settled.
sub go
{
	my ($name, $status, $step, $times) = @_;
	my @ids;
	for (1 .. $times // 1)
	{
		push @ids, perform($node, $name, "$name-" . ++$n);
		eval { settle($node, $ids[-1], $status, $step, 60); 1 } or diag $@;
	}
	return wantarray ? @ids : $ids[0];
}

# What became of an action and its attempts, in a line.
sub story
{
	my ($id) = @_;
	my $row = action_row($node, $id);
	return join ' ', (map { $_ // '-' } @$row{qw(status next_step)}, $row->{error_code} // '-'),
	  map { "$_->{verdict}/$_->{category}" . ($_->{sent} ? '+' : '') } attempts_of($node, $id);
}

sub requests { return scalar grep { $_->{ev} eq 'received' } truth($_[0]); }

make_ca($_) for qw(ours theirs);
issue('good', ca => 'ours', names => 'IP:127.0.0.1,DNS:localhost');
issue('named', ca => 'ours', names => 'DNS:localhost');
issue('expired', ca => 'ours', names => 'IP:127.0.0.1', days => -1);
issue('elsewhere', ca => 'ours', names => 'DNS:other.test,IP:127.0.0.9');
issue('foreign', ca => 'theirs', names => 'IP:127.0.0.1');
issue('for_clients', ca => 'ours', names => 'IP:127.0.0.1', use => 'clientAuth');
issue('client', ca => 'ours', names => 'DNS:client', use => 'clientAuth');
issue('stranger', ca => 'theirs', names => 'DNS:client', use => 'clientAuth');
openssl(qw(req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1), '-keyout', "$dir/selfsigned.key", '-out', "$dir/selfsigned.pem");
openssl(qw(ec -aes128 -passout pass:word), '-in', "$dir/client.key", '-out', "$dir/locked.key");

my $good = start_tls('good');
my $ours = trust('ours');

# ---------------------------------------------------------------------------
# Certificates
# ---------------------------------------------------------------------------
{
	my $name = destination($good->{url}, tls => $ours);
	my $id = go($name, 'confirmed', 'none');
	is(story($id), 'confirmed none - confirmed/confirmed+', 'a good certificate, of the CA of the service: confirmed');
	is(effects($good, $id), 1, 'and executed');

	$id = go(destination($good->{url} =~ s/127\.0\.0\.1/localhost/r, tls => $ours), 'confirmed', 'none');
	is(story($id), 'confirmed none - confirmed/confirmed+', 'by its name: confirmed');

	my %bad = (
		expired => 'an expired certificate', elsewhere => "another host's certificate", selfsigned => 'a certificate that signed itself', foreign => "another CA's certificate",
		named => 'a certificate for the name, asked by address', for_clients => 'a certificate for clients');
	for my $which (sort keys %bad)
	{
		my $p = start_tls($which);
		for my $keyed (0, 1)
		{
			my $id = go(destination($p->{url}, tls => $ours, keyed => $keyed), 'failed', 'none');
			is(story($id), 'failed none retries_exhausted' . ' not_sent/tls' x 3, "$bad{$which}: not sent, and given up" . ($keyed ? ', with a key' : ''));
		}
		is(requests($p), 0, "$bad{$which}: no request arrived");
		cmp_ok(scalar(grep { $_->{ev} eq 'closed' } truth($p)), '>=', 6, "$bad{$which}: six connections did");
	}
	for my $type (qw(read_only idempotent irreversible))
	{
		my $id = go(destination($good->{url}, tls => trust('theirs'), type => $type), 'failed', 'none');
		is(story($id), 'failed none retries_exhausted' . ' not_sent/tls' x 3, "$type: an unknown CA: not sent");
	}
	$id = go(destination($good->{url}), 'failed', 'none');
	is(story($id), 'failed none retries_exhausted' . ' not_sent/tls' x 3, 'without a CA of its own a service trusts the system, which does not know ours');
}

# ---------------------------------------------------------------------------
# Trust of one service is no trust of another at the same host and port
# ---------------------------------------------------------------------------
{
	my $p = start_tls('good');
	my %service = (ours => destination($p->{url}, tls => $ours, keyed => 1), theirs => destination($p->{url}, tls => trust('theirs'), keyed => 1), system => destination($p->{url}, keyed => 1));

	for my $round (1 .. 2)
	{
		go($service{ours}, 'confirmed', 'none', 2);
		is(requests($p), 2 * $round, "round $round: with the right CA on a kept connection: received");
		for my $other (qw(theirs system))
		{
			is(story(scalar go($service{$other}, 'failed', 'none')), 'failed none retries_exhausted' . ' not_sent/tls' x 3,
				"round $round: $other: neither that connection nor its session is used");
		}
		is(requests($p), 2 * $round, "round $round: no request of theirs arrived");
	}
}

# ---------------------------------------------------------------------------
# Files that are not there, or not what they should be
# ---------------------------------------------------------------------------
{
	append_to_file("$dir/garbage.pem", "-----BEGIN CERTIFICATE-----\nnothing of the kind\n-----END CERTIFICATE-----\n");
	append_to_file("$dir/empty.pem", '');
	my %files = (
		'a CA file that is missing' => trust('missing'), 'a CA file that is empty' => trust('empty'), 'a CA file that is garbage' => trust('garbage'), 'a CA file that is a directory' => qq({"ca_file": "$dir"}),
		'a client certificate that is missing' => qq({"ca_file": "$dir/ours.pem", "client_cert": "$dir/missing.pem", "client_key": "$dir/client.key"}),
		'a client key that is missing' => qq({"ca_file": "$dir/ours.pem", "client_cert": "$dir/client.pem", "client_key": "$dir/missing.key"}),
		'a client key of another certificate' => qq({"ca_file": "$dir/ours.pem", "client_cert": "$dir/client.pem", "client_key": "$dir/stranger.key"}),
		'a client key with a password' => qq({"ca_file": "$dir/ours.pem", "client_cert": "$dir/client.pem", "client_key": "$dir/locked.key"}));
	my $p = start_tls('good');

	for my $words (sort keys %files)
	{
		my $id = go(destination($p->{url}, tls => $files{$words}), 'prepared', 'blocked');
		is(story($id), 'prepared blocked bad_trust not_sent/bad_trust', "$words: blocked, not tried again");
	}
	is(requests($p), 0, 'and no request arrived');
}

# ---------------------------------------------------------------------------
# Client certificates
# ---------------------------------------------------------------------------
{
	my $p = start_tls('good', '--client-ca', "$dir/ours.pem");
	my $with = sub { qq({"ca_file": "$dir/ours.pem", "client_cert": "$dir/$_[0].pem", "client_key": "$dir/$_[0].key"}) };
	my $id = go(destination($p->{url}, tls => $with->('client')), 'confirmed', 'none');

	is(story($id), 'confirmed none - confirmed/confirmed+', 'a client certificate that is asked for and given: confirmed');
	is(effects($p, $id), 1, 'and executed');

	# TLS 1.3: the client is done before the server looks at its certificate, and has sent.
	for my $case ([ 'no client certificate', $ours ], [ "another CA's client certificate", $with->('stranger') ])
	{
		my ($words, $tls) = @$case;
		$id = go(destination($p->{url}, tls => $tls), 'needs_reconciliation', 'review');
		like(story($id), qr{^needs_reconciliation review outcome_unknown unknown/connection_lost\+$}, "TLS 1.3, $words: the request has left, and the outcome is unknown");
		is(scalar(received($p, $id)), 0, "TLS 1.3, $words: the server has not read it");
	}

	# A connection that was opened with a certificate is not for those without.
	my $keyed = destination($p->{url}, tls => $with->('client'), keyed => 1);
	my $bare = destination($p->{url}, tls => $ours, keyed => 1, attempts => 2);
	go($keyed, 'confirmed', 'none', 2);
	$id = go($bare, 'needs_reconciliation', 'review');
	is(scalar(received($p, $id)), 0, 'a kept connection with a client certificate is not used by a service without one');
	cmp_ok(scalar(attempts_of($node, $id)), '==', 2, 'which has tried twice');
}

# ---------------------------------------------------------------------------
# Servers of openssl: versions of TLS, and resumed sessions
# ---------------------------------------------------------------------------

# Start one; its answer to GET is a page that tells of the session.  Returns { port, url, handle, said }.
my @servers;

sub start_openssl
{
	my ($certificate, @more) = @_;
	my $free = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1) or die "could not listen: $!";
	my $s = { port => $free->sockport, said => '' };
	close $free;
	$s->{handle} = IPC::Run::start([ 'openssl', 's_server', '-4', '-accept', "127.0.0.1:$s->{port}", '-cert', "$dir/$certificate.pem", '-key', "$dir/$certificate.key", @more ], '<', \undef, '>&', \$s->{said});
	push @servers, $s;
	$s->{url} = "https://127.0.0.1:$s->{port}";
	poll(sub { $s->{handle}->pump_nb; $s->{said} =~ /ACCEPT/ }, "openssl s_server @more listens", 10);
	return $s;
}

END
{
	my $status = $?;
	for my $s (@servers) { $s->{handle}->kill_kill if $s->{handle}; }
	$? = $status;
}

# Whether openssl itself can speak to such a server.
sub reachable
{
	my ($s, @options) = @_;
	my $said = '';
	IPC::Run::run([ 'openssl', 's_client', '-connect', "127.0.0.1:$s->{port}", @options ], '<', \"Q\n", '>&', \$said);
	return $said =~ /Protocol *: *TLSv|New, TLSv/ && $said !~ /no peer certificate available/;
}

for my $version (qw(tls1 tls1_1))
{
	SKIP:
	{
		my $s = eval { start_openssl('good', '-www', "-$version", '-cipher', 'ALL:@SECLEVEL=0') };
		skip "openssl here cannot serve -$version: $@", 2 unless $s;
		skip "openssl here does not speak -$version any more", 2 unless reachable($s, "-$version", '-cipher', 'ALL:@SECLEVEL=0');
		my $id = go(destination($s->{url}, tls => $ours, request => 'GET /{refund_id}{?amount}'), 'failed', 'none');
		is(story($id), 'failed none retries_exhausted' . ' not_sent/tls' x 3, "a server that only speaks -$version: not sent");
		my $seen = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $s->{port});
		ok($seen, 'although it is there');
	}
}
for my $version (qw(tls1_2 tls1_3))
{
	my $s = start_openssl('good', '-www', "-$version");
	my $id = go(destination($s->{url}, tls => $ours, request => 'GET /{refund_id}{?amount}'), 'confirmed', 'none');
	is(story($id), 'confirmed none - confirmed/confirmed+', "a server that only speaks -$version: confirmed");
}

# TLS 1.2: the server looks at the client's certificate within the handshake.
{
	my $s = start_openssl('good', '-www', '-tls1_2', '-Verify', '1', '-verify_return_error', '-CAfile', "$dir/ours.pem");
	my $id = go(destination($s->{url}, tls => $ours, request => 'GET /{refund_id}{?amount}'), 'failed', 'none');
	is(story($id), 'failed none retries_exhausted' . ' not_sent/tls' x 3, 'TLS 1.2, no client certificate: not sent');
	$id = go(destination($s->{url}, tls => qq({"ca_file": "$dir/ours.pem", "client_cert": "$dir/client.pem", "client_key": "$dir/client.key"}), request => 'GET /{refund_id}{?amount}'), 'confirmed', 'none');
	is(story($id), 'confirmed none - confirmed/confirmed+', 'TLS 1.2, with it: confirmed');
}

# Fresh connections resume the session of an earlier one.
for my $version (qw(tls1_2 tls1_3))
{
	my $s = start_openssl('good', '-www', "-$version");
	my $name = destination($s->{url}, tls => $ours, request => 'GET /{refund_id}{?amount}');
	my @ids = go($name, 'confirmed', 'none', 12);
	my @pages = map { $node->safe_psql('postgres', "SELECT convert_from(body, 'UTF8') FROM actionledger.attempt WHERE action_id = $_") } @ids;
	my $resumed = grep { /^Reused, TLSv/m } @pages;
	my $new = grep { /^New, TLSv/m } @pages;

	is($resumed + $new, 12, "$version: twelve actions, twelve handshakes");
	cmp_ok($resumed, '>=', 10, "$version: of which $resumed were resumed");
	is(story(scalar go(destination($s->{url}, tls => trust('theirs'), request => 'GET /{refund_id}{?amount}'), 'failed', 'none')), 'failed none retries_exhausted' . ' not_sent/tls' x 3,
		"$version: but not for a service that trusts another CA");
}

# ---------------------------------------------------------------------------
# http only where the URL says so
# ---------------------------------------------------------------------------
{
	my $plain = start_provider();
	my $id = go(destination($plain->{url} =~ s/^http:/https:/r, tls => $ours, timeout => '700ms'), 'failed', 'none');
	is(story($id), 'failed none retries_exhausted' . ' not_sent/timeout_before_send' x 3, 'https to a server without TLS, which waits for more: not sent');
	is(requests($plain), 0, 'and not sent in plain text either');
	my $blunt = start_raw_server(sub { my ($c) = @_; sysread $c, my $hello, 1000; syswrite $c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"; });
	$id = go(destination($blunt->{url} =~ s/^http:/https:/r, tls => $ours), 'failed', 'none');
	is(story($id), 'failed none retries_exhausted' . ' not_sent/tls' x 3, 'https to a server that answers in plain text: not sent, and its answer is none');

	$id = go(destination($plain->{url}), 'confirmed', 'none');
	is(story($id), 'confirmed none - confirmed/confirmed+', 'http where the URL says so');

	$id = go(destination($good->{url} =~ s/^https:/http:/r), 'needs_reconciliation', 'review');
	like(story($id), qr{^needs_reconciliation review outcome_unknown unknown/\w+\+$}, 'http to a server with TLS: it has left');
	is(scalar(received($good, $id)), 0, 'but was not understood');

	my ($rc) = $node->psql('postgres', "SELECT actionledger.create_service('plain', '$plain->{url}', '{\"tls\": $ours}')");
	isnt($rc, 0, 'TLS options make no sense with http');

	# Neither a redirect nor a header changes the scheme.
	my $before = requests($plain);
	for my $do ("status:301;Location:$plain->{url}/unkeyed/refunds", "status:503;Location:$plain->{url}/;Alt-Svc:h2=%2522:$plain->{port}%2522;Strict-Transport-Security:max-age=0")
	{
		$id = go(destination($good->{url}, tls => $ours, do => $do), 'needs_reconciliation', 'review');
		is(scalar(received($good, $id)), 1, 'a redirect from https to http: one request');
	}
	is(requests($plain), $before, 'and none in plain text');
}

$node->stop;
done_testing();
