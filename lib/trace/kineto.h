/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_H
#define FSDP_TRACE_KINETO_H

#include "syntax/json-quick.h"
#include "trace/collectives.h"
#include "trace/event.h"
#include "trace/intervals.h"

/* What kineto.c (reading), kineto-event.c (one event) and kineto-finish.c (the end)
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

/*
 * Which collective a kernel is that its args do not name. The host launches it by a call
 * with the same correlation, while a note of the backend ("nccl:all_gather") is open on the
 * thread of the call; the shortest such note tells. In a trace without kernels the notes
 * are the collectives.
 *
 * A long trace has many launches, of which few are needed: now and then the others are
 * forgotten.
 */
enum { FSDP_KINETO_LAUNCHES = 8 << 10 }; /* as many are kept in any case */

struct fsdp_kineto_launch {
	int64_t correlation, ts_ns;
	uint32_t thread;
	bool is_launch; /* "Launch" is in its name */
};

/* A kernel that its args do not name. */
struct fsdp_kineto_unnamed {
	int64_t correlation;
	int64_t bytes_out; /* the bytes, if it is an all-gather */
	uint32_t index;    /* in the list of collectives */
	bool has_correlation;
};

struct fsdp_kineto_launches {
	struct fsdp_arena arena;
	struct fsdp_vec notes, told; /* struct note, struct told */
	struct fsdp_vec list;        /* struct fsdp_kineto_launch */
	struct fsdp_vec unnamed;     /* struct fsdp_kineto_unnamed */
	/* correlations of kernels that args name: of those since launches were last
	 * forgotten, and of those between that and the time before */
	int64_t named[FSDP_KINETO_LAUNCHES], named_before[FSDP_KINETO_LAUNCHES];
	size_t named_count, named_before_count;
	size_t ceiling; /* the list is so long when the next are forgotten */
	bool forgotten; /* some were */
	bool again;     /* the list is made again, from the second pass */
};

/* All that return bool are false when out of memory. */
void fsdp_kineto_launches_init(
	struct fsdp_kineto_launches *launches, struct fsdp_budget *budget);
void fsdp_kineto_launches_done(struct fsdp_kineto_launches *launches);

/* Times and type of a note; if no kernel came before it (`alone`), bytes, sort and seq as
 * well. */
bool fsdp_kineto_launches_note(struct fsdp_kineto_launches *launches,
	const struct fsdp_comm *comm, uint32_t thread, bool alone);
bool fsdp_kineto_launches_unnamed(
	struct fsdp_kineto_launches *launches, const struct fsdp_kineto_unnamed *kernel);
/* A kernel that its args name: its launch is of no use. */
void fsdp_kineto_launches_named(
	struct fsdp_kineto_launches *launches, int64_t correlation);
bool fsdp_kineto_launches_add(
	struct fsdp_kineto_launches *launches, const struct fsdp_kineto_launch *launch);

/* Whether a kernel has no launch, and some were forgotten. */
bool fsdp_kineto_launches_miss(
	const struct fsdp_kineto_launches *launches, bool *ret_missing);
/* Before the second pass: from now on all launches are kept. */
void fsdp_kineto_launches_restart(struct fsdp_kineto_launches *launches);

/* Gives each unnamed kernel in the list of collectives its type and how it is known; an
 * empty list is filled with the notes. Call it once. */
bool fsdp_kineto_launches_resolve(
	struct fsdp_kineto_launches *launches, struct fsdp_vec *comms);

enum { FSDP_KINETO_SORTS = 64 }; /* of steps, while events are read */
struct fsdp_kineto_step {
	int64_t number, ts_ns, dur_ns;
	uint64_t order;
	struct fsdp_tally *sums; /* FSDP_TIME_COUNT of them, or NULL */
	bool chosen;             /* by --steps, or all are */
};

/* A begin that waits for its end; its texts lie behind it. */
struct fsdp_kineto_open {
	struct fsdp_kineto_open *below;
	size_t size; /* with its texts */
	struct fsdp_kineto_event event;
};

struct fsdp_kineto {
	struct fsdp_trace_reading *reading;
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

	struct fsdp_collectives kernels;
	struct fsdp_kineto_launches launches;
	struct fsdp_durations durations[FSDP_TIME_COUNT];
	struct fsdp_intervals comm_busy, compute_busy, mem_busy, host_busy;
	struct fsdp_vec steps;
	bool steps_late, steps_sorted;
	unsigned steps_sorts;       /* so often they were not in order */
	bool over[FSDP_TIME_COUNT]; /* more than can be exact, the first time */
	bool again;                 /* those are read again, in the chosen steps only */
	bool thinned[FSDP_TIME_COUNT]; /* without those of steps that are not chosen */
	int64_t last_full_ts;          /* of what was put into steps as it came */
	/* what comes next: its step may come a little later */
	struct fsdp_kineto_late {
		int64_t ts_ns, dur_ns;
		enum fsdp_time_type type;
	} * late;
	size_t late_count, late_at;

	uint64_t order, bad_tokens, bad_metadata;
	bool any_reduce_scatter_op;
	bool overflow;
};

/* Functions that return bool are false when out of memory; kineto.c makes the error. */
bool fsdp_kineto_take(struct fsdp_kineto *kineto, const struct fsdp_kineto_event *event);
/* At the end: what waited for its step waits no longer. */
bool fsdp_kineto_flush_late(struct fsdp_kineto *kineto);
/* Frees the begins that are still open, and counts them. */
uint64_t fsdp_kineto_forget_open(struct fsdp_kineto *kineto);

/* Whether collectives wait for a launch that was not kept, a step came late, or so many
 * calls came that those of the chosen steps are not known one by one. `can`: the stream
 * can be read again. */
bool fsdp_kineto_needs_second(struct fsdp_kineto *kineto, bool can, bool *ret_needs);
bool fsdp_kineto_settle(struct fsdp_kineto *kineto);

bool fsdp_kineto_sort_steps(struct fsdp_kineto *kineto);
/* Whether --steps has it. */
bool fsdp_kineto_chooses_step(const struct fsdp_kineto *kineto, int64_t number);
/* Whether it lies in a step of --steps; they are sorted. */
bool fsdp_kineto_is_chosen(const struct fsdp_kineto *kineto, int64_t ts_ns);
bool fsdp_kineto_chooses(const struct fsdp_kineto *kineto);
/* What is kept one by one of a type. */
bool fsdp_kineto_fill_steps(struct fsdp_kineto *kineto, enum fsdp_time_type type);
/* Into the step that holds it, if any. */
bool fsdp_kineto_into_step(struct fsdp_kineto *kineto, enum fsdp_time_type type,
	int64_t ts_ns, int64_t dur_ns);

#endif
