# Only what a transaction has committed is sent, and all of it, however late.
use strict;
use warnings;
use IPC::Run ();
use Test::More;
use lib 'test/lib';
use Ledger;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(time);

my $node = start_server();
my $p = start_provider();
refund_service($node, $p);
refund_tool($node);

# An expression that performs the refund of that name, as text.
sub call
{
	my ($refund_id) = @_;
	return qq{actionledger.perform('refund', '{"refund_id": "$refund_id", "amount": 1}')};
}

# Performs a range of refunds in one statement.
sub calls
{
	my ($prefix, $n) = @_;
	return qq{SELECT count(*) FROM generate_series(1, $n) i,
	  LATERAL actionledger.perform('refund', jsonb_build_object('refund_id', '$prefix-' || i, 'amount', i))};
}

# Run a script in one session that goes on after errors; returns what it printed.
sub script
{
	my ($sql) = @_;
	my ($out, $err) = ('', '');
	$node->psql('postgres', $sql, stdout => \$out, stderr => \$err, on_error_stop => 0, timeout => 120);
	return wantarray ? ($out, $err) : $out;
}

# Start a session that runs these statements, one after the other.
sub start_psql
{
	my ($out, $err, @statements) = @_;
	return IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), map { ('-c', $_) } @statements ], '<', \undef, '>', $out, '2>', $err);
}

sub poll_interval
{
	my ($value) = @_;
	$node->safe_psql('postgres', "ALTER SYSTEM SET actionledger.poll_interval = '$value'");
	$node->reload;
	poll_sql($node, "SELECT current_setting('actionledger.poll_interval') = '$value'", "poll_interval is $value");
	return;
}

# Names of the refunds in the ledger, and of those that reached the provider.
sub recorded
{
	my ($like) = @_;
	return sort split /\n/,
	  $node->safe_psql('postgres', "SELECT args ->> 'refund_id' FROM actionledger.action WHERE args ->> 'refund_id' LIKE '$like'");
}

