/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Megatron-LM's files before distributed checkpoints: one per tensor-
 * and pipeline-parallel rank, whose tensors are slices under one name. Adds the files as
 * children, and joins their tensors.
 *
 *	iter_<n>/mp_rank_<tp>[_<pp>][_<ep>]/model_optim_rng.pt
 *		args        a Namespace: the only record of how many ranks there are
 *		model       names; layers count from 0 in every pipeline stage, local
 *		            experts in every rank of expert parallelism
 *		model<i>    instead, where a stage has several parts of the model: the
 *		            first parts of all stages are before the second ones
 *		iteration, checkpoint_version, optimizer, rng_state …
 *
 * The dimension of a slice is not stored: its module's name determines it.
 * Halves of a gated linear_fc1 were cut each for itself. What the optimizer keeps counts
 * parameters and does not name them: it stays each rank's own.
 *
 * Origin: megatron/training/checkpointing.py, megatron/core/tensor_parallel.
 */
#include <stdio.h>

#include "base/num.h"
#include "formats/format.h"

#define FILE_NAME "model_optim_rng.pt"
#define OPTIM_NAME "distrib_optim.pt" /* --use-distributed-optimizer */

enum { STAGES_MAX = 1 << 12, LAYER_MAX = 1 << 18, CHUNKS_MAX = 256 };

struct rank_file {
	uint32_t tp, pp, ep;
	uint32_t first, end; /* its tensors */
};

struct megatron {
	struct fsdp_model *model;
	struct fsdp_arena *scratch;
	uint32_t tp_size, pp_size, ep_size;
	uint32_t chunks; /* parts of the model that a stage has */
	bool is_gated;
	uint32_t *layers; /* by part and stage: number of earlier layers */
	uint32_t experts; /* of one rank */
};

/* ---- names of directories ---- */

/* Numbers beyond the first: of a stage, of a rank of expert parallelism, or both. */
static bool takes_folder(struct fsdp_span name, uint32_t *ret_numbers)
{
	static const char *const patterns[] = { "mp_rank_#", "mp_rank_#_#",
		"mp_rank_#_#_#" };
	for (size_t i = 0; i < FSDP_COUNT(patterns); i++) {
		memset(ret_numbers, 0, FSDP_PATTERN_NUMBERS * sizeof *ret_numbers);
		if (fsdp_pattern_takes(name, patterns[i], ret_numbers))
			return true;
	}
	return false;
}

static enum fsdp_sign recognize(const struct fsdp_look *look)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	if (look->folder == NULL)
		return FSDP_SIGN_NONE;
	FSDP_EACH(i, look->folder->count, entry, fsdp_folder_entry(look->folder, i))
		if (entry.kind == FSDP_ENTRY_DIRECTORY &&
			takes_folder(entry.name, numbers))
			return FSDP_SIGN_SURE;
	return FSDP_SIGN_NONE;
}

static struct fsdp_child *add_child(struct fsdp_reading *reading, struct fsdp_span folder,
	const char *name, uint32_t rank)
{
	size_t size = folder.size + strlen(name) + sizeof "/";
	char *path = fsdp_arena_take(reading->model->arena, size, 1);
	snprintf(path, size, "%.*s/%s", FSDP_TEXT(folder), name);
	return fsdp_reading_add_child(reading, fsdp_span(path, size - 1), rank);
}

/* Files of the first data-parallel rank next to a rank's file: buffers that are not
 * joined with those of other ranks. */
static void add_optimizers(struct fsdp_reading *reading, const struct fsdp_folder *folder)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	FSDP_EACH(i, folder->count, entry, fsdp_folder_entry(folder, i)) {
		struct fsdp_folder below;
		struct fsdp_child *child;
		struct fsdp_dir dir;
		if (entry.kind != FSDP_ENTRY_DIRECTORY ||
			!takes_folder(entry.name, numbers) ||
			!fsdp_folder_open_child(folder, entry.name, reading->scratch,
				reading->limits, &dir, &below, NULL))
			continue;
		bool has = fsdp_folder_has(&below, OPTIM_NAME, FSDP_ENTRY_FILE);
		fsdp_dir_close(&dir);
		if (!has)
			continue;
		child = add_child(reading, entry.name, OPTIM_NAME, FSDP_NONE);
		child->role = FSDP_ROLE_OPTIM;
		child->below = entry.name;
	}
}

