/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a distributed save in the form of safetensors, which no index and no
 * metadata file joins: each rank writes its own. Reads none of them.
 *
 *	shard-SSSSS-model-IIIII-of-NNNNN.safetensors   SSSSS is the rank + 1
 *	sharded/shard-…                                if they are joined at the end:
 *	model-IIIII-of-NNNNN.safetensors               what one rank then writes,
 *	model.safetensors.index.json                   and last of all
 *
 * Where a tensor of a file lies in the whole one, the file itself says. How large the
 * whole one is, no file says: as large as its parts reach.
 *
 * Origin: torch/distributed/checkpoint/hf_storage.py (PyTorch 2.13).
 */
#include "format/format.h"

#define SHARDED "sharded"

/* Which rank's file it is. */
static bool parse(struct fsdp_span name, uint32_t *ret_rank)
{
	uint32_t numbers[3];
	if (!fsdp_pattern_takes(name, "shard-#-model-#-of-#.safetensors", numbers))
		return false;
	*ret_rank = numbers[0] - 1;
	return numbers[0] != 0;
}

static bool has_shards(const struct fsdp_folder *folder)
{
	uint32_t rank;
	for (size_t i = 0; i < folder->count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);
		if (entry.kind == FSDP_ENTRY_FILE && parse(entry.name, &rank))
			return true;
	}
	return false;
}

/* What may lie beside shards that are still to be put together. */
static bool may_be_beside(struct fsdp_span name)
{
	static const char *const ends[] = { ".json", ".jinja", ".md", ".model", ".txt" };
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	if (memmem(name.data, name.size, ".index.", 7) != NULL)
		return false;
	for (size_t i = 0; i < FSDP_COUNT(ends); i++)
		if (fsdp_span_ends(name, fsdp_span_text(ends[i])))
			return true;
	return fsdp_pattern_takes(name, "model-#-of-#.safetensors", numbers);
}

/* The shards were to become files that an index names, and there is none. */
static bool lacks_index(const struct fsdp_folder *folder)
{
	bool found = false;
	for (size_t i = 0; i < folder->count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);
		if (entry.name.data[0] == '.' && entry.kind == FSDP_ENTRY_DIRECTORY)
			continue;
		if (entry.kind == FSDP_ENTRY_DIRECTORY &&
			fsdp_span_is(entry.name, SHARDED))
			found = true;
		else if (entry.kind != FSDP_ENTRY_FILE || !may_be_beside(entry.name))
			return false;
	}
	return found;
}

static enum fsdp_sign recognise(const struct fsdp_look *look)
{
	if (look->folder == NULL)
		return FSDP_SIGN_NONE;
	return has_shards(look->folder)    ? FSDP_SIGN_SURE
	       : lacks_index(look->folder) ? FSDP_SIGN_LIKELY
					   : FSDP_SIGN_NONE;
}

/* Only the folder below tells whether it is that. */
static bool read_below(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	struct fsdp_dir dir;
	struct fsdp_folder inside;
	struct fsdp_child *child =
		fsdp_reading_add_child(reading, FSDP_SPAN(SHARDED), FSDP_NONE, ret_error);
	if (child == NULL ||
		!fsdp_folder_open_child(look->folder, child->name, reading->scratch,
			reading->limits, &dir, &inside, ret_error))
		return false;
	bool shards = has_shards(&inside);
	fsdp_dir_close(&dir);
	fsdp_reading_note(reading, "opened " SHARDED);
	if (shards)
		fsdp_find(&reading->model->findings, FSDP_RULE_UNCOMMITTED_SAVE,
			FSDP_PLACE(.file = FSDP_SPAN("model.safetensors.index.json"),
				.next = "consolidate the shards again; they can be read as they are"),
			"the shards in " SHARDED
			" were to be put together, and the index, which is written last, is not there: that failed, or is still running");
	return true;
}

static bool read(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	uint32_t rank, highest = 0;
	if (!has_shards(look->folder))
		return read_below(reading, look, ret_error);
	reading->state = reading;
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
	if (reading->state == NULL)
		return true;
	size_t names = model->names.list.count;
	uint32_t *first = FSDP_TAKE(reading->scratch, first, names);
	if (first == NULL)
		return fsdp_arena_fail(reading->scratch, ret_error);
	memset(first, 0xff, names * sizeof *first);
	for (size_t i = 0; i < model->tensors.count; i++)
		if (!widen(model, first, (uint32_t)i, ret_error))
			return false;
	for (size_t i = model->tensors.count; i-- > 0;) {
		struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
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
	.recognise = recognise,
	.read = read,
	.finish = finish,
};
