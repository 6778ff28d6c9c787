/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows how DeepSpeed cuts parameters over ranks, and puts them together again: every
 * parameter is runs of the flat buffers that the optimizer files hold. Reads none of the
 * files: the door does, and what they said is taken from the model.
 *
 *	latest                                            the tag, a folder
 *	TAG/mp_rank_00_model_states.pt                    ZeRO 0, 1, 2
 *	TAG/zero_pp_rank_R_mp_rank_00_model_states.pt     ZeRO 3, one a rank
 *	TAG/[bf16_]zero_pp_rank_R_mp_rank_00_optim_states.pt   ZeRO 1, 2, 3
 *	latest_universal                                  the tag of the universal form
 *	TAG/zero/<fqn>/fp32.pt, exp_avg.pt, …             one tensor each, in a dict or
 *bare
 *
 * ZeRO 1 and 2: the parameters of a group in the order of param_shapes[group], each
 * followed by its alignment padding; the sum, rounded up to 2 W elements, is cut into W
 * equal parts. ZeRO 3: of each parameter every rank has the R-th of W equal parts; a rank
 * lays its parts one behind the other and cuts that into its flat groups.
 *
 * param_slice_mappings say the same for ZeRO 1 and 2, but not with round_robin_gradients:
 * then only param_shapes follows the buffer, and the mappings point elsewhere. They are
 * never used.
 *
 * Origin: deepspeed/runtime/zero/stage_1_and_2.py, stage3.py, utils/zero_to_fp32.py
 * (0.19.8), and files of it.
 */
#include <stdio.h>

#include "base/num.h"
#include "format/format.h"
#include "model/dtype.h"

/* Elements beyond which a length is no length. */
#define LENGTH_MAX (UINT64_C(1) << 60)

#define MODEL "mp_rank_#_model_states.pt"
#define MODEL_3 "zero_pp_rank_#_mp_rank_#_model_states.pt"
#define OPTIM "zero_pp_rank_#_mp_rank_#_optim_states.pt"

#define STATES "optimizer_state_dict.base_optimizer_state.state."
#define STATES_3 "optimizer_state_dict.optimizer_state_dict.state."
#define GROUPS "optimizer_state_dict.single_partition_of_fp32_groups."
#define GROUPS_3 "optimizer_state_dict.fp32_flat_groups."

enum { GROUPS_MAX = 4096, RANKS_MAX = 65536, STATES_MAX = 16, TAG_BYTES = 256 };

/* A parameter as param_shapes lists it. */
struct parameter {
	struct fsdp_span fqn;
	fsdp_ints shape;
	uint8_t dims;
	uint32_t group;
	uint64_t numel, padding; /* elements, and those behind it */
	bool frozen;
};

/* A tensor of the files, as it was read. */
struct stored {
	struct fsdp_tensor_record tensor;
	struct fsdp_piece_record piece;
	struct fsdp_span name;
	bool has_piece;
	uint64_t numel;
};

struct deepspeed {
	struct fsdp_reading *reading;
	bool is_root, is_universal;
	size_t first_tensor, first_piece, first_value;
	uint32_t
		world_size; /* by the names of the optimizer's files; 0: there are none */
	struct fsdp_vec ranks; /* uint32_t: of these files, ascending */

	struct stored *stored;
	size_t stored_count;
	struct fsdp_names index; /* rank, then name, of a stored tensor with bytes */
	uint32_t *indexed;       /* which it is + 1 */
	const char *states[STATES_MAX]; /* that the optimizer keeps of a parameter */
	size_t state_count;
	uint64_t lengths[GROUPS_MAX]; /* elements of a group, paddings too */
	uint32_t firsts[GROUPS_MAX];  /* its first parameter + 1 */
	struct parameter *parameters;
	size_t parameter_count;
	struct fsdp_names buffers;
	struct shared {
		struct fsdp_span alias, target;
	} * shared;
	size_t shared_count;
	int64_t stage, data_ranks;
	bool round_robin;
};

/* ---- names ---- */

static bool is_optim(struct fsdp_span name, uint32_t *numbers)
{
	return fsdp_pattern_takes(name, OPTIM, numbers) ||
	       fsdp_pattern_takes(name, "bf16_" OPTIM, numbers) ||
	       fsdp_pattern_takes(name, "fp16_" OPTIM, numbers);
}

/* The rank of data parallelism and that of the model. */
static bool is_member(struct fsdp_span name, uint32_t *ret_rank, uint32_t *ret_mp)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	if (fsdp_pattern_takes(name, MODEL, numbers)) {
		*ret_rank = 0;
		*ret_mp = numbers[0];
		return true;
	}
	if (!fsdp_pattern_takes(name, MODEL_3, numbers) && !is_optim(name, numbers))
		return false;
	*ret_rank = numbers[0];
	*ret_mp = numbers[1];
	return true;
}

static bool is_tag(const struct fsdp_folder *folder)
{
	uint32_t rank, mp;
	for (size_t i = 0; i < folder->count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);
		if (entry.kind == FSDP_ENTRY_FILE && is_member(entry.name, &rank, &mp))
			return true;
	}
	return false;
}

static bool is_there(
	const struct fsdp_folder *folder, const char *name, enum fsdp_entry_kind kind)
{
	struct fsdp_entry entry;
	return fsdp_folder_find(folder, fsdp_span_text(name), &entry) &&
	       entry.kind == kind;
}

