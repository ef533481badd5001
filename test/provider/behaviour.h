/*
 * behaviour.h
 *		The vocabulary of "do=": what the provider can be told to do.
 */
#ifndef PROVIDER_BEHAVIOUR_H
#define PROVIDER_BEHAVIOUR_H

#include "buf.h"
#include "ops.h"

/* How the answer looks on the wire. */
typedef enum Shape
{
	SHAPE_NORMAL,
	SHAPE_HANG,
	SHAPE_CLOSE,
	SHAPE_RESET,
	SHAPE_CUTHEAD,
	SHAPE_STATUSLINE,
	SHAPE_TRUNCATED,
	SHAPE_NOFRAMING,
	SHAPE_INTERIM,
	SHAPE_INTERIM_OK,
	SHAPE_ENDLESS,
	SHAPE_SLOWBODY,
	SHAPE_READCLOSE2
} Shape;

typedef enum Delay
{
	DELAY_NONE,
	DELAY_BEFORE,				/* before the execution */
	DELAY_AFTER,				/* between execution and answer */
	DELAY_HELD					/* the same, until it is released */
} Delay;

typedef enum ArgKind
{
	ARG_NONE,
	ARG_NUMBER,					/* milliseconds, bytes or a status */
	ARG_STATUS,					/* NNN;Header:value;… */
	ARG_TEXT
} ArgKind;

typedef struct Behaviour
{
	const char *name;
	ArgKind		arg;
	bool		executes;
	Delay		delay;
	Shape		shape;
	int			status;
	BodyKind	body;
} Behaviour;

/* One item of a plan; its texts live in the buffers given to behaviour_pick(). */
typedef struct Item
{
	const Behaviour *behaviour;
	int64_t		number;
	int			status;
	const char *headers;		/* extra lines, or NULL */
	const char *body;			/* instead of the usual one, or NULL */
	const char *text;
} Item;

extern bool behaviour_pick(Buf *plan, uint32_t n, uint64_t chance, Buf *lines, Item *item);
extern bool behaviour_is(const Item *item, const char *name);

#endif							/* PROVIDER_BEHAVIOUR_H */
