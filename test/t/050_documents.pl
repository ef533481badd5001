# Every example in README.md and doc/*.md runs, and does what the text says.
#
# The blocks marked ```sql run in their order, each in a psql of its own, as the
# superuser "dba" in the database "shop", on a server of the document's own with sending on.  A block
# ```text after one is what psql prints.  In it "…" stands for any text (alone on
# a line: for any lines), and a time, duration, UUID, process or incarnation for
# any other.
#
# HTTPS URLs of services lead to the test provider: with keys honoured where the
# service declares them, else without.  Comments before a block tell what the
# reader does not see:
#
#	<!-- test: error LG007 -->		the block raises this
#	<!-- test: in NAME -->			it runs in that database, which is made if it is not there
#	<!-- test: provider ITEM -->	how the provider behaves (test/provider/README.md) from here on
#	<!-- test: hidden SQL -->		runs before it
#	<!-- test: until QUERY -->		and waits until this is true
#
# AL_DOCUMENTS=folder writes there the documents with the results as they are now.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;
use IPC::Run ();
use PostgreSQL::Test::Utils;

my @documents = ('README.md', sort glob 'doc/*.md');

# Makes the world of the examples: services lead to the provider.
my $stage = <<'SQL';
CREATE SCHEMA stage;
CREATE TABLE stage.provider AS SELECT '%s'::text AS url, 'ok'::text AS behaviour;
CREATE FUNCTION stage.service() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE provider text := (SELECT url FROM stage.provider);
BEGIN
	IF NEW.options ? 'tls' THEN RETURN NEW; END IF;
	NEW.base_url := provider || regexp_replace(NEW.base_url, '^\w+://[^/]*', '');
	NEW.options := '{"allow_private": true}' || NEW.options;
	RETURN NEW;
END$$;
CREATE TRIGGER stage BEFORE INSERT OR UPDATE ON actionledger.service FOR EACH ROW EXECUTE FUNCTION stage.service();
CREATE FUNCTION stage.action() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE keys jsonb := (SELECT coalesce(t.options -> 'idempotency', s.options -> 'idempotency')
	FROM actionledger.tool t JOIN actionledger.service s USING (service_id) WHERE t.tool_id = NEW.tool_id);
	provider text := (SELECT url FROM stage.provider);
BEGIN
	-- Lookups go to the provider without a mode.
	NEW.url := replace(NEW.url, provider, provider || CASE WHEN keys IS NULL OR keys = '"none"' THEN '/unkeyed' ELSE '/keyed' END);
	NEW.url := NEW.url || CASE WHEN NEW.url LIKE '%%?%%' THEN '&' ELSE '?' END || 'do=' || (SELECT behaviour FROM stage.provider) ||
		coalesce('&key_header=' || (keys ->> 'header'), '&key_field=' || (keys ->> 'body'), '&key_query=' || (keys ->> 'query'), '');
	RETURN NEW;
END$$;
CREATE TRIGGER stage BEFORE INSERT ON actionledger.action FOR EACH ROW EXECUTE FUNCTION stage.action();
SQL

for my $document (@documents)
{
	subtest $document => sub { try_document($document) };
}
subtest 'tables of the documents' => \&check_tables;
done_testing();

# Runs a document.
sub try_document
{
	my ($document) = @_;
	my $name = $document =~ s/\W+/_/gr;
	my $secrets = PostgreSQL::Test::Utils::tempdir();
	append_to_file("$secrets/payments_key", "sk_test_1\n");
	my $world = {
		provider => start_provider(),
		node => start_server(name => $name, extension => 0, conf => "actionledger.secret_directory = '$secrets'"),
		staged => {}
	};
	$world->{node}->safe_psql('postgres', 'CREATE ROLE dba SUPERUSER LOGIN');
	$world->{node}->safe_psql('postgres', 'CREATE DATABASE shop');
	my @blocks = read_blocks($document);
	cmp_ok(scalar @blocks, '>', 0, 'it has examples');
	for my $block (@blocks)
	{
		run_block($world, $block, "line $block->{line}");
	}
	check_truth($world);
	write_document($document, @blocks) if $ENV{AL_DOCUMENTS};
	$world->{node}->stop('immediate');
	return;
}

