/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_H
#define FSDP_TRACE_H

#include <fsdp/error.h>
#include <fsdp/finding.h>
#include <fsdp/flight.h>
#include <fsdp/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Recordings of a run: what was timed, and in which order modules and units were used.
 * They are read once, as streams, whatever their length; ranks in parallel. What is
 * handed out is plain data that lives until the set is freed. Times are nanoseconds.
 *
 * Absent texts have data NULL, absent times and counts are FSDP_ABSENT.
 *
 * A set is made by fsdp_recordings_read and ended by one fsdp_recordings_free; in between
 * it does not change, so any number of threads may look. No getter allocates or fails.
 * Texts come from the recordings: not terminated, not escaped, maybe not UTF-8.
 */
struct fsdp_recordings;

/** An integer that is not known: a time, a rank, a number of bytes. */
#define FSDP_ABSENT INT64_MIN

/**
 * What a recording is; told by its content, never by its name. The JSON lines are those
 * that contrib/python writes and fsdp-inspect-trace(5) describes.
 */
enum fsdp_recording_kind {
	FSDP_RECORDING_PROFILE,    /* SimpleProfiler's events, as JSON lines */
	FSDP_RECORDING_LOG,        /* its lines in a training log */
	FSDP_RECORDING_KINETO,     /* a trace of torch.profiler */
	FSDP_RECORDING_FX_ORDER,   /* module order by torch.fx, as JSON lines */
	FSDP_RECORDING_EXEC_ORDER, /* order of FSDP1's handles, as JSON lines */
	FSDP_RECORDING_FLIGHT,     /* a dump of the Flight Recorder, pickle or JSON */
	FSDP_RECORDING_MEMORY,     /* a snapshot of CUDA memory, a pickle */
	FSDP_RECORDING_WATCHDOG,   /* lines of NCCL's watchdog in a log */
	FSDP_RECORDING_KIND_COUNT
};

/** "simple_profiler", "log", "kineto", "fx_exec_order", "exec_order",
 * "flight_recorder", "memory_snapshot", "nccl_watchdog"; NULL for anything else. */
FSDP_API const char *fsdp_recording_kind_name(enum fsdp_recording_kind kind);

/**
 * How a set is read. All zero but `size` means defaults. The struct and
 * what it points to are looked at until fsdp_recordings_read returns.
 */
struct fsdp_recording_options {
	size_t size; /* of this struct, as the caller knows it */
	const struct fsdp_limit_setting *limits; /* ceilings that are changed */
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
	bool units;    /* fsdp_recording.units is wanted */
	bool spans;    /* fsdp_recording.computing and exposed are wanted */
	bool kernels;  /* fsdp_recording.kernels is wanted */
	bool by_step;  /* of units and kernels also the times by step */
	bool idle;     /* fsdp_recording.idles is wanted */

	/* Bits 1 << kind: others are left out, unless there is nothing else. 0: all. */
	unsigned kinds;

	/* The paths are all files of a folder: one that is no recording is left out as
	 * well, and no error. */
	bool folder;

	/* Another thread, or a signal handler, may look at or set these. */
	struct fsdp_recording_progress *progress;
};

/**
 * How far reading is. The threads that read write into it without a lock, so the numbers
 * are those of some moment a little earlier; they never go back. Zero it before.
 */
struct fsdp_recording_progress {
	uint64_t read, size; /* bytes as stored; size 0: unknown */
	int stop;            /* set it, and what was read so far is the answer */
};

/* ---- times ---- */

/**
 * What many calls took. Up to a million of them the percentiles are exact: the value at
 * place ceil(p * count) of all in order. Beyond that they come from a histogram whose
 * cells are 1 % wide, and `approx` says so. The sum is FSDP_ABSENT if it does not fit.
 */
struct fsdp_times {
	uint64_t count;                                 /* calls */
	int64_t sum_ns, min_ns, max_ns, p50_ns, p95_ns; /* FSDP_ABSENT if count is 0 */
	bool approx;                                    /* p50 and p95, within 1 % */
};

/** One type of call, such as "all_gather" or "compute": its name, and what was spent on
 * it. The name lives as long as the set. */
struct fsdp_type_times {
	struct fsdp_span name;
	struct fsdp_times times;
};

/** How often something occurred, and how long it took in all; the sum is FSDP_ABSENT if
 * it is not of things that take time, or does not fit. */
struct fsdp_tally {
	struct fsdp_span name;
	uint64_t count;
	int64_t sum_ns;
};

/* ---- profiles ---- */

/**
 * What SimpleProfiler (torch/distributed/fsdp/_debug_utils.py) adds up of one type
 * between two dumps.
 */