static int bid(const struct fsdp_look *look)
{
	const struct fsdp_folder *folder = look->folder;
	if (folder == NULL)
		return 0;
	if (is_tag(folder))
		return 93;
	if (is_there(folder, "latest_universal", FSDP_ENTRY_FILE))
		return 60;
	/* Other run folders have a file of this name too. */
	return is_there(folder, "latest", FSDP_ENTRY_FILE) &&
			       (is_there(folder, "zero_to_fp32.py", FSDP_ENTRY_FILE) ||
				       fsdp_pattern_in(folder, FSDP_ENTRY_DIRECTORY,
					       "global_step#"))
		       ? 60
		       : 0;
}

/* ---- naming the files ---- */

static bool read_root(struct deepspeed *ds, const struct fsdp_folder *folder,
	struct fsdp_error **ret_error)
{
	struct fsdp_source source;
	struct fsdp_span tag;
	struct fsdp_entry entry;
	const char *pointer = is_there(folder, "latest", FSDP_ENTRY_FILE)
				      ? "latest"
				      : "latest_universal";
	if (!fsdp_folder_source(folder, fsdp_span_text(pointer), &source, ret_error) ||
		!fsdp_source_read_all(&source, 0, fsdp_min(source.size, TAG_BYTES),
			ds->reading->model->arena, &tag, ret_error))
		return false;
	while (tag.size != 0 &&
		(tag.data[tag.size - 1] == '\n' || tag.data[tag.size - 1] == ' '))
		tag.size--;
	ds->is_root = true;
	if (fsdp_folder_find(folder, tag, &entry))
		return fsdp_reading_add_child(
			       ds->reading, entry.name, FSDP_NONE, ret_error) != NULL;
	fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, FSDP_UNKNOWN,
		"%s names %.*s, which is not there", pointer, (int)tag.size,
		(const char *)tag.data);
	fsdp_error_add_rule(ret_error, "FI1001");
	return false;
}

static bool add_rank(struct deepspeed *ds, uint32_t rank, struct fsdp_error **ret_error)
{
	uint32_t *place = fsdp_vec_push(&ds->ranks);
	if (place == NULL)
		return fsdp_arena_fail(ds->reading->scratch, ret_error);
	*place = rank;
	if (rank + 1 > ds->world_size)
		ds->world_size = rank + 1;
	return true;
}

static bool read_tag(struct deepspeed *ds, const struct fsdp_folder *folder,
	struct fsdp_error **ret_error)
{
	uint32_t rank, mp, numbers[FSDP_PATTERN_NUMBERS];
	ds->is_universal = is_there(folder, "zero", FSDP_ENTRY_DIRECTORY);
	if (ds->is_universal) {
		struct fsdp_child *child = fsdp_reading_add_child(
			ds->reading, FSDP_SPAN("zero"), FSDP_NONE, ret_error);
		if (child == NULL)
			return false;
		child->as = fsdp_family_deepspeed_parts.name;
	}
	for (size_t i = 0; i < folder->count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);
		if (entry.kind != FSDP_ENTRY_FILE || !is_member(entry.name, &rank, &mp))
			continue;
		if (mp != 0 || rank >= RANKS_MAX) {
			fsdp_fail(ret_error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
				"this is a DeepSpeed checkpoint of tensor or pipeline "
				"parallel ranks, which this version does not join");
			fsdp_error_add_rule(ret_error, "FI9002");
			fsdp_error_add_hint(ret_error, "give one of its files");
			return false;
		}
		if (is_optim(entry.name, numbers) && !add_rank(ds, rank, ret_error))
			return false;
		if (fsdp_reading_add_child(ds->reading, entry.name, rank, ret_error) ==
			NULL)
			return false;
	}
	return fsdp_reading_order_children(ds->reading, 0, ret_error);
}

static bool read(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	struct deepspeed *ds =
		fsdp_arena_take(reading->scratch, sizeof *ds, _Alignof(struct deepspeed));
	if (ds == NULL)
		return fsdp_arena_fail(reading->scratch, ret_error);
	ds->reading = reading;
	ds->first_tensor = reading->model->tensors.count;
	ds->first_piece = reading->model->pieces.count;
	ds->first_value = reading->model->values.count;
	reading->state = ds;
	fsdp_vec_init(&ds->ranks, reading->scratch, sizeof(uint32_t));
	return is_tag(look->folder) ? read_tag(ds, look->folder, ret_error)
				    : read_root(ds, look->folder, ret_error);
}

/* ---- what the files said ---- */

/* The name in the index below its rank; FSDP_NONE: memory ended. */
static uint32_t index_stored(struct deepspeed *ds, const struct stored *stored)
{
	struct fsdp_arena *scratch = ds->reading->scratch;
	char text[16];
	int size = snprintf(text, sizeof text, "%u", stored->piece.rank);
	struct fsdp_span rank = fsdp_arena_copy(scratch, fsdp_span(text, (size_t)size));
	uint32_t parent =
		rank.data != NULL ? fsdp_names_child(&ds->index, 0, rank) : FSDP_NONE;
	return parent != FSDP_NONE ? fsdp_names_child(&ds->index, parent, stored->name)
				   : FSDP_NONE;
}

