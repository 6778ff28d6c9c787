/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds tensors of a stack whose shape differs from the others: one rank's piece, or a flattened tensor, saved as the
 * full tensor.
 */
#include <stdarg.h>
#include <stdlib.h>

#include "analysis/checks/complete.h"
#include "analysis/shapes.h"

enum { ALIKE_LEAST = 3 };

/* World size if the shape is a piece of the expected one: one dimension is 1/W. 0: not a piece. */
uint32_t fsdp_complete_ranks_of(const struct fsdp_tensor *tensor,
	const struct fsdp_tensor *due, uint32_t *ret_dim)
{
	uint32_t ranks = 0;

	if (tensor->dims != due->dims)
		return 0;
	for (uint32_t i = 0; i < due->dims; i++) {
		if (tensor->shape[i] == due->shape[i])
			continue;
		if (ranks != 0 || tensor->shape[i] <= 0 ||
			due->shape[i] % tensor->shape[i] != 0 ||
			due->shape[i] / tensor->shape[i] > FSDP_COMPLETE_RANKS_MOST)
			return 0;
		ranks = (uint32_t)(due->shape[i] / tensor->shape[i]);
		*ret_dim = i;
	}
	return ranks;
}

/* How often one row of numbers goes into the due numbers, up to padding of the last. */
uint32_t fsdp_complete_flat_ranks(uint64_t numel, uint64_t due)
{
	uint64_t ranks, padded;

	if (numel == 0 || due == 0)
		return 0;
	ranks = due / numel + (due % numel != 0);
	if (ranks > FSDP_COMPLETE_RANKS_MOST || !fsdp_mul(ranks, numel, &padded) ||
		padded - due >= ranks)
		return 0;
	return (uint32_t)ranks;
}

struct fsdp_span fsdp_complete_file(const struct fsdp_complete *complete, uint32_t index)
{
	struct fsdp_tensor tensor = fsdp_tensor(complete->checkpoint, index);
	uint32_t file =
		tensor.piece_count > 0
			? fsdp_piece(complete->checkpoint, tensor.first_piece).file
			: FSDP_NONE;

	return file != FSDP_NONE ? fsdp_file(complete->checkpoint, file).path
				 : (struct fsdp_span){ 0 };
}

void fsdp_complete_tell(struct fsdp_complete *complete, uint32_t index,
	enum fsdp_rule_index rule, int severity, const char *format, ...)
{
	struct fsdp_span name = fsdp_complete_stored(complete, index);
	va_list arguments;

	complete->told[index] = 1;
	va_start(arguments, format);
	fsdp_find_list(complete->checking->findings, rule,
		FSDP_PLACE(.file = fsdp_complete_file(complete, index), .tensor = name,
			.affected = &name, .affected_count = 1, .severity = severity),
		format, arguments);
	va_end(arguments);
}

void fsdp_complete_judge_shape(
	struct fsdp_complete *complete, uint32_t index, const struct fsdp_tensor *due)
{
	struct fsdp_tensor tensor = fsdp_tensor(complete->checkpoint, index);
	char found[FSDP_SHOWN_SHAPE], shape[FSDP_SHOWN_SHAPE];
	uint32_t dim, ranks, times, joined;

	if (complete->told[index] || tensor.numel == 0)
		return;
	joined = fsdp_complete_ranks_of(due, &tensor, &dim);
	ranks = fsdp_complete_ranks_of(&tensor, due, &dim);
	times = fsdp_complete_flat_ranks(tensor.numel, due->numel);
	fsdp_show_shape(&tensor, found);
	fsdp_show_shape(due, shape);
	if (ranks > 1)
		fsdp_complete_tell(complete, index, FSDP_RULE_PARTIAL_TENSOR, 0,
			"the shape is %s and that of its siblings %s: 1/%u in dimension %u, as the piece of one of %u ranks",
			found, shape, ranks, dim, ranks);
	else if (tensor.dims == 1 && due->dims > 1 && times > 0)
		fsdp_complete_tell(complete, index, FSDP_RULE_FLATTENED_PARAMETER,
			FSDP_ERROR + 1,
			"the tensor is one row of numbers, %s: %u times these make the shape %s of its siblings",
			found, times, shape);
	else if (tensor.dims == 1 && joined > 1)
		fsdp_complete_tell(complete, index, FSDP_RULE_PARTIAL_TENSOR, 0,
			"the shape is %s and that of its siblings %s: %u times as long, as copies of a replicated tensor joined",
			found, shape, joined);
}