struct fsdp_dump_result {
	struct fsdp_span type;
	int64_t ns;            /* in all */
	struct fsdp_span text; /* the number as the log has it */
};

/** One call of SimpleProfiler.dump_and_reset, whether PyTorch printed it or not. */
struct fsdp_dump {
	uint64_t line;                          /* where it stands, from 1 */
	struct fsdp_span msg;                   /* that the program gave it */
	bool emitted;                           /* PyTorch printed it */
	const struct fsdp_dump_result *results; /* in the order of its dict */
	size_t result_count;
	struct fsdp_span log_message; /* msg and dict as PyTorch prints them */
};

/** A use of SimpleProfiler that PyTorch refuses. Reading goes on behind it. */
struct fsdp_profile_problem {
	uint64_t line;
	const char *kind; /* "reentry", "end_without_begin", "end_after_reset" */
	struct fsdp_span type;
	const char *message; /* what PyTorch says there */
};

/* ---- traces ---- */

/** Where the collectives of a trace are counted, once each: by their kernels on the
 * device if there are any, else by their spans on the host. */
enum fsdp_comm_layer { FSDP_LAYER_NONE, FSDP_LAYER_HOST, FSDP_LAYER_DEVICE };

/**
 * How it is known which collective a kernel is: the first of these that says something,
 * in this order. Only recent versions of PyTorch give kernels such arguments.
 */
enum fsdp_comm_how {
	FSDP_BY_ARGS,   /* its own arguments say so */
	FSDP_BY_LAUNCH, /* the annotation that its launch lies in */
	FSDP_BY_NAME,   /* the name of the kernel */
	FSDP_BY_NONE,   /* not at all: a collective of an unknown type */
	FSDP_BY_COUNT
};

/**
 * One collective of one rank. Times are on that rank's own clock. What the trace does not
 * say is absent: older versions of PyTorch record neither bytes nor numbers.
 */
struct fsdp_collective {
	int64_t ts_ns, dur_ns; /* start, and how long it took */
	struct fsdp_span type; /* "all_gather", "reduce_scatter", … */
	enum fsdp_comm_how how;
	struct fsdp_span group; /* the process group */
	struct fsdp_span ranks; /* in it, as the trace has them */
	/* Number within the group; it may lie in `digits`, so do not copy the struct */
	struct fsdp_span seq;
	int64_t bytes;      /* output of an all-gather, input of the others */
	int64_t group_size; /* ranks of the group */
	int64_t step;       /* the number of the step it is of, or FSDP_ABSENT */
	char digits[12];    /* internal */
};

/** Those of a trace, in order of start; fsdp_recording_collective shows them. */
struct fsdp_collectives;

/**
 * How the device spent its time. What runs at once on several streams counts once: each
 * number is the length of a union of intervals, so that busy_ns is at most the sum of the
 * three below it, overlap_ns + exposed_ns is comm_busy_ns, and idle_ns + busy_ns is
 * span_ns.
 */
struct fsdp_device_times {
	int64_t span_ns;         /* first start to last end */
	int64_t busy_ns;         /* busy with anything */
	int64_t idle_ns;         /* busy with nothing */
	int64_t comm_busy_ns;    /* with collectives */
	int64_t compute_busy_ns; /* with kernels that compute */
	int64_t mem_busy_ns;     /* with copies and sets */
	int64_t overlap_ns;      /* with collectives and kernels at once */
	int64_t exposed_ns;      /* with collectives and no kernel */
};

/** A time in which a device was busy; the end is not inside. */
struct fsdp_busy_span {
	int64_t begin_ns, end_ns;
};

/** A step of the profiler's schedule, the span "ProfilerStep#N". Work of the device belongs
 * to the step in which the host launched it, though it may run later; all else to the step
 * in which it begins. */
struct fsdp_step {
	int64_t step, ts_ns, dur_ns;    /* its number, start and length */
	const struct fsdp_tally *types; /* what is of it */
	size_t type_count;
	/* Calls of the runtime on the host that allocate or free memory, by name */
	const struct fsdp_tally *allocs;
	size_t alloc_count;
	bool has_device;                 /* there is work on the device */
	struct fsdp_device_times device; /* between the first and the last of it */
};

/** What was spent on something in one step. */
struct fsdp_step_time {
	int64_t step; /* its number; FSDP_ABSENT: in none */
	uint64_t count;
	int64_t ns;
	/* Of collectives, while nothing computes; FSDP_ABSENT: there are no kernels */
	int64_t exposed_ns;
};

/** Of steps in which there is something, by number. */
struct fsdp_step_list {
	const struct fsdp_step_time *times;
	size_t count;
};

