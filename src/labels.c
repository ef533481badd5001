/*
 * labels.c
 *		The values of the ledger's enums, looked up once.
 *
 * They are looked up again when the catalog of enums has changed: the extension
 * may have been created anew.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_type.h"
#include "utils/inval.h"
#include "utils/syscache.h"

#include "labels.h"

#define MOST_LABELS AL_N_KNOWN

/* One of the enums. */
typedef struct Labels
{
	const char *type;
	int			n;
	const char *(*name) (int position);
	bool		known;
	Oid			values[MOST_LABELS];
} Labels;

static const char *status_name(int position);
static const char *step_name(int position);
static const char *known_name(int position);
static const char *verdict_name(int position);
static Datum value_at(Labels *labels, int position);
static int	position_of(Labels *labels, Oid value);
static void look_up(Labels *labels);
static void forget(Datum arg, int cache, uint32 hash);

static Labels statuses = {"status", AL_N_STATUSES, status_name};
static Labels steps = {"next_step", AL_N_STEPS, step_name};
static Labels knowns = {"known", AL_N_KNOWN, known_name};
static Labels verdicts = {"verdict", AL_N_VERDICTS, verdict_name};

StaticAssertDecl(AL_N_STATUSES <= MOST_LABELS && AL_N_STEPS <= MOST_LABELS && AL_N_VERDICTS <= MOST_LABELS,
				 "an enum has more labels than there is room for");

/* Gives the value of a status. */
Datum
al_label_status(AlStatus status)
{
	return value_at(&statuses, (int) status);
}

/* Gives the value of a recovery step. */
Datum
al_label_step(AlStep step)
{
	return value_at(&steps, (int) step);
}

/* Gives the value of what is known. */
Datum
al_label_known(AlKnown known)
{
	return value_at(&knowns, (int) known);
}

/* Gives the value of a verdict. */
Datum
al_label_verdict(AlVerdict verdict)
{
	return value_at(&verdicts, (int) verdict);
}

/* Reads a status. */
bool
al_label_read_status(Datum value, AlStatus *status)
{
	int			position = position_of(&statuses, DatumGetObjectId(value));

	*status = (AlStatus) position;
	return position >= 0;
}

/* Reads a recovery step. */
bool
al_label_read_step(Datum value, AlStep *step)
{
	int			position = position_of(&steps, DatumGetObjectId(value));

	*step = (AlStep) position;
	return position >= 0;
}

/* Reads what is known. */
bool
al_label_read_known(Datum value, AlKnown *known)
{
	int			position = position_of(&knowns, DatumGetObjectId(value));

	*known = (AlKnown) position;
	return position >= 0;
}

/* Spells a status. */
static const char *
status_name(int position)
{
	return al_status_name((AlStatus) position);
}

/* Spells a recovery step. */
static const char *
step_name(int position)
{
	return al_step_name((AlStep) position);
}

/* Spells what is known. */
static const char *
known_name(int position)
{
	return al_known_name((AlKnown) position);
}

/* Spells a verdict. */
static const char *
verdict_name(int position)
{
	return al_verdict_name((AlVerdict) position);
}

/* Gives the value at a position. */
static Datum
value_at(Labels *labels, int position)
{
	if (!labels->known)
		look_up(labels);
	if (position < 0 || position >= labels->n)
		elog(ERROR, "%d is no %s", position, labels->type);
	return ObjectIdGetDatum(labels->values[position]);
}

/* Finds the position of a value, or -1. */
static int
position_of(Labels *labels, Oid value)
{
	if (!labels->known)
		look_up(labels);
	for (int i = 0; i < labels->n; i++)
	{
		if (labels->values[i] == value)
			return i;
	}
	return -1;
}

/* Looks the values of an enum up. */
static void
look_up(Labels *labels)
{
	static bool watching = false;
	Oid			type = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, CStringGetDatum(labels->type),
									   ObjectIdGetDatum(get_namespace_oid("actionledger", false)));

	if (!watching)
	{
		CacheRegisterSyscacheCallback(ENUMOID, forget, (Datum) 0);
		watching = true;
	}
	/* Set first: an invalidation that comes in between is about what is looked up now. */
	labels->known = true;
	for (int i = 0; i < labels->n; i++)
	{
		labels->values[i] = GetSysCacheOid2(ENUMTYPOIDNAME, Anum_pg_enum_oid,
											ObjectIdGetDatum(type), CStringGetDatum(labels->name(i)));
		if (!OidIsValid(labels->values[i]))
		{
			labels->known = false;
			elog(ERROR, "type actionledger.%s has no value \"%s\"", labels->type, labels->name(i));
		}
	}
}

/* Forgets all values. */
static void
forget(Datum arg, int cache, uint32 hash)
{
	statuses.known = steps.known = knowns.known = verdicts.known = false;
}
