/*
 * schema.c
 *		Validation of a value against a JSON Schema that was checked before.
 *
 * One walk over schema and value.  Where the answer alone matters (not, if, the
 * branches of anyOf and oneOf) the walk is quiet: it stops at the first failure
 * and reports nothing.  A value cannot make it raise, overflow the stack or run
 * for ever: depth and work are bounded, and what passes a bound is a finding of
 * its own that no "not" can turn into a success.
 *
 * Of anyOf and oneOf the branch that the value comes nearest to is explained:
 * the only one whose type fits, and whose properties with const or enum agree.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#include "schema.h"
#include "schema_internal.h"

#define MAX_APPLY 200			/* schemas applied within one another */
#define BASE_WORK 1000000		/* schemas applied in all, plus 16 per byte of the value */
#define MAX_EXPLAIN 2			/* anyOf within anyOf that is explained by branch */

/* An item of an array and its place, for uniqueItems. */
typedef struct Item
{
	JsonbValue	value;
	int			index;
} Item;

/* How near a value comes to a branch of anyOf or oneOf. */
typedef enum Rank
{
	RANK_FITS,					/* the type fits, and what is const or enum in it agrees */
	RANK_OTHER_KIND,			/* a property with const or enum differs */
	RANK_OTHER_TYPE				/* the value itself is not what the branch wants */
} Rank;

static bool apply(AlSchemaRun *run, const JsonbValue *schema, const JsonbValue *value,
				  const AlPath *path);
static bool apply_schema(AlSchemaRun *run, const JsonbValue *schema, const JsonbValue *value,
						 const AlPath *path);
static bool apply_in_place(AlSchemaRun *run, const JsonbValue *schema, const JsonbValue *value,
						   const AlPath *path);
static bool apply_branches(AlSchemaRun *run, const JsonbValue *schema, const JsonbValue *branches,
						   const JsonbValue *value, const AlPath *path, bool one);
static void explain_branches(AlSchemaRun *run, const JsonbValue *schema,
							 const JsonbValue *branches, const JsonbValue *value,
							 const AlPath *path);
static Rank rank_branch(const AlSchemaRun *run, int steps);
static bool apply_array(AlSchemaRun *run, const JsonbValue *schema, const JsonbValue *value,
						const AlPath *path);
static int	compare_items(const void *a, const void *b);
static bool apply_unique(AlSchemaRun *run, const JsonbValue *value, const AlPath *path);
static bool apply_required(AlSchemaRun *run, const JsonbValue *schema, const JsonbValue *value,
						   const AlPath *path);
static bool apply_members(AlSchemaRun *run, const JsonbValue *schema, const JsonbValue *value,
						  const AlPath *path);
static bool is_listed(List *names, const JsonbValue *name);

/* Validate a value (contract in schema.h). */
List *
al_schema_validate(Jsonb *schema, Jsonb *value, bool tool_root)
{
	AlSchemaRun run = {.tool_root = tool_root};
	JsonbValue	document;
	List	   *all = NIL;
	bool		ok = false;

	al_schema_root(schema, &run.root);
	al_schema_root(value, &document);
	run.work = BASE_WORK + (int64) VARSIZE(value) * 16;
	run.leaf = AllocSetContextCreate(CurrentMemoryContext, "schema scalar",
									 ALLOCSET_SMALL_SIZES);
	if (tool_root && !al_schema_is_object(&document))
		al_schema_report(&run, AL_FINDING_INVALID, NULL, &document, "object", NULL);
	else
		ok = apply(&run, &run.root, &document, NULL);
	MemoryContextDelete(run.leaf);

	if (run.over != NULL)
		run.found[AL_FINDING_INVALID] = lcons(run.over, run.found[AL_FINDING_INVALID]);
	for (int kind = 0; kind < (int) lengthof(run.found); kind++)
		all = list_concat(all, run.found[kind]);
	if (ok && all == NIL)
		return NIL;
	if (all == NIL)
	{
		/* No walk fails without a finding; should one, the value stays refused. */
		al_schema_report(&run, AL_FINDING_INVALID, NULL, &document,
						 al_schema_want(&run.root, &run.root), NULL);
		all = run.found[AL_FINDING_INVALID];
	}
	return list_truncate(all, AL_SCHEMA_MAX_FINDINGS);
}

