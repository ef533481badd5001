# Every way in which a request can end, for every kind of tool, against what the
# provider really did.
#
# A row is an ending, or a sequence of them; a cell is a row for one kind of
# tool, and one action.  What a cell has to come to is said here by the prose of
# the tables (transport, status, what follows), the answer's reading by a tool's
# own rules by the row.  Then the provider's truth log is laid beside the ledger.
use strict;
use warnings;
use JSON::PP;
use Test::More;
use lib 'test/lib';
use Endings;
use Ledger;
use Places;

my $json = JSON::PP->new->canonical;
my $node = start_server();
my $p = start_provider();
my ($place, $providers) = open_places($p, keys %kind);
my (@rows, @cells);

# Add a row: its name, options and endings.
#   at => place, tries => of the tool (as many as there are endings), base, window => of its retries
#   slow => a time limit that passes on the way, rules => of the tool, pad => bytes of the request
#   or => [endings that may be seen instead], ...
sub row
{
	my ($name, $o, @steps) = @_;
	push @rows, { at => 'here', tries => scalar @steps, %$o, name => $name, steps => \@steps };
	return;
}

# ---------------------------------------------------------------------------
# Rows: before anything has left, and connections that take it and lie
# ---------------------------------------------------------------------------
my $unread = none('unknown', 'connection_lost', undef, 0, unread => 1);
my $done = named('ok', 200, 1);

row('nobody listens', { at => 'closed' }, none('not_sent', 'connect'));
row('the name does not resolve', { at => 'nameless', slow => '900ms', or => [ [ none('not_sent', 'timeout_before_send') ] ] }, none('not_sent', 'resolve'));
row('no connection in time', { at => 'full', slow => '900ms', or => [ [ none('not_sent', 'connect') ] ] }, none('not_sent', 'timeout_before_send'));
row('an address that is not allowed', { at => 'public' }, none('not_sent', 'address_refused', undef, 0, flags => 'blocked'));
row('no file with the authority', { at => 'no_ca_file' }, none('not_sent', 'bad_trust', undef, 0, flags => 'blocked'));
row('TLS to a port that answers in HTTP', { at => 'tls_http' }, none('not_sent', 'tls'));
row('TLS to a port that closes', { at => 'tls_shut' }, none('not_sent', 'tls'));
row('TLS to a port that resets', { at => 'tls_rst' }, none('not_sent', 'tls'));
row('TLS to a port that says nothing', { at => 'tls_mute', slow => '900ms' }, none('not_sent', 'timeout_before_send'));
row('TLS to the plain provider', { at => 'tls_plain', slow => '900ms' }, none('not_sent', 'timeout_before_send'));
row('a certificate of nobody known', { at => 'untrusted' }, none('not_sent', 'tls'));
row('a certificate for another name', { at => 'misnamed' }, none('not_sent', 'tls'));
row('TLS, done', { at => 'tls' }, $done);
row('TLS, closed after it was done', { at => 'tls' }, none('unknown', 'connection_lost', 'close', 1));
row('TLS that wants a certificate of ours', { at => 'mutual' }, $unread);
row('plain HTTP to a TLS port', { at => 'plain_tls', or => [ [$unread] ] }, none('unknown', 'response_garbled', undef, 0, unread => 1));
row('closed before the request is read', { at => 'shut' }, $unread);
row('reset before the request is read', { at => 'rst', or => [ [ none('not_sent', 'connect') ] ] }, $unread);
row('reset in the middle of the request', { at => 'part' }, $unread);
row('reset in the middle of a big request', { at => 'big', pad => 6_000_000 }, { %$unread, do => 'reset' });
row('408 in the middle of a big request, then done', { at => 'big', pad => 6_000_000 },
	{ do => '408', status => 408, runs => 0, sending => 1, unread => 1 }, named('408', 200, 1));
row('429 before the request is read', { at => 'early_429' }, { do => 'ok', status => 429, runs => 0 });
row('503 before the request is read', { at => 'early_503' }, { do => 'ok', status => 503, runs => 0 });

