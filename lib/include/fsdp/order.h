/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Recordings of a training run that contain orders: modules (torch.fx), handles of
 * FSDP1, and collectives (Flight Recorder). Whether ranks do the same, and which
 * rank made the others hang.
 *
 * Ranks that call different collectives, or the same in another order, wait for
 * each other until a timeout ends the job. A Flight Recorder dump has the last
 * collectives of one rank; the comparison of all dumps names the rank to look at.
 *
 * The lists of fx and handles are those of torch/distributed/fsdp/_trace_utils.py
 * and _exec_order_utils.py; dumps have the fields of
 * torch/csrc/distributed/c10d/FlightRecorder.hpp and FlightRecorderDetail.hpp;
 * lines of logs are those of ProcessGroupNCCL.cpp. Everything belongs to the set of
 * recordings (trace.h), so there is nothing to release here.
 *
 * Example (testdata/traces/flight_recorder/nccl_stop_w8/nccl_trace_rank_?):
 *
 *     bool print_culprits(const char *const *paths, size_t count,
 *         struct fsdp_error **ret_error)
 *     {
 *         struct fsdp_recording_options options = { .size = sizeof options };
 *         struct fsdp_recordings *set = NULL;
 *         const struct fsdp_flight *flight;
 *
 *         if (!fsdp_recordings_read(paths, count, &options, &set, ret_error))
 *             return false;
 *         flight = fsdp_recordings_flight(set);
 *         if (flight != NULL) {
 *             printf("%s in %.*s %" PRId64 "\n",
 *                 fsdp_flight_verdict_name(flight->verdict),
 *                 (int)flight->op.size, (const char *)flight->op.data, flight->seq);
 *             for (size_t i = 0; i < flight->culprits.count; i++)
 *                 printf("look at rank %" PRId64 "\n", flight->culprits.list[i]);
 *         }
 *         fsdp_recordings_free(set);
 *         return true;
 *     }
 *
 * It prints:
 *
 *     stuck in all_gather 9
 *     look at rank 5
 */
#ifndef FSDP_ORDER_H
#define FSDP_ORDER_H

#include <fsdp/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- order of modules ---- */

/*
 * Modules and parameters are called by the numbers that the recording gives them; these
 * are not negative and have no upper bound. A name is absent where none was recorded.
 */

/** A parameter of a module by the name under which a module uses it; one parameter
 * may have several names, if it is shared. */
struct fsdp_named_param {
	/* As attribute of the module: "weight", or with dots of a module inside. */
	struct fsdp_span name;
	/* Its number in the recording. */
	int64_t param;
};

/** The parameters of one module that are used in one go. */
struct fsdp_usage {
	/* Whose they are, by its number in the recording. */
	int64_t module;
	/* In order of use. */
	const struct fsdp_named_param *params;
	size_t param_count;
};

/** What is used while one module runs, in order: its own parameters and those of
 * modules inside. */
struct fsdp_module_usage {
	/* The module that runs, by its number in the recording. */
	int64_t module;
	/* In order of use. */
	const struct fsdp_usage *usages;
	size_t usage_count;
};

/**
 * What _ExecOrderTracer of PyTorch (torch/distributed/fsdp/_trace_utils.py) learns
 * from one symbolic trace of a model; the lists are those of its _ExecutionInfo. An
 * aborted trace has what came before it broke off.
 */
struct fsdp_fx_order {
	/* Class of the model, */
	struct fsdp_span root;
	/* version of PyTorch, */
	struct fsdp_span torch;
	/* and class of the tracer that ran. */
	struct fsdp_span tracer;
	/* Why tracing broke off; absent: it did not. */
	struct fsdp_span aborted;
	/* Names of the arguments of forward that were given a value. */
	const struct fsdp_span *concrete_args;
	size_t concrete_arg_count;
	/* Whether the recording says anything of them, and whether it says null. */
	bool has_concrete_args, concrete_args_null;
	/* In order of use, as often as they are used, */
	const int64_t *modules;
	/* the name of each, and how often it uses parameters while it runs. */
	const struct fsdp_span *module_names;
	const uint64_t *module_uses;
	size_t module_count;
	/* What is used while a module runs: one a module. */
	const struct fsdp_module_usage *usages;
	size_t usage_count;
	/* In order of first use, */
	const int64_t *params;
	/* and the name of each. */
	const struct fsdp_span *param_names;
	/* and the same parameters by their number, ascending. */
	const int64_t *visited;
	size_t param_count;
	/* Parameters that were not used. */
	const struct fsdp_span *never_visited;
	size_t never_visited_count;
	/* Number of the module in which it ended. */
	int64_t current;
};

