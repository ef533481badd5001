/*
 * batch.c
 *		Building arrays for set-based statements.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#include "batch.h"

/* Begins a list of rows of one of our composite types. */
AlRows
al_rows_create(const char *type, int most)
{
	AlRows		rows = {0};

	rows.type = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, CStringGetDatum(type),
								ObjectIdGetDatum(get_namespace_oid("actionledger", false)));
	rows.descriptor = lookup_rowtype_tupdesc_copy(rows.type, -1);
	rows.rows = palloc(most * sizeof(Datum));
	memset(rows.nulls, true, sizeof(rows.nulls));
	return rows;
}

/* Sets a value of the row at hand. */
void
al_row_set(AlRows *rows, int column, Datum value)
{
	rows->values[column] = value;
	rows->nulls[column] = false;
}

/* Sets a text of the row at hand; NULL stays null. */
void
al_row_set_text(AlRows *rows, int column, const char *value)
{
	if (value != NULL)
		al_row_set(rows, column, CStringGetTextDatum(value));
}

/* Sets a time of the row at hand; 0 stays null. */
void
al_row_set_time(AlRows *rows, int column, TimestampTz value)
{
	if (value != 0)
		al_row_set(rows, column, TimestampTzGetDatum(value));
}

/* Ends the row at hand and begins the next. */
void
al_rows_add(AlRows *rows)
{
	rows->rows[rows->n++] = HeapTupleGetDatum(heap_form_tuple(rows->descriptor, rows->values, rows->nulls));
	memset(rows->nulls, true, sizeof(rows->nulls));
}

/* Makes an array of the rows, and tells the statement its type. */
Datum
al_rows_array(const AlRows *rows, AlStatement *statement)
{
	al_statement_take(statement, get_array_type(rows->type));
	return PointerGetDatum(construct_array(rows->rows, rows->n, rows->type, -1, false, TYPALIGN_DOUBLE));
}

/* Makes a column of nulls. */
AlArray
al_array_create(Oid type, int n)
{
	AlArray		array = {
		.type = type,
		.n = n,
		.values = palloc0(Max(n, 1) * sizeof(Datum)),
		.nulls = palloc(Max(n, 1) * sizeof(bool))
	};

	memset(array.nulls, true, Max(n, 1) * sizeof(bool));
	return array;
}

/* Makes an array of a column. */
Datum
al_array_datum(const AlArray *array)
{
	int			dims[1] = {array->n};
	int			bounds[1] = {1};
	int16		length = -1;
	bool		by_value = false;
	char		align = TYPALIGN_INT;

	switch (array->type)
	{
		case BOOLOID:
			length = 1;
			by_value = true;
			align = TYPALIGN_CHAR;
			break;
		case INT4OID:
			length = 4;
			by_value = true;
			break;
		case INT8OID:
		case TIMESTAMPTZOID:
			length = 8;
			by_value = true;
			align = TYPALIGN_DOUBLE;
			break;
		default:
			break;
	}
	return PointerGetDatum(construct_md_array(array->values, array->nulls, 1, dims, bounds,
											  array->type, length, by_value, align));
}

/* Sets a value. */
void
al_array_set(AlArray *array, int i, Datum value)
{
	array->values[i] = value;
	array->nulls[i] = false;
}

/* Sets a text value; NULL stays null. */
void
al_array_set_text(AlArray *array, int i, const char *value)
{
	if (value != NULL)
		al_array_set(array, i, CStringGetTextDatum(value));
}

/* Makes an array of numbers. */
Datum
al_array_of_numbers(const int64 *numbers, int n)
{
	AlArray		array = al_array_create(INT8OID, n);

	for (int i = 0; i < n; i++)
		al_array_set(&array, i, Int64GetDatum(numbers[i]));
	return al_array_datum(&array);
}