# ---------------------------------------------------------------------------
# Rows: after it has left
# ---------------------------------------------------------------------------
for my $end ([ close => 'connection_lost' ], [ reset => 'connection_lost' ])
{
	my ($do, $category) = @$end;
	row("$do after it was done", {}, none('unknown', $category, $do, 1));
	row("$do instead of doing it", {}, none('unknown', $category, "${do}_before", 0));
}
row('no answer, done', { slow => '900ms' }, none('unknown', 'timeout_after_send', 'hang', 1));
row('no answer, not done', { slow => '900ms' }, none('unknown', 'timeout_after_send', 'noexec_hang', 0));
row("$_ and then nothing", { slow => '900ms' }, none('unknown', 'timeout_after_send', "interim:$_", 1)) for 100, 102, 103;
row("$_ and then the answer", {}, named("interim_ok:$_", 200, 1)) for 100, 102, 103;
row('the answer comes too late', { slow => '900ms' }, none('unknown', 'timeout_after_send', 'late:2500', 1));
row('it is done too late', { slow => '900ms' }, none('unknown', 'timeout_after_send', 'slowexec:2500', 1));
row('it is processed for too long', { slow => '900ms' }, none('unknown', 'timeout_after_send', 'processing:2500', 1));
row('the answer comes late', {}, named('late:300', 200, 1));
row('it is done late', {}, named('slowexec:300', 200, 1));
row('it is processed, then done', {}, named('processing:300', 200, 1));
row('the body comes late', {}, named('slowbody:300', 200, 1));
row('the body does not come', { slow => '900ms' }, named('slowbody:60000', 200, 1, cut => 1));
row('the head is cut off', {}, none('unknown', 'response_cut', 'cuthead', 1));
row('the body is cut off', {}, named('truncated', 200, 1, cut => 1));
row('the body ends with the connection', {}, named('noframing', 200, 1, cut => 1));
row('the body is endless', {}, named('endless', 200, 1, cut => 1));
row('the body is over the cap', {}, named('big:3000000', 200, 1, cut => 1));
row("the body is $_", {}, named($_, 200, 1)) for qw(nul gzip deep badutf8 hugenum);
row("the status line is \"$_\"", {}, none('unknown', 'response_garbled', 'statusline:' . encoded($_), 1))
  for 'HTTP/1.1 2000 OK', 'HTTP/1.1 20 OK', 'HTTP/1.1 600 OK', 'HTTP/1.1', 'HTTP/7.5 200 OK', 'garbage', '{"id":"re_9"}';
row('the status line is that of HTTP/1.0', {}, named('statusline:' . encoded('HTTP/1.0 200 Fine'), 200, 1));
row("$_ as the last word", {}, none('unknown', 'connection_lost', "execstatus:$_", 1)) for 100, 103, 199;
row("a redirect with $_", {}, answer($_, headers => [ Location => "$p->{url}/unkeyed/refunds" ])) for 301, 302, 303, 307, 308;
for my $status (200, 202, 400, 402, 404, 409, 422, 429, 500, 503)
{
	row("status $status, its body cut off", { at => 'broken' }, broken('cut', $status, $status < 300));
	row("status $status, its body ended by the connection", { at => 'broken' }, broken('open', $status, $status < 300));
}

# ---------------------------------------------------------------------------
# Rows: statuses
# ---------------------------------------------------------------------------
for my $status (200 .. 208, 226, 300 .. 308, 400 .. 418, 420 .. 426, 428 .. 431, 451, 499, 500 .. 508, 510, 511, 520, 521, 530, 599)
{
	row("status $status, done", {}, answer($status, runs => 1));
	row("status $status, not done", {}, answer($status));
}

# ---------------------------------------------------------------------------
# Rows: two attempts
# ---------------------------------------------------------------------------
{
	my @first = (
		[ 'lost after it was done', none('unknown', 'connection_lost', 'close', 1) ],
		[ 'lost, not done', none('unknown', 'connection_lost', 'close_before', 0) ],
		[ '500, done', answer(500, runs => 1) ],
		[ '500, not done', answer(500) ],
		[ '202, done', named('accepted', 202, 1) ],
		[ '202, not done', answer(202) ],
		[ '429', answer(429) ]);
	my @then = (
		[ 'done', $done ],
		[ 'lost after it was done', none('unknown', 'connection_lost', 'close', 1) ],
		[ 'lost, not done', none('unknown', 'connection_lost', 'reset_before', 0) ],
		[ 'a head that is cut off', none('unknown', 'response_cut', 'cuthead', 1) ],
		[ '202, done', named('accepted', 202, 1) ],
		[ '503, done', answer(503, runs => 1) ],
		map { [ $_, answer($_) ] } 307, 400, 401, 402, 404, 408, 409, 410, 412, 422, 429, 500);

	for my $first (@first)
	{
		row("$first->[0], then $_->[0]", {}, $first->[1], $_->[1]) for @then;
	}
	row('no answer, then done', { slow => '3s' }, none('unknown', 'timeout_after_send', 'hang', 1), $done);
	row('no answer, not done, then done', { slow => '3s' }, none('unknown', 'timeout_after_send', 'noexec_hang', 0), $done);
	row('no answer, then 404', { slow => '3s' }, none('unknown', 'timeout_after_send', 'hang', 1), answer(404));
	row('still processed, then the same again', { slow => '3s' },
		none('unknown', 'timeout_after_send', 'processing:600000', 0, pending => 1), $done);
	row("$_, and the time to hear more ends", { window => '2s' }, answer($_, runs => 1)) for 202, 409;
	row('lost, then nobody listens', { at => 'once', base => '300ms' }, none('unknown', 'connection_lost', 'ok', 1), none('not_sent', 'connect', 'ok'));
	row('an error that is stored, sent for as long as it may', { tries => 5 }, answer(500, runs => 1));
	row('an error that is not stored, sent for as long as it may', { tries => 4 }, answer(500));
	row('an error that says it is stored', { tries => 4 }, answer(500, marker => 1, headers => [ 'Idempotent-Replayed' => 'true' ]));
	row('lost, then an error that says it is stored', { tries => 4 }, none('unknown', 'connection_lost', 'close_before', 0),
		answer(500, marker => 1, headers => [ 'Idempotent-Replayed' => 'true' ]));
	row('lost, then a refusal that is marked as a replay', {}, none('unknown', 'connection_lost', 'close_before', 0),
		answer(402, marker => 1, headers => [ 'Idempotent-Replayed' => 'true' ]));
	row('lost, then a refusal that is marked as none', {}, none('unknown', 'connection_lost', 'close_before', 0),
		answer(402, headers => [ 'Idempotent-Replayed' => 'false' ]));
}