/* Apply a schema to a value, within the bounds. */
static bool
apply(AlSchemaRun *run, const JsonbValue *schema, const JsonbValue *value, const AlPath *path)
{
	bool		ok;

	CHECK_FOR_INTERRUPTS();
	if (run->over != NULL || (run->quiet == 0 && al_schema_is_full(run)))
		return false;
	if (run->depth >= MAX_APPLY || stack_is_too_deep())
	{
		al_schema_give_up(run, path, value, "a value that is nested less deeply");
		return false;
	}
	if (--run->work < 0)
	{
		al_schema_give_up(run, path, value, "a smaller value: this one takes too long to validate");
		return false;
	}
	run->depth++;
	if (schema->type == jbvBool)
	{
		ok = schema->val.boolean;
		if (!ok)
			al_schema_report(run, AL_FINDING_INVALID, path, value, "no value", NULL);
	}
	else
		ok = apply_schema(run, schema, value, path);
	run->depth--;
	return ok;
}

/* Apply the keywords of a schema: itself first, then what it refers to. */
static bool
apply_schema(AlSchemaRun *run, const JsonbValue *schema, const JsonbValue *value,
			 const AlPath *path)
{
	MemoryContext outer = MemoryContextSwitchTo(run->leaf);
	AlFit		fit = al_schema_fit(schema, value);
	bool		ok = fit == AL_FIT_OK;

	MemoryContextSwitchTo(outer);
	MemoryContextReset(run->leaf);
	if (!ok)
		al_schema_report_own(run, schema, value, path, fit == AL_FIT_NOT_LISTED);
	if (!ok && (fit != AL_FIT_OUT_OF_BOUNDS || run->quiet > 0))
		return false;
	if (al_schema_is_array(value))
		ok &= apply_array(run, schema, value, path);
	else if (al_schema_is_object(value))
	{
		ok &= apply_required(run, schema, value, path);
		if (ok || run->quiet == 0)
			ok &= apply_members(run, schema, value, path);
	}
	if (!ok && run->quiet > 0)
		return false;
	return apply_in_place(run, schema, value, path) && ok;
}

/* Apply a schema for the answer alone. */
bool
al_schema_apply_quietly(AlSchemaRun *run, const JsonbValue *schema, const JsonbValue *value,
						const AlPath *path)
{
	bool		ok;

	run->quiet++;
	ok = apply(run, schema, value, path);
	run->quiet--;
	return ok;
}

/* Apply the subschemas that speak about the same value. */
static bool
apply_in_place(AlSchemaRun *run, const JsonbValue *schema, const JsonbValue *value,
			   const AlPath *path)
{
	JsonbValue	keyword;
	JsonbValue	target;
	bool		ok = true;

	if (al_schema_get(schema, "$ref", &keyword))
	{
		if (!al_schema_resolve(&run->root, &keyword, &target))
			elog(ERROR, "schema was not checked: $ref leads nowhere");
		ok = apply(run, &target, value, path);
	}
	if (al_schema_get(schema, "allOf", &keyword))
	{
		for (int i = 0; i < al_schema_size(&keyword) && (ok || run->quiet == 0); i++)
		{
			JsonbValue *branch = getIthJsonbValueFromContainer(keyword.val.binary.data, i);

			ok &= apply(run, branch, value, path);
			pfree(branch);
		}
	}
	if ((ok || run->quiet == 0) && al_schema_get(schema, "anyOf", &keyword))
		ok &= apply_branches(run, schema, &keyword, value, path, false);
	if ((ok || run->quiet == 0) && al_schema_get(schema, "oneOf", &keyword))
		ok &= apply_branches(run, schema, &keyword, value, path, true);
	if ((ok || run->quiet == 0) && al_schema_get(schema, "not", &keyword) &&
		al_schema_apply_quietly(run, &keyword, value, path))
	{
		if (run->quiet == 0)
			al_schema_report(run, AL_FINDING_INVALID, path, value,
							 al_schema_want_not(&run->root, &keyword), NULL);
		ok = false;
	}
	if ((ok || run->quiet == 0) && al_schema_get(schema, "if", &keyword))
	{
		bool		then = al_schema_apply_quietly(run, &keyword, value, path);

		if (al_schema_get(schema, then ? "then" : "else", &target))
			ok &= apply(run, &target, value, path);
	}
	return ok;
}

