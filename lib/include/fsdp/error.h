/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_ERROR_H
#define FSDP_ERROR_H

#include <fsdp/span.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * An error says "I cannot go on". It is filled once, at the lowest level that has the
 * byte offset; upper levels add the path or the member and never replace the message.
 * What was merely noticed is a finding (finding.h).
 *
 * Functions that can fail return false (or NULL) and store an error through their last
 * argument, which may be NULL if the caller does not care. On failure all other outputs
 * are left untouched. The caller owns the error; its texts live until fsdp_error_free. A
 * slot that holds an error already is left alone: the first one counts.
 *
 * A caller prints the message first, then file, member and offset if they are there, and
 * the hint on a line of its own. Programs branch on the code, the rule and the kind,
 * never on the message, whose words may change in any release.
 */
struct fsdp_error;

/** Whose fault it is. The texts are static. */
enum fsdp_error_code {
	/* The caller asked for something impossible: an unknown name, a value out of its
	 * range, two options that exclude each other. Another input would not help. */
	FSDP_ERROR_USAGE,
	/* The operating system refused: no such file, no permission, a read or write that
	 * failed. The message ends with what the system said. */
	FSDP_ERROR_SYSTEM,
	/* A store refused: no credentials, or wrong or expired ones. */
	FSDP_ERROR_PERMISSION,
	/* The input is something else, or nothing: nothing in it was recognised. */
	FSDP_ERROR_NOT_A_CHECKPOINT,
	/* The input breaks the rules of its own format, at the offset that the error
	 * has. */
	FSDP_ERROR_DAMAGED,
	/* The library does not support this variant of a format. The input may be
	 * fine. */
	FSDP_ERROR_UNSUPPORTED,
	/* A named ceiling was reached (fsdp_error_limit). It protects against inputs that
	 * claim to be huge; raise it for one that is. */
	FSDP_ERROR_LIMIT,
	/* An allocation failed, or no error could be allocated for what happened. */
	FSDP_ERROR_MEMORY,
	/* A bug in this library: a state that its own checks should have made
	 * impossible. */
	FSDP_ERROR_INTERNAL,
	FSDP_ERROR_CODE_COUNT
};

/** The code's name in JSON: "usage", "not_a_checkpoint", …; "internal"
 * past the end. */
FSDP_API const char *fsdp_error_code_name(enum fsdp_error_code code);

/** NULL, where a function failed without an error, counts as out of memory. */
FSDP_API enum fsdp_error_code fsdp_error_code(const struct fsdp_error *error);

/** Whether the input could not be read (FSDP_ERROR_SYSTEM, FSDP_ERROR_PERMISSION): its content is
 * then unknown. */
FSDP_API bool fsdp_error_is_unread(const struct fsdp_error *error);

/** What is wrong, with the numbers; one sentence without a full stop. It may hold bytes
 * of the input: escape it before you show it. Never NULL. */
FSDP_API const char *fsdp_error_message(const struct fsdp_error *error);

/** The next step for the user, or NULL. */
FSDP_API const char *fsdp_error_hint(const struct fsdp_error *error);

/** The path of the file, as the user would type it, or NULL. Standard input is "-". */
FSDP_API const char *fsdp_error_path(const struct fsdp_error *error);

/** The member of an archive, or NULL. An offset counts within it then. */
FSDP_API const char *fsdp_error_member(const struct fsdp_error *error);

/** Byte offset in the file (or in the member, if there is one), or FSDP_UNKNOWN. */
FSDP_API uint64_t fsdp_error_offset(const struct fsdp_error *error);

/** The name of the ceiling that was reached (FSDP_ERROR_LIMIT), or NULL. */
FSDP_API const char *fsdp_error_limit(const struct fsdp_error *error);

/** The id of the rule this failure falls under ("FI9001"), or NULL. The rule itself is
 * fsdp_rule_find of it. */
FSDP_API const char *fsdp_error_rule(const struct fsdp_error *error);

/** What exactly it is, where its function promises such a word for programs ("not_json"),
 * or NULL. */
FSDP_API const char *fsdp_error_kind(const struct fsdp_error *error);

/** Releases the error and all texts that were taken from it. NULL is fine. The
 * out-of-memory error is static and may be freed like any other. */
FSDP_API void fsdp_error_free(struct fsdp_error *error);

#ifdef __cplusplus
}
#endif

#endif