# ---------------------------------------------------------------------------
# Rows: the rules of a tool
# ---------------------------------------------------------------------------

# Rows for a tool with rules: [name, endings...], or [name, options, endings...].
sub ruled
{
	my ($rules, @list) = @_;
	for my $item (@list)
	{
		my ($name, @steps) = @$item;
		my $o = exists $steps[0]{do} ? {} : shift @steps;
		row("rules: $name", { %$o, rules => $rules }, @steps);
	}
	return;
}

my $lost = none('unknown', 'connection_lost', 'close', 1);
my $dropped = none('unknown', 'connection_lost', 'close_before', 0);
my @unread_rule = (says => [ 'unknown', 'body_rule_not_met' ]);
my @cut_rule = (cut => 1, says => [ 'unknown', 'body_truncated' ]);

ruled([ { status => 200, if => '$.ok == false', verdict => 'rejected', category => 'not_ok' } ],
	[ '200 with ok:false', named('okfalse', 200, 0, says => [ 'rejected', 'not_ok' ]) ],
	[ '200 with ok:true', answer(200, runs => 1, body => '{"ok": true}') ],
	[ '200 with ok:null', answer(200, runs => 1, body => '{"ok": null}') ],
	[ '200 without ok', $done ],
	[ '200 with a list', answer(200, runs => 1, body => '[1, 2]') ],
	[ '200 that is no JSON', answer(200, runs => 1, body => 'ok', @unread_rule) ],
	[ '200 that is almost JSON', answer(200, runs => 1, body => '{"ok": true', @unread_rule) ],
	[ '200 without a body', answer(200, runs => 1, body => '', @unread_rule) ],
	[ '200 with a body that is cut off', named('truncated', 200, 1, @cut_rule) ],
	[ '200 with a body that ends with the connection', named('noframing', 200, 1, @cut_rule) ],
	[ '200 with an endless body', named('endless', 200, 1, @cut_rule) ],
	[ '200 with a body over the cap', named('big:3000000', 200, 1, @cut_rule) ],
	[ '200 with a body that does not come', { slow => '900ms' }, named('slowbody:60000', 200, 1, @cut_rule) ],
	[ '200 with a big body', named('big:200000', 200, 1) ],
	[ '200 with a huge number', named('hugenum', 200, 1) ],
	(map { [ "200 with a body that is $_", named($_, 200, 1, @unread_rule) ] } qw(nul gzip deep badutf8)),
	[ '200 cut off, then whole', named('truncated', 200, 1, @cut_rule), $done ],
	[ '201 that is no JSON', answer(201, runs => 1, body => 'ok') ],
	[ '500 that is no JSON', answer(500, body => 'no') ],
	[ 'a cut head', none('unknown', 'response_cut', 'cuthead', 1) ],
	[ 'lost, then 200 with ok:false', $dropped, named('okfalse', 200, 0, says => [ 'rejected', 'not_ok' ]) ],
	[ '429, then 200 with ok:false', answer(429), named('okfalse', 200, 0, says => [ 'rejected', 'not_ok' ]) ]);

