/*
 * batch.h
 *		Many values for one statement: columns and rows handed over as arrays.
 */
#ifndef AL_BATCH_H
#define AL_BATCH_H

#include "postgres.h"
#include "access/tupdesc.h"
#include "datatype/timestamp.h"

#include "session.h"

/* AlRows of a composite type to be handed to a statement as one array. */
typedef struct AlRows
{
	Oid			type;
	TupleDesc	descriptor;
	int			n;
	Datum	   *rows;
	Datum		values[20];		/* of the row at hand */
	bool		nulls[20];
} AlRows;

/* A column of values to be handed to a statement as an array. */
typedef struct AlArray
{
	Oid			type;
	int			n;
	Datum	   *values;
	bool	   *nulls;
} AlArray;

/*
 * Rows of one of our composite types: begin, set the values of the row at hand,
 * add it, and at the end make the array, which tells the statement its type.
 * Columns are counted from 0; what is not set is null, and so are a NULL text
 * and the time 0.
 */
extern AlRows al_rows_create(const char *type, int most);
extern void al_row_set(AlRows *rows, int column, Datum value);
extern void al_row_set_text(AlRows *rows, int column, const char *value);
extern void al_row_set_time(AlRows *rows, int column, TimestampTz value);
extern void al_rows_add(AlRows *rows);
extern Datum al_rows_array(const AlRows *rows, AlStatement *statement);
extern AlArray al_array_create(Oid type, int n);
extern Datum al_array_datum(const AlArray *array);
extern void al_array_set(AlArray *array, int i, Datum value);
extern void al_array_set_text(AlArray *array, int i, const char *value);
extern Datum al_array_of_numbers(const int64 *numbers, int n);	/* bigint */

#endif							/* AL_BATCH_H */
