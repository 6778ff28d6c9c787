/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_AUDIT_CHECKING_H
#define FSDP_AUDIT_CHECKING_H

#include <fsdp/audit.h>
#include <fsdp/model.h>

#include "aggregate/aggregate.h"
#include "base/finding.h"
#include "base/num.h"

/*
 * Compares facts of one scope and reports the findings of its rules. Each check is in a
 * file of this directory and a row of the table in audit.c; no check calls another.
 * Checks read the checkpoint through <fsdp/model.h> and run in the order of the table.
 */
struct fsdp_checking {
	const struct fsdp_checkpoint *checkpoint;
	const char *family;               /* of the format, or "" */
	const struct fsdp_verify *verify; /* NULL: no bytes were looked at */
	enum fsdp_level level;
	const char *path;                 /* fsdp_audit_options.path, or NULL */
	struct fsdp_findings *findings;   /* raise them with fsdp_find */
	struct fsdp_arena *arena;         /* emptied after each check */
	struct fsdp_scratch name;         /* for fsdp_check_name */
	struct fsdp_rule_result *results; /* for fsdp_check_skip */
	struct fsdp_error **ret_error;
	bool failed;    /* *ret_error says why */
	bool no_memory; /* the audit fails for that, whatever the check reports */
};

struct fsdp_check {
	const enum fsdp_rule_index *rules; /* whose findings it raises, … */
	size_t rule_count; /* … so many; it runs if one of them is due */
	void (*run)(struct fsdp_checking *checking);
};

/* The rules of a check, for its row. */
#define FSDP_CHECK_RULES(...)                                           \
	.rules = (const enum fsdp_rule_index[]){ __VA_ARGS__ },         \
	.rule_count = sizeof((enum fsdp_rule_index[]){ __VA_ARGS__ }) / \
		      sizeof(enum fsdp_rule_index)

/* Says why a rule was not judged (not evaluated), or without a reason that there is
 * nothing it is about (not applicable). A finding of the rule, before or later, has the
 * last word. */
static inline void fsdp_check_skip(struct fsdp_checking *checking,
	enum fsdp_rule_index rule, enum fsdp_rule_reason reason)
{
	struct fsdp_rule_result *result = &checking->results[rule];

	result->status = reason == FSDP_REASON_NONE ? FSDP_STATUS_NOT_APPLICABLE
						    : FSDP_STATUS_NOT_EVALUATED;
	result->reason = reason;
}

/* So many of what `pointer` points at from the arena, to be assigned to it. NULL: out of
 * memory, and `no_memory` is set. */
#define FSDP_CHECK_TAKE(checking, pointer, count) \
	fsdp_check_need(checking, FSDP_TAKE((checking)->arena, pointer, (count) + 1))
static inline void *fsdp_check_need(struct fsdp_checking *checking, void *memory)
{
	checking->no_memory |= memory == NULL;
	return memory;
}

/* Whether the family of the format begins so. */
static inline bool fsdp_check_is_of(
	const struct fsdp_checking *checking, const char *family)
{
	return strncmp(checking->family, family, strlen(family)) == 0;
}

/* A name by its id, or the clean name of a tensor; one at a time. */
static inline struct fsdp_span fsdp_check_name(
	struct fsdp_checking *checking, uint32_t name)
{
	return fsdp_scratch_name(&checking->name, checking->checkpoint, name);
}

static inline struct fsdp_span fsdp_check_tensor_name(
	struct fsdp_checking *checking, uint32_t tensor)
{
	return fsdp_check_name(checking, fsdp_tensor(checking->checkpoint, tensor).name);
}

/* Names that one finding is about: of so many the first FSDP_AFFECTED_KEPT. */
struct fsdp_kept {
	struct fsdp_span *names;
	size_t count;
};

/* Keeps a copy of one more of them. */
void fsdp_check_keep(
	struct fsdp_checking *checking, struct fsdp_kept *kept, struct fsdp_span name);

/* Raises a finding about one tensor. */
void fsdp_check_report(struct fsdp_checking *checking, enum fsdp_rule_index rule,
	struct fsdp_span tensor, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* The step by the files, the directory's name or the scheduler; -1: none states it, or an
 * error. */
int64_t fsdp_check_step(struct fsdp_checking *checking);

/* Reads the indices of sparse tensors, and raises a finding of each that does not fit its
 * tensor. */
void fsdp_check_indices(struct fsdp_checking *checking);

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

/* What rules are about, as a set. */
unsigned fsdp_subjects_of(const struct fsdp_checkpoint *checkpoint);

/* Whether a rule is about something that is in the set. */
bool fsdp_rule_applies(const struct fsdp_rule *rule, unsigned subjects);

#endif
