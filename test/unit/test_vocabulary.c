/*
 * test_vocabulary.c
 *		Every word of the ledger is spelled as the design spells it, is read back
 *		as itself, and no other text is read at all.
 */
#include <ctype.h>
#include <stdlib.h>

#include "rules/policy.h"
#include "rules/vocabulary.h"

#include "tap.h"

/* One vocabulary, its functions flattened to int. */
typedef struct Words
{
	const char *what;
	int			n;
	const char *const *spelled; /* in the order of the enum; NULL when the design gives none */
	const char *(*name) (int value);
	bool		(*parse) (const char *name, int *out);
} Words;

static const char *const TYPES[] = {"read_only", "idempotent", "non_idempotent", "irreversible"};
static const char *const STATUSES[] = {"prepared", "submitted", "confirmed", "failed", "needs_reconciliation"};
static const char *const STEPS[] = {"approve", "send", "wait", "resend", "lookup", "apply", "review", "blocked", "none"};
static const char *const VERDICTS[] = {"not_sent", "rejected", "confirmed", "in_progress", "unknown"};

#define FLATTEN(word, Type) \
static const char *word##_name(int value) { return al_##word##_name((Type) value); } \
static bool word##_parse(const char *name, int *out) \
{ \
	Type		read = (Type) *out; \
	bool		known = al_##word##_parse(name, &read); \
	*out = (int) read; \
	return known; \
}

FLATTEN(type, AlActionType)
FLATTEN(status, AlStatus)
FLATTEN(step, AlStep)
FLATTEN(verdict, AlVerdict)
FLATTEN(known, AlKnown)

static const Words VOCABULARY[] = {
	{"action type", AL_N_ACTION_TYPES, TYPES, type_name, type_parse},
	{"status", AL_N_STATUSES, STATUSES, status_name, status_parse},
	{"step", AL_N_STEPS, STEPS, step_name, step_parse},
	{"verdict", AL_N_VERDICTS, VERDICTS, verdict_name, verdict_parse},
	{"known", AL_N_KNOWN, NULL, known_name, known_parse},
};
#define N_VOCABULARIES ((int) (sizeof(VOCABULARY) / sizeof(VOCABULARY[0])))

static void check_spelling(const Words *words);
static void check_refusal(const Words *words);
static void check_out_of_range(const Words *words);
static void refuse(const Words *words, const char *text);
static bool is_a_word(const Words *words, const char *text);

int
main(void)
{
	is_int(sizeof(TYPES) / sizeof(TYPES[0]), AL_N_ACTION_TYPES, "four action types");
	is_int(sizeof(STATUSES) / sizeof(STATUSES[0]), AL_N_STATUSES, "exactly five statuses");
	is_int(sizeof(STEPS) / sizeof(STEPS[0]), AL_N_STEPS, "nine steps");
	is_int(sizeof(VERDICTS) / sizeof(VERDICTS[0]), AL_N_VERDICTS, "five verdicts");

	/* The enum's own names, so that a reordered enum does not go unseen. */
	is_str(al_type_name(AL_TYPE_READ_ONLY), "read_only", "AL_TYPE_READ_ONLY");
	is_str(al_type_name(AL_TYPE_IDEMPOTENT), "idempotent", "AL_TYPE_IDEMPOTENT");
	is_str(al_type_name(AL_TYPE_NON_IDEMPOTENT), "non_idempotent", "AL_TYPE_NON_IDEMPOTENT");
	is_str(al_type_name(AL_TYPE_IRREVERSIBLE), "irreversible", "AL_TYPE_IRREVERSIBLE");
	is_str(al_status_name(AL_STATUS_PREPARED), "prepared", "AL_STATUS_PREPARED");
	is_str(al_status_name(AL_STATUS_SUBMITTED), "submitted", "AL_STATUS_SUBMITTED");
	is_str(al_status_name(AL_STATUS_CONFIRMED), "confirmed", "AL_STATUS_CONFIRMED");
	is_str(al_status_name(AL_STATUS_FAILED), "failed", "AL_STATUS_FAILED");
	is_str(al_status_name(AL_STATUS_NEEDS_RECONCILIATION), "needs_reconciliation", "AL_STATUS_NEEDS_RECONCILIATION");
	is_str(al_step_name(AL_STEP_APPROVE), "approve", "AL_STEP_APPROVE");
	is_str(al_step_name(AL_STEP_SEND), "send", "AL_STEP_SEND");
	is_str(al_step_name(AL_STEP_WAIT), "wait", "AL_STEP_WAIT");
	is_str(al_step_name(AL_STEP_RESEND), "resend", "AL_STEP_RESEND");
	is_str(al_step_name(AL_STEP_LOOKUP), "lookup", "AL_STEP_LOOKUP");
	is_str(al_step_name(AL_STEP_APPLY), "apply", "AL_STEP_APPLY");
	is_str(al_step_name(AL_STEP_REVIEW), "review", "AL_STEP_REVIEW");
	is_str(al_step_name(AL_STEP_BLOCKED), "blocked", "AL_STEP_BLOCKED");
	is_str(al_step_name(AL_STEP_NONE), "none", "AL_STEP_NONE");
	is_str(al_verdict_name(AL_VERDICT_NOT_SENT), "not_sent", "AL_VERDICT_NOT_SENT");
	is_str(al_verdict_name(AL_VERDICT_REJECTED), "rejected", "AL_VERDICT_REJECTED");
	is_str(al_verdict_name(AL_VERDICT_CONFIRMED), "confirmed", "AL_VERDICT_CONFIRMED");
	is_str(al_verdict_name(AL_VERDICT_IN_PROGRESS), "in_progress", "AL_VERDICT_IN_PROGRESS");
	is_str(al_verdict_name(AL_VERDICT_UNKNOWN), "unknown", "AL_VERDICT_UNKNOWN");

	for (int i = 0; i < N_VOCABULARIES; i++)
	{
		check_spelling(&VOCABULARY[i]);
		check_refusal(&VOCABULARY[i]);
		check_out_of_range(&VOCABULARY[i]);
	}
	return done_testing();
}

