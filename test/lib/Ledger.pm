# Ledger.pm: a server with the extension, a provider with a truth log, and the
# waits between them.  Every wait is for a condition, with a bound.
package Ledger;

use strict;
use warnings;
use Exporter 'import';
use IO::Select;
use IO::Socket::INET;
use IPC::Run ();
use JSON::PP;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

our @EXPORT = qw(start_server start_provider truth truth_by_action effects release poll poll_sql try_sql
  refund_service refund_tool action_row pid_of_dispatcher slow_wait_for_start
  perform attempts_of settle received looked turns_pass start_raw_server);

# Start a server with the extension in database "postgres".
#   fault => 1     the fault build
#   conf => text   more lines for postgresql.conf
#   extension => 0 do not create the extension
#   gate => 1      tools that are not ready wait for approval, as they do for everybody else
#   name => text
sub start_server
{
	my (%o) = @_;
	my @args;
	push @args, install_path => $ENV{AL_PG_FAULT_BIN} =~ s{/bin$}{}r if $o{fault};
	my $node = PostgreSQL::Test::Cluster->new($o{name} // 'main', @args);
	$node->init(%{ $o{init} // {} });
	$node->append_conf('postgresql.conf', <<"CONF");
shared_preload_libraries = 'actionledger'
fsync = on
max_prepared_transactions = 10
actionledger.poll_interval = '200ms'
log_min_messages = info
restart_after_crash = on
@{[ $o{conf} // '' ]}
CONF
	$node->start;
	return $node if defined $o{extension} && !$o{extension};
	$node->safe_psql('postgres', 'CREATE EXTENSION actionledger');
	approve_nothing($node, 'postgres') unless $o{gate};
	return $node;
}

# Gives every tool that says nothing of approval the policy "never": tests that are
# not about readiness define tools without owner and lookup.
sub approve_nothing
{
	my ($node, $db) = @_;
	$node->safe_psql($db, <<'SQL');
CREATE SCHEMA test_policy;
CREATE FUNCTION test_policy.never() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	NEW.options := '{"approval": "never"}' || NEW.options;
	RETURN NEW;
END$$;
CREATE TRIGGER test_policy BEFORE INSERT OR UPDATE ON actionledger.tool FOR EACH ROW EXECUTE FUNCTION test_policy.never();
SQL
	return;
}

# Start a provider of its own for this test file; returns an object with
# {port}, {url}, {truth}.  It ends with the test.
my @providers;

sub start_provider
{
	my (@args) = @_;
	my $n = scalar @providers;
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my $p = { truth => "$dir/truth", portfile => "$dir/port", log => "$dir/log" };
	$p->{handle} = IPC::Run::start(
		[ "$ENV{AL_BUILD}/provider", '--truth', $p->{truth}, '--port-file', $p->{portfile}, @args ],
		'<', \undef, '>', $p->{log}, '2>&1');
	poll(sub { -s $p->{portfile} }, 'the provider listens');
	$p->{port} = slurp_file($p->{portfile}) =~ s/\s//gr;
	my $scheme = (grep { $_ eq '--tls' } @args) ? 'https' : 'http';
	$p->{url} = "$scheme://127.0.0.1:$p->{port}";
	push @providers, $p;
	return $p;
}

# Start a server whose answers are bytes: the code gets the socket of a connection,
# in a process of its own, and reads and writes what it likes.  Returns {port}, {url}.
my @raw_servers;

sub start_raw_server
{
	my ($serve) = @_;
	my $socket = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 100, ReuseAddr => 1)
	  or die "could not listen: $!";
	my $parent = $$;
	my $pid = fork() // die "could not fork: $!";
	if ($pid == 0)
	{
		my $select = IO::Select->new($socket);
		@SIG{qw(TERM INT HUP CHLD PIPE)} = qw(DEFAULT DEFAULT DEFAULT IGNORE IGNORE);
		while (getppid() == $parent)
		{
			my $connection = $select->can_read(1) ? $socket->accept : undef;
			next unless $connection;
			if ((fork() // 1) == 0)
			{
				alarm 60;
				eval { $serve->($connection) };
				POSIX::_exit(0);
			}
		}
		POSIX::_exit(0);
	}
	push @raw_servers, $pid;
	my $port = $socket->sockport;
	return { port => $port, url => "http://127.0.0.1:$port", pid => $pid };
}

END
{
	my $status = $?;
	for my $p (@providers) { $p->{handle}->kill_kill if $p->{handle}; }
	kill 'KILL', @raw_servers;
	$? = $status;
}

# All lines of a provider's truth log, decoded; a last line that is still being
# written is left out.  The log only grows: what has been read is kept.
sub truth
{
	my ($p) = @_;
	open my $file, '<', $p->{truth} or die "could not open $p->{truth}: $!";
	seek $file, $p->{read} // 0, 0;
	while (my $line = <$file>)
	{
		last unless $line =~ /\n\z/;
		$p->{read} += length $line;
		push @{ $p->{lines} }, decode_json($line);
	}
	close $file;
	return @{ $p->{lines} // [] };
}

# { action_id => { received => n, executed => n, replayed => n, answered => n, keys => {}, bodies => {} } }
sub truth_by_action
{
	my ($p) = @_;
	my %by;
	for my $t (truth($p))
	{
		next unless defined $t->{action};
		next if ($t->{op} // '') =~ /^lookup:/;
		my ($id) = $t->{action} =~ m{/(\d+)$};
		$by{$id}{ $t->{ev} }++;
		$by{$id}{keys}{ $t->{key} }++ if defined $t->{key} && $t->{ev} eq 'received';
		$by{$id}{bodies}{ $t->{body_sha256} }++ if $t->{ev} eq 'received';
	}
	return \%by;
}

# How many effects the provider has executed, for one action or for all.
sub effects
{
	my ($p, $action_id) = @_;
	return scalar grep {
		$_->{ev} eq 'executed' && (!defined $action_id || ($_->{action} // '') =~ m{/\Q$action_id\E$})
	} truth($p);
}

# Let a provider give the answers that it holds under a number ("held:N"), now and later.
sub release
{
	my ($p, $n) = @_;
	PostgreSQL::Test::Utils::append_to_file("$p->{truth}.released.$n", '');
	return;
}

# Wait until the code returns true; dies, naming the condition, after $bound seconds (30).
sub poll
{
	my ($code, $what, $bound) = @_;
	my $end = time + ($bound // 30);
	while (time < $end)
	{
		my $r = $code->();
		return $r if $r;
		sleep 0.02;
	}
	die "gave up waiting until $what";
}

# What a statement prints; undef when it fails or there is no server to ask: psql
# that cannot connect leaves before it has read the statement, which IPC::Run dies of.
sub try_sql
{
	my ($node, $sql) = @_;
	my ($out, $err) = ('', '');
	my $rc = eval { $node->psql('postgres', $sql, stdout => \$out, stderr => \$err, timeout => 60, on_error_stop => 1) };
	return defined $rc && $rc == 0 ? $out : undef;
}

# Wait until a query returns 't' in one row; survives a server that is restarting.
sub poll_sql
{
	my ($node, $sql, $what, $bound) = @_;
	my $out;
	my $ok = eval {
		poll(sub { $out = try_sql($node, $sql); defined $out && $out eq 't' }, $what, $bound);
	};
	die "$@: last answer " . (defined $out ? "\"$out\"" : 'was none') unless $ok;
	return 1;
}

# Define a service at a provider.  honoured => 0 for one without keys; options: more options, JSON text without braces.
sub refund_service
{
	my ($node, $p, %o) = @_;
	my $name = $o{name} // 'pay';
	my $keys = ($o{honoured} // 1)
	  ? '{"window": "24h", "replay_header": "Idempotent-Replayed"}' : '"none"';
	# Providers here misbehave on purpose; a test of the breaker sets its own.
	my $more = ($o{options} // '') =~ /"breaker"/ ? '' : ', "breaker": {"failures": 1000}';
	$more .= ", $o{options}" if $o{options};
	return $node->safe_psql('postgres',
		qq{SELECT actionledger.create_service('$name', '$p->{url}', '{"allow_private": true, "idempotency": $keys$more}')});
}

# Define a tool with arguments refund_id and amount.  do => the provider's behaviour.
#   mode => keyed | unkeyed | read (first path segment)
#   attempts, base, cap, window => of its retry option
sub refund_tool
{
	my ($node, %o) = @_;
	my $name = $o{name} // 'refund';
	my $service = $o{service} // 'pay';
	my $type = $o{type} // 'non_idempotent';
	my $mode = $o{mode} // 'keyed';
	my $request = $o{request} // "POST /$mode/refunds?do=" . ($o{do} // 'ok');
	my $more = $o{options} ? ", $o{options}" : '';
	$request =~ s/'/''/g;
	return $node->safe_psql('postgres', qq{SELECT actionledger.create_tool('$name', '$service', '$request', '$type',
	  identity => 'refund:{refund_id}',
	  input => '{"required": ["refund_id", "amount"], "properties": {"refund_id": {"type": "string"}, "amount": {"type": "integer"}}}',
	  options => '{"timeout": "@{[ $o{timeout} // '2s' ]}", "external_ref": "\$.id", "summary": "refund {amount} for {refund_id}",
	    "retry": {"attempts": @{[ $o{attempts} // 4 ]}, "base": "@{[ $o{base} // '100ms' ]}", "cap": "@{[ $o{cap} // '1s' ]}",
	              "window": "@{[ $o{window} // '1h' ]}"}$more}')});
}

# One action's row as a hash.
sub action_row
{
	my ($node, $action_id) = @_;
	my $json = $node->safe_psql('postgres', "SELECT to_jsonb(a) FROM actionledger.action a WHERE action_id = $action_id");
	return $json eq '' ? undef : decode_json($json);
}

# Perform a tool of refund_tool and return the action's number.
#   amount => number, options => JSON text (of perform's options)
sub perform
{
	my ($node, $tool, $refund_id, %o) = @_;
	my $amount = $o{amount} // 100;
	my $options = $o{options} // '{}';
	return $node->safe_psql('postgres',
		qq{SELECT action_id FROM actionledger.perform('$tool', '{"refund_id": "$refund_id", "amount": $amount}', options => '$options')});
}

# The attempts of an action in their order, as hashes.
sub attempts_of
{
	my ($node, $action_id) = @_;
	my $json = $node->safe_psql('postgres',
		"SELECT coalesce(jsonb_agg(to_jsonb(t) - 'body' ORDER BY t.attempt), '[]') FROM actionledger.attempt t WHERE t.action_id = $action_id");
	return @{ decode_json($json) };
}

# Wait until an action has a status (and a next step), and return its row.
sub settle
{
	my ($node, $action_id, $status, $step, $bound) = @_;
	my $row;
	my $ok = eval {
		poll(
			sub {
				$row = action_row($node, $action_id);
				return $row && $row->{status} eq $status && (!defined $step || $row->{next_step} eq $step);
			},
			"action $action_id is $status" . (defined $step ? "/$step" : ''), $bound);
	};
	return $row if $ok;
	my $is = $row ? join(', ', map { "$_ " . ($row->{$_} // 'null') } qw(status next_step known attempts error_message)) : 'not there';
	die "$@: it is $is";
}

# The received lines of an action in a provider's truth log, without lookups.
sub received
{
	my ($p, $action_id) = @_;
	return grep { $_->{op} !~ /^lookup:/ } arrived($p, $action_id);
}

# The received lines of the lookups of an action.
sub looked
{
	my ($p, $action_id) = @_;
	return grep { $_->{op} =~ /^lookup:/ } arrived($p, $action_id);
}

# The received lines of all requests that carry an action's number.
sub arrived
{
	my ($p, $action_id) = @_;
	return grep { $_->{ev} eq 'received' && ($_->{action} // '') =~ m{/\Q$action_id\E$} } truth($p);
}

# Wait until the dispatcher has begun at least $n rescans of everything that is
# live: what has not been sent by then is not going to be.
sub turns_pass
{
	my ($node, $n) = @_;
	for my $i (1 .. $n // 3)
	{
		my $before = $node->safe_psql('postgres', 'SELECT clock_timestamp()');
		poll_sql($node,
			"SELECT bool_and(last_turn > timestamptz '$before') FROM actionledger.workers WHERE worker LIKE 'dispatcher%'",
			'the dispatcher looks again', 90);
	}
	return;
}

# The process id of the running dispatcher, once there is one.
sub pid_of_dispatcher
{
	my ($node, $other_than) = @_;
	my $pid;
	poll(
		sub {
			my $out = try_sql($node,
				"SELECT pid FROM actionledger.workers WHERE worker LIKE 'dispatcher%' AND state = 'running'");
			return 0 unless defined $out && $out =~ /^(\d+)$/m;
			$pid = $1;
			return !defined $other_than || $pid != $other_than;
		},
		'a dispatcher runs', 60);
	return $pid;
}

# Start a server again after its postmaster was killed: an orphaned child may
# keep the shared memory for a moment.
sub slow_wait_for_start
{
	my ($node, $bound) = @_;
	poll(
		sub {
			$node->{_pid} = undef;
			return $node->start(fail_ok => 1);
		},
		'the server starts again', $bound // 60);
	return;
}

1;
