/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_H
#define FSDP_TRACE_KINETO_H

#include <fsdp/trace.h>

#include "base/arena.h"
#include "base/num.h"
#include "io/source.h"
#include "syntax/json-template.h"
#include "trace/event.h"

/* Without the segments that torch.compile, activation checkpointing and FSDP1 leave in
 * names; `buffer` has room for all of it. Returns the length. */
size_t fsdp_kineto_unit_clean(struct fsdp_span unit, unsigned char *buffer);

/*
 * The interval that contains another one. Only those of the same lane count: a thread, or
 * a process. Of several the shortest is the innermost; of equally long ones that which
 * begins later, then the one with the lower index.
 */
struct fsdp_enclosed {
	int64_t begin, end;
	uint32_t lane;
	uint32_t index; /* the caller's; of those that are asked for, of the answer */
};

/* An interval contains a moment if it begins at it or before and ends after it. */
static inline struct fsdp_enclosed fsdp_enclosed_moment(
	int64_t moment, uint32_t lane, uint32_t index)
{
	return (struct fsdp_enclosed){ moment, moment + 1, lane, index };
}

/* Sets ret_around[inner.index] to the index of the innermost one around each, or to
 * FSDP_NONE. Sorts both lists. Takes time for n of both like n log n, however they are
 * nested; one that begins while more than 1,024 others run that end before it and are
 * shorter is skipped. */
void fsdp_enclosing_find(struct fsdp_enclosed *around, size_t around_count,
	struct fsdp_enclosed *inner, size_t inner_count, uint32_t *ret_around,
	struct fsdp_arena *scratch);

/* Adds up the rows of several recordings: fills joined->said.units. */
void fsdp_unit_rows_join(struct fsdp_joined *joined);

/* Whether a file with this beginning is a trace: JSON. Lines of a log may begin with
 * brackets too. */
bool fsdp_trace_is_json(struct fsdp_span head);

/*
 * The names of the units of FSDP in a trace, each once, in order of first appearance and
 * without segments of wrappers: struct fsdp_span, in the arena; the root is empty. Only
 * annotations are looked at, so a trace of any length costs its names. Reading ends at
 * damage.
 *
 * Fails with the kind `no_units` where no unit is named: before PyTorch 2.5, of FSDP1, or
 * without FSDP.
 */
bool fsdp_trace_unit_names(struct fsdp_stream *stream, const struct fsdp_limits *limits,
	struct fsdp_arena *arena, struct fsdp_vec *ret_names,
	struct fsdp_error **ret_error);

/*
 * A trace of torch.profiler: kineto.c reads its JSON and appends each event that counts
 * to a table. When the table is complete, kineto-tables.c and kineto-units.c add it up.
 */

/* ---- words ---- */

/* Texts that events repeat. Each text is looked up once and has a number from then on. */
enum fsdp_kineto_space {
	FSDP_KINETO_CATEGORIES = 1,
	FSDP_KINETO_PHASES,
	FSDP_KINETO_NAMES, /* of kernels and allocations */
	FSDP_KINETO_THREADS,
	FSDP_KINETO_GROUPS,
	FSDP_KINETO_SORTS,
	FSDP_KINETO_UNIT_NAMES, /* as they are written */
	FSDP_KINETO_UNITS,
	FSDP_KINETO_UNIT_ROWS,
	FSDP_KINETO_UNIT_TEXTS,
	FSDP_KINETO_KERNELS,
	FSDP_KINETO_RUNTIME_CALLS,
	FSDP_KINETO_SPACES
};

/* Meaning of the category of an event. */
enum fsdp_kineto_meaning {
	FSDP_KINETO_OTHER,
	FSDP_KINETO_ABSENT,
	FSDP_KINETO_TRACE,
	FSDP_KINETO_ANNOTATION,
	FSDP_KINETO_OP,
	FSDP_KINETO_PYTHON,
	FSDP_KINETO_RUNTIME,
	FSDP_KINETO_KERNEL,
	FSDP_KINETO_COPY,
	FSDP_KINETO_SET,
};

struct fsdp_kineto_words {
	struct fsdp_names names;            /* the texts of each space */
	struct fsdp_vec known;              /* uint32_t, by the id of a name */
	struct fsdp_vec categories, phases; /* struct fsdp_tally */

	/* the last ones, compared before a text is looked up among the names */
	struct fsdp_kineto_counted {
		enum fsdp_kineto_meaning meaning;
		struct fsdp_tally *tally; /* NULL: none */
	} counted[64];
	struct fsdp_tally *phase[128]; /* of one byte */
	struct {
		enum fsdp_kineto_space space;
		uint32_t id; /* 0: none */
	} found[128];

