/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_EVENT_H
#define FSDP_TRACE_EVENT_H

#include <fsdp/order.h>
#include <fsdp/trace.h>

#include "base/arena.h"
#include "base/finding.h"
#include "base/names.h"
#include "base/span.h"
#include "io/source.h"
#include "syntax/json-scan.h"
#include "syntax/pickle.h"

/* The types of time that have names of their own, in the order of reports. The first
 * six have names in SimpleProfiler; from ENTER_UNSHARD on they are named regions of the
 * host. */
#define FSDP_TIME_TYPES(X)                                    \
	X(ALL, "all")                                         \
	X(ALL_GATHER, "all_gather")                           \
	X(ALL_GATHER_OBJECT, "all_gather_object")             \
	X(RESHARDING, "resharding")                           \
	X(H2D, "H2D")                                         \
	X(D2H, "D2H")                                         \
	X(REDUCE_SCATTER, "reduce_scatter")                   \
	X(ALL_REDUCE, "all_reduce")                           \
	X(BROADCAST, "broadcast")                             \
	X(REDUCE, "reduce")                                   \
	X(ALL_TO_ALL, "all_to_all")                           \
	X(SEND_RECV, "send_recv")                             \
	X(GATHER, "gather")                                   \
	X(SCATTER, "scatter")                                 \
	X(BARRIER, "barrier")                                 \
	X(COALESCED, "coalesced")                             \
	X(COMM_UNKNOWN, "comm_unknown")                       \
	X(COMPUTE, "compute")                                 \
	X(D2D, "D2D")                                         \
	X(P2P, "P2P")                                         \
	X(HTOH, "HtoH")                                       \
	X(MEMSET, "memset")                                   \
	X(ENTER_UNSHARD, "_enter_unshard_params_ctx")         \
	X(EXIT_UNSHARD, "_exit_unshard_params_ctx")           \
	X(CLONE, "clone")                                     \
	X(NONE_FSDP_MANAGED_COPY, "none_fsdp_managed_copy")   \
	X(PREPROCESSING, "preprocessing")                     \
	X(PREPROCESSING_WITH_COMM, "preprocessing_with_comm") \
	X(STATE_CONVERTING, "state_converting")
#define FSDP_TIME_TYPE(type, name) FSDP_TIME_##type,
enum fsdp_time_type {
	FSDP_TIME_TYPES(FSDP_TIME_TYPE) FSDP_TIME_COUNT,
	FSDP_TIME_NAMED = FSDP_TIME_REDUCE_SCATTER, /* so many are SimpleProfiler's */
	FSDP_TIME_OTHER = FSDP_TIME_COUNT,          /* any other string */
};

struct fsdp_span fsdp_time_type_name(enum fsdp_time_type type);

/* FSDP_TIME_OTHER if it has none of these names. */
enum fsdp_time_type fsdp_time_type_of(struct fsdp_span name);

/*
 * The collective that a name means, in any spelling: "c10d::_allgather_base_",
 * "nccl:all_gather". FSDP_TIME_OTHER if it is in no table.
 */
enum fsdp_time_type fsdp_collective_type(struct fsdp_span name);

/* Of the name of a kernel: FSDP_TIME_OTHER if it has no such word. */
enum fsdp_time_type fsdp_collective_of_kernel(struct fsdp_span name);

/* By the names that kernels of collectives have. */
bool fsdp_is_comm_kernel(struct fsdp_span name);

/* "nccl:all_gather" and the like: what a backend notes on the host. */
bool fsdp_is_backend_note(struct fsdp_span name);

/* H2D and so on; FSDP_TIME_OTHER if the text names no direction. */
enum fsdp_time_type fsdp_copy_type(struct fsdp_span text);

/* Bytes of an element, by the word that traces use; 0: unknown. */
unsigned fsdp_element_size(struct fsdp_span dtype);

/* Why a thread is late that is in a call of CUDA, HIP or the CUDA driver;
 * FSDP_IDLE_LAUNCH for all others. */
enum fsdp_idle_cause fsdp_runtime_cause(struct fsdp_span name);

/* Of a kernel that computes: the first row of types-kernels.def that has a word of
 * its name, else FSDP_KERNEL_OTHER. */
enum fsdp_kernel_class fsdp_kernel_class_of(struct fsdp_span name);

/* Finds `what` in a text; without regard to case if `fold` (what is lower case then). */
bool fsdp_span_has(struct fsdp_span text, const char *what, bool fold);

/* In lower case, in the arena. */
struct fsdp_span fsdp_span_lower(struct fsdp_span text, struct fsdp_arena *arena);

/* Sum, extremes, and percentiles by nearest rank. The values are put in another order. */
struct fsdp_times fsdp_times_of(int64_t *values, size_t count);

