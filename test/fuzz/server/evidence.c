/*
 * evidence.c
 *		Answers of any bytes, read by the jsonpath of a tool's rules and lookup.
 *
 * Runs in a server process, because the reader is the server's own.  Input: a
 * definition, a status, flags of how the answer came, a header, then the body.
 * For the definition ANY_PATH the body begins behind a byte with the length of
 * a jsonpath, and that path.
 */
#include "postgres.h"

#include <sys/mman.h>

#include "access/xact.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "../fuzz.h"
#include "answer.h"
#include "lookup.h"
#include "session.h"

#define KEY "f1c2"
#define IDENTITY "refund:R-1"
#define ARGUMENTS "{\"refund_id\": \"R-1\", \"amount\": 425000, \"tags\": [\"a\", null]}"
#define INPUT \
	"{\"properties\": {\"refund_id\": {\"type\": \"string\"}, \"amount\": {\"type\": \"integer\"}, \"tags\": {\"type\": \"array\"}, \"note\": {}}}"
#define MAX_REFS 20
#define MAX_BODY (256 * 1024)		/* what is kept of an answer; in whole pages */
#define GUARD (64 * 1024)

/* Options of tools.  The last one's path comes from the input. */
static const char *const DEFINITIONS[] = {
	"{\"external_ref\": \"$.id\", \"result\": \"$\"}",
	"{\"external_ref\": \"$.id\", \"result\": \"$\", \"outcome\": ["
	"{\"status\": \"2xx\", \"if\": \"$.ok == true\", \"verdict\": \"confirmed\"},"
	"{\"status\": \"2xx\", \"if\": \"$.error\", \"verdict\": \"rejected\"},"
	"{\"status\": 409, \"if\": \"$.state ? (@ == \\\"done\\\")\", \"verdict\": \"confirmed\"},"
	"{\"status\": 422, \"if\": \"$.more.**\", \"verdict\": \"rejected\", \"transient\": true},"
	"{\"status\": 404, \"verdict\": \"unknown\"}]}",
	"{\"external_ref\": \"strict $.data.refund.id\", \"result\": \"strict $.data.refund\", \"outcome\": ["
	"{\"status\": 200, \"header\": \"location: /r/1\", \"if\": \"strict $.errors[*]\", \"verdict\": \"rejected\"},"
	"{\"status\": 200, \"if\": \"strict $.data.refund.id\", \"verdict\": \"confirmed\"},"
	"{\"status\": \"4xx\", \"if\": \"$.errors[last].code like_regex \\\"^al(ready|so)*$\\\" flag \\\"i\\\"\", \"verdict\": \"in_progress\"}]}",
	"{\"external_ref\": \"$.**{2 to last}.id\", \"result\": \"$.keyvalue()\", \"outcome\": ["
	"{\"status\": 200, \"if\": \"$.amount.double() >= 100.5 && $.when.datetime() < \\\"2027-01-01\\\".datetime()\", \"verdict\": \"confirmed\"},"
	"{\"status\": 201, \"if\": \"($.a + $.b * 2) / $.c % 7 - -$.d.abs().ceiling() > 0\", \"verdict\": \"confirmed\"},"
	"{\"status\": 202, \"if\": \"$[last, 0 to 1].** ? (@.type() == \\\"object\\\").keyvalue() ? (@.key starts with \\\"i\\\" || exists (@.value.size()))\", \"verdict\": \"confirmed\"},"
	"{\"status\": \"4xx\", \"if\": \"!($.x == $.y) && ($.z != null) is unknown\", \"verdict\": \"rejected\"}]}",
	"{\"external_ref\": \"$.id\", \"result\": \"$.amount\", \"lookup\": {\"request\": \"GET /refunds\", \"match\": \"$.data[*] ? (@.key == $_key)\","
	" \"more\": \"$.has_more\", \"absence\": \"authoritative\"}}",
	"{\"external_ref\": \"$.id\", \"outcome\": [{\"status\": \"2xx\", \"if\": \"$.status == \\\"failed\\\"\", \"verdict\": \"rejected\"}],"
	" \"lookup\": {\"request\": \"GET /refunds/{refund_id}\", \"match\": \"$\", \"absence\": {\"status\": 404, \"if\": \"$.code == \\\"none\\\"\"}}}",
	"{\"external_ref\": \"$.id\", \"lookup\": {\"request\": \"GET /refunds\","
	" \"match\": \"$.** ? (@.reference == $refund_id && @.amount == $amount && $tags[*] != $note)\", \"more\": \"$.next\"}}",
	NULL
};
#define ARITHMETIC 3
#define LIST 4
#define OBJECT 5
#define ANYWHERE 6
#define ANY_PATH 7
#define N_DEFINITIONS 8

