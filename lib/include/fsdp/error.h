/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What the library reports: texts as bytes, its version, errors, and findings with
 * their rules.
 *
 * An error ends a request: a function returns false or NULL and hands out one
 * struct fsdp_error. A finding does not: reading continues, and the finding has a
 * rule, a severity and a place. Errors belong to the caller, findings to the object
 * that hands them out.
 *
 * Offsets and sizes are bytes, times are nanoseconds. A number that is not known is
 * FSDP_UNKNOWN (unsigned) or FSDP_ABSENT (signed), an id that stands for nothing is
 * FSDP_NONE.
 *
 * The table of rules is compiled in. fsdp-inspect-rules(7) prints it, and each rule
 * has a sample in testdata that triggers it and one that does not.
 *
 * Example (testdata/broken/dcp-truncated-metadata/checkpoint):
 *
 *     void print_failure(const struct fsdp_error *error)
 *     {
 *         const char *hint = fsdp_error_hint(error), *id = fsdp_error_rule(error);
 *         uint64_t offset = fsdp_error_offset(error);
 *
 *         printf("%s: %s\n", fsdp_error_code_name(fsdp_error_code(error)),
 *             fsdp_error_message(error));
 *         if (offset != FSDP_UNKNOWN)
 *             printf("at byte %" PRIu64 "\n", offset);
 *         if (hint != NULL)
 *             printf("fix: %s\n", hint);
 *         if (id != NULL)
 *             printf("rule: %s\n", fsdp_rule_find(id)->slug);
 *     }
 *
 * It prints:
 *
 *     damaged: .metadata is truncated: the pickle ends after 2108 bytes without STOP
 *     at byte 2108
 *     rule: metadata-unreadable
 */
#ifndef FSDP_ERROR_H
#define FSDP_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- bytes and numbers ---- */

/* Marks what the shared library exports; everything else is hidden. */
#if defined(__GNUC__)
#define FSDP_API __attribute__((visibility("default")))
#else
#define FSDP_API
#endif

/**
 * Bytes as they were found in a file: not terminated, not escaped, not necessarily
 * UTF-8. Print them with "%.*s" only after they were escaped: they may hold zero
 * bytes, newlines and the control sequences of terminals.
 *
 * A span owns nothing: the bytes belong to an error, a checkpoint or a buffer of
 * the caller, and the function that hands a span out says how long they stay.
 *
 * An absent span has data == NULL; an empty one has data != NULL, size == 0. So a
 * name that is empty can be told apart from a name that is not there.
 */
struct fsdp_span {
	/* The first byte, or NULL if the span is absent. */
	const unsigned char *data;
	/* In bytes; 0 if the span is absent. */
	size_t size;
};

/** What a 64-bit number means when it is not known: a size, an offset, a sum that
 * does not fit. No real one can have this value, since no file is that long. */
#define FSDP_UNKNOWN UINT64_MAX

/** What an id (module, unit, tensor, file, rank …) means when there is none. Lists
 * never hold so many entries that an index could be equal to it. */
#define FSDP_NONE UINT32_MAX

/** An integer that is not known: a time, a rank, a number of bytes. */
#define FSDP_ABSENT INT64_MIN

/* ---- versions ---- */

/**
 * Versions are MAJOR.MINOR.PATCH. A change that breaks a caller raises MAJOR, or
 * MINOR as long as MAJOR is 0; a new function or a new member at the end of a
 * struct of options raises MINOR. Structs of options begin with their size, so that
 * a caller that was built with older headers is understood.
 */

/** The version these headers belong to. */
#define FSDP_VERSION "0.1.0"
#define FSDP_VERSION_MAJOR 0
#define FSDP_VERSION_MINOR 1
#define FSDP_VERSION_PATCH 0

/** Whether these headers are of that version or a later one; for #if. */
#define FSDP_VERSION_AT_LEAST(major, minor, patch)                \
	(FSDP_VERSION_MAJOR > (major) ||                          \
		(FSDP_VERSION_MAJOR == (major) &&                 \
			(FSDP_VERSION_MINOR > (minor) ||          \
				(FSDP_VERSION_MINOR == (minor) && \
					FSDP_VERSION_PATCH >= (patch)))))

/** The version of the library that runs, which need not be FSDP_VERSION: a shared
 * library may be newer than the headers of the caller. Static, as all texts here. */
FSDP_API const char *fsdp_version(void);

/** A library inside this one, and its version at run time. */
struct fsdp_library {
	/* As its own documentation calls it: "zlib". */
	const char *name;
	/* Of the one that is linked now, not of the headers it was built with. */
	const char *version;
};

/** Libraries that read formats for this one. */
FSDP_API size_t fsdp_library_count(void);

/** In a fixed order; name == NULL past the end. */
FSDP_API struct fsdp_library fsdp_library(size_t index);

/* ---- errors ---- */

