/*
 * definition_outcome.c
 *		Reading and checking the outcome rules of a tool.
 */
#include "postgres.h"

#include "utils/fmgrprotos.h"

#include "definition_internal.h"

#define MAX_RULES 50
#define MAX_CATEGORY 40
#define KEY_MISMATCH "key_mismatch"

static void read_status(AlPlace place, const JsonbValue *value, void *target);
static void read_header(AlPlace place, const JsonbValue *value, void *target);
static void read_condition(AlPlace place, const JsonbValue *value, void *target);
static void read_verdict(AlPlace place, const JsonbValue *value, void *target);
static void parse_jsonpath(const char *text);
static bool parse_status(const char *text, AlRule *rule);
static void check_rule(AlPlace place, AlRule *rule, bool has_verdict);
static void check_header_count(AlPlace place, const List *rules);

/* The rule being read, and what was said of it. */
typedef struct RuleReader
{
	AlRule		rule;
	bool		has_verdict;
} RuleReader;

static const AlOption RULE_OPTIONS[] = {
	AL_OPTION_READ_BY("status", read_status),
	AL_OPTION_READ_BY("header", read_header),
	AL_OPTION_READ_BY("if", read_condition),
	AL_OPTION_READ_BY("verdict", read_verdict),
	AL_OPTION_TEXT_AT("category", RuleReader, rule.category),
	AL_OPTION_BOOL_AT("conclusive", RuleReader, rule.conclusive),
	AL_OPTION_BOOL_AT("transient", RuleReader, rule.transient),
	AL_OPTION_END
};

/* What tells answers apart without saying what they prove. */
static const AlOption CONDITION_OPTIONS[] = {
	AL_OPTION_READ_BY("status", read_status),
	AL_OPTION_READ_BY("header", read_header),
	AL_OPTION_READ_BY("if", read_condition),
	AL_OPTION_END
};

void
al_definition_outcome(AlPlace place, const JsonbValue *value, void *target)
{
	((AlToolDef *) target)->outcome = al_definition_rules(place, value);
}

List *
al_definition_rules(AlPlace place, const JsonbValue *value)
{
	List	   *rules = NIL;
	int			n;

	if (!al_option_is_array(value))
		al_definition_error(place, "Write an array of rules, such as [{\"status\": 200, \"if\": \"$.ok == false\", \"verdict\": \"rejected\"}].",
							"an array of rules belongs here, not %s", al_option_kind(value));
	n = JsonContainerSize(value->val.binary.data);
	if (n > MAX_RULES)
		al_definition_error(place, "Write fewer rules with wider conditions.", "there are more than %d rules", MAX_RULES);
	for (int i = 0; i < n; i++)
	{
		AlPlace		here = al_place_element(place, i);
		RuleReader	reader = {.rule = {.status_from = 100, .status_to = 599}};

		al_option_read(here, getIthJsonbValueFromContainer(value->val.binary.data, i), RULE_OPTIONS, &reader);
		check_rule(here, &reader.rule, reader.has_verdict);
		rules = lappend(rules, memcpy(palloc(sizeof(AlRule)), &reader.rule, sizeof(AlRule)));
	}
	check_header_count(place, rules);
	return rules;
}

AlRule *
al_definition_condition(AlPlace place, const JsonbValue *value)
{
	RuleReader	reader = {.rule = {.status_from = 100, .status_to = 599}};

	al_option_read(place, value, CONDITION_OPTIONS, &reader);
	return memcpy(palloc(sizeof(AlRule)), &reader.rule, sizeof(AlRule));
}

char *
al_definition_jsonpath(AlPlace place, const JsonbValue *value)
{
	char	   *text = al_option_text(place, value);

	al_option_compiles(place, "the jsonpath", text, parse_jsonpath);
	return text;
}

static void
parse_jsonpath(const char *text)
{
	(void) DirectFunctionCall1(jsonpath_in, CStringGetDatum(text));
}

