# Fault.pm: dying at a named moment.  A plan is armed in the running dispatcher
# and fires once; the journal in the data directory tells who is armed and what
# has fired (src/rules/fault.h).
package Fault;

use strict;
use warnings;
use Exporter 'import';
use Ledger qw(poll try_sql slow_wait_for_start);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

our @EXPORT = qw(arm entry fired wait_fired is_running wait_gone restart_after_kill);

# An entry of a plan that no other one equals, so that it fires although one
# like it has fired before.
my $label = 0;

sub entry
{
	my ($point, $mode, $nth) = @_;
	$label++;
	return "$point:$mode:@{[ $nth // 1 ]}:x$label";
}

# Arm an entry; returns when the dispatcher that runs has it, or it has fired
# already because something was under way.
sub arm
{
	my ($node, $entry) = @_;
	defined try_sql($node, "ALTER SYSTEM SET actionledger.fault = '$entry'; SELECT pg_reload_conf();")
	  || fired($node, $entry)
	  or die "could not arm $entry";
	poll(
		sub {
			return 1 if fired($node, $entry);
			my $pid = try_sql($node, "SELECT pid FROM actionledger.workers WHERE worker LIKE 'dispatcher%' AND state = 'running'");
			return $pid && grep { $_ eq "armed $pid $entry" } journal($node);
		},
		"a dispatcher is armed with $entry", 60);
	return;
}

# Which processes an entry has fired in.
sub fired
{
	my ($node, $entry) = @_;
	return map { /^fired (\d+) \Q$entry\E$/ ? $1 : () } journal($node);
}

# Wait until an entry has fired; returns the process, or nothing when it does not fire in time.
sub wait_fired
{
	my ($node, $entry, $bound) = @_;
	return eval {
		poll(sub { (fired($node, $entry))[0] }, "$entry fires", $bound);
	};
}

sub journal
{
	my ($node) = @_;
	my $file = $node->data_dir . '/actionledger.fault';
	return -e $file ? split(/\n/, slurp_file($file)) : ();
}

# Whether a process runs; one that has ended and was not yet waited for does not.
sub is_running
{
	my ($pid) = @_;
	open my $stat, '<', "/proc/$pid/stat" or return 0;
	my $line = <$stat> // '';
	return $line =~ /^\d+ \(.*\) [^ZX]/s ? 1 : 0;
}

# Wait until a process has gone; returns how long that took.
sub wait_gone
{
	my ($pid, $bound) = @_;
	my $start = time;
	poll(sub { !is_running($pid) }, "process $pid has gone", $bound);
	return time - $start;
}

# Start a server again whose postmaster was killed by a fault.
sub restart_after_kill
{
	my ($node) = @_;
	my $pid = $node->{_pid};
	wait_gone($pid, 10);

	# Nobody may be there to wait for the dead process; its lock file then seems to be in use.
	eval { poll(sub { !kill 0, $pid }, 'the postmaster is no zombie', 5) } or unlink $node->data_dir . '/postmaster.pid';
	slow_wait_for_start($node);
	return;
}

1;
