/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Recordings of a training run that contain times: traces of torch.profiler
 * (Kineto), events and logs of FSDP's SimpleProfiler. Where the time of a step
 * goes, how much communication is exposed, which rank the others wait for.
 *
 * All times are nanoseconds. Those of one rank are on the clock of its host;
 * fsdp_matching says whether the clocks of several ranks agree. A recording is one
 * file of one rank; a set is all of them, and a run is the part of a set that one
 * execution of the program wrote.
 *
 * Types have the names of SimpleProfiler.Type
 * (torch/distributed/fsdp/_debug_utils.py, PyTorch 2.13), of the collectives in
 * torch/csrc/distributed/c10d, and of the kernels of NCCL 2.4 to 2.27, RCCL, HCCL
 * and CNCL. Bandwidths follow the conventions of nccl-tests. The set belongs to the
 * caller, everything else to the set.
 *
 * Example (testdata/traces/kineto_cpu/collectives_rank0.pt.trace.json.gz):
 *
 *     bool print_types(const char *path, struct fsdp_error **ret_error)
 *     {
 *         struct fsdp_recording_options options = { .size = sizeof options };
 *         struct fsdp_recordings *set = NULL;
 *
 *         if (!fsdp_recordings_read(&path, 1, &options, &set, ret_error))
 *             return false;
 *         const struct fsdp_summary *all = fsdp_recordings_summary(set);
 *
 *         for (size_t i = 0; i < all->type_count; i++) {
 *             struct fsdp_type_times type = all->types[i];
 *             printf("%.*s: %" PRIu64 " calls, %" PRId64 " ns\n", (int)type.name.size,
 *                 (const char *)type.name.data, type.times.count, type.times.sum_ns);
 *         }
 *         fsdp_recordings_free(set);
 *         return true;
 *     }
 *
 * It prints:
 *
 *     all: 3 calls, 73047435 ns
 *     all_gather: 12 calls, 18746538 ns
 *     all_gather_object: 3 calls, 23234886 ns
 *     resharding: 3 calls, 2748494 ns
 *     all_reduce: 9 calls, 3713115 ns
 *     broadcast: 3 calls, 373143 ns
 *     reduce: 3 calls, 8625771 ns
 *     all_to_all: 3 calls, 632048 ns
 *     send_recv: 3 calls, 19211206 ns
 *     gather: 3 calls, 530495 ns
 *     scatter: 3 calls, 3110761 ns
 *     barrier: 3 calls, 443173 ns
 */
#ifndef FSDP_TRACE_H
#define FSDP_TRACE_H

#include <fsdp/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Recordings of a run: what was timed, and in which order modules and units were
 * used. They are read once, as streams, whatever their length; ranks in parallel.
 * What is handed out is plain data that lives until the set is freed. Times are
 * nanoseconds.
 *
 * Absent texts have data NULL, absent times and counts are FSDP_ABSENT.
 *
 * A set is made by fsdp_recordings_read and ended by one fsdp_recordings_free; in
 * between it does not change, so any number of threads may look. No getter
 * allocates or fails. Texts come from the recordings: not terminated, not escaped,
 * maybe not UTF-8.
 */
struct fsdp_recordings;

/**
 * Kind of a recording; recognized by its content, never by its name. The JSON lines
 * are those that contrib/python writes and fsdp-inspect-trace(5) describes.
 */
enum fsdp_recording_kind {
	/* SimpleProfiler's events, as JSON lines. */
	FSDP_RECORDING_PROFILE,
	/* What it printed into a training log: totals by type, no single calls. */
	FSDP_RECORDING_LOG,
	/* A trace of torch.profiler, in the JSON of Chrome's tracing. */
	FSDP_RECORDING_KINETO,
	/* Module order by torch.fx, as JSON lines. */
	FSDP_RECORDING_FX_ORDER,
	/* Order of FSDP1's handles, as JSON lines. */
	FSDP_RECORDING_EXEC_ORDER,
	/* A dump of the Flight Recorder, pickle or JSON (order.h). */
	FSDP_RECORDING_FLIGHT,
	/* A snapshot of CUDA memory, a pickle (memory.h). */
	FSDP_RECORDING_MEMORY,
	/* Lines about failed collectives in a log (order.h). */
	FSDP_RECORDING_WATCHDOG,
	FSDP_RECORDING_KIND_COUNT
};

/** "simple_profiler", "log", "kineto", "fx_exec_order", "exec_order",
 * "flight_recorder", "memory_snapshot", "nccl_watchdog"; NULL for anything else.
 * Static. */
FSDP_API const char *fsdp_recording_kind_name(enum fsdp_recording_kind kind);

/**
 * How a set is read. All zero but `size` means defaults. The struct and
 * what it points to are looked at until fsdp_recordings_read returns.
 */
struct fsdp_remote;
struct fsdp_recording_options {
	/* Bytes of this struct in the caller's version of this header. */
	size_t size;
	/* Ceilings that are changed, as in struct fsdp_options. */
	const struct fsdp_limit_setting *limits;
	size_t limit_count;
	/* Threads that read, a recording each; 0: one. No result depends on it. */
	unsigned jobs;

	/* The rank in a path, or FSDP_ABSENT; called before the library's own parser of
	 * file names. NULL: none. */
	int64_t (*rank_of)(void *context, const char *path);
	/* Handed to `rank_of` as it is. */
	void *context;

	/* Steps that count, pairs of first and last; none: all. */
	const int64_t *steps;
	size_t step_range_count;

	/* The next ones cost memory or time, and are computed only on request:
	 * fsdp_recording.timeline, a strip of cells for each rank; */
	bool timeline;
	/* fsdp_recording.units, the collectives of each FSDP unit; */
	bool units;
	/* fsdp_recording.computing and exposed, which fsdp_collective.exposed_ns and the
	 * type in fsdp_recordings_loss need; */
	bool spans;
	/* fsdp_recording.kernels, one row per name of a kernel; */
	bool kernels;
	/* of units and kernels also the times by step, which fsdp_recordings_compare
	 * needs; */
	bool by_step;
	/* fsdp_recording.idles, the gaps of the device by cause; */
	bool idle;
	/* fsdp_recording.offset_ns, clock and call_waits, one clock for all ranks. */
	bool clocks;

	/* Bits 1 << kind: others are skipped, unless all are others. 0: all. */
	unsigned kinds;

	/* The paths are all files of a directory: one that is not a recording is skipped
	 * without an error. */
	bool folder;

	/* Another thread, or a signal handler, may look at or set these. */
	struct fsdp_recording_progress *progress;

	/* Reads paths that are URLs; NULL: none are. */
	struct fsdp_remote *remote;
};

