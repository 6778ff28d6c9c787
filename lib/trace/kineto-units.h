/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_UNITS_H
#define FSDP_TRACE_KINETO_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <fsdp/trace.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/span.h"
#include "io/stream.h"
#include "trace/collectives.h"
#include "trace/kineto-busy.h"
#include "trace/kineto-launches.h"
#include "trace/kineto-steps.h"
#include "trace/kineto-words.h"

/*
 * What FSDP is busy with, as its annotations say it ("FSDP::all_gather (layers.0)").
 * FSDP2 writes which unit it is since PyTorch 2.5, FSDP1 never.
 */
enum fsdp_kineto_unit_kind {
	FSDP_UNIT_NONE, /* no annotation of FSDP that tells of units */

	/* FSDP2 */
	FSDP_UNIT_ALL_GATHER,
	FSDP_UNIT_PRE_FORWARD,
	FSDP_UNIT_FORWARD_PREFETCH,
	FSDP_UNIT_PRE_BACKWARD,
	FSDP_UNIT_BACKWARD_PREFETCH,
	FSDP_UNIT_POST_BACKWARD_REDUCE,
	FSDP_UNIT_POST_BACKWARD_RESHARD,
	FSDP_UNIT_STATION, /* any other that only says that it is FSDP2 */

	/* FSDP1 */
	FSDP_UNIT1_FORWARD,
	FSDP_UNIT1_PRE_FORWARD,
	FSDP_UNIT1_PRE_FORWARD_PREFETCH,
	FSDP_UNIT1_PRE_BACKWARD,
	FSDP_UNIT1_PRE_BACKWARD_PREFETCH,
	FSDP_UNIT1_POST_BACKWARD,
	FSDP_UNIT1_POST_BACKWARD_PREFETCH,
	FSDP_UNIT1_RESHARD_ONLY,
	FSDP_UNIT_KINDS
};

struct fsdp_kineto_unit_note {
	enum fsdp_kineto_unit_kind kind;
	struct fsdp_span unit; /* as it is written; empty: the root, or not written */
	int64_t pg;            /* size of the shard mesh, or FSDP_ABSENT */
};

/* Any name is fine; borrows from it. */
struct fsdp_kineto_unit_note fsdp_kineto_unit_read(struct fsdp_span name);

/* Without the segments that torch.compile, activation checkpointing and FSDP1 leave in
 * names; `buffer` has room for all of it. Returns the length. */
size_t fsdp_kineto_unit_clean(struct fsdp_span unit, unsigned char *buffer);

/*
 * Which interval another one lies in. Only those of the same lane count: a thread, or a
 * process. Of several the shortest is the innermost; of equally long ones that which
 * begins later, then the one with the lower index.
 */
struct fsdp_enclosed {
	int64_t begin, end;
	uint32_t lane;
	uint32_t index; /* the caller's; of those that are asked for, of the answer */
};

/* A moment lies in what begins at it or before and ends behind it. */
static inline struct fsdp_enclosed fsdp_enclosed_moment(
	int64_t moment, uint32_t lane, uint32_t index)
{
	return (struct fsdp_enclosed){ moment, moment + 1, lane, index };
}

/* Sets ret_around[inner.index] to the index of the innermost one around each, or to
 * FSDP_NONE. Sorts both lists. Takes time for n of both like n log n, however they are
 * nested. False: out of memory. */
bool fsdp_enclosing_find(struct fsdp_enclosed *around, size_t around_count,
	struct fsdp_enclosed *inner, size_t inner_count, uint32_t *ret_around);

/* Rows of units, each with what was counted for it, in the order of reports. */

/* Adds up the rows of several recordings; the lists lie in the arena. False: out of
 * memory. */
bool fsdp_unit_rows_join(struct fsdp_recording *const *recordings, size_t count,
	struct fsdp_arena *arena, struct fsdp_unit_times **ret_rows, size_t *ret_count);

/* The rows of the units of one trace while they are filled. */
struct fsdp_unit_key {
	uint32_t unit; /* id of a word, or FSDP_NONE: not known */
	enum fsdp_unit_phase phase;
	int64_t pg;
};

struct fsdp_kineto_unit_rows {
	struct fsdp_kineto_words *words;
	struct fsdp_arena *arena;
	bool device;            /* times of exposure are known */
	struct fsdp_vec list;   /* struct fsdp_unit_times */
	struct fsdp_vec groups; /* struct fsdp_kineto_unit_text */
	struct fsdp_vec streams;
	struct fsdp_step_sums gathers, reduces; /* by row */
};