/** When a unit is used. */
enum fsdp_unit_phase {
	FSDP_PHASE_FORWARD,
	FSDP_PHASE_BACKWARD,
	FSDP_PHASE_NONE, /* outside of both, or not recorded */
};

/** "forward", "backward"; NULL for FSDP_PHASE_NONE. */
FSDP_API const char *fsdp_unit_phase_name(enum fsdp_unit_phase phase);

/** The gathers, or the reductions, of a unit in one phase. `count` is how often FSDP asked
 * for one, `kernels` how many collectives that took; the rest is of these. */
struct fsdp_unit_collectives {
	uint64_t count, kernels;
	uint64_t on_compute_stream; /* kernels on the stream that computes most */
	int64_t ns;                 /* their time together */
	/* Of that, while nothing computes; each for itself. FSDP_ABSENT: there are no
	 * kernels */
	int64_t exposed_ns;
	struct fsdp_step_list by_step; /* with options.by_step, of one recording */
};

/** Texts in order, each once. */
struct fsdp_unit_texts {
	const struct fsdp_span *texts;
	size_t count;
};

/**
 * What one unit of FSDP costs in one phase. FSDP2 writes the names of its units into
 * traces since PyTorch 2.5; of FSDP1 the units of a forward are counted in their order,
 * "#0" is the root, and those of a backward are not known.
 */
struct fsdp_unit_times {
	struct fsdp_span unit; /* its name, empty for the root; absent: not known */
	enum fsdp_unit_phase phase;
	/* Size of the shard mesh of this group of its parameters, or FSDP_ABSENT: it has
	 * one group */
	int64_t pg;
	struct fsdp_unit_collectives gathers, reduces;
	/* Gathers that were asked for ahead of the unit's own turn */
	uint64_t prefetched;
	uint64_t firsts;   /* gathers that were the first of a step */
	uint64_t reshards; /* after the backward */
	uint64_t forwards;
	struct fsdp_unit_texts groups;  /* process groups of the kernels */
	struct fsdp_unit_texts streams; /* where the kernels ran */
};

/** Gathers and reductions that are of no unit. */
struct fsdp_unassigned {
	uint64_t gathers, reduces;
	int64_t gather_ns, reduce_ns;
};

/** How the units of a trace are distinguished. */
enum fsdp_units_from {
	FSDP_UNITS_ABSENT, /* there are no annotations of FSDP */
	FSDP_UNITS_NAMED,  /* FSDP2 since PyTorch 2.5 */
	FSDP_UNITS_OLD,    /* FSDP2 before that: not at all */
	FSDP_UNITS_FSDP1,  /* by their order in the forward */
};

/** What a kernel does: collectives and copies by what they count as, the others by words
 * in their names. */
enum fsdp_kernel_class {
	FSDP_KERNEL_GEMM,
	FSDP_KERNEL_ATTENTION,
	FSDP_KERNEL_ELEMENTWISE,
	FSDP_KERNEL_REDUCTION,
	FSDP_KERNEL_COPY, /* also sets */
	FSDP_KERNEL_COMMUNICATION,
	FSDP_KERNEL_OTHER,
	FSDP_KERNEL_CLASS_COUNT
};

/** "gemm", "attention", "elementwise", "reduction", "copy", "communication", "other";
 * NULL for anything else. */
FSDP_API const char *fsdp_kernel_class_name(enum fsdp_kernel_class kernel_class);

/** What the device did under one name. */
struct fsdp_kernel_times {
	/* As it is recorded; absent: the names beyond the limit `kernels` together */
	struct fsdp_span name;
	enum fsdp_kernel_class kernel_class;
	bool computes; /* its time is of the type "compute" */
	uint64_t count;
	uint64_t on_compute_stream; /* calls on the stream that computes most */
	int64_t ns;
	struct fsdp_step_list by_step; /* with options.by_step */
};

/** Why a device is idle: what the thread did that launched what comes next, after the
 * gap had begun. Of several at once the first one counts. */
enum fsdp_idle_cause {
	FSDP_IDLE_SYNCHRONISATION, /* it waited for the device */
	FSDP_IDLE_ALLOCATION,      /* it allocated or freed memory of the device */
	FSDP_IDLE_COPY,            /* it was in a call that copies */
	FSDP_IDLE_COLLECTIVE,      /* it was in a collective */
	FSDP_IDLE_DATA_LOADER,     /* it asked its data loader for a batch */
	/* It was in operators and launches; or the launch took this long to arrive */
	FSDP_IDLE_LAUNCH,
	FSDP_IDLE_HOST,    /* nothing of these: Python, or nothing that is recorded */
	FSDP_IDLE_QUEUED,  /* what comes next was launched before the gap began */
	FSDP_IDLE_UNKNOWN, /* the launch is not recorded */
	FSDP_IDLE_CAUSE_COUNT
};

