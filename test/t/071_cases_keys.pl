# Reports of real trouble, section B: idempotency keys.
#
# Each subtest is one report: given, when, then.  Requests, keys and effects are
# counted where the request arrives.  Each holds without a lookup, where a person is asked, and with one.
use strict;
use warnings;
use IPC::Run ();
use JSON::PP;
use Test::More;
use lib 'test/lib';
use Ledger;
use PostgreSQL::Test::Utils;

my $node = start_server();
my $p = start_provider();

# So many unknown outcomes in a row would open the breaker.
my $patient = '"breaker": {"failures": 1000}';
refund_service($node, $p, name => 'keyed', options => $patient);
refund_service($node, $p, name => 'unkeyed', honoured => 0, options => $patient);

my @keyed = (type => 'non_idempotent', service => 'keyed', mode => 'keyed');

# "verdict category" of an action's attempts, in their order.
sub story
{
	my ($id) = @_;
	return [ map { ($_->{verdict} // 'open') . ' ' . ($_->{category} // '') } attempts_of($node, $id) ];
}

# What arrived for an action agrees: one key, one body, and the ones of its row.
sub is_same_request
{
	my ($id, $requests, $name) = @_;
	my $row = action_row($node, $id);
	my @received = received($p, $id);

	is(scalar @received, $requests, "$name: requests on the wire");
	is_deeply([ map { $_->{key} } @received ], [ ($row->{idempotency_key}) x $requests ], "$name: each with the key of its row, to the byte");
	is_deeply([ map { $_->{body_sha256} } @received ],
		[ ($node->safe_psql('postgres', "SELECT encode(sha256(body), 'hex') FROM actionledger.action WHERE action_id = $id")) x $requests ], "$name: and the body of its row");
	return;
}

# A statement that fails; returns what psql says, with the SQLSTATE.
sub failure
{
	my ($sql) = @_;
	my ($out, $err) = ('', '');
	my $rc = $node->psql('postgres', $sql, stdout => \$out, stderr => \$err, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	return $rc == 0 ? "no error: $out" : $err;
}

# All that is stored, and all that has arrived: to show that nothing has changed.
sub stored
{
	return $node->safe_psql('postgres', 'SELECT action_id, identity, md5(a::text) FROM actionledger.action a ORDER BY action_id');
}

sub arrived
{
	return scalar grep { $_->{ev} eq 'received' } truth($p);
}

# A body for the provider's plan, encoded twice, as it is decoded twice.
sub body
{
	my ($text) = @_;
	$text =~ s/([^A-Za-z0-9_.-])/sprintf '%%25%02X', ord $1/ge;
	return "body:$text";
}

subtest 'case 11: the row and the key survive an error of the provider, however often it is tried again' => sub {
	my ($id, $row, $before);

	# The provider commits and drops the reply, again and again, until the tries are used up.
	refund_tool($node, @keyed, name => 'case11', do => 'close,close,reset,ok', attempts => 3, base => '50ms');
	$id = perform($node, 'case11', 'case11');
	$row = settle($node, $id, 'needs_reconciliation', 'review');
	is_same_request($id, 3, 'automatic retries');
	is(effects($p, $id), 1, 'automatic retries: one effect');
	is(scalar @{ story($id) }, 3, 'automatic retries: each is on record');

	# The caller does it again, in the same words: no new row, no new key.
	is($node->safe_psql('postgres', q{SELECT action_id, created FROM actionledger.perform('case11', '{"refund_id": "case11", "amount": 100}')}), "$id|f",
		'the caller repeats: the same row');
	is(action_row($node, $id)->{idempotency_key}, $row->{idempotency_key}, 'the caller repeats: the same key');

	# An operator does it again.  With its tries used up the ledger refuses (LG012);
	# with the tool's bounds wider it goes out, with the same key.
	like(failure("SELECT actionledger.retry($id, 'again')"), qr/ERROR:  LG012: /, 'an operator repeats what has no try left: refused, not sent under another key');
	is(scalar(received($p, $id)), 3, 'and nothing was sent');

	refund_tool($node, @keyed, name => 'case11 operator', do => 'close,close,ok', attempts => 3, base => '60s', cap => '60s', window => '1h');
	my $id2 = perform($node, 'case11 operator', 'case11-operator');
	my $key = action_row($node, $id2)->{idempotency_key};
	for my $n (1 .. 2)
	{
		settle($node, $id2, 'submitted', 'resend');
		poll_sql($node, "SELECT claimed_by IS NULL AND sends = $n FROM actionledger.action WHERE action_id = $id2", "send $n has ended");
		is($node->safe_psql('postgres', "SELECT status, next_step FROM actionledger.retry($id2, 'now')"), 'submitted|resend', "an operator's retry after send $n");
	}
	$row = settle($node, $id2, 'confirmed', 'none');
	is($row->{idempotency_key}, $key, "an operator's retry: the key of the row is what it was");
	is($row->{confirmed_by}, 'replay', "an operator's retry: confirmed by the replay");
	is_same_request($id2, 3, "an operator's retry");
	is(effects($p, $id2), 1, "an operator's retry: one effect");
	is($node->safe_psql('postgres', "SELECT count(*) FROM actionledger.action a JOIN actionledger.tool t USING (tool_id) WHERE t.name LIKE 'case11%'"), '2', 'two operations, two rows');
};

subtest 'case 14: a key is never used for changed parameters' => sub {
	my ($id, $before, $wire);

	refund_tool($node, @keyed, name => 'case14');
	refund_tool($node, @keyed, name => 'case14 other', options => '"idempotency": {"window": "24h"}');
	$id = perform($node, 'case14', 'case14');
	my $waiting = perform($node, 'case14', 'case14-waiting', options => '{"not_before": "2100-01-01T00:00:00Z"}');
	settle($node, $id, 'confirmed', 'none');
	$before = stored();
	$wire = arrived();
	for my $identity (qw(case14 case14-waiting))
	{
		for my $amount (101, -100, '100.5e1')
		{
			like(failure(qq{SELECT actionledger.perform('case14', '{"refund_id": "$identity", "amount": $amount}')}), qr/ERROR:  LG007: .*DETAIL:  Action \d+ has it/s,
				"$identity with amount $amount: an error of its own");
		}
		like(failure(qq{SELECT actionledger.perform('case14 other', '{"refund_id": "$identity", "amount": 100}')}), qr/ERROR:  LG007: /, "$identity with another tool: the same error");
		like(failure(qq{SELECT * FROM actionledger.perform_many('case14', ARRAY['{"refund_id": "$identity", "amount": 1}']::jsonb[])}), qr/ERROR:  LG007: /, "$identity in bulk: the same error");
		like($node->safe_psql('postgres', qq{SELECT error ->> 'code', action_id, created FROM actionledger.perform_many('case14', ARRAY['{"refund_id": "$identity", "amount": 1}']::jsonb[], options => '{"on_error": "skip"}')}),
			qr/^LG007\|\|f?$/, "$identity in bulk, skipping: the item says so");
	}

	# Within one transaction, and by two at once.
	like(failure(q{SELECT actionledger.perform('case14', '{"refund_id": "case14-one", "amount": 1}') UNION ALL SELECT actionledger.perform('case14', '{"refund_id": "case14-one", "amount": 2}')}),
		qr/ERROR:  LG007: /, 'in one statement: an error');
	my $first = $node->background_psql('postgres');
	$first->query_safe('BEGIN');
	$first->query_safe(q{SELECT actionledger.perform('case14', '{"refund_id": "case14-two", "amount": 1}', options => '{"not_before": "2100-01-01T00:00:00Z"}')});
	my ($out, $err) = ('', '');
	my $second = IPC::Run::start([ 'psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('postgres'), '-c',
			q{SELECT actionledger.perform('case14', '{"refund_id": "case14-two", "amount": 2}')} ], '<', \undef, '>', \$out, '2>', \$err);
	poll_sql($node, "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted", 'the second waits for the first');
	$first->query_safe('COMMIT');
	$second->finish;
	$first->quit;
	like($err, qr/ERROR:  LG007: /, 'two sessions at once: the second gets the error');

	turns_pass($node, 3);
	my @now = split /\n/, stored();
	is(join("\n", grep { !/case14-two/ } @now), $before, 'the stored rows are unchanged');
	is(scalar(grep { /case14-two/ } @now), 1, 'of two at once the first is stored');
	is(arrived(), $wire, 'nothing was sent');
	is_same_request($id, 1, 'the first one');
	settle($node, $waiting, 'prepared', 'send');

	# The same parameters in other words are the same request.
	is($node->safe_psql('postgres', q{SELECT action_id, created FROM actionledger.perform('case14', ' {"amount" : 1e2,
	  "refund_id":"c\u0061se14"}')}), "$id|f", 'other spelling, same parameters: the same action');
};

subtest 'case 15: no key and no header of one action is on the next' => sub {
	# Endpoints that write down every request as it came.
	my $folder = PostgreSQL::Test::Utils::tempdir();
	my @endpoints = map {
		my $name = $_;
		my $server = start_raw_server(
			sub {
				my ($c) = @_;
				my $buffer = '';
				while (1)
				{
					while ($buffer !~ /\r\n\r\n/) { sysread $c, $buffer, 65536, length $buffer or return; }
					my ($head) = $buffer =~ /\A(.*?\r\n\r\n)/s;
					my ($length) = $head =~ /^content-length: (\d+)/im;
					while (length($buffer) < length($head) + ($length // 0)) { sysread $c, $buffer, 65536, length $buffer or return; }
					my $request = substr $buffer, 0, length($head) + ($length // 0), '';
					open my $f, '>>', "$folder/$name" or die;
					syswrite $f, encode_json({ conn => $$, head => $head }) . "\n";
					close $f;
					syswrite $c, "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{\"id\":\"re_1\"}";
				}
			});
		{ name => $name, url => $server->{url} };
	} qw(one two);

	# What the services and their tools put into a request, and nobody else does.
	my %service = (
		alpha => [ $endpoints[0], '"header": "Alpha-Key"', '"headers": {"X-Alpha": "of-alpha"}, "auth": {"bearer": "{secret:token_alpha}"}', qr/^(X-Alpha|Alpha-Key|X-Tool-alpha|Authorization: Bearer token-alpha)/m ],
		beta => [ $endpoints[1], '"header": "Beta-Key"', '"headers": {"X-Beta": "of-beta"}, "auth": {"header": {"X-Token": "{secret:token_beta}"}}', qr/^(X-Beta|Beta-Key|X-Tool-beta|X-Token: token-beta)/m ],
		gamma => [ $endpoints[0], '"query": "gamma_key"', '"headers": {"X-Gamma": "of-gamma"}', qr/^(X-Gamma|X-Tool-gamma)/m ]);
	my (%of, %seen);

	$node->safe_psql('postgres', "SELECT actionledger.set_secret(n, v) FROM (VALUES ('token_alpha', 'token-alpha'), ('token_beta', 'token-beta')) s(n, v)");
	for my $name (sort keys %service)
	{
		my ($endpoint, $key, $options) = @{ $service{$name} };
		$node->safe_psql('postgres', qq{SELECT actionledger.create_service('$name', '$endpoint->{url}', '{"allow_private": true, "idempotency": {$key, "window": "24h"}, $options}')});
		refund_tool($node, name => $name, service => $name, timeout => '30s', request => "POST /$name", options => qq{"headers": {"X-Tool-$name": "{refund_id}"}});
	}
	# No key at all at a fourth: none of the others must appear there.
	$node->safe_psql('postgres', qq{SELECT actionledger.create_service('delta', '$endpoints[1]{url}', '{"allow_private": true, "idempotency": "none"}')});
	refund_tool($node, name => 'delta', service => 'delta', timeout => '30s', request => 'POST /delta');

	# The same business reference at each, one after the other and many at once, by one worker.
	for my $round (1 .. 3)
	{
		for my $name (qw(alpha beta gamma delta))
		{
			my $id = perform($node, $name, "case15-$round");
			$of{$id} = $name;
			settle($node, $id, 'confirmed', 'none');
		}
	}
	$node->safe_psql('postgres', q{SELECT count(*) FROM (VALUES ('alpha'), ('beta'), ('gamma'), ('delta')) t(tool), LATERAL actionledger.perform_many(tool,
	  ARRAY(SELECT jsonb_build_object('refund_id', 'case15-many-' || i, 'amount', i) FROM generate_series(1, 20) i))});
	poll_sql($node, q{SELECT count(*) = 92 FROM actionledger.actions WHERE tool IN ('alpha', 'beta', 'gamma', 'delta') AND status = 'confirmed'}, 'all are confirmed', 60);
	is($node->safe_psql('postgres', "SELECT count(DISTINCT incarnation) FROM actionledger.attempt t JOIN actionledger.actions a USING (action_id) WHERE a.identity LIKE 'refund:case15%'"), '1',
		'all were sent by one worker');
	is($node->safe_psql('postgres', "SELECT count(DISTINCT idempotency_key) FROM actionledger.actions WHERE identity LIKE 'refund:case15%'"), '92', 'the ledger has as many keys as actions');

	my %row = map { /^(\d+)\|(\S+)\|(\S+)\|(\S+)$/ ? ($1 => [ $2, $3, $4 ]) : () } split /\n/,
	  $node->safe_psql('postgres', "SELECT action_id, tool, idempotency_key, substr(identity, 8) FROM actionledger.actions WHERE identity LIKE 'refund:case15%'");
	my ($wrong, $foreign, $n, %keys, %connections) = (0, 0, 0);
	for my $endpoint (@endpoints)
	{
		for my $line (split /\n/, slurp_file("$folder/$endpoint->{name}"))
		{
			my $r = decode_json($line);
			my ($name) = $r->{head} =~ m{^POST /(\w+)};
			my ($id) = $r->{head} =~ m{^Actionledger-Action: \S+/(\d+)\r$}m;
			my ($key) = $r->{head} =~ /^(?:Alpha|Beta)-Key: (\S+)\r$/m;
			($key) = $r->{head} =~ /gamma_key=([^& ]+)/ if $name eq 'gamma';
			my $expected = $name eq 'delta' ? undef : $row{$id}[1];

			$n++;
			$connections{ $r->{conn} }{$name} = 1;
			$keys{$key}++ if defined $key;
			$wrong++ if $row{$id}[0] ne $name || ($key // 'none') ne ($expected // 'none');
			$wrong++ if $name ne 'delta' && $r->{head} !~ /^X-Tool-$name: \Q$row{$id}[2]\E\r$/m;
			for my $other (grep { $_ ne $name } keys %service)
			{
				$foreign++ if $r->{head} =~ $service{$other}[3];
			}
			$foreign++ if $name eq 'delta' && $r->{head} =~ /key/i;
			$foreign++ if $name =~ /gamma|delta/ && $r->{head} =~ /^(Authorization|X-Token)/m;
			$seen{$name}++ if $name eq 'delta' || $r->{head} =~ $service{$name}[3];
		}
	}
	is($n, 92, 'every action arrived once');
	is($wrong, 0, 'every request has the key and the headers of its own action');
	is($foreign, 0, 'no request has anything of another one');
	is_deeply(\%seen, { map { $_ => 23 } qw(alpha beta gamma delta) }, 'and all have what is their own');
	is(scalar(grep { $_ != 1 } values %keys), 0, 'no key arrived twice');
	is(scalar keys %keys, 69, 'each of those that send one has a key of its own, for the same business reference too');
	cmp_ok(scalar keys %connections, '<', 92, 'and connections were used again');
};

subtest 'case 18: "already used" as the answer to a retry is no failure' => sub {
	my $used = 'status:400;' . body('{"name":"DUPLICATE_REQUEST_ID"}');
	my $if = '"if": "$.name == \"DUPLICATE_REQUEST_ID\""';
	my %tool = (
		default => [ undef, 'unknown timeout_after_send', 'rejected rejected' ],
		unknown => [ qq{[{"status": 400, $if, "verdict": "unknown", "category": "already_used"}]}, 'unknown timeout_after_send', 'unknown already_used' ],
		rejected => [ qq{[{"status": "4xx", $if, "verdict": "rejected", "category": "already_used"}]}, 'unknown timeout_after_send', 'rejected already_used' ],
		transient => [ qq{[{"status": 400, $if, "verdict": "rejected", "transient": true, "category": "already_used"}]}, 'unknown timeout_after_send', 'rejected already_used' ],
		in_progress => [ qq{[{"status": 400, $if, "verdict": "in_progress", "category": "already_used"}]}, 'unknown timeout_after_send', 'in_progress already_used' ]);
	my %id;

	for my $name (sort keys %tool)
	{
		refund_tool($node, @keyed, name => "case18 $name", do => "hang,$used", timeout => '400ms', attempts => 3, base => '50ms',
			options => $tool{$name}[0] ? qq{"outcome": $tool{$name}[0]} : undef);
		$id{$name} = perform($node, "case18 $name", "case18-$name");
	}
	for my $name (sort keys %tool)
	{
		my ($rule, $first, $later) = @{ $tool{$name} };
		my $row = settle($node, $id{$name}, 'needs_reconciliation', 'review');
		my @story = @{ story($id{$name}) };

		turns_pass($node, 3);
		is(shift @story, $first, "$name: the first attempt timed out");
		cmp_ok(scalar @story, '>=', 1, "$name: a same-key retry was answered");
		is(scalar(grep { $_ ne $later } @story), 0, "$name: with \"already used\"") or diag("@story");
		cmp_ok(scalar @story, '<=', 2, "$name: and it was bounded");
		is(action_row($node, $id{$name})->{status}, 'needs_reconciliation', "$name: not failed, and it stays so");
		is($node->safe_psql('postgres', "SELECT count(*) FROM actionledger.timeline WHERE action_id = $id{$name} AND status = 'failed'"), '0', "$name: at no time");
		is_same_request($id{$name}, 1 + @story, $name);
		is(effects($p, $id{$name}), 1, "$name: one effect");
	}

	# With a lookup it decides, whatever the rules say of the second answer.
	for my $name (sort keys %tool)
	{
		refund_tool($node, @keyed, name => "case18 asked $name", do => "hang,$used", timeout => '400ms', attempts => 3, base => '50ms',
			options => join ', ', '"max_processing": "500ms", "lookup": {"request": "GET /refunds?key={_key}", "match": "$.data[*] ? (@.key == $_key)", "every": "200ms"}',
			$tool{$name}[0] ? qq{"outcome": $tool{$name}[0]} : ());
		$id{"asked $name"} = perform($node, "case18 asked $name", "case18-asked-$name");
	}
	for my $name (map { "asked $_" } sort keys %tool)
	{
		my $row = settle($node, $id{$name}, 'confirmed', 'none');
		is_deeply([ $row->{confirmed_by}, effects($p, $id{$name}) ], [ 'lookup', 1 ], "$name: the lookup decides, one effect");
		is($node->safe_psql('postgres', "SELECT count(*) FROM actionledger.timeline WHERE action_id = $id{$name} AND status = 'failed'"), '0', "$name: failed at no time");
	}

	# Without one a person decides.
	is($node->safe_psql('postgres', qq{SELECT status FROM actionledger.resolve($id{unknown}, 'confirmed', '{"external_ref": "re_7"}', 'found at the provider')}), 'confirmed', 'a person decides');

	# A destination whose "already used" is proof may say so: then it confirms.
	refund_tool($node, @keyed, name => 'case18 proof', do => "hang,$used", timeout => '400ms', attempts => 3, base => '50ms',
		options => qq{"outcome": [{"status": 400, $if, "verdict": "confirmed", "conclusive": true, "category": "already_used"}]});
	my $id = perform($node, 'case18 proof', 'case18-proof');
	settle($node, $id, 'confirmed', 'none');
	is_same_request($id, 2, 'conclusive');
	is(effects($p, $id), 1, 'conclusive: one effect');
};

subtest 'case 19: a stored 500 ends in bounded same-key retries, a 429 was not executed' => sub {
	my %tool = (
		# do, attempts on the wire, effects, story
		stored => [ 'execstatus:500', 2, 1, [ 'unknown status_ambiguous', 'unknown replayed_error' ] ],
		gateway => [ 'status:500', 5, 0, [ ('unknown status_ambiguous') x 5 ] ],
		late_gateway => [ 'late:1200,status:500', 5, 1, [ 'unknown timeout_after_send', ('unknown status_ambiguous') x 4 ] ]);
	my (%id, $row);

	for my $name (sort keys %tool)
	{
		refund_tool($node, @keyed, name => "case19 $name", do => $tool{$name}[0], attempts => 5, base => '50ms', cap => '100ms', timeout => '500ms');
		$id{$name} = perform($node, "case19 $name", "case19-$name");
	}
	# A destination that stores errors and does not mark its replays.
	$node->safe_psql('postgres', qq{SELECT actionledger.create_service('silent', '$p->{url}', '{"allow_private": true, "idempotency": {"window": "24h", "replays_errors": true}, "breaker": {"failures": 1000}}')});
	refund_tool($node, @keyed, service => 'silent', name => 'case19 silent', do => 'execstatus:500', attempts => 4, base => '50ms', cap => '100ms');
	$tool{silent} = [ undef, 4, 1, [ ('unknown status_ambiguous') x 4 ] ];
	$id{silent} = perform($node, 'case19 silent', 'case19-silent');
	for my $name (sort keys %tool)
	{
		my (undef, $requests, $effects, $story) = @{ $tool{$name} };
		$row = settle($node, $id{$name}, 'needs_reconciliation', 'review');
		is($row->{error_code}, 'outcome_unknown', "$name: needs reconciliation");
		is_deeply(story($id{$name}), $story, "$name: the attempts");
		is_same_request($id{$name}, $requests, $name);
		is(effects($p, $id{$name}), $effects, "$name: effects");
	}
	turns_pass($node, 6);
	is(scalar(received($p, $id{$_})), $tool{$_}[1], "$_: there is no endless loop") for sort keys %tool;

	# Without a key that is honoured a 500 is not repeated at all.
	refund_tool($node, service => 'unkeyed', mode => 'unkeyed', name => 'case19 unkeyed', do => 'execstatus:500', attempts => 5, base => '50ms');
	my $id = perform($node, 'case19 unkeyed', 'case19-unkeyed');
	settle($node, $id, 'needs_reconciliation', 'review');
	turns_pass($node, 3);
	is_deeply([ scalar(received($p, $id)), effects($p, $id) ], [ 1, 1 ], 'unkeyed: a 500 is sent once');

	# 429 comes before the key: nothing was executed, and the key is free.
	for my $service (qw(keyed unkeyed))
	{
		refund_tool($node, service => $service, mode => $service, name => "case19 429 $service", do => 'status:429;Retry-After:2,status:429,ok', attempts => 5, base => '50ms', cap => '100ms');
		$id{$service} = perform($node, "case19 429 $service", "case19-429-$service");
		poll_sql($node, "SELECT status = 'prepared' AND next_step = 'send' AND known = 'rejected_transient' FROM actionledger.action WHERE action_id = $id{$service}", 'refused for now');
		pass("429 $service: prepared again, as it was not executed");
	}
	for my $service (qw(keyed unkeyed))
	{
		settle($node, $id{$service}, 'confirmed', 'none');
		is_deeply(story($id{$service}), [ ('rejected throttled') x 2, 'confirmed confirmed' ], "429 $service: the attempts");
		is(effects($p, $id{$service}), 1, "429 $service: one effect");
		is(scalar(received($p, $id{$service})), 3, "429 $service: requests on the wire");
	}
	is_same_request($id{keyed}, 3, '429 keyed');

	# Only 429, for ever: bounded, and then failed, because nothing ever happened.
	refund_tool($node, @keyed, name => 'case19 never', do => 'status:429', attempts => 3, base => '50ms', cap => '100ms');
	$id = perform($node, 'case19 never', 'case19-never');
	is(settle($node, $id, 'failed', 'none')->{error_code}, 'retries_exhausted', '429 for ever: failed, for it never happened');
	is_deeply([ scalar(received($p, $id)), effects($p, $id) ], [ 3, 0 ], '429 for ever: its three tries, no effect');
};

subtest 'case 20: a caller that makes a new key for every try gets the action that is there' => sub {
	my ($id, $key, %answers);

	# The model's own key cannot reach the wire: it has no place but the note of the caller ...
	refund_tool($node, @keyed, name => 'case20', do => 'close,late:300', timeout => '2s');
	for my $n (1 .. 5)
	{
		my $options = qq{{"meta": {"idempotency_key": "fresh-$n"}, "actor": "agent-$n"}};
		my $answer = $node->safe_psql('postgres', qq{SELECT action_id, identity FROM actionledger.perform('case20', '{"refund_id": "case20", "amount": 5}', run_id => 'run-$n', step => $n, options => '$options')});
		$answers{$answer}++;
		$id //= $answer =~ s/\|.*//r;
		$key //= action_row($node, $id)->{idempotency_key};
		is($node->safe_psql('postgres', "SELECT actionledger.result($id) #>> '{data,idempotency_key}'"), $key, "try $n: the existing key is returned");
	}
	is_deeply(\%answers, { "$id|refund:case20" => 5 }, 'five tries: one action');
	settle($node, $id, 'confirmed', 'none');
	is_same_request($id, 2, 'five tries');
	is(effects($p, $id), 1, 'five tries: one effect');
	unlike($node->safe_psql('postgres', "SELECT headers || convert_from(body, 'UTF8') || url FROM actionledger.action WHERE action_id = $id"), qr/fresh-/, 'and no key of the caller is in the request');

	# ... as an argument that the tool does not know it is refused ...
	my $wire = arrived();
	like(failure(q{SELECT actionledger.perform('case20', '{"refund_id": "case20", "amount": 5, "idempotency_key": "fresh-6"}')}), qr/ERROR:  LG003: /, 'as an unknown argument: refused');

	# ... and where the tool's author lets it in, it makes another request under the
	# same reference, which is refused by naming the action that is there.
	$node->safe_psql('postgres', q{SELECT actionledger.create_tool('case20 loose', 'keyed', 'POST /keyed/refunds', identity => 'loose:{refund_id}',
	  input => '{"required": ["refund_id"], "properties": {"refund_id": {"type": "string"}, "idempotency_key": {"type": "string"}}}')});
	my $loose = $node->safe_psql('postgres', q{SELECT action_id FROM actionledger.perform('case20 loose', '{"refund_id": "L", "idempotency_key": "fresh-1"}')});
	settle($node, $loose, 'confirmed', 'none');
	$wire = arrived();
	like(failure(q{SELECT actionledger.perform('case20 loose', '{"refund_id": "L", "idempotency_key": "fresh-2"}')}), qr/ERROR:  LG007: .*Action $loose has it/s, 'as a known argument: refused, and the existing action is named');
	turns_pass($node, 3);
	is(arrived(), $wire, 'nothing more was sent');

	# The parameter "identity" is no key but the name of the operation: who gives
	# another one asks for another operation, and gets created = true.
	is($node->safe_psql('postgres', q{SELECT created FROM actionledger.perform('case20', '{"refund_id": "case20", "amount": 5}', identity => 'a deliberate second')}), 't',
		'another identity is another operation, and loudly so');
};

subtest 'case 21: the key conforms to what the destination declares' => sub {
	my %key = (
		default => '',
		narrow => ', "min_length": 10, "max_length": 40, "alphabet": "A-Za-z0-9_-"',
		prefixed => ', "form": "identity", "prefix": "shop-", "min_length": 10, "max_length": 20, "alphabet": "A-Za-z0-9_-"');
	my ($id, @seen, $before, $wire);

	for my $name (sort keys %key)
	{
		$node->safe_psql('postgres', qq{SELECT actionledger.create_service('case21 $name', '$p->{url}', '{"allow_private": true, "idempotency": {"header": "X-Refund-Idempotency", "window": "24h", "replay_header": "Idempotent-Replayed"$key{$name}}, $patient}')});
		$node->safe_psql('postgres', qq{SELECT actionledger.create_tool('case21 $name', 'case21 $name', 'POST /keyed/refunds?key_header=X-Refund-Idempotency&do=close,ok', identity => '{refund_id}',
		  input => '{"required": ["refund_id"], "properties": {"refund_id": {"type": "string"}}}', options => '{"retry": {"base": "50ms"}}')});
		$id = $node->safe_psql('postgres', qq{SELECT action_id FROM actionledger.perform('case21 $name', '{"refund_id": "ORD-4471"}')});
		settle($node, $id, 'confirmed', 'none');
		is_same_request($id, 2, "$name, in the header that the destination names");
		is(effects($p, $id), 1, "$name: one effect");
		like((received($p, $id))[0]{key}, $name eq 'prefixed' ? qr/^shop-ORD-4471$/ : qr/^[A-Za-z0-9_-]{36}$/, "$name: the key is of the declared form");
	}

	# A key that the destination would refuse is refused before anything is recorded.
	$before = stored();
	$wire = arrived();
	my %bad = (
		'refund:17-and-more' => 'a character outside the alphabet',
		'1234' => 'too short',
		'1234567890123456' => 'too long',
		'1234 5678' => 'a space',
		"caf\xc3\xa9-123456" => 'no ASCII');
	for my $identity (sort keys %bad)
	{
		like(failure(qq{SET client_encoding = 'UTF8'; SELECT actionledger.perform('case21 prefixed', '{"refund_id": "x"}', identity => '$identity')}), qr/ERROR:  LG008: .*DETAIL: .*HINT: /s, "given by the caller: $bad{$identity}");
		like(failure(qq{SET client_encoding = 'UTF8'; SELECT actionledger.perform('case21 prefixed', '{"refund_id": "$identity"}')}), qr/ERROR:  LG008: /, "made of the arguments: $bad{$identity}");
	}
	like(failure(q{SELECT actionledger.perform('case21 default', '{"refund_id": "x"}', identity => '')}), qr/ERROR:  LG008: /, 'an empty one');
	like(failure(q{SELECT actionledger.perform('case21 default', '{"refund_id": ""}')}), qr/ERROR:  LG008: /, 'one whose field is empty');

	# Nor can a service be made whose default key would not fit.
	like(failure(qq{SELECT actionledger.create_service('case21 short', '$p->{url}', '{"idempotency": {"header": "X-Key", "max_length": 20}}')}), qr/ERROR:  LG015: /, 'a UUID that is too long for its destination is refused with the definition');
	turns_pass($node, 3);
	is(stored(), $before, 'no row');
	is(arrived(), $wire, 'nothing on the wire');
};

subtest 'case 22: a used key never makes later work disappear' => sub {
	my ($id, $first, $out, $err);

	$node->safe_psql('postgres', q{SELECT actionledger.create_tool('case22', 'keyed', 'POST /keyed/refunds?do=ok', identity => 'the constant',
	  input => '{"properties": {"n": {"type": "integer"}}}')});
	$id = $node->safe_psql('postgres', q{SELECT action_id FROM actionledger.perform('case22', '{"n": 1}')});
	settle($node, $id, 'confirmed', 'none');

	# The same work again: created = false, the old id, and words about the first one.
	$first = $node->safe_psql('postgres', q{SELECT action_id, created, status FROM actionledger.perform('case22', '{"n": 1}')});
	is($first, "$id|f|confirmed", 'again: created is false, with the old id and its state');
	like($node->safe_psql('postgres', q{SELECT observation FROM actionledger.perform('case22', '{"n": 1}')}), qr/Action $id\b/, 'again: the observation names it');
	like($node->safe_psql('postgres', q{SELECT observation FROM actionledger.perform('case22', '{"n": 1}')}), qr/nothing new|already|earlier|asked for/i, 'again: and says that nothing new was sent');
	is($node->safe_psql('postgres', q{SELECT action_id, created FROM actionledger.perform_many('case22', ARRAY['{"n": 1}', '{"n": 1}']::jsonb[])}), "$id|f\n$id|f", 'again, in bulk: each item says so');

	# Other work under the constant key is an error, not a swallow.
	like(failure(q{SELECT actionledger.perform('case22', '{"n": 2}')}), qr/ERROR:  LG007: .*Action $id has it/s, 'other work under the same key: an error that names the old one');

	# The first one failed, or was cancelled: then it is louder.
	refund_tool($node, @keyed, name => 'case22 failed', do => 'status:402');
	my $failed = perform($node, 'case22 failed', 'case22-failed');
	settle($node, $failed, 'failed', 'none');
	my $cancelled = perform($node, 'case22 failed', 'case22-cancelled', options => '{"not_before": "2100-01-01T00:00:00Z"}');
	$node->safe_psql('postgres', "SELECT actionledger.cancel($cancelled, 'no')");
	for my $case ([ 'failed', $failed ], [ 'cancelled', $cancelled ])
	{
		my ($how, $old) = @$case;
		$node->psql('postgres', qq{SELECT action_id, created, status FROM actionledger.perform('case22 failed', '{"refund_id": "case22-$how", "amount": 100}')}, stdout => \$out, stderr => \$err);
		is($out, "$old|f|failed", "the first one was $how: created is false, and failed is its state");
		like($err, qr/WARNING: .*action $old, which failed/, "the first one was $how: a warning says so");
	}
	my $wire = arrived();
	turns_pass($node, 3);
	is(arrived(), $wire, 'nothing more was sent');
	is_deeply([ scalar(received($p, $id)), effects($p, $id) ], [ 1, 1 ], 'the first one: sent once, executed once');

	# Another identity is how to ask for it again.
	my $again = $node->safe_psql('postgres', q{SELECT action_id FROM actionledger.perform('case22', '{"n": 1}', identity => 'the constant, again')});
	isnt($again, $id, 'with another identity it is other work');
	settle($node, $again, 'confirmed', 'none');
	is(effects($p, $again), 1, 'which is executed');
};

$node->stop;
done_testing();