static const int STATUSES[] = {200, 200, 200, 201, 202, 203, 204, 303, 400, 404, 409, 422, 429, 500};

/* What the input says, and what is read. */
typedef struct Trial
{
	int			definition;
	const char *path;			/* of ANY_PATH, not ended */
	size_t		path_len;
	AlTool	   *tool;
	AlWireResult result;
	AlAnswer	answer;
	AlFound		found;
	Datum		document;		/* of the whole body; 0: it is no JSON */
} Trial;

static unsigned char *guarded(const uint8_t *bytes, size_t len);
static AlTool *tool_of(Trial *trial);
static void parse_tool(void *arg);
static void read_head(FuzzInput *in, AlWireResult *result);
static void read_answer(Trial *trial);
static void read_document(void *arg);
static void check_answer(const Trial *trial);
static void check_extract(const Trial *trial);
static void check_verdict(const Trial *trial);
static AlOutcome outcome_of(const AlWireResult *result, const AlAnswer *answer);
static void check_found(const Trial *trial);
static void check_list(const Trial *trial);
static int	count_own(JsonbContainer *list, int depth);
static bool has_key(const JsonbValue *member);
static bool is_key(const JsonbValue *value);
static void check_text(const char *text);
static void round_trip(void *arg);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static MemoryContext context;
	FuzzInput	in = {data, size};
	Trial		trial = {.definition = fuzz_byte(&in) % N_DEFINITIONS};
	MemoryContext caller = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	int			level = GetCurrentTransactionNestLevel();

	if (context == NULL)
		context = AllocSetContextCreate(TopMemoryContext, "fuzz trial", ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(context);
	read_head(&in, &trial.result);
	if (trial.definition == ANY_PATH)
	{
		trial.path_len = fuzz_byte(&in);
		trial.path_len = Min(trial.path_len, in.left);
		trial.path = (const char *) in.at;
		in.at += trial.path_len;
		in.left -= trial.path_len;
	}
	trial.result.body = guarded(in.at, in.left);
	trial.result.body_len = in.left;
	trial.tool = tool_of(&trial);
	if (trial.tool != NULL)
		read_answer(&trial);

	claim(CurrentMemoryContext == context);
	claim(CurrentResourceOwner == owner);
	claim(GetCurrentTransactionNestLevel() == level);
	MemoryContextSwitchTo(caller);
	MemoryContextReset(context);
	return 0;
}

