/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_DIAGNOSTICS_H
#define SESSION_DIAGNOSTICS_H

#include <stdarg.h>
#include <stdio.h>

#include <fsdp/error.h>

#include "args/parse.h"
#include "render/out.h"

/*
 * Reports in addition to an answer: inputs, findings, failures, notes. The envelope shows
 * it, and stderr. All zero is empty.
 */
struct collected {
	struct input_record *inputs;
	size_t input_count;
	struct finding *findings;
	size_t finding_count;
	struct omission *omissions;
	size_t omission_count;
	struct failure *failures;
	size_t failure_count;
	struct check_result *checks; /* of a command with a verdict */
	size_t check_count;
	enum severity fail_on;
	bool never_fails;
	struct texts notes, reasons, totals;
	bool lacks_parts; /* the pipeline of the opened part has incomplete parts */
};

/* Whether a shell reads the path as it is. */
bool is_plain_path(struct text path);

/* The path to print within a command, or the word PATH if a shell reads it otherwise. */
const char *path_to_paste(const char *path);

/* The id of a new input. The path is borrowed. */
uint32_t collected_input(struct collected *collected, const char *path, const char *kind);

/* Where the names of files of an input begin, if not at its path, and what was opened if
 * it is not the path. The texts are copied. */
void collected_base(
	struct collected *collected, size_t input, const char *base, const char *opened);

/* What `count` inputs from `first` on were recognized as, and the status of each. */
void collected_recognised(struct collected *collected, size_t first, size_t count,
	const char *format, int status);

/* An empty failure for the caller to fill. It is the array's. */
struct failure *collected_failure(struct collected *collected, const char *code);

/* The same with a message, and what helps, or NULL. */
struct failure *collected_fail(struct collected *collected, const char *code,
	const char *hint, const char *format, ...) __attribute__((format(printf, 4, 5)));

/* What helps in most cases of this code, where nothing better is known; or absent. */
struct text collected_hint(const char *code);

/* An error of the library; NULL: memory ended. */
void collected_error(
	struct collected *collected, const struct fsdp_error *error, uint32_t input);

/* The same of one that is freed with what memory_owns lists. */
void collected_own_error(
	struct collected *collected, struct fsdp_error *error, uint32_t input);

/* Whether a failure of no file has this code and message already. */
bool collected_has_failure(
	const struct collected *collected, const char *code, const char *message);

/* A line of `notes`, which has no duplicates, of `reasons` or `totals`. */
void collected_line(struct collected *collected, struct texts *texts, const char *format,
	va_list arguments) __attribute__((format(printf, 3, 0)));
void collected_note(struct collected *collected, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

enum severity collected_severity(enum fsdp_severity severity);

/* A finding; its fingerprint is made here. */
void collected_finding(struct collected *collected, const struct finding *finding);

/* Its tensor, unless the message has the name. */
struct text finding_tensor(const struct finding *finding);

/* "optimizer.pt is missing" */
bool finding_starts_with_file(const struct finding *finding);

/* Whether it leaves open if the checkpoint is good: something was not looked at, or a
 * class is on no list. */
bool finding_is_open(const struct finding *finding);

/* One that a command makes: `about` has severity, input, and copied texts of
 * file and tensor; the rest is filled in. fix NULL: that of the rule; "": none. */
void collected_report(struct collected *collected, const char *rule, struct finding about,
	const char *fix, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* One of the library's. With `copy` its texts are copied, else they are borrowed. */
void collected_found(struct collected *collected, const struct fsdp_finding *from,
	uint32_t input, bool copy);
void collected_omitted(struct collected *collected, const struct fsdp_omitted *from,
	uint32_t input, bool copy);

/* All of a checkpoint. */
void collected_checkpoint(struct collected *collected,
	const struct fsdp_checkpoint *checkpoint, uint32_t input, bool copy);

/* So many of one rule are shown to people in full. */
enum { FINDINGS_SHOWN = 3 };

/* Which findings people are shown, and how much of each. */
struct findings_view {
	const struct finding *findings;
	size_t count;
	const struct omission *omissions;
	size_t omission_count;
	uint32_t input; /* only of this one; UINT32_MAX: of all */
	const struct input_record
		*inputs;     /* each is reported with its own; NULL: without inputs */
	bool level_label;    /* the note about checks of another level is hidden */
	enum severity least; /* what is less than that is hidden */
	bool all;            /* not only the first few of a rule */
	bool lost;           /* with the names that suffer, which are part of … */
	uint64_t names;      /* … so many, tensors and values, … */
	uint64_t tensors;    /* … of them tensors, … */
	uint64_t bytes;      /* … with so many bytes; 0: not known */
};

/*
 * Lines of text, for people: by severity, the worst first, then by rule; of each rule the
 * first few, and how many there are beyond. Notes that differ only in their file are one
 * line, unless all are wanted.
 */
void findings_print(struct out *out, const struct findings_view *view);

/* Puts them in that order. */
void findings_sort(struct finding *findings, size_t count);

/* The rule with this index, as outputs show it; false past the end. */
bool catalogue_rule(size_t index, struct rule_text *ret_rule);

/* Whether it is about a check that could not run, not about the checkpoint. */
bool rule_is_limit(const struct fsdp_rule *rule);

/* The version of libcrypto that runs. */
const char *fingerprint_library_version(void);

/*
 * What goes to stderr, after the answer. `looks` are those of stderr. Everything is
 * escaped here: a message may hold names from files.
 */
void message_usage(const struct looks *looks, const struct usage *usage);

/* Hidden by -q. */
void message_note(const struct looks *looks, const char *note);

/* Why the answer is bad: never hidden. */
void message_reason(const struct looks *looks, const char *reason);

/* Totals of tables: plain lines, hidden by -q. */
void message_total(const struct looks *looks, const char *total);

/* Neighbors with equal text are grouped. Unsupported input is not an error of a partial
 * answer. */
void message_failures(const struct looks *looks, const struct failure *failures,
	size_t count, bool partial);

void message_findings(const struct looks *looks, const struct findings_view *view);

/* When nothing else can be shown. */
void message_out_of_memory(void);

/* A command line that was refused, as a document, if one of its words asks for json or
 * jsonl on standard output; else nothing. `words` end with NULL; command NULL: it has
 * none. */
void write_usage_error(FILE *stream, char *const *words, const struct command *command,
	const struct usage *usage);

#endif
