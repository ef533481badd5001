# What a service may answer, and what that proves: one action per lie.
#
# The expectations are written from the tables of verdicts (transport, then
# status).  Every lie is told to tools of several kinds:
#   unkeyed   non_idempotent without a key: one attempt shows the verdict
#   keyed     non_idempotent with a key: an unknown outcome is re-sent
#   read      read_only: likewise
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;
use PostgreSQL::Test::Utils;

my $node = start_server();
my $p = start_provider();
my $elsewhere = start_provider();
my %kind = (
	unkeyed => { type => 'non_idempotent', service => 'unkeyed', mode => 'unkeyed' },
	keyed => { type => 'non_idempotent', service => 'keyed', mode => 'keyed' },
	read => { type => 'read_only', service => 'unkeyed', mode => 'read' });

refund_service($node, $p, name => 'keyed');
refund_service($node, $p, name => 'unkeyed', honoured => 0);
my $pid = pid_of_dispatcher($node);

# ---------------------------------------------------------------------------
# Answers that are no answers, or odd ones
# ---------------------------------------------------------------------------
# [ behaviour, verdict, category, HTTP status, truncated, words, whether it executes (1) ]
my @lies = (
	[ 'cuthead', 'unknown', 'response_cut', undef, 0, 'a head that is cut off' ],
	[ 'statusline:HTTP/1.1%25202000%2520OK', 'unknown', 'response_garbled', undef, 0, 'status 2000' ],
	[ 'statusline:HTTP/1.1%252020%2520OK', 'unknown', 'response_garbled', undef, 0, 'status 20' ],
	[ 'statusline:HTTP/1.1%2520999%2520OK', 'unknown', 'response_garbled', undef, 0, 'status 999' ],
	[ 'statusline:HTTP/7.5%2520200%2520OK', 'unknown', 'response_garbled', undef, 0, 'a version of HTTP that is none' ],
	[ 'statusline:HTTP/1.1', 'unknown', 'response_garbled', undef, 0, 'a status line without a status' ],
	[ 'statusline:garbage', 'unknown', 'response_garbled', undef, 0, 'garbage for a status line' ],
	[ 'statusline:%257B%2522id%2522%253A%2522re_9%2522%257D', 'unknown', 'response_garbled', undef, 0, 'a body without a head, as in HTTP/0.9' ],
	[ 'interim:100', 'unknown', 'timeout_after_send', undef, 0, '100 and then nothing' ],
	[ 'interim:102', 'unknown', 'timeout_after_send', undef, 0, '102 and then nothing' ],
	[ 'interim:103', 'unknown', 'timeout_after_send', undef, 0, '103 and then nothing' ],
	[ 'hang', 'unknown', 'timeout_after_send', undef, 0, 'no answer at all' ],
	[ 'close', 'unknown', 'connection_lost', undef, 0, 'the end of the connection' ],
	[ 'reset', 'unknown', 'connection_lost', undef, 0, 'a reset' ],
	[ 'close_before', 'unknown', 'connection_lost', undef, 0, 'the end of the connection, not executed', 0 ],
	[ 'reset_before', 'unknown', 'connection_lost', undef, 0, 'a reset, not executed', 0 ],
	[ 'noexec_hang', 'unknown', 'timeout_after_send', undef, 0, 'no answer at all, not executed', 0 ],
	[ 'interim_ok:102', 'confirmed', 'confirmed', 200, 0, '102, then the answer' ],
	[ 'interim_ok:103', 'confirmed', 'confirmed', 200, 0, '103, then the answer' ],
	[ 'statusline:HTTP/1.0%2520200%2520Fine', 'confirmed', 'confirmed', 200, 0, 'HTTP/1.0' ],
	[ 'nul', 'confirmed', 'confirmed', 200, 0, 'NUL bytes in the body' ],
	[ 'gzip', 'confirmed', 'confirmed', 200, 0, 'a coding that nobody asked for' ],
	[ 'deep', 'confirmed', 'confirmed', 200, 0, 'JSON nested 20,000 deep' ],
	[ 'badutf8', 'confirmed', 'confirmed', 200, 0, 'a body that is no UTF-8' ],
	[ 'hugenum', 'confirmed', 'confirmed', 200, 0, 'a number with 130,000 digits' ],
	[ 'status:200;body:%2522just%2520text%2522', 'confirmed', 'confirmed', 200, 0, 'JSON that is no object', 0 ],
	[ 'status:200;body:', 'confirmed', 'confirmed', 200, 0, 'an empty body', 0 ],
	[ 'truncated', 'confirmed', 'confirmed', 200, 1, 'a body shorter than its length' ],
	[ 'slowbody:30000', 'confirmed', 'confirmed', 200, 1, 'a head, and a body that does not come' ],
	[ 'noframing', 'confirmed', 'confirmed', 200, 1, 'a body that ends with the connection' ],
	[ 'endless', 'confirmed', 'confirmed', 200, 1, 'an endless body' ],
	[ 'big:3000000', 'confirmed', 'confirmed', 200, 1, 'a body over the cap' ],
	[ 'big:200000', 'confirmed', 'confirmed', 200, 0, 'a big body below the cap' ],
	[ "redirect:http://127.0.0.1:$elsewhere->{port}/unkeyed/refunds", 'unknown', 'status_ambiguous', 302, 0, 'a redirect elsewhere', 0 ],
	[ "status:307;Location:http://127.0.0.1:$elsewhere->{port}/unkeyed/refunds", 'rejected', 'redirected', 307, 0, 'a redirect that keeps the method', 0 ],
	[ "status:308;Location:http://127.0.0.1:$elsewhere->{port}/unkeyed/refunds", 'rejected', 'redirected', 308, 0, 'a permanent one', 0 ],
	[ "execstatus:201;Location:http://127.0.0.1:$elsewhere->{port}/unkeyed/refunds", 'confirmed', 'confirmed', 201, 0, '201 with a Location' ]);

