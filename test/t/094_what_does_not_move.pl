# The rows of attention for what has gone wrong here and not at a destination: each
# comes about for a real reason, says it with a statement that runs, and is gone when
# that is mended.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;
use PostgreSQL::Test::Utils;

my $p = start_provider();
my $node = start_server();
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };
my $rows = sub { my ($kind) = @_; return $sql->("SELECT concat_ws('|', severity, action_id, subject, reason) FROM actionledger.attention WHERE kind = '$kind'") };
my $do = sub { my ($kind) = @_; return $sql->($sql->("SELECT \"do\" FROM actionledger.attention WHERE kind = '$kind'")) };
refund_service($node, $p);
refund_tool($node, timeout => '1s');
pid_of_dispatcher($node);
is(join('', map { $rows->($_) } qw(stuck unrecorded backlog)), '', 'nothing to begin with');

subtest 'an action that can be neither claimed nor blocked' => sub {
	$sql->(q{CREATE FUNCTION rock() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF NEW.identity = 'refund:rock' THEN RAISE EXCEPTION 'nobody touches it'; END IF;
		RETURN NEW;
	END $$;
	CREATE TRIGGER rock BEFORE UPDATE ON actionledger.action FOR EACH ROW EXECUTE FUNCTION rock()});
	my $id = perform($node, 'refund', 'rock');

	poll_sql($node, q{SELECT count(*) = 1 FROM actionledger.attention WHERE kind = 'stuck'}, 'attention lists it', 60);
	is($rows->('stuck'), "page|$id|refund 100 for rock|it cannot be claimed or blocked; see the server log", 'with its reason');
	like(slurp_file($node->logfile), qr/ERROR:  nobody touches it/, 'the server log tells it');
	is(scalar(received($p, $id)), 0, 'nothing of it was sent');
	my ($rc, undef, $err) = $node->psql('postgres', $sql->(q{SELECT "do" FROM actionledger.attention WHERE kind = 'stuck'}), on_error_stop => 1);
	like($err, qr/nobody touches it/, 'as long as the reason is there, a retry is told it');
	turns_pass($node, 2);
	is($rows->('stuck') ne '', 1, 'and it stays');
	$sql->('DROP TRIGGER rock ON actionledger.action');
	$do->('stuck');
	settle($node, $id, 'confirmed', 'none');
	is($rows->('stuck'), '', 'mended and retried, it is gone');
	is(effects($p, $id), 1, 'and was done once');
};

subtest 'an outcome that cannot be recorded' => sub {
	$sql->(q{CREATE FUNCTION endless() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF NEW.claimed_by IS NULL AND OLD.claimed_by IS NOT NULL AND NEW.identity = 'refund:endless' THEN RAISE EXCEPTION 'it has no end'; END IF;
		RETURN NEW;
	END $$;
	CREATE TRIGGER endless BEFORE UPDATE ON actionledger.action FOR EACH ROW EXECUTE FUNCTION endless()});
	my $id = perform($node, 'refund', 'endless');

	poll(sub { slurp_file($node->logfile) =~ /ERROR:  it has no end/ }, 'its outcome is to be recorded');
	is($rows->('unrecorded'), '', 'for a minute it may still come');
	$sql->("UPDATE actionledger.attempt SET started_at = started_at - interval '2 min', deadline = deadline - interval '2 min' WHERE action_id = $id");
	my $deadline = $sql->("SELECT to_char(deadline AT TIME ZONE 'UTC', 'HH24:MI:SS\"Z\"') FROM actionledger.attempt WHERE action_id = $id");
	is($rows->('unrecorded'), "page|$id|refund 100 for endless|attempt 1 had to be over at $deadline, and how it ended is not recorded; see the server log",
		'two minutes later attention lists it, with its reason');
	my $story = $do->('unrecorded');
	like($story, qr/^Not known: whether it happened: attempt 1 had to be over at \S+$deadline, and how it ended is not recorded \(see the server log\)\.$/m, 'what it says to do tells so too');
	like($story, qr/^  SELECT \* FROM actionledger\.resolve\($id, .*expected_status => 'submitted'\);/m, 'and how a person can decide');
	$sql->('DROP TRIGGER endless ON actionledger.action');
	settle($node, $id, 'confirmed', 'none', 60);
	is($rows->('unrecorded'), '', 'mended, it is recorded, and gone');
	is_deeply([ scalar(received($p, $id)), effects($p, $id) ], [ 1, 1 ], 'it was sent once');
};