/* What a rule must and must not say. */
static void
check_rule(AlPlace place, AlRule *rule, bool has_verdict)
{
	if (!has_verdict)
		al_definition_error(place, "Say what such an answer proves: confirmed, rejected, in_progress or unknown.",
							"the rule has no verdict");
	if (rule->transient && rule->verdict != AL_VERDICT_REJECTED)
		al_definition_error(al_place_member(place, "transient"), NULL, "only a rejected answer can be transient");
	if (rule->conclusive && (rule->verdict == AL_VERDICT_UNKNOWN || rule->verdict == AL_VERDICT_IN_PROGRESS))
		al_definition_error(al_place_member(place, "conclusive"), NULL, "an answer that proves nothing is not conclusive");
	if (rule->category == NULL)
		rule->category = pstrdup("outcome_rule");
	if (strlen(rule->category) > MAX_CATEGORY || strspn(rule->category, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(rule->category))
		al_definition_error(al_place_member(place, "category"), "Write a word such as key_conflict.",
							"a category has up to %d lower-case letters, digits and underscores", MAX_CATEGORY);
	rule->mismatch = strcmp(rule->category, KEY_MISMATCH) == 0;
	if (rule->mismatch && rule->verdict != AL_VERDICT_UNKNOWN)
		al_definition_error(al_place_member(place, "verdict"), "Write \"unknown\": re-sending then ends, and lookups or a person decide.",
							"that a key stands for another request does not prove what became of this one");
}

/* A rule whose header is not kept would never hold: what is kept has room for so many. */
static void
check_header_count(AlPlace place, const List *rules)
{
	const char *names[AL_RULE_HEADERS];
	int			n = 0;
	ListCell   *cell;

	foreach(cell, rules)
	{
		const char *name = ((const AlRule *) lfirst(cell))->header;
		int			i = 0;

		if (name == NULL)
			continue;
		while (i < n && strcmp(names[i], name) != 0)
			i++;
		if (i < n)
			continue;
		if (n == AL_RULE_HEADERS)
			al_definition_error(place, "Tell the answers apart by status or body.",
								"the rules name more than %d headers", AL_RULE_HEADERS);
		names[n++] = name;
	}
}

/* 409, "4xx" or "500-599". */
static void
read_status(AlPlace place, const JsonbValue *value, void *target)
{
	AlRule	   *rule = &((RuleReader *) target)->rule;

	if (value->type == jbvNumeric)
	{
		rule->status_from = rule->status_to = al_option_int(place, value, 100, 599);
		return;
	}
	if (!parse_status(al_option_text(place, value), rule))
		al_definition_error(place, "Write a status such as 409, a class such as \"4xx\", or a range such as \"500-599\".",
							"this is no status, class or range between 100 and 599");
}

static bool
parse_status(const char *text, AlRule *rule)
{
	int			consumed = 0;

	if (strlen(text) == 3 && text[0] >= '1' && text[0] <= '5' && strcmp(text + 1, "xx") == 0)
	{
		rule->status_from = (text[0] - '0') * 100;
		rule->status_to = rule->status_from + 99;
		return true;
	}
	return sscanf(text, "%3d-%3d%n", &rule->status_from, &rule->status_to, &consumed) == 2 &&
		text[consumed] == '\0' && text[0] >= '1' &&
		rule->status_from >= 100 && rule->status_from <= rule->status_to && rule->status_to <= 599;
}

/* "Name", or "Name: value". */
static void
read_header(AlPlace place, const JsonbValue *value, void *target)
{
	AlRule	   *rule = &((RuleReader *) target)->rule;
	char	   *text = al_option_text(place, value);
	char	   *colon = strchr(text, ':');

	if (colon != NULL)
	{
		char	   *start = colon + 1 + strspn(colon + 1, " ");

		*colon = '\0';
		rule->header_value = pstrdup(start);
	}
	rule->header = text;
	if (text[0] == '\0' || strlen(text) > AL_ANSWER_HEADER_MAX ||
		strspn(text, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") != strlen(text) ||
		(rule->header_value != NULL && rule->header_value[0] == '\0'))
		al_definition_error(place, "Write a header's name, or its name and value such as \"X-Status: queued\".",
							"this is no header");
	for (char *c = text; *c; c++)
		*c = pg_tolower((unsigned char) *c);
}

static void
read_condition(AlPlace place, const JsonbValue *value, void *target)
{
	((RuleReader *) target)->rule.condition = al_definition_jsonpath(place, value);
}

static void
read_verdict(AlPlace place, const JsonbValue *value, void *target)
{
	RuleReader *reader = target;
	char	   *text = al_option_text(place, value);

	reader->has_verdict = true;
	if (!al_verdict_parse(text, &reader->rule.verdict) || reader->rule.verdict == AL_VERDICT_NOT_SENT)
		al_definition_error(place, "An answer proves that the request was sent.",
							"one of confirmed, rejected, in_progress and unknown belongs here");
}
