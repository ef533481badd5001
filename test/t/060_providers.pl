# The definitions of doc/providers.md, each played against a provider that
# imitates the key rules of its destination.
#
# The SQL of the document runs as it stands, but for what leads elsewhere: the base
# URLs (one test provider) and the secrets (files).  Delays are made short, and
# the breaker dull, by alter_service and alter_tool.  What the provider takes for
# the key is said here, once more and independently of the definitions, so a key at
# another place is none and its resend a second effect.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use IO::Socket::INET;
use JSON::PP;
use Ledger;
use MIME::Base64 ();
use PostgreSQL::Test::Utils;

# What each destination takes for a key: where, how long, of what characters.
my %rules = (
	stripe_refund => { at => 'key_header=Idempotency-Key', max => 255 },
	adyen_refund => { at => 'key_header=Idempotency-Key', max => 64 },
	paypal_refund => { at => 'key_header=PayPal-Request-Id', max => 108 },
	square_refund => { at => 'key_field=idempotency_key', max => 45 },
	razorpay_refund => { at => 'key_header=X-Refund-Idempotency', min => 10, characters => 'A-Za-z0-9_-' },
	razorpay_payout => { at => 'key_header=X-Payout-Idempotency', min => 4, max => 36 },
	gocardless_payment => { at => 'key_header=Idempotency-Key' },
	wise_transfer => { at => 'key_field=customerTransactionId', min => 36, max => 36, characters => '0-9a-f-' },
	book_slot => { at => 'key_header=Idempotency-Key' },
	wise_fund => {},
	slack_message => {},
	sendgrid_mail => {});
my @keyed = grep { $rules{$_}{at} } sort keys %rules;
my @unkeyed = grep { !$rules{$_}{at} } sort keys %rules;

# Arguments of each tool; N stands for the number of the scenario.
my %arguments = (
	stripe_refund => '{"refund_id": "N", "payment_intent": "pi_3X", "amount": 4250}',
	adyen_refund => '{"refund_id": "N", "psp_reference": "QFQTPCQ8HXSKGK82", "value": 4250, "currency": "EUR"}',
	paypal_refund => '{"refund_id": "N", "capture_id": "2GG279541U471931P", "value": "42.50", "currency": "USD"}',
	square_refund => '{"refund_id": "N", "payment_id": "R2B3Z8", "amount": 4250, "currency": "USD"}',
	razorpay_refund => '{"refund_id": "N", "payment_id": "pay_29QQ", "amount": 4250}',
	razorpay_payout => '{"payout_id": "N", "fund_account_id": "fa_001", "amount": 4250}',
	gocardless_payment => '{"payment_id": "N", "mandate": "MD123", "amount": 4250, "currency": "GBP"}',
	wise_transfer => '{"transfer_id": "N", "target_account": 4711, "quote_uuid": "8fa9be20-ba43-4b15-abbb-9424e1481050", "reference": "N"}',
	wise_fund => '{"profile_id": 7, "transfer": N, "try": 1}',
	slack_message => '{"message_id": "N", "channel": "C024BE91L", "text": "order N was refunded"}',
	sendgrid_mail => '{"mail_id": "N", "to": "buyer@example.com", "subject": "Refund", "text": "It is on its way."}',
	book_slot => '{"booking_id": "N", "slot": "2030-01-01T10:00", "name": "Ada"}');

# What each answers when it has done it, and the reference in it.
my %done = (
	stripe_refund => [ 200, { id => 're_1X', object => 'refund', status => 'succeeded' }, 're_1X' ],
	adyen_refund => [ 201, { pspReference => '993617895215577D', status => 'received' }, '993617895215577D' ],
	paypal_refund => [ 201, { id => '1JU08902781691411', status => 'COMPLETED' }, '1JU08902781691411' ],
	square_refund => [ 200, { refund => { id => 'R2B3_KlWP', status => 'PENDING' } }, 'R2B3_KlWP' ],
	razorpay_refund => [ 200, { id => 'rfnd_FP8Q', entity => 'refund', status => 'processed' }, 'rfnd_FP8Q' ],
	razorpay_payout => [ 200, { id => 'pout_0001', entity => 'payout', status => 'processed' }, 'pout_0001' ],
	gocardless_payment => [ 201, { payments => { id => 'PM123', status => 'pending_submission', links => { mandate => 'MD123' } } }, 'PM123' ],
	wise_transfer => [ 200, { id => 16521632, status => 'incoming_payment_waiting' }, '16521632' ],
	wise_fund => [ 201, { type => 'BALANCE', status => 'COMPLETED', errorCode => undef }, undef ],
	slack_message => [ 200, { ok => JSON::PP::true, ts => '1503435956.000247' }, '1503435956.000247' ],
	sendgrid_mail => [ '202;X-Message-Id:14c5d75ce93', undef, undef ],
	book_slot => [ 201, { id => 'BK-1', status => 'booked' }, 'BK-1' ]);