/* Copies a body to the end of a page that nothing may be read behind; the copy is good until the next. */
static unsigned char *
guarded(const uint8_t *bytes, size_t len)
{
	static unsigned char *end;

	claim(len <= MAX_BODY);
	if (end == NULL)
	{
		void	   *room = mmap(NULL, MAX_BODY + GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		claim(room != MAP_FAILED);
		end = (unsigned char *) room + MAX_BODY;
		claim(mprotect(end, GUARD, PROT_NONE) == 0);
	}
	return memcpy(end - len, bytes, len);
}

/* Gives the tool of a trial; NULL when its definition is refused. */
static AlTool *
tool_of(Trial *trial)
{
	static AlTool *tools[N_DEFINITIONS];
	MemoryContext caller = CurrentMemoryContext;

	if (trial->definition == ANY_PATH)
		return al_session_try(parse_tool, trial) ? trial->tool : NULL;
	if (tools[trial->definition] == NULL)
	{
		MemoryContextSwitchTo(TopMemoryContext);
		parse_tool(trial);
		tools[trial->definition] = trial->tool;
		MemoryContextSwitchTo(caller);
	}
	return tools[trial->definition];
}

/* Reads a definition as it is read when a tool is created. */
static void
parse_tool(void *arg)
{
	static AlService *service;
	Trial	   *trial = arg;
	StringInfoData options;
	AlTool	   *tool;

	if (service == NULL)
	{
		MemoryContext caller = MemoryContextSwitchTo(TopMemoryContext);

		service = palloc0(sizeof(AlService));
		service->def = al_service_parse("pay", "https://pay.example", DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum("{}"))));
		MemoryContextSwitchTo(caller);
	}
	initStringInfo(&options);
	if (trial->path == NULL)
		appendStringInfoString(&options, DEFINITIONS[trial->definition]);
	else
	{
		char	   *path = pnstrdup(trial->path, trial->path_len);

		if (strlen(path) != trial->path_len || !pg_verify_mbstr(GetDatabaseEncoding(), path, (int) trial->path_len, true))
			ereport(ERROR, errmsg("no text"));
		appendStringInfoString(&options, "{\"outcome\": [{\"status\": \"2xx\", \"verdict\": \"confirmed\", \"if\": ");
		escape_json(&options, path);
		appendStringInfoString(&options, "}], \"result\": ");
		escape_json(&options, path);
		appendStringInfoString(&options, "}");
	}
	tool = palloc0(sizeof(AlTool));
	tool->service = service;
	tool->def = al_tool_parse("refund", "POST /refunds", "non_idempotent", NULL,
							  DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(INPUT))),
							  DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(options.data))));
	tool->idempotency = &service->def->idempotency;
	trial->tool = tool;
}

/* Reads how an answer came: most are whole. */
static void
read_head(FuzzInput *in, AlWireResult *result)
{
	static const AlHeader HEADERS[] = {
		{"location", "/r/1"}, {"location", "/r/2"}, {"link", "<https://pay.example/refunds?page=2>; rel=\"next\""}
	};
	int			flags;
	int			header;

	result->head.status = STATUSES[fuzz_byte(in) % lengthof(STATUSES)];
	result->head.complete = true;
	flags = fuzz_byte(in);
	header = fuzz_byte(in) % 4;
	if (header < (int) lengthof(HEADERS))
		result->head.kept[result->head.n_kept++] = HEADERS[header];
	result->evidence = (AlEvidence)
	{
		.ending = (flags & 6) == 6 ? AL_END_CAPPED : AL_END_OK,
		.prereqs = 1, .head_complete = true, .status = result->head.status,
		.framing_complete = (flags & 7) != 1 && (flags & 6) != 6,
		.upload_complete = true
	};
	result->body_capped = result->evidence.ending == AL_END_CAPPED;
}

/* Reads an answer as that to a send and as that to a lookup, and holds both against what is certain. */
static void
read_answer(Trial *trial)
{
	AlParticulars particulars = {
		.action_id = 1, .identity = IDENTITY, .key = KEY,
		.args = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(ARGUMENTS)))
	};

	if (!al_session_try(read_document, trial))
		trial->document = 0;
	al_answer_read(trial->tool, &trial->result, &trial->answer);
	check_answer(trial);
	check_extract(trial);
	check_verdict(trial);
	al_lookup_read(trial->tool, &particulars, &trial->result.evidence, &trial->result, &trial->found);
	check_found(trial);
	if (trial->definition == LIST)
		check_list(trial);
}

/* Reads the whole body the way SQL would. */
static void
read_document(void *arg)
{
	Trial	   *trial = arg;
	bytea	   *bytes = palloc(VARHDRSZ + trial->result.body_len);
	Datum		converted;

	SET_VARSIZE(bytes, VARHDRSZ + trial->result.body_len);
	memcpy(VARDATA(bytes), trial->result.body, trial->result.body_len);
	converted = DirectFunctionCall2(pg_convert_from, PointerGetDatum(bytes), DirectFunctionCall1(namein, CStringGetDatum("UTF8")));
	trial->document = DirectFunctionCall1(jsonb_in, CStringGetDatum(TextDatumGetCString(converted)));
}

