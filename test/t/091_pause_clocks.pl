# The clocks of what a pause holds stand still, save the provider's; what a pause
# holds and what not; and pauses that are only being decided.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;
use PostgreSQL::Test::Utils;

my $p = start_provider();
my $node = start_server();
refund_service($node, $p);
refund_service($node, $p, name => 'short', options => '"idempotency": {"window": "4s", "margin": "0s"}');
refund_service($node, $p, name => 'other');
refund_tool($node);
refund_tool($node, name => 'again', do => 'status:503,ok', window => '3s', base => '1500ms', cap => '2s', attempts => 10);
refund_tool($node, name => 'forgotten', service => 'short', do => 'close,ok', window => '1h', base => '1500ms', cap => '2s', attempts => 10);
refund_tool($node, name => 'look', type => 'read_only', mode => 'read', request => 'GET /read/refunds{?refund_id,amount}');
refund_tool($node, name => 'elsewhere', service => 'other');
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };

# What is to be sent within a time is sent in spite of a longer pause; what had
# no time left before it is not.
$sql->("SELECT actionledger.pause_service('pay', 'test')");
my $expiring = perform($node, 'refund', 'expiring', options =>
	sprintf('{"expires_at": "%s"}', $sql->("SELECT to_char((now() + interval '3 s') AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')")));
my $read = perform($node, 'look', 'read');
settle($node, $read, 'confirmed', undef, 20);
pass('a pause of writes lets reads go on');
poll_sql($node, "SELECT now() > expires_at + interval '1 s' FROM actionledger.action WHERE action_id = $expiring", 'its time would be over');
is(action_row($node, $expiring)->{status}, 'prepared', 'the clock of expires_at stands still');
$sql->("SELECT actionledger.resume_service('pay', 'test')");
settle($node, $expiring, 'confirmed', undef, 20);
my $late = $sql->("SELECT last_sent_at > expires_at - interval '3 s' FROM actionledger.action WHERE action_id = $expiring");
is($late, 't', 'and has been moved on by the time that it was held');
is(effects($p, $expiring), 1, 'it was sent, once');

# The retry window stands still as well.
my $again = perform($node, 'again', 'again');
settle($node, $again, 'submitted', 'resend');
$sql->("SELECT actionledger.pause_tool('again', 'test')");
poll_sql($node, "SELECT now() > window_ends_at + interval '1 s' FROM actionledger.action WHERE action_id = $again", 'its window would be over');
is(join('/', @{ action_row($node, $again) }{qw(status next_step sends)}), 'submitted/resend/1', 'nothing was sent, and nothing decided');
like($sql->("SELECT actionledger.result($again) #>> '{meta,observation}'"), qr/again when the pause is lifted: tool again was paused/, 'its envelope says so');
$sql->("SELECT actionledger.resume_tool('again', 'test')");
settle($node, $again, 'confirmed', undef, 20);
is(scalar(received($p, $again)), 2, 'the retry that was due goes out');

# The destination's memory does not.
my $forgotten = perform($node, 'forgotten', 'forgotten');
settle($node, $forgotten, 'submitted', 'resend');
is($sql->("SELECT keys_expire_first = (SELECT key_ends_at FROM actionledger.action WHERE action_id = $forgotten) FROM actionledger.pause_service('short', 'test')"),
	't', 'pause tells when the first key is forgotten');
poll_sql($node, "SELECT now() > key_ends_at FROM actionledger.action WHERE action_id = $forgotten", 'the key is forgotten');
$sql->("SELECT actionledger.resume_service('short', 'test')");
settle($node, $forgotten, 'needs_reconciliation', 'review', 20);
is(scalar(received($p, $forgotten)), 1, 'after that nothing is sent again');

# Everything is reads too, and tools that are defined later.
is($sql->("SELECT scope || coalesce(name, '') || state FROM actionledger.pause_all('storm', 'everything')"), 'allpaused', 'everything is paused');
refund_tool($node, name => 'new', service => 'other');
my @held = (perform($node, 'look', 'held'), perform($node, 'new', 'held-2'));
turns_pass($node, 3);
is(join(' ', map { scalar received($p, $_) } @held), '0 0', 'neither reads nor new tools go out');
is($sql->("SELECT string_agg(waiting_for, ';') FROM actionledger.pending"), 'paused: storm;paused: storm', 'and pending says why');
$sql->("SELECT actionledger.pause_all('storm is abating', 'writes')");
settle($node, $held[0], 'confirmed', undef, 20);
pass('a pause can be changed: reads go on');
is($sql->("SELECT state || '/' || what || '/' || reason || '/' || coalesce(resume_reason, '') FROM actionledger.pauses WHERE scope = 'all' ORDER BY paused_at LIMIT 1"),
	'resumed/everything/storm/replaced', 'what it was before is kept');
$sql->("SELECT actionledger.cancel($held[1])");
is(action_row($node, $held[1])->{error_code}, 'cancelled', 'what is held can be cancelled');
is($sql->("SELECT state FROM actionledger.resume_all('over')"), 'running', 'and resumed');

# While somebody decides about one service, nothing is sent to it, and the rest goes on.
my $session = $node->background_psql('postgres');
$session->query_safe("BEGIN; SELECT actionledger.pause_service('pay', 'perhaps');");
my $waits = perform($node, 'refund', 'waits');
my $goes = perform($node, 'elsewhere', 'goes');
settle($node, $goes, 'confirmed', undef, 20);
turns_pass($node, 2);
is(scalar(received($p, $waits)), 0, 'an open pause holds its service');
$session->query_safe('ROLLBACK;');
$session->quit;
settle($node, $waits, 'confirmed', undef, 20);
pass('one that is rolled back is none');

# An open breaker's probe is a send too.
refund_service($node, $p, name => 'broken', options => '"breaker": {"failures": 1, "cooldown": "1s"}');
refund_tool($node, name => 'break', service => 'broken', do => 'status:503', base => '100ms', attempts => 50);
my $probe = perform($node, 'break', 'probe');
poll_sql($node, "SELECT state <> 'closed' FROM actionledger.breakers WHERE service = 'broken'", 'the breaker is open');
$sql->("SELECT actionledger.pause_service('broken', 'test')");
poll_sql($node, 'SELECT count(*) = 0 FROM actionledger.action WHERE claimed_by IS NOT NULL', 'nothing is on its way');
my $sends = scalar received($p, $probe);
poll_sql($node, "SELECT now() > next_probe_at + interval '1 s' FROM actionledger.breakers WHERE service = 'broken'", 'the probe is due');
turns_pass($node, 3);
is(scalar(received($p, $probe)), $sends, 'a paused service is not probed');
$sql->("SELECT actionledger.resume_service('broken', 'test')");
poll(sub { received($p, $probe) > $sends }, 'it is probed when it is resumed');
pass('it is probed when it is resumed');
$node->stop;
done_testing();
