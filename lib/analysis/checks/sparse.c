/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the indices of sparse tensors when data is read: each is inside the shape, coalesced ones ascend, and row
 * pointers start with 0, never fall and end with the number of values. PyTorch checks neither on load, except
 * weights_only from 2.14 on, and later reads or writes outside of the tensor. make-up.c checks whether their shapes
 * fit.
 */
#include <inttypes.h>
#include <string.h>

#include <fsdp/elements.h>

#include "analysis/checks/checking.h"
#include "analysis/tally.h"
#include "base/error.h"

struct sparse {
	struct fsdp_checking *checking;
	struct fsdp_locator *locator;
	struct fsdp_repeats *repeats;
	bool skipped, unreadable;
	bool found; /* of the tensor that is looked at */
};

/* What the numbers of one part must be: `run` of them belong to one limit, and limits
 * come again and again. */
struct numbers {
	const char *what;
	const int64_t *limits; /* exclusive */
	uint64_t limit_count;
	uint64_t run;
	bool are_pointers; /* rise from 0 to the limit - 1 in each run */

	uint64_t at;
	int64_t before;
};

static int64_t number_at(const unsigned char *bytes, size_t width)
{
	int64_t wide;
	int32_t narrow;

	memcpy(&narrow, bytes, sizeof narrow);
	if (width == sizeof narrow)
		return narrow;
	memcpy(&wide, bytes, sizeof wide);
	return wide;
}

/* Why the number is invalid at the next position, or NULL. */
static const char *judge_number(struct numbers *numbers, int64_t number)
{
	uint64_t in_run = numbers->at % numbers->run;
	int64_t limit =
		numbers->limits[numbers->at / numbers->run % numbers->limit_count];
	int64_t before = numbers->before;

	numbers->at++;
	numbers->before = number;
	if (number < 0 || number >= limit)
		return "is outside of the tensor";
	if (!numbers->are_pointers)
		return NULL;
	if (in_run == 0)
		return number != 0 ? "should be 0" : NULL;
	if (number < before)
		return "is less than the one before";
	return in_run == numbers->run - 1 && number != limit - 1
		       ? "is not the number of values"
		       : NULL;
}

static void tell(struct sparse *sparse, uint32_t tensor, const struct numbers *numbers,
	const char *why)
{
	struct fsdp_checking *checking = sparse->checking;
	struct fsdp_span name = fsdp_scratch_name(&checking->name, checking->checkpoint,
		fsdp_tensor(checking->checkpoint, tensor).name);
	sparse->found = true;

	fsdp_find(checking->findings, FSDP_RULE_STRUCTURED_TENSOR,
		FSDP_PLACE(.tensor = name, .affected = &name, .affected_count = 1),
		"%s %" PRIu64 " is %" PRId64 ", which %s", numbers->what, numbers->at - 1,
		numbers->before, why);
}

/* Only the first fault of a part is reported. */
static bool read_numbers(struct sparse *sparse, uint32_t tensor, uint32_t part,
	struct numbers *numbers, struct fsdp_error **ret_error)
{
	struct fsdp_tensor own = fsdp_tensor(sparse->checking->checkpoint, part);
	size_t width = fsdp_dtype(own.dtype)->storage_bytes;
	struct fsdp_elements *elements = NULL;
	struct fsdp_span bytes = { NULL, 1 };
	const char *why = NULL;
	bool good = fsdp_elements_open(sparse->locator, part, NULL, &elements, ret_error);

	while (good && bytes.size > 0 && why == NULL) {
		good = fsdp_elements_next(elements, &bytes, ret_error);
		for (size_t i = 0; good && i < bytes.size && why == NULL; i += width)
			why = judge_number(numbers, number_at(bytes.data + i, width));
	}
	fsdp_elements_close(elements);
	if (why != NULL)
		tell(sparse, tensor, numbers, why);
	return good;
}

/* What cannot be read is not judged; other rules report the damage. */
static bool pass_over(
	struct sparse *sparse, struct fsdp_error *error, struct fsdp_error **ret_error)
{
	bool memory = fsdp_error_code(error) == FSDP_ERROR_MEMORY;

