/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_EVENT_H
#define FSDP_TRACE_EVENT_H

#include <fsdp/trace.h>

#include "base/arena.h"
#include "base/finding.h"
#include "base/names.h"
#include "io/stream.h"
#include "syntax/json-scan.h"
#include "trace/durations.h"
#include "trace/types.h"

/*
 * The collectives of one trace, packed: a long trace has a hundred thousand, and they are
 * all kept until the ranks are matched. What many of them share, the
 * process group and its size, is kept once.
 */
struct fsdp_comm {
	int64_t ts_ns, dur_ns;
	int64_t bytes;   /* FSDP_ABSENT */
	int64_t host_ns; /* a moment in its step; of a kernel, before that is known, the
			    bytes of its output */
	uint32_t sort;   /* index of what it shares */
	uint32_t seq; /* 0: none; a number with FSDP_COMM_NUMBER; else a text's index + 1
			*/
	uint32_t order;          /* in the file */
	unsigned char type, how; /* enum fsdp_time_type, fsdp_collective_source */
	unsigned char by_name;   /* by its name, if nothing else is known */
};
#define FSDP_COMM_NUMBER (UINT32_C(1) << 31)

struct fsdp_comm_sort {
	struct fsdp_span group, description; /* data NULL: none */
	struct fsdp_span ranks;              /* of the group, as they are written */
	int64_t group_size;                  /* FSDP_ABSENT */
};

struct fsdp_collectives {
	struct fsdp_vec list;  /* struct fsdp_comm */
	struct fsdp_vec sorts; /* struct fsdp_comm_sort */
	struct fsdp_vec seqs;  /* struct fsdp_span: those that are not plain numbers */
};

static inline struct fsdp_comm *fsdp_comm_at(const struct fsdp_vec *list, size_t index)
{
	return fsdp_vec_at(list, index);
}

/* The index of the step of a recording that holds a moment, or SIZE_MAX. */
size_t fsdp_steps_index_at(const struct fsdp_step *steps, size_t count, int64_t ts_ns);

/* How long the device of a recording computed within a time. */
int64_t fsdp_computed(
	const struct fsdp_recording *recording, int64_t begin_ns, int64_t end_ns);

/* By start; what starts together in the order of the file. False: out of memory. */
bool fsdp_comm_sort(struct fsdp_vec *list);

/*
 * What the time of one rank went to, in a fixed number of cells however long it took: a
 * sum for each type, and one for idle time. The ranks of a set are shown on one axis of
 * fewer cells, so that these are fine enough to be put there.
 */
enum { FSDP_STRIP_CELLS = 512, FSDP_STRIP_IDLE = FSDP_TIME_COUNT, FSDP_STRIP_TYPES };

struct fsdp_strip {
	int64_t begin_ns, end_ns, cell_ns; /* cell_ns 0: unknown */
	int64_t (*sums)[FSDP_STRIP_TYPES];
};

/* Zeroed sums from begin to end, which comes after it. False: out of memory. */
bool fsdp_strip_init(struct fsdp_strip *strip, int64_t begin_ns, int64_t end_ns,
	struct fsdp_arena *arena);

/* Times outside are skipped. */
void fsdp_strip_add(struct fsdp_strip *strip, unsigned type, int64_t begin, int64_t end);

/* What was added as FSDP_STRIP_IDLE was busy; the rest of each cell is idle. */
void fsdp_strip_finish_idle(struct fsdp_strip *strip);

/* Puts the strips of recordings that have one on the axis they share, each from its own
 * start unless clocks agree; those of others are of 0 ns. False: out of memory. */
bool fsdp_timeline_make(struct fsdp_recording *const *recordings,
	const struct fsdp_strip *const *strips, size_t count, bool clocks_agree,
	struct fsdp_arena *arena, struct fsdp_timeline *ret_timeline);

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
	/* False: reading->error says why; without an error, memory ran out. */
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
void fsdp_trace_resolve_rank(struct fsdp_trace_reading *reading, size_t index);

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
void fsdp_trace_check(struct fsdp_trace_reading *reading);

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
bool fsdp_trace_types(struct fsdp_trace_reading *reading, const struct fsdp_types *all);

#define FSDP_TRACE_FIND(reading, rule, ...)                                    \
	fsdp_find(&(reading)->findings, FSDP_RULE_##rule,                      \
		FSDP_PLACE(.file = fsdp_span_text((reading)->recording.path)), \
		__VA_ARGS__)

#endif