/* A rule that sees the body holds only of a whole one that is JSON; a certain rule before it decides without. */
static void
check_answer(const Trial *trial)
{
	const AlAnswer *answer = &trial->answer;
	bool		whole = trial->result.evidence.framing_complete;
	bool		member = false;

	claim(answer->rule == NULL || !answer->unreadable);
	claim(answer->rule == NULL || answer->rule->condition == NULL || (whole && trial->document != 0));
	/* A path that raises for what it meets leaves the answer unreadable, too; only arithmetic can. */
	claim(!answer->unreadable || !whole || trial->document == 0 || trial->definition == ARITHMETIC || trial->definition == ANY_PATH);
	claim(answer->body_rule == AL_BODY_RULE_NONE || answer->body_rule == AL_BODY_RULE_FAILS);
	claim(answer->body_rule == AL_BODY_RULE_NONE || (whole && trial->document != 0));
	for (ListCell *cell = list_head(trial->tool->def->outcome); cell != NULL; cell = lnext(trial->tool->def->outcome, cell))
		member |= lfirst(cell) == answer->rule;
	claim(answer->rule == NULL || member);
	claim(answer->rule == NULL ||
		  (answer->rule->status_from <= trial->result.head.status && trial->result.head.status <= answer->rule->status_to));
}

/* A reference is a text of bounded length, a result is JSON; both only of what is JSON. */
static void
check_extract(const Trial *trial)
{
	const AlAnswer *answer = &trial->answer;

	claim(trial->document != 0 || (answer->external_ref == NULL && answer->result == 0));
	if (answer->external_ref != NULL)
		check_text(answer->external_ref);
	if (answer->result != 0)
		claim(al_session_try(round_trip, unconstify(AlAnswer *, answer)));
}

/* What the body is changes nothing where no rule asks for it, and makes nothing certain where it cannot be read. */
static void
check_verdict(const Trial *trial)
{
	AlWireResult bare = trial->result;
	AlAnswer	without;
	AlOutcome	outcome = outcome_of(&trial->result, &trial->answer);
	bool		asks = false;

	for (ListCell *cell = list_head(trial->tool->def->outcome); cell != NULL; cell = lnext(trial->tool->def->outcome, cell))
	{
		const AlRule *rule = lfirst(cell);

		asks |= rule->condition != NULL && rule->status_from <= bare.head.status && bare.head.status <= rule->status_to;
	}
	if (trial->answer.unreadable)
		claim(outcome.verdict == AL_VERDICT_UNKNOWN);
	if (asks)
		return;
	bare.body = NULL;
	bare.body_len = 0;
	al_answer_read(trial->tool, &bare, &without);
	claim(outcome_of(&bare, &without).verdict == outcome.verdict);
	claim(strcmp(outcome_of(&bare, &without).category, outcome.category) == 0);
}

/* Classifies an answer as it is done for an attempt with a key. */
static AlOutcome
outcome_of(const AlWireResult *result, const AlAnswer *answer)
{
	AlContext	context = {.key_honoured = true, .unreadable = answer->unreadable, .body_rule = answer->body_rule};
	AlOutcome	rule;

	if (answer->rule != NULL)
	{
		rule = (AlOutcome)
		{
			.verdict = answer->rule->verdict, .transient = answer->rule->transient, .category = answer->rule->category
		};
		context.rule = &rule;
	}
	return al_classify(&result->evidence, &context);
}

/* What a lookup may prove. */
static void
check_found(const Trial *trial)
{
	const AlFound *found = &trial->found;
	const AlLookupDef *lookup = trial->tool->def->lookup;
	bool		whole = trial->result.evidence.framing_complete && trial->result.evidence.ending == AL_END_OK;
	int			status = trial->result.head.status;

	claim(found->category != NULL);
	claim(found->finding >= AL_FOUND_NOTHING_SURE && found->finding < AL_N_SIGHTS);
	claim(lookup != NULL || found->finding == AL_FOUND_NOTHING_SURE);
	claim(whole || found->finding == AL_FOUND_NOTHING_SURE);
	claim(found->n >= 0 && (found->finding == AL_FOUND_SEVERAL) == (found->n > 1 && found->refs != 0));
	claim(!found->authoritative || found->finding == AL_FOUND_NONE);
	claim(found->result == 0 || found->finding == AL_FOUND_CONFIRMED);
	if (found->external_ref != NULL)
		check_text(found->external_ref);
	if (found->refs != 0)
		claim(JB_ROOT_COUNT(DatumGetJsonbP(found->refs)) <= MAX_REFS);
	switch (found->finding)
	{
		case AL_FOUND_CONFIRMED:
		case AL_FOUND_REJECTED:
		case AL_FOUND_REJECTED_TRANSIENT:
		case AL_FOUND_IN_PROGRESS:
			claim(found->n == 1);
			claim(status == 200 || status == 203);
			claim(trial->document != 0 && trial->result.head.kept[0].name[1] != 'i');
			break;
		case AL_FOUND_SEVERAL:
			claim((status == 200 || status == 203) && trial->document != 0);
			break;
		case AL_FOUND_NONE:
			claim(found->n == 0);
			claim(trial->definition == OBJECT || !found->authoritative || trial->definition == LIST);
			claim(trial->document != 0);
			break;
		case AL_FOUND_NOTHING_SURE:
			break;
	}
}