/** "synchronisation", "allocation", "copy", "collective", "data_loader", "launch", "host",
 * "queued", "unknown"; NULL for anything else. */
FSDP_API const char *fsdp_idle_cause_name(enum fsdp_idle_cause cause);

/** How long a device was idle for one cause before one kernel or copy. All together are
 * its idle_ns. */
struct fsdp_idle_time {
	enum fsdp_idle_cause cause;
	struct fsdp_span kernel; /* its name; absent: beyond the limit `kernels` */
	uint64_t gaps;           /* in which this was a part */
	int64_t ns, longest_ns;  /* of these parts */
};

/* ---- order of modules ---- */

/*
 * Modules and parameters are called by the numbers that the recording gives them; these
 * are not negative and have no upper bound. A name is absent where none was recorded.
 */

/** A parameter by the name under which a module uses it; one parameter may have several
 * names, if it is shared. */
struct fsdp_named_param {
	struct fsdp_span name;
	int64_t param;
};

/** The parameters of one module that are used in one go. */
struct fsdp_usage {
	int64_t module; /* whose they are */
	const struct fsdp_named_param *params;
	size_t param_count;
};

/** What is used while one module runs, in order: its own parameters and those of
 * modules inside. */
struct fsdp_module_usage {
	int64_t module;
	const struct fsdp_usage *usages;
	size_t usage_count;
};

/**
 * What _ExecOrderTracer of PyTorch (torch/distributed/fsdp/_trace_utils.py) learns from
 * one symbolic trace of a model; the lists are those of its _ExecutionInfo. An aborted
 * trace has what came before it broke off.
 */
struct fsdp_fx_order {
	struct fsdp_span root;    /* class of the model */
	struct fsdp_span torch;   /* version of PyTorch */
	struct fsdp_span tracer;  /* class of the tracer */
	struct fsdp_span aborted; /* why tracing broke off; absent: it did not */
	const struct fsdp_span *concrete_args; /* their names */
	size_t concrete_arg_count;
	bool has_concrete_args, concrete_args_null; /* recorded; as null */
	const int64_t *modules;                     /* in order of use */
	const struct fsdp_span *module_names;       /* of each of these */
	size_t module_count;
	const struct fsdp_module_usage *usages; /* by module */
	size_t usage_count;
	const int64_t *params;               /* in order of first use */
	const struct fsdp_span *param_names; /* of each of these */
	size_t param_count;
	const struct fsdp_span *never_visited; /* parameters that were not used */
	size_t never_visited_count;
	int64_t current; /* module in which it ended */
};

/* ---- order of handles ---- */

/*
 * Handles are called by their index in fsdp_exec_order.handles. Iterations count from 0:
 * one ends when the recording says that PyTorch's next_iter was called, or at its end.
 */

/** A unit of FSDP1 with a FlatParameter. */
struct fsdp_handle {
	int64_t id; /* as the recording numbers it */
	struct fsdp_span module;
	const struct fsdp_span *fqns; /* its parameters */
	size_t fqn_count;
};

/** A way of prefetching: with each handle the ones that come next in one direction are
 * unsharded early. */
struct fsdp_prefetch {
	bool backward; /* else forward */
	int64_t limit; /* how many handles ahead, at least 1 */
};

/** At the end of an iteration; `pre` is shared by all of them. */
struct fsdp_order_snapshot {
	uint64_t iter;             /* from 0 */
	uint64_t at_line;          /* the last line before it */
	uint64_t cursor;           /* calls of this iteration that PyTorch checked */
	const int64_t *pre, *post; /* handles: by first use, and as their forwards end */
	size_t pre_count, post_count;
	const char *status; /* of the check: "NONE", "WARNING", "WARNED" */
};

/** PyTorch warns that a forward differs from that of the first iteration, because ranks
 * that gather different parameters at once get wrong results or hang. */
struct fsdp_order_warning {
	uint64_t iter, line;
	int64_t handle;
	struct fsdp_span message; /* as PyTorch words it */
};

/** One change of a handle's pair of states, as indices for fsdp_training_state_name and
 * fsdp_handle_state_name. */
struct fsdp_state_change {
	uint64_t line;
	unsigned training, handle; /* the states that it enters */
	bool problem;              /* PyTorch refuses it */
	bool prefetch;             /* it is that of a prefetch */
	uint64_t iter;
};

enum { FSDP_TRAINING_STATES = 3, FSDP_HANDLE_STATES = 5 };

/** The names of TrainingState and HandleTrainingState of PyTorch; NULL past the end. */
FSDP_API const char *fsdp_training_state_name(unsigned state);
FSDP_API const char *fsdp_handle_state_name(unsigned state);

