/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPLAY_DATA_H
#define REPLAY_DATA_H

#include "cmd/replay/replay.h"

/* What the files share that write the answer for programs. The context of all records is
 * the struct replay. */

static inline const struct fsdp_recordings *replay_recordings_of(struct subject of)
{
	return ((const struct replay *)of.context)->recordings;
}

/* With several runs, which one an element is of. */
static inline bool replay_has_runs(struct subject of)
{
	return ((const struct replay *)of.context)->run_count > 1;
}
#define RUN_ROW(from, run)                                                                     \
	{                                                                                      \
		"run", COUNT_AT(from, run),                                                    \
			.has = replay_has_runs,                                                \
			.about =                                                               \
				"Of several recordings of each rank, which run it is, from 1." \
	}

/* A recording, its input, and its run from 1. */
struct ranked {
	struct fsdp_recording recording;
	uint64_t input, run;
};

/* ---- replay-lists.c ---- */

/* Begins a table of rows of this record. */
void replay_begin_rows(
	struct replay *replay, struct record_table *table, const struct record *record);
/* The same with a row for each item of an array. */
void replay_put_list(struct replay *replay, const struct record *record,
	const void *items, size_t count);

/* The run of a recording, from 1. */
uint64_t replay_run_of(const struct replay *replay, const struct fsdp_recording *one);
/* Of a struct fsdp_recording. */
bool replay_has_device(struct subject of);
/* "args", "launch", "name", "unknown". */
const char *replay_how_name(unsigned how);

/* replay-types.c */
extern const struct record replay_type_record;
void replay_put_types(struct replay *replay);

/* replay-collectives.c */
extern const struct record replay_collective_record, replay_matching_record;
const void *replay_each_collective(struct subject of, size_t i, void *room);
void replay_put_collective_rows(struct replay *replay);

/* replay-rows.c: the table of --by. False: out of memory. */
bool replay_put_rows(struct replay *replay);

/* replay-steps.c, replay-sums.c: those of steps; of types and regions */
bool replay_put_step_rows(struct replay *replay);
void replay_put_sum_rows(struct replay *replay);

#endif
