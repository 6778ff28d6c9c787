/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_FINDING_H
#define FSDP_FINDING_H

#include <stdbool.h>

#include <fsdp/span.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * How much a finding matters. A finding says "I noticed". It never stops the reading, and
 * it is never made smaller: if it cannot be stored, that is an error.
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
 * How closely a checkpoint is looked at; each level contains those before it. The level of a rule
 * is the lowest one that can find it. Each costs more than
 * the one before: from the first to the last, milliseconds, a read of every header, a
 * read of every byte, and arithmetic on every element.
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
enum fsdp_subject {
	/* Tensors: some are missing, or their shapes or elements may not be those that
	 * were saved. */
	FSDP_SUBJECT_TENSORS,
	/* Concerns data other than tensors, or what a program that loads the file would do.
	 * The tensors are as they were saved. */
	FSDP_SUBJECT_REST,
	FSDP_SUBJECT_COUNT
};

/** "tensors", "rest"; the last one past the end. */
FSDP_API const char *fsdp_subject_name(enum fsdp_subject subject);

/** A rule: one row of a fixed table. An id never changes its meaning and is never reused;
 * its digits have no meaning. All texts are static. fsdp-inspect-rules(7) is
 * this table in print. */
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
	enum fsdp_subject subject;
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

/** Findings of one rule in one file beyond the ceiling `findings`: they are counted and
 * not stored, so that a damaged file of a million tensors does not fill the memory. */
struct fsdp_omitted {
	const struct fsdp_rule *rule;
	/* Absent: they are about no file. */
	struct fsdp_span file;
	/* Number of findings that were not stored. */
	uint64_t count;
};

/** Result of a rule. Every rule has a status, so that a rule that did not run is never taken
 * for passed. */
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