# How an action may end.
my @confirmed = (status => 'confirmed', step => 'none', effects => 1);
my @failed = (status => 'failed', step => 'none', error_code => 'rejected');
my @review = (status => 'needs_reconciliation', step => 'review');

my $p = start_provider();
my $secrets = PostgreSQL::Test::Utils::tempdir();
my $node = start_server(conf => "actionledger.secret_directory = '$secrets'");
my $number = 100;
my %lookups;
my @scenarios;

define();
is_deeply([ sort keys %rules ], [ split /\n/, $node->safe_psql('postgres', 'SELECT tool FROM actionledger.tools ORDER BY tool COLLATE "C"') ],
	'every tool of the document is played');
subtest 'first answers, lost ones, errors' => \&play_answers;
subtest 'a request with this key is being processed' => \&play_in_use;
subtest 'the key was used for something else' => \&play_mismatch;
subtest 'keys that expire' => \&play_expiry;
subtest 'the wire' => \&check_wire;
subtest 'a declaration that is wrong shows in the truth log' => \&play_lie;
subtest 'lists that show late what was done' => \&play_lookups;
$node->stop;
done_testing();

# Runs the document's SQL with other base URLs, and makes its delays short.
sub define
{
	my $text = slurp_file('doc/providers.md');
	my $sql = join '', $text =~ /^```sql\n(.*?)^```$/gms;
	my %names = map { $_ => 1 } $sql =~ /\{secret:(\w+)\}/g;
	$sql =~ s/^CREATE EXTENSION actionledger;\n//m;
	my $moved = $sql =~ s{'https://[^/']+([^']*)', '\{}{'$p->{url}/keyed$1', '\{"allow_private": true, }g;
	cmp_ok($moved, '==', 10, 'ten services');
	append_to_file("$secrets/$_", "canary-$_\n") for keys %names;
	$node->safe_psql('postgres', $sql);
	%lookups = map { split /\|/, $_, 2 } split /\n/, $node->safe_psql('postgres', q{SELECT tool, options -> 'lookup' FROM actionledger.tools WHERE options ? 'lookup'});
	is_deeply([ sort keys %lookups ], [qw(gocardless_payment razorpay_refund stripe_refund wise_fund)], 'every lookup of the document is played');
	# The test provider has no lists of these destinations: lookups are played apart.
	$node->safe_psql('postgres', <<'SQL');
SELECT actionledger.alter_tool(tool, '{"lookup": null}') FROM actionledger.tools;
SELECT actionledger.alter_service(name, '{"breaker": {"failures": 1000}, "limits": {"rate_per_second": null}}') FROM actionledger.services;
SELECT actionledger.alter_tool(tool, '{"timeout": "20s", "retry": {"attempts": 6, "base": "50ms", "cap": "200ms"}}') FROM actionledger.tools;
CREATE FUNCTION plan() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	NEW.url := NEW.url || CASE WHEN NEW.url LIKE '%?%' THEN '&' ELSE '?' END || current_setting('test.plan');
	RETURN NEW;
END$$;
CREATE TRIGGER plan BEFORE INSERT ON actionledger.action FOR EACH ROW EXECUTE FUNCTION plan();
SQL
	return;
}

# The lookups of the document, each against a server that keeps what was made as its
# destination lists it.  The answers to what makes it are lost, and the list shows it late.
#	made: the request that makes it, and where it stands; key: where its body has the key
#	asked: the request of a lookup, whole; listed: the answer, from the objects
#	object: one that is not ours without its key, and what state means "has failed"
sub play_lookups
{
	my %lists = (
		stripe_refund => {
			service => 'stripe', failed => 'failed', done => 'succeeded', argument => '"payment_intent": "pi_N"',
			made => qr{^POST /v1/refunds }, under => qr{(?:^|&)payment_intent=(\w+)}, key => qr{(?:^|&)metadata(?:%5B|\[)al_key(?:%5D|\])=([^&]+)},
			asked => qr{^GET /v1/refunds\?limit=100&payment_intent=(\w+) HTTP},
			object => sub { my ($id, $key, $status) = @_; return { id => $id, status => $status, metadata => { al_key => $key } } },
			listed => sub { return { object => 'list', has_more => JSON::PP::false, data => [@_] } } },
		razorpay_refund => {
			service => 'razorpay', failed => 'failed', done => 'processed', argument => '"payment_id": "pay_N"',
			made => qr{^POST /payments/(\w+)/refund }, key => qr{"receipt": ?"([^"]+)"},
			asked => qr{^GET /payments/(\w+)/refunds\?count=100 HTTP},
			object => sub { my ($id, $key, $status) = @_; return { id => $id, entity => 'refund', receipt => $key, status => $status } },
			listed => sub { return { entity => 'collection', count => scalar @_, items => [@_] } } },
		gocardless_payment => {
			service => 'gocardless', done => 'pending_submission', argument => '"mandate": "MDN"',
			made => qr{^POST /payments }, under => qr{"mandate": ?"(\w+)"}, key => qr{"al_key": ?"([^"]+)"},
			asked => qr{^GET /payments\?limit=500&mandate=(\w+) HTTP},
			object => sub { my ($id, $key, $status) = @_; return { id => $id, status => $status, metadata => { al_key => $key } } },
			listed => sub { return { meta => { cursors => { before => undef, after => undef }, limit => 500 }, payments => [@_] } } });

	$node->safe_psql('postgres', 'DROP TRIGGER plan ON actionledger.action');
	play_list($_, $lists{$_}) for sort keys %lists;
	play_funding();
	return;
}