	struct fsdp_arena *scratch;
	unsigned char *text; /* without its escapes */
	size_t text_room;
};

/* Copies of texts are in the arena. */
void fsdp_kineto_words_init(struct fsdp_kineto_words *words, struct fsdp_arena *arena,
	struct fsdp_arena *scratch);

/* The id of a text, and a number that is the caller's and 0 for a new text. */
uint32_t *fsdp_kineto_words_find(struct fsdp_kineto_words *words,
	enum fsdp_kineto_space space, struct fsdp_span text, uint32_t *ret_id);

/* The same for a key of numbers. */
#define FSDP_KINETO_KEY(key) fsdp_span((const unsigned char *)(key), sizeof(key))

static inline struct fsdp_span fsdp_kineto_words_text(
	const struct fsdp_kineto_words *words, uint32_t id)
{
	return fsdp_names_segment(&words->names, id);
}

/* A text without its escapes; valid until the next call. */
struct fsdp_span fsdp_kineto_words_read(
	struct fsdp_kineto_words *words, const struct fsdp_json_value *value);

uint32_t fsdp_kineto_words_thread(struct fsdp_kineto_words *words,
	const struct fsdp_json_value *pid, const struct fsdp_json_value *tid);

/* The tid of a thread, as it is written. */
struct fsdp_span fsdp_kineto_words_thread_name(
	const struct fsdp_kineto_words *words, uint32_t thread);

/* Whether events of a category are used, or known to be of no use. */
bool fsdp_kineto_has_category(struct fsdp_span name);

/* Of a category or a phase: how often it occurred, and what events of a category are. The
 * tally stays where it is. */
struct fsdp_kineto_counted fsdp_kineto_words_look(struct fsdp_kineto_words *words,
	enum fsdp_kineto_space space, struct fsdp_span name);

/* The same of a category, faster. Valid until the next call. */
static inline const struct fsdp_kineto_counted *fsdp_kineto_words_category(
	struct fsdp_kineto_words *words, struct fsdp_span name)
{
	size_t place = name.size * 5 ^ (name.size != 0 ? name.data[0] : 0u);
	struct fsdp_kineto_counted *last =
		&words->counted[place % FSDP_COUNT(words->counted)];
	if (last->tally == NULL || last->tally->name.size != name.size ||
		!fsdp_bytes_equal(last->tally->name.data, name.data, name.size))
		*last = fsdp_kineto_words_look(words, FSDP_KINETO_CATEGORIES, name);
	return last;
}

/* ---- the JSON of events ---- */

/* An event: what its members say. `args` is the span of the object. */
enum { FSDP_KINETO_VALUES = 8, FSDP_KINETO_ARGS = 11 };

struct fsdp_kineto_event {
	union {
		struct {
			struct fsdp_json_value ph, cat, name, ts, dur, pid, tid, args;
		};
		struct fsdp_json_value values[FSDP_KINETO_VALUES];
	};
};

/* What the args of a kernel, a copy or a call of the runtime say. */
struct fsdp_kineto_args {
	union {
		struct {
			struct fsdp_json_value collective, correlation, kind, group, seq,
				group_size, dtype, in_elements, out_elements, description,
				ranks;
		};
		struct fsdp_json_value values[FSDP_KINETO_ARGS];
	};
};

/*
 * The JSON of a trace as tokens and events. What is not JSON is read as well as can be
 * (json-scan.h); nearly all events are plain and are read in one go (json-template.h).
 */
struct fsdp_kineto_input {
	struct fsdp_trace_reading *reading; /* its reader is left with an error */
	struct fsdp_json_scan scan;
	struct fsdp_json_quick *quick;
	bool quick_args;            /* the args of the event are in `quick` */
	struct fsdp_json_scan args; /* of an event that was not read in one go */
};

/* Skips a byte order mark at the start of a scan. */
bool fsdp_kineto_pass_mark(
	struct fsdp_json_scan *scan, bool *ret_mark, struct fsdp_error **ret_error);

static inline bool fsdp_kineto_is_broken(const struct fsdp_json_token *token)
{
	return token->kind == FSDP_SCAN_BAD || token->kind == FSDP_SCAN_CUT;
}

enum fsdp_kineto_found {
	FSDP_KINETO_WHOLE,
	FSDP_KINETO_RECOVERED, /* with errors, or without its end */
	FSDP_KINETO_LOST       /* *ret_event means nothing */
};

/*
 * Begins (B) that wait for their ends (E): a stack for each thread. Their texts are
 * copied, for the window moves on.
 */
struct fsdp_kineto_open {
	struct fsdp_kineto_open *below;
	unsigned bits;                  /* of its size */
	struct fsdp_kineto_event event; /* without `ph` and `dur`; its texts follow */
};

