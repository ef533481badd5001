# What strangers write (callers, agents, endpoints, imported definitions) forges no
# line of the server's log and none of a message, and moves no terminal: by every
# way that leads into a message.
use strict;
use warnings;
use utf8;
use Encode qw(decode);
use Test::More;
use lib 'test/lib';
use Ledger;
use PostgreSQL::Test::Utils;

my $p = start_provider();
my $node = start_server(conf => "log_line_prefix = '%m [%p] '\nlog_error_verbosity = verbose\nlog_min_messages = debug1");
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };

# The end of a line, then what looks like another one; then what a terminal obeys:
# an escape sequence, a carriage return, C1, a line separator, an override of the direction.
my $forged = '2026-01-01 00:00:00.000 UTC [1] LOG:  00000: forged';
my $json = "x\\r\\n$forged\\u001b[2J\\u009b1A\\u2028$forged\\u202egnihton\\u007f";	# within a JSON string
my $obeyed = qr/[\x00-\x08\x0b-\x1f\x7f-\x9f\x{061c}\x{200e}\x{200f}\x{2028}-\x{202e}\x{2066}-\x{2069}]/;
my $text = "E'$json'";

refund_service($node, $p);
refund_tool($node);
refund_tool($node, name => 'noted', options => '"headers": {"X-Note": "{refund_id}"}');
pid_of_dispatcher($node);
my $held = do { $sql->(q{SELECT actionledger.pause_tool('refund', 'x')}); perform($node, 'refund', 'held') };
my $args = qq('{"refund_id": "a", "amount": 1}');