static bool make_index(struct deepspeed *ds, struct fsdp_error **ret_error)
{
	struct fsdp_arena *scratch = ds->reading->scratch;
	size_t room = 2 * ds->stored_count + 2;
	ds->indexed = fsdp_arena_take(scratch, room * sizeof *ds->indexed, 4);
	if (ds->indexed == NULL || !fsdp_names_init(&ds->index, scratch))
		return fsdp_arena_fail(scratch, ret_error);
	for (size_t i = 0; i < ds->stored_count; i++) {
		const struct stored *stored = &ds->stored[i];
		/* A flat buffer and nothing else: runs of it are counted from its first.
		 */
		if (!stored->has_piece || stored->piece.box != FSDP_NONE ||
			stored->piece.strides != FSDP_NONE || stored->tensor.dims != 1)
			continue;
		uint32_t id = index_stored(ds, stored);
		if (id == FSDP_NONE)
			return fsdp_arena_fail(scratch, ret_error);
		if (ds->indexed[id] == 0)
			ds->indexed[id] = (uint32_t)i + 1;
	}
	return true;
}

static bool take_stored(struct deepspeed *ds, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = ds->reading->model;
	struct fsdp_arena *scratch = ds->reading->scratch;
	size_t count = model->tensors.count - ds->first_tensor;
	ds->stored = fsdp_arena_take(scratch, (count + 1) * sizeof *ds->stored, 8);
	if (ds->stored == NULL)
		return fsdp_arena_fail(scratch, ret_error);
	for (size_t i = 0; i < count; i++) {
		struct stored *stored = &ds->stored[i];
		stored->tensor = *(const struct fsdp_tensor_record *)fsdp_vec_at(
			&model->tensors, ds->first_tensor + i);
		stored->has_piece = stored->tensor.piece_count == 1;
		if (stored->has_piece)
			stored->piece = *(const struct fsdp_piece_record *)fsdp_vec_at(
				&model->pieces, stored->tensor.first_piece);
		stored->numel = fsdp_model_numel(model, &stored->tensor);
		stored->name = fsdp_model_name(model, stored->tensor.raw_name, scratch);
		if (stored->name.data == NULL)
			return fsdp_arena_fail(scratch, ret_error);
	}
	ds->stored_count = count;
	fsdp_vec_truncate(&model->tensors, ds->first_tensor);
	fsdp_vec_truncate(&model->pieces, ds->first_piece);
	return make_index(ds, ret_error);
}

/* What is behind a prefix of a name; false: it has another one. */
static bool behind(struct fsdp_span name, const char *prefix, struct fsdp_span *ret_rest)
{
	size_t size = strlen(prefix);
	if (!fsdp_span_begins(name, fsdp_span(prefix, size)))
		return false;
	*ret_rest = fsdp_span(name.data + size, name.size - size);
	return true;
}

/* A number in front of the rest, up to a dot or the end. */
static bool take_index(struct fsdp_span *rest, uint32_t *ret_index)
{
	size_t at = 0;
	uint32_t index = 0;
	while (at < rest->size && rest->data[at] >= '0' && rest->data[at] <= '9' &&
		index < GROUPS_MAX)
		index = index * 10 + (rest->data[at++] - '0');
	if (at == 0 || index >= GROUPS_MAX || (at < rest->size && rest->data[at] != '.'))
		return false;
	at += at < rest->size;
	*rest = fsdp_span(rest->data + at, rest->size - at);
	*ret_index = index;
	return true;
}

static bool add_parameter(struct deepspeed *ds, struct fsdp_span fqn, uint32_t group,
	const struct fsdp_value_record *value, bool frozen, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = ds->reading->model;
	int64_t shape[FSDP_DIMS_MAX];
	const struct fsdp_token *tokens = value->tokens;
	struct parameter *parameter = &ds->parameters[ds->parameter_count];
	if (value->token_count == 0 || tokens[0].kind != FSDP_TOKEN_TUPLE ||
		tokens[0].count > FSDP_DIMS_MAX ||
		value->token_count != tokens[0].count + 1)
		return true;
	size_t dims = tokens[0].count;
	for (size_t i = 0; i < dims; i++)
		shape[i] = tokens[i + 1].kind == FSDP_TOKEN_INTEGER
				   ? tokens[i + 1].integer
				   : -1;
	*parameter = (struct parameter){
		.fqn = fqn,
		.dims = (uint8_t)dims,
		.group = group,
		.frozen = frozen,
	};
	if (!fsdp_numel(shape, dims, &parameter->numel) ||
		parameter->numel > INT64_MAX / 16)
		return true;
	parameter->shape = fsdp_build_ints(model, shape, dims, ret_error);
	ds->parameter_count++;
	if (!frozen && ds->firsts[group] == 0)
		ds->firsts[group] = (uint32_t)ds->parameter_count;
	return parameter->shape != FSDP_NONE;
}

/* Whether the second part of a value's path is a position in a list. */
static bool is_listed(
	const struct fsdp_model *model, const struct fsdp_value_record *value)
{
	const int64_t *path = fsdp_model_ints(model, value->path);
	return path != NULL && path[0] >= 2 && (path[2] & 1) != 0;
}

