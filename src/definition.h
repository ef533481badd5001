/*
 * definition.h
 *		Services and tools as the code uses them, read from their rows.
 *
 * The text of a definition is checked once, when it is created or altered, and
 * every error names the place by JSON Pointer (SQLSTATE LG015).  The same
 * reader serves the dispatcher, so there is one place that knows an option.
 */
#ifndef AL_DEFINITION_H
#define AL_DEFINITION_H

#include "postgres.h"
#include "nodes/pg_list.h"
#include "utils/jsonb.h"

#include "rules/vocabulary.h"

typedef enum AlKeyPlace
{
	AL_KEY_PLACE_HEADER,
	AL_KEY_PLACE_BODY,			/* a top-level field of the JSON or form body */
	AL_KEY_PLACE_QUERY,
	AL_KEY_PLACE_NONE
} AlKeyPlace;

typedef enum AlKeyForm
{
	AL_KEY_FORM_UUID,
	AL_KEY_FORM_IDENTITY
} AlKeyForm;

/* What a destination declares about idempotency keys. */
typedef struct AlIdempotency
{
	bool		declared;		/* "none" is a declaration too */
	bool		honoured;		/* declared, and not "none" */
	AlKeyPlace	place;
	char	   *name;			/* of the header, field or parameter */
	AlKeyForm	form;
	char	   *prefix;			/* for form identity; "" when none */
	int			min_length;
	int			max_length;
	char	   *alphabet;		/* a regex character class such as A-Za-z0-9_-; NULL: printable ASCII */
	int64		window_ms;		/* how long the destination remembers a key */
	int64		margin_ms;		/* we stop that much earlier */
	char	   *replay_header;	/* NULL: none */
	bool		replays_errors;
} AlIdempotency;

/* Names of headers that a definition reads from answers: their length, and how many rules may name. */
#define AL_ANSWER_HEADER_MAX 60
#define AL_RULE_HEADERS 8

/* One of a tool's outcome rules, tried in order before the defaults (classify.h). */
typedef struct AlRule
{
	int			status_from;	/* 100 to 599 */
	int			status_to;
	char	   *header;			/* lower case; NULL: any */
	char	   *header_value;	/* NULL: any value */
	char	   *condition;		/* jsonpath on the body: holds when it yields true, or anything that is no boolean; NULL: none */
	AlVerdict	verdict;
	bool		transient;		/* rejected: the same request may be accepted later */
	bool		conclusive;
	bool		mismatch;		/* the key stands for another request there: sending again can only say so again */
	char	   *category;
} AlRule;

/*
 * How the outcome of an action is looked up at the destination.  Where a list
 * shows everything that was done (authoritative), not to be in it is absence;
 * where one object is asked for, an answer that fits absent is.
 */
typedef struct AlLookupDef
{
	char	   *path;			/* URI template after the base URL; NULL: the Location of an answer */
	char	   *match;			/* jsonpath that selects the objects of this action */
	char	   *list;			/* strict jsonpath of the array that it selects from; NULL: not from one */
	bool		filters;		/* match has a filter: it does not take whatever it is given */
	char	   *more;			/* jsonpath: there are more pages; NULL: none says so */
	List	   *outcome;		/* of AlRule *, on a matched object; the tool's own where has_outcome is false */
	bool		has_outcome;
	int64		every_ms;		/* the first delay between lookups; default 10 s */
	int			attempts;		/* default 10 */
	int64		window_ms;		/* from the first lookup to the last; default 24 h */
	bool		authoritative;
	AlRule	   *absent;			/* the answer that means absence; NULL: none does */
	bool		resend;			/* one send more after a proved absence */
	struct AlToolDef *request;	/* what renders it: the tool with this path and no body */
} AlLookupDef;

typedef struct AlServiceDef
{
	char	   *base_url;		/* normalised, without trailing slash */
	char	   *origin;			/* scheme://host:port, lower case, port always there */
	bool		plain_http;
	bool		allow_private;
	List	   *headers;		/* of char *, "Name: value"; references as below */
	AlIdempotency idempotency;
	int			in_flight;		/* most requests at once; default 100 */
	double		rate_per_second;	/* most requests begun a second; 0: no limit */
	int			queued;			/* most live actions that will be sent by themselves; 0: no limit */
	int			breaker_failures;	/* in a row that open the breaker; default 5 */
	int64		breaker_cooldown_ms;	/* before a probe; default 60 s */
	char	   *ca_file;
	char	   *client_cert;
	char	   *client_key;
} AlServiceDef;

/* The method of what an outside executor does, in definitions and frozen requests. */
#define AL_EXTERNAL "EXTERNAL"

