# Reports of real trouble, section A: unknown outcomes, and what a status may claim.
#
# Each subtest is one report: given, when, then.  Requests and effects are counted
# in the provider's truth log.  Each holds without a lookup, where a person is asked,
# and with one.
use strict;
use warnings;
use HTTP::Tiny;
use JSON::PP;
use Test::More;
use lib 'test/lib';
use Ledger;

my $node = start_server();
my $p = start_provider();

# So many unknown outcomes in a row would open the breaker.
my $patient = '"breaker": {"failures": 1000}';
refund_service($node, $p, name => 'keyed', options => $patient);
refund_service($node, $p, name => 'unkeyed', honoured => 0, options => $patient);

my @unkeyed = (type => 'non_idempotent', service => 'unkeyed', mode => 'unkeyed');
my @keyed = (type => 'non_idempotent', service => 'keyed', mode => 'keyed');

# A destination that takes the key, does not honour it, and can be asked by it.
$node->safe_psql('postgres', qq{SELECT actionledger.create_service('asked', '$p->{url}', '{"allow_private": true, $patient}')});
my @asked = (type => 'non_idempotent', service => 'asked', mode => 'unkeyed');

# The option lookup; more: members, query: for its request.
sub lookup
{
	my (%o) = @_;
	return qq("lookup": {"request": "GET /refunds?key={_key}@{[ $o{query} // '' ]}", "match": "\$.data[*] ? (@.key == \$_key)", "every": "@{[ $o{every} // '200ms' ]}"@{[ $o{more} ? ", $o{more}" : '' ]}});
}