/* Each word is the design's, lower case, told from the others, and read back as itself. */
static void
check_spelling(const Words *words)
{
	char		title[96];

	snprintf(title, sizeof(title), "%s: spelled as designed and read back", words->what);
	tap_group(title);
	for (int value = 0; value < words->n; value++)
	{
		const char *name = words->name(value);
		int			back = -1;

		if (!tap_cell(name != NULL && name[0] != '\0', "value %d has no name", value))
			continue;
		if (words->spelled != NULL)
			tap_cell(strcmp(name, words->spelled[value]) == 0, "value %d is \"%s\", not \"%s\"", value, name, words->spelled[value]);
		for (const char *c = name; *c != '\0'; c++)
			tap_cell(islower((unsigned char) *c) || *c == '_', "\"%s\" is not lower case with underscores", name);
		tap_cell(words->parse(name, &back) && back == value, "\"%s\" reads back as %d, not %d", name, back, value);
		for (int other = 0; other < value; other++)
			tap_cell(strcmp(name, words->name(other)) != 0, "%d and %d are both \"%s\"", value, other, name);
	}
	tap_group_end();
}

/* Near misses of every word, the words of the other vocabularies, and plain nonsense are refused. */
static void
check_refusal(const Words *words)
{
	static const char *const NONSENSE[] = {
		"", " ", "_", "0", "-1", "null", "NULL", "default", "pending", "done", "success", "error", "timeout", "ambiguous",
	"read-only", "readonly", "nonidempotent", "inprogress", "in progress", "needs reconciliation", "retry", "\xc3\xa4", "%s%n"};
	char		title[96];
	char		text[128];

	snprintf(title, sizeof(title), "%s: any other text is refused, and *out untouched", words->what);
	tap_group(title);
	for (size_t i = 0; i < sizeof(NONSENSE) / sizeof(NONSENSE[0]); i++)
		refuse(words, NONSENSE[i]);
	for (int v = 0; v < N_VOCABULARIES; v++)
	{
		for (int value = 0; value < VOCABULARY[v].n; value++)
		{
			const char *name = VOCABULARY[v].name(value);
			size_t		len = strlen(name);

			refuse(words, name);	/* a word of another vocabulary only */
			for (size_t cut = 0; cut < len; cut++)
			{
				snprintf(text, sizeof(text), "%.*s", (int) cut, name);
				refuse(words, text);
				snprintf(text, sizeof(text), "%s", name);
				text[cut] = (char) toupper((unsigned char) text[cut]);
				refuse(words, text);
				text[cut] = 'x';
				refuse(words, text);
			}
			snprintf(text, sizeof(text), " %s", name);
			refuse(words, text);
			snprintf(text, sizeof(text), "%s ", name);
			refuse(words, text);
			snprintf(text, sizeof(text), "%s\n", name);
			refuse(words, text);
			snprintf(text, sizeof(text), "%ss", name);
			refuse(words, text);
			snprintf(text, sizeof(text), "%s%s", name, name);
			refuse(words, text);
		}
	}
	tap_group_end();
}

/* A value outside the enum still has a name, and no reader takes it for a word. */
static void
check_out_of_range(const Words *words)
{
	static const int OUTSIDE[] = {-1, 97, 1000000};
	char		title[96];

	snprintf(title, sizeof(title), "%s: a name is never NULL, not even outside the enum", words->what);
	tap_group(title);
	for (size_t i = 0; i < sizeof(OUTSIDE) / sizeof(OUTSIDE[0]); i++)
	{
		const char *name = words->name(OUTSIDE[i]);

		tap_cell(name != NULL, "%d has a NULL name", OUTSIDE[i]);
		if (name != NULL)
			tap_cell(!is_a_word(words, name), "%d is named \"%s\" like a real value", OUTSIDE[i], name);
	}
	for (int v = 0; v < N_VOCABULARIES; v++)
		tap_cell(!is_a_word(&VOCABULARY[v], words->name(words->n)), "the value after the last is named \"%s\"", words->name(words->n));
	tap_group_end();
}

/* Expect that this text, unless it is one of the words, is refused. */
static void
refuse(const Words *words, const char *text)
{
	int			out = 1;
	bool		known;

	if (is_a_word(words, text))
		return;
	known = words->parse(text, &out);
	tap_cell(!known, "\"%s\" is read as %d", text, out);
	tap_cell(out == 1, "*out changed to %d by \"%s\"", out, text);
}

/* Whether the text is a word of this vocabulary: by the design's list where there is one. */
static bool
is_a_word(const Words *words, const char *text)
{
	for (int value = 0; value < words->n; value++)
	{
		if (strcmp(text, words->spelled != NULL ? words->spelled[value] : words->name(value)) == 0)
			return true;
	}
	return false;
}
