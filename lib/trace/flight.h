/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_FLIGHT_H
#define FSDP_TRACE_FLIGHT_H

#include <fsdp/order.h>

#include "trace/event.h"

/*
 * What the ranks of a job recorded of their collectives, while they are compared. Of a
 * dump of the Flight Recorder a small row per entry stays, and once the facts that many
 * entries of many dumps share: calls, lines of code, lists of ranks. Lines of a log
 * become the same rows.
 */
struct fsdp_flight_entry {
	int64_t seq;     /* of the collective, or of the send or receive */
	int64_t time_ns; /* when it was entered */
	/* Indices; place FSDP_NONE: none. The group is one of the dump, and a team once
	 * ranks are compared. */
	uint32_t group, call, place;
	bool is_p2p, is_unfinished;
	bool is_started;   /* on the device, as far as that is recorded */
	bool is_completed; /* the device finished it; else an exception may have ended it */
};

/* A process group as one rank has it: of pg_config, or of an entry. */
struct fsdp_flight_group {
	struct fsdp_span name; /* empty in dumps of gloo */
	struct fsdp_span desc; /* data NULL: no entry is of it */
	int64_t pg_id;         /* key of its status, or FSDP_ABSENT */
	uint32_t roster;       /* index of its ranks; FSDP_NONE: they are not listed */
};

/* pg_status of a group of NCCL: numbers of the last collectives. */
struct fsdp_flight_status {
	int64_t pg_id, enqueued, completed;
	struct fsdp_span group; /* name */
};

/* A list of ranks, ascending, each once. Many groups may share one. */
struct fsdp_flight_roster {
	const int64_t *ranks;
	size_t count;
	uint32_t *heard; /* places of those that left a dump, once the job is known */
	size_t heard_count;
	bool in_world;   /* its ranks are of the job for certain */
	bool is_awaited; /* those that left no dump are */
};

/* Sizes and dtypes of a call are bytes that are equal where the lists are: calls are
 * many and few differ. They become lists again where they are shown. Everything is a
 * number of 64 bits, except the bytes of texts: how many items there are, then of each
 * its length and its dimensions or bytes. data NULL: absent. */
enum {
	FSDP_FLIGHT_INPUT_SIZES,
	FSDP_FLIGHT_OUTPUT_SIZES,
	FSDP_FLIGHT_INPUT_DTYPES,
	FSDP_FLIGHT_OUTPUT_DTYPES,
	FSDP_FLIGHT_LISTS
};
struct fsdp_flight_called {
	struct fsdp_span name; /* profiling_name, as written; size 0: it is not known */
	struct fsdp_span lists[FSDP_FLIGHT_LISTS];
};

/* By which calls of ranks are compared; 0: equal to everything. */
enum { FSDP_FLIGHT_BY_OP, FSDP_FLIGHT_BY_SIZE, FSDP_FLIGHT_BY_DTYPE, FSDP_FLIGHT_WAYS };
struct fsdp_flight_signature {
	uint32_t numbers[FSDP_FLIGHT_WAYS];
};

/*
 * What dumps of a job share, each fact once, and their own rows one dump after the
 * other. Dumps are read in parallel: each is added to one of a few of these, by one
 * thread at a time.
 */
enum { FSDP_FLIGHT_SHARES = 8 };
struct fsdp_flight_shared {
	struct fsdp_lock *lock;
	struct fsdp_arena own, *arena; /* NULL: nothing is in it yet */
	/* Of texts and packed lists, calls, places and rosters: the id of a row, less
	 * one, is its index. */
	struct fsdp_names texts, known_calls, known_places, known_rosters;
	struct fsdp_vec calls;   /* struct fsdp_flight_called */
	struct fsdp_vec places;  /* struct fsdp_flight_place */
	struct fsdp_vec rosters; /* struct fsdp_flight_roster */
	struct fsdp_vec entries; /* struct fsdp_flight_entry */
	struct fsdp_vec groups;  /* struct fsdp_flight_group */
	/* By call and by roster, while ranks are compared; NULL before that. */
	struct fsdp_flight_signature *signatures;
	uint32_t *roster_numbers;
};

/* FSDP_FLIGHT_SHARES empty ones, which belong to the arena. */
struct fsdp_flight_shared *fsdp_flight_shared_new(struct fsdp_arena *arena);

