# Lifecycle.pm: several databases and clusters, what their workers say, and what
# the log and the process list show of them.
package Lifecycle;

use strict;
use warnings;
use Exporter 'import';
use IPC::Run ();
use JSON::PP;
use Ledger;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

our @EXPORT = qw(create_ledger tool_in perform_in row_in poll_in status_becomes workers_in state_in wait_state
  dispatchers_in wires log_mark log_since log_events postmaster_start start_session end_session session_output children
  settled_count no_new_wires);

# Create a database (unless it is there) with the extension, a service and the
# tool "refund".
#   do, mode, timeout => of the tool; honoured, options => of the service; path => marks the requests
#   extension, service => 0: leave out from there on
sub create_ledger
{
	my ($node, $db, $p, %o) = @_;
	$node->safe_psql('postgres', qq{CREATE DATABASE "$db"}) if $db ne 'postgres' && !$o{exists};
	return if exists $o{extension} && !$o{extension};
	$node->safe_psql($db, 'CREATE EXTENSION IF NOT EXISTS actionledger');
	return if exists $o{service} && !$o{service};
	my $keys = ($o{honoured} // 1) ? '{"window": "24h", "replay_header": "Idempotent-Replayed"}' : '"none"';
	my $more = $o{options} ? ", $o{options}" : '';
	my $service = $o{name} // 'pay';
	$node->safe_psql($db,
		qq{SELECT actionledger.create_service('$service', '$p->{url}', '{"allow_private": true, "idempotency": $keys$more}')});
	tool_in($node, $db, %o);
	return;
}

# Create a tool; the requests carry db=NAME in their path.
sub tool_in
{
	my ($node, $db, %o) = @_;
	my $service = $o{name} // 'pay';
	my $tool = $o{tool} // 'refund';
	my $type = $o{type} // 'non_idempotent';
	my $mark = $o{path} // $db;
	my $request = "POST /@{[ $o{mode} // 'keyed' ]}/refunds?db=$mark&do=" . ($o{do} // 'ok');
	$node->safe_psql($db, qq{SELECT actionledger.create_tool('$tool', '$service', '$request', '$type',
	  identity => '$tool:{refund_id}',
	  input => '{"required": ["refund_id", "amount"], "properties": {"refund_id": {"type": "string"}, "amount": {"type": "integer"}}}',
	  options => '{"timeout": "@{[ $o{timeout} // '5s' ]}", "external_ref": "\$.id", "summary": "refund {amount} for {refund_id}",
	    "retry": {"attempts": @{[ $o{attempts} // 4 ]}, "base": "100ms", "cap": "1s"}, "approval": "never"}')});
	return;
}

# Perform a tool ("refund") in a database; returns the action's number.
sub perform_in
{
	my ($node, $db, $refund_id, $tool) = @_;
	$tool //= 'refund';
	return $node->safe_psql($db,
		qq{SELECT action_id FROM actionledger.perform('$tool', '{"refund_id": "$refund_id", "amount": 100}')});
}

# An action's row.
sub row_in
{
	my ($node, $db, $action_id) = @_;
	my $json = $node->safe_psql($db, "SELECT to_jsonb(a) FROM actionledger.action a WHERE action_id = $action_id");
	return $json eq '' ? undef : decode_json($json);
}

# Wait until a query in a database returns 't'.
sub poll_in
{
	my ($node, $db, $sql, $what, $bound) = @_;
	my ($out, $err) = ('', '');
	my $ok = eval {
		poll(
			sub {
				my $rc = $node->psql($db, $sql, stdout => \$out, stderr => \$err, timeout => 20);
				return defined $rc && $rc == 0 && $out eq 't';
			},
			$what, $bound);
	};
	die "$@: last answer \"$out\" \"$err\"" unless $ok;
	return 1;
}

# Wait until an action has a status; false when it does not come to that.
sub status_becomes
{
	my ($node, $db, $action_id, $status, $bound) = @_;
	my $ok = eval {
		poll_in($node, $db, "SELECT status = '$status' FROM actionledger.action WHERE action_id = $action_id",
			"action $action_id in $db is $status", $bound);
	};
	diag $@ unless $ok;
	return $ok;
}

# The rows of the view workers, as hashes.
sub workers_in
{
	my ($node, $db) = @_;
	my ($out, $err) = ('', '');
	my $rc = $node->psql($db, "SELECT coalesce(json_agg(w), '[]') FROM actionledger.workers w",
		stdout => \$out, stderr => \$err, timeout => 20);
	return () unless defined $rc && $rc == 0;
	return @{ decode_json($out) };
}

# The row of a worker (dispatcher 0).
sub state_in
{
	my ($node, $db, $worker) = @_;
	$worker //= 'dispatcher 0';
	my ($row) = grep { $_->{worker} eq $worker } workers_in($node, $db);
	return $row // { state => 'none', detail => '', do => '' };
}

# Wait until a worker is in a state; returns its row, the last one seen when it does not come to that.
sub wait_state
{
	my ($node, $db, $state, $bound, $worker) = @_;
	my $row;
	eval {
		poll(sub { $row = state_in($node, $db, $worker); $row->{state} =~ /^(?:$state)$/ }, "a worker of $db is $state", $bound);
		1;
	} or diag "$@: it is $row->{state} " . ($row->{detail} // '');
	return $row;
}

# The process ids of the dispatchers that are connected to a database.
sub dispatchers_in
{
	my ($node, $db) = @_;
	return split /\n/, $node->safe_psql('postgres',
		"SELECT pid FROM pg_stat_activity WHERE backend_type = 'actionledger dispatcher' AND datname = '$db' ORDER BY pid");
}

# How many requests have reached the provider, with a path that matches.
sub wires
{
	my ($p, $match) = @_;
	return scalar grep { $_->{ev} eq 'received' && (!defined $match || $_->{path} =~ /$match/) } truth($p);
}

# Whether no request arrives while a piece of code runs, which waits for something.
sub no_new_wires
{
	my ($p, $match, $code) = @_;
	my $before = wires($p, $match);
	$code->();
	return wires($p, $match) == $before;
}

# Where a server's log ends now.
sub log_mark
{
	my ($node) = @_;
	return -s $node->logfile // 0;
}

# The lines of a server's log after a mark, those that match.
sub log_since
{
	my ($node, $mark, $match) = @_;
	open my $file, '<', $node->logfile or return ();
	seek $file, $mark, 0;
	my @lines = <$file>;
	close $file;
	return grep { !defined $match || /$match/ } @lines;
}

# The lines after a mark that tell of something, other than statements and connections.
sub log_events
{
	my ($node, $mark) = @_;
	return log_since($node, $mark,
		qr/^\d{4}-.* (?:LOG|WARNING|ERROR|FATAL|PANIC):  (?!statement|duration|connection |disconnection|execute |parameter )/);
}

# When the postmaster started.
sub postmaster_start
{
	my ($node) = @_;
	return $node->safe_psql('postgres', 'SELECT extract(epoch FROM pg_postmaster_start_time())');
}

# Run statements in a session of its own, without waiting.
#   user => role
sub start_session
{
	my ($node, $db, $sql, %o) = @_;
	my $session = { out => '', err => '' };
	my @user = $o{user} ? ('-U', $o{user}) : ();
	my $script = PostgreSQL::Test::Utils::tempdir() . '/session.sql';
	append_to_file($script, $sql);
	$session->{handle} = IPC::Run::start(
		[ $node->installed_command('psql'), '-XAtq', '-v', 'ON_ERROR_STOP=1', @user, '-d', $node->connstr($db), '-f', $script ],
		'<', \undef, '>', \$session->{out}, '2>', \$session->{err}, IPC::Run::timeout(180));
	return $session;
}

# Wait until a session has ended; true when it ended well.
sub end_session
{
	my ($session) = @_;
	return $session->{handle}->finish;
}

# What a session has said so far.
sub session_output
{
	my ($session) = @_;
	$session->{handle}->pump_nb;
	return $session->{out} . $session->{err};
}

# The child processes of a server whose title matches, by process id.
sub children
{
	my ($node, $match) = @_;
	my $parent = $node->{_pid};
	my @found;
	for my $stat (glob '/proc/[0-9]*/stat')
	{
		open my $file, '<', $stat or next;
		my $line = <$file> // '';
		close $file;
		next unless $line =~ /^(\d+) \(.*\) \S (\d+) /s && $2 == $parent;
		my $pid = $1;
		open my $title, '<', "/proc/$pid/cmdline" or next;
		my $name = <$title> // '';
		close $title;
		push @found, $pid if $name =~ /$match/;
	}
	return @found;
}

# How many actions of a database have a status.
sub settled_count
{
	my ($node, $db, $status) = @_;
	return $node->safe_psql($db, "SELECT count(*) FROM actionledger.action WHERE status = '$status'");
}

1;
