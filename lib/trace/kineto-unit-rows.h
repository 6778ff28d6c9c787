/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_UNIT_ROWS_H
#define FSDP_TRACE_KINETO_UNIT_ROWS_H

#include <fsdp/trace.h>

#include "trace/kineto-words.h"
#include "trace/kineto-step-sums.h"

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

void fsdp_kineto_unit_rows_init(struct fsdp_kineto_unit_rows *rows,
	struct fsdp_kineto_words *words, struct fsdp_arena *arena, bool device);

/* The index of the row with a key, which is made if it is new. All that return bool are
 * false when out of memory. */
bool fsdp_kineto_unit_rows_find(
	struct fsdp_kineto_unit_rows *rows, struct fsdp_unit_key key, uint32_t *ret_row);

static inline struct fsdp_unit_times *fsdp_kineto_unit_row(
	const struct fsdp_kineto_unit_rows *rows, uint32_t row)
{
	return fsdp_vec_at(&rows->list, row);
}

/* Notes that a kernel of a row is of this process group, or on this stream, a thread. The
 * text of the group outlives the rows. */
bool fsdp_kineto_unit_rows_group(
	struct fsdp_kineto_unit_rows *rows, uint32_t row, struct fsdp_span group);
bool fsdp_kineto_unit_rows_stream(
	struct fsdp_kineto_unit_rows *rows, uint32_t row, uint32_t stream);

/* Fills in the units of the recording, in order. */
bool fsdp_kineto_unit_rows_list(
	struct fsdp_kineto_unit_rows *rows, struct fsdp_recording *recording);

#endif
