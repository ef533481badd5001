#!/usr/bin/perl
#
# schema_suite.pl
#	Run the public JSON Schema test suite through the SQL functions
#	actionledger._schema_check(jsonb) and actionledger._schema_validate(jsonb, jsonb).
#
#	schema_suite.pl FOLDER		connects by PGHOST, PGPORT, PGDATABASE, PGUSER
#
# One psql for the whole suite.  A schema is excluded only when its creation is
# refused with LG015, or when jsonb itself cannot hold it (\u0000); the reasons
# are listed.  A value that jsonb cannot hold counts as refused.
#
use strict;
use warnings;
use File::Basename qw(basename);
use File::Temp;
use JSON::PP;

my $folder = shift or die "usage: schema_suite.pl FOLDER\n";
my @files = sort glob("$folder/*.json");
die "no suite in $folder\n" unless @files;

my $script = File::Temp->new(SUFFIX => '.sql');
print $script <<'SQL';
\set ON_ERROR_STOP 1
SET client_encoding = 'UTF8';
SET client_min_messages = warning;
CREATE FUNCTION pg_temp.run_suite(file text, suite json) RETURNS SETOF jsonb
LANGUAGE plpgsql AS $run$
DECLARE
  unit json;
  test json;
  schema jsonb;
  refused text;
  said jsonb;
  base jsonb;
BEGIN
  FOR unit IN SELECT * FROM json_array_elements(suite) LOOP
    refused := NULL;
    BEGIN
      schema := replace((unit->'schema')::text, '\uE00F', '\u0000')::jsonb;
      PERFORM actionledger._schema_check(schema);
    EXCEPTION
      WHEN SQLSTATE 'LG015' THEN GET STACKED DIAGNOSTICS refused = PG_EXCEPTION_DETAIL;
      WHEN untranslatable_character THEN refused := 'jsonb cannot hold \u0000';
    END;
    FOR test IN SELECT * FROM json_array_elements(unit->'tests') LOOP
      base := jsonb_build_object('file', file, 'group', unit->>'description',
        'test', test->>'description', 'expected', (test->>'valid')::bool);
      IF refused IS NOT NULL THEN
        RETURN NEXT base || jsonb_build_object('excluded', refused);
        CONTINUE;
      END IF;
      BEGIN
        said := actionledger._schema_validate(schema,
          replace((test->'data')::text, '\uE00F', '\u0000')::jsonb);
      EXCEPTION
        WHEN untranslatable_character THEN said := '["jsonb cannot hold \\u0000"]';
        WHEN OTHERS THEN said := to_jsonb('raised: ' || SQLERRM);
      END;
      RETURN NEXT base || jsonb_build_object('said', said);
    END LOOP;
  END LOOP;
END
$run$;
SQL
for my $file (@files)
{
	open my $in, '<:raw', $file or die "$file: $!\n";
	my $text = do { local $/; <$in> };
	close $in;
	die "$file: cannot be quoted\n" if $text =~ /\$suite\$|\\uE00F/;
	# json_array_elements refuses \u0000 anywhere, so it goes in disguise.
	$text =~ s/(?<!\\)((?:\\\\)*)\\u0000/$1\\uE00F/g;
	print $script "SELECT pg_temp.run_suite('", basename($file), "', \$suite\$$text\$suite\$);\n";
}
close $script;

my ($passed, $failed, $excluded) = (0, 0, 0);
my %reasons;
open my $psql, '-|', 'psql', '-X', '-q', '-A', '-t', '-f', $script->filename
  or die "psql: $!\n";
while (my $line = <$psql>)
{
	my $case = decode_json($line);

	if (defined $case->{excluded})
	{
		$excluded++;
		$reasons{ reason($case->{excluded}) }++;
		next;
	}
	my $valid = ref $case->{said} eq 'ARRAY' && !@{ $case->{said} };
	if (ref $case->{said} eq 'ARRAY' && !$valid == !$case->{expected})
	{
		$passed++;
		next;
	}
	$failed++;
	print "FAILED $case->{file}: $case->{group}: $case->{test}: ",
	  JSON::PP->new->ascii->canonical->allow_nonref->encode($case->{said}), "\n";
}
close $psql or die "psql failed\n";
die "the suite ran no case\n" unless $passed + $failed;

print "excluded $reasons{$_}: $_\n" for sort keys %reasons;
print "schema suite: $passed passed, $failed failed, $excluded excluded\n";
exit($failed ? 1 : 0);

# Name the keyword that a refusal is about, with its reason.
sub reason
{
	my ($detail) = @_;

	return $detail unless $detail =~ m{^At "/input([^"]*)": (.*)$}s;
	my ($pointer, $why) = ($1, $2);
	$why =~ s/\.$//;
	my ($keyword) = $pointer =~ m{([^/]*)$};
	return "$keyword: $why";
}
