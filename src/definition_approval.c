/*
 * definition_approval.c
 *		Reading and checking which actions of a tool wait for a person.
 */
#include "postgres.h"

#include "definition_internal.h"

static void read_if(AlPlace place, const JsonbValue *value, void *target);

static const AlOption APPROVAL_OPTIONS[] = {
	AL_OPTION_READ_BY("if", read_if),
	AL_OPTION_TEXT_AT("by", AlToolDef, approval_by),
	AL_OPTION_DURATION_AT("expires", AlToolDef, approval_expires_ms, AL_SECOND_MS, 400 * AL_DAY_MS),
	AL_OPTION_END
};

/* "never", "always", or an object; one without "if" is for every action. */
void
al_definition_approval(AlPlace place, const JsonbValue *value, void *target)
{
	AlToolDef  *tool = target;
	char	   *word;

	tool->approval = AL_APPROVAL_ALWAYS;
	if (al_option_is_object(value))
	{
		al_option_read(place, value, APPROVAL_OPTIONS, tool);
		return;
	}
	word = al_option_text(place, value);
	if (strcmp(word, "never") == 0)
		tool->approval = AL_APPROVAL_NEVER;
	else if (strcmp(word, "always") != 0)
		al_definition_error(place, "Write \"never\", \"always\", or an object such as {\"if\": \"$.amount > 100000\", \"by\": \"finance\", \"expires\": \"24h\"}.",
							"\"%s\" is no approval policy", word);
}

static void
read_if(AlPlace place, const JsonbValue *value, void *target)
{
	AlToolDef  *tool = target;

	tool->approval = AL_APPROVAL_IF;
	tool->approval_if = al_definition_jsonpath(place, value);
}