static bool take_value(struct deepspeed *ds, const struct fsdp_value_record *value,
	struct fsdp_span name, bool *ret_keep, struct fsdp_error **ret_error)
{
	const struct fsdp_token *token = value->tokens;
	struct fsdp_span rest;
	uint32_t group = 0;
	*ret_keep = value->rank == 0;
	if (behind(name, "param_shapes.", &rest)) {
		bool listed = is_listed(ds->reading->model, value);
		bool first = *ret_keep && (!listed || take_index(&rest, &group));
		*ret_keep = false;
		return !first || add_parameter(ds, rest, group, value, false, ret_error);
	}
	if (behind(name, "frozen_param_shapes.", &rest)) {
		bool first = *ret_keep;
		*ret_keep = false;
		return !first || add_parameter(ds, rest, 0, value, true, ret_error);
	}
	if (behind(name, "optimizer_state_dict.param_slice_mappings.", &rest))
		*ret_keep = false;
	else if (!*ret_keep || value->token_count != 1)
		return true;
	else if (behind(name, "buffer_names.", &rest) && token->kind == FSDP_TOKEN_TEXT)
		return fsdp_names_child(&ds->buffers, 0, token->text) != FSDP_NONE ||
		       fsdp_arena_fail(ds->reading->scratch, ret_error);
	else if (behind(name, "shared_params.", &rest) && token->kind == FSDP_TOKEN_TEXT)
		ds->shared[ds->shared_count++] = (struct shared){ rest, token->text };
	else if (fsdp_span_is(name, "dp_world_size") && token->kind == FSDP_TOKEN_INTEGER)
		ds->data_ranks = token->integer;
	else if (fsdp_span_is(name, "ds_config.zero_optimization.stage") &&
		 token->kind == FSDP_TOKEN_INTEGER)
		ds->stage = token->integer;
	else if (fsdp_span_is(name, "ds_config.zero_optimization.round_robin_gradients"))
		ds->round_robin = token->kind == FSDP_TOKEN_BOOL && token->integer != 0;
	return true;
}

/* Values of the first rank stay; what became shapes of tensors goes. */
static bool take_values(struct deepspeed *ds, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = ds->reading->model;
	struct fsdp_arena *scratch = ds->reading->scratch;
	size_t count = model->values.count - ds->first_value, kept = ds->first_value;
	ds->parameters =
		fsdp_arena_take(scratch, (count + 1) * sizeof *ds->parameters, 8);
	ds->shared = fsdp_arena_take(scratch, (count + 1) * sizeof *ds->shared, 8);
	if (ds->parameters == NULL || ds->shared == NULL ||
		!fsdp_names_init(&ds->buffers, scratch))
		return fsdp_arena_fail(scratch, ret_error);
	for (size_t i = 0; i < count; i++) {
		struct fsdp_value_record *value =
			fsdp_vec_at(&model->values, ds->first_value + i);
		struct fsdp_span name = fsdp_model_name(model, value->raw_name, scratch);
		bool keep;
		if (name.data == NULL)
			return fsdp_arena_fail(scratch, ret_error);
		if (!take_value(ds, value, name, &keep, ret_error))
			return false;
		if (keep)
			*(struct fsdp_value_record *)fsdp_vec_at(&model->values, kept++) =
				*value;
	}
	fsdp_vec_truncate(&model->values, kept);
	return true;
}

/* Elements of padding behind each parameter of ZeRO 1 and 2, where they are recorded. */
static void take_paddings(struct deepspeed *ds)
{
	struct fsdp_model *model = ds->reading->model;
	for (size_t i = ds->first_value; i < model->values.count; i++) {
		const struct fsdp_value_record *value = fsdp_vec_at(&model->values, i);
		struct fsdp_span rest, name = fsdp_model_name(model, value->raw_name,
					       ds->reading->scratch);
		uint32_t group, index;
		if (name.data == NULL || value->rank != 0 || value->token_count != 1 ||
			value->tokens[0].kind != FSDP_TOKEN_INTEGER ||
			value->tokens[0].integer < 0 ||
			value->tokens[0].integer > UINT32_MAX ||
			!behind(name, "optimizer_state_dict.param_alignment_paddings.",
				&rest) ||
			!take_index(&rest, &group) || !take_index(&rest, &index))
			continue;
		size_t at = (size_t)ds->firsts[group] + index - 1;
		if (ds->firsts[group] != 0 && at < ds->parameter_count &&
			ds->parameters[at].group == group)
			ds->parameters[at].padding = (uint64_t)value->tokens[0].integer;
	}
}

/* How long the groups are. A sum that no file could hold ends up beyond every part. */
static void measure_groups(struct deepspeed *ds)
{
	for (size_t i = 0; i < ds->parameter_count; i++) {
		const struct parameter *parameter = &ds->parameters[i];
		uint64_t *length = &ds->lengths[parameter->group];
		if (!parameter->frozen &&
			(!fsdp_add(*length, parameter->numel + parameter->padding,
				 length) ||
				*length > LENGTH_MAX))
			*length = LENGTH_MAX;
	}
}

/* What the optimizer keeps of parameters: as the first rank has it of the first group. */
static void find_states(struct deepspeed *ds, const char *prefix)
{
	struct fsdp_span rest;
	uint32_t group;
	for (size_t i = 0; i < ds->stored_count && ds->state_count < STATES_MAX; i++) {
		const struct stored *stored = &ds->stored[i];
		if (stored->has_piece && stored->piece.rank == 0 &&
			stored->tensor.dims == 1 && behind(stored->name, prefix, &rest) &&
			take_index(&rest, &group) && group == 0 && rest.size < 64)
			ds->states[ds->state_count++] = (const char *)rest.data;
	}
}