# Reads the examples of a document with the comments before them and what they print.
sub read_blocks
{
	my ($document) = @_;
	my @lines = split /\n/, slurp_file($document);
	my (@blocks, @notes);

	for (my $i = 0; $i < @lines; $i++)
	{
		if ($lines[$i] =~ /^<!-- test: (.*)$/)
		{
			my $note = $1;
			$note .= "\n$lines[$i]" while $note !~ s/\s*-->\s*$// && ++$i < @lines;
			push @notes, $note;
		}
		elsif ($lines[$i] =~ /^```sql$/)
		{
			my $block = { line => $i + 1, notes => [@notes], sql => '' };
			$block->{sql} .= "$lines[$i]\n" while $lines[++$i] !~ /^```$/;
			push @blocks, $block;
			@notes = ();
		}
		elsif ($lines[$i] =~ /^```text$/ && @blocks && !@notes && !defined $blocks[-1]{text})
		{
			my $text = '';
			$blocks[-1]{text_at} = [ $i + 1, 0 ];
			$text .= "$lines[$i]\n" while $lines[++$i] !~ /^```$/;
			$blocks[-1]{text_at}[1] = $i;
			$blocks[-1]{text} = $text;
		}
		elsif ($lines[$i] =~ /^```(.*)$/)
		{
			die "$document: line @{[$i + 1]}: what is this?" unless $1 =~ /^(|ini|console)$/;
			while ($lines[++$i] !~ /^```$/) { }
		}
	}
	die "$document: a comment for no example" if @notes;
	return @blocks;
}

# Runs an example and compares what it does with what the text says.
sub run_block
{
	my ($world, $block, $label) = @_;
	my ($error, $database, @until) = ('', 'shop');

	stage($world, 'shop');
	for my $note (@{ $block->{notes} })
	{
		my ($word, $rest) = $note =~ /^(\w+)\s+(.*)$/s or die "$label: $note";
		if ($word eq 'error') { $error = $rest }
		elsif ($word eq 'until') { push @until, $rest }
		elsif ($word eq 'hidden') { $world->{node}->safe_psql('shop', $rest); stage($world, 'shop') }
		elsif ($word eq 'provider') { $world->{node}->safe_psql('shop', "UPDATE stage.provider SET behaviour = '$rest'") }
		elsif ($word eq 'in')
		{
			$database = $rest;
			$world->{node}->safe_psql('postgres', "CREATE DATABASE $database")
			  unless $world->{node}->safe_psql('postgres', "SELECT 1 FROM pg_database WHERE datname = '$database'");
		}
		else { die "$label: $note" }
	}
	for my $query (@until)
	{
		poll(sub { $world->{node}->safe_psql('shop', $query) eq 't' }, $query);
	}
	my ($state, $output) = psql($world, $database, $block->{sql});
	is($state, $error, "$label: " . ($error ? "raises $error" : 'runs')) or diag($output);
	$block->{output} = $output;
	if (defined $block->{text})
	{
		like(normal($output), pattern($block->{text}), "$label: prints what the text says") or diag($output);
	}
	return;
}

# Puts the triggers into a database that has the extension by now.
sub stage
{
	my ($world, $database) = @_;

	return if $world->{staged}{$database};
	return if $world->{node}->safe_psql($database, q{SELECT to_regclass('actionledger.service')}) eq '';
	$world->{node}->safe_psql($database, sprintf($stage, $world->{provider}{url}));
	$world->{staged}{$database} = 1;
	return;
}

