# What an operator decides is what the provider sees: a send by decision goes out
# once, with the same key and bytes; redrive does what its dry run said.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;
use PostgreSQL::Test::Utils;

my $p = start_provider();
my $node = start_server();
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };
my $refused = sub {
	my ($rc, undef, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$_[0]");
	return $err =~ /(LG\d\d\d)/ ? $1 : 'none';
};
refund_service($node, $p, name => 'plain', honoured => 0);
refund_service($node, $p);
refund_tool($node, name => 'book', service => 'plain', mode => 'unkeyed', do => 'close,ok', options => '"max_processing": "2s"', timeout => '1s');
refund_tool($node, name => 'again', service => 'plain', mode => 'unkeyed', do => 'close,close,ok', options => '"max_processing": "100ms"', timeout => '1s');
refund_tool($node, name => 'shut', service => 'plain', mode => 'unkeyed', do => 'close', options => '"max_processing": "100ms"', timeout => '1s');

# An unknown outcome without a key: only a person can send it again.
my $id = perform($node, 'book', 'book');
settle($node, $id, 'needs_reconciliation', 'review');
is($refused->("SELECT actionledger.retry($id, 'lost')"), 'LG012', 'retry does not send it again');
is($refused->("SELECT actionledger.retry($id, 'lost', force => true)"), 'LG012', 'nor does force while it may still be executed');
like($sql->("SELECT array_to_string(allowed, ',') FROM actionledger.review_queue WHERE action_id = $id"), qr/^resolve,assign$/, 'and the queue does not say that it would');
poll_sql($node, "SELECT 'retry force' = ANY (allowed) FROM actionledger.review_queue WHERE action_id = $id", 'the max processing time is over');
my $lower = $sql->("SELECT clock_timestamp() >= last_sent_at + interval '3 s' FROM actionledger.action WHERE action_id = $id");
is($lower, 't', 'which is not before timeout and max processing time');
is(scalar(received($p, $id)), 1, 'so far it was sent once');
like($sql->("SELECT message FROM actionledger.retry($id, 'their log does not have it', force => true)"), qr/by your decision.*may happen a second time/, 'forced, it is sent once more');
my $row = settle($node, $id, 'confirmed');
is("$row->{sends} " . scalar(received($p, $id)), '2 2', 'once');
my @received = received($p, $id);
is($received[0]{body_sha256}, $received[1]{body_sha256}, 'with the same bytes');
is($row->{idempotency_key}, $sql->("SELECT idempotency_key FROM actionledger.actions WHERE action_id = $id"), 'and the same key');
is($sql->("SELECT by_whom || ': ' || note FROM actionledger.event WHERE action_id = $id AND what = 'override'"),
	$sql->('SELECT current_user') . ': their log does not have it', 'who has decided and why is on record');

# A decision is for one send.
$id = perform($node, 'again', 'again');
settle($node, $id, 'needs_reconciliation', 'review');
poll_sql($node, "SELECT 'retry force' = ANY (allowed) FROM actionledger.review_queue WHERE action_id = $id", 'it may be forced');
$sql->("SELECT actionledger.retry($id, 'once', force => true)");
poll_sql($node, "SELECT sends = 2 AND next_step = 'review' FROM actionledger.action WHERE action_id = $id", 'it was sent again, and is open again');
turns_pass($node, 3);
is(scalar(received($p, $id)), 2, 'one decision, one send');
is(action_row($node, $id)->{overridden}, JSON::PP::false, 'it is used up');
poll_sql($node, "SELECT 'retry force' = ANY (allowed) FROM actionledger.review_queue WHERE action_id = $id", 'it may be forced again');
$sql->("SELECT actionledger.pause_tool('again', 'wait')");
like($sql->("SELECT message FROM actionledger.retry($id, 'twice', force => true)"), qr/goes out when the pause is lifted/, 'a pause holds a decision as well');
$sql->("SELECT actionledger.cancel($id, 'no')");
$sql->("SELECT actionledger.resume_tool('again', 'go')");
settle($node, $id, 'needs_reconciliation', 'review');
turns_pass($node, 3);
is(scalar(received($p, $id)), 2, 'and a cancel takes it back');

# Twelve that wait for a secret, three that are unknown: redrive sends the twelve.
$sql->(qq{SELECT actionledger.create_service('sealed', '$p->{url}', '{"allow_private": true, "auth": {"bearer": "{secret:seal}"}, "idempotency": {"window": "24h"}}')});
refund_tool($node, name => 'sealed', service => 'sealed');
$sql->(q{SELECT count(*) FROM actionledger.perform_many('sealed', ARRAY(SELECT jsonb_build_object('refund_id', 'S-' || n, 'amount', n) FROM generate_series(1, 12) n))});
my @unknown = map { perform($node, 'shut', "shut-$_") } 1 .. 3;
settle($node, $_, 'needs_reconciliation', 'review') for @unknown;
poll_sql($node, q{SELECT count(*) = 12 FROM actionledger.pending WHERE tool = 'sealed' AND next_step = 'blocked'}, 'they are blocked');
$sql->(q{SELECT actionledger.set_secret('seal', 'k')});
my $dry = $sql->(q{SELECT string_agg(concat_ws('|', action_id, verb, will), ';') FROM actionledger.redrive(NULL, NULL, NULL, 'set')});
is(scalar(split /;/, $dry), 12, 'the dry run shows them, and none that is not safe');
turns_pass($node, 2);
is($sql->(q{SELECT count(*) FROM actionledger.pending WHERE next_step = 'blocked'}), 12, 'and changes nothing');
is($sql->(q{SELECT string_agg(concat_ws('|', action_id, verb, will), ';') FROM actionledger.redrive(NULL, NULL, NULL, 'set', dry_run => false)}), $dry, 'the real run does the same');
poll_sql($node, q{SELECT count(*) = 12 FROM actionledger.actions WHERE tool = 'sealed' AND status = 'confirmed'}, 'all are confirmed');
is(scalar(grep { scalar(received($p, $_)) != 1 } @unknown), 0, 'what was unknown was not sent again');
is($sql->(q{SELECT count(*) FROM actionledger.redrive(NULL, NULL, NULL, 'again', dry_run => false)}), 0, 'nothing is left to do');

# A decision while the answer is on its way: the answer is kept, and contradicts nothing silently.
refund_tool($node, name => 'slow', do => 'held:1', timeout => '60s');
$id = perform($node, 'slow', 'slow');
poll(sub { received($p, $id) }, 'it has arrived');
$sql->("SELECT actionledger.resolve($id, 'failed', '{}', 'they say that it will not happen', expected_status => 'submitted', force => true)");
release($p, 1);
poll_sql($node, "SELECT finished_at IS NOT NULL FROM actionledger.attempt WHERE action_id = $id", 'the answer is recorded');
is(action_row($node, $id)->{status}, 'failed', 'what was decided stays');
is($sql->("SELECT string_agg(says::text, ',') FROM actionledger.conflicts WHERE action_id = $id"), 'confirmed', 'and the answer is shown as a conflict');
my $story = $sql->("SELECT string_agg(l, E'\\n') FROM actionledger.explain($id) l");
like($story, qr/Not known: who is right/, 'explain says so');
like($story, qr/acknowledge\($id/, 'and what to do');
$node->stop;
done_testing();