/* ---- tensors out of runs ---- */

static const struct stored *find_flat(
	const struct deepspeed *ds, const char *name, uint32_t rank)
{
	char text[16];
	int size = snprintf(text, sizeof text, "%u", rank);
	uint32_t id = fsdp_names_find_child(&ds->index, 0, fsdp_span(text, (size_t)size));
	if (id != FSDP_NONE)
		id = fsdp_names_find_child(&ds->index, id, fsdp_span_text(name));
	return id != FSDP_NONE && ds->indexed[id] != 0 ? &ds->stored[ds->indexed[id] - 1]
						       : NULL;
}

static uint32_t add_tensor(struct deepspeed *ds, const char *prefix, struct fsdp_span fqn,
	const char *suffix, const struct parameter *parameter, const struct stored *like,
	int role, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = ds->reading->model;
	size_t before = strlen(prefix), after = strlen(suffix);
	unsigned char *text =
		fsdp_arena_take(model->arena, before + fqn.size + after + 1, 1);
	struct fsdp_tensor_record record = like->tensor;
	if (text == NULL) {
		fsdp_arena_fail(model->arena, ret_error);
		return FSDP_NONE;
	}
	memcpy(text, prefix, before);
	memcpy(text + before, fqn.data, fqn.size);
	memcpy(text + before + fqn.size, suffix, after);
	if (parameter != NULL) {
		record.shape = parameter->shape;
		record.dims = parameter->dims;
	}
	record.path = FSDP_NONE;
	record.role = (uint8_t)role;
	record.flags &= (uint16_t)~FSDP_TENSOR_ROLE_INFERRED;
	if (!fsdp_build_names(model, 0, fsdp_span(text, before + fqn.size + after), false,
		    &record.name, &record.raw_name, ret_error))
		return FSDP_NONE;
	return fsdp_build_tensor(model, &record, ret_error);
}

/* `count` elements of a flat buffer from `at` on are the parameter's from `start` on. */
static bool add_run(struct deepspeed *ds, uint32_t tensor, const struct stored *flat,
	uint64_t start, uint64_t count, uint64_t at, uint32_t rank,
	struct fsdp_error **ret_error)
{
	struct fsdp_model *model = ds->reading->model;
	int64_t run[3] = { (int64_t)start, (int64_t)count, (int64_t)at };
	struct fsdp_piece_record piece = flat->piece;
	if (count == 0)
		return true;
	piece.tensor = tensor;
	piece.is_run = true;
	piece.rank = rank;
	piece.strides = FSDP_NONE;
	piece.box = fsdp_build_ints(model, run, 3, ret_error);
	return piece.box != FSDP_NONE &&
	       fsdp_add(flat->piece.storage_offset, at, &piece.storage_offset) &&
	       fsdp_build_piece(model, &piece, ret_error) != FSDP_NONE;
}

/* ZeRO 1 and 2. `begin` is where the parameter begins in the group of `length`. */
static bool add_cut(struct deepspeed *ds, const struct parameter *parameter,
	uint64_t begin, uint64_t length, const char *flat_name, const char *prefix,
	const char *suffix, int role, struct fsdp_error **ret_error)
{
	uint64_t world = ds->world_size, align = 2 * world;
	uint64_t part = (length + align - 1) / align * align / world;
	uint32_t tensor = FSDP_NONE;
	for (size_t i = 0; i < ds->ranks.count; i++) {
		uint32_t rank = *(const uint32_t *)fsdp_vec_at(&ds->ranks, i);
		const struct stored *flat = find_flat(ds, flat_name, rank);
		if (flat == NULL)
			continue;
		if (tensor == FSDP_NONE)
			tensor = add_tensor(ds, prefix, parameter->fqn, suffix, parameter,
				flat, role, ret_error);
		if (tensor == FSDP_NONE)
			return false;
		uint64_t own = rank * part, end = own + flat->numel;
		uint64_t low = begin > own ? begin : own;
		uint64_t high = fsdp_min(begin + parameter->numel, end);
		if (low < high && !add_run(ds, tensor, flat, low - begin, high - low,
					  low - own, rank, ret_error))
			return false;
	}
	return true;
}

/* ZeRO 3. `begin` is where its part begins in the stream of each rank; the name has a
 * place for the number of a flat group. */
static bool add_part(struct deepspeed *ds, const struct parameter *parameter,
	uint64_t begin, const char *flat_name, const char *state, const char *prefix,
	int role, struct fsdp_error **ret_error)
{
	uint64_t part = (parameter->numel + ds->world_size - 1) / ds->world_size;
	uint32_t tensor = FSDP_NONE;
	char name[256];
	for (size_t i = 0; i < ds->ranks.count; i++) {
		uint32_t rank = *(const uint32_t *)fsdp_vec_at(&ds->ranks, i);
		uint64_t first = fsdp_min(rank * part, parameter->numel);
		uint64_t own = fsdp_min(part, parameter->numel - first), done = 0, at = 0;
		for (uint32_t group = 0; group < GROUPS_MAX; group++) {
			snprintf(name, sizeof name, "%s%u%s", flat_name, group, state);
			const struct stored *flat = find_flat(ds, name, rank);
			if (flat == NULL)
				break;
			if (tensor == FSDP_NONE)
				tensor = add_tensor(ds, prefix, parameter->fqn, state,
					parameter, flat, role, ret_error);
			if (tensor == FSDP_NONE)
				return false;
			uint64_t low = begin + done, end = at + flat->numel;
			if (done < own && low >= at && low < end) {
				uint64_t count = fsdp_min(own - done, end - low);
				if (!add_run(ds, tensor, flat, first + done, count,
					    low - at, rank, ret_error))
					return false;
				done += count;
			}
			at = end;
		}
	}
	return true;
}