/**
 * How far reading is. The threads that read write into it without a lock, so the
 * numbers are those of some moment a little earlier; they never go back. Zero it
 * before.
 */
struct fsdp_recording_progress {
	/* Bytes as stored (compressed ones as they are), of all recordings together; size
	 * 0: unknown, as of a pipe. */
	uint64_t read, size;
	/* Set it to anything but 0, and what was read so far is the answer. */
	int stop;
};

/* ---- times ---- */

/**
 * What many calls took. Percentiles are exact: the value at place ceil(p * count) of all
 * in order. The sum is FSDP_ABSENT if it does not fit.
 */
struct fsdp_times {
	/* Calls. */
	uint64_t count;
	/* Sum, shortest, longest, median and 95th percentile, in nanoseconds; FSDP_ABSENT
	 * if count is 0. */
	int64_t sum_ns, min_ns, max_ns, p50_ns, p95_ns;
	/* Always false: p50 and p95 are exact. */
	bool approx;
};

/** One type of call: its name, and what was spent on it. */
struct fsdp_type_times {
	/* "all_gather", "compute", "copy", …; SimpleProfiler's names where it has one.
	 * Lives as long as the set. */
	struct fsdp_span name;
	/* Of all calls of this type. */
	struct fsdp_times times;
	/* In fsdp_summary: the same of each rank that has any, by rank. */
	const struct fsdp_type_rank *ranks;
	size_t rank_count;
};

/** What one rank spent on calls of a type. */
struct fsdp_type_rank {
	/* The rank. */
	int64_t rank;
	/* Calls. */
	uint64_t count;
	/* Their sum, or FSDP_ABSENT. */
	int64_t sum_ns;
};

/** The one of this name among the types of a recording or a summary; NULL: none. */
FSDP_API const struct fsdp_type_times *fsdp_type_find(
	const struct fsdp_type_times *types, size_t count, struct fsdp_span name);

/** How often something occurred, and how long it took in all; the sum is FSDP_ABSENT
 * if it is not of things that take time, or does not fit. */
struct fsdp_tally {
	/* What occurred; lives as long as the set. */
	struct fsdp_span name;
	/* How often. */
	uint64_t count;
	/* How long in all. */
	int64_t sum_ns;
};

/* ---- profiles ---- */

/**
 * What SimpleProfiler (torch/distributed/fsdp/_debug_utils.py) adds up of one type
 * between two dumps.
 */
struct fsdp_dump_result {
	/* "all_gather", …: a member of SimpleProfiler.Type, or a name of the program. */
	struct fsdp_span type;
	/* In all, in nanoseconds. */
	int64_t ns;
	/* The number in seconds as the log has it, digit by digit. */
	struct fsdp_span text;
};

/** One call of SimpleProfiler.dump_and_reset, whether PyTorch printed it or not. */
struct fsdp_dump {
	/* Its line, from 1. */
	uint64_t line;
	/* What the program gave it as a message. */
	struct fsdp_span msg;
	/* PyTorch printed it, which it does on rank 0 alone, and if
	 * TORCH_DISTRIBUTED_DEBUG is INFO. */
	bool emitted;
	/* In the order of its dict. */
	const struct fsdp_dump_result *results;
	size_t result_count;
	/* msg and dict as PyTorch prints them. */
	struct fsdp_span log_message;
};

/** A use of SimpleProfiler that PyTorch refuses. Reading continues after it. */
struct fsdp_profile_problem {
	/* From 1. */
	uint64_t line;
	/* "reentry" (a region of a type within one of the same type),
	 * "end_without_begin", "end_after_reset" (a dump came in between). */
	const char *kind;
	/* Of the region. */
	struct fsdp_span type;
	/* What PyTorch does there, one sentence. Static. */
	const char *message;
};

/* ---- traces ---- */

/** Where the collectives of a trace are counted, once each: by their kernels on the
 * device if there are any, else by their spans on the host. */
enum fsdp_comm_layer {
	/* There are none. */
	FSDP_LAYER_NONE,
	/* By their spans on the host: those of gloo, or a trace without kernels. */
	FSDP_LAYER_HOST,
	/* By their kernels. */
	FSDP_LAYER_DEVICE
};

/**
 * How it is known which collective a kernel is: the first of these that says
 * something, in this order. Only recent versions of PyTorch give kernels such
 * arguments.
 */
enum fsdp_collective_source {
	/* Its own arguments say so. */
	FSDP_BY_ARGS,
	/* The annotation that contains its launch. */
	FSDP_BY_LAUNCH,
	/* The name of the kernel. */
	FSDP_BY_NAME,
	/* Not at all: a collective of an unknown type. */
	FSDP_BY_NONE,
	FSDP_BY_COUNT
};

/**
 * One collective of one rank. Times are on that rank's own clock. What the trace
 * does not say is absent: older versions of PyTorch record neither bytes nor
 * numbers.
 */
struct fsdp_collective {
	/* Start, since fsdp_recording.base_ns, and how long it took. On the device a call
	 * starts when its kernel does, and its wait for other ranks is a part of it. */
	int64_t ts_ns, dur_ns;
	/* "all_gather", "reduce_scatter", …: SimpleProfiler's names. */
	struct fsdp_span type;
	enum fsdp_collective_source how;
	/* The process group, as the trace calls it. */
	struct fsdp_span group;
	/* In it, as the trace has them: a text, maybe shortened by the profiler. */
	struct fsdp_span ranks;
	/* Number within the group; it may point into `digits`: do not copy the struct. */
	struct fsdp_span seq;
	/* Output of an all-gather, input of the others: what nccl-tests call the size. */
	int64_t bytes;
	/* Number of ranks of the group. */
	int64_t group_size;
	/* With options.spans: of dur_ns, while nothing computes; FSDP_ABSENT: not on the
	 * device. */
	int64_t exposed_ns;
	/* The number of the step it is of, or FSDP_ABSENT. */
	int64_t step;
	char digits[12]; /* internal */
};

/** Those of a trace, in order of start; fsdp_recording_collective shows them. */
struct fsdp_collectives;

/**
 * How the device spent its time. What runs at once on several streams counts once:
 * each number is the length of a union of intervals, so that busy_ns is at most the
 * sum of the three below it, overlap_ns + exposed_ns is comm_busy_ns, and idle_ns +
 * busy_ns is span_ns.
 */
