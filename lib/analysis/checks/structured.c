/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether tensors that are made of others fit together, whether shards of a FlatParameter
 * have one length, and whether a tensor is in a state that loaders may not expect.
 *
 *	sparse      indices and values have one number of elements; pointers are one more
 *	            than rows (or columns) of blocks
 *	quantised   a scale and a zero point for each index along the axis
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/elements.h>

#include "analysis/checks/checking.h"
#include "analysis/tally.h"
#include "base/error.h"

enum { DEVICES_MOST = 1024 };

struct made_up {
	struct fsdp_checking *checking;
	const struct fsdp_checkpoint *checkpoint;
	bool structured, some; /* has such tensors; has tensors */
};

static struct fsdp_span name_of(struct made_up *looking, const struct fsdp_tensor *tensor)
{
	return fsdp_scratch_name(
		&looking->checking->name, looking->checkpoint, tensor->name);
}

static void __attribute__((format(printf, 4, 5)))
say(struct made_up *looking, enum fsdp_rule_index rule, const struct fsdp_tensor *tensor,
	const char *format, ...)
{
	struct fsdp_span name = name_of(looking, tensor);
	va_list arguments;

	va_start(arguments, format);
	fsdp_find_list(looking->checking->findings, rule,
		FSDP_PLACE(.tensor = name, .affected = &name, .affected_count = 1),
		format, arguments);
	va_end(arguments);
}

/* ---- tensors made of others ---- */

static int64_t last_size(const struct fsdp_tensor *tensor)
{
	return tensor->dims > 0 ? tensor->shape[tensor->dims - 1] : -1;
}

/* indices: [sparse dimensions, n]; values: [n, dense dimensions …]. */
static void judge_coo(struct made_up *looking, const struct fsdp_tensor *tensor,
	const struct fsdp_tensor *indices, const struct fsdp_tensor *values)
{
	uint32_t sparse, dense;

	if (indices->dims != 2 || values->dims == 0) {
		say(looking, FSDP_RULE_STRUCTURED_TENSOR, tensor,
			"the indices have %u dimensions and the values %u: there should be 2, and at least 1",
			indices->dims, values->dims);
		return;
	}
	sparse = (uint32_t)indices->shape[0];
	dense = values->dims - 1;
	if (indices->shape[1] != values->shape[0])
		say(looking, FSDP_RULE_STRUCTURED_TENSOR, tensor,
			"there are %lld indices for %lld values",
			(long long)indices->shape[1], (long long)values->shape[0]);
	else if (indices->shape[0] < 0 || indices->shape[0] > tensor->dims ||
		 sparse + dense != tensor->dims)
		say(looking, FSDP_RULE_STRUCTURED_TENSOR, tensor,
			"%lld indexed dimensions and %u of values do not make the %u of the tensor",
			(long long)indices->shape[0], dense, tensor->dims);
	else
		for (uint32_t i = 0; i < dense; i++)
			if (values->shape[1 + i] != tensor->shape[sparse + i]) {
				say(looking, FSDP_RULE_STRUCTURED_TENSOR, tensor,
					"dimension %u of the values has size %lld, that of the tensor %lld",
					1 + i, (long long)values->shape[1 + i],
					(long long)tensor->shape[sparse + i]);
				return;
			}
}

/* pointers: [batch …, rows of blocks + 1]; indices and values: [batch …, n, block …]. */
static void judge_compressed(struct made_up *looking, const struct fsdp_tensor *tensor,
	const struct fsdp_tensor parts[3], bool rows, bool blocks)
{
	uint32_t batch = parts[0].dims - 1, along = batch + !rows;
	int64_t block = 1;

	if (parts[0].dims == 0 || parts[1].dims != parts[0].dims ||
		parts[2].dims < parts[0].dims + (blocks ? 2 : 0) ||
		tensor->dims < batch + 2) {
		say(looking, FSDP_RULE_STRUCTURED_TENSOR, tensor,
			"the parts have %u, %u and %u dimensions, which do not make the %u of the tensor",
			parts[0].dims, parts[1].dims, parts[2].dims, tensor->dims);
		return;
	}
	if (blocks)
		block = parts[2].shape[parts[0].dims + !rows];
	if (parts[2].shape[batch] != last_size(&parts[1]))
		say(looking, FSDP_RULE_STRUCTURED_TENSOR, tensor,
			"there are %lld indices for %lld values",
			(long long)last_size(&parts[1]),
			(long long)parts[2].shape[batch]);
	if (block < 1)
		say(looking, FSDP_RULE_STRUCTURED_TENSOR, tensor, "its blocks have no %s",
			rows ? "rows" : "columns");
	else if (last_size(&parts[0]) != tensor->shape[along] / block + 1)
		say(looking, FSDP_RULE_STRUCTURED_TENSOR, tensor,
			"there are %lld pointers, but %lld %s",
			(long long)last_size(&parts[0]),
			(long long)(tensor->shape[along] / block),
			rows ? "rows" : "columns");
}