/* ---- order of handles ---- */

/*
 * Handles are called by their index in fsdp_exec_order.handles. Iterations count from 0:
 * one ends when the recording says that PyTorch's next_iter was called, or at its end.
 */

/** A unit of FSDP1 with a FlatParameter. */
struct fsdp_handle {
	/* As the recording numbers it; other structs have its index instead. */
	int64_t id;
	/* Name of the module that FSDP wraps. */
	struct fsdp_span module;
	/* Its parameters. */
	const struct fsdp_span *fqns;
	size_t fqn_count;
};

/** A way of prefetching: with each handle the ones that come next in one direction
 * are unsharded early. */
struct fsdp_prefetch {
	/* In the backward, else in the forward. */
	bool backward;
	/* How many handles ahead, at least 1. */
	int64_t limit;
};

/** At the end of an iteration; `pre` is shared by all of them. */
struct fsdp_order_snapshot {
	/* From 0. */
	uint64_t iter;
	/* The last line of the recording before it. */
	uint64_t at_line;
	/* Calls of this iteration that PyTorch checked against the first one. */
	uint64_t cursor;
	/* Handles: by first use, and as their forwards end. */
	const int64_t *pre, *post;
	size_t pre_count, post_count;
	/* Of the check: "NONE", "WARNING", "WARNED", as PyTorch's _ExecOrderWarnStatus
	 * has it. After WARNED nothing is checked any more. */
	const char *status;
};

/** PyTorch warns that a forward differs from that of the first iteration, because
 * ranks that gather different parameters at once get wrong results or hang. */
struct fsdp_order_warning {
	/* Its iteration, from 0, and its line in the recording, from 1. */
	uint64_t iter, line;
	/* Index of the handle. */
	int64_t handle;
	/* As PyTorch words it. */
	struct fsdp_span message;
};

/** One change of a handle's pair of states, as indices for fsdp_training_state_name
 * and fsdp_handle_state_name. */
struct fsdp_state_change {
	/* Of the recording, from 1. */
	uint64_t line;
	/* The states that it enters. */
	unsigned training, handle;
	/* PyTorch refuses it (struct fsdp_state_problem). */
	bool problem;
	/* It is that of a prefetch, and not of a forward or backward of its own. */
	bool prefetch;
	/* Iteration in which it happens, from 0. */
	uint64_t iter;
};

/** Members of the two enums of PyTorch. */
enum { FSDP_TRAINING_STATES = 3, FSDP_HANDLE_STATES = 5 };

/** Names of TrainingState (torch/distributed/fsdp/_common_utils.py): "IDLE",
 * "FORWARD_BACKWARD", "SUMMON_FULL_PARAMS". Static; NULL past the end. */
FSDP_API const char *fsdp_training_state_name(unsigned state);

/** Names of HandleTrainingState (the same file): "IDLE", "FORWARD", "BACKWARD_PRE",
 * "BACKWARD_POST", "SUMMON_FULL_PARAMS". Static; NULL past the end. */
FSDP_API const char *fsdp_handle_state_name(unsigned state);

/** The states of one handle in the order of lines. */
struct fsdp_state_lane {
	/* The handle, and its index. */
	const struct fsdp_handle *unit;
	uint64_t handle;
	/* In the order of lines. */
	const struct fsdp_state_change *changes;
	size_t change_count;
	/* How often each state was entered, by its index. */
	uint64_t training_counts[FSDP_TRAINING_STATES], handle_counts[FSDP_HANDLE_STATES];
	/* Changes that were prefetches. */
	uint64_t prefetches;
	/* In which the recording leaves it. */
	unsigned last_training, last_handle;
};

