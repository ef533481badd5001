# Who listens is told that outcomes are there: by one notice for many, with nobody's
# data, and whoever holds the lock of all notices does not hold up the sending.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;
use IPC::Run ();
use JSON::PP;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(time);

my $node = start_server(conf => "wal_level = replica\nmax_wal_senders = 5");
my $p = start_provider();
refund_service($node, $p);
refund_service($node, $p, name => 'plain', honoured => 0);
refund_tool($node);
refund_tool($node, name => 'dropped', service => 'plain', mode => 'unkeyed', do => 'close');

# A session that listens, as the document shows it: it prints each notice.
my $folder = PostgreSQL::Test::Utils::tempdir();
append_to_file("$folder/listen.py", <<'PY');
import select, sys, psycopg2
db = psycopg2.connect(sys.argv[1])
db.autocommit = True
db.cursor().execute("LISTEN actionledger")
print("listening", flush=True)
while True:
    select.select([db], [], [], 60)
    db.poll()
    while db.notifies:
        print(db.notifies.pop(0).payload, flush=True)
PY
my $heard = '';
my $listener = IPC::Run::start([ '/usr/bin/python3', "$folder/listen.py", $node->connstr('postgres') ], '<', \undef, '>', \$heard, '2>&1');
END { $listener->kill_kill if $listener; }

# What has been heard so far, without the first line.
sub heard
{
	$listener->pump_nb;
	my (undef, @lines) = split /\n/, $heard;
	return @lines;
}

# How many outcomes the notices have told of.
sub told { my $n = 0; $n += decode_json($_)->{outcomes} for heard(); return $n }

poll(sub { $listener->pump_nb; $heard =~ /listening/ }, 'somebody listens');

subtest 'an outcome is told' => sub {
	my $id = perform($node, 'refund', 'one');
	poll(sub { told() >= 1 }, 'a notice comes');
	is_deeply([ heard() ], ['{"outcomes": 1}'], 'with a number and nothing else');
	is(action_row($node, $id)->{status}, 'confirmed', 'and the outcome is there');
	my $review = perform($node, 'dropped', 'one');
	poll(sub { told() >= 2 }, 'what comes before a person is told too');
	is(action_row($node, $review)->{next_step}, 'review', 'and is there');
	$node->safe_psql('postgres', "SELECT actionledger.resolve($review, 'confirmed', '{}', 'seen')");
	poll(sub { told() >= 3 }, 'and so is what people decide');
};

subtest 'many outcomes' => sub {
	my $before = told();
	my $notices = heard();
	my $start = time;
	$node->safe_psql('postgres', q{SELECT count(*) FROM generate_series(1, 500) i,
	  LATERAL actionledger.perform('refund', jsonb_build_object('refund_id', 'many-' || i, 'amount', i))});
	poll(sub { told() >= $before + 500 }, 'all are told of', 60);
	is(told(), $before + 500, 'each once');
	cmp_ok(heard() - $notices, '<=', (time - $start) * 10 + 2, 'in at most ten notices a second');
};

subtest 'nothing before there is something' => sub {
	my $before = told();
	my $id = perform($node, 'refund', 'later', options => '{"not_before": "2099-01-01T00:00:00Z"}');
	turns_pass($node, 2);
	is(told(), $before, 'what waits is not told');
	$node->safe_psql('postgres', "SELECT actionledger.cancel($id)");
	poll(sub { told() > $before }, 'a cancel is told');
};

subtest 'while somebody holds the lock of all notices' => sub {
	# A session that notifies waits for a standby that is not there, and is stopped in that.
	$node->safe_psql('postgres', "ALTER SYSTEM SET synchronous_standby_names = 'nobody'; SELECT pg_reload_conf()");
	poll_sql($node, "SELECT current_setting('synchronous_standby_names') = 'nobody'", 'there is a standby to wait for');
	my $holder = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', 'CREATE TABLE held (); NOTIFY other' ], '<', \undef, '>', \my $out, '2>', \my $err);
	my $pid;
	poll(sub { $pid = $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%NOTIFY other%'") }, 'a notifying commit waits');
	kill 'STOP', $pid;
	$node->safe_psql('postgres', "SET synchronous_commit = local; ALTER SYSTEM RESET synchronous_standby_names; SELECT pg_reload_conf()");
	poll_sql($node, "SELECT current_setting('synchronous_standby_names') = ''", 'there is none any more');
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_locks WHERE pid = $pid AND locktype = 'object' AND mode = 'AccessExclusiveLock' AND classid = 'pg_database'::regclass AND objid = 0"),
		1, 'it holds the lock');
	my $before = told();
	my @ids = map { perform($node, 'refund', "held-$_") } 1 .. 5;
	settle($node, $_, 'confirmed') for @ids;
	pass('the ledger sends and records as ever');
	is(told(), $before, 'and keeps its notices');
	kill 'CONT', $pid;
	$holder->finish;
	poll(sub { told() >= $before + 5 }, 'which come when they can');
	pass('they come then');
};

subtest 'switched off' => sub {
	$node->safe_psql('postgres', "ALTER SYSTEM SET actionledger.notify = off; SELECT pg_reload_conf()");
	turns_pass($node, 2);
	my $before = told();
	my $id = perform($node, 'refund', 'quiet');
	settle($node, $id, 'confirmed');
	turns_pass($node, 2);
	is(told(), $before, 'nothing is told');
};

$listener->kill_kill;
$node->stop('fast');
done_testing();
