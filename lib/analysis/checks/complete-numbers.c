/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers that a stack skips.
 */
#include <stdlib.h>

#include "analysis/checks/complete.h"
#include "analysis/shapes.h"

/* A number that a stack lacks, by the pattern of its name. */
struct gap {
	uint32_t pattern, number, stack;
};

static uint32_t gaps_of(const struct fsdp_complete_stack *stack)
{
	return stack->elements[stack->element_count - 1].number -
	       stack->elements[0].number + 1 - stack->element_count;
}

/* Elements that are of one kind and one shape. */
static bool are_alike(const struct fsdp_complete *complete,
	const struct fsdp_complete_element *first,
	const struct fsdp_complete_element *element)
{
	if (element->count != first->count)
		return false;
	for (uint32_t k = 0; k < first->count; k++) {
		struct fsdp_tensor a =
			fsdp_tensor(complete->checkpoint, first->records[k].tensor);
		struct fsdp_tensor b =
			fsdp_tensor(complete->checkpoint, element->records[k].tensor);

		if (first->records[k].member != element->records[k].member ||
			!fsdp_is_same_shape(&a, &b))
			return false;
	}
	return true;
}

static bool are_all_alike(
	const struct fsdp_complete *complete, const struct fsdp_complete_stack *stack)
{
	for (uint32_t i = 1; i < stack->element_count; i++)
		if (!are_alike(complete, &stack->elements[0], &stack->elements[i]))
			return false;
	return true;
}

static int compare_members(const void *left, const void *right)
{
	const uint32_t *a = left, *b = right;

	return *a < *b ? -1 : *a > *b;
}

/* Whether all elements have one member in common. */
static bool share_member(
	struct fsdp_complete *complete, const struct fsdp_complete_stack *stack)
{
	uint32_t *members = FSDP_COMPLETE_TAKE(complete, members, stack->record_count);
	uint32_t run = 0;

	if (members == NULL) {
		complete->failed = true;
		return false;
	}
	for (uint32_t i = 0; i < stack->record_count; i++)
		members[i] = stack->records[i].member;
	qsort(members, stack->record_count, sizeof *members, compare_members);
	for (uint32_t i = 0; i < stack->record_count; i++) {
		run = i > 0 && members[i] == members[i - 1] ? run + 1 : 1;
		if (run == stack->element_count)
			return true;
	}
	return false;
}

/* Whether numbers that are absent may be holes. */
static bool may_have_holes(
	struct fsdp_complete *complete, const struct fsdp_complete_stack *stack)
{
	uint32_t gaps = gaps_of(stack), whole = gaps + stack->element_count;
	bool may;

	if (gaps == 0)
		return false;
	if (stack->is_deep)
		may = gaps <= whole / 3 && share_member(complete, stack);
	else
		may = stack->element_count >= 6 && gaps <= whole / 6 &&
		      are_all_alike(complete, stack);
	fsdp_complete_step_done(complete);
	return may;
}

/* ---- gaps of all stacks ---- */

static void add_gaps(
	struct fsdp_complete *complete, struct fsdp_vec *gaps, uint32_t index)
{
	const struct fsdp_complete_stack *stack = &complete->stacks[index];

	for (uint32_t i = 1; i < stack->element_count; i++)
		for (uint32_t n = stack->elements[i - 1].number + 1;
			n < stack->elements[i].number; n++) {
			struct gap gap = { stack->pattern, n, index };

			if (!fsdp_vec_add(gaps, &gap)) {
				complete->failed = true;
				return;
			}
		}
}

static int compare_gaps(const void *left, const void *right)
{
	const struct gap *a = left, *b = right;

	if (a->pattern != b->pattern)
		return a->pattern < b->pattern ? -1 : 1;
	if (a->number != b->number)
		return a->number < b->number ? -1 : 1;
	return a->stack < b->stack ? -1 : a->stack > b->stack;
}

