/*
 * ledger_lookup.c
 *		What a lookup needs of an action beyond its standing.
 */
#include "postgres.h"

#include "catalog/pg_type.h"

#include "batch.h"
#include "ledger.h"

/* Only an answer that speaks of the action tells its number and its place: those of an error are the error's. */
static AlStatement read_particulars = {
	"SELECT a.action_id, a.identity, a.idempotency_key, a.run_id, a.args, coalesce(a.external_ref, r.external_ref), l.headers "
	"FROM unnest($1::bigint[]) WITH ORDINALITY AS u(action_id, n) JOIN actionledger.action a ON a.action_id = u.action_id "
	"LEFT JOIN LATERAL (SELECT t.external_ref FROM actionledger.attempt t WHERE t.action_id = a.action_id AND t.external_ref IS NOT NULL "
	"                     AND (t.http_status IS NULL OR t.http_status BETWEEN 200 AND 299) ORDER BY t.attempt DESC LIMIT 1) r ON true "
	"LEFT JOIN LATERAL (SELECT t.response_headers AS headers FROM actionledger.attempt t WHERE t.action_id = a.action_id "
	"                   AND t.kind = 'send' AND (t.http_status BETWEEN 200 AND 299 OR t.http_status = 303) AND E'\\n' || t.response_headers ILIKE E'%\\nlocation: %' ORDER BY t.attempt DESC LIMIT 1) l ON true "
	"ORDER BY u.n",
	1, {INT8ARRAYOID}
};

static char *header_value(const char *lines, const char *name);

/* Reads what lookups need. */
int
al_ledger_particulars(const int64 *action_ids, int n, AlParticulars **particulars)
{
	Datum		value = al_array_of_numbers(action_ids, n);
	int			found;

	found = (int) al_statement_run(&read_particulars, &value, NULL);
	*particulars = palloc0(Max(found, 1) * sizeof(AlParticulars));
	for (int i = 0; i < found; i++)
	{
		AlParticulars *one = &(*particulars)[i];
		bool		isnull;

		one->action_id = al_column_int8(i, 1);
		one->identity = al_column_text(i, 2);
		one->key = al_column_text(i, 3);
		one->run_id = al_column_text(i, 4);
		one->args = DatumGetJsonbPCopy(al_column(i, 5, &isnull));
		one->external_ref = al_column_text(i, 6);
		one->location = header_value(al_column_text(i, 7), "location");
	}
	return found;
}

/* Gives the value of a header among the lines that are kept of an answer; NULL for none. */
static char *
header_value(const char *lines, const char *name)
{
	size_t		len = strlen(name);

	for (const char *line = lines; line != NULL && *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n')
	{
		if (pg_strncasecmp(line, name, len) == 0 && line[len] == ':')
			return pnstrdup(line + len + 2, strcspn(line, "\n") - len - 2);
	}
	return NULL;
}
