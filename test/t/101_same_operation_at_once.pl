# Fifty sessions propose the same operation at once: one action, one send, one
# effect, and everybody is told which action stands for it.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;
use IPC::Run ();
use JSON::PP;

my $SESSIONS = 50;
my $provider = start_provider();
my $node = start_server(name => 'crowd', conf => "max_connections = 80\nactionledger.identity_wait = '60s'");
refund_service($node, $provider);
refund_tool($node);

# Runs a statement in many sessions; %d in it is the session's number.  They wait for a lock
# that is let go when all of them are there.  Returns what each printed, in their order.
sub crowd
{
	my ($statement) = @_;
	my $holder = $node->background_psql('postgres');
	$holder->query_safe('SELECT pg_advisory_lock(1)');
	my @run;
	for my $i (1 .. $SESSIONS)
	{
		my ($out, $err) = ('', '');
		my $run = { out => \$out, err => \$err };
		$run->{handle} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'),
				'-c', 'DO $$BEGIN PERFORM pg_advisory_xact_lock_shared(1); END$$', '-c', $statement =~ s/%d/$i/gr ],
			'<', \undef, '>', \$out, '2>', \$err);
		push @run, $run;
	}
	poll_sql($node, "SELECT count(*) = $SESSIONS FROM pg_locks WHERE locktype = 'advisory' AND NOT granted", 'all sessions are there', 120);
	$holder->query_safe('SELECT pg_advisory_unlock(1)');
	$_->{handle}->finish for @run;
	$holder->quit;
	return map { { out => ${ $_->{out} } =~ s/\s+\z//r, err => ${ $_->{err} } } } @run;
}

# The same arguments.
my @same = crowd(q{SELECT p.action_id, p.created, p.observation FROM actionledger.perform('refund', '{"refund_id": "ONE", "amount": 100}') p;});
my @rows = map { [ split /\|/, $_->{out} ] } @same;
is(scalar(grep { $_->[1] eq 't' } @rows), 1, 'one of fifty sessions has created the action');
is(scalar(grep { $_->[1] eq 'f' } @rows), $SESSIONS - 1, 'the others are told that it was there');
is(scalar(keys %{ { map { $_->[0] => 1 } @rows } }), 1, 'and all name the same action');
is(scalar(grep { $_->[1] eq 'f' && $_->[2] =~ /nothing new was sent/ } @rows), $SESSIONS - 1, 'in words');
is(join('', map { $_->{err} } @same), '', 'nobody gets an error');
settle($node, $rows[0][0], 'confirmed');

# Different arguments: whoever comes first has the identity.
my @other = crowd(q{SELECT actionledger.try_perform('refund', '{"refund_id": "TWO", "amount": %d}');});
my @envelopes = map { decode_json($_->{out}) } @other;
my @created = grep { $_->{data} && $_->{data}{created} } @envelopes;
is(scalar(@created), 1, 'of fifty different amounts under one number one is recorded');
is(scalar(grep { ($_->{error}{code} // '') eq 'identity_conflict' } @envelopes), $SESSIONS - 1, 'the others conflict with it');
my $two = settle($node, $created[0]{data}{action_id}, 'confirmed');

# Half of them the same, half of them others, and perform raises.
my @mixed = crowd(q{SELECT created FROM actionledger.perform('refund', jsonb_build_object('refund_id', 'THREE', 'amount', 1 + %d % 2));});
is(scalar(grep { $_->{out} eq 't' } @mixed), 1, 'of two amounts one is recorded');
is(scalar(grep { $_->{out} eq 'f' } @mixed), $SESSIONS / 2 - 1, 'those who asked for that one are told so');
is(scalar(grep { $_->{err} =~ /stands for another request/ } @mixed), $SESSIONS / 2, 'and the others get an error');
my $three = $node->safe_psql('postgres', q{SELECT action_id FROM actionledger.action WHERE identity = 'refund:THREE'});
settle($node, $three, 'confirmed');

is($node->safe_psql('postgres', 'SELECT count(*) FROM actionledger.action'), 3, 'three actions are there');
is_deeply([ map { effects($provider, $_) } $rows[0][0], $two->{action_id}, $three ], [ 1, 1, 1 ], 'with one effect each');
is(scalar(grep { $_->{ev} eq 'received' } truth($provider)), 3, 'of one request each');
$node->stop('fast');
done_testing();