/* ---- a member of all elements ---- */

struct stack_column {
	const struct fsdp_complete_record **records; /* ascending by element */
	uint32_t count;
};

/* Shape of at least three quarters of them, or of two of three; FSDP_NONE: no such shape. Found by majority vote. */
static uint32_t common_shape(const struct fsdp_complete *complete,
	const struct fsdp_complete_stack *stack, const struct stack_column *column)
{
	uint32_t best = 0, votes = 0, held = 0;
	struct fsdp_tensor due;

	for (uint32_t i = 0; i < column->count; i++) {
		struct fsdp_tensor tensor =
			fsdp_tensor(complete->checkpoint, column->records[i]->tensor);

		if (votes == 0) {
			best = i;
			due = tensor;
		}
		votes += fsdp_is_same_shape(&due, &tensor) ? 1 : (uint32_t)-1;
	}
	due = fsdp_tensor(complete->checkpoint, column->records[best]->tensor);
	for (uint32_t i = 0; i < column->count; i++) {
		struct fsdp_tensor tensor =
			fsdp_tensor(complete->checkpoint, column->records[i]->tensor);

		held += fsdp_is_same_shape(&due, &tensor);
	}
	if ((uint64_t)held * 4 >= (uint64_t)column->count * 3 ||
		(stack->element_count == 3 && held == 2))
		return best;
	return FSDP_NONE;
}

/* Those with another shape, as a set. */
static void make_set(const struct fsdp_complete *complete,
	const struct stack_column *column, const struct fsdp_tensor *due,
	struct fsdp_complete_set *set, uint32_t *kin, bool *is_in)
{
	set->kin = kin;
	set->is_in = is_in;
	set->kin_count = column->count;
	set->count = 0;
	for (uint32_t i = 0; i < column->count; i++) {
		struct fsdp_tensor tensor =
			fsdp_tensor(complete->checkpoint, column->records[i]->tensor);

		kin[i] = column->records[i]->element;
		is_in[i] = !fsdp_is_same_shape(due, &tensor);
		set->count += is_in[i];
	}
}

static bool is_one_dtype(
	const struct fsdp_complete *complete, const struct stack_column *column)
{
	uint32_t first =
		fsdp_tensor(complete->checkpoint, column->records[0]->tensor).dtype;

	for (uint32_t i = 1; i < column->count; i++)
		if (fsdp_tensor(complete->checkpoint, column->records[i]->tensor).dtype !=
			first)
			return false;
	return true;
}

/* Widths differ by design in stacks that are not counted (complete-stacks.c), and the first
 * or last one of few in all else. */
static bool may_differ(const struct fsdp_complete *complete,
	const struct fsdp_complete_set *set, const struct fsdp_complete_record *record,
	const struct fsdp_tensor *due)
{
	const struct fsdp_complete_stack *stack = set->stack;
	uint32_t element = record->element;

	if (stack->is_counted)
		return false;
	if (fsdp_tensor(complete->checkpoint, record->tensor).dims == due->dims)
		return true;
	return set->count == 1 && stack->element_count < 6 &&
	       (element == stack->elements[0].number || element == stack->length - 1);
}

static void judge_column(struct fsdp_complete *complete,
	const struct fsdp_complete_stack *stack, const struct stack_column *column,
	uint32_t *kin, bool *is_in)
{
	struct fsdp_complete_set set = { .stack = stack };
	struct fsdp_tensor due;
	uint32_t best;

	if (column->count < ALIKE_LEAST || !is_one_dtype(complete, column))
		return;
	best = common_shape(complete, stack, column);
	if (best == FSDP_NONE)
		return;
	due = fsdp_tensor(complete->checkpoint, column->records[best]->tensor);
	make_set(complete, column, &due, &set, kin, is_in);
	if (set.count == 0 || fsdp_complete_is_explained(complete, &set))
		return;
	for (uint32_t i = 0; i < column->count; i++)
		if (is_in[i] && !may_differ(complete, &set, column->records[i], &due))
			fsdp_complete_judge_shape(
				complete, column->records[i]->tensor, &due);
}

static int compare_columns(const void *left, const void *right)
{
	const struct fsdp_complete_record *const *a = left, *const *b = right;

	if ((*a)->member != (*b)->member)
		return (*a)->member < (*b)->member ? -1 : 1;
	return (*a)->element < (*b)->element ? -1 : (*a)->element > (*b)->element;
}

