/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How types changed since an earlier result of `replay`, for people and machines alike.
 */
#include <inttypes.h>

#include <fsdp/result.h>

#include "cmd/replay/replay.h"

struct change {
	struct fsdp_span name;
	int64_t sum_ns, before_ns;
	uint64_t count, before;
	size_t next; /* of all types, those of the earlier result last */
};

static bool find_before(const struct replay *replay, struct fsdp_span name,
	struct fsdp_result_type *ret_type)
{
	for (size_t i = 0; i < fsdp_result_type_count(replay->baseline); i++) {
		*ret_type = fsdp_result_type(replay->baseline, i);
		if (text_is(text_of_span(ret_type->name), text_of_span(name)))
			return ret_type->count != 0;
	}
	return false;
}

/* Whether a type is not the same. */
static bool is_changed(const struct replay *replay, size_t index, struct change *change)
{
	size_t count = replay_type_count(replay);
	struct fsdp_result_type before;
	struct fsdp_type_times type;

	if (index >= count) {
		before = fsdp_result_type(replay->baseline, index - count);
		*change = (struct change){ .name = before.name,
			.before_ns = before.sum_ns,
			.before = before.count };
		return before.count != 0 && !replay_has_type(replay, before.name);
	}
	type = fsdp_recordings_type(replay->recordings, index);
	*change = (struct change){
		.name = type.name, .sum_ns = type.times.sum_ns, .count = type.times.count
	};
	if (find_before(replay, type.name, &before)) {
		change->before_ns = before.sum_ns;
		change->before = before.count;
	}
	return change->before != change->count || change->before_ns != change->sum_ns;
}

static const void *each_change(struct subject of, size_t i, void *room)
{
	const struct replay *replay = of.context;
	size_t count =
		replay_type_count(replay) + fsdp_result_type_count(replay->baseline);
	struct change *change = room;

	for (size_t at = i == 0 ? 0 : change->next; at < count; at++)
		if (is_changed(replay, at, change)) {
			change->next = at + 1;
			return change;
		}
	return NULL;
}

static struct value get_same(struct subject of)
{
	struct change change;
	uint64_t same = 0;

	for (size_t i = 0; i < replay_type_count(of.context); i++)
		same += !is_changed(of.context, i, &change);
	return value_count(same);
}

#define CHANGE struct change
static const struct record change_record = RECORD_OF(RECORD_OBJECT, CHANGE,
	{ "type", TEXT_AT(CHANGE, name), .always = true, .about = "Its name." },
	{ "count", COUNT_AT(CHANGE, count), .always = true,
		.about = "Number of calls now." },
	{ "sum_ns", NS_AT(CHANGE, sum_ns), .null = true,
		.about = "Time of these calls." },
	{ "before_count", COUNT_AT(CHANGE, before), .always = true,
		.about = "Number of calls in the earlier result." },
	{ "before_sum_ns", NS_AT(CHANGE, before_ns), .null = true,
		.about = "Time of those calls." });

const struct record compare_record = OBJECT_RECORD(struct replay, "compare",
	"With `--compare`: what changed since the earlier result.",
	{ "changed", EACH(each_change, change_record), .always = true,
		.about = "Types that are not the same." },
	{ "same", GET(FIELD_COUNT, get_same), .always = true,
		.about = "Number of types that are the same." });

static void tell_change(struct out *out, const struct change *change)
{
	struct ms now, before;

	out_line_begin(out, NULL);
	out_line_text(out, "~ ");
	out_line_name(out, text_of_span(change->name));
	out_line_text(out, ": %" PRIu64 " call%s, %s ms before, now %" PRIu64 ", %s ms",
		change->before, plural(change->before),
		change->before == 0 ? "0" : replay_ms(change->before_ns, &before),
		change->count,
		change->count == 0 ? "0" : replay_ms(change->sum_ns, &now));
	if (change->before_ns > 0 && change->sum_ns != FSDP_ABSENT)
		out_line_text(out, " (%.2fx)",
			(double)change->sum_ns / (double)change->before_ns);
	out_line_end(out);
}

void replay_tell_comparison(struct replay *replay)
{
	const struct subject of = { replay, replay };
	struct change change;

	for (size_t i = 0;
		replay->baseline != NULL && each_change(of, i, &change) != NULL; i++)
		tell_change(replay->run->out, &change);
}
