/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Whether a checkpoint is good: a check of its bytes (fsdp_verify) and a check of
 * its facts (fsdp_audit), with a result for each rule of the table in error.h.
 *
 * Opening a checkpoint already yields findings, because reading notices damage.
 * fsdp_verify_new reads more: headers, then all bytes and their checksums, then the
 * numbers. fsdp_audit_new reads nothing and compares facts: do pieces cover each
 * tensor, do layers have the same tensors, do shapes match config.json. The caller
 * decides by the level how much time it costs.
 *
 * Counts are files, rules or findings; sizes are bytes as stored. Both objects
 * belong to the caller, borrow from the checkpoint, and must be released before it.
 *
 * Example (testdata/broken/dcp-chunk-gap/checkpoint):
 *
 *     bool print_errors(const struct fsdp_checkpoint *checkpoint,
 *         struct fsdp_error **ret_error)
 *     {
 *         struct fsdp_audit_options options = { .size = sizeof options,
 *             .level = FSDP_LEVEL_HEADERS };
 *         struct fsdp_audit *audit = NULL;
 *
 *         if (!fsdp_audit_new(checkpoint, &options, &audit, ret_error))
 *             return false;
 *         for (size_t i = 0; i < fsdp_audit_finding_count(audit); i++) {
 *             const struct fsdp_finding *finding = fsdp_audit_finding(audit, i);
 *             if (finding->severity == FSDP_ERROR)
 *                 printf("%s: %.*s\n", finding->rule->slug,
 *                     (int)finding->message.size,
 *                     (const char *)finding->message.data);
 *         }
 *         fsdp_audit_free(audit);
 *         return true;
 *     }
 *
 * It prints:
 *
 *     chunk-gap: pieces cover 20 of 25 elements of the tensor
 */
#ifndef FSDP_AUDIT_H
#define FSDP_AUDIT_H

#include <fsdp/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- bytes ---- */

/**
 * What the bytes of an open checkpoint say, where opening it only read what
 * describes them: whether headers contradict directories, which bytes nothing
 * refers to, whether checksums are right, and what the numbers of each tensor are.
 *
 * The result is frozen like a checkpoint: getters take no memory and do not fail,
 * any number of threads may ask, and every pointer lives until fsdp_verify_free. It
 * borrows from the checkpoint, which must outlive it.
 */
struct fsdp_verify;

/** All zero but `size` means headers only. The struct and what it points to are
 * looked at until fsdp_verify_new returns. */
struct fsdp_verify_options {
	size_t size; /* of this struct in the caller's version */

	/* How much is read: headers and directories of every file (a lower level is taken
	 * for this one), every byte of every file once, or these bytes as numbers too.
	 * From the second on, zips that are loaded with the checkpoint and hold no tensor
	 * of it (optimizer.pt, rng_state.pth) are read too. */
	enum fsdp_level level;

	/* Threads that read, at most 64. 0: one. No result depends on it. */
	unsigned jobs;

	/* A list of SHA-256 digests in the form of sha256sum, its names relative to the
	 * checkpoint's directory; or NULL. Needs the level of data. */
	const char *manifest_path;

	/* Called now and then with how many bytes of how many were read, on any of the
	 * threads, never on two at a time. NULL: not called. */
	void (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes);
	void *progress_context;

	/* At the level of data: share `part` (from 1 on) of `parts`, an equal cut of the
	 * bytes by whole files, the same in every process. Of other files only copies are
	 * read that those of this part must be equal to. Findings without a file are in
	 * every part; the results of all parts together are those of a run without parts.
	 * 0 of 0: all files. At the level of values a part checks no numbers. */
	uint32_t part, parts;
};

/**
 * Checks the bytes of the checkpoint. Damage and unreadable files are findings; it
 * fails only if memory ends, a ceiling of the checkpoint's limits is reached, or
 * the manifest cannot be read. A NULL for the options is the defaults. Not of a
 * checkpoint that has sums (fsdp_sum_count): that is an FSDP_ERROR_USAGE.
 *
 * Files are read in the order of the checkpoint's list, each from front to back;
 * small members share reads. On success the caller owns *ret_verify. Memory in
 * addition to the directory of one zip: 16 MiB, 1 MiB for each thread, and at the
 * level of values about 150 bytes a tensor.
 */
FSDP_API bool fsdp_verify_new(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_verify_options *options, struct fsdp_verify **ret_verify,
	struct fsdp_error **ret_error);

/** NULL is fine. */
FSDP_API void fsdp_verify_free(struct fsdp_verify *verify);

/* ---- findings ---- */

/** What was noticed beyond the findings of the checkpoint itself, in the order of
 * its files. The index must be below the count. */
FSDP_API size_t fsdp_verify_finding_count(const struct fsdp_verify *verify);
FSDP_API const struct fsdp_finding *fsdp_verify_finding(
	const struct fsdp_verify *verify, size_t index);

/** Findings that the ceiling `findings` kept out: one row per rule and file, as
 * in fsdp_omitted. All zero past the end. */
FSDP_API size_t fsdp_verify_omitted_count(const struct fsdp_verify *verify);
FSDP_API struct fsdp_omitted fsdp_verify_omitted(
	const struct fsdp_verify *verify, size_t index);