	sparse->unreadable = true;
	if (memory)
		*ret_error = error;
	else
		fsdp_error_free(error);
	return !memory;
}

static bool judge_part(struct sparse *sparse, uint32_t tensor, uint32_t part,
	struct numbers *numbers, struct fsdp_error **ret_error)
{
	struct fsdp_tensor own = fsdp_tensor(sparse->checking->checkpoint, part);
	const char *dtype = fsdp_dtype(own.dtype)->name;
	struct fsdp_error *error = NULL;

	if (own.numel == 0 || numbers->run == 0 || numbers->limit_count == 0 ||
		(strcmp(dtype, "int64") != 0 && strcmp(dtype, "int32") != 0))
		return true;
	if (!fsdp_repeats_take(sparse->repeats, part, own.bytes, NULL)) {
		sparse->skipped = true;
		return true;
	}
	return read_numbers(sparse, tensor, part, numbers, &error) ||
	       pass_over(sparse, error, ret_error);
}

/* First element whose indices are not after the previous ones; 0: all ascend. */
static int64_t find_disorder(const int64_t *indices, int64_t dims, int64_t count)
{
	for (int64_t i = 1; i < count; i++) {
		int64_t dim = 0;
		while (dim < dims &&
			indices[dim * count + i] == indices[dim * count + i - 1])
			dim++;
		if (dim == dims ||
			indices[dim * count + i] < indices[dim * count + i - 1])
			return i;
	}
	return 0;
}

/* Of a tensor that is marked as coalesced, in order and each only once. */
static bool judge_order(struct sparse *sparse, uint32_t index, uint32_t part,
	struct fsdp_error **ret_error)
{
	struct fsdp_checking *checking = sparse->checking;
	struct fsdp_tensor indices = fsdp_tensor(checking->checkpoint, part);
	struct fsdp_elements *elements = NULL;
	struct fsdp_span bytes = { NULL, 1 };
	struct fsdp_error *error = NULL;
	size_t at = 0;

	if (indices.numel == 0 || strcmp(fsdp_dtype(indices.dtype)->name, "int64") != 0)
		return true;
	if (!fsdp_repeats_take(sparse->repeats, part, indices.bytes, NULL)) {
		sparse->skipped = true;
		return true;
	}
	int64_t *all = FSDP_TAKE(checking->arena, all, indices.numel);
	if (all == NULL)
		return fsdp_arena_fail(checking->arena, ret_error);
	bool good = fsdp_elements_open(sparse->locator, part, NULL, &elements, &error);
	while (good && bytes.size > 0) {
		good = fsdp_elements_next(elements, &bytes, &error);
		if (good && bytes.size > 0)
			memcpy((unsigned char *)all + at, bytes.data, bytes.size);
		at += bytes.size;
	}
	fsdp_elements_close(elements);
	if (!good)
		return pass_over(sparse, error, ret_error);
	int64_t disorder = find_disorder(all, indices.shape[0], indices.shape[1]);
	if (disorder == 0)
		return true;
	struct fsdp_span name = fsdp_scratch_name(&checking->name, checking->checkpoint,
		fsdp_tensor(checking->checkpoint, index).name);
	fsdp_find(checking->findings, FSDP_RULE_STRUCTURED_TENSOR,
		FSDP_PLACE(.tensor = name, .affected = &name, .affected_count = 1),
		"it is marked as coalesced, but the indices of element %" PRId64
		" are not in ascending order",
		disorder);
	return true;
}

/* indices: [sparse dimensions, n]; each row has its own limit. */
static bool judge_coo(
	struct sparse *sparse, uint32_t index, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = sparse->checking->checkpoint;
	struct fsdp_tensor tensor = fsdp_tensor(checkpoint, index);
	struct fsdp_tensor indices = fsdp_tensor(checkpoint, tensor.first_component);

	if (indices.dims != 2 || indices.shape[0] > tensor.dims)
		return true;
	sparse->found = false;
	return judge_part(sparse, index, tensor.first_component,
		       &(struct numbers){ .what = "index",
			       .limits = tensor.shape,
			       .limit_count = (uint64_t)indices.shape[0],
			       .run = (uint64_t)indices.shape[1] },
		       ret_error) &&
	       ((tensor.flags & FSDP_TENSOR_COALESCED) == 0 || sparse->found ||
		       judge_order(sparse, index, tensor.first_component, ret_error));
}

