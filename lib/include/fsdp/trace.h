/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_H
#define FSDP_TRACE_H

#include <fsdp/error.h>
#include <fsdp/finding.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Recordings of a run: what was timed, and in which order modules and units were used.
 * They are read once, as streams, whatever their length; ranks in parallel. What is
 * handed out is plain data that lives until the set is freed. Times are nanoseconds.
 *
 * Absent texts have data NULL, absent times and counts are FSDP_ABSENT.
 */
struct fsdp_recordings;

#define FSDP_ABSENT INT64_MIN

enum fsdp_recording_kind {
	FSDP_RECORDING_PROFILE,    /* SimpleProfiler's events, as JSON lines */
	FSDP_RECORDING_LOG,        /* its lines in a training log */
	FSDP_RECORDING_KINETO,     /* a trace of torch.profiler */
	FSDP_RECORDING_FX_ORDER,   /* module order by torch.fx, as JSON lines */
	FSDP_RECORDING_EXEC_ORDER, /* order of FSDP1's handles, as JSON lines */
	FSDP_RECORDING_KIND_COUNT
};

/** "simple_profiler", "log", "kineto", "fx_exec_order", "exec_order". */
FSDP_API const char *fsdp_recording_kind_name(enum fsdp_recording_kind kind);

struct fsdp_recording_options {
	size_t size; /* of this struct */
	const struct fsdp_limit_setting *limits;
	size_t limit_count;
	unsigned jobs; /* threads; 0: one */

	/* The rank that a path tells, or FSDP_ABSENT; asked before the library's own
	 * opinion about file names. NULL: there is none. */
	int64_t (*rank_of)(void *context, const char *path);
	void *context;

	/* Steps that count, pairs of first and last; none: all. */
	const int64_t *steps;
	size_t step_range_count;

	bool timeline; /* fsdp_recording.timeline is wanted */

	/* Another thread, or a signal handler, may look at or set these. */
	struct fsdp_recording_progress *progress;
};

struct fsdp_recording_progress {
	uint64_t read, size; /* bytes as stored; size 0: unknown */
	int stop;            /* set it, and what was read so far is the answer */
};

/* ---- times ---- */

struct fsdp_times {
	uint64_t count;
	int64_t sum_ns, min_ns, max_ns, p50_ns, p95_ns; /* FSDP_ABSENT if count is 0 */
	bool approx;                                    /* p50 and p95, within 1 % */
};

/** One type: its name, and what was spent on it. */
struct fsdp_type_times {
	struct fsdp_span name;
	struct fsdp_times times;
};

/** How often, and how long in all. */
struct fsdp_tally {
	struct fsdp_span name;
	uint64_t count;
	int64_t sum_ns;
};

/* ---- profiles ---- */

struct fsdp_dump_result {
	struct fsdp_span type;
	int64_t ns;
	struct fsdp_span text; /* the number as the log has it */
};

struct fsdp_dump {
	uint64_t line;
	struct fsdp_span msg;
	bool emitted; /* PyTorch printed it */
	const struct fsdp_dump_result *results;
	size_t result_count;
	struct fsdp_span log_message; /* msg and dict as PyTorch prints them */
};

struct fsdp_profile_problem {
	uint64_t line;
	const char *kind; /* "reentry", "end_without_begin", "end_after_reset" */
	struct fsdp_span type;
	const char *message; /* what PyTorch says there */
};

/* ---- traces ---- */

enum fsdp_comm_layer { FSDP_LAYER_NONE, FSDP_LAYER_HOST, FSDP_LAYER_DEVICE };

enum fsdp_comm_how {
	FSDP_BY_ARGS,
	FSDP_BY_LAUNCH,
	FSDP_BY_NAME,
	FSDP_BY_NONE,
	FSDP_BY_COUNT
};

struct fsdp_collective {
	int64_t ts_ns, dur_ns;
	struct fsdp_span type;
	enum fsdp_comm_how how;
	struct fsdp_span group, seq; /* seq may lie in `digits`: do not copy the struct */
	int64_t bytes, group_size;
	char digits[12];
};

/** Those of a trace, in order of start; fsdp_recording_collective shows them. */
struct fsdp_collectives;

struct fsdp_device_times {
	int64_t span_ns, busy_ns, idle_ns, comm_busy_ns, compute_busy_ns, mem_busy_ns,
		overlap_ns, exposed_ns;
};

struct fsdp_step {
	int64_t step, ts_ns, dur_ns;
	const struct fsdp_tally *types;
	size_t type_count;
};

/* ---- order of modules ---- */

struct fsdp_named_param {
	struct fsdp_span name;
	int64_t param;
};

struct fsdp_usage {
	int64_t module;
	const struct fsdp_named_param *params;
	size_t param_count;
};

struct fsdp_module_usage {
	int64_t module;
	const struct fsdp_usage *usages;
	size_t usage_count;
};

