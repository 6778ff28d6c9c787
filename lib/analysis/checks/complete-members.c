/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members that an element lacks and its siblings have. Layers differ on purpose, too: by
 * kind, by a list of the configuration, by a rule. What sets of members there are, and
 * which of them are alike, is learned from the stack itself.
 */
#include <stdlib.h>

#include "analysis/checks/complete-classes.h"

static bool is_other_kind(const struct stack_part *part, const struct lack_group *group)
{
	return group->has_extra &&
	       (group->leaves > 1 || group->like->count < 3 ||
		       (uint64_t)group->like->count * 2 < part->item_count);
}

/* A single element at either end often differs: there it takes more to say so. */
static bool may_differ(const struct stack_part *part, const struct lack_group *group,
	const struct fsdp_complete_set *set)
{
	const struct fsdp_complete_stack *stack = part->stack;
	uint32_t number = group->class->first;

	return set->count == 1 &&
	       (number == stack->elements[0].number || number == stack->length - 1) &&
	       (uint64_t)group->like->count * 2 <= part->item_count;
}

static bool is_hole(struct stack_part *part, const struct lack_group *group)
{
	struct fsdp_complete_set set;

	if (is_other_kind(part, group) ||
		(group->class->first == 0 && group->class->count == 1 &&
			fsdp_complete_first_lacks(part->complete,
				fsdp_class_segment(part, group->lacks->group))))
		return false;
	/* Of lists that are longer in less than half of the layers each may end elsewhere. */
	if (fsdp_class_is_tail(part, group) &&
		(uint64_t)fsdp_class_count_having(part, group) * 2 < part->item_count)
		return false;
	fsdp_class_set(part, group, &set);
	return (uint64_t)set.count * 4 <= set.kin_count &&
	       !may_differ(part, group, &set) &&
	       !fsdp_complete_is_explained(part->complete, &set);
}

static void judge_class(struct stack_part *part, const struct stack_class *class)
{
	for (uint32_t i = 0; i < part->class_count; i++)
		part->are_kin[i] = i == class->reference ||
				   part->classes[i].reference == class->reference;
	fsdp_class_judge(part, class, &part->classes[class->reference], is_hole);
}

static void judge_classes(struct stack_part *part)
{
	const struct fsdp_complete_stack *stack = part->stack;
	bool is_whole = part->is_whole;

	for (uint32_t i = 0; is_whole && i < part->class_count; i++)
		fsdp_class_judge_bias(part, &part->classes[i]);
	if (!stack->is_counted)
		fsdp_class_judge_alike(part);
	if (!stack->is_counted || (!stack->is_deep && part->item_count < FSDP_FLAT_LEAST))
		return;
	if (is_whole && part->item_count == 2)
		fsdp_class_judge_two(part);
	for (uint32_t i = 0; i < part->class_count; i++)
		fsdp_class_refer(part, &part->classes[i]);
	for (uint32_t i = 0; i < part->class_count && !part->complete->failed; i++)
		if (part->classes[i].reference != FSDP_NONE)
			judge_class(part, &part->classes[i]);
	if (is_whole && stack->is_deep)
		fsdp_class_judge_few(part);
}

static void judge_part(struct fsdp_complete *complete,
	const struct fsdp_complete_stack *stack, struct stack_item *items, uint32_t count,
	bool is_whole)
{
	struct stack_part part = {
		.complete = complete,
		.stack = stack,
		.items = items,
		.item_count = count,
		.is_whole = is_whole,
	};

	if (fsdp_classes_find(&part))
		judge_classes(&part);
	fsdp_complete_step_done(complete);
}

static void judge_whole(
	struct fsdp_complete *complete, const struct fsdp_complete_stack *stack)
{
	struct stack_item *items =
		FSDP_TAKE(&complete->items, items, stack->element_count);

	if (items == NULL) {
		complete->failed = true;
		return;
	}
	for (uint32_t i = 0; i < stack->element_count; i++)
		items[i] = (struct stack_item){
			.records = stack->elements[i].records,
			.count = stack->elements[i].count,
			.number = stack->elements[i].number,
		};
	judge_part(complete, stack, items, stack->element_count, true);
	fsdp_arena_reset(&complete->items);
}

static int compare_children(const void *left, const void *right)
{
	const struct stack_item *a = left, *b = right;

	if (a->records->child != b->records->child)
		return a->records->child < b->records->child ? -1 : 1;
	return a->number < b->number ? -1 : a->number > b->number;
}

static uint32_t find_children(
	const struct fsdp_complete_stack *stack, struct stack_item *items)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < stack->record_count; i++) {
		const struct fsdp_complete_record *record = &stack->records[i];

		if (record->child == record->member)
			continue;
		/* A leaf that also has children was skipped. */
		if (i == 0 || record[-1].element != record->element ||
			record[-1].child != record->child ||
			record[-1].child == record[-1].member)
			items[count++] = (struct stack_item){ .records = record,
				.number = record->element };
		items[count - 1].count++;
	}
	return count;
}

/* Once more, of each child the elements that have it. */
static void judge_children(
	struct fsdp_complete *complete, const struct fsdp_complete_stack *stack)
{
	struct stack_item *items =
		FSDP_TAKE(&complete->items, items, stack->record_count);
	uint32_t count, end;

	if (items == NULL) {
		complete->failed = true;
		return;
	}
	count = find_children(stack, items);
	qsort(items, count, sizeof *items, compare_children);
	for (uint32_t at = 0; at < count && !complete->failed; at = end) {
		uint32_t child = items[at].records->child;

		for (end = at; end < count && items[end].records->child == child; end++)
			;
		judge_part(complete, stack, items + at, end - at, false);
	}
	fsdp_arena_reset(&complete->items);
}

void fsdp_complete_judge_members(struct fsdp_complete *complete)
{
	size_t members = complete->members.list.count;

	complete->hasher = fsdp_hasher_new();
	fsdp_arena_init(&complete->items, complete->arena->budget);
	complete->stamps = FSDP_TAKE(complete->arena, complete->stamps, members);
	complete->counts = FSDP_TAKE(complete->arena, complete->counts, members);
	complete->failed |= complete->stamps == NULL || complete->counts == NULL;
	for (size_t i = 0; i < complete->stack_count && !complete->failed; i++) {
		judge_whole(complete, &complete->stacks[i]);
		if (complete->stacks[i].is_deep && !complete->failed)
			judge_children(complete, &complete->stacks[i]);
	}
	fsdp_arena_done(&complete->items);
}