/* Makes an empty one ready for rows. */
void fsdp_flight_shared_begin(
	struct fsdp_flight_shared *shared, struct fsdp_arena *arena);

/* The rows of one dump in a list of all. */
struct fsdp_flight_part {
	struct fsdp_vec *list;
	size_t first, count;
};

static inline void *fsdp_flight_at(const struct fsdp_flight_part *part, size_t index)
{
	return fsdp_vec_at(part->list, part->first + index);
}

/* One more; only of the dump that was added last. */
static inline void *fsdp_flight_push(struct fsdp_flight_part *part)
{
	part->count++;
	return fsdp_vec_push(part->list);
}

struct fsdp_flight_rows {
	struct fsdp_flight_dump facts;
	struct fsdp_flight_shared *shared;
	struct fsdp_flight_part entries; /* oldest first */
	struct fsdp_flight_part groups;  /* those of pg_config first: */
	size_t listed_count;             /* so many */
	int64_t enqueued; /* last collective of the default group, or FSDP_ABSENT */
	/* By name of the group, of those whose group is known. */
	struct fsdp_flight_status *statuses;
	size_t status_count;
	bool is_nccl;
	bool has_finished; /* an entry is finished: not only active ones were written */
};

/* Empty ones, after those of the dumps before. */
struct fsdp_flight_rows *fsdp_flight_rows_new(struct fsdp_flight_shared *shared);

/* The call with its lists. */
struct fsdp_flight_call fsdp_flight_unpack(
	const struct fsdp_flight_called *called, struct fsdp_arena *arena);

/* all_reduce of "gloo:all_reduce", send of "nccl:send 0->1". */
struct fsdp_span fsdp_flight_op(struct fsdp_span name);

/* The same whatever variant it is, in the arena if need be. */
struct fsdp_span fsdp_flight_folded(struct fsdp_span name, struct fsdp_arena *arena);

/*
 * The process groups of a job and what each rank did in them. A team is a group by its
 * name and its list of ranks: two groups may be called alike. Ranks are meant by their
 * place among those of the job, ascending.
 */

/* Groups of messages of a log that name none: no line has the end of one in it. A
 * barrier has no number. */
#define FSDP_FLIGHT_BARRIER "\nbarrier"
#define FSDP_FLIGHT_DIFFER "\ndiffer"

/* The name of a group for people; size 0: it has none. */
struct fsdp_span fsdp_flight_title(struct fsdp_span name, struct fsdp_span desc);

/* A rank whose dump cannot be read, or (rows) one whose can. */
struct fsdp_flight_rank {
	int64_t rank;
	const struct fsdp_flight_rows *rows;
};

/* An entry of some rank; those of a team are in order of rank, then of seq, then as they
 * were recorded. */
struct fsdp_flight_item {
	const struct fsdp_flight_entry *entry;
	uint32_t rank, order;
};

struct fsdp_flight_team {
	struct fsdp_span name, desc;
	/* As pg_config lists it; of a default group that it does not list every rank that
	 * is known; else those that are seen in it. */
	struct fsdp_flight_roster *roster;
	bool is_seen;   /* the roster is the ranks that are seen in it */
	uint32_t order; /* of first use */
	/* Places of those that left a dump. A group that a dump lists may lack the rank
	 * itself. */
	const uint32_t *heard;
	size_t heard_count;
	struct fsdp_flight_item *collectives, *p2p;
	size_t collective_count, p2p_count;
};

/* What ranks differ in, or what they wait for, in one team. */
struct fsdp_flight_fault {
	enum fsdp_flight_verdict verdict; /* STUCK or MISMATCH */
	const char *problem;
	const struct fsdp_flight_team *team;
	int64_t seq, time_ns;
	const struct fsdp_flight_item *first; /* of the lowest rank that entered it */
	uint32_t *entered, *missing, *culprits;
	size_t entered_count, missing_count, culprit_count;
	const struct fsdp_flight_item *expected; /* NULL: without a majority */
	const struct fsdp_flight_item **found;   /* one per culprit of a mismatch */
};

/* A collective that did not end on the device of a rank, and did on that of another. */
struct fsdp_flight_stop {
	const struct fsdp_flight_team *team;
	const struct fsdp_flight_item *item; /* NULL: none */
	uint32_t other;                      /* rank that finished it */
};