/* pointers: [batch …, rows of blocks + 1]; indices: [batch …, n]. */
static bool judge_compressed(
	struct sparse *sparse, uint32_t index, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = sparse->checking->checkpoint;
	struct fsdp_tensor tensor = fsdp_tensor(checkpoint, index);
	struct fsdp_tensor pointers = fsdp_tensor(checkpoint, tensor.first_component);
	struct fsdp_tensor indices = fsdp_tensor(checkpoint, tensor.first_component + 1);
	struct fsdp_tensor values = fsdp_tensor(checkpoint, tensor.first_component + 2);
	bool rows = strstr(tensor.layout, "sr") != NULL;
	bool blocks = strstr(tensor.layout, "_bs") != NULL;
	uint32_t batch = pointers.dims - 1, across = batch + rows;
	int64_t block = 1, last, columns;

	if (pointers.dims == 0 || indices.dims != pointers.dims ||
		tensor.dims < batch + 2 || values.dims < indices.dims + 2 * blocks)
		return true;
	if (blocks)
		block = values.shape[indices.dims + rows];
	if (block <= 0 || indices.shape[batch] < 0)
		return true;
	last = indices.shape[batch] + 1;
	columns = tensor.shape[across] / block;
	return judge_part(sparse, index, tensor.first_component,
		       &(struct numbers){ .what = rows ? "row pointer" : "column pointer",
			       .limits = &last,
			       .limit_count = 1,
			       .run = (uint64_t)pointers.shape[batch],
			       .are_pointers = true },
		       ret_error) &&
	       judge_part(sparse, index, tensor.first_component + 1,
		       &(struct numbers){ .what = rows ? "column index" : "row index",
			       .limits = &columns,
			       .limit_count = 1,
			       .run = (uint64_t)indices.shape[batch] },
		       ret_error);
}

static bool judge(struct sparse *sparse, uint32_t index, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = sparse->checking->checkpoint;
	struct fsdp_tensor tensor = fsdp_tensor(checkpoint, index);
	bool coo = strcmp(tensor.layout, "sparse_coo") == 0;

	if (strncmp(tensor.layout, "sparse_", 7) != 0 ||
		tensor.component_count != (coo ? 2u : 3u))
		return true;
	if (sparse->locator == NULL &&
		!fsdp_locator_new(checkpoint, &sparse->locator, ret_error))
		return false;
	return coo ? judge_coo(sparse, index, ret_error)
		   : judge_compressed(sparse, index, ret_error);
}

bool fsdp_judge_sparse(struct fsdp_checking *checking, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	struct sparse sparse = { .checking = checking };
	size_t count = fsdp_tensor_count(checkpoint);
	bool good = true;

	good = fsdp_repeats_new(checkpoint, &sparse.repeats, ret_error);
	for (uint32_t i = 0; good && i < count; i++)
		if (fsdp_tensor(checkpoint, i).layout != NULL)
			good = judge(&sparse, i, ret_error);
	fsdp_repeats_free(sparse.repeats);
	fsdp_locator_free(sparse.locator);
	if (sparse.skipped || sparse.unreadable)
		fsdp_check_skip(checking, FSDP_RULE_STRUCTURED_TENSOR,
			sparse.unreadable ? FSDP_REASON_UNREADABLE : FSDP_REASON_LIMIT);
	return good;
}

static bool run(struct fsdp_checking *checking, struct fsdp_error **ret_error)
{
	return checking->verify == NULL || checking->level < FSDP_LEVEL_DATA ||
	       fsdp_judge_sparse(checking, ret_error);
}

const struct fsdp_check fsdp_check_sparse = {
	FSDP_CHECK_RULES(FSDP_RULE_STRUCTURED_TENSOR),
	.run = run,
};