static void judge_stack(
	struct fsdp_complete *complete, const struct fsdp_complete_stack *stack)
{
	const struct fsdp_complete_record **records =
		FSDP_COMPLETE_TAKE(complete, records, stack->record_count);
	uint32_t *kin = FSDP_COMPLETE_TAKE(complete, kin, stack->element_count);
	bool *is_in = FSDP_COMPLETE_TAKE(complete, is_in, stack->element_count);
	uint32_t end;

	if (records == NULL || kin == NULL || is_in == NULL) {
		complete->failed = true;
		return;
	}
	for (uint32_t i = 0; i < stack->record_count; i++)
		records[i] = &stack->records[i];
	qsort(records, stack->record_count, sizeof *records, compare_columns);
	for (uint32_t at = 0; at < stack->record_count; at = end) {
		for (end = at; end < stack->record_count &&
			       records[end]->member == records[at]->member;
			end++)
			;
		judge_column(complete, stack,
			&(struct stack_column){ records + at, end - at }, kin, is_in);
	}
}

/* FSDP's own tensor of a rank, which a file of a model has no use for. */
static void judge_flat_parameters(struct fsdp_complete *complete)
{
	for (uint32_t i = 0; i < complete->tensor_count && !complete->failed; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(complete->checkpoint, i);

		if ((tensor.flags & FSDP_TENSOR_FLATTENED) == 0 && tensor.dims == 1 &&
			!complete->told[i] &&
			fsdp_span_ends(fsdp_complete_stored(complete, i),
				FSDP_SPAN("_flat_param")))
			fsdp_complete_tell(complete, i, FSDP_RULE_FLATTENED_PARAMETER,
				FSDP_ERROR + 1,
				"the tensor is FSDP's flat parameter of one rank: names and shapes of its parameters are not in the file");
	}
}

void fsdp_complete_judge_shapes(struct fsdp_complete *complete)
{
	const char *family = fsdp_checkpoint_format(complete->checkpoint).family;

	if (family != NULL && strncmp(family, "hf", 2) == 0)
		judge_flat_parameters(complete);
	for (size_t i = 0; i < complete->stack_count && !complete->failed; i++)
		if (complete->stacks[i].is_deep &&
			complete->stacks[i].element_count >= ALIKE_LEAST) {
			judge_stack(complete, &complete->stacks[i]);
			fsdp_complete_step_done(complete);
		}
}

/*
 * Numbers that a stack skips.
 */

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

static void judge_stack_numbers(struct fsdp_complete *complete,
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
			judge_stack_numbers(complete, &complete->stacks[i], shared[i]);
}

/*
 * Modules whose names differ only in their numbers: what all of them but one have is a
 * tensor that the one has lost, and where in all but one a bias is as long as its weight has
 * rows, the one has a piece.
 */

enum { MODULES_LEAST = 3, TENSORS_MOST = 8 };

/* A module with its own tensors. */
struct named_module {
	uint32_t pattern; /* its name, numbers as "#" */
	uint32_t name;
	const struct module_tensor *tensors; /* by leaf */
	uint32_t count;
};

struct module_tensor {
	uint32_t pattern, module;
	uint32_t leaf; /* its name as a pattern */
	uint32_t tensor;
};

/* Modules of one pattern that have the same. */
struct module_kind {
	const struct named_module *modules;
	uint32_t count;
};

static int compare(uint32_t a, uint32_t b)
{
	return a < b ? -1 : a > b;
}

static int compare_kinds(const struct named_module *a, const struct named_module *b)
{
	int order = compare(a->pattern, b->pattern);

	if (order == 0)
		order = compare(a->count, b->count);
	for (uint32_t i = 0; order == 0 && i < a->count; i++)
		order = compare(a->tensors[i].leaf, b->tensors[i].leaf);
	return order;
}

/* The tensor that a module of the kind has and this one lacks, if that is all that they
 * differ in; NULL: it is not. */
static const struct module_tensor *find_lacking(
	const struct named_module *module, const struct module_kind *kind)
{
	const struct named_module *like = kind->modules;
	const struct module_tensor *lacking = NULL;
	uint32_t at = 0;

	if (like->count != module->count + 1)
		return NULL;
	for (uint32_t i = 0; i < like->count; i++) {
		if (at < module->count &&
			module->tensors[at].leaf == like->tensors[i].leaf)
			at++;
		else
			lacking = &like->tensors[i];
	}
	return at == module->count ? lacking : NULL;
}