/** A change of states that PyTorch refuses, or that its own checks do not allow. */
struct fsdp_state_problem {
	/* Of the recording, from 1. */
	uint64_t line;
	/* Index of the handle. */
	int64_t handle;
	/* "summon_in_step", "unshard_not_idle", … */
	const char *kind;
	/* Training state and handle state, before and after. */
	unsigned from[2], to[2];
	/* The class of the exception; NULL: PyTorch raises none. */
	const char *error;
	/* Its words. */
	struct fsdp_span message;
};

/** One call of a unit's pre_forward while the model trains: the unit is about to
 * gather its parameters. */
struct fsdp_forward {
	/* Number of the iteration, from 0. */
	uint64_t iter;
	/* Index for fsdp_exec_order.handles. */
	int64_t handle;
};

/**
 * What _ExecOrderData of FSDP1 (torch/distributed/fsdp/_exec_order_utils.py) learns
 * while a model trains, and what it checks, replayed from the recorded calls. Lists
 * of handles hold indices; a list is empty where the run had nothing to put in.
 */
struct fsdp_exec_order {
	/* All handles, root first: what indices refer to. */
	const struct fsdp_handle *handles;
	size_t handle_count;
	/* One at the end of each iteration. */
	const struct fsdp_order_snapshot *snapshots;
	size_t snapshot_count;
	/* Ways of prefetching that the run used, for all snapshots. */
	const struct fsdp_prefetch *prefetches;
	size_t prefetch_count;
	/* In the order of lines. */
	const struct fsdp_order_warning *warnings;
	size_t warning_count;
	/* One per handle; NULL: no states were recorded. */
	const struct fsdp_state_lane *lanes;
	/* In the order of lines. */
	const struct fsdp_state_problem *problems;
	size_t problem_count;
	/* In order. */
	const struct fsdp_forward *forwards;
	size_t forward_count;
	/* Forwards that PyTorch did not check. */
	uint64_t unchecked;
	/* Uses of a unit that was used in this forward already. */
	uint64_t reused;
	/* Iterations with fewer uses than the first. */
	uint64_t stopped_early;
};

/**
 * The places of all handles in the two lists of a snapshot, or FSDP_ABSENT; both
 * outputs have room for handle_count of them. Takes time linear in handles and
 * uses.
 */
FSDP_API void fsdp_order_places(const struct fsdp_exec_order *order,
	const struct fsdp_order_snapshot *snapshot, int64_t *ret_pre, int64_t *ret_post);

/** The handle fetched with the one at this place of the list that the prefetch goes
 * by (`post` backward, else `pre`); FSDP_ABSENT: none. */
FSDP_API int64_t fsdp_order_target(const struct fsdp_order_snapshot *snapshot,
	const struct fsdp_prefetch *prefetch, int64_t place);

/** The name of a unit: its module; where that is not recorded, its first parameter.
 * Lives as long as the set. */
FSDP_API struct fsdp_span fsdp_handle_name(const struct fsdp_handle *handle);

/** Whether two ranks used the same units in the same order, with the same states.
 * Takes time linear in both orders; never fails. */
FSDP_API bool fsdp_exec_order_equal(
	const struct fsdp_exec_order *a, const struct fsdp_exec_order *b);

/* ---- where ranks diverge ---- */

/**
 * Where PyTorch's comparison of the first iteration finds ranks apart: it compares
 * the handles that each rank uses, place by place, and names two ranks that differ.
 */
struct fsdp_divergence {
	/* All do the same; then nothing else is set. */
	bool agree;
	/* Where they diverge, from 0. */
	int64_t position;
	/* Two global ranks that differ, */
	int64_t ranks[2];
	/* and what each uses there, or FSDP_ABSENT: nothing more. */
	int64_t handles[2];
	/* As PyTorch words it. */
	struct fsdp_span message;
};

