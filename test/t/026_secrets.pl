# Secrets: where they go, where they are not, and what happens without them.
use strict;
use warnings;
use IPC::Run ();
use JSON::PP;
use MIME::Base64 qw(encode_base64);
use Test::More;
use lib 'test/lib';
use Ledger;
use PostgreSQL::Test::Utils;

my $secrets = PostgreSQL::Test::Utils::tempdir();
my $node = start_server(conf => <<"CONF");
shared_preload_libraries = 'actionledger, pg_stat_statements'
pg_stat_statements.track = all
actionledger.secret_directory = '$secrets'
log_min_messages = debug5
log_min_error_statement = debug5
log_statement = all
log_error_verbosity = verbose
track_activity_query_size = '100kB'
wal_level = logical
CONF
my $p = start_provider();
$node->safe_psql('postgres', 'CREATE EXTENSION pg_stat_statements');

# Every secret has a text of its own to look for.
my %text = (
	pay_token => 'canary-bearer-9f2c1e',
	rotated => 'canary-rotated-51d7aa',
	api_key => 'canary-apikey-77b0c4',
	user => 'canary-user-0d9e31',
	password => 'canary-password-c42f86:with"colon',
	late => 'canary-late-e8a655',
	'dotted.name-1' => 'canary-dotted-3b6f19');

sub put_secret
{
	my ($name, $text) = @_;
	open my $f, '>', "$secrets/$name.new" or die "could not write: $!";
	print $f $text;
	close $f;
	rename "$secrets/$name.new", "$secrets/$name" or die "could not rename: $!";
	return;
}

# What arrived as Authorization (or as the header that key_header names) with an action.
sub authorization
{
	my ($id) = @_;
	return map { $_->{auth} } received($p, $id);
}

put_secret('pay_token', "$text{pay_token}\n");
put_secret('api_key', $text{api_key});
put_secret('user', $text{user});
put_secret('password', "$text{password}\r\n");
put_secret('dotted.name-1', $text{'dotted.name-1'});

refund_service($node, $p, name => 'bearer', options => '"auth": {"bearer": "{secret:pay_token}"}');
refund_service($node, $p, name => 'header', options => '"auth": {"header": {"X-Api-Key": "v1 {secret:api_key}/{secret:dotted.name-1}"}}');
refund_service($node, $p, name => 'basic', options => '"auth": {"basic": ["{secret:user}", "{secret:password}"]}');
refund_service($node, $p, name => 'half', options => '"auth": {"basic": ["", "{secret:password}"]}');

# ---------------------------------------------------------------------------
# They arrive
# ---------------------------------------------------------------------------
{
	my $id;

	refund_tool($node, name => 'bearer', service => 'bearer');
	$id = perform($node, 'bearer', 'bearer');
	settle($node, $id, 'confirmed', 'none');
	is_deeply([ authorization($id) ], ["Bearer $text{pay_token}"], 'a bearer token arrives, without the line feed of its file');
	is($node->safe_psql('postgres', "SELECT headers LIKE '%Authorization: Bearer {secret:pay_token}%' FROM actionledger.action WHERE action_id = $id"), 't',
		'the frozen headers hold the reference');

	refund_tool($node, name => 'header', service => 'header', type => 'idempotent', request => 'POST /unkeyed/refunds?key_header=X-Api-Key');
	$id = perform($node, 'header', 'header');
	settle($node, $id, 'confirmed', 'none');
	is((received($p, $id))[0]{key}, "v1 $text{api_key}/$text{'dotted.name-1'}", 'several secrets in a header of the service\'s own');

	for my $service (qw(basic half))
	{
		my $user = $service eq 'basic' ? $text{user} : '';
		refund_tool($node, name => $service, service => $service);
		$id = perform($node, $service, $service);
		settle($node, $id, 'confirmed', 'none');
		is_deeply([ authorization($id) ], [ 'Basic ' . encode_base64("$user:$text{password}", '') ], "$service: user and password in base64 (RFC 7617)");
	}
}

# ---------------------------------------------------------------------------
# Rotation: the next request has the new one, the same request again too
# ---------------------------------------------------------------------------
{
	my $id;

	refund_tool($node, name => 'rotated', service => 'bearer', do => 'close,status:500,ok', base => '400ms', attempts => 6);
	$id = perform($node, 'rotated', 'rotated');
	poll(sub { scalar received($p, $id) }, 'the first one is received');
	put_secret('pay_token', $text{rotated});
	settle($node, $id, 'confirmed', 'none');
	my @seen = authorization($id);
	is($seen[0], "Bearer $text{pay_token}", 'the first send had the old token');
	is($seen[-1], "Bearer $text{rotated}", 'the last send had the new one, without a restart');
	is(scalar(keys %{ truth_by_action($p)->{$id}{keys} }), 1, 'with the same key');
	is(scalar(keys %{ truth_by_action($p)->{$id}{bodies} }), 1, 'and the same body');
	is(effects($p, $id), 1, 'executed once');
	$id = perform($node, 'bearer', 'after');
	settle($node, $id, 'confirmed', 'none');
	is_deeply([ authorization($id) ], ["Bearer $text{rotated}"], 'the next action has it from the start');
}

