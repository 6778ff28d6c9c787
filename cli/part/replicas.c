/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows when two pieces have the same place in a tensor. Knows nothing of what they hold:
 * whether copies are equal is for an audit.
 */
#include <stdlib.h>
#include <string.h>

#include "front/command.h"
#include "part/replicas.h"

struct question {
	const struct fsdp_checkpoint *checkpoint;
	const struct fsdp_tensor *tensor;
};

static int compare_numbers(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/* Boxes in the order of their first elements, a whole tensor as the box that it is. */
static int compare_pieces(const struct fsdp_tensor *tensor, const struct fsdp_piece *a,
	const struct fsdp_piece *b)
{
	int order = compare_numbers(a->is_run, b->is_run);

	if (order != 0)
		return order;
	if (a->is_run) {
		order = compare_numbers(a->param_start, b->param_start);
		return order != 0 ? order
				  : compare_numbers(a->param_numel, b->param_numel);
	}
	for (uint32_t i = 0; i < tensor->dims && order == 0; i++)
		order = compare_numbers(a->offsets != NULL ? (uint64_t)a->offsets[i] : 0,
			b->offsets != NULL ? (uint64_t)b->offsets[i] : 0);
	for (uint32_t i = 0; i < tensor->dims && order == 0; i++)
		order = compare_numbers(
			(uint64_t)(a->sizes != NULL ? a->sizes : tensor->shape)[i],
			(uint64_t)(b->sizes != NULL ? b->sizes : tensor->shape)[i]);
	return order;
}

static int compare_positions(const struct question *question, uint32_t a, uint32_t b)
{
	uint32_t first = question->tensor->first_piece;
	struct fsdp_piece left = fsdp_piece(question->checkpoint, first + a),
			  right = fsdp_piece(question->checkpoint, first + b);

	return compare_pieces(question->tensor, &left, &right);
}

static int by_place(const void *a, const void *b, void *context)
{
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
	int order = compare_positions(context, left, right);

	return order != 0 ? order : compare_numbers(left, right);
}

/* As most are written: each behind the one before, so that no two are the same. */
static bool all_ascend(const struct question *question)
{
	for (uint32_t i = 1; i < question->tensor->piece_count; i++)
		if (compare_positions(question, i - 1, i) >= 0)
			return false;
	return true;
}

static bool has_elements(const struct question *question, uint32_t position)
{
	struct fsdp_piece piece = fsdp_piece(
		question->checkpoint, question->tensor->first_piece + position);

	if (piece.is_run)
		return piece.param_numel != 0;
	for (uint32_t i = 0; piece.sizes != NULL && i < piece.dims; i++)
		if (piece.sizes[i] == 0)
			return false;
	return question->tensor->numel != 0;
}

static bool number_them(
	struct replicas *replicas, const struct question *question, uint32_t *order)
{
	uint32_t count = question->tensor->piece_count, number = 0;
	bool some = false;

	for (uint32_t i = 0; i < count; i++)
		order[i] = i;
	qsort_r(order, count, sizeof *order, by_place, (void *)(uintptr_t)question);
	for (uint32_t i = 0; i < count; i++) {
		bool copy =
			i > 0 && compare_positions(question, order[i - 1], order[i]) == 0;
		bool copied = i + 1 < count &&
			      compare_positions(question, order[i], order[i + 1]) == 0;
		bool counts = (copy || copied) && has_elements(question, order[i]);
		number = copy ? number + 1 : 0;
		replicas->numbers[order[i]] = counts ? number : FSDP_NONE;
		some |= counts;
	}
	return some;
}

bool replicas_find(struct replicas *replicas, const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_tensor *tensor, bool *ret_some)
{
	const struct question question = { checkpoint, tensor };
	size_t count = tensor->piece_count;
	uint32_t *order;

	*ret_some = false;
	if (count < 2 || all_ascend(&question)) {
		replicas->count = 0;
		return true;
	}
	if (count > replicas->room) {
		free(replicas->numbers);
		replicas->room = 0;
		replicas->numbers = malloc(count * sizeof *replicas->numbers);
		if (replicas->numbers == NULL)
			return false;
		replicas->room = count;
	}
	order = malloc(count * sizeof *order);
	if (order == NULL)
		return false;
	replicas->count = count;
	*ret_some = number_them(replicas, &question, order);
	free(order);
	return true;
}

struct value replicas_value(const struct replicas *replicas, uint32_t position)
{
	return value_id(
		position < replicas->count ? replicas->numbers[position] : FSDP_NONE);
}

void replicas_done(struct replicas *replicas)
{
	free(replicas->numbers);
}
