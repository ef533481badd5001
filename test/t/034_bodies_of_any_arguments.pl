# Whatever the arguments are, the frozen body says them and nothing else: it is
# decoded here, by readers of our own, and held against what the template asks for.
#
# The actions are performed in a transaction that is rolled back: nothing is sent.
# SEED=n repeats a run, AL_FUZZ_ROUNDS=n makes it longer.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Fuzz;
use Ledger;

my $rounds = $ENV{AL_FUZZ_ROUNDS} // 600;
my $seed = fuzz_seed();
my $node = start_server();
my @names = qw(x y s data);
my $input = '{"properties": {' . join(', ', map { qq("$_": {}) } @names) . '}}';

# Text with placeholders only, text around them, containers, fixed values, names that need an encoding.
my $template = from_json(q({
  "a": ["{x}", {"b": "{y}", "fixed": [1, true, null, "pre {s} post", "{ not one }"]}, "{s}"],
  "k[0]&=%+ }) . "\x{e9}" . q(": "{x}", "s": "{s}|{s}", "deep": {"deep": {"": [["{data}"]]}}, "10": [], "data": "{data}"}));
my $quoted = to_json($template) =~ s/'/''/gr;

# name => [ how the body is written, the template (none: the arguments), the field that the key is in ]
my %tools = (
	form => [ 'form', $template ],
	form_with_key => [ 'form', $template, 'key' ],
	json => [ 'json', $template ],
	json_with_key => [ 'json', $template, 'key' ],
	arguments => [ 'json' ]);

$node->safe_psql('postgres', to_utf8(<<"SQL"));
SELECT actionledger.create_service('plain', 'https://api.example.invalid');
SELECT actionledger.create_service('keyed', 'https://api.example.invalid', '{"idempotency": {"body": "key"}}');
@{[ map {
	my ($how, $filled, $key) = @{ $tools{$_} };
	my $service = $key ? 'keyed' : 'plain';
	my $options = $filled ? qq({"$how": $quoted}) : '{}';
	"SELECT actionledger.create_tool('$_', '$service', 'POST /pay', input => '$input', options => '$options');"
} sort keys %tools ]}
SQL

# ---------------------------------------------------------------------------
# What a template asks for
# ---------------------------------------------------------------------------
sub argument
{
	my ($args, $name) = @_;
	my ($member) = grep { $_->[0] eq $name } @{ $args->[1] };
	return $member && $member->[1];
}

# A scalar as the text that stands in a form or within another text; dies with what perform raises.
sub scalar_text
{
	my ($value) = @_;
	my ($kind, $content) = @$value;
	die "LG004\n" if $kind eq 'a' || $kind eq 'o';
	return $kind eq 'z' ? '' : $kind eq 'b' ? ($content ? 'true' : 'false') : $content;
}

