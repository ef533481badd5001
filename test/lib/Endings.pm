# Endings.pm: how a request can end, what that proves, and what follows for each
# kind of tool, in the words of the tables: transport, status, state machine.
#
# An ending is a hash.  do: the provider's behaviour.  runs: it executes.  is: what
# it proves when no answer arrived, [verdict, category, flags].  status: of the
# answer.  says: what a rule of the tool says of it, like is.  cut: the end of its
# body was not seen.  marker: it says that it is a replay.  sending: the request was
# not complete.  pending: from then on the key is in use.  unread: no complete
# request was received.
package Endings;

use strict;
use warnings;
use Exporter 'import';

our @EXPORT = qw(%kind none named answer broken encoded foresee);

# honoured: the service declares to honour keys.  mode: the provider's; it executes
# an irreversible request each time that it arrives, key or not.  resend: what is
# unknown may be sent again.
our %kind = (
	read_only => { type => 'read_only', honoured => 0, mode => 'read', resend => 1 },
	read_only_keyed => { type => 'read_only', honoured => 1, mode => 'read', resend => 1 },
	idempotent => { type => 'idempotent', honoured => 0, mode => 'unkeyed', resend => 1 },
	idempotent_keyed => { type => 'idempotent', honoured => 1, mode => 'keyed', resend => 1 },
	keyed => { type => 'non_idempotent', honoured => 1, mode => 'keyed', resend => 1 },
	unkeyed => { type => 'non_idempotent', honoured => 0, mode => 'unkeyed', resend => 0 },
	irreversible => { type => 'irreversible', honoured => 1, mode => 'unkeyed', resend => 0 });

