/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_FLIGHT_H
#define FSDP_TRACE_FLIGHT_H

#include "trace/event.h"
#include "syntax/json-tree.h"
#include "syntax/pickle.h"

/*
 * A value of a dump that PyTorch writes as a pickle or as JSON: both have dicts, lists,
 * texts and numbers, and a reader handles both alike. It is a small copy that owns
 * nothing; texts are those of the document. All zero is absent, and an absent value
 * answers everything that is asked of it with "no".
 */
struct fsdp_inert {
	const struct fsdp_pickle *pickle; /* and `ref` in it */
	const struct fsdp_json *json;
	fsdp_ref ref;
	bool packed; /* an integer of a packed JSON array */
	int64_t integer;
};

static inline struct fsdp_inert fsdp_inert_pickle(
	const struct fsdp_pickle *pickle, fsdp_ref ref)
{
	return (struct fsdp_inert){ .pickle = pickle, .ref = ref };
}

static inline struct fsdp_inert fsdp_inert_json(const struct fsdp_json *json)
{
	return (struct fsdp_inert){ .json = json };
}

bool fsdp_inert_is_dict(const struct fsdp_inert *value);
/* A list or a tuple. */
bool fsdp_inert_is_list(const struct fsdp_inert *value);

/* Items of a list, pairs of a dict. */
uint64_t fsdp_inert_count(const struct fsdp_inert *value);

/* data NULL: it is not a string. */
struct fsdp_span fsdp_inert_text(const struct fsdp_inert *value);

/* False: it is not an integer of 64 bits, and *ret stays. */
bool fsdp_inert_integer(const struct fsdp_inert *value, int64_t *ret);

/* As above, also of a text of digits, as JSON dumps have them. */
bool fsdp_inert_number(const struct fsdp_inert *value, int64_t *ret);

/* True if it is the truth value True. */
bool fsdp_inert_truth(const struct fsdp_inert *value);

/* Items of a list, or values of a dict with their keys, in order and in constant memory.
 * Zero the walk and set `of`. A key that is not a string, and that of an item, is data NULL.
 * False at the end, and at once of what is neither. */
struct fsdp_inert_walk {
	struct fsdp_inert of;
	struct fsdp_pickle_iterator iterator; /* internal */
	uint32_t at;                          /* internal */
	bool begun;                           /* internal */
};
bool fsdp_inert_next(struct fsdp_inert_walk *walk, struct fsdp_span *ret_key,
	struct fsdp_inert *ret_value);

/* The last value of a dict under a text key, or an absent one. Linear. */
struct fsdp_inert fsdp_inert_get(const struct fsdp_inert *dict, const char *key);

/*
 * Dumps of the Flight Recorder while the ranks of a job are set against each other. Of a
 * dump a small row per entry stays, and once the facts that many share: groups, calls,
 * lines of code.
 */
struct fsdp_flight_entry {
	int64_t seq;                 /* of the collective, or of the send or receive */
	int64_t time_ns;             /* when it was entered */
	uint32_t group, call, place; /* indices; place FSDP_NONE: none */
	bool is_p2p, is_unfinished;
	bool is_completed; /* the device finished it; else an exception may have ended it */
};

/* A process group as one rank has it. */
struct fsdp_flight_group {
	struct fsdp_span name, desc;
	int64_t pg_id; /* key of its status, or FSDP_ABSENT */
};

/* pg_status of a group of NCCL. */
struct fsdp_flight_status {
	int64_t pg_id, enqueued;
	struct fsdp_span group; /* name */
};

/* A list of ranks, ascending, each once. Many groups may share one. */
struct fsdp_flight_roster {
	const int64_t *ranks;
	size_t count;
	uint32_t *heard; /* places of those that left a dump, once the job is known */
	size_t heard_count;
};

/* The ranks of a group, as pg_config has them; the name is empty in dumps of gloo. */
struct fsdp_flight_members {
	struct fsdp_span name;
	uint32_t roster; /* index */
};

/* Sizes and dtypes as bytes that are equal where the lists are; data NULL: absent. */
struct fsdp_flight_lists {
	struct fsdp_span sizes, dtypes;
};

struct fsdp_flight_called {
	struct fsdp_span name; /* profiling_name, as written; size 0: it is not known */
	struct fsdp_flight_lists input, output;
};

struct fsdp_flight_rows {
	struct fsdp_flight_dump facts;
	struct fsdp_vec entries; /* struct fsdp_flight_entry, oldest first */
	struct fsdp_vec groups;  /* struct fsdp_flight_group */
	struct fsdp_vec calls;   /* struct fsdp_flight_called */
	struct fsdp_vec places;  /* struct fsdp_flight_place */
	struct fsdp_vec members; /* struct fsdp_flight_members */
	struct fsdp_vec rosters; /* struct fsdp_flight_roster */
	int64_t enqueued; /* last collective of the default group, or FSDP_ABSENT */
	/* By name of the group, of those whose group is known. */
	struct fsdp_flight_status *statuses;
	size_t status_count;
	bool is_nccl;
	bool has_finished; /* an entry is finished: not only active ones were written */
};

/* flight-read.c: packs a list of lists of integers, or a list of texts; false: out of
 * memory, or the work is more than the input is worth. Any other value is absent. */
struct fsdp_flight_bytes {
	unsigned char *data;
	size_t size, room;
	struct fsdp_budget *budget; /* NULL: the work is not counted */
};
bool fsdp_flight_put(struct fsdp_flight_bytes *bytes, const void *data, size_t size);
bool fsdp_flight_work(struct fsdp_flight_bytes *bytes, uint64_t steps);
bool fsdp_flight_pack_sizes(
	struct fsdp_flight_bytes *bytes, const struct fsdp_inert *sizes);
bool fsdp_flight_pack_texts(
	struct fsdp_flight_bytes *bytes, const struct fsdp_inert *texts);

/* The call as its lists were. */
bool fsdp_flight_unpack(const struct fsdp_flight_called *called, struct fsdp_arena *arena,
	struct fsdp_flight_call *ret_call);

/* all_reduce of "gloo:all_reduce", send of "nccl:send 0->1". */
struct fsdp_span fsdp_flight_op(struct fsdp_span name);

/* The same whatever variant it is, in the arena if need be; data NULL: out of memory. */
struct fsdp_span fsdp_flight_folded(struct fsdp_span name, struct fsdp_arena *arena);

/* flight-read.c: the rows of a dump, whatever it was written as, into the arena of the
 * reading. False: reading->error. */
bool fsdp_flight_read(struct fsdp_trace_reading *reading, const struct fsdp_inert *top);

/* Whether a dict is a dump of the Flight Recorder. */
bool fsdp_flight_is_dump(const struct fsdp_inert *top);

/* A rank whose dump cannot be read, or (rows) one whose can. */
struct fsdp_flight_rank {
	int64_t rank;
	const struct fsdp_flight_rows *rows;
};

/* flight-join.c: sets dumps against each other; `ranks` are ascending, each once, and
 * stay as long as the arena. */
bool fsdp_flight_join(const struct fsdp_flight_rank *ranks, size_t count,
	const struct fsdp_limits *limits, struct fsdp_arena *arena,
	struct fsdp_flight *ret_flight, struct fsdp_error **ret_error);

/* flight-join.c: the result of the dumps among these readings; NULL: no dumps. One
 * that could not be read counts with its rank alone. False: two are of one rank, or
 * memory or a ceiling was used up. */
bool fsdp_flight_join_readings(struct fsdp_trace_reading *readings, size_t count,
	struct fsdp_arena *arena, const struct fsdp_flight **ret_flight,
	struct fsdp_error **ret_error);

#endif
