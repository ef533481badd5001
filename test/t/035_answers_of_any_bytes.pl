# Whatever bytes an answer has, the dispatcher lives, and an action comes to what
# the tool's outcome rules say of them: never to confirmed or failed by a body
# that could not be read to its end.
#
# What the rules say is worked out beside the dispatcher, in SQL, from the bytes
# that the server here sent.  SEED=n repeats a run, AL_FUZZ_ANSWERS=n makes it longer.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Fuzz;
use Ledger;

use constant DEEP => 40_000;

my $n_answers = $ENV{AL_FUZZ_ANSWERS} // 1200;
my $seed = fuzz_seed();

# ---------------------------------------------------------------------------
# Bodies
# ---------------------------------------------------------------------------
# JSON as a service would answer it, with what the rules look at.
sub telling
{
	my @members;
	push @members, [ 'ok', pick([ 'b', 1 ], [ 'b', 1 ], [ 'b', 0 ], ['z'], random_value(2)) ] if chance(70);
	push @members, [ 'error', pick([ 'b', 0 ], ['z'], random_value(2)) ] if chance(40);
	push @members, [ 'state', pick([ 's', 'done' ], [ 's', 'busy' ], random_scalar()) ] if chance(40);
	push @members, [ 'id', pick([ 's', random_text(400) ], random_number(), random_value(2)) ] if chance(80);
	push @members, [ 'more', random_value(4) ] if chance(30);
	push @members, $members[0] if @members && chance(10);
	return to_utf8(to_json([ 'o', \@members ]));
}

# What has broken a reader of JSON somewhere.
sub nasty
{
	my $id = '"id":"x","ok":true';
	return pick(
		sub { '[' x DEEP }, sub { '[' x DEEP . ']' x DEEP }, sub { '{"a":' x (DEEP / 2) }, sub { '{"a":' x 2000 . '1' . '}' x 2000 },
		sub { "{$id,\"more\":" . '[' x 500 . ']' x 500 . '}' },
		sub { "{\"ok\":true,\"id\":1e" . pick(400, 16_000, 130_000, 131_072, 1_000_000_000) . '}' }, sub { '{"ok":true,"id":' . '9' x 5000 . '}' },
		sub { '{"ok":true,"id":-0.' . '0' x 20_000 . '1}' }, sub { '{"ok":true,"id":1e-' . pick(300, 16_383, 20_000) . '}' },
		sub { '{"ok":true,"id":"\u0000"}' }, sub { '{"ok":true,"\u0000":1}' }, sub { "{$id}\0" }, sub { "\0{$id}" },
		sub { '{"ok":true,"id":"\ud800"}' }, sub { '{"ok":true,"id":"\ude00\ud83d"}' }, sub { '{"ok":true,"id":"\ud83d\ude00"}' },
		sub { "{$id,\"x\":\"\xff\xfe\"}" }, sub { "{$id,\"x\":\"\xed\xa0\x80\"}" }, sub { "{$id,\"x\":\"\xc0\x80\"}" }, sub { "{$id,\"x\":\"\xf4\x90\x80\x80\"}" },
		sub { "\xef\xbb\xbf{$id}" }, sub { join "\0", '', split //, "{$id}" }, sub { "{$id,\"ok\":false}" }, sub { "{\"ok\":false,$id}" },
		sub { '{"ok":true,"id":"' . "\xe2\x82\xac" x 200 . '"}' }, sub { '{"ok":true,"id":""}' }, sub { '{"ok":true,"id":"' . 'x' x 200_000 . '"}' },
		sub { "{$id,\"" . 'k' x 100_000 . '":1}' }, sub { "{$id," . join(',', map { qq("k$_":$_) } 1 .. 5000) . '}' }, sub { "{$id,\"pad\":\"" . 'y' x 300_000 . '"}' },
		sub { '' }, sub { ' ' x 1000 }, sub { 'null' }, sub { 'true' }, sub { '"ok"' }, sub { '[{"ok":true}]' }, sub { '{"ok":"true"}' }, sub { '{"OK":true}' },
		sub { "{$id}{$id}" }, sub { "{$id}," }, sub { "{$id" }, sub { "{'ok':true}" }, sub { '{"ok":NaN}' }, sub { '{"ok":true,}' }, sub { "// x\n{$id}" },
		sub { '{"ok":[true,false]}' }, sub { '{"ok":{"ok":true}}' }, sub { '<html><body>OK</body></html>' })->();
}

# ---------------------------------------------------------------------------
# Answers: { head, sent, whole => whether the end of the body is told and came, body => what came of it }
# ---------------------------------------------------------------------------
sub chunked
{
	my ($body) = @_;
	my $out = '';
	while (length $body)
	{
		my $chunk = substr $body, 0, 1 + int rand 5000, '';
		$out .= sprintf("%x\r\n", length $chunk) . "$chunk\r\n";
	}
	return $out;
}

sub framed
{
	my ($body) = @_;
	my $len = length $body;
	my $how = int rand 100;
	return ("Content-Length: $len", $body, 1, $body) if $how < 65;
	return ('Transfer-Encoding: chunked', chunked($body) . "0\r\n\r\n", 1, $body) if $how < 75;
	return ('Content-Length: ' . ($len + 1 + int rand 1000), $body, 0, $body) if $how < 82;
	if ($how < 87)
	{
		my $part = substr $body, 0, int rand($len + 1);
		return ('Content-Length: ' . length($part), $body, 1, $part);
	}
	return ('X-Length: none', $body, 0, $body) if $how < 92;
	return ('Transfer-Encoding: chunked', chunked($body), 0, $body) if $how < 96;
	return ('Transfer-Encoding: chunked', chunked($body) . "a\r\nhalf", 0, "${body}half") if $how < 98;
	return ('Transfer-Encoding: chunked', chunked($body) . pick('zz', "\xff", '-1', 'fffffffffffffffff') . "\r\n", 0, $body);
}

sub answer
{
	my $how = int rand 100;
	my $body = $how < 45 ? telling() : $how < 70 ? mutate(telling()) : $how < 93 ? nasty() : random_bytes(pick(1, 20, 3000));
	my $status = chance(60) ? 200 : pick(201, 202, 202, 203, 400, 404, 409, 422, 429, 500, 503);
	my ($line, $sent, $whole, $got) = framed($body);
	my $note = random_bytes(40) =~ s/[\r\n\0]/?/gr;
	my $later = pick('0', '1', '99999999999999999999999', '-1', 'Sun, 06 Nov 2094 08:49:37 GMT', 'Fri, 30 Feb 2029 00:00:00 GMT', random_bytes(10) =~ s/[\r\n\0]/?/gr);
	my $head = "HTTP/1.1 $status OK\r\nLocation: $note\r\nRetry-After: $later\r\n$line\r\nConnection: close\r\n\r\n";
	return { status => $status, sent => "$head$sent", whole => $whole, body => $got };
}

my @answers = map { answer() } 1 .. $n_answers;

# ---------------------------------------------------------------------------
# The server, and a tool with rules for several statuses
# ---------------------------------------------------------------------------
my $server = start_raw_server(
	sub {
		my ($c) = @_;
		my $request = '';
		while ($request !~ /\r\n\r\n.*\}/s) { sysread $c, $request, 4096, length $request or last; }
		my ($n) = $request =~ m{^POST /answer/(\d+) };
		my $left = $answers[$n]{sent};
		while (length $left)
		{
			my $done = syswrite $c, $left;
			last unless $done;
			substr $left, 0, $done, '';
		}
		shutdown $c, 1;
		1 while sysread $c, my $rest, 4096;
	});