/* The stored name that the tensor has in another module. */
static struct fsdp_span name_in(struct fsdp_complete *complete,
	const struct named_module *module, const struct module_tensor *like)
{
	struct fsdp_span last = fsdp_arena_copy(&complete->work,
		fsdp_span_last(fsdp_complete_stored(complete, like->tensor), '.'));
	struct fsdp_span stored = fsdp_complete_stored(complete, module->tensors->tensor);
	size_t front = stored.size - fsdp_span_last(stored, '.').size;
	unsigned char *text = fsdp_arena_take(&complete->work, front + last.size + 1, 1);

	if (text == NULL || last.data == NULL) {
		complete->failed = true;
		return FSDP_SPAN("");
	}
	memcpy(text, stored.data, front);
	memcpy(text + front, last.data, last.size);
	return fsdp_span(text, front + last.size);
}

/* A module like no other, of one tensor only if all others are alike. */
static void judge_lacking(struct fsdp_complete *complete,
	const struct named_module *module, const struct module_kind *kind, uint32_t of)
{
	const struct module_tensor *lacking = find_lacking(module, kind);
	struct fsdp_span leaf;

	if (lacking == NULL || complete->is_silent || kind->count < MODULES_LEAST ||
		(module->count < 2 && kind->count + 1 < of))
		return;
	leaf = fsdp_names_segment(&complete->patterns, lacking->leaf);
	if (!fsdp_complete_first_lacks(complete, leaf))
		fsdp_complete_tell_lacking(complete, module->tensors->tensor,
			module->name, leaf, name_in(complete, module, lacking),
			"tensor is missing (present in %u modules with such a name)",
			kind->count);
}

/* ---- lengths ---- */

/* Whether the vector is as long as the other tensor is in a dimension. */
static bool fits(const struct fsdp_complete *complete, const struct module_tensor *vector,
	const struct module_tensor *other, uint32_t dim)
{
	struct fsdp_tensor a = fsdp_tensor(complete->checkpoint, vector->tensor);
	struct fsdp_tensor b = fsdp_tensor(complete->checkpoint, other->tensor);

	return a.dims == 1 && b.dims > dim && b.shape[dim] == a.shape[0];
}

/* The only module where two tensors do not fit; NULL: none, or several. */
static const struct named_module *find_unfit(const struct fsdp_complete *complete,
	const struct module_kind *kind, uint32_t a, uint32_t b, uint32_t dim)
{
	const struct named_module *unfit = NULL;

	for (uint32_t i = 0; i < kind->count; i++) {
		const struct named_module *module = &kind->modules[i];

		if (fits(complete, &module->tensors[a], &module->tensors[b], dim))
			continue;
		if (unfit != NULL)
			return NULL;
		unfit = module;
	}
	return unfit;
}

/* The smaller of the two is the piece. */
static void judge_unfit(struct fsdp_complete *complete,
	const struct module_tensor *vector, const struct module_tensor *other,
	uint32_t dim)
{
	const struct module_tensor *piece = vector, *whole = other;
	struct fsdp_tensor a = fsdp_tensor(complete->checkpoint, vector->tensor);
	struct fsdp_tensor b = fsdp_tensor(complete->checkpoint, other->tensor);
	char ours[FSDP_SHOWN_SHAPE], theirs[FSDP_SHOWN_SHAPE], leaf[FSDP_SHOWN];
	uint64_t less, more;

	if (a.dims != 1 || b.dims <= dim || !fsdp_complete_is_plain(&a) ||
		!fsdp_complete_is_plain(&b))
		return;
	less = (uint64_t)a.shape[0];
	more = (uint64_t)b.shape[dim];
	if (less > more) {
		piece = other;
		whole = vector;
		less = (uint64_t)b.shape[dim];
		more = (uint64_t)a.shape[0];
	}
	if (more % less != 0 || more / less > FSDP_COMPLETE_RANKS_MOST ||
		complete->told[piece->tensor])
		return;
	fsdp_complete_tell(complete, piece->tensor, FSDP_RULE_PARTIAL_TENSOR, 0,
		"shape %s, but %s has %s: one of %llu shards saved as the full tensor",
		fsdp_show_shape(piece == vector ? &a : &b, ours),
		fsdp_shown(fsdp_names_segment(&complete->patterns, whole->leaf), leaf),
		fsdp_show_shape(piece == vector ? &b : &a, theirs),
		FSDP_LLU(more / less));
}