static void judge_sparse(struct made_up *looking, const struct fsdp_tensor *tensor)
{
	struct fsdp_tensor parts[3];
	const char *layout = tensor->layout;
	uint32_t count = strcmp(layout, "sparse_coo") == 0 ? 2 : 3;

	if (strncmp(layout, "sparse_", 7) != 0 || tensor->component_count != count)
		return;
	looking->structured = true;
	for (uint32_t i = 0; i < count; i++)
		parts[i] = fsdp_tensor(looking->checkpoint, tensor->first_component + i);
	if (count == 2)
		judge_coo(looking, tensor, &parts[0], &parts[1]);
	else
		judge_compressed(looking, tensor, parts,
			strcmp(layout, "sparse_csr") == 0 ||
				strcmp(layout, "sparse_bsr") == 0,
			strcmp(layout, "sparse_bsr") == 0 ||
				strcmp(layout, "sparse_bsc") == 0);
}

static void judge_quantised(struct made_up *looking, const struct fsdp_tensor *tensor)
{
	struct fsdp_quantizer quantizer =
		fsdp_quantizer(looking->checkpoint, tensor->quantizer);

	looking->structured = true;
	if (strncmp(quantizer.scheme, "per_channel", 11) != 0)
		return;
	if (quantizer.axis < 0 || quantizer.axis >= tensor->dims) {
		say(looking, FSDP_RULE_STRUCTURED_TENSOR, tensor,
			"it is quantised along axis %lld, but has %u dimensions",
			(long long)quantizer.axis, tensor->dims);
		return;
	}
	for (uint32_t i = 0; i < tensor->component_count; i++) {
		struct fsdp_tensor part =
			fsdp_tensor(looking->checkpoint, tensor->first_component + i);
		int64_t due = tensor->shape[quantizer.axis];

		if (part.dims == 1 && part.shape[0] == due)
			continue;
		say(looking, FSDP_RULE_STRUCTURED_TENSOR, tensor,
			"there are %llu %s along axis %lld, which has size %lld",
			FSDP_LLU(part.numel), i == 0 ? "scales" : "zero points",
			(long long)quantizer.axis, (long long)due);
		return;
	}
}

/* ---- flat parameters ---- */

/* All shards have one length but the last that has anything. */
static void judge_shards(struct made_up *looking, const struct fsdp_tensor *tensor)
{
	int64_t longest = 0, sum = 0;

	for (uint32_t i = 0; i < tensor->piece_count; i++) {
		struct fsdp_piece piece =
			fsdp_piece(looking->checkpoint, tensor->first_piece + i);

		if (piece.is_run || piece.offsets == NULL || piece.dims != 1 ||
			__builtin_add_overflow(sum, piece.sizes[0], &sum))
			return;
		if (piece.sizes[0] > longest)
			longest = piece.sizes[0];
	}
	/* Gaps and overlaps have findings of their own. */
	for (uint32_t i = 0; sum == tensor->shape[0] && i < tensor->piece_count; i++) {
		struct fsdp_piece piece =
			fsdp_piece(looking->checkpoint, tensor->first_piece + i);
		int64_t begin = piece.offsets[0], size = piece.sizes[0];

		if (size == 0 ||
			(begin % longest == 0 &&
				(size == longest || begin + size == tensor->shape[0])))
			continue;
		say(looking, FSDP_RULE_FLAT_NUMEL, tensor,
			"a shard has %lld elements from %lld on, another one %lld: they should have one length",
			(long long)size, (long long)begin, (long long)longest);
		return;
	}
}