/**
 * Result of a rule, by its index (fsdp_rule): passed, not applicable or not
 * evaluated, and why; its findings are not counted. False: this object never raises
 * that rule, and *ret_result stays as it was. A rule with findings may be evaluated
 * only in part.
 */
FSDP_API bool fsdp_verify_result(const struct fsdp_verify *verify, size_t rule,
	struct fsdp_rule_result *ret_result);

/* ---- what was read ---- */

/** What the answer rests on. Bytes are those of files, as they are stored. */
struct fsdp_verify_coverage {
	enum fsdp_level level;
	/* Files that were looked at, */
	uint64_t files;
	/* and their bytes. */
	uint64_t bytes;
	/* Read at the level of data or values: payload and all else. 0 at the level of
	 * headers. */
	uint64_t bytes_read;
	/* Of those read: covered by a checksum or digest. All others can be changed
	 * without being noticed. */
	uint64_t bytes_with_digest;
	/* Payload that neither a checksum nor a digest covers */
	uint64_t payload_without;
	/* Bytes of data files that nothing refers to. */
	uint64_t unreferenced;
	size_t digest_source_count; /* fsdp_verify_digest_source */
};

/** Counted when it was made. */
FSDP_API struct fsdp_verify_coverage fsdp_verify_coverage(
	const struct fsdp_verify *verify);

/** Where digests were found: "crc32", "SHA256SUMS", "integrity.json", "cache", or
 * the path of the manifest. NULL past the end. */
FSDP_API const char *fsdp_verify_digest_source(
	const struct fsdp_verify *verify, size_t index);

/* ---- values ---- */

/**
 * The numbers of a tensor. Each element counts once, however many copies of its
 * piece there are; of a complex one both parts count as numbers. They are the same
 * digits for any number of threads.
 */
struct fsdp_verify_values {
	/* False: the rest is zero. It was not asked for at this level, or its bytes are
	 * not readable. */
	bool known;
	/* Numbers that were looked at. */
	uint64_t count;
	/* Of these; the four add up to count. */
	uint64_t finite, nan, pos_inf, neg_inf;
	/* All are finite and the same; true of a single number. */
	bool constant;
	double min, max; /* of the finite ones; 0 if there are none */
	/* Of so many finite ones: of all integers, and of a sample of the floats, which
	 * the place decides. The sums of numbers of 16 bits have six digits. */
	uint64_t summed;
	double sum, squares;
	/* Of these: zeros of either sign, and what else is below the smallest normal
	 * number, by the rules of the dtype. */
	uint64_t zeros, subnormals;

	/* The first number that is not finite: its piece, and its index in the storage of
	 * that piece. FSDP_NONE and FSDP_UNKNOWN: all are finite. */
	uint32_t bad_piece;
	uint64_t bad_index;

	/* 128 bits of all bytes, or of a sample if that distinguishes tensors. Two
	 * tensors of one dtype and shape have the same bytes, element by element, if
	 * digest and layout are equal; different digests of one layout say that they
	 * differ, and different layouts say nothing. Of a constant 0 and -0 count as one
	 * number. Not cryptographic: who makes both tensors can make them meet. */
	uint64_t digest[2];
	/* Arrangement of the tensor in its pieces; 0: no digest. */
	uint64_t layout;
};

/** By the index of a tensor or of a component. An alias has the values of its
 * tensor only if that one has values: use its index. */
FSDP_API struct fsdp_verify_values fsdp_verify_values(
	const struct fsdp_verify *verify, uint32_t tensor);

/* ---- audit ---- */

/**
 * Checks an open checkpoint: findings of its readers, and findings from comparing
 * its facts with each other. Each rule of the table (error.h) has a result, so that
 * a rule that did not run is never counted as passed.
 *
 * An audit reads no file but, at the level of data, the indices of sparse tensors.
 * It owns its memory, which is linear in the tensors and pieces and counts against
 * the limit `memory`. The checkpoint must outlive it.
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

	/* What its bytes said (struct fsdp_verify), whose findings count as if they were
	 * the checkpoint's own; it must outlive the audit. NULL: they were not looked at.
	 */
	const struct fsdp_verify *verify;

	const struct fsdp_limit_setting *limits; /* as in struct fsdp_options */
	size_t limit_count;

	/* What was opened, as it was typed: the step in its name, or in that of the
	 * directory above, is compared with the one that is stored. NULL: it is not. */
	const char *path;
};

/**
 * The caller owns *ret_audit. Fails if memory ends, or at the limit `memory`;
 * damage of the checkpoint is a finding and no failure.
 */
FSDP_API bool fsdp_audit_new(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_audit_options *options, struct fsdp_audit **ret_audit,
	struct fsdp_error **ret_error);

/** NULL is fine. */
FSDP_API void fsdp_audit_free(struct fsdp_audit *audit);

/**
 * All findings: those of the checkpoint (fsdp_finding), of its bytes
 * (fsdp_verify_finding), and of the audit's own checks, each in its order. If a
 * finding has only a file or a member, the tensors and values that suffer are
 * filled in.
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
