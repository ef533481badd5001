# Clock.pm: a server whose time of day can be set, by clock.so.
package Clock;

use strict;
use warnings;
use Exporter 'import';
use Fcntl ();
use Ledger;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(start_server_with_clock with_clock set_clock);

my $file;

# Run code whose child processes have the library.
sub with_clock
{
	my ($code) = @_;
	die "$ENV{AL_BUILD}/clock.so is not there" unless -f "$ENV{AL_BUILD}/clock.so";
	if (!defined $file)
	{
		$file = PostgreSQL::Test::Utils::tempdir() . '/clock';
		set_clock(0);
	}
	local $ENV{AL_CLOCK} = $file;
	local $ENV{LD_PRELOAD} = "$ENV{AL_BUILD}/clock.so";
	return $code->();
}

# start_server() with the library.
sub start_server_with_clock
{
	my (@args) = @_;
	return with_clock(sub { start_server(@args) });
}

# Set the clock of the server's machine: so many seconds ahead of the real one.
# The eight bytes are written at once, and in place, because they are mapped.
sub set_clock
{
	my ($seconds) = @_;
	sysopen my $out, $file, Fcntl::O_WRONLY() | Fcntl::O_CREAT() or die "could not open $file: $!";
	syswrite($out, pack('q', $seconds * 1000000)) == 8 or die "could not write $file: $!";
	close $out;
	return;
}

1;