/* The list is counted once more, by a walk instead of a path. */
static void
check_list(const Trial *trial)
{
	const AlFound *found = &trial->found;
	JsonbContainer *root = trial->document ? &DatumGetJsonbP(trial->document)->root : NULL;
	JsonbValue *list = root && JsonContainerIsObject(root) ? getKeyJsonValueFromContainer(root, "data", 4, NULL) : NULL;
	bool		is_list = list && list->type == jbvBinary && JsonContainerIsArray(list->val.binary.data);
	int			own = is_list ? count_own(list->val.binary.data, 1) : 0;

	if (found->finding == AL_FOUND_CONFIRMED && is_list)
		claim(own == 1);
	if (found->finding == AL_FOUND_SEVERAL && is_list)
		claim(own == found->n);
	if (found->authoritative)
		claim(is_list && own == 0);
}

/* Counts the objects of a list, and of the lists in it to a depth, that have our key: a path in lax mode looks into lists. */
static int
count_own(JsonbContainer *list, int depth)
{
	JsonbIterator *it = JsonbIteratorInit(list);
	JsonbValue	element;
	int			n = 0;

	(void) JsonbIteratorNext(&it, &element, true);
	while (JsonbIteratorNext(&it, &element, true) == WJB_ELEM)
	{
		JsonbContainer *inner = element.type == jbvBinary ? element.val.binary.data : NULL;

		if (inner != NULL && JsonContainerIsObject(inner))
			n += has_key(getKeyJsonValueFromContainer(inner, "key", 3, NULL));
		else if (inner != NULL && depth > 0)
			n += count_own(inner, depth - 1);
	}
	return n;
}

/* Tells whether a member is our key, or a list with it. */
static bool
has_key(const JsonbValue *member)
{
	JsonbIterator *it;
	JsonbValue	element;
	bool		has = false;

	if (member == NULL || member->type != jbvBinary || !JsonContainerIsArray(member->val.binary.data))
		return member != NULL && is_key(member);
	it = JsonbIteratorInit(member->val.binary.data);
	(void) JsonbIteratorNext(&it, &element, true);
	while (JsonbIteratorNext(&it, &element, true) == WJB_ELEM)
		has |= is_key(&element);
	return has;
}

static bool
is_key(const JsonbValue *value)
{
	return value->type == jbvString && value->val.string.len == (int) strlen(KEY) &&
		memcmp(value->val.string.val, KEY, strlen(KEY)) == 0;
}

/* A text that the ledger can keep. */
static void
check_text(const char *text)
{
	size_t		len = strlen(text);

	claim(len > 0 && len <= AL_EXTERNAL_REF_MAX);
	claim(pg_verify_mbstr(GetDatabaseEncoding(), text, (int) len, true));
}

/* JSON that the ledger can keep is read again as the same. */
static void
round_trip(void *arg)
{
	Datum		value = ((AlAnswer *) arg)->result;
	char	   *text = DatumGetCString(DirectFunctionCall1(jsonb_out, value));
	Datum		again = DirectFunctionCall1(jsonb_in, CStringGetDatum(text));

	claim(compareJsonbContainers(&DatumGetJsonbP(value)->root, &DatumGetJsonbP(again)->root) == 0);
}
