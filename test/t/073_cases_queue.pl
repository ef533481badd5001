# Reports of real trouble, section D: transactions, queue and recovery.
#
# Each subtest is one report: given, when, then.  What has happened is counted at the
# provider.  Purging does not exist yet, so the report about it has no test.
use strict;
use warnings;
use IPC::Run ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use lib 'test/lib';
use Fault;
use Ledger;

my $node = start_server();
my $p = start_provider('--no-fsync');
refund_service($node, $p, name => 'keyed');
refund_service($node, $p, name => 'unkeyed', honoured => 0);
refund_service($node, $p, name => 'narrow', options => '"limits": {"in_flight": 40}');
my @unkeyed = (service => 'unkeyed', mode => 'unkeyed');
my @keyed = (service => 'keyed');
refund_tool($node, name => 'pay', @keyed);
refund_tool($node, name => 'pay_slow', @keyed, do => 'late:2000', timeout => '20s');
refund_tool($node, name => 'hold', @unkeyed, do => 'hang', timeout => '60s');
refund_tool($node, name => 'hold_keyed', @keyed, do => 'hang,ok', timeout => '60s');
refund_tool($node, name => 'complains', @keyed, do => 'status:422;body:it%2527s%250Anot%252000%25ff%2522%255c%2522');
refund_tool($node, name => 'burst', service => 'narrow', do => 'late:10', timeout => '2s');

# Runs a script in one session that goes on after errors; returns what it printed and the errors.
sub script
{
	my ($sql) = @_;
	my ($out, $err) = ('', '');
	$node->psql('postgres', $sql, stdout => \$out, stderr => \$err, on_error_stop => 0, timeout => 120);
	return ($out, $err);
}

# Starts sessions that each run one statement again and again.
sub sessions
{
	my ($n, $times, $sql) = @_;
	return map {
		my $s = $_;
		IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), map { ('-c', $sql->($s, $_)) } 1 .. $times ],
			'<', \undef, '>', \my $out, '2>&1')
	} 1 .. $n;
}

# { refund => status } of those whose names begin so.
sub statuses
{
	my ($prefix) = @_;
	return { map { split /\|/ } split /\n/,
		$node->safe_psql('postgres', "SELECT args ->> 'refund_id', status FROM actionledger.action WHERE args ->> 'refund_id' LIKE '$prefix-%'") };
}