static bool read(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS], tp_size = 1, last_size = 1;
	(void)ret_error;
	for (size_t i = 0; i < look->folder->count; i++) {
		if (!takes_folder(fsdp_folder_entry(look->folder, i).name, numbers))
			continue;
		if (numbers[0] >= tp_size)
			tp_size = numbers[0] + 1;
		if (numbers[2] >= last_size)
			last_size = numbers[2] + 1;
	}
	FSDP_EACH(i, look->folder->count, entry, fsdp_folder_entry(look->folder, i)) {
		if (entry.kind != FSDP_ENTRY_DIRECTORY ||
			!takes_folder(entry.name, numbers))
			continue;
		uint64_t above = (uint64_t)numbers[1] * last_size + numbers[2], rank;
		if (!fsdp_mul(above, tp_size, &rank) ||
			!fsdp_add(rank, numbers[0], &rank) || rank >= FSDP_PATTERN_MAX)
			rank = FSDP_NONE;
		add_child(reading, entry.name, FILE_NAME, (uint32_t)rank);
	}
	reading->model->is_set = true;
	fsdp_reading_order_children(reading, 0);
	add_optimizers(reading, look->folder);
	return true;
}

/* ---- how the model was cut ---- */

/* Value of an argument, which follows its key; 0: missing. */
static int64_t argument(const struct fsdp_model *model, const char *key)
{
	uint32_t name = fsdp_names_find(&model->names, 0, FSDP_SPAN("args"));
	for (size_t i = 0; name != FSDP_NONE && i < model->values.count; i++) {
		const struct fsdp_value_record *value = fsdp_model_value(model, i);
		for (uint32_t k = 0;
			value->raw_name == name && k + 1 < value->token_count; k++) {
			const struct fsdp_token *token = &value->tokens[k];
			if (token->kind == FSDP_TOKEN_TEXT &&
				fsdp_span_is(token->text, key) &&
				(token[1].kind == FSDP_TOKEN_INTEGER ||
					token[1].kind == FSDP_TOKEN_BOOL))
				return token[1].integer;
		}
	}
	return 0;
}

/* The last segments of a name: "linear_qkv", "weight". */
static bool ends_in(struct fsdp_span name, const char *const *words, size_t count,
	const char *parameter)
{
	for (size_t i = 0; i < count; i++) {
		char text[64];
		int size = snprintf(text, sizeof text, "%s.%s", words[i], parameter);
		struct fsdp_span end = fsdp_span(text, (size_t)size);
		if (fsdp_span_ends(name, end) &&
			(name.size == end.size ||
				name.data[name.size - end.size - 1] == '.'))
			return true;
	}
	return false;
}

/* The dimension that ranks cut, or -1: each has all of it. */
static int cut_dimension(struct fsdp_span name, uint32_t dims)
{
	static const char *const columns[] = { "linear_qkv", "query_key_value",
		"linear_fc1", "dense_h_to_4h", "word_embeddings", "output_layer" };
	static const char *const rows[] = { "linear_proj", "dense", "linear_fc2",
		"dense_4h_to_h" };
	size_t column_count = FSDP_COUNT(columns);
	if (dims >= 1 && (ends_in(name, columns, column_count, "weight") ||
				 ends_in(name, columns, column_count, "bias")))
		return 0;
	return dims == 2 && ends_in(name, rows, FSDP_COUNT(rows), "weight") ? 1 : -1;
}

#define LAYERS "layers."
#define EXPERTS "local_experts."

/* Position of the number after a word ("layers.") in a name. */
static bool find_number(struct fsdp_span name, const char *word, size_t *ret_begin,
	size_t *ret_end, uint32_t *ret_number)
{
	size_t size = strlen(word);
	const unsigned char *at = memmem(name.data, name.size, word, size);
	uint32_t layer = 0;
	if (at == NULL || (at != name.data && at[-1] != '.'))
		return false;
	size_t begin = (size_t)(at - name.data) + size, end = begin;
	while (end < name.size && fsdp_is_digit(name.data[end]) && layer < LAYER_MAX)
		layer = layer * 10 + (uint32_t)(name.data[end++] - '0');
	*ret_begin = begin;
	*ret_end = end;
	*ret_number = layer;
	return end != begin && layer < LAYER_MAX;
}

/* ---- what was read ---- */

