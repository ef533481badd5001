/*
 * labels.h
 *		The values of the ledger's enums, as statements hand them over.
 *
 * A batch carries thousands of them, and each cast from or to text costs more
 * than a column; here they are looked up once.
 */
#ifndef AL_LABELS_H
#define AL_LABELS_H

#include "postgres.h"

#include "rules/policy.h"

/* The value of an enum for a word of the rules. */
extern Datum al_label_status(AlStatus status);
extern Datum al_label_step(AlStep step);
extern Datum al_label_known(AlKnown known);
extern Datum al_label_verdict(AlVerdict verdict);

/* The word that a value stands for; false for one that this version does not know. */
extern bool al_label_read_status(Datum value, AlStatus *status);
extern bool al_label_read_step(Datum value, AlStep *step);
extern bool al_label_read_known(Datum value, AlKnown *known);

#endif							/* AL_LABELS_H */
