/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports missing names once: a missing module covers its tensors.
 */
#include <stdarg.h>
#include <stdio.h>

#include "analysis/checks/complete.h"

enum { SEGMENTS_MOST = FSDP_COMPLETE_NAME_MOST / 2 + 1, SPELLED_MOST = 1 << 20 };

/* The segments of a group, from the outermost on. */
static size_t segments_of(const struct fsdp_complete *complete, uint32_t group,
	uint32_t segments[SEGMENTS_MOST])
{
	size_t count = 0;

	for (uint32_t at = group; at != 0 && at != FSDP_NONE && count < SEGMENTS_MOST;
		at = fsdp_names_at(&complete->members, at)->parent)
		segments[count++] = at;
	for (size_t i = 0; i < count / 2; i++) {
		uint32_t other = segments[i];

		segments[i] = segments[count - 1 - i];
		segments[count - 1 - i] = other;
	}
	return count;
}

static bool is_marked(const struct fsdp_complete *complete, uint32_t name)
{
	return fsdp_table_get(&complete->gone, name) != FSDP_NONE;
}

bool fsdp_complete_is_gone(struct fsdp_complete *complete,
	const struct fsdp_complete_stack *stack, uint32_t element, uint32_t group)
{
	uint32_t segments[SEGMENTS_MOST], name = stack->name;
	size_t count = segments_of(complete, group, segments);
	char digits[16];

	for (uint32_t at = name; at != 0 && at != FSDP_NONE;
		at = fsdp_names_at(&complete->names, at)->parent)
		if (is_marked(complete, at))
			return true;
	snprintf(digits, sizeof digits, "%u", element);
	name = fsdp_names_find_child(&complete->names, name, fsdp_span_text(digits));
	for (size_t i = 0; name != FSDP_NONE; i++) {
		if (is_marked(complete, name))
			return true;
		if (i == count)
			break;
		name = fsdp_names_find_child(&complete->names, name,
			fsdp_names_segment(&complete->members, segments[i]));
	}
	return false;
}

void fsdp_complete_mark_gone(
	struct fsdp_complete *complete, const struct fsdp_complete_hole *hole)
{
	uint32_t segments[SEGMENTS_MOST], name;
	size_t count = segments_of(complete, hole->group, segments);
	char digits[16];

	snprintf(digits, sizeof digits, "%u", hole->element);
	name = fsdp_names_child(
		&complete->names, hole->stack->name, fsdp_span_text(digits));
	for (size_t i = 0; i < count && name != FSDP_NONE; i++)
		name = fsdp_names_child(&complete->names, name,
			fsdp_names_segment(&complete->members, segments[i]));
	complete->failed |=
		name == FSDP_NONE || !fsdp_table_set(&complete->gone, name, 1);
}

/* ---- finding ---- */

/* The stored name of the group, cut out of that of one of its tensors. */
static struct fsdp_span module_of(const struct fsdp_complete *complete,
	const struct fsdp_complete_hole *hole, struct fsdp_span tensor)
{
	size_t below =
		fsdp_names_depth(&complete->members, hole->like[0]->member) -
		(hole->group != 0 ? fsdp_names_depth(&complete->members, hole->group)
				  : 0);

	for (; below > 0 && tensor.size > 0; below--) {
		struct fsdp_span last = fsdp_span_last(tensor, '.');

		if (last.size == tensor.size)
			break;
		tensor.size -= last.size + 1;
	}
	return tensor;
}

/* Of so many names so many are spelled out: no more than a finding keeps, and when there
 * were far too many findings, one. */
static size_t count_spelled(struct fsdp_complete *complete, size_t count)
{
	count = fsdp_min(count, FSDP_AFFECTED_KEPT);
	if (complete->spelled > SPELLED_MOST)
		count = 1;
	complete->spelled += count;
	return count;
}

struct fsdp_span fsdp_complete_spell(struct fsdp_complete *complete,
	const struct fsdp_complete_hole *hole, struct fsdp_span **ret_affected)
{
	size_t count = count_spelled(complete, hole->count);
	struct fsdp_span *affected = FSDP_COMPLETE_TAKE(complete, affected, count);

	if (affected == NULL) {
		complete->failed = true;
		return FSDP_SPAN("");
	}
	for (size_t i = 0; i < count; i++)
		affected[i] = fsdp_complete_named(complete, hole->like[i], hole->element);
	*ret_affected = affected;
	return module_of(complete, hole, affected[0]);
}

void fsdp_complete_tell_gone(
	struct fsdp_complete *complete, const struct fsdp_complete_hole *hole)
{
	struct fsdp_span *affected, module;

	if (hole->count == 0 || complete->is_silent ||
		fsdp_complete_is_gone(complete, hole->stack, hole->element, hole->group))
		return;
	module = fsdp_complete_spell(complete, hole, &affected);
	fsdp_complete_mark_gone(complete, hole);
	if (complete->failed)
		return;
	if (hole->count == 1)
		fsdp_find(complete->checking->findings, FSDP_RULE_STACK_HOLE,
			FSDP_PLACE(.tensor = affected[0], .affected = affected,
				.affected_count = 1),
			"tensor is missing: %u of %u sibling modules have it", hole->have,
			hole->of);
	else
		fsdp_find(complete->checking->findings, FSDP_RULE_STACK_HOLE,
			FSDP_PLACE(.module = module, .affected = affected,
				.affected_count = complete->spelled > SPELLED_MOST
							  ? 1
							  : hole->count),
			"module with %zu tensors is missing: %u of %u sibling modules have it",
			hole->count, hole->have, hole->of);
}

void fsdp_complete_tell_lacking(struct fsdp_complete *complete, uint32_t tensor,
	uint32_t module, struct fsdp_span member, struct fsdp_span missing,
	const char *format, ...)
{
	uint32_t name = fsdp_names_child(&complete->names, module, member);
	va_list arguments;

	complete->failed |= name == FSDP_NONE;
	if (complete->failed || is_marked(complete, name))
		return;
	complete->failed |= !fsdp_table_set(&complete->gone, name, 1);
	va_start(arguments, format);
	fsdp_find_list(complete->checking->findings, FSDP_RULE_STACK_HOLE,
		FSDP_PLACE(.file = fsdp_complete_file(complete, tensor),
			.tensor = missing, .affected = &missing, .affected_count = 1),
		format, arguments);
	va_end(arguments);
}
