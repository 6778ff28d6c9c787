/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows for outputs that know nothing but rows: of the table of --by, or one for each rank,
 * step and type.
 */
#include "cmd/replay/comparison.h"
#include "cmd/replay/replay-data.h"

#define RECORDING struct fsdp_recording

struct separated_row {
	int64_t rank, step; /* FSDP_ABSENT: of all steps */
	struct fsdp_span type;
	struct fsdp_times times;
	uint64_t run;
};
#define ROW struct separated_row
static const struct record row_record = RECORD_OF(RECORD_OBJECT, ROW,
	{ "rank", INTEGER_AT(ROW, rank) }, { "step", INTEGER_AT(ROW, step) },
	{ "type", NAME_AT(ROW, type) }, { "count", COUNT_AT(ROW, times.count) },
	{ "sum_ns", NS_AT(ROW, times.sum_ns) }, { "min_ns", NS_AT(ROW, times.min_ns) },
	{ "p50_ns", NS_AT(ROW, times.p50_ns) }, { "p95_ns", NS_AT(ROW, times.p95_ns) },
	{ "max_ns", NS_AT(ROW, times.max_ns) }, { "run", COUNT_AT(ROW, run) });

static void rows_of_types(struct replay *replay, const struct record_table *table,
	const struct fsdp_recording *one, uint64_t run)
{
	for (size_t j = 0; j < one->type_count; j++)
		out_records_row(replay->run->out, table,
			&(struct separated_row){ one->rank, FSDP_ABSENT,
				one->types[j].name, one->types[j].times, run });
}

static void rows_of_step(struct replay *replay, const struct record_table *table,
	const struct fsdp_recording *one, const struct fsdp_step *step, uint64_t run)
{
	for (size_t i = 0; i < step->type_count; i++) {
		struct fsdp_times times = { step->types[i].count, step->types[i].sum_ns,
			FSDP_ABSENT, FSDP_ABSENT, FSDP_ABSENT, FSDP_ABSENT, false };

		out_records_row(replay->run->out, table,
			&(struct separated_row){
				one->rank, step->step, step->types[i].name, times, run });
	}
}

static void put_rows_of_types(struct replay *replay)
{
	struct record_table table;

	replay_begin_rows(replay, &table, &row_record);
	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(replay, i);
		uint64_t run = replay_run_of(replay, one);

		rows_of_types(replay, &table, one, run);
		for (size_t j = 0; j < one->step_count; j++)
			rows_of_step(replay, &table, one, &one->steps[j], run);
	}
	out_table_end(replay->run->out);
}

static struct value get_all(struct subject of)
{
	const struct fsdp_type_times *all =
		replay_type_of(of.object, span_of_text(text_of("all")));

	return all != NULL ? value_ns(all->times.sum_ns) : value_absent();
}

static bool has_waits(struct subject of)
{
	const struct fsdp_matching *matching =
		fsdp_recordings_matching(replay_recordings_of(of));

	return matching->by != NULL && matching->aligned;
}

/* As the text has them, under the names of json. */
static const struct record rank_row_record = RECORD_OF(RECORD_OBJECT, RECORDING,
	{ "rank", INTEGER_AT(RECORDING, rank) }, { "input", SIZE_AT(RECORDING, input) },
	{ "all_ns", GET(FIELD_NS, get_all) },
	{ "comm_busy_ns", NS_AT(RECORDING, device.comm_busy_ns),
		.has = replay_has_device },
	{ "exposed_ns", NS_AT(RECORDING, device.exposed_ns), .has = replay_has_device },
	{ "overlap_ns", NS_AT(RECORDING, device.overlap_ns), .has = replay_has_device },
	{ "compute_busy_ns", NS_AT(RECORDING, device.compute_busy_ns),
		.has = replay_has_device },
	{ "idle_ns", NS_AT(RECORDING, device.idle_ns), .has = replay_has_device },
	{ "host_comm_busy_ns", NS_AT(RECORDING, host_comm_busy_ns) },
	{ "wait_ns", NS_AT(RECORDING, wait_ns), .has = has_waits },
	{ "times_last", COUNT_AT(RECORDING, times_last), .has = has_waits });

static void put_rows_of_ranks(struct replay *replay)
{
	struct record_table table;

	replay_begin_rows(replay, &table, &rank_row_record);
	for (size_t i = 0; i < replay->count; i++)
		out_records_row(replay->run->out, &table, replay_by_rank(replay, i));
	out_table_end(replay->run->out);
}

bool replay_put_rows(struct replay *replay)
{
	if (replay->comparison != NULL) {
		comparison_put_rows(replay);
		return true;
	}
	if (replay_shows_only(replay, "step"))
		return replay_put_step_rows(replay);
	if (replay->options->by == NULL)
		put_rows_of_types(replay);
	else if (replay_shows_only(replay, "rank"))
		put_rows_of_ranks(replay);
	else if (replay_shows_only(replay, "collective"))
		replay_put_collective_rows(replay);
	else if (replay_shows_only(replay, "unit"))
		replay_put_unit_rows(replay);
	else if (replay_shows_only(replay, "group"))
		replay_put_group_rows(replay);
	else if (replay_shows_only(replay, "kernel"))
		replay_put_kernel_rows(replay);
	else if (replay_shows_only(replay, "idle"))
		replay_put_idle_rows(replay);
	else
		replay_put_sum_rows(replay);
	return true;
}
