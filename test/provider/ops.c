/*
 * ops.c
 *		Operations, the effects they had, and the answers stored for their keys.
 *
 * Nothing is ever forgotten, so everything lives in an arena.
 */
#include <stdlib.h>

#include "ops.h"
#include "truth.h"

#define ARENA_BLOCK ((size_t) 1024 * 1024)

static void *arena_alloc(size_t size);
static const char *arena_text(const char *text);
static uint64_t hash_bytes(Slice id);
static void grow_table(void);
static Effect *add_effect(Op *op, const Execute *how);

static Op **Table;
static size_t TableSize;		/* a power of two */
static size_t TableCount;
static Effect *FirstEffect;
static Effect *LastEffect;
static uint64_t EffectCount;
static char *ArenaAt;
static size_t ArenaLeft;

/* Returns the operation of that id, a new one if need be. */
Op *
ops_get(Slice id, bool lookup)
{
	Op		   *op = ops_find(id);

	if (op != NULL)
		return op;
	if (TableCount >= TableSize)
		grow_table();
	op = arena_alloc(sizeof(Op) + id.len);
	memset(op, 0, sizeof(*op));
	op->hash = hash_bytes(id);
	op->id_len = id.len;
	memcpy(op->id, id.data, id.len);
	op->next = Table[op->hash & (TableSize - 1)];
	Table[op->hash & (TableSize - 1)] = op;
	TableCount++;
	if (!lookup)
		Truth.operations++;
	return op;
}

/* Returns the operation of that id or NULL. */
Op *
ops_find(Slice id)
{
	uint64_t	hash = hash_bytes(id);

	if (TableSize == 0)
		return NULL;
	for (Op *op = Table[hash & (TableSize - 1)]; op != NULL; op = op->next)
	{
		if (op->hash == hash && op->id_len == id.len && memcmp(op->id, id.data, id.len) == 0)
			return op;
	}
	return NULL;
}

/* Executes, unless the key says that it was done before; answer is completed or replaced. */
Execution
ops_execute(Op *op, const Execute *how, Answer *answer)
{
	if (how->keyed && op->stored &&
		(how->key_ttl_us == 0 || mono_us() - op->stored_at < how->key_ttl_us))
	{
		if (memcmp(op->body_hash, how->body_hash, sizeof(op->body_hash)) != 0)
			return EXECUTION_MISMATCH;
		*answer = op->answer;
		Truth.replayed++;
		return EXECUTION_REPLAYED;
	}
	answer->effect = add_effect(op, how);
	if (how->keyed)
	{
		op->stored = true;
		op->stored_at = answer->effect->mono;
		memcpy(op->body_hash, how->body_hash, sizeof(op->body_hash));
		op->answer = *answer;
		op->answer.headers = arena_text(answer->headers);
		op->answer.text = arena_text(answer->text);
	}
	return EXECUTION_DONE;
}

/* Returns the first effect of all. */
const Effect *
ops_effects(void)
{
	return FirstEffect;
}

/* Records that something was done. */
static Effect *
add_effect(Op *op, const Execute *how)
{
	Effect	   *effect = arena_alloc(sizeof(Effect));

	*effect = (Effect) {
		.id = ++EffectCount,
		.op = op,
		.amount = how->amount,
		.has_amount = how->has_amount,
		.wall = wall_us(),
		.mono = mono_us(),
	};
	if (op->last != NULL)
		op->last->next_of_op = effect;
	else
		op->first = effect;
	op->last = effect;
	if (LastEffect != NULL)
		LastEffect->next = effect;
	else
		FirstEffect = effect;
	LastEffect = effect;
	op->executed++;
	Truth.executed++;
	if (op->executed > Truth.max_executed)
		Truth.max_executed = op->executed;
	return effect;
}

/* Takes memory for good. */
static void *
arena_alloc(size_t size)
{
	void	   *memory;

	size = (size + 15) & ~(size_t) 15;
	if (size > ARENA_BLOCK / 4)
		return xmalloc(size);
	if (size > ArenaLeft)
	{
		ArenaAt = xmalloc(ARENA_BLOCK);
		ArenaLeft = ARENA_BLOCK;
	}
	memory = ArenaAt;
	ArenaAt += size;
	ArenaLeft -= size;
	return memory;
}

/* Copies a C string for good; NULL stays NULL. */
static const char *
arena_text(const char *text)
{
	size_t		size;

	if (text == NULL)
		return NULL;
	size = strlen(text) + 1;
	return memcpy(arena_alloc(size), text, size);
}

/* Hashes an id: FNV-1a with the finish of splitmix64. */
static uint64_t
hash_bytes(Slice id)
{
	uint64_t	hash = 0xcbf29ce484222325u;

	for (size_t i = 0; i < id.len; i++)
		hash = (hash ^ (unsigned char) id.data[i]) * 0x100000001b3u;
	hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9u;
	hash = (hash ^ hash >> 27) * 0x94d049bb133111ebu;
	return hash ^ hash >> 31;
}

/* Doubles the table. */
static void
grow_table(void)
{
	size_t		size = TableSize > 0 ? TableSize * 2 : 1024;
	Op		  **table = xmalloc(size * sizeof(*table));

	memset(table, 0, size * sizeof(*table));
	for (size_t i = 0; i < TableSize; i++)
	{
		for (Op *op = Table[i], *next; op != NULL; op = next)
		{
			next = op->next;
			op->next = table[op->hash & (size - 1)];
			table[op->hash & (size - 1)] = op;
		}
	}
	free(Table);
	Table = table;
	TableSize = size;
}