# ---------------------------------------------------------------------------
# Without it: not a byte, blocked, and visible
# ---------------------------------------------------------------------------
my @blocked;
{
	my %unusable = (
		none => [ undef, 'that is not there' ],
		empty => [ '', 'that is empty' ],
		blank_line => ["\n", 'that is an empty line'],
		two_lines => [ "canary-two\nX-Smuggled: canary-line", 'of two lines' ],
		control => [ "canary-\x01-control", 'with a control character' ],
		latin => [ "canary-caf\xe9", 'that is not ASCII' ],
		huge => [ 'canary-huge-' . 'x' x 100_000, 'that is far too long' ]);
	my %ids;

	for my $name (sort keys %unusable)
	{
		my ($content, $words) = @{ $unusable{$name} };
		put_secret($name, $content) if defined $content;
		refund_service($node, $p, name => $name, options => qq{"auth": {"bearer": "{secret:$name}"}});
		refund_tool($node, name => $name, service => $name);
		$ids{$name} = perform($node, $name, $name);
	}
	mkdir "$secrets/folder" or die "could not make a folder: $!";
	$unusable{folder} = [ undef, 'that is a folder' ];
	refund_service($node, $p, name => 'folder', options => '"auth": {"basic": ["name", "{secret:folder}"]}');
	refund_tool($node, name => 'folder', service => 'folder');
	$ids{folder} = perform($node, 'folder', 'folder');

	for my $name (sort keys %ids)
	{
		my $words = $unusable{$name}[1];
		my $row = settle($node, $ids{$name}, 'prepared', 'blocked');
		is($row->{error_code}, 'secret_missing', "a secret $words: the action is blocked, for that");
		is("$row->{attempts} $row->{sends}", '0 0', "a secret $words: nothing was tried");
		is($row->{window_ends_at}, undef, "a secret $words: its clock stands still");
		like($node->safe_psql('postgres', "SELECT next_step || ': ' || waiting_for FROM actionledger.pending WHERE action_id = $ids{$name}"),
			qr/^blocked: .*secret "\Q$name\E"/, "a secret $words: pending says which");
		is($node->safe_psql('postgres', "SELECT count(*) FROM actionledger.timeline WHERE action_id = $ids{$name} AND what = 'blocked'"), '1',
			"a secret $words: and the timeline when");
		push @blocked, $ids{$name};
	}
	turns_pass($node, 2);
	is(scalar(map { received($p, $_) } @blocked), 0, 'not a byte was sent for any of them');

	# Others at the same host, and later actions, are not held up.
	my $id = perform($node, 'bearer', 'beside');
	settle($node, $id, 'confirmed', 'none');

	# The file comes: what is blocked waits for a person, what is new is sent.
	put_secret('none', $text{late});
	$id = perform($node, 'none', 'none-2');
	settle($node, $id, 'confirmed', 'none');
	is_deeply([ authorization($id) ], ["Bearer $text{late}"], 'the file is there: a new action is sent');
	turns_pass($node, 3);
	is(action_row($node, $ids{none})->{next_step}, 'blocked', 'the file is there: the blocked one still waits for a person');
	is($node->safe_psql('postgres', "SELECT count(*) FROM actionledger.pending WHERE action_id = $ids{none} AND next_step = 'blocked'"), '1', 'and is still to be seen');
	is(scalar(received($p, $ids{none})), 0, 'and nothing was sent for it');
}

# A reference that is no plain name is refused with the definition.
for my $name ('../pay_token', 'a/b', '', 'a b', "pay_token\n")
{
	my $json = $name =~ s/\n/\\n/r;
	my ($out, $err) = ('', '');
	my $rc = $node->psql('postgres', qq{SELECT actionledger.create_service('bad', '$p->{url}', '{"auth": {"bearer": "{secret:$json}"}}')}, stdout => \$out, stderr => \$err);
	isnt($rc, 0, 'a reference that is no plain name is refused: "' . $json . '"');
}

