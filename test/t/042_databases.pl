# What is done to a database whose dispatcher is connected: dropped, renamed,
# copied, moved, closed; and the extension dropped below it.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;
use Lifecycle;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(sleep time);

my $p = start_provider();
my $node = start_server(conf => "max_worker_processes = 20\n");
my $start = postmaster_start($node);

# Run a statement about a database; returns how long it took, undef when it failed.
sub timed
{
	my ($sql) = @_;
	my ($out, $err) = ('', '');
	my $t = time;
	my $rc = $node->psql('postgres', $sql, stdout => \$out, stderr => \$err, timeout => 60);
	diag $err if !defined $rc || $rc != 0;
	return defined $rc && $rc == 0 ? time - $t : undef;
}

# Run a statement that must succeed while the dispatcher of a database is connected.
sub succeeds_soon
{
	my ($db, $sql, $what) = @_;
	poll(sub { dispatchers_in($node, $db) }, "a dispatcher of $db is connected");
	my $took = timed($sql);
	ok(defined $took && $took < 20, "$what: succeeds") or diag 'after ' . ($took // 'no') . ' s';	# the copying itself takes a while on a busy disk
	return defined $took;
}

subtest 'the extension is dropped' => sub {
	create_ledger($node, 'ext', $p, path => 'ext');
	tool_in($node, 'ext', tool => 'hang', do => 'late:4000', timeout => '20s', path => 'ext_hang');
	my $hanging = perform_in($node, 'ext', 'H-1', 'hang');
	poll(sub { wires($p, qr/db=ext_hang/) }, 'a call is in flight');
	my ($out, $err) = ('', '');
	my $rc = $node->psql('ext', 'DROP EXTENSION actionledger', stdout => \$out, stderr => \$err);
	isnt($rc, 0, 'with a live action: refused');
	like($err, qr/ERROR: .*live action.*HINT: .*CASCADE/s, 'with a hint');
	my $mark = log_mark($node);
	$node->safe_psql('ext', q{
		ALTER DATABASE ext SET actionledger.enabled = off;
		SELECT action_id FROM actionledger.perform('refund', '{"refund_id": "PREPARED", "amount": 1}');
		SELECT action_id FROM actionledger.perform('refund', '{"refund_id": "PREPARED-2", "amount": 1}');
		DROP EXTENSION actionledger CASCADE});
	pass('CASCADE drops it');
	ok(eval { poll(sub { !dispatchers_in($node, 'ext') }, 'the dispatcher leaves', 20) }, 'the dispatcher leaves');
	poll(sub { grep { $_->{ev} eq 'closed' || $_->{ev} eq 'answered' } truth($p) }, 'the call has ended');
	my @lines = log_events($node, $mark);
	cmp_ok(scalar(@lines), '<=', 8, 'a few lines in the log') or diag @lines;
	is(scalar(grep { /PANIC|terminated by signal/ } @lines), 0, 'nothing crashed');
	is(wires($p, qr/db=ext\b/), 0, 'what was prepared is never sent');
	is(wires($p, qr/db=ext_hang/), 1, 'what was in flight is not sent again');

	# Its successor is another ledger: answers to the old one's calls are no evidence there.
	create_ledger($node, 'twice', $p, path => 'twice_old', do => 'late:2500', timeout => '20s');
	$node->safe_psql('postgres', "ALTER SYSTEM SET actionledger.poll_interval = '60s'");
	$node->reload;
	my $old = perform_in($node, 'twice', 'T-1');
	poll(sub { wires($p, qr/db=twice_old/) }, 'a call of the first ledger is in flight');
	$node->safe_psql('twice', 'DROP EXTENSION actionledger CASCADE; CREATE EXTENSION actionledger');
	create_ledger($node, 'twice', $p, exists => 1, path => 'twice_new', do => 'noexec_hang', timeout => '20s');
	my $new = perform_in($node, 'twice', 'T-2');
	is($new, $old, 'the second ledger gives the same number again');
	my ($call) = grep { $_->{ev} eq 'received' && $_->{path} =~ /db=twice_old/ } truth($p);
	poll(sub { grep { $_->{ev} eq 'closed' && $_->{conn} == $call->{conn} } truth($p) }, 'the old call has ended');
	ok(eval { poll(sub { wires($p, qr/db=twice_new/) }, 'the new one is sent', 30) }, 'the second ledger sends its own action');
	sleep 0.5;
	my $row = row_in($node, 'twice', $new);
	is($row->{status}, 'submitted', 'the answer to the old call proves nothing here');
	is($row->{external_ref}, undef, 'no reference either');
	my $ns = $node->safe_psql('twice', 'SELECT namespace FROM actionledger.ledger');
	my ($seen) = grep { $_->{ev} eq 'received' && $_->{path} =~ /db=twice_new/ } truth($p);
	is($seen->{action}, "$ns/$new", 'requests carry the new ledger\'s namespace');
	is($node->safe_psql('twice', 'SELECT count(*) FROM actionledger.incarnation WHERE ended_at IS NULL'), 1, 'by an incarnation of the new ledger');
	is($node->safe_psql('twice', 'SELECT system_id IS NOT NULL FROM actionledger.ledger'), 't', 'which has its home');
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET actionledger.poll_interval');
	$node->reload;
};

subtest 'the database is dropped' => sub {
	create_ledger($node, 'gone', $p, path => 'gone');
	my $id = perform_in($node, 'gone', 'G-1');
	ok(status_becomes($node, 'gone', $id, 'confirmed'), 'its dispatcher works');
	my $mark = log_mark($node);
	succeeds_soon('gone', 'DROP DATABASE gone', 'DROP DATABASE');
	create_ledger($node, 'gone', $p, path => 'gone2');
	$id = perform_in($node, 'gone', 'G-1');
	ok(status_becomes($node, 'gone', $id, 'confirmed'), 'a database of the same name is another one');
	is(wires($p, qr/db=gone2/), 1, 'which sends');

	create_ledger($node, 'forced', $p, path => 'forced');
	tool_in($node, 'forced', tool => 'hang', do => 'hang', timeout => '60s', path => 'forced_hang');
	perform_in($node, 'forced', 'F-1', 'hang');
	poll(sub { wires($p, qr/db=forced_hang/) }, 'a call is in flight');
	succeeds_soon('forced', 'DROP DATABASE forced WITH (FORCE)', 'WITH (FORCE), a call in flight');
	sleep 6;	# longer than the launcher's poll
	my @lines = log_events($node, $mark);
	cmp_ok(scalar(@lines), '<=', 12, 'a few lines in the log') or diag @lines;
};

subtest 'others are connected' => sub {
	create_ledger($node, 'busy', $p, path => 'busy');
	poll(sub { dispatchers_in($node, 'busy') }, 'a dispatcher is connected');
	my $session = start_session($node, 'busy', 'SELECT pg_sleep(60)');
	poll_sql($node, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = 'busy' AND query LIKE '%pg_sleep%')", 'a session is connected');
	my ($out, $err) = ('', '');
	$node->psql('postgres', 'DROP DATABASE busy', stdout => \$out, stderr => \$err);
	like($err, qr/being accessed by other users.*1 other session/s, 'a failed DROP DATABASE blames the other session only');
	my $id = perform_in($node, 'busy', 'B-1');
	ok(status_becomes($node, 'busy', $id, 'confirmed', 20), 'and the dispatcher comes back');
	$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'busy' AND query LIKE '%pg_sleep%'");
	eval { end_session($session) };

	$node->safe_psql('postgres', 'CREATE ROLE stranger LOGIN');
	my ($pid) = dispatchers_in($node, 'busy');
	$node->psql('postgres', 'DROP DATABASE busy', extra_params => [ '-U', 'stranger' ], stderr => \$err);
	like($err, qr/must be owner/, 'who may not drop it is refused');
	$node->psql('postgres', 'ALTER DATABASE busy RENAME TO mine', extra_params => [ '-U', 'stranger' ], stderr => \$err);
	$node->psql('postgres', 'CREATE DATABASE mine TEMPLATE busy', extra_params => [ '-U', 'stranger' ], stderr => \$err);
	is((dispatchers_in($node, 'busy'))[0], $pid, 'and does not disturb its dispatcher');
};

subtest 'renamed, copied, moved' => sub {
	create_ledger($node, 'before', $p, path => 'before');
	tool_in($node, 'before', tool => 'slow', do => 'late:1000', mode => 'unkeyed', timeout => '20s', path => 'before_slow');
	poll(sub { dispatchers_in($node, 'before') }, 'a dispatcher is connected');
	my $slow = perform_in($node, 'before', 'S-1', 'slow');
	poll(sub { wires($p, qr/db=before_slow/) }, 'a call is in flight');
	succeeds_soon('before', 'ALTER DATABASE before RENAME TO after', 'RENAME with a call in flight');
	ok(status_becomes($node, 'after', $slow, 'confirmed', 20), 'the answer was waited for');
	my $id = perform_in($node, 'after', 'R-1');
	ok(status_becomes($node, 'after', $id, 'confirmed', 20), 'the dispatcher comes back to the renamed one');

	succeeds_soon('after', 'CREATE DATABASE clone TEMPLATE after', 'CREATE DATABASE TEMPLATE');
	$id = perform_in($node, 'after', 'R-2');
	ok(status_becomes($node, 'after', $id, 'confirmed', 20), 'the dispatcher comes back to the original');
	my $copied = perform_in($node, 'clone', 'C-1');
	my $row = wait_state($node, 'clone', 'fenced', 20);
	is($row->{state}, 'fenced', 'the clone is fenced');
	like($row->{detail}, qr/database OID/, 'because of its OID');
	is(row_in($node, 'clone', $copied)->{status}, 'prepared', 'and sends nothing');

	my $space = PostgreSQL::Test::Utils::tempdir();
	$node->safe_psql('postgres', "CREATE TABLESPACE elsewhere LOCATION '$space'");
	succeeds_soon('after', 'ALTER DATABASE after SET TABLESPACE elsewhere', 'SET TABLESPACE');
	$id = perform_in($node, 'after', 'R-3');
	ok(status_becomes($node, 'after', $id, 'confirmed', 20), 'the dispatcher comes back to the moved one');
};

subtest 'closed' => sub {
	create_ledger($node, 'shut', $p, path => 'shut');
	poll(sub { dispatchers_in($node, 'shut') }, 'a dispatcher is connected');
	my $pooled = start_session($node, 'shut', q{
		SELECT pg_sleep(2);
		SELECT action_id FROM actionledger.perform('refund', '{"refund_id": "SHUT", "amount": 1}');
		SELECT pg_sleep(8)});
	poll_sql($node, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = 'shut' AND query LIKE '%pg_sleep%')", 'a session is connected');
	my $mark = log_mark($node);
	$node->safe_psql('postgres', 'ALTER DATABASE shut ALLOW_CONNECTIONS false');
	ok(eval { poll(sub { !dispatchers_in($node, 'shut') }, 'the dispatcher leaves', 15) }, 'the dispatcher leaves');
	ok(end_session($pooled), 'a session that was there has performed');
	my @lines = log_events($node, $mark);
	cmp_ok(scalar(@lines), '<=', 4, 'no busy loop') or diag @lines;
	is(wires($p, qr/db=shut/), 0, 'nothing was sent');
	$node->safe_psql('postgres', 'ALTER DATABASE shut ALLOW_CONNECTIONS true');
	ok(eval { poll(sub { wires($p, qr/db=shut/) }, 'sent', 20) }, 'open again: it is sent');
};

subtest 'a session decides in a ledger that was created anew' => sub {
	my $life = q{
		CREATE EXTENSION actionledger;
		SELECT FROM actionledger.create_service('pay', 'http://127.0.0.1:1', '{"allow_private": true, "idempotency": "none"}');
		SELECT FROM actionledger.create_tool('refund', 'pay', 'POST /x', identity => 'refund:{n}', input => '{"properties": {"n": {"type": "string"}}}', options => '{"approval": "never"}');
		SELECT status FROM actionledger.cancel((SELECT action_id FROM actionledger.perform('refund', '{"n": "1"}')))};

	$node->safe_psql('postgres', 'CREATE DATABASE anew; ALTER DATABASE anew SET actionledger.enabled = off');
	is($node->safe_psql('anew', "$life; DROP EXTENSION actionledger CASCADE; $life"), "failed\nfailed", 'cancelled in both');
};

is(postmaster_start($node), $start, 'the server has not restarted');
$node->stop;
done_testing();
