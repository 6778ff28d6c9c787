/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `replay` says of calls of each type, over all ranks and by rank, for programs.
 */
#include "cmd/replay/replay-data.h"

struct shown_type {
	struct fsdp_span name;
	struct fsdp_times times;
	uint64_t run;
};

/* Of a type that was not called the rest is null. */
static struct value get_sum(struct subject of)
{
	const struct fsdp_times *times = &((const struct shown_type *)of.object)->times;

	return value_ns(times->count == 0 ? 0 : times->sum_ns);
}

struct type_of_rank {
	int64_t rank;
	struct fsdp_times times;
	size_t next; /* by rank */
};

static const void *each_rank_of_type(struct subject of, size_t i, void *room)
{
	const struct replay *replay = of.context;
	const struct shown_type *shown = of.object;
	struct type_of_rank *one = room;

	if (i == 0)
		one->next = 0;
	while (one->next < replay->count) {
		const struct fsdp_recording *recording =
			replay_by_rank(replay, one->next++);
		const struct fsdp_type_times *type =
			replay_type_of(recording, shown->name);
		if (type == NULL)
			continue;
		one->rank = recording->rank;
		one->times = type->times;
		return one;
	}
	return NULL;
}

#define RANK struct type_of_rank
static const struct record type_of_rank_record = RECORD_OF(RECORD_OBJECT, RANK,
	{ "rank", INTEGER_AT(RANK, rank), .always = true, .about = "The rank." },
	{ "count", COUNT_AT(RANK, times.count), .always = true,
		.about = "Number of calls on it." },
	{ "sum_ns", NS_AT(RANK, times.sum_ns), .null = true,
		.about = "Time of these calls together." });

#define TYPE struct shown_type
const struct record replay_type_record = OBJECT_RECORD(TYPE, "type", "Calls of one type.",
	{ "type", TEXT_AT(TYPE, name), .always = true,
		.about =
			"Its name; the same as `value_type`, which JSON Lines have alone." },
	{ "value_type", TEXT_AT(TYPE, name), .always = true,
		.about = "Its name, under the name that JSON and JSON Lines share." },
	RUN_ROW(TYPE, run),
	{ "count", COUNT_AT(TYPE, times.count), .always = true,
		.about = "Number of calls." },
	{ "sum_ns", GET(FIELD_NS, get_sum), .null = true,
		.about = "Time of all calls together." },
	{ "min_ns", NS_AT(TYPE, times.min_ns), .null = true,
		.about =
			"The shortest call; this and those below are null when there is none." },
	{ "p50_ns", NS_AT(TYPE, times.p50_ns), .null = true,
		.about = "50th percentile: half of the calls take no longer." },
	{ "p95_ns", NS_AT(TYPE, times.p95_ns), .null = true,
		.about = "95th percentile." },
	{ "max_ns", NS_AT(TYPE, times.max_ns), .null = true,
		.about = "The longest call." },
	{ "approx", BOOL_AT(TYPE, times.approx), .always = true,
		.about =
			"True when the percentiles come from a histogram, exact to one per cent." },
	{ "ranks", EACH(each_rank_of_type, type_of_rank_record), .always = true,
		.about = "The same by rank, for ranks that call it." });

static void put_type(
	struct replay *replay, struct fsdp_span name, const struct fsdp_times *times)
{
	const struct shown_type type = { name, *times, replay->nth };

	out_record(replay->run->out, NULL, &replay_type_record,
		(struct subject){ replay, &type });
}

static void put_absent(struct replay *replay, struct fsdp_span before, size_t *at)
{
	static const struct fsdp_times none = { 0, FSDP_ABSENT, FSDP_ABSENT, FSDP_ABSENT,
		FSDP_ABSENT, FSDP_ABSENT, false };
	const char *absent;

	while ((absent = replay_next_absent(replay, before, at)) != NULL)
		put_type(replay, span_of_text(text_of(absent)), &none);
}

static void put_types_of(struct replay *run)
{
	size_t at = 0, count = replay_type_count(run);

	for (size_t i = 0; i < count; i++) {
		struct fsdp_type_times type = fsdp_recordings_type(run->recordings, i);
		put_absent(run, type.name, &at);
		put_type(run, type.name, &type.times);
	}
	put_absent(run, (struct fsdp_span){ 0 }, &at);
}

void replay_put_types(struct replay *replay)
{
	out_items_begin(replay->run->out, "types");
	for (size_t i = 0; i < replay->run_count; i++) {
		struct replay run = replay_run(replay, i);
		put_types_of(&run);
	}
	out_array_end(replay->run->out);
}

/* ---- over ranks ---- */

struct replay_spread replay_spread_of(const struct replay *replay, struct fsdp_span name)
{
	struct replay_spread spread = { 0 };

	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(replay, i);
		const struct fsdp_type_times *type = replay_type_of(one, name);
		int64_t ns = type != NULL ? type->times.sum_ns : FSDP_ABSENT;

		if (ns == FSDP_ABSENT)
			continue;
		if (spread.ranks == 0 || ns < spread.min_ns) {
			spread.min_ns = ns;
			spread.min_rank = one->rank;
		}
		if (spread.ranks == 0 || ns > spread.max_ns) {
			spread.max_ns = ns;
			spread.max_rank = one->rank;
		}
		spread.ranks++;
	}
	return spread;
}

bool replay_find_type(
	const struct replay *run, struct fsdp_span name, struct fsdp_type_times *ret_type)
{
	for (size_t i = 0; i < replay_type_count(run); i++) {
		*ret_type = fsdp_recordings_type(run->recordings, i);
		if (text_is(text_of_span(ret_type->name), text_of_span(name)))
			return true;
	}
	return false;
}
