# Copies of a database send nothing until an operator says so; the original is
# never taken for a copy.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;
use Lifecycle;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(sleep time);

my $p = start_provider();

# Tools for one action in flight and others behind it, at a service with keys and one without.
sub create_tools
{
	my ($node, $db, $path) = @_;
	create_ledger($node, $db, $p, exists => 1, name => 'keyed', path => $path, tool => 'k_ok', options => '"limits": {"in_flight": 1}');
	tool_in($node, $db, name => 'keyed', tool => 'k_hang', do => 'hang,ok', timeout => '120s', path => $path);
	create_ledger($node, $db, $p, exists => 1, name => 'bare', path => $path, tool => 'u_ok', mode => 'unkeyed', honoured => 0,
		options => '"limits": {"in_flight": 1}');
	tool_in($node, $db, name => 'bare', tool => 'u_hang', mode => 'unkeyed', do => 'hang', timeout => '120s', path => $path);
	return;
}

# In flight at each service, and prepared behind.
sub create_actions
{
	my ($node, $db, $path) = @_;
	my %id = (k_hang => perform_in($node, $db, 'IN-FLIGHT', 'k_hang'), u_hang => perform_in($node, $db, 'IN-FLIGHT', 'u_hang'));
	poll(sub { wires($p, qr/db=$path\b.*do=hang/) == 2 }, 'one is in flight at each service');
	$id{k_ok} = perform_in($node, $db, 'WAITS', 'k_ok');
	$id{u_ok} = perform_in($node, $db, 'WAITS', 'u_ok');
	return %id;
}

# The whole text of a ledger: every table, ordered.
sub contents
{
	my ($node, $db) = @_;
	my %found;
	for my $table (split /\n/, $node->safe_psql($db, q{SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'actionledger'::regnamespace AND c.relkind IN ('r', 'p')}))
	{
		$found{$table} = $node->safe_psql($db, qq{SELECT count(*) || ' ' || coalesce(md5(string_agg(t::text, E'\n' ORDER BY t::text)), '') FROM actionledger.$table t});
	}
	for my $sequence (split /\n/, $node->safe_psql($db, q{SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'actionledger'::regnamespace AND c.relkind = 'S'}))
	{
		$found{$sequence} = $node->safe_psql($db, "SELECT last_value FROM actionledger.$sequence");
	}
	return \%found;
}

