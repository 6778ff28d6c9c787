/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_FLIGHT_LOG_H
#define FSDP_TRACE_FLIGHT_LOG_H

#include <fsdp/order.h>

#include "trace/event.h"

/*
 * Lines that PyTorch prints into a log when a collective fails. The watchdog of
 * ProcessGroupNCCL prints one when it times out. PyTorch 1.10 to 2.13 have printed these forms:
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
 * monitored_barrier of gloo names ranks that did not come: rank 0 prints the first or all.
 * With TORCH_DISTRIBUTED_DEBUG=DETAIL one precedes each collective, and each rank compares
 * its call with those of the others:
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
 */
enum fsdp_watchdog_failure {
	FSDP_WATCHDOG_OWN,     /* of the rank itself */
	FSDP_WATCHDOG_HANGS,   /* its watchdog does not go on: what it called hangs */
	FSDP_WATCHDOG_ORDERS,  /* FSDP found that the rank and another one differ */
	FSDP_WATCHDOG_FOLLOWS, /* of a peer that is gone, or it is a warning */
};
struct fsdp_watchdog_exception {
	int64_t rank, time_ns;
	int64_t other; /* of ORDERS the other rank, or FSDP_ABSENT */
	struct fsdp_span text;
	enum fsdp_watchdog_failure failure;
	bool by_itself; /* no timeout of a collective causes it */
};

struct fsdp_watchdog {
	struct fsdp_vec lines;      /* struct fsdp_watchdog_line, as they come */
	struct fsdp_vec exceptions; /* struct fsdp_watchdog_exception */
	struct fsdp_names groups;   /* below the name of each its description */
	int64_t highest_rank;       /* that any line begins with or names; -1: none */
	int64_t snapshot;    /* work that a report lists ranks of, or FSDP_ABSENT */
	bool prints_others;  /* ranks that call what the one that prints does */
	bool numbers_differ; /* those in some group and those of the job */
};

/* The id of a group by name and description. FSDP_NONE: out of memory. */
uint32_t fsdp_watchdog_group(
	struct fsdp_names *groups, struct fsdp_span name, struct fsdp_span desc);

/* The most ranks of a job; larger numbers are not ranks. */
enum { FSDP_WATCHDOG_RANKS = 1 << 20 };
static inline bool fsdp_watchdog_is_rank(int64_t rank)
{
	return rank >= 0 && rank < FSDP_WATCHDOG_RANKS;
}

/* False: out of memory. */
bool fsdp_watchdog_init(struct fsdp_watchdog *watchdog, struct fsdp_arena *arena);

/* Adds the contents of a line of the log, if it has any. What is cut off is absent.
 * False: out of memory. */
bool fsdp_watchdog_take(struct fsdp_watchdog *watchdog, struct fsdp_span line);

/* flight-log-rows.c: the result of the lines of all these logs, as
 * fsdp_flight_join_readings does with dumps. NULL: no lines. */
bool fsdp_watchdog_join_readings(struct fsdp_trace_reading *readings, size_t count,
	struct fsdp_arena *arena, const struct fsdp_flight **ret_flight,
	struct fsdp_error **ret_error);

#endif