struct fsdp_device_times {
	/* First start to last end. */
	int64_t span_ns;
	/* Busy with anything, */
	int64_t busy_ns;
	/* or with nothing. */
	int64_t idle_ns;
	/* Busy with collectives, */
	int64_t comm_busy_ns;
	/* with kernels that compute, */
	int64_t compute_busy_ns;
	/* with copies and sets. */
	int64_t mem_busy_ns;
	/* With collectives and kernels at once: communication that costs no time of its
	 * own. */
	int64_t overlap_ns;
	/* With collectives and no kernel: the time that faster communication could
	 * save. FSDP_ABSENT in `base` and in steps: the host has the collectives,
	 * and it is not known. */
	int64_t exposed_ns;
};

/** A time in which a device was busy; the end is not inside. */
struct fsdp_busy_span {
	/* Both on the clock of its recording: nanoseconds since its base_ns. */
	int64_t begin_ns, end_ns;
};

/** A step of the profiler's schedule, the span "ProfilerStep#N". Work of the device
 * belongs to the step in which the host launched it, though it may run later; all
 * else to the step in which it begins. */
struct fsdp_step {
	/* Its number as in its name, its start since fsdp_recording.base_ns, and its
	 * length on the host. */
	int64_t step, ts_ns, dur_ns;
	/* What is of it, by type. */
	const struct fsdp_tally *types;
	size_t type_count;
	/* Calls of the runtime on the host that allocate or free memory, by name:
	 * cudaMalloc in a step after the first one means that a pool grows. */
	const struct fsdp_tally *allocs;
	size_t alloc_count;
	/* There is work on the device, and `device` counts. */
	bool has_device;
	/* Between the first and the last of it. */
	struct fsdp_device_times device;
	/* From its begin to its end, the last to the end of the last work, how long the
	 * device did nothing. */
	int64_t idle_ns;
};

/** What was spent on something in one step: a cell of the tables that
 * fsdp_recordings_compare makes its samples from. */
struct fsdp_step_time {
	/* Its number; FSDP_ABSENT: in none. */
	int64_t step;
	/* Calls in that step. */
	uint64_t count;
	/* Their durations added up: calls at the same time count each. */
	int64_t ns;
	/* Of collectives, while nothing computes; FSDP_ABSENT: no kernels recorded */
	int64_t exposed_ns;
};

/** Of steps in which there is something, by number. */
struct fsdp_step_list {
	/* Ascending by step, that of no step first. */
	const struct fsdp_step_time *times;
	size_t count;
};

/** When a unit is used. */
enum fsdp_unit_phase {
	/* In the forward of the model. */
	FSDP_PHASE_FORWARD,
	/* In its backward, where parameters are gathered again if they were freed. */
	FSDP_PHASE_BACKWARD,
	/* Outside of both, or not recorded. */
	FSDP_PHASE_NONE,
};

/** "forward", "backward"; NULL for FSDP_PHASE_NONE. Static. */
FSDP_API const char *fsdp_unit_phase_name(enum fsdp_unit_phase phase);

/** The gathers, or the reductions, of a unit in one phase. `count` is how often FSDP
 * asked for one, `kernels` how many collectives that took; the rest is of these. */
struct fsdp_unit_collectives {
	/* Requests by FSDP, and collectives that ran for them. */
	uint64_t count, kernels;
	/* Kernels on the stream that computes most, where they cannot overlap with it. */
	uint64_t on_compute_stream;
	/* Their time together. */
	int64_t ns;
	/* Of that, while nothing computes; each for itself. FSDP_ABSENT: no
	 * kernels recorded */
	int64_t exposed_ns;
	/* Of that, of reductions after which nothing computes until the last one of the
	 * step begins. */
	int64_t exposed_last_ns;
	/* With options.by_step, of one recording; else empty. */
	struct fsdp_step_list by_step;
};

/** Texts in order, each once. */
struct fsdp_unit_texts {
	/* Each lives as long as the set. */
	const struct fsdp_span *texts;
	size_t count;
};

/**
 * What one unit of FSDP costs in one phase. FSDP2 writes the names of its units
 * into traces since PyTorch 2.5; of FSDP1 the units of a forward are counted in
 * their order, "#0" is the root, and those of a backward are not known.
 */
struct fsdp_unit_times {
	/* Its name, empty for the root; absent: not known. */
	struct fsdp_span unit;
	enum fsdp_unit_phase phase;
	/* Size of the shard mesh of this group of its parameters, or FSDP_ABSENT: it has
	 * one group */
	int64_t pg;
	/* All-gathers of its parameters, and reductions of its gradients:
	 * reduce-scatters, and the all-reduces that follow them with HSDP. */
	struct fsdp_unit_collectives gathers, reduces;
	/* Gathers that were asked for ahead of the unit's own turn. */
	uint64_t prefetched;
	/* Gathers that were the first of a step: nothing runs that they could overlap
	 * with. */
	uint64_t firsts;
	/* Times that its parameters were freed after the backward. */
	uint64_t reshards;
	/* Times that its forward ran. */
	uint64_t forwards;
	/* Process groups of the kernels. */
	struct fsdp_unit_texts groups;
	/* Streams on which they ran. */
	struct fsdp_unit_texts streams;
};

/** Gathers and reductions that are of no unit, and their time: those outside of the
 * annotations that FSDP writes. */
struct fsdp_time_without_unit {
	/* Collectives. */
	uint64_t gathers, reduces;
	/* Their durations added up. */
	int64_t gather_ns, reduce_ns;
};

/** How the units of a trace are distinguished. */
enum fsdp_unit_source {
	/* Not at all: the trace has no annotations of FSDP. */
	FSDP_UNITS_ABSENT,
	/* By name: FSDP2 since PyTorch 2.5. */
	FSDP_UNITS_NAMED,
	/* Not at all: FSDP2 before that annotates without names. */
	FSDP_UNITS_OLD,
	/* By their order in the forward. */
	FSDP_UNITS_FSDP1,
};

/** What a kernel does: collectives and copies by what they count as, the others by
 * words in their names. */
enum fsdp_kernel_class {
	/* Products of matrices, and convolutions that are carried out so. */
	FSDP_KERNEL_GEMM,
	/* Attention in one kernel. */
	FSDP_KERNEL_ATTENTION,
	/* One element at a time; mostly bound by memory. */
	FSDP_KERNEL_ELEMENTWISE,
	/* Sums, norms, softmax. */
	FSDP_KERNEL_REDUCTION,
	/* Copies and sets. */
	FSDP_KERNEL_COPY,
	/* Collectives. */
	FSDP_KERNEL_COMMUNICATION,
	/* Names without a known word. */
	FSDP_KERNEL_OTHER,
	FSDP_KERNEL_CLASS_COUNT
};

/** "gemm", "attention", "elementwise", "reduction", "copy", "communication",
 * "other"; NULL for anything else. */
FSDP_API const char *fsdp_kernel_class_name(enum fsdp_kernel_class kernel_class);

