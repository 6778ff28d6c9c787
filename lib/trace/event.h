/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_EVENT_H
#define FSDP_TRACE_EVENT_H

#include <fsdp/trace.h>

#include "base/finding.h"
#include "base/names.h"
#include "io/stream.h"
#include "syntax/json-scan.h"
#include "trace/durations.h"
#include "trace/timeline.h"
#include "trace/types.h"

/*
 * One recording while it is read. A reader fills `recording` with what lives in `arena`,
 * and `durations` where percentiles over ranks need them.
 */
struct fsdp_watchdog;
struct fsdp_trace_reading {
	struct fsdp_stream *stream;
	struct fsdp_budget *budget; /* of all recordings of the set */
	struct fsdp_arena arena;
	const struct fsdp_limits *limits;
	const struct fsdp_recording_options *options;
	struct fsdp_findings findings;
	struct fsdp_recording recording;
	struct fsdp_durations *durations; /* one per type of recording.types, or NULL */
	struct fsdp_strip strip;
	struct fsdp_watchdog *watchdog; /* what it prints into a log, or NULL */
	struct fsdp_error *error;
	bool left_out; /* of a kind that is not wanted */
	bool unopened; /* its beginning cannot be read: its kind is unknown */
};

/* A kind of recording: a row of readers.c. */
struct fsdp_trace_reader {
	/* Whether it reads files with this beginning (without blanks and byte order
	 * mark). */
	bool (*bid)(struct fsdp_span head);
	/* False: reading->error says why. */
	bool (*read)(struct fsdp_trace_reading *reading);
};

extern const struct fsdp_trace_reader fsdp_trace_native;
extern const struct fsdp_trace_reader fsdp_trace_kineto;
extern const struct fsdp_trace_reader fsdp_trace_pickle;
extern const struct fsdp_trace_reader fsdp_trace_flight;
extern const struct fsdp_trace_reader fsdp_trace_log;

/* Has the stream read by the reader that takes its beginning. False: reading->error. */
bool fsdp_trace_read(struct fsdp_trace_reading *reading);

/* readers.c: fills in the rank and where it is from, if the recording does not say it.
 * `index` is its place among the arguments. */
void fsdp_trace_settle_rank(struct fsdp_trace_reading *reading, size_t index);

/* Whether the caller asked to stop. */
static inline bool fsdp_trace_is_stopped(const struct fsdp_trace_reading *reading)
{
	const struct fsdp_recording_progress *progress = reading->options->progress;
	return progress != NULL &&
	       __atomic_load_n(&progress->stop, __ATOMIC_RELAXED) != 0;
}

/* readers.c: marks a recording as stopped by the caller; it counts as complete. */
void fsdp_trace_interrupted(struct fsdp_trace_reading *reading);

/* readers.c: findings on what was read. */
void fsdp_trace_judge(struct fsdp_trace_reading *reading);

/* Native recordings go on in one of these, by the kind in their header, whose bytes are
 * there until the next line is asked for. */
struct fsdp_lines;
struct fsdp_record;
bool fsdp_trace_profile(struct fsdp_trace_reading *reading, struct fsdp_lines *lines,
	const struct fsdp_record *header);
bool fsdp_trace_fx(struct fsdp_trace_reading *reading, struct fsdp_lines *lines,
	const struct fsdp_record *header);
bool fsdp_trace_handles(struct fsdp_trace_reading *reading, struct fsdp_lines *lines,
	const struct fsdp_record *header);

/* ---- lines ---- */

/* A text stream line by line; the last one needs no end. */
struct fsdp_lines {
	struct fsdp_window window;
	size_t at;
	uint64_t number;     /* of the line that was handed out; the first is 1 */
	struct fsdp_vec bad; /* uint64_t: numbers of lines that say nothing */
};

bool fsdp_lines_init(struct fsdp_lines *lines, struct fsdp_trace_reading *reading);
void fsdp_lines_done(struct fsdp_lines *lines);

/* Without its LF and a CR before that; data NULL at the end. The line may be written
 * to, and FSDP_WINDOW_PADDING bytes after it may be read. */
bool fsdp_lines_next(struct fsdp_lines *lines, struct fsdp_span *ret_line,
	struct fsdp_error **ret_error);

bool fsdp_lines_is_blank(struct fsdp_span line);

/* Puts the numbers of bad lines into the recording. */
bool fsdp_lines_finish(struct fsdp_lines *lines, struct fsdp_trace_reading *reading);

/* ---- records ---- */

/* One JSON object on a line: its members, whose values may be objects again. */
struct fsdp_member {
	struct fsdp_json_token key, value; /* of an object or array: the span of it all */
};

enum { FSDP_RECORD_MEMBERS = 64 };

struct fsdp_record {
	struct fsdp_member members[FSDP_RECORD_MEMBERS];
	size_t count;
	bool more; /* than fit */
};

/* False: not an object. Values in the span are borrowed. */
bool fsdp_record_read(struct fsdp_span text, const struct fsdp_limits *limits,
	struct fsdp_record *ret_record);

/* The next object of a native recording; false at the end, or with reading->error. Lines
 * that are not objects are kept as bad. */
bool fsdp_record_next(struct fsdp_trace_reading *reading, struct fsdp_lines *lines,
	struct fsdp_record *ret_record);

/* The value of a member, the last one of that name, or NULL. */
const struct fsdp_json_token *fsdp_record_get(
	const struct fsdp_record *record, const char *key);

bool fsdp_record_is(const struct fsdp_record *record, const char *key, const char *text);
bool fsdp_record_integer(
	const struct fsdp_record *record, const char *key, int64_t *ret_value);

/* In the arena; data NULL and no error: absent or no text. */
bool fsdp_record_text(struct fsdp_trace_reading *reading,
	const struct fsdp_record *record, const char *key, struct fsdp_span *ret_text);

/* The elements of an array, one by one. */
struct fsdp_items {
	struct fsdp_json_scan scan;
	bool done;
};
bool fsdp_items_begin(struct fsdp_items *elements, const struct fsdp_json_token *array,
	const struct fsdp_limits *limits);
/* False at the end. Objects and arrays as a span of it all. */
bool fsdp_items_next(struct fsdp_items *elements, struct fsdp_json_token *ret_value);

/* Fields of the header. */
bool fsdp_trace_header(
	struct fsdp_trace_reading *reading, const struct fsdp_record *header);

/* ---- shared ---- */

/* Without the byte order mark and blanks that it begins with. */
struct fsdp_span fsdp_trace_without_mark(struct fsdp_span head);

/* A name that is recorded once is shown wherever it is used: counts the bytes of that up
 * to the limit `order-bytes`. */
bool fsdp_trace_show(struct fsdp_trace_reading *reading, uint64_t *shown, uint64_t bytes);

/* Fills reading->error. Always false. */
bool fsdp_trace_memory(struct fsdp_trace_reading *reading);

/* The items of a vec as an array, in the arena. NULL: out of memory. */
void *fsdp_trace_flat(struct fsdp_trace_reading *reading, const struct fsdp_vec *vec);

/* Fills recording.types: those with names of their own first, in the order of reports,
 * then the others as they come; types without durations are omitted. The durations are
 * the reading's from then on. */
bool fsdp_trace_types(struct fsdp_trace_reading *reading, const struct fsdp_span *names,
	struct fsdp_durations *const *durations, size_t count);

#define FSDP_TRACE_FIND(reading, rule, ...)                                    \
	fsdp_find(&(reading)->findings, FSDP_RULE_##rule,                      \
		FSDP_PLACE(.file = fsdp_span_text((reading)->recording.path)), \
		__VA_ARGS__)

#endif