struct fsdp_fx_order {
	struct fsdp_span root, torch, tracer, aborted;
	const struct fsdp_span *concrete_args;
	size_t concrete_arg_count;
	bool has_concrete_args, concrete_args_null;
	const int64_t *modules; /* in order of use */
	const struct fsdp_span *module_names;
	size_t module_count;
	const struct fsdp_module_usage *usages;
	size_t usage_count;
	const int64_t *params; /* in order of first use */
	const struct fsdp_span *param_names;
	size_t param_count;
	const struct fsdp_span *never_visited;
	size_t never_visited_count;
	int64_t current;
};

/* ---- order of handles ---- */

struct fsdp_handle {
	int64_t id;
	struct fsdp_span module;
	const struct fsdp_span *fqns;
	size_t fqn_count;
};

struct fsdp_prefetch {
	bool backward;
	int64_t limit;
};

/** At the end of an iteration; `pre` is shared by all of them. */
struct fsdp_order_snapshot {
	uint64_t iter, at_line, cursor;
	const int64_t *pre, *post; /* handles */
	size_t pre_count, post_count;
	const char *status;
};

struct fsdp_order_warning {
	uint64_t iter, line;
	int64_t handle;
	struct fsdp_span message;
};

/** One change of a handle's pair of states, as indexes of their names. */
struct fsdp_state_change {
	uint64_t line;
	unsigned training, handle;
	bool problem, prefetch;
	uint64_t iter;
};

enum { FSDP_TRAINING_STATES = 3, FSDP_HANDLE_STATES = 5 };
FSDP_API const char *fsdp_training_state_name(unsigned state);
FSDP_API const char *fsdp_handle_state_name(unsigned state);

struct fsdp_state_lane {
	const struct fsdp_state_change *changes;
	size_t change_count;
	uint64_t training_counts[FSDP_TRAINING_STATES], handle_counts[FSDP_HANDLE_STATES];
	uint64_t prefetches;
	unsigned last_training, last_handle;
};

struct fsdp_state_problem {
	uint64_t line;
	int64_t handle;
	const char *kind;
	unsigned from[2], to[2];
	const char *error; /* NULL: none */
	struct fsdp_span message;
};

/** One training pre_forward. */
struct fsdp_forward {
	uint64_t iter;
	int64_t handle;
};

struct fsdp_exec_order {
	const struct fsdp_handle *handles;
	size_t handle_count;
	const struct fsdp_order_snapshot *snapshots;
	size_t snapshot_count;
	const struct fsdp_prefetch *prefetches; /* of each snapshot */
	size_t prefetch_count;
	const struct fsdp_order_warning *warnings;
	size_t warning_count;
	const struct fsdp_state_lane *lanes; /* one a handle; NULL: no states */
	const struct fsdp_state_problem *problems;
	size_t problem_count;
	const struct fsdp_forward *forwards;
	size_t forward_count;
	uint64_t unchecked;
	uint64_t reused, stopped_early; /* forwards */
};

/**
 * The places of all handles in the two lists of a snapshot, or FSDP_ABSENT; both outputs
 * have room for handle_count of them. Takes as long as there are handles and uses.
 */
FSDP_API void fsdp_order_places(const struct fsdp_exec_order *order,
	const struct fsdp_order_snapshot *snapshot, int64_t *ret_pre, int64_t *ret_post);

/** The handle fetched with the one at this place of the list that the prefetch goes by
 * (`post` backward, else `pre`); FSDP_ABSENT: none. */
FSDP_API int64_t fsdp_order_target(const struct fsdp_order_snapshot *snapshot,
	const struct fsdp_prefetch *prefetch, int64_t place);

/* ---- a recording ---- */

enum fsdp_rank_from {
	FSDP_RANK_FROM_FILE,     /* what it says of itself */
	FSDP_RANK_FROM_REGEX,    /* options.rank_of */
	FSDP_RANK_FROM_NAME,     /* the name of the file */
	FSDP_RANK_FROM_POSITION, /* among the arguments */
};
FSDP_API const char *fsdp_rank_from_name(enum fsdp_rank_from from);

struct fsdp_recording {
	enum fsdp_recording_kind kind;
	const char *path;
	int64_t rank, world_size;
	enum fsdp_rank_from rank_from;
	bool truncated;
	struct fsdp_span debug_level;
	uint64_t skipped;
	const uint64_t *bad_lines;
	size_t bad_line_count;

	/* by type, in the order of reports; of logs and profiles too */
	const struct fsdp_type_times *types;
	size_t type_count;

	/* profiles and logs */
	const struct fsdp_dump *dumps;
	size_t dump_count;
	const struct fsdp_profile_problem *problems;
	size_t problem_count;
	const struct fsdp_dump_result *residual;
	size_t residual_count;
	const struct fsdp_span *still_open;
	size_t still_open_count;

	/* traces */
	const char *root; /* "object", "list" */
	struct fsdp_span backend;
	int64_t base_ns, first_ts_ns, last_end_ns;
	uint64_t events, recovered, dropped, bad_dur, unpaired;
	int64_t trailing_data_at;
	const struct fsdp_tally *deviations, *phases, *categories;
	size_t deviation_count, phase_count, category_count;
	const char *all_source; /* "ProfilerStep", "span", "none" */
	enum fsdp_comm_layer layer;
	uint64_t resolution[FSDP_BY_COUNT];
	bool has_device;
	struct fsdp_device_times device;
	int64_t host_comm_busy_ns;
	const struct fsdp_step *steps;
	size_t step_count;
	const struct fsdp_collectives *collectives;
	size_t collective_count;
	bool steps_incomplete; /* of a pipe: calls came long before their steps */
	bool reduce_scatter_as_all_reduce; /* gloo carries it out so */