/** What the device did under one name on one stream: kernels, copies, sets and
 * collectives. Their times added up can be longer than the device was busy, as streams
 * run at once. */
struct fsdp_kernel_times {
	/* As it is recorded; absent: the names beyond the limit `kernels` together */
	struct fsdp_span name;
	enum fsdp_kernel_class kernel_class;
	/* Its time is of the type "compute". */
	bool computes;
	/* Launches that the trace has. */
	uint64_t count;
	/* Of these on the stream that computes most. */
	uint64_t on_compute_stream;
	/* Their time together. */
	int64_t ns;
	/* With options.by_step; else empty. */
	struct fsdp_step_list by_step;
};

/** Why a device is idle: what the thread did that launched what comes next, after
 * the gap had begun. Of several at once the first one counts. */
enum fsdp_idle_cause {
	/* It waited for the device: a synchronisation, or .item(). */
	FSDP_IDLE_SYNCHRONISATION,
	/* It allocated or freed memory of the device. */
	FSDP_IDLE_ALLOCATION,
	/* It was in a call that copies. */
	FSDP_IDLE_COPY,
	/* It was in a collective. */
	FSDP_IDLE_COLLECTIVE,
	/* It asked its data loader for a batch. */
	FSDP_IDLE_DATA_LOADER,
	/* It was in operators and launches; or the launch took this long to arrive */
	FSDP_IDLE_LAUNCH,
	/* Nothing of these: Python, or nothing that is recorded. */
	FSDP_IDLE_HOST,
	/* What comes next was launched before the gap began: the device itself took that
	 * long. */
	FSDP_IDLE_QUEUED,
	/* The launch is not recorded. */
	FSDP_IDLE_UNKNOWN,
	FSDP_IDLE_CAUSE_COUNT
};

/** "synchronisation", "allocation", "copy", "collective", "data_loader", "launch",
 * "host", "queued", "unknown"; NULL for anything else. */
FSDP_API const char *fsdp_idle_cause_name(enum fsdp_idle_cause cause);

/** How long a device was idle for one cause before one kernel or copy on one stream. All
 * together are its idle_ns. */
struct fsdp_idle_time {
	enum fsdp_idle_cause cause;
	/* Name of what ended the gaps; absent: beyond the limit `kernels`. */
	struct fsdp_span kernel;
	/* Gaps in which this was a part, */
	uint64_t gaps;
	/* the time of these parts together, and of the longest of them. */
	int64_t ns, longest_ns;
};

/* ---- a recording ---- */

/** Source of the rank of a recording; the first one that has it, in this order. */
enum fsdp_rank_source {
	/* Its content. */
	FSDP_RANK_FROM_FILE,
	/* options.rank_of. */
	FSDP_RANK_FROM_REGEX,
	/* The name of the file. */
	FSDP_RANK_FROM_NAME,
	/* Its position among the paths. */
	FSDP_RANK_FROM_POSITION,
};

/** "distributedInfo", "rank-regex", "name", "position". Static. */
FSDP_API const char *fsdp_rank_source_name(enum fsdp_rank_source from);

/**
 * One recording: a file, or standard input. Lists that its kind does not have are
 * empty, their pointers NULL, and its counts are 0. What could not be used is
 * counted, and each kind of it is a finding (fsdp_recordings_finding) with the
 * place of the first.
 */
struct fsdp_recording {
	/* It decides which of the fields below are filled. */
	enum fsdp_recording_kind kind;
	/* As the caller gave it. */
	const char *path;
	/* Its rank, from the source `rank_from`. If no source has it: its position,
	 * from 0. */
	int64_t rank;
	/* Ranks of the job, or FSDP_ABSENT. */
	int64_t world_size;
	/* Where the rank is from. */
	enum fsdp_rank_source rank_from;
	/* Index of its path among those given to fsdp_recordings_read. */
	size_t input;
	/* The run that it is of, from 1. */
	uint64_t run;
	/* It ends in the middle: of a line, or of the document. */
	bool truncated;
	/* Reading stopped because options.progress said so. */
	bool interrupted;
	/* TORCH_DISTRIBUTED_DEBUG of the run. */
	struct fsdp_span debug_level;
	/* Lines of an unknown kind. */
	uint64_t skipped;
	/* Numbers of lines that cannot be read. */
	const uint64_t *bad_lines;
	size_t bad_line_count;

	/* by type, in the order of reports; of logs and profiles too */
	const struct fsdp_type_times *types;
	size_t type_count;

	/* Of profiles, in the order of lines: what dump_and_reset printed, */
	const struct fsdp_dump *dumps;
	size_t dump_count;
	/* and uses of SimpleProfiler that PyTorch refuses. */
	const struct fsdp_profile_problem *problems;
	size_t problem_count;
	/* Types that were never dumped, and what was spent on them. */
	const struct fsdp_dump_result *residual;
	size_t residual_count;
	/* Types with regions that did not end. */
	const struct fsdp_span *still_open;
	size_t still_open_count;

	/* "object", "list": how it begins. */
	const char *root;
	/* Of the collectives: "nccl", "gloo". */
	struct fsdp_span backend;
	/* What event times count from, since 1970; FSDP_ABSENT: not recorded. */
	int64_t base_ns;
	/* The first start of all events that count, */
	int64_t first_ts_ns;
	/* and the last end. */
	int64_t last_end_ns;
	/* Events that count. */
	uint64_t events;
	/* Of these, kept though something inside was not JSON. */
	uint64_t recovered;
	/* Events that do not count. */
	uint64_t dropped;
	/* Events without usable times. */
	uint64_t bad_dur;
	/* Begins and ends (`ph` B and E) without the other. */
	uint64_t unpaired;
	/* Offset of bytes after the end of the document, or FSDP_ABSENT. */
	int64_t trailing_data_at;
	/* What was not JSON by kind, events by `ph`, spans by `cat`. */
	const struct fsdp_tally *deviations, *phases, *categories;
	size_t deviation_count, phase_count, category_count;
	/* Of the categories those that are not known here: other devices, mostly. */
	const struct fsdp_tally *unknown;
	size_t unknown_count;
	/* What the type "all" is counted from: "ProfilerStep", "span", "none". */
	const char *all_source;
	/* Where collectives are counted. */
	enum fsdp_comm_layer layer;
	/* Collectives by how their type is known: an index is an enum
	 * fsdp_collective_source. */
	uint64_t resolution[FSDP_BY_COUNT];
	/* There is work on a device, and `device` counts. */
	bool has_device;
	/* How the device spent the time from its first work to its last. */
	struct fsdp_device_times device;
	/* The same within the steps, from the begin of the first to the end of the last
	 * or of the last work; without steps within the complete recording. */
	struct fsdp_device_times base;
	/* Busy with collectives on the host, or FSDP_ABSENT. */
	int64_t host_comm_busy_ns;
	/* In which the thread of the steps asked its data loader for a batch. */
	int64_t data_loader_ns;
	/* In order of start. Empty if the program did not call profiler.step(). */
	const struct fsdp_step *steps;
	size_t step_count;
	/* What is of no step, by type, where there are steps. */
	const struct fsdp_tally *outside;
	size_t outside_count;
	/* Work of the device whose launch is not recorded: it is put into the step in
	 * which it begins. */
	uint64_t by_start;
	/* Calls like cudaLaunchKernel, and those of them without a recorded kernel:
	 * the profiler lost it, or it was captured into a CUDA graph. */
	uint64_t launches;
	uint64_t launches_without_work;
	/* For fsdp_recording_collective. */
	const struct fsdp_collectives *collectives;
	size_t collective_count;
	/* torch_npu wrote it: its device processes are not read. */
	bool is_ascend;
	/* The job has process groups of different ranks, as HSDP and pipelines have. */
	bool has_several_groups;
	/* Reduce-scatters are counted as all-reduces: gloo carries them out so. */
	bool reduce_scatter_as_all_reduce;

