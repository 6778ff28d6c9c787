/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the answers of `replay` share: tables of rows, and facts of a recording.
 */
#include "cmd/replay/replay-data.h"

void replay_begin_rows(
	struct replay *replay, struct record_table *table, const struct record *record)
{
	static const struct table like = {
		.key = "types", .main = true, .rows_only = true
	};

	record_table_init(table, &like, record, replay);
	out_records_begin(replay->run->out, table);
}

void replay_put_list(struct replay *replay, const struct record *record,
	const void *items, size_t count)
{
	struct record_table table;

	replay_begin_rows(replay, &table, record);
	for (size_t i = 0; i < count; i++)
		out_records_row(
			replay->run->out, &table, (const char *)items + i * record->size);
	out_table_end(replay->run->out);
}

const char *replay_how_name(unsigned how)
{
	static const char *const names[FSDP_BY_COUNT] = { "args", "launch", "name",
		"unknown" };

	return names[how];
}

bool replay_has_device(struct subject of)
{
	return ((const struct fsdp_recording *)of.object)->has_device;
}

uint64_t replay_run_of(const struct replay *replay, const struct fsdp_recording *one)
{
	for (size_t i = 0; replay->run_count > 1 && i < replay->run_count; i++) {
		struct replay run = replay_run(replay, i);
		for (size_t j = 0; j < run.count; j++)
			if (fsdp_recording(run.recordings, j) == one)
				return run.nth;
	}
	return 1;
}
