# Names.pm: a server whose name server and network are resolver.so: what names
# that end in .test stand for, and what was looked up and connected to.
package Names;

use strict;
use warnings;
use Exporter 'import';
use Ledger;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(start_server_with_names set_names with_names lookups answers connects);

my $file;

# Run code whose child processes have the library.
sub with_names
{
	my ($code) = @_;
	die "$ENV{AL_BUILD}/resolver.so is not there" unless -f "$ENV{AL_BUILD}/resolver.so";
	$file //= PostgreSQL::Test::Utils::tempdir() . '/names';
	local $ENV{AL_RESOLVER} = $file;
	local $ENV{LD_PRELOAD} = "$ENV{AL_BUILD}/resolver.so";
	return $code->();
}

# start_server() with the library.
sub start_server_with_names
{
	my (@args) = @_;
	return with_names(sub { start_server(@args) });
}

# Say what names stand for, in the lines that resolver.c describes; replaces all
# that was said before, at once.
sub set_names
{
	my (@lines) = @_;
	open my $out, '>', "$file.new" or die "could not create $file.new: $!";
	print $out map { "$_\n" } @lines;
	close $out or die "could not write $file.new: $!";
	rename "$file.new", $file or die "could not rename $file.new: $!";
	return;
}

# The log's lines of a kind, as [ seconds, pid, name or address, turn or port ].
sub entries
{
	my ($kind, $match) = @_;
	open my $in, '<', "$file.log" or return ();
	my @lines = grep { /\n\z/ } <$in>;
	close $in;
	return grep { !defined $match || $_->[2] =~ /^(?:$match)$/ } map { [ (split)[ 1 .. 4 ] ] } grep { /^$kind / } @lines;
}

# What was looked up, begun and ended; a pattern of names.
sub lookups { return entries('lookup', @_); }
sub answers { return entries('answer', @_); }

# What was connected to over IP; a pattern of addresses.
sub connects { return entries('connect', @_); }

1;
