# What is set for the cluster, a database or a role has no effect on the worker;
# reloads disturb nothing; fsync = off stops all sending.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;
use Lifecycle;
use Time::HiRes qw(sleep time);

# Our own sessions work under sane settings, which rank above those of a database or a role.
my %sane = (
	statement_timeout => 0, lock_timeout => 0, idle_in_transaction_session_timeout => 0, idle_session_timeout => 0,
	default_transaction_read_only => 'off', default_transaction_isolation => 'read\\ committed', search_path => 'public',
	client_min_messages => 'warning', DateStyle => 'ISO', role => 'none', transform_null_equals => 'off', log_statement => 'none'
);
$ENV{PGOPTIONS} = join ' ', map { "-c $_=$sane{$_}" } sort keys %sane;

my %hostile = (
	statement_timeout => '1ms', lock_timeout => '1ms', idle_in_transaction_session_timeout => '1ms', idle_session_timeout => '1ms',
	default_transaction_read_only => 'on', default_transaction_isolation => 'serializable', default_transaction_deferrable => 'on',
	search_path => 'trojan, public', synchronous_commit => 'off', row_security => 'off', session_replication_role => 'replica',
	standard_conforming_strings => 'off', escape_string_warning => 'off', backslash_quote => 'on', array_nulls => 'off',
	bytea_output => 'escape', DateStyle => 'SQL, DMY', IntervalStyle => 'sql_standard', TimeZone => 'Pacific/Kiritimati',
	extra_float_digits => '-15', transform_null_equals => 'on', xmloption => 'document', quote_all_identifiers => 'on',
	enable_indexscan => 'off', enable_indexonlyscan => 'off', enable_nestloop => 'off', enable_sort => 'off', enable_hashagg => 'off',
	plan_cache_mode => 'force_custom_plan', from_collapse_limit => 1, join_collapse_limit => 1, geqo_threshold => 2,
	jit_above_cost => 0, work_mem => '64kB', temp_file_limit => 0, max_stack_depth => '200kB',
	log_min_duration_statement => 0, log_statement => 'all', log_duration => 'on', log_lock_waits => 'on', client_min_messages => 'error',
	vacuum_cost_delay => '50ms', commit_delay => 1000, default_toast_compression => 'pglz', check_function_bodies => 'off',
	'actionledger.identity_wait' => '1ms'
);

my $p = start_provider();
my $node = start_server(conf => "wal_writer_delay = 10s\nwal_writer_flush_after = 0\nautovacuum = off\n");
$hostile{transaction_timeout} = '1ms' if $node->safe_psql('postgres', 'SHOW server_version_num') >= 170000;
my $super = $node->safe_psql('postgres', 'SELECT rolname FROM pg_roles WHERE oid = 10');
$node->safe_psql('postgres', q{
	CREATE SCHEMA trojan;
	CREATE FUNCTION trojan.stop() RETURNS bool LANGUAGE plpgsql AS $$BEGIN RAISE 'trojan'; END$$;
	CREATE FUNCTION trojan.eq(bigint, bigint) RETURNS bool LANGUAGE sql AS 'SELECT trojan.stop()';
	CREATE OPERATOR trojan.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = trojan.eq);
	CREATE FUNCTION trojan.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT trojan.stop(); SELECT now()';
	CREATE FUNCTION trojan.now() RETURNS timestamptz LANGUAGE sql AS 'SELECT trojan.stop(); SELECT pg_catalog.now()';
	CREATE FUNCTION trojan.unnest(anyarray) RETURNS SETOF anyelement LANGUAGE sql AS 'SELECT trojan.stop(); SELECT $1[1]';
	CREATE FUNCTION trojan.nextval(text) RETURNS bigint LANGUAGE sql AS 'SELECT trojan.stop(); SELECT 1::bigint';
	CREATE TABLE trojan.action ();
	CREATE TABLE trojan.due ();
	CREATE ROLE powerless});