struct fsdp_flight_job {
	const struct fsdp_flight_rank *ranks;
	size_t count;
	struct fsdp_arena *arena;
	const struct fsdp_limits *limits;
	bool is_log;
	bool all_completed;              /* each entry, on the devices: no rank waits */
	struct fsdp_vec rosters;         /* struct fsdp_flight_roster, each list once */
	struct fsdp_flight_roster world; /* ranks that any dump names */
	struct fsdp_vec teams;  /* struct fsdp_flight_team, in order of first use */
	struct fsdp_vec faults; /* struct fsdp_flight_fault, by the team's name */
	/* By rank: it entered what another of the group never enqueued, or the reverse.
	 * */
	bool *ahead, *behind;
	/* By rank: its dump is of an earlier moment than others. They finished what it
	 * did not enter, and what no rank ends alone: it entered that later. */
	bool *older;
	bool has_older;     /* then only ranks that went on elsewhere are missing */
	int64_t *latest_ns; /* by rank: when it called last, or FSDP_ABSENT */
	struct fsdp_flight_stop *stops; /* by rank: the earliest */
	/* The same where the peer entered nothing more in the group: as in a sound job
	 * whose dumps are not of one moment. */
	struct fsdp_flight_stop *pauses;
	unsigned char *marks; /* of each rank: what is in hand uses it, and clears it */
	struct fsdp_error **error; /* made before the arena leaves */
};

static inline bool fsdp_flight_is_heard(const struct fsdp_flight_job *job, size_t rank)
{
	return job->ranks[rank].rows != NULL;
}

static inline const struct fsdp_flight_called *fsdp_flight_called_of(
	const struct fsdp_flight_job *job, const struct fsdp_flight_item *item)
{
	return fsdp_vec_at(
		&job->ranks[item->rank].rows->shared->calls, item->entry->call);
}

static inline struct fsdp_flight_team *fsdp_flight_team_at(
	const struct fsdp_flight_job *job, size_t index)
{
	return fsdp_vec_at(&job->teams, index);
}

static inline struct fsdp_flight_fault *fsdp_flight_fault_at(
	const struct fsdp_flight_job *job, size_t index)
{
	return fsdp_vec_at(&job->faults, index);
}

/* The place of a rank, or SIZE_MAX: no file is of it. */
size_t fsdp_flight_place_of(const struct fsdp_flight_job *job, int64_t rank);

/* flight-divergence.c: fills the job from its ranks: world, teams, the first fault of
 * each team, and which ranks are ahead, late or stopped. */
void fsdp_flight_find_faults(struct fsdp_flight_job *job);

/* flight-verdict.c: compares the dumps of a job, or what logs show of its ranks. `ranks`
 * are ascending, each once, and stay as long as the arena, which leaves. */
void fsdp_flight_join(const struct fsdp_flight_rank *ranks, size_t count, bool is_log,
	const struct fsdp_limits *limits, struct fsdp_arena *arena,
	struct fsdp_flight *ret_flight, struct fsdp_error **ret_error);

/* flight-verdict.c: the result of the dumps among these readings, or of logs; NULL: there
 * are none. A dump that could not be read counts with its rank alone. It is left with an
 * error where two are of one rank, or a ceiling was used up. */
const struct fsdp_flight *fsdp_flight_join_readings(struct fsdp_trace_reading *readings,
	size_t count, struct fsdp_arena *arena, struct fsdp_error **ret_error);