# Each is refused, or warned of, in a message that has the text in it.
my @ways = (
	[ 'the name of a tool', "SELECT * FROM actionledger.perform($text, $args)" ],
	[ 'the name of an argument', qq(SELECT * FROM actionledger.perform('refund', '{"refund_id": "a", "amount": 1, "$json": 2}')) ],
	[ 'the value of an argument', qq(SELECT * FROM actionledger.perform('refund', '{"refund_id": "a", "amount": "$json"}')) ],
	[ 'an option of perform', qq(SELECT * FROM actionledger.perform('refund', $args, options => '{"$json": 2}')) ],
	[ 'the value of an option of perform', qq(SELECT * FROM actionledger.perform('refund', $args, options => '{"priority": "$json"}')) ],
	[ 'a service and an identity that are asked for', "SELECT actionledger.result_by_identity($text, $text)" ],
	[ 'a verdict', "SELECT actionledger.report_outcome($held, $text, '{\"a\": 1}')" ],
	[ 'an outcome', "SELECT actionledger.resolve($held, $text, '{}', 'x')" ],
	[ 'an expected status', "SELECT actionledger.resolve($held, 'failed', '{}', 'x', expected_status => $text)" ],
	[ 'the name of a tool to pause', "SELECT actionledger.pause_tool($text, 'x')" ],
	[ 'the name of a service to resume', "SELECT actionledger.resume_service($text, 'x')" ],
	[ 'what to pause', "SELECT actionledger.pause_all('x', $text)" ],
	[ 'the reason of a pause', "SELECT actionledger.pause_tool('refund', $text);
		SELECT * FROM actionledger.perform('refund', $args, options => '{\"if_unavailable\": \"refuse\"}')" ],
	[ 'the name of a service', "SELECT actionledger.create_service(E'x\\nforged\\u001b', 'http://a.test')" ],
	[ 'an option of a service', qq(SELECT actionledger.create_service('a', 'http://a.test', '{"$json": 1}')) ],
	[ 'a header of a service', qq(SELECT actionledger.create_service('a', 'http://a.test', '{"headers": {"$json": 1}}')) ],
	[ 'the name of a new tool', "SELECT actionledger.create_tool(E'x\\nforged\\u001b', 'pay', 'POST /')" ],
	[ 'the service of a tool', "SELECT actionledger.create_tool('a', $text, 'POST /')" ],
	[ 'the owner of a tool', qq(SELECT actionledger.create_tool('a', 'pay', 'POST /', options => '{"owner": "$json"}')) ],
	[ 'the approver of a tool', qq(SELECT actionledger.create_tool('a', 'pay', 'POST /', options => '{"approval": {"if": "\$.a > 1", "by": "$json"}}')) ],
	[ 'the check of a tool', qq(SELECT actionledger.create_tool('a', 'pay', 'POST /', options => '{"check_function": "$json"}')) ],
	[ 'a keyword of a schema', qq(SELECT actionledger.create_tool('a', 'pay', 'POST /', input => '{"properties": {"$json": {"type": "$json"}}}')) ],
	[ 'the name of a tool to alter', "SELECT actionledger.alter_tool($text, '{}')" ],
	[ 'a role to grant to', "SELECT actionledger.grant_tool('refund', $text)" ],
	[ 'a role to assign to', "SELECT actionledger.assign($held, $text)" ],
	[ 'the name of a tool to redrive', "SELECT actionledger.redrive($text, NULL, NULL, 'x')" ],
	[ 'a format of tools', "SELECT actionledger.tool_specs($text)" ],
	[ 'a way to resume', "SELECT actionledger.resume_dispatch($text, 'x')" ],
	[ 'the name of a tool to claim', "SELECT actionledger.claim($text, 1, '1s')" ],
	[ 'the name of an imported tool', qq(SELECT actionledger.import_mcp_tools('{"tools": [{"name": "$json", "inputSchema": {"type": "object"}}]}', 'pay', '{"all_or_nothing": true}')) ],
	[ 'an argument of an imported tool', qq(SELECT actionledger.import_mcp_tools('{"tools": [{"name": "a", "inputSchema": {"type": "object", "properties": {"$json": {}}}}]}', 'pay', '{"all_or_nothing": true}')) ],
	[ 'an option of an import', qq(SELECT actionledger.import_mcp_tools('{"tools": []}', 'pay', '{"$json": true}')) ],
	[ 'what a check says', qq(SELECT * FROM actionledger.perform('checked', $args)) ]);
$sql->(qq{CREATE FUNCTION public.says(jsonb, jsonb) RETURNS jsonb LANGUAGE sql AS \$\$SELECT jsonb_build_object('code', 'no', 'message', $text)\$\$});
refund_tool($node, name => 'checked', options => '"check_function": "public.says"');
for my $way (@ways)
{
	my ($words, $statement) = @$way;
	my $err = '';
	$node->psql('postgres', $statement, stderr => \$err, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	$err = decode('UTF-8', $err);
	like($err, qr/forged/, "$words: it is said") or diag($statement);
	unlike($err, $obeyed, "$words: and nothing in it is obeyed");
	unlike($err, qr/^\Q$forged/m, "$words: nor is it a line of its own");
}

# The words that callers get.
my @words = (
	[ 'an envelope of a refusal', "SELECT actionledger.try_perform($text, $args) #>> '{meta,observation}'" ],
	[ 'an envelope of a pause', qq(SELECT actionledger.try_perform('refund', '{"refund_id": "b", "amount": 1}') #>> '{meta,observation}') ],
	[ 'an imported tool that is refused', qq(SELECT tool || ': ' || message FROM actionledger.import_mcp_tools('{"tools": [{"name": "$json", "inputSchema": {"type": "object"}}]}', 'pay')) ],
	[ 'a summary', "SELECT summary FROM actionledger.actions WHERE identity = 'mine'" ],
	[ 'the story of an action', "SELECT explain FROM actionledger.explain($held)" ]);
$sql->(qq{SELECT count(*) FROM actionledger.perform('refund', '{"refund_id": "$json", "amount": 1}', identity => 'mine')});
$sql->(qq{SELECT count(*) FROM actionledger.report_outcome($held, 'unknown', '{"external_ref": "$json", "note": "$json"}')});
for my $way (@words)
{
	my ($words, $statement) = @$way;
	my $out = decode('UTF-8', $sql->($statement));
	like($out, qr/forged/, "$words: it is said") or diag($out);
	unlike($out, $obeyed, "$words: and nothing in it is obeyed");
	unlike($out, qr/^\Q$forged/m, "$words: nor is it a line of its own");
}

# What the dispatcher has to say: answers whose reference a trigger quotes, and an
# action that a trigger does not let it claim.
my $bytes = qq({"id": "$json"});
my $raw = start_raw_server(
	sub {
		my ($c) = @_;
		my $request = '';
		while ($request !~ /\r\n\r\n.*\}/s) { sysread $c, $request, 4096, length $request or last; }
		my $answer = "HTTP/1.1 200 OK\x1b[2J\r\nLocation: \x1b[2J\x9b1A\rx\r\nContent-Length: " . length($bytes) . "\r\n\r\n$bytes";
		syswrite $c, $answer;
		shutdown $c, 1;
		1 while sysread $c, my $rest, 4096;
	});
$sql->(q{CREATE FUNCTION quoting() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	said text := CASE TG_TABLE_NAME WHEN 'action' THEN to_jsonb(NEW) ->> 'external_ref'
		ELSE (SELECT a.args ->> 'refund_id' FROM actionledger.action a WHERE a.action_id = NEW.action_id AND a.identity = 'claim') END;
BEGIN
	IF said LIKE '%forged%' THEN RAISE EXCEPTION 'quoted: %', said USING DETAIL = said, HINT = said; END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER quoting BEFORE UPDATE ON actionledger.action FOR EACH ROW EXECUTE FUNCTION quoting();
CREATE TRIGGER quoting BEFORE INSERT ON actionledger.attempt FOR EACH ROW EXECUTE FUNCTION quoting()});
refund_service($node, $raw, name => 'raw', honoured => 0);
refund_tool($node, name => 'raw', service => 'raw', request => 'POST /{refund_id}');
my $answered = perform($node, 'raw', 'answered');
my $logged = sub { return decode('UTF-8', slurp_file($node->logfile)) };
poll(sub { my @n = $logged->() =~ /ERROR:.*quoted: x/g; @n >= 1 }, 'the answer was quoted');
refund_tool($node, name => 'plain', request => 'POST /keyed/refunds');
my $unclaimed = $sql->(qq{SELECT action_id FROM actionledger.perform('plain', '{"refund_id": "$json", "amount": 1}', identity => 'claim')});
my $row = settle($node, $unclaimed, 'prepared', 'blocked', 60);
like($row->{error_message}, qr/it could not be claimed: quoted: x\\r\\n/, 'why it is blocked is one line, in which the ends of lines are visible');
unlike($row->{error_message}, $obeyed, 'and nothing is obeyed');
$sql->('DROP TRIGGER quoting ON actionledger.action; DROP TRIGGER quoting ON actionledger.attempt');
settle($node, $answered, 'confirmed', undef, 90);
pass('without the trigger the answer is recorded');

# The log, as a whole.
$node->stop;
my $log = $logged->();
my @lines = split /\n/, $log, -1;
pop @lines;
my @strange = grep { !/^(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \S+ \[\d+\] |\t)/ } @lines;
is(join("\n", @strange), '', 'each line begins with the prefix of the server, or goes on');
is(join("\n", grep { /^\t*\Q$forged/ } @lines), '', 'none was forged: ' . scalar(@lines));
is(join("\n", grep { $_ =~ $obeyed } @lines), '', 'nothing in it is obeyed by a terminal');
my @told = grep { /forged/ } @lines;
cmp_ok(scalar @told, '>', scalar @ways, 'what was tried stands in it: in ' . scalar(@told) . ' lines');
cmp_ok(scalar(grep { /\[\d+\] (?:ERROR|DETAIL|HINT):.*quoted|actionledger: action \d+ is put away.*forged/ } @told), '>=', 3, 'what the dispatcher has said among it');
done_testing();