/* Gaps of each stack that another stack of the same pattern has too. */
static uint32_t *count_shared(
	struct fsdp_complete *complete, const struct fsdp_vec *list, struct gap *gaps)
{
	uint32_t *shared = FSDP_TAKE(complete->arena, shared, complete->stack_count);

	if (shared == NULL) {
		complete->failed = true;
		return NULL;
	}
	qsort(gaps, list->count, sizeof *gaps, compare_gaps);
	for (size_t i = 0; i < list->count; i++) {
		bool before = i > 0 && gaps[i - 1].pattern == gaps[i].pattern &&
			      gaps[i - 1].number == gaps[i].number;
		bool behind = i + 1 < list->count &&
			      gaps[i + 1].pattern == gaps[i].pattern &&
			      gaps[i + 1].number == gaps[i].number;

		shared[gaps[i].stack] += before || behind;
	}
	return shared;
}

/* Records that both elements have, at most as many as a finding keeps. */
static uint32_t find_common(const struct fsdp_complete_element *a,
	const struct fsdp_complete_element *b, const struct fsdp_complete_record **like)
{
	uint32_t count = 0;

	for (uint32_t i = 0, k = 0;
		i < a->count && k < b->count && count < FSDP_AFFECTED_KEPT;) {
		const struct fsdp_complete_record *x = &a->records[i],
						  *y = &b->records[k];
		bool is_same = x->member == y->member;
		bool is_before = x->child != y->child ? x->child < y->child
						      : x->member < y->member;

		if (is_same)
			like[count++] = x;
		i += is_same || is_before;
		k += is_same || !is_before;
	}
	return count;
}

static bool has_number(const struct fsdp_complete *complete, uint32_t member)
{
	uint32_t number;

	for (; member != 0; member = fsdp_names_at(&complete->members, member)->parent)
		if (fsdp_complete_is_number(
			    fsdp_names_segment(&complete->members, member), &number))
			return true;
	return false;
}

/* Numbers are of one kind. */
static uint32_t kind_of_child(
	const struct fsdp_complete *complete, const struct fsdp_complete_record *record)
{
	uint32_t number;

	return fsdp_complete_is_number(
		       fsdp_names_segment(&complete->members, record->child), &number)
		       ? FSDP_NONE
		       : record->child;
}

/* Whether one has all children of the other, and both have lists of modules in them. */
static bool are_stages(const struct fsdp_complete *complete,
	const struct fsdp_complete_element *a, const struct fsdp_complete_element *b)
{
	const struct fsdp_complete_element *both[] = { a, b };
	bool has_list[2] = { false, false }, has_all[2] = { true, true };

	for (size_t side = 0; side < 2; side++) {
		const struct fsdp_complete_element *other = both[1 - side];

		for (uint32_t i = 0; i < both[side]->count; i++) {
			const struct fsdp_complete_record *record =
				&both[side]->records[i];
			uint32_t child = kind_of_child(complete, record), k = 0;

			has_list[side] |= has_number(complete, record->member);
			if (i > 0 && child == kind_of_child(complete, record - 1))
				continue;
			while (k < other->count &&
				kind_of_child(complete, &other->records[k]) != child)
				k++;
			has_all[1 - side] &= k < other->count;
		}
	}
	return has_list[0] && has_list[1] && (has_all[0] || has_all[1]);
}

/* Whether one equals the other, of several, with additional members. */
static bool is_special(const struct fsdp_complete *complete,
	const struct fsdp_complete_stack *stack,
	const struct fsdp_complete_element *element,
	const struct fsdp_complete_element *other)
{
	uint32_t at = 0, alike = 0;

	for (uint32_t i = 0; i < element->count && at < other->count; i++)
		at += element->records[i].member == other->records[at].member;
	if (at < other->count || element->count == other->count)
		return false;
	for (uint32_t i = 0; i < stack->element_count; i++)
		alike += are_alike(complete, &stack->elements[i], other);
	return alike >= 2;
}

