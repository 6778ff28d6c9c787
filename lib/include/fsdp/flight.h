/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_FLIGHT_H
#define FSDP_FLIGHT_H

#include <stdbool.h>

#include <fsdp/span.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Dumps of PyTorch's Flight Recorder: the last collectives of each rank of a job, as
 * pickles or JSON, and the result of comparing them. Also lines that PyTorch prints into
 * logs when a collective fails, with the numbers of the last collectives of a rank.
 * Everything here belongs to the set of recordings it is of (fsdp/trace.h) and lives as
 * long; nothing allocates or fails. Texts come from the dumps: not terminated, not
 * escaped, maybe not UTF-8. Absent texts have data NULL, absent numbers are FSDP_ABSENT.
 */

/** One dump. */
struct fsdp_flight_dump {
	/* Of the recorder's own format, such as "2.10". It decides which fields there
	 * are. */
	struct fsdp_span version;
	/* Version of NCCL; absent if it is not known. */
	struct fsdp_span library;
	/* Collectives, and sends and receives. The recorder keeps the last ones only, in
	 * a ring of TORCH_NCCL_TRACE_BUFFER_SIZE entries. */
	uint64_t entries;
	/* Number of the first of them, from 0; above 0 earlier ones were overwritten. */
	int64_t first_record;
};

/**
 * What was printed into a log about one rank in one process group, when a collective
 * failed. Numbers of collectives are as printed; -1 is none yet.
 */
struct fsdp_flight_watch {
	/* Of the process that printed the lines, among all ranks of the job. */
	int64_t rank;
	/* Readable name of the process group; size 0: the lines name none. */
	struct fsdp_span group;
	/* Number of the last collective that this rank called, and of the last one that
	 * its device finished. */
	int64_t enqueued, completed;
	/* Number of the first that failed; a monitored barrier has none. */
	int64_t seq;
	/* Type of that one, whatever variant it is. */
	struct fsdp_span op;
	/* Its elements, before and after. */
	int64_t numel_in, numel_out;
	/* How long it may take, and how long it had run when the watchdog looked. */
	int64_t timeout_ms, ran_ms;
};

/** The sizes of one tensor. None of a tensor without dimensions. */
struct fsdp_flight_sizes {
	const int64_t *dims;
	size_t dim_count;
};

/** Call of a rank, with all fields by which PyTorch distinguishes two calls. Lists that the
 * dump does not have are empty. */
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

/** A line of code in a stack that the dump has. */
struct fsdp_flight_place {
	/* Path of the source file, and name of the function. */
	struct fsdp_span filename, name;
	/* From 1. */
	int64_t line;
};

/** The last thing that a rank entered in any group: where it is now, if it still
 * waits. */
struct fsdp_flight_last {
	int64_t rank;
	/* Number within the group. */
	int64_t seq;
	/* Type and group. op NULL: the rank has no entry at all; group of size 0: not
	 * known. */
	struct fsdp_span op, group;
	/* The innermost that is not PyTorch's, or absent */
	struct fsdp_flight_place place;
};

/** What a culprit called where ranks differ. */
struct fsdp_flight_found {
	int64_t rank;
	/* What it called in place of what most did. */
	struct fsdp_flight_call call;
};

/** An error of one rank in a log. */
struct fsdp_flight_exception {
	int64_t rank;
	/* When it was printed, as since_ns, or FSDP_ABSENT. */
	int64_t time_ns;
	struct fsdp_span text;
	/* The rank failed by itself; else because of a peer, or it is not known. */
	bool is_own;
};

/** Why ranks are culprits: they never entered a collective, or their device stopped in
 * it. */
struct fsdp_flight_cause {
	const int64_t *ranks;
	size_t rank_count;
	/* The device stopped in what rank `other` finished; else `other` is FSDP_ABSENT. */
	int64_t other;
	int64_t seq;
	struct fsdp_span op, group;
};

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

/** "agree", "stuck", "mismatch", "incomplete"; NULL past the end. Static. */
FSDP_API const char *fsdp_flight_verdict_name(unsigned verdict);

/**
 * Result of comparing the dumps of a job. Lists of ranks are ascending. The group and the
 * fields after it are of the collective in which ranks diverge; absent if no rank diverges.
 *
 * The answer is one collective: of all those in which ranks diverge, the one that
 * caused the others. Culprits are all ranks that others wait for and that wait for none, those
 * whose device stopped, or those that called something else than most.
 */
struct fsdp_flight {
	enum fsdp_flight_verdict verdict;
	/* "missing", "extra", "cycle", "status", "idle", "unheard", "no_entries", "op",
	 * "size", "dtype", "parted", "gpu_stopped", "exception"; NULL: none.
	 * Three are of logs. "idle": the
	 * culprits wait in no group, while others do, first in the one that follows.
	 * "parted": the culprits failed in what `entered` completed. "exception": the
	 * culprit ended by itself, before the others timed out. */
	const char *problem;
	/* Ranks to look at first. */
	const int64_t *culprits;
	size_t culprit_count;
	/* Culprits whose device did not end what another rank of the group finished. */
	const int64_t *gpu_stopped;
	size_t gpu_stopped_count;
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
	/* "all_gather", whatever variant it is. */
	struct fsdp_span op;
	/* Ranks of the group, as far as they are known. */
	const int64_t *members;
	size_t member_count;
	/* Of these, ranks that entered the collective, and ranks that did not. */
	const int64_t *entered, *missing;
	size_t entered_count, missing_count;
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
	const struct fsdp_flight_found *found;
	size_t found_count;
	/* Of each culprit, what it entered last. */
	const struct fsdp_flight_last *last;
	size_t last_count;
	/* Ranks agree, and the last that each entered is one collective which did not end
	 * on any: `common` is that, of the rank that entered it first, since since_ns. */
	bool all_wait;
	struct fsdp_flight_last common;
	/* Ranks that wait elsewhere, in the end for a culprit. */
	const int64_t *waiting;
	size_t waiting_count;
	/* Ranks without a dump, and ranks whose dump could not be read. */
	const int64_t *missing_dumps, *unreadable;
	size_t missing_dump_count, unreadable_count;
	/* Versions of the dumps, each once, in order of their bytes. More than one: the
	 * ranks ran different versions of PyTorch. */
	const struct fsdp_span *versions;
	size_t version_count;
	/* Readable names of all process groups, and the ranks in each. */
	const struct fsdp_span *groups;
	const size_t *group_sizes; /* ranks in each */
	size_t group_count;
	/* Of logs: by group, then by rank; NULL: these are dumps. */
	const struct fsdp_flight_watch *watches;
	size_t watch_count;
	/* Of logs: errors of ranks other than timeouts, the earliest first. */
	const struct fsdp_flight_exception *exceptions;
	size_t exception_count;
	/* Ranks that the lines of logs are of. */
	size_t log_rank_count;
};

#ifdef __cplusplus
}
#endif

#endif
