# What is no absence: answers to a lookup that do not show that it did not happen.
#
# Every action here was executed, once, and its tool declares everything that would
# make an absence count: the list is authoritative, nothing can be in progress any
# more, and a send may follow.  A lookup that is answered wrongly twice must change
# nothing; the third finds it.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;

my $node = start_server(conf => "actionledger.max_response_size = '64kB'");
my $p = start_provider();
$node->safe_psql('postgres', qq{SELECT actionledger.create_service('pay', '$p->{url}', '{"allow_private": true, "breaker": {"failures": 1000}}')});

sub tool
{
	my ($name, $look, %o) = @_;
	my $request = "GET /refunds?key={_key}&do=$look" . ($o{query} // '');
	$request =~ s/(["\\])/\\$1/g;
	return refund_tool($node, name => $name, mode => 'unkeyed', do => $o{do} // 'close', timeout => $o{timeout} // '600ms',
		options => '"max_processing": "' . ($o{processing} // '0s') . qq(", "lookup": {"request": "$request", "match": "\$.data[*] ? (@.key == \$_key)", "more": "\$.has_more",
		  "absence": "authoritative", "resend": true, "every": "50ms", "attempts": 20}));
}

# An answer with a body for the provider's plan, encoded twice, as it is decoded twice.
sub body
{
	my ($text, $headers) = @_;
	$text =~ s/([^A-Za-z0-9_.-])/sprintf '%%25%02X', ord $1/ge;
	return 'status:200' . ($headers // '') . ";body:$text";
}

sub verdicts
{
	my ($id) = @_;
	return map { "$_->{verdict} $_->{category}" } grep { $_->{kind} eq 'lookup' } attempts_of($node, $id);
}

my %answer = (
	(map { ("status $_" => [ "status:$_", $_ >= 500 ? 'status_ambiguous' : 'lookup_refused' ]) } 400, 401, 403, 404, 410, 500, 502, 503),
	'status 429' => [ 'status:429', 'throttled' ],
	'status 202' => [ 'accepted', 'status_ambiguous' ],
	'status 204' => [ 'status:204', 'unreadable' ],
	'status 206' => [ 'status:206', 'status_ambiguous' ],
	'status 418' => [ 'status:418', 'status_ambiguous' ],
	'redirect' => [ 'redirect:/refunds', 'status_ambiguous' ],
	'no answer in time' => [ 'hang', 'timeout_after_send' ],
	'connection closed' => [ 'close', 'connection_lost' ],
	'connection reset' => [ 'reset', 'connection_lost' ],
	'head cut off' => [ 'cuthead', 'response_cut' ],
	'garbled' => [ 'statusline:HTTP/9%252520999', 'response_garbled' ],
	'body truncated' => [ 'truncated', 'body_truncated' ],
	'no framing' => [ 'noframing', 'body_truncated' ],
	'endless' => [ 'endless', 'body_truncated' ],
	'larger than is kept' => [ 'big:100000', 'body_truncated' ],
	'NUL' => [ 'nul', 'unreadable' ],
	'compressed' => [ 'gzip', 'unreadable' ],
	'nested deeply' => [ 'deep', 'unreadable' ],
	'no UTF-8' => [ 'badutf8', 'unreadable' ],
	'no JSON' => [ body('<html>maintenance</html>'), 'unreadable' ],
	'empty body' => [ 'status:200;body:', 'unreadable' ],
	'another object' => [ 'okfalse', 'unreadable' ],
	'no array' => [ body('{"data": {"count": 0}}'), 'unreadable' ],
	'null instead of an array' => [ body('{"data": null, "has_more": false}'), 'unreadable' ],
	'an array of nothing' => [ body('[]'), 'unreadable' ],
	'a text' => [ body('"nothing"'), 'unreadable' ],
	'more pages, empty' => [ body('{"data": [], "has_more": true}'), 'more_pages' ],
	'more pages, others' => [ body('{"data": [{"key": "other"}], "has_more": true}'), 'more_pages' ],
	'more pages by a Link of two relations' => [ body('{"data": [], "has_more": false}', ';Link:%253C/refunds?page=2%253E%253B Rel=%2522prev next%2522' =~ s/ /%2520/gr), 'more_pages' ],
	'more pages by Link' => [ body('{"data": [], "has_more": false}', ';Link:%253C/refunds?page=2%253E%253B rel=%2522next%2522' =~ s/ /%2520/r), 'more_pages' ],
);

subtest 'an answer that does not show it proves nothing' => sub {
	my %id;

	for my $name (sort keys %answer)
	{
		tool($name, "$answer{$name}[0],$answer{$name}[0],ok");
		$id{$name} = perform($node, $name, $name =~ tr/ ,/--/r);
	}
	for my $name (sort keys %answer)
	{
		my $row = settle($node, $id{$name}, 'confirmed', 'none', 60);
		# What closes a kept connection is the end of a lookup as well; libcurl may not ask a second time.
		my @verdicts = map { s/resend_blocked/connection_lost/r } verdicts($id{$name});
		is_deeply(\@verdicts, [ ("unknown $answer{$name}[1]") x 2, 'confirmed found' ], "$name: proves nothing, twice");
		is_deeply([ scalar(received($p, $id{$name})), effects($p, $id{$name}), $row->{confirmed_by} ], [ 1, 1, 'lookup' ], "$name: sent once, done once, found");
	}
};

subtest 'a lookup that cannot be made is none' => sub {
	# The destination is away while it is looked for.
	my $away = start_provider();
	$node->safe_psql('postgres', qq{SELECT actionledger.create_service('away', '$away->{url}', '{"allow_private": true, "breaker": {"failures": 1000}}')});
	refund_tool($node, service => 'away', name => 'away', mode => 'unkeyed', do => 'hang', timeout => '500ms', options => '"max_processing": "1s",
	  "lookup": {"request": "GET /refunds?key={_key}", "match": "$.data[*] ? (@.key == $_key)", "absence": "authoritative", "resend": true, "every": "50ms", "attempts": 3}');
	my $id = perform($node, 'away', 'away-1');
	settle($node, $id, 'needs_reconciliation', 'lookup');
	$away->{handle}->kill_kill;
	delete $away->{handle};
	my $row = settle($node, $id, 'needs_reconciliation', 'review');
	is_deeply([ verdicts($id) ], [ ('not_sent connect') x 3 ], 'nobody is there to ask');
	is($row->{known}, 'unknown', 'the outcome is as unknown as before');
	is(scalar(received($away, $id)), 1, 'and nothing is sent again');

	# A secret is missing: no lookup, and the reason is told; mended, it is looked up on demand.
	$node->safe_psql('postgres', qq{SELECT actionledger.create_service('secret', '$p->{url}', '{"allow_private": true, "breaker": {"failures": 1000}, "auth": {"bearer": "{secret:key}"}}')});
	$node->safe_psql('postgres', q{SELECT actionledger.set_secret('key', 'sk_1')});
	refund_tool($node, service => 'secret', name => 'secret', mode => 'unkeyed', do => 'hang', timeout => '500ms', options => '"max_processing": "1s",
	  "lookup": {"request": "GET /refunds?key={_key}", "match": "$.data[*] ? (@.key == $_key)", "every": "50ms", "attempts": 3}');
	$id = perform($node, 'secret', 'secret-1');
	poll(sub { scalar received($p, $id) }, 'it was sent');
	$node->safe_psql('postgres', q{SELECT actionledger.set_secret('key', NULL)});
	$row = settle($node, $id, 'needs_reconciliation', 'review');
	like($row->{error_message}, qr/1 send, outcome unknown; it cannot be looked up: secret "key" is missing/, 'without its secret it is not looked up, and says so');
	is($row->{lookups}, 0, 'no lookup was made');
	$node->safe_psql('postgres', q{SELECT actionledger.set_secret('key', 'sk_2')});
	is($node->safe_psql('postgres', "SELECT status, next_step FROM actionledger.reconcile_now($id)"), 'needs_reconciliation|lookup', 'once mended, it is looked up on demand');
	settle($node, $id, 'confirmed', 'none');
	is((looked($p, $id))[0]{auth}, 'Bearer sk_2', 'with the credentials of the service');
	is((looked($p, $id))[0]{key}, action_row($node, $id)->{idempotency_key}, 'for its key');
	is(scalar(grep { $_->{method} ne 'GET' || $_->{body_len} } looked($p, $id)), 0, 'as a GET without a body');

	# The service has moved: where it is now knows nothing of it.
	my $other = start_provider();
	refund_tool($node, service => 'secret', name => 'moved', mode => 'unkeyed', do => 'hang', timeout => '500ms', options => '"max_processing": "2s",
	  "lookup": {"request": "GET /refunds?key={_key}", "match": "$.data[*] ? (@.key == $_key)", "absence": "authoritative", "resend": true, "every": "50ms", "attempts": 3}');
	$id = perform($node, 'moved', 'moved-1');
	settle($node, $id, 'needs_reconciliation', 'lookup');
	$node->safe_psql('postgres', qq{SELECT actionledger.alter_service('secret', '{"base_url": "$other->{url}"}')});
	$row = settle($node, $id, 'needs_reconciliation', 'review');
	like($row->{error_message}, qr/cannot be looked up: it went to another origin/, 'the new host is not asked about what went to the old one');
	is(scalar(grep { $_->{ev} eq 'received' } truth($other)), 0, 'nothing went there');
};

subtest 'the destination shows it late' => sub {
	# Inside the max processing time nothing counts; by its end the list has it.
	tool('late list', 'ok', query => '&hide_ms=1500', processing => '2s', do => 'hang');
	my $id = perform($node, 'late list', 'late-list');
	settle($node, $id, 'needs_reconciliation', 'lookup');
	like($node->safe_psql('postgres', "SELECT message FROM actionledger.reconcile_now($id)"), qr/would prove nothing before/, 'an early lookup is allowed, and says what it is worth');
	poll(sub { scalar looked($p, $id) }, 'it was looked up early');
	my $row = settle($node, $id, 'confirmed', 'none');
	my @verdicts = verdicts($id);
	is(shift @verdicts, 'unknown not_found', 'that it was not there then proves nothing');
	is(pop @verdicts, 'confirmed found', 'later it is there');
	is_deeply([ scalar(received($p, $id)), effects($p, $id) ], [ 1, 1 ], 'sent once, done once');
};

subtest 'the destination executes it late' => sub {
	my @ids;

	# Executed more than a second after we stopped waiting; an operator keeps looking meanwhile.
	tool('late execution', 'ok', do => 'slowexec:3000', timeout => '300ms', processing => '6s');
	push @ids, perform($node, 'late execution', "late-execution-$_") for 1 .. 5;
	my $ids = join ', ', @ids;
	poll_sql($node, "SELECT bool_and(next_step = 'lookup') FROM actionledger.action WHERE action_id IN ($ids)", 'all are to be looked up');
	for my $round (1 .. 3)
	{
		# One that is being looked up, or is found by now, raises, and is left alone.
		$node->safe_psql('postgres', "DO \$\$ DECLARE id bigint; BEGIN FOREACH id IN ARRAY '{$ids}'::bigint[] LOOP BEGIN PERFORM actionledger.reconcile_now(id); EXCEPTION WHEN SQLSTATE 'LG011' OR SQLSTATE 'LG012' THEN NULL; END; END LOOP; END \$\$");
		poll_sql($node, "SELECT bool_and(lookups >= $round OR status = 'confirmed') FROM actionledger.action WHERE action_id IN ($ids)", "round $round of lookups");
	}
	for my $id (@ids)
	{
		settle($node, $id, 'confirmed', 'none');
		is_deeply([ scalar(received($p, $id)), effects($p, $id) ], [ 1, 1 ], "action $id: never failed or sent again before it was executed");
		cmp_ok(scalar(grep { $_ eq 'unknown not_found' } verdicts($id)), '>=', 1, "action $id: though it was looked for before");
	}
};

$node->stop;
done_testing();
