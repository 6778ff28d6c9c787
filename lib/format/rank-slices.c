/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders in which every rank of tensor parallelism has its own slices under the same
 * names, and nothing says how they were cut: each is listed as its rank's own.
 *
 *	vLLM, sglang   model-rank-R-part-P.safetensors  config.json
 *	Meta           consolidated.RR.pth              params.json
 *
 * Weights of vLLM are fused (qkv_proj, gate_up_proj) and norms are whole on each rank; a
 * rank's parts are a split of its names. Of each the names of all ranks are the same.
 *
 * Origin: vllm/model_executor/model_loader/sharded_state_loader.py, llama/generation.py;
 * a file of either.
 */
#include <stdio.h>

#include "format/format.h"
#include "syntax/json-tree.h"

enum { SLICES_MAX = 65536, PARAMS_BYTES = 1 << 20, NO_NUMBER = -1 };

static const struct slice_layout {
	const char *pattern, *beside; /* of its files; what else is there, or NULL */
	int rank, part;               /* which of the numbers; NO_NUMBER: none */
	const char *family, *title, *writer;
} slice_layouts[] = {
	{ "model-rank-#-part-#.safetensors", NULL, 0, 1, "vllm-sharded-state",
		"vLLM sharded state", "vLLM" },
	{ "consolidated.#.pth", "params.json", 0, NO_NUMBER, "meta-consolidated",
		"Meta checkpoint (consolidated)", "Meta" },
};

/* What is known of a rank. */
struct slice_rank {
	uint32_t files, highest; /* parts, and the highest number of one, plus 1 */
	uint32_t tensors;
};

struct rank_slices {
	const struct slice_layout *layout;
	const struct fsdp_folder *folder;
	struct slice_rank *ranks;
	uint32_t count; /* of them */
	size_t first_tensor;
};

static const struct slice_layout *find_layout(const struct fsdp_folder *folder)
{
	for (size_t i = 0; folder != NULL && i < FSDP_COUNT(slice_layouts); i++)
		if (fsdp_pattern_in(folder, FSDP_ENTRY_FILE, slice_layouts[i].pattern) &&
			(slice_layouts[i].beside == NULL ||
				fsdp_folder_has(folder, slice_layouts[i].beside,
					FSDP_ENTRY_FILE)))
			return &slice_layouts[i];
	return NULL;
}

static enum fsdp_sign recognise(const struct fsdp_look *look)
{
	return find_layout(look->folder) != NULL ? FSDP_SIGN_SURE : FSDP_SIGN_NONE;
}

/* ---- naming the files ---- */

static bool takes(const struct rank_slices *slices, size_t index,
	struct fsdp_entry *ret_entry, uint32_t *numbers)
{
	*ret_entry = fsdp_folder_entry(slices->folder, index);
	return ret_entry->kind == FSDP_ENTRY_FILE &&
	       fsdp_pattern_takes(ret_entry->name, slices->layout->pattern, numbers);
}

static bool count_ranks(struct rank_slices *slices, struct fsdp_arena *scratch,
	struct fsdp_error **ret_error)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	struct fsdp_entry entry;
	for (size_t i = 0; i < slices->folder->count; i++) {
		if (!takes(slices, i, &entry, numbers))
			continue;
		if (numbers[slices->layout->rank] >= SLICES_MAX)
			return fsdp_fail(ret_error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
				"the name of a file says rank %u, which is more than are read",
				numbers[slices->layout->rank]);
		if (numbers[slices->layout->rank] >= slices->count)
			slices->count = numbers[slices->layout->rank] + 1;
	}
	slices->ranks = FSDP_TAKE(scratch, slices->ranks, slices->count + 1);
	return slices->ranks != NULL || fsdp_arena_fail(scratch, ret_error);
}

static bool name_files(struct fsdp_reading *reading, struct rank_slices *slices,
	struct fsdp_error **ret_error)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	struct fsdp_entry entry;
	for (size_t i = 0; i < slices->folder->count; i++) {
		if (!takes(slices, i, &entry, numbers))
			continue;
		struct slice_rank *rank = &slices->ranks[numbers[slices->layout->rank]];
		uint32_t part = slices->layout->part != NO_NUMBER
					? numbers[slices->layout->part]
					: 0;
		rank->files++;
		if (part >= rank->highest)
			rank->highest = part + 1;
		if (fsdp_reading_add_child(reading, entry.name,
			    numbers[slices->layout->rank], ret_error) == NULL)
			return false;
	}
	return fsdp_reading_order_children(reading, 0, ret_error);
}

static bool read(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	struct rank_slices *slices = FSDP_TAKE(reading->scratch, slices, 1);
	if (slices == NULL)
		return fsdp_arena_fail(reading->scratch, ret_error);
	slices->layout = find_layout(look->folder);
	slices->folder = look->folder;
	slices->first_tensor = reading->model->tensors.count;
	reading->state = slices;
	reading->model->is_set = true;
	return count_ranks(slices, reading->scratch, ret_error) &&
	       name_files(reading, slices, ret_error);
}

