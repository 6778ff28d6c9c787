/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_H
#define FSDP_TRACE_KINETO_H

#include "trace/event.h"
#include "trace/intervals.h"

/* What kineto.c (reading), kineto-event.c (one event) and kineto-settle.c (the end)
 * share. */

/* A value of an event or of its args: what stands in the file, if anything. */
struct fsdp_kineto_value {
	enum fsdp_json_token_kind kind; /* FSDP_SCAN_END: absent */
	bool escaped;
	struct fsdp_span span;
};

/* An event that was read: `args` is the span of the object, or absent. */
struct fsdp_kineto_event {
	struct fsdp_kineto_value ph, cat, name, ts, dur, pid, tid, args;
};

/* Of a collective, what its args say. */
struct fsdp_kineto_args {
	struct fsdp_kineto_value collective, correlation, kind, group, seq, group_size,
		dtype, in_elements, out_elements;
};

/* A kernel or a note of a backend. */
struct fsdp_kineto_comm {
	int64_t ts_ns, dur_ns;
	int64_t correlation;
	int64_t bytes_in, bytes_out, group_size; /* FSDP_ABSENT */
	struct fsdp_span group, seq;
	uint32_t thread;    /* of a note */
	unsigned char type; /* enum fsdp_time_type */
	unsigned char how;  /* enum fsdp_comm_how */
	bool has_correlation, unresolved;
	unsigned char by_name; /* what its name says, if nothing else does */
};

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
	struct {
		unsigned char text[24]; /* the category of the event before */
		size_t size;
		int cat;
		struct fsdp_tally *tally;
	} cat;
	unsigned char *scratch; /* what an escaped text becomes */
	size_t scratch_room;
	struct fsdp_json_scan args; /* of one event */

	struct fsdp_durations durations[FSDP_TIME_COUNT];
	struct fsdp_intervals comm_busy, compute_busy, mem_busy, host_busy;
	struct fsdp_vec comm;  /* struct fsdp_kineto_comm: kernels */
	struct fsdp_vec notes; /* the same: of backends, on the host */
	struct fsdp_vec launches;
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
