/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_AUDIT_H
#define FSDP_AUDIT_H

#include <fsdp/verify.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Checks an open checkpoint: findings of its readers, and findings from comparing its facts
 * with each other. Each rule of the table (finding.h) has a result, so that a rule that did
 * not run is never counted as passed.
 *
 * An audit reads no file but, at the level of data, the indices of sparse tensors. It
 * owns its memory, which is linear in the tensors and pieces and counts against the limit
 * `memory`. The checkpoint must outlive it.
 *
 * How it is asked, with the bytes read or without:
 *
 *     fsdp_checkpoint_open   reads what describes the tensors
 *     fsdp_verify_new        reads the bytes, at the level of data or values
 *     fsdp_audit_new         checks the facts of both
 *     fsdp_audit_result      for the index of each rule (fsdp_rule_count)
 */
struct fsdp_audit;

/** Options of an audit. All zero but `size` and `level` means defaults. */
struct fsdp_audit_options {
	size_t size; /* of this struct in the caller's version */
	/* How closely the checkpoint was looked at. Rules of a deeper level are not
	 * evaluated. At the levels of data and values `verify` must be there, and be of
	 * that level. */
	enum fsdp_level level;

	/* What its bytes said (verify.h), whose findings count as if they were the
	 * checkpoint's own; it must outlive the audit. NULL: they were not looked at. */
	const struct fsdp_verify *verify;

	const struct fsdp_limit_setting *limits; /* as in struct fsdp_options */
	size_t limit_count;

	/* What was opened, as it was typed: the step in its name, or in that of the directory
	 * above, is compared with the one that is stored. NULL: it is not. */
	const char *path;
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

/**
 * All findings: those of the checkpoint (fsdp_finding), of its bytes
 * (fsdp_verify_finding), and of the audit's own checks, each in its order. If a finding
 * has only a file or a member, the tensors and values that suffer are filled in.
 */
FSDP_API size_t fsdp_audit_finding_count(const struct fsdp_audit *audit);

/** NULL past the end; lives as long as the audit. */
FSDP_API const struct fsdp_finding *fsdp_audit_finding(
	const struct fsdp_audit *audit, size_t index);

/** Findings that the ceiling `findings` kept out: only those of its own checks. */
FSDP_API size_t fsdp_audit_omitted_count(const struct fsdp_audit *audit);
FSDP_API struct fsdp_omitted fsdp_audit_omitted(
	const struct fsdp_audit *audit, size_t index);

/** By the index of the rule (fsdp_rule); rules of recordings are not applicable. */
FSDP_API struct fsdp_rule_result fsdp_audit_result(
	const struct fsdp_audit *audit, size_t rule);

#ifdef __cplusplus
}
#endif

#endif