	/* with options.spans, by time and disjoint: when the device computed, and when it
	 * was busy with collectives and computed nothing */
	const struct fsdp_busy_span *computing, *exposed;
	size_t computing_count, exposed_count;
	/* By busy time in `computing`: how long the device computed before it. */
	const int64_t *computed_ns;

	/* with options.kernels, in no order */
	const struct fsdp_kernel_times *kernels;
	size_t kernel_count;

	/* with options.idle, in no order */
	const struct fsdp_idle_time *idles;
	size_t idle_count;
	/* with options.idle and options.by_step, of each cause: a gap is of the step that
	 * what ends it is of */
	struct fsdp_step_list idle_by_step[FSDP_IDLE_CAUSE_COUNT];

	/* with options.units, in the order of names */
	const struct fsdp_unit_times *units;
	size_t unit_count;
	/* How its units are distinguished. */
	enum fsdp_unit_source units_from;
	/* Time outside of all of them. */
	struct fsdp_time_without_unit unassigned;

	/* Over the ranks of a run, if their clocks agree: what it waited for the last
	 * rank of each collective, */
	int64_t wait_ns;
	/* of that within the steps, or all without steps, */
	int64_t step_wait_ns;
	/* and how often it was the last one itself. */
	uint64_t times_last;

	/* with options.clocks: what is to be added to its times, so that those of all
	 * ranks of a run count from the first start of all. The ranks of a collective
	 * leave it at about the same time, so clocks are put where their ends meet, each
	 * by the median over all collectives that it shares. */
	int64_t offset_ns;
	/* The index of the first recording of those whose clocks are one, by shared
	 * collectives and those that others share with them. What shares none begins
	 * where the first of all begins. */
	size_t clock;
	/* By the index for fsdp_recording_collective: how long it waited on this clock
	 * for the last rank to begin it, at most as long as it took. */
	const int64_t *call_waits;

	/* of each cell of the set's timeline the type that fills most of it, or "idle";
	 * data NULL: unknown. NULL: no timeline */
	const struct fsdp_span *timeline;

	/* Of FSDP_RECORDING_FX_ORDER, else NULL. */
	const struct fsdp_fx_order *fx;
	/* Of FSDP_RECORDING_EXEC_ORDER, else NULL. */
	const struct fsdp_exec_order *order;
	/* Of FSDP_RECORDING_FLIGHT, else NULL. */
	const struct fsdp_flight_dump *flight;
	/* Of FSDP_RECORDING_MEMORY, else NULL. */
	const struct fsdp_memory *memory;
};

/* ---- over ranks ---- */

/**
 * One collective of several ranks. Durations need no common clock; the skews, and
 * which rank was first and last, are as good as the clocks of the hosts agree.
 */
struct fsdp_match {
	/* Among all places, also the omitted ones. */
	uint64_t index;
	/* Type, process group, and number within the group; absent where not recorded. */
	struct fsdp_span type, group, seq;
	/* The ranks that took part. */
	const int64_t *ranks;
	size_t rank_count;
	/* Global ranks that began first and last. */
	int64_t first_rank, last_rank;
	/* Last start less first start: what the first rank waited for the last one. */
	int64_t start_skew_ns;
	/* Last end less first end. Ranks leave a collective together, so this is mostly
	 * the error of the clocks. */
	int64_t end_skew_ns;
	/* The shortest of all: the time of moving data, without any waiting. */
	int64_t transfer_ns;
	/* The longest of all. */
	int64_t max_dur_ns;
	/* As fsdp_collective has them: bytes of one rank, and ranks of the group. */
	int64_t bytes, group_size;
};

/**
 * How the collectives of ranks were matched: by their numbers within a process
 * group, if any have both, else by their order within it, else by their order in
 * the trace. Those without are skipped. Point-to-point calls are numbered
 * separately. By order, matching stops where ranks disagree, because all later
 * calls would be compared with the wrong partner. If collectives have no group and
 * the job has several, nothing is matched.
 *
 * A rank that makes the others wait waits least itself: it is the straggler if it
 * waits less than half of what the others wait on average. Waits of one rank in
 * collectives that run at the same time count once.
 *
 * Ranks wait inside of a collective, so no wait is longer than the call that it is
 * in. If starts of one collective are farther apart than the longest recording
 * lasts, or most calls would be shorter than their waits, the clocks of the hosts
 * differ: then `aligned` is false, no rank has a wait, and no rank is a straggler.
 *
 * A recording whose reading was interrupted lacks what came later: then nothing is
 * matched.
 */
struct fsdp_matching {
	/* "seq", "group", "position"; NULL: nothing was. */
	const char *by;
	/* Collectives of all ranks that lack what it goes by. */
	uint64_t left_out;
	/* Of these sends and receives in groups of more than two ranks: each rank numbers
	 * its own. */
	uint64_t point_count;
	/* Index of the place where ranks disagree, or FSDP_ABSENT, */
	int64_t stopped;
	/* and why: "missing" (a rank has nothing there), "type". */
	const char *stopped_why;
	/* The rank that waits least, or FSDP_ABSENT: none stands out. */
	int64_t straggler;
	/* The clocks agree; also with a single rank. */
	bool aligned;
	/* The largest start_skew_ns of all; 0: none. */
	int64_t most_skew_ns;
	/* Index of that match. */
	uint64_t longest_skew;
	/* In order, up to where it stopped. */
	const struct fsdp_match *matches;
	size_t match_count;
};

