# The key stands for another request at the destination.  What became of ours is
# unknown, and sending it again can teach nothing: a rule with the category
# key_mismatch ends that at once, first or later, and says so in an event.
use strict;
use warnings;
use IO::Socket::INET;
use Ledger;
use Test::More;

my $node = start_server();
my $p = start_provider();
my $rule = '"outcome": [{"status": 422, "if": "$.error.code == \"idempotency_key_mismatch\"", "verdict": "unknown", "category": "key_mismatch"}]';
my $other = $rule =~ s/key_mismatch"\}/key_odd"}/r;

refund_service($node, $p);
refund_tool($node, name => 'first', options => $rule);
refund_tool($node, name => 'later', do => 'ok,close_before,ok', options => $rule);
refund_tool($node, name => 'other', options => $other);
refund_tool($node, name => 'refused', options => $rule);

# Another request with the key of an action that waits.
sub use_key
{
	my ($id) = @_;
	my $row = action_row($node, $id);
	my $body = '{"amount":1,"who":"somebody else"}';
	my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $p->{port}) or die "could not connect: $!";
	print $socket "POST /keyed/refunds?do=ok HTTP/1.1\r\nHost: x\r\nIdempotency-Key: $row->{idempotency_key}\r\nConnection: close\r\nContent-Length: "
	  . length($body) . "\r\n\r\n$body";
	my $answer = do { local $/; <$socket> };
	like($answer, qr/^HTTP\/1\.1 200 /, 'somebody else has used the key');
	return;
}

sub events_of
{
	my ($id) = @_;
	return $node->safe_psql('postgres', "SELECT string_agg(what || ' ' || status, ', ' ORDER BY event_id) FROM actionledger.event WHERE action_id = $id AND by_whom LIKE 'dispatcher%'");
}

my %id = map { $_ => perform($node, $_, $_, options => '{"not_before": "2099-01-01T00:00:00Z"}') } qw(first later other);
use_key($id{$_}) for qw(first later other);
$node->safe_psql('postgres', "SELECT actionledger.retry($id{$_}, 'now')") for qw(first later other);

my $row = settle($node, $id{first}, 'needs_reconciliation', 'review');
is(scalar received($p, $id{first}), 1, 'a mismatch on the first send: sent once');
is($row->{known}, 'unknown_ended', 'and re-sending has ended');
is(events_of($id{first}), 'key_mismatch needs_reconciliation', 'with an event');
my ($attempt) = attempts_of($node, $id{first});
is("$attempt->{verdict} $attempt->{category} $attempt->{http_status}", 'unknown key_mismatch 422', 'and the attempt says why');

settle($node, $id{later}, 'needs_reconciliation', 'review');
is(scalar received($p, $id{later}), 2, 'a mismatch after a lost answer: not sent a third time');
like(events_of($id{later}), qr/(?:^|, )key_mismatch needs_reconciliation$/, 'with an event');

settle($node, $id{other}, 'needs_reconciliation', 'review');
is(scalar received($p, $id{other}), 4, 'another category is an unknown outcome as any: the tries are used up');
is(events_of($id{other}), '', 'and no event');

my ($rc, undef, $err) = $node->psql('postgres', q{SELECT actionledger.alter_tool('refused', '{"outcome": [{"status": 422, "verdict": "rejected", "category": "key_mismatch"}]}')});
like($err, qr/invalid definition.*\n.*\/outcome\/0\/verdict.*does not prove what became of this one/s, 'a mismatch that is said to prove a refusal is no rule');
is(effects($p), 3, 'only the other requests had effects');
done_testing();