/** The states of one handle in the order of lines. */
struct fsdp_state_lane {
	const struct fsdp_state_change *changes;
	size_t change_count;
	/* how often each state was entered, by its index */
	uint64_t training_counts[FSDP_TRAINING_STATES], handle_counts[FSDP_HANDLE_STATES];
	uint64_t prefetches;                 /* changes that were prefetches */
	unsigned last_training, last_handle; /* in which the recording leaves it */
};

/** A change of states that PyTorch refuses. */
struct fsdp_state_problem {
	uint64_t line;
	int64_t handle;
	const char *kind;         /* "summon_in_step", "unshard_not_idle", … */
	unsigned from[2], to[2];  /* training state, handle state */
	const char *error;        /* the class of the exception; NULL: none */
	struct fsdp_span message; /* its words */
};

/** One call of a unit's pre_forward while the model trains: the unit is about to gather
 * its parameters. */
struct fsdp_forward {
	uint64_t iter;
	int64_t handle;
};

/**
 * What _ExecOrderData of FSDP1 (torch/distributed/fsdp/_exec_order_utils.py) learns while
 * a model trains, and what it checks, replayed from the recorded calls. Lists of handles
 * hold indices; a list is empty where the run had nothing to put in.
 */
struct fsdp_exec_order {
	const struct fsdp_handle *handles; /* root first */
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
	const struct fsdp_forward *forwards; /* in order */
	size_t forward_count;
	uint64_t unchecked;     /* forwards that PyTorch did not check */
	uint64_t reused;        /* uses of a unit that was used in this forward already */
	uint64_t stopped_early; /* iterations with fewer uses than the first */
};

/**
 * The places of all handles in the two lists of a snapshot, or FSDP_ABSENT; both outputs
 * have room for handle_count of them. Takes time linear in handles and uses.
 */
FSDP_API void fsdp_order_places(const struct fsdp_exec_order *order,
	const struct fsdp_order_snapshot *snapshot, int64_t *ret_pre, int64_t *ret_post);

/** The handle fetched with the one at this place of the list that the prefetch goes by
 * (`post` backward, else `pre`); FSDP_ABSENT: none. */
FSDP_API int64_t fsdp_order_target(const struct fsdp_order_snapshot *snapshot,
	const struct fsdp_prefetch *prefetch, int64_t place);

/* ---- a recording ---- */

/** Who tells the rank of a recording; the first that does, in this order. */
enum fsdp_rank_from {
	FSDP_RANK_FROM_FILE,     /* what it says of itself */
	FSDP_RANK_FROM_REGEX,    /* options.rank_of */
	FSDP_RANK_FROM_NAME,     /* the name of the file */
	FSDP_RANK_FROM_POSITION, /* among the arguments */
};

/** "distributedInfo", "rank-regex", "name", "position". */
FSDP_API const char *fsdp_rank_from_name(enum fsdp_rank_from from);

/**
 * One recording: a file, or standard input. Lists that its kind does not have are empty,
 * their pointers NULL, and its counts are 0. What could not be used is counted, and each
 * kind of it is a finding (fsdp_recordings_finding) with the place of the first.
 */
struct fsdp_recording {
	enum fsdp_recording_kind kind;
	const char *path; /* as the caller gave it */
	int64_t rank;
	int64_t world_size; /* ranks of the job, or FSDP_ABSENT */
	enum fsdp_rank_from rank_from;
	size_t input;     /* index of its path */
	bool truncated;   /* it ends in the middle */
	bool interrupted; /* reading stopped because options.progress said so */
	struct fsdp_span debug_level; /* TORCH_DISTRIBUTED_DEBUG of the run */
	uint64_t skipped;             /* lines of an unknown kind */
	const uint64_t *bad_lines;    /* numbers of lines that cannot be read */
	size_t bad_line_count;

	/* by type, in the order of reports; of logs and profiles too */
	const struct fsdp_type_times *types;
	size_t type_count;

	/* profiles and logs */
	const struct fsdp_dump *dumps; /* in the order of lines */
	size_t dump_count;
	const struct fsdp_profile_problem *problems;
	size_t problem_count;
	const struct fsdp_dump_result *residual; /* types that were never dumped */
	size_t residual_count;
	const struct fsdp_span *still_open; /* types with regions that did not end */
	size_t still_open_count;