/* Durations by type, in order of first use. */
struct fsdp_typed {
	struct fsdp_span name;     /* borrowed */
	struct fsdp_vec durations; /* int64_t */
};
struct fsdp_types {
	struct fsdp_names names; /* the id of a type, less one, is its index */
	struct fsdp_vec list;    /* struct fsdp_typed */
};
void fsdp_types_init(struct fsdp_types *types, struct fsdp_arena *arena);

/* The index of a type, which may be new. */
uint32_t fsdp_types_find(struct fsdp_types *types, struct fsdp_span name);

static inline struct fsdp_vec *fsdp_types_at(const struct fsdp_types *types, size_t index)
{
	return &((struct fsdp_typed *)fsdp_vec_at(&types->list, index))->durations;
}

/* Adds; what does not fit makes *overflow true and stays. */
static inline void fsdp_sum_ns(int64_t *sum, int64_t ns, bool *overflow)
{
	if (__builtin_add_overflow(*sum, ns, sum))
		*overflow = true;
}

/*
 * Sums by a row and a column, which is mostly a step. Events of one column mostly follow
 * each other, so a row looks at its last sum only; equal columns that are apart are added
 * up at the end.
 */
struct fsdp_time_sums {
	struct fsdp_vec list; /* struct time_sum */
	struct fsdp_vec last; /* uint32_t: by row its last in the list, from 1 */
	bool overflow;        /* a sum does not fit */
};

void fsdp_time_sums_init(struct fsdp_time_sums *sums, struct fsdp_arena *arena);

/* One event. */
void fsdp_time_sums_add(struct fsdp_time_sums *sums, uint32_t row, int64_t column,
	int64_t ns, int64_t exposed_ns);

/* The sums of each row by column, in the arena; ret_lists has a list for each row. */
void fsdp_time_sums_list(struct fsdp_time_sums *sums, struct fsdp_arena *arena,
	struct fsdp_step_list *ret_lists);

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
	unsigned char way;       /* enum fsdp_comm_way */
};
enum fsdp_comm_way { FSDP_WAY_BOTH, FSDP_WAY_SEND, FSDP_WAY_RECV };
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

/* How long the device of a recording computed within a time, and how long a kernel of a
 * collective ran while it did not. */
int64_t fsdp_computed(
	const struct fsdp_recording *recording, int64_t begin_ns, int64_t end_ns);
int64_t fsdp_comm_exposed(
	const struct fsdp_recording *recording, const struct fsdp_comm *comm);

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

/* Zeroed sums from begin to end, which comes after it. */
void fsdp_strip_init(struct fsdp_strip *strip, int64_t begin_ns, int64_t end_ns,
	struct fsdp_arena *arena);

/* Times outside are skipped. */
void fsdp_strip_add(struct fsdp_strip *strip, unsigned type, int64_t begin, int64_t end);

/* What was added as FSDP_STRIP_IDLE was busy; the rest of each cell is idle. */
void fsdp_strip_finish_idle(struct fsdp_strip *strip);

/*
 * One recording while it is read. A reader fills `recording` with what lives in `arena`,
 * and `durations` where percentiles over ranks need them. What it needs for itself is in
 * `scratch`. Both arenas leave the reader where memory runs out, as does
 * fsdp_trace_require where something else is wrong.
 */
struct fsdp_watchdog;
struct fsdp_flight_shared;
struct fsdp_trace_reading {
	struct fsdp_stream *stream;
	struct fsdp_budget *budget; /* of all recordings of the set */
	struct fsdp_arena arena, *scratch;
	const struct fsdp_limits *limits;
	const struct fsdp_recording_options *options;
	struct fsdp_findings findings;
	struct fsdp_recording recording;
	int64_t **durations; /* a list per type of recording.types, or NULL */
	struct fsdp_strip strip;
	struct fsdp_watchdog *watchdog;    /* what it prints into a log, or NULL */
	struct fsdp_flight_shared *shared; /* what a dump becomes a part of */
	struct fsdp_error *error;
	bool left_out; /* of a kind that is not wanted */
	bool unopened; /* its beginning cannot be read: its kind is unknown */
};

