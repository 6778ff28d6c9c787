/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Siblings without a configuration: a tensor of another shape than in all other elements
 * of its stack, numbers that a stack skips, and modules whose names differ only in their
 * numbers.
 */
#include <stdlib.h>

#include "audit/complete.h"
#include "aggregate/aggregate.h"
#include "base/sort.h"

/* ---- shapes: one rank's piece, or a flattened tensor, saved as the full tensor ---- */

enum { ALIKE_LEAST = 3 };

/* A member of all elements: its records, ascending by element. */
struct stack_column {
	const struct stack *stack;
	const struct name_record **records;
	uint32_t count;
};

/* Shape of at least three quarters of them, or of two of three; FSDP_NONE: no such shape.
 * Found by majority vote. */
static uint32_t common_shape(const struct model *model, const struct stack_column *column)
{
	uint32_t best = 0, votes = 0, held = 0;
	struct fsdp_tensor due = { 0 };
	for (uint32_t i = 0; i < column->count; i++) {
		struct fsdp_tensor tensor = tensor_at(model, column->records[i]->tensor);
		if (votes == 0) {
			best = i;
			due = tensor;
		}
		votes += fsdp_is_same_shape(&due, &tensor) ? 1 : (uint32_t)-1;
	}
	due = tensor_at(model, column->records[best]->tensor);
	for (uint32_t i = 0; i < column->count; i++) {
		struct fsdp_tensor tensor = tensor_at(model, column->records[i]->tensor);
		held += fsdp_is_same_shape(&due, &tensor);
	}
	return (uint64_t)held * 4 >= (uint64_t)column->count * 3 ||
			       (column->stack->element_count == 3 && held == 2)
		       ? best
		       : FSDP_NONE;
}

static bool is_one_dtype(const struct model *model, const struct stack_column *column)
{
	uint32_t first = tensor_at(model, column->records[0]->tensor).dtype;
	for (uint32_t i = 1; i < column->count; i++)
		if (tensor_at(model, column->records[i]->tensor).dtype != first)
			return false;
	return true;
}

/* Widths differ by design in stacks that are not counted (complete-stacks.c), and the
 * first or last one of few in all else. */
static bool may_differ(const struct model *model, const struct layer_set *set,
	const struct name_record *record, const struct fsdp_tensor *due)
{
	const struct stack *stack = set->stack;
	uint32_t element = record->element;
	if (stack->is_counted)
		return false;
	if (tensor_at(model, record->tensor).dims == due->dims)
		return true;
	return set->count == 1 && stack->element_count < 6 &&
	       (element == stack->elements[0].number || element == stack->length - 1);
}

static void check_column(struct model *model, const struct stack_column *column,
	uint32_t *kin, bool *is_in)
{
	struct layer_set set = { column->stack, kin, is_in, column->count, 0 };
	if (column->count < ALIKE_LEAST || !is_one_dtype(model, column))
		return;
	uint32_t best = common_shape(model, column);
	if (best == FSDP_NONE)
		return;
	struct fsdp_tensor due = tensor_at(model, column->records[best]->tensor);
	for (uint32_t i = 0; i < column->count; i++) {
		struct fsdp_tensor tensor = tensor_at(model, column->records[i]->tensor);
		kin[i] = column->records[i]->element;
		is_in[i] = !fsdp_is_same_shape(&due, &tensor);
		set.count += is_in[i];
	}
	if (set.count == 0 || fsdp_complete_is_explained(model, &set))
		return;
	for (uint32_t i = 0; i < column->count; i++)
		if (is_in[i] && !may_differ(model, &set, column->records[i], &due))
			fsdp_complete_check_shape(
				model, column->records[i]->tensor, &due);
}

static void check_columns(struct model *model, const struct stack *stack)
{
	const struct name_record **records =
		MODEL_TAKE(model, records, stack->record_count);
	uint32_t *kin = MODEL_TAKE(model, kin, stack->element_count);
	bool *is_in = MODEL_TAKE(model, is_in, stack->element_count);
	struct stack_column column = { .stack = stack };
	for (uint32_t i = 0; i < stack->record_count; i++)
		records[i] = &stack->records[i];
	FSDP_SORT(records, stack->record_count, FSDP_BY_OF(records, member),
		FSDP_BY_OF(records, element));
	for (uint32_t at = 0; at < stack->record_count; at += column.count) {
		column.records = records + at;
		column.count = 1;
		while (at + column.count < stack->record_count &&
			records[at + column.count]->member == records[at]->member)
			column.count++;
		check_column(model, &column, kin, is_in);
	}
}

