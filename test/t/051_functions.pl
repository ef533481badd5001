# doc/functions.md lists every function and view, and what it says of arguments,
# answers and who may call is what the catalog says.
use strict;
use warnings;
use Test::More;
use lib 'test/lib';
use Ledger;
use PostgreSQL::Test::Utils;

my $document = slurp_file('doc/functions.md');
my $node = start_server(name => 'functions');

# { function => "name type default, …" } with the answer and who may execute it.
my %there;
for my $row (split /\n/, $node->safe_psql('postgres', q{
	SELECT p.proname,
	       coalesce((SELECT string_agg(concat_ws(' ', n.name, format_type(n.type, NULL), nullif(
	                            regexp_replace(regexp_replace(coalesce(pg_get_function_arg_default(p.oid, n.i::int), ''), '00:00:0?(\d+)', '\1s'), '::[\w ]+(\[\])?$', ''), '')), ', ' ORDER BY n.i)
	                   FROM unnest(p.proargnames, coalesce(p.proallargtypes, p.proargtypes::oid[])) WITH ORDINALITY AS n(name, type, i)
	                  WHERE p.proargmodes IS NULL OR p.proargmodes[n.i] IN ('i', 'b', 'v')), '') || ' -> ' ||
	       regexp_replace(pg_get_function_result(p.oid), '^(SETOF )?actionledger\.', '\1') ||
	       CASE WHEN EXISTS (SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) x
	                         WHERE x.grantee = 0 AND x.privilege_type = 'EXECUTE') THEN ' for PUBLIC' ELSE ' granted' END
	FROM pg_proc p WHERE p.pronamespace = 'actionledger'::regnamespace AND p.proname NOT LIKE '\_%'}))
{
	my ($name, $signature) = split /\|/, $row, 2;
	fail("$name is overloaded: the document has one table for each name") if exists $there{$name};
	$there{$name} = $signature;
}

my (%told, %errors);
while ($document =~ /^### `(\w+)`\n(.*?)(?=^#|\z)/gms)
{
	my ($name, $text) = ($1, $2);
	my ($answer, $who) = ('none', 'nobody');
	my @arguments;
	while ($text =~ /^\| (\S.*?) \| (.*?) ?\| (.*?) ?\| (.*?) ?\|$/gm)
	{
		my ($argument, $type, $default, $meaning) = ($1, $2, $3, $4);
		if ($argument =~ /^`(\w+)`$/) { push @arguments, join ' ', grep { $_ ne '' } $argument =~ s{`}{}gr, $type, $default =~ s/^`(.*)`$/$1/r }
		elsif ($argument eq 'answer') { $answer = $type }
		elsif ($argument eq 'errors') { $errors{$name} = $meaning }
		elsif ($argument eq 'who') { $who = $meaning =~ /^PUBLIC\b/ ? 'for PUBLIC' : $meaning =~ /^granted\b/ ? 'granted' : "\"$meaning\"" }
	}
	$told{$name} = join(', ', @arguments) . " -> $answer $who";
}
is_deeply(\%told, \%there, 'functions: names, arguments, answers and who may call');
is_deeply([ grep { !defined $errors{$_} || $errors{$_} eq '' } sort keys %told ], [], 'each says which errors it raises');

my %state = map { $_ => 1 } slurp_file('README.md') =~ /^\| (LG\d{3}) \|/gm;
my %named = map { $_ => 1 } join(' ', values %errors) =~ /(LG\d{3})/g;
is_deeply([ grep { !$state{$_} } sort keys %named ], [], 'the errors that it names are those of the README');

my ($list) = $document =~ /^\| view \| shows \|\n(.*?)(?:^[^|]|\z)/ms;
my %views = map { $_ => 1 } map { /`(\w+)`/g } ($list // '') =~ /^\| ((?:`\w+`(?:, )?)+) \|/gm;
my %are = map { $_ => 1 } split /\n/, $node->safe_psql('postgres',
	q{SELECT relname FROM pg_class WHERE relnamespace = 'actionledger'::regnamespace AND relkind = 'v' AND relname NOT LIKE '\_%'});
is_deeply(\%views, \%are, 'views');
$node->stop('immediate');
done_testing();
