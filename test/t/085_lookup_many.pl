# A thousand unknown outcomes at once, at a destination that recovers: all are
# resolved by lookups, within the service's rate, and nothing is done twice.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;
use Time::HiRes qw(time);

my $N = 1000;                     # the breaker would open at as many failures in a row
my $RATE = 300;
my $p = start_provider('--no-fsync');
my $node = start_server();
$node->safe_psql('postgres', qq{SELECT actionledger.create_service('pay', '$p->{url}', '{"allow_private": true,
  "limits": {"in_flight": 50, "rate_per_second": $RATE}, "breaker": {"failures": 1000}}')});

# Every answer is lost or says nothing; half of the operations were done, half were
# not.  Then the
# destination is in no state to tell (503, 418); after that it is well.
refund_tool($node, name => 'many', mode => 'unkeyed', do => 'p:40:close/p:66:close_before/p:50:execstatus:418/status:418,ok', timeout => '2s',
	options => '"max_processing": "2s", "lookup": {"request": "GET /refunds?key={_key}&do=p:80:status:503/status:418,ok", "match": "$.data[*] ? (@.key == $_key)", "more": "$.has_more",
	  "absence": "authoritative", "resend": true, "every": "500ms", "attempts": 20}');
my $start = time;
$node->safe_psql('postgres', "SELECT count(*) FROM actionledger.perform_many('many', ARRAY(SELECT jsonb_build_object('refund_id', 'm' || i, 'amount', i) FROM generate_series(1, $N) i))");
poll_sql($node, "SELECT count(*) = $N FROM actionledger.action WHERE known <> 'nothing' AND claimed_by IS NULL", 'all were sent', 120);
my $sent = time - $start;
is($node->safe_psql('postgres', q{SELECT count(*) FROM actionledger.action WHERE status = 'failed'}), '0', 'none is called failed for want of an answer');
poll_sql($node, q{SELECT count(*) = 0 FROM actionledger.due}, 'all are resolved', 240);
my $took = time - $start;

is($node->safe_psql('postgres', q{SELECT status, count(*) FROM actionledger.action GROUP BY 1}), "confirmed|$N", "all $N are confirmed");
my $by = truth_by_action($p);
is(scalar(grep { ($_->{executed} // 0) != 1 } values %$by), 0, 'each was done exactly once');
is(scalar keys %$by, $N, 'and every one arrived');
is($node->safe_psql('postgres', q{SELECT count(*) FROM actionledger.action WHERE (confirmed_by = 'lookup') <> (sends = 1)}), '0', 'what was done was found, what was not was sent once more');
cmp_ok($node->safe_psql('postgres', q{SELECT count(*) FROM actionledger.action WHERE sends > 2 OR absences > 1}), '==', 0, 'never more than once');

# The rate, counted where the requests arrive: the bucket holds one second's worth.
my @arrived = sort { $a <=> $b } map { $_->{t} } grep { $_->{ev} eq 'received' } truth($p);
my ($most, $from) = (0, 0);
for my $to (0 .. $#arrived)
{
	$from++ while $arrived[$to] - $arrived[$from] > 1;
	$most = $to - $from + 1 if $to - $from + 1 > $most;
}
cmp_ok($most, '<=', 2 * $RATE + 50, "never more than a second's worth and what was saved up: $most in the worst second");
cmp_ok(scalar(@arrived), '<=', $RATE * ($took + 1), 'and the rate over all of it');

my $lookups = $node->safe_psql('postgres', q{SELECT sum(lookups) FROM actionledger.action});
my $found = $node->safe_psql('postgres', q{SELECT count(*) FROM actionledger.action WHERE confirmed_by = 'lookup'});
note(sprintf 'figures: %d unknown outcomes in %.1f s, all resolved after %.1f s: %d found done, %d proved absent and sent once more; %.2f lookups per action, %d requests, at most %d in a second; executed twice: 0',
	$N, $sent, $took, $found, $N - $found, $lookups / $N, scalar @arrived, $most);

$node->stop;
done_testing();