ruled([ { status => '2xx', if => '$.status == "succeeded"', verdict => 'confirmed' } ],
	[ '200 that says succeeded', named('ok', 200, 1, says => [ 'confirmed', 'outcome_rule' ]) ],
	[ '201 that says succeeded', answer(201, runs => 1, says => [ 'confirmed', 'outcome_rule' ]) ],
	[ '200 that says pending', answer(200, runs => 1, body => '{"status": "pending"}', @unread_rule) ],
	[ '200 that says nothing of it', answer(200, body => '{}', @unread_rule) ],
	[ '200 that says it in a cut body', named('truncated', 200, 1, @cut_rule) ],
	[ '202 that says pending', named('accepted', 202, 1) ],
	[ '204, where a body is asked for', answer(204, runs => 1, @unread_rule) ],
	[ '402, where a 200 is ruled', answer(402) ],
	[ 'lost, then 200 that says succeeded', $lost, named('ok', 200, 1, says => [ 'confirmed', 'outcome_rule' ]) ]);

{
	my @three = (
		{ status => 409, if => '$.code == "in_use"', verdict => 'in_progress', category => 'key_in_use' },
		{ status => 409, if => '$.code == "already_refunded"', verdict => 'confirmed', category => 'already_done' },
		{ status => 409, if => '$.code == "never"', verdict => 'rejected', category => 'conflict', conclusive => JSON::PP::true },
		{ status => 409, if => '$.code == "conflict"', verdict => 'rejected', category => 'conflict' });
	my $in_use = answer(409, body => '{"code": "in_use"}', says => [ 'in_progress', 'key_in_use' ]);
	my $already = answer(409, body => '{"code": "already_refunded"}', says => [ 'confirmed', 'already_done' ]);
	my $never = answer(409, body => '{"code": "never"}', says => [ 'rejected', 'conflict', 'conclusive' ]);
	my $conflict = answer(409, body => '{"code": "conflict"}', says => [ 'rejected', 'conflict' ]);
	my $other = answer(409, body => '{"code": "other"}');

	ruled(\@three,
		[ '409, the key is in use', $in_use ],
		[ '409, already done', answer(409, runs => 1, body => '{"code": "already_refunded"}', says => [ 'confirmed', 'already_done' ]) ],
		[ '409, a conflict', $conflict ],
		[ '409, something else', $other ],
		[ '409 that is no JSON', answer(409, body => 'no', @unread_rule) ],
		[ '409 that is cut off', { at => 'broken' }, broken('cut', 409, 0, @cut_rule) ],
		[ '409 that ends with the connection', { at => 'broken' }, broken('open', 409, 0, @cut_rule) ],
		[ 'lost, then 409, the key is in use', $lost, $in_use ],
		[ 'lost, then 409, already done', $lost, $already ],
		[ 'lost, then 409, a conflict', $lost, $conflict ],
		[ 'lost and not done, then 409, which is conclusive', $dropped, $never ],
		[ 'lost, then 409, something else', $lost, $other ],
		[ 'lost, then 409, in use, then done', $lost, $in_use, $done ]);
}

{
	my $used = '{"name": "DUPLICATE_REQUEST_ID"}';
	ruled([ { status => 400, if => '$.name == "DUPLICATE_REQUEST_ID"', verdict => 'unknown', category => 'key_conflict' } ],
		[ '400, already used', answer(400, runs => 1, body => $used, says => [ 'unknown', 'key_conflict' ]) ],
		[ '400, something else', answer(400, body => '{"name": "INVALID"}') ],
		[ '400 that is no JSON', answer(400, body => 'no', @unread_rule) ],
		[ '400 that is cut off', { at => 'broken' }, broken('cut', 400, 0, @cut_rule) ],
		[ 'lost, then 400, already used', $lost, answer(400, body => $used, says => [ 'unknown', 'key_conflict' ]) ],
		[ 'no answer, then 400, already used', { slow => '3s' }, none('unknown', 'timeout_after_send', 'hang', 1),
			answer(400, body => $used, says => [ 'unknown', 'key_conflict' ]) ]);
}

ruled([ { status => 202, header => 'X-Message-Id', verdict => 'confirmed', category => 'taken' },
		{ status => 202, header => 'X-State: queued', verdict => 'in_progress', category => 'queued' },
		{ status => 202, header => 'x-state:  GONE', verdict => 'rejected', category => 'gone' } ],
	[ '202, final by a header', answer(202, runs => 1, headers => [ 'x-message-id' => 'm-1' ], says => [ 'confirmed', 'taken' ]) ],
	[ '202 without the header', answer(202, runs => 1) ],
	[ '202, queued by a header', answer(202, runs => 1, headers => [ 'X-STATE' => 'Queued' ], says => [ 'in_progress', 'queued' ]) ],
	[ '202, refused by a header', answer(202, headers => [ 'X-State' => 'gone' ], says => [ 'rejected', 'gone' ]) ],
	[ '202 with a header of another value', answer(202, runs => 1, headers => [ 'X-State' => 'queued or so' ]) ],
	[ '500 with the header', answer(500, headers => [ 'X-Message-Id' => 'm-1' ]) ],
	[ 'lost, then 202, final by a header', $lost, answer(202, headers => [ 'X-Message-Id' => 'm-1' ], says => [ 'confirmed', 'taken' ]) ]);