/* A kind of recording: a row of readers.c. */
struct fsdp_trace_reader {
	/* Whether it reads files with this beginning (without blanks and byte order
	 * mark). */
	bool (*bid)(struct fsdp_span head);
	void (*read)(struct fsdp_trace_reading *reading);
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

/* readers.c: findings on what was read. */
void fsdp_trace_check(struct fsdp_trace_reading *reading);

/* ---- lines ---- */

/* A text stream line by line; the last one needs no end. */
struct fsdp_lines {
	struct fsdp_trace_reading *reading;
	struct fsdp_window window;
	size_t at;
	uint64_t number;     /* of the line that was handed out; the first is 1 */
	struct fsdp_vec bad; /* uint64_t: numbers of lines that say nothing */
};

/* In the scratch of the reading. */
struct fsdp_lines *fsdp_lines_new(struct fsdp_trace_reading *reading);

/* Without its LF and a CR before that; false at the end. The line may be written to, and
 * FSDP_WINDOW_PADDING bytes after it may be read. */
bool fsdp_lines_next(struct fsdp_lines *lines, struct fsdp_span *ret_line);

bool fsdp_lines_is_blank(struct fsdp_span line);

/* Puts the numbers of bad lines into the recording. */
void fsdp_lines_finish(struct fsdp_lines *lines);

/* ---- shared ---- */

/* The byte order mark of UTF-8. */
#define FSDP_TRACE_MARK "\xef\xbb\xbf"

/* Without the byte order mark and blanks that it begins with. */
struct fsdp_span fsdp_trace_without_mark(struct fsdp_span head);

/* Leaves what reads; reading->error says why. What fails returns false and is given here,
 * so it can be called for its error. */
static inline void fsdp_trace_require(struct fsdp_trace_reading *reading, bool good)
{
	if (!good)
		fsdp_arena_leave(&reading->arena);
}

/* The items of a vec as an array, in the arena. */
static inline void *fsdp_trace_flat(
	struct fsdp_trace_reading *reading, const struct fsdp_vec *vec)
{
	return fsdp_vec_flat(vec, &reading->arena);
}

/* Times of the types that have durations: those with names of their own first, in the
 * order of reports, then the others as they came. *ret_durations: their lists, in another
 * order, in the arena `values`. */
struct fsdp_type_times *fsdp_types_list(const struct fsdp_types *all,
	struct fsdp_arena *arena, struct fsdp_arena *values, size_t *ret_count,
	int64_t ***ret_durations);

/* Fills recording.types and reading->durations. */
void fsdp_trace_types(struct fsdp_trace_reading *reading, const struct fsdp_types *all);

#define FSDP_TRACE_FIND(reading, rule, ...)                                    \
	fsdp_find(&(reading)->findings, FSDP_RULE_##rule,                      \
		FSDP_PLACE(.file = fsdp_span_text((reading)->recording.path)), \
		__VA_ARGS__)

/* A text as Python would print it, put together piece by piece. */
struct fsdp_python {
	struct fsdp_arena *arena;
	unsigned char *text;
	size_t size, room;
};

void fsdp_python_put(struct fsdp_python *python, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void fsdp_python_add(struct fsdp_python *python, struct fsdp_span text);

/* The repr of a string. */
void fsdp_python_repr(struct fsdp_python *python, struct fsdp_span text);

/* The repr of a float: so many nanoseconds in seconds. */
void fsdp_python_seconds(struct fsdp_python *python, int64_t ns);

/* Zero-terminated. */
struct fsdp_span fsdp_python_take(struct fsdp_python *python);

/* What the recordings of a run say together. Lives in the arena. */
struct fsdp_joined {
	struct fsdp_arena *arena, *scratch;
	struct fsdp_recording **by_rank; /* in order of rank, then of paths */
	size_t count;
	struct fsdp_summary said;
	struct fsdp_divergence divergence;
	struct fsdp_first_diff diff;
	struct fsdp_findings findings; /* about all of them */
};

/* Puts the strips of recordings that have one on the axis they share, each from its own
 * start unless clocks agree; those of others are of 0 ns. */
void fsdp_timeline_make(struct fsdp_joined *joined);

/* Sets the collectives of traces against each other; fills wait_ns and times_last of each
 * recording. Those of other kinds are skipped. */
void fsdp_match_collectives(struct fsdp_joined *joined);

/* Snapshots of memory (memory.c), which are pickles as dumps are. */

/* Whether the pickle that begins so may be a snapshot. */
bool fsdp_memory_bid(struct fsdp_span head);

/* What a pickle becomes while it is read. */
struct fsdp_memory_reader;
struct fsdp_memory_reader *fsdp_memory_reader_new(struct fsdp_trace_reading *reading);

/* As fold_dict of the pickle; context is the reader. */
bool fsdp_memory_fold(
	void *context, struct fsdp_pickle *pickle, fsdp_ref dict, uint32_t *ret_number);

/* Whether the pickle, or as much of it as there is, is a snapshot. */
bool fsdp_memory_is_one(const struct fsdp_memory_reader *reader,
	const struct fsdp_pickle *pickle, bool is_cut);

/* Fills reading->recording.memory. */
void fsdp_memory_take(
	struct fsdp_memory_reader *reader, const struct fsdp_pickle *pickle, bool is_cut);

#endif
