/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Emits stacks for flame graphs: of types, or of what holds memory.
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

/* ---- memory ---- */

static void emit_frame(struct out *out, uint32_t depth,
	const struct fsdp_memory_frame *frame, uint64_t own)
{
	char name[600], line[32] = "";

	if (frame->line != FSDP_ABSENT)
		snprintf(line, sizeof line, ":%lld", (long long)frame->line);
	snprintf(name, sizeof name, "%.*s%s %.*s",
		(int)(frame->filename.size < 300 ? frame->filename.size : 300),
		(const char *)frame->filename.data, line,
		(int)(frame->name.size < 200 ? frame->name.size : 200),
		(const char *)frame->name.data);
	emit_stack(out, depth, text_of(name), (int64_t)own);
}

/* Frames are innermost first, a stack begins with the outermost. */
static void emit_held(struct out *out, const struct fsdp_memory *memory,
	const struct fsdp_memory_stack *stack)
{
	uint32_t depth = 2;

	if (stack->frame_count == 0)
		emit_stack(out, depth,
			text_of(stack->before ? "before the recording"
					      : "no stack was recorded"),
			(int64_t)stack->bytes);
	for (size_t i = stack->frame_count; i-- > 0;)
		emit_frame(out, depth++, &memory->frames[stack->frames[i]],
			i == 0 ? stack->bytes : 0);
}

void memory_emit_stacks(struct replay *replay)
{
	struct out *out = replay->run->out;
	struct memory_row row;
	char name[80];

	if (!out_weighs(out))
		return;
	for (size_t i = 0; memory_row_at(replay->recordings, i, &row); i++) {
		snprintf(name, sizeof name, "rank %lld, device %lld", (long long)row.rank,
			(long long)row.says.device);
		emit_stack(out, 0, text_of(name), 0);
		emit_stack(out, 1, text_of("at the peak"), 0);
		for (size_t j = 0; j < row.says.peak_stack_count; j++)
			emit_held(out, row.memory, &row.says.peak_stacks[j]);
		emit_stack(out, 1, text_of("at the end"), 0);
		for (size_t j = 0; j < row.says.stack_count; j++)
			emit_held(out, row.memory, &row.says.stacks[j]);
	}
}

/* ---- times ---- */

void replay_emit_stacks(struct replay *replay)
{
	if (!out_weighs(replay->run->out))
		return;
	for (size_t i = 0; i < replay->count; i++)
		emit_stacks_of(replay->run->out, replay_by_rank(replay, i));
}