/* With what both neighbours have. */
static void tell_gap(struct fsdp_complete *complete,
	const struct fsdp_complete_stack *stack, uint32_t behind, uint32_t number)
{
	const struct fsdp_complete_element *before = &stack->elements[behind - 1];
	const struct fsdp_complete_record **like =
		FSDP_COMPLETE_TAKE(complete, like, FSDP_AFFECTED_KEPT);
	struct fsdp_complete_hole hole = {
		.stack = stack,
		.element = number,
		.like = like,
		.have = stack->element_count,
		.of = stack->element_count + gaps_of(stack),
	};

	if (like == NULL) {
		complete->failed = true;
		return;
	}
	hole.count = find_common(before, &stack->elements[behind], like);
	if (hole.count == 0)
		hole.count = find_common(before, before, like);
	fsdp_complete_tell_gone(complete, &hole);
	fsdp_complete_step_done(complete);
}

/* Whether the gaps follow a rule. */
static bool are_explained(
	struct fsdp_complete *complete, const struct fsdp_complete_stack *stack)
{
	uint32_t whole = stack->element_count + gaps_of(stack);
	uint32_t first = stack->elements[0].number;
	uint32_t *kin = FSDP_COMPLETE_TAKE(complete, kin, whole);
	bool *is_in = FSDP_COMPLETE_TAKE(complete, is_in, whole), explained;
	struct fsdp_complete_set set = { stack, kin, is_in, whole, gaps_of(stack) };

	if (kin == NULL || is_in == NULL) {
		complete->failed = true;
		return true;
	}
	for (uint32_t i = 0; i < whole; i++) {
		kin[i] = first + i;
		is_in[i] = true;
	}
	for (uint32_t i = 0; i < stack->element_count; i++)
		is_in[stack->elements[i].number - first] = false;
	explained = fsdp_complete_is_explained(complete, &set);
	fsdp_complete_step_done(complete);
	return explained;
}

static void judge_stack(struct fsdp_complete *complete,
	const struct fsdp_complete_stack *stack, uint32_t shared)
{
	if (shared * 2 > gaps_of(stack) || are_explained(complete, stack))
		return;
	for (uint32_t i = 1; i < stack->element_count; i++) {
		const struct fsdp_complete_element *element = &stack->elements[i];
		uint32_t n = element[-1].number + 1;

		/* Between others may be a module without parameters. */
		if (n == element->number ||
			(!stack->is_counted &&
				!are_alike(complete, element - 1, element) &&
				!are_stages(complete, element - 1, element) &&
				!is_special(complete, stack, element - 1, element) &&
				!is_special(complete, stack, element, element - 1)))
			continue;
		for (; n < element->number && !complete->failed; n++)
			tell_gap(complete, stack, i, n);
	}
}

void fsdp_complete_judge_numbers(struct fsdp_complete *complete)
{
	struct fsdp_vec list;
	struct gap *gaps;
	uint32_t *shared = NULL;
	bool *judged = FSDP_TAKE(complete->arena, judged, complete->stack_count + 1);

	fsdp_vec_init(&list, complete->arena, sizeof(struct gap));
	for (uint32_t i = 0; judged != NULL && i < complete->stack_count; i++) {
		judged[i] = may_have_holes(complete, &complete->stacks[i]);
		if (judged[i])
			add_gaps(complete, &list, i);
	}
	gaps = FSDP_TAKE(complete->arena, gaps, list.count + 1);
	complete->failed |= gaps == NULL || judged == NULL;
	for (size_t i = 0; i < list.count && !complete->failed; i++)
		gaps[i] = *(const struct gap *)fsdp_vec_at(&list, i);
	if (!complete->failed)
		shared = count_shared(complete, &list, gaps);
	for (uint32_t i = 0; i < complete->stack_count && !complete->failed; i++)
		if (judged[i])
			judge_stack(complete, &complete->stacks[i], shared[i]);
}