static bool join_cut(struct deepspeed *ds, struct fsdp_error **ret_error)
{
	uint64_t begin = 0;
	for (size_t i = 0; i < ds->parameter_count; i++) {
		const struct parameter *parameter = &ds->parameters[i];
		uint64_t length = ds->lengths[parameter->group];
		char name[256], suffix[128];
		if (parameter->frozen)
			continue;
		if (i == 0 || parameter->group != parameter[-1].group)
			begin = 0;
		snprintf(name, sizeof name, GROUPS "%u", parameter->group);
		if (!add_cut(ds, parameter, begin, length, name, "", "", FSDP_ROLE_PARAM,
			    ret_error))
			return false;
		for (size_t k = 0; k < ds->state_count; k++) {
			snprintf(name, sizeof name, STATES "%u.%s", parameter->group,
				ds->states[k]);
			snprintf(suffix, sizeof suffix, ".%s", ds->states[k]);
			if (!add_cut(ds, parameter, begin, length, name, "state.", suffix,
				    FSDP_ROLE_OPTIM, ret_error))
				return false;
		}
		begin += parameter->numel + parameter->padding;
	}
	return true;
}

static bool join_parts(struct deepspeed *ds, struct fsdp_error **ret_error)
{
	uint64_t begin = 0;
	for (size_t i = 0; i < ds->parameter_count; i++) {
		const struct parameter *parameter = &ds->parameters[i];
		char suffix[128];
		if (parameter->frozen)
			continue;
		if (!add_part(ds, parameter, begin, GROUPS_3, "", "", FSDP_ROLE_PARAM,
			    ret_error))
			return false;
		for (size_t k = 0; k < ds->state_count; k++) {
			snprintf(suffix, sizeof suffix, ".%s", ds->states[k]);
			if (!add_part(ds, parameter, begin, STATES_3, suffix, "state.",
				    FSDP_ROLE_OPTIM, ret_error))
				return false;
		}
		begin += (parameter->numel + ds->world_size - 1) / ds->world_size;
	}
	return true;
}

/* Before ZeRO 3 the first rank has those that are not trained, whole. */
static bool add_frozen(struct deepspeed *ds, struct fsdp_error **ret_error)
{
	for (size_t i = 0; i < ds->stored_count; i++) {
		const struct stored *stored = &ds->stored[i];
		struct fsdp_piece_record piece = stored->piece;
		struct fsdp_span fqn;
		if (!stored->has_piece || piece.rank != 0 ||
			!behind(stored->name, "frozen_param_fragments.", &fqn))
			continue;
		piece.tensor = add_tensor(
			ds, "", fqn, "", NULL, stored, FSDP_ROLE_PARAM, ret_error);
		if (piece.tensor == FSDP_NONE || fsdp_build_piece(ds->reading->model,
							 &piece, ret_error) == FSDP_NONE)
			return false;
	}
	return true;
}

/* ZeRO 3 cuts parameters that are not trained too, in files of their own. */
static bool join_frozen(struct deepspeed *ds, struct fsdp_error **ret_error)
{
	for (size_t i = 0; i < ds->parameter_count; i++) {
		const struct parameter *parameter = &ds->parameters[i];
		uint64_t part = (parameter->numel + ds->world_size - 1) /
				(ds->world_size != 0 ? ds->world_size : 1);
		uint32_t tensor = FSDP_NONE;
		char name[512];
		if (!parameter->frozen || parameter->fqn.size > 400)
			continue;
		snprintf(name, sizeof name, "frozen_param_fragments.%.*s",
			(int)parameter->fqn.size, (const char *)parameter->fqn.data);
		for (size_t k = 0; k < ds->ranks.count; k++) {
			uint32_t rank = *(const uint32_t *)fsdp_vec_at(&ds->ranks, k);
			const struct stored *flat = find_flat(ds, name, rank);
			uint64_t first = fsdp_min(rank * part, parameter->numel);
			if (flat == NULL)
				continue;
			if (tensor == FSDP_NONE)
				tensor = add_tensor(ds, "", parameter->fqn, "", parameter,
					flat, FSDP_ROLE_PARAM, ret_error);
			if (tensor == FSDP_NONE ||
				!add_run(ds, tensor, flat, first,
					fsdp_min(flat->numel, parameter->numel - first),
					0, rank, ret_error))
				return false;
		}
	}
	return true;
}

