# Reports of real trouble, section C: on the wire.
#
# Each subtest is one report: given, when, then.  What is on the wire is read where
# it arrives.  Signatures do not exist yet; what waits for them is said
# where it would be tested.
use strict;
use warnings;
use Digest::SHA qw(sha256_hex);
use HTTP::Tiny;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Socket;
use Test::More;
use Time::HiRes qw(sleep time);
use lib 'test/lib';
use Ledger;

my $node = start_server(conf => "shared_buffers = '16MB'");
my $p = start_provider();
my $elsewhere = start_provider();

# So many unknown outcomes in a row would open the breaker.
my $patient = '"breaker": {"failures": 1000}';
refund_service($node, $p, name => 'keyed', options => $patient);
refund_service($node, $p, name => 'unkeyed', honoured => 0, options => $patient);

my @unkeyed = (type => 'non_idempotent', service => 'unkeyed', mode => 'unkeyed');
my @keyed = (type => 'non_idempotent', service => 'keyed', mode => 'keyed');

# Run a script as a role in a database; returns (exit code, output, errors with SQLSTATEs).
sub run_as
{
	my ($role, $sql, %o) = @_;
	my ($out, $err) = ('', '');
	my $rc = $node->psql($o{db} // 'postgres', $sql, stdout => \$out, stderr => \$err, on_error_stop => $o{go_on} ? 0 : 1,
		extra_params => [ '-v', 'VERBOSITY=verbose', $role ? ('-U', $role) : () ]);
	return ($rc, $out, $err);
}

sub failure
{
	my ($sql, %o) = @_;
	my ($rc, $out, $err) = run_as($o{role}, $sql, %o);
	return $rc == 0 ? "no error: $out" : $err;
}

