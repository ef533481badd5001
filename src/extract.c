/*
 * extract.c
 *		jsonpath over an untrusted body.
 */
#include "postgres.h"

#include "access/xact.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/jsonpath.h"
#include "utils/memutils.h"
#include "utils/numeric.h"
#include "utils/resowner.h"

#include "extract.h"

static void extract(const AlTool *tool, const unsigned char *body, size_t len, char **external_ref, Datum *result);
static Jsonb *first_match(Datum document, const char *path);
static char *scalar_text(Jsonb *value);

/* Reads reference and result out of a body. */
void
al_extract(const AlTool *tool, const unsigned char *body, size_t len, char **external_ref, Datum *result)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;

	if (len == 0 || memchr(body, '\0', len) != NULL ||
		(tool->def->external_ref == NULL && (tool->def->result == NULL || result == NULL)))
		return;
	BeginInternalSubTransaction(NULL);
	PG_TRY();
	{
		MemoryContextSwitchTo(context);
		extract(tool, body, len, external_ref, result);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
}

/* Does the same, raising for what cannot be read. */
static void
extract(const AlTool *tool, const unsigned char *body, size_t len, char **external_ref, Datum *result)
{
	char	   *text = pnstrdup((const char *) body, len);
	Datum		document;

	if (!pg_verify_mbstr(PG_UTF8, text, (int) len, true))
		return;
	text = pg_any_to_server(text, (int) len, PG_UTF8);
	document = DirectFunctionCall1(jsonb_in, CStringGetDatum(text));
	if (tool->def->external_ref != NULL)
	{
		Jsonb	   *match = first_match(document, tool->def->external_ref);
		char	   *reference = match ? scalar_text(match) : NULL;

		if (reference != NULL && reference[0] != '\0')
			*external_ref = reference;
	}
	if (result != NULL && tool->def->result != NULL)
	{
		Jsonb	   *match = first_match(document, tool->def->result);

		if (match != NULL)
			*result = JsonbPGetDatum(match);
	}
}

/* Finds the first item that a path selects, NULL for none. */
static Jsonb *
first_match(Datum document, const char *path)
{
	LOCAL_FCINFO(call, 4);
	Datum		match;

	InitFunctionCallInfoData(*call, NULL, 4, InvalidOid, NULL, NULL);
	call->args[0].value = document;
	call->args[1].value = DirectFunctionCall1(jsonpath_in, CStringGetDatum(path));
	call->args[2].value = DirectFunctionCall1(jsonb_in, CStringGetDatum("{}"));
	call->args[3].value = BoolGetDatum(true);
	for (int i = 0; i < 4; i++)
		call->args[i].isnull = false;
	match = jsonb_path_query_first(call);
	return call->isnull ? NULL : DatumGetJsonbP(match);
}

/* Gives a string or a number as text of bounded length, NULL for anything else. */
static char *
scalar_text(Jsonb *value)
{
	JsonbValue	scalar;
	char	   *text;

	if (!JB_ROOT_IS_SCALAR(value) || !JsonbExtractScalar(&value->root, &scalar))
		return NULL;
	if (scalar.type == jbvString)
		text = pnstrdup(scalar.val.string.val, scalar.val.string.len);
	else if (scalar.type == jbvNumeric)
		text = DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(scalar.val.numeric)));
	else
		return NULL;
	text[pg_mbcliplen(text, (int) strlen(text), AL_EXTERNAL_REF_MAX)] = '\0';
	return text;
}