/*
 * Lines that PyTorch prints into a log when a collective fails. The watchdog of
 * ProcessGroupNCCL prints one when it times out. PyTorch 1.10 to 2.13 have printed these
 * forms:
 *
 *	[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8,
 *	OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600020
 *	milliseconds before timing out.                 (NumelIn and NumelOut since 2.1)
 *	[PG 0 Rank 2] Timeout at NCCL work: 1, last enqueued NCCL work: 1, last completed
 *	NCCL work: 0.                                                         (2.3, 2.4)
 *	[PG 0 (default_pg) Rank 7] Exception (either an error or timeout) detected by
 *	watchdog at work: 8, last enqueued NCCL work: 8, last completed NCCL work: 7.
 *	[PG ID 0 PG GUID 0(default_pg) Rank 0]  failure detected by watchdog at work
 *	sequence id: 5 PG status: last enqueued work: 5, last completed work: 4    (2.6)
 *	[PG ID 0 PG GUID 0(default_pg) Rank 1] Received a dump signal due to a collective
 *	timeout from  rank 0 and we will try our best to dump the debug info. Last
 *	enqueued NCCL work: 4, last completed NCCL work: 4.                        (2.4)
 *
 * With TORCH_NCCL_DESYNC_DEBUG (NCCL_DESYNC_DEBUG before 2.2) also a report of several
 * lines, which one rank prints of all in its group:
 *
 *	 - [0] Timeout at collective: ALLREDUCE, #5
 *	 - To our best knowledge, ranks [3] are the lagging ranks that caused this timeout.
 *	They never joined any collectives
 *	   - [1] joined but didn't finish collective #4 (count from 1)
 *	     [2] finished collective #4, but didn't join collective #5 (count from 1)
 *	   #5 started ranks:
 *	     [0] started ALLREDUCE
 *	   #4 finished ranks:
 *	     [2] finished BROADCAST
 *
 * Rank is that in the group. Since 2.2 "[rank5]:" in front is the rank of the job.
 *
 * monitored_barrier of gloo names ranks that did not come: rank 0 prints the first or
 * all. With TORCH_DISTRIBUTED_DEBUG=DETAIL one precedes each collective, and each rank
 * compares its call with those of the others:
 *
 *	[Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier in 4000 ms
 *	Rank 3 successfully reached monitoredBarrier, but received errors while waiting for
 *	send/recv from rank 0. Please check rank 0 logs for faulty rank.
 *	Detected mismatch between collectives on ranks. Rank 0 is running collective:
 *	CollectiveFingerPrint(SequenceNumber=1, OpType=ALLREDUCE, TensorShape=[4],
 *	TensorDtypes=Float, TensorDeviceTypes=TensorOptions(…)), but Rank 1 is running
 *	collective: CollectiveFingerPrint(…).Collectives differ in the following aspects: …
 *
 * Origin: torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, TraceUtils.h,
 * ProcessGroupGloo.cpp, ProcessGroupWrapper.cpp, c10/util/Logging.cpp.
 */
struct fsdp_watchdog_line {
	int64_t rank;
	uint32_t group;              /* in groups; FSDP_NONE: the line names none */
	int64_t seq;                 /* what timed out, or FSDP_ABSENT, as the others */
	int64_t enqueued, completed; /* -1: nothing yet */
	int64_t numel_in, numel_out;
	int64_t timeout_ms, ran_ms;
	int64_t time_ns;     /* when it was printed, in a year without a leap day: 1970 */
	struct fsdp_span op; /* in lower case; size 0: unknown */
	struct fsdp_span sizes,
		dtypes; /* as dumps have those that go in; data NULL: unknown */
	bool by_other;  /* by another rank, by its number in the group */
	uint64_t at;    /* number of the line in its log */
};

/* An empty one. */
static inline struct fsdp_watchdog_line fsdp_watchdog_blank(void)
{
	return (struct fsdp_watchdog_line){ .rank = FSDP_ABSENT,
		.group = FSDP_NONE,
		.seq = FSDP_ABSENT,
		.enqueued = FSDP_ABSENT,
		.completed = FSDP_ABSENT,
		.numel_in = FSDP_ABSENT,
		.numel_out = FSDP_ABSENT,
		.timeout_ms = FSDP_ABSENT,
		.ran_ms = FSDP_ABSENT,
		.time_ns = FSDP_ABSENT,
		.op = FSDP_SPAN("") };
}

/* Of a rank's last traceback the innermost line outside of PyTorch, and what that calls:
 *
 *	[rank0]:   File "/src/train.py", line 37, in step
 *	[rank0]:   File "…/torch/distributed/distributed_c10d.py", line 3252, in all_reduce
 */
struct fsdp_watchdog_stack {
	int64_t rank;
	struct fsdp_span op;
	struct fsdp_flight_place place;
};