	/* traces */
	const char *root;         /* "object", "list": how it begins */
	struct fsdp_span backend; /* of the collectives */
	int64_t base_ns;          /* what event times count from, since 1970 */
	int64_t first_ts_ns;      /* the first start */
	int64_t last_end_ns;      /* the last end */
	uint64_t events;          /* that count */
	uint64_t recovered; /* of these, kept though something inside was not JSON */
	uint64_t dropped;   /* events that do not count */
	uint64_t bad_dur;   /* without usable times */
	uint64_t unpaired;  /* begins and ends without the other */
	int64_t trailing_data_at; /* offset of bytes behind the end, or FSDP_ABSENT */
	/* what was not JSON, events by `ph`, spans by `cat` */
	const struct fsdp_tally *deviations, *phases, *categories;
	size_t deviation_count, phase_count, category_count;
	/* of the categories those that are not known here: other devices, mostly */
	const struct fsdp_tally *unknown;
	size_t unknown_count;
	const char *all_source; /* of the type "all": "ProfilerStep", "span", "none" */
	enum fsdp_comm_layer layer;
	uint64_t resolution[FSDP_BY_COUNT]; /* collectives by how they are known */
	bool has_device;                    /* `device` counts */
	struct fsdp_device_times device;
	int64_t host_comm_busy_ns; /* with collectives on the host, or FSDP_ABSENT */
	int64_t data_loader_ns; /* in which the host asked its data loader for a batch */
	const struct fsdp_step *steps; /* in order of start */
	size_t step_count;
	const struct fsdp_tally *outside; /* what is of no step, where there are any */
	size_t outside_count;
	/* Work of the device whose launch is not recorded: it is put into the step in
	 * which it begins */
	uint64_t by_start;
	const struct fsdp_collectives *collectives; /* fsdp_recording_collective */
	size_t collective_count;
	bool steps_incomplete; /* of a pipe: calls came long before their steps */
	bool reduce_scatter_as_all_reduce; /* gloo carries it out so */

	/* with options.spans, by time and disjoint: when the device computed, and when it
	 * was busy with collectives and computed nothing */
	const struct fsdp_busy_span *computing, *exposed;
	size_t computing_count, exposed_count;

	/* with options.kernels, in no order */
	const struct fsdp_kernel_times *kernels;
	size_t kernel_count;

	/* with options.idle, by cause and name */
	const struct fsdp_idle_time *idles;
	size_t idle_count;

	/* calls of the runtime that allocate or free memory, by name */
	const struct fsdp_tally *allocs;
	size_t alloc_count;

	/* with options.units, in the order of names */
	const struct fsdp_unit_times *units;
	size_t unit_count;
	enum fsdp_units_from units_from;
	struct fsdp_unassigned unassigned;

	/* over the ranks of a run, if their clocks agree */
	int64_t wait_ns;     /* for the last rank of each collective */
	uint64_t times_last; /* how often it was the last one itself */
	/* of each cell of the set's timeline the type that fills most of it, or "idle";
	 * data NULL: nothing is known there. NULL: none at all */
	const struct fsdp_span *timeline;

	const struct fsdp_fx_order *fx;        /* FSDP_RECORDING_FX_ORDER, else NULL */
	const struct fsdp_exec_order *order;   /* FSDP_RECORDING_EXEC_ORDER, else NULL */
	const struct fsdp_flight_dump *flight; /* FSDP_RECORDING_FLIGHT, else NULL */
	const struct fsdp_memory *memory;      /* FSDP_RECORDING_MEMORY, else NULL */
};

/* ---- over ranks ---- */

/**
 * One collective of several ranks. Durations need no common clock; the skews, and which
 * rank was first and last, are as good as the clocks of the hosts agree.
 */
struct fsdp_match {
	uint64_t index; /* among all places, also those left out */
	struct fsdp_span type, group, seq;
	const uint32_t *recordings; /* indices of those that took part, by rank */
	size_t recording_count;
	int64_t first_rank, last_rank; /* that began first and last */
	int64_t start_skew_ns;         /* last start less first start */
	int64_t end_skew_ns;           /* last end less first end */
	int64_t transfer_ns;           /* the shortest of all: the time of moving data */
	int64_t max_dur_ns;            /* the longest of all */
	int64_t bytes, group_size;     /* as fsdp_collective has them */
};

/**
 * How the collectives of ranks were set against each other: by their numbers within a
 * process group, if any have both, else by their order within it, else by their order in
 * the trace. Those without are left out. What goes from point to point is numbered apart.
 * By order, it stops where ranks do not agree, because everything behind would be compared
 * with the wrong partner.
 *
 * A rank that makes the others wait waits least itself: it is the straggler.
 *
 * Ranks wait inside of a collective, so no wait is longer than the call that it is in.
 * Where starts of one collective lie farther apart than the longest recording lasts, or
 * most calls would be shorter than their waits, the clocks of the hosts differ: then
 * `aligned` is false, no rank has a wait, and none is a straggler.
 *
 * A recording whose reading was interrupted lacks what came later: then nothing is set
 * against each other.
 */