/* A text of a row. */
struct fsdp_kineto_unit_text {
	struct fsdp_span text;
	uint32_t row;
};

static inline struct fsdp_unit_times *fsdp_kineto_unit_row(
	const struct fsdp_kineto_unit_rows *rows, uint32_t row)
{
	return fsdp_vec_at(&rows->list, row);
}

/*
 * Which reductions end a step: the backward has nothing more to compute, so nothing can
 * hide them.
 */
struct fsdp_kineto_unit_reduction {
	int64_t begin_ns, end_ns, exposed_ns;
	size_t step; /* any number that it shares with those of the same step */
	uint32_t row;
};

/*
 * The units of FSDP in a trace: its annotations on the host, and which collective was
 * issued in which of them. A collective on the device belongs to the annotation in which
 * it was launched; one on the host to that in which it begins, on any thread of the
 * process.
 */
struct fsdp_kineto_units {
	bool wanted; /* else nothing is kept */
	bool by_step;
	struct fsdp_kineto_words *words;
	struct fsdp_vec notes;      /* struct fsdp_kineto_unit_span */
	struct fsdp_vec process_of; /* uint32_t, by the id of a thread */
	struct fsdp_vec streams; /* uint32_t: the thread of each kernel, in the order of
				       the file */
	struct fsdp_vec compute_ns; /* int64_t, by the id of a stream */
	bool seen[FSDP_UNIT_KINDS];
};

/* An annotation. */
struct fsdp_kineto_unit_span {
	int64_t ts_ns, dur_ns, pg;
	uint32_t thread, unit; /* unit: id of a word */
	unsigned char kind;
};

/* Lists lie in the arena. All that return bool are false when out of memory. */
void fsdp_kineto_units_init(struct fsdp_kineto_units *units,
	struct fsdp_kineto_words *words, struct fsdp_arena *arena,
	const struct fsdp_recording_options *options);

/* Any annotation of the host. Those of other things are passed over. */
bool fsdp_kineto_units_note(struct fsdp_kineto_units *units, struct fsdp_span name,
	const struct fsdp_kineto_unit_span *span);

/* The process of a thread. */
bool fsdp_kineto_units_thread(
	struct fsdp_kineto_units *units, uint32_t thread, uint32_t process);
uint32_t fsdp_kineto_units_process(
	const struct fsdp_kineto_units *units, uint32_t thread);

/* The next kernel of a collective, and any that computes. */
bool fsdp_kineto_units_stream(struct fsdp_kineto_units *units, uint32_t stream);
bool fsdp_kineto_units_compute(
	struct fsdp_kineto_units *units, uint32_t stream, int64_t dur_ns);

/* Whether launches are needed: there are annotations. */
bool fsdp_kineto_units_any(const struct fsdp_kineto_units *units);

/* Forgets annotations that do not begin in the steps of --steps. */
void fsdp_kineto_units_choose(
	struct fsdp_kineto_units *units, const struct fsdp_kineto_steps *steps);

/*
 * At the end, with all collectives, and where each of them was issued, by its place in the
 * file. `busy` is when the device was busy, or NULL on the host; steps are sorted. Fills
 * in the units of the recording.
 */
bool fsdp_kineto_units_settle(struct fsdp_kineto_units *units,
	const struct fsdp_collectives *all, const struct fsdp_kineto_place *places,
	const struct fsdp_kineto_busy *busy, const struct fsdp_kineto_steps *steps,
	struct fsdp_recording *recording);

/* Whether what begins so is a trace: JSON. Lines of a log may begin with brackets too. */
bool fsdp_trace_is_json(struct fsdp_span head);

/*
 * The names of the units of FSDP in a trace, each once, in order of first appearance and
 * without segments of wrappers: struct fsdp_span, in the arena; the root is empty. Only
 * annotations are looked at, so a trace of any length costs its names. What follows behind
 * damage is not read.
 *
 * Fails with the kind `no_units` where no unit is named: before PyTorch 2.5, of FSDP1, or
 * without FSDP.
 */
bool fsdp_trace_unit_names(struct fsdp_stream *stream, const struct fsdp_limits *limits,
	struct fsdp_arena *arena, struct fsdp_vec *ret_names,
	struct fsdp_error **ret_error);

#endif