static bool find_part(
	const struct megatron *megatron, uint32_t index, struct rank_file *ret_part)
{
	const struct fsdp_model *model = megatron->model;
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	const struct fsdp_file_record *file = fsdp_model_file(model, index);
	const struct fsdp_file_record *next =
		index + 1 < model->files.count ? fsdp_model_file(model, index + 1) : NULL;
	struct fsdp_span end = FSDP_SPAN("/" FILE_NAME), folder = file->path;
	if (!fsdp_span_ends(folder, end))
		return false;
	folder.size -= end.size;
	if (!takes_folder(fsdp_span_last(folder, '/'), numbers))
		return false;
	/* Of two numbers the second is of what there is more than one of. */
	bool staged = megatron->pp_size > 1 || megatron->ep_size == 1;
	ret_part->tp = numbers[0];
	ret_part->pp = staged ? numbers[1] : 0;
	ret_part->ep = staged ? numbers[2] : numbers[1];
	ret_part->first = file->first_tensor;
	ret_part->end =
		next != NULL ? next->first_tensor : (uint32_t)model->tensors.count;
	return true;
}

/* The name below "model" or "model<chunk>". False: it is elsewhere. */
static bool parse_name(const struct megatron *megatron,
	const struct fsdp_tensor_record *tensor, struct fsdp_span *ret_name,
	uint32_t *ret_chunk)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS] = { 0 };
	*ret_name = fsdp_model_name(megatron->model, tensor->raw_name, megatron->scratch);
	struct fsdp_span above = fsdp_span_first(*ret_name, '.');
	if (above.size == ret_name->size ||
		(!fsdp_span_is(above, "model") &&
			(!fsdp_pattern_takes(above, "model#", numbers) ||
				numbers[0] >= CHUNKS_MAX)))
		return false;
	*ret_chunk = numbers[0];
	*ret_name = fsdp_span(
		ret_name->data + above.size + 1, ret_name->size - above.size - 1);
	return true;
}

static void count_layers(struct megatron *megatron)
{
	struct fsdp_model *model = megatron->model;
	struct rank_file part;
	size_t count = (size_t)megatron->chunks * megatron->pp_size;
	megatron->layers = FSDP_TAKE(megatron->scratch, megatron->layers, count + 1);
	for (uint32_t i = 0; i < model->files.count; i++) {
		if (!find_part(megatron, i, &part) || part.pp >= megatron->pp_size)
			continue;
		for (uint32_t k = part.first; k < part.end; k++) {
			struct fsdp_span name;
			uint32_t chunk;
			size_t begin, end;
			uint32_t number;
			if (!parse_name(
				    megatron, fsdp_model_tensor(model, k), &name, &chunk))
				continue;
			uint32_t *layers = &megatron->layers[chunk * megatron->pp_size +
							     part.pp + 1];
			if (find_number(name, LAYERS, &begin, &end, &number) &&
				number >= *layers)
				*layers = number + 1;
			if (find_number(name, EXPERTS, &begin, &end, &number) &&
				number >= megatron->experts)
				megatron->experts = number + 1;
		}
	}
	for (size_t i = 0; i < count; i++)
		megatron->layers[i + 1] += megatron->layers[i];
}

/* ---- the full tensors ---- */

/* The name with another number after the word. */
static void renumber(struct megatron *megatron, struct fsdp_span *name, const char *word,
	uint32_t before)
{
	size_t begin, end;
	uint32_t number;
	char digits[16];
	if (before == 0 || !find_number(*name, word, &begin, &end, &number))
		return;
	size_t count = (size_t)snprintf(digits, sizeof digits, "%u", number + before);
	size_t size = begin + count + (name->size - end);
	char *text = fsdp_arena_take(megatron->model->arena, size + 1, 1);
	memcpy(text, name->data, begin);
	memcpy(text + begin, digits, count);
	memcpy(text + begin + count, name->data + end, name->size - end);
	*name = fsdp_span(text, size);
}

/* The name of a tensor in the full model. */
static void set_name(struct megatron *megatron, const struct rank_file *part,
	uint32_t chunk, struct fsdp_span name, struct fsdp_tensor_record *tensor)
{
	uint32_t layers = megatron->layers[chunk * megatron->pp_size + part->pp];
	struct fsdp_arena *arena = megatron->model->arena;
	renumber(megatron, &name, LAYERS, layers);
	renumber(megatron, &name, EXPERTS, part->ep * megatron->experts);
	name = fsdp_arena_copy(arena, name);
	tensor->path = FSDP_NONE;
	fsdp_build_names(
		megatron->model, 0, name, false, &tensor->name, &tensor->raw_name);
}

