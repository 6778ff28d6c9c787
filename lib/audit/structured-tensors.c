/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether tensors that are made of others fit together, whether shards of a FlatParameter
 * have one length, and whether a tensor is in a state that loaders may not expect.
 *
 *	sparse      indices and values have one number of elements; pointers are one more
 *	            than rows (or columns) of blocks
 *	quantized   a scale and a zero point for each index along the axis
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/elements.h>

#include "audit/checking.h"
#include "aggregate/aggregate.h"

enum { DEVICES_MOST = 1024 };

/* A finding about a tensor that is made of others. */
#define REPORT(checking, tensor, ...)                            \
	fsdp_check_report(checking, FSDP_RULE_STRUCTURED_TENSOR, \
		fsdp_check_name(checking, (tensor)->name), __VA_ARGS__)

/* ---- shapes of parts ---- */

static int64_t last_size(const struct fsdp_tensor *tensor)
{
	return tensor->dims > 0 ? tensor->shape[tensor->dims - 1] : -1;
}

/* A sparse layout with all of its parts; false: another one, or not. */
static bool read_parts(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_tensor *tensor, struct fsdp_tensor parts[3])
{
	uint32_t count = strcmp(tensor->layout, "sparse_coo") == 0 ? 2 : 3;
	if (strncmp(tensor->layout, "sparse_", 7) != 0 ||
		tensor->component_count != count)
		return false;
	for (uint32_t i = 0; i < count; i++)
		parts[i] = fsdp_tensor(checkpoint, tensor->first_component + i);
	return true;
}

/* Whether pointers are those of rows, and values are blocks. */
static bool has_rows(const struct fsdp_tensor *tensor)
{
	return strcmp(tensor->layout, "sparse_csr") == 0 ||
	       strcmp(tensor->layout, "sparse_bsr") == 0;
}

static bool has_blocks(const struct fsdp_tensor *tensor)
{
	return strncmp(tensor->layout, "sparse_bs", 9) == 0;
}

/* indices: [sparse dimensions, n]; values: [n, dense dimensions …]. */
static void check_coo(struct fsdp_checking *checking, const struct fsdp_tensor *tensor,
	const struct fsdp_tensor *indices, const struct fsdp_tensor *values)
{
	uint32_t sparse, dense;
	if (indices->dims != 2 || values->dims == 0) {
		REPORT(checking, tensor,
			"indices have %u dimensions (expected 2), values have %u (expected at least 1)",
			indices->dims, values->dims);
		return;
	}
	sparse = (uint32_t)indices->shape[0];
	dense = values->dims - 1;
	if (indices->shape[1] != values->shape[0])
		REPORT(checking, tensor, "%lld indices for %lld values",
			(long long)indices->shape[1], (long long)values->shape[0]);
	else if (indices->shape[0] < 0 || indices->shape[0] > tensor->dims ||
		 sparse + dense != tensor->dims)
		REPORT(checking, tensor,
			"%lld indexed dimensions and %u of values, but the tensor has %u",
			(long long)indices->shape[0], dense, tensor->dims);
	else
		for (uint32_t i = 0; i < dense; i++)
			if (values->shape[1 + i] != tensor->shape[sparse + i]) {
				REPORT(checking, tensor,
					"dimension %u of the values has size %lld, the tensor has %lld there",
					1 + i, (long long)values->shape[1 + i],
					(long long)tensor->shape[sparse + i]);
				return;
			}
}

/* pointers: [batch …, rows of blocks + 1]; indices and values: [batch …, n, block …]. */
static void check_compressed(struct fsdp_checking *checking,
	const struct fsdp_tensor *tensor, const struct fsdp_tensor parts[3])
{
	bool rows = has_rows(tensor), blocks = has_blocks(tensor);
	uint32_t batch = parts[0].dims - 1, along = batch + !rows;
	int64_t block = 1;
	if (parts[0].dims == 0 || parts[1].dims != parts[0].dims ||
		parts[2].dims < parts[0].dims + (blocks ? 2 : 0) ||
		tensor->dims < batch + 2) {
		REPORT(checking, tensor,
			"the parts have %u, %u and %u dimensions, which do not fit the %u of the tensor",
			parts[0].dims, parts[1].dims, parts[2].dims, tensor->dims);
		return;
	}
	if (blocks)
		block = parts[2].shape[parts[0].dims + !rows];
	if (parts[2].shape[batch] != last_size(&parts[1]))
		REPORT(checking, tensor, "%lld indices for %lld values",
			(long long)last_size(&parts[1]),
			(long long)parts[2].shape[batch]);
	if (block < 1)
		REPORT(checking, tensor, "its blocks have no %s",
			rows ? "rows" : "columns");
	else if (last_size(&parts[0]) != tensor->shape[along] / block + 1)
		REPORT(checking, tensor, "%lld pointers, but %lld %s",
			(long long)last_size(&parts[0]),
			(long long)(tensor->shape[along] / block),
			rows ? "rows" : "columns");
}

