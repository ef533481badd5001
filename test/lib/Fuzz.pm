# Fuzz.pm: random values, as JSON and back, the same for the same seed.
#
# A value is [ 's', text ], [ 'n', number as text ], [ 'b', 0 or 1 ], [ 'z' ] (null),
# [ 'a', [ value, ... ] ] or [ 'o', [ [ name, value ], ... ] ], so that a number
# is never taken for a text and the other way round.  Texts are characters, JSON
# is characters too until it is encoded.
package Fuzz;

use strict;
use warnings;
use Exporter 'import';
use Test::More;
use Time::HiRes qw(time);

our @EXPORT = qw(fuzz_seed to_utf8 from_utf8 pick chance random_bytes random_text random_number random_scalar random_value
  mutate to_json from_json);

# Begin with SEED or a seed of this moment, and tell which.
sub fuzz_seed
{
	my $seed = $ENV{SEED} // int(time * 1000) % 1_000_000_000;
	srand($seed);
	note "SEED=$seed";
	return $seed;
}

# Characters as UTF-8 and back, with U+FFFF and the like as they are, which Encode
# replaces; dies where it is none.
sub to_utf8
{
	my ($text) = @_;
	utf8::encode($text);
	return $text;
}

sub from_utf8
{
	my ($bytes) = @_;
	utf8::decode($bytes) or die 'no UTF-8';
	die 'no UTF-8' if $bytes =~ /[^\x00-\x{d7ff}\x{e000}-\x{10ffff}]/;
	return $bytes;
}

sub pick { return $_[ int rand @_ ]; }
sub chance { my ($percent) = @_; return rand(100) < $percent; }

sub random_bytes
{
	my ($most) = @_;
	return join '', map { chr int rand 256 } 1 .. int rand($most + 1);
}