/* A rank's slice as a box of the full tensor: `begin` and `size` along the dimension. */
static void set_box(struct megatron *megatron, struct fsdp_piece_record *piece,
	const int64_t *shape, uint32_t dims, int dim, int64_t begin, int64_t size)
{
	int64_t box[4] = { 0 };
	for (uint32_t i = 0; i < dims; i++)
		box[dims + i] = shape[i];
	box[dim] = begin;
	box[dims + (uint32_t)dim] = size;
	piece->box = fsdp_build_ints(megatron->model, box, 2 * (size_t)dims);
}

static void widen(struct megatron *megatron, const struct rank_file *part, uint32_t index,
	int dim, bool gate)
{
	struct fsdp_model *model = megatron->model;
	struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, index);
	int64_t shape[2], local;
	if (tensor->dims > 2 || tensor->piece_count != 1)
		return;
	memcpy(shape, fsdp_model_ints(model, tensor->shape),
		tensor->dims * sizeof *shape);
	local = shape[dim];
	struct fsdp_piece_record *piece = fsdp_model_piece(model, tensor->first_piece);
	if (piece->box != FSDP_NONE ||
		__builtin_mul_overflow(local, (int64_t)megatron->tp_size, &shape[dim]))
		return;
	uint64_t numel;
	if (!fsdp_numel(shape, tensor->dims, &numel) || numel > INT64_MAX / 16)
		return;
	gate &= local % 2 == 0 && piece->strides == FSDP_NONE;
	tensor->shape = fsdp_build_ints(model, shape, tensor->dims);
	struct fsdp_piece_record whole = *piece;
	int64_t size = gate ? local / 2 : local;
	set_box(megatron, piece, shape, tensor->dims, dim, part->tp * size, size);
	/* The lower half of a gate is another box of the same tensor: a record of the
	 * same name, which joins the first. */
	if (!gate)
		return;
	struct fsdp_piece_record half_piece = whole;
	int64_t half = shape[0] / (2 * (int64_t)megatron->tp_size);
	int64_t row = tensor->dims == 2 ? shape[1] : 1;
	uint32_t id = fsdp_build_tensor(megatron->model, tensor);
	half_piece.tensor = id;
	half_piece.storage_offset += (uint64_t)half * (uint64_t)row;
	set_box(megatron, &half_piece, shape, tensor->dims, 0,
		((int64_t)megatron->tp_size + part->tp) * half, half);
	fsdp_build_piece(megatron->model, &half_piece);
}

static void join_part(struct megatron *megatron, const struct rank_file *part)
{
	static const char *const gates[] = { "linear_fc1", "dense_h_to_4h" };
	struct fsdp_model *model = megatron->model;
	for (uint32_t i = part->first; i < part->end; i++) {
		struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
		struct fsdp_span name;
		uint32_t chunk = 0;
		if (!parse_name(megatron, tensor, &name, &chunk)) {
			if (tensor->role == FSDP_ROLE_PARAM)
				tensor->role = FSDP_ROLE_OTHER;
			tensor->flags |= FSDP_TENSOR_RANKS_OWN;
			continue;
		}
		int dim = cut_dimension(name, tensor->dims);
		/* Experts without a number are stacked: other ranks have others. */
		if (megatron->ep_size > 1 &&
			memmem(name.data, name.size, ".experts.", 9) != NULL &&
			memmem(name.data, name.size, EXPERTS, sizeof EXPERTS - 1) == NULL)
			tensor->flags |= FSDP_TENSOR_RANKS_OWN;
		set_name(megatron, part, chunk, name, tensor);
		if (dim >= 0 && megatron->tp_size > 1)
			widen(megatron, part, i, dim,
				megatron->is_gated &&
					(ends_in(name, gates, 2, "weight") ||
						ends_in(name, gates, 2, "bias")));
	}
}