my $node = start_server();
my $pid;

$node->safe_psql('postgres', <<"SQL");
SELECT actionledger.create_service('any', '$server->{url}', '{"allow_private": true, "idempotency": "none", "limits": {"in_flight": 20}, "breaker": {"failures": 1000}}');
SELECT actionledger.create_tool('any', 'any', 'POST /answer/{n}', input => '{"properties": {"n": {"type": "integer"}}}', identity => 'answer:{n}',
  options => '{"timeout": "30s", "external_ref": "\$.id", "result": "\$", "retry": {"attempts": 1}, "outcome": [
    {"status": "2xx", "if": "\$.ok == true", "verdict": "confirmed"},
    {"status": "2xx", "if": "\$.error", "verdict": "rejected"},
    {"status": 409, "if": "\$.state ? (@ == \\"done\\")", "verdict": "confirmed"},
    {"status": 422, "if": "\$.more.**", "verdict": "rejected", "transient": true},
    {"status": 404, "verdict": "unknown"}]}');
SQL
$pid = pid_of_dispatcher($node);
$node->safe_psql('postgres', "SELECT count(*) FROM actionledger.perform_many('any', ARRAY(SELECT jsonb_build_object('n', i) FROM generate_series(0, $n_answers - 1) i))");

# ---------------------------------------------------------------------------
# What has to come of it
# ---------------------------------------------------------------------------
my $rows = join ",\n", map { "($_, $answers[$_]{status}, $answers[$_]{whole}::bool, '\\x" . unpack('H*', $answers[$_]{body}) . "')" } 0 .. $#answers;
$node->safe_psql('postgres', <<"SQL");
CREATE TABLE answers (n int PRIMARY KEY, status int, whole bool, body bytea);
INSERT INTO answers VALUES $rows;

-- The body as JSON, NULL for one that is none or has not come to its end.  What is kept of a body has a limit.
CREATE FUNCTION document(a answers) RETURNS jsonb LANGUAGE plpgsql AS \$f\$
BEGIN
  RETURN CASE WHEN a.whole AND octet_length(a.body) <= 256 * 1024 THEN convert_from(a.body, 'UTF8')::jsonb END;
EXCEPTION WHEN OTHERS THEN
  RETURN NULL;
END \$f\$;
CREATE FUNCTION holds(document jsonb, path jsonpath) RETURNS bool LANGUAGE sql AS \$f\$
  SELECT CASE jsonb_typeof(v) WHEN 'boolean' THEN v::bool WHEN 'null' THEN false ELSE v IS NOT NULL END FROM jsonb_path_query_first(document, path, '{}', true) v;
