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
 * Files of the last ranks leave no gap: two matrices of a rank, which the configuration
 * has whole, are cut over as many ranks as there were.
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

/* What a configuration has of a model. */
enum model_size { WIDTH, HEADS, HEAD, INNER, SIZES };

static const struct {
	const char *key;
	enum model_size size;
} size_keys[] = {
	{ "dim", WIDTH },
	{ "hidden_size", WIDTH },
	{ "n_heads", HEADS },
	{ "num_attention_heads", HEADS },
	{ "head_dim", HEAD },
	{ "intermediate_size", INNER },
};

/* Matrices that ranks cut along `cut`; the other side is as wide as the model. */
static const struct {
	const char *name;
	int cut;
	bool is_inner; /* cut is INNER, else all heads */
} cut_matrices[] = {
	{ ".attention.wq.weight", 0, false },
	{ ".attention.wo.weight", 1, false },
	{ ".self_attn.o_proj.weight", 1, false },
	{ ".mlp.down_proj.weight", 1, true },
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
	int64_t sizes[SIZES]; /* 0: absent */
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

static void keep_size(struct rank_slices *slices, struct fsdp_span key, int64_t value)
{
	for (size_t i = 0; i < FSDP_COUNT(size_keys); i++)
		if (fsdp_span_is(key, size_keys[i].key) && value > 0 && value < INT32_MAX)
			slices->sizes[size_keys[i].size] = value;
}

/* Of the members of config.json. */
static void keep_settings(struct fsdp_model *model, struct rank_slices *slices)
{
	uint32_t end = model->settings.count != 0 ? fsdp_model_setting(model, 0)->end : 0;
	for (uint32_t i = 1; i < end; i = fsdp_model_setting(model, i)->end) {
		const struct fsdp_setting *setting = fsdp_model_setting(model, i);
		if (setting->value.kind == FSDP_TOKEN_INTEGER)
			keep_size(slices, setting->key, setting->value.integer);
	}
}

/* Over how many ranks a matrix is cut; 0: it is none of them, or its sides are others. */
static uint64_t ranks_of(const struct fsdp_model *model, const struct rank_slices *slices,
	const struct fsdp_tensor_record *tensor, size_t matrix)
{
	const int64_t *sizes = slices->sizes;
	const int64_t *shape = fsdp_model_ints(model, tensor->shape);
	int64_t heads = sizes[HEAD] != 0 ? sizes[HEADS] * sizes[HEAD] : sizes[WIDTH];
	int64_t whole = cut_matrices[matrix].is_inner ? sizes[INNER] : heads;
	int cut = cut_matrices[matrix].cut;
	return tensor->dims == 2 && shape != NULL && shape[!cut] == sizes[WIDTH] &&
			       shape[cut] > 0 && whole % shape[cut] == 0
		       ? (uint64_t)(whole / shape[cut])
		       : 0;
}

/* Both matrices of a rank have to say the same. */
static bool judge_last_ranks(struct fsdp_reading *reading, struct rank_slices *slices,
	struct fsdp_error **ret_error)
{
	struct fsdp_model *model = reading->model;
	uint64_t told[FSDP_COUNT(cut_matrices)] = { 0 }, ranks = 0;
	unsigned agreed = 0;
	for (size_t i = slices->first_tensor; i < model->tensors.count && agreed < 2;
		i++) {
		const struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
		if (tensor->dims != 2)
			continue;
		struct fsdp_span name =
			fsdp_model_name(model, tensor->raw_name, reading->scratch);
		if (name.data == NULL)
			return fsdp_arena_fail(reading->scratch, ret_error);
		for (size_t k = 0; k < FSDP_COUNT(cut_matrices); k++) {
			if (told[k] != 0 || !fsdp_span_ends(name,
						    fsdp_span_text(cut_matrices[k].name)))
				continue;
			told[k] = ranks_of(model, slices, tensor, k);
			if (told[k] == 0 || (agreed != 0 && told[k] != ranks))
				return true;
			ranks = told[k];
			agreed++;
		}
	}
	if (agreed < 2 || ranks <= slices->count)
		return true;
	model->world_size = (uint32_t)ranks;
	if (!reading->named)
		fsdp_find(&model->findings, FSDP_RULE_RANK_MISSING,
			FSDP_PLACE(.rank = slices->count),
			ranks == slices->count + 1
				? "no file of rank %u is there: by the configuration the matrices of a rank are 1/%llu of the model's"
				: "no files of rank %u and the ranks after it are there: by the configuration the matrices of a rank are 1/%llu of the model's",
			slices->count, FSDP_LLU(ranks));
	return true;
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
		keep_size(reading->state, item->key, item->integer);
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
	keep_settings(model, slices);
	if (!judge_last_ranks(reading, slices, ret_error))
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