static void judge_state(struct made_up *looking, const struct fsdp_tensor *tensor)
{
	const struct fsdp_dtype *dtype = fsdp_dtype(tensor->dtype);
	const char *number = tensor->device != NULL ? strchr(tensor->device, ':') : NULL;

	if ((tensor->flags & FSDP_TENSOR_GRAD) && tensor->dtype != 0 &&
		!dtype->is_floating && !dtype->is_complex)
		say(looking, FSDP_RULE_ODD_TENSOR_STATE, tensor,
			"it requires a gradient, which %s cannot have", dtype->name);
	if (number != NULL && strlen(number) > 4 &&
		strtoul(number + 1, NULL, 10) >= DEVICES_MOST)
		say(looking, FSDP_RULE_ODD_TENSOR_STATE, tensor,
			"it was saved from the device %.64s", tensor->device);
}

/* safetensors: the framework that the header names. */
static void judge_tag(struct made_up *looking)
{
	static const char *const tags[] = { "pt", "tf", "flax", "np", "mlx", "paddle",
		"jax" };
	const struct fsdp_checkpoint *checkpoint = looking->checkpoint;

	for (uint32_t i = 0; i < fsdp_value_count(checkpoint); i++) {
		struct fsdp_value value = fsdp_value(checkpoint, i);
		char room[FSDP_SHOWN];
		bool known = false;

		if (value.token_count != 1 || value.tokens[0].kind != FSDP_TOKEN_TEXT ||
			!fsdp_span_is(fsdp_scratch_name(&looking->checking->name,
					      checkpoint, value.raw_name),
				"__metadata__.format"))
			continue;
		for (size_t k = 0; k < sizeof tags / sizeof tags[0]; k++)
			known |= fsdp_span_is(value.tokens[0].text, tags[k]);
		if (!known)
			fsdp_find(looking->checking->findings, FSDP_RULE_ODD_TENSOR_STATE,
				FSDP_PLACE(.file = value.file != FSDP_NONE
							   ? fsdp_file(checkpoint,
								     value.file)
								     .path
							   : (struct fsdp_span){ 0 }),
				"metadata format is \"%s\", which transformers refuses",
				fsdp_shown(value.tokens[0].text, room));
	}
}

static bool run(struct fsdp_checking *checking, struct fsdp_error **ret_error)
{
	struct made_up looking = { .checking = checking,
		.checkpoint = checking->checkpoint };
	bool flat = false;

	(void)ret_error;
	for (uint32_t i = 0; i < fsdp_tensor_count(checking->checkpoint); i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checking->checkpoint, i);

		looking.some = true;
		if (tensor.layout != NULL)
			judge_sparse(&looking, &tensor);
		if (tensor.quantizer != FSDP_NONE)
			judge_quantised(&looking, &tensor);
		if ((tensor.flags & FSDP_TENSOR_FLATTENED) && tensor.dims == 1) {
			flat = true;
			judge_shards(&looking, &tensor);
		}
		judge_state(&looking, &tensor);
	}
	judge_tag(&looking);
	if (!looking.structured)
		fsdp_check_skip(checking, FSDP_RULE_STRUCTURED_TENSOR, FSDP_REASON_NONE);
	if (!flat)
		fsdp_check_skip(checking, FSDP_RULE_FLAT_NUMEL, FSDP_REASON_NONE);
	if (!looking.some)
		fsdp_check_skip(checking, FSDP_RULE_ODD_TENSOR_STATE, FSDP_REASON_NONE);
	return true;
}

const struct fsdp_check fsdp_check_make_up = {
	FSDP_CHECK_RULES(FSDP_RULE_STRUCTURED_TENSOR, FSDP_RULE_FLAT_NUMEL,
		FSDP_RULE_ODD_TENSOR_STATE),
	.run = run,
};

/*
 * Checks the indices of sparse tensors when data is read: each is inside the shape, coalesced ones ascend, and row
 * pointers start with 0, never fall and end with the number of values. PyTorch checks neither on load, except
 * weights_only from 2.14 on, and later reads or writes outside of the tensor. structured.c checks whether their shapes
 * fit.
 */

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
static bool judge_coo_sparse(
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
static bool judge_compressed_sparse(
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
	return coo ? judge_coo_sparse(sparse, index, ret_error)
		   : judge_compressed_sparse(sparse, index, ret_error);
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

static bool run_sparse(struct fsdp_checking *checking, struct fsdp_error **ret_error)
{
	return checking->verify == NULL || checking->level < FSDP_LEVEL_DATA ||
	       fsdp_judge_sparse(checking, ret_error);
}

const struct fsdp_check fsdp_check_sparse = {
	FSDP_CHECK_RULES(FSDP_RULE_STRUCTURED_TENSOR),
	.run = run_sparse,
};