struct fsdp_kineto_opens {
	struct fsdp_vec stacks;             /* struct fsdp_kineto_open *: the top */
	struct fsdp_kineto_open *spare[64]; /* by their size */
};

/* *stack is kept by the caller for each thread and 0 at first. */
void fsdp_kineto_opens_begin(struct fsdp_kineto_opens *opens, uint32_t *stack,
	const struct fsdp_kineto_event *event);

/* The last begin of a thread, or NULL. Valid until the next begin. */
struct fsdp_kineto_open *fsdp_kineto_opens_end(
	struct fsdp_kineto_opens *opens, uint32_t stack);

/* How many begins are still open. */
uint64_t fsdp_kineto_opens_count(const struct fsdp_kineto_opens *opens);

/* ---- the table ---- */

/* The events are in one list per kind, in the order of the file. */
enum fsdp_kineto_table {
	FSDP_KINETO_WORK,   /* on the device */
	FSDP_KINETO_CALL,   /* of the runtime, with a correlation */
	FSDP_KINETO_STEP,   /* ProfilerStep#N */
	FSDP_KINETO_REGION, /* named regions on the host */
	FSDP_KINETO_NOTE,   /* of a backend: "nccl:all_gather" */
	FSDP_KINETO_UNIT,   /* annotations of FSDP, with units */
	FSDP_KINETO_ALLOC,  /* calls that allocate or free memory */
	FSDP_KINETO_HOST,   /* what a thread did, with idle causes */
	FSDP_KINETO_TABLES
};

/* One event. */
struct fsdp_kineto_row {
	int64_t ts_ns;
	/* The correlation of work and calls, or FSDP_ABSENT; the number of a step; the
	 * mesh size of a unit. Later, of work: the index of its call, or FSDP_ABSENT. */
	int64_t id;
	uint64_t dur_ns : 50; /* a week at most */
	uint64_t type : 6;    /* enum fsdp_time_type */
	uint64_t kind : 5;    /* of work, a unit, or an idle cause */
	uint64_t is_launch : 1;
	uint64_t found : 1; /* a call whose work is recorded */
	uint32_t lane;      /* thread or stream: id of a word; 0: not needed */
	uint32_t name;      /* a kernel, a unit or a call of the runtime */
};

static inline int64_t fsdp_kineto_end(const struct fsdp_kineto_row *row)
{
	return row->ts_ns + (int64_t)row->dur_ns;
}

/* Kinds of work: collectives, kernels that compute, copies by their direction. */
enum {
	FSDP_KINETO_COMM,
	FSDP_KINETO_COMPUTE,
	FSDP_KINETO_COPIES, /* the first of six */
	FSDP_KINETO_WORKS = FSDP_KINETO_COPIES + 6,
	FSDP_KINETO_KINDS = FSDP_IDLE_CAUSE_COUNT /* at most, of what is walked through */
};

enum fsdp_kernel_kind {
	FSDP_KERNEL_COMPUTES,
	FSDP_KERNEL_COMMUNICATES,
	FSDP_KERNEL_COPIES, /* also sets */
};

/* A name of kernels on one stream, up to the limit `kernels`; one row per kind has the
 * rest. */
struct fsdp_kineto_kernel {
	uint32_t name, stream; /* words; name FSDP_NONE: beyond the limit */
	enum fsdp_kernel_kind kind;
};

struct fsdp_kineto_step {
	int64_t number, ts_ns, end_ns;
	int64_t first_ns, last_ns; /* its work on the device; the first is later: none */
	bool chosen;               /* by --steps */
	bool follows;              /* on one that was not chosen */
};

struct fsdp_kineto {
	struct fsdp_trace_reading *reading;
	struct fsdp_kineto_input input;
	struct fsdp_kineto_opens opens;
	struct fsdp_kineto_words words;
	bool seen_events, seen_nodes, seen_rocprof; /* members of the root */
	uint64_t bad_tokens, bad_metadata, lists;   /* in place of events */
	bool thread_known; /* of the event that is read: its thread */
	uint32_t thread;
	struct fsdp_arena *calls; /* of FSDP_KINETO_CALL, which is freed first */
	struct fsdp_vec tables[FSDP_KINETO_TABLES];
	struct fsdp_collectives comms; /* of kernels; of notes if there are none */
	struct fsdp_vec kernels;       /* struct fsdp_kineto_kernel; the first is none */
	struct fsdp_vec last;          /* uint32_t, by thread: its last operator */
	struct fsdp_vec process_of;    /* uint32_t, by thread, with units */
	struct fsdp_vec data_ns;       /* int64_t, by thread: in its data loader */
	uint32_t step_thread;          /* of the last step, or FSDP_NONE */
	bool with_kernels, with_units, with_idle;
	bool by_kernel; /* there are kernels of collectives */
	bool any_reduce_scatter_op;
	unsigned units_seen; /* traits of any annotation */
	bool overflow;       /* a sum does not fit */

