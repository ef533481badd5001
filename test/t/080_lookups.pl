# Lookups: each way in which one can end, with what the provider really did.
#
# Every action here is sent once to a destination that does not honour keys, and
# its answer is lost; the ledger finds out by itself.  What the lookup is answered
# is said by its own "do=" (test/provider/README.md).
use strict;
use warnings;
use HTTP::Tiny;
use JSON::PP;
use Test::More;
use lib 'test/lib';
use Ledger;

my $node = start_server();
my $p = start_provider();

# The key is sent and not relied on: it is how a lookup finds the effect.
$node->safe_psql('postgres', qq{SELECT actionledger.create_service('pay', '$p->{url}', '{"allow_private": true, "breaker": {"failures": 1000}}')});

my $match = q($.data[*] ? (@.key == $_key));
my $failed = q("outcome": [{"status": 200, "if": "$.status == \"failed\"", "verdict": "rejected", "category": "refund_failed"}, {"status": 200, "if": "$.status == \"pending\"", "verdict": "in_progress", "category": "pending"}]);

# A tool whose sends behave as do says and whose lookups as look does; lookup => more members of the option.
sub tool
{
	my ($name, %o) = @_;
	my $look = $o{look} // 'ok';
	my $request = $o{request} // "GET /refunds?key={_key}&do=$look" . ($o{query} // '');
	my $lookup = qq("lookup": {"request": "$request", "match": "@{[ $o{match} // $match ]}", "every": "100ms", "attempts": @{[ $o{attempts} // 8 ]})
	  . ($o{lookup} ? ", $o{lookup}" : '') . '}';
	return refund_tool($node, name => $name, mode => 'unkeyed', type => $o{type} // 'non_idempotent', do => $o{do} // 'hang', timeout => $o{timeout} // '400ms',
		options => join ', ', '"max_processing": "' . ($o{processing} // '0s') . '"', '"result": "$.amount"', $lookup, $o{options} // ());
}

# "kind verdict category" of an action's attempts.
sub story
{
	my ($id) = @_;
	return [ map { "$_->{kind} " . ($_->{verdict} // 'open') . ' ' . ($_->{category} // '') } attempts_of($node, $id) ];
}

sub envelope
{
	my ($id) = @_;
	return decode_json($node->safe_psql('postgres', "SELECT actionledger.result($id)"));
}

# Sends and effects at the provider.
sub sent_and_done
{
	my ($id) = @_;
	return [ scalar(received($p, $id)), effects($p, $id) ];
}

# An action that ends in review: nothing sure was found, and nothing was sent again.
sub ends_in_review
{
	my ($id, $category, $name) = @_;
	my $row = settle($node, $id, 'needs_reconciliation', 'review');
	my @attempts = @{ story($id) };

	is(shift @attempts, 'send unknown timeout_after_send', "$name: the send is unknown");
	is_deeply([ sort keys %{ { map { $_ => 1 } @attempts } } ], ["lookup $category"], "$name: every lookup proves nothing") or diag("@attempts");
	is($row->{lookups}, scalar @attempts, "$name: the lookups are counted");
	is_deeply(sent_and_done($id), [ 1, 1 ], "$name: sent once, done once");
	is($row->{known}, 'unknown', "$name: it is as unknown as before");
	like($row->{error_message}, qr/1 send, \d+ lookups?, outcome unknown/, "$name: and says so: $row->{error_message}");
	is($node->safe_psql('postgres', "SELECT count(*) FROM actionledger.review_queue WHERE action_id = $id"), '1', "$name: a person is asked");
	return $row;
}

subtest 'one object: confirmed by what was found, whatever the sends said' => sub {
	tool('found', processing => '1s');
	my $id = perform($node, 'found', 'found-1', amount => 700);
	my $row = settle($node, $id, 'needs_reconciliation', 'lookup');
	is($row->{error_code}, 'outcome_unknown', 'until then its outcome is unknown');
	like(envelope($id)->{meta}{observation}, qr/may have happened.*looks it up at the provider at/, 'and the caller is told what happens');
	$row = settle($node, $id, 'confirmed', 'none');
	is_deeply(story($id), [ 'send unknown timeout_after_send', 'lookup confirmed found' ], 'one lookup confirms it');
	is_deeply([ @$row{qw(confirmed_by result lookups sends attempts known)} ], [ 'lookup', 700, 1, 1, 2, 'confirmed' ], 'with the result of the object');
	like($row->{external_ref}, qr/^re_\d+$/, 'and its reference');
	is_deeply(sent_and_done($id), [ 1, 1 ], 'sent once, done once');
	is(scalar(looked($p, $id)), 1, 'looked up once');
	is((looked($p, $id))[0]{key}, $row->{idempotency_key}, 'by its key, in the URL');
	is($node->safe_psql('postgres', "SELECT l.started_at >= s.started_at + interval '1400 ms' FROM actionledger.attempts l JOIN actionledger.attempts s USING (action_id) WHERE action_id = $id AND l.kind = 'lookup' AND s.kind = 'send'"),
		't', 'after timeout and max processing time');
	my $answer = envelope($id);
	ok($answer->{ok} && $answer->{meta}{confirmed_by} eq 'lookup', 'the envelope says by what');
	like($answer->{meta}{observation}, qr/succeeded, reference re_\d+\. No answer told so; a lookup found it at the provider\./, 'in words');
};

subtest 'one object out of which no result can be had: confirmed all the same' => sub {
	# A time with a zone does not compare with a date.
	tool('zone', options => '"result": "$.key ? (\"2026-11-30T10:00:00+05:30\".datetime() < \"2026-12-01\".datetime())"');
	my $id = perform($node, 'zone', 'zone-1');
	my $row = settle($node, $id, 'confirmed', 'none');
	is_deeply(story($id), [ 'send unknown timeout_after_send', 'lookup confirmed found' ], 'the lookup confirms it');
	is($row->{result}, undef, 'without a result');
	is_deeply(sent_and_done($id), [ 1, 1 ], 'sent once, done once');
};

subtest 'one object that says it has failed: rejected, not confirmed' => sub {
	tool('failed', look => 'show:failed', options => $failed);
	my $id = perform($node, 'failed', 'failed-1');
	my $row = settle($node, $id, 'failed', 'none');
	is_deeply(story($id), [ 'send unknown timeout_after_send', 'lookup rejected refund_failed' ], 'by the tool\'s own rules');
	is_deeply([ @$row{qw(error_code known)} ], [ 'rejected', 'rejected' ], 'it did not happen');
	like(envelope($id)->{meta}{observation}, qr/did not happen: 1 send, 1 lookup; the last: it is there, and says that it has failed \(refund_failed\)/, 'in words');

	# Rules of the lookup come instead of those of the tool.
	tool('failed2', look => 'show:gone', options => $failed, lookup => q("outcome": [{"if": "$.status == \"gone\"", "verdict": "rejected", "category": "gone"}]));
	$id = perform($node, 'failed2', 'failed-2');
	settle($node, $id, 'failed', 'none');
	is(story($id)->[1], 'lookup rejected gone', 'or by rules for lookups');
};

subtest 'one object that is not done yet is asked for again' => sub {
	tool('pending', look => 'show:pending,show:pending,ok', options => $failed);
	my $id = perform($node, 'pending', 'pending-1');
	settle($node, $id, 'confirmed', 'none');
	is_deeply(story($id), [ 'send unknown timeout_after_send', ('lookup in_progress pending') x 2, 'lookup confirmed found' ], 'until it is done');
	is_deeply(sent_and_done($id), [ 1, 1 ], 'sent once, done once');
};

subtest 'none, and the tool says that its list shows everything: failed, or sent once more' => sub {
	# Never executed: the list is empty for good.
	tool('absent', do => 'noexec_hang', processing => '1s', lookup => '"more": "$.has_more", "absence": "authoritative"');
	my $id = perform($node, 'absent', 'absent-1');
	my $row = settle($node, $id, 'failed', 'none');
	is_deeply(story($id), [ 'send unknown timeout_after_send', 'lookup rejected absent' ], 'one lookup proves the absence');
	is_deeply([ @$row{qw(error_code known sends absences)} ], [ 'absent', 'absent', 1, 1 ], 'failed, as absent');
	is_deeply(sent_and_done($id), [ 1, 0 ], 'sent once, never done');
	like(envelope($id)->{meta}{observation}, qr/did not happen: 1 send, 1 lookup: a lookup did not find it/, 'in words');

	# The same, and one send more.
	tool('resent', do => 'noexec_hang,ok', processing => '1s', lookup => '"absence": "authoritative", "resend": true');
	$id = perform($node, 'resent', 'resent-1');
	$row = settle($node, $id, 'confirmed', 'none');
	is_deeply(story($id), [ 'send unknown timeout_after_send', 'lookup rejected absent', 'send confirmed confirmed' ], 'sent once more');
	is_deeply(sent_and_done($id), [ 2, 1 ], 'sent twice, done once');
	is(scalar keys %{ truth_by_action($p)->{$id}{keys} }, 1, 'with the same key');
	is($row->{confirmed_by}, 'response', 'confirmed by its answer');

	# At most once: a second absence ends it.
	tool('resent2', do => 'noexec_hang', processing => '1s', lookup => '"absence": "authoritative", "resend": true');
	$id = perform($node, 'resent2', 'resent-2');
	$row = settle($node, $id, 'failed', 'none');
	is_deeply(story($id), [ ('send unknown timeout_after_send', 'lookup rejected absent') x 2 ], 'a second absence is the end');
	is_deeply([ $row->{error_code}, $row->{absences}, @{ sent_and_done($id) } ], [ 'absent', 2, 2, 0 ], 'two sends, none done');

	# Irreversible: never again, whatever is proved.
	tool('never', type => 'irreversible', do => 'noexec_hang,ok', processing => '1s', lookup => '"absence": "authoritative"');
	$id = perform($node, 'never', 'never-1');
	$row = settle($node, $id, 'failed', 'none');
	is_deeply([ $row->{error_code}, @{ sent_and_done($id) } ], [ 'absent', 1, 0 ], 'an irreversible action is not sent again');
	turns_pass($node, 2);
	is(scalar(received($p, $id)), 1, 'not later either');

	# A cancelled one is not sent again, nor an expired one.
	tool('cancelled', do => 'noexec_hang,ok', processing => '1s', lookup => '"absence": "authoritative", "resend": true');
	$id = perform($node, 'cancelled', 'cancelled-1');
	settle($node, $id, 'needs_reconciliation', 'lookup');
	like($node->safe_psql('postgres', "SELECT message FROM actionledger.cancel($id, 'no longer wanted')"), qr/already sent/, 'a cancel is noted');
	$row = settle($node, $id, 'failed', 'none');
	is_deeply([ $row->{error_code}, @{ sent_and_done($id) } ], [ 'absent', 1, 0 ], 'the lookup settles it, and nothing is sent again');
};

subtest 'none, and nothing says that the list shows everything: a person' => sub {
	tool('silent', do => 'hang', query => '&hide_ms=600000', attempts => 3);
	my $id = perform($node, 'silent', 'silent-1');
	ends_in_review($id, 'unknown not_found', 'not declared');
	is(scalar(looked($p, $id)), 3, 'after as many lookups as it may have');
	is($node->safe_psql('postgres', "SELECT bool_and(gap >= interval '50 ms') FROM (SELECT started_at - lag(finished_at) OVER (ORDER BY attempt) AS gap
	  FROM actionledger.attempt WHERE action_id = $id AND kind = 'lookup') x"), 't', 'with a delay between them');
};

subtest 'several: a person, with every reference' => sub {
	tool('several', do => 'late:60000', processing => '1s', attempts => 5);
	my $id = perform($node, 'several', 'several-1', amount => 900);
	poll(sub { scalar received($p, $id) }, 'it was sent');

	# Somebody else has made the same refund a second time.
	my $key = action_row($node, $id)->{idempotency_key};
	HTTP::Tiny->new->post("$p->{url}/unkeyed/refunds", { content => '{"amount": 900}', headers => { 'Idempotency-Key' => $key } });
	my $row = settle($node, $id, 'needs_reconciliation', 'review');
	is_deeply(story($id), [ 'send unknown timeout_after_send', 'lookup unknown several' ], 'one lookup is enough');
	is($row->{known}, 'several', 'it is known to have been done more than once');
	my @refs = split / /, $node->safe_psql('postgres', "SELECT array_to_string(refs, ' ') FROM actionledger.review_queue WHERE action_id = $id");
	is(scalar(grep { /^re_\d+$/ } @refs), 2, "the review queue has both references: @refs");
	is($node->safe_psql('postgres', "SELECT evidence -> 'found', jsonb_array_length(evidence -> 'refs'), status FROM actionledger.event WHERE action_id = $id AND what = 'duplicates_found'"),
		'2|2|needs_reconciliation', 'and an event keeps them');
	turns_pass($node, 3);
	is(scalar(looked($p, $id)), 1, 'it is not looked up again');
	my ($out, $err) = ('', '');
	$node->psql('postgres', "SELECT actionledger.reconcile_now($id)", stdout => \$out, stderr => \$err, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	like($err, qr/LG012.*cannot be reconciled now.*more than once/s, 'nor on demand');
	$node->safe_psql('postgres', qq{SELECT actionledger.resolve($id, 'confirmed', '{"external_ref": "$refs[0]"}', 'the other one is being taken back')});
	is(action_row($node, $id)->{status}, 'confirmed', 'a person decides');
};

subtest 'by path: an answer that the tool declares to mean absence' => sub {
	my %o = (request => 'GET /refunds/{_key}', match => '$', processing => '1s');

	tool('by_path', %o);
	my $id = perform($node, 'by_path', 'path-1');
	is(settle($node, $id, 'confirmed', 'none')->{confirmed_by}, 'lookup', 'the object itself is found');

	tool('by_path_404', %o, do => 'noexec_hang', attempts => 3);
	$id = perform($node, 'by_path_404', 'path-2');
	my $row = settle($node, $id, 'needs_reconciliation', 'review');
	is_deeply([ @{ story($id) }[1 .. 3] ], [ ('lookup unknown lookup_refused') x 3 ], 'a 404 alone proves nothing');

	tool('by_path_absent', %o, do => 'noexec_hang', lookup => q("absence": {"status": 404, "if": "$.error.code == \"not_found\""}));
	$id = perform($node, 'by_path_absent', 'path-3');
	is(settle($node, $id, 'failed', 'none')->{error_code}, 'absent', 'one that the tool declares does');

	# Another 404 is not that answer.
	tool('by_path_other', %o, do => 'noexec_hang', attempts => 2, request => 'GET /refunds/{_key}?do=status:404;body:%257B%2522error%2522:%2522no_route%2522%257D',
		lookup => q("absence": {"status": 404, "if": "$.error.code == \"not_found\""}));
	$id = perform($node, 'by_path_other', 'path-4');
	settle($node, $id, 'needs_reconciliation', 'review');
	is_deeply([ @{ story($id) }[1 .. 2] ], [ ('lookup unknown lookup_refused') x 2 ], 'a 404 of a proxy is none');
};

subtest 'by what an answer told: its reference, its Location' => sub {
	# The key is the identity, so that the provider's answer can name it.
	my $input = q(input => '{"required": ["id"], "properties": {"id": {"type": "string"}}}');
	my $lookup = sub { qq("lookup": {"request": "$_[0]", "match": "\$", "every": "100ms", "attempts": 3}) };
	my %id;

	$node->safe_psql('postgres', qq{SELECT actionledger.create_service('named', '$p->{url}', '{"allow_private": true, "idempotency": {"header": "Idempotency-Key", "form": "identity", "window": "24h"}}')});
	$node->safe_psql('postgres', qq{SELECT actionledger.create_tool('by_ref', 'named', 'POST /unkeyed/refunds?do=execstatus:202;body:%257B%2522id%2522:%2522by-ref-1%2522%257D', 'irreversible', identity => '{id}', $input,
	  options => '{"external_ref": "\$.id", @{[ $lookup->('GET /refunds/{_external_ref}') ]}}')});
	$node->safe_psql('postgres', qq{SELECT actionledger.create_tool('by_location', 'named', 'POST /unkeyed/refunds?do=accepted', 'irreversible', identity => '{id}', $input, options => '{@{[ $lookup->('GET {_location}') =~ s/"\$"/"\$.data[*]"/r ]}}')});
	$node->safe_psql('postgres', qq{SELECT actionledger.create_tool('elsewhere', 'named', 'POST /unkeyed/refunds?do=execstatus:202;Location:http://evil.example/refunds', 'irreversible', identity => '{id}', $input,
	  options => '{"retry": {"window": "2s"}, @{[ $lookup->('GET {_location}') ]}}')});
	$id{$_} = $node->safe_psql('postgres', "SELECT action_id FROM actionledger.perform('$_', '{\"id\": \"" . ($_ =~ tr/_/-/r) . "-1\"}')") for qw(by_ref by_location elsewhere);
	for my $tool (qw(by_ref by_location))
	{
		my $row = settle($node, $id{$tool}, 'confirmed', 'none');
		is_deeply(story($id{$tool}), [ 'send in_progress accepted', 'lookup confirmed found' ], "$tool: accepted, and then found done");
		is_deeply(sent_and_done($id{$tool}), [ 1, 1 ], "$tool: sent once, done once");
	}
	like((looked($p, $id{by_ref}))[0]{path}, qr{^/refunds/by-ref-1$}, 'asked for by the reference of the answer');
	like((looked($p, $id{by_location}))[0]{path}, qr{^/refunds\?op=by-location-1$}, 'asked for at its Location');

	# A location elsewhere is not asked: the ledger waits, and then a person is.
	my $row = settle($node, $id{elsewhere}, 'needs_reconciliation', 'review');
	is_deeply(story($id{elsewhere}), ['send in_progress accepted'], 'a location at another host is not asked');
	like($row->{error_message}, qr/cannot be looked up: the location that an answer told is none at this service/, 'and the reason is told');
};

subtest 'by what the ledger knows of it: its number, its identity, its run, an argument' => sub {
	my $input = q(input => '{"required": ["id"], "properties": {"id": {"type": "string"}}}');
	my %by = (
		argument => [ 'by_what', '{id}', 'GET /refunds?key={id}' ],
		identity => [ 'by_what', 'it:{id}', 'GET /refunds?key={_identity}' ],
		run => [ 'by_what', '{_run_id}', 'GET /refunds?key={_run_id}' ],
		number => [ 'by_number', '{id}', undef ]);
	my %id;

	# Without a key the provider knows an operation by the header that names the action.
	my $ledger = ((received($p, $node->safe_psql('postgres', 'SELECT min(action_id) FROM actionledger.action')))[0]{action}) =~ s{\d+$}{}r;
	$by{number}[2] = "GET /refunds?op=$ledger\{_action_id}";
	$node->safe_psql('postgres', qq{SELECT actionledger.create_service('by_what', '$p->{url}', '{"allow_private": true, "idempotency": {"form": "identity"}}'),
	  actionledger.create_service('by_number', '$p->{url}', '{"allow_private": true, "idempotency": "none"}')});
	for my $what (sort keys %by)
	{
		my ($service, $identity, $request) = @{ $by{$what} };
		$node->safe_psql('postgres', qq{SELECT actionledger.create_tool('by $what', '$service', 'POST /unkeyed/refunds?do=close', 'irreversible', identity => '$identity', $input,
		  options => '{"timeout": "400ms", "max_processing": "0s", "external_ref": "\$.id", "lookup": {"request": "$request", "match": "\$.data[*]", "every": "100ms", "attempts": 3}}')});
		$id{$what} = $node->safe_psql('postgres', qq{SELECT action_id FROM actionledger.perform('by $what', '{"id": "by-$what"}', run_id => 'run-7')});
	}
	for my $what (sort keys %by)
	{
		my $row = settle($node, $id{$what}, 'confirmed', 'none');
		is_deeply([ @$row{qw(confirmed_by sends)}, @{ sent_and_done($id{$what}) } ], [ 'lookup', 1, 1, 1 ], "by its $what: found, sent once, done once");
	}
	is_deeply([ map { (looked($p, $id{$_}))[0]{path} =~ s/^.*=//r =~ s{^\Q$ledger\E}{}r } qw(argument identity run number) ], [ 'by-argument', 'it%3Aby-identity', 'run-7', $id{number} ], 'the requests say so');
};

$node->stop;
done_testing();