/**
 * An error says "I cannot go on". It is filled once, at the lowest level that has
 * the byte offset; upper levels add the path or the member and never replace the
 * message. What was merely noticed is a finding (struct fsdp_finding).
 *
 * Functions that can fail return false (or NULL) and store an error through their
 * last argument, which may be NULL if the caller does not care. On failure all
 * other outputs are left untouched. The caller owns the error; its texts live until
 * fsdp_error_free. A slot that holds an error already is left alone: the first one
 * counts.
 *
 * A caller prints the message first, then file, member and offset if they are
 * there, and the hint on a line of its own. Programs branch on the code, the rule
 * and the kind, never on the message, whose words may change in any release.
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
	/* The input is something else, or nothing: nothing in it was recognized. */
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

/** Whether the input could not be read (FSDP_ERROR_SYSTEM, FSDP_ERROR_PERMISSION):
 * its content is then unknown. */
FSDP_API bool fsdp_error_is_unread(const struct fsdp_error *error);

/** What is wrong, with the numbers; one sentence without a full stop. It may hold
 * bytes of the input: escape it before you show it. Never NULL. */
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

/** The id of the rule this failure falls under ("FI9001"), or NULL. The rule itself
 * is fsdp_rule_find of it. */
FSDP_API const char *fsdp_error_rule(const struct fsdp_error *error);

/** What exactly it is, where its function promises such a word for programs
 * ("not_json"), or NULL. */
FSDP_API const char *fsdp_error_kind(const struct fsdp_error *error);

/** Releases the error and all texts that were taken from it. NULL is fine. The
 * out-of-memory error is static and may be freed like any other. */
FSDP_API void fsdp_error_free(struct fsdp_error *error);

/* ---- findings ---- */

/**
 * How much a finding matters. A finding says "I noticed". It never stops the
 * reading, and it is never made smaller: if it cannot be stored, that is an error.
 */
enum fsdp_severity {
	/* Worth knowing; nothing is wrong. */
	FSDP_NOTE,
	/* Unusual or wasteful, or a possible fault: it may be intended. */
	FSDP_WARNING,
	/* Broken, missing or contradictory, or harmful when it is loaded. */
	FSDP_ERROR,
	FSDP_SEVERITY_COUNT
};

/** "note", "warning", "error"; the last one past the end. Static, as are the names
 * below. */
FSDP_API const char *fsdp_severity_name(enum fsdp_severity severity);

/**
 * How closely a checkpoint is looked at; each level contains those before it. The
 * level of a rule is the lowest one that can find it. Each costs more than the one
 * before: from the first to the last, milliseconds, a read of every header, a read
 * of every byte, and arithmetic on every element.
 */
enum fsdp_level {
	FSDP_LEVEL_QUICK,   /* names and sizes of files, the topmost metadata */
	FSDP_LEVEL_HEADERS, /* all metadata and headers of every file */
	FSDP_LEVEL_DATA,    /* every byte of every file */
	FSDP_LEVEL_VALUES,  /* and the numbers that these bytes are */
	FSDP_LEVEL_ANY,     /* of a rule: whatever is looked at */
	FSDP_LEVEL_COUNT
};

/** "quick", "headers", "data", "values", "any"; the last one past the end. */
FSDP_API const char *fsdp_level_name(enum fsdp_level level);

/** What a finding of a rule casts doubt on, if it is an error. */
enum fsdp_finding_scope {
	/* Tensors: some are missing, or their shapes or elements may not be those that
	 * were saved. */
	FSDP_SCOPE_TENSORS,
	/* Concerns data other than tensors, or what a program that loads the file would
	 * do. The tensors are as they were saved. */
	FSDP_SCOPE_OTHER,
	FSDP_SCOPE_COUNT
};

/** "tensors", "rest"; the last one past the end. */
FSDP_API const char *fsdp_finding_scope_name(enum fsdp_finding_scope subject);

/** A rule: one row of a fixed table. An id never changes its meaning and is never
 * reused; its digits have no meaning. All texts are static. fsdp-inspect-rules(7)
 * is this table in print. */
struct fsdp_rule {
	/* "FI1004". What options refer to. */
	const char *id;
	/* "truncated-file". The same rule in words, for people who type one. */
	const char *slug;
	/* That of most of its findings; a finding has its own. */
	enum fsdp_severity severity;
	/* "structure", "integrity", "safety", …: a group for people. */
	const char *category;
	/* The lowest level that finds it. */
	enum fsdp_level level;
	/* What is wrong, in few words. */
	const char *title;
	/* Why it mostly happens. */
	const char *cause;
	/* What to do then. */
	const char *fix;
	/* What its errors cast doubt on. */
	enum fsdp_finding_scope subject;
};

/** Rows of the table. */
FSDP_API size_t fsdp_rule_count(void);

