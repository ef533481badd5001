# A pause takes effect at its commit: the provider counts no request that was not
# marked before, nobody else is held up, and what waits goes out once afterwards.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;
use PostgreSQL::Test::Utils;

my $many = 3000;
my $p = start_provider('--no-fsync');
my $node = start_server(conf => "autovacuum = off");
refund_service($node, $p, options => '"limits": {"in_flight": 20, "rate_per_second": 100}');
refund_service($node, $p, name => 'other');
refund_tool($node, do => 'late:20', timeout => '10s');
refund_tool($node, name => 'neighbour', do => 'ok');
refund_tool($node, name => 'elsewhere', service => 'other');

# A rate that leaves the most to be paused, however slow the machine is.
my $row = sub { return split /\|/, $node->safe_psql('postgres', $_[0]) };
my $count = sub { return $node->safe_psql('postgres', "SELECT count(*) FROM $_[0]") };
$node->safe_psql('postgres', qq{SELECT count(*) FROM actionledger.perform_many('refund',
	ARRAY(SELECT jsonb_build_object('refund_id', 'R-' || n, 'amount', n) FROM generate_series(1, $many) n))});
poll(sub { effects($p) > 100 }, 'the provider is at work');

my ($scope, $name, $state, $waiting, $in_flight) =
  $row->("SELECT scope, name, state, waiting, in_flight FROM actionledger.pause_service('pay', 'the provider repeats itself')");
is("$scope $name $state", 'service pay paused', 'the service is paused');
cmp_ok($in_flight, '<=', 20, "in_flight counts what had been marked ($in_flight)");
cmp_ok($waiting, '>', 0, "and waiting what had not ($waiting)");
turns_pass($node, 3);
poll_sql($node, 'SELECT count(*) = 0 FROM actionledger.in_flight', 'what had been marked is answered');
is($count->(q{actionledger.attempt t, actionledger.pause p WHERE t.started_at >= p.paused_at}), 0, 'nothing was marked after the pause');
my $sent = $count->('actionledger.attempt');
is(scalar(grep { $_->{ev} eq 'received' } truth($p)), $sent, "the provider has received what was marked before, and no more ($sent)");
is($sent + $waiting, $many, 'sent and waiting are all there is');
is($count->("actionledger.pending WHERE waiting_for = 'paused: the provider repeats itself'"), $waiting, 'pending says why, for each of them');

# Neither is anybody else held up, nor are they looked at again and again.
my $id = perform($node, 'elsewhere', 'E-1');
settle($node, $id, 'confirmed', undef, 20);
pass('another service goes on');
poll_sql($node, "SELECT count(*) = $waiting FROM actionledger.due WHERE held_at IS NOT NULL", 'all are out of the way');
# What an older snapshot keeps from being vacuumed is walked over until that ends,
# and workers report their reading with a delay: ten quiet turns are waited for.
my $read = q{SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_all_indexes WHERE indexrelname LIKE 'due_%'};
my @walks;
poll(
	sub {
		$node->safe_psql('postgres', 'VACUUM actionledger.due');
		my $before = $node->safe_psql('postgres', $read);
		turns_pass($node, 10);
		push @walks, $node->safe_psql('postgres', $read) - $before;
		return $walks[-1] < $waiting;
	},
	'ten turns read less than the index has once', 120);
cmp_ok($walks[-1], '<', $waiting, "they are not walked over in each turn (index entries in ten turns: @walks)");

# perform goes on, and says so.
$id = perform($node, 'refund', 'late-comer');
my ($code, $advice, $observation) = $row->(qq{SELECT r #>> '{error,code}', r #>> '{meta,advice}', r #>> '{meta,observation}' FROM actionledger.result($id) r});
is("$code $advice", 'paused wait', 'the envelope says that it is paused');
like($observation, qr/queued and not sent: service pay was paused by \S+ at \S+Z \(the provider repeats itself\)/, 'who paused it and why');
my ($rc, undef, $err) = $node->psql('postgres',
	q{\set VERBOSITY verbose
	SELECT * FROM actionledger.perform('refund', '{"refund_id": "refused", "amount": 1}', options => '{"if_unavailable": "refuse"}')});
like($err, qr/LG019.*service "pay" is unavailable.*was paused by/s, 'who asks for a refusal gets one');
is($node->safe_psql('postgres', q{SELECT action_id || ' ' || created FROM actionledger.perform('refund', '{"refund_id": "late-comer", "amount": 100}', options => '{"if_unavailable": "refuse"}')}),
	"$id false", 'but not for what is there already');

# The pause outlives the server.
$node->stop('immediate');
$node->start;
turns_pass($node, 3);
is(scalar(grep { $_->{ev} eq 'received' && $_->{path} !~ /E-1/ } truth($p)) - 1, $sent, 'after a crash nothing goes out either');

$node->safe_psql('postgres', q{SELECT actionledger.alter_service('pay', '{"limits": {"rate_per_second": null}}')});

# A tool of the paused service, paused by itself, stays when the service is resumed.
perform($node, 'neighbour', 'N-1');
$row->("SELECT * FROM actionledger.pause_tool('neighbour', 'not yet')");
($state, $waiting) = $row->("SELECT state, waiting FROM actionledger.resume_service('pay', 'they have mended it')");
is($state, 'running, except tool neighbour', 'resume says what stays paused');
is($waiting, $many - $sent + 1, 'and how many go out now: the one of the tool does not');
poll_sql($node, "SELECT count(*) = $many + 2 FROM actionledger.actions WHERE status = 'confirmed'", 'all are confirmed', 120);
my $by = truth_by_action($p);
is(scalar(grep { $_->{executed} != 1 || $_->{received} != 1 } values %$by), 0, 'each was received and executed once');
my $held = $node->safe_psql('postgres', q{SELECT action_id FROM actionledger.pending WHERE tool = 'neighbour' AND waiting_for = 'paused: not yet'});
turns_pass($node, 2);
is(scalar(received($p, $held)), 0, 'the tool is held still');
($state) = $row->("SELECT state FROM actionledger.resume_tool('neighbour', 'now')");
is($state, 'running', 'until it is resumed');
settle($node, $held, 'confirmed', undef, 20);
is($count->('actionledger.due'), 0, 'nothing is left over');
$node->stop;
done_testing();
