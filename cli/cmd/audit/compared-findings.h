/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMPARED_FINDINGS_H
#define COMPARED_FINDINGS_H

#include <fsdp/compare.h>

#include "args/parse.h"

/* Findings of a comparison with expected tensors: one finding per tensor, at most this many per rule; more are
 * counted. */
enum { COMPARED_KEPT = 1000 };

struct compared_findings {
	struct run *run;
	struct text file;       /* of the findings; absent: the checkpoint */
	const char *names_rule; /* FI6005 or FI6001 */
	const char *shape_rule; /* FI6007 or FI6003 */
	bool merges;            /* another dtype is a warning then */
	uint64_t missing, extra, shaped, valued; /* so far */
	bool failed;                             /* out of memory */
};

/* next: NULL is what the rule says. */
void compared_find(struct compared_findings *findings, const char *rule,
	enum severity severity, struct text tensor, const char *next, const char *format,
	...) __attribute__((format(printf, 6, 7)));

/* A tensor that was wanted so, and is there: a shape that is NULL, or no dtype, is any.
 * Whether its elements can be compared. */
bool compared_shape(struct compared_findings *findings, struct text name,
	const int64_t *shape, uint32_t dims, struct text dtype,
	const struct fsdp_compare_tensor *found);

/* A tensor that was not wanted. */
void compared_extra(struct compared_findings *findings, struct text name);

/* Reports the tensors that were only counted. */
void compared_omit(struct compared_findings *findings);

#endif
