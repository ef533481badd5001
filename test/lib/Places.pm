# Places.pm: where requests go to end in ways that the provider does not have:
# ports without a server, TLS that fails, connections that are cut short.
package Places;

use strict;
use warnings;
use Exporter 'import';
use Fcntl qw(O_APPEND O_CREAT O_WRONLY);
use IO::Socket::INET;
use JSON::PP;
use Ledger;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Socket qw(SOL_SOCKET SO_LINGER);
use Time::HiRes qw(sleep);

our @EXPORT = qw(open_places raw_truth);

use constant COMPLETE => qr/\r\n\r\n.*\}/s;	# a request with its JSON body, as far as it is small
use constant HELLO => qr/^\x16/;				# of TLS

my $folder;
my @held;						# sockets
my @once;						# processes

# Open all places: { name => { url, tls, private } } and the providers, which have
# truth logs.  $p: the plain provider; names: for whom there is a server that
# loses one connection and is gone.
sub open_places
{
	my ($p, @names) = @_;
	$folder = PostgreSQL::Test::Utils::tempdir();
	my ($crt, $key) = certificate('here', 'IP:127.0.0.1');
	my ($other_crt, $other_key) = certificate('other', 'DNS:elsewhere.invalid');
	my $tls = start_provider('--tls', $crt, $key);
	my $misnamed = start_provider('--tls', $other_crt, $other_key);
	my $mutual = start_provider('--tls', $crt, $key, '--client-ca', $other_crt);
	my %place = (
		here => { url => $p->{url} },
		public => { url => $p->{url}, private => JSON::PP::false },
		closed => { url => 'http://127.0.0.1:' . PostgreSQL::Test::Cluster::get_free_port() },
		nameless => { url => 'http://no-such-host.invalid' },
		full => { url => full_queue() },
		tls_plain => { url => with_scheme('https', $p) },
		plain_tls => { url => with_scheme('http', $tls) },
		tls => { url => $tls->{url}, tls => { ca_file => $crt } },
		untrusted => { url => $tls->{url} },
		misnamed => { url => $misnamed->{url}, tls => { ca_file => $other_crt } },
		no_ca_file => { url => $tls->{url}, tls => { ca_file => "$folder/none.crt" } },
		mutual => { url => $mutual->{url}, tls => { ca_file => $crt } });
	my %raw = (
		shut => sub { close $_[0] },
		rst => sub { reset_connection($_[0]) },
		part => sub { sysread $_[0], my $some, 20; reset_connection($_[0]) },
		tls_http => sub { read_until($_[0], HELLO); syswrite $_[0], "HTTP/1.1 400 Bad Request\r\n\r\n" },
		tls_shut => sub { read_until($_[0], HELLO); close $_[0] },
		tls_rst => sub { read_until($_[0], HELLO); reset_connection($_[0]) },
		tls_mute => sub { read_until($_[0], qr/POST /) },
		early_429 => sub { answer_early($_[0], 429) },
		early_503 => sub { answer_early($_[0], 503) },
		broken => \&answer_broken,
		big => \&answer_big);

	for my $name (sort keys %raw)
	{
		my $server = start_raw_server($raw{$name});
		$place{$name} = { url => with_scheme($name =~ /^tls/ ? 'https' : 'http', $server) };
	}
	$place{"once_$_"} = { url => once() } for @names;
	return (\%place, [ $p, $tls, $misnamed, $mutual ]);
}

# What the raw servers received and executed: [event, action, attempt], ...
sub raw_truth
{
	return map { [ split / / ] } split /\n/, -e "$folder/truth" ? slurp_file("$folder/truth") : '';
}

sub with_scheme
{
	my ($scheme, $server) = @_;
	return $server->{url} =~ s/^https?:/$scheme:/r;
}

# Make a certificate of its own issuer for a name; returns its file and its key's.
sub certificate
{
	my ($name, $for) = @_;
	system_or_bail('openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2',
		'-subj', "/CN=$name", '-addext', "subjectAltName=$for", '-keyout', "$folder/$name.key", '-out', "$folder/$name.crt");
	return ("$folder/$name.crt", "$folder/$name.key");
}

# Listen, but so that nobody gets a connection: the queue is full.
sub full_queue
{
	my $socket = listener();
	push @held, $socket, map { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $socket->sockport, Blocking => 0) } 1 .. 6;
	return 'http://127.0.0.1:' . $socket->sockport;
}

# Start a server that takes one request, loses its connection, and is gone then.
sub once
{
	my $socket = listener();
	my $pid = fork() // die "could not fork: $!";
	if ($pid == 0)
	{
		alarm 300;
		my $c = $socket->accept or POSIX::_exit(1);
		close $socket;
		log_request(read_until($c, COMPLETE), 1);
		POSIX::_exit(0);
	}
	push @once, $pid;
	return 'http://127.0.0.1:' . $socket->sockport;
}

sub listener
{
	return IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1, ReuseAddr => 1) // die "could not listen: $!";
}

END
{
	my $status = $?;
	kill 'KILL', @once;
	$? = $status;
}

# Answer at once, and only then read.
sub answer_early
{
	my ($c, $status) = @_;
	syswrite $c, "HTTP/1.1 $status Early\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
	log_request(read_until($c, COMPLETE), 0);
	return;
}

# Answer so that nobody can see where the answer should have ended: "cut" ends
# before its length, "open" has none.
sub answer_broken
{
	my ($c) = @_;
	my $request = read_until($c, COMPLETE);
	my ($shape, $status, $runs) = $request =~ /do=(\w+)%3A(\d+)%3A(\d)/ or return;
	log_request($request, $runs);
	syswrite $c, "HTTP/1.1 $status Broken\r\n" . ($shape eq 'cut' ? "Content-Length: 900\r\n\r\n{\"error\": {" : "\r\n{\"id\": \"re_1\"}");
	return;
}

# Stop reading in the middle of a big request, and reset the connection or say
# 408; take the whole of a second one.
sub answer_big
{
	my ($c) = @_;
	my $raw_server = getppid;
	my $request = read_until($c, qr/\r\n\r\n/);
	if ($request =~ /^Actionledger-Attempt: 1\r/mi)
	{
		return reset_connection($c) if $request =~ /do=reset/;
		syswrite $c, "HTTP/1.1 408 Request Timeout\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
		sleep 0.2 while getppid == $raw_server;
	}
	$request .= read_until($c, qr/\}\z/) unless $request =~ /\}\z/;
	log_request($request, 1);
	syswrite $c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
	return;
}

# Read from a connection until what has come matches, or it ends.
sub read_until
{
	my ($c, $pattern) = @_;
	my $read = '';
	while ($read !~ $pattern) { sysread $c, $read, 65536, length $read or last; }
	return $read;
}

# End a connection with a reset.
sub reset_connection
{
	my ($c) = @_;
	setsockopt $c, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0);
	close $c;
	return;
}

# Log a complete request, and whether it is executed, which what is read never is.
sub log_request
{
	my ($request, $runs) = @_;
	my ($id) = $request =~ m{^Actionledger-Action: \S+/(\d+)}mi or return;
	my ($attempt) = $request =~ /^Actionledger-Attempt: (\d+)/mi;
	sysopen my $log, "$folder/truth", O_WRONLY | O_APPEND | O_CREAT or die "could not open $folder/truth: $!";
	syswrite $log, "received $id $attempt\n";
	syswrite $log, "executed $id $attempt\n" if $runs && $request !~ m{^POST /read/};
	close $log;
	return;
}

1;