static void check_quantized(
	struct fsdp_checking *checking, const struct fsdp_tensor *tensor)
{
	struct fsdp_quantizer quantizer =
		fsdp_quantizer(checking->checkpoint, tensor->quantizer);
	if (strncmp(quantizer.scheme, "per_channel", 11) != 0)
		return;
	if (quantizer.axis < 0 || quantizer.axis >= tensor->dims) {
		REPORT(checking, tensor,
			"tensor is quantized along axis %lld, but has %u dimensions",
			(long long)quantizer.axis, tensor->dims);
		return;
	}
	FSDP_EACH(i, tensor->component_count, part,
		fsdp_tensor(checking->checkpoint, tensor->first_component + i)) {
		int64_t due = tensor->shape[quantizer.axis];

		if (part.dims == 1 && part.shape[0] == due)
			continue;
		REPORT(checking, tensor, "%llu %s along axis %lld, which has size %lld",
			FSDP_LLU(part.numel), i == 0 ? "scales" : "zero points",
			(long long)quantizer.axis, (long long)due);
		return;
	}
}

/* ---- flat parameters, and states ---- */

/* All shards have one length but the last that has anything. */
static void check_shards(struct fsdp_checking *checking, const struct fsdp_tensor *tensor)
{
	int64_t longest = 0, sum = 0;
	FSDP_EACH(i, tensor->piece_count, piece,
		fsdp_piece(checking->checkpoint, tensor->first_piece + i)) {
		if (piece.is_run || piece.offsets == NULL || piece.dims != 1 ||
			__builtin_add_overflow(sum, piece.sizes[0], &sum))
			return;
		if (piece.sizes[0] > longest)
			longest = piece.sizes[0];
	}
	/* Gaps and overlaps have findings of their own. */
	for (uint32_t i = 0; sum == tensor->shape[0] && i < tensor->piece_count; i++) {
		struct fsdp_piece piece =
			fsdp_piece(checking->checkpoint, tensor->first_piece + i);
		int64_t begin = piece.offsets[0], size = piece.sizes[0];
		if (size == 0 ||
			(begin % longest == 0 &&
				(size == longest || begin + size == tensor->shape[0])))
			continue;
		fsdp_check_report(checking, FSDP_RULE_FLAT_NUMEL,
			fsdp_check_name(checking, tensor->name),
			"a shard has %lld elements from %lld on, another one %lld: they should have one length",
			(long long)size, (long long)begin, (long long)longest);
		return;
	}
}

static void check_state(struct fsdp_checking *checking, const struct fsdp_tensor *tensor)
{
	const struct fsdp_dtype *dtype = fsdp_dtype(tensor->dtype);
	const char *number = tensor->device != NULL ? strchr(tensor->device, ':') : NULL;
	if ((tensor->flags & FSDP_TENSOR_GRAD) && tensor->dtype != 0 &&
		!dtype->is_floating && !dtype->is_complex)
		fsdp_check_report(checking, FSDP_RULE_ODD_TENSOR_STATE,
			fsdp_check_name(checking, tensor->name),
			"tensor requires a gradient, which %s cannot have", dtype->name);
	if (number != NULL && strlen(number) > 4 &&
		strtoul(number + 1, NULL, 10) >= DEVICES_MOST)
		fsdp_check_report(checking, FSDP_RULE_ODD_TENSOR_STATE,
			fsdp_check_name(checking, tensor->name),
			"tensor was saved from device %.64s", tensor->device);
}

/* safetensors: the framework that the header names. */
static void check_tag(struct fsdp_checking *checking)
{
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	for (uint32_t i = 0; i < fsdp_value_count(checkpoint); i++) {
		struct fsdp_value value = fsdp_value(checkpoint, i);
		struct fsdp_span file = { 0 };
		char room[FSDP_SHOWN];
		if (value.token_count != 1 || value.tokens[0].kind != FSDP_TOKEN_TEXT ||
			!fsdp_span_is(fsdp_check_name(checking, value.raw_name),
				"__metadata__.format") ||
			fsdp_span_is_any(
				value.tokens[0].text, "pt tf flax np mlx paddle jax"))
			continue;
		if (value.file != FSDP_NONE)
			file = fsdp_file(checkpoint, value.file).path;
		fsdp_find(checking->findings, FSDP_RULE_ODD_TENSOR_STATE,
			FSDP_PLACE(.file = file),
			"metadata format is '%s': transformers refuses it",
			fsdp_shown(value.tokens[0].text, room));
	}
}