ruled([ { status => 200, if => 'exists($.errors[*]) && exists($.data.refund.id)', verdict => 'unknown', category => 'partial' },
		{ status => 200, if => 'exists($.errors[*])', verdict => 'rejected', category => 'graphql' },
		{ status => 200, if => 'exists($.data.refund.id)', verdict => 'confirmed' } ],
	[ 'GraphQL, errors', answer(200, body => '{"errors": [{"message": "no"}], "data": null}', says => [ 'rejected', 'graphql' ]) ],
	[ 'GraphQL, data', answer(200, runs => 1, body => '{"data": {"refund": {"id": 1}}}', says => [ 'confirmed', 'outcome_rule' ]) ],
	[ 'GraphQL, data and no errors', answer(200, runs => 1, body => '{"errors": [], "data": {"refund": {"id": 1}}}', says => [ 'confirmed', 'outcome_rule' ]) ],
	[ 'GraphQL, data and errors', answer(200, runs => 1, body => '{"errors": [{}], "data": {"refund": {"id": 1}}}', says => [ 'unknown', 'partial' ]) ],
	[ 'GraphQL, neither', answer(200, runs => 1, body => '{"data": {"refund": null}}', @unread_rule) ],
	[ 'GraphQL, 502', answer(502, body => '<html>') ],
	[ 'lost, then GraphQL, errors', $dropped, answer(200, body => '{"errors": [{}]}', says => [ 'rejected', 'graphql' ]) ]);

{
	my $busy = answer(503, headers => [ 'X-Not-Processed' => '1' ], says => [ 'rejected', 'overloaded', 'transient' ]);
	ruled([ { status => 503, header => 'X-Not-Processed', verdict => 'rejected', transient => JSON::PP::true, category => 'overloaded' },
			{ status => '500-504', if => '$.error == "busy"', verdict => 'rejected', transient => JSON::PP::true, category => 'busy' } ],
		[ 'refused for now', $busy ],
		[ 'refused for now, then done', $busy, $done ],
		[ 'refused for now by the body, then done', answer(502, body => '{"error": "busy"}', says => [ 'rejected', 'busy', 'transient' ]), $done ],
		[ 'refused for now, then lost', $busy, $lost ],
		[ 'refused for now, then refused', $busy, answer(402) ],
		[ '503 that does not say it', answer(503, body => '{}') ],
		[ '503 that is no JSON', answer(503, runs => 1, body => '<html>', @unread_rule) ],
		[ '503 that is cut off', { at => 'broken' }, broken('cut', 503, 0, @cut_rule) ],
		[ 'lost, then refused for now, then done', $lost, $busy, $done ],
		[ 'lost and not done, then refused for now, then done', $dropped, $busy, $done ]);
}

{
	my $declined = answer(402, says => [ 'rejected', 'declined', 'conclusive' ]);
	my $object = answer(200, body => '{"status": "failed"}', says => [ 'rejected', 'object_failed', 'conclusive' ]);
	ruled([ { status => 402, verdict => 'rejected', conclusive => JSON::PP::true, category => 'declined' },
			{ status => 200, if => '$.status == "failed"', verdict => 'rejected', conclusive => JSON::PP::true, category => 'object_failed' } ],
		[ 'declined at once', $declined ],
		[ 'lost, then declined, which is conclusive', $dropped, $declined ],
		[ 'no answer, then declined, which is conclusive', { slow => '3s' }, none('unknown', 'timeout_after_send', 'noexec_hang', 0), $declined ],
		[ '500, then an object that failed', answer(500), $object ],
		[ '202, then an object that failed', answer(202), $object ],
		[ 'lost, then refused, which is not conclusive', $dropped, answer(404) ],
		[ 'lost, then done', $lost, $done ]);
}

ruled([ { status => 503, verdict => 'unknown', category => 'stored' }, { status => 402, verdict => 'rejected', category => 'declined' } ],
	[ 'an unknown that is stored ends re-sending', { tries => 5 }, answer(503, runs => 1, says => [ 'unknown', 'stored' ]) ],
	[ 'an unknown that is not stored', { tries => 3 }, answer(503, says => [ 'unknown', 'stored' ]) ],
	[ 'lost, then declined, as a replay', $dropped,
		answer(402, marker => 1, headers => [ 'Idempotent-Replayed' => 'true' ], says => [ 'rejected', 'declined' ]) ],
	[ 'lost, then declined', $dropped, answer(402, says => [ 'rejected', 'declined' ]) ]);