struct fsdp_matching {
	const char *by;          /* "seq", "group", "position"; NULL: nothing was */
	uint64_t left_out;       /* collectives of all ranks that lack what it goes by */
	int64_t stopped;         /* index of the place, or FSDP_ABSENT */
	const char *stopped_why; /* "missing", "type" */
	int64_t straggler;       /* the rank that waits least, or FSDP_ABSENT */
	bool aligned;            /* the clocks agree; also with a single rank */
	int64_t most_skew_ns;    /* the largest start_skew_ns of all; 0: none */
	uint64_t longest_skew;   /* index of that match */
	const struct fsdp_match *matches; /* in order, up to where it stopped */
	size_t match_count;
};

/**
 * Where PyTorch's comparison of the first iteration finds ranks apart: it compares the
 * handles that each rank uses, place by place, and names two ranks that differ.
 */
struct fsdp_divergence {
	bool agree;               /* all do the same; then nothing else is set */
	int64_t position;         /* where they part */
	int64_t ranks[2];         /* two that differ */
	int64_t handles[2];       /* what each uses there, or FSDP_ABSENT: nothing more */
	struct fsdp_span message; /* as PyTorch words it */
};

/** Where ranks part first, in any iteration. */
struct fsdp_first_diff {
	bool found;                   /* else all agree, or there is only one rank */
	uint64_t iteration, position; /* both from 0 */
	const int64_t *handles; /* one a recording of handles; FSDP_ABSENT: none there */
	size_t count;
};

/** One axis for all ranks, if their clocks can be compared. It is cut into cells of equal
 * length, the last of which may reach beyond the end of the recordings. */
struct fsdp_timeline {
	int64_t begin_ns;  /* absolute; FSDP_ABSENT: each rank from its own start */
	int64_t cell_ns;   /* length of one cell */
	size_t cell_count; /* 0: there is none */
};

/* ---- the set ---- */

/**
 * Reads all of them; "-" is standard input. The ranks of one run belong into one set. The
 * caller owns the set. Memory follows the bytes that are read, not what they unpack to,
 * under the ceiling `memory`. A recording that cannot be read is left out and has an
 * error (fsdp_recordings_error). It fails, with the path in the error, if none can be
 * read, or if memory or a ceiling was used up, which all share. What is broken inside of
 * one is a finding. The paths must live as long as the set.
 */
FSDP_API bool fsdp_recordings_read(const char *const *paths, size_t count,
	const struct fsdp_recording_options *options,
	struct fsdp_recordings **ret_recordings, struct fsdp_error **ret_error);

/** NULL is fine. */
FSDP_API void fsdp_recordings_free(struct fsdp_recordings *recordings);

/** As many as could be read and were wanted. */
FSDP_API size_t fsdp_recording_count(const struct fsdp_recordings *recordings);

/** In the order of the paths; NULL past the end. */
FSDP_API const struct fsdp_recording *fsdp_recording(
	const struct fsdp_recordings *recordings, size_t index);

/** The index of the nth by rank; ties in the order of the paths. nth must be below the
 * count. */
FSDP_API size_t fsdp_recording_by_rank(
	const struct fsdp_recordings *recordings, size_t nth);

/** Paths that could not be read, in their order; each error has its path. NULL past the
 * end. Of a run there are none. */
FSDP_API size_t fsdp_recordings_error_count(const struct fsdp_recordings *recordings);
FSDP_API const struct fsdp_error *fsdp_recordings_error(
	const struct fsdp_recordings *recordings, size_t nth);

/** The paths of recordings of kinds that were not wanted, in their order; NULL past the
 * end. Of a run there are none. */
FSDP_API const char *fsdp_recordings_left_out(
	const struct fsdp_recordings *recordings, size_t nth);

/**
 * Two traces of one rank are two recordings of it: of a run before and after a change, or
 * of two cycles of the profiler. Their times are compared and not added up. The nth trace
 * of each rank, by the time of its begin if that is recorded, else in the order of the
 * paths, belongs to the nth run; what a rank lacks is found by the nearest begin. Mostly
 * there is one run.
 */
FSDP_API size_t fsdp_recordings_run_count(const struct fsdp_recordings *recordings);

/** The recordings of one run, a set that answers all questions for itself; the set itself
 * if there is one run. A set of several answers for its first run where it is asked for
 * types, the matching or the timeline. nth must be below the count. It lives, and is freed, with the set
 * that it is of. */
FSDP_API const struct fsdp_recordings *fsdp_recordings_run(
	const struct fsdp_recordings *recordings, size_t nth);

