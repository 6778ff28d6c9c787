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
enum fsdp_severity { FSDP_NOTE, FSDP_WARNING, FSDP_ERROR, FSDP_SEVERITY_COUNT };

/** "note", "warning", "error"; the last one past the end. */
FSDP_API const char *fsdp_severity_name(enum fsdp_severity severity);

/**
 * How closely a checkpoint is looked at; each level contains those before it. What a rule
 * needs to be judged is the lowest level at which it can be found.
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
	 * were saved */
	FSDP_SUBJECT_TENSORS,
	/* What lies beside them, or what a program would do that loads the file */
	FSDP_SUBJECT_REST,
	FSDP_SUBJECT_COUNT
};

/** "tensors", "rest"; the last one past the end. */
FSDP_API const char *fsdp_subject_name(enum fsdp_subject subject);

/**
 * A rule: one row of a fixed table. An id keeps its meaning for ever, is never
 * reused, and nothing is read from its digits. All texts are static.
 */
struct fsdp_rule {
	const char *id;              /* "FI1004" */
	const char *slug;            /* "truncated-file" */
	enum fsdp_severity severity; /* of its findings, mostly */
	const char *category;        /* "structure", "integrity", "safety", … */
	enum fsdp_level level;       /* that finds it */
	const char *title;           /* what is wrong, in few words */
	const char *cause;           /* why it mostly happens */
	const char *fix;             /* what to do then */
	enum fsdp_subject subject;   /* of its errors */
};

/** Rows of the table. */
FSDP_API size_t fsdp_rule_count(void);

/** In order of ids; NULL past the end. */
FSDP_API const struct fsdp_rule *fsdp_rule(size_t index);

/** By id or slug; NULL if there is none. */
FSDP_API const struct fsdp_rule *fsdp_rule_find(const char *id_or_slug);

/**
 * One finding. Absent spans have data == NULL, absent numbers are FSDP_UNKNOWN,
 * an absent rank is FSDP_NONE. Everything borrows from the checkpoint.
 */
struct fsdp_finding {
	const struct fsdp_rule *rule;
	enum fsdp_severity severity; /* may differ from the rule's own */
	struct fsdp_span file;       /* path under the root */
	struct fsdp_span member;     /* of an archive */
	struct fsdp_span tensor;     /* clean name, or module.name of a global */
	struct fsdp_span module;     /* name, or that of the one that owns the tensor */
	uint64_t offset, length;     /* a byte range that holds the fault */
	uint32_t rank;               /* whose file or part it is */
	/* Names of tensors that suffer: the first FSDP_AFFECTED_KEPT of affected_count. */
	const struct fsdp_span *affected;
	size_t affected_kept, affected_count;
	uint64_t lost_bytes;      /* of the logical bytes of these, so many are lost */
	struct fsdp_span message; /* one sentence without a full stop, with the numbers */
	struct fsdp_span next;    /* what to do */
};

/** Names that one finding holds. */
enum { FSDP_AFFECTED_KEPT = 1000 };

/** Findings of one rule in one file beyond the ceiling `findings`: only counted. */
struct fsdp_omitted {
	const struct fsdp_rule *rule;
	struct fsdp_span file; /* absent: of no file */
	uint64_t count;        /* those that were left out */
};

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

#ifdef __cplusplus
}
#endif

#endif