ruled([ { status => '500-502', verdict => 'rejected', category => 'early' }, { status => '4xx', verdict => 'unknown', category => 'doubt' },
		{ status => 201, if => '$.state == "queued"', verdict => 'in_progress', category => 'queued' } ],
	(map { [ "$_ in a range", answer($_, says => [ 'rejected', 'early' ]) ] } 500, 501, 502),
	(map { [ "$_ in a class", { tries => 2 }, answer($_, runs => 1, says => [ 'unknown', 'doubt' ]) ] } 400, 402, 429, 499),
	[ '503 beside a range', answer(503) ],
	[ '399 beside a class', answer(399) ],
	[ '201, queued', answer(201, runs => 1, body => '{"state": "queued"}', says => [ 'in_progress', 'queued' ]) ],
	[ '201, queued, then done', answer(201, body => '{"state": "queued"}', says => [ 'in_progress', 'queued' ]), $done ]);

ruled([ { status => 200, if => '$.a', verdict => 'unknown', category => 'first' }, { status => 200, verdict => 'rejected', category => 'second' },
		{ status => 500, if => '$.id', verdict => 'confirmed', category => 'has_id' }, { status => 429, verdict => 'rejected', category => 'quota' },
		{ verdict => 'confirmed', header => 'X-Done', category => 'by_header' } ],
	(map { [ "the first that holds: $_", answer(200, body => $_, says => [ 'unknown', 'first' ]) ] } '{"a": 1}', '{"a": "no"}', '{"a": {}}', '{"a": true}'),
	(map { [ "the second, when the first does not: $_", answer(200, body => $_, says => [ 'rejected', 'second' ]) ] } '{"a": null}', '{"a": false}', '{}', '3'),
	[ 'not the second, when the first cannot be read', answer(200, body => '{"a": ', @unread_rule) ],
	[ '500 that proves it', answer(500, runs => 1, body => '{"id": "re_5"}', says => [ 'confirmed', 'has_id' ]) ],
	[ '500 that does not', answer(500, runs => 1, body => '{}') ],
	[ '429 for good', { tries => 2 }, answer(429, says => [ 'rejected', 'quota' ]) ],
	[ 'any status, by a header', answer(418, runs => 1, headers => [ 'X-Done' => 'yes' ], says => [ 'confirmed', 'by_header' ]) ]);

# As many names of headers as rules may have, each as long as it may be.
my @long = map { 'X-' . 'Long-' x 11 . "Me$_" } 1 .. 8;
ruled([ map { { status => 200, header => $_, verdict => 'rejected', category => 'by_header' } } @long ],
	map { [ "a header's name, $_", answer(200, headers => [ $_ => 'yes' ], says => [ 'rejected', 'by_header' ]) ] } @long);

ruled([ { status => 200, verdict => 'confirmed', category => 'plain' }, { status => '400-422', verdict => 'rejected', category => 'plain' } ],
	[ 'a cut body that no rule needs', named('truncated', 200, 1, cut => 1, says => [ 'confirmed', 'plain' ]) ],
	[ 'an endless body that no rule needs', named('endless', 200, 1, cut => 1, says => [ 'confirmed', 'plain' ]) ],
	(map { [ "$_ with a cut body that no rule needs", { at => 'broken' }, broken('cut', $_, 0, says => [ 'rejected', 'plain' ]) ] } 400, 409, 422));