# "verdict category" of an action's attempts, in their order.
sub story
{
	my ($id) = @_;
	return [ map { ($_->{verdict} // 'open') . ' ' . ($_->{category} // '') } attempts_of($node, $id) ];
}

# Every status that an action has been in: of its events, and now.
sub statuses
{
	my ($id) = @_;
	return split /\n/, $node->safe_psql('postgres', "SELECT DISTINCT status FROM actionledger.timeline WHERE action_id = $id AND status IS NOT NULL
	  UNION SELECT status FROM actionledger.action WHERE action_id = $id");
}

# An envelope, decoded.
sub envelope
{
	my ($id) = @_;
	return decode_json($node->safe_psql('postgres', "SELECT actionledger.result($id)"));
}

# It waits for a person, has never been called anything else, and says so.
sub is_open
{
	my ($id, $requests, $effects, $name) = @_;
	my $row = settle($node, $id, 'needs_reconciliation', 'review');
	my $answer = envelope($id);

	turns_pass($node, 3);
	$row = action_row($node, $id);
	is("$row->{status} $row->{next_step} $row->{error_code}", 'needs_reconciliation review outcome_unknown', "$name: needs reconciliation, and stays there");
	is(scalar(grep { $_ eq 'confirmed' || $_ eq 'failed' } statuses($id)), 0, "$name: was never called confirmed or failed");
	is(scalar(received($p, $id)), $requests, "$name: requests on the wire") if defined $requests;
	is(effects($p, $id), $effects, "$name: effects") if defined $effects;
	ok(!$answer->{ok} && $answer->{error}{code} =~ /^(outcome_unknown|needs_review)$/, "$name: the envelope reports neither success nor failure")
	  or diag(explain($answer));
	is($node->safe_psql('postgres', "SELECT count(*) FROM actionledger.review_queue WHERE action_id = $id"), '1', "$name: is in the review queue");
	is($node->safe_psql('postgres', "SELECT count(*) FROM (SELECT action_id FROM actionledger.pending UNION ALL SELECT action_id FROM actionledger.in_flight) v WHERE action_id = $id"),
		'0', "$name: and in no other view of what is live");
	return $row;
}

# A person decides, with evidence; the decision is kept with who, why and what.
sub person_confirms
{
	my ($id, $reference, $name) = @_;
	my $requests = scalar received($p, $id);
	my $answer;

	is($node->safe_psql('postgres', qq{SELECT status, next_step FROM actionledger.resolve($id, 'confirmed', '{"external_ref": "$reference"}', 'seen at the provider')}),
		'confirmed|none', "$name: a person confirms it");
	$answer = envelope($id);
	ok($answer->{ok} && $answer->{data}{external_ref} eq $reference && $answer->{meta}{confirmed_by} eq 'person', "$name: confirmed, with the original reference, by a person")
	  or diag(explain($answer));
	is($node->safe_psql('postgres', "SELECT count(*) FROM actionledger.event WHERE action_id = $id AND what = 'resolved' AND note = 'seen at the provider'
	  AND evidence ->> 'external_ref' = '$reference' AND by_whom = current_user"), '1', "$name: who, why and the evidence are kept");
	turns_pass($node, 3);
	is(scalar(received($p, $id)), $requests, "$name: nothing is sent after the decision");
	return;
}

# What the provider says it has under a key: the references.
sub looked_up
{
	my ($key, $more) = @_;
	my $answer = HTTP::Tiny->new->get("$p->{url}/refunds?key=$key" . ($more // ''));
	return map { $_->{id} } @{ decode_json($answer->{content})->{data} };
}

# A body for the provider's plan, encoded twice, as it is decoded twice.
sub body
{
	my ($text) = @_;
	$text =~ s/([^A-Za-z0-9_.-])/sprintf '%%25%02X', ord $1/ge;
	return "body:$text";
}

subtest 'case 1: a timed-out POST is neither success nor failure' => sub {
	my %id;

	# late: executed at once, answered three seconds later; slowexec: executed only then.
	for my $do ('late:3000', 'slowexec:3000', 'hang', 'noexec_hang')
	{
		refund_tool($node, @unkeyed, name => "case1 $do", do => $do, timeout => '600ms', options => '"max_processing": "1m"');
		$id{$do} = perform($node, "case1 $do", "case1-$do");
	}
	for my $do (sort keys %id)
	{
		my $id = $id{$do};
		settle($node, $id, 'needs_reconciliation', 'review');
		if ($do =~ /:/)
		{
			poll(sub { effects($p, $id) == 1 }, "$do is executed after all");
			poll(sub { scalar(grep { $_->{ev} eq 'closed' && $_->{op} && $_->{op} eq (received($p, $id))[0]{op} } truth($p)) }, "$do: the provider is done with it");
		}
		is_open($id, 1, $do eq 'noexec_hang' ? 0 : 1, $do);
		is_deeply(story($id), ['unknown timeout_after_send'], "$do: one attempt, and its category says that it timed out after the send");
		is($node->safe_psql('postgres', "SELECT sent, category, http_status IS NULL, took >= '600 ms' FROM actionledger.attempts WHERE action_id = $id"),
			't|timeout_after_send|t|t', "$do: the view of attempts says it too");
		like($node->safe_psql('postgres', "SELECT reason FROM actionledger.needs_reconciliation WHERE action_id = $id"), qr/no answer|timed out|time/i, "$do: and the reason does");
	}
};

subtest 'case 2: a non-idempotent action is not sent again after a read error, whatever its method and budget' => sub {
	my %id;

	# The method says nothing, the action type does.
	for my $method (qw(POST PUT PATCH DELETE GET))
	{
		for my $do (qw(hang close reset cuthead))
		{
			my $path = $method eq 'GET' || $method eq 'DELETE' ? '/{refund_id}/{amount}' : '';
			for my $type (qw(non_idempotent irreversible))
			{
				my $name = "case2 $method $do $type";
				refund_tool($node, @unkeyed, type => $type, name => $name, request => "$method /unkeyed/refunds$path?do=$do,ok", timeout => '600ms', attempts => 3);
				$id{$name} = perform($node, $name, $name =~ tr/ /-/r);
			}
		}
	}
	settle($node, $id{$_}, 'needs_reconciliation', 'review') for sort keys %id;
	turns_pass($node, 6);
	for my $name (sort keys %id)
	{
		my $row = action_row($node, $id{$name});
		is_deeply([ scalar(received($p, $id{$name})), effects($p, $id{$name}), $row->{sends}, $row->{attempts}, "$row->{status} $row->{next_step}" ],
			[ 1, 1, 1, 1, 'needs_reconciliation review' ], "$name: once on the wire, and a person decides");
	}

	# An operator's retry is no way round it, forced or not.
	for my $force (qw(false true))
	{
		my ($out, $err) = ('', '');
		$node->psql('postgres', "SELECT actionledger.retry($id{'case2 POST hang non_idempotent'}, 'again', force => $force)", stdout => \$out, stderr => \$err,
			extra_params => [ '-v', 'VERBOSITY=verbose' ]);
		like($err, qr/ERROR:  LG012: .*cannot be sent now/, "an operator's retry is refused, force => $force");
	}
	turns_pass($node, 3);
	is(scalar(received($p, $id{'case2 POST hang non_idempotent'})), 1, 'and nothing was sent for it');

	# With a lookup, later attempts are lookups only.
	refund_tool($node, @asked, name => 'case2 asked', do => 'hang', timeout => '600ms', attempts => 3, options => '"max_processing": "0s", ' . lookup(query => '&hide_ms=600000', more => '"attempts": 4'));
	my $asked = perform($node, 'case2 asked', 'case2-asked');
	settle($node, $asked, 'needs_reconciliation', 'review');
	is_deeply([ map { $_->{kind} } attempts_of($node, $asked) ], [ 'send', ('lookup') x 4 ], 'with a lookup: one send, then lookups only');
	is_deeply([ scalar(received($p, $asked)), effects($p, $asked) ], [ 1, 1 ], 'with a lookup: 1 wire');
};

subtest 'case 4: an empty reply does not stop the worker' => sub {
	my $pid = pid_of_dispatcher($node);
	my (@empty, @next);

	# One place at the service: the next one goes out only when the empty reply has freed it.
	refund_service($node, $p, name => 'narrow', honoured => 0, options => '"limits": {"in_flight": 1}');
	refund_tool($node, @unkeyed, service => 'narrow', name => 'case4 empty', do => 'close');
	refund_tool($node, @unkeyed, service => 'narrow', name => 'case4 reset', do => 'reset');
	refund_tool($node, @unkeyed, service => 'narrow', name => 'case4 next', do => 'ok');
	for my $i (1 .. 5)
	{
		push @empty, perform($node, 'case4 ' . ($i % 2 ? 'empty' : 'reset'), "empty-$i");
		push @next, perform($node, 'case4 next', "next-$i");
	}
	for my $i (0 .. 4)
	{
		settle($node, $next[$i], 'confirmed', 'none');
		is_deeply([ scalar(received($p, $next[$i])), effects($p, $next[$i]) ], [ 1, 1 ], 'the next one is confirmed: sent once, executed once');
	}
	for my $id (@empty)
	{
		is_open($id, 1, 1, "empty reply, action $id");
		is_deeply(story($id), ['unknown connection_lost'], 'its attempt is closed, as unknown');
	}
	is(pid_of_dispatcher($node), $pid, 'by the same worker');
};

subtest 'case 5: a conflict that answers the retry is not the fate of the first attempt' => sub {
	my $conflict = 'status:409;' . body('{"error":"slot unavailable"}');
	my %expected = (
		default => 'in_progress key_in_use',	# with a key that is honoured
		rule => 'rejected slot_taken');
	my %id;

	# The booking succeeds after the window, the identical retry finds the slot taken.
	refund_tool($node, @keyed, name => 'case5 default', do => "late:1500,$conflict", timeout => '500ms', attempts => 3);
	refund_tool($node, @keyed, name => 'case5 rule', do => "late:1500,$conflict", timeout => '500ms', attempts => 3,
		options => '"outcome": [{"status": 409, "if": "$.error == \"slot unavailable\"", "verdict": "rejected", "category": "slot_taken"}]');
	$id{$_} = perform($node, "case5 $_", "case5-$_") for sort keys %expected;
	for my $name (sort keys %expected)
	{
		my $row = is_open($id{$name}, undef, 1, $name);
		my @story = @{ story($id{$name}) };

		is(shift @story, 'unknown timeout_after_send', "$name: the first attempt timed out");
		cmp_ok(scalar @story, '>=', 1, "$name: a retry was answered");
		is(scalar(grep { $_ ne $expected{$name} } @story), 0, "$name: with the conflict") or diag("@story");
		cmp_ok(scalar(received($p, $id{$name})), '<=', 3, "$name: within its budget");
		is_deeply([ keys %{ truth_by_action($p)->{ $id{$name} }{keys} } ], [ $row->{idempotency_key} ], "$name: with one key");

		# The caller asks again, in the same words.
		is($node->safe_psql('postgres', qq{SELECT action_id, created, status FROM actionledger.perform('case5 $name', '{"amount": 100, "refund_id": "case5-$name"}')}),
			"$id{$name}|f|needs_reconciliation", "$name: the identical call is told of the same action, and of no failure");
	}

	# A lookup by the reference of the operation confirms it by itself, with the original id.
	refund_tool($node, @keyed, name => 'case5 asked', do => "late:1500,$conflict", timeout => '500ms', attempts => 3,
		options => '"outcome": [{"status": 409, "if": "$.error == \"slot unavailable\"", "verdict": "rejected", "category": "slot_taken"}], "max_processing": "1s", ' . lookup());
	my $asked = perform($node, 'case5 asked', 'case5-asked');
	my $answered = settle($node, $asked, 'confirmed', 'none');
	is_deeply(story($asked), [ 'unknown timeout_after_send', 'rejected slot_taken', 'confirmed found' ], 'asked: the conflict ends re-sending, the lookup decides');
	is_deeply([ $answered->{confirmed_by}, $answered->{external_ref}, effects($p, $asked) ], [ 'lookup', (looked_up($answered->{idempotency_key}))[0], 1 ], 'asked: confirmed with the original id, one booking');

	# Without one a person looks it up, and the original reference is what is recorded.
	for my $name (sort keys %expected)
	{
		my @found = looked_up(action_row($node, $id{$name})->{idempotency_key});
		is(scalar @found, 1, "$name: the provider has one effect under the key");
		person_confirms($id{$name}, $found[0], $name);
		is(effects($p, $id{$name}), 1, "$name: one booking in the end");
	}

	# Without a key the same answer to the only attempt is a plain refusal.
	refund_tool($node, @unkeyed, name => 'case5 first', do => $conflict);
	my $id = perform($node, 'case5 first', 'case5-first');
	is(settle($node, $id, 'failed', 'none')->{error_code}, 'rejected', 'as the first and only answer the same conflict is a refusal');
};

subtest 'case 7: "not found" straight after a write is no absence' => sub {
	my $id;

	refund_tool($node, @unkeyed, name => 'case7', request => 'POST /unkeyed/refunds?do=hang', timeout => '500ms', options => '"max_processing": "10m"');
	$id = perform($node, 'case7', 'case7');
	my $row = is_open($id, 1, 1, 'the write');
	my ($op) = map { $_->{op} } received($p, $id);

	# The provider shows what it has done only after a while.
	my $answer = HTTP::Tiny->new->get("$p->{url}/refunds?op=$op&hide_ms=600000");
	is_deeply(decode_json($answer->{content})->{data}, [], 'a read says that there is no such thing');

	# Who believes it is stopped, until it cannot be in progress any more.
	my ($out, $err) = ('', '');
	$node->psql('postgres', "SELECT actionledger.resolve($id, 'failed', '{\"status\": 404}', 'they know no such refund')", stdout => \$out, stderr => \$err,
		extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	like($err, qr/ERROR:  LG012: .*may still be executed/, 'inside the max processing time nobody can call it failed');
	$row = action_row($node, $id);
	is("$row->{status} $row->{next_step}", 'needs_reconciliation review', 'it stays open');
	turns_pass($node, 3);
	is(scalar(received($p, $id)), 1, 'and is not sent again');

	# Later the read says otherwise.
	$answer = HTTP::Tiny->new->get("$p->{url}/refunds?op=$op");
	my ($found) = map { $_->{id} } @{ decode_json($answer->{content})->{data} };
	like($found, qr/^re_\d+$/, 'later the read finds it');
	person_confirms($id, $found, 'the write');
	is_deeply([ scalar(received($p, $id)), effects($p, $id) ], [ 1, 1 ], 'one write on the wire, one effect');

	# After that time a person may decide that it has failed, with evidence.
	refund_tool($node, @unkeyed, name => 'case7 never', do => 'noexec_hang', timeout => '300ms', options => '"max_processing": "1s"');
	$id = perform($node, 'case7 never', 'case7-never');
	settle($node, $id, 'needs_reconciliation', 'review');
	poll(sub { defined try_sql($node, "SELECT actionledger.resolve($id, 'failed', '{\"status\": 404}', 'not there after its time')") }, 'the max processing time is over');
	is($node->safe_psql('postgres', "SELECT t.started_at + interval '1300 ms' <= e.at, a.error_code FROM actionledger.event e JOIN actionledger.attempt t USING (action_id)
	  JOIN actionledger.action a USING (action_id) WHERE action_id = $id AND e.what = 'resolved'"), 't|resolved_failed', 'the same words count when timeout and max processing time are over, not before');

	# With a lookup the ledger looks by itself: what it does not find inside the max
	# processing time proves nothing, whatever the tool declares, and the later answer confirms.
	refund_tool($node, @asked, name => 'case7 asked', do => 'hang', timeout => '500ms', options => '"max_processing": "2s", ' . lookup(query => '&hide_ms=1500', more => '"absence": "authoritative", "resend": true'));
	$id = perform($node, 'case7 asked', 'case7-asked');
	settle($node, $id, 'needs_reconciliation', 'lookup');
	$node->safe_psql('postgres', "SELECT actionledger.reconcile_now($id)");
	$row = settle($node, $id, 'confirmed', 'none');
	my @looks = map { "$_->{verdict} $_->{category}" } grep { $_->{kind} eq 'lookup' } attempts_of($node, $id);
	is_deeply([ $looks[0], $looks[-1], $row->{confirmed_by} ], [ 'unknown not_found', 'confirmed found', 'lookup' ], 'asked: not found is inconclusive, the later answer confirms');
	is_deeply([ scalar(received($p, $id)), effects($p, $id) ], [ 1, 1 ], 'asked: 1 write on the wire, one effect');
};

subtest 'case 9: an outcome that is unknown for longer than its window waits for a person, and never fails silently' => sub {
	my %id;

	# The window ends with the outcome unknown, and the action has an expiry as well.
	refund_tool($node, @unkeyed, name => 'case9 unkeyed', do => 'hang', timeout => '300ms', window => '1s', options => '"max_processing": "1s", "expires_after": "1s"');
	refund_tool($node, @keyed, name => 'case9 keyed', do => 'hang', timeout => '300ms', attempts => 50, base => '200ms', cap => '200ms', window => '2s', options => '"max_processing": "1s"');
	refund_tool($node, @unkeyed, name => 'case9 accepted', do => 'accepted', window => '1s', options => '"max_processing": "1s"');
	$id{$_} = perform($node, "case9 $_", "case9-$_") for qw(unkeyed keyed accepted);

	# The downtime: the server stops while a request is under way, and misses the answer.
	refund_tool($node, @unkeyed, name => 'case9 down', do => 'late:2000', timeout => '20s', window => '1s', options => '"max_processing": "1s"');
	$id{down} = perform($node, 'case9 down', 'case9-down');
	poll(sub { scalar received($p, $id{down}) }, 'the request is under way');
	$node->stop('immediate');
	poll(sub { scalar(grep { $_->{ev} eq 'closed' } grep { ($_->{op} // '') eq (received($p, $id{down}))[0]{op} } truth($p)) }, 'the connection is gone');
	slow_wait_for_start($node);
	is_open($id{down}, 1, 1, 'down');
	is_deeply(story($id{down}), ['unknown worker_lost'], 'down: its attempt was closed at the next start, as unknown');

	for my $name (qw(unkeyed keyed accepted))
	{
		my $row = is_open($id{$name}, $name eq 'keyed' ? undef : 1, 1, $name);
		is($node->safe_psql('postgres', "SELECT clock_timestamp() > window_ends_at FROM actionledger.action WHERE action_id = $id{$name}"), 't', "$name: its window is over");
	}
	is(scalar(grep { $_->{started_at} gt action_row($node, $id{keyed})->{window_ends_at} } attempts_of($node, $id{keyed})), 0, 'keyed: nothing was sent after its window');

	# Two weeks later, with a restart in between.
	my $ids = join ', ', values %id;
	$node->stop;
	$node->start;
	$node->safe_psql('postgres', "UPDATE actionledger.action SET created_at = created_at - interval '14 days', last_sent_at = last_sent_at - interval '14 days',
	  window_ends_at = window_ends_at - interval '14 days', key_ends_at = key_ends_at - interval '14 days', expires_at = expires_at - interval '14 days' WHERE action_id IN ($ids)");
	$node->restart;
	pid_of_dispatcher($node);
	turns_pass($node, 3);
	is($node->safe_psql('postgres', "SELECT count(*) FROM actionledger.review_queue WHERE action_id IN ($ids) AND age >= interval '14 days'"), '4', 'two weeks later all are in the review queue, with their age');
	is($node->safe_psql('postgres', "SELECT count(*) FROM actionledger.action WHERE action_id IN ($ids) AND status = 'needs_reconciliation'"), '4', 'and none has failed');
	is(effects($p, $_), 1, 'each had its effect once') for values %id;

	# With a lookup: a last one after the downtime, however long that was; then the queue.
	refund_tool($node, @asked, name => 'case9 asked', do => 'hang', timeout => '300ms', options => '"max_processing": "0s", ' . lookup(query => '&hide_ms=600000', every => '1h', more => '"window": "2s"'));
	refund_tool($node, @asked, name => 'case9 found', do => 'hang', timeout => '300ms', options => '"max_processing": "0s", ' . lookup(query => '&hide_ms=600000', every => '1d', more => '"window": "1h"'));
	my ($asked, $found) = (perform($node, 'case9 asked', 'case9-asked'), perform($node, 'case9 found', 'case9-found'));
	poll_sql($node, "SELECT bool_and(lookups > 0 AND claimed_by IS NULL) FROM actionledger.action WHERE action_id IN ($asked, $found)", 'both were looked up once');
	$node->stop;
	$node->start;
	# Meanwhile the provider shows one of them.
	$node->safe_psql('postgres', q{SELECT actionledger.alter_tool('case9 found', '{"lookup": {"request": "GET /refunds?key={_key}"}}')});
	$node->safe_psql('postgres', "BEGIN; UPDATE actionledger.action SET created_at = created_at - interval '14 days', last_sent_at = last_sent_at - interval '14 days', lookup_ends_at = lookup_ends_at - interval '14 days' WHERE action_id IN ($asked, $found);
	  UPDATE actionledger.due SET next_at = next_at - interval '14 days' WHERE action_id IN ($asked, $found); COMMIT");
	my $last = settle($node, $asked, 'needs_reconciliation', 'review');
	cmp_ok($last->{lookups}, '>=', 2, 'asked: a last lookup when it was long over');
	is($node->safe_psql('postgres', "SELECT count(*) FROM actionledger.timeline WHERE action_id = $asked AND status = 'failed'"), '0', 'asked: and never failed');
	$last = settle($node, $found, 'confirmed', 'none');
	is_deeply([ $last->{confirmed_by}, $last->{lookups}, scalar(received($p, $found)), effects($p, $found) ], [ 'lookup', 2, 1, 1 ], 'found: by the last lookup, two weeks after its one send');
};

subtest 'case 10: an attempt without a response is on record, and attempts never overlap' => sub {
	my @ids;

	# The orphan still runs at the provider when the next attempt starts.
	for my $do ('late:900', 'hang', 'processing:1500', 'reset', 'status:500')
	{
		refund_tool($node, @keyed, name => "case10 $do", do => "$do,$do,ok", timeout => '400ms', attempts => 50, base => '50ms', cap => '100ms');
		push @ids, perform($node, "case10 $do", "case10-$do");
	}
	settle($node, $_, 'confirmed', 'none') for @ids;
	for my $id (@ids)
	{
		my @attempts = attempts_of($node, $id);
		my @received = received($p, $id);
		is($node->safe_psql('postgres', "SELECT count(*) FROM actionledger.attempts WHERE action_id = $id AND started_at IS NOT NULL AND deadline IS NOT NULL AND category IS NOT NULL AND verdict IS NOT NULL"),
			scalar @attempts, "action $id: the view of attempts shows start, deadline, category and verdict of each");
		is($node->safe_psql('postgres', "SELECT count(*) FROM actionledger.attempts WHERE action_id = $id AND abs(extract(epoch FROM deadline - started_at - interval '400 ms')) > 0.01"),
			'0', "action $id: the deadline is the start and the timeout");
		is($node->safe_psql('postgres', "SELECT count(*) FROM actionledger.attempt a JOIN actionledger.attempt b USING (action_id)
		  WHERE a.action_id = $id AND a.attempt < b.attempt AND (a.finished_at IS NULL OR a.finished_at > b.started_at)"), '0', "action $id: each was closed before the next began");
		is_deeply([ map { $_->{attempt} } @received ], [ map { $_->{attempt} } @attempts ], "action $id: and each arrived once, in its order");
		is(effects($p, $id), 1, "action $id: executed once");

		# The same as the provider saw it: each is answered, or its connection closed by us, before the next one.
		my ($last_end, $overlaps) = (0, 0);
		for my $r (@received)
		{
			my ($end) = grep { ($_->{ev} eq 'answered' && $_->{req} == $r->{req}) || $_->{ev} eq 'closed' } grep { $_->{conn} == $r->{conn} && $_->{seq} > $r->{seq} } truth($p);
			$overlaps++ if $r->{t} < $last_end - 0.05;	# it sees both in one turn of its loop
			$last_end = $end ? $end->{t} : 'inf';
		}
		is($overlaps, 0, "action $id: no request arrived before the one before was over");
	}

	# While it runs, the open attempt is to be seen.
	refund_tool($node, @unkeyed, name => 'case10 open', do => 'hang', timeout => '3s');
	my $id = perform($node, 'case10 open', 'case10-open');
	poll(sub { scalar received($p, $id) }, 'a request is under way');
	is($node->safe_psql('postgres', "SELECT verdict IS NULL, took IS NULL, deadline > clock_timestamp() FROM actionledger.attempts WHERE action_id = $id"), 't|t|t',
		'an open attempt has a deadline and no verdict yet');
	is($node->safe_psql('postgres', "SELECT open_attempt FROM actionledger.in_flight WHERE action_id = $id"), '1', 'and in_flight names it');
	settle($node, $id, 'needs_reconciliation', 'review');
	is_deeply(story($id), ['unknown timeout_after_send'], 'then it is closed, with its category');
};

$node->stop;
done_testing();