/** Ranks that do the same where ranks diverge. */
struct fsdp_order_group {
	/* Global ranks, ascending. */
	const int64_t *ranks;
	size_t rank_count;
	/* Index of the handle that they use there, or FSDP_ABSENT: their lists end. */
	int64_t handle;
	/* That of the first of these ranks; all zero: none. */
	struct fsdp_handle unit;
};

/** Where ranks diverge first, in any iteration. */
struct fsdp_first_diff {
	/* Else all agree, or there is only one rank, and the rest is 0. */
	bool found;
	/* Iteration, and position in the list of its uses; both from 0. */
	uint64_t iteration, position;
	/* In order of their first ranks. */
	const struct fsdp_order_group *groups;
	size_t group_count;
};

/** Result of comparing the dumps of the Flight Recorder, or the lines of logs; NULL:
 * the set has neither. It was made when the set was read, and lives as long. */
FSDP_API const struct fsdp_flight *fsdp_recordings_flight(
	const struct fsdp_recordings *recordings);

/* ---- Flight Recorder ---- */

/**
 * Dumps of PyTorch's Flight Recorder: the last collectives of each rank of a job,
 * as pickles or JSON, and the result of comparing them. Also lines that PyTorch
 * prints into logs when a collective fails, with the numbers of the last
 * collectives of a rank. Everything here belongs to the set of recordings it is of
 * (fsdp/trace.h) and lives as long; nothing allocates or fails. Texts come from the
 * dumps: not terminated, not escaped, maybe not UTF-8. Absent texts have data NULL,
 * absent numbers are FSDP_ABSENT.
 */

/** One dump: the file of one rank. Its rank is fsdp_recording.rank, and its
 * collectives are only compared (struct fsdp_flight), not listed. */
struct fsdp_flight_dump {
	/* Of the recorder's own format, such as "2.10". It decides which fields there
	 * are. */
	struct fsdp_span version;
	/* Version of NCCL; absent if it is not known. */
	struct fsdp_span library;
	/* Collectives, and sends and receives. The recorder keeps the last ones only, in
	 * a ring of TORCH_NCCL_TRACE_BUFFER_SIZE entries. */
	uint64_t entries;
	/* Number of the first of them (record_id), from 0; above 0 earlier ones were
	 * overwritten. */
	int64_t first_record;
};

/**
 * What was printed into a log about one rank in one process group, when a
 * collective failed. Numbers of collectives are as printed; -1 is none yet.
 */
struct fsdp_watchdog_status {
	/* Of the process that printed the lines, among all ranks of the job. */
	int64_t rank;
	/* Readable name of the process group; size 0: the lines name none. */
	struct fsdp_span group;
	/* Number of the last collective that this rank called, and of the last one that
	 * its device finished. */
	int64_t enqueued, completed;
	/* Number of the first that failed; a monitored barrier has none. */
	int64_t seq;
	/* Type of that one, whatever variant it is: "all_gather" for _all_gather_base. */
	struct fsdp_span op;
	/* Its elements (not bytes), of the input and of the output of one rank. */
	int64_t numel_in, numel_out;
	/* How long it may take, in milliseconds, and how long it had run when the
	 * watchdog looked. */
	int64_t timeout_ms, ran_ms;
};

/** The sizes of one tensor. None of a tensor without dimensions. */
struct fsdp_flight_sizes {
	/* Elements per dimension, as torch.Tensor.shape. */
	const int64_t *dims;
	size_t dim_count;
};

/** Call of a rank, with all fields by which PyTorch distinguishes two calls. Lists
 * that the dump does not have are empty. */
struct fsdp_flight_call {
	/* "_all_gather_base" without what surrounds it, as written */
	struct fsdp_span op;
	/* One entry for each tensor that goes in or comes out. */
	const struct fsdp_flight_sizes *input_sizes, *output_sizes;
	size_t input_size_count, output_size_count;
	/* "Float", "BFloat16", … in PyTorch's spelling, for each of these tensors. */
	const struct fsdp_span *input_dtypes, *output_dtypes;
	size_t input_dtype_count, output_dtype_count;
};