/** One axis for all ranks, if their clocks can be compared. It is cut into cells of
 * equal length; the last one may reach beyond the end of the recordings. */
struct fsdp_timeline {
	/* Since 1970; FSDP_ABSENT: each rank counts from its own start. */
	int64_t begin_ns;
	/* Length of one cell, above 0. */
	int64_t cell_ns;
	/* 0: none. */
	size_t cell_count;
};

/* ---- the set ---- */

/**
 * Reads all of them; "-" is standard input. The ranks of one run belong into one
 * set. The caller owns the set. Memory follows the bytes that are read, not what
 * they unpack to, under the ceiling `memory`. A recording that cannot be read is
 * skipped and has an error (fsdp_recordings_error). It fails, with the path in the
 * error, if none can be read, or if memory or a ceiling was used up, which all
 * share. What is broken inside of one is a finding. The paths must live as long as
 * the set.
 */
FSDP_API bool fsdp_recordings_read(const char *const *paths, size_t count,
	const struct fsdp_recording_options *options,
	struct fsdp_recordings **ret_recordings, struct fsdp_error **ret_error);

/** Releases the set with everything that was taken from it, its runs included;
 * NULL is fine. */
FSDP_API void fsdp_recordings_free(struct fsdp_recordings *recordings);

/** Number of recordings that could be read and were of a wanted kind; at least 1. */
FSDP_API size_t fsdp_recording_count(const struct fsdp_recordings *recordings);

/** In the order of the paths; NULL past the end. */
FSDP_API const struct fsdp_recording *fsdp_recording(
	const struct fsdp_recordings *recordings, size_t index);

/** The nth by rank; ties in the order of the paths. NULL past the end. */
FSDP_API const struct fsdp_recording *fsdp_recording_by_rank(
	const struct fsdp_recordings *recordings, size_t nth);

/** Paths that could not be read, in their order; each error has its path and lives
 * as long as the set. NULL past the end. Of a run there are none. */
FSDP_API size_t fsdp_recordings_error_count(const struct fsdp_recordings *recordings);
FSDP_API const struct fsdp_error *fsdp_recordings_error(
	const struct fsdp_recordings *recordings, size_t nth);

/** The paths of recordings of kinds that were not wanted, in their order; NULL past
 * the end. Of a run there are none. */
FSDP_API const char *fsdp_recordings_skipped(
	const struct fsdp_recordings *recordings, size_t nth);

/**
 * Two recordings of one rank are of two runs: before and after a change, or two
 * cycles of the profiler. Times of traces are compared and not added up, and orders
 * of units are compared among the ranks of a run. The nth trace of each rank, by
 * the time of its begin if that is recorded, else in the order of the paths,
 * belongs to the nth run; what a rank lacks is found by the nearest begin. Mostly
 * there is one run.
 */
FSDP_API size_t fsdp_recordings_run_count(const struct fsdp_recordings *recordings);

/**
 * The recordings of one run, a set that answers all questions for itself; the set
 * itself if there is one run. A set of several answers for its first run where it
 * is asked for types, the matching or the timeline. nth must be below the count. It
 * lives, and is freed, with the set that it is of.
 */
FSDP_API const struct fsdp_recordings *fsdp_recordings_run(
	const struct fsdp_recordings *recordings, size_t nth);

/** Fills *ret_collective with that of an index, which must be below its
 * collective_count. Its texts live as long as the set, but seq: as *ret_collective. */
FSDP_API void fsdp_recording_collective(const struct fsdp_recording *recording,
	size_t index, struct fsdp_collective *ret_collective);

/** Whether a type is one of the six that SimpleProfiler names, in the release that
 * the head of this file has. */
FSDP_API bool fsdp_type_is_named(struct fsdp_span type);

/**
 * What recordings say together: of a set of several runs, what the first run says.
 * It lives as long as the set.
 */
struct fsdp_summary {
	/* Times by type, in the order of reports: the six of SimpleProfiler first. They
	 * are added up over ranks, so that a collective of 8 ranks counts 8 times. */
	const struct fsdp_type_times *types;
	size_t type_count;
	/* The collectives of traces; empty where there are none. */
	struct fsdp_matching matching;
	/* With options.units, what the units of all traces cost together, as
	 * fsdp_recording.units: counts and times are added up over ranks. */
	const struct fsdp_unit_times *units;
	size_t unit_count;
	/* With options.clocks: from the first start of all to the last end. */
	int64_t span_ns;
	/* The axis of all strips (fsdp_recording.timeline), with options.timeline; else,
	 * or if the clocks cannot be compared, it has no cells. */
	struct fsdp_timeline timeline;
	/* Where orders of handles diverge (order.h): as PyTorch finds it in the first
	 * iteration, and over all iterations, which it does not compare. Never NULL. */
	const struct fsdp_divergence *divergence;
	const struct fsdp_first_diff *first_diff;
};

/** Never NULL. */
FSDP_API const struct fsdp_summary *fsdp_recordings_summary(
	const struct fsdp_recordings *recordings);

/** What the recordings of a set, or of a run, have in all. */
struct fsdp_totals {
	/* Steps of all ranks. */
	size_t step_count;
	/* Ranks of the job, or FSDP_ABSENT. */
	int64_t world_size;
	/* Where collectives are counted: on the device, if any recording has them there.
	 */
	enum fsdp_comm_layer layer;
	/* Collectives, and these by how their type is known (fsdp_recording.resolution).
	 */
	uint64_t collectives, resolution[FSDP_BY_COUNT];
	/* Some recording has work on a device; is a trace; has something that takes time:
	 * an operator, a kernel, a collective, a region of SimpleProfiler. */
	bool has_device, has_traces, has_times;
	/* Of traces: events that count, events that do not, and those of no category, as
	 * other profilers write them. */
	uint64_t events, dropped, bare;
	/* Dumps of SimpleProfiler. */
	uint64_t dumps;
	/* With options.units: what is of no unit. */
	struct fsdp_time_without_unit unassigned;
};

/** Never fails. */
FSDP_API struct fsdp_totals fsdp_recordings_totals(
	const struct fsdp_recordings *recordings);

/** What a step costs over the ranks of a run. */
struct fsdp_step_cost {
	/* The run, from 1, and the number of the step. */
	uint64_t run;
	int64_t step;
	/* How many ranks have it, and how many of these with work on a device. */
	uint64_t ranks, devices;
	/* Its length: the mean, the longest, and the first rank that has the longest. */
	int64_t mean_ns, max_ns, max_rank;
	/* Means over devices: fsdp_step.device and idle_ns. FSDP_ABSENT: no device; the
	 * first two also where the host has the collectives. */
	int64_t comm_ns, exposed_ns, compute_ns, idle_ns;
};