# Points a tool's service at a server, and gives the tool back its lookup, hurried.
sub look_at
{
	my ($tool, $service, $url) = @_;
	$node->safe_psql('postgres', qq{SELECT actionledger.alter_service('$service', '{"base_url": "$url"}')});
	$node->safe_psql('postgres', qq{SELECT actionledger.alter_tool('$tool', jsonb_build_object('max_processing', '100ms', 'timeout', '2s', 'connect_timeout', '2s',
		'retry', '{"attempts": 2}'::jsonb, 'lookup', '$lookups{$tool}'::jsonb || '{"every": "100ms", "attempts": 3}'))});
	return;
}

# Reads a request: its head, and its body.
sub read_request
{
	my ($socket) = @_;
	my $text = '';

	while ($text !~ /\r\n\r\n/) { sysread($socket, $text, 65536, length $text) or return }
	my ($head, $body) = split /\r\n\r\n/, $text, 2;
	my ($length) = $head =~ /^Content-Length: (\d+)/mi;
	while (length $body < ($length // 0)) { sysread($socket, $body, 65536, length $body) or return }
	return ($head, $body);
}

# Answers a request with JSON.
sub answer_json
{
	my ($socket, $value) = @_;
	my $json = encode_json($value);
	print $socket "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: ${\ length $json}\r\n\r\n$json";
	$socket->flush;
	return;
}

sub play_list
{
	my ($tool, $list) = @_;
	my $folder = PostgreSQL::Test::Utils::tempdir();
	my @cases = ('done', 'late', 'none', $list->{failed} ? 'failed' : ());
	my $server = start_raw_server(sub {
		my ($socket) = @_;
		my ($head, $body) = read_request($socket) or return;

		if ($head =~ $list->{made})
		{
			my $under = $list->{under} ? ($body =~ $list->{under})[0] : $1;
			my ($key) = $body =~ $list->{key};
			append_to_file("$folder/$under", "$key\n");
			return;
		}
		my ($under) = $head =~ $list->{asked} or return;
		my ($case) = $under =~ /(done|late|none|failed)$/;
		my %keys = map { $_ => 1 } -e "$folder/$under" ? split /\n/, slurp_file("$folder/$under") : ();
		# The list shows what is new late, or not at all.
		%keys = () if $case eq 'none' || $case eq 'late' && !-e "$folder/looked";
		append_to_file("$folder/looked", '.') if $case eq 'late';
		answer_json($socket, $list->{listed}->($list->{object}->('other', 'another', $list->{done}),
			map { $list->{object}->("id_$case", $_, $case eq 'failed' ? $list->{failed} : $list->{done}) } sort keys %keys));
	});
	my %id;

	look_at($tool, $list->{service}, $server->{url});
	for my $case (@cases)
	{
		my $args = $arguments{$tool} =~ s/"N"/"$case"/r;
		my ($name) = $list->{argument} =~ /^("\w+")/;
		$args =~ s/$name: "[^"]*"/$list->{argument} =~ s{N"$}{$case"}r/e;
		$id{$case} = $node->safe_psql('postgres', "SELECT action_id FROM actionledger.perform('$tool', '$args')");
	}
	my $row = settle($node, $id{done}, 'confirmed', 'none');
	is_deeply([ @$row{qw(confirmed_by external_ref sends lookups)} ], [ 'lookup', 'id_done', 2, 1 ], "$tool: found: confirmed, with its reference");
	$row = settle($node, $id{late}, 'confirmed', 'none');
	is_deeply([ @$row{qw(confirmed_by external_ref sends lookups)} ], [ 'lookup', 'id_late', 2, 2 ],
		"$tool: found by the second lookup, which the first one has not made a failure");
	$row = settle($node, $id{none}, 'needs_reconciliation', 'review');
	is_deeply([ @$row{qw(sends lookups known)} ], [ 2, 3, 'unknown' ], "$tool: not found: a person decides");
	if ($id{failed})
	{
		$row = settle($node, $id{failed}, 'failed', 'none');
		is($row->{error_code}, 'rejected', "$tool: found failed: it did not happen");
	}
	for my $file (grep { !/looked$/ } glob "$folder/*")
	{
		my @keys = split /\n/, slurp_file($file);
		is_deeply([ scalar @keys, $keys[0] ], [ 2, $keys[1] ], "$tool: sent as often as its retry option says, with one key");
	}
	return;
}

# Wise tells of the transfer, not of its funding.
sub play_funding
{
	my $folder = PostgreSQL::Test::Utils::tempdir();
	my %shows = (1 => ['processing'], 2 => [ 'incoming_payment_waiting', 'processing' ], 3 => ['incoming_payment_waiting'], 4 => ['cancelled']);
	my $server = start_raw_server(sub {
		my ($socket) = @_;
		my ($head) = read_request($socket) or return;

		if ($head =~ m{^POST /v3/profiles/7/transfers/(\d+)/payments })
		{
			append_to_file("$folder/funded_$1", '.');
			return;
		}
		my ($transfer) = $head =~ m{^GET /v1/transfers/(\d+) HTTP} or return;
		append_to_file("$folder/looked_$transfer", '.');
		my @states = @{ $shows{$transfer} };
		my $looks = length slurp_file("$folder/looked_$transfer");
		answer_json($socket, { id => $transfer + 0, status => $states[ $looks > @states ? -1 : $looks - 1 ] });
	});

	look_at('wise_fund', 'wise', $server->{url});
	my %id = map { $_ => $node->safe_psql('postgres', "SELECT action_id FROM actionledger.perform('wise_fund', '{\"profile_id\": 7, \"transfer\": $_, \"try\": 1}')") } sort keys %shows;
	my %lookups = (1 => 1, 2 => 2, 3 => 3, 4 => 3);
	for my $transfer (sort keys %shows)
	{
		my $done = $transfer <= 2;
		my $row = settle($node, $id{$transfer}, $done ? ('confirmed', 'none') : ('needs_reconciliation', 'review'));
		is_deeply([ @$row{qw(sends lookups)} ], [ 1, $lookups{$transfer} ], "wise_fund: $shows{$transfer}[0]: looked up, never sent again");
		is(length slurp_file("$folder/funded_$transfer"), 1, "wise_fund: $shows{$transfer}[0]: funded once");
	}
	return;
}

# An answer as an item of a plan: a status with headers, and a body.
sub answer
{
	my ($how, $status, $body) = @_;
	my ($number, @headers) = split /;/, $status;
	my $text = !defined $body ? '' : ref $body ? JSON::PP->new->canonical->encode($body) : $body;
	my $item = "$how:$number" . join('', map { ';' . s/^([^:]+:)(.*)$/$1 . twice($2)/er } @headers);
	return "$item;body:" . twice($text);
}

# Free text of an item is decoded twice.
sub twice { return $_[0] =~ s/([^A-Za-z0-9])/sprintf('%%25%02X', ord $1)/ger }

# The items that answer as the destination does when it has done it: at once, and with the answer lost.
sub does { my ($tool) = @_; return answer('execstatus', @{ $done{$tool} }[ 0, 1 ]) }
sub loses { my ($tool, $status, $body) = @_; return answer('loststatus', $status // $done{$tool}[0], $body // $done{$tool}[1]) }
sub says { my ($status, $body) = @_; return answer('status', $status, $body) }

# Performs a tool with a plan for the provider; what is expected is looked at by expect().
sub play
{
	my ($tool, $claim, $plan, %o) = @_;
	my $n = ++$number;
	my $args = $arguments{$tool} =~ s/\bN\b/$n/gr;
	my $query = join '&', "do=$plan", $rules{$tool}{at} // (), $o{query} // ();
	my $options = $o{options} // '{}';
	my $id = $node->safe_psql('postgres', "SET test.plan = '$query'; SELECT action_id FROM actionledger.perform('$tool', '$args', options => '$options')");
	push @scenarios, { id => $id, tool => $tool, claim => "$tool: $claim", %o };
	return $id;
}

# Waits for the scenarios played so far, and compares.
#	status, step (of the action), error_code, ref, by (confirmed_by), result
#	effects, sends, category (of the last attempt), categories (of some attempt)
sub expect
{
	my $end = time + 60;
	for my $s (splice @scenarios)
	{
		my $left = $end - time;
		my $row = eval { settle($node, $s->{id}, $s->{status}, $s->{step}, $left > 2 ? $left : 2) };
		ok($row, "$s->{claim}: $s->{status}")
		  or do { diag($@, join ' ', map { $_->{category} // 'open' } attempts_of($node, $s->{id})); next };
		is(effects($p, $s->{id}), $s->{effects}, "$s->{claim}: $s->{effects} effects");
		my @attempts = attempts_of($node, $s->{id});
		is($row->{external_ref}, $s->{ref}, "$s->{claim}: reference") if exists $s->{ref};
		is($row->{confirmed_by}, $s->{by}, "$s->{claim}: confirmed by") if exists $s->{by};
		is($row->{error_code}, $s->{error_code}, "$s->{claim}: error code") if exists $s->{error_code};
		is_deeply($row->{result}, $s->{result}, "$s->{claim}: result") if exists $s->{result};
		is(scalar @attempts, $s->{sends}, "$s->{claim}: sends") if exists $s->{sends};
		is($attempts[-1]{category}, $s->{category}, "$s->{claim}: category") if exists $s->{category};
		is(scalar(received($p, $s->{id})), scalar @attempts, "$s->{claim}: every send arrived once");
		is($row->{sends}, scalar @attempts, "$s->{claim}: sends are counted");
		if ($s->{categories})
		{
			ok((grep { ($_->{category} // '') eq $s->{categories} } @attempts), "$s->{claim}: some answer is $s->{categories}")
			  or diag(join ' ', map { $_->{category} } @attempts);
		}
	}
	return;
}

# What the answers of each destination come to.
sub play_answers
{
	for my $tool (sort keys %rules)
	{
		play($tool, 'done', does($tool), @confirmed, ref => $done{$tool}[2], sends => 1, by => 'response');
	}
	for my $tool (@keyed)
	{
		my %marked = map { $_ => 1 } qw(stripe_refund book_slot);
		play($tool, 'first answer lost, the second is the stored one', loses($tool) . ',' . does($tool), @confirmed, ref => $done{$tool}[2], sends => 2,
			by => $marked{$tool} ? 'replay' : 'response');
		play($tool, 'two answers lost', loses($tool) . ',close,' . does($tool), @confirmed, ref => $done{$tool}[2], sends => 3);
		play($tool, 'connection broken before anything was done', 'close_before,' . does($tool), @confirmed, sends => 2);
		play($tool, 'a 500 that nothing was stored for', 'status:500,' . does($tool), @confirmed, sends => 2);
		play($tool, 'a stored 500', 'execstatus:500', @review, effects => 1, $marked{$tool} ? (sends => 2, category => 'replayed_error') : (sends => 6));
		play($tool, 'throttled', says('429;Retry-After:1', {}) . ',' . does($tool), @confirmed, sends => 2, categories => 'throttled');
		play($tool, 'throttled by a gateway, with a page', says('429;Content-Type:text/html', '<html>slow down</html>') . ',' . does($tool), @confirmed, sends => 2,
			categories => 'throttled');
		play($tool, 'refused at once', says('402', { error => 'no' }), @failed, effects => 0, sends => 1);
		play($tool, 'lost, then refused: perhaps by our own first request', loses($tool) . ',' . says('402', { error => 'no' }), @review, effects => 1, sends => 2);
		play($tool, 'every answer lost', loses($tool), @review, effects => 1, sends => 6);
	}
	for my $tool (@unkeyed)
	{
		play($tool, 'answer lost', loses($tool), @review, effects => 1, sends => 1);
		play($tool, 'no answer, and nothing done', 'close_before', @review, effects => 0, sends => 1);
		play($tool, 'a 500', 'status:500', @review, effects => 0, sends => 1);
	}
	play_stripe();
	play_others();
	play_messages();
	play_bookings();
	expect();
	my $kept = $node->safe_psql('postgres',
		"SELECT DISTINCT t.response_headers ->> 'x-message-id' FROM actionledger.attempts t JOIN actionledger.actions a USING (action_id) WHERE a.tool = 'sendgrid_mail' AND a.status = 'confirmed'");
	is($kept, '14c5d75ce93', 'sendgrid_mail: the message id is kept with the attempt');
	my $words = $node->safe_psql('postgres', q{SELECT string_agg(DISTINCT error_message, '; ' ORDER BY error_message) FROM actionledger.action
		JOIN actionledger.tool t USING (tool_id) WHERE t.name = 'book_slot' AND error_message LIKE '%(slot_taken)%'});
	is($words, '2 sends, outcome unknown; the last: refused with HTTP 409 (slot_taken); refused with HTTP 409 (slot_taken)', 'an outcome rule is named in the words');
	return;
}

sub play_stripe
{
	my %failed = (id => 're_2', status => 'failed');
	play('stripe_refund', 'a 200 that has failed', answer('execstatus', 200, \%failed), @failed, effects => 1, sends => 1, category => 'refund_failed');
	play('stripe_refund', 'a lost 200 that had failed, then its replay', loses('stripe_refund', 200, \%failed) . ',' . does('stripe_refund'), @failed, effects => 1, sends => 2,
		category => 'refund_failed');
	play('stripe_refund', 'another 409', says(409, { error => { code => 'lock_timeout' } }) . ',' . does('stripe_refund'), @confirmed, sends => 2, categories => 'conflict');
	play('stripe_refund', '"already refunded" after a lost answer', loses('stripe_refund') . ',' . says(400, { error => { code => 'charge_already_refunded' } }),
		@review, effects => 1, sends => 2);
	return;
}

sub play_others
{
	my $busy = { errorCode => '704', message => 'request already processed or in progress' };
	my %paypal = (id => '1JU', status => 'PENDING');
	my $conflict = { error => { code => 409, type => 'invalid_state', errors => [ { reason => 'idempotent_creation_conflict', links => { conflicting_resource_id => 'PM123' } } ] } };
	my %payout = (id => 'pout_2', entity => 'payout');

	play('adyen_refund', '704 at 422 and at 409', join(',', loses('adyen_refund'), says(422, $busy), says(409, $busy), does('adyen_refund')), @confirmed, sends => 4,
		ref => '993617895215577D', categories => 'key_in_use');
	play('adyen_refund', 'another 422', says(422, { errorCode => '167' }), @failed, effects => 0, sends => 1);

	play('paypal_refund', 'pending is a refund too', answer('execstatus', 201, \%paypal), @confirmed, sends => 1, result => 'PENDING');
	play('paypal_refund', 'the latest state is another', loses('paypal_refund', 201, \%paypal) . ',' . says(200, { %paypal, status => 'COMPLETED' }), @confirmed, sends => 2,
		result => 'COMPLETED', ref => '1JU');
	play('paypal_refund', 'the latest state is that it failed', loses('paypal_refund', 201, \%paypal) . ',' . says(200, { %paypal, status => 'FAILED' }), @failed, effects => 1, sends => 2);
	play('paypal_refund', 'the token has expired', says(401, { error => 'invalid_token' }) . ',' . does('paypal_refund'), @confirmed, sends => 2, categories => 'token_expired');
	play('paypal_refund', 'the token has expired after a lost answer', loses('paypal_refund') . ',' . says(401, {}) . ',' . does('paypal_refund'), @confirmed, sends => 3);
	play('paypal_refund', '"already used" instead of a replay', loses('paypal_refund') . ',' . says(400, { name => 'DUPLICATE_REQUEST_ID' }), @review, effects => 1, category => 'key_used');

	play('square_refund', 'rejected in a 200', answer('execstatus', 200, { refund => { id => 'R3', status => 'REJECTED' } }), @failed, effects => 1, sends => 1);
	play('razorpay_refund', 'failed in a 200', answer('execstatus', 200, { id => 'rfnd_2', status => 'failed' }), @failed, effects => 1, sends => 1);

	play('razorpay_payout', 'queued, processing, processed', join(',', answer('execstatus', 200, { %payout, status => 'queued' }),
			says(200, { %payout, status => 'processing' }), says(200, { %payout, status => 'processed' })), @confirmed, sends => 3, ref => 'pout_2', result => 'processed');
	play('razorpay_payout', 'queued, then failed', answer('execstatus', 200, { %payout, status => 'queued' }) . ',' . says(200, { %payout, status => 'failed' }),
		@failed, effects => 1, sends => 2);

	play('gocardless_payment', '409 names what was created', loses('gocardless_payment') . ',' . says(409, $conflict), @confirmed, sends => 2, ref => 'PM123', category => 'created_before');
	play('gocardless_payment', 'another 409', loses('gocardless_payment') . ',' . says(409, { error => { code => 409, errors => [ { reason => 'other' } ] } }),
		@review, effects => 1, sends => 6, category => 'conflict');

	play('wise_fund', 'rejected in a 201', says(201, { type => 'BALANCE', status => 'REJECTED', errorCode => 'transfer.insufficient_funds' }), @failed, effects => 0, sends => 1,
		category => 'funding_rejected');
	play('wise_fund', 'a 201 that says neither', says(201, { type => 'BALANCE' }), @review, effects => 0, sends => 1);
	return;
}

sub play_messages
{
	my $no = JSON::PP::false;

	play('slack_message', 'ok is false', says(200, { ok => $no, error => 'channel_not_found' }), @failed, effects => 0, sends => 1, category => 'slack_refused');
	play('slack_message', 'ok is false and some of it may have succeeded', answer('execstatus', 200, { ok => $no, error => 'internal_error' }), @review, effects => 1, sends => 1,
		category => 'slack_unsure');
	play('slack_message', 'too many in a 200', says(200, { ok => $no, error => 'ratelimited' }) . ',' . does('slack_message'), @confirmed, sends => 2);
	play('slack_message', 'too many in a 429', says('429;Retry-After:1', { ok => $no, error => 'ratelimited' }) . ',' . does('slack_message'), @confirmed, sends => 2);
	play('slack_message', 'a 200 without ok', says(200, {}), @review, effects => 0, sends => 1);
	play('slack_message', 'a 200 with a page', says('200;Content-Type:text/html', '<html>'), @review, effects => 0, sends => 1);
	play('sendgrid_mail', '202 without a message id', 'execstatus:202', status => 'submitted', step => 'wait', effects => 1, sends => 1);
	play('sendgrid_mail', 'refused', says(400, { errors => [ { message => 'bad' } ] }), @failed, effects => 0, sends => 1);
	return;
}

sub play_bookings
{
	my %conflict = map { $_ => { error => { code => $_ } } } qw(already_booked slot_taken other);

	play('book_slot', '409: already booked', loses('book_slot') . ',' . says(409, $conflict{already_booked}), @confirmed, sends => 2, category => 'done_before');
	play('book_slot', '409: taken by another', says(409, $conflict{slot_taken}), @failed, effects => 0, sends => 1, category => 'slot_taken');
	play('book_slot', '409: taken, perhaps by us', loses('book_slot') . ',' . says(409, $conflict{slot_taken}), @review, effects => 1, sends => 2);
	play('book_slot', '409: something else', says(409, $conflict{other}), @review, effects => 0, sends => 6, category => 'conflict');
	play('book_slot', '503 that is known to have done nothing', says('503;X-Not-Executed:true', {}) . ',' . does('book_slot'), @confirmed, sends => 2, categories => 'not_executed');
	play('book_slot', '202, and later the booking', answer('execstatus', 202, { status => 'queued' }) . ',' . says(200, { id => 'BK-9', status => 'booked' }), @confirmed, sends => 2,
		ref => 'BK-9', categories => 'queued_there');
	return;
}

# The client gives up, the provider goes on: until it has finished, the key is in use.
sub play_in_use
{
	my @tools = grep { $_ ne 'razorpay_payout' } @keyed;

	patch_tools('{"timeout": "500ms", "connect_timeout": "500ms", "retry": {"attempts": 60, "base": "100ms", "cap": "300ms"}}');
	play($_, 'in use, then done', 'processing:2000,ok', @confirmed) for @tools;
	my %in_use = (gocardless_payment => 'conflict', adyen_refund => 'key_in_use');
	for my $s (@scenarios) { $s->{categories} = $in_use{ $s->{tool} } // 'key_in_use' }
	expect();
	return;
}

# Somebody has used the key for another request: nobody knows what that was.
sub play_mismatch
{
	my %answers = (
		stripe_refund => [ 400, { error => { type => 'idempotency_error' } }, 'key_mismatch' ],
		square_refund => [ 400, { errors => [ { category => 'INVALID_REQUEST_ERROR', code => 'IDEMPOTENCY_KEY_REUSED' } ] }, 'key_mismatch' ],
		paypal_refund => [ 422, { name => 'DUPLICATE_REQUEST_ID' }, 'key_used' ]);

	patch_tools('{"timeout": "20s", "connect_timeout": "5s", "retry": {"attempts": 3, "base": "50ms", "cap": "100ms"}}');
	play($_, 'mismatch', says(@{ $answers{$_} }[ 0, 1 ]), @review, effects => 0, sends => $answers{$_}[2] eq 'key_mismatch' ? 1 : 3, category => $answers{$_}[2]) for sort keys %answers;
	play('razorpay_refund', 'mismatch, which it calls a bad request', says(400, { error => { code => 'BAD_REQUEST_ERROR' } }), @failed, effects => 0, sends => 1);

	# this provider's own rule: the key is remembered with its body
	my $id = play('book_slot', 'mismatch', 'ok', options => '{"not_before": "2099-01-01T00:00:00Z"}', @review, effects => 0, sends => 1, category => 'key_mismatch');
	my $row = action_row($node, $id);
	like(post($row->{url} =~ s{^http://[^/]+}{}r, $row->{idempotency_key}, '{"booking": "another"}'), qr{^HTTP/1.1 200 }, 'the key is used for another booking');
	is($node->safe_psql('postgres', "SELECT next_step FROM actionledger.retry($id, 'now')"), 'send', 'and then for ours');
	expect();
	return;
}

# Posts something by hand, and returns the answer.
sub post
{
	my ($target, $key, $body) = @_;
	my $socket = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$p->{port}") or die "could not connect: $!";
	print $socket "POST $target HTTP/1.1\r\nHost: x\r\nConnection: close\r\nIdempotency-Key: $key\r\nContent-Length: " . length($body) . "\r\n\r\n$body";
	local $/;
	return scalar <$socket>;
}

# A key that the provider forgets is not sent again after it, however many tries are left.
sub play_expiry
{
	patch_tools('{"retry": {"attempts": 60, "base": "50ms", "cap": "300ms"}}');
	patch_windows('4s', '2s');
	play($_, 'its key expires', 'close', query => 'key_ttl_ms=4000', @review, effects => 1) for @keyed;
	my @ids = map { $_->{id} } @scenarios;
	expect();
	for my $id (@ids)
	{
		cmp_ok(scalar(attempts_of($node, $id)), '>', 1, "action $id was sent again while its key was known");
	}
	my $late = $node->safe_psql('postgres',
		"SELECT count(*) FROM actionledger.attempt t JOIN actionledger.action a USING (action_id) WHERE action_id IN (@{[ join ', ', @ids ]}) AND t.started_at > a.key_ends_at");
	is($late, 0, 'nothing was sent after the window');
	my ($out, $err) = ('', '');
	$node->psql('postgres', "SELECT actionledger.retry($ids[0], 'once more', force => true)", stdout => \$out, stderr => \$err);
	like($err, qr/cannot be sent now/, 'nor by retry, forced');
	return;
}

sub patch_tools
{
	my ($patch) = @_;
	$node->safe_psql('postgres', "SELECT actionledger.alter_tool(tool, '$patch') FROM actionledger.tools");
	return;
}

sub patch_windows
{
	my ($window, $margin) = @_;
	my $patch = qq{{"idempotency": {"window": "$window", "margin": "$margin"}}};
	$node->safe_psql('postgres', qq{
		SELECT actionledger.alter_service(name, '$patch') FROM actionledger.services WHERE options -> 'idempotency' <> '"none"';
		SELECT actionledger.alter_tool(tool, '$patch') FROM actionledger.tools WHERE jsonb_typeof(options -> 'idempotency') = 'object'});
	return;
}

# What the provider saw of every request: key, credentials, the same bytes each time.
sub check_wire
{
	my $by = truth_by_action($p);
	my %tool = map { split /\|/ } split /\n/, $node->safe_psql('postgres', 'SELECT action_id, tool FROM actionledger.actions');
	my (%seen, %auth);

	for my $t (truth($p))
	{
		next unless $t->{ev} eq 'received' && ($t->{action} // '') =~ m{/(\d+)$};
		$seen{ $tool{$1} }{ $t->{key} // '' }++;
		$auth{ $tool{$1} }{ $t->{auth} // '' }++;
	}
	for my $tool (@keyed)
	{
		my ($min, $max) = ($rules{$tool}{min} // 1, $rules{$tool}{max} // 255);
		my $characters = $rules{$tool}{characters} // '!-~';
		my @wrong = grep { !/\A[$characters]{$min,$max}\z/ } keys %{ $seen{$tool} };
		is_deeply(\@wrong, [], "$tool: keys stand where they are looked for, $min to $max of $characters");
		cmp_ok(scalar keys %{ $seen{$tool} }, '>', 10, "$tool: each action has its own");
	}
	is_deeply($seen{$_}, { '' => $seen{$_}{''} }, "$_: no key") for @unkeyed;
	my @again = grep { keys %{ $by->{$_}{keys} // {} } > 1 || keys %{ $by->{$_}{bodies} } > 1 } keys %$by;
	is_deeply(\@again, [], 'the same key and the same bytes at every send');
	my @twice = grep { ($by->{$_}{executed} // 0) > 1 } keys %$by;
	is_deeply(\@twice, [], 'no action has had two effects');
	my %expected = (
		stripe_refund => 'Bearer canary-stripe_key', paypal_refund => 'Bearer canary-paypal_access_token', square_refund => 'Bearer canary-square_token',
		gocardless_payment => 'Bearer canary-gocardless_token', wise_transfer => 'Bearer canary-wise_token', slack_message => 'Bearer canary-slack_bot_token',
		sendgrid_mail => 'Bearer canary-sendgrid_key', adyen_refund => '', book_slot => '',
		razorpay_refund => 'Basic ' . MIME::Base64::encode_base64('canary-razorpay_key_id:canary-razorpay_key_secret', ''));
	is_deeply([ keys %{ $auth{$_} } ], [ $expected{$_} ], "$_: credentials") for sort keys %expected;
	is($node->safe_psql('postgres', q{SELECT count(*) FROM actionledger.action WHERE headers LIKE '%canary%' OR url LIKE '%canary%'}), 0, 'no secret is stored');
	return;
}

# The count of effects can see a second one: a provider that forgets keys sooner than was declared.
sub play_lie
{
	patch_windows('1d', '1s');
	patch_tools('{"retry": {"attempts": 3, "base": "500ms", "cap": "1s"}}');
	my $id = play('stripe_refund', 'keys are forgotten sooner than declared', 'close', query => 'key_ttl_ms=1');
	@scenarios = ();
	settle($node, $id, 'needs_reconciliation', 'review');
	is(effects($p, $id), 3, 'three effects are seen');
	return;
}
