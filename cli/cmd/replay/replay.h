/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPLAY_H
#define REPLAY_H

#include <string.h>

#include "cmd/replay/straggler.h"
#include "part/recordings.h"
#include "render/record.h"
#include "session/session.h"

/* Sums and products of times that 64 bits do not hold. */
__extension__ typedef __int128 wide;

/* What the files of `replay` share: how it answers in text, in data, and compared. */

/* Of the timeline of traces; that of memory has as many unless a number is given. */
enum { REPLAY_CELLS = 60 };

struct replay_options {
	const char *by;
	int64_t top;
	const char *advice;
	bool percentiles;
	const char *steps;
	int64_t timeline; /* cells; below 1: it is not wanted */
	bool memory;
	const char *style;
	const char *rank_regex;
	bool strict;
	struct texts fail_if;
	struct texts compare;
};

/* What one run of this command has at hand. */
struct replay {
	struct run *run;
	const struct replay_options *options;
	const struct fsdp_recordings *recordings; /* of one run, or of all */
	struct fsdp_result *baseline;             /* of --compare */
	struct comparison *comparison;            /* with earlier recordings, the same */
	struct trace_paths compared_paths;        /* which are of these */
	size_t count;
	uint64_t nth, run_count;     /* the run that it is, from 1; of so many */
	struct replay_group *groups; /* with --by=group, of all runs */
	size_t group_count;
	struct replay_kernel *kernels; /* with --by=kernel, of all runs */
	size_t kernel_count;
	struct replay_idle *idles; /* with --by=idle, of all runs */
	size_t idle_count;
	bool has_traces, has_dumps;
};

/* The same of one run, from 0; its recordings alone. */
struct replay replay_run(const struct replay *replay, size_t nth);

/* The nth recording by rank. */
const struct fsdp_recording *replay_by_rank(const struct replay *replay, size_t nth);

/* ---- types ---- */

enum { REPLAY_SIX_COUNT = 6 };
/* Those that SimpleProfiler names: they always stand there, in this order. */
extern const char *const REPLAY_SIX[REPLAY_SIX_COUNT];

size_t replay_type_count(const struct replay *replay);
bool replay_has_type(const struct replay *replay, struct fsdp_span name);
/* Of one recording; NULL: it has none of these. */
const struct fsdp_type_times *replay_type_of(
	const struct fsdp_recording *recording, struct fsdp_span name);

/*
 * Those of the six that no recording has stand in their places: this gives the next one
 * that comes before a type, or (no name) the next one at the end. Begin with *at 0. NULL:
 * there is none, and the type itself is next.
 */
const char *replay_next_absent(
	const struct replay *replay, struct fsdp_span before, size_t *at);

/* Whether it is none of the six, no collective, no copy and no kernel. */
bool replay_is_region(struct fsdp_span name);
/* Of a run, over all its ranks. False: none has it. */
bool replay_find_type(const struct replay *run, struct fsdp_span name,
	struct fsdp_type_times *ret_type);
/* One type over all ranks: the ranks that spent least and most. */
struct replay_spread {
	uint64_t ranks; /* that have it */
	int64_t min_ns, max_ns, min_rank, max_rank;
};
struct replay_spread replay_spread_of(const struct replay *run, struct fsdp_span name);
/* Whether --by asks for this table. */
bool replay_shows_only(const struct replay *replay, const char *table);

/* ---- collectives ---- */

/* Of all recordings: where their times come from, and what told their types. */
struct replay_collectives {
	enum fsdp_comm_layer layer;
	uint64_t by[FSDP_BY_COUNT];
};
struct replay_collectives replay_collectives(const struct replay *replay);

/* ---- the cost of a step ---- */

/* Means over all ranks and steps; shares in per cent of the time of the devices. */
struct replay_cost {
	uint64_t steps; /* 0: there is nothing to say */
	bool marked;    /* they are steps; else each is a whole recording */
	int64_t mean_ns, min_ns, max_ns, max_rank;
	bool has_device; /* the shares are known */
	bool only_calls; /* all kernels are those of collectives */
	double compute, exposed, copies, idle;
	int64_t busy_ns, span_ns; /* of a device, in what the shares are of */
	int64_t straggler;        /* or FSDP_ABSENT */
	/* What the others wait for it, or all for each other, in per cent of their time. */
	double waiting;
	bool waits; /* `waiting` is worth naming */
	enum straggler_cause cause;
	double cause_ns; /* how much longer it takes for that, per step */
};
struct replay_cost replay_cost(const struct replay *replay);
void replay_tell_cost(struct replay *replay, const struct replay_cost *cost);
/* The largest loss that the recordings prove. */
void replay_tell_advice(struct replay *replay, const struct replay_cost *cost);
/* That allocations of the device cost a share of the steps, where they do. */
void replay_tell_allocations(struct replay *run);
/* More than one launch in a hundred has no kernel: shares of time are not known then. */
bool replay_lost_kernels(const struct fsdp_recording *one);
/* Whether lines that advise on time of the device are wanted, and can be. */
bool replay_advises(const struct replay *replay);

/* Whether nothing was recorded that time could be given to; and whether there are no
 * events at all. */
bool replay_says_nothing(const struct replay *replay);
bool replay_is_empty(const struct replay *replay);
void replay_tell_nothing(struct replay *replay);

/* ---- pictures ---- */