# ---------------------------------------------------------------------------
# They are nowhere else
# ---------------------------------------------------------------------------
{
	# While one is on its way, and in all the ways that one can end.
	my $seen = '';
	my @ids;

	refund_tool($node, name => 'leak_hang', service => 'bearer', do => 'hang', timeout => '2s', attempts => 2);
	refund_tool($node, name => 'leak_basic', service => 'basic', do => 'cuthead', attempts => 2);
	refund_tool($node, name => 'leak_big', service => 'bearer', do => 'endless');
	refund_tool($node, name => 'leak_redirect', service => 'basic', do => 'redirect:http://127.0.0.1:1/', attempts => 2);
	refund_tool($node, name => 'leak_garbage', service => 'header', do => 'statusline:garbage', attempts => 2);
	refund_service($node, { url => 'http://127.0.0.1:1' }, name => 'closed', options => '"auth": {"bearer": "{secret:pay_token}"}');
	refund_tool($node, name => 'leak_closed', service => 'closed', attempts => 2);
	# A destination that tells what it was sent, in a header, in JSON, and as it came.
	my $echo = start_raw_server(sub {
		my ($socket) = @_;
		my $head = '';
		while ($head !~ /\r\n\r\n/) { sysread($socket, $head, 65536, length $head) or return }
		my ($credential) = $head =~ /^(?:Authorization|X-Api-Key): (.*?)\r$/m;
		my $body = encode_json({ id => $credential, amount => 1, head => $head }) . (' ' x 20);
		my $status = $head =~ m{^POST /\w+/refunds\?do=refuse} ? '422 No' : '200 OK';
		print $socket "HTTP/1.1 $status\r\nLocation: /r?token=$credential\r\nConnection: close\r\nContent-Length: ${\ length $body}\r\n\r\n$body";
		$socket->flush;
	});
	my %auth = (bearer => '{"bearer": "{secret:pay_token}"}', basic => '{"basic": ["{secret:user}", "{secret:password}"]}', header => '{"header": {"X-Api-Key": "v1 {secret:api_key}"}}');
	for my $kind (sort keys %auth)
	{
		refund_service($node, $echo, name => "echo_$kind", options => qq("auth": $auth{$kind}));
		refund_tool($node, name => "echo_$kind", service => "echo_$kind", options => '"result": "$"');
		refund_tool($node, name => "echo_refused_$kind", service => "echo_$kind", do => 'refuse');
		push @ids, perform($node, $_, $_) for "echo_$kind", "echo_refused_$kind";
	}
	push @ids, perform($node, $_, $_) for qw(leak_hang leak_basic leak_big leak_redirect leak_garbage leak_closed);
	poll_sql($node, "SELECT count(*) = 1 FROM actionledger.in_flight WHERE tool = 'leak_hang' AND open_attempt IS NOT NULL", 'a request hangs');
	$seen .= $node->safe_psql('postgres', 'SELECT * FROM pg_stat_activity');
	poll_sql($node, "SELECT count(*) = 0 FROM actionledger.action a WHERE action_id IN (@{[ join ',', @ids ]}) AND (status = 'prepared' OR status = 'submitted')", 'all have ended', 60);

	is($node->safe_psql('postgres', q{SELECT string_agg(external_ref, ' ' ORDER BY identity), count(*) FILTER (WHERE status = 'confirmed') FROM actionledger.actions WHERE tool LIKE 'echo\\_%' AND tool NOT LIKE '%refused%'}),
		'Basic ' . '*' x length(encode_base64("$text{user}:$text{password}", '')) . ' Bearer ' . '*' x length($text{rotated}) . ' v1 ' . '*' x length($text{api_key}) . '|3',
		'what an answer echoes is masked before anything is made of it');

	my $views = $node->safe_psql('postgres', "SELECT string_agg(format('SELECT v::text FROM actionledger.%I v', relname), ' UNION ALL ')
	  FROM pg_class WHERE relnamespace = 'actionledger'::regnamespace AND relkind IN ('v', 'r')");
	$seen .= $node->safe_psql('postgres', $views);
	$seen .= $node->safe_psql('postgres', 'SELECT actionledger.result(action_id) FROM actionledger.actions');
	$seen .= $node->safe_psql('postgres', 'SELECT * FROM pg_stat_activity');
	$seen .= $node->safe_psql('postgres', 'SELECT * FROM pg_file_settings');
	my $statements = $node->safe_psql('postgres', 'SELECT query FROM pg_stat_statements');
	like($statements, qr/actionledger\.perform/, 'pg_stat_statements has looked on');
	$seen .= $statements;
	my ($dump, $err) = run_command([ 'pg_dump', '--no-sync', '-d', $node->connstr('postgres') ]);
	like($dump, qr/\{secret:pay_token\}/, 'the dump holds the references');
	$node->stop;

	my $log = slurp_file($node->logfile);
	cmp_ok(length $log, '>', 100_000, 'the log is talkative');
	my %hidden = map { $text{$_} => $_ } keys %text;
	$hidden{ encode_base64("$text{user}:$text{password}", '') } = 'user and password in base64';
	$hidden{ encode_base64(":$text{password}", '') } = 'password in base64';
	$hidden{'canary-'} = 'any of them';
	for my $text (sort keys %hidden)
	{
		my $name = $hidden{$text};
		is(index($seen, $text), -1, "$name: in no table, view, envelope, activity, statistics of statements");
		is(index($dump, $text), -1, "$name: not in a dump");
		is(index($log, $text), -1, "$name: not in the log");
	}

	# Nowhere in the data directory: tables, indexes, WAL, temporary files.
	my $found = '';
	for my $text (sort keys %hidden)
	{
		IPC::Run::run([ 'grep', '-rlaF', '-e', $text, $node->data_dir ], '<', \undef, '>', \my $files, '2>', \my $errors);
		$found .= $files;
	}
	is($found, '', 'in no file of the data directory');
	IPC::Run::run([ 'grep', '-rlaF', '-e', '{secret:pay_token}', $node->data_dir ], '<', \undef, '>', \my $files, '2>', \my $errors);
	isnt($files, '', 'where a reference is found');
}

done_testing();
