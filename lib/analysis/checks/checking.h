/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_ANALYSIS_CHECKING_H
#define FSDP_ANALYSIS_CHECKING_H

#include <fsdp/audit.h>

#include "analysis/scratch.h"
#include "base/finding.h"
#include "base/num.h"

/*
 * Compares facts of one scope and reports the findings of its rules. Each check is a file of this directory and a row
 * of the table in audit.c; no check calls another. Checks read the checkpoint through <fsdp/model.h> and run in the
 * order of the table.
 */
struct fsdp_checking {
	const struct fsdp_checkpoint *checkpoint;
	const struct fsdp_verify *verify; /* NULL: no bytes were looked at */
	enum fsdp_level level;
	const char *path; /* fsdp_audit_options.path, or NULL */
	const struct fsdp_limits *limits;
	struct fsdp_findings *findings;   /* raise them with fsdp_find */
	struct fsdp_arena *arena;         /* emptied after each check */
	struct fsdp_scratch name;         /* fsdp_scratch_name: one name at a time */
	struct fsdp_rule_result *results; /* for fsdp_check_skip */
};

struct fsdp_check {
	const enum fsdp_rule_index *rules; /* whose findings it raises, … */
	size_t rule_count; /* … so many; it runs if one of them is due */
	/* False: memory ended, *ret_error says so. */
	bool (*run)(struct fsdp_checking *checking, struct fsdp_error **ret_error);
};

/* The rules of a check, for its row. */
#define FSDP_CHECK_RULES(...)                                           \
	.rules = (const enum fsdp_rule_index[]){ __VA_ARGS__ },         \
	.rule_count = sizeof((enum fsdp_rule_index[]){ __VA_ARGS__ }) / \
		      sizeof(enum fsdp_rule_index)

/* Says why a rule was not judged (not evaluated), or without a reason that there is nothing
 * it is about (not applicable). A finding of the rule, before or later, has the last word. */
static inline void fsdp_check_skip(struct fsdp_checking *checking,
	enum fsdp_rule_index rule, enum fsdp_rule_reason reason)
{
	struct fsdp_rule_result *result = &checking->results[rule];

	result->status = reason == FSDP_REASON_NONE ? FSDP_STATUS_NOT_APPLICABLE
						    : FSDP_STATUS_NOT_EVALUATED;
	result->reason = reason;
}

/* structured.c: reads the indices of sparse tensors, and raises a finding of each that does not
 * fit its tensor. */
bool fsdp_judge_sparse(struct fsdp_checking *checking, struct fsdp_error **ret_error);

/* States of an optimizer are of buffers of many parameters there. */
static inline bool fsdp_check_is_packed(const struct fsdp_checkpoint *checkpoint)
{
	const char *family = fsdp_checkpoint_format(checkpoint).family;

	return family != NULL && (strncmp(family, "deepspeed", 9) == 0 ||
					 strncmp(family, "megatron", 8) == 0);
}

extern const struct fsdp_check fsdp_check_boxes;
extern const struct fsdp_check fsdp_check_complete;
extern const struct fsdp_check fsdp_check_folder_step;
extern const struct fsdp_check fsdp_check_no_meta;
extern const struct fsdp_check fsdp_check_optimizer;
extern const struct fsdp_check fsdp_check_optim_groups;
extern const struct fsdp_check fsdp_check_make_up;
extern const struct fsdp_check fsdp_check_parameters;
extern const struct fsdp_check fsdp_check_values;
extern const struct fsdp_check fsdp_check_sparse;
extern const struct fsdp_check fsdp_check_ties;
extern const struct fsdp_check fsdp_check_unseen;
extern const struct fsdp_check fsdp_check_wrapped;
extern const struct fsdp_check fsdp_check_unstated;

#endif
