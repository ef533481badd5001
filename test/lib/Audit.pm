# Audit.pm: the provider's truth joined with the ledger, and the invariants that
# must hold between them whatever died when.
package Audit;

my $READ_LATE = 0.25;    # seconds after which a loaded provider has read what was sent

use strict;
use warnings;
use JSON::PP;

# Audit->new($node, $provider): what the provider did is read on from where the
# last reading ended, and terminal statuses are remembered.
sub new
{
	my ($class, $node, $provider) = @_;
	return bless {
		node => $node, provider => $provider, offset => 0, truth => {}, last_received => 0, terminal => {}
	}, $class;
}

# Read what is new in the truth log:
# { action_id => { received => { attempt => [times] }, executed => { attempt => n }, answered => ..., replayed => ...,
#                  keys => {}, bodies => {}, targets => {} } }
sub truth
{
	my ($self) = @_;
	open my $file, '<', $self->{provider}{truth} or die "cannot read the truth: $!";
	seek $file, $self->{offset}, 0;
	while (my $line = <$file>)
	{
		last unless $line =~ /\n\z/;
		$self->{offset} += length $line;
		my $t = decode_json($line);
		next unless defined $t->{action} && $t->{action} =~ m{/(\d+)$};
		my $of = $self->{truth}{$1} //= {};
		if (($t->{op} // '') =~ /^lookup:/)
		{
			$of->{looked}{ $t->{attempt} }++ if $t->{ev} eq 'received';
			next;
		}
		if ($t->{ev} eq 'received')
		{
			push @{ $of->{received}{ $t->{attempt} } }, $t->{t};
			$self->{last_received} = $t->{t};
			$of->{keys}{ $t->{key} // '(none)' }++;
			$of->{bodies}{ $t->{body_sha256} }++;
			$of->{targets}{"$t->{method} $t->{path}"}++;
		}
		else
		{
			$of->{ $t->{ev} }{ $t->{attempt} // 0 }++;
		}
	}
	close $file;
	return $self->{truth};
}

# When the provider last got a request, in seconds since 1970, as far as is read.
sub last_received
{
	my ($self) = @_;
	return $self->{last_received};
}

# Read the ledger: { action_id => row with attempts }.  $where restricts the actions.
sub ledger
{
	my ($self, $where) = @_;
	my $json = $self->{node}->safe_psql('postgres', <<"SQL");
SELECT coalesce(json_agg(x), '[]') FROM (
  SELECT a.action_id, t.name AS tool, t.action_type AS type, a.status, a.next_step, a.known, a.claimed_by, a.attempts,
         a.sends, a.idempotency_key AS key, a.error_code, a.finished_at IS NOT NULL AS finished,
         coalesce(s.options -> 'idempotency' <> '"none"', false) AS honoured,
         EXISTS (SELECT FROM actionledger.due d WHERE d.action_id = a.action_id) AS due,
         coalesce((SELECT json_agg(json_build_object('attempt', p.attempt, 'kind', p.kind, 'incarnation', p.incarnation, 'verdict', p.verdict,
                     'category', p.category, 'sent', p.sent, 'closed', p.finished_at IS NOT NULL,
                     'outlived', coalesce(p.finished_at > n.started_at, false), 'next', extract(epoch FROM n.started_at))
                     ORDER BY p.attempt)
                     FROM actionledger.attempt p
                     LEFT JOIN LATERAL (SELECT min(i.started_at) AS started_at FROM actionledger.incarnation i
                                         WHERE i.incarnation > p.incarnation) n ON true
                     WHERE p.action_id = a.action_id), '[]') AS tries
  FROM actionledger.action a JOIN actionledger.tool t USING (tool_id) JOIN actionledger.service s ON s.service_id = a.service_id
  WHERE @{[ $where // 'true' ]}) x
SQL
	return { map { $_->{action_id} => $_ } @{ decode_json($json) } };
}

# Compare, when everything is settled.  Returns the violations as a list of
# sentences, and the rows.  where => SQL restricts the actions.
sub check
{
	my ($self, %o) = @_;
	my $ledger = $self->ledger($o{where});
	my $truth = $self->truth;
	my @wrong;
	for my $id (sort { $a <=> $b } keys %$ledger)
	{
		my $a = $ledger->{$id};
		my $t = $truth->{$id} // {};
		my $say = sub { push @wrong, "action $id ($a->{tool}, $a->{status}/$a->{next_step}): $_[0]" };
		$self->check_status($a, $t, $say);
		check_attempts($a, $t, $say);
		check_bytes($a, $t, $say);
	}
	unless (defined $o{where})
	{
		push @wrong, map { "the provider got action $_, which nobody has committed" } grep { !$ledger->{$_} } keys %$truth;
	}
	return (\@wrong, $ledger);
}

# What each status promises.
sub check_status
{
	my ($self, $a, $t, $say) = @_;
	my $executed = total($t->{executed});
	my $terminal = $a->{status} =~ /^(confirmed|failed)$/;
	my $before = $self->{terminal}{ $a->{action_id} };
	my $reads = $a->{type} eq 'read_only';
	my $repeats = $reads || $a->{type} eq 'idempotent';

	$say->("was $before before") if defined $before && $before ne $a->{status};
	$self->{terminal}{ $a->{action_id} } = $a->{status} if $terminal;
	$say->("confirmed, and never executed") if $a->{status} eq 'confirmed' && !$executed && !$reads;
	$say->("confirmed, and never answered") if $a->{status} eq 'confirmed' && $reads && !total($t->{answered});
	$say->("failed ($a->{error_code}), and executed $executed times") if $a->{status} eq 'failed' && $executed;
	$say->("executed $executed times") if $executed > 1 && !$repeats;
	$say->('is terminal and still due') if $terminal && $a->{due};
	$say->('is live and due for nobody') if !$terminal && !$a->{due};
	$say->('finished_at does not fit') if ($terminal ? 1 : 0) != ($a->{finished} ? 1 : 0);
	$say->("needs_reconciliation with next step $a->{next_step}")
	  if $a->{status} eq 'needs_reconciliation' && $a->{next_step} !~ /^(lookup|review)$/;
	return;
}

# Attempts: each sent at most once and only after its mark; none after one that may not be followed.
sub check_attempts
{
	my ($a, $t, $say) = @_;
	my $resendable = $a->{type} =~ /^(read_only|idempotent)$/ || ($a->{type} eq 'non_idempotent' && $a->{honoured});
	my $number = 0;
	my $ended;

	for my $try (@{ $a->{tries} })
	{
		$number = check_lookup($try, $t, $number, \$ended, $say), next if $try->{kind} eq 'lookup';
		my $got = $t->{received}{ $try->{attempt} } // [];
		my $name = "attempt $try->{attempt} (" . ($try->{category} // 'open') . ')';
		$say->("$name is not number @{[ $number + 1 ]}") if $try->{attempt} != ++$number;
		$say->("$name arrived " . scalar(@$got) . ' times') if @$got > 1;
		$say->("$name after $ended") if defined $ended;
		$say->("$name arrived when its worker had a successor")
		  if @$got && defined $try->{next} && $got->[-1] > $try->{next} + $READ_LATE;
		$say->("$name is open"), next unless $try->{closed};
		my $ran = $t->{executed}{ $try->{attempt} } // 0;
		$say->("$name is not_sent, and arrived") if $try->{verdict} eq 'not_sent' && @$got;
		$say->("$name says sent = false, and arrived") if defined $try->{sent} && !$try->{sent} && @$got;
		$say->("$name is rejected, and executed") if $try->{verdict} eq 'rejected' && $ran;
		$say->("$name is confirmed, and did not arrive") if $try->{verdict} eq 'confirmed' && !@$got;
		$say->("$name was closed by " . ($try->{outlived} ? 'a later incarnation' : 'its own'))
		  if ($try->{category} eq 'worker_lost') != ($try->{outlived} ? 1 : 0);
		$ended = "$name proved nothing" if !$resendable && $try->{verdict} =~ /^(unknown|in_progress)$/;
		$ended = "$name decided" if $try->{verdict} eq 'confirmed';
	}
	$say->("has $number attempts, and says $a->{attempts}") if $number != $a->{attempts};
	$say->("was received as attempt $_, which the ledger does not have")
	  for grep { $_ > $number } keys %{ $t->{received} // {} };
	$say->("is claimed by $a->{claimed_by}") if defined $a->{claimed_by};
	$say->('is not settled') if !is_settled($a);
	return;
}

# A lookup: arrives at most once, executes nothing, and what it proves absent may be sent again.
sub check_lookup
{
	my ($try, $t, $number, $ended, $say) = @_;
	my $name = "lookup $try->{attempt} (" . ($try->{category} // 'open') . ')';
	my $got = $t->{looked}{ $try->{attempt} } // 0;

	$say->("$name is not number @{[ $number + 1 ]}") if $try->{attempt} != $number + 1;
	$say->("$name arrived $got times") if $got > 1;
	$say->("$name is open") unless $try->{closed};
	$say->("$name is not_sent, and arrived") if ($try->{verdict} // '') eq 'not_sent' && $got;
	$say->("$name found something, and did not arrive") if ($try->{verdict} // '') =~ /^(confirmed|rejected|in_progress)$/ && !$got;
	$say->("$name was closed by " . ($try->{outlived} ? 'a later incarnation' : 'its own'))
	  if ($try->{category} // '') eq 'worker_lost' xor $try->{outlived};
	$$ended = undef if ($try->{category} // '') eq 'absent';
	return $number + 1;
}

# Key, body and target are the same on every send.
sub check_bytes
{
	my ($a, $t, $say) = @_;
	for my $what (qw(keys bodies targets))
	{
		my @found = keys %{ $t->{$what} // {} };
		$say->("was sent with different $what: @found") if @found > 1;
		next unless $what eq 'keys' && @found && $a->{honoured};
		$say->("was sent with key $found[0], and has $a->{key}") if $found[0] ne $a->{key};
	}
	return;
}

# Whether an action is where it stays without a person.
sub is_settled
{
	my ($a) = @_;
	return $a->{status} =~ /^(confirmed|failed)$/
	  || ($a->{status} eq 'needs_reconciliation' && $a->{next_step} eq 'review');
}

# The same as a condition in SQL.
sub settled_sql
{
	return q{(claimed_by IS NULL AND (status IN ('confirmed', 'failed') OR (status = 'needs_reconciliation' AND next_step = 'review')))};
}

# How many actions there are per status and truth, as lines.
sub table
{
	my ($self, $ledger) = @_;
	my %count;
	for my $a (values %$ledger)
	{
		my $t = $self->{truth}{ $a->{action_id} } // {};
		my $n = total($t->{executed});
		my $truth = !$t->{received} ? 'never arrived' : $n == 0 ? 'not executed' : $n == 1 ? 'executed once' : 'executed more often';
		my $kind = $a->{type} eq 'non_idempotent' ? ($a->{honoured} ? 'keyed' : 'unkeyed') : $a->{type};
		$count{ sprintf '%-13s %-20s %-19s', $kind, $a->{status}, $truth }++;
	}
	return map { sprintf '%s %5d', $_, $count{$_} } sort keys %count;
}

# How many attempts ended as lost with their worker.
sub lost
{
	my ($ledger) = @_;
	return scalar grep { ($_->{category} // '') eq 'worker_lost' } map { @{ $_->{tries} } } values %$ledger;
}

sub total
{
	my ($of) = @_;
	my $sum = 0;
	$sum += $_ for values %{ $of // {} };
	return $sum;
}

1;