/** The steps of each run by number. The caller frees the list, in any case. False: out of
 * memory. */
FSDP_API bool fsdp_recordings_steps(const struct fsdp_recordings *recordings,
	struct fsdp_step_cost **ret_steps, size_t *ret_count);

/* ---- what a step costs, and where time is lost ---- */

/** What a rank does longer than the others, which wait for it. */
enum fsdp_straggler_cause {
	/* The recordings do not show it. */
	FSDP_STRAGGLER_UNKNOWN,
	/* It waits for its data loader. */
	FSDP_STRAGGLER_DATA,
	/* Its device idles until the host has work for it. */
	FSDP_STRAGGLER_HOST,
	/* It copies more. */
	FSDP_STRAGGLER_COPIES,
	/* Its kernels take longer. */
	FSDP_STRAGGLER_COMPUTE,
};

/** "data loader", "host", "copies", "compute"; NULL for anything else. Static. */
FSDP_API const char *fsdp_straggler_cause_name(enum fsdp_straggler_cause cause);

/** What a step costs: means over all ranks and steps of a run. Shares are per cent
 * of the time of the devices unless noted. */
struct fsdp_cost {
	/* Steps of all ranks; 0: unknown. */
	uint64_t steps;
	/* They are steps; else each is a complete recording. */
	bool marked;
	/* Length of a step: mean, shortest, longest, and the rank that had the longest.
	 */
	int64_t mean_ns, min_ns, max_ns, max_rank;
	/* Kernels were recorded, and the shares are known; the only kernels are those of
	 * collectives. */
	bool has_device, only_calls;
	/* Busy with kernels that compute; with collectives and no such kernel; with
	 * copies alone, which is the rest of 100; with nothing. */
	double compute, exposed, copies, idle;
	/* In the data loader: nanoseconds per step, and as a share of the time of the
	 * ranks, in per cent. */
	double data_ns, data;
	/* Of a device, in what the shares are of. */
	int64_t busy_ns, span_ns;
	/* As in fsdp_matching.straggler; and the same if its waits are worth naming. */
	int64_t least_waiting, straggler;
	/* What the others wait beyond the waits of this rank, or all for each other, and
	 * the time of their steps, both in nanoseconds and of all ranks together; the
	 * first as a share of the second, in per cent. */
	int64_t waits_ns, waiting_ns;
	double waiting;
	/* The share is worth naming. */
	bool waits;
	/* What the straggler does longer than the others, and how much, in nanoseconds
	 * per step. */
	enum fsdp_straggler_cause cause;
	double cause_ns;
	/* The step with most of that, or FSDP_ABSENT. */
	int64_t cause_step;
	/* Kernels were recorded, but collectives on the host alone, so many nanoseconds
	 * per step: what of them is exposed is not known. */
	bool comm_on_host;
	double host_comm_ns;
};

/** The cost of a step of one run (fsdp_recordings_run). It never fails: what the
 * recordings do not show is 0, FSDP_ABSENT or UNKNOWN. */
FSDP_API struct fsdp_cost fsdp_recordings_cost(const struct fsdp_recordings *run);

/** A conclusion, with its premises checked. */
struct fsdp_loss {
	/* "waiting", "data_loader", "idle", "exposed", "none"; NULL: not known. */
	const char *kind;
	/* Global rank for which the others wait, or FSDP_ABSENT. */
	int64_t rank;
	/* What it costs, in per cent of the time. */
	double percent;
	/* For people, zero-terminated. It may contain names of the input, which are not
	 * escaped. Empty: no conclusion. */
	char sentence[768];
};

/** Whether more than one launch in a hundred has no kernel: shares of time are not
 * known then, and nothing is concluded from them. */
FSDP_API bool fsdp_recording_lacks_kernels(const struct fsdp_recording *recording);

/** Whether pages of memory are mapped in some step, as the allocator of PyTorch does with
 * expandable_segments. */
FSDP_API bool fsdp_recordings_map_memory(const struct fsdp_recordings *run);

/** Whether none of a run does, and nothing else is missing that may be what was
 * lost. */
FSDP_API bool fsdp_recordings_are_complete(const struct fsdp_recordings *run);

/** The largest loss of a run; with options.spans the type of what is exposed, with
 * options.units its cause. */
FSDP_API void fsdp_recordings_loss(const struct fsdp_recordings *run,
	const struct fsdp_cost *cost, struct fsdp_loss *ret_loss);

/** With options.units: which collectives of units cost most, and why; without
 * kernels, which take longest. The sentence is empty if nothing follows from the
 * recordings. */
FSDP_API void fsdp_recordings_unit_loss(
	const struct fsdp_recordings *run, struct fsdp_loss *ret_loss);

/** With options.units: the units that are on the stream that computes (0), are
 * exposed and never issued ahead (1), and are kept after the forward (2). */
enum { FSDP_UNIT_NOTES = 3 };
FSDP_API void fsdp_recordings_unit_note(
	const struct fsdp_recordings *run, unsigned note, struct fsdp_loss *ret_note);

/** "(root)", "layers.0"; "layers.0 [4]" where the unit has several groups of
 * parameters: the size of its shard mesh. Returns `room`. */
enum { FSDP_UNIT_LABEL_ROOM = 256 };
FSDP_API const char *fsdp_unit_label(
	const struct fsdp_unit_times *unit, char room[FSDP_UNIT_LABEL_ROOM]);

/** That calls which allocate memory of the device (cudaMalloc, cudaFree) cost a
 * share of the steps. The sentence is empty if they do not, or the run has no
 * steps. */
FSDP_API void fsdp_recordings_allocator_loss(
	const struct fsdp_recordings *run, struct fsdp_loss *ret_loss);

/** What of traces is not known, or not as it seems, one sentence each: times of the
 * host, collectives without partners, launches without kernels, events of unknown
 * kinds. `add` is called for each of them; the sentence is valid during the call. */
FSDP_API void fsdp_recordings_notes(const struct fsdp_recordings *recordings,
	void (*add)(void *context, const char *sentence), void *context);

/* ---- tables ---- */

/** What rows are about. Each table needs the option of fsdp_recording_options in
 * brackets. */
