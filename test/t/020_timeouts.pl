# Where a request can get lost: before it reaches the service, after the service
# has committed, and while it is still processing.
use strict;
use warnings;
use IO::Socket::INET;
use List::Util qw(max min sum);
use Test::More;
use lib 'test/lib';
use Ledger;
use PostgreSQL::Test::Cluster;

my $node = start_server();
my $p = start_provider();
refund_service($node, $p, name => 'keyed');
refund_service($node, $p, name => 'unkeyed', honoured => 0);

# Every type of action, with and without a key that is honoured.
my %kinds = (
	keyed => { type => 'non_idempotent', service => 'keyed', mode => 'keyed' },
	unkeyed => { type => 'non_idempotent', service => 'unkeyed', mode => 'unkeyed' },
	irreversible => { type => 'irreversible', service => 'keyed', mode => 'keyed' },
	idempotent => { type => 'idempotent', service => 'unkeyed', mode => 'unkeyed' },
	read_only => { type => 'read_only', service => 'unkeyed', mode => 'read' });

# Verdicts and categories of an action's attempts, in their order.
sub story
{
	my ($action_id) = @_;
	return [ map { ($_->{verdict} // 'open') . ' ' . ($_->{category} // '') } attempts_of($node, $action_id) ];
}

# Each attempt's number arrived once: nothing was re-sent behind our back.  A kept
# connection may die under a request; the re-send is stopped, and it need not have arrived.
sub sent_as_recorded
{
	my ($provider, $action_id, $name) = @_;
	my @arrived = map { $_->{attempt} } received($provider, $action_id);
	my %there = map { $_ => 1 } @arrived;
	my @left = map { $_->{attempt} }
	  grep { $_->{sent} && ($there{ $_->{attempt} } || ($_->{category} // '') ne 'resend_blocked') } attempts_of($node, $action_id);
	is_deeply([ sort { $a <=> $b } @arrived ], \@left, "$name: every attempt that left arrived once");
}

# ---------------------------------------------------------------------------
# Before the request reaches the service
# ---------------------------------------------------------------------------

# Nobody listens at first; then the provider starts there.
{
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	my %ids;

	refund_service($node, { url => "http://127.0.0.1:$port" }, name => 'late_keyed');
	refund_service($node, { url => "http://127.0.0.1:$port" }, name => 'late_unkeyed', honoured => 0);
	for my $kind (sort keys %kinds)
	{
		refund_tool($node, %{ $kinds{$kind} }, name => "late_$kind", service => "late_$kinds{$kind}{service}",
			attempts => 100, base => '100ms', cap => '300ms');
		$ids{$kind} = perform($node, "late_$kind", "late-$kind");
	}
	for my $kind (sort keys %kinds)
	{
		poll_sql($node, "SELECT attempts >= 3 AND status = 'prepared' AND next_step = 'send' AND known = 'not_sent' AND key_ends_at IS NULL
		  FROM actionledger.action WHERE action_id = $ids{$kind}", "$kind: three tries, none of them sent");
		pass("$kind, nobody listens: prepared again after three tries, and the key window has not begun");
	}
	my $late = start_provider('--port', $port);
	for my $kind (sort keys %kinds)
	{
		my $row = settle($node, $ids{$kind}, 'confirmed', 'none');
		my @attempts = attempts_of($node, $ids{$kind});
		my $last = pop @attempts;

		is(scalar(grep { $_->{verdict} ne 'not_sent' || $_->{category} ne 'connect' || $_->{sent} } @attempts), 0,
			"$kind, nobody listens: all tries but the last are not_sent");
		is($last->{verdict}, 'confirmed', "$kind, then the service is there: confirmed");
		is(effects($late, $ids{$kind}), $kind eq 'read_only' ? 0 : 1, "$kind: executed as often as it should");
		is(scalar(received($late, $ids{$kind})), 1, "$kind: received once");
		is((received($late, $ids{$kind}))[0]{attempt}, $last->{attempt}, "$kind: by the last try");
		sent_as_recorded($late, $ids{$kind}, "$kind, nobody listens");
	}
	is($node->safe_psql('postgres', "SELECT a.key_ends_at - t.started_at FROM actionledger.action a JOIN actionledger.attempt t USING (action_id)
	  WHERE a.action_id = $ids{keyed} AND t.attempt = a.attempts"), '23:55:00',
		'the key window began with the only try that was sent');
}

# The budget is used up without anything having left.
{
	my $mute = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 100, ReuseAddr => 1) or die "no socket: $!";
	my $plain = start_raw_server(sub { my ($c) = @_; syswrite $c, "HTTP/1.1 400 Bad Request\r\n\r\n"; sysread $c, my $hello, 4096; });
	my $closed = PostgreSQL::Test::Cluster::get_free_port();
	my $before = scalar truth($p);
	my @cases = (
		[ 'closed', "http://127.0.0.1:$closed", qr/^connect$/, 'nobody listens' ],
		[ 'name', 'http://no-such-host.invalid', qr/^(resolve|timeout_before_send)$/, 'a name that does not resolve' ],
		[ 'plain', "https://127.0.0.1:$plain->{port}", qr/^tls$/, 'TLS against a plain port' ],
		[ 'mute', 'https://127.0.0.1:' . $mute->sockport, qr/^timeout_before_send$/, 'a TLS handshake that is never answered' ],
		[ 'mixed', "https://127.0.0.1:$p->{port}", qr/^timeout_before_send$/, 'a TLS handshake with the plain provider' ]);
	my %ids;

	for my $case (@cases)
	{
		my ($name, $url) = @$case;
		refund_service($node, { url => $url }, name => "${name}_keyed");
		refund_service($node, { url => $url }, name => "${name}_unkeyed", honoured => 0);
		for my $kind (qw(keyed unkeyed irreversible))
		{
			refund_tool($node, %{ $kinds{$kind} }, name => "${name}_$kind", service => "${name}_$kinds{$kind}{service}",
				attempts => 3, timeout => '800ms', options => '"connect_timeout": "500ms"');
			$ids{$name}{$kind} = perform($node, "${name}_$kind", "$name-$kind");
		}
	}
	for my $case (@cases)
	{
		my ($name, $url, $category, $words) = @$case;
		for my $kind (qw(keyed unkeyed irreversible))
		{
			my $row = settle($node, $ids{$name}{$kind}, 'failed', 'none');
			my @attempts = attempts_of($node, $ids{$name}{$kind});

			is($row->{error_code}, 'retries_exhausted', "$kind, $words: failed when the budget is used up");
			is(scalar @attempts, 3, "$kind, $words: after its three tries");
			is(scalar(grep { $_->{verdict} ne 'not_sent' || $_->{sent} } @attempts), 0, "$kind, $words: every one not_sent");
			is(scalar(grep { $_->{category} !~ $category } @attempts), 0, "$kind, $words: category")
			  or diag("categories: @{[ map { $_->{category} } @attempts ]}");
			is($row->{key_ends_at}, undef, "$kind, $words: the key window never began");
		}
	}
	is(scalar(grep { $_->{ev} ne 'closed' } truth($p)), 0 + grep({ $_->{ev} ne 'closed' } (truth($p))[ 0 .. $before - 1 ]),
		'the provider has neither received nor executed anything');
}

# ---------------------------------------------------------------------------
# After the service has committed, before it answers
# ---------------------------------------------------------------------------
{
	my %category = (hang => 'timeout_after_send', close => 'connection_lost', reset => 'connection_lost', cuthead => 'response_cut');
	my %ids;

	for my $do (sort keys %category)
	{
		for my $kind (qw(keyed unkeyed irreversible idempotent))
		{
			refund_tool($node, %{ $kinds{$kind} }, name => "${do}_$kind", do => "$do,ok", timeout => '700ms');
			$ids{$do}{$kind} = perform($node, "${do}_$kind", "$do-$kind");
		}
		refund_tool($node, %{ $kinds{read_only} }, name => "${do}_read_only", do => $do, timeout => '500ms', attempts => 3);
		$ids{$do}{read_only} = perform($node, "${do}_read_only", "$do-read_only");
	}
	for my $do (sort keys %category)
	{
		my %id = %{ $ids{$do} };
		my $row = settle($node, $id{keyed}, 'confirmed', 'none');

		is($row->{confirmed_by}, 'replay', "keyed, $do: confirmed by the replay of the lost answer");
		is_deeply([ grep { $do eq 'close' || $_ ne 'unknown resend_blocked' } @{ story($id{keyed}) } ], [ "unknown $category{$do}", 'confirmed replayed' ], "keyed, $do: unknown, then the same request again");
		is(effects($p, $id{keyed}), 1, "keyed, $do: executed once");
		is_deeply([ map { $_->{key} } received($p, $id{keyed}) ], [ ($row->{idempotency_key}) x 2 ], "keyed, $do: the same key both times");
		is(scalar(keys %{ truth_by_action($p)->{ $id{keyed} }{bodies} }), 1, "keyed, $do: the same bytes both times");

		for my $kind (qw(unkeyed irreversible))
		{
			$row = settle($node, $id{$kind}, 'needs_reconciliation', 'review');
			is_deeply(story($id{$kind}), ["unknown $category{$do}"], "$kind, $do: unknown after one attempt");
			is(scalar(received($p, $id{$kind})), 1, "$kind, $do: sent once");
			is(effects($p, $id{$kind}), 1, "$kind, $do: executed once");
			is($row->{error_code}, 'outcome_unknown', "$kind, $do: the outcome is unknown, not failed");
		}

		$row = settle($node, $id{idempotent}, 'confirmed', 'none');
		is(scalar(received($p, $id{idempotent})), 2, "idempotent, $do: sent again");
		is(scalar(keys %{ truth_by_action($p)->{ $id{idempotent} }{bodies} }), 1, "idempotent, $do: the same bytes both times");

		$row = settle($node, $id{read_only}, 'failed', 'none');
		is($row->{error_code}, 'no_answer', "read_only, $do: no answer obtained, and no effect is possible");
		is(scalar(received($p, $id{read_only})), 3, "read_only, $do: tried as often as it may");
		is(effects($p, $id{read_only}), 0, "read_only, $do: nothing executed");
		sent_as_recorded($p, $id{$_}, "$_, $do") for sort keys %id;
	}
	turns_pass($node, 3);
	is(scalar(received($p, $ids{$_}{unkeyed})), 1, "unkeyed, $_: still sent once after the dispatcher has looked again") for sort keys %category;
}

# ---------------------------------------------------------------------------
# While the service is still processing
# ---------------------------------------------------------------------------
{
	# The first request is given up after 0.5 s and executes after 2 s; the
	# second finds its key in use.
	refund_tool($node, %{ $kinds{keyed} }, name => 'processing', do => 'processing:2000,ok', timeout => '500ms', attempts => 20,
		base => '200ms', cap => '400ms');
	my $id = perform($node, 'processing', 'processing');
	poll_sql($node, "SELECT status = 'submitted' AND next_step = 'resend' AND known = 'in_progress' FROM actionledger.action WHERE action_id = $id",
		'the key is in use');
	my $row = settle($node, $id, 'confirmed', 'none');
	my @story = @{ story($id) };

	is(shift @story, 'unknown timeout_after_send', 'processing: the first request was given up');
	is(pop @story, 'confirmed replayed', 'processing: in the end the replay confirms it');
	cmp_ok(scalar @story, '>=', 1, 'processing: there was an answer 409 in between');
	is(scalar(grep { $_ ne 'in_progress key_in_use' } @story), 0, 'processing: 409 with our key means in progress, every time');
	is(effects($p, $id), 1, 'processing: executed once');
	sent_as_recorded($p, $id, 'processing');

	# It outlasts the tries: a person decides, and it is not called failed.
	refund_tool($node, %{ $kinds{keyed} }, name => 'processing_long', do => 'processing:60000,ok', timeout => '300ms', attempts => 3);
	$id = perform($node, 'processing_long', 'processing_long');
	$row = settle($node, $id, 'needs_reconciliation', 'review');
	is(scalar(received($p, $id)), 3, 'processing longer than the budget lasts: a person decides');

	# 202 without a key: wait for a callback until the window ends, then review.
	refund_tool($node, %{ $kinds{unkeyed} }, name => 'accepted', do => 'accepted', window => '3s');
	$id = perform($node, 'accepted', 'accepted');
	settle($node, $id, 'submitted', 'wait');
	poll_sql($node, "SELECT known = 'in_progress' AND claimed_by IS NULL FROM actionledger.action WHERE action_id = $id", 'the answer 202 is recorded');
	is($node->safe_psql('postgres', "SELECT next_step FROM actionledger.in_flight WHERE action_id = $id"), 'wait', '202 without a key: in_flight shows that it waits');
	$row = settle($node, $id, 'needs_reconciliation', 'review');
	is_deeply(story($id), ['in_progress accepted'], '202 without a key: one attempt, in progress');
	is(scalar(received($p, $id)), 1, '202 without a key: sent once');
	is(effects($p, $id), 1, '202 without a key: executed once');
	is($node->safe_psql('postgres', "SELECT min(e.at) >= a.window_ends_at FROM actionledger.event e JOIN actionledger.action a USING (action_id)
	  WHERE action_id = $id AND e.status = 'needs_reconciliation' GROUP BY a.window_ends_at"), 't', '202 without a key: not before the retry window ended');

	# 202 with a key: asked again, with the same key, until the budget is used up.
	refund_tool($node, %{ $kinds{keyed} }, name => 'accepted_keyed', do => 'accepted', attempts => 3);
	$id = perform($node, 'accepted_keyed', 'accepted_keyed');
	settle($node, $id, 'needs_reconciliation', 'review');
	is(scalar(received($p, $id)), 3, '202 with a key: polled by the same request, then review');
	is(effects($p, $id), 1, '202 with a key: executed once');
}

# ---------------------------------------------------------------------------
# What the service says about trying again
# ---------------------------------------------------------------------------

# Thirty actions are throttled at the same moment.
{
	refund_tool($node, %{ $kinds{unkeyed} }, name => 'throttled', do => 'status:429;Retry-After:2,ok');
	$node->safe_psql('postgres', q{SELECT count(*) FROM actionledger.perform_many('throttled',
	  ARRAY(SELECT jsonb_build_object('refund_id', 'throttled-' || i, 'amount', i) FROM generate_series(1, 30) i))});
	poll_sql($node, "SELECT count(*) = 30 FROM actionledger.actions WHERE tool = 'throttled' AND status = 'confirmed'", 'all throttled ones are confirmed');

	my @ids = split /\n/, $node->safe_psql('postgres', "SELECT action_id FROM actionledger.actions WHERE tool = 'throttled'");
	my (@waits, $executed, %told);
	for my $t (truth($p))
	{
		next unless ($t->{action} // '') =~ m{/(\d+)$};
		push @{ $told{$1} }, $t;
	}
	for my $id (@ids)
	{
		my ($refused) = grep { $_->{ev} eq 'answered' && $_->{status} == 429 } @{ $told{$id} };
		my @received = grep { $_->{ev} eq 'received' } @{ $told{$id} };
		push @waits, $received[1]{t} - $refused->{t} if @received == 2;
		$executed += grep { $_->{ev} eq 'executed' } @{ $told{$id} };
	}
	is(scalar @waits, 30, 'Retry-After: each is sent twice');
	is($executed, 30, 'Retry-After: and executed once');
	cmp_ok(min(@waits), '>=', 2.0, 'Retry-After: none earlier than told');
	cmp_ok(max(@waits), '<', 10.0, 'Retry-After: none forgotten');
	cmp_ok(max(@waits) - min(@waits), '>=', 0.2, 'Retry-After: spread, not all at once');
	note(sprintf 'waited %.3f to %.3f s', min(@waits), max(@waits));
}

# An error that the service has stored for the key is replayed for ever.
{
	refund_tool($node, %{ $kinds{keyed} }, name => 'stored_error', do => 'execstatus:500', attempts => 10);
	my $id = perform($node, 'stored_error', 'stored_error');
	my $row = settle($node, $id, 'needs_reconciliation', 'review');
	is_deeply(story($id), [ 'unknown status_ambiguous', 'unknown replayed_error' ], 'stored 500: the replay ends the re-sending');
	is(scalar(received($p, $id)), 2, 'stored 500: sent twice, though ten tries are allowed');
	is(effects($p, $id), 1, 'stored 500: executed once');

	# One that is not a replay: a bounded number of tries.
	refund_tool($node, %{ $kinds{keyed} }, name => 'plain_error', do => 'status:500', attempts => 4);
	$id = perform($node, 'plain_error', 'plain_error');
	settle($node, $id, 'needs_reconciliation', 'review');
	is(scalar(received($p, $id)), 4, 'plain 500 with a key: tried as often as it may, then review');
}

# Refusals of a repetition say nothing about the first request.
for my $status (400, 404, 410, 412, 422)
{
	refund_tool($node, %{ $kinds{keyed} }, name => "refused_$status", do => "close,status:$status", attempts => 4);
	my $id = perform($node, "refused_$status", "refused_$status");
	my $row = settle($node, $id, 'needs_reconciliation', 'review');
	is(scalar(received($p, $id)), $status == 412 ? 4 : 2, "$status after an unknown outcome: not failed") or diag(explain(story($id)));
}

# The same refusals of a first attempt are final; the error is of the caller.
for my $status (400, 404, 409, 410, 412, 422)
{
	refund_tool($node, %{ $kinds{unkeyed} }, name => "first_$status", do => "status:$status");
	my $id = perform($node, "first_$status", "first_$status");
	my $row = settle($node, $id, 'failed', 'none');
	is($row->{error_code}, 'rejected', "$status on the first attempt: refused");
	is(scalar(received($p, $id)), 1, "$status on the first attempt: sent once");
}

$node->stop;
done_testing();