/* What ended a rank, or its watchdog, other than a timeout:
 *
 *	[rank3]:[E…] [PG ID 0 PG GUID 0(default_pg) Rank 3] Process group watchdog thread
 *	terminated with exception: CUDA error: an illegal memory access was encountered
 *	[rank1]:[E…] [Rank 1] Collective WorkNCCL(…) raised the following async exception:
 *	NCCL error: unhandled system error
 *	[Rank 1] found async exception when checking for NCCL errors: …       (1.8 to 2.2)
 *	[rank0]:[F…] [PG ID 0 PG GUID 0 Rank 0] ProcessGroupNCCL's watchdog got stuck for 480
 *	seconds without making progress in monitoring enqueued collectives.
 *	RuntimeError: Forward order differs across ranks: rank 0 is all-gathering 3
 *	parameters while rank 2 is all-gathering 2 parameters
 *	UserWarning: Forward order differs from that of the first iteration on rank 1. …
 *	[rank0]: RuntimeError: […/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting
 *	4000ms for recv operation to complete
 *	  what():  [enforce fail at …/pair.cc:456] op.preamble.length <= op.nbytes. 8 vs 4.
 *	Received data size doesn't match expected size. …        (names no rank, and ends it)
 *	Root Cause (first observed failure):
 *	  rank      : 3 (local_rank: 3)
 *	  exitcode  : -11 (pid: 16619)  (SIGSEGV)
 *	  traceback : Signal 9 (SIGKILL) received by PID 48101        (older: only here)
 */
enum fsdp_watchdog_failure {
	FSDP_WATCHDOG_OWN,     /* of the rank itself */
	FSDP_WATCHDOG_HANGS,   /* its watchdog does not go on: what it called hangs */
	FSDP_WATCHDOG_ORDERS,  /* FSDP found that the rank and another one differ */
	FSDP_WATCHDOG_FOLLOWS, /* of a peer that is gone, or it is a warning */
	FSDP_WATCHDOG_SIZES,   /* gloo received more than the call of some rank expects */
};
struct fsdp_watchdog_exception {
	struct fsdp_flight_exception shown; /* of SIZES the rank is FSDP_ABSENT */
	int64_t other;                      /* of ORDERS the other rank, or FSDP_ABSENT */
	enum fsdp_watchdog_failure failure;
	bool by_itself;  /* no timeout of a collective causes it */
	bool is_of_peer; /* a connection to another rank ended */
	uint64_t moment; /* its time; without one: later than all */
	uint64_t order;  /* of the lines of all logs */
	uint64_t at;     /* number of the line in its log */
	size_t log;
};

struct fsdp_watchdog {
	struct fsdp_vec lines;      /* struct fsdp_watchdog_line, as they come */
	struct fsdp_vec exceptions; /* struct fsdp_watchdog_exception */
	struct fsdp_vec stacks;     /* struct fsdp_watchdog_stack, of the first ranks */
	int64_t ended_rank; /* of the root cause that torchrun reports, or FSDP_ABSENT */
	bool is_root_cause; /* a line said that it follows */
	struct fsdp_names groups; /* below the name of each its description */
	int64_t highest_rank;     /* that any line begins with or names; -1: none */
	int64_t snapshot;         /* work that a report lists ranks of, or FSDP_ABSENT */
	bool prints_others;       /* ranks that call what the one that prints does */
	bool timed_out;           /* a rank heard of a timeout, maybe in another group */
	bool numbers_differ;      /* those in some group and those of the job */
	uint64_t at;              /* number of the line in hand */
	uint64_t restarted_at;    /* of the last that starts a job again; 0: none */
	bool was_shortened;       /* Ray omitted lines of other processes */
};

/* The id of a group by name and description. */
uint32_t fsdp_watchdog_group(
	struct fsdp_names *groups, struct fsdp_span name, struct fsdp_span desc);

/* The most ranks of a job; larger numbers are not ranks. */
enum { FSDP_WATCHDOG_RANKS = 1 << 20 };
static inline bool fsdp_watchdog_is_rank(int64_t rank)
{
	return rank >= 0 && rank < FSDP_WATCHDOG_RANKS;
}

void fsdp_watchdog_init(struct fsdp_watchdog *watchdog, struct fsdp_arena *arena);

/* Adds the contents of a line of the log, if it has any. What is truncated is absent. */
void fsdp_watchdog_take(struct fsdp_watchdog *watchdog, struct fsdp_span line);

/* flight-log-rows.c: the result of the lines of all these logs; NULL: no lines. */
const struct fsdp_flight *fsdp_watchdog_join(struct fsdp_trace_reading *readings,
	size_t count, struct fsdp_arena *arena, struct fsdp_error **ret_error);

#endif