void fsdp_complete_check_shapes(struct model *model)
{
	if (strncmp(model->family, "hf", 2) == 0) {
		/* FSDP's own tensor of a rank, which a file of a model has no use for. */
		FSDP_EACH(i, model->tensor_count, tensor, tensor_at(model, i))
			if ((tensor.flags & FSDP_TENSOR_FLATTENED) == 0 &&
				tensor.dims == 1 && !model->reported[i] &&
				fsdp_span_ends(
					stored_name(model, i), FSDP_SPAN("_flat_param")))
				fsdp_complete_report(model, i,
					FSDP_RULE_FLATTENED_PARAMETER, FSDP_ERROR + 1,
					"tensor is the flat parameter of one rank of FSDP: the file has no names and shapes of its parameters");
	}
	for (size_t i = 0; i < model->stack_count; i++) {
		if (model->stacks[i].is_deep &&
			model->stacks[i].element_count >= ALIKE_LEAST)
			check_columns(model, &model->stacks[i]);
		fsdp_arena_reset(&model->work);
	}
}

/* ---- numbers that a stack skips ---- */

/* A number that a stack lacks, by the pattern of its name. */
struct gap {
	uint32_t pattern, number, stack;
};

static uint32_t gaps_of(const struct stack *stack)
{
	return stack->elements[stack->element_count - 1].number -
	       stack->elements[0].number + 1 - stack->element_count;
}

/* Elements that are of one kind and one shape. */
static bool are_alike(const struct model *model, const struct stack_element *first,
	const struct stack_element *element)
{
	if (element->count != first->count)
		return false;
	FSDP_EACH(k, first->count, a, tensor_at(model, first->records[k].tensor)) {
		struct fsdp_tensor b = tensor_at(model, element->records[k].tensor);
		if (first->records[k].member != element->records[k].member ||
			!fsdp_is_same_shape(&a, &b))
			return false;
	}
	return true;
}

static uint32_t count_alike(const struct model *model, const struct stack *stack,
	const struct stack_element *element)
{
	uint32_t alike = 0;
	for (uint32_t i = 0; i < stack->element_count; i++)
		alike += are_alike(model, &stack->elements[i], element);
	return alike;
}

/* Whether all elements have one member in common. */
static bool share_member(struct model *model, const struct stack *stack)
{
	uint32_t *members = MODEL_TAKE(model, members, stack->record_count);
	uint32_t run = 0;
	if (members == NULL)
		return false;
	for (uint32_t i = 0; i < stack->record_count; i++)
		members[i] = stack->records[i].member;
	FSDP_SORT(members, stack->record_count, FSDP_BY_VALUE(members));
	for (uint32_t i = 0; i < stack->record_count; i++) {
		run = i > 0 && members[i] == members[i - 1] ? run + 1 : 1;
		if (run == stack->element_count)
			return true;
	}
	return false;
}

/* Whether numbers that are absent may be holes. */
static bool may_have_holes(struct model *model, const struct stack *stack)
{
	uint32_t gaps = gaps_of(stack), whole = gaps + stack->element_count;
	if (gaps == 0)
		return false;
	if (stack->is_deep)
		return gaps <= whole / 3 && share_member(model, stack);
	return stack->element_count >= 6 && gaps <= whole / 6 &&
	       count_alike(model, stack, &stack->elements[0]) == stack->element_count;
}

/* Gaps of each stack that another stack of the same pattern has too. */
static void count_shared(struct model *model, const bool *may, uint32_t *shared)
{
	struct fsdp_vec list;
	struct gap *gaps;
	fsdp_vec_init(&list, model->arena, sizeof *gaps);
	FSDP_EACH(i, (uint32_t)model->stack_count, stack, &model->stacks[i])
		for (uint32_t k = 1; may[i] && k < stack->element_count; k++)
			for (uint32_t n = stack->elements[k - 1].number + 1;
				n < stack->elements[k].number; n++)
				fsdp_vec_append(
					&list, &(struct gap){ stack->pattern, n, i });
	gaps = MODEL_KEEP(model, gaps, list.count);
	for (size_t i = 0; i < list.count; i++)
		gaps[i] = *(const struct gap *)fsdp_vec_at(&list, i);
	FSDP_SORT(gaps, list.count, FSDP_BY(gaps, pattern), FSDP_BY(gaps, number),
		FSDP_BY(gaps, stack));
	for (size_t i = 0; i < list.count; i++) {
		bool before = i > 0 && gaps[i - 1].pattern == gaps[i].pattern &&
			      gaps[i - 1].number == gaps[i].number;
		bool behind = i + 1 < list.count &&
			      gaps[i + 1].pattern == gaps[i].pattern &&
			      gaps[i + 1].number == gaps[i].number;
		shared[gaps[i].stack] += before || behind;
	}
}

