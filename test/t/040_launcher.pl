# The launcher finds databases by itself, staffs each with its own dispatcher,
# leaves all others alone, and restarts with growing pauses.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;
use Lifecycle;
use Time::HiRes qw(sleep time);

my $p = start_provider();

subtest 'several databases' => sub {
	my $node = start_server(name => 'several', extension => 0, conf => "log_connections = on\nautovacuum = off\n");
	my $start = postmaster_start($node);
	my $mark = log_mark($node);

	$node->safe_psql('postgres', 'CREATE DATABASE bystander');
	my $bystander = $node->safe_psql('postgres', "SELECT oid FROM pg_database WHERE datname = 'bystander'");
	my $trace = $node->data_dir . "/base/$bystander/pg_internal.init";
	ok(!-e $trace, 'nobody has ever been connected to the bystander');
	$node->safe_psql('postgres', q{
		CREATE FUNCTION seen() RETURNS TABLE (pid int, datname name, backend_type text) LANGUAGE sql AS
		$$SELECT pid, datname, backend_type FROM pg_stat_activity WHERE backend_type LIKE 'actionledger%'$$;
		CREATE TABLE sample AS SELECT * FROM seen() LIMIT 0});
	my $sample = sub { $node->safe_psql('postgres', 'INSERT INTO sample SELECT * FROM seen()') };

	create_ledger($node, 'shop', $p);
	create_ledger($node, 'desk', $p);
	create_ledger($node, 'idle', $p, service => 0);
	$sample->();
	is(wait_state($node, 'shop', 'running', 10)->{state}, 'running', 'a dispatcher comes without a restart');
	is(wait_state($node, 'desk', 'running', 10)->{state}, 'running', 'and another one in the next database');
	$sample->();
	my %id = map { $_ => perform_in($node, $_, 'RF-1') } qw(shop desk);
	ok(status_becomes($node, $_, $id{$_}, 'confirmed'), "$_ sends its own action") for qw(shop desk);
	is(wires($p, qr/db=$_\b/), 1, "$_ sends it once") for qw(shop desk);
	isnt(row_in($node, 'shop', $id{shop})->{idempotency_key}, row_in($node, 'desk', $id{desk})->{idempotency_key},
		'two ledgers have two namespaces: the same identity has two keys');
	is(scalar(dispatchers_in($node, $_)), 1, "$_ has one dispatcher") for qw(shop desk);
	$sample->();

	is(scalar(dispatchers_in($node, $_)), 0, "$_ has none") for qw(idle postgres bystander template1);
	is($node->safe_psql('postgres', 'SELECT string_agg(DISTINCT coalesce(datname, \'-\'), \',\' ORDER BY coalesce(datname, \'-\')) FROM sample'),
		'-,desk,shop', 'every sample shows workers in the two databases only, and the launcher in none');
	ok(!-e $trace, 'nobody has been connected to the bystander at any time');
	is(scalar(log_since($node, $mark, qr/connection authorized.*database=bystander/)), 0, 'nor does the log know of one');
	is(state_in($node, 'idle')->{state}, 'missing', 'workers of a ledger without services says that nobody is there');
	like(state_in($node, 'idle')->{detail}, qr/no service/, 'and why');

	# Off and on.
	my ($old) = dispatchers_in($node, 'shop');
	$node->safe_psql('shop', 'CREATE TABLE stop ()');
	my $pooled = start_session($node, 'shop', q{
		DO $$BEGIN
		  FOR i IN 1..3000 LOOP
		    EXIT WHEN EXISTS (SELECT FROM stop);
		    PERFORM action_id FROM actionledger.perform('refund', jsonb_build_object('refund_id', 'POOL-' || i, 'amount', 1));
		    COMMIT;
		    PERFORM pg_sleep(0.02);
		  END LOOP;
		END$$});
	poll_in($node, 'shop', "SELECT count(*) > 3 FROM actionledger.action WHERE identity LIKE 'refund:POOL%'", 'the pool performs');
	$node->append_conf('postgresql.conf', 'log_min_messages = debug1');
	$node->reload;
	poll(sub { log_since($node, $mark, qr/configuration parameter|parameter "log_min_messages" changed/) }, 'the log is fine grained');
	my $off_mark = log_mark($node);
	$node->safe_psql('postgres', 'ALTER DATABASE shop SET actionledger.enabled = off');
	ok(eval { poll(sub { !dispatchers_in($node, 'shop') }, 'the dispatcher leaves', 15) }, 'off: the dispatcher leaves');
	my $quiet = $node->safe_psql('shop', 'SELECT max(action_id) FROM actionledger.action');
	poll_in($node, 'shop', "SELECT max(action_id) > $quiet + 100 FROM actionledger.action", 'the pool goes on for a while', 60);
	is($node->safe_psql('shop', "SELECT count(*) FROM actionledger.action WHERE action_id > $quiet + 10 AND status <> 'prepared'"), 0,
		'off: what is performed stays prepared');
	cmp_ok(scalar(log_since($node, $off_mark, qr/starting background worker process "actionledger dispatcher/)), '<=', 5,
		'off: a pool that goes on performing does not start worker after worker');
	is(state_in($node, 'shop')->{state}, 'missing', 'off: workers says that nobody is there');
	like(state_in($node, 'shop')->{detail} // '', qr/enabled is off/, 'off: and why');
	is($node->safe_psql('shop', q{SET actionledger.enabled = on; SELECT detail FROM actionledger.workers WHERE worker = 'dispatcher 0'}),
		'actionledger.enabled is off for this database', 'off: to a session that began before, too');
	my ($out, $err);
	$node->psql('shop', q{SELECT action_id FROM actionledger.perform('refund', '{"refund_id": "RF-OFF", "amount": 1}')}, stdout => \$out, stderr => \$err);
	like($err, qr/WARNING: .*nobody is there to send it/, 'off: perform warns');
	$node->safe_psql('shop', 'INSERT INTO stop DEFAULT VALUES');
	ok(end_session($pooled), 'the pool ends');

	$node->safe_psql('postgres', 'ALTER DATABASE shop SET actionledger.enabled = on');
	ok(status_becomes($node, 'shop', $out, 'confirmed', 15), 'on: it returns and sends what has waited');
	poll_in($node, 'shop', "SELECT count(*) = 0 FROM actionledger.action WHERE status <> 'confirmed'", 'all of it', 60);
	is($node->safe_psql('shop', 'SELECT count(*) FROM actionledger.action WHERE sends <> 1'), 0, 'each once');

	# Announced work without a setting.
	$node->safe_psql('postgres', 'ALTER DATABASE desk SET actionledger.enabled = off');
	poll(sub { !dispatchers_in($node, 'desk') }, 'the dispatcher of desk leaves', 15);
	$node->safe_psql('postgres', 'ALTER DATABASE desk RESET actionledger.enabled');
	my $poked = perform_in($node, 'desk', 'RF-POKE');
	ok(status_becomes($node, 'desk', $poked, 'confirmed', 20), 'announced work starts a dispatcher in a database where none is set to run');
	$node->restart;
	ok(eval { poll(sub { dispatchers_in($node, 'desk') }, 'a dispatcher runs', 20) }, 'and it is back after a restart, without being announced again');
	ok(!-e $trace, 'the bystander is still untouched');
	$node->stop;
};

subtest 'restart with growing pauses' => sub {
	my $node = start_server(name => 'restarts');
	create_ledger($node, 'postgres', $p);
	is(wait_state($node, 'postgres', 'running', 15)->{state}, 'running', 'a dispatcher runs');
	my $start = postmaster_start($node);
	my $mark = log_mark($node);
	my ($last, @gaps) = (0);
	for my $round (1 .. 4)
	{
		my $pid = pid_of_dispatcher($node, $last);
		my $t = time;
		$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
		poll(sub { ((dispatchers_in($node, 'postgres'))[0] // '') ne $pid }, 'it ends');
		$last = $pid;
		is(wait_state($node, 'postgres', 'backoff|starting|running', 5)->{state}, 'backoff', 'workers shows the pause') if $round == 4;
		pid_of_dispatcher($node, $last);
		push @gaps, time - $t;
	}
	note "pauses @gaps";
	cmp_ok($gaps[3], '>', 2 * $gaps[1], 'the pauses grow');
	cmp_ok($gaps[3], '<', 30, 'and are bounded');
	cmp_ok(state_in($node, 'postgres')->{restarts}, '>=', 4, 'workers counts the restarts');
	is(postmaster_start($node), $start, 'the server has not restarted');
	cmp_ok(scalar(log_events($node, $mark)), '<=', 12, 'a few lines in the log for each');
	my $id = perform_in($node, 'postgres', 'AFTER-1');
	ok(status_becomes($node, 'postgres', $id, 'confirmed'), 'it works');

	# The launcher itself.
	my $launcher = state_in($node, 'postgres', 'launcher');
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($launcher->{pid})");
	is(wait_state($node, 'postgres', 'missing', 5, 'launcher')->{state}, 'missing', 'a launcher that was terminated is missing');
	is(wait_state($node, 'postgres', 'running', 20, 'launcher')->{state}, 'running', 'and comes back');
	$node->stop;
};

subtest 'killed while starting up' => sub {
	my $node = start_server(name => 'young');
	create_ledger($node, 'postgres', $p);
	is(wait_state($node, 'postgres', 'running', 15)->{state}, 'running', 'a dispatcher runs');
	my $start = postmaster_start($node);
	my $hit = 0;

	# Ask the dispatcher to end, and kill the next one as soon as it is there.
	my $kill_young = sub {
		my ($signal) = @_;
		my @old;
		poll(sub { @old = children($node, qr/actionledger dispatcher/) }, 'one runs', 60);
		kill 'TERM', @old;
		poll(sub { !grep { -e "/proc/$_" } @old }, 'it has gone');
		poll(
			sub {
				my @young = children($node, qr/actionledger dispatcher/);
				return @young ? kill($signal, @young) : 0;
			},
			'one starts up', 90);
		$hit++;
	};
	$kill_young->('TERM') for 1 .. 3;
	is($hit, 3, 'killed three times while starting up');
	my $id = perform_in($node, 'postgres', 'AFTER-2');
	ok(status_becomes($node, 'postgres', $id, 'confirmed', 25), 'it comes back soon, and works');
	is(postmaster_start($node), $start, 'the server has not restarted');

	my $mark = log_mark($node);
	for my $round (1 .. 2)
	{
		$kill_young->('KILL');
		poll(sub { log_since($node, $mark, qr/all server processes terminated; reinitializing/) == $round }, 'the server recovers', 60);
		poll_sql($node, "SELECT true", 'it answers again', 60);
	}
	$id = undef;
	poll(sub { $id = eval { perform_in($node, 'postgres', 'AFTER-3') } }, 'perform works again', 60);
	ok(status_becomes($node, 'postgres', $id, 'confirmed', 45), 'SIGKILL while starting up: recovered, and works');
	is(postmaster_start($node), $start, 'the postmaster is the same');
	cmp_ok(scalar(log_events($node, $mark)), '<=', 100, 'the log is bounded');
	$node->stop;
};

subtest 'not preloaded' => sub {
	my $node = start_server(name => 'plain', extension => 0, conf => "shared_preload_libraries = ''\n");
	create_ledger($node, 'postgres', $p, path => 'plain');
	my ($row) = workers_in($node, 'postgres');
	is($row->{state}, 'missing', 'workers: missing');
	like($row->{detail}, qr/shared_preload_libraries/, 'workers: why');
	like($row->{do}, qr/ALTER SYSTEM SET shared_preload_libraries/, 'workers: what to do');
	my ($out, $err);
	$node->psql('postgres', q{SELECT action_id, status FROM actionledger.perform('refund', '{"refund_id": "RF-1", "amount": 1}')}, stdout => \$out, stderr => \$err);
	like($out, qr/\|prepared$/, 'perform records');
	like($err, qr/WARNING: .*nobody is there to send it.*DETAIL: .*shared_preload_libraries/s, 'and warns');
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'actionledger'");
	$node->restart;
	ok(status_becomes($node, 'postgres', $out =~ s/\|.*//r, 'confirmed'), 'preloaded: sent');
	is(wires($p, qr/db=plain/), 1, 'once');
	$node->stop;
};

subtest 'no free background worker slot' => sub {
	my $node = start_server(name => 'slots', conf => "max_worker_processes = 1\n");
	create_ledger($node, 'postgres', $p, path => 'slots');
	is(state_in($node, 'postgres', 'launcher')->{state}, 'missing', 'no slot for the launcher: missing');
	like(state_in($node, 'postgres', 'launcher')->{do} // '', qr/max_worker_processes/, 'with what to do');
	my ($out, $err);
	$node->psql('postgres', q{SELECT action_id FROM actionledger.perform('refund', '{"refund_id": "RF-1", "amount": 1}')}, stdout => \$out, stderr => \$err);
	like($err, qr/WARNING: .*nobody is there to send it/, 'perform warns');
	my $first = $out;

	$node->append_conf('postgresql.conf', 'max_worker_processes = 2');
	$node->restart;
	my $mark = log_mark($node);
	my $row = wait_state($node, 'postgres', 'missing', 15);
	is($row->{state}, 'missing', 'a slot for the launcher only: the dispatcher is missing');
	poll(sub { $row = state_in($node, 'postgres'); ($row->{detail} // '') =~ /max_worker_processes/ }, 'the launcher has tried', 15);
	like($row->{do}, qr/max_worker_processes/, 'with what to do');
	$node->psql('postgres', q{SELECT action_id FROM actionledger.perform('refund', '{"refund_id": "RF-2", "amount": 1}')}, stdout => \$out, stderr => \$err);
	like($err, qr/WARNING: .*nobody is there to send it/, 'perform warns');
	my $end = time + 18;
	while (time < $end)
	{
		$node->safe_psql('postgres', qq{SELECT action_id FROM actionledger.perform('refund', '{"refund_id": "RF-@{[ time ]}", "amount": 1}')});
		sleep 0.3;
	}
	cmp_ok(scalar(log_since($node, $mark, qr/no background worker slot is free/)), '<=', 4, 'the log does not fill up');
	is(wires($p, qr/db=slots/), 0, 'nothing was sent');

	$node->append_conf('postgresql.conf', 'max_worker_processes = 8');
	$node->restart;
	ok(status_becomes($node, 'postgres', $_, 'confirmed'), 'lifted: sent') for $first, $out;
	$node->stop;
};

subtest 'no room in the roster' => sub {
	my $node = start_server(name => 'room', conf => "actionledger.max_workers = 1\n");
	create_ledger($node, 'postgres', $p, path => 'room');
	wait_state($node, 'postgres', 'running', 15);
	create_ledger($node, 'second', $p, path => 'room2');
	my ($out, $err);
	my $mark = log_mark($node);
	for my $n (1 .. 30)
	{
		$node->psql('second', qq{SELECT action_id FROM actionledger.perform('refund', '{"refund_id": "RF-$n", "amount": 1}')}, stdout => \$out, stderr => \$err);
	}
	like($err, qr/WARNING: .*nobody is there to send it/, 'perform warns');
	my $row = state_in($node, 'second');
	is($row->{state}, 'missing', 'workers: missing');
	like(($row->{detail} // '') . $row->{do}, qr/max_workers/, 'with the reason and what to do');
	cmp_ok(scalar(log_since($node, $mark, qr/no room for another dispatcher/)), '<=', 3, 'the log does not fill up');
	$node->safe_psql('postgres', 'ALTER DATABASE postgres SET actionledger.enabled = off');
	ok(status_becomes($node, 'second', $out, 'confirmed', 30), 'room was made: it is sent');
	$node->stop;
};

done_testing();