sub count_of
{
	my ($what, $db) = @_;
	return $node->safe_psql($db // 'postgres', "SELECT count(*) FROM actionledger.$what");
}

# How many connections a provider has accepted; the one that asks is not counted.
my %asked;

sub connections
{
	my ($provider) = @_;
	my $n = decode_json(HTTP::Tiny->new->get("$provider->{url}/truth")->{content})->{connections};
	return $n - ++$asked{ $provider->{url} };
}

# A body for the provider's plan, encoded twice, as it is decoded twice.
sub body
{
	my ($text) = @_;
	$text =~ s/([^A-Za-z0-9_.-])/sprintf '%%25%02X', ord $1/ge;
	return "body:$text";
}

subtest 'case 25: nobody reaches an address that was not allowed, and nobody else reads an answer' => sub {
	my ($id, %blocked);

	$node->safe_psql('postgres', 'CREATE ROLE agent LOGIN; CREATE ROLE other_agent LOGIN; CREATE ROLE stranger LOGIN; CREATE ROLE case25_operator LOGIN;
	  GRANT EXECUTE ON FUNCTION actionledger.resolve TO case25_operator');
	refund_tool($node, @keyed, name => 'case25', do => 'status:200;' . body('{"id":"re_1","card":"canary-card"}'));
	$node->safe_psql('postgres', "SELECT actionledger.grant_tool('case25', 'agent'), actionledger.grant_tool('case25', 'other_agent')");

	# --- a role without a grant
	my $before = count_of('action');
	my $wire = scalar truth($p);
	like(failure(q{SELECT actionledger.perform('case25', '{"refund_id": "stranger", "amount": 1}')}, role => 'stranger'), qr/ERROR:  LG005: /, 'a role without a grant may not perform');
	for my $sql (
		qq{SELECT actionledger.create_service('evil', '$elsewhere->{url}', '{"allow_private": true}')},
		qq{SELECT actionledger.alter_service('keyed', '{"base_url": "$elsewhere->{url}"}')},
		q{SELECT actionledger.create_tool('evil', 'keyed', 'POST /keyed/evil')},
		q{SELECT actionledger.alter_tool('case25', '{"external_ref": "$.card"}')},
		q{SELECT actionledger.grant_tool('case25', 'stranger')},
		q{INSERT INTO actionledger.service (name) VALUES ('evil')},
		qq{UPDATE actionledger.action SET url = '$elsewhere->{url}'},
		qq{UPDATE actionledger.service SET base_url = '$elsewhere->{url}'},
		q{SELECT * FROM actionledger.action}, q{SELECT * FROM actionledger.attempt}, q{SELECT * FROM actionledger.event}, q{SELECT * FROM actionledger.service}, q{SELECT * FROM actionledger.secret})
	{
		like(failure($sql, role => $_), qr/ERROR:  42501: /, "$_ may not: " . substr($sql, 0, 60)) for qw(stranger agent);
	}
	turns_pass($node, 3);
	is(count_of('action'), $before, 'no row');
	is(scalar truth($p), $wire, 'nothing on the wire');

	# --- a URL elsewhere: arguments stay below the service's origin, redirects lead nowhere
	my ($port) = $elsewhere->{port};
	$node->safe_psql('postgres', q{SELECT actionledger.create_tool('case25 path', 'unkeyed', 'POST /{+path}{?q}', 'idempotent', identity => 'path:{path}', input => '{"properties": {"path": {"type": "string"}, "q": {"type": "string"}}}')});
	for my $path ("/127.0.0.1:$port/x", "http://127.0.0.1:$port/x", "\@127.0.0.1:$port/x", ":$port/x", "\\\\127.0.0.1:$port/x", "../../x\@127.0.0.1:$port", "?\@127.0.0.1:$port/", "x#\@127.0.0.1:$port/")
	{
		my $args = encode_json({ path => $path, q => "http://127.0.0.1:$port/" });
		my ($rc, $out, $err) = run_as(undef, "SELECT action_id FROM actionledger.perform('case25 path', '$args')");
		if ($rc != 0)
		{
			like($err, qr/ERROR:  LG00[48]: /, "an argument that is an address: $path is refused");
			next;
		}
		poll(sub { scalar received($p, $out) }, "$path is received by the service");
		settle($node, $out, 'failed', 'none');
		pass("an argument that is an address: $path is a path of the service");
	}
	for my $status (301, 302, 303, 307, 308)
	{
		refund_tool($node, @unkeyed, name => "case25 $status", do => "status:$status;Location:$elsewhere->{url}/unkeyed/refunds");
		$id = perform($node, "case25 $status", "case25-$status");
		poll_sql($node, "SELECT next_step IN ('review', 'none') FROM actionledger.action WHERE action_id = $id", "$status is judged");
		is(scalar(received($p, $id)), 1, "a redirect with $status is not followed");
	}
	is(connections($elsewhere), 0, 'nobody connected elsewhere');

	# --- names and numbers of this host and of its neighbours, at a service that does not allow them
	my $inner = start_provider();
	my @hosts = ('127.0.0.1', 'localhost', '127.1', '2130706433', '0x7f000001', '0177.0.0.1', '0', '0.0.0.0', '169.254.169.254', '10.0.0.1', '192.168.0.1', '[::ffff:127.0.0.1]', '[::1]', '[fe80::1]');
	my $ipv6 = socket(my $s, AF_INET6, SOCK_STREAM, 0);
	for my $host (@hosts)
	{
		my ($rc, $out, $err) = run_as(undef, qq{SELECT actionledger.create_service('at $host', 'http://$host:$inner->{port}', '{"idempotency": {"window": "24h"}}')});
		if ($rc != 0)
		{
			like($err, qr/ERROR:  LG015: /, "$host is refused with the definition");
			next;
		}
		refund_tool($node, name => "at $host", service => "at $host", attempts => 3, base => '50ms');
		$blocked{$host} = perform($node, "at $host", "at-$host");
	}
	for my $host (sort keys %blocked)
	{
		my $row = settle($node, $blocked{$host}, 'prepared', 'blocked');
		my @attempts = attempts_of($node, $blocked{$host});
		is_deeply([ map { [ $_->{verdict}, $_->{sent} ? 1 : 0 ] } @attempts ], [ [ 'not_sent', 0 ] ], "$host: proven not sent, tried once");
		like($attempts[0]{category}, $ipv6 || $host !~ /:/ ? qr/^address_refused$/ : qr/^(address_refused|resolve)$/, "$host: because the address is not allowed");
		is($row->{known}, 'not_sent', "$host: nothing is known but that");
	}
	turns_pass($node, 3);
	is(connections($inner), 0, 'not one connection was made to this host');
	is(scalar(grep { $_->{ev} eq 'received' } truth($inner)), 0, 'and nothing was received');

	# The same address with the administrator's word for it.
	refund_service($node, $inner, name => 'allowed');
	refund_tool($node, name => 'allowed', service => 'allowed');
	settle($node, perform($node, 'allowed', 'allowed'), 'confirmed', 'none');
	is(connections($inner), 1, 'where it is allowed it is reached: the count of connections can count');

	# --- answers are for who asked, its tool's owner, and operators
	(undef, $id) = run_as('agent', q{SELECT action_id FROM actionledger.perform('case25', '{"refund_id": "mine", "amount": 1}')});
	settle($node, $id, 'confirmed', 'none');
	for my $role (qw(agent case25_operator))
	{
		my (undef, $out) = run_as($role, "SELECT body_excerpt FROM actionledger.attempts WHERE action_id = $id");
		like($out, qr/canary-card/, "$role can read the answer");
	}
	for my $role (qw(other_agent stranger))
	{
		for my $view (qw(actions pending in_flight needs_reconciliation review_queue attempts timeline))
		{
			my (undef, $out) = run_as($role, "SELECT v FROM actionledger.$view v WHERE action_id = $id OR v::text LIKE '%canary%'");
			is($out, '', "$role sees nothing of it in $view");
		}
		for my $call ("result($id)", "wait($id, '1s')", "result_by_identity('keyed', 'refund:mine')", "cancel($id)")
		{
			my $err = failure("SELECT actionledger.$call", role => $role);
			like($err, qr/ERROR:  LG014: /, "$role: $call knows no such action");
			unlike($err, qr/canary|re_1/, "$role: and tells nothing of it");
		}
	}
	my $err = failure(q{SELECT actionledger.perform('case25', '{"refund_id": "mine", "amount": 2}')}, role => 'other_agent');
	like($err, qr/ERROR:  LG007: /, 'its identity in the hands of another one: a conflict');
	unlike($err, qr/Action $id\b|canary|re_1/, 'without details');
	$err = failure(q{SELECT * FROM actionledger.perform('case25', '{"refund_id": "mine", "amount": 1}')}, role => 'other_agent');
	unlike($err, qr/canary|re_1/, 'and with the same arguments too');
};

subtest 'case 27: the bytes on the wire are the frozen ones, in UTF-8, whatever the encoding of the database' => sub {
	# Without "use utf8" the literals here are bytes of UTF-8.
	my %text = (accents => 'Zürich, naïve café ¿Größe? ÿ', cyrillic => 'Возврат 100 ₽', other => "\xf0\x9f\x92\xb8 日本");
	my %provider = (utf8 => start_provider(), latin1 => start_provider());

	$node->safe_psql('postgres', qq{CREATE DATABASE $_ ENCODING '$_' LOCALE 'C' TEMPLATE template0}) for sort keys %provider;
	for my $db (sort keys %provider)
	{
		my $q = $provider{$db};
		$node->safe_psql($db, qq{CREATE EXTENSION actionledger;
		  SELECT actionledger.create_service('pay', '$q->{url}', '{"allow_private": true, "idempotency": {"window": "24h", "replay_header": "Idempotent-Replayed"}, $patient}')});
		my $input = q{'{"required": ["id", "text"], "properties": {"id": {"type": "string"}, "text": {"type": "string"}}}'};
		my $options = q~'{"approval": "never", "retry": {"base": "50ms"}, "external_ref": "$.id", "summary": "{text}"~;
		$node->safe_psql($db, qq~SET client_encoding = 'UTF8';
		  SELECT actionledger.create_tool('args', 'pay', 'POST /keyed/refunds?do=close,ok', identity => 'args:{id}', input => $input, options => $options}');
		  SELECT actionledger.create_tool('json', 'pay', 'POST /keyed/refunds?do=close,ok', identity => 'json:{id}', input => $input, options => $options, "json": {"memo": "für {text}", "straße": "{text}", "id": "{id}"}}');
		  SELECT actionledger.create_tool('form', 'pay', 'POST /keyed/refunds?do=close,ok', identity => 'form:{id}', input => $input, options => $options, "form": {"memo": {"ü": "{text}"}, "id": "{id}"}}');
		  SELECT actionledger.create_tool('path', 'pay', 'POST /keyed/{text}{?id}&do=close,ok', identity => 'path:{id}', input => $input, options => $options}');
		  SELECT actionledger.create_tool('answer', 'pay', 'POST /keyed/refunds{?do,id}', identity => 'answer:{id}', input => '{"properties": {"id": {"type": "string"}, "do": {"type": "string"}}}', options => '{"approval": "never", "external_ref": "\$.id", "result": "\$"}')~);
	}

	my $percent = sub { join '', map { /[A-Za-z0-9_.~-]/ ? $_ : sprintf '%%%02X', ord } split //, $_[0] };
	my $form = sub { join '', map { /[A-Za-z0-9*_.-]/ ? $_ : $_ eq ' ' ? '+' : sprintf '%%%02X', ord } split //, $_[0] };
	my %expected = (
		args => sub { my ($id, $text) = @_; qq({"id":"$id","text":"$text"}) },
		json => sub { my ($id, $text) = @_; qq({"id":"$id","memo":"für $text","straße":"$text"}) },
		form => sub { my ($id, $text) = @_; 'id=' . $form->($id) . '&memo[' . $form->('ü') . ']=' . $form->($text) },
		path => sub { my ($id, $text) = @_; '{}' });
	my %content_type = (form => qr{^Content-Type: application/x-www-form-urlencoded\r?$}m);

	for my $db (sort keys %provider)
	{
		my $q = $provider{$db};
		for my $what (sort keys %text)
		{
			for my $tool (sort keys %expected)
			{
				my $args = qq({"id": "$what", "text": "$text{$what}"});
				my $name = "$db, $tool, $what";
				if ($db eq 'latin1' && $what ne 'accents')
				{
					# What the database cannot hold does not get in, in either spelling.
					my $before = count_of('action', $db);
					like(failure(qq{SET client_encoding = 'UTF8'; SELECT actionledger.perform('$tool', '$args')}, db => $db), qr/ERROR:  22P05: /, "$name: a clear error, as characters");
					my $escaped = JSON::PP->new->ascii->canonical->encode(decode_json($args));
					like(failure(qq{SELECT actionledger.perform('$tool', '$escaped')}, db => $db), qr/ERROR:  22P05: /, "$name: a clear error, as escapes");
					is(count_of('action', $db), $before, "$name: and no row");
					next;
				}
				my $id = $node->safe_psql($db, qq{SET client_encoding = 'UTF8'; SELECT action_id FROM actionledger.perform('$tool', '$args')});
				poll(sub { $node->safe_psql($db, "SELECT status FROM actionledger.action WHERE action_id = $id") eq 'confirmed' }, "$name is confirmed");
				my @received = received($q, $id);
				my $body = $expected{$tool}->($what, $text{$what});
				is($node->safe_psql($db, "SELECT encode(body, 'hex') FROM actionledger.action WHERE action_id = $id"), unpack('H*', $body), "$name: the frozen body is UTF-8");
				is_deeply([ map { [ $_->{body_sha256}, $_->{body_len} ] } @received ], [ ([ sha256_hex($body), length $body ]) x 2 ], "$name: and the bytes on the wire are its bytes, both times");
				is(scalar(grep { $_->{path} =~ m{^/keyed/\Q@{[ $percent->($text{$what}) ]}\E\?} } @received), 2, "$name: the path is percent-encoded UTF-8") if $tool eq 'path';
				is(effects($q, $id), 1, "$name: one effect");
				like($node->safe_psql($db, "SELECT headers FROM actionledger.action WHERE action_id = $id"), $content_type{$tool} // qr{^Content-Type: application/json\r?$}m,
					"$name: of a type that is UTF-8 by definition (RFC 8259, URL standard)");
				is($node->safe_psql($db, "SET client_encoding = 'UTF8'; SELECT summary FROM actionledger.actions WHERE action_id = $id"), $text{$what}, "$name: and is read in the database as it was written");
			}

			# The way back: the answer is UTF-8.  What the database cannot hold is left
			# out, the status counts.
			my $do = 'status:200;body:' . encode_json({ id => decode_json(qq(["$text{$what}"]))->[0] });
			$do =~ s/,/%2C/g;
			$do =~ s/([^A-Za-z0-9:;{}"%_.-])/sprintf '%%%02X', ord $1/ge;
			my $id = $node->safe_psql($db, q{SELECT action_id FROM actionledger.perform('answer', } . "'" . encode_json({ id => $what, do => $do }) . "')");
			poll(sub { $node->safe_psql($db, "SELECT status FROM actionledger.action WHERE action_id = $id") eq 'confirmed' }, "$db: the answer with $what confirms");
			is($node->safe_psql($db, "SET client_encoding = 'UTF8'; SELECT external_ref FROM actionledger.action WHERE action_id = $id"),
				$db eq 'latin1' && $what ne 'accents' ? '' : $text{$what}, "$db: the reference in the answer, $what");
		}
	}
	is($node->safe_psql('latin1', 'SHOW server_encoding'), 'LATIN1', 'the one database is LATIN1');
	is($node->safe_psql('utf8', 'SHOW server_encoding'), 'UTF8', 'the other one is UTF-8');
};

subtest 'case 28: a retry has the same bytes, however odd the JSON was' => sub {
	# Waits for signatures: that the same body carries the same signature.  The bytes
	# that it would sign are these.
	my @odd = (
		[ 'spacing', qq({\t"id" :  "ID" ,\n\n "amount":1   }) ],
		[ 'key order', '{"z": 1, "amount": 2, "id": "ID", "a": 3, "m": {"y": 1, "b": 2, "aa": 3}}' ],
		[ '1.0', '{"id": "ID", "amount": 1.0, "z": 1.50, "a": [1.0, 1.00, 10e-1, 100e2, 0.000001, 1e-7, -0.0]}' ],
		[ 'large numbers', '{"id": "ID", "amount": 12345678901234567890.123456789, "z": 1e30, "a": 9007199254740993}' ],
		[ 'duplicate keys', '{"id": "wrong", "amount": 1, "amount": 1.0, "id": "ID", "z": {"a": 1, "a": 2}}' ],
		[ 'escapes', '{"id": "\u0049D", "amount": 1, "z": "\"\\\\\/\b\f\n\r\t\u001f\u00e9\u20ac</script>&", "a": ""}' ],
		[ 'all of it', qq(\n{ "z" :[ 1.0,{"b":1,"a":1.00} ]\t, "amount":2.50 ,"id":"x","a":{"k":1 , "k" : 2.0}, "id" : "ID" }\n) ]);
	my $schema = '{"required": ["id", "amount"], "properties": {"id": {"type": "string"}, "amount": {"type": "number"}, "z": {}, "a": {}, "m": {}}}';
	my %tool = (args => '', json => ', "json": {"zz": " {id} ", "value": "{amount}", "a": ["{z}", {"c": "{a}", "b": 1.0}]}', form => ', "form": {"v": "{amount}", "a": "{a}", "z": "{z}"}');
	my (%id, $n);

	$node->safe_psql('postgres', qq{SELECT actionledger.create_tool('case28 $_', 'keyed', 'POST /keyed/refunds?do=close,reset,ok', identity => '$_:{id}', input => '$schema', options => '{"retry": {"attempts": 5, "base": "400ms", "cap": "400ms"}$tool{$_}}')})
	  for sort keys %tool;
	for my $tool (sort keys %tool)
	{
		for my $odd (@odd)
		{
			my ($words, $text) = @$odd;
			$n++;
			my $args = $text =~ s/ID/ID-$n/r =~ s/\\u0049D/\\u0049D-$n/r;
			$args =~ s/'/''/g;
			$id{"$tool, $words"} = $node->safe_psql('postgres', "SELECT action_id FROM actionledger.perform('case28 $tool', '$args')");

			# In other words it is the same action: by value, not by bytes.
			is($node->safe_psql('postgres', "SELECT action_id, created FROM actionledger.perform('case28 $tool', ('$args'::jsonb)::text::jsonb)"), qq($id{"$tool, $words"}|f), "$tool, $words: the same arguments are the same action");
		}
	}

	# While they wait for their retries the tools change and the worker is another one.
	my $pid = pid_of_dispatcher($node);
	$node->safe_psql('postgres', qq{SELECT actionledger.alter_tool('case28 $_', '{"headers": {"X-New": "new"}}')}) for sort keys %tool;
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
	for my $name (sort keys %id)
	{
		my $id = $id{$name};
		settle($node, $id, 'confirmed', 'none');
		my @received = received($p, $id);
		my ($hash, $length) = split /\|/, $node->safe_psql('postgres', "SELECT encode(sha256(body), 'hex'), length(body) FROM actionledger.action WHERE action_id = $id");
		cmp_ok(scalar @received, '>=', 2, "$name: sent again");
		is_deeply([ map { [ $_->{body_sha256}, $_->{body_len} ] } @received ], [ ([ $hash, $length ]) x @received ], "$name: byte for byte the frozen body, each time");
		is(scalar(keys %{ truth_by_action($p)->{$id}{keys} }), 1, "$name: with one key");
		is(effects($p, $id), 1, "$name: one effect");
	}

	# No digit is lost, and of duplicate keys the last counts, as in jsonb.
	my $body = $node->safe_psql('postgres', qq{SELECT convert_from(body, 'UTF8') FROM actionledger.action WHERE action_id = $id{'args, large numbers'}});
	like($body, qr/12345678901234567890\.123456789/, 'a number is sent with all of its digits');
	like($body, qr/9007199254740993\b/, 'and one beyond the precision of a double too');
	$body = $node->safe_psql('postgres', qq{SELECT convert_from(body, 'UTF8') FROM actionledger.action WHERE action_id = $id{'args, duplicate keys'}});
	is(scalar(() = $body =~ /"id":/g), 1, 'a duplicate key is sent once');
	unlike($body, qr/wrong/, 'with its last value');
};

subtest 'case 29: a malformed URL, header or scheme is a clear error, and the transaction goes on' => sub {
	my $ok = '{"allow_private": true}';
	my (@bad, $before, $services, $wire);

	$node->safe_psql('postgres', 'CREATE TABLE orders (id text)');
	refund_tool($node, @keyed, name => 'case29');
	$node->safe_psql('postgres', q{SELECT actionledger.create_tool('case29 memo', 'keyed', 'POST /keyed/refunds', identity => 'memo:{id}', options => '{"headers": {"X-Memo": "{memo}"}}',
	  input => '{"properties": {"id": {"type": "string"}, "memo": {"type": "string"}}}')});
	$node->safe_psql('postgres', q{SELECT actionledger.create_tool('case29 path', 'keyed', 'POST /keyed/{a}/{b}', identity => '{a}/{b}', input => '{"properties": {"a": {"type": "string"}, "b": {"type": "string"}}}')});

	# --- in definitions
	push @bad, map { [ "base URL $_", qq{SELECT actionledger.create_service('case29 bad', '$_', '$ok')}, 'LG015' ] } ('', 'not a url', 'http', 'http:', 'http:/', 'http://', 'http:///x', '//example.com', 'example.com', 'http://exa mple.com', 'http://[::1',
		'http://a:99999', 'http://a:b', 'http://a b/', 'http://user:pw@example.com', 'https://example.com/?q', 'https://example.com/#f', 'http://%zz', 'http://..', 'https://example.com/%zz');
	push @bad, map { [ "scheme $_", qq{SELECT actionledger.create_service('case29 bad', '$_://example.com/', '$ok')}, 'LG015' ] } qw(ftp file gopher ldap dict javascript httpx ht%74p smtp telnet unix data);
	push @bad, map { [ 'base URL with a control character', qq{SELECT actionledger.create_service('case29 bad', E'https://example.com/$_', '$ok')}, 'LG015' ] } ('a\r\nX: b', 'a\nb', 'a\tb', 'a\x01b', '\x7f');
	push @bad, map { [ "header $_", qq{SELECT actionledger.create_service('case29 bad', 'https://example.com', '{"headers": {$_}}')}, 'LG015' ] } ('"X-A": "a\r\nX-B: b"', '"X-A": "a\nb"', '"X-A": "a\rb"', '"X-A\r\nX-B": "b"', '"X A": "a"', '"X:A": "a"', '"": "a"', '"Host": "a"', '"Content-Length": "3"', '"Transfer-Encoding": "chunked"');
	push @bad, map { [ "tool header $_", qq{SELECT actionledger.create_tool('case29 bad', 'keyed', 'POST /x', options => '{"headers": {$_}}')}, 'LG015' ] } ('"X-A": "a\r\nX-B: b"', '"X-A\n": "a"', '"Idempotency-Key": "fixed"');
	push @bad, map { [ "request $_", qq{SELECT actionledger.create_tool('case29 bad', 'keyed', E'$_')}, 'LG015' ] } ('', 'POST', 'POST x', 'POST http://example.com/x', 'FETCH /x', 'post /x', 'POST /{', 'POST /{x', 'POST /}x', 'POST /{unknown}', 'POST /../x', 'POST /a b', 'POST /x\r\nX-B: b', 'POST /x HTTP/1.1', 'CONNECT /x', 'POST /x#f');

	# --- in arguments
	push @bad, map { [ "argument in a header $_", qq{SELECT actionledger.perform('case29 memo', '{"id": "x", "memo": "$_"}')}, 'LG004' ] } ('a\r\nX-Evil: b', 'a\nb', 'a\rb', 'a\u0001b', 'a\u007fb', 'caf\u00e9');
	push @bad, map { [ "argument in a path $_", qq{SELECT actionledger.perform('case29 path', '{"a": "x", "b": "$_"}')}, 'LG004' ] } ('..', '.');
	push @bad, map { [ "argument in an identity $_", qq{SELECT actionledger.perform('case29', '{"amount": 1, "refund_id": "$_"}')}, 'LG008' ] } ('a\r\nX-Evil: b', 'a\u0001b');
	push @bad, [ 'argument with a NUL character', q{SELECT actionledger.perform('case29', '{"amount": 1, "refund_id": "a\u0000b"}')}, '22P05' ];
	push @bad, [ 'an URL that is too long', q{SELECT actionledger.perform('case29 path', jsonb_build_object('a', 'x', 'b', repeat('x', 20000)))}, 'LG00[489]' ];
	push @bad, [ 'an empty path segment', q{SELECT actionledger.perform('case29 path', '{"a": "", "b": "x"}')}, 'LG00[48]' ];

	$before = count_of('action');
	$services = $node->safe_psql('postgres', 'SELECT (SELECT count(*) FROM actionledger.service), (SELECT count(*) FROM actionledger.tool)');
	$wire = scalar(grep { $_->{ev} eq 'received' } truth($p));
	for my $bad (@bad)
	{
		my ($words, $sql, $state) = @$bad;
		my $err = failure($sql);
		my ($message, $detail) = $err =~ /ERROR:  $state: ([^\n]*)\n(?:.*?^DETAIL:  ([^\n]*))?/ms;
		$words =~ s/[\r\n]/ /g;
		ok(defined $message, "$words: refused with its SQLSTATE ($state)") or diag("$sql\n$err");
		unlike($err, qr/out of memory|internal|server closed/i, "$words: in clear words");
		cmp_ok(length($detail // ''), '>', 8, "$words: with a detail that says what") if $state =~ /^LG/;
	}
	is(count_of('action'), $before, 'no action was recorded');
	is($node->safe_psql('postgres', 'SELECT (SELECT count(*) FROM actionledger.service), (SELECT count(*) FROM actionledger.tool)'), $services, 'and nothing was defined');

	# --- each in a transaction that goes on after its savepoint
	my $script = "BEGIN; INSERT INTO orders VALUES ('before');\n" . join('', map { "SAVEPOINT s; $_->[1]; ROLLBACK TO s;\n" } @bad)
	  . q{SELECT 'good=' || action_id FROM actionledger.perform('case29', '{"refund_id": "case29-good", "amount": 1}'); INSERT INTO orders VALUES ('after'); COMMIT;};
	my (undef, $out, $err) = run_as(undef, $script, go_on => 1);
	is(scalar(() = $err =~ /^(?:psql:\S* )?ERROR: /mg), scalar @bad, 'in one transaction: as many errors as mistakes');
	my ($id) = $out =~ /^good=(\d+)$/m;
	ok(defined $id, 'and it is usable after each ROLLBACK TO') or diag($err);
	is($node->safe_psql('postgres', 'SELECT string_agg(id, $$ $$ ORDER BY id) FROM orders'), 'after before', 'its own work is committed');
	settle($node, $id, 'confirmed', 'none');
	is(count_of('action'), $before + 1, 'one row: the good one');
	turns_pass($node, 3);
	is(scalar(grep { $_->{ev} eq 'received' } truth($p)), $wire + 1, 'one request on the wire');
	is(effects($p, $id), 1, 'one effect');
};

subtest 'case 30: 201 and 204 confirm, 202 does not yet' => sub {
	my %id;

	for my $kind ([ 'unkeyed', @unkeyed ], [ 'keyed', @keyed ])
	{
		my ($name, @options) = @$kind;
		for my $status (200, 201, 203, 204, 205)
		{
			refund_tool($node, @options, name => "case30 $name $status", do => "execstatus:$status");
			$id{"$name $status"} = perform($node, "case30 $name $status", "case30-$status-$name");
		}
		# The bounds are wide: nothing but evidence may end it here.
		refund_tool($node, @options, name => "case30 $name 202", do => 'accepted', attempts => 100, base => '500ms', cap => '500ms', window => '1h');
		$id{"$name 202"} = perform($node, "case30 $name 202", "case30-202-$name");
	}
	for my $name (sort grep { !/202/ } keys %id)
	{
		my $row = settle($node, $id{$name}, 'confirmed', 'none');
		is($row->{confirmed_by}, 'response', "$name: confirmed by the answer");
		is_deeply([ scalar(received($p, $id{$name})), effects($p, $id{$name}) ], [ 1, 1 ], "$name: one request, one effect");
		is((attempts_of($node, $id{$name}))[0]{verdict}, 'confirmed', "$name: its verdict");
	}

	# 202: it stays submitted, at every look.
	poll(sub { scalar(received($p, $id{'keyed 202'})) >= 4 }, 'with a key it is asked again');
	turns_pass($node, 6);
	for my $name ('keyed 202', 'unkeyed 202')
	{
		my $row = action_row($node, $id{$name});
		is("$row->{status} $row->{known}", 'submitted in_progress', "$name: stays submitted, in progress");
		is($node->safe_psql('postgres', "SELECT count(*) FROM actionledger.timeline WHERE action_id = $id{$name} AND status IN ('confirmed', 'failed')"), '0', "$name: and was nothing else");
		is(scalar(grep { ($_->{verdict} // 'in_progress') ne 'in_progress' } attempts_of($node, $id{$name})), 0, "$name: every answer is in_progress");
		is(effects($p, $id{$name}), 1, "$name: one effect");
		is(decode_json($node->safe_psql('postgres', "SELECT actionledger.result($id{$name})"))->{ok}, JSON::PP::false, "$name: the envelope is not ok");
	}
	is(scalar(received($p, $id{'unkeyed 202'})), 1, 'unkeyed 202: sent once');
	is(scalar(keys %{ truth_by_action($p)->{ $id{'keyed 202'} }{keys} }), 1, 'keyed 202: asked again with the same key only');

	# A lookup of its Location confirms it.
	refund_tool($node, @unkeyed, name => 'case30 asked', do => 'accepted', options => '"lookup": {"request": "GET {_location}", "match": "$.data[*]", "every": "200ms"}');
	my $asked = perform($node, 'case30 asked', 'case30-asked');
	my $row = settle($node, $asked, 'confirmed', 'none');
	is_deeply([ $row->{confirmed_by}, scalar(received($p, $asked)), effects($p, $asked), scalar(looked($p, $asked)) ], [ 'lookup', 1, 1, 1 ], 'a lookup of the Location confirms it');

	# Without one a person may.
	is($node->safe_psql('postgres', "SELECT status FROM actionledger.resolve($id{'unkeyed 202'}, 'confirmed', '{\"external_ref\": \"re_202\"}', 'their list has it', expected_status => 'submitted')"),
		'confirmed', 'a person who has seen it confirms it');

	# A destination whose 202 is final says so by a rule; one whose 201 is not, too.
	refund_tool($node, @unkeyed, name => 'case30 final', do => 'accepted', options => '"outcome": [{"status": 202, "verdict": "confirmed"}]');
	refund_tool($node, @unkeyed, name => 'case30 open', do => 'execstatus:201;' . body('{"status":"queued"}'), options => '"outcome": [{"status": 201, "if": "$.status == \"queued\"", "verdict": "in_progress"}]');
	my $final = perform($node, 'case30 final', 'case30-final');
	my $open = perform($node, 'case30 open', 'case30-open');
	settle($node, $final, 'confirmed', 'none');
	settle($node, $open, 'submitted', 'wait');
	poll_sql($node, "SELECT known = 'in_progress' FROM actionledger.action WHERE action_id = $open", 'the answer 201 is recorded');
	is(scalar(received($p, $_)), 1, 'by a rule: sent once') for $final, $open;
};

subtest 'case 31: an endless answer is confirmed, cut, and costs neither memory nor a place' => sub {
	my $folder = PostgreSQL::Test::Utils::tempdir();
	my $written = 0;

	# As fast as it is taken; "drip" sends a byte now and then.  Each connection tells what it has got rid of.
	my $raw = start_raw_server(
		sub {
			my ($c) = @_;
			my $request = '';
			until ($request =~ /\r\n\r\n.*\}/s) { sysread $c, $request, 4096, length $request or return; }
			my ($how) = $request =~ m{^POST /(\w+)};
			my $chunk = "10000\r\n" . 'x' x 65536 . "\r\n";
			my $left = 0;
			my %head = (
				chunked => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
				plain => "HTTP/1.1 200 OK\r\n\r\n",
				length => "HTTP/1.1 200 OK\r\nContent-Length: 109951162777600\r\n\r\n",
				drip => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
			syswrite $c, $head{$how} if $head{$how};
			if ($how eq 'ok')
			{
				syswrite $c, "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{\"id\":\"re_1\"}";
				return;
			}
			while (1)
			{
				my $n = syswrite $c, $how eq 'drip' ? "1\r\nx\r\n" : $how eq 'chunked' ? $chunk : 'x' x 65536;
				last unless $n;
				$left += $n;
				sleep 0.1 if $how eq 'drip';
			}
			open my $f, '>', "$folder/$how.$$" or die;
			print $f $left;
			close $f;
		});
	my $pid = pid_of_dispatcher($node);
	my $high = sub {
		my ($kb) = slurp_file("/proc/$pid/status") =~ /^VmHWM:\s+(\d+) kB$/m;
		return $kb;
	};

	# One place at the service: what follows goes out only when the endless one has left it.
	refund_service($node, $raw, name => 'narrow', honoured => 0, options => '"limits": {"in_flight": 1}');
	refund_service($node, $raw, name => 'wide', honoured => 0, options => qq{"limits": {"in_flight": 100}, $patient});
	refund_tool($node, service => 'narrow', name => 'narrow ok', request => 'POST /ok');
	for my $how (qw(chunked plain length drip))
	{
		refund_tool($node, service => 'narrow', name => "narrow $how", request => "POST /$how", timeout => '3s');
		refund_tool($node, service => 'wide', name => "wide $how", request => "POST /$how", timeout => '3s');
	}
	for my $how (qw(chunked plain length drip))
	{
		my $first = perform($node, "narrow $how", "case31-$how");
		my $next = perform($node, 'narrow ok', "case31-after-$how");
		my $row = settle($node, $first, 'confirmed', 'none');
		my ($attempt) = attempts_of($node, $first);

		is_deeply([ $attempt->{http_status}, $attempt->{verdict}, $attempt->{truncated} ? 1 : 0, $row->{confirmed_by} ], [ 200, 'confirmed', 1, 'response' ], "$how: confirmed from the status, and flagged as cut");
		my $kept = $node->safe_psql('postgres', "SELECT length(body) FROM actionledger.attempt WHERE action_id = $first");
		$how eq 'drip' ? cmp_ok($kept, '<', 1000, "$how: what came until the timeout is kept") : is($kept, 256 * 1024, "$how: cut at the cap");
		is($node->safe_psql('postgres', "SELECT truncated FROM actionledger.attempts WHERE action_id = $first"), 't', "$how: the view says so");
		settle($node, $next, 'confirmed', 'none');
		is($node->safe_psql('postgres', "SELECT b.started_at >= a.finished_at - interval '50 ms' AND b.started_at < a.finished_at + interval '2 s'
		  FROM actionledger.attempt a, actionledger.attempt b WHERE a.action_id = $first AND b.action_id = $next"), 't', "$how: its place is free at once, and the next one goes out");
		is(scalar(attempts_of($node, $first)), 1, "$how: sent once");
	}

	# Forty at once.
	my $before = $high->();
	for my $how (qw(chunked plain length drip))
	{
		$node->safe_psql('postgres', qq{SELECT count(*) FROM actionledger.perform_many('wide $how', ARRAY(SELECT jsonb_build_object('refund_id', 'case31-$how-' || i, 'amount', i) FROM generate_series(1, 10) i))});
	}
	poll_sql($node, "SELECT count(*) = 40 FROM actionledger.actions a JOIN actionledger.attempts t USING (action_id) WHERE a.tool LIKE 'wide %' AND a.status = 'confirmed' AND t.truncated", 'all forty are confirmed and cut', 60);
	my $after = $high->();
	# Forty caps are 10 MB, held once and copied on their way into the table (the value, the batch's array, the row): 40 MB,
	# and the buffers of forty connections.  What they sent until the timeout would be gigabytes.
	cmp_ok($after - $before, '<', 48 * 1024, "forty endless answers at once: the peak of the worker's memory grows by less than 48 MB ($before to $after kB)");
	is(pid_of_dispatcher($node), $pid, 'by the same worker');

	# Our side ended it: the server could not get rid of more than the buffers on the way.
	poll(sub { my @done = glob "$folder/*"; @done == 44 }, 'every connection has been closed by us');
	for my $file (glob "$folder/*")
	{
		my $n = slurp_file($file);
		$written = $n if $n > $written;
	}
	cmp_ok($written, '<', 32 * 1024 * 1024, "no server got rid of more than 32 MB ($written bytes)");

	# The provider of the tests tells the same tale, with its effects.
	refund_tool($node, @unkeyed, name => 'case31', do => 'endless');
	my $id = perform($node, 'case31', 'case31');
	settle($node, $id, 'confirmed', 'none');
	is_deeply([ scalar(received($p, $id)), effects($p, $id) ], [ 1, 1 ], 'one request, one effect');
};

$node->stop;
done_testing();