static void check_tensors(struct fsdp_checking *checking)
{
	size_t count = fsdp_tensor_count(checking->checkpoint);
	bool is_structured = false, is_flat = false;
	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checking->checkpoint, i),
				   parts[3];
		if (tensor.layout != NULL &&
			read_parts(checking->checkpoint, &tensor, parts)) {
			is_structured = true;
			if (tensor.component_count == 2)
				check_coo(checking, &tensor, &parts[0], &parts[1]);
			else
				check_compressed(checking, &tensor, parts);
		}
		if (tensor.quantizer != FSDP_NONE) {
			is_structured = true;
			check_quantized(checking, &tensor);
		}
		if ((tensor.flags & FSDP_TENSOR_FLATTENED) && tensor.dims == 1) {
			is_flat = true;
			check_shards(checking, &tensor);
		}
		check_state(checking, &tensor);
	}
	check_tag(checking);
	if (!is_structured)
		fsdp_check_skip(checking, FSDP_RULE_STRUCTURED_TENSOR, FSDP_REASON_NONE);
	if (!is_flat)
		fsdp_check_skip(checking, FSDP_RULE_FLAT_NUMEL, FSDP_REASON_NONE);
	if (count == 0)
		fsdp_check_skip(checking, FSDP_RULE_ODD_TENSOR_STATE, FSDP_REASON_NONE);
}

const struct fsdp_check fsdp_check_make_up = {
	FSDP_CHECK_RULES(FSDP_RULE_STRUCTURED_TENSOR, FSDP_RULE_FLAT_NUMEL,
		FSDP_RULE_ODD_TENSOR_STATE),
	.run = check_tensors,
};

/*
 * ---- indices of sparse tensors, when data is read ----
 *
 * Each index is inside the shape, coalesced ones ascend, and row pointers start with 0,
 * never fall and end with the number of values. PyTorch checks neither on load, except
 * weights_only from 2.14 on, and later reads or writes outside of the tensor.
 */