# ---------------------------------------------------------------------------
# All of them at once
# ---------------------------------------------------------------------------
sub quoted { return "'" . $_[0] =~ s/'/''/gr . "'"; }
sub text_of { return quoted($json->encode($_[0])); }

# The tool of a cell, made when it is first asked for.
my (%tools, %services, @definitions);
sub tool_of
{
	my ($row, $kind) = @_;
	my %k = %{ $kind{$kind} };
	my $at = $row->{at} eq 'once' ? "once_$kind" : $row->{at};
	my $key = join '|', $at, $kind, map { $json->encode([ $row->{$_} ]) } qw(tries slow base window rules);
	my %options = (
		timeout => $row->{slow} // '60s', connect_timeout => $row->{slow} // '60s',
		retry => { attempts => $row->{tries}, base => $row->{base} // '20ms', cap => '300ms', window => $row->{window} // '1h' },
		$row->{rules} ? (outcome => $row->{rules}) : ());

	return $tools{$key} if $tools{$key};
	$services{"$at $k{honoured}"} //= do
	{
		my %place = %{ $place->{$at} };
		my %service = (
			allow_private => $place{private} // JSON::PP::true, breaker => { failures => 1000 }, limits => { in_flight => 50 },
			idempotency => $k{honoured} ? { window => '24h', replay_header => 'Idempotent-Replayed' } : 'none',
			$place{tls} ? (tls => $place{tls}) : ());
		push @definitions, "SELECT actionledger.create_service('${at}_$k{honoured}', '$place{url}', @{[ text_of(\%service) ]})";
		1;
	};
	$tools{$key} = 'tool_' . keys %tools;
	push @definitions, qq{SELECT actionledger.create_tool('$tools{$key}', '${at}_$k{honoured}', 'POST /$k{mode}/refunds{?do}', '$k{type}',
	  identity => '{cell}', options => @{[ text_of(\%options) ]}, input => '{"required": ["cell", "do", "amount"],
	  "properties": {"cell": {"type": "string"}, "do": {"type": "string"}, "amount": {"type": "integer"}, "pad": {"type": "string"}}}')};
	return $tools{$key};
}

{
	my (%args, @perform);

	for my $row (@rows)
	{
		for my $kind (sort keys %kind)
		{
			my $cell = { row => $row, kind => $kind, name => 'cell-' . @cells };
			my $tool = tool_of($row, $kind);
			$cell->{expected} = [ map { foresee($kind{$kind}, $row, @$_) } $row->{steps}, @{ $row->{or} // [] } ];
			push @{ $args{$tool}{ $row->{pad} // 0 } },
			  { cell => $cell->{name}, amount => scalar @cells, do => join ',', map { $_->{do} } @{ $row->{steps} } };
			push @cells, $cell;
		}
	}
	for my $tool (sort keys %args)
	{
		for my $pad (sort keys %{ $args{$tool} })
		{
			my $more = $pad ? "jsonb_build_object('pad', repeat('x', $pad))" : "'{}'";
			push @perform, "SELECT count(*) FROM actionledger.perform_many('$tool',
			  ARRAY(SELECT args || $more FROM jsonb_array_elements(@{[ text_of($args{$tool}{$pad}) ]}) args))";
		}
	}
	$node->safe_psql('postgres', join ";\n", @definitions);
	$node->safe_psql('postgres', join ";\n", 'BEGIN', @perform, 'COMMIT');
	poll_sql($node, q{SELECT count(*) FILTER (WHERE claimed_by IS NOT NULL OR NOT (status IN ('confirmed', 'failed') OR next_step IN ('review', 'blocked')
	  OR known = 'in_progress' AND window_ends_at > now() + interval '10 min')) = 0 FROM actionledger.action}, 'every action has come to rest', 240);
	turns_pass($node, 2);
}

# ---------------------------------------------------------------------------
# The ledger beside the truth
# ---------------------------------------------------------------------------
my %ledger = map { $_->{identity} => $_ } @{ decode_json($node->safe_psql('postgres', q{
	SELECT jsonb_agg(jsonb_build_object('identity', a.identity, 'id', a.action_id, 'status', a.status, 'next_step', a.next_step, 'error_code', a.error_code,
	  'attempts', (SELECT jsonb_agg(jsonb_build_object('attempt', t.attempt, 'verdict', t.verdict, 'category', t.category, 'sent', t.sent) ORDER BY t.attempt)
	               FROM actionledger.attempt t WHERE t.action_id = a.action_id)))
	FROM actionledger.action a})) };

# { action => { received => { attempt => n }, executed => { attempt => n } } }
sub read_truth
{
	my %truth;

	for my $t (map { truth($_) } @$providers)
	{
		next unless $t->{ev} =~ /^(?:received|executed)$/ && ($t->{action} // '') =~ m{/(\d+)$};
		$truth{$1}{ $t->{ev} }{ $t->{attempt} }++;
	}
	for my $t (raw_truth())
	{
		my ($event, $id, $attempt) = @$t;
		$truth{$id}{$event}{$attempt}++;
	}
	return \%truth;
}

sub total
{
	my ($truth, $id, $event) = @_;
	my $n = 0;
	$n += $_ for values %{ $truth->{$id}{$event} // {} };
	return $n;
}

# What is executed late is executed, too; what never is shows below.
my $truth;
eval {
	poll(sub {
		$truth = read_truth();
		return !grep { total($truth, $ledger{ $_->{name} }{id}, 'executed') < $_->{expected}[0]{executed} } @cells;
	}, 'all that is to be executed is', 20);
};

# What became of a cell, in the words of the foreseen stories.
sub story_of
{
	my ($cell) = @_;
	my $is = $ledger{ $cell->{name} };
	my $attempts = join ', ', map { "$_->{verdict} $_->{category}" } @{ $is->{attempts} // [] };

	# On a kept connection, libcurl tries to send twice what was lost, and is stopped.
	$attempts =~ s/unknown resend_blocked/unknown connection_lost/g if $kind{ $cell->{kind} }{resend};
	return join ', ', $attempts, "$is->{status} $is->{next_step} " . ($is->{error_code} // '-'),
	  map { "$_ " . total($truth, $is->{id}, $_) } 'received', 'executed';
}

# What the ledger says of a cell that the truth does not bear out, or less than could be known.
sub wrongs_of
{
	my ($cell, $foreseen) = @_;
	my $is = $ledger{ $cell->{name} };
	my $type = $kind{ $cell->{kind} }{type};
	my $judged = $type ne 'read_only' && !$foreseen->{lies};
	my $executed = total($truth, $is->{id}, 'executed');
	my %wrong;

	for my $attempt (@{ $is->{attempts} // [] })
	{
		my ($verdict, $n) = @$attempt{qw(verdict attempt)};
		my $proof = $foreseen->{attempts}[ $n - 1 ];
		my ($arrived, $done) = map { $truth->{ $is->{id} }{$_}{$n} } 'received', 'executed';
		$wrong{not_sent} = 1 if $verdict eq 'not_sent' && $arrived;
		$wrong{sent} = 1 if $attempt->{sent} xor $verdict ne 'not_sent';
		$wrong{rejected} = 1 if $verdict eq 'rejected' && $done && $judged;
		$wrong{'needless unknown'} = 1 if $verdict eq 'unknown' && ($proof ? $proof->{verdict} : '') ne 'unknown';
	}
	$wrong{rejected} = 1 if $is->{status} eq 'failed' && $executed && $judged;
	$wrong{confirmed} = 1 if $is->{status} eq 'confirmed' && !$executed && $judged;
	$wrong{'executed twice'} = 1 if $executed > 1 && $type ne 'idempotent';
	$wrong{'needless unknown'} = 1 if $is->{status} eq 'needs_reconciliation' && $foreseen->{then} !~ /^needs_reconciliation/;
	return keys %wrong;
}

my %wrong = map { $_ => [] } 'not_sent', 'sent', 'rejected', 'confirmed', 'executed twice', 'needless unknown';
my (%count, %got, %want);
for my $cell (@cells)
{
	my $is = $ledger{ $cell->{name} };
	my @attempts = @{ $is->{attempts} // [] };
	my $story = story_of($cell);
	my ($foreseen) = grep { $_->{story} eq $story } @{ $cell->{expected} };

	$foreseen //= $cell->{expected}[0];
	$got{ $cell->{row}{name} }{ $cell->{kind} } = $story;
	$want{ $cell->{row}{name} }{ $cell->{kind} } = $foreseen->{story};
	push @{ $wrong{$_} }, "$cell->{row}{name}, $cell->{kind}: $story" for wrongs_of($cell, $foreseen);
	$count{$_}++ for "status $is->{status}", map { ('attempts', "verdict $_->{verdict}") } @attempts;
	$count{lies}++ if $foreseen->{lies};
	$count{'unknown, and never received'} += grep { $_->{verdict} eq 'unknown' && !$truth->{ $is->{id} }{received}{ $_->{attempt} } } @attempts;
}

is_deeply($got{ $_->{name} }, $want{ $_->{name} }, $_->{name}) for @rows;
{
	my $rules = $json->encode([ map { { header => $_, verdict => 'confirmed' } } @long, 'X-One-More' ]);
	my (undef, undef, $error) = $node->psql('postgres', qq{SELECT actionledger.alter_tool('tool_0', '{"outcome": $rules}')});
	like($error, qr/the rules name more than 8 headers/, 'more names of headers than can be kept are refused');
}
cmp_ok(scalar @cells, '>=', 300, scalar(@cells) . ' cells');
for my $kind (sort keys %wrong)
{
	is(scalar @{ $wrong{$kind} }, 0, "wrong $kind: none") or diag(join "\n", @{ $wrong{$kind} });
}
note("figures: rows: @{[ scalar @rows ]}, cells: @{[ scalar @cells ]}, attempts: $count{attempts}");
note("figures: wrong $_: @{[ scalar @{ $wrong{$_} } ]}") for sort keys %wrong;
note("figures: cells in which the provider lies (left out of wrong rejected and wrong confirmed): $count{lies}");
note("figures: $_: $count{$_}") for sort grep { /^(verdict|status|unknown)/ } keys %count;

$node->stop;
done_testing();