# An ending without a complete head of an answer.
sub none
{
	my ($verdict, $category, $do, $runs, %o) = @_;
	return { do => $do // 'ok', runs => $runs // 0, is => [ $verdict, $category, $o{flags} // () ], %o };
}

# An answer of the vocabulary that has a name.
sub named
{
	my ($do, $status, $runs, %o) = @_;
	return { do => $do, status => $status, runs => $runs, %o };
}

# An answer by status; body => text, headers => [name, value, ...].
sub answer
{
	my ($status, %o) = @_;
	my $do = ($o{runs} ? 'execstatus' : 'status') . ":$status";
	my @headers = @{ $o{headers} // [] };
	while (my ($name, $value) = splice @headers, 0, 2) { $do .= ";$name:" . encoded($value); }
	$do .= ';body:' . encoded($o{body}) if defined $o{body};
	return { %o, do => $do, status => $status, runs => $o{runs} // 0 };
}

# An answer of the raw server, whose body breaks off ("cut") or ends with the connection ("open").
sub broken
{
	my ($shape, $status, $runs, %o) = @_;
	$runs ||= 0;
	return { do => "$shape:$status:$runs", status => $status, runs => $runs, cut => 1, %o };
}

sub encoded
{
	my ($text) = @_;
	return $text =~ s/([^A-Za-z0-9])/sprintf '%%%02X', ord $1/ger;
}

# Statuses that decide; 408, 409 and 412 depend on more, and all others prove nothing.
my %by_status;
$by_status{$_} = { verdict => 'confirmed', category => 'confirmed' } for 200, 201, 203, 204, 205;
$by_status{$_} = { verdict => 'rejected', category => 'redirected' } for 307, 308;
$by_status{$_} = { verdict => 'rejected', category => 'rejected' }
  for 400 .. 405, 407, 410, 411, 413 .. 415, 422, 426, 428, 431, 451, 501, 505;
$by_status{$_} = { verdict => 'rejected', category => 'try_later', transient => 1 } for 421, 423, 425, 511;
$by_status{429} = { verdict => 'rejected', category => 'throttled', transient => 1 };
$by_status{202} = { verdict => 'in_progress', category => 'accepted' };

# What one attempt proves; open: an earlier one may have happened.
sub proves
{
	my ($seen, $honoured, $open, $marked) = @_;
	my $is = $seen->{is} // $seen->{says};
	my $status = $seen->{status};
	my %o;

	if ($is)
	{
		%o = (verdict => $is->[0], category => $is->[1], map { $_ => 1 } @$is[ 2 .. $#$is ]);
	}
	elsif ($seen->{cut} && grep { $status == $_ } 400, 409, 422)
	{
		return { verdict => 'unknown', category => 'body_truncated' };
	}
	elsif ($status == 408 && $seen->{sending})
	{
		%o = (verdict => 'rejected', category => 'request_timeout', transient => 1);
	}
	elsif ($status == 409 && $honoured)
	{
		%o = (verdict => 'in_progress', category => 'key_in_use');
	}
	elsif (($status == 409 || $status == 412) && !$open)
	{
		%o = (verdict => 'rejected', category => 'rejected');
	}
	else
	{
		%o = %{ $by_status{$status} // { verdict => 'unknown', category => 'status_ambiguous' } };
	}
	return \%o unless $marked && $status;

	# The answer of an earlier attempt: it speaks for that one too.
	if ($status >= 500 && !$seen->{says})
	{
		return { verdict => 'unknown', category => 'replayed_error', ends => 1 };
	}
	$o{ends} = 1 if $o{verdict} eq 'unknown' && $seen->{says};
	$o{conclusive} = 1 if $o{verdict} =~ /^(confirmed|rejected)$/;
	$o{category} = 'replayed' if $o{verdict} eq 'confirmed' && !$seen->{says};
	return \%o;
}

# What is known after one more attempt: nothing, not_sent, transient, rejected,
# confirmed, in_progress, unknown, or ended (unknown, and no send can help).
sub fold
{
	my ($known, $o, $reads) = @_;
	my $alone = $o->{transient} ? 'transient' : $o->{verdict};

	return 'confirmed' if $o->{verdict} eq 'confirmed';
	return $alone if $o->{conclusive};
	return 'ended' if $o->{ends};
	if ($known =~ /^(in_progress|unknown)$/)
	{
		return $known if $alone =~ /^(not_sent|transient)$/;
		return $reads ? 'rejected' : 'ended' if $alone eq 'rejected';
		return $alone;
	}
	return $known if $known eq 'transient' && $alone eq 'not_sent';
	return $alone;
}

# "status step code", or "again" for another send.
sub follows
{
	my ($known, $kind, $left) = @_;
	my $code = { not_sent => 'retries_exhausted', transient => 'retries_exhausted', rejected => 'rejected' }->{$known};

	return 'confirmed none -' if $known eq 'confirmed';
	return $left && $known ne 'rejected' ? 'again' : "failed none $code" if $code;
	return 'submitted wait outcome_unknown' if $known eq 'in_progress' && !$kind->{resend};
	return 'again' if $left && $known ne 'ended' && $kind->{resend};
	return 'failed none no_answer' if $kind->{type} eq 'read_only';
	return 'needs_reconciliation review outcome_unknown';
}

# What has to come of a sequence of endings: the story as text; the verdict of
# each attempt; whether the provider says what is not so (an answer that
# promises an effect and had none, or refuses it and had one).
sub foresee
{
	my ($kind, $row, @steps) = @_;
	my $tries = $row->{tries};
	my ($known, $executed, $received, $lies) = ('nothing', 0, 0, 0);
	my ($stored, $in_use, $then, @attempts);

	for my $n (1 .. $tries)
	{
		my $step = $steps[ $n <= @steps ? $n - 1 : -1 ];
		my $seen = $step;
		my $marked = $step->{marker};
		my $runs = $step->{runs} && $kind->{mode} ne 'read';
		my $o;

		$received++ unless $step->{unread} || $step->{is} && $step->{is}[0] eq 'not_sent';
		if ($kind->{mode} eq 'keyed' && $in_use)
		{
			($seen, $runs) = ({ status => 409 }, 0);
		}
		elsif ($runs && $kind->{mode} eq 'keyed' && $stored)
		{
			$marked = 1;
			$seen = { %$step, %$stored } if $step->{status};
		}
		elsif ($runs)
		{
			$executed++;
			$stored = $step->{status} && !$step->{cut} ? { status => $step->{status}, says => $step->{says} } : { status => 200 };
		}
		$in_use ||= $step->{pending};

		$o = proves($seen, $kind->{honoured}, scalar($known =~ /^(in_progress|unknown)$/), $marked && $kind->{honoured});
		push @attempts, $o;
		$lies ||= $kind->{mode} ne 'read' &&
		  ($o->{verdict} eq 'confirmed' && !$executed || $o->{verdict} eq 'rejected' && ($runs || $o->{conclusive} && $executed));
		$known = fold($known, $o, $kind->{type} eq 'read_only');
		$then = $o->{blocked} ? "prepared blocked $o->{category}" : follows($known, $kind, $n < $tries);
		$then = 'needs_reconciliation review outcome_unknown' if $row->{window} && $then =~ / wait /;
		last if $then ne 'again';
	}
	return {
		attempts => \@attempts, lies => $lies, executed => $executed, then => $then,
		story => join(', ', (map { "$_->{verdict} $_->{category}" } @attempts), $then, "received $received", "executed $executed") };
}

1;