create_ledger($node, 'postgres', $p, exists => 1);
tool_in($node, 'postgres', tool => 'slow', do => 'late:3000,ok', timeout => '20s', path => 'slow');
tool_in($node, 'postgres', tool => 'refused', do => 'status:402;body:%25C3%25A9%255C%2527', path => 'refused');
pid_of_dispatcher($node);

# A new dispatcher, or the same with the settings reloaded.
my $renew = sub {
	my $old = pid_of_dispatcher($node);
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($old)");
	return eval { pid_of_dispatcher($node, $old) };
};

my $number = 0;

# Work is done, and marks survive a crash.
sub works
{
	my ($how) = @_;
	my @ids = map { perform_in($node, 'postgres', 'W-' . ++$number) } 1 .. 5;
	my $refused = perform_in($node, 'postgres', 'W-' . ++$number, 'refused');
	is(scalar(grep { status_becomes($node, 'postgres', $_, 'confirmed') } @ids), 5, "$how: confirmed");
	ok(status_becomes($node, 'postgres', $refused, 'failed'), "$how: a refusal is a failure");
	my $t = truth_by_action($p);
	is(scalar(grep { ($t->{$_}{received} // 0) == 1 } @ids), 5, "$how: each sent once");

	my $slow = perform_in($node, 'postgres', 'W-' . ++$number, 'slow');
	my $waiting = $node->safe_psql('postgres',
		qq{SELECT action_id FROM actionledger.perform('refund', '{"refund_id": "W-@{[ ++$number ]}", "amount": 1}', options => '{"not_before": "@{[ time_in(3600) ]}"}')});
	poll(sub { received($p, $slow) }, 'the slow one is on the wire');
	$node->stop('immediate');
	$node->start;
	my $row = row_in($node, 'postgres', $slow);
	cmp_ok($row->{sends}, '>=', 1, "$how: the mark of what was on the wire has survived the crash");
	ok(row_in($node, 'postgres', $waiting), "$how: and what was performed last");
	ok(status_becomes($node, 'postgres', $slow, 'confirmed'), "$how: the slow one is settled");
	my %numbers;
	$numbers{ $_->{attempt} }++ for received($p, $slow);
	is_deeply([ grep { $_ > 1 } values %numbers ], [], "$how: no attempt number was used twice");
	pid_of_dispatcher($node);
	return;
}

# A time so many seconds from now, as ISO 8601.
sub time_in
{
	my ($seconds) = @_;
	return $node->safe_psql('postgres', "SELECT to_char(now() AT TIME ZONE 'UTC' + interval '$seconds s', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')");
}

works('defaults');

subtest 'set for the cluster' => sub {
	my %file = %hostile;
	delete @file{qw(temp_file_limit)};
	$node->append_conf('hostile.conf', join '', map { "$_ = '$file{$_}'\n" } sort keys %file);
	$node->append_conf('postgresql.conf', "include 'hostile.conf'");
	my $pid = pid_of_dispatcher($node);
	$node->reload;
	poll_sql($node, "SELECT reset_val = 'on' FROM pg_settings WHERE name = 'log_duration'", 'the settings are there');
	my $id = perform_in($node, 'postgres', 'RELOADED');
	ok(status_becomes($node, 'postgres', $id, 'confirmed'), 'reloaded into a running dispatcher: works');
	is(pid_of_dispatcher($node), $pid, 'which goes on');
	works('ALTER SYSTEM');
	$renew->();
	works('ALTER SYSTEM, new dispatcher');
	my $file = $node->data_dir . '/hostile.conf';
	unlink $file;
	$node->append_conf('hostile.conf', '');
	$node->reload;
	$id = perform_in($node, 'postgres', 'REMOVED');
	ok(status_becomes($node, 'postgres', $id, 'confirmed'), 'removed again: works');
	is(scalar(log_since($node, 0, qr/trojan.*CONTEXT|ERROR:  trojan/)), 0, 'no trojan was called');
};

for my $scope ([ 'the database', 'DATABASE postgres' ], [ 'the role', "ROLE \"$super\"" ], [ 'the role in the database', "ROLE \"$super\" IN DATABASE postgres" ])
{
	my ($name, $where) = @$scope;
	subtest "set for $name" => sub {
		for my $setting (sort keys %hostile)
		{
			my $value = $setting eq 'search_path' ? $hostile{$setting} : "'$hostile{$setting}'";
			$node->safe_psql('postgres', "ALTER $where SET $setting = $value");
		}
		$node->safe_psql('postgres', "ALTER $where SET role = 'powerless'");
		{
			local $ENV{PGOPTIONS} = '-c statement_timeout=0 -c idle_session_timeout=0';
			is($node->safe_psql('postgres', 'SHOW lock_timeout'), '1ms', 'the settings are there');
		}
		$renew->();
		works($name);
		$node->safe_psql('postgres', "ALTER $where RESET ALL");
		$node->safe_psql('postgres', 'ALTER DATABASE postgres SET actionledger.enabled = on');
		is(scalar(log_since($node, 0, qr/ERROR:  trojan/)), 0, 'no trojan was called');
	};
}

subtest 'enabled is a matter of the database' => sub {
	$node->safe_psql('postgres', "ALTER ROLE \"$super\" SET actionledger.enabled = off");
	$renew->();
	my $id = perform_in($node, 'postgres', 'ROLE-OFF');
	ok(status_becomes($node, 'postgres', $id, 'confirmed'), 'what is set for a role does not stop it');
	$node->safe_psql('postgres', "ALTER ROLE \"$super\" RESET ALL");
};

subtest 'reload in flight' => sub {
	tool_in($node, 'postgres', tool => 'steady', do => 'late:1500', mode => 'unkeyed', path => 'steady');
	my $pid = pid_of_dispatcher($node);
	my @ids = map { perform_in($node, 'postgres', "R-$_", 'steady') } 1 .. 5;
	poll(sub { received($p, $ids[-1]) }, 'the last one is on the wire');
	for (1 .. 30)
	{
		$node->safe_psql('postgres', 'SELECT pg_reload_conf()');
		kill 'HUP', $pid;
	}
	is(scalar(grep { status_becomes($node, 'postgres', $_, 'confirmed') } @ids), 5, 'confirmed');
	is(scalar(map { received($p, $_) } @ids), 5, 'each sent once');
	is(pid_of_dispatcher($node), $pid, 'by the same dispatcher');
};

subtest 'number of dispatchers' => sub {
	for my $n (1 .. 6)
	{
		create_ledger($node, 'postgres', $p, exists => 1, name => "s$n", tool => "t$n", honoured => 0, mode => 'unkeyed', do => 'late:100', path => "s$n");
	}
	my (@ids, $all);
	my $more = sub {
		for my $n (1 .. 6) { push @ids, perform_in($node, 'postgres', 'D-' . ++$number, "t$n"); }
	};
	for my $count (3, 1, 2, 1)
	{
		$more->() for 1 .. 2;
		$node->safe_psql('postgres', "ALTER SYSTEM SET actionledger.dispatchers = $count");
		$node->reload;
		my $end = time + 12;
		while (time < $end)
		{
			$more->();
			my @w = grep { $_->{worker} =~ /^dispatcher/ } workers_in($node, 'postgres');
			last if @w == $count && !grep { $_->{state} ne 'running' } @w;
		}
		my @w = grep { $_->{worker} =~ /^dispatcher/ } workers_in($node, 'postgres');
		is(scalar(grep { $_->{state} eq 'running' } @w), $count, "$count dispatchers run");
		is(scalar(dispatchers_in($node, 'postgres')), $count, 'and no more');
		my %served;
		$served{$_}++ for map { @{ $_->{services} } } @w;
		is_deeply(\%served, { map { $_ => 1 } 'pay', map { "s$_" } 1 .. 6 }, 'each service belongs to exactly one');
		$more->();
		my $first = perform_in($node, 'postgres', 'D-' . ++$number, "t$count");
		ok(status_becomes($node, 'postgres', $first, 'confirmed'), 'work goes on');
		push @ids, $first;
	}
	poll_sql($node, "SELECT count(*) = 0 FROM actionledger.action a JOIN actionledger.tool USING (tool_id) WHERE name ~ '^t\\d' AND status <> 'confirmed'", 'all are confirmed', 60);
	my $t = truth_by_action($p);
	my @odd = grep { ($t->{$_}{received} // 0) != 1 } @ids;
	is("@odd", '', scalar(@ids) . ' actions: each was sent exactly once');
};

subtest 'left behind by another one' => sub {
	# Claimed by an incarnation that has died after this dispatcher began, as may happen when the number changes.
	$renew->();
	my $id = $node->safe_psql('postgres',
		qq{SELECT action_id FROM actionledger.perform('refund', '{"refund_id": "LEFT", "amount": 1}', options => '{"not_before": "@{[ time_in(3600) ]}"}')});
	$node->safe_psql('postgres', qq{
		UPDATE actionledger.action SET status = 'submitted', next_step = 'wait', claimed_by = 999999, attempts = 1, sends = 1,
			last_sent_at = now(), window_ends_at = now() + interval '1 hour', key_ends_at = now() + interval '1 hour' WHERE action_id = $id;
		UPDATE actionledger.due SET next_at = now() WHERE action_id = $id;
		INSERT INTO actionledger.attempt (action_id, attempt, incarnation, started_at, deadline) VALUES ($id, 1, 999999, now(), now())});
	ok(status_becomes($node, 'postgres', $id, 'confirmed', 40), 'found, and settled');
	is($node->safe_psql('postgres', "SELECT string_agg(verdict || ' ' || category, ', ' ORDER BY attempt) FROM actionledger.attempt WHERE action_id = $id"),
		'unknown worker_lost, confirmed confirmed', 'as the attempt of a worker that was lost');
};

subtest 'fsync is off' => sub {
	my $off = sub {
		$node->safe_psql('postgres', "ALTER SYSTEM SET fsync = $_[0]");
		$node->reload;
	};
	$off->('off');
	my $row = wait_state($node, 'postgres', 'paused', 15);
	is($row->{state}, 'paused', 'workers: paused');
	like($row->{detail}, qr/fsync is off/, 'with the reason');
	like($row->{do}, qr/fsync/, 'and what to do');
	my $id = perform_in($node, 'postgres', 'FSYNC-1');
	sleep 1.5;	# seven polls
	is(row_in($node, 'postgres', $id)->{status}, 'prepared', 'what is performed waits');
	is(scalar(received($p, $id)), 0, 'nothing is sent');
	my ($old) = dispatchers_in($node, 'postgres');
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($old)");
	poll(sub { my $now = state_in($node, 'postgres'); $now->{state} eq 'paused' && $now->{pid} != $old }, 'a new dispatcher is paused', 60);
	sleep 1.5;
	is(row_in($node, 'postgres', $id)->{status}, 'prepared', 'a new dispatcher sends nothing either');
	is(scalar(received($p, $id)), 0, 'nothing is sent');
	$off->('on');
	ok(status_becomes($node, 'postgres', $id, 'confirmed'), 'fsync = on: it is sent');
	is(scalar(received($p, $id)), 1, 'once');
	is(wait_state($node, 'postgres', 'running', 15)->{state}, 'running', 'workers: running');
};

subtest 'unlogged tables' => sub {
	$node->safe_psql('postgres', 'ALTER TABLE actionledger.attempt SET UNLOGGED');
	my $row = wait_state($node, 'postgres', 'paused', 15);
	is($row->{state}, 'paused', 'workers: paused');
	like($row->{detail}, qr/attempt.*unlogged|unlogged.*attempt/, 'with the reason');
	my $id = perform_in($node, 'postgres', 'UNLOGGED-1');
	sleep 1.5;	# seven polls
	is(scalar(received($p, $id)), 0, 'nothing is sent');
	$node->safe_psql('postgres', 'ALTER TABLE actionledger.attempt SET LOGGED');
	ok(status_becomes($node, 'postgres', $id, 'confirmed'), 'logged again: it is sent');
};

$node->stop;
done_testing();