# { refund => how often it was received }.
sub arrivals
{
	my ($prefix) = @_;
	my %name = map { split /\|/ } split /\n/,
	  $node->safe_psql('postgres', "SELECT action_id, args ->> 'refund_id' FROM actionledger.action WHERE args ->> 'refund_id' LIKE '$prefix-%'");
	my $by = truth_by_action($p);
	return { map { ($name{$_} => $by->{$_}{received}) } grep { ($by->{$_} // {})->{received} } keys %name };
}

sub performs { my ($name) = @_; return qq{SELECT action_id FROM actionledger.perform('pay', '{"refund_id": "$name", "amount": 1}')} }

subtest 'case 32: calls that a cancelled statement has made' => sub {
	my $sum = q{SELECT count(*) FROM generate_series(1, 55) i, LATERAL actionledger.perform('pay', jsonb_build_object('refund_id', '%s-' || i, 'amount', i))};
	my ($out, $err) = script("SET statement_timeout = '1s'; WITH done AS (" . sprintf($sum, 'c32') . ") SELECT count, pg_sleep(60) FROM done");
	like($err, qr/canceling statement due to statement timeout/, 'given 55 calls of a statement that is cancelled');
	script('BEGIN; ' . sprintf($sum, 'r32') . '; ROLLBACK');
	script('BEGIN; ' . sprintf($sum, 'k32') . '; SAVEPOINT s; ' . sprintf($sum, 's32') . '; ROLLBACK TO s; COMMIT');
	poll_sql($node, "SELECT count(*) = 55 FROM actionledger.action WHERE args ->> 'refund_id' LIKE '%32-%' AND status = 'confirmed'", 'what was committed is confirmed');
	turns_pass($node, 2);
	is(scalar keys %{ arrivals('k32') }, 55, 'then exactly the committed ones are sent');
	my %sent = map { $_->{action} => 1 } grep { $_->{ev} eq 'received' } truth($p);
	is(scalar keys %sent, 55, 'and nothing of the others');
};

subtest 'case 34: rows that come while somebody sweeps' => sub {
	my @writers = sessions(4, 25, sub { my ($s, $i) = @_; return performs("w34-$s-$i") });
	my @sweepers = sessions(2, 40, sub { 'SELECT sum(n) FROM actionledger.reconcile()' });
	ok($_->finish, 'a session ends well') for @writers, @sweepers;
	poll_sql($node, "SELECT count(*) = 100 FROM actionledger.action WHERE args ->> 'refund_id' LIKE 'w34-%' AND status = 'confirmed'", 'all are confirmed', 60);
	is(scalar(grep { $_ == 1 } values %{ arrivals('w34') }), 100, 'then each has an outcome of its own, and was sent once');
};

subtest 'case 37: a sweep shorter than the work' => sub {
	my $id = perform($node, 'pay_slow', 'p37-1');
	poll(sub { scalar received($p, $id) }, 'the request is under way');
	my $sweeps = 0;
	while (action_row($node, $id)->{status} eq 'submitted')
	{
		$node->safe_psql('postgres', 'SELECT sum(n) FROM actionledger.reconcile()');
		$sweeps++;
	}
	cmp_ok($sweeps, '>=', 2, 'given a server that is slower than several sweeps');
	is(scalar received($p, $id), 1, 'then it was sent once while its worker lived');
	is(action_row($node, $id)->{status}, 'confirmed', 'and confirmed by its answer');
};

subtest 'cases 35 and 38: the worker is killed after the request was received' => sub {
	my %id = (hold => perform($node, 'hold', 'k35-1'), hold_keyed => perform($node, 'hold_keyed', 'k35-2'));
	poll(sub { received($p, $id{hold}) && received($p, $id{hold_keyed}) }, 'both are received');
	my ($attempt) = attempts_of($node, $id{hold});
	my $pid = pid_of_dispatcher($node);
	kill 'KILL', $pid;
	wait_gone($pid, 10);
	poll_sql($node, "SELECT status = 'needs_reconciliation' AND next_step = 'review' FROM actionledger.action WHERE action_id = $id{hold}", 'one is for a person', 60);
	poll_sql($node, "SELECT status = 'confirmed' FROM actionledger.action WHERE action_id = $id{hold_keyed}", 'the other is confirmed', 60);
	is(scalar received($p, $id{hold}), 1, 'then what cannot be repeated is for a person, sent once');
	my %keys = map { $_->{key} => 1 } received($p, $id{hold_keyed});
	is(scalar keys %keys, 1, 'what can is repeated with the same key only');
	is(effects($p, $_), 1, 'one effect') for values %id;
	is($node->safe_psql('postgres', "SELECT count(DISTINCT worker) || ' ' || (count(*) > 1) FROM actionledger.incarnation"), '1 true',
		'the workers have the same name');
	is($node->safe_psql('postgres', "SELECT max(incarnation) > $attempt->{incarnation} FROM actionledger.incarnation"), 't', 'and are told apart by their incarnation');
	is((attempts_of($node, $id{hold}))[0]{category}, 'worker_lost', 'the attempt says what became of it');
};

subtest 'case 39: an error text with everything in it' => sub {
	my @good = split /\n/, $node->safe_psql('postgres', q{
		BEGIN;
		SELECT action_id FROM actionledger.perform_many('pay', ARRAY(SELECT jsonb_build_object('refund_id', 'e39-' || i, 'amount', i) FROM generate_series(1, 9) i));
		SELECT action_id FROM actionledger.perform('complains', '{"refund_id": "e39-10", "amount": 1}');
		COMMIT});
	my $bad = pop @good;
	settle($node, $_, 'confirmed') for @good;
	my $row = settle($node, $bad, 'failed');
	is(scalar @good, 9, 'given ten actions, nine are confirmed');
	is("$row->{error_code} after $row->{attempts}", 'rejected after 1', 'and one is classified, its attempt counted');
	is($node->safe_psql('postgres', "SELECT body FROM actionledger.attempt WHERE action_id = $bad"), '\x' . unpack('H*', "it's\nnot 00\xff\"\\\""), 'with its text as it came');
};

subtest 'case 40: rows that nobody announces' => sub {
	$node->safe_psql('postgres', <<'SQL');
CREATE TABLE orders (id text PRIMARY KEY);
CREATE FUNCTION pay_order() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM actionledger.perform('pay', jsonb_build_object('refund_id', NEW.id, 'amount', 1)); RETURN NEW; END $$;
CREATE TRIGGER pay AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION pay_order();
CREATE FUNCTION pay_all() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	BEGIN
		PERFORM actionledger.perform('pay', '{"refund_id": 7}');
	EXCEPTION WHEN SQLSTATE 'LG002' THEN NULL;
	END;
	PERFORM actionledger.perform('pay', '{"refund_id": "n40-2", "amount": 1}');
END $$;
SQL
	script(q{INSERT INTO orders VALUES ('n40-1'); SELECT pay_all(); BEGIN; INSERT INTO orders VALUES ('n40-3'); PREPARE TRANSACTION 'n40'; COMMIT PREPARED 'n40'});
	poll_sql($node, "SELECT count(*) = 3 FROM actionledger.action WHERE args ->> 'refund_id' LIKE 'n40-%' AND status = 'confirmed'", 'all are sent');
	is_deeply(arrivals('n40'), { map { ("n40-$_" => 1) } 1 .. 3 }, 'from a trigger, after a failed call, and without a wake-up: each once');
};

subtest 'case 41: notifications in the way of commits' => sub {
	my @writers = sessions(8, 25, sub { my ($s, $i) = @_; return performs("q41-$s-$i") });
	my $holders = q{SELECT (SELECT count(*) FROM actionledger.action WHERE args ->> 'refund_id' LIKE 'q41-%'), count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'object' AND l.classid = 'pg_database'::regclass
		AND l.objid = 0 AND a.backend_type = 'client backend'};
	my ($looks, $held, $done) = (0, 0, 0);
	my $end = time + 60;
	while ($done < 200 && time < $end)
	{
		($done, my $now) = split /\|/, $node->safe_psql('postgres', $holders);
		$held += $now;
		$looks++;
	}
	ok($_->finish, 'a session ends well') for @writers;
	cmp_ok($looks, '>', 0, "given 8 sessions that prepare ($looks looks)");
	is($held, 0, 'then none of them takes the lock of the notification queue');
};

subtest 'case 43: a backlog' => sub {
	$node->safe_psql('postgres', 'ALTER DATABASE postgres SET actionledger.enabled = off');
	poll_sql($node, "SELECT count(*) = 0 FROM actionledger.workers WHERE worker LIKE 'dispatcher%' AND pid IS NOT NULL", 'no dispatcher runs');
	$node->safe_psql('postgres', q{SELECT count(*) FROM actionledger.perform_many('burst',
		ARRAY(SELECT jsonb_build_object('refund_id', 'b43-' || i, 'amount', i) FROM generate_series(1, 5000) i))});
	my $start = time;
	$node->safe_psql('postgres', 'ALTER DATABASE postgres SET actionledger.enabled = on');
	poll_sql($node, "SELECT count(*) = 0 FROM actionledger.due d JOIN actionledger.service s USING (service_id) WHERE s.name = 'narrow'", 'all are settled', 120);
	note(sprintf 'figures: 5,000 actions in %.1f s', time - $start);
	is($node->safe_psql('postgres', "SELECT string_agg(DISTINCT status || ' after ' || attempts, ', ') FROM actionledger.action WHERE args ->> 'refund_id' LIKE 'b43-%'"),
		'confirmed after 1', 'given 5,000 prepared while nobody sends, none fails or is sent again from waiting');
	my ($open, $most) = (0, 0);
	for my $t (grep { ($_->{path} // '') =~ /do=late:10\b/ } truth($p))
	{
		$open++ if $t->{ev} eq 'received';
		$open-- if $t->{ev} eq 'answered';
		$most = $open if $open > $most;
	}
	cmp_ok($most, '<=', 40, "at most so many at once as the destination allows ($most)");
};

$node->stop('fast');
done_testing();