subtest 'an outcome that cannot be recorded, and somebody decides' => sub {
	$sql->(q{CREATE FUNCTION deaf() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF EXISTS (SELECT FROM actionledger.action a WHERE a.action_id = NEW.action_id AND a.identity = 'refund:deaf') THEN RAISE EXCEPTION 'it is not heard'; END IF;
		RETURN NEW;
	END $$;
	CREATE TRIGGER deaf BEFORE UPDATE OF finished_at ON actionledger.attempt FOR EACH ROW EXECUTE FUNCTION deaf()});
	my $id = perform($node, 'refund', 'deaf');

	poll(sub { slurp_file($node->logfile) =~ /ERROR:  it is not heard/ }, 'its outcome is to be recorded');
	$sql->("UPDATE actionledger.attempt SET started_at = started_at - interval '2 min', deadline = deadline - interval '2 min' WHERE action_id = $id");
	like($rows->('unrecorded'), qr/^page\|$id\|/, 'attention lists it');
	like($sql->("SELECT * FROM actionledger.resolve($id, 'confirmed', '{\"external_ref\": \"re_7\"}', 'seen in their list', expected_status => 'submitted')"), qr/confirmed/, 'the verb that the story names decides');
	is($rows->('unrecorded'), '', 'and it is gone');
	$sql->('DROP TRIGGER deaf ON actionledger.attempt');
	poll_sql($node, "SELECT verdict = 'confirmed' FROM actionledger.attempt WHERE action_id = $id", 'the attempt is closed', 60);
	is(action_row($node, $id)->{external_ref}, 're_7', 'the decision stays');
	is(scalar(received($p, $id)), 1, 'it was sent once');
};

subtest 'actions that nobody sends' => sub {
	$sql->('ALTER DATABASE postgres SET actionledger.enabled = off');
	poll_sql($node, q{SELECT count(*) = 0 FROM actionledger.workers WHERE worker LIKE 'dispatcher%' AND state = 'running'}, 'the dispatcher has left');
	my @ids = map { perform($node, 'refund', "waits-$_") } 1 .. 2;

	is($rows->('backlog'), '', 'for ten minutes they may wait');
	$sql->("UPDATE actionledger.due SET next_at = next_at - interval '11 min' WHERE action_id IN ($ids[0], $ids[1])");
	like($rows->('backlog'), qr/^info\|service pay\|2 actions have been due for more than ten minutes; \S.*off/, 'then attention lists them, and why: ' . $rows->('backlog'));
	is($sql->("SELECT count(*) FROM actionledger.attention WHERE kind = 'worker'") > 0, 1, 'beside it the worker that is missing');
	my @shown = split /\n/, $do->('backlog');
	is(join(',', map { (split /\|/)[0] } @shown), "$ids[0],$ids[1]", 'what it says to do shows them');
	like($shown[0], qr/\|dispatcher: \S/, 'and what they wait for');
	$sql->('ALTER DATABASE postgres SET actionledger.enabled = on');
	settle($node, $_, 'confirmed', 'none', 60) for @ids;
	is($rows->('backlog'), '', 'switched on, they are sent, and it is gone');
	is(effects($p, $_), 1, "action $_ was done once") for @ids;
};

subtest 'actions that no outside executor claims' => sub {
	$sql->(q{SELECT actionledger.create_tool('fax', 'pay', 'fax it', identity => 'fax:{id}', input => '{"properties": {"id": {"type": "string"}}}', options => '{"transport": "external"}')});
	my $id = $sql->(q{SELECT action_id FROM actionledger.perform('fax', '{"id": "1"}')});

	is($rows->('backlog'), '', 'for ten minutes it may wait');
	$sql->("UPDATE actionledger.due SET next_at = next_at - interval '11 min' WHERE action_id = $id");
	is($rows->('backlog'), 'info|service pay|1 action has been due for more than ten minutes; outside executors have not claimed 1', 'then attention lists it, and why');
	like($do->('backlog'), qr/^$id\|.*\|executor\|/, 'what it says to do shows that it waits for an executor');
	my $token = $sql->(q{SELECT token FROM actionledger.claim('fax')});
	is($rows->('backlog'), '', 'claimed, it is gone');
	$sql->(qq(SELECT actionledger.report_outcome($id, 'confirmed', '{"token": $token, "external_ref": "F-1"}')));
	is(action_row($node, $id)->{status}, 'confirmed', 'and it can be carried out');
};

$node->stop;
done_testing();