/* Stacks of types, if some output draws them. */

/* ---- times ---- */

/* Milliseconds with three decimals, halves away from zero; "-" if absent. */
struct ms {
	char text[32];
};
const char *replay_ms(int64_t ns, struct ms *ms);

static inline const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

/* By their bytes; a shorter one that the other begins with comes first, and what is absent
 * before what is empty. */
static inline int compare_spans(struct fsdp_span a, struct fsdp_span b)
{
	size_t common = a.size < b.size ? a.size : b.size;
	int order = common != 0 ? memcmp(a.data, b.data, common)
				: (a.data != NULL) - (b.data != NULL);

	return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

/* ---- steps ---- */

/* What each step costs, and what is in it. False: out of memory. */
bool replay_show_steps(struct replay *run);

/* ---- units ---- */

/* What each unit of FSDP costs, and what that comes from, as advice where that is wanted. */
void replay_show_units(struct replay *run, bool advises);
/* Why collectives of units are exposed, as far as one reason costs most. False: those of
 * units are exposed for less than that. */
bool replay_tell_unit_loss(struct replay *run, const char *label, double least_ns);
/* Rows for outputs that know nothing but rows. */
void replay_put_unit_rows(struct replay *replay);
/* Its fields are those of the answer with --by=unit, about a struct replay as context. */
extern const struct record replay_units;

/* ---- groups ---- */

/* Adds up collectives by process group, type and size, for --by=group. False: out of
 * memory. */
bool replay_find_groups(struct replay *replay);
/* Those of one run. */
void replay_show_groups(struct replay *run);
void replay_put_group_rows(struct replay *replay);
/* The type of collectives of which most is exposed; empty: none is, or nothing tells. */
struct fsdp_span replay_most_exposed(struct replay *run);
/* Its field is that of the answer with --by=group, about a struct replay as context. */
extern const struct record replay_groups;

/* ---- kernels ---- */

/* Adds up kernels by name, for --by=kernel. False: out of memory. */
bool replay_find_kernels(struct replay *replay);
/* Those of one run. */
void replay_show_kernels(struct replay *run);
void replay_put_kernel_rows(struct replay *replay);
enum { REPLAY_KERNEL_BYTES = 36 };
/* What tells most of a name in few columns: without what all names begin with. */
struct fsdp_span replay_kernel_name(
	struct fsdp_span name, char buffer[REPLAY_KERNEL_BYTES]);
/* Its field is that of the answer with --by=kernel, about a struct replay as context. */
extern const struct record replay_kernels;

/* ---- idle ---- */

/* Adds up why devices were idle, for --by=idle. False: out of memory. */
bool replay_find_idle(struct replay *replay);
/* That of one run. */
void replay_show_idle(struct replay *run);
void replay_put_idle_rows(struct replay *replay);
/* Its fields are those of the answer with --by=idle, about a struct replay as context. */
extern const struct record replay_idles;

/* ---- answers ---- */

/* False: out of memory. */
bool replay_show_text(struct replay *replay);
void replay_tell_comparison(struct replay *replay);
/* False: out of memory. */
bool replay_put_data(struct replay *replay);

extern const struct record replay_answer, compare_record;

/* ---- replay-memory.c ---- */

/* The whole answer of --memory. False: *ret_error, or out of memory. */
bool replay_memory(struct replay *replay, struct fsdp_error **ret_error);

/* A device of a rank: a row of all outputs. */
struct memory_row {
	int64_t rank;
	const struct fsdp_memory *memory;
	struct fsdp_memory_device says;
};

/* The nth row by rank and device; false past the end. */
bool memory_row_at(
	const struct fsdp_recordings *recordings, size_t nth, struct memory_row *row);

/* What a stack is called by: the first line of Python outside of PyTorch, else the node of
 * autograd; behind it the operator, else PyTorch's innermost line. */
struct memory_label {
	const struct fsdp_memory_frame *own, *torch;
	const struct fsdp_memory_frame *caller; /* the next that is as `own` */
	struct fsdp_span node, op;
};
struct memory_label memory_label(
	const struct fsdp_memory *memory, const uint32_t *frames, size_t count);
void memory_put_label(
	struct out *out, const struct memory_label *label, bool with_caller);
void memory_put_stack(struct out *out, const struct fsdp_memory *memory,
	const uint32_t *frames, size_t count);

extern const struct record memory_frame_record;

/* ---- replay-moments.c ---- */

/* The course of memory over the history: of one device as text, of all as data, as rows. */
void memory_moments_show(const struct replay *replay, const struct memory_row *row);
void memory_moments_put(const struct replay *replay);
void memory_moments_put_rows(const struct replay *replay);
extern const struct record memory_moment_record;

/* ---- replay-growth.c ---- */

/* How a device changed since an earlier snapshot. */
struct memory_growth;

/* Compares the first row of each rank and device with that of an earlier snapshot.
 * *ret_count of them, to be freed together. False: *ret_error, or out of memory. */
bool memory_growth_new(const struct replay *replay, struct memory_growth **ret_growth,
	struct fsdp_error **ret_error);
void memory_growth_free(struct memory_growth *growth);
void memory_growth_show(const struct replay *replay, const struct memory_growth *growth);
void memory_growth_put(const struct replay *replay, const struct memory_growth *growth);
extern const struct record memory_growth_record;

extern const struct record replay_memory_record;

#endif
