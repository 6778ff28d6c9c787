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

/* Widths differ by design in stacks that are not counted (complete-alike.c), and the first
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