# Whether a worker of a copy is fenced, and says why and what to do.
sub is_fenced
{
	my ($node, $db, $why, $who) = @_;
	my $row = wait_state($node, $db, 'fenced', 30);
	is($row->{state}, 'fenced', "$who: fenced");
	like($row->{detail} // '', $why, "$who: workers says what differs");
	like($row->{do} // '', qr/resume_dispatch\(/, "$who: and what to do");
	is(scalar(grep { /WARNING: .*looks like a copy/ } log_since($node, 0)) > 0, 1, "$who: the log says so");
	return;
}

my $node = start_server(name => 'original', init => { allows_streaming => 1 });
create_tools($node, 'postgres', 'a');

subtest 'the original is no copy' => sub {
	my $works = sub {
		my ($how) = @_;
		my $id = perform_in($node, 'postgres', "SAME-$how", 'k_ok');
		ok(status_becomes($node, 'postgres', $id, 'confirmed', 45), "$how: sends");
		is(state_in($node, 'postgres')->{state}, 'running', "$how: not fenced");
	};
	$works->('fresh');
	$node->restart;
	$works->('restart');
	$node->stop('immediate');
	$node->start;
	$works->('immediate stop');
	my $session = start_session($node, 'postgres', 'SELECT pg_sleep(100)');
	my $pid;
	poll(sub { $pid = $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE query LIKE '%pg_sleep(100)%' AND pid <> pg_backend_pid()") }, 'a victim is there');
	kill 'KILL', $pid;
	eval { end_session($session) };
	poll_sql($node, 'SELECT true', 'crash recovery is over', 60);
	poll(sub { eval { perform_in($node, 'postgres', 'PROBE', 'k_ok') } }, 'perform works', 60);
	$works->('crash recovery');
	$node->kill9;
	slow_wait_for_start($node);
	$works->('kill -9');
	$node->safe_psql('postgres', 'CHECKPOINT; SELECT pg_switch_wal()');
	$works->('checkpoint');
};

$node->backup('for_standby');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'for_standby', has_streaming => 1);
$standby->start;

my %id = create_actions($node, 'postgres', 'a');
$node->wait_for_catchup($standby);

subtest 'a standby' => sub {
	is($standby->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'actionledger%'"), 0, 'has no worker');
	for my $view (split /\n/, $standby->safe_psql('postgres', q{SELECT relname FROM pg_class WHERE relnamespace = 'actionledger'::regnamespace AND relkind = 'v' ORDER BY 1}))
	{
		my ($out, $err) = ('', '');
		is($standby->psql('postgres', "SELECT * FROM actionledger.$view", stdout => \$out, stderr => \$err), 0, "view $view is readable") or diag $err;
	}
	is($standby->safe_psql('postgres', 'SELECT count(*) FROM actionledger.in_flight'), 2, 'and shows the original\'s state');
	is(state_in($standby, 'postgres', 'launcher')->{state}, 'missing', 'workers: nobody is here');
	like(state_in($standby, 'postgres', 'launcher')->{detail}, qr/standby/, 'and why');
	is($standby->safe_psql('postgres', "SELECT actionledger.result($id{u_hang}) ->> 'ok'"), 'false', 'result answers');
	my ($out, $err) = ('', '');
	isnt($standby->psql('postgres', q{SELECT * FROM actionledger.perform('k_ok', '{"refund_id": "NO", "amount": 1}')}, stdout => \$out, stderr => \$err), 0, 'perform is refused');
	like($err, qr/read-only transaction|recovery/, 'as any write is');
	is(scalar(log_since($standby, 0, qr/ERROR.*actionledger|background worker "actionledger/)), 0, 'the log is quiet');
};

$node->backup('side_by_side');
my $copy = PostgreSQL::Test::Cluster->new('copy');

subtest 'a copy that is started side by side' => sub {
	my $wires = wires($p);
	$copy->init_from_backup($node, 'side_by_side');
	$copy->start;
	is_fenced($copy, 'postgres', qr/inode/, 'copy');
	my $here = perform_in($copy, 'postgres', 'HERE-1', 'k_ok');
	sleep 2;
	is(wires($p), $wires, 'sends nothing');
	my %before = map { $_ => row_in($copy, 'postgres', $id{$_}) } keys %id;
	is($before{u_hang}{status}, 'submitted', 'what was inherited stays as it is until somebody decides');
	$copy->restart;
	is_fenced($copy, 'postgres', qr/inode/, 'copy, restarted');
	is(wires($p), $wires, 'sends nothing');

	my ($out, $err) = ('', '');
	isnt($copy->psql('postgres', q{SELECT actionledger.resume_dispatch('clone', 'x')}, stdout => \$out, stderr => \$err), 0, 'an unknown way is refused');
	$copy->safe_psql('postgres', 'CREATE ROLE nobody LOGIN');
	isnt($copy->psql('postgres', q{SELECT actionledger.resume_dispatch('copy', 'x')}, extra_params => [ '-U', 'nobody' ], stderr => \$err), 0, 'and one who may not');

	$copy->safe_psql('postgres', q{SELECT actionledger.resume_dispatch('copy', 'a copy for tests')});
	is(wait_state($copy, 'postgres', 'running', 30)->{state}, 'running', 'resumed: running');
	for (sort keys %id)
	{
		my $row = row_in($copy, 'postgres', $id{$_});
		is("$row->{status} $row->{next_step} " . ($row->{error_code} // ''), 'failed none inherited', "inherited $_: abandoned");
	}
	is($copy->safe_psql('postgres', "SELECT count(*) FROM actionledger.event WHERE what = 'inherited' AND note LIKE '%a copy for tests%'"), 4, 'with the reason');
	ok(status_becomes($copy, 'postgres', $here, 'confirmed', 30), 'what was performed on the copy itself is sent');
	my $new = perform_in($copy, 'postgres', 'HERE-2', 'u_ok');
	ok(status_becomes($copy, 'postgres', $new, 'confirmed', 30), 'new ones are sent');
	is(wires($p), $wires + 2, 'and nothing else');
	$copy->restart;
	is(wait_state($copy, 'postgres', 'running', 30)->{state}, 'running', 'it stays resumed');
	$copy->stop;
};

is(state_in($node, 'postgres')->{state}, 'running', 'the original is not disturbed');

subtest 'a standby that is promoted' => sub {
	$node->wait_for_catchup($standby);
	my $wires = wires($p);
	$node->stop('immediate');
	$standby->promote;
	is_fenced($standby, 'postgres', qr/timeline/, 'promoted');
	sleep 2;
	is(wires($p), $wires, 'sends nothing');
	is(row_in($standby, 'postgres', $id{u_hang})->{status}, 'submitted', 'nothing is decided yet');
	$standby->safe_psql('postgres', q{SELECT actionledger.resume_dispatch('successor', 'the original is gone')});
	is(wait_state($standby, 'postgres', 'running', 30)->{state}, 'running', 'successor: running');
	ok(status_becomes($standby, 'postgres', $id{u_hang}, 'needs_reconciliation', 30), 'in flight without a key: unknown');
	is(row_in($standby, 'postgres', $id{u_hang})->{next_step}, 'review', 'a person decides');
	is(scalar(received($p, $id{u_hang})), 1, 'and it is not sent again');
	is($standby->safe_psql('postgres', "SELECT verdict || ' ' || category FROM actionledger.attempt WHERE action_id = $id{u_hang}"), 'unknown worker_lost', 'the attempt has an end');
	ok(status_becomes($standby, 'postgres', $id{k_hang}, 'confirmed', 60), 'in flight with a key: sent again with it, confirmed');
	is(row_in($standby, 'postgres', $id{k_hang})->{confirmed_by}, 'replay', 'by the replay');
	is(effects($p, $id{k_hang}), 1, 'with one effect');
	ok(status_becomes($standby, 'postgres', $id{$_}, 'confirmed', 60), "prepared $_: flows") for qw(k_ok u_ok);
	is(scalar(received($p, $id{$_})), 1, "$_: sent once") for qw(k_ok u_ok);
	$standby->restart;
	my $new = perform_in($standby, 'postgres', 'AFTER', 'u_ok');
	ok(status_becomes($standby, 'postgres', $new, 'confirmed', 30), 'it stays the home');
	$standby->stop;
};

subtest 'a dump' => sub {
	my $from = start_server(name => 'dumped');
	create_tools($from, 'postgres', 'd');
	my $done = perform_in($from, 'postgres', 'DONE', 'k_ok');
	ok(status_becomes($from, 'postgres', $done, 'confirmed'), 'there is a history');
	my %id = create_actions($from, 'postgres', 'd');
	my $dir = PostgreSQL::Test::Utils::tempdir();
	for my $n (1, 2)
	{
		$from->command_ok([ 'pg_dump', '-f', "$dir/$n.sql", '-d', $from->connstr('postgres') ], "dump $n");
	}
	my ($one, $two) = map { slurp_file("$dir/$_.sql") =~ s/^\\(?:un)?restrict .*$//mgr } 1, 2;
	is($two, $one, 'two dumps have the same text');
	$from->command_ok([ 'pg_dump', '-Fc', '-f', "$dir/c", '-d', $from->connstr('postgres') ], 'custom format');
	my $wires = wires($p);
	my $before = contents($from, 'postgres');

	my $other = start_server(name => 'other', extension => 0);
	for my $target ([ $other, 'another cluster', qr/system identifier/ ], [ $from, 'another database of the cluster', qr/database OID/ ])
	{
		my ($to, $name, $why) = @$target;
		$to->safe_psql('postgres', 'CREATE DATABASE loaded');
		$to->command_ok([ 'pg_restore', '-e', '-d', $to->connstr('loaded'), "$dir/c" ], "$name: restored");
		is_deeply(contents($to, 'loaded'), $before, "$name: everything is there, sequences go on") or diag explain [ contents($to, 'loaded'), $before ];
		my $here = perform_in($to, 'loaded', 'HERE', 'k_ok');
		cmp_ok($here, '>', $id{u_ok}, "$name: numbers go on");
		is_fenced($to, 'loaded', $why, $name);
		is($to->safe_psql('loaded', q{SELECT created FROM actionledger.perform('k_ok', '{"refund_id": "DONE", "amount": 100}')}), 'f',
			"$name: what was done is known");
		sleep 1;
		is(wires($p), $wires, "$name: nothing is sent");
		$to->safe_psql('loaded', q{SELECT actionledger.resume_dispatch('copy', 'loaded')});
		ok(status_becomes($to, 'loaded', $here, 'confirmed', 30), "$name: resumed, new ones flow");
		is($to->safe_psql('loaded', "SELECT string_agg(DISTINCT error_code, ',') FROM actionledger.action WHERE action_id IN (" . join(',', values %id) . ')'), 'inherited',
			"$name: inherited ones are abandoned");
		$wires = wires($p);
		$to->restart if $to == $other;
		$to->safe_psql('postgres', 'DROP DATABASE loaded');
	}

	# With the database's own settings, below a launcher that is eager.
	$other->append_conf('postgresql.conf', "actionledger.poll_interval = '10ms'");
	$other->reload;
	$from->command_ok([ 'pg_dump', '-Fc', '-C', '-f', "$dir/create", '-d', $from->connstr('postgres') ], 'dump with the settings');
	$wires = wires($p);
	for my $round (1 .. 3)
	{
		$other->safe_psql('template1', 'DROP DATABASE postgres');
		$other->command_ok([ 'pg_restore', '-e', '-C', '-d', $other->connstr('template1'), "$dir/create" ], "with -C, round $round: restored");
		is_fenced($other, 'postgres', qr/system identifier/, "with -C, round $round");
		is(wires($p), $wires, "with -C, round $round: nothing is sent");
	}
	$other->stop;
	$from->stop('immediate');
};

subtest 'a dump taken before anybody has sent' => sub {
	my $cold = start_server(name => 'cold', conf => "shared_preload_libraries = ''\n", extension => 0);
	create_ledger($cold, 'postgres', $p, path => 'cold');
	my $id = perform_in($cold, 'postgres', 'COLD');
	my $dir = PostgreSQL::Test::Utils::tempdir();
	$cold->command_ok([ 'pg_dump', '-Fc', '-f', "$dir/c", '-d', $cold->connstr('postgres') ], 'dumped');
	my $warm = start_server(name => 'warm', extension => 0);
	$warm->safe_psql('postgres', 'CREATE DATABASE loaded');
	$warm->command_ok([ 'pg_restore', '-e', '-d', $warm->connstr('loaded'), "$dir/c" ], 'restored');
	perform_in($warm, 'loaded', 'WARM');
	is_fenced($warm, 'loaded', qr/system identifier/, 'the restored one');
	is(wires($p, qr/db=cold/), 0, 'nothing is sent');
	$cold->append_conf('postgresql.conf', "shared_preload_libraries = 'actionledger'");
	$cold->restart;
	ok(status_becomes($cold, 'postgres', $id, 'confirmed', 30), 'the original sends');
	is(wires($p, qr/db=cold/), 1, 'once');
	$_->stop for $cold, $warm;
};

subtest 'rows that arrive from elsewhere' => sub {
	my $left = start_server(name => 'left', init => { allows_streaming => 'logical' });
	create_ledger($left, 'postgres', $p, exists => 1, path => 'logical');
	my $right = start_server(name => 'right');
	create_ledger($right, 'postgres', $p, exists => 1, path => 'logical');
	wait_state($right, 'postgres', 'running', 20);
	$left->safe_psql('postgres', 'ALTER DATABASE postgres SET actionledger.enabled = off');
	poll(sub { !dispatchers_in($left, 'postgres') }, 'the publisher rests', 20);
	my @ids = map { perform_in($left, 'postgres', "L-$_") } 1 .. 3;
	$left->safe_psql('postgres', 'CREATE PUBLICATION all_of_it FOR TABLE actionledger.action, actionledger.due');
	my $connection = $left->connstr('postgres') =~ s/'/''/gr;
	$right->safe_psql('postgres', "CREATE SUBSCRIPTION all_of_it CONNECTION '$connection' PUBLICATION all_of_it");
	poll_in($right, 'postgres', 'SELECT count(*) = 3 FROM actionledger.due', 'the rows are here');
	$right->safe_psql('postgres', q{SELECT setval('actionledger.action_seq', 1000)});
	my $own = perform_in($right, 'postgres', 'OWN');
	ok(status_becomes($right, 'postgres', $own, 'confirmed'), 'a subscriber sends its own');
	sleep 1;
	is(wires($p, qr/db=logical/), 1, 'and none of the publisher\'s');
	$left->safe_psql('postgres', 'ALTER DATABASE postgres SET actionledger.enabled = on');
	ok(status_becomes($left, 'postgres', $_, 'confirmed'), 'the publisher sends its own') for @ids;
	$right->safe_psql('postgres', 'DROP SUBSCRIPTION all_of_it');
	$_->stop for $left, $right;
};

done_testing();