/* If all others have equal numbers of rows and columns: a matrix of nn.Linear has rows first; other modules are
 * unknown. */
static void judge_pair(struct fsdp_complete *complete, const struct module_kind *kind,
	uint32_t a, uint32_t b)
{
	for (uint32_t dim = 0; dim < 2; dim++) {
		const struct named_module *unfit = find_unfit(complete, kind, a, b, dim);
		const struct module_tensor *vector, *other;

		if (unfit == NULL)
			continue;
		vector = &unfit->tensors[a];
		other = &unfit->tensors[b];
		if (!fits(complete, vector, other, 1 - dim) ||
			(dim == 0 &&
				fsdp_tensor(complete->checkpoint, other->tensor).dims ==
					2))
			judge_unfit(complete, vector, other, dim);
		return;
	}
}

static void judge_lengths(struct fsdp_complete *complete, const struct module_kind *kind)
{
	uint32_t count = kind->modules->count;

	if (kind->count < MODULES_LEAST || count > TENSORS_MOST)
		return;
	for (uint32_t a = 0; a < count; a++)
		for (uint32_t b = 0; b < count && !complete->failed; b++)
			if (a != b)
				judge_pair(complete, kind, a, b);
}

static uint32_t kind_at(const struct named_module *modules, uint32_t at, uint32_t end,
	struct module_kind *ret)
{
	*ret = (struct module_kind){ &modules[at], 1 };
	while (at + ret->count < end &&
		compare_kinds(&modules[at], &modules[at + ret->count]) == 0)
		ret->count++;
	return ret->count;
}

/* All modules of one pattern. */
static void judge_pattern(struct fsdp_complete *complete,
	const struct named_module *modules, uint32_t count)
{
	struct module_kind kind, other;

	for (uint32_t at = 0; at < count; at += kind.count) {
		kind_at(modules, at, count, &kind);
		judge_lengths(complete, &kind);
		for (uint32_t k = at + 1;
			kind.count == 1 && k < count &&
			modules[k].count <= modules[at].count + 1 && !complete->failed;
			k += other.count) {
			kind_at(modules, k, count, &other);
			judge_lacking(complete, &modules[at], &other, count);
		}
	}
}

static int compare_tensors(const void *left, const void *right)
{
	const struct module_tensor *a = left, *b = right;
	int order = compare(a->module, b->module);

	return order != 0 ? order : compare(a->leaf, b->leaf);
}

static int compare_modules(const void *left, const void *right)
{
	const struct named_module *a = left, *b = right;
	int order = compare_kinds(a, b);

	return order != 0 ? order : compare(a->name, b->name);
}

static uint32_t collect(struct fsdp_complete *complete, struct module_tensor *tensors,
	struct named_module *modules)
{
	uint32_t count = 0, module_count = 0;

	for (uint32_t i = 0; i < complete->tensor_count; i++) {
		uint32_t name = complete->folded[i], leaf = complete->patterned[i];

		if (name != FSDP_NONE && fsdp_complete_find(complete, name) == i)
			tensors[count++] = (struct module_tensor){
				fsdp_names_at(&complete->patterns, leaf)->parent,
				fsdp_names_at(&complete->names, name)->parent, leaf, i
			};
	}
	qsort(tensors, count, sizeof *tensors, compare_tensors);
	for (uint32_t i = 0; i < count; i++) {
		if (i == 0 || tensors[i].module != tensors[i - 1].module)
			modules[module_count++] =
				(struct named_module){ tensors[i].pattern,
					tensors[i].module, &tensors[i], 0 };
		modules[module_count - 1].count++;
	}
	qsort(modules, module_count, sizeof *modules, compare_modules);
	return module_count;
}

void fsdp_complete_judge_modules(struct fsdp_complete *complete)
{
	struct module_tensor *tensors =
		FSDP_COMPLETE_TAKE(complete, tensors, complete->tensor_count);
	struct named_module *modules =
		FSDP_COMPLETE_TAKE(complete, modules, complete->tensor_count);
	uint32_t count, end;

	if (tensors == NULL || modules == NULL) {
		complete->failed = true;
		return;
	}
	count = collect(complete, tensors, modules);
	for (uint32_t at = 0; at < count && !complete->failed; at = end) {
		for (end = at + 1;
			end < count && modules[end].pattern == modules[at].pattern; end++)
			;
		judge_pattern(complete, modules + at, end - at);
	}
}