/* A second name for a tensor: the same pieces. */
static bool add_alias(struct deepspeed *ds, struct fsdp_span alias, uint32_t target,
	struct fsdp_error **ret_error)
{
	struct fsdp_model *model = ds->reading->model;
	const struct stored like = { .tensor = *fsdp_model_tensor(model, target) };
	uint32_t tensor =
		add_tensor(ds, "", alias, "", NULL, &like, like.tensor.role, ret_error);
	if (tensor == FSDP_NONE)
		return false;
	for (uint32_t i = 0; i < like.tensor.piece_count; i++) {
		struct fsdp_piece_record piece =
			*(const struct fsdp_piece_record *)fsdp_vec_at(
				&model->pieces, like.tensor.first_piece + i);
		piece.tensor = tensor;
		if (fsdp_build_piece(model, &piece, ret_error) == FSDP_NONE)
			return false;
	}
	return true;
}

/* Parameters with two names are stored under one of them. */
static bool join_shared(struct deepspeed *ds, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = ds->reading->model;
	size_t names = model->names.list.count;
	uint32_t *owners =
		fsdp_arena_take(ds->reading->scratch, names * sizeof *owners, 4);
	if (owners == NULL)
		return fsdp_arena_fail(ds->reading->scratch, ret_error);
	for (size_t i = ds->first_tensor; i < model->tensors.count; i++)
		owners[fsdp_model_tensor(model, (uint32_t)i)->raw_name] = (uint32_t)i + 1;
	for (size_t i = 0; i < ds->shared_count; i++) {
		uint32_t name = fsdp_names_find(&model->names, 0, ds->shared[i].target);
		if (name < names && owners[name] != 0 &&
			!add_alias(ds, ds->shared[i].alias, owners[name] - 1, ret_error))
			return false;
	}
	return true;
}

/* Buffers are whole; without ZeRO so is everything. With it the other weights are copies
 * in the dtype of training, or placeholders. */
static bool add_module(struct deepspeed *ds, struct fsdp_error **ret_error)
{
	for (size_t i = 0; i < ds->stored_count; i++) {
		const struct stored *stored = &ds->stored[i];
		struct fsdp_span rest;
		bool module = behind(stored->name, "module.", &rest);
		bool optim = fsdp_span_begins(stored->name, FSDP_SPAN("optimizer."));
		if (!stored->has_piece || stored->piece.rank != 0 || (!module && !optim))
			continue;
		bool buffer = module &&
			      fsdp_names_find_child(&ds->buffers, 0, rest) != FSDP_NONE;
		bool whole = ds->world_size == 0 || buffer;
		if (!whole && stored->numel == 0)
			continue;
		struct fsdp_piece_record piece = stored->piece;
		piece.tensor = add_tensor(ds, "", module && whole ? rest : stored->name,
			"", NULL, stored,
			buffer  ? FSDP_ROLE_BUFFER
			: optim ? FSDP_ROLE_OPTIM
			: whole ? FSDP_ROLE_PARAM
				: FSDP_ROLE_OTHER,
			ret_error);
		if (piece.tensor == FSDP_NONE || fsdp_build_piece(ds->reading->model,
							 &piece, ret_error) == FSDP_NONE)
			return false;
	}
	return true;
}

/* ---- the universal form ---- */

/* "<fqn>/<state>.pt" at the end of a path. */
static bool split_path(
	struct fsdp_span path, struct fsdp_span *ret_fqn, struct fsdp_span *ret_state)
{
	struct fsdp_span parts[2] = { { 0 }, { 0 } };
	size_t end = path.size;
	for (size_t k = 2; k-- > 0;) {
		size_t begin = end;
		while (begin != 0 && path.data[begin - 1] != '/')
			begin--;
		parts[k] = fsdp_span(path.data + begin, end - begin);
		if (begin < 2)
			return false;
		end = begin - 1;
	}
	if (!fsdp_span_ends(parts[1], FSDP_SPAN(".pt")))
		return false;
	*ret_fqn = parts[0];
	*ret_state = fsdp_span(parts[1].data, parts[1].size - 3);
	return true;
}

/* The parameter that a bare list of elements is of; NULL: it has a shape of its own. */
static const struct parameter *shape_of(struct deepspeed *ds,
	const struct fsdp_names *names, struct fsdp_span fqn, const struct stored *stored)
{
	uint32_t id = fsdp_names_find_child(names, 0, fqn);
	const struct parameter *parameter = id != FSDP_NONE && id <= ds->parameter_count
						    ? &ds->parameters[id - 1]
						    : NULL;
	return parameter != NULL && stored->tensor.dims == 1 &&
			       stored->piece.box == FSDP_NONE &&
			       stored->piece.strides == FSDP_NONE &&
			       parameter->numel == stored->numel
		       ? parameter
		       : NULL;
}

static bool add_universal(struct deepspeed *ds, const struct fsdp_names *names,
	const struct stored *stored, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = ds->reading->model;
	struct fsdp_span fqn, state;
	char suffix[128] = "";
	if (!stored->has_piece || stored->piece.extent == FSDP_NONE ||
		(stored->name.size != 0 && !fsdp_span_is(stored->name, "param")))
		return true;
	const struct fsdp_extent *extent =
		fsdp_vec_at(&model->extents, stored->piece.extent);
	const struct fsdp_file_record *file = fsdp_vec_at(&model->files, extent->file);
	if (!split_path(file->path, &fqn, &state) || state.size > 100)
		return true;
	bool weight = fsdp_span_is(state, "fp32");
	if (!weight)
		snprintf(suffix, sizeof suffix, ".%.*s", (int)state.size,
			(const char *)state.data);
	struct fsdp_piece_record piece = stored->piece;
	piece.tensor = add_tensor(ds, weight ? "" : "state.", fqn, suffix,
		shape_of(ds, names, fqn, stored), stored,
		weight ? FSDP_ROLE_PARAM : FSDP_ROLE_OPTIM, ret_error);
	return piece.tensor != FSDP_NONE &&
	       fsdp_build_piece(model, &piece, ret_error) != FSDP_NONE;
}

