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

static void tell_change(struct replay *replay, const struct change *change)
{
	struct out *out = replay->run->out;
	struct ms now, before;

	out_object_begin(out, NULL);
	out_field(out, "type", value_text(text_of_span(change->name)));
	out_field(out, "count", value_count(change->count));
	out_field(out, "sum_ns", value_known(change->sum_ns));
	out_field(out, "before_count", value_count(change->before));
	out_field(out, "before_sum_ns", value_known(change->before_ns));
	out_object_end(out);
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

void replay_put_comparison(struct replay *replay)
{
	struct out *out = replay->run->out;
	uint64_t same = 0;
	struct fsdp_result_type before;

	if (replay->baseline == NULL)
		return;
	out_object_begin(out, "compare");
	out_array_begin(out, "changed");
	for (size_t i = 0; i < replay_type_count(replay); i++) {
		struct fsdp_type_times type = fsdp_recordings_type(replay->recordings, i);
		struct change change = { type.name, type.times.sum_ns, 0,
			type.times.count, 0 };
		if (find_before(replay, type.name, &before)) {
			change.before_ns = before.sum_ns;
			change.before = before.count;
		}
		if (change.before == change.count && change.before_ns == change.sum_ns)
			same++;
		else
			tell_change(replay, &change);
	}
	for (size_t i = 0; i < fsdp_result_type_count(replay->baseline); i++) {
		before = fsdp_result_type(replay->baseline, i);
		struct change change = { before.name, 0, before.sum_ns, 0, before.count };
		if (before.count != 0 && !replay_has_type(replay, before.name))
			tell_change(replay, &change);
	}
	out_array_end(out);
	out_field(out, "same", value_count(same));
	out_object_end(out);
}