struct sparse {
	struct fsdp_checking *checking;
	struct fsdp_locator *locator;
	struct fsdp_repeats *repeats;
	bool skipped, unreadable;
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
static const char *check_number(struct numbers *numbers, int64_t number)
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

/* Reads the numbers of a part: checks each, or copies them to `copies`. Only the first
 * fault of a part is reported: true if there is one. What cannot be read is not checked;
 * other rules report the damage. */
static bool read_part(struct sparse *sparse, const struct fsdp_tensor *tensor,
	uint32_t part, struct numbers *numbers, unsigned char *copies)
{
	struct fsdp_tensor own = fsdp_tensor(sparse->checking->checkpoint, part);
	size_t width = fsdp_dtype(own.dtype)->storage_bytes;
	struct fsdp_elements *elements = NULL;
	struct fsdp_span bytes = { NULL, 1 };
	struct fsdp_error *error = NULL;
	const char *why = NULL;
	bool good = fsdp_elements_open(sparse->locator, part, NULL, &elements, &error);
	while (good && bytes.size > 0 && why == NULL) {
		good = fsdp_elements_next(elements, &bytes, &error);
		if (good && copies != NULL && bytes.size > 0) {
			memcpy(copies, bytes.data, bytes.size);
			copies += bytes.size;
			continue;
		}
		for (size_t i = 0; good && i < bytes.size && why == NULL; i += width)
			why = check_number(numbers, number_at(bytes.data + i, width));
	}
	fsdp_elements_close(elements);
	if (why != NULL)
		REPORT(sparse->checking, tensor,
			"%s %" PRIu64 " is %" PRId64 ", which %s", numbers->what,
			numbers->at - 1, numbers->before, why);
	sparse->unreadable |= !good;
	sparse->checking->no_memory |=
		!good && fsdp_error_code(error) == FSDP_ERROR_MEMORY;
	fsdp_error_free(error);
	return why != NULL;
}

/* Whether a part may be read: of integers, and not read too often already. */
static bool may_read(struct sparse *sparse, uint32_t part, bool narrow)
{
	struct fsdp_tensor own = fsdp_tensor(sparse->checking->checkpoint, part);
	const char *dtype = fsdp_dtype(own.dtype)->name;
	if (own.numel == 0 ||
		(strcmp(dtype, "int64") != 0 && (!narrow || strcmp(dtype, "int32") != 0)))
		return false;
	if (fsdp_repeats_take(sparse->repeats, part, own.bytes, NULL))
		return true;
	sparse->skipped = true;
	return false;
}

static bool check_part(struct sparse *sparse, const struct fsdp_tensor *tensor,
	uint32_t part, struct numbers numbers)
{
	return numbers.run != 0 && numbers.limit_count != 0 &&
	       may_read(sparse, part, true) &&
	       read_part(sparse, tensor, part, &numbers, NULL);
}

/* Of a tensor that is marked as coalesced, in order and each only once. */
static void check_order(
	struct sparse *sparse, const struct fsdp_tensor *tensor, uint32_t part)
{
	struct fsdp_checking *checking = sparse->checking;
	struct fsdp_tensor indices = fsdp_tensor(checking->checkpoint, part);
	bool was_unreadable = sparse->unreadable;
	int64_t *all, disorder;
	if (!may_read(sparse, part, false))
		return;
	all = FSDP_CHECK_TAKE(checking, all, indices.numel);
	if (all == NULL)
		return;
	sparse->unreadable = false;
	read_part(sparse, tensor, part, NULL, (unsigned char *)all);
	if (!sparse->unreadable) {
		disorder = find_disorder(all, indices.shape[0], indices.shape[1]);
		if (disorder != 0)
			REPORT(checking, tensor,
				"marked as coalesced, but the indices of element %" PRId64
				" are not in ascending order",
				disorder);
	}
	sparse->unreadable |= was_unreadable;
}

/* indices: [sparse dimensions, n]; each row has its own limit. */
static void check_coo_indices(struct sparse *sparse, const struct fsdp_tensor *tensor,
	const struct fsdp_tensor *indices)
{
	if (indices->dims != 2 || indices->shape[0] > tensor->dims)
		return;
	if (!check_part(sparse, tensor, tensor->first_component,
		    (struct numbers){ .what = "index",
			    .limits = tensor->shape,
			    .limit_count = (uint64_t)indices->shape[0],
			    .run = (uint64_t)indices->shape[1] }) &&
		(tensor->flags & FSDP_TENSOR_COALESCED) != 0)
		check_order(sparse, tensor, tensor->first_component);
}

/* pointers: [batch …, rows of blocks + 1]; indices: [batch …, n]. */
static void check_compressed_indices(struct sparse *sparse,
	const struct fsdp_tensor *tensor, const struct fsdp_tensor parts[3])
{
	const struct fsdp_tensor *pointers = &parts[0], *indices = &parts[1],
				 *values = &parts[2];
	bool rows = has_rows(tensor), blocks = has_blocks(tensor);
	uint32_t batch = pointers->dims - 1, across = batch + rows;
	int64_t block = 1, last, columns;
	if (pointers->dims == 0 || indices->dims != pointers->dims ||
		tensor->dims < batch + 2 || values->dims < indices->dims + 2 * blocks)
		return;
	if (blocks)
		block = values->shape[indices->dims + rows];
	if (block <= 0 || indices->shape[batch] < 0)
		return;
	last = indices->shape[batch] + 1;
	columns = tensor->shape[across] / block;
	check_part(sparse, tensor, tensor->first_component,
		(struct numbers){ .what = rows ? "row pointer" : "column pointer",
			.limits = &last,
			.limit_count = 1,
			.run = (uint64_t)pointers->shape[batch],
			.are_pointers = true });
	check_part(sparse, tensor, tensor->first_component + 1,
		(struct numbers){ .what = rows ? "column index" : "row index",
			.limits = &columns,
			.limit_count = 1,
			.run = (uint64_t)indices->shape[batch] });
}

void fsdp_check_indices(struct fsdp_checking *checking)
{
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	struct sparse sparse = { .checking = checking };
	size_t count = fsdp_tensor_count(checkpoint);
	checking->failed =
		!fsdp_repeats_new(checkpoint, &sparse.repeats, checking->ret_error);
	for (uint32_t i = 0; i < count && !checking->failed && !checking->no_memory;
		i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i), parts[3];

		if (tensor.layout == NULL || !read_parts(checkpoint, &tensor, parts))
			continue;
		if (sparse.locator == NULL)
			checking->failed = !fsdp_locator_new(
				checkpoint, &sparse.locator, checking->ret_error);
		if (checking->failed)
			break;
		if (tensor.component_count == 2)
			check_coo_indices(&sparse, &tensor, &parts[0]);
		else
			check_compressed_indices(&sparse, &tensor, parts);
	}
	fsdp_repeats_free(sparse.repeats);
	fsdp_locator_free(sparse.locator);
	if (sparse.skipped || sparse.unreadable)
		fsdp_check_skip(checking, FSDP_RULE_STRUCTURED_TENSOR,
			sparse.unreadable ? FSDP_REASON_UNREADABLE : FSDP_REASON_LIMIT);
}

static void check_sparse(struct fsdp_checking *checking)
{
	if (checking->verify != NULL && checking->level >= FSDP_LEVEL_DATA)
		fsdp_check_indices(checking);
}

const struct fsdp_check fsdp_check_sparse = {
	FSDP_CHECK_RULES(FSDP_RULE_STRUCTURED_TENSOR),
	.run = check_sparse,
};
