/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known where no majority shows how elements should be.
 */
#include "analysis/checks/complete-classes.h"

/* A single tensor that another class has. */
static void lose_tensor(struct stack_part *part, const struct stack_class *class,
	const struct stack_class *like, uint32_t member)
{
	struct lack_group group = {
		.class = class, .like = like, .count = 1, .leaves = 1
	};
	struct lack lack = { .group = member };

	for (uint32_t i = 0; i < like->record_count; i++)
		if (like->records[i].member == member)
			lack.like = &like->records[i];
	group.lacks = &lack;
	if (lack.like != NULL)
		fsdp_class_tell(part, &group);
}

/* Whether the element stores the inputs of the weight instead: weight_norm and spectral_norm keep them below
 * parametrizations. */
static bool is_computed(
	struct stack_part *part, const struct stack_class *class, uint32_t above)
{
	const struct fsdp_names *members = &part->complete->members;
	uint32_t name =
		fsdp_names_find_child(members, above, FSDP_SPAN("parametrizations"));

	name = name != FSDP_NONE
		       ? fsdp_names_find_child(members, name, FSDP_SPAN("weight"))
		       : FSDP_NONE;
	for (uint32_t i = 0; name != FSDP_NONE && i < class->record_count; i++)
		for (uint32_t at = class->records[i].member; at != 0 && at != FSDP_NONE;
			at = fsdp_names_at(members, at)->parent)
			if (at == name)
				return true;
	return false;
}

/* A bias that lost its weight, where another element has both. */
void fsdp_class_judge_bias(struct stack_part *part, const struct stack_class *class)
{
	struct fsdp_complete *complete = part->complete;

	for (uint32_t i = 0; i < class->record_count; i++)
		complete->counts[fsdp_class_above(part, class->records[i].member)]++;
	for (uint32_t i = 0; i < class->record_count && !complete->failed; i++) {
		uint32_t bias = class->records[i].member,
			 above = fsdp_class_above(part, bias);
		uint32_t weight;

		if (complete->counts[above] != 1 ||
			!fsdp_span_is(fsdp_class_segment(part, bias), "bias") ||
			is_computed(part, class, above))
			continue;
		weight = fsdp_names_find_child(
			&complete->members, above, FSDP_SPAN("weight"));
		for (uint32_t k = 0; weight != FSDP_NONE && k < part->class_count; k++)
			if (fsdp_class_has(&part->classes[k], weight) &&
				fsdp_class_has(&part->classes[k], bias)) {
				lose_tensor(part, class, &part->classes[k], weight);
				break;
			}
	}
	for (uint32_t i = 0; i < class->record_count; i++)
		complete->counts[fsdp_class_above(part, class->records[i].member)] = 0;
}

/* Two layers of one kind of the list `layer_types`: one has all of the other's. */
static bool are_of_one_kind(const struct stack_part *part, const uint32_t *kinds,
	const struct stack_class *class, uint32_t other)
{
	for (uint32_t i = 0; i < part->item_count; i++)
		if (part->items[i].class_index == other &&
			kinds[part->items[i].number] == kinds[class->first])
			return true;
	return false;
}

/* That the configuration does not say so. */
static bool is_not_configured(struct stack_part *part, const struct lack_group *group)
{
	struct fsdp_complete_set set;
	memset(part->are_kin, true, sizeof part->are_kin);
	fsdp_class_set(part, group, &set);
	return !fsdp_complete_is_configured(part->complete, &set);
}

static void judge_kinds(struct stack_part *part, const struct stack_class *class)
{
	const uint32_t *kinds =
		fsdp_complete_layer_kinds(part->complete, part->stack->length);

	if (kinds == NULL || class->count != 1 || class->reference != FSDP_NONE)
		return;
	for (uint32_t i = 0; i < part->class_count; i++)
		if (&part->classes[i] != class &&
			fsdp_class_common(class, &part->classes[i]) ==
				class->record_count &&
			are_of_one_kind(part, kinds, class, i)) {
			fsdp_class_judge(
				part, class, &part->classes[i], is_not_configured);
			break;
		}
}

/* That every other element has all of it, and that nothing else is in its place. */
static bool all_others_have(struct stack_part *part, const struct lack_group *group)
{
	for (uint32_t i = 0; i < group->count; i++)
		if (part->complete->counts[group->lacks[i].like->member] + 1 !=
			part->item_count)
			return false;
	return !group->has_extra && is_not_configured(part, group);
}

/* An element inside that lacks what every other one has. */
static void judge_inner(struct stack_part *part, const struct stack_class *class)
{
	const struct fsdp_complete_stack *stack = part->stack;
	const struct stack_class *like = NULL;

	if (class->count != 1 || part->item_count < 3 ||
		class->first == stack->elements[0].number ||
		class->first == stack->length - 1)
		return;
	for (uint32_t i = 0; i < part->class_count; i++)
		if (&part->classes[i] != class &&
			(like == NULL || part->classes[i].count > like->count))
			like = &part->classes[i];
	if (like != NULL)
		fsdp_class_judge(part, class, like, all_others_have);
}

/* Of two layers: what one lacks inside of a child that it has. */
static bool is_inside(struct stack_part *part, const struct lack_group *group)
{
	return fsdp_class_above(part, group->lacks->group) != 0 &&
	       !fsdp_span_begins(fsdp_class_segment(part, group->lacks->group),
		       FSDP_SPAN("relative_"));
}

void fsdp_class_judge_two(struct stack_part *part)
{
	const struct stack_class *a = &part->classes[0], *b = &part->classes[1];
	uint32_t common = fsdp_class_common(a, b);

	if (part->stack->tower != FSDP_COMPLETE_MAIN)
		return;
	if (common == a->record_count)
		fsdp_class_judge(part, a, b, is_inside);
	else if (common == b->record_count)
		fsdp_class_judge(part, b, a, is_inside);
}

static void count_members(const struct stack_part *part, bool forget)
{
	for (uint32_t i = 0; i < part->class_count; i++)
		for (uint32_t k = 0; k < part->classes[i].record_count; k++) {
			uint32_t *count =
				&part->complete
					 ->counts[part->classes[i].records[k].member];

			*count = forget ? 0 : *count + part->classes[i].count;
		}
}

void fsdp_class_judge_few(struct stack_part *part)
{
	for (uint32_t i = 0; i < part->class_count; i++)
		judge_kinds(part, &part->classes[i]);
	count_members(part, false);
	for (uint32_t i = 0; i < part->class_count; i++)
		judge_inner(part, &part->classes[i]);
	count_members(part, true);
}