/* Apply anyOf, or oneOf: the answer first, the explanation when it failed. */
static bool
apply_branches(AlSchemaRun *run, const JsonbValue *schema, const JsonbValue *branches,
			   const JsonbValue *value, const AlPath *path, bool one)
{
	int			matches = 0;

	for (int i = 0; i < al_schema_size(branches) && matches < (one ? 2 : 1); i++)
	{
		JsonbValue *branch = getIthJsonbValueFromContainer(branches->val.binary.data, i);

		matches += al_schema_apply_quietly(run, branch, value, path) ? 1 : 0;
		pfree(branch);
	}
	if (matches == 1)
		return true;
	if (run->quiet > 0 || run->over != NULL)
		return false;
	if (matches == 0)
		explain_branches(run, schema, branches, value, path);
	else
		al_schema_report(run, AL_FINDING_INVALID, path, value,
						 al_schema_want_branch(&run->root, branches, true), NULL);
	return false;
}

/*
 * Report the findings of the one branch that the value comes nearest to, or,
 * when there is no such one, what all branches want.
 */
static void
explain_branches(AlSchemaRun *run, const JsonbValue *schema, const JsonbValue *branches,
				 const JsonbValue *value, const AlPath *path)
{
	List	   *outer[lengthof(run->found)];
	List	   *nearest[lengthof(run->found)] = {NIL};
	Rank		best = RANK_OTHER_TYPE;
	int			count = 0;

	memcpy(outer, run->found, sizeof(outer));
	run->explaining++;
	for (int i = 0; i < al_schema_size(branches) && run->explaining <= MAX_EXPLAIN; i++)
	{
		JsonbValue *branch = getIthJsonbValueFromContainer(branches->val.binary.data, i);
		Rank		rank;

		memset(run->found, 0, sizeof(run->found));
		apply(run, branch, value, path);
		rank = rank_branch(run, al_schema_steps(path));
		if (rank < best)
			count = 0;
		if (rank <= best)
		{
			best = rank;
			count++;
			memcpy(nearest, run->found, sizeof(nearest));
		}
	}
	run->explaining--;
	memcpy(run->found, outer, sizeof(outer));
	if (best < RANK_OTHER_TYPE && count == 1)
		al_schema_report_again(run, nearest);
	else
		al_schema_report(run, AL_FINDING_INVALID, path, value,
						 al_schema_want_branch(&run->root, branches, false),
						 al_schema_suggest(run, schema, value, path));
}

/* Rank a branch by what it had to say about a value at this depth. */
static Rank
rank_branch(const AlSchemaRun *run, int steps)
{
	Rank		rank = RANK_FITS;
	ListCell   *cell;

	for (int kind = 0; kind < (int) lengthof(run->found); kind++)
	{
		foreach(cell, run->found[kind])
		{
			AlFound    *found = lfirst(cell);

			if (found->steps == steps)
				return RANK_OTHER_TYPE;
			if (found->fixed && found->steps == steps + 1)
				rank = RANK_OTHER_KIND;
		}
	}
	return rank;
}

/* Apply prefixItems, items and uniqueItems. */
static bool
apply_array(AlSchemaRun *run, const JsonbValue *schema, const JsonbValue *value, const AlPath *path)
{
	JsonbValue	prefix;
	JsonbValue	items;
	JsonbValue	unique;
	JsonbValue	item;
	bool		has_prefix = al_schema_get(schema, "prefixItems", &prefix);
	bool		has_items = al_schema_get(schema, "items", &items);
	AlPath		step = {.up = path, .index = 0};
	JsonbIterator *it;
	JsonbIteratorToken token;
	bool		ok = true;

	if (al_schema_get(schema, "uniqueItems", &unique) && unique.val.boolean)
		ok = apply_unique(run, value, path);
	if ((!ok && run->quiet > 0) || (!has_prefix && !has_items))
		return ok;
	it = JsonbIteratorInit(value->val.binary.data);
	while ((token = JsonbIteratorNext(&it, &item, true)) != WJB_DONE)
	{
		if (token != WJB_ELEM)
			continue;
		if (has_prefix && step.index < al_schema_size(&prefix))
		{
			JsonbValue *own = getIthJsonbValueFromContainer(prefix.val.binary.data, step.index);

			ok &= apply(run, own, &item, &step);
			pfree(own);
		}
		else if (has_items)
			ok &= apply(run, &items, &item, &step);
		else
			break;
		if (!ok && (run->quiet > 0 || al_schema_is_full(run) || run->over != NULL))
			break;
		step.index++;
	}
	if (it != NULL)
		pfree(it);
	return ok;
}

/* Order items by value, then by place. */
static int
compare_items(const void *a, const void *b)
{
	const Item *left = a;
	const Item *right = b;
	int			order = al_schema_compare(&left->value, &right->value);

	CHECK_FOR_INTERRUPTS();
	if (order != 0)
		return order;
	return left->index < right->index ? -1 : left->index > right->index;
}