\$f\$;
CREATE FUNCTION outcome(a answers, d jsonb) RETURNS text LANGUAGE sql AS \$f\$
  SELECT CASE
    WHEN a.status IN (409, 422) AND d IS NULL OR a.status < 300 AND d IS NULL THEN 'needs_reconciliation'
    WHEN a.status < 300 AND holds(d, '\$.ok == true') THEN 'confirmed'
    WHEN a.status < 300 AND holds(d, '\$.error') THEN 'failed'
    WHEN a.status = 202 THEN 'submitted'
    WHEN a.status < 300 THEN 'needs_reconciliation'
    WHEN a.status = 409 AND holds(d, '\$.state ? (@ == "done")') THEN 'confirmed'
    WHEN a.status IN (409, 422, 429) THEN 'failed'
    WHEN a.status = 400 AND a.whole AND octet_length(a.body) <= 256 * 1024 THEN 'failed'
    ELSE 'needs_reconciliation' END;
\$f\$;
CREATE TABLE expected AS
  SELECT n, outcome(a, d) AS outcome, d AS document, jsonb_path_query_first(d, '\$.id', '{}', true) AS id FROM answers a, document(a) d;
SQL

poll_sql($node, q{SELECT count(*) = 0 FROM actionledger.action
  WHERE claimed_by IS NOT NULL OR attempts = 0 OR NOT (status IN ('confirmed', 'failed', 'needs_reconciliation') OR status = 'submitted' AND next_step = 'wait')},
	'every answer is judged', 120 + $n_answers / 20);
is(pid_of_dispatcher($node), $pid, "seed $seed: the dispatcher lives");

my $joined = q{actionledger.action a JOIN expected e ON e.n = (a.args ->> 'n')::int};
is($node->safe_psql('postgres', "SELECT e.n, a.status, e.outcome FROM $joined WHERE a.status::text <> e.outcome ORDER BY e.n LIMIT 10"), '',
	"seed $seed: every action comes to what the rules say of its answer");
is($node->safe_psql('postgres', <<"SQL"), '', "seed $seed: a confirmed action's result is the document, another has none");
SELECT e.n, left(a.result::text, 100) FROM $joined WHERE a.result IS DISTINCT FROM CASE WHEN a.status = 'confirmed' THEN document END LIMIT 10
SQL
is($node->safe_psql('postgres', <<"SQL"), '', "seed $seed: a confirmed action's reference is the document's, as far as it is kept");
SELECT e.n, left(a.external_ref, 100), left(id::text, 100) FROM $joined,
  LATERAL (SELECT CASE WHEN jsonb_typeof(id) IN ('string', 'number') THEN nullif(id #>> '{}', '') END AS ref) r
WHERE a.status = 'confirmed' AND NOT coalesce(CASE WHEN octet_length(ref) <= 255 THEN a.external_ref = ref
  ELSE starts_with(ref, a.external_ref) AND octet_length(a.external_ref) BETWEEN 252 AND 255 END, a.external_ref IS NULL AND ref IS NULL) LIMIT 10
SQL
is($node->safe_psql('postgres', 'SELECT count(*) FROM actionledger.attempt WHERE NOT sent OR verdict IS NULL OR attempt > 1'), '0', "seed $seed: one attempt each, and a verdict");
is($node->safe_psql('postgres', 'SELECT count(retry_after_s) > 0, min(retry_after_s) FROM actionledger.attempt'), 't|0', "seed $seed: no Retry-After becomes less than none");
is($node->safe_psql('postgres', <<"SQL"), '0', "seed $seed: the bytes are kept as they came");
SELECT count(*) FROM $joined JOIN actionledger.attempt t USING (action_id) JOIN answers s ON s.n = e.n
WHERE t.body IS DISTINCT FROM nullif(substr(s.body, 1, 256 * 1024), '')
SQL
is($node->safe_psql('postgres', 'SELECT count(actionledger.result(action_id)::text) FROM actionledger.action'), $n_answers, "seed $seed: every envelope can be shown");
cmp_ok($node->safe_psql('postgres', 'SELECT (SELECT count(v::text) FROM actionledger.attempts v) + (SELECT count(v::text) FROM actionledger.timeline v)'),
	'>=', $n_answers, "seed $seed: so can the views");

# A run in which something hardly came shows nothing.
my %least = (confirmed => 20, failed => 20, needs_reconciliation => 20, submitted => 1);
for my $status (sort keys %least)
{
	my $n = $node->safe_psql('postgres', "SELECT count(*) FROM expected WHERE outcome = '$status'");
	cmp_ok($n, '>=', $least{$status}, "seed $seed: $n answers lead to $status");
}
unlike(slurp_log($node), qr/PANIC|terminated by signal|exited with exit code/, "seed $seed: no process ended badly");

sub slurp_log
{
	my ($of) = @_;
	open my $file, '<', $of->logfile or die "could not open the log: $!";
	local $/;
	return <$file>;
}

done_testing();
