/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows the files of a distributed save in the form of safetensors, which no index and no
 * metadata file joins: every rank writes its own. Reads none of them.
 *
 *	shard-SSSSS-model-IIIII-of-NNNNN.safetensors   SSSSS is the rank + 1
 *
 * Where a tensor of a file lies in the whole one, the file itself says; how large the
 * whole one is, nobody does: as large as its parts reach.
 *
 * Origin: torch/distributed/checkpoint/hf_storage.py (PyTorch 2.13).
 */
#include "format/format.h"

/* Which rank's file it is. */
static bool parse(struct fsdp_span name, uint32_t *ret_rank)
{
	uint32_t numbers[3];
	if (!fsdp_pattern_takes(name, "shard-#-model-#-of-#.safetensors", numbers))
		return false;
	*ret_rank = numbers[0] - 1;
	return numbers[0] != 0;
}

static int bid(const struct fsdp_look *look)
{
	uint32_t rank;
	for (size_t i = 0; look->folder != NULL && i < look->folder->count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(look->folder, i);
		if (entry.kind == FSDP_ENTRY_FILE && parse(entry.name, &rank))
			return 65;
	}
	return 0;
}

static bool read(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	uint32_t rank, highest = 0;
	for (size_t i = 0; i < look->folder->count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(look->folder, i);
		if (entry.kind != FSDP_ENTRY_FILE || !parse(entry.name, &rank))
			continue;
		if (fsdp_reading_add_child(reading, entry.name, rank, ret_error) == NULL)
			return false;
		if (rank > highest)
			highest = rank;
	}
	reading->model->is_set = true;
	reading->model->world_size = highest + 1;
	return true;
}

/* The largest reach of all parts of a name, in each dimension. */
static bool widen(struct fsdp_model *model, uint32_t *first, uint32_t index,
	struct fsdp_error **ret_error)
{
	struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, index);
	uint32_t known = first[tensor->raw_name];
	int64_t shape[FSDP_DIMS_MAX];
	first[tensor->raw_name] = index;
	if (known == FSDP_NONE || tensor->dims == 0)
		return true;
	const struct fsdp_tensor_record *before = fsdp_model_tensor(model, known);
	const int64_t *own = fsdp_model_ints(model, tensor->shape);
	const int64_t *other = fsdp_model_ints(model, before->shape);
	if (before->dims != tensor->dims ||
		memcmp(own, other, tensor->dims * sizeof *own) == 0)
		return true;
	for (size_t i = 0; i < tensor->dims; i++)
		shape[i] = own[i] > other[i] ? own[i] : other[i];
	tensor->shape = fsdp_build_ints(model, shape, tensor->dims, ret_error);
	return tensor->shape != FSDP_NONE;
}

/* Up the list each tensor becomes as large as those before it, and down the list as
 * large as the last. */
static bool finish(struct fsdp_reading *reading, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = reading->model;
	size_t names = model->names.list.count;
	uint32_t *first = fsdp_arena_take(reading->scratch, names * sizeof *first, 4);
	if (first == NULL)
		return fsdp_arena_fail(reading->scratch, ret_error);
	memset(first, 0xff, names * sizeof *first);
	for (size_t i = 0; i < model->tensors.count; i++)
		if (!widen(model, first, (uint32_t)i, ret_error))
			return false;
	for (size_t i = model->tensors.count; i-- > 0;) {
		struct fsdp_tensor_record *tensor = fsdp_vec_at(&model->tensors, i);
		const struct fsdp_tensor_record *last =
			fsdp_model_tensor(model, first[tensor->raw_name]);
		if (last->dims == tensor->dims)
			tensor->shape = last->shape;
	}
	model->format = (struct fsdp_format){
		.family = fsdp_family_dcp_safetensors.name,
		.title = fsdp_family_dcp_safetensors.title,
		.writer = "torch.distributed.checkpoint",
	};
	return true;
}

const struct fsdp_family fsdp_family_dcp_safetensors = {
	.name = "dcp-safetensors",
	.title = "PyTorch distributed checkpoint as safetensors",
	.bid = bid,
	.read = read,
	.finish = finish,
};