/** A line of code in a stack that the dump has. The path is that on the host of the
 * rank, and the file is not opened. */
struct fsdp_flight_place {
	/* Path of the source file, and name of the function. */
	struct fsdp_span filename, name;
	/* From 1. */
	int64_t line;
};

/** The last thing that a rank entered in any group: where it is now, if it still
 * waits. */
struct fsdp_last_call {
	/* Global rank. */
	int64_t rank;
	/* Number within the group (collective_seq_id of the dump). */
	int64_t seq;
	/* Type and group. op NULL: the rank has no entry at all; group of size 0: not
	 * known. */
	struct fsdp_span op, group;
	/* The innermost that is not PyTorch's, or absent */
	struct fsdp_flight_place place;
};

/** What a culprit called where ranks differ. */
struct fsdp_mismatched_call {
	/* Global rank of the culprit. */
	int64_t rank;
	/* What it called in place of what most did. */
	struct fsdp_flight_call call;
};

/** An error of one rank in a log. */
struct fsdp_flight_exception {
	/* Global rank whose log has it. */
	int64_t rank;
	/* When it was printed, as since_ns, or FSDP_ABSENT. */
	int64_t time_ns;
	/* The line of the exception: its class and message. */
	struct fsdp_span text;
	/* The rank failed by itself; else because of a peer, or it is not known. */
	bool is_own;
	/* From the traceback before it: the function of torch.distributed that the rank
	 * was in, empty if none or unknown; and the line outside of PyTorch that called
	 * it, filename with data NULL if unknown. */
	struct fsdp_span op;
	struct fsdp_flight_place place;
};

/** Global ranks, ascending. */
struct fsdp_ranks {
	const int64_t *list;
	size_t count;
};

/** Why ranks are culprits: they never entered a collective, or their device stopped
 * in it. */
struct fsdp_flight_cause {
	struct fsdp_ranks ranks;
	/* The device stopped in what rank `other` finished; else `other` is FSDP_ABSENT.
	 */
	int64_t other;
	/* Number of the collective within its group. */
	int64_t seq;
	/* Its type, "all_gather", and the readable name of its process group. */
	struct fsdp_span op, group;
};

/** Result for the job. */
enum fsdp_flight_verdict {
	/* Every rank entered the same collectives, as far as the dumps reach. */
	FSDP_FLIGHT_AGREE,
	/* Ranks wait in a collective for others that did not enter it. */
	FSDP_FLIGHT_STUCK,
	/* All entered one collective, but with different types, sizes or dtypes. */
	FSDP_FLIGHT_MISMATCH,
	/* Nothing is wrong in what is there, but dumps of some ranks are missing: a fault
	 * may be in those. */
	FSDP_FLIGHT_INCOMPLETE,
	FSDP_FLIGHT_VERDICT_COUNT
};

/** "agree", "stuck", "mismatch", "incomplete": the words that `order --json` has.
 * Static; NULL past the end. */
FSDP_API const char *fsdp_flight_verdict_name(unsigned verdict);

/**
 * Result of comparing the dumps of a job. Lists of ranks are ascending. The group
 * and the fields after it are of the collective in which ranks diverge; absent if
 * no rank diverges.
 *
 * The answer is one collective: of all those in which ranks diverge, the one that
 * caused the others. Culprits are all ranks that others wait for and that wait for
 * none, those whose device stopped, or those that called something else than most.
 */