/* ---- judging them ---- */

static void count_tensors(struct fsdp_model *model, struct rank_slices *slices)
{
	for (size_t i = slices->first_tensor; i < model->tensors.count; i++) {
		struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
		if (tensor->flags & FSDP_TENSOR_COMPONENT)
			continue;
		tensor->flags |= FSDP_TENSOR_RANKS_OWN;
		if (tensor->piece_count == 0)
			continue;
		uint32_t rank = fsdp_model_piece(model, tensor->first_piece)->rank;
		if (rank < slices->count)
			slices->ranks[rank].tensors++;
	}
}

/* The last part of a rank leaves no gap in the numbers, but its names are gone. */
static void judge_rank(struct fsdp_findings *findings, const struct rank_slices *slices,
	uint32_t index, uint32_t most)
{
	const struct slice_rank *rank = &slices->ranks[index];
	if (rank->files == 0)
		fsdp_find(findings, FSDP_RULE_RANK_MISSING, FSDP_PLACE(.rank = index),
			"no file of rank %u is there, of at least %u ranks", index,
			slices->count);
	else if (rank->files < rank->highest || rank->tensors < most)
		fsdp_find(findings, FSDP_RULE_RANK_MISSING, FSDP_PLACE(.rank = index),
			"rank %u has %u tensors in %u files, another rank %u tensors: a part of it is not there",
			index, rank->tensors, rank->files, most);
}

static void judge_ranks(struct fsdp_reading *reading, const struct rank_slices *slices)
{
	uint32_t most = 0;
	for (uint32_t i = 0; i < slices->count; i++)
		if (slices->ranks[i].tensors > most)
			most = slices->ranks[i].tensors;
	for (uint32_t i = 0; i < slices->count && !reading->named; i++)
		judge_rank(&reading->model->findings, slices, i, most);
}

/* What params.json says of the model, as values. */
static bool read_params(struct fsdp_reading *reading, const struct fsdp_folder *folder,
	struct fsdp_error **ret_error)
{
	static const char name[] = "params.json";
	struct fsdp_source source;
	struct fsdp_span bytes;
	struct fsdp_error *error = NULL;
	const struct fsdp_json *root = NULL;
	char text[128];
	if (!fsdp_folder_has(folder, name, FSDP_ENTRY_FILE))
		return true;
	if (!fsdp_folder_source(folder, FSDP_SPAN("params.json"), &source, &error) ||
		source.size > PARAMS_BYTES ||
		!fsdp_source_read_all(
			&source, 0, source.size, reading->scratch, &bytes, &error) ||
		!fsdp_json_read(bytes, reading->limits, reading->scratch, &root, &error))
		root = NULL;
	fsdp_error_free(error);
	if (root == NULL)
		fsdp_find(&reading->model->findings, FSDP_RULE_METADATA_INCONSISTENT,
			FSDP_PLACE(.file = fsdp_span_text(name)),
			"the sizes of the model cannot be read");
	for (uint32_t i = 0; fsdp_json_is(root, FSDP_JSON_OBJECT) && i < root->count;
		i++) {
		const struct fsdp_json *item = &root->items[i];
		if (item->kind != FSDP_JSON_INTEGER || item->key.size > 64)
			continue;
		int size =
			snprintf(text, sizeof text, "params.%.*s", FSDP_TEXT(item->key));
		struct fsdp_span key = fsdp_build_span(
			reading->model, fsdp_span(text, (size_t)size), ret_error);
		if (key.data == NULL || !fsdp_build_integer(reading->model, key,
						FSDP_NONE, item->integer, ret_error))
			return false;
	}
	return true;
}

static bool finish(struct fsdp_reading *reading, struct fsdp_error **ret_error)
{
	struct rank_slices *slices = reading->state;
	struct fsdp_model *model = reading->model;
	count_tensors(model, slices);
	judge_ranks(reading, slices);
	model->world_size = slices->count;
	model->is_split = true;
	if (!fsdp_hf_config(reading, slices->folder, ret_error) ||
		!read_params(reading, slices->folder, ret_error))
		return false;
	model->format = (struct fsdp_format){
		.family = slices->layout->family,
		.title = slices->layout->title,
		.writer = slices->layout->writer,
	};
	fsdp_reading_note(reading,
		"each rank has slices of its own, and nothing says how they were cut: they are listed one by one");
	return true;
}

const struct fsdp_family fsdp_family_slices = {
	.name = "slices",
	.title = "slices of tensor-parallel ranks",
	.recognise = recognise,
	.read = read,
	.finish = finish,
};