# What the state machine makes of a first verdict.
my %next = (
	unkeyed => { confirmed => 'confirmed none', unknown => 'needs_reconciliation review', rejected => 'failed none' },
	keyed => { confirmed => 'confirmed none', unknown => 'confirmed none', rejected => 'failed none' },
	read => { confirmed => 'confirmed none', unknown => 'confirmed none', rejected => 'failed none' });

my @told;

# Tell a lie to a tool of a kind; what is re-sent is answered properly.
sub provoke
{
	my ($kind, $do, $timeout, $attempts) = @_;
	my $name = "$kind-" . scalar @told;

	refund_tool($node, %{ $kind{$kind} }, name => $name, do => "$do,ok", timeout => $timeout // '700ms', attempts => $attempts // 4, base => '50ms');
	my $id = perform($node, $name, $name);
	push @told, $id;
	return $id;
}

{
	my @actions;

	for my $lie (@lies)
	{
		push @actions, [ $_, provoke($_, $lie->[0]), @$lie ] for sort keys %kind;
	}
	for my $action (@actions)
	{
		my ($kind, $id, $do, $verdict, $category, $status, $truncated, $words, $executes) = @$action;
		my ($is, $step) = split / /, $next{$kind}{$verdict};
		my $row = settle($node, $id, $is, $step);
		my ($first, @rest) = attempts_of($node, $id);
		my $again = $verdict eq 'unknown' && $kind ne 'unkeyed' ? 1 : 0;
		my $executed = $kind eq 'read' ? 0 : ($executes // 1) || $again;	# what the lie did not execute, the re-send does

		is_deeply(
			[ $first->{verdict}, $first->{category}, $first->{http_status}, $first->{truncated} ? 1 : 0, $first->{sent} ? 1 : 0, scalar @rest ],
			[ $verdict, $category, $status, $truncated, 1, $again ],
			"$kind: $words: verdict, category, status, truncated, sent, times sent again")
		  or diag(explain($first));
		is_deeply([ scalar(received($p, $id)), effects($p, $id) ], [ 1 + $again, $executed ], "$kind: $words: received and executed");
	}
	is(scalar(truth($elsewhere)), 0, 'no redirect was followed: nobody connected there');
}

# ---------------------------------------------------------------------------
# What is kept of an odd body
# ---------------------------------------------------------------------------
{
	my %ids;

	for my $do (qw(endless nul badutf8 deep hugenum big:200000 gzip))
	{
		$ids{$do} = provoke('unkeyed', $do);
		settle($node, $ids{$do}, 'confirmed', 'none');
	}
	is($node->safe_psql('postgres', "SELECT octet_length(body) FROM actionledger.attempt WHERE action_id = $ids{endless}"), 256 * 1024,
		'of an endless body the first 256 kB are kept');
	is($node->safe_psql('postgres', "SELECT position('\\x00'::bytea IN body) > 0 AND octet_length(body) < 100 FROM actionledger.attempt WHERE action_id = $ids{nul}"), 't',
		'a body with NUL bytes is kept as it came');
	is($node->safe_psql('postgres', "SELECT position('\\xe920fffe20c328'::bytea IN body) > 0 FROM actionledger.attempt WHERE action_id = $ids{badutf8}"), 't',
		'a body that is no UTF-8 is kept as it came');
	is($node->safe_psql('postgres', "SELECT external_ref ~ '^re_\\d+\$' FROM actionledger.action WHERE action_id = $ids{'big:200000'}"), 't',
		'the reference is found in a big body');
	is($node->safe_psql('postgres', "SELECT count(*) FROM actionledger.action WHERE action_id IN ($ids{endless}, $ids{nul}, $ids{badutf8}, $ids{deep}, $ids{gzip}) AND external_ref IS NOT NULL"),
		'0', 'a body that cannot be read gives no reference');
	for my $do (sort keys %ids)
	{
		my $out = $node->safe_psql('postgres', "SELECT count(*) FROM (SELECT v::text FROM actionledger.attempts v WHERE action_id = $ids{$do} UNION ALL
		  SELECT v::text FROM actionledger.timeline v WHERE action_id = $ids{$do} UNION ALL SELECT actionledger.result($ids{$do})::text) x");
		cmp_ok($out, '>=', 3, "$do: views and envelope can show it");
	}
}

# ---------------------------------------------------------------------------
# Statuses, without a key, on the first attempt
# ---------------------------------------------------------------------------
{
	my %expected = (
		confirmed => [ 200, 201, 203, 204, 205 ],
		in_progress => [202],
		unknown => [ 206, 207, 208, 226, 300 .. 306, 406, 408, 416, 417, 418, 424, 499, 420, 430, 450, 500, 502, 503, 504, 506, 507, 508, 510, 520, 521, 525, 530, 599 ],
		rejected => [ 307, 308, 400 .. 405, 407, 409 .. 415, 422, 426, 428, 431, 451, 501, 505 ],
		transient => [ 421, 423, 425, 429, 511 ]);
	my %next = (
		confirmed => 'confirmed none',
		in_progress => 'submitted wait',
		unknown => 'needs_reconciliation review',
		rejected => 'failed none',
		transient => 'confirmed none');	# refused for now, sent again, done
	my %ids;

	for my $verdict (sort keys %expected)
	{
		$ids{$_} = provoke('unkeyed', ($verdict eq 'confirmed' ? 'execstatus' : 'status') . ":$_") for @{ $expected{$verdict} };
	}
	for my $verdict (sort keys %expected)
	{
		for my $status (@{ $expected{$verdict} })
		{
			my ($is, $step) = split / /, $next{$verdict};
			my $row;
			if ($verdict eq 'in_progress')
			{
				poll_sql($node, "SELECT status = 'submitted' AND next_step = 'wait' AND known = 'in_progress' FROM actionledger.action WHERE action_id = $ids{$status}",
					'202 is recorded');
			}
			else
			{
				$row = settle($node, $ids{$status}, $is, $step);
			}
			my ($first, @rest) = attempts_of($node, $ids{$status});
			my $transient = $verdict eq 'transient';
			is_deeply([ $first->{verdict}, $first->{http_status}, scalar @rest, scalar(received($p, $ids{$status})) ],
				[ $transient ? 'rejected' : $verdict, $status, $transient ? 1 : 0, $transient ? 2 : 1 ], "status $status: $verdict")
			  or diag(explain($first));
			is($row->{error_code}, 'rejected', "status $status: the action is refused") if $verdict eq 'rejected';
		}
	}

	# An informational status is never final.
	for my $status (100, 101, 103, 199)
	{
		my $id = provoke('unkeyed', "status:$status");
		settle($node, $id, 'needs_reconciliation', 'review');
		my ($first) = attempts_of($node, $id);
		is("$first->{verdict} @{[ $first->{http_status} // 'none' ]}", 'unknown none', "status $status as the last word: unknown");
	}

	# With a key, 409 is this key's earlier request.
	my $id = provoke('keyed', 'status:409');
	settle($node, $id, 'confirmed', 'none');
	my ($first) = attempts_of($node, $id);
	is("$first->{verdict} $first->{category}", 'in_progress key_in_use', 'status 409 with a key: in progress');
	is(effects($p, $id), 1, 'status 409 with a key: asked again, executed once');
}

# ---------------------------------------------------------------------------
# A cut body where the status needs it
# ---------------------------------------------------------------------------
{
	my $text = 'x' x 2000;
	my %expected = (
		400 => 'unknown body_truncated',
		409 => 'unknown body_truncated',
		422 => 'unknown body_truncated',
		402 => 'rejected rejected',
		404 => 'rejected rejected');

	$node->safe_psql('postgres', "ALTER SYSTEM SET actionledger.max_response_size = '1kB'");
	$node->reload;
	turns_pass($node, 2);
	for my $status (sort keys %expected)
	{
		my $id = provoke('unkeyed', "status:$status;body:$text");
		my ($verdict) = split / /, $expected{$status};
		settle($node, $id, $verdict eq 'unknown' ? ('needs_reconciliation', 'review') : ('failed', 'none'));
		my ($first) = attempts_of($node, $id);
		is("$first->{verdict} $first->{category}", $expected{$status}, "status $status with a body over the cap");
	}
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET actionledger.max_response_size');
	$node->reload;
	turns_pass($node, 2);
}

# ---------------------------------------------------------------------------
# Bytes that no provider of ours can send
# ---------------------------------------------------------------------------
{
	my $ok = '{"id":"re_1","status":"succeeded"}';
	my $length = 'Content-Length: ' . length $ok;
	my @raw = (
		[ '', 'unknown', 'connection_lost', 'nothing' ],
		[ "\r\n\r\n\r\n", 'unknown', 'response_garbled', 'blank lines' ],
		[ "HTTP/1.1 200 OK\r\n" . ("X-Pad: " . 'x' x 1000 . "\r\n") x 50, 'unknown', 'response_cut', 'a head of 50 kB' ],
		[ "HTTP/1.1 200 OK\r\nX-Pad: " . 'x' x 200_000, 'unknown', undef, 'a header line without an end' ],
		[ 'x' x 200_000, 'unknown', 'response_garbled', 'a status line without an end' ],
		[ "\x16\x03\x01\x02\x00\x01\x00" . "\xff" x 100, 'unknown', 'response_garbled', 'TLS' ],
		[ "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n$ok", 'unknown', undef, 'a negative length' ],
		[ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n$ok", 'confirmed', 'confirmed', 'a chunk whose size is no number' ],
		[ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n$ok", 'confirmed', 'confirmed', 'a chunk larger than memory' ],
		[ "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n$ok", 'confirmed', 'confirmed', 'a length that overflows' ],
		[ "HTTP/1.1 200 OK\n$length\n\n$ok", 'confirmed', 'confirmed', 'line feeds only' ],
		[ "HTTP/1.1 200 OK\r\nX: a\0b\r\n$length\r\n\r\n$ok", undef, undef, 'a NUL byte in the head' ],
		[ "HTTP/1.1 200 \xff\xfe\x1b[31m\r\n$length\r\n\r\n$ok", 'confirmed', 'confirmed', 'escape sequences in the reason' ],
		[ "HTTP/1.1 200 OK\r\nLocation: \x1b]0;'; DROP TABLE x; --\xff\r\n$length\r\n\r\n$ok", 'confirmed', 'confirmed', 'escape sequences and quotes in a header that is kept' ],
		[ "HTTP/1.1 200 OK\r\nLocation: \r\n$length\r\n\r\n$ok", 'confirmed', 'confirmed', 'a header that is kept and empty' ],
		[ "HTTP/1.1 100 Continue\r\n\r\n" x 3000 . "HTTP/1.1 200 OK\r\n$length\r\n\r\n$ok", 'unknown', undef, 'thousands of informational heads' ],
		[ "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\nhello", 'unknown', undef, 'another protocol' ],
		[ "HTTP/1.1 200 OK\r\n$length\r\n\r\n$ok" . "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", 'confirmed', 'confirmed', 'two answers' ]);
	my $raw = start_raw_server(
		sub {
			my ($c) = @_;
			my $request = '';
			while ($request !~ /\r\n\r\n.*\}/s) { sysread $c, $request, 4096, length $request or last; }
			my ($n) = $request =~ m{^POST /(\d+)};
			my $left = $raw[$n][0];
			while (length $left)
			{
				my $done = syswrite $c, $left;
				last unless $done;
				substr $left, 0, $done, '';
			}
			shutdown $c, 1;
			1 while sysread $c, my $rest, 4096;
		});
	my %ids;

	refund_service($node, $raw, name => 'raw', honoured => 0);
	for my $i (0 .. $#raw)
	{
		refund_tool($node, name => "raw-$i", service => 'raw', request => "POST /$i/{refund_id}", timeout => '3s');
		$ids{$i} = perform($node, "raw-$i", "raw-$i");
	}
	for my $i (0 .. $#raw)
	{
		my ($bytes, $verdict, $category, $words) = @{ $raw[$i] };
		poll_sql($node, "SELECT claimed_by IS NULL AND attempts = 1 FROM actionledger.action WHERE action_id = $ids{$i}", "$words: judged");
		my ($first, @rest) = attempts_of($node, $ids{$i});
		my $row = action_row($node, $ids{$i});

		is(scalar @rest, 0, "$words: sent once");
		is($first->{verdict}, $verdict, "$words: verdict") or diag(explain($first)) if defined $verdict;
		is($first->{category}, $category, "$words: category") if defined $category;
		is("$row->{status} $row->{next_step}", $first->{verdict} eq 'confirmed' ? 'confirmed none' : 'needs_reconciliation review', "$words: what follows");
		like($first->{response_headers} // '', qr/\A[\x20-\x7e\n]*\z/, "$words: no control characters are kept");
		note("$words: $first->{verdict} $first->{category} " . ($first->{detail} // ''));
	}
	$node->safe_psql('postgres', "SELECT count(v::text) FROM actionledger.attempts v");
	pass('the views can show all of it');
}

# ---------------------------------------------------------------------------
# Whoever lies does no harm
# ---------------------------------------------------------------------------
is(pid_of_dispatcher($node), $pid, 'it is still the same dispatcher');
is($node->safe_psql('postgres', "SELECT restarts FROM actionledger.workers WHERE worker LIKE 'dispatcher%'"), '0', 'which was never restarted');
my ($peak) = slurp_file("/proc/$pid/status") =~ /^VmHWM:\s+(\d+) kB/m;
cmp_ok($peak, '<', 200 * 1024, "its memory stayed bounded ($peak kB at most)");
my $log = slurp_file($node->logfile);
unlike($log, qr/(ERROR|FATAL|PANIC):/, 'nothing of it was an error of the server');
unlike($log, qr/[^\t\n\x20-\x7e]/, 'and no byte of theirs that a terminal would obey is in its log');
my $good = perform($node, 'good', 'good') if refund_tool($node, name => 'good', service => 'keyed');
settle($node, $good, 'confirmed', 'none');
is(effects($p, $good), 1, 'and one more good action is confirmed');

$node->stop;
done_testing();
