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
 * pickles or JSON, and what they say together. The same of lines that the watchdog of
 * NCCL prints into logs, which tell the last collectives of a rank by their numbers. Everything here belongs to the set of
 * recordings it is of (fsdp/trace.h) and lives as long; nothing allocates or fails.
 * Texts come from the dumps: not terminated, not escaped, maybe not UTF-8. Absent texts
 * have data NULL, absent numbers are FSDP_ABSENT.
 */

/** One dump. */
struct fsdp_flight_dump {
	struct fsdp_span version; /* of the recorder, such as "2.10" */
	struct fsdp_span library; /* version of NCCL; absent if it is not known */
	uint64_t entries;         /* collectives, and sends and receives */
	int64_t first_record;     /* number of the first of them, from 0 */
};

/**
 * What the watchdog of NCCL printed into a log about one rank in one process group, when
 * a collective timed out. Numbers of collectives count from 1; -1 is none yet.
 */
struct fsdp_flight_watch {
	int64_t rank;
	struct fsdp_span group;      /* as people know it; size 0: the lines name none */
	int64_t enqueued, completed; /* the last ones */
	int64_t seq;                 /* the first that timed out */
	struct fsdp_span op;         /* of that one, whatever variant it is */
	int64_t numel_in, numel_out; /* its elements */
	int64_t timeout_ms, ran_ms;
};

/** The sizes of one tensor. */
struct fsdp_flight_sizes {
	const int64_t *dims;
	size_t dim_count;
};

/** What a rank called. Lists that the dump does not have are empty. */
struct fsdp_flight_call {
	/* "_all_gather_base" without what surrounds it, as written */
	struct fsdp_span op;
	const struct fsdp_flight_sizes *input_sizes, *output_sizes; /* by tensor */
	size_t input_size_count, output_size_count;
	const struct fsdp_span *input_dtypes, *output_dtypes;
	size_t input_dtype_count, output_dtype_count;
};

/** A line of code. */
struct fsdp_flight_place {
	struct fsdp_span filename, name; /* of the file and the function */
	int64_t line;
};

/** The last thing that a rank entered in any group. */
struct fsdp_flight_last {
	int64_t rank;
	int64_t seq;
	struct fsdp_span op, group; /* op NULL: it has no entry; size 0: not known */
	/* The innermost that is not PyTorch's, or absent */
	struct fsdp_flight_place place;
};

/** What a culprit called where ranks differ. */
struct fsdp_flight_found {
	int64_t rank;
	struct fsdp_flight_call call;
};

enum fsdp_flight_verdict {
	FSDP_FLIGHT_AGREE,      /* every rank did the same */
	FSDP_FLIGHT_STUCK,      /* ranks wait for others that are not there */
	FSDP_FLIGHT_MISMATCH,   /* ranks entered one collective in different ways */
	FSDP_FLIGHT_INCOMPLETE, /* nothing is wrong in what is there, but dumps lack */
	FSDP_FLIGHT_VERDICT_COUNT
};

/** "agree", "stuck", "mismatch", "incomplete"; NULL past the end. */
FSDP_API const char *fsdp_flight_verdict_name(unsigned verdict);

/**
 * What the dumps of a job say together. Lists of ranks are ascending. The group and what
 * follows are of the collective in which ranks part; they are absent if there is none.
 */
struct fsdp_flight {
	enum fsdp_flight_verdict verdict;
	/* "missing", "extra", "cycle", "status", "idle", "unheard", "no_entries", "op",
	 * "size", "dtype"; NULL: there is none. "idle" is of logs: the culprits wait in
	 * no group, while others do, first in the one that follows */
	const char *problem;
	const int64_t *culprits;
	size_t culprit_count;
	struct fsdp_span group;      /* as people know it */
	struct fsdp_span group_name; /* as PyTorch does */
	int64_t seq;
	struct fsdp_span op;    /* "all_gather", whatever variant it is */
	const int64_t *members; /* of the group, as far as they are known */
	size_t member_count;
	const int64_t *entered, *missing;
	size_t entered_count, missing_count;
	/* when the first rank entered it, since 1970. Logs have no year: as if it were
	 * that one, in the time zone of the host */
	int64_t since_ns;
	struct fsdp_flight_call call;   /* of those that entered it */
	struct fsdp_flight_place place; /* where the first of them did */
	/* of a mismatch: what most ranks called, and what the culprits did */
	bool has_expected;
	struct fsdp_flight_call expected;
	const struct fsdp_flight_found *found;
	size_t found_count;
	const struct fsdp_flight_last *last; /* of each culprit */
	size_t last_count;
	/* Where ranks agree, and the last that each entered is one collective which did
	 * not end on any: that, of the rank that entered it first, since since_ns. */
	bool all_wait;
	struct fsdp_flight_last common;
	const int64_t *waiting; /* ranks that wait elsewhere, in the end for a culprit */
	size_t waiting_count;
	const int64_t *missing_dumps, *unreadable;
	size_t missing_dump_count, unreadable_count;
	const struct fsdp_span *versions; /* each once, in order of their bytes */
	size_t version_count;
	const struct fsdp_span *groups; /* by name, as people know them */
	const size_t *group_sizes;      /* ranks in each */
	size_t group_count;
	/* of logs: by group, then by rank; NULL: these are dumps */
	const struct fsdp_flight_watch *watches;
	size_t watch_count;
	size_t log_rank_count; /* ranks that the lines are of */
};

#ifdef __cplusplus
}
#endif

#endif