/* Check that no two items are equal; sorted, so that a long array is no burden. */
static bool
apply_unique(AlSchemaRun *run, const JsonbValue *value, const AlPath *path)
{
	int			count = al_schema_size(value);
	Item	   *items = palloc_extended(sizeof(Item) * (Size) Max(count, 1), MCXT_ALLOC_HUGE);
	JsonbIterator *it = JsonbIteratorInit(value->val.binary.data);
	JsonbIteratorToken token;
	JsonbValue	item;
	int			used = 0;
	bool		ok = true;

	while ((token = JsonbIteratorNext(&it, &item, true)) != WJB_DONE)
	{
		if (token == WJB_ELEM)
		{
			items[used].value = item;
			items[used].index = used;
			used++;
		}
	}
	qsort(items, used, sizeof(Item), compare_items);
	for (int i = 1; i < used && (ok || (run->quiet == 0 && !al_schema_is_full(run))); i++)
	{
		AlPath		step = {.up = path, .index = items[i].index};

		if (!al_schema_equal(&items[i - 1].value, &items[i].value))
			continue;
		ok = false;
		if (run->quiet == 0)
			al_schema_report(run, AL_FINDING_INVALID, &step, &items[i].value,
							 psprintf("an item that differs from item %d", items[i - 1].index),
							 NULL);
	}
	pfree(items);
	return ok;
}

/* Apply required. */
static bool
apply_required(AlSchemaRun *run, const JsonbValue *schema, const JsonbValue *value,
			   const AlPath *path)
{
	JsonbValue	required;
	JsonbValue	member;
	bool		ok = true;

	if (!al_schema_get(schema, "required", &required))
		return true;
	for (int i = 0; i < al_schema_size(&required) && (ok || run->quiet == 0); i++)
	{
		JsonbValue *name = getIthJsonbValueFromContainer(required.val.binary.data, i);

		if (!al_schema_get_len(value, name->val.string.val, name->val.string.len, &member))
		{
			ok = false;
			al_schema_report_missing(run, schema, name, path);
		}
		pfree(name);
	}
	return ok;
}

/*
 * Apply properties and additionalProperties.  The top level of a tool's input
 * is closed unless the schema says otherwise; it knows the names that its
 * subschemas in place declare.
 */
static bool
apply_members(AlSchemaRun *run, const JsonbValue *schema, const JsonbValue *value,
			  const AlPath *path)
{
	bool		top = run->tool_root && run->depth == 1;
	AlDeclared	declared = {NIL};
	JsonbValue	properties;
	JsonbValue	additional;
	JsonbValue	name;
	JsonbValue	member;
	JsonbValue	own;
	bool		has_more = al_schema_get(schema, "additionalProperties", &additional);
	bool		closed = has_more && additional.type == jbvBool && !additional.val.boolean;
	bool		has_properties = al_schema_get(schema, "properties", &properties);
	JsonbIterator *it;
	JsonbIteratorToken token;
	bool		ok = true;

	if (top)
		al_schema_declared(&run->root, schema, &declared);
	else if (!has_more && !has_properties)
		return true;
	if (closed && run->quiet == 0)
		declared.names = has_properties ? al_schema_names(&properties) : NIL;
	it = JsonbIteratorInit(value->val.binary.data);
	while ((token = JsonbIteratorNext(&it, &name, true)) != WJB_DONE)
	{
		AlPath		step = {.up = path};

		if (token != WJB_KEY)
			continue;
		JsonbIteratorNext(&it, &member, true);
		step.name = name.val.string.val;
		step.len = name.val.string.len;
		if (has_properties && al_schema_get_len(&properties, step.name, step.len, &own))
			ok &= apply(run, &own, &member, &step);
		else if (closed || (top && step.len > 0 && step.name[0] == '_') ||
				 (top && !has_more && !declared.open && !is_listed(declared.names, &name)))
		{
			ok = false;
			al_schema_report_unknown(run, declared.names, value, &member, &step);
		}
		else if (has_more)
			ok &= apply(run, &additional, &member, &step);
		if (!ok && (run->quiet > 0 || run->over != NULL || (al_schema_is_full(run) && !top)))
			break;
		CHECK_FOR_INTERRUPTS();
	}
	if (it != NULL)
		pfree(it);
	return ok;
}

/* Tell whether a name is in a list. */
static bool
is_listed(List *names, const JsonbValue *name)
{
	ListCell   *cell;

	foreach(cell, names)
	{
		if (al_schema_is_text(name, lfirst(cell)))
			return true;
	}
	return false;
}