	/* over the ranks of a set */
	int64_t wait_ns;
	uint64_t times_last;
	/* of each cell of the set's timeline the type that fills most of it, or "idle";
	 * data NULL: nothing is known there. NULL: none at all */
	const struct fsdp_span *timeline;

	const struct fsdp_fx_order *fx;
	const struct fsdp_exec_order *order;
};

/* ---- over ranks ---- */

struct fsdp_match {
	uint64_t index; /* among all places, also those left out */
	struct fsdp_span type, group, seq;
	const uint32_t *recordings; /* that took part, by rank */
	size_t recording_count;
	int64_t first_rank, last_rank;
	int64_t start_skew_ns, end_skew_ns, transfer_ns, max_dur_ns;
	int64_t bytes, group_size;
};

struct fsdp_matching {
	const char *by;          /* "seq", "group", "position"; NULL: a single rank */
	int64_t stopped;         /* index of the place, or FSDP_ABSENT */
	const char *stopped_why; /* "missing", "type" */
	int64_t straggler;       /* rank, or FSDP_ABSENT */
	const struct fsdp_match *matches;
	size_t match_count;
};

/** Where PyTorch's comparison of the first iteration finds ranks apart. */
struct fsdp_divergence {
	bool agree;
	int64_t position;
	int64_t ranks[2], handles[2];
	struct fsdp_span message;
};

/** Where ranks part first, in any iteration. */
struct fsdp_first_diff {
	bool found;
	uint64_t iteration, position;
	const int64_t *handles; /* one a recording of handles; FSDP_ABSENT: none there */
	size_t count;
};

/** One axis for all ranks, if their clocks can be compared. */
struct fsdp_timeline {
	int64_t begin_ns; /* absolute; FSDP_ABSENT: each rank from its own start */
	int64_t cell_ns;
	size_t cell_count; /* 0: there is none */
};

/* ---- the set ---- */

/**
 * Reads all of them. A recording that cannot be read fails the whole set, with its path
 * in the error; what is broken inside of one is a finding.
 */
FSDP_API bool fsdp_recordings_read(const char *const *paths, size_t count,
	const struct fsdp_recording_options *options,
	struct fsdp_recordings **ret_recordings, struct fsdp_error **ret_error);
FSDP_API void fsdp_recordings_free(struct fsdp_recordings *recordings);

FSDP_API size_t fsdp_recording_count(const struct fsdp_recordings *recordings);
/** In the order of the arguments. */
FSDP_API const struct fsdp_recording *fsdp_recording(
	const struct fsdp_recordings *recordings, size_t index);
/** The index of the nth by rank; ties in the order of the arguments. */
FSDP_API size_t fsdp_recording_by_rank(
	const struct fsdp_recordings *recordings, size_t nth);

/** Index below its collective_count. */
FSDP_API void fsdp_recording_collective(const struct fsdp_recording *recording,
	size_t index, struct fsdp_collective *ret_collective);

/** By type over all of them, in the order of reports. */
FSDP_API size_t fsdp_recordings_type_count(const struct fsdp_recordings *recordings);
FSDP_API struct fsdp_type_times fsdp_recordings_type(
	const struct fsdp_recordings *recordings, size_t index);

/** Whether a type is one of the six that SimpleProfiler names. */
FSDP_API bool fsdp_type_is_named(struct fsdp_span type);

FSDP_API const struct fsdp_matching *fsdp_recordings_matching(
	const struct fsdp_recordings *recordings);
FSDP_API const struct fsdp_timeline *fsdp_recordings_timeline(
	const struct fsdp_recordings *recordings);
FSDP_API const struct fsdp_divergence *fsdp_recordings_divergence(
	const struct fsdp_recordings *recordings);
FSDP_API const struct fsdp_first_diff *fsdp_recordings_first_diff(
	const struct fsdp_recordings *recordings);

FSDP_API size_t fsdp_recordings_finding_count(const struct fsdp_recordings *recordings);
FSDP_API const struct fsdp_finding *fsdp_recordings_finding(
	const struct fsdp_recordings *recordings, size_t index);
FSDP_API size_t fsdp_recordings_omitted_count(const struct fsdp_recordings *recordings);
FSDP_API struct fsdp_omitted fsdp_recordings_omitted(
	const struct fsdp_recordings *recordings, size_t index);

/** bytes/ns with six decimals, halves up; false where there is no such number. */
FSDP_API bool fsdp_bandwidth(const struct fsdp_span *type, int64_t bytes,
	int64_t group_size, int64_t ns, char ret_algbw[32], char ret_busbw[32]);

#ifdef __cplusplus
}
#endif

#endif
