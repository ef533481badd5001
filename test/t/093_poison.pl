# One action that cannot be claimed, one outcome that cannot be recorded, one row
# that is gone: none of them keeps anything else from going on, and each is shown.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;
use Fault;
use PostgreSQL::Test::Utils;

my $p = start_provider();
my $node = start_server();
refund_service($node, $p);
refund_tool($node);
refund_tool($node, name => "held_$_", do => "held:$_", timeout => '60s') for 1, 2;
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };
my $log = sub { return slurp_file($node->logfile) };
pid_of_dispatcher($node);

# A claim that always raises: somebody's trigger does not like it.
$sql->(q{CREATE FUNCTION no_poison() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF EXISTS (SELECT FROM actionledger.action a WHERE a.action_id = NEW.action_id AND a.identity LIKE 'refund:poison%') THEN
		RAISE EXCEPTION 'it''s poison, "quoted"';
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER no_poison BEFORE INSERT ON actionledger.attempt FOR EACH ROW EXECUTE FUNCTION no_poison()});
my @good;
my @poison;
# Due before all of them, and no dispatcher's: it is not to be taken for what fails.
$sql->(q{SELECT actionledger.create_tool('hand', 'pay', 'by hand', identity => '{id}', input => '{"properties": {"id": {"type": "string"}}}', options => '{"transport": "external"}')});
my $hand = $sql->(q{SELECT action_id FROM actionledger.perform('hand', '{"id": "hand"}')});
$sql->(q{SELECT count(*) FROM actionledger.perform_many('refund', ARRAY(SELECT jsonb_build_object('refund_id',
	CASE WHEN n % 10 = 5 THEN 'poison-' ELSE 'good-' END || n, 'amount', n) FROM generate_series(1, 30) n))});
poll_sql($node, q{SELECT count(*) = 27 FROM actionledger.actions WHERE identity LIKE 'refund:good%' AND status = 'confirmed'}, 'the others are confirmed');
pass('the others are confirmed');
poll_sql($node, q{SELECT count(*) = 3 FROM actionledger.pending WHERE identity LIKE 'refund:poison%' AND next_step = 'blocked'}, 'the three are blocked');
like($sql->(q{SELECT string_agg(DISTINCT waiting_for, ';') FROM actionledger.pending WHERE next_step = 'blocked'}),
	qr/^it could not be claimed: it's poison, "quoted"; .* then retry$/, 'with the reason, and what to do');
is($sql->(q{SELECT string_agg(DISTINCT error_code, ',') FROM actionledger.actions WHERE next_step = 'blocked'}), 'claim_failed', 'and a code');
turns_pass($node, 3);
my $errors = () = $log->() =~ /ERROR:  it's poison/g;
is(action_row($node, $hand)->{next_step}, 'send', 'what an executor is to do waits for it as before');
cmp_ok($errors, '<=', 12, "they are not tried again and again ($errors errors)");
my $row = action_row($node, $sql->(q{SELECT min(action_id) FROM actionledger.action WHERE identity LIKE 'refund:poison%'}));
is("$row->{status} $row->{attempts} $row->{sends}", 'prepared 0 0', 'nothing of them was sent');
$sql->('DROP TRIGGER no_poison ON actionledger.attempt');
is($sql->(q{SELECT count(*) FROM actionledger.redrive('refund', NULL, NULL, 'the trigger is gone', dry_run => false)}), 3, 'mended, they are redriven');
poll_sql($node, q{SELECT count(*) = 30 FROM actionledger.actions WHERE status = 'confirmed'}, 'all are confirmed');
is(effects($p), 30, 'each was executed once');

# One whose row cannot even be blocked.
$sql->(q{CREATE FUNCTION no_touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF NEW.identity LIKE 'refund:rock%' THEN RAISE EXCEPTION 'it is a rock'; END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER no_touch BEFORE UPDATE ON actionledger.action FOR EACH ROW EXECUTE FUNCTION no_touch()});
my $rock = perform($node, 'refund', 'rock');
my $next = perform($node, 'refund', 'next');
settle($node, $next, 'confirmed', undef, 30);
pass('what comes after it goes on');
poll_sql($node, "SELECT next_at = 'infinity' FROM actionledger.due WHERE action_id = $rock", 'it is put away', 60);
my $after = perform($node, 'refund', 'after');
settle($node, $after, 'confirmed', undef, 20);
is(scalar(received($p, $rock)), 0, 'it was not sent');
$sql->('DROP TRIGGER no_touch ON actionledger.action');
$sql->("SELECT actionledger.retry($rock, 'mended')");
settle($node, $rock, 'confirmed', undef, 20);
is(effects($p, $rock), 1, 'and is sent when that is mended');

# An outcome that cannot be recorded.
$sql->(q{CREATE FUNCTION no_end() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF NEW.claimed_by IS NULL AND OLD.claimed_by IS NOT NULL AND NEW.identity LIKE 'refund:endless%' THEN RAISE EXCEPTION 'it has no end'; END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER no_end BEFORE UPDATE ON actionledger.action FOR EACH ROW EXECUTE FUNCTION no_end()});
my $endless = perform($node, 'refund', 'endless');
poll(sub { received($p, $endless) }, 'it has arrived');
my $others = 0;
for my $i (1 .. 5)
{
	my $id = perform($node, 'refund', "other-$i");
	$others++ if settle($node, $id, 'confirmed', undef, 30);
}
is($others, 5, 'claims go on while an outcome cannot be recorded');
is(action_row($node, $endless)->{status}, 'submitted', 'which is open still');
$sql->('DROP TRIGGER no_end ON actionledger.action');
settle($node, $endless, 'confirmed', undef, 90);
is(scalar(received($p, $endless)), 1, 'it is recorded later, without another send');

# An action that somebody deletes while it is under way.
my $gone = perform($node, 'held_1', 'gone');
poll(sub { received($p, $gone) }, 'it has arrived');
$sql->("DELETE FROM actionledger.due WHERE action_id = $gone; DELETE FROM actionledger.action WHERE action_id = $gone");
release($p, 1);
poll(sub { $log->() =~ /action $gone is gone; how its attempt 1 ended is recorded nowhere/ }, 'the log tells');
my $before = $sql->(q{SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'});
turns_pass($node, 3);
my $id = perform($node, 'refund', 'then');
settle($node, $id, 'confirmed', undef, 20);
pass('others go on');
my $told = () = $log->() =~ /action $gone is gone/g;
is($told, 1, 'it is given up once');

# Decided while it was under way, and then the dispatcher dies: the attempt is closed all the same.
my $decided = perform($node, 'held_2', 'decided');
poll(sub { received($p, $decided) }, 'it has arrived');
my $pid = pid_of_dispatcher($node);
$sql->("SELECT actionledger.resolve($decided, 'confirmed', '{\"external_ref\": \"x\"}', 'seen', expected_status => 'submitted')");
kill 'KILL', $pid;
poll_sql($node, "SELECT category = 'worker_lost' FROM actionledger.attempt WHERE action_id = $decided AND finished_at IS NOT NULL", 'its attempt is closed', 60);
is(action_row($node, $decided)->{status}, 'confirmed', 'what was decided stays');
is($sql->("SELECT string_agg(what, ' ' ORDER BY event_id) FROM actionledger.event WHERE action_id = $decided"), 'resolved left_open late_evidence', 'and the story is whole');
$node->stop;
done_testing();
