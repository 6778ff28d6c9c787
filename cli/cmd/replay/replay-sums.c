/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One row for each type over all ranks of a run, for outputs that know nothing but rows:
 * what text shows, in nanoseconds.
 */
#include "cmd/replay/replay-data.h"

struct sum_row {
	struct fsdp_span type;
	uint64_t run;
	struct fsdp_times times;
	struct replay_spread spread;
	int64_t all_ns;
};

static bool has_ranks(struct subject of)
{
	return ((const struct sum_row *)of.object)->spread.ranks != 0;
}

static struct value get_mean(struct subject of)
{
	const struct sum_row *row = of.object;

	return row->spread.ranks == 0 || row->times.sum_ns == FSDP_ABSENT
		       ? value_absent()
		       : value_ns(row->times.sum_ns / (int64_t)row->spread.ranks);
}

static struct value get_percent(struct subject of)
{
	const struct sum_row *row = of.object;

	return row->all_ns <= 0 || row->times.sum_ns == FSDP_ABSENT
		       ? value_absent()
		       : value_number(
				 (double)row->times.sum_ns * 100 / (double)row->all_ns);
}

#define SUM struct sum_row
static const struct record sum_record = RECORD_OF(RECORD_OBJECT, SUM,
	{ "type", NAME_AT(SUM, type) }, { "run", COUNT_AT(SUM, run) },
	{ "count", COUNT_AT(SUM, times.count) }, { "sum_ns", NS_AT(SUM, times.sum_ns) },
	{ "rank_mean_ns", GET(FIELD_NS, get_mean) },
	{ "rank_min_ns", NS_AT(SUM, spread.min_ns), .has = has_ranks },
	{ "min_rank", INTEGER_AT(SUM, spread.min_rank), .has = has_ranks },
	{ "rank_max_ns", NS_AT(SUM, spread.max_ns), .has = has_ranks },
	{ "max_rank", INTEGER_AT(SUM, spread.max_rank), .has = has_ranks },
	{ "min_ns", NS_AT(SUM, times.min_ns) }, { "p50_ns", NS_AT(SUM, times.p50_ns) },
	{ "p95_ns", NS_AT(SUM, times.p95_ns) }, { "max_ns", NS_AT(SUM, times.max_ns) },
	{ "percent_of_all", GET(FIELD_NUMBER, get_percent) });

static void put_run(const struct replay *run, const struct record_table *table)
{
	bool regions = replay_shows_only(run, "region");
	struct fsdp_type_times all;
	bool has_all = replay_find_type(run, span_of_text(text_of("all")), &all);

	for (size_t i = 0; i < replay_type_count(run); i++) {
		struct fsdp_type_times type = fsdp_recordings_type(run->recordings, i);

		if (type.times.count == 0 || (regions && !replay_is_region(type.name)))
			continue;
		out_records_row(run->run->out, table,
			&(struct sum_row){ type.name, run->nth, type.times,
				replay_spread_of(run, type.name),
				has_all ? all.times.sum_ns : FSDP_ABSENT });
	}
}

void replay_put_sum_rows(struct replay *replay)
{
	struct record_table table;

	replay_begin_rows(replay, &table, &sum_record);
	for (size_t i = 0; i < replay->run_count; i++) {
		struct replay run = replay_run(replay, i);

		put_run(&run, &table);
	}
	out_table_end(replay->run->out);
}
