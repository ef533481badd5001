# Where a request may go: hostile base URLs, addresses in disguise, arguments that
# try to break out, redirects, and a name server that changes its mind.
#
# Listeners stand where a mistake would lead, and resolver.so notes every
# connection that any process of the server tries.
use strict;
use warnings;
no warnings 'qw';
use IO::Select;
use IO::Socket::IP;
use Test::More;
use lib 'test/lib';
use Ledger;
use Names;

my $node = start_server_with_names();
my $p = start_provider();
my $n = 0;

set_names('# nothing yet');
$node->safe_psql('postgres', q{CREATE FUNCTION code(statement text) RETURNS text LANGUAGE plpgsql AS
  $$ BEGIN EXECUTE statement; RETURN 'ok'; EXCEPTION WHEN OTHERS THEN RETURN sqlstate; END $$;
  CREATE FUNCTION try_perform(tool text, args jsonb) RETURNS text LANGUAGE plpgsql AS
  $$ BEGIN RETURN (SELECT action_id FROM actionledger.perform(tool, args)); EXCEPTION WHEN OTHERS THEN RETURN coalesce(nullif(sqlstate, ''), 'none'); END $$});

# The SQLSTATE of a statement, or "ok".
sub code
{
	my ($statement) = @_;
	return $node->safe_psql('postgres', "SELECT public.code(\$statement\$$statement\$statement\$)");
}