# A template with its placeholders filled; undef leaves it out.  A number within a
# text is marked, because how it is spelled is left open.
sub fill
{
	my ($part, $args) = @_;
	my ($kind, $content) = @$part;
	return [ 'a', [ grep { defined } map { fill($_, $args) } @$content ] ] if $kind eq 'a';
	return [ 'o', [ grep { defined $_->[1] } map { [ $_->[0], fill($_->[1], $args) ] } @$content ] ] if $kind eq 'o';
	return $part unless $kind eq 's';
	return argument($args, $1) if $content =~ /\A\{(\w+)\}\z/;
	my @pieces = split /\{(\w+)\}/, $content, -1;
	for my $i (grep { $_ % 2 } 0 .. $#pieces)
	{
		my $value = argument($args, $pieces[$i]);
		$pieces[$i] = !$value ? '' : $value->[0] eq 'n' ? $value : scalar_text($value);
	}
	return [ 'm', \@pieces ];
}

# The leaves of a value: [ path, leaf ]; what is empty has none.
sub leaves
{
	my ($value, @path) = @_;
	my ($kind, $content) = @$value;
	return map { leaves($content->[$_], @path, $_) } 0 .. $#$content if $kind eq 'a';
	return map { leaves($_->[1], @path, $_->[0]) } @$content if $kind eq 'o';
	return [ join("\0", @path), $value ];
}

# ---------------------------------------------------------------------------
# What a body says
# ---------------------------------------------------------------------------
sub form_text
{
	my ($text) = @_;
	die "characters that do not belong into a form: $text" if $text =~ /[^A-Za-z0-9*._%+-]/ || $text =~ /%(?![0-9A-F]{2})/;
	$text =~ tr/+/ /;
	$text =~ s/%(..)/chr hex $1/ge;
	return from_utf8($text);
}

# The leaves of a form: [ path, text ].
sub form_leaves
{
	my ($body) = @_;
	my @leaves;
	for my $field (split /&/, $body, -1)
	{
		my ($name, $value) = $field =~ /\A([^=]*)=([^=]*)\z/ or die "no field: $field";
		my ($first, $rest) = $name =~ /\A([^\[\]]+)((?:\[[^\[\]]*\])*)\z/ or die "no name: $name";
		push @leaves, [ join("\0", map { form_text($_) } $first, $rest =~ /\[([^\[\]]*)\]/g), [ 's', form_text($value) ] ];
	}
	return @leaves;
}

# A number as its sign, its digits and where the point is, to the last digit.
sub decimal
{
	my ($text) = @_;
	my ($sign, $whole, $part, $exponent) = $text =~ /\A(-?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?\z/ or return 'none';
	my $digits = $whole . ($part // '');
	my $point = length($whole) + ($exponent // 0);
	$digits =~ s/\A(0+)// and $point -= length $1;
	$digits =~ s/0+\z//;
	return $digits eq '' ? '0' : "${sign}0.${digits}e$point";
}

sub same_number { return decimal($_[0]) eq decimal($_[1]); }

# Whether a leaf that was read is the one that was expected; in a form all are texts.
sub same_leaf
{
	my ($expected, $got, $form) = @_;
	my ($kind, $content) = @$expected;
	if ($kind eq 'm')
	{
		my $pattern = join '', map { ref $_ ? '(-?[0-9.]+(?:e[+-]?[0-9]+)?)' : quotemeta } @$content;
		my @numbers = map { $_->[1] } grep { ref } @$content;
		my @found = $got->[1] =~ /\A$pattern\z/ or return 0;
		return $got->[0] eq 's' && (!@numbers || !grep { !same_number($numbers[$_], $found[$_]) } 0 .. $#numbers);
	}
	return 0 unless $got->[0] eq ($form ? 's' : $kind);
	return same_number($content, $got->[1]) if $kind eq 'n';
	return $kind eq 'z' || $content eq $got->[1] unless $form;
	return scalar_text($expected) eq $got->[1];
}

# Whether two values are the same, whatever the order of members.
sub same_value
{
	my ($expected, $got) = @_;
	my ($kind, $content) = @$expected;
	return same_leaf($expected, $got, 0) unless $kind eq 'a' || $kind eq 'o';
	return 0 unless $kind eq $got->[0] && @$content == @{ $got->[1] };
	return !grep { !same_value($content->[$_], $got->[1][$_]) } 0 .. $#$content if $kind eq 'a';
	my %named = map { $_->[0] => $_->[1] } @{ $got->[1] };
	return !grep { !$named{ $_->[0] } || !same_value($_->[1], $named{ $_->[0] }) } @$content;
}

# Compare a body with what a tool's template asks for; what differs, or nothing.
sub difference
{
	my ($tool, $args, $code, $key, $body) = @_;
	my ($how, $part, $key_field) = @{ $tools{$tool} };
	my $wanted = eval { $part ? fill($part, $args) : $args };
	return $code eq $@ =~ s/\n//r ? undef : "$code instead of $@" unless $wanted;
	return "$code where nothing is wrong" if $code ne '';
	$wanted = [ 'o', [ @{ $wanted->[1] }, [ $key_field, [ 's', $key ] ] ] ] if $key_field;
	if ($how eq 'json')
	{
		my $got = eval { from_json(from_utf8($body)) };
		return $got && same_value($wanted, $got) ? undef : 'another body ' . ($@ || '');
	}
	my @got = eval { sort { $a->[0] cmp $b->[0] } form_leaves($body) };
	return $@ if $@;
	my @wanted = sort { $a->[0] cmp $b->[0] } leaves($wanted);
	return @got . ' fields instead of ' . @wanted unless @got == @wanted;
	my ($odd) = grep { $got[$_][0] ne $wanted[$_][0] || !same_leaf($wanted[$_][1], $got[$_][1], 1) } 0 .. $#got;
	return defined $odd ? "field $got[$odd][0] is \"$got[$odd][1][1]\"" : undef;
}

# ---------------------------------------------------------------------------
# The rounds
# ---------------------------------------------------------------------------
my @cases;
for my $tool (sort keys %tools)
{
	for (1 .. $rounds)
	{
		my @members = map { [ $_, $_ eq 's' && chance(90) ? random_scalar() : random_value(pick(0, 1, 2, 4)) ] } grep { chance(85) } @names;
		push @cases, [ $tool, [ 'o', \@members ] ];
	}
}
my $values = join ",\n", map { "($_, '$cases[$_][0]', \$j\$" . to_json($cases[$_][1]) . '$j$)' } 0 .. $#cases;
my $out = $node->safe_psql('postgres', to_utf8(<<"SQL"));
BEGIN;
CREATE FUNCTION pg_temp.frozen(tool text, args text) RETURNS text LANGUAGE plpgsql AS \$f\$
DECLARE id bigint;
BEGIN
  id := (SELECT action_id FROM actionledger.perform(tool, args::jsonb));
  RETURN (SELECT ';' || idempotency_key || ';' || encode(body, 'hex') FROM actionledger.action WHERE action_id = id);
EXCEPTION WHEN OTHERS THEN
  RETURN SQLSTATE || ';;';
END \$f\$;
SELECT n || ';' || pg_temp.frozen(tool, args) FROM (VALUES $values) v(n, tool, args) ORDER BY n;
ROLLBACK;
SQL

my (%right, %refused, @wrong, $seen);
for my $line (grep { /^\d+;/ } split /\n/, $out)
{
	my ($n, $code, $key, $hex) = split /;/, $line, -1;
	my ($tool, $args) = @{ $cases[$n] };
	my $difference = difference($tool, $args, $code, $key, pack('H*', $hex));
	$seen++;
	$right{$tool}++ unless $difference || $code ne '';
	$refused{$tool}++ unless $difference || $code eq '';
	push @wrong, "$tool: $difference: " . to_utf8(to_json($args)) . ' gave ' . pack('H*', $hex) if $difference;
}
is($seen, scalar @cases, 'every case has an answer');
cmp_ok($right{$_} // 0, '>', $rounds / 2, "seed $seed: $_: " . ($right{$_} // 0) . ' bodies say their arguments, ' . ($refused{$_} // 0) . ' rightly refused')
  for sort keys %tools;
is_deeply([ @wrong[ 0 .. ($#wrong > 9 ? 9 : $#wrong) ] ], [], "seed $seed: every body says what it has to");
cmp_ok(scalar(keys %refused), '>', 0, 'a container within a text was among them');
is($node->safe_psql('postgres', 'SELECT count(*) FROM actionledger.action'), '0', 'nothing of it was committed');

done_testing();