enum fsdp_row_table {
	/* The parts of a step. */
	FSDP_ROWS_OF_STEP,
	/* Types of calls: all_gather, compute, … */
	FSDP_ROWS_OF_TYPE,
	/* The parts of a step, by rank. */
	FSDP_ROWS_OF_RANK,
	/* Types that SimpleProfiler's users name. */
	FSDP_ROWS_OF_REGION,
	/* By process group, type and place in the step. */
	FSDP_ROWS_OF_COLLECTIVE,
	/* FSDP units, forward and backward apart (units). */
	FSDP_ROWS_OF_UNIT,
	/* Collectives by process group, type and size. */
	FSDP_ROWS_OF_GROUP,
	/* Kernels by name (kernels). */
	FSDP_ROWS_OF_KERNEL,
	/* Gaps by cause and by the kernel that ends them (idle). */
	FSDP_ROWS_OF_IDLE,
	/* Gaps by cause and rank (idle). */
	FSDP_ROWS_OF_IDLE_CAUSE,
	FSDP_ROWS_OF_COUNT
};

/** "step", "type", ..., "idle_cause"; NULL for anything else. */
FSDP_API const char *fsdp_row_table_name(enum fsdp_row_table table);

/** What is added up has one key. Texts live as long as the recordings. */
struct fsdp_row_key {
	/* The table of the row, which decides what the other fields mean. */
	enum fsdp_row_table table;
	/* Type, unit, process group or kernel; of compared gaps the cause. */
	struct fsdp_span name;
	/* Of the calls of a group: "all_gather", … */
	struct fsdp_span type;
	/* enum fsdp_kernel_class, or enum fsdp_idle_cause. */
	unsigned kind;
	/* Of a kernel: its time is of the type "compute". */
	bool computes;
	/* Of one call; ranks of its group, or of the shard mesh of a unit. */
	int64_t bytes, size;
	/* The rank, or FSDP_ABSENT: all. */
	int64_t rank;
	/* Of calls of a group and type in a step, from 1; or FSDP_ABSENT: all. */
	int64_t nth;
	/* Of a unit, or NULL. */
	const char *phase;
	/* "time"; of steps "length", "compute", ...; of units "gather", ... */
	const char *measure;
};

/** One row of a table: what has one key in one run. */
struct fsdp_row {
	struct fsdp_row_key key;
	/* From 1. */
	uint64_t run;
	/* Calls, and those of them on the stream that computes most. */
	uint64_t count, on_compute_stream;
	/* Time of all calls, of that exposed (FSDP_ABSENT: no kernels recorded), and of
	 * the longest call. */
	int64_t ns, exposed_ns, longest_ns;
	/* Of the time of all kernels that compute, in per cent; below 0: absent. */
	double share;
	/* Of collectives, in 10^9 bytes per second: bytes by time, and that times the
	 * factor of nccl-tests for what the bus carries. Below 0: absent. */
	double algbw, busbw;
	size_t sample; /* internal */
};

/** Rows that the caller owns: free(items). */
struct fsdp_row_list {
	struct fsdp_row *items;
	size_t count;
};

/** Rows of a table of each run, in each what takes most first; causes by rank. Needs
 * the option that the table is of. The caller frees the items, in any case. False:
 * out of memory. */
FSDP_API bool fsdp_recordings_group(const struct fsdp_recordings *recordings,
	enum fsdp_row_table table, struct fsdp_row_list *ret_rows);

/** The same added up by kind in each run: classes of kernels, causes of gaps. The
 * caller frees the items of both lists, in any case. False: out of memory. */
FSDP_API bool fsdp_rows_by_kind(
	const struct fsdp_row_list *rows, struct fsdp_row_list *ret_kinds);

/** Whether a type is none of the six, no collective, no copy and no kernel. */
FSDP_API bool fsdp_type_is_region(struct fsdp_span type);

/** Over samples: the steps of a run, each the mean over its ranks; a run without
 * steps is one. Without samples all times are FSDP_ABSENT. */
struct fsdp_row_times {
	/* Calls in all samples. */
	uint64_t count;
	/* Of a sample. */
	int64_t mean_ns, min_ns, max_ns;
};

/** The mean of now in the range of before: a mean outside of the range of all steps
 * before is more than their noise. */
enum fsdp_row_place {
	/* Fewer than two samples. */
	FSDP_COMPARED_UNKNOWN,
	/* From the shortest to the longest of before, both included. */
	FSDP_COMPARED_INSIDE,
	/* Shorter than all of before. */
	FSDP_COMPARED_BELOW,
	/* Longer than all of before. */
	FSDP_COMPARED_ABOVE,
};

/** One key in both sets; a side without it has count 0 and absent times. */
struct fsdp_row_pair {
	struct fsdp_row_key key;
	/* Per sample: a step, or a run without steps. */
	struct fsdp_row_times before, now;
	/* Whether the difference is more than the noise of before. */
	enum fsdp_row_place place;
};

/** Tables of two sets next to each other. */
struct fsdp_comparison {
	/* Some sample of before is a step. */
	bool per_step;
	/* Of before; the most ranks of a run. */
	uint64_t runs, ranks;
	/* Samples of each set; times of a pair are means over them. */
	uint64_t before_samples, now_samples;
	/* By table; steps part by part, of others what changed most first. */
	struct fsdp_row_pair *rows;
	size_t count;
};

/** Tables of two sets that were read with options.by_step; tables: bits 1 << table.
 * What is of no step counts in no sample. The caller frees the rows, in any case,
 * and keeps both sets as long. False: out of memory. */
FSDP_API bool fsdp_recordings_compare(const struct fsdp_recordings *before,
	const struct fsdp_recordings *now, unsigned tables,
	struct fsdp_comparison *ret_comparison);

/** Findings of the recordings in the order of the paths, then those about all of
 * them: what is truncated, invalid or contradictory in the files. NULL past the
 * end; they live as long as the set. */
FSDP_API size_t fsdp_recordings_finding_count(const struct fsdp_recordings *recordings);
FSDP_API const struct fsdp_finding *fsdp_recordings_finding(
	const struct fsdp_recordings *recordings, size_t index);

/** What was found beyond the ceiling `findings`, in the same order; all zero past
 * the end. */
FSDP_API size_t fsdp_recordings_omitted_count(const struct fsdp_recordings *recordings);
FSDP_API struct fsdp_omitted fsdp_recordings_omitted(
	const struct fsdp_recordings *recordings, size_t index);

/**
 * The bandwidth of a collective in bytes/ns (10^9 a second), rounded to six decimals,
 * halves up: what the algorithm moves, and what the bus sees by the conventions of
 * nccl-tests (below 0 for a type that has none). False, and both are below 0, if one
 * of the numbers is absent or not positive.
 */
FSDP_API bool fsdp_bandwidth(const struct fsdp_span *type, int64_t bytes,
	int64_t group_size, int64_t ns, double *ret_algbw, double *ret_busbw);

#ifdef __cplusplus
}
#endif

#endif