/** In order of ids; NULL past the end. */
FSDP_API const struct fsdp_rule *fsdp_rule(size_t index);

/** By id or slug; NULL if there is none. Compares bytes, case included. */
FSDP_API const struct fsdp_rule *fsdp_rule_find(const char *id_or_slug);

/** One finding. Absent spans have data == NULL, absent numbers are FSDP_UNKNOWN, an
 * absent rank is FSDP_NONE. Everything borrows from the object that hands it out: a
 * checkpoint, a verification, an audit or a set of recordings. */
struct fsdp_finding {
	/* Never NULL. */
	const struct fsdp_rule *rule;
	/* May differ from the rule's own: the same fact is worse in one place than in
	 * another. */
	enum fsdp_severity severity;
	/* Its path under the root of the checkpoint; absent if it is about no single
	 * file. */
	struct fsdp_span file;
	/* A member of that archive. */
	struct fsdp_span member;
	/* The clean name of a tensor; of rules about pickles, module.name of a global. */
	struct fsdp_span tensor;
	/* The name of a module, or that of the one that owns the tensor. */
	struct fsdp_span module;
	/* A byte range that holds the fault, in the file, or in the member if one is
	 * named. */
	uint64_t offset, length;
	/* Whose file or part it is. */
	uint32_t rank;
	/* Names of tensors that suffer: the first FSDP_AFFECTED_KEPT of
	 * affected_count. */
	const struct fsdp_span *affected;
	size_t affected_kept, affected_count;
	/* Of the logical bytes of these tensors so many are lost. */
	uint64_t affected_bytes;
	/* One sentence without a full stop, with the numbers. */
	struct fsdp_span message;
	/* What to do here, where more is known than the rule's `fix` says; else
	 * absent. */
	struct fsdp_span fix;
};

/** Names that one finding holds at most; the rest is only counted. */
enum { FSDP_AFFECTED_KEPT = 1000 };

/** Findings of one rule in one file beyond the ceiling `findings`: they are counted
 * and not stored, so that a damaged file of a million tensors does not fill the
 * memory. */
struct fsdp_omitted {
	const struct fsdp_rule *rule;
	/* Absent: they are about no file. */
	struct fsdp_span file;
	/* Number of findings that were not stored. */
	uint64_t count;
};

/** Result of a rule. Every rule has a status, so that a rule that did not run is
 * never taken for passed. */
enum fsdp_rule_status {
	/* It was checked on all objects that it applies to, without a finding. */
	FSDP_STATUS_PASSED,
	/* There are findings, of whatever severity. */
	FSDP_STATUS_FAILED,
	/* It is about something that this checkpoint is not: another format, no
	 * optimizer, no plan. */
	FSDP_STATUS_NOT_APPLICABLE,
	/* It applies and could not be checked: see the reason. */
	FSDP_STATUS_NOT_EVALUATED,
	FSDP_STATUS_COUNT
};

/** Why a rule was not evaluated. There may be several reasons; this is one. */
enum fsdp_rule_reason {
	/* It was evaluated, or does not apply. */
	FSDP_REASON_NONE,
	/* A deeper level would check it: that of headers, */
	FSDP_REASON_NEEDS_HEADERS,
	/* of data, */
	FSDP_REASON_NEEDS_DATA,
	/* or of values. */
	FSDP_REASON_NEEDS_VALUES,
	/* It needs a sharding plan (fsdp-inspect-plan(5)). */
	FSDP_REASON_NEEDS_PLAN,
	/* It needs the configuration of the model: config.json. */
	FSDP_REASON_NEEDS_CONFIG,
	/* The writer recorded no checksums. */
	FSDP_REASON_NO_CRC,
	/* It needs a list of digests to compare with. */
	FSDP_REASON_NO_DIGEST,
	/* A ceiling was reached before the end. */
	FSDP_REASON_LIMIT,
	/* A file that it needs could not be read. */
	FSDP_REASON_UNREADABLE,
	/* A file that it needs is of a variant that is not understood. */
	FSDP_REASON_UNSUPPORTED,
	/* What should be equal is cut or laid out in two ways. */
	FSDP_REASON_UNLIKE,
	FSDP_REASON_COUNT
};

/** "passed", …, "not_evaluated"; the last one past the end. */
FSDP_API const char *fsdp_rule_status_name(enum fsdp_rule_status status);

/** NULL for none; "needs_data", …, "unlike"; the last one past the end. */
FSDP_API const char *fsdp_rule_reason_name(enum fsdp_rule_reason reason);

/** The result of one rule. */
struct fsdp_rule_result {
	/* NULL past the end. */
	const struct fsdp_rule *rule;
	enum fsdp_rule_status status;
	/* Why not, where it was not evaluated. */
	enum fsdp_rule_reason reason;
	/* How many findings it has, omitted ones included. */
	uint64_t findings;
};

#ifdef __cplusplus
}
#endif

#endif
