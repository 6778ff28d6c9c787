/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_BASE_FINDING_H
#define FSDP_BASE_FINDING_H

#include <stdarg.h>

#include <fsdp/error.h>

#include "base/arena.h"

/* One constant for each row of rules.def: FSDP_RULE_TRUNCATED_FILE … */
enum fsdp_rule_index {
#define FSDP_RULE(                                                              \
	index, id, slug, severity, category, level, subject, title, cause, fix) \
	FSDP_RULE_##index,
#include "base/rules.def"
#undef FSDP_RULE
	FSDP_RULE_COUNT
};

/*
 * A list of findings. It copies all texts into its arena. Of one rule in one
 * file it keeps as many as the limit allows and counts the rest.
 */
struct fsdp_findings {
	struct fsdp_arena *arena;
	uint64_t ceiling;
	struct fsdp_vec list;    /* struct fsdp_finding */
	struct fsdp_vec tallies; /* one per (rule, file), in order of first use */
	uint64_t seeds[2];       /* of the hash */
	uint32_t *slots;         /* hash of (rule, file) to tally + 1 */
	size_t slot_count;
	bool lost;              /* a finding could not be stored: out of memory */
	struct fsdp_span below; /* prefix of files: "directory/" of a checkpoint inside
				   of another, while that is read */
};

void fsdp_findings_init(struct fsdp_findings *findings, struct fsdp_arena *arena,
	const struct fsdp_limits *limits);

/*
 * Place of a finding; fields that are not set are absent. Build one with FSDP_PLACE(…):
 *
 *	fsdp_find(findings, FSDP_RULE_STORAGE_SIZE,
 *		FSDP_PLACE(.file = path, .offset = at, .tensor = name), "record has …");
 */
struct fsdp_place_of {
	struct fsdp_span file, member, tensor, module;
	uint64_t offset, length;
	uint32_t rank;
	const struct fsdp_span *affected; /* names of tensors that suffer … */
	size_t affected_count;            /* … so many */
	uint64_t affected_bytes;          /* of their logical bytes, so many are lost */
	const char *fix; /* what to do, "" for nothing, or NULL for the rule's own fix */
	int severity;    /* 0: the rule's own; else severity + 1 */
};
#define FSDP_PLACE(...)                                   \
	(&(struct fsdp_place_of){ .offset = FSDP_UNKNOWN, \
		.length = FSDP_UNKNOWN,                   \
		.rank = FSDP_NONE,                        \
		.affected_bytes = FSDP_UNKNOWN,           \
		__VA_ARGS__ })

/* If it cannot be stored, `lost` is set; the public function turns that into an error. */
void fsdp_find(struct fsdp_findings *findings, enum fsdp_rule_index rule,
	const struct fsdp_place_of *place, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
void fsdp_find_list(struct fsdp_findings *findings, enum fsdp_rule_index rule,
	const struct fsdp_place_of *place, const char *format, va_list arguments)
	__attribute__((format(printf, 4, 0)));

/* Bytes of a text of the input, for a message; longer ones are truncated. */
enum { FSDP_SHOWN = 260 };

/* That text in a message, into which it goes as a string: a NUL, which would end it, is
 * spelled \x00. Everything else is escaped where it is shown. Answers `room`. */
const char *fsdp_shown(struct fsdp_span text, char room[FSDP_SHOWN]);

/* "[0:2, 0:5]": the box of a piece, of many dimensions the first ones. Answers `room`. */
const char *fsdp_shown_box(const int64_t *offsets, const int64_t *sizes, uint32_t dims,
	char room[FSDP_SHOWN]);

size_t fsdp_findings_omitted_count(const struct fsdp_findings *findings);
struct fsdp_omitted fsdp_findings_omitted(
	const struct fsdp_findings *findings, size_t index);

#endif