static bool join_universal(struct deepspeed *ds, struct fsdp_error **ret_error)
{
	struct fsdp_names names;
	if (!fsdp_names_init(&names, ds->reading->scratch))
		return fsdp_arena_fail(ds->reading->scratch, ret_error);
	for (size_t i = 0; i < ds->parameter_count; i++)
		if (fsdp_names_child(&names, 0, ds->parameters[i].fqn) == FSDP_NONE)
			return fsdp_arena_fail(ds->reading->scratch, ret_error);
	for (size_t i = 0; i < ds->stored_count; i++)
		if (!add_universal(ds, &names, &ds->stored[i], ret_error))
			return false;
	ds->reading->model->format = (struct fsdp_format){
		.family = "deepspeed-universal",
		.title = "DeepSpeed checkpoint (universal)",
		.writer = "DeepSpeed",
	};
	ds->reading->model->world_size =
		(uint32_t)(ds->data_ranks > 0 && ds->data_ranks < RANKS_MAX
				   ? ds->data_ranks
				   : 1);
	return true;
}

/* ---- the whole ---- */

static void set_format(struct deepspeed *ds)
{
	static const char *const names[] = { "deepspeed-zero0", "deepspeed-zero1",
		"deepspeed-zero2", "deepspeed-zero3" };
	static const char *const titles[] = { "DeepSpeed checkpoint",
		"DeepSpeed checkpoint (ZeRO 1)", "DeepSpeed checkpoint (ZeRO 2)",
		"DeepSpeed checkpoint (ZeRO 3)" };
	struct fsdp_format *format = &ds->reading->model->format;
	size_t stage = ds->world_size == 0 || ds->stage < 0 || ds->stage > 3
			       ? 0
			       : (size_t)ds->stage;
	format->family = names[stage];
	format->title = titles[stage];
	format->writer = "DeepSpeed";
	ds->reading->model->world_size =
		ds->world_size != 0 ? ds->world_size
		: ds->data_ranks > 0 && ds->data_ranks < RANKS_MAX
			? (uint32_t)ds->data_ranks
			: 1;
}

static bool finish(struct fsdp_reading *reading, struct fsdp_error **ret_error)
{
	struct deepspeed *ds = reading->state;
	if (ds->is_root)
		return true;
	if (!take_stored(ds, ret_error) || !take_values(ds, ret_error))
		return false;
	if (ds->is_universal)
		return join_universal(ds, ret_error);
	bool parts = ds->stage == 3;
	take_paddings(ds);
	measure_groups(ds);
	find_states(ds, parts ? STATES_3 : STATES);
	if (ds->ranks.count < ds->world_size)
		fsdp_find(&reading->model->findings, FSDP_RULE_RANK_MISSING,
			FSDP_PLACE(.file = { 0 }),
			"%zu optimizer files are there, of at least %u ranks",
			ds->ranks.count, ds->world_size);
	if (ds->world_size != 0 &&
		(!(parts ? join_parts : join_cut)(ds, ret_error) ||
			!(parts ? join_frozen : add_frozen)(ds, ret_error) ||
			!join_shared(ds, ret_error)))
		return false;
	if (ds->round_robin && !parts)
		fsdp_find(&reading->model->findings, FSDP_RULE_METADATA_INCONSISTENT,
			FSDP_PLACE(.next = "take the weights from here, or from "
					   "zero_to_fp32.py"),
			"round_robin_gradients: param_slice_mappings do not follow the "
			"flat "
			"buffers, and DeepSpeed's universal converter, which follows "
			"them, "
			"scrambles the weights");
	set_format(ds);
	return add_module(ds, ret_error);
}

const struct fsdp_family fsdp_family_deepspeed = {
	.name = "deepspeed",
	.title = "DeepSpeed checkpoint",
	.bid = bid,
	.read = read,
	.finish = finish,
};

/* ---- the folders of the universal form ---- */

static int bid_parts(const struct fsdp_look *look)
{
	(void)look;
	return 0; /* only who knows what they are names them */
}

/* What the optimizer shares, and of ZeRO 3 dead weight, is left alone. */
static bool read_parts(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	for (size_t i = 0; i < look->folder->count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(look->folder, i);
		bool folder = entry.kind == FSDP_ENTRY_DIRECTORY;
		bool file = entry.kind == FSDP_ENTRY_FILE &&
			    fsdp_span_ends(entry.name, FSDP_SPAN(".pt")) &&
			    !fsdp_span_is(entry.name, "optimizer_state.pt");
		if (!folder && !file)
			continue;
		struct fsdp_child *child =
			fsdp_reading_add_child(reading, entry.name, FSDP_NONE, ret_error);
		if (child == NULL)
			return false;
		child->as = folder ? fsdp_family_deepspeed_parts.name : NULL;
	}
	return true;
}

const struct fsdp_family fsdp_family_deepspeed_parts = {
	.name = "deepspeed-parts",
	.title = "tensors of a DeepSpeed universal checkpoint",
	.bid = bid_parts,
	.read = read_parts,
};