/* With the names of the missing files, in the form of those that are present. */
static void report_missing(
	struct megatron *megatron, const struct rank_file *parts, uint32_t found)
{
	struct fsdp_model *model = megatron->model;
	uint32_t sizes[] = { megatron->tp_size, megatron->pp_size, megatron->ep_size };
	struct fsdp_name_list names = { .count = 0 };
	bool has_stage = sizes[1] > 1, has_expert = sizes[2] > 1;
	for (uint32_t i = 0; i < model->world_size && names.count < 16; i++) {
		uint32_t tp = i % sizes[0], ep = i / sizes[0] % sizes[2],
			 pp = i / sizes[0] / sizes[2];
		char name[80], stage[16] = "", expert[16] = "";
		bool is_present = false;
		for (uint32_t k = 0; k < found && !is_present; k++)
			is_present = parts[k].tp == tp && parts[k].pp == pp &&
				     parts[k].ep == ep;
		if (is_present)
			continue;
		if (has_stage)
			snprintf(stage, sizeof stage, "_%03u", pp);
		if (has_expert)
			snprintf(expert, sizeof expert, "_%03u", ep);
		snprintf(name, sizeof name, "mp_rank_%02u%s%s/" FILE_NAME, tp, stage,
			expert);
		fsdp_name_list_add(&names, fsdp_span_text(name));
	}
	if (names.count < model->world_size - found)
		names.count = model->world_size - found;
	fsdp_find(&model->findings, FSDP_RULE_MEGATRON_OBJECTS, FSDP_PLACE(.file = { 0 }),
		"%u of %u rank files %s missing: %s (tensor parallel %u, pipeline parallel %u, expert parallel %u)",
		model->world_size - found, model->world_size,
		model->world_size - found == 1 ? "is" : "are",
		fsdp_name_list_text(&names), sizes[0], sizes[1], sizes[2]);
}

static void join(struct megatron *megatron)
{
	struct fsdp_model *model = megatron->model;
	uint32_t count = (uint32_t)model->files.count, found = 0, listed = 0;
	struct rank_file part;
	/* Number of parts of the model on each stage. */
	megatron->chunks = 1;
	for (uint32_t i = 0; i < model->tensors.count; i++) {
		struct fsdp_span name;
		uint32_t chunk = 0;
		if (parse_name(megatron, fsdp_model_tensor(model, i), &name, &chunk) &&
			chunk >= megatron->chunks)
			megatron->chunks = chunk + 1;
	}
	count_layers(megatron);
	/* Tensors that are added meanwhile come after all of these. */
	struct rank_file *parts = FSDP_TAKE(megatron->scratch, parts, count + 1);
	for (uint32_t i = 0; i < count; i++) {
		listed += fsdp_model_file(model, i)->is_listed;
		if (find_part(megatron, i, &part) && part.tp < megatron->tp_size &&
			part.pp < megatron->pp_size && part.ep < megatron->ep_size)
			parts[found++] = part;
	}
	/* Files that are only listed do not say how the model was cut. */
	if (found < model->world_size && listed == 0)
		report_missing(megatron, parts, found);
	for (uint32_t i = 0; i < found; i++)
		join_part(megatron, &parts[i]);
}

static void finish(struct fsdp_reading *reading)
{
	struct fsdp_model *model = reading->model;
	int64_t tp = argument(model, "tensor_model_parallel_size");
	int64_t pp = argument(model, "pipeline_model_parallel_size");
	int64_t ep = argument(model, "expert_model_parallel_size");
	struct megatron megatron = {
		.model = model,
		.scratch = reading->scratch,
		.tp_size = tp > 0 && tp < STAGES_MAX ? (uint32_t)tp : 1,
		.pp_size = pp > 0 && pp < STAGES_MAX ? (uint32_t)pp : 1,
		.ep_size = ep > 0 && ep < STAGES_MAX ? (uint32_t)ep : 1,
		.is_gated = argument(model, "swiglu") != 0 ||
			    argument(model, "gated_linear_unit") != 0,
	};
	model->format.family = fsdp_family_megatron.name;
	model->format.title = fsdp_family_megatron.title;
	model->format.writer = "Megatron-LM";
	uint64_t world = (uint64_t)megatron.tp_size * megatron.pp_size * megatron.ep_size;
	model->world_size = (uint32_t)fsdp_min(world, FSDP_PATTERN_MAX);
	model->is_split = true;
	join(&megatron);
}

const struct fsdp_family fsdp_family_megatron = {
	.name = "megatron-legacy",
	.title = "Megatron-LM rank files",
	.recognize = recognize,
	.read = read,
	.finish = finish,
};