struct fsdp_flight {
	enum fsdp_flight_verdict verdict;
	/* How it was found: "missing", "extra", "cycle", "status", "idle", "unheard",
	 * "no_entries", "op", "size", "dtype", "parted", "gpu_stopped", "exception";
	 * NULL: none. Two are of logs. "idle": the culprits wait in no group, while
	 * others do, first in the one that follows. "parted": the culprits failed, or
	 * wait, in what `entered` completed. "exception": the culprit ended by itself,
	 * before the others timed out. */
	const char *problem;
	/* Ranks to look at first: others wait for them, and they wait for none. */
	struct fsdp_ranks culprits;
	/* Culprits whose device did not end what another rank of the group finished. */
	struct fsdp_ranks gpu_stopped;
	/* Ranks whose dump was written before others: it lacks a call that others
	 * finished. What they did later is not known, and no rank is called missing. */
	struct fsdp_ranks older;
	/* Of logs: the job was started again, and only its last attempt counts; two
	 * processes of a rank ran at one time, as of two jobs, and nothing is compared;
	 * Ray omitted lines that other processes printed as well. */
	bool was_restarted, has_two_jobs, was_shortened;
	/* Of dumps that are stuck: what each culprit is named for, the collective below
	 * first. */
	const struct fsdp_flight_cause *causes;
	size_t cause_count;
	/* Readable name of the process group, */
	struct fsdp_span group;
	/* and as PyTorch names it. */
	struct fsdp_span group_name;
	/* Number of the collective within the group. */
	int64_t seq;
	/* "all_gather", whatever variant it is: all_gather_into_tensor has this type too.
	 */
	struct fsdp_span op;
	/* Ranks of the group, as far as they are known. */
	struct fsdp_ranks members;
	/* Of these, ranks that entered the collective, and ranks that did not. */
	struct fsdp_ranks entered, missing;
	/* When the first rank entered it, since 1970. Logs have no year: as if it were
	 * that one, in the time zone of the host. */
	int64_t since_ns;
	/* What those called that entered it. */
	struct fsdp_flight_call call;
	/* Where the first of them did, in the code. */
	struct fsdp_flight_place place;
	/* A mismatch: `expected` is what most ranks called, and `found` what each culprit
	 * did. */
	bool has_expected;
	struct fsdp_flight_call expected;
	const struct fsdp_mismatched_call *found;
	size_t found_count;
	/* Of each culprit, what it entered last; of a "cycle", what it waits in. */
	const struct fsdp_last_call *last;
	size_t last_count;
	/* Ranks agree, and all of a group wait in one collective, which did not end on
	 * any: `common` is that, of the rank that entered it first, since since_ns.
	 * `entered`: these ranks; none: all. `not_started`: those whose device did not
	 * begin it, where that of others did. */
	bool all_wait;
	struct fsdp_last_call common;
	struct fsdp_ranks not_started;
	/* Ranks that wait elsewhere, in the end for a culprit. */
	struct fsdp_ranks waiting;
	/* Ranks without a dump, and ranks whose dump could not be read: a verdict on
	 * their collectives rests on the dumps of the others. */
	struct fsdp_ranks missing_dumps, unreadable;
	/* Versions of the dumps, each once, in order of their bytes. More than one: the
	 * ranks ran different versions of PyTorch, which may dump different fields. */
	const struct fsdp_span *versions;
	size_t version_count;
	/* Readable names of all process groups, and the ranks in each. */
	const struct fsdp_span *groups;
	const size_t *group_sizes; /* ranks in each */
	size_t group_count;
	/* Of logs: one per group and rank, by group, then by rank. NULL: the set has
	 * dumps, or nothing. */
	const struct fsdp_watchdog_status *watches;
	size_t watch_count;
	/* Of logs: errors of ranks other than timeouts, the earliest first. */
	const struct fsdp_flight_exception *exceptions;
	size_t exception_count;
	/* Ranks that the lines of logs are of. */
	size_t log_rank_count;
	/* Of logs: ranks have lines of the same group. */
	bool share_groups;
	/* The dumps are of gloo, whose recorder has no sends and receives. */
	bool is_gloo;
	/* Of dumps: each rank has entries, and its device finished the last one. */
	bool all_completed;
	/* Of dumps: ranks whose last collective did not end. */
	struct fsdp_ranks unfinished;
};

#ifdef __cplusplus
}
#endif

#endif
