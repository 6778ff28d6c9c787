/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Emits stacks of types, for flame graphs.
 */
#include <stdio.h>

#include "cmd/replay/replay.h"

/* ---- stacks ---- */

static void emit_stack(struct out *out, uint32_t depth, struct text name, int64_t own_ns)
{
	struct weighed part = { .depth = depth,
		.name = name,
		.own = own_ns > 0 ? (uint64_t)own_ns : 0,
		.all_levels = true };

	part.total = part.own;
	out_weighed(out, &part);
}

static bool is_all(struct fsdp_span type)
{
	return text_is(text_of_span(type), text_of("all"));
}

/* What begins in a step counts in it; without steps, all of it in the rank. */
static void emit_stacks_of(struct out *out, const struct fsdp_recording *one)
{
	char name[40];

	snprintf(name, sizeof name, "rank %lld", (long long)one->rank);
	emit_stack(out, 0, text_of(name), 0);
	for (size_t i = 0; i < one->step_count; i++) {
		const struct fsdp_step *step = &one->steps[i];

		snprintf(name, sizeof name, "step %lld", (long long)step->step);
		emit_stack(out, 1, text_of(name), 0);
		for (size_t k = 0; k < step->type_count; k++)
			if (!is_all(step->types[k].name))
				emit_stack(out, 2, text_of_span(step->types[k].name),
					step->types[k].sum_ns);
	}
	for (size_t i = 0; one->step_count == 0 && i < one->type_count; i++)
		if (!is_all(one->types[i].name))
			emit_stack(out, 1, text_of_span(one->types[i].name),
				one->types[i].times.sum_ns);
}

void replay_emit_stacks(struct replay *replay)
{
	if (!out_weighs(replay->run->out))
		return;
	for (size_t i = 0; i < replay->count; i++)
		emit_stacks_of(replay->run->out, replay_by_rank(replay, i));
}