typedef enum AlBodyKind
{
	AL_BODY_ARGS,				/* the arguments (less those in the URL) as JSON */
	AL_BODY_JSON,				/* a JSON template */
	AL_BODY_FORM,				/* a JSON template, form-encoded with bracketed nesting */
	AL_BODY_NONE				/* GET, HEAD, DELETE without a template */
} AlBodyKind;

/* Which actions of a tool wait for a person. */
typedef enum AlApprovalPolicy
{
	AL_APPROVAL_BY_READINESS,	/* nothing is said: all of them while a consequential tool is not ready */
	AL_APPROVAL_NEVER,
	AL_APPROVAL_ALWAYS,
	AL_APPROVAL_IF				/* those whose arguments the condition holds for */
} AlApprovalPolicy;

typedef struct AlToolDef
{
	char	   *name;
	bool		external;		/* claimed by outside executors, never sent by a dispatcher */
	char	   *method;			/* "EXTERNAL" for those */
	char	   *path;			/* URI template after the base URL; for those, the text of the request */
	AlActionType type;
	char	   *identity;		/* template, or NULL */
	Jsonb	   *input;			/* JSON Schema */
	AlBodyKind	body;
	Jsonb	   *body_template;	/* for JSON and FORM */
	List	   *headers;		/* of char *, "Name: value template" */
	char	   *summary;		/* template, or NULL */
	char	   *target;			/* template, or NULL */
	char	   *owner;			/* role name, or NULL */
	List	   *sensitive;		/* of char *, JSON Pointers */
	char	   *external_ref;	/* jsonpath, or NULL */
	char	   *result;			/* jsonpath, or NULL */
	List	   *outcome;		/* of AlRule * */
	AlLookupDef *lookup;		/* NULL: none */
	int64		timeout_ms;		/* default 30 s */
	int64		connect_timeout_ms; /* default 5 s, never more than timeout */
	int64		max_processing_ms;	/* default 10 * timeout, at least 60 s */
	int			attempts;		/* default 4 */
	int64		base_ms;		/* default 1 s */
	int64		cap_ms;			/* default 30 s */
	int64		window_ms;		/* default 1 h */
	int64		expires_after_ms;	/* 0: never */
	bool		per_run;		/* the hash that names an action takes in the run */
	char	   *check_function; /* schema.function, or NULL */
	AlApprovalPolicy approval;
	char	   *approval_if;	/* jsonpath on the arguments; for AL_APPROVAL_IF */
	char	   *approval_by;	/* role whose members approve; NULL: the owner, or an operator */
	int64		approval_expires_ms;	/* default 24 h */
	bool		has_idempotency;	/* overrides the service's */
	AlIdempotency idempotency;
} AlToolDef;

/*
 * Header lines hold references that whoever sends resolves, and nothing else
 * may come between braces (values of arguments never do):
 *
 *	{secret:NAME}		the secret; NAME is one or more of A-Z a-z 0-9 _ . -
 *	{basic:USER:PASS}	only as "Authorization: Basic {basic:USER:PASS}", up to the
 *						end of the line: the base64 of USER:PASS (RFC 7617) after
 *						the references in both are resolved.  Both are printable
 *						ASCII and {secret:NAME}, and may be empty; USER has no colon
 *						outside of a reference, so the first such colon parts them.
 *						A resolved user with a colon must be refused.
 */

/*
 * Read and check a service.  Raises LG015 with a JSON Pointer in DETAIL and,
 * for an unknown option, the nearest name in HINT.  Allocates in the current
 * memory context.
 */
extern AlServiceDef *al_service_parse(const char *name, const char *base_url, Jsonb *options);

/*
 * Read and check a tool; request is "METHOD /path/{template}", or with transport
 * "external" any text that names what is to be done.  Raises as above.
 * What is checked only when a tool is created is left out: the schema itself,
 * the placeholders (al_render_check), and whether the owner is a role.
 */
extern AlToolDef *al_tool_parse(const char *name, const char *request, const char *action_type,
								const char *identity, Jsonb *input, Jsonb *options);

/*
 * A duration with its unit ("250ms", "20s", "5m", "24h", "7d") in
 * milliseconds; false for a bare number, a negative one or anything else.
 */
extern bool al_duration_parse(const char *text, int64 *ms);

/* The nearest of a NULL-terminated list of names by edit distance, or NULL when none is near. */
extern const char *al_nearest_name(const char *name, const char *const *names);

/*
 * Apply a JSON merge patch (RFC 7396) to an options object: null removes.
 */
extern Jsonb *al_merge_patch(Jsonb *target, Jsonb *patch);

#endif							/* AL_DEFINITION_H */
