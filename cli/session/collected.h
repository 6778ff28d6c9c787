/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLECTED_H
#define COLLECTED_H

#include <stdarg.h>

#include "args/parse.h"

/*
 * What is reported beside an answer: inputs, findings, failures, notes. The envelope shows
 * it, and stderr. All zero is empty. Running out of memory is remembered, not returned:
 * what could not be kept is missing, so look at `out_of_memory` before showing anything.
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
	struct check_result *checks; /* of a command that judges */
	size_t check_count;
	enum severity fail_on;
	bool never_fails;
	struct texts notes, reasons, totals;
	struct owned owned; /* texts that the others point to */
	bool out_of_memory;
};

void collected_done(struct collected *collected);

/* A copy that lives as long as what was collected; NULL stays absent. */
struct text collected_text(struct collected *collected, const char *text);

/* The text of a format, kept as long. NULL: out of memory. */
char *collected_format(struct collected *collected, const char *format, va_list arguments)
	__attribute__((format(printf, 2, 0)));

/* The id of a new input, or UINT32_MAX. The path is borrowed. */
uint32_t collected_input(struct collected *collected, const char *path, const char *kind);

/* Where the names of files of an input begin, if not at its path. The text is copied. */
void collected_base(struct collected *collected, size_t input, const char *base);

/* What `count` inputs from `first` on were recognised as, and the status of each. */
void collected_recognised(struct collected *collected, size_t first, size_t count,
	const char *format, int status);

/* An empty failure for the caller to fill, or NULL. It is the array's. */
struct failure *collected_failure(struct collected *collected, const char *code);

/* What helps in most cases of this code, where nothing better is known; or absent. */
struct text collected_hint(const char *code);

/* A failure that the library tells; NULL is out of memory. */
void collected_error(
	struct collected *collected, const struct fsdp_error *error, uint32_t input);

/* Whether a failure of no file has this code and message already. */
bool collected_was_told(
	const struct collected *collected, const char *code, const char *message);

/* A line of `notes`, where each stands once, of `reasons` or `totals`. */
void collected_line(struct collected *collected, struct texts *texts, const char *format,
	va_list arguments) __attribute__((format(printf, 3, 0)));
void collected_note(struct collected *collected, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

enum severity collected_severity(enum fsdp_severity severity);

/* A finding; its fingerprint is made here. */
void collected_finding(struct collected *collected, const struct finding *finding);

/* Whether it leaves open if the checkpoint is good: something was not looked at, or a class is
 * on no list. */
bool finding_is_open(const struct finding *finding);

/* One that a command makes about a tensor, or none: `about` has severity, input, file and
 * tensor, whose name is copied; the rest is filled in. next NULL: what the rule says.
 * False: out of memory. */
bool collected_judged(struct collected *collected, const char *rule, struct finding about,
	const char *next, const char *format, va_list arguments)
	__attribute__((format(printf, 5, 0)));

/* One of the library's. With `copy` its texts are copied, else they are borrowed. */
void collected_found(struct collected *collected, const struct fsdp_finding *from,
	uint32_t input, bool copy);
void collected_omitted(struct collected *collected, const struct fsdp_omitted *from,
	uint32_t input, bool copy);

/* All of a checkpoint. */
void collected_checkpoint(struct collected *collected,
	const struct fsdp_checkpoint *checkpoint, uint32_t input, bool copy);

#endif