# Gives the SQLSTATE ('' for none) and what psql prints of a script.  Errors end
# it, so they come last; warnings come before the result.
sub psql
{
	my ($world, $database, $sql) = @_;
	my ($out, $err) = ('', '');

	# What creates the extension needs its triggers before the next statement.
	if ($sql =~ /\A(CREATE EXTENSION actionledger;\n)(.+)\z/s)
	{
		psql($world, $database, $1);
		stage($world, $database);
		$sql = $2;
	}
	IPC::Run::run(
		[ 'psql', '-X', '-v', 'ON_ERROR_STOP=1', '-v', 'VERBOSITY=verbose', '-P', 'pager=off', '-f', '-',
			'-U', 'dba', '-d', $world->{node}->connstr($database) ],
		'<', \$sql, '>', \$out, '2>', \$err);
	my $failed = $? != 0;
	my ($state) = $err =~ /ERROR:  (\w{5}): /;
	$err =~ s/^psql:<stdin>:\d+: //gm;
	$err =~ s/^(ERROR|WARNING|NOTICE):  \w{5}: /$1:  /gm;
	$err =~ s/^(LOCATION|CONTEXT): .*\n//gm;
	$out =~ s{\Q$world->{provider}{url}\E(/(un)?keyed)?}{https://api.example.com}g;
	$err =~ s{\Q$world->{provider}{url}\E(/(un)?keyed)?}{https://api.example.com}g;
	$state = 'psql' if $failed && !defined $state;
	return ($state // '', $failed ? $out . $err : $err . $out);
}

# Makes comparable what differs from run to run and from terminal to terminal.
sub normal
{
	my ($text) = @_;

	$text =~ s/\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?([+-]\d\d|Z)?/<time>/g;
	$text =~ s/\b\d\d:\d\d(:\d\d(\.\d+)?)?/<duration>/g;
	$text =~ s/\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/<uuid>/g;
	$text =~ s/\bdispatcher [1-9]\d*/dispatcher <incarnation>/g;
	$text =~ s/^ *-+(\+-+)* *$//gm;
	$text =~ s/^-\[ RECORD (\d+) \][-+]*$/-[ RECORD $1 ]/gm;
	$text =~ s/[ \t]+/ /g;
	$text =~ s/^ | $//gm;
	$text =~ s/\n+/\n/g;
	$text =~ s/^\n|\n$//g;
	return $text;
}

# Makes a pattern of the text of a document.
sub pattern
{
	my ($text) = @_;
	my $pattern = join '', map {
		$_ eq "\n\xe2\x80\xa6\n" ? '\n(?:.*\n)*' : $_ eq "\xe2\x80\xa6" ? '.*' : quotemeta
	} split /(\n\xe2\x80\xa6\n|\xe2\x80\xa6)/, normal($text);
	return qr/\A$pattern\z/;
}

# Every confirmed action was executed once, no failed one was, whatever the examples did.
sub check_truth
{
	my ($world) = @_;
	my $by = truth_by_action($world->{provider});
	my $rows = $world->{node}->safe_psql('shop',
		"SELECT action_id, status FROM actionledger.action WHERE coalesce(confirmed_by, '') NOT IN ('person', 'executor') AND coalesce(error_code, '') <> 'resolved_failed'");
	my @wrong;

	for my $row (split /\n/, $rows)
	{
		my ($id, $status) = split /\|/, $row;
		my $executed = $by->{$id}{executed} // 0;
		push @wrong, "$row, executed $executed times"
		  if $executed > 1 || ($status eq 'confirmed' && $executed == 0) || ($status eq 'failed' && $executed > 0);
	}
	is_deeply(\@wrong, [], 'what the ledger says is what the provider did');
	return;
}

# Writes a document with the results as they are now.
sub write_document
{
	my ($document, @blocks) = @_;
	my @lines = split /\n/, slurp_file($document);

	for my $block (reverse grep { defined $_->{text_at} } @blocks)
	{
		my ($from, $to) = @{ $block->{text_at} };
		splice @lines, $from, $to - $from, split /\n/, $block->{output} =~ s/[ \t]+$//gmr =~ s/\n+\z//r;
	}
	my $file = "$ENV{AL_DOCUMENTS}/" . $document =~ s{/}{_}gr;
	unlink $file;
	append_to_file($file, join("\n", @lines) . "\n");
	return;
}

# The tables of the documents list what the code has, all of it and no more.
sub check_tables
{
	my $readme = slurp_file('README.md');
	my $operations = slurp_file('doc/operations.md');
	my $tools = slurp_file('doc/tools.md');
	my $node = start_server(name => 'tables');

	my %settings = map { my ($name, $default) = split /\|/; ($name => $default) } split /\n/, $node->safe_psql('postgres',
		q{SELECT name, boot_val || coalesce(unit, '') FROM pg_settings WHERE name LIKE 'actionledger.%'});
	my %told;
	while ($readme =~ /^\| `(actionledger\.\w+)` \| `?([^|`]*)`? \|/gm) { $told{$1} = in_units($2) }
	$_ = in_units($_ // '') for values %settings;
	is_deeply(\%told, \%settings, 'README: settings and their defaults');

	my %raised;
	# refusal.c names all of them, and raises what others have made.
	my $sources = join '', map { slurp_file($_) } grep { $_ ne 'src/refusal.c' } glob 'src/*.c';
	my $header = slurp_file('src/errors.h');
	while ($header =~ /#define (AL_ERR_\w+)\s+AL_SQLSTATE\((\d+)\)/g)
	{
		my ($macro, $number) = ($1, $2);
		$raised{ sprintf 'LG%03d', $number } = 1 if $sources =~ /\b$macro\b/;
	}
	%told = map { $_ => 1 } $readme =~ /^\| (LG\d{3}) \|/gm;
	is_deeply(\%told, \%raised, 'README: SQLSTATEs that are raised');

	my %columns = map { split /\|/ } split /\n/, $node->safe_psql('postgres',
		q{SELECT relname, string_agg(attname, ' ' ORDER BY attnum) FROM pg_class c JOIN pg_attribute a ON attrelid = c.oid
		  WHERE relnamespace = 'actionledger'::regnamespace AND relkind = 'v' AND relname NOT LIKE '\_%' AND attnum > 0 GROUP BY 1});
	%told = ();
	while ($operations =~ /^### `(\w+)`\n(.*?)(?=^#|\z)/gms)
	{
		my ($view, $text) = ($1, $2);
		$told{$view} = join ' ', map { /`(\w+)`/g } $text =~ /^\| ((?:`\w+`(?:, )?)+) \|/gm;
	}
	is_deeply(\%told, \%columns, 'operations: views and their columns');

	my @options;
	for my $file (qw(src/definition_service.c src/definition_tool.c src/definition_key.c src/definition_lookup.c src/definition_approval.c))
	{
		push @options, slurp_file($file) =~ /AL_OPTION_(?:TEXT_AT|BOOL_AT|INT_AT|DURATION_AT|READ_BY)\("(\w+)"/g;
	}
	my %option = map { $_ => 1 } @options;
	%told = map { $_ => 1 } map { /(\w+)`/g } $tools =~ /^\| (`[^|]+`) \|/gm;
	is_deeply([ grep { !$told{$_} } sort keys %option ], [], 'tools: every option is described');
	$node->stop('immediate');
	return;
}

# A default in one spelling: milliseconds, minutes, kilobytes.
sub in_units
{
	my ($value) = @_;

	return $1 * 1000 . 'ms' if $value =~ /^(\d+) ?s$/;
	return $1 * 24 * 60 . 'min' if $value =~ /^(\d+) ?d$/;
	return $1 * 1024 . 'kB' if $value =~ /^(\d+) ?MB$/;
	return $value =~ s/ //gr;
}
