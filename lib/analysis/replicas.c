/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds pieces of a tensor that have the same place in it. Reads no bytes: whether copies
 * are equal is another question.
 */
#include <stdlib.h>

#include <fsdp/analysis.h>

#include "base/error.h"

struct fsdp_replicas {
	const struct fsdp_checkpoint *checkpoint;
	uint32_t *numbers; /* of the first `count` pieces of the tensor */
	uint32_t *order;   /* the same room, for sorting */
	size_t count, room;
};

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

/* The usual order: each piece after the one before, so all are different. */
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

static bool number_them(struct fsdp_replicas *replicas, const struct question *question)
{
	uint32_t count = question->tensor->piece_count, number = 0;
	uint32_t *order = replicas->order;
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

bool fsdp_replicas_new(const struct fsdp_checkpoint *checkpoint,
	struct fsdp_replicas **ret_replicas, struct fsdp_error **ret_error)
{
	struct fsdp_replicas *replicas = calloc(1, sizeof *replicas);

	if (replicas == NULL)
		return fsdp_fail_memory(ret_error);
	replicas->checkpoint = checkpoint;
	*ret_replicas = replicas;
	return true;
}

/* What was there is forgotten. */
static bool make_room(struct fsdp_replicas *replicas, size_t count)
{
	if (count <= replicas->room)
		return true;
	free(replicas->numbers);
	free(replicas->order);
	replicas->room = 0;
	replicas->numbers = malloc(count * sizeof *replicas->numbers);
	replicas->order = malloc(count * sizeof *replicas->order);
	if (replicas->numbers == NULL || replicas->order == NULL)
		return false;
	replicas->room = count;
	return true;
}

bool fsdp_replicas_find(struct fsdp_replicas *replicas, const struct fsdp_tensor *tensor,
	bool *ret_some, struct fsdp_error **ret_error)
{
	const struct question question = { replicas->checkpoint, tensor };
	bool apart = tensor->piece_count < 2 || all_ascend(&question);

	replicas->count = 0;
	if (!apart && !make_room(replicas, tensor->piece_count))
		return fsdp_fail_memory(ret_error);
	if (!apart)
		replicas->count = tensor->piece_count;
	*ret_some = !apart && number_them(replicas, &question);
	return true;
}

uint32_t fsdp_replicas_number(const struct fsdp_replicas *replicas, uint32_t position)
{
	return position < replicas->count ? replicas->numbers[position] : FSDP_NONE;
}

void fsdp_replicas_free(struct fsdp_replicas *replicas)
{
	if (replicas == NULL)
		return;
	free(replicas->numbers);
	free(replicas->order);
	free(replicas);
}
