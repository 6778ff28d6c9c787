/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The course of memory over a recorded history, with `--memory --timeline=N`: N spans of
 * equal length for each device, of each the most that was active and reserved.
 */
#include <inttypes.h>

#include "cmd/replay/replay.h"

/* One span of one device. */
struct memory_moment {
	int64_t rank, device;
	int64_t time_us; /* where it begins; FSDP_ABSENT: events have no times */
	int64_t active_bytes, reserved_bytes;
};

/* Goes through the history once; spans come out in order of time. */
struct moment_walk {
	struct memory_row row;
	uint64_t span, span_count, next; /* of spans; of events */
	struct fsdp_memory_event event;  /* the one before `next` */
	int64_t active, reserved;        /* after it */
	bool has_event;                  /* `next` was read already */
};

static void begin(struct moment_walk *walk, const struct replay *replay,
	const struct memory_row *row)
{
	const struct fsdp_memory_device *says = &row->says;
	*walk = (struct moment_walk){ .row = *row,
		.span_count =
			says->events != 0 ? (uint64_t)replay->options->timeline : 0 };
	walk->has_event = fsdp_memory_event(says, 0, &walk->event);
	walk->next = 1;
	walk->active = says->start_bytes;
	walk->reserved = walk->event.reserved_bytes;
}

/* How long a span is, in microseconds, or in events where these have no times. */
static uint64_t span_length(const struct moment_walk *walk)
{
	const struct fsdp_memory_device *says = &walk->row.says;

	if (says->first_time_us == FSDP_ABSENT ||
		says->last_time_us < says->first_time_us)
		return says->events / walk->span_count + 1;
	return ((uint64_t)says->last_time_us - (uint64_t)says->first_time_us) /
		       walk->span_count +
	       1;
}

/* The span of an event; one that is out of order stays in the current span. */
static uint64_t span_of(const struct moment_walk *walk)
{
	const struct fsdp_memory_device *says = &walk->row.says;
	uint64_t at = walk->next - 1;

	if (says->first_time_us != FSDP_ABSENT &&
		says->last_time_us >= says->first_time_us)
		at = walk->event.time_us != FSDP_ABSENT &&
				     walk->event.time_us >= says->first_time_us
			     ? (uint64_t)walk->event.time_us -
				       (uint64_t)says->first_time_us
			     : 0;
	at /= span_length(walk);
	return at < walk->span         ? walk->span
	       : at < walk->span_count ? at
				       : walk->span_count - 1;
}

static bool next(struct moment_walk *walk, struct memory_moment *moment)
{
	const struct fsdp_memory_device *says = &walk->row.says;
	uint64_t length;

	if (walk->span == walk->span_count)
		return false;
	length = span_length(walk);
	*moment = (struct memory_moment){ walk->row.rank, says->device, FSDP_ABSENT,
		walk->active, walk->reserved };
	if (says->first_time_us != FSDP_ABSENT &&
		says->last_time_us >= says->first_time_us)
		moment->time_us =
			(int64_t)((uint64_t)says->first_time_us + walk->span * length);
	while (walk->has_event && span_of(walk) == walk->span) {
		walk->active = walk->event.active_bytes;
		walk->reserved = walk->event.reserved_bytes;
		if (walk->active > moment->active_bytes)
			moment->active_bytes = walk->active;
		if (walk->reserved > moment->reserved_bytes)
			moment->reserved_bytes = walk->reserved;
		walk->has_event = fsdp_memory_event(says, walk->next++, &walk->event);
	}
	walk->span++;
	return true;
}

/* ---- text ---- */

static struct value bytes_or_absent(int64_t bytes)
{
	return bytes >= 0 ? value_bytes((uint64_t)bytes) : value_absent();
}

void memory_moments_show(const struct replay *replay, const struct memory_row *row)
{
	static const struct column columns[] = { { "ms", .right = true },
		{ "active", .right = true }, { "reserved", .right = true } };
	static const struct table table = { .key = "moments",
		.columns = columns,
		.column_count = sizeof columns / sizeof *columns,
		.text_only = true };
	struct out *out = replay->run->out;
	struct memory_moment moment;
	struct moment_walk walk;

	begin(&walk, replay, row);
	if (walk.span_count == 0)
		return;
	out_line(out, NULL, "%s", "");
	out_line(out, NULL,
		"rank %" PRId64 ", device %" PRId64 ", the most at once in %" PRIu64
		" spans",
		row->rank, row->says.device, walk.span_count);
	out_table_begin(out, &table);
	while (next(&walk, &moment)) {
		struct ms ms;
		const struct value values[] = {
			moment.time_us != FSDP_ABSENT
				? value_word(replay_ms(
					  (moment.time_us - row->says.first_time_us) *
						  1000,
					  &ms))
				: value_absent(),
			bytes_or_absent(moment.active_bytes),
			bytes_or_absent(moment.reserved_bytes)
		};
		out_row(out, values);
	}
	out_table_end(out);
}

/* ---- data ---- */

#define MOMENT struct memory_moment
const struct record memory_moment_record = OBJECT_RECORD(MOMENT, "memory_moment",
	"A span of the history of a device.",
	{ "rank", INTEGER_AT(MOMENT, rank), .always = true, .about = "The rank." },
	{ "device", INTEGER_AT(MOMENT, device), .always = true, .about = "The device." },
	{ "time_us", INTEGER_AT(MOMENT, time_us), .null = true,
		.about =
			"Where it begins, in microseconds since 1970; null where events have no times." },
	{ "active", INTEGER_AT(MOMENT, active_bytes), .always = true,
		.about =
			"The most bytes that were asked for and active at once in it; below 0 when events are lost." },
	{ "reserved", INTEGER_AT(MOMENT, reserved_bytes), .always = true,
		.about = "The most bytes that were reserved at once in it." });

void memory_moments_put(const struct replay *replay)
{
	struct out *out = replay->run->out;
	struct memory_row row;
	struct memory_moment moment;
	struct moment_walk walk;

	out_array_begin(out, "memory_timeline");
	for (size_t i = 0; memory_row_at(replay->recordings, i, &row); i++)
		for (begin(&walk, replay, &row); next(&walk, &moment);)
			out_record(out, NULL, &memory_moment_record,
				(struct subject){ NULL, &moment });
	out_array_end(out);
}

void memory_moments_put_rows(const struct replay *replay)
{
	static const struct table like = {
		.key = "timeline", .main = true, .rows_only = true
	};
	struct record_table table;
	struct memory_row row;
	struct memory_moment moment;
	struct moment_walk walk;

	record_table_init(&table, &like, &memory_moment_record, NULL);
	out_records_begin(replay->run->out, &table);
	for (size_t i = 0; memory_row_at(replay->recordings, i, &row); i++)
		for (begin(&walk, replay, &row); next(&walk, &moment);)
			out_records_row(replay->run->out, &table, &moment);
	out_table_end(replay->run->out);
}