/* Records that both elements have, at most as many as a finding keeps. */
static uint32_t find_common(const struct stack_element *a, const struct stack_element *b,
	const struct name_record **like)
{
	uint32_t count = 0;
	for (uint32_t i = 0, k = 0;
		i < a->count && k < b->count && count < FSDP_AFFECTED_KEPT;) {
		const struct name_record *x = &a->records[i], *y = &b->records[k];
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

/* Numbers are of one kind. */
static uint32_t kind_of_child(const struct model *model, const struct name_record *record)
{
	struct fsdp_span child = fsdp_names_segment(&model->members, record->child);
	uint32_t number;
	return fsdp_complete_is_number(child, &number) ? FSDP_NONE : record->child;
}

/* Whether one has all children of the other, and both have lists of modules in them. */
static bool are_stages(const struct model *model, const struct stack_element *a,
	const struct stack_element *b)
{
	const struct stack_element *both[] = { a, b };
	bool has_list[2] = { false, false }, has_all[2] = { true, true };
	for (size_t side = 0; side < 2; side++) {
		const struct stack_element *other = both[1 - side];
		FSDP_EACH(i, both[side]->count, record, &both[side]->records[i]) {
			uint32_t child = kind_of_child(model, record), k = 0;
			has_list[side] |=
				fsdp_complete_has_number(&model->members, record->member);
			if (i > 0 && child == kind_of_child(model, record - 1))
				continue;
			while (k < other->count &&
				kind_of_child(model, &other->records[k]) != child)
				k++;
			has_all[1 - side] &= k < other->count;
		}
	}
	return has_list[0] && has_list[1] && (has_all[0] || has_all[1]);
}

/* Whether one equals the other, of several, with additional members. */
static bool is_special(const struct model *model, const struct stack *stack,
	const struct stack_element *element, const struct stack_element *other)
{
	uint32_t at = 0;
	for (uint32_t i = 0; i < element->count && at < other->count; i++)
		at += element->records[i].member == other->records[at].member;
	return at == other->count && element->count != other->count &&
	       count_alike(model, stack, other) >= 2;
}

/* With what both neighbors have. */
static void report_gap(
	struct model *model, const struct stack *stack, uint32_t behind, uint32_t number)
{
	const struct stack_element *before = &stack->elements[behind - 1];
	const struct name_record **like = MODEL_TAKE(model, like, FSDP_AFFECTED_KEPT);
	struct hole hole = {
		.stack = stack,
		.element = number,
		.like = like,
		.have = stack->element_count,
		.of = stack->element_count + gaps_of(stack),
	};
	if (like == NULL)
		return;
	hole.count = find_common(before, &stack->elements[behind], like);
	if (hole.count == 0)
		hole.count = find_common(before, before, like);
	fsdp_complete_report_gone(model, &hole);
	fsdp_arena_reset(&model->work);
}

/* Whether the gaps follow a rule. */
static bool are_explained(struct model *model, const struct stack *stack)
{
	uint32_t whole = stack->element_count + gaps_of(stack);
	uint32_t first = stack->elements[0].number;
	uint32_t *kin = MODEL_TAKE(model, kin, whole);
	bool *is_in = MODEL_TAKE(model, is_in, whole), explained;
	struct layer_set set = { stack, kin, is_in, whole, gaps_of(stack) };
	for (uint32_t i = 0; i < whole; i++) {
		kin[i] = first + i;
		is_in[i] = true;
	}
	for (uint32_t i = 0; i < stack->element_count; i++)
		is_in[stack->elements[i].number - first] = false;
	explained = fsdp_complete_is_explained(model, &set);
	fsdp_arena_reset(&model->work);
	return explained;
}

static void check_gaps(struct model *model, const struct stack *stack)
{
	for (uint32_t i = 1; i < stack->element_count; i++) {
		const struct stack_element *element = &stack->elements[i];
		uint32_t n = element[-1].number + 1;
		/* Between others may be a module without parameters. */
		if (n == element->number ||
			(!stack->is_counted && !are_alike(model, element - 1, element) &&
				!are_stages(model, element - 1, element) &&
				!is_special(model, stack, element - 1, element) &&
				!is_special(model, stack, element, element - 1)))
			continue;
		for (; n < element->number; n++)
			report_gap(model, stack, i, n);
	}
}

void fsdp_complete_check_numbers(struct model *model)
{
	bool *may = MODEL_KEEP(model, may, model->stack_count);
	uint32_t *shared = MODEL_KEEP(model, shared, model->stack_count);
	for (uint32_t i = 0; i < model->stack_count; i++) {
		may[i] = may_have_holes(model, &model->stacks[i]);
		fsdp_arena_reset(&model->work);
	}
	count_shared(model, may, shared);
	for (uint32_t i = 0; i < model->stack_count; i++)
		if (may[i] && shared[i] * 2 <= gaps_of(&model->stacks[i]) &&
			!are_explained(model, &model->stacks[i]))
			check_gaps(model, &model->stacks[i]);
}

/*
 * ---- modules whose names differ only in their numbers ----
 *
 * What all of them but one have is a tensor that the one has lost, and where in all but
 * one a bias is as long as its weight has rows, the one has a piece.
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
static struct fsdp_span name_in(struct model *model, const struct named_module *module,
	const struct module_tensor *like)
{
	struct fsdp_span last = fsdp_arena_copy(
		&model->work, fsdp_span_last(stored_name(model, like->tensor), '.'));
	struct fsdp_span stored = stored_name(model, module->tensors->tensor);
	size_t front = stored.size - fsdp_span_last(stored, '.').size;
	unsigned char *text = MODEL_TAKE(model, text, front + last.size);
	memcpy(text, stored.data, front);
	memcpy(text + front, last.data, last.size);
	return fsdp_span(text, front + last.size);
}

/* A module like no other, of one tensor only if all others are alike. */
static void check_lacking(struct model *model, const struct named_module *module,
	const struct module_kind *kind, uint32_t of)
{
	const struct module_tensor *lacking = find_lacking(module, kind);
	if (lacking == NULL || model->is_silent || kind->count < MODULES_LEAST ||
		(module->count < 2 && kind->count + 1 < of))
		return;
	struct fsdp_span leaf = fsdp_names_segment(&model->patterns, lacking->leaf);
	if (!fsdp_complete_first_lacks(model, leaf))
		fsdp_complete_report_lacking(model, module->tensors->tensor, module->name,
			leaf, name_in(model, module, lacking),
			"tensor is missing (present in %u modules with such a name)",
			kind->count);
}

/* Whether the vector is as long as the other tensor is in a dimension. */
static bool fits(const struct model *model, const struct module_tensor *vector,
	const struct module_tensor *other, uint32_t dim)
{
	struct fsdp_tensor a = tensor_at(model, vector->tensor);
	struct fsdp_tensor b = tensor_at(model, other->tensor);
	return a.dims == 1 && b.dims > dim && b.shape[dim] == a.shape[0];
}

/* The only module where two tensors do not fit; NULL: none, or several. */
static const struct named_module *find_unfit(const struct model *model,
	const struct module_kind *kind, uint32_t a, uint32_t b, uint32_t dim)
{
	const struct named_module *unfit = NULL;
	FSDP_EACH(i, kind->count, module, &kind->modules[i]) {
		if (fits(model, &module->tensors[a], &module->tensors[b], dim))
			continue;
		if (unfit != NULL)
			return NULL;
		unfit = module;
	}
	return unfit;
}

/* The smaller of the two is the piece. */
static void check_unfit(struct model *model, const struct module_tensor *vector,
	const struct module_tensor *other, uint32_t dim)
{
	struct fsdp_tensor a = tensor_at(model, vector->tensor);
	struct fsdp_tensor b = tensor_at(model, other->tensor);
	char ours[FSDP_SHOWN_SHAPE], theirs[FSDP_SHOWN_SHAPE], leaf[FSDP_SHOWN];
	uint64_t less, more;
	if (a.dims != 1 || b.dims <= dim || !is_plain(&a) || !is_plain(&b))
		return;
	bool is_turned = a.shape[0] > b.shape[dim];
	less = (uint64_t)(is_turned ? b.shape[dim] : a.shape[0]);
	more = (uint64_t)(is_turned ? a.shape[0] : b.shape[dim]);
	if (more % less != 0 || more / less > RANKS_MOST ||
		model->reported[(is_turned ? other : vector)->tensor])
		return;
	fsdp_complete_report(model, (is_turned ? other : vector)->tensor,
		FSDP_RULE_PARTIAL_TENSOR, 0,
		"shape %s, but %s has %s: one of %llu shards saved as the full tensor",
		fsdp_show_shape(is_turned ? &b : &a, ours),
		fsdp_shown(fsdp_names_segment(
				   &model->patterns, (is_turned ? vector : other)->leaf),
			leaf),
		fsdp_show_shape(is_turned ? &a : &b, theirs), FSDP_LLU(more / less));
}

/* If all others have equal numbers of rows and columns: a matrix of nn.Linear has rows
 * first; other modules are unknown. */
static void check_pair(
	struct model *model, const struct module_kind *kind, uint32_t a, uint32_t b)
{
	for (uint32_t dim = 0; dim < 2; dim++) {
		const struct named_module *unfit = find_unfit(model, kind, a, b, dim);
		const struct module_tensor *vector, *other;
		if (unfit == NULL)
			continue;
		vector = &unfit->tensors[a];
		other = &unfit->tensors[b];
		if (!fits(model, vector, other, 1 - dim) ||
			(dim == 0 && tensor_at(model, other->tensor).dims == 2))
			check_unfit(model, vector, other, dim);
		return;
	}
}

static struct module_kind kind_at(
	const struct named_module *modules, uint32_t at, uint32_t end)
{
	struct module_kind kind = { &modules[at], 1 };
	while (at + kind.count < end &&
		compare_kinds(&modules[at], &modules[at + kind.count]) == 0)
		kind.count++;
	return kind;
}

/* All modules of one pattern. */
static void check_pattern(
	struct model *model, const struct named_module *modules, uint32_t count)
{
	struct module_kind kind, other;
	for (uint32_t at = 0; at < count; at += kind.count) {
		uint32_t tensors = modules[at].count;
		kind = kind_at(modules, at, count);
		for (uint32_t i = 0; kind.count >= MODULES_LEAST &&
				     tensors <= TENSORS_MOST && i < tensors * tensors;
			i++)
			if (i / tensors != i % tensors)
				check_pair(model, &kind, i / tensors, i % tensors);
		for (uint32_t k = at + 1;
			kind.count == 1 && k < count && modules[k].count <= tensors + 1;
			k += other.count) {
			other = kind_at(modules, k, count);
			check_lacking(model, &modules[at], &other, count);
		}
	}
}

static int compare_modules(const void *left, const void *right)
{
	const struct named_module *a = left, *b = right;
	int order = compare_kinds(a, b);
	return order != 0 ? order : compare(a->name, b->name);
}

static uint32_t collect_modules(const struct model *model, struct module_tensor *tensors,
	struct named_module *modules)
{
	uint32_t count = 0, module_count = 0;
	for (uint32_t i = 0; i < model->tensor_count; i++) {
		uint32_t name = model->folded[i], leaf = model->patterned[i];
		if (name != FSDP_NONE && find_tensor(model, name) == i)
			tensors[count++] = (struct module_tensor){
				fsdp_names_at(&model->patterns, leaf)->parent,
				parent_of(model, name), leaf, i
			};
	}
	FSDP_SORT(tensors, count, FSDP_BY(tensors, module), FSDP_BY(tensors, leaf));
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

void fsdp_complete_check_modules(struct model *model)
{
	struct module_tensor *tensors = MODEL_TAKE(model, tensors, model->tensor_count);
	struct named_module *modules = MODEL_TAKE(model, modules, model->tensor_count);
	uint32_t count, end;
	count = collect_modules(model, tensors, modules);
	for (uint32_t at = 0; at < count; at = end) {
		for (end = at + 1;
			end < count && modules[end].pattern == modules[at].pattern; end++)
			;
		check_pattern(model, modules + at, end - at);
	}
}
