/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_H
#define FSDP_TRACE_KINETO_H

#include "syntax/json-quick.h"
#include "trace/event.h"
#include "trace/intervals.h"

/* What kineto.c (reading), kineto-event.c (one event) and kineto-settle.c (the end)
 * share. */

/* An event that was read: `args` is the span of the object, or absent. */
enum { FSDP_KINETO_VALUES = 8, FSDP_KINETO_ARGS = 9 };

struct fsdp_kineto_event {
	union {
		struct {
			struct fsdp_json_value ph, cat, name, ts, dur, pid, tid, args;
		};
		struct fsdp_json_value values[FSDP_KINETO_VALUES];
	};
};

/* Of a collective, what its args say. */
struct fsdp_kineto_args {
	union {
		struct {
			struct fsdp_json_value collective, correlation, kind, group, seq,
				group_size, dtype, in_elements, out_elements;
		};
		struct fsdp_json_value values[FSDP_KINETO_ARGS];
	};
};
extern const struct fsdp_span fsdp_kineto_args_keys[FSDP_KINETO_ARGS];

/* A kernel or a note of a backend. */
struct fsdp_kineto_comm {
	int64_t ts_ns, dur_ns;
	int64_t correlation;
	int64_t bytes_in, bytes_out, group_size; /* FSDP_ABSENT */
	uint32_t group;                          /* a word; 0: none */
	uint32_t seq;       /* the same, or a number: FSDP_KINETO_NUMBER and its value */
	uint32_t thread;    /* of a note */
	unsigned char type; /* enum fsdp_time_type */
	unsigned char how;  /* enum fsdp_comm_how */
	unsigned char by_name; /* what its name says, if nothing else does */
	bool has_correlation : 1, unresolved : 1;
};
#define FSDP_KINETO_NUMBER (UINT32_C(1) << 31)

enum { FSDP_KINETO_LAUNCHES = 8 << 10 }; /* before they are looked through */
struct fsdp_kineto_launch {
	int64_t correlation, ts_ns;
	uint32_t thread;
	bool is_launch; /* "Launch" is in its name */
};

struct fsdp_kineto_step {
	int64_t number, ts_ns, dur_ns;
	uint64_t order;
	struct fsdp_tally *sums; /* FSDP_TIME_COUNT of them, or NULL */
	bool chosen;             /* by --steps, or all are */
};

/* A begin that waits for its end; its texts lie behind it. */
struct fsdp_kineto_open {
	struct fsdp_kineto_open *below;
	struct fsdp_kineto_event event;
};

struct fsdp_kineto {
	struct fsdp_reading *reading;
	struct fsdp_json_scan scan;
	bool second; /* the second time over the file */
	bool seen_events, seen_nodes;

	struct fsdp_names words; /* categories, phases, kernels, threads, groups */
	struct fsdp_vec known;   /* uint32_t, by the id of a word: what is known of it */
	struct fsdp_vec cats, phases;  /* struct fsdp_tally */
	struct fsdp_tally *phase[128]; /* those of one byte */
	struct fsdp_vec opens;         /* struct fsdp_kineto_open *, a stack a thread */
	struct {
		unsigned char text[64]; /* pid and tid as the event before had them */
		size_t size;
		uint32_t id;
	} thread;
	struct fsdp_kineto_cat {
		unsigned char text[32]; /* a category that was seen before */
		size_t size;
		int cat;
		struct fsdp_tally *tally;
	} seen[32];
	unsigned char *scratch; /* what an escaped text becomes */
	size_t scratch_room;
	struct fsdp_json_quick *quick;
	bool args_at_hand;          /* those of this event are in there */
	struct fsdp_json_scan args; /* of one event */

	struct fsdp_arena pending; /* of the three below, gone when they are settled */
	struct fsdp_vec comm;      /* struct fsdp_kineto_comm: kernels */
	struct fsdp_vec notes;     /* the same: of backends, on the host */
	struct fsdp_vec launches;
	struct fsdp_durations durations[FSDP_TIME_COUNT];
	struct fsdp_intervals comm_busy, compute_busy, mem_busy, host_busy;
	size_t launch_ceiling;
	bool launches_forgotten, launches_lost;
	struct fsdp_vec steps;
	bool steps_late, steps_sorted;
	int64_t last_full_ts; /* of what was put into steps as it came */

	uint64_t order, bad_tokens, bad_metadata;
	bool any_reduce_scatter_op;
	bool overflow;
};

bool fsdp_kineto_take(struct fsdp_kineto *kineto, const struct fsdp_kineto_event *event);
/* Frees the begins that are still open, and counts them. */
uint64_t fsdp_kineto_forget_open(struct fsdp_kineto *kineto);

/* Which collectives wait for a launch that was not kept, or whose step came late. */
bool fsdp_kineto_needs_second(struct fsdp_kineto *kineto);
bool fsdp_kineto_settle(struct fsdp_kineto *kineto);

/* Keeps the launches that lie in a note, if there are too many. */
bool fsdp_kineto_prune(struct fsdp_kineto *kineto);
bool fsdp_kineto_sort_steps(struct fsdp_kineto *kineto);
/* Into the step that holds it, if any. */
bool fsdp_kineto_into_step(struct fsdp_kineto *kineto, enum fsdp_time_type type,
	int64_t ts_ns, int64_t dur_ns);

static inline bool fsdp_kineto_memory(struct fsdp_kineto *kineto)
{
	return fsdp_trace_memory(kineto->reading);
}

#endif
