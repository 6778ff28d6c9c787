/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMPARISON_H
#define COMPARISON_H

#include "cmd/replay/replay.h"

/*
 * Earlier recordings beside those of now: what something took in each step of the earlier
 * ones, and what it takes now. Each step of a run is a sample, the mean over its ranks; a
 * run without steps is one sample. What is of no step counts in none.
 */

/* What is compared. Texts live as long as the recordings. */
struct compared_key {
	const char *by;              /* the table: "step", "type", ... */
	const char *measure;         /* what of it: "time", "exposed", ... */
	struct fsdp_span name, type; /* type: of the calls of a group */
	int64_t rank;                /* or FSDP_ABSENT: the mean over all */
	int64_t nth;                 /* of the calls of a group and type in a step, from
					1; or FSDP_ABSENT: all of them */
	const char *phase;           /* of a unit, or NULL */
	const char *class_name;      /* of a kernel, or NULL */
	int64_t bytes, pg;           /* of a group, of a unit; or FSDP_ABSENT */
};

struct compared_side {
	uint64_t count; /* calls in all samples */
	int64_t mean_ns, min_ns, max_ns;
};

/* Where it lies in what it was before. */
enum compared_place {
	COMPARED_UNKNOWN, /* there are fewer than two samples */
	COMPARED_INSIDE,
	COMPARED_BELOW,
	COMPARED_ABOVE,
};

struct compared_row {
	struct compared_key key;
	struct compared_side before, now; /* without samples all times are FSDP_ABSENT */
	enum compared_place place;
};

struct comparison {
	struct fsdp_recordings *before;
	bool per_step;        /* some sample is a step */
	uint64_t runs, ranks; /* of the earlier ones */
	uint64_t before_samples, now_samples;
	struct compared_row *rows; /* by table; what changed most first */
	size_t count;
};

/* The table that --by asks for; without it, those of steps and of types. NULL: out of
 * memory. The set goes over to the comparison, in any case. */
struct comparison *comparison_new(
	const struct replay *replay, struct fsdp_recordings *before);
void comparison_free(struct comparison *comparison);

/* The row of a type, or NULL. */
const struct compared_row *comparison_find_type(
	const struct comparison *comparison, struct text name);

/* replay-comparison.c: with replay->comparison set, the answer. */
void comparison_show(struct replay *replay);
void comparison_put_rows(struct replay *replay);
extern const struct record comparison_record;

#endif