# A text as a literal, with its escapes.
sub literal
{
	my ($text) = @_;
	return "E'" . ($text =~ s/(['\\])/\\$1/gr =~ s/([^ -~])/sprintf '\\x%02x', ord $1/ger) . "'";
}

# A text in UTF-8 as a string in JSON, with its escapes.
sub json
{
	my ($text) = @_;
	return '"' . ($text =~ s/(["\\])/\\$1/gr =~ s/([\x00-\x1f\x7f])/sprintf '\\u%04x', ord $1/ger) . '"';
}

# A socket that listens; nobody ever accepts.
sub listener
{
	my ($address, $port) = @_;
	return IO::Socket::IP->new(LocalHost => $address, LocalPort => $port // 0, Listen => 200, ReuseAddr => 1, Proto => 'tcp');
}

# Whether somebody has connected to a listener.
sub visited { return scalar IO::Select->new($_[0])->can_read($_[1] // 0); }

# A service at a URL, a tool and an action; returns the action's number.
#   allow_private => 1; do => the provider's behaviour; timeout, attempts => of the tool
sub send_to
{
	my ($url, %o) = @_;
	my $name = 'to-' . ++$n;
	my $private = $o{allow_private} ? 'true' : 'false';

	my $do = $o{do} // 'ok';
	my $retry = defined $o{attempts} ? ", \"retry\": {\"attempts\": $o{attempts}, \"base\": \"100ms\", \"cap\": \"2s\"}" : '';

	# in one session: there are many
	return (split /\n/, $node->safe_psql('postgres', qq{
	  SELECT actionledger.create_service('$name', '$url', '{"allow_private": $private, "idempotency": "none"}');
	  SELECT actionledger.create_tool('$name', '$name', 'POST /unkeyed/refunds?do=$do', identity => '{id}', input => '{"required": ["id"], "properties": {"id": {"type": "string"}}}',
	    options => '{"timeout": "@{[ $o{timeout} // '2s' ]}"$retry}');
	  SELECT action_id FROM actionledger.perform('$name', '{"id": "$name"}')}))[-1];
}

# What became of an action, in a line.
sub state_of
{
	my ($id) = @_;
	my $row = action_row($node, $id);
	return join ' ', map { $_ // '-' } @$row{qw(status next_step error_code)};
}

# ---------------------------------------------------------------------------
# Base URLs that are refused
# ---------------------------------------------------------------------------
{
	my @refused = (
		[ 'user information', qw(https://user@api.test https://user:word@api.test https://@api.test https://api.test@127.0.0.1 https://api.test:443@127.0.0.1
			https://api.test%40127.0.0.1 https://a@b@c.test) ],
		[ 'a fragment', qw(https://api.test#x https://api.test/# https://api.test#@127.0.0.1) ],
		[ 'a query', qw(https://api.test?x=1 https://api.test/v1? https://api.test?@127.0.0.1/) ],
		[ 'a control character', "https://api.test\r\nX-Evil: 1", "https://api.test/\r\nHost: evil.test", "https://api.test/\n", "\nhttps://api.test", "https://api\ttest",
			"https://api.test/\x01", "https://api.test/\x7f", "https://api.test\x1b" ],
		[ 'a space', 'https://api test', 'https://api.test/a b', ' https://api.test', 'https://api.test ' ],
		[ 'another scheme', qw(ftp://api.test file:///etc/passwd gopher://127.0.0.1:70/_x dict://127.0.0.1:11211/stats ldap://api.test unix:///run/x.sock
			javascript:alert(1) data:text/plain,x ws://api.test httpss://api.test http:/api.test http:api.test //api.test /etc/passwd api.test HTTP:\\\\api.test), '' ],
		[ 'no host', qw(https:// https:/// https://:443 https://:443/x https:///etc/passwd https://?x https://#x) ],
		[ 'a backslash', 'https://api.test\\@127.0.0.1', 'https://api.test\\.evil.test', 'https:\\\\api.test', 'https://api.test/a\\b' ],
		[ 'dot segments', qw(https://api.test/.. https://api.test/../x https://api.test/a/./b https://api.test/a/%2e%2e/b https://api.test/%2E./x https://api.test/a%2f..%2fb https://api.test/..;x/y) ],
		[ 'a port that is none', qw(https://api.test:0 https://api.test:00 https://api.test:65536 https://api.test:99999 https://api.test:4294967739 https://api.test:-1 https://api.test:+443 https://api.test:44x
			https://api.test: https://api.test:80:80 https://api.test:0x50 https://api.test:%38%30) ],
		[ 'an odd host', qw(https://api..test https://.test https://api.test. https://127.0.0.1. https://a,b.test https://*.test https://a!b.test https://%61pi.test https://127.0.0.1%2f.test
			https://127.0.0.1%00.test https://api$test https://{host}.test), "https://\xc3\xa4pi.test", "https://127\xe3\x80\x820\xe3\x80\x820\xe3\x80\x821", "https://\xe2\x91\xa0\xe2\x91\xa1.test" ],
		[ 'brackets without an address', qw(https://[ https://[] https://[::1 https://[::g] https://[127.0.0.1] https://[fe80::1%25eth0] https://[fe80::1%eth0] https://[::1]x https://[::1].test https://[v1.x] https://::1 https://[[::1]]) ],
		[ 'a placeholder', 'https://api.test/{x}', 'https://api.test/{+x}', 'https://api.test/}' ]);
	my $count = 0;

	for my $group (@refused)
	{
		my ($words, @urls) = @$group;
		my @odd = grep { code("SELECT actionledger.create_service('refused', " . literal($_) . ", '{}')") ne 'LG015' } @urls;

		$count += @urls;
		is(join(' ', map { literal($_) } @odd), '', "$words: " . scalar(@urls) . ' base URLs are refused (LG015)');
	}
	cmp_ok($count, '>', 80, "$count base URLs in all");
	is(code(q{SELECT actionledger.create_service('refused', E'https://api.test/\000', '{}')}), '22021', 'NUL does not even get into a text');
	is($node->safe_psql('postgres', "SELECT count(*) FROM actionledger.services WHERE name = 'refused'"), '0', 'nothing of it was kept');

	# The same through a change of a service.
	$node->safe_psql('postgres', "SELECT actionledger.create_service('kept', 'https://api.test', '{}')");
	is(code(q{SELECT actionledger.alter_service('kept', '{"base_url": "https://user@api.test"}')}), 'LG015', 'a change to such a URL is refused');
	is(code(q{SELECT actionledger.alter_service('kept', '{"base_url": "https://api.test/\r\nX: y"}')}), 'LG015', 'with a line break too');
	is($node->safe_psql('postgres', "SELECT base_url FROM actionledger.services WHERE name = 'kept'"), 'https://api.test', 'and leaves what was there');
}

# ---------------------------------------------------------------------------
# Requests of tools that would make the host longer, or another one
# ---------------------------------------------------------------------------
{
	my @requests = ('POST {a}', 'POST {+a}', 'POST {.a}', 'POST {;a}', 'POST {/a}', 'POST {?a}', 'POST .evil.test/', 'POST @127.0.0.1/', 'POST :1@127.0.0.1/', 'POST http://127.0.0.1/',
		'POST //127.0.0.1\\x', 'POST //127.0.0.1/x', 'POST //{a}', 'POST //', 'POST /x#y', 'POST /../x', 'POST /%2e%2e/x', 'POST /a%2f../x', 'GET /x HTTP/1.1', "POST /x\r\nX-Evil: 1", "POST\r\nX: y /x", 'CONNECT /x', 'PO\\tST /x');

	is(join(' | ', grep { code("SELECT actionledger.create_tool('refused', 'kept', " . literal($_) . ", input => '{\"properties\": {\"a\": {\"type\": \"string\"}}}')") ne 'LG015' } @requests), '',
		scalar(@requests) . ' requests that are no path of the service are refused (LG015)');
}

# ---------------------------------------------------------------------------
# Addresses that are refused, however they are written
# ---------------------------------------------------------------------------
{
	my $four = listener('127.0.0.1') or die "could not listen: $!";
	my $port = $four->sockport;
	my $six = listener('::1', $port);
	my @hosts = qw(127.0.0.1 0x7f000001 0x7F.0.0.1 2130706433 127.1 127.0.1 0177.0.0.1 017700000001 0x7f.1 127.255.255.254 0 0.0.0.0 0x0 1
		[::1] [0:0:0:0:0:0:0:1] [::] [::ffff:127.0.0.1] [::ffff:7f00:1] [::127.0.0.1] [64:ff9b::7f00:1] [64:ff9b::127.0.0.1] [2002:7f00:1::] [2002:a9fe:a9fe::1] [2001::1]
		169.254.169.254 0xa9fea9fe 2852039166 [::ffff:169.254.169.254] [fd00:ec2::254]
		10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1 100.64.0.1 100.127.255.255 198.18.0.1 192.0.0.1
		[fe80::1] [fec0::1] [fc00::1] [fd12:3456::1] [64:ff9b:1::1] 224.0.0.1 239.255.255.255 [ff02::1] 255.255.255.255 240.0.0.1
		localhost LOCALHOST a.localhost ip6-loopback.test loopback.test mapped.test nat64.test metadata.test private.test zero.test shared.test);
	my %action;

	set_names('ip6-loopback.test ::1', 'loopback.test 127.0.0.1', 'mapped.test ::ffff:127.0.0.1', 'nat64.test 64:ff9b::7f00:1', 'metadata.test 169.254.169.254',
		'private.test 10.1.2.3 192.168.1.1 fd00::1', 'zero.test 0.0.0.0', 'shared.test 100.100.100.200');
	$action{$_} = send_to("http://$_:$port", timeout => '5s') for @hosts;
	eval { poll_sql($node, "SELECT count(*) = @{[ scalar @hosts ]} FROM actionledger.action WHERE next_step = 'blocked'", 'all are blocked', 60); 1 } or diag $@;
	for my $host (@hosts)
	{
		my $id = $action{$host};
		my ($attempt, @more) = attempts_of($node, $id);

		is_deeply([ state_of($id), @$attempt{qw(verdict category)}, $attempt->{sent} ? 1 : 0, scalar @more ],
			[ 'prepared blocked address_refused', 'not_sent', 'address_refused', 0, 0 ], "$host: refused, blocked, not tried again");
	}
	cmp_ok(scalar @hosts, '>', 40, scalar(@hosts) . ' of them');
	ok(!visited($four), 'nobody connected to 127.0.0.1');
	SKIP:
	{
		skip 'no IPv6 here', 1 unless $six;
		ok(!visited($six), 'nobody connected to ::1');
	}
	is_deeply([ map { $_->[2] } connects() ], [], 'nobody tried to connect to anything');
	cmp_ok(scalar(lookups('metadata.test')), '==', 1, 'the names were looked up, by the library');

	# What the listeners and the library would have seen.
	send_to("http://0x7f000001:$port", allow_private => 1, timeout => '500ms');
	ok(visited($four, 20), 'with allow_private the listener is reached');
	SKIP:
	{
		skip 'no IPv6 here', 1 unless $six;
		send_to("http://ip6-loopback.test:$port", allow_private => 1, timeout => '500ms');
		ok(visited($six, 20), 'and the other one, by a name');
	}
	cmp_ok(scalar(connects('127\.0\.0\.1')), '>=', 1, 'and the library notes it');

	# allow_private opens what is private, and no more.
	my %never = map { $_ => send_to("http://$_:$port", allow_private => 1, timeout => '5s') } qw(0 0.0.0.0 1 224.0.0.1 240.0.0.1 255.255.255.255 [::] [::127.0.0.1] [ff02::1] [64:ff9b::1] [::ffff:0.0.0.0] 192.0.0.1 zero.test);
	for my $host (sort keys %never)
	{
		eval { settle($node, $never{$host}, 'prepared', 'blocked', 20) };
		is(state_of($never{$host}), 'prepared blocked address_refused', "$host: refused with allow_private too");
	}
	is_deeply([ connects('(?!127\.0\.0\.1$|::1$).*') ], [], 'and no connection was tried');
}

# ---------------------------------------------------------------------------
# Arguments that try to break out
# ---------------------------------------------------------------------------
{
	my $elsewhere = listener('127.0.0.1') or die "could not listen: $!";
	my $other = $elsewhere->sockport;
	my @hostile = ("\r\nX-Evil: 1", "a\r\n\r\nGET /evil HTTP/1.1\r\nHost: x\r\n\r\n", "a\nb", "a\rb", "\t", "a\x7fb", "\x01", '..', '.', '../..', '../../admin', '..\\..\\admin', '%2e%2e', '%2E%2e/admin', '..%2fadmin', '%2e', '..;x/admin',
		"//127.0.0.1:$other/x", "/\\127.0.0.1:$other", "\@127.0.0.1:$other/", ":x\@127.0.0.1:$other", "http://127.0.0.1:$other/", '?x=1', 'a?do=status:500', '&do=status:500', '#', 'a#b', '#@x', ';x=1',
		'%00', '\\u0000', '\\x00', '%0d%0aX-Evil:1', '%0D%0A', ' ', 'a b', '{secret:key}', '{+a}', '{_key}', '%', '%zz', '%%', "\xc3\xa4", "\xe2\x80\xae", '"><script>', "' OR 1=1 --", '$(id)', '`id`', '*', '/', '//', 'HTTP/1.1', 'x' x 3000);
	my %tools = (
		path => 'POST /unkeyed/items/{a}/end', reserved => 'POST /unkeyed/items/{+a}/end', query => 'POST /unkeyed/items{?a}', next => 'POST /unkeyed/items?first=1{&a}', segment => 'POST /unkeyed/items{/a}/end',
		dot => 'POST /unkeyed/items/x{.a}', matrix => 'POST /unkeyed/items/x{;a}', header => 'POST /unkeyed/items', identity => 'POST /unkeyed/items', form => 'POST /unkeyed/items', json => 'POST /unkeyed/items', first => 'POST /{+a}');
	my %options = (header => '{"headers": {"X-Text": "{a}"}, "summary": "{n}"}', form => '{"form": {"a": "{a}", "n": "{n}"}}', json => '{"json": {"a": "{a}", "n": "{n}"}}');
	my (%of, %refusals);
	my $before = scalar truth($p);

	$node->safe_psql('postgres', qq{SELECT actionledger.create_service('out', '$p->{url}', '{"allow_private": true, "idempotency": "none"}')});
	for my $tool (sort keys %tools)
	{
		my $identity = $tool eq 'identity' ? 'it:{a}' : 'it:{n}';
		$node->safe_psql('postgres', qq{SELECT actionledger.create_tool('out-$tool', 'out', '$tools{$tool}', identity => 'out-$tool-$identity',
		  input => '{"required": ["a", "n"], "properties": {"a": {"type": "string"}, "n": {"type": "integer"}}}', options => '@{[ $options{$tool} // '{}' ]}')});
		my $values = join ', ', map { literal('{"a": ' . json($hostile[$_]) . ", \"n\": $_}") . '::jsonb' } 0 .. $#hostile;
		my @results = split /\n/, $node->safe_psql('postgres', "SELECT public.try_perform('out-$tool', args) FROM unnest(ARRAY[$values]) WITH ORDINALITY u(args, i) ORDER BY i");
		for my $i (0 .. $#hostile)
		{
			if ($results[$i] =~ /^\d+$/) { $of{ $results[$i] } = [ $tool, $hostile[$i] ]; }
			else { $refusals{$tool}{ $hostile[$i] } = $results[$i]; }
		}
	}
	is_deeply([ grep { !/^LG0(?:04|08|09)$/ } map { values %$_ } values %refusals ], [], 'what is refused is refused with a code of ours')
	  or diag(explain(\%refusals));

	# NUL in its only form in JSON is refused before it is an argument.
	is(code(q{SELECT actionledger.perform('out-path', '{"a": "a\u0000b", "n": 1}')}), '22P05', 'NUL in JSON is no jsonb');

	# What must be refused, where it would mean something.
	for my $tool (qw(path segment reserved first))
	{
		is_deeply([ grep { !$refusals{$tool}{$_} } '..', '.', '../..', '../../admin', '..;x/admin' ], [], "$tool: dot segments are refused");
	}
	for my $tool (qw(path segment query next dot matrix reserved first))
	{
		is_deeply([ grep { !$refusals{$tool}{$_} } "\r\nX-Evil: 1", $hostile[1], "a\nb", "a\rb" ], [], "$tool: line breaks are refused");
	}
	is_deeply([ grep { !$refusals{first}{$_} } "//127.0.0.1:$other/x", "/\\127.0.0.1:$other", '/', '//' ], [], 'first: a path that begins with two slashes is refused');
	is_deeply([ grep { !$refusals{reserved}{$_} } '%2e%2e', '%2E%2e/admin', '..%2fadmin', '%2e', '#', 'a#b', '#@x' ], [], 'reserved: encoded dots and fragments are refused');
	is_deeply([ grep { !$refusals{header}{$_} } "\r\nX-Evil: 1", $hostile[1], "a\nb", "a\rb", "\x01", "a\x7fb", "\xc3\xa4", '{secret:key}' ], [], 'header: control characters, other than ASCII, and references to secrets are refused');
	is_deeply([ grep { !$refusals{identity}{$_} } "\r\nX-Evil: 1", $hostile[1], "a\nb", "a\rb", "\t", "\x01", "a\x7fb" ], [], 'identity: control characters are refused');

	# The rest is sent, and stays in its place.
	poll_sql($node, "SELECT count(*) = 0 FROM actionledger.action a JOIN actionledger.tool USING (tool_id) WHERE name LIKE 'out-%' AND status IN ('prepared', 'submitted') AND next_step <> 'blocked'",
		'all are settled', 120);
	my %arrived;
	for my $t (grep { $_->{ev} eq 'received' } (truth($p))[ $before .. scalar(truth($p)) - 1 ])
	{
		my ($id) = ($t->{action} // '') =~ m{/(\d+)$};
		push @{ $arrived{ $id // 'none' } }, $t;
	}
	is_deeply([ grep { !$of{$_} } keys %arrived ], [], 'nothing arrived that is no action: no request was split');
	is_deeply([ grep { @{ $arrived{$_} // [] } != 1 } keys %of ], [], scalar(keys %of) . ' actions arrived, once each');
	my %shape = (
		path => qr{^/unkeyed/items/([^/?#]+)/end$}, segment => qr{^/unkeyed/items/([^/?#]*)/end$}, query => qr{^/unkeyed/items\?a=([^&#?/]*)$}, next => qr{^/unkeyed/items\?first=1&a=([^&#?/]*)$},
		dot => qr{^/unkeyed/items/x\.([^/?#]*)$}, matrix => qr{^/unkeyed/items/x;a=([^/?#;]*)$});
	for my $tool (sort keys %shape)
	{
		my @odd;
		for my $id (grep { $of{$_}[0] eq $tool } keys %of)
		{
			my $path = $arrived{$id}[0]{path} // '';
			my $found = $path =~ $shape{$tool} ? $1 =~ s/%([0-9A-F]{2})/chr hex $1/ger : "elsewhere: $path";
			push @odd, "$path for $of{$id}[1]" unless $found eq $of{$id}[1];
		}
		is_deeply(\@odd, [], "$tool: every text that is sent stays in its place and says the same when it is decoded");
	}
	for my $tool (qw(header identity form json))
	{
		is_deeply([ grep { $_ ne '/unkeyed/items' } map { $arrived{$_}[0]{path} } grep { $of{$_}[0] eq $tool } keys %of ], [], "$tool: the path is the tool's own");
	}
	is_deeply([ grep { !m{^/unkeyed/items/[!-~]+/end$} } map { $arrived{$_}[0]{path} } grep { $of{$_}[0] eq 'reserved' } keys %of ], [], 'reserved: what is sent is printable, and between its neighbours');
	is_deeply([ grep { !m{^/[!-~]*$} } map { $arrived{$_}[0]{path} } grep { $of{$_}[0] eq 'first' } keys %of ], [], 'a whole path of an argument: a path of the same host');
	ok(!visited($elsewhere), 'nobody connected to the port that the arguments name');
}

# ---------------------------------------------------------------------------
# Redirects
# ---------------------------------------------------------------------------
{
	my $metadata = 'http://169.254.169.254/latest/meta-data/iam/security-credentials/';
	my $elsewhere = start_provider();
	my $trap = listener('127.0.0.1') or die "could not listen: $!";
	my @targets = ($metadata, "http://127.0.0.1:" . $trap->sockport . '/', "$elsewhere->{url}/unkeyed/refunds", 'file:///etc/passwd', 'gopher://127.0.0.1:' . $trap->sockport . '/_x', '//169.254.169.254/x');
	my %action;

	for my $status (301, 302, 303, 307, 308)
	{
		$action{"$status to $_"} = [ $status, send_to($p->{url}, allow_private => 1, do => "status:$status;Location:$_") ] for @targets;
	}
	for my $words (sort keys %action)
	{
		my ($status, $id) = @{ $action{$words} };
		$status > 303 ? settle($node, $id, 'failed', 'none') : settle($node, $id, 'needs_reconciliation', 'review');
		my ($attempt, @more) = attempts_of($node, $id);
		is_deeply([ $attempt->{http_status}, scalar @more, scalar received($p, $id) ], [ $status, 0, 1 ], "$words: the answer, and no more");
	}
	ok(!visited($trap), 'a redirect to another port is not followed');
	is(scalar(truth($elsewhere)), 0, 'nor one to another server');
	is_deeply([ connects('169\..*') ], [], 'nor one to the metadata service');
}

# ---------------------------------------------------------------------------
# A name server that changes its mind
# ---------------------------------------------------------------------------
# 93.184.216.34 stands for a public server: connections to it go to the provider.
{
	my $public = start_provider();
	my $trap = IO::Socket::IP->new(LocalHost => '127.0.0.2', LocalPort => $public->{port}, Listen => 200, ReuseAddr => 1) or die "could not listen: $!";
	my @map = ('map 93.184.216.34 127.0.0.1');
	my @rules = ('pay.test 93.184.216.34 | 127.0.0.2', 'inner.test 127.0.0.1 | 0.0.0.0', 'mixed.test 127.0.0.2 93.184.216.34 10.0.0.7', 'worse.test 127.0.0.2 10.0.0.7 169.254.169.254',
		'six.test ::ffff:127.0.0.2 64:ff9b::7f00:2 93.184.216.34', 'later.test fail | 127.0.0.2', 'mended.test fail | 93.184.216.34', 'slow.test hang:1500 127.0.0.2');
	my $end = scalar connects();
	my $since = sub { my @all = connects(); return map { "$_->[2]:$_->[3]" } @all[ $end .. $#all ]; };

	set_names(@map, @rules);

	# The first answer is good; the second attempt comes when libcurl has forgotten it (60 s).
	my $rebound = send_to("http://pay.test:$public->{port}", do => 'status:429;Retry-After:61', timeout => '5s');
	my $inner = send_to("http://inner.test:$public->{port}", do => 'status:429;Retry-After:61', timeout => '5s', allow_private => 1);

	my %now = map { $_ => send_to("http://$_.test:$public->{port}", timeout => '5s', attempts => 60) } qw(mixed worse six later mended slow);
	my %wanted = (mixed => 'confirmed none -', six => 'confirmed none -', mended => 'confirmed none -',
		worse => 'prepared blocked address_refused', later => 'prepared blocked address_refused', slow => 'prepared blocked address_refused');
	for my $name (sort keys %now)
	{
		eval { poll(sub { state_of($now{$name}) eq $wanted{$name} }, 'settled', 60) };
		is(state_of($now{$name}), $wanted{$name}, "$name: $wanted{$name}");
		is(scalar(received($public, $now{$name})), $wanted{$name} =~ /^confirmed/ ? 1 : 0, "$name: received or not");
	}
	# libcurl may remember for a while that there was no answer
	like(join(' ', map { $_->{category} } attempts_of($node, $now{later})), qr/^(?:resolve )+address_refused$/, 'a name that resolves only later, to a forbidden address: refused then');

	for my $id ($rebound, $inner)
	{
		poll(sub { scalar(attempts_of($node, $id)) == 1 && state_of($id) eq 'prepared send -' }, 'the first attempt is answered: come again');
		is(scalar(received($public, $id)), 1, 'rebinding: the first attempt is received');
	}
	cmp_ok(scalar(lookups('pay\.test')), '==', 1, 'of one lookup');
	settle($node, $_, 'prepared', 'blocked', 120) for $rebound, $inner;
	for my $id ($rebound, $inner)
	{
		my @attempts = attempts_of($node, $id);
		is_deeply([ map { "$_->{verdict} $_->{category}" } @attempts ], [ 'rejected throttled', 'not_sent address_refused' ], 'rebinding: the second attempt is refused');
		is(scalar(received($public, $id)), 1, 'rebinding: and not received');
	}
	is(scalar(lookups('pay\.test')), 2, 'although the name was looked up again');
	ok(!visited($trap), 'no byte to the forbidden address');
	is_deeply([ grep { !/^(?:93\.184\.216\.34|127\.0\.0\.1):$public->{port}$/ } $since->() ], [], 'no other connection was tried');
}

$node->stop;
done_testing();
