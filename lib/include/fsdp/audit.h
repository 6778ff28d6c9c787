/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_AUDIT_H
#define FSDP_AUDIT_H

#include <fsdp/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Judges an open checkpoint: what its readers noticed, and what follows from its facts
 * when they are compared with each other. Each rule of the table (finding.h) has a
 * result, so that what was not looked at never reads as passed.
 *
 * An audit reads no file. It owns its memory, which is linear in the tensors and pieces
 * and counts against the limit `memory`. The checkpoint must outlive it.
 */
struct fsdp_audit;

/** How to judge. All zero but `size` and `level` means defaults. */
struct fsdp_audit_options {
	size_t size;           /* of this struct, as the caller knows it */
	enum fsdp_level level; /* how closely the checkpoint was looked at */

	const struct fsdp_limit_setting *limits; /* as in struct fsdp_options */
	size_t limit_count;
};

/**
 * The caller owns *ret_audit. Fails if memory ends, or at the limit `memory`; damage of
 * the checkpoint is a finding and no failure.
 */
FSDP_API bool fsdp_audit_new(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_audit_options *options, struct fsdp_audit **ret_audit,
	struct fsdp_error **ret_error);

/** NULL is fine. */
FSDP_API void fsdp_audit_free(struct fsdp_audit *audit);

/** Findings of the audit's own, behind those of the checkpoint (fsdp_finding), of which
 * none is repeated. Ordered by check, then as they were found. */
FSDP_API size_t fsdp_audit_finding_count(const struct fsdp_audit *audit);

/** NULL past the end; lives as long as the audit. */
FSDP_API const struct fsdp_finding *fsdp_audit_finding(
	const struct fsdp_audit *audit, size_t index);

/** Findings of its own that the ceiling `findings` kept out, as fsdp_omitted. */
FSDP_API size_t fsdp_audit_omitted_count(const struct fsdp_audit *audit);
FSDP_API struct fsdp_omitted fsdp_audit_omitted(
	const struct fsdp_audit *audit, size_t index);

/** What became of a rule. */
enum fsdp_rule_status {
	FSDP_STATUS_PASSED,
	FSDP_STATUS_FAILED,         /* there are findings */
	FSDP_STATUS_NOT_APPLICABLE, /* it is about something that this checkpoint is not */
	FSDP_STATUS_NOT_EVALUATED,  /* it could not be judged: see the reason */
	FSDP_STATUS_COUNT
};

/** Why a rule was not evaluated. */
enum fsdp_rule_reason {
	FSDP_REASON_NONE,
	FSDP_REASON_NEEDS_HEADERS, /* a deeper level */
	FSDP_REASON_NEEDS_DATA,
	FSDP_REASON_NEEDS_VALUES,
	FSDP_REASON_NEEDS_PLAN,
	FSDP_REASON_NEEDS_CONFIG, /* of the model */
	FSDP_REASON_NO_CRC,       /* the writer recorded none */
	FSDP_REASON_NO_DIGEST,
	FSDP_REASON_LIMIT,
	FSDP_REASON_UNREADABLE,
	FSDP_REASON_UNSUPPORTED,
	FSDP_REASON_COUNT
};

/** "passed", …, "not_evaluated"; the last one past the end. */
FSDP_API const char *fsdp_rule_status_name(enum fsdp_rule_status status);

/** NULL for none; "needs_data", …, "unsupported"; the last one past the end. */
FSDP_API const char *fsdp_rule_reason_name(enum fsdp_rule_reason reason);

/** The result of one rule. */
struct fsdp_rule_result {
	const struct fsdp_rule *rule; /* NULL past the end */
	enum fsdp_rule_status status;
	enum fsdp_rule_reason reason; /* why not, where it was not evaluated */
	uint64_t findings;            /* of checkpoint and audit, omitted ones too */
};

/** By the index of the rule (fsdp_rule); rules of recordings are not applicable. */
FSDP_API struct fsdp_rule_result fsdp_audit_result(
	const struct fsdp_audit *audit, size_t rule);

#ifdef __cplusplus
}
#endif

#endif