# A short text, full of what means something somewhere; no NUL.
sub random_text
{
	my ($most) = @_;
	my @odd = ('&', '=', '%', '+', ' ', '[', ']', ';', '"', "'", '\\', '/', '?', '#', '{', '}', '{x}', '{_key}', '{secret:a}',
		"\n", "\r\n", "\t", "\x01", "\x7f", '%41', '%', '..', '$', '[0]', 'a', 'Z', '0', '-', '_', '~', '.', '*',
		"\x{e9}", "\x{20ac}", "\x{1f600}", "\x{feff}", "\x{2028}", "\x{ffff}", "\x{10ffff}");
	return '' if chance(8);
	return join '', map { chance(40) ? chr(97 + int rand 26) : pick(@odd) } 1 .. 1 + int rand($most // 12);
}

sub random_number
{
	my $digits = join '', map { int rand 10 } 1 .. 1 + int rand(pick(1, 4, 20, 40));
	$digits =~ s/^0+(?=\d)//;
	$digits .= '.' . join '', map { int rand 10 } 1 .. 1 + int rand 12 if chance(30);
	$digits .= pick('e', 'E') . pick('', '+', '-') . int rand(pick(4, 30, 330)) if chance(20);
	return [ 'n', (chance(20) ? '-' : '') . $digits ];
}

sub random_scalar
{
	return pick(sub { [ 's', random_text() ] }, sub { [ 's', random_text() ] }, sub { random_number() },
		sub { [ 'b', int rand 2 ] }, sub { ['z'] })->();
}

# A value with at most so many containers inside each other.
sub random_value
{
	my ($depth) = @_;
	return random_scalar() if $depth <= 0 || chance(40);
	return [ 'a', [ map { random_value($depth - 1) } 1 .. int rand 5 ] ] if chance(50);
	my %names = map { random_text(6) => 1 } 1 .. int rand 5;
	return [ 'o', [ map { [ $_, random_value($depth - 1) ] } sort keys %names ] ];
}

# Change a few bytes: flip, drop, double, cut, or put something in.
sub mutate
{
	my ($bytes) = @_;
	my @parts = ('"', '\\', '{', '}', '[', ']', ',', ':', '\\u0000', '\\ud800', "\0", "\xff", "\xc3", "\xe2\x82", 'null', 'true',
		'1e400', '-', '.', 'e', "\xef\xbb\xbf", '"ok":true,', '"error":1,');

	for (1 .. 1 + int rand 3)
	{
		my $at = int rand(length($bytes) + 1);
		my $how = int rand 5;
		if ($how == 0) { substr $bytes, $at, 0, pick(@parts); }
		elsif ($how == 1) { substr $bytes, $at, 1 + int rand 4, ''; }
		elsif ($how == 2) { substr $bytes, $at, 1, chr int rand 256 if $at < length $bytes; }
		elsif ($how == 3) { $bytes = substr $bytes, 0, $at; }
		else { substr $bytes, $at, 0, substr $bytes, $at, 1 + int rand 10; }
	}
	return $bytes;
}

# A value as JSON, spelled one way or another.
sub to_json
{
	my ($value) = @_;
	my ($kind, $content) = @$value;
	my $space = chance(10) ? pick(' ', "\n", "\t") : '';

	return $content if $kind eq 'n';
	return $content ? 'true' : 'false' if $kind eq 'b';
	return 'null' if $kind eq 'z';
	return _to_json_text($content) if $kind eq 's';
	return "[$space" . join(",$space", map { to_json($_) } @$content) . ']' if $kind eq 'a';
	return "{$space" . join(",$space", map { _to_json_text($_->[0]) . ":$space" . to_json($_->[1]) } @$content) . '}';
}

sub _to_json_text
{
	my ($text) = @_;
	my $always = chance(30);

	$text =~ s{(.)}{ _to_json_char($1, $always) }gse;
	return qq{"$text"};
}

sub _to_json_char
{
	my ($c, $always) = @_;
	my $code = ord $c;

	# "$" would end the quotation of SQL
	return "\\$c" if $c =~ /["\\]/;
	return $c unless $code < 0x20 || $c eq '$' || $always;
	return sprintf '\\u%04x', $code if $code < 0x10000;
	return sprintf '\\u%04X\\u%04x', 0xd800 + (($code - 0x10000) >> 10), 0xdc00 + ($code & 0x3ff);
}

# Read JSON; dies where it is none.
sub from_json
{
	my ($text) = @_;
	my $value;

	pos($text) = 0;
	$value = _from_json(\$text);
	$text =~ /\G\s*\z/gc or die 'something follows at ' . pos($text);
	return $value;
}

sub _from_json
{
	my ($text) = @_;

	$$text =~ /\G\s+/gc;
	return [ 's', _from_json_text($text) ] if $$text =~ /\G(?=")/gc;
	return [ 'n', $1 ] if $$text =~ /\G(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?)/gc;
	return [ 'b', $1 eq 'true' ? 1 : 0 ] if $$text =~ /\G(true|false)/gc;
	return ['z'] if $$text =~ /\Gnull/gc;
	if ($$text =~ /\G\[\s*/gc)
	{
		my @elements;
		return [ 'a', \@elements ] if $$text =~ /\G\]/gc;
		do { push @elements, _from_json($text) } while $$text =~ /\G\s*,/gc;
		$$text =~ /\G\s*\]/gc or die 'no ] at ' . pos($$text);
		return [ 'a', \@elements ];
	}
	$$text =~ /\G\{\s*/gc or die 'no value at ' . pos($$text);
	my @members;
	return [ 'o', \@members ] if $$text =~ /\G\}/gc;
	do
	{
		$$text =~ /\G\s*/gc;
		my $name = _from_json_text($text);
		$$text =~ /\G\s*:/gc or die 'no : at ' . pos($$text);
		push @members, [ $name, _from_json($text) ];
	} while $$text =~ /\G\s*,/gc;
	$$text =~ /\G\s*\}/gc or die 'no } at ' . pos($$text);
	return [ 'o', \@members ];
}

sub _from_json_text
{
	my ($text) = @_;
	my %short = (b => "\b", f => "\f", n => "\n", r => "\r", t => "\t");
	my $out = '';

	$$text =~ /\G"/gc or die 'no text at ' . pos($$text);
	while ($$text !~ /\G"/gc)
	{
		if ($$text =~ /\G\\u([dD][89abAB]..)\\u([dD][c-fC-F]..)/gc) { $out .= chr(0x10000 + ((hex($1) & 0x3ff) << 10) + (hex($2) & 0x3ff)); }
		elsif ($$text =~ /\G\\u([0-9a-fA-F]{4})/gc) { $out .= chr hex $1; }
		elsif ($$text =~ /\G\\(["\\\/])/gc) { $out .= $1; }
		elsif ($$text =~ /\G\\([bfnrt])/gc) { $out .= $short{$1}; }
		elsif ($$text =~ /\G([^"\\\x00-\x1f]+)/gc) { $out .= $1; }
		else { die 'no text at ' . pos($$text); }
	}
	return $out;
}

1;
