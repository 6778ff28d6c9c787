/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether tensors that are made of others fit together, whether shards of a FlatParameter
 * have one length, and whether a tensor is in a state that loaders may not expect.
 *
 *	sparse      indices and values have one number of elements; pointers are one more
 *	            than rows (or columns) of blocks
 *	quantised   a scale and a zero point for each index along the axis
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "analysis/checks/checking.h"

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