	/* when the table is complete */
	struct fsdp_kineto_step *steps;
	size_t step_count;
	bool limited;                     /* by --steps */
	uint32_t compute_stream;          /* that computes most; 0: none */
	struct fsdp_kineto_place *places; /* with units, by `order` of a collective */
	struct fsdp_types types;          /* by enum fsdp_time_type */
};

static inline struct fsdp_kineto_row *fsdp_kineto_at(
	const struct fsdp_kineto *kineto, enum fsdp_kineto_table table, size_t index)
{
	return fsdp_vec_of(&kineto->tables[table], index, sizeof(struct fsdp_kineto_row));
}

/* Where a collective was issued, and its stream; lane 0: unknown. */
struct fsdp_kineto_place {
	int64_t ts_ns;
	uint32_t lane; /* a thread, or of notes a process */
	uint32_t stream;
};

/* When the table is complete: fills the recording. */
void fsdp_kineto_finish(struct fsdp_kineto *kineto);

/* The index of the step that holds a moment, or SIZE_MAX; its number, or FSDP_ABSENT. */
size_t fsdp_kineto_step_at(const struct fsdp_kineto *kineto, int64_t ts_ns);
int64_t fsdp_kineto_number_at(const struct fsdp_kineto *kineto, int64_t ts_ns);

/*
 * Goes through events in order of time: each piece is a stretch in which the same kinds
 * of events run.
 */
struct fsdp_kineto_walk {
	const struct fsdp_vec *rows;
	size_t next, last;
	unsigned kinds; /* that ran before `at` */
	int64_t at, ends[FSDP_KINETO_KINDS];
};

struct fsdp_kineto_piece {
	int64_t begin, end;
	unsigned kinds; /* a bit each, at least one */
};

void fsdp_kineto_walk_begin(struct fsdp_kineto_walk *walk, const struct fsdp_vec *rows,
	size_t first, size_t last);
bool fsdp_kineto_walk_next(
	struct fsdp_kineto_walk *walk, struct fsdp_kineto_piece *ret_piece);

/* What the device did within each of some windows, which may overlap. */
void fsdp_kineto_cover(const struct fsdp_kineto *kineto,
	const struct fsdp_busy_span *windows, size_t count,
	struct fsdp_device_times *ret_times);

/* ---- units ---- */

/* What FSDP is busy with, by its annotations ("FSDP::all_gather (layers.0)"). FSDP2
 * writes the name of the unit since PyTorch 2.5, FSDP1 never. */
enum fsdp_kineto_unit_trait {
	FSDP_UNIT_OF_FSDP2 = 1 << 0,
	FSDP_UNIT_OF_FSDP1 = 1 << 1,
	FSDP_UNIT_GATHERS = 1 << 2, /* FSDP2: a gather, and a reduction */
	FSDP_UNIT_REDUCES = 1 << 3,
	FSDP_UNIT_TURN =
		1 << 4, /* FSDP2: a gather may be in it, which it has a phase of */
	FSDP_UNIT_GATHERS1 = 1 << 5, /* FSDP1: a gather or a reduction may be in it */
	FSDP_UNIT_REDUCES1 = 1 << 6,
	FSDP_UNIT_FORWARD1 = 1 << 7, /* FSDP1: contains all of a forward */
	FSDP_UNIT_FORWARDS = 1 << 8, /* one a forward */
	FSDP_UNIT_RESHARDS = 1 << 9,
	FSDP_UNIT_AHEAD = 1 << 10, /* prefetches */
	FSDP_UNIT_IN_FORWARD = 1 << 11,
};

struct fsdp_kineto_unit_note {
	unsigned station, traits; /* 0: no annotation of a unit */
	struct fsdp_span unit;    /* as it is written; empty: the root, or not written */
	int64_t pg;               /* size of the shard mesh, or FSDP_ABSENT */
};

/* Any name is fine; borrows from it. */
struct fsdp_kineto_unit_note fsdp_kineto_unit_read(struct fsdp_span name);

/* Appends an annotation; those of other things are skipped. */
void fsdp_kineto_units_add(
	struct fsdp_kineto *kineto, struct fsdp_span name, struct fsdp_kineto_row row);

/* With all collectives in `comms`: fills in the units of the recording. */
void fsdp_kineto_units_finish(struct fsdp_kineto *kineto);

#endif