/** Fills *ret_collective with that of an index, which must be below its
 * collective_count. Its texts live as long as the set, but seq: as *ret_collective. */
FSDP_API void fsdp_recording_collective(const struct fsdp_recording *recording,
	size_t index, struct fsdp_collective *ret_collective);

/** Times by type over all recordings, in the order of reports: the six of
 * SimpleProfiler first. The index must be below the count. */
FSDP_API size_t fsdp_recordings_type_count(const struct fsdp_recordings *recordings);
FSDP_API struct fsdp_type_times fsdp_recordings_type(
	const struct fsdp_recordings *recordings, size_t index);

/** Whether a type is one of the six that SimpleProfiler names. */
FSDP_API bool fsdp_type_is_named(struct fsdp_span type);

/** The collectives of traces; empty where there are none. Never NULL, as those below.
 * */
FSDP_API const struct fsdp_matching *fsdp_recordings_matching(
	const struct fsdp_recordings *recordings);

/** With options.units, what the units of all traces cost together, as
 * fsdp_recording.units. The index must be below the count. */
FSDP_API size_t fsdp_recordings_unit_count(const struct fsdp_recordings *recordings);
FSDP_API const struct fsdp_unit_times *fsdp_recordings_unit(
	const struct fsdp_recordings *recordings, size_t index);

/* ---- one clock ---- */

/**
 * The collectives of several ranks on one clock: all ranks of a collective leave it at
 * about the same time, so clocks are put where their ends meet, each by the median over
 * all collectives that it shares.
 */
struct fsdp_alignment;

/** Of the traces of a run, which stay as long as it. Takes 32 bytes for each collective;
 * the caller owns it. Fails if memory runs out. */
FSDP_API bool fsdp_alignment_new(const struct fsdp_recordings *recordings,
	struct fsdp_alignment **ret_alignment, struct fsdp_error **ret_error);

/** NULL is fine. */
FSDP_API void fsdp_alignment_free(struct fsdp_alignment *alignment);

/** What is to be added to the times of a recording, by its index, so that they count from
 * the first start of all. */
FSDP_API int64_t fsdp_alignment_offset(
	const struct fsdp_alignment *alignment, size_t recording);

/** The first recording of those whose clocks are one, by shared collectives and those that
 * others share with them. What shares none begins where the first of all begins. */
FSDP_API size_t fsdp_alignment_clock(
	const struct fsdp_alignment *alignment, size_t recording);

/** How long a collective waited for the last rank to begin it; at most as long as it
 * took. 0 for one that no other recording shares, and past the end. */
FSDP_API int64_t fsdp_alignment_wait(
	const struct fsdp_alignment *alignment, size_t recording, size_t collective);

/** From the first start of all to the last end. */
FSDP_API int64_t fsdp_alignment_span(const struct fsdp_alignment *alignment);

/** The axis of all strips, if the options asked for them. */
FSDP_API const struct fsdp_timeline *fsdp_recordings_timeline(
	const struct fsdp_recordings *recordings);

/** Of recordings of handles: what PyTorch itself would find. */
FSDP_API const struct fsdp_divergence *fsdp_recordings_divergence(
	const struct fsdp_recordings *recordings);

/** The same over all iterations. */
FSDP_API const struct fsdp_first_diff *fsdp_recordings_first_diff(
	const struct fsdp_recordings *recordings);

/** What the dumps of the Flight Recorder say together; NULL: there are none. */
FSDP_API const struct fsdp_flight *fsdp_recordings_flight(
	const struct fsdp_recordings *recordings);

/** Findings of the recordings in the order of the paths, then those about all of them.
 * NULL past the end; they live as long as the set. */
FSDP_API size_t fsdp_recordings_finding_count(const struct fsdp_recordings *recordings);
FSDP_API const struct fsdp_finding *fsdp_recordings_finding(
	const struct fsdp_recordings *recordings, size_t index);

/** What was found beyond the ceiling `findings`, in the same order; all zero past the
 * end. */
FSDP_API size_t fsdp_recordings_omitted_count(const struct fsdp_recordings *recordings);
FSDP_API struct fsdp_omitted fsdp_recordings_omitted(
	const struct fsdp_recordings *recordings, size_t index);

/**
 * The bandwidth of a collective as texts, bytes/ns (10^9 a second) with six decimals,
 * halves up: what the algorithm moves, and what the bus sees by the conventions of
 * nccl-tests (empty for a type that has none). False, and both are empty, if one of the
 * numbers is absent or not positive.
 */
FSDP_API bool fsdp_bandwidth(const struct fsdp_span *type, int64_t bytes,
	int64_t group_size, int64_t ns, char ret_algbw[32], char ret_busbw[32]);

#ifdef __cplusplus
}
#endif

#endif