sub arrived
{
	my ($like) = @_;
	my %name = map { split /\|/ } split /\n/,
	  $node->safe_psql('postgres', "SELECT action_id, args ->> 'refund_id' FROM actionledger.action WHERE args ->> 'refund_id' LIKE '$like'");
	my %seen = map { m{/(\d+)$} ? ($1 => 1) : () } map { $_->{action} // '' } grep { $_->{ev} eq 'received' } truth($p);
	return sort map { $name{$_} } grep { $seen{$_} } keys %name;
}

# What is expected of a group of refunds: these are recorded, received and executed once each.
sub is_sent
{
	my ($like, $expected, $name) = @_;
	my @expected = sort @$expected;
	poll_sql($node, "SELECT count(*) = 0 FROM actionledger.action WHERE args ->> 'refund_id' LIKE '$like' AND status <> 'confirmed'",
		"$name: all that is recorded is confirmed", 60);
	is_deeply([ recorded($like) ], \@expected, "$name: recorded");
	is_deeply([ arrived($like) ], \@expected, "$name: received");
	return;
}

# ---------------------------------------------------------------------------
# Rollback, savepoints, subtransactions
# ---------------------------------------------------------------------------
script("BEGIN; SELECT @{[ call('rollback-1') ]}; ROLLBACK;");
script("BEGIN; SELECT @{[ call('rollback-2') ]}; SELECT 1/0; COMMIT;");
script("SELECT @{[ call('rollback-3') ]}, 1/0;");
is_sent('rollback-%', [], 'rollback');

script(<<"SQL");
BEGIN;
SELECT @{[ call('savepoint-kept-before') ]};
SAVEPOINT a;
SELECT @{[ call('savepoint-gone-1') ]};
ROLLBACK TO a;
SELECT @{[ call('savepoint-kept-between') ]};
SAVEPOINT b;
SELECT @{[ call('savepoint-kept-released') ]};
RELEASE b;
SAVEPOINT c;
SELECT @{[ call('savepoint-gone-2') ]};
SAVEPOINT d;
SELECT @{[ call('savepoint-gone-nested') ]};
RELEASE d;
ROLLBACK TO c;
COMMIT;
SQL
is_sent('savepoint-%', [ map { "savepoint-kept-$_" } qw(before between released) ], 'savepoints');

script(<<"SQL");
DO \$\$
BEGIN
    PERFORM @{[ call('block-kept-outer') ]};
    BEGIN
        PERFORM @{[ call('block-gone-1') ]};
        RAISE EXCEPTION 'undone';
    EXCEPTION WHEN raise_exception THEN
        PERFORM @{[ call('block-kept-handler') ]};
    END;
    BEGIN
        BEGIN
            PERFORM @{[ call('block-gone-inner-committed') ]};
        EXCEPTION WHEN OTHERS THEN
            NULL;
        END;
        PERFORM 1/0;
    EXCEPTION WHEN division_by_zero THEN
        NULL;
    END;
    BEGIN
        PERFORM @{[ call('block-kept-inner') ]};
        BEGIN
            PERFORM @{[ call('block-gone-inner') ]};
            PERFORM 1/0;
        EXCEPTION WHEN division_by_zero THEN
            NULL;
        END;
    EXCEPTION WHEN OTHERS THEN
        NULL;
    END;
END
\$\$;
SQL
is_sent('block-%', [ map { "block-kept-$_" } qw(outer handler inner) ], 'exception blocks');

# A refused call leaves the transaction usable after a savepoint.
script(<<"SQL");
BEGIN;
SELECT @{[ call('refused-kept-before') ]};
SAVEPOINT a;
SELECT actionledger.perform('refund', '{"refund_id": "refused-gone", "amount": "much"}');
ROLLBACK TO a;
SELECT @{[ call('refused-kept-after') ]};
COMMIT;
SQL
is_sent('refused-%', [ map { "refused-kept-$_" } qw(before after) ], 'a refused call');

# ---------------------------------------------------------------------------
# The wake-up: without the poll, only the wake list of the transaction helps
# ---------------------------------------------------------------------------
poll_interval('1min');
{
	my %woken = (
		plain => "SELECT %s;",
		kept => "BEGIN; SELECT %s; SAVEPOINT a; SELECT @{[ call('wake-gone-1') ]}; ROLLBACK TO a; COMMIT;",
		released => "BEGIN; SAVEPOINT a; SELECT %s; RELEASE a; COMMIT;",
		nested => "BEGIN; SAVEPOINT a; SAVEPOINT b; SELECT %s; RELEASE b; RELEASE a; COMMIT;",
		later => "BEGIN; SAVEPOINT a; SELECT @{[ call('wake-gone-2') ]}; ROLLBACK TO a; SELECT %s; COMMIT;",
		deep => "BEGIN; SAVEPOINT a; SELECT %s; SAVEPOINT b; SELECT @{[ call('wake-gone-3') ]}; ROLLBACK TO b; RELEASE a; COMMIT;");
	my $begun = time;

	for my $name (sort keys %woken)
	{
		script(sprintf $woken{$name}, call("wake-$name"));
		poll(sub { grep { $_ eq "wake-$name" } arrived('wake-%') }, "wake-up ($name): it is received", 20);
		pass("wake-up ($name): sent long before the next poll");
	}
	is_sent('wake-%', [ map { "wake-$_" } keys %woken ], 'wake-up');
	cmp_ok(time - $begun, '<', 55, 'wake-up: the poll had no part in it');
}

# ---------------------------------------------------------------------------
# An insert that commits late, behind hundreds that are sent
# ---------------------------------------------------------------------------
{
	my $session = $node->background_psql('postgres');

	$session->query_safe('BEGIN');
	$session->query_safe("SELECT @{[ call('late-first') ]}");
	script(calls('late-other', 300) . ';');
	poll_sql($node, "SELECT count(*) = 300 FROM actionledger.actions WHERE identity LIKE 'refund:late-other-%' AND status = 'confirmed'",
		'300 others are confirmed', 60);
	is_deeply([ grep { $_ eq 'late-first' } arrived('late-%') ], [], 'late commit: not received before');
	$session->query_safe('COMMIT');
	poll(sub { grep { $_ eq 'late-first' } arrived('late-first') }, 'the late one is received', 20);
	pass('late commit: received soon after, by its wake-up');
	is_sent('late-%', [ 'late-first', map { "late-other-$_" } 1 .. 300 ], 'late commit');
	$session->quit;
}

# ---------------------------------------------------------------------------
# Prepared transactions: no wake-up, the full rescan finds them
# ---------------------------------------------------------------------------
poll_interval('1s');
script("BEGIN; SELECT @{[ call('prepared-committed') ]}; SAVEPOINT a; SELECT @{[ call('prepared-gone') ]}; ROLLBACK TO a; PREPARE TRANSACTION 'committed';");
script("BEGIN; SELECT @{[ call('prepared-rolled-back') ]}; PREPARE TRANSACTION 'rolled back';");
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts'), '2', 'two transactions are prepared');
script(calls('prepared-other', 300) . ';');
poll_sql($node, "SELECT count(*) = 300 FROM actionledger.actions WHERE identity LIKE 'refund:prepared-other-%' AND status = 'confirmed'",
	'300 others are confirmed', 60);
turns_pass($node, 3);
{
	my @before = map { $_->{op} } grep { $_->{ev} eq 'received' } truth($p);
	my $begun = time;

	script("COMMIT PREPARED 'committed';");
	poll(sub { grep { $_ eq 'prepared-committed' } arrived('prepared-committed') }, 'what was prepared is received', 20);
	my ($received) = received($p, $node->safe_psql('postgres', "SELECT action_id FROM actionledger.actions WHERE identity = 'refund:prepared-committed'"));
	is(scalar(grep { $_ eq $received->{op} } @before), 0, 'PREPARE TRANSACTION: nothing is sent while it is prepared');
	cmp_ok($received->{t} - $begun, '>', -0.1, 'COMMIT PREPARED: sent after it');
	cmp_ok($received->{t} - $begun, '<', 1 + 2, 'COMMIT PREPARED: sent within the poll bound, without a wake-up');
	note(sprintf 'sent %.3f s after COMMIT PREPARED', $received->{t} - $begun);
}
script("ROLLBACK PREPARED 'rolled back';");
turns_pass($node, 3);
is_sent('prepared-%', [ 'prepared-committed', map { "prepared-other-$_" } 1 .. 300 ], 'prepared transactions');

# ---------------------------------------------------------------------------
# Callers: triggers, functions, several levels of them
# ---------------------------------------------------------------------------
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE orders (name text PRIMARY KEY, deferred bool);
CREATE FUNCTION refund_order() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM actionledger.perform('refund', jsonb_build_object('refund_id', NEW.name, 'amount', 1));
    RETURN NULL;
END $$;
CREATE TRIGGER at_once AFTER INSERT ON orders FOR EACH ROW WHEN (NOT NEW.deferred) EXECUTE FUNCTION refund_order();
CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.deferred) EXECUTE FUNCTION refund_order();
CREATE FUNCTION refund_all(prefix text, n int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    done int := 0;
BEGIN
    FOR i IN 1 .. n LOOP
        BEGIN
            PERFORM actionledger.perform('refund', jsonb_build_object('refund_id', prefix || i, 'amount', i));
            IF i % 3 = 0 THEN
                RAISE EXCEPTION 'every third fails';
            END IF;
            done := done + 1;
        EXCEPTION WHEN raise_exception THEN
            NULL;
        END;
    END LOOP;
    RETURN done;
END $$;
CREATE PROCEDURE refund_and_commit(prefix text) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM actionledger.perform('refund', jsonb_build_object('refund_id', prefix || 'first', 'amount', 1));
    COMMIT;
    PERFORM actionledger.perform('refund', jsonb_build_object('refund_id', prefix || 'second', 'amount', 1));
    ROLLBACK;
    PERFORM actionledger.perform('refund', jsonb_build_object('refund_id', prefix || 'third', 'amount', 1));
END $$;
SQL
script(<<'SQL');
INSERT INTO orders VALUES ('trigger-1', false), ('trigger-2', true);
BEGIN;
INSERT INTO orders VALUES ('trigger-undone-1', false), ('trigger-undone-2', true);
ROLLBACK;
BEGIN;
INSERT INTO orders VALUES ('trigger-3', true);
SAVEPOINT a;
INSERT INTO orders VALUES ('trigger-undone-3', true), ('trigger-undone-4', false);
ROLLBACK TO a;
COMMIT;
SQL
is_sent('trigger-%', [ map { "trigger-$_" } 1 .. 3 ], 'triggers, immediate and deferred');
is(script("SELECT refund_all('function-', 10);"), '7', 'a function performs ten, three of them undone');
is_sent('function-%', [ map { "function-$_" } grep { $_ % 3 } 1 .. 10 ], 'PL/pgSQL function');
script("CALL refund_and_commit('procedure-');");
is_sent('procedure-%', [ map { "procedure-$_" } qw(first third) ], 'procedure with transactions of its own');

# ---------------------------------------------------------------------------
# 55 performs, then a cancel
# ---------------------------------------------------------------------------
{
	my ($out, $err) = script("SET statement_timeout = '500ms'; BEGIN; @{[ calls('timeout-1', 55) ]}; SELECT pg_sleep(60); COMMIT;");
	like($err, qr/canceling statement due to statement timeout/, 'statement timeout after 55 performs');
	($out, $err) = script("SET statement_timeout = '1s'; @{[ calls('timeout-2', 55) ]}, LATERAL (SELECT pg_sleep(CASE i WHEN 55 THEN 60 ELSE 0 END)) s;");
	like($err, qr/canceling statement due to statement timeout/, 'statement timeout in the statement of 55 performs');
	is_sent('timeout-%', [], 'statement timeout');

	($out, $err) = script("BEGIN; @{[ calls('part-kept', 55) ]}; SAVEPOINT a; SET LOCAL statement_timeout = '500ms'; @{[ calls('part-gone', 20) ]};
	  SELECT pg_sleep(60); ROLLBACK TO a; COMMIT;");
	like($err, qr/canceling statement due to statement timeout/, 'statement timeout after a savepoint');
	is_sent('part-%', [ map { "part-kept-$_" } 1 .. 55 ], 'statement timeout, undone to a savepoint');

	for my $how (qw(pg_cancel_backend pg_terminate_backend))
	{
		($out, $err) = ('', '');
		my $psql = start_psql(\$out, \$err, 'BEGIN', "SET LOCAL application_name = '$how'", calls($how, 55), 'SELECT pg_sleep(300)', 'COMMIT');
		poll_sql($node, "SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = '$how' AND wait_event = 'PgSleep'", 'it sleeps after 55 performs');
		$node->safe_psql('postgres', "SELECT $how(pid) FROM pg_stat_activity WHERE application_name = '$how'");
		$psql->finish;
		like($err, qr/canceling statement due to user request|terminating connection due to administrator command/, "$how after 55 performs");
		is_sent("$how%", [], $how);
	}
}

# ---------------------------------------------------------------------------
# Twenty sessions with one identity, at once
# ---------------------------------------------------------------------------
{
	my $gate = $node->background_psql('postgres');
	my @sessions;

	$gate->query_safe('SELECT pg_advisory_lock(42)');
	for my $i (1 .. 20)
	{
		my %s = (out => '', err => '');
		$s{run} = start_psql(\$s{out}, \$s{err}, 'SELECT pg_advisory_lock_shared(42)', "SELECT 'created', created, action_id FROM @{[ call('same-1') ]}");
		push @sessions, \%s;
	}
	poll_sql($node, "SELECT count(*) = 20 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted", 'twenty sessions wait at the gate', 60);
	$gate->query_safe('SELECT pg_advisory_unlock(42)');
	$_->{run}->finish for @sessions;
	$gate->quit;

	my @answers = map { $_->{out} =~ /^created\|(\w)\|(\d+)$/m ? [ $1, $2 ] : ['?', $_->{err}] } @sessions;
	is(scalar(grep { $_->[0] eq 't' } @answers), 1, 'twenty at once: one has created it');
	is(scalar(grep { $_->[0] eq 'f' } @answers), 19, 'twenty at once: nineteen have created = false') or diag(explain(\@answers));
	is(scalar(keys %{ { map { $_->[1] => 1 } @answers } }), 1, 'twenty at once: all have the same action');
	is_sent('same-%', ['same-1'], 'twenty at once');
	is(scalar(received($p, $answers[0][1])), 1, 'twenty at once: sent once');
	is(effects($p, $answers[0][1]), 1, 'twenty at once: executed once');
}

# The same while the first one has not ended: who waits gets it when it rolls back.
{
	my $session = $node->background_psql('postgres');
	my ($out, $err) = ('', '');

	$session->query_safe('BEGIN');
	$session->query_safe("SELECT @{[ call('handover-1') ]}");
	my $second = start_psql(\$out, \$err, "SELECT created FROM @{[ call('handover-1') ]}");
	poll_sql($node, "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted", 'the second session waits');
	$session->query_safe('ROLLBACK');
	$second->finish;
	like($out, qr/^t$/m, 'the first rolls back: the second creates it');
	is_sent('handover-%', ['handover-1'], 'handover');
	$session->quit;
}

# ---------------------------------------------------------------------------
# All in all
# ---------------------------------------------------------------------------
turns_pass($node, 3);
is(scalar(grep { !defined $_->{action} } grep { $_->{ev} eq 'received' } truth($p)), 0, 'every request names its action');
my $ids = truth_by_action($p);
is($node->safe_psql('postgres', 'SELECT count(*) FROM actionledger.action'), scalar keys %$ids, 'exactly the committed set was received');
is(scalar(grep { ($_->{executed} // 0) != 1 } values %$ids), 0, 'each was executed once');
is($node->safe_psql('postgres', 'SELECT count(*) FROM actionledger.due'), '0', 'nothing is left to do');

$node->stop;
done_testing();
