# A 200 says that the server has answered, not what: GraphQL puts its errors into
# one.  The tool's rules say which of them refuse the operation, and the rest of the
# answers are taken for what their bodies say.
use strict;
use warnings;
use Ledger;
use Test::More;

my $node = start_server();
my $p = start_provider();
refund_service($node, $p, honoured => 0);

# A body as free text of a behaviour, which is decoded twice.
sub twice
{
	my ($text) = @_;
	$text =~ s/([^A-Za-z0-9])/sprintf '%%25%02X', ord $1/ge;
	return $text;
}

# Errors without data: nothing was executed.  Data without errors: done.  Both: only GraphQL's own
# specification knows, so nobody does.
my $rules = '"external_ref": "$.data.refund.id", "outcome": [
	{"status": 200, "if": "exists($.errors[*]) && (!exists($.data) || $.data == null)", "verdict": "rejected", "category": "graphql_refused"},
	{"status": 200, "if": "exists($.data.refund.id) && !exists($.errors)", "verdict": "confirmed"},
	{"status": 200, "verdict": "unknown", "category": "graphql_partial"}]';
my %answers = (
	done => [ execstatus => '{"data": {"refund": {"id": "gql_1"}}}' ],
	refused => [ status => '{"errors": [{"message": "not refundable", "path": ["refund"]}], "data": null}' ],
	invalid => [ status => '{"errors": [{"message": "Syntax Error"}]}' ],
	partial => [ execstatus => '{"data": {"refund": {"id": "gql_2"}}, "errors": [{"message": "could not load the customer"}]}' ],
	empty => [ execstatus => '{"data": {"refund": null}}' ]);
my %ends = (
	done => [ 'confirmed', 'none', undef, 1 ],
	refused => [ 'failed', 'none', 'graphql_refused', 0 ],
	invalid => [ 'failed', 'none', 'graphql_refused', 0 ],
	partial => [ 'needs_reconciliation', 'review', 'graphql_partial', 1 ],
	empty => [ 'needs_reconciliation', 'review', 'graphql_partial', 1 ]);

for my $name (sort keys %answers)
{
	my ($kind, $body) = @{ $answers{$name} };
	my ($status, $step, $category, $effects) = @{ $ends{$name} };
	refund_tool($node, name => $name, mode => 'unkeyed', do => "$kind:200;body:" . twice($body), options => $rules);
	my $id = perform($node, $name, $name);
	my $row = settle($node, $id, $status, $step);
	my ($attempt) = attempts_of($node, $id);

	is($attempt->{http_status}, 200, "$name: the answer was a 200");
	is($attempt->{category}, $category, "$name: and its body decided") if $category;
	is($row->{external_ref}, 'gql_1', "$name: with the reference in it") if $name eq 'done';
	is_deeply([ scalar(received($p, $id)), effects($p, $id) ], [ 1, $effects ], "$name: one request, $effects effects");
}

# What cannot be made of a body takes nothing away that a rule has seen in it: a time with a
# zone does not compare with a date.
refund_tool($node, name => 'zone', mode => 'unkeyed', do => 'execstatus:200;body:' . twice('{"ok": true, "id": "z-1", "when": "2026-11-30T10:00:00+05:30"}'),
	options => '"result": "$.when.datetime() ? (@ < \"2026-12-01\".datetime())", "outcome": [
	{"status": 200, "if": "$.ok == true", "verdict": "confirmed"}, {"status": 200, "verdict": "unknown"}]');
my $zone = settle($node, perform($node, 'zone', 'zone'), 'confirmed', 'none');
is($zone->{result}, undef, 'a result that cannot be had is none');

# The same where the status says it all: 200 with ok false, and a 202 that is final.
refund_tool($node, name => 'slack', mode => 'unkeyed', do => 'okfalse', options => '"outcome": [
	{"status": 200, "if": "$.ok == true", "verdict": "confirmed"}, {"status": 200, "if": "$.ok == false", "verdict": "rejected"}]');
refund_tool($node, name => 'mail', mode => 'unkeyed', do => 'accepted', options => '"outcome": [{"status": 202, "verdict": "confirmed"}]');
my $slack = perform($node, 'slack', 'slack');
my $mail = perform($node, 'mail', 'mail');
settle($node, $slack, 'failed', 'none');
is(effects($p, $slack), 0, 'ok false: refused, and not done');
settle($node, $mail, 'confirmed', 'none');
is(effects($p, $mail), 1, 'a final 202: done once');

$node->stop;
done_testing();
